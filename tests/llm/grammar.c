/* grammar.c - grammars from GBNF, regular expressions and texts: which texts they accept, which notations are refused and with
 * what message.
 */
#include "lib/llm/grammar/grammar.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TEXTS = 12 };

typedef struct sample {
    zt_grammar_kind kind;
    const char *text;
    const char *fits[MOST_TEXTS], *fails[MOST_TEXTS]; /* up to NULL */
} sample;

static zt_grammar *compile(zt_ctx *ctx, zt_grammar_kind kind, const char *text)
{
    zt_grammar_part part = {.kind = kind, .name = "g", .text = {text, strlen(text)}};
    return zt_grammar_compile(ctx, &part, 1);
}

/* -1: an error; 0: refused; 1: the beginning of a text; 2: a whole text. */
static int match(zt_grammar *grammar, const char *text, size_t size)
{
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, NULL);
    bool fits = false;
    int found = -1;
    if (matcher && zt_grammar_matcher_accept(matcher, text, size, &fits) == ZT_OK)
        found = !fits ? 0 : zt_grammar_matcher_complete(matcher) ? 2 : 1;
    zt_grammar_matcher_free(matcher);
    return found;
}

static const sample samples[] = {
    /* literals, escapes, rules */
    {ZT_GRAMMAR_GBNF, "root ::= \"yes\" | \"no\"\n", {"yes", "no"}, {"", "y", "yesno", "ye", "No"}},
    {ZT_GRAMMAR_GBNF, "root ::= \"\"", {""}, {"a"}},
    {ZT_GRAMMAR_GBNF,
     "root ::= \"a\\n\\t\\\"\\\\\\x41\\u00e9\\U0001F600\"",
     {"a\n\t\"\\A\u00e9\U0001F600"},
     {"a\n\t\"\\A\u00e9"}},
    {ZT_GRAMMAR_GBNF,
     "# a comment\nroot ::= a-b # more\n\na-b ::=\n  \"x\" |\n  \"y\" c_1\nc_1 ::= \"z\"",
     {"x", "yz"},
     {"y", "z"}},
    {ZT_GRAMMAR_GBNF, "root ::= (\"a\"\n  \"b\" |\n \"c\")+\r\n", {"ab", "abc", "ccab"}, {"", "a", "ba"}},
    /* classes */
    {ZT_GRAMMAR_GBNF, "root ::= [a-cx\\-\\]]+", {"abc", "x-]", "a"}, {"d", "", "a^"}},
    {ZT_GRAMMAR_GBNF,
     "root ::= [^a-z]",
     {"A", "\u00e9", "\U0010FFFF", "\n", "-"},
     {"a", "", "AA", "\xc3", "\xff", "\xed\xa0\x80"}},
    {ZT_GRAMMAR_GBNF, "root ::= [a-]", {"a", "-"}, {"b"}},
    {ZT_GRAMMAR_GBNF, "root ::= [\u00e0-\u0920x]{2}", {"\u00e0\u0920", "x\u07ff", "\u0800x"}, {"\u00dfx", "x\u0921", "\u00e0"}},
    {ZT_GRAMMAR_GBNF,
     "root ::= .",
     {"a", "\U0001F600", "\n"},
     {"", "ab", "\x80", "\xf4\x90\x80\x80", "\xc0\x80", "\xe0\x80\x80"}},
    /* repetitions */
    {ZT_GRAMMAR_GBNF, "root ::= \"a\"{2,4}", {"aa", "aaa", "aaaa"}, {"", "a", "aaaaa"}},
    {ZT_GRAMMAR_GBNF, "root ::= \"ab\"{2} \"c\"{0,} \"d\"{,2}", {"abab", "ababcccd", "ababdd"}, {"ab", "ababddd", "ababab"}},
    {ZT_GRAMMAR_GBNF, "root ::= \"a\"{0} \"b\"", {"b"}, {"ab"}},
    {ZT_GRAMMAR_GBNF, "root ::= (\"a\"? \"b\"*)* \"c\"", {"c", "abbabac", "bc"}, {"", "ab", "cc"}},
    {ZT_GRAMMAR_GBNF, "root ::= ((\"a\"*)*)* ((\"b\"?)+)?", {"", "aaa", "ab", "bbbb"}, {"ba", "c"}},
    /* recursion, ambiguity */
    {ZT_GRAMMAR_GBNF, "root ::= \"(\" root \")\" | \"x\"", {"x", "((x))"}, {"(x", "x)", "()"}},
    {ZT_GRAMMAR_GBNF, "root ::= \"a\" root root | \"a\"", {"a", "aaa", "aaaaaaa"}, {"", "b", "aa", "aaaa"}},
    {ZT_GRAMMAR_GBNF, "root ::= \"a\" root \"a\" | \"b\"", {"b", "aba", "aabaa"}, {"ab", "aab", "abaa"}},
    {ZT_GRAMMAR_GBNF,
     "root ::= e\ne ::= t (\"+\" t)*\nt ::= f (\"*\" f)*\nf ::= [0-9]+ | \"(\" e \")\"",
     {"1", "1+2*(3+4)*5", "((7))"},
     {"", "+1", "(1", "1+"}},
    {ZT_GRAMMAR_GBNF, "root ::= p p\np ::= q* r?\nq ::= [ab] p [ab]\nr ::= \"a\"", {"", "a", "aa", "abab", "abba"}, {"b", "c"}},
    {ZT_GRAMMAR_GBNF, "root ::= dead | \"x\"\ndead ::= \"x\" dead", {"x"}, {"xx", ""}},
    {ZT_GRAMMAR_GBNF, "root ::= a b \"c\"\na ::= \"a\"?\nb ::= a \"b\"?", {"c", "aac", "abc", "aabc", "bc"}, {"aaac", "bac"}},
    /* regular expressions */
    {ZT_GRAMMAR_REGEX, "a|bc*", {"a", "b", "bccc"}, {"", "ab", "ac"}},
    {ZT_GRAMMAR_REGEX, "^\\d{3}-[\\w.]{1,2}$", {"123-a", "000-_."}, {"12-a", "123-", "123-abc", "123-\u00e9"}},
    {ZT_GRAMMAR_REGEX, "(?:a|b)(?<n>c)+?d?", {"ac", "bccd"}, {"c", "acdd"}},
    {ZT_GRAMMAR_REGEX, ".*", {"", "any \u00e9 text\t"}, {"a\nb", "\u2028"}},
    {ZT_GRAMMAR_REGEX, "[^\\s\\d]+", {"abc", "\u00e9"}, {"a b", "a1", "\u00a0", "\x1f", "\ufeff"}},
    {ZT_GRAMMAR_REGEX,
     "\\s[^\\S]\\S",
     {"  a", "\t\u3000a"},
     {"\ufeff a",
      " \x1f"
      "a",
      "  \x1f"}},
    {ZT_GRAMMAR_REGEX, "\\S\\D\\W", {"aa-", "\u00e9\u00e9\u00e9"}, {"aaa", " a-"}},
    {ZT_GRAMMAR_REGEX, "\\x41\\u0042\\u{1F600}\\/\\.\\n\\0?", {"AB\U0001F600/.\n"}, {"AB"}},
    {ZT_GRAMMAR_REGEX, "^a$|^b$", {"a", "b"}, {"ab"}},
    {ZT_GRAMMAR_REGEX, "", {""}, {"a"}},
    {ZT_GRAMMAR_REGEX, "[\\]\\-a^]+", {"]-a^"}, {"\\"}},
    {ZT_GRAMMAR_REGEX, "(|a)+b", {"b", "aab"}, {"a", ""}},
    {ZT_GRAMMAR_TEXT, "exactly \u00e9", {"exactly \u00e9"}, {"", "exactly ", "exactly \u00e9."}},
};

