/* cluster.c - clusterings beside SciPy's and scikit-learn's (tests/train/clustering/make.py) and openfluke/loom's (golden set
 * loom/clustering), the same bits for any number of threads, and edges. */
#include "lib/train/cluster.h"
#include "tests/common/golden.h"
#include "tests/common/tap.h"
#include "tests/common/tar.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

enum { MOST = 256 };

static zt_ctx *ctx;

/* ---- what a case holds ------------------------------------------------------------------------- */

static zt_points points_of(const json_t *rows, zt_distance distance)
{
    size_t count = json_array_size(rows), width = json_array_size(json_array_get(rows, 0));
    float *values = malloc((count * width + 1) * sizeof *values);
    for (size_t i = 0; i < count * width && values; i++)
        values[i] = (float)json_number_value(json_array_get(json_array_get(rows, i / width), i % width));
    return (zt_points){values, (int64_t)count, (int64_t)width, distance};
}

static zt_distance distance_of(const char *name) { return strstr(name, "cosine") ? ZT_COSINE : ZT_EUCLIDEAN; }

static zt_linkage linkage_of(const char *name)
{
    static const char *const names[] = {"single", "complete", "average", "ward"};
    int i = 0;
    while (i < 3 && strncmp(name, names[i], strlen(names[i])) != 0) i++;
    return (zt_linkage)i;
}

/* Do two labellings put the same points together? */
static bool same_groups(const int64_t *labels, const json_t *want)
{
    for (size_t i = 0; i < json_array_size(want); i++)
        for (size_t k = 0; k < i; k++)
            if ((labels[i] == labels[k]) !=
                (json_integer_value(json_array_get(want, i)) == json_integer_value(json_array_get(want, k))))
                return false;
    return true;
}

static bool nearly(double a, double b, double share) { return fabs(a - b) <= share * (fabs(b) + 1); }

/* ---- linkage ----------------------------------------------------------------------------------- */

static bool same_steps(const zt_linkage_step *steps, const json_t *want)
{
    for (size_t i = 0; i < json_array_size(want); i++) {
        const json_t *row = json_array_get(want, i);
        if (steps[i].left != (int64_t)json_number_value(json_array_get(row, 0)) ||
            steps[i].right != (int64_t)json_number_value(json_array_get(row, 1)) ||
            !nearly(steps[i].distance, json_number_value(json_array_get(row, 2)), 1e-12) ||
            steps[i].size != (int64_t)json_number_value(json_array_get(row, 3)))
            return false;
    }
    return true;
}

static void test_linkage(const char *set, const json_t *value)
{
    const char *name;
    const json_t *want, *cut;
    size_t i;
    zt_pool *pool = zt_pool_new(ctx, 3);
    json_object_foreach((json_t *)json_object_get(value, "linkage"), name, want)
    {
        zt_points points = points_of(json_object_get(value, "points"), distance_of(name));
        zt_linkage_step steps[MOST], threaded[MOST];
        int64_t labels[MOST];
        memset(steps, 0, sizeof steps);
        memset(threaded, 0, sizeof threaded);
        ok(!zt_linkage_find(ctx, NULL, &points, linkage_of(name), steps) && same_steps(steps, want), "%s, %s: SciPy's linkage",
           set, name);
        ok(!zt_linkage_find(ctx, pool, &points, linkage_of(name), threaded) && !memcmp(steps, threaded, sizeof steps),
           "%s, %s: the same bits on three threads", set, name);
        json_array_foreach(json_object_get(value, "cuts"), i, cut)
        {
            if (strcmp(name, json_string_value(json_object_get(cut, "linkage"))) != 0) continue;
            int64_t clusters = json_integer_value(json_object_get(cut, "clusters"));
            int64_t found =
                zt_linkage_cut(ctx, steps, points.count, json_number_value(json_object_get(cut, "threshold")), clusters, labels);
            ok(found > 0 && (!clusters || found == clusters) && same_groups(labels, json_object_get(cut, "labels")),
               "%s, %s: cut into %lld", set, name, (long long)found);
        }
        free((void *)points.values);
    }
    zt_pool_free(pool);
}

/* ---- silhouettes and k-means ------------------------------------------------------------------- */

