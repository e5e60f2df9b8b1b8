/* conv_filter.c - kernel of conv_backward_filter: the product of dy's rows, a row an output
 * channel, with panels that hold a pixel a row and (tap, channel) a column: conv.h's turned over.
 *
 * The pixels of all images come in units of at most DEPTH of one image, and the units in chunks, by
 * shapes alone. In phase 0 an item sums up one chunk for some groups, output channels and columns;
 * phase 1 adds the chunks up, in order, and puts them where dw has them.
 *
 * Where panels are of whole columns of one tap, a unit's part of the input is laid flat instead (conv.h),
 * with all channels of a position side by side: rows of panels lie in it, for every tap.
 */
#include "lib/engine/cpu/isa/conv.h"

enum {
    CHANNELS = 128,     /* output channels of an item */
    TILES = 24,         /* panels of columns of an item */
    DEPTH = GEMM_DEPTH, /* pixels of a unit */
    GROUPS = 16,        /* of an item */
    WANTED = 16,        /* items, if there are chunks enough */
    PANELS = DEPTH / GEMM_WIDE
};

typedef struct filter {
    zt_window w;
    conv_view v;
    int64_t N, groups, rows, channels, K; /* of a group; K columns */
    int64_t tiles, row_blocks, tile_blocks, group_blocks;
    int64_t depth, each, units, chunks; /* pixels a unit, units an image, of all images */
    conv_flat flat;
    int64_t band, stride; /* positions of a unit, floats of a position; 0: panels are packed */
} filter;

typedef struct scratch {
    float a[CHANNELS * GEMM_STRIDE], panel[DEPTH * GEMM_WIDE], rows[GEMM_WIDE * GEMM_WIDE];
    conv_place at[PANELS];
    int32_t place[DEPTH]; /* where the pixels' rows begin in the band, for its first position */
    int64_t from, to;     /* positions of the first pixel and the last */
    _Alignas(64) float band[];
} scratch;

static int64_t cuts(int64_t n, int64_t size) { return (n + size - 1) / size; }

static size_t chunk_floats(const filter *f) { return (size_t)(f->groups * f->tiles * f->rows) * GEMM_WIDE; }

/* A unit's part of a flat input, where that is worth it: an element that is turned costs as much as some
 * that are packed. Its pixels are taken for as far apart as if they ended a line in every dimension. */
static void lay_flat(filter *f)
{
    const conv_view *v = &f->v;
    if (f->channels % GEMM_WIDE || f->depth == 0 || v->n_taps < 2 || !conv_flat_of(v, &f->flat)) return;
    int64_t band = 1 + f->flat.high - f->flat.low, stride = f->channels + LANES, lines = f->depth - 1;
    for (int d = v->n - 1; d >= 0; d--) {
        int64_t most = lines < v->grid[d] - 1 ? lines : v->grid[d] - 1;
        band += most * v->step[d] * f->flat.unit[d];
        lines = lines / v->grid[d] + 1;
    }
    if (band + LANES > CONV_BAND / stride || 3 * band > v->n_taps * f->depth) return;
    f->band = band;
    f->stride = stride;
}

static filter filter_of(const zt_cpu_call *call)
{
    const zt_conv_backward_filter_attrs *conv_backward_filter = call->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(conv_backward_filter);
    const zt_type *x = &call->in[0].type, *dy = &call->in[1].type;
    filter f = {.w = zt_window_of(&l, x, dy, call->out[0].type.dim + 2)};
    f.v = conv_view_forward(&f.w);
    f.N = x->dim[0];
    f.groups = conv_backward_filter->groups;
    f.rows = dy->dim[1] / f.groups;
    f.channels = x->dim[1] / f.groups;
    f.K = f.w.taps * f.channels;
    f.tiles = cuts(f.K, GEMM_WIDE);
    f.row_blocks = cuts(f.rows, CHANNELS);
    f.tile_blocks = cuts(f.tiles, TILES);
    f.group_blocks = cuts(f.groups, GROUPS);
    f.each = cuts(f.w.n_out, DEPTH);
    f.depth = f.each ? cuts(f.w.n_out, f.each) : 0;
    f.units = f.N * f.each;
    lay_flat(&f);
    int64_t items = f.group_blocks * f.row_blocks * f.tile_blocks;
    int64_t fit = (int64_t)((64 << 20) / (chunk_floats(&f) * sizeof(float) + 1));
    f.chunks = items ? cuts(WANTED, items) : 0;
    if (f.chunks > fit) f.chunks = fit > 1 ? fit : 1;
    if (f.chunks > f.units) f.chunks = f.units;
    return f;
}

