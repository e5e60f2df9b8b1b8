/* conv.c - kernels of conv and conv_transpose: products of the filters with panels of pixels that
 * are put together as they are needed (conv.h). conv_filter.c: conv_backward_filter.
 *
 * Phase 0 lays the filters out as the register tile reads them (gemm.h): for every view, group and
 * block of (tap, channel), rows of output channels. In phase 1 an item is a few panels of pixels of
 * one view, of one or more images, a few groups, and at most CHANNELS output channels. Sums are cut
 * by shapes alone.
 *
 * A panel copies every element of the input as often as there are taps. Where all steps are 1, an
 * item's part of the input is laid flat instead (conv.h), once: a band of positions of each channel.
 * Its panels are positions, and rows of the right operand lie in the band. The sums are the same.
 */
#include "lib/engine/cpu/isa/conv.h"

enum {
    CHANNELS = 128,
    PANELS = 4,
    GROUPS = 16, /* of an item, at most */
    WANTED = 16, /* items, before one gets more panels */
    FLAT = 32,   /* panels of a band, at most */
    COPY = 8,    /* a row copied costs as much as so many multiplied */
    DEPTH = 256, /* rows of the right operand at a time */
    STRIP = 16,  /* rows of filters packed together */
    MOST_VIEWS = 1024
};

/* One view's share of the work. */
typedef struct part {
    conv_view v;
    int64_t K, blocks, depth; /* rows of the right operand, in blocks of depth */
    int64_t weights;          /* floats into the packed filters: [groups][blocks][rows][stride] */
    int64_t panels, at_once;  /* of an image; of an item */
    int64_t panel_blocks;     /* items for all images */
    conv_flat flat;
    int64_t plane;      /* floats of a channel's part of a band; 0: no band, packed */
    int64_t table;      /* its rows' places are from here on in places_of() */
    int64_t first_item; /* of phase 1 */
} part;

typedef struct plan {
    int64_t N, groups, rows, channels; /* output and input channels of a group */
    int64_t row_step, channel_step;    /* in w, from row to row and channel to channel */
    int64_t row_blocks, group_blocks, n_out, n_in, n_parts;
    size_t weights;
    int64_t items, band, table; /* floats of a band, numbers in the table, of all parts */
} plan;

typedef struct scratch {
    float b[DEPTH * GEMM_WIDE], tile[PANELS][CHANNELS * GEMM_WIDE];
    conv_place place[PANELS];
    _Alignas(64) float band[];
} scratch;

static plan *plan_of(const zt_cpu_call *call) { return call->keep; }
static part *parts_of(const zt_cpu_call *call) { return (part *)(plan_of(call) + 1); }
static int32_t *places_of(const zt_cpu_call *call) { return (int32_t *)(parts_of(call) + plan_of(call)->n_parts); }

static zt_window window_of(const zt_cpu_call *call)
{
    const int64_t *kernel = call->in[1].type.dim + 2;
    if (call->kernel->op == ZT_OP_conv) {
        const zt_window_lists l = ZT_WINDOW_LISTS((const zt_conv_attrs *)call->attrs);
        return zt_window_of(&l, &call->in[0].type, &call->out[0].type, kernel);
    }
    const zt_window_lists l = ZT_WINDOW_LISTS((const zt_conv_transpose_attrs *)call->attrs);
    return zt_window_of(&l, &call->out[0].type, &call->in[0].type, kernel);
}

static int64_t groups_of(const zt_cpu_call *call)
{
    if (call->kernel->op == ZT_OP_conv) return ((const zt_conv_attrs *)call->attrs)->groups;
    return ((const zt_conv_transpose_attrs *)call->attrs)->groups;
}

/* The plan without its parts; and part i, which comes after those counted in the plan so far. */
static plan start(const zt_cpu_call *call, const zt_window *window)
{
    bool forward = call->kernel->op == ZT_OP_conv;
    const zt_type *x = &call->in[0].type, *y = &call->out[0].type;
    plan p = {.N = x->dim[0], .groups = groups_of(call)};
    p.rows = y->dim[1] / p.groups;
    p.channels = x->dim[1] / p.groups;
    p.row_step = forward ? p.channels * window->taps : window->taps;
    p.channel_step = forward ? window->taps : p.rows * window->taps;
    p.row_blocks = (p.rows + CHANNELS - 1) / CHANNELS;
    p.group_blocks = (p.groups + GROUPS - 1) / GROUPS;
    p.n_out = forward ? window->n_out : window->n_in;
    p.n_in = forward ? window->n_in : window->n_out;
    p.n_parts = forward ? 1 : conv_views(window);
    return p;
}

