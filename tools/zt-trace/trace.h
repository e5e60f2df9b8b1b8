/* trace.h - private to zt-trace: its options, its commands, and what the commands share.
 *
 * To add a command: a file with its function, declared here; its number below, and a row of
 * `commands` in main.c with its name and synopsis. To add an option: a row of options.def,
 * which says the commands that it applies to. With others it is misuse.
 */
#ifndef ZT_TRACE_H
#define ZT_TRACE_H

#include "tools/common/command.h"
#include "tools/common/subject.h"

/* ---- options (options.c) --------------------------------------------------------------------- */

#define TRACE_PASS_NUMBER(pass) TRACE_PASS_##pass,
enum { ZT_PASSES(TRACE_PASS_NUMBER) TRACE_N_PASSES };

#define WORDS ZT_OPTION_WORDS
#include "tools/zt-trace/options.def"

typedef struct trace_options {
#define OPTION ZT_OPTION_FIELD
#include "tools/zt-trace/options.def"
    bool no_pass[TRACE_N_PASSES]; /* compile: --no-NAME, in the order of the passes' table */
} trace_options;

extern trace_options trace_opt;
extern const zt_opt trace_option_table[];
extern const zt_shared_opt trace_shared_options[];

/* Names of the shared options that say how a program runs. */
#define TRACE_ENGINE_OPTIONS "threads|engine|strict-engine|isa|compute|tile"

/* The commands, which are the tool's modes. */
enum {
    TRACE_RECORD,
    TRACE_SHOW,
    TRACE_STATS,
    TRACE_DOT,
    TRACE_CHROME,
    TRACE_MEMORY,
    TRACE_DIFF,
    TRACE_GRAD,
    TRACE_COMPILE,
    TRACE_N_COMMANDS
};

/* ---- commands (main.c) ----------------------------------------------------------------------- */

typedef struct trace_command {
    zt_command is;
    int operands; /* at most, after the name; -1: any number */
    zt_status (*run)(zt_cli *cli, const trace_options *o, char **operands, int n);
} trace_command;

zt_status trace_record(zt_cli *cli, const trace_options *options, char **operands, int operand_count);
zt_status trace_compile(zt_cli *cli, const trace_options *options, char **operands, int operand_count);
zt_status trace_show(zt_cli *cli, const trace_options *options, char **operands, int operand_count);
zt_status trace_stats(zt_cli *cli, const trace_options *options, char **operands, int operand_count);
zt_status trace_dot(zt_cli *cli, const trace_options *options, char **operands, int operand_count);
zt_status trace_chrome(zt_cli *cli, const trace_options *options, char **operands, int operand_count);
zt_status trace_memory(zt_cli *cli, const trace_options *options, char **operands, int operand_count);
zt_status trace_diff(zt_cli *cli, const trace_options *options, char **operands, int operand_count);
zt_status trace_grad(zt_cli *cli, const trace_options *options, char **operands, int operand_count);

/* ---- shared by commands (text.c) ------------------------------------------------------------- */

/* The program that the first operand names, or standard input where there is none. */
zt_prog *trace_program(zt_cli *cli, char **operands, int operand_count);
/* The same with all that it needs to run, which those options give or --seed draws. program is the
 * caller's to free, after the subject. */
zt_subject *trace_subject(zt_cli *cli, const trace_options *options, const zt_prog *program, char **operands, int operand_count);
/* Text, whole, to --output or stdout. Frees it. */
zt_status trace_write(zt_cli *cli, zt_str *text);
/* A table, whole, to --output or stdout, as --format says. */
zt_status trace_print(zt_cli *cli, const zt_table *table);
/* A program's canonical text, to --output or stdout. */
zt_status trace_write_program(zt_cli *cli, const zt_prog *program);
/* Does bindings give every symbol of program a number? */
bool trace_all_bound(const zt_prog *program, const zt_bindings *bindings);

#endif
