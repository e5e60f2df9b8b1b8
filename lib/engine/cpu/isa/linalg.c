/* linalg.c - the matrix product: y[t,m] = sum_k x[t,k] w[m,k] + b[m], with packed weights.
 *
 * A tile multiplies one or more groups of 16 rows (pack.h) by 1, 2, 4 or 8 tokens. Whatever its
 * size, one value is one f32 accumulator that takes the columns in order: k = 0, 1, 2 ... with f32
 * activations, blocks of 32 columns with 8-bit ones (exact integers inside the block), pairs with
 * bfloat16. So the bits of a token do not depend on the tokens beside it, nor on the threads.
 *
 * Activations are brought into the form that tiles read, in a phase of their own or, for a few
 * tokens, by every thread for itself, which costs less than a barrier:
 *   ROWS    f32 as they are: x itself
 *   BRAIN   rounded to bfloat16: pairs of columns in a word; without AVX-512 as f32
 *   CODES   8 bits: tokens of a tile (T) side by side, for each 32 columns
 *             i8 q[8][T][4], f32 d[T], and per 32 columns (6 bits: twice, per 16) [T] of
 *             i32 -offset * sum(q), or with minima f32 d * sum(q)
 */
#include <math.h>

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/dot.h"

enum { SIZES = 4, MOST = 8, FEW = 4, MOST_GROUPS = 4 }; /* tiles of 1, 2, 4, 8 tokens */

/* w: the groups' packed bytes; x: the tile's activations, rows `step` apart where they are rows;
 * acc[group][token][16]. Each makes its pass for LANES rows of the groups, from row r on. */
typedef void tile_fn(const uint8_t *const *w, int64_t K, const void *x, size_t step, float *acc);

/* ---- tiles: 8-bit activations ---------------------------------------------------------------- */

/* Scales for columns 16h.. of block b, and minima; p is the head, tail what follows the codes. */
INLINE fv scale_of(zt_pack_form f, const uint8_t *p, const uint8_t *tail, int b, int h, int r)
{
    if (!f.head) return fv_of_half(tail + 2 * r);
    if (!f.mins) return fv_mul(fv_of_half(p + 2 * r), fv_of_i8(p + 32 + 16 * (2 * b + h) + r));
    return fv_mul(fv_of_half(p + 2 * r), fv_of_u8(p + 64 + 16 * b + r));
}

INLINE fv min_of(zt_pack_form f, const uint8_t *p, const uint8_t *tail, int b, int r)
{
    if (!f.head) return fv_of_half(tail + 32 + 2 * r);
    return fv_neg(fv_mul(fv_of_half(p + 32 + 2 * r), fv_of_u8(p + 192 + 16 * b + r)));
}

/* Bytes of CODES for 32 columns of one token. */
INLINE size_t code_bytes(zt_pack_form f)
{
    return f.bits == 6 ? 44 : 40;
}

/* One block of 32 columns for T tokens: sum[t] += what each row gives. */
TEMPLATE void block_codes(zt_pack_form f, int T, int r, const uint8_t *p, const uint8_t *q, int b,
                          const uint8_t *x, fv *sum)
{
    const uint8_t *tail = q + ZT_PACK_CODES(f.bits), *d = x + 32 * T, *s = d + 4 * T;
    cv c[8];
    iv dot[MOST];
    cv_unpack(f.bits, q + 4 * r, c);
    fv scale = scale_of(f, p, tail, b, 0, r), other = scale;
    if (f.mins) other = min_of(f, p, tail, b, r);
    if (f.bits == 6) other = scale_of(f, p, tail, b, 1, r);
    cv_dots(f.bits, f.bits == 6 ? 4 : 8, T, c, x, f.mins ? NULL : s, dot);
    UNROLL for (int t = 0; t < T; t++) {
        fv dx = fv_set(load_f32(d + 4 * t));
        sum[t] = fv_fma(fv_of_iv(dot[t]), fv_mul(scale, dx), sum[t]);
        if (f.mins) sum[t] = fv_fma(other, fv_set(load_f32(s + 4 * t)), sum[t]);
    }
    if (f.bits != 6) return;
    cv_dots(f.bits, 4, T, c + 4, x + 16 * T, s + 4 * T, dot);
    UNROLL for (int t = 0; t < T; t++) {
        fv dx = fv_set(load_f32(d + 4 * t));
        sum[t] = fv_fma(fv_of_iv(dot[t]), fv_mul(other, dx), sum[t]);
    }
}

