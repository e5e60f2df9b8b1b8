/* netjson_file.h - private to lib/io/netjson*.c: what is kept of a document. */
#ifndef ZT_NETJSON_FILE_H
#define ZT_NETJSON_FILE_H

#include <jansson.h>

#include "lib/io/array_file.h"
#include "lib/io/netjson.h"
#include "lib/io/safetensors.h"

/* Members of a layer that tell what its weights are. */
enum { NJ_DTYPE, NJ_NATIVE, NJ_SCALE, NJ_RULE, NJ_MEMBERS };

typedef struct nj_span {
    size_t from, to; /* of the frame: a member's value; 0, 0: there is none */
} nj_span;

/* A text of weights. */
typedef struct nj_weights {
    uint64_t text; /* its first byte in the file, behind the quote; of data in another file the number of the tensor there */
    uint64_t bytes;
    size_t frame, frame_end; /* where the frame says it, without quotes */
    nj_span member[NJ_MEMBERS];
    zt_net_weights coding;
    int64_t count; /* how many there are; -1: packed, and the layer's numbers do not say */
} nj_weights;

/* Numbers of a layer that its weights are counted by; 0: it has none. */
typedef struct nj_sizes {
    char kind[32]; /* the layer's type */
    int64_t in, out, channels, filters, kernel, heads, kv_heads, head_dim, d_model, vocab, embedding, clusters;
} nj_sizes;

struct zt_netjson {
    zt_array_file base; /* source NULL: a frame alone */
    zt_str frame;
    nj_weights *weights;
    int64_t weights_count;
    zt_array *tensors;
    char *data_name;      /* of the file with the weights; NULL: they are in the document */
    zt_safetensors *data; /* that file */
};

/* Reads the file once: frame and weights. Only texts and base64 are looked at. */
zt_status zt_nj_scan(zt_netjson *net);
/* Finds the frame's weights again, for a writer: their places and sizes. */
zt_status zt_nj_scan_frame(zt_netjson *net);
/* Goes through the frame's layers: every one of `weights` becomes a tensor, in order. */
zt_status zt_nj_read_layers(zt_netjson *net);

/* netjson_count.c: a member of a layer that may be one of its numbers. */
void zt_nj_note_size(nj_sizes *sizes, const char *key, const json_t *value);
/* How many weights a layer has of which there are so many bytes; -1: its numbers say otherwise, or
 * nothing. */
int64_t zt_nj_count(const nj_sizes *sizes, const zt_net_weights *weights, uint64_t bytes);

/* Room for one more of `count`, in steps that double. */
void *zt_nj_room(zt_ctx *ctx, void *list, int64_t count, size_t size);

#endif
