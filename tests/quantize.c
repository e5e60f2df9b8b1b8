/* quantize.c - holds the quantizers to golden/formats/quant (the bytes where the format leaves nothing
 * to choose, else the error beside ggml's), to each other on every instruction set, and to what they
 * must refuse. */
#include "lib/tensor/quantize.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/tensor/encode.h"
#include "tests/golden.h"
#include "tests/npy.h"
#include "tests/tap.h"

enum { MOST_TYPES = 64 };

/* ---- formats/quant ------------------------------------------------------------------------------ */

/* Root mean square error of each row and their sum; weights may be NULL. */
static double errors(const float *x, const float *y, const float *w, int64_t rows, int64_t n,
                     double *each)
{
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) {
        double e2 = 0, all = 0;
        for (int64_t i = 0; i < n; i++) {
            double e = (double)y[r * n + i] - (double)x[r * n + i];
            e2 += (w ? (double)w[i] : 1) * e * e;
            all += w ? (double)w[i] : 1;
        }
        each[r] = sqrt(e2 / all);
        sum += each[r];
    }
    return sum;
}

static bool get(const npz *z, const char *type, const char *what, npy *out)
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
static void beside(const npz *z, const char *type, zt_dtype t, const npy *x, const npy *imatrix,
                   bool exact)
{
    const zt_dtype_info *d = zt_dtype_get(t);
    int64_t rows = x->shape[0], n = x->shape[1], bytes = n / d->block * d->block_bytes;
    npy want = {0}, code = {0};
    const char *suffix = imatrix ? "_imatrix" : "";
    char name[32];
    snprintf(name, sizeof name, "dequant%s", suffix);
    bool found = get(z, type, name, &want);
    snprintf(name, sizeof name, "bytes%s", suffix);
    found = found && get(z, type, name, &code);
    uint8_t *out = malloc((size_t)(rows * bytes));
    float *y = malloc((size_t)(rows * n) * sizeof *y);
    double *ours = calloc((size_t)(2 * rows), sizeof *ours), *theirs = ours + rows;
    const float *w = imatrix ? imatrix->data : NULL;
    zt_ctx *ctx = zt_ctx_new();
    zt_quantizer q = {.dtype = t, .n = n, .importance = w};
    if (ok(found && zt_quantize_rows(ctx, &q, x->data, rows, out) == ZT_OK, "%s%s: quantizes", type,
           suffix)) {
        d->decode(out, y, rows * n);
        double a = errors(x->data, y, w, rows, n, ours);
        double b = errors(x->data, want.data, w, rows, n, theirs);
        int64_t bad = unlike(out, code.data, rows * bytes);
        if (exact)
            ok(bad * 1000 < rows * bytes, "%s%s: ggml's bytes (%lld of %lld differ)", type, suffix,
               (long long)bad, (long long)(rows * bytes));
        ok(a <= 1.02 * b, "%s%s: error %.4f of ggml's", type, suffix, a / b);
        int worse = 0;
        for (int64_t r = 0; r < rows; r++) {
            worse += ours[r] > 1.05 * theirs[r] + 1e-7;
            if (getenv("ZT_SHOW"))
                diag("row %d: %.6g, ggml %.6g: %.4f", (int)r, ours[r], theirs[r], ours[r] / theirs[r]);
        }
        ok(!worse, "%s%s: no row is worse", type, suffix);
    }
    zt_ctx_free(ctx);
    free(ours);
    free(y);
    free(out);
    npy_free(&want);
    npy_free(&code);
}

static void golden_type(const npz *z, const json_t *c, const npy *x, const npy *imatrix)
{
    const char *type = json_string_value(json_object_get(c, "type"));
    bool exact = json_is_true(json_object_get(c, "quant_exact"));
    bool always = json_is_true(json_object_get(c, "imatrix_used"));
    char lower[32] = "";
    zt_dtype t;
    npy weighed = {0};
    for (size_t i = 0; type && i < strlen(type) && i < sizeof lower - 1; i++)
        lower[i] = (char)tolower(type[i]);
    if (!zt_dtype_parse(lower, strlen(lower), &t) || !zt_quantize_has(t)) return;
    if (!always) beside(z, type, t, x, NULL, exact);
    if (zt_quantize_weighs(t) && get(z, type, "bytes_imatrix", &weighed))
        beside(z, type, t, x, imatrix, false);
    npy_free(&weighed);
}

static void test_golden(void)
{
    char path[4096], manifest[4096];
    json_error_t e;
    npz z;
    npy x = {0}, imatrix = {0};
    if (!golden_holds("formats/quant/data.npz", path) ||
        !golden_holds("formats/quant/manifest.json", manifest))
        return;
    json_t *m = json_load_file(manifest, 0, &e);
    const json_t *cases = json_object_get(m, "cases");
    if (ok(json_array_size(cases) > 0, "%s %s", manifest, m ? "" : e.text) &&
        ok(npz_open(&z, path), "%s", path)) {
        if (ok(get(&z, "", "x", &x) && get(&z, "", "imatrix", &imatrix), "its matrix"))
            for (size_t i = 0; i < json_array_size(cases); i++)
                golden_type(&z, json_array_get(cases, i), &x, &imatrix);
        npy_free(&x);
        npy_free(&imatrix);
        npz_close(&z);
    }
    json_decref(m);
}

int main(void)
{
    test_golden();
    return tap_done();
}
