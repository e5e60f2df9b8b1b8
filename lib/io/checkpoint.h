/* checkpoint.h - model files of any container: metadata, and named tensors in the order of their
 * data.
 *
 * Reading. What a file is, is found from its content. The header is read and checked once; bytes
 * are read on demand, so that memory is the header's and what the caller holds, whatever the
 * model's size.
 *
 *     zt_checkpoint *checkpoint = zt_checkpoint_open(ctx, "m.gguf", 0);
 *     zt_entry entry;
 *     for (int64_t i = 0; i < zt_checkpoint_count(checkpoint); i++)
 *         zt_checkpoint_get(checkpoint, i, &entry), zt_checkpoint_read(checkpoint, i, 0, buf, entry.bytes);
 *     zt_checkpoint_close(checkpoint);
 *
 * Writing. All metadata and all entries first, then the data in that order, in pieces of any size;
 * the file is there when commit says so, and not before.
 *
 *     zt_checkpoint_opts options = {.to = zt_container_named("gguf"), .force = true};
 *     zt_writer *writer = zt_writer_open(ctx, "out.gguf", &options, meta, entries, count);
 *     zt_writer_put(writer, bytes, size); ...
 *     zt_writer_commit(writer);
 *     zt_writer_close(writer);
 *
 * What a container cannot express is kept. Metadata goes into one base64 entry, "zt.gguf": a GGUF
 * header without tensors. A tensor of a type, rank or name that the container does not support is
 * stored as bytes, U8 [rows, bytes per row] or [bytes] (I8 without U8), and the key "zt.tensors"
 * describes it. Reading removes both again: the reader sees what was written.
 */
#ifndef ZT_CHECKPOINT_H
#define ZT_CHECKPOINT_H

#include "lib/io/meta.h"
#include "lib/io/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- containers ------------------------------------------------------------------------------ */

/* A row of the table of containers. */
typedef struct zt_container zt_container;

const zt_container *zt_container_named(const char *name);     /* "gguf" "safetensors" ...; NULL: none */
const zt_container *zt_container_for(const char *path);       /* by the suffix of an output; NULL */
const zt_container *zt_container_at(int i);                   /* NULL past the last */
const char *zt_container_name(const zt_container *container); /* as zt_container_named takes it */
bool zt_container_writes(const zt_container *container);      /* can one be written? */

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct zt_entry {
    const char *name;  /* without a zero byte inside; of any length */
    const char *dtype; /* zt's name; for a dtype unknown to zt, the container's name */
    /* Row-major. dtype ZT_DTYPE_COUNT: unknown to zt, the bytes can only be copied. rank -1: more
     * dimensions than ZT_MAX_RANK. */
    zt_type type;
    uint64_t bytes;
} zt_entry;

typedef struct zt_checkpoint zt_checkpoint;

enum {
    /* A pipe is read as it comes, where its container allows that (zt_checkpoint_streams): tensors
     * must be read in order, offsets rising, each byte once. Else pipes are spooled. */
    ZT_CHECKPOINT_STREAM = 1,
    /* Tensors of a GGUF whose rows begin with a scale (zt_gguf_keep_rows) are f32, decoded as they are read, but not from a pipe.
     * Without this flag they are unknown to zt and can be copied. */
    ZT_CHECKPOINT_DECODE = 2
};

/* Opens a file, or "-": GGUF, safetensors, npz, PyTorch, or an index of such files. For one shard of
 * a model, all shards are opened. An unknown format is ZT_EDATA. */
zt_checkpoint *zt_checkpoint_open(zt_ctx *ctx, const char *path, unsigned flags);
/* By an index, NAME.safetensors.index.json or NAME.bin.index.json, the files that it names. */
zt_checkpoint *zt_checkpoint_open_index(zt_ctx *ctx, const char *path);
/* Of a source, which it owns, also on failure; NULL gives NULL. */
zt_checkpoint *zt_checkpoint_take(zt_ctx *ctx, zt_source *source);
/* Over an open GGUF, however it came to be; takes it over, also on failure. */
zt_checkpoint *zt_checkpoint_of_gguf(zt_ctx *ctx, zt_gguf *gguf);
/* Tensors that the caller generates as they are read. */
typedef struct zt_made {
    const char *name; /* for messages; copied, like the container */
    const zt_container *container;
    const zt_entry *entries; /* [count], borrowed until the checkpoint is closed, as their names are */
    int64_t count;
    const zt_meta *meta; /* borrowed in the same way */
    void *user;
    /* Bytes of tensor i; from several threads at once. */
    zt_status (*read)(void *user, int64_t i, uint64_t offset, void *dst, size_t count);
    void (*release)(void *user); /* at closing, and where this fails; NULL: nothing */
} zt_made;
/* A checkpoint over them; *made itself is copied. NULL on failure, release has run then. */
zt_checkpoint *zt_checkpoint_of_made(zt_ctx *ctx, const zt_made *made);
void zt_checkpoint_close(zt_checkpoint *checkpoint); /* and the files it opened. NULL: nothing */

