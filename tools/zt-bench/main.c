/* zt-bench - measure: one subcommand, one kind of subject. */
#include "tools/zt-bench/bench.h"

#include "lib/base/sandbox.h"
#include "tools/common/command.h"

#include <string.h>
#include <unistd.h>

static bench_options opt = {
#define DEFAULT ZT_OPTION_DEFAULT
#include "tools/zt-bench/options.def"
};

/* The commands, which are the tool's modes. */
enum { MACHINE, MODEL, OP, RUN, KLD, COMPARE, PLOT, PAST, N_COMMANDS };
#define IN(command) ZT_IN(command)
#define MEASURES    (IN(MACHINE) | IN(MODEL) | IN(OP) | IN(RUN) | IN(KLD) | IN(COMPARE))
#define ENGINE      (IN(MODEL) | IN(OP) | IN(KLD) | IN(COMPARE))

static const zt_opt options[] = {
#define OPTION(kind, field, ...) ZT_OPTION_ROW(ZT_OPT_##kind, opt.field, __VA_ARGS__)
#include "tools/zt-bench/options.def"
    {0}};

static const zt_shared_opt shared[] = {{"output", 0, NULL},
                                       {"engine", IN(MACHINE) | ENGINE, NULL},
                                       {"strict-engine", ENGINE, NULL},
                                       {"isa", IN(MACHINE) | ENGINE, NULL},
                                       {"compute", ENGINE, NULL},
                                       {"tile", ENGINE, NULL},
                                       {"seed", IN(MODEL) | IN(OP) | IN(RUN) | IN(COMPARE), NULL},
                                       {"progress", MEASURES, NULL},
                                       {"format", MEASURES | IN(PAST), NULL},
                                       {"color", MEASURES | IN(PAST), NULL},
                                       {0}};

/* ---- commands -------------------------------------------------------------------------------- */

enum { PAIRS = 20 };

typedef struct bench_command {
    zt_command command;
    int64_t reps; /* unless -r says */
    zt_status (*run)(zt_cli *cli, const bench_options *o);
} bench_command;

/* In the order of the manual. */
static const bench_command commands[N_COMMANDS] = {
    [MACHINE] = {{"machine", "machine [-t N,...] [-r N] [OPTION...]"}, 5, bench_machine},
    [MODEL] = {{"model", "model -m MODEL [--vs MODEL] [-p N,...] [-n N,...] [-d N,...] [-t N,...] [OPTION...]"}, 5, bench_model},
    [OP] = {{"op", "op 'OP TYPE... NAME=VALUE...'|FILE.zt... [-i FILE] [-t N,...] [-r N] [OPTION...]"}, 5, bench_op},
    [RUN] = {{"run", "run [-r N] [--vs] [--ignore-failure] [OPTION...] -- COMMAND [ARGUMENT...]"}, 10, bench_run},
    [KLD] = {{"kld", "kld A B -i TEXT [-c N] [--from N] [-t N] [OPTION...]"}, 1, bench_kld},
    [COMPARE] = {{"compare", "compare [--vs [-r N]] OLD NEW [--threshold SHARE] [--force] [OPTION...]"}, 1, bench_compare},
    [PLOT] = {{"plot", "plot RESULTS.json... [-o FILE.svg] [OPTION...]"}, 1, bench_plot},
    [PAST] = {{"history", "history FILE [--plot FILE] [OPTION...]"}, 1, bench_past_show},
};

static const char *synopsis[N_COMMANDS + 1];
static zt_mode modes[N_COMMANDS];

static const zt_tool tool = {
    .name = "zt-bench",
    .summary = "benchmark the machine, models, operations and commands; compare results",
    .synopsis = synopsis,
    .options = options,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_TILE | ZT_SHARE_MEM | ZT_SHARE_SEED | ZT_SHARE_FORMAT |
              ZT_SHARE_JUNIT | ZT_SHARE_COLOR | ZT_SHARE_PROGRESS | ZT_SHARE_ENGINES,
    .max_operands = -1,
    .modes = modes,
    .commands = true,
    .n_modes = N_COMMANDS,
    .shared_options = shared,
    .device_modes = IN(MACHINE),
    .command_modes = IN(RUN),
    .command_modes_if = IN(COMPARE),
    .commands_if = "vs",
    .sandbox_keeps = ZT_SANDBOX_KEEP_COUNTERS,
};

/* Before anything is measured for nothing. */
static zt_status refuse_existing(zt_cli *cli)
{
    if (!cli->output || !strcmp(cli->output, "-") || cli->force || access(cli->output, F_OK)) return ZT_OK;
    return zt_fail(cli->ctx, ZT_ECREATE, "%s: already exists (--force overwrites)", cli->output);
}

/* A list of engines is measured by one command only. */
static zt_status refuse_engines(zt_cli *cli, int command)
{
    char shown[96];
    if (command == MODEL || !strchr(cli->engine, ',')) return ZT_OK;
    return zt_fail(cli->ctx, ZT_EUSAGE, "--engine %s: %s uses one engine; only model measures several",
                   zt_escape(shown, sizeof shown, cli->engine, strnlen(cli->engine, 90)), cli->operands[0]);
}

static zt_status run_command(zt_cli *cli)
{
    int i = zt_command_enter(cli, commands, sizeof *commands, N_COMMANDS);
    zt_status status = zt_ctx_status(cli->ctx);
    if (!status && !opt.vs && i != COMPARE) status = zt_cli_refuse_given(cli, "threshold|seed", "measurements without --vs");
    if (!status) status = refuse_engines(cli, i);
    if (!status) status = bench_threshold(cli->ctx, opt.threshold, &opt.beyond);
    if (!status) status = refuse_existing(cli);
    if (!status) status = zt_cli_claim(cli, cli->output, "--output");
    if (!status) status = zt_cli_claim(cli, opt.plot, "--plot");
    if (!status) status = zt_cli_claim(cli, opt.history, "--history");
    if (!status) status = bench_check_plot(cli, &opt);
    opt.looks = opt.vs && !opt.reps ? BENCH_MOST_LOOKS : 1;
    if (!status && !opt.reps) opt.reps = opt.vs ? PAIRS : commands[i].reps;
    return status ? status : commands[i].run(cli, &opt);
}

int main(int argc, char **argv)
{
    zt_command_modes(commands, sizeof *commands, N_COMMANDS, modes, synopsis);
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    return zt_cli_close(cli, run_command(cli));
}
