/* shape_like.c - rows of the ops whose result takes its shape from a value: what gradients are made of.
 *
 * A program's dims may be symbols, so the gradient of broadcasting cannot name the axes to sum; it
 * says "to the shape of this value" and binding finds them.
 */
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

/* Can `from` be broadcast to `to`'s shape: aligned at the last dimensions, 1 or no dimension
 * repeated. */
static bool broadcasts_to(const zt_type *from, const zt_type *to)
{
    if (from->rank > to->rank) return false;
    for (int d = 1; d <= from->rank; d++) {
        int64_t n = from->dim[from->rank - d];
        if (n != 1 && n != to->dim[to->rank - d]) return false;
    }
    return true;
}

static zt_status refuse_shapes(zt_ctx *ctx, const zt_type *from, const zt_type *to)
{
    char a[ZT_TYPE_TEXT], b[ZT_TYPE_TEXT];
    return zt_row_fail(ctx, ZT_ESHAPE, "%s cannot be broadcast to %s", zt_type_text(from, a), zt_type_text(to, b));
}

/* Walks the elements of `big` in order: where the value that was broadcast has each. */
typedef struct element_pairs {
    const zt_type *big;
    int64_t stride[ZT_MAX_RANK], at[ZT_MAX_RANK], small;
} element_pairs;

static element_pairs start_pairs(const zt_type *small, const zt_type *big)
{
    element_pairs elements = {.big = big};
    zt_row_strides(small, big, elements.stride);
    return elements;
}

static void next_pair(element_pairs *elements)
{
    for (int d = elements->big->rank - 1; d >= 0; d--) {
        elements->small += elements->stride[d];
        if (++elements->at[d] < elements->big->dim[d]) return;
        elements->small -= elements->at[d] * elements->stride[d];
        elements->at[d] = 0;
    }
}

/* Small shapes and what they are broadcast to. */
static const zt_case_type pairs[][2] = {
    {{ZT_F32, 2, {2, 33}}, {ZT_F32, 2, {2, 33}}},        {{ZT_F32, 1, {33}}, {ZT_F32, 2, {5, 33}}},
    {{ZT_F32, 2, {5, 1}}, {ZT_F32, 2, {5, 33}}},         {{ZT_F32, 2, {1, 1}}, {ZT_F32, 3, {2, 3, 4}}},
    {{ZT_F32, 0, {0}}, {ZT_F32, 2, {9, 130}}},           {{ZT_F32, 0, {0}}, {ZT_F32, 0, {0}}},
    {{ZT_F32, 3, {3, 1, 4}}, {ZT_F32, 4, {2, 3, 5, 4}}}, {{ZT_F32, 1, {576}}, {ZT_F32, 2, {1030, 576}}},
    {{ZT_F32, 2, {3, 1}}, {ZT_F32, 2, {3, 5000}}},       {{ZT_F32, 1, {4}}, {ZT_F32, 2, {0, 4}}},
    {{ZT_F32, 2, {3, 1}}, {ZT_F32, 2, {3, 0}}},          {{ZT_F16, 1, {40}}, {ZT_F16, 2, {3, 40}}},
    {{ZT_BF16, 2, {3, 1}}, {ZT_BF16, 2, {3, 40}}},       {{ZT_F64, 1, {4}}, {ZT_F64, 2, {3, 4}}},
};

/* ---- sum_to ---------------------------------------------------------------------------------- */

static zt_status sum_to_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    if (status) return status;
    out[0] = zt_type_make(in[0]->dtype, in[1]->rank, in[1]->dim);
    return broadcasts_to(in[1], in[0]) ? ZT_OK : refuse_shapes(ctx, in[1], in[0]);
}

static void sum_to_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)attrs, (void)error;
    int64_t count = zt_type_count(in[0].type);
    memset(out[0].f, 0, (size_t)zt_type_count(out[0].type) * sizeof(double));
    element_pairs elements = start_pairs(out[0].type, in[0].type);
    for (int64_t i = 0; i < count; i++, next_pair(&elements)) out[0].f[elements.small] += in[0].f[i];
}

static bool sum_to_cases(int i, zt_case *test_case)
{
    if (i >= ZT_LEN(pairs)) return false;
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &pairs[i][1]);
    zt_case_type_in(test_case, 1, ZT_FILL_NORMAL, &pairs[i][0]);
    return true;
}

static void sum_to_vjp(zt_vjp *vjp)
{
    zt_broadcast_to_attrs none = zt_broadcast_to_defaults();
    vjp->dx[0] = zt_build_broadcast_to(vjp->emit, vjp->dy[0], vjp->in[0], &none);
}

const zt_opdef zt_op_sum_to = {
    .synopsis = "y has the shape of `like`: x summed over the dimensions along which like broadcasts "
                "to x; any plain float type, y has the type of x",
    .n_required = 2,
    .flags = ZT_OPF_SUMS,
    .infer = sum_to_infer,
    .ref = sum_to_ref,
    .flops = zt_row_in_flops,
    .cases = sum_to_cases,
    .vjp = sum_to_vjp,
    .constant = 2,
};

