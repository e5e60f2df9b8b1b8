/* pool.c - rows of max pooling and of its way back; what all pools share. pool_mean.c: averages;
 * pool_smooth.c: the log of a sum of exponentials. */
#include "lib/ops/pool.h"

#include <math.h>
#include <string.h>

/* ---- shared ---------------------------------------------------------------------------------- */

int64_t zt_pool_planes(const zt_type *x) { return x->dim[0] * x->dim[1]; }

zt_status zt_pool_infer(zt_ctx *ctx, const zt_window_lists *lists, const zt_ints *kernel, bool ceil, const zt_type *x, zt_type *y)
{
    zt_window window = {.n = x->rank - 2};
    if (x->rank < 3) return zt_row_fail(ctx, ZT_ESHAPE, "x has %d dimensions: must have at least 3", x->rank);
    if (kernel->n != window.n)
        return zt_row_fail(ctx, ZT_ESHAPE, "kernel has %lld numbers, expected %d (spatial dimensions)", (long long)kernel->n,
                           window.n);
    memcpy(window.in, x->dim + 2, (size_t)window.n * sizeof *window.in);
    memcpy(window.k, kernel->v, (size_t)window.n * sizeof *window.k);
    zt_status status = zt_window_infer(ctx, lists, ceil, &window);
    if (status) return status;
    *y = *x;
    memcpy(y->dim + 2, window.out, (size_t)window.n * sizeof *window.out);
    return ZT_OK;
}

zt_status zt_pool_infer_back(zt_ctx *ctx, const zt_window_lists *lists, const zt_ints *kernel, bool ceil, const char *name,
                             const zt_type *y, const zt_type *like)
{
    zt_type want;
    zt_status status = zt_pool_infer(ctx, lists, kernel, ceil, like, &want);
    want.dtype = y->dtype;
    if (status || zt_type_equal(&want, y)) return status;
    return zt_row_fail(ctx, ZT_ESHAPE, "%s does not have the output shape of the pooling", name);
}

static const zt_pool_case cases[] = {
    /* n, N, C, x, kernel, stride, pad, pad_end, dilation, ceil_mode */
    {1, 2, 3, {7}, {1, {2}}, {0}, {0}, {0}, {0}, 0, ZT_F32},
    {2, 1, 2, {4, 4}, {2, {2, 2}}, {2, {2, 2}}, {0}, {0}, {0}, 0, ZT_F32},
    {2, 2, 3, {7, 9}, {2, {3, 3}}, {2, {2, 2}}, {2, {1, 1}}, {0}, {0}, 0, ZT_F32},
    {2, 1, 2, {5, 6}, {2, {3, 2}}, {2, {1, 2}}, {2, {1, 0}}, {2, {2, 1}}, {2, {1, 2}}, 0, ZT_F32},
    {2, 1, 2, {6, 5}, {2, {3, 2}}, {2, {2, 2}}, {2, {0, 1}}, {2, {1, 0}}, {0}, 1, ZT_F32},
    {2, 1, 1, {2, 2}, {2, {1, 1}}, {2, {2, 2}}, {0}, {0}, {0}, 1, ZT_F32},
    {2, 1, 1, {3, 3}, {2, {3, 3}}, {0}, {2, {-1, 3}}, {2, {2, 0}}, {0}, 0, ZT_F32},
    {3, 1, 2, {4, 3, 5}, {3, {2, 2, 3}}, {3, {2, 1, 2}}, {3, {0, 1, 1}}, {0}, {0}, 0, ZT_F32},
    {5, 1, 1, {2, 3, 2, 2, 3}, {5, {2, 1, 2, 1, 2}}, {0}, {0}, {0}, {0}, 0, ZT_F32},
    {8, 1, 1, {2, 2, 1, 2, 2, 1, 2, 3}, {8, {1, 2, 1, 2, 1, 1, 2, 2}}, {0}, {0}, {0}, {0}, 0, ZT_F32},
    {2, 0, 2, {4, 4}, {2, {2, 2}}, {0}, {0}, {0}, {0}, 0, ZT_F32},
    {1, 2, 0, {4}, {1, {2}}, {0}, {0}, {0}, {0}, 0, ZT_F32},
    {2, 1, 3, {5, 5}, {2, {2, 2}}, {2, {2, 2}}, {0}, {0}, {0}, 0, ZT_F64},
    {2, 2, 2, {6, 7}, {2, {3, 3}}, {2, {2, 2}}, {2, {1, 1}}, {0}, {0}, 0, ZT_F16},
    {2, 1, 2, {6, 7}, {2, {2, 3}}, {0}, {2, {1, 1}}, {0}, {0}, 0, ZT_BF16},
    {2, 2, 9, {23, 40}, {2, {3, 3}}, {2, {2, 2}}, {2, {1, 1}}, {0}, {0}, 0, ZT_F32},
    {2, 1, 5, {20, 50}, {2, {3, 5}}, {0}, {2, {1, 2}}, {0}, {0}, 0, ZT_F32},
};

