/* merge_recipe.c - a merge's recipe: the file of --config, or the flags, written down as mergekit's
 * schema has it, so that there is one meaning of both and the child can tell it.
 */
#include "tools/zt-dna/merge.h"

#include <string.h>

static zt_status fail_value(zt_cli *cli, const char *option, const char *value)
{
    char shown[80];
    return zt_fail(cli->ctx, ZT_EUSAGE, "option '--%s': '%s' is not a number", option,
                   zt_escape(shown, sizeof shown, value, strlen(value)));
}

/* The k-th number of all that were given, "0.5,0.5" or one a time; *index: how many there are. */
static zt_status parse_number(zt_cli *cli, const char *option, const zt_opt_list *given, int k, double *out, int *index)
{
    *index = 0;
    for (int i = 0; i < given->n; i++)
        for (const char *end = given->item[i]; end; end = strchr(end, ',') ? strchr(end, ',') + 1 : NULL) {
            char one[64];
            size_t len = strcspn(end, ",");
            if (len >= sizeof one) return fail_value(cli, option, given->item[i]);
            memcpy(one, end, len);
            one[len] = 0;
            double number;
            if (!zt_parse_double(one, &number)) return fail_value(cli, option, one);
            if ((*index)++ == k) *out = number;
        }
    return ZT_OK;
}

/* A parameter of each model: of one number for all, or as many as there are models. */
typedef struct number_list {
    const char *option;
    const zt_opt_list *given;
    int count; /* numbers */
} number_list;

static zt_status check_count(zt_cli *cli, number_list *list, int models)
{
    double number;
    zt_status status = parse_number(cli, list->option, list->given, -1, &number, &list->count);
    if (status == ZT_OK && list->count > 1 && list->count != models)
        status = zt_fail(cli->ctx, ZT_EUSAGE, "option '--%s': %d numbers for %d models, expected 1 or one per model",
                         list->option, list->count, models);
    return status;
}

static zt_status put_key(zt_str *text, const char *key, bool *first)
{
    zt_status status = *first ? ZT_OK : zt_str_puts(text, ",");
    *first = false;
    if (status == ZT_OK) status = zt_str_put_json(text, key, strlen(key));
    return status == ZT_OK ? zt_str_puts(text, ":") : status;
}

static zt_status put_number(zt_str *text, const char *key, double number, bool *first)
{
    zt_status status = put_key(text, key, first);
    return status == ZT_OK ? zt_str_put_double(text, number) : status;
}

static zt_status put_text(zt_str *out, const char *key, const char *text, bool *first)
{
    zt_status status = put_key(out, key, first);
    return status == ZT_OK ? zt_str_put_json(out, text, strlen(text)) : status;
}

static zt_status put_model(zt_cli *cli, zt_str *text, const char *model, int k, number_list *lists, int n_of)
{
    bool first = true, inner = true;
    zt_status status = zt_str_puts(text, k ? ",{" : "{");
    if (status == ZT_OK) status = put_text(text, "model", model, &first);
    if (status == ZT_OK) status = put_key(text, "parameters", &first);
    if (status == ZT_OK) status = zt_str_puts(text, "{");
    for (int i = 0; i < n_of && status == ZT_OK; i++) {
        double number;
        int count;
        if (lists[i].count < 2) continue;
        status = parse_number(cli, lists[i].option, lists[i].given, k, &number, &count);
        if (status == ZT_OK) status = put_number(text, lists[i].option, number, &inner);
    }
    return status == ZT_OK ? zt_str_puts(text, "}}") : status;
}

/* "NAME=VALUE" of --param. */
static zt_status put_param(zt_cli *cli, zt_str *text, const char *given, bool *first)
{
    const char *equals = strchr(given, '=');
    double number;
    if (!equals || equals == given || !equals[1]) return zt_fail(cli->ctx, ZT_EUSAGE, "option '--param': expected NAME=VALUE");
    char *name = zt_strndup(cli->ctx, given, (size_t)(equals - given));
    zt_status status = name ? put_key(text, name, first) : ZT_ENOMEM;
    zt_free(cli->ctx, name);
    if (status != ZT_OK) return status;
    if (!strcmp(equals + 1, "true") || !strcmp(equals + 1, "false")) return zt_str_puts(text, equals + 1);
    return zt_parse_double(equals + 1, &number) ? zt_str_put_double(text, number)
                                                : zt_str_put_json(text, equals + 1, strlen(equals + 1));
}

