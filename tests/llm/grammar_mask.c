/* grammar_mask.c - masks: a mask has exactly the tokens whose bytes the grammar accepts one by one, in every state that
 * random texts come through; and what becomes of logits, ends and matchers.
 */
#include "lib/llm/grammar/grammar.h"
#include "tests/llm/made_vocab.h"

#include <math.h>
#include <stdlib.h>

enum { BYTES = 3, WORDS = BYTES + 256, MOST_TOKENS = 2048 };
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4, UNUSED = 5, BYTE = 6 };

/* SentencePiece's kind: a space is U+2581, a byte is <0xNN>. */
static const char *const pieces[] = {
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\":",
    "\",\"",
    "\"}",
    "{\"",
    "[\"",
    "\"]",
    "],",
    "},{",
    "\\",
    "\\n",
    "\\u00",
    "\\\"",
    ",",
    ":",
    "-",
    ".",
    "-1",
    "0",
    "1",
    "12",
    "123",
    "00",
    "0.5",
    "e1",
    "true",
    "false",
    "null",
    "tru",
    "nul",
    "a",
    "b",
    "ab",
    "abc",
    "name",
    "\"name\"",
    "nam",
    "e\"",
    "\xe2\x96\x81",
    "\xe2\x96\x81\xe2\x96\x81",
    ("\xe2\x96\x81"
     "a"),
    "\xe2\x96\x81the",
    ":\xe2\x96\x81\"",
    "\n",
    "\n\xe2\x96\x81\xe2\x96\x81",
    "\xc3\xa9",
    "\xc3\xa9t\xc3\xa9",
    "\xf0\x9f\x98\x80",
    "\xe4\xb8\xad",
    "\xe4\xb8\xad\xe6\x96\x87",
    "(",
    ")",
    "+",
    "*",
    "yes",
    "no",
    "maybe",
    "y",
    "es",
    "aaaaaaaaaaaaaaaaaaaa",
    "bbbbb",
    "abcdefghi",
    "abcdefghijklmnopq",
    "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
    "x\"y",
    "\t",
    "\x7f",
    "<not special>",
    /* spaces first, and characters that some notations count as white space */
    "\xe2\x96\x81word",
    "\xe2\x96\x81word9",
    "\xe2\x96\x81\xc3\xa9t\xc3\xa9",
    "\xe2\x96\x81\xe2\x96\x81yes",
    "\xe2\x96\x81-",
    "yes\xe2\x96\x81no",
    "\xc2\xa0",
    "a\xe2\x80\xa8",
    "\xe3\x80\x80\xe4\xb8\xad",
    "a-b_c.9",
    "AF09",
    "G\xd0\x96",
};

static made open_vocabulary(bool with_bytes)
{
    static char text[MOST_TOKENS][48];
    static char *texts[MOST_TOKENS];
    static int32_t type[MOST_TOKENS];
    static float score[MOST_TOKENS];
    int count = 0;
    ggufw w = {0};
    for (int i = 0; i < MOST_TOKENS; i++) texts[i] = text[i], score[i] = (float)-i, type[i] = NORMAL;
    snprintf(text[count], sizeof text[0], "<unk>"), type[count++] = UNKNOWN;
    snprintf(text[count], sizeof text[0], "<s>"), type[count++] = CONTROL;
    snprintf(text[count], sizeof text[0], "</s>"), type[count++] = CONTROL;
    for (int byte = 0; byte < 256 && with_bytes; byte++)
        snprintf(text[count], sizeof text[0], "<0x%02X>", byte), type[count++] = BYTE;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) snprintf(text[count++], sizeof text[0], "%s", pieces[i]);
    for (int i = 0; i < 700 && with_bytes; i++, count++) { /* words of all lengths, some after a space */
        char word[24] = "";
        for (int length = 1 + i % 19, j = 0; j < length; j++) word[j] = (char)('a' + (i * 7 + j * (i + 3)) % 26);
        snprintf(text[count], sizeof text[0], "%s%s", i % 3 ? "" : "\xe2\x96\x81", word);
    }
    snprintf(text[count], sizeof text[0], "unused"), type[count++] = UNUSED;
    snprintf(text[count], sizeof text[0], "defined"), type[count++] = USER;
    snprintf(text[count], sizeof text[0], "<|call|>"), type[count++] = CONTROL;
    ggufw_str(&w, "tokenizer.ggml.model", "llama");
    ggufw_strs(&w, "tokenizer.ggml.tokens", texts, (uint64_t)count);
    ggufw_array(&w, "tokenizer.ggml.token_type", 5, (uint64_t)count, type, 4 * (size_t)count);
    ggufw_array(&w, "tokenizer.ggml.scores", 6, (uint64_t)count, score, 4 * (size_t)count);
    ggufw_u32(&w, "tokenizer.ggml.bos_token_id", 1);
    ggufw_u32(&w, "tokenizer.ggml.eos_token_id", 2);
    return open_made(&w);
}

