/* zt-convert - any model file in, any out. */
#include "tools/zt-convert/convert.h"

#include <string.h>

/* What each mode does. */
static zt_status (*const does[CONVERT_N_MODES])(job *j) = {
    [CONVERT_WRITE] = job_convert, [CONVERT_EDIT] = job_convert, [CONVERT_HF] = job_to_hf,
    [CONVERT_MOUNT] = job_mount,   [CONVERT_LIST] = job_list,    [CONVERT_META] = job_meta,
    [CONVERT_CHECK] = job_check,   [CONVERT_HASH] = job_hash,    [CONVERT_CAT] = job_cat,
    [CONVERT_PROBE] = job_probe,   [CONVERT_BLUEPRINT] = job_blueprint};

enum { MANY = 1 << CONVERT_LIST | 1 << CONVERT_META | 1 << CONVERT_CHECK | 1 << CONVERT_HASH };

static zt_status check_operands(const job *j, int mode)
{
    int n = j->cli->n_operands, streams = 0;
    for (int i = 0; i < n; i++) streams += strcmp(j->cli->operands[i], "-") == 0;
    if (n == 0) return zt_fail(j->ctx, ZT_EUSAGE, "there is no input");
    if (n > 1 && !(MANY >> mode & 1))
        return zt_fail(j->ctx, ZT_EUSAGE, "one input is looked at, %d were given", n);
    if (streams > 1) return zt_fail(j->ctx, ZT_EUSAGE, "stdin is one input, not %d", streams);
    return ZT_OK;
}

/* Each input by itself; a failure of one of several is printed, and the worst is the tool's: the one
 * whose exit status is the highest. */
static zt_status look_at(job *j, int mode)
{
    zt_status worst = check_operands(j, mode);
    if (worst != ZT_OK) return worst;
    j->n_in = 1;
    j->many = j->cli->n_operands > 1;
    for (int i = 0; i < j->cli->n_operands && worst != ZT_EINTR; i++) {
        j->path = &j->cli->operands[i];
        zt_status s = does[mode](j);
        if (zt_exit_code(s) > zt_exit_code(worst)) worst = s;
        if (s != ZT_OK && j->many) zt_cli_report(j->cli, s);
    }
    if (j->table && (j->many || worst == ZT_OK)) {
        zt_status s = zt_table_print(j->table);
        worst = worst == ZT_OK ? s : worst;
    }
    return worst;
}

/* One operand and nothing but names and metadata to be changed: the file itself. */
static bool is_edit(const job *j)
{
    const convert_options *o = j->o;
    return j->cli->n_operands == 1 && !j->cli->output && (o->set.n || o->unset.n || o->rename.n) &&
           !o->to && !o->dtype && !o->shard && !o->select.n && !o->drop.n;
}

/* Inputs and output, and the mode that they make of it; -1: something is missing. */
static int take_operands(job *j)
{
    zt_cli *cli = j->cli;
    j->path = cli->operands;
    j->n_in = cli->n_operands;
    j->out = cli->output;
    if (j->n_in == 0) zt_fail(j->ctx, ZT_EUSAGE, "there is no input");
    if (j->n_in == 0) return -1;
    if (is_edit(j)) return CONVERT_EDIT;
    if (!j->out && j->n_in < 2)
        zt_fail(j->ctx, ZT_EUSAGE, "the output is missing: zt-convert IN OUT");
    if (!j->out && j->n_in < 2) return -1;
    if (!j->out) j->out = j->path[--j->n_in];
    return job_is_hf(j) ? CONVERT_HF : job_mounts(j) ? CONVERT_MOUNT : CONVERT_WRITE;
}

int main(int argc, char **argv)
{
    convert_options *o = convert_options_init();
    zt_cli *cli = zt_cli_open(&convert_tool, argc, argv);
    job j = {.cli = cli, .ctx = cli->ctx, .o = o, .texts = zt_arena_new(cli->ctx, 0)};
    int mode = j.texts ? zt_cli_mode(cli, CONVERT_WRITE) : -1;
    bool looks = mode > CONVERT_WRITE;
    if (mode == CONVERT_WRITE) mode = take_operands(&j);
    zt_status s = mode < 0 ? zt_ctx_status(cli->ctx) : zt_cli_enter(cli, mode);
    if (s == ZT_OK) s = looks ? look_at(&j, mode) : does[mode](&j);
    for (int i = 0; j.in && i < j.n_in; i++) zt_checkpoint_close(j.in[i]);
    zt_free(j.ctx, j.in);
    zt_table_free(j.table);
    zt_free(j.ctx, j.picked);
    zt_meta_free(j.meta);
    zt_arena_free(j.texts);
    return zt_cli_close(cli, s);
}