static void test_samples(void)
{
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const sample *s = &samples[i];
        zt_ctx *ctx = zt_ctx_new();
        zt_grammar *grammar = compile(ctx, s->kind, s->text);
        bool right = grammar != NULL;
        for (int j = 0; right && j < MOST_TEXTS && s->fits[j]; j++)
            if (match(grammar, s->fits[j], strlen(s->fits[j])) != 2) right = false, diag("refuses '%s'", s->fits[j]);
        for (int j = 0; grammar && j < MOST_TEXTS && s->fails[j]; j++)
            if (match(grammar, s->fails[j], strlen(s->fails[j])) == 2) right = false, diag("accepts '%s'", s->fails[j]);
        char shown[80];
        if (!ok(right, "%s", zt_escape(shown, sizeof shown, s->text, strlen(s->text)))) diag("%s", zt_ctx_error(ctx));
        zt_grammar_free(grammar);
        if (zt_mem_get(ctx).blocks) ok(false, "memory was left behind");
        zt_ctx_free(ctx);
    }
}

static const struct {
    zt_grammar_kind kind;
    const char *text, *message;
} refused[] = {
    {ZT_GRAMMAR_GBNF, "", "g: rule 'root' is not defined"},
    {ZT_GRAMMAR_GBNF, "root ::= a", "g: rule 'a' is not defined"},
    {ZT_GRAMMAR_GBNF, "root ::= \"a\"\nroot ::= \"b\"", "g: line 2: rule 'root' is defined twice"},
    {ZT_GRAMMAR_GBNF, "root ::= root \"a\" | \"b\"",
     "g: left recursion: rule 'root' may begin with itself; write it as a repetition"},
    {ZT_GRAMMAR_GBNF, "root ::= x\nx ::= o y\no ::= \"\"?\ny ::= x \"a\" | \"b\"",
     "g: left recursion: rule 'x' may begin with itself; write it as a repetition"},
    {ZT_GRAMMAR_GBNF, "root ::= \"a\" root", "g: no text fits the grammar"},
    {ZT_GRAMMAR_GBNF, "root ::= \"a", "g: line 1: '\"' expected, but the grammar ends"},
    {ZT_GRAMMAR_GBNF, "root ::= [a", "g: line 1: ']' expected, but the grammar ends"},
    {ZT_GRAMMAR_GBNF, "root ::= \"a\nb\"", "g: line 1: an unfinished literal or class at ''"},
    {ZT_GRAMMAR_GBNF, "root ::= (\"a\"", "g: line 1: ')' expected, but the grammar ends"},
    {ZT_GRAMMAR_GBNF, "root ::= \"a\")", "g: line 1: a literal, class, group or rule expected at ')'"},
    {ZT_GRAMMAR_GBNF, "root ::= *", "g: line 1: a literal, class, group or rule expected at '*'"},
    {ZT_GRAMMAR_GBNF, "root ::= \"a\"{3,2}", "g: line 1: {3,2}: the maximum is below the minimum"},
    {ZT_GRAMMAR_GBNF, "root ::= \"a\"{99999}", "g: line 1: more than 65536 repetitions"},
    {ZT_GRAMMAR_GBNF, "root ::= [z-a]", "g: line 1: the range U+007A-U+0061 is empty"},
    {ZT_GRAMMAR_GBNF, "root ::= \"\\q\"", "g: line 1: an unknown escape at '\\q\"'"},
    {ZT_GRAMMAR_GBNF, "root ::= \"\\ud800\"", "g: line 1: U+D800 is not a character"},
    {ZT_GRAMMAR_GBNF, "root ::= <think>", "g: line 1: references to tokens are not supported at '<think>'"},
    {ZT_GRAMMAR_GBNF, "root = \"a\"", "g: line 1: '::=' expected at '= \"a\"'"},
    {ZT_GRAMMAR_REGEX, "(a)\\1", "g: '(a)\\1', offset 4: backreferences are not supported"},
    {ZT_GRAMMAR_REGEX, "a(?=b)", "g: 'a(?=b)', offset 2: lookahead and lookbehind are not supported"},
    {ZT_GRAMMAR_REGEX, "a(?<!b)", "g: 'a(?<!b)', offset 2: lookahead and lookbehind are not supported"},
    {ZT_GRAMMAR_REGEX, "\\bword", "g: '\\bword', offset 1: word boundaries (\\b) are not supported"},
    {ZT_GRAMMAR_REGEX, "\\p{L}", "g: '\\p{L}', offset 1: Unicode properties (\\p) are not supported"},
    {ZT_GRAMMAR_REGEX, "(?i)a", "g: '(?i)a', offset 1: flags in a group are not supported"},
    {ZT_GRAMMAR_REGEX, "a++", "g: 'a++', offset 2: possessive repetitions are not supported"},
    {ZT_GRAMMAR_REGEX, "(?>a)", "g: '(?>a)', offset 1: atomic groups are not supported"},
    {ZT_GRAMMAR_REGEX, "a^b", "g: 'a^b', offset 1: '^' and '$' are supported at the ends only"},
    {ZT_GRAMMAR_REGEX, "(a", "g: '(a', offset 2: ')' expected"},
    {ZT_GRAMMAR_REGEX, "a)", "g: 'a)', offset 1: ')' without '('"},
    {ZT_GRAMMAR_REGEX, "[a", "g: '[a', offset 2: ']' expected"},
    {ZT_GRAMMAR_REGEX, "[[:alpha:]]", "g: '[[:alpha:]]', offset 1: POSIX classes ([:alpha:]) are not supported"},
    {ZT_GRAMMAR_REGEX, "*a", "g: '*a', offset 0: nothing to repeat"},
    {ZT_GRAMMAR_REGEX, "a{2", "g: 'a{2', offset 3: '}' expected"},
    {ZT_GRAMMAR_REGEX, "a{70000}", "g: 'a{70000}', offset 6: more than 65536 repetitions"},
    {ZT_GRAMMAR_TEXT, "\xff", "g: not valid UTF-8"},
};

