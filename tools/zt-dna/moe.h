/* moe.h - private to zt-dna: what the files of `moe` share. */
#ifndef ZT_DNA_MOE_H
#define ZT_DNA_MOE_H

#include "tools/zt-dna/dna_tool.h"

typedef struct moe_inputs {
    zt_cli *cli;
    const zt_moe_recipe *recipe;
    const zt_moe_config *config;
    char **paths;           /* [model_count] files of the recipe's models */
    zt_checkpoint **models; /* [model_count] */
} moe_inputs;

/* moe_gates.c: gates of the recipe's prompts, f32[layers, experts, width], with a warning if they are too similar. */
zt_status moe_prompt_gates(moe_inputs *inputs, const zt_moe_shape *shape, float *gates);

#endif
