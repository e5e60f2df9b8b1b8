/* attention.c - causal attention over a cache, never an n x n matrix.
 *
 * Keys are walked in tiles of TILE positions that begin at multiples of TILE, tiles in chunks that
 * begin at multiples of CHUNK. Inside a chunk a row keeps the largest score so far, the sum of
 * exp(score - largest) and the sum of values weighted so (Milakov and Gimelshein, "Online
 * normalizer calculation for softmax", 2018); chunks are combined in order. So what a row gets
 * depends on nothing but its positions:
 *
 *   - a score is one sum over the head's columns, in order; values are added key by key, in order
 *   - keys outside a row's own range are not touched; a tile or chunk without any of its keys is
 *     left out; lanes outside its range add exactly 0 to its sum
 *
 * and how rows are put together into blocks, and whether chunks are items of their own (few rows:
 * the chunks then run side by side, and phase 1 combines them) is a matter of speed alone.
 *
 * An item is a block of rows and one key head, with the H/G query heads that share it. Each tile of
 * keys is turned once, to [column][key], so that sixteen keys are the lanes of a register, and each
 * tile of values widened once; both then serve all rows and heads of the block. For a row that is
 * alone in its sequence, as in generation, values are used as they come into registers, and keys are
 * turned as they lie: attention_row.h. A thread then takes all key heads of its items tile by tile, so
 * that it reads the caches row by row, and prefetches the next tile from the first item to the last.
 */
#include "lib/engine/cpu/isa/attention_row.h"

/* ---- tiles and chunks ------------------------------------------------------------------------ */

/* Of the keys (k 1) or values (2) of a tile all lines are sent for, to the second-level cache. Few rows wait
 * for them: with this 4 of them take 5 per cent less, all in all. For many it is work in vain. */
static void send_for_tile(const run *w, int64_t tile, int k)
{
    if (w->s.n > FEW || tile >= w->s.ctx) return;
    const span s = seen_by_any(w, 0, w->rows, tile);
    const size_t bytes = cache_bytes(w->c->in[k].type.dtype, w->s.D);
    size_t at[TILE];
    find_rows(w, tile, s, k, at);
    for (int j = s.first; j < s.last; j++)
        for (size_t i = 0; i < bytes; i += LINE) __builtin_prefetch((const char *)w->c->in[k].data + at[j] + i, 0, 2);
}

static void attend_tile(const run *w, part p, int64_t tile)
{
    int64_t M = w->rows * w->s.share;
    span all = seen_by_any(w, 0, w->rows, tile);
    if (all.first >= all.last) return;
    load_tile(w, tile, all);
    send_for_tile(w, tile + TILE, 1);
    score_tile(w, tile);
    send_for_tile(w, tile + TILE, 2);
    for (int64_t i = 0; i < M; i += ROWS) {
        int m = M - i < ROWS ? (int)(M - i) : ROWS;
        weigh_rows(w, p, tile, i, m);
        value_rows(w, p, tile, i, m);
    }
}

/* p is left as it was when no row sees anything of the chunk. False: that is so. */
static bool attend_chunk(const run *w, part p, int64_t chunk)
{
    bool any = false;
    for (int64_t r = 0; r < w->rows; r++) any = any || sees(w, r, chunk);
    if (!any) return false;
    part_clear(p, w->rows * w->s.share, w->s.Dp);
    if (w->rows == 1 && from_cache(w->c, &w->s)) {
        attend_alone(w, p, chunk * CHUNK, (chunk + 1) * CHUNK);
        return true;
    }
    for (int64_t t = chunk * CHUNK; t < (chunk + 1) * CHUNK && t < w->s.ctx; t += TILE) attend_tile(w, p, t);
    return true;
}

static void combine_chunk(const run *w, part total, part p, int64_t chunk)
{
    for (int64_t i = 0; i < w->rows * w->s.share; i++)
        if (sees(w, i / w->s.share, chunk)) combine(total, p, i, w->s.Dp);
}

/* What query i's weights sum to, with its head's sink. */
static vf sum_with_sink(const run *w, part p, int64_t i, int64_t head)
{
    const float *sinks = w->c->aux[AUX_POS] > SINKS ? w->c->in[SINKS].data : NULL;
    vf sum = vf_set(p.sum[i]);
    return sinks ? vf_add(sum, vf_exp(vf_set(sinks[head] - p.top[i]))) : sum;
}

