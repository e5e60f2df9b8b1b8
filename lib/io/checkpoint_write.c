/* checkpoint_write.c - owns writing a checkpoint: what is stored as what, one file or shards, and
 * that all of them are there at the end, or none. */
#include "lib/base/sink_count.h"
#include "lib/io/checkpoint_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SHARDS = 1000 };

struct zt_writer {
    zt_ctx *ctx;
    const zt_container *to;
    bool force, anew, counts; /* counts: bytes are counted and not kept */
    zt_arena *texts;
    zt_meta *meta;
    zt_entry *entry; /* as they are stored */
    int64_t n;
    bool hidden; /* entry 0 is the metadata, ours to put */
    zt_part *part;
    int64_t n_parts, current;
    int64_t i;     /* the entry of the current part whose data come next */
    uint64_t left; /* bytes of it that have not come */
    bool open;     /* entry i has been announced */
    char *path;
    zt_status failed;
};

/* ---- what goes into which file --------------------------------------------------------------- */

/* "m.gguf" -> "m-00002-of-00003.gguf" */
static char *shard_path(zt_writer *w, int64_t no)
{
    size_t n = strlen(w->path), k = strlen(w->to->suffix);
    zt_str s;
    zt_str_init(&s, w->ctx);
    if (n > k && strcmp(w->path + n - k, w->to->suffix) == 0) n -= k;
    zt_status st = zt_str_put(&s, w->path, n);
    if (st == ZT_OK)
        st = zt_str_printf(&s, "-%05" PRId64 "-of-%05" PRId64 "%s", no + 1, w->n_parts,
                           w->to->suffix);
    if (st == ZT_OK) return s.data;
    zt_str_fini(&s);
    return NULL;
}

/* The first entry behind those that begin a file at `from`: as many as fit, one at least. */
static int64_t cut(const zt_writer *w, int64_t from, uint64_t most)
{
    uint64_t bytes = 0;
    int64_t i = from;
    for (; i < w->n; i++) {
        if (i > from && (w->entry[i].bytes > most || bytes > most - w->entry[i].bytes)) break;
        bytes += w->entry[i].bytes;
    }
    return i;
}

