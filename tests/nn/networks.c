/* networks.c - networks: what S3's documents lose and ours keep, links, disabled cells, builders, rows
 * that do not know each other, saving and opening again; and documents that are refused. */
#include "lib/zt/all.h"
#include "tests/common/folder.h"
#include "tests/common/made_network.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool same_output(zt_nn *a, zt_nn *b, int64_t rows)
{
    size_t count = 0, m = 0;
    float *x = run(a, "cpu", NULL, rows, 0, &count), *y = run(b, "cpu", NULL, rows, 0, &m);
    bool same = x && y && count == m && count > 0 && !memcmp(x, y, count * sizeof *x);
    free(x);
    free(y);
    return same;
}

/* The weights of b become those of a, by the order of their list. */
static void copy_weights(const zt_nn *a, int64_t from, zt_nn *b, int64_t to)
{
    const zt_nn_weight *w = zt_nn_weight_at(a, from);
    zt_nn_put(b, zt_nn_weight_at(b, to)->name, w->values, zt_type_count(&w->type));
}

/* ---- the grid -------------------------------------------------------------------------------- */

static void test_grid(zt_ctx *ctx)
{
    zt_nn *plain = open_text(ctx, GRID(2) DENSE(0, 4, 4) "," DENSE(1, 4, 3) END);
    zt_nn *off = open_text(ctx, GRID(3) DENSE(0, 4, 4) ",{\"type\":\"Dense\",\"l\":1,\"input_height\":9,"
                                                       "\"output_height\":9,\"is_disabled\":true}," DENSE(2, 4, 3) END);
    zt_nn *gap = open_text(ctx, GRID(9) DENSE(8, 4, 3) "," DENSE(2, 4, 4) END);
    ok(plain && off && gap, "networks open%s", zt_ctx_error(ctx));
    if (plain && off && gap) {
        copy_weights(plain, 0, off, 0);
        copy_weights(plain, 1, off, 2);
        copy_weights(plain, 0, gap, 1);
        copy_weights(plain, 1, gap, 0);
        ok(same_output(plain, off, 5), "a disabled cell passes its input on");
        ok(same_output(plain, gap, 5), "so do empty places, and layers run in the grid's order");
        ok(zt_nn_find(gap, (int64_t[]){0, 0, 0, 2}) == zt_nn_layer_at(gap, 0) && !zt_nn_find(gap, (int64_t[]){0, 0, 0, 3}),
           "places find their layers");
    }
    zt_nn_close(plain);
    zt_nn_close(off);
    zt_nn_close(gap);
}

/* ---- links ----------------------------------------------------------------------------------- */

// clang-format off
#define LINKED(branch)                                                                             \
    GRID(2)                                                                                        \
    DENSE(0, 3, 3)                                                                                 \
    ",{\"type\":\"Parallel\",\"l\":1,\"combine_mode\":\"add\","                                    \
    "\"parallel_branches\":[" DENSE(0, 3, 3) "," branch "]}" END
// clang-format on

/* Gradients of the sum of y by weights, of all of them one behind the other; malloc'ed. */
static float *gradients(zt_nn *nn, const char *skip, size_t *count)
{
    zt_ctx *ctx = zt_nn_ctx(nn);
    int wrt[16], k = 0;
    zt_prog *graph = zt_prog_new(ctx);
    int x = zt_prog_in(graph, "x", ZT_F32, 2, (int64_t[]){2, 3});
    zt_prog_out(graph, "y", zt_nn_emit(nn, graph, x, NULL));
    for (int64_t i = 0; i < zt_nn_n_weights(nn); i++)
        if (!skip || strcmp(skip, zt_nn_weight_at(nn, i)->name)) wrt[k++] = zt_prog_find(graph, zt_nn_weight_at(nn, i)->name);
    zt_prog *program = zt_prog_grad(ctx, graph, wrt, k, &(zt_grad_opts){0});
    zt_engine *engine = zt_engine_open(ctx, "ref", NULL);
    zt_store store = zt_nn_store(nn);
    zt_session *session = program ? zt_session_open(engine, program, &store, &(zt_session_opts){0}) : NULL;
    float in[6] = {.1f, -.4f, .9f, 1.1f, .3f, -.7f}, y[6], *all = calloc(9 * 16, sizeof *all);
    void *out[17] = {y};
    for (int i = 0; i < k; i++) out[1 + i] = all + 9 * i;
    *count = 9 * (size_t)k;
    if (!session || zt_session_step(session, NULL, 0, (const void *const[]){in}, out)) *count = 0;
    zt_session_close(session);
    zt_engine_close(engine);
    zt_prog_free(program);
    zt_prog_free(graph);
    return all;
}

