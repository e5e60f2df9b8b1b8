/* linalg.c - the matrix product: y[t,m] = sum_k x[t,k] w[m,k] + b[m], with packed weights.
 *
 * A tile multiplies one or more groups of 16 rows (pack.h) by 1, 2, 4 or 8 tokens. Whatever its
 * size, one value is one f32 accumulator that takes the columns in order: k = 0, 1, 2 ... with f32
 * activations, blocks of 32 columns with 8-bit ones (exact integers inside the block), pairs with
 * bfloat16. (Plain weights on AVX-512 have two, of which one takes every other column or pair.) So
 * the bits of a token do not depend on the tokens beside it, nor on the threads.
 *
 * Activations are brought into the form that tiles read, in a phase of their own or, for a few
 * tokens, by every thread for itself, which costs less than a barrier:
 *   ROWS    f32 as they are: x itself, or made from 16 bits
 *   BRAIN   rounded to bfloat16: pairs of columns in a word; without AVX-512 as f32
 *   CODES   8 bits: tokens of a tile (T) side by side, for each 32 columns
 *             i8 q[8][T][4], f32 d[T], and per 32 columns (or twice, per 16, as the weights have
 *             scales) [T] of i32 -offset * sum(q), or with minima f32 d * sum(q)
 * With act=q16 a token is two rows of CODES, its 8 bits and those of what they leave: tiles multiply
 * both, and the two sums are added.
 *
 * Groups of a type that is kept as in the file are decoded to f32, one at a time, by each thread
 * for itself, and then multiplied by all tokens of an item as f32 weights are.
 */
#include <math.h>

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/tiles.h"

enum { FEW = 4 }; /* rows that every thread brings into their form for itself */

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

