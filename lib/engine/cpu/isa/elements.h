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
#define ALL_INTEGERS(X)                                                                                                          \
    X(I64, int64_t)                                                                                                              \
    X(I32, int32_t) X(I16, int16_t) X(I8, int8_t) X(U64, uint64_t) X(U32, uint32_t) X(U16, uint16_t) X(U8, uint8_t)

enum { CHUNK = 1024 }; /* a multiple of every dtype's block */

INLINE bool narrow(zt_dtype dtype) /* types whose values f32 holds exactly */
{
    return dtype == ZT_F32 || dtype == ZT_F16 || dtype == ZT_BF16;
}

/* ---- operands as f32 ------------------------------------------------------------------------- */

INLINE char *element(const zt_cpu_arg *arg, int64_t i)
{
    const zt_dtype_info *info = zt_dtype_get(arg->type.dtype);
    return (char *)arg->data + i / info->block * info->block_bytes;
}

/* n elements of f16 or bf16 to f32 and back, sixteen at a time. */
INLINE void halves_to_f32(zt_dtype dtype, const char *src, float *dst, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n && dtype == ZT_F16; i += LANES) vf_store(dst + i, vf_of_f16(src + 2 * i));
    for (; i + LANES <= n; i += LANES) vf_store(dst + i, vf_of_bf16(src + 2 * i));
    zt_dtype_get(dtype)->decode(src + 2 * i, dst + i, n - i);
}

INLINE void f32_to_halves(zt_dtype dtype, const float *src, char *dst, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n && dtype == ZT_F16; i += LANES) vf_to_f16(dst + 2 * i, vf_load(src + i));
    for (; i + LANES <= n; i += LANES) vf_to_bf16(dst + 2 * i, vf_load(src + i));
    zt_dtype_get(dtype)->encode(src + i, dst + 2 * i, n - i);
}

/* n elements from the i-th: where they lie, or decoded into scratch. */
INLINE const float *operand(const zt_cpu_arg *arg, int64_t i, int64_t n, float *scratch)
{
    zt_dtype dtype = arg->type.dtype;
    if (dtype == ZT_F32) return (const float *)arg->data + i;
    if (dtype == ZT_F16 || dtype == ZT_BF16)
        halves_to_f32(dtype, element(arg, i), scratch, n);
    else
        zt_dtype_get(dtype)->decode(element(arg, i), scratch, n);
    return scratch;
}

/* Are the elements of the output from the i-th stored past the caches? */
INLINE bool streamed(const zt_cpu_arg *arg, int64_t i)
{
    return arg->type.dtype == ZT_F32 && beyond_caches(&arg->type) && on_line((float *)arg->data + i);
}

/* Where n elements of the output are to be computed; then to be put in their place. */
INLINE float *result(const zt_cpu_arg *arg, int64_t i, float *scratch)
{
    return arg->type.dtype != ZT_F32 || streamed(arg, i) ? scratch : (float *)arg->data + i;
}

/* The same for what stores by vf_put. */
INLINE float *target(const zt_cpu_arg *arg, int64_t i, float *scratch)
{
    return arg->type.dtype != ZT_F32 ? scratch : (float *)arg->data + i;
}

INLINE void put(const zt_cpu_arg *arg, int64_t i, int64_t n, const float *y)
{
    zt_dtype dtype = arg->type.dtype;
    if (dtype == ZT_F16 || dtype == ZT_BF16)
        f32_to_halves(dtype, y, element(arg, i), n);
    else if (dtype != ZT_F32)
        zt_dtype_get(dtype)->encode(y, element(arg, i), n);
    else if (y != (float *)arg->data + i)
        stream_copy(y, (float *)arg->data + i, n);
}

INLINE void chunks_setup(zt_cpu_call *call)
{
    call->items[0] = (zt_type_count(&call->out[0].type) + CHUNK - 1) / CHUNK;
    call->local_bytes = 3 * CHUNK * sizeof(float);
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

INLINE void run_map(zt_cpu_call *call, int64_t begin, int64_t end, float *local, curve *f, const double *p)
{
    int64_t count = zt_type_count(&call->out[0].type), last = end * CHUNK < count ? end * CHUNK : count;
    bool plain = call->in[0].type.dtype == ZT_F32 && call->out[0].type.dtype == ZT_F32;
    for (int64_t at = begin * CHUNK, n; at < last; at += n) {
        n = plain || last - at < CHUNK ? last - at : CHUNK; /* without scratch all at once */
        const float *x = operand(&call->in[0], at, n, local);
        float *y = target(&call->out[0], at, local + CHUNK);
        map(x, y, n, f, p, streamed(&call->out[0], at));
        put(&call->out[0], at, n, y);
    }
}

#endif
