/* moe_gates.c - the rows of a mixture's routers, from prompts: hidden states of the base model, or its embeddings.
 *
 * mergekit-moe's rules (moe/router.py, as facts): BOS in front of every prompt; the mean over an expert's positive prompts, less
 * that over its negative ones, divided by its length. The hidden state of a layer is what comes into it.
 */
#include "tools/zt-dna/moe.h"

#include <math.h>
#include <string.h>

typedef struct gate_maker {
    moe_inputs *inputs;
    zt_ctx *ctx;
    zt_gguf *gguf; /* the base, as zt-run opens it */
    zt_vocab *vocab;
    zt_engine *engine;
    zt_prog *program;
    zt_store store;
    int *states;   /* [layers] values of the program */
    int last_step; /* that makes the last of them */
    const zt_moe_shape *shape;
} gate_maker;

/* ---- the program -------------------------------------------------------------------------------- */

/* What comes into a layer is what its first norm reads. */
static zt_status find_states(gate_maker *maker)
{
    const zt_prog *program = maker->program;
    for (int64_t layer = 0; layer < maker->shape->layers; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%lld.attn_norm.weight", (long long)layer);
        maker->states[layer] = -1;
        for (int step = 0; step < zt_prog_n_steps(program) && maker->states[layer] < 0; step++)
            for (int k = 1; k < ZT_MAX_IN; k++) {
                int input = zt_prog_step(program, step)->in[k];
                const zt_value *value = input >= 0 ? zt_prog_value(program, input) : NULL;
                if (!value || value->kind != ZT_VALUE_DATA || strcmp(value->tensor, name)) continue;
                maker->states[layer] = zt_prog_step(program, step)->in[0];
                maker->last_step = step;
            }
        if (maker->states[layer] < 0)
            return zt_fail(maker->ctx, ZT_ENOTSUP, "%s: no norm reads '%s'", maker->inputs->config->models[0], name);
    }
    return ZT_OK;
}

static zt_status open_program(gate_maker *maker)
{
    zt_llm_opts options = {.exact = true, .kv = ZT_F32};
    maker->engine = zt_engine_open(maker->ctx, "cpu", &(zt_engine_opts){.threads = dna_threads(maker->inputs->cli)});
    maker->program = maker->engine ? zt_llm_program(maker->gguf, &options) : NULL;
    if (!maker->program) return zt_ctx_status(maker->ctx);
    maker->store = zt_gguf_store(maker->gguf);
    maker->states = zt_alloc_array(maker->ctx, (size_t)maker->shape->layers, sizeof *maker->states);
    return maker->states ? find_states(maker) : ZT_ENOMEM;
}

/* ---- one prompt --------------------------------------------------------------------------------- */

static zt_status read_ids(gate_maker *maker, const char *prompt, zt_ids *ids)
{
    unsigned flags = ZT_TOK_SPECIAL | (zt_vocab_bos(maker->vocab) >= 0 ? ZT_TOK_BOS : 0);
    zt_status status = zt_vocab_encode(maker->vocab, prompt, strlen(prompt), flags, ids);
    if (status == ZT_OK && !ids->count)
        status = zt_fail(maker->ctx, ZT_EDATA, "%s: a prompt without tokens", zt_moe_recipe_name(maker->inputs->recipe));
    return status;
}

/* An input of lib/llm's forward passes, for a text from its beginning. */
static zt_status put_input(gate_maker *maker, zt_interpreter *interpreter, int value_id, const zt_ids *ids)
{
    const char *name = zt_prog_value(maker->program, value_id)->name;
    const int64_t count = zt_type_count(&zt_interpreter_bound(interpreter)->type[value_id]);
    int32_t *values = zt_alloc_array(maker->ctx, (size_t)count + 1, sizeof *values);
    if (!values) return ZT_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        values[i] = !strcmp(name, "ids")                             ? ids->id[i]
                    : !strcmp(name, "pos") || !strcmp(name, "table") ? (int32_t)i
                    : !strcmp(name, "rows")                          ? (int32_t)(ids->count - 1)
                                                                     : 0; /* seq */
    zt_status status = zt_interpreter_put(interpreter, value_id, values);
    zt_free(maker->ctx, values);
    return status;
}

