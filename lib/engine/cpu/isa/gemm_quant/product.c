/* product.c - the matrix product y[t,m] = sum over k of x[t,k] w[m,k] + b[m], with packed weights: for op linear and
 * for the ops that have such products in them.
 *
 * A tile multiplies one or more groups of 16 rows of w (pack.h) by 1, 2, 4 or 8 rows of activations. Whatever its
 * size, one value is one f32 accumulator that takes the columns in order: k = 0, 1, 2 ... with f32 activations,
 * pairs of columns with bfloat16, pairs of scales with quantized ones (exact integers inside: tile_codes.h).
 * (Plain weights have two, of which one takes every other column or pair: tile_plain.h.) So the bits of a token do not
 * depend on the tokens beside it, nor on the threads.
 *
 * Activations are brought into the form that tiles read (act_form in tile_table.h), in a phase of their own or, for
 * a few tokens, by every thread for itself, which costs less than a barrier. With act=q16 a token is two rows.
 *
 * For many tokens a group is first unpacked (unpacked.h) where the processor is faster with that; for fewer it takes
 * two tiles at once there. (Of plain weights with AVX2 always three.)
 *
 * Groups of a type that is kept as in the file are decoded to f32, one at a time, by each thread for itself, and
 * then multiplied by all tokens of an item as f32 weights are.
 */
#include <math.h>

#include "lib/base/processor.h"
#include "lib/engine/cpu/isa/gemm_quant/product.h"
#include "lib/engine/cpu/isa/gemm_quant/activations_tile.h"
#include "lib/engine/cpu/isa/gemm_quant/tile_table.h"

enum { PER_THREAD_ROWS = 2 };     /* rows that every thread brings into their form for itself */
enum { PREFETCH_IN_TILE = 1024 }; /* bytes to prefetch, from which on it is done while a tile goes on */
enum { MANY_TILES = 4 };          /* by one group, from which on it is unpacked, and the next group prefetched */

/* ---- activations ----------------------------------------------------------------------------- */

/* The rows of the tile that begins at `row`: rows come in tiles of 8, and at the end in one of 4, 2, 1 as needed. */
static int64_t tile_rows(int64_t row, int64_t rows)
{
    int64_t left = rows - row;
    return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* The first row of the tile that `row` belongs to. (Tiles of AMX come before all others.) */
static int64_t tile_start(int64_t row, int64_t rows)
{
    int64_t start = row / TILE_ROWS * TILE_ROWS;
    while (row >= start + tile_rows(start, rows)) start += tile_rows(start, rows);
    return start;
}

/* Words of 32 bits in a row of ACT_BF16, of two columns, or of ACT_BF16_AS_F32, whose columns are even then. */
static int64_t bf16_words(act_form form, int64_t K) { return form == ACT_BF16 ? (K + 1) / 2 : K + K % 2; }

/* Activations rounded to bfloat16 in the form that this processor multiplies fastest: the bits are the same. */
static act_form fastest_form(act_form form) { return form == ACT_BF16 && zt_cpu_slow_bf16() ? ACT_BF16_AS_F32 : form; }

/* From the bits of x those of x rounded to bfloat16, as zt_f32_to_bf16 does it. */
static inline uint32_t bf16_of(uint32_t bits)
{
    uint32_t nan = bits >> 16 | 0x40, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffff) > 0x7f800000 ? nan : rounded;
}

static void put_bf16_row(act_form form, const float *x, int64_t K, uint8_t *dst)
{
    const int64_t columns = bf16_words(form, K) * (form == ACT_BF16 ? 2 : 1);
    for (int64_t k = 0; k < K; k += 16) {
        uint32_t bits[16] = {0};
        const size_t count = columns - k < 16 ? (size_t)(columns - k) : 16;
        memcpy(bits, x + k, 4 * (K - k < 16 ? (size_t)(K - k) : 16));
        for (int i = 0; i < 16; i++) bits[i] = bf16_of(bits[i]);
        if (form == ACT_BF16) {
            uint16_t half[16];
            for (int i = 0; i < 16; i++) half[i] = (uint16_t)bits[i];
            memcpy(dst + 2 * k, half, 2 * count);
        } else {
            for (int i = 0; i < 16; i++) bits[i] <<= 16;
            memcpy(dst + 4 * k, bits, 4 * count);
        }
    }
}

