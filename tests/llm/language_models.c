/* language_models.c - language models over made models: engines agree, bits do not depend on chunk, threads or
 * neighbours, and every allocation may fail. (Hostile headers: language_models_hostile.c.) */
#include "tests/common/made_llm.h"

/* ---- engines and bits ------------------------------------------------------------------------ */

static void test_engines(const char *arch, const char *type, int64_t layers)
{
    file file_data = make_file(arch, type, layers, NULL);
    int64_t V = vocab_of(&file_data), n = N_TOKENS * V;
    setup ref = {.engine = "ref", .threads = 1, .exact = true};
    setup cpu = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .exact = true};
    float *a = all_logits(&file_data, &ref, V), *b = all_logits(&file_data, &cpu, V);
    double e = nmse(a, b, n);
    ok(e <= 1e-9, "%s %s: cpu --exact is ref: NMSE %.2g", arch, type, e);
    cpu.exact = false;
    float *c = all_logits(&file_data, &cpu, V);
    e = nmse(a, c, n);
    ok(e <= 2e-3, "%s %s: cpu with 8-bit activations is near: NMSE %.2g", arch, type, e);
    free(a);
    free(b);
    free(c);
    free(file_data.bytes);
}

/* One answer for every chunk, thread count and repetition, at each instruction set. */
static void test_bits(const char *arch, const char *type, bool exact)
{
    static const struct {
        int64_t chunk;
        int threads;
    } way[] = {{1, 1}, {3, 2}, {64, 3}, {64, 1}, {7, 3}, {64, 2}};
    file file_data = make_file(arch, type, 2, NULL);
    int64_t V = vocab_of(&file_data);
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) {
        setup options = {.engine = "cpu", .threads = 1, .isa = (zt_isa)isa, .exact = exact};
        float *want = all_logits(&file_data, &options, V);
        bool same = want != NULL;
        for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
            options.chunk = way[i].chunk;
            options.threads = way[i].threads;
            float *got = all_logits(&file_data, &options, V);
            bool equal = want && got && memcmp(want, got, (size_t)(N_TOKENS * V) * 4) == 0;
            if (!equal) diag("chunk %d, %d threads", (int)options.chunk, options.threads);
            same &= equal;
            free(got);
        }
        ok(same, "%s %s %s%s: the same bits for any chunk and threads", arch, type, zt_isa_name((zt_isa)isa),
           exact ? " --exact" : "");
        free(want);
    }
    free(file_data.bytes);
}

/* Two sequences in one step, with blocks of their own, get what each gets alone. */
static void test_neighbours(const char *arch)
{
    enum { N = 12, CTX = 128, B = CTX / 32, PAD = 2 * N };
    file file_data = make_file(arch, "q8_0", 2, NULL);
    int64_t V = vocab_of(&file_data);
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .ctx_len = CTX, .n_seq = 2};
    zt_ctx *ctx = zt_ctx_new();
    model o;
    int32_t ids[PAD], mix[PAD], pos[PAD], seq[PAD], rows[PAD];
    int32_t table[2 * B] = {0, 2, -1, -1, 3, 1, -1, -1};
    float *alone = calloc((size_t)(PAD * V), 4), *both = calloc((size_t)(PAD * V), 4);
    draw_ids(ids, PAD, V);
    zt_status st = model_open(&o, ctx, &file_data, &options);
    for (int k = 0; k < 2 && st == ZT_OK; k++) {
        st = zt_llm_rewind(o.m, 0);
        if (st == ZT_OK) st = zt_llm_feed(o.m, ids + k * N, N, true, alone + k * N * V);
    }
    in_turns(ids, N, mix, pos, seq, rows);
    const void *in[] = {mix, pos, seq, table, rows};
    void *out[] = {both, NULL};
    zt_binding binding[] = {{"n", PAD}, {"m", PAD}};
    if (st == ZT_OK) st = zt_session_step(zt_llm_session(o.m), binding, 2, in, out);
    bool same = st == ZT_OK;
    for (int i = 0; i < PAD && same; i++) same = memcmp(both + i * V, alone + (i % 2 * N + i / 2) * V, (size_t)V * 4) == 0;
    ok(same, "%s: two sequences in one step get what each gets alone", arch);
    if (st != ZT_OK) diag("%s", zt_ctx_error(ctx));
    model_close(&o);
    zt_ctx_free(ctx);
    free(alone);
    free(both);
    free(file_data.bytes);
}

/* ---- optional weights ------------------------------------------------------------------------ */

