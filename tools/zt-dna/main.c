/* main.c - zt-dna: models told, compared, crossed. One subcommand a task. */
#include "tools/zt-dna/dna_tool.h"

#include <string.h>

#define DNA_OF_MERGE                                                                               \
    (TAKES(METHOD) | TAKES(CONFIG) | TAKES(MODELS) | TAKES(BASE) | TAKES(WEIGHT) | TAKES(T) |      \
     TAKES(DENSITY) | TAKES(GAMMA) | TAKES(EPSILON) | TAKES(LAMBDA) | TAKES(SCALE) |               \
     TAKES(PARAM) | TAKES(TYPE) | TAKES(TO))

/* In the order of the manual. */
static const dna_command commands[] = {
    {"layers", "layers [--select GLOB] NET", TAKES(SELECT), 1, 1, dna_layers},
    {"extract", "extract [--to CONTAINER] [OPTION...] NET", TAKES(RULE) | TAKES(TO), 1, 1,
     dna_extract},
    {"compare", "compare [--threshold X] [--by block] [--shifts | --map] [OPTION...] A B",
     TAKES(SELECT) | TAKES(RULE) | TAKES(THRESHOLD) | TAKES(BY) | TAKES(SHIFTS) | TAKES(MAP) |
         TAKES(PLOT),
     2, 2,
     dna_compare},
    {"lineage", "lineage [--threshold X] [--map] [OPTION...] A B...",
     TAKES(SELECT) | TAKES(RULE) | TAKES(THRESHOLD) | TAKES(MAP) | TAKES(PLOT), 2, -1, dna_lineage},
    {"splice", "splice [--mode MODE] [--alpha A | --ratio R] [OPTION...] A B -o CHILD",
     TAKES(RULE) | TAKES(MODE) | TAKES(ALPHA) | TAKES(RATIO) | TAKES(FITNESS_A) | TAKES(FITNESS_B) |
         TAKES(REPORT) | TAKES(TO) | TAKES(NO_HISTORY),
     2, 2, dna_splice},
    {"merge", "merge --method NAME | --config FILE [OPTION...] MODEL... -o OUT", DNA_OF_MERGE, 0,
     -1, dna_merge},
    {"graft", "graft [--combine MODE] [--residual] NET... -o OUT",
     TAKES(COMBINE) | TAKES(RESIDUAL) | TAKES(TO) | TAKES(NO_HISTORY), 1, -1, dna_graft},
    {"lora", "lora [--rank R] BASE TUNED -o OUT", TAKES(RANK), 2, 2, dna_lora},
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

/* "show, stats or dot" */
static zt_status no_command(zt_cli *cli, const char *problem)
{
    zt_str names;
    zt_str_init(&names, cli->ctx);
    for (int i = 0; i < N_COMMANDS; i++)
        zt_str_printf(&names, "%s%s",
                      i == 0                ? ""
                      : i == N_COMMANDS - 1 ? " or "
                                            : ", ",
                      commands[i].name);
    zt_status s = zt_fail(cli->ctx, ZT_EUSAGE, "%s: %s", problem, names.data ? names.data : "");
    zt_str_fini(&names);
    return s;
}

static zt_status check_options(zt_cli *cli, const dna_command *c)
{
    for (int i = 0; i < DNA_N_OPTIONS; i++) {
        const zt_opt *o = &dna_option_table[i];
        if (!dna_given[i] || (c->takes >> i & 1)) continue;
        if (o->name)
            return zt_fail(cli->ctx, ZT_EUSAGE, "option '--%s' does not go with %s", o->name,
                           c->name);
        return zt_fail(cli->ctx, ZT_EUSAGE, "option '-%c' does not go with %s", o->letter, c->name);
    }
    return ZT_OK;
}

static zt_status dispatch(zt_cli *cli)
{
    char shown[64], problem[128];
    if (cli->n_operands == 0) return no_command(cli, "a command is missing");
    const char *name = cli->operands[0];
    for (const dna_command *c = commands; c < commands + N_COMMANDS; c++) {
        if (strcmp(name, c->name) != 0) continue;
        int n = cli->n_operands - 1;
        if (n < c->least || (c->most >= 0 && n > c->most))
            return zt_fail(cli->ctx, ZT_EUSAGE, "%d operand%s: zt-dna %s", n, n == 1 ? "" : "s",
                           c->synopsis);
        zt_status s = check_options(cli, c);
        return s != ZT_OK ? s : c->run(cli, &dna_opt, cli->operands + 1, n);
    }
    snprintf(problem, sizeof problem, "'%s' is no command",
             zt_escape(shown, sizeof shown, name, strlen(name)));
    return no_command(cli, problem);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < N_COMMANDS; i++) synopsis[i] = commands[i].synopsis;
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    return zt_cli_close(cli, dispatch(cli));
}
