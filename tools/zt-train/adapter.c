/* adapter.c - adapters as learners (--lora): a frozen model, and the matrices A and B of those that it changes. */
#include "tools/common/adapters.h"
#include "tools/zt-train/train_tool.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct train_adapter {
    zt_checkpoint *base;
    zt_llm_targets *targets;
    int64_t rank;
    double alpha;
    const char *model; /* as -m names it */
} train_adapter;

/* ---- options --------------------------------------------------------------------------------- */

/* "RANK,ALPHA" */
static zt_status parse_lora(zt_cli *cli, const char *text, train_adapter *adapter)
{
    enum { MOST = 65536 };
    char rank[16] = "", shown[80];
    const char *comma = strchr(text, ',');
    bool good = comma && comma - text < (int)sizeof rank && isdigit((unsigned char)text[0]);
    if (good) memcpy(rank, text, (size_t)(comma - text));
    good = good && zt_parse_i64(rank, &adapter->rank) && adapter->rank >= 1 && adapter->rank <= MOST &&
           zt_parse_double(comma + 1, &adapter->alpha) && isfinite(adapter->alpha) && adapter->alpha > 0;
    return good ? ZT_OK
                : zt_fail(
                      cli->ctx, ZT_EUSAGE,
                      "option '--lora': '%s' is not valid: expected RANK,ALPHA, a whole number from 1 to %d and a number above 0",
                      zt_escape(shown, sizeof shown, text, strlen(text)), MOST);
}

/* ---- the start ------------------------------------------------------------------------------- */

static bool is_adapter_weight(const train_learner *learner, const char *name)
{
    const char *end = strrchr(name, '.');
    (void)learner;
    return end && (!strcmp(end, ".lora_a") || !strcmp(end, ".lora_b"));
}

/* As PEFT: A by torch.nn.init.kaiming_uniform_(a=sqrt(5)), which is uniform within 1/sqrt(columns), B zeros. */
static void draw_adapter(train_learner *learner)
{
    for (int i = 0; i < learner->weight_count; i++) {
        train_weight *weight = &learner->weights[i];
        int64_t count = zt_type_count(&weight->type);
        bool b = !strcmp(strrchr(weight->name, '.'), ".lora_b");
        double bound = 1 / sqrt((double)weight->type.dim[1]);
        if (b) memset(weight->values, 0, zt_type_bytes(&weight->type));
        for (int64_t k = 0; k < count && !b; k++)
            weight->values[k] = (float)(bound * (2 * zt_uniform(learner->cli->seed, (uint64_t)i, (uint64_t)k) - 1));
    }
}

void train_adapter_report(const train_learner *learner, zt_trainer *trainer)
{
    const train_adapter *adapter = learner->adapter;
    double parameters = 0, states = 0, base = 0;
    for (int i = 0; i < zt_trainer_n_states(trainer); i++) {
        zt_type type = zt_trainer_state_type(trainer, i);
        states += (double)zt_type_bytes(&type);
        if (i < zt_trainer_n_weights(trainer)) parameters += (double)zt_type_count(&type);
    }
    for (int64_t i = 0; i < zt_checkpoint_count(adapter->base); i++) {
        zt_entry entry;
        zt_checkpoint_get(adapter->base, i, &entry);
        base += (double)entry.bytes;
    }
    zt_cli_note(learner->cli, "adapter of %d matrices: %.0f parameters, %.1f MB with the optimizer's moments; base: %.1f MB",
                zt_llm_targets_count(adapter->targets), parameters, states / 1e6, base / 1e6);
}

static zt_status check_modules(const train_learner *learner)
{
    const train_adapter *adapter = learner->adapter;
    for (int i = 0; i < zt_llm_targets_count(adapter->targets); i++) {
        const zt_llm_target *target = zt_llm_target_at(adapter->targets, i);
        if (target->module[0] || !learner->cli->output || !zt_adapter_is_folder(learner->cli->output)) continue;
        return zt_fail(learner->cli->ctx, ZT_ENOTSUP, "%s: no PEFT name is known for '%s': write a GGUF adapter instead",
                       adapter->model, target->tensor);
    }
    return ZT_OK;
}

static zt_status open_adapter(train_learner *learner, const train_options *options, zt_gguf *gguf)
{
    train_adapter *adapter = learner->adapter;
    zt_status status = parse_lora(learner->cli, options->lora, adapter);
    if (!status) status = zt_adapter_check_output(learner->cli);
    if (!status) adapter->targets = zt_llm_targets_new(gguf, options->lora_targets);
    if (!status && !adapter->targets) status = zt_ctx_status(learner->cli->ctx);
    if (!status) status = check_modules(learner);
    const zt_llm_adapter shape = {adapter->targets, adapter->rank, adapter->alpha / (double)adapter->rank};
    if (!status) learner->forward = zt_llm_training_adapter(gguf, options->ctx, &shape);
    return status || learner->forward ? status : zt_ctx_status(learner->cli->ctx);
}

zt_status train_adapter_open(train_learner *learner, const train_options *options, zt_gguf *gguf)
{
    zt_ctx *ctx = learner->cli->ctx;
    learner->adapter = zt_calloc(ctx, 1, sizeof *learner->adapter);
    if (learner->adapter) learner->adapter->model = options->model;
    zt_status status = learner->adapter ? open_adapter(learner, options, gguf) : ZT_ENOMEM;
    if (status) {
        zt_gguf_close(gguf);
        return status;
    }
    learner->adapter->base = zt_checkpoint_of_gguf(ctx, gguf); /* takes it over, also on failure */
    if (!learner->adapter->base) return zt_ctx_status(ctx);
    learner->below = zt_checkpoint_store(learner->adapter->base);
    status = train_learner_weights(learner, &(zt_store){0}, is_adapter_weight);
    if (status) return status;
    draw_adapter(learner);
    return ZT_OK;
}

