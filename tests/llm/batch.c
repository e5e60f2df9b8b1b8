/* batch.c - texts side by side through one model: each gets the bits it gets alone, whatever comes
 * before, beside and after it, in whatever chunks, however short memory is; what texts begin with
 * alike is in the cache once; failures lose no text. */
#include "tests/common/made_llm.h"

#include <math.h>

enum { TEXTS = 33, CTX = 128, SEQS = 40, MORE = 1500 };

/* ---- texts ----------------------------------------------------------------------------------- */

typedef struct text {
    zt_ctx *ctx;
    zt_ids ids;
    int64_t V;
    int make;      /* tokens to come */
    bool logits;   /* drawn from them, else the likeliest */
    uint64_t seen; /* of all logits it got, or of all tokens */
    int32_t id;
    bool done;
} text;

static void mix(text *t, const void *p, size_t n)
{
    const unsigned char *c = p;
    for (size_t i = 0; i < n; i++) t->seen = (t->seen ^ c[i]) * UINT64_C(1099511628211);
}

static zt_status next(void *user, float *logits, int32_t best, bool *more)
{
    text *buffer = user;
    zt_sampler sampler = zt_sampler_defaults();
    sampler.seed = (uint64_t)buffer->id;
    sampler.temp = 3;
    if (logits) {
        float *scratch = calloc((size_t)buffer->V, 2 * sizeof *scratch);
        mix(buffer, logits, (size_t)buffer->V * sizeof *logits);
        best = zt_sample(&sampler, logits, buffer->V, buffer->ids.id, buffer->ids.count, (int64_t)buffer->ids.count, scratch);
        free(scratch);
        logits[0] = NAN; /* they are ours */
    }
    mix(buffer, &best, sizeof best);
    zt_status st = zt_ids_push(buffer->ctx, &buffer->ids, best);
    buffer->done = --buffer->make == 0 || st != ZT_OK;
    *more = !buffer->done;
    return st;
}

/* Text k: beginnings in common of 0 to 90 tokens with some of the others, 1 to 100 in all. */
static text make_text(zt_ctx *ctx, int k, int64_t V)
{
    text t = {.ctx = ctx, .V = V, .id = k, .logits = k % 3 != 1};
    int same = k % 4 * 30, count = same + 1 + k * 5 % 10;
    t.make = 1 + k * 37 % (CTX - count);
    for (int i = 0; i < count; i++) {
        double u = zt_uniform(5, i < same ? 1000 : (uint64_t)k, (uint64_t)i);
        zt_ids_push(ctx, &t.ids, (int32_t)(u * (double)V));
    }
    return t;
}

static bool same_text(const text *a, const text *b)
{
    return a->done && a->seen == b->seen && a->ids.count == b->ids.count &&
           memcmp(a->ids.id, b->ids.id, a->ids.count * sizeof *a->ids.id) == 0;
}

/* What text k gets alone, fed as ever. */
static zt_status alone(zt_llm *m, text *buffer, float *y)
{
    zt_status s = zt_llm_rewind(m, 0);
    bool more = true;
    for (size_t at = 0; s == ZT_OK && more;) {
        int32_t best = -1;
        const int32_t *from = buffer->ids.id + at;
        size_t total = buffer->ids.count - at;
        at = buffer->ids.count;
        s = buffer->logits ? zt_llm_feed(m, from, total, false, y) : zt_llm_next(m, from, total, &best);
        if (s == ZT_OK) s = next(buffer, buffer->logits ? y : NULL, best, &more);
    }
    return s;
}

/* ---- any number of them ---------------------------------------------------------------------- */

typedef struct stage {
    zt_ctx *ctx;
    model o;
    zt_batch *b;
    text want[TEXTS], got[TEXTS];
    int64_t V;
} stage;

