/* check.c - every fault of a file, a line each: what its reader refuses, then what is wrong with
 * the values: NaN, infinities, scales of blocks that are neither. */
#include "tools/zt-convert/convert.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct checker {
    job *j;
    zt_checkpoint *c;
    int64_t faults;
    char *in;
    float *f;
} checker;

enum { STEP = 1 << 15 }; /* elements at a time: a multiple of every block */

ZT_PRINTF(2, 3) static zt_status fault(checker *k, const char *fmt, ...)
{
    char text[2048];
    zt_str s;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    zt_str_init(&s, k->j->ctx);
    zt_str_put_escaped(&s, text, strlen(text));
    zt_status st = zt_str_putc(&s, '\n');
    if (st == ZT_OK) st = zt_cli_write(k->j->cli, s.data, s.len);
    zt_str_fini(&s);
    k->faults++;
    return st;
}

/* What the reader said is one; the context is as good as before. false: no fault of the file's. */
static bool refused(checker *k, zt_status *s)
{
    char text[2048];
    if (*s != ZT_EDATA) return false;
    snprintf(text, sizeof text, "%s", zt_ctx_error(k->j->ctx));
    zt_ctx_clear(k->j->ctx);
    *s = fault(k, "%s", text);
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct counts {
    int64_t nan, inf, first; /* first: element; -1: none */
} counts;

static void see(counts *n, double x, int64_t at)
{
    if (isfinite(x)) return;
    n->nan += isnan(x);
    n->inf += !isnan(x);
    if (n->first < 0) n->first = at;
}

/* f64 by itself: what is finite there may not be as f32. */
static void see_values(checker *k, const zt_entry *e, int64_t at, int64_t n, counts *found)
{
    if (e->type.dtype == ZT_F64) {
        for (int64_t i = 0; i < n; i++) {
            double x;
            memcpy(&x, k->in + 8 * i, 8);
            see(found, x, at + i);
        }
        return;
    }
    zt_dtype_convert(e->type.dtype, k->in, ZT_F32, k->f, n);
    for (int64_t i = 0; i < n; i++) see(found, (double)k->f[i], at + i);
}

static zt_status tell(checker *k, const zt_entry *e, const counts *n)
{
    const char *file = zt_checkpoint_name(k->c);
    const zt_dtype_info *d = zt_dtype_get(e->type.dtype);
    if (n->first < 0) return ZT_OK;
    if (d->kind == 'Q')
        return fault(k,
                     "%s: tensor '%s': scales that are NaN or infinite, first in block %" PRId64
                     " (%" PRId64 " values)",
                     file, e->name, n->first / d->block, n->nan + n->inf);
    return fault(
        k, "%s: tensor '%s': %" PRId64 " NaN, %" PRId64 " infinite, first at element %" PRId64,
        file, e->name, n->nan, n->inf, n->first);
}

static zt_status check_values(checker *k, int64_t i, const zt_entry *e)
{
    const zt_dtype_info *d = e->type.dtype < ZT_DTYPE_COUNT ? zt_dtype_get(e->type.dtype) : NULL;
    counts n = {.first = -1};
    bool look = d && e->type.rank >= 0 && (d->kind == 'F' || d->kind == 'Q');
    int64_t left = look ? zt_type_count(&e->type) : (int64_t)e->bytes, at = 0;
    uint64_t byte = 0;
    zt_status s = ZT_OK;
    for (int64_t m; s == ZT_OK && left > 0; left -= m, at += m) {
        m = left < STEP ? left : STEP;
        size_t bytes =
            look ? (size_t)((m + d->block - 1) / d->block) * (size_t)d->block_bytes : (size_t)m;
        s = zt_checkpoint_read(k->c, i, byte, k->in, bytes);
        byte += bytes;
        if (s == ZT_OK && look) see_values(k, e, at, m, &n);
        if (s == ZT_OK) s = job_interrupted(k->j);
    }
    return s == ZT_OK && look ? tell(k, e, &n) : s;
}

/* Does it lie outside of the file? That has been told. */
static bool is_outside(const checker *k, int64_t i, const zt_entry *e)
{
    const zt_source *s;
    uint64_t at;
    return !zt_checkpoint_streams(k->c) && zt_checkpoint_place(k->c, i, &s, &at) &&
           (at > zt_source_size(s) || e->bytes > zt_source_size(s) - at);
}

/* Of a stream nothing can be read behind a fault. */
static zt_status check_tensors(checker *k)
{
    int64_t n = zt_checkpoint_count(k->c);
    bool cut =
        k->faults && zt_checkpoint_streams(k->c); /* data may lie before what has been read */
    zt_status s = k->in && k->f ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; s == ZT_OK && i < n && !(cut && zt_checkpoint_streams(k->c)); i++) {
        zt_entry e;
        zt_checkpoint_get(k->c, i, &e);
        zt_progress(k->j->cli, &(zt_work){"check", e.name, "tensors", (double)i, (double)n});
        s = is_outside(k, i, &e) ? ZT_OK : check_values(k, i, &e);
        cut |= refused(k, &s);
    }
    if (s == ZT_OK && !cut) {
        s = zt_checkpoint_end(k->c);
        refused(k, &s);
    }
    return s;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void listen(void *user, const char *text) { fault(user, "%s", text); }

zt_status job_check(job *j)
{
    checker k = {.j = j};
    const zt_faults all = {.tell = listen, .user = &k};
    zt_status s = zt_faults_listen(j->ctx, &all);
    k.c = s == ZT_OK ? job_open_one(j, j->path[0], ZT_CHECKPOINT_STREAM) : NULL;
    zt_faults_listen(j->ctx, NULL);
    s = k.c && zt_checkpoint_meta(k.c) ? ZT_OK : zt_ctx_status(j->ctx);
    if (s == ZT_OK) {
        k.in = zt_alloc(j->ctx, STEP * 8);
        k.f = zt_alloc_array(j->ctx, STEP, sizeof *k.f);
        s = check_tensors(&k);
    } else {
        refused(&k, &s);
    }
    zt_free(j->ctx, k.in);
    zt_free(j->ctx, k.f);
    zt_checkpoint_close(k.c);
    if (s == ZT_OK && k.faults)
        return zt_fail(j->ctx, ZT_EDATA, "%s: %" PRId64 " fault%s", j->path[0], k.faults,
                       k.faults == 1 ? "" : "s");
    return s;
}
