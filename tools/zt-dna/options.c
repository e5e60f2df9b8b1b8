/* options.c - the options of zt-dna, of all commands. */
#include "tools/zt-dna/dna_tool.h"

/* filled by the rows of options.def, which need constant addresses */
dna_options dna_opt = {
#define DEFAULT ZT_OPTION_DEFAULT
#include "tools/zt-dna/options.def"
};

#define IN(command) ZT_IN(DNA_##command)
#define MIXES                                                                                                                    \
    (IN(SPLICE) | IN(MERGE) | IN(MOE) | IN(TRANSPLANT) | IN(GRAFT) | IN(LORA) | IN(MUTATE)) /* another model is written */
#define BREEDS (IN(MUTATE) | IN(EVOLVE))
#define TABLES (IN(LAYERS) | IN(COMPARE) | IN(LINEAGE))

const zt_opt dna_option_table[] = {
#define OPTION(kind, field, ...) ZT_OPTION_ROW(ZT_OPT_##kind, dna_opt.field, __VA_ARGS__)
#include "tools/zt-dna/options.def"
    {0}};

const zt_shared_opt dna_shared_options[] = {
    {"output", IN(EXTRACT) | IN(EVOLVE) | MIXES, NULL},
    {"force", ~IN(LAYERS), "output|plot|report"},
    {"threads", IN(COMPARE) | IN(LINEAGE) | IN(SPLICE) | IN(MERGE) | IN(MOE) | IN(TRANSPLANT) | IN(LORA), NULL},
    {"seed", IN(SPLICE) | IN(MERGE) | IN(MOE) | IN(LORA) | BREEDS, NULL},
    {"format", TABLES, NULL},
    {"color", TABLES, NULL},
    {"progress", ~(IN(LAYERS) | IN(GRAFT) | IN(MUTATE)), NULL},
    {0}};
