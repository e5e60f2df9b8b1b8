/* learn_targets.c - which matrices of a model an adapter changes: PEFT's defaults and names. */
#include "lib/base/require.h"
#include "lib/llm/learn.h"
#include "lib/llm/arch/arch.h"

#include <stdio.h>
#include <string.h>

#define ALL "all-linear"

struct zt_llm_targets {
    zt_ctx *ctx;
    zt_llm_target *target;
    int count;
};

/* PEFT's TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING, by general.architecture. */
static const struct {
    const char *arch, *modules;
} defaults[] = {
    {"llama", "q_proj,v_proj"},
    {"qwen2", "q_proj,v_proj"},
    {"qwen3", "q_proj,v_proj"},
    {"gemma", "q_proj,v_proj"},
    {"gemma2", "q_proj,v_proj"},
    {"gemma3", "q_proj,v_proj"},
    {"gemma4", "q_proj,v_proj"},
    {"stablelm", "q_proj,v_proj"},
    {"phi2", "q_proj,v_proj,fc1,fc2"},
    {"gpt2", "c_attn"},
    {"gptneox", "attn_qkv"},
    {"falcon", "attn_qkv"},
    {"mpt", "Wqkv"},
    {"nemotron_h", "q_proj,k_proj,v_proj,o_proj"},
};

/* ---- the model's matrices -------------------------------------------------------------------- */

/* Is it a matrix that a product of the layers, or an output head of its own, multiplies by? */
static const zt_value *weight_of(const zt_prog *program, const zt_step *step)
{
    const zt_value *value = step->op == ZT_OP_matmul_weight ? zt_prog_value(program, step->in[1]) : NULL;
    bool data = value && value->kind == ZT_VALUE_DATA && value->type.rank == 2 && strlen(value->tensor) < 64;
    size_t length = data ? strlen(value->tensor) : 0, suffix = strlen(".weight");
    bool weight = length > suffix && !strcmp(value->tensor + length - suffix, ".weight");
    return weight && strncmp(value->tensor, "token_embd.", 11) != 0 ? value : NULL;
}

static void describe_target(const zt_hyper *hyper, const zt_value *value, zt_llm_target *target)
{
    zt_hf_place place;
    long long layer = 0;
    *target = (zt_llm_target){.rows = value->type.dim[0], .columns = value->type.dim[1]};
    snprintf(target->tensor, sizeof target->tensor, "%s", value->tensor);
    if (!zt_hf_module_of(hyper->arch->name, target->tensor, target->module, &place)) return;
    target->transposed = place.transposed;
    if (!place.pairs || sscanf(target->tensor, "blk.%lld.", &layer) != 1) return;
    target->heads = place.kv ? hyper->layer[layer].n_kv_heads : hyper->layer[layer].n_heads;
}

/* All matrices, each once. */
static zt_status list_matrices(zt_llm_targets *targets, const zt_prog *program, const zt_hyper *hyper)
{
    targets->target = zt_calloc(targets->ctx, (size_t)zt_prog_n_steps(program) + 1, sizeof *targets->target);
    if (!targets->target) return ZT_ENOMEM;
    for (int i = 0; i < zt_prog_n_steps(program); i++) {
        const zt_value *value = weight_of(program, zt_prog_step(program, i));
        bool known = !value;
        for (int k = 0; k < targets->count && !known; k++) known = !strcmp(targets->target[k].tensor, value->tensor);
        if (!known) describe_target(hyper, value, &targets->target[targets->count++]);
    }
    return ZT_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool matches(const zt_llm_target *target, const char *name, size_t length)
{
    if (length == strlen(ALL) && !memcmp(name, ALL, length)) return !strncmp(target->tensor, "blk.", 4);
    return zt_name_ends_in_n(target->module, strlen(target->module), name, length) ||
           zt_name_ends_in_n(target->tensor, strlen(target->tensor) - strlen(".weight"), name, length);
}

/* In PEFT a name also means matrices of routed experts, which are not products of their own here. */
static bool names_experts(const zt_gguf *gguf, const char *name, size_t length)
{
    static const char *const modules[] = {"gate_proj", "up_proj", "down_proj", "w1", "w2", "w3", "gate_up_proj"};
    bool experts = false, known = false;
    zt_type type;
    for (int64_t i = 0; i < zt_gguf_n_tensors(gguf) && !experts; i++)
        experts = strstr(zt_gguf_tensor(gguf, i, &type, NULL, NULL), "_exps.weight") != NULL;
    for (size_t i = 0; experts && i < sizeof modules / sizeof *modules; i++)
        known = known || zt_name_ends_in_n(name, length, modules[i], strlen(modules[i]));
    return known;
}

/* The first names that would do, for a message. */
static void list_names(const zt_llm_targets *targets, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < targets->count && i < 8; i++) {
        const zt_llm_target *target = &targets->target[i];
        const char *path = target->module[0] ? target->module : target->tensor;
        size_t length = strlen(path) - (target->module[0] ? 0 : strlen(".weight"));
        const char *word = path + length;
        while (word > path && word[-1] != '.') word--;
        char name[80];
        snprintf(name, sizeof name, "%.*s", (int)(path + length - word), word);
        if (strstr(text, name)) continue;
        used += (size_t)snprintf(text + used, used < size ? size - used : 0, "%s%s", used ? ", " : "", name);
        if (used >= size) return;
    }
}

