/* cli.h - the framework of all tools: one option table for getopt_long, --help, completion and
 * the check against the man page; exit codes; messages; tables; progress.
 *
 * The table of a tool is made from its options.def, one row per option (option_rows.h).
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

/* What the value of an option opens, for the sandbox (sandbox.c). */
typedef enum zt_opens {
    ZT_OPENS_NOTHING,
    ZT_OPENS_INPUT,    /* reads a file with its shards, or a directory; nothing, if neither exists */
    ZT_OPENS_OUTPUT,   /* writes a file or directory, in the directory that it is in */
    ZT_OPENS_UPDATE,   /* reads a file and replaces it */
    ZT_OPENS_FOLDER,   /* keeps files in a directory */
    ZT_OPENS_RECIPE,   /* reads a file that names others */
    ZT_OPENS_ADDRESS,  /* listens on a socket */
    ZT_OPENS_TARGET,   /* writes to "console", "fd:N" or a file, or connects to a URL */
    ZT_OPENS_ENERGY,   /* reads the energy counters of the processor */
    ZT_OPENS_TERMINAL, /* edits lines on the terminal */
    ZT_OPENS_COMMAND   /* starts a command */
} zt_opens;

typedef struct zt_opt_list {
    const char **item;
    int n;
} zt_opt_list;

typedef struct zt_opt {
    int letter;       /* 0: none */
    const char *name; /* NULL: none */
    zt_opt_kind kind;
    void *value;
    const char *arg;       /* name of the argument in --help; for WORD the words */
    const char *help;      /* one line */
    int64_t min, max;      /* I64: both 0 means any; SIZE: min is 0 or 1 */
    double fmin, fmax;     /* F64: both 0 means any */
    bool *given;           /* set to true if the option is on the command line; may be NULL */
    uint64_t modes;        /* ZT_IN of each mode that the option applies to; 0: all */
    const char *needs;     /* "json|jsonl": requires one of these options; an option without a name
                            * is written as "-n" */
    const char *excludes;  /* "raw|template": cannot be combined with these options */
    const char *otherwise; /* default in words, if the initial value does not show it */
    const char *heading;   /* begins a group of --help, up to the next heading */
    bool detail;           /* listed only by --help=all, if the whole list is too long for --help */
    zt_opens opens;        /* of a STR, OPTIONAL or LIST option that names a file */
    /* For completion of a STR or LIST option. If `arg` is "GLOB=TYPE", names_from completes the part before '=', and values
     * the part after it; if it is "NAME=VALUE", values complete the part before '='. */
    zt_name_fn *values;     /* the known values (user: NULL); NULL: none */
    const char *names_from; /* a command such as "zt-convert --list", whose table has the names of a file in its first column */
} zt_opt;

/* A mode is what a tool does in one run: a command ("merge"), an option that selects a task
 * ("--tokenize"), or a kind of model ("a network"). An option that does not apply to the mode is an error and never
 * ignored. */
typedef struct zt_mode {
    const char *name;   /* name in messages */
    const char *option; /* name of the option that selects it; NULL: selected by a command or the model */
    bool command;       /* operand 0 is its name; for a tool in which not all modes are commands */
} zt_mode;
#define ZT_IN(mode) (UINT64_C(1) << (mode))

/* Restriction of a shared option in one tool; without a row it applies to all modes. */
typedef struct zt_shared_opt {
    const char *name;
    uint64_t modes;    /* as in zt_opt */
    const char *needs; /* as in zt_opt */
} zt_shared_opt;

