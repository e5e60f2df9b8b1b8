/* quantize.c - holds the quantizers to golden/formats/quant (the bytes where the format leaves
 * nothing to choose, else the error beside ggml's), to each other on every instruction set, and to
 * what they must refuse. */
#include "lib/tensor/quantize.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/tensor/encode.h"
#include "tests/common/golden.h"
#include "tests/common/npy.h"
#include "tests/common/tap.h"

/* ---- formats/quant --------------------------------------------------------------------------- */

/* Root mean square error of each row and their sum; weights may be NULL. */
static double errors(const float *x, const float *y, const float *w, int64_t rows, int64_t count, double *each)
{
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) {
        double e2 = 0, all = 0;
        for (int64_t i = 0; i < count; i++) {
            double e = (double)y[r * count + i] - (double)x[r * count + i];
            e2 += (w ? (double)w[i] : 1) * e * e;
            all += w ? (double)w[i] : 1;
        }
        each[r] = sqrt(e2 / all);
        sum += each[r];
    }
    return sum;
}

static bool read_array(const npz *z, const char *type, const char *what, npy *out)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", type, *type ? "." : "", what);
    return npz_get(z, name, out);
}

static int64_t unlike(const uint8_t *a, const uint8_t *b, int64_t n)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad += a[i] != b[i];
    return bad;
}

/* One type with or without importance against ggml's values, rows of which are `names`. */
static void beside(const npz *archive, const char *type, zt_dtype t, const npy *x, const npy *imatrix, bool exact)
{
    const zt_dtype_info *info = zt_dtype_get(t);
    int64_t rows = x->shape[0], count = x->shape[1], bytes = count / info->block * info->block_bytes;
    npy want = {0}, code = {0};
    const char *suffix = imatrix ? "_imatrix" : "";
    char name[32];
    snprintf(name, sizeof name, "dequant%s", suffix);
    bool found = read_array(archive, type, name, &want);
    snprintf(name, sizeof name, "bytes%s", suffix);
    found = found && read_array(archive, type, name, &code);
    uint8_t *out = malloc((size_t)(rows * bytes));
    float *y = malloc((size_t)(rows * count) * sizeof *y);
    double *ours = calloc((size_t)(3 * rows), sizeof *ours), *theirs = ours + rows;
    double *level = theirs + rows;
    float *zero = calloc((size_t)(rows * count), sizeof *zero);
    const float *w = imatrix ? imatrix->data : NULL;
    zt_ctx *ctx = zt_ctx_new();
    zt_quantizer q = {.dtype = t, .columns = count, .importance = w};
    if (ok(found && zt_quantize_rows(ctx, &q, x->data, rows, out) == ZT_OK, "%s%s: quantizes", type, suffix)) {
        info->decode(out, y, rows * count);
        double a = errors(x->data, y, w, rows, count, ours);
        double b = errors(x->data, want.data, w, rows, count, theirs);
        errors(x->data, zero, w, rows, count, level);
        int64_t bad = unlike(out, code.data, rows * bytes);
        if (exact)
            ok(bad * 1000 < rows * bytes, "%s%s: ggml's bytes (%lld of %lld differ)", type, suffix, (long long)bad,
               (long long)(rows * bytes));
        ok(a <= 1.02 * b, "%s%s: error %.4f of ggml's", type, suffix, a / b);
        int worse = 0;
        for (int64_t r = 0; r < rows; r++) {
            /* With importance scales are searched where ggml's are not: their f16 rounds otherwise.
             */
            worse += ours[r] > 1.05 * theirs[r] + 1e-7 + (w ? 0.002 * level[r] : 0);
            if (getenv("ZT_SHOW")) diag("row %d: %.6g, ggml %.6g: %.4f", (int)r, ours[r], theirs[r], ours[r] / theirs[r]);
        }
        ok(!worse, "%s%s: no row is worse", type, suffix);
    }
    zt_ctx_free(ctx);
    free(zero);
    free(ours);
    free(y);
    free(out);
    npy_free(&want);
    npy_free(&code);
}

