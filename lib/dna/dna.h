/* dna.h - inspect, compare and mix models by layer. Layer signatures follow the DNA engine of
 * openfluke/loom's package poly (documented behaviour, as facts), for its networks and for any checkpoint.
 *
 *     zt_dna *a = zt_dna_of(ctx, zt_checkpoint_open(ctx, "a.gguf", 0), ZT_RULE_FIELD);
 *     for (int64_t i = 0; i < zt_dna_count(a); i++) ... zt_dna_get(a, i)->name ...
 *     zt_dna_close(a);
 *
 * What a layer is, and its place z, y, x, l:
 *
 *                    | a checkpoint                             | a network (metadata "zt.netjson", netjson.h)
 *     layer          | one tensor                               | one layer of the grid with all layers inside it
 *     z              | its block, from the name ("blk.17.",     | the network's own z
 *                    | "model.layers.17."); -1: no block        |
 *     y              | which stack of blocks                    | y
 *     x              | 0                                        | x
 *     l              | which tensor of its block                | l
 *
 * The rule (storage.h) says how weights are rounded to their dtype: ZT_RULE_FIELD, the values that the file's
 * codes stand for, or ZT_RULE_LOOM, Loom's own rounding.
 */
#ifndef ZT_DNA_H
#define ZT_DNA_H

#include "lib/io/checkpoint.h"
#include "lib/tensor/storage.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_dna zt_dna;

typedef struct zt_dna_layer {
    const char *name;  /* the tensor's name; in a network the place, "0,0,0,3" */
    const char *type;  /* "Dense"; for a tensor its name with * in place of the block */
    const char *dtype; /* zt's name of the dtype, or the network's */
    int64_t place[4];  /* z, y, x, l */
    zt_type shape;     /* of the tensor; in a network [count] */
    int64_t count;     /* numbers in its signature */
} zt_dna_layer;

/* The checkpoint is owned by the result, and closed on failure too. checkpoint NULL: returns NULL. */
zt_dna *zt_dna_of(zt_ctx *ctx, zt_checkpoint *checkpoint, zt_storage_rule rule);
/* Signatures in the JSON of `zt-dna extract`, which also says by which rule they were made. */
zt_dna *zt_dna_of_json(zt_ctx *ctx, const zt_source *source);
bool zt_dna_sniff(const void *head, size_t size); /* is this the start of such JSON? 64 bytes are enough */
void zt_dna_close(zt_dna *model);                 /* with the checkpoint given to zt_dna_of; NULL: no effect */

const char *zt_dna_name(const zt_dna *model);                       /* for messages */
bool zt_dna_is_net(const zt_dna *model);                            /* a network: its layers are those of a grid */
bool zt_dna_is_signed(const zt_dna *model);                         /* it has signatures only, no weights */
int64_t zt_dna_count(const zt_dna *model);                          /* number of layers */
const zt_dna_layer *zt_dna_get(const zt_dna *model, int64_t index); /* index < zt_dna_count */
int64_t zt_dna_find(const zt_dna *model, const char *name);         /* index, or -1 */

/* ---- signatures ------------------------------------------------------------------------------ */

/* The signature of a layer: `count` floats (zt_dna_layer) of length 1.
 *   weights:            rounded to their dtype and divided by their length; zeros stay zeros
 *   no weights:         the one number 1
 *   a layer of layers:  the signatures of the parts, concatenated, divided by the length of the whole
 * *length: the length of the weights; may be NULL. */
zt_status zt_dna_sign(zt_dna *model, int64_t index, float *out, double *length);
/* The values themselves, before normalization; for a layer of layers, the signature times the length. */
zt_status zt_dna_read(zt_dna *model, int64_t index, float *out);
/* The weights of a network's layer before they are rounded to their dtype: its own, then those of its branches, steps and gate,
 * each in that order; of a child, the mixed ones. *values: [*count], free it with zt_free; NULL where there are none or on failure.
 * ZT_EUSAGE: not a network, or no such layer. */
zt_status zt_dna_masters(zt_dna *model, int64_t index, float **values, int64_t *count);

/* Writes the signatures as a checkpoint, which zt_dna_of reads in place of the model. The file is written completely
 * or not at all. Tensors are f16 with a mean square of 1; for networks and by Loom's rule f32 of length 1. */
zt_status zt_dna_write_signatures(zt_dna *model, const char *path, const zt_checkpoint_opts *options);

/* The similarity of two signatures: their dot product, summed in f32 from first to last. Both all zero: 1; one: 0. */
float zt_dna_similarity(const float *values_a, const float *values_b, int64_t count);

