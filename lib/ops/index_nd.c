/* index_nd.c - rows of the ops that read or write parts of a value at tuples of indices (gather_nd,
 * scatter_nd) or elements at indices with another rule than a sum (scatter_elements).
 *
 * x is [batch..., N1..Nk, rest...], i i32 or i64 [batch..., m..., k]: each of i's last rows says a part
 * x[batch, i1, .., ik] of shape [rest...].
 */
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

static const char *const oob_words[] = {"error", "zero"};

/* What is done with an entry that is there and one that comes. */
static const char *const reductions[] = {"none", "add", "mul", "max", "min"};

/* ---- places ---------------------------------------------------------------------------------- */

typedef struct parts {
    int64_t tuples, k, rest; /* tuples in all, indices of each, elements of a part */
    int64_t per_batch;       /* tuples of one batch entry */
    int64_t span;            /* elements of x of one batch entry */
} parts;

static parts parts_of(int64_t batch, const zt_type *x, const zt_type *i)
{
    parts p = {.tuples = 1, .k = i->dim[i->rank - 1], .rest = 1, .per_batch = 1, .span = 1};
    for (int d = 0; d + 1 < i->rank; d++) {
        p.tuples *= i->dim[d];
        if (d >= batch) p.per_batch *= i->dim[d];
    }
    for (int d = (int)batch; d < x->rank; d++) {
        p.span *= x->dim[d];
        if (d >= batch + p.k) p.rest *= x->dim[d];
    }
    return p;
}

/* Where in x tuple r's part begins; -1: an index is out of range. */
static int64_t part_at(const parts *p, int64_t batch, bool fails, const zt_type *x, const int64_t *i, int64_t r,
                       zt_runtime_error *error)
{
    int64_t at = 0;
    for (int64_t k = 0; k < p->k; k++) {
        int64_t n = x->dim[batch + k], index = i[r * p->k + k];
        if (index < 0 || index >= n) {
            if (fails) zt_row_runtime_error(error, "index", index, n);
            return -1;
        }
        at = at * n + index;
    }
    return (p->per_batch ? r / p->per_batch * p->span : 0) + at * p->rest;
}

/* The type of what x has at i. */
static zt_status taken_type(zt_ctx *ctx, int64_t batch, const zt_enum_string *oob, const zt_type *x, const zt_type *i, zt_type *y)
{
    zt_status status = zt_row_word(ctx, "oob", oob, oob_words, ZT_LEN(oob_words));
    if (!status) status = zt_row_want_plain(ctx, "x", x);
    if (!status) status = zt_row_want_index(ctx, "i", i, -1);
    if (status) return status;
    if (batch < 0 || batch >= i->rank || batch > x->rank)
        return zt_row_fail(ctx, ZT_ESHAPE, "invalid number of batch dimensions %lld for ranks %d and %d", (long long)batch,
                           x->rank, i->rank);
    int64_t k = i->dim[i->rank - 1];
    if (k > x->rank - batch)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld indices are too many for %d dimensions", (long long)k, (int)(x->rank - batch));
    *y = zt_type_make(x->dtype, 0, NULL);
    for (int d = 0; d < batch; d++)
        if (x->dim[d] != i->dim[d])
            return zt_row_fail(ctx, ZT_ESHAPE, "batch dimension %d differs: %lld and %lld", d, (long long)x->dim[d],
                               (long long)i->dim[d]);
    if (i->rank - 1 + x->rank - batch - k > ZT_MAX_RANK)
        return zt_row_fail(ctx, ZT_ESHAPE, "y has too many dimensions: at most %d", ZT_MAX_RANK);
    for (int d = 0; d + 1 < i->rank; d++) y->dim[y->rank++] = i->dim[d];
    for (int d = (int)(batch + k); d < x->rank; d++) y->dim[y->rank++] = x->dim[d];
    return ZT_OK;
}