static bool open_stage(stage *t, const file *file_data, const setup *options, bool forget)
{
    *t = (stage){.ctx = zt_ctx_new()};
    if (model_open(&t->o, t->ctx, file_data, options) == ZT_OK)
        t->b = zt_batch_open(t->o.m, &(zt_batch_opts){.next = next, .forget = forget});
    if (!t->b) return false;
    t->V = zt_llm_get(t->o.m).vocab;
    return true;
}

static bool close_stage(stage *t)
{
    for (int k = 0; k < TEXTS; k++) {
        zt_ids_fini(t->ctx, &t->want[k].ids);
        zt_ids_fini(t->ctx, &t->got[k].ids);
    }
    zt_batch_close(t->b);
    model_close(&t->o);
    bool empty = zt_mem_get(t->ctx).blocks == 0;
    if (!empty || zt_ctx_status(t->ctx)) diag("%zu blocks left: %s", zt_mem_get(t->ctx).blocks, zt_ctx_error(t->ctx));
    zt_ctx_free(t->ctx);
    return empty;
}

/* All wanted texts, by a model of its own: here there is but the batch's. */
static bool know(stage *t, const file *file_data, const setup *options)
{
    model o;
    setup one = *options;
    float *y = calloc(4096, sizeof *y);
    one.n_seq = one.cache_len = one.chunk = 0;
    zt_status st = model_open(&o, t->ctx, file_data, &one);
    for (int k = 0; k < TEXTS && st == ZT_OK; k++) {
        t->want[k] = make_text(t->ctx, k, t->V);
        st = alone(o.m, &t->want[k], y);
    }
    model_close(&o);
    free(y);
    return st == ZT_OK;
}

/* total texts, `late` of them added only after some steps each. */
static bool run_texts(stage *t, int total, int late)
{
    zt_status s = ZT_OK;
    bool good = true;
    for (int k = 0; k < total; k++) {
        zt_ids_fini(t->ctx, &t->got[k].ids);
        t->got[k] = make_text(t->ctx, k, t->V);
    }
    for (int k = 0; k < total && s == ZT_OK; k++) {
        s = zt_batch_add(t->b, &t->got[k], &t->got[k].ids, t->got[k].logits);
        for (int i = 0; i < 3 && k >= total - late && s == ZT_OK; i++) s = zt_batch_step(t->b);
    }
    for (int i = 0; s == ZT_OK && zt_batch_counted(t->b).texts > 0 && i < 5000; i++) s = zt_batch_step(t->b);
    for (int k = 0; k < total; k++)
        if (!same_text(&t->want[k], &t->got[k])) {
            diag("text %d of %d: %zu tokens, %zu wanted", k, total, t->got[k].ids.count, t->want[k].ids.count);
            good = false;
        }
    return s == ZT_OK && good;
}

/* Batches of 1, 1 + by, ... texts. */
static void test_sizes(const char *arch, const char *type, setup options, int by, const char *what)
{
    file file_data = make_file(arch, type, 2, NULL);
    stage t;
    options.ctx_len = CTX;
    bool good = open_stage(&t, &file_data, &options, false) && know(&t, &file_data, &options);
    for (int n = 1; n <= TEXTS && good; n += by) good = run_texts(&t, n, n / by % 4);
    zt_batch_count c = good ? zt_batch_counted(t.b) : (zt_batch_count){0};
    ok(good, "%s %s, %s: batches of 1..%d get what each text gets alone", arch, type, what, TEXTS);
    bool shares = !mkmodel_has(arch, MK_DELTA) || options.cache_len >= SEQS * CTX; /* states on the way need room */
    ok(c.texts == 0 && c.running == 0 && (c.shared > 0 || !shares) && c.rows > 0 && c.pages.used <= c.pages.blocks,
       "%d tokens fed in %d steps, %d there already, %d times put back", (int)c.rows, (int)c.steps, (int)c.shared,
       (int)c.put_back);
    if (options.cache_len < 2 * CTX && options.chunk > 1) ok(c.put_back > 0, "memory was short: texts had to wait again");
    ok(close_stage(&t), "nothing is left allocated");
    free(file_data.bytes);
}

