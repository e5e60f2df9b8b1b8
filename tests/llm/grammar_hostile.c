/* grammar_hostile.c - hostile grammars and texts are bounded in steps, memory and depth. For each bound there is a case beyond it, which is
 * an error: ZT_EDATA (exit 65) for a grammar, ZT_ENOMEM (exit 75) for a text. What is allowed stays small.
 */
#include "lib/llm/grammar/grammar.h"
#include "tests/llm/made_vocab.h"

#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

/* `before`, `times` times `unit`, `middle`, `times` times `close`, `after`. */
typedef struct repeated {
    zt_grammar_kind kind;
    const char *before, *unit;
    int times;
    const char *middle, *close, *after;
} repeated;

static void put_times(zt_str *text, const char *unit, int times)
{
    for (int i = 0; unit && i < times; i++) zt_str_puts(text, unit);
}

static zt_grammar *compile_text(zt_ctx *ctx, zt_grammar_kind kind, const char *text, size_t size)
{
    zt_grammar_part part = {.kind = kind, .name = "g", .text = {text, size}};
    return zt_grammar_compile(ctx, &part, 1);
}

static zt_grammar *compile_repeated(zt_ctx *ctx, const repeated *what)
{
    zt_str text;
    zt_str_init(&text, ctx);
    zt_str_puts(&text, what->before);
    put_times(&text, what->unit, what->times);
    put_times(&text, what->middle, 1);
    put_times(&text, what->close, what->times);
    put_times(&text, what->after, 1);
    zt_grammar *grammar = compile_text(ctx, what->kind, text.data, text.len);
    zt_str_fini(&text);
    return grammar;
}

/* ---- grammars that are refused --------------------------------------------------------------- */

static const struct {
    repeated grammar;
    const char *message;
} refused[] = {
    /* depth */
    {{ZT_GRAMMAR_GBNF, "root ::= ", "(", 201, "\"a\"", ")", ""}, "more than 200 nested parentheses"},
    {{ZT_GRAMMAR_REGEX, "", "(", 201, "a", ")", ""}, "too many nested groups"},
    {{ZT_GRAMMAR_SCHEMA, "", "{\"type\":\"array\",\"items\":", 201, "{}", "}", ""}, "schemas nest more than 200 deep"},
    {{ZT_GRAMMAR_SCHEMA, "{\"const\":", "[", 201, "1", "]", "}"}, "a value nests more than 200 deep"},
    {{ZT_GRAMMAR_SCHEMA, "{\"const\":", "[", 100000, "1", "]", "}"}, "maximum parsing depth"},
    /* repetitions */
    {{ZT_GRAMMAR_GBNF, "root ::= \"a\"{1,100000}", "", 0, "", "", ""}, "more than 65536 repetitions"},
    {{ZT_GRAMMAR_REGEX, "a{1,100000}", "", 0, "", "", ""}, "more than 65536 repetitions"},
    {{ZT_GRAMMAR_SCHEMA, "{\"type\":\"string\",\"maxLength\":100000}", "", 0, "", "", ""}, "not a whole number from 0 to 65536"},
    {{ZT_GRAMMAR_GBNF, "root ::= \"a\"", "{2}", 201, "", "", ""}, "too many repetitions of repetitions"},
    /* size */
    {{ZT_GRAMMAR_GBNF, "root ::= \"a\"", " [a-z]{50000,60000}", 30, "", "", ""}, "more than 1048576 symbols"},
    {{ZT_GRAMMAR_GBNF, "root ::= \"", "aaaaaaaaaaaaaaaa", 1 << 16, "\"", "", ""}, "more than 1048576 symbols"},
    {{ZT_GRAMMAR_GBNF, "root ::= ", "[a] | ", 1 << 19, "[b]", "", ""}, "more than 1048576 expressions"},
    /* rules that begin with themselves, also behind what may be empty */
    {{ZT_GRAMMAR_GBNF, "root ::= root root | \"a\"", "", 0, "", "", ""}, "left recursion: rule 'root'"},
    {{ZT_GRAMMAR_GBNF, "root ::= a\na ::= b? \"x\"?\nb ::= a? \"y\"?", "", 0, "", "", ""}, "left recursion: rule 'a'"},
};