/* Panels of a flat input, in bands, where that is worth it. */
static bool lay_flat(const plan *p, part *q)
{
    const conv_view *v = &q->v;
    conv_flat *f = &q->flat;
    for (int d = 0; d < v->n; d++)
        if (v->step[d] != 1) return false;
    if (p->channels < 2 || v->n_taps < 2 || !conv_flat_of(v, f)) return false;
    int64_t rows = p->rows < CHANNELS ? p->rows : CHANNELS, reach = f->high - f->low;
    int64_t panels = (f->n + GEMM_WIDE - 1) / GEMM_WIDE, items = p->N * p->group_blocks * p->row_blocks;
    int64_t most = (CONV_BAND / p->channels - reach - 3 * LANES) / GEMM_WIDE;
    int64_t flat = panels * rows * (q->K + COPY), packed = q->panels * (rows + COPY) * q->K;
    if (flat > packed || most < 1) return false;
    if (most > FLAT) most = FLAT;
    int64_t bands = (panels + most - 1) / most, least = items ? (WANTED + items - 1) / items : 1;
    if (bands < least) bands = least;
    q->at_once = (panels + bands - 1) / bands;
    int64_t band = q->at_once * GEMM_WIDE + reach; /* positions */
    if (2 * band > v->n_taps * q->at_once * GEMM_WIDE) return false;
    q->panels = panels;
    q->panel_blocks = p->N * ((panels + q->at_once - 1) / q->at_once);
    q->plane = ((band + 2 * LANES) / LANES | 1) * LANES; /* channels lie in different sets of a cache */
    return true;
}

static void add_part(const zt_cpu_call *call, const zt_window *window, int64_t i, plan *p, part *q)
{
    *q = (part){.v = call->kernel->op == ZT_OP_conv ? conv_view_forward(window) : conv_view_data(window, i)};
    q->K = q->v.n_taps * p->channels;
    q->blocks = (q->K + DEPTH - 1) / DEPTH;
    q->depth = q->blocks ? (q->K + q->blocks - 1) / q->blocks : 0;
    q->weights = (int64_t)p->weights;
    q->panels = (q->v.n_pixels + GEMM_WIDE - 1) / GEMM_WIDE;
    int64_t blocks = p->group_blocks * p->row_blocks, spare = p->N * q->panels * blocks / WANTED;
    q->first_item = p->items;
    q->table = p->table;
    if (lay_flat(p, q)) {
        p->table += q->K;
        if (p->band < p->channels * q->plane) p->band = p->channels * q->plane;
    } else {
        q->at_once = spare < 1 ? 1 : spare < PANELS ? spare : PANELS;
        q->panel_blocks = (p->N * q->panels + q->at_once - 1) / q->at_once;
    }
    p->weights += (size_t)(p->groups * q->blocks * p->rows) * GEMM_STRIDE;
    p->items += blocks * q->panel_blocks;
}

static bool conv_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

/* A stride far beyond the taps has more views than are worth a table. */
static bool transpose_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_window_lists l = ZT_WINDOW_LISTS((const zt_conv_transpose_attrs *)attrs);
    if (out[0].dtype != ZT_F32) return false;
    zt_window window = zt_window_of(&l, &out[0], in[0], in[1]->dim + 2);
    return conv_views(&window) <= MOST_VIEWS;
}

static void conv_setup(zt_cpu_call *call)
{
    zt_window window = window_of(call);
    plan p = start(call, &window);
    part q;
    if (zt_type_count(&call->out[0].type) == 0) p.n_parts = 0;
    for (int64_t i = 0; i < p.n_parts; i++) add_part(call, &window, i, &p, &q);
    call->n_phases = 2;
    call->items[0] = p.n_parts * p.groups * ((p.rows + STRIP - 1) / STRIP);
    call->items[1] = p.items;
    call->keep_bytes = sizeof(plan) + (size_t)p.n_parts * sizeof(part) + (size_t)p.table * sizeof(int32_t);
    call->shared_bytes = p.weights * sizeof(float);
    call->local_bytes = sizeof(scratch) + (size_t)p.band * sizeof(float);
}