static void test_links(zt_ctx *ctx)
{
    size_t count, m;
    zt_nn *link = open_text(ctx, LINKED("{\"type\":\"Dense\",\"is_remote_link\":true,\"target_l\":0}"));
    zt_nn *copy = open_text(ctx, LINKED(DENSE(0, 3, 3)));
    ok(link && copy && zt_nn_n_weights(link) == 2 && zt_nn_n_weights(copy) == 3, "a link has no weights of its own%s",
       zt_ctx_error(ctx));
    if (link && copy) {
        copy_weights(link, 0, copy, 0);
        copy_weights(link, 1, copy, 1);
        copy_weights(link, 0, copy, 2);
        ok(same_output(link, copy, 4), "a link runs its target's layer, with its weights");
        float *a = gradients(link, NULL, &count), *b = gradients(copy, NULL, &m);
        bool sum = count == 18 && m == 27;
        for (int i = 0; i < 9 && sum; i++) sum = fabsf(a[i] - b[i] - b[18 + i]) < 1e-5f && fabsf(a[9 + i] - b[9 + i]) < 1e-5f;
        ok(sum, "gradients of both uses are summed");
        free(a);
        free(b);
    }
    zt_nn_close(link);
    zt_nn_close(copy);
}

/* ---- softmax --------------------------------------------------------------------------------- */

static void test_gumbel(zt_ctx *ctx)
{
    size_t count = 0, m = 0;
    zt_nn *nn = open_text(ctx, GRID(1) "{\"type\":\"Softmax\",\"softmax_type\":\"Gumbel\",\"input_height\":8,"
                                       "\"gumbel_noise\":true}" END);
    float *a = nn ? run(nn, "cpu", NULL, 3, 0, &count) : NULL, *b = nn ? run(nn, "ref", NULL, 3, 0, &m) : NULL;
    double sum = 0, most = 0;
    bool positive = true;
    for (size_t i = 0; a && b && i < count; i++) {
        sum += a[i];
        positive = positive && a[i] >= 0;
        most = fmax(most, fabs((double)a[i] - b[i]));
    }
    ok(count == 24 && m == 24 && fabs(sum - 3) < 1e-5 && positive, "noisy rows sum to 1");
    ok(count && most < 1e-5, "and are the same by the same counter on ref");
    free(a);
    free(b);
    zt_nn_close(nn);
}

/* ---- rows alone ------------------------------------------------------------------------------ */

// clang-format off
#define GATED                                                                                      \
    GRID(3)                                                                                        \
    "{\"type\":\"CNN1\",\"l\":0,\"input_height\":6,\"input_channels\":1,\"filters\":2,"            \
    "\"kernel_size\":3,\"padding\":1,\"activation\":\"GELU\"},"                                    \
    "{\"type\":\"Parallel\",\"l\":1,\"combine_mode\":\"filter\",\"filter_gate\":" DENSE(           \
        0, 12,                                                                                     \
        2) ",\"parallel_branches\":[" DENSE(0, 12,                                                 \
                                            5) "," DENSE(0, 12,                                    \
                                                         5) "]},"                                  \
                                                            "{\"type\":\"Softmax\",\"l\":2,"       \
                                                            "\"softmax_type\":\"Masked\","         \
                                                            "\"mask\":[true,false]}" END
// clang-format on

static void test_rows(zt_ctx *ctx)
{
    size_t count = 0, one = 0;
    zt_nn *nn = open_text(ctx, GATED);
    float *all = nn ? run(nn, "cpu", NULL, 4, 0, &count) : NULL;
    bool same = count == 20;
    for (int64_t r = 0; r < 4 && same; r++) {
        float *y = run(nn, "cpu", NULL, 1, r, &one);
        same = y && one == 5 && !memcmp(y, all + 5 * r, 5 * sizeof *y) && y[1] == 0;
        free(y);
    }
    ok(same, "a row's bits do not depend on the rows beside it%s", zt_ctx_error(ctx));
    free(all);
    zt_nn_close(nn);
}

/* ---- saving ---------------------------------------------------------------------------------- */

static zt_nn *again(zt_ctx *ctx, const zt_nn *nn, const char *file)
{
    zt_sink *out = zt_sink_open(ctx, under(file), true);
    zt_status s = out ? zt_nn_write(nn, out) : ZT_EIO;
    if (!s) s = zt_sink_commit(out);
    zt_sink_close(out);
    return s ? NULL : zt_nn_open(ctx, under(file), 99);
}

