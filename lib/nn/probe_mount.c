/* probe_mount.c - owns networks made of a probe's layers: a document of the layers, and tensors as their weights. */
#include "lib/base/require.h"
#include "lib/io/json.h"
#include "lib/nn/nn_internal.h"
#include "lib/nn/probe_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ROLES = 8 };

/* How a kind is mounted: its numbers from metrics, its weights from roles. */
typedef struct layer_form {
    zt_nn_kind kind;
    struct {
        const char *metric, *number;
    } sizes[4];
    struct {
        const char *role, *part; /* with a %c: four gates, stacked */
    } weights[MAX_ROLES];
} layer_form;

static const layer_form forms[] = {
    {ZT_NN_DENSE, {{"in", "input_height"}, {"out", "output_height"}}, {{"w", "w"}}},
    {ZT_NN_EMBEDDING, {{"v", "vocab_size"}, {"d", "embedding_dim"}}, {{"w", "w"}}},
    {ZT_NN_RMSNORM, {{"d", "input_height"}}, {{"w", "g"}}},
    {ZT_NN_LAYERNORM, {{"d", "input_height"}}, {{"s", "g"}, {"b", "b"}}},
    {ZT_NN_SWIGLU,
     {{"h", "input_height"}, {"i", "output_height"}},
     {{"g", "wg"}, {"u", "wu"}, {"d", "wd"}, {"gb", "bg"}, {"ub", "bu"}, {"db", "bd"}}},
    {ZT_NN_MHA,
     {{"d", "d_model"}},
     {{"q", "wq"}, {"k", "wk"}, {"v", "wv"}, {"o", "wo"}, {"qb", "bq"}, {"kb", "bk"}, {"vb", "bv"}, {"ob", "bo"}}},
    {ZT_NN_LSTM, {{"h", "input_height"}, {"h", "output_height"}}, {{"ih", "w_ih_%c"}, {"hh", "w_hh_%c"}}},
    {ZT_NN_CNN1, {{"f", "filters"}, {"c", "input_channels"}, {"k", "kernel_size"}}, {{"w", "w"}}},
    {ZT_NN_CNN2, {{"f", "filters"}, {"c", "input_channels"}, {"k", "kernel_size"}}, {{"w", "w"}}},
};

static const layer_form *find_form(const zt_nn_archetype *archetype)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].kind == archetype->kind && archetype->metric_count) return &forms[i];
    return NULL;
}

bool zt_nn_mounts(const zt_nn_probe *probe, const zt_nn_archetype *archetype)
{
    if (!probe) return false;
    ZT_REQUIRE(probe->ctx, archetype, false);
    return find_form(archetype) && (archetype->named || !probe->any_named);
}

/* Does the layer have a weight for this role? Not for a bias of Dense, nor for statistics. */
static bool has_place(const layer_form *form, const char *role)
{
    bool has = false;
    for (int k = 0; k < MAX_ROLES && form->weights[k].role; k++) has = has || !strcmp(form->weights[k].role, role);
    return has;
}

int64_t zt_nn_layer_left(const zt_nn_archetype *archetype)
{
    if (!archetype) return 0;
    const layer_form *form = find_form(archetype);
    int64_t count = 0;
    for (int64_t k = 0; k < archetype->role_count; k++) count += !form || !has_place(form, archetype->roles[k].name);
    return count;
}

int64_t zt_nn_probe_left(const zt_nn_probe *probe)
{
    if (!probe) return 0;
    int64_t count = 0;
    for (int64_t i = 0; i < zt_nn_probe_tensors(probe); i++) count += !zt_nn_probe_matched(probe, i);
    for (int64_t i = 0; i < zt_nn_probe_count(probe); i++)
        count += zt_nn_mounts(probe, zt_nn_probe_at(probe, i)) ? zt_nn_layer_left(zt_nn_probe_at(probe, i))
                                                               : zt_nn_probe_at(probe, i)->role_count;
    return count;
}

static int64_t find_metric(const zt_nn_archetype *archetype, const char *name)
{
    for (int64_t i = 0; i < archetype->metric_count; i++)
        if (!strcmp(archetype->metrics[i].name, name)) return archetype->metrics[i].value;
    return 0;
}

/* ---- overrides ------------------------------------------------------------------------------- */