TEMPLATE void tile_codes(zt_pack_form f, int T, int r, const uint8_t *p, int64_t K,
                         const uint8_t *x, size_t step, float *acc)
{
    (void)step;
    const int blocks = f.head ? 8 : 1;
    const size_t bytes = (size_t)(ZT_PACK_CODES(f.bits) + f.tail);
    fv sum[MOST];
    UNROLL for (int t = 0; t < T; t++) sum[t] = fv_zero();
    for (int64_t k = 0; k < K; k += 32 * blocks) {
        const uint8_t *q = p + f.head;
        for (int b = 0; b < blocks; b++, q += bytes, x += (size_t)T * code_bytes(f)) {
            for (size_t line = 0; T <= 2 && line < bytes; line += 64)
                __builtin_prefetch(q + 8192 + line);
            block_codes(f, T, r, p, q, b, x, sum);
        }
        p = q;
    }
    UNROLL for (int t = 0; t < T; t++) fv_store(acc + 16 * t + r, sum[t]);
}

/* ---- tiles: f32 activations ------------------------------------------------------------------ */

/* Of every row and token one sum, in order: G groups times T tokens of them are kept going. */
typedef struct sums {
    fv v[MOST_GROUPS][MOST];
} sums;

TEMPLATE void sums_zero(sums *s, int G, int T)
{
    UNROLL for (int g = 0; g < G; g++)
        UNROLL for (int t = 0; t < T; t++) s->v[g][t] = fv_zero();
}

TEMPLATE void sums_store(const sums *s, int G, int T, int r, float *acc)
{
    UNROLL for (int g = 0; g < G; g++)
        UNROLL for (int t = 0; t < T; t++) fv_store(acc + 16 * (g * T + t) + r, s->v[g][t]);
}

/* 16 columns of G groups as f32 weights, times T tokens. c: their codes, stored. */
TEMPLATE void half_rows(zt_pack_form f, int G, int T, const uint8_t (*c)[8][64], int h,
                        const fv *scale, const fv *min, const float *x, size_t step, sums *s)
{
    const iv offset = iv_set(f.offset);
    for (int i = 0; i < 16; i++) {
        UNROLL for (int g = 0; g < G; g++) {
            fv w = fv_mul(fv_of_iv(iv_sub(iv_byte(c[g][4 * h + i / 4], i % 4), offset)), scale[g]);
            if (f.mins) w = fv_add(w, min[g]);
            UNROLL for (int t = 0; t < T; t++)
                s->v[g][t] = fv_fma(w, fv_set(x[(size_t)t * step + (size_t)i]), s->v[g][t]);
        }
    }
}

