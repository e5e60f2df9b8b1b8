/* storage_types.c - holds the storage types of networks to golden/loom/dtypes and golden/loom/q4 by
 * Loom's rule, and to their definitions by the field's. */
#include "lib/tensor/storage.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/golden.h"
#include "tests/common/tap.h"

enum { MOST = 4096 };

static int64_t floats_of(const json_t *array, float out[MOST])
{
    int64_t n = (int64_t)json_array_size(array);
    for (int64_t i = 0; i < n && i < MOST; i++) out[i] = (float)json_number_value(json_array_get(array, (size_t)i));
    return n < MOST ? n : MOST;
}

static int64_t unlike(const float *a, const float *b, int64_t n)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad += !(a[i] == b[i]);
    return bad;
}

/* ---- golden/loom/dtypes ---------------------------------------------------------------------- */

static size_t unbase64(const char *text, uint8_t *out, size_t most)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    int held = 0;
    size_t n = 0;
    for (; text && *text && *text != '=' && n < most; text++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, *text) - digits);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        out[n++] = (uint8_t)(bits >> held);
    }
    return n;
}

static void loom_type(const char *file, const char *name, const json_t *item, const float *x, int64_t count, float scale)
{
    static uint8_t out[8 * MOST], want_bytes[8 * MOST];
    static float y[MOST], want[MOST];
    zt_storage t;
    zt_ctx *ctx = zt_ctx_new();
    if (!ok(zt_storage_parse(name, strlen(name), &t), "%s: %s is a type", file, name)) return;
    size_t bits = (size_t)zt_storage_get(t)->bits * (size_t)count;
    ok(json_integer_value(json_object_get(item, "bytes_reported")) == (json_int_t)((bits + 7) / 8), "%s: %s: its size", file,
       name);
    for (int64_t i = 0; i < count; i++) y[i] = zt_loom_simulate(t, x[i], scale);
    ok(floats_of(json_object_get(item, "simulate"), want) == count && !unlike(y, want, count), "%s: %s: simulated", file, name);
    for (int64_t i = 0; i < count; i++) y[i] = zt_loom_morph(t, x[i], scale);
    ok(floats_of(json_object_get(item, "unpacked"), want) == count && !unlike(y, want, count), "%s: %s: morphed", file, name);
    size_t bytes = unbase64(json_string_value(json_object_get(item, "persisted_base64")), want_bytes, sizeof want_bytes);
    ok(zt_storage_encode(ctx, t, ZT_RULE_LOOM, x, count, scale, out) == ZT_OK &&
           bytes == zt_storage_bytes(t, ZT_RULE_LOOM, count) && memcmp(out, want_bytes, bytes) == 0,
       "%s: %s: its %zu bytes", file, name, bytes);
    zt_storage_decode(t, ZT_RULE_LOOM, want_bytes, count, scale, y);
    ok(floats_of(json_object_get(item, "reloaded_master"), want) == count && !unlike(y, want, count), "%s: %s: read again", file,
       name);
    zt_ctx_free(ctx);
}

static void loom_file(const char *path, const char *file)
{
    static float x[MOST];
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    const char *name;
    json_t *item;
    int64_t count = floats_of(json_object_get(root, "values"), x);
    float scale = (float)json_number_value(json_object_get(root, "scale"));
    ok(count > 0 && json_object_size(json_object_get(root, "dtypes")) == ZT_STORE_COUNT, "%s: %lld values, every type", file,
       (long long)count);
    json_object_foreach(json_object_get(root, "dtypes"), name, item) loom_type(file, name, item, x, count, scale);
    json_decref(root);
}

/* ---- golden/loom/q4 -------------------------------------------------------------------------- */