/* A member that is a number above 0; else 0. */
static double read_positive(const json_t *object, const char *key)
{
    double number = json_number_value(json_object_get(object, key));
    return number > 0 ? number : 0;
}

zt_status zt_nn_overrides_read(zt_ctx *ctx, const char *path, zt_nn_overrides *overrides)
{
    ZT_REQUIRE(ctx, path, ZT_EUSAGE);
    json_t *config = zt_json_file(ctx, path, 1 << 24);
    if (!config) return zt_ctx_status(ctx);
    double heads = read_positive(config, "num_attention_heads");
    *overrides = (zt_nn_overrides){.heads = heads < 1 << 24 ? (int64_t)heads : 0,
                                   .rope_base = read_positive(config, "rope_theta"),
                                   .eps = read_positive(config, "rms_norm_eps")};
    if (overrides->rope_base == 0) overrides->rope_base = read_positive(json_object_get(config, "rope_parameters"), "rope_theta");
    if (overrides->eps == 0) overrides->eps = read_positive(config, "layer_norm_eps");
    json_decref(config);
    return ZT_OK;
}

/* ---- the document ---------------------------------------------------------------------------- */

/* The number of heads: from overrides, else heads of 64 columns where d and kv are multiples, else of kv columns. */
static void put_heads(zt_str *text, const zt_nn_archetype *archetype, const zt_nn_overrides *overrides)
{
    int64_t width = find_metric(archetype, "d"), kv_width = find_metric(archetype, "kv") ? find_metric(archetype, "kv") : width,
            heads = overrides->heads;
    if (heads < 1 || width % heads) heads = width % 64 || kv_width % 64 ? 0 : width / 64;
    if (heads == 0 || kv_width % (width / heads)) heads = width % kv_width ? 1 : width / kv_width;
    zt_str_printf(text, ",\"num_heads\":%" PRId64 ",\"num_kv_heads\":%" PRId64, heads,
                  kv_width / (width / heads) ? kv_width / (width / heads) : 1);
    if (!archetype->named) return;
    zt_str_puts(text, ",\"rope_freq_base\":");
    zt_str_put_double(text, overrides->rope_base > 0 ? overrides->rope_base : 10000);
}

/* The layer's object without the closing brace. */
static void put_layer(zt_str *text, const zt_nn_archetype *archetype, const zt_nn_overrides *overrides)
{
    const layer_form *form = find_form(archetype);
    zt_str_printf(text, "\"type\":\"%s\"", zt_nn_kind_name(archetype->kind));
    for (int k = 0; k < 4 && form->sizes[k].metric; k++)
        zt_str_printf(text, ",\"%s\":%" PRId64, form->sizes[k].number, find_metric(archetype, form->sizes[k].metric));
    if (archetype->kind == ZT_NN_MHA) put_heads(text, archetype, overrides);
    if (!archetype->named || overrides->eps <= 0 || (archetype->kind != ZT_NN_RMSNORM && archetype->kind != ZT_NN_LAYERNORM))
        return;
    zt_str_puts(text, ",\"eps\":");
    zt_str_put_double(text, overrides->eps);
}

/* Returns the number of layers of the grid. */
static int64_t put_layers(zt_str *text, const zt_nn_probe *probe, const zt_nn_overrides *overrides)
{
    int64_t count = 0;
    for (int64_t archetype_index = 0; archetype_index < zt_nn_probe_count(probe); archetype_index++) {
        const zt_nn_archetype *archetype = zt_nn_probe_at(probe, archetype_index);
        if (!zt_nn_mounts(probe, archetype)) continue;
        zt_str_printf(text, "%s{\"l\":%" PRId64 ",", count ? ",\n" : "", count);
        if (archetype->residual)
            zt_str_puts(text, "\"type\":\"Sequential\",\"sequential_layers\":[{\"type\":"
                              "\"Sequential\",\"sequential_layers\":[{");
        put_layer(text, archetype, overrides);
        if (archetype->residual) {
            zt_str_puts(text, "},{");
            put_layer(text, zt_nn_probe_at(probe, ++archetype_index), overrides);
            zt_str_puts(text, "}]},{\"type\":\"Residual\"}]");
        }
        zt_str_putc(text, '}');
        count++;
    }
    return count;
}

static void put_node(zt_str *text, const zt_nn_probe *probe, const zt_nn_overrides *overrides, const zt_nn_layout *node);

