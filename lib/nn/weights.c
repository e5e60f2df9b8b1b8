/* weights.c - owns a network's weights: masters, from a document or drawn, and what layers compute
 * with, by name. */
#include "lib/base/require.h"
#include "lib/io/netjson.h"
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Room for one more of a list that doubles. */
static void *grow_list(zt_ctx *ctx, void *list, int64_t count, int64_t *capacity, size_t size)
{
    if (count < *capacity) return list;
    int64_t wanted = *capacity ? 2 * *capacity : 32;
    void *grown = zt_realloc(ctx, list, (size_t)wanted * size);
    if (grown) *capacity = wanted;
    return grown;
}

/* A block of masters that the network owns. */
static float *new_masters(zt_nn *network, int64_t count)
{
    float **list = grow_list(network->ctx, network->masters, network->master_count, &network->master_capacity, sizeof *list);
    if (!list) return NULL;
    network->masters = list;
    float *masters = zt_alloc_array(network->ctx, (size_t)count, sizeof *masters);
    if (masters) list[network->master_count++] = masters;
    return masters;
}

static zt_status add_weight(zt_nn *network, zt_nn_layer *layer, const nn_part *part, float *value)
{
    char name[1 << 12];
    zt_nn_weight *list =
        grow_list(network->ctx, network->weights, network->weight_count, &network->weight_capacity, sizeof *list);
    if (!list) return ZT_ENOMEM;
    network->weights = list;
    snprintf(name, sizeof name, "%s.%s", layer->path, part->name);
    zt_nn_weight *weight = &list[network->weight_count];
    *weight = (zt_nn_weight){.name = zt_arena_strndup(network->arena, name, strlen(name)),
                             .type = zt_type_make(ZT_F32, part->rank, part->dim),
                             .values = value,
                             .layer = layer};
    if (!weight->name) return ZT_ENOMEM;
    network->weight_count++;
    return ZT_OK;
}

/* Masks are data of a program as weights are, but no weights: "layers.3.mask", f32 of 1 and 0. */
zt_status zt_layer_add_mask(zt_nn *network, zt_nn_layer *layer)
{
    zt_nn_layer **list = grow_list(network->ctx, network->masked, network->masked_count, &network->masked_capacity, sizeof *list);
    if (!list) return ZT_ENOMEM;
    network->masked = list;
    layer->mask_index = network->masked_count;
    list[network->masked_count++] = layer;
    return ZT_OK;
}

/* ---- drawn ----------------------------------------------------------------------------------- */

/* Uniform by fan in and fan out (Glorot and Bengio, 2010). */
double zt_layer_draw_limit(const nn_part *part)
{
    int64_t fan_in = 1, fan_out = part->dim[0];
    for (int axis = 1; axis < part->rank; axis++) fan_in *= part->dim[axis];
    for (int axis = 2; axis < part->rank; axis++) fan_out *= part->dim[axis];
    return sqrt(6.0 / (double)(fan_in + fan_out));
}

float zt_layer_draw_number(const nn_part *part, double limit, uint64_t seed, uint64_t sequence, uint64_t position)
{
    if (part->init != NN_INIT_FAN) return (float)(part->init == NN_INIT_ONE);
    return (float)(limit * (2 * zt_uniform(seed, sequence, position) - 1));
}

static void draw_weights(const zt_nn *network, const nn_part *part, int64_t index, float *out, int64_t count)
{
    double limit = zt_layer_draw_limit(part);
    for (int64_t i = 0; i < count; i++) out[i] = zt_layer_draw_number(part, limit, network->seed, (uint64_t)index, (uint64_t)i);
}

/* ---- from a document ------------------------------------------------------------------------- */

static zt_status read_masters(zt_nn *network, zt_nn_layer *layer, zt_netjson *document, int64_t tensor, float *out, int64_t count)
{
    zt_net_weights weights = zt_netjson_weights(document, tensor);
    size_t bytes = zt_netjson_get(document, tensor)->bytes;
    if (bytes != zt_net_bytes(&weights, count))
        return zt_layer_bad(network, layer, "%" PRId64 " weights of type %s need %zu bytes, but the document has %zu", count,
                            weights.native ? zt_netjson_word(weights.type) : "float32", zt_net_bytes(&weights, count), bytes);
    layer->dtype = weights.type;
    layer->scale = weights.scale;
    if (weights.native) layer->rule = weights.rule;
    layer->exact = weights.native;
    void *raw = weights.native ? zt_alloc(network->ctx, bytes) : out; /* floats are read to their place */
    zt_status status = raw ? zt_netjson_read(document, tensor, 0, raw, bytes) : ZT_ENOMEM;
    if (!status && raw != out) zt_net_decode(&weights, raw, count, out);
    if (raw != out) zt_free(network->ctx, raw);
    for (int64_t i = 0; i < count && !status; i++)
        if (!isfinite(out[i]))
            status = zt_layer_bad(network, layer, "weight %" PRId64 " is %g: must be finite", i, (double)out[i]);
    return status;
}

