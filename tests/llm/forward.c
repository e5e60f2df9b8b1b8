/* forward.c - forward passes from a program's text: the bits of the row that the text was printed from, and texts that
 * are damaged: a line removed, words exchanged, allocations that fail. */
#include "tests/common/made_llm.h"

typedef struct text_case {
    zt_ctx *ctx;
    zt_source *source;
    zt_gguf *gguf;
    zt_engine *engine;
} text_case;

static bool case_open(text_case *test, const file *file_data, const char *engine)
{
    *test = (text_case){.ctx = zt_ctx_new()};
    zt_engine_opts options = {.threads = 2, .isa = zt_isa_best()};
    test->source = zt_source_memory(test->ctx, "made", file_data->bytes, file_data->n);
    test->gguf = test->source ? zt_gguf_from(test->ctx, test->source) : NULL;
    test->engine = test->gguf ? zt_engine_open(test->ctx, engine, &options) : NULL;
    return test->engine;
}

static size_t case_close(text_case *test)
{
    zt_engine_close(test->engine);
    zt_gguf_close(test->gguf);
    zt_source_close(test->source);
    size_t blocks = zt_mem_get(test->ctx).blocks;
    zt_ctx_free(test->ctx);
    return blocks;
}

static zt_llm_opts options_of(const text_case *test, const zt_prog *forward, bool exact)
{
    return (zt_llm_opts){.engine = test->engine,
                         .exact = exact,
                         .kv = ZT_DTYPE_COUNT,
                         .ctx_len = 96,
                         .chunk = 24,
                         .forward = forward,
                         .forward_name = "t.zt"};
}

/* The text of the row's forward pass; the caller frees it. */
static char *print_forward(const file *file_data, size_t *length)
{
    text_case test;
    zt_str text;
    char *copy = NULL;
    if (case_open(&test, file_data, "cpu")) {
        zt_llm_opts options = options_of(&test, NULL, false);
        zt_prog *program = zt_llm_program(test.gguf, &options);
        zt_str_init(&text, test.ctx);
        if (program && zt_prog_model_path(program, NULL) == ZT_OK && zt_prog_print(program, &text) == ZT_OK) {
            copy = malloc(text.len + 1);
            memcpy(copy, text.data, text.len + 1);
            *length = text.len;
        }
        zt_str_fini(&text);
        zt_prog_free(program);
    }
    case_close(&test);
    return copy;
}

/* ---- the same bits --------------------------------------------------------------------------- */

static zt_status feed_logits(text_case *test, const zt_prog *forward, bool exact, float **logits, int64_t *vocab)
{
    zt_llm_opts options = options_of(test, forward, exact);
    zt_llm *llm = zt_llm_open(test->gguf, &options);
    int32_t ids[N_TOKENS];
    *vocab = zt_llm_get(llm).vocab;
    *logits = malloc((size_t)(N_TOKENS * (*vocab + 1)) * sizeof **logits);
    draw_ids(ids, N_TOKENS, *vocab ? *vocab : 1);
    zt_status status = llm ? zt_llm_feed(llm, ids, N_TOKENS, true, *logits) : zt_ctx_status(test->ctx);
    zt_llm_close(llm);
    return status;
}

static void test_same(const char *arch, const char *type, const char *engine, bool exact)
{
    file file_data = make_file(arch, type, 2, NULL);
    size_t length = 0;
    char *text = print_forward(&file_data, &length);
    text_case test;
    float *by_row = NULL, *by_text = NULL;
    int64_t vocab = 0, text_vocab = 0;
    bool opened = text && case_open(&test, &file_data, engine);
    zt_prog *forward = opened ? zt_prog_parse(test.ctx, "t.zt", text, length) : NULL;
    bool good = forward && feed_logits(&test, NULL, exact, &by_row, &vocab) == ZT_OK &&
                feed_logits(&test, forward, exact, &by_text, &text_vocab) == ZT_OK && vocab == text_vocab &&
                !memcmp(by_row, by_text, (size_t)(N_TOKENS * vocab) * sizeof *by_row);
    ok(good, "%s, %s, on %s%s: the logits of the row %s", arch, type, engine, exact ? ", exact" : "",
       opened ? zt_ctx_error(test.ctx) : "");
    zt_prog_free(forward);
    ok(opened && case_close(&test) == 0, "%s on %s: nothing leaks", arch, engine);
    free(by_row);
    free(by_text);
    free(text);
    free(file_data.bytes);
}

/* ---- damaged texts --------------------------------------------------------------------------- */

typedef struct damage_count {
    int ran, refused, wrong;
} damage_count;

/* A damaged text runs, or is refused in one line that names it. */
static void try_text(const file *file_data, const char *text, size_t length, damage_count *count)
{
    text_case test;
    static const int32_t ids[3] = {5, 6, 7};
    float logits[512];
    if (!case_open(&test, file_data, "cpu")) return;
    zt_prog *forward = zt_prog_parse(test.ctx, "t.zt", text, length);
    zt_llm_opts options = options_of(&test, forward, false);
    zt_llm *llm = forward ? zt_llm_open(test.gguf, &options) : NULL;
    zt_status status = zt_ctx_status(test.ctx);
    bool named = !strncmp(zt_ctx_error(test.ctx), "t.zt:", 5) && !strchr(zt_ctx_error(test.ctx), '\n');
    if (llm && zt_llm_get(llm).vocab <= 512) zt_llm_feed(llm, ids, 3, false, logits);
    count->ran += llm != NULL;
    count->refused += !llm && status == ZT_EDATA && named;
    count->wrong += !llm && !(status == ZT_EDATA && named);
    if (!llm && !(status == ZT_EDATA && named)) diag("status %d: %s", (int)status, zt_ctx_error(test.ctx));
    zt_llm_close(llm);
    zt_prog_free(forward);
    count->wrong += case_close(&test) != 0;
}

