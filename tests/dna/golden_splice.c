/* golden_splice.c - golden/loom/splice: children of two networks, by lib/dna and Loom's rule.
 *
 * Where the original mixes what differs in type or dtype, which its
 * documentation rules out, a layer stays A's here. Where it is random
 * each number is one of the parents', in shares within 4 sigma. */
#include "tests/common/golden.h"
#include "tests/common/loom_network.h"
#include "tests/common/tap.h"

#include <dirent.h>

typedef struct splice_case {
    const json_t *c;
    const char *name;
    zt_dna *a, *b, *child;
    zt_splice_opts how;
} splice_case;

static double config(const json_t *c, const char *key) { return loom_number(json_object_get(json_object_get(c, "config"), key)); }

static bool take_config(splice_case *t)
{
    static const char *const modes[] = {"blend", "point", "uniform"};
    const json_t *mode = json_object_get(json_object_get(t->c, "config"), "crossover_mode");
    t->how = (zt_splice_opts){.alpha = config(t->c, "blend_alpha"),
                              .ratio = config(t->c, "split_ratio"),
                              .fitness_a = config(t->c, "fitness_a"),
                              .fitness_b = config(t->c, "fitness_b"),
                              .seed = 11};
    for (int m = 0; m < 3; m++)
        if (json_is_string(mode) && strcmp(json_string_value(mode), modes[m]) == 0) {
            t->how.mode = (zt_splice_mode)m;
            return true;
        }
    return false;
}

/* The numbers of a layer; malloc'ed. */
static float *numbers_of(zt_dna *dna, int64_t i)
{
    float *x = malloc((size_t)zt_dna_get(dna, i)->count * sizeof *x + 1);
    if (x && zt_dna_read(dna, i, x) != ZT_OK) {
        free(x);
        return NULL;
    }
    return x;
}

static bool similarities_are(const splice_case *t)
{
    const json_t *want = json_object_get(t->c, "similarities");
    size_t common = 0;
    bool same = true;
    for (int64_t i = 0; same && i < zt_dna_count(t->a); i++) {
        const zt_splice_row *r = zt_dna_splice_row(t->child, i);
        const json_t *x = json_object_get(want, zt_dna_get(t->a, i)->name);
        same = (r->layer_b >= 0) == (x != NULL) && (!x || loom_near(r->similarity, loom_number(x), 1e-5));
        common += x != NULL;
    }
    return same && common == json_object_size(want);
}

/* Has the layer weights of its own? */
static bool has_weights(const splice_case *t, int64_t i)
{
    const char *type = zt_dna_get(t->a, i)->type;
    const json_t *masters = json_object_get(json_object_get(t->c, "a"), "masters");
    return strcmp(type, "Parallel") && strcmp(type, "Sequential") && json_array_size(json_array_get(masters, (size_t)i)) > 0;
}

/* Layers that fit are mixed, and no others. */
static bool mixed_as_they_fit(const splice_case *t)
{
    bool same = true;
    for (int64_t i = 0; same && i < zt_dna_count(t->a); i++) {
        const zt_splice_row *r = zt_dna_splice_row(t->child, i);
        const zt_dna_layer *x = zt_dna_get(t->a, i), *y = r->layer_b < 0 ? NULL : zt_dna_get(t->b, r->layer_b);
        bool fit =
            y && strcmp(x->type, y->type) == 0 && strcmp(x->dtype, y->dtype) == 0 && x->count == y->count && has_weights(t, i);
        same = r->mixed == fit;
    }
    return same;
}

static bool child_is(const splice_case *t)
{
    const json_t *masters = json_object_get(t->c, "child_masters");
    bool same = (int64_t)json_array_size(masters) == zt_dna_count(t->a);
    for (int64_t i = 0; same && i < zt_dna_count(t->a); i++) {
        const json_t *want = json_array_get(json_array_get(masters, (size_t)i), 0);
        bool mixed = zt_dna_splice_row(t->child, i)->mixed;
        float *got = numbers_of(t->child, i), *a = numbers_of(t->a, i);
        same = got && a && (!mixed || (int64_t)json_array_size(want) == zt_dna_get(t->a, i)->count);
        for (int64_t k = 0; same && k < zt_dna_get(t->a, i)->count; k++)
            same = mixed ? loom_near(got[k], loom_number(json_array_get(want, (size_t)k)), 1e-6) : got[k] == a[k];
        free(got);
        free(a);
    }
    return same;
}

