/* merge_pass.c - owns passes over one tensor of all parents: windows are read as they are stored,
 * pieces of them decoded and worked on by all threads.
 *
 * A piece is some whole rows, or of plain types, which have no rows to keep together, some
 * elements; a window some pieces. What a piece is depends on the shape alone, so that sums by
 * pieces are the same for any number of threads. A tensor of one window stays in memory from pass
 * to pass.
 */
#include "lib/dna/merge_internal.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    PIECE = 1 << 14,   /* elements, or one row */
    WINDOW = 96 << 20, /* bytes of all sources and the child */
};

static size_t bytes_of(zt_dtype t, int64_t n)
{
    const zt_dtype_info *d = zt_dtype_get(t);
    return (size_t)(n / d->block) * (size_t)d->block_bytes;
}

/* n elements of source k, from a place that ends a byte; and of the child. */
static size_t source_bytes(const merge_work *w, int k, int64_t n)
{
    return w->coded[k] ? zt_net_bytes(&w->codes[k], n) : bytes_of(w->in[k].dtype, n);
}

static size_t child_bytes(const merge_work *w, int64_t n)
{
    return w->job->coded ? zt_net_bytes(&w->job->net, n) : bytes_of(w->job->out.type.dtype, n);
}

/* Codes of a network have no blocks. */
static bool has_blocks(bool coded, zt_dtype t)
{
    return !coded && zt_dtype_get(t)->block > 1;
}

/* ---- room ------------------------------------------------------------------------------------ */

static void shape_of(merge_work *w)
{
    const zt_type *out = &w->job->out.type;
    bool blocks = has_blocks(w->job->coded, out->dtype);
    w->n = zt_type_count(out);
    w->columns = out->rank ? out->dim[out->rank - 1] : 1;
    w->rows = w->columns ? w->n / w->columns : 0;
    for (int k = 0; k < w->k; k++)
        blocks = blocks || has_blocks(w->coded[k], w->in[k].dtype);
    w->by_row = w->by_row || blocks;
    int64_t rows = w->columns && w->columns < PIECE ? PIECE / w->columns : 1;
    w->piece = w->by_row ? rows * w->columns : PIECE;
    w->piece = w->piece < 1 ? 1 : w->piece;
    w->pieces = (w->n + w->piece - 1) / w->piece;
    size_t most = child_bytes(w, w->piece);
    for (int k = 0; k < w->k; k++) {
        size_t b = source_bytes(w, k, w->piece);
        most = b > most ? b : most;
    }
    size_t share = WINDOW / ((size_t)w->k + 1);
    w->window = most && most < share ? (int64_t)(share / most) : 1;
    w->window = w->window < w->pieces ? w->window : w->pieces;
    w->loaded = -1;
}

zt_status zt_merge_begin(merge_work *w)
{
    zt_ctx *ctx = w->m->ctx;
    int threads = zt_pool_size(w->m->pool);
    size_t cells, of_all;
    shape_of(w);
    for (int k = 0; k < w->k; k++)
        if (!(w->raw[k] = zt_alloc(ctx, source_bytes(w, k, w->window * w->piece))))
            return ZT_ENOMEM;
    w->out = zt_alloc(ctx, child_bytes(w, w->window * w->piece));
    w->status = zt_calloc(ctx, (size_t)w->window + 1, sizeof *w->status);
    w->x = zt_calloc(ctx, (size_t)threads, sizeof *w->x);
    if (!w->out || !w->status || !w->x ||
        !zt_mul_size((size_t)w->piece, (size_t)(2 * w->k + 1), &cells) ||
        !zt_mul_size(cells, sizeof **w->x, &of_all))
        return zt_fail(ctx, ZT_ENOMEM, "tensor '%s': rows of %lld", w->job->out.name,
                       (long long)w->columns);
    for (int i = 0; i < threads; i++)
        if (!(w->x[i] = zt_alloc(ctx, of_all))) return ZT_ENOMEM;
    return ZT_OK;
}

void zt_merge_end(merge_work *w)
{
    zt_ctx *ctx = w->m->ctx;
    for (int k = 0; k < w->k; k++) zt_free(ctx, w->raw[k]);
    for (int i = 0; w->x && i < zt_pool_size(w->m->pool); i++) zt_free(ctx, w->x[i]);
    zt_free(ctx, w->x);
    zt_free(ctx, w->out);
    zt_free(ctx, w->status);
}

/* ---- a pass ---------------------------------------------------------------------------------- */

typedef struct pass {
    merge_work *w;
    merge_piece_fn *fn;
    void *arg;
    bool out;           /* what it leaves is the child's */
    int64_t first, end; /* pieces of the window */
    atomic_llong next;
} pass;

static zt_status load(merge_work *w, int64_t first)
{
    if (w->loaded == first) return ZT_OK;
    int64_t from = first * w->piece, n = w->window * w->piece;
    n = w->n - from < n ? w->n - from : n;
    zt_status s = ZT_OK;
    for (int k = 0; k < w->k && s == ZT_OK; k++)
        s = zt_checkpoint_read(w->m->parent[w->job->slice->source[k].model].model, w->job->of[k],
                               source_bytes(w, k, from), w->raw[k], source_bytes(w, k, n));
    w->loaded = s == ZT_OK ? first : -1;
    return s;
}

