/* speculate.c - drafts: that a text which repeats is foretold, one that does not is left alone, how
 * lengths follow what came true and what it cost, and that any change of text is borne. */
#include "lib/llm/speculate.h"
#include "tests/common/tap.h"

#include <string.h>

enum { VOCAB = 1000, MOST = 4000, PROMPT = 200 };

/* What a walk over a text came to. */
typedef struct walk {
    size_t steps, drafted, accepted;
    bool sizes; /* every batch had 1, 4, 8 or 16 rows */
} walk;

/* The text from PROMPT on, as if a model wrote it; `cost` of a batch's further rows, in steps. */
static walk follow(zt_drafts *d, const int32_t *id, size_t count, double cost)
{
    walk w = {.sizes = true};
    const int32_t *draft;
    for (size_t at = PROMPT; at < count; w.steps++) {
        size_t k = zt_drafts_next(d, id, at, count - at - 1, &draft), a = 0;
        w.sizes &= (k == 0 || k == 3 || k == 7 || k == 15) && k <= count - at - 1;
        while (a < k && draft[a] == id[at + a]) a++;
        zt_drafts_took(d, 1 + k, 1 + cost * (double)k);
        w.drafted += k;
        w.accepted += a;
        at += a + 1;
    }
    return w;
}

/* `n` tokens of no pattern, another for each seed. */
static void draw(int32_t *id, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) id[i] = (int32_t)(zt_uniform(seed, 0, i) * VOCAB);
}

static void copies(zt_ctx *ctx)
{
    int32_t id[2 * PROMPT];
    zt_drafts *d = zt_drafts_open(ctx, VOCAB);
    draw(id, PROMPT, 1);
    memcpy(id + PROMPT, id, PROMPT * sizeof *id);
    walk w = follow(d, id, 2 * PROMPT, .1);
    ok(w.sizes && w.steps < 40 && w.accepted == w.drafted && w.accepted + w.steps == PROMPT,
       "a copy is written in %zu steps of %d tokens", w.steps, PROMPT);
    for (size_t i = 20; i < PROMPT; i += 20) id[PROMPT + i] = (id[i] + 1) % VOCAB;
    w = follow(d, id, 2 * PROMPT, .1);
    ok(w.sizes && w.steps < 60 && w.accepted > 130, "with a change every 20 tokens in %zu steps", w.steps);
    zt_drafts_free(d);
}

/* How far to go is a question of costs. */
static void costs(zt_ctx *ctx)
{
    int32_t id[MOST], other[MOST];
    draw(other, MOST, 5);
    for (size_t i = 0; i < MOST; i++) id[i] = i % 7 < 2 ? other[i] : (int32_t)(i % 50);
    zt_drafts *d = zt_drafts_open(ctx, VOCAB);
    walk cheap = follow(d, id, MOST, 0);
    zt_drafts_free(d);
    d = zt_drafts_open(ctx, VOCAB);
    walk dear = follow(d, id, MOST, 1.2);
    zt_drafts_free(d);
    ok(dear.drafted * 2 < cheap.drafted && dear.steps > cheap.steps,
       "rows that cost more than a step: %zu are tried in %zu steps, not %zu in %zu", dear.drafted, dear.steps, cheap.drafted,
       cheap.steps);
}

/* Drafts of a text that goes round when `rows` rows cost so many steps, and no other size was seen. */
static size_t after(zt_ctx *ctx, size_t rows, double cost)
{
    int32_t id[60];
    const int32_t *draft;
    size_t k = 0;
    zt_drafts *d = zt_drafts_open(ctx, VOCAB);
    for (int i = 0; i < 8; i++) {
        zt_drafts_took(d, 1, 1);
        zt_drafts_took(d, rows, cost);
    }
    for (size_t i = 0; i < 60; i++) id[i] = (int32_t)(7 + i % 3);
    for (size_t n = 10; n <= 60; n++) k = zt_drafts_next(d, id, n, 15, &draft);
    zt_drafts_free(d);
    return k;
}

static void measures(zt_ctx *ctx)
{
    ok(after(ctx, 16, 8.9) < 15 && after(ctx, 16, 1.5) == 15, "a batch that costs much is not made");
    ok(after(ctx, 4, 1) == 15 && after(ctx, 4, 1.5) == 7 && after(ctx, 4, 2.7) == 3,
       "what was measured of one size is held for a hint of the others");
    ok(after(ctx, 16, 1) == 15, "of the smaller ones too: the largest is the cheapest");
}

