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

typedef struct template_lexer {
    jmachine *machine;
    const char *text; /* with \n for every line's end */
    size_t size, position;
    jtoken *tokens;
    size_t token_count, capacity;
    bool line_start; /* the last thing read ended a line */
    char *open;      /* brackets that wait for their other half */
    size_t open_count, open_capacity;
} template_lexer;

static jtoken *push_token(template_lexer *lexer, jtoken_type type, int line)
{
    if (lexer->token_count == lexer->capacity) {
        size_t capacity = lexer->capacity ? lexer->capacity * 2 : 256;
        jtoken *more = zt_j_array(lexer->machine, capacity, sizeof *more);
        if (lexer->token_count) memcpy(more, lexer->tokens, lexer->token_count * sizeof *more);
        lexer->tokens = more;
        lexer->capacity = capacity;
    }
    jtoken *token = &lexer->tokens[lexer->token_count++];
    *token = (jtoken){.type = type, .line = line};
    return token;
}

static bool looking_at(const template_lexer *lexer, const char *what)
{
    size_t length = strlen(what);
    return lexer->size - lexer->position >= length && memcmp(lexer->text + lexer->position, what, length) == 0;
}

/* Moves on to `to`, counting lines. */
static void advance_to(template_lexer *lexer, size_t to)
{
    for (; lexer->position < to; lexer->position++) lexer->machine->line += lexer->text[lexer->position] == '\n';
    if (to > 0) lexer->line_start = lexer->text[to - 1] == '\n';
}

static size_t space_end(const template_lexer *lexer, size_t offset)
{
    while (offset < lexer->size) {
        size_t length = zt_j_char_bytes(lexer->text + offset, lexer->size - offset);
        if (!zt_j_is_space(zt_j_code(lexer->text + offset, length))) break;
        offset += length;
    }
    return offset;
}

/* The end of a tag at `position`: `close` after - or +. 0: there is none. The newline or the white space
 * behind it belongs to it. */