static zt_status check_name(const zt_llm_targets *targets, const zt_gguf *gguf, const char *name, size_t length)
{
    char shown[80], names[320];
    if (names_experts(gguf, name, length))
        return zt_fail(targets->ctx, ZT_ENOTSUP, "%s: '%s' also names matrices of routed experts, which cannot have an adapter",
                       zt_gguf_name(gguf), zt_escape(shown, sizeof shown, name, length));
    for (int i = 0; i < targets->count; i++)
        if (matches(&targets->target[i], name, length)) return ZT_OK;
    list_names(targets, names, sizeof names);
    return zt_fail(targets->ctx, ZT_EUSAGE, "%s: no matrix is called '%s': expected all-linear, or %s", zt_gguf_name(gguf),
                   zt_escape(shown, sizeof shown, name, length), names);
}

/* Keeps the matrices that a name of the list means. */
static zt_status keep_named(zt_llm_targets *targets, const zt_gguf *gguf, const char *names)
{
    zt_status status = ZT_OK;
    bool *named = zt_calloc(targets->ctx, (size_t)targets->count + 1, sizeof *named);
    int kept = 0;
    if (!named) return ZT_ENOMEM;
    for (const char *name = names, *end = name; name && status == ZT_OK; name = *end ? end + 1 : NULL) {
        end = name + strcspn(name, ",");
        status = check_name(targets, gguf, name, (size_t)(end - name));
        for (int i = 0; i < targets->count; i++) named[i] = named[i] || matches(&targets->target[i], name, (size_t)(end - name));
    }
    for (int i = 0; i < targets->count; i++)
        if (named[i]) targets->target[kept++] = targets->target[i];
    targets->count = kept;
    zt_free(targets->ctx, named);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static zt_status choose_targets(zt_llm_targets *targets, zt_gguf *gguf, zt_hyper *hyper, const char *names)
{
    const zt_llm_targets none = {.ctx = targets->ctx};
    zt_status status = zt_hyper_read(gguf, hyper);
    zt_prog *program =
        status ? NULL
               : zt_llm_training_adapter(gguf, hyper->ctx_train < 2 ? hyper->ctx_train : 2, &(zt_llm_adapter){&none, 1, 1});
    if (!status) status = program ? list_matrices(targets, program, hyper) : zt_ctx_status(targets->ctx);
    zt_prog_free(program);
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults && !names && !status; i++)
        if (!strcmp(defaults[i].arch, hyper->arch->name)) names = defaults[i].modules;
    if (!status && !names)
        status =
            zt_fail(targets->ctx, ZT_ENOTSUP, "%s: there are no default targets for an adapter of the architecture %s: name them",
                    zt_gguf_name(gguf), hyper->arch->name);
    return status ? status : keep_named(targets, gguf, names);
}

zt_llm_targets *zt_llm_targets_new(zt_gguf *gguf, const char *names)
{
    if (!gguf) return NULL;
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    zt_llm_targets *targets = zt_calloc(ctx, 1, sizeof *targets);
    zt_hyper *hyper = zt_calloc(ctx, 1, sizeof *hyper);
    if (targets) targets->ctx = ctx;
    zt_status status = targets && hyper ? choose_targets(targets, gguf, hyper, names) : ZT_ENOMEM;
    zt_free(ctx, hyper);
    if (!status) return targets;
    zt_llm_targets_free(targets);
    return NULL;
}

void zt_llm_targets_free(zt_llm_targets *targets)
{
    if (!targets) return;
    zt_free(targets->ctx, targets->target);
    zt_free(targets->ctx, targets);
}

int zt_llm_targets_count(const zt_llm_targets *targets) { return targets ? targets->count : 0; }

const zt_llm_target *zt_llm_target_at(const zt_llm_targets *targets, int index)
{
    return targets && index >= 0 && index < targets->count ? &targets->target[index] : NULL;
}
