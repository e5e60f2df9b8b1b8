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
static zt_status find(const merge_inputs *in, const char *name, zt_str *out)
{
    const char *config = in->o->config;
    for (int i = 0; config && i < in->n_operands; i++)
        if (!strcmp(in->operand[i], name) || !strcmp(base_name(in->operand[i]), base_name(name)))
            return zt_str_puts(out, in->operand[i]);
    if (is_there(name) || !config || *name == '/') return zt_str_puts(out, name);
    if (in->o->models) {
        zt_status s = zt_str_printf(out, "%s/%s", in->o->models, name);
        if (s != ZT_OK || is_there(out->data)) return s;
        zt_str_clear(out);
    }
    if (strchr(config, '/')) {
        zt_status s = zt_str_printf(out, "%.*s%s", (int)(base_name(config) - config), config, name);
        if (s != ZT_OK || is_there(out->data)) return s;
        zt_str_clear(out);
    }
    return zt_str_puts(out, name);
}

/* Is the output a file in the folder that is an input? */
static zt_status refuse_inside(zt_cli *cli, const char *path)
{
    struct stat folder, here;
    if (!strcmp(path, "-") || stat(path, &folder) || !S_ISDIR(folder.st_mode)) return ZT_OK;
    size_t n = (size_t)(base_name(cli->output) - cli->output);
    char *parent = n ? zt_strndup(cli->ctx, cli->output, n) : zt_strdup(cli->ctx, ".");
    if (!parent) return ZT_ENOMEM;
    bool inside =
        stat(parent, &here) == 0 && here.st_dev == folder.st_dev && here.st_ino == folder.st_ino;
    zt_free(cli->ctx, parent);
    return inside ? zt_fail(cli->ctx, ZT_ECREATE, "%s: would be in the folder of an input",
                            cli->output)
                  : ZT_OK;
}

static zt_status open_model(merge_inputs *in, int i, const char *path)
{
    zt_status s = zt_cli_refuse_same(in->cli, path, in->cli->output);
    if (s == ZT_OK) s = refuse_inside(in->cli, path);
    in->opened[i].model = s == ZT_OK ? dna_open_checkpoint(in->cli, path) : NULL;
    in->parent[i].model = in->opened[i].model;
    return in->opened[i].model ? ZT_OK : zt_ctx_status(in->cli->ctx);
}

/* Where text[0..n) is, with =SCALE behind it or not; *scale NULL: it may have none. */
static zt_status find_piece(const merge_inputs *in, const char *text, size_t n, double *scale,
                            zt_str *out)
{
    char *name = zt_strndup(in->cli->ctx, text, n);
    if (name && scale) name[zt_adapter_split(name, scale)] = 0;
    zt_str_clear(out);
    zt_status s = name ? find(in, name, out) : ZT_ENOMEM;
    zt_free(in->cli->ctx, name);
    return s;
}

/* The longest beginning, up to a '+' or the end, that is a file's name; else up to the first '+'.
 * *out: where that file is. */
static zt_status first_piece(const merge_inputs *in, const char *text, double *scale, size_t *n,
                             zt_str *out)
{
    size_t all = strlen(text), shortest = strcspn(text, "+");
    for (*n = all;; (*n)--) {
        if (*n > shortest && *n < all && text[*n] != '+') continue;
        zt_status s = find_piece(in, text, *n, scale, out);
        if (s != ZT_OK || *n <= shortest || is_there(out->data)) return s;
    }
}

static zt_status open_adapters(merge_inputs *in, int i, const char *text, zt_str *path)
{
    zt_cli *cli = in->cli;
    zt_adapters *a = &in->opened[i].adapters;
    zt_status s = ZT_OK;
    for (size_t n; *text == '+' && s == ZT_OK; text += n + 1) {
        double scale;
        s = first_piece(in, text + 1, &scale, &n, path);
        if (s == ZT_OK && !n)
            s = zt_fail(cli->ctx, ZT_EUSAGE, "%s: a name was expected behind '+'", text);
        if (s == ZT_OK) s = zt_cli_refuse_same(cli, path->data, cli->output);
        if (s == ZT_OK) s = zt_adapters_add(cli, a, path->data, scale);
    }
    if (s != ZT_OK || !a->n) return s;
    in->opened[i].adapted =
        zt_adapted_new(cli->ctx, in->opened[i].model, a->adapter, a->n,
                       &(zt_adapted_opts){.floats = true, .threads = dna_threads(cli)});
    if (!in->opened[i].adapted) return zt_ctx_status(cli->ctx);
    in->parent[i].adapted = in->opened[i].adapted;
    in->parent[i].model = zt_adapted_checkpoint(in->opened[i].adapted);
    zt_adapters_tell(cli, in->parent[i].adapted);
    return ZT_OK;
}

/* "MODEL", or "MODEL+ADAPTER[=SCALE]..." where no file has that name. */
static zt_status open_one(merge_inputs *in, int i, const char *name)
{
    zt_str path;
    size_t n = 0;
    zt_str_init(&path, in->cli->ctx);
    zt_status s = first_piece(in, name, NULL, &n, &path);
    if (s == ZT_OK) s = open_model(in, i, path.data);
    if (s == ZT_OK) s = open_adapters(in, i, name + n, &path);
    zt_str_fini(&path);
    return s;
}

/* Beside --config an operand stands for a model of the recipe. */
static zt_status check_operands(const merge_inputs *in, const zt_recipe *r)
{
    for (int i = 0; in->o->config && i < in->n_operands; i++) {
        bool used = false;
        for (int k = 0; k < zt_recipe_count(r) && !used; k++)
            used = !strcmp(base_name(in->operand[i]), base_name(zt_recipe_model(r, k)));
        if (!used)
            return zt_fail(in->cli->ctx, ZT_EUSAGE, "%s: the recipe has no such model",
                           in->operand[i]);
    }
    return ZT_OK;
}

zt_status merge_open(merge_inputs *in, const zt_recipe *r)
{
    zt_ctx *ctx = in->cli->ctx;
    size_t n = (size_t)zt_recipe_count(r);
    zt_status s = check_operands(in, r);
    if (s != ZT_OK) return s;
    in->parent = zt_calloc(ctx, n, sizeof *in->parent);
    in->opened = zt_calloc(ctx, n, sizeof *in->opened);
    if (!in->parent || !in->opened) return ZT_ENOMEM;
    in->n = (int)n;
    for (int i = 0; i < in->n && s == ZT_OK; i++) s = open_one(in, i, zt_recipe_model(r, i));
    return s;
}

void merge_close(merge_inputs *in)
{
    for (int i = 0; i < in->n; i++) {
        zt_adapted_free(in->opened[i].adapted);
        zt_adapters_close(&in->opened[i].adapters);
        zt_checkpoint_close(in->opened[i].model);
    }
    zt_free(in->cli->ctx, in->parent);
    zt_free(in->cli->ctx, in->opened);
}
