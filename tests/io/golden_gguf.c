/* golden_gguf.c - holds the GGUF reader to the golden sets formats/gguf: sound files equal their
 * expected values to the bit, hostile ones are refused in bounded memory (their README's rules). */
#include "lib/io/gguf.h"

#include <math.h>

#include "tests/io/read_gguf.h"
#include "tests/common/golden_set.h"

/* ---- sound files ---------------------------------------------------------------------------- */

/* Numbers are read as doubles: u64's last values do not fit jansson's integers. */
static bool number_is(const json_t *want, double got)
{
    if (json_is_string(want)) {
        const char *text = json_string_value(want);
        return strcmp(text, "nan") == 0 ? isnan(got) : got == (text[0] == '-' ? -INFINITY : INFINITY) && text[0];
    }
    return json_is_boolean(want) ? got == json_is_true(want) : json_number_value(want) == got;
}

static bool string_is(const json_t *want, zt_bytes got)
{
    return json_is_string(want) && json_string_length(want) == got.n && memcmp(json_string_value(want), got.data, got.n) == 0;
}

static bool array_is(const zt_gguf *gguf, const char *key, const json_t *want)
{
    zt_gguf_kind kind;
    int64_t count;
    if (!zt_gguf_array(gguf, key, &kind, &count) || (size_t)count != json_array_size(want)) return false;
    zt_bytes *s = calloc((size_t)count + 1, sizeof *s);
    double *x = calloc((size_t)count + 1, sizeof *x);
    bool same =
        s && x && (kind == ZT_GGUF_STR ? zt_gguf_array_strs(gguf, key, s, count) : zt_gguf_array_f64(gguf, key, x, count));
    for (int64_t i = 0; same && i < count; i++) {
        const json_t *w = json_array_get(want, (size_t)i);
        same = kind == ZT_GGUF_STR ? string_is(w, s[i]) : number_is(w, x[i]);
    }
    free(s);
    free(x);
    return same;
}

static bool key_is(const zt_gguf *gguf, int64_t i, const json_t *want)
{
    const char *key = text_of(want, "key"), *type = text_of(want, "type");
    const json_t *value = json_object_get(want, "value");
    zt_gguf_kind kind;
    zt_bytes name = zt_gguf_key(gguf, i, &kind), s;
    double x;
    if (!string_is(json_object_get(want, "key"), name)) return false;
    if (strcmp(type, "arr") == 0) return kind == ZT_GGUF_ARRAY && array_is(gguf, key, value);
    if (strcmp(type, "str") == 0) return zt_gguf_str(gguf, key, &s) && string_is(value, s);
    return zt_gguf_f64(gguf, key, &x) && number_is(value, x);
}

static bool shape_is(const zt_type *type, const json_t *want)
{
    if ((size_t)type->rank != json_array_size(want)) return false;
    for (int i = 0; i < type->rank; i++) {
        if ((double)type->dim[i] != json_number_value(json_array_get(want, (size_t)i))) return false;
    }
    return true;
}

static bool tensor_is(zt_gguf *gguf, int64_t i, const json_t *want, const npz *archive)
{
    zt_type type, found;
    size_t bytes;
    int64_t handle;
    zt_store store = zt_gguf_store(gguf);
    const char *name = zt_gguf_tensor(gguf, i, &type, NULL, &bytes);
    char *data = malloc(bytes + 1);
    npy a = {0};
    bool same = data && strcmp(name, text_of(want, "name")) == 0 && npz_get(archive, text_of(want, "key"), &a) &&
                a.bytes == bytes && store.read(store.user, i, 0, data, bytes) == ZT_OK && memcmp(data, a.data, bytes) == 0;
    if (type.rank >= 0)
        same = same && shape_is(&type, json_object_get(want, "shape")) &&
               strcasecmp(zt_dtype_get(type.dtype)->name, text_of(want, "type")) == 0 &&
               store.find(store.user, name, &found, &handle) == ZT_OK && handle == i && zt_type_equal(&found, &type);
    free(data);
    npy_free(&a);
    return same;
}

static bool file_is(zt_gguf *gguf, const json_t *want, const npz *archive)
{
    const json_t *keys = json_object_get(want, "kv"), *tensors = json_object_get(want, "tensors");
    bool same = (size_t)zt_gguf_n_keys(gguf) == json_array_size(keys) &&
                (size_t)zt_gguf_n_tensors(gguf) == json_array_size(tensors) && gguf_walk(gguf);
    for (size_t i = 0; same && i < json_array_size(keys); i++) {
        same = key_is(gguf, (int64_t)i, json_array_get(keys, i));
        if (!same) diag("key %zu differs", i);
    }
    for (size_t i = 0; same && i < json_array_size(tensors); i++) {
        same = tensor_is(gguf, (int64_t)i, json_array_get(tensors, i), archive);
        if (!same) diag("tensor %zu differs", i);
    }
    return same;
}

static bool sound(zt_ctx *ctx, const char *path, const json_t *want, const npz *z)
{
    zt_gguf *g = zt_gguf_open(ctx, path);
    bool is = g && file_is(g, want, z);
    zt_gguf_close(g);
    return is;
}

/* ---- hostile files -------------------------------------------------------------------------- */

/* Refused with a message and an error of the data; or read without harm where that is allowed. */
static bool refuses(zt_ctx *ctx, const json_t *want, const uint8_t *tar, size_t tar_n)
{
    size_t count = 0;
    const uint8_t *file = tar_member(tar, tar_n, text_of(want, "file"), &count);
    char *copy = malloc(count + !count); /* of its own, so that a sanitizer sees the end */
    if (!file || !copy) {
        free(copy);
        return false;
    }
    memcpy(copy, file, count);
    zt_source *source = zt_source_memory(ctx, "t.gguf", copy, count);
    zt_gguf *gguf = zt_gguf_from(ctx, source);
    bool right = gguf ? may_open(want) && gguf_walk(gguf)
                      : zt_ctx_status(ctx) == ZT_EDATA && strncmp(zt_ctx_error(ctx), "t.gguf: ", 8) == 0;
    zt_gguf_close(gguf);
    zt_source_close(source);
    zt_ctx_clear(ctx);
    free(copy);
    return right && zt_mem_get(ctx).blocks == 0;
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    set_run(ctx, "gguf", &(set_kind){sound, refuses, JSON_DECODE_INT_AS_REAL});
    ok(zt_mem_get(ctx).blocks == 0, "no leak");
    zt_ctx_free(ctx);
    return tap_done();
}
