/* zt-convert - any model file in, any out. */
#include "tools/zt-convert/convert.h"

#include <string.h>

/* Of --list, --meta ... the one that was given; NULL: a conversion. More than one is misuse. */
static zt_status choose(job *j, zt_status (**look)(job *j))
{
    const convert_options *o = j->o;
    const struct {
        bool given;
        const char *name;
        zt_status (*run)(job *j);
    } looks[] = {{o->list, "list", job_list},
                 {o->meta, "meta", job_meta},
                 {o->check, "check", job_check},
                 {o->hash, "hash", job_hash},
                 {o->cat != NULL, "cat", job_cat},
                 {o->probe, "probe", job_probe},
                 {o->blueprint, "blueprint", job_blueprint}};
    const char *first = NULL;
    *look = NULL;
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        if (!looks[i].given) continue;
        if (first)
            return zt_fail(j->ctx, ZT_EUSAGE, "options '--%s' and '--%s' do not go together", first,
                           looks[i].name);
        first = looks[i].name;
        *look = looks[i].run;
    }
    return ZT_OK;
}

static zt_status look_at(job *j, zt_status (*look)(job *j))
{
    const convert_options *o = j->o;
    if (o->to || o->dtype || o->rename.n || o->set.n || o->unset.n || o->shard || o->no_history)
        return zt_fail(j->ctx, ZT_EUSAGE, "nothing is converted when a file is looked at");
    if (j->cli->output && !o->cat)
        return zt_fail(j->ctx, ZT_EUSAGE, "option '--output' does not go with that: it is a table");
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
    if (j->o->by >= 0) return zt_fail(j->ctx, ZT_EUSAGE, "option '--by' goes with '--list'");
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
    zt_status (*look)(job * j);
    zt_status s = j.texts ? choose(&j, &look) : ZT_ENOMEM;
    if (s == ZT_OK) s = look ? look_at(&j, look) : convert(&j);
    for (int i = 0; j.in && i < j.n_in; i++) zt_checkpoint_close(j.in[i]);
    zt_free(j.ctx, j.in);
    zt_free(j.ctx, j.picked);
    zt_meta_free(j.meta);
    zt_arena_free(j.texts);
    return zt_cli_close(cli, s);
}