/* ---- what is counted ------------------------------------------------------------------------- */

/* Two of one long beginning, at once and one after the other: blocks of it are there once. */
static void test_shared(void)
{
    file file_data = make_file("llama", "q8_0", 2, NULL);
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .ctx_len = CTX, .n_seq = 3, .cache_len = 8 * CTX};
    stage t;
    bool good = open_stage(&t, &file_data, &options, false);
    for (int k = 0; k < 4; k++) {
        t.got[k] = make_text(t.ctx, 3, t.V); /* more than 90 tokens in common */
        t.got[k].make = 5;
        t.got[k].logits = false;
    }
    int64_t total = (int64_t)t.got[0].ids.count;
    zt_ids_push(t.ctx, &t.got[3].ids, 1);
    for (int k = 0; k < 2 && good; k++) good = zt_batch_add(t.b, &t.got[k], &t.got[k].ids, false) == ZT_OK;
    good = good && zt_batch_step(t.b) == ZT_OK;
    zt_batch_count c = zt_batch_counted(t.b);
    ok(good && c.running == 2 && c.pages.shared == 2 && c.shared == 64 && (int64_t)c.rows == 2 * total - 64,
       "two that begin alike share whole blocks in their first step: %d of %d tokens fed", (int)c.rows, (int)(2 * total));
    for (int i = 0; i < 4 && good; i++) good = zt_batch_step(t.b) == ZT_OK;
    c = zt_batch_counted(t.b);
    ok(good && c.texts == 0 && c.pages.sequences == 2, "done texts are kept for others");
    good = zt_batch_add(t.b, &t.got[2], &t.got[2].ids, false) == ZT_OK && zt_batch_step(t.b) == ZT_OK;
    c = zt_batch_counted(t.b);
    ok(good && c.shared == 128 && c.pages.shared == 2, "the next shares with one that is done");
    while (good && zt_batch_counted(t.b).texts > 0) good = zt_batch_step(t.b) == ZT_OK;
    bool same = t.got[0].ids.count == (size_t)total + 5;
    for (int k = 1; k < 3; k++) same = same && memcmp(t.got[0].ids.id, t.got[k].ids.id, t.got[0].ids.count * 4) == 0;
    ok(good && same, "all three have one text");
    good = zt_batch_add(t.b, &t.got[3], &t.got[3].ids, false) == ZT_OK && zt_batch_step(t.b) == ZT_OK;
    ok(good && zt_batch_counted(t.b).pages.sequences <= 3, "a kept one goes where none is free");
    zt_batch_drop(t.b, &t.got[3]);
    ok(zt_batch_counted(t.b).texts == 0 && t.got[3].ids.count == (size_t)total + 2, "one is dropped");
    ok(close_stage(&t), "nothing is left allocated");
    free(file_data.bytes);
}

/* A conversation goes on where it was: only what is new is fed. */
static void test_resumed(void)
{
    file file_data = make_file("gemma3", "q8_0", 2, NULL);
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .ctx_len = CTX, .n_seq = 1};
    stage t;
    bool good = open_stage(&t, &file_data, &options, false);
    t.got[0] = make_text(t.ctx, 6, t.V);
    for (int turn = 0; turn < 3 && good; turn++) {
        t.got[0].make = 4;
        good = zt_batch_add(t.b, &t.got[0], &t.got[0].ids, true) == ZT_OK;
        while (good && zt_batch_counted(t.b).texts > 0) good = zt_batch_step(t.b) == ZT_OK;
    }
    zt_batch_count c = zt_batch_counted(t.b);
    ok(good && c.rows == t.got[0].ids.count - 1, "three turns: each of %d tokens is fed once", (int)c.rows);
    ok(close_stage(&t), "nothing is left allocated");
    free(file_data.bytes);
}

