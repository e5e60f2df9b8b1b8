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
    in->opened[i] = s == ZT_OK ? dna_open_checkpoint(in->cli, path) : NULL;
    in->parent[i].model = in->opened[i];
    return in->opened[i] ? ZT_OK : zt_ctx_status(in->cli->ctx);
}

/* "MODEL", or "MODEL+ADAPTER" where no file has that name. */
static zt_status open_one(merge_inputs *in, int i, const char *name)
{
    zt_ctx *ctx = in->cli->ctx;
    zt_str path;
    zt_str_init(&path, ctx);
    zt_status s = find(in, name, &path);
    const char *plus = strrchr(name, '+');
    if (s == ZT_OK && plus && plus > name && plus[1] && !is_there(path.data)) {
        char *model = zt_strndup(ctx, name, (size_t)(plus - name));
        zt_str_clear(&path);
        s = model ? find(in, plus + 1, &path) : ZT_ENOMEM;
        if (s == ZT_OK) s = zt_cli_refuse_same(in->cli, path.data, in->cli->output);
        in->lora[i] = s == ZT_OK ? zt_lora_open(ctx, path.data) : NULL;
        in->parent[i].lora = in->lora[i];
        if (s == ZT_OK && !in->lora[i]) s = zt_ctx_status(ctx);
        zt_str_clear(&path);
        if (s == ZT_OK) s = find(in, model, &path);
        zt_free(ctx, model);
    }
    if (s == ZT_OK) s = open_model(in, i, path.data);
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
    in->opened = zt_calloc(ctx, n, sizeof(zt_checkpoint *));
    in->lora = zt_calloc(ctx, n, sizeof(zt_lora *));
    if (!in->parent || !in->opened || !in->lora) return ZT_ENOMEM;
    in->n = (int)n;
    for (int i = 0; i < in->n && s == ZT_OK; i++) s = open_one(in, i, zt_recipe_model(r, i));
    return s;
}

void merge_close(merge_inputs *in)
{
    for (int i = 0; i < in->n; i++) {
        zt_checkpoint_close(in->opened[i]);
        zt_lora_close(in->lora[i]);
    }
    zt_free(in->cli->ctx, in->parent);
    zt_free(in->cli->ctx, in->opened);
    zt_free(in->cli->ctx, in->lora);
}
