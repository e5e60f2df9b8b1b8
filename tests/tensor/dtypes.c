/* dtypes.c - tests lib/tensor: dtypes against independent arithmetic and golden decodings, types,
 * views and counts. */
#include "lib/tensor/tensor.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>

#include "tests/common/npy.h"
#include "tests/common/golden.h"
#include "tests/common/tap.h"

/* ---- half precision: from the definition, in double ---------------------------------------- */

/* The value of 1 sign, `e` exponent and `m` fraction bits; NaN as such. */
static double small_float(uint32_t bits, int e, int m)
{
    uint32_t frac = bits & ((1u << m) - 1), exp = bits >> m & ((1u << e) - 1);
    int bias = (1 << (e - 1)) - 1;
    double v = exp == 0 ? ldexp(frac, 1 - bias - m) : ldexp((double)frac + (double)(1u << m), (int)exp - bias - m);
    if (exp == (1u << e) - 1) v = frac ? NAN : INFINITY;
    return bits >> (e + m) & 1 ? -v : v;
}

static bool same_float(float a, double b) { return isnan(b) ? isnan(a) : (double)a == b && !signbit(a) == !signbit(b); }

static void test_decode_halves(void)
{
    int bad16 = 0, badb = 0, back16 = 0, backb = 0;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = zt_f16_to_f32((uint16_t)h), b = zt_bf16_to_f32((uint16_t)h);
        bad16 += !same_float(f, small_float(h, 5, 10));
        badb += !same_float(b, small_float(h, 8, 7));
        back16 += isnan(f) ? !isnan(zt_f16_to_f32(zt_f32_to_f16(f))) : zt_f32_to_f16(f) != h;
        backb += isnan(b) ? !isnan(zt_bf16_to_f32(zt_f32_to_bf16(b))) : zt_f32_to_bf16(b) != h;
    }
    ok(bad16 == 0, "all 65536 f16 decode to their value (%d do not)", bad16);
    ok(badb == 0, "all 65536 bf16 decode to their value (%d do not)", badb);
    ok(back16 == 0 && backb == 0, "and encode back (%d, %d do not)", back16, backb);
}

/* Between each two neighbours: just below, at, and just above the middle; ties go to even. */
static int wrong_rounding(uint16_t (*encode)(float), float (*decode)(uint16_t), uint32_t last)
{
    int wrong = 0;
    for (uint32_t h = 0; h < last; h++) {
        double lo = decode((uint16_t)h), hi = decode((uint16_t)(h + 1));
        float mid = (float)((lo + hi) / 2); /* exact: f32 has more bits */
        uint32_t even = h & 1 ? h + 1 : h;
        wrong += encode(mid) != even;
        wrong += encode(nextafterf(mid, 0)) != h;
        wrong += encode(nextafterf(mid, INFINITY)) != h + 1;
        wrong += encode(-mid) != (even | 0x8000);
    }
    return wrong;
}

static void test_encode_halves(void)
{
    ok(wrong_rounding(zt_f32_to_f16, zt_f16_to_f32, 0x7bff) == 0, "f16 rounds to nearest even");
    ok(wrong_rounding(zt_f32_to_bf16, zt_bf16_to_f32, 0x7f7f) == 0, "bf16 rounds to nearest even");
    ok(zt_f32_to_f16(65519.996f) == 0x7bff && zt_f32_to_f16(65520.0f) == 0x7c00 && zt_f32_to_f16(-1e30f) == 0xfc00 &&
           zt_f32_to_f16(INFINITY) == 0x7c00,
       "f16 overflows to infinity at 65520");
    ok(zt_f32_to_f16(1e-9f) == 0 && zt_f32_to_f16(-1e-9f) == 0x8000 && zt_f32_to_f16(-0.0f) == 0x8000,
       "f16 underflows to a signed zero");
    float nan = NAN, low;
    uint32_t bits = 0x7f800001; /* a NaN whose upper fraction bits are 0 must not become infinity */
    memcpy(&low, &bits, 4);
    ok(isnan(zt_f16_to_f32(zt_f32_to_f16(nan))) && isnan(zt_f16_to_f32(zt_f32_to_f16(low))) &&
           isnan(zt_bf16_to_f32(zt_f32_to_bf16(low))) && isnan(zt_bf16_to_f32(zt_f32_to_bf16(-nan))),
       "NaN stays NaN");
}

