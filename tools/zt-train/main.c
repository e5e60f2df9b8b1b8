/* main.c - zt-train: networks trained and evaluated. One table has a row for each mode. */
#include "tools/zt-train/train_tool.h"

static const train_mode rows[TRAIN_N_MODES] = {
    [TRAIN_NETWORK] = {.mode = {"training a network", NULL, false},
                       .synopsis = "-m NET | --new NAME -i DATA -o OUT [--loss NAME] [--optim NAME] [OPTION...]",
                       .needs_output = true,
                       .ranks = true,
                       .run_mode = train_fit},
    [TRAIN_TEXT] = {.mode = {"--text", "text", false},
                    .synopsis = "--text FILE [-m MODEL [--lora RANK,ALPHA] | --size N] -o OUT [OPTION...]",
                    .text = true,
                    .needs_output = true,
                    .ranks = true,
                    .run_mode = train_fit},
    [TRAIN_EVAL] = {.mode = {"--eval", "eval", false},
                    .synopsis = "--eval -m NET... -i DATA [OPTION...]",
                    .many_models = true,
                    .run_mode = train_eval},
    [TRAIN_CLUSTER] = {.mode = {"cluster", NULL, true},
                       .synopsis = "cluster --clusters K | --linkage NAME [-m NET [--layer NAME]] -i DATA [OPTION...]",
                       .model_optional = true,
                       .run_mode = train_cluster},
    [TRAIN_COMPARE] = {.mode = {"compare", NULL, true},
                       .synopsis = "compare -m NET | --new NAME -i DATA [--methods LIST] [--seeds N] [OPTION...]",
                       .run_mode = train_compare},
};

static const char *synopsis[TRAIN_N_MODES + 1];
static zt_mode modes[TRAIN_N_MODES];

static const zt_tool tool = {
    .name = "zt-train",
    .summary = "train, fine-tune and evaluate networks and language models",
    .synopsis = synopsis,
    .options = train_option_table,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_TILE | ZT_SHARE_MEM | ZT_SHARE_SEED | ZT_SHARE_FORMAT |
              ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = 1,
    .modes = modes,
    .n_modes = TRAIN_N_MODES,
    .shared_options = train_shared_options,
};

static void list_modes(void)
{
    for (int i = 0; i < TRAIN_N_MODES; i++) {
        modes[i] = rows[i].mode;
        synopsis[i] = rows[i].synopsis;
    }
}

static zt_status check_options(zt_cli *cli, const train_mode *row, train_options *options)
{
    options->model = options->models.n ? options->models.item[0] : NULL;
    if (options->models.n > 1 && !row->many_models)
        return zt_fail(cli->ctx, ZT_EUSAGE, "-m is given %d times, but only --eval accepts several networks", options->models.n);
    if (!row->text && !row->model_optional && !options->model && !options->make)
        return zt_fail(cli->ctx, ZT_EUSAGE, "no network: specify one with -m or --new");
    if (!row->text && !options->input) return zt_fail(cli->ctx, ZT_EUSAGE, "no data: specify it with -i");
    if (train_find_method(cli, "method", options->method_name, &options->method)) return ZT_EUSAGE;
    if (row->needs_output && !cli->output && !options->lr_find && !options->verify)
        return zt_fail(cli->ctx, ZT_EUSAGE, "no output: specify one with -o");
    return ZT_OK;
}

int main(int argc, char **argv)
{
    list_modes();
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    int mode = zt_cli_mode(cli, TRAIN_NETWORK);
    zt_status status = mode < 0 ? ZT_EUSAGE : zt_cli_enter(cli, mode);
    if (!status) status = check_options(cli, &rows[mode], &train_opt);
    if (!status) status = rows[mode].ranks ? zt_cli_join(cli) : zt_cli_refuse_ranks(cli, rows[mode].mode.name);
    if (!status) status = rows[mode].run_mode(cli, &train_opt);
    train_data_done(cli->ctx);
    return zt_cli_close(cli, status);
}
