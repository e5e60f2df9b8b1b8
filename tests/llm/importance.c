/* importance.c - tests of the sums of squared activations: what the first layer reads, computed
 * here from the file; every architecture; windows that add up; engines that agree; nothing left
 * behind whatever allocation fails. */
#include "lib/llm/importance.h"
#include "tests/common/made_llm.h"

#include <inttypes.h>
#include <math.h>

typedef struct opened {
    zt_ctx *ctx;
    zt_source *src;
    zt_gguf *g;
    zt_engine *e;
    zt_importance *m;
} opened;

static opened open_it(const file *file_data, const char *engine, int64_t window)
{
    opened o = {.ctx = zt_ctx_new()};
    o.src = zt_source_memory(o.ctx, "made", file_data->bytes, file_data->n);
    o.g = zt_gguf_from(o.ctx, o.src);
    o.e = zt_engine_open(o.ctx, engine, &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    o.m = zt_importance_open(o.g, o.e, window);
    return o;
}

/* What went wrong, "" if nothing, is told before it is closed; the blocks left behind. */
static size_t close_it(opened *o)
{
    zt_importance_close(o->m);
    zt_engine_close(o->e);
    zt_gguf_close(o->g);
    zt_source_close(o->src);
    size_t left = zt_mem_get(o->ctx).blocks;
    zt_ctx_free(o->ctx);
    return left;
}

static const double *sum_of(const zt_importance *m, const char *tensor, int64_t *count)
{
    for (int64_t i = 0; m && i < zt_importance_count(m); i++) {
        zt_importance_of of = zt_importance_get(m, i);
        *count = of.columns;
        if (!strcmp(of.tensor, tensor)) return of.squares;
    }
    return NULL;
}

/* ---- the first layer ------------------------------------------------------------------------- */

static float *values_of(const zt_gguf *gguf, const char *name, int64_t *columns)
{
    zt_type type;
    int64_t handle;
    zt_store s = zt_gguf_store((zt_gguf *)(uintptr_t)gguf);
    if (s.find(s.user, name, &type, &handle)) return NULL;
    float *y = malloc((size_t)zt_type_count(&type) * sizeof *y);
    char *bytes = malloc(zt_type_bytes(&type));
    s.read(s.user, handle, 0, bytes, zt_type_bytes(&type));
    zt_dtype_get(type.dtype)->decode(bytes, y, zt_type_count(&type));
    free(bytes);
    *columns = type.dim[type.rank - 1];
    return y;
}

/* Sums over tokens of (x / sqrt(mean x^2 + eps) g)^2, x the embedding's row. */
static double furthest(const opened *o, const int32_t *ids, int64_t n_ids, const double *got)
{
    int64_t count = 0;
    double eps = 0, worst = 0;
    float *x = values_of(o->g, "token_embd.weight", &count);
    float *g = values_of(o->g, "blk.0.attn_norm.weight", &count);
    double *want = calloc((size_t)count, sizeof *want);
    zt_gguf_f64(o->g, "llama.attention.layer_norm_rms_epsilon", &eps);
    for (int64_t t = 0; t < n_ids; t++) {
        const float *row = x + ids[t] * count;
        double mean = 0;
        for (int64_t k = 0; k < count; k++) mean += (double)row[k] * row[k] / (double)count;
        for (int64_t k = 0; k < count; k++) want[k] += pow(row[k] * g[k], 2) / (mean + eps);
    }
    for (int64_t k = 0; k < count; k++) worst = fmax(worst, fabs(got[k] - want[k]) / want[k]);
    free(x);
    free(g);
    free(want);
    return worst;
}

static void test_first_layer(const char *engine)
{
    file file_data = make_file("llama", "q8_0", 2, NULL);
    opened o = open_it(&file_data, engine, 48);
    int32_t ids[40];
    int64_t count = 0;
    draw_ids(ids, 40, 64);
    zt_status status = o.m ? zt_importance_feed(o.m, ids, 40) : zt_ctx_status(o.ctx);
    const double *q = sum_of(o.m, "blk.0.attn_q.weight", &count);
    double e = q && count == 64 ? furthest(&o, ids, 40, q) : 1;
    ok(status == ZT_OK && e < 1e-5, "%s: what q reads, to %.2g", engine, e);
    ok(q && q == sum_of(o.m, "blk.0.attn_v.weight", &count), "v reads the same");
    ok(zt_importance_count(o.m) == 14, "seven matrices of each layer, and no others");
    ok(close_it(&o) == 0, "nothing is left behind");
    free(file_data.bytes);
}

/* ---- whole models ---------------------------------------------------------------------------- */

/* Both windows together against each by itself; and two engines. */
static void test_adds(const char *arch)
{
    file file_data = make_file(arch, "f16", 2, NULL);
    opened a = open_it(&file_data, "cpu", 64), b = open_it(&file_data, "cpu", 64), c = open_it(&file_data, "ref", 64);
    int32_t ids[64];
    double worst = 0, apart = 0;
    draw_ids(ids, 64, 64);
    bool fed = a.m && b.m && c.m && !zt_importance_feed(a.m, ids, 40) && !zt_importance_feed(a.m, ids + 40, 24) &&
               !zt_importance_feed(b.m, ids + 40, 24) && !zt_importance_feed(c.m, ids, 40);
    int64_t count = fed ? zt_importance_count(a.m) : 0;
    for (int64_t i = 0; i < count; i++) {
        zt_importance_of x = zt_importance_get(a.m, i), y = zt_importance_get(b.m, i), z = zt_importance_get(c.m, i);
        fed &= x.tokens == 64 && y.tokens == 24 && z.tokens == 40 && !strcmp(x.tensor, z.tensor);
        double rows = 0;
        for (int64_t e = 0; e < x.matrices; e++) rows += x.rows ? x.rows[e] : 128;
        fed &= rows > 0 && fmod(rows, 64) == 0; /* of each token as many experts, or heads */
        for (int64_t k = 0; k < x.matrices * x.columns; k++) {
            if (x.rows && x.rows[k / x.columns] == 0 && x.squares[k] == 0) continue; /* no token chose it */
            worst = fmax(worst, fabs(x.squares[k] - y.squares[k] - z.squares[k]) / x.squares[k]);
            apart = fmax(apart, x.squares[k] > 0 ? 0 : 1);
        }
    }
    ok(fed && count > 4 && worst < 1e-3 && apart == 0, "%s: %" PRId64 " matrices, windows and engines add up to %.2g: %s", arch,
       count, worst, zt_ctx_error(a.ctx));
    ok(close_it(&a) + close_it(&b) + close_it(&c) == 0, "nothing is left behind");
    free(file_data.bytes);
}

static void said(zt_ctx *ctx, bool refused, const char *word)
{
    ok(refused && strstr(zt_ctx_error(ctx), word), "refused: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

static void test_refused(void)
{
    file file_data = make_file("llama", "q8_0", 1, NULL);
    opened o = open_it(&file_data, "cpu", 32);
    int32_t ids[40] = {0}, far[1] = {1 << 20};
    zt_importance *none = zt_importance_open(o.g, o.e, 0);
    said(o.ctx, !none, "invalid window: 0 tokens");
    said(o.ctx, zt_importance_feed(o.m, ids, 33) == ZT_EUSAGE, "33 tokens");
    said(o.ctx, zt_importance_feed(o.m, ids, 0) == ZT_EUSAGE, "0 tokens");
    said(o.ctx, zt_importance_feed(o.m, far, 1) == ZT_EUSAGE, "1048576");
    ok(close_it(&o) == 0, "nothing is left behind");
    free(file_data.bytes);
}

/* Each allocation in turn is refused. */
static void test_memory(void)
{
    file file_data = make_file("llama", "q8_0", 1, NULL);
    int failed = 0, wrong = 0;
    for (uint64_t nth = 1; nth < 4000; nth++) {
        opened o = {.ctx = zt_ctx_new()};
        int32_t ids[3] = {1, 2, 3};
        o.src = zt_source_memory(o.ctx, "made", file_data.bytes, file_data.n);
        o.g = zt_gguf_from(o.ctx, o.src);
        o.e = zt_engine_open(o.ctx, "cpu", &(zt_engine_opts){.threads = 1});
        zt_mem_fail(o.ctx, nth, false);
        o.m = zt_importance_open(o.g, o.e, 8);
        bool all = o.m && zt_importance_feed(o.m, ids, 3) == ZT_OK;
        failed += !all;
        wrong += !all && zt_ctx_status(o.ctx) != ZT_ENOMEM;
        wrong += close_it(&o) != 0;
        if (all) break;
    }
    ok(failed > 50 && wrong == 0, "each of %d allocations may fail", failed);
    free(file_data.bytes);
}

int main(void)
{
    test_first_layer("cpu");
    test_first_layer("ref");
    for (size_t i = 0; i < sizeof mkmodel_archs / sizeof *mkmodel_archs; i++) test_adds(mkmodel_archs[i].name);
    test_refused();
    test_memory();
    return tap_done();
}
