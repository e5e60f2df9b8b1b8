/* lora.c - owns the reading of adapters: their files, and the role of each tensor.
 *
 * PEFT (huggingface/peft 0.21.2, as facts): adapter_config.json, adapter_model.safetensors with
 * base_model.model.MODULE.lora_A.weight [r, in] and lora_B.weight [out, r]; of embeddings
 * lora_embedding_A [r, tokens] and _B [columns, r]; scale lora_alpha / r, over the root of r with
 * use_rslora; lora_magnitude_vector of DoRA; whole tensors under the module's own name
 * (modules_to_save, biases, a vocabulary of another size); rows of embeddings. GGUF (llama.cpp,
 * convert_lora_to_gguf.py, as facts): general.type "adapter", adapter.type "lora", NAME.lora_a
 * [r, in], NAME.lora_b [out, r], of experts [experts, r, in] and [experts, out, r], scale adapter.lora.alpha / r.
 */
#include "lib/base/require.h"
#include "lib/dna/lora_internal.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void zt_lora_close(zt_lora *adapter)
{
    if (!adapter) return;
    zt_lora_config_fini(&adapter->config);
    zt_checkpoint_close(adapter->file);
    zt_map_free(adapter->by_name);
    zt_free(adapter->ctx, adapter->parts);
    zt_arena_free(adapter->arena);
    zt_free(adapter->ctx, adapter);
}

const char *zt_lora_name(const zt_lora *adapter) { return adapter ? zt_checkpoint_name(adapter->file) : NULL; }

/* ---- names ----------------------------------------------------------------------------------- */

/* What a tensor is by the end of its name. */
typedef struct lora_ending {
    const char *text;
    size_t field;       /* of lora_part; NO_FIELD: of no use */
    const char *tensor; /* what the tensor's own name ends in instead */
    bool embedding;
} lora_ending;

#define NO_FIELD SIZE_MAX
#define FIELD(f) offsetof(lora_part, f)
/* With and without the adapter's name, which PEFT takes away. */
#define BOTH(text, end, field, tensor, embedding)                                                                                \
    {text end, FIELD(field), tensor, embedding}, { text ".default" end, FIELD(field), tensor, embedding }

static const lora_ending peft_endings[] = {BOTH(".lora_A", ".weight", lora_a, ".weight", false),
                                           BOTH(".lora_B", ".weight", lora_b, ".weight", false),
                                           BOTH(".lora_B", ".bias", addend, ".bias", false),
                                           BOTH(".lora_embedding_A", "", lora_a, ".weight", true),
                                           BOTH(".lora_embedding_B", "", lora_b, ".weight", true),
                                           BOTH(".lora_magnitude_vector", "", magnitude, ".weight", false),
                                           BOTH(".lora_magnitude_vector", ".weight", magnitude, ".weight", false),
                                           BOTH(".token_adapter.trainable_tokens_delta", "", rows, ".weight", true),
                                           BOTH(".modules_to_save", ".weight", whole, ".weight", false),
                                           BOTH(".modules_to_save", ".bias", whole, ".bias", false),
                                           {".token_adapter.base_layer.weight", FIELD(whole), ".weight", false},
                                           {".base_layer.weight", FIELD(whole), ".weight", false},
                                           {".base_layer.bias", FIELD(whole), ".bias", false},
                                           {".original_module.weight", NO_FIELD, ".weight", false},
                                           {".original_module.bias", NO_FIELD, ".bias", false},
                                           {NULL, 0, NULL, false}};
static const lora_ending gguf_endings[] = {
    {".lora_a", FIELD(lora_a), "", false}, {".lora_b", FIELD(lora_b), "", false}, {NULL, 0, NULL, false}};
/* Else it is a tensor of the model itself. */
static const lora_ending whole_endings[] = {
    {".weight", FIELD(whole), ".weight", false}, {".bias", FIELD(whole), ".bias", false}, {NULL, 0, NULL, false}};

static const lora_ending *find_ending(const lora_ending *table, const char *name)
{
    size_t name_length = strlen(name);
    for (const lora_ending *ending = table; ending->text; ending++) {
        size_t ending_length = strlen(ending->text);
        if (name_length > ending_length && !strcmp(name + name_length - ending_length, ending->text)) return ending;
    }
    return NULL;
}

static const lora_ending *classify_name(const zt_lora *adapter, const char *name)
{
    const lora_ending *ending = find_ending(adapter->gguf ? gguf_endings : peft_endings, name);
    if (ending || adapter->gguf) return ending;
    bool tuner = strstr(name, ".lora_") || strstr(name, ".token_adapter.");
    return tuner ? NULL : find_ending(whole_endings, name);
}