/* ---- a product ------------------------------------------------------------------------------- */

static bool is_plain_float(zt_dtype type) { return type == ZT_F32 || type == ZT_F16 || type == ZT_BF16; }

bool ZT_SYM(zt_product_supports)(const zt_type *x, const zt_type *w, const zt_type *b)
{
    return is_plain_float(x->dtype) && x->rank == 2 && w->rank == 2 && zt_pack_supports(w->dtype) &&
           (!b || is_plain_float(b->dtype));
}

static int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

static const weight_tiles *tiles_of_weights(const zt_product *p) { return tile_table[p->w->type.dtype]; }

static size_t group_bytes(const zt_product *p) { return zt_pack_group_bytes(p->w->type.dtype, p->K); }

/* Activations of one row in their form. */
static int64_t act_row_bytes(const weight_tiles *tiles, act_form form, int64_t K)
{
    if (form == ACT_F32) return 4 * K;
    if (form != ACT_CODES) return 4 * bf16_words(form, K);
    return zt_pack_padded_slices(tiles->form, K) / zt_pack_pair_slices(tiles->form) * pair_bytes(tiles->form);
}

/* Tiles that are always taken at once; those of codes only sometimes are (zt_product_multiply). */
static several_tiles always_several(zt_dtype type, act_form form)
{
    return is_plain_float(type) ? tile_table[type]->several[form == ACT_BF16_AS_F32] : (several_tiles){0, NULL};
}

/* Tokens in a block, whole steps of what is multiplied at once: their activations stay in a part of the second-level
 * cache while groups pass by; what must be decoded passes seldom. */
static int64_t choose_block(const zt_product *p, zt_cpu_tile tile)
{
    const int64_t at_once = always_several(p->w->type.dtype, (act_form)p->act_form).n;
    const int64_t step = tile.amx ? AMX_ROWS : TILE_ROWS * (at_once ? at_once : 1);
    int64_t bytes = p->act_form == ACT_F32 ? 4 * p->K : p->act_row_bytes;
#if defined(ZT_ISA_avx2)
    /* Of unpacked groups all rows meet so many columns before the next ones. (Elsewhere not measured.) */
    if (p->unpacks && p->K > UNPACK_COLUMNS) bytes = bytes * UNPACK_COLUMNS / p->K;
#endif
    const int64_t fit = tile.bytes / (bytes + 1);
    int64_t rows = p->decodes_weights || fit > 128 ? 128 : fit < 32 ? 32 : fit;
    return tile.rows ? round_up(tile.rows, step) : rows / p->parts / step * step;
}

static void set_scratch_sizes(zt_product *p)
{
    int64_t acts = p->acts_in_place ? 0 : round_up(p->act_rows * p->act_row_bytes, 64);
    p->packed_bytes = p->packs_weights ? (size_t)p->group_count * group_bytes(p) : 0;
    p->acts_bytes = (size_t)acts;
    p->shared_bytes = p->packed_bytes + (p->acts_per_thread ? 0 : p->acts_bytes);
    p->local_bytes = TILE_GROUPS * TILE_ROWS * 64;
    if (p->decodes_weights) p->local_bytes += zt_pack_group_bytes(ZT_F32, p->K) + 4 * (size_t)p->K;
    if (p->unpacks) p->local_bytes += UNPACKED_BYTES + 64 * (size_t)(p->block_tokens * p->parts);
    if (p->x->type.dtype != ZT_F32) p->local_bytes += 4 * (size_t)p->K; /* of x_row_as_f32, the last */
}

/* Are groups unpacked for their tiles? (With a scale for 16 columns half as many products hide what that saves.) */
static bool worth_unpacking(const zt_product *p, const weight_tiles *tiles)
{
#if defined(ZT_ISA_avx2)
    const bool ports_shared = true; /* those of shifts and conversions with products' */
#else
    const bool ports_shared = zt_cpu_shared_ports() || zt_pack_scale_per_16(tiles->form);
#endif
    return ports_shared && p->act_form == ACT_CODES && tiles->by_vectors[0].unpack && p->act_rows >= MANY_TILES * TILE_ROWS;
}

