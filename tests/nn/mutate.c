/* mutate.c - mutations of networks: chains of children of many parents run, with as many inputs and outputs; the same seed
 * gives the same child; rates of 0 change nothing; shares of weights that change, and by how much; an allocation that fails leaks nothing. */
#include "lib/nn/mutate.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static zt_ctx *ctx;

static zt_nn *open_text(const char *text)
{
    zt_source *source = zt_source_memory(ctx, "net", text, strlen(text));
    zt_nn *network = source ? zt_nn_from(ctx, source, 0) : NULL;
    zt_source_close(source);
    return network;
}

static zt_nn *build(const char *builder, int64_t layers, int64_t width, int64_t classes, zt_storage dtype)
{
    zt_nn_arch arch = zt_nn_arch_defaults();
    arch.layers_per_cell = layers;
    arch.d_model = width;
    arch.input_size = width;
    arch.classes = classes;
    arch.dtype = dtype;
    arch.num_heads = 2;
    return zt_nn_new(ctx, builder, &arch);
}

/* Elements of a row of input or output, bound for 2 rows; 0: it does not run. */
static int64_t row_size(const zt_nn *network, bool output)
{
    zt_prog *program = zt_nn_prog(network, NULL);
    zt_bound *bound = program ? zt_prog_bind(program, &(zt_binding){"n", 2}, 1) : NULL;
    int value = bound ? output ? zt_prog_output(program, 0)->value : zt_prog_nth(program, ZT_VALUE_IN, 0) : 0;
    int64_t count = bound ? zt_type_count(&bound->type[value]) / 2 : 0;
    zt_bound_free(bound);
    zt_prog_free(program);
    return count;
}

/* The document of a network; from zt_alloc, *size bytes. */
static char *document_of(const zt_nn *network, size_t *size)
{
    char path[] = "/tmp/zt-mutate-XXXXXX";
    int descriptor = mkstemp(path);
    zt_sink *sink = descriptor >= 0 ? zt_sink_open(ctx, path, true) : NULL;
    char *text =
        sink && zt_nn_write(network, sink) == ZT_OK && zt_sink_commit(sink) == ZT_OK ? zt_read_all(ctx, path, size) : NULL;
    zt_sink_close(sink);
    if (descriptor >= 0) close(descriptor);
    unlink(path);
    return text;
}

static zt_nn_mutation often(uint64_t seed)
{
    zt_nn_mutation how = zt_nn_mutation_defaults();
    how.kind_rate = how.toggle_rate = how.link_add_rate = how.link_drop_rate = how.activation_rate = 0.5;
    how.noise = (zt_nn_noise)(seed % 3);
    how.weight_rate = 0.7;
    how.replace_rate = 0.1;
    how.seed = seed;
    return how;
}

/* A child of a child of ..., each written and read again. */
static bool chain_runs(zt_nn *network, int length, zt_nn_mutated *all)
{
    int64_t inputs = row_size(network, false), outputs = row_size(network, true);
    bool good = inputs > 0 && outputs > 0;
    for (int i = 0; i < length && good; i++) {
        zt_nn_mutation how = often((uint64_t)i + 1);
        zt_nn_mutated counts;
        size_t size = 0;
        good = zt_nn_mutate(network, &how, &counts) == ZT_OK && row_size(network, false) == inputs &&
               row_size(network, true) == outputs;
        all->kinds += counts.kinds;
        all->toggles += counts.toggles;
        all->links_added += counts.links_added;
        all->links_dropped += counts.links_dropped;
        all->perturbed += counts.perturbed;
        all->activations += counts.activations;
        char *text = good ? document_of(network, &size) : NULL;
        zt_nn *again = text ? open_text(text) : NULL;
        good = again && row_size(again, false) == inputs && row_size(again, true) == outputs &&
               zt_nn_n_weights(again) == zt_nn_n_weights(network);
        for (int64_t k = 0; good && k < zt_nn_n_weights(again); k++) {
            const zt_nn_weight *left = zt_nn_weight_at(network, k), *right = zt_nn_weight_at(again, k);
            good = !strcmp(left->name, right->name) &&
                   !memcmp(left->values, right->values, (size_t)zt_type_count(&left->type) * sizeof *left->values);
        }
        zt_nn_close(again);
        zt_free(ctx, text);
        if (!good) diag("child %d: %s", i, zt_ctx_error(ctx));
    }
    return good;
}