/* ---- the table ------------------------------------------------------------------------------ */

static void test_table(void)
{
    bool rows = true, names = true, codecs = true;
    for (int t = 0; t < ZT_DTYPE_COUNT; t++) {
        const zt_dtype_info *d = zt_dtype_get((zt_dtype)t);
        zt_dtype back;
        rows &= d->block > 0 && d->block_bytes > 0 && strchr("FIUBQ", d->kind) != NULL;
        names &= zt_dtype_parse(d->name, strlen(d->name), &back) && (int)back == t;
        codecs &= (d->decode != NULL) == zt_dtype_is_float((zt_dtype)t);
        bool packed = zt_dtype_is_packed((zt_dtype)t);
        codecs &= (d->encode != NULL) == (d->kind == 'F' || packed);
        codecs &= !packed || (d->kind == 'Q' && d->block <= 4 && d->block_bytes == 1);
    }
    ok(rows, "every dtype has a block and a kind");
    ok(names, "every dtype is found by its name");
    ok(codecs, "floats decode, plain floats and packed types encode");
    zt_dtype d;
    ok(!zt_dtype_parse("f3", 2, &d) && !zt_dtype_parse("f322", 4, &d) && !zt_dtype_parse("", 0, &d), "other names are none");
    ok(!zt_dtype_get(ZT_DTYPE_COUNT) && !zt_dtype_is_float(ZT_DTYPE_COUNT), "nor is the count");
}

static void test_plain_codecs(void)
{
    const float x[4] = {1.5f, -0.1f, 70000.0f, 0.0f};
    float y[4];
    uint8_t buf[40];
    static const zt_dtype exact[] = {ZT_F64, ZT_F32};
    for (int i = 0; i < 2; i++) {
        const zt_dtype_info *info = zt_dtype_get(exact[i]);
        info->encode(x, buf + 1, 4); /* unaligned */
        info->decode(buf + 1, y, 4);
        ok(memcmp(x, y, sizeof x) == 0, "%s keeps f32", info->name);
    }
    zt_dtype_get(ZT_F16)->encode(x, buf + 1, 4);
    zt_dtype_get(ZT_F16)->decode(buf + 1, y, 4);
    ok(y[0] == 1.5f && y[1] == -0.0999755859375f && isinf(y[2]), "f16 by the table");
    zt_dtype_get(ZT_BF16)->encode(x, buf + 1, 4);
    zt_dtype_get(ZT_BF16)->decode(buf + 1, y, 4);
    ok(y[0] == 1.5f && y[1] == -0.10009765625f && y[2] == 70144.0f, "bf16 by the table");
}

/* ---- golden decodings ----------------------------------------------------------------------- */

/* The member "q4_K.bytes" of type "q4_K". */
static bool member(const npz *z, const char *type, const char *what, npy *out)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", type, what);
    return npz_get(z, name, out);
}

static bool decodes(const npz *archive, const char *type, const zt_dtype_info *info, const char *bytes, const char *values)
{
    npy b = {0}, v = {0};
    bool there = member(archive, type, bytes, &b) && member(archive, type, values, &v);
    bool equal = there && (int64_t)b.bytes / info->block_bytes * info->block == v.count;
    float *x = equal ? malloc((size_t)v.count * sizeof *x) : NULL;
    int64_t bad = 0;
    if (x) {
        info->decode(b.data, x, v.count);
        for (int64_t i = 0; i < v.count; i++) {
            float want;
            memcpy(&want, (const char *)v.data + 4 * i, 4);
            bad += !(isnan(want) ? isnan(x[i]) : memcmp(&want, &x[i], 4) == 0);
        }
        if (bad) diag("%s.%s: %lld of %lld values differ", info->name, bytes, (long long)bad, (long long)v.count);
    }
    equal = x && bad == 0;
    free(x);
    npy_free(&b);
    npy_free(&v);
    return equal;
}

