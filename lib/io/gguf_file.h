/* gguf_file.h - private to lib/io/gguf*.c: what is kept of an open GGUF file.
 *
 * The header's bytes stay in one block, `head`, and everything else points into it by position:
 * a key costs 8 bytes and a tensor 40 beside it, whatever the counts say. */
#ifndef ZT_GGUF_FILE_H
#define ZT_GGUF_FILE_H

#include "lib/io/gguf.h"

typedef struct gguf_tensor {
    size_t name;     /* in head; closed by a zero byte once the file is open */
    size_t dims;     /* in head: `rank` u64, fastest first */
    uint64_t offset; /* from the beginning of the data section */
    uint64_t bytes;
    uint8_t rank, type, name_length; /* type: ggml's number */
} gguf_tensor;

struct zt_gguf {
    zt_ctx *ctx;
    zt_source *source;
    bool owns_source;
    zt_store over; /* holds the tensors, where read is not NULL; else the source does */
    void (*release)(void *user);
    char id[33];
    uint64_t file_size;
    char *head; /* the file's first `head_size` bytes */
    size_t head_size;
    uint64_t align, data_start; /* data: where the data section begins in the file */
    size_t *key;                /* [n_keys] positions of key records in head */
    int64_t n_keys;
    size_t keys_end; /* in head, behind the last key's value */
    bool keeps_rows; /* tensors whose rows begin with a scale are read as they are stored (zt_gguf_keep_rows) */
    bool big_endian; /* a big-endian file: head has been turned around, data are when read */
    zt_map *keys;
    gguf_tensor *tensor; /* [n_tensors] in file order, which is also the order of their data */
    int64_t n_tensors;
    zt_map *tensors;
};

/* ggml's tensor types by number; name NULL where there is none, or none any more. */
typedef struct gguf_type {
    const char *name;
    uint16_t block, block_bytes;
    zt_dtype dtype; /* ZT_DTYPE_COUNT: zt does not compute with it */
} gguf_type;
const gguf_type *zt_gguf_type(uint32_t number); /* NULL: no such type */
/* Bytes of `count` elements of a row of that table, in rows of `columns`. false: they overflow. */
bool zt_gguf_type_bytes(const gguf_type *type, int64_t count, int64_t columns, int64_t *bytes);

/* Tensors whose rows begin with a scale (gguf_rows.c): its bytes (0: none has one) by ggml's number; are they read as f32; the
 * bytes at `offset` of these numbers, which must be in range. */
size_t zt_gguf_row_scale(uint32_t number);
bool zt_gguf_decodes(const zt_gguf *gguf, const gguf_tensor *tensor);
zt_status zt_gguf_read_rows(const zt_gguf *gguf, int64_t handle, size_t offset, void *dst, size_t size);
/* `size` bytes at `offset` of tensor `handle` as it is stored, in range; numbers of a big-endian file are turned around. */
zt_status zt_gguf_read_stored(const zt_gguf *gguf, int64_t handle, size_t offset, void *dst, size_t size);

/* What a kind of value is: its bytes (0: they vary), and how they read: 'u' 'i' 'f' 'b' as the
 * name says, 's' string, 'a' array. */
typedef struct gguf_kind {
    const char *name;
    uint8_t bytes;
    char form;
} gguf_kind;
const gguf_kind *zt_gguf_kind_get(uint32_t kind); /* NULL: no such kind */

/* A key of this one file, which a file that is made of it does not have: which of a model's files it
 * is, and an alignment that is read, and not written (up to 2 GiB of padding). */
bool zt_gguf_is_own_key(const zt_gguf *gguf, zt_bytes key);
enum { ZT_GGUF_MOST_ALIGN = 1 << 20 }; /* that is written */

/* Read and check the whole header of g->source; fills all of `gguf` but the maps and id. false with a
 * message in the context. */
bool zt_gguf_parse(zt_gguf *gguf);

/* `count` numbers of 1, 2, 4 or 8 bytes, not aligned: the other byte order. */
void zt_swap_bytes(char *number, size_t count, int bytes);

/* Header bytes at a position that the parser has checked. */
uint32_t zt_gguf_u32(const char *bytes);
uint64_t zt_gguf_u64(const char *bytes);

#endif