static void golden_type(const npz *archive, const json_t *item, const npy *x, const npy *imatrix)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    bool exact = json_is_true(json_object_get(item, "quant_exact"));
    bool always = json_is_true(json_object_get(item, "imatrix_used"));
    char lower[32] = "";
    zt_dtype dtype;
    npy weighed = {0};
    for (size_t i = 0; type && i < strlen(type) && i < sizeof lower - 1; i++) lower[i] = (char)tolower(type[i]);
    if (!zt_dtype_parse(lower, strlen(lower), &dtype) || !zt_quantize_has(dtype)) return;
    if (!always) beside(archive, type, dtype, x, NULL, exact);
    if (zt_quantize_weighs(dtype) && read_array(archive, type, "bytes_imatrix", &weighed))
        beside(archive, type, dtype, x, imatrix, false);
    npy_free(&weighed);
}

static void test_golden(void)
{
    char path[4096], manifest[4096];
    json_error_t error;
    npz archive;
    npy x = {0}, imatrix = {0};
    if (!golden_holds("formats/quant/data.npz", path) || !golden_holds("formats/quant/manifest.json", manifest)) return;
    json_t *m = json_load_file(manifest, 0, &error);
    const json_t *cases = json_object_get(m, "cases");
    if (ok(json_array_size(cases) > 0, "%s %s", manifest, m ? "" : error.text) && ok(npz_open(&archive, path), "%s", path)) {
        if (ok(read_array(&archive, "", "x", &x) && read_array(&archive, "", "imatrix", &imatrix), "its matrix"))
            for (size_t i = 0; i < json_array_size(cases); i++) golden_type(&archive, json_array_get(cases, i), &x, &imatrix);
        npy_free(&x);
        npy_free(&imatrix);
        npz_close(&archive);
    }
    json_decref(m);
}

/* ---- what is refused, what is hard ----------------------------------------------------------- */

static void refuses(float bad, const char *word)
{
    float x[512], out[512];
    zt_ctx *ctx = zt_ctx_new();
    zt_quantizer q = {.dtype = ZT_Q8_0, .columns = 256, .name = "blk.0.w", .first_row = 40};
    for (int i = 0; i < 512; i++) x[i] = (float)i;
    x[256 + 17] = bad;
    bool refused = zt_quantize_rows(ctx, &q, x, 2, out) == ZT_EDATA;
    ok(refused && strstr(zt_ctx_error(ctx), "'blk.0.w': row 41, column 17") && strstr(zt_ctx_error(ctx), word), "%s",
       zt_ctx_error(ctx));
    zt_ctx_free(ctx);
}

static void refuses_importance(float bad)
{
    float x[32] = {0}, w[32], out[32];
    zt_ctx *ctx = zt_ctx_new();
    zt_quantizer q = {.dtype = ZT_Q8_0, .columns = 32, .importance = w, .name = "w"};
    for (int i = 0; i < 32; i++) w[i] = 1;
    w[5] = bad;
    bool refused = zt_quantize_rows(ctx, &q, x, 1, out) == ZT_EDATA;
    ok(refused && strstr(zt_ctx_error(ctx), "column 5"), "%s", zt_ctx_error(ctx));
    zt_ctx_free(ctx);
}

static void test_refusals(void)
{
    float x[33] = {0}, out[33];
    refuses(NAN, "NaN");
    refuses(-NAN, "NaN");
    refuses(INFINITY, "infinite");
    refuses(-INFINITY, "infinite");
    refuses(3e38f, "the range of");
    refuses_importance(NAN);
    refuses_importance(-1);
    refuses_importance(INFINITY);
    zt_ctx *ctx = zt_ctx_new();
    zt_quantizer q = {.dtype = ZT_Q8_0, .columns = 33};
    bool refused = zt_quantize_rows(ctx, &q, x, 1, out) == ZT_ESHAPE;
    ok(refused, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    q.dtype = ZT_I32;
    refused = zt_quantize_rows(ctx, &q, x, 1, out) == ZT_ENOTSUP;
    ok(refused, "%s", zt_ctx_error(ctx));
    zt_ctx_free(ctx);
}

/* Kinds of rows. Their blocks must decode to numbers, and near enough to lie within the row. */
static void fill(int kind, float most, float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double g = zt_normal(7, (uint64_t)kind, (uint64_t)i);
        x[i] = (float)g;
        if (kind == 1) x[i] = 0;
        if (kind == 2) x[i] = -0.0f;
        if (kind == 3) x[i] = 0.37f;
        if (kind == 4) x[i] = -1e-3f;
        if (kind == 5) x[i] = (float)(g * 1e-40);
        if (kind == 6) x[i] = (float)(g * 1e-20);
        if (kind == 7) x[i] = g > 0 ? most : -most;
        if (kind == 8) x[i] = i % 97 ? 0 : (float)g;
        if (kind == 9) x[i] = (float)(g * 1e-6);
        if (kind == 10) x[i] = (float)(5 + g * 1e-3);
        if (kind == 11) x[i] = (float)(-5 + g * 1e-3);
        if (kind == 12) x[i] = (float)ldexp(g, (int)(i % 40) - 30);
        if (kind == 13) x[i] = i % 2 ? 1 : -1;
        if (kind == 14) x[i] = i == 255 ? most : 0;
    }
}

