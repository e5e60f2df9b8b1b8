/* loom_network.h - for tests: a network of a golden case of loom/, with its masters in place of its
 * weights, opened by lib/dna. */
#ifndef ZT_TEST_LOOM_NETWORK_H
#define ZT_TEST_LOOM_NETWORK_H

#include "lib/dna/dna.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOOM_FN __attribute__((unused)) static

/* A number of a case: "nan", "inf" and "-inf" are texts there. */
LOOM_FN double loom_number(const json_t *x)
{
    return json_is_string(x) ? strtod(json_string_value(x), NULL) : json_number_value(x);
}

LOOM_FN bool loom_near(double got, double want, double tolerance)
{
    if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= tolerance * (fabs(want) > 1 ? fabs(want) : 1);
}

/* Numbers as base64 of little-endian f32; malloc'ed text. */
LOOM_FN char *loom_base64(const float *x, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = (const uint8_t *)x;
    size_t bytes = count * sizeof *x, k = 0;
    char *out = malloc((bytes + 2) / 3 * 4 + 1);
    for (size_t i = 0; out && i < bytes; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < bytes ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < bytes ? p[i + 2] : 0);
        for (int d = 0; d < 4; d++) out[k++] = d > 1 && i + (size_t)d - 1 >= bytes ? '=' : digits[v >> (18 - 6 * d) & 63];
    }
    if (out) out[k] = 0;
    return out;
}

/* The layer's weights become the next master. */
LOOM_FN void loom_put_master(json_t *layer, const json_t *masters, size_t *next)
{
    const json_t *m = json_array_get(masters, (*next)++);
    size_t size = json_array_size(m);
    float *x = malloc(size * sizeof *x + 1);
    for (size_t i = 0; x && i < size; i++) x[i] = (float)loom_number(json_array_get(m, i));
    char *text = x ? loom_base64(x, size) : NULL;
    json_object_set_new(layer, "weights", json_string(text ? text : ""));
    json_object_del(layer, "native");
    free(text);
    free(x);
}

LOOM_FN void loom_put_masters(json_t *layer, const json_t *masters, size_t *next)
{
    json_t *inner;
    size_t i;
    if (json_object_get(layer, "weights")) loom_put_master(layer, masters, next);
    json_array_foreach(json_object_get(layer, "parallel_branches"), i, inner) loom_put_masters(inner, masters, next);
    json_array_foreach(json_object_get(layer, "sequential_layers"), i, inner) loom_put_masters(inner, masters, next);
    const char *type = json_string_value(json_object_get(layer, "type"));
    while (type && strcmp(type, "Parallel") == 0 && *next < json_array_size(masters)) {
        json_t *gate = json_pack("{ssss}", "type", "Dense", "dtype", "float32");
        json_array_append_new(json_object_get(layer, "parallel_branches"), gate);
        loom_put_master(gate, masters, next);
    }
}

typedef struct loom_net {
    char *text; /* of the document */
    zt_dna *dna;
} loom_net;

/* The document of {"network", "masters"}; malloc'ed. */
LOOM_FN char *loom_document(const json_t *side)
{
    json_t *net = json_deep_copy(json_object_get(side, "network")), *layer;
    size_t i;
    json_array_foreach(json_object_get(net, "layers"), i, layer)
    {
        size_t next = 0;
        loom_put_masters(layer, json_array_get(json_object_get(side, "masters"), i), &next);
    }
    char *text = json_dumps(net, JSON_COMPACT);
    json_decref(net);
    return text;
}

LOOM_FN zt_dna *loom_open(loom_net *n, zt_ctx *ctx, const json_t *side, zt_storage_rule rule)
{
    n->text = loom_document(side);
    n->dna = NULL;
    if (n->text)
        n->dna = zt_dna_of(ctx, zt_checkpoint_take(ctx, zt_source_memory(ctx, "net.json", n->text, strlen(n->text))), rule);
    return n->dna;
}

LOOM_FN void loom_close(loom_net *n)
{
    zt_dna_close(n->dna);
    free(n->text);
}

#endif
