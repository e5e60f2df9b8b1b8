/* context.c - the context: the sticky error, things by name, the log and the metrics. */
#include "lib/base/internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

zt_ctx *zt_ctx_new(void)
{
    zt_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return NULL;
    if (pthread_mutex_init(&ctx->lock, NULL)) {
        free(ctx);
        return NULL;
    }
    atomic_init(&ctx->status, ZT_OK);
    return ctx;
}

void zt_ctx_free(zt_ctx *ctx)
{
    if (!ctx)
        return;
    for (zt_thing *t = ctx->things, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    pthread_mutex_destroy(&ctx->lock);
    free(ctx);
}

/* ---- the error ------------------------------------------------------------------------------- */

/* A message that was cut says so with its last three characters. */
static void format(char *buf, size_t bytes, const char *fmt, va_list ap)
{
    int n = vsnprintf(buf, bytes, fmt, ap);
    if (n < 0)
        buf[0] = '\0';
    else if ((size_t)n >= bytes)
        memcpy(buf + bytes - 4, "...", 4);
}

zt_status zt_fail(zt_ctx *ctx, zt_status s, const char *fmt, ...)
{
    va_list ap;
    if (!ctx)
        return s;
    va_start(ap, fmt);
    pthread_mutex_lock(&ctx->lock);
    if (atomic_load_explicit(&ctx->status, memory_order_relaxed) == ZT_OK) {
        format(ctx->error, sizeof ctx->error, fmt, ap);
        atomic_store_explicit(&ctx->status, s, memory_order_release);
    }
    pthread_mutex_unlock(&ctx->lock);
    va_end(ap);
    return s;
}

zt_status zt_ctx_status(const zt_ctx *ctx)
{
    return (zt_status)atomic_load_explicit(&((zt_ctx *)ctx)->status, memory_order_acquire);
}

const char *zt_ctx_error(const zt_ctx *ctx)
{
    return zt_ctx_status(ctx) == ZT_OK ? "" : ctx->error;
}

void zt_ctx_clear(zt_ctx *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    atomic_store_explicit(&ctx->status, ZT_OK, memory_order_release);
    pthread_mutex_unlock(&ctx->lock);
}

const char *zt_status_name(zt_status s)
{
    static const char *const name[ZT_STATUS_COUNT] = {
        [ZT_OK] = "ok",
        [ZT_EUSAGE] = "wrong usage",
        [ZT_EDATA] = "bad data",
        [ZT_ESHAPE] = "shapes do not fit",
        [ZT_ENOENT] = "no such input",
        [ZT_ENOTSUP] = "not supported",
        [ZT_EBUG] = "internal error",
        [ZT_ESYS] = "system error",
        [ZT_ECREATE] = "cannot create the output",
        [ZT_EIO] = "input or output error",
        [ZT_ENOMEM] = "out of memory",
        [ZT_EINTR] = "interrupted",
    };
    return (unsigned)s < ZT_STATUS_COUNT ? name[s] : "unknown status";
}

/* ---- things by name -------------------------------------------------------------------------- */

static zt_thing **find_thing(zt_ctx *ctx, const char *kind, const char *name)
{
    zt_thing **t = &ctx->things;
    while (*t && (strcmp((*t)->kind, kind) || strcmp((*t)->name, name)))
        t = &(*t)->next;
    return t;
}

static zt_thing *new_thing(const char *kind, const char *name, const void *thing)
{
    size_t k = strlen(kind) + 1, n = strlen(name) + 1;
    zt_thing *t = malloc(sizeof *t + k + n);
    if (!t)
        return NULL;
    t->thing = thing;
    t->name = t->kind + k;
    memcpy(t->kind, kind, k);
    memcpy(t->name, name, n);
    return t;
}

zt_status zt_ctx_put(zt_ctx *ctx, const char *kind, const char *name, const void *thing)
{
    zt_thing *fresh = thing ? new_thing(kind, name, thing) : NULL;
    if (thing && !fresh)
        return zt_fail(ctx, ZT_ENOMEM, "no memory for the name of a %s", kind);
    pthread_mutex_lock(&ctx->lock);
    zt_thing **at = find_thing(ctx, kind, name), *old = *at;
    if (old)
        *at = old->next;
    if (fresh) {
        fresh->next = ctx->things;
        ctx->things = fresh;
    }
    pthread_mutex_unlock(&ctx->lock);
    free(old);
    return ZT_OK;
}

const void *zt_ctx_get(const zt_ctx *ctx, const char *kind, const char *name)
{
    zt_ctx *c = (zt_ctx *)ctx;
    pthread_mutex_lock(&c->lock);
    const zt_thing *t = *find_thing(c, kind, name);
    const void *thing = t ? t->thing : NULL;
    pthread_mutex_unlock(&c->lock);
    return thing;
}

/* ---- metrics --------------------------------------------------------------------------------- */

void zt_metrics_set(zt_ctx *ctx, zt_metrics_fn *fn, void *user)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->metrics_fn = fn;
    ctx->metrics_user = user;
    pthread_mutex_unlock(&ctx->lock);
}

bool zt_metrics_on(const zt_ctx *ctx)
{
    zt_ctx *c = (zt_ctx *)ctx;
    pthread_mutex_lock(&c->lock);
    bool on = c->metrics_fn != NULL;
    pthread_mutex_unlock(&c->lock);
    return on;
}

void zt_count(zt_ctx *ctx, const char *counter, const char *name, uint64_t add)
{
    pthread_mutex_lock(&ctx->lock);
    zt_metrics_fn *fn = ctx->metrics_fn;
    void *user = ctx->metrics_user;
    pthread_mutex_unlock(&ctx->lock);
    if (fn)
        fn(user, counter, name, add); /* without the lock: it may log, fail or allocate */
}

/* ---- the log --------------------------------------------------------------------------------- */

void zt_log_set(zt_ctx *ctx, zt_level up_to, zt_log_fn *fn, void *user)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->log_up_to = up_to;
    ctx->log_fn = fn;
    ctx->log_user = user;
    pthread_mutex_unlock(&ctx->lock);
}

void zt_log(zt_ctx *ctx, zt_level level, const char *fmt, ...)
{
    pthread_mutex_lock(&ctx->lock);
    zt_log_fn *fn = level <= ctx->log_up_to ? ctx->log_fn : NULL;
    void *user = ctx->log_user;
    pthread_mutex_unlock(&ctx->lock);
    if (!fn)
        return;
    char line[ZT_MESSAGE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    format(line, sizeof line, fmt, ap);
    va_end(ap);
    fn(user, level, line); /* without the lock: it may log, fail or allocate */
}