/* x, i and how many entries of i's last dimension; the limit is of the smallest dimension. */
static const struct {
    zt_case_type x, i;
    int64_t batch, limit;
} nd_rows[] = {
    {{ZT_F32, 2, {5, 7}}, {ZT_I32, 2, {4, 1}}, 0, 5},       {{ZT_F32, 3, {3, 4, 5}}, {ZT_I32, 2, {2, 2}}, 0, 3},
    {{ZT_F32, 3, {3, 4, 5}}, {ZT_I32, 3, {3, 2, 1}}, 1, 4}, {{ZT_F32, 2, {3, 4}}, {ZT_I32, 2, {3, 1}}, 1, 4},
    {{ZT_F32, 2, {3, 4}}, {ZT_I32, 1, {2}}, 0, 3},          {{ZT_F32, 2, {3, 4}}, {ZT_I32, 2, {2, 0}}, 0, 1},
    {{ZT_F32, 2, {3, 4}}, {ZT_I32, 2, {0, 1}}, 0, 3},       {{ZT_F32, 2, {40, 300}}, {ZT_I32, 3, {3, 5, 1}}, 0, 40},
    {{ZT_F64, 2, {3, 4}}, {ZT_I32, 2, {3, 2}}, 0, 3},       {{ZT_F16, 2, {5, 40}}, {ZT_I32, 2, {3, 1}}, 0, 5},
    {{ZT_I32, 2, {5, 4}}, {ZT_I32, 2, {3, 1}}, 0, 5},       {{ZT_U8, 2, {5, 4}}, {ZT_I32, 2, {3, 2}}, 0, 4},
    {{ZT_F32, 2, {5, 7}}, {ZT_I64, 2, {4, 1}}, 0, 5},
};
enum { ND_ROWS = sizeof nd_rows / sizeof nd_rows[0] };

/* ---- gather_nd ------------------------------------------------------------------------------- */

static zt_status gather_nd_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_gather_nd_attrs *gather_nd = attrs;
    return taken_type(ctx, gather_nd->batch, &gather_nd->oob, in[0], in[1], &out[0]);
}

static void gather_nd_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_gather_nd_attrs *gather_nd = attrs;
    parts p = parts_of(gather_nd->batch, in[0].type, in[1].type);
    for (int64_t r = 0; r < p.tuples; r++) {
        int64_t at = part_at(&p, gather_nd->batch, gather_nd->oob.s[0] == 'e', in[0].type, in[1].i, r, error);
        for (int64_t j = 0; j < p.rest; j++) {
            if (at >= 0)
                zt_row_move(&in[0], at + j, &out[0], r * p.rest + j);
            else
                zt_row_zero(&out[0], r * p.rest + j);
        }
    }
}

static bool gather_nd_cases(int i, zt_case *test_case)
{
    bool zero = i == ND_ROWS; /* the first once more, with indices out of range */
    if (i > ND_ROWS) return false;
    if (zero) i = 0;
    zt_gather_nd_attrs a = {nd_rows[i].batch, {"error"}};
    memcpy(a.oob.s, zero ? "zero" : "error", zero ? 5 : 6);
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_plain_in(test_case, 0, ZT_FILL_NORMAL, 100, &nd_rows[i].x);
    zt_case_type_in(test_case, 1, ZT_FILL_IDS, &nd_rows[i].i);
    test_case->limit[1] = nd_rows[i].limit + 3 * zero;
    return true;
}

static void gather_nd_vjp(zt_vjp *vjp)
{
    const zt_gather_nd_attrs *attrs = vjp->attrs;
    int zero = zt_build_fill_like(vjp->emit, vjp->in[0], &(zt_fill_like_attrs){0});
    zt_scatter_nd_attrs back = {attrs->batch, {"add"}, attrs->oob};
    vjp->dx[0] = zt_build_scatter_nd(vjp->emit, zero, vjp->in[1], vjp->dy[0], &back);
}

