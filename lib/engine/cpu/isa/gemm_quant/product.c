/* product.c - the matrix product: y[t,m] = sum_k x[t,k] w[m,k] + b[m], with packed weights; for
 * linear, and (product.h) for the rows that have products in them.
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
 *   BRAIN   rounded to bfloat16: pairs of columns in a word
 *   WIDE    rounded to bfloat16, as f32: without AVX-512, and where FMAs are faster than its pairs
 *   CODES   8 bits: tokens of a tile (T) side by side, for each pair of columns (tile_codes.h): i8
 *             q[columns / 4][T][4], i16 scale[T][2] unless both are one, f32 unit[T], i32 [2][T]
 *             which sums begin with (-zt_pack_middle * sum(q) in it), and with minima i16 [T][2] which
 *             these are multiplied by. For AMX 16 tokens have their i8 q[16][64] one after the
 *             other (unpacked.h); with AVX2 words of a tile of 8 are crossed (tile_codes.h)
 * With act=q16 a token is two rows of CODES, the upper and the lower half of 16 bits: tiles multiply both
 * and put the integers together. (With AVX2 they are words of 16 bits: activations.h.)
 *
 * For many tokens a group is first opened (unpacked.h) where the processor is faster with that; for fewer it
 * takes two tiles at once there. (Of plain weights with AVX2 always three.)
 *
 * Groups of a type that is kept as in the file are decoded to f32, one at a time, by each thread
 * for itself, and then multiplied by all tokens of an item as f32 weights are.
 */
#include <math.h>

#include "lib/base/processor.h"
#include "lib/engine/cpu/isa/gemm_quant/product.h"
#include "lib/engine/cpu/isa/gemm_quant/activations_tile.h"
#include "lib/engine/cpu/isa/gemm_quant/tile_table.h"

enum { FEW = 2 }; /* rows that every thread brings into their form for itself, in each of its parts */
enum { AT_ONCE = 1024 }; /* bytes to send for, from which on it is done while a tile goes on */
enum { ENOUGH = 4 }; /* tiles by one group, from which on it is opened, and what comes next sent for */

/* ---- activations ----------------------------------------------------------------------------- */

