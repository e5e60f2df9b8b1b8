/* golden_merge.c - golden/merge, and tests/dna/merging: every case's recipe, as JSON and as YAML, merged by lib/dna and
 * held to mergekit's result; where that is random, to its statistics. At any number of threads the
 * child is the same.
 */
#include "tests/common/folder.h"
#include "tests/common/golden.h"
#include "tests/common/tap.h"

#include "lib/zt/all.h"
#include <jansson.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char set[4096]; /* the folder of the cases */
static bool quiet;     /* failures are wanted */

/* ---- YAML of a JSON value, in blocks --------------------------------------------------------- */

static void put_yaml(zt_str *out, const json_t *root, int indent, bool inside)
{
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_object(root) && json_object_size(root)) {
        if (!inside) zt_str_putc(out, '\n');
        json_object_foreach((json_t *)root, key, value)
        {
            zt_str_printf(out, "%*s%s:", inside ? 0 : indent, "", key);
            put_yaml(out, value, indent + 2, false);
            inside = false;
        }
    } else if (json_is_array(root) && json_array_size(root)) {
        zt_str_putc(out, '\n');
        json_array_foreach(root, i, value)
        {
            zt_str_printf(out, "%*s- ", indent, "");
            put_yaml(out, value, indent + 2, true);
        }
    } else {
        char *text = json_dumps(root, JSON_ENCODE_ANY);
        bool plain = json_is_string(root) && !strpbrk(json_string_value(root), ":#{}[]\"'\\ ");
        zt_str_printf(out, " %s\n", plain ? json_string_value(root) : text);
        free(text);
    }
}

/* ---- models as floats ------------------------------------------------------------------------ */

static float *floats_of(zt_ctx *ctx, zt_checkpoint *checkpoint, const char *name, int64_t *count)
{
    zt_entry entry;
    int64_t i = zt_checkpoint_find(checkpoint, name);
    if (i < 0) return NULL;
    zt_checkpoint_get(checkpoint, i, &entry);
    *count = zt_type_count(&entry.type);
    char *raw = zt_alloc(ctx, entry.bytes);
    float *x = zt_alloc_array(ctx, (size_t)*count + 1, sizeof *x);
    if (zt_checkpoint_read(checkpoint, i, 0, raw, entry.bytes) == ZT_OK)
        zt_dtype_convert(entry.type.dtype, raw, ZT_F32, x, *count);
    zt_free(ctx, raw);
    return x;
}

/* The largest |a - b| over 1e-6 + 1e-6 |b| that any element has; infinity: other names or shapes.
 */
static double distance(zt_ctx *ctx, zt_checkpoint *a, zt_checkpoint *b)
{
    double most = zt_checkpoint_count(a) == zt_checkpoint_count(b) ? 0 : INFINITY;
    for (int64_t i = 0; i < zt_checkpoint_count(b); i++) {
        zt_entry entry;
        int64_t count = 0, m = 0;
        zt_checkpoint_get(b, i, &entry);
        float *y = floats_of(ctx, b, entry.name, &count), *x = floats_of(ctx, a, entry.name, &m);
        if (!x || count != m) most = INFINITY;
        for (int64_t k = 0; x && count == m && k < count; k++) {
            double d = fabs((double)x[k] - y[k]) / (1e-6 + 1e-6 * fabs((double)y[k]));
            most = d > most || isnan(d) ? d : most;
        }
        zt_free(ctx, x);
        zt_free(ctx, y);
    }
    return most;
}

/* ---- merging --------------------------------------------------------------------------------- */

enum { MOST = 16 };

/* The child of a recipe, as a file that is open; NULL: it failed. */
static zt_checkpoint *merged(zt_ctx *ctx, const char *text, size_t count, int threads)
{
    zt_merge_parent parent[MOST] = {{0}};
    char path[8192], out[8192];
    char name[64];
    snprintf(name, sizeof name, "child-%d.safetensors", threads);
    snprintf(out, sizeof out, "%s", under(name));
    zt_recipe *recipe = zt_recipe_parse(ctx, "recipe", text, count);
    bool good = recipe && zt_recipe_count(recipe) <= MOST;
    for (int i = 0; good && i < zt_recipe_count(recipe); i++) {
        snprintf(path, sizeof path, "%s/models/%s", set, zt_recipe_model(recipe, i));
        parent[i].model = zt_checkpoint_open(ctx, path, 0);
        good = parent[i].model != NULL;
    }
    zt_merge *m = good ? zt_merge_new(ctx, recipe, parent, &(zt_merge_opts){.threads = threads, .seed = 7}) : NULL;
    zt_writer *writer = m ? zt_writer_open(ctx, out, &(zt_checkpoint_opts){.force = true}, zt_merge_meta(m), zt_merge_entries(m),
                                           zt_merge_count(m))
                          : NULL;
    good = writer && zt_merge_write(m, writer) == ZT_OK && zt_writer_commit(writer) == ZT_OK;
    zt_writer_close(writer);
    zt_merge_free(m);
    for (int i = 0; recipe && i < zt_recipe_count(recipe) && i < MOST; i++) zt_checkpoint_close(parent[i].model);
    zt_recipe_free(recipe);
    if (!good && !quiet) diag("%s", zt_ctx_error(ctx));
    return good ? zt_checkpoint_open(ctx, out, 0) : NULL;
}

