/* memory.c - the allocator: byte limit, peak, leak count and injected failure in one place.
 *
 * A block is preceded by a head of 64 bytes that knows its size, so that the block itself stays on
 * a cache line and free needs no size. Blocks of 4 MiB and more are mapped, aligned to 2 MiB and
 * offered to the kernel for huge pages; they are fresh, so calloc need not clear them. */
#include "lib/base/internal.h"
#include "lib/base/require.h"
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

typedef struct block_head {
    size_t bytes;  /* as asked for */
    size_t mapped; /* length of the mapping, 0: from malloc */
} block_head;

_Static_assert(sizeof(block_head) <= HEAD, "the head fits before the block");

bool zt_mul_size(size_t a, size_t b, size_t *out)
{
    if (!out) return false;
    return !__builtin_mul_overflow(a, b, out);
}

bool zt_add_size(size_t a, size_t b, size_t *out)
{
    if (!out) return false;
    return !__builtin_add_overflow(a, b, out);
}

bool zt_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    if (!out) return false;
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out);
}

/* ---- blocks from the system ------------------------------------------------------------------ */

static block_head *block_map(size_t bytes)
{
    size_t length = (bytes + HEAD + PAGE - 1) / PAGE * PAGE;
    size_t total = length + HUGE_PAGE;
    char *raw = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    size_t skip = (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
    if (skip) munmap(raw, skip);
    if (total - skip > length) munmap(raw + skip + length, total - skip - length);
    madvise(raw + skip, length, MADV_HUGEPAGE); /* only a wish */
    block_head *head = (block_head *)(raw + skip);
    head->mapped = length;
    return head;
}

static block_head *block_new(size_t bytes)
{
    block_head *head = NULL;
    if (bytes > PTRDIFF_MAX - HEAD - PAGE - HUGE_PAGE) return NULL;
    if (bytes >= map_from) {
        head = block_map(bytes);
    } else {
        void *memory;
        if (posix_memalign(&memory, HEAD, bytes + HEAD)) return NULL;
        head = memory;
        head->mapped = 0;
    }
    if (head) head->bytes = bytes;
    return head;
}

static void block_free(block_head *head)
{
    if (head->mapped)
        munmap(head, head->mapped);
    else
        free(head);
}

static block_head *head_of(void *block) { return (block_head *)((char *)block - HEAD); }

/* ---- the account ----------------------------------------------------------------------------- */

/* True when this allocation is the one that a test wants refused. */
static bool is_injected(zt_ctx *ctx)
{
    if (ctx->failing) return true;
    if (ctx->fail_in == 0 || --ctx->fail_in > 0) return false;
    ctx->failing = ctx->fail_onwards;
    return true;
}

/* May so many bytes more be held? *refused: a test says no. The lock is held. */
static bool may_hold(zt_ctx *ctx, size_t bytes, bool *refused)
{
    zt_mem *mem = &ctx->mem;
    mem->calls++;
    *refused = is_injected(ctx);
    if (*refused || (mem->limit && (mem->held > mem->limit || bytes > mem->limit - mem->held))) return false;
    return true;
}

static void count_held(zt_mem *mem, size_t bytes)
{
    mem->held += bytes;
    mem->peak = mem->held > mem->peak ? mem->held : mem->peak;
}

static zt_status out_of_memory(zt_ctx *ctx, size_t bytes, const zt_mem *before, bool refused, bool over)
{
    if (refused)
        return zt_fail(ctx, ZT_ENOMEM, "out of memory: requested %zu bytes, %zu in use (refused by a test)", bytes, before->held);
    if (over)
        return zt_fail(ctx, ZT_ENOMEM, "out of memory: requested %zu bytes, %zu in use, limit %zu", bytes, before->held,
                       before->limit);
    return zt_fail(ctx, ZT_ENOMEM, "out of memory: requested %zu bytes, %zu in use", bytes, before->held);
}

void *zt_alloc(zt_ctx *ctx, size_t bytes)
{
    if (!ctx) return NULL;
    bool refused;
    pthread_mutex_lock(&ctx->lock);
    bool allowed = may_hold(ctx, bytes, &refused);
    block_head *head = allowed ? block_new(bytes) : NULL;
    if (head) {
        count_held(&ctx->mem, bytes);
        ctx->mem.blocks++;
    }
    zt_mem before = ctx->mem;
    pthread_mutex_unlock(&ctx->lock);
    if (head) return (char *)head + HEAD;
    out_of_memory(ctx, bytes, &before, refused, !allowed);
    return NULL;
}

zt_status zt_mem_reserve(zt_ctx *ctx, size_t bytes)
{
    if (!ctx) return ZT_EUSAGE;
    bool refused;
    pthread_mutex_lock(&ctx->lock);
    bool allowed = may_hold(ctx, bytes, &refused) && bytes <= SIZE_MAX - ctx->mem.held;
    zt_mem before = ctx->mem;
    if (allowed) count_held(&ctx->mem, bytes);
    pthread_mutex_unlock(&ctx->lock);
    return allowed ? ZT_OK : out_of_memory(ctx, bytes, &before, refused, before.limit > 0);
}

void zt_mem_release(zt_ctx *ctx, size_t bytes)
{
    if (!ctx) return;
    pthread_mutex_lock(&ctx->lock);
    ctx->mem.held -= bytes < ctx->mem.held ? bytes : ctx->mem.held;
    pthread_mutex_unlock(&ctx->lock);
}

size_t zt_block_bytes(const void *block) { return ((const block_head *)((const char *)block - HEAD))->bytes; }

void zt_free(zt_ctx *ctx, void *block)
{
    if (!block) return;
    block_head *head = head_of(block);
    pthread_mutex_lock(&ctx->lock);
    ctx->mem.held -= head->bytes;
    ctx->mem.blocks--;
    pthread_mutex_unlock(&ctx->lock);
    block_free(head);
}

void *zt_alloc_array(zt_ctx *ctx, size_t count, size_t size)
{
    size_t bytes;
    if (zt_mul_size(count, size, &bytes)) return zt_alloc(ctx, bytes);
    zt_fail(ctx, ZT_ENOMEM, "out of memory: requested %zu times %zu bytes", count, size);
    return NULL;
}

void *zt_calloc(zt_ctx *ctx, size_t count, size_t size)
{
    if (!ctx) return NULL;
    void *block = zt_alloc_array(ctx, count, size);
    if (block && !head_of(block)->mapped) memset(block, 0, count * size);
    return block;
}

void *zt_realloc(zt_ctx *ctx, void *block, size_t bytes)
{
    void *fresh = zt_alloc(ctx, bytes);
    if (!fresh || !block) return fresh;
    size_t old = head_of(block)->bytes;
    memcpy(fresh, block, old < bytes ? old : bytes);
    zt_free(ctx, block);
    return fresh;
}

char *zt_strndup(zt_ctx *ctx, const char *text, size_t length)
{
    ZT_REQUIRE(ctx, text || !length, NULL);
    char *copy = length < SIZE_MAX ? zt_alloc(ctx, length + 1) : NULL;
    if (!copy) return NULL;
    if (length) memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *zt_strdup(zt_ctx *ctx, const char *text)
{
    if (!ctx) return NULL;
    ZT_REQUIRE(ctx, text, NULL);
    return zt_strndup(ctx, text, strlen(text));
}

zt_mem zt_mem_get(const zt_ctx *ctx)
{
    if (!ctx) return (zt_mem){0};
    zt_ctx *mutable_ctx = (zt_ctx *)ctx;
    pthread_mutex_lock(&mutable_ctx->lock);
    zt_mem mem = mutable_ctx->mem;
    pthread_mutex_unlock(&mutable_ctx->lock);
    return mem;
}

void zt_mem_limit(zt_ctx *ctx, size_t bytes)
{
    if (!ctx) return;
    pthread_mutex_lock(&ctx->lock);
    ctx->mem.limit = bytes;
    pthread_mutex_unlock(&ctx->lock);
}

void zt_mem_fail(zt_ctx *ctx, uint64_t nth, bool onwards)
{
    if (!ctx) return;
    pthread_mutex_lock(&ctx->lock);
    ctx->fail_in = nth;
    ctx->fail_onwards = onwards;
    ctx->failing = false;
    pthread_mutex_unlock(&ctx->lock);
}
