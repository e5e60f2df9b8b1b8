/* conv.c - kernels of conv and conv_transpose: products of the filters with panels of pixels that
 * are put together as they are needed (conv.h). conv_filter.c: conv_backward_filter.
 *
 * Phase 0 lays the filters out as the register tile reads them (gemm.h): for every view, group and
 * block of (tap, channel), rows of output channels. In phase 1 an item is a few panels of pixels of
 * one view, of one or more images, a few groups, and at most CHANNELS output channels. Sums are cut
 * by shapes alone.
 */
#include "lib/engine/cpu/isa/conv.h"

enum {
    CHANNELS = 128, PANELS = 4, GROUPS = 16, /* of an item, at most */
    WANTED = 16,                             /* items, before one gets more panels */
    DEPTH = 256,                             /* rows of the right operand at a time */
    STRIP = 16,                              /* rows of filters packed together */
    MOST_VIEWS = 1024
};

/* One view's share of the work. */
typedef struct part {
    conv_view v;
    int64_t K, blocks, depth;   /* rows of the right operand, in blocks of depth */
    int64_t weights;            /* floats into the packed filters: [groups][blocks][rows][stride] */
    int64_t panels, at_once;    /* of an image; of an item */
    int64_t panel_blocks;       /* items for all images */
    int64_t first_item;         /* of phase 1 */
} part;

typedef struct plan {
    int64_t N, groups, rows, channels; /* output and input channels of a group */
    int64_t row_step, channel_step;    /* in w, from row to row and channel to channel */
    int64_t row_blocks, group_blocks, n_out, n_in, n_parts;
    size_t weights;
    int64_t items;
} plan;

typedef struct scratch {
    float b[DEPTH * GEMM_WIDE], tile[PANELS][CHANNELS * GEMM_WIDE];
    conv_place place[PANELS];
} scratch;

static plan *plan_of(const zt_cpu_call *c) { return c->keep; }
static part *parts_of(const zt_cpu_call *c) { return (part *)(plan_of(c) + 1); }

static zt_window window_of(const zt_cpu_call *c)
{
    const int64_t *kernel = c->in[1].type.dim + 2;
    if (c->kernel->op == ZT_OP_conv) {
        const zt_window_lists l = ZT_WINDOW_LISTS((const zt_conv_attrs *)c->attrs);
        return zt_window_of(&l, &c->in[0].type, &c->out[0].type, kernel);
    }
    const zt_window_lists l = ZT_WINDOW_LISTS((const zt_conv_transpose_attrs *)c->attrs);
    return zt_window_of(&l, &c->out[0].type, &c->in[0].type, kernel);
}

static int64_t groups_of(const zt_cpu_call *c)
{
    if (c->kernel->op == ZT_OP_conv) return ((const zt_conv_attrs *)c->attrs)->groups;
    return ((const zt_conv_transpose_attrs *)c->attrs)->groups;
}

/* The plan without its parts; and part i, which comes after those counted in the plan so far. */
static plan start(const zt_cpu_call *c, const zt_window *w)
{
    bool forward = c->kernel->op == ZT_OP_conv;
    const zt_type *x = &c->in[0].type, *y = &c->out[0].type;
    plan p = {.N = x->dim[0], .groups = groups_of(c)};
    p.rows = y->dim[1] / p.groups;
    p.channels = x->dim[1] / p.groups;
    p.row_step = forward ? p.channels * w->taps : w->taps;
    p.channel_step = forward ? w->taps : p.rows * w->taps;
    p.row_blocks = (p.rows + CHANNELS - 1) / CHANNELS;
    p.group_blocks = (p.groups + GROUPS - 1) / GROUPS;
    p.n_out = forward ? w->n_out : w->n_in;
    p.n_in = forward ? w->n_in : w->n_out;
    p.n_parts = forward ? 1 : conv_views(w);
    return p;
}

static void add_part(const zt_cpu_call *c, const zt_window *w, int64_t i, plan *p, part *q)
{
    *q = (part){.v = c->kernel->op == ZT_OP_conv ? conv_view_forward(w) : conv_view_data(w, i)};
    q->K = q->v.n_taps * p->channels;
    q->blocks = (q->K + DEPTH - 1) / DEPTH;
    q->depth = q->blocks ? (q->K + q->blocks - 1) / q->blocks : 0;
    q->weights = (int64_t)p->weights;
    q->panels = (q->v.n_pixels + GEMM_WIDE - 1) / GEMM_WIDE;
    int64_t blocks = p->group_blocks * p->row_blocks, spare = p->N * q->panels * blocks / WANTED;
    q->at_once = spare < 1 ? 1 : spare < PANELS ? spare : PANELS;
    q->panel_blocks = (p->N * q->panels + q->at_once - 1) / q->at_once;
    q->first_item = p->items;
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
    zt_window w = zt_window_of(&l, &out[0], in[0], in[1]->dim + 2);
    return conv_views(&w) <= MOST_VIEWS;
}

