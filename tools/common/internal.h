/* internal.h - private to tools/common: the state behind zt_cli. */
#ifndef ZT_CLI_INTERNAL_H
#define ZT_CLI_INTERNAL_H

#include "tools/common/cli.h"

typedef char zt_default[96];

typedef struct zt_cli_claimed {
    const char *path, *option;
} zt_cli_claimed;

typedef struct zt_cli_state {
    zt_cli cli;      /* first: a zt_cli * is this */
    zt_opt *options; /* the tool's own, then the shared ones; ends with {0} */
    int own_count, option_count;
    const char **given;  /* [option_count]: first given value, "" without a value; NULL: not given */
    zt_default *initial; /* [option_count]: default in words; "" for flags */
    bool answer_no;      /* the answer is "no" */
    bool reported;       /* failures have been printed */
    /* shared options that are not kept in zt_cli */
    bool help, help_all, version, devices, isa_given, format_given, completion_given;
    int isa, format, completion, sandbox;
    char sandbox_note[192];              /* for -v, once the options have been checked; "": none */
    const char *isa_text, *threads_text; /* ZT_SHARE_PAIR: the given values; NULL: not given */
    char engine[2][64];
    zt_cli_second second;
    zt_cli_claimed claims[6]; /* registered outputs; stdout_taken: one of them is stdout */
    int claim_count;
    bool stdout_taken;
    /* progress */
    bool drawn; /* a bar is on stderr's last line */
    double drawn_at;
    char doing[48];                         /* the task shown */
    double began_at, began_done, last_done; /* its start time, initial and last value of done */
} zt_cli_state;

/* options.c: fills the state from the command line. ZT_EUSAGE with one line in the context. */
zt_status zt_options_parse(zt_cli_state *state, int argc, char **argv);
void zt_options_free(zt_cli_state *state);
/* "--name", or "-x" for an option that has only a letter; borrowed from buf or the table. */
const char *zt_option_display(const zt_opt *option, char buffer[64]);
bool zt_option_takes_value(const zt_opt *option);

/* modes.c: copies the tool's restriction of a shared option into its row. */
void zt_modes_share(const zt_tool *tool, zt_opt *option);

/* modes.c: the mode that the first operand or the given options select, for --help; -1: none. */
int zt_modes_of_help(const zt_cli_state *state);
/* Does the option apply to the mode (-1: any) without selecting another one? */
bool zt_modes_apply(const zt_tool *tool, const zt_opt *option, int mode);

/* defaults.c: the option's default in words, from its value before the command line is read. */
void zt_default_of(const zt_opt *option, zt_default text);

/* pair.c: resolves --threads, --engine and --isa of a tool that accepts two values. */
zt_status zt_pair_settle(zt_cli_state *state);

/* version.c: does --engine select the engine, or any? */
bool zt_engine_may_be_asked(const zt_cli *cli, const char *engine);

/* help.c, completion.c, version.c, devices.c: what is printed instead of running. */
zt_status zt_print_help(zt_cli_state *state);
zt_status zt_print_completion(zt_cli_state *state);
zt_status zt_print_version(zt_cli_state *state);
zt_status zt_print_devices(zt_cli_state *state);

/* sandbox.c: enters the sandbox of --sandbox. ZT_ENOTSUP: `on`, and the kernel lacks a part. */
zt_status zt_cli_sandbox(zt_cli_state *state);

/* ranks.c: before the message of a failure is printed; on another rank than 0, it waits until mpirun ends the process. */
void zt_ranks_failed(zt_cli *cli, zt_status status);

/* progress.c: erases the bar before other output to stderr. */
void zt_progress_erase(zt_cli_state *state);

#endif