static void test_silhouettes(const char *set, const json_t *value)
{
    size_t i, k;
    const json_t *one, *number;
    zt_pool *pool = zt_pool_new(ctx, 2);
    json_array_foreach(json_object_get(value, "silhouettes"), i, one)
    {
        const char *metric = json_string_value(json_object_get(one, "metric"));
        zt_points points = points_of(json_object_get(value, "points"), distance_of(metric));
        int64_t labels[MOST], chosen[] = {7, 0, 3};
        double scores[MOST], threaded[MOST], some[3];
        bool same = true;
        json_array_foreach(json_object_get(one, "labels"), k, number) labels[k] = json_integer_value(number);
        zt_status status = zt_silhouettes(ctx, NULL, &points, labels, 5, NULL, points.count, scores);
        if (!status) status = zt_silhouettes(ctx, pool, &points, labels, 5, NULL, points.count, threaded);
        if (!status) status = zt_silhouettes(ctx, pool, &points, labels, 5, chosen, 3, some);
        json_array_foreach(json_object_get(one, "scores"), k, number) same =
            same && !status && nearly(scores[k], json_number_value(number), 1e-9) && scores[k] == threaded[k];
        ok(same, "%s, %s: scikit-learn's silhouettes", set, metric);
        ok(!status && some[0] == scores[7] && some[1] == 0 && some[2] == scores[3], "%s, %s: of chosen points", set, metric);
        free((void *)points.values);
    }
    zt_pool_free(pool);
}

static void test_kmeans(const char *set, const json_t *value)
{
    size_t i;
    const json_t *one;
    zt_pool *pool = zt_pool_new(ctx, 3);
    zt_points points = points_of(json_object_get(value, "points"), ZT_EUCLIDEAN);
    json_array_foreach(json_object_get(value, "kmeans"), i, one)
    {
        zt_kmeans_opts options = {.clusters = json_integer_value(json_object_get(one, "clusters")), .restarts = 200, .seed = 1};
        double want = json_number_value(json_object_get(one, "inertia"));
        zt_kmeans alone, threaded;
        zt_status status = zt_kmeans_run(ctx, NULL, &points, &options, &alone);
        ok(!status && alone.inertia <= want * (1 + 1e-9) && alone.converged, "%s: %lld clusters of inertia %.9g, at most %.9g",
           set, (long long)options.clusters, alone.inertia, want);
        if (!status) status = zt_kmeans_run(ctx, pool, &points, &options, &threaded);
        ok(!status && alone.inertia == threaded.inertia &&
               !memcmp(alone.label, threaded.label, (size_t)points.count * sizeof *alone.label) &&
               !memcmp(alone.centroids, threaded.centroids, (size_t)(options.clusters * points.width) * sizeof(double)),
           "%s: %lld clusters, the same bits on three threads", set, (long long)options.clusters);
        zt_kmeans_free(ctx, &alone);
        zt_kmeans_free(ctx, &threaded);
    }
    free((void *)points.values);
    zt_pool_free(pool);
}

static void test_made(void)
{
    size_t length, bytes, at = 0;
    const char *name;
    uint8_t *tar = tar_open("tests/train/clustering/clustering.tar.gz", &length);
    int cases = 0;
    for (const uint8_t *text; tar && (text = tar_next(tar, length, &at, &name, &bytes)); cases++) {
        json_t *value = json_loadb((const char *)text, bytes, 0, NULL);
        test_linkage(name, value);
        test_silhouettes(name, value);
        test_kmeans(name, value);
        json_decref(value);
    }
    ok(cases == 4, "tests/train/clustering/clustering.tar.gz");
    free(tar);
}

/* ---- openfluke/loom's ---------------------------------------------------------------------------- */

static double mean_silhouette(const zt_points *points, const int64_t *labels, int64_t clusters)
{
    double scores[MOST], sum = 0;
    if (zt_silhouettes(ctx, NULL, points, labels, clusters, NULL, points->count, scores)) return NAN;
    for (int64_t i = 0; i < points->count; i++) sum += scores[i];
    return sum / (double)points->count;
}

