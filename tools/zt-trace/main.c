/* main.c - zt-trace: programs recorded, looked at, compiled, compared. One subcommand a task. */
#include "tools/zt-trace/trace.h"

#include <string.h>

/* In the order of the manual. */
static const trace_command commands[TRACE_N_COMMANDS] = {
    [TRACE_RECORD] = {{"record", "record -m MODEL [-p TEXT] [--steps A..B] [--values FILE] [--times FILE] [OPTION...]"},
                      0,
                      trace_record},
    [TRACE_SHOW] = {{"show", "show [--plain] [--bind NAME=N,...] [FILE]"}, 1, trace_show},
    [TRACE_STATS] = {{"stats", "stats [--by WORD] [--times FILE] [OPTION...] [FILE]"}, 1, trace_stats},
    [TRACE_DOT] = {{"dot", "dot [--bind NAME=N,...] [FILE]"}, 1, trace_dot},
    [TRACE_CHROME] = {{"chrome", "chrome [--times FILE] [OPTION...] [FILE]"}, 1, trace_chrome},
    [TRACE_MEMORY] = {{"memory", "memory [OPTION...] [FILE]"}, 1, trace_memory},
    [TRACE_DIFF] = {{"diff", "diff [--engine A,B] [--isa A,B] [-t A,B] [--replay LINE] [OPTION...] [FILE [FILE]]"},
                    2,
                    trace_diff},
    [TRACE_GRAD] = {{"grad", "grad --wrt NAME[,NAME]... [--of NAME[,NAME]] [--seeds] [FILE]"}, -1, trace_grad},
    [TRACE_COMPILE] = {{"compile", "compile [--no-PASS...] [--report] [--bind NAME=N,...] [-m MODEL] [-i FILE] [FILE]"},
                       1,
                       trace_compile},
};
static const char *synopsis[TRACE_N_COMMANDS + 1];
static zt_mode modes[TRACE_N_COMMANDS];

static const zt_tool tool = {
    .name = "zt-trace",
    .summary = "record, profile, compile and compare programs",
    .synopsis = synopsis,
    .options = trace_option_table,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_TILE | ZT_SHARE_MEM | ZT_SHARE_SEED | ZT_SHARE_FORMAT |
              ZT_SHARE_COLOR | ZT_SHARE_PAIR,
    .max_operands = -1,
    .modes = modes,
    .commands = true,
    .n_modes = TRACE_N_COMMANDS,
    .shared_options = trace_shared_options,
    .stdin_programs = true,
};

static zt_status run_command(zt_cli *cli)
{
    char shown[64];
    int i = zt_command_enter(cli, commands, sizeof *commands, TRACE_N_COMMANDS);
    int operand_count = cli->n_operands - 1;
    if (i < 0) return zt_ctx_status(cli->ctx);
    const trace_command *command = &commands[i];
    if (command->operands >= 0 && operand_count > command->operands)
        return zt_fail(
            cli->ctx, ZT_EUSAGE, "unexpected argument '%s': %s takes at most %d argument%s",
            zt_escape(shown, sizeof shown, cli->operands[1 + command->operands], strlen(cli->operands[1 + command->operands])),
            command->is.name, command->operands, command->operands == 1 ? "" : "s");
    if (cli->pair && i != TRACE_DIFF)
        return zt_fail(cli->ctx, ZT_EUSAGE,
                       "two engines, instruction sets or numbers of threads do not apply to %s, only to diff", command->is.name);
    return command->run(cli, &trace_opt, cli->operands + 1, operand_count);
}

int main(int argc, char **argv)
{
    zt_command_modes(commands, sizeof *commands, TRACE_N_COMMANDS, modes, synopsis);
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    return zt_cli_close(cli, run_command(cli));
}