/* The part of a tensor of the model, new or there already. */
static lora_part *get_part(zt_lora *adapter, const char *module, size_t module_length, const char *tensor)
{
    int64_t found;
    size_t name_length = module_length + strlen(tensor);
    char *name = zt_arena_alloc(adapter->arena, name_length + 1);
    if (!name) return NULL;
    snprintf(name, name_length + 1, "%.*s%s", (int)module_length, module, tensor);
    if (zt_map_get(adapter->by_name, name, name_length, &found)) return &adapter->parts[found];
    lora_part *part = &adapter->parts[adapter->part_count];
    *part = (lora_part){.name = name,
                        .module = zt_arena_strndup(adapter->arena, module, module_length),
                        .whole = -1,
                        .lora_a = -1,
                        .lora_b = -1,
                        .magnitude = -1,
                        .rows = -1,
                        .addend = -1};
    return part->module && zt_map_put(adapter->by_name, name, name_length, adapter->part_count++) == ZT_OK ? part : NULL;
}

static zt_status add_tensor(zt_lora *adapter, int64_t index)
{
    static const char prefix[] = "base_model.model.";
    char shown[160];
    zt_entry entry;
    zt_checkpoint_get(adapter->file, index, &entry);
    const char *name = entry.name;
    if (!adapter->gguf && !strncmp(name, prefix, sizeof prefix - 1)) name += sizeof prefix - 1;
    const lora_ending *how = classify_name(adapter, name);
    zt_escape(shown, sizeof shown, entry.name, strlen(entry.name));
    if (!how)
        return zt_fail(adapter->ctx, ZT_EDATA, "%s: tensor '%s' does not belong to a supported LoRA", zt_lora_name(adapter),
                       shown);
    if (how->field == NO_FIELD) return ZT_OK;
    size_t length = strlen(name) - strlen(how->text), module_length;
    const char *parameter = NULL;
    const bool product = how->field == FIELD(lora_a) || how->field == FIELD(lora_b);
    char ending[32];
    bool of_parameter = !adapter->gguf && product && !how->embedding &&
                        zt_lora_parameter_name(&adapter->config, name, length, &module_length, &parameter);
    if (of_parameter) snprintf(ending, sizeof ending, ".%s", parameter);
    lora_part *part =
        of_parameter ? get_part(adapter, name, module_length, ending) : get_part(adapter, name, length, how->tensor);
    if (!part) return ZT_ENOMEM;
    part->parameter = of_parameter;
    int64_t *field = (int64_t *)(void *)((char *)part + how->field);
    if (*field >= 0)
        return zt_fail(adapter->ctx, ZT_EDATA, "%s: duplicate tensor '%s' under two names", zt_lora_name(adapter), shown);
    *field = index;
    part->embedding = part->embedding || how->embedding;
    return ZT_OK;
}

static zt_status list_parts(zt_lora *adapter)
{
    int64_t count = zt_checkpoint_count(adapter->file);
    adapter->by_name = zt_map_new(adapter->ctx, (size_t)count);
    adapter->parts = zt_calloc(adapter->ctx, (size_t)count + 1, sizeof *adapter->parts);
    zt_status status = adapter->by_name && adapter->parts ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < count && status == ZT_OK; i++) status = add_tensor(adapter, i);
    return status;
}

/* ---- what goes together ---------------------------------------------------------------------- */

/* Floats that can be decoded; their type. */
static zt_status check_floats(const zt_lora *adapter, int64_t index, zt_type *type)
{
    zt_entry entry;
    char shown[160];
    if (index < 0) return ZT_OK;
    zt_checkpoint_get(adapter->file, index, &entry);
    *type = entry.type;
    bool floats = entry.type.rank >= 0 && entry.type.dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(entry.type.dtype) &&
                  zt_dtype_get(entry.type.dtype)->decode;
    return floats ? ZT_OK
                  : zt_fail(adapter->ctx, ZT_EDATA, "%s: tensor '%s' has unsupported type %s: must be a float type",
                            zt_lora_name(adapter), zt_escape(shown, sizeof shown, entry.name, strlen(entry.name)), entry.dtype);
}

static bool is_matrix(const zt_type *type) { return type->rank >= 2 && type->rank <= 5; }

/* llama.cpp's of experts: a matrix for each of them. */
static zt_status check_stacks(const zt_lora *adapter, lora_part *part, const zt_type *type_a, const zt_type *type_b,
                              const char *shown)
{
    bool stacked = type_a->rank == 3 && type_b->rank == 3 && type_a->dim[0] == type_b->dim[0] && type_a->dim[0] > 0;
    part->rank = stacked ? type_a->dim[1] : 0;
    if (part->rank < 1 || type_b->dim[2] != part->rank)
        return zt_fail(adapter->ctx, ZT_EDATA, "%s: A and B of '%s' are not matrices of the same rank for as many experts",
                       zt_lora_name(adapter), shown);
    part->experts = type_a->dim[0];
    part->scale = adapter->alpha == 0 ? 1 : adapter->alpha / (double)part->rank;
    return ZT_OK;
}