static const struct {
    zt_grammar_kind kind;
    const char *text;
} grammars[] = {
    {ZT_GRAMMAR_SCHEMA, "{}"},
    {ZT_GRAMMAR_JSON, ""},
    {ZT_GRAMMAR_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":25}}"},
    {ZT_GRAMMAR_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"pattern\":\"^[a-e\\u00e9]+$\"},\"ab\":{\"type\":\"integer\"}},"
     "\"required\":[\"name\"],\"additionalProperties\":{\"enum\":[\"yes\",null]}}"},
    {ZT_GRAMMAR_GBNF, "root ::= e\ne ::= f ([-+*] f)*\nf ::= [0-9]{1,3} | \"(\" e \")\" | [a-z ]+ | .{2} \"\\n\""},
    {ZT_GRAMMAR_GBNF, "root ::= \"a\" root root | \"a\" root \"b\" | [a-c]"},
    {ZT_GRAMMAR_REGEX, "[a-z ]{0,40}"},
    {ZT_GRAMMAR_REGEX, ".*"},
    {ZT_GRAMMAR_REGEX, "([^\\x00-\\x7f]|yes|no)+"},
    /* runs of some groups of characters: without an end, with one that is near, and followed by others */
    {ZT_GRAMMAR_REGEX, "[A-Za-z_][A-Za-z0-9_]*(\\.[a-z]{1,4}){0,3}"},
    {ZT_GRAMMAR_REGEX, "(\\w+ ){3,9}\\."},
    {ZT_GRAMMAR_REGEX, "[^\\s]{1,7}( [^\\s]{1,7}){2,5}"},
    {ZT_GRAMMAR_REGEX, ".{0,60}x"},
    {ZT_GRAMMAR_REGEX, "[a-z]{0,90}-?"},
    {ZT_GRAMMAR_REGEX, "[a-z][a-f]{0,30}[g-z]* ?"},
    {ZT_GRAMMAR_REGEX, "([a-f0-9]{2}[ -]?)+|[g-z ]+[A-Z]"},
    {ZT_GRAMMAR_REGEX, "[a-e ]*|[^a-e]*"},
    {ZT_GRAMMAR_REGEX, "([\u00e0-\u00ff]|[\u0400-\u04ff ]|[\u4e00-\u9fff]{1,3}|[a-z]{2,5})*"},
    {ZT_GRAMMAR_REGEX, "\\d{4}-\\d\\d(T\\d\\d:\\d\\d)?"},
    {ZT_GRAMMAR_REGEX, "[\\w.+-]{1,20}@(\\w{1,9}\\.){1,3}[a-z]{2,8}"},
    {ZT_GRAMMAR_REGEX, "([a-z]{1,6}[0-9]{1,2}[,;]?){4,20}"},
};

enum { ALTERNATIVES = 3000, LONGEST_WORD = 24 };

