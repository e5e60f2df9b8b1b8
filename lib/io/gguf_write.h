/* gguf_write.h - write GGUF files, version 3: the header, in memory.
 *
 * Types and offsets are decided from the header alone, so that data can stream behind it, each
 * tensor in the order given, padded to the alignment.
 *
 *     zt_gguf_writer *writer = zt_gguf_writer_new(ctx);
 *     zt_gguf_put_str(writer, "general.architecture", "llama", 5);
 *     zt_gguf_put_int(writer, "llama.block_count", ZT_GGUF_U32, 30);
 *     zt_gguf_put_tensor(writer, "token_embd.weight", &type);
 *     size_t size;
 *     uint64_t data_bytes;
 *     char *header = zt_gguf_writer_finish(writer, &size, &data_bytes);  // zt_free it
 *     zt_gguf_writer_free(writer);
 *
 * The first failure stays: the calls after it do nothing and return it, so that one look at the end
 * is enough. A key or a tensor put twice, and what GGUF cannot say, is ZT_EUSAGE or ZT_ENOTSUP.
 */
#ifndef ZT_GGUF_WRITE_H
#define ZT_GGUF_WRITE_H

#include "lib/io/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_gguf_writer zt_gguf_writer;

zt_gguf_writer *zt_gguf_writer_new(zt_ctx *ctx);               /* empty; NULL: ZT_ENOMEM */
void zt_gguf_writer_free(zt_gguf_writer *writer);              /* NULL: nothing */
zt_status zt_gguf_writer_status(const zt_gguf_writer *writer); /* the first failure, or ZT_OK */

/* Any integer kind, bool too; ZT_EUSAGE when `value` does not fit. */
zt_status zt_gguf_put_int(zt_gguf_writer *writer, const char *key, zt_gguf_kind kind, int64_t value);
/* f32 (value is rounded) or f64; ZT_EUSAGE for other kinds. */
zt_status zt_gguf_put_real(zt_gguf_writer *writer, const char *key, zt_gguf_kind kind, double value);
/* A text of `size` bytes, which are copied. */
zt_status zt_gguf_put_str(zt_gguf_writer *writer, const char *key, const char *text, size_t size);
/* count values of a kind of fixed size, as they lie in a file. */
zt_status zt_gguf_put_array(zt_gguf_writer *writer, const char *key, zt_gguf_kind kind, const void *values, int64_t count);
/* An array of texts[count], which are copied. */
zt_status zt_gguf_put_strs(zt_gguf_writer *writer, const char *key, const zt_bytes *texts, int64_t count);
/* A value of any kind as zt_gguf_key_value gives it. The bytes are believed. */
zt_status zt_gguf_put_raw(zt_gguf_writer *writer, const char *key, zt_gguf_kind kind, const void *value, size_t size);
/* Of the data section: a power of two, 32 unless told; before the first tensor. Also the key. */
zt_status zt_gguf_put_align(zt_gguf_writer *writer, uint32_t align);

/* Names below 64 bytes, 4 dimensions at most, a dtype that ggml has. */
zt_status zt_gguf_put_tensor(zt_gguf_writer *writer, const char *name, const zt_type *type);

/* The same of a type by the format's word for it, also where zt lacks it; dim[rank], row-major. */
zt_status zt_gguf_put_tensor_word(zt_gguf_writer *writer, const char *name, const char *word, int rank, const int64_t *dim);
/* Can a tensor be put so? */
bool zt_gguf_can(const char *name, const char *word, int rank);

/* The header and its padding; *data_bytes (may be NULL) of data are to follow. NULL on failure, which the writer's
 * status then names. */
char *zt_gguf_writer_finish(zt_gguf_writer *writer, size_t *size, uint64_t *data_bytes);

#ifdef __cplusplus
}
#endif
#endif