/* Two matrices of one rank; the scale. */
static zt_status check_pair(const zt_lora *adapter, lora_part *part, const char *shown)
{
    zt_type type_a = {0}, type_b = {0};
    if (part->lora_a < 0 || part->lora_b < 0)
        return zt_fail(adapter->ctx, ZT_EDATA, "%s: '%s' has only one of A and B", zt_lora_name(adapter), shown);
    zt_status status = check_floats(adapter, part->lora_a, &type_a);
    if (status == ZT_OK) status = check_floats(adapter, part->lora_b, &type_b);
    if (status != ZT_OK) return status;
    /* llama.cpp's of the tokens: [tokens, r] and [columns, r] */
    part->tokens = adapter->gguf && !strncmp(part->name, "token_embd.", 11);
    if (part->parameter) return zt_lora_parameter_pair(adapter, part, &type_a, &type_b, shown);
    if (adapter->gguf && strstr(part->name, "_exps.")) return check_stacks(adapter, part, &type_a, &type_b, shown);
    bool flat = true; /* a convolution's B is of one element a channel */
    for (int k = 2; k < type_b.rank; k++) flat = flat && type_b.dim[k] == 1;
    if (is_matrix(&type_a) && is_matrix(&type_b)) part->rank = part->tokens ? type_a.dim[1] : type_a.dim[0];
    if (part->rank < 1 || type_b.dim[1] != part->rank || !flat || type_a.rank != type_b.rank)
        return zt_fail(adapter->ctx, ZT_EDATA, "%s: A and B of '%s' are not matrices of the same rank", zt_lora_name(adapter),
                       shown);
    if (!adapter->gguf) return zt_lora_config_scale(adapter->ctx, &adapter->config, part->module, part->rank, &part->scale);
    part->scale = adapter->alpha == 0 ? 1 : adapter->alpha / (double)part->rank;
    return ZT_OK;
}

/* lora_B.bias is scaled as the matrices of its module are. */
static zt_status scale_addend(const zt_lora *adapter, lora_part *part, const char *shown)
{
    int64_t found;
    zt_str name;
    zt_str_init(&name, adapter->ctx);
    zt_status status = zt_str_printf(&name, "%s.weight", part->module);
    bool has_weight = status == ZT_OK && zt_map_get(adapter->by_name, name.data, name.len, &found);
    if (has_weight) part->scale = adapter->parts[found].scale;
    zt_str_fini(&name);
    if (status == ZT_OK && (!has_weight || adapter->parts[found].lora_b < 0))
        status = zt_fail(adapter->ctx, ZT_EDATA, "%s: '%s' has a bias of B but no B", zt_lora_name(adapter), shown);
    return status;
}

static zt_status check_part(const zt_lora *adapter, lora_part *part)
{
    zt_type type = {0};
    char shown[160];
    zt_status status = ZT_OK;
    zt_escape(shown, sizeof shown, part->name, strlen(part->name));
    if (part->lora_a >= 0 || part->lora_b >= 0) status = check_pair(adapter, part, shown);
    if (status == ZT_OK) status = check_floats(adapter, part->whole, &type);
    if (status == ZT_OK) status = check_floats(adapter, part->magnitude, &type);
    if (status == ZT_OK) status = check_floats(adapter, part->addend, &type);
    if (status == ZT_OK) status = check_floats(adapter, part->rows, &type);
    if (status != ZT_OK) return status;
    bool dora = !adapter->gguf && adapter->config.dora && part->lora_a >= 0;
    if (dora != (part->magnitude >= 0))
        return zt_fail(adapter->ctx, ZT_EDATA, "%s: use_dora is %s, but '%s' has %s lora_magnitude_vector", zt_lora_name(adapter),
                       !adapter->gguf && adapter->config.dora ? "true" : "false", shown, dora ? "no" : "a");
    part->saved = !adapter->gguf && zt_lora_config_saves(&adapter->config, part->module);
    if (part->rows < 0) return ZT_OK;
    if (type.rank != 2 || type.dim[0] < 1)
        return zt_fail(adapter->ctx, ZT_EDATA, "%s: the trained rows of '%s' are not a matrix", zt_lora_name(adapter), shown);
    part->row_count = type.dim[0];
    return zt_lora_config_rows(adapter->ctx, &adapter->config, part->module, part->row_count, adapter->arena, &part->row_indices);
}

