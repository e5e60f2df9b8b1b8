/* lexer.c - a template's text as tokens.
 *
 * Outside of tags text is data, which loses white space as the tags around it say: `-` takes all
 * next to it; without `+` a line's indentation before a block or comment goes (lstrip_blocks), and so
 * does the newline after one (trim_blocks). Inside of tags, tokens are Python's, nearly.
 */
#include "lib/llm/jinja/internal.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

typedef struct lexer {
    jmachine *j;
    const char *text; /* with \n for every line's end */
    size_t n, at;
    jtoken *token;
    size_t n_tokens, cap;
    bool line_start; /* the last thing read ended a line */
    char *open;      /* brackets that wait for their other half */
    size_t n_open, open_cap;
} lexer;

static jtoken *push(lexer *l, jtoken_type type, int line)
{
    if (l->n_tokens == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        jtoken *more = zt_j_array(l->j, cap, sizeof *more);
        if (l->n_tokens)
            memcpy(more, l->token, l->n_tokens * sizeof *more);
        l->token = more;
        l->cap = cap;
    }
    jtoken *t = &l->token[l->n_tokens++];
    *t = (jtoken){.type = type, .line = line};
    return t;
}

static bool looking_at(const lexer *l, const char *what)
{
    size_t n = strlen(what);
    return l->n - l->at >= n && memcmp(l->text + l->at, what, n) == 0;
}

/* Moves on to `to`, counting lines. */
static void move(lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        l->j->line += l->text[l->at] == '\n';
    if (to > 0)
        l->line_start = l->text[to - 1] == '\n';
}

static size_t space_end(const lexer *l, size_t at)
{
    while (at < l->n) {
        size_t k = zt_j_char_bytes(l->text + at, l->n - at);
        if (!zt_j_is_space(zt_j_code(l->text + at, k)))
            break;
        at += k;
    }
    return at;
}

/* The end of a tag at `at`: `close` after - or +. 0: there is none. The newline or the white space
 * behind it belongs to it. */