/* Tokens come in tiles of 8, and at the end in one of 4, 2, 1 as needed. */
static int64_t tile_at(int64_t t, int64_t n)
{
    int64_t left = n - t;
    return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* The tile that token t of n belongs to: its first token. (Those of AMX come before all others.) */
static int64_t tile_of(int64_t t, int64_t n)
{
    int64_t first = t / MOST * MOST;
    while (t >= first + tile_at(first, n)) first += tile_at(first, n);
    return first;
}

/* Words of 32 bits in a row of BRAIN, of two columns, or of WIDE, whose columns are even then. */
static int64_t brain_words(act_form form, int64_t K)
{
#if defined(ZT_ISA_avx512)
    return form == BRAIN ? (K + 1) / 2 : K + K % 2;
#else
    (void)form;
    return K;
#endif
}

/* Activations rounded to bfloat16 in the form that this processor multiplies fastest: the bits are
 * the same. */
static act_form fastest(act_form form)
{
    return form == BRAIN && zt_cpu_slow_bf16() ? WIDE : form;
}

/* The upper half of the bits of x rounded to bfloat16 as zt_f32_to_bf16 does it. */
static inline uint32_t brain_of(uint32_t u)
{
    uint32_t nan = u >> 16 | 0x40, rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (u & 0x7fffffff) > 0x7f800000 ? nan : rounded;
}

static void put_brain(act_form form, const float *x, int64_t K, uint8_t *dst)
{
    const int64_t columns = brain_words(form, K) * (form == BRAIN ? 2 : 1);
    for (int64_t k = 0; k < K; k += 16) {
        uint32_t u[16] = {0};
        const size_t n = columns - k < 16 ? (size_t)(columns - k) : 16;
        memcpy(u, x + k, 4 * (K - k < 16 ? (size_t)(K - k) : 16));
        for (int i = 0; i < 16; i++) u[i] = brain_of(u[i]);
        if (form == BRAIN) {
            uint16_t half[16];
            for (int i = 0; i < 16; i++) half[i] = (uint16_t)u[i];
            memcpy(dst + 2 * k, half, 2 * n);
        } else {
            for (int i = 0; i < 16; i++) u[i] <<= 16;
            memcpy(dst + 4 * k, u, 4 * n);
        }
    }
}

/* ---- a product ------------------------------------------------------------------------------- */

static bool narrow(zt_dtype t) { return t == ZT_F32 || t == ZT_F16 || t == ZT_BF16; }

bool ZT_SYM(zt_product_has)(const zt_type *x, const zt_type *w, const zt_type *b)
{
    return narrow(x->dtype) && x->rank == 2 && w->rank == 2 && zt_pack_has(w->dtype) &&
           (!b || narrow(b->dtype));
}

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

/* Activations of one row in their form. */
static int64_t row_bytes_of(const weights *w, act_form form, int64_t K)
{
    if (form == ROWS) return 4 * K;
    if (form != CODES) return 4 * brain_words(form, K);
    return zt_pack_blocks(w->form, K) / zt_pack_step(w->form) * pair_bytes(w->form);
}

/* What is always taken at once; codes only sometimes are (zt_product_multiply). */
static many always(zt_dtype t) { return narrow(t) ? table[t].many[0] : (many){0, NULL}; }

/* Rows of x in a block, whole steps of what is multiplied at once: their activations stay in a part of the
 * second-level cache while groups pass by; what must be decoded passes seldom. */
static int64_t block_of(const zt_product *p, zt_cpu_tile tile)
{
    const int64_t at_once = always(p->w->type.dtype).n;
    const int64_t step = tile.amx ? AMX_ROWS : MOST * (at_once ? at_once : 1);
    int64_t bytes = p->form == ROWS ? 4 * p->K : p->row_bytes;
#if defined(ZT_ISA_avx2)
    /* Of opened groups all rows meet so many columns before the next ones. (Elsewhere not measured.) */
    if (p->opens && p->K > OPEN_COLUMNS) bytes = bytes * OPEN_COLUMNS / p->K;
#endif
    const int64_t fit = tile.bytes / (bytes + 1);
    int64_t rows = p->decoded || fit > 128 ? 128 : fit < 32 ? 32 : fit;
    return tile.rows ? round_up(tile.rows, step) : rows / p->parts / step * step;
}

static void size_scratch(zt_product *p)
{
    zt_dtype t = p->w->type.dtype;
    int64_t acts = p->lies ? 0 : round_up(p->rows * p->row_bytes, 64);
    p->packed_bytes = p->pack ? (size_t)p->groups * zt_pack_group_bytes(t, p->K) : 0;
    p->acts_bytes = (size_t)acts;
    p->shared_bytes = p->packed_bytes + (p->alone ? 0 : p->acts_bytes);
    p->local_bytes = MOST_GROUPS * MOST * 64;
    if (p->decoded) p->local_bytes += zt_pack_group_bytes(ZT_F32, p->K) + 4 * (size_t)p->K;
    if (p->opens) p->local_bytes += OPEN_BYTES + 64 * (size_t)(p->block * p->parts);
    if (p->x->type.dtype != ZT_F32) p->local_bytes += 4 * (size_t)p->K; /* of x_row, the last */
}

/* Are groups opened for their tiles? (With a scale for 16 columns half as many products hide what that
 * saves.) */
static bool worth_opening(const zt_product *p, const weights *w)
{
#if defined(ZT_ISA_avx2)
    const bool waits = true; /* for the ports of shifts and conversions */
#else
    const bool waits = zt_cpu_shared_ports() || zt_pack_halves(w->form);
#endif
    return waits && p->form == CODES && w->by_vectors[0].open && p->rows >= ENOUGH * MOST;
}

/* Does AMX multiply opened groups by this row, as one of AMX_ROWS? */
static bool by_amx(const zt_product *p, int64_t row)
{
    return p->amx && row < p->rows / AMX_ROWS * AMX_ROWS;
}

/* Tokens of an item of the first phase: a tile, which is made at once (put_tile). */
static int64_t tile_tokens(const zt_product *p) { return MOST / p->parts; }

zt_product ZT_SYM(zt_product_make)(const zt_cpu_arg *x, const zt_cpu_arg *w, const zt_cpu_arg *b,
                                   const char *act, zt_cpu_tile tile, uint8_t *shared)
{
    const weights *of = &table[w->type.dtype];
    zt_product p = {.x = x, .w = w, .b = b, .shared = shared};
    p.n = x->type.dim[0], p.K = x->type.dim[1], p.M = w->type.dim[0];
    p.exact = strcmp(act, "f32") == 0;
    act_form form = p.exact ? ROWS : fastest(of->fast_form);
    p.form = form;
    p.lies = form == ROWS && x->type.dtype == ZT_F32;
    p.row_bytes = p.lies ? 0 : row_bytes_of(of, form, p.K);
    p.parts = form == CODES && strcmp(act, "q16") == 0 ? 2 : 1;
    p.rows = p.n * p.parts;
    p.groups = (p.M + ZT_PACK_ROWS - 1) / ZT_PACK_ROWS;
    p.at_once = p.exact ? of->exact.groups[0] : p.parts == 2 ? of->fine.groups[1] : of->fast.groups[0];
    p.pack = !w->packed;
    p.alone = p.rows <= FEW;
    p.decoded = form == ROWS && zt_pack_whole(w->type.dtype);
    p.amx = tile.amx && form == CODES && of->by_amx[0].open && p.rows >= AMX_ROWS;
    p.opens = p.amx || worth_opening(&p, of);
    p.block = block_of(&p, tile);
    p.n_first = p.pack ? p.groups : 0;
    if (!p.alone && !p.lies) p.n_first += (p.n + tile_tokens(&p) - 1) / tile_tokens(&p);
    p.n_items = (p.n + p.block - 1) / p.block * p.groups;
    size_scratch(&p);
    return p;
}

bool ZT_SYM(zt_product_alike)(const zt_product *a, const zt_product *b)
{
    const zt_pack_form *f = &table[a->w->type.dtype].form, *g = &table[b->w->type.dtype].form;
    return a->form == b->form && a->lies == b->lies && a->parts == b->parts && a->amx == b->amx &&
           zt_pack_middle(*f) == zt_pack_middle(*g) && zt_pack_mins(*f) == zt_pack_mins(*g) &&
           zt_pack_beyond(*f) == zt_pack_beyond(*g) && zt_pack_halves(*f) == zt_pack_halves(*g);
}

/* Row t of x as f32. */
static const float *x_row(const zt_product *p, int64_t t, uint8_t *local)
{
    const zt_dtype_info *d = zt_dtype_get(p->x->type.dtype);
    const char *x = (const char *)p->x->data + t * p->K * d->block_bytes;
    if (p->x->type.dtype == ZT_F32) return (const float *)(const void *)x;
    float *row = (float *)(void *)(local + p->local_bytes - 4 * (size_t)p->K);
    d->decode(x, row, p->K);
    return row;
}

/* Where a row of CODES lies. */
static place place_of(const zt_product *p, int64_t row, uint8_t *acts)
{
    const zt_pack_form f = table[p->w->type.dtype].form;
    const int64_t amx = row / AMX_ROWS * AMX_ROWS, tile = tile_of(row, p->rows);
    if (by_amx(p, row)) return place_in_amx(f, row - amx, acts + amx * p->row_bytes);
    return place_in_tile(f, (int)tile_at(tile, p->rows), row - tile, acts + tile * p->row_bytes);
}

/* Token t. */
static void put_token(const zt_product *p, int64_t t, uint8_t *acts, uint8_t *local)
{
    int64_t bytes = p->row_bytes;
    const float *x = x_row(p, t, local);
    if (p->form == CODES)
        put_codes(table[p->w->type.dtype].form, x, p->K, p->parts, place_of(p, t * p->parts, acts));
    else if (p->form == BRAIN || p->form == WIDE)
        put_brain((act_form)p->form, x, p->K, acts + t * bytes);
    else
        memcpy(acts + t * bytes, x, (size_t)bytes);
}

/* Tokens from t to below last: the first of them, or a whole tile; how many. */
static int64_t put_some(const zt_product *p, int64_t t, int64_t last, uint8_t *acts, uint8_t *local)
{
#if !defined(ZT_ISA_scalar)
    const int64_t row = t * p->parts, T = tile_at(row, p->rows), whole = T / p->parts;
    if (p->form == CODES && p->x->type.dtype == ZT_F32 && takes_tile(T, p->parts) &&
        row == tile_of(row, p->rows) && t + whole <= last) {
        const float *x[MOST];
        for (int64_t r = 0; r < MOST; r++)
            x[r] = (const float *)p->x->data + (t + (r < T ? r : T - 1) / p->parts) * p->K;
        put_tile(table[p->w->type.dtype].form, x, p->K, p->parts, place_of(p, row, acts));
        return whole;
    }
#endif
    (void)last;
    put_token(p, t, acts, local);
    return 1;
}

static void put_tokens(const zt_product *p, int64_t t, int64_t last, uint8_t *acts, uint8_t *local)
{
    while (t < last) t += put_some(p, t, last, acts, local);
}

static void pack_group(const zt_product *p, int64_t g)
{
    zt_dtype t = p->w->type.dtype;
    size_t row = zt_pack_file_bytes(t, p->K);
    int64_t rows = p->M - g * ZT_PACK_ROWS;
    zt_pack_group(t, p->K, (const uint8_t *)p->w->data + (size_t)g * ZT_PACK_ROWS * row, row,
                  rows < ZT_PACK_ROWS ? (int)rows : ZT_PACK_ROWS,
                  p->shared + (size_t)g * zt_pack_group_bytes(t, p->K));
}

void ZT_SYM(zt_product_first)(const zt_product *p, int64_t begin, int64_t end, uint8_t *local)
{
    int64_t groups = p->pack ? p->groups : 0, first = begin > groups ? begin : groups;
    for (int64_t g = begin; g < end && g < groups; g++) pack_group(p, g);
    int64_t each = tile_tokens(p), t = (first - groups) * each, last = (end - groups) * each;
    put_tokens(p, t, last < p->n ? last : p->n, p->shared + p->packed_bytes, local);
}

const uint8_t *ZT_SYM(zt_product_acts)(const zt_product *p, uint8_t *room, uint8_t *local)
{
    if (p->lies) return p->x->data;
    if (!p->alone) return p->shared + p->packed_bytes;
    put_tokens(p, 0, p->n, room, local);
    return room;
}

/* ---- groups times rows ----------------------------------------------------------------------- */

/* The n entries of b from the m-th as f32; NULL: there is none. */
static const float *bias_at(const zt_cpu_arg *b, int64_t m, int64_t n, float *room)
{
    if (!b->data) return NULL;
    const zt_dtype_info *d = zt_dtype_get(b->type.dtype);
    if (b->type.dtype == ZT_F32) return (const float *)b->data + m;
    d->decode((const char *)b->data + m * d->block_bytes, room, n);
    return room;
}

typedef struct job { /* what tiles of one product share */
    const zt_product *p;
    const zt_product_out *out;
    const tiles *tiles;
    const uint8_t *w, *x; /* packed weights; activations in their form */
    size_t group_bytes, row_bytes, step;
    float *acc;
    float *decoded; /* [K][16], and a row of K; NULL: tiles read the packed form */
    uint8_t *opened; /* OPEN_BYTES, and sums of a block behind them; NULL: as packed */
    many many;       /* 0: tiles are taken one by one */
    bool sends;      /* for what comes next: the processor does not */
    int64_t first;   /* row, whose tile brings the weights, */
    size_t reach[2]; /* and sends for those so far ahead: one of more rows than IN_ORDER, and of fewer */
} job;

/* Of a tile of so many rows from t on. */
static size_t reach_of(const job *j, int64_t t, int64_t rows)
{
    return t == j->first ? j->reach[rows <= IN_ORDER] : 0;
}

/* T tokens of y from the sums of a group. */
static void finish(const job *j, int64_t t, int64_t T, int64_t g, const float *acc)
{
    const zt_product *p = j->p;
    const zt_product_out *o = j->out;
    int64_t m = g * ZT_PACK_ROWS, rows = p->M - m < ZT_PACK_ROWS ? p->M - m : ZT_PACK_ROWS;
    const zt_dtype_info *d = zt_dtype_get(p->x->type.dtype);
    char *y = o->at + ((t - o->t0) * o->step + m - o->m0) * d->block_bytes;
    float room[ZT_PACK_ROWS];
    const float *b = bias_at(p->b, m, rows, room);
    for (int64_t u = 0; u < T; u++, y += o->step * d->block_bytes, acc += ZT_PACK_ROWS) {
        float sum[ZT_PACK_ROWS], *to = d == zt_dtype_get(ZT_F32) ? (float *)(void *)y : sum;
        if (rows == ZT_PACK_ROWS)
            fv_store(to, b ? fv_add(fv_load(acc), fv_load(b)) : fv_load(acc));
        else
            for (int64_t i = 0; i < rows; i++) to[i] = b ? acc[i] + b[i] : acc[i];
        if (to == sum) d->encode(sum, y, rows);
    }
}

/* Group g as one of f32. */
static void decode_group(const job *j, int64_t g)
{
    zt_dtype t = j->p->w->type.dtype;
    int64_t K = j->p->K;
    float *row = j->decoded + ZT_PACK_ROWS * K;
    for (int r = 0; r < ZT_PACK_ROWS; r++) {
        zt_unpack_row(t, K, j->w + (size_t)g * j->group_bytes, r, row);
        for (int64_t k = 0; k < K; k++) j->decoded[ZT_PACK_ROWS * k + r] = row[k];
    }
}

/* Where the sums of one group for the token t are y itself; NULL: they are not. */
static float *sums_in_place(const job *j, int64_t t, int64_t g)
{
    const zt_product *p = j->p;
    const zt_product_out *o = j->out;
    int64_t m = g * ZT_PACK_ROWS;
    if (p->x->type.dtype != ZT_F32 || p->b->data || m + ZT_PACK_ROWS > p->M) return NULL;
    return (float *)(void *)o->at + (t - o->t0) * o->step + m - o->m0;
}

/* The T (size'th size) rows of activations from t times n groups from g on, `apart` from each other; of fewer
 * than a call takes the last again, not used. */
static void tile_some(const job *j, int64_t t, int size, int64_t g, int64_t apart, int n,
                      tile_sends sends)
{
    const int64_t parts = j->p->parts, token = t / parts, T = ((int64_t)1 << size) / parts;
    const int at_once = j->tiles->groups[size];
    const bool alone = T == 1 && n == at_once && sums_in_place(j, token, g + (n - 1) * apart);
    const uint8_t *x = j->x + (size_t)t * j->row_bytes, *w[MOST_GROUPS];
    float *y = at_once == 1 || alone ? sums_in_place(j, token, g) : NULL;
    for (int i = 0; i < at_once; i++)
        w[i] = j->w + (size_t)(g + (i < n ? i : n - 1) * apart) * j->group_bytes;
    if (j->decoded) w[0] = (const uint8_t *)j->decoded;
    const int64_t down = !y ? ZT_PACK_ROWS : alone ? ZT_PACK_ROWS * apart : j->out->step;
    j->tiles->fn[size](w, j->p->K, x, j->step, y ? y : j->acc, down, sends);
    for (int i = 0; i < n && !y; i++) finish(j, token, T, g + i * apart, j->acc + 16 * T * i);
}

/* The same of all groups g..end-1. Those of one call are as far from each other as can be, so that each is a
 * long stream. */
static void tile_groups(const job *j, int64_t t, int size, int64_t g, int64_t end, tile_sends sends)
{
    const int at_once = j->tiles->groups[size];
    const int64_t apart = (end - g) / at_once, last = g + apart;
    sends.reach = reach_of(j, t, (int64_t)1 << size);
    for (; g < last; g++) tile_some(j, t, size, g, apart, at_once, sends);
    g += apart * (at_once - 1);
    if (g < end) tile_some(j, t, size, g, 1, (int)(end - g), sends);
}

/* What tiles by a group send for, each a part: of the next group, which is this call's, or most often the next
 * one's. Only ENOUGH do: with fewer it would be so much at once that it holds up what is needed now. There the
 * first tile sends for what is a little ahead of it. */
typedef struct coming {
    const uint8_t *next, *end;
    size_t part;
} coming;

/* Of n tiles by group g: `bytes` of the next from `at` on. */
static coming coming_of(const job *j, int64_t g, size_t at, size_t bytes, int64_t n)
{
    if (n < ENOUGH || g + 1 >= j->p->groups) return (coming){0};
    const uint8_t *next = j->w + (size_t)(g + 1) * j->group_bytes + at;
    return (coming){next, next + bytes, (size_t)round_up((int64_t)bytes / n, 64)};
}

/* Where the next part ends. */
static const uint8_t *part_end(const coming *c)
{
    return (size_t)(c->end - c->next) <= c->part ? c->end : c->next + c->part;
}

/* A part is sent for at once, where the processor does not by itself. */
static void send_part(const job *j, coming *c)
{
    const uint8_t *end = part_end(c);
    for (const uint8_t *p = c->next; j->sends && p < end; p += 64) send_lines((uintptr_t)p, 64);
    c->next = end;
}

/* One that is so large that its lines would wait for each other: while the tile goes on, a few with each pair
 * of columns. (A few lines at once cost less than to ask for them in the tile.) */
static tile_sends sends_of(const job *j, coming *c)
{
    if (j->p->form != CODES || c->part < AT_ONCE) {
        send_part(j, c);
        return (tile_sends){0};
    }
    const tile_sends sends = {.next = c->next, .end = part_end(c)};
    c->next = sends.end;
    return sends;
}

#if !defined(ZT_ISA_scalar)
/* Rows t..whole-1, whole tiles, AMX's or others, times group g, opened some columns at a time. */
static void opened_tiles_of(const job *j, int64_t t, int64_t whole, int64_t g)
{
    const zt_product *p = j->p;
    const weights *w = &table[p->w->type.dtype];
    const opened by = (p->amx ? w->by_amx : w->by_vectors)[p->parts - 1];
    const uint8_t *group = j->w + (size_t)g * j->group_bytes;
    float *in_place = sums_in_place(j, t / p->parts, g);
    float *apart = (float *)(void *)(j->opened + OPEN_BYTES), *y = in_place ? in_place : apart;
    const int64_t rows = p->amx ? AMX_ROWS : MOST, n_tiles = (whole - t) / rows;
    const int64_t down = in_place ? j->out->step : ZT_PACK_ROWS, T = rows / p->parts;
    for (int64_t k = 0; k < p->K; k += OPEN_COLUMNS) {
        int64_t n = p->K - k < OPEN_COLUMNS ? p->K - k : OPEN_COLUMNS;
        const uint8_t *x = j->x + k / pair_columns(w->form) * rows * pair_bytes(w->form);
        size_t at = zt_pack_group_bytes(p->w->type.dtype, k);
        size_t bytes = zt_pack_group_bytes(p->w->type.dtype, k + n) - at;
        coming c = coming_of(j, g, at, bytes, n_tiles);
        by.open(group, group + at, n, j->opened, n_tiles < ENOUGH ? j->reach[false] : 0);
        for (int64_t i = 0; i < n_tiles; i++) {
            send_part(j, &c);
            by.tile(j->opened, n, x + (size_t)(t + i * rows) * j->row_bytes, y + i * T * down, down,
                    k > 0, k + n < p->K ? NULL : group);
        }
    }
    for (int64_t i = 0; i < n_tiles && !in_place; i++)
        finish(j, t / p->parts + i * T, T, g, apart + i * T * ZT_PACK_ROWS);
}
#endif

/* Rows t.., of as many tiles as are taken at once, times group g. */
static void many_of(const job *j, int64_t t, int64_t g)
{
    const int64_t token = t / j->p->parts, rows = j->many.n * MOST;
    float *y = sums_in_place(j, token, g);
    j->many.fn(j->w + (size_t)g * j->group_bytes, j->p->K, j->x + (size_t)t * j->row_bytes,
               MOST * j->row_bytes, y ? y : j->acc, y ? j->out->step : ZT_PACK_ROWS,
               reach_of(j, t, rows));
    if (!y) finish(j, token, rows / j->p->parts, g, j->acc);
}

/* The same as packed, or times as many groups as a tile takes before `end`. */
static void packed_tiles_of(const job *j, int64_t t, int64_t whole, int64_t g, int64_t end)
{
    const int at_once = j->tiles->groups[SIZES - 1];
    const int64_t n = (whole - t) / MOST;
    coming c = coming_of(j, g, 0, j->group_bytes, n);
    for (; j->many.n && t + j->many.n * MOST <= whole; t += j->many.n * MOST) {
        many_of(j, t, g);
        for (int k = 0; k < j->many.n && !j->reach[false]; k++) send_part(j, &c);
    }
    for (; t < whole; t += MOST) {
        const tile_sends sends = sends_of(j, &c);
        tile_groups(j, t, SIZES - 1, g, g + at_once < end ? g + at_once : end, sends);
    }
}

static void whole_tiles(const job *j, int64_t t, int64_t whole, int64_t g, int64_t end)
{
#if !defined(ZT_ISA_scalar)
    const int64_t rows = j->p->amx ? AMX_ROWS : MOST, until = t + (whole - t) / rows * rows;
    if (j->opened && until > t) {
        opened_tiles_of(j, t, until, g);
        t = until;
    }
#endif
    if (t < whole) packed_tiles_of(j, t, whole, g, end);
}

/* Rows t..last-1 times groups g..end-1: a group stays in the first-level cache for all tiles. */
static void block_groups(const job *j, int64_t t, int64_t last, int64_t g, int64_t end)
{
    int64_t whole = t + (last - t) / MOST * MOST;
    int at_once = j->tiles->groups[SIZES - 1];
    for (int64_t i = g; i < end && whole > t; i += at_once) whole_tiles(j, t, whole, i, end);
    for (int size = SIZES - 2; size >= 0; size--) {
        if (!((last - whole) >> size & 1)) continue;
        tile_groups(j, whole, size, g, end, (tile_sends){0});
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

void ZT_SYM(zt_product_multiply)(const zt_product *p, const uint8_t *acts,
                                 const zt_product_out *out, int64_t t, int64_t last, int64_t g,
                                 int64_t end, uint8_t *local)
{
    const weights *w = &table[p->w->type.dtype];
    const tiles *fast = p->form == WIDE ? &wide_tiles : &w->fast;
    job j = {.p = p,
             .out = out,
             .tiles = p->exact ? &w->exact : p->parts == 2 ? &w->fine : fast,
             .w = p->pack ? p->shared : p->w->data,
             .x = acts,
             .group_bytes = zt_pack_group_bytes(p->w->type.dtype, p->K),
             .row_bytes = (size_t)(p->lies ? 4 * p->K : p->row_bytes),
             .step = (size_t)(p->form == BRAIN || p->form == WIDE
                                  ? brain_words((act_form)p->form, p->K) : p->K),
             .acc = (float *)(void *)local,
             .sends = zt_cpu_reach(false) > 0};
    if (p->decoded) j.decoded = (float *)(void *)(local + MOST_GROUPS * MOST * 64);
    if (p->opens) j.opened = local + MOST_GROUPS * MOST * 64;
    const int64_t n = (last - t) * p->parts / MOST;
    const bool twins = p->form == CODES && n < 2 * ENOUGH && zt_cpu_shared_ports();
    j.many = twins ? w->many[p->parts - 1] : always(p->w->type.dtype);
    for (int few = 0; few < 2 && n < (twins && j.many.n ? 2 : 1) * ENOUGH && !p->decoded; few++)
        j.reach[few] = zt_cpu_reach(few);
    if (p->form == CODES) j.reach[true] = zt_cpu_reach_of_codes(w->form.bits);
    j.first = t * p->parts;
    if (p->amx) amx_begin_tiles();
    (p->decoded ? decoded_groups : block_groups)(&j, t * p->parts, last * p->parts, g, end);
    if (p->amx) amx_end();
}

int ZT_SYM(zt_product_ahead)(const zt_product *p, int64_t g, int64_t end, zt_cpu_prefetch *a)
{
    size_t group = zt_pack_group_bytes(p->w->type.dtype, p->K);
    if (p->pack || p->n > p->block || g >= end) return 0;
    *a = (zt_cpu_prefetch){.at = (const uint8_t *)p->w->data + (size_t)g * group,
                        .bytes = (size_t)(end - g) * group};
    return 1;
}
