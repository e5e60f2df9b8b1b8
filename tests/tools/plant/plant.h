/* plant.h - a tool linked with --wrap=zt_cpu_find is the same tool, but for the kernels of one op
 * of the cpu engine, which run plant_run instead: the file that includes this says what that does
 * beside `plant_whole`, the kernel as it is, and reads the environment's ZT_PLANT=OP:... */
#ifndef ZT_TESTS_PLANT_H
#define ZT_TESTS_PLANT_H

#include "lib/engine/cpu/cpu_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const zt_cpu_kernel *__real_zt_cpu_find(const zt_cpu_engine *e, zt_op op, const void *attrs, const zt_type *const in[],
                                        const zt_type out[]);
const zt_cpu_kernel *__wrap_zt_cpu_find(const zt_cpu_engine *e, zt_op op, const void *attrs, const zt_type *const in[],
                                        const zt_type out[]);

static const zt_cpu_kernel *plant_whole;                 /* one at a time: a run has one kernel of the one op */
static bool plant_read(const char *text, char name[64]); /* all of ZT_PLANT; false: not so */
static void plant_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local);

const zt_cpu_kernel *__wrap_zt_cpu_find(const zt_cpu_engine *e, zt_op op, const void *attrs, const zt_type *const in[],
                                        const zt_type out[])
{
    static zt_cpu_kernel planted;
    char name[64];
    const char *text = getenv("ZT_PLANT");
    const zt_cpu_kernel *k = __real_zt_cpu_find(e, op, attrs, in, out);
    if (!k || k == &zt_cpu_convert_operands || k == &zt_cpu_plain_loop || !text || !plant_read(text, name) ||
        strcmp(name, zt_op_info(op)->name) != 0)
        return k;
    plant_whole = k;
    planted = *k;
    planted.run = plant_run;
    return &planted;
}

#endif