/* The k-th source's values: where they lie, if they are floats already. */
static const float *values_of(const merge_work *w, int k, int64_t at, int64_t n, float *buf)
{
    const char *raw = w->raw[k] + source_bytes(w, k, at);
    if (w->coded[k]) {
        zt_net_decode(&w->codes[k], raw, n, buf);
        return buf;
    }
    if (w->in[k].dtype == ZT_F32) return (const float *)raw;
    zt_dtype_get(w->in[k].dtype)->decode(raw, buf, n);
    return buf;
}

/* The first of n values that is no number, or -1. */
static int64_t not_finite(const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(y[i])) return i;
    return -1;
}

static zt_status encode(merge_work *w, zt_ctx *ctx, const float *y, int64_t at, int64_t first,
                        int64_t n)
{
    const merge_job *j = w->job;
    zt_quantizer q = {.dtype = j->out.type.dtype,
                      .n = w->by_row ? w->columns : n,
                      .name = j->out.name,
                      .search = j->search,
                      .first_row = w->by_row ? first / w->columns : 0};
    char *out = w->out + bytes_of(q.dtype, at);
    zt_status s = zt_quantize_rows(NULL, &q, y, n / q.n, out);
    if (s == ZT_OK || !ctx) return s;
    int64_t i = not_finite(y, n);
    char shown[160];
    if (i < 0) return zt_quantize_rows(ctx, &q, y, n / q.n, out);
    return zt_fail(ctx, ZT_EDATA, "tensor '%s': element %lld is not finite",
                   zt_escape(shown, sizeof shown, j->out.name, strlen(j->out.name)),
                   (long long)(first + i));
}

/* Of a network: what its scale is found from, or its codes. d is room. */
static zt_status code(merge_work *w, zt_ctx *ctx, const merge_piece *p, int64_t at)
{
    const merge_job *j = w->job;
    int64_t bad = not_finite(p->y, p->n);
    if (bad >= 0)
        return zt_fail(ctx, ZT_EDATA, "'%s': weight %lld is not finite", j->out.name,
                       (long long)(p->first + bad));
    if (!w->sizes) {
        zt_net_weights nearest = zt_net_nearest(&j->net);
        return zt_net_encode(ctx, &nearest, p->y, p->n, w->out + child_bytes(w, at), p->d[0]);
    }
    double most = 0, sum = 0;
    for (int64_t i = 0; i < p->n; i++) {
        double x = fabs((double)p->y[i]);
        most = x > most ? x : most;
        sum += x;
    }
    w->sizes[p->index] = zt_merge_net_by_mean(j) ? sum : most;
    return ZT_OK;
}

static zt_status do_piece(pass *p, zt_ctx *ctx, int thread, int64_t i)
{
    merge_work *w = p->w;
    float *buf = w->x[thread], *d[MERGE_SOURCES];
    const float *x[MERGE_SOURCES];
    int64_t first = i * w->piece, at = first - p->first * w->piece;
    int64_t n = w->n - first < w->piece ? w->n - first : w->piece;
    for (int k = 0; k < w->k; k++) {
        x[k] = values_of(w, k, at, n, buf + k * w->piece);
        d[k] = buf + (w->k + k) * w->piece;
    }
    merge_piece piece = {.x = x,
                         .d = d,
                         .y = buf + 2 * w->k * w->piece,
                         .index = i,
                         .first = first,
                         .n = n,
                         .thread = thread};
    p->fn(w, &piece, p->arg);
    if (p->out && w->job->coded) return code(w, ctx, &piece, at);
    return p->out ? encode(w, ctx, piece.y, at, first, n) : ZT_OK;
}

static void do_pieces(void *user, int thread, int n_threads)
{
    pass *p = user;
    int64_t i;
    (void)n_threads;
    while ((i = atomic_fetch_add(&p->next, 1)) < p->end)
        p->w->status[i - p->first] = do_piece(p, NULL, thread, i);
}

static zt_status put(pass *p)
{
    merge_work *w = p->w;
    int64_t from = p->first * w->piece, to = p->end * w->piece < w->n ? p->end * w->piece : w->n;
    size_t bytes = child_bytes(w, to - from);
    for (int64_t i = p->first; i < p->end; i++)
        if (w->status[i - p->first] != ZT_OK) return do_piece(p, w->m->ctx, 0, i); /* its message */
    if (w->sizes) return ZT_OK;
    w->m->done += (double)bytes;
    if (w->m->o.progress) w->m->o.progress(w->m->o.user, w->job->out.name, w->m->done, w->m->all);
    return w->w ? zt_writer_put(w->w, w->out, bytes) : ZT_OK;
}

static zt_status run(merge_work *w, merge_piece_fn *fn, void *arg, bool out)
{
    zt_status s = ZT_OK;
    for (int64_t first = 0; first < w->pieces && s == ZT_OK; first += w->window) {
        int64_t end = first + w->window < w->pieces ? first + w->window : w->pieces;
        pass p = {
            .w = w, .fn = fn, .arg = arg, .out = out, .first = first, .end = end, .next = first};
        if (w->m->o.stop && w->m->o.stop()) return zt_fail(w->m->ctx, ZT_EINTR, "interrupted");
        s = load(w, first);
        if (s != ZT_OK) return s;
        if (w->alone)
            do_pieces(&p, 0, 1);
        else
            zt_pool_run(w->m->pool, do_pieces, &p);
        if (out) s = put(&p);
    }
    return s;
}

zt_status zt_merge_pass(merge_work *w, merge_piece_fn *fn, void *arg)
{
    return run(w, fn, arg, false);
}
zt_status zt_merge_pass_out(merge_work *w, merge_piece_fn *fn, void *arg)
{
    return run(w, fn, arg, true);
}