enum { KINDS = 15, COLUMNS = 1024 };

/* A type's own rule or, where it has none, its search; with weights; searched without them. */
typedef enum how { OWN, WEIGHED, SEARCHED } how;

/* Every instruction set has the same bytes, whole or in pieces; what they decode to is a number and
 * no farther from the row than 0 is. */
static void test_kind(zt_dtype dtype, int kind, how by)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    size_t bytes = (size_t)(COLUMNS / info->block * info->block_bytes);
    static float x[COLUMNS], y[COLUMNS], w[COLUMNS];
    static uint8_t out[3][4 * COLUMNS];
    int unequal = 0;
    bool weighed = by == WEIGHED;
    fill(kind, zt_quantize_most(dtype), x, COLUMNS);
    for (int i = 0; i < COLUMNS; i++) w[i] = weighed ? (float)(i % 7) * 0.3f + 0.01f : 1;
    memset(out, 0x55, sizeof out);
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) {
        const zt_encoder *e = zt_encoder_find((zt_isa)isa, dtype);
        zt_quantize_fn *run = by != OWN || !e->exact ? e->search : e->exact;
        run(x, weighed ? w : NULL, COLUMNS, out[isa > 0]);
        for (int b = 0; b < COLUMNS; b += info->block)
            run(x + b, weighed ? w + b : NULL, info->block, out[2] + b / info->block * info->block_bytes);
        unequal += memcmp(out[0], out[isa > 0], bytes) || memcmp(out[0], out[2], bytes);
    }
    info->decode(out[0], y, COLUMNS);
    double e2 = 0, x2 = 0;
    for (int i = 0; i < COLUMNS; i++) {
        e2 += (double)w[i] * ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        x2 += (double)w[i] * (double)x[i] * (double)x[i];
    }
    if (unequal || !(e2 <= x2))
        ok(false, "%s of kind %d%s: %d unequal, error %g of %g", info->name, kind,
           weighed          ? " weighed"
           : by == SEARCHED ? " searched"
                            : "",
           unequal, e2, x2);
}

/* What has been quantized once loses little more when it is again. */
static void test_again(void)
{
    enum { N = 4096 };
    static float x[N], y[N], z[N];
    static uint8_t out[8 * N];
    zt_ctx *ctx = zt_ctx_new();
    for (int i = 0; i < N; i++) x[i] = (float)zt_normal(5, 1, (uint64_t)i);
    for (int t = 0; t < ZT_DTYPE_COUNT; t++) {
        const zt_dtype_info *info = zt_dtype_get((zt_dtype)t);
        zt_quantizer q = {.dtype = (zt_dtype)t, .columns = N};
        double first, again;
        if (!zt_quantize_has((zt_dtype)t)) continue;
        zt_quantize_rows(ctx, &q, x, 1, out);
        info->decode(out, y, N);
        zt_quantize_rows(ctx, &q, y, 1, out);
        info->decode(out, z, N);
        errors(x, y, NULL, 1, N, &first);
        errors(y, z, NULL, 1, N, &again);
        ok(again <= 0.1 * first, "%s: again %.3f of the first error", info->name, first > 0 ? again / first : 0);
    }
    zt_ctx_free(ctx);
}

/* ---- codes of plain floats ------------------------------------------------------------------- */

static uint32_t encoded(const zt_dtype_info *d, float f)
{
    uint32_t code = 0;
    d->encode(&f, &code, 1);
    return code;
}

/* Every code comes back; between two neighbours what is nearer is taken, in the middle the even
 * one. */
