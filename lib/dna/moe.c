/* moe.c - owns mixtures of experts made of several models: which tensors they have, and what is in them.
 *
 * A tensor is one part or more, each a tensor of one model: those of the base as they are, and stacked feed-forwards with a
 * part for each expert. A part whose type or values change is made whole in memory, one at a time.
 */
#include "lib/dna/moe_internal.h"
#include "lib/base/require.h"
#include "lib/tensor/quantize.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { NAME = 128, MATRICES = 3 };

/* The feed-forward of a layer, and where it is in a mixture. */
static const struct {
    const char *dense, *experts, *shared;
    bool residual; /* its product is added to the stream */
} matrices[MATRICES] = {{"ffn_gate.weight", "ffn_gate_exps.weight", "ffn_gate_shexp.weight", false},
                        {"ffn_up.weight", "ffn_up_exps.weight", "ffn_up_shexp.weight", false},
                        {"ffn_down.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight", true}};

/* Architectures that a mixture is made of, and those that it has. mergekit-moe takes the first whose name begins with the
 * recipe's `architecture`. */
static const struct moe_arch {
    const char *name, *base, *mixture;
    bool shared, lengths; /* needs a shared expert; the keys have the experts' lengths */
} archs[] = {{"mixtral", "llama", "llama", false, false},
             {"qwen moe", "qwen2", "qwen2moe", true, true},
             {"qwen3 moe", "qwen3", "qwen3moe", false, true}};
enum { N_ARCHS = sizeof archs / sizeof *archs };

typedef struct moe_part {
    int model;
    int64_t tensor;
    const zt_moe_expert *expert; /* NULL: of the base */
    bool residual;
} moe_part;

typedef struct moe_tensor {
    moe_part *parts; /* NULL: values */
    int part_count;
    const float *values; /* rows of gates */
    uint64_t part_bytes;
    bool made; /* parts change on the way */
} moe_tensor;

typedef struct zt_moe {
    zt_ctx *ctx;
    const zt_moe_recipe *recipe;
    const struct moe_arch *arch;
    zt_checkpoint **models; /* [model_count] */
    zt_moe_shape shape;
    zt_arena *arena;
    zt_meta *meta;
    zt_entry *entries;
    moe_tensor *tensors;
    int64_t count;
    float *routers, *shared_routers; /* [layers, experts, width], [layers, width] */
    uint64_t seed;
    pthread_mutex_t lock; /* of what follows: the part that is in memory */
    char *loaded;
    int64_t loaded_tensor;
    int loaded_part;
} zt_moe;

/* ---- the base ---------------------------------------------------------------------------------- */

static zt_bytes architecture_of(zt_checkpoint *checkpoint)
{
    const zt_meta *meta = zt_checkpoint_meta(checkpoint);
    int64_t i = meta ? zt_meta_find(meta, "general.architecture") : -1;
    return i >= 0 ? zt_meta_text(zt_meta_get(meta, i)) : (zt_bytes){NULL, 0};
}

static bool bytes_are(zt_bytes bytes, const char *text)
{
    return bytes.data && bytes.n == strlen(text) && !memcmp(bytes.data, text, bytes.n);
}

