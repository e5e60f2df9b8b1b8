/* held_signatures.c - owns the signatures of all layers of a model in memory, for comparing many models with each other. */
#include "lib/base/require.h"
#include "lib/dna/dna_file.h"

#include <string.h>

struct zt_dna_signatures {
    zt_ctx *ctx;
    zt_arena *texts;
    zt_map *names; /* of layers, to their index */
    struct {
        const char *name, *type, *dtype;
        zt_type shape;
        int64_t count;
        float *values; /* within `values` */
    } * layers;
    int64_t layer_count, value_count;
    float *values;
    bool by_dtype; /* Loom's rule: layers of different dtypes do not fit */
};

static zt_status hold_layer(zt_dna_signatures *held, zt_dna *model, int64_t index, float *values)
{
    const zt_dna_layer *layer = zt_dna_get(model, index);
    held->layers[index].name = zt_arena_strndup(held->texts, layer->name, strlen(layer->name));
    held->layers[index].type = zt_arena_strndup(held->texts, layer->type, strlen(layer->type));
    held->layers[index].dtype = zt_arena_strndup(held->texts, layer->dtype, strlen(layer->dtype));
    held->layers[index].shape = layer->shape;
    held->layers[index].count = layer->count;
    held->layers[index].values = values;
    if (!held->layers[index].name || !held->layers[index].type || !held->layers[index].dtype) return ZT_ENOMEM;
    zt_status status = zt_map_put(held->names, held->layers[index].name, strlen(layer->name), index);
    return status ? status : zt_dna_sign(model, index, values, NULL);
}

zt_dna_signatures *zt_dna_hold(zt_dna *model)
{
    if (!model) return NULL;
    zt_dna_signatures *held = zt_calloc(model->ctx, 1, sizeof *held);
    if (!held) return NULL;
    held->ctx = model->ctx;
    held->by_dtype = model->rule == ZT_RULE_LOOM;
    held->layer_count = zt_dna_count(model);
    for (int64_t i = 0; i < held->layer_count; i++) held->value_count += zt_dna_get(model, i)->count;
    held->texts = zt_arena_new(held->ctx, 0);
    held->names = zt_map_new(held->ctx, (size_t)held->layer_count + 1);
    held->layers = zt_calloc(held->ctx, (size_t)held->layer_count + 1, sizeof *held->layers);
    held->values = zt_alloc_array(held->ctx, (size_t)held->value_count + 1, sizeof *held->values);
    zt_status status = held->texts && held->names && held->layers && held->values ? ZT_OK : ZT_ENOMEM;
    float *values = held->values;
    for (int64_t i = 0; i < held->layer_count && status == ZT_OK; i++) {
        status = hold_layer(held, model, i, values);
        values += zt_dna_get(model, i)->count;
    }
    if (status == ZT_OK) return held;
    zt_dna_release(held);
    return NULL;
}

void zt_dna_release(zt_dna_signatures *held)
{
    if (!held) return;
    zt_map_free(held->names);
    zt_arena_free(held->texts);
    zt_free(held->ctx, held->layers);
    zt_free(held->ctx, held->values);
    zt_free(held->ctx, held);
}

int64_t zt_dna_held_values(const zt_dna_signatures *held) { return held ? held->value_count : 0; }

/* As zt_dna_compare has it. */
static double layer_overlap(const zt_dna_signatures *a, int64_t i, const zt_dna_signatures *b, int64_t k)
{
    const zt_type *left = &a->layers[i].shape, *right = &b->layers[k].shape;
    bool fit =
        !strcmp(a->layers[i].type, b->layers[k].type) && left->rank == right->rank && a->layers[i].count == b->layers[k].count;
    for (int axis = 0; axis < left->rank && fit; axis++) fit = left->dim[axis] == right->dim[axis];
    if (fit && (a->by_dtype || b->by_dtype)) fit = !strcmp(a->layers[i].dtype, b->layers[k].dtype);
    return fit ? (double)zt_dna_similarity(a->layers[i].values, b->layers[k].values, a->layers[i].count) : 0;
}

double zt_dna_held_overlap(const zt_dna_signatures *a, const zt_dna_signatures *b)
{
    double sum = 0;
    int64_t common = 0;
    for (int64_t i = 0; a && b && i < a->layer_count; i++) {
        int64_t k = zt_map_find(b->names, a->layers[i].name);
        if (k < 0) continue;
        sum += layer_overlap(a, i, b, k);
        common++;
    }
    return common ? sum / (double)common : 0;
}