const zt_pool_case *zt_pool_case_at(int i) { return i >= 0 && i < ZT_LEN(cases) ? &cases[i] : NULL; }

void zt_pool_case_in(zt_case *test_case, int k, const zt_pool_case *row, zt_fill fill)
{
    int64_t dim[ZT_MAX_RANK] = {row->N, row->C};
    memcpy(dim + 2, row->x, (size_t)row->n * sizeof *dim);
    zt_case_in(test_case, k, fill, 0, row->dtype, 2 + row->n, dim);
}

void zt_pool_case_out(zt_case *test_case, int k, const zt_pool_case *row, zt_fill fill)
{
    zt_type y = {0};
    const zt_window_lists lists = ZT_WINDOW_LISTS(row);
    zt_pool_case_in(test_case, k, row, fill);
    zt_pool_infer(NULL, &lists, &row->kernel, row->ceil_mode, &test_case->in[k], &y);
    test_case->in[k] = y;
}

/* ---- max_pool -------------------------------------------------------------------------------- */

static zt_status max_pool_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_max_pool_attrs *max_pool = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(max_pool);
    zt_status status = zt_row_want_plain(ctx, "x", in[0]);
    if (!status) status = zt_pool_infer(ctx, &lists, &max_pool->kernel, max_pool->ceil_mode, in[0], &out[0]);
    if (status) return status;
    int64_t plane = 1;
    for (int d = 2; d < in[0]->rank; d++)
        if (!zt_mul_i64(plane, in[0]->dim[d], &plane) || plane > INT32_MAX)
            return zt_row_fail(ctx, ZT_ESHAPE, "a plane has too many elements for i32 indices");
    out[1] = zt_type_make(ZT_I32, out[0].rank, out[0].dim);
    return ZT_OK;
}

/* One window of a plane. */
typedef struct max_one {
    const zt_arg *x;
    int64_t plane, at; /* where the plane begins; the largest so far, -1: none */
} max_one;

/* Is x[a] above x[b]? A NaN is above all. */
static bool is_larger(const zt_arg *x, int64_t a, int64_t b)
{
    if (x->i) return x->i[a] > x->i[b];
    return x->f[a] > x->f[b] || (isnan(x->f[a]) && !isnan(x->f[b]));
}

static void max_meet(void *user, int64_t o, int64_t tap, int64_t i)
{
    max_one *m = user;
    (void)o, (void)tap;
    if (m->at < 0 || is_larger(m->x, m->plane + i, m->plane + m->at)) m->at = i;
}

/* The least value of an integer type. */
static int64_t lowest_value(zt_dtype dtype)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    return info->kind == 'I' ? -((int64_t)1 << (8 * info->block_bytes - 2)) * 2 : 0;
}

static void put_max(const zt_arg *x, int64_t from, zt_arg *y, int64_t to)
{
    if (y->f)
        y->f[to] = from < 0 ? -INFINITY : x->f[from];
    else
        y->i[to] = from < 0 ? lowest_value(x->type->dtype) : x->i[from];
}

static void max_pool_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_max_pool_attrs *max_pool = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(max_pool);
    const zt_type *y = out[0].type ? out[0].type : out[1].type;
    zt_window window = zt_window_of(&lists, in[0].type, y, max_pool->kernel.v);
    int64_t count = zt_type_count(y);
    (void)error;
    for (int64_t e = 0; e < count; e++) {
        max_one m = {&in[0], e / window.n_out * window.n_in, -1};
        zt_window_one(&window, e % window.n_out, max_meet, &m);
        if (out[0].type) put_max(&in[0], m.at < 0 ? -1 : m.plane + m.at, &out[0], e);
        if (out[1].type) out[1].i[e] = m.at;
    }
}

static double max_pool_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    const zt_max_pool_attrs *max_pool = attrs;
    double taps = 1;
    (void)in;
    for (int d = 0; d < max_pool->kernel.n; d++) taps *= (double)max_pool->kernel.v[d];
    return taps * (double)zt_type_count(out);
}

