/* cpu.c - the cpu engine: its vtable, the choice of kernels, and its memory. */
#include "lib/engine/cpu/caches.h"
#include "lib/base/processor.h"
#include "lib/engine/cpu/cpu_engine.h"

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

static const zt_cpu_kernel *const *const lists[ZT_ISA_COUNT] = {
    [ZT_ISA_SCALAR] = scalar_lists, [ZT_ISA_AVX2] = avx2_lists, [ZT_ISA_AVX512] = avx512_lists};

static void sort_kernels(zt_cpu_engine *e, zt_isa isa)
{
    const int most = sizeof e->kernel[0] / sizeof e->kernel[0][0];
    for (const zt_cpu_kernel *const *list = lists[isa]; *list; list++) {
        for (const zt_cpu_kernel *k = *list; k->run; k++) {
            int i = 0;
            while (i < most - 1 && e->kernel[k->op][i]) i++;
            e->kernel[k->op][i] = k;
        }
    }
}

static const zt_cpu_kernel *find_own(const zt_cpu_engine *e, zt_op op, const void *attrs,
                                     const zt_type *const in[], const zt_type out[])
{
    for (int i = 0; i < (int)(sizeof e->kernel[0] / sizeof e->kernel[0][0]); i++) {
        const zt_cpu_kernel *k = e->kernel[op][i];
        if (k && (!k->has || k->has(attrs, in, out))) return k;
    }
    return NULL;
}

/* A kernel of the family; else its f32 kernel by way of copies, or the row's own loop in f64. */
const zt_cpu_kernel *zt_cpu_find(const zt_cpu_engine *e, zt_op op, const void *attrs,
                                 const zt_type *const in[], const zt_type out[])
{
    const zt_cpu_kernel *own = find_own(e, op, attrs, in, out);
    const zt_type *with[ZT_MAX_IN];
    zt_type wide_in[ZT_MAX_IN], wide_out[ZT_MAX_OUT];
    if (own) return own;
    if (zt_cpu_is_plain(op, in, out)) return &zt_cpu_plain_loop;
    if (!zt_cpu_widened(op, attrs, in, out, wide_in, wide_out)) return NULL;
    for (int k = 0; k < zt_op_info(op)->n_in; k++) with[k] = in[k] ? &wide_in[k] : NULL;
    return find_own(e, op, attrs, with, wide_out) ? &zt_cpu_convert_operands : NULL;
}

static bool cpu_has(zt_engine *e, zt_op op, const void *attrs, const zt_type *const in[],
                    const zt_type out[])
{
    const zt_opinfo *info = zt_op_info(op);
    return (info->def->flags & ZT_OPF_VIEW) ||
           zt_cpu_find((zt_cpu_engine *)e, op, attrs ? attrs : info->defaults, in, out);
}

