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
    zt_status s = ZT_OK;
    for (int i = 0; i < lists->n && !s; i++) s = add_names(ctx, to, option, lists->item[i]);
    return s;
}

static void free_names(zt_ctx *ctx, names *n)
{
    for (int i = 0; i < n->n_copies; i++) zt_free(ctx, n->copies[i]);
    zt_free(ctx, n);
}

static const char *value_name(const void *prog, int i)
{
    const zt_prog *p = prog;
    const char *name = i < zt_prog_n_values(p) ? zt_prog_value(p, i)->name : NULL;
    return name || i >= zt_prog_n_values(p) ? name : "";
}

static const char *output_name(const void *prog, int i)
{
    return i < zt_prog_n_outputs(prog) ? zt_prog_output(prog, i)->name : NULL;
}

static zt_status no_such(zt_ctx *ctx, const zt_prog *p, const char *what, const char *name)
{
    char shown[96];
    zt_near_hint hint;
    zt_name_fn *known = strcmp(what, "value") ? output_name : value_name;
    return zt_fail(ctx, ZT_EUSAGE, "the program has no %s '%s'%s", what,
                   zt_escape(shown, sizeof shown, name, strlen(name)),
                   zt_near(hint, name, known, p));
}

static bool is_output(const zt_prog *p, const char *name)
{
    for (int o = 0; o < zt_prog_n_outputs(p); o++)
        if (!strcmp(zt_prog_output(p, o)->name, name)) return true;
    return false;
}

static zt_status find_values(zt_ctx *ctx, const zt_prog *p, const names *wrt, int *value)
{
    for (int i = 0; i < wrt->n; i++) {
        value[i] = zt_prog_find(p, wrt->at[i]);
        if (value[i] < 0) return no_such(ctx, p, "value", wrt->at[i]);
        for (int k = 0; k < i; k++)
            if (value[k] == value[i])
                return zt_fail(ctx, ZT_EUSAGE, "'%s' is named twice", wrt->at[i]);
    }
    return ZT_OK;
}

/* Numbers for symbols that were given none: ranks and dtypes are the same with any. */
static void fill_sample(const zt_prog *p, zt_bindings *b)
{
    for (int i = 0; i < zt_prog_n_symbols(p); i++) {
        bool found = false;
        for (int k = 0; k < b->n && !found; k++)
            found = !strcmp(b->at[k].symbol, zt_prog_symbol_name(p, i));
        if (!found && b->n < ZT_MAX_SYMBOLS)
            b->at[b->n++] = (zt_binding){zt_prog_symbol_name(p, i), ANY_NUMBER};
    }
}

static zt_status differentiate(zt_cli *cli, const trace_options *o, const zt_prog *p,
                               const char *path, const names *wrt, const names *of)
{
    zt_bindings sample;
    int value[MAX_NAMES];
    zt_status s = zt_bindings_of(cli->ctx, o->bind, p, &sample);
    if (!s) s = find_values(cli->ctx, p, wrt, value);
    for (int i = 0; i < of->n && !s; i++)
        if (!is_output(p, of->at[i])) s = no_such(cli->ctx, p, "output", of->at[i]);
    if (s) return s;
    fill_sample(p, &sample);
    zt_grad_opts go = {.of = of->at, .n_of = of->n, .seeds = o->seeds, .sample = sample.at,
                       .n_sample = sample.n};
    zt_prog *g = zt_prog_grad(cli->ctx, p, value, wrt->n, &go);
    if (!g) return zt_ctx_status(cli->ctx);
    s = zt_cli_move_model(cli, g, path, cli->output);
    if (!s) s = trace_write_program(cli, g);
    zt_prog_free(g);
    return s;
}

/* Names may follow the option as words: all operands but the last, which is the program. */
zt_status trace_grad(zt_cli *cli, const trace_options *o, char **operands, int n)
{
    zt_ctx *ctx = cli->ctx;
    names *wrt = zt_calloc(ctx, 1, sizeof *wrt), *of = zt_calloc(ctx, 1, sizeof *of);
    zt_status s = wrt && of ? ZT_OK : ZT_ENOMEM;
    if (!s && !o->wrt.n)
        s = zt_fail(ctx, ZT_EUSAGE, "--wrt is missing: with respect to which values");
    if (!s) s = add_lists(ctx, wrt, "wrt", &o->wrt);
    for (int i = 0; i < n - 1 && !s; i++) s = add_names(ctx, wrt, "wrt", operands[i]);
    if (!s) s = add_lists(ctx, of, "of", &o->of);
    zt_prog *p = s ? NULL : trace_program(cli, operands + (n > 1 ? n - 1 : 0), n > 0);
    s = p ? differentiate(cli, o, p, n > 0 ? operands[n - 1] : NULL, wrt, of) : zt_ctx_status(ctx);
    zt_prog_free(p);
    if (wrt) free_names(ctx, wrt);
    if (of) free_names(ctx, of);
    return s;
}
