/* nn_dtype.c - layers that learn in their own dtype: what ops make of masters is what the layer
 * computes with, by both rules and in all 21; the gradient goes straight through; what was learned
 * is kept. */
#include "lib/io/netjson.h"
#include "lib/train/train.h"
#include "tests/common/made_network.h"
#include "tests/common/tap.h"

#include <math.h>

enum { N = 64 };

/* Numbers at which rules turn: halves, ends, signs, what wraps. */
static void fill(float *x, float scale)
{
    static const float at[] = {0,    -0.0f, .5f,  -.5f,  1.5f, -1.5f,  2.5f,  .49f,    -.51f, 1,      -1,
                               7.5f, -8,    8,    15.5f, 16,   127.5f, 128,   -128.6f, 129,   255.5f, 300,
                               448,  500,   -700, 6,     5,    3.4f,   70000, -70000,  0.25f, 0.75f};
    for (int i = 0; i < N; i++)
        x[i] = i < (int)(sizeof at / sizeof *at) ? at[i] * scale : (float)(3 * zt_normal(3, 0, (uint64_t)i)) * scale;
}

static zt_nn *dense(zt_ctx *ctx, zt_storage t, const char *rule, float scale)
{
    char text[400];
    float x[N];
    fill(x, scale);
    snprintf(text, sizeof text, GRID(1) "{\"type\":\"Dense\",\"input_height\":8,\"output_height\":8,\"dtype\":\"%s\"%s}" END,
             zt_netjson_word(t), rule);
    zt_nn *nn = open_text(ctx, text);
    if (nn) zt_nn_layer_at(nn, 0)->scale = scale; /* which the field's rule makes anew */
    if (nn && !strstr(rule, "field")) zt_nn_layer_at(nn, 0)->rule = ZT_RULE_LOOM;
    if (nn && zt_nn_put(nn, "layers.0.w", x, N) == ZT_OK) return nn;
    zt_nn_close(nn);
    return NULL;
}

/* The weight itself, through ops on an input. */
static bool by_ops(zt_ctx *ctx, zt_nn *nn, const char *engine, const float *x, float *y)
{
    zt_prog *program = zt_prog_new(ctx);
    int w = zt_prog_in(program, "layers.0.w", ZT_F32, 2, (int64_t[]){8, 8});
    int made = zt_nn_through(nn, program, w, "layers.0.w");
    int flat = zt_program_reshape(program, "y", made, &(zt_reshape_attrs){{1, {N}}});
    zt_engine *e = zt_engine_open(ctx, engine, NULL);
    bool well = zt_prog_out(program, "y", flat) == ZT_OK && e;
    zt_session *session = well ? zt_session_open(e, program, NULL, &(zt_session_opts){0}) : NULL;
    well = session && zt_session_step(session, NULL, 0, (const void *const[]){x}, (void *const[]){y}) == ZT_OK;
    zt_session_close(session);
    zt_engine_close(e);
    zt_prog_free(program);
    return well;
}

static void test_same(zt_ctx *ctx, zt_storage t, bool field, float scale)
{
    float x[N], y[N], want[N];
    zt_nn *nn = dense(ctx, t, field ? ",\"zt.rule\":\"field\"" : "", scale);
    zt_store store = nn ? zt_nn_store(nn) : (zt_store){0};
    zt_type type;
    int64_t handle;
    fill(x, scale);
    bool well =
        nn && !store.find(store.user, "layers.0.w", &type, &handle) && !store.read(store.user, handle, 0, want, sizeof want);
    well = well && by_ops(ctx, nn, "cpu", x, y);
    int bad = -1;
    for (int i = 0; i < N && well && bad < 0; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-6f * fabsf(want[i]))) bad = i;
    ok(well && bad < 0, "%s by %s rule, in scales of %g: ops make what the layer computes with%s", zt_netjson_word(t),
       field ? "the field's" : "Loom's", (double)scale, zt_ctx_error(ctx));
    if (bad >= 0) diag("%d: %g becomes %g, not %g", bad, x[bad], y[bad], want[bad]);
    zt_nn_close(nn);
}

