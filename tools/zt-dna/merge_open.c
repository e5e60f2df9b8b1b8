/* merge_open.c - the models of a recipe: where they are, and their adapters. */
#include "tools/zt-dna/merge.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_there(const char *path) { return !strcmp(path, "-") || access(path, F_OK) == 0; }

/* The first of: the operand of that name, the path as it is, in --models' folder, in the recipe's.
 */
static zt_status find_model(const merge_inputs *inputs, const char *name, zt_str *out)
{
    const char *config = inputs->options->config;
    for (int i = 0; config && i < inputs->operand_count; i++)
        if (!strcmp(inputs->operands[i], name) || !strcmp(base_name(inputs->operands[i]), base_name(name)))
            return zt_str_puts(out, inputs->operands[i]);
    if (is_there(name) || !config || *name == '/') return zt_str_puts(out, name);
    if (inputs->options->models) {
        zt_status status = zt_str_printf(out, "%s/%s", inputs->options->models, name);
        if (status != ZT_OK || is_there(out->data)) return status;
        zt_str_clear(out);
    }
    if (strchr(config, '/')) {
        zt_status status = zt_str_printf(out, "%.*s%s", (int)(base_name(config) - config), config, name);
        if (status != ZT_OK || is_there(out->data)) return status;
        zt_str_clear(out);
    }
    return zt_str_puts(out, name);
}

/* Is the output a file in the folder that is an input? */
static zt_status refuse_inside(zt_cli *cli, const char *path)
{
    struct stat folder, here;
    if (!strcmp(path, "-") || stat(path, &folder) || !S_ISDIR(folder.st_mode)) return ZT_OK;
    size_t length = (size_t)(base_name(cli->output) - cli->output);
    char *parent = length ? zt_strndup(cli->ctx, cli->output, length) : zt_strdup(cli->ctx, ".");
    if (!parent) return ZT_ENOMEM;
    bool inside = stat(parent, &here) == 0 && here.st_dev == folder.st_dev && here.st_ino == folder.st_ino;
    zt_free(cli->ctx, parent);
    return inside ? zt_fail(cli->ctx, ZT_ECREATE, "%s: the output cannot be in the directory of an input", cli->output) : ZT_OK;
}

static zt_status open_model(merge_inputs *inputs, int index, const char *path)
{
    zt_status status = zt_cli_refuse_same(inputs->cli, path, inputs->cli->output);
    if (status == ZT_OK) status = refuse_inside(inputs->cli, path);
    inputs->opened[index].model = status == ZT_OK ? dna_open_checkpoint(inputs->cli, path) : NULL;
    inputs->parents[index].model = inputs->opened[index].model;
    return inputs->opened[index].model ? ZT_OK : zt_ctx_status(inputs->cli->ctx);
}

/* Where text[0..n) is, with =SCALE behind it or not; *scale NULL: it may have none. */
static zt_status find_piece(const merge_inputs *inputs, const char *text, size_t length, double *scale, zt_str *out)
{
    char *name = zt_strndup(inputs->cli->ctx, text, length);
    if (name && scale) name[zt_adapter_split(name, scale)] = 0;
    zt_str_clear(out);
    zt_status status = name ? find_model(inputs, name, out) : ZT_ENOMEM;
    zt_free(inputs->cli->ctx, name);
    return status;
}

/* The longest beginning, up to a '+' or the end, that is a file's name; else up to the first '+'.
 * *out: where that file is. */
static zt_status first_piece(const merge_inputs *inputs, const char *text, double *scale, size_t *length, zt_str *out)
{
    size_t all = strlen(text), shortest = strcspn(text, "+");
    for (*length = all;; (*length)--) {
        if (*length > shortest && *length < all && text[*length] != '+') continue;
        zt_status status = find_piece(inputs, text, *length, scale, out);
        if (status != ZT_OK || *length <= shortest || is_there(out->data)) return status;
    }
}

static zt_status open_adapters(merge_inputs *inputs, int index, const char *text, zt_str *path)
{
    zt_cli *cli = inputs->cli;
    zt_adapters *a = &inputs->opened[index].adapters;
    zt_status status = ZT_OK;
    for (size_t length; *text == '+' && status == ZT_OK; text += length + 1) {
        double scale;
        status = first_piece(inputs, text + 1, &scale, &length, path);
        if (status == ZT_OK && !length) status = zt_fail(cli->ctx, ZT_EUSAGE, "%s: expected an adapter after '+'", text);
        if (status == ZT_OK) status = zt_cli_refuse_same(cli, path->data, cli->output);
        if (status == ZT_OK) status = zt_adapters_add(cli, a, path->data, scale);
    }
    if (status != ZT_OK || !a->count) return status;
    inputs->opened[index].adapted = zt_adapted_new(cli->ctx, inputs->opened[index].model, a->adapters, a->count,
                                                   &(zt_adapted_opts){.floats = true, .threads = dna_threads(cli)});
    if (!inputs->opened[index].adapted) return zt_ctx_status(cli->ctx);
    inputs->parents[index].adapted = inputs->opened[index].adapted;
    inputs->parents[index].model = zt_adapted_checkpoint(inputs->opened[index].adapted);
    zt_adapters_tell(cli, inputs->parents[index].adapted);
    return ZT_OK;
}

/* "MODEL", or "MODEL+ADAPTER[=SCALE]..." where no file has that name. */
static zt_status open_one(merge_inputs *inputs, int index, const char *name)
{
    zt_str path;
    size_t length = 0;
    zt_str_init(&path, inputs->cli->ctx);
    zt_status status = first_piece(inputs, name, NULL, &length, &path);
    if (status == ZT_OK) status = open_model(inputs, index, path.data);
    if (status == ZT_OK) status = open_adapters(inputs, index, name + length, &path);
    zt_str_fini(&path);
    return status;
}

/* Beside --config an operand stands for a model of the recipe. */
static zt_status check_operands(const merge_inputs *inputs, const zt_recipe *recipe)
{
    for (int i = 0; inputs->options->config && i < inputs->operand_count; i++) {
        bool used = false;
        for (int k = 0; k < zt_recipe_count(recipe) && !used; k++)
            used = !strcmp(base_name(inputs->operands[i]), base_name(zt_recipe_model(recipe, k)));
        if (!used) return zt_fail(inputs->cli->ctx, ZT_EUSAGE, "%s: the model is not in the recipe", inputs->operands[i]);
    }
    return ZT_OK;
}

zt_status merge_open(merge_inputs *inputs, const zt_recipe *recipe)
{
    zt_ctx *ctx = inputs->cli->ctx;
    size_t length = (size_t)zt_recipe_count(recipe);
    zt_status status = check_operands(inputs, recipe);
    if (status != ZT_OK) return status;
    inputs->parents = zt_calloc(ctx, length, sizeof *inputs->parents);
    inputs->opened = zt_calloc(ctx, length, sizeof *inputs->opened);
    if (!inputs->parents || !inputs->opened) return ZT_ENOMEM;
    inputs->count = (int)length;
    for (int i = 0; i < inputs->count && status == ZT_OK; i++) status = open_one(inputs, i, zt_recipe_model(recipe, i));
    return status;
}

void merge_close(merge_inputs *inputs)
{
    for (int i = 0; i < inputs->count; i++) {
        zt_adapted_free(inputs->opened[i].adapted);
        zt_adapters_close(&inputs->opened[i].adapters);
        zt_checkpoint_close(inputs->opened[i].model);
    }
    zt_free(inputs->cli->ctx, inputs->parents);
    zt_free(inputs->cli->ctx, inputs->opened);
}
