/* vocab_pre.c - tests of pre-tokenizers: what each cuts, that none loses a byte, that none goes
 * over a long text again and again.
 *
 * The cuts are those of Python's regex 2026.5.9 with the patterns as the models' tokenizer.json
 * files have them, which the table writes otherwise here and there. */
#include "lib/llm/vocab/vocab.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name, *text, *pieces; /* '~' between */
} cuts[] = {
    {"llama-bpe", "It'S 1234567 caf\xc3\xa9s,  ok\n\n x", "It~'S~ ~123~456~7~ caf\xc3\xa9s~,~ ~ ok~\n\n~ x"},
    {"qwen2", "It'S 123 \r\n\r\n  x!!\n", "It~'S~ ~1~2~3~ \r\n\r\n~ ~ x~!!\n"},
    {"gpt-2", "It'S don't 123  x\xc2\xa0\xe3\x80\x80y", "It~'~S~ don~'t~ 123~ ~ x~\xc2\xa0~\xe3\x80\x80~y"},
    {"smollm", "a 12b", "a~ ~1~2~b"},
    {"gpt-4o", "HelloWorld's ABCdef e\xcc\x81t 1234 a/b//\n", "Hello~World's~ ABCdef~ e\xcc\x81t~ ~123~4~ a~/b~//\n"},
    {"default", "a$b 12345 (x)", "a~$~b~ ~123~45~ ~(~x~)"},
    {"falcon", "`a` 12345+1", "`~a~`~ ~123~45~+~1"},
    {"deepseek-coder", "if x:\n\tfoo(12) \xe4\xb8\xad\xe6\x96\x87", "if~ x~:~\n~\tfoo~(~1~2~)~ ~\xe4\xb8\xad\xe6\x96\x87"},
    {"deepseek-v3", "12345 \xe4\xb8\xad\xe6\x96\x87\xe3\x81\x8b .foo(x)\n",
     "123~45~ ~\xe4\xb8\xad\xe6\x96\x87\xe3\x81\x8b~ .~foo~(x~)\n"},
    {"bloom",
     "a, b\xef\xbc\x8c"
     "c (d|e",
     "a~,~ b~\xef\xbc\x8c~c~ (~d~|~e"},
    {"viking", "a 12,3", "a~ ~1~2~,~3"},
    {"tekken", "HelloWorld's 12/\n", "Hello~World~'s~ ~1~2~/\n"},
    {"chameleon", "<sentinel:12>IMGIMGABZ\tx   y!1", "<~sentinel~:~1~2~>~IMGIMGABZ~\t~x~  ~ y~!~1"},
    {"tiny_aya", "1234567 12345a 1000.", "1~234~567~ ~123~45~a~ ~1~000~."},
    {"kimi-k2",
     "\xe4\xb8\xad\xe6\x96\x87"
     "abc\xe4\xb8\xad 1234 It's\xe3\x80\x85x",
     "\xe4\xb8\xad\xe6\x96\x87~abc~\xe4\xb8\xad~ ~123~4~ It's~\xe3\x80\x85~x"},
    {"superbpe", "1234567 12", "1~234~567~ ~12"},
    {"bailingmoe", "it's 12 \n\n x", "it~'s~ ~1~2~ \n\n~ x"},
    {"seed-coder", "a!!\n b 12", "a~!!~\n~ b~ ~1~2"},
    {"afmoe", "12345 \xe4\xb8\xad\xe6\x96\x87 \xe0\xb9\x84\xe0\xb8\x97\xe0\xb8\xa2 .foo",
     "12~345~ ~\xe4\xb8\xad\xe6\x96\x87~ ~\xe0\xb9\x84~\xe0\xb8\x97\xe0\xb8\xa2~ .~foo"},
    {"exaone-moe", "one two  three 12\n\n", "one two~ ~ three~ ~1~2~\n\n"},
    {"jais-2", "a             b  \n c       ", "a~        ~    ~ b~  \n~ c~    ~  ~ "},
    {"spark2_5", "a\n\nb 1234", "a~\n~\n~b~ ~1~2~3~4"},
    {"minicpm5", "12345 ab", "123~45~ ab"},
    {"qwen35",
     "e\xcc\x81"
     "a 12",
     "e\xcc\x81"
     "a~ ~1~2"},
    {"ufakzeka", "Ankara'da 12", "Ankara~'da~ ~1~2"},
    {"laguna", "a\n\nb  c", "a~\n\n~b~ ~ c"},
    {"youtu", "\xea\xb0\x80\xeb\x82\x98 \xe4\xb8\xad\xe6\x96\x87\xe2\x80\x94x 12 \xe3\x84\x85",
     "\xea\xb0\x80\xeb\x82\x98~ ~\xe4\xb8\xad\xe6\x96\x87~\xe2\x80\x94~x~ ~1~2~ ~\xe3\x84\x85"},
};

