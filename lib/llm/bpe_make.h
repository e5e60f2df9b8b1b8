/* bpe_make.h - private to lib/llm: a byte-level BPE vocabulary from a text. */
#ifndef ZT_BPE_MAKE_H
#define ZT_BPE_MAKE_H

#include "lib/io/gguf_write.h"

/* Writes tokenizer.ggml.*: the end of text, the bytes, and the merges of a text, `max_tokens` tokens in
 * all at most; *n_tokens how many these are. */
zt_status zt_bpe_make(zt_gguf_writer *writer, zt_ctx *ctx, const char *text, size_t text_size, int64_t max_tokens,
                      int64_t *n_tokens);

#endif
