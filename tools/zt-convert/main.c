/* zt-convert - any model file in, any out. */
#include "tools/zt-convert/convert.h"

#include <string.h>

/* What each mode does; NULL: a conversion. */
static zt_status (*const looks[CONVERT_N_MODES])(job *j) = {
    [CONVERT_LIST] = job_list, [CONVERT_META] = job_meta,   [CONVERT_CHECK] = job_check,
    [CONVERT_HASH] = job_hash, [CONVERT_CAT] = job_cat,     [CONVERT_PROBE] = job_probe,
    [CONVERT_BLUEPRINT] = job_blueprint};

static zt_status look_at(job *j, zt_status (*look)(job *j))
{
    if (j->cli->n_operands != 1)
        return zt_fail(j->ctx, ZT_EUSAGE, "one input is looked at, %d were given",
                       j->cli->n_operands);
    j->path = j->cli->operands;
    j->n_in = 1;
    return look(j);
}

/* One operand and nothing but names and metadata to be changed: the file itself. */
static bool is_edit(const job *j)
{
    const convert_options *o = j->o;
    return j->cli->n_operands == 1 && !j->cli->output && (o->set.n || o->unset.n || o->rename.n) &&
           !o->to && !o->dtype && !o->shard && !o->select.n && !o->drop.n;
}

static zt_status convert(job *j)
{
    zt_cli *cli = j->cli;
    j->path = cli->operands;
    j->n_in = cli->n_operands;
    j->out = cli->output;
    if (j->n_in == 0) return zt_fail(j->ctx, ZT_EUSAGE, "there is no input");
    if (!j->out && !is_edit(j)) {
        if (j->n_in < 2)
            return zt_fail(j->ctx, ZT_EUSAGE, "the output is missing: zt-convert IN OUT");
        j->out = j->path[--j->n_in];
    }
    return job_mounts(j) ? job_mount(j) : job_convert(j);
}

int main(int argc, char **argv)
{
    convert_options *o = convert_options_init();
    zt_cli *cli = zt_cli_open(&convert_tool, argc, argv);
    job j = {.cli = cli, .ctx = cli->ctx, .o = o, .texts = zt_arena_new(cli->ctx, 0)};
    int mode = zt_cli_mode(cli, CONVERT_WRITE);
    zt_status s = !j.texts ? ZT_ENOMEM : mode < 0 ? ZT_EUSAGE : zt_cli_enter(cli, mode);
    if (s == ZT_OK) s = looks[mode] ? look_at(&j, looks[mode]) : convert(&j);
    for (int i = 0; j.in && i < j.n_in; i++) zt_checkpoint_close(j.in[i]);
    zt_free(j.ctx, j.in);
    zt_free(j.ctx, j.picked);
    zt_meta_free(j.meta);
    zt_arena_free(j.texts);
    return zt_cli_close(cli, s);
}