zt_status zt_moe_shape_of(zt_ctx *ctx, zt_checkpoint *base, zt_moe_shape *shape)
{
    ZT_REQUIRE(ctx, base && shape, ZT_EUSAGE);
    zt_bytes arch = architecture_of(base);
    zt_entry entry;
    char name[NAME], shown[80];
    int64_t embedding = zt_checkpoint_find(base, "token_embd.weight");
    if (!arch.data || embedding < 0)
        return zt_fail(ctx, ZT_EDATA, "%s: not a language model: no %s", zt_checkpoint_name(base),
                       arch.data ? "tensor 'token_embd.weight'" : "key 'general.architecture'");
    bool known = false;
    for (int i = 0; i < N_ARCHS; i++) known = known || bytes_are(arch, archs[i].base);
    if (!known)
        return zt_fail(ctx, ZT_ENOTSUP, "%s: a mixture of architecture '%s' is not supported: expected llama, qwen2 or qwen3",
                       zt_checkpoint_name(base), zt_escape(shown, sizeof shown, arch.data, arch.n));
    zt_checkpoint_get(base, embedding, &entry);
    if (entry.type.rank != 2)
        return zt_fail(ctx, ZT_EDATA, "%s: 'token_embd.weight' has %d dimensions, expected 2", zt_checkpoint_name(base),
                       entry.type.rank);
    *shape = (zt_moe_shape){.vocab = entry.type.dim[0], .width = entry.type.dim[1]};
    do {
        snprintf(name, sizeof name, "blk.%" PRId64 ".%s", shape->layers, matrices[0].dense);
    } while (zt_checkpoint_find(base, name) >= 0 && ++shape->layers);
    return shape->layers ? ZT_OK
                         : zt_fail(ctx, ZT_EDATA, "%s: missing tensor 'blk.0.%s': the base must be dense",
                                   zt_checkpoint_name(base), matrices[0].dense);
}

static zt_status choose_arch(zt_moe *moe)
{
    const zt_moe_recipe *recipe = moe->recipe;
    zt_bytes arch = architecture_of(moe->models[0]);
    const char *wanted = recipe->architecture ? recipe->architecture : "";
    bool named = false;
    char shown[80];
    for (int i = 0; i < N_ARCHS; i++) {
        if (strncmp(archs[i].name, wanted, strlen(wanted))) continue;
        named = true;
        if (!bytes_are(arch, archs[i].base)) continue;
        if (archs[i].shared == (recipe->config.shared_count == 1)) return moe->arch = &archs[i], ZT_OK;
        return zt_fail(moe->ctx, ZT_EDATA, "%s: %s %s shared expert, but the recipe has %d", recipe->name, archs[i].name,
                       archs[i].shared ? "needs one" : "has no", recipe->config.shared_count);
    }
    zt_escape(shown, sizeof shown, wanted, strlen(wanted));
    if (!named)
        return zt_fail(moe->ctx, ZT_ENOTSUP, "%s: architecture '%s' is not supported: expected mixtral, qwen or qwen3",
                       recipe->name, shown);
    return zt_fail(moe->ctx, ZT_EDATA, "%s: architecture '%s' cannot be made of %s, a model of '%.*s'", recipe->name, shown,
                   zt_checkpoint_name(moe->models[0]), (int)(arch.n < 64 ? arch.n : 64), arch.data);
}

/* ---- tensors ----------------------------------------------------------------------------------- */

static moe_tensor *new_tensor(zt_moe *moe, const char *name, zt_dtype dtype, int rank, const int64_t *dim)
{
    zt_entry *entry = &moe->entries[moe->count];
    moe_tensor *tensor = &moe->tensors[moe->count];
    size_t bytes;
    *entry = (zt_entry){.name = zt_arena_strndup(moe->arena, name, strlen(name)), .type = {.dtype = dtype, .rank = rank}};
    for (int i = 0; i < rank; i++) entry->type.dim[i] = dim[i];
    entry->dtype = zt_dtype_get(dtype)->name;
    if (!entry->name || !zt_type_check(moe->ctx, &entry->type, &bytes)) return NULL;
    entry->bytes = bytes;
    *tensor = (moe_tensor){.part_bytes = bytes};
    moe->count++;
    return tensor;
}

static zt_status put_gates(zt_moe *moe, const char *name, const float *values, int64_t rows)
{
    const int64_t dim[2] = {rows, moe->shape.width};
    moe_tensor *tensor = new_tensor(moe, name, ZT_F32, rows ? 2 : 1, rows ? dim : dim + 1);
    if (tensor) tensor->values = values;
    return tensor ? ZT_OK : zt_ctx_status(moe->ctx);
}

