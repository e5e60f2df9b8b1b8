/* passes_llm.c - passes over made language models: the same bits with every pass and with none, few
 * kernels a layer, an arena near its lower bound, replays that allocate nothing. */
#include "lib/run/pass.h"
#include "tests/common/made_llm.h"

/* Logits of one model with and without passes, in chunks and token by token. */
static void test_same(const char *arch, const char *type, const char *engine, zt_isa isa, bool exact)
{
    file file_data = make_file(arch, type, 2, NULL);
    int64_t V = vocab_of(&file_data);
    bool same = true;
    for (int chunk = 1; chunk <= 64 && same; chunk += 63) {
        setup options = {.engine = engine, .threads = 2, .isa = isa, .exact = exact, .chunk = chunk};
        float *with = all_logits(&file_data, &options, V);
        options.passes_off = ~0u;
        float *without = all_logits(&file_data, &options, V);
        same = with && without && !memcmp(with, without, (size_t)(N_TOKENS * V) * sizeof *with);
        free(with);
        free(without);
    }
    ok(same, "%s %s on %s %s%s: the same bits with every pass and with none", arch, type, engine, zt_isa_name(isa),
       exact ? " --exact" : "");
    free(file_data.bytes);
}

/* Each pass alone, too. */
static void test_each(const char *arch)
{
    file file_data = make_file(arch, "q8_0", 2, NULL);
    int64_t V = vocab_of(&file_data);
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .passes_off = ~0u};
    float *want = all_logits(&file_data, &options, V);
    for (int i = 0; zt_pass_at(i); i++) {
        options.passes_off = ~(1u << i);
        float *got = all_logits(&file_data, &options, V);
        ok(want && got && !memcmp(want, got, (size_t)(N_TOKENS * V) * sizeof *want), "%s: the same bits with the pass %s alone",
           arch, zt_pass_at(i)->name);
        free(got);
    }
    free(want);
    free(file_data.bytes);
}

static void test_replays(const char *arch)
{
    enum { REPLAYS = 100 };
    file file_data = make_file(arch, "q8_0", 2, NULL);
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best()};
    zt_ctx *ctx = zt_ctx_new();
    model o;
    if (ok(model_open(&o, ctx, &file_data, &options) == ZT_OK, "%s opens (%s)", arch, zt_ctx_error(ctx))) {
        float *y = zt_alloc_array(ctx, (size_t)zt_llm_get(o.m).vocab, sizeof *y);
        int32_t id = 1;
        zt_status st = zt_llm_feed(o.m, &id, 1, false, y);
        uint64_t before = zt_mem_get(ctx).calls;
        for (int i = 0; i < REPLAYS && !st; i++) st = zt_llm_feed(o.m, &id, 1, false, y);
        ok(st == ZT_OK && zt_mem_get(ctx).calls == before, "%s: %d replays allocate %d times", arch, REPLAYS,
           (int)(zt_mem_get(ctx).calls - before));
        zt_session_report r = zt_session_get(zt_llm_session(o.m));
        ok(r.arena_bytes >= r.liveness_bytes && r.arena_bytes <= r.liveness_bytes * 21 / 20,
           "%s: the arena is %zu bytes, its lower bound %zu", arch, r.arena_bytes, r.liveness_bytes);
        zt_free(ctx, y);
    }
    model_close(&o);
    zt_ctx_free(ctx);
    free(file_data.bytes);
}

static int kernels_of(const char *arch, int64_t layers)
{
    file file_data = make_file(arch, "q8_0", layers, NULL);
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best()};
    zt_ctx *ctx = zt_ctx_new();
    model o;
    bool opened = model_open(&o, ctx, &file_data, &options) == ZT_OK;
    int n = opened ? zt_prog_kernels(zt_session_prog(zt_llm_session(o.m))) : -1;
    model_close(&o);
    zt_ctx_free(ctx);
    free(file_data.bytes);
    return n;
}

/* Between the first layer and the last, each more costs so many kernels. */
static void test_kernels(const char *arch, int most)
{
    int few = kernels_of(arch, 2), more = kernels_of(arch, 5);
    ok(few > 0 && more - few <= 3 * most, "%s: %d kernels for 2 layers, %d for 5: at most %d each", arch, few, more, most);
}

static void test_vulkan(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *e = zt_engine_open(ctx, "vulkan", &(zt_engine_opts){.isa = zt_isa_best()});
    zt_engine_close(e);
    if (e) {
        test_same("llama", "q8_0", "vulkan", zt_isa_best(), false);
        test_same("gemma3", "f16", "vulkan", zt_isa_best(), true);
    } else {
        skip("vulkan: %s", zt_ctx_error(ctx));
    }
    zt_ctx_free(ctx);
}

int main(void)
{
    static const char *const archs[] = {"llama", "qwen2", "gemma3",  "qwen3", "gemma2",
                                        "phi3",  "gpt2",  "smollm3", "olmo2", "granite"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) test_same(archs[i], "q8_0", "cpu", zt_isa_best(), false);
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) {
        test_same("llama", "q4_1", "cpu", (zt_isa)isa, false);
        test_same("gemma3", "q4_k", "cpu", (zt_isa)isa, false);
        test_same("llama", "bf16", "cpu", (zt_isa)isa, true);
    }
    test_same("llama", "q4_0", "ref", zt_isa_best(), true);
    test_same("gemma3", "f16", "ref", zt_isa_best(), true);
    test_vulkan();
    test_kernels("llama", 8);
    test_kernels("qwen3", 8);
    test_kernels("gemma3", 10);
    test_each("llama");
    test_each("gemma3");
    test_replays("llama");
    test_replays("gemma3");
    return tap_done();
}
