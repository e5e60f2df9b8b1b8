/* lex.c - owns the words of program text: names, numbers, JSON strings, dimension lists.
 *
 * A cursor never leaves its line. Text is hostile: strings must be UTF-8, parentheses are bounded.
 */
#include "lib/prog/list.h"

#include <string.h>

enum { MAX_PARENS = 64 };

static void skip_space(zt_lex *lexer)
{
    while (lexer->cursor < lexer->end && (*lexer->cursor == ' ' || *lexer->cursor == '\t' || *lexer->cursor == '\r'))
        lexer->cursor++;
}

static size_t bytes_left(const zt_lex *lexer) { return (size_t)(lexer->end - lexer->cursor); }

bool zt_lex_end(zt_lex *lexer)
{
    skip_space(lexer);
    return lexer->cursor == lexer->end || *lexer->cursor == '#';
}

bool zt_lex_peek(zt_lex *lexer, char wanted)
{
    skip_space(lexer);
    return lexer->cursor < lexer->end && *lexer->cursor == wanted;
}

bool zt_lex_char(zt_lex *lexer, char wanted)
{
    bool there = zt_lex_peek(lexer, wanted);
    lexer->cursor += there;
    return there;
}

bool zt_lex_name(zt_lex *lexer, zt_span *name)
{
    skip_space(lexer);
    *name = (zt_span){lexer->cursor, zt_name_length(lexer->cursor, bytes_left(lexer))};
    lexer->cursor += name->length;
    return name->length > 0;
}

static bool is_bare(char letter)
{
    return zt_name_length(&letter, 1) || (letter >= '0' && letter <= '9') || letter == '.' || letter == '+' || letter == '-';
}

bool zt_lex_bare(zt_lex *lexer, zt_span *word)
{
    skip_space(lexer);
    *word = (zt_span){lexer->cursor, 0};
    while (lexer->cursor < lexer->end && is_bare(*lexer->cursor)) lexer->cursor++, word->length++;
    return word->length > 0;
}

zt_status zt_lex_expected_at(const zt_prog *program, zt_lex *lexer, const char *place, const char *what)
{
    char buffer[ZT_QUOTE];
    zt_lex rest = *lexer;
    zt_span word;
    if (zt_lex_end(&rest)) return zt_prog_fail(program, ZT_EDATA, "%sexpected %s, got the end of the line", place, what);
    if (!zt_lex_bare(&rest, &word)) {
        uint32_t code_point;
        int length = zt_utf8_decode(rest.cursor, bytes_left(&rest), &code_point);
        word = (zt_span){rest.cursor, length ? (size_t)length : 1};
    }
    return zt_prog_fail(program, ZT_EDATA, "%sexpected %s, got '%s'", place, what, zt_quote(buffer, word));
}

zt_status zt_lex_expected(const zt_prog *program, zt_lex *lexer, const char *what)
{
    return zt_lex_expected_at(program, lexer, "", what);
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool read_hex4(zt_lex *lexer, uint32_t *code)
{
    *code = 0;
    if (bytes_left(lexer) < 4) return false;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        char letter = *lexer->cursor++;
        const char *digit = letter ? strchr(digits, letter >= 'A' && letter <= 'F' ? letter + ('a' - 'A') : letter) : NULL;
        if (!digit) return false;
        *code = *code * 16 + (uint32_t)(digit - digits);
    }
    return true;
}

