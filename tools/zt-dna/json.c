/* json.c - layers and their signatures as JSON. */
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dna_put_number(zt_str *text, const char *key, double number)
{
    zt_str_printf(text, ",\"%s\":", key);
    if (isfinite(number))
        zt_str_put_double(text, number);
    else
        zt_str_puts(text, "null");
}

void dna_put_text(zt_str *out, const char *key, const char *text)
{
    zt_str_printf(out, "\"%s\":", key);
    zt_str_put_json(out, text, strlen(text));
}

/* The shortest text that reads as the same f32. */
static void put_float(zt_str *out, float number)
{
    char text[32];
    if (!isfinite(number)) {
        zt_str_puts(out, "null");
        return;
    }
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)number);
        if (strtof(text, NULL) == number) break;
    }
    zt_str_puts(out, text);
}

static void put_weights(zt_str *text, const float *values, int64_t count)
{
    zt_str_puts(text, ",\"weights\":[");
    for (int64_t i = 0; i < count; i++) {
        if (i) zt_str_putc(text, ',');
        put_float(text, values[i]);
    }
    zt_str_putc(text, ']');
}

void dna_put_place(zt_str *text, const zt_dna_layer *layer)
{
    zt_str_printf(text, ",\"z\":%" PRId64 ",\"y\":%" PRId64 ",\"x\":%" PRId64 ",\"l\":%" PRId64 ",", layer->place[0],
                  layer->place[1], layer->place[2], layer->place[3]);
}

zt_status dna_put_signature(zt_dna *model, int64_t index, bool weights, zt_str *text)
{
    const zt_dna_layer *layer = zt_dna_get(model, index);
    double length = NAN;
    float *values = zt_alloc_array(text->ctx, (size_t)layer->count + 1, sizeof *values);
    zt_status status = values ? zt_dna_sign(model, index, values, &length) : ZT_ENOMEM;
    if (status == ZT_OK) {
        zt_str_putc(text, '{');
        dna_put_text(text, "name", layer->name);
        dna_put_place(text, layer);
        dna_put_text(text, "type", layer->type);
        zt_str_putc(text, ',');
        dna_put_text(text, "dtype", layer->dtype);
        zt_str_puts(text, ",\"shape\":[");
        for (int k = 0; k < layer->shape.rank; k++) zt_str_printf(text, "%s%" PRId64, k ? "," : "", layer->shape.dim[k]);
        zt_str_printf(text, "],\"n\":%" PRId64, layer->count);
        dna_put_number(text, "length", length);
        if (weights) put_weights(text, values, layer->count);
        status = zt_str_putc(text, '}');
    }
    zt_free(text->ctx, values);
    return status;
}

zt_status dna_put_signatures(zt_dna *model, bool weights, zt_str *text)
{
    zt_status status = zt_str_putc(text, '[');
    for (int64_t layer_index = 0; layer_index < zt_dna_count(model) && status == ZT_OK; layer_index++) {
        if (layer_index) zt_str_putc(text, ',');
        status = dna_put_signature(model, layer_index, weights, text);
    }
    return status == ZT_OK ? zt_str_putc(text, ']') : status;
}
