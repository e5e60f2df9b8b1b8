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
    GROUP = 1 << 14, /* elements of a group: its floats stay in the cache */
    BLOCK = 1 << 20  /* bytes of a block, in or out, or one row */
};

struct quant_crew {
    zt_ctx *ctx;
    zt_pool *pool;
    char *raw, *out;
    size_t raw_cap, out_cap;
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
    l->n += rows * b->columns;
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
    zt_quantizer z = {.dtype = b->to, .n = b->columns, .name = b->job->in.name,
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
    a->n += b->n;
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

static zt_status make_block(quant *q, block *b, int64_t rows)
{
    const zt_dtype_info *from = zt_dtype_get(b->job->in.type.dtype), *to = zt_dtype_get(b->to);
    b->in_row = (size_t)(b->columns / from->block) * (size_t)from->block_bytes;
    b->out_row = (size_t)(b->columns / to->block) * (size_t)to->block_bytes;
    size_t row = b->in_row > b->out_row ? b->in_row : b->out_row;
    int64_t fit = row ? (int64_t)(BLOCK / row) : 1;
    b->rows = fit < 1 ? 1 : fit < rows ? fit : rows;
    b->group = b->columns ? GROUP / b->columns : 1;
    b->group = b->group < 1 ? 1 : b->group;
    b->crew = q->crew;
    zt_status s = at_least(q->ctx, &q->crew->raw, &q->crew->raw_cap, (size_t)b->rows * b->in_row);
    if (s == ZT_OK)
        s = at_least(q->ctx, &q->crew->out, &q->crew->out_cap, (size_t)b->rows * b->out_row);
    if (s == ZT_OK)
        s = floats_of(q->crew, (size_t)(b->group * b->columns));
    return s == ZT_OK ? groups_of(q->crew, (size_t)(b->rows / b->group) + 1) : s;
}

/* The importance of a block's columns; a block with one is of one expert. */
static void aim(const quant *q, block *b)
{
    const quant_job *j = b->job;
    b->importance = NULL;
    if (!j->weighed)
        return;
    int64_t each = quant_n_rows(&j->in.type) / quant_n_experts(&j->in.type);
    int64_t left = each - b->first % each;
    b->importance = zt_imatrix_find(q->imatrix, j->in.name, b->first / each, b->columns);
    b->rows = b->rows < left ? b->rows : left;
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
               .search = q->fitting || j->search,
               .scales = quant_is_scaled(t) ? q->scales : NULL};
    if (from >= to || b.columns == 0)
        return ZT_OK;
    if (!q->crew && !(q->crew = quant_crew_new(q)))
        return ZT_ENOMEM;
    zt_status s = make_block(q, &b, to - from);
    int64_t most = b.rows;
    for (int64_t at = from; at < to && s == ZT_OK; at += b.rows) {
        b.first = at;
        b.rows = to - at < most ? to - at : most;
        aim(q, &b);
        if (zt_cli_interrupted())
            return ZT_EINTR;
        s = zt_checkpoint_read(q->in, job, (uint64_t)at * b.in_row, q->crew->raw,
                               (size_t)b.rows * b.in_row);
        if (s == ZT_OK)
            s = do_block(&b, loss);
        if (s == ZT_OK && put)
            s = put(user, q->crew->out, (size_t)b.rows * b.out_row);
    }
    return s;
}