const zt_opdef zt_op_gather_nd = {
    .synopsis = "y[b...,m...,rest] = x[b...,i1,..,ik,rest] with (i1 .. ik) = i[b...,m...,:]: slices "
                "of x at tuples of indices; the first `batch` dimensions are shared; x any but block "
                "types, i i32 or i64; an index out of range is an error, or with oob=zero reads 0",
    .n_required = 2,
    .infer = gather_nd_infer,
    .ref = gather_nd_ref,
    .bytes = zt_row_picked_bytes,
    .flops = zt_row_no_flops,
    .cases = gather_nd_cases,
    .vjp = gather_nd_vjp,
};

/* ---- what comes to an entry ------------------------------------------------------------------ */

static double merge_floats(char how, double a, double b)
{
    if (how == 'a') return a + b;
    return how == 'n' || isnan(b) ? b : isnan(a) ? a : how == 'x' ? fmax(a, b) : fmin(a, b);
}

/* Integers wrap to their type. */
static int64_t merged_int(zt_dtype dtype, char how, int64_t a, int64_t b)
{
    int64_t turn = dtype == ZT_U64 ? INT64_MIN : 0;
    bool more = (a ^ turn) > (b ^ turn);
    uint64_t v = how == 'a'   ? (uint64_t)a + (uint64_t)b
                 : how == 'u' ? (uint64_t)a * (uint64_t)b
                 : how == 'x' ? (uint64_t)(more ? a : b)
                 : how == 'i' ? (uint64_t)(more ? b : a)
                              : (uint64_t)b;
    return zt_row_wrap(dtype, v);
}

/* 'n' none, 'a' add, 'u' mul, 'x' max, 'i' min: the letter that tells them apart. */
static char how_of(const zt_enum_string *w) { return w->s[0] != 'm' ? w->s[0] : w->s[1] == 'a' ? 'x' : w->s[1]; }

static void merge_entry(char how, zt_arg *z, int64_t to, const zt_arg *u, int64_t from)
{
    if (z->i)
        z->i[to] = merged_int(z->type->dtype, how, z->i[to], u->i[from]);
    else
        z->f[to] = how == 'u' ? z->f[to] * u->f[from] : merge_floats(how, z->f[to], u->f[from]);
}

static zt_status want_number(zt_ctx *ctx, const zt_type *x, char how)
{
    char kind = zt_dtype_get(x->dtype)->kind;
    if (kind != 'B' || how == 'n') return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "x is bool: only reduction=none is supported");
}

static void copy_all(const zt_arg *x, zt_arg *z)
{
    memmove(z->f ? (void *)z->f : (void *)z->i, x->f ? (const void *)x->f : (const void *)x->i,
            (size_t)zt_type_count(x->type) * 8);
}

/* Gradients of z = x with u merged in at i; `at` gathers what lies at i. dx and du of each rule:
 * none: dy where nothing was put, and what lies there; add: dy, dy; mul: dy z / x and dy z / u
 * (no zeros); max and min: dy to those that are z. Entries put more than once: add and mul only. */
typedef struct merge_vjp {
    zt_vjp *v;
    char how;
    int (*at)(const struct merge_vjp *m, int x);
    int (*put)(const struct merge_vjp *m, int x, int u); /* reduction none */
} merge_vjp;

static void merge_gradient(const merge_vjp *m)
{
    zt_vjp *vjp = m->v;
    const zt_emit *emit = vjp->emit;
    int x = vjp->in[0], u = vjp->in[2], z = vjp->out[0], dy = vjp->dy[0];
    if (m->how == 'a') {
        vjp->dx[0] = dy;
        if (vjp->want[2]) vjp->dx[2] = m->at(m, dy);
    } else if (m->how == 'n') {
        int zero = zt_build_fill_like(emit, u, &(zt_fill_like_attrs){0});
        if (vjp->want[0]) vjp->dx[0] = m->put(m, dy, zero);
        if (vjp->want[2]) vjp->dx[2] = m->at(m, dy);
    } else if (m->how == 'u') {
        int share = zt_build_mul(emit, dy, z);
        if (vjp->want[0]) vjp->dx[0] = zt_build_div(emit, share, x);
        if (vjp->want[2]) vjp->dx[2] = zt_build_div(emit, m->at(m, share), u);
    } else {
        if (vjp->want[0]) vjp->dx[0] = zt_build_mul(emit, dy, zt_build_as(emit, zt_build_eq(emit, z, x), dy));
        if (vjp->want[2]) vjp->dx[2] = zt_build_mul(emit, m->at(m, dy), zt_build_as(emit, zt_build_eq(emit, m->at(m, z), u), dy));
    }
}