static void test_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_grammar *grammar = compile(ctx, refused[i].kind, refused[i].text);
        bool right = !grammar && zt_ctx_status(ctx) == ZT_EDATA && strcmp(zt_ctx_error(ctx), refused[i].message) == 0;
        if (!ok(right, "refused: %s", refused[i].message)) diag("but: %s", zt_ctx_error(ctx));
        zt_grammar_free(grammar);
        if (zt_mem_get(ctx).blocks) ok(false, "memory was left behind");
        zt_ctx_free(ctx);
    }
}

/* ---- failing allocations ---------------------------------------------------------------------- */

/* Each allocation fails once: an error, and nothing left behind. */
static void test_faults(void)
{
    static const char text[] = "root ::= e\ne ::= f ([-+] f){0,3} | \"x\" e e | \"x\"\nf ::= [0-9a-z\u00e9]+ | \"(\" e \")\"\n";
    int wrong = 0;
    uint64_t nth = 1;
    for (bool failed = true; failed && nth < 2000; nth++) {
        zt_ctx *ctx = zt_ctx_new();
        bool fits = false;
        zt_mem_fail(ctx, nth, false);
        zt_grammar *grammar = compile(ctx, ZT_GRAMMAR_GBNF, text);
        zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, NULL);
        if (matcher) zt_grammar_matcher_accept(matcher, "x(1+\xc3\xa9)", 7, &fits);
        failed = zt_ctx_status(ctx) != ZT_OK;
        wrong += failed && zt_ctx_status(ctx) != ZT_ENOMEM;
        wrong += !failed && !fits;
        zt_grammar_matcher_free(matcher);
        zt_grammar_free(grammar);
        wrong += zt_mem_get(ctx).blocks != 0;
        zt_ctx_free(ctx);
    }
    ok(wrong == 0 && nth > 20, "each of %d allocations fails once", (int)nth - 2);
}

int main(void)
{
    test_samples();
    test_refused();
    test_faults();
    return tap_done();
}