/* One that is done leaves, and the next enters in the step after, while others go on. */
static void test_continuous(void)
{
    file file_data = make_file("llama", "q4_1", 2, NULL);
    setup options = {
        .engine = "cpu", .threads = 2, .isa = zt_isa_best(), .ctx_len = CTX, .n_seq = 2, .cache_len = 4 * CTX, .chunk = 16};
    stage t;
    bool good = open_stage(&t, &file_data, &options, false);
    static const int make[4] = {9, 2, 3, 30};
    for (int k = 0; k < 4 && good; k++) {
        t.got[k] = make_text(t.ctx, 4 * k, t.V);
        t.got[k].make = make[k];
        good = zt_batch_add(t.b, &t.got[k], &t.got[k].ids, k % 2) == ZT_OK;
    }
    bool always = true;
    int steps = 0;
    while (good && !t.got[0].done) {
        good = zt_batch_step(t.b) == ZT_OK;
        always = always && zt_batch_counted(t.b).running + t.got[0].done + t.got[1].done + t.got[2].done >= 1;
        steps++;
    }
    /* 0: steps 1..9; 1: 1..2; 2: 3..5; then 3 has made 4 when 0 is done. */
    ok(good && always && steps == 9 && t.got[1].done && t.got[2].done && t.got[3].make == 30 - 4,
       "who is done makes room in the next step: %d to come after %d steps", t.got[3].make, steps);
    ok(close_stage(&t), "nothing is left allocated");
    free(file_data.bytes);
}

static int32_t bans[] = {-1, -1, 0, 1 << 30}; /* two that the text would have, and none of it */

/* The likeliest but for the bans. */
static zt_status next_allowed(void *user, float *logits, int32_t best, bool *more)
{
    text *buffer = user;
    for (int i = 0; logits && i < 3; i++) logits[bans[i]] = -INFINITY;
    if (logits) best = zt_sample(&(zt_sampler){.top_p = 1, .repeat_penalty = 1}, logits, buffer->V, NULL, 0, 0, NULL);
    *more = --buffer->make > 0;
    return zt_ids_push(buffer->ctx, &buffer->ids, best);
}

/* Texts that never get some tokens: whether the batch sees to that or they look for themselves. */
static void test_banned(void)
{
    file file_data = make_file("llama", "q4_1", 2, NULL);
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .ctx_len = CTX, .n_seq = 3};
    stage t;
    bool good = open_stage(&t, &file_data, &options, false);
    zt_batch_close(t.b);
    t.b = zt_batch_open(t.o.m, &(zt_batch_opts){.next = next_allowed});
    good = good && t.b;
    size_t total = 0;
    for (int round = 0; round < 2 && good; round++) {
        for (int k = 0; k < 3 && good; k++) {
            zt_ids_fini(t.ctx, &t.got[k].ids);
            t.got[k] = make_text(t.ctx, 5, t.V);
            t.got[k].make = 20;
            total = t.got[k].ids.count;
        }
        good = good && zt_batch_add(t.b, &t.got[0], &t.got[0].ids, false) == ZT_OK;
        if (round) /* the first time the tokens to be banned are not known */
            good = good && zt_batch_add(t.b, &t.got[1], &t.got[1].ids, true) == ZT_OK &&
                   zt_batch_add_best(t.b, &t.got[2], &t.got[2].ids, bans, 4) == ZT_OK;
        while (good && zt_batch_counted(t.b).texts > 0) good = zt_batch_step(t.b) == ZT_OK;
        for (int i = 0; i < 2 && good; i++) bans[i] = t.got[0].ids.id[total + 7 * (size_t)i];
    }
    bool differs = false, none = true;
    for (size_t i = total; good && i < total + 20; i++) {
        differs = differs || t.got[0].ids.id[i] != t.got[2].ids.id[i];
        for (int k = 0; k < 3; k++) none = none && t.got[2].ids.id[i] != bans[k];
    }
    ok(good && differs && none && t.got[2].ids.count == total + 20 &&
           memcmp(t.got[1].ids.id, t.got[2].ids.id, (total + 20) * sizeof(int32_t)) == 0,
       "of banned tokens the batch gives none, but the likeliest of the others");
    ok(close_stage(&t), "nothing is left allocated");
    free(file_data.bytes);
}

