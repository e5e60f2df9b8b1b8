/* merge.h - private to zt-dna: what the files of `merge` share. */
#ifndef ZT_DNA_MERGE_H
#define ZT_DNA_MERGE_H

#include "tools/common/adapters.h"
#include "tools/zt-dna/dna_tool.h"

typedef struct merge_inputs {
    zt_cli *cli;
    const dna_options *options;
    char **operands;
    int operand_count;
    zt_merge_parent *parents; /* [count] as the recipe numbers its models */
    struct merge_opened {
        zt_checkpoint *model;
        zt_adapters adapters;
        zt_adapted *adapted;
    } * opened;
    int count;
} merge_inputs;

/* merge_recipe.c: that of --config, or what the flags say, as mergekit's JSON. */
zt_recipe *merge_recipe(zt_cli *cli, const dna_options *options, char **operands, int count);

/* merge_open.c: the recipe's models, found and opened. */
zt_status merge_open(merge_inputs *inputs, const zt_recipe *recipe);
void merge_close(merge_inputs *inputs);

/* merge_type.c: the child's types by --type. */
zt_status merge_retype(zt_cli *cli, zt_merge *merge, const char *type);

#endif
