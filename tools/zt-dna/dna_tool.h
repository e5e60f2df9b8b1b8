/* dna_tool.h - private to zt-dna: its options, its commands, and what the commands share.
 *
 * To add a command: a file with its function, declared here; its number below, and a row of
 * `commands` in main.c with its name and synopsis. To add an option: a field of dna_options and a
 * row in options.c, which says the commands that it applies to. With others it is misuse.
 */
#ifndef ZT_DNA_TOOL_H
#define ZT_DNA_TOOL_H

#include "lib/dna/dna.h"
#include "tools/common/command.h"

/* ---- options (options.c) --------------------------------------------------------------------- */

typedef struct dna_options {
    zt_opt_list select;
    int rule;         /* zt_storage_rule */
    double threshold; /* of the overall overlap, from which models are alike */
    int by;           /* DNA_BY_ */
    bool shifts, map;
    int mode; /* zt_splice_mode */
    double alpha, ratio, fitness_a, fitness_b;
    const char *report, *to, *plot;
    bool no_history;
    int combine; /* of concat, add, avg, grid_scatter, filter */
    const char *gate;
    bool residual;
    const char *method, *config, *models, *base, *type;
    zt_opt_list weight, density, gamma, epsilon, scale, param;
    double t, lambda;
    int64_t rank;
} dna_options;

enum { DNA_BY_LAYER, DNA_BY_BLOCK };

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
    DNA_GRAFT,
    DNA_LORA,
    DNA_N_COMMANDS
};

/* ---- commands (main.c) ----------------------------------------------------------------------- */

typedef struct dna_command {
    zt_command is;
    int least, most; /* operands after the name; most -1: any number */
    zt_status (*run)(zt_cli *cli, const dna_options *o, char **operands, int n);
} dna_command;

zt_status dna_layers(zt_cli *cli, const dna_options *o, char **operands, int n);
zt_status dna_extract(zt_cli *cli, const dna_options *o, char **operands, int n);
zt_status dna_compare(zt_cli *cli, const dna_options *o, char **operands, int n);
zt_status dna_lineage(zt_cli *cli, const dna_options *o, char **operands, int n);
zt_status dna_graft(zt_cli *cli, const dna_options *o, char **operands, int n);
zt_status dna_splice(zt_cli *cli, const dna_options *o, char **operands, int n);
zt_status dna_merge(zt_cli *cli, const dna_options *o, char **operands, int n);
zt_status dna_lora(zt_cli *cli, const dna_options *o, char **operands, int n);

/* ---- shared by commands (input.c) ------------------------------------------------------------ */

/* A model of any container, whole: "-" is stdin, a folder a Hugging Face model. */
zt_checkpoint *dna_open_checkpoint(zt_cli *cli, const char *path);
/* The same by --rule, or the signatures of one. */
zt_dna *dna_open(zt_cli *cli, const dna_options *o, const char *path);
int dna_threads(const zt_cli *cli);
/* Of a comparison, how far it is; ZT_EINTR after an interrupt. */
zt_status dna_tick(zt_cli *cli, const char *layer, int64_t done, int64_t all);
/* A model as the file of --output, in the container of --to or of its name, else JSON for networks
 * and GGUF; with a line of history. */
zt_status dna_write(zt_cli *cli, const dna_options *o, zt_dna *d, const char *what);
/* The container of an output: by --to, or its name, else `else_to`; NULL: there is no such. */
const zt_container *dna_container(zt_cli *cli, const dna_options *o, const char *path,
                                  const char *else_to);
/* Is the name among those of --select; all are where it is not given. */
bool dna_selected(const dna_options *o, const char *name);
/* A layer's shape, "[4,576]". */
const char *dna_shape(const zt_type *t, char buf[ZT_TYPE_TEXT]);

/* ---- layers as JSON (json.c) ----------------------------------------------------------------- */

/* ,"key":number, null for what is none. */
void dna_put_number(zt_str *s, const char *key, double x);
void dna_put_text(zt_str *s, const char *key, const char *text); /* "key":"text" */
void dna_put_place(zt_str *s, const zt_dna_layer *l);            /* ,"z":..,"y":..,"x":..,"l":.., */
/* One of those below. */
zt_status dna_put_signature(zt_dna *d, int64_t i, bool weights, zt_str *s);
/* [{"name","z","y","x","l","type","dtype","n","length","weights"}...]; weights: if wanted. */
zt_status dna_put_signatures(zt_dna *d, bool weights, zt_str *s);

/* ---- compare: how it is told (report.c), as a map (map.c) -------------------------------------- */

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
/* Blocks across, types down, a cell for each layer: on stdout, or drawn as --plot. */
zt_status dna_tell_map(const dna_told *t, bool plot);
/* Drawings of cells, by row and column. */
void dna_draw_begin(zt_str *s, int64_t rows, int64_t columns, const char *title);
void dna_draw_row(zt_str *s, int64_t row, const char *label);
void dna_draw_cell(zt_str *s, int64_t row, int64_t column, double overlap, bool same,
                   const char *what);
zt_status dna_write_plot(zt_cli *cli, const dna_options *o, const zt_str *s);
/* How many nines an overlap has: 0.9987 has 2; 9 at most, 10 is the same. */
int dna_nines(double overlap, bool same);
void dna_put_cell(zt_str *s, double overlap, bool same, bool color); /* as one character */

#endif