static bool same_bytes(const char *a, const char *b, zt_ctx *ctx)
{
    size_t count = 0, m = 0;
    char *x = zt_read_all(ctx, under(a), &count), *y = zt_read_all(ctx, under(b), &m);
    bool same = x && y && count == m && !memcmp(x, y, count);
    zt_free(ctx, x);
    zt_free(ctx, y);
    return same;
}

static void test_saved(zt_ctx *ctx, const char *what, zt_nn *nn, int64_t rows)
{
    zt_nn *second = nn ? again(ctx, nn, "a.json") : NULL;
    zt_nn *third = second ? again(ctx, second, "b.json") : NULL;
    ok(third && same_output(nn, second, rows) && same_bytes("a.json", "b.json", ctx),
       "%s: saved and opened it gives the same, and saves the same bytes%s", what, zt_ctx_error(ctx));
    zt_nn_close(second);
    zt_nn_close(third);
    zt_nn_close(nn);
}

static void test_kept(zt_ctx *ctx)
{
    zt_nn *nn =
        open_text(ctx, GRID(4) DENSE(0, 6, 6) ",{\"type\":\"Parallel\",\"l\":1,\"combine_mode\":\"avg\","
                                              "\"parallel_branches\":[{\"is_remote_link\":true,\"type\":\"Dense\"}]},"
                                              "{\"type\":\"Softmax\",\"l\":2,\"softmax_type\":\"Hierarchical\","
                                              "\"hierarchy_levels\":[2,3],\"temperature\":0.5},"
                                              "{\"type\":\"MHA\",\"l\":3,\"is_disabled\":true,\"d_model\":4,\"num_heads\":2,"
                                              "\"max_seq_len\":77}" END);
    zt_nn *b = nn ? again(ctx, nn, "k.json") : NULL;
    const zt_nn_layer *l = b ? zt_nn_layer_at(b, 0) : NULL;
    (void)l;
    ok(b && zt_nn_layer_at(b, 1)->branches[0].is_link && zt_nn_layer_at(b, 2)->level_count == 2 &&
           zt_nn_layer_at(b, 2)->levels[1] == 3 && zt_nn_layer_at(b, 2)->temperature == .5 && zt_nn_layer_at(b, 3)->disabled &&
           zt_nn_layer_at(b, 3)->max_seq_len == 77,
       "what S3's document loses is kept%s", zt_ctx_error(ctx));
    zt_nn_close(b);
    test_saved(ctx, "links and levels", nn, 2);
    test_saved(ctx, "a gate and a mask", open_text(ctx, GATED), 3);
}

/* Masters that are values of a dtype go out as its codes and come back bit for bit. */
static void test_dtypes(zt_ctx *ctx)
{
    for (int t = 0; t < ZT_STORE_COUNT; t++)
        for (int rule = 0; rule < 2; rule++) {
            zt_nn *nn = open_text(ctx, GRID(1) DENSE(0, 7, 5) END);
            if (!nn) return;
            zt_nn_set_dtype(nn, (zt_storage)t);
            zt_nn_layer *l = zt_nn_layer_at(nn, 0);
            zt_net_weights are = {(zt_storage)t, true, rule ? ZT_RULE_LOOM : ZT_RULE_FIELD, l->scale};
            char codes[512];
            float y[35];
            bool well = zt_net_encode(ctx, &are, zt_nn_weight_at(nn, 0)->values, 35, codes, y) == ZT_OK;
            well = well && zt_nn_put(nn, zt_nn_weight_at(nn, 0)->name, y, 35) == ZT_OK;
            l->exact = true;
            l->scale = are.scale;
            l->rule = are.rule;
            zt_nn *b = well ? again(ctx, nn, "d.json") : NULL;
            ok(b && !memcmp(zt_nn_weight_at(b, 0)->values, y, sizeof y) && same_output(nn, b, 2), "codes of %s by %s come back%s",
               zt_storage_get((zt_storage)t)->name, rule ? "Loom's rule" : "the field's", zt_ctx_error(ctx));
            zt_nn_close(b);
            zt_nn_close(nn);
        }
}

/* ---- builders -------------------------------------------------------------------------------- */

