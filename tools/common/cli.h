/* cli.h - what every tool shares: one option table that feeds getopt_long, --help, completion and
 * the check against the man page; exit codes; messages; tables; progress.
 *
 * A tool's table is made from its options.def, a row an option (option_rows.h).
 *
 *     int main(int argc, char **argv)
 *     {
 *         zt_cli *cli = zt_cli_open(&zt_run_tool, argc, argv); // may exit: --help, misuse
 *         zt_status s = run(cli);
 *         return zt_cli_close(cli, s);
 *     }
 */
#ifndef ZT_CLI_H
#define ZT_CLI_H

#include "lib/base/near.h"
#include "lib/zt/all.h"
#include <stdio.h>

typedef enum zt_opt_kind {
    ZT_OPT_FLAG,     /* bool *: set true */
    ZT_OPT_OFF,      /* bool *: set false */
    ZT_OPT_STR,      /* const char ** */
    ZT_OPT_OPTIONAL, /* const char **: the value may be left out, and is "" then; of a tool without operands */
    ZT_OPT_LIST,     /* zt_opt_list *: may be given many times */
    ZT_OPT_I64,      /* int64_t *, in [min, max] */
    ZT_OPT_U64,      /* uint64_t * */
    ZT_OPT_F64,      /* double *, in [fmin, fmax] */
    ZT_OPT_SIZE,     /* size_t *: 512M, 4GiB; min 1: not 0 */
    ZT_OPT_WORD,     /* int *: index of the word in `arg` ("auto|always|never") */
    ZT_OPT_COUNT,    /* int *: how often given (-vv) */
    ZT_OPT_HELP      /* bool *: --help, or --help=all */
} zt_opt_kind;

typedef struct zt_opt_list {
    const char **item;
    int n;
} zt_opt_list;

typedef struct zt_opt {
    int letter;       /* 0: none */
    const char *name; /* NULL: none */
    zt_opt_kind kind;
    void *value;
    const char *arg;       /* the argument's name in --help; for WORD the words */
    const char *help;      /* one line */
    int64_t min, max;      /* I64: both 0 means any; SIZE: min is 0 or 1 */
    double fmin, fmax;     /* F64: likewise */
    bool *given;           /* may be NULL: set true when the option was on the command line */
    uint64_t modes;        /* ZT_IN of each mode of the tool that it applies to; 0: all */
    const char *needs;     /* "json|jsonl": it applies only beside one of these options; a letter
                            * stands for an option without a name as "-n" */
    const char *excludes;  /* "raw|template": it cannot be given together with these */
    const char *otherwise; /* its default in words, where the value at the start does not say it */
    const char *heading;   /* of --help: it and the rows after it, up to the next heading, are this group */
    bool detail;           /* only in --help=all, where the whole list is longer than --help may be */
    /* For completion, of a STR or LIST. Where `arg` is "GLOB=TYPE", names_from is for what is in front of the '=', and values
     * for what follows. */
    zt_name_fn *values;     /* the words that its value may be (user: NULL); NULL: no such list */
    const char *names_from; /* "zt-convert --list": prints, of a file, a table whose first column has such names */
} zt_opt;

/* A mode is what a tool does in one run: a command ("merge"), what an option asks for
 * ("--tokenize"), or what follows from the model ("a network"). An option that is given in a mode
 * that it does not apply to is refused, and never ignored. */
typedef struct zt_mode {
    const char *name;   /* as messages have it */
    const char *option; /* name of the option that chooses it; NULL: a command or the model does */
} zt_mode;
#define ZT_IN(mode) (UINT64_C(1) << (mode))

/* A shared option's row for one tool; those without one apply to all its modes. */
typedef struct zt_shared_opt {
    const char *name;
    uint64_t modes;    /* as of zt_opt */
    const char *needs; /* likewise */
} zt_shared_opt;

/* Which of cli.md's shared options a tool takes (help, version, quiet, verbose always). */
enum {
    ZT_SHARE_OUTPUT = 1,  /* -o --output, -f --force */
    ZT_SHARE_ENGINE = 2,  /* -t --threads --engine --strict-engine --isa --compute */
    ZT_SHARE_MEM = 4,     /* --mem-limit */
    ZT_SHARE_SEED = 8,    /* --seed */
    ZT_SHARE_FORMAT = 16, /* --format, for tables */
    ZT_SHARE_COLOR = 32,
    ZT_SHARE_PROGRESS = 64,
    ZT_SHARE_PAIR = 128,     /* with ENGINE: its --threads, --engine and --isa may be two, "A,B" */
    ZT_SHARE_TILE = 512,     /* --tile */
    ZT_SHARE_THREADS = 1024, /* -t --threads alone, where no engine runs */
    ZT_SHARE_JUNIT = 256     /* with FORMAT: junit too, which the tool writes itself, not a table */
};