/* x, or (`rest`) what its 8 bits leave of it. */
static void put_codes(zt_pack_form f, const float *x, int64_t K, int64_t T, bool rest, uint8_t *dst)
{
    /* dst is at this token's place in its tile */
    for (int64_t k = 0; k < K; k += 32, dst += (size_t)T * code_bytes(f)) {
        int8_t q[32];
        float d;
        int32_t sum[2];
        quantize(x + k, q, &d, sum);
        if (rest) {
            float left[32];
            for (int i = 0; i < 32; i++) left[i] = x[k + i] - d * (float)q[i];
            quantize(left, q, &d, sum);
        }
        for (int i = 0; i < 8; i++) memcpy(dst + 4 * T * i, q + 4 * i, 4);
        uint8_t *p = dst + 32 * T;
        memcpy(p, &d, 4);
        if (!zt_pack_halves(f)) sum[0] += sum[1];
        for (int h = 0; h <= zt_pack_halves(f); h++) {
            int32_t whole = -f.offset * sum[h];
            float product = d * (float)sum[h];
            memcpy(p + 4 * T * (1 + h), zt_pack_mins(f) ? (void *)&product : (void *)&whole, 4);
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

enum { A_EXACT, A_FORM, A_ROW_BYTES, A_BLOCK, A_GROUPS, A_PACK, A_ALONE, A_PARTS }; /* of aux */

typedef struct shape {
    int64_t n, K, M;
} shape;

static shape shape_of(const zt_cpu_call *c)
{
    return (shape){c->in[0].type.dim[0], c->in[0].type.dim[1], c->in[1].type.dim[0]};
}

/* Rows of activations: A_PARTS a token. */
static int64_t rows_of(const zt_cpu_call *c)
{
    return c->in[0].type.dim[0] * c->aux[A_PARTS];
}

static size_t packed_bytes(const zt_cpu_call *c)
{
    if (!c->aux[A_PACK]) return 0;
    return (size_t)c->aux[A_GROUPS] * zt_pack_group_bytes(c->in[1].type.dtype, shape_of(c).K);
}

static bool narrow(zt_dtype t) { return t == ZT_F32 || t == ZT_F16 || t == ZT_BF16; }

static bool linear_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs;
    return narrow(in[0]->dtype) && in[0]->rank == 2 && in[1]->rank == 2 &&
           zt_pack_has(in[1]->dtype) && (!in[2] || narrow(in[2]->dtype)) &&
           out[0].dtype == in[0]->dtype;
}

/* Is x read where it lies? */
static bool lies(const zt_cpu_call *c)
{
    return c->aux[A_FORM] == ROWS && c->in[0].type.dtype == ZT_F32;
}

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

/* Activations of one token in their form. */
static int64_t row_bytes_of(const weights *w, act_form form, int64_t K)
{
    if (form == ROWS) return 4 * K;
    return form == CODES ? K / 32 * (int64_t)code_bytes(w->form) : 4 * brain_words(K);
}

static void linear_setup(zt_cpu_call *c)
{
    const weights *w = &table[c->in[1].type.dtype];
    shape s = shape_of(c);
    const char *act = ((const zt_linear_attrs *)c->attrs)->act.s;
    bool exact = strcmp(act, "f32") == 0;
    act_form form = exact ? ROWS : w->fast_form;
    int64_t groups = (s.M + ZT_PACK_ROWS - 1) / ZT_PACK_ROWS;
    c->aux[A_EXACT] = exact;
    c->aux[A_FORM] = form;
    c->aux[A_ROW_BYTES] = lies(c) ? 0 : row_bytes_of(w, form, s.K); /* 0: tiles read x itself */
    c->aux[A_PARTS] = form == CODES && strcmp(act, "q16") == 0 ? 2 : 1;
    int64_t n = rows_of(c);
    c->aux[A_GROUPS] = groups;
    c->aux[A_PACK] = !c->in[1].packed;
    c->aux[A_ALONE] = n <= FEW; /* every thread makes the few tokens' form for itself */
    /* Tokens of an item: their activations stay in a part of the second-level cache while groups
     * pass by; what must be decoded passes seldom. */
    bool decoded = zt_pack_whole(c->in[1].type.dtype);
    int64_t bytes = form == ROWS ? 4 * s.K : c->aux[A_ROW_BYTES], fit = (192 << 10) / (bytes + 1);
    c->aux[A_BLOCK] = decoded || fit > 128 ? 128 : fit < 32 ? 32 : fit / MOST * MOST;
    int64_t own = c->aux[A_ALONE] || lies(c) ? 0 : n;
    int64_t first = (c->aux[A_PACK] ? groups : 0) + own;
    c->n_phases = first ? 2 : 1;
    c->items[0] = first;
    c->items[c->n_phases - 1] = (n + c->aux[A_BLOCK] - 1) / c->aux[A_BLOCK] * groups;
    int64_t acts = round_up(n * c->aux[A_ROW_BYTES], 64);
    c->shared_bytes = packed_bytes(c) + (size_t)(own ? acts : 0);
    c->local_bytes = (size_t)(MOST_GROUPS * MOST * 64 + (own ? 0 : acts));
    if (decoded) c->local_bytes += zt_pack_group_bytes(ZT_F32, s.K) + 4 * (size_t)s.K;
    if (c->in[0].type.dtype != ZT_F32) c->local_bytes += 4 * (size_t)s.K; /* of x_row, the last */
}

/* Row t of x as f32. */
static const float *x_row(const zt_cpu_call *c, int64_t t, uint8_t *local)
{
    int64_t K = shape_of(c).K;
    const zt_dtype_info *d = zt_dtype_get(c->in[0].type.dtype);
    const char *x = (const char *)c->in[0].data + t * K * d->block_bytes;
    if (c->in[0].type.dtype == ZT_F32) return (const float *)(const void *)x;
    float *row = (float *)(void *)(local + c->local_bytes - 4 * (size_t)K);
    d->decode(x, row, K);
    return row;
}

/* Row t of the activations. */
static void put_row(const zt_cpu_call *c, int64_t t, uint8_t *acts, uint8_t *local)
{
    const weights *w = &table[c->in[1].type.dtype];
    shape s = shape_of(c);
    int64_t parts = c->aux[A_PARTS], n = rows_of(c);
    const float *x = x_row(c, t / parts, local);
    int64_t bytes = c->aux[A_ROW_BYTES];
    if (c->aux[A_FORM] == CODES) {
        int64_t first = tile_of(t, n);
        put_codes(w->form, x, s.K, tile_at(first, n), t % parts,
                  acts + first * bytes + 4 * (t - first));
    } else if (c->aux[A_FORM] == BRAIN) {
        put_brain(x, s.K, acts + t * bytes);
    } else {
        memcpy(acts + t * bytes, x, (size_t)bytes);
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

/* The sums of a token's two rows added up: T rows of 16 become T / 2. */
static void join(float *acc, int64_t T)
{
    for (int64_t u = 0; u < T / 2; u++)
        for (int r = 0; r < ZT_PACK_ROWS; r += LANES)
            fv_store(acc + ZT_PACK_ROWS * u + r,
                     fv_add(fv_load(acc + ZT_PACK_ROWS * 2 * u + r),
                            fv_load(acc + ZT_PACK_ROWS * (2 * u + 1) + r)));
}

/* The n entries of b from the m-th as f32; NULL: there is none. */
static const float *bias_at(const zt_cpu_call *c, int64_t m, int64_t n, float *room)
{
    const zt_dtype_info *d = zt_dtype_get(c->in[2].type.dtype);
    if (!c->in[2].data) return NULL;
    if (c->in[2].type.dtype == ZT_F32) return (const float *)c->in[2].data + m;
    d->decode((const char *)c->in[2].data + m * d->block_bytes, room, n);
    return room;
}

/* Rows of y from the accumulators of a group. */
static void finish(const zt_cpu_call *c, int64_t t, int64_t T, int64_t g, float *acc)
{
    if (c->aux[A_PARTS] == 2) {
        join(acc, T);
        T /= 2;
        t /= 2;
    }
    shape s = shape_of(c);
    int64_t m = g * ZT_PACK_ROWS, rows = s.M - m < ZT_PACK_ROWS ? s.M - m : ZT_PACK_ROWS;
    const zt_dtype_info *d = zt_dtype_get(c->out[0].type.dtype);
    char *y = (char *)c->out[0].data + (t * s.M + m) * d->block_bytes;
    float room[ZT_PACK_ROWS];
    const float *b = bias_at(c, m, rows, room);
    for (int64_t u = 0; u < T; u++, y += s.M * d->block_bytes, acc += ZT_PACK_ROWS) {
        float sum[ZT_PACK_ROWS], *to = d == zt_dtype_get(ZT_F32) ? (float *)(void *)y : sum;
        for (int64_t r = 0; r < rows; r += LANES) {
            if (r + LANES <= rows)
                fv_store(to + r, b ? fv_add(fv_load(acc + r), fv_load(b + r)) : fv_load(acc + r));
            else
                for (int64_t i = r; i < rows; i++) to[i] = b ? acc[i] + b[i] : acc[i];
        }
        if (to == sum) d->encode(sum, y, rows);
    }
}

typedef struct job { /* what tiles of one call share */
    const zt_cpu_call *c;
    const tiles *tiles;
    const uint8_t *w, *x; /* packed weights; activations in their form */
    size_t group_bytes, row_bytes, step;
    float *acc;
    float *decoded; /* [K][16], and a row of K; NULL: tiles read the packed form */
} job;

/* Group g as one of f32. */
static void decode_group(const job *j, int64_t g)
{
    zt_dtype t = j->c->in[1].type.dtype;
    int64_t K = shape_of(j->c).K;
    float *row = j->decoded + ZT_PACK_ROWS * K;
    for (int r = 0; r < ZT_PACK_ROWS; r++) {
        zt_unpack_row(t, K, j->w + (size_t)g * j->group_bytes, r, row);
        for (int64_t k = 0; k < K; k++) j->decoded[ZT_PACK_ROWS * k + r] = row[k];
    }
}

/* The T (size'th size) tokens from t times groups g..end-1, of which one call takes a few. */
static void tile_groups(const job *j, int64_t t, int size, int64_t g, int64_t end)
{
    int64_t T = (int64_t)1 << size, K = shape_of(j->c).K;
    for (int at_once = j->tiles->groups[size]; g < end; g += at_once) {
        const uint8_t *w[MOST_GROUPS];
        for (int i = 0; i < at_once; i++) /* past the end the last again, not used */
            w[i] = j->w + (size_t)(g + i < end ? g + i : end - 1) * j->group_bytes;
        if (j->decoded) w[0] = (const uint8_t *)j->decoded;
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

/* The same of groups that must be decoded. */
static void decoded_groups(const job *j, int64_t t, int64_t last, int64_t g, int64_t end)
{
    for (; g < end; g++) {
        decode_group(j, g);
        block_groups(j, t, last, g, g + 1);
    }
}

static void multiply(zt_cpu_call *c, int64_t begin, int64_t end, uint8_t *local)
{
    const weights *w = &table[c->in[1].type.dtype];
    shape s = shape_of(c);
    int64_t block = c->aux[A_BLOCK], groups = c->aux[A_GROUPS], rows = rows_of(c);
    job j = {.c = c,
             .tiles = c->aux[A_EXACT] ? &w->exact : &w->fast,
             .w = c->aux[A_PACK] ? c->shared : c->in[1].data,
             .x = (uint8_t *)c->shared + packed_bytes(c),
             .group_bytes = zt_pack_group_bytes(c->in[1].type.dtype, s.K),
             .row_bytes = (size_t)c->aux[A_ROW_BYTES],
             .step = (size_t)(c->aux[A_FORM] == BRAIN ? brain_words(s.K) : s.K),
             .acc = (float *)local};
    uint8_t *own = local + MOST_GROUPS * MOST * 64;
    if (lies(c)) {
        j.x = c->in[0].data;
        j.row_bytes = (size_t)(4 * s.K);
    } else if (c->aux[A_ALONE]) {
        for (int64_t t = 0; t < rows; t++) put_row(c, t, own, local);
        j.x = own;
        own += round_up(rows * c->aux[A_ROW_BYTES], 64);
    }
    if (c->aux[A_FORM] == ROWS && zt_pack_whole(c->in[1].type.dtype))
        j.decoded = (float *)(void *)own;
    while (begin < end) {
        int64_t t = begin / groups * block, g = begin % groups;
        int64_t n = end - begin < groups - g ? end - begin : groups - g;
        (j.decoded ? decoded_groups : block_groups)(&j, t, t + block < rows ? t + block : rows, g,
                                                    g + n);
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
            put_row(c, i - groups, (uint8_t *)c->shared + packed_bytes(c), local);
    }
}

/* Do two products of the same x bring it into the same form, in a phase that does nothing else? */
static bool linear_alike(const zt_cpu_call *a, const zt_cpu_call *b)
{
    const zt_pack_form *f = &table[a->in[1].type.dtype].form, *g = &table[b->in[1].type.dtype].form;
    return a->n_phases == 2 && b->n_phases == 2 && !a->aux[A_PACK] && !b->aux[A_PACK] &&
           a->aux[A_FORM] == b->aux[A_FORM] && !lies(a) && a->aux[A_PARTS] == b->aux[A_PARTS] &&
           f->offset == g->offset && zt_pack_mins(*f) == zt_pack_mins(*g) &&
           zt_pack_halves(*f) == zt_pack_halves(*g);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_linalg)[] = {
    {.op = ZT_OP_linear,
     .has = linear_has,
     .setup = linear_setup,
     .run = linear_run,
     .alike = linear_alike},
    {0},
};
