/* device_llm.c - made language models on the engines of devices, vulkan and cuda (an emulation of
 * the driver where there is no GPU): nothing falls back, a prompt and a token are one submit and
 * one download each, logits near the cpu's, and the same bits for any chunk and batch and in any
 * run. Skipped, aloud, where there is no adapter. */
#include "tests/common/made_llm.h"

enum { PROMPT = 20, MORE = 6 };

/* One engine for all models: pipelines are compiled once. */
typedef struct on {
    zt_ctx *ctx;
    zt_engine *e;
    zt_source *src;
    zt_gguf *g;
    zt_llm *m;
    bool falls_back; /* steps may run on another engine */
} on;

static bool on_open(on *o, const file *file_data, zt_llm_opts opts)
{
    o->src = zt_source_memory(o->ctx, "made", file_data->bytes, file_data->n);
    o->g = o->src ? zt_gguf_from(o->ctx, o->src) : NULL;
    opts.engine = o->e;
    opts.kv = ZT_DTYPE_COUNT;
    opts.strict = !o->falls_back;
    o->m = o->g ? zt_llm_open(o->g, &opts) : NULL;
    if (!o->m) diag("%s", zt_ctx_error(o->ctx));
    return o->m != NULL;
}

static void on_close(on *o)
{
    zt_llm_close(o->m);
    zt_gguf_close(o->g);
    zt_source_close(o->src);
    zt_ctx_clear(o->ctx);
}

/* ---- what a token costs ---------------------------------------------------------------------- */

typedef struct cost {
    uint64_t submits, downloads;
} cost;

static cost spent(on *o, cost before)
{
    zt_engine_report r = o->e->vt->report(o->e);
    return (cost){r.submits - before.submits, r.downloads - before.downloads};
}

static bool cost_is(cost c, uint64_t submits, uint64_t downloads)
{
    if (c.submits == submits && c.downloads == downloads) return true;
    diag("%llu submits, %llu downloads", (unsigned long long)c.submits, (unsigned long long)c.downloads);
    return false;
}

static int32_t largest(const float *y, int64_t V)
{
    int32_t at = 0;
    for (int64_t i = 1; i < V; i++)
        if (y[i] > y[at]) at = (int32_t)i;
    return at;
}

static void test_counts(on *o, const char *arch)
{
    file file_data = make_file(arch, "q8_0", 2, NULL);
    int32_t ids[PROMPT], next[MORE + 1], same[MORE + 1];
    bool one = true, equal = true, opened = on_open(o, &file_data, (zt_llm_opts){.ctx_len = 64});
    int64_t V = opened ? zt_llm_get(o->m).vocab : 1;
    float *y = calloc((size_t)V, sizeof *y);
    draw_ids(ids, PROMPT, V);
    cost start = spent(o, (cost){0, 0});
    ok(opened && !zt_llm_next(o->m, ids, PROMPT, next), "%s: a prompt of %d", arch, PROMPT);
    ok(cost_is(spent(o, start), 1, 1), "%s: it is one submit and one download", arch);
    for (int i = 0; i < MORE && opened; i++) {
        start = spent(o, (cost){0, 0});
        one = one && !zt_llm_next(o->m, next + i, 1, next + i + 1) && cost_is(spent(o, start), 1, 1);
    }
    ok(one, "%s: and so is each of %d tokens", arch, MORE);
    for (int i = 0; i <= MORE && opened; i++) {
        if (i == 0) zt_llm_rewind(o->m, 0);
        start = spent(o, (cost){0, 0});
        zt_llm_feed(o->m, i ? same + i - 1 : ids, i ? 1 : PROMPT, false, y);
        equal = equal && cost_is(spent(o, start), 1, 1);
        same[i] = largest(y, V);
    }
    ok(equal && !memcmp(next, same, sizeof same), "%s: logits name the same tokens", arch);
    start = spent(o, (cost){0, 0});
    ok(opened && !zt_llm_feed(o->m, ids, 1, false, NULL) && cost_is(spent(o, start), 1, 0),
       "%s: without an answer nothing is downloaded", arch);
    on_close(o);
    free(y);
    free(file_data.bytes);
}

/* ---- tokens that the engine draws ------------------------------------------------------------ */

/* The tokens of one way to draw: by zt_sample from the engine's logits, and by the engine itself,
 * one by one and of all rows at once. */