/* ---- scatter_nd ------------------------------------------------------------------------------ */

static zt_status scatter_nd_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_scatter_nd_attrs *scatter_nd = attrs;
    zt_type part;
    zt_status status = zt_row_word(ctx, "reduction", &scatter_nd->reduction, reductions, ZT_LEN(reductions));
    if (!status) status = taken_type(ctx, scatter_nd->batch, &scatter_nd->oob, in[0], in[1], &part);
    if (!status) status = want_number(ctx, in[0], how_of(&scatter_nd->reduction));
    if (status) return status;
    char text[ZT_TYPE_TEXT];
    if (!zt_type_equal(&part, in[2]))
        return zt_row_fail(ctx, ZT_ESHAPE, "u must have type %s: the selected part of x", zt_type_text(&part, text));
    out[0] = *in[0];
    return ZT_OK;
}

static void scatter_nd_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_scatter_nd_attrs *scatter_nd = attrs;
    parts p = parts_of(scatter_nd->batch, in[0].type, in[1].type);
    char how = how_of(&scatter_nd->reduction);
    copy_all(&in[0], &out[0]);
    for (int64_t r = 0; r < p.tuples; r++) {
        int64_t at = part_at(&p, scatter_nd->batch, scatter_nd->oob.s[0] == 'e', in[0].type, in[1].i, r, error);
        for (int64_t j = 0; j < p.rest && at >= 0; j++) merge_entry(how, &out[0], at + j, &in[2], r * p.rest + j);
    }
}

static double scatter_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return (double)zt_type_count(in[2]);
}

/* Where the last write, or a tie, would decide, indices count up, so that they differ. */
static void make_indices_differ(zt_case *test_case, const zt_enum_string *reduction)
{
    if (reduction->s[0] == 'a' || reduction->s[1] == 'u') return;
    test_case->fill[1] = ZT_FILL_RISING;
    test_case->limit[1] = 0;
}

static bool scatter_nd_cases(int i, zt_case *test_case)
{
    int how = i % ZT_LEN(reductions), which = i / ZT_LEN(reductions);
    if (!gather_nd_cases(which, test_case)) return false;
    zt_gather_nd_attrs like;
    memcpy(&like, test_case->attrs, sizeof like);
    zt_scatter_nd_attrs a = {like.batch, {{0}}, like.oob};
    memcpy(a.reduction.s, reductions[how], strlen(reductions[how]));
    bool one = test_case->in[1].dim[test_case->in[1].rank - 1] == 1;
    if (!one && how != 1 && how != 2) return scatter_nd_cases(i + 1, test_case); /* rising: of one index */
    zt_case_attrs(test_case, &a, sizeof a);
    if (one) make_indices_differ(test_case, &a.reduction);
    if (test_case->fill[1] == ZT_FILL_RISING && like.batch) /* the second batch entry has others */
        memcpy(a.oob.s, "zero", 5), zt_case_attrs(test_case, &a, sizeof a);
    if (taken_type(NULL, a.batch, &a.oob, &test_case->in[0], &test_case->in[1], &test_case->in[2])) return false;
    test_case->fill[2] = zt_dtype_is_float(test_case->in[0].dtype) ? ZT_FILL_NORMAL : ZT_FILL_IDS;
    test_case->limit[2] = 9;
    return true;
}

static int nd_at(const merge_vjp *m, int x)
{
    const zt_scatter_nd_attrs *attrs = m->v->attrs;
    return zt_build_gather_nd(m->v->emit, x, m->v->in[1], &(zt_gather_nd_attrs){attrs->batch, attrs->oob});
}

