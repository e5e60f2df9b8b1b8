/* main.c - zt-dna: inspect, compare, merge and evolve models; one command a task. */
#include "tools/zt-dna/dna_tool.h"

/* In the order of the manual. */
static const dna_command commands[DNA_N_COMMANDS] = {
    [DNA_LAYERS] = {{"layers", "layers [--select GLOB] NET"}, 1, 1, dna_layers},
    [DNA_EXTRACT] = {{"extract", "extract [--to CONTAINER] [OPTION...] NET"}, 1, 1, dna_extract},
    [DNA_COMPARE] = {{"compare", "compare [--threshold X] [--by block] [--shifts | --map] [OPTION...] A B"}, 2, 2, dna_compare},
    [DNA_LINEAGE] = {{"lineage", "lineage [--threshold X] [--map] [OPTION...] A B..."}, 2, -1, dna_lineage},
    [DNA_SPLICE] = {{"splice", "splice [--mode MODE] [--alpha A | --ratio R] [OPTION...] A B -o CHILD"}, 2, 2, dna_splice},
    [DNA_MERGE] = {{"merge", "merge --method NAME | --config FILE [OPTION...] MODEL... -o OUT"}, 0, -1, dna_merge},
    [DNA_MOE] = {{"moe", "moe [--models DIR] RECIPE -o OUT"}, 1, 1, dna_moe},
    [DNA_TRANSPLANT] = {{"transplant", "transplant [--method NAME] [--k N] MODEL DONOR -o OUT"}, 2, 2, dna_transplant},
    [DNA_GRAFT] = {{"graft", "graft [--combine MODE [--gate NET]] [--select GLOB] [--residual] NET... -o OUT"}, 1, -1, dna_graft},
    [DNA_LORA] = {{"lora", "lora [--rank R] BASE TUNED -o OUT"}, 2, 2, dna_lora},
    [DNA_MUTATE] = {{"mutate", "mutate [--perturb-rate P] [--kind-rate P] [OPTION...] NET -o OUT"}, 1, 1, dna_mutate},
    [DNA_EVOLVE] = {{"evolve", "evolve [--fitness 'COMMAND {}'] [OPTION...] NET|RECIPE... -o DIR"}, 0, -1, dna_evolve},
};

static const char *synopsis[DNA_N_COMMANDS + 1];
static zt_mode modes[DNA_N_COMMANDS];

static const zt_tool tool = {
    .name = "zt-dna",
    .summary = "inspect, compare, merge and evolve models",
    .synopsis = synopsis,
    .options = dna_option_table,
    .shared =
        ZT_SHARE_OUTPUT | ZT_SHARE_THREADS | ZT_SHARE_MEM | ZT_SHARE_SEED | ZT_SHARE_FORMAT | ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = -1,
    .modes = modes,
    .commands = true,
    .n_modes = DNA_N_COMMANDS,
    .shared_options = dna_shared_options,
    .recipe_modes = ZT_IN(DNA_EVOLVE) | ZT_IN(DNA_MOE),
};

static zt_status run_command(zt_cli *cli)
{
    int i = zt_command_enter(cli, commands, sizeof *commands, DNA_N_COMMANDS);
    int count = cli->n_operands - 1;
    if (i < 0) return zt_ctx_status(cli->ctx);
    const dna_command *command = &commands[i];
    if (count < command->min_operands || (command->max_operands >= 0 && count > command->max_operands))
        return zt_fail(cli->ctx, ZT_EUSAGE, "%d argument%s, expected: zt-dna %s", count, count == 1 ? "" : "s",
                       command->command.synopsis);
    zt_status status = i == DNA_EVOLVE ? ZT_OK : zt_cli_refuse_ranks(cli, command->command.name);
    if (!status) status = zt_cli_claim(cli, cli->output, "--output");
    if (!status) status = zt_cli_claim(cli, dna_opt.plot, "--plot");
    if (!status) status = zt_cli_claim(cli, dna_opt.report, "--report");
    return status ? status : command->run_command(cli, &dna_opt, cli->operands + 1, count);
}

int main(int argc, char **argv)
{
    zt_command_modes(commands, sizeof *commands, DNA_N_COMMANDS, modes, synopsis);
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    return zt_cli_close(cli, run_command(cli));
}