/* A type of the set, by ggml's name ("q4_K"). */
static void test_golden_type(const npz *archive, const char *type)
{
    char name[32];
    zt_dtype dtype;
    npy imatrix = {0};
    for (size_t i = 0; i < sizeof name; i++) name[i] = (char)tolower(i < strlen(type) ? type[i] : 0);
    if (!ok(strlen(type) < sizeof name && zt_dtype_parse(name, strlen(name), &dtype), "%s: a dtype", type)) return;
    const zt_dtype_info *info = zt_dtype_get(dtype);
    ok(decodes(archive, type, info, "bytes", "dequant"), "%s: ggml's blocks decode to the bit", type);
    ok(decodes(archive, type, info, "random_bytes", "random_dequant"), "%s: random blocks too", type);
    if (member(archive, type, "bytes_imatrix", &imatrix)) {
        npy_free(&imatrix);
        ok(decodes(archive, type, info, "bytes_imatrix", "dequant_imatrix"), "%s: weighted ones too", type);
    }
}

/* Every type that the set holds: one that is no dtype fails. */
static void test_golden(void)
{
    char path[4096], manifest[4096];
    const char *golden = golden_folder();
    json_error_t error;
    npz archive;
    if (!golden) skip("no golden data");
    snprintf(path, sizeof path, "%s/formats/quant/data.npz", golden ? golden : "");
    snprintf(manifest, sizeof manifest, "%s/formats/quant/manifest.json", golden ? golden : "");
    if (!golden || !golden_has(path) || !golden_has(manifest)) return;
    json_t *m = json_load_file(manifest, 0, &error);
    const json_t *cases = json_object_get(m, "cases");
    if (ok(json_is_array(cases), "%s %s", manifest, m ? "" : error.text) && ok(npz_open(&archive, path), "%s", path)) {
        for (size_t i = 0; i < json_array_size(cases); i++) {
            const char *type = json_string_value(json_object_get(json_array_get(cases, i), "type"));
            test_golden_type(&archive, type ? type : "(no type)");
        }
        npz_close(&archive);
    }
    json_decref(m);
}

/* formats/dtypes: every code of a small float and what it stands for, and values that are hard to
 * round. Overflow is to infinity, or NaN where there is none. */
static bool codes_are(const zt_dtype_info *info, const npy *values, const npy *codes, int bytes)
{
    bool encode = codes != NULL;
    int64_t bad = 0, total = values->count;
    for (int64_t i = 0; i < total; i++) {
        float want, got;
        uint16_t code = encode ? 0 : (uint16_t)i, made = 0;
        memcpy(&want, (const char *)values->data + 4 * i, 4);
        if (encode) memcpy(&code, (const char *)codes->data + bytes * i, (size_t)bytes);
        info->encode(&want, &made, 1);
        info->decode(encode ? &made : &code, &got, 1);
        if (isnan(want) && info->block == 1) /* f4_e2m1 has no NaN */
            bad += !isnan(got);
        else
            bad += encode ? made != code : memcmp(&got, &want, 4) != 0;
    }
    if (bad) diag("%s: %lld of %lld differ", info->name, (long long)bad, (long long)total);
    return bad == 0 && total > 0;
}

static void test_golden_halves(void)
{
    static const struct {
        const char *name;
        zt_dtype dtype;
        int bytes; /* of a code in the set */
    } types[] = {{"float16", ZT_F16, 2},
                 {"bfloat16", ZT_BF16, 2},
                 {"float8_e4m3fn", ZT_F8_E4M3, 1},
                 {"float8_e5m2", ZT_F8_E5M2, 1},
                 {"float8_e4m3fnuz", ZT_F8_E4M3FNUZ, 1},
                 {"float8_e5m2fnuz", ZT_F8_E5M2FNUZ, 1},
                 {"float8_e8m0fnu", ZT_F8_E8M0, 1},
                 {"float4_e2m1fn", ZT_F4_E2M1, 1}};
    char path[4096];
    const char *golden = golden_folder();
    npz archive;
    snprintf(path, sizeof path, "%s/formats/dtypes/data.npz", golden ? golden : "");
    if (!golden || !golden_has(path) || !ok(npz_open(&archive, path), "%s", path)) return;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const zt_dtype_info *info = zt_dtype_get(types[i].dtype);
        npy all = {0}, in = {0}, out = {0};
        if (member(&archive, types[i].name, "decode_all", &all))
            ok(all.descr[1] == 'f' && codes_are(info, &all, NULL, types[i].bytes), "%s: every code", info->name);
        if (member(&archive, types[i].name, "encode_in", &in))
            ok(member(&archive, types[i].name, "encode_out", &out) && out.count == in.count &&
                   codes_are(info, &in, &out, types[i].bytes),
               "%s: rounding", info->name);
        npy_free(&all), npy_free(&in), npy_free(&out);
    }
    npz_close(&archive);
}