void zt_cpu_runtime_error(zt_cpu_call *c, const char *what, int64_t value, int64_t limit)
{
    const char *none = NULL;
    if (!__atomic_compare_exchange_n(&c->trouble.what, &none, what, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    c->trouble.value = value; /* by one thread only; read after all have met */
    c->trouble.limit = limit;
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { LINE = 64, SLAB = 8 << 20 };

void zt_cpu_held(zt_cpu_engine *e, size_t more, size_t less)
{
    e->report.held += more - less;
    e->report.allocated += more;
    if (e->report.held > e->report.peak) e->report.peak = e->report.held;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

zt_status zt_cpu_reserve(zt_cpu_engine *e, size_t arena, size_t shared, size_t local)
{
    size_t threads = (size_t)zt_pool_size(e->pool), was, bytes, all;
    if (arena > SIZE_MAX - LINE || shared > SIZE_MAX - LINE || local > SIZE_MAX - LINE)
        return zt_fail(e->base.ctx, ZT_ENOMEM, "scratch of %zu, %zu and %zu bytes", arena, shared,
                       local);
    arena = larger(e->arena_bytes, (arena + LINE - 1) / LINE * LINE);
    shared = larger(e->shared_bytes, (shared + LINE - 1) / LINE * LINE);
    local = larger(e->local_bytes, (local + LINE - 1) / LINE * LINE);
    if (e->scratch && arena == e->arena_bytes && shared == e->shared_bytes &&
        local == e->local_bytes)
        return ZT_OK;
    was = e->arena_bytes + e->shared_bytes + threads * e->local_bytes;
    if (!zt_mul_size(local, threads, &bytes) || !zt_add_size(bytes, shared, &bytes) ||
        !zt_add_size(bytes, arena, &all))
        return zt_fail(e->base.ctx, ZT_ENOMEM, "scratch of %zu, %zu and %zu bytes", arena, shared,
                       local);
    uint8_t *scratch = zt_alloc(e->base.ctx, all);
    if (!scratch) return ZT_ENOMEM; /* the old stays: plans prepared before need it */
    zt_free(e->base.ctx, e->scratch);
    zt_cpu_held(e, all, was);
    e->scratch = scratch;
    e->moved++;
    e->arena_bytes = arena;
    e->shared_bytes = shared;
    e->local_bytes = local;
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

static zt_cpu_slab *new_slab(zt_cpu_engine *e, zt_cpu_slab **list, size_t bytes)
{
    zt_cpu_slab *s = zt_calloc(e->base.ctx, 1, sizeof *s);
    if (!s) return NULL;
    /* A large state alone: of states there are many alike, and of each slab a rest would be lost. */
    bool alone = list == &e->states && bytes > SLAB / 8;
    s->bytes = alone ? bytes : larger(bytes, SLAB);
    s->data =
        list == &e->states ? zt_calloc(e->base.ctx, 1, s->bytes) : zt_alloc(e->base.ctx, s->bytes);
    if (!s->data) {
        zt_free(e->base.ctx, s);
        return NULL;
    }
    if (alone) prefer_small_pages(s->data, s->bytes);
    s->next = *list;
    *list = s;
    return s;
}

/* No slab is filled twice, so that what is cut from one for states is still zero. */
zt_ebuf *zt_cpu_buffer(zt_cpu_engine *e, zt_cpu_slab **list, const zt_type *t, size_t bytes)
{
    zt_ebuf *b = zt_calloc(e->base.ctx, 1, sizeof *b);
    zt_cpu_slab *s = *list;
    if (!b) return NULL;
    while (s && bytes > s->bytes - s->used) s = s->next;
    if (!s) s = new_slab(e, list, bytes);
    if (!s) {
        zt_free(e->base.ctx, b);
        return NULL;
    }
    *b = (zt_ebuf){.type = *t, .data = s->data + s->used, .bytes = bytes, .slab = s};
    size_t left = s->bytes - s->used,
           take = bytes > SIZE_MAX - LINE ? left : (bytes + LINE - 1) / LINE * LINE;
    s->used += take < left ? take : left;
    s->buffers++;
    e->report.buffers++;
    zt_cpu_held(e, bytes, 0);
    return b;
}

static bool unlink_slab(zt_cpu_slab **list, const zt_cpu_slab *s)
{
    while (*list && *list != s) list = &(*list)->next;
    if (!*list) return false;
    *list = s->next;
    return true;
}

void zt_cpu_buffer_free(zt_cpu_engine *e, zt_ebuf *b)
{
    if (!b) return;
    zt_cpu_held(e, 0, b->bytes + b->plain_bytes);
    e->report.buffers--;
    zt_free(e->base.ctx, b->plain);
    if (--b->slab->buffers == 0) {
        if (!unlink_slab(&e->weights, b->slab)) unlink_slab(&e->states, b->slab);
        zt_free(e->base.ctx, b->slab->data);
        zt_free(e->base.ctx, b->slab);
    }
    zt_free(e->base.ctx, b);
}

/* Activations have three sixteenths of a thread's second-level cache, or of the 1 MiB that is usual. */
static zt_cpu_tile choose_tile(int64_t rows)
{
    zt_cpu_cache c[8];
    int64_t bytes = 1 << 20;
    for (int n = rows ? 0 : zt_cpu_caches(c, 8), i = 0; i < n; i++)
        if (!strcmp(c[i].name, "L2")) bytes = (int64_t)(c[i].bytes / (size_t)c[i].sharers);
    return (zt_cpu_tile){rows, bytes / 16 * 3, zt_cpu_amx()};
}

/* ---- the vtable ------------------------------------------------------------------------------ */

static void cpu_close(zt_engine *base)
{
    zt_cpu_engine *e = (zt_cpu_engine *)base;
    zt_pool_free(e->pool);
    zt_free(base->ctx, e->scratch);
    zt_free(base->ctx, e);
}

static zt_engine *cpu_open(zt_ctx *ctx, const zt_engine_opts *opts)
{
    zt_isa best = zt_isa_best();
    zt_cpu_engine *e = zt_calloc(ctx, 1, sizeof *e);
    if (!e) return NULL;
    e->base = (zt_engine){.vt = &zt_engine_cpu, .ctx = ctx};
    sort_kernels(e, opts->isa < best ? opts->isa : best);
    e->tile = choose_tile(opts->tile);
    e->pool = zt_pool_new(ctx, opts->threads ? opts->threads : zt_cpu_count());
    if (e->pool) return &e->base;
    zt_free(ctx, e);
    return NULL;
}

static size_t cpu_value_bytes(zt_engine *e, const zt_type *t)
{
    (void)e;
    return zt_type_bytes(t);
}

static zt_ebuf *cpu_alloc(zt_engine *base, const zt_type *t)
{
    zt_cpu_engine *e = (zt_cpu_engine *)base;
    return zt_cpu_buffer(e, &e->states, t, zt_type_bytes(t));
}

static void cpu_free(zt_engine *base, zt_ebuf *b) { zt_cpu_buffer_free((zt_cpu_engine *)base, b); }

static zt_status cpu_upload(zt_engine *e, zt_ebuf *b, const void *host)
{
    (void)e;
    if (b->bytes) memcpy(b->data, host, b->bytes);
    return ZT_OK;
}

static zt_status cpu_download(zt_engine *e, const zt_ebuf *b, void *host)
{
    (void)e;
    if (b->bytes) memcpy(host, b->data, b->bytes);
    return ZT_OK;
}

static zt_engine_report cpu_report(const zt_engine *e)
{
    return ((const zt_cpu_engine *)e)->report;
}

const zt_engine_vt zt_engine_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .has = cpu_has,
    .value_bytes = cpu_value_bytes,
    .alloc = cpu_alloc,
    .load = zt_cpu_load,
    .free = cpu_free,
    .upload = cpu_upload,
    .download = cpu_download,
    .prepare = zt_cpu_prepare,
    .unprepare = zt_cpu_unprepare,
    .replay = zt_cpu_replay,
    .report = cpu_report,
};