TEMPLATE void tile_rows(zt_pack_form f, int G, int T, int r, const uint8_t *const *w, int64_t K,
                        const float *x, size_t step, float *acc)
{
    const int blocks = f.head ? 8 : 1;
    const size_t bytes = (size_t)(ZT_PACK_CODES(f.bits) + f.tail);
    size_t at = 0;
    fv scale[MOST_GROUPS], min[MOST_GROUPS];
    uint8_t codes[MOST_GROUPS][8][64];
    sums s;
    sums_zero(&s, G, T);
    for (int64_t k = 0; k < K; at += (size_t)f.head + (size_t)blocks * bytes) {
        for (int b = 0; b < blocks; b++, k += 32) {
            const size_t q = at + (size_t)f.head + (size_t)b * bytes;
            for (int g = 0; g < G; g++) {
                cv c[8];
                cv_unpack(f.bits, w[g] + q + 4 * r, c);
                UNROLL for (int i = 0; i < 8; i++) cv_store(codes[g][i], c[i]);
            }
            for (int h = 0; h < 2; h++) {
                UNROLL for (int g = 0; g < G; g++) {
                    const uint8_t *tail = w[g] + q + ZT_PACK_CODES(f.bits);
                    scale[g] = scale_of(f, w[g] + at, tail, b, h, r);
                    if (f.mins) min[g] = min_of(f, w[g] + at, tail, b, r);
                }
                half_rows(f, G, T, codes, h, scale, min, x + k + 16 * h, step, &s);
            }
        }
    }
    sums_store(&s, G, T, r, acc);
}

/* Column k of rows r.. of a group of plain weights as f32. */
INLINE fv plain_column(zt_dtype t, const uint8_t *w, int64_t k, int r)
{
    if (t == ZT_F32) return fv_load(w + 64 * k + 4 * r);
    if (t == ZT_F16) return fv_of_half(w + 32 * k + 2 * r);
    return fv_of_brain(w + 64 * (k / 2) + 4 * r, (int)(k % 2));
}

TEMPLATE void tile_plain(zt_dtype type, int G, int T, int r, const uint8_t *const *w, int64_t K,
                         const float *x, size_t step, float *acc)
{
    sums s;
    sums_zero(&s, G, T);
    for (int64_t k = 0; k < K; k++) {
        UNROLL for (int g = 0; g < G; g++) {
            fv v = plain_column(type, w[g], k, r);
            UNROLL for (int t = 0; t < T; t++)
                s.v[g][t] = fv_fma(v, fv_set(x[(size_t)t * step + (size_t)k]), s.v[g][t]);
        }
    }
    sums_store(&s, G, T, r, acc);
}

/* ---- tiles: bfloat16 activations ------------------------------------------------------------- */

#if defined(ZT_ISA_avx512)
/* x: words of two columns, rows `step` words apart. */
INLINE void tile_brain(int G, int T, int r, const uint8_t *const *w, int64_t K, const four *x,
                       size_t step, float *acc)
{
    sums s;
    sums_zero(&s, G, T);
    for (int64_t k = 0; k < (K + 1) / 2; k++) {
        UNROLL for (int g = 0; g < G; g++) {
            __m512i v = _mm512_loadu_si512(w[g] + 64 * k);
            UNROLL for (int t = 0; t < T; t++)
                __asm__("vdpbf16ps %2%{1to16%}, %1, %0" /* gcc 12 takes two instructions for it */
                        : "+v"(s.v[g][t])
                        : "v"(v), "m"(x[(size_t)t * step + (size_t)k]));
        }
    }
    sums_store(&s, G, T, r, acc);
}
#endif

/* ---- the table of tiles ---------------------------------------------------------------------- */

typedef enum act_form { ROWS, BRAIN, CODES } act_form;

typedef struct tiles {
    tile_fn *fn[SIZES];
    int groups[SIZES]; /* that one call takes */
} tiles;

typedef struct weights {
    tiles exact, fast; /* act=f32, act=q8 */
    act_form fast_form;
    zt_pack_form form;
} weights;

#define TILE(name, body)                                                                           \
    static void name(const uint8_t *const *w, int64_t K, const void *x, size_t step, float *acc)   \
    {                                                                                              \
        for (int r = 0; r < ZT_PACK_ROWS; r += LANES) body;                                        \
    }
/* With f32 every sum is a chain of dependent additions, so a call keeps eight of them going. */
#define EACH_SIZE(X, NAME, arg)                                                                    \
    X(NAME, arg, 4, 1) X(NAME, arg, 4, 2) X(NAME, arg, 2, 4) X(NAME, arg, 1, 8)