static void check_refused(zt_ctx *ctx, zt_grammar *grammar, const char *message)
{
    bool right = !grammar && zt_ctx_status(ctx) == ZT_EDATA && strstr(zt_ctx_error(ctx), message);
    if (!ok(right, "refused: %s", message)) diag("but: %s", zt_ctx_error(ctx));
    zt_grammar_free(grammar);
    if (zt_mem_get(ctx).blocks) ok(false, "memory was left behind");
    zt_ctx_free(ctx);
}

static void test_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        zt_ctx *ctx = zt_ctx_new();
        check_refused(ctx, compile_repeated(ctx, &refused[i].grammar), refused[i].message);
    }
}

/* An array of `items` schemas, each of which is a choice of first x second cases. */
static zt_grammar *compile_cases(zt_ctx *ctx, int items, int first, int second)
{
    zt_str text;
    zt_str_init(&text, ctx);
    zt_str_puts(&text, "{\"type\":\"array\",\"prefixItems\":[true");
    for (int i = 0; i < items; i++) {
        zt_str_puts(&text, ",{\"allOf\":[{\"anyOf\":[{\"type\":\"string\"}");
        put_times(&text, ",{\"type\":\"string\"}", first - 1);
        zt_str_puts(&text, "]},{\"anyOf\":[{\"type\":\"string\"}");
        put_times(&text, ",{\"type\":\"string\"}", second - 1);
        zt_str_printf(&text, "]}],\"minLength\":%d}", i);
    }
    zt_str_puts(&text, "]}");
    zt_grammar *grammar = compile_text(ctx, ZT_GRAMMAR_SCHEMA, text.data, text.len);
    zt_str_fini(&text);
    return grammar;
}

static void test_cases(void)
{
    zt_ctx *ctx = zt_ctx_new();
    check_refused(ctx, compile_cases(ctx, 1, 129, 128), "more than 16384 cases");
    ctx = zt_ctx_new();
    check_refused(ctx, compile_cases(ctx, 3, 120, 120), "more than 32768 schemas are merged");
}

/* ---- texts that are followed ----------------------------------------------------------------- */

static const struct {
    const char *name;
    repeated grammar;
    const char *token; /* is accepted `count` times */
    int count;
    const char *message; /* of the ZT_ENOMEM that ends it; NULL: all is accepted, */
    size_t states;       /* with at most so many states */
} followed[] = {
    {"alternatives that are equal", {ZT_GRAMMAR_GBNF, "root ::= (\"a\" | \"a\")*", "", 0, "", "", ""}, "a", 20000, NULL, 3},
    {"repetitions of what may be empty",
     {ZT_GRAMMAR_GBNF, "root ::= ((\"x\"? \"y\"?)* (\"x\"*)*)*", "", 0, "", "", ""},
     "x",
     20000,
     NULL,
     4},
    {"nested repetitions", {ZT_GRAMMAR_REGEX, "", "(", 100, "a", ")*", "b"}, "a", 20000, NULL, 4},
    {"two readings at each letter",
     {ZT_GRAMMAR_GBNF, "root ::= \"a\" root root | \"a\"", "", 0, "", "", ""},
     "a",
     5000,
     NULL,
     5010},
    {"counted counts", {ZT_GRAMMAR_REGEX, "(a{1,100}){1,100}b", "", 0, "", "", ""}, "a", 600, NULL, 610},
    {"10,000 alternatives", {ZT_GRAMMAR_GBNF, "root ::= \"ab\"", " | \"abcdefgh\"", 10000, "", "", ""}, "a", 1, NULL, 20},
    {"a long literal", {ZT_GRAMMAR_GBNF, "root ::= \"", "aaaaaaaaaa", 90000, "\"", "", ""}, "aaaaaaaaaa", 90000, NULL, 900010},
    {"the longest repetition", {ZT_GRAMMAR_REGEX, "a{1,65536}", "", 0, "", "", ""}, "a", 65536, NULL, 65550},
    {"joined frames",
     {ZT_GRAMMAR_GBNF, "root ::= \"a\" root root | \"a\" root root root | \"a\" root \"b\" root | \"a\"", "", 0, "", "", ""},
     "a",
     20000,
     "nests more than 4000 deep",
     0},
};