/* ---- refusals and failures ------------------------------------------------------------------- */

static bool text_refused(stage *t, zt_ids ids, zt_status want)
{
    zt_status s = zt_batch_add(t->b, t, &ids, true);
    bool right = s == want && zt_ctx_error(t->ctx)[0];
    zt_ctx_clear(t->ctx);
    return right && zt_batch_counted(t->b).texts == 0;
}

static zt_status never_more(void *user, float *logits, int32_t best, bool *more)
{
    (void)user, (void)logits, (void)best;
    *more = true;
    return ZT_OK;
}

static void zeros_as_rope(ggufw *w) { add_vector(w, "rope_freqs.weight", 8, 0); }

static void test_refused(void)
{
    file file_data = make_file("llama", "q8_0", 1, NULL);
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .ctx_len = CTX, .n_seq = 2};
    stage t;
    int32_t many[CTX + 1] = {0}, bad[2] = {1, -1}, high[1];
    ok(open_stage(&t, &file_data, &options, false), "opened");
    high[0] = (int32_t)t.V;
    ok(text_refused(&t, (zt_ids){0}, ZT_EUSAGE), "no tokens");
    ok(text_refused(&t, (zt_ids){many, CTX + 1, 0}, ZT_ENOMEM), "more than the context holds");
    ok(text_refused(&t, (zt_ids){bad, 2, 0}, ZT_EUSAGE), "a token below 0");
    ok(text_refused(&t, (zt_ids){high, 1, 0}, ZT_EUSAGE), "a token beyond the vocabulary");
    ok(zt_batch_step(t.b) == ZT_OK, "a step without texts is nothing");
    zt_batch *batch = zt_batch_open(t.o.m, &(zt_batch_opts){.next = never_more});
    zt_ids one = {many, 1, 0};
    bool wrong = zt_batch_add(batch, &one, &one, false) == ZT_OK && zt_batch_step(batch) == ZT_EUSAGE;
    ok(wrong, "who goes on without a token: %s", zt_ctx_error(t.ctx));
    zt_ctx_clear(t.ctx);
    zt_batch_close(batch);
    ok(close_stage(&t), "nothing is left allocated");
    free(file_data.bytes);
    file_data = make_file("llama", "f32", 1, zeros_as_rope);
    bool good = open_stage(&t, &file_data, &options, false);
    for (int k = 0; k < 2; k++) {
        t.got[k] = (text){.ctx = t.ctx, .V = t.V, .make = 1};
        zt_ids_push(t.ctx, &t.got[k].ids, 3);
        good = good && zt_batch_add(t.b, &t.got[k], &t.got[k].ids, false) == ZT_OK;
    }
    good = good && zt_batch_step(t.b) == ZT_OK;
    ok(good && t.got[0].ids.id[1] == -1 && t.got[1].ids.id[1] == -1, "where no logit is a number the likeliest is -1");
    ok(close_stage(&t), "nothing is left allocated");
    free(file_data.bytes);
}

/* Each allocation failing, at opening and later: a failed step is
 * done again, and nothing is lost. */