static bool test_way(on *o, const zt_sampler *sampler, const int32_t *ids, int64_t V, bool ban)
{
    const int32_t banned[] = {3, 5, 8, 13, 21};
    int32_t want[MORE + 1], got[MORE + 1], rows[PROMPT + MORE], text[PROMPT + MORE + 1];
    float *y = calloc((size_t)V, sizeof *y), *scratch = calloc(2 * (size_t)V, sizeof *y);
    bool good = true;
    memcpy(text, ids, PROMPT * sizeof *ids);
    for (int way = 0; way < 2; way++) {
        int32_t *next = way ? got : want;
        zt_llm_rewind(o->m, 0);
        for (int i = 0; i <= MORE && good; i++) {
            size_t from = i ? PROMPT + (size_t)i - 1 : 0, n = PROMPT + (size_t)i;
            zt_draw d = {sampler, text, from, banned, ban ? 5 : 0};
            cost start = spent(o, (cost){0, 0});
            good = way ? !zt_llm_draw(o->m, text + from, n - from, false, &d, next + i)
                       : !zt_llm_feed(o->m, text + from, n - from, false, y);
            good = good && cost_is(spent(o, start), 1, 1);
            for (int k = 0; k < 5 && ban; k++) y[banned[k]] = -INFINITY;
            if (!way) next[i] = zt_sample(sampler, y, V, text, n, (int64_t)n, scratch);
            text[n] = next[i];
        }
    }
    zt_draw d = {sampler, NULL, 0, banned, ban ? 5 : 0};
    zt_llm_rewind(o->m, 0);
    good = good && !memcmp(want, got, sizeof want) && !zt_llm_draw(o->m, text, PROMPT + MORE, true, &d, rows) &&
           !memcmp(rows + PROMPT - 1, want, sizeof want);
    free(y);
    free(scratch);
    return good;
}

static void test_drawn(on *o, const char *arch)
{
    file file_data = make_file(arch, "q8_0", 1, NULL);
    int32_t ids[PROMPT];
    zt_llm_opts opts = {.ctx_len = 64, .draws = true};
    bool opened = on_open(o, &file_data, opts), good = true;
    int64_t V = opened ? zt_llm_get(o->m).vocab : 1;
    draw_ids(ids, PROMPT, V);
    if (opened && !zt_llm_draws(o->m)) {
        zt_sampler usual = zt_sampler_defaults();
        int32_t next;
        zt_draw d = {&usual, NULL, 0, NULL, 0};
        ok(zt_llm_draw(o->m, ids, PROMPT, false, &d, &next) == ZT_EUSAGE, "%s: an engine that does not draw says so: %s", arch,
           zt_ctx_error(o->ctx));
        on_close(o);
        free(file_data.bytes);
        return;
    }
    for (int i = 0; i < 24 && opened; i++) {
        zt_sampler s = zt_sampler_defaults();
        s.seed = (uint64_t)i;
        s.temp = i % 8 == 7 ? 0 : .3 + .2 * i;
        s.top_k = (int64_t[]){40, 0, 3, 1000000}[i % 4];
        s.top_p = i % 3 ? .95 : 1;
        s.min_p = i % 5 ? .05 : 0;
        s.repeat_penalty = i % 2 ? 1.3 : 1;
        s.repeat_last = i % 6 == 5 ? 3 : 64;
        if (!test_way(o, &s, ids, V, i % 3 == 2)) diag("way %d: %s", i, zt_ctx_error(o->ctx)), good = false;
    }
    ok(opened && good, "%s: tokens drawn by the engine are those of zt_sample, 24 ways", arch);
    zt_sampler far = zt_sampler_defaults();
    far.repeat_penalty = 2;
    far.repeat_last = -1;
    ok(!zt_draw_fits(&(zt_draw){.sampler = &far}), "%s: a penalty of all tokens does not fit", arch);
    on_close(o);
    free(file_data.bytes);
}

/* Many texts at once, drawn in different ways and with other bans, beside one that is greedy and
 * one that looks at its logits: each gets the tokens that it gets alone. */
enum { TOGETHER = 7 };

typedef struct side {
    zt_ctx *ctx;
    zt_ids ids;
    size_t n; /* of the prompt */
    zt_sampler s;
    int32_t ban[3];
    int n_ban, gets; /* 0: drawn, 1: greedy, 2: of its logits */
    int64_t V;
    bool wrong;
} side;

