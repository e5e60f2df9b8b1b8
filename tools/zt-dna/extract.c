/* extract.c - zt-dna extract: a model's signatures, as JSON or as a checkpoint of them. */
#include "tools/zt-dna/dna_tool.h"

#include <string.h>

static zt_status put(zt_sink *out, zt_str *s)
{
    zt_status st = zt_sink_write(out, s->data, s->len);
    zt_str_clear(s);
    return st;
}

/* Layer by layer: one is held. */
static zt_status write_layers(zt_cli *cli, zt_dna *d, zt_sink *out, zt_str *s)
{
    zt_status st = ZT_OK;
    for (int64_t i = 0; i < zt_dna_count(d) && st == ZT_OK; i++) {
        if (zt_cli_interrupted()) return zt_fail(cli->ctx, ZT_EINTR, "interrupted");
        zt_progress(cli, &(zt_work){"extract", zt_dna_get(d, i)->name, "layers", (double)i,
                                    (double)zt_dna_count(d)});
        if (i) zt_str_putc(s, ',');
        st = dna_put_signature(d, i, true, s);
        if (st == ZT_OK) st = put(out, s);
    }
    return st;
}

static zt_status write_json(zt_cli *cli, const dna_options *o, zt_dna *d, const char *path)
{
    zt_sink *out = zt_sink_open(cli->ctx, path, cli->force);
    zt_str s;
    if (!out) return zt_ctx_status(cli->ctx);
    zt_str_init(&s, cli->ctx);
    zt_status st = zt_str_printf(&s,
                                 "{\"schema\":\"zt.dna.extract/1\",\"rule\":\"%s\",\"net\":%s,"
                                 "\"layers\":[",
                                 o->rule == ZT_RULE_LOOM ? "loom" : "field",
                                 zt_dna_is_net(d) ? "true" : "false");
    if (st == ZT_OK) st = put(out, &s);
    if (st == ZT_OK) st = write_layers(cli, d, out, &s);
    if (st == ZT_OK) st = zt_str_puts(&s, "]}\n");
    if (st == ZT_OK) st = put(out, &s);
    if (st == ZT_OK) st = zt_sink_commit(out);
    zt_str_fini(&s);
    zt_sink_close(out);
    return st;
}

static zt_status write(zt_cli *cli, const dna_options *o, zt_dna *d, const char *path)
{
    const zt_container *to = dna_container(cli, o, path, zt_dna_is_net(d) ? "json" : "gguf");
    if (!to) return ZT_EUSAGE;
    if (to == zt_container_named("json")) return write_json(cli, o, d, path);
    zt_checkpoint_opts opts = {.to = to, .force = cli->force};
    if (zt_cli_refuse_given(cli, "progress", "signatures in a container; it applies to --to json"))
        return ZT_EUSAGE;
    zt_status s = strcmp(path, "-") ? ZT_OK : zt_cli_refuse_terminal(cli, "signatures");
    return s == ZT_OK ? zt_dna_write_signatures(d, path, &opts) : s;
}

zt_status dna_extract(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    const char *path = cli->output ? cli->output : "-";
    (void)n;
    zt_status s = zt_cli_refuse_same(cli, operands[0], cli->output);
    if (s != ZT_OK) return s;
    zt_dna *d = dna_open(cli, o, operands[0]);
    if (d && zt_dna_is_signed(d))
        s = zt_fail(cli->ctx, ZT_EUSAGE, "%s: holds signatures already", zt_dna_name(d));
    else
        s = d ? write(cli, o, d, path) : zt_ctx_status(cli->ctx);
    zt_dna_close(d);
    return s;
}
