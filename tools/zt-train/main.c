/* main.c - zt-train: networks trained and evaluated. */
#include "tools/zt-train/train_tool.h"

static const char *const synopsis[] = {"-m NET | --new NAME -i DATA -o OUT [--loss NAME] [--optim NAME] [OPTION...]",
                                       "--text FILE [-m MODEL | --size N] -o OUT.gguf [--epochs N] [OPTION...]",
                                       "--eval -m NET... -i DATA [OPTION...]", NULL};

static const zt_mode modes[TRAIN_N_MODES] = {
    [TRAIN_NETWORK] = {"training a network", NULL},
    [TRAIN_TEXT] = {"--text", "text"},
    [TRAIN_EVAL] = {"--eval", "eval"},
};

static const zt_tool tool = {
    .name = "zt-train",
    .summary = "train, fine-tune and evaluate networks and language models",
    .synopsis = synopsis,
    .options = train_option_table,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_TILE | ZT_SHARE_MEM | ZT_SHARE_SEED | ZT_SHARE_FORMAT |
              ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = 0,
    .modes = modes,
    .n_modes = TRAIN_N_MODES,
    .shared_options = train_shared_options,
};

static zt_status check_options(zt_cli *cli, train_options *options)
{
    int mode = zt_cli_mode(cli, TRAIN_NETWORK);
    if (mode < 0 || zt_cli_enter(cli, mode)) return ZT_EUSAGE;
    options->model = options->models.n ? options->models.item[0] : NULL;
    if (options->models.n > 1 && !options->eval)
        return zt_fail(cli->ctx, ZT_EUSAGE, "-m is given %d times, but only --eval accepts several networks", options->models.n);
    if (!options->text && !options->model && !options->make)
        return zt_fail(cli->ctx, ZT_EUSAGE, "no network: specify one with -m or --new");
    if (!options->text && !options->input) return zt_fail(cli->ctx, ZT_EUSAGE, "no data: specify it with -i");
    if (!options->eval && !cli->output) return zt_fail(cli->ctx, ZT_EUSAGE, "no output: specify one with -o");
    return ZT_OK;
}

int main(int argc, char **argv)
{
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    zt_status status = check_options(cli, &train_opt);
    if (!status) status = train_opt.eval ? train_eval(cli, &train_opt) : train_fit(cli, &train_opt);
    train_data_done(cli->ctx);
    return zt_cli_close(cli, status);
}
