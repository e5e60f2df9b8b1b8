/* dna.h - what a model is made of, told and compared: layer signatures after the DNA engine of
 * openfluke/loom's package poly (documented behaviour, as facts), for its networks and for any
 * checkpoint.
 *
 *     zt_dna *a = zt_dna_of(ctx, zt_checkpoint_open(ctx, "a.gguf", 0), ZT_RULE_FIELD);
 *     for (int64_t i = 0; i < zt_dna_count(a); i++) ... zt_dna_get(a, i)->name ...
 *     zt_dna_close(a);
 *
 * A layer is a tensor, or, of a network (checkpoints with the metadata "zt.netjson": netjson.h), a
 * layer of its grid with all that is in it. Its place is z, y, x, l: a network's own numbers; of a
 * tensor z is its block (the first part of its name that is a number: "blk.17.",
 * "model.layers.17.", -1: none), y which of several stacks of blocks, x 0, and l which of its
 * block's tensors it is.
 *
 * The rule is that of storage.h by which weights are taken at the precision of their dtype: the
 * field's, what the file's codes stand for; or Loom's own.
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
    const char *name;  /* a tensor's; of a network's layer its place, "0,0,0,3" */
    const char *type;  /* "Dense"; of a tensor its name with * for its block */
    const char *dtype; /* zt's name, or the network's word */
    int64_t place[4];  /* z, y, x, l */
    zt_type shape;     /* of a tensor; else [n] */
    int64_t n;         /* numbers in its signature */
} zt_dna_layer;

/* Takes the checkpoint over, also on failure; NULL gives NULL. */
zt_dna *zt_dna_of(zt_ctx *ctx, zt_checkpoint *c, zt_storage_rule rule);
/* Signatures as `zt-dna extract` writes them in JSON; what they are by is told in them. */
zt_dna *zt_dna_of_json(zt_ctx *ctx, const zt_source *s);
bool zt_dna_sniff(const void *head, size_t n); /* do these first bytes begin such? 64 are enough */
void zt_dna_close(zt_dna *d); /* and the checkpoint that zt_dna_of took over; NULL: nothing */

const char *zt_dna_name(const zt_dna *d); /* for messages */
bool zt_dna_is_net(const zt_dna *d); /* it is a network: its layers are those of a grid */
bool zt_dna_is_signed(const zt_dna *d); /* its signatures alone, and no model */
int64_t zt_dna_count(const zt_dna *d); /* layers */
const zt_dna_layer *zt_dna_get(const zt_dna *d, int64_t i); /* i below count */
int64_t zt_dna_find(const zt_dna *d, const char *name);     /* index or -1 */

/* ---- signatures ------------------------------------------------------------------------------ */

/* Layer i's signature, n numbers: its weights at the precision of their dtype, brought to length 1
 * (all 0 stays so); of what is within a layer of a network each brought to length 1, one behind the
 * other, and that again; 1 where there are no weights. *length (may be NULL): of the weights. */
zt_status zt_dna_sign(zt_dna *d, int64_t i, float *out, double *length);
/* Its numbers before that: of a layer with others in it, the signature times the length. */
zt_status zt_dna_read(zt_dna *d, int64_t i, float *out);

/* The signatures as a checkpoint, which zt_dna_of takes for what they are of: whole or absent.
 * Tensors in f16 with a mean square of 1; of networks and by Loom's rule in f32, of length 1. */
zt_status zt_dna_write_signatures(zt_dna *d, const char *path, const zt_checkpoint_opts *o);

/* Two signatures, of lengths 1 or 0: 1 where both are 0, 0 where one is, else their dot product, in
 * f32 from first to last. */
float zt_dna_similarity(const float *a, const float *b, int64_t n);

/* ---- two models ------------------------------------------------------------------------------ */

/* What the difference of two layers is. Rounding: rel_l2 is what both dtypes can do, and no more
 * than is usual between layers of these two; unrelated: it is more, and the cosine is below 1/2. */
typedef enum zt_dna_change {
    ZT_DNA_SAME,
    ZT_DNA_ROUNDED,
    ZT_DNA_CHANGED,
    ZT_DNA_UNRELATED
} zt_dna_change;
const char *zt_dna_change_word(zt_dna_change c); /* "no", "identical within rounding", "yes" ... */

/* What there is between a layer of A and that of the same name in B. Numbers that there are none of
 * are NaN. */
typedef struct zt_dna_score {
    int64_t a, b;          /* the layers */
    double overlap;        /* of their signatures; 0 where they do not fit together */
    double cosine, rel_l2; /* of their numbers; |a - b| / |a| */
    double spread;         /* the standard deviation of b over that of a */
    double rank_a,
        rank_b;  /* of matrices: directions that count, (sum s^2)^2 / sum s^4; estimated */
    double most; /* the largest |a - b| */
    double a2, b2, ab, d2; /* sums of a^2, b^2, ab, (a - b)^2 */
    bool same;             /* all numbers are equal */
    bool changed;          /* by more than rounding: the last two of `change` */
    zt_dna_change change;
} zt_dna_score;

/* A layer of A that is another of B: their overlap is above 0.8, and none of B's is above it. */
typedef struct zt_dna_shift {
    int64_t from, to;
    double overlap;
} zt_dna_shift;

typedef struct zt_dna_verdict {
    zt_ctx *ctx;
    double overlap;        /* the mean of the layers'; 0 where none are common */
    double cosine, rel_l2; /* of all their numbers as one vector */
    zt_dna_score *layer;   /* [n] the layers of both, in A's order */
    int64_t n, fit, same;  /* fit: how many fit together; same: how many are the same */
    zt_dna_shift *shift;   /* [n_shifts] */
    int64_t n_shifts;
    int64_t only_a, only_b; /* layers that the other has not */
} zt_dna_verdict;