/* ---- types ---------------------------------------------------------------------------------- */

static bool type_refused(zt_ctx *ctx, const zt_type *t, const char *word)
{
    zt_ctx_clear(ctx);
    bool r = !zt_type_check(ctx, t, NULL) && zt_ctx_status(ctx) == ZT_ESHAPE && strstr(zt_ctx_error(ctx), word) &&
             !zt_type_check(NULL, t, NULL);
    zt_ctx_clear(ctx);
    return r;
}

static void test_types(zt_ctx *ctx)
{
    char text[ZT_TYPE_TEXT];
    zt_type a = zt_type_make(ZT_F32, 2, (int64_t[]){4, 576});
    zt_type b = zt_type_make(ZT_Q4_K, 2, (int64_t[]){3, 512}), s = zt_type_make(ZT_I32, 0, NULL);
    zt_type zero = zt_type_make(ZT_F32, 2, (int64_t[]){0, 5});
    size_t bytes;
    ok(zt_type_check(ctx, &a, &bytes) && bytes == 9216 && zt_type_count(&a) == 2304, "f32[4,576]");
    ok(zt_type_check(ctx, &b, &bytes) && bytes == 864, "q4_k[3,512] is 864 bytes");
    ok(zt_type_check(ctx, &s, &bytes) && bytes == 4, "a scalar");
    ok(zt_type_check(ctx, &zero, &bytes) && bytes == 0, "nothing");
    ok(strcmp(zt_type_text(&a, text), "f32[4,576]") == 0, "text: %s", text);
    ok(strcmp(zt_type_text(&s, text), "i32[]") == 0, "text: %s", text);
    ok(zt_type_equal(&a, &a) && !zt_type_equal(&a, &b) && !zt_type_equal(&a, &s), "equality");
    int64_t big[ZT_MAX_RANK + 1], most[ZT_MAX_RANK + 1];
    for (int i = 0; i <= ZT_MAX_RANK; i++) big[i] = INT64_C(1) << 32, most[i] = INT64_MIN;
    zt_type its_type = zt_type_make(ZT_F32, 2, big);
    ok(type_refused(ctx, &its_type, "too large"), "too many elements");
    its_type = zt_type_make(ZT_F64, 2, (int64_t[]){INT64_C(1) << 31, INT64_C(1) << 30});
    ok(type_refused(ctx, &its_type, "too large"), "too many bytes");
    its_type = zt_type_make(ZT_F32, 3, (int64_t[]){0, INT64_MAX, 2});
    ok(type_refused(ctx, &its_type, "too large"), "too large though empty");
    its_type = zt_type_make(ZT_F32, 1, (int64_t[]){-1});
    ok(type_refused(ctx, &its_type, "negative"), "negative");
    its_type = zt_type_make(ZT_Q8_0, 2, (int64_t[]){32, 33});
    ok(type_refused(ctx, &its_type, "block size"), "part of a block");
    its_type = zt_type_make(ZT_Q8_0, 0, NULL);
    ok(type_refused(ctx, &its_type, "block size"), "a scalar of blocks");
    its_type = zt_type_make(ZT_F32, ZT_MAX_RANK + 1, most);
    ok(type_refused(ctx, &its_type, "rank"), "rank %d", ZT_MAX_RANK + 1);
    its_type = zt_type_make(ZT_DTYPE_COUNT, ZT_MAX_RANK, most);
    ok(type_refused(ctx, &its_type, "dtype") && strlen(zt_type_text(&its_type, text)) < ZT_TYPE_TEXT, "%s", text);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void count_release(void *user, void *data)
{
    (void)data;
    ++*(int *)user;
}

static void test_tensors(zt_ctx *ctx)
{
    zt_type its_type = zt_type_make(ZT_F32, 2, (int64_t[]){2, 3});
    zt_type row = zt_type_make(ZT_F32, 1, its_type.dim + 1);
    zt_tensor *x = zt_tensor_new(ctx, &its_type);
    ok(x && zt_tensor_bytes(x) == 24 && (uintptr_t)zt_tensor_data(x) % 64 == 0 && zt_tensor_ctx(x) == ctx &&
           zt_type_equal(zt_tensor_type(x), &its_type),
       "a tensor: 24 bytes, aligned to 64");
    float *data = zt_tensor_data(x);
    data[3] = 7;
    zt_tensor *v = zt_tensor_view(x, &row, 12), *w = zt_tensor_view(v, &row, 0);
    bool out = zt_tensor_view(v, &row, 4) == NULL && zt_ctx_status(ctx) == ZT_ESHAPE;
    ok(out && strstr(zt_ctx_error(ctx), "it needs 12 bytes, 8 are left"), "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(!zt_tensor_view(x, &row, SIZE_MAX - 3) && zt_ctx_status(ctx) == ZT_ESHAPE, "an offset that overflows");
    zt_ctx_clear(ctx);
    zt_tensor_unref(x);
    zt_tensor_unref(v);
    ok(w && *(float *)zt_tensor_data(w) == 7, "a view of a view outlives both");
    ok(zt_tensor_ref(w) == w, "counted");
    zt_tensor_unref(w);
    zt_tensor_unref(w);
    zt_tensor_unref(NULL);
    ok(zt_mem_get(ctx).blocks == 0, "all memory is back");
    ok(!zt_tensor_view(NULL, &row, 0) && zt_ctx_status(ctx) == ZT_OK, "NULL in, NULL out");

    int released = 0;
    float own[6] = {0};
    x = zt_tensor_wrap(ctx, &its_type, own, count_release, &released);
    v = zt_tensor_view(x, &row, 0);
    zt_tensor_unref(x);
    ok(released == 0 && zt_tensor_data(v) == own, "wrapped memory is lent");
    zt_tensor_unref(v);
    ok(released == 1, "and released once, with the last view");
    zt_type no = zt_type_make(ZT_F32, 1, (int64_t[]){-1});
    ok(!zt_tensor_new(ctx, &no) && !zt_tensor_wrap(ctx, &no, own, count_release, &released), "no tensor of no type");
    zt_ctx_clear(ctx);
}

static bool make_and_view(zt_ctx *ctx, int *released)
{
    float own[6];
    zt_type its_type = zt_type_make(ZT_F32, 1, (int64_t[]){6});
    zt_tensor *a = zt_tensor_new(ctx, &its_type), *b = zt_tensor_view(a, &its_type, 0);
    zt_tensor *c = b ? zt_tensor_wrap(ctx, &its_type, own, count_release, released) : NULL;
    zt_tensor_unref(b);
    zt_tensor_unref(a);
    zt_tensor_unref(c);
    return c != NULL;
}

static void test_failing(zt_ctx *ctx)
{
    int tries = 0, released = 0;
    bool clean = true;
    for (bool done = false; !done && tries < 50; tries++) {
        zt_mem_fail(ctx, (uint64_t)tries + 1, false);
        done = make_and_view(ctx, &released);
        zt_mem_fail(ctx, 0, false);
        clean &= zt_mem_get(ctx).blocks == 0 && (done || zt_ctx_status(ctx) == ZT_ENOMEM);
        zt_ctx_clear(ctx);
    }
    ok(clean && tries == 6, "each of %d allocations failing leaves nothing behind", tries - 1);
    ok(released == 1, "memory that could not be wrapped stays the caller's");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_decode_halves();
    test_encode_halves();
    test_table();
    test_plain_codecs();
    test_golden();
    test_golden_halves();
    test_types(ctx);
    test_tensors(ctx);
    test_failing(ctx);
    zt_ctx_free(ctx);
    return tap_done();
}