/* Is it said by --param? */
static bool is_param(const dna_options *options, const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < options->param.n; i++)
        if (!strncmp(options->param.item[i], name, length) && options->param.item[i][length] == '=') return true;
    return false;
}

/* What holds for all models. */
static zt_status put_parameters(zt_cli *cli, const dna_options *options, zt_str *text, number_list *lists, int n_of,
                                const char *method, bool *outer)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"t", options->t}, {"lambda", options->lambda}};
    bool first = true;
    zt_status status = put_key(text, "parameters", outer);
    if (status == ZT_OK) status = zt_str_puts(text, "{");
    for (int i = 0; i < n_of && status == ZT_OK; i++) {
        double number;
        int count;
        if (lists[i].count != 1) continue;
        status = parse_number(cli, lists[i].option, lists[i].given, 0, &number, &count);
        if (status == ZT_OK) status = put_number(text, lists[i].option, number, &first);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == ZT_OK; i++)
        if (zt_cli_given(cli, numbers[i].name)) status = put_number(text, numbers[i].name, numbers[i].value, &first);
    if (status == ZT_OK && !options->weight.n && !is_param(options, "weight") && zt_merge_has_parameter(method, "weight"))
        status = put_number(text, "weight", 1, &first);
    if (status == ZT_OK && !zt_cli_given(cli, "t") && !is_param(options, "t") && !strcmp(method, "slerp"))
        status = put_number(text, "t", 0.5, &first);
    for (int i = 0; i < options->param.n && status == ZT_OK; i++) status = put_param(cli, text, options->param.item[i], &first);
    return status == ZT_OK ? zt_str_puts(text, "}") : status;
}

/* Of two models without a base, the first is it where the method is of a way from one to the other.
 */
static const char *find_base(const dna_options *options, const char *method, char **operands)
{
    bool way = !strcmp(method, "slerp") || !strcmp(method, "nearswap");
    return options->base ? options->base : way ? operands[0] : NULL;
}

static zt_status write_recipe(zt_cli *cli, const dna_options *options, char **operands, int count, zt_str *text)
{
    number_list lists[] = {{"weight", &options->weight, 0},
                           {"density", &options->density, 0},
                           {"gamma", &options->gamma, 0},
                           {"epsilon", &options->epsilon, 0},
                           {"scale", &options->scale, 0}};
    enum { N_OF = sizeof lists / sizeof *lists };
    const char *method = options->method ? options->method : count == 1 ? "passthrough" : NULL;
    bool first = true;
    zt_status status = ZT_OK;
    if (!method) return zt_fail(cli->ctx, ZT_EUSAGE, "merge: no method: specify --method NAME or --config FILE");
    for (int i = 0; i < N_OF && status == ZT_OK; i++) status = check_count(cli, &lists[i], count);
    const char *base = find_base(options, method, operands);
    if (status == ZT_OK) status = zt_str_puts(text, "{");
    if (status == ZT_OK) status = put_text(text, "merge_method", method, &first);
    if (status == ZT_OK && base) status = put_text(text, "base_model", base, &first);
    if (status == ZT_OK) status = put_key(text, "models", &first);
    if (status == ZT_OK) status = zt_str_puts(text, "[");
    for (int k = 0; k < count && status == ZT_OK; k++) status = put_model(cli, text, operands[k], k, lists, N_OF);
    if (status == ZT_OK) status = zt_str_puts(text, "]");
    if (status == ZT_OK) status = put_parameters(cli, options, text, lists, N_OF, method, &first);
    return status == ZT_OK ? zt_str_puts(text, "}") : status;
}

/* What is wrong with a recipe that was made of options, is wrong with these. */
static void check_misuse(zt_ctx *ctx)
{
    char *what = zt_strdup(ctx, zt_ctx_error(ctx));
    if (!what) return;
    zt_ctx_clear(ctx);
    zt_fail(ctx, ZT_EUSAGE, "%s", what);
    zt_free(ctx, what);
}

zt_recipe *merge_recipe(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    zt_str text;
    zt_recipe *recipe = NULL;
    if (options->config) return zt_recipe_open(cli->ctx, options->config);
    if (count < 1) {
        zt_fail(cli->ctx, ZT_EUSAGE, "merge: no models");
        return NULL;
    }
    zt_str_init(&text, cli->ctx);
    if (write_recipe(cli, options, operands, count, &text) == ZT_OK)
        recipe = zt_recipe_parse(cli->ctx, "merge", text.data, text.len);
    if (!recipe && zt_ctx_status(cli->ctx) == ZT_EDATA) check_misuse(cli->ctx);
    zt_str_fini(&text);
    return recipe;
}
