/* netjson.h - read and write networks as JSON: the persistence format of openfluke/loom's package
 * poly, as facts.
 *
 *     zt_netjson *net = zt_netjson_open(ctx, "net.json");
 *     for (int64_t i = 0; i < zt_netjson_count(net); i++) ... zt_netjson_get(net, i)->name ...
 *     size_t size;
 *     const char *frame = zt_netjson_frame(net, &size);
 *
 *     zt_netjson_writer *writer = zt_netjson_writer_new(ctx, sink, frame, size);
 *     zt_netjson_begin(writer, name, bytes);  // each tensor, in the frame's order
 *     zt_netjson_write(writer, data, bytes);  // in as many pieces as you like
 *     zt_netjson_finish(writer);  // then zt_sink_commit(sink)
 *     zt_netjson_writer_free(writer);
 *
 * A document is {"id", "depth", "rows", "cols", "layers_per_cell", "layers": [LAYER...]}; a layer
 * has a place (z, y, x, l), a type, a dtype, numbers, and may have "weights" (base64), "native",
 * "scale", and layers of its own in "parallel_branches" and "sequential_layers", and one, the gate
 * of a filter, in "filter_gate" (a member of ours). The weights are the tensors: one a layer, of
 * one dimension, called by their path: "layers.3.parallel_branches.0.weights". The meaning of
 * layers is in lib/nn.
 *
 * Weights are little-endian f32 unless "native": then of the layer's dtype, where float16 and
 * bfloat16 are held as f32, unsigned integers and FP8 as signed integers of their width. Codes of 4
 * bits and less are packed, the first in the highest bits: zt has no dtype for them, they are bytes. How
 * many there are, the layer's own numbers say (input_height, filters ...).
 *
 * The frame is the document with each text of weights replaced by the number and size of its tensor:
 *
 *   document   "weights":"AAAAPwAAgD8..."        frame   "weights":"#0:2304"
 *
 * All other text is kept, so frame and tensors together give back the file byte for byte. Files are
 * hostile: base64 must be canonical, with padding. Memory is that of the frame.
 */
#ifndef ZT_NETJSON_H
#define ZT_NETJSON_H

#include "lib/io/array.h"
#include "lib/tensor/storage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* First member of a document whose weights are in another file: the name of a safetensors file in the same directory. A text of
 * weights is then as in the frame, and its bytes are the tensor of its path. The frame has no such member. */
#define ZT_NETJSON_DATA "zt.data"

typedef struct zt_netjson zt_netjson;

zt_netjson *zt_netjson_open(zt_ctx *ctx, const char *path);  /* opens and owns a source */
zt_netjson *zt_netjson_from(zt_ctx *ctx, zt_source *source); /* borrows the source */
zt_netjson *zt_netjson_take(zt_ctx *ctx, zt_source *source); /* takes it over, also on failure */
void zt_netjson_close(zt_netjson *net);                      /* NULL: nothing */

/* Could these first bytes of a file begin one? They begin a JSON object. */
bool zt_netjson_sniff(const void *bytes, size_t size);

int64_t zt_netjson_count(const zt_netjson *net);                  /* tensors, numbered from 0 */
const zt_array *zt_netjson_get(const zt_netjson *net, int64_t i); /* in the document's order */
int64_t zt_netjson_find(const zt_netjson *net, const char *name); /* index or -1 */
/* `size` bytes at `offset` of tensor i. From any thread. */
zt_status zt_netjson_read(zt_netjson *net, int64_t i, size_t offset, void *dst, size_t size);
zt_store zt_netjson_store(zt_netjson *net);                        /* valid as long as it is open */
const char *zt_netjson_frame(const zt_netjson *net, size_t *size); /* closed by a zero as well */

/* What a text of weights holds: numbers of a storage type, codes that count in scales.
 *
 * The places of codes are Loom's; which codes weights have, may be by either rule. Where the
 * field's rule makes codes that Loom's reader would take for others, those of fp8, fp4 and what has
 * no sign, the layer says so in a member of ours, "zt.rule": "field". */
typedef struct zt_net_weights {
    zt_storage type;      /* the layer's dtype */
    bool native;          /* codes of that type; else f32, whatever the type */
    zt_storage_rule rule; /* by which codes are read */
    float scale;          /* 1 where the layer has none */
} zt_net_weights;

/* How the weights of tensor i are coded. */
zt_net_weights zt_netjson_weights(const zt_netjson *net, int64_t i);
/* How many there are; -1: packed, and the layer's numbers do not go with the bytes. */
int64_t zt_netjson_elements(const zt_netjson *net, int64_t i);
const char *zt_netjson_word(zt_storage storage); /* "int8" */
/* A frame alone: nothing of it can be read. ZT_EDATA when it is none. Copies it. */
zt_netjson *zt_netjson_from_frame(zt_ctx *ctx, const char *frame, size_t size);
/* The frame of the same network with other weights, weights[count]; all else is as it was. ZT_ENOTSUP
 * where packed weights would become others whose number is not known. */
zt_status zt_netjson_reframe(const zt_netjson *net, const zt_net_weights *weights, zt_str *out);

size_t zt_net_bytes(const zt_net_weights *weights, int64_t count); /* that `count` weights take */
/* `count` weights to bytes; `decoded` gets what these mean. Messages are zt_storage_encode's. */
zt_status zt_net_encode(zt_ctx *ctx, const zt_net_weights *weights, const float *values, int64_t count, void *out,
                        float *decoded);
/* How x is encoded so that codes which are read as `weights` says are those nearest to x: by the field's
 * rule; where Loom's reader takes the codes for signed numbers, as such. The scale stays w's, and
 * the bytes take as much room. Floats are encoded as `weights` says. */
zt_net_weights zt_net_nearest(const zt_net_weights *weights);

/* Does the field's rule make other codes of this type than Loom's reader takes them for? Those of
 * all others are read by Loom's rule, whatever the document says. */
bool zt_nj_reads_by_rule(zt_storage storage);
/* `count` weights from their bytes. */
void zt_net_decode(const zt_net_weights *weights, const void *bytes, int64_t count, float *values);

typedef struct zt_netjson_writer zt_netjson_writer;

/* Copies the frame. ZT_EDATA when it is none. */
zt_netjson_writer *zt_netjson_writer_new(zt_ctx *ctx, zt_sink *out, const char *frame, size_t size);
void zt_netjson_writer_free(zt_netjson_writer *writer); /* the sink stays open. NULL: nothing */
/* ZT_ENOTSUP when the frame's next tensor has another name or size. */
zt_status zt_netjson_begin(zt_netjson_writer *writer, const char *name, size_t bytes);
/* The next `size` bytes of the tensor. ZT_EUSAGE: it has not so many. */
zt_status zt_netjson_write(zt_netjson_writer *writer, const void *bytes, size_t size);
zt_status zt_netjson_finish(zt_netjson_writer *writer); /* ZT_ENOTSUP: tensors are missing */

#ifdef __cplusplus
}
#endif
#endif
