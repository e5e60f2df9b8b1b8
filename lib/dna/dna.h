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
void zt_dna_close(zt_dna *d);

const char *zt_dna_name(const zt_dna *d); /* for messages */
bool zt_dna_is_net(const zt_dna *d);
int64_t zt_dna_count(const zt_dna *d);
const zt_dna_layer *zt_dna_get(const zt_dna *d, int64_t i); /* i below count */
int64_t zt_dna_find(const zt_dna *d, const char *name);     /* index or -1 */

#ifdef __cplusplus
}
#endif
#endif
