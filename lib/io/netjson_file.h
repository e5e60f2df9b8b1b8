/* netjson_file.h - private to lib/io/netjson*.c: what is kept of a document. */
#ifndef ZT_NETJSON_FILE_H
#define ZT_NETJSON_FILE_H

#include "lib/io/netjson.h"

/* Members of a layer that tell what its weights are. */
enum { NJ_DTYPE, NJ_NATIVE, NJ_SCALE, NJ_RULE, NJ_MEMBERS };

typedef struct nj_span {
    size_t from, to; /* of the frame: a member's value; 0, 0: there is none */
} nj_span;

/* A text of weights. */
typedef struct nj_weights {
    uint64_t text; /* its first byte in the file, behind the quote */
    uint64_t bytes;
    size_t frame, frame_end; /* where the frame says it, without quotes */
    nj_span member[NJ_MEMBERS];
    zt_net_weights are;
} nj_weights;

struct zt_netjson {
    zt_ctx *ctx;
    const char *file;
    zt_source *in, *owned;
    zt_str frame;
    nj_weights *weights;
    int64_t n_weights;
    zt_arena *keep;
    zt_array *tensor;
    int64_t n;
    zt_map *names;
};

/* Reads the file once: frame and weights. Only texts and base64 are looked at. */
zt_status zt_nj_scan(zt_netjson *j);
/* Finds the frame's weights again, for a writer: their places and sizes. */
zt_status zt_nj_scan_frame(zt_netjson *j);
/* Goes through the frame's layers: every one of `weights` becomes a tensor, in order. */
zt_status zt_nj_walk(zt_netjson *j);

/* Room for one more of n, in steps that double. */
void *zt_nj_room(zt_ctx *ctx, void *list, int64_t n, size_t size);

#endif
