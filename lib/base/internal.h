/* internal.h - what the files of this room share: the insides of a context. */
#ifndef ZT_BASE_INTERNAL_H
#define ZT_BASE_INTERNAL_H

#include "lib/base/base.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define ZT_MESSAGE_BYTES 2048

/* A thing by name; in plain memory like the context itself, so that
 * none of it looks like a leak. */
typedef struct zt_thing {
    struct zt_thing *next;
    const void *thing;
    char *name; /* behind the kind, which `kind` closes with a zero */
    char kind[];
} zt_thing;

struct zt_ctx {
    pthread_mutex_t lock; /* guards everything below; status may also be read without it */
    atomic_int status;    /* set after `error` is whole, so a reader who sees it may read that */
    char error[ZT_MESSAGE_BYTES];
    zt_level log_up_to;
    zt_log_fn *log_fn;
    void *log_user;
    zt_metrics_fn *metrics_fn;
    void *metrics_user;
    zt_thing *things;
    zt_source *sources; /* that are open */
    zt_mem mem;
    uint64_t fail_in; /* refuse the allocation that counts this down to 0; 0: none */
    bool fail_onwards, failing;
    bool not_durable; /* durable.h */
    int spares[16];   /* temporary files that were opened before the sandbox, for spooling */
    int spare_count;
};

/* How many bytes a block of zt_alloc was asked for. */
size_t zt_block_bytes(const void *block);

/* The whole of bytes to a descriptor; 0 or an errno. */
int zt_fd_write(int fd, const void *bytes, size_t size);
/* At most `size` bytes, and `least` if the stream has them; less than 0 and errno. */
ssize_t zt_fd_read(int fd, char *buffer, size_t size, size_t least);

/* ---- sources --------------------------------------------------------------------------------- */

struct zt_source {
    zt_ctx *ctx;
    char *name;
    const char *bytes; /* of a source in memory, else NULL */
    int fd;
    uint64_t base; /* where in fd the source begins: stdin may have been read from before */
    uint64_t size;
    struct zt_stream *stream;   /* read as it comes: fd is -1 */
    zt_source *previous, *next; /* of the context's open sources */
};

/* Is this file an open source of the context? What is still read is not to be replaced. */
struct stat;
bool zt_source_is_open(zt_ctx *ctx, const struct stat *file);

/* Opens temporary files in TMPDIR for later, at most 16; fewer where that fails. */
void zt_spare_open(zt_ctx *ctx, int count);

/* Takes over `fd`, except stdin's. */
zt_status zt_stream_begin(zt_source *source, int fd);
zt_status zt_stream_read(const zt_source *source, uint64_t offset, void *dst, size_t size);
void zt_stream_free(zt_source *source);
/* Where a source's bytes are in a file; false: in none. */
bool zt_source_place(const zt_source *source, int *fd, uint64_t *base);
/* Makes `source` a copy of the stream `fd` that can be read anywhere. */
zt_status zt_spool(zt_source *source, int fd, zt_wanted *wanted, const void *head, size_t size);

#endif
