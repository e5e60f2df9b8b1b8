/* gguf_meta.c - owns reading metadata: keys by name or number, values and arrays of any width. */
#include "lib/base/require.h"
#include "lib/io/gguf_file.h"

#include <math.h>
#include <string.h>

/* A value in the header: where it is and, for an array, of what and how many. */
typedef struct key_value {
    const gguf_kind *kind; /* of the value, or of an array's elements */
    bool is_array;
    uint64_t count; /* 1 when not an array */
    const char *data;
    zt_gguf_kind number; /* of kind */
} key_value;

static zt_bytes string_at(const char *record) { return (zt_bytes){.data = record + 8, .n = (size_t)zt_gguf_u64(record)}; }

static zt_bytes read_key(const zt_gguf *gguf, int64_t i, key_value *value)
{
    zt_bytes key = string_at(gguf->head + gguf->key[i]);
    const char *cursor = key.data + key.n;
    *value = (key_value){.number = (zt_gguf_kind)zt_gguf_u32(cursor), .count = 1};
    cursor += 4;
    if (value->number == ZT_GGUF_ARRAY) {
        value->is_array = true;
        value->number = (zt_gguf_kind)zt_gguf_u32(cursor);
        value->count = zt_gguf_u64(cursor + 4);
        cursor += 12;
    }
    value->kind = zt_gguf_kind_get(value->number);
    value->data = cursor;
    return key;
}

static bool find_value(const zt_gguf *gguf, const char *key, key_value *value)
{
    int64_t i;
    if (!zt_map_get(gguf->keys, key, strlen(key), &i)) return false;
    read_key(gguf, i, value);
    return true;
}

int64_t zt_gguf_n_keys(const zt_gguf *gguf) { return gguf ? gguf->n_keys : 0; }

zt_bytes zt_gguf_key(const zt_gguf *gguf, int64_t i, zt_gguf_kind *kind)
{
    if (!gguf) return (zt_bytes){0};
    ZT_REQUIRE(gguf->ctx, i >= 0 && i < gguf->n_keys, (zt_bytes){0});
    key_value value;
    zt_bytes key = read_key(gguf, i, &value);
    if (kind) *kind = value.is_array ? ZT_GGUF_ARRAY : value.number;
    return key;
}