static size_t tag_end(const template_lexer *lexer, size_t position, const char *close, bool trims, bool plus)
{
    char sign = position < lexer->size && (lexer->text[position] == '-' || (plus && lexer->text[position] == '+'))
                    ? lexer->text[position]
                    : 0;
    size_t from = position + (sign != 0), length = strlen(close);
    if (lexer->size < from + length || memcmp(lexer->text + from, close, length) != 0) return 0;
    from += length;
    if (sign == '-') return space_end(lexer, from);
    return from + (trims && !sign && from < lexer->size && lexer->text[from] == '\n');
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Text before a tag with this sign, up to `end`; strips: the tag is no {{. */
static void push_data(template_lexer *lexer, size_t end, char sign, bool strips)
{
    size_t from = lexer->position, to = end;
    if (sign == '-') {
        while (to > from) {
            size_t length = 1;
            while (length < to - from && ((unsigned char)lexer->text[to - length] & 0xc0) == 0x80) length++;
            if (!zt_j_is_space(zt_j_code(lexer->text + to - length, length))) break;
            to -= length;
        }
    } else if (sign != '+' && strips) {
        size_t line = to;
        while (line > from && lexer->text[line - 1] != '\n') line--;
        if ((line > from || lexer->line_start) && space_end(lexer, line) >= to) to = line;
    }
    if (to > from) {
        jtoken *token = push_token(lexer, T_DATA, lexer->machine->line);
        token->text = lexer->text + from;
        token->size = to - from;
    }
}

static char sign_at(const template_lexer *lexer, size_t offset)
{
    return offset < lexer->size && (lexer->text[offset] == '-' || lexer->text[offset] == '+') ? lexer->text[offset] : 0;
}

/* {% raw %}: the end of the tag that begins at `tag`, 0 if it is another. */
static size_t raw_begin(const template_lexer *lexer, size_t tag)
{
    size_t word = space_end(lexer, tag + 2 + (sign_at(lexer, tag + 2) != 0));
    if (lexer->size - word < 3 || memcmp(lexer->text + word, "raw", 3) != 0) return 0;
    return tag_end(lexer, space_end(lexer, word + 3), "%}", false, false);
}

static size_t find_text(const template_lexer *lexer, size_t from, const char *what)
{
    const char *hit = memmem(lexer->text + from, lexer->size - from, what, strlen(what));
    return hit ? (size_t)(hit - lexer->text) : lexer->size;
}

static void lex_raw(template_lexer *lexer, size_t begin)
{
    int line = lexer->machine->line;
    advance_to(lexer, begin);
    for (size_t tag = find_text(lexer, lexer->position, "{%"); tag < lexer->size; tag = find_text(lexer, tag + 2, "{%")) {
        char sign = sign_at(lexer, tag + 2);
        size_t word = space_end(lexer, tag + 2 + (sign != 0)), end = 0;
        if (lexer->size - word >= 6 && memcmp(lexer->text + word, "endraw", 6) == 0)
            end = tag_end(lexer, space_end(lexer, word + 6), "%}", true, true);
        if (!end) continue;
        push_data(lexer, tag, sign, true);
        advance_to(lexer, end);
        return;
    }
    if (lexer->position == lexer->size) return; /* as jinja2 has it */
    lexer->machine->line = line;
    zt_j_fail(lexer->machine, "missing end of raw directive");
}

static void lex_comment(template_lexer *lexer)
{
    int line = lexer->machine->line;
    for (size_t end = find_text(lexer, lexer->position, "#}"); end < lexer->size; end = find_text(lexer, end + 2, "#}")) {
        bool sign = end > lexer->position && (lexer->text[end - 1] == '-' || lexer->text[end - 1] == '+');
        advance_to(lexer, tag_end(lexer, sign ? end - 1 : end, "#}", true, true));
        return;
    }
    if (lexer->position == lexer->size) return;
    lexer->machine->line = line;
    zt_j_fail(lexer->machine, "missing end of comment tag");
}

/* ---- inside of tags -------------------------------------------------------------------------- */

static bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/* (\d+_)*\d+ from `start` on; its end, or `start`. */
static size_t digits_end(const template_lexer *lexer, size_t start)
{
    size_t position = start;
    while (position < lexer->size &&
           (is_digit(lexer->text[position]) || (lexer->text[position] == '_' && position > start && position + 1 < lexer->size &&
                                                is_digit(lexer->text[position + 1]) && lexer->text[position - 1] != '_')))
        position++;
    return position;
}

static size_t exponent_end(const template_lexer *lexer, size_t start)
{
    size_t position = start;
    if (position >= lexer->size || (lexer->text[position] != 'e' && lexer->text[position] != 'E')) return start;
    position++;
    position += position < lexer->size && (lexer->text[position] == '+' || lexer->text[position] == '-');
    size_t end = digits_end(lexer, position);
    return end > position ? end : start;
}

/* Without underscores, closed by a zero. */
static char *plain_number(template_lexer *lexer, size_t to)
{
    char *text = zt_j_alloc(lexer->machine, to - lexer->position + 1);
    size_t length = 0;
    for (size_t i = lexer->position; i < to; i++)
        if (lexer->text[i] != '_') text[length++] = lexer->text[i];
    return text;
}

static bool lex_float(template_lexer *lexer)
{
    if (lexer->position > 0 && lexer->text[lexer->position - 1] == '.') return false;
    size_t digits_stop = digits_end(lexer, lexer->position), end = digits_stop;
    if (digits_stop == lexer->position) return false;
    if (digits_stop + 1 < lexer->size && lexer->text[digits_stop] == '.' && is_digit(lexer->text[digits_stop + 1]))
        end = digits_end(lexer, digits_stop + 1);
    end = exponent_end(lexer, end);
    if (end == digits_stop) return false;
    double value;
    if (!zt_parse_double(plain_number(lexer, end), &value)) value = HUGE_VAL;
    jtoken *token = push_token(lexer, T_FLOAT, lexer->machine->line);
    token->value = zt_j_float(value);
    advance_to(lexer, end);
    return true;
}

static int number_base(const template_lexer *lexer)
{
    char letter = lexer->position + 1 < lexer->size && lexer->text[lexer->position] == '0' ? lexer->text[lexer->position + 1] : 0;
    return letter == 'x' || letter == 'X' ? 16 : letter == 'o' || letter == 'O' ? 8 : letter == 'b' || letter == 'B' ? 2 : 10;
}

static int digit_value(char letter)
{
    return is_digit(letter)                 ? letter - '0'
           : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
           : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10
                                            : 99;
}

static bool lex_int(template_lexer *lexer)
{
    int base = number_base(lexer);
    size_t from = lexer->position + (base != 10 ? 2 : 0), position = from;
    int64_t value = 0;
    bool zero = base == 10 && position < lexer->size && lexer->text[position] == '0'; /* 0, 00: nothing else may follow */
    for (; position < lexer->size; position++) {
        bool under = lexer->text[position] == '_' && (position > from || base != 10) && position + 1 < lexer->size;
        char letter = under ? lexer->text[position + 1] : lexer->text[position];
        int digit = digit_value(letter);
        if (digit >= base || (zero && digit > 0)) break;
        position += under;
        if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value))
            zt_j_fail(lexer->machine, "an integer of more than 64 bits");
    }
    if (position == from) {
        if (base == 10) return false;
        position = lexer->position + 1; /* 0x without digits: a zero, then a name */
    }
    jtoken *token = push_token(lexer, T_INT, lexer->machine->line);
    token->value = zt_j_int(value);
    advance_to(lexer, position);
    return true;
}

static bool in_name(uint32_t codepoint, bool first)
{
    if (codepoint < 0x80)
        return codepoint == '_' || (codepoint >= 'a' && codepoint <= 'z') || (codepoint >= 'A' && codepoint <= 'Z') ||
               (!first && codepoint >= '0' && codepoint <= '9');
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)codepoint);
    bool letter = (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) || category == UTF8PROC_CATEGORY_NL;
    return letter || (!first && (category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                                 category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_PC));
}