static side make_side(on *o, int k, int64_t V)
{
    side t = {.ctx = o->ctx, .V = V, .n = (size_t)(1 + 3 * k), .n_ban = k % 4, .gets = k % 5 / 2};
    t.s = zt_sampler_defaults();
    t.s.seed = (uint64_t)(100 + k);
    t.s.temp = .4 + .3 * k;
    t.s.top_k = k % 2 ? 0 : 30;
    t.s.repeat_penalty = k % 3 ? 1.4 : 1;
    for (int i = 0; i < 3; i++) t.ban[i] = 10 * k + i;
    for (size_t i = 0; i < t.n; i++) zt_ids_push(o->ctx, &t.ids, (int32_t)(zt_uniform(3, (uint64_t)k, i) * (double)V));
    return t;
}

static zt_draw draw_of(const side *t) { return (zt_draw){.sampler = &t->s, .banned = t->ban, .n_banned = (size_t)t->n_ban}; }

static zt_status next_of_side(void *user, float *logits, int32_t token, bool *more)
{
    side *t = user;
    t->wrong |= (logits != NULL) != (t->gets == 2);
    if (logits) {
        float *scratch = calloc((size_t)t->V, 2 * sizeof *scratch);
        token = zt_sample(&t->s, logits, t->V, t->ids.id, t->ids.count, (int64_t)t->ids.count, scratch);
        free(scratch);
    }
    zt_status s = zt_ids_push(t->ctx, &t->ids, token);
    *more = t->ids.count < t->n + MORE;
    return s;
}

static zt_status side_alone(on *o, side *t)
{
    float *y = calloc((size_t)t->V, sizeof *y);
    zt_status s = zt_llm_rewind(o->m, 0);
    bool more = true;
    for (size_t at = 0; more && !s;) {
        int32_t token = -1;
        size_t total = t->ids.count - at;
        zt_draw d = draw_of(t);
        d.history = t->ids.id;
        d.n_history = at;
        s = t->gets == 0   ? zt_llm_draw(o->m, t->ids.id + at, total, false, &d, &token)
            : t->gets == 1 ? zt_llm_next(o->m, t->ids.id + at, total, &token)
                           : zt_llm_feed(o->m, t->ids.id + at, total, false, y);
        at = t->ids.count;
        if (!s) s = next_of_side(t, t->gets == 2 ? y : NULL, token, &more);
    }
    free(y);
    return s;
}

static zt_status sides_together(on *o, side *t)
{
    zt_batch *batch = zt_batch_open(o->m, &(zt_batch_opts){.next = next_of_side});
    zt_status s = batch ? ZT_OK : zt_ctx_status(o->ctx);
    for (int k = 0; k < TOGETHER && !s; k++) {
        zt_draw d = draw_of(&t[k]);
        s = t[k].gets == 0 ? zt_batch_add_drawn(batch, &t[k], &t[k].ids, &d)
                           : zt_batch_add(batch, &t[k], &t[k].ids, t[k].gets == 2);
    }
    while (!s && zt_batch_counted(batch).texts > 0) s = zt_batch_step(batch);
    zt_batch_close(batch);
    return s;
}

static void test_drawn_together(on *o, const char *arch)
{
    file file_data = make_file(arch, "q8_0", 1, NULL);
    side alone[TOGETHER], beside[TOGETHER];
    bool good = on_open(o, &file_data, (zt_llm_opts){.ctx_len = 64, .draws = true});
    int64_t V = good ? zt_llm_get(o->m).vocab : 1;
    bool draws = good && zt_llm_draws(o->m);
    for (int k = 0; k < TOGETHER; k++) {
        alone[k] = make_side(o, k, V);
        beside[k] = make_side(o, k, V);
        good = good && (!draws || !side_alone(o, &alone[k]));
    }
    on_close(o);
    good = on_open(o, &file_data, (zt_llm_opts){.ctx_len = 64, .draws = true, .n_seq = 4, .chunk = 16}) && good;
    zt_status status = good ? sides_together(o, beside) : ZT_EBUG;
    for (int k = 0; k < TOGETHER; k++) {
        good = good && (!draws || (!beside[k].wrong && beside[k].ids.count == alone[k].ids.count &&
                                   !memcmp(beside[k].ids.id, alone[k].ids.id, alone[k].ids.count * sizeof *alone[k].ids.id)));
        zt_ids_fini(o->ctx, &alone[k].ids);
        zt_ids_fini(o->ctx, &beside[k].ids);
    }
    if (draws)
        ok(good && !status, "%s: %d texts at once, drawn, greedy and by logits: the tokens of each alone", arch, TOGETHER);
    else
        ok(status == ZT_EUSAGE, "%s: a batch does not draw where the engine does not: %s", arch, zt_ctx_error(o->ctx));
    on_close(o);
    free(file_data.bytes);
}

