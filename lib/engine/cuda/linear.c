/* linear.c - rows of products with weights: which kernel makes them, in which launches. */
#include "lib/engine/cuda/blas.h"
#include "lib/engine/cuda/wgmma.h"
#include "lib/ops/linear.h"
#include "lib/tensor/decode.h"

#include <string.h>

enum { WARPS = 8 }; /* a block, and slices of K: SLICES of linear.h */

/* ---- grids ----------------------------------------------------------------------------------- */

static const struct {
    zt_dtype dtype;
    const uint16_t *grid;
    size_t bytes;
} grids[] = {
    {ZT_IQ2_XXS, zt_grid_iq2_xxs, sizeof zt_grid_iq2_xxs},
    {ZT_IQ2_XS, zt_grid_iq2_xs, sizeof zt_grid_iq2_xs},
    {ZT_IQ2_S, zt_grid_iq2_s, sizeof zt_grid_iq2_s},
    {ZT_IQ3_XXS, zt_grid_iq3_xxs, sizeof zt_grid_iq3_xxs},
    {ZT_IQ3_S, zt_grid_iq3_s, sizeof zt_grid_iq3_s},
    {ZT_IQ1_S, zt_grid_iq1_s, sizeof zt_grid_iq1_s},
    {ZT_IQ1_M, zt_grid_iq1_s, sizeof zt_grid_iq1_s},
};

zt_status zt_cu_vectors(zt_cu_call *c, zt_dtype t, zt_cu_ptr *at)
{
    *at = 0;
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        if (grids[i].dtype != t) continue;
        *at = zt_cu_table(c, grids[i].grid, grids[i].bytes);
        return *at ? ZT_OK : ZT_ENOMEM;
    }
    return ZT_OK;
}

/* ---- which kernel ---------------------------------------------------------------------------- */

typedef struct how {
    const char *kernel;
    const char *few; /* of few rows of x; NULL: none of its own */
    bool codes;      /* x as codes of 8 bits */
    int most;        /* rows of x a warp */
    int columns;     /* of w that go together */
    int x_bytes;     /* of a number of x, with few rows */
    bool pairs;      /* x as pairs of f16 (pair.cuh) */
} how;

static bool rounds(const zt_enum_string *act) { return strcmp(act->s, "f32") != 0; }

/* Rows of codes a row of x. */
static int codes_of(const zt_enum_string *act) { return strcmp(act->s, "q16") ? 1 : 2; }

/* units: has the device matrix units that are worth two products for one? */
static how how_of(const zt_enum_string *act, zt_dtype x, zt_dtype w, const zt_cu_pack *packed, bool units)
{
    int block = packed ? zt_dtype_get(w)->block : 32;
    if (packed && rounds(act))
        return (how){packed->by_codes, packed->by_few, true, 32, block, codes_of(act), false};
    if (packed) return (how){packed->by_floats, NULL, false, 8, block, 0, false};
    if (w == ZT_BF16 && (x == ZT_BF16 || (x == ZT_F32 && rounds(act))))
        return (how){"zt_half_bf16", x == ZT_F32 ? "zt_few_half" : NULL, false, 64, 32, 2, false};
    if (w == ZT_F16 && x == ZT_F16) return (how){"zt_half_f16", NULL, false, 64, 32, 0, false};
    if (w == ZT_F16 && x == ZT_F32 && units)
        return (how){"zt_half_f16", "zt_few_pair", false, 64, 32, 4, true};
    if (w == ZT_F8_E4M3 && x != ZT_F32)
        return (how){
            x == ZT_F16 ? "zt_half_f16_e4m3" : "zt_half_bf16_e4m3", NULL, false, 64, 32, 0, false};
    static const struct {
        zt_dtype w;
        const char *kernel, *few;
    } plain[] = {{ZT_F32, "zt_linear_f32", "zt_few_f32"},
                 {ZT_F16, "zt_linear_f16", "zt_few_f16"},
                 {ZT_BF16, "zt_linear_bf16", "zt_few_bf16"}};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (plain[i].w == w)
            return (how){
                plain[i].kernel, x == ZT_F32 ? plain[i].few : NULL, false, 8, 32, 4, false};
    return (how){"zt_linear_file", NULL, false, 8, 32, 0, false};
}