static void test_codes(zt_dtype dtype, uint32_t codes, uint32_t sign)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    int lost = 0, wrong = 0;
    for (uint32_t c = 0; c < codes; c++) {
        uint32_t next = c + 1;
        float a, b;
        info->decode(&c, &a, 1);
        info->decode(&next, &b, 1);
        lost += !isnan(a) && encoded(info, a) != c;
        if ((c & ~sign) + 1 >= sign || !isfinite(a) || !isfinite(b)) continue;
        float middle = (float)(0.5 * ((double)a + (double)b)); /* exact */
        wrong += encoded(info, middle) != (c & 1 ? next : c);
        wrong += encoded(info, nextafterf(middle, a)) != c || encoded(info, nextafterf(middle, b)) != next;
    }
    ok(lost == 0 && wrong == 0, "%s: every code, %d lost, %d wrongly rounded", info->name, lost, wrong);
}

/* f16 is converted alike by every instruction set, NaN with its bits. */
static void test_halves(void)
{
    enum { N = 1 << 16 };
    static uint16_t codes[N], halves[2][N];
    static float x[2][N];
    int unlike_bits = 0;
    for (int i = 0; i < N; i++) codes[i] = (uint16_t)i;
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) {
        const zt_plain *p = zt_plain_of((zt_isa)isa);
        p->decode_f16(codes, x[isa > 0], N - 3);
        unlike_bits += memcmp(x[0], x[isa > 0], sizeof x[0]) != 0;
    }
    for (uint32_t high = 0; high < 64; high++) {
        for (uint32_t i = 0; i < N; i++) {
            uint32_t bits = (i << 16 | high << 10 | (i * 2654435761u) >> 22) + (high & 1);
            memcpy(&x[0][i], &bits, 4);
        }
        for (int isa = 0; isa <= (int)zt_isa_best(); isa++) {
            zt_plain_of((zt_isa)isa)->encode_f16(x[0], halves[isa > 0], N);
            unlike_bits += memcmp(halves[0], halves[isa > 0], sizeof halves[0]) != 0;
        }
    }
    ok(unlike_bits == 0, "f16 on every instruction set");
}

