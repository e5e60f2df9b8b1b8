/* dna_tool.h - private to zt-dna: its options, its commands, and what the commands share.
 *
 * To add a command: a file with its function, declared here; a row of `commands` in main.c with its
 * name, synopsis and the options that it takes; the options it needs first in options.c. An option
 * given to a command that does not take it is misuse; those shared by zt's tools go with all.
 */
#ifndef ZT_DNA_TOOL_H
#define ZT_DNA_TOOL_H

#include "lib/dna/dna.h"
#include "tools/common/cli.h"

/* ---- options (options.c) --------------------------------------------------------------------- */

typedef struct dna_options {
    zt_opt_list select;
    int rule;         /* zt_storage_rule */
    double threshold; /* of the overall overlap, from which models are alike */
    int by;           /* DNA_BY_ */
    bool shifts, map;
} dna_options;

enum { DNA_BY_LAYER, DNA_BY_BLOCK };

/* The tool's own options, by which a command says what it takes: a bit each. */
enum { DNA_SELECT, DNA_RULE, DNA_THRESHOLD, DNA_BY, DNA_SHIFTS, DNA_MAP, DNA_N_OPTIONS };
#define TAKES(option) (UINT64_C(1) << DNA_##option)

extern dna_options dna_opt;
extern bool dna_given[DNA_N_OPTIONS];
extern const zt_opt dna_option_table[DNA_N_OPTIONS + 1];

/* ---- commands (main.c) ----------------------------------------------------------------------- */

typedef struct dna_command {
    const char *name, *synopsis; /* the synopsis begins with the name */
    uint64_t takes;
    int least, most; /* operands after the name; most -1: any number */
    zt_status (*run)(zt_cli *cli, const dna_options *o, char **operands, int n);
} dna_command;

zt_status dna_layers(zt_cli *cli, const dna_options *o, char **operands, int n);
zt_status dna_compare(zt_cli *cli, const dna_options *o, char **operands, int n);

/* ---- shared by commands (input.c) ------------------------------------------------------------ */

/* A model of any container, whole: "-" is stdin, a folder a Hugging Face model. */
zt_checkpoint *dna_open_checkpoint(zt_cli *cli, const char *path);
/* The same by --rule, with its layers told. */
zt_dna *dna_open(zt_cli *cli, const dna_options *o, const char *path);
int dna_threads(const zt_cli *cli);
/* Is the name among those of --select; all are where it is not given. */
bool dna_selected(const dna_options *o, const char *name);
/* A layer's shape, "[4,576]". */
const char *dna_shape(const zt_type *t, char buf[ZT_TYPE_TEXT]);

/* ---- compare: how it is told (told.c), as a map (map.c) -------------------------------------- */

typedef struct dna_told {
    zt_cli *cli;
    const dna_options *o;
    const zt_dna *a, *b;
    const zt_dna_verdict *v;
} dna_told;

zt_status dna_tell_json(const dna_told *t);
zt_status dna_tell_layers(const dna_told *t);
zt_status dna_tell_blocks(const dna_told *t);
zt_status dna_tell_shifts(const dna_told *t);
zt_status dna_tell_map(const dna_told *t); /* blocks across, types down, a cell for each layer */

#endif