/* Where the right operand's rows begin in a band, for its first position. */
static void list_places(const plan *p, const part *q, int32_t *at)
{
    for (int64_t tap = 0; tap < q->v.n_taps; tap++) {
        int64_t from = conv_flat_shift(&q->v, &q->flat, tap) - q->flat.low;
        for (int64_t i = 0; i < p->channels; i++) *at++ = (int32_t)(i * q->plane + from);
    }
}

static void conv_prime(zt_cpu_call *call)
{
    zt_window window = window_of(call);
    plan *p = plan_of(call);
    *p = start(call, &window);
    if (zt_type_count(&call->out[0].type) == 0) p->n_parts = 0;
    for (int64_t i = 0; i < p->n_parts; i++) {
        part *q = &parts_of(call)[i];
        add_part(call, &window, i, p, q);
        if (q->plane) list_places(p, q, places_of(call) + q->table);
    }
}

/* ---- filters --------------------------------------------------------------------------------- */

/* n rows of filters of one view, in all its blocks. */
static void pack_rows(const zt_cpu_call *call, const part *q, int64_t group, int64_t row, int64_t n)
{
    const plan *p = plan_of(call);
    const zt_type *type = &call->in[1].type;
    int64_t taps = 1, left = q->depth, shift[ZT_WINDOW_RANK];
    for (int d = 2; d < type->rank; d++) taps *= type->dim[d];
    const float *w = (const float *)call->in[1].data + group * p->rows * p->channels * taps + row * p->row_step;
    float *to = (float *)call->shared + q->weights + (group * q->blocks * p->rows + row) * GEMM_STRIDE;
    for (int64_t tap = 0; tap < q->v.n_taps; tap++) {
        const float *from = w + conv_tap(&q->v, tap, shift);
        for (int64_t i = 0; i < p->channels; i++, left--, to++, from += p->channel_step) {
            if (left == 0) { /* the rows go on in the next block */
                to += p->rows * GEMM_STRIDE - q->depth;
                left = q->depth;
            }
            for (int64_t r = 0; r < n; r++) to[r * GEMM_STRIDE] = from[r * p->row_step];
        }
    }
}

/* A strip of rows: side by side where they lie so in w, else one after the other. */
static void pack_strip(const zt_cpu_call *call, const part *q, int64_t group, int64_t row)
{
    const plan *p = plan_of(call);
    int64_t n = p->rows - row < STRIP ? p->rows - row : STRIP;
    if (p->row_step < p->channel_step) {
        pack_rows(call, q, group, row, n);
        return;
    }
    for (int64_t r = 0; r < n; r++) pack_rows(call, q, group, row + r, 1);
}

/* ---- pixels ---------------------------------------------------------------------------------- */

/* Where the run's first pixel is in a plane of y. */
static int64_t first_of(const conv_view *v, const conv_run *r, const int64_t *out)
{
    int64_t at = 0;
    for (int d = 0; d < v->n; d++) at = at * out[d] + v->first[d] + r->at[d] * v->spread[d];
    return at;
}

/* n <= LANES neighbours of every row. */
INLINE void put_rows(const float *from, int n, int64_t rows, float *to, int64_t down)
{
    for (int64_t m = 0; m < rows; m++, from += GEMM_WIDE, to += down) vf_store_n(to, n, vf_load_n(from, n));
}

/* The panel's rows of results from a tile to where the view spreads them. */
static void spread(const conv_view *v, const conv_panel *panel, const int64_t *out, int64_t n_out, const float *tile,
                   int64_t rows, float *y)
{
    const int64_t step = v->spread[v->n - 1];
    for (int k = 0; k < panel->n_runs; k++) {
        const conv_run *r = &panel->run[k];
        const float *from = tile + r->slot;
        float *to = y + first_of(v, r, out);
        for (int i = 0; step == 1 && i < r->len; i += LANES) {
            int n = r->len - i < LANES ? r->len - i : LANES;
            put_rows(from + i, n, rows, to + i, n_out);
        }
        for (int64_t m = 0; step != 1 && m < rows; m++)
            for (int i = 0; i < r->len; i++) to[m * n_out + i * step] = from[m * GEMM_WIDE + i];
    }
}

