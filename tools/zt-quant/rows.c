/* rows.c - owns the work: rows are read, decoded, quantized on every thread, and handed on in
 * order.
 *
 * A block of rows is read at once; threads take groups of its rows as they come. What a group
 * becomes, and what it adds to the loss, depends on that group alone, so that bytes and figures are
 * the same for any number of threads; of several faults the first in the tensor is told.
 */
#include "tools/zt-quant/quant.h"

#include <stdatomic.h>
#include <string.h>

enum {
    GROUP = 1 << 14,   /* elements of a group: its floats stay in the cache */
    BLOCK = 1 << 20,   /* bytes of a block, in or out, or one row */
    SAMPLE = 1 << 20,  /* about so many elements say what columns weigh: */
    SAMPLE_LEAST = 64, /* rows of them */
    SAMPLE_MOST = 256
};

struct quant_crew {
    zt_ctx *ctx;
    zt_pool *pool;
    char *raw, *out, *sample, *weights;
    size_t raw_cap, out_cap, sample_cap, weights_cap;
    float **x, **y; /* [threads][group's elements] as it is, and as it becomes */
    size_t x_cap;
    zt_loss_of *loss; /* [groups] */
    zt_status *status;
    size_t n_groups;
};

quant_crew *quant_crew_new(quant *q)
{
    int64_t n = q->cli->threads ? q->cli->threads : zt_cpu_count();
    quant_crew *c = zt_calloc(q->ctx, 1, sizeof *c);
    if (!c)
        return NULL;
    c->ctx = q->ctx;
    c->pool = zt_pool_new(q->ctx, (int)n);
    c->x = zt_calloc(q->ctx, (size_t)n, sizeof *c->x);
    c->y = zt_calloc(q->ctx, (size_t)n, sizeof *c->y);
    if (c->pool && c->x && c->y)
        return c;
    quant_crew_free(c);
    return NULL;
}

static void drop_floats(quant_crew *c)
{
    for (int i = 0; c->pool && c->x && c->y && i < zt_pool_size(c->pool); i++) {
        zt_free(c->ctx, c->x[i]);
        zt_free(c->ctx, c->y[i]);
        c->x[i] = c->y[i] = NULL;
    }
    c->x_cap = 0;
}

void quant_crew_free(quant_crew *c)
{
    if (!c)
        return;
    drop_floats(c);
    zt_free(c->ctx, c->x);
    zt_free(c->ctx, c->y);
    zt_free(c->ctx, c->raw);
    zt_free(c->ctx, c->out);
    zt_free(c->ctx, c->sample);
    zt_free(c->ctx, c->weights);
    zt_free(c->ctx, c->loss);
    zt_free(c->ctx, c->status);
    zt_pool_free(c->pool);
    zt_free(c->ctx, c);
}

/* ---- room ------------------------------------------------------------------------------------ */

static zt_status at_least(zt_ctx *ctx, char **p, size_t *cap, size_t n)
{
    if (*cap >= n)
        return ZT_OK;
    zt_free(ctx, *p);
    *cap = 0;
    *p = zt_alloc(ctx, n);
    *cap = *p ? n : 0;
    return *p ? ZT_OK : ZT_ENOMEM;
}

static zt_status floats_of(quant_crew *c, size_t n)
{
    if (c->x_cap >= n)
        return ZT_OK;
    drop_floats(c);
    for (int i = 0; i < zt_pool_size(c->pool); i++) {
        c->x[i] = zt_alloc_array(c->ctx, n, sizeof **c->x);
        c->y[i] = zt_alloc_array(c->ctx, n, sizeof **c->y);
        if (!c->x[i] || !c->y[i])
            return ZT_ENOMEM;
    }
    c->x_cap = n;
    return ZT_OK;
}

static zt_status groups_of(quant_crew *c, size_t n)
{
    if (c->n_groups >= n)
        return ZT_OK;
    zt_free(c->ctx, c->loss);
    zt_free(c->ctx, c->status);
    c->n_groups = 0;
    c->loss = zt_alloc_array(c->ctx, n, sizeof *c->loss);
    c->status = zt_alloc_array(c->ctx, n, sizeof *c->status);
    if (!c->loss || !c->status)
        return ZT_ENOMEM;
    c->n_groups = n;
    return ZT_OK;
}

/* ---- a block of rows ------------------------------------------------------------------------- */

typedef struct block {
    quant_crew *crew;
    const quant_job *job;
    zt_dtype to;
    const float *importance;
    int64_t columns, first, rows, group; /* group: rows of one */
    size_t in_row, out_row;
    const quant_scales *scales; /* NULL: the type has none */
    bool measure, by_importance, search;
    bool guess; /* importance comes of the rows */
    atomic_llong next;
} block;

/* The same with each column's square counted by its importance: about what it does to the output.
 */