#define ROWS_TILE(NAME, form, G, T)                                                                \
    TILE(rows_##NAME##_##T, tile_rows(form, G, T, r, w, K, x, step, acc))
#define CODES_TILE(NAME, form, G, T)                                                               \
    TILE(codes_##NAME##_##T, tile_codes(form, T, r, w[0], K, x, step, acc))
#define PLAIN_TILE(NAME, type, G, T)                                                               \
    TILE(rows_##NAME##_##T, tile_plain(type, G, T, r, w, K, x, step, acc))
#define BRAIN_TILE(NAME, unused, G, T)                                                             \
    TILE(brain_##NAME##_##T, tile_brain(G, T, r, w, K, x, step, acc))

#define FORM(bits, offset, mins, head, tail) ((zt_pack_form){bits, offset, mins, head, tail})
#define X(NAME, bits, offset, mins, head, tail)                                                    \
    EACH_SIZE(ROWS_TILE, NAME, FORM(bits, offset, mins, head, tail))                               \
    EACH_SIZE(CODES_TILE, NAME, FORM(bits, offset, mins, head, tail))
ZT_PACK_BLOCKS(X)
#undef X
EACH_SIZE(PLAIN_TILE, F32, ZT_F32)
EACH_SIZE(PLAIN_TILE, F16, ZT_F16)
EACH_SIZE(PLAIN_TILE, BF16, ZT_BF16)
#if defined(ZT_ISA_avx512)
EACH_SIZE(BRAIN_TILE, BF16, 0)
#define BRAIN_TILES {{brain_BF16_1, brain_BF16_2, brain_BF16_4, brain_BF16_8}, {4, 4, 2, 1}}
#else
#define BRAIN_TILES ROWS_TILES(BF16)
#endif

#define ROWS_TILES(NAME)                                                                           \
    {{rows_##NAME##_1, rows_##NAME##_2, rows_##NAME##_4, rows_##NAME##_8}, {4, 4, 2, 1}}
#define CODES_TILES(NAME)                                                                          \
    {{codes_##NAME##_1, codes_##NAME##_2, codes_##NAME##_4, codes_##NAME##_8}, {1, 1, 1, 1}}

static const weights table[ZT_DTYPE_COUNT] = {
    [ZT_F32] = {ROWS_TILES(F32), ROWS_TILES(F32), ROWS, {0}},
    [ZT_F16] = {ROWS_TILES(F16), ROWS_TILES(F16), ROWS, {0}},
    [ZT_BF16] = {ROWS_TILES(BF16), BRAIN_TILES, BRAIN, {0}},
#define X(NAME, bits, offset, mins, head, tail)                                                    \
    [ZT_##NAME] = {ROWS_TILES(NAME), CODES_TILES(NAME), CODES, {bits, offset, mins, head, tail}},
    ZT_PACK_BLOCKS(X)
#undef X
};

/* ---- activations ----------------------------------------------------------------------------- */

/* Tokens come in tiles of 8, and at the end in one of 4, 2, 1 as needed. */
static int64_t tile_at(int64_t t, int64_t n)
{
    int64_t left = n - t;
    return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* The tile that token t of n belongs to: its first token. */
static int64_t tile_of(int64_t t, int64_t n)
{
    int64_t first = t / MOST * MOST;
    while (t >= first + tile_at(first, n)) first += tile_at(first, n);
    return first;
}

static void put_codes(zt_pack_form f, const float *x, int64_t K, int64_t T, uint8_t *dst)
{
    /* dst is at this token's place in its tile */
    for (int64_t k = 0; k < K; k += 32, dst += (size_t)T * code_bytes(f)) {
        int8_t q[32];
        float d;
        int32_t sum[2];
        quantize(x + k, q, &d, sum);
        for (int i = 0; i < 8; i++) memcpy(dst + 4 * T * i, q + 4 * i, 4);
        uint8_t *p = dst + 32 * T;
        memcpy(p, &d, 4);
        if (f.mins) {
            float s = d * (float)(sum[0] + sum[1]);
            memcpy(p + 4 * T, &s, 4);
        } else if (f.bits == 6) {
            for (int h = 0; h < 2; h++) {
                int32_t s = -f.offset * sum[h];
                memcpy(p + 4 * T * (1 + h), &s, 4);
            }
        } else {
            int32_t s = -f.offset * (sum[0] + sum[1]);
            memcpy(p + 4 * T, &s, 4);
        }
    }
}

/* A row of BRAIN: words of two columns, or f32. */
static int64_t brain_words(int64_t K)
{
#if defined(ZT_ISA_avx512)
    return (K + 1) / 2;
#else
    return K;
#endif
}

/* The upper half of the bits of x rounded to bfloat16 as zt_f32_to_bf16 does it. */
static inline uint32_t brain_of(uint32_t u)
{
    uint32_t nan = u >> 16 | 0x40, rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (u & 0x7fffffff) > 0x7f800000 ? nan : rounded;
}

static void put_brain(const float *x, int64_t K, uint8_t *dst)
{
    for (int64_t k = 0; k < K; k += 16) {
        uint32_t u[16] = {0};
        const size_t n = K - k < 16 ? (size_t)(K - k) : 16;
        memcpy(u, x + k, 4 * n);
#if defined(ZT_ISA_avx512)
        uint16_t half[16];
        for (int i = 0; i < 16; i++) half[i] = (uint16_t)brain_of(u[i]);
        memcpy(dst + 2 * k, half, 2 * (n + n % 2));
#else
        for (int i = 0; i < 16; i++) u[i] = brain_of(u[i]) << 16;
        memcpy(dst + 4 * k, u, 4 * n);
#endif
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

enum { A_EXACT, A_FORM, A_ROW_BYTES, A_BLOCK, A_GROUPS, A_PACK, A_ALONE }; /* of aux */

typedef struct shape {
    int64_t n, K, M;
} shape;

static shape shape_of(const zt_cpu_call *c)
{
    return (shape){c->in[0].type.dim[0], c->in[0].type.dim[1], c->in[1].type.dim[0]};
}

static size_t packed_bytes(const zt_cpu_call *c)
{
    if (!c->aux[A_PACK]) return 0;
    return (size_t)c->aux[A_GROUPS] * zt_pack_group_bytes(c->in[1].type.dtype, shape_of(c).K);
}

static bool linear_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs;
    return in[0]->dtype == ZT_F32 && in[0]->rank == 2 && in[1]->rank == 2 &&
           zt_pack_has(in[1]->dtype) && (!in[2] || in[2]->dtype == ZT_F32) &&
           out[0].dtype == ZT_F32;
}

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

/* Activations of one token in their form; 0 where tiles read x itself. */
static int64_t row_bytes_of(const weights *w, act_form form, int64_t K)
{
    if (form == ROWS) return 0;
    return form == CODES ? K / 32 * (int64_t)code_bytes(w->form) : 4 * brain_words(K);
}

static void linear_setup(zt_cpu_call *c)
{
    const weights *w = &table[c->in[1].type.dtype];
    shape s = shape_of(c);
    bool exact = strcmp(((const zt_linear_attrs *)c->attrs)->act.s, "q8") != 0;
    act_form form = exact ? ROWS : w->fast_form;
    int64_t groups = (s.M + ZT_PACK_ROWS - 1) / ZT_PACK_ROWS;
    c->aux[A_EXACT] = exact;
    c->aux[A_FORM] = form;
    c->aux[A_ROW_BYTES] = row_bytes_of(w, form, s.K);
    c->aux[A_GROUPS] = groups;
    c->aux[A_PACK] = !c->in[1].packed;
    c->aux[A_ALONE] = s.n <= FEW; /* every thread makes the few tokens' form for itself */
    /* Tokens of an item: their activations stay in a part of the second-level cache while groups
     * pass by. */
    int64_t bytes = form == ROWS ? 4 * s.K : c->aux[A_ROW_BYTES], fit = (192 << 10) / (bytes + 1);
    c->aux[A_BLOCK] = fit < 32 ? 32 : fit > 128 ? 128 : fit / MOST * MOST;
    int64_t own = c->aux[A_ALONE] ? 0 : form == ROWS ? 0 : s.n;
    int64_t first = (c->aux[A_PACK] ? groups : 0) + own;
    c->n_phases = first ? 2 : 1;
    c->items[0] = first;
    c->items[c->n_phases - 1] = (s.n + c->aux[A_BLOCK] - 1) / c->aux[A_BLOCK] * groups;
    int64_t acts = round_up(s.n * c->aux[A_ROW_BYTES], 64);
    c->shared_bytes = packed_bytes(c) + (size_t)(own ? acts : 0);
    c->local_bytes = (size_t)(MOST_GROUPS * MOST * 64 + (own ? 0 : acts));
}

static void put_token(const zt_cpu_call *c, int64_t t, uint8_t *acts)
{
    const weights *w = &table[c->in[1].type.dtype];
    shape s = shape_of(c);
    const float *x = (const float *)c->in[0].data + t * s.K;
    int64_t bytes = c->aux[A_ROW_BYTES];
    if (c->aux[A_FORM] == CODES) {
        int64_t first = tile_of(t, s.n);
        put_codes(w->form, x, s.K, tile_at(first, s.n), acts + first * bytes + 4 * (t - first));
    } else if (c->aux[A_FORM] == BRAIN) {
        put_brain(x, s.K, acts + t * bytes);
    }
}

static void pack_group(const zt_cpu_call *c, int64_t g)
{
    shape s = shape_of(c);
    zt_dtype t = c->in[1].type.dtype;
    const zt_dtype_info *d = zt_dtype_get(t);
    size_t row = (size_t)(s.K / d->block) * (size_t)d->block_bytes;
    int64_t rows = s.M - g * ZT_PACK_ROWS;
    zt_pack_group(t, s.K, (const uint8_t *)c->in[1].data + (size_t)g * ZT_PACK_ROWS * row, row,
                  rows < ZT_PACK_ROWS ? (int)rows : ZT_PACK_ROWS,
                  (uint8_t *)c->shared + (size_t)g * zt_pack_group_bytes(t, s.K));
}

/* Rows of y from the accumulators of a group. */
static void finish(const zt_cpu_call *c, int64_t t, int64_t T, int64_t g, const float *acc)
{
    shape s = shape_of(c);
    int64_t m = g * ZT_PACK_ROWS, rows = s.M - m < ZT_PACK_ROWS ? s.M - m : ZT_PACK_ROWS;
    float *y = (float *)c->out[0].data + t * s.M + m;
    const float *b = c->in[2].data ? (const float *)c->in[2].data + m : NULL;
    for (int64_t u = 0; u < T; u++, y += s.M, acc += ZT_PACK_ROWS) {
        for (int64_t r = 0; r < rows; r += LANES) {
            if (r + LANES <= rows)
                fv_store(y + r, b ? fv_add(fv_load(acc + r), fv_load(b + r)) : fv_load(acc + r));
            else
                for (int64_t i = r; i < rows; i++) y[i] = b ? acc[i] + b[i] : acc[i];
        }
    }
}

typedef struct job { /* what tiles of one call share */
    const zt_cpu_call *c;
    const tiles *tiles;
    const uint8_t *w, *x; /* packed weights; activations in their form */
    size_t group_bytes, row_bytes, step;
    float *acc;
} job;

/* The T (size'th size) tokens from t times groups g..end-1, of which one call takes a few. */
static void tile_groups(const job *j, int64_t t, int size, int64_t g, int64_t end)
{
    int64_t T = (int64_t)1 << size, K = shape_of(j->c).K;
    for (int at_once = j->tiles->groups[size]; g < end; g += at_once) {
        const uint8_t *w[MOST_GROUPS];
        for (int i = 0; i < at_once; i++) /* past the end the last again, not used */
            w[i] = j->w + (size_t)(g + i < end ? g + i : end - 1) * j->group_bytes;
        j->tiles->fn[size](w, K, j->x + (size_t)t * j->row_bytes, j->step, j->acc);
        for (int i = 0; i < at_once && g + i < end; i++)
            finish(j->c, t, T, g + i, j->acc + 16 * T * i);
    }
}

/* Tokens t..last-1 times groups g..end-1: a group stays in the first-level cache for all tiles. */
static void block_groups(const job *j, int64_t t, int64_t last, int64_t g, int64_t end)
{
    int64_t whole = t + (last - t) / MOST * MOST;
    int at_once = j->tiles->groups[SIZES - 1];
    for (int64_t i = g; i < end && whole > t; i += at_once)
        for (int64_t u = t; u < whole; u += MOST)
            tile_groups(j, u, SIZES - 1, i, i + at_once < end ? i + at_once : end);
    for (int size = SIZES - 2; size >= 0; size--) {
        if (!((last - whole) >> size & 1)) continue;
        tile_groups(j, whole, size, g, end);
        whole += (int64_t)1 << size;
    }
}

static void multiply(zt_cpu_call *c, int64_t begin, int64_t end, uint8_t *local)
{
    const weights *w = &table[c->in[1].type.dtype];
    shape s = shape_of(c);
    int64_t block = c->aux[A_BLOCK], groups = c->aux[A_GROUPS];
    job j = {.c = c,
             .tiles = c->aux[A_EXACT] ? &w->exact : &w->fast,
             .w = c->aux[A_PACK] ? c->shared : c->in[1].data,
             .x = (uint8_t *)c->shared + packed_bytes(c),
             .group_bytes = zt_pack_group_bytes(c->in[1].type.dtype, s.K),
             .row_bytes = (size_t)c->aux[A_ROW_BYTES],
             .step = (size_t)(c->aux[A_FORM] == BRAIN ? brain_words(s.K) : s.K),
             .acc = (float *)local};
    if (c->aux[A_FORM] == ROWS) {
        j.x = c->in[0].data;
        j.row_bytes = (size_t)(4 * s.K);
    } else if (c->aux[A_ALONE]) {
        uint8_t *own = local + MOST_GROUPS * MOST * 64;
        for (int64_t t = 0; t < s.n; t++) put_token(c, t, own);
        j.x = own;
    }
    while (begin < end) {
        int64_t t = begin / groups * block, g = begin % groups;
        int64_t n = end - begin < groups - g ? end - begin : groups - g;
        block_groups(&j, t, t + block < s.n ? t + block : s.n, g, g + n);
        begin += n;
    }
}

static void linear_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    if (phase == c->n_phases - 1) {
        multiply(c, begin, end, local);
        return;
    }
    int64_t groups = c->aux[A_PACK] ? c->aux[A_GROUPS] : 0;
    for (int64_t i = begin; i < end; i++) {
        if (i < groups)
            pack_group(c, i);
        else
            put_token(c, i - groups, (uint8_t *)c->shared + packed_bytes(c));
    }
}

/* Do two products of the same x bring it into the same form, in a phase that does nothing else? */
static bool linear_alike(const zt_cpu_call *a, const zt_cpu_call *b)
{
    const zt_pack_form *f = &table[a->in[1].type.dtype].form, *g = &table[b->in[1].type.dtype].form;
    return a->n_phases == 2 && b->n_phases == 2 && !a->aux[A_PACK] && !b->aux[A_PACK] &&
           a->aux[A_FORM] == b->aux[A_FORM] && f->offset == g->offset && f->mins == g->mins &&
           (f->bits == 6) == (g->bits == 6);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_linalg)[] = {
    {.op = ZT_OP_linear,
     .has = linear_has,
     .setup = linear_setup,
     .run = linear_run,
     .alike = linear_alike},
    {0},
};