/* The number of a curve, or a gate's. */
static int curve_of(const zt_after *f)
{
    static const struct {
        zt_op op;
        int tanh, erf;
    } curves[] = {
        {ZT_OP_relu, ZT_CU_RELU, 0},
        {ZT_OP_silu, ZT_CU_SILU, 0},
        {ZT_OP_swiglu, ZT_CU_SILU, 0},
        {ZT_OP_gelu, ZT_CU_GELU, ZT_CU_GELU_ERF},
        {ZT_OP_geglu, ZT_CU_GELU, ZT_CU_GELU_ERF},
        {ZT_OP_tanh, ZT_CU_TANH, 0},
    };
    const zt_enum_string *form = f->attrs; /* the only attribute of those that have one */
    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++)
        if (curves[i].op == f->op)
            return form && !strcmp(form->s, "erf") ? curves[i].erf : curves[i].tanh;
    return ZT_CU_SIGMOID;
}

/* ---- products of one x ---------------------------------------------------------------------- */

typedef struct products {
    zt_cu_call *c;
    const zt_enum_string *act;
    int n, w[ZT_CU_PRODUCTS], b[ZT_CU_PRODUCTS]; /* inputs */
    zt_cu_ptr y[ZT_CU_PRODUCTS];                 /* 0: not wanted */
    zt_cu_ptr residual;
    int after, curve;
    zt_cu_ptr codes, sums; /* of x, once made */
    zt_cu_ptr pairs, backs;
} products;

/* May 16 bytes of floats (8 of halves) be read at every fourth number of every row? */
static bool is_wide(zt_cu_ptr at, int64_t K, int by) { return at % 16 == 0 && K % by == 0; }

static zt_status make_codes(products *p)
{
    zt_cu_call *c = p->c;
    int64_t n = c->in[0]->dim[0], K = c->in[0]->dim[1], parts = (n + 7) / 8 * (K / 32);
    int each = codes_of(p->act);
    if (p->codes) return ZT_OK;
    p->codes = zt_cu_scratch(c, (size_t)(parts * each) * 256);
    p->sums = zt_cu_scratch(c, (size_t)(parts * each) * 64);
    if (!p->codes || !p->sums) return ZT_ENOMEM;
    const zt_cu_codes_args a = {.x = c->x[0],
                                .codes = p->codes,
                                .sums = p->sums,
                                .n = n,
                                .K = K,
                                .x_type = (int32_t)c->in[0]->dtype,
                                .each = each};
    return zt_cu_launch(c, "zt_codes", zt_cu_grid(parts, 4), (zt_cu_dim){128, 1, 1}, 0, &a,
                        sizeof a);
}

static zt_status make_pairs(products *p)
{
    zt_cu_call *c = p->c;
    const int64_t n = c->in[0]->dim[0], K = c->in[0]->dim[1];
    if (p->pairs || n == 0) return ZT_OK;
    p->pairs = zt_cu_scratch(c, (size_t)(n * K) * 4);
    p->backs = zt_cu_scratch(c, (size_t)n * 4);
    if (!p->pairs || !p->backs) return ZT_ENOMEM;
    const zt_cu_pairs_args a = {.x = c->x[0],
                                .y = p->pairs,
                                .backs = p->backs,
                                .n = n,
                                .K = K,
                                .wide = is_wide(c->x[0], K, 4)};
    return zt_cu_launch(c, "zt_pairs", (zt_cu_dim){(unsigned)n, 1, 1}, (zt_cu_dim){256, 1, 1}, 0,
                        &a, sizeof a);
}

static zt_cu_product product_of(const products *p, int i)
{
    const zt_cu_call *c = p->c;
    const zt_type *w = c->in[p->w[i]], *b = c->in[p->b[i]];
    const zt_cu_pack *packed = c->packed[p->w[i]];
    zt_cu_product one = {.w = c->x[p->w[i]], .y = p->y[i], .M = w->dim[0]};
    if (b) one.b = c->x[p->b[i]], one.b_type = (int32_t)b->dtype;
    if (packed) {
        one.heads = zt_cu_pack_heads(packed, one.w, w->dim[0], w->dim[1]);
        one.halves = zt_cu_pack_halves(packed, one.w, w->dim[0], w->dim[1]);
    }
    return one;
}

/* Whether warps of a block share one tile: few rows of x, or too little for all processors. */
static bool splits(const zt_cu_call *c, int64_t n, int64_t tiles, int most)
{
    return n <= 8 || (tiles + WARPS - 1) / WARPS * ((n + most - 1) / most) < 2 * c->e->processors;
}

/* Shared memory of a block with few rows of x: two of them have room on a processor. */
static size_t room_of(const zt_cu_engine *e)
{
    const size_t half = e->shared_optin / 2;
    return half > e->shared + ZT_CU_SHARED_OWN ? half - ZT_CU_SHARED_OWN : e->shared - ZT_CU_SHARED_OWN;
}