/* ---- near the cpu's, and the same bits ------------------------------------------------------- */

static float *logits_of(on *o, const file *file_data, int64_t V, bool exact, int64_t chunk)
{
    int32_t ids[N_TOKENS];
    float *y = calloc((size_t)(N_TOKENS * V), sizeof *y);
    draw_ids(ids, N_TOKENS, V);
    if (!on_open(o, file_data, (zt_llm_opts){.exact = exact, .chunk = chunk, .ctx_len = 128}) ||
        zt_llm_feed(o->m, ids, N_TOKENS, true, y)) {
        diag("%s", zt_ctx_error(o->ctx));
        free(y);
        y = NULL;
    }
    on_close(o);
    return y;
}

static double most_apart(const float *a, const float *b, int64_t count)
{
    double most = a && b ? 0 : INFINITY;
    for (int64_t i = 0; i < count && a && b; i++) {
        double d = fabs((double)a[i] - b[i]);
        most = d <= most ? most : d; /* a NaN is far */
    }
    return most;
}

/* Without rounding logits are the cpu's within 1e-3; with 8-bit activations within what the cpu's
 * own differ from exact ones, a few times. */
static void test_near(on *o, const char *arch, const char *type)
{
    file file_data = make_file(arch, type, 2, NULL);
    int64_t V = vocab_of(&file_data), n = N_TOKENS * V;
    setup cpu = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .exact = true};
    float *exact = all_logits(&file_data, &cpu, V), *y = logits_of(o, &file_data, V, true, 0);
    cpu.exact = false;
    float *rounded = all_logits(&file_data, &cpu, V), *z = logits_of(o, &file_data, V, false, 0);
    double apart = most_apart(exact, y, n), bound = 1e-5 + 3 * nmse(exact, rounded, n);
    ok(apart <= 1e-3, "%s %s: logits %.2g from --exact on cpu", arch, type, apart);
    ok(nmse(exact, z, n) <= bound, "%s %s: by default %.2g, of %.2g", arch, type, nmse(exact, z, n), bound);
    free(exact);
    free(rounded);
    free(y);
    free(z);
    free(file_data.bytes);
}

static void test_bits(on *o, const char *arch, const char *type, bool exact)
{
    static const int64_t chunks[] = {512, 64, 7, 1}; /* the first run has 512 */
    file file_data = make_file(arch, type, 2, NULL);
    int64_t V = vocab_of(&file_data);
    float *first = logits_of(o, &file_data, V, exact, 0);
    bool same = first != NULL;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks && same; i++) {
        float *y = logits_of(o, &file_data, V, exact, chunks[i]);
        same = y && !memcmp(y, first, (size_t)(N_TOKENS * V) * sizeof *y);
        if (!same) diag("chunk %lld", (long long)chunks[i]);
        free(y);
    }
    ok(same, "%s %s%s: the same bits for any chunk, and again", arch, type, exact ? ", exact" : "");
    free(first);
    free(file_data.bytes);
}

/* Rows of two sequences, in blocks that lie anyhow, get what each gets alone. */
static void test_batch(on *o, const char *arch, const char *type)
{
    enum { N = 12, CTX = 128, B = CTX / 32, ROWS = 2 * N };
    file file_data = make_file(arch, type, 2, NULL);
    int64_t V = vocab_of(&file_data);
    int32_t ids[ROWS], mix[ROWS], pos[ROWS], seq[ROWS], rows[ROWS];
    int32_t table[2 * B] = {0, 2, -1, -1, 3, 1, -1, -1};
    float *alone = calloc((size_t)(ROWS * V), 4), *both = calloc((size_t)(ROWS * V), 4);
    draw_ids(ids, ROWS, V);
    bool same = on_open(o, &file_data, (zt_llm_opts){.ctx_len = CTX, .n_seq = 2});
    for (int k = 0; k < 2 && same; k++)
        same = !zt_llm_rewind(o->m, 0) && !zt_llm_feed(o->m, ids + k * N, N, true, alone + k * N * V);
    in_turns(ids, N, mix, pos, seq, rows);
    const void *in[] = {mix, pos, seq, table, rows};
    void *out[] = {both, NULL};
    zt_binding binding[] = {{"n", ROWS}, {"m", ROWS}};
    same = same && !zt_session_step(zt_llm_session(o->m), binding, 2, in, out);
    for (int i = 0; i < ROWS && same; i++) same = !memcmp(both + i * V, alone + (i % 2 * N + i / 2) * V, (size_t)V * 4);
    ok(same, "%s %s: two sequences in one step get what each gets alone", arch, type);
    on_close(o);
    free(alone);
    free(both);
    free(file_data.bytes);
}