#define LAYER(l, rest) "{\"z\":0,\"y\":0,\"x\":0,\"l\":" #l ",\"type\":" rest "}"
static const char containers[] = "{\"depth\":1,\"rows\":1,\"cols\":1,\"layers_per_cell\":3,\"layers\":[" LAYER(
    0,
    "\"Parallel\",\"combine_mode\":\"filter\",\"parallel_branches\":[{\"type\":\"Dense\",\"input_height\":6,"
    "\"output_height\":4},{\"type\":\"Sequential\",\"sequential_layers\":[{\"type\":\"RNN\",\"input_height\":6,"
    "\"output_height\":4},{\"type\":\"Softmax\"}]}],\"filter_gate\":{\"type\":\"Dense\",\"input_height\":6,"
    "\"output_height\":2}") "," LAYER(1,
                                      "\"Softmax\",\"softmax_type\":\"Masked\",\"mask\":[true,false,true]") "," LAYER(2,
                                                                                                                      "\"Dense\",\"input_height\":4,\"output_height\":2,\"is_disabled\":true") "]}";
static const char sequences[] =
    "{\"depth\":1,\"rows\":1,\"cols\":2,\"layers_per_cell\":1,\"layers\":[{\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"LSTM\","
    "\"input_height\":3,\"output_height\":5,\"seq_length\":4},{\"z\":0,\"y\":0,\"x\":1,\"l\":0,\"type\":\"Dense\","
    "\"input_height\":5,\"output_height\":5}]}";

static void test_children_run(void)
{
    static const char *const names[] = {"sequential", "transformer", "cnn", "random", "int8", "containers", "sequences"};
    zt_nn_mutated all = {0};
    for (int i = 0; i < 7; i++) {
        zt_nn *network = i == 0   ? build("sequential", 5, 6, 2, ZT_STORE_F32)
                         : i == 1 ? build("transformer", 4, 8, 8, ZT_STORE_F32)
                         : i == 2 ? build("cnn", 5, 8, 3, ZT_STORE_F32)
                         : i == 3 ? build("random", 8, 12, 12, ZT_STORE_F32)
                         : i == 4 ? build("sequential", 3, 8, 3, ZT_STORE_I8)
                         : i == 5 ? open_text(containers)
                                  : open_text(sequences);
        ok(network && chain_runs(network, i == 2 ? 4 : 12, &all), "%s: its children and theirs run", names[i]);
        zt_nn_close(network);
    }
    ok(all.kinds > 40 && all.toggles > 20 && all.links_added > 10 && all.links_dropped > 5 && all.perturbed > 100 &&
           all.activations > 20,
       "all mutations took place");
}

static void test_same_seed(void)
{
    char *text[4] = {NULL};
    size_t size[4] = {0};
    for (int i = 0; i < 4; i++) {
        zt_nn *network = build("sequential", 4, 6, 2, ZT_STORE_F32);
        zt_nn_mutation how = often(i == 2 ? 8 : 7);
        if (i == 3) how = (zt_nn_mutation){.seed = 7};
        if (network && zt_nn_mutate(network, &how, NULL) == ZT_OK) text[i] = document_of(network, &size[i]);
        zt_nn_close(network);
    }
    zt_nn *parent = build("sequential", 4, 6, 2, ZT_STORE_F32);
    size_t parent_size = 0;
    char *parent_text = document_of(parent, &parent_size);
    zt_nn_close(parent);
    ok(text[0] && text[1] && size[0] == size[1] && !memcmp(text[0], text[1], size[0]), "the same seed, the same child");
    ok(text[0] && text[2] && (size[0] != size[2] || memcmp(text[0], text[2], size[0])), "another seed, another child");
    ok(text[3] && parent_text && size[3] == parent_size && !memcmp(text[3], parent_text, parent_size),
       "rates of 0 change nothing");
    for (int i = 0; i < 4; i++) zt_free(ctx, text[i]);
    zt_free(ctx, parent_text);
}

/* Shares of the 2400 weights of a layer of 60 x 40 (each) that a mutation changes, and of those by more than the scale. */
typedef struct share {
    double changed, far, largest;
} share;

static share measure_changes(zt_nn_noise noise, double weight_rate, double replace_rate)
{
    zt_nn *before = build("sequential", 2, 60, 40, ZT_STORE_F32), *after = build("sequential", 2, 60, 40, ZT_STORE_F32);
    zt_nn_mutation how = {.perturb_rate = 1,
                          .perturb_scale = 1e-3,
                          .noise = noise,
                          .weight_rate = weight_rate,
                          .replace_rate = replace_rate,
                          .seed = 5};
    share found = {0};
    double total = 0;
    if (before && after && zt_nn_mutate(after, &how, NULL) == ZT_OK)
        for (int64_t k = 0; k < zt_nn_n_weights(before); k++) {
            const zt_nn_weight *was = zt_nn_weight_at(before, k), *is = zt_nn_weight_at(after, k);
            for (int64_t i = 0; was->type.rank == 2 && i < zt_type_count(&was->type); i++, total++) {
                double change = fabs((double)is->values[i] - was->values[i]);
                found.changed += change > 0;
                found.far += change > 1.0001e-3;
                if (change > found.largest) found.largest = change;
            }
        }
    zt_nn_close(before);
    zt_nn_close(after);
    return (share){found.changed / total, found.far / total, found.largest};
}