/* With few rows of x, which each block brings into its shared memory for itself, as codes or as it
 * is: where there is room. Everything else of `f` is there. */
static bool fill_few(const zt_cu_call *c, how h, zt_cu_few_args *f)
{
    const int64_t numbers = f->a.n * ((f->a.K + 31) / 32 * 32), bytes = numbers * h.x_bytes;
    if (!h.few || f->a.n > ZT_CU_FEW || f->a.K % 4 != 0 || bytes > (int64_t)room_of(c->e))
        return false;
    f->sums_at = (int32_t)bytes;
    f->part_at = f->sums_at + (h.codes ? (int32_t)(bytes / 32 * 8) : 0);
    const int64_t sums = 2 * WARPS * f->a.n * 16 * (h.pairs ? 2 : 1);
    f->room_at = f->part_at + (int32_t)(sums * (int64_t)sizeof(float));
    f->bytes = f->room_at + 48 * (int32_t)sizeof(float);
    return (size_t)f->bytes <= room_of(c->e);
}

static zt_status launch_few(zt_cu_call *c, const char *kernel, zt_cu_few_args *f)
{
    int64_t tiles = 0;
    for (int i = 0; i < ZT_CU_PRODUCTS; i++) tiles += (f->a.product[i].M + 15) / 16;
    return zt_cu_launch(c, kernel, (zt_cu_dim){(unsigned)tiles, 1, 1},
                        (zt_cu_dim){32 * WARPS, 1, 1}, (size_t)f->bytes, f, sizeof *f);
}

/* ---- many rows ------------------------------------------------------------------------------- */

/* Is a product worth tiles of 128 by 128, in blocks with `bytes` of shared memory? */
static bool is_large(const zt_cu_call *c, how h, int64_t n, int64_t rows, unsigned count,
                     size_t bytes)
{
    int64_t tiles = (rows + ZT_CU_GEMM_TILE - 1) / ZT_CU_GEMM_TILE *
                    ((n + ZT_CU_GEMM_TILE - 1) / ZT_CU_GEMM_TILE) * count;
    return n > h.most && tiles * 4 >= c->e->processors && zt_cu_has_shared(c->e, bytes);
}

/* The type of a large product's operands, where it is made by gemm.cuh; else ZT_DTYPE_COUNT. */
static zt_dtype large(const zt_cu_call *c, how h, int64_t n, int64_t rows, unsigned count)
{
    if (!is_large(c, h, n, rows, count, ZT_CU_GEMM_BYTES)) return ZT_DTYPE_COUNT;
    return !strncmp(h.kernel, "zt_half_f16", 11)    ? ZT_F16
           : !strncmp(h.kernel, "zt_half_bf16", 12) ? ZT_BF16
                                                    : ZT_DTYPE_COUNT;
}

/* n numbers of type `from` at *at become those of type `to` elsewhere, if they are not. */
static zt_status halves(zt_cu_call *c, zt_dtype from, zt_dtype to, int64_t n, zt_cu_ptr *at)
{
    if (from == to) return ZT_OK;
    zt_cu_halves_args a = {.x = *at, .n = n, .type = (int32_t)to};
    *at = a.y = zt_cu_scratch(c, (size_t)n * 2);
    if (!a.y) return ZT_ENOMEM;
    return zt_cu_launch(c, from == ZT_F32 ? "zt_halves_f32" : "zt_halves_e4m3", zt_cu_grid(n, 1024),
                        (zt_cu_dim){256, 1, 1}, 0, &a, sizeof a);
}

/* A block a tile of each product. */
static zt_status launch_tiles(zt_cu_call *c, const char *kernel, size_t shared,
                              zt_cu_linear_args *a, unsigned count)
{
    int64_t left = 0;
    for (unsigned i = 0; i < count; i++) {
        int64_t tiles = (a->product[i].M + ZT_CU_GEMM_TILE - 1) / ZT_CU_GEMM_TILE;
        left = tiles > left ? tiles : left;
    }
    a->right = (int32_t)((a->n + ZT_CU_GEMM_TILE - 1) / ZT_CU_GEMM_TILE);
    return zt_cu_launch(c, kernel, (zt_cu_dim){(unsigned)(left * a->right), count, 1},
                        (zt_cu_dim){32 * WARPS, 1, 1}, shared, a, sizeof *a);
}