/* By the field's rule it is what encoding and decoding leave. */
static void test_field(zt_ctx *ctx, zt_storage t)
{
    float x[N], want[N];
    char codes[8 * N];
    bool same = true;
    zt_nn *nn = dense(ctx, t, ",\"zt.rule\":\"field\"", .03125f);
    zt_store store = nn ? zt_nn_store(nn) : (zt_store){0};
    zt_type type;
    int64_t handle;
    float got[N], scale = nn ? zt_nn_layer_at(nn, 0)->scale : 1;
    fill(x, .03125f);
    bool well = nn && zt_storage_encode(ctx, t, ZT_RULE_FIELD, x, N, scale, codes) == ZT_OK &&
                !store.find(store.user, "layers.0.w", &type, &handle) && !store.read(store.user, handle, 0, got, sizeof got);
    if (well) zt_storage_decode(t, ZT_RULE_FIELD, codes, N, scale, want);
    for (int i = 0; i < N && well && same; i++) {
        same = fabsf(got[i] - want[i]) <= 1e-6f * fabsf(want[i]); /* 64 bits count in f64 there */
        if (!same) diag("%g becomes %g, not %g", (double)x[i], (double)got[i], (double)want[i]);
    }
    ok(well && same, "%s: masters stand for what their codes would%s", zt_netjson_word(t), zt_ctx_error(ctx));
    zt_nn_close(nn);
}

/* ---- learning -------------------------------------------------------------------------------- */

static int through(void *user, zt_prog *p, int state, const char *name) { return zt_nn_through(user, p, state, name); }

/* One step of SGD on y = W x in i4: the loss is that of the codes, d.W of them goes to the masters.
 */
static void test_step(zt_ctx *ctx)
{
    const float lr = .5f, w0[2] = {.34f, -.7f}, x[2] = {1, 2}, target = 1;
    zt_nn *nn = open_text(ctx, GRID(1) "{\"type\":\"Dense\",\"input_height\":2,\"output_height\":1,"
                                       "\"dtype\":\"int4\"}" END);
    zt_nn_put(nn, "layers.0.w", w0, 2);
    zt_prog *y = zt_nn_prog(nn, NULL);
    zt_binding binding = {"n", 1};
    zt_prog *program = zt_train_with_loss(ctx, y, NULL, ZT_LOSS_MSE, &binding, 1);
    zt_engine *e = zt_engine_open(ctx, "cpu", NULL);
    zt_optim optimizer = zt_optim_default(zt_optimizer_named("sgd"));
    zt_store masters = zt_nn_masters(nn);
    zt_train_opts t = {.optim = &optimizer, .sample = &binding, .n_sample = 1, .through = through, .user = nn};
    zt_trainer *r = program && e ? zt_trainer_open(e, program, &t, &masters) : NULL;
    zt_trained got = {0};
    float w1[2] = {0};
    bool well = r && !zt_trainer_step(r, &binding, 1, (const void *const[]){x, &target}, (double)lr, NULL, &got) &&
                !zt_trainer_get(r, 0, w1);
    float off = .3f - 2 * .7f - target; /* codes 3 and -7 in scales of .1 */
    ok(well && fabs(got.loss - (double)(off * off)) < 1e-5, "the loss is that of the codes: %g%s", got.loss, zt_ctx_error(ctx));
    ok(well && fabsf(w1[0] - (w0[0] - lr * 2 * off)) < 1e-5f && fabsf(w1[1] - (w0[1] - lr * 4 * off)) < 1e-5f,
       "masters move by the codes' gradient: %g %g", (double)w1[0], (double)w1[1]);
    zt_trainer_close(r);
    zt_engine_close(e);
    zt_prog_free(program);
    zt_prog_free(y);
    zt_nn_close(nn);
}

/* Drawn weights count in a scale of their own, whatever the dtype: none are all 0. */
static void test_drawn(zt_ctx *ctx)
{
    for (int t = 0; t < ZT_STORE_COUNT; t++) {
        char text[300];
        snprintf(text, sizeof text,
                 GRID(1) "{\"type\":\"Dense\",\"input_height\":8,\"output_height\":8,\"dtype\":\"%"
                         "s\"}" END,
                 zt_netjson_word((zt_storage)t));
        zt_nn *nn = open_text(ctx, text);
        size_t count = 0;
        float *y = nn ? run(nn, "cpu", NULL, 2, 0, &count) : NULL;
        double most = 0;
        for (size_t i = 0; i < count; i++) most = fmax(most, fabs((double)y[i]));
        ok(count == 16 && most > .05, "drawn in %s: %g%s", zt_netjson_word((zt_storage)t), most, zt_ctx_error(ctx));
        free(y);
        zt_nn_close(nn);
    }
}