static void ones_as_rope(ggufw *w) { add_vector(w, "rope_freqs.weight", 8, 1); }
static void twos_as_rope(ggufw *w) { add_vector(w, "rope_freqs.weight", 8, 2); }
static void zero_biases(ggufw *w)
{
    static const char *const names[] = {"blk.0.attn_q.bias",      "blk.1.attn_q.bias",   "blk.0.attn_output.bias",
                                        "blk.1.attn_output.bias", "blk.0.ffn_down.bias", "blk.1.ffn_down.bias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) add_vector(w, names[i], 64, 0);
}
static void halves(ggufw *w, const char *name, int64_t n, uint16_t half)
{
    uint16_t v[64];
    for (int64_t i = 0; i < n; i++) v[i] = half;
    ggufw_tensor(w, name, 1, 1, &n, v, (size_t)n * 2);
}
static void half_ones_as_rope(ggufw *w) { halves(w, "rope_freqs.weight", 8, 0x3c00); }
static void half_zero_bias(ggufw *w)
{
    halves(w, "blk.0.attn_q.bias", 64, 0);
    halves(w, "blk.1.attn_q.bias", 64, 0);
}
static void half_one_bias(ggufw *w)
{
    halves(w, "blk.0.attn_v.bias", 32, 0x3800);
    halves(w, "blk.1.attn_v.bias", 32, 0);
}
static void one_bias(ggufw *w)
{
    add_vector(w, "blk.0.attn_v.bias", 32, 0.5f);
    add_vector(w, "blk.1.attn_v.bias", 32, 0);
}
static void no_scaling(ggufw *w) { ggufw_f32(w, "llama.rope.scaling.factor", 1); }
static void linear_scaling(ggufw *w) { ggufw_f32(w, "llama.rope.scaling.factor", 4); }
static void capped(ggufw *w) { ggufw_f32(w, "llama.final_logit_softcapping", 1.5f); }

static void test_optional(void)
{
    static const struct {
        const char *what;
        extra_fn *extra;
        bool changes;
    } row[] = {
        {"rope divisors of 1", ones_as_rope, false},
        {"rope divisors of 2", twos_as_rope, true},
        {"biases of 0", zero_biases, false},
        {"a bias of .5", one_bias, true},
        {"rope scaling by 1", no_scaling, false},
        {"rope scaling by 4", linear_scaling, true},
        {"capped logits", capped, true},
        {"rope divisors of 1 in f16", half_ones_as_rope, false},
        {"biases of 0 in f16", half_zero_bias, false},
        {"a bias of .5 in f16", half_one_bias, true},
    };
    file file_data = make_file("llama", "f32", 2, NULL);
    int64_t V = vocab_of(&file_data);
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .exact = true};
    float *plain = all_logits(&file_data, &options, V);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file g = make_file("llama", "f32", 2, row[i].extra);
        float *y = all_logits(&g, &options, V);
        bool same = plain && y && memcmp(plain, y, (size_t)(N_TOKENS * V) * 4) == 0;
        ok(y && same != row[i].changes, "%s: %s", row[i].what, row[i].changes ? "other logits" : "the same logits");
        free(y);
        free(g.bytes);
    }
    free(plain);
    free(file_data.bytes);
}

/* ---- feeding --------------------------------------------------------------------------------- */