static int nd_put(const merge_vjp *m, int x, int u)
{
    const zt_scatter_nd_attrs *attrs = m->v->attrs;
    return zt_build_scatter_nd(m->v->emit, x, m->v->in[1], u, &(zt_scatter_nd_attrs){attrs->batch, {"none"}, attrs->oob});
}

static void scatter_nd_vjp(zt_vjp *vjp)
{
    const zt_scatter_nd_attrs *attrs = vjp->attrs;
    merge_gradient(&(merge_vjp){vjp, how_of(&attrs->reduction), nd_at, nd_put});
}

#define MERGE                                                                                                                    \
    "reduction=none: u replaces the value there (the last one wins), add|mul|max|min: u is combined "                            \
    "with the value there, NaN has precedence; an index out of range is an error, or with oob=zero "                             \
    "changes nothing"

const zt_opdef zt_op_scatter_nd = {
    .synopsis = "z = x, except that u[b...,m...,rest] goes to z[b...,i1,..,ik,rest] with (i1 .. ik) "
                "= i[b...,m...,:], in the order of i; the first `batch` dimensions are shared; " MERGE,
    .n_required = 3,
    .infer = scatter_nd_infer,
    .ref = scatter_nd_ref,
    .flops = scatter_flops,
    .cases = scatter_nd_cases,
    .vjp = scatter_nd_vjp,
};

/* ---- scatter_elements: scatter_add_elements is the one that adds ----------------------------- */

static zt_status scatter_elements_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    static const char *const words[] = {"none", "mul", "max", "min"};
    const zt_scatter_elements_attrs *scatter = attrs;
    const zt_type *x = in[0], *i = in[1];
    zt_status status = zt_row_word(ctx, "oob", &scatter->oob, oob_words, ZT_LEN(oob_words));
    if (!status) status = zt_row_word(ctx, "reduction", &scatter->reduction, words, ZT_LEN(words));
    if (!status) status = zt_row_want_plain(ctx, "x", x);
    if (!status) status = zt_row_want_index(ctx, "i", i, x->rank);
    if (!status) status = zt_row_axis(ctx, scatter->axis, x->rank);
    if (!status) status = want_number(ctx, x, how_of(&scatter->reduction));
    if (status) return status;
    int at = zt_plain_axis(scatter->axis, x->rank);
    for (int d = 0; d < x->rank; d++)
        if (d != at && i->dim[d] > x->dim[d])
            return zt_row_fail(ctx, ZT_ESHAPE, "i has %lld entries along axis %d, but x has %lld", (long long)i->dim[d], d,
                               (long long)x->dim[d]);
    out[0] = *i;
    out[0].dtype = x->dtype;
    if (!zt_type_equal(&out[0], in[2])) return zt_row_fail(ctx, ZT_ESHAPE, "u must have the dtype of x and the shape of i");
    out[0] = *x;
    return ZT_OK;
}

static void scatter_elements_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_scatter_elements_attrs *scatter = attrs;
    const zt_type *x = in[0].type, *it = in[1].type;
    int at = zt_plain_axis(scatter->axis, x->rank);
    copy_all(&in[0], &out[0]);
    for (int64_t e = 0, n = zt_type_count(it); e < n; e++) {
        int64_t index = in[1].i[e], to = 0, step = 1, rest = e;
        if (index < 0 || index >= x->dim[at]) {
            if (scatter->oob.s[0] == 'e') zt_row_runtime_error(error, "index", index, x->dim[at]);
            continue;
        }
        for (int d = x->rank - 1; d >= 0; d--) {
            to += (d == at ? index : rest % it->dim[d]) * step;
            step *= x->dim[d];
            rest /= it->dim[d];
        }
        merge_entry(how_of(&scatter->reduction), &out[0], to, &in[2], e);
    }
}