const char *zt_checkpoint_name(const zt_checkpoint *checkpoint);              /* for messages */
const zt_container *zt_checkpoint_container(const zt_checkpoint *checkpoint); /* what it was read from */
bool zt_checkpoint_streams(const zt_checkpoint *checkpoint);                  /* forward only */
bool zt_checkpoint_in_parts(const zt_checkpoint *checkpoint);                 /* in shards, or of no file that was named */
/* Owned by the checkpoint; may be changed. They are read when it is opened: NULL only of NULL. */
zt_meta *zt_checkpoint_meta(zt_checkpoint *checkpoint);

int64_t zt_checkpoint_count(const zt_checkpoint *checkpoint);                        /* tensors */
void zt_checkpoint_get(const zt_checkpoint *checkpoint, int64_t i, zt_entry *entry); /* i below count */
int64_t zt_checkpoint_find(const zt_checkpoint *checkpoint, const char *name);       /* index or -1 */
/* `size` bytes at `offset` of tensor i. */
zt_status zt_checkpoint_read(zt_checkpoint *checkpoint, int64_t i, uint64_t offset, void *dst, size_t size);
/* A store over it, valid as long as it is open; not of a stream. */
zt_store zt_checkpoint_store(zt_checkpoint *checkpoint);
/* After the last tensor of a stream: nothing may follow but padding. ZT_OK where it does not
 * stream. */
zt_status zt_checkpoint_end(zt_checkpoint *checkpoint);
/* Where tensor i's bytes are in a file, for copying by the kernel; false: not in one piece as they
 * are read. */
bool zt_checkpoint_place(const zt_checkpoint *checkpoint, int64_t i, const zt_source **source, uint64_t *offset);

/* The same as a GGUF: whatever has GGUF's metadata runs. Takes `checkpoint` over, also on failure. Tensors
 * that GGUF cannot say are left out. */
zt_gguf *zt_checkpoint_gguf(zt_checkpoint *checkpoint);

/* Other metadata and names (entries as they are listed, else the same) for the very file that `checkpoint` was
 * opened from: written where they are, if that is one write that is done or not. *done false: not
 * so, and nothing has changed. */
zt_status zt_checkpoint_patch(zt_checkpoint *checkpoint, const char *path, const zt_meta *meta, const zt_entry *entries,
                              int64_t count, bool *done);

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct zt_writer zt_writer;

typedef struct zt_checkpoint_opts {
    const zt_container *to; /* NULL: by the path's suffix, else gguf */
    bool force;             /* overwrite an existing file */
    bool in_place;          /* and where that is the input: it is edited */
    uint64_t shard;         /* most bytes of data in a file; 0: one file */
} zt_checkpoint_opts;

/* "-" is stdout. Copies what it needs of meta; entries must live until commit. */
zt_writer *zt_writer_open(zt_ctx *ctx, const char *path, const zt_checkpoint_opts *options, const zt_meta *meta,
                          const zt_entry *entries, int64_t count);
/* The next `size` bytes of the data of all entries, in order. */
zt_status zt_writer_put(zt_writer *writer, const void *bytes, size_t size);
/* The next `size` bytes from a source: by the kernel where it can, and where nothing comes between
 * tensors (seamless) at once for several. */
bool zt_writer_seamless(const zt_writer *writer);
/* As zt_writer_put, from a source. ZT_EBUG: more than the entries have, as for put. */
zt_status zt_writer_copy(zt_writer *writer, const zt_source *source, uint64_t offset, uint64_t size);
typedef zt_status zt_copied_fn(void *user, size_t bytes); /* ZT_OK: go on */
/* Tensor i of a checkpoint, as stored, as the next bytes. after: called with the size of each piece that was put, and may
 * end the copy; NULL: not called. ZT_EBUG: more than the entries have, as for put. */
zt_status zt_writer_put_tensor(zt_writer *writer, zt_checkpoint *from, int64_t i, zt_copied_fn *after, void *user);
zt_status zt_writer_commit(zt_writer *writer); /* all bytes must have been put: ZT_EBUG else */
void zt_writer_close(zt_writer *writer);       /* without commit no trace is left */

/* The exact size of the file or files that would be written so, headers included, for data of any
 * values; nothing is opened. 0 on failure. */
uint64_t zt_writer_bytes(zt_ctx *ctx, const char *path, const zt_checkpoint_opts *options, const zt_meta *meta,
                         const zt_entry *entries, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