static bool is_near(double got, double want) { return fabs(got - want) < 0.03; }

static void test_shares(void)
{
    share all = measure_changes(ZT_NN_NOISE_UNIFORM, 1, 0), some = measure_changes(ZT_NN_NOISE_UNIFORM, 0.3, 0);
    share drawn = measure_changes(ZT_NN_NOISE_UNIFORM, 0, 0.2), both = measure_changes(ZT_NN_NOISE_UNIFORM, 0.5, 0.2);
    share normal = measure_changes(ZT_NN_NOISE_NORMAL, 1, 0), tails = measure_changes(ZT_NN_NOISE_CAUCHY, 1, 0);
    ok(all.changed > 0.99 && all.far == 0, "uniform noise: %g change, %g by more than the scale", all.changed, all.far);
    ok(is_near(some.changed, 0.3) && some.far == 0, "weight_rate 0.3: %g change", some.changed);
    ok(is_near(drawn.changed, 0.2) && drawn.far > 0.9 * drawn.changed && drawn.largest < 1,
       "replace_rate 0.2: %g change, %g by more than the scale, at most %g", drawn.changed, drawn.far, drawn.largest);
    ok(is_near(both.changed, 0.2 + 0.8 * 0.5) && is_near(both.far, 0.2), "both rates: %g change, %g far", both.changed, both.far);
    ok(is_near(normal.far, 0.3173), "normal noise: %g by more than its deviation", normal.far);
    ok(is_near(tails.far, 0.5) && tails.largest > 0.1, "Cauchy noise: %g by more than the scale, at most %g", tails.far,
       tails.largest);
}

static void test_refused(void)
{
    zt_nn *network = build("sequential", 2, 4, 2, ZT_STORE_F32);
    zt_nn_mutation how = zt_nn_mutation_defaults();
    how.kind_rate = 1.5;
    zt_status status = zt_nn_mutate(network, &how, NULL);
    ok(status == ZT_EUSAGE && strstr(zt_ctx_error(ctx), "1.5"), "a rate of 1.5: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    how.kind_rate = (double)NAN;
    ok(zt_nn_mutate(network, &how, NULL) == ZT_EUSAGE, "a rate of NaN");
    zt_ctx_clear(ctx);
    how = zt_nn_mutation_defaults();
    how.replace_rate = -0.1;
    ok(zt_nn_mutate(network, &how, NULL) == ZT_EUSAGE, "a rate of -0.1");
    zt_ctx_clear(ctx);
    how = zt_nn_mutation_defaults();
    how.perturb_scale = -1;
    ok(zt_nn_mutate(network, &how, NULL) == ZT_EUSAGE, "a negative scale");
    zt_ctx_clear(ctx);
    zt_nn_close(network);
    network = open_text("{\"depth\":1,\"rows\":1,\"cols\":1,\"layers_per_cell\":1,\"layers\":[" LAYER(0, "\"Softmax\"") "]}");
    how = zt_nn_mutation_defaults();
    status = zt_nn_mutate(network, &how, NULL);
    ok(status == ZT_EDATA, "a parent that does not run: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_nn_close(network);
}

/* Each allocation fails once. */
static void test_faults(void)
{
    bool good = true;
    int failed = 0;
    for (uint64_t nth = 1; good; nth++) {
        zt_nn *network = build("sequential", 3, 4, 2, ZT_STORE_F32);
        zt_nn_mutation how = often(3);
        zt_mem_fail(ctx, nth, false);
        zt_status status = zt_nn_mutate(network, &how, NULL);
        zt_mem_fail(ctx, 0, false);
        zt_ctx_clear(ctx);
        zt_nn_close(network);
        good = (status == ZT_OK || status == ZT_ENOMEM) && zt_mem_get(ctx).blocks == 0;
        if (status == ZT_OK) break;
        failed++;
    }
    ok(good && failed > 20, "each of %d allocations fails once: nothing leaks", failed);
}

int main(void)
{
    ctx = zt_ctx_new();
    test_children_run();
    test_same_seed();
    test_shares();
    test_refused();
    test_faults();
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