static zt_split *open_split(zt_ctx *ctx, const char *name)
{
    const zt_pre *pre = zt_pre_find((zt_bytes){name, strlen(name)});
    int n = 0;
    while (pre && n < ZT_PRE_RULES && pre->rule[n].pattern) n++;
    return pre ? zt_split_new(ctx, name, pre->rule, n) : NULL;
}

static zt_status put_piece(void *arg, const char *piece, size_t n)
{
    zt_str *s = arg;
    zt_status st = s->len ? zt_str_putc(s, '~') : ZT_OK;
    return st ? st : zt_str_put(s, piece, n);
}

static void test_cuts(void)
{
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_split *split = open_split(ctx, cuts[i].name);
        zt_str got;
        zt_str_init(&got, ctx);
        bool good = split && !zt_split_run(split, cuts[i].text, strlen(cuts[i].text), put_piece, &got);
        if (!ok(good && strcmp(got.data, cuts[i].pieces) == 0, "%s cuts as its makers did", cuts[i].name))
            diag("%s", good ? got.data : zt_ctx_error(ctx));
        zt_str_fini(&got);
        zt_split_free(split);
        zt_ctx_free(ctx);
    }
}

/* ---- every name, any text -------------------------------------------------------------------- */

static zt_status add_piece(void *arg, const char *piece, size_t n) { return n ? zt_str_put(arg, piece, n) : ZT_EBUG; }

/* Bits of text of all sorts, broken ones too. */
static void mixed(zt_str *s, uint64_t seed)
{
    // clang-format off
    static const char *const bit[] = {
        "a", "Z", "\xc3\xa9", " ", "   ", "\n", "\r\n", "\t", "'s", "'LL", "1", "4567", "\xc2\xbd",
        "\xe4\xb8\xad", "\xea\xb0\x80", "!", ".", "\xe2\x80\xa6", "\xcc\x81", "\xc2\xa0",
        "\xe3\x80\x80", "\xf0\x9f\x98\x80", "_", "/", "\xff", "\xe2\x96", "\xed\xa0\x80", "<x>",
    };
    // clang-format on
    zt_str_clear(s);
    for (uint64_t i = 0; i < 24; i++) zt_str_puts(s, bit[(size_t)(zt_uniform(7, seed, i) * (sizeof bit / sizeof *bit))]);
}

static void test_all(void)
{
    zt_ctx *ctx = zt_ctx_new();
    int count = 0, bad = 0;
    zt_str text, got;
    zt_str_init(&text, ctx);
    zt_str_init(&got, ctx);
    for (const char *name; (name = zt_pre_name(count)) != NULL; count++) {
        zt_split *split = open_split(ctx, name);
        bool good = split != NULL;
        for (uint64_t i = 0; good && i < 50; i++) {
            mixed(&text, i);
            zt_str_clear(&got);
            good = !zt_split_run(split, text.data, text.len, add_piece, &got) && got.len == text.len &&
                   memcmp(got.data, text.data, text.len) == 0;
        }
        if (!good && !bad++) diag("%s: %s", name, zt_ctx_error(ctx));
        zt_split_free(split);
    }
    ok(count > 90 && !bad, "each of %d pre-tokenizers takes texts apart and loses nothing", count);
    ok(!zt_pre_find((zt_bytes){"gpt-", 4}) && !zt_pre_find((zt_bytes){"", 0}), "others are not known");
    zt_str_fini(&text);
    zt_str_fini(&got);
    zt_ctx_free(ctx);
}