static bool lex_name(template_lexer *lexer)
{
    size_t position = lexer->position;
    while (position < lexer->size) {
        size_t length = zt_j_char_bytes(lexer->text + position, lexer->size - position);
        if (!in_name(zt_j_code(lexer->text + position, length), position == lexer->position)) break;
        position += length;
    }
    if (position == lexer->position) return false;
    jtoken *token = push_token(lexer, T_NAME, lexer->machine->line);
    token->text = zt_j_intern(lexer->machine, lexer->text + lexer->position, position - lexer->position);
    token->size = position - lexer->position;
    advance_to(lexer, position);
    return true;
}

/* `digits` hexadecimal ones at position. */
static uint32_t hex_escape(template_lexer *lexer, size_t position, size_t end, size_t digits)
{
    uint32_t codepoint = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = position + i < end ? digit_value(lexer->text[position + i]) : 99;
        if (digit > 15) zt_j_fail(lexer->machine, "a string has an escape with too few digits");
        codepoint = codepoint << 4 | (uint32_t)digit;
    }
    if (codepoint > 0x10ffff || (codepoint >= 0xd800 && codepoint < 0xe000))
        zt_j_fail(lexer->machine, "a string has an escape that is not a character");
    return codepoint;
}

/* One escape; position is behind the backslash. Where it ends. */
static size_t read_escape(template_lexer *lexer, jout *out, size_t position, size_t end)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char letter = lexer->text[position];
    const char *hit = letter ? strchr(from, letter) : NULL;
    size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (letter == '\n') return position + 1;
    if (hit) {
        zt_j_put(lexer->machine, out, &to[hit - from], 1, false);
        return position + 1;
    }
    if (digits) {
        zt_j_put_char(lexer->machine, out, hex_escape(lexer, position + 1, end, digits), false);
        return position + 1 + digits;
    }
    if (letter >= '0' && letter <= '7') {
        uint32_t codepoint = 0;
        size_t length = 0;
        for (; length < 3 && position + length < end && lexer->text[position + length] >= '0' &&
               lexer->text[position + length] <= '7';
             length++)
            codepoint = codepoint * 8 + (uint32_t)(lexer->text[position + length] - '0');
        zt_j_put_char(lexer->machine, out, codepoint, false);
        return position + length;
    }
    if (letter == 'N') zt_j_fail(lexer->machine, "a string has an escape \\N: names of characters are not known");
    zt_j_put(lexer->machine, out, "\\", 1, false);
    return position;
}

static bool lex_string(template_lexer *lexer)
{
    char quote = lexer->text[lexer->position];
    jout out = {NULL};
    if (quote != '\'' && quote != '"') return false;
    size_t end = lexer->position + 1;
    while (end < lexer->size && lexer->text[end] != quote) end += lexer->text[end] == '\\' ? 2 : 1;
    if (end >= lexer->size) zt_j_fail(lexer->machine, "a string without an end");
    for (size_t position = lexer->position + 1; position < end;) {
        const char *slash = memchr(lexer->text + position, '\\', end - position);
        size_t to = slash ? (size_t)(slash - lexer->text) : end;
        zt_j_put(lexer->machine, &out, lexer->text + position, to - position, false);
        position = slash ? read_escape(lexer, &out, to + 1, end) : end;
    }
    jtoken *token = push_token(lexer, T_STRING, lexer->machine->line);
    token->value = zt_j_string(zt_j_done(lexer->machine, &out));
    token->value.text = zt_j_text(lexer->machine, zt_j_data(token->value.text), token->value.text.size, false); /* without room */
    advance_to(lexer, end + 1);
    return true;
}

static void open_bracket(template_lexer *lexer, char letter)
{
    if (lexer->open_count == lexer->open_capacity) {
        size_t capacity = lexer->open_capacity ? lexer->open_capacity * 2 : 64;
        char *more = zt_j_alloc(lexer->machine, capacity);
        if (lexer->open_count) memcpy(more, lexer->open, lexer->open_count);
        lexer->open = more;
        lexer->open_capacity = capacity;
    }
    lexer->open[lexer->open_count++] = letter == '(' ? ')' : letter == '[' ? ']' : '}';
}