typedef struct zt_tool {
    const char *name;            /* "zt-run" */
    const char *summary;         /* "run a model" */
    const char *const *synopsis; /* lines after the name, NULL last */
    const zt_opt *options;       /* ends with {0} */
    unsigned shared;
    int max_operands;     /* -1: any number */
    const zt_mode *modes; /* [n_modes], 64 at most */
    int n_modes;
    bool commands;                       /* the modes are commands: operand 0 is the name of one */
    const zt_shared_opt *shared_options; /* ends with {0}; NULL: all apply everywhere */
} zt_tool;

typedef enum zt_format {
    ZT_FMT_AUTO,
    ZT_FMT_TSV,
    ZT_FMT_CSV,
    ZT_FMT_JSON,
    ZT_FMT_NDJSON,
    ZT_FMT_MD,
    ZT_FMT_JUNIT /* ZT_SHARE_JUNIT */
} zt_format;

typedef struct zt_cli {
    const zt_tool *tool;
    zt_ctx *ctx;
    int n_operands;
    char **operands;
    /* the shared options */
    const char *output;
    bool force, quiet, strict;
    bool pair; /* two engines, instruction sets or numbers of threads were given */
    int verbose;
    int64_t threads;    /* 0: not given */
    const char *engine; /* "auto" */
    zt_isa isa;         /* from --isa, else ZT_ISA, else the best */
    int64_t tile;       /* 0: by the caches */
    int compute;        /* zt_compute */
    size_t mem_limit;
    uint64_t seed;
    zt_format format;
    int color, progress; /* 1 yes, 2 no: zt_cli_open has decided what auto means */
} zt_cli;

/* Parses; --help (of the command or mode that is given, else of the tool) and --version print and exit 0; misuse
 * is one line and exit 64. Sets the memory limit, the log and SIGINT. */
zt_cli *zt_cli_open(const zt_tool *tool, int argc, char **argv);
/* Was the option of that name ("model"; "-n" where it has none) on the command line? */
bool zt_cli_given(const zt_cli *cli, const char *name);
/* The mode that the options given choose, or `usual` where none does. -1: two different ones were
 * asked for, ZT_EUSAGE. */
int zt_cli_mode(zt_cli *cli, int usual);
/* Every option given applies to the mode, has what it needs beside it, and nothing that it
 * excludes; else ZT_EUSAGE names the option, and what it does apply to. */
zt_status zt_cli_enter(zt_cli *cli, int mode);
/* None of these options ("model|input") was given, which would be ignored; else ZT_EUSAGE: the one
 * does not apply to `what`. */
zt_status zt_cli_refuse_given(zt_cli *cli, const char *names, const char *what);
/* Prints the context's error if there is one ("zt-run: m.gguf: ..."), flushes and checks stdout (a
 * full disk must not look like success), frees all, and returns the exit code of `status`. */
int zt_cli_close(zt_cli *cli, zt_status status);
/* For a tool that goes on to the next of several inputs: prints the context's error, or what `status` means,
 * as close does, and clears it. Close then prints nothing more of its own. */
void zt_cli_report(zt_cli *cli, zt_status status);
/* The answer is "no": exit code 1 from close, no message. */
void zt_cli_no(zt_cli *cli);
zt_engine *zt_cli_engine(zt_cli *cli);                       /* as --engine, --threads, --isa, --tile, --compute say */
zt_engine *zt_cli_engine_with(zt_cli *cli, int64_t threads); /* the same, of so many threads */
/* Likewise, for this program: `auto` is a GPU where there is one that runs all of it
 * (lib/run/auto.h). Without a program (NULL) it is the processor. */
zt_engine *zt_cli_engine_for(zt_cli *cli, int64_t threads, const zt_prog *program, const zt_binding *bindings, int count);
bool zt_cli_may_choose(const zt_cli *cli); /* --engine is auto, and a GPU seems to be there */
/* ZT_SHARE_PAIR: where two were given the fields above are the first of them, and this the second;
 * what was given once is that of both. */