static void test_lines(const char *arch)
{
    file file_data = make_file(arch, "q8_0", 1, NULL);
    size_t length = 0;
    char *text = print_forward(&file_data, &length), *without = malloc(length + 1);
    damage_count count = {0};
    for (size_t at = 0; text && at < length;) {
        size_t line = strcspn(text + at, "\n") + 1;
        memcpy(without, text, at);
        memcpy(without + at, text + at + line, length - at - line);
        try_text(&file_data, without, length - line, &count);
        at += line;
    }
    /* what the model does without: the output best, which is added */
    ok(count.wrong == 0 && count.ran >= 1 && count.ran <= 2 && count.refused > 20, "%s: a line removed: %d run, %d are refused",
       arch, count.ran, count.refused);
    free(without);
    free(text);
    free(file_data.bytes);
}

static bool is_word(char letter) { return letter > ' ' && !strchr("=:,", letter); }

/* Start and length of a word near a place. */
static size_t word_at(const char *text, size_t length, size_t place, size_t *size)
{
    while (place > 0 && is_word(text[place])) place--;
    while (place < length && !is_word(text[place])) place++;
    for (*size = 0; place + *size < length && is_word(text[place + *size]);) ++*size;
    return place;
}

static void test_words(const char *arch, int rounds)
{
    file file_data = make_file(arch, "q8_0", 1, NULL);
    size_t length = 0, from_size, to_size;
    char *text = print_forward(&file_data, &length), *changed = malloc(2 * length + 1);
    damage_count count = {0};
    for (int i = 0; text && i < rounds; i++) {
        size_t to = word_at(text, length, (size_t)(zt_uniform(11, 0, (uint64_t)i) * (double)length), &to_size);
        size_t from = word_at(text, length, (size_t)(zt_uniform(11, 1, (uint64_t)i) * (double)length), &from_size);
        memcpy(changed, text, to);
        memcpy(changed + to, text + from, from_size);
        memcpy(changed + to + from_size, text + to + to_size, length - to - to_size);
        try_text(&file_data, changed, length - to_size + from_size, &count);
    }
    ok(count.wrong == 0 && count.refused > rounds / 2 && count.ran + count.refused == rounds,
       "%s: a word replaced by another: %d run, %d are refused", arch, count.ran, count.refused);
    free(changed);
    free(text);
    free(file_data.bytes);
}

/* ---- refused by name ------------------------------------------------------------------------- */

static void test_refused(void)
{
    file file_data = make_file("llama", "q8_0", 1, NULL);
    size_t length = 0;
    char *text = print_forward(&file_data, &length);
    text_case test;
    bool good = text && case_open(&test, &file_data, "cpu");
    zt_prog *forward = good ? zt_prog_parse(test.ctx, "t.zt", text, length) : NULL;
    zt_llm_info info;
    zt_llm_opts options = options_of(&test, forward, false);
    ok(good && zt_llm_plan(test.gguf, &options, &info) == ZT_OK && !strcmp(info.arch, "program") && info.n_layers == 1 &&
           info.width == 64 && info.ctx_len == 96 && info.kv_bytes > 0,
       "its sizes are known without weights");
    options.embed = true;
    ok(good && zt_llm_plan(test.gguf, &options, &info) == ZT_ENOTSUP && strstr(zt_ctx_error(test.ctx), "embeddings"),
       "embeddings are refused");
    zt_prog_free(forward);
    ok(case_close(&test) == 0, "nothing leaks");
    free(text);
    free(file_data.bytes);
}

/* ---- every allocation failing ---------------------------------------------------------------- */

static void test_failing(void)
{
    file file_data = make_file("llama", "q8_0", 1, NULL);
    size_t length = 0;
    char *text = print_forward(&file_data, &length);
    bool good = text, reached = true;
    int failed = 0;
    for (uint64_t nth = 1; good && reached; nth++) {
        text_case test;
        case_open(&test, &file_data, "cpu");
        zt_prog *forward = zt_prog_parse(test.ctx, "t.zt", text, length);
        zt_llm_opts options = options_of(&test, forward, false);
        zt_llm_info info;
        uint64_t before = zt_mem_get(test.ctx).calls;
        zt_mem_fail(test.ctx, nth, false);
        zt_status status = zt_llm_plan(test.gguf, &options, &info);
        reached = zt_mem_get(test.ctx).calls >= before + nth;
        zt_mem_fail(test.ctx, 0, false);
        zt_prog_free(forward);
        good = status == (reached ? ZT_ENOMEM : ZT_OK);
        if (!good) diag("allocation %d: status %d: %s", (int)nth, (int)status, zt_ctx_error(test.ctx));
        good = case_close(&test) == 0 && good;
        failed += reached;
    }
    ok(good && failed > 20, "%d allocations failing", failed);
    free(text);
    free(file_data.bytes);
}

int main(void)
{
    static const char *const archs[] = {"llama", "gemma3", "gpt2", "phi3", "qwen2moe", "command-r"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        test_same(archs[i], "q8_0", "cpu", false);
        test_same(archs[i], "f16", "cpu", true);
        test_same(archs[i], "q4_1", "cpu", true);
    }
    test_same("llama", "bf16", "ref", false);
    test_lines("llama");
    test_lines("gemma3");
    test_words("llama", 300);
    test_words("qwen2moe", 200);
    test_refused();
    test_failing();
    return tap_done();
}
