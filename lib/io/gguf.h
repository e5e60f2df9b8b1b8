/* gguf.h - read GGUF files, version 2 and 3, of either byte order.
 *
 * The header (keys and tensor list) is read and checked once; tensor bytes are read on demand.
 * Files are hostile: every count, offset and length is checked against the file before it is
 * believed, so that the memory used is bounded by the file's size. Shapes are row-major here:
 * GGUF's reversed order stays inside. Of a big-endian file numbers, and data of plain types, come
 * out little endian; blocks of quantized types are taken as they are, as gguf-py does it. Format:
 * docs/gguf.md of ggml, as facts.
 *
 *     zt_gguf *gguf = zt_gguf_open(ctx, "m.gguf");
 *     int64_t layers;
 *     if (zt_gguf_i64(gguf, "llama.block_count", &layers)) ...
 *     zt_gguf_close(gguf);
 */
#ifndef ZT_GGUF_H
#define ZT_GGUF_H

#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_gguf zt_gguf;

zt_gguf *zt_gguf_open(zt_ctx *ctx, const char *path);  /* opens and owns a zt_source */
zt_gguf *zt_gguf_from(zt_ctx *ctx, zt_source *source); /* borrows the source */
zt_gguf *zt_gguf_take(zt_ctx *ctx, zt_source *source); /* owns the source, also when it fails */
/* A header in memory (zt_gguf_writer_finish) over tensors that another store holds: tensor i of the
 * header is that store's handle i, and data_bytes is what all of them take with their padding.
 * Takes over the header (zt_free) and the store (release, may be NULL), also when it fails. */
zt_gguf *zt_gguf_over(zt_ctx *ctx, const char *name, char *header, size_t size, uint64_t data_bytes, const zt_store *data,
                      void (*release)(void *user));
/* From one shard, NAME-00002-of-0000N.gguf, opened by that path: all shards as one model, without
 * the keys split.*. A file that is not a shard is returned unchanged. A name that the keys
 * contradict, a tensor in two shards, and a shard read from a stream are
 * ZT_EDATA. Takes over `gguf`, also when it fails. */
zt_gguf *zt_gguf_with_shards(zt_gguf *gguf, const char *path);
void zt_gguf_close(zt_gguf *gguf); /* ends all that is borrowed from `gguf`. NULL: nothing */

zt_ctx *zt_gguf_ctx(const zt_gguf *gguf); /* the context it was opened with */

const char *zt_gguf_name(const zt_gguf *gguf);   /* of the source, for messages */
const char *zt_gguf_id(const zt_gguf *gguf);     /* 32 hex digits: XXH3-128 of header bytes and size */
uint64_t zt_gguf_file_size(const zt_gguf *gguf); /* bytes, header included; zt_source_size's */

/* ---- metadata -------------------------------------------------------------------------------- */

/* GGUF's numbers for value types. */
// clang-format off
typedef enum zt_gguf_kind {
    ZT_GGUF_U8, ZT_GGUF_I8, ZT_GGUF_U16, ZT_GGUF_I16, ZT_GGUF_U32, ZT_GGUF_I32, ZT_GGUF_F32,
    ZT_GGUF_BOOL, ZT_GGUF_STR, ZT_GGUF_ARRAY, ZT_GGUF_U64, ZT_GGUF_I64, ZT_GGUF_F64
} zt_gguf_kind;
// clang-format on

typedef struct zt_bytes { /* a borrowed piece of text: not closed by a zero */
    const char *data;
    size_t n;
} zt_bytes;

const char *zt_gguf_kind_name(zt_gguf_kind kind); /* "u32", "str", "array" */

int64_t zt_gguf_n_keys(const zt_gguf *gguf); /* keys are numbered from 0 */
/* Key i's name, not closed by a zero; `kind` may be NULL. */
zt_bytes zt_gguf_key(const zt_gguf *gguf, int64_t i, zt_gguf_kind *kind);
/* The value's bytes, little endian, as they lie in a file of version 3 behind its kind. */
zt_bytes zt_gguf_key_value(const zt_gguf *gguf, int64_t i, zt_gguf_kind *kind, zt_bytes *value);
/* By name; false when the key is absent or of another kind (a number of any width is a number, a
 * bool also 0 or 1; floats only where integral for i64). No message. */
bool zt_gguf_i64(const zt_gguf *gguf, const char *key, int64_t *out);
bool zt_gguf_f64(const zt_gguf *gguf, const char *key, double *out);   /* any number */
bool zt_gguf_str(const zt_gguf *gguf, const char *key, zt_bytes *out); /* borrowed from gguf */
/* Arrays: element count and kind, then elements; index within count. */
bool zt_gguf_array(const zt_gguf *gguf, const char *key, zt_gguf_kind *elem, int64_t *count);
/* {"",0} if not a string. Walks from the first: for one or two, not for all. */
zt_bytes zt_gguf_array_str(const zt_gguf *gguf, const char *key, int64_t i);
/* Whole arrays at once (tokens, scores) into out[count], texts borrowed from `gguf`. false: absent, of
 * another kind, or not of `count` elements; out may be written in part. */
bool zt_gguf_array_strs(const zt_gguf *gguf, const char *key, zt_bytes *out, int64_t count);
bool zt_gguf_array_i64(const zt_gguf *gguf, const char *key, int64_t *out, int64_t count); /* as above */
bool zt_gguf_array_f64(const zt_gguf *gguf, const char *key, double *out, int64_t count);  /* as above */

/* ---- tensors --------------------------------------------------------------------------------- */

int64_t zt_gguf_n_tensors(const zt_gguf *gguf); /* tensors are numbered from 0 */
/* Tensors of ik_llama.cpp's types whose rows begin with a scale (iq4_ks ...), of which there is no zt_dtype, are f32 here and in
 * the store, which decodes them. After this call they have no dtype (rank -1) and are read as they are stored, for who
 * copies them; so they are in a stream. NULL: nothing. */
void zt_gguf_keep_rows(zt_gguf *gguf);
/* Tensor i: its name; its type, place in the file and size in bytes as it is read, each of which may be NULL. */
const char *zt_gguf_tensor(const zt_gguf *gguf, int64_t i, zt_type *type, uint64_t *offset, size_t *bytes);
/* The format's word for its type ("q8_1"), and the shape's true rank, also where zt lacks it. */
const char *zt_gguf_tensor_word(const zt_gguf *gguf, int64_t i, int *rank);
int64_t zt_gguf_find(const zt_gguf *gguf, const char *name); /* index or -1 */
/* After the last tensor of a stream: passes by what may follow it. */
zt_status zt_gguf_end(zt_gguf *gguf);
/* Where tensor i's bytes are as they will be read; false: not in one piece. */
bool zt_gguf_place(const zt_gguf *gguf, int64_t i, const zt_source **source, uint64_t *offset);
/* A store over the file, valid while it is open. */
zt_store zt_gguf_store(zt_gguf *gguf);
/* A tensor of a type that ggml has and zt does not passes open; only using it fails: the store's
 * find is ZT_ENOTSUP naming tensor and type. `type` above then has rank -1. A number that ggml does
 * not have is bad data: its size cannot be known. Names are closed by
 * a zero byte, below 64 bytes. */

#ifdef __cplusplus
}
#endif
#endif
