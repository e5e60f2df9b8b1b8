/* main.c - zt-trace: programs recorded, looked at, compiled, compared. One subcommand a task. */
#include "tools/zt-trace/trace.h"

#include <string.h>

/* In the order of the manual. */
static const trace_command commands[] = {
    {{"record",
      "record -m MODEL [-p TEXT] [--steps A..B] [--values FILE] [--times FILE] [OPTION...]",
      TAKES(MODEL) | TAKES(PROMPT) | TAKES(STEPS) | TAKES(AT) | TAKES(VALUES) | TAKES(TIMES) |
      TAKES(CTX) | TAKES(EXACT) | TAKES(KV) | TAKES(EMBED) | TAKES(CYCLES)},
     0, trace_record},
    {{"show", "show [--plain] [--bind NAME=N,...] [FILE]",
      TAKES(PLAIN) | TAKES(BIND)},
     1, trace_show},
    {{"stats", "stats [--by WORD] [--times FILE] [OPTION...] [FILE]",
      TAKES_SUBJECT | TAKES(TIMES) | TAKES(BY)},
     1, trace_stats},
    {{"dot", "dot [--bind NAME=N,...] [FILE]",
      TAKES(BIND)},
     1, trace_dot},
    {{"chrome", "chrome [--times FILE] [OPTION...] [FILE]",
      TAKES_SUBJECT | TAKES(TIMES)},
     1, trace_chrome},
    {{"memory", "memory [OPTION...] [FILE]",
      TAKES_SUBJECT},
     1, trace_memory},
    {{"diff", "diff [--engine A,B] [--isa A,B] [-t A,B] [--replay LINE] [OPTION...] [FILE [FILE]]",
      TAKES_SUBJECT | TAKES_PAIR | TAKES(REPLAY) | TAKES(THROUGH) | TAKES(EXACT)},
     2, trace_diff},
    {{"grad", "grad --wrt NAME[,NAME]... [--of NAME[,NAME]] [--seeds] [FILE]",
      TAKES(BIND) | TAKES(WRT) | TAKES(OF) | TAKES(SEEDS)},
     -1, trace_grad},
    {{"compile",
      "compile [--no-PASS...] [--report] [--bind NAME=N,...] [-m MODEL] [-i FILE] [FILE]",
      TAKES_SUBJECT | TAKES(REPORT) | TAKES_PASSES},
     1, trace_compile},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const char *synopsis[N_COMMANDS + 1];

static const zt_tool tool = {
    .name = "zt-trace",
    .summary = "record programs and look at them",
    .synopsis = synopsis,
    .options = trace_option_table,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_TILE | ZT_SHARE_MEM | ZT_SHARE_SEED |
              ZT_SHARE_FORMAT | ZT_SHARE_COLOR | ZT_SHARE_PROGRESS | ZT_SHARE_PAIR,
    .max_operands = -1,
};

static zt_status dispatch(zt_cli *cli)
{
    char shown[64];
    int i = zt_command_find(cli, commands, sizeof *commands, N_COMMANDS), n = cli->n_operands - 1;
    if (i < 0) return zt_ctx_status(cli->ctx);
    const trace_command *c = &commands[i];
    if (c->operands >= 0 && n > c->operands)
        return zt_fail(cli->ctx, ZT_EUSAGE, "'%s': %s takes %d operand%s at most",
                       zt_escape(shown, sizeof shown, cli->operands[1 + c->operands],
                                 strlen(cli->operands[1 + c->operands])),
                       c->is.name, c->operands, c->operands == 1 ? "" : "s");
    zt_status s = zt_command_check(cli, &c->is);
    if (!s && cli->pair && !(c->is.takes & TAKES_PAIR))
        s = zt_fail(cli->ctx, ZT_EUSAGE,
                    "%s takes one engine, instruction set and number of threads, not two",
                    c->is.name);
    return s ? s : c->run(cli, &trace_opt, cli->operands + 1, n);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < N_COMMANDS; i++) synopsis[i] = commands[i].is.synopsis;
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    return zt_cli_close(cli, dispatch(cli));
}