static void test_floats(void)
{
    static const struct {
        zt_dtype t;
        uint32_t codes, sign;
    } types[] = {{ZT_F16, 1 << 16, 1 << 15},
                 {ZT_BF16, 1 << 16, 1 << 15},
                 {ZT_F8_E4M3, 256, 128},
                 {ZT_F8_E5M2, 256, 128},
                 {ZT_F4_E2M1, 16, 8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) test_codes(types[i].t, types[i].codes, types[i].sign);
    test_halves();
}

/* ---- importance, loss ------------------------------------------------------------------------ */

/* What is important is kept better, and what counts is the weighted error. */
static void test_importance(void)
{
    enum { N = 4096 };
    static float x[N], w[N], y[2][N];
    static uint8_t out[8 * N];
    zt_ctx *ctx = zt_ctx_new();
    for (int i = 0; i < N; i++) {
        x[i] = (float)zt_normal(3, 1, (uint64_t)i);
        w[i] = expf(2 * (float)zt_normal(3, 2, (uint64_t)i));
    }
    for (int t = 0; t < ZT_DTYPE_COUNT; t++) {
        const zt_dtype_info *info = zt_dtype_get((zt_dtype)t);
        double each[2];
        if (!zt_quantize_weighs((zt_dtype)t)) continue;
        for (int k = 0; k < 2; k++) {
            zt_quantizer q = {.dtype = (zt_dtype)t, .columns = N, .importance = k ? w : NULL};
            zt_quantize_rows(ctx, &q, x, 1, out);
            info->decode(out, y[k], N);
        }
        errors(x, y[0], w, 1, N, &each[0]);
        errors(x, y[1], w, 1, N, &each[1]);
        ok(each[1] < 0.99 * each[0], "%s: importance leaves %.3f of the weighted error", info->name, each[1] / each[0]);
    }
    zt_ctx_free(ctx);
}

/* Searched for, codes leave less than the format's own rule; a type without a search has its rule.
 */
static void test_search(void)
{
    enum { N = 4096 };
    static float x[N], y[N];
    static uint8_t out[2][8 * N];
    zt_ctx *ctx = zt_ctx_new();
    for (int i = 0; i < N; i++) x[i] = (float)zt_normal(4, 1, (uint64_t)i);
    for (int t = 0; t < ZT_DTYPE_COUNT; t++) {
        const zt_dtype_info *info = zt_dtype_get((zt_dtype)t);
        const zt_encoder *e = zt_encoder_find(zt_isa_best(), (zt_dtype)t);
        double left[2];
        memset(out, 0, sizeof out);
        for (int k = 0; e && e->exact && k < 2; k++) {
            zt_quantizer q = {.dtype = (zt_dtype)t, .columns = N, .search = k};
            zt_quantize_rows(ctx, &q, x, 1, out[k]);
            info->decode(out[k], y, N);
            errors(x, y, NULL, 1, N, &left[k]);
        }
        if (!e || !e->exact) continue;
        if (e->search)
            ok(left[1] < 0.97 * left[0], "%s: searched for, %.3f of its own rule's error", info->name, left[1] / left[0]);
        else
            ok(!memcmp(out[0], out[1], sizeof out[0]), "%s: its own rule", info->name);
    }
    zt_ctx_free(ctx);
}

/* Columns small in all rows weigh more, at most 30 or 900; of few rows, of zeros and of what is no
 * number nothing is said. */
static void test_columns(void)
{
    enum { N = 64, ROWS = 128 };
    static float x[ROWS * N], w[2][N];
    bool any[3], none;
    zt_ctx *ctx = zt_ctx_new();
    for (int i = 0; i < ROWS * N; i++) {
        x[i] = (float)zt_normal(6, 1, (uint64_t)i);
        if (i % N == 3) x[i] *= 0.5f;
        if (i % N == 4) x[i] *= 1e-3f;
        if (i % N == 5) x[i] = 0;
        if (i % N == 6) x[i] *= 10;
    }
    zt_column_weights(ctx, x, ROWS, N, 1, w[0], &any[0]);
    zt_column_weights(ctx, x, ROWS, N, 2, w[1], &any[1]);
    ok(any[0] && w[0][3] > 3 && w[0][3] < 6 && fabsf(w[1][3] / (w[0][3] * w[0][3]) - 1) < 1e-5f, "half as large: weighs %g, %g",
       (double)w[0][3], (double)w[1][3]);
    ok(any[1] && fabsf(w[0][4] - 30) < 1e-3f && fabsf(w[1][4] - 900) < 1e-2f, "at most 30, 900");
    ok(w[1][5] == 1 && w[1][6] == 1, "what is 0 or large weighs as all do");
    zt_column_weights(ctx, x, 63, N, 2, w[1], &none);
    ok(!none && w[1][4] == 1, "nothing of few rows");
    x[7] = NAN, x[8] = INFINITY, x[N + 8] = 3e38f;
    zt_column_weights(ctx, x, ROWS, N, 1, w[1], &any[2]);
    ok(any[2] && w[1][7] == 1 && w[1][8] == 1 && w[1][3] > 3, "what is no number weighs as all do");
    zt_ctx_free(ctx);
}

static void test_loss(void)
{
    const float x[4] = {1, 2, 3, 4}, y[4] = {1, 2, 3, 2}, zero[4] = {0};
    zt_loss_of l = {0}, none = {0};
    zt_loss_add(&l, x, y, 2);
    zt_loss_add(&l, x + 2, y + 2, 2);
    ok(zt_loss_rmse(&l) == 1 && l.most == 2 && fabs(zt_loss_snr(&l) - 8.7506) < 1e-3, "what is lost");
    ok(fabs(zt_loss_cosine(&l) - 22 / sqrt(30.0 * 18)) < 1e-12, "and the cosine");
    zt_loss_add(&none, zero, zero, 4);
    ok(zt_loss_rmse(&none) == 0 && zt_loss_cosine(&none) == 1 && isinf(zt_loss_snr(&none)), "of nothing, nothing");
}

static void test_kinds(void)
{
    for (int t = 0; t < ZT_DTYPE_COUNT; t++) {
        const zt_encoder *e = zt_encoder_find(ZT_ISA_SCALAR, (zt_dtype)t);
        int before = tap_failed;
        for (int kind = 0; e && kind < KINDS; kind++) {
            test_kind((zt_dtype)t, kind, OWN);
            if (e->search) test_kind((zt_dtype)t, kind, WEIGHED);
            if (e->search) test_kind((zt_dtype)t, kind, SEARCHED);
        }
        if (e) ok(tap_failed == before, "%s: one result on all instruction sets, hard rows too", zt_dtype_get((zt_dtype)t)->name);
    }
}

int main(void)
{
    test_refusals();
    test_kinds();
    test_again();
    test_floats();
    test_importance();
    test_search();
    test_columns();
    test_loss();
    test_golden();
    return tap_done();
}