static void add_bias(const float *b, float *y, int64_t down, int64_t rows, int columns)
{
    for (int64_t m = 0; m < rows; m++)
        for (int i = 0; i < columns; i += LANES) {
            float *at = y + m * down + i;
            vf_store_n(at, columns - i, vf_add(vf_load_n(at, columns - i), vf_set(b[m])));
        }
}

/* What an item is about. */
typedef struct item {
    const part *q;
    int64_t group, row, rows;             /* the group at hand; the first row */
    int64_t image[PANELS], pixel[PANELS]; /* of n panels, the first pixel (position) of each */
    int n;
    int64_t from;      /* of a band: its first position */
    const float *soon; /* what of x the next one is made of; NULL: there is none */
} item;

/* The first row's plane of y, for panel i. */
static float *plane(const zt_cpu_call *call, const item *t, int i)
{
    const plan *p = plan_of(call);
    return (float *)call->out[0].data + ((t->image[i] * p->groups + t->group) * p->rows + t->row) * p->n_out;
}

/* Are the panels' pixels neighbours in y? Packed ones are, of the only grid. */
static bool in_place(const zt_cpu_call *call, const item *t) { return plan_of(call)->n_parts == 1 && !t->q->plane; }

/* Where panel i's results go, and from row to row of them. */
INLINE float *results(const zt_cpu_call *call, const item *t, int i, scratch *s, int64_t *down)
{
    *down = in_place(call, t) ? plan_of(call)->n_out : GEMM_WIDE;
    return in_place(call, t) ? plane(call, t, i) + t->pixel[i] : s->tile[i];
}

static const float *channels(const zt_cpu_call *call, const item *t, int i)
{
    const plan *p = plan_of(call);
    return (const float *)call->in[0].data + (t->image[i] * p->groups + t->group) * p->channels * p->n_in;
}

/* Block k of panel i's sums; b is to be said. */
INLINE gemm_block sums_of(const zt_cpu_call *call, const item *t, int i, int64_t block, scratch *s)
{
    const plan *p = plan_of(call);
    const part *q = t->q;
    int64_t k = block * q->depth, depth = q->K - k < q->depth ? q->K - k : q->depth;
    gemm_block g = {.a = (const float *)call->shared + q->weights +
                         ((t->group * q->blocks + block) * p->rows + t->row) * GEMM_STRIDE,
                    .b_down = GEMM_WIDE,
                    .depth = (int)depth,
                    .columns = s->place[i].panel.columns,
                    .more = block > 0};
    g.y = results(call, t, i, s, &g.down);
    return g;
}

/* From rows of the right operand in b. */
static void add_packed(const zt_cpu_call *call, const item *t, int i, int64_t block, const float *b, scratch *s)
{
    gemm_block g = sums_of(call, t, i, block, s);
    g.b = b;
    gemm_down(GEMM_FLOATS, &g, (int)t->rows);
}

/* What is fetched during a block of panel i of a band, in rows *down apart: y, before it is written;
 * else as many channels of the next band as there are rows. */
static const float *coming(const zt_cpu_call *call, const item *t, int i, int64_t block, const scratch *s, int64_t *down)
{
    const plan *p = plan_of(call);
    const conv_panel *panel = &s->place[i].panel;
    const int64_t channel = block * t->rows;
    if (block + 1 < t->q->blocks) {
        *down = p->n_in;
        return t->soon && channel < p->channels ? t->soon + channel * p->n_in + t->pixel[i] - t->from : NULL;
    }
    *down = p->n_out;
    if (!panel->n_runs) return NULL;
    return plane(call, t, i) + first_of(&t->q->v, &panel->run[0], call->out[0].type.dim + 2);
}

/* From rows of the right operand in the band. */
static void add_flat(const zt_cpu_call *call, const item *t, int i, int64_t block, scratch *s)
{
    const part *q = t->q;
    gemm_block g = sums_of(call, t, i, block, s);
    g.b = s->band + t->pixel[i] - t->from;
    g.at = places_of(call) + q->table + block * q->depth;
    g.soon = coming(call, t, i, block, s, &g.soon_down);
    gemm_down(GEMM_LISTED, &g, (int)t->rows);
}