static void test_builders(zt_ctx *ctx)
{
    for (int i = 0; zt_nn_builder(i); i++) {
        zt_nn_arch a = zt_nn_arch_defaults();
        bool cnn = !strcmp(zt_nn_builder(i), "cnn");
        zt_nn_arch_set(ctx, &a, "dModel", "8");
        zt_nn_arch_set(ctx, &a, "gridRows", "2");
        zt_nn_arch_set(ctx, &a, "initScale", "0.5");
        zt_nn_arch_set(ctx, &a, "activation", "gelu");
        if (cnn) zt_nn_arch_set(ctx, &a, "numClasses", "3");
        size_t count = 0;
        zt_nn *nn = zt_nn_new(ctx, zt_nn_builder(i), &a);
        float *y = nn ? run(nn, "cpu", NULL, 2, 0, &count) : NULL;
        bool finite = count == (cnn ? 6 : 16);
        for (size_t k = 0; k < count && finite; k++) finite = isfinite(y[k]);
        ok(y && finite, "a new %s network runs%s", zt_nn_builder(i), zt_ctx_error(ctx));
        free(y);
        test_saved(ctx, zt_nn_builder(i), nn, 2);
    }
    zt_nn_arch a = zt_nn_arch_defaults();
    a.d_model = 6;
    for (uint64_t seed = 0; seed < 20; seed++) {
        a.seed = seed;
        a.num_heads = 2;
        size_t count = 0;
        zt_nn *nn = zt_nn_new(ctx, "random", &a);
        float *y = nn ? run(nn, "ref", NULL, 3, 0, &count) : NULL;
        if (!y || count != 18) ok(false, "seed %d: %s", (int)seed, zt_ctx_error(ctx));
        free(y);
        zt_nn_close(nn);
    }
}

/* ---- refused --------------------------------------------------------------------------------- */

static void test_refused(void)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {GRID(1) "{\"type\":\"Dance\",\"l\":0}" END, "net.json: layers.0: unknown layer type 'Dance'"},
        {GRID(1) "{\"l\":0}" END, "unknown layer type ''"},
        {GRID(1) "{\"type\":\"Dense\",\"input_height\":3}" END, "output_height is 0"},
        {GRID(1) "{\"type\":\"Dense\",\"input_height\":-3}" END, "\"input_height\" is -3"},
        {GRID(1) "{\"type\":\"Dense\",\"input_height\":1.5}" END, "must be an integer"},
        {GRID(1) "{\"type\":\"Dense\",\"input_height\":99999999}" END, "16777216"},
        {GRID(1) "{\"type\":\"Dense\",\"input_height\":9999999,\"output_height\":9999999}" END, "more than 2^31"},
        {GRID(1) DENSE(3, 2, 2) END, "grid position 3 is out of range"},
        {GRID(2) DENSE(1, 2, 2) "," DENSE(1, 2, 2) END, "the grid position is already taken by layers."},
        {GRID(2) DENSE(0, 2, 3) "," DENSE(1, 4, 2) END, "layers.1 (Dense): the layer takes 4 numbers, got 3"},
        {GRID(1) "{\"type\":\"Dense\",\"input_height\":2,\"output_height\":2,\"weights\":\"AAAAAA=="
                 "\"}" END,
         "4 weights of type float32 need 16 bytes, but the document has 4"},
        {GRID(1) "{\"type\":\"Dense\",\"input_height\":1,\"output_height\":1,\"weights\":\"AADAfw=="
                 "\"}" END,
         "weight 0 is nan"},
        {GRID(1) "{\"type\":\"Residual\",\"weights\":\"AAAAAA==\"}" END, "the layer takes no weights"},
        {GRID(1) "{\"type\":\"Dense\",\"input_height\":2,\"output_height\":2,\"activation\":"
                 "\"x\"}" END,
         "unknown activation 'x'"},
        {GRID(1) "{\"type\":\"Parallel\",\"parallel_branches\":[{\"type\":\"Dense\","
                 "\"is_remote_link\":true}]}" END,
         "forms a cycle"},
        {GRID(2) "{\"type\":\"Parallel\",\"parallel_branches\":[{\"type\":\"Dense\","
                 "\"is_remote_link\":true,\"target_l\":1}]},{\"type\":\"Sequential\",\"l\":1,"
                 "\"sequential_layers\":[{\"type\":\"Dense\",\"is_remote_link\":true}]}" END,
         "forms a cycle"},
        {GRID(2) "{\"type\":\"Parallel\",\"parallel_branches\":[{\"type\":\"Dense\","
                 "\"is_remote_link\":true,\"target_l\":1}]}" END,
         "0,0,0,1 is empty"},
        {GRID(1) "{\"type\":\"Parallel\",\"combine_mode\":\"filter\",\"parallel_branches\":[" DENSE(0, 2, 2) "]}" END,
         "needs a filter_gate"},
        {GRID(1) "{\"type\":\"MHA\",\"d_model\":6,\"num_heads\":4}" END, "d_model 6 is not"},
        {GRID(1) "{\"type\":\"CNN1\",\"filters\":1,\"input_channels\":1,\"input_height\":3,"
                 "\"kernel_size\":5}" END,
         "exceeds the padded input"},
        {GRID(1) "{\"type\":\"CNN1\",\"filters\":1,\"input_channels\":1,\"input_height\":3,"
                 "\"kernel_size\":2,\"output_height\":3}" END,
         "the document says 3"},
        {"{\"depth\":0,\"rows\":1,\"cols\":1,\"layers_per_cell\":1,\"layers\":[]}", "not a valid grid size"},
        {"{\"layers\":[]}", "the grid is empty"},
        {"{\"depth\":9999,\"rows\":9999,\"cols\":9999,\"layers_per_cell\":1,\"layers\":[]}",
         "the grid is empty or has more than"},
        {GRID(1) "{\"type\":\"Softmax\",\"mask\":[1]}" END, "mask[0] is not true or false"},
        {GRID(1) "{\"type\":\"Softmax\"}" END, "the input size does not follow"},
    };
    const zt_nn_shape two = {2, {0, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_nn *nn = open_text(ctx, rows[i].text);
        bool link = strstr(rows[i].text, "is_remote_link");
        zt_prog *program = nn ? zt_nn_prog(nn, link ? &two : NULL) : NULL;
        ok(!program && zt_ctx_status(ctx) == ZT_EDATA && strstr(zt_ctx_error(ctx), rows[i].says), "refused: %s",
           zt_ctx_error(ctx));
        zt_prog_free(program);
        zt_nn_close(nn);
        if (zt_mem_get(ctx).blocks) ok(false, "%zu blocks leak", zt_mem_get(ctx).blocks);
        zt_ctx_free(ctx);
    }
}