static zt_status launch_large(zt_cu_call *c, zt_dtype t, zt_cu_linear_args *a, unsigned count)
{
    zt_status s = halves(c, (zt_dtype)a->x_type, t, a->n * a->K, &a->x);
    for (unsigned i = 0; i < count && !s; i++) {
        s = halves(c, (zt_dtype)a->w_type, t, a->product[i].M * a->K, &a->product[i].w);
        a->wide_w = (!i || a->wide_w) && is_wide(a->product[i].w, a->K, 8);
    }
    a->wide_x = is_wide(a->x, a->K, 8);
    bool done = false;
    if (!s) s = zt_cu_wgmma_linear(c, t, a, count, &done);
    if (s || done) return s;
    return launch_tiles(c, t == ZT_F16 ? "zt_gemm_f16" : "zt_gemm_bf16", ZT_CU_GEMM_BYTES, a,
                        count);
}

/* x as kernels of many rows want it. */
static zt_status prepare_x(products *p, how h, zt_dtype w, zt_cu_linear_args *a)
{
    zt_status s = h.codes   ? make_codes(p)
                  : h.pairs ? make_pairs(p)
                            : zt_cu_vectors(p->c, w, &a->grid);
    if (h.codes) a->x = p->codes, a->x_sums = p->sums;
    if (h.pairs) a->x = p->pairs, a->x_backs = p->backs, a->n *= 2, a->x_type = ZT_F16;
    return s;
}

/* The products from number `first` on whose weights are of its form, in one launch; which they are.
 */
static zt_status launch(products *p, int first, unsigned *done)
{
    zt_cu_call *c = p->c;
    const zt_type *x = c->in[0], *w = c->in[p->w[first]];
    const zt_cu_pack *packed = c->packed[p->w[first]];
    const zt_dtype_info *d = zt_dtype_get(w->dtype);
    how h = how_of(p->act, x->dtype, w->dtype, packed, zt_cu_has_shared(c->e, ZT_CU_GEMM_BYTES));
    zt_cu_few_args f = {.a = {.x = c->x[0],
                              .n = x->dim[0],
                              .K = x->dim[1],
                              .x_type = (int32_t)x->dtype,
                              .y_type = (int32_t)x->dtype,
                              .each = codes_of(p->act)}};
    bool few = fill_few(c, h, &f);
    zt_cu_linear_args a = f.a;
    int64_t tiles = 0;
    unsigned count = 0;
    zt_status s = few ? ZT_OK : prepare_x(p, h, w->dtype, &a);
    a.wide_w = 1;
    for (int i = first; i < p->n && !s; i++) {
        if (*done >> i & 1 || c->in[p->w[i]]->dtype != w->dtype || c->packed[p->w[i]] != packed)
            continue;
        *done |= 1u << i;
        if (!p->y[i]) continue;
        a.product[count] = product_of(p, i);
        a.wide_w = a.wide_w && is_wide(a.product[count].w, a.K, d->block_bytes <= 2 ? 8 : 4);
        int64_t M = (a.product[count++].M + 15) / 16;
        tiles = M > tiles ? M : tiles;
    }
    a.units = (a.K + h.columns - 1) / h.columns;
    a.units_slice = (a.units + WARPS - 1) / WARPS;
    a.row_bytes = a.K / d->block * d->block_bytes;
    a.w_type = (int32_t)w->dtype;
    a.block = d->block;
    a.block_bytes = d->block_bytes;
    a.wide_x =
        is_wide(h.pairs ? a.x : c->x[0], a.K, few || strncmp(h.kernel, "zt_half", 7) ? 4 : 8);
    a.split = splits(c, a.n, tiles, h.most);
    a.residual = p->residual;
    a.after = p->after;
    a.curve = p->curve;
    int64_t most = a.n < h.most ? a.n : h.most;
    const zt_cu_dim grid = {(unsigned)(a.split ? tiles : (tiles + WARPS - 1) / WARPS),
                            (unsigned)((a.n + h.most - 1) / h.most), count};
    size_t shared = a.split ? (size_t)most * WARPS * 16 * sizeof(float) : 0;
    f.a = a;
    if (few && packed) f.tile_bytes = a.units * packed->codes * 64;
    if (s || few) return s ? s : launch_few(c, h.few, &f);
    bool taken;
    s = zt_cu_blas_linear(c, &a, count, &taken);
    if (s || taken) return s;
    if (h.codes && is_large(c, h, a.n, tiles * 16, count, ZT_CU_CODES_BYTES))
        return launch_tiles(c, packed->by_large, ZT_CU_CODES_BYTES, &a, count);
    zt_dtype t = large(c, h, a.n, tiles * 16, count);
    if (t != ZT_DTYPE_COUNT) return launch_large(c, t, &a, count);
    return zt_cu_launch(c, h.kernel, grid, (zt_cu_dim){32 * WARPS, 1, 1}, shared, &a, sizeof a);
}