static void test_loom_case(const char *name, const json_t *value)
{
    zt_points points = points_of(json_object_get(value, "points"), ZT_EUCLIDEAN);
    int64_t clusters = json_integer_value(json_object_get(value, "k")), labels[MOST] = {0};
    const char *threshold;
    const json_t *want;
    zt_linkage_step steps[MOST];
    bool found = !zt_linkage_find(ctx, NULL, &points, ZT_SINGLE, steps);
    json_object_foreach((json_t *)json_object_get(value, "hierarchical_groups_by_threshold"), threshold, want)
        ok(found && zt_linkage_cut(ctx, steps, points.count, strtod(threshold, NULL), 0, labels) > 0 && same_groups(labels, want),
           "loom %s: groups at %s", name, threshold);
    for (int start = 0; start < 2; start++) {
        zt_kmeans_opts options = {.clusters = clusters, .random_start = start, .restarts = 40};
        zt_kmeans best;
        bool run = !zt_kmeans_run(ctx, NULL, &points, &options, &best), near = run;
        want = json_object_get(value, "kmeans_best_centroids");
        for (int64_t i = 0; i < clusters * points.width && run; i++)
            near = near && nearly(best.centroids[i],
                                  json_number_value(json_array_get(json_array_get(want, (size_t)(i / points.width)),
                                                                   (size_t)(i % points.width))),
                                  1e-6);
        ok(near && same_groups(best.label, json_object_get(value, "kmeans_best_labels_by_first_appearance")),
           "loom %s: %s start, the best centroids and labels", name, start ? "random" : "k-means++");
        ok(run && nearly(mean_silhouette(&points, best.label, clusters),
                         json_number_value(json_object_get(value, "silhouette_best")), 1e-6),
           "loom %s: the silhouette", name);
        zt_kmeans_free(ctx, &best);
    }
    want = json_object_get(value, "random_labels");
    for (int64_t i = 0; i < points.count; i++) labels[i] = json_integer_value(json_array_get(want, (size_t)i));
    ok(nearly(mean_silhouette(&points, labels, 3), json_number_value(json_object_get(value, "silhouette_of_random_labels")),
              1e-6),
       "loom %s: the silhouette of random labels", name);
    free((void *)points.values);
}

static void test_loom(const char *root)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/clustering", root);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (*entry->d_name == '.') continue;
        snprintf(path, sizeof path, "%s/clustering/%s", root, entry->d_name);
        json_t *value = json_load_file(path, 0, NULL);
        test_loom_case(entry->d_name, value);
        json_decref(value);
    }
    if (directory) closedir(directory);
}

/* ---- edges --------------------------------------------------------------------------------------- */

static void test_edges(void)
{
    static const float same[] = {1, 2, 1, 2, 1, 2, 1, 2}, axes[] = {0, 0, 3, 0, 0, 2, 5, 0, 0, 9};
    zt_points equal = {same, 4, 2, ZT_EUCLIDEAN}, cosine = {axes, 5, 2, ZT_COSINE};
    zt_kmeans result;
    zt_linkage_step steps[MOST];
    int64_t labels[MOST];
    bool good = !zt_kmeans_run(ctx, NULL, &equal, &(zt_kmeans_opts){.clusters = 3}, &result);
    ok(good && result.inertia == 0 && zt_linkage_find(ctx, NULL, &equal, ZT_AVERAGE, steps) == ZT_OK && steps[2].distance == 0,
       "four equal points");
    zt_kmeans_free(ctx, &result);
    good = !zt_kmeans_run(ctx, NULL, &cosine, &(zt_kmeans_opts){.clusters = 3, .restarts = 20}, &result);
    ok(good && result.inertia < 1e-12 && result.label[1] == result.label[3] && result.label[2] == result.label[4] &&
           result.label[0] != result.label[1] && result.label[0] != result.label[2],
       "directions: two axes, and a vector of zeros");
    zt_kmeans_free(ctx, &result);
    zt_points one = {axes, 1, 2, ZT_EUCLIDEAN};
    ok(!zt_linkage_find(ctx, NULL, &one, ZT_WARD, steps) && zt_linkage_cut(ctx, steps, 1, 1, 0, labels) == 1 && !labels[0],
       "one point");
    ok(zt_kmeans_run(ctx, NULL, &one, &(zt_kmeans_opts){.clusters = 2}, &result) == ZT_EUSAGE, "more clusters than points");
    zt_ctx_clear(ctx);
    ok(zt_linkage_find(ctx, NULL, &cosine, ZT_WARD, steps) == ZT_EUSAGE, "ward has Euclidean distances only");
    zt_ctx_clear(ctx);
    labels[0] = 2;
    ok(zt_silhouettes(ctx, NULL, &one, labels, 2, NULL, 1, (double[1]){0}) == ZT_EUSAGE, "a label beyond the clusters");
    zt_ctx_clear(ctx);
}

int main(void)
{
    char root[4096];
    ctx = zt_ctx_new();
    test_made();
    test_edges();
    if (golden_holds("loom", root)) test_loom(root);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