/* Forty layers, each of which runs the next twice. */
static void test_blown_up(void)
{
    char text[8192], *at = text;
    at += sprintf(at, "{\"depth\":1,\"rows\":1,\"cols\":1,\"layers_per_cell\":41,\"layers\":[");
    for (int i = 0; i < 40; i++)
        at += sprintf(at,
                      "{\"type\":\"Parallel\",\"combine_mode\":\"add\",\"l\":%d,\"parallel_branches\":["
                      "{\"type\":\"Dense\",\"is_remote_link\":true,\"target_l\":%d},"
                      "{\"type\":\"Dense\",\"is_remote_link\":true,\"target_l\":%d}]},",
                      i, i + 1, i + 1);
    sprintf(at, "{\"type\":\"Residual\",\"l\":40}]}");
    zt_ctx *ctx = zt_ctx_new();
    zt_nn *nn = open_text(ctx, text);
    zt_prog *program = nn ? zt_nn_prog(nn, &(zt_nn_shape){2, {0, 2}}) : NULL;
    ok(nn && !program && strstr(zt_ctx_error(ctx), "links expand the network"), "refused: %s", zt_ctx_error(ctx));
    zt_nn_close(nn);
    zt_ctx_free(ctx);
}

/* Every allocation refused once: an error and no leak. */
static void test_no_memory(void)
{
    uint64_t at = 0;
    bool done = false, well = true;
    for (; !done && well; at++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_mem_fail(ctx, at + 1, true);
        zt_nn *nn = open_text(ctx, GATED);
        zt_prog *program = nn ? zt_nn_prog(nn, NULL) : NULL;
        done = program != NULL;
        well = done || zt_ctx_status(ctx) == ZT_ENOMEM;
        zt_prog_free(program);
        zt_nn_close(nn);
        zt_mem_fail(ctx, 0, false);
        well = well && zt_mem_get(ctx).blocks == 0;
        zt_ctx_free(ctx);
    }
    ok(well && at > 20, "%d allocations refused one by one: said, and nothing leaks", (int)at);
}

int main(void)
{
    if (!folder_make("nn")) return 1;
    zt_ctx *ctx = zt_ctx_new();
    test_grid(ctx);
    test_links(ctx);
    test_gumbel(ctx);
    test_rows(ctx);
    test_kept(ctx);
    test_dtypes(ctx);
    test_builders(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    test_refused();
    test_blown_up();
    test_no_memory();
    ok(folder_remove(), "tidy");
    return tap_done();
}
