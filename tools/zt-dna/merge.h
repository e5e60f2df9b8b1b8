/* merge.h - private to zt-dna: what the files of `merge` share. */
#ifndef ZT_DNA_MERGE_H
#define ZT_DNA_MERGE_H

#include "tools/common/adapters.h"
#include "tools/zt-dna/dna_tool.h"

typedef struct merge_inputs {
    zt_cli *cli;
    const dna_options *o;
    char **operand;
    int n_operands;
    zt_merge_parent *parent; /* [n] as the recipe numbers its models */
    struct merge_opened {
        zt_checkpoint *model;
        zt_adapters adapters;
        zt_adapted *adapted;
    } *opened;
    int n;
} merge_inputs;

/* merge_recipe.c: that of --config, or what the flags say, as mergekit's JSON. */
zt_recipe *merge_recipe(zt_cli *cli, const dna_options *o, char **operands, int n);

/* merge_open.c: the recipe's models, found and opened. */
zt_status merge_open(merge_inputs *in, const zt_recipe *r);
void merge_close(merge_inputs *in);

/* merge_type.c: the child's types by --type. */
zt_status merge_retype(zt_cli *cli, zt_merge *m, const char *type);

#endif
