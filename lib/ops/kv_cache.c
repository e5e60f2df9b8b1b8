/* kv_cache.c - rows of the ops that write keys and values into their caches: kv_put, and rope_put, which
 * rotates queries and keys before. rope_put means its expansion.
 */
#include "lib/ops/rope.h"
#include "lib/ops/vjp.h"
#include "lib/tensor/block_row.h"

#include <string.h>

/* ---- kv_put ---------------------------------------------------------------------------------- */

static zt_status kv_put_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_type *cache = in[0], *x = in[1];
    (void)attrs;
    if (!zt_is_cache_type(cache->dtype) || cache->rank != 2)
        return zt_row_fail(ctx, ZT_ESHAPE, "cache must be a matrix of " ZT_CACHE_TYPES);
    zt_status status = zt_row_want(ctx, "x", x, ZT_F32, 2);
    if (status) return status;
    if (x->dim[1] != cache->dim[1])
        return zt_row_fail(ctx, ZT_ESHAPE, "x has %lld columns, but cache has %lld", (long long)x->dim[1],
                           (long long)cache->dim[1]);
    out[0] = *cache;
    return zt_slots_infer(ctx, x->dim[0], cache->dim[0], in[2], in[3], in[4]);
}

/* A row as the cache holds it; plain types are rounded where a value is stored. */
static void put_row(zt_dtype dtype, const double *x, int64_t W, double *to)
{
    enum { PIECE = 256 };
    float numbers[PIECE];
    uint8_t blocks[2 * PIECE];
    if (!zt_is_block_cache(dtype) && to != x) memcpy(to, x, (size_t)W * sizeof *x);
    for (int64_t at = 0; zt_is_block_cache(dtype) && at < W; at += PIECE) {
        const int64_t n = W - at < PIECE ? W - at : PIECE;
        for (int64_t i = 0; i < n; i++) numbers[i] = (float)x[at + i];
        zt_block_row_encode(dtype, numbers, n, blocks);
        zt_dtype_get(dtype)->decode(blocks, numbers, n);
        for (int64_t i = 0; i < n; i++) to[at + i] = (double)numbers[i];
    }
}

static void kv_put_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)attrs;
    int64_t n = in[1].type->dim[0], W = in[1].type->dim[1];
    zt_slots slots = zt_slots_make(in[0].type->dim[0], &in[3], &in[4]);
    for (int64_t r = 0; r < n; r++) {
        int64_t slot = zt_slots_find(&slots, r, in[2].i[r], error);
        if (slot >= 0) put_row(out[0].type->dtype, in[1].f + r * W, W, out[0].f + slot * W);
    }
}

static double kv_put_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return (double)zt_type_count(in[1]);
}

static bool kv_put_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_dtype cache;
        int64_t ctx, W, n, pos0, S, B;
    } rows[] = {
        {ZT_F32, 8, 33, 2, 0, 0, 0},   {ZT_F16, 8, 33, 2, 3, 0, 0},        {ZT_F16, 64, 192, 1, 63, 0, 0},
        {ZT_F16, 64, 192, 9, 5, 0, 0}, {ZT_F32, 64, 192, 65 - 1, 0, 0, 0}, {ZT_F16, 64, 192, 7, 30, 0, 4},
        {ZT_F32, 60, 40, 7, 2, 3, 12}, {ZT_F16, 96, 64, 20, 11, 3, 6},     {ZT_F16, 16, 64, 4, 2, 1, 0},
        {ZT_F32, 8, 4, 0, 0, 0, 0},    {ZT_F16, 8, 64, 0, 0, 1, 2},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_in(test_case, 0, ZT_FILL_NORMAL, 0, rows[i].cache, 2, (int64_t[]){rows[i].ctx, rows[i].W});
    zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){rows[i].n, rows[i].W});
    zt_slots_case(test_case, 2, rows[i].n, rows[i].pos0, rows[i].S, rows[i].B);
    return true;
}

const zt_opdef zt_op_kv_put = {
    .synopsis = "cache1 = cache (donated: overwritten in place) with cache1[slot(seq[t],pos[t])] = "
                "x[t]; cache [ctx,W] of f16, f32, or quantized by row: q8_0, q5_1, q5_0, q4_1, q4_0, "
                "iq4_nl; x f32[n,W], pos i32[n], seq i32[n] (absent: 0), block "
                "table i32[S,B]: slot(s,p) = table[s,p/block]*block + p%block, block = ctx/B "
                "(without a table: p). The slots of one step must differ; a position, sequence or "
                "block out of range is an error",
    .n_required = 3,
    .flags = ZT_OPF_EXACT,
    .donates = 1,
    .infer = kv_put_infer,
    .ref = kv_put_ref,
    .flops = kv_put_flops,
    .cases = kv_put_cases,
};

