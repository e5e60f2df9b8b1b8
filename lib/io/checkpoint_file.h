/* checkpoint_file.h - private to lib/io/checkpoint*.c: what a row of the table of containers is,
 * and what is kept of an open checkpoint and of one being written.
 *
 * checkpoint.c owns the table, opening and reading; checkpoint_parts.c several files as one; checkpoint_mask.c what a container
 * cannot say; checkpoint_write.c writing, shards and changes in place; checkpoint_made.c tensors made as they are read; checkpoint_gguf.c,
 * _safetensors.c, _arrays.c and _json.c their containers. */
#ifndef ZT_CHECKPOINT_FILE_H
#define ZT_CHECKPOINT_FILE_H

#include "lib/io/checkpoint.h"
#include "lib/io/gguf_write.h"
#include "lib/io/shards.h"

/* ---- a container ----------------------------------------------------------------------------- */

typedef struct zt_reader {
    int64_t (*count)(const void *user);
    void (*get)(const void *user, int64_t i, zt_entry *e);
    int64_t (*find)(const void *user, const char *name);
    zt_status (*read)(void *user, int64_t i, uint64_t offset, void *dst, size_t n);
    bool (*place)(const void *user, int64_t i, const zt_source **source, uint64_t *offset);
    zt_status (*meta)(const void *user, zt_meta *to);
    void (*keep_rows)(void *user); /* see ZT_CHECKPOINT_DECODE; NULL: the container has no such types */
    zt_status (*end)(void *user);  /* of a stream, NULL: nothing to do */
    void (*close)(void *user);
} zt_reader;

/* A file being written: one, or one of several shards. */
typedef struct zt_part {
    zt_ctx *ctx;
    zt_sink *sink;
    char *path;
    const zt_entry *entries; /* as they are stored */
    int64_t count;
    uint64_t align, position; /* the container's own: bytes of data put, and what they are padded to */
    void *user;
} zt_part;

typedef struct zt_part_ops {
    /* The header, with metadata in the container's own way and all entries: of `least` bytes at
     * least, where it can be filled up. NULL on failure; zt_free it. Containers that have no header
     * begin instead. */
    char *(*header)(zt_part *part, const zt_meta *meta, size_t least, size_t *size);
    zt_status (*begin)(zt_part *part, const zt_meta *meta);
    zt_status (*tensor)(zt_part *part, int64_t i);                   /* before entry i's data; NULL: nothing is */
    zt_status (*put)(zt_part *part, const void *bytes, size_t size); /* NULL: as they are */
    zt_status (*end)(zt_part *part);                                 /* NULL: nothing is */
    void (*close)(zt_part *part);                                    /* frees user; NULL */
} zt_part_ops;

struct zt_container {
    const char *name, *suffix;
    /* Do these first bytes of a file of `size` bytes begin one? head_size is ZT_PROBE or the file's all. */
    bool (*probe)(const unsigned char *head, size_t head_size, uint64_t size);
    bool streams; /* is read as it comes */
    /* Takes over the source, also on failure; fills reader and user. */
    zt_status (*open)(zt_checkpoint *checkpoint, zt_source *source);
    /* Writing; NULL: it is not written. */
    const zt_part_ops *ops;
    bool (*can_store)(const zt_entry *entry); /* name, dtype and shape as they are? */
    /* Can it hold this metadata in its own way? NULL: it has none, and "zt.gguf" is a tensor. */
    bool (*can_meta)(const zt_meta *meta);
    zt_dtype mask_dtype; /* of what it cannot say: U8, or I8 */
    bool shards;         /* NAME-00001-of-0000N and suffix are written as one model */
    /* Is a file of that name read with all the others, by numbers or an index? NULL: none is. */
    bool (*numbered)(const zt_source *source);
    /* A shard's own keys (NULL: none); what is written beside them, when all are whole. */
    zt_status (*shard_meta)(zt_meta *meta, int64_t index, int64_t count, int64_t tensor_count);
    char *(*index)(zt_ctx *ctx, const zt_part *part, int64_t n, size_t *mask_dtype);
    const char *index_suffix;
};

enum { ZT_PROBE = 512 };

extern const zt_container zt_container_gguf, zt_container_safetensors, zt_container_npz, zt_container_npy, zt_container_pt,
    zt_container_json, zt_container_index;

/* ---- an open checkpoint ---------------------------------------------------------------------- */

/* A tensor that is stored as something else. */
typedef struct zt_mask {
    const char *name, *dtype;
    zt_type type;
} zt_mask;

struct zt_checkpoint {
    zt_ctx *ctx;
    char *name;
    const zt_container *container;
    const zt_reader *reader;
    void *user;
    bool streams, parts;
    bool alone; /* one of several files, for who reads them all: others are not looked for */
    zt_meta *meta;
    int64_t hidden;   /* the stored tensor that is metadata; -1: none */
    int64_t *mask_of; /* [stored tensors] index of mask, -1: as it is; NULL: none is masked */
    zt_mask *mask;
    int64_t n_masks;
    zt_map *masks; /* true name -> index of what is stored */
    zt_arena *texts;
};

/* Over what is open already, in parts; takes it over, also on failure. */
zt_checkpoint *zt_checkpoint_over(zt_ctx *ctx, const char *name, const zt_container *container, const zt_reader *reader,
                                  void *user);
/* One of several files, by itself and as it is stored: no masks. Takes over the source, also on
 * failure; NULL gives NULL. */
zt_checkpoint *zt_checkpoint_alone(zt_ctx *ctx, zt_source *source);
/* All the files of the model that c->name is one of: by the index beside it, else by their numbers.
 * Fills container, reader and user of `checkpoint`. */
zt_status zt_parts_open(zt_checkpoint *checkpoint, const zt_shard_name *name);
/* The same by an index, c->name; where its files are safetensors, zt_st_open_index does it. */
zt_status zt_parts_open_index(zt_checkpoint *checkpoint);
/* The path of an index beside the file c->name that names it and others, whatever they are called; to
 * be freed. NULL in *index: there is none. */
zt_status zt_parts_find_index(const zt_checkpoint *checkpoint, char **index);
zt_status zt_st_open_index(zt_checkpoint *checkpoint);
/* Metadata and masks of what has just been opened. */
zt_status zt_checkpoint_read_meta(zt_checkpoint *checkpoint);

#define ZT_KEY_GGUF    "zt.gguf"
#define ZT_KEY_TENSORS "zt.tensors"

/* All keys of a GGUF put into `to` (lent: `gguf` lives as long) but those that say which of several files it
 * is, and all of m into one that is written. */
zt_status zt_gguf_all_keys(const zt_gguf *gguf, zt_meta *to, bool lent);
zt_status zt_gguf_put_keys(zt_gguf_writer *writer, const zt_meta *meta);
/* All of `meta` as the text of a GGUF header, and back into `meta`. */
zt_status zt_meta_to_text(const zt_meta *meta, zt_str *text);
zt_status zt_meta_from_text(zt_meta *meta, const char *name, const char *text, size_t size);

/* How entries are stored in a container: out[count] from entries[count]; what is masked is told to meta. */
zt_status zt_mask_entries(zt_ctx *ctx, zt_arena *texts, const zt_container *to, const zt_entry *entries, int64_t count,
                          zt_entry *out, zt_meta *meta);
/* Metadata as the container holds it: as it is, or all of it as one text; where it holds none, as
 * it is. */
zt_status zt_fit_meta(const zt_container *to, zt_meta **meta);

#endif