static bool is_float(const zt_entry *entry)
{
    return entry->type.rank >= 0 && entry->type.dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(entry->type.dtype);
}

/* The type of a matrix in the result. */
static zt_dtype result_type(const zt_moe *moe, const zt_entry *entry)
{
    bool converts = moe->recipe->dtype != ZT_DTYPE_COUNT && is_float(entry) && entry->type.rank > 1;
    return converts ? moe->recipe->dtype : entry->type.dtype;
}

/* A tensor of one model as part `index`; the first decides type and shape. */
static zt_status put_part(zt_moe *moe, moe_tensor *tensor, int index, moe_part part, const zt_entry *first)
{
    zt_entry entry;
    char text[ZT_TYPE_TEXT], first_text[ZT_TYPE_TEXT], shown[160];
    const zt_entry *out = &moe->entries[tensor - moe->tensors];
    zt_checkpoint_get(moe->models[part.model], part.tensor, &entry);
    zt_escape(shown, sizeof shown, entry.name, strlen(entry.name));
    bool same = entry.type.rank == first->type.rank;
    for (int i = 0; same && i < entry.type.rank; i++) same = entry.type.dim[i] == first->type.dim[i];
    if (!same)
        return zt_fail(moe->ctx, ZT_ESHAPE, "%s: tensor '%s' has type %s, but in %s it has %s",
                       zt_checkpoint_name(moe->models[part.model]), shown, zt_type_text(&entry.type, text),
                       zt_checkpoint_name(moe->models[tensor->parts[0].model]), zt_type_text(&first->type, first_text));
    bool changes = part.expert && (part.expert->noise_scale != 0 || (part.residual && part.expert->residual_scale != 1));
    if (changes || entry.type.dtype != out->type.dtype) {
        tensor->made = true;
        if (!is_float(&entry) || !zt_dtype_get(entry.type.dtype)->decode || !zt_quantize_has(out->type.dtype))
            return zt_fail(moe->ctx, ZT_ENOTSUP, "%s: tensor '%s': cannot convert %s to %s: choose another dtype",
                           zt_checkpoint_name(moe->models[part.model]), shown, entry.dtype, out->dtype);
    }
    tensor->parts[index] = part;
    return ZT_OK;
}

/* A tensor whose parts are those of `count` experts, or the base's where experts is NULL. experts_dim: it is stacked. */
static zt_status put_parts(zt_moe *moe, const char *source, const char *name, const zt_moe_expert *experts, int count,
                           bool stacked, bool residual)
{
    zt_entry first = {0};
    moe_tensor *tensor = NULL;
    zt_status status = ZT_OK;
    for (int k = 0; k < count && status == ZT_OK; k++) {
        moe_part part = {.model = experts ? experts[k].model : 0, .expert = experts ? &experts[k] : NULL, .residual = residual};
        part.tensor = zt_checkpoint_find(moe->models[part.model], source);
        if (part.tensor < 0)
            return zt_fail(moe->ctx, ZT_EDATA, "%s: missing tensor '%s', which %s has",
                           zt_checkpoint_name(moe->models[part.model]), source, zt_checkpoint_name(moe->models[0]));
        if (k == 0) {
            zt_checkpoint_get(moe->models[part.model], part.tensor, &first);
            const int64_t *dim = first.type.dim;
            if (stacked && first.type.rank != 2)
                return zt_fail(moe->ctx, ZT_EDATA, "%s: '%s' is not a matrix", zt_checkpoint_name(moe->models[part.model]),
                               source);
            const int64_t dims[3] = {count, dim[0], dim[1]};
            tensor = first.type.rank < 0 || first.type.dtype == ZT_DTYPE_COUNT
                         ? NULL
                         : new_tensor(moe, name, result_type(moe, &first), stacked ? 3 : first.type.rank, stacked ? dims : dim);
            if (!tensor)
                return zt_fail(moe->ctx, ZT_ENOTSUP, "%s: tensor '%s' of type %s is not supported",
                               zt_checkpoint_name(moe->models[part.model]), source, first.dtype);
            tensor->parts = zt_arena_alloc(moe->arena, (size_t)count * sizeof *tensor->parts);
            if (!tensor->parts) return ZT_ENOMEM;
            tensor->part_count = count;
            tensor->part_bytes = moe->entries[moe->count - 1].bytes / (uint64_t)count;
        }
        status = put_part(moe, tensor, k, part, &first);
    }
    return status;
}