static bool survive(const file *file_data, const stage *k, uint64_t nth, bool *good)
{
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .ctx_len = CTX, .n_seq = 4};
    stage t;
    *good = true;
    if (!open_stage(&t, file_data, &options, false)) {
        *good = false;
        return false;
    }
    uint64_t before = zt_mem_get(t.ctx).calls;
    zt_mem_fail(t.ctx, nth, false);
    for (int i = 0; i < 4 && *good; i++) {
        t.got[i] = make_text(t.ctx, i, t.V);
        while (t.got[i].ids.count < k->want[i].ids.count - (size_t)t.got[i].make) { /* refused while made */
            zt_ctx_clear(t.ctx);
            zt_ids_fini(t.ctx, &t.got[i].ids);
            t.got[i] = make_text(t.ctx, i, t.V);
        }
        zt_status st = zt_batch_add(t.b, &t.got[i], &t.got[i].ids, t.got[i].logits);
        if (st == ZT_ENOMEM) {
            zt_ctx_clear(t.ctx);
            st = zt_batch_add(t.b, &t.got[i], &t.got[i].ids, t.got[i].logits);
        }
        *good = st == ZT_OK;
    }
    bool lost = false; /* by the callback's own allocation */
    for (int i = 0; i < 500 && *good && zt_batch_counted(t.b).texts > 0; i++) {
        zt_status st = zt_batch_step(t.b);
        lost |= st == ZT_ENOMEM;
        *good = st == ZT_OK || st == ZT_ENOMEM;
        zt_ctx_clear(t.ctx);
    }
    int same = 0;
    for (int i = 0; i < 4; i++) same += same_text(&k->want[i], &t.got[i]);
    *good = *good && same >= 4 - lost;
    if (!*good) diag("allocation %d: %d of 4 texts", (int)nth, same);
    bool reached = zt_mem_get(t.ctx).calls - before >= nth;
    zt_mem_fail(t.ctx, 0, false);
    *good &= close_stage(&t);
    return reached;
}

static void test_failing(void)
{
    file file_data = make_file("llama", "q8_0", 1, NULL);
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .ctx_len = CTX, .n_seq = 4};
    stage k;
    bool good = open_stage(&k, &file_data, &options, false) && know(&k, &file_data, &options);
    uint64_t nth = 1;
    while (good && survive(&file_data, &k, nth, &good)) nth++;
    ok(good && nth > 20, "each of %d allocations failing, once", (int)nth - 1);
    close_stage(&k);
    free(file_data.bytes);
}

/* A limit under which no chunk of all texts fits: fewer run, and all are answered. */
static void test_limit(void)
{
    file file_data = make_file("llama", "q8_0", 2, NULL);
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .ctx_len = CTX, .n_seq = SEQS, .cache_len = 4 * CTX};
    stage t;
    bool good = open_stage(&t, &file_data, &options, false) && know(&t, &file_data, &options);
    for (int k = 0; k < TEXTS && good; k++) t.got[k] = make_text(t.ctx, k, t.V);
    size_t held = zt_mem_get(t.ctx).held;
    zt_mem_limit(t.ctx, held + ((size_t)MORE << 10));
    good = good && run_texts(&t, TEXTS, 0);
    ok(good && zt_batch_counted(t.b).put_back > 0, "with %d KB more than it holds a batch gets on, fewer at once", MORE);
    zt_mem_limit(t.ctx, 0);
    ok(close_stage(&t), "nothing is left allocated");
    free(file_data.bytes);
}

int main(void)
{
    setup wide = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .n_seq = SEQS, .cache_len = SEQS * CTX};
    test_sizes("llama", "q4_1", wide, 1, "room for all");
    setup small = wide;
    small.cache_len = CTX + 96;
    small.chunk = 24;
    test_sizes("llama", "q8_0", small, 4, "little memory");
    small.n_seq = 5;
    small.threads = 3;
    test_sizes("gemma3", "q4_k", small, 4, "little memory, windows");
    small.chunk = 1;
    small.isa = ZT_ISA_SCALAR;
    test_sizes("qwen2", "f16", small, 16, "token by token, scalar");
    test_sizes("qwen35", "q4_1", wide, 1, "states, room for all");
    small.chunk = 24;
    small.isa = zt_isa_best();
    test_sizes("qwen3next", "f32", small, 4, "states, little memory");
    small.chunk = 1;
    test_sizes("qwen35moe", "q8_0", small, 16, "states, token by token");
    test_shared();
    test_resumed();
    test_continuous();
    test_banned();
    test_refused();
    test_failing();
    test_limit();
    return tap_done();
}
