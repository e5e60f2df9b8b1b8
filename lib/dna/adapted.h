/* adapted.h - a model with adapters: a checkpoint whose tensors are made as they are read.
 *
 *     zt_lora_use a[] = {{lora, 1}, {other, 0.5}};
 *     zt_adapted *m = zt_adapted_new(ctx, base, a, 2, &(zt_adapted_opts){0});
 *     zt_checkpoint *c = zt_adapted_checkpoint(m);
 *
 * A scale multiplies the difference that its adapter makes: y = x + sum of scale (with - x), so that
 * the order of adapters says nothing. Tensors that no adapter changes are the base's bytes. What is
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
    bool floats; /* what is changed is f32, for who computes with it */
    int threads; /* of a read; 0: the caller's alone */
} zt_adapted_opts;

typedef struct zt_adapted zt_adapted;

/* base is borrowed until zt_adapted_free and must be readable anywhere. ZT_EDATA, ZT_ESHAPE: an
 * adapter is for another model; ZT_ENOTSUP: adapters that do not go together, or a type that is only
 * read. */
zt_adapted *zt_adapted_new(zt_ctx *ctx, zt_checkpoint *base, const zt_lora_use *adapter, int n,
                           const zt_adapted_opts *o);
/* The checkpoint is closed as well. */
void zt_adapted_free(zt_adapted *a);

/* Its metadata is the base's, with "zt.lora.adapters" (a name and a scale each) and "zt.lora.ids"
 * (zt_dna_id of each). */
zt_checkpoint *zt_adapted_checkpoint(const zt_adapted *a); /* owned by a */
/* The same without a, which is freed with it; the base and the adapters must live as long. */
zt_checkpoint *zt_adapted_release(zt_adapted *a);
/* Does an adapter change tensor i of the checkpoint? false also for an i that is out of range. */
bool zt_adapted_changes(const zt_adapted *a, int64_t i);
/* The type that tensor i of the checkpoint has where it is stored. */
zt_dtype zt_adapted_type(const zt_adapted *a, int64_t i);
/* Rows that adapters add to the vocabulary. */
int64_t zt_adapted_grown(const zt_adapted *a);

#ifdef __cplusplus
}
#endif
#endif