/* What follows \u: one code or a pair of surrogates, to UTF-8. No zero bytes. */
static int unicode_escape(zt_lex *lexer, char *written)
{
    uint32_t code, low;
    if (!read_hex4(lexer, &code) || code == 0 || (code >= 0xdc00 && code < 0xe000)) return 0;
    if (code >= 0xd800 && code < 0xdc00) {
        if (bytes_left(lexer) < 6 || lexer->cursor[0] != '\\' || lexer->cursor[1] != 'u') return 0;
        lexer->cursor += 2;
        if (!read_hex4(lexer, &low) || low < 0xdc00 || low >= 0xe000) return 0;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    return zt_utf8_encode(code, written);
}

static int read_escape(zt_lex *lexer, char *written)
{
    static const char from[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    char letter = lexer->cursor < lexer->end ? *lexer->cursor++ : 0;
    if (letter == 'u') return unicode_escape(lexer, written);
    const char *place = letter ? strchr(from, letter) : NULL;
    if (place) *written = meaning[place - from];
    return place ? 1 : 0;
}

/* One character of a string; bytes written, 0 when it is none. */
static int read_character(zt_lex *lexer, char *written)
{
    uint32_t code_point;
    if (*lexer->cursor == '\\') {
        lexer->cursor++;
        return read_escape(lexer, written);
    }
    int length = (unsigned char)*lexer->cursor < ' ' ? 0 : zt_utf8_decode(lexer->cursor, bytes_left(lexer), &code_point);
    memcpy(written, lexer->cursor, (size_t)length);
    lexer->cursor += length;
    return length;
}

/* What an escape stands for is never longer than the escape. */
zt_status zt_lex_string(zt_prog *program, zt_lex *lexer, zt_span *string)
{
    if (!zt_lex_char(lexer, '"')) return zt_lex_expected(program, lexer, "a string");
    const char *close = lexer->cursor;
    while (close < lexer->end && *close != '"') close += *close == '\\' && close + 1 < lexer->end ? 2 : 1;
    if (close >= lexer->end) return zt_prog_fail(program, ZT_EDATA, "unterminated string");
    char *text = zt_arena_alloc(program->memory, (size_t)(close - lexer->cursor) + 1);
    if (!text) return ZT_ENOMEM;
    size_t length = 0;
    for (zt_lex inner = {lexer->cursor, close}; inner.cursor < close;) {
        int k = read_character(&inner, text + length);
        if (k == 0)
            return zt_prog_fail(program, ZT_EDATA, "invalid character or escape at byte %zu of a string",
                                (size_t)(inner.cursor - lexer->cursor));
        length += (size_t)k;
    }
    text[length] = 0;
    *string = (zt_span){text, length};
    lexer->cursor = close + 1;
    return ZT_OK;
}

/* ---- dimensions ------------------------------------------------------------------------------ */

static zt_status read_sum(zt_prog *program, zt_lex *lexer, int depth, int64_t *dims);

static zt_status read_number(zt_prog *program, zt_lex *lexer, int64_t *dims)
{
    zt_lex start = *lexer;
    *dims = 0;
    while (lexer->cursor < lexer->end && *lexer->cursor >= '0' && *lexer->cursor <= '9')
        if (!zt_mul_i64(*dims, 10, dims) || __builtin_add_overflow(*dims, *lexer->cursor++ - '0', dims))
            return zt_lex_expected(program, &start, "a dimension of at most 63 bits");
    return ZT_OK;
}

/* A number, a symbol or ( sum ). */
static zt_status read_operand(zt_prog *program, zt_lex *lexer, int depth, int64_t *dims)
{
    zt_span name;
    if (zt_lex_char(lexer, '(')) {
        if (depth == MAX_PARENS)
            return zt_prog_fail(program, ZT_EDATA, "parentheses are nested too deeply: at most %d are allowed", MAX_PARENS);
        zt_status status = read_sum(program, lexer, depth + 1, dims);
        if (status) return status;
        return zt_lex_char(lexer, ')') ? ZT_OK : zt_lex_expected(program, lexer, "')'");
    }
    if (lexer->cursor < lexer->end && *lexer->cursor >= '0' && *lexer->cursor <= '9') return read_number(program, lexer, dims);
    if (!zt_lex_name(lexer, &name)) return zt_lex_expected(program, lexer, "a dimension");
    *dims = zt_dim_symbol(program, name);
    return *dims ? ZT_OK : zt_ctx_status(program->ctx);
}

/* Operands joined by the two operators of a level, from the left. */
static zt_status read_chain(zt_prog *program, zt_lex *lexer, int depth, const char *ops, int64_t *dims,
                            zt_status (*part)(zt_prog *, zt_lex *, int, int64_t *))
{
    int64_t right;
    zt_status status = part(program, lexer, depth, dims);
    while (!status && (zt_lex_peek(lexer, ops[0]) || zt_lex_peek(lexer, ops[1]))) {
        char operator= * lexer->cursor++;
        status = part(program, lexer, depth, &right);
        if (!status) status = zt_dim_join(program, operator, * dims, right, dims);
    }
    return status;
}

static zt_status read_product(zt_prog *program, zt_lex *lexer, int depth, int64_t *dims)
{
    return read_chain(program, lexer, depth, "*/", dims, read_operand);
}

static zt_status read_sum(zt_prog *program, zt_lex *lexer, int depth, int64_t *dims)
{
    return read_chain(program, lexer, depth, "+-", dims, read_product);
}

zt_status zt_lex_dims(zt_prog *program, zt_lex *lexer, int *rank, int64_t dims[ZT_MAX_RANK])
{
    *rank = 0;
    if (!zt_lex_char(lexer, '[')) return zt_lex_expected(program, lexer, "'['");
    if (zt_lex_char(lexer, ']')) return ZT_OK;
    do {
        if (*rank == ZT_MAX_RANK)
            return zt_prog_fail(program, ZT_EDATA, "too many dimensions: at most %d are allowed", ZT_MAX_RANK);
        zt_status status = read_sum(program, lexer, 0, &dims[(*rank)++]);
        if (status) return status;
    } while (zt_lex_char(lexer, ','));
    return zt_lex_char(lexer, ']') ? ZT_OK : zt_lex_expected(program, lexer, "',' or ']'");
}