/* ---- two models ------------------------------------------------------------------------------ */

/* The kind of difference between two layers:
 *   SAME       all values are equal
 *   ROUNDED    rel_l2 is no more than rounding to the two dtypes causes, and not an outlier among the layers of these two
 *   CHANGED    more than rounding
 *   UNRELATED  more than rounding, and the cosine is below 1/2 */
typedef enum zt_dna_change { ZT_DNA_SAME, ZT_DNA_ROUNDED, ZT_DNA_CHANGED, ZT_DNA_UNRELATED } zt_dna_change;
const char *zt_dna_change_word(zt_dna_change change); /* "no", "identical within rounding", "yes" ... */

/* A layer of model A compared with the layer of the same name in model B. Not computed: NaN. */
typedef struct zt_dna_score {
    int64_t layer_a, layer_b;              /* indices of the layers */
    double overlap;                        /* similarity of the signatures; 0 where shapes or types differ */
    double cosine, rel_l2;                 /* of the values; |a - b| / |a| */
    double spread;                         /* standard deviation of b divided by that of a */
    double rank_a, rank_b;                 /* of matrices: effective rank (sum s^2)^2 / sum s^4, estimated */
    double max_diff;                       /* maximum of |a - b| */
    double sum_aa, sum_bb, sum_ab, sum_dd; /* sums of a a, b b, a b, (a - b)^2 */
    bool same;                             /* all values are equal */
    bool changed;                          /* `change` is CHANGED or UNRELATED */
    zt_dna_change change;
} zt_dna_score;

/* A layer of A that is found as another layer of B: their overlap is above 0.8 and is the highest of all layers of B. */
typedef struct zt_dna_shift {
    int64_t from_layer, to_layer;
    double overlap;
} zt_dna_shift;

typedef struct zt_dna_verdict {
    zt_ctx *ctx;
    double overlap;                             /* mean over the common layers; 0: there are none */
    double cosine, rel_l2;                      /* of all values as one vector */
    zt_dna_score *scores;                       /* [score_count] layers that both models have, in A's order */
    int64_t score_count, fit_count, same_count; /* fit: of equal shape and type; same: of equal values */
    zt_dna_shift *shifts;                       /* [shift_count] */
    int64_t shift_count;
    int64_t only_a, only_b; /* layers that the other model does not have */
} zt_dna_verdict;

typedef struct zt_dna_compare_opts {
    int threads;
    bool ranks, shifts;                                 /* compute ranks; find shifts */
    bool (*wanted)(const void *user, const char *name); /* select layers; NULL: all */
    /* Called before each layer. A result other than ZT_OK stops the comparison and is returned. NULL: not called. */
    zt_status (*progress)(void *user, const char *layer, int64_t done, int64_t total);
    void *user;
} zt_dna_compare_opts;

/* Compares the layers of equal names. Two layers fit together if type and shape are equal; by Loom's rule their dtype too.
 * In memory: one layer of each model at most, by the field's rule a piece of it. Free the verdict on failure too. */
zt_status zt_dna_compare(zt_dna *model_a, zt_dna *model_b, const zt_dna_compare_opts *options, zt_dna_verdict *verdict);
/* Frees what the verdict holds, not the verdict itself; one of zeros is fine. */
void zt_dna_verdict_free(zt_dna_verdict *verdict);

typedef struct zt_dna_signatures zt_dna_signatures;
/* The signatures of all layers of a model, in memory: to compare many models with each other. They do not need the model
 * after that; release them with zt_dna_release. NULL: the error is in the context. */
zt_dna_signatures *zt_dna_hold(zt_dna *model);
void zt_dna_release(zt_dna_signatures *held);              /* NULL: no effect */
int64_t zt_dna_held_values(const zt_dna_signatures *held); /* numbers in memory */
/* The overlap of two models, as zt_dna_compare computes it: the mean over the layers that both have; 0: there are none. */
double zt_dna_held_overlap(const zt_dna_signatures *a, const zt_dna_signatures *b);

/* ---- many models ----------------------------------------------------------------------------- */

typedef enum zt_dna_relation {
    ZT_RELATION_ROOT,      /* no parent: unrelated to the others, or the first of its family */
    ZT_RELATION_SAME,      /* all values are the parent's */
    ZT_RELATION_ROUNDED,   /* the parent in other dtypes; values of equal dtypes are equal */
    ZT_RELATION_FINE_TUNE, /* the parent with other changes, as training makes them */
} zt_dna_relation;

