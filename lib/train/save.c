/* save.c - checkpoints of a run: the states of a trainer and where the run stands.
 *
 * The file, little endian: the head below; every state as it lies in memory; then XXH3-128 of all
 * of that. It is written beside its place and renamed, the one before it kept under another name,
 * so that at any instant a whole one is there. The whole file is checked before any of it is used.
 */
#include "lib/train/fit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC "zt-train"

typedef struct head {
    char magic[8];
    uint32_t version, n_states;
    uint64_t run[2]; /* XXH3-128 of what the run is: the caller's words, the trainer's identity */
    uint64_t bytes;  /* of the whole file */
    zt_fit_state at;
} head;

enum { HASH = 16 };

static void put_hash(const void *bytes, size_t n, uint64_t to[2])
{
    XXH128_hash_t h = XXH3_128bits(bytes, n);
    to[0] = h.low64;
    to[1] = h.high64;
}

static zt_status identify(zt_trainer *t, const char *run, uint64_t id[2])
{
    zt_str s;
    zt_str_init(&s, zt_trainer_ctx(t));
    zt_status st = zt_str_puts(&s, run);
    if (!st) st = zt_str_put(&s, zt_trainer_id(t), 2 * sizeof *id);
    if (!st) put_hash(s.data, s.len, id);
    zt_str_fini(&s);
    return st;
}

