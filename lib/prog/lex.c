/* lex.c - owns the words of program text: names, numbers, JSON strings, dimension lists.
 *
 * A cursor never leaves its line. Text is hostile: strings must be UTF-8, parentheses are bounded.
 */
#include "lib/prog/list.h"

#include <string.h>

enum { MAX_PARENS = 64 };

static void skip_space(zt_lex *lexer)
{
    while (lexer->at < lexer->end && (*lexer->at == ' ' || *lexer->at == '\t' || *lexer->at == '\r')) lexer->at++;
}

static size_t left(const zt_lex *lexer)
{
    return (size_t)(lexer->end - lexer->at);
}

bool zt_lex_end(zt_lex *lexer)
{
    skip_space(lexer);
    return lexer->at == lexer->end || *lexer->at == '#';
}

bool zt_lex_peek(zt_lex *lexer, char c)
{
    skip_space(lexer);
    return lexer->at < lexer->end && *lexer->at == c;
}

bool zt_lex_char(zt_lex *lexer, char c)
{
    bool there = zt_lex_peek(lexer, c);
    lexer->at += there;
    return there;
}

bool zt_lex_name(zt_lex *lexer, zt_span *name)
{
    skip_space(lexer);
    *name = (zt_span){lexer->at, zt_name_length(lexer->at, left(lexer))};
    lexer->at += name->n;
    return name->n > 0;
}