static void q4_file(const char *path, const char *file)
{
    static float x[MOST], y[MOST], want[MOST];
    static zt_loom_q4 blocks[MOST / 32];
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    const json_t *given = json_object_get(root, "blocks");
    int64_t count = floats_of(json_object_get(root, "values"), x), bad = 0;
    zt_loom_q4_encode(x, count, blocks);
    for (size_t b = 0; b < json_array_size(given); b++) {
        const json_t *block = json_array_get(given, b), *codes = json_object_get(block, "bytes");
        bad += blocks[b].scale != (float)json_number_value(json_object_get(block, "scale"));
        for (size_t i = 0; i < 16; i++) bad += blocks[b].codes[i] != json_integer_value(json_array_get(codes, i));
    }
    ok(count > 0 && (int64_t)json_array_size(given) == (count + 31) / 32 && bad == 0, "%s: blocks", file);
    zt_loom_q4_decode(blocks, count, y);
    ok(floats_of(json_object_get(root, "dequantized"), want) == count && !unlike(y, want, count), "%s: and back", file);
    json_decref(root);
}

static void each_case(const char *set, void (*each)(const char *path, const char *file))
{
    char folder[4096], path[8192];
    if (!golden_holds(set, folder)) return;
    DIR *directory = opendir(folder);
    int files = 0;
    for (struct dirent *entry = directory ? readdir(directory) : NULL; entry; entry = readdir(directory)) {
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".json")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        each(path, entry->d_name);
        files++;
    }
    ok(files > 0, "%s: %d files", set, files);
    if (directory) closedir(directory);
}

/* ---- the field's rule ------------------------------------------------------------------------ */

/* What a type does to weights with the scale that it chooses. */
static void field(zt_storage t, const float *x, int count, const float *want)
{
    uint8_t out[256];
    float y[16], scale = zt_storage_scale(t, x, count);
    zt_ctx *ctx = zt_ctx_new();
    bool good = zt_storage_encode(ctx, t, ZT_RULE_FIELD, x, count, scale, out) == ZT_OK;
    zt_storage_decode(t, ZT_RULE_FIELD, out, count, scale, y);
    for (int i = 0; i < count; i++) good = good && fabsf(y[i] - want[i]) <= 1e-6f * fabsf(want[i]);
    if (!ok(good, "%s by the field's rule", zt_storage_get(t)->name))
        for (int i = 0; i < count; i++) diag("%g: %g, not %g", (double)x[i], (double)y[i], (double)want[i]);
    zt_ctx_free(ctx);
}

static void test_field(void)
{
    const float x[6] = {7, -7, 3.4f, -0.4f, 0, 1.5f}, y[6] = {448, -448, 0.0136718750f, 1e-5f, 17, 100};
    field(ZT_STORE_F64, x, 6, x);
    field(ZT_STORE_F32, x, 6, x);
    field(ZT_STORE_I64, x, 6, x);
    field(ZT_STORE_U64, (const float[]){4, 1, -1}, 3, (const float[]){4, 1, 0});
    field(ZT_STORE_I4, x, 6, (const float[]){7, -7, 3, 0, 0, 2});
    field(ZT_STORE_U4, (const float[]){15, 2.5f, 3.5f, -2}, 4, (const float[]){15, 2, 4, 0});
    field(ZT_STORE_I8, (const float[]){127, -126.6f, 0.5f, 1.5f}, 4, (const float[]){127, -127, 0, 2});
    field(ZT_STORE_U2, (const float[]){3, 1.4f, -3}, 3, (const float[]){3, 1, 0});
    field(ZT_STORE_I2, (const float[]){-1, 0.4f, 0.6f}, 3, (const float[]){-1, 0, 1});
    field(ZT_STORE_FP4, (const float[]){6, 5, -2.5f, 0.25f, 0.26f}, 5, (const float[]){6, 4, -2, 0, 0.5f});
    field(ZT_STORE_FP8E4M3, y, 6, (const float[]){448, -448, 0.013671875f, 0, 16, 104 - 8 + 0});
    field(ZT_STORE_TERNARY, (const float[]){2, -2, 0.1f, 0.4f, 0, -0.5f}, 6,
          (const float[]){0.8333333f, -0.8333333f, 0, 0, 0, -0.8333333f});
    field(ZT_STORE_BINARY, (const float[]){3, -1, 0}, 3, (const float[]){1.3333334f, -1.3333334f, 1.3333334f});
}

