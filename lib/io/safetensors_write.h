/* safetensors_write.h - write safetensors: the header, in memory; the data stream behind it, each
 * tensor in the order given, without gaps.
 *
 *     zt_st_writer *writer = zt_st_writer_new(ctx);
 *     zt_st_put_meta(writer, "format", "pt", 2);
 *     zt_st_put_tensor(writer, "embed.weight", "BF16", 2, (int64_t[]){49152, 576}, bytes);
 *     char *header = zt_st_writer_finish(writer, 0, &size);  // zt_free it; then `bytes` of data follow
 *     zt_st_writer_free(writer);
 *
 * The first failure stays: the calls after it do nothing and return it. */
#ifndef ZT_SAFETENSORS_WRITE_H
#define ZT_SAFETENSORS_WRITE_H

#include "lib/io/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_st_writer zt_st_writer;

zt_st_writer *zt_st_writer_new(zt_ctx *ctx, size_t expect); /* bytes of the header, about */
void zt_st_writer_free(zt_st_writer *writer);               /* NULL: nothing */

/* Before the first tensor. Text that is not valid UTF-8 is ZT_ENOTSUP. */
zt_status zt_st_put_meta(zt_st_writer *writer, const char *key, const char *text, size_t size);
/* `word` is the format's for the dtype. */
zt_status zt_st_put_tensor(zt_st_writer *writer, const char *name, const char *word, int rank, const int64_t *dim,
                           uint64_t bytes);
/* The header, filled up by blanks to `least` bytes; if it is longer, to a multiple of 64, where the
 * data begin. NULL on failure. */
char *zt_st_writer_finish(zt_st_writer *writer, size_t least, size_t *size);

/* Is the text valid UTF-8 without a zero byte, as the format's strings must be? */
bool zt_st_text_ok(const char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