/* Adds the state of the last token, or the mean of all, of each layer. */
static zt_status add_states(gate_maker *maker, zt_interpreter *interpreter, int64_t tokens, double *sums)
{
    const int64_t width = maker->shape->width;
    const bool all = maker->inputs->config->gates == ZT_MOE_HIDDEN_AVERAGE;
    for (int64_t layer = 0; layer < maker->shape->layers; layer++) {
        const float *values = zt_interpreter_get(interpreter, maker->states[layer]);
        if (!values) return zt_ctx_status(maker->ctx);
        for (int64_t token = all ? 0 : tokens - 1; token < tokens; token++)
            for (int64_t i = 0; i < width; i++)
                sums[layer * width + i] += (double)values[token * width + i] / (double)(all ? tokens : 1);
    }
    return ZT_OK;
}

static zt_status add_hidden(gate_maker *maker, const zt_ids *ids, double *sums)
{
    const int64_t tokens = (int64_t)ids->count;
    const zt_binding bindings[] = {{"n", tokens}, {"m", 1}, {"ctx", (tokens + ZT_LLM_BLOCK) / ZT_LLM_BLOCK * ZT_LLM_BLOCK}};
    zt_interpreter *interpreter = zt_interpreter_open(maker->engine, maker->program, &maker->store, bindings, 3, false);
    zt_status status = interpreter ? ZT_OK : zt_ctx_status(maker->ctx);
    for (int i = 0; i < zt_prog_count(maker->program, ZT_VALUE_IN) && status == ZT_OK; i++)
        status = put_input(maker, interpreter, zt_prog_nth(maker->program, ZT_VALUE_IN, i), ids);
    for (int step = 0; step < maker->last_step && status == ZT_OK; step++)
        status = zt_cli_interrupted() ? zt_fail(maker->ctx, ZT_EINTR, "interrupted") : zt_interpreter_step(interpreter, step);
    if (status == ZT_OK) status = add_states(maker, interpreter, tokens, sums);
    zt_interpreter_close(interpreter);
    return status;
}

/* The embeddings of a prompt's tokens, in each layer. */
static zt_status add_embeddings(gate_maker *maker, const zt_ids *ids, double *sums)
{
    zt_checkpoint *base = maker->inputs->models[0];
    const int64_t tensor = zt_checkpoint_find(base, "token_embd.weight"), width = maker->shape->width;
    zt_entry entry;
    zt_checkpoint_get(base, tensor, &entry);
    const size_t row_bytes = (size_t)(entry.bytes / (uint64_t)maker->shape->vocab);
    char *raw = zt_alloc(maker->ctx, row_bytes + 1);
    float *row = zt_alloc_array(maker->ctx, (size_t)width + 1, sizeof *row);
    zt_status status = raw && row ? ZT_OK : ZT_ENOMEM;
    for (size_t k = 0; k < ids->count && status == ZT_OK; k++) {
        if (ids->id[k] >= maker->shape->vocab)
            status = zt_fail(maker->ctx, ZT_EDATA, "%s: token %d has no embedding: there are %lld",
                             maker->inputs->config->models[0], ids->id[k], (long long)maker->shape->vocab);
        if (status == ZT_OK) status = zt_checkpoint_read(base, tensor, (uint64_t)ids->id[k] * row_bytes, raw, row_bytes);
        if (status == ZT_OK) zt_dtype_convert(entry.type.dtype, raw, ZT_F32, row, width);
        for (int64_t i = 0; i < width && status == ZT_OK; i++) sums[i] += row[i];
    }
    for (int64_t i = width; i < maker->shape->layers * width; i++) sums[i] = sums[i % width];
    zt_free(maker->ctx, raw);
    zt_free(maker->ctx, row);
    return status;
}

/* ---- one expert --------------------------------------------------------------------------------- */