/* ---- a mebibyte of one thing ----------------------------------------------------------------- */

enum { MEBI = 1 << 20 };
#define MOST_SECONDS 30.0 /* far above what is printed, far below what a quadratic step would take */

static zt_status count_piece(void *arg, const char *piece, size_t n)
{
    (void)piece;
    *(size_t *)arg += n;
    return ZT_OK;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The slowest text, in seconds; negative when one fails. */
static double slowest(const zt_split *split, char *text)
{
    static const char *const of[] = {"a", " ", "\n", "7", "A", "!", "ab", "1a", " \n", "\xcc\x81", "a b ", "\xe4\xb8\xad", "'"};
    double worst = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        size_t length = strlen(of[i]), all = MEBI / length * length, seen = 0;
        for (size_t k = 0; k < all; k += length) memcpy(text + k, of[i], length);
        text[all] = 'x'; /* what comes last may undo all before it */
        double start = seconds();
        if (zt_split_run(split, text, all + 1, count_piece, &seen) || seen != all + 1) return -1;
        double took = seconds() - start;
        worst = took > worst ? took : worst;
    }
    return worst;
}

/* Rows that share a rule list need one trial. */
static bool same_rules(const zt_pre *a, const zt_pre *b)
{
    for (int i = 0; i < ZT_PRE_RULES; i++) {
        const char *p = a->rule[i].pattern, *q = b->rule[i].pattern;
        if (!p || !q) return p == q;
        if (strcmp(p, q) != 0 || a->rule[i].behavior != b->rule[i].behavior) return false;
    }
    return true;
}

static const zt_pre *row(int i)
{
    const char *name = zt_pre_name(i);
    return name ? zt_pre_find((zt_bytes){name, strlen(name)}) : NULL;
}

static void test_long(void)
{
    zt_ctx *ctx = zt_ctx_new();
    char *text = malloc(MEBI + 1);
    for (int i = 0; row(i); i++) {
        bool tried = false;
        for (int k = 0; k < i; k++) tried = tried || same_rules(row(i), row(k));
        if (tried) continue;
        zt_split *split = open_split(ctx, zt_pre_name(i));
        double took = split ? slowest(split, text) : -1;
        if (!ok(took >= 0 && took < MOST_SECONDS, "%s: the slowest mebibyte took %.2f s", zt_pre_name(i), took))
            diag("%s", zt_ctx_error(ctx));
        zt_split_free(split);
    }
    free(text);
    zt_ctx_free(ctx);
}

/* ---- patterns that go wrong ------------------------------------------------------------------ */

/* One that goes back over everything again and again fails: it does not cut otherwise. One that is
 * too deep for JIT's small stack is interpreted. */
static void test_limits(void)
{
    enum { DEEP = 200000 };
    zt_ctx *ctx = zt_ctx_new();
    zt_split *slow = zt_split_new(ctx, "slow", &(zt_split_rule){"(?:a+)+[!?]", ZT_SPLIT_ISOLATED}, 1);
    zt_split *deep = zt_split_new(ctx, "deep", &(zt_split_rule){"(?:(a)|b)+", ZT_SPLIT_ISOLATED}, 1);
    char *text = malloc(DEEP);
    zt_str got;
    zt_str_init(&got, ctx);
    memset(text, 'a', DEEP);
    ok(zt_split_run(slow, text, 60, put_piece, &got) == ZT_EDATA && !got.len &&
           strstr(zt_ctx_error(ctx), "slow: pre-tokenizer: PCRE2 error"),
       "a pattern that goes over a text again and again is an error");
    zt_ctx_clear(ctx);
    for (size_t i = 1; i < DEEP; i += 2) text[i] = 'b';
    if (!ok(!zt_split_run(deep, text, DEEP, put_piece, &got) && got.len == DEEP, "a deep one is one piece"))
        diag("%s", zt_ctx_error(ctx));
    zt_str_fini(&got);
    zt_split_free(slow);
    zt_split_free(deep);
    free(text);
    zt_ctx_free(ctx);
}

int main(void)
{
    test_cuts();
    test_limits();
    test_all();
    test_long();
    return tap_done();
}