static void test_followed(void)
{
    for (size_t i = 0; i < sizeof followed / sizeof *followed; i++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_grammar *grammar = compile_repeated(ctx, &followed[i].grammar);
        zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, NULL);
        bool fits = true;
        int done = 0;
        size_t size = strlen(followed[i].token);
        while (matcher && done < followed[i].count && fits)
            done += zt_grammar_matcher_accept(matcher, followed[i].token, size, &fits) == ZT_OK && fits;
        zt_grammar_info info = zt_grammar_get(grammar);
        const char *message = followed[i].message;
        if (message)
            ok(zt_ctx_status(ctx) == ZT_ENOMEM && strstr(zt_ctx_error(ctx), message), "%s: %s", followed[i].name, message);
        else
            ok(done == followed[i].count && info.states <= followed[i].states, "%s: %zu states after %d times '%s'",
               followed[i].name, info.states, done, followed[i].token);
        zt_grammar_matcher_free(matcher);
        zt_grammar_free(grammar);
        zt_ctx_free(ctx);
    }
}

/* Every depth has a state of its own: a text that is nested `depth` deep needs as many ends. */
static void test_depths(void)
{
    enum { DEPTH = 5000 };
    static const char nested[] = "root ::= \"(\" root \")\" | \"x\"";
    zt_ctx *ctx = zt_ctx_new();
    zt_grammar *grammar = compile_text(ctx, ZT_GRAMMAR_GBNF, nested, strlen(nested));
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, NULL);
    char text[2 * DEPTH];
    bool fits = false;
    memset(text, '(', DEPTH);
    text[DEPTH] = 'x';
    memset(text + DEPTH + 1, ')', DEPTH - 1);
    ok(matcher && zt_grammar_matcher_accept(matcher, text, sizeof text, &fits) == ZT_OK && fits &&
           !zt_grammar_matcher_complete(matcher),
       "a text that is nested %d deep is not complete after %d ends", DEPTH, DEPTH - 1);
    zt_grammar_matcher_accept(matcher, ")", 1, &fits);
    ok(fits && zt_grammar_matcher_finished(matcher), "it is complete after one more, and has no others");
    zt_grammar_matcher_free(matcher);
    zt_grammar_free(grammar);
    zt_ctx_free(ctx);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Nested parentheses, and a letter for each of 93 classes of bytes: a state takes half a KiB. */
static zt_grammar *compile_wide(zt_ctx *ctx)
{
    zt_str text;
    zt_str_init(&text, ctx);
    zt_str_puts(&text, "root ::= \"(\" root \")\"");
    for (int letter = '#'; letter <= '~'; letter++)
        if (letter != '(' && letter != '\\' && letter != ']') zt_str_printf(&text, " | [%c]", letter);
    zt_grammar *grammar = compile_text(ctx, ZT_GRAMMAR_GBNF, text.data, text.len);
    zt_str_fini(&text);
    return grammar;
}

static void test_memory(void)
{
    enum { MANY = 1200000, OFTEN = 200000 };
    zt_ctx *ctx = zt_ctx_new();
    zt_grammar *grammar = compile_wide(ctx);
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, NULL);
    char *nested = malloc(MANY);
    bool fits = true;
    size_t most = 0;
    int done = 0;
    memset(nested, '(', MANY);
    for (; matcher && done < OFTEN && fits; done++) {
        zt_grammar_matcher_accept(matcher, nested, 1, &fits);
        zt_grammar_info info = zt_grammar_get(grammar);
        most = info.bytes > most ? info.bytes : most;
    }
    zt_grammar_info info = zt_grammar_get(grammar);
    ok(fits && done == OFTEN && info.restarts && most < (size_t)160 * MIB,
       "%d tokens that each nest deeper: the automaton began anew %d times, and took %zu MiB at most", done, (int)info.restarts,
       most / MIB);
    zt_grammar_matcher_accept(matcher, nested, MANY, &fits);
    ok(zt_ctx_status(ctx) == ZT_ENOMEM && strstr(zt_ctx_error(ctx), "its states take more than 512 MiB"), "%d levels in one go",
       MANY);
    free(nested);
    zt_grammar_matcher_free(matcher);
    zt_grammar_free(grammar);
    zt_ctx_free(ctx);
}

