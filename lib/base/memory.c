/* memory.c - the allocator: byte limit, peak, leak count and injected failure in one place.
 *
 * A block is preceded by a head of 64 bytes that knows its size, so that the block itself stays on
 * a cache line and free needs no size. Blocks of 4 MiB and more are mapped, aligned to 2 MiB and
 * offered to the kernel for huge pages; they are fresh, so calloc need not clear them. */
#include "lib/base/internal.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif

enum { HEAD = 64, PAGE = 4096, HUGE_PAGE = 2 << 20 };

/* Sanitizers put red zones only around blocks of malloc. */
#ifdef SANITIZED
static const size_t map_from = SIZE_MAX;
#else
static const size_t map_from = 4 << 20;
#endif

typedef struct head {
    size_t bytes;  /* as asked for */
    size_t mapped; /* length of the mapping, 0: from malloc */
} head;

_Static_assert(sizeof(head) <= HEAD, "the head fits before the block");

bool zt_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool zt_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

bool zt_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out);
}

/* ---- blocks from the system ------------------------------------------------------------------ */

static head *block_map(size_t bytes)
{
    size_t len = (bytes + HEAD + PAGE - 1) / PAGE * PAGE;
    size_t all = len + HUGE_PAGE;
    char *raw = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    size_t skip = (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
    if (skip)
        munmap(raw, skip);
    if (all - skip > len)
        munmap(raw + skip + len, all - skip - len);
    madvise(raw + skip, len, MADV_HUGEPAGE); /* only a wish */
    head *h = (head *)(raw + skip);
    h->mapped = len;
    return h;
}

static head *block_new(size_t bytes)
{
    head *h = NULL;
    if (bytes > PTRDIFF_MAX - HEAD - PAGE - HUGE_PAGE)
        return NULL;
    if (bytes >= map_from) {
        h = block_map(bytes);
    } else {
        void *p;
        if (posix_memalign(&p, HEAD, bytes + HEAD))
            return NULL;
        h = p;
        h->mapped = 0;
    }
    if (h)
        h->bytes = bytes;
    return h;
}

static void block_free(head *h)
{
    if (h->mapped)
        munmap(h, h->mapped);
    else
        free(h);
}

static head *head_of(void *p)
{
    return (head *)((char *)p - HEAD);
}

/* ---- the account ----------------------------------------------------------------------------- */

/* True when this allocation is the one that a test wants refused. */
static bool injected(zt_ctx *ctx)
{
    if (ctx->failing)
        return true;
    if (ctx->fail_in == 0 || --ctx->fail_in > 0)
        return false;
    ctx->failing = ctx->fail_onwards;
    return true;
}

/* May so many bytes more be held? *refused: a test says no. The lock is held. */
static bool may_hold(zt_ctx *ctx, size_t bytes, bool *refused)
{
    zt_mem *m = &ctx->mem;
    m->calls++;
    *refused = injected(ctx);
    if (*refused || (m->limit && (m->held > m->limit || bytes > m->limit - m->held)))
        return false;
    return true;
}

static void hold(zt_mem *m, size_t bytes)
{
    m->held += bytes;
    m->peak = m->held > m->peak ? m->held : m->peak;
}

static zt_status out_of_memory(zt_ctx *ctx, size_t bytes, const zt_mem *was, bool refused,
                               bool over)
{
    if (refused)
        return zt_fail(ctx, ZT_ENOMEM,
                       "out of memory: %zu bytes wanted, %zu held (refused by a test)", bytes,
                       was->held);
    if (over)
        return zt_fail(ctx, ZT_ENOMEM, "out of memory: %zu bytes wanted, %zu held, limit %zu",
                       bytes, was->held, was->limit);
    return zt_fail(ctx, ZT_ENOMEM, "out of memory: %zu bytes wanted, %zu held", bytes, was->held);
}

void *zt_alloc(zt_ctx *ctx, size_t bytes)
{
    bool refused;
    pthread_mutex_lock(&ctx->lock);
    bool may = may_hold(ctx, bytes, &refused);
    head *h = may ? block_new(bytes) : NULL;
    if (h) {
        hold(&ctx->mem, bytes);
        ctx->mem.blocks++;
    }
    zt_mem was = ctx->mem;
    pthread_mutex_unlock(&ctx->lock);
    if (h)
        return (char *)h + HEAD;
    out_of_memory(ctx, bytes, &was, refused, !may);
    return NULL;
}

zt_status zt_mem_reserve(zt_ctx *ctx, size_t bytes)
{
    bool refused;
    pthread_mutex_lock(&ctx->lock);
    bool may = may_hold(ctx, bytes, &refused) && bytes <= SIZE_MAX - ctx->mem.held;
    zt_mem was = ctx->mem;
    if (may)
        hold(&ctx->mem, bytes);
    pthread_mutex_unlock(&ctx->lock);
    return may ? ZT_OK : out_of_memory(ctx, bytes, &was, refused, was.limit > 0);
}

void zt_mem_release(zt_ctx *ctx, size_t bytes)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->mem.held -= bytes < ctx->mem.held ? bytes : ctx->mem.held;
    pthread_mutex_unlock(&ctx->lock);
}

size_t zt_block_bytes(const void *p)
{
    return ((const head *)((const char *)p - HEAD))->bytes;
}

void zt_free(zt_ctx *ctx, void *p)
{
    if (!p)
        return;
    head *h = head_of(p);
    pthread_mutex_lock(&ctx->lock);
    ctx->mem.held -= h->bytes;
    ctx->mem.blocks--;
    pthread_mutex_unlock(&ctx->lock);
    block_free(h);
}

void *zt_alloc_array(zt_ctx *ctx, size_t n, size_t size)
{
    size_t bytes;
    if (zt_mul_size(n, size, &bytes))
        return zt_alloc(ctx, bytes);
    zt_fail(ctx, ZT_ENOMEM, "out of memory: %zu times %zu bytes wanted", n, size);
    return NULL;
}

void *zt_calloc(zt_ctx *ctx, size_t n, size_t size)
{
    void *p = zt_alloc_array(ctx, n, size);
    if (p && !head_of(p)->mapped)
        memset(p, 0, n * size);
    return p;
}

void *zt_realloc(zt_ctx *ctx, void *p, size_t bytes)
{
    void *q = zt_alloc(ctx, bytes);
    if (!q || !p)
        return q;
    size_t old = head_of(p)->bytes;
    memcpy(q, p, old < bytes ? old : bytes);
    zt_free(ctx, p);
    return q;
}

char *zt_strndup(zt_ctx *ctx, const char *s, size_t n)
{
    char *p = n < SIZE_MAX ? zt_alloc(ctx, n + 1) : NULL;
    if (!p)
        return NULL;
    if (n)
        memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *zt_strdup(zt_ctx *ctx, const char *s)
{
    return zt_strndup(ctx, s, strlen(s));
}

zt_mem zt_mem_get(const zt_ctx *ctx)
{
    zt_ctx *c = (zt_ctx *)ctx;
    pthread_mutex_lock(&c->lock);
    zt_mem m = c->mem;
    pthread_mutex_unlock(&c->lock);
    return m;
}

void zt_mem_limit(zt_ctx *ctx, size_t bytes)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->mem.limit = bytes;
    pthread_mutex_unlock(&ctx->lock);
}

void zt_mem_fail(zt_ctx *ctx, uint64_t nth, bool onwards)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->fail_in = nth;
    ctx->fail_onwards = onwards;
    ctx->failing = false;
    pthread_mutex_unlock(&ctx->lock);
}
