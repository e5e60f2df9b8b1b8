/* index.c - owns reading an index: which tensor is in which file. */
#include "lib/io/index.h"
#include "lib/io/json.h"

#include <string.h>

enum { MAX_INDEX = 64 << 20 }; /* bytes */

typedef struct reading {
    zt_ctx *ctx;
    const char *path;
    zt_index_fn *fn;
    void *user;
    bool has_map;
} reading;

/* A file of this very folder: nothing that leads elsewhere. */
static bool is_plain_name(const char *name)
{
    return *name && *name != '-' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           !strpbrk(name, "/\\");
}

static zt_status read_mapping(void *user, const char *tensor, const char *text, size_t n)
{
    reading *r = user;
    char buf[160];
    zt_str file;
    zt_str_init(&file, r->ctx);
    zt_status st = zt_json_string(r->ctx, r->path, text, n, &file);
    const char *name = file.data ? file.data : "";
    if (st == ZT_OK && !is_plain_name(name))
        st = zt_fail(r->ctx, ZT_EDATA, "%s: '%s' is not the name of a file beside it", r->path,
                     zt_escape(buf, sizeof buf, name, strlen(name)));
    if (st == ZT_OK)
        st = r->fn(r->user, tensor, name);
    zt_str_fini(&file);
    return st;
}

static zt_status read_member(void *user, const char *key, const char *text, size_t n)
{
    reading *r = user;
    if (strcmp(key, "weight_map") != 0) {
        json_t *j = zt_json_load(r->ctx, r->path, text, n);
        json_decref(j);
        return j ? ZT_OK : zt_ctx_status(r->ctx);
    }
    if (r->has_map)
        return zt_fail(r->ctx, ZT_EDATA, "%s: 'weight_map' is there twice", r->path);
    r->has_map = true;
    return zt_json_members(r->ctx, r->path, text, n, read_mapping, r);
}

zt_status zt_index_read(zt_ctx *ctx, const char *path, zt_index_fn *fn, void *user)
{
    reading r = {.ctx = ctx, .path = path, .fn = fn, .user = user};
    zt_source *in = zt_source_open(ctx, path);
    uint64_t n = in ? zt_source_size(in) : 0;
    zt_status st = in ? ZT_OK : zt_ctx_status(ctx);
    if (n > MAX_INDEX)
        st = zt_fail(ctx, ZT_EDATA, "%s: an index of %llu bytes, %d are allowed", path,
                     (unsigned long long)n, MAX_INDEX);
    char *text = st == ZT_OK ? zt_alloc(ctx, (size_t)n) : NULL;
    if (st == ZT_OK)
        st = text ? zt_source_read(in, 0, text, (size_t)n) : ZT_ENOMEM;
    if (st == ZT_OK)
        st = zt_json_members(ctx, path, text, (size_t)n, read_member, &r);
    zt_free(ctx, text);
    zt_source_close(in);
    if (st == ZT_OK && !r.has_map)
        st = zt_fail(ctx, ZT_EDATA, "%s: there is no 'weight_map': no index of weights", path);
    return st;
}

typedef struct lookup {
    zt_ctx *ctx;
    const char *path;
    const zt_map *there;
} lookup;

static zt_status look_up(void *user, const char *tensor, const char *file)
{
    const lookup *l = user;
    const size_t n = strlen(tensor);
    char a[160], b[160];
    if (zt_map_get(l->there, tensor, n, NULL))
        return ZT_OK;
    return zt_fail(l->ctx, ZT_EDATA, "%s: tensor '%s' is not in %s, where the index has it", l->path,
                   zt_escape(a, sizeof a, tensor, n), zt_escape(b, sizeof b, file, strlen(file)));
}

zt_status zt_index_missing(zt_ctx *ctx, const char *path, const zt_map *there)
{
    lookup l = {.ctx = ctx, .path = path, .there = there};
    return zt_index_read(ctx, path, look_up, &l);
}
