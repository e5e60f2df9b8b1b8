/* hf_weights.c - owns finding the weights of a Hugging Face directory. */
#include "lib/io/index.h"
#include "lib/io/shards.h"
#include "lib/llm/hf/hf.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

/* What weights may be called, what comes first is taken: transformers' order, then names that it does
 * not know and that leave no choice. */
typedef struct place {
    const char *prefix, *suffix; /* a name of these two ends, whatever is between them */
    bool exact;                  /* nothing is */
    bool part;                   /* what is, are the numbers of one of several files */
} place;

static const place places[] = {
    {"model", ".safetensors", .exact = true},
    {"model", ".safetensors.index.json", .exact = true},
    {"model-", ".safetensors", .part = true},
    {"", ".safetensors.index.json", .exact = false},
    {"model", ".safetensors", .exact = false},
    {"pytorch_model", ".bin", .exact = true},
    {"pytorch_model", ".bin.index.json", .exact = true},
    {"pytorch_model-", ".bin", .part = true},
};

enum { N_PLACES = sizeof places / sizeof *places };

static bool fits(const place *p, const char *name)
{
    size_t n = strlen(name), a = strlen(p->prefix), b = strlen(p->suffix);
    zt_shard_name part;
    return n >= a + b && (p->exact ? n == a + b : n > a + b) && memcmp(name, p->prefix, a) == 0 &&
           memcmp(name + n - b, p->suffix, b) == 0 && zt_shard_parse(name, &part) == p->part;
}

/* Are two names files of one model in several? */
static bool same_model(const char *a, const char *b)
{
    zt_shard_name x, y;
    return zt_shard_parse(a, &x) && zt_shard_parse(b, &y) && x.stem == y.stem &&
           x.count == y.count && memcmp(a, b, x.stem) == 0;
}

/* The file that fits, the first by name where several are one model; "" where there is none. Two
 * models are ZT_EDATA. */
static zt_status choose(hf *m, const place *p, zt_str *found)
{
    char a[120], b[120];
    DIR *d = opendir(m->folder.data);
    zt_status s = ZT_OK;
    zt_str_clear(found);
    if (!d)
        return zt_fail(m->ctx, ZT_ENOENT, "%s: %s", m->path, strerror(errno));
    for (struct dirent *e; s == ZT_OK && (e = readdir(d));) {
        if (!fits(p, e->d_name))
            continue;
        if (found->len && !same_model(found->data, e->d_name))
            s = zt_fail(m->ctx, ZT_EDATA, "%s: %s or %s may be the weights: name one of them",
                        m->path, zt_escape(a, sizeof a, found->data, found->len),
                        zt_escape(b, sizeof b, e->d_name, strlen(e->d_name)));
        if (s == ZT_OK && (!found->len || strcmp(e->d_name, found->data) < 0)) {
            zt_str_clear(found);
            s = zt_str_puts(found, e->d_name);
        }
    }
    closedir(d);
    return s;
}

zt_status zt_hf_no_weights(hf *m)
{
    zt_str names;
    zt_str_init(&names, m->ctx);
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < N_PLACES; i++)
        s = zt_str_printf(&names, "%s%s%s%s", i ? ", " : "", places[i].prefix,
                          places[i].exact ? "" : "*", places[i].suffix);
    if (s == ZT_OK)
        s = zt_fail(m->ctx, ZT_ENOENT, "%s: no weights%s: looked for %s", m->path,
                    zt_hf_has_file(m, "adapter_config.json") ? " but an adapter's (--lora)" : "",
                    names.data);
    zt_str_fini(&names);
    return s;
}

static zt_checkpoint *open_found(hf *m, const char *name)
{
    const char *path = zt_hf_file(m, name), *dot = strrchr(name, '.');
    bool index = dot && strcmp(dot, ".json") == 0;
    if (!path || index)
        return path ? zt_checkpoint_open_index(m->ctx, path) : NULL;
    zt_source *s = zt_shard_open(m->ctx, path);
    return zt_checkpoint_take(m->ctx, s);
}

typedef struct beside {
    hf *m;
    const zt_checkpoint *weights;
    bool lacking;
} beside;

static zt_status look_up(void *user, const char *tensor, const char *file)
{
    beside *b = user;
    const char *name = zt_checkpoint_name(b->weights);
    char text[160];
    if (zt_checkpoint_find(b->weights, tensor) >= 0 || !zt_hf_has_file(b->m, file))
        return ZT_OK;
    b->lacking = true;
    return zt_fail(b->m->ctx, ZT_EDATA,
                   "%s: there is no tensor '%s', which the index beside it has in %s: two models, or "
                   "half of one; name the index or move one away",
                   name, zt_escape(text, sizeof text, tensor, strlen(tensor)),
                   zt_hf_file(b->m, file));
}

/* Weights in one file go before an index of several, as transformers has it. Where the index's files
 * have a tensor that the one file lacks, half a model would be read. An index that cannot be read, or
 * whose files are gone, says nothing. */
static zt_status check_beside(hf *m, const zt_checkpoint *c, const char *name)
{
    beside b = {.m = m, .weights = c};
    zt_str path;
    zt_str_init(&path, m->ctx);
    zt_status s = zt_str_printf(&path, "%s.index.json", name);
    bool there = s == ZT_OK && zt_hf_has_file(m, path.data);
    zt_str_clear(&path);
    if (there)
        s = zt_str_printf(&path, "%s%s.index.json", m->folder.data, name);
    if (there && s == ZT_OK)
        s = zt_index_read(m->ctx, path.data, look_up, &b);
    zt_str_fini(&path);
    if (s != ZT_EDATA || b.lacking)
        return s;
    zt_ctx_clear(m->ctx);
    return ZT_OK;
}

zt_checkpoint *zt_hf_open_weights(hf *m, zt_status *status)
{
    zt_checkpoint *c = NULL;
    zt_str name;
    zt_str_init(&name, m->ctx);
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && !name.len && i < N_PLACES; i++)
        s = choose(m, &places[i], &name);
    if (s == ZT_OK && name.len) {
        c = open_found(m, name.data);
        s = c ? check_beside(m, c, name.data) : zt_ctx_status(m->ctx);
    }
    zt_str_fini(&name);
    if (s != ZT_OK) {
        zt_checkpoint_close(c);
        c = NULL;
    }
    *status = s;
    return c;
}