/* Does AMX multiply unpacked groups by this row, as one of AMX_ROWS? */
static bool multiplied_by_amx(const zt_product *p, int64_t row) { return p->uses_amx && row < p->act_rows / AMX_ROWS * AMX_ROWS; }

/* Tokens of an item of the first phase: a tile, which is made at once (put_tile_rows). */
static int64_t tokens_per_item(const zt_product *p) { return TILE_ROWS / p->parts; }

zt_product ZT_SYM(zt_product_make)(const zt_cpu_arg *x, const zt_cpu_arg *w, const zt_cpu_arg *b, const char *act,
                                   zt_cpu_tile tile, uint8_t *shared)
{
    return ZT_SYM(zt_product_make_rows)(x, NULL, x->type.dim[0], w, b, act, tile, shared);
}

zt_product ZT_SYM(zt_product_make_rows)(const zt_cpu_arg *x, const int32_t *rows, int64_t count, const zt_cpu_arg *w,
                                        const zt_cpu_arg *b, const char *act, zt_cpu_tile tile, uint8_t *shared)
{
    const weight_tiles *tiles = tile_table[w->type.dtype];
    zt_product p = {.x = x, .w = w, .b = b, .rows = rows, .shared = shared};
    p.tokens = count, p.K = x->type.dim[1], p.M = w->type.dim[0];
    p.f32_acts = strcmp(act, "f32") == 0;
    act_form form = p.f32_acts ? ACT_F32 : fastest_form(tiles->q8_form);
    p.act_form = form;
    p.acts_in_place = form == ACT_F32 && x->type.dtype == ZT_F32 && !rows;
    p.act_row_bytes = p.acts_in_place ? 0 : act_row_bytes(tiles, form, p.K);
    p.parts = form == ACT_CODES && strcmp(act, "q16") == 0 ? 2 : 1;
    p.act_rows = p.tokens * p.parts;
    p.group_count = (p.M + ZT_PACK_ROWS - 1) / ZT_PACK_ROWS;
    p.groups_at_once = p.f32_acts ? tiles->f32.groups[0] : p.parts == 2 ? tiles->q16.groups[1] : tiles->q8.groups[0];
    p.packs_weights = !w->packed;
    p.acts_per_thread = p.act_rows <= PER_THREAD_ROWS;
    p.decodes_weights = form == ACT_F32 && zt_pack_as_in_file(w->type.dtype);
    p.uses_amx = tile.amx && form == ACT_CODES && tiles->by_amx[0].unpack && p.act_rows >= AMX_ROWS;
    p.unpacks = p.uses_amx || worth_unpacking(&p, tiles);
    p.block_tokens = choose_block(&p, tile);
    p.prepare_items = p.packs_weights ? p.group_count : 0;
    if (!p.acts_per_thread && !p.acts_in_place) p.prepare_items += (p.tokens + tokens_per_item(&p) - 1) / tokens_per_item(&p);
    p.multiply_items = (p.tokens + p.block_tokens - 1) / p.block_tokens * p.group_count;
    set_scratch_sizes(&p);
    return p;
}

bool ZT_SYM(zt_product_same_acts)(const zt_product *a, const zt_product *b)
{
    const zt_pack_form *f = &tiles_of_weights(a)->form, *g = &tiles_of_weights(b)->form;
    return a->act_form == b->act_form && a->acts_in_place == b->acts_in_place && a->parts == b->parts &&
           a->uses_amx == b->uses_amx && zt_pack_middle(*f) == zt_pack_middle(*g) &&
           zt_pack_has_mins(*f) == zt_pack_has_mins(*g) && zt_pack_dot_shift(*f) == zt_pack_dot_shift(*g) &&
           zt_pack_scale_per_16(*f) == zt_pack_scale_per_16(*g);
}

/* ---- the first phase ------------------------------------------------------------------------- */

/* Which row of x a token is. */
static inline int64_t x_row(const zt_product *p, int64_t token) { return p->rows ? p->rows[token] : token; }

static const float *x_row_as_f32(const zt_product *p, int64_t token, uint8_t *local)
{
    const zt_dtype_info *dtype = zt_dtype_get(p->x->type.dtype);
    const char *x = (const char *)p->x->data + x_row(p, token) * p->K * dtype->block_bytes;
    if (p->x->type.dtype == ZT_F32) return (const float *)(const void *)x;
    float *row = (float *)(void *)(local + p->local_bytes - 4 * (size_t)p->K);
    dtype->decode(x, row, p->K);
    return row;
}