/* Each number is one of the parents'; how many are A's. */
static bool count_random(const splice_case *t, int64_t *from_a, int64_t *all)
{
    bool good = true;
    *from_a = *all = 0;
    for (int64_t i = 0; good && i < zt_dna_count(t->a); i++) {
        const zt_splice_row *r = zt_dna_splice_row(t->child, i);
        if (!r->mixed) continue;
        float *x = numbers_of(t->child, i), *a = numbers_of(t->a, i), *b = numbers_of(t->b, r->layer_b);
        good = x && a && b;
        for (int64_t k = 0; good && k < zt_dna_get(t->a, i)->count; k++) {
            good = x[k] == a[k] || x[k] == b[k];
            *from_a += x[k] == a[k];
            ++*all;
        }
        free(x);
        free(a);
        free(b);
    }
    return good;
}

static void test_random(const splice_case *t)
{
    const json_t *stats = json_object_get(t->c, "uniform_stats");
    double sum = t->how.fitness_a + t->how.fitness_b, p = sum > 0 ? t->how.fitness_a / sum : 0.5;
    int64_t from_a, all;
    bool good = count_random(t, &from_a, &all);
    ok(good && all == json_integer_value(json_object_get(stats, "total")), "splice/%s: every number is a parent's", t->name);
    ok(fabs((double)from_a - p * (double)all) <= 4 * sqrt(p * (1 - p) * (double)all), "splice/%s: %lld of %lld are A's", t->name,
       (long long)from_a, (long long)all);
}

static bool overlaps_are(const splice_case *t, zt_dna *parent, const char *key)
{
    const json_t *want = json_object_get(json_object_get(t->c, key), "layer_overlaps");
    zt_dna_compare_opts how = {.threads = 2};
    zt_dna_verdict v;
    bool same = zt_dna_compare(t->child, parent, &how, &v) == ZT_OK && v.score_count > 0;
    for (int64_t k = 0; same && k < v.score_count; k++) {
        const json_t *x = json_object_get(want, zt_dna_get(t->child, v.scores[k].layer_a)->name);
        same = x &&
               (!zt_dna_splice_row(t->child, v.scores[k].layer_a)->mixed || loom_near(v.scores[k].overlap, loom_number(x), 1e-5));
    }
    zt_dna_verdict_free(&v);
    return same;
}

static void test_case(zt_ctx *ctx, const json_t *item, const char *name)
{
    splice_case t = {.c = item, .name = name};
    loom_net na, nb;
    zt_dna_compare_opts work = {.threads = 1};
    t.a = loom_open(&na, ctx, json_object_get(item, "a"), ZT_RULE_LOOM);
    t.b = loom_open(&nb, ctx, json_object_get(item, "b"), ZT_RULE_LOOM);
    t.child = t.a && t.b && take_config(&t) ? zt_dna_splice(t.a, t.b, &t.how, &work) : NULL;
    if (ok(t.child != NULL, "splice/%s: a child%s%s", name, t.child ? "" : ": ", zt_ctx_error(ctx))) {
        ok(similarities_are(&t), "splice/%s: similarities", name);
        ok(mixed_as_they_fit(&t), "splice/%s: what fits is mixed, and nothing else", name);
        if (json_is_true(json_object_get(item, "random")))
            test_random(&t);
        else
            ok(child_is(&t), "splice/%s: its numbers", name);
        if (json_object_get(item, "child_vs_a"))
            ok(overlaps_are(&t, t.a, "child_vs_a") && overlaps_are(&t, t.b, "child_vs_b"),
               "splice/%s: the child beside its parents", name);
    }
    zt_dna_close(t.child);
    loom_close(&na);
    loom_close(&nb);
    zt_ctx_clear(ctx);
}

int main(void)
{
    char folder[4096], path[8192];
    zt_ctx *ctx = zt_ctx_new();
    DIR *directory = golden_holds("loom/splice", folder) ? opendir(folder) : NULL;
    int files = 0;
    for (struct dirent *f; directory && (f = readdir(directory));) {
        json_error_t error;
        if (!strstr(f->d_name, ".json")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, f->d_name);
        json_t *item = json_load_file(path, 0, &error);
        if (!item)
            ok(false, "%s: %s", path, error.text);
        else if (json_object_get(item, "a")) /* else it is the default configuration */
            test_case(ctx, item, f->d_name);
        json_decref(item);
        files++;
    }
    if (directory) {
        closedir(directory);
        ok(files > 0, "loom/splice: %d files", files);
    }
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