typedef struct zt_dna_how {
    int threads;
    bool ranks, shifts;                                 /* are they wanted */
    bool (*wanted)(const void *user, const char *name); /* which layers; NULL: all */
    /* Called before each layer, with its name; what is not ZT_OK ends the work. NULL: none. */
    zt_status (*tick)(void *user, const char *layer, int64_t done, int64_t all);
    void *user;
} zt_dna_how;

/* By the field's rule layers fit together that have one type and one shape; by Loom's their dtype
 * must be one as well. One layer of each is in memory at most, by the field's rule a piece of it.
 * zt_dna_verdict_free it, also on failure. */
zt_status zt_dna_compare(zt_dna *a, zt_dna *b, const zt_dna_how *how, zt_dna_verdict *v);
void zt_dna_verdict_free(zt_dna_verdict *v);

/* ---- many models ----------------------------------------------------------------------------- */

typedef enum zt_kinship {
    ZT_KIN_ROOT,    /* its own beginning: of no other kin, or the first of its kin */
    ZT_KIN_SAME,    /* all numbers are the parent's */
    ZT_KIN_ROUNDED, /* the parent in other dtypes: where the dtype is one the numbers are as well */
    ZT_KIN_FINE_TUNE, /* the parent, trained further or changed */
} zt_kinship;

typedef struct zt_dna_kin {
    int parent; /* -1: a root */
    zt_kinship how;
    zt_dna_verdict with; /* the parent beside it: layers that are the same were frozen */
} zt_dna_kin;

typedef struct zt_lineage {
    zt_ctx *ctx;
    int n;
    double *overlap, *cosine, *rel_l2; /* [n x n], of all numbers that two have in common */
    zt_dna_kin *kin;                   /* [n] */
} zt_lineage;

/* Who comes from whom. Two are kin of whose layers half fit together at least, and
 * whose numbers, as one vector, have a cosine above `above`; the
 * tree is that of least distances, |a - b|^2 / (|a| |b|), from the first model on: independent
 * changes add up in it, so that a model is nearer to its parent than to what its parent came from.
 * zt_lineage_free it, also on failure. */
zt_status zt_dna_lineage(zt_dna *const *m, int n, const zt_dna_how *how, double above,
                         zt_lineage *out);
void zt_lineage_free(zt_lineage *l);
const char *zt_kinship_name(zt_kinship k); /* "fine-tune" */

/* ---- children of two ------------------------------------------------------------------------- */

typedef enum zt_splice_mode { ZT_SPLICE_BLEND, ZT_SPLICE_POINT, ZT_SPLICE_UNIFORM } zt_splice_mode;

/* With fitness, where the two are not both 0: a blend takes fb / (fa + fb) x (0.5 + overlap / 2) of
 * B, `uniform` a number from A with probability fa / (fa + fb). Without: alpha of B, and 0.5. */
typedef struct zt_splice_how {
    zt_splice_mode mode;
    double alpha;                /* blend: a (1 - alpha) + b alpha */
    double ratio;                /* point: the first n x ratio numbers are A's, the others B's */
    double fitness_a, fitness_b; /* not negative */
    uint64_t seed;               /* uniform: draws are named by seed, tensor and number */
} zt_splice_how;

typedef struct zt_splice_row { /* of a layer of A */
    int64_t b;                 /* that of B with the same name; -1: none */
    double similarity;         /* their overlap; 0 where they do not fit together */
    bool mixed;                /* false: it stays A's */
    double alpha;              /* B's share, of a blend */
} zt_splice_row;

/* The child of two models: A's layers, those mixed with B's that fit, in type, shape and, of
 * networks, dtype. What B lacks or has otherwise stays A's. By Loom's rule what is within a layer
 * of a network stays A's as well. It is a model like others, which computes its numbers as they are
 * asked for, and borrows both. NULL: see the context. */
zt_dna *zt_dna_splice(zt_dna *a, zt_dna *b, const zt_splice_how *how, const zt_dna_how *work);
/* What became of layer i of A in a child of zt_dna_splice; NULL: no such layer, or not a child. It
 * lives as long as the child. */
const zt_splice_row *zt_dna_splice_row(const zt_dna *child, int64_t i);

/* A model as a file, with the metadata of A, which may have been changed; whole or absent. */
zt_status zt_dna_write(zt_dna *d, const char *path, const zt_checkpoint_opts *o);
/* Its metadata: of a child, A's. */
zt_meta *zt_dna_meta(zt_dna *d);

/* ---- networks in one ------------------------------------------------------------------------- */

typedef struct zt_graft_how {
    const char *combine; /* how the branches' outputs are joined: "concat" "add" "avg" ... */
    bool residual;       /* and its input is added */
    const char *const *select; /* [n_select] globs: only layers whose name (place) or type matches */
    int n_select;              /* 0: all */
    /* Of "filter": the network that gives a number for each branch; NULL: a Dense of gate_inputs
     * numbers whose weights are 0, so that all shares begin equal. */
    zt_dna *gate;
    int64_t gate_inputs;
} zt_graft_how;

/* Networks side by side: a network of one layer, Parallel, with a branch for each (its one layer,
 * or a Sequential of all in the grid's order); within a Sequential before a Residual, if that is
 * asked for; one network alone needs no Parallel. Weights are copied as they are. Whole or absent;
 * meta is the file's, and gets the frame. */
zt_status zt_dna_graft(zt_dna *const *m, int n, const zt_graft_how *how, zt_meta *meta,
                       const char *path, const zt_checkpoint_opts *o);

#ifdef __cplusplus
}
#endif
#endif
