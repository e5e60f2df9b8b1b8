/* grad.c - zt-trace grad: of a forward program one that returns gradients too. */
#include "lib/base/near.h"
#include "tools/zt-trace/trace.h"

#include <string.h>

enum { MAX_NAMES = 4096, ANY_NUMBER = 64 };

typedef struct name_list {
    const char *names[MAX_NAMES];
    int count;
    char *copies[MAX_NAMES]; /* of the lists, cut at their commas */
    int copy_count;
} name_list;

/* "w0,b0" */
static zt_status add_names(zt_ctx *ctx, name_list *names, const char *option, const char *list)
{
    char *copy = names->copy_count < MAX_NAMES ? zt_strdup(ctx, list) : NULL, *save;
    if (!copy) return zt_fail(ctx, ZT_ENOMEM, "option '--%s': too many names", option);
    names->copies[names->copy_count++] = copy;
    int before = names->count;
    for (char *name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        if (names->count == MAX_NAMES) return zt_fail(ctx, ZT_EUSAGE, "option '--%s': too many names", option);
        names->names[names->count++] = name;
    }
    if (names->count > before) return ZT_OK;
    return zt_fail(ctx, ZT_EUSAGE, "option '--%s': no names", option);
}

static zt_status add_lists(zt_ctx *ctx, name_list *names, const char *option, const zt_opt_list *lists)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < lists->n && !status; i++) status = add_names(ctx, names, option, lists->item[i]);
    return status;
}

static void free_names(zt_ctx *ctx, name_list *names)
{
    for (int i = 0; i < names->copy_count; i++) zt_free(ctx, names->copies[i]);
    zt_free(ctx, names);
}

static const char *value_name(const void *prog, int i)
{
    const zt_prog *program = prog;
    const char *name = i < zt_prog_n_values(program) ? zt_prog_value(program, i)->name : NULL;
    return name || i >= zt_prog_n_values(program) ? name : "";
}

static const char *output_name(const void *prog, int i)
{
    return i < zt_prog_n_outputs(prog) ? zt_prog_output(prog, i)->name : NULL;
}

static zt_status no_such(zt_ctx *ctx, const zt_prog *program, const char *what, const char *name)
{
    char shown[96];
    zt_near_hint hint;
    zt_name_fn *known = strcmp(what, "value") ? output_name : value_name;
    return zt_fail(ctx, ZT_EUSAGE, "the program has no %s '%s'%s", what, zt_escape(shown, sizeof shown, name, strlen(name)),
                   zt_near(hint, name, known, program));
}

static bool is_output(const zt_prog *program, const char *name)
{
    for (int output_index = 0; output_index < zt_prog_n_outputs(program); output_index++)
        if (!strcmp(zt_prog_output(program, output_index)->name, name)) return true;
    return false;
}

static zt_status find_values(zt_ctx *ctx, const zt_prog *program, const name_list *wrt, int *value)
{
    for (int i = 0; i < wrt->count; i++) {
        value[i] = zt_prog_find(program, wrt->names[i]);
        if (value[i] < 0) return no_such(ctx, program, "value", wrt->names[i]);
        for (int k = 0; k < i; k++)
            if (value[k] == value[i]) return zt_fail(ctx, ZT_EUSAGE, "'%s' is given twice", wrt->names[i]);
    }
    return ZT_OK;
}

/* Numbers for symbols that were given none: ranks and dtypes are the same with any. */
static void fill_sample(const zt_prog *program, zt_bindings *bindings)
{
    for (int symbol_id = 0; symbol_id < zt_prog_n_symbols(program); symbol_id++) {
        bool found = false;
        for (int k = 0; k < bindings->count && !found; k++)
            found = !strcmp(bindings->items[k].symbol, zt_prog_symbol_name(program, symbol_id));
        if (!found && bindings->count < ZT_MAX_SYMBOLS)
            bindings->items[bindings->count++] = (zt_binding){zt_prog_symbol_name(program, symbol_id), ANY_NUMBER};
    }
}

static zt_status write_gradient(zt_cli *cli, const trace_options *options, const zt_prog *program, const char *path,
                                const name_list *wrt, const name_list *of)
{
    zt_bindings sample;
    int value[MAX_NAMES];
    zt_status status = zt_bindings_of(cli->ctx, options->bind, program, &sample);
    if (!status) status = find_values(cli->ctx, program, wrt, value);
    for (int i = 0; i < of->count && !status; i++)
        if (!is_output(program, of->names[i])) status = no_such(cli->ctx, program, "output", of->names[i]);
    if (status) return status;
    fill_sample(program, &sample);
    zt_grad_opts grad_options = {
        .of = of->names, .n_of = of->count, .seeds = options->seeds, .sample = sample.items, .n_sample = sample.count};
    zt_prog *gradient = zt_prog_grad(cli->ctx, program, value, wrt->count, &grad_options);
    if (!gradient) return zt_ctx_status(cli->ctx);
    status = zt_cli_move_model(cli, gradient, path, cli->output);
    if (!status) status = trace_write_program(cli, gradient);
    zt_prog_free(gradient);
    return status;
}

/* Names may follow the option as words: all operands but the last, which is the program. */
zt_status trace_grad(zt_cli *cli, const trace_options *options, char **operands, int operand_count)
{
    zt_ctx *ctx = cli->ctx;
    name_list *wrt = zt_calloc(ctx, 1, sizeof *wrt), *of = zt_calloc(ctx, 1, sizeof *of);
    zt_status status = wrt && of ? ZT_OK : ZT_ENOMEM;
    if (!status && !options->wrt.n)
        status = zt_fail(ctx, ZT_EUSAGE, "no values to differentiate with respect to: specify them with --wrt");
    if (!status) status = add_lists(ctx, wrt, "wrt", &options->wrt);
    for (int operand_index = 0; operand_index < operand_count - 1 && !status; operand_index++)
        status = add_names(ctx, wrt, "wrt", operands[operand_index]);
    if (!status) status = add_lists(ctx, of, "of", &options->of);
    zt_prog *program =
        status ? NULL : trace_program(cli, operands + (operand_count > 1 ? operand_count - 1 : 0), operand_count > 0);
    status = program ? write_gradient(cli, options, program, operand_count > 0 ? operands[operand_count - 1] : NULL, wrt, of)
                     : zt_ctx_status(ctx);
    zt_prog_free(program);
    if (wrt) free_names(ctx, wrt);
    if (of) free_names(ctx, of);
    return status;
}
