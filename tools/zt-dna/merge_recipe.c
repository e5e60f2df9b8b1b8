/* merge_recipe.c - a merge's recipe: the file of --config, or the flags, written down as mergekit's
 * schema has it, so that there is one meaning of both and the child can tell it.
 */
#include "tools/zt-dna/merge.h"

#include <string.h>

static zt_status bad(zt_cli *cli, const char *option, const char *value)
{
    char shown[80];
    return zt_fail(cli->ctx, ZT_EUSAGE, "option '--%s': '%s' is no number", option,
                   zt_escape(shown, sizeof shown, value, strlen(value)));
}

/* The k-th number of all that were given, "0.5,0.5" or one a time; *n: how many there are. */
static zt_status number_at(zt_cli *cli, const char *option, const zt_opt_list *given, int k,
                           double *out, int *n)
{
    *n = 0;
    for (int i = 0; i < given->n; i++)
        for (const char *p = given->item[i]; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
            char one[64];
            size_t len = strcspn(p, ",");
            if (len >= sizeof one) return bad(cli, option, given->item[i]);
            memcpy(one, p, len);
            one[len] = 0;
            double x;
            if (!zt_parse_double(one, &x)) return bad(cli, option, one);
            if ((*n)++ == k) *out = x;
        }
    return ZT_OK;
}

/* A parameter of each model: of one number for all, or as many as there are models. */
typedef struct each {
    const char *option;
    const zt_opt_list *given;
    int n; /* numbers */
} each;

static zt_status count(zt_cli *cli, each *e, int models)
{
    double x;
    zt_status s = number_at(cli, e->option, e->given, -1, &x, &e->n);
    if (s == ZT_OK && e->n > 1 && e->n != models)
        s = zt_fail(cli->ctx, ZT_EUSAGE, "option '--%s': %d numbers for %d models", e->option, e->n,
                    models);
    return s;
}

static zt_status put_key(zt_str *t, const char *key, bool *first)
{
    zt_status s = *first ? ZT_OK : zt_str_puts(t, ",");
    *first = false;
    if (s == ZT_OK) s = zt_str_put_json(t, key, strlen(key));
    return s == ZT_OK ? zt_str_puts(t, ":") : s;
}

static zt_status put_number(zt_str *t, const char *key, double x, bool *first)
{
    zt_status s = put_key(t, key, first);
    return s == ZT_OK ? zt_str_put_double(t, x) : s;
}

static zt_status put_text(zt_str *t, const char *key, const char *text, bool *first)
{
    zt_status s = put_key(t, key, first);
    return s == ZT_OK ? zt_str_put_json(t, text, strlen(text)) : s;
}

static zt_status put_model(zt_cli *cli, zt_str *t, const char *model, int k, each *of, int n_of)
{
    bool first = true, inner = true;
    zt_status s = zt_str_puts(t, k ? ",{" : "{");
    if (s == ZT_OK) s = put_text(t, "model", model, &first);
    if (s == ZT_OK) s = put_key(t, "parameters", &first);
    if (s == ZT_OK) s = zt_str_puts(t, "{");
    for (int i = 0; i < n_of && s == ZT_OK; i++) {
        double x;
        int n;
        if (of[i].n < 2) continue;
        s = number_at(cli, of[i].option, of[i].given, k, &x, &n);
        if (s == ZT_OK) s = put_number(t, of[i].option, x, &inner);
    }
    return s == ZT_OK ? zt_str_puts(t, "}}") : s;
}

/* "NAME=VALUE" of --param. */
static zt_status put_param(zt_cli *cli, zt_str *t, const char *given, bool *first)
{
    const char *eq = strchr(given, '=');
    double x;
    if (!eq || eq == given || !eq[1])
        return zt_fail(cli->ctx, ZT_EUSAGE, "option '--param': NAME=VALUE was expected");
    char *name = zt_strndup(cli->ctx, given, (size_t)(eq - given));
    zt_status s = name ? put_key(t, name, first) : ZT_ENOMEM;
    zt_free(cli->ctx, name);
    if (s != ZT_OK) return s;
    if (!strcmp(eq + 1, "true") || !strcmp(eq + 1, "false")) return zt_str_puts(t, eq + 1);
    return zt_parse_double(eq + 1, &x) ? zt_str_put_double(t, x)
                                       : zt_str_put_json(t, eq + 1, strlen(eq + 1));
}