/* Panel i's sums, with their bias, in their places. */
static void finish(const zt_cpu_call *call, const item *t, int i, scratch *s)
{
    const plan *p = plan_of(call);
    const conv_panel *panel = &s->place[i].panel;
    int64_t down;
    float *y = results(call, t, i, s, &down);
    for (int64_t m = 0; m < t->rows && !t->q->blocks; m++) memset(y + m * down, 0, (size_t)panel->columns * sizeof *y);
    if (call->in[2].data)
        add_bias((const float *)call->in[2].data + t->group * p->rows + t->row, y, down, t->rows, panel->columns);
    if (!in_place(call, t)) spread(&t->q->v, panel, call->out[0].type.dim + 2, p->n_out, y, t->rows, plane(call, t, i));
}

/* Groups from t->group to end: a block of filters for all panels, one after the other. */
static void run_groups(const zt_cpu_call *call, item *t, int64_t end, scratch *s)
{
    const part *q = t->q;
    for (; t->group < end; t->group++) {
        for (int64_t k = 0; k < q->blocks; k++)
            for (int i = 0; i < t->n; i++) {
                int64_t at = k * q->depth, depth = q->K - at < q->depth ? q->K - at : q->depth;
                conv_pack(&q->v, &s->place[i], channels(call, t, i), plan_of(call)->channels, at, depth, s->b);
                add_packed(call, t, i, k, s->b, s);
            }
        for (int i = 0; i < t->n; i++) finish(call, t, i, s);
    }
}

/* Where in a channel a position is, or one near it. */
static int64_t around(const part *q, int64_t position)
{
    const conv_view *v = &q->v;
    int64_t at[ZT_WINDOW_RANK], i = 0;
    int len;
    conv_flat_line(v, &q->flat, v->in, position, position + 1, at, &len);
    for (int d = 0; d < v->n; d++) i = i * v->in[d] + (at[d] < v->in[d] ? at[d] : v->in[d] - 1);
    return i;
}

/* n numbers and zeros behind them, up to `room`; what comes after is not kept. */
INLINE void lay_line(const float *x, int n, float *to, int room)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(to + i, vf_load(x + i));
    for (; i < room; i += LANES) vf_store(to + i, vf_load_n(x + i, n - i));
}

/* Positions from..from+n-1 of the group's channels, and what taps reach around them. */
static void fill_band(const zt_cpu_call *call, const item *t, int64_t from, int64_t n, float *band)
{
    const part *q = t->q;
    const conv_flat *f = &q->flat;
    const int64_t first = from + f->low, end = from + n + f->high;
    conv_piece piece[CONV_LINES + 1];
    for (int64_t at = first; at < end;) {
        int lines = conv_lines(&q->v, f, first, &at, end, piece);
        const float *x = channels(call, t, 0);
        float *to = band;
        for (int64_t k = 0; k < plan_of(call)->channels; k++, x += q->v.n_in, to += q->plane)
            for (const conv_piece *l = piece; l < piece + lines; l++)
                lay_line(x + l->from, l->len, to + l->slot, l[1].slot - l->slot);
    }
}

/* The panels of one band, a few at a time as above. */
static void run_band(const zt_cpu_call *call, item *t, int64_t panel, int64_t n, scratch *s)
{
    const part *q = t->q;
    t->from = panel * GEMM_WIDE;
    fill_band(call, t, t->from, n * GEMM_WIDE, s->band);
    for (; n > 0; panel += t->n, n -= t->n) {
        t->n = n < PANELS ? (int)n : PANELS;
        for (int i = 0; i < t->n; i++) {
            t->image[i] = t->image[0];
            t->pixel[i] = (panel + i) * GEMM_WIDE;
            conv_panel_flat(&q->v, &q->flat, t->pixel[i], &s->place[i].panel);
        }
        for (int64_t k = 0; k < q->blocks; k++)
            for (int i = 0; i < t->n; i++) {
                add_flat(call, t, i, k, s);
                if (k + 1 == q->blocks) finish(call, t, i, s);
            }
    }
}

