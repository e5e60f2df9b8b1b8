/* triangular.c - kernels of tril and triu. Elements are bytes. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/place.h"

/* ---- tril, triu: one row an item ------------------------------------------------------------- */

static void rows_setup(zt_cpu_call *call)
{
    const zt_type *y = &call->out[0].type;
    call->items[0] = zt_type_count(y) ? count_of(y, 0, y->rank - 1) : 0;
}

/* sign 1: the entries up to the diagonal stay; -1: those from it on. */
static void triangle(zt_cpu_call *call, int sign, int64_t diagonal, int64_t begin, int64_t end)
{
    const zt_type *y = &call->out[0].type;
    int64_t m = y->dim[y->rank - 1], n = y->dim[y->rank - 2], size = size_of(y);
    for (int64_t r = begin; r < end; r++) {
        int64_t row = r % n, at = diagonal >= m ? m : diagonal <= -n ? -1 : row + diagonal;
        int64_t first = sign > 0 ? 0 : at, last = sign > 0 ? at + 1 : m;
        first = first < 0 ? 0 : first > m ? m : first;
        last = last > m ? m : last < first ? first : last;
        const char *from = (const char *)call->in[0].data + r * m * size;
        char *to = (char *)call->out[0].data + r * m * size;
        memset(to, 0, (size_t)(first * size));
        memcpy(to + first * size, from + first * size, (size_t)((last - first) * size));
        memset(to + last * size, 0, (size_t)((m - last) * size));
    }
}

static void tril_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    triangle(call, 1, ((const zt_tril_attrs *)call->attrs)->diagonal, begin, end);
}

static void triu_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    triangle(call, -1, ((const zt_triu_attrs *)call->attrs)->diagonal, begin, end);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_triangular)[] = {
    {.op = ZT_OP_tril, .has = any_has, .setup = rows_setup, .run = tril_run},
    {.op = ZT_OP_triu, .has = any_has, .setup = rows_setup, .run = triu_run},
    {0},
};
