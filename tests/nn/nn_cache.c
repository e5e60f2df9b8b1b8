/* nn_cache.c - networks whose rows come some at a time: attention that keeps keys and values gives
 * each row the same bits however they are cut; golden/loom layers/mha_kv. */
#include "tests/common/made_network.h"
#include "tests/common/golden_network.h"

enum { ROWS = 11, WIDE = 12 };

#define MHA(l, more) "{\"type\":\"MHA\",\"l\":" #l ",\"d_model\":12,\"num_heads\":6,\"num_kv_heads\":3" more "}"
#define ATTENDING(more)                                                                                                          \
    GRID(4)                                                                                                                      \
    MHA(0, ",\"rope_freq_base\":10000" more)                                                                                     \
    "," DENSE(1, 12, 12) ",{\"type\":\"Sequential\",\"l\":2,\"sequential_layers\":[{\"type\":"                                   \
                         "\"Dense\",\"is_remote_link\":true,\"target_l\":0},{\"type\":"                                          \
                         "\"Residual\"}]}," DENSE(3, 12, 5) END

/* ---- a network with caches ------------------------------------------------------------------- */

typedef struct stream {
    zt_ctx *ctx;
    zt_engine *engine;
    zt_nn *nn;
    zt_prog *p;
    zt_session *s;
} stream;

static bool stream_open(stream *t, zt_ctx *ctx, const char *text, const char *engine, int64_t rows)
{
    *t = (stream){.ctx = ctx, .engine = zt_engine_open(ctx, engine, NULL)};
    t->nn = open_text(ctx, text);
    t->p = t->nn ? zt_nn_prog_as(t->nn, &(zt_nn_options){.cache = true}) : NULL;
    zt_store store = t->nn ? zt_nn_store(t->nn) : (zt_store){0};
    zt_binding ctx_is = {"ctx", rows};
    zt_session_opts o = {.fixed = &ctx_is, .n_fixed = t->p && zt_prog_n_symbols(t->p) > 1};
    t->s = t->p && t->engine ? zt_session_open(t->engine, t->p, &store, &o) : NULL;
    return t->s;
}

static void stream_close(stream *t)
{
    zt_session_close(t->s);
    zt_prog_free(t->p);
    zt_nn_close(t->nn);
    zt_engine_close(t->engine);
}

/* Rows from..from+count of x [.., in] into y [.., out]. */
static bool stream_step(stream *t, const float *x, int64_t in, float *y, int64_t out, int64_t from, int64_t count)
{
    int32_t pos[64];
    const void *inputs[2];
    for (int64_t i = 0; i < count; i++) pos[i] = (int32_t)(from + i);
    for (int i = 0; i < 2; i++) {
        int v = zt_prog_nth(t->p, ZT_VALUE_IN, i);
        bool is_pos = v >= 0 && !strcmp(zt_prog_value(t->p, v)->name, "pos");
        inputs[i] = is_pos ? (const void *)pos : x + from * in;
    }
    return zt_session_step(t->s, &(zt_binding){"n", count}, 1, inputs, (void *const[]){y + from * out}) == ZT_OK;
}

/* All rows, `each` at a time. */
static bool run_in(zt_ctx *ctx, const char *text, const char *engine, int64_t each, float *y)
{
    float x[ROWS * WIDE];
    stream t;
    for (int i = 0; i < ROWS * WIDE; i++) x[i] = (float)zt_normal(7, 0, (uint64_t)i);
    bool well = stream_open(&t, ctx, text, engine, ROWS);
    for (int64_t at = 0; at < ROWS && well; at += each)
        well = stream_step(&t, x, WIDE, y, 5, at, at + each < ROWS ? each : ROWS - at);
    stream_close(&t);
    return well;
}

static void test_pieces(zt_ctx *ctx, const char *engine)
{
    float all[ROWS * 5], y[ROWS * 5];
    size_t count = 0;
    zt_nn *nn = open_text(ctx, ATTENDING(""));
    float *plain = nn ? run(nn, engine, NULL, ROWS, 0, &count) : NULL;
    bool well = run_in(ctx, ATTENDING(""), engine, ROWS, all), same = well;
    double most = 0;
    for (int64_t each = 1; each < 5; each++)
        same = same && run_in(ctx, ATTENDING(""), engine, each, y) && !memcmp(y, all, sizeof y);
    ok(same, "%s: rows get the same bits in steps of 1 to 4 and all at once%s", engine, zt_ctx_error(ctx));
    for (size_t i = 0; plain && i < count; i++) most = fmax(most, fabs((double)plain[i] - all[i]));
    ok(well && count == ROWS * 5 && most < 2e-6, "%s: and what attention without a cache gives: %g", engine, most);
    free(plain);
    zt_nn_close(nn);
}

