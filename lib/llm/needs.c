/* needs.c - a language model before its weights are read: options with their defaults, checks, the program, and the
 * memory it needs. */
#include "lib/base/require.h"
#include "lib/llm/llm_internal.h"
#include "lib/tensor/block_row.h"

#include <inttypes.h>
#include <string.h>

#define DEFAULT_CTX   4096
#define DEFAULT_CHUNK 512
#define MAX_SEQ       4096

/* ---- options --------------------------------------------------------------------------------- */

static int64_t round_up(int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

static int64_t value_or_default(int64_t asked, int64_t otherwise) { return asked ? asked : otherwise; }

static zt_status check_opts(zt_ctx *ctx, const zt_llm_opts *opts)
{
    if (opts->ctx_len < 1 || opts->ctx_len > INT32_MAX - ZT_KV_BLOCK)
        return zt_fail(ctx, ZT_EUSAGE, "invalid context length: %" PRId64 " tokens", opts->ctx_len);
    if (opts->chunk < 1 || opts->n_seq < 1 || opts->n_seq > MAX_SEQ)
        return zt_fail(ctx, ZT_EUSAGE, "invalid chunk (%" PRId64 ") or number of sequences (%" PRId64 ")", opts->chunk,
                       opts->n_seq);
    if (opts->cache_len < 0 || opts->cache_len > INT32_MAX - ZT_KV_BLOCK)
        return zt_fail(ctx, ZT_EUSAGE, "invalid cache length: %" PRId64 " tokens", opts->cache_len);
    if (!zt_is_cache_type(opts->kv) || !zt_is_cache_type(opts->kv_values))
        return zt_fail(ctx, ZT_EUSAGE, "unsupported data type of the KV cache, expected " ZT_CACHE_TYPES);
    return ZT_OK;
}

/* Refuses a cache of blocks where a row's heads are not whole blocks, or where keys and values are one row. */
static zt_status check_cache(const zt_llm *model, const zt_gguf *gguf)
{
    const zt_llm_opts *opts = &model->opts;
    const zt_dtype blocks = zt_is_block_cache(opts->kv) ? opts->kv : opts->kv_values;
    const int64_t block = zt_dtype_get(blocks)->block;
    if (opts->forward && opts->kv != opts->kv_values)
        return zt_fail(model->ctx, ZT_ENOTSUP, "KV cache of %s keys and %s values: the caches of a program have one type",
                       zt_dtype_get(opts->kv)->name, zt_dtype_get(opts->kv_values)->name);
    if (opts->forward || model->hyper.arch->encoder) return ZT_OK;
    if (model->hyper.parts & ZT_PART_LATENT && (zt_is_block_cache(blocks) || opts->kv != opts->kv_values))
        return zt_fail(model->ctx, ZT_ENOTSUP, "%s: the KV cache of latent attention is f16 or f32, not %s", zt_gguf_name(gguf),
                       zt_dtype_get(blocks)->name);
    for (int64_t layer = 0; layer < model->hyper.n_layers; layer++)
        if (model->hyper.layer[layer].head % block)
            return zt_fail(model->ctx, ZT_ENOTSUP,
                           "%s: a KV cache of %s needs heads of a multiple of %" PRId64 " columns: layer %" PRId64
                           " has %" PRId64,
                           zt_gguf_name(gguf), zt_dtype_get(blocks)->name, block, layer, model->hyper.layer[layer].head);
    return ZT_OK;
}

/* Refuses what this model cannot do. */
static zt_status check_model(const zt_llm *model, const zt_gguf *gguf)
{
    const zt_llm_opts *opts = &model->opts;
    if ((opts->hidden || opts->head) && (opts->forward || opts->planned || opts->embed || opts->ranks))
        return zt_fail(model->ctx, ZT_EUSAGE,
                       "%s: a multi-token-prediction head does not work with a program, a plan, embeddings or several ranks",
                       zt_gguf_name(gguf));
    if (model->hyper.arch->encoder && !model->opts.embed)
        return zt_fail(model->ctx, ZT_ENOTSUP, "%s: %s is an encoder: it computes embeddings, not text", zt_gguf_name(gguf),
                       model->hyper.arch->name);
    if (model->hyper.classifies && !model->opts.embed)
        return zt_fail(model->ctx, ZT_ENOTSUP, "%s: is a reranker: it computes scores of texts (zt-run --embed), not text",
                       zt_gguf_name(gguf));
    if (model->hyper.parts & ZT_PART_POSITIONS && model->opts.ctx_len > model->hyper.ctx_train)
        return zt_fail(model->ctx, ZT_EUSAGE, "%s: a context of %" PRId64 " tokens exceeds the model's %" PRId64 " positions",
                       zt_gguf_name(gguf), model->opts.ctx_len, model->hyper.ctx_train);
    return ZT_OK;
}

static zt_status read_model(zt_llm *model, zt_gguf *gguf, const zt_llm_opts *opts)
{
    if (opts->forward) return zt_forward_read(gguf, opts, &model->hyper);
    zt_status status = zt_hyper_read(gguf, &model->hyper);
    if (status == ZT_OK) status = zt_weights_check(gguf, &model->hyper);
    if (status != ZT_OK || !(opts->hidden || opts->head)) return status;
    status = zt_hyper_read_head(gguf, &model->hyper);
    if (status == ZT_OK) status = zt_weights_check_head(gguf, &model->hyper);
    if (opts->head) model->hyper.recurrent = false; /* nothing of it is */
    return status;
}

/* `context`: as it was asked for. `kv_given`: the type of the cache was. */
static zt_prog *build_program(const zt_llm *model, const zt_gguf *gguf, int64_t context, bool kv_given)
{
    const zt_llm_opts *opts = &model->opts;
    zt_build_opts build_opts = {.exact = opts->exact,
                                .kv = opts->kv,
                                .kv_values = opts->kv_values,
                                .ctx = context,
                                .n_seq = opts->n_seq,
                                .embed = opts->embed,
                                .hidden = opts->hidden,
                                .head = opts->head,
                                .draws = opts->draws,
                                .slots = zt_llm_slots(opts->n_seq)};
    if (!opts->forward) return zt_llm_build(gguf, &model->hyper, &build_opts);
    zt_dtype kv = kv_given || opts->exact ? opts->kv : ZT_DTYPE_COUNT;
    return zt_forward_build(model->ctx, opts->forward,
                            &(zt_forward_opts){opts->exact, kv, opts->n_seq, zt_llm_slots(opts->n_seq), opts->embed});
}

zt_status zt_llm_executable(zt_llm *model, zt_gguf *gguf, const zt_llm_opts *opts)
{
    zt_llm_opts *filled = &model->opts;
    zt_status status = read_model(model, gguf, opts);
    if (status != ZT_OK) return status;
    *filled = *opts;
    int64_t default_ctx = model->hyper.ctx_train < DEFAULT_CTX ? model->hyper.ctx_train : DEFAULT_CTX;
    filled->ctx_len = value_or_default(filled->ctx_len, default_ctx);
    filled->n_seq = value_or_default(filled->n_seq, 1);
    filled->chunk = value_or_default(filled->chunk, DEFAULT_CHUNK);
    bool kv_given = filled->kv != ZT_DTYPE_COUNT && filled->kv != 0; /* 0, as in options that say nothing */
    if (!kv_given) filled->kv = filled->exact ? ZT_F32 : ZT_F16;
    if (filled->kv_values == ZT_DTYPE_COUNT || filled->kv_values == 0) filled->kv_values = filled->kv;
    /* Long or short rope factors go by the context asked for, however few tokens will come. */
    int64_t context = filled->ctx_len;
    if (filled->max_tokens > 0 && filled->max_tokens < filled->ctx_len) filled->ctx_len = filled->max_tokens;
    status = check_opts(model->ctx, filled);
    if (status == ZT_OK) status = check_model(model, gguf);
    if (status == ZT_OK) status = check_cache(model, gguf);
    if (status != ZT_OK) return status;
    model->cache_rows = round_up(filled->cache_len > filled->ctx_len ? filled->cache_len : filled->ctx_len, ZT_KV_BLOCK);
    if (filled->chunk > model->cache_rows || model->hyper.arch->encoder)
        filled->chunk = model->cache_rows; /* an encoder sees a text at once */
    filled->draws = filled->draws && !filled->embed && !filled->head && !filled->planned && !filled->forward && filled->engine &&
                    zt_drawing_may(filled->engine, model->hyper.vocab);
    model->prog = build_program(model, gguf, context, kv_given);
    return model->prog ? ZT_OK : zt_ctx_status(model->ctx);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes of weights; of a head those of its layer alone, as the others are its model's. */
static size_t data_bytes(const zt_llm *model)
{
    size_t sum = 0;
    for (int i = 0; i < zt_prog_count(model->prog, ZT_VALUE_DATA); i++) {
        const zt_value *value = zt_prog_value(model->prog, zt_prog_nth(model->prog, ZT_VALUE_DATA, i));
        if (!model->opts.head || strncmp(value->tensor, "blk.", 4) == 0) sum += zt_type_bytes(&value->type);
    }
    return sum;
}

/* Bytes of the caches, whose rows are positions, or of the states of recurrent layers. */
static size_t state_bytes(const zt_llm *model, bool recurrent)
{
    size_t sum = 0;
    for (int i = 0; i < zt_prog_count(model->prog, ZT_VALUE_STATE); i++) {
        zt_type type = zt_prog_value(model->prog, zt_prog_nth(model->prog, ZT_VALUE_STATE, i))->type;
        bool fixed = type.dim[0] >= 0;
        if (!fixed) type.dim[0] = model->cache_rows;
        if (fixed == recurrent) sum += zt_type_bytes(&type);
    }
    return sum;
}

/* Arena bytes of a value on an engine; 0 for an output that updates a state in place. */
static size_t arena_bytes(const zt_engine *e, const zt_bound *bound, int value)
{
    const zt_value *info = zt_prog_value(bound->prog, value);
    if (info->kind != ZT_VALUE_OP) return 0;
    const zt_step *step = zt_prog_step(bound->prog, info->index);
    for (int k = 0; k < zt_op_shares(step->op); k++)
        if (step->out[k] == value) return 0;
    return e->vt->value_bytes((zt_engine *)e, &bound->type[value]);
}

/* The most bytes of intermediate values alive at once; last[v] is the last step that reads v. */
static size_t peak_live_bytes(const zt_engine *e, const zt_bound *bound, const int *last)
{
    size_t live = 0, peak = 0;
    for (int index = 0; index < bound->n_steps; index++) {
        const zt_step *step = zt_prog_step(bound->prog, index);
        for (int slot = 0; slot < ZT_MAX_OUT; slot++)
            if (step->out[slot] >= 0) live += arena_bytes(e, bound, step->out[slot]);
        peak = live > peak ? live : peak;
        for (int slot = 0; slot < ZT_MAX_IN; slot++) {
            bool again = false; /* the same value twice among the inputs dies once */
            for (int j = 0; j < slot; j++) again |= step->in[j] == step->in[slot];
            if (!again && step->in[slot] >= 0 && last[step->in[slot]] == index) live -= arena_bytes(e, bound, step->in[slot]);
        }
    }
    return peak;
}

zt_status zt_llm_scratch(const zt_llm *model, size_t *out)
{
    zt_status status = ZT_OK;
    zt_binding symbols[] = {{"n", model->opts.chunk}, {"m", model->opts.n_seq}, {"ctx", model->cache_rows}};
    zt_bound *bound = zt_prog_bind(model->prog, symbols, 3);
    int *last = bound ? zt_calloc(model->ctx, (size_t)bound->n_values, sizeof *last) : NULL;
    if (!last) {
        status = zt_ctx_status(model->ctx);
        goto out;
    }
    for (int i = 0; i < bound->n_steps; i++)
        for (int slot = 0; slot < ZT_MAX_IN; slot++)
            if (zt_prog_step(model->prog, i)->in[slot] >= 0) last[zt_prog_step(model->prog, i)->in[slot]] = i;
    *out = peak_live_bytes(model->opts.engine, bound, last);
out:
    zt_free(model->ctx, last);
    zt_bound_free(bound);
    return status;
}

zt_llm_info zt_llm_get(const zt_llm *model)
{
    if (!model) return (zt_llm_info){0};
    return (zt_llm_info){
        .arch = model->hyper.arch->name,
        .n_layers = model->hyper.n_layers,
        .width = model->hyper.width,
        .vector = zt_llm_vector_length(model),
        .labels = model->hyper.classifies ? model->hyper.labels : 0,
        .n_heads = model->hyper.n_heads,
        .n_kv_heads = model->hyper.n_kv_heads,
        .head = model->hyper.head,
        .vocab = model->hyper.vocab,
        .ctx_train = model->hyper.ctx_train,
        .ctx_len = model->opts.ctx_len,
        .n_seq = model->opts.n_seq,
        .chunk = model->opts.chunk,
        .cache_len = model->cache_rows,
        .weight_bytes = data_bytes(model),
        .kv_bytes = state_bytes(model, false),
        .recurrent_bytes = state_bytes(model, true),
        .scratch_bytes = model->scratch,
        .hidden_bytes = model->opts.hidden ? zt_hidden_bytes(model->hyper.width, model->opts.ctx_len) : 0,
        .heads = model->hyper.extra_layers,
    };
}

zt_status zt_llm_plan(zt_gguf *gguf, const zt_llm_opts *opts, zt_llm_info *out)
{
    if (!gguf) return ZT_EUSAGE;
    ZT_REQUIRE(zt_gguf_ctx(gguf), opts && opts->engine && out, ZT_EUSAGE);
    zt_llm model = {.ctx = zt_gguf_ctx(gguf)};
    zt_status status = zt_llm_executable(&model, gguf, opts);
    if (status == ZT_OK) status = zt_llm_scratch(&model, &model.scratch);
    if (status == ZT_OK) *out = zt_llm_get(&model);
    zt_prog_free(model.prog);
    return status;
}

zt_prog *zt_llm_program(zt_gguf *gguf, const zt_llm_opts *opts)
{
    if (!gguf) return NULL;
    ZT_REQUIRE(zt_gguf_ctx(gguf), opts, NULL);
    zt_llm model = {.ctx = zt_gguf_ctx(gguf)};
    if (zt_llm_executable(&model, gguf, opts) == ZT_OK) return model.prog;
    zt_prog_free(model.prog);
    return NULL;
}
