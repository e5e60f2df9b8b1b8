/* safetensors_file.h - private to lib/io/safetensors*.c: what is kept of open files, and of one
 * whose header is being read. */
#ifndef ZT_SAFETENSORS_FILE_H
#define ZT_SAFETENSORS_FILE_H

#include "lib/io/safetensors.h"

typedef struct st_tensor {
    zt_safetensors_entry entry;
    uint64_t offset; /* in its file, of its first byte */
    int shard_index;
} st_tensor;

typedef struct st_meta {
    const char *key, *value;
    size_t size;
} st_meta;

struct zt_safetensors {
    zt_ctx *ctx;
    char *name;
    bool owns_sources;
    zt_source **shards;
    int shard_count;
    zt_arena *texts; /* names and metadata */
    st_tensor *tensors;
    int64_t tensor_count, capacity;
    uint64_t data_start; /* offset of the data section in the last shard read */
    zt_map *names;
    st_meta *meta;
    int64_t meta_count;
};

/* Empty; NULL on failure. */
zt_safetensors *zt_st_new(zt_ctx *ctx, const char *name);
/* Room for one more of `count` entries, in steps that double. NULL: no memory, and the list stays. */
void *zt_st_grow_list(zt_ctx *ctx, void *list, int64_t count, size_t entry_bytes);
/* Appends a source to the list of shards. Where owns_sources is set it is closed with `safetensors`. */
zt_status zt_st_add_shard(zt_safetensors *safetensors, zt_source *source);
/* Reads and checks the header of the last shard; appends its tensors, sorted by offset, and its
 * metadata. */
zt_status zt_st_parse(zt_safetensors *safetensors);
/* A header that is being read. */
typedef struct st_parser {
    zt_safetensors *safetensors;
    const char *file;
    uint64_t data_start, data_size; /* offset and bytes of the data section */
    bool has_meta;
    int64_t first_meta; /* of this file */
    bool streams;       /* the size of the data is not known */
} st_parser;

/* Parses `text`, one tensor's entry in the header, into `tensor`, whose name is set already. ZT_ENOENT: the
 * entry is invalid, the fault was reported to a listener (fault.h), and the reader leaves it out. */
zt_status zt_st_entry(const st_parser *parser, const char *text, size_t size, st_tensor *tensor);
/* Reports a fault of tensor `name`. ZT_OK: a listener took it, reading goes on; else ZT_EDATA. */
zt_status zt_st_report_fault(const st_parser *parser, const char *name, const char *format, ...) ZT_PRINTF(3, 4);
/* Fills s->names from s->tensor. ZT_EDATA: two tensors have the same name. */
zt_status zt_st_map_names(zt_safetensors *safetensors);

#endif