/* Numbers of all parts; 0 and a message where they cannot be counted. */
static int64_t count_parts(const zt_nn *network, const zt_nn_layer *layer, const nn_part *parts, int part_count)
{
    int64_t count = 0, size;
    for (int part_index = 0; part_index < part_count; part_index++) {
        size = 1;
        for (int axis = 0; axis < parts[part_index].rank; axis++)
            if (parts[part_index].dim[axis] < 1 || !zt_mul_i64(size, parts[part_index].dim[axis], &size) || size > INT32_MAX)
                return zt_layer_bad(network, layer, "weight %s has a size of 0 or more than 2^31 numbers",
                                    parts[part_index].name),
                       0;
        count += size;
    }
    return count;
}

/* By the field's rule masters count in its scale for them. */
static void reset_scale(const zt_nn *network, zt_nn_layer *layer)
{
    layer->rule = ZT_RULE_FIELD;
    layer->scale = zt_storage_scale(layer->dtype, network->weights[layer->first_weight].values, zt_nn_layer_size(network, layer));
}

zt_status zt_layer_take_weights(zt_nn *network, zt_nn_layer *layer, zt_netjson *document, bool borrows)
{
    char path[1 << 12];
    nn_part parts[NN_MAX_PARTS];
    const nn_kind *kind = zt_layer_kind_of(layer->kind);
    int part_count = kind->list_parts && !borrows ? kind->list_parts(layer, parts) : 0;
    int64_t count = count_parts(network, layer, parts, part_count);
    layer->first_weight = network->weight_count;
    if (part_count && !count) return zt_ctx_status(network->ctx);
    snprintf(path, sizeof path, "%s.weights", layer->path);
    int64_t tensor = document ? zt_netjson_find(document, path) : -1;
    if (tensor >= 0 && !part_count && zt_netjson_get(document, tensor)->bytes)
        return zt_layer_bad(network, layer, "the layer takes no weights, but the document has some");
    float *masters = part_count ? new_masters(network, count) : NULL;
    if (part_count && !masters) return ZT_ENOMEM;
    zt_status status = tensor >= 0 && part_count ? read_masters(network, layer, document, tensor, masters, count) : ZT_OK;
    for (int part_index = 0; part_index < part_count && !status; part_index++) {
        int64_t size = 1;
        for (int axis = 0; axis < parts[part_index].rank; axis++) size *= parts[part_index].dim[axis];
        if (tensor < 0) draw_weights(network, &parts[part_index], network->weight_count, masters, size);
        status = add_weight(network, layer, &parts[part_index], masters);
        masters += size;
    }
    layer->weight_count = network->weight_count - layer->first_weight;
    if (!status && tensor < 0 && part_count && layer->dtype != ZT_STORE_F32) reset_scale(network, layer);
    return status;
}

/* ---- looking --------------------------------------------------------------------------------- */

int64_t zt_nn_n_weights(const zt_nn *network) { return network ? network->weight_count : 0; }
const zt_nn_weight *zt_nn_weight_at(const zt_nn *network, int64_t index) { return network ? &network->weights[index] : NULL; }

int64_t zt_nn_layer_size(const zt_nn *network, const zt_nn_layer *layer)
{
    if (!network || !layer) return 0;
    int64_t count = 0;
    for (int64_t i = 0; i < layer->weight_count; i++) count += zt_type_count(&network->weights[layer->first_weight + i].type);
    return count;
}

static zt_type mask_type(const zt_nn_layer *layer) { return zt_type_make(ZT_F32, 1, &layer->mask_count); }

/* Handles are numbers of weights and, behind these, of masks. */
static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    zt_nn *network = user;
    *handle = zt_map_find(network->weight_names, name);
    if (*handle < 0) return ZT_ENOENT;
    *type = *handle < network->weight_count ? network->weights[*handle].type
                                            : mask_type(network->masked[*handle - network->weight_count]);
    return ZT_OK;
}

