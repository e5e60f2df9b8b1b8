/* text.c - programs in and text out, for every command. */
#include "tools/zt-trace/trace.h"

#include <string.h>
#include <unistd.h>

zt_prog *trace_program(zt_cli *cli, char **operands, int operand_count)
{
    const char *path = operand_count > 0 ? operands[0] : "-";
    if (operand_count == 0 && isatty(STDIN_FILENO))
        zt_fail(cli->ctx, ZT_EUSAGE, "no program: specify a file, or - for standard input");
    else if (!zt_cli_refuse_same(cli, path, cli->output))
        return zt_cli_program(cli, path);
    return NULL;
}

zt_subject *trace_subject(zt_cli *cli, const trace_options *options, const zt_prog *program, char **operands, int operand_count)
{
    zt_subject_opts subject_options = {.path = operand_count > 0 ? operands[0] : "-",
                                       .model = options->model,
                                       .data = options->data,
                                       .input = options->input,
                                       .bindings = options->bind,
                                       .draw = true};
    const char *const inputs[] = {options->model, options->data, options->input};
    for (int i = 0; i < 3; i++)
        if (zt_cli_refuse_same(cli, inputs[i], cli->output)) return NULL;
    return zt_subject_open(cli, program, &subject_options);
}

static zt_status write_text(zt_cli *cli, const zt_str *text)
{
    if (!cli->output) return zt_cli_write(cli, text->data, text->len);
    zt_sink *sink = zt_sink_open(cli->ctx, cli->output, cli->force);
    zt_status status = sink ? zt_sink_write(sink, text->data, text->len) : zt_ctx_status(cli->ctx);
    if (!status) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    return status;
}

zt_status trace_write(zt_cli *cli, zt_str *text)
{
    zt_status status = zt_ctx_status(cli->ctx);
    if (!status) status = write_text(cli, text);
    zt_str_fini(text);
    return status;
}

zt_status trace_print(zt_cli *cli, const zt_table *table)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_table_put(table, !cli->output && zt_cli_on_terminal(), &text);
    return trace_write(cli, &text);
}

zt_status trace_write_program(zt_cli *cli, const zt_prog *program)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_prog_print(program, &text);
    return trace_write(cli, &text);
}

bool trace_all_bound(const zt_prog *program, const zt_bindings *bindings)
{
    for (int symbol_id = 0; symbol_id < zt_prog_n_symbols(program); symbol_id++) {
        bool found = false;
        for (int k = 0; k < bindings->count && !found; k++)
            found = !strcmp(bindings->items[k].symbol, zt_prog_symbol_name(program, symbol_id));
        if (!found) return false;
    }
    return true;
}