/* Groups of shared options that a tool has; --help, --version, --quiet and --verbose are in every tool. */
enum {
    ZT_SHARE_OUTPUT = 1,  /* -o --output, -f --force */
    ZT_SHARE_ENGINE = 2,  /* -t --threads --engine --strict-engine --isa --compute */
    ZT_SHARE_MEM = 4,     /* --mem-limit */
    ZT_SHARE_SEED = 8,    /* --seed */
    ZT_SHARE_FORMAT = 16, /* --format, for tables */
    ZT_SHARE_COLOR = 32,
    ZT_SHARE_PROGRESS = 64,
    ZT_SHARE_PAIR = 128,     /* with ENGINE: --threads, --engine and --isa accept two values, "A,B" */
    ZT_SHARE_TILE = 512,     /* --tile */
    ZT_SHARE_THREADS = 1024, /* -t --threads alone, where no engine runs */
    ZT_SHARE_BITS = 2048,    /* --strict-bits */
    ZT_SHARE_ENGINES = 4096, /* with ENGINE: --engine accepts a list, "A,B", which the tool divides */
    ZT_SHARE_JUNIT = 256     /* with FORMAT: also junit, which the tool writes itself */
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
    bool stdin_programs;                 /* without a file, a program is read from standard input */
    uint64_t output_modes;               /* modes in which the last of several operands is the output, unless --output is given */
    uint64_t update_modes;               /* modes in which a single operand is changed, or has a file beside it */
    uint64_t recipe_modes;               /* ZT_IN of the modes whose operands are files that name others */
    uint64_t device_modes;               /* modes that look for devices of every engine */
    uint64_t command_modes;              /* modes whose operands are commands: they run without a sandbox */
    uint64_t command_modes_if;           /* the same, if this option is given: */
    const char *commands_if;
    unsigned sandbox_keeps; /* zt_sandbox_keep, besides what options need */
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
    bool force, quiet, strict, strict_bits;
    bool pair; /* two engines, instruction sets or numbers of threads are given */
    int verbose;
    int64_t threads;    /* 0: not given */
    const char *engine; /* "auto" */
    zt_isa isa;         /* --isa, ZT_ISA, or the newest supported */
    int64_t tile;       /* 0: from the cache sizes */
    int compute;        /* zt_compute */
    size_t mem_limit;
    uint64_t seed;
    zt_format format;
    int color, progress; /* 1: yes, 2: no; zt_cli_open resolves auto */
    zt_ranks *ranks;     /* zt_cli_join; NULL: alone */
} zt_cli;

/* Parses the command line and sets memory limit, log and SIGINT handler. --help (of the given command or mode, or of
 * the tool) and --version print and exit 0; misuse prints one line and exits 64. */
zt_cli *zt_cli_open(const zt_tool *tool, int argc, char **argv);
/* Is the option on the command line? name: "model", or "-n" for an option without a name. */
bool zt_cli_given(const zt_cli *cli, const char *name);
/* The mode that operand 0 (of modes with `command`) or the given options select, or `usual` if none does. -1 with
 * ZT_EUSAGE: options select two different modes, or operand 0 is not a command. */
int zt_cli_mode(zt_cli *cli, int usual);
/* Checks the given options against the mode. ZT_EUSAGE: an option does not apply to the mode, lacks an option that it
 * needs, or excludes another; the message names it. */
zt_status zt_cli_enter(zt_cli *cli, int mode);
/* ZT_EUSAGE if one of these options ("model|input") is given: "option '--model' does not apply to WHAT". */
zt_status zt_cli_refuse_given(zt_cli *cli, const char *names, const char *what);
/* Prints the context's error if any ("zt-run: m.gguf: ..."), flushes stdout and checks it for errors such as a
 * full disk, frees everything, and returns the exit code of `status`. */
int zt_cli_close(zt_cli *cli, zt_status status);
/* For a tool that continues with the next input: prints the context's error, or the meaning of `status`, as
 * zt_cli_close does, and clears it. zt_cli_close then prints no error. */
void zt_cli_report(zt_cli *cli, zt_status status);
/* The answer is "no": zt_cli_close returns exit code 1, without a message. */
void zt_cli_no(zt_cli *cli);
zt_engine *zt_cli_engine(zt_cli *cli);                       /* opens the engine of --engine, --threads ... */
zt_engine *zt_cli_engine_with(zt_cli *cli, int64_t threads); /* the same with this number of threads */
/* The same for a program: `auto` selects a GPU that can run the whole program, if there is one
 * (lib/run/auto.h). Without a program (NULL), `auto` is the CPU. */
zt_engine *zt_cli_engine_for(zt_cli *cli, int64_t threads, const zt_prog *program, const zt_binding *bindings, int count);
/* Prints how often the engine's device was called, its memory and its pool, as notes; nothing for an engine without one. */
void zt_cli_note_device(zt_cli *cli, const zt_engine *engine);
bool zt_cli_may_choose(const zt_cli *cli); /* --engine is auto, and a GPU seems to be present */
/* ZT_SHARE_PAIR: the second of two given values; the fields of zt_cli are the first. A value given once
 * counts for both. */
typedef struct zt_cli_second {
    const char *engine;
    int64_t threads;
    zt_isa isa;
} zt_cli_second;
zt_cli_second zt_cli_pair(const zt_cli *cli);
/* Joins the ranks that mpirun has started, if it has (ranks.c). On other ranks than 0 stdout and stderr are then silent, except for
 * the message of a failure; zt_cli_close leaves them. */