static void test_feed(void)
{
    file file_data = make_file("gemma3", "q8_0", 2, NULL);
    int64_t V = vocab_of(&file_data);
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .ctx_len = 40};
    int32_t ids[N_TOKENS];
    zt_ctx *ctx = zt_ctx_new();
    model o;
    float *a = calloc((size_t)V, 4), *b = calloc((size_t)V, 4);
    draw_ids(ids, N_TOKENS, V);
    ok(model_open(&o, ctx, &file_data, &options) == ZT_OK, "open");
    ok(zt_llm_get(o.m).ctx_len == 40, "the context is as asked, whole blocks or not");
    ok(zt_llm_feed(o.m, ids, 20, false, a) == ZT_OK && zt_llm_position(o.m) == 20, "feed 20");
    ok(zt_llm_feed(o.m, ids + 30, 5, false, NULL) == ZT_OK, "feed 5 more, no logits");
    ok(zt_llm_rewind(o.m, 15) == ZT_OK && zt_llm_feed(o.m, ids + 15, 5, false, b) == ZT_OK && memcmp(a, b, (size_t)V * 4) == 0,
       "rewound and fed again: the same logits");
    ok(zt_llm_feed(o.m, ids, 0, false, b) == ZT_OK && zt_llm_position(o.m) == 20, "feed nothing");
    ok(zt_llm_rewind(o.m, 21) == ZT_EUSAGE, "no rewind forward: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(zt_llm_feed(o.m, ids, 21, false, b) == ZT_ENOMEM && strstr(zt_ctx_error(ctx), "40") && zt_llm_position(o.m) == 20,
       "too much for the context: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ids[1] = (int32_t)V;
    ok(zt_llm_feed(o.m, ids, 2, false, b) == ZT_EUSAGE && zt_llm_position(o.m) == 20, "no such token: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(zt_llm_feed(o.m, ids + 2, 20, false, b) == ZT_OK, "the context may be filled");
    model_close(&o);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    free(a);
    free(b);
    free(file_data.bytes);
}

static void nan_bias(ggufw *w)
{
    add_vector(w, "blk.0.attn_v.bias", 32, 0);
    add_vector(w, "blk.1.attn_v.bias", 32, NAN);
}

/* The likeliest after each token are those of the logits, in any
 * chunks; -1 where none is a number. */
static void test_nexts(const char *arch, void (*more)(ggufw *writer), int64_t chunk)
{
    enum { N = 13 };
    file file_data = make_file(arch, "q8_0", 2, more);
    int64_t V = vocab_of(&file_data);
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .ctx_len = 40, .chunk = chunk};
    int32_t ids[N], best[N], want[N];
    zt_ctx *ctx = zt_ctx_new();
    model o;
    float *y = calloc((size_t)(N * V), 4);
    draw_ids(ids, N, V);
    bool good = model_open(&o, ctx, &file_data, &options) == ZT_OK && zt_llm_feed(o.m, ids, 3, false, NULL) == ZT_OK;
    good = good && zt_llm_nexts(o.m, ids, N, best) == ZT_OK && zt_llm_position(o.m) == 3 + N;
    good = good && zt_llm_rewind(o.m, 3) == ZT_OK && zt_llm_feed(o.m, ids, N, true, y) == ZT_OK;
    for (int i = 0; i < N && good; i++) {
        want[i] = -1;
        for (int32_t v = 0; v < V; v++)
            if (y[i * V + v] > (want[i] < 0 ? -INFINITY : y[i * V + want[i]])) want[i] = v;
        good = best[i] == want[i] && (want[i] < 0) == (more == nan_bias);
    }
    ok(good, "%s%s: the likeliest after each of %d tokens, %d at a time", arch, more ? ", no number" : "", N, (int)chunk);
    model_close(&o);
    zt_ctx_free(ctx);
    free(y);
    free(file_data.bytes);
}

/* ---- embeddings ------------------------------------------------------------------------------ */

static void test_embed(const char *arch)
{
    enum { N = 20, MAX = 64 };
    static const int64_t chunk[] = {512, 7, 1};
    file file_data = make_file(arch, "q8_0", 2, NULL);
    int32_t ids[N];
    float y[3][MAX], none;
    draw_ids(ids, N, 200);
    for (int i = 0; i < 3; i++) {
        setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .chunk = chunk[i], .ctx_len = 32, .embed = true};
        zt_ctx *ctx = zt_ctx_new();
        model o;
        zt_status st = model_open(&o, ctx, &file_data, &options);
        if (st == ZT_OK) st = zt_llm_embed(o.m, ids + 3, 9, y[i]); /* what was there before is forgotten */
        if (st == ZT_OK) st = zt_llm_embed(o.m, ids, N, y[i]);
        ok(st == ZT_OK && memcmp(y[0], y[i], sizeof y[0]) == 0, "%s: embedded in chunks of %d %s", arch, (int)chunk[i],
           zt_ctx_error(ctx));
        ok(o.m && zt_llm_embed(o.m, ids, 0, y[i]) == ZT_EUSAGE, "no tokens: %s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        ok(o.m && zt_llm_feed(o.m, ids, 1, false, &none) == ZT_EUSAGE, "no logits: %s", zt_ctx_error(ctx));
        model_close(&o);
        ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
        zt_ctx_free(ctx);
    }
    free(file_data.bytes);
}

static void test_steps_allocate_nothing(void)
{
    file file_data = make_file("llama", "q4_1", 2, NULL);
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best()};
    int32_t ids[N_TOKENS];
    zt_ctx *ctx = zt_ctx_new();
    model o;
    int64_t V = vocab_of(&file_data);
    float *y = calloc((size_t)V, 4);
    draw_ids(ids, N_TOKENS, V);
    zt_status st = model_open(&o, ctx, &file_data, &options);
    uint64_t before = zt_mem_get(ctx).calls;
    for (int i = 0; i < 20 && st == ZT_OK; i++) st = zt_llm_feed(o.m, ids + i, 1, false, y);
    ok(st == ZT_OK && zt_mem_get(ctx).calls == before, "20 tokens allocate nothing");
    model_close(&o);
    zt_ctx_free(ctx);
    free(y);
    free(file_data.bytes);
}