static zt_checkpoint *merged_json(zt_ctx *ctx, const json_t *config, int threads)
{
    char *text = json_dumps(config, 0);
    zt_checkpoint *c = merged(ctx, text, strlen(text), threads);
    free(text);
    return c;
}

static bool has_yaml(zt_ctx *ctx)
{
    static const char text[] = "merge_method: linear\nmodels: [{model: a}]\n";
    zt_recipe *recipe = zt_recipe_parse(ctx, "probe", text, sizeof text - 1);
    bool has = recipe || zt_ctx_status(ctx) != ZT_ENOTSUP;
    zt_recipe_free(recipe);
    zt_ctx_clear(ctx);
    return has;
}

/* Each allocation in turn fails, and all after it: it is said, and nothing is left. */
static void check_memory(const char *name, const json_t *config)
{
    zt_ctx *ctx = zt_ctx_new();
    int bad = 0, tried = 0;
    bool done = false;
    size_t held = zt_mem_get(ctx).blocks;
    for (uint64_t n = 1; n < 100000 && !done; n += 1 + n / 16, tried++) {
        zt_mem_fail(ctx, n, true);
        quiet = true;
        zt_checkpoint *checkpoint = merged_json(ctx, config, 2);
        quiet = false;
        zt_mem_fail(ctx, 0, false);
        done = checkpoint != NULL;
        bad += !done && zt_ctx_status(ctx) != ZT_ENOMEM;
        zt_checkpoint_close(checkpoint);
        bad += zt_mem_get(ctx).blocks != held;
        zt_ctx_clear(ctx);
    }
    ok(done && tried > 10 && bad == 0, "%s: without memory, %d times", name, tried);
    zt_ctx_free(ctx);
}

static void check_exact(zt_ctx *ctx, const char *name, const json_t *config, zt_checkpoint *want)
{
    zt_checkpoint *a = merged_json(ctx, config, 1);
    double d = a ? distance(ctx, a, want) : INFINITY;
    ok(d <= 1, "%s: as mergekit has it, %.2g of the bound", name, d);
    zt_checkpoint *b = merged_json(ctx, config, 3);
    ok(a && b && distance(ctx, b, a) == 0, "%s: the same by three threads", name);
    check_memory(name, config);
    zt_checkpoint_close(a);
    zt_checkpoint_close(b);
    if (!has_yaml(ctx)) {
        skip("%s: built without libyaml", name);
        return;
    }
    zt_str text;
    zt_str_init(&text, ctx);
    put_yaml(&text, config, 0, true);
    a = merged(ctx, text.data, text.len, 2);
    d = a ? distance(ctx, a, want) : INFINITY;
    ok(d <= 1, "%s: the same from YAML", name);
    zt_checkpoint_close(a);
    zt_str_fini(&text);
}

/* ---- what is random -------------------------------------------------------------------------- */

/* A base, and one model of weight 1: the differences that are kept, by the paper's rule each over
 * the density; by mergekit's (l1) of the same sum of magnitudes. */
