/* checkpoint.c - owns the table of containers, and reading: what a file is, its tensors by number
 * and name. */
#include "lib/base/foreign.h"
#include "lib/io/checkpoint_file.h"

#include <string.h>

/* In the order in which they are asked whether a file is theirs. */
static const zt_container *const containers[] = {
    &zt_container_gguf, &zt_container_safetensors, &zt_container_npz,  &zt_container_npy,
    &zt_container_pt,   &zt_container_json,        &zt_container_index};

enum { N_CONTAINERS = sizeof containers / sizeof *containers };

/* ---- containers ------------------------------------------------------------------------------ */

const zt_container *zt_container_at(int i)
{
    return i >= 0 && i < N_CONTAINERS ? containers[i] : NULL;
}

const zt_container *zt_container_named(const char *name)
{
    for (int i = 0; i < N_CONTAINERS; i++)
        if (strcmp(containers[i]->name, name) == 0) return containers[i];
    return NULL;
}

const zt_container *zt_container_for(const char *path)
{
    static const struct {
        const char *suffix;
        const zt_container *container;
    } also[] = {{".pth", &zt_container_pt}, {".bin", &zt_container_pt}};
    size_t n = strlen(path);
    for (int i = 0; i < N_CONTAINERS; i++) {
        size_t k = strlen(containers[i]->suffix);
        if (n > k && strcmp(path + n - k, containers[i]->suffix) == 0) return containers[i];
    }
    for (size_t i = 0; i < sizeof also / sizeof *also; i++) {
        size_t k = strlen(also[i].suffix);
        if (n > k && strcmp(path + n - k, also[i].suffix) == 0) return also[i].container;
    }
    return NULL;
}

const char *zt_container_name(const zt_container *c) { return c->name; }

bool zt_container_writes(const zt_container *c) { return c->ops != NULL; }

/* ---- opening --------------------------------------------------------------------------------- */

static zt_checkpoint *checkpoint_new(zt_ctx *ctx, const char *name)
{
    zt_checkpoint *c = zt_calloc(ctx, 1, sizeof *c);
    if (!c) return NULL;
    c->ctx = ctx;
    c->hidden = -1;
    c->name = zt_strdup(ctx, name);
    if (c->name) return c;
    zt_free(ctx, c);
    return NULL;
}

void zt_checkpoint_close(zt_checkpoint *c)
{
    if (!c) return;
    if (c->user) c->reader->close(c->user);
    zt_meta_free(c->meta);
    zt_map_free(c->masks);
    zt_free(c->ctx, c->mask_of);
    zt_free(c->ctx, c->mask);
    zt_arena_free(c->texts);
    zt_free(c->ctx, c->name);
    zt_free(c->ctx, c);
}

/* Does a file begin as SentencePiece's does: a message of a piece, of a text? */
static bool is_vocabulary(const unsigned char *p, size_t n)
{
    enum { PIECES = 1 << 3 | 2, TEXT = 1 << 3 | 2 }; /* protobuf: field 1, by its length */
    return n >= 4 && p[0] == PIECES && p[1] > 2 && p[p[1] < 128 ? 2 : 3] == TEXT;
}

/* By the first bytes, which a stream gets back; where they say nothing, by the name, so that the
 * reader tells what is wrong. */
static zt_status find_container(zt_checkpoint *c, zt_source *s)
{
    unsigned char head[ZT_PROBE];
    size_t n;
    zt_status st = zt_source_read_some(s, 0, head, sizeof head, sizeof head, &n);
    if (st == ZT_OK) st = zt_source_unread(s, head, n);
    if (st != ZT_OK) return st;
    for (int i = 0; i < N_CONTAINERS && !c->container; i++)
        if (containers[i]->probe(head, n, zt_source_size(s))) c->container = containers[i];
    if (!c->container) st = zt_foreign_fail(c->ctx, c->name, head, n);
    if (st != ZT_OK) return st;
    if (!c->container) c->container = zt_container_for(c->name);
    if (c->container) return ZT_OK;
    char text[64];
    if (n == 0) return zt_fail(c->ctx, ZT_EDATA, "%s: empty file", c->name);
    if (is_vocabulary(head, n))
        return zt_fail(c->ctx, ZT_EDATA,
                       "%s: a SentencePiece vocabulary (tokenizer.model), without weights: name the "
                       "directory of its model",
                       c->name);
    return zt_fail(c->ctx, ZT_EDATA, "%s: no container of a model begins with '%s'", c->name,
                   zt_escape(text, sizeof text, (const char *)head, n < 8 ? n : 8));
}

