/* cpu.c - the cpu engine: its vtable, the choice of kernels, and its memory. */
#include "lib/engine/cpu/caches.h"
#include "lib/base/processor.h"
#include "lib/engine/cpu/cpu_engine.h"
#include "lib/engine/host_part.h"

#include <string.h>
#include <sys/mman.h>

/* ---- kernels --------------------------------------------------------------------------------- */

#define X(f) zt_cpu_##f##_scalar,
static const zt_cpu_kernel *const scalar_lists[] = {ZT_CPU_FAMILIES(X) NULL};
#undef X
/* Lists that the build left out are never asked for: zt_isa_best knows what was built. */
#if defined(ZT_HAVE_AVX2)
#define X(f) zt_cpu_##f##_avx2,
static const zt_cpu_kernel *const avx2_lists[] = {ZT_CPU_FAMILIES(X) NULL};
#undef X
#else
#define avx2_lists scalar_lists
#endif
#if defined(ZT_HAVE_AVX512)
#define X(f) zt_cpu_##f##_avx512,
static const zt_cpu_kernel *const avx512_lists[] = {ZT_CPU_FAMILIES(X) NULL};
#undef X
#else
#define avx512_lists avx2_lists
#endif

#if defined(ZT_HAVE_NEON)
#define X(f) zt_cpu_##f##_neon,
static const zt_cpu_kernel *const neon_lists[] = {ZT_CPU_FAMILIES(X) NULL};
#undef X
#else
#define neon_lists scalar_lists
#endif
#if defined(ZT_HAVE_DOTPROD)
#define X(f) zt_cpu_##f##_dotprod,
static const zt_cpu_kernel *const dotprod_lists[] = {ZT_CPU_FAMILIES(X) NULL};
#undef X
#else
#define dotprod_lists neon_lists
#endif

static const zt_cpu_kernel *const *const lists[ZT_ISA_COUNT] = {[ZT_ISA_SCALAR] = scalar_lists,
                                                                [ZT_ISA_AVX2] = avx2_lists,
                                                                [ZT_ISA_AVX512] = avx512_lists,
                                                                [ZT_ISA_NEON] = neon_lists,
                                                                [ZT_ISA_DOTPROD] = dotprod_lists};

static void list_kernels(zt_cpu_engine *engine, zt_isa isa)
{
    const int most = sizeof engine->kernel[0] / sizeof engine->kernel[0][0];
    for (const zt_cpu_kernel *const *list = lists[isa]; *list; list++) {
        for (const zt_cpu_kernel *kernel = *list; kernel->run; kernel++) {
            int place = 0;
            while (place < most - 1 && engine->kernel[kernel->op][place]) place++;
            engine->kernel[kernel->op][place] = kernel;
        }
    }
}

static const zt_cpu_kernel *find_family_kernel(const zt_cpu_engine *engine, zt_op op, const void *attrs,
                                               const zt_type *const in[], const zt_type out[])
{
    for (int i = 0; i < (int)(sizeof engine->kernel[0] / sizeof engine->kernel[0][0]); i++) {
        const zt_cpu_kernel *kernel = engine->kernel[op][i];
        if (kernel && (!kernel->has || kernel->has(attrs, in, out))) return kernel;
    }
    return NULL;
}

/* A kernel of the family; else its f32 kernel by way of copies, or the row's own loop in f64. */
const zt_cpu_kernel *zt_cpu_find(const zt_cpu_engine *engine, zt_op op, const void *attrs, const zt_type *const in[],
                                 const zt_type out[])
{
    const zt_cpu_kernel *found = find_family_kernel(engine, op, attrs, in, out);
    const zt_type *with[ZT_MAX_IN];
    zt_type wide_in[ZT_MAX_IN], wide_out[ZT_MAX_OUT];
    if (found) return found;
    if (zt_cpu_needs_plain_loop(op, in, out)) return &zt_cpu_plain_loop;
    if (!zt_cpu_widen_types(op, attrs, in, out, wide_in, wide_out)) return NULL;
    for (int k = 0; k < zt_op_info(op)->n_in; k++) with[k] = in[k] ? &wide_in[k] : NULL;
    return find_family_kernel(engine, op, attrs, with, wide_out) ? &zt_cpu_convert_operands : NULL;
}

static bool cpu_has(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_opinfo *info = zt_op_info(op);
    return (info->def->flags & ZT_OPF_VIEW) || zt_cpu_find((zt_cpu_engine *)engine, op, attrs ? attrs : info->defaults, in, out);
}

/* docs/arithmetic.md is what the kernels here do. */
static bool cpu_has_contract_bits(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)engine, (void)op, (void)attrs, (void)in, (void)out;
    return true;
}

