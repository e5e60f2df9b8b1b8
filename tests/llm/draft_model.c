/* draft_model.c - drafts of a smaller model: that they are what the model would write, in whatever order its vocabulary is
 * and through the text of another; that lengths follow acceptance and costs; and that any change of text is borne. */
#include "lib/llm/draft_model.h"
#include "lib/llm/draft_pace.h"
#include "lib/llm/draft_words.h"
#include "tests/common/made_llm.h"
#include "tests/llm/made_vocab.h"

#include <math.h>
#include <string.h>

enum { LENGTH = 60, PROMPT = 20 };

/* ---- the pace -------------------------------------------------------------------------------- */

/* What a simulated text came to. Time is counted in steps of one row. */
typedef struct walk {
    double time;
    size_t drafted, verified;
} walk;

/* `count` tokens, of which `share` are as drafted (at random); a drafted token takes `token`, a verified row `row`. As
 * zt_draft_model_next does it, without a model. */
static walk simulate(size_t count, double share, double token, double row)
{
    zt_draft_pace pace;
    walk walked = {0};
    size_t wake = 8;
    bool drafting = false;
    uint64_t draw = 0;
    zt_pace_init(&pace);
    for (size_t at = 0; at < count;) {
        double chance[ZT_PACE_ROWS], margin = share > .5 ? 5 : 1.2, spent = 0;
        size_t drafts = 0, verified, hits = 0;
        if (drafting && (zt_pace_fails(&pace) || !zt_pace_goes_on(&pace, NULL, 0))) {
            drafting = false;
            wake = at + zt_pace_stop(&pace, 16);
        }
        if (!drafting && at >= wake && zt_pace_knows(&pace)) { /* a trial reads 16 tokens in one batch */
            zt_pace_read(&pace, 16, 2 * token);
            walked.time += 2 * token;
            for (int i = 0; i < 8; i++) zt_pace_scored(&pace, margin, zt_uniform(1, 1, draw++) < share);
            zt_pace_start(&pace);
            drafting = zt_pace_goes_on(&pace, NULL, 0);
            if (!drafting) wake = at + zt_pace_stop(&pace, 16);
        }
        bool draft = drafting && !zt_pace_is_stale(&pace);
        while (draft && drafts + 1 < ZT_PACE_ROWS && zt_pace_goes_on(&pace, chance, drafts)) {
            chance[drafts++] = zt_pace_chance(&pace, margin);
            spent += token;
        }
        zt_pace_drafted(&pace, drafts, spent);
        verified = zt_pace_best(&pace, chance, drafts);
        spent += 1 + row * (double)verified;
        zt_pace_took(&pace, 1 + verified, 1 + row * (double)verified);
        for (bool hit = true; hits < drafts && hit; hits += hit)
            zt_pace_scored(&pace, margin, hit = zt_uniform(1, 1, draw++) < share);
        size_t came = 1 + (hits < verified ? hits : verified);
        if (draft) zt_pace_round(&pace, came, spent);
        walked.time += spent;
        walked.drafted += drafts;
        walked.verified += verified;
        at += came;
    }
    return walked;
}