static size_t tag_end(const lexer *l, size_t at, const char *close, bool trims, bool plus)
{
    char sign = at < l->n && (l->text[at] == '-' || (plus && l->text[at] == '+')) ? l->text[at] : 0;
    size_t from = at + (sign != 0), len = strlen(close);
    if (l->n < from + len || memcmp(l->text + from, close, len) != 0)
        return 0;
    from += len;
    if (sign == '-')
        return space_end(l, from);
    return from + (trims && !sign && from < l->n && l->text[from] == '\n');
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Text before a tag with this sign, up to `end`; strips: the tag is no {{. */
static void push_data(lexer *l, size_t end, char sign, bool strips)
{
    size_t from = l->at, to = end;
    if (sign == '-') {
        while (to > from) {
            size_t k = 1;
            while (k < to - from && ((unsigned char)l->text[to - k] & 0xc0) == 0x80)
                k++;
            if (!zt_j_is_space(zt_j_code(l->text + to - k, k)))
                break;
            to -= k;
        }
    } else if (sign != '+' && strips) {
        size_t line = to;
        while (line > from && l->text[line - 1] != '\n')
            line--;
        if ((line > from || l->line_start) && space_end(l, line) >= to)
            to = line;
    }
    if (to > from) {
        jtoken *t = push(l, T_DATA, l->j->line);
        t->text = l->text + from;
        t->n = to - from;
    }
}

static char sign_at(const lexer *l, size_t at)
{
    return at < l->n && (l->text[at] == '-' || l->text[at] == '+') ? l->text[at] : 0;
}

/* {% raw %}: the end of the tag that begins at `at`, 0 if it is another. */
static size_t raw_begin(const lexer *l, size_t at)
{
    size_t p = space_end(l, at + 2 + (sign_at(l, at + 2) != 0));
    if (l->n - p < 3 || memcmp(l->text + p, "raw", 3) != 0)
        return 0;
    return tag_end(l, space_end(l, p + 3), "%}", false, false);
}

static size_t find(const lexer *l, size_t from, const char *what)
{
    const char *hit = memmem(l->text + from, l->n - from, what, strlen(what));
    return hit ? (size_t)(hit - l->text) : l->n;
}

static void lex_raw(lexer *l, size_t begin)
{
    int line = l->j->line;
    move(l, begin);
    for (size_t p = find(l, l->at, "{%"); p < l->n; p = find(l, p + 2, "{%")) {
        char sign = sign_at(l, p + 2);
        size_t word = space_end(l, p + 2 + (sign != 0)), end = 0;
        if (l->n - word >= 6 && memcmp(l->text + word, "endraw", 6) == 0)
            end = tag_end(l, space_end(l, word + 6), "%}", true, true);
        if (!end)
            continue;
        push_data(l, p, sign, true);
        move(l, end);
        return;
    }
    if (l->at == l->n)
        return; /* as jinja2 has it */
    l->j->line = line;
    zt_j_fail(l->j, "missing end of raw directive");
}

static void lex_comment(lexer *l)
{
    int line = l->j->line;
    for (size_t p = find(l, l->at, "#}"); p < l->n; p = find(l, p + 2, "#}")) {
        bool sign = p > l->at && (l->text[p - 1] == '-' || l->text[p - 1] == '+');
        move(l, tag_end(l, sign ? p - 1 : p, "#}", true, true));
        return;
    }
    if (l->at == l->n)
        return;
    l->j->line = line;
    zt_j_fail(l->j, "missing end of comment tag");
}

/* ---- inside of tags -------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* (\d+_)*\d+ from `at` on; its end, or `at`. */
static size_t digits_end(const lexer *l, size_t at)
{
    size_t p = at;
    while (p < l->n && (is_digit(l->text[p]) || (l->text[p] == '_' && p > at && p + 1 < l->n &&
                                                 is_digit(l->text[p + 1]) && l->text[p - 1] != '_')))
        p++;
    return p;
}

static size_t exponent_end(const lexer *l, size_t at)
{
    size_t p = at;
    if (p >= l->n || (l->text[p] != 'e' && l->text[p] != 'E'))
        return at;
    p++;
    p += p < l->n && (l->text[p] == '+' || l->text[p] == '-');
    size_t end = digits_end(l, p);
    return end > p ? end : at;
}

/* Without underscores, closed by a zero. */
static char *plain_number(lexer *l, size_t to)
{
    char *text = zt_j_alloc(l->j, to - l->at + 1);
    size_t n = 0;
    for (size_t i = l->at; i < to; i++)
        if (l->text[i] != '_')
            text[n++] = l->text[i];
    return text;
}

static bool lex_float(lexer *l)
{
    if (l->at > 0 && l->text[l->at - 1] == '.')
        return false;
    size_t p = digits_end(l, l->at), end = p;
    if (p == l->at)
        return false;
    if (p + 1 < l->n && l->text[p] == '.' && is_digit(l->text[p + 1]))
        end = digits_end(l, p + 1);
    end = exponent_end(l, end);
    if (end == p)
        return false;
    double value;
    if (!zt_parse_double(plain_number(l, end), &value))
        value = HUGE_VAL;
    jtoken *t = push(l, T_FLOAT, l->j->line);
    t->value = zt_j_float(value);
    move(l, end);
    return true;
}

static int base_of(const lexer *l)
{
    char c = l->at + 1 < l->n && l->text[l->at] == '0' ? l->text[l->at + 1] : 0;
    return c == 'x' || c == 'X' ? 16 : c == 'o' || c == 'O' ? 8 : c == 'b' || c == 'B' ? 2 : 10;
}

static int digit_of(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
                               : c >= 'A' && c <= 'F'   ? c - 'A' + 10
                                                        : 99;
}

static bool lex_int(lexer *l)
{
    int base = base_of(l);
    size_t from = l->at + (base != 10 ? 2 : 0), p = from;
    int64_t value = 0;
    bool zero = base == 10 && p < l->n && l->text[p] == '0'; /* 0, 00: nothing else may follow */
    for (; p < l->n; p++) {
        bool under = l->text[p] == '_' && (p > from || base != 10) && p + 1 < l->n;
        char c = under ? l->text[p + 1] : l->text[p];
        int d = digit_of(c);
        if (d >= base || (zero && d > 0))
            break;
        p += under;
        if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, d, &value))
            zt_j_fail(l->j, "an integer of more than 64 bits");
    }
    if (p == from) {
        if (base == 10)
            return false;
        p = l->at + 1; /* 0x without digits: a zero, then a name */
    }
    jtoken *t = push(l, T_INT, l->j->line);
    t->value = zt_j_int(value);
    move(l, p);
    return true;
}

static bool in_name(uint32_t cp, bool first)
{
    if (cp < 0x80)
        return cp == '_' || (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') ||
               (!first && cp >= '0' && cp <= '9');
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    bool letter = (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) ||
                  c == UTF8PROC_CATEGORY_NL;
    return letter || (!first && (c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC ||
                                 c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_PC));
}

static bool lex_name(lexer *l)
{
    size_t p = l->at;
    while (p < l->n) {
        size_t k = zt_j_char_bytes(l->text + p, l->n - p);
        if (!in_name(zt_j_code(l->text + p, k), p == l->at))
            break;
        p += k;
    }
    if (p == l->at)
        return false;
    jtoken *t = push(l, T_NAME, l->j->line);
    t->text = zt_j_intern(l->j, l->text + l->at, p - l->at);
    t->n = p - l->at;
    move(l, p);
    return true;
}

/* `digits` hexadecimal ones at p. */
static uint32_t hex_escape(lexer *l, size_t p, size_t end, size_t digits)
{
    uint32_t cp = 0;
    for (size_t i = 0; i < digits; i++) {
        int d = p + i < end ? digit_of(l->text[p + i]) : 99;
        if (d > 15)
            zt_j_fail(l->j, "a string has an escape with too few digits");
        cp = cp << 4 | (uint32_t)d;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        zt_j_fail(l->j, "a string has an escape that is not a character");
    return cp;
}

/* One escape; p is behind the backslash. Where it ends. */
static size_t unescape(lexer *l, jout *o, size_t p, size_t end)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = l->text[p];
    const char *hit = c ? strchr(from, c) : NULL;
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == '\n')
        return p + 1;
    if (hit) {
        zt_j_put(l->j, o, &to[hit - from], 1, false);
        return p + 1;
    }
    if (digits) {
        zt_j_put_char(l->j, o, hex_escape(l, p + 1, end, digits), false);
        return p + 1 + digits;
    }
    if (c >= '0' && c <= '7') {
        uint32_t cp = 0;
        size_t k = 0;
        for (; k < 3 && p + k < end && l->text[p + k] >= '0' && l->text[p + k] <= '7'; k++)
            cp = cp * 8 + (uint32_t)(l->text[p + k] - '0');
        zt_j_put_char(l->j, o, cp, false);
        return p + k;
    }
    if (c == 'N')
        zt_j_fail(l->j, "a string has an escape \\N: names of characters are not known");
    zt_j_put(l->j, o, "\\", 1, false);
    return p;
}

static bool lex_string(lexer *l)
{
    char quote = l->text[l->at];
    jout o = {NULL};
    if (quote != '\'' && quote != '"')
        return false;
    size_t end = l->at + 1;
    while (end < l->n && l->text[end] != quote)
        end += l->text[end] == '\\' ? 2 : 1;
    if (end >= l->n)
        zt_j_fail(l->j, "a string without an end");
    for (size_t p = l->at + 1; p < end;) {
        const char *slash = memchr(l->text + p, '\\', end - p);
        size_t to = slash ? (size_t)(slash - l->text) : end;
        zt_j_put(l->j, &o, l->text + p, to - p, false);
        p = slash ? unescape(l, &o, to + 1, end) : end;
    }
    jtoken *t = push(l, T_STRING, l->j->line);
    t->value = zt_j_string(zt_j_done(l->j, &o));
    t->value.s = zt_j_text(l->j, zt_j_data(t->value.s), t->value.s.n, false); /* without room */
    move(l, end + 1);
    return true;
}

static void open_bracket(lexer *l, char c)
{
    if (l->n_open == l->open_cap) {
        size_t cap = l->open_cap ? l->open_cap * 2 : 64;
        char *more = zt_j_alloc(l->j, cap);
        if (l->n_open)
            memcpy(more, l->open, l->n_open);
        l->open = more;
        l->open_cap = cap;
    }
    l->open[l->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
}

static void close_bracket(lexer *l, char c)
{
    if (l->n_open == 0)
        zt_j_fail(l->j, "unexpected '%c'", c);
    if (l->open[--l->n_open] != c)
        zt_j_fail(l->j, "unexpected '%c', expected '%c'", c, l->open[l->n_open]);
}

static void lex_operator(lexer *l)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    char c = l->text[l->at], shown[16];
    int op = 0;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (looking_at(l, two[i]))
            op = J_OP(two[i][0], two[i][1]);
    if (!op && (c == 0 || !strchr("+-/*%~[](){}><=.:|,;", c)))
        zt_j_fail(l->j, "unexpected character '%s'",
                  zt_escape(shown, sizeof shown, l->text + l->at,
                            zt_j_char_bytes(l->text + l->at, l->n - l->at)));
    if (!op)
        op = c;
    if (c == '(' || c == '[' || c == '{')
        open_bracket(l, c);
    else if (c == ')' || c == ']' || c == '}')
        close_bracket(l, c);
    push(l, T_OP, l->j->line)->op = op;
    move(l, l->at + (op > 255 ? 2 : 1));
}

/* Tokens up to the end of the tag. */
static void lex_tag(lexer *l, const char *close, bool block)
{
    l->n_open = 0;
    while (l->at < l->n) {
        size_t end = l->n_open == 0 ? tag_end(l, l->at, close, block, block) : 0;
        size_t space = space_end(l, l->at);
        zt_j_step(l->j, 1);
        if (end) {
            push(l, block ? T_BLOCK_END : T_VAR_END, l->j->line);
            move(l, end);
            return;
        }
        if (space > l->at)
            move(l, space);
        else if (!lex_float(l) && !lex_int(l) && !lex_name(l) && !lex_string(l))
            lex_operator(l);
    }
}

/* The next tag from `at` on; n: none. */
static size_t next_tag(const lexer *l)
{
    for (size_t p = find(l, l->at, "{"); p + 1 < l->n; p = find(l, p + 1, "{"))
        if (l->text[p + 1] == '%' || l->text[p + 1] == '{' || l->text[p + 1] == '#')
            return p;
    return l->n;
}

static void lex_all(lexer *l)
{
    while (l->at < l->n) {
        size_t tag = next_tag(l), begin;
        if (tag == l->n) {
            push_data(l, tag, '+', false);
            move(l, tag);
            break;
        }
        char kind = l->text[tag + 1], sign = sign_at(l, tag + 2);
        push_data(l, tag, sign, kind != '{');
        move(l, tag);
        begin = kind == '%' ? raw_begin(l, tag) : 0;
        if (begin) {
            lex_raw(l, begin);
            continue;
        }
        int line = l->j->line;
        move(l, tag + 2 + (sign != 0));
        if (kind == '#') {
            lex_comment(l);
        } else {
            push(l, kind == '%' ? T_BLOCK_BEGIN : T_VAR_BEGIN, line);
            lex_tag(l, kind == '%' ? "%}" : "}}", kind == '%');
        }
    }
    push(l, T_END, l->j->line);
}

/* \r\n and \r become \n; one newline at the end goes. */
static char *normal_lines(jmachine *j, const char *text, size_t n, size_t *len)
{
    char *out = zt_j_alloc(j, n + 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n')
            continue;
        out[k++] = text[i] == '\r' ? '\n' : text[i];
    }
    *len = k - (k > 0 && out[k - 1] == '\n');
    return out;
}

void zt_j_lex(jmachine *j, const char *text, size_t n)
{
    if (!zt_utf8_valid(text, n))
        zt_j_fail(j, "the template is not valid UTF-8");
    lexer l = {.j = j, .line_start = true};
    l.text = normal_lines(j, text, n, &l.n);
    j->parsing->text = l.text;
    j->parsing->n = l.n;
    lex_all(&l);
    j->token = l.token;
    j->at = 0;
    j->line = 1;
}
