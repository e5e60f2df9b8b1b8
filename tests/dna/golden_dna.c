/* golden_dna.c - golden/loom/dna, dna_helpers: signatures, comparisons both ways and logic shifts
 * of networks, by lib/dna and Loom's rule.
 *
 * A case's network is written with its masters in place of its weights, as
 * f32 beside the dtype, and read as any network is. Masters that no layer of
 * a container has are those of its gate, which counts as one more branch. */
#include "tests/common/golden.h"
#include "tests/common/loom_network.h"
#include "tests/common/tap.h"

#include <dirent.h>
#include <math.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

/* ---- signatures ------------------------------------------------------------------------------ */

static bool signature_is(zt_dna *dna, int64_t i, const json_t *want)
{
    static const char *const axis[4] = {"z", "y", "x", "l"};
    const zt_dna_layer *l = zt_dna_get(dna, i);
    const json_t *w = json_object_get(want, "weights");
    bool same = strcmp(l->type, text_of(want, "type_name")) == 0 && strcmp(l->dtype, text_of(want, "dtype_name")) == 0 &&
                l->count == (int64_t)json_array_size(w);
    for (int k = 0; k < 4; k++) same = same && l->place[k] == json_integer_value(json_object_get(want, axis[k]));
    float *x = malloc((size_t)l->count * sizeof *x + 1);
    same = same && zt_dna_sign(dna, i, x, NULL) == ZT_OK;
    for (int64_t k = 0; same && k < l->count; k++) same = loom_near(x[k], loom_number(json_array_get(w, (size_t)k)), 1e-5);
    free(x);
    return same;
}

static bool signatures_are(zt_dna *d, const json_t *want)
{
    bool same = zt_dna_count(d) == (int64_t)json_array_size(want);
    for (int64_t i = 0; same && i < zt_dna_count(d); i++) same = signature_is(d, i, json_array_get(want, (size_t)i));
    return same;
}

/* ---- comparisons ----------------------------------------------------------------------------- */

static bool overlaps_are(const zt_dna *a, const zt_dna_verdict *v, const json_t *want)
{
    const json_t *layers = json_object_get(want, "layer_overlaps");
    bool same = (size_t)v->score_count == json_object_size(layers) &&
                loom_near(v->overlap, loom_number(json_object_get(want, "overall_overlap")), 1e-5);
    for (int64_t k = 0; same && k < v->score_count; k++) {
        const json_t *x = json_object_get(layers, zt_dna_get(a, v->scores[k].layer_a)->name);
        same = x && loom_near(v->scores[k].overlap, loom_number(x), 1e-5);
    }
    return same;
}

static bool shifts_are(const zt_dna *a, const zt_dna *b, const zt_dna_verdict *v, const json_t *want)
{
    const json_t *shifts = json_object_get(want, "logic_shifts");
    bool same = (size_t)v->shift_count == json_array_size(shifts);
    for (int64_t k = 0; same && k < v->shift_count; k++) {
        const json_t *x = json_array_get(shifts, (size_t)k);
        const zt_dna_shift *s = &v->shifts[k];
        same = strcmp(zt_dna_get(a, s->from_layer)->name, text_of(x, "source")) == 0 &&
               strcmp(zt_dna_get(b, s->to_layer)->name, text_of(x, "target")) == 0 &&
               loom_near(s->overlap, loom_number(json_object_get(x, "overlap")), 1e-5);
    }
    return same;
}

static bool comparison_is(zt_dna *a, zt_dna *b, const json_t *want, int threads)
{
    zt_dna_verdict v;
    zt_dna_compare_opts how = {.threads = threads, .ranks = true, .shifts = true};
    bool same = zt_dna_compare(a, b, &how, &v) == ZT_OK && overlaps_are(a, &v, want) && shifts_are(a, b, &v, want);
    zt_dna_verdict_free(&v);
    return same;
}