/* Groups from t->group to end, of the part's `at`-th band. */
static void run_flat(const zt_cpu_call *call, item *t, int64_t end, int64_t at, scratch *s)
{
    const part *q = t->q;
    const int64_t bands = (q->panels + q->at_once - 1) / q->at_once, panel = at % bands * q->at_once;
    const int64_t left = q->panels - panel, panels = left < q->at_once ? left : q->at_once;
    const int64_t first = t->group, next = at + 1;
    t->image[0] = at / bands;
    for (; t->group < end; t->group++) {
        bool last = t->group + 1 == end;
        int64_t then = last ? next : at; /* the band that comes next */
        item its = {.group = last ? first : t->group + 1, .image = {then / bands}};
        int64_t from = then % bands * q->at_once * GEMM_WIDE;
        t->soon = then == q->panel_blocks ? NULL : channels(call, &its, 0) + around(q, from + q->flat.high);
        run_band(call, t, panel, panels, s);
    }
}

/* All rows of `groups` groups of one channel each, one group's after the other's. */
static void conv_pack_groups(const conv_view *v, const conv_place *p, const float *x, int64_t groups, float *to)
{
    for (int tap = 0; tap < p->n_taps; tap++, to += GEMM_WIDE)
        for (int i = p->start[tap]; i < p->start[tap + 1]; i++)
            conv_copy(&p->piece[i], v->step[v->n - 1], x, v->n_in, groups, to, v->n_taps * GEMM_WIDE);
}

/* The same where a group is one channel of few taps: the panels of all groups at a time. */
static void run_single(const zt_cpu_call *call, item *t, int64_t end, scratch *s)
{
    int64_t first = t->group;
    for (int i = 0; i < t->n; i++) {
        t->group = first;
        conv_pack_groups(&t->q->v, &s->place[i], channels(call, t, i), end - first, s->b);
        for (; t->group < end; t->group++) {
            add_packed(call, t, i, 0, s->b + (t->group - first) * t->q->K * GEMM_WIDE, s);
            finish(call, t, i, s);
        }
    }
}

static void run_item(const zt_cpu_call *call, const part *q, int64_t at, scratch *s)
{
    const plan *p = plan_of(call);
    int64_t block = at % q->panel_blocks, rest = at / q->panel_blocks;
    item t = {.q = q, .group = rest % p->group_blocks * GROUPS};
    int64_t end = t.group + GROUPS < p->groups ? t.group + GROUPS : p->groups;
    t.row = rest / p->group_blocks * CHANNELS;
    t.rows = p->rows - t.row < CHANNELS ? p->rows - t.row : CHANNELS;
    if (q->plane) {
        run_flat(call, &t, end, block, s);
        return;
    }
    bool single = p->channels == 1 && q->blocks == 1 && (end - t.group) * q->K <= DEPTH;
    int64_t panel = block * q->at_once;
    for (; t.n < q->at_once && panel < p->N * q->panels; t.n++, panel++) {
        t.image[t.n] = panel / q->panels;
        t.pixel[t.n] = panel % q->panels * GEMM_WIDE;
        conv_place_at(&q->v, t.pixel[t.n], &s->place[t.n]);
        single = single && s->place[t.n].n_taps == q->v.n_taps;
    }
    (single ? run_single : run_groups)(call, &t, end, s);
}

static void conv_run_phase(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const plan *p = plan_of(call);
    const part *q = parts_of(call);
    for (int64_t i = begin; i < end; i++) {
        if (phase == 0) {
            int64_t strips = (p->rows + STRIP - 1) / STRIP, each = p->groups * strips;
            pack_strip(call, &q[i / each], i % each / strips, i % strips * STRIP);
            continue;
        }
        int64_t k = 0;
        while (k + 1 < p->n_parts && q[k + 1].first_item <= i) k++;
        run_item(call, &q[k], i - q[k].first_item, local);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_conv)[] = {
    {.op = ZT_OP_conv, .has = conv_has, .setup = conv_setup, .run = conv_run_phase, .prime = conv_prime},
    {.op = ZT_OP_conv_transpose, .has = transpose_has, .setup = conv_setup, .run = conv_run_phase, .prime = conv_prime},
    {0},
};
