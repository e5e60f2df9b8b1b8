/* netjson_types.c - owns what a network's weights are: their codes, and a frame that says others.
 *
 * A frame is text: the values of the members that tell of weights are replaced where they stand,
 * and what is missing comes behind the weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/io/netjson_file.h"

zt_net_weights zt_netjson_weights(const zt_netjson *j, int64_t i)
{
    return j->weights[i].are;
}

int64_t zt_netjson_elements(const zt_netjson *j, int64_t i)
{
    return j->weights[i].count;
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* Floats that are held as f32. */
static bool is_f32(const zt_net_weights *w)
{
    return !w->native || w->type == ZT_STORE_F32 || w->type == ZT_STORE_F16 ||
           w->type == ZT_STORE_BF16;
}

size_t zt_net_bytes(const zt_net_weights *w, int64_t n)
{
    return is_f32(w) ? (size_t)n * sizeof(float) : zt_storage_bytes(w->type, w->rule, n);
}

/* The codes of each byte in the other order: the first of them in the highest bits. */
static void turn(uint8_t *p, size_t n, int bits)
{
    unsigned mask = (1u << bits) - 1;
    for (size_t i = 0; i < n; i++) {
        unsigned was = p[i], is = 0;
        for (int at = 0; at < 8; at += bits)
            is |= (was >> at & mask) << (8 - bits - at);
        p[i] = (uint8_t)is;
    }
}

zt_status zt_net_encode(zt_ctx *ctx, const zt_net_weights *w, const float *x, int64_t n, void *out,
                        float *y)
{
    size_t bytes = zt_storage_bytes(w->type, w->rule, n);
    int bits = zt_storage_get(w->type)->bits;
    zt_status st;
    if (!w->native) {
        memcpy(out, x, (size_t)n * sizeof *x);
        memcpy(y, x, (size_t)n * sizeof *x);
        return ZT_OK;
    }
    st = zt_storage_encode(ctx, w->type, w->rule, x, n, w->scale, out);
    if (st != ZT_OK)
        return st;
    zt_storage_decode(w->type, w->rule, out, n, w->scale, y);
    if (is_f32(w))
        memcpy(out, y, (size_t)n * sizeof *y);
    else if (w->rule == ZT_RULE_FIELD && bits < 8)
        turn(out, bytes, bits);
    return ZT_OK;
}

zt_net_weights zt_net_nearest(const zt_net_weights *w)
{
    static const struct {
        zt_storage type, read; /* by Loom's reader */
    } rows[] = {{ZT_STORE_FP8E4M3, ZT_STORE_I8}, {ZT_STORE_FP8E5M2, ZT_STORE_I8},
                {ZT_STORE_FP4, ZT_STORE_I4},     {ZT_STORE_U64, ZT_STORE_I64},
                {ZT_STORE_U32, ZT_STORE_I32},    {ZT_STORE_U16, ZT_STORE_I16},
                {ZT_STORE_U8, ZT_STORE_I8},      {ZT_STORE_U4, ZT_STORE_I4},
                {ZT_STORE_U2, ZT_STORE_I2}};
    zt_net_weights as = *w;
    if (!w->native || w->rule == ZT_RULE_FIELD || w->type <= ZT_STORE_BF16)
        return as;
    as.rule = ZT_RULE_FIELD;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == w->type)
            as.type = rows[i].read;
    return as;
}

void zt_net_decode(const zt_net_weights *w, const void *bytes, int64_t n, float *y)
{
    uint8_t piece[256];
    const uint8_t *p = bytes;
    int bits = zt_storage_get(w->type)->bits;
    if (is_f32(w)) {
        memcpy(y, bytes, (size_t)n * sizeof *y);
        return;
    }
    if (w->rule == ZT_RULE_LOOM || bits >= 8) {
        zt_storage_decode(w->type, w->rule, bytes, n, w->scale, y);
        return;
    }
    for (int64_t each = 8 * (int64_t)sizeof piece / bits; n > 0; n -= each, y += each) {
        int64_t some = n < each ? n : each;
        size_t size = zt_storage_bytes(w->type, w->rule, some);
        memcpy(piece, p, size);
        turn(piece, size, bits);
        zt_storage_decode(w->type, w->rule, piece, some, w->scale, y);
        p += size;
    }
}

/* ---- another frame --------------------------------------------------------------------------- */