/* Every code of the narrow types comes back, by either rule, at every length. */
static void test_codes(void)
{
    for (int t = 0; t < ZT_STORE_COUNT; t++) {
        const zt_storage_info *info = zt_storage_get((zt_storage)t);
        int bad = 0;
        zt_ctx *ctx = zt_ctx_new();
        for (int rule = 0; rule < 2 && info->bits <= 8; rule++) {
            for (int n = 1; n <= 19; n++) {
                uint8_t in[19], out[19];
                float x[19];
                size_t bytes = zt_storage_bytes((zt_storage)t, (zt_storage_rule)rule, n);
                for (size_t i = 0; i < bytes; i++) in[i] = (uint8_t)(37 * i + 11 * (size_t)n);
                zt_storage_decode((zt_storage)t, (zt_storage_rule)rule, in, n, 0.5f, x);
                for (int i = 0; i < n; i++) x[i] = isfinite(x[i]) ? x[i] : 1;
                bad += zt_storage_encode(ctx, (zt_storage)t, (zt_storage_rule)rule, x, n, 0.5f, out);
                float y[19];
                zt_storage_decode((zt_storage)t, (zt_storage_rule)rule, out, n, 0.5f, y);
                for (int i = 0; i < n; i++) /* ternary has no -2 */
                    bad += y[i] != x[i] && !(t == ZT_STORE_TERNARY && x[i] == -1 && y[i] == -0.5f);
            }
        }
        ok(bad == 0, "%s: codes come back", info->name);
        zt_ctx_free(ctx);
    }
}

static void test_refusals(void)
{
    const float bad[3] = {1, NAN, 2}, worse[2] = {INFINITY, 0}, zero[2] = {0, 0}, huge = 3e38f;
    uint8_t out[64];
    zt_ctx *ctx = zt_ctx_new();
    for (int t = 0; t < ZT_STORE_COUNT; t++) {
        zt_storage s = (zt_storage)t;
        float y[2];
        bool good =
            zt_storage_encode(ctx, s, ZT_RULE_FIELD, bad, 3, 1, out) == ZT_EDATA && strstr(zt_ctx_error(ctx), "weight 1 is NaN");
        zt_ctx_clear(ctx);
        good = good && zt_storage_encode(ctx, s, ZT_RULE_LOOM, worse, 2, 1, out) == ZT_EDATA;
        zt_ctx_clear(ctx);
        float scale = zt_storage_scale(s, zero, 2);
        good = good && scale == 1 && !zt_storage_encode(ctx, s, ZT_RULE_FIELD, zero, 2, scale, out);
        scale = zt_storage_scale(s, &huge, 1);
        good = good && !zt_storage_encode(ctx, s, ZT_RULE_FIELD, &huge, 1, scale, out);
        zt_storage_decode(s, ZT_RULE_FIELD, out, 1, scale, y);
        good = good && (s == ZT_STORE_F16 || fabsf(y[0] / huge - 1) < 0.01f);
        good = good && !zt_storage_encode(ctx, s, ZT_RULE_LOOM, &huge, 1, 1e-30f, out);
        ok(good, "%s: NaN, infinity, zeros, the huge", zt_storage_get(s)->name);
    }
    ok(zt_storage_encode(ctx, ZT_STORE_I8, ZT_RULE_LOOM, zero, 2, 0, out) == ZT_EUSAGE, "%s", zt_ctx_error(ctx));
    zt_ctx_free(ctx);
}

int main(void)
{
    each_case("loom/dtypes", loom_file);
    each_case("loom/q4", q4_file);
    test_field();
    test_codes();
    test_refusals();
    return tap_done();
}