/* A text of few different tokens, at random: places there are
 * everywhere, and they foretell nothing. */
static void noise(zt_ctx *ctx)
{
    int32_t id[MOST];
    draw(id, MOST, 2);
    for (size_t i = 0; i < MOST; i++) id[i] /= 10;
    zt_drafts *d = zt_drafts_open(ctx, VOCAB);
    walk w = follow(d, id, MOST, .25);
    double spent = (double)w.steps + .25 * (double)w.drafted;
    ok(spent < 1.01 * (MOST - PROMPT), "noise costs %.4f of steps alone", spent / (MOST - PROMPT));
    zt_drafts_free(d);
}

static void rounds(zt_ctx *ctx)
{
    int32_t id[64];
    const int32_t *draft;
    bool good = true;
    size_t k = 0;
    zt_drafts *d = zt_drafts_open(ctx, VOCAB);
    zt_drafts_took(d, 1, 1);
    for (int i = 0; i < 8; i++) zt_drafts_took(d, 16, 2);
    for (size_t i = 0; i < 64; i++) id[i] = (int32_t)(7 + i % 3);
    for (size_t n = 30; n <= 50; n++) k = zt_drafts_next(d, id, n, 15, &draft);
    for (size_t i = 0; i < k; i++) good &= draft[i] == (int32_t)(7 + (50 + i) % 3);
    ok(k == 15 && good, "what goes round goes on going round");
    ok(zt_drafts_next(d, id, 51, 14, &draft) == 7 && zt_drafts_next(d, id, 52, 2, &draft) == 0,
       "no more than there is room for, and whole batches");
    zt_drafts_free(d);
}

static void changes(zt_ctx *ctx)
{
    int32_t id[300], other[300];
    const int32_t *draft;
    bool same = true;
    zt_drafts *d = zt_drafts_open(ctx, VOCAB), *fresh = zt_drafts_open(ctx, VOCAB);
    draw(id, 300, 3);
    draw(other, 300, 4);
    zt_drafts_took(d, 1, 1);
    zt_drafts_took(fresh, 1, 1);
    zt_drafts_next(d, other, 300, 15, &draft);
    zt_drafts_next(d, id, 100, 15, &draft); /* shorter, and another */
    for (size_t n = 101; n <= 300; n++) {
        if (n > 200) id[n - 1] = id[n - 101];
        const int32_t *mine, *its;
        size_t a = zt_drafts_next(d, id, n, 15, &mine), b = zt_drafts_next(fresh, id, n, 15, &its);
        same &= a == b && memcmp(mine, its, a * sizeof *mine) == 0;
    }
    ok(same, "another text is as if it were the first");
    ok(zt_drafts_next(d, id, 0, 15, &draft) == 0, "an empty text has no draft");
    id[299] = VOCAB;
    ok(zt_drafts_next(d, id, 300, 15, &draft) == 0, "nor one with an id that there is not");
    id[299] = id[199];
    ok(zt_drafts_next(d, id, 300, 15, &draft) == zt_drafts_next(fresh, id, 300, 15, &draft), "and it goes on after that");
    zt_drafts_free(fresh);
    zt_drafts_free(d);
    zt_drafts_free(NULL);
}

/* Memory that is not there: no draft, and the context tells. */
static void test_memory(void)
{
    int32_t id[400] = {0};
    const int32_t *draft;
    zt_ctx *ctx = zt_ctx_new();
    for (uint64_t k = 1; k <= 4; k++) {
        zt_mem_fail(ctx, k, false);
        zt_drafts *d = zt_drafts_open(ctx, VOCAB);
        bool none = !d || zt_drafts_next(d, id, 400, 15, &draft) == 0;
        ok(none && zt_ctx_status(ctx) == ZT_ENOMEM, "without allocation %d", (int)k);
        zt_ctx_clear(ctx);
        if (d) zt_drafts_took(d, 1, 1);
        ok(!d || zt_drafts_next(d, id, 400, 15, &draft) > 0, "and it goes on where it can");
        zt_drafts_free(d);
    }
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    copies(ctx);
    costs(ctx);
    measures(ctx);
    noise(ctx);
    rounds(ctx);
    changes(ctx);
    zt_ctx_free(ctx);
    test_memory();
    return tap_done();
}
