/* tensor.h - dtypes, types (a dtype and a shape), buffers and tensors.
 *
 * A zt_type is what is known of a value without its bytes. A zt_tensor is a small counted header
 * over a counted buffer; a view shares the buffer and extends its life. Shapes are row-major: the
 * last dimension is contiguous. Rank 0 is a scalar. Block types (q4_0 ...) pack the last dimension
 * in blocks, which it must be a multiple of.
 *
 *     zt_type type = zt_type_make(ZT_F32, 2, (int64_t[]){4, 576});
 *     zt_tensor *tensor = zt_tensor_new(ctx, &type);
 *     float *data = zt_tensor_data(tensor);
 *     zt_tensor_unref(tensor);
 */
#ifndef ZT_TENSOR_H
#define ZT_TENSOR_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
// clang-format off
#endif

#define ZT_MAX_RANK 10 /* a batch of channels of 8 dimensions */

/* ---- dtypes: one table ---------------------------------------------------------------------- */

/* X(NAME, text, elements a block, bytes a block, kind). Kinds: F float, I signed, U unsigned,
 * B bool, Q block-quantized float. Block layouts: ggml-common.h of ggml (MIT), of
 * iq2_k to iq6_k that of ik_llama.cpp (MIT), as facts.
 *
 * i4 to f4_e2m1 pack whole values in bytes, the first element in the lowest bits; a value's last
 * byte may be filled in part, so that they have any shape. They are of kind Q: computing with them
 * is by way of floats, which hold their values exactly (zt_dtype_is_packed). */
#define ZT_DTYPES(X)                                                                               \
    X(F64, "f64", 1, 8, F)                                                                         \
    X(F32, "f32", 1, 4, F)                                                                         \
    X(F16, "f16", 1, 2, F)                                                                         \
    X(BF16, "bf16", 1, 2, F)                                                                       \
    X(F8_E4M3, "f8_e4m3", 1, 1, F)                                                                 \
    X(F8_E5M2, "f8_e5m2", 1, 1, F)                                                                 \
    X(F8_E4M3FNUZ, "f8_e4m3fnuz", 1, 1, F)                                                         \
    X(F8_E5M2FNUZ, "f8_e5m2fnuz", 1, 1, F)                                                         \
    X(F8_E8M0, "f8_e8m0", 1, 1, F)                                                                 \
    X(I64, "i64", 1, 8, I)                                                                         \
    X(I32, "i32", 1, 4, I)                                                                         \
    X(I16, "i16", 1, 2, I)                                                                         \
    X(I8, "i8", 1, 1, I)                                                                           \
    X(U64, "u64", 1, 8, U)                                                                         \
    X(U32, "u32", 1, 4, U)                                                                         \
    X(U16, "u16", 1, 2, U)                                                                         \
    X(U8, "u8", 1, 1, U)                                                                           \
    X(BOOL, "bool", 1, 1, B)                                                                       \
    X(I4, "i4", 2, 1, Q)                                                                           \
    X(U4, "u4", 2, 1, Q)                                                                           \
    X(I2, "i2", 4, 1, Q)                                                                           \
    X(U2, "u2", 4, 1, Q)                                                                           \
    X(F4_E2M1, "f4_e2m1", 2, 1, Q)                                                                 \
    X(Q4_0, "q4_0", 32, 18, Q)                                                                     \
    X(Q4_1, "q4_1", 32, 20, Q)                                                                     \
    X(Q5_0, "q5_0", 32, 22, Q)                                                                     \
    X(Q5_1, "q5_1", 32, 24, Q)                                                                     \
    X(Q8_0, "q8_0", 32, 34, Q)                                                                     \
    X(IQ4_NL, "iq4_nl", 32, 18, Q)                                                                 \
    X(MXFP4, "mxfp4", 32, 17, Q)                                                                   \
    X(NVFP4, "nvfp4", 64, 36, Q)                                                                   \
    X(Q1_0, "q1_0", 128, 18, Q)                                                                    \
    X(Q2_0, "q2_0", 64, 18, Q)                                                                     \
    X(TQ1_0, "tq1_0", 256, 54, Q)                                                                  \
    X(TQ2_0, "tq2_0", 256, 66, Q)                                                                  \
    X(Q2_K, "q2_k", 256, 84, Q)                                                                    \
    X(Q3_K, "q3_k", 256, 110, Q)                                                                   \
    X(Q4_K, "q4_k", 256, 144, Q)                                                                   \
    X(Q5_K, "q5_k", 256, 176, Q)                                                                   \
    X(Q6_K, "q6_k", 256, 210, Q)                                                                   \
    X(IQ4_XS, "iq4_xs", 256, 136, Q)                                                               \
    X(IQ3_XXS, "iq3_xxs", 256, 98, Q)                                                              \
    X(IQ3_S, "iq3_s", 256, 110, Q)                                                                 \
    X(IQ2_XXS, "iq2_xxs", 256, 66, Q)                                                              \
    X(IQ2_XS, "iq2_xs", 256, 74, Q)                                                                \
    X(IQ2_S, "iq2_s", 256, 82, Q)                                                                  \
    X(IQ1_S, "iq1_s", 256, 50, Q)                                                                  \
    X(IQ1_M, "iq1_m", 256, 56, Q)                                                                  \
    X(IQ2_K, "iq2_k", 256, 76, Q)                                                                  \
    X(IQ3_K, "iq3_k", 256, 110, Q)                                                                 \
    X(IQ4_K, "iq4_k", 256, 144, Q)                                                                 \
    X(IQ5_K, "iq5_k", 256, 176, Q)                                                                 \
    X(IQ6_K, "iq6_k", 256, 212, Q)