/* A list of objects; grid: with their places in the grid. */
static int64_t put_list(zt_str *text, const zt_nn_probe *probe, const zt_nn_overrides *overrides, const zt_nn_layout *layout,
                        bool grid)
{
    int64_t count = 0;
    for (; layout; layout = layout->next, count++) {
        zt_str_puts(text, count ? ",\n{" : "{");
        if (grid) zt_str_printf(text, "\"l\":%" PRId64 ",", count);
        put_node(text, probe, overrides, layout);
        zt_str_putc(text, '}');
    }
    return count;
}

static void put_node(zt_str *text, const zt_nn_probe *probe, const zt_nn_overrides *overrides, const zt_nn_layout *node)
{
    if (node->kind == ZT_NN_LAYOUT_LAYER) {
        put_layer(text, zt_nn_probe_at(probe, node->layer), overrides);
        return;
    }
    bool parallel = node->kind == ZT_NN_LAYOUT_PARALLEL, residual = node->kind == ZT_NN_LAYOUT_RESIDUAL;
    if (parallel)
        zt_str_printf(text, "\"type\":\"Parallel\",\"combine_mode\":\"%s\",\"parallel_branches\":[", node->combine);
    else
        zt_str_puts(text, "\"type\":\"Sequential\",\"sequential_layers\":[");
    if (residual) zt_str_puts(text, "{\"type\":\"Sequential\",\"sequential_layers\":[");
    put_list(text, probe, overrides, node->inner, false);
    zt_str_puts(text, residual ? "]},{\"type\":\"Residual\"}]" : "]");
}

static int64_t put_document(zt_str *text, const zt_nn_probe *probe, const zt_nn_overrides *overrides, const zt_nn_layout *layout)
{
    zt_str layers;
    zt_str_init(&layers, text->ctx);
    int64_t count = layout ? put_list(&layers, probe, overrides, layout, true) : put_layers(&layers, probe, overrides);
    zt_str_printf(text, "{\"id\":\"network\",\"depth\":1,\"rows\":1,\"cols\":1,\"layers_per_cell\":%" PRId64 ",\"layers\":[\n",
                  count);
    zt_str_put(text, layers.data, layers.len);
    zt_str_puts(text, "]}");
    zt_str_fini(&layers);
    return count;
}

/* ---- weights --------------------------------------------------------------------------------- */

static zt_status read_tensor(zt_nn *network, zt_checkpoint *checkpoint, const zt_nn_geometry *geometry, float *out)
{
    const zt_dtype_info *info = zt_dtype_get(geometry->type.dtype);
    int64_t tensor = zt_checkpoint_find(checkpoint, geometry->name);
    size_t bytes = zt_type_bytes(&geometry->type);
    if (tensor < 0 || !info->decode)
        return zt_fail(network->ctx, ZT_ENOTSUP, "tensor '%s' is not of a float type", geometry->name);
    void *raw = zt_alloc(network->ctx, bytes);
    zt_status status = raw ? zt_checkpoint_read(checkpoint, tensor, 0, raw, bytes) : ZT_ENOMEM;
    if (!status) info->decode(raw, out, zt_type_count(&geometry->type));
    zt_free(network->ctx, raw);
    return status;
}

/* A tensor as a weight of the layer, or as four weights of a quarter each. */
static zt_status put_tensor(zt_nn *network, const zt_nn_layer *layer, const char *part, const float *values, int64_t count)
{
    char name[160];
    zt_status status = ZT_OK;
    int parts = strchr(part, '%') ? 4 : 1;
    for (int part_index = 0; part_index < parts && !status; part_index++) {
        int len = snprintf(name, sizeof name, "%s.%s", layer->path, part);
        if (parts == 4) snprintf(name + len - 2, 3, "%c", "ifgo"[part_index]);
        status = zt_nn_put(network, name, values + part_index * (count / parts), count / parts);
    }
    return status;
}