/* The pools' cases, then one with integers. */
static bool max_pool_cases(int i, zt_case *test_case)
{
    static const zt_dtype integers[] = {ZT_I32, ZT_U8, ZT_I8, ZT_I64};
    int more = i - ZT_LEN(cases);
    if (more >= ZT_LEN(integers)) return false;
    const zt_pool_case *row = &cases[more < 0 ? i : 2];
    zt_max_pool_attrs a = {row->kernel, row->stride, row->pad, row->pad_end, row->dilation, row->ceil_mode};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_pool_case_in(test_case, 0, row, ZT_FILL_NORMAL);
    if (more < 0) return true;
    test_case->in[0].dtype = integers[more];
    test_case->fill[0] = ZT_FILL_IDS;
    test_case->limit[0] = 100;
    return true;
}

static void max_pool_vjp(zt_vjp *vjp)
{
    const zt_max_unpool_attrs a = {{"zero"}}; /* a window of nothing has index -1 */
    if (vjp->dy[0] < 0) return;
    vjp->dx[0] = zt_build_max_unpool(vjp->emit, vjp->dy[0], vjp->out[1], vjp->in[0], &a);
}

const zt_opdef zt_op_max_pool = {
    .synopsis = "y[n,c,o] = max of x[n,c,i] over window o, i = o*stride+k*dilation-pad for k < "
                "kernel; output i is its index in the plane x[n,c] in row-major order: the first of "
                "equal values, NaN wins; an empty window gives -inf (the least integer) and index "
                "-1; x[N,C,d1..d8] any but block types; stride, pad, pad_end and dilation as in "
                "conv; ceil_mode=1: a last partial window counts if it starts inside x or its left "
                "padding",
    .n_required = 1,
    .infer = max_pool_infer,
    .ref = max_pool_ref,
    .flops = max_pool_flops,
    .cases = max_pool_cases,
    .vjp = max_pool_vjp,
};

/* ---- max_unpool, plane_gather: along the indices, back and forth ----------------------------- */

static const char *const oob_words[] = {"error", "zero"};

/* i is i32 of small's shape, and large has its batch and channels. */
static zt_status infer_indexed(zt_ctx *ctx, const zt_enum_string *oob, const zt_type *small, const zt_type *i,
                               const zt_type *large)
{
    zt_status status = zt_row_word(ctx, "oob", oob, oob_words, ZT_LEN(oob_words));
    if (!status) status = zt_row_want(ctx, "i", i, ZT_I32, -1);
    if (status) return status;
    if (i->rank < 3 || large->rank < 3) return zt_row_fail(ctx, ZT_ESHAPE, "must have at least 3 dimensions");
    zt_type want = zt_type_make(ZT_I32, small->rank, small->dim);
    if (!zt_type_equal(&want, i)) return zt_row_fail(ctx, ZT_ESHAPE, "i must have the shape of x");
    if (i->dim[0] != large->dim[0] || i->dim[1] != large->dim[1])
        return zt_row_fail(ctx, ZT_ESHAPE, "i must have the batch and channels of the tensor it indexes");
    return ZT_OK;
}

static int64_t plane_of(const zt_type *type)
{
    int64_t n = 1;
    for (int d = 2; d < type->rank; d++) n *= type->dim[d];
    return n;
}

/* Element e of the small value: where in the large one; -1, and trouble if asked: out of range. */
static int64_t pointed_place(const zt_arg *i, int64_t e, const zt_type *large, const zt_enum_string *oob, zt_runtime_error *error)
{
    int64_t plane = plane_of(large), at = i->i[e];
    if (at >= 0 && at < plane) return e / plane_of(i->type) * plane + at;
    if (oob->s[0] == 'e') zt_row_runtime_error(error, "index", at, plane);
    return -1;
}

static zt_status max_unpool_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_max_unpool_attrs *max_unpool = attrs;
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    if (!status) status = infer_indexed(ctx, &max_unpool->oob, in[0], in[1], in[2]);
    out[0] = zt_type_make(in[0]->dtype, in[2]->rank, in[2]->dim);
    return status;
}

static void max_unpool_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_max_unpool_attrs *max_unpool = attrs;
    int64_t count = zt_type_count(in[0].type);
    memset(out[0].f, 0, (size_t)zt_type_count(out[0].type) * sizeof(double));
    for (int64_t e = 0; e < count; e++) {
        int64_t at = pointed_place(&in[1], e, out[0].type, &max_unpool->oob, error);
        if (at >= 0) out[0].f[at] += in[0].f[e];
    }
}

