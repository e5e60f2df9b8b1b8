/* context.c - the context: the sticky error, things by name, the log and the metrics. */
#include "lib/base/internal.h"
#include "lib/base/require.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

zt_ctx *zt_ctx_new(void)
{
    zt_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx) return NULL;
    if (pthread_mutex_init(&ctx->lock, NULL)) {
        free(ctx);
        return NULL;
    }
    atomic_init(&ctx->status, ZT_OK);
    return ctx;
}

void zt_ctx_free(zt_ctx *ctx)
{
    if (!ctx) return;
    for (zt_thing *thing = ctx->things, *next; thing; thing = next) {
        next = thing->next;
        free(thing);
    }
    for (int i = 0; i < ctx->spare_count; i++) close(ctx->spares[i]);
    pthread_mutex_destroy(&ctx->lock);
    free(ctx);
}

/* ---- the error ------------------------------------------------------------------------------- */

/* A message that was cut says so with its last three characters. */
static void format_message(char *buffer, size_t bytes, const char *format, va_list arguments)
{
    int length = vsnprintf(buffer, bytes, format, arguments);
    if (length < 0)
        buffer[0] = '\0';
    else if ((size_t)length >= bytes)
        memcpy(buffer + bytes - 4, "...", 4);
}

zt_status zt_fail(zt_ctx *ctx, zt_status status, const char *format, ...)
{
    va_list arguments;
    if (!ctx) return status;
    va_start(arguments, format);
    pthread_mutex_lock(&ctx->lock);
    if (atomic_load_explicit(&ctx->status, memory_order_relaxed) == ZT_OK) {
        format_message(ctx->error, sizeof ctx->error, format, arguments);
        atomic_store_explicit(&ctx->status, status, memory_order_release);
    }
    pthread_mutex_unlock(&ctx->lock);
    va_end(arguments);
    return status;
}

zt_status zt_ctx_status(const zt_ctx *ctx)
{
    return ctx ? (zt_status)atomic_load_explicit(&((zt_ctx *)ctx)->status, memory_order_acquire) : ZT_EUSAGE;
}

const char *zt_ctx_error(const zt_ctx *ctx)
{
    if (!ctx) return "no context";
    return zt_ctx_status(ctx) == ZT_OK ? "" : ctx->error;
}

void zt_ctx_clear(zt_ctx *ctx)
{
    if (!ctx) return;
    pthread_mutex_lock(&ctx->lock);
    atomic_store_explicit(&ctx->status, ZT_OK, memory_order_release);
    pthread_mutex_unlock(&ctx->lock);
}

const char *zt_status_name(zt_status status)
{
    static const char *const name[ZT_STATUS_COUNT] = {
        [ZT_OK] = "ok",
        [ZT_EUSAGE] = "wrong usage",
        [ZT_EDATA] = "bad data",
        [ZT_ESHAPE] = "shape mismatch",
        [ZT_ENOENT] = "no such input",
        [ZT_ENOTSUP] = "not supported",
        [ZT_EBUG] = "internal error",
        [ZT_ESYS] = "system error",
        [ZT_ECREATE] = "cannot create the output",
        [ZT_EIO] = "input/output error",
        [ZT_ENOMEM] = "out of memory",
        [ZT_EINTR] = "interrupted",
    };
    return (unsigned)status < ZT_STATUS_COUNT ? name[status] : "unknown status";
}

/* ---- things by name -------------------------------------------------------------------------- */

static zt_thing **find_thing(zt_ctx *ctx, const char *kind, const char *name)
{
    zt_thing **link = &ctx->things;
    while (*link && (strcmp((*link)->kind, kind) || strcmp((*link)->name, name))) link = &(*link)->next;
    return link;
}

static zt_thing *new_thing(const char *kind, const char *name, const void *thing)
{
    size_t kind_size = strlen(kind) + 1, name_size = strlen(name) + 1;
    zt_thing *record = malloc(sizeof *record + kind_size + name_size);
    if (!record) return NULL;
    record->thing = thing;
    record->name = record->kind + kind_size;
    memcpy(record->kind, kind, kind_size);
    memcpy(record->name, name, name_size);
    return record;
}

zt_status zt_ctx_put(zt_ctx *ctx, const char *kind, const char *name, const void *thing)
{
    if (!ctx) return ZT_EUSAGE;
    ZT_REQUIRE(ctx, kind && name, ZT_EUSAGE);
    zt_thing *fresh = thing ? new_thing(kind, name, thing) : NULL;
    if (thing && !fresh) return zt_fail(ctx, ZT_ENOMEM, "out of memory (name of a %s)", kind);
    pthread_mutex_lock(&ctx->lock);
    zt_thing **link = find_thing(ctx, kind, name), *old = *link;
    if (old) *link = old->next;
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
    if (!ctx) return NULL;
    zt_ctx *mutable_ctx = (zt_ctx *)ctx;
    pthread_mutex_lock(&mutable_ctx->lock);
    const zt_thing *record = *find_thing(mutable_ctx, kind, name);
    const void *thing = record ? record->thing : NULL;
    pthread_mutex_unlock(&mutable_ctx->lock);
    return thing;
}

/* ---- metrics --------------------------------------------------------------------------------- */

void zt_metrics_set(zt_ctx *ctx, zt_metrics_fn *fn, void *user)
{
    if (!ctx) return;
    pthread_mutex_lock(&ctx->lock);
    ctx->metrics_fn = fn;
    ctx->metrics_user = user;
    pthread_mutex_unlock(&ctx->lock);
}

bool zt_metrics_on(const zt_ctx *ctx)
{
    if (!ctx) return false;
    zt_ctx *mutable_ctx = (zt_ctx *)ctx;
    pthread_mutex_lock(&mutable_ctx->lock);
    bool on = mutable_ctx->metrics_fn != NULL;
    pthread_mutex_unlock(&mutable_ctx->lock);
    return on;
}

void zt_count(zt_ctx *ctx, const char *counter, const char *name, uint64_t add)
{
    if (!ctx) return;
    pthread_mutex_lock(&ctx->lock);
    zt_metrics_fn *fn = ctx->metrics_fn;
    void *user = ctx->metrics_user;
    pthread_mutex_unlock(&ctx->lock);
    if (fn) fn(user, counter, name, add); /* without the lock: it may log, fail or allocate */
}

/* ---- the log --------------------------------------------------------------------------------- */

void zt_log_set(zt_ctx *ctx, zt_level up_to, zt_log_fn *fn, void *user)
{
    if (!ctx) return;
    pthread_mutex_lock(&ctx->lock);
    ctx->log_up_to = up_to;
    ctx->log_fn = fn;
    ctx->log_user = user;
    pthread_mutex_unlock(&ctx->lock);
}

void zt_log(zt_ctx *ctx, zt_level level, const char *format, ...)
{
    if (!ctx) return;
    pthread_mutex_lock(&ctx->lock);
    zt_log_fn *fn = level <= ctx->log_up_to ? ctx->log_fn : NULL;
    void *user = ctx->log_user;
    pthread_mutex_unlock(&ctx->lock);
    if (!fn) return;
    char line[ZT_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    format_message(line, sizeof line, format, arguments);
    va_end(arguments);
    fn(user, level, line); /* without the lock: it may log, fail or allocate */
}