static zt_status check_parts(zt_lora *adapter)
{
    zt_status status = ZT_OK;
    char shown[160];
    for (int64_t i = 0; i < adapter->part_count && status == ZT_OK; i++) status = check_part(adapter, &adapter->parts[i]);
    for (int64_t i = 0; i < adapter->part_count && status == ZT_OK; i++) {
        lora_part *part = &adapter->parts[i];
        zt_escape(shown, sizeof shown, part->name, strlen(part->name));
        if (part->addend >= 0) status = scale_addend(adapter, part, shown);
    }
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

static zt_status read_keys(zt_lora *adapter)
{
    const zt_meta *meta = zt_checkpoint_meta(adapter->file);
    int64_t type = zt_meta_find(meta, "adapter.type"), alpha = zt_meta_find(meta, "adapter.lora.alpha");
    zt_bytes word = type >= 0 ? zt_meta_text(zt_meta_get(meta, type)) : (zt_bytes){NULL, 0};
    float alpha_value = 0;
    if (!word.data || word.n != 4 || memcmp(word.data, "lora", 4))
        return zt_fail(adapter->ctx, ZT_EDATA, "%s: not a LoRA: adapter.type must be 'lora'", zt_lora_name(adapter));
    if (zt_meta_find(meta, "adapter.alora.invocation_tokens") >= 0)
        return zt_fail(adapter->ctx, ZT_ENOTSUP, "%s: adapter.alora.invocation_tokens is not supported", zt_lora_name(adapter));
    if (alpha >= 0 && zt_meta_get(meta, alpha)->kind == ZT_GGUF_F32) memcpy(&alpha_value, zt_meta_get(meta, alpha)->value, 4);
    if (!isfinite(alpha_value))
        return zt_fail(adapter->ctx, ZT_EDATA, "%s: adapter.lora.alpha is not a finite number", zt_lora_name(adapter));
    adapter->alpha = alpha_value;
    return ZT_OK;
}

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* The weights in a folder: safetensors, else what torch.save wrote. */
static zt_status find_weights(const char *folder, zt_str *name)
{
    zt_status status = zt_str_printf(name, "%s/adapter_model.safetensors", folder);
    if (status != ZT_OK || is_file(name->data)) return status;
    zt_str_clear(name);
    status = zt_str_printf(name, "%s/adapter_model.bin", folder);
    if (status != ZT_OK || is_file(name->data)) return status;
    zt_str_clear(name);
    return zt_str_printf(name, "%s/adapter_model.safetensors", folder);
}

/* A directory, or the file in it: then the configuration lies beside. */
static zt_status open_files(zt_lora *adapter, const char *path)
{
    struct stat info;
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    const char *slash = strrchr(path, '/');
    zt_str name;
    zt_str_init(&name, adapter->ctx);
    zt_status status = folder ? find_weights(path, &name) : zt_str_puts(&name, path);
    if (status == ZT_OK) adapter->file = zt_checkpoint_open(adapter->ctx, name.data, 0);
    status = adapter->file ? ZT_OK : zt_ctx_status(adapter->ctx);
    adapter->gguf = adapter->file && zt_checkpoint_container(adapter->file) == zt_container_named("gguf");
    zt_str_clear(&name);
    if (status == ZT_OK)
        status = folder ? zt_str_printf(&name, "%s/adapter_config.json", path)
                        : zt_str_printf(&name, "%.*sadapter_config.json", slash ? (int)(slash - path) + 1 : 0, path);
    const char *kept = status == ZT_OK ? zt_arena_strndup(adapter->arena, name.data, name.len) : NULL;
    if (status == ZT_OK && !kept) status = ZT_ENOMEM;
    zt_str_fini(&name);
    if (status == ZT_OK) status = adapter->gguf ? read_keys(adapter) : zt_lora_config_read(adapter->ctx, kept, &adapter->config);
    return status;
}

zt_lora *zt_lora_open(zt_ctx *ctx, const char *path, zt_lora_place_fn *place)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_lora *adapter = zt_calloc(ctx, 1, sizeof *adapter);
    if (!adapter) return NULL;
    adapter->ctx = ctx;
    adapter->place = place;
    adapter->arena = zt_arena_new(ctx, 0);
    zt_status status = adapter->arena ? open_files(adapter, path) : ZT_ENOMEM;
    if (status == ZT_OK) status = list_parts(adapter);
    if (status == ZT_OK) status = check_parts(adapter);
    if (status == ZT_OK && !adapter->part_count) status = zt_fail(ctx, ZT_EDATA, "%s: not a LoRA: no adapter tensors", path);
    if (status == ZT_OK) return adapter;
    zt_lora_close(adapter);
    return NULL;
}
