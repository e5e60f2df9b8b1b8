/* deviation.c - deviation metrics: the predictions and metrics that openfluke/loom recorded (golden set
 * loom, eval; outside the repository), and edges of the buckets. */
#include "lib/train/score.h"
#include "tests/common/golden.h"
#include "tests/common/tap.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

static double number(const json_t *v)
{
    const char *s = json_string_value(v);
    if (!s) return json_number_value(v);
    return !strcmp(s, "nan") ? NAN : !strcmp(s, "-inf") ? -INFINITY : INFINITY;
}

static bool nearly_equal(double a, double b) { return fabs(a - b) <= 1e-9 * (fabs(b) + 1); }

static void predictions(const json_t *all)
{
    size_t i;
    const json_t *p;
    json_array_foreach(all, i, p)
    {
        zt_deviation d = zt_deviation_of(number(json_object_get(p, "expected")), number(json_object_get(p, "actual")));
        const char *bucket = json_string_value(json_object_get(p, "bucket"));
        ok(nearly_equal(d.deviation, number(json_object_get(p, "deviation"))) &&
               !strcmp(zt_deviation_bucket_at(d.bucket)->name, bucket),
           "%g for %g: %g per cent, %s", d.actual, d.expected, d.deviation, bucket);
    }
}

static void metrics(const json_t *m, const char *name)
{
    size_t i;
    const json_t *e;
    zt_deviations all = {0};
    json_array_foreach(json_object_get(m, "expected"), i, e)
    {
        zt_deviation d = zt_deviation_of(number(e), number(json_array_get(json_object_get(m, "actual"), i)));
        zt_deviations_add(&all, &d);
    }
    bool same = all.total == json_integer_value(json_object_get(m, "total")) &&
                all.correct == json_integer_value(json_object_get(m, "correct")) &&
                all.buckets[6] == json_integer_value(json_object_get(m, "failures"));
    for (int k = 0; zt_deviation_bucket_at(k); k++)
        same = same &&
               all.buckets[k] == json_integer_value(json_object_get(
                                     json_object_get(json_object_get(m, "buckets"), zt_deviation_bucket_at(k)->name), "count"));
    ok(same, "%s: counts", name);
    ok(nearly_equal(zt_deviations_accuracy(&all), number(json_object_get(m, "accuracy"))) &&
           nearly_equal(zt_deviations_score(&all), number(json_object_get(m, "score"))) &&
           nearly_equal(zt_deviations_mean(&all), number(json_object_get(m, "avg_deviation"))),
       "%s: accuracy, score, mean", name);
}

static void play_set(const char *root)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/eval", root);
    DIR *directory = opendir(path);
    json_error_t why;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (*entry->d_name == '.') continue;
        snprintf(path, sizeof path, "%s/eval/%s", root, entry->d_name);
        json_t *value = json_load_file(path, 0, &why);
        if (json_is_array(value))
            predictions(value);
        else
            metrics(value, entry->d_name);
        json_decref(value);
    }
    if (directory) closedir(directory);
}

int main(void)
{
    char root[4096];
    zt_deviations none = {0};
    const float row[] = {1, 3, NAN, 3, -1};
    ok(zt_deviation_of(100, 110).bucket == 0 && zt_deviation_of(100, 110.001).bucket == 1,
       "10 per cent is in the first bucket, more is not");
    ok(zt_deviation_of(-2, 2).deviation == 200 && zt_deviation_of(-2, 2).bucket == 6, "-2 for 2");
    ok(zt_deviation_of(0, 0.5).deviation == 50, "of 0 there is no share");
    ok(zt_deviation_of(NAN, 1).deviation == 100 && zt_deviation_of(NAN, 1).bucket == 5, "no number");
    ok(zt_prediction(row, 1) == 1 && zt_prediction(row, 2) == 1 && zt_prediction(row, 5) == 1,
       "the only number, or the first largest");
    ok(zt_deviations_score(&none) == 0 && zt_deviations_accuracy(&none) == 0, "of none");
    if (golden_holds("loom", root)) play_set(root);
    return tap_done();
}
