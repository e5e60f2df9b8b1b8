/* lora_part.h - private to lib/dna: what an adapter adds to one matrix, W + B A. */
#ifndef ZT_LORA_PART_H
#define ZT_LORA_PART_H

#include "lib/dna/merge.h"

typedef struct zt_lora_of { /* rank 0: nothing */
    int64_t rows, columns, rank;
    float *a, *b; /* [rank, columns]; [rows, rank] with the scale in it */
} zt_lora_of;

/* Has each part of the adapter its matrix in the model, of the right shape? */
zt_status zt_lora_check(const zt_lora *l, zt_checkpoint *model);
/* What there is for a tensor of the model. */
zt_status zt_lora_get(const zt_lora *l, zt_checkpoint *model, int64_t tensor, zt_lora_of *out);
void zt_lora_fini(const zt_lora *l, zt_lora_of *of);
/* In how many heads a tensor's rows are paired on the way from Hugging Face's names to GGUF's; 0:
 * they are not, -1: not known. */
int64_t zt_lora_heads(zt_checkpoint *model, const char *name);
/* Added to rows from `first` on. */
void zt_lora_add(const zt_lora_of *of, float *y, int64_t first, int64_t rows);

#endif