/* Indices are 0 1 2 ... with those too large left out, so that none comes twice but for mul. */
static bool scatter_elements_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x, i;
        zt_scatter_elements_attrs a; /* axis, reduction, oob */
    } rows[] = {
        {{ZT_F32, 1, {7}}, {ZT_I32, 1, {5}}, {0, {"none"}, {"error"}}},
        {{ZT_F32, 1, {7}}, {ZT_I32, 1, {9}}, {0, {"max"}, {"zero"}}},
        {{ZT_F32, 2, {4, 33}}, {ZT_I32, 2, {1, 30}}, {1, {"min"}, {"error"}}},
        {{ZT_F32, 2, {4, 33}}, {ZT_I32, 2, {4, 30}}, {1, {"mul"}, {"error"}}},
        {{ZT_F32, 3, {3, 4, 5}}, {ZT_I32, 3, {3, 9, 5}}, {-2, {"mul"}, {"error"}}},
        {{ZT_F32, 3, {3, 40, 5}}, {ZT_I32, 3, {3, 1, 5}}, {1, {"none"}, {"error"}}},
        {{ZT_F32, 2, {4, 6}}, {ZT_I32, 2, {0, 8}}, {1, {"none"}, {"error"}}},
        {{ZT_F32, 2, {600, 3}}, {ZT_I32, 2, {200, 3}}, {0, {"max"}, {"error"}}},
        {{ZT_F64, 2, {4, 6}}, {ZT_I32, 2, {4, 2}}, {1, {"mul"}, {"error"}}},
        {{ZT_F16, 2, {4, 6}}, {ZT_I32, 2, {1, 2}}, {1, {"none"}, {"error"}}},
        {{ZT_I32, 2, {4, 6}}, {ZT_I32, 2, {4, 9}}, {1, {"max"}, {"error"}}},
        {{ZT_U8, 2, {4, 6}}, {ZT_I32, 2, {4, 9}}, {1, {"mul"}, {"error"}}},
        {{ZT_F32, 2, {4, 33}}, {ZT_I64, 2, {4, 30}}, {1, {"mul"}, {"error"}}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_plain_in(test_case, 0, ZT_FILL_NORMAL, 100, &rows[i].x);
    zt_case_type_in(test_case, 1, ZT_FILL_IDS, &rows[i].i);
    test_case->limit[1] = rows[i].x.dim[zt_plain_axis(rows[i].a.axis, rows[i].x.rank)];
    if (rows[i].x.dtype != ZT_I32) make_indices_differ(test_case, &rows[i].a.reduction);
    zt_case_type u = rows[i].i;
    u.dtype = rows[i].x.dtype;
    zt_case_plain_in(test_case, 2, ZT_FILL_NORMAL, 100, &u);
    return true;
}

static int elements_at(const merge_vjp *m, int x)
{
    const zt_scatter_elements_attrs *attrs = m->v->attrs;
    return zt_build_gather_elements(m->v->emit, x, m->v->in[1], &(zt_gather_elements_attrs){attrs->axis, attrs->oob});
}

static int elements_put(const merge_vjp *m, int x, int u)
{
    const zt_scatter_elements_attrs *attrs = m->v->attrs;
    return zt_build_scatter_elements(m->v->emit, x, m->v->in[1], u,
                                     &(zt_scatter_elements_attrs){attrs->axis, {"none"}, attrs->oob});
}

static void scatter_elements_vjp(zt_vjp *vjp)
{
    const zt_scatter_elements_attrs *attrs = vjp->attrs;
    merge_gradient(&(merge_vjp){vjp, how_of(&attrs->reduction), elements_at, elements_put});
}

const zt_opdef zt_op_scatter_elements = {
    .synopsis = "z = x, except that u[...,j,...] goes to z[...,i[...,j,...],...] along `axis`, in "
                "the order of i; i i32 or i64 of the rank of x, no larger than x except along the axis; " MERGE
                " (for add use scatter_add_elements)",
    .n_required = 3,
    .infer = scatter_elements_infer,
    .ref = scatter_elements_ref,
    .flops = scatter_flops,
    .cases = scatter_elements_cases,
    .vjp = scatter_elements_vjp,
};