static bool is_bare(char c)
{
    return zt_name_length(&c, 1) || (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-';
}

bool zt_lex_bare(zt_lex *lexer, zt_span *word)
{
    skip_space(lexer);
    *word = (zt_span){lexer->at, 0};
    while (lexer->at < lexer->end && is_bare(*lexer->at)) lexer->at++, word->n++;
    return word->n > 0;
}

zt_status zt_lex_expected(const zt_prog *program, zt_lex *lexer, const char *what)
{
    char buf[ZT_QUOTE];
    zt_lex rest = *lexer;
    zt_span word;
    if (zt_lex_end(&rest))
        return zt_prog_fail(program, ZT_EDATA, "%s expected, not the end of the line", what);
    if (!zt_lex_bare(&rest, &word)) {
        uint32_t cp;
        int n = zt_utf8_decode(rest.at, left(&rest), &cp);
        word = (zt_span){rest.at, n ? (size_t)n : 1};
    }
    return zt_prog_fail(program, ZT_EDATA, "%s expected, not '%s'", what, zt_quote(buf, word));
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool hex4(zt_lex *lexer, uint32_t *code)
{
    *code = 0;
    if (left(lexer) < 4) return false;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        char c = *lexer->at++;
        const char *d = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;
        if (!d) return false;
        *code = *code * 16 + (uint32_t)(d - digits);
    }
    return true;
}

/* What follows \u: one code or a pair of surrogates, to UTF-8. No zero bytes. */
static int unicode_escape(zt_lex *lexer, char *to)
{
    uint32_t c, low;
    if (!hex4(lexer, &c) || c == 0 || (c >= 0xdc00 && c < 0xe000)) return 0;
    if (c >= 0xd800 && c < 0xdc00) {
        if (left(lexer) < 6 || lexer->at[0] != '\\' || lexer->at[1] != 'u') return 0;
        lexer->at += 2;
        if (!hex4(lexer, &low) || low < 0xdc00 || low >= 0xe000) return 0;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    return zt_utf8_encode(c, to);
}

static int escape(zt_lex *lexer, char *to)
{
    static const char from[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    char c = lexer->at < lexer->end ? *lexer->at++ : 0;
    if (c == 'u') return unicode_escape(lexer, to);
    const char *at = c ? strchr(from, c) : NULL;
    if (at) *to = meaning[at - from];
    return at ? 1 : 0;
}

/* One character of a string; bytes written, 0 when it is none. */
static int character(zt_lex *lexer, char *to)
{
    uint32_t cp;
    if (*lexer->at == '\\') {
        lexer->at++;
        return escape(lexer, to);
    }
    int n = (unsigned char)*lexer->at < ' ' ? 0 : zt_utf8_decode(lexer->at, left(lexer), &cp);
    memcpy(to, lexer->at, (size_t)n);
    lexer->at += n;
    return n;
}

/* What an escape stands for is never longer than the escape. */
zt_status zt_lex_string(zt_prog *program, zt_lex *lexer, zt_span *s)
{
    if (!zt_lex_char(lexer, '"')) return zt_lex_expected(program, lexer, "a string");
    const char *close = lexer->at;
    while (close < lexer->end && *close != '"') close += *close == '\\' && close + 1 < lexer->end ? 2 : 1;
    if (close >= lexer->end) return zt_prog_fail(program, ZT_EDATA, "a string does not end");
    char *text = zt_arena_alloc(program->memory, (size_t)(close - lexer->at) + 1);
    if (!text) return ZT_ENOMEM;
    size_t n = 0;
    for (zt_lex in = {lexer->at, close}; in.at < close;) {
        int k = character(&in, text + n);
        if (k == 0)
            return zt_prog_fail(program, ZT_EDATA, "a string has a bad character or escape at byte %zu",
                                (size_t)(in.at - lexer->at));
        n += (size_t)k;
    }
    text[n] = 0;
    *s = (zt_span){text, n};
    lexer->at = close + 1;
    return ZT_OK;
}

/* ---- dimensions ------------------------------------------------------------------------------ */

static zt_status sum(zt_prog *program, zt_lex *lexer, int depth, int64_t *dim);

static zt_status number(zt_prog *program, zt_lex *lexer, int64_t *dim)
{
    zt_lex start = *lexer;
    *dim = 0;
    while (lexer->at < lexer->end && *lexer->at >= '0' && *lexer->at <= '9')
        if (!zt_mul_i64(*dim, 10, dim) || __builtin_add_overflow(*dim, *lexer->at++ - '0', dim))
            return zt_lex_expected(program, &start, "a dimension of at most 63 bits");
    return ZT_OK;
}

/* A number, a symbol or ( sum ). */
static zt_status operand(zt_prog *program, zt_lex *lexer, int depth, int64_t *dim)
{
    zt_span name;
    if (zt_lex_char(lexer, '(')) {
        if (depth == MAX_PARENS)
            return zt_prog_fail(program, ZT_EDATA, "more than %d parentheses in each other", MAX_PARENS);
        zt_status status = sum(program, lexer, depth + 1, dim);
        if (status) return status;
        return zt_lex_char(lexer, ')') ? ZT_OK : zt_lex_expected(program, lexer, "')'");
    }
    if (lexer->at < lexer->end && *lexer->at >= '0' && *lexer->at <= '9') return number(program, lexer, dim);
    if (!zt_lex_name(lexer, &name)) return zt_lex_expected(program, lexer, "a dimension");
    *dim = zt_dim_symbol(program, name);
    return *dim ? ZT_OK : zt_ctx_status(program->ctx);
}

/* Operands joined by the two operators of a level, from the left. */
static zt_status chain(zt_prog *program, zt_lex *lexer, int depth, const char *ops, int64_t *dim,
                       zt_status (*part)(zt_prog *, zt_lex *, int, int64_t *))
{
    int64_t b;
    zt_status status = part(program, lexer, depth, dim);
    while (!status && (zt_lex_peek(lexer, ops[0]) || zt_lex_peek(lexer, ops[1]))) {
        char operator = *lexer->at++;
        status = part(program, lexer, depth, &b);
        if (!status) status = zt_dim_join(program, operator, *dim, b, dim);
    }
    return status;
}

static zt_status product(zt_prog *program, zt_lex *lexer, int depth, int64_t *dim)
{
    return chain(program, lexer, depth, "*/", dim, operand);
}

static zt_status sum(zt_prog *program, zt_lex *lexer, int depth, int64_t *dim)
{
    return chain(program, lexer, depth, "+-", dim, product);
}

zt_status zt_lex_dims(zt_prog *program, zt_lex *lexer, int *rank, int64_t dim[ZT_MAX_RANK])
{
    *rank = 0;
    if (!zt_lex_char(lexer, '[')) return zt_lex_expected(program, lexer, "'['");
    if (zt_lex_char(lexer, ']')) return ZT_OK;
    do {
        if (*rank == ZT_MAX_RANK)
            return zt_prog_fail(program, ZT_EDATA, "more than %d dimensions", ZT_MAX_RANK);
        zt_status status = sum(program, lexer, 0, &dim[(*rank)++]);
        if (status) return status;
    } while (zt_lex_char(lexer, ','));
    return zt_lex_char(lexer, ']') ? ZT_OK : zt_lex_expected(program, lexer, "',' or ']'");
}
