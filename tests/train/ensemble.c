/* ensemble.c - several models on the same samples: golden/loom's pairs, similarities and votes. */
#include "lib/zt/train.h"
#include "tests/common/golden_network.h"

enum { MAX_MODELS = 8, MAX_SAMPLES = 64 };

static const char *text_of(const json_t *object, const char *key) { return json_string_value(json_object_get(object, key)); }

/* Number of a model "m3". */
static int model_of(const json_t *object, const char *key) { return atoi(text_of(object, key) + 1); }

typedef struct ensemble_case {
    bool masks[MAX_MODELS][MAX_SAMPLES];
    const bool *rows[MAX_MODELS];
    int models;
    int64_t samples;
} ensemble_case;

static ensemble_case *read_masks(const json_t *root)
{
    ensemble_case *c = calloc(1, sizeof *c);
    const json_t *list = json_object_get(root, "models");
    c->models = (int)json_array_size(list);
    for (int m = 0; m < c->models; m++) {
        const json_t *mask = json_object_get(json_array_get(list, (size_t)m), "mask");
        c->rows[m] = c->masks[m];
        c->samples = (int64_t)json_array_size(mask);
        for (size_t i = 0; i < (size_t)c->samples; i++) c->masks[m][i] = json_is_true(json_array_get(mask, i));
    }
    return c;
}

/* The order of pairs with the same coverage and overlap is free in the original. */
static bool pairs_are(const ensemble_case *c, const json_t *root)
{
    zt_ensemble_pair pairs[MAX_MODELS * MAX_MODELS];
    const json_t *matches = json_object_get(root, "matches"), *match;
    int count =
        zt_ensemble_pairs(c->rows, c->models, c->samples, json_number_value(json_object_get(root, "min_coverage")), pairs);
    bool well = count == (int)json_array_size(matches);
    size_t i;
    json_array_foreach(matches, i, match)
    {
        double coverage = json_number_value(json_object_get(match, "coverage"));
        double overlap = json_number_value(json_object_get(match, "overlap"));
        bool found = false;
        well = well && fabs(pairs[i].coverage - coverage) < 1e-12 && fabs(pairs[i].overlap - overlap) < 1e-12;
        for (int k = 0; k < count; k++)
            found = found || (pairs[k].a == model_of(match, "a") && pairs[k].b == model_of(match, "b") &&
                              fabs(pairs[k].coverage - coverage) < 1e-12);
        well = well && found;
    }
    return well;
}

static bool similarities_are(const ensemble_case *c, const json_t *root)
{
    const json_t *item;
    size_t i;
    bool well = true;
    json_array_foreach(json_object_get(root, "similarities"), i, item)
    {
        zt_ensemble_pair pair = zt_ensemble_compare(c->rows[model_of(item, "a")], c->rows[model_of(item, "b")], c->samples);
        well = well && fabs(pair.similarity - json_number_value(json_object_get(item, "cosine"))) < 1e-12;
    }
    return well && i > 0;
}

/* Of several winners the original takes any; here it is the one that comes first in the order of the models. */
static bool votes_are(const json_t *root)
{
    const json_t *votes = json_object_get(root, "votes"), *winners, *winner;
    size_t sample, k;
    bool well = true;
    json_array_foreach(json_object_get(root, "majority_winners_allowed"), sample, winners)
    {
        double each[MAX_MODELS], first = NAN;
        int count = (int)json_array_size(votes), supporters, most = 0;
        for (int m = 0; m < count; m++) each[m] = json_number_value(json_array_get(json_array_get(votes, (size_t)m), sample));
        for (int m = count - 1; m >= 0; m--)
            json_array_foreach(winners, k, winner) if (json_number_value(winner) == each[m]) first = each[m];
        for (int m = 0; m < count; m++) most += each[m] == first;
        well = well && zt_majority_vote(each, count, &supporters) == first && supporters == most;
    }
    return well && sample > 0;
}

static void ensemble_set(const json_t *root, const char *name)
{
    ensemble_case *c = read_masks(root);
    ok(pairs_are(c, root), "%s: pairs", name);
    ok(similarities_are(c, root), "%s: similarities", name);
    ok(votes_are(root), "%s: votes", name);
    free(c);
}

int main(void)
{
    const bool none[3] = {false}, all[3] = {true, true, true}, one[3] = {true, false, false};
    zt_ensemble_pair pair = zt_ensemble_compare(none, all, 3);
    ok(pair.similarity == 0 && pair.coverage == 1 && pair.overlap == 0, "a model that is never right is like no other");
    pair = zt_ensemble_compare(one, all, 3);
    ok(fabs(pair.similarity - 1 / sqrt(3)) < 1e-15 && pair.coverage == 1 && fabs(pair.overlap - 1.0 / 3) < 1e-15, "one of three");
    pair = zt_ensemble_compare(one, all, 0);
    ok(pair.coverage == 0 && pair.similarity == 0, "no samples");
    int supporters = 9;
    ok(isnan(zt_majority_vote(NULL, 3, &supporters)) && supporters == 0, "no votes");
    ok(zt_majority_vote((const double[]){NAN, 2, 1, NAN, 1}, 5, NULL) == 1, "votes that are no numbers do not count");
    ok(zt_majority_vote((const double[]){3, 2, 2, 3}, 4, &supporters) == 3 && supporters == 2, "the first of two winners");
    walk_set(&(walked){"loom/ensemble", ensemble_set});
    return tap_done();
}
