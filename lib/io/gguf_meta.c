/* gguf_meta.c - owns reading metadata: keys by name or number, values and arrays of any width. */
#include "lib/io/gguf_file.h"

#include <math.h>
#include <string.h>

/* A value in the header: where it is and, for an array, of what and how many. */
typedef struct value {
    const gguf_kind *kind; /* of the value, or of an array's elements */
    bool is_array;
    uint64_t count; /* 1 when not an array */
    const char *data;
    zt_gguf_kind number; /* of kind */
} value;

static zt_bytes string_at(const char *p)
{
    return (zt_bytes){.data = p + 8, .n = (size_t)zt_gguf_u64(p)};
}

static zt_bytes read_key(const zt_gguf *g, int64_t i, value *v)
{
    zt_bytes key = string_at(g->head + g->key[i]);
    const char *p = key.data + key.n;
    *v = (value){.number = (zt_gguf_kind)zt_gguf_u32(p), .count = 1};
    p += 4;
    if (v->number == ZT_GGUF_ARRAY) {
        v->is_array = true;
        v->number = (zt_gguf_kind)zt_gguf_u32(p);
        v->count = zt_gguf_u64(p + 4);
        p += 12;
    }
    v->kind = zt_gguf_kind_get(v->number);
    v->data = p;
    return key;
}

static bool find(const zt_gguf *g, const char *key, value *v)
{
    int64_t i;
    if (!zt_map_get(g->keys, key, strlen(key), &i))
        return false;
    read_key(g, i, v);
    return true;
}

int64_t zt_gguf_n_keys(const zt_gguf *g)
{
    return g->n_keys;
}

zt_bytes zt_gguf_key(const zt_gguf *g, int64_t i, zt_gguf_kind *kind)
{
    value v;
    zt_bytes key = read_key(g, i, &v);
    if (kind)
        *kind = v.is_array ? ZT_GGUF_ARRAY : v.number;
    return key;
}

zt_bytes zt_gguf_key_value(const zt_gguf *g, int64_t i, zt_gguf_kind *kind, zt_bytes *raw)
{
    zt_bytes key = zt_gguf_key(g, i, kind);
    const char *from = key.data + key.n + 4;
    size_t end = i + 1 < g->n_keys ? g->key[i + 1] : g->keys_end;
    *raw = (zt_bytes){.data = from, .n = (size_t)(g->head + end - from)};
    return key;
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* A number of any kind: as a double if `real`, else as its low 64 bits, negative if `minus`. */
typedef struct number {
    bool real, minus;
    double d;
    uint64_t u;
} number;

static bool read_number(const gguf_kind *kind, const char *p, number *out)
{
    float f;
    *out = (number){.real = kind->form == 'f'};
    if (kind->bytes == 0)
        return false;
    memcpy(&out->u, p, kind->bytes); /* little endian: the low bytes */
    if (out->real && kind->bytes == 4) {
        memcpy(&f, p, 4);
        out->d = f;
    } else if (out->real) {
        memcpy(&out->d, p, 8);
    } else if (kind->form == 'i' && out->u >> (8 * kind->bytes - 1)) {
        out->minus = true;
        out->u |= kind->bytes == 8 ? 0 : UINT64_MAX << 8 * kind->bytes;
    }
    return true;
}

static bool to_i64(const gguf_kind *kind, const char *p, int64_t *out)
{
    number x;
    if (!read_number(kind, p, &x))
        return false;
    if (x.real) {
        if (!(x.d >= -0x1p63 && x.d < 0x1p63) || x.d != trunc(x.d))
            return false;
        *out = (int64_t)x.d;
        return true;
    }
    if (!x.minus && x.u > INT64_MAX)
        return false;
    memcpy(out, &x.u, 8); /* two's complement */
    return true;
}

static bool to_f64(const gguf_kind *kind, const char *p, double *out)
{
    number x;
    if (!read_number(kind, p, &x))
        return false;
    *out = x.real ? x.d : x.minus ? -(double)(~x.u + 1) : (double)x.u;
    return true;
}

bool zt_gguf_i64(const zt_gguf *g, const char *key, int64_t *out)
{
    value v;
    return find(g, key, &v) && !v.is_array && to_i64(v.kind, v.data, out);
}

bool zt_gguf_f64(const zt_gguf *g, const char *key, double *out)
{
    value v;
    return find(g, key, &v) && !v.is_array && to_f64(v.kind, v.data, out);
}

bool zt_gguf_str(const zt_gguf *g, const char *key, zt_bytes *out)
{
    value v;
    if (!find(g, key, &v) || v.is_array || v.number != ZT_GGUF_STR)
        return false;
    *out = string_at(v.data);
    return true;
}

/* ---- arrays -------------------------------------------------------------------------------- */

static bool find_array(const zt_gguf *g, const char *key, value *v)
{
    return find(g, key, v) && v->is_array;
}

bool zt_gguf_array(const zt_gguf *g, const char *key, zt_gguf_kind *elem, int64_t *count)
{
    value v;
    if (!find_array(g, key, &v))
        return false;
    if (elem)
        *elem = v.number;
    if (count)
        *count = (int64_t)v.count;
    return true;
}

zt_bytes zt_gguf_array_str(const zt_gguf *g, const char *key, int64_t i)
{
    value v;
    if (!find_array(g, key, &v) || v.number != ZT_GGUF_STR || i < 0 || (uint64_t)i >= v.count)
        return (zt_bytes){.data = ""};
    const char *p = v.data;
    for (int64_t k = 0; k < i; k++)
        p += 8 + zt_gguf_u64(p);
    return string_at(p);
}

bool zt_gguf_array_strs(const zt_gguf *g, const char *key, zt_bytes *out, int64_t count)
{
    value v;
    if (!find_array(g, key, &v) || v.number != ZT_GGUF_STR || (int64_t)v.count != count)
        return false;
    const char *p = v.data;
    for (int64_t i = 0; i < count; i++) {
        out[i] = string_at(p);
        p = out[i].data + out[i].n;
    }
    return true;
}

bool zt_gguf_array_i64(const zt_gguf *g, const char *key, int64_t *out, int64_t count)
{
    value v;
    if (!find_array(g, key, &v) || (int64_t)v.count != count)
        return false;
    for (int64_t i = 0; i < count; i++) {
        if (!to_i64(v.kind, v.data + i * v.kind->bytes, &out[i]))
            return false;
    }
    return true;
}

bool zt_gguf_array_f64(const zt_gguf *g, const char *key, double *out, int64_t count)
{
    value v;
    if (!find_array(g, key, &v) || (int64_t)v.count != count)
        return false;
    for (int64_t i = 0; i < count; i++) {
        if (!to_f64(v.kind, v.data + i * v.kind->bytes, &out[i]))
            return false;
    }
    return true;
}

const char *zt_gguf_kind_name(zt_gguf_kind kind)
{
    const gguf_kind *k = zt_gguf_kind_get(kind);
    return k ? k->name : "?";
}
