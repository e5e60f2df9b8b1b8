/* zt-convert - any model file in, any out. */
#include "tools/zt-convert/convert.h"

#include <string.h>

/* What each mode does. */
static zt_status (*const mode_functions[CONVERT_N_MODES])(convert_job *j) = {
    [CONVERT_WRITE] = job_convert,      [CONVERT_EDIT] = job_convert,  [CONVERT_HF] = job_to_hf,
    [CONVERT_MOUNT] = job_mount,        [CONVERT_LIST] = job_list,     [CONVERT_META] = job_meta,
    [CONVERT_CHECK] = job_check,        [CONVERT_HASH] = job_hash,     [CONVERT_CAT] = job_cat,
    [CONVERT_SIGN] = job_sign,          [CONVERT_VERIFY] = job_verify, [CONVERT_PROBE] = job_probe,
    [CONVERT_BLUEPRINT] = job_blueprint};

enum { MANY = 1 << CONVERT_LIST | 1 << CONVERT_META | 1 << CONVERT_CHECK | 1 << CONVERT_HASH };

static zt_status check_operands(const convert_job *job, int mode)
{
    int count = job->cli->n_operands, streams = 0;
    for (int i = 0; i < count; i++) streams += strcmp(job->cli->operands[i], "-") == 0;
    if (count == 0) return zt_fail(job->ctx, ZT_EUSAGE, "no input file");
    if (count > 1 && !(MANY >> mode & 1)) return zt_fail(job->ctx, ZT_EUSAGE, "%d inputs are given, expected one", count);
    if (streams > 1) return zt_fail(job->ctx, ZT_EUSAGE, "stdin is given %d times, but can be one input only", streams);
    return ZT_OK;
}

/* Each input by itself; a failure of one of several is printed, and the worst is the tool's: the one
 * whose exit status is the highest. */
static zt_status inspect_inputs(convert_job *job, int mode)
{
    zt_status worst = check_operands(job, mode);
    if (worst != ZT_OK) return worst;
    job->input_count = 1;
    job->many = job->cli->n_operands > 1;
    for (int i = 0; i < job->cli->n_operands && worst != ZT_EINTR; i++) {
        job->paths = &job->cli->operands[i];
        zt_status status = mode_functions[mode](job);
        if (zt_exit_code(status) > zt_exit_code(worst)) worst = status;
        if (status != ZT_OK && job->many) zt_cli_report(job->cli, status);
    }
    if (job->table && (job->many || worst == ZT_OK)) {
        zt_status status = zt_table_print(job->table);
        worst = worst == ZT_OK ? status : worst;
    }
    return worst;
}

/* One operand and nothing but names and metadata to be changed: the file itself. */
static bool is_edit(const convert_job *job)
{
    const convert_options *options = job->options;
    return job->cli->n_operands == 1 && !job->cli->output && (options->set.n || options->unset.n || options->rename.n) &&
           !options->to && !options->dtype && !options->shard && !options->select.n && !options->drop.n;
}

/* Inputs and output, and the mode that they make of it; -1: something is missing. */
static int take_operands(convert_job *job)
{
    zt_cli *cli = job->cli;
    job->paths = cli->operands;
    job->input_count = cli->n_operands;
    job->output_path = cli->output;
    if (job->input_count == 0) zt_fail(job->ctx, ZT_EUSAGE, "no input file");
    if (job->input_count == 0) return -1;
    if (is_edit(job)) return CONVERT_EDIT;
    if (!job->output_path && job->input_count < 2) zt_fail(job->ctx, ZT_EUSAGE, "no output, expected: zt-convert IN OUT");
    if (!job->output_path && job->input_count < 2) return -1;
    if (!job->output_path) job->output_path = job->paths[--job->input_count];
    return job_is_hf(job) ? CONVERT_HF : job_mounts(job) ? CONVERT_MOUNT : CONVERT_WRITE;
}

int main(int argc, char **argv)
{
    convert_options *options = convert_options_init();
    zt_cli *cli = zt_cli_open(&convert_tool, argc, argv);
    convert_job job = {.cli = cli, .ctx = cli->ctx, .options = options, .texts = zt_arena_new(cli->ctx, 0)};
    int mode = job.texts ? zt_cli_mode(cli, CONVERT_WRITE) : -1;
    bool looks = mode > CONVERT_WRITE;
    if (mode == CONVERT_WRITE) mode = take_operands(&job);
    zt_status status = mode < 0 ? zt_ctx_status(cli->ctx) : zt_cli_enter(cli, mode);
    if (status == ZT_OK) status = looks ? inspect_inputs(&job, mode) : mode_functions[mode](&job);
    for (int i = 0; job.inputs && i < job.input_count; i++) zt_checkpoint_close(job.inputs[i]);
    zt_free(job.ctx, job.inputs);
    zt_table_free(job.table);
    zt_free(job.ctx, job.picked);
    zt_meta_free(job.meta);
    zt_arena_free(job.texts);
    return zt_cli_close(cli, status);
}