/* Where a row of ACT_CODES lies. */
static row_place place_of_row(const zt_product *p, int64_t row, uint8_t *acts)
{
    const zt_pack_form form = tiles_of_weights(p)->form;
    const int64_t amx = row / AMX_ROWS * AMX_ROWS, tile = tile_start(row, p->act_rows);
    if (multiplied_by_amx(p, row)) return row_in_amx_tile(form, row - amx, acts + amx * p->act_row_bytes);
    return row_in_tile(form, (int)tile_rows(tile, p->act_rows), row - tile, acts + tile * p->act_row_bytes);
}

static void put_token(const zt_product *p, int64_t token, uint8_t *acts, uint8_t *local)
{
    int64_t bytes = p->act_row_bytes;
    const float *x = x_row_as_f32(p, token, local);
    if (p->act_form == ACT_CODES)
        put_row_codes(tiles_of_weights(p)->form, x, p->K, p->parts, place_of_row(p, token * p->parts, acts));
    else if (p->act_form == ACT_BF16 || p->act_form == ACT_BF16_AS_F32)
        put_bf16_row((act_form)p->act_form, x, p->K, acts + token * bytes);
    else
        memcpy(acts + token * bytes, x, (size_t)bytes);
}

/* The whole tile that begins at `token`, at once; returns its tokens. 0: it cannot be made so. */
static int64_t put_whole_tile(const zt_product *p, int64_t token, int64_t last, uint8_t *acts)
{
#if defined(WHOLE_TILES)
    const int64_t row = token * p->parts, T = tile_rows(row, p->act_rows), tokens = T / p->parts;
    if (p->act_form == ACT_CODES && p->x->type.dtype == ZT_F32 && tile_at_once(T, p->parts) &&
        row == tile_start(row, p->act_rows) && token + tokens <= last) {
        const float *x[TILE_ROWS];
        for (int64_t r = 0; r < TILE_ROWS; r++)
            x[r] = (const float *)p->x->data + x_row(p, token + (r < T ? r : T - 1) / p->parts) * p->K;
        put_tile_rows(tiles_of_weights(p)->form, x, p->K, p->parts, place_of_row(p, row, acts));
        return tokens;
    }
#endif
    (void)p, (void)token, (void)last, (void)acts;
    return 0;
}

static void put_tokens(const zt_product *p, int64_t token, int64_t last, uint8_t *acts, uint8_t *local)
{
    while (token < last) {
        const int64_t tokens = put_whole_tile(p, token, last, acts);
        if (!tokens) put_token(p, token, acts, local);
        token += tokens ? tokens : 1;
    }
}

static void pack_group(const zt_product *p, int64_t group)
{
    zt_dtype type = p->w->type.dtype;
    size_t row_bytes = zt_pack_file_bytes(type, p->K);
    int64_t rows = p->M - group * ZT_PACK_ROWS;
    zt_pack_group(type, p->K, (const uint8_t *)p->w->data + (size_t)group * ZT_PACK_ROWS * row_bytes, row_bytes,
                  rows < ZT_PACK_ROWS ? (int)rows : ZT_PACK_ROWS, p->shared + (size_t)group * group_bytes(p));
}

void ZT_SYM(zt_product_prepare)(const zt_product *p, int64_t begin, int64_t end, uint8_t *local)
{
    int64_t groups = p->packs_weights ? p->group_count : 0, first = begin > groups ? begin : groups;
    for (int64_t g = begin; g < end && g < groups; g++) pack_group(p, g);
    int64_t tokens = tokens_per_item(p), token = (first - groups) * tokens, last = (end - groups) * tokens;
    put_tokens(p, token, last < p->tokens ? last : p->tokens, p->shared + p->packed_bytes, local);
}