/* ---- every architecture ---------------------------------------------------------------------- */

static void divisors(ggufw *w) { add_vector(w, "rope_freqs.weight", 8, 1.625f); }

/* on_open is strict: a step that the engine lacks is an error. */
static void test_whole(on *o, const char *arch, const char *type, extra_fn *extra, const char *with)
{
    file f = make_file(arch, type, 1, extra);
    zt_llm_opts opts = {.ctx_len = 64, .embed = mkmodel_has(arch, MK_TYPES)};
    ok(on_open(o, &f, opts), "%s %s%s: no step falls back", arch, type, with);
    on_close(o);
    free(f.bytes);
}

/* Architectures without routed experts that have steps which a device leaves to the cpu. */
static bool has_steps_on_cpu(const char *arch)
{
    static const char *const archs[] = {
        "mistral3", /* positions as floats */
        "gemma3n",  /* a curve that is cut off */
        "gemma4",   /* norms without weights */
        "qwen35",   /* recurrences */
        "rwkv7",    /* recurrences */
        "arwkv7",   /* recurrences */
        "minicpm3", /* products by head */
        "mpt",      /* linear biases */
        "apertus",  /* softplus */
    };
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (!strcmp(archs[i], arch)) return true;
    return false;
}

/* Some steps are the cpu's: the rest stays on the device, and the logits are those of the cpu. */
static void test_fallback(on *o, const char *arch)
{
    file file_data = make_file(arch, "f32", 2, NULL);
    int32_t ids[N_TOKENS];
    int64_t V = vocab_of(&file_data);
    setup cpu = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .exact = true};
    float *want = all_logits(&file_data, &cpu, V), *got = calloc((size_t)(N_TOKENS * V), sizeof *got);
    draw_ids(ids, N_TOKENS, V);
    o->falls_back = true;
    bool good = want && on_open(o, &file_data, (zt_llm_opts){.ctx_len = 96, .exact = true}) &&
                !zt_llm_feed(o->m, ids, N_TOKENS, true, got);
    double error = good ? nmse(want, got, N_TOKENS * V) : 1;
    ok(error < 1e-8, "%s: with steps on the cpu, NMSE %.2g", arch, error);
    on_close(o);
    o->falls_back = false;
    free(want);
    free(got);
    free(file_data.bytes);
}

/* An encoder whose windows are for the cpu. */
static void test_fallback_encoder(on *o, const char *arch)
{
    enum { W = 64 };
    file file_data = make_file(arch, "f32", 2, NULL);
    int32_t ids[N_TOKENS];
    float want[W] = {0}, got[W] = {0};
    setup cpu = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .exact = true, .embed = true};
    zt_ctx *ctx = zt_ctx_new();
    model host;
    draw_ids(ids, N_TOKENS, 300);
    bool good = model_open(&host, ctx, &file_data, &cpu) == ZT_OK && zt_llm_embed(host.m, ids, N_TOKENS, want) == ZT_OK;
    o->falls_back = true;
    good = good && on_open(o, &file_data, (zt_llm_opts){.ctx_len = 96, .exact = true, .embed = true}) &&
           zt_llm_embed(o->m, ids, N_TOKENS, got) == ZT_OK;
    double error = good ? nmse(want, got, W) : 1;
    ok(error < 1e-8, "%s: with steps on the cpu, NMSE %.2g", arch, error);
    on_close(o);
    o->falls_back = false;
    model_close(&host);
    zt_ctx_free(ctx);
    free(file_data.bytes);
}

/* A prompt of more numbers than a dispatch has workgroups in one direction. */
static void test_long(on *o)
{
    enum { LONG = 300 };
    file file_data = make_file("llama", "q4_k", 1, NULL);
    int32_t ids[LONG], next = -1;
    draw_ids(ids, LONG, vocab_of(&file_data));
    ok(on_open(o, &file_data, (zt_llm_opts){.ctx_len = LONG}) && !zt_llm_next(o->m, ids, LONG, &next),
       "llama: a prompt of %d tokens, and no step falls back: %s", LONG, zt_ctx_error(o->ctx));
    on_close(o);
    free(file_data.bytes);
}

