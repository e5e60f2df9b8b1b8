/* evolve.h - private to zt-dna: what mutate and evolve share. */
#ifndef ZT_DNA_EVOLVE_H
#define ZT_DNA_EVOLVE_H

#include "tools/zt-dna/dna_tool.h"

/* mutate.c: the rates, kinds and seed of the options. ZT_EUSAGE: an unknown kind. */
zt_status dna_mutation(zt_cli *cli, const dna_options *options, zt_nn_mutation *how);
/* Runs one row of zeros. */
zt_status dna_check_runs(zt_engine *engine, zt_nn *network);

#endif