typedef struct zt_dna_descent {
    int parent; /* -1: a root */
    zt_dna_relation relation;
    zt_dna_verdict verdict; /* parent and child compared; layers that are the same were frozen */
} zt_dna_descent;

typedef struct zt_lineage {
    zt_ctx *ctx;
    int model_count;
    double *overlap, *cosine, *rel_l2; /* [model_count, model_count], over all values that two models have in common */
    zt_dna_descent *descents;          /* [model_count] */
} zt_lineage;

/* Finds which model was derived from which. Two models are related if at least half of their layers fit together and the
 * cosine of all values as one vector is above min_cosine. The result is the minimum spanning tree of the distances
 * |a - b|^2 / (|a| |b|), grown from the first model: independent changes add up in this distance, so that a model is
 * nearer to its parent than to its parent's parent. Free the lineage on failure too. */
zt_status zt_dna_lineage(zt_dna *const *models, int count, const zt_dna_compare_opts *options, double min_cosine,
                         zt_lineage *out);
/* Frees what the lineage holds, not the lineage itself; one of zeros is fine. */
void zt_lineage_free(zt_lineage *lineage);
const char *zt_dna_relation_name(zt_dna_relation kinship); /* "fine-tune" */

/* ---- children of two ------------------------------------------------------------------------- */

typedef enum zt_splice_mode { ZT_SPLICE_BLEND, ZT_SPLICE_POINT, ZT_SPLICE_UNIFORM } zt_splice_mode;

/* The share of B, with fa and fb the fitness of A and B:
 *
 *              | fa + fb > 0                             | fa = fb = 0
 *     blend    | fb / (fa + fb) * (0.5 + overlap / 2)    | alpha
 *     uniform  | a value is A's with p = fa / (fa + fb)  | p = 0.5 */
typedef struct zt_splice_opts {
    zt_splice_mode mode;
    double alpha;                /* blend: a (1 - alpha) + b alpha */
    double ratio;                /* point: the first count * ratio values are A's, the others B's */
    double fitness_a, fitness_b; /* not negative */
    uint64_t seed;               /* uniform: each draw depends on seed, tensor and element only */
} zt_splice_opts;

typedef struct zt_splice_row { /* what becomes of a layer of A */
    int64_t layer_b;           /* B's layer of the same name; -1: none */
    double similarity;         /* their overlap; 0 where shapes or types differ */
    bool mixed;                /* false: A's values are kept */
    double alpha;              /* share of B in a blend */
} zt_splice_row;

/* The child of two models: A's layers, mixed with B's where type, shape and, in networks, dtype are equal. Other layers
 * keep A's values; by Loom's rule layers inside a network's layer do too. The child is used like any model and computes
 * its values when they are read. A and B are borrowed until it is closed. NULL: the error is in the context. */
zt_dna *zt_dna_splice(zt_dna *model_a, zt_dna *model_b, const zt_splice_opts *options, const zt_dna_compare_opts *work);
/* What became of a layer of A in a child of zt_dna_splice; NULL: no such layer, or not a child. Lives as long as the child. */
const zt_splice_row *zt_dna_splice_row(const zt_dna *child, int64_t index);

/* Writes a model with its metadata (zt_dna_meta), which the caller may change first. All of the file or none. */
zt_status zt_dna_write(zt_dna *model, const char *path, const zt_checkpoint_opts *options);
/* The metadata; a child's is A's. Owned by the model. */
zt_meta *zt_dna_meta(zt_dna *model);

/* ---- networks in one ------------------------------------------------------------------------- */

typedef struct zt_graft_opts {
    const char *combine;       /* how the branches' outputs are joined: "concat", "add", "avg", ... */
    bool residual;             /* add the input to the output */
    const char *const *select; /* [n_select] globs: only layers whose name (place) or type matches */
    int n_select;              /* 0: all */
    /* For "filter": the network that gives one number per branch. NULL: a Dense layer of gate_inputs inputs with
     * zero weights, so that all branches begin with equal shares. */
    zt_dna *gate;
    int64_t gate_inputs;
} zt_graft_opts;

/* Joins networks side by side into one and writes it, all of the file or none:
 *
 *     Sequential                       only with `residual`
 *       Parallel                       only of two networks and more
 *         network 0                    its one layer, or a Sequential of its layers in the grid's order
 *         network 1 ...
 *       Residual
 *
 * Weights are copied unchanged. meta: the file's metadata; the network's frame is added to it. */
zt_status zt_dna_graft(zt_dna *const *models, int count, const zt_graft_opts *options, zt_meta *meta, const char *path,
                       const zt_checkpoint_opts *file_options);

#ifdef __cplusplus
}
#endif
#endif