static bool filter_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

static void filter_setup(zt_cpu_call *call)
{
    filter f = filter_of(call);
    call->n_phases = 2;
    call->items[0] = f.chunks * f.group_blocks * f.row_blocks * f.tile_blocks;
    call->items[1] = f.groups * f.rows;
    call->shared_bytes = (size_t)f.chunks * chunk_floats(&f) * sizeof(float);
    call->local_bytes = sizeof(scratch);
    if (f.band) call->local_bytes += (size_t)((f.band + LANES) * f.stride) * sizeof(float);
}

/* ---- a chunk --------------------------------------------------------------------------------- */

/* Columns `tile` of the panel: depth pixels, of which panels s->at[] know where they are. */
static void fill_panel(const filter *f, const float *x, int64_t tile, int64_t depth, scratch *s)
{
    int64_t k = tile * GEMM_WIDE, wide = f->K - k < GEMM_WIDE ? f->K - k : GEMM_WIDE;
    if (wide < GEMM_WIDE) memset(s->rows, 0, sizeof s->rows);
    for (int64_t i = 0; i * GEMM_WIDE < depth; i++) {
        conv_pack(&f->v, &s->at[i], x, f->channels, k, wide, s->rows);
        for (int p = 0; p < GEMM_WIDE; p += LANES)
            for (int q = 0; q < wide; q += LANES) { /* columns past K are not read */
                vf r[LANES];
                UNROLL_FOR (int j = 0; j < LANES; j++) r[j] = vf_load(s->rows + (q + j) * GEMM_WIDE + p);
                vf_transpose(r);
                UNROLL_FOR (int j = 0; j < LANES; j++) vf_store(s->panel + (i * GEMM_WIDE + p + j) * GEMM_WIDE + q, r[j]);
            }
    }
}

/* Up to LANES positions of all channels, `n` of which are of the input and zeros else. */
static void turn(const filter *f, const float *x, int n, float *to)
{
    for (int64_t c = 0; c < f->channels; c += LANES) {
        vf r[LANES];
        UNROLL_FOR (int j = 0; j < LANES; j++) r[j] = vf_load_n(x + (c + j) * f->v.n_in, n);
        vf_transpose(r);
        UNROLL_FOR (int j = 0; j < LANES; j++) vf_store(to + j * f->stride + c, r[j]);
    }
}

/* Positions first..end-1; those after them are not kept. */
static void fill_band(const filter *f, const float *x, int64_t first, int64_t end, float *band)
{
    conv_piece piece[CONV_LINES + 1];
    for (int64_t at = first; at < end;) {
        int lines = conv_lines(&f->v, &f->flat, first, &at, end, piece);
        for (const conv_piece *l = piece; l < piece + lines; l++)
            for (int i = 0; i < l[1].slot - l->slot; i += LANES) {
                int n = l->len - i;
                turn(f, x + l->from + i, n < 0 ? 0 : n, band + (l->slot + i) * f->stride);
            }
    }
}

/* Where pixels pixel..pixel+depth-1 are in a band that begins at the first one. */
static void place_pixels(const filter *f, int64_t pixel, int64_t depth, scratch *s)
{
    const conv_view *v = &f->v;
    int64_t at[ZT_WINDOW_RANK], first = 0;
    for (int d = v->n - 1; d >= 0; d--) {
        at[d] = pixel % v->grid[d];
        pixel /= v->grid[d];
        first += at[d] * v->step[d] * f->flat.unit[d];
    }
    s->from = s->to = first;
    for (int64_t i = 0, q = first; i < depth; i++) {
        s->place[i] = (int32_t)((q - first) * f->stride);
        s->to = q;
        for (int d = v->n - 1; d >= 0; d--) {
            q += v->step[d] * f->flat.unit[d];
            if (++at[d] < v->grid[d]) break;
            q -= v->grid[d] * v->step[d] * f->flat.unit[d];
            at[d] = 0;
        }
    }
}

/* Where the first of the unit's pixels has the first of a tile's columns in the band. */
static const float *columns(const filter *f, int64_t tile, const scratch *s)
{
    int64_t tap = tile * GEMM_WIDE / f->channels, channel = tile * GEMM_WIDE % f->channels;
    return s->band + (conv_flat_shift(&f->v, &f->flat, tap) - f->flat.low) * f->stride + channel;
}

/* Unit u for rows row.. of a group and tiles first..end-1, into the chunk's sums; s->at[] are its
 * panels, or s->place[] its pixels. */
