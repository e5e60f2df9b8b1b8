/* moe.h - a mixture of experts made of models of one shape (sparse upcycling): attention, norms and embeddings of a base model, and the
 * feed-forwards of each model as an expert.
 *
 * A recipe says which; it has the schema of mergekit-moe (docs/moe.md there, as facts), as YAML or JSON.
 *
 *     zt_moe_recipe *recipe = zt_moe_recipe_open(ctx, "moe.yaml");
 *     const zt_moe_config *config = zt_moe_recipe_get(recipe);   // the caller opens config->models, and computes the gates
 *     zt_checkpoint *moe = zt_moe_new(ctx, recipe, models, gates, &(zt_moe_opts){0});
 *     zt_checkpoint_close(moe);                                   // before the models
 *
 * The result is a checkpoint whose tensors are made as they are read: of a GGUF of Mixtral (arch "llama" with experts),
 * Qwen2MoE or Qwen3MoE.
 */
#ifndef ZT_MOE_H
#define ZT_MOE_H

#include "lib/io/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the rows of the routers are made from. */
typedef enum zt_moe_gates {
    ZT_MOE_HIDDEN,         /* hidden states of the prompts' last tokens, in each layer */
    ZT_MOE_HIDDEN_AVERAGE, /* hidden states, averaged over the tokens */
    ZT_MOE_CHEAP_EMBED,    /* embeddings of the prompts' tokens, the same in each layer */
    ZT_MOE_RANDOM,         /* normal distribution */
    ZT_MOE_UNIFORM         /* uniform distribution between -1/sqrt(width) and 1/sqrt(width) */
} zt_moe_gates;

typedef struct zt_moe_expert {
    int model; /* index into zt_moe_config.models */
    const char **positive, **negative;
    int positive_count, negative_count; /* prompts */
    double noise_scale;                 /* of normal noise on the weights; 0: none */
    double residual_scale;              /* factor of the expert's output; 1: none */
} zt_moe_expert;

typedef struct zt_moe_config {
    const char **models; /* [model_count] as the recipe names them, each once; model 0 is the base */
    int model_count;
    zt_moe_expert *experts; /* [expert_count] the routed ones, then a shared one if there is one */
    int expert_count, shared_count;
    int64_t used; /* experts per token */
    zt_moe_gates gates;
} zt_moe_config;

typedef struct zt_moe_recipe zt_moe_recipe;

/* From a file, or "-" for stdin. ZT_EDATA: a key that is not supported, or what contradicts itself, with its line. */
zt_moe_recipe *zt_moe_recipe_open(zt_ctx *ctx, const char *path);
/* The same from text, which is copied; `name` is for messages. */
zt_moe_recipe *zt_moe_recipe_parse(zt_ctx *ctx, const char *name, const char *text, size_t length);
void zt_moe_recipe_free(zt_moe_recipe *recipe);                      /* after what was made of it. NULL: no effect */
const zt_moe_config *zt_moe_recipe_get(const zt_moe_recipe *recipe); /* lives as long as the recipe; NULL: NULL */
const char *zt_moe_recipe_name(const zt_moe_recipe *recipe);         /* the file's, for messages; NULL: NULL */

typedef struct zt_moe_shape { /* of the base model */
    int64_t layers, width, vocab;
} zt_moe_shape;
/* ZT_EDATA: the base is not a GGUF of a language model; ZT_ENOTSUP: its architecture cannot become a mixture. */
zt_status zt_moe_shape_of(zt_ctx *ctx, zt_checkpoint *base, zt_moe_shape *shape);

/* Random gates by the recipe: f32[layers, experts, width], where experts counts the shared one. */
void zt_moe_random_gates(const zt_moe_config *config, const zt_moe_shape *shape, uint64_t seed, float *gates);
/* The number of layers whose gates are too similar: the ratio of their largest and smallest singular value is above 5, as
 * mergekit-moe warns. gates: as above. -1: wrong arguments, or out of memory. */
int64_t zt_moe_similar_layers(zt_ctx *ctx, const zt_moe_config *config, const zt_moe_shape *shape, const float *gates);

/* models[config->model_count] and gates, f32[layers, experts, width] (the shared one last), are borrowed until the checkpoint is
 * closed. seed: of noise. ZT_EDATA, ZT_ESHAPE, ZT_ENOTSUP: the models do not fit; the message names them. */
zt_checkpoint *zt_moe_new(zt_ctx *ctx, const zt_moe_recipe *recipe, zt_checkpoint *const *models, const float *gates,
                          uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