typedef struct zt_cli_second {
    const char *engine;
    int64_t threads;
    zt_isa isa;
} zt_cli_second;
zt_cli_second zt_cli_pair(const zt_cli *cli);
bool zt_cli_interrupted(void); /* SIGINT arrived */
void zt_cli_resume(void);      /* that SIGINT is dealt with: wait for the next */
/* The output that `option` names is `path`; NULL: none. Where that is "-", stdout is this output's
 * alone: what zt_cli_write is given goes to stderr then. ZT_EUSAGE where an earlier one has that path.
 * Both texts are borrowed. */
zt_status zt_cli_claim(zt_cli *cli, const char *path, const char *option);
/* stdout: all data goes through here; SIGPIPE kills quietly. ZT_EIO on failure. */
zt_status zt_cli_write(zt_cli *cli, const void *bytes, size_t size);
zt_status zt_cli_flush(zt_cli *cli);
/* A line on stderr with the tool's name in front; not under --quiet. */
void zt_cli_note(zt_cli *cli, const char *fmt, ...) ZT_PRINTF(2, 3);
int zt_exit_code(zt_status status); /* the one table from status to cli.md's codes */
/* Binary does not go to a terminal: ZT_EUSAGE when stdout is one. */
zt_status zt_cli_refuse_terminal(zt_cli *cli, const char *what);
/* An output would replace an input (the same inode; "-" is stdin), even with --force: ZT_ECREATE.
 * NULL is no file. */
zt_status zt_cli_refuse_same(zt_cli *cli, const char *in, const char *out);

/* The words that --to, --dtype, --type, --engine and --isa take: functions for zt_opt.values. */
const char *zt_cli_container_names(const void *user, int i);
const char *zt_cli_dtype_names(const void *user, int i);
const char *zt_cli_mix_names(const void *user, int i);
const char *zt_cli_engine_names(const void *user, int i);
const char *zt_cli_isa_names(const void *user, int i);
/* --to, --dtype, --type: the word is not known; ZT_EUSAGE with what there is, and the nearest. */
zt_status zt_cli_no_container(zt_cli *cli, const char *word);
zt_status zt_cli_no_dtype(zt_cli *cli, const char *word);
zt_status zt_cli_no_mix(zt_cli *cli, const char *option, const char *word);

/* One more line in the key zt.history, an array of texts:
 * "zt-quant 0.1.0 2026-11-21T20:30:00Z: WHAT". */
struct zt_meta;
zt_status zt_cli_history(zt_cli *cli, struct zt_meta *meta, const char *what);

/* ---- tables ---------------------------------------------------------------------------------- */

/* Rows of text cells (NULL: nothing there): aligned columns on a terminal, TSV otherwise, or as
 * --format says; tsv, csv and md begin with the names of the columns. json:
 * {"schema":"zt.NAME/1","rows":[{column: value}, ...]}. A column marked by '#' before its name
 * ("#bytes") holds numbers: aligned right, and JSON numbers (nan, inf and "" are null). `columns`
 * and `schema` must live as long as the table. */
typedef struct zt_table zt_table;
zt_table *zt_table_new(zt_cli *cli, const char *schema, const char *const *columns, int column_count);
zt_status zt_table_row(zt_table *table, const char *const *cells);
zt_status zt_table_print(zt_table *table);
/* The same for elsewhere, appended to out; `aligned`: for eyes, unless --format says else. */
zt_status zt_table_put(const zt_table *table, bool aligned, zt_str *out);
void zt_table_free(zt_table *table);

/* Where a long work stands. */
typedef struct zt_work {
    const char *what; /* "quantize" */
    const char *item; /* what it is on now: a tensor's name, a file's; NULL: nothing to name */
    const char *unit; /* of done: "B" (shown as kB, MB ...), "tokens"; NULL: none */
    double done, total;
} zt_work;
/* A bar on stderr with rate and time left, only on a terminal (or --progress always), drawn now and
 * then. Everything that goes through this header takes it away first; so it goes at the end. */
void zt_progress(zt_cli *cli, const zt_work *work);
/* Takes it away, before something is written to the terminal in another way. */
void zt_progress_clear(zt_cli *cli);

#endif