static zt_status plan(zt_writer *w, uint64_t most)
{
    most = most ? most : UINT64_MAX;
    for (int64_t i = 0; i < w->n; w->n_parts++) i = cut(w, i, most);
    w->n_parts = w->n_parts ? w->n_parts : 1;
    if (w->n_parts > MAX_SHARDS)
        return zt_fail(w->ctx, ZT_EUSAGE, "%s: %lld files, %d are allowed", w->path,
                       (long long)w->n_parts, MAX_SHARDS);
    w->part = zt_calloc(w->ctx, (size_t)w->n_parts, sizeof *w->part);
    if (!w->part) return ZT_ENOMEM;
    for (int64_t k = 0, i = 0, end; k < w->n_parts; k++, i = end) {
        end = cut(w, i, most);
        w->part[k] = (zt_part){.ctx = w->ctx, .entry = w->entry + i, .n = end - i, .align = 1};
        w->part[k].path = w->n_parts > 1 ? shard_path(w, k) : zt_strdup(w->ctx, w->path);
        if (!w->part[k].path) return ZT_ENOMEM;
    }
    return ZT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Metadata as an entry of its own, before the others. */
static zt_status hide_meta(zt_writer *w, zt_str *text)
{
    zt_status st = zt_meta_to_text(w->meta, text);
    if (st != ZT_OK) return st;
    memmove(w->entry + 1, w->entry, (size_t)w->n * sizeof *w->entry);
    w->entry[0] =
        (zt_entry){.name = ZT_KEY_GGUF,
                   .dtype = zt_dtype_get(w->to->bytes)->name,
                   .type = {.dtype = w->to->bytes, .rank = 1, .dim = {(int64_t)text->len}},
                   .bytes = text->len};
    w->n++;
    w->hidden = true;
    return ZT_OK;
}

/* Of one file, meta is looked at while it is opened, and no longer. */
static zt_status take_meta(zt_writer *w, const zt_meta *meta, bool shards)
{
    w->meta = zt_meta_new(w->ctx);
    if (!w->meta || !meta) return w->meta ? ZT_OK : ZT_ENOMEM;
    return shards ? zt_meta_join(w->meta, meta) : zt_meta_share(w->meta, meta);
}

static zt_status prepare(zt_writer *w, const zt_meta *meta, bool shards, const zt_entry *entries,
                         int64_t n, zt_str *text)
{
    w->texts = zt_arena_new(w->ctx, 0);
    w->entry = zt_alloc_array(w->ctx, (size_t)n + 1, sizeof *w->entry);
    w->n = n;
    zt_status st = w->texts && w->entry ? take_meta(w, meta, shards) : ZT_ENOMEM;
    if (st == ZT_OK) st = zt_mask_entries(w->ctx, w->texts, w->to, entries, n, w->entry, w->meta);
    if (st == ZT_OK) st = zt_fit_meta(w->to, &w->meta);
    bool hides = !w->to->can_meta && zt_meta_count(w->meta) > 0;
    return st == ZT_OK && hides ? hide_meta(w, text) : st;
}

/* Out at once: who reads a pipe may begin. */
static zt_status put_header(zt_writer *w, zt_part *p, const zt_meta *m)
{
    size_t n;
    if (!w->to->ops->header) return w->to->ops->begin(p, m);
    char *header = w->to->ops->header(p, m, 0, &n);
    zt_status st = header ? zt_sink_write(p->sink, header, n) : zt_ctx_status(w->ctx);
    if (st == ZT_OK) st = zt_sink_write(p->sink, NULL, 0);
    zt_free(w->ctx, header);
    return st;
}

/* Metadata of a shard: all in the first one, where the container tells shards apart. */
static zt_status begin_part(zt_writer *w, int64_t k)
{
    zt_meta *m = w->meta, *own = NULL;
    zt_status st = ZT_OK;
    if (w->n_parts > 1) {
        m = own = zt_meta_new(w->ctx);
        st = own ? ZT_OK : ZT_ENOMEM;
        if (st == ZT_OK && (k == 0 || !w->to->shard_meta)) st = zt_meta_share(own, w->meta);
        if (st == ZT_OK && w->to->shard_meta) st = w->to->shard_meta(own, k, w->n_parts, w->n);
    }
    zt_part *p = &w->part[k];
    if (st == ZT_OK) {
        p->sink = w->counts ? zt_sink_count(w->ctx)
                  : w->anew ? zt_sink_open_anew(w->ctx, p->path)
                            : zt_sink_open(w->ctx, p->path, w->force);
        st = p->sink ? put_header(w, p, m) : zt_ctx_status(w->ctx);
    }
    zt_meta_free(own);
    return st;
}

static zt_status advance(zt_writer *w);

static zt_status start(zt_writer *w, const zt_checkpoint_opts *o, const zt_meta *meta,
                       const zt_entry *entries, int64_t n)
{
    zt_str text;
    zt_str_init(&text, w->ctx);
    zt_status st = prepare(w, meta, o->shard > 0, entries, n, &text);
    if (st == ZT_OK) st = plan(w, o->shard);
    if (st == ZT_OK) st = begin_part(w, 0);
    if (st == ZT_OK) st = advance(w);
    if (st == ZT_OK && w->hidden) st = zt_writer_put(w, text.data, text.len);
    zt_str_fini(&text);
    return st;
}

static zt_writer *writer_open(zt_ctx *ctx, const char *path, const zt_checkpoint_opts *o,
                              const zt_meta *meta, const zt_entry *entries, int64_t n, bool counts)
{
    zt_writer *w = zt_calloc(ctx, 1, sizeof *w);
    if (!w) return NULL;
    *w = (zt_writer){.ctx = ctx, .to = o->to, .force = o->force, .anew = o->anew, .counts = counts,
                      .i = -1};
    if (!w->to) w->to = zt_container_for(path);
    if (!w->to) w->to = &zt_container_gguf;
    w->path = zt_strdup(ctx, path);
    zt_status st = w->path ? ZT_OK : ZT_ENOMEM;
    if (st == ZT_OK && !w->to->ops)
        st = zt_fail(ctx, ZT_ENOTSUP, "%s: %s is not written", path, w->to->name);
    if (st == ZT_OK && o->shard && !w->to->shards)
        st = zt_fail(ctx, ZT_EUSAGE, "%s: %s has no shards", path, w->to->name);
    if (st == ZT_OK && o->shard && strcmp(path, "-") == 0)
        st = zt_fail(ctx, ZT_EUSAGE, "shards are files: they do not go to stdout");
    if (st == ZT_OK && start(w, o, meta, entries, n) == ZT_OK) return w;
    zt_writer_close(w);
    return NULL;
}

zt_writer *zt_writer_open(zt_ctx *ctx, const char *path, const zt_checkpoint_opts *o,
                          const zt_meta *meta, const zt_entry *entries, int64_t n)
{
    return writer_open(ctx, path, o, meta, entries, n, false);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* To the next entry that has bytes, announcing all on the way; in the last part past the last. */
static zt_status advance(zt_writer *w)
{
    zt_status st = ZT_OK;
    while (st == ZT_OK && w->left == 0) {
        zt_part *p = &w->part[w->current];
        if (w->i + 1 < p->n) {
            w->i++;
            w->left = p->entry[w->i].bytes;
            st = w->to->ops->tensor ? w->to->ops->tensor(p, w->i) : ZT_OK;
        } else if (w->current + 1 < w->n_parts) {
            st = w->to->ops->end ? w->to->ops->end(p) : ZT_OK;
            w->i = -1;
            w->current++;
            st = st == ZT_OK ? begin_part(w, w->current) : st;
        } else {
            w->i = p->n;
            break;
        }
    }
    return w->failed = st;
}

static zt_status too_many(zt_writer *w)
{
    return w->failed = zt_fail(w->ctx, ZT_EBUG, "%s: more data than its tensors have", w->path);
}

zt_status zt_writer_put(zt_writer *w, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n && !w->failed) {
        zt_part *part = &w->part[w->current];
        size_t k = n < w->left ? n : (size_t)w->left;
        if (k == 0) return too_many(w);
        w->failed = w->to->ops->put ? w->to->ops->put(part, p, k) : zt_sink_write(part->sink, p, k);
        w->left -= k;
        p += k;
        n -= k;
        if (!w->failed) advance(w);
    }
    return w->failed;
}

/* Where the container changes what it is given, the bytes pass through memory. */
static zt_status copy_some(zt_writer *w, const zt_source *s, uint64_t offset, uint64_t n)
{
    enum { STEP = 1 << 18 };
    zt_part *part = &w->part[w->current];
    if (!w->to->ops->put) return zt_sink_copy(part->sink, s, offset, n);
    char *buf = zt_alloc(w->ctx, STEP);
    zt_status st = buf ? ZT_OK : ZT_ENOMEM;
    for (size_t k; st == ZT_OK && n; offset += k, n -= k) {
        k = n < STEP ? (size_t)n : STEP;
        st = zt_source_read(s, offset, buf, k);
        if (st == ZT_OK) st = w->to->ops->put(part, buf, k);
    }
    zt_free(w->ctx, buf);
    return st;
}

bool zt_writer_seamless(const zt_writer *w) { return !w->to->ops->put && !w->to->ops->tensor; }

/* Of the next n bytes, those that go out at once: the entry's; or the file's. */
static uint64_t at_once(const zt_writer *w, uint64_t n)
{
    const zt_part *p = &w->part[w->current];
    uint64_t k = n < w->left ? n : w->left;
    for (int64_t i = w->i + 1; k < n && i < p->n && zt_writer_seamless(w); i++)
        k += n - k < p->entry[i].bytes ? n - k : p->entry[i].bytes;
    return k;
}

/* k bytes of the file have been put. */
static void pass(zt_writer *w, uint64_t k)
{
    while (k && !w->failed) {
        uint64_t step = k < w->left ? k : w->left;
        w->left -= step;
        k -= step;
        advance(w);
    }
}

zt_status zt_writer_copy(zt_writer *w, const zt_source *s, uint64_t offset, uint64_t n)
{
    while (n && !w->failed) {
        uint64_t k = at_once(w, n);
        if (k == 0) return too_many(w);
        w->failed = copy_some(w, s, offset, k);
        offset += k;
        n -= k;
        pass(w, k);
    }
    return w->failed;
}

/* ---- the end --------------------------------------------------------------------------------- */

static char *with_suffix(zt_writer *w, const char *suffix)
{
    size_t n = strlen(w->path), k = strlen(w->to->suffix);
    zt_str s;
    zt_str_init(&s, w->ctx);
    if (n > k && strcmp(w->path + n - k, w->to->suffix) == 0) n -= k;
    if (zt_str_put(&s, w->path, n) == ZT_OK && zt_str_puts(&s, suffix) == ZT_OK) return s.data;
    zt_str_fini(&s);
    return NULL;
}

static zt_status write_index(zt_writer *w)
{
    size_t n;
    char *path = with_suffix(w, w->to->index_suffix);
    char *text = path ? w->to->index(w->ctx, w->part, w->n_parts, &n) : NULL;
    zt_sink *s = text ? zt_sink_open(w->ctx, path, w->force) : NULL;
    zt_status st = s ? zt_sink_write(s, text, n) : zt_ctx_status(w->ctx);
    if (st == ZT_OK) st = zt_sink_commit(s);
    zt_sink_close(s);
    zt_free(w->ctx, text);
    zt_free(w->ctx, path);
    return st;
}

/* Files get their names one after the other; when one fails, those that have theirs go again,
 * unless they took the place of another. */
static zt_status name_all(zt_writer *w)
{
    zt_status st = ZT_OK;
    int64_t k = 0;
    for (; st == ZT_OK && k < w->n_parts; k++) st = zt_sink_commit(w->part[k].sink);
    if (st == ZT_OK && w->to->index && w->n_parts > 1) st = write_index(w);
    for (int64_t i = 0; st != ZT_OK && !w->force && i < k - 1; i++) unlink(w->part[i].path);
    return st;
}

zt_status zt_writer_commit(zt_writer *w)
{
    if (w->failed) return w->failed;
    zt_part *p = &w->part[w->current];
    if (w->left || w->current + 1 != w->n_parts || w->i != p->n)
        return w->failed = zt_fail(w->ctx, ZT_EBUG, "%s: less data than its tensors have", w->path);
    zt_status st = w->to->ops->end ? w->to->ops->end(p) : ZT_OK;
    return w->failed = st == ZT_OK ? name_all(w) : st;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* All data, of zeros. */
static zt_status put_zeros(zt_writer *w)
{
    enum { STEP = 1 << 18 };
    char *zeros = zt_calloc(w->ctx, STEP, 1);
    zt_status st = zeros ? ZT_OK : ZT_ENOMEM;
    while (st == ZT_OK && w->left > 0)
        st = zt_writer_put(w, zeros, w->left < STEP ? (size_t)w->left : STEP);
    zt_free(w->ctx, zeros);
    zt_part *p = &w->part[w->current];
    return st == ZT_OK && w->to->ops->end ? w->to->ops->end(p) : st;
}

uint64_t zt_writer_bytes(zt_ctx *ctx, const char *path, const zt_checkpoint_opts *o,
                         const zt_meta *meta, const zt_entry *entries, int64_t n)
{
    uint64_t sum = 0;
    zt_writer *w = writer_open(ctx, path, o, meta, entries, n, true);
    if (w && put_zeros(w) == ZT_OK)
        for (int64_t k = 0; k < w->n_parts; k++) sum += zt_sink_counted(w->part[k].sink);
    zt_writer_close(w);
    return sum;
}

void zt_writer_close(zt_writer *w)
{
    if (!w) return;
    for (int64_t k = 0; w->part && k < w->n_parts; k++) {
        if (w->to->ops->close) w->to->ops->close(&w->part[k]);
        zt_sink_close(w->part[k].sink);
        zt_free(w->ctx, w->part[k].path);
    }
    zt_free(w->ctx, w->part);
    zt_free(w->ctx, w->entry);
    zt_meta_free(w->meta);
    zt_arena_free(w->texts);
    zt_free(w->ctx, w->path);
    zt_free(w->ctx, w);
}
