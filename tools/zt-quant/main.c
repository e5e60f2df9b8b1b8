/* zt-quant - quantize a model, and know what it cost. */
#include "tools/zt-quant/quant.h"

/* Opens a file, chooses types, and writes; or stops before that. */
static zt_status quantize_file(quant_run *run)
{
    const quant_options *options = run->options;
    zt_status status = quant_open(run);
    if (status == ZT_OK && quant_is_net(run)) return quant_net(run);
    if (status == ZT_OK) status = quant_check_model(run);
    if (status == ZT_OK) status = quant_plan(run);
    if (status == ZT_OK) status = quant_meta(run);
    if (status == ZT_OK && quant_fits(options)) status = quant_fit(run);
    if (status == ZT_OK) quant_tell_fallbacks(run);
    if (status == ZT_OK && options->dry_run) return quant_print_plan(run);
    if (status == ZT_OK) status = quant_write(run);
    return status == ZT_OK && options->measure ? quant_print_losses(run) : status;
}

static zt_status run_command(quant_run *run)
{
    zt_status status = quant_options_check(run);
    if (status != ZT_OK) return status;
    if (run->options->list_types) return quant_list_types(run->cli);
    return run->options->make_imatrix ? quant_make_imatrix(run) : quantize_file(run);
}

int main(int argc, char **argv)
{
    quant_options *options = quant_options_init();
    zt_cli *cli = zt_cli_open(&quant_tool, argc, argv);
    quant_run run = {.cli = cli,
                     .ctx = cli->ctx,
                     .options = options,
                     .target = options->target,
                     .embedding_type = ZT_DTYPE_COUNT,
                     .output_type = ZT_DTYPE_COUNT};
    zt_status status = run_command(&run);
    quant_crew_free(run.crew);
    zt_imatrix_close(run.imatrix);
    zt_checkpoint_close(run.input);
    quant_free_wishes(&run);
    zt_free(run.ctx, run.jobs);
    return zt_cli_close(cli, status);
}
