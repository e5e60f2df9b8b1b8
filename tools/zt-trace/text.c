/* text.c - programs in and text out, for every command. */
#include "tools/zt-trace/trace.h"

#include <string.h>
#include <unistd.h>

zt_prog *trace_program(zt_cli *cli, char **operands, int n)
{
    const char *path = n > 0 ? operands[0] : "-";
    if (n == 0 && isatty(STDIN_FILENO))
        zt_fail(cli->ctx, ZT_EUSAGE, "no program: name a file, or - for standard input");
    else if (!zt_cli_refuse_same(cli, path, cli->output))
        return zt_cli_program(cli, path);
    return NULL;
}

zt_subject *trace_subject(zt_cli *cli, const trace_options *o, const zt_prog *p, char **operands,
                          int n)
{
    zt_subject_opts so = {.path = n > 0 ? operands[0] : "-", .model = o->model, .data = o->data,
                          .input = o->input, .bind = o->bind, .draw = true};
    const char *const inputs[] = {o->model, o->data, o->input};
    for (int i = 0; i < 3; i++)
        if (zt_cli_refuse_same(cli, inputs[i], cli->output)) return NULL;
    return zt_subject_open(cli, p, &so);
}

static zt_status write_text(zt_cli *cli, const zt_str *text)
{
    if (!cli->output) return zt_cli_write(cli, text->data, text->len);
    zt_sink *sink = zt_sink_open(cli->ctx, cli->output, cli->force);
    zt_status s = sink ? zt_sink_write(sink, text->data, text->len) : zt_ctx_status(cli->ctx);
    if (!s) s = zt_sink_commit(sink);
    zt_sink_close(sink);
    return s;
}

zt_status trace_write(zt_cli *cli, zt_str *text)
{
    zt_status s = zt_ctx_status(cli->ctx);
    if (!s) s = write_text(cli, text);
    zt_str_fini(text);
    return s;
}

zt_status trace_print(zt_cli *cli, const zt_table *t)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_table_put(t, !cli->output && isatty(STDOUT_FILENO), &text);
    return trace_write(cli, &text);
}

zt_status trace_write_program(zt_cli *cli, const zt_prog *p)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_prog_print(p, &text);
    return trace_write(cli, &text);
}

bool trace_all_bound(const zt_prog *p, const zt_bindings *b)
{
    for (int i = 0; i < zt_prog_n_symbols(p); i++) {
        bool found = false;
        for (int k = 0; k < b->n && !found; k++)
            found = !strcmp(b->at[k].symbol, zt_prog_symbol_name(p, i));
        if (!found) return false;
    }
    return true;
}