/* Everything that takes the place of one matrix of a layer's feed-forward; with the first the routers. */
static zt_status put_layer(zt_moe *moe, int64_t layer, int matrix)
{
    const zt_moe_config *config = &moe->recipe->config;
    char source[NAME], name[NAME];
    zt_status status = ZT_OK;
    if (matrix == 0) {
        snprintf(name, sizeof name, "blk.%" PRId64 ".ffn_gate_inp.weight", layer);
        status = put_gates(moe, name, moe->routers + layer * config->expert_count * moe->shape.width, config->expert_count);
        snprintf(name, sizeof name, "blk.%" PRId64 ".ffn_gate_inp_shexp.weight", layer);
        if (status == ZT_OK && config->shared_count)
            status = put_gates(moe, name, moe->shared_routers + layer * moe->shape.width, 0);
    }
    snprintf(source, sizeof source, "blk.%" PRId64 ".%s", layer, matrices[matrix].dense);
    snprintf(name, sizeof name, "blk.%" PRId64 ".%s", layer, matrices[matrix].experts);
    if (status == ZT_OK)
        status = put_parts(moe, source, name, config->experts, config->expert_count, true, matrices[matrix].residual);
    snprintf(name, sizeof name, "blk.%" PRId64 ".%s", layer, matrices[matrix].shared);
    if (status == ZT_OK && config->shared_count)
        status = put_parts(moe, source, name, config->experts + config->expert_count, 1, false, matrices[matrix].residual);
    return status;
}

static zt_status put_tensors(zt_moe *moe)
{
    int64_t base_count = zt_checkpoint_count(moe->models[0]), most = base_count + moe->shape.layers * (2 + MATRICES);
    zt_status status = ZT_OK;
    moe->entries = zt_alloc_array(moe->ctx, (size_t)most, sizeof *moe->entries);
    moe->tensors = zt_alloc_array(moe->ctx, (size_t)most, sizeof *moe->tensors);
    if (!moe->entries || !moe->tensors) return ZT_ENOMEM;
    for (int64_t i = 0; i < base_count && status == ZT_OK; i++) {
        zt_entry entry;
        int64_t layer = -1;
        int digits = 0, matrix = 0;
        char shown[160];
        zt_checkpoint_get(moe->models[0], i, &entry);
        if (sscanf(entry.name, "blk.%5" SCNd64 ".%n", &layer, &digits) != 1 || !digits) layer = -1;
        while (layer >= 0 && matrix < MATRICES && strcmp(entry.name + digits, matrices[matrix].dense)) matrix++;
        if (layer >= 0 && matrix < MATRICES && layer < moe->shape.layers)
            status = put_layer(moe, layer, matrix);
        else if (layer >= 0 && !strncmp(entry.name + digits, "ffn_", 4) && strncmp(entry.name + digits, "ffn_norm.", 9))
            status = zt_fail(moe->ctx, ZT_ENOTSUP, "%s: a mixture with tensor '%s' is not supported",
                             zt_checkpoint_name(moe->models[0]), zt_escape(shown, sizeof shown, entry.name, strlen(entry.name)));
        else
            status = put_parts(moe, entry.name, entry.name, NULL, 1, false, false);
    }
    return status;
}

/* ---- what the models have in common ------------------------------------------------------------- */