static void normalize_rows(double *values, int64_t rows, int64_t width)
{
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (int64_t i = 0; i < width; i++) sum += values[row * width + i] * values[row * width + i];
        double length = sqrt(sum) > 1e-8 ? sqrt(sum) : 1e-8;
        for (int64_t i = 0; i < width; i++) values[row * width + i] /= length;
    }
}

/* The mean over prompts of hidden states; of embeddings their sum as a direction. */
static zt_status read_prompts(gate_maker *maker, const char *const *prompts, int count, double *out)
{
    const bool embeddings = maker->inputs->config->gates == ZT_MOE_CHEAP_EMBED;
    const int64_t layers = maker->shape->layers, width = maker->shape->width;
    zt_status status = ZT_OK;
    memset(out, 0, (size_t)(layers * width) * sizeof *out);
    for (int k = 0; k < count && status == ZT_OK; k++) {
        zt_ids ids = {0};
        status = read_ids(maker, prompts[k], &ids);
        if (status == ZT_OK) status = embeddings ? add_embeddings(maker, &ids, out) : add_hidden(maker, &ids, out);
        zt_ids_fini(maker->ctx, &ids);
    }
    if (embeddings)
        normalize_rows(out, layers, width);
    else
        for (int64_t i = 0; i < layers * width; i++) out[i] /= count;
    return status;
}

static zt_status make_expert(gate_maker *maker, int expert_index, int expert_count, double *sums, float *gates)
{
    const zt_moe_expert *expert = &maker->inputs->config->experts[expert_index];
    const int64_t layers = maker->shape->layers, width = maker->shape->width;
    double *negative = sums + layers * width;
    zt_status status = read_prompts(maker, expert->positive, expert->positive_count, sums);
    if (status == ZT_OK && expert->negative_count) {
        status = read_prompts(maker, expert->negative, expert->negative_count, negative);
        for (int64_t i = 0; i < layers * width; i++) sums[i] -= negative[i];
    }
    normalize_rows(sums, layers, width);
    for (int64_t layer = 0; layer < layers; layer++)
        for (int64_t i = 0; i < width; i++)
            gates[(layer * expert_count + expert_index) * width + i] = (float)sums[layer * width + i];
    return status;
}

/* Of gates that are nearly alike some experts are hardly used. */
static void warn_similar(const gate_maker *maker, const float *gates)
{
    int64_t similar = zt_moe_similar_layers(maker->ctx, maker->inputs->config, maker->shape, gates);
    if (similar > 0)
        zt_cli_note(maker->inputs->cli,
                    "warning: the prompts are similar: the gates of %lld of %lld layers have a condition number above 5",
                    (long long)similar, (long long)maker->shape->layers);
}

zt_status moe_prompt_gates(moe_inputs *inputs, const zt_moe_shape *shape, float *gates)
{
    zt_ctx *ctx = inputs->cli->ctx;
    const zt_moe_config *config = inputs->config;
    const int expert_count = config->expert_count + config->shared_count;
    gate_maker maker = {.inputs = inputs, .ctx = ctx, .shape = shape};
    double *sums = zt_alloc_array(ctx, (size_t)(shape->layers * shape->width) * 2 + 1, sizeof *sums);
    maker.gguf = sums ? zt_model_open(ctx, inputs->paths[0]) : NULL;
    maker.vocab = maker.gguf ? zt_vocab_open(maker.gguf) : NULL;
    zt_status status = maker.vocab ? ZT_OK : zt_ctx_status(ctx);
    if (status == ZT_OK && config->gates != ZT_MOE_CHEAP_EMBED) status = open_program(&maker);
    for (int k = 0; k < expert_count && status == ZT_OK; k++) {
        zt_progress(inputs->cli, &(zt_work){"gates", config->models[config->experts[k].model], "experts", k, expert_count});
        status = make_expert(&maker, k, expert_count, sums, gates);
    }
    if (status == ZT_OK) warn_similar(&maker, gates);
    zt_prog_free(maker.program);
    zt_engine_close(maker.engine);
    zt_vocab_free(maker.vocab);
    zt_gguf_close(maker.gguf);
    zt_free(ctx, maker.states);
    zt_free(ctx, sums);
    return status;
}
