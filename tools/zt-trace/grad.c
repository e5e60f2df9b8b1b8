/* grad.c - zt-trace grad: of a forward program one that returns gradients too. */
#include "lib/base/near.h"
#include "tools/zt-trace/trace.h"

#include <string.h>

enum { MAX_NAMES = 4096, ANY_NUMBER = 64 };

typedef struct names {
    const char *at[MAX_NAMES];
    int n;
    char *copies[MAX_NAMES]; /* of the lists, cut at their commas */
    int n_copies;
} names;

/* "w0,b0" */
static zt_status add_names(zt_ctx *ctx, names *to, const char *option, const char *list)
{
    char *copy = to->n_copies < MAX_NAMES ? zt_strdup(ctx, list) : NULL, *save;
    if (!copy) return zt_fail(ctx, ZT_ENOMEM, "option '--%s': too many names", option);
    to->copies[to->n_copies++] = copy;
    int before = to->n;
    for (char *at = strtok_r(copy, ",", &save); at; at = strtok_r(NULL, ",", &save)) {
        if (to->n == MAX_NAMES)
            return zt_fail(ctx, ZT_EUSAGE, "option '--%s': too many names", option);
        to->at[to->n++] = at;
    }
    if (to->n > before) return ZT_OK;
    return zt_fail(ctx, ZT_EUSAGE, "option '--%s': a name is missing", option);
}

static zt_status add_lists(zt_ctx *ctx, names *to, const char *option, const zt_opt_list *lists)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < lists->n && !status; i++) status = add_names(ctx, to, option, lists->item[i]);
    return status;
}

static void free_names(zt_ctx *ctx, names *n)
{
    for (int i = 0; i < n->n_copies; i++) zt_free(ctx, n->copies[i]);
    zt_free(ctx, n);
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
    return zt_fail(ctx, ZT_EUSAGE, "the program has no %s '%s'%s", what,
                   zt_escape(shown, sizeof shown, name, strlen(name)),
                   zt_near(hint, name, known, program));
}

static bool is_output(const zt_prog *program, const char *name)
{
    for (int o = 0; o < zt_prog_n_outputs(program); o++)
        if (!strcmp(zt_prog_output(program, o)->name, name)) return true;
    return false;
}

static zt_status find_values(zt_ctx *ctx, const zt_prog *program, const names *wrt, int *value)
{
    for (int i = 0; i < wrt->n; i++) {
        value[i] = zt_prog_find(program, wrt->at[i]);
        if (value[i] < 0) return no_such(ctx, program, "value", wrt->at[i]);
        for (int k = 0; k < i; k++)
            if (value[k] == value[i])
                return zt_fail(ctx, ZT_EUSAGE, "'%s' is named twice", wrt->at[i]);
    }
    return ZT_OK;
}

/* Numbers for symbols that were given none: ranks and dtypes are the same with any. */
static void fill_sample(const zt_prog *program, zt_bindings *bindings)
{
    for (int i = 0; i < zt_prog_n_symbols(program); i++) {
        bool found = false;
        for (int k = 0; k < bindings->n && !found; k++)
            found = !strcmp(bindings->at[k].symbol, zt_prog_symbol_name(program, i));
        if (!found && bindings->n < ZT_MAX_SYMBOLS)
            bindings->at[bindings->n++] = (zt_binding){zt_prog_symbol_name(program, i), ANY_NUMBER};
    }
}

static zt_status differentiate(zt_cli *cli, const trace_options *options, const zt_prog *program,
                               const char *path, const names *wrt, const names *of)
{
    zt_bindings sample;
    int value[MAX_NAMES];
    zt_status status = zt_bindings_of(cli->ctx, options->bind, program, &sample);
    if (!status) status = find_values(cli->ctx, program, wrt, value);
    for (int i = 0; i < of->n && !status; i++)
        if (!is_output(program, of->at[i])) status = no_such(cli->ctx, program, "output", of->at[i]);
    if (status) return status;
    fill_sample(program, &sample);
    zt_grad_opts go = {.of = of->at, .n_of = of->n, .seeds = options->seeds, .sample = sample.at,
                       .n_sample = sample.n};
    zt_prog *g = zt_prog_grad(cli->ctx, program, value, wrt->n, &go);
    if (!g) return zt_ctx_status(cli->ctx);
    status = zt_cli_move_model(cli, g, path, cli->output);
    if (!status) status = trace_write_program(cli, g);
    zt_prog_free(g);
    return status;
}

/* Names may follow the option as words: all operands but the last, which is the program. */
zt_status trace_grad(zt_cli *cli, const trace_options *options, char **operands, int n)
{
    zt_ctx *ctx = cli->ctx;
    names *wrt = zt_calloc(ctx, 1, sizeof *wrt), *of = zt_calloc(ctx, 1, sizeof *of);
    zt_status status = wrt && of ? ZT_OK : ZT_ENOMEM;
    if (!status && !options->wrt.n)
        status = zt_fail(ctx, ZT_EUSAGE, "--wrt is missing: with respect to which values");
    if (!status) status = add_lists(ctx, wrt, "wrt", &options->wrt);
    for (int i = 0; i < n - 1 && !status; i++) status = add_names(ctx, wrt, "wrt", operands[i]);
    if (!status) status = add_lists(ctx, of, "of", &options->of);
    zt_prog *program = status ? NULL : trace_program(cli, operands + (n > 1 ? n - 1 : 0), n > 0);
    status = program ? differentiate(cli, options, program, n > 0 ? operands[n - 1] : NULL, wrt, of) : zt_ctx_status(ctx);
    zt_prog_free(program);
    if (wrt) free_names(ctx, wrt);
    if (of) free_names(ctx, of);
    return status;
}