static zt_status check_models(zt_moe *moe)
{
    zt_bytes arch = architecture_of(moe->models[0]);
    char shown[80], first[80];
    for (int k = 1; k < moe->recipe->config.model_count; k++) {
        zt_bytes other = architecture_of(moe->models[k]);
        if (other.data && other.n == arch.n && !memcmp(other.data, arch.data, arch.n)) continue;
        if (!other.data)
            return zt_fail(moe->ctx, ZT_EDATA, "%s: not a language model: no key 'general.architecture'",
                           zt_checkpoint_name(moe->models[k]));
        return zt_fail(moe->ctx, ZT_EDATA, "%s: the architecture is '%s', but that of %s is '%s'",
                       zt_checkpoint_name(moe->models[k]), zt_escape(shown, sizeof shown, other.data, other.n),
                       zt_checkpoint_name(moe->models[0]), zt_escape(first, sizeof first, arch.data, arch.n));
    }
    return ZT_OK;
}

/* ---- metadata ---------------------------------------------------------------------------------- */

/* The base's keys, with the mixture's architecture instead of its own. */
static zt_status rename_keys(zt_moe *moe)
{
    const zt_meta *base = zt_checkpoint_meta(moe->models[0]);
    size_t length = strlen(moe->arch->base);
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < zt_meta_count(base) && status == ZT_OK; i++) {
        const zt_meta_item *item = zt_meta_get(base, i);
        const char *key = item->key.data;
        char name[256];
        if (!strcmp(key, "general.file_type") && moe->recipe->dtype != ZT_DTYPE_COUNT) continue;
        if (!strncmp(key, moe->arch->base, length) && key[length] == '.') {
            if (snprintf(name, sizeof name, "%s%s", moe->arch->mixture, key + length) >= (int)sizeof name) continue;
            key = name;
        }
        status = zt_meta_put(moe->meta, key, item->kind, item->value, item->bytes);
    }
    return status == ZT_OK ? zt_meta_put_str(moe->meta, "general.architecture", moe->arch->mixture, strlen(moe->arch->mixture))
                           : status;
}

static zt_status put_number(zt_moe *moe, const char *key, int64_t number)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s.%s", moe->arch->mixture, key);
    return zt_meta_put_u32(moe->meta, name, (uint32_t)number);
}

static zt_status put_origin(zt_moe *moe)
{
    const zt_moe_config *config = &moe->recipe->config;
    zt_bytes *names = zt_arena_alloc(moe->arena, (size_t)config->model_count * sizeof *names);
    if (!names) return ZT_ENOMEM;
    for (int k = 0; k < config->model_count; k++) names[k] = (zt_bytes){config->models[k], strlen(config->models[k])};
    zt_status status = zt_meta_put_str(moe->meta, "zt.merge.method", "moe", 3);
    if (status == ZT_OK) status = zt_meta_put_str(moe->meta, "zt.merge.recipe", moe->recipe->text, strlen(moe->recipe->text));
    return status == ZT_OK ? zt_meta_put_strs(moe->meta, "zt.merge.parents", names, config->model_count) : status;
}

static zt_status put_meta(zt_moe *moe)
{
    const zt_moe_config *config = &moe->recipe->config;
    zt_entry entry;
    char name[NAME];
    snprintf(name, sizeof name, "blk.0.%s", matrices[0].dense);
    zt_checkpoint_get(moe->models[0], zt_checkpoint_find(moe->models[0], name), &entry);
    moe->meta = zt_meta_new(moe->ctx);
    zt_status status = moe->meta ? rename_keys(moe) : ZT_ENOMEM;
    if (status == ZT_OK) status = put_number(moe, "expert_count", config->expert_count);
    if (status == ZT_OK) status = put_number(moe, "expert_used_count", config->used);
    if (status == ZT_OK && moe->arch->lengths) status = put_number(moe, "expert_feed_forward_length", entry.type.dim[0]);
    if (status == ZT_OK && moe->arch->shared) status = put_number(moe, "expert_shared_feed_forward_length", entry.type.dim[0]);
    if (status == ZT_OK && moe->arch->shared) { /* the weights of the experts that are used sum to 1, as mergekit-moe has it */
        snprintf(name, sizeof name, "%s.expert_weights_norm", moe->arch->mixture);
        status = zt_meta_put(moe->meta, name, ZT_GGUF_BOOL, "\1", 1);
    }
    return status == ZT_OK ? put_origin(moe) : status;
}