static void check_alone(zt_ctx *ctx, const char *name, const json_t *config, const json_t *model, bool l1)
{
    double density = json_number_value(json_object_get(json_object_get(model, "parameters"), "density"));
    json_t *item = json_pack("{s:s, s:O, s:s, s:[{s:O, s:{s:f, s:f}}]}", "merge_method", "dare_linear", "base_model",
                             json_object_get(config, "base_model"), "dtype", "float32", "models", "model",
                             json_object_get(model, "model"), "parameters", "weight", 1.0, "density", density);
    if (l1) json_object_set_new(item, "parameters", json_pack("{s:b}", "rescale", 1));
    char path[8192];
    snprintf(path, sizeof path, "%s/models/%s", set, json_string_value(json_object_get(config, "base_model")));
    zt_checkpoint *base = zt_checkpoint_open(ctx, path, 0);
    snprintf(path, sizeof path, "%s/models/%s", set, json_string_value(json_object_get(model, "model")));
    zt_checkpoint *other = zt_checkpoint_open(ctx, path, 0), *out = merged_json(ctx, item, 2);
    double kept = 0, all = 0, wrong = 0, before = 0, after = 0, worst = 0;
    for (int64_t i = 0; base && other && out && i < zt_checkpoint_count(base); i++) {
        zt_entry entry;
        int64_t count = 0;
        zt_checkpoint_get(base, i, &entry);
        float *b = floats_of(ctx, base, entry.name, &count), *x = floats_of(ctx, other, entry.name, &count),
              *y = floats_of(ctx, out, entry.name, &count);
        double l_before = 0, l_after = 0;
        for (int64_t k = 0; k < count; k++) {
            double d = (double)x[k] - b[k], got = (double)y[k] - b[k];
            if (fabs(d) < 1e-5) continue; /* not to be told from nothing */
            all++;
            kept += fabs(got) > 1e-6;
            wrong += fabs(got) > 1e-6 && fabs(got - d / density) > 2e-6;
            l_before += fabs(d);
            l_after += fabs(got);
        }
        before += l_before;
        after += l_after;
        worst = fmax(worst, fabs(l_after / fmax(l_before, 1e-9) - 1));
        zt_free(ctx, b);
        zt_free(ctx, x);
        zt_free(ctx, y);
    }
    double spread = sqrt(density * (1 - density) / fmax(all, 1));
    ok(all > 0 && fabs(kept / all - density) < 5 * spread, "%s: %.4f of the differences are kept, of %g", name,
       kept / fmax(all, 1), density);
    if (l1)
        ok(all > 0 && worst < 1e-3, "%s: rescale: the L1 norm of each tensor is as before, within %.2g", name, worst);
    else
        ok(all > 0 && wrong == 0 && fabs(after / before - 1) < 0.05, "%s: each is divided by the density", name);
    zt_checkpoint_close(base);
    zt_checkpoint_close(other);
    zt_checkpoint_close(out);
    json_decref(item);
}

static void check_random(zt_ctx *ctx, const char *name, const json_t *config)
{
    const json_t *model;
    size_t i;
    zt_checkpoint *a = merged_json(ctx, config, 1), *b = merged_json(ctx, config, 3);
    ok(a && b && distance(ctx, a, b) == 0, "%s: of one seed, the same by any number of threads", name);
    zt_checkpoint_close(a);
    zt_checkpoint_close(b);
    json_array_foreach(json_object_get(config, "models"), i, model)
    {
        check_alone(ctx, name, config, model, false);
        check_alone(ctx, name, config, model, true);
    }
}

/* Each case of the manifest in the folder `set`. */
static void check_set(zt_ctx *ctx)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/manifest.json", set);
    json_t *manifest = json_load_file(path, 0, NULL), *one;
    size_t i;
    ok(json_array_size(json_object_get(manifest, "cases")) > 0, "%s: %zu cases", set,
       json_array_size(json_object_get(manifest, "cases")));
    json_array_foreach(json_object_get(manifest, "cases"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        const json_t *config = json_object_get(one, "config");
        snprintf(path, sizeof path, "%s/%s", set, json_string_value(json_object_get(one, "output")));
        zt_checkpoint *want = zt_checkpoint_open(ctx, path, 0);
        if (json_is_true(json_object_get(one, "random")))
            check_random(ctx, name, config);
        else if (ok(want != NULL, "%s: is there", name))
            check_exact(ctx, name, config, want);
        zt_checkpoint_close(want);
        zt_ctx_clear(ctx);
    }
    json_decref(manifest);
}

/* The set of the repository, made by tests/dna/merging/make.py, and the golden one where there is one. */
int main(int argc, char **argv)
{
    (void)argc;
    const char *tests = getenv("ZT_TESTS");
    if (!folder_make("merge")) return 1;
    zt_ctx *ctx = zt_ctx_new();
    snprintf(set, sizeof set, "%s/../merging", tests && *tests ? tests : dirname(argv[0]));
    check_set(ctx);
    if (golden_holds("merge", set)) check_set(ctx);
    ok(folder_remove(), "tidy");
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left in memory");
    zt_ctx_free(ctx);
    return tap_done();
}