/* A document alone counts the weights of packed codes: as many as the network has. */
static void test_counts(zt_ctx *ctx)
{
    // clang-format off
    static const char *const layers[] = {
        "\"type\":\"Dense\",\"input_height\":3,\"output_height\":5",
        "\"type\":\"dense\",\"input_height\":7,\"output_height\":1",
        "\"type\":\"MultiHeadAttention\",\"d_model\":6,\"num_heads\":3,\"num_kv_heads\":1",
        "\"type\":\"MHA\",\"input_height\":6,\"num_heads\":2,\"head_dim\":3",
        "\"type\":\"attention\",\"d_model\":8,\"num_heads\":2",
        "\"type\":\"SwiGLU\",\"input_height\":3,\"output_height\":5",
        "\"type\":\"RMSNorm\",\"input_height\":7",
        "\"type\":\"LayerNorm\",\"input_height\":7",
        "\"type\":\"CNN1\",\"filters\":3,\"input_channels\":1,\"kernel_size\":3",
        "\"type\":\"CNN2\",\"filters\":3,\"input_channels\":5,\"kernel_size\":3",
        "\"type\":\"CNN3\",\"filters\":3,\"input_channels\":1,\"kernel_size\":3",
        "\"type\":\"CNN2\",\"filters\":3,\"input_channels\":5",
        "\"type\":\"ConvTransposed1D\",\"filters\":3,\"input_channels\":1,\"kernel_size\":5",
        "\"type\":\"ConvTransposed2D\",\"filters\":3,\"input_channels\":1,\"kernel_size\":3",
        "\"type\":\"ConvTransposed3D\",\"filters\":1,\"input_channels\":1,\"kernel_size\":3",
        "\"type\":\"RNN\",\"input_height\":3,\"output_height\":2",
        "\"type\":\"LSTM\",\"input_height\":3,\"output_height\":2",
        "\"type\":\"Embedding\",\"vocab_size\":5,\"embedding_dim\":3",
        "\"type\":\"Embedding\",\"input_height\":3,\"output_height\":3",
        "\"type\":\"KMeans\",\"input_height\":3,\"num_clusters\":3",
        "\"type\":\"KMeans\",\"input_height\":3,\"output_height\":1"};
    // clang-format on
    static const zt_storage packed[] = {ZT_STORE_I4, ZT_STORE_FP4, ZT_STORE_U2, ZT_STORE_BINARY};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char text[400];
        snprintf(text, sizeof text, GRID(1) "{%s}" END, layers[i]);
        zt_nn *nn = open_text(ctx, text);
        int64_t count = nn ? zt_nn_layer_size(nn, zt_nn_layer_at(nn, 0)) : 0;
        bool well = count > 0;
        for (int k = 0; k < 4 && well; k++) {
            zt_net_weights w = {packed[k], true, ZT_RULE_LOOM, 1};
            for (int other = -1; other <= 0; other++) {
                snprintf(text, sizeof text, GRID(1) "{%s,\"dtype\":\"%s\",\"native\":true,\"weights\":\"#0:%zu\"}" END, layers[i],
                         zt_netjson_word(packed[k]), zt_net_bytes(&w, count) - (size_t)-other);
                zt_netjson *j = zt_netjson_from_frame(ctx, text, strlen(text));
                well = well && j && zt_netjson_elements(j, 0) == (other ? -1 : count);
                zt_netjson_close(j);
            }
        }
        ok(well, "%s: %lld weights, counted by the document alone, and only by as many bytes%s", layers[i], (long long)count,
           zt_ctx_error(ctx));
        zt_nn_close(nn);
    }
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_counts(ctx);
    for (int t = 0; t < ZT_STORE_COUNT; t++) {
        for (int k = 0; k < 4; k++) test_same(ctx, (zt_storage)t, k & 1, k & 2 ? .03125f : .0123f);
        test_field(ctx, (zt_storage)t);
    }
    test_step(ctx);
    test_drawn(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
