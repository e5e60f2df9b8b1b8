/* checkpoint_parts.c - owns models in several files as one checkpoint: by an index that says which
 * tensor is in which file, or by the files' numbers. GGUF says by its keys which file is which, and
 * has its own way (gguf_shards.c); an index of safetensors is safetensors_index.c's. */
#include "lib/io/checkpoint_file.h"
#include "lib/io/index.h"

#include <string.h>
#include <sys/stat.h>

typedef struct parts {
    zt_ctx *ctx;
    const char *name;     /* of the index, or of the file that was named; the checkpoint's */
    zt_checkpoint **part; /* each alone */
    int64_t n;
    struct where {
        int32_t part;
        int64_t i;
    } * of; /* [n_tensors] tensor -> file, and tensor there */
    int64_t n_tensors;
    zt_map *names;  /* of tensors */
    zt_map *files;  /* of an index: name of a file -> part; NULL: there is none */
    zt_map *wanted; /* tensor -> part */
    zt_arena *texts;
} parts;

/* ---- the reader ------------------------------------------------------------------------------ */

static zt_checkpoint *part_of(const parts *p, int64_t i) { return p->part[p->of[i].part]; }

static int64_t count(const void *user) { return ((const parts *)user)->n_tensors; }

static void get(const void *user, int64_t i, zt_entry *e)
{
    const parts *p = user;
    const zt_checkpoint *c = part_of(p, i);
    c->reader->get(c->user, p->of[i].i, e);
}

static int64_t find(const void *user, const char *name)
{
    return zt_map_find(((const parts *)user)->names, name);
}

static zt_status read_data(void *user, int64_t i, uint64_t offset, void *dst, size_t n)
{
    parts *p = user;
    zt_checkpoint *c = part_of(p, i);
    return c->reader->read(c->user, p->of[i].i, offset, dst, n);
}

static bool place(const void *user, int64_t i, const zt_source **source, uint64_t *offset)
{
    const parts *p = user;
    const zt_checkpoint *c = part_of(p, i);
    return c->reader->place && c->reader->place(c->user, p->of[i].i, source, offset);
}

/* Metadata are the first file's. */
static bool has(const void *user, const char *key)
{
    const zt_checkpoint *c = ((const parts *)user)->part[0];
    return c->reader->has(c->user, key);
}

static zt_status meta(const void *user, zt_meta *to)
{
    const zt_checkpoint *c = ((const parts *)user)->part[0];
    return c->reader->meta(c->user, to);
}

static void close_parts(void *user)
{
    parts *p = user;
    for (int64_t i = 0; i < p->n; i++) zt_checkpoint_close(p->part[i]);
    zt_map_free(p->names);
    zt_map_free(p->files);
    zt_map_free(p->wanted);
    zt_arena_free(p->texts);
    zt_free(p->ctx, p->part);
    zt_free(p->ctx, p->of);
    zt_free(p->ctx, p);
}

static const zt_reader reader = {.count = count,
                                 .get = get,
                                 .find = find,
                                 .read = read_data,
                                 .place = place,
                                 .has = has,
                                 .meta = meta,
                                 .close = close_parts};

/* ---- files ----------------------------------------------------------------------------------- */

static parts *parts_new(zt_checkpoint *c)
{
    parts *p = zt_calloc(c->ctx, 1, sizeof *p);
    if (!p) return NULL;
    p->ctx = c->ctx;
    p->name = c->name;
    p->texts = zt_arena_new(c->ctx, 0);
    p->part = zt_calloc(c->ctx, ZT_MAX_SHARDS, sizeof(zt_checkpoint *));
    if (p->texts && p->part) return p;
    close_parts(p);
    return NULL;
}

/* Takes over the source. */
static zt_status add_part(parts *p, zt_source *s)
{
    zt_checkpoint *c = zt_checkpoint_alone(p->ctx, s);
    if (!c) return zt_ctx_status(p->ctx);
    p->part[p->n++] = c;
    if (c->container == p->part[0]->container) return ZT_OK;
    return zt_fail(p->ctx, ZT_EDATA, "%s and %s: files of one model, and of two containers",
                   p->part[0]->name, c->name);
}