/* A choice of many words of few letters, some of which begin alike. */
static void put_alternatives(zt_grammar_part *parts, char (*words)[LONGEST_WORD])
{
    for (int i = 0; i < ALTERNATIVES; i++) {
        int length = 1 + i % (LONGEST_WORD - 1);
        for (int j = 0; j < length; j++) words[i][j] = "ab cde"[(i * 13 + j * (i % 7 + 1)) % 6];
        parts[i] = (zt_grammar_part){.kind = ZT_GRAMMAR_TEXT, .text = {words[i], (size_t)length}, .alternative = true};
    }
}

static bool may_be_text(const made *m, int32_t id)
{
    zt_str text;
    zt_str_init(&text, m->ctx);
    zt_vocab_decode(m->v, id, true, false, &text);
    const char *name = text.data ? text.data : "";
    bool may = text.len && !zt_vocab_is_control(m->v, id) && !zt_vocab_is_eog(m->v, id) && strcmp(name, "unused") != 0 && id != 0;
    zt_str_fini(&text);
    return may;
}

/* By the bytes that the vocabulary decodes. */
static bool fits_alone(const made *m, zt_grammar_matcher *probe, const zt_grammar_matcher *at, int32_t id)
{
    zt_str text;
    bool fits = false;
    zt_str_init(&text, m->ctx);
    zt_vocab_decode(m->v, id, true, false, &text);
    zt_grammar_matcher_copy(probe, at);
    if (may_be_text(m, id)) zt_grammar_matcher_accept(probe, text.data, text.len, &fits);
    zt_str_fini(&text);
    return fits;
}

static int count_wrong(const made *m, zt_grammar_matcher *matcher, zt_grammar_matcher *probe)
{
    int wrong = 0;
    for (int32_t id = 0; id < zt_vocab_size(m->v); id++) {
        bool alone = fits_alone(m, probe, matcher, id);
        const uint64_t *mask = zt_grammar_matcher_mask(matcher); /* after calls that may have moved it */
        bool masked = mask[id / 64] >> id % 64 & 1;
        wrong += masked != alone;
        if (masked != alone && wrong < 5) diag("token %d: the mask says %d", id, masked);
    }
    return wrong;
}

/* The allowed token that comes next after a random one. */
static int32_t draw(const made *m, zt_grammar_matcher *matcher, uint64_t step)
{
    const uint64_t *mask = zt_grammar_matcher_mask(matcher);
    int32_t count = zt_vocab_size(m->v), from = (int32_t)(zt_uniform(5, 0, step) * count);
    for (int32_t i = 0; i < count; i++)
        if (mask[(from + i) % count / 64] >> (from + i) % count % 64 & 1) return (from + i) % count;
    return -1;
}

/* Along random texts of the grammar, which is freed. */
static void check_masks(const made *m, zt_token_trie *trie, zt_grammar *grammar, size_t number)
{
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, trie), *probe = zt_grammar_matcher_new(grammar, trie);
    int wrong = 0, states = 0;
    for (uint64_t step = 0; step < 40 && matcher && probe; step++, states++) {
        wrong += count_wrong(m, matcher, probe);
        int32_t id = draw(m, matcher, 1000 * number + step);
        bool fits = false;
        if (id < 0)
            zt_grammar_matcher_reset(matcher);
        else if (zt_grammar_matcher_accept_token(matcher, id, &fits) != ZT_OK || !fits)
            wrong++;
    }
    ok(states == 40 && wrong == 0, "grammar %zu: the masks of %d states are those of the tokens one by one", number, states);
    zt_grammar_matcher_free(matcher);
    zt_grammar_matcher_free(probe);
    zt_grammar_free(grammar);
}

static void test_masks(void)
{
    made m = open_vocabulary(true);
    zt_token_trie *trie = zt_token_trie_new(m.ctx, m.v);
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++) {
        zt_grammar_part part = {.kind = grammars[i].kind, .text = {grammars[i].text, strlen(grammars[i].text)}};
        check_masks(&m, trie, zt_grammar_compile(m.ctx, &part, 1), i);
    }
    static zt_grammar_part parts[ALTERNATIVES];
    static char words[ALTERNATIVES][LONGEST_WORD];
    put_alternatives(parts, words);
    check_masks(&m, trie, zt_grammar_compile(m.ctx, parts, ALTERNATIVES), sizeof grammars / sizeof *grammars);
    zt_token_trie_free(trie);
    close_made(&m);
}