zt_bytes zt_gguf_key_value(const zt_gguf *gguf, int64_t i, zt_gguf_kind *kind, zt_bytes *raw)
{
    if (!gguf) return (zt_bytes){0};
    ZT_REQUIRE(gguf->ctx, raw && i >= 0 && i < gguf->n_keys, (zt_bytes){0});
    zt_bytes key = zt_gguf_key(gguf, i, kind);
    const char *begin = key.data + key.n + 4;
    size_t end = i + 1 < gguf->n_keys ? gguf->key[i + 1] : gguf->keys_end;
    *raw = (zt_bytes){.data = begin, .n = (size_t)(gguf->head + end - begin)};
    return key;
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* A number of any kind: as a double if `is_real`, else as its low 64 bits, negative if `is_negative`. */
typedef struct any_number {
    bool is_real, is_negative;
    double real_value;
    uint64_t bits;
} any_number;

static bool read_number(const gguf_kind *kind, const char *bytes, any_number *out)
{
    float single;
    *out = (any_number){.is_real = kind->form == 'f'};
    if (kind->bytes == 0) return false;
    memcpy(&out->bits, bytes, kind->bytes); /* little endian: the low bytes */
    if (out->is_real && kind->bytes == 4) {
        memcpy(&single, bytes, 4);
        out->real_value = single;
    } else if (out->is_real) {
        memcpy(&out->real_value, bytes, 8);
    } else if (kind->form == 'i' && out->bits >> (8 * kind->bytes - 1)) {
        out->is_negative = true;
        out->bits |= kind->bytes == 8 ? 0 : UINT64_MAX << 8 * kind->bytes;
    }
    return true;
}

static bool to_i64(const gguf_kind *kind, const char *bytes, int64_t *out)
{
    any_number number;
    if (!read_number(kind, bytes, &number)) return false;
    if (number.is_real) {
        if (!(number.real_value >= -0x1p63 && number.real_value < 0x1p63) || number.real_value != trunc(number.real_value))
            return false;
        *out = (int64_t)number.real_value;
        return true;
    }
    if (!number.is_negative && number.bits > INT64_MAX) return false;
    memcpy(out, &number.bits, 8); /* two's complement */
    return true;
}

static bool to_f64(const gguf_kind *kind, const char *bytes, double *out)
{
    any_number number;
    if (!read_number(kind, bytes, &number)) return false;
    *out = number.is_real ? number.real_value : number.is_negative ? -(double)(~number.bits + 1) : (double)number.bits;
    return true;
}

bool zt_gguf_i64(const zt_gguf *gguf, const char *key, int64_t *out)
{
    if (!gguf) return false;
    ZT_REQUIRE(gguf->ctx, key, false);
    key_value value;
    return find_value(gguf, key, &value) && !value.is_array && to_i64(value.kind, value.data, out);
}

bool zt_gguf_f64(const zt_gguf *gguf, const char *key, double *out)
{
    if (!gguf) return false;
    ZT_REQUIRE(gguf->ctx, key, false);
    key_value value;
    return find_value(gguf, key, &value) && !value.is_array && to_f64(value.kind, value.data, out);
}

bool zt_gguf_str(const zt_gguf *gguf, const char *key, zt_bytes *out)
{
    if (!gguf) return false;
    ZT_REQUIRE(gguf->ctx, key, false);
    key_value value;
    if (!find_value(gguf, key, &value) || value.is_array || value.number != ZT_GGUF_STR) return false;
    *out = string_at(value.data);
    return true;
}

/* ---- arrays -------------------------------------------------------------------------------- */

static bool find_array(const zt_gguf *gguf, const char *key, key_value *value)
{
    return find_value(gguf, key, value) && value->is_array;
}

bool zt_gguf_array(const zt_gguf *gguf, const char *key, zt_gguf_kind *elem, int64_t *count)
{
    if (!gguf) return false;
    ZT_REQUIRE(gguf->ctx, key, false);
    key_value value;
    if (!find_array(gguf, key, &value)) return false;
    if (elem) *elem = value.number;
    if (count) *count = (int64_t)value.count;
    return true;
}

zt_bytes zt_gguf_array_str(const zt_gguf *gguf, const char *key, int64_t i)
{
    if (!gguf) return (zt_bytes){0};
    ZT_REQUIRE(gguf->ctx, key, (zt_bytes){0});
    key_value value;
    if (!find_array(gguf, key, &value) || value.number != ZT_GGUF_STR || i < 0 || (uint64_t)i >= value.count)
        return (zt_bytes){.data = ""};
    const char *cursor = value.data;
    for (int64_t k = 0; k < i; k++) cursor += 8 + zt_gguf_u64(cursor);
    return string_at(cursor);
}

bool zt_gguf_array_strs(const zt_gguf *gguf, const char *key, zt_bytes *out, int64_t count)
{
    if (!gguf) return false;
    ZT_REQUIRE(gguf->ctx, key, false);
    key_value value;
    if (!find_array(gguf, key, &value) || value.number != ZT_GGUF_STR || (int64_t)value.count != count) return false;
    const char *cursor = value.data;
    for (int64_t i = 0; i < count; i++) {
        out[i] = string_at(cursor);
        cursor = out[i].data + out[i].n;
    }
    return true;
}

bool zt_gguf_array_i64(const zt_gguf *gguf, const char *key, int64_t *out, int64_t count)
{
    if (!gguf) return false;
    ZT_REQUIRE(gguf->ctx, key, false);
    key_value value;
    if (!find_array(gguf, key, &value) || (int64_t)value.count != count) return false;
    for (int64_t i = 0; i < count; i++) {
        if (!to_i64(value.kind, value.data + i * value.kind->bytes, &out[i])) return false;
    }
    return true;
}

bool zt_gguf_array_f64(const zt_gguf *gguf, const char *key, double *out, int64_t count)
{
    if (!gguf) return false;
    ZT_REQUIRE(gguf->ctx, key, false);
    key_value value;
    if (!find_array(gguf, key, &value) || (int64_t)value.count != count) return false;
    for (int64_t i = 0; i < count; i++) {
        if (!to_f64(value.kind, value.data + i * value.kind->bytes, &out[i])) return false;
    }
    return true;
}

const char *zt_gguf_kind_name(zt_gguf_kind kind)
{
    const gguf_kind *row = zt_gguf_kind_get(kind);
    return row ? row->name : "?";
}
