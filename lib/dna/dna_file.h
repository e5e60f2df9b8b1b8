/* dna_file.h - private to lib/dna: layers, the parts of which a network's layers are made, and how
 * their numbers come.
 *
 * dna.c owns opening; layer_index.c places of tensors; net.c networks; signatures.c their files;
 * values.c numbers at their
 * precision, and signatures; score.c two layers side by side; compare.c two models;
 * lineage.c many; splice.c children of two; graft.c networks in one; write.c files of them. */
#ifndef ZT_DNA_FILE_H
#define ZT_DNA_FILE_H

#include "lib/dna/dna.h"
#include "lib/io/netjson.h"

/* A tensor, the constant 1 of what has no weights, or several parts one behind the other. */
typedef struct dna_part {
    int64_t tensor;     /* of the checkpoint; -1: none */
    int64_t n;          /* numbers, of parts within it all together */
    zt_net_weights are; /* of a network's tensor */
    int64_t next;       /* behind all that is in it: the parts are a tree in preorder */
    bool group;         /* it is made of the parts up to next */
} dna_part;

/* A child: how A's numbers are mixed with B's. */
typedef struct dna_mix {
    zt_dna *b;
    zt_splice_how how;
    int64_t *twin;       /* [parts of A] the part of B that it is mixed with; -1: it stays A's */
    float *alpha;        /* [parts of A] B's share, of blends */
    zt_net_weights *was; /* [parts of A] of networks, A's codes */
    float *room;         /* for B's numbers */
    int64_t room_n;
    zt_splice_row *row; /* [layers of A] */
} dna_mix;

struct zt_dna {
    zt_ctx *ctx;
    zt_checkpoint *from;
    zt_storage_rule rule;
    bool net;       /* a network: its layers are held whole */
    bool of_net;    /* it, or what it holds the signatures of, is one */
    double *length; /* [n] of what has been signed: they are signatures; NULL: they are not */
    float **given;  /* [n] signatures that came as JSON, and no checkpoint; NULL: no */
    char *file;     /* their file's name */
    zt_arena *texts;
    zt_map *names;
    zt_dna_layer *layer;
    int64_t *first; /* [n] of each layer's parts */
    int64_t n;
    dna_part *part;
    int64_t n_parts;
    float *held; /* the numbers of one layer of a network, and which (-1: none) */
    int64_t held_layer, held_room;
    char *codes; /* room for the codes of one tensor */
    size_t codes_room;
    dna_mix *mix; /* NULL: it is no child; of a child `from`, `texts` and `names` are A's */
};

/* layer_index.c: a tensor's place and type, from its name. */
zt_status zt_dna_places(zt_dna *d);
/* net.c: a network's layers and parts, from its frame. */
zt_status zt_dna_net_layers(zt_dna *d, zt_bytes frame);

/* signatures.c: of a checkpoint, of JSON. */
bool zt_dna_holds_signatures(zt_dna *d);
zt_status zt_dna_take_signatures(zt_dna *d);
zt_status zt_dna_parse(zt_dna *d, const char *text, size_t n);

/* ---- numbers (values.c) ---------------------------------------------------------------------- */

/* Which dtype zt_dna_fetch gives layer i's numbers in. */
zt_dtype zt_dna_dtype(const zt_dna *d, int64_t i);
/* Bytes that n numbers of a dtype take, from a place that ends a block. */
size_t zt_dna_bytes(zt_dtype t, int64_t n);
/* Numbers at .. at+n-1 as bytes of that dtype; `at` is a multiple of 256, and n is or ends them. */
zt_status zt_dna_fetch(zt_dna *d, int64_t i, int64_t at, int64_t n, void *dst);
/* Of any dtype, also whole numbers, to floats. From any thread. */
void zt_dna_decode(zt_dtype t, const void *src, float *out, int64_t n);

/* A network's part as its file holds it: weights before they are taken at a precision. */
zt_status zt_dna_master(zt_dna *d, int64_t part, float *out);
/* The same, of a child before they become codes. */
zt_status zt_dna_mixed(zt_dna *d, int64_t part, float *out);
/* Room for the codes of one tensor, d->codes. */
zt_status zt_dna_room(zt_dna *d, size_t bytes);

/* ---- children (splice.c) --------------------------------------------------------------------- */

/* n numbers of part p from number `at` on, of A, become the child's. */
zt_status zt_dna_mix(zt_dna *child, int64_t p, int64_t at, int64_t n, float *x);

/* ---- two layers side by side (score.c) ------------------------------------------------------- */

enum { DNA_BUCKETS = 1024, DNA_SHORT = 4096 }; /* layers that are short need no sketch */

typedef struct dna_crew dna_crew;
dna_crew *zt_dna_crew_new(zt_ctx *ctx, int threads);
void zt_dna_crew_free(dna_crew *c);

typedef struct dna_sums {
    double a1, b1, a2, b2, ab, d2, most; /* sums of a, b, a^2, b^2, ab, (a-b)^2; most |a-b| */
    double rank_a, rank_b;               /* NaN: not asked, or no matrices */
} dna_sums;

/* Layer i of a beside layer j of b, which has as many numbers. sketch_a, sketch_b: [DNA_BUCKETS],
 * or NULL; their dot product is about that of the layers. The sums do not depend on the threads. */
zt_status zt_dna_sum(dna_crew *c, zt_dna *a, int64_t i, zt_dna *b, int64_t j, bool ranks,
                     dna_sums *out, double *sketch_a, double *sketch_b);

/* change.c: change and changed of every layer of a verdict. */
zt_status zt_dna_mark_changes(const zt_dna *a, const zt_dna *b, zt_dna_verdict *v);

#endif
