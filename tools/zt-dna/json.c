/* json.c - layers and their signatures as JSON. */
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dna_put_number(zt_str *s, const char *key, double x)
{
    zt_str_printf(s, ",\"%s\":", key);
    if (isfinite(x))
        zt_str_put_double(s, x);
    else
        zt_str_puts(s, "null");
}

void dna_put_text(zt_str *s, const char *key, const char *text)
{
    zt_str_printf(s, "\"%s\":", key);
    zt_str_put_json(s, text, strlen(text));
}

/* The shortest text that reads as the same f32. */
static void put_float(zt_str *s, float x)
{
    char text[32];
    if (!isfinite(x)) {
        zt_str_puts(s, "null");
        return;
    }
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x) break;
    }
    zt_str_puts(s, text);
}

static void put_weights(zt_str *s, const float *x, int64_t n)
{
    zt_str_puts(s, ",\"weights\":[");
    for (int64_t i = 0; i < n; i++) {
        if (i) zt_str_putc(s, ',');
        put_float(s, x[i]);
    }
    zt_str_putc(s, ']');
}

void dna_put_place(zt_str *s, const zt_dna_layer *l)
{
    zt_str_printf(s, ",\"z\":%" PRId64 ",\"y\":%" PRId64 ",\"x\":%" PRId64 ",\"l\":%" PRId64 ",",
                  l->place[0], l->place[1], l->place[2], l->place[3]);
}

zt_status dna_put_signature(zt_dna *d, int64_t i, bool weights, zt_str *s)
{
    const zt_dna_layer *l = zt_dna_get(d, i);
    double length = NAN;
    float *x = zt_alloc_array(s->ctx, (size_t)l->count + 1, sizeof *x);
    zt_status st = x ? zt_dna_sign(d, i, x, &length) : ZT_ENOMEM;
    if (st == ZT_OK) {
        zt_str_putc(s, '{');
        dna_put_text(s, "name", l->name);
        dna_put_place(s, l);
        dna_put_text(s, "type", l->type);
        zt_str_putc(s, ',');
        dna_put_text(s, "dtype", l->dtype);
        zt_str_puts(s, ",\"shape\":[");
        for (int k = 0; k < l->shape.rank; k++)
            zt_str_printf(s, "%s%" PRId64, k ? "," : "", l->shape.dim[k]);
        zt_str_printf(s, "],\"n\":%" PRId64, l->count);
        dna_put_number(s, "length", length);
        if (weights) put_weights(s, x, l->count);
        st = zt_str_putc(s, '}');
    }
    zt_free(s->ctx, x);
    return st;
}

zt_status dna_put_signatures(zt_dna *d, bool weights, zt_str *s)
{
    zt_status st = zt_str_putc(s, '[');
    for (int64_t i = 0; i < zt_dna_count(d) && st == ZT_OK; i++) {
        if (i) zt_str_putc(s, ',');
        st = dna_put_signature(d, i, weights, s);
    }
    return st == ZT_OK ? zt_str_putc(s, ']') : st;
}