static void add_weighed(zt_loss_of *l, const float *x, const float *y, const block *b, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++, x += b->columns, y += b->columns)
        for (int64_t i = 0; i < b->columns; i++) {
            double w = b->importance[i], e = (double)y[i] - x[i];
            l->error2 += w * e * e;
            l->x2 += w * x[i] * x[i];
        }
    l->count += rows * b->columns;
}

/* Rows of one group, on one thread; ctx NULL: no message. */
static zt_status do_group(block *b, zt_ctx *ctx, int thread, int64_t g)
{
    quant_crew *c = b->crew;
    const zt_dtype_info *from = zt_dtype_get(b->job->in.type.dtype), *to = zt_dtype_get(b->to);
    int64_t at = g * b->group, rows = b->rows - at < b->group ? b->rows - at : b->group;
    const char *raw = c->raw + (size_t)at * b->in_row;
    char *out = c->out + (size_t)at * b->out_row;
    const float *x = (const float *)raw;
    if (b->job->in.type.dtype != ZT_F32) {
        from->decode(raw, c->x[thread], rows * b->columns);
        x = c->x[thread];
    }
    zt_quantizer z = {.dtype = b->to, .columns = b->columns, .name = b->job->in.name,
                      .first_row = b->first + at, .importance = b->importance,
                      .search = b->search};
    zt_status s = b->scales ? quant_scaled_rows(ctx, &z, x, rows, b->scales, (uint8_t *)out,
                                                c->y[thread])
                            : zt_quantize_rows(ctx, &z, x, rows, out);
    c->loss[g] = (zt_loss_of){0};
    if (s == ZT_OK && b->measure) {
        if (!b->scales)
            to->decode(out, c->y[thread], rows * b->columns);
        if (b->by_importance && b->importance)
            add_weighed(&c->loss[g], x, c->y[thread], b, rows);
        else
            zt_loss_add(&c->loss[g], x, c->y[thread], rows * b->columns);
    }
    return s;
}

static void do_groups(void *user, int thread, int n_threads)
{
    block *b = user;
    int64_t n = (b->rows + b->group - 1) / b->group, g;
    (void)n_threads;
    while ((g = atomic_fetch_add(&b->next, 1)) < n)
        b->crew->status[g] = do_group(b, NULL, thread, g);
}

void quant_add_loss(zt_loss_of *a, const zt_loss_of *b)
{
    a->count += b->count;
    a->error2 += b->error2;
    a->x2 += b->x2;
    a->y2 += b->y2;
    a->xy += b->xy;
    a->most = b->most > a->most ? b->most : a->most;
}

/* What was read is quantized, and its loss is added up in order. */
static zt_status do_block(block *b, zt_loss_of *loss)
{
    int64_t n = (b->rows + b->group - 1) / b->group;
    atomic_store(&b->next, 0);
    zt_pool_run(b->crew->pool, do_groups, b);
    for (int64_t g = 0; g < n; g++) {
        if (b->crew->status[g] != ZT_OK) /* once more, for its message */
            return do_group(b, b->crew->ctx, 0, g);
        if (loss)
            quant_add_loss(loss, &b->crew->loss[g]);
    }
    return ZT_OK;
}

/* ---- rows of a tensor ------------------------------------------------------------------------ */

int64_t quant_n_rows(const zt_type *t)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < t->rank; i++)
        rows *= t->dim[i];
    return rows;
}

int64_t quant_n_experts(const zt_type *t)
{
    int64_t n = 1;
    for (int i = 0; i + 2 < t->rank; i++)
        n *= t->dim[i];
    return n;
}

static int64_t rows_of_expert(const block *b)
{
    return quant_n_rows(&b->job->in.type) / quant_n_experts(&b->job->in.type);
}

/* Rows of an expert by which importance is guessed. */
static int64_t sample_of(const block *b)
{
    int64_t rows = SAMPLE / b->columns, each = rows_of_expert(b);
    rows = rows < SAMPLE_LEAST ? SAMPLE_LEAST : rows < SAMPLE_MOST ? rows : SAMPLE_MOST;
    return rows < each ? rows : each;
}

/* Is the importance to be guessed: nothing is known of it, codes are searched for, and rows are not
 * so long that many take much memory. What is looked up and not multiplied with has none. */
static bool guesses(const block *b)
{
    return !b->job->weighed && zt_quantize_weighs(b->to) && b->columns <= SAMPLE / 8 &&
           (b->search || !zt_quantize_has_rule(b->to)) && !strstr(b->job->in.name, "token_embd");
}

