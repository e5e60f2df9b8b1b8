/* safetensors.h - read safetensors files, and models sharded over several by an index.
 *
 * The header is read and checked once; tensor bytes are read on demand. Files are hostile: offsets
 * must cover the data without a hole or an overlap, and sizes must be what dtype and shape say, as
 * the format demands. Format: the README of huggingface/safetensors, as facts: a little-endian u64
 * n (at most 100 MB), n bytes of JSON {"name": {"dtype", "shape", "data_offsets"}, "__metadata__":
 * {"key": "text"}}, data.
 *
 *     zt_safetensors *file = zt_safetensors_open(ctx, "model.safetensors");
 *     for (int64_t i = 0; i < zt_safetensors_count(file); i++) ... zt_safetensors_get(file, i)->name ...
 *     zt_safetensors_close(file);
 */
#ifndef ZT_SAFETENSORS_H
#define ZT_SAFETENSORS_H

#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_safetensors zt_safetensors;

zt_safetensors *zt_safetensors_open(zt_ctx *ctx, const char *path);  /* opens and owns a source */
zt_safetensors *zt_safetensors_from(zt_ctx *ctx, zt_source *source); /* borrows the source */
/* NAME.safetensors.index.json: the tensors of its "weight_map", in shards in the same folder. A
 * shard outside the folder, a tensor in two shards, or one that is not in the shard listed for
 * it, is ZT_EDATA. */
zt_safetensors *zt_safetensors_open_index(zt_ctx *ctx, const char *path);
zt_safetensors *zt_safetensors_take(zt_ctx *ctx, zt_source *source); /* owns it, also when it fails */
void zt_safetensors_close(zt_safetensors *safetensors);              /* NULL: nothing */

/* Do these first bytes of a file of `size` bytes begin a safetensors file? 9 bytes suffice. */
bool zt_safetensors_sniff(const void *bytes, size_t head_size, uint64_t size);

const char *zt_safetensors_name(const zt_safetensors *safetensors); /* of the file or index, for messages */

typedef struct zt_safetensors_entry {
    const char *name;  /* without a zero byte inside; of any length */
    const char *dtype; /* the format's word for it: "BF16" */
    zt_type type;      /* rank -1: a dtype or rank unknown to zt; reading works */
    int rank;          /* of the shape; type.dim has it as far as ZT_MAX_RANK, in any case */
    size_t bytes;
} zt_safetensors_entry;

int64_t zt_safetensors_count(const zt_safetensors *safetensors); /* tensors, numbered from 0 */
/* In the order of their data. */
const zt_safetensors_entry *zt_safetensors_get(const zt_safetensors *safetensors, int64_t i); /* NULL: out of range */
int64_t zt_safetensors_find(const zt_safetensors *safetensors, const char *name);             /* index or -1 */
/* `size` bytes at `offset` of tensor i. From any thread. */
zt_status zt_safetensors_read(const zt_safetensors *safetensors, int64_t i, size_t offset, void *dst, size_t size);

/* "__metadata__": pairs of texts, in the file's order; NULL past the last. Of shards the
 * first one's. */
const char *zt_safetensors_meta(const zt_safetensors *safetensors, int64_t i, const char **value, size_t *size);

/* Where tensor i's bytes are. */
void zt_safetensors_place(const zt_safetensors *safetensors, int64_t i, const zt_source **source, uint64_t *offset);
/* After the last tensor of a stream: nothing may follow it. */
zt_status zt_safetensors_end(const zt_safetensors *safetensors);
/* The format's word for a dtype ("BF16"); NULL: it has none. */
const char *zt_safetensors_word(zt_dtype dtype);
bool zt_safetensors_has_word(const char *word); /* is it a dtype of the format? */

/* A store over the file, valid as long as it is open. A tensor of a dtype unknown to zt fails on
 * lookup, with ZT_ENOTSUP and its name. */
zt_store zt_safetensors_store(zt_safetensors *safetensors);

#ifdef __cplusplus
}
#endif
#endif