/* Is it a file of a container whose files may be parts of a model, by their names or an index? */
static bool may_be_part(const zt_checkpoint *c, const zt_source *s)
{
    return !c->alone && zt_source_fd(s) >= 0 && c->container->numbered && c->container->numbered(s);
}

/* By its index, whose name the checkpoint takes. */
static zt_status open_indexed(zt_checkpoint *c, char *index)
{
    zt_free(c->ctx, c->name);
    c->name = index;
    return zt_parts_open_index(c);
}

/* Takes over the source. */
static zt_status open_source(zt_checkpoint *c, zt_source *s)
{
    zt_shard_name part;
    char *index = NULL;
    zt_status st = find_container(c, s);
    bool may = st == ZT_OK && may_be_part(c, s);
    bool numbered = may && zt_shard_parse(c->name, &part) && part.count > 1;
    if (may && !numbered) st = zt_parts_find_index(c, &index);
    if (st == ZT_OK && (numbered || index)) {
        zt_source_close(s);
        st = index ? open_indexed(c, index) : zt_parts_open(c, &part);
        return st == ZT_OK ? zt_checkpoint_unmask(c) : st;
    }
    if (st == ZT_OK && !c->container->streams) st = zt_source_spool(s);
    if (st != ZT_OK) {
        zt_source_close(s);
        return st;
    }
    c->streams = zt_source_streams(s);
    st = c->container->open(c, s);
    return st == ZT_OK && !c->alone ? zt_checkpoint_unmask(c) : st;
}

zt_checkpoint *zt_checkpoint_open(zt_ctx *ctx, const char *path, unsigned flags)
{
    return zt_checkpoint_take(ctx, flags & ZT_CHECKPOINT_STREAM ? zt_source_open_stream(ctx, path)
                                                                : zt_source_open(ctx, path));
}

zt_checkpoint *zt_checkpoint_open_index(zt_ctx *ctx, const char *path)
{
    zt_checkpoint *c = checkpoint_new(ctx, path);
    if (c && zt_parts_open_index(c) == ZT_OK && zt_checkpoint_unmask(c) == ZT_OK) return c;
    zt_checkpoint_close(c);
    return NULL;
}

zt_checkpoint *zt_checkpoint_over(zt_ctx *ctx, const char *name, const zt_container *container,
                                  const zt_reader *reader, void *user)
{
    zt_checkpoint *c = checkpoint_new(ctx, name);
    if (!c) {
        reader->close(user);
        return NULL;
    }
    c->container = container;
    c->reader = reader;
    c->user = user;
    c->parts = true;
    if (zt_checkpoint_unmask(c) == ZT_OK) return c;
    zt_checkpoint_close(c);
    return NULL;
}

static zt_checkpoint *take(zt_ctx *ctx, zt_source *s, bool alone)
{
    zt_checkpoint *c = s ? checkpoint_new(ctx, zt_source_name(s)) : NULL;
    if (!c) {
        zt_source_close(s);
        return NULL;
    }
    c->alone = alone;
    if (open_source(c, s) == ZT_OK) return c;
    zt_checkpoint_close(c);
    return NULL;
}

zt_checkpoint *zt_checkpoint_take(zt_ctx *ctx, zt_source *s) { return take(ctx, s, false); }

zt_checkpoint *zt_checkpoint_alone(zt_ctx *ctx, zt_source *s) { return take(ctx, s, true); }

/* ---- what is there --------------------------------------------------------------------------- */

const char *zt_checkpoint_name(const zt_checkpoint *c) { return c->name; }

const zt_container *zt_checkpoint_container(const zt_checkpoint *c) { return c->container; }

bool zt_checkpoint_streams(const zt_checkpoint *c) { return c->streams; }

bool zt_checkpoint_in_parts(const zt_checkpoint *c) { return c->parts; }

zt_meta *zt_checkpoint_meta(zt_checkpoint *c)
{
    if (c->meta) return c->meta;
    zt_meta *m = zt_meta_new(c->ctx);
    if (m && c->reader->meta(c->user, m) == ZT_OK) return c->meta = m;
    zt_meta_free(m);
    return NULL;
}

int64_t zt_checkpoint_count(const zt_checkpoint *c)
{
    return c->reader->count(c->user) - (c->hidden >= 0);
}

/* Number of what is stored. */
static int64_t stored(const zt_checkpoint *c, int64_t i)
{
    return c->hidden >= 0 && i >= c->hidden ? i + 1 : i;
}