static zt_status fill_layer(zt_nn *network, const zt_nn_layer *layer, const zt_nn_probe *probe, const zt_nn_archetype *archetype,
                            const layer_form *form, zt_checkpoint *checkpoint)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < archetype->role_count && !status; i++)
        for (int k = 0; k < MAX_ROLES && form->weights[k].role && !status; k++) {
            const zt_nn_geometry *geometry = zt_nn_probe_tensor(probe, archetype->roles[i].tensor);
            int64_t count = zt_type_count(&geometry->type);
            if (strcmp(form->weights[k].role, archetype->roles[i].name)) continue;
            float *values = zt_alloc_array(network->ctx, (size_t)count, sizeof *values);
            status = values ? read_tensor(network, checkpoint, geometry, values) : ZT_ENOMEM;
            if (!status) status = put_tensor(network, layer, form->weights[k].part, values, count);
            zt_free(network->ctx, values);
        }
    return status;
}

static zt_status fill_all(zt_nn *network, const zt_nn_probe *probe, zt_checkpoint *checkpoint)
{
    zt_status status = ZT_OK;
    int64_t layer_index = 0;
    for (int64_t archetype_index = 0; archetype_index < zt_nn_probe_count(probe) && !status; archetype_index++) {
        const zt_nn_archetype *archetype = zt_nn_probe_at(probe, archetype_index);
        if (!zt_nn_mounts(probe, archetype)) continue;
        const zt_nn_layer *layer = network->layers[layer_index++], *inner = archetype->residual ? layer->steps[0].steps : layer;
        status = fill_layer(network, inner, probe, archetype, find_form(archetype), checkpoint);
        if (!archetype->residual || status) continue;
        archetype = zt_nn_probe_at(probe, ++archetype_index);
        status = fill_layer(network, inner + 1, probe, archetype, find_form(archetype), checkpoint);
    }
    return status;
}

/* The weights of a layer that was made of a layout's node. */
static zt_status fill_node(zt_nn *network, const zt_nn_probe *probe, zt_checkpoint *checkpoint, const zt_nn_layout *node,
                           const zt_nn_layer *layer)
{
    zt_status status = ZT_OK;
    int64_t i = 0;
    if (node->kind == ZT_NN_LAYOUT_LAYER) {
        const zt_nn_archetype *archetype = zt_nn_probe_at(probe, node->layer);
        return fill_layer(network, layer, probe, archetype, find_form(archetype), checkpoint);
    }
    if (node->kind == ZT_NN_LAYOUT_RESIDUAL) layer = layer->steps;
    const zt_nn_layer *inner = node->kind == ZT_NN_LAYOUT_PARALLEL ? layer->branches : layer->steps;
    for (const zt_nn_layout *child = node->inner; child && !status; child = child->next)
        status = fill_node(network, probe, checkpoint, child, &inner[i++]);
    return status;
}

static zt_status fill_layout(zt_nn *network, const zt_nn_probe *probe, zt_checkpoint *checkpoint, const zt_nn_layout *layout)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; layout && !status; layout = layout->next)
        status = fill_node(network, probe, checkpoint, layout, network->layers[i++]);
    return status;
}

zt_nn *zt_nn_mount(zt_ctx *ctx, const zt_nn_probe *probe, zt_checkpoint *checkpoint, const zt_nn_overrides *overrides)
{
    ZT_REQUIRE(ctx, probe && checkpoint, NULL);
    return zt_nn_mount_as(ctx, probe, checkpoint, overrides, NULL);
}

zt_nn *zt_nn_mount_as(zt_ctx *ctx, const zt_nn_probe *probe, zt_checkpoint *checkpoint, const zt_nn_overrides *overrides,
                      const zt_nn_layout *layout)
{
    ZT_REQUIRE(ctx, probe && checkpoint, NULL);
    zt_str text;
    zt_str_init(&text, ctx);
    int64_t count = put_document(&text, probe, overrides ? overrides : &(zt_nn_overrides){0}, layout);
    zt_source *source = NULL;
    if (count == 0)
        zt_fail(ctx, ZT_EDATA, "%s: no tensor was recognized as part of a layer", zt_checkpoint_name(checkpoint));
    else if (zt_ctx_status(ctx) == ZT_OK)
        source = zt_source_memory(ctx, zt_checkpoint_name(checkpoint), text.data, text.len);
    zt_nn *network = source ? zt_nn_from(ctx, source, 0) : NULL;
    zt_status status = !network ? ZT_EDATA
                       : layout ? fill_layout(network, probe, checkpoint, layout)
                                : fill_all(network, probe, checkpoint);
    zt_source_close(source);
    zt_str_fini(&text);
    if (!status) return network;
    zt_nn_close(network);
    return NULL;
}
