/* golden_mutate.c - golden/loom/neat: mutations of networks, by lib/nn.
 *
 * The original draws its numbers from another generator: rates over many mutants are compared, within 4 standard deviations
 * of the difference of two samples. The defaults are compared exactly. What differs by intention:
 *
 *   sizes of new layers    the original's layers need not fit their neighbours; here each one does, so that the number of
 *                          weights of convolutions, transposed convolutions and embeddings is another
 *   heads                  the original has 4 heads also where 4 does not divide the width
 */
#include "lib/nn/mutate.h"
#include "tests/common/golden.h"
#include "tests/common/tap.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { MUTANTS = 400 };

static json_t *load_case(const char *name)
{
    char path[4200];
    if (!golden_holds("loom/neat", path)) return NULL;
    size_t length = strlen(path);
    snprintf(path + length, sizeof path - length, "/%s.json", name);
    return golden_has(path) ? json_load_file(path, 0, NULL) : NULL;
}

static double number(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

/* Is a share of `count` of `total` what a sample of `expected` of `expected_total` allows? */
static bool near_rate(double count, double total, double expected, double expected_total)
{
    double rate = (count + expected) / (total + expected_total);
    double deviation = sqrt(rate * (1 - rate) * (1 / total + 1 / expected_total));
    return fabs(count / total - expected / expected_total) <= 4 * deviation + 1e-12;
}

/* ---- defaults -------------------------------------------------------------------------------- */

static uint32_t kinds_of(const json_t *list)
{
    uint32_t kinds = 0;
    size_t i;
    json_t *kind;
    json_array_foreach(list, i, kind) kinds |= UINT32_C(1) << json_integer_value(kind);
    return kinds;
}

static zt_nn_mutation mutation_of(const json_t *config)
{
    return (zt_nn_mutation){.perturb_rate = number(config, "WeightPerturbRate"),
                            .perturb_scale = number(config, "WeightPerturbScale"),
                            .weight_rate = 1,
                            .activation_rate = number(config, "ActivationMutRate"),
                            .kind_rate = number(config, "NodeMutateRate"),
                            .toggle_rate = number(config, "LayerToggleRate"),
                            .link_add_rate = number(config, "ConnectionAddRate"),
                            .link_drop_rate = number(config, "ConnectionDropRate"),
                            .kinds = kinds_of(json_object_get(config, "AllowedLayerTypes"))};
}

static void check_defaults(void)
{
    json_t *cases = load_case("default_configs"), *entry;
    size_t i;
    json_array_foreach(cases, i, entry)
    {
        const json_t *config = json_object_get(entry, "config");
        zt_nn_mutation want = mutation_of(config), got = zt_nn_mutation_defaults();
        double width = number(entry, "d_model");
        zt_nn_new_sizes sizes = zt_nn_new_sizes_of((int64_t)width);
        ok(got.perturb_rate == want.perturb_rate && fabs(got.perturb_scale - want.perturb_scale) < 1e-7 &&
               got.activation_rate == want.activation_rate && got.kind_rate == want.kind_rate &&
               got.toggle_rate == want.toggle_rate && got.link_add_rate == want.link_add_rate &&
               got.link_drop_rate == want.link_drop_rate && got.kinds == want.kinds,
           "default rates and kinds at a width of %g", width);
        ok((double)sizes.heads == number(config, "DefaultNumHeads") &&
               (double)sizes.filters == number(config, "DefaultFilters") &&
               (double)sizes.kernel_size == number(config, "DefaultKernelSize") &&
               (double)sizes.vocab_size == number(config, "DefaultVocabSize"),
           "sizes of new layers at a width of %g", width);
    }
    json_decref(cases);
}

/* ---- rates ----------------------------------------------------------------------------------- */

typedef struct tally {
    double layers, activation_changed, type_changed, toggled, same_type, perturbed, linked;
    double activations[ZT_NN_ACTS + 1], types[ZT_NN_KINDS];
    double noise_count, noise_sum, noise_squares, noise_max;
} tally;

static void add_noise(const zt_nn *parent, const zt_nn *child, int64_t index, tally *sums)
{
    const zt_nn_weight *before = zt_nn_weight_at(parent, zt_nn_layer_at(parent, index)->first_weight);
    const zt_nn_weight *after = zt_nn_weight_at(child, zt_nn_layer_at(child, index)->first_weight);
    int64_t count = zt_type_count(&before->type);
    bool changed = memcmp(before->values, after->values, (size_t)count * sizeof *before->values) != 0;
    sums->perturbed += changed;
    for (int64_t i = 0; changed && i < count; i++) {
        double noise = (double)after->values[i] - (double)before->values[i];
        sums->noise_count++;
        sums->noise_sum += noise;
        sums->noise_squares += noise * noise;
        sums->noise_max = fmax(sums->noise_max, fabs(noise));
    }
}

static void add_mutant(const zt_nn *parent, const zt_nn *child, tally *sums)
{
    double links = 0;
    for (int64_t i = 0; i < zt_nn_count(parent); i++) {
        const zt_nn_layer *before = zt_nn_layer_at(parent, i), *after = zt_nn_layer_at(child, i);
        sums->layers++;
        sums->activation_changed += before->activation != after->activation;
        sums->activations[after->activation + 1]++;
        sums->toggled += before->disabled != after->disabled;
        links += after->is_link;
        if (before->kind == after->kind) {
            sums->same_type++;
            add_noise(parent, child, i, sums);
        } else {
            sums->type_changed++;
            sums->types[after->kind]++;
        }
    }
    sums->linked += links > 0;
}

static bool make_mutants(const json_t *root, int count, tally *sums)
{
    zt_ctx *ctx = zt_ctx_new();
    char *text = json_dumps(json_object_get(root, "base"), JSON_COMPACT);
    zt_source *source = zt_source_memory(ctx, "base", text, strlen(text));
    zt_nn_mutation how = mutation_of(json_object_get(root, "config"));
    zt_nn *parent = zt_nn_from(ctx, source, 0);
    bool good = parent != NULL;
    for (int i = 0; i < count && good; i++) {
        how.seed = (uint64_t)i + 1;
        zt_nn *child = zt_nn_from(ctx, source, 0);
        good = child && zt_nn_mutate(child, &how, NULL) == ZT_OK;
        if (good) add_mutant(parent, child, sums);
        zt_nn_close(child);
    }
    if (!good) diag("%s", zt_ctx_error(ctx));
    zt_nn_close(parent);
    zt_source_close(source);
    free(text);
    good = good && zt_mem_get(ctx).blocks == 0;
    zt_ctx_free(ctx);
    return good;
}

static void check_names(const json_t *root, const tally *sums, const char *name)
{
    const json_t *counts = json_object_get(root, "counts"), *types = json_object_get(root, "new_types");
    const json_t *activations = json_object_get(root, "activations_after");
    for (int act = ZT_NN_LINEAR; act < ZT_NN_ACTS; act++)
        ok(near_rate(sums->activations[act + 1], sums->layers, number(activations, zt_nn_act_name((zt_nn_act)act)),
                     number(counts, "layers_total")),
           "%s: as many layers with %s", name, zt_nn_act_name((zt_nn_act)act));
    for (int kind = 0; kind < ZT_NN_KINDS && sums->type_changed > 0; kind++)
        ok(near_rate(sums->types[kind], sums->type_changed, number(types, zt_nn_kind_name((zt_nn_kind)kind)),
                     number(counts, "type_changed")),
           "%s: as many become %s", name, zt_nn_kind_name((zt_nn_kind)kind));
}

static void check_rates(const char *name)
{
    json_t *root = load_case(name);
    if (!root) return;
    const json_t *counts = json_object_get(root, "counts"), *noise = json_object_get(root, "weight_noise");
    const json_t *config = json_object_get(root, "config");
    tally sums = {0};
    double total = number(counts, "layers_total");
    double linked = number(json_object_get(root, "link_count_change_histogram"), "1");
    ok(make_mutants(root, MUTANTS, &sums), "%s: %d mutants", name, MUTANTS);
    ok(near_rate(sums.activation_changed, sums.layers, number(counts, "activation_changed"), total), "%s: activations", name);
    ok(near_rate(sums.type_changed, sums.layers, number(counts, "type_changed"), total), "%s: types", name);
    ok(near_rate(sums.toggled, sums.layers, number(counts, "toggled"), total), "%s: toggles", name);
    ok(near_rate(sums.linked, MUTANTS, linked, number(root, "N")), "%s: links", name);
    if (sums.same_type > 0)
        ok(near_rate(sums.perturbed, sums.same_type, number(counts, "perturbed_of_same_type"),
                     number(counts, "same_type_layers")),
           "%s: perturbed layers", name);
    if (sums.noise_count > 0) {
        double scale = number(config, "WeightPerturbScale"), variance = sums.noise_squares / sums.noise_count;
        ok(sums.noise_max <= scale * (1 + 1e-5) && sums.noise_max > 0.999 * scale &&
               fabs(variance / number(noise, "var") - 1) < 0.02 &&
               fabs(sums.noise_sum / sums.noise_count) < 4 * scale / sqrt(3 * sums.noise_count),
           "%s: the noise is uniform in [-%g, %g)", name, scale, scale);
    }
    check_names(root, &sums, name);
    json_decref(root);
}

int main(void)
{
    check_defaults();
    check_rates("mutate_default_d8");
    check_rates("mutate_all_nodes");
    check_rates("mutate_same_type_only_is_noop");
    if (tap_count == 0) skip("no golden cases of mutations here");
    return tap_done();
}