typedef enum zt_dtype {
#define X(NAME, text, n, bytes, kind) ZT_##NAME,
    ZT_DTYPES(X)
#undef X
        ZT_DTYPE_COUNT
} zt_dtype;
// clang-format on

typedef struct zt_dtype_info {
    const char *name;
    int block;       /* elements a block; 1 for plain types */
    int block_bytes; /* bytes a block */
    char kind;       /* 'F' 'I' 'U' 'B' 'Q' */
    /* Elements (a multiple of block) to f32, as the type's reference does it; for 'F' and 'Q'
     * kinds, NULL else. f64 is rounded. */
    void (*decode)(const void *src, float *dst, int64_t n);
    /* f32 elements to the type, round to nearest even, what is too large to infinity, or to NaN
     * where there is none; for 'F' kinds and packed types, NULL else. */
    void (*encode)(const float *src, void *dst, int64_t n);
} zt_dtype_info;

/* The dtype's row, valid for the program's life; NULL: `dtype` is out of range. */
const zt_dtype_info *zt_dtype_get(zt_dtype dtype);
/* By exact name of `length` bytes, lower case. false: not a name, *out stays. */
bool zt_dtype_parse(const char *name, size_t length, zt_dtype *out);
bool zt_dtype_is_float(zt_dtype dtype);  /* 'F' or 'Q' */
bool zt_dtype_is_packed(zt_dtype dtype); /* i4 u4 i2 u2 f4_e2m1 */
/* The least and largest finite numbers of a plain or packed type; 0 and 0 for block types. */
void zt_dtype_range(zt_dtype dtype, double *least, double *most);
/* x as f32, rounded so that a second rounding, to a type of at most 22 bits of fraction, gives what
 * one would have: towards zero, and to odd where something is lost (S. Boldo, G. Melquiond). */
float zt_f64_to_f32_odd(double x);

/* Is there a conversion: from floats, packed and block types to floats and packed types? */
bool zt_dtype_converts(zt_dtype from, zt_dtype to);
/* Converts `count` elements, each rounded once, where zt_dtype_converts says so; equal dtypes are copied.
 * src and dst need no alignment and do not overlap. Of a value converted in pieces, every piece but
 * the last has whole blocks of both dtypes. */
void zt_dtype_convert(zt_dtype from, const void *src, zt_dtype to, void *dst, int64_t count);

float zt_f16_to_f32(uint16_t half);   /* exact */
uint16_t zt_f32_to_f16(float value);  /* round to nearest even; overflow to inf; NaN stays NaN */
float zt_bf16_to_f32(uint16_t half);  /* exact */
uint16_t zt_f32_to_bf16(float value); /* round to nearest even; NaN stays NaN */

/* ---- types ---------------------------------------------------------------------------------- */

typedef struct zt_type {
    zt_dtype dtype;
    int rank;
    int64_t dim[ZT_MAX_RANK]; /* entries past rank are 0 */
} zt_type;

/* dim has `rank` entries; NULL for rank 0. Checks nothing (zt_type_check does). */
zt_type zt_type_make(zt_dtype dtype, int rank, const int64_t *dim);
bool zt_type_equal(const zt_type *left, const zt_type *right); /* the same dtype, rank and dimensions */
int64_t zt_type_count(const zt_type *type);                    /* elements; the product must have been checked */
size_t zt_type_bytes(const zt_type *type);                     /* bytes of the contiguous value; must have been checked */
/* Is the type valid: rank, no negative dimension, last dimension a multiple of the block size, bytes
 * fit. `*bytes` (may be NULL) gets its size. If not, ctx (may be NULL) gets a message. */
bool zt_type_check(zt_ctx *ctx, const zt_type *type, size_t *bytes);
/* "f32[4,576]", for messages and programs. Returns buf. */
#define ZT_TYPE_TEXT 240 /* a name and ZT_MAX_RANK dimensions of 20 characters */
const char *zt_type_text(const zt_type *type, char buffer[ZT_TYPE_TEXT]);

