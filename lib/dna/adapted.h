/* adapted.h - a model with adapters: a checkpoint whose tensors are computed when they are read.
 *
 *     zt_lora_use a[] = {{lora, 1}, {other, 0.5}};
 *     zt_adapted *m = zt_adapted_new(ctx, base, a, 2, &(zt_adapted_opts){0});
 *     zt_checkpoint *c = zt_adapted_checkpoint(m);
 *
 * A scale multiplies the difference that its adapter makes, so that the order of adapters does not matter:
 *
 *     y = x + sum over adapters of scale * (x with this adapter alone - x)
 *
 *
 * Tensors that no adapter changes are the base's bytes. What is
 * changed is computed in f32 from the base's values and, unless `floats`, written in the base's type
 * again: by row, to the same bits for any number of threads and in whatever pieces it is read.
 */
#ifndef ZT_ADAPTED_H
#define ZT_ADAPTED_H

#include "lib/dna/lora.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_lora_use {
    const zt_lora *lora; /* borrowed until zt_adapted_free */
    double scale;
} zt_lora_use;

typedef struct zt_adapted_opts {
    bool floats; /* changed tensors are f32, for use in computations */
    int threads; /* of a read; 0: the caller's thread only */
} zt_adapted_opts;

typedef struct zt_adapted zt_adapted;

/* base is borrowed until zt_adapted_free and must be seekable. ZT_EDATA, ZT_ESHAPE: an adapter is for another model;
 * ZT_ENOTSUP: adapters that cannot be combined, or a type that can be read but not written. */
zt_adapted *zt_adapted_new(zt_ctx *ctx, zt_checkpoint *base, const zt_lora_use *adapters, int count,
                           const zt_adapted_opts *options);
/* Closes its checkpoint too. NULL: no effect. */
void zt_adapted_free(zt_adapted *adapted);

/* Its metadata is the base's, with "zt.lora.adapters" (a name and a scale each) and "zt.lora.ids"
 * (zt_dna_id of each). */
zt_checkpoint *zt_adapted_checkpoint(const zt_adapted *adapted); /* owned by `adapted` */
/* Gives the checkpoint to the caller, who closes it; `adapted` is freed then. Base and adapters must live as long. */
zt_checkpoint *zt_adapted_release(zt_adapted *adapted);
/* Does an adapter change the tensor? Also false for an index out of range. */
bool zt_adapted_changes(const zt_adapted *adapted, int64_t index);
/* The type in which the base stores a tensor of the checkpoint. */
zt_dtype zt_adapted_type(const zt_adapted *adapted, int64_t index);
/* Number of rows that adapters add to the vocabulary. */
int64_t zt_adapted_grown(const zt_adapted *adapted);

#ifdef __cplusplus
}
#endif
#endif