/* frame[from .. to-1] becomes the text. */
typedef struct edit {
    size_t from, to;
    int order; /* among those of one place */
    char text[48];
} edit;

enum { EDITS = NJ_MEMBERS + 1 }; /* of a layer: its members, and what stands for its weights */

static int by_place(const void *a, const void *b)
{
    const edit *x = a, *y = b;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : x->order - y->order;
}

/* The shortest number that reads as this scale. */
static void write_scale(char *buf, size_t size, float scale)
{
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(buf, size, "%.*g", digits, (double)scale);
        if (strtof(buf, NULL) == scale)
            return;
    }
}

/* A member's value, where it stands or, missing, behind the weights. */
static void set(edit *e, const nj_weights *w, int member, const char *value)
{
    static const char *const key[NJ_MEMBERS] = {"dtype", "native", "scale", "zt.rule"};
    nj_span at = w->member[member];
    bool there = at.to > at.from;
    e->from = there ? at.from : w->frame_end + 1;
    e->to = there ? at.to : e->from;
    e->order = member;
    if (there)
        snprintf(e->text, sizeof e->text, "%s", value);
    else
        snprintf(e->text, sizeof e->text, ",\"%s\":%s", key[member], value);
}

/* What must be said otherwise of tensor i; how many edits. */
static int edits_of(const zt_netjson *j, int64_t i, const zt_net_weights *to, edit *e)
{
    const nj_weights *w = &j->weights[i];
    char text[32];
    int n = 0;
    bool by_rule = to->native && zt_nj_reads_by_rule(to->type);
    snprintf(text, sizeof text, "\"%s\"", zt_netjson_word(to->type));
    set(&e[n++], w, NJ_DTYPE, text);
    if (to->native != w->are.native)
        set(&e[n++], w, NJ_NATIVE, to->native ? "true" : "false");
    write_scale(text, sizeof text, to->scale);
    if (to->scale != w->are.scale || (w->member[NJ_SCALE].to == 0 && to->native))
        set(&e[n++], w, NJ_SCALE, text);
    if (w->member[NJ_RULE].to || (by_rule && to->rule == ZT_RULE_FIELD))
        set(&e[n++], w, NJ_RULE, to->rule == ZT_RULE_FIELD && by_rule ? "\"field\"" : "\"loom\"");
    e[n] = (edit){.from = w->frame, .to = w->frame_end};
    snprintf(e[n].text, sizeof e[n].text, "#%lld:%zu", (long long)i,
             zt_net_bytes(to, zt_netjson_elements(j, i)));
    return n + 1;
}

static bool is_same(const zt_net_weights *a, const zt_net_weights *b)
{
    return a->type == b->type && a->native == b->native && a->rule == b->rule &&
           a->scale == b->scale;
}

static zt_status put_edited(const zt_netjson *j, const edit *e, int64_t n, zt_str *out)
{
    size_t at = 0;
    zt_status st = ZT_OK;
    for (int64_t i = 0; i < n && st == ZT_OK; i++) {
        st = zt_str_put(out, j->frame.data + at, e[i].from - at);
        if (st == ZT_OK)
            st = zt_str_puts(out, e[i].text);
        at = e[i].to;
    }
    return st == ZT_OK ? zt_str_put(out, j->frame.data + at, j->frame.len - at) : st;
}

zt_status zt_netjson_reframe(const zt_netjson *j, const zt_net_weights *w, zt_str *out)
{
    int64_t n = 0;
    zt_status st = ZT_OK;
    edit *e = zt_alloc_array(j->ctx, (size_t)j->n + 1, EDITS * sizeof *e);
    if (!e)
        return ZT_ENOMEM;
    for (int64_t i = 0; i < j->n && st == ZT_OK; i++) {
        if (is_same(&w[i], &j->weights[i].are))
            continue;
        if (zt_netjson_elements(j, i) < 0)
            st = zt_fail(j->ctx, ZT_ENOTSUP, "'%s': packed %s: how many there are is not told",
                         j->tensor[i].name, zt_netjson_word(j->weights[i].are.type));
        else
            n += edits_of(j, i, &w[i], e + n);
    }
    if (st == ZT_OK) {
        qsort(e, (size_t)n, sizeof *e, by_place);
        st = put_edited(j, e, n, out);
    }
    zt_free(j->ctx, e);
    return st;
}