/* Number i of a tensor. */
static float read_number(const zt_nn *network, int64_t handle, size_t i)
{
    if (handle >= network->weight_count) return network->masked[handle - network->weight_count]->mask[i];
    const zt_nn_weight *weight = &network->weights[handle];
    return weight->layer->exact ? weight->values[i] : zt_layer_precise(weight->layer, weight->values[i]);
}

/* In whole numbers, as engines read f32. */
static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t length)
{
    zt_nn *network = user;
    float *out = dst;
    if (offset % sizeof *out || length % sizeof *out)
        return zt_fail(network->ctx, ZT_EBUG, "%s: a read must cover whole numbers", network->name);
    for (size_t i = 0; i < length / sizeof *out; i++) out[i] = read_number(network, handle, offset / sizeof *out + i);
    return ZT_OK;
}

static zt_status masters_read(void *user, int64_t handle, size_t offset, void *dst, size_t length)
{
    const zt_nn *network = user;
    if (handle >= network->weight_count) return store_read(user, handle, offset, dst, length);
    memcpy(dst, (const char *)network->weights[handle].values + offset, length);
    return ZT_OK;
}

static zt_status name_weights(zt_nn *network)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < network->weight_count && !status; i++)
        status = zt_map_put(network->weight_names, network->weights[i].name, strlen(network->weights[i].name), i);
    for (int64_t masked_index = 0; masked_index < network->masked_count && !status; masked_index++) {
        const char *name = zt_layer_mask_name(network, network->masked[masked_index]);
        status = name ? zt_map_put(network->weight_names, name, strlen(name), network->weight_count + masked_index) : ZT_ENOMEM;
    }
    return status;
}

const char *zt_layer_mask_name(const zt_nn *network, const zt_nn_layer *layer)
{
    char name[1 << 12];
    snprintf(name, sizeof name, "%s.mask", layer->path);
    return zt_arena_strndup(network->arena, name, strlen(name));
}

zt_store zt_nn_store(zt_nn *network)
{
    if (!network) return (zt_store){0};
    if (!network->weight_names)
        network->weight_names = zt_map_new(network->ctx, (size_t)(network->weight_count + network->masked_count) + 1);
    if (!network->weight_names || (zt_map_count(network->weight_names) == 0 && name_weights(network))) return (zt_store){0};
    return (zt_store){.user = network, .find = store_find, .read = store_read};
}

zt_store zt_nn_masters(zt_nn *network)
{
    if (!network) return (zt_store){0};
    zt_store store = zt_nn_store(network);
    if (store.read) store.read = masters_read;
    return store;
}

void zt_layer_masters_changed(const zt_nn *network, zt_nn_layer *layer)
{
    if (layer->exact) layer->rule = ZT_RULE_FIELD; /* codes replaced by masters are rounded to nearest */
    layer->exact = layer->dtype == ZT_STORE_F32;
    if (layer->rule == ZT_RULE_FIELD) reset_scale(network, layer);
}

zt_status zt_nn_put(zt_nn *network, const char *name, const float *value, int64_t count)
{
    if (!network) return ZT_EUSAGE;
    ZT_REQUIRE(network->ctx, name, ZT_EUSAGE);
    int64_t index = zt_nn_store(network).read ? zt_map_find(network->weight_names, name) : -1;
    if (index < 0 || index >= network->weight_count)
        return zt_fail(network->ctx, ZT_EUSAGE, "%s: no weight '%s'", network->name, name);
    const zt_nn_weight *weight = &network->weights[index];
    if (count != zt_type_count(&weight->type))
        return zt_fail(network->ctx, ZT_ESHAPE, "%s: '%s' has %" PRId64 " numbers, got %" PRId64, network->name, name,
                       zt_type_count(&weight->type), count);
    memcpy(weight->values, value, (size_t)count * sizeof *value);
    zt_layer_masters_changed(network, weight->layer);
    return ZT_OK;
}

void zt_nn_set_dtype(zt_nn *network, zt_storage storage)
{
    if (!network) return;
    if ((unsigned)storage >= ZT_STORE_COUNT) return;
    for (int64_t weight_index = 0; weight_index < network->weight_count; weight_index++) {
        zt_nn_layer *layer = network->weights[weight_index].layer;
        if (weight_index != layer->first_weight) continue;
        layer->dtype = storage;
        reset_scale(network, layer);
        layer->exact = storage == ZT_STORE_F32;
    }
}
