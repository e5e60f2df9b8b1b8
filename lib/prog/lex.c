/* lex.c - owns the words of program text: names, numbers, JSON strings, dimension lists.
 *
 * A cursor never leaves its line. Text is hostile: strings must be UTF-8, parentheses are bounded.
 */
#include "lib/prog/list.h"

#include <string.h>

enum { MAX_PARENS = 64 };

static void skip_space(zt_lex *l)
{
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\t' || *l->at == '\r')) l->at++;
}

static size_t left(const zt_lex *l)
{
    return (size_t)(l->end - l->at);
}

bool zt_lex_end(zt_lex *l)
{
    skip_space(l);
    return l->at == l->end || *l->at == '#';
}

bool zt_lex_peek(zt_lex *l, char c)
{
    skip_space(l);
    return l->at < l->end && *l->at == c;
}

bool zt_lex_char(zt_lex *l, char c)
{
    bool there = zt_lex_peek(l, c);
    l->at += there;
    return there;
}

bool zt_lex_name(zt_lex *l, zt_span *name)
{
    skip_space(l);
    *name = (zt_span){l->at, zt_name_length(l->at, left(l))};
    l->at += name->n;
    return name->n > 0;
}

static bool is_bare(char c)
{
    return zt_name_length(&c, 1) || (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-';
}

bool zt_lex_bare(zt_lex *l, zt_span *word)
{
    skip_space(l);
    *word = (zt_span){l->at, 0};
    while (l->at < l->end && is_bare(*l->at)) l->at++, word->n++;
    return word->n > 0;
}

zt_status zt_lex_expected(const zt_prog *p, zt_lex *l, const char *what)
{
    char buf[ZT_QUOTE];
    zt_lex rest = *l;
    zt_span word;
    if (zt_lex_end(&rest))
        return zt_prog_fail(p, ZT_EDATA, "%s expected, not the end of the line", what);
    if (!zt_lex_bare(&rest, &word)) {
        uint32_t cp;
        int n = zt_utf8_decode(rest.at, left(&rest), &cp);
        word = (zt_span){rest.at, n ? (size_t)n : 1};
    }
    return zt_prog_fail(p, ZT_EDATA, "%s expected, not '%s'", what, zt_quote(buf, word));
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool hex4(zt_lex *l, uint32_t *code)
{
    *code = 0;
    if (left(l) < 4) return false;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        char c = *l->at++;
        const char *d = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;
        if (!d) return false;
        *code = *code * 16 + (uint32_t)(d - digits);
    }
    return true;
}

/* What follows \u: one code or a pair of surrogates, to UTF-8. No zero bytes. */
static int unicode_escape(zt_lex *l, char *to)
{
    uint32_t c, low;
    if (!hex4(l, &c) || c == 0 || (c >= 0xdc00 && c < 0xe000)) return 0;
    if (c >= 0xd800 && c < 0xdc00) {
        if (left(l) < 6 || l->at[0] != '\\' || l->at[1] != 'u') return 0;
        l->at += 2;
        if (!hex4(l, &low) || low < 0xdc00 || low >= 0xe000) return 0;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    return zt_utf8_encode(c, to);
}

static int escape(zt_lex *l, char *to)
{
    static const char from[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    char c = l->at < l->end ? *l->at++ : 0;
    if (c == 'u') return unicode_escape(l, to);
    const char *at = c ? strchr(from, c) : NULL;
    if (at) *to = meaning[at - from];
    return at ? 1 : 0;
}

/* One character of a string; bytes written, 0 when it is none. */
static int character(zt_lex *l, char *to)
{
    uint32_t cp;
    if (*l->at == '\\') {
        l->at++;
        return escape(l, to);
    }
    int n = (unsigned char)*l->at < ' ' ? 0 : zt_utf8_decode(l->at, left(l), &cp);
    memcpy(to, l->at, (size_t)n);
    l->at += n;
    return n;
}

/* What an escape stands for is never longer than the escape. */
zt_status zt_lex_string(zt_prog *p, zt_lex *l, zt_span *s)
{
    if (!zt_lex_char(l, '"')) return zt_lex_expected(p, l, "a string");
    const char *close = l->at;
    while (close < l->end && *close != '"') close += *close == '\\' && close + 1 < l->end ? 2 : 1;
    if (close >= l->end) return zt_prog_fail(p, ZT_EDATA, "a string does not end");
    char *text = zt_arena_alloc(p->memory, (size_t)(close - l->at) + 1);
    if (!text) return ZT_ENOMEM;
    size_t n = 0;
    for (zt_lex in = {l->at, close}; in.at < close;) {
        int k = character(&in, text + n);
        if (k == 0)
            return zt_prog_fail(p, ZT_EDATA, "a string has a bad character or escape at byte %zu",
                                (size_t)(in.at - l->at));
        n += (size_t)k;
    }
    text[n] = 0;
    *s = (zt_span){text, n};
    l->at = close + 1;
    return ZT_OK;
}

/* ---- dimensions ------------------------------------------------------------------------------ */

static zt_status sum(zt_prog *p, zt_lex *l, int depth, int64_t *dim);

static zt_status number(zt_prog *p, zt_lex *l, int64_t *dim)
{
    zt_lex start = *l;
    *dim = 0;
    while (l->at < l->end && *l->at >= '0' && *l->at <= '9')
        if (!zt_mul_i64(*dim, 10, dim) || __builtin_add_overflow(*dim, *l->at++ - '0', dim))
            return zt_lex_expected(p, &start, "a dimension of at most 63 bits");
    return ZT_OK;
}

/* A number, a symbol or ( sum ). */
static zt_status operand(zt_prog *p, zt_lex *l, int depth, int64_t *dim)
{
    zt_span name;
    if (zt_lex_char(l, '(')) {
        if (depth == MAX_PARENS)
            return zt_prog_fail(p, ZT_EDATA, "more than %d parentheses in each other", MAX_PARENS);
        zt_status s = sum(p, l, depth + 1, dim);
        if (s) return s;
        return zt_lex_char(l, ')') ? ZT_OK : zt_lex_expected(p, l, "')'");
    }
    if (l->at < l->end && *l->at >= '0' && *l->at <= '9') return number(p, l, dim);
    if (!zt_lex_name(l, &name)) return zt_lex_expected(p, l, "a dimension");
    *dim = zt_dim_symbol(p, name);
    return *dim ? ZT_OK : zt_ctx_status(p->ctx);
}

/* Operands joined by the two operators of a level, from the left. */
static zt_status chain(zt_prog *p, zt_lex *l, int depth, const char *ops, int64_t *dim,
                       zt_status (*part)(zt_prog *, zt_lex *, int, int64_t *))
{
    int64_t b;
    zt_status s = part(p, l, depth, dim);
    while (!s && (zt_lex_peek(l, ops[0]) || zt_lex_peek(l, ops[1]))) {
        char op = *l->at++;
        s = part(p, l, depth, &b);
        if (!s) s = zt_dim_join(p, op, *dim, b, dim);
    }
    return s;
}

static zt_status product(zt_prog *p, zt_lex *l, int depth, int64_t *dim)
{
    return chain(p, l, depth, "*/", dim, operand);
}

static zt_status sum(zt_prog *p, zt_lex *l, int depth, int64_t *dim)
{
    return chain(p, l, depth, "+-", dim, product);
}

zt_status zt_lex_dims(zt_prog *p, zt_lex *l, int *rank, int64_t dim[ZT_MAX_RANK])
{
    *rank = 0;
    if (!zt_lex_char(l, '[')) return zt_lex_expected(p, l, "'['");
    if (zt_lex_char(l, ']')) return ZT_OK;
    do {
        if (*rank == ZT_MAX_RANK)
            return zt_prog_fail(p, ZT_EDATA, "more than %d dimensions", ZT_MAX_RANK);
        zt_status s = sum(p, l, 0, &dim[(*rank)++]);
        if (s) return s;
    } while (zt_lex_char(l, ','));
    return zt_lex_char(l, ']') ? ZT_OK : zt_lex_expected(p, l, "',' or ']'");
}
