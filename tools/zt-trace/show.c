/* show.c - zt-trace show: a program's text, and beside each line what its values are; with --format a table of the values.
 *
 * What is added are comments, so that the text is the same program still: --plain makes canonical
 * text of it again. Types stand there once every symbol has a number.
 */
#include "tools/zt-trace/trace.h"

#include <string.h>

enum { WIDEST = 72 }; /* comments begin no further to the right than this */

/* The comment of the line that declares the value, or of the op whose first output it is. */
static void put_types(const zt_prog *program, const zt_bound *bound, int value_id, zt_str *output_text)
{
    char text[ZT_TYPE_TEXT];
    const zt_value *value = zt_prog_value(program, value_id);
    if (value->kind != ZT_VALUE_OP) {
        zt_str_printf(output_text, "# %s\n", zt_type_text(&bound->type[value_id], text));
        return;
    }
    const zt_step *step = zt_prog_step(program, value->index);
    zt_str_printf(output_text, "# %d:", value->index);
    for (int output = 0; output < zt_op_info(step->op)->n_out; output++)
        if (step->out[output] >= 0)
            zt_str_printf(output_text, "%s %s", output ? "," : "", zt_type_text(&bound->type[step->out[output]], text));
    zt_str_putc(output_text, '\n');
}

/* Does the canonical text have a line that begins with the value's name? */
static bool has_line(const zt_prog *program, int value_id)
{
    const zt_value *value = zt_prog_value(program, value_id);
    return value->kind != ZT_VALUE_OP || zt_prog_step(program, value->index)->out[0] == value_id;
}

static size_t width_of(const char *text)
{
    size_t widest = 0;
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        if (length > widest && length <= WIDEST) widest = length;
        line += length + (line[length] == '\n');
    }
    return widest;
}

/* Lines before the declarations: the version, the model's and that of the symbols' numbers. */
static int header_lines(const zt_prog *program, const char *text)
{
    int line_count = 1 + (zt_prog_model_file(program) != NULL);
    for (int i = 0; i < line_count && *text; i++) text += strcspn(text, "\n") + 1;
    return line_count + (strncmp(text, "bind  ", 6) == 0);
}

/* The lines of `text`, canonical, in the order of the values. */
static void put_annotated(const zt_prog *program, const zt_bound *bound, const char *text, zt_str *output_text)
{
    size_t width = width_of(text);
    int skip = header_lines(program, text), value_id = 0;
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        zt_str_put(output_text, line, length);
        line += length + (line[length] == '\n');
        while (value_id < bound->n_values && !has_line(program, value_id)) value_id++;
        if (skip > 0 || value_id == bound->n_values) {
            skip--;
            zt_str_putc(output_text, '\n');
            continue;
        }
        zt_str_printf(output_text, "%*s  ", length < width ? (int)(width - length) : 0, "");
        put_types(program, bound, value_id++, output_text);
    }
}

/* What there is, and which symbols wait for a number. */
static void put_summary(const zt_prog *program, bool bound, zt_str *output_text)
{
    zt_str_printf(output_text, "# %d ops, %d inputs, %d states, %d data, %d outputs", zt_prog_n_steps(program),
                  zt_prog_count(program, ZT_VALUE_IN), zt_prog_count(program, ZT_VALUE_STATE),
                  zt_prog_count(program, ZT_VALUE_DATA), zt_prog_n_outputs(program));
    for (int symbol_id = 0; symbol_id < zt_prog_n_symbols(program); symbol_id++)
        zt_str_printf(output_text, "%s%s", symbol_id ? " " : "; symbols ", zt_prog_symbol_name(program, symbol_id));
    zt_str_puts(output_text, bound ? "\n" : " (set their values with --bind)\n");
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { N_COLUMNS = 4 };
static const char *const columns[N_COLUMNS] = {"value", "kind", "op", "type"};

static zt_status put_value(zt_table *table, const zt_prog *program, const zt_bound *bound, int value_id)
{
    static const char *const kinds[] = {
        [ZT_VALUE_IN] = "input", [ZT_VALUE_STATE] = "state", [ZT_VALUE_DATA] = "data", [ZT_VALUE_OP] = "result"};
    char type[ZT_TYPE_TEXT];
    const zt_value *value = zt_prog_value(program, value_id);
    bool computed = value->kind == ZT_VALUE_OP;
    const char *op = computed ? zt_op_info(zt_prog_step(program, value->index)->op)->name : NULL;
    const char *cells[N_COLUMNS] = {value->name, kinds[value->kind], op,
                                    bound ? zt_type_text(&bound->type[value_id], type) : NULL};
    return value->name ? zt_table_row(table, cells) : ZT_OK;
}

/* Types stand there where every symbol has a number. */
static zt_status put_table(zt_cli *cli, const zt_prog *program, const zt_bound *bound)
{
    zt_table *table = zt_table_new(cli, "trace.show", columns, N_COLUMNS);
    zt_status status = table ? ZT_OK : zt_ctx_status(cli->ctx);
    for (int value_id = 0; value_id < zt_prog_n_values(program) && !status; value_id++)
        status = put_value(table, program, bound, value_id);
    if (!status) status = trace_print(cli, table);
    zt_table_free(table);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static zt_status put_text(zt_cli *cli, const trace_options *options, const zt_prog *program, const zt_bound *bound)
{
    zt_str text, out;
    zt_str_init(&text, cli->ctx);
    zt_str_init(&out, cli->ctx);
    zt_status status = zt_prog_print(program, &text);
    if (!status && bound && !options->plain) put_annotated(program, bound, text.data, &out);
    if (!status && (!bound || options->plain)) zt_str_put(&out, text.data, text.len);
    if (!status && !options->plain) put_summary(program, bound, &out);
    status = trace_write(cli, &out);
    zt_str_fini(&text);
    return status;
}

zt_status trace_show(zt_cli *cli, const trace_options *options, char **operands, int operand_count)
{
    zt_bindings bind;
    zt_prog *program = trace_program(cli, operands, operand_count);
    zt_status status = program ? zt_bindings_of(cli->ctx, options->bind, program, &bind) : zt_ctx_status(cli->ctx);
    if (!status && cli->output) /* on stdout a canonical text is the same bytes again */
        status = zt_cli_move_model(cli, program, operand_count > 0 ? operands[0] : NULL, cli->output);
    if (status) {
        zt_prog_free(program);
        return status;
    }
    bool table = cli->format != ZT_FMT_AUTO;
    zt_bound *bound = !options->plain && trace_all_bound(program, &bind) ? zt_prog_bind(program, bind.items, bind.count) : NULL;
    status = table ? put_table(cli, program, bound) : put_text(cli, options, program, bound);
    zt_bound_free(bound);
    zt_prog_free(program);
    return status;
}