/* ---- values ------------------------------------------------------------------------------------ */

/* Bytes of a part, in the type of its tensor; changed by its expert. */
static zt_status make_part(zt_moe *moe, int64_t index, int part_index, char *out)
{
    const moe_part *part = &moe->tensors[index].parts[part_index];
    const zt_entry *target = &moe->entries[index];
    zt_entry entry;
    zt_checkpoint_get(moe->models[part->model], part->tensor, &entry);
    const int64_t count = zt_type_count(&entry.type), columns = entry.type.rank ? entry.type.dim[entry.type.rank - 1] : 1;
    char *raw = zt_alloc(moe->ctx, entry.bytes + 1);
    float *values = zt_alloc_array(moe->ctx, (size_t)count + 1, sizeof *values);
    zt_status status =
        raw && values ? zt_checkpoint_read(moe->models[part->model], part->tensor, 0, raw, entry.bytes) : ZT_ENOMEM;
    if (status == ZT_OK) zt_dtype_get(entry.type.dtype)->decode(raw, values, count);
    const double noise = part->expert ? part->expert->noise_scale : 0,
                 scale = part->expert && part->residual ? part->expert->residual_scale : 1;
    uint64_t sequence = XXH3_64bits_withSeed(target->name, strlen(target->name), (uint64_t)part_index + 2);
    for (int64_t i = 0; i < count && status == ZT_OK && noise != 0; i++)
        values[i] = (float)(values[i] + noise * zt_moe_normal(moe->seed, sequence, i));
    for (int64_t i = 0; i < count && status == ZT_OK && scale != 1; i++) values[i] = (float)(values[i] * scale);
    zt_quantizer quantizer = {.dtype = target->type.dtype, .columns = columns, .name = target->name};
    if (status == ZT_OK && columns) status = zt_quantize_rows(moe->ctx, &quantizer, values, count / columns, out);
    zt_free(moe->ctx, raw);
    zt_free(moe->ctx, values);
    return status;
}

/* Some bytes of one part that is made. */
static zt_status read_made(zt_moe *moe, int64_t index, int part, uint64_t offset, void *dst, size_t count)
{
    zt_status status = ZT_OK;
    pthread_mutex_lock(&moe->lock);
    if (moe->loaded_tensor != index || moe->loaded_part != part) {
        zt_free(moe->ctx, moe->loaded);
        moe->loaded_tensor = -1;
        moe->loaded = zt_alloc(moe->ctx, moe->tensors[index].part_bytes + 1);
        status = moe->loaded ? make_part(moe, index, part, moe->loaded) : ZT_ENOMEM;
        if (status == ZT_OK) moe->loaded_tensor = index;
        moe->loaded_part = part;
    }
    if (status == ZT_OK) memcpy(dst, moe->loaded + offset, count);
    pthread_mutex_unlock(&moe->lock);
    return status;
}

static zt_status read_tensor(void *user, int64_t index, uint64_t offset, void *dst, size_t count)
{
    zt_moe *moe = user;
    const moe_tensor *tensor = &moe->tensors[index];
    zt_status status = ZT_OK;
    if (tensor->values) return memcpy(dst, (const char *)tensor->values + offset, count), ZT_OK;
    for (size_t done = 0, step; done < count && status == ZT_OK; done += step, offset += step) {
        const int part_index = (int)(offset / tensor->part_bytes);
        const moe_part *part = &tensor->parts[part_index];
        uint64_t inside = offset % tensor->part_bytes;
        step = tensor->part_bytes - inside < count - done ? (size_t)(tensor->part_bytes - inside) : count - done;
        status = tensor->made ? read_made(moe, index, part_index, inside, (char *)dst + done, step)
                              : zt_checkpoint_read(moe->models[part->model], part->tensor, inside, (char *)dst + done, step);
    }
    return status;
}