void train_adapter_close(train_learner *learner)
{
    if (!learner->adapter) return;
    zt_checkpoint_close(learner->adapter->base);
    zt_llm_targets_free(learner->adapter->targets);
    zt_free(learner->cli->ctx, learner->adapter);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* B's rows in Hugging Face's order, of a GGUF whose rows are in pairs within each head. */
static zt_status put_unpaired(train_learner *learner, zt_writer *writer, const train_weight *weight, int64_t heads)
{
    int64_t rows = weight->type.dim[0], rank = weight->type.dim[1], head = rows / heads;
    float *out = zt_alloc(learner->cli->ctx, zt_type_bytes(&weight->type) + 1);
    if (!out) return ZT_ENOMEM;
    for (int64_t row = 0; row < rows; row++) {
        int64_t target = row / head * head + row % 2 * (head / 2) + row % head / 2;
        memcpy(out + target * rank, weight->values + row * rank, (size_t)rank * sizeof *out);
    }
    zt_status status = zt_writer_put(writer, out, zt_type_bytes(&weight->type));
    zt_free(learner->cli->ctx, out);
    return status;
}

/* The weight of a target; which: 'a' or 'b'. */
static const train_weight *find_weight(const train_learner *learner, const zt_llm_target *target, char which)
{
    char name[ZT_LLM_TARGET_NAME];
    int i = 0;
    snprintf(name, sizeof name, "%s.lora_%c", target->tensor, which);
    while (strcmp(learner->weights[i].name, name) != 0) i++;
    return &learner->weights[i];
}

static zt_status write_weights(void *user, zt_writer *writer)
{
    train_learner *learner = user;
    const zt_llm_targets *targets = learner->adapter->targets;
    bool folder = zt_adapter_is_folder(learner->cli->output);
    zt_status status = ZT_OK;
    for (int i = 0; i < zt_llm_targets_count(targets) && !status; i++) {
        const zt_llm_target *target = zt_llm_target_at(targets, i);
        const train_weight *a = find_weight(learner, target, 'a'), *b = find_weight(learner, target, 'b');
        status = zt_writer_put(writer, a->values, zt_type_bytes(&a->type));
        if (!status)
            status = folder && target->heads ? put_unpaired(learner, writer, b, target->heads)
                                             : zt_writer_put(writer, b->values, zt_type_bytes(&b->type));
    }
    return status;
}

static zt_status put_meta(const train_adapter *adapter, zt_meta *meta)
{
    const zt_meta *base = zt_checkpoint_meta(adapter->base);
    int64_t key = base ? zt_meta_find(base, "general.architecture") : -1;
    float alpha = (float)adapter->alpha;
    zt_status status = ZT_OK;
    if (key >= 0) {
        const zt_meta_item *item = zt_meta_get(base, key);
        status = zt_meta_put(meta, item->key.data, item->kind, item->value, item->bytes);
    }
    if (!status) status = zt_meta_put_str(meta, "general.type", "adapter", 7);
    if (!status) status = zt_meta_put_str(meta, "adapter.type", "lora", 4);
    return status ? status : zt_meta_put(meta, "adapter.lora.alpha", ZT_GGUF_F32, &alpha, sizeof alpha);
}

/* The names of A and B in their container. */
static zt_status name_entries(const train_learner *learner, zt_arena *arena, bool folder, zt_entry *entries)
{
    enum { NAME = ZT_HF_MODULE + 48 };
    const zt_llm_targets *targets = learner->adapter->targets;
    for (int i = 0; i < 2 * zt_llm_targets_count(targets); i++) {
        const zt_llm_target *target = zt_llm_target_at(targets, i / 2);
        const train_weight *weight = find_weight(learner, target, i % 2 ? 'b' : 'a');
        char *name = zt_arena_alloc(arena, NAME);
        if (!name) return ZT_ENOMEM;
        if (folder)
            snprintf(name, NAME, "base_model.model.%s.lora_%c.weight", target->module, i % 2 ? 'B' : 'A');
        else
            snprintf(name, NAME, "%s", weight->name);
        entries[i] = (zt_entry){.name = name, .dtype = "f32", .type = weight->type, .bytes = zt_type_bytes(&weight->type)};
    }
    return ZT_OK;
}

zt_status train_adapter_write(train_learner *learner)
{
    zt_ctx *ctx = learner->cli->ctx;
    const train_adapter *adapter = learner->adapter;
    bool folder = zt_adapter_is_folder(learner->cli->output);
    int count = zt_llm_targets_count(adapter->targets);
    zt_arena *arena = zt_arena_new(ctx, 0);
    zt_meta *meta = zt_meta_new(ctx);
    zt_entry *entries = zt_calloc(ctx, 2 * (size_t)count + 1, sizeof *entries);
    zt_status status = arena && meta && entries ? name_entries(learner, arena, folder, entries) : ZT_ENOMEM;
    if (!status && !folder) status = put_meta(adapter, meta);
    const zt_adapter_content content = {.entries = entries,
                                        .count = 2 * count,
                                        .meta = meta,
                                        .write = write_weights,
                                        .user = learner,
                                        .base = adapter->model,
                                        .rank = adapter->rank,
                                        .alpha = adapter->alpha,
                                        .transposed = count && zt_llm_target_at(adapter->targets, 0)->transposed};
    if (!status) status = zt_adapter_write(learner->cli, &content);
    zt_free(ctx, entries);
    zt_meta_free(meta);
    zt_arena_free(arena);
    return status;
}
