/* extract.c - zt-dna extract: a model's signatures, as JSON or as a checkpoint of them. */
#include "tools/zt-dna/dna_tool.h"

#include <string.h>

static zt_status write_text(zt_sink *out, zt_str *text)
{
    zt_status status = zt_sink_write(out, text->data, text->len);
    zt_str_clear(text);
    return status;
}

/* Layer by layer: one is held. */
static zt_status write_layers(zt_cli *cli, zt_dna *model, zt_sink *out, zt_str *text)
{
    zt_status status = ZT_OK;
    for (int64_t layer_index = 0; layer_index < zt_dna_count(model) && status == ZT_OK; layer_index++) {
        if (zt_cli_interrupted()) return zt_fail(cli->ctx, ZT_EINTR, "interrupted");
        zt_progress(cli, &(zt_work){"extract", zt_dna_get(model, layer_index)->name, "layers", (double)layer_index,
                                    (double)zt_dna_count(model)});
        if (layer_index) zt_str_putc(text, ',');
        status = dna_put_signature(model, layer_index, true, text);
        if (status == ZT_OK) status = write_text(out, text);
    }
    return status;
}

static zt_status write_json(zt_cli *cli, const dna_options *options, zt_dna *model, const char *path)
{
    zt_sink *out = zt_sink_open(cli->ctx, path, cli->force);
    zt_str text;
    if (!out) return zt_ctx_status(cli->ctx);
    zt_str_init(&text, cli->ctx);
    zt_status status = zt_str_printf(&text,
                                     "{\"schema\":\"zt.dna.extract/1\",\"rule\":\"%s\",\"net\":%s,"
                                     "\"layers\":[",
                                     options->rule == ZT_RULE_LOOM ? "loom" : "field", zt_dna_is_net(model) ? "true" : "false");
    if (status == ZT_OK) status = write_text(out, &text);
    if (status == ZT_OK) status = write_layers(cli, model, out, &text);
    if (status == ZT_OK) status = zt_str_puts(&text, "]}\n");
    if (status == ZT_OK) status = write_text(out, &text);
    if (status == ZT_OK) status = zt_sink_commit(out);
    zt_str_fini(&text);
    zt_sink_close(out);
    return status;
}

static zt_status write_file(zt_cli *cli, const dna_options *options, zt_dna *model, const char *path)
{
    const zt_container *container = dna_container(cli, options, path, zt_dna_is_net(model) ? "json" : "gguf");
    if (!container) return ZT_EUSAGE;
    if (container == zt_container_named("json")) return write_json(cli, options, model, path);
    zt_checkpoint_opts opts = {.to = container, .force = cli->force};
    if (zt_cli_refuse_given(cli, "progress", "signatures in a container; it applies to --to json")) return ZT_EUSAGE;
    zt_status status = strcmp(path, "-") ? ZT_OK : zt_cli_refuse_terminal(cli, "signatures");
    return status == ZT_OK ? zt_dna_write_signatures(model, path, &opts) : status;
}

zt_status dna_extract(zt_cli *cli, const dna_options *options, char **operands, int operand_count)
{
    const char *path = cli->output ? cli->output : "-";
    (void)operand_count;
    zt_status status = zt_cli_refuse_same(cli, operands[0], cli->output);
    if (status != ZT_OK) return status;
    zt_dna *model = dna_open(cli, options, operands[0]);
    if (model && zt_dna_is_signed(model))
        status = zt_fail(cli->ctx, ZT_EUSAGE, "%s: already contains signatures", zt_dna_name(model));
    else
        status = model ? write_file(cli, options, model, path) : zt_ctx_status(cli->ctx);
    zt_dna_close(model);
    return status;
}