/* Shapes of the small and the large value, and an index further than there is. */
static const struct {
    zt_case_type small, large;
    int64_t limit;
} indexed[] = {
    {{ZT_F32, 3, {2, 3, 4}}, {ZT_F32, 3, {2, 3, 9}}, 9},
    {{ZT_F32, 4, {2, 3, 3, 4}}, {ZT_F32, 4, {2, 3, 6, 7}}, 42},
    {{ZT_F32, 4, {1, 2, 5, 5}}, {ZT_F32, 4, {1, 2, 2, 2}}, 4},
    {{ZT_F32, 4, {1, 2, 3, 5}}, {ZT_F32, 4, {1, 2, 4, 2}}, 12},
    {{ZT_F32, 4, {1, 33, 17, 20}}, {ZT_F32, 4, {1, 33, 34, 40}}, 1360},
    {{ZT_F32, 3, {0, 3, 4}}, {ZT_F32, 3, {0, 3, 9}}, 9},
    {{ZT_F32, 3, {2, 3, 0}}, {ZT_F32, 3, {2, 3, 5}}, 1},
    {{ZT_F64, 3, {1, 2, 4}}, {ZT_F64, 3, {1, 2, 7}}, 7},
    {{ZT_F16, 4, {2, 3, 3, 4}}, {ZT_F16, 4, {2, 3, 6, 7}}, 42},
};

static bool max_unpool_cases(int i, zt_case *test_case)
{
    if (i >= ZT_LEN(indexed)) return false;
    const zt_case_type *small = &indexed[i].small;
    bool far = indexed[i].limit > 8 && indexed[i].large.dim[3] == 2;
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, small);
    zt_case_in(test_case, 1, ZT_FILL_IDS, indexed[i].limit, ZT_I32, small->rank, small->dim);
    zt_case_type_in(test_case, 2, ZT_FILL_NORMAL, &indexed[i].large);
    zt_max_unpool_attrs a = {{"error"}};
    if (far) strcpy(a.oob.s, "zero");
    zt_case_attrs(test_case, &a, sizeof a);
    return true;
}

static void max_unpool_vjp(zt_vjp *vjp)
{
    const zt_max_unpool_attrs *attrs = vjp->attrs;
    vjp->dx[0] = zt_build_plane_gather(vjp->emit, vjp->dy[0], vjp->in[1], &(zt_plane_gather_attrs){attrs->oob});
}

const zt_opdef zt_op_max_unpool = {
    .synopsis = "y = zeros in the shape of like with y[n,c,i[n,c,o]] += x[n,c,o] in the order of o; "
                "i i32 of the shape of x has row-major indices into a plane, as from max_pool; x and "
                "y of the same plain float type; an index out of range is an error, or with oob=zero "
                "adds nothing",
    .n_required = 3,
    .infer = max_unpool_infer,
    .ref = max_unpool_ref,
    .flops = zt_row_in_flops,
    .cases = max_unpool_cases,
    .vjp = max_unpool_vjp,
    .constant = 4,
};

static zt_status plane_gather_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_plane_gather_attrs *plane_gather = attrs;
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    if (!status) status = infer_indexed(ctx, &plane_gather->oob, in[1], in[1], in[0]);
    out[0] = zt_type_make(in[0]->dtype, in[1]->rank, in[1]->dim);
    return status;
}

static void plane_gather_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_plane_gather_attrs *plane_gather = attrs;
    int64_t count = zt_type_count(out[0].type);
    for (int64_t e = 0; e < count; e++) {
        int64_t at = pointed_place(&in[1], e, in[0].type, &plane_gather->oob, error);
        out[0].f[e] = at < 0 ? 0 : in[0].f[at];
    }
}

static bool plane_gather_cases(int i, zt_case *test_case)
{
    if (!max_unpool_cases(i, test_case)) return false;
    test_case->in[0] = test_case->in[2];
    test_case->fill[2] = ZT_FILL_ABSENT;
    return true;
}

static void plane_gather_vjp(zt_vjp *vjp)
{
    const zt_plane_gather_attrs *attrs = vjp->attrs;
    const zt_max_unpool_attrs back = {attrs->oob};
    vjp->dx[0] = zt_build_max_unpool(vjp->emit, vjp->dy[0], vjp->in[1], vjp->in[0], &back);
}

const zt_opdef zt_op_plane_gather = {
    .synopsis = "y[n,c,o] = x[n,c,i[n,c,o]]; i i32 [N,C,...] has row-major indices into the plane "
                "x[n,c], as from max_pool; y has the shape of i and the plain float type of x; an "
                "index out of range is an error, or with oob=zero reads 0",
    .n_required = 2,
    .infer = plane_gather_infer,
    .ref = plane_gather_ref,
    .cases = plane_gather_cases,
    .vjp = plane_gather_vjp,
};