/* Two uses of a layer have caches of their own; without attention there are none. */
static void test_states(zt_ctx *ctx)
{
    stream t;
    bool well = stream_open(&t, ctx, ATTENDING(""), "cpu", 4);
    ok(well && zt_prog_count(t.p, ZT_VALUE_STATE) == 4 && zt_prog_find(t.p, "layers.0.k_cache") >= 0 &&
           zt_prog_find(t.p, "layers.0.v_cache.2") >= 0,
       "a cache for each use of a layer%s", zt_ctx_error(ctx));
    stream_close(&t);
    well = stream_open(&t, ctx, GRID(1) DENSE(0, 3, 3) END, "cpu", 4);
    ok(well && zt_prog_count(t.p, ZT_VALUE_STATE) == 0 && zt_prog_count(t.p, ZT_VALUE_IN) == 1, "none without attention");
    stream_close(&t);
}

static void test_full(void)
{
    zt_ctx *ctx = zt_ctx_new();
    float y[ROWS * 5];
    ok(!run_in(ctx, ATTENDING(",\"max_seq_len\":7"), "cpu", 3, y) && zt_ctx_status(ctx) == ZT_EDATA,
       "more rows than max_seq_len: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_nn *nn = open_text(ctx, ATTENDING(""));
    zt_prog *program = nn ? zt_nn_prog_as(nn, &(zt_nn_options){.cache = true, .cycles = 4}) : NULL;
    ok(nn && !program && zt_ctx_status(ctx) == ZT_EUSAGE, "no cache by a clock: %s", zt_ctx_error(ctx));
    zt_nn_close(nn);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
}

/* ---- golden ---------------------------------------------------------------------------------- */

/* A state's first numbers, as the case has the rows of its cache. */
static bool cache_is(stream *t, const char *state, const json_t *root, const char *key, char *why, size_t size)
{
    for (int i = 0; i < zt_prog_count(t->p, ZT_VALUE_STATE); i++) {
        if (strcmp(zt_prog_value(t->p, zt_prog_nth(t->p, ZT_VALUE_STATE, i))->name, state)) continue;
        zt_type type = zt_session_state_type(t->s, i);
        size_t count = (size_t)zt_type_count(&type);
        float *x = malloc(count * sizeof *x + 1);
        bool well = zt_session_state_get(t->s, i, x) == ZT_OK;
        double *d = doubles(x, count);
        well = well && same_numbers(d, count, root, key, 1e-5, why, size);
        free(d);
        free(x);
        return well;
    }
    return false;
}

static bool kv_on(const json_t *root, const char *engine, char *why, size_t size)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_type type = type_of(json_object_get(root, "input"));
    size_t count;
    float *x = floats(json_object_get(root, "input"), &count), *y = calloc(count + 1, sizeof *y);
    char *text = json_dumps(json_object_get(root, "network"), JSON_COMPACT);
    int64_t at = json_integer_value(json_object_get(root, "prefill")), rows = type.dim[0], d = type.dim[1];
    stream s;
    bool well = stream_open(&s, ctx, text, engine, rows) && stream_step(&s, x, d, y, d, 0, at);
    for (; at < rows && well; at++) well = stream_step(&s, x, d, y, d, at, 1);
    if (!well) snprintf(why, size, "%s", zt_ctx_error(ctx));
    double *got = doubles(y, count);
    well = well && same_numbers(got, count, root, "post_incremental", 1e-5, why, size);
    well = well && cache_is(&s, "layers.0.k_cache", root, "k_cache_rows", why, size);
    well = well && cache_is(&s, "layers.0.v_cache", root, "v_cache_rows", why, size);
    stream_close(&s);
    zt_ctx_free(ctx);
    free(got);
    free(text);
    free(x);
    free(y);
    return well;
}

static void kv_case(const json_t *root, const char *name)
{
    for (int e = 0; e < 2; e++) {
        char why[300] = "";
        bool well = kv_on(root, engines[e], why, sizeof why);
        ok(well, "%s on %s%s%s", name, engines[e], well ? "" : ": ", why);
    }
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    for (int e = 0; e < 2; e++) test_pieces(ctx, engines[e]);
    test_states(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    test_full();
    walk_set(&(walked){"loom/layers/mha_kv", kv_case});
    return tap_done();
}