enum { KC, VC, Q, K, V, POS, SEQ, TABLE, TAB, GQ, GK }; /* inputs */

/* The two ops that make q (or k) what it is turned into: types, or a loop over rows. */
static zt_status turned_infer(zt_ctx *ctx, const zt_rope_put_attrs *attrs, const zt_type *const in[], int x, int g)
{
    const zt_rope_attrs rope = zt_rope_put_rope(attrs);
    const zt_rms_norm_attrs norm = {attrs->eps, attrs->norm_dims};
    zt_type out[ZT_MAX_OUT];
    zt_status status = zt_row_want(ctx, x == Q ? "q" : "k", in[x], ZT_F32, 2);
    if (!status && in[g]) status = zt_op_rms_norm.infer(ctx, &norm, (const zt_type *[]){in[x], in[g]}, out);
    if (status) return status;
    return zt_op_rope.infer(ctx, &rope, (const zt_type *[]){in[x], in[POS], in[TAB]}, out);
}

static zt_status rope_put_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = zt_row_want(ctx, "pos", in[POS], ZT_I32, 1);
    if (!status) status = turned_infer(ctx, attrs, in, Q, GQ);
    if (!status) status = turned_infer(ctx, attrs, in, K, GK);
    for (int c = KC; c <= VC && !status; c++)
        status = zt_op_kv_put.infer(ctx, NULL, (const zt_type *[]){in[c], in[c + K], in[POS], in[SEQ], in[TABLE]}, &out[c]);
    out[2] = *in[Q];
    return status;
}

/* Rows of x, n of them from row r of the call, normed and turned into y. */
static void rotate_rows(const zt_rope_put_attrs *attrs, const zt_arg *in, int x, int g, int64_t r, int64_t n, double *y)
{
    const zt_rope_attrs rope = zt_rope_put_rope(attrs);
    const zt_rms_norm_attrs norm = {attrs->eps, attrs->norm_dims};
    int64_t W = in[x].type->dim[1];
    zt_type rows = zt_type_make(ZT_F32, 2, (int64_t[]){n, W}), some = *in[POS].type;
    zt_arg from = {.type = &rows, .f = in[x].f + r * W}, to[2] = {{.type = &rows, .f = y}};
    zt_runtime_error none = {0};
    some.dim[0] = n;
    if (in[g].type) {
        zt_op_rms_norm.ref(&norm, (zt_arg[]){from, in[g]}, to, &none);
        from = to[0];
    }
    zt_arg pos = {.type = &some, .i = in[POS].i + r};
    zt_op_rope.ref(&rope, (zt_arg[]){from, pos, in[TAB]}, to, &none);
}

static void rope_put_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t n = in[Q].type->dim[0], W = in[K].type->dim[1];
    zt_slots slots = zt_slots_make(in[KC].type->dim[0], &in[SEQ], &in[TABLE]);
    if (out[2].type) rotate_rows(attrs, in, Q, GQ, 0, n, out[2].f);
    for (int64_t r = 0; r < n; r++) {
        int64_t slot = zt_slots_find(&slots, r, in[POS].i[r], error);
        if (slot < 0) continue;
        rotate_rows(attrs, in, K, GK, r, 1, out[0].f + slot * W);
        put_row(out[0].type->dtype, out[0].f + slot * W, W, out[0].f + slot * W);
    }
    zt_op_kv_put.ref(NULL, (zt_arg[]){in[VC], in[V], in[POS], in[SEQ], in[TABLE]}, &out[1], error);
}

/* Of q and k; what is put into a cache only moves. */
static double rope_put_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    double each = in[GQ] ? 7 : 3;
    (void)attrs, (void)out;
    return each * (double)(zt_type_count(in[Q]) + zt_type_count(in[K]));
}

static double rope_put_bytes(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    double read = 0;
    (void)attrs;
    for (int k = Q; k <= V; k++) read += (double)zt_type_bytes(in[k]);
    for (int k = KC; k <= VC; k++) {
        const zt_dtype_info *info = zt_dtype_get(out[k].dtype);
        read += (double)zt_type_count(in[K + k]) * info->block_bytes / info->block;
    }
    return read + (double)zt_type_bytes(in[Q]);
}

/* Caches [ctx,G D] of n rows from pos0, H heads of D queries; what is there of norms, divisors,
 * sequences and table. */
