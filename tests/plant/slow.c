/* slow.c - a planted slow-down, for bench/compare-noise alone: zt-bench linked with this
 * (--wrap=zt_cpu_find) is the same tool, but for one op's kernel that takes longer by a share.
 *
 *     ZT_PLANT=matmul:0.1     op, share of its own time that it is idle after each piece
 */
#include "lib/engine/cpu/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const zt_cpu_kernel *__real_zt_cpu_find(const zt_cpu_engine *e, zt_op op, const void *attrs,
                                        const zt_type *const in[], const zt_type out[]);
const zt_cpu_kernel *__wrap_zt_cpu_find(const zt_cpu_engine *e, zt_op op, const void *attrs,
                                        const zt_type *const in[], const zt_type out[]);

static zt_cpu_kernel slow; /* of the one op, which has one kernel in a run of this */
static const zt_cpu_kernel *whole;
static double share;

static void run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    double start = zt_seconds();
    whole->run(c, phase, begin, end, local);
    double now = zt_seconds(), until = now + share * (now - start);
    while (now < until) now = zt_seconds();
}

static bool is_planted(zt_op op)
{
    char name[64];
    const char *text = getenv("ZT_PLANT");
    return text && sscanf(text, "%63[^:]:%lf", name, &share) == 2 &&
           !strcmp(name, zt_op_info(op)->name);
}

const zt_cpu_kernel *__wrap_zt_cpu_find(const zt_cpu_engine *e, zt_op op, const void *attrs,
                                        const zt_type *const in[], const zt_type out[])
{
    const zt_cpu_kernel *k = __real_zt_cpu_find(e, op, attrs, in, out);
    if (!k || k == &zt_cpu_wide || k == &zt_cpu_plain_loop || !is_planted(op)) return k;
    whole = k;
    slow = *k;
    slow.run = run;
    return &slow;
}
