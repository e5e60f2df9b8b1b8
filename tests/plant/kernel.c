/* kernel.c - a planted error, for tests alone: zt-trace linked with this (--wrap=zt_cpu_find) is
 * the same tool, but for one kernel of the cpu engine that is wrong in one element of its first output.
 *
 *     ZT_PLANT=rms_norm:5:1.001     op, element, what it is multiplied by
 *
 * The element is spoiled when the last item of the last phase is done: run it with one thread.
 */
#include "lib/engine/cpu/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const zt_cpu_kernel *__real_zt_cpu_find(const zt_cpu_engine *e, zt_op op, const void *attrs,
                                        const zt_type *const in[], const zt_type out[]);
const zt_cpu_kernel *__wrap_zt_cpu_find(const zt_cpu_engine *e, zt_op op, const void *attrs,
                                        const zt_type *const in[], const zt_type out[]);

static zt_cpu_kernel spoiled; /* one at a time: each of a walk's plans has one step */
static const zt_cpu_kernel *whole;
static long element;
static float factor;

static void run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    whole->run(c, phase, begin, end, local);
    if (phase == c->n_phases - 1 && end == c->items[phase] && c->out[0].type.dtype == ZT_F32 &&
        element < zt_type_count(&c->out[0].type))
        ((float *)c->out[0].data)[element] *= factor;
}

static bool is_planted(zt_op op)
{
    char name[64];
    const char *text = getenv("ZT_PLANT");
    return text && sscanf(text, "%63[^:]:%ld:%f", name, &element, &factor) == 3 &&
           !strcmp(name, zt_op_info(op)->name);
}

const zt_cpu_kernel *__wrap_zt_cpu_find(const zt_cpu_engine *e, zt_op op, const void *attrs,
                                        const zt_type *const in[], const zt_type out[])
{
    const zt_cpu_kernel *k = __real_zt_cpu_find(e, op, attrs, in, out);
    if (!k || k == &zt_cpu_wide || k == &zt_cpu_plain_loop || !is_planted(op)) return k;
    whole = k;
    spoiled = *k;
    spoiled.run = run;
    return &spoiled;
}