zt_status zt_cli_join(zt_cli *cli);
/* Is stdout a terminal that somebody reads? Not below mpirun, which passes stdout on through one. */
bool zt_cli_on_terminal(void);
/* ZT_EUSAGE if mpirun has started several ranks: "WHAT does not run on several ranks". */
zt_status zt_cli_refuse_ranks(zt_cli *cli, const char *what);
/* Bytes of memory that the system has available, or --mem-limit if that is less; 0: not known. */
size_t zt_cli_available_bytes(const zt_cli *cli);
/* Kilobytes after `key` ("VmHWM:") in a file of /proc, as bytes; 0: not there. */
size_t zt_proc_bytes(const char *path, const char *key);
bool zt_cli_interrupted(void); /* has SIGINT arrived? */
void zt_cli_resume(void);      /* clears the flag after SIGINT has been handled */
/* Registers `path` as the output of `option`; NULL: none. If it is "-", stdout is reserved for this output,
 * and zt_cli_write writes to stderr. ZT_EUSAGE: another output has the same path. Both strings are borrowed. */
zt_status zt_cli_claim(zt_cli *cli, const char *path, const char *option);
/* Writes data to stdout. SIGPIPE ends the process silently. ZT_EIO on failure. */
zt_status zt_cli_write(zt_cli *cli, const void *bytes, size_t size);
zt_status zt_cli_flush(zt_cli *cli);
/* Prints a line on stderr, prefixed with the tool's name; nothing with --quiet. */
void zt_cli_note(zt_cli *cli, const char *fmt, ...) ZT_PRINTF(2, 3);
int zt_exit_code(zt_status status); /* the exit code of a status */
/* ZT_EUSAGE if stdout is a terminal, for binary output; `what` names the data in the message. */
zt_status zt_cli_refuse_terminal(zt_cli *cli, const char *what);
/* ZT_ECREATE if the output is the input (same inode; "-" is stdin), even with --force.
 * NULL: no file. */
zt_status zt_cli_refuse_same(zt_cli *cli, const char *in, const char *out);

/* The words that --to, --dtype, --type, --engine and --isa take: functions for zt_opt.values. */
const char *zt_cli_container_names(const void *user, int i);
const char *zt_cli_dtype_names(const void *user, int i);
const char *zt_cli_mix_names(const void *user, int i);
const char *zt_cli_engine_names(const void *user, int i);
const char *zt_cli_isa_names(const void *user, int i);
/* ZT_EUSAGE for an unknown word of --to, --dtype or --type; the message lists the known words and the nearest one. */
zt_status zt_cli_no_container(zt_cli *cli, const char *word);
zt_status zt_cli_no_dtype(zt_cli *cli, const char *word);
zt_status zt_cli_no_mix(zt_cli *cli, const char *option, const char *word);

/* Appends a line to the metadata key zt.history, an array of strings:
 * "zt-quant 0.1.0 2026-11-21T20:30:00Z: WHAT". */
struct zt_meta;
zt_status zt_cli_history(zt_cli *cli, struct zt_meta *meta, const char *what);

/* ---- tables ---------------------------------------------------------------------------------- */

/* A table of text cells (NULL: empty): aligned columns on a terminal, TSV otherwise, or the format of
 * --format. tsv, csv and md begin with the names of the columns. json:
 * {"schema":"zt.NAME/1","rows":[{column: value}, ...]}. A column marked by '#' before its name
 * ("#bytes") holds numbers: aligned right, and JSON numbers (nan, inf and "" are null). `columns`
 * and `schema` must live as long as the table. */
typedef struct zt_table zt_table;
zt_table *zt_table_new(zt_cli *cli, const char *schema, const char *const *columns, int column_count);
zt_status zt_table_row(zt_table *table, const char *const *cells);
zt_status zt_table_print(zt_table *table);
/* Appends the table to `out` instead of printing it. `aligned`: aligned columns, unless --format is given. */
zt_status zt_table_put(const zt_table *table, bool aligned, zt_str *out);
void zt_table_free(zt_table *table);

/* Progress of a long task. */
typedef struct zt_work {
    const char *what; /* "quantize" */
    const char *item; /* current item, such as the name of a tensor or file; NULL: none */
    const char *unit; /* unit of `done`: "B" (shown as kB, MB ...), "tokens"; NULL: none */
    double done, total;
} zt_work;
/* Draws a progress bar with rate and remaining time on stderr, only on a terminal (or with --progress always) and
 * at intervals. All output functions of this header erase it first, as does zt_cli_close. */
void zt_progress(zt_cli *cli, const zt_work *work);
/* Erases the bar before other code writes to the terminal. */
void zt_progress_clear(zt_cli *cli);

#endif