static void close_bracket(template_lexer *lexer, char letter)
{
    if (lexer->open_count == 0) zt_j_fail(lexer->machine, "unexpected '%c'", letter);
    if (lexer->open[--lexer->open_count] != letter)
        zt_j_fail(lexer->machine, "unexpected '%c', expected '%c'", letter, lexer->open[lexer->open_count]);
}

static void lex_operator(template_lexer *lexer)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    char letter = lexer->text[lexer->position], shown[16];
    int op = 0;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (looking_at(lexer, two[i])) op = J_OP(two[i][0], two[i][1]);
    if (!op && (letter == 0 || !strchr("+-/*%~[](){}><=.:|,;", letter)))
        zt_j_fail(lexer->machine, "unexpected character '%s'",
                  zt_escape(shown, sizeof shown, lexer->text + lexer->position,
                            zt_j_char_bytes(lexer->text + lexer->position, lexer->size - lexer->position)));
    if (!op) op = letter;
    if (letter == '(' || letter == '[' || letter == '{')
        open_bracket(lexer, letter);
    else if (letter == ')' || letter == ']' || letter == '}')
        close_bracket(lexer, letter);
    push_token(lexer, T_OP, lexer->machine->line)->op = op;
    advance_to(lexer, lexer->position + (op > 255 ? 2 : 1));
}

/* Tokens up to the end of the tag. */
static void lex_tag(template_lexer *lexer, const char *close, bool block)
{
    lexer->open_count = 0;
    while (lexer->position < lexer->size) {
        size_t end = lexer->open_count == 0 ? tag_end(lexer, lexer->position, close, block, block) : 0;
        size_t space = space_end(lexer, lexer->position);
        zt_j_step(lexer->machine, 1);
        if (end) {
            push_token(lexer, block ? T_BLOCK_END : T_VAR_END, lexer->machine->line);
            advance_to(lexer, end);
            return;
        }
        if (space > lexer->position)
            advance_to(lexer, space);
        else if (!lex_float(lexer) && !lex_int(lexer) && !lex_name(lexer) && !lex_string(lexer))
            lex_operator(lexer);
    }
}

/* The next tag from `at` on; n: none. */
static size_t next_tag(const template_lexer *lexer)
{
    for (size_t position = find_text(lexer, lexer->position, "{"); position + 1 < lexer->size;
         position = find_text(lexer, position + 1, "{"))
        if (lexer->text[position + 1] == '%' || lexer->text[position + 1] == '{' || lexer->text[position + 1] == '#')
            return position;
    return lexer->size;
}

static void lex_all(template_lexer *lexer)
{
    while (lexer->position < lexer->size) {
        size_t tag = next_tag(lexer), begin;
        if (tag == lexer->size) {
            push_data(lexer, tag, '+', false);
            advance_to(lexer, tag);
            break;
        }
        char kind = lexer->text[tag + 1], sign = sign_at(lexer, tag + 2);
        push_data(lexer, tag, sign, kind != '{');
        advance_to(lexer, tag);
        begin = kind == '%' ? raw_begin(lexer, tag) : 0;
        if (begin) {
            lex_raw(lexer, begin);
            continue;
        }
        int line = lexer->machine->line;
        advance_to(lexer, tag + 2 + (sign != 0));
        if (kind == '#') {
            lex_comment(lexer);
        } else {
            push_token(lexer, kind == '%' ? T_BLOCK_BEGIN : T_VAR_BEGIN, line);
            lex_tag(lexer, kind == '%' ? "%}" : "}}", kind == '%');
        }
    }
    push_token(lexer, T_END, lexer->machine->line);
}

/* \r\size and \r become \size; one newline at the end goes. */
static char *normal_lines(jmachine *machine, const char *text, size_t size, size_t *length)
{
    char *out = zt_j_alloc(machine, size + 1);
    size_t kept = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\r' && i + 1 < size && text[i + 1] == '\n') continue;
        out[kept++] = text[i] == '\r' ? '\n' : text[i];
    }
    *length = kept - (kept > 0 && out[kept - 1] == '\n');
    return out;
}

void zt_j_lex(jmachine *machine, const char *text, size_t size)
{
    if (!zt_utf8_valid(text, size)) zt_j_fail(machine, "the template is not valid UTF-8");
    template_lexer lexer = {.machine = machine, .line_start = true};
    lexer.text = normal_lines(machine, text, size, &lexer.size);
    machine->parsing->text = lexer.text;
    machine->parsing->text_size = lexer.size;
    lex_all(&lexer);
    machine->tokens = lexer.tokens;
    machine->position = 0;
    machine->line = 1;
}