/* Tensor i of file k: no file before it may have it, and where there is an index, it is there. */
static zt_status add_tensor(parts *p, int32_t k, int64_t i)
{
    zt_checkpoint *c = p->part[k];
    char text[160];
    int64_t other;
    zt_entry e;
    c->reader->get(c->user, i, &e);
    size_t n = strlen(e.name);
    if (zt_map_get(p->names, e.name, n, &other))
        return zt_shard_twice(p->ctx, p->part[p->of[other].part]->name, c->name, e.name);
    if (p->wanted && (!zt_map_get(p->wanted, e.name, n, &other) || other != k))
        return zt_fail(p->ctx, ZT_EDATA, "%s: tensor '%s' is in %s, where the index does not have it",
                       p->name, zt_escape(text, sizeof text, e.name, n), c->name);
    p->of[p->n_tensors] = (struct where){.part = k, .i = i};
    return zt_map_put(p->names, e.name, n, p->n_tensors++);
}

static zt_status add_tensors(parts *p)
{
    int64_t all = 0;
    for (int64_t k = 0; k < p->n; k++) all += p->part[k]->reader->count(p->part[k]->user);
    p->of = zt_alloc_array(p->ctx, (size_t)all, sizeof *p->of);
    p->names = zt_map_new(p->ctx, (size_t)all);
    zt_status st = p->of && p->names ? ZT_OK : ZT_ENOMEM;
    for (int32_t k = 0; st == ZT_OK && k < p->n; k++)
        for (int64_t i = 0; st == ZT_OK && i < p->part[k]->reader->count(p->part[k]->user); i++)
            st = add_tensor(p, k, i);
    if (st == ZT_OK && p->wanted && (size_t)p->n_tensors != zt_map_count(p->wanted))
        st = zt_index_missing(p->ctx, p->name, p->names);
    return st;
}

/* Hands p over to c, also on failure. */
static zt_status finish(zt_checkpoint *c, parts *p, zt_status st)
{
    if (st == ZT_OK && p->n == 0)
        st = zt_fail(c->ctx, ZT_EDATA, "%s: an index of no tensors", c->name);
    if (st == ZT_OK) st = add_tensors(p);
    if (st != ZT_OK) {
        close_parts(p);
        return st;
    }
    c->container = p->part[0]->container;
    c->reader = &reader;
    c->user = p;
    c->parts = true;
    return ZT_OK;
}

/* ---- by an index ----------------------------------------------------------------------------- */

/* The number of the file of this name, which is opened when it is met first. */
static zt_status find_part(parts *p, const char *file, int64_t *part)
{
    const char *slash = strrchr(p->name, '/');
    zt_str path;
    if (zt_map_get(p->files, file, strlen(file), part)) return ZT_OK;
    if (p->n == ZT_MAX_SHARDS)
        return zt_fail(p->ctx, ZT_EDATA, "%s: more than %d files", p->name, ZT_MAX_SHARDS);
    zt_str_init(&path, p->ctx);
    zt_status st = zt_str_put(&path, p->name, slash ? (size_t)(slash - p->name) + 1 : 0);
    if (st == ZT_OK) st = zt_str_puts(&path, file);
    zt_source *s = st == ZT_OK ? zt_shard_open(p->ctx, path.data) : NULL;
    zt_str_fini(&path);
    st = s ? add_part(p, s) : zt_ctx_status(p->ctx);
    const char *key = st == ZT_OK ? zt_arena_strndup(p->texts, file, strlen(file)) : NULL;
    if (!key) return st == ZT_OK ? ZT_ENOMEM : st;
    *part = p->n - 1;
    return zt_map_put(p->files, key, strlen(key), *part);
}

static zt_status add_mapping(void *user, const char *tensor, const char *file)
{
    parts *p = user;
    char text[160];
    int64_t part;
    zt_status st = find_part(p, file, &part);
    if (st != ZT_OK) return st;
    if (zt_map_get(p->wanted, tensor, strlen(tensor), NULL))
        return zt_fail(p->ctx, ZT_EDATA, "%s: tensor '%s' is there twice", p->name,
                       zt_escape(text, sizeof text, tensor, strlen(tensor)));
    const char *key = zt_arena_strndup(p->texts, tensor, strlen(tensor));
    return key ? zt_map_put(p->wanted, key, strlen(key), part) : ZT_ENOMEM;
}

/* What an index is of: safetensors, by all names; and whether it has a certain one. */
typedef struct glance {
    const char *file; /* NULL: none is looked for */
    bool found, others, first, safetensors;
} glance;

static zt_status see(void *user, const char *tensor, const char *file)
{
    static const char end[] = ".safetensors";
    glance *g = user;
    size_t n = strlen(file), k = sizeof end - 1;
    (void)tensor;
    g->safetensors = (!g->first || g->safetensors) && n > k && strcmp(file + n - k, end) == 0;
    g->first = true;
    bool same = g->file && strcmp(file, g->file) == 0;
    g->found |= same;
    g->others |= !same;
    return ZT_OK;
}

