/* kernel.c - a planted error, for tests alone: zt-trace linked with this is the same tool, but for
 * one kernel of the cpu engine that is wrong in one element of its first output.
 *
 *     ZT_PLANT=rms_norm:5:1.001     op, element, what it is multiplied by
 *
 * The element is spoiled when the last item of the last phase is done: run it with one thread.
 */
#include "tests/tools/plant/plant.h"

static long element;
static float factor;

static bool plant_read(const char *text, char name[64]) { return sscanf(text, "%63[^:]:%ld:%f", name, &element, &factor) == 3; }

static void plant_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    plant_whole->run(c, phase, begin, end, local);
    if (phase == c->n_phases - 1 && end == c->items[phase] && c->out[0].type.dtype == ZT_F32 &&
        element < zt_type_count(&c->out[0].type))
        ((float *)c->out[0].data)[element] *= factor;
}