static void test_pace(void)
{
    static const struct {
        double share, token, row, least, most; /* gain over steps of one row */
    } cases[] = {
        {.9, .1, .05, 2, 6},      {.7, .1, .1, 1.15, 3}, {0, .1, .1, .97, 1},     {0, .5, .5, .97, 1},
        {.05, .2, .2, .97, 1.02}, {.9, 1, .1, .97, 1.1}, {.9, .1, 1.2, .97, 1.1}, {.5, .3, .3, .97, 1.2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        walk walked = simulate(1000, cases[i].share, cases[i].token, cases[i].row);
        double gain = 1000 / walked.time;
        ok(gain >= cases[i].least && gain <= cases[i].most,
           "%.0f %% accepted, %.2f steps a drafted token, %.2f a row: gain %.3f of %.2f to %.2f (%zu drafted, %zu verified)",
           100 * cases[i].share, cases[i].token, cases[i].row, gain, cases[i].least, cases[i].most, walked.drafted,
           walked.verified);
    }
}

/* ---- vocabularies ---------------------------------------------------------------------------- */

#define SP "\xe2\x96\x81"
static const char *const words[] = {"<unk>", "<s>", "</s>", SP, "a", "b", "c", "ab", SP "a", SP "ab", "abc", SP "c"};
enum { WORDS = sizeof words / sizeof *words };

/* A SentencePiece vocabulary of those words without `left_out`, from word `first` on and round, behind the control tokens. */
static made open_words(int first, int left_out)
{
    ggufw w = {0};
    char *text[WORDS];
    int32_t type[WORDS];
    float score[WORDS];
    uint64_t count = 0;
    for (int i = 0; i < WORDS; i++) {
        int word = i < 3 ? i : 3 + (i - 3 + first) % (WORDS - 3);
        if (word == left_out) continue;
        text[count] = strdup(words[word]);
        type[count] = word == 0 ? 2 : word < 3 ? 3 : 1;
        score[count++] = -(float)(WORDS - strlen(words[word]));
    }
    ggufw_str(&w, "tokenizer.ggml.model", "llama");
    ggufw_strs(&w, "tokenizer.ggml.tokens", text, count);
    ggufw_array(&w, "tokenizer.ggml.token_type", 5, count, type, 4 * (size_t)count);
    ggufw_array(&w, "tokenizer.ggml.scores", 6, count, score, 4 * (size_t)count);
    ggufw_u32(&w, "tokenizer.ggml.bos_token_id", 1);
    ggufw_u32(&w, "tokenizer.ggml.eos_token_id", 2);
    while (count) free(text[--count]);
    return open_made(&w);
}

/* Does the draft's text decode to the same bytes, and do drafts come back as the target tokenizes them? */
static void check_words(const char *what, made *target, made *draft, bool map)
{
    zt_ids ids = {0}, whole = {0};
    zt_str again;
    const char *text = "ab c abc a", *next = " ab c";
    char all[32];
    snprintf(all, sizeof all, "%s%s", text, next);
    zt_str_init(&again, target->ctx);
    zt_draft_words *w = zt_draft_words_open(target->ctx, target->v, draft->v, INT32_MAX);
    zt_vocab_encode(target->v, text, strlen(text), ZT_TOK_BOS, &ids);
    zt_vocab_encode(target->v, all, strlen(all), ZT_TOK_BOS, &whole);
    const zt_ids *followed = NULL;
    for (size_t n = 1; n <= ids.count; n++) followed = zt_draft_words_follow(w, ids.id, 0, n);
    for (size_t i = 1; followed && i < followed->count; i++) zt_vocab_decode(draft->v, followed->id[i], false, i == 1, &again);
    ok(w && zt_draft_words_map(w) == map && followed && followed->id[0] == zt_vocab_bos(draft->v) && again.len == strlen(text) &&
           !memcmp(again.data, text, again.len),
       "%s: the text in the draft's tokens is '%.*s'", what, (int)again.len, again.len ? again.data : "");

    zt_ids drafted = {0};
    int32_t out[16];
    size_t last[16], came = 0;
    zt_vocab_encode(draft->v, next + 1, strlen(next) - 1, 0, &drafted);
    if (w) came = zt_draft_words_back(w, drafted.id, drafted.count, 16, out, last);
    bool same = came > 0 && ids.count + came == whole.count && last[came - 1] == drafted.count - 1;
    for (size_t i = 0; same && i < came; i++) same = out[i] == whole.id[ids.count + i];
    ok(same, "%s: %zu drafted tokens are %zu of the target", what, drafted.count, came);

    int32_t changed[64];
    memcpy(changed, ids.id, ids.count * sizeof *changed);
    zt_draft_words_follow(w, changed, 0, 3);
    followed = zt_draft_words_follow(w, changed, 0, ids.count);
    zt_draft_words *fresh = zt_draft_words_open(target->ctx, target->v, draft->v, INT32_MAX);
    size_t size = followed ? followed->count : 0;
    followed = zt_draft_words_follow(fresh, changed, 0, ids.count);
    ok(size && followed && (!map || size == followed->count), "%s: a text that was cut goes on", what);
    zt_draft_words_free(fresh);
    zt_draft_words_free(w);
    zt_ids_fini(target->ctx, &drafted);
    zt_ids_fini(target->ctx, &whole);
    zt_ids_fini(target->ctx, &ids);
    zt_str_fini(&again);
}

static void test_words(void)
{
    made target = open_words(0, -1), other = open_words(4, -1), less = open_words(2, 7);
    if (ok(target.v && other.v && less.v, "three vocabularies")) {
        check_words("the same vocabulary", &target, &target, true);
        check_words("another order", &target, &other, true);
        check_words("a token less", &target, &less, false);
        check_words("a token more", &less, &target, true);
    }
    close_made(&target);
    close_made(&other);
    close_made(&less);
}

/* ---- a model --------------------------------------------------------------------------------- */

static double clock_seconds;
static double fake_seconds(void) { return clock_seconds += .01; }

/* LENGTH tokens that the model writes behind PROMPT drawn ones. */
static bool write_text(const file *made_file, const zt_sampler *sampler, int32_t *ids)
{
    zt_ctx *ctx = zt_ctx_new();
    model o;
    setup options = {.engine = "cpu", .threads = 1, .ctx_len = 128};
    bool good = model_open(&o, ctx, made_file, &options) == ZT_OK;
    int64_t vocab = good ? zt_llm_get(o.m).vocab : 1;
    float *logits = calloc((size_t)vocab * 3, sizeof *logits);
    draw_ids(ids, PROMPT, vocab);
    for (int at = 0, next = PROMPT; good && next < LENGTH; at = next++) {
        good = zt_llm_feed(o.m, ids + at, (size_t)(next - at), false, logits) == ZT_OK;
        ids[next] = zt_sample(sampler, logits, vocab, ids, (size_t)next, next, logits + vocab);
    }
    free(logits);
    model_close(&o);
    zt_ctx_free(ctx);
    return good;
}

/* A model drafts what it writes itself: every token is right. */
static void test_own_drafts(const file *made_file, const char *arch, double temp)
{
    int32_t ids[LENGTH];
    zt_sampler sampler = zt_sampler_defaults();
    sampler.temp = temp;
    sampler.seed = 5;
    sampler.repeat_penalty = temp > 0 ? 1.1 : 1;
    bool good = write_text(made_file, &sampler, ids);
    zt_ctx *ctx = zt_ctx_new();
    model o;
    setup options = {.engine = "cpu", .threads = 1, .ctx_len = 128};
    good = good && model_open(&o, ctx, made_file, &options) == ZT_OK;
    zt_vocab *vocab = good ? zt_vocab_open(o.g) : NULL;
    zt_draft_model *drafts = zt_draft_model_open(
        &(zt_draft_model_opts){.model = o.m, .model_vocab = vocab, .vocab = vocab, .length = 5, .seconds = fake_seconds});
    size_t drafted = 0, right = 0, rounds = 0;
    const int32_t *draft;
    for (size_t at = PROMPT; drafts && at < LENGTH; rounds++) {
        size_t k = zt_draft_model_next(drafts, ids, at, LENGTH - at, &sampler, &draft), hits = 0;
        while (hits < k && draft[hits] == ids[at + hits]) hits++;
        drafted += k;
        right += hits;
        zt_draft_model_took(drafts, 1 + k, 1);
        at += hits + (rounds % 3 == 0 || hits == 0); /* with and without a token of the target's own */
    }
    ok(good && drafts && drafted > LENGTH / 2 && right == drafted, "%s at temperature %.1f: %zu of %zu of its own tokens %s",
       arch, temp, right, drafted, zt_ctx_error(ctx));
    int32_t changed[PROMPT];
    draw_ids(changed, PROMPT, 50);
    bool bears = drafts && zt_draft_model_next(drafts, changed, PROMPT, 3, NULL, &draft) <= 3 &&
                 zt_draft_model_next(drafts, ids, 1, 1, NULL, &draft) <= 1 &&
                 zt_draft_model_next(drafts, ids, 0, 1, NULL, &draft) == 0;
    ok(bears && zt_ctx_status(ctx) == ZT_OK, "%s: other texts are borne", arch);
    zt_draft_model_free(drafts);
    zt_vocab_free(vocab);
    model_close(&o);
    ok(zt_mem_get(ctx).blocks == 0, "%s: nothing leaks", arch);
    zt_ctx_free(ctx);
}

/* Adaptive: a step of the target takes `step`, the draft's clock runs on by .01 with each look. */
static size_t adapt(const file *made_file, const int32_t *ids, double step, double row)
{
    zt_ctx *ctx = zt_ctx_new();
    model o;
    setup options = {.engine = "cpu", .threads = 1, .ctx_len = 256};
    size_t drafted = 0;
    const int32_t *draft;
    if (model_open(&o, ctx, made_file, &options) == ZT_OK) {
        zt_vocab *vocab = zt_vocab_open(o.g);
        zt_draft_model *drafts = zt_draft_model_open(
            &(zt_draft_model_opts){.model = o.m, .model_vocab = vocab, .vocab = vocab, .seconds = fake_seconds});
        for (size_t at = PROMPT; drafts && at < LENGTH;) {
            size_t k = zt_draft_model_next(drafts, ids, at, LENGTH - at, NULL, &draft), hits = 0;
            while (hits < k && draft[hits] == ids[at + hits]) hits++;
            zt_draft_model_took(drafts, 1 + k, step * (1 + row * (double)k));
            drafted += k;
            at += hits + 1;
        }
        zt_draft_model_free(drafts);
        zt_vocab_free(vocab);
    }
    model_close(&o);
    zt_ctx_free(ctx);
    return drafted;
}

static void test_adapts(const file *made_file, const file *other)
{
    int32_t ids[LENGTH];
    zt_sampler greedy = zt_sampler_defaults();
    greedy.temp = 0;
    bool good = write_text(made_file, &greedy, ids);
    size_t cheap = adapt(made_file, ids, 1, .05), dear = adapt(made_file, ids, .001, .05), rows = adapt(made_file, ids, 1, 1.5);
    ok(good && cheap > 10, "a draft model that is fast and right drafts %zu tokens", cheap);
    ok(dear == 0 && rows < cheap / 2, "one that is slow %zu; where rows cost as much as steps %zu", dear, rows);
    size_t equal = adapt(made_file, ids, .01, .05); /* the model itself: nothing is drafted, not even to find out */
    ok(equal == 0, "one that is as slow as the model %zu", equal);
    size_t wrong = adapt(other, ids, 1, .3);
    ok(wrong < cheap / 2, "one that is wrong %zu", wrong);
}

static void test_faults(const file *made_file)
{
    int32_t ids[PROMPT];
    const int32_t *draft;
    draw_ids(ids, PROMPT, 200);
    zt_ctx *ctx = zt_ctx_new();
    model o;
    setup options = {.engine = "cpu", .threads = 1, .ctx_len = 128};
    bool good = model_open(&o, ctx, made_file, &options) == ZT_OK;
    zt_vocab *vocab = good ? zt_vocab_open(o.g) : NULL;
    zt_draft_model_opts opts = {.model = o.m, .model_vocab = vocab, .vocab = vocab, .length = ZT_DRAFT_ROWS};
    ok(!zt_draft_model_open(&opts) && zt_ctx_status(ctx) == ZT_EUSAGE, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    opts.length = 4;
    int failed = 0;
    for (uint64_t k = 1; k <= 40; k++) {
        zt_mem_fail(ctx, k, false);
        zt_draft_model *drafts = zt_draft_model_open(&opts);
        if (drafts) zt_draft_model_next(drafts, ids, PROMPT, 4, NULL, &draft);
        failed += zt_ctx_status(ctx) == ZT_ENOMEM;
        zt_mem_fail(ctx, 0, false);
        zt_ctx_clear(ctx);
        if (drafts && zt_draft_model_next(drafts, ids, PROMPT, 4, NULL, &draft) == 0) failed = -100;
        zt_draft_model_free(drafts);
    }
    ok(failed > 5, "memory that is not there fails %d drafts, and the next one is made", failed);
    zt_vocab_free(vocab);
    model_close(&o);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
}

int main(void)
{
    file llama = make_file("llama", "q8_0", 2, NULL);
    file recurrent = make_file("qwen3next", "q8_0", 2, NULL);
    test_pace();
    test_words();
    test_own_drafts(&llama, "llama", 0);
    test_own_drafts(&llama, "llama", .8);
    test_own_drafts(&recurrent, "qwen3next", 0);
    test_adapts(&llama, &recurrent);
    test_faults(&llama);
    free(llama.bytes);
    free(recurrent.bytes);
    return tap_done();
}