/* Bytes but those that wait in the pool: which of them do depends on where an allocation failed. */
static size_t memory_in_use(const zt_engine *engine)
{
    const zt_engine_report report = engine->vt->report(engine);
    return report.held - report.pooled_bytes;
}

/* A model opened and fed while the count-th allocation of the host fails: an error or the right token,
 * and nothing is left. Not every count: each is a whole model. */
static void test_faults(on *o, const char *arch, const char *type)
{
    file file_data = make_file(arch, type, 1, NULL);
    int32_t ids[3] = {5, 6, 7}, want = -2, next;
    zt_llm_opts opts = {.ctx_len = 32, .greedy = true};
    bool good = on_open(o, &file_data, opts) && !zt_llm_next(o->m, ids, 3, &want);
    on_close(o);
    size_t blocks = zt_mem_get(o->ctx).blocks, used = memory_in_use(o->e);
    int count = 1, failed = 0;
    for (; count < 100000 && good; count += 1 + count / 12) {
        zt_mem_fail(o->ctx, (uint64_t)count, false);
        o->src = zt_source_memory(o->ctx, "made", file_data.bytes, file_data.n);
        o->g = o->src ? zt_gguf_from(o->ctx, o->src) : NULL;
        opts.engine = o->e;
        opts.kv = ZT_DTYPE_COUNT;
        o->m = o->g ? zt_llm_open(o->g, &opts) : NULL;
        zt_status status = o->m ? zt_llm_next(o->m, ids, 3, &next) : zt_ctx_status(o->ctx);
        zt_mem_fail(o->ctx, 0, false);
        good = status == ZT_OK ? next == want : status == ZT_ENOMEM;
        on_close(o);
        good = good && zt_mem_get(o->ctx).blocks == blocks;
        if (status == ZT_OK) break;
        failed++;
    }
    ok(good && failed > 20, "%s %s: %d allocations failed, each was an error", arch, type, failed);
    ok(memory_in_use(o->e) == used, "%s %s: device memory in use is what it was", arch, type);
    free(file_data.bytes);
}

static void test_engine(const char *name)
{
    static const char *const types[] = {"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k"};
    on o = {.ctx = zt_ctx_new()};
    o.e = zt_engine_open(o.ctx, name, &(zt_engine_opts){.isa = zt_isa_best()});
    if (!o.e) {
        skip("%s: %s", name, zt_ctx_error(o.ctx));
        zt_ctx_clear(o.ctx);
        zt_ctx_free(o.ctx);
        return;
    }
    diag("%s", name);
    test_counts(&o, "llama");
    test_counts(&o, "gemma3");
    test_drawn(&o, "llama");
    test_drawn(&o, "gemma3");
    test_drawn_together(&o, "llama");
    test_drawn_together(&o, "gemma3");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) test_near(&o, i % 2 ? "gemma3" : "llama", types[i]);
    test_bits(&o, "llama", "q4_1", false);
    test_bits(&o, "gemma3", "q4_k", false);
    test_bits(&o, "llama", "q6_k", true);
    test_batch(&o, "llama", "q4_0");
    test_batch(&o, "gemma3", "q8_0");
    for (size_t i = 0; i < sizeof mkmodel_archs / sizeof *mkmodel_archs; i++) {
        const char *arch = mkmodel_archs[i].name;
        if (mkmodel_has(arch, MK_ENCODER) || !strcmp(arch, "jina-bert-v2")) /* windows, linear biases */
            test_fallback_encoder(&o, arch);
        else if (mkmodel_has(arch, MK_EXPERTS) || has_steps_on_cpu(arch))
            test_fallback(&o, arch);
        else
            test_whole(&o, arch, "q8_0", NULL, "");
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) test_whole(&o, "llama", types[i], NULL, "");
    test_whole(&o, "llama", "q4_0", divisors, ", divisors of rope");
    test_long(&o);
    test_faults(&o, "gemma3", "q4_1");
    zt_engine_close(o.e);
    ok(zt_mem_get(o.ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(o.ctx);
}

int main(void)
{
    test_engine("vulkan");
    test_engine("cuda");
    return tap_done();
}