static zt_status multiply(products *p)
{
    unsigned done = 0;
    zt_status s = ZT_OK;
    for (int i = 0; i < p->n && !s; i++) {
        if (done >> i & 1) continue;
        p->c->beside = done != 0;
        s = launch(p, i, &done);
    }
    p->c->beside = false;
    return s;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool weights_fit(const zt_cu_engine *e, const zt_type *const in[], int first, int n)
{
    if (!zt_cu_is_float(in[0]->dtype) || (in[0]->dim[0] + 7) / 8 > e->max_grid[1]) return false;
    for (int k = first; k < first + n; k++) {
        if (!in[k]) continue;
        if (in[k]->dtype == ZT_F64 || in[k]->dim[1] % zt_dtype_get(in[k]->dtype)->block)
            return false;
    }
    return true;
}

static bool has_linear(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                       const zt_type out[])
{
    (void)attrs, (void)out;
    return weights_fit(e, in, 1, 1);
}

static bool has_linears(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                        const zt_type out[])
{
    (void)attrs, (void)out;
    return weights_fit(e, in, 1, 3);
}

static bool has_gated(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)attrs, (void)out;
    return weights_fit(e, in, 1, 2);
}

static zt_status emit_linear(zt_cu_call *c)
{
    const zt_linear_attrs *a = c->attrs;
    products p = {.c = c, .act = &a->act, .n = 1, .w = {1}, .b = {2}, .y = {c->y[0]}};
    return multiply(&p);
}

static zt_status emit_linears(zt_cu_call *c)
{
    const zt_linears_attrs *a = c->attrs;
    products own = {.c = c, .act = zt_linears_act(a, 0)}, rest = {.c = c, .act = &a->act};
    bool alone = strcmp(own.act->s, a->act.s) != 0;
    for (int k = 0; k < 3; k++) {
        products *p = k == 0 && alone ? &own : &rest;
        if (!c->in[1 + k]) continue;
        p->w[p->n] = 1 + k;
        p->b[p->n] = 4 + k;
        p->y[p->n++] = c->y[k];
    }
    zt_status s = multiply(&own);
    return s ? s : multiply(&rest);
}

static zt_status emit_gated(zt_cu_call *c)
{
    const zt_gated_linear_attrs *a = c->attrs;
    int64_t n = zt_type_count(c->out[0]);
    size_t bytes = zt_type_bytes(c->out[0]);
    products p = {.c = c, .act = &a->act, .n = 2, .w = {1, 2}, .b = {3, 4}};
    for (int k = 0; k < 2; k++)
        if (!(p.y[k] = zt_cu_scratch(c, bytes))) return ZT_ENOMEM;
    zt_status s = multiply(&p);
    const zt_cu_gate_args gate = {.g = p.y[0],
                                  .u = p.y[1],
                                  .y = c->y[0],
                                  .n = n,
                                  .type = (int32_t)c->out[0]->dtype,
                                  .gate = curve_of(zt_gate_after(&a->gate))};
    if (s) return s;
    return zt_cu_launch(c, "zt_gate", zt_cu_grid(n, 256), (zt_cu_dim){256, 1, 1}, 0, &gate,
                        sizeof gate);
}

static zt_status emit_act(zt_cu_call *c)
{
    const zt_linear_act_attrs *a = c->attrs;
    products p = {.c = c, .act = &a->act, .n = 1, .w = {1}, .b = {2}, .y = {c->y[0]}};
    p.after = ZT_CU_AFTER_CURVE;
    p.curve = curve_of(zt_curve_after(&a->curve));
    return multiply(&p);
}

static zt_status emit_add(zt_cu_call *c)
{
    const zt_linear_add_attrs *a = c->attrs;
    products p = {.c = c, .act = &a->act, .n = 1, .w = {1}, .b = {3}, .y = {c->y[0]}};
    p.after = ZT_CU_AFTER_ADD;
    p.residual = c->x[2];
    return multiply(&p);
}

const zt_cu_row zt_cu_linear[] = {
    {ZT_OP_linear, has_linear, emit_linear, 1 << 1},
    {ZT_OP_linears, has_linears, emit_linears, 1 << 1 | 1 << 2 | 1 << 3},
    {ZT_OP_gated_linear, has_gated, emit_gated, 1 << 1 | 1 << 2},
    {ZT_OP_linear_act, has_linear, emit_act, 1 << 1},
    {ZT_OP_linear_add, has_linear, emit_add, 1 << 1},
    {0},
};