static bool rope_put_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_dtype cache;
        int64_t ctx, n, pos0, H, G, D, S, B;
        int norms, tab; /* norms 2: of whole rows */
        const char *pair;
    } rows[] = {
        {ZT_F16, 64, 1, 63, 9, 3, 64, 1, 2, 0, 0, "halves"},   {ZT_F16, 64, 9, 5, 9, 3, 64, 1, 2, 0, 0, "neighbours"},
        {ZT_F16, 64, 9, 5, 4, 1, 40, 1, 2, 1, 0, "halves"},    {ZT_F16, 96, 20, 11, 6, 2, 32, 3, 6, 0, 1, "neighbours"},
        {ZT_F16, 96, 20, 11, 6, 2, 32, 3, 6, 1, 1, "halves"},  {ZT_F32, 128, 65, 0, 3, 3, 16, 1, 4, 2, 0, "halves"},
        {ZT_F32, 128, 65, 2, 3, 1, 16, 1, 0, 0, 0, "halves"},  {ZT_F32, 8, 2, 3, 2, 1, 34, 0, 0, 0, 0, "halves"},
        {ZT_F32, 8, 2, 3, 2, 1, 34, 0, 0, 1, 0, "neighbours"}, {ZT_F16, 8, 2, 3, 2, 1, 34, 0, 0, 0, 1, "halves"},
        {ZT_F32, 8, 2, 3, 2, 1, 34, 0, 0, 1, 1, "halves"},     {ZT_F16, 64, 7, 30, 3, 1, 64, 0, 4, 0, 0, "halves"},
        {ZT_F32, 8, 0, 0, 2, 1, 4, 1, 2, 0, 0, "halves"},
    };
    if (i >= ZT_LEN(rows)) return false;
    int64_t D = rows[i].D, n = rows[i].n, half = D / 2;
    const int64_t q[] = {n, rows[i].H * D}, k[] = {n, rows[i].G * D}, kv[] = {rows[i].ctx, k[1]};
    zt_rope_put_attrs a = zt_rope_put_defaults();
    a.theta = 1e5, a.head = D, a.eps = 1e-6;
    a.norm_dims = rows[i].norms == 2 ? 0 : D;
    if (rows[i].tab) a.scale = 0.5, a.amplitude = 1.25, a.extend = 0.5, a.low = 2, a.high = 9;
    memset(&a.pair, 0, sizeof a.pair);
    memcpy(a.pair.s, rows[i].pair, strlen(rows[i].pair));
    zt_case_attrs(test_case, &a, sizeof a);
    for (int x = KC; x <= VC; x++) zt_case_in(test_case, x, ZT_FILL_NORMAL, 0, rows[i].cache, 2, kv);
    for (int x = Q; x <= V; x++) zt_case_in(test_case, x, ZT_FILL_NORMAL, 0, ZT_F32, 2, x == Q ? q : k);
    zt_slots_case(test_case, POS, n, rows[i].pos0, rows[i].S, rows[i].B);
    if (rows[i].tab) zt_case_in(test_case, TAB, ZT_FILL_POSITIVE, 0, ZT_F32, 1, &half);
    if (!rows[i].norms) return true;
    zt_case_in(test_case, GQ, ZT_FILL_NORMAL, 0, ZT_F32, 1, rows[i].norms == 2 ? &q[1] : &D);
    zt_case_in(test_case, GK, ZT_FILL_NORMAL, 0, ZT_F32, 1, rows[i].norms == 2 ? &k[1] : &D);
    return true;
}

static int emit_turned(const zt_emit *emit, const zt_rope_put_attrs *attrs, const int *in, int x, int g)
{
    const zt_rope_attrs rope = zt_rope_put_rope(attrs);
    const zt_rms_norm_attrs norm = {attrs->eps, attrs->norm_dims};
    int y = in[g] == ZT_NONE ? in[x] : zt_build_rms_norm(emit, in[x], in[g], &norm, NULL);
    return zt_build_rope(emit, y, in[POS], in[TAB], &rope);
}

static void rope_put_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    out[2] = emit_turned(emit, attrs, in, Q, GQ);
    int k = emit_turned(emit, attrs, in, K, GK);
    out[0] = zt_build_kv_put(emit, in[KC], k, in[POS], in[SEQ], in[TABLE]);
    out[1] = zt_build_kv_put(emit, in[VC], in[V], in[POS], in[SEQ], in[TABLE]);
}

const zt_opdef zt_op_rope_put = {
    .synopsis = "y = rope(q) by pos and tab, kc1 = kv_put of rope(k) into kc, vc1 = kv_put of v into "
                "vc, at pos, seq and table; with gq and gk, q and k first go through rms_norm (eps, "
                "dims = norm_dims); kc and vc (donated: overwritten in place) caches [ctx,W] as in kv_put, k and "
                "v f32[n,W], q and y f32[n,H]; the other inputs and attributes are those of rope, "
                "rms_norm and kv_put",
    .n_required = 6,
    .flags = ZT_OPF_SAME,
    .infer = rope_put_infer,
    .ref = rope_put_ref,
    .flops = rope_put_flops,
    .bytes = rope_put_bytes,
    .cases = rope_put_cases,
    .expand = rope_put_expand,
    .donates = 2,
};