static void conv_setup(zt_cpu_call *c)
{
    zt_window w = window_of(c);
    plan p = start(c, &w);
    part q;
    if (zt_type_count(&c->out[0].type) == 0) p.n_parts = 0;
    for (int64_t i = 0; i < p.n_parts; i++) add_part(c, &w, i, &p, &q);
    c->n_phases = 2;
    c->items[0] = p.n_parts * p.groups * ((p.rows + STRIP - 1) / STRIP);
    c->items[1] = p.items;
    c->keep_bytes = sizeof(plan) + (size_t)p.n_parts * sizeof(part);
    c->shared_bytes = p.weights * sizeof(float);
    c->local_bytes = sizeof(scratch);
}

static void conv_prime(zt_cpu_call *c)
{
    zt_window w = window_of(c);
    plan *p = plan_of(c);
    *p = start(c, &w);
    if (zt_type_count(&c->out[0].type) == 0) p->n_parts = 0;
    for (int64_t i = 0; i < p->n_parts; i++) add_part(c, &w, i, p, &parts_of(c)[i]);
}

/* ---- filters --------------------------------------------------------------------------------- */

/* n rows of filters of one view, in all its blocks. */
static void pack_rows(const zt_cpu_call *c, const part *q, int64_t group, int64_t row, int64_t n)
{
    const plan *p = plan_of(c);
    const zt_type *t = &c->in[1].type;
    int64_t taps = 1, left = q->depth, shift[ZT_WINDOW_RANK];
    for (int d = 2; d < t->rank; d++) taps *= t->dim[d];
    const float *w = (const float *)c->in[1].data + group * p->rows * p->channels * taps +
                     row * p->row_step;
    float *to =
        (float *)c->shared + q->weights + (group * q->blocks * p->rows + row) * GEMM_STRIDE;
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
static void pack_strip(const zt_cpu_call *c, const part *q, int64_t group, int64_t row)
{
    const plan *p = plan_of(c);
    int64_t n = p->rows - row < STRIP ? p->rows - row : STRIP;
    if (p->row_step < p->channel_step) {
        pack_rows(c, q, group, row, n);
        return;
    }
    for (int64_t r = 0; r < n; r++) pack_rows(c, q, group, row + r, 1);
}

/* ---- pixels ---------------------------------------------------------------------------------- */

/* The panel's rows of results from a tile to where the view spreads them. */
static void spread(const conv_view *v, const conv_panel *panel, const int64_t *out, int64_t n_out,
                   const float *tile, int64_t rows, float *y)
{
    int last = v->n - 1;
    for (int k = 0; k < panel->n_runs; k++) {
        const conv_run *r = &panel->run[k];
        int64_t at = 0;
        for (int d = 0; d < v->n; d++)
            at = at * out[d] + v->first[d] + r->at[d] * v->spread[d];
        for (int64_t m = 0; m < rows; m++)
            for (int i = 0; i < r->len; i++)
                y[m * n_out + at + i * v->spread[last]] = tile[m * GEMM_WIDE + r->slot + i];
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
    int64_t group, row, rows;              /* the group at hand; the first row */
    int64_t image[PANELS], pixel[PANELS];  /* of n panels, the first pixel of each */
    int n;
} item;

/* The first row's plane of y, for panel i. */
static float *plane(const zt_cpu_call *c, const item *t, int i)
{
    const plan *p = plan_of(c);
    return (float *)c->out[0].data +
           ((t->image[i] * p->groups + t->group) * p->rows + t->row) * p->n_out;
}

/* Where panel i's results go, and from row to row of them. */
static float *results(const zt_cpu_call *c, const item *t, int i, scratch *s, int64_t *down)
{
    const plan *p = plan_of(c);
    *down = p->n_parts == 1 ? p->n_out : GEMM_WIDE; /* one grid is the output */
    return p->n_parts == 1 ? plane(c, t, i) + t->pixel[i] : s->tile[i];
}

static const float *channels(const zt_cpu_call *c, const item *t, int i)
{
    const plan *p = plan_of(c);
    return (const float *)c->in[0].data +
           (t->image[i] * p->groups + t->group) * p->channels * p->n_in;
}

/* Block k of panel i's sums, from rows of the right operand in b. */
static void add_panel(const zt_cpu_call *c, const item *t, int i, int64_t block, const float *b,
                      scratch *s)
{
    const plan *p = plan_of(c);
    const part *q = t->q;
    int64_t k = block * q->depth, depth = q->K - k < q->depth ? q->K - k : q->depth;
    gemm_block g = {.a = (const float *)c->shared + q->weights +
                         ((t->group * q->blocks + block) * p->rows + t->row) * GEMM_STRIDE,
                    .b = b,
                    .b_down = GEMM_WIDE,
                    .depth = (int)depth,
                    .columns = s->place[i].panel.columns,
                    .more = block > 0};
    g.y = results(c, t, i, s, &g.down);
    gemm_down(GEMM_FLOATS, &g, (int)t->rows);
}

/* Panel i's sums, with their bias, in their places. */
static void finish(const zt_cpu_call *c, const item *t, int i, scratch *s)
{
    const plan *p = plan_of(c);
    const conv_panel *panel = &s->place[i].panel;
    int64_t down;
    float *y = results(c, t, i, s, &down);
    for (int64_t m = 0; m < t->rows && !t->q->blocks; m++)
        memset(y + m * down, 0, (size_t)panel->columns * sizeof *y);
    if (c->in[2].data)
        add_bias((const float *)c->in[2].data + t->group * p->rows + t->row, y, down, t->rows,
                 panel->columns);
    if (p->n_parts > 1)
        spread(&t->q->v, panel, c->out[0].type.dim + 2, p->n_out, y, t->rows, plane(c, t, i));
}

/* Groups from t->group to end: a block of filters for all panels, one after the other. */
static void run_groups(const zt_cpu_call *c, item *t, int64_t end, scratch *s)
{
    const part *q = t->q;
    for (; t->group < end; t->group++) {
        for (int64_t k = 0; k < q->blocks; k++)
            for (int i = 0; i < t->n; i++) {
                int64_t at = k * q->depth, depth = q->K - at < q->depth ? q->K - at : q->depth;
                conv_pack(&q->v, &s->place[i], channels(c, t, i), plan_of(c)->channels, at, depth,
                          s->b);
                add_panel(c, t, i, k, s->b, s);
            }
        for (int i = 0; i < t->n; i++) finish(c, t, i, s);
    }
}

/* All rows of `groups` groups of one channel each, one group's after the other's. */
static void conv_pack_groups(const conv_view *v, const conv_place *p, const float *x,
                             int64_t groups, float *to)
{
    for (int tap = 0; tap < p->n_taps; tap++, to += GEMM_WIDE)
        for (int i = p->start[tap]; i < p->start[tap + 1]; i++)
            conv_copy(&p->piece[i], v->step[v->n - 1], x, v->n_in, groups, to,
                      v->n_taps * GEMM_WIDE);
}

/* The same where a group is one channel of few taps: the panels of all groups at a time. */
static void run_single(const zt_cpu_call *c, item *t, int64_t end, scratch *s)
{
    int64_t first = t->group;
    for (int i = 0; i < t->n; i++) {
        t->group = first;
        conv_pack_groups(&t->q->v, &s->place[i], channels(c, t, i), end - first, s->b);
        for (; t->group < end; t->group++) {
            add_panel(c, t, i, 0, s->b + (t->group - first) * t->q->K * GEMM_WIDE, s);
            finish(c, t, i, s);
        }
    }
}

static void run_item(const zt_cpu_call *c, const part *q, int64_t at, scratch *s)
{
    const plan *p = plan_of(c);
    int64_t panel = at % q->panel_blocks * q->at_once, rest = at / q->panel_blocks;
    item t = {.q = q, .group = rest % p->group_blocks * GROUPS};
    int64_t end = t.group + GROUPS < p->groups ? t.group + GROUPS : p->groups;
    bool single = p->channels == 1 && q->blocks == 1 && (end - t.group) * q->K <= DEPTH;
    t.row = rest / p->group_blocks * CHANNELS;
    t.rows = p->rows - t.row < CHANNELS ? p->rows - t.row : CHANNELS;
    for (; t.n < q->at_once && panel < p->N * q->panels; t.n++, panel++) {
        t.image[t.n] = panel / q->panels;
        t.pixel[t.n] = panel % q->panels * GEMM_WIDE;
        conv_place_at(&q->v, t.pixel[t.n], &s->place[t.n]);
        single = single && s->place[t.n].n_taps == q->v.n_taps;
    }
    (single ? run_single : run_groups)(c, &t, end, s);
}

static void conv_run_phase(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const plan *p = plan_of(c);
    const part *q = parts_of(c);
    for (int64_t i = begin; i < end; i++) {
        if (phase == 0) {
            int64_t strips = (p->rows + STRIP - 1) / STRIP, each = p->groups * strips;
            pack_strip(c, &q[i / each], i % each / strips, i % strips * STRIP);
            continue;
        }
        int64_t k = 0;
        while (k + 1 < p->n_parts && q[k + 1].first_item <= i) k++;
        run_item(c, &q[k], i - q[k].first_item, local);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_conv)[] = {
    {.op = ZT_OP_conv,
     .has = conv_has,
     .setup = conv_setup,
     .run = conv_run_phase,
     .prime = conv_prime},
    {.op = ZT_OP_conv_transpose,
     .has = transpose_has,
     .setup = conv_setup,
     .run = conv_run_phase,
     .prime = conv_prime},
    {0},
};