/* ---- broadcast_to ---------------------------------------------------------------------------- */

static zt_status broadcast_to_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_broadcast_to_attrs *broadcast_to = attrs;
    zt_status status = zt_row_want_plain(ctx, "x", in[0]);
    if (status) return status;
    if (in[1] && broadcast_to->shape.n) return zt_row_fail(ctx, ZT_EUSAGE, "like and shape exclude each other");
    if (!in[1] && (broadcast_to->shape.n < 0 || broadcast_to->shape.n > ZT_MAX_RANK))
        return zt_row_fail(ctx, ZT_EUSAGE, "shape has %lld dimensions: at most %d", (long long)broadcast_to->shape.n,
                           ZT_MAX_RANK);
    out[0] = in[1] ? zt_type_make(in[0]->dtype, in[1]->rank, in[1]->dim)
                   : zt_type_make(in[0]->dtype, (int)broadcast_to->shape.n, broadcast_to->shape.dim);
    return broadcasts_to(in[0], &out[0]) ? ZT_OK : refuse_shapes(ctx, in[0], &out[0]);
}

static void broadcast_to_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)attrs, (void)error;
    int64_t count = zt_type_count(out[0].type);
    element_pairs elements = start_pairs(in[0].type, out[0].type);
    for (int64_t i = 0; i < count; i++, next_pair(&elements))
        if (out[0].f)
            out[0].f[i] = in[0].f[elements.small];
        else
            out[0].i[i] = in[0].i[elements.small];
}

static bool broadcast_to_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_dims shape;
    } rows[] = {
        {{ZT_F32, 1, {5}}, {2, {2, 5}}},
        {{ZT_F32, 2, {4, 1}}, {3, {2, 4, 3}}},
        {{ZT_I32, 1, {4}}, {2, {3, 4}}},
        {{ZT_F32, 2, {1, 0}}, {2, {3, 0}}},
        {{ZT_F32, 1, {1}}, {8, {2, 1, 2, 1, 2, 1, 2, 3}}},
    };
    int n = ZT_LEN(pairs);
    if (i >= n + ZT_LEN(rows)) return false;
    if (i < n) {
        zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &pairs[i][0]);
        zt_case_type_in(test_case, 1, ZT_FILL_NORMAL, &pairs[i][1]);
        return true;
    }
    zt_broadcast_to_attrs a = {rows[i - n].shape};
    zt_case_attrs(test_case, &a, sizeof a);
    bool ids = rows[i - n].x.dtype == ZT_I32;
    zt_case_type_in(test_case, 0, ids ? ZT_FILL_IDS : ZT_FILL_NORMAL, &rows[i - n].x);
    test_case->limit[0] = 1000;
    return true;
}

static void broadcast_to_vjp(zt_vjp *vjp) { vjp->dx[0] = zt_build_sum_to(vjp->emit, vjp->dy[0], vjp->in[0]); }

const zt_opdef zt_op_broadcast_to = {
    .synopsis = "y = x broadcast to the shape of `like`, or else to `shape`, as in NumPy; any but "
                "block types, y has the type of x",
    .n_required = 1,
    .infer = broadcast_to_infer,
    .ref = broadcast_to_ref,
    .flops = zt_row_no_flops,
    .cases = broadcast_to_cases,
    .vjp = broadcast_to_vjp,
    .constant = 2,
};

/* ---- reshape_like ---------------------------------------------------------------------------- */

static zt_status reshape_like_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    out[0] = zt_type_make(in[0]->dtype, in[1]->rank, in[1]->dim);
    if (zt_type_count(in[0]) == zt_type_count(in[1])) return zt_row_want_plain(ctx, "x", in[0]);
    return zt_row_fail(ctx, ZT_ESHAPE, "like has %lld elements, but x has %lld", (long long)zt_type_count(in[1]),
                       (long long)zt_type_count(in[0]));
}

static bool reshape_like_cases(int i, zt_case *test_case)
{
    static const zt_case_type rows[][2] = {
        {{ZT_F32, 2, {4, 6}}, {ZT_F32, 3, {2, 3, 4}}}, {{ZT_F32, 1, {1}}, {ZT_F32, 0, {0}}},
        {{ZT_F32, 2, {0, 6}}, {ZT_F32, 1, {0}}},       {{ZT_F16, 2, {3, 33}}, {ZT_F32, 1, {99}}},
        {{ZT_F32, 2, {9, 16}}, {ZT_I32, 2, {16, 9}}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &rows[i][0]);
    zt_case_type_in(test_case, 1, ZT_FILL_NORMAL, &rows[i][1]);
    if (rows[i][1].dtype == ZT_I32) test_case->fill[1] = ZT_FILL_IDS;
    return true;
}

static void reshape_like_vjp(zt_vjp *vjp) { vjp->dx[0] = zt_build_reshape_like(vjp->emit, vjp->dy[0], vjp->in[0]); }

const zt_opdef zt_op_reshape_like = {
    .synopsis = "y has the elements of x in row-major order, in the shape of `like`; a view",
    .n_required = 2,
    .flags = ZT_OPF_VIEW,
    .infer = reshape_like_infer,
    .ref = zt_row_same_ref,
    .flops = zt_row_no_flops,
    .cases = reshape_like_cases,
    .vjp = reshape_like_vjp,
    .constant = 2,
};

/* ---- group ----------------------------------------------------------------------------------- */

static zt_status group_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_group_attrs *group = attrs;
    const zt_type *x = in[0];
    if (x->rank < 1 || x->rank == ZT_MAX_RANK)
        return zt_row_fail(ctx, ZT_ESHAPE, "x has %d dimensions: must have 1 to %d", x->rank, ZT_MAX_RANK - 1);
    if (group->size < 1 || x->dim[x->rank - 1] % group->size)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld columns are not a multiple of size %lld", (long long)x->dim[x->rank - 1],
                           (long long)group->size);
    out[0] = *x;
    out[0].dim[x->rank - 1] /= group->size;
    out[0].dim[out[0].rank++] = group->size;
    return zt_row_want_plain(ctx, "x", x);
}