static void test_restrict(void)
{
    made m = open_vocabulary(true);
    zt_token_trie *trie = zt_token_trie_new(m.ctx, m.v);
    zt_grammar_part part = {.kind = ZT_GRAMMAR_REGEX, .text = {"a{1,2}", 6}};
    zt_grammar *grammar = zt_grammar_compile(m.ctx, &part, 1);
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, trie);
    enum { PADDED = 1200 };
    float logits[PADDED];
    const int32_t ends[] = {2, 2, 5000};
    int64_t allowed = -1;
    bool fits;
    int numbers = 0;
    for (int i = 0; i < PADDED; i++) logits[i] = (float)i;
    ok(zt_grammar_matcher_restrict(matcher, ends, 3, logits, PADDED, &allowed) == ZT_OK, "logits are restricted");
    for (int i = 0; i < PADDED; i++) numbers += !isnan(logits[i]);
    ok(numbers == allowed && allowed >= 2 && isnan(logits[2]) && logits[BYTES + 'a'] == (float)(BYTES + 'a'),
       "%d tokens are left, with their logits; the end is not among them", numbers);
    zt_grammar_matcher_accept_token(matcher, BYTES + 'a', &fits);
    for (int i = 0; i < PADDED; i++) logits[i] = (float)i;
    zt_grammar_matcher_restrict(matcher, ends, 3, logits, PADDED, &allowed);
    numbers = 0;
    for (int i = 0; i < PADDED; i++) numbers += !isnan(logits[i]);
    ok(fits && numbers == allowed && logits[2] == 2 && zt_grammar_matcher_complete(matcher) &&
           !zt_grammar_matcher_finished(matcher),
       "the end comes where the text is complete, counted once");
    zt_grammar_matcher *other = zt_grammar_matcher_clone(matcher);
    zt_grammar_matcher_accept_token(other, BYTES + 'a', &fits);
    ok(fits && zt_grammar_matcher_finished(other) && !zt_grammar_matcher_finished(matcher), "a clone goes its own way");
    zt_grammar_matcher_accept_token(other, BYTES + 'a', &fits);
    ok(!fits && zt_grammar_matcher_finished(other), "what does not fit changes nothing");
    zt_grammar_matcher_accept_token(other, 2, &fits);
    ok(!fits, "an end is not a token of the text");
    zt_grammar_matcher_free(other);
    zt_grammar_matcher_free(matcher);
    zt_grammar_free(grammar);
    zt_token_trie_free(trie);
    close_made(&m);
}

/* A vocabulary without byte tokens cannot write what its pieces lack. */
static void test_dead_end(void)
{
    made m = open_vocabulary(false);
    zt_token_trie *trie = zt_token_trie_new(m.ctx, m.v);
    zt_grammar_part part = {.kind = ZT_GRAMMAR_REGEX, .text = {"a&", 2}};
    zt_grammar *grammar = zt_grammar_compile(m.ctx, &part, 1);
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, trie);
    float logits[128] = {0};
    int64_t allowed = -1;
    bool fits;
    zt_grammar_matcher_accept(matcher, "a", 1, &fits);
    zt_grammar_matcher_restrict(matcher, NULL, 0, logits, 128, &allowed);
    ok(fits && allowed == 0 && !zt_grammar_matcher_complete(matcher), "a dead end: no token is left");
    zt_grammar_matcher_free(matcher);
    zt_grammar_free(grammar);
    zt_token_trie_free(trie);
    close_made(&m);
}

int main(void)
{
    test_masks();
    test_restrict();
    test_dead_end();
    return tap_done();
}