void zt_checkpoint_get(const zt_checkpoint *c, int64_t i, zt_entry *e)
{
    i = stored(c, i);
    c->reader->get(c->user, i, e);
    if (!c->mask_of || c->mask_of[i] < 0) return;
    const zt_mask *m = &c->mask[c->mask_of[i]];
    e->name = m->name;
    e->dtype = m->dtype;
    e->type = m->type;
}

int64_t zt_checkpoint_find(const zt_checkpoint *c, const char *name)
{
    int64_t i;
    if (!c->masks || !zt_map_get(c->masks, name, strlen(name), &i)) {
        i = c->reader->find(c->user, name);
        if (i >= 0 && c->mask_of && c->mask_of[i] >= 0) return -1;
    }
    return i < 0 || i == c->hidden ? -1 : c->hidden >= 0 && i > c->hidden ? i - 1 : i;
}

zt_status zt_checkpoint_read(zt_checkpoint *c, int64_t i, uint64_t offset, void *dst, size_t n)
{
    return c->reader->read(c->user, stored(c, i), offset, dst, n);
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    zt_checkpoint *c = user;
    zt_entry e;
    *handle = zt_checkpoint_find(c, name);
    if (*handle < 0) return ZT_ENOENT;
    zt_checkpoint_get(c, *handle, &e);
    *type = e.type;
    if (e.type.dtype != ZT_DTYPE_COUNT && e.type.rank >= 0) return ZT_OK;
    return zt_fail(c->ctx, ZT_ENOTSUP, "%s: tensor '%s' is of a type or rank that zt lacks (%s)",
                   zt_checkpoint_name(c), e.name, e.dtype);
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    return zt_checkpoint_read(user, handle, offset, dst, n);
}

zt_store zt_checkpoint_store(zt_checkpoint *c)
{
    return (zt_store){.user = c, .find = store_find, .read = store_read};
}

bool zt_checkpoint_place(const zt_checkpoint *c, int64_t i, const zt_source **source,
                         uint64_t *offset)
{
    return c->reader->place && c->reader->place(c->user, stored(c, i), source, offset);
}

zt_status zt_checkpoint_end(zt_checkpoint *c)
{
    return c->streams && c->reader->end ? c->reader->end(c->user) : ZT_OK;
}

/* ---- as a GGUF ------------------------------------------------------------------------------- */

typedef struct over {
    zt_checkpoint *c;
    int64_t *of; /* tensor of the GGUF -> of the checkpoint */
} over;

static zt_status over_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    over *o = user;
    return zt_checkpoint_read(o->c, o->of[handle], offset, dst, n);
}

static void over_release(void *user)
{
    over *o = user;
    zt_ctx *ctx = o->c->ctx;
    zt_free(ctx, o->of);
    zt_checkpoint_close(o->c);
    zt_free(ctx, o);
}

static zt_status put_all(zt_gguf_writer *w, over *o)
{
    const zt_meta *m = zt_checkpoint_meta(o->c);
    int64_t n = zt_checkpoint_count(o->c), used = 0;
    zt_status st = m ? zt_gguf_put_keys(w, m) : zt_ctx_status(o->c->ctx);
    for (int64_t i = 0; st == ZT_OK && i < n; i++) {
        zt_entry e;
        zt_checkpoint_get(o->c, i, &e);
        if (!zt_gguf_can(e.name, e.dtype, e.type.rank)) continue;
        o->of[used++] = i;
        st = zt_gguf_put_tensor_word(w, e.name, e.dtype, e.type.rank, e.type.dim);
    }
    return st;
}

zt_gguf *zt_checkpoint_gguf(zt_checkpoint *c)
{
    size_t bytes, n = (size_t)zt_checkpoint_count(c);
    uint64_t data;
    char *header = NULL;
    over *o = zt_calloc(c->ctx, 1, sizeof *o);
    if (!o) {
        zt_checkpoint_close(c);
        return NULL;
    }
    o->c = c;
    o->of = zt_alloc_array(c->ctx, n, sizeof *o->of);
    zt_gguf_writer *w = zt_gguf_writer_new(c->ctx);
    if (w && o->of && put_all(w, o) == ZT_OK) header = zt_gguf_writer_finish(w, &bytes, &data);
    zt_gguf_writer_free(w);
    if (header)
        return zt_gguf_over(c->ctx, c->name, header, bytes, data,
                            &(zt_store){.user = o, .read = over_read}, over_release);
    over_release(o);
    return NULL;
}