static void add_unit(const zt_cpu_call *call, const filter *f, int64_t u, int64_t group, int64_t row, int64_t first, int64_t end,
                     bool more, float *sums, scratch *s)
{
    int64_t image = u / f->each, pixel = u % f->each * f->depth;
    int64_t depth = f->w.n_out - pixel < f->depth ? f->w.n_out - pixel : f->depth;
    int64_t rows = f->rows - row < CHANNELS ? f->rows - row : CHANNELS;
    const float *x = (const float *)call->in[0].data + (image * f->groups + group) * f->channels * f->w.n_in;
    const float *dy = (const float *)call->in[1].data + ((image * f->groups + group) * f->rows + row) * f->w.n_out + pixel;
    for (int64_t m = 0; m < rows; m++) memcpy(s->a + m * GEMM_STRIDE, dy + m * f->w.n_out, (size_t)depth * sizeof *dy);
    if (f->band) fill_band(f, x, s->from + f->flat.low, s->to + f->flat.high + 1, s->band);
    for (int64_t tile = first; tile < end; tile++) {
        gemm_block g = {.a = s->a,
                        .b = s->panel,
                        .b_down = GEMM_WIDE,
                        .depth = (int)depth,
                        .columns = GEMM_WIDE,
                        .more = more,
                        .y = sums + ((group * f->tiles + tile) * f->rows + row) * GEMM_WIDE,
                        .down = GEMM_WIDE};
        if (f->band) {
            g.b = columns(f, tile, s);
            g.at = s->place;
            gemm_down(GEMM_LISTED, &g, (int)rows);
        } else {
            fill_panel(f, x, tile, depth, s);
            gemm_down(GEMM_FLOATS, &g, (int)rows);
        }
    }
}

static void run_chunk(const zt_cpu_call *call, const filter *f, int64_t item, scratch *s)
{
    int64_t block = item % f->tile_blocks, rest = item / f->tile_blocks;
    int64_t row = rest % f->row_blocks * CHANNELS, group = rest / f->row_blocks % f->group_blocks;
    int64_t chunk = rest / f->row_blocks / f->group_blocks, last_group = (group + 1) * GROUPS;
    int64_t begin = chunk * f->units / f->chunks, end = (chunk + 1) * f->units / f->chunks;
    int64_t first = block * TILES, last = first + TILES < f->tiles ? first + TILES : f->tiles;
    float *sums = (float *)call->shared + (size_t)chunk * chunk_floats(f);
    if (last_group > f->groups) last_group = f->groups;
    for (int64_t u = begin; u < end; u++) {
        int64_t pixel = u % f->each * f->depth, stop = pixel + f->depth;
        if (stop > f->w.n_out) stop = f->w.n_out;
        if (f->band) place_pixels(f, pixel, stop - pixel, s);
        for (int64_t p = pixel; p < stop && !f->band; p += GEMM_WIDE) conv_place_at(&f->v, p, &s->at[(p - pixel) / GEMM_WIDE]);
        for (int64_t g = group * GROUPS; g < last_group; g++) add_unit(call, f, u, g, row, first, last, u > begin, sums, s);
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Row m of dw. */
static void add_chunks(const zt_cpu_call *call, const filter *f, int64_t m)
{
    int64_t group = m / f->rows, row = m % f->rows, tap = 0, channel = 0;
    float *dw = (float *)call->out[0].data + m * f->K, sum[GEMM_WIDE];
    for (int64_t tile = 0; tile < f->tiles; tile++) {
        const float *first = (const float *)call->shared + ((group * f->tiles + tile) * f->rows + row) * GEMM_WIDE;
        memset(sum, 0, sizeof sum);
        for (int64_t i = 0; i < f->chunks; i++) {
            const float *from = first + (size_t)i * chunk_floats(f);
            for (int k = 0; k < GEMM_WIDE; k += LANES) vf_store(sum + k, vf_add(vf_load(sum + k), vf_load(from + k)));
        }
        for (int k = 0; k < GEMM_WIDE && tap < f->w.taps; k++) {
            dw[channel * f->w.taps + tap] = sum[k];
            if (++channel == f->channels) channel = 0, tap++;
        }
    }
}

static void filter_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const filter f = filter_of(call);
    for (int64_t i = begin; i < end; i++) {
        if (phase == 0)
            run_chunk(call, &f, i, local);
        else
            add_chunks(call, &f, i);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_conv_filter)[] = {
    {.op = ZT_OP_conv_backward_filter, .has = filter_has, .setup = filter_setup, .run = filter_run},
    {0},
};
