/* internal.h - what the files of this room share: the insides of a context. */
#ifndef ZT_BASE_INTERNAL_H
#define ZT_BASE_INTERNAL_H

#include "lib/base/base.h"
#include <pthread.h>
#include <stdatomic.h>

#define ZT_MESSAGE_BYTES 2048

/* A thing by name; in plain memory like the context itself, so that none of it looks like a leak. */
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
    zt_mem mem;
    uint64_t fail_in; /* refuse the allocation that counts this down to 0; 0: none */
    bool fail_onwards, failing;
};

/* How many bytes a block of zt_alloc was asked for. */
size_t zt_block_bytes(const void *p);

/* The whole of bytes to a descriptor; 0 or an errno. */
int zt_fd_write(int fd, const void *bytes, size_t n);

#endif