/* ---- tensors -------------------------------------------------------------------------------- */

typedef struct zt_tensor zt_tensor;

/* A tensor with one reference, its contents not cleared. NULL: ZT_ESHAPE for an invalid type, ZT_ENOMEM. */
zt_tensor *zt_tensor_new(zt_ctx *ctx, const zt_type *type);
/* A tensor over memory of the caller, zt_type_bytes long; `release` (may be NULL) runs when the last
 * view is released. NULL as above: release does not run, the memory stays the caller's. */
zt_tensor *zt_tensor_wrap(zt_ctx *ctx, const zt_type *type, void *data, void (*release)(void *user, void *data), void *user);
/* A contiguous piece of `base` read as `type`, `offset_bytes` into it. NULL: base is NULL, ZT_ESHAPE
 * where the piece does not lie within base, ZT_ENOMEM. */
zt_tensor *zt_tensor_view(zt_tensor *base, const zt_type *type, size_t offset_bytes);
zt_tensor *zt_tensor_ref(zt_tensor *tensor); /* adds a reference; returns `tensor`. NULL gives NULL */
void zt_tensor_unref(zt_tensor *tensor);     /* drops a reference; the last one frees. NULL: nothing */
/* True: one reference, and the buffer belongs to the library and is not shared. */
bool zt_tensor_sole(const zt_tensor *tensor);

const zt_type *zt_tensor_type(const zt_tensor *tensor); /* borrowed from tensor */
/* The first byte of the value, row-major; valid while `tensor` is held. Bytes that are on a device (below)
 * are copied to the host first: two threads must not do that at once, and a failure is in the
 * context. */
void *zt_tensor_data(const zt_tensor *tensor);
size_t zt_tensor_bytes(const zt_tensor *tensor); /* of this value, not of its whole buffer */
zt_ctx *zt_tensor_ctx(const zt_tensor *tensor);  /* the context it was made with */

/* A buffer whose current bytes are on a device. An engine embeds this struct in a record of its own
 * and attaches it to the buffer with zt_tensor_make_device_resident. It is detached in one of three ways:
 *
 *   zt_tensor_data is called   the buffer detaches it, then calls `fetch`, which fills `data`
 *   the buffer is freed        the buffer detaches it, then calls `drop`
 *   the engine ends it         the engine stores NULL through `attached`
 */
typedef struct zt_device_resident zt_device_resident;
struct zt_device_resident {
    void (*fetch)(zt_device_resident *record);
    void (*drop)(zt_device_resident *record);
    void *data;                    /* the buffer's memory */
    zt_device_resident **attached; /* the buffer's pointer to this struct */
};
/* Attaches `record`, which must live until it is detached; fills data and attached. `tensor` spans its whole buffer. */
void zt_tensor_make_device_resident(zt_tensor *tensor, zt_device_resident *record);
zt_device_resident *zt_tensor_device_resident(const zt_tensor *tensor); /* NULL: the bytes are on the host */
void *zt_tensor_address(const zt_tensor *tensor);                       /* host address of the bytes; copies nothing */

/* Tensors used again, by dtype and shape. Thread-safe. */
typedef struct zt_tensor_pool zt_tensor_pool;
zt_tensor_pool *zt_tensor_pool_new(zt_ctx *ctx); /* empty; NULL: ZT_ENOMEM, ZT_ESYS */
void zt_tensor_pool_free(zt_tensor_pool *pool);  /* those that are out stay their holders' */
/* A tensor held once, all its bytes 0. NULL as zt_tensor_new. */
zt_tensor *zt_tensor_pool_acquire(zt_tensor_pool *pool, const zt_type *type);
/* Takes the caller's count over. A tensor that is held elsewhere, or viewed, is not kept. */
void zt_tensor_pool_release(zt_tensor_pool *pool, zt_tensor *tensor); /* NULL: nothing */
size_t zt_tensor_pool_len(const zt_tensor_pool *pool);                /* how many wait */

/* ---- named tensors somewhere else ------------------------------------------------------------ */

/* A store finds tensors by name and reads their bytes: a GGUF file, an npz, tensors in memory.
 * Engines fill their own copy of a weight through it. */
typedef struct zt_store zt_store;
struct zt_store {
    void *user;
    /* ZT_OK and the type, or ZT_ENOENT without a message when there is none of that name. */
    zt_status (*find)(void *user, const char *name, zt_type *type, int64_t *handle);
    /* `size` bytes at `offset` of that tensor. May be called from several threads at once. */
    zt_status (*read)(void *user, int64_t handle, size_t offset, void *dst, size_t size);
};

#ifdef __cplusplus
}
#endif
#endif