static zt_status open_index(zt_checkpoint *c, const glance *g)
{
    if (g->safetensors || !g->first) return zt_st_open_index(c);
    parts *p = parts_new(c);
    if (!p) return ZT_ENOMEM;
    p->files = zt_map_new(c->ctx, 16);
    p->wanted = zt_map_new(c->ctx, 256);
    zt_status st = p->files && p->wanted ? zt_index_read(c->ctx, c->name, add_mapping, p) : ZT_ENOMEM;
    return finish(c, p, st);
}

zt_status zt_parts_open_index(zt_checkpoint *c)
{
    glance g = {.file = NULL};
    zt_status st = zt_index_read(c->ctx, c->name, see, &g);
    return st == ZT_OK ? open_index(c, &g) : st;
}

/* ---- by numbers ------------------------------------------------------------------------------ */

static zt_status open_numbered(zt_checkpoint *c, const zt_shard_name *n)
{
    if (n->count > ZT_MAX_SHARDS)
        return zt_fail(c->ctx, ZT_EDATA, "%s: one of %lld files, %d are allowed", c->name,
                       (long long)n->count, ZT_MAX_SHARDS);
    parts *p = parts_new(c);
    zt_status st = p ? ZT_OK : ZT_ENOMEM;
    for (int64_t no = 1; st == ZT_OK && no <= n->count; no++) {
        zt_source *s = zt_shard_open_beside(c->ctx, c->name, n, no);
        st = s ? add_part(p, s) : zt_ctx_status(c->ctx);
    }
    return p ? finish(c, p, st) : st;
}

/* "x-00002-of-00003.safetensors": "x.safetensors.index.json". NULL: no memory. */
static char *index_of(const zt_checkpoint *c, const zt_shard_name *n)
{
    zt_str s;
    zt_str_init(&s, c->ctx);
    if (zt_str_put(&s, c->name, n->stem) == ZT_OK &&
        zt_str_puts(&s, c->name + n->suffix) == ZT_OK && zt_str_puts(&s, ".index.json") == ZT_OK)
        return s.data;
    zt_str_fini(&s);
    return NULL;
}

zt_status zt_parts_open(zt_checkpoint *c, const zt_shard_name *n)
{
    struct stat is;
    const char *slash = strrchr(c->name, '/');
    glance g = {.file = slash ? slash + 1 : c->name};
    char *index = index_of(c, n);
    if (!index) return ZT_ENOMEM;
    if (stat(index, &is) != 0) {
        zt_free(c->ctx, index);
        return open_numbered(c, n);
    }
    zt_status st = zt_index_read(c->ctx, index, see, &g);
    if (st == ZT_OK && !g.found)
        st = zt_fail(c->ctx, ZT_EDATA, "%s: one of several parts of a model, and %s does not name it",
                     c->name, index);
    if (st != ZT_OK) {
        zt_free(c->ctx, index);
        return st;
    }
    zt_free(c->ctx, c->name);
    c->name = index; /* whose files are opened beside it */
    return open_index(c, &g);
}

/* ---- by an index beside it ------------------------------------------------------------------- */

zt_status zt_parts_find_index(const zt_checkpoint *c, char **index)
{
    static const char *const names[] = {"model.safetensors.index.json",
                                        "pytorch_model.bin.index.json"};
    const char *slash = strrchr(c->name, '/');
    const size_t folder = slash ? (size_t)(slash - c->name) + 1 : 0;
    struct stat is;
    zt_str path;
    zt_status st = ZT_OK;
    *index = NULL;
    for (size_t i = 0; st == ZT_OK && !*index && i < sizeof names / sizeof *names; i++) {
        glance g = {.file = c->name + folder};
        zt_str_init(&path, c->ctx);
        st = zt_str_put(&path, c->name, folder);
        if (st == ZT_OK) st = zt_str_puts(&path, names[i]);
        if (st == ZT_OK && stat(path.data, &is) == 0 && S_ISREG(is.st_mode))
            st = zt_index_read(c->ctx, path.data, see, &g);
        if (st == ZT_EDATA) {
            zt_ctx_clear(c->ctx);
            st = ZT_OK;
        } else if (st == ZT_OK && g.found && g.others) {
            *index = path.data;
            continue;
        }
        zt_str_fini(&path);
    }
    return st;
}