static void test_plan(void)
{
    file file_data = make_file("gemma3", "q8_0", 3, NULL);
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best()};
    zt_ctx *ctx = zt_ctx_new();
    zt_llm_info p = {0};
    model o;
    ok(model_open(&o, ctx, &file_data, &options) == ZT_OK, "open %s", zt_ctx_error(ctx));
    zt_llm_opts lo = {.engine = o.e, .kv = ZT_DTYPE_COUNT};
    ok(zt_llm_plan(o.g, &lo, &p) == ZT_OK, "plan %s", zt_ctx_error(ctx));
    zt_llm_info i = zt_llm_get(o.m);
    zt_session_report r = zt_session_get(zt_llm_session(o.m));
    ok(p.weight_bytes == i.weight_bytes && p.kv_bytes == i.kv_bytes && p.scratch_bytes == i.scratch_bytes && p.scratch_bytes > 0,
       "the plan tells what the model then says");
    ok(p.weight_bytes == r.weight_bytes && p.kv_bytes == r.state_bytes, "and what the session holds: %zu, %zu", r.weight_bytes,
       r.state_bytes);
    ok(p.kv_bytes == 2 * 3 * 256 * 32 * 2 && p.ctx_len == 256, "the cache is 2 L ctx W halves");
    model_close(&o);
    zt_ctx_free(ctx);
    free(file_data.bytes);
}

static void test_program(const char *arch)
{
    file file_data = make_file(arch, "q8_0", 7, NULL);
    setup options = {.engine = "ref", .threads = 1};
    zt_ctx *ctx = zt_ctx_new();
    zt_str text;
    zt_str_init(&text, ctx);
    check_program(arch, &file_data, &options, &text);
    bool gemma = strcmp(arch, "gemma3") == 0;
    int windows = 0;
    for (char *at = text.data; at && (at = strstr(at, " window=16")); at++) windows++;
    ok(windows == (gemma ? 6 : 0), "%s: %d of 7 layers see a window", arch, windows);
    zt_str_fini(&text);
    zt_ctx_free(ctx);
    free(file_data.bytes);
}

/* ---- every allocation failing ---------------------------------------------------------------- */

/* Load and 4 tokens with the nth allocation refused; true when nothing was left to refuse. */
static bool survive(const file *file_data, const setup *options, uint64_t nth, bool onwards, bool *good)
{
    static const int32_t ids[4] = {5, 6, 7, 8};
    zt_ctx *ctx = zt_ctx_new();
    model o;
    float y[512];
    zt_mem_fail(ctx, nth, onwards);
    zt_status st = model_open(&o, ctx, file_data, options);
    for (size_t n = 3; n > 0 && st == ZT_OK; n /= 3) /* 3, then 1 */
        st = options->embed ? zt_llm_embed(o.m, ids, n, y) : zt_llm_feed(o.m, ids, n, false, y);
    bool reached = zt_mem_get(ctx).calls >= nth;
    zt_mem_fail(ctx, 0, false);
    model_close(&o);
    if (st != (reached ? ZT_ENOMEM : ZT_OK) || zt_mem_get(ctx).blocks != 0) {
        diag("allocation %d: status %d, %zu blocks left: %s", (int)nth, (int)st, zt_mem_get(ctx).blocks, zt_ctx_error(ctx));
        *good = false;
    }
    zt_ctx_free(ctx);
    return !reached;
}

static void test_failing(const char *arch, const char *engine)
{
    file file_data = make_file(arch, "q8_0", 1, NULL);
    setup options = {.engine = engine, .threads = 2, .isa = zt_isa_best(), .embed = mkmodel_has(arch, MK_SUM | MK_ENCODER)};
    bool good = true;
    uint64_t nth = 1;
    while (!survive(&file_data, &options, nth, false, &good) && good) nth++;
    ok(good && nth > 20, "%s on %s: each of %d allocations failing, once", arch, engine, (int)nth - 1);
    for (uint64_t k = 1; k < nth && good; k += 5) survive(&file_data, &options, k, true, &good);
    ok(good, "%s on %s: allocations failing from some point on", arch, engine);
    free(file_data.bytes);
}

int main(void)
{
    test_engines("llama", "q4_1", 2);
    test_engines("llama", "f16", 2);
    test_engines("qwen2", "q5_1", 2);
    test_engines("gemma3", "q8_0", 7);
    test_engines("gemma3", "q4_k", 2);
    test_engines("llama", "q6_k", 2);
    test_bits("llama", "q4_1", false);
    test_bits("llama", "bf16", true);
    test_bits("gemma3", "q5_0", false);
    test_bits("gemma3", "q4_k", true);
    test_neighbours("llama");
    test_neighbours("gemma3");
    test_neighbours("gpt2");
    test_neighbours("phi3");
    test_optional();
    test_feed();
    test_nexts("llama", NULL, 512);
    test_nexts("gemma3", NULL, 5);
    test_nexts("llama", nan_bias, 512);
    test_embed("llama");
    test_steps_allocate_nothing();
    test_plan();
    test_program("llama");
    test_program("gemma3");
    test_failing("llama", "cpu");
    test_failing("gemma3", "cpu");
    test_failing("gpt2", "cpu");
    test_failing("bert", "cpu");
    test_failing("llama", "ref");
    return tap_done();
}