static void release(void *user)
{
    zt_moe *moe = user;
    zt_free(moe->ctx, moe->models);
    zt_free(moe->ctx, moe->entries);
    zt_free(moe->ctx, moe->tensors);
    zt_free(moe->ctx, moe->routers);
    zt_free(moe->ctx, moe->shared_routers);
    zt_free(moe->ctx, moe->loaded);
    zt_meta_free(moe->meta);
    zt_arena_free(moe->arena);
    pthread_mutex_destroy(&moe->lock);
    zt_free(moe->ctx, moe);
}

/* Routed and shared gates apart: [layers, experts, width]. */
static zt_status split_gates(zt_moe *moe, const float *gates)
{
    const zt_moe_config *config = &moe->recipe->config;
    const size_t width = (size_t)moe->shape.width, routed = (size_t)config->expert_count * width;
    const size_t all = routed + (size_t)config->shared_count * width;
    moe->routers = zt_alloc_array(moe->ctx, (size_t)moe->shape.layers * routed + 1, sizeof *moe->routers);
    moe->shared_routers = zt_alloc_array(moe->ctx, (size_t)moe->shape.layers * width + 1, sizeof *moe->shared_routers);
    if (!moe->routers || !moe->shared_routers) return ZT_ENOMEM;
    for (size_t layer = 0; layer < (size_t)moe->shape.layers; layer++) {
        memcpy(moe->routers + layer * routed, gates + layer * all, routed * sizeof *gates);
        if (config->shared_count)
            memcpy(moe->shared_routers + layer * width, gates + layer * all + routed, width * sizeof *gates);
    }
    return ZT_OK;
}

zt_checkpoint *zt_moe_new(zt_ctx *ctx, const zt_moe_recipe *recipe, zt_checkpoint *const *models, const float *gates,
                          uint64_t seed)
{
    ZT_REQUIRE(ctx, recipe && models && gates, NULL);
    for (int k = 0; k < recipe->config.model_count; k++) ZT_REQUIRE(ctx, models[k], NULL);
    zt_moe *moe = zt_calloc(ctx, 1, sizeof *moe);
    if (!moe) return NULL;
    *moe = (zt_moe){.ctx = ctx, .recipe = recipe, .seed = seed, .loaded_tensor = -1, .arena = zt_arena_new(ctx, 0)};
    pthread_mutex_init(&moe->lock, NULL);
    moe->models = zt_alloc_array(ctx, (size_t)recipe->config.model_count, sizeof(zt_checkpoint *));
    zt_status status = moe->arena && moe->models ? ZT_OK : ZT_ENOMEM;
    if (status == ZT_OK) memcpy(moe->models, models, (size_t)recipe->config.model_count * sizeof(zt_checkpoint *));
    if (status == ZT_OK) status = zt_moe_shape_of(ctx, models[0], &moe->shape);
    if (status == ZT_OK) status = choose_arch(moe);
    if (status == ZT_OK) status = check_models(moe);
    if (status == ZT_OK) status = split_gates(moe, gates);
    if (status == ZT_OK) status = put_tensors(moe);
    if (status == ZT_OK) status = put_meta(moe);
    if (status != ZT_OK) {
        release(moe);
        return NULL;
    }
    return zt_checkpoint_of_made(ctx, &(zt_made){.name = recipe->name,
                                                 .container = zt_container_named("gguf"),
                                                 .entries = moe->entries,
                                                 .count = moe->count,
                                                 .meta = moe->meta,
                                                 .user = moe,
                                                 .read = read_tensor,
                                                 .release = release});
}
