/* elements.h - what kernels of ops on single elements share.
 *
 * All is computed in f32, CHUNK elements at a time; operands of other types go through the thread's
 * scratch. An output may lie over an input of its own type: each element is read before it is
 * written.
 */
#ifndef ZT_ISA_ELEMENTS_H
#define ZT_ISA_ELEMENTS_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/stream.h"

/* X(NAME, C type) for every type of integers. */
#define ALL_INTEGERS(X)                                                                            \
    X(I64, int64_t)                                                                                \
    X(I32, int32_t) X(I16, int16_t) X(I8, int8_t) X(U64, uint64_t) X(U32, uint32_t)                \
        X(U16, uint16_t) X(U8, uint8_t)

enum { CHUNK = 1024 }; /* a multiple of every dtype's block */

INLINE bool narrow(zt_dtype t) /* types whose values f32 holds exactly */
{
    return t == ZT_F32 || t == ZT_F16 || t == ZT_BF16;
}

/* ---- operands as f32 ------------------------------------------------------------------------- */

INLINE char *element(const zt_cpu_arg *a, int64_t i)
{
    const zt_dtype_info *d = zt_dtype_get(a->type.dtype);
    return (char *)a->data + i / d->block * d->block_bytes;
}

/* n elements of f16 or bf16 to f32 and back, sixteen at a time. */
INLINE void halves_to_f32(zt_dtype t, const char *src, float *dst, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n && t == ZT_F16; i += LANES) vf_store(dst + i, vf_of_f16(src + 2 * i));
    for (; i + LANES <= n; i += LANES) vf_store(dst + i, vf_of_bf16(src + 2 * i));
    zt_dtype_get(t)->decode(src + 2 * i, dst + i, n - i);
}

INLINE void f32_to_halves(zt_dtype t, const float *src, char *dst, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n && t == ZT_F16; i += LANES) vf_to_f16(dst + 2 * i, vf_load(src + i));
    for (; i + LANES <= n; i += LANES) vf_to_bf16(dst + 2 * i, vf_load(src + i));
    zt_dtype_get(t)->encode(src + i, dst + 2 * i, n - i);
}

/* n elements from the i-th: where they lie, or decoded into scratch. */
INLINE const float *operand(const zt_cpu_arg *a, int64_t i, int64_t n, float *scratch)
{
    zt_dtype t = a->type.dtype;
    if (t == ZT_F32) return (const float *)a->data + i;
    if (t == ZT_F16 || t == ZT_BF16)
        halves_to_f32(t, element(a, i), scratch, n);
    else
        zt_dtype_get(t)->decode(element(a, i), scratch, n);
    return scratch;
}

/* Are the elements of the output from the i-th stored past the caches? */
INLINE bool streamed(const zt_cpu_arg *a, int64_t i)
{
    return a->type.dtype == ZT_F32 && beyond_caches(&a->type) && on_line((float *)a->data + i);
}

/* Where n elements of the output are to be computed; then to be put in their place. */
INLINE float *result(const zt_cpu_arg *a, int64_t i, float *scratch)
{
    return a->type.dtype != ZT_F32 || streamed(a, i) ? scratch : (float *)a->data + i;
}

/* The same for what stores by vf_put. */
INLINE float *target(const zt_cpu_arg *a, int64_t i, float *scratch)
{
    return a->type.dtype != ZT_F32 ? scratch : (float *)a->data + i;
}

INLINE void put(const zt_cpu_arg *a, int64_t i, int64_t n, const float *y)
{
    zt_dtype t = a->type.dtype;
    if (t == ZT_F16 || t == ZT_BF16)
        f32_to_halves(t, y, element(a, i), n);
    else if (t != ZT_F32)
        zt_dtype_get(t)->encode(y, element(a, i), n);
    else if (y != (float *)a->data + i)
        stream_copy(y, (float *)a->data + i, n);
}

INLINE void chunks_setup(zt_cpu_call *c)
{
    c->items[0] = (zt_type_count(&c->out[0].type) + CHUNK - 1) / CHUNK;
    c->local_bytes = 3 * CHUNK * sizeof(float);
}

INLINE bool narrow_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return narrow(out[0].dtype); /* the inputs are of the same dtype */
}

/* ---- one input ------------------------------------------------------------------------------- */

typedef vf curve(vf x, const double *p); /* p: the attributes */

/* f is known when compiling, so every use below becomes a loop of its own. */
INLINE void map(const float *x, float *y, int64_t n, curve *f, const double *p, bool past)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        if (past) fetch_ahead(x + i);
        vf_put(y + i, f(vf_load(x + i), p), past);
    }
    if (i < n) vf_store_n(y + i, (int)(n - i), f(vf_load_n(x + i, (int)(n - i)), p));
}

INLINE void run_map(zt_cpu_call *c, int64_t begin, int64_t end, float *local, curve *f,
                    const double *p)
{
    int64_t count = zt_type_count(&c->out[0].type), last = end * CHUNK < count ? end * CHUNK : count;
    bool plain = c->in[0].type.dtype == ZT_F32 && c->out[0].type.dtype == ZT_F32;
    for (int64_t at = begin * CHUNK, n; at < last; at += n) {
        n = plain || last - at < CHUNK ? last - at : CHUNK; /* without scratch all at once */
        const float *x = operand(&c->in[0], at, n, local);
        float *y = target(&c->out[0], at, local + CHUNK);
        map(x, y, n, f, p, streamed(&c->out[0], at));
        put(&c->out[0], at, n, y);
    }
}

#endif
