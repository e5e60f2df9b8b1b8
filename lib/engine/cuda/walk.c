/* walk.c - where the elements of operands that broadcast are. */
#include "lib/engine/cuda/walk.h"

/* Elements from one index to the next of dimension d of y in operand t, 0 where it is repeated. */
static int64_t step_of(const zt_type *t, const zt_type *y, int d)
{
    int at = d - (y->rank - t->rank);
    if (at < 0 || t->dim[at] == 1) return 0;
    int64_t step = 1;
    for (int k = at + 1; k < t->rank; k++) step *= t->dim[k];
    return step;
}

zt_cu_walk zt_cu_walk_of(const zt_type *const in[], int n_in, const zt_type *y)
{
    zt_cu_walk w = {0};
    for (int d = y->rank - 1; d >= 0; d--) {
        int64_t size = y->dim[d], step[ZT_MAX_IN] = {0};
        bool merge = w.n > 0;
        if (size == 1) continue;
        for (int k = 0; k < n_in; k++) {
            if (in[k]) step[k] = step_of(in[k], y, d);
            merge = merge && step[k] == w.step[k][w.n - 1] * w.dim[w.n - 1];
        }
        for (int k = 0; k < n_in && !merge; k++) w.step[k][w.n] = step[k];
        if (merge)
            w.dim[w.n - 1] *= size;
        else
            w.dim[w.n++] = size;
    }
    if (w.n == 0) w.dim[w.n++] = 1;
    return w;
}

bool zt_cu_walk_short(const zt_cu_walk *w, int k, int64_t *each, int64_t *size)
{
    int d = 0;
    *each = *size = 1;
    for (; d < w->n && w->step[k][d] == 0; d++) *each *= w->dim[d];
    for (; d < w->n && w->step[k][d] == *size; d++) *size *= w->dim[d];
    for (; d < w->n; d++)
        if (w->step[k][d] != 0) return false;
    return true;
}

zt_cu_dim zt_cu_spread(const zt_cu_call *c, int64_t n, int64_t each)
{
    zt_cu_dim g = zt_cu_grid(n, each);
    const unsigned most = (unsigned)c->e->processors * 32;
    if (g.x > most) g.x = most;
    return g;
}

zt_status zt_cu_launch_each(zt_cu_call *c, const char *name, int64_t n, const void *args,
                            size_t bytes)
{
    enum { THREADS = 256 };
    return zt_cu_launch(c, name, zt_cu_spread(c, n, THREADS), (zt_cu_dim){THREADS, 1, 1}, 0, args,
                        bytes);
}

bool zt_cu_is_plain(zt_dtype t) { return t <= ZT_BF16 || (t >= ZT_I64 && t <= ZT_BOOL); }
bool zt_cu_is_wide_float(zt_dtype t) { return t <= ZT_BF16; }

int zt_cu_float_index(zt_dtype t) { return t == ZT_F64 ? 3 : (int)t - (int)ZT_F32; }
