/* trace.h - private to zt-trace: its options, its commands, and what the commands share.
 *
 * To add a command: a file with its function, declared here; a row of `commands` in main.c with its
 * name, synopsis and the options that it takes; the options it needs first in options.c. An option
 * given to a command that does not take it is misuse; those shared by zt's tools go with all.
 */
#ifndef ZT_TRACE_H
#define ZT_TRACE_H

#include "tools/common/command.h"
#include "tools/common/subject.h"

/* ---- options (options.c) --------------------------------------------------------------------- */

#define TRACE_PASS_NUMBER(pass) TRACE_PASS_##pass,
enum { ZT_PASSES(TRACE_PASS_NUMBER) TRACE_N_PASSES };

typedef struct trace_options {
    const char *model, *input, *data; /* of a program that is run: as zt_subject_opts has them */
    const char *bind;                 /* "n=16,ctx=64" */
    bool plain;
    /* of record */
    const char *prompt, *steps, *values;
    int64_t at, ctx;
    bool embed;
    int64_t cycles; /* of a network's clock; 0: layer after layer */
    int kv; /* index into f16|f32; -1: the default */
    const char *times;
    int by; /* word of --by */
    const char *replay; /* a line, or the name of a value */
    bool through, exact;
    zt_opt_list wrt, of; /* names, each item a list "a,b" */
    bool seeds;
    bool report;                  /* compile: what each pass saved */
    bool no_pass[TRACE_N_PASSES]; /* compile: in the order of the passes' table */
} trace_options;

/* The tool's own options, by which a command says what it takes: a bit each. */
enum {
    TRACE_MODEL,
    TRACE_INPUT,
    TRACE_DATA,
    TRACE_BIND,
    TRACE_PLAIN,
    TRACE_PROMPT,
    TRACE_STEPS,
    TRACE_AT,
    TRACE_VALUES,
    TRACE_CTX,
    TRACE_KV,
    TRACE_EMBED,
    TRACE_CYCLES,
    TRACE_TIMES,
    TRACE_BY,
    TRACE_REPLAY,
    TRACE_THROUGH,
    TRACE_EXACT,
    TRACE_WRT,
    TRACE_OF,
    TRACE_SEEDS,
    TRACE_REPORT,
#define TRACE_NO_PASS(pass) TRACE_NO_##pass,
    ZT_PASSES(TRACE_NO_PASS) /* --no-cse ...: those of compile */
    TRACE_N_OPTIONS
};
#define TRACE_TAKES_NO(pass) | UINT64_C(1) << TRACE_NO_##pass
#define TAKES_PASSES (UINT64_C(0) ZT_PASSES(TRACE_TAKES_NO))
#define TAKES(option) (UINT64_C(1) << TRACE_##option)
#define TAKES_PAIR (UINT64_C(1) << 63) /* two of --engine, --isa or --threads */
#define TAKES_SUBJECT (TAKES(MODEL) | TAKES(INPUT) | TAKES(DATA) | TAKES(BIND))

extern trace_options trace_opt;
extern bool trace_given[TRACE_N_OPTIONS];
extern const zt_opt trace_option_table[TRACE_N_OPTIONS + 1];

/* ---- commands (main.c) ----------------------------------------------------------------------- */

typedef struct trace_command {
    zt_command is;
    int operands; /* at most, after the name; -1: any number */
    zt_status (*run)(zt_cli *cli, const trace_options *o, char **operands, int n);
} trace_command;

zt_status trace_record(zt_cli *cli, const trace_options *o, char **operands, int n);
zt_status trace_compile(zt_cli *cli, const trace_options *o, char **operands, int n);
zt_status trace_show(zt_cli *cli, const trace_options *o, char **operands, int n);
zt_status trace_stats(zt_cli *cli, const trace_options *o, char **operands, int n);
zt_status trace_dot(zt_cli *cli, const trace_options *o, char **operands, int n);
zt_status trace_chrome(zt_cli *cli, const trace_options *o, char **operands, int n);
zt_status trace_memory(zt_cli *cli, const trace_options *o, char **operands, int n);
zt_status trace_diff(zt_cli *cli, const trace_options *o, char **operands, int n);
zt_status trace_grad(zt_cli *cli, const trace_options *o, char **operands, int n);

/* ---- shared by commands (text.c) ------------------------------------------------------------- */

/* The program that the first operand names, or standard input where there is none. */
zt_prog *trace_program(zt_cli *cli, char **operands, int n);
/* The same with all that it needs to run, which those options give or --seed draws. p is the
 * caller's to free, after the subject. */
zt_subject *trace_subject(zt_cli *cli, const trace_options *o, const zt_prog *p, char **operands,
                          int n);
/* Text, whole, to --output or stdout. Frees it. */
zt_status trace_write(zt_cli *cli, zt_str *text);
/* A table likewise, as --format says. */
zt_status trace_print(zt_cli *cli, const zt_table *t);
/* A program's canonical text, likewise. */
zt_status trace_write_program(zt_cli *cli, const zt_prog *p);
/* Does b give every symbol of p a number? */
bool trace_all_bound(const zt_prog *p, const zt_bindings *b);

#endif
