/* input.c - models opened, layers chosen: what the commands of zt-dna share. */
#include "tools/zt-dna/dna_tool.h"

#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat info;
    return strcmp(path, "-") != 0 && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

zt_checkpoint *dna_open_checkpoint(zt_cli *cli, const char *path)
{
    if (!is_folder(path)) return zt_checkpoint_open(cli->ctx, path, ZT_CHECKPOINT_DECODE);
    zt_gguf *gguf = zt_model_open_whole(cli->ctx, path);
    return gguf ? zt_checkpoint_of_gguf(cli->ctx, gguf) : NULL;
}

/* Does the source begin as signatures in JSON do? */
static bool is_signatures(const zt_source *source)
{
    char head[64];
    size_t length = zt_source_size(source) < sizeof head ? (size_t)zt_source_size(source) : sizeof head;
    return zt_source_read(source, 0, head, length) == ZT_OK && zt_dna_sniff(head, length);
}

zt_dna *dna_open(zt_cli *cli, const dna_options *options, const char *path)
{
    zt_storage_rule rule = (zt_storage_rule)options->rule;
    if (is_folder(path)) return zt_dna_of(cli->ctx, dna_open_checkpoint(cli, path), rule);
    zt_source *source = zt_source_open(cli->ctx, path);
    if (!source) return NULL;
    bool told = is_signatures(source);
    zt_dna *model = told ? zt_dna_of_json(cli->ctx, source) : NULL;
    if (!told && strcmp(path, "-") == 0) return zt_dna_of(cli->ctx, zt_checkpoint_take(cli->ctx, source), rule);
    zt_source_close(source);
    return told || zt_ctx_status(cli->ctx) != ZT_OK
               ? model
               : zt_dna_of(cli->ctx, zt_checkpoint_open(cli->ctx, path, ZT_CHECKPOINT_DECODE), rule);
}

zt_status dna_report_progress(zt_cli *cli, const char *layer, int64_t done, int64_t all)
{
    zt_progress(cli, &(zt_work){"compare", layer, "layers", (double)done, (double)all});
    return zt_cli_interrupted() ? zt_fail(cli->ctx, ZT_EINTR, "interrupted") : ZT_OK;
}

int dna_threads(const zt_cli *cli) { return cli->threads ? (int)cli->threads : zt_cpu_count(); }

const zt_container *dna_container(zt_cli *cli, const dna_options *options, const char *path, const char *else_to)
{
    const zt_container *container = options->to ? zt_container_named(options->to) : zt_container_for(path);
    if (options->to && !container) zt_cli_no_container(cli, options->to);
    return container || options->to ? container : zt_container_named(else_to);
}

zt_status dna_write(zt_cli *cli, const dna_options *options, zt_dna *model, const char *what)
{
    zt_checkpoint_opts opts = {.to = dna_container(cli, options, cli->output, zt_dna_is_net(model) ? "json" : "gguf"),
                               .force = cli->force};
    if (!opts.to) return ZT_EUSAGE;
    zt_status status = strcmp(cli->output, "-") ? ZT_OK : zt_cli_refuse_terminal(cli, "a model");
    if (status == ZT_OK && !options->no_history) status = zt_cli_history(cli, zt_dna_meta(model), what);
    return status == ZT_OK ? zt_dna_write(model, cli->output, &opts) : status;
}

bool dna_selected(const dna_options *options, const char *name)
{
    for (int i = 0; i < options->select.n; i++)
        if (fnmatch(options->select.item[i], name, 0) == 0) return true;
    return options->select.n == 0;
}

const char *dna_shape(const zt_type *type, char buf[ZT_TYPE_TEXT])
{
    zt_type_text(type, buf);
    const char *shape = strchr(buf, '[');
    return shape ? shape : "";
}
