/* dna_file.h - private to lib/dna: layers, the parts that a network's layers are made of, and how values are read.
 *
 *     dna.c         opening: layers and their places from tensors' names
 *     net.c         layers and parts of a network, from its frame
 *     signatures.c  files of signatures
 *     values.c      a layer's values, rounded to their dtype; signatures
 *     score.c       two layers: sums over all values
 *     compare.c     two models, and what kind of change a difference is
 *     held_signatures.c  signatures in memory, for many comparisons
 *     lineage.c     many models
 *     splice.c      children of two models
 *     graft.c       networks joined in one
 *     write.c       models as files
 *     evolve*.c     populations (evolve.h); recipe_genome.c: recipes that evolve */
#ifndef ZT_DNA_FILE_H
#define ZT_DNA_FILE_H

#include "lib/dna/dna.h"
#include "lib/io/netjson.h"

/* One of: a tensor; the constant 1 of a layer without weights; a group of parts, concatenated. The parts of all layers
 * are one array, a tree in preorder: the parts of group p are p + 1 ... next - 1. */
typedef struct dna_part {
    int64_t tensor;         /* index in the checkpoint; -1: none */
    int64_t count;          /* values; of a group, in all its parts */
    zt_net_weights weights; /* in a network: type, scale and rule of the tensor's codes */
    int64_t next;           /* the part behind this one and all that is in it */
    bool is_group;          /* made of the parts up to `next` */
} dna_part;

/* A child of two models: how A's values are mixed with B's. */
typedef struct dna_mix {
    zt_dna *model_b;
    zt_splice_opts options;
    int64_t *twins;            /* [parts of A] the part of B to mix with; -1: A's values are kept */
    float *alphas;             /* [parts of A] share of B in a blend */
    zt_net_weights *weights_a; /* [parts of A] in a network, how A's codes are read */
    float *values_b;           /* buffer of capacity_b floats for B's values */
    int64_t capacity_b;
    zt_splice_row *rows; /* [layers of A] */
} dna_mix;

struct zt_dna {
    zt_ctx *ctx;
    zt_checkpoint *checkpoint;
    zt_storage_rule rule;
    bool is_net;         /* a network: its layers are read whole, into held_values */
    bool of_net;         /* it is a network, or has the signatures of one */
    double *lengths;     /* [layer_count] lengths of signatures; NULL: the file has weights, not signatures */
    float **json_values; /* [layer_count] signatures read from JSON, without a checkpoint; NULL: not from JSON */
    char *file_name;     /* the JSON file's name */
    zt_arena *texts;
    zt_map *names;
    zt_dna_layer *layers;
    int64_t *first_parts; /* [layer_count] index of each layer's first part */
    int64_t layer_count;
    dna_part *parts;
    int64_t part_count;
    float *held_values; /* the values of one layer of a network, and its index (-1: none) */
    int64_t held_layer, held_capacity;
    char *codes; /* buffer for the codes of one tensor */
    size_t codes_capacity;
    dna_mix *mix; /* NULL: not a child. A child's checkpoint, texts, names and layers are A's */
};

/* net.c: a network's layers and parts, from its frame. */
zt_status zt_dna_net_layers(zt_dna *model, zt_bytes frame);

/* signatures.c: signatures in a checkpoint; in JSON text. */
bool zt_dna_holds_signatures(zt_dna *model);
zt_status zt_dna_read_signatures(zt_dna *model);
zt_status zt_dna_parse(zt_dna *model, const char *text, size_t length);

/* ---- numbers (values.c) ---------------------------------------------------------------------- */

/* The dtype in which zt_dna_fetch gives a layer's values. */
zt_dtype zt_dna_dtype(const zt_dna *model, int64_t index);
/* Bytes of `count` values of a dtype, counted from the start of a block. */
size_t zt_dna_bytes(zt_dtype dtype, int64_t count);
/* Values [offset, offset + count) as bytes of that dtype. offset is a multiple of 256; count too, or it reaches the end. */
zt_status zt_dna_fetch(zt_dna *model, int64_t index, int64_t offset, int64_t count, void *dst);
/* Converts any dtype, integers too, to floats. Thread-safe. */
void zt_dna_decode(zt_dtype dtype, const void *src, float *out, int64_t count);

/* A network's part as the file has it: weights before rounding to their dtype. */
zt_status zt_dna_master(zt_dna *model, int64_t part_index, float *out);
/* The same; of a child, the mixed values before they are encoded. */
zt_status zt_dna_mixed(zt_dna *model, int64_t part_index, float *out);
/* Grows model->codes to at least so many bytes. */
zt_status zt_dna_grow_codes(zt_dna *model, size_t bytes);

/* ---- children (splice.c) --------------------------------------------------------------------- */

/* Mixes B's values into A's values [offset, offset + count) of a part, in place. */
zt_status zt_dna_mix(zt_dna *child, int64_t part_index, int64_t offset, int64_t count, float *values);

/* ---- two layers side by side (score.c) ------------------------------------------------------- */

enum { DNA_BUCKETS = 1024, DNA_SHORT = 4096 }; /* layers of up to DNA_SHORT values need no sketch */

typedef struct dna_workers dna_workers;
dna_workers *zt_dna_workers_new(zt_ctx *ctx, int threads);
void zt_dna_workers_free(dna_workers *workers);

typedef struct dna_sums {
    double sum_a, sum_b, sum_aa, sum_bb, sum_ab, sum_dd, max_diff; /* sums of a, b, a a, b b, a b, (a - b)^2; maximum |a - b| */
    double rank_a, rank_b;                                         /* NaN: not requested, or not matrices */
} dna_sums;

/* Sums over layer index_a of A and layer index_b of B, which have equally many values. sketch_a, sketch_b:
 * [DNA_BUCKETS] floats, whose dot product approximates that of the layers; or NULL. Same bits for any number of threads. */
zt_status zt_dna_sum(dna_workers *workers, zt_dna *model_a, int64_t index_a, zt_dna *model_b, int64_t index_b, bool ranks,
                     dna_sums *out, double *sketch_a, double *sketch_b);

#endif