/* Is it said by --param? */
static bool is_param(const dna_options *o, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < o->param.n; i++)
        if (!strncmp(o->param.item[i], name, n) && o->param.item[i][n] == '=') return true;
    return false;
}

/* What holds for all models. */
static zt_status put_parameters(zt_cli *cli, const dna_options *o, zt_str *t, each *of, int n_of,
                                const char *method, bool *outer)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"t", o->t}, {"lambda", o->lambda}};
    bool first = true;
    zt_status s = put_key(t, "parameters", outer);
    if (s == ZT_OK) s = zt_str_puts(t, "{");
    for (int i = 0; i < n_of && s == ZT_OK; i++) {
        double x;
        int n;
        if (of[i].n != 1) continue;
        s = number_at(cli, of[i].option, of[i].given, 0, &x, &n);
        if (s == ZT_OK) s = put_number(t, of[i].option, x, &first);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && s == ZT_OK; i++)
        if (zt_cli_given(cli, numbers[i].name))
            s = put_number(t, numbers[i].name, numbers[i].value, &first);
    if (s == ZT_OK && !o->weight.n && !is_param(o, "weight"))
        s = put_number(t, "weight", 1, &first);
    if (s == ZT_OK && !zt_cli_given(cli, "t") && !is_param(o, "t") && !strcmp(method, "slerp"))
        s = put_number(t, "t", 0.5, &first);
    for (int i = 0; i < o->param.n && s == ZT_OK; i++)
        s = put_param(cli, t, o->param.item[i], &first);
    return s == ZT_OK ? zt_str_puts(t, "}") : s;
}

/* Of two models without a base, the first is it where the method is of a way from one to the other.
 */
static const char *base_of(const dna_options *o, const char *method, char **operands)
{
    bool way = !strcmp(method, "slerp") || !strcmp(method, "nearswap");
    return o->base ? o->base : way ? operands[0] : NULL;
}

static zt_status describe(zt_cli *cli, const dna_options *o, char **operands, int n, zt_str *t)
{
    each of[] = {{"weight", &o->weight, 0},
                 {"density", &o->density, 0},
                 {"gamma", &o->gamma, 0},
                 {"epsilon", &o->epsilon, 0},
                 {"scale", &o->scale, 0}};
    enum { N_OF = sizeof of / sizeof *of };
    const char *method = o->method ? o->method : n == 1 ? "passthrough" : NULL;
    bool first = true;
    zt_status s = ZT_OK;
    if (!method)
        return zt_fail(cli->ctx, ZT_EUSAGE, "merge: no method: --method NAME, or --config FILE");
    for (int i = 0; i < N_OF && s == ZT_OK; i++) s = count(cli, &of[i], n);
    const char *base = base_of(o, method, operands);
    if (s == ZT_OK) s = zt_str_puts(t, "{");
    if (s == ZT_OK) s = put_text(t, "merge_method", method, &first);
    if (s == ZT_OK && base) s = put_text(t, "base_model", base, &first);
    if (s == ZT_OK) s = put_key(t, "models", &first);
    if (s == ZT_OK) s = zt_str_puts(t, "[");
    for (int k = 0; k < n && s == ZT_OK; k++) s = put_model(cli, t, operands[k], k, of, N_OF);
    if (s == ZT_OK) s = zt_str_puts(t, "]");
    if (s == ZT_OK) s = put_parameters(cli, o, t, of, N_OF, method, &first);
    return s == ZT_OK ? zt_str_puts(t, "}") : s;
}

/* What is wrong with a recipe that was made of options, is wrong with these. */
static void misused(zt_ctx *ctx)
{
    char *what = zt_strdup(ctx, zt_ctx_error(ctx));
    if (!what) return;
    zt_ctx_clear(ctx);
    zt_fail(ctx, ZT_EUSAGE, "%s", what);
    zt_free(ctx, what);
}

zt_recipe *merge_recipe(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    zt_str text;
    zt_recipe *r = NULL;
    if (o->config) return zt_recipe_open(cli->ctx, o->config);
    if (n < 1) {
        zt_fail(cli->ctx, ZT_EUSAGE, "merge: no models");
        return NULL;
    }
    zt_str_init(&text, cli->ctx);
    if (describe(cli, o, operands, n, &text) == ZT_OK)
        r = zt_recipe_parse(cli->ctx, "merge", text.data, text.len);
    if (!r && zt_ctx_status(cli->ctx) == ZT_EDATA) misused(cli->ctx);
    zt_str_fini(&text);
    return r;
}