static void test_case(zt_ctx *ctx, const json_t *item, const char *name)
{
    loom_net na, nb;
    zt_dna *a = loom_open(&na, ctx, json_object_get(item, "a"), ZT_RULE_LOOM);
    zt_dna *b = loom_open(&nb, ctx, json_object_get(item, "b"), ZT_RULE_LOOM);
    ok(a && b, "dna/%s: both networks are read%s%s", name, a && b ? "" : ": ", zt_ctx_error(ctx));
    if (a && b) {
        ok(signatures_are(a, json_object_get(item, "dna_a")) && signatures_are(b, json_object_get(item, "dna_b")),
           "dna/%s: signatures", name);
        ok(comparison_is(a, b, json_object_get(item, "compare"), 1), "dna/%s: a with b", name);
        ok(comparison_is(b, a, json_object_get(item, "compare_reversed"), 3), "dna/%s: b with a", name);
    }
    loom_close(&na);
    loom_close(&nb);
    zt_ctx_clear(ctx);
}

/* ---- helpers --------------------------------------------------------------------------------- */

/* A network of one layer with these weights, as a case has networks. */
static json_t *one_layer(json_t *weights)
{
    return json_pack("{s{s[{sisisisissssss}]}s[[O]]}", "network", "layers", "z", 0, "y", 0, "x", 0, "l", 0, "type", "Dense",
                     "dtype", "float32", "weights", "", "masters", weights);
}

static void test_vectors(zt_ctx *ctx, const json_t *item, size_t number)
{
    json_t *ja = one_layer(json_object_get(item, "a")), *jb = one_layer(json_object_get(item, "b"));
    const json_t *unit = json_object_get(item, "normalize_a");
    loom_net na, nb;
    zt_dna *a = loom_open(&na, ctx, ja, ZT_RULE_LOOM), *b = loom_open(&nb, ctx, jb, ZT_RULE_LOOM);
    zt_dna_verdict v = {.ctx = NULL};
    zt_dna_compare_opts how = {.threads = 1};
    float x[256];
    bool same = a && b && zt_dna_get(a, 0)->count <= 256 && zt_dna_sign(a, 0, x, NULL) == ZT_OK &&
                zt_dna_compare(a, b, &how, &v) == ZT_OK && v.score_count == 1;
    for (int64_t k = 0; same && k < zt_dna_get(a, 0)->count; k++)
        same = loom_near(x[k], loom_number(json_array_get(unit, (size_t)k)), 1e-5);
    ok(same, "dna_helpers %zu: normalize", number);
    const json_t *cosine = json_object_get(item, "cosine_similarity_of_normalized");
    ok(same && loom_near(v.scores[0].overlap, loom_number(cosine), 1e-5), "dna_helpers %zu: similarity", number);
    ok(same && loom_near(1 - v.scores[0].cosine, loom_number(json_object_get(item, "cosine_distance")), 1e-5) &&
           loom_near(sqrt(v.scores[0].sum_dd), loom_number(json_object_get(item, "euclidean")), 1e-5),
       "dna_helpers %zu: distances", number);
    zt_dna_verdict_free(&v);
    loom_close(&na);
    loom_close(&nb);
    json_decref(ja);
    json_decref(jb);
    zt_ctx_clear(ctx);
}

/* ---- the sets -------------------------------------------------------------------------------- */

static void test_file(zt_ctx *ctx, const char *path, const char *name)
{
    json_error_t error;
    json_t *case_item = json_load_file(path, 0, &error), *item;
    size_t i;
    if (!case_item)
        ok(false, "%s: %s", path, error.text);
    else if (json_is_array(case_item))
        json_array_foreach(case_item, i, item) test_vectors(ctx, item, i);
    else
        test_case(ctx, case_item, name);
    json_decref(case_item);
}

static void test_set(zt_ctx *ctx, const char *set)
{
    char folder[4096], path[8192];
    if (!golden_holds(set, folder)) return;
    DIR *directory = opendir(folder);
    int files = 0;
    for (struct dirent *f; directory && (f = readdir(directory));) {
        if (!strstr(f->d_name, ".json")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, f->d_name);
        test_file(ctx, path, f->d_name);
        files++;
    }
    if (directory) closedir(directory);
    ok(files > 0, "%s: %d files", set, files);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_set(ctx, "loom/dna");
    test_set(ctx, "loom/dna_helpers");
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