static bool group_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        int64_t size;
    } rows[] = {{{ZT_F32, 2, {2, 33}}, 11},  {{ZT_F32, 1, {7}}, 1},    {{ZT_F32, 1, {7}}, 7},
                {{ZT_F16, 3, {2, 3, 8}}, 4}, {{ZT_F32, 2, {0, 8}}, 2}, {{ZT_F32, 2, {3, 0}}, 2}};
    if (i >= ZT_LEN(rows)) return false;
    zt_group_attrs a = {rows[i].size};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &rows[i].x);
    return true;
}

const zt_opdef zt_op_group = {
    .synopsis = "y[...,g,i] = x[...,g*size+i]: the last dimension in groups of `size`; a view",
    .n_required = 1,
    .flags = ZT_OPF_VIEW,
    .infer = group_infer,
    .ref = zt_row_same_ref,
    .flops = zt_row_no_flops,
    .cases = group_cases,
    .vjp = reshape_like_vjp,
};

/* ---- fill_like ------------------------------------------------------------------------------- */

static zt_status fill_like_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const double value = ((const zt_fill_like_attrs *)attrs)->value;
    const zt_dtype_info *info = zt_dtype_get(in[0]->dtype);
    out[0] = *in[0];
    zt_status status = zt_row_want_number(ctx, "x", in[0]);
    if (status || info->kind == 'F') return status;
    int bits = 8 * info->block_bytes - (info->kind == 'I');
    double end = ldexp(1, bits), least = info->kind == 'I' ? -end : 0;
    if (zt_row_is_whole(value) && value >= least && value < end) return ZT_OK;
    return zt_row_fail(ctx, ZT_EUSAGE, "value is %g: must be a whole number that %s holds, up to 2^53", value, info->name);
}

static void fill_like_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_fill_like_attrs *fill_like = attrs;
    int64_t count = zt_type_count(out[0].type);
    (void)in, (void)error;
    for (int64_t i = 0; i < count && out[0].f; i++) out[0].f[i] = fill_like->value;
    for (int64_t i = 0; i < count && out[0].i; i++) out[0].i[i] = (int64_t)fill_like->value;
}

static bool fill_like_cases(int i, zt_case *test_case)
{
    static const zt_case_type x[] = {{ZT_F32, 2, {2, 33}}, {ZT_F32, 0, {0}},  {ZT_F32, 2, {3, 1500}},
                                     {ZT_F16, 1, {7}},     {ZT_F64, 1, {33}}, {ZT_F32, 2, {0, 4}}};
    static const double values[] = {1, -0.3};
    zt_fill_like_attrs a = {values[i % ZT_LEN(values)]};
    static const zt_case_type integers[] = {{ZT_I32, 2, {3, 1500}}, {ZT_I64, 1, {33}}, {ZT_U8, 2, {0, 4}}, {ZT_I8, 0, {0}},
                                            {ZT_U64, 1, {7}},       {ZT_I16, 1, {7}},  {ZT_U16, 1, {7}},   {ZT_U32, 1, {7}}};
    bool floats = i < ZT_LEN(x) * ZT_LEN(values);
    if (!floats) {
        i -= ZT_LEN(x) * ZT_LEN(values);
        a.value = zt_dtype_get(integers[i % ZT_LEN(integers)].dtype)->kind == 'I' ? -100 : 200;
    }
    if (!floats && i >= ZT_LEN(integers)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_type_in(test_case, 0, floats ? ZT_FILL_NORMAL : ZT_FILL_IDS, floats ? &x[i / ZT_LEN(values)] : &integers[i]);
    test_case->limit[0] = 5;
    return true;
}

const zt_opdef zt_op_fill_like = {
    .synopsis = "y[i] = value, with the shape and plain float or integer type of x; x is not read; integers have a whole value",
    .n_required = 1,
    .infer = fill_like_infer,
    .ref = fill_like_ref,
    .flops = zt_row_no_flops,
    .cases = fill_like_cases,
    .constant = 1,
};
