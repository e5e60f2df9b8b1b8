/* input.c - models opened, layers chosen: what the commands of zt-dna share. */
#include "tools/zt-dna/dna_tool.h"

#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

zt_checkpoint *dna_open_checkpoint(zt_cli *cli, const char *path)
{
    if (!is_folder(path)) return zt_checkpoint_open(cli->ctx, path, 0);
    zt_gguf *g = zt_model_open_whole(cli->ctx, path);
    return g ? zt_checkpoint_of_gguf(cli->ctx, g) : NULL;
}

/* Does the source begin as signatures in JSON do? */
static bool is_signatures(const zt_source *s)
{
    char head[64];
    size_t n = zt_source_size(s) < sizeof head ? (size_t)zt_source_size(s) : sizeof head;
    return zt_source_read(s, 0, head, n) == ZT_OK && zt_dna_sniff(head, n);
}

zt_dna *dna_open(zt_cli *cli, const dna_options *o, const char *path)
{
    zt_storage_rule rule = (zt_storage_rule)o->rule;
    if (is_folder(path)) return zt_dna_of(cli->ctx, dna_open_checkpoint(cli, path), rule);
    zt_source *s = zt_source_open(cli->ctx, path);
    if (!s) return NULL;
    bool told = is_signatures(s);
    zt_dna *d = told ? zt_dna_of_json(cli->ctx, s) : NULL;
    if (!told && strcmp(path, "-") == 0)
        return zt_dna_of(cli->ctx, zt_checkpoint_take(cli->ctx, s), rule);
    zt_source_close(s);
    return told || zt_ctx_status(cli->ctx) != ZT_OK
               ? d
               : zt_dna_of(cli->ctx, zt_checkpoint_open(cli->ctx, path, 0), rule);
}

zt_status dna_tick(zt_cli *cli, const char *layer, int64_t done, int64_t all)
{
    zt_progress(cli, &(zt_work){"compare", layer, "layers", (double)done, (double)all});
    return zt_cli_interrupted() ? zt_fail(cli->ctx, ZT_EINTR, "interrupted") : ZT_OK;
}

int dna_threads(const zt_cli *cli) { return cli->threads ? (int)cli->threads : zt_cpu_count(); }

const zt_container *dna_container(zt_cli *cli, const dna_options *o, const char *path,
                                  const char *else_to)
{
    const zt_container *to = o->to ? zt_container_named(o->to) : zt_container_for(path);
    if (o->to && !to) zt_cli_no_container(cli, o->to);
    return to || o->to ? to : zt_container_named(else_to);
}

zt_status dna_write(zt_cli *cli, const dna_options *o, zt_dna *d, const char *what)
{
    zt_checkpoint_opts opts = {
        .to = dna_container(cli, o, cli->output, zt_dna_is_net(d) ? "json" : "gguf"),
        .force = cli->force};
    if (!opts.to) return ZT_EUSAGE;
    zt_status s = strcmp(cli->output, "-") ? ZT_OK : zt_cli_refuse_terminal(cli, "a model");
    if (s == ZT_OK && !o->no_history) s = zt_cli_history(cli, zt_dna_meta(d), what);
    return s == ZT_OK ? zt_dna_write(d, cli->output, &opts) : s;
}

bool dna_selected(const dna_options *o, const char *name)
{
    for (int i = 0; i < o->select.n; i++)
        if (fnmatch(o->select.item[i], name, 0) == 0) return true;
    return o->select.n == 0;
}

const char *dna_shape(const zt_type *t, char buf[ZT_TYPE_TEXT])
{
    zt_type_text(t, buf);
    const char *shape = strchr(buf, '[');
    return shape ? shape : "";
}
