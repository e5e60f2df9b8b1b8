/* moe.c - zt-dna moe: a mixture of experts made of several models, by a recipe of mergekit-moe's schema. */
#include "tools/zt-dna/moe.h"

#include <string.h>
#include <unistd.h>

/* The path as it is, in the directory of --models, or beside the recipe. */
static char *find_model(zt_cli *cli, const char *recipe, const char *name)
{
    const char *slash = strrchr(recipe, '/');
    zt_str path;
    zt_str_init(&path, cli->ctx);
    zt_status status = zt_str_puts(&path, name);
    for (int place = 0; place < 2 && status == ZT_OK && *name != '/' && access(path.data, F_OK) != 0; place++) {
        if (place == 0 ? !dna_opt.models : !slash) continue;
        zt_str_clear(&path);
        status = place == 0 ? zt_str_printf(&path, "%s/%s", dna_opt.models, name)
                            : zt_str_printf(&path, "%.*s%s", (int)(slash + 1 - recipe), recipe, name);
    }
    char *found = status != ZT_OK ? NULL : zt_strdup(cli->ctx, access(path.data, F_OK) == 0 ? path.data : name);
    zt_str_fini(&path);
    return found;
}

static zt_status open_models(moe_inputs *inputs, const char *recipe)
{
    zt_cli *cli = inputs->cli;
    const int count = inputs->config->model_count;
    inputs->paths = zt_calloc(cli->ctx, (size_t)count, sizeof(char *));
    inputs->models = zt_calloc(cli->ctx, (size_t)count, sizeof(zt_checkpoint *));
    zt_status status = inputs->paths && inputs->models ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < count && status == ZT_OK; i++) {
        inputs->paths[i] = find_model(cli, recipe, inputs->config->models[i]);
        status = inputs->paths[i] ? zt_cli_refuse_same(cli, inputs->paths[i], cli->output) : ZT_ENOMEM;
        if (status == ZT_OK) inputs->models[i] = dna_open_checkpoint(cli, inputs->paths[i]);
        if (status == ZT_OK && !inputs->models[i]) status = zt_ctx_status(cli->ctx);
    }
    return status;
}

static void close_models(moe_inputs *inputs)
{
    const int count = inputs->config ? inputs->config->model_count : 0;
    for (int i = 0; inputs->models && i < count; i++) zt_checkpoint_close(inputs->models[i]);
    for (int i = 0; inputs->paths && i < count; i++) zt_free(inputs->cli->ctx, inputs->paths[i]);
    zt_free(inputs->cli->ctx, inputs->models);
    zt_free(inputs->cli->ctx, inputs->paths);
}

static void warn_alike(const moe_inputs *inputs)
{
    const zt_moe_config *config = inputs->config;
    bool alike = config->expert_count > 1;
    for (int i = 1; i < config->expert_count; i++) alike = alike && config->experts[i].model == config->experts[0].model;
    if (alike)
        zt_cli_note(inputs->cli, "warning: all %d experts are %s: without training the mixture gives what that model gives",
                    config->expert_count, config->models[config->experts[0].model]);
}

static zt_status write_mixture(moe_inputs *inputs, const dna_options *options)
{
    zt_cli *cli = inputs->cli;
    const zt_moe_config *config = inputs->config;
    zt_moe_shape shape = {0};
    zt_status status = zt_moe_shape_of(cli->ctx, inputs->models[0], &shape);
    if (status != ZT_OK) return status;
    size_t experts = (size_t)(config->expert_count + config->shared_count);
    float *gates = zt_calloc(cli->ctx, (size_t)shape.layers * experts * (size_t)shape.width + 1, sizeof *gates);
    /* what does not fit is refused before prompts are run */
    zt_checkpoint *mixture = gates ? zt_moe_new(cli->ctx, inputs->recipe, inputs->models, gates, cli->seed) : NULL;
    status = mixture ? ZT_OK : zt_ctx_status(cli->ctx);
    zt_checkpoint_close(mixture);
    if (status == ZT_OK) warn_alike(inputs);
    if (status == ZT_OK && (config->gates == ZT_MOE_RANDOM || config->gates == ZT_MOE_UNIFORM))
        zt_moe_random_gates(config, &shape, cli->seed, gates);
    else if (status == ZT_OK)
        status = moe_prompt_gates(inputs, &shape, gates);
    mixture = status == ZT_OK ? zt_moe_new(cli->ctx, inputs->recipe, inputs->models, gates, cli->seed) : NULL;
    if (status == ZT_OK) status = mixture ? dna_write_made(cli, options, mixture, "moe") : zt_ctx_status(cli->ctx);
    zt_free(cli->ctx, gates);
    return status;
}

zt_status dna_moe(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    (void)count;
    moe_inputs inputs = {.cli = cli};
    if (!cli->output || !*cli->output) return zt_fail(cli->ctx, ZT_EUSAGE, "moe: no output: specify one with -o FILE");
    zt_moe_recipe *recipe = zt_moe_recipe_open(cli->ctx, operands[0]);
    inputs.recipe = recipe;
    inputs.config = zt_moe_recipe_get(recipe);
    zt_status status = recipe ? open_models(&inputs, operands[0]) : zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = write_mixture(&inputs, options);
    close_models(&inputs);
    zt_moe_recipe_free(recipe);
    return status;
}
