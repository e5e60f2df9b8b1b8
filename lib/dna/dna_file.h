/* dna_file.h - private to lib/dna: layers, and the parts of which a network's layers are made. */
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

struct zt_dna {
    zt_ctx *ctx;
    zt_checkpoint *from;
    zt_storage_rule rule;
    bool net;
    zt_arena *texts;
    zt_map *names;
    zt_dna_layer *layer;
    int64_t *first; /* [n] of each layer's parts */
    int64_t n;
    dna_part *part;
    int64_t n_parts;
};

/* place.c: a tensor's place and type, from its name. */
zt_status zt_dna_places(zt_dna *d);
/* net.c: a network's layers and parts, from its frame. */
zt_status zt_dna_net_layers(zt_dna *d, zt_bytes frame);

#endif