void zt_cpu_runtime_error(zt_cpu_call *call, const char *what, int64_t value, int64_t limit)
{
    const char *none = NULL;
    if (!__atomic_compare_exchange_n(&call->error.what, &none, what, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
    call->error.value = value; /* by one thread only; read after all have met */
    call->error.limit = limit;
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { LINE = 64, SLAB = 8 << 20 };

void zt_cpu_count_bytes(zt_cpu_engine *engine, size_t more, size_t less)
{
    engine->report.held += more - less;
    engine->report.allocated += more;
    if (engine->report.held > engine->report.peak) engine->report.peak = engine->report.held;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

zt_status zt_cpu_reserve(zt_cpu_engine *engine, size_t arena, size_t shared, size_t local)
{
    size_t threads = (size_t)zt_pool_size(engine->pool), was, bytes, all;
    if (arena > SIZE_MAX - LINE || shared > SIZE_MAX - LINE || local > SIZE_MAX - LINE)
        return zt_fail(engine->base.ctx, ZT_ENOMEM, "scratch memory too large (%zu, %zu and %zu bytes)", arena, shared, local);
    arena = larger(engine->arena_bytes, (arena + LINE - 1) / LINE * LINE);
    shared = larger(engine->shared_bytes, (shared + LINE - 1) / LINE * LINE);
    local = larger(engine->local_bytes, (local + LINE - 1) / LINE * LINE);
    if (engine->scratch && arena == engine->arena_bytes && shared == engine->shared_bytes && local == engine->local_bytes)
        return ZT_OK;
    was = engine->arena_bytes + engine->shared_bytes + threads * engine->local_bytes;
    if (!zt_mul_size(local, threads, &bytes) || !zt_add_size(bytes, shared, &bytes) || !zt_add_size(bytes, arena, &all))
        return zt_fail(engine->base.ctx, ZT_ENOMEM, "scratch memory too large (%zu, %zu and %zu bytes)", arena, shared, local);
    uint8_t *scratch = zt_alloc(engine->base.ctx, all);
    if (!scratch) return ZT_ENOMEM; /* the old stays: plans prepared before need it */
    zt_free(engine->base.ctx, engine->scratch);
    zt_cpu_count_bytes(engine, all, was);
    engine->scratch = scratch;
    engine->moved++;
    engine->arena_bytes = arena;
    engine->shared_bytes = shared;
    engine->local_bytes = local;
    return ZT_OK;
}

/* Small pages for a large state: a cache of which little is used then takes little memory. Small
 * ones that share a slab have huge pages: a token of a small model reads hundreds of small pages
 * of them, which the processor's tables of addresses do not hold. */
static void prefer_small_pages(uint8_t *data, size_t bytes)
{
    const uintptr_t page = 4096;
    uintptr_t first = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t last = ((uintptr_t)data + bytes) / page * page;
    if (first < last) madvise((void *)first, last - first, MADV_NOHUGEPAGE); /* only a wish */
}

static zt_cpu_slab *new_slab(zt_cpu_engine *engine, zt_cpu_slab **list, size_t bytes)
{
    zt_cpu_slab *slab = zt_calloc(engine->base.ctx, 1, sizeof *slab);
    if (!slab) return NULL;
    /* A large state alone: of states there are many alike, and of each slab a rest would be lost. */
    bool alone = list == &engine->states && bytes > SLAB / 8;
    slab->bytes = alone ? bytes : larger(bytes, SLAB);
    slab->data = list == &engine->states ? zt_calloc(engine->base.ctx, 1, slab->bytes) : zt_alloc(engine->base.ctx, slab->bytes);
    if (!slab->data) {
        zt_free(engine->base.ctx, slab);
        return NULL;
    }
    if (alone) prefer_small_pages(slab->data, slab->bytes);
    slab->next = *list;
    *list = slab;
    return slab;
}

/* No slab is filled twice, so that what is cut from one for states is still zero. */
zt_ebuf *zt_cpu_buffer(zt_cpu_engine *engine, zt_cpu_slab **list, const zt_type *type, size_t bytes)
{
    zt_ebuf *buffer = zt_calloc(engine->base.ctx, 1, sizeof *buffer);
    zt_cpu_slab *slab = *list;
    if (!buffer) return NULL;
    while (slab && bytes > slab->bytes - slab->used) slab = slab->next;
    if (!slab) slab = new_slab(engine, list, bytes);
    if (!slab) {
        zt_free(engine->base.ctx, buffer);
        return NULL;
    }
    *buffer = (zt_ebuf){.type = *type, .data = slab->data + slab->used, .bytes = bytes, .slab = slab};
    size_t left = slab->bytes - slab->used, used = bytes > SIZE_MAX - LINE ? left : (bytes + LINE - 1) / LINE * LINE;
    slab->used += used < left ? used : left;
    slab->buffers++;
    engine->report.buffers++;
    zt_cpu_count_bytes(engine, bytes, 0);
    return buffer;
}

static bool unlink_slab(zt_cpu_slab **list, const zt_cpu_slab *slab)
{
    while (*list && *list != slab) list = &(*list)->next;
    if (!*list) return false;
    *list = slab->next;
    return true;
}

void zt_cpu_buffer_free(zt_cpu_engine *engine, zt_ebuf *buffer)
{
    if (!buffer) return;
    zt_cpu_count_bytes(engine, 0, buffer->bytes + buffer->plain_bytes);
    engine->report.buffers--;
    zt_free(engine->base.ctx, buffer->plain);
    if (--buffer->slab->buffers == 0) {
        if (!unlink_slab(&engine->weights, buffer->slab)) unlink_slab(&engine->states, buffer->slab);
        zt_free(engine->base.ctx, buffer->slab->data);
        zt_free(engine->base.ctx, buffer->slab);
    }
    zt_free(engine->base.ctx, buffer);
}

/* Activations have three sixteenths of a thread's second-level cache, or of the 1 MiB that is usual. */
static zt_cpu_tile choose_tile(int64_t rows)
{
    zt_cpu_cache cache[8];
    int64_t bytes = 1 << 20;
    for (int count = rows ? 0 : zt_cpu_caches(cache, 8), i = 0; i < count; i++)
        if (!strcmp(cache[i].name, "L2")) bytes = (int64_t)(cache[i].bytes / (size_t)cache[i].sharers);
    return (zt_cpu_tile){rows, bytes / 16 * 3, zt_cpu_amx()};
}

/* ---- the vtable ------------------------------------------------------------------------------ */

static void cpu_close(zt_engine *base)
{
    zt_cpu_engine *engine = (zt_cpu_engine *)base;
    zt_pool_free(engine->pool);
    zt_free(base->ctx, engine->scratch);
    zt_free(base->ctx, engine);
}

static zt_engine *cpu_open(zt_ctx *ctx, const zt_engine_opts *opts)
{
    zt_cpu_engine *engine = zt_calloc(ctx, 1, sizeof *engine);
    if (!engine) return NULL;
    engine->base = (zt_engine){.vt = &zt_engine_cpu, .ctx = ctx};
    list_kernels(engine, zt_isa_has(opts->isa) ? opts->isa : zt_isa_best());
    engine->tile = choose_tile(opts->tile);
    engine->pool = zt_pool_new(ctx, opts->threads ? opts->threads : zt_cpu_count());
    if (engine->pool) return &engine->base;
    zt_free(ctx, engine);
    return NULL;
}

static size_t cpu_value_bytes(zt_engine *engine, const zt_type *type)
{
    (void)engine;
    return zt_type_bytes(type);
}

static zt_ebuf *cpu_alloc(zt_engine *base, const zt_type *type)
{
    zt_cpu_engine *engine = (zt_cpu_engine *)base;
    return zt_cpu_buffer(engine, &engine->states, type, zt_type_bytes(type));
}

static void cpu_free(zt_engine *base, zt_ebuf *buffer) { zt_cpu_buffer_free((zt_cpu_engine *)base, buffer); }

static zt_status cpu_upload(zt_engine *engine, zt_ebuf *buffer, const void *host)
{
    (void)engine;
    if (buffer->bytes) memcpy(buffer->data, host, buffer->bytes);
    return ZT_OK;
}

static zt_status cpu_download(zt_engine *engine, const zt_ebuf *buffer, void *host)
{
    (void)engine;
    if (buffer->in_store) return buffer->store.read(buffer->store.user, buffer->handle, 0, host, zt_type_bytes(&buffer->type));
    if (buffer->bytes) memcpy(host, buffer->data, buffer->bytes);
    return ZT_OK;
}

static zt_status cpu_write_part(zt_engine *engine, zt_ebuf *buffer, size_t offset, size_t bytes, const void *host)
{
    (void)engine;
    return zt_host_write_part(buffer->data, offset, bytes, host);
}

static zt_status cpu_read_part(zt_engine *engine, const zt_ebuf *buffer, size_t offset, size_t bytes, void *host)
{
    (void)engine;
    return zt_host_read_part(buffer->data, offset, bytes, host);
}

static zt_engine_report cpu_report(const zt_engine *engine) { return ((const zt_cpu_engine *)engine)->report; }

const zt_engine_vt zt_engine_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .has = cpu_has,
    .has_contract_bits = cpu_has_contract_bits,
    .value_bytes = cpu_value_bytes,
    .alloc = cpu_alloc,
    .load = zt_cpu_load,
    .free = cpu_free,
    .upload = cpu_upload,
    .download = cpu_download,
    .write_part = cpu_write_part,
    .read_part = cpu_read_part,
    .prepare = zt_cpu_prepare,
    .unprepare = zt_cpu_unprepare,
    .replay = zt_cpu_replay,
    .report = cpu_report,
};