/* ---- masks ----------------------------------------------------------------------------------- */

enum { TOKENS = 200000, LETTERS = 26 };

/* Words of one to four letters. */
static made open_words(void)
{
    char(*text)[8] = calloc(TOKENS, sizeof *text);
    char **texts = calloc(TOKENS, sizeof *texts);
    int32_t *type = calloc(TOKENS, sizeof *type);
    float *score = calloc(TOKENS, sizeof *score);
    ggufw w = {0};
    for (int i = 0; i < TOKENS; i++) {
        int rest = i, length = 0;
        texts[i] = text[i];
        type[i] = 1;
        do text[i][length++] = (char)('a' + rest % LETTERS);
        while ((rest = rest / LETTERS) > 0);
    }
    ggufw_str(&w, "tokenizer.ggml.model", "llama");
    ggufw_strs(&w, "tokenizer.ggml.tokens", texts, TOKENS);
    ggufw_array(&w, "tokenizer.ggml.token_type", 5, TOKENS, type, 4 * (size_t)TOKENS);
    ggufw_array(&w, "tokenizer.ggml.scores", 6, TOKENS, score, 4 * (size_t)TOKENS);
    made m = open_made(&w);
    free(text);
    free(texts);
    free(type);
    free(score);
    return m;
}

/* A state for each number of letters that are left, and a mask for each. */
static void test_mask_memory(const made *m, const zt_token_trie *trie)
{
    enum { LONG = 6000 };
    zt_grammar *grammar = compile_text(m->ctx, ZT_GRAMMAR_REGEX, "a{0,6000}", 9);
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, trie);
    bool fits = true;
    size_t before = zt_mem_get(m->ctx).held, most = 0, masks = 0;
    for (int i = 0; i < LONG && matcher && fits; i++) {
        if (!zt_grammar_matcher_mask(matcher)) break;
        masks++;
        zt_grammar_matcher_accept(matcher, "a", 1, &fits);
        most = zt_mem_get(m->ctx).held > most ? zt_mem_get(m->ctx).held : most;
    }
    ok(masks == LONG && most - before < (size_t)100 * MIB, "%zu masks of %d tokens: %zu MiB at most", masks, TOKENS,
       (most - before) / MIB);
    zt_grammar_matcher_free(matcher);
    zt_grammar_free(grammar);
}

/* The letters may come in 54,000 places, and each word leads to another set of them. */
static void test_mask_steps(const made *m, const zt_token_trie *trie)
{
    static const repeated many = {
        ZT_GRAMMAR_REGEX, "", "[a-c]?[b-f]?[d-k]?[g-p]?[l-z]?e?[h-m]?a?b?c?d?e?f?g?h?i?j?k?", 3000, "", "", ""};
    zt_grammar *grammar = compile_repeated(m->ctx, &many);
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, trie);
    ok(matcher && !zt_grammar_matcher_mask(matcher) && zt_ctx_status(m->ctx) == ZT_ENOMEM &&
           strstr(zt_ctx_error(m->ctx), "a token takes more than 20000000 steps"),
       "a mask of too many steps");
    zt_grammar_matcher_free(matcher);
    zt_grammar_free(grammar);
}

static void test_masks(void)
{
    made m = open_words();
    zt_token_trie *trie = zt_token_trie_new(m.ctx, m.v);
    test_mask_memory(&m, trie);
    test_mask_steps(&m, trie);
    zt_token_trie_free(trie);
    close_made(&m);
}

int main(void)
{
    test_refused();
    test_cases();
    test_followed();
    test_depths();
    test_memory();
    test_masks();
    return tap_done();
}