static zt_status make_block(quant *q, block *b, int64_t rows)
{
    const zt_dtype_info *from = zt_dtype_get(b->job->in.type.dtype), *to = zt_dtype_get(b->to);
    b->in_row = (size_t)(b->columns / from->block) * (size_t)from->block_bytes;
    b->out_row = (size_t)(b->columns / to->block) * (size_t)to->block_bytes;
    size_t row = b->in_row > b->out_row ? b->in_row : b->out_row;
    int64_t fit = row ? (int64_t)(BLOCK / row) : 1;
    if (b->guess && fit < sample_of(b))
        fit = sample_of(b);
    b->rows = fit < 1 ? 1 : fit < rows ? fit : rows;
    b->group = b->columns ? GROUP / b->columns : 1;
    b->group = b->group < 1 ? 1 : b->group;
    b->crew = q->crew;
    int64_t held = b->guess && b->rows < sample_of(b) ? sample_of(b) : b->rows;
    zt_status s = at_least(q->ctx, &q->crew->raw, &q->crew->raw_cap, (size_t)held * b->in_row);
    if (s == ZT_OK)
        s = at_least(q->ctx, &q->crew->out, &q->crew->out_cap, (size_t)b->rows * b->out_row);
    if (s == ZT_OK)
        s = floats_of(q->crew, (size_t)(b->group * b->columns));
    return s == ZT_OK ? groups_of(q->crew, (size_t)(b->rows / b->group) + 1) : s;
}

/* A block with an importance of its columns is of one expert, whose rows begin at *start. */
static void aim(const quant *q, block *b, int64_t *start)
{
    const quant_job *j = b->job;
    if (!j->weighed && !b->guess)
        return;
    int64_t each = rows_of_expert(b), left = each - b->first % each;
    *start = b->first / each * each;
    b->rows = b->rows < left ? b->rows : left;
    if (j->weighed)
        b->importance = zt_imatrix_find(q->imatrix, j->in.name, b->first / each, b->columns);
}

/* How a guess counts: twice in what makes values and the middle of an MLP, which are read as they
 * are; queries, keys and gates go through a function that may want what is large to be so. */
static int power_of(const char *name)
{
    static const char *const twice[] = {"attn_v", "v_proj", "ffn_up", "up_proj"};
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++)
        if (strstr(name, twice[i]))
            return 2;
    return 1;
}

/* An importance of an expert's columns by its first rows, which are in crew->raw. */
static zt_status guess(quant *q, block *b)
{
    quant_crew *c = q->crew;
    const zt_dtype_info *from = zt_dtype_get(b->job->in.type.dtype);
    int64_t rows = sample_of(b), n = rows * b->columns;
    bool any = false;
    zt_status s = at_least(q->ctx, &c->sample, &c->sample_cap, (size_t)n * sizeof(float));
    if (s == ZT_OK)
        s = at_least(q->ctx, &c->weights, &c->weights_cap, (size_t)b->columns * sizeof(float));
    if (s != ZT_OK)
        return s;
    from->decode(c->raw, (float *)c->sample, n);
    s = zt_column_weights(q->ctx, (float *)c->sample, rows, b->columns, power_of(b->job->in.name),
                          (float *)c->weights, &any);
    b->importance = any ? (float *)c->weights : NULL;
    return s;
}

/* A block is read; where an expert begins, what its columns weigh is guessed, for all its blocks.
 * What is only tried may begin in the middle of one or be shorter than the sample. */
static zt_status read_block(quant *q, int64_t job, block *b, bool first, int64_t start)
{
    char *raw = q->crew->raw;
    bool here = b->first == start && b->rows >= sample_of(b);
    bool aside = b->guess && !here && (first || b->first == start);
    zt_status s = ZT_OK;
    if (aside)
        s = zt_checkpoint_read(q->in, job, (uint64_t)start * b->in_row, raw,
                               (size_t)sample_of(b) * b->in_row);
    if (s == ZT_OK && aside)
        s = guess(q, b);
    if (s == ZT_OK)
        s = zt_checkpoint_read(q->in, job, (uint64_t)b->first * b->in_row, raw,
                               (size_t)b->rows * b->in_row);
    return s == ZT_OK && b->guess && here ? guess(q, b) : s;
}

zt_status quant_rows(quant *q, int64_t job, int64_t from, int64_t to, zt_dtype t, zt_loss_of *loss,
                     quant_put_fn *put, void *user)
{
    const quant_job *j = &q->job[job];
    const zt_type *type = &j->in.type;
    block b = {.job = j,
               .to = t,
               .columns = type->rank ? type->dim[type->rank - 1] : 1,
               .measure = loss != NULL,
               .by_importance = q->fitting,
               .search = q->fitting || j->to.search,
               .scales = quant_is_scaled(t) ? q->scales : NULL};
    b.guess = guesses(&b);
    if (from >= to || b.columns == 0)
        return ZT_OK;
    if (!q->crew && !(q->crew = quant_crew_new(q)))
        return ZT_ENOMEM;
    zt_status s = make_block(q, &b, to - from);
    int64_t most = b.rows, start = 0;
    for (int64_t at = from; at < to && s == ZT_OK; at += b.rows) {
        b.first = at;
        b.rows = to - at < most ? to - at : most;
        aim(q, &b, &start);
        if (zt_cli_interrupted())
            return ZT_EINTR;
        s = read_block(q, job, &b, at == from, start);
        if (s == ZT_OK)
            s = do_block(&b, loss);
        if (s == ZT_OK && put)
            s = put(user, q->crew->out, (size_t)b.rows * b.out_row);
    }
    return s;
}
