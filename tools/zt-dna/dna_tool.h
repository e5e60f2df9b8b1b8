/* dna_tool.h - private to zt-dna: its options, its commands, and what the commands share.
 *
 * To add a command: a file with its function, declared here; its number below, and a row of
 * `commands` in main.c with its name and synopsis. To add an option: a row of options.def,
 * which says the commands that it applies to. With others it is misuse.
 */
#ifndef ZT_DNA_TOOL_H
#define ZT_DNA_TOOL_H

#include "lib/dna/dna.h"
#include "tools/common/command.h"

/* ---- options (options.c) --------------------------------------------------------------------- */

#define WORDS     ZT_OPTION_WORDS
#define LIB_WORDS ZT_OPTION_LIB_WORDS
#include "tools/zt-dna/options.def"

typedef struct dna_options {
#define OPTION ZT_OPTION_FIELD
#include "tools/zt-dna/options.def"
} dna_options;

extern dna_options dna_opt;
extern const zt_opt dna_option_table[];
extern const zt_shared_opt dna_shared_options[];

/* The commands, which are the tool's modes. */
enum {
    DNA_LAYERS,
    DNA_EXTRACT,
    DNA_COMPARE,
    DNA_LINEAGE,
    DNA_SPLICE,
    DNA_MERGE,
    DNA_MOE,
    DNA_TRANSPLANT,
    DNA_GRAFT,
    DNA_LORA,
    DNA_MUTATE,
    DNA_EVOLVE,
    DNA_N_COMMANDS
};

/* ---- commands (main.c) ----------------------------------------------------------------------- */

typedef struct dna_command {
    zt_command command;
    int min_operands, max_operands; /* operands after the name; max -1: any number */
    zt_status (*run_command)(zt_cli *cli, const dna_options *o, char **operands, int n);
} dna_command;

zt_status dna_layers(zt_cli *cli, const dna_options *options, char **operands, int count);
zt_status dna_extract(zt_cli *cli, const dna_options *options, char **operands, int operand_count);
zt_status dna_compare(zt_cli *cli, const dna_options *options, char **operands, int count);
zt_status dna_lineage(zt_cli *cli, const dna_options *options, char **operands, int count);
zt_status dna_graft(zt_cli *cli, const dna_options *options, char **operands, int count);
zt_status dna_splice(zt_cli *cli, const dna_options *options, char **operands, int count);
/* The words of --method, of all commands and (transplant.c) of transplant, and merge.c: the names of --param, for zt_opt.values. */
const char *dna_method_names(const void *user, int i);
const char *dna_transplant_names(const void *user, int i);
const char *dna_parameter_names(const void *user, int i);
zt_status dna_merge(zt_cli *cli, const dna_options *options, char **operands, int count);
zt_status dna_moe(zt_cli *cli, const dna_options *options, char **operands, int count);
zt_status dna_transplant(zt_cli *cli, const dna_options *options, char **operands, int count);
zt_status dna_mutate(zt_cli *cli, const dna_options *options, char **operands, int count);
zt_status dna_evolve(zt_cli *cli, const dna_options *options, char **operands, int count);
zt_status dna_lora(zt_cli *cli, const dna_options *options, char **operands, int count);

/* ---- shared by commands (input.c) ------------------------------------------------------------ */

/* Opens a model of any container. "-": stdin; a folder: a Hugging Face model. */
zt_checkpoint *dna_open_checkpoint(zt_cli *cli, const char *path);
/* Opens a model by --rule, or a file of signatures. */
zt_dna *dna_open(zt_cli *cli, const dna_options *options, const char *path);
int dna_threads(const zt_cli *cli);
/* Shows the progress of a comparison; ZT_EINTR after an interrupt. */
zt_status dna_report_progress(zt_cli *cli, const char *layer, int64_t done, int64_t all);
/* Writes a model to the file of --output, in the container of --to or of the name, else JSON for networks and GGUF; with a
 * line of history. */
zt_status dna_write(zt_cli *cli, const dna_options *options, zt_dna *model, const char *what);
/* Writes a checkpoint of GGUF's metadata to --output: a file, stdout, or a Hugging Face directory; closes it. `what` names the work. */
zt_status dna_write_made(zt_cli *cli, const dna_options *options, zt_checkpoint *model, const char *what);
/* The container of an output: by --to, or the name, else `else_to`; NULL: unknown. */
const zt_container *dna_container(zt_cli *cli, const dna_options *options, const char *path, const char *else_to);
/* Does --select select the name? Without --select all are selected. */
bool dna_selected(const dna_options *options, const char *name);
/* A layer's shape, "[4,576]". */
const char *dna_shape(const zt_type *type, char buf[ZT_TYPE_TEXT]);

/* ---- layers as JSON (json.c) ----------------------------------------------------------------- */

/* ,"key":number; null for NaN and infinity. */
void dna_put_number(zt_str *text, const char *key, double number);
void dna_put_text(zt_str *out, const char *key, const char *text); /* "key":"text" */
void dna_put_place(zt_str *text, const zt_dna_layer *layer);       /* ,"z":..,"y":..,"x":..,"layer":.., */
/* One object of the list below. */
zt_status dna_put_signature(zt_dna *model, int64_t index, bool weights, zt_str *text);
/* [{"name","z","y","x","l","type","dtype","n","length","weights"}...]; weights: with the signature's numbers. */
zt_status dna_put_signatures(zt_dna *model, bool weights, zt_str *text);

/* ---- output of compare: tables and JSON (report.c), a map (map.c) ------------------------------- */

typedef struct dna_report {
    zt_cli *cli;
    const dna_options *options;
    const zt_dna *model_a, *model_b;
    const zt_dna_verdict *verdict;
} dna_report;

zt_status dna_print_json(const dna_report *report);
zt_status dna_print_layers(const dna_report *report);
zt_status dna_print_blocks(const dna_report *report);
zt_status dna_print_shifts(const dna_report *report);
/* A map: a column per block, a row per type, a cell per layer; on stdout, or drawn to the file of --plot. */
zt_status dna_print_map(const dna_report *report, bool plot);
/* Drawings of a matrix of cells. */
void dna_draw_begin(zt_str *text, int64_t rows, int64_t columns, const char *title);
void dna_draw_row(zt_str *text, int64_t row, const char *label);
void dna_draw_cell(zt_str *text, int64_t row, int64_t column, double overlap, bool same, const char *what);
zt_status dna_write_plot(zt_cli *cli, const dna_options *options, const zt_str *text);
/* The number of nines of an overlap, at most 9: 0.9987 has 2; 10: equal. */
int dna_nines(double overlap, bool same);
void dna_put_cell(zt_str *text, double overlap, bool same, bool color); /* as one character */

#endif