static size_t size_of(zt_trainer *t)
{
    size_t all = sizeof(head) + HASH;
    for (int i = 0; i < zt_trainer_n_states(t); i++) {
        zt_type type = zt_trainer_state_type(t, i);
        all += zt_type_bytes(&type);
    }
    return all;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* The whole file in memory; zt_free it. */
static char *compose(zt_trainer *t, const zt_fit_state *p, const char *run, size_t n)
{
    head h = {.version = 1, .n_states = (uint32_t)zt_trainer_n_states(t), .bytes = n, .at = *p};
    zt_ctx *ctx = zt_trainer_ctx(t);
    char *file = zt_alloc(ctx, n), *at = file + sizeof h;
    uint64_t hash[2];
    if (!file) return NULL;
    memcpy(h.magic, MAGIC, sizeof h.magic);
    zt_status s = identify(t, run, h.run);
    memcpy(file, &h, sizeof h);
    for (int i = 0; i < zt_trainer_n_states(t) && !s; i++) {
        zt_type type = zt_trainer_state_type(t, i);
        s = zt_trainer_get(t, i, at);
        at += zt_type_bytes(&type);
    }
    put_hash(file, n - HASH, hash);
    memcpy(at, hash, HASH);
    if (!s) return file;
    zt_free(ctx, file);
    return NULL;
}

/* "ck.before"; zt_free it. */
static char *name_before(zt_ctx *ctx, const char *path)
{
    zt_str s;
    zt_str_init(&s, ctx);
    if (!zt_str_printf(&s, "%s.before", path)) return s.data;
    zt_str_fini(&s);
    return NULL;
}

/* What is at path is at PATH.before too: a link first, so that path is never without a file. */
static zt_status keep_before(zt_ctx *ctx, const char *path)
{
    char *before = name_before(ctx, path), *beside = before ? name_before(ctx, before) : NULL;
    zt_status s = beside ? ZT_OK : ZT_ENOMEM;
    if (!s && access(path, F_OK) == 0) {
        unlink(beside);
        if (link(path, beside) || rename(beside, before))
            s = zt_fail(ctx, ZT_ECREATE, "%s: cannot be made (%m)", before);
    }
    zt_free(ctx, before);
    zt_free(ctx, beside);
    return s;
}

zt_status zt_train_save(zt_trainer *t, const zt_fit_state *p, const char *run, const char *path)
{
    zt_ctx *ctx = zt_trainer_ctx(t);
    size_t n = size_of(t);
    char *file = compose(t, p, run, n);
    if (!file) return zt_ctx_status(ctx);
    zt_sink *sink = zt_sink_open(ctx, path, true);
    zt_status s = sink ? zt_sink_write(sink, file, n) : zt_ctx_status(ctx);
    if (!s) s = keep_before(ctx, path);
    if (!s) s = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_free(ctx, file);
    return s;
}

/* ---- back ------------------------------------------------------------------------------------ */

/* Is the file sound, and of this trainer and run? Messages go to `ctx`, which is one of its own. */
static zt_status check(zt_ctx *ctx, const char *path, const char *file, size_t n, zt_trainer *t,
                       const uint64_t run[2])
{
    head h;
    uint64_t hash[2];
    if (n < sizeof h + HASH || memcmp(file, MAGIC, sizeof h.magic))
        return zt_fail(ctx, ZT_EDATA, "%s: is no checkpoint of a training run", path);
    memcpy(&h, file, sizeof h);
    put_hash(file, n - HASH, hash);
    if (memcmp(hash, file + n - HASH, HASH) || h.bytes != n)
        return zt_fail(ctx, ZT_EDATA,
                       "%s: is damaged: its %zu bytes are not those that were written", path, n);
    if (h.version != 1)
        return zt_fail(ctx, ZT_ENOTSUP, "%s: version %" PRIu32 " of checkpoints", path, h.version);
    if (memcmp(h.run, run, sizeof h.run) || n != size_of(t))
        return zt_fail(ctx, ZT_EUSAGE, "%s: is of another run: model, data or options differ",
                       path);
    return ZT_OK;
}

static zt_status take(zt_trainer *t, const char *file, zt_fit_state *p)
{
    zt_status s = ZT_OK;
    const char *at = file + sizeof(head);
    for (int i = 0; i < zt_trainer_n_states(t) && !s; i++) {
        zt_type type = zt_trainer_state_type(t, i);
        s = zt_trainer_set(t, i, at);
        at += zt_type_bytes(&type);
    }
    if (s) return s;
    *p = ((const head *)(const void *)file)->at;
    zt_trainer_set_steps(t, p->steps);
    return ZT_OK;
}

/* One of the two files. Its faults are told in `own`, those of the trainer in the trainer's. */
static zt_status load_one(zt_trainer *t, zt_fit_state *p, const uint64_t run[2], const char *path,
                          zt_ctx *own)
{
    size_t n;
    char *file = zt_read_all(own, path, &n);
    zt_status s = file ? check(own, path, file, n, t, run) : zt_ctx_status(own);
    if (!s) s = take(t, file, p);
    zt_free(own, file);
    return s;
}

/* What is wrong with the first goes to `why` where the second did, else it is the failure. */
static zt_status judge(zt_ctx *ctx, zt_status first, const char *said, zt_status second,
                       const char *said_too, char **why)
{
    if (first == ZT_ENOENT && second == ZT_ENOENT) return ZT_ENOENT;
    if (first == ZT_ENOENT && second) return zt_fail(ctx, second, "%s", said_too);
    if (second) return zt_fail(ctx, first, "%s", said);
    *why = zt_strdup(ctx, said);
    return *why ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_train_load(zt_trainer *t, zt_fit_state *p, const char *run, const char *path,
                        char **why)
{
    zt_ctx *ctx = zt_trainer_ctx(t), *own = zt_ctx_new(), *more = zt_ctx_new();
    char *before = name_before(ctx, path);
    uint64_t id[2];
    *why = NULL;
    zt_status s = own && more && before ? identify(t, run, id) : ZT_ENOMEM;
    if (!s) s = load_one(t, p, id, path, own);
    if ((s == ZT_EDATA || s == ZT_ENOENT) && !zt_ctx_status(ctx)) {
        zt_status second = load_one(t, p, id, before, more);
        s = judge(ctx, s, zt_ctx_error(own), second, zt_ctx_error(more), why);
    } else if (s && own) {
        s = zt_fail(ctx, s, "%s", zt_ctx_error(own));
    }
    zt_free(ctx, before);
    zt_ctx_free(own);
    zt_ctx_free(more);
    return s;
}
