/* shape_like.c - kernels of the ops whose result takes its shape from a value. */
#include "lib/engine/cpu/isa/broadcast.h"

/* ---- sum_to ---------------------------------------------------------------------------------- */

/* x's dimensions, neighbours of one kind put together: kept in y, or summed over. Sums have one
 * tree, which depends on shapes alone: blocks in f32, their totals in f64. */
enum { COLS = 4 * LANES, BLOCK = 64, OUTPUTS = 16 };

typedef struct groups {
    int n;
    int64_t dim[ZT_MAX_RANK], stride[ZT_MAX_RANK]; /* elements of x */
    bool kept[ZT_MAX_RANK];
} groups;

static groups groups_of(const zt_type *x, const zt_type *y)
{
    groups axes = {0}; /* innermost first */
    int64_t stride = 1;
    for (int d = x->rank - 1; d >= 0; stride *= x->dim[d--]) {
        int own = d - (x->rank - y->rank);
        bool kept = own >= 0 && y->dim[own] == x->dim[d];
        if (x->dim[d] == 1) continue;
        if (axes.n && axes.kept[axes.n - 1] == kept) {
            axes.dim[axes.n - 1] *= x->dim[d];
            continue;
        }
        axes.dim[axes.n] = x->dim[d];
        axes.stride[axes.n] = stride;
        axes.kept[axes.n++] = kept;
    }
    return axes;
}

/* Where in x the i-th of all combinations of kept (or summed) groups from `first` on begins. */
static int64_t offset(const groups *g, int first, bool kept, int64_t i)
{
    int64_t at = 0;
    for (int k = first; k < g->n; k++) {
        if (g->kept[k] != kept) continue;
        at += i % g->dim[k] * g->stride[k];
        i /= g->dim[k];
    }
    return at;
}

static int64_t combinations(const groups *g, int first, bool kept)
{
    int64_t n = 1;
    for (int k = first; k < g->n; k++)
        if (g->kept[k] == kept) n *= g->dim[k];
    return n;
}

static void sum_to_setup(zt_cpu_call *call)
{
    groups axes = groups_of(&call->in[0].type, &call->out[0].type);
    int64_t count = zt_type_count(&call->out[0].type);
    bool columns = axes.n && axes.kept[0];
    call->local_bytes = CHUNK * sizeof(float);
    call->items[0] = columns && count ? count / axes.dim[0] * ((axes.dim[0] + COLS - 1) / COLS) : (count + OUTPUTS - 1) / OUTPUTS;
}

static void add_into(float *sum, const float *x, int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(sum + i, vf_add(vf_load(sum + i), vf_load(x + i)));
    if (i < n) vf_store(sum + i, vf_add(vf_load(sum + i), vf_load_n(x + i, n - i)));
}

/* n neighbouring outputs from x's element `at` on: rows of x added to each other. */
static void sum_columns(const zt_cpu_call *call, const groups *g, int64_t at, int n, float *y, float *scratch)
{
    double total[COLS] = {0};
    int64_t rows = combinations(g, 1, false);
    for (int64_t r = 0; r < rows; r += BLOCK) {
        float sum[COLS] = {0};
        for (int64_t i = r; i < r + BLOCK && i < rows; i++)
            add_into(sum, operand(&call->in[0], at + offset(g, 1, false, i), n, scratch), n);
        for (int j = 0; j < n; j++) total[j] += sum[j];
    }
    for (int j = 0; j < n; j++) y[j] = (float)total[j];
}

static float sum_chunk(const float *x, int n)
{
    vf sum = vf_set(0);
    int i = 0;
    for (; i + LANES <= n; i += LANES) sum = vf_add(sum, vf_load(x + i));
    if (i < n) sum = vf_add(sum, vf_load_n(x + i, n - i));
    return vf_sum(sum);
}

/* One output from x's element `at` on: runs of neighbours. */
static float sum_run(const zt_cpu_call *call, const groups *g, int64_t at, float *scratch)
{
    double total = 0;
    int64_t runs = g->n ? combinations(g, 1, false) : 1, m = g->n ? g->dim[0] : 1;
    for (int64_t r = 0; r < runs; r++) {
        int64_t from = at + offset(g, 1, false, r);
        for (int64_t i = 0; i < m; i += CHUNK) {
            int n = (int)(m - i < CHUNK ? m - i : CHUNK);
            total += sum_chunk(operand(&call->in[0], from + i, n, scratch), n);
        }
    }
    return (float)total;
}

static void sum_to_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    groups axes = groups_of(&call->in[0].type, &call->out[0].type);
    const zt_dtype_info *info = zt_dtype_get(call->out[0].type.dtype);
    int64_t count = zt_type_count(&call->out[0].type);
    float y[COLS];
    (void)phase;
    for (int64_t item = begin; item < end; item++) {
        if (axes.n && axes.kept[0]) {
            int64_t pieces = (axes.dim[0] + COLS - 1) / COLS, row = item / pieces;
            int64_t i = item % pieces * COLS;
            int n = (int)(axes.dim[0] - i < COLS ? axes.dim[0] - i : COLS);
            sum_columns(call, &axes, offset(&axes, 1, true, row) + i, n, y, local);
            info->encode(y, element(&call->out[0], row * axes.dim[0] + i), n);
            continue;
        }
        int64_t first = item * OUTPUTS;
        int n = (int)(count - first < OUTPUTS ? count - first : OUTPUTS);
        for (int j = 0; j < n; j++) y[j] = sum_run(call, &axes, offset(&axes, 0, true, first + j), local);
        info->encode(y, element(&call->out[0], first), n);
    }
}

/* ---- fill_like ------------------------------------------------------------------------------- */

static void fill_like_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_fill_like_attrs *fill_like = call->attrs;
    int64_t count = zt_type_count(&call->out[0].type);
    (void)phase;
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        float *y = result(&call->out[0], at, local);
        for (int64_t i = 0; i < n; i++) y[i] = (float)fill_like->value;
        put(&call->out[0], at, n, y);
    }
}

/* ---- where: elements are chosen as bits ------------------------------------------------------ */

/* ---- broadcast_to ---------------------------------------------------------------------------- */

static bool plain_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in, (void)out;
    return true; /* block types are refused by the row */
}

static void broadcast_to_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    size_t bytes = (size_t)zt_dtype_get(call->out[0].type.dtype)->block_bytes;
    (void)phase, (void)local;
    for (int64_t item = begin; item < end; item++) {
        piece part = piece_at(call, item);
        const char *x = element(&call->in[0], part.in[0]);
        char *y = element(&call->out[0], part.at);
        size_t all = (size_t)part.n * bytes, done = call->aux[AUX_STEP] ? all : bytes;
        memcpy(y, x, done);
        for (; done < all; done *= 2) memcpy(y + done, y, done < all - done ? done : all - done);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_shape_like)[] = {
    {.op = ZT_OP_sum_to, .has = narrow_has, .setup = sum_to_setup, .run = sum_to_run},
    {.op = ZT_OP_fill_like, .has = narrow_has, .setup = chunks_setup, .run = fill_like_run},
    {.op = ZT_OP_broadcast_to, .has = plain_has, .setup = broadcast_setup, .run = broadcast_to_run},
    {0},
};