const uint8_t *ZT_SYM(zt_product_activations)(const zt_product *p, uint8_t *room, uint8_t *local)
{
    if (p->acts_in_place) return p->x->data;
    if (!p->acts_per_thread) return p->shared + p->packed_bytes;
    put_tokens(p, 0, p->tokens, room, local);
    return room;
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* What the tiles of one block of a product share. */
typedef struct tile_job {
    const zt_product *p;
    const zt_product_out *out;
    const sized_tiles *tiles;
    const uint8_t *weights, *acts; /* packed weights; activations in their form */
    size_t group_bytes, row_bytes, x_stride;
    float *acc;
    float *decoded;        /* [K][16], and a row of K; NULL: tiles read the packed form */
    uint8_t *unpacked;     /* UNPACKED_BYTES, and sums of a block behind them; NULL: as packed */
    several_tiles several; /* n 0: tiles are taken one by one */
    bool prefetches;       /* what comes next: the processor does not */
    int64_t first_row;     /* whose tile brings the weights, */
    size_t distance[2];    /* and prefetches them so far ahead: one of more rows than STREAMED_ROWS, and of fewer */
} tile_job;

static const uint8_t *group_at(const tile_job *job, int64_t group) { return job->weights + (size_t)group * job->group_bytes; }

/* How far ahead the tile of so many rows from `row` on prefetches. */
static size_t prefetch_distance(const tile_job *job, int64_t row, int64_t rows)
{
    return row == job->first_row ? job->distance[rows <= STREAMED_ROWS] : 0;
}

/* The `count` entries of b from `column` on as f32; NULL: there are none. */
static const float *bias_as_f32(const zt_cpu_arg *b, int64_t column, int64_t count, float *room)
{
    if (!b->data) return NULL;
    const zt_dtype_info *dtype = zt_dtype_get(b->type.dtype);
    if (b->type.dtype == ZT_F32) return (const float *)b->data + column;
    dtype->decode((const char *)b->data + column * dtype->block_bytes, room, count);
    return room;
}

/* y of some tokens from the sums of a group: bias, and encoding. */
static void store_outputs(const tile_job *job, int64_t token, int64_t tokens, int64_t group, const float *acc)
{
    const zt_product *p = job->p;
    const zt_product_out *out = job->out;
    int64_t m = group * ZT_PACK_ROWS, rows = p->M - m < ZT_PACK_ROWS ? p->M - m : ZT_PACK_ROWS;
    const zt_dtype_info *dtype = zt_dtype_get(p->x->type.dtype);
    float room[ZT_PACK_ROWS];
    const float *b = bias_as_f32(p->b, m, rows, room);
    for (int64_t t = 0; t < tokens; t++, acc += ZT_PACK_ROWS) {
        int64_t row = out->rows ? out->rows[token + t] : token + t - out->first_token;
        char *y = out->at + (row * out->row_stride + m - out->first_column) * dtype->block_bytes;
        float sum[ZT_PACK_ROWS], *to = dtype == zt_dtype_get(ZT_F32) ? (float *)(void *)y : sum;
        if (rows == ZT_PACK_ROWS)
            fv_store(to, b ? fv_add(fv_load(acc), fv_load(b)) : fv_load(acc));
        else
            for (int64_t i = 0; i < rows; i++) to[i] = b ? acc[i] + b[i] : acc[i];
        if (to == sum) dtype->encode(sum, y, rows);
    }
}

/* Where the sums of one group for the token are y itself; NULL: they are not. */
static float *sums_in_place(const tile_job *job, int64_t token, int64_t group)
{
    const zt_product *p = job->p;
    const zt_product_out *out = job->out;
    int64_t m = group * ZT_PACK_ROWS;
    if (p->x->type.dtype != ZT_F32 || p->b->data || m + ZT_PACK_ROWS > p->M || out->rows) return NULL;
    return (float *)(void *)out->at + (token - out->first_token) * out->row_stride + m - out->first_column;
}

/* ---- tiles of packed groups ------------------------------------------------------------------ */

/* The tile of 2^size rows of activations from `row` on times `count` groups from g on, group_step from each other; of
 * fewer than a call takes the last again, not used. */
static void multiply_tile(const tile_job *job, int64_t row, int size, int64_t g, int64_t group_step, int count,
                          tile_prefetch prefetch)
{
    const int64_t parts = job->p->parts, token = row / parts, tokens = ((int64_t)1 << size) / parts;
    const int at_once = job->tiles->groups[size];
    const bool one_row = tokens == 1 && count == at_once && sums_in_place(job, token, g + (count - 1) * group_step);
    const uint8_t *x = job->acts + (size_t)row * job->row_bytes, *group[TILE_GROUPS];
    float *y = at_once == 1 || one_row ? sums_in_place(job, token, g) : NULL;
    for (int i = 0; i < at_once; i++) group[i] = group_at(job, g + (i < count ? i : count - 1) * group_step);
    if (job->decoded) group[0] = (const uint8_t *)job->decoded;
    const int64_t acc_stride = !y ? ZT_PACK_ROWS : one_row ? ZT_PACK_ROWS * group_step : job->out->row_stride;
    job->tiles->fn[size](group, job->p->K, x, job->x_stride, y ? y : job->acc, acc_stride, prefetch);
    for (int i = 0; i < count && !y; i++) store_outputs(job, token, tokens, g + i * group_step, job->acc + 16 * tokens * i);
}

/* The same of all groups g..end-1. Those of one call are as far from each other as can be, so that each is a long
 * stream. */
static void multiply_groups(const tile_job *job, int64_t row, int size, int64_t g, int64_t end, tile_prefetch prefetch)
{
    const int at_once = job->tiles->groups[size];
    const int64_t group_step = (end - g) / at_once, last = g + group_step;
    prefetch.distance = prefetch_distance(job, row, (int64_t)1 << size);
    for (; g < last; g++) multiply_tile(job, row, size, g, group_step, at_once, prefetch);
    g += group_step * (at_once - 1);
    if (g < end) multiply_tile(job, row, size, g, 1, (int)(end - g), prefetch);
}

/* ---- prefetching the next group -------------------------------------------------------------- */

/* What tiles by a group prefetch, each a part: of the next group, which is this call's, or most often the next one's.
 * Only MANY_TILES do: with fewer it would be so much at once that it holds up what is needed now. There the first
 * tile prefetches what is a little ahead of it. */
typedef struct next_group {
    const uint8_t *next, *end;
    size_t part;
} next_group;

/* Of so many tiles by group g: `bytes` of the next from `at` on. */
static next_group next_group_of(const tile_job *job, int64_t g, size_t at, size_t bytes, int64_t tiles)
{
    if (tiles < MANY_TILES || g + 1 >= job->p->group_count) return (next_group){0};
    const uint8_t *next = group_at(job, g + 1) + at;
    return (next_group){next, next + bytes, (size_t)round_up((int64_t)bytes / tiles, 64)};
}

static const uint8_t *end_of_part(const next_group *coming)
{
    return (size_t)(coming->end - coming->next) <= coming->part ? coming->end : coming->next + coming->part;
}

/* Prefetches a part at once, where the processor does not by itself. */
static void prefetch_part(const tile_job *job, next_group *coming)
{
    const uint8_t *end = end_of_part(coming);
    for (const uint8_t *p = coming->next; job->prefetches && p < end; p += 64) prefetch_l2((uintptr_t)p, 64);
    coming->next = end;
}

/* A part that is so large that its lines would wait for each other: the tile prefetches a few with each pair of
 * columns. (A few lines at once cost less than in the tile.) */
static tile_prefetch prefetch_in_tile(const tile_job *job, next_group *coming)
{
    if (job->p->act_form != ACT_CODES || coming->part < PREFETCH_IN_TILE) {
        prefetch_part(job, coming);
        return (tile_prefetch){0};
    }
    const tile_prefetch prefetch = {.next = coming->next, .end = end_of_part(coming)};
    coming->next = prefetch.end;
    return prefetch;
}

/* ---- a block --------------------------------------------------------------------------------- */

#if defined(WHOLE_TILES)
/* Rows row..end-1, whole tiles, AMX's or others, times group g, unpacked some columns at a time. */
static void multiply_unpacked(const tile_job *job, int64_t row, int64_t end, int64_t g)
{
    const zt_product *p = job->p;
    const weight_tiles *tiles = tiles_of_weights(p);
    const unpacked_tiles by = (p->uses_amx ? tiles->by_amx : tiles->by_vectors)[p->parts - 1];
    const uint8_t *group = group_at(job, g);
    float *in_place = sums_in_place(job, row / p->parts, g);
    float *apart = (float *)(void *)(job->unpacked + UNPACKED_BYTES), *y = in_place ? in_place : apart;
    const int64_t rows = p->uses_amx ? AMX_ROWS : TILE_ROWS, tile_count = (end - row) / rows;
    const int64_t acc_stride = in_place ? job->out->row_stride : ZT_PACK_ROWS, tokens = rows / p->parts;
    for (int64_t k = 0; k < p->K; k += UNPACK_COLUMNS) {
        int64_t columns = p->K - k < UNPACK_COLUMNS ? p->K - k : UNPACK_COLUMNS;
        const uint8_t *x = job->acts + k / pair_columns(tiles->form) * rows * pair_bytes(tiles->form);
        size_t at = zt_pack_group_bytes(p->w->type.dtype, k);
        size_t bytes = zt_pack_group_bytes(p->w->type.dtype, k + columns) - at;
        next_group coming = next_group_of(job, g, at, bytes, tile_count);
        by.unpack(group, group + at, columns, job->unpacked, tile_count < MANY_TILES ? job->distance[false] : 0);
        for (int64_t i = 0; i < tile_count; i++) {
            prefetch_part(job, &coming);
            by.tile(job->unpacked, columns, x + (size_t)(row + i * rows) * job->row_bytes, y + i * tokens * acc_stride,
                    acc_stride, k > 0, k + columns < p->K ? NULL : group);
        }
    }
    for (int64_t i = 0; i < tile_count && !in_place; i++)
        store_outputs(job, row / p->parts + i * tokens, tokens, g, apart + i * tokens * ZT_PACK_ROWS);
}
#endif

/* Rows from `row` on, of as many tiles as are taken at once, times group g. */
static void multiply_several(const tile_job *job, int64_t row, int64_t g)
{
    const int64_t token = row / job->p->parts, rows = job->several.n * TILE_ROWS;
    float *y = sums_in_place(job, token, g);
    job->several.fn(group_at(job, g), job->p->K, job->acts + (size_t)row * job->row_bytes, TILE_ROWS * job->row_bytes,
                    y ? y : job->acc, y ? job->out->row_stride : ZT_PACK_ROWS, prefetch_distance(job, row, rows));
    if (!y) store_outputs(job, token, rows / job->p->parts, g, job->acc);
}

/* Rows row..end-1, whole tiles, times group g as packed, or as many groups as a tile takes before last_group. */
static void multiply_packed(const tile_job *job, int64_t row, int64_t end, int64_t g, int64_t last_group)
{
    const int at_once = job->tiles->groups[TILE_SIZES - 1], several = job->several.n;
    next_group coming = next_group_of(job, g, 0, job->group_bytes, (end - row) / TILE_ROWS);
    for (; several && row + several * TILE_ROWS <= end; row += several * TILE_ROWS) {
        multiply_several(job, row, g);
        for (int k = 0; k < several && !job->distance[false]; k++) prefetch_part(job, &coming);
    }
    for (; row < end; row += TILE_ROWS) {
        const tile_prefetch prefetch = prefetch_in_tile(job, &coming);
        multiply_groups(job, row, TILE_SIZES - 1, g, g + at_once < last_group ? g + at_once : last_group, prefetch);
    }
}

static void multiply_whole_tiles(const tile_job *job, int64_t row, int64_t end, int64_t g, int64_t last_group)
{
#if defined(WHOLE_TILES)
    const int64_t rows = job->p->uses_amx ? AMX_ROWS : TILE_ROWS, until = row + (end - row) / rows * rows;
    if (job->unpacked && until > row) {
        multiply_unpacked(job, row, until, g);
        row = until;
    }
#endif
    if (row < end) multiply_packed(job, row, end, g, last_group);
}

/* Rows row..last-1 times groups g..end-1: a group stays in the first-level cache for all tiles. */
static void multiply_block(const tile_job *job, int64_t row, int64_t last, int64_t g, int64_t end)
{
    int64_t whole = row + (last - row) / TILE_ROWS * TILE_ROWS;
    int at_once = job->tiles->groups[TILE_SIZES - 1];
    for (int64_t i = g; i < end && whole > row; i += at_once) multiply_whole_tiles(job, row, whole, i, end);
    for (int size = TILE_SIZES - 2; size >= 0; size--) {
        if (!((last - whole) >> size & 1)) continue;
        multiply_groups(job, whole, size, g, end, (tile_prefetch){0});
        whole += (int64_t)1 << size;
    }
}

static void decode_group(const tile_job *job, int64_t g)
{
    zt_dtype type = job->p->w->type.dtype;
    int64_t K = job->p->K;
    float *row = job->decoded + ZT_PACK_ROWS * K;
    for (int r = 0; r < ZT_PACK_ROWS; r++) {
        zt_unpack_row(type, K, group_at(job, g), r, row);
        for (int64_t k = 0; k < K; k++) job->decoded[ZT_PACK_ROWS * k + r] = row[k];
    }
}

/* multiply_block of groups that must be decoded. */
static void multiply_decoded(const tile_job *job, int64_t row, int64_t last, int64_t g, int64_t end)
{
    for (; g < end; g++) {
        decode_group(job, g);
        multiply_block(job, row, last, g, g + 1);
    }
}

void ZT_SYM(zt_product_multiply)(const zt_product *p, const uint8_t *acts, const zt_product_out *out, int64_t first, int64_t last,
                                 int64_t begin, int64_t end, uint8_t *local)
{
    const weight_tiles *tiles = tiles_of_weights(p);
    const sized_tiles *q8 = p->act_form == ACT_BF16_AS_F32 ? &bf16_as_f32_tiles : &tiles->q8;
    const bool bf16 = p->act_form == ACT_BF16 || p->act_form == ACT_BF16_AS_F32;
    tile_job job = {.p = p,
                    .out = out,
                    .tiles = p->f32_acts     ? &tiles->f32
                             : p->parts == 2 ? &tiles->q16
                                             : q8,
                    .weights = p->packs_weights ? p->shared : p->w->data,
                    .acts = acts,
                    .group_bytes = group_bytes(p),
                    .row_bytes = (size_t)(p->acts_in_place ? 4 * p->K : p->act_row_bytes),
                    .x_stride = (size_t)(bf16 ? bf16_words((act_form)p->act_form, p->K) : p->K),
                    .acc = (float *)(void *)local,
                    .prefetches = zt_cpu_reach(false) > 0};
    if (p->decodes_weights) job.decoded = (float *)(void *)(local + TILE_GROUPS * TILE_ROWS * 64);
    if (p->unpacks) job.unpacked = local + TILE_GROUPS * TILE_ROWS * 64;
    const int64_t tile_count = (last - first) * p->parts / TILE_ROWS;
    const bool twins = p->act_form == ACT_CODES && tile_count < 2 * MANY_TILES && zt_cpu_shared_ports();
    job.several = twins ? tiles->several[p->parts - 1] : always_several(p->w->type.dtype, (act_form)p->act_form);
    const bool few_tiles = tile_count < (twins && job.several.n ? 2 : 1) * MANY_TILES;
    for (int few_rows = 0; few_rows < 2 && few_tiles && !p->decodes_weights; few_rows++)
        job.distance[few_rows] = zt_cpu_reach(few_rows);
    if (p->act_form == ACT_CODES) job.distance[true] = zt_cpu_reach_of_codes(tiles->form.bits);
    job.first_row = first * p->parts;
    if (p->uses_amx) amx_begin_tiles();
    (p->decodes_weights ? multiply_decoded : multiply_block)(&job, first * p->parts, last * p->parts, begin, end);
    if (p->uses_amx) amx_end();
}

void ZT_SYM(zt_product_multiply_items)(const zt_product *p, const uint8_t *acts, void *y, int64_t begin, int64_t end,
                                       uint8_t *local)
{
    const zt_product_out out = {.at = y, .row_stride = p->M};
    while (begin < end) {
        int64_t token = begin / p->group_count * p->block_tokens, group = begin % p->group_count;
        int64_t last = token + p->block_tokens < p->tokens ? token + p->block_tokens : p->tokens;
        int64_t count = end - begin < p->group_count - group ? end - begin : p->group_count - group;
        ZT_SYM(zt_product_multiply)(p, acts, &out, token, last, group, group + count, local);
        begin += count;
    }
}

int ZT_SYM(zt_product_prefetch)(const zt_product *p, int64_t begin, int64_t end, zt_cpu_prefetch *piece)
{
    if (p->packs_weights || p->tokens > p->block_tokens || begin >= end) return 0;
    *piece = (zt_cpu_prefetch){.at = (const uint8_t *)p->w->data + (size_t)begin * group_bytes(p),
                               .bytes = (size_t)(end - begin) * group_bytes(p)};
    return 1;
}
