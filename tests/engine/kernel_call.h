/* kernel_call.h - for tests of the CPU kernels: one call of one kernel on one instruction set, without the
 * engine. */
#ifndef ZT_TEST_KERNEL_CALL_H
#define ZT_TEST_KERNEL_CALL_H

#include "lib/engine/cpu/cpu.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

#define X(f) +1
typedef struct isa {
    zt_isa id;
    const zt_cpu_kernel *family[ZT_CPU_FAMILIES(X)]; /* the lists of kernels */
} isa;
#undef X

static const isa isas[] = {
#define X(f) zt_cpu_##f##_scalar,
    {ZT_ISA_SCALAR, {ZT_CPU_FAMILIES(X)}},
#undef X
#ifdef ZT_HAVE_AVX2
#define X(f) zt_cpu_##f##_avx2,
    {ZT_ISA_AVX2, {ZT_CPU_FAMILIES(X)}},
#undef X
#endif
#ifdef ZT_HAVE_AVX512
#define X(f) zt_cpu_##f##_avx512,
    {ZT_ISA_AVX512, {ZT_CPU_FAMILIES(X)}},
#undef X
#endif
#ifdef ZT_HAVE_NEON
#define X(f) zt_cpu_##f##_neon,
    {ZT_ISA_NEON, {ZT_CPU_FAMILIES(X)}},
#undef X
#endif
#ifdef ZT_HAVE_DOTPROD
#define X(f) zt_cpu_##f##_dotprod,
    {ZT_ISA_DOTPROD, {ZT_CPU_FAMILIES(X)}},
#undef X
#endif
};

static inline const zt_cpu_kernel *find_kernel(const isa *s, zt_op op)
{
    for (size_t f = 0; f < sizeof s->family / sizeof *s->family; f++)
        for (const zt_cpu_kernel *k = s->family[f]; k->run; k++)
            if (k->op == op) return k;
    return NULL;
}

static inline void *aligned_memory(size_t bytes)
{
    size_t n = (bytes + 64) / 64 * 64;
    void *p = aligned_alloc(64, n);
    if (!p) abort();
    memset(p, 0xff, n); /* NaN, so that nothing counts on zeros */
    return p;
}

/* All of a call, `step` items at a time, from the last or the first on. */
static inline void call(const isa *s, zt_op op, zt_cpu_call *c, int64_t step, bool backwards)
{
    c->kernel = find_kernel(s, op);
    c->n_phases = 1;
    c->kernel->setup(c);
    c->keep = aligned_memory(c->keep_bytes);
    c->shared = aligned_memory(c->shared_bytes);
    if (c->kernel->prime) c->kernel->prime(c);
    for (int p = 0; p < c->n_phases; p++)
        for (int64_t i = 0; i < c->items[p]; i += step) {
            void *local = aligned_memory(c->local_bytes);
            int64_t n = c->items[p] - i < step ? c->items[p] - i : step;
            int64_t begin = backwards ? c->items[p] - i - n : i;
            c->kernel->run(c, p, begin, begin + n, local);
            free(local);
        }
    free(c->keep);
    free(c->shared);
}

static inline zt_cpu_arg arg(zt_dtype t, int rank, int64_t a, int64_t b, const void *data)
{
    return (zt_cpu_arg){.type = zt_type_make(t, rank, (int64_t[]){a, b}), .data = (void *)(uintptr_t)data};
}

static inline float normal(uint64_t stream, int64_t i) { return (float)zt_normal(3, stream, (uint64_t)i); }

static inline float *normals(uint64_t stream, int64_t n)
{
    float *x = aligned_memory((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = normal(stream, i);
    return x;
}

/* On each instruction set that the processor has. */
static inline void on_each_isa(void (*test)(const isa *s))
{
    for (int k = 0; k < (int)(sizeof isas / sizeof isas[0]); k++) {
        if (isas[k].id > zt_isa_best()) {
            skip("this processor has no %s", zt_isa_name(isas[k].id));
            continue;
        }
        test(&isas[k]);
    }
}

#endif