/* y = acc / sum; zeros for a row that sees nothing, which is one with trouble. */
static void write_out(const run *w, part p)
{
    for (int64_t i = 0; i < w->rows * w->s.share; i++) {
        int64_t r = i / w->s.share, head = w->g * w->s.share + i % w->s.share, D = w->s.D;
        float *y = (float *)w->c->out[0].data + ((w->row + r) * w->s.H + head) * D;
        const float *acc = p.acc + i * w->s.Dp;
        vf sum = w->lo[r] < w->hi[r] ? sum_with_sink(w, p, i, head) : vf_set(1);
        for (int64_t d = 0; d < D; d += LANES)
            vf_store_n(y + d, D - d < LANES ? (int)(D - d) : LANES, vf_div(vf_load(acc + d), sum));
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* A block's rows, run by run. begin_block sets what all runs share. */
static run begin_block(zt_cpu_call *call, int64_t g, float *scratch)
{
    const zt_attention_attrs *attention = call->attrs;
    sizes s = sizes_of(call);
    run w = {.c = call, .s = s, .slots = slots_of_rows(call), .g = g, .cap = (float)attention->softcap};
    w.scale = attention->scale != 0 ? (float)attention->scale : (float)(1 / sqrt((double)s.D));
    w.keys = scratch;
    w.values = w.keys + TILE * s.Dp;
    w.score = w.values + TILE * s.Dp;
    return w;
}

/* The next rows of one sequence before `end`, and what they see. */
static void begin_run(run *w, int64_t row, int64_t end)
{
    w->row = row;
    w->seq = slots_seq(&w->slots, row);
    for (w->rows = 0; row < end && slots_seq(&w->slots, row) == w->seq; row++, w->rows++) {
        int64_t pos = w->slots.pos[row], r = w->rows;
        bool good = slots_row_good(&w->slots, w->c, row, pos);
        w->hi[r] = good ? pos + 1 : 0;
        w->lo[r] = good ? first_seen(w->c, pos) : 0;
    }
}

static int64_t end_of_block(const zt_cpu_call *call, int64_t block, int64_t n)
{
    int64_t end = (block + 1) * call->aux[AUX_ROWS];
    return end < n ? end : n;
}

/* All chunks of a run, one after the other. */
static void run_whole(const run *w, part p, part total)
{
    int64_t first = w->s.ctx, last = 0;
    for (int64_t r = 0; r < w->rows; r++) {
        if (w->lo[r] < first) first = w->lo[r];
        if (w->hi[r] > last) last = w->hi[r];
    }
    /* the first chunk is all of the total so far: combine would copy it */
    bool begun = false;
    for (int64_t chunk = first / CHUNK; chunk * CHUNK < last; chunk++) {
        bool some = attend_chunk(w, begun ? p : total, chunk);
        if (begun) combine_chunk(w, total, p, chunk);
        begun = begun || some;
    }
    if (!begun) part_clear(total, w->rows * w->s.share, w->s.Dp);
    write_out(w, total);
}

/* ---- rows that are alone --------------------------------------------------------------------- */

/* Is every row of a block in another sequence than the next one, and is the cache read as it lies? */
static bool each_alone(zt_cpu_call *call, int64_t row, int64_t end)
{
    slots at = slots_of_rows(call);
    const sizes s = sizes_of(call);
    if (!from_cache(call, &s)) return false;
    for (; row + 1 < end; row++)
        if (slots_seq(&at, row) == slots_seq(&at, row + 1)) return false;
    return true;
}

/* The next tile of a row, else the first of a row before `end`; false: that was the last. */
static bool step_on(const stop *from, int64_t end, stop *to)
{
    run w = from->w;
    for (int64_t tile = from->tile + TILE; !find_stop(&w, w.s.G, tile, w.s.ctx, to); tile = 0) {
        if (w.row + 1 >= end) return false;
        begin_run(&w, w.row + 1, w.row + 2);
    }
    return true;
}

/* Zeros for those that see nothing. */
static void write_zeros(run w, int64_t row, int64_t end, part total)
{
    part_clear(total, w.s.H, w.s.Dp);
    for (; row < end; row++) {
        begin_run(&w, row, row + 1);
        for (w.g = 0; w.lo[0] >= w.hi[0] && w.g < w.s.G; w.g++) write_out(&w, total);
    }
}

/* Queries that a thread has sums of: those of a block's rows and one key head, or of one row. */
static int64_t queries_of(const zt_cpu_call *call, const sizes *s)
{
    int64_t M = call->aux[AUX_ROWS] * s->share;
    return M > s->H ? M : s->H;
}

/* All heads of the rows from `row` to before `end`, as run_whole. */
static void run_alone(zt_cpu_call *call, int64_t row, int64_t end, float *local)
{
    stop stops[2];
    run *w = &stops[1].w;
    if (row >= end) return;
    *w = begin_block(call, 0, local);
    const int64_t M = queries_of(call, &w->s), n = w->s.n, H = w->s.H, Dp = w->s.Dp;
    float *parts = w->score + M * TILE;
    part p = part_at(parts, M), total = part_at(parts + part_floats(M, Dp), M);
    write_zeros(*w, row, end, total);
    begin_run(w, row, row + 1);
    stops[1].tile = -TILE;
    part_clear(p, H, Dp);
    bool more = step_on(&stops[1], end, &stops[0]);
    for (int now = 0; more; now = !now) {
        stop *at = &stops[now], *next = &stops[!now];
        /* the one after the last is of the rows that this thread most likely gets then */
        bool any = step_on(at, n, next), same = any && next->w.row == at->w.row;
        more = any && next->w.row < end;
        attend_stop(at, p, (part_step){w->s.share, w->s.share * Dp}, any ? next : NULL);
        if (same && next->tile % CHUNK) continue;
        for (int64_t i = 0; i < H; i++) combine(total, p, i, Dp);
        part_clear(p, H, Dp);
        if (same) continue;
        for (; at->w.g < at->w.s.G; at->w.g++) write_out(&at->w, part_from(total, at->w.g * at->w.s.share, Dp));
        part_clear(total, H, Dp);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Long prompts from the last block on: those see most, and threads end together when the last work
 * is short. Few rows keep to their order, for the thread that made their queries. */
static void run_blocks(zt_cpu_call *call, int64_t begin, int64_t end, float *local)
{
    sizes s = sizes_of(call);
    int64_t M = call->aux[AUX_ROWS] * s.share;
    for (int64_t item = begin; item < end; item++) {
        int64_t block = item / s.G, g = item % s.G;
        if (s.n > BLOCKS) block = call->aux[AUX_BLOCKS] - 1 - block;
        int64_t row = block * call->aux[AUX_ROWS], last = end_of_block(call, block, s.n);
        if (last - row > 1 && each_alone(call, row, last)) {
            run_alone(call, row + (last - row) * g / s.G, row + (last - row) * (g + 1) / s.G, local);
            continue;
        }
        run w = begin_block(call, g, local);
        float *parts = w.score + M * TILE;
        for (; row < last; row += w.rows) {
            begin_run(&w, row, last);
            run_whole(&w, part_at(parts, M), part_at(parts + part_floats(M, s.Dp), M));
        }
    }
}

/* A step through n items that meets all of them, and any few that follow each other from all over
 * (near the golden section): only the first chunks have keys, and each thread is to get some. */
static int64_t step_of(int64_t n)
{
    for (int64_t step = (n * 618 + 999) / 1000;; step++) {
        int64_t a = n, b = step;
        while (b) {
            int64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return step;
    }
}

/* Chunks that hold a key which some row sees: one at least, so that each row is looked at. */
static int64_t used_chunks(const zt_cpu_call *call)
{
    const int32_t *pos = slots_of_rows(call).pos;
    int64_t last = 0;
    for (int64_t row = 0; row < call->in[0].type.dim[0]; row++)
        if (pos[row] > last) last = pos[row];
    return last / CHUNK < call->aux[AUX_CHUNKS] ? last / CHUNK + 1 : call->aux[AUX_CHUNKS];
}

/* ---- few rows: chunks are items -------------------------------------------------------------- */

/* What item `at` of phase 0 is: a chunk of a block and some key heads, all of them if there are enough such items, so that a
 * thread reads whole rows of the caches. */
typedef struct chunk_item {
    int64_t chunk, block, g, heads;
    size_t sums; /* floats before its own in shared memory */
} chunk_item;

/* The key heads of items from `at` to before `end` that have the same chunk and block. */
static chunk_item items_at(const zt_cpu_call *call, const sizes *s, int64_t at, int64_t end)
{
    const int64_t blocks = call->aux[AUX_BLOCKS], splits = call->aux[AUX_SPLITS];
    const int64_t unit = at / splits * call->aux[AUX_STEP] % (call->aux[AUX_CHUNKS] * blocks), split = at % splits;
    const int64_t after = splits - split < end - at ? splits : split + end - at;
    chunk_item item = {.chunk = unit / blocks, .block = unit % blocks, .g = s->G * split / splits};
    item.heads = s->G * after / splits - item.g;
    item.sums = (size_t)(unit * s->G + item.g) * part_floats(call->aux[AUX_ROWS] * s->share, s->Dp);
    return item;
}

/* A stop of a row of an item and those after it that have the same chunk and block. */
typedef struct item_stop {
    stop stop;
    int64_t at, row; /* the first item; the row in its block */
} item_stop;

/* The tile after `from`'s, else the first of the next row of its items, else of the items after these and before `end`. False:
 * there is none. */
static bool step_items(zt_cpu_call *call, const item_stop *from, int64_t end, int64_t used, float *local, item_stop *to)
{
    const sizes s = sizes_of(call);
    const int64_t splits = call->aux[AUX_SPLITS];
    int64_t row = from->row, tile = from->stop.tile + TILE;
    for (int64_t at = from->at; at < end; at += splits - at % splits, row = 0, tile = 0) {
        const chunk_item item = items_at(call, &s, at, end);
        const int64_t first = item.block * call->aux[AUX_ROWS], last = end_of_block(call, item.block, s.n);
        for (; item.chunk < used && first + row < last; row++, tile = 0) {
            if (tile < item.chunk * CHUNK) tile = item.chunk * CHUNK;
            run w = begin_block(call, item.g, local);
            begin_run(&w, first + row, first + row + 1);
            *to = (item_stop){.at = at, .row = row};
            if (find_stop(&w, item.heads, tile, (item.chunk + 1) * CHUNK, &to->stop)) return true;
        }
    }
    return false;
}

/* Phase 0 of rows that are alone: items tile by tile, all their key heads in each, and the next tile is prefetched, of the next
 * items too; after `end` those that this thread most likely gets then. */
static void run_items_alone(zt_cpu_call *call, int64_t begin, int64_t end, float *local)
{
    const sizes s = sizes_of(call);
    const int64_t M = call->aux[AUX_ROWS] * s.share, used = used_chunks(call);
    const part_step step = {(int64_t)part_floats(M, s.Dp), (int64_t)part_floats(M, s.Dp)};
    item_stop stops[2], after = {.at = end, .stop.tile = -TILE};
    stops[1] = (item_stop){.at = begin, .stop.tile = -TILE};
    bool more = step_items(call, &stops[1], end, used, local, &stops[0]);
    for (int now = 0; more; now = !now) {
        item_stop *here = &stops[now], *next = &stops[!now];
        part p = part_at((float *)call->shared + items_at(call, &s, here->at, end).sums, M);
        if (here->at != next->at || here->row != next->row || next->stop.tile < 0)
            for (int64_t h = 0; h < here->stop.heads; h++) {
                part cleared = {p.top + h * step.sums, p.sum + h * step.sums, p.acc + h * step.acc};
                part_clear(part_from(cleared, here->row * s.share, s.Dp), s.share, s.Dp);
            }
        more = step_items(call, here, end, used, local, next);
        bool any = more || step_items(call, &after, call->items[0], used, local, next);
        attend_stop(&here->stop, part_from(p, here->row * s.share, s.Dp), step, any ? &next->stop : NULL);
    }
}

/* Few rows, phase 0: one chunk of one block and some key heads an item, its sums to shared memory. */
static void run_chunks(zt_cpu_call *call, int64_t begin, int64_t end, float *local)
{
    sizes s = sizes_of(call);
    const int64_t M = call->aux[AUX_ROWS] * s.share, used = used_chunks(call);
    if (each_alone(call, 0, s.n)) {
        run_items_alone(call, begin, end, local);
        return;
    }
    for (int64_t at = begin; at < end; at++) {
        const chunk_item item = items_at(call, &s, at, at + 1);
        const int64_t first = item.block * call->aux[AUX_ROWS], last = end_of_block(call, item.block, s.n);
        for (int64_t head = 0; item.chunk < used && head < item.heads; head++) {
            run w = begin_block(call, item.g + head, local);
            part p = part_at((float *)call->shared + item.sums + (size_t)head * part_floats(M, s.Dp), M);
            for (int64_t row = first; row < last; row += w.rows) {
                begin_run(&w, row, last);
                attend_chunk(&w, part_from(p, (row - first) * s.share, s.Dp), item.chunk);
            }
        }
    }
}

/* Few rows, phase 1: the chunks of one block and key head, in order. */
static void run_combine(zt_cpu_call *call, int64_t begin, int64_t end, float *local)
{
    sizes s = sizes_of(call);
    int64_t M = call->aux[AUX_ROWS] * s.share, per_chunk = call->aux[AUX_BLOCKS] * s.G;
    const int64_t used = used_chunks(call);
    for (int64_t item = begin; item < end; item++) {
        int64_t block = item / s.G, first = block * call->aux[AUX_ROWS], row = first;
        run w = begin_block(call, item % s.G, local);
        part total = part_at(local, M);
        for (; row < end_of_block(call, block, s.n); row += w.rows) {
            begin_run(&w, row, end_of_block(call, block, s.n));
            part_clear(total, w.rows * s.share, s.Dp);
            for (int64_t k = 0; k < used; k++) {
                size_t at = (size_t)(k * per_chunk + item) * part_floats(M, s.Dp);
                part p = part_at((float *)call->shared + at, M);
                combine_chunk(&w, total, part_from(p, (row - first) * s.share, s.Dp), k);
            }
            write_out(&w, total);
        }
    }
}

enum { PIECE = 64 << 10 /* bytes that are prefetched as a piece: of a larger one than is left of its budget none is */ };

/* Of keys (k 1) or values (2) that a row and key heads from g on read, from position p to before `end`, the first that lie
 * together; returns the position after them, or 0: there are none. */
static int64_t lie_together(const zt_cpu_call *call, const sizes *s, int k, int64_t row, int64_t g, int64_t heads, int64_t p,
                            int64_t end, zt_cpu_prefetch *to)
{
    const slots at = slots_of_rows(call);
    const zt_dtype dtype = call->in[k].type.dtype;
    const size_t width = cache_bytes(dtype, s->D * s->G);
    const int64_t seq = slots_seq(&at, row), pos = at.pos[row];
    if (seq < 0 || seq >= at.S || pos < 0 || pos >= s->ctx) return 0;
    if (p < first_seen(call, pos)) p = first_seen(call, pos);
    if (end > pos + 1) end = pos + 1;
    if (p >= end) return 0;
    int64_t b = p / at.block, place = at.table ? at.table[seq * at.B + b] : 0;
    if (place < 0 || place >= at.B) return 0;
    if (end > (b + 1) * at.block) end = (b + 1) * at.block;
    const int64_t bytes = (int64_t)cache_bytes(dtype, heads * s->D), most = bytes < PIECE ? PIECE / bytes : 1;
    if (end > p + most) end = p + most;
    to->at =
        (const uint8_t *)call->in[k].data + (size_t)(place * at.block + p - b * at.block) * width + cache_bytes(dtype, g * s->D);
    to->bytes = (size_t)bytes;
    to->step = width;
    to->more = end - p - 1;
    return end;
}

/* What items of few rows read: of each row of the items with one chunk tile by tile keys, then values. *turn counts these, and
 * in each the positions of a tile. */
static bool attention_late(const zt_cpu_call *call, int64_t begin, int64_t end, int64_t *turn, zt_cpu_prefetch *a)
{
    const sizes s = sizes_of(call);
    const int64_t rows = call->aux[AUX_ROWS], tiles = CHUNK / TILE;
    for (; s.n <= FEW; *turn = (*turn / TILE + 1) * TILE) {
        const int64_t of = *turn / TILE / 2, at = begin + of / (tiles * rows);
        if (at >= end) return false;
        if (at > begin && at % call->aux[AUX_SPLITS]) continue; /* its key heads came with those of the item before */
        const chunk_item item = items_at(call, &s, at, end);
        const int64_t row = item.block * rows + of / tiles % rows, tile = item.chunk * CHUNK + of % tiles * TILE;
        if (row >= s.n) continue;
        const int64_t next =
            lie_together(call, &s, 1 + (int)(*turn / TILE % 2), row, item.g, item.heads, tile + *turn % TILE, tile + TILE, a);
        if (!next) continue;
        *turn = *turn / TILE * TILE + next - tile;
        return true;
    }
    return false;
}

static bool attention_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_is_cache_type(in[1]->dtype) && zt_is_cache_type(in[2]->dtype);
}

static void setup_at(zt_cpu_call *call, int pos)
{
    sizes s = sizes_of(call);
    call->aux[AUX_POS] = pos;
    int64_t rows = s.share ? QUERIES / s.share : 1, chunks = (s.ctx + CHUNK - 1) / CHUNK;
    int64_t most = s.n > BLOCKS ? BLOCK : BLOCK / 4;
    rows = rows < 1 ? 1 : rows > most ? most : rows;
    if (rows > s.n && s.n) rows = s.n;
    int64_t M = rows * s.share, blocks = (s.n + rows - 1) / rows;
    call->aux[AUX_ROWS] = rows;
    call->aux[AUX_BLOCKS] = blocks;
    call->items[0] = blocks * s.G;
    const int64_t sums = queries_of(call, &s);
    call->local_bytes = ((size_t)(TILE * (2 * s.Dp + sums)) + 2 * part_floats(sums, s.Dp)) * sizeof(float);
    call->aux[AUX_CHUNKS] = call->aux[AUX_STEP] = 1;
    call->aux[AUX_SPLITS] = s.G;
    if (s.n > FEW || chunks < 2) return;
    const int64_t units = chunks * blocks, splits = (ITEMS + units - 1) / units;
    if (splits < s.G) call->aux[AUX_SPLITS] = splits;
    call->aux[AUX_CHUNKS] = chunks;
    call->n_phases = 2;
    call->items[0] = units * call->aux[AUX_SPLITS];
    call->aux[AUX_STEP] = step_of(units);
    call->items[1] = blocks * s.G;
    call->shared_bytes = (size_t)(units * s.G) * part_floats(M, s.Dp) * sizeof(float);
}

static void attention_setup(zt_cpu_call *call) { setup_at(call, SINKS); }

static void attention_sinks_setup(zt_cpu_call *call) { setup_at(call, SINKS + 1); }

static void attention_alibi_setup(zt_cpu_call *call)
{
    setup_at(call, SINKS);
    call->aux[AUX_ALIBI] = 1;
}

static void attention_chunked_setup(zt_cpu_call *call)
{
    setup_at(call, SINKS);
    call->aux[AUX_CHUNKED] = 1;
}

static void attention_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    if (call->n_phases == 1)
        run_blocks(call, begin, end, local);
    else if (phase == 0)
        run_chunks(call, begin, end, local);
    else
        run_combine(call, begin, end, local);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_attention)[] = {
    {.op = ZT_OP_attention,
     .has = attention_has,
     .setup = attention_setup,
     .run = attention_run,
     .prefetch_states = attention_late,
     .uneven = true},
    {.op = ZT_OP_attention_sinks,
     .has = attention_has,
     .setup = attention_sinks_setup,
     .run = attention_run,
     .prefetch_states = attention_late,
     .uneven = true},
    {.op = ZT_OP_attention_alibi,
     .has = attention_has,
     .setup = attention_alibi_setup,
     .run = attention_run,
     .prefetch_states = attention_late,
     .uneven = true},
    {.op = ZT_OP_attention_chunked,
     .has = attention_has,
     .setup = attention_chunked_setup,
     .run = attention_run,
     .prefetch_states = attention_late,
     .uneven = true},
    {0},
};
