/* main.c - zt-dna: models told, compared, crossed. One subcommand a task. */
#include "tools/zt-dna/dna_tool.h"

#define DNA_OF_MERGE                                                                               \
    (TAKES(METHOD) | TAKES(CONFIG) | TAKES(MODELS) | TAKES(BASE) | TAKES(WEIGHT) | TAKES(T) |      \
     TAKES(DENSITY) | TAKES(GAMMA) | TAKES(EPSILON) | TAKES(LAMBDA) | TAKES(SCALE) |               \
     TAKES(PARAM) | TAKES(TYPE) | TAKES(TO))

/* In the order of the manual. */
static const dna_command commands[] = {
    {{"layers", "layers [--select GLOB] NET",
      TAKES(SELECT)},
     1, 1, dna_layers},
    {{"extract", "extract [--to CONTAINER] [OPTION...] NET",
      TAKES(RULE) | TAKES(TO)},
     1, 1, dna_extract},
    {{"compare", "compare [--threshold X] [--by block] [--shifts | --map] [OPTION...] A B",
      TAKES(SELECT) | TAKES(RULE) | TAKES(THRESHOLD) | TAKES(BY) | TAKES(SHIFTS) | TAKES(MAP) |
      TAKES(PLOT)},
     2, 2, dna_compare},
    {{"lineage", "lineage [--threshold X] [--map] [OPTION...] A B...",
      TAKES(SELECT) | TAKES(RULE) | TAKES(THRESHOLD) | TAKES(MAP) | TAKES(PLOT)},
     2, -1, dna_lineage},
    {{"splice", "splice [--mode MODE] [--alpha A | --ratio R] [OPTION...] A B -o CHILD",
      TAKES(RULE) | TAKES(MODE) | TAKES(ALPHA) | TAKES(RATIO) | TAKES(FITNESS_A) |
      TAKES(FITNESS_B) | TAKES(REPORT) | TAKES(TO) | TAKES(NO_HISTORY)},
     2, 2, dna_splice},
    {{"merge", "merge --method NAME | --config FILE [OPTION...] MODEL... -o OUT",
      DNA_OF_MERGE},
     0, -1, dna_merge},
    {{"graft", "graft [--combine MODE] [--residual] NET... -o OUT",
      TAKES(COMBINE) | TAKES(RESIDUAL) | TAKES(TO) | TAKES(NO_HISTORY)},
     1, -1, dna_graft},
    {{"lora", "lora [--rank R] BASE TUNED -o OUT",
      TAKES(RANK)},
     2, 2, dna_lora},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const char *synopsis[N_COMMANDS + 1];

static const zt_tool tool = {
    .name = "zt-dna",
    .summary = "tell, compare and cross models",
    .synopsis = synopsis,
    .options = dna_option_table,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_MEM | ZT_SHARE_SEED | ZT_SHARE_FORMAT |
              ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = -1,
};

static zt_status dispatch(zt_cli *cli)
{
    int i = zt_command_find(cli, commands, sizeof *commands, N_COMMANDS), n = cli->n_operands - 1;
    if (i < 0) return zt_ctx_status(cli->ctx);
    const dna_command *c = &commands[i];
    if (n < c->least || (c->most >= 0 && n > c->most))
        return zt_fail(cli->ctx, ZT_EUSAGE, "%d operand%s: zt-dna %s", n, n == 1 ? "" : "s",
                       c->is.synopsis);
    zt_status s = zt_command_check(cli, &c->is);
    return s ? s : c->run(cli, &dna_opt, cli->operands + 1, n);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < N_COMMANDS; i++) synopsis[i] = commands[i].is.synopsis;
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    return zt_cli_close(cli, dispatch(cli));
}
