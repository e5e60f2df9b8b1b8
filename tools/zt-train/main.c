/* main.c - zt-train: networks trained and evaluated. */
#include "tools/zt-train/train_tool.h"

static const char *const synopsis[] = {
    "-m NET | --new NAME -i DATA -o OUT [--loss NAME] [--optim NAME] [OPTION...]",
    "--text FILE [-m MODEL | --size N] -o OUT.gguf [--epochs N] [OPTION...]",
    "--eval -m NET -i DATA [OPTION...]", NULL};

static const zt_tool tool = {
    .name = "zt-train",
    .summary = "train and evaluate networks",
    .synopsis = synopsis,
    .options = train_option_table,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_TILE | ZT_SHARE_MEM | ZT_SHARE_SEED |
              ZT_SHARE_FORMAT | ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = 0,
};

static zt_status check(zt_cli *cli, const train_options *o)
{
    if (o->text && (o->make || o->input || o->eval || o->valid || o->data || o->observe))
        return zt_fail(cli->ctx, ZT_EUSAGE,
                       "--text goes without --new, -i, --eval, --valid, --data and --observe");
    if (!o->text && !o->model == !o->make)
        return zt_fail(cli->ctx, ZT_EUSAGE, o->model ? "-m and --new are two networks"
                                                     : "-m or --new is missing: which network");
    if (o->set.n && !o->make) return zt_fail(cli->ctx, ZT_EUSAGE, "--set goes with --new");
    if (!o->text && !o->input) return zt_fail(cli->ctx, ZT_EUSAGE, "-i is missing: which data");
    if (o->eval) return ZT_OK;
    if (!cli->output) return zt_fail(cli->ctx, ZT_EUSAGE, "-o is missing: where the network goes");
    if ((o->resume || o->save_every) && !o->checkpoint)
        return zt_fail(cli->ctx, ZT_EUSAGE, "%s needs --checkpoint FILE",
                       o->resume ? "--resume" : "--checkpoint-every");
    return ZT_OK;
}

int main(int argc, char **argv)
{
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    zt_status s = check(cli, &train_opt);
    if (!s) s = train_opt.eval ? train_eval(cli, &train_opt) : train_fit(cli, &train_opt);
    return zt_cli_close(cli, s);
}
