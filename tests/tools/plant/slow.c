/* slow.c - a planted slow-down, for bench/compare-noise alone: zt-bench linked with this is the
 * same tool, but for one op's kernel that takes longer by a share.
 *
 *     ZT_PLANT=matmul:0.1     op, share of its own time that it is idle after each piece
 */
#include "tests/tools/plant/plant.h"

static double share;

static bool plant_read(const char *text, char name[64]) { return sscanf(text, "%63[^:]:%lf", name, &share) == 2; }

static void plant_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    double start = zt_seconds();
    plant_whole->run(c, phase, begin, end, local);
    double now = zt_seconds(), until = now + share * (now - start);
    while (now < until) now = zt_seconds();
}
