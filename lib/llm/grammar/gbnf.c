/* gbnf.c - GBNF, the notation of llama.cpp's grammars (its grammars/README.md defines it):
 *
 *     root  ::= "{" pair ("," pair)* "}"     # to the end of the line
 *     pair  ::= [a-z_]+ ":" (number | . {1,3})
 *     number ::= "-"? [0-9]+
 *
 * A rule ends with its line, except inside parentheses and after "|". References to tokens (<[1]>, <token>) are not
 * supported: a grammar is about the text.
 */
#include "lib/llm/grammar/internal.h"

#include <string.h>

typedef struct gbnf_reader {
    gbuilder *builder;
    const char *at, *end;
    int line, depth;
    zt_map *names; /* to rules of the builder */
} gbnf_reader;

static gexpr *read_alternatives(gbnf_reader *reader, bool nested);

static gexpr *refuse(gbnf_reader *reader, const char *wanted)
{
    char shown[48];
    size_t left = (size_t)(reader->end - reader->at), size = 0;
    while (size < left && size < 12 && reader->at[size] != '\n') size++;
    if (left == 0) return zt_g_fail(reader->builder, "line %d: %s, but the grammar ends", reader->line, wanted);
    return zt_g_fail(reader->builder, "line %d: %s at '%s'", reader->line, wanted,
                     zt_escape(shown, sizeof shown, reader->at, size));
}

/* ---- letters --------------------------------------------------------------------------------- */

static bool is_at(const gbnf_reader *reader, char letter) { return reader->at < reader->end && *reader->at == letter; }

static bool skip_letter(gbnf_reader *reader, char letter)
{
    if (!is_at(reader, letter)) return false;
    reader->at++;
    return true;
}

/* Blanks and comments; with `lines` also line ends. */
static void skip_blanks(gbnf_reader *reader, bool lines)
{
    for (; reader->at < reader->end; reader->at++) {
        if (*reader->at == '#')
            while (reader->at + 1 < reader->end && reader->at[1] != '\n') reader->at++;
        else if (*reader->at == '\n' && !lines)
            return;
        else if (*reader->at == '\n')
            reader->line++;
        else if (*reader->at != ' ' && *reader->at != '\t' && *reader->at != '\r')
            return;
    }
}

static bool is_name_letter(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '-' || letter == '_';
}

static zt_bytes read_name(gbnf_reader *reader)
{
    const char *first = reader->at;
    while (reader->at < reader->end && is_name_letter(*reader->at)) reader->at++;
    return (zt_bytes){first, (size_t)(reader->at - first)};
}

static int hex_digit(char letter)
{
    if (letter >= '0' && letter <= '9') return letter - '0';
    if ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'f') return (letter | 0x20) - 'a' + 10;
    return -1;
}

static bool read_hex(gbnf_reader *reader, int digits, uint32_t *code_point)
{
    *code_point = 0;
    for (int i = 0; i < digits; i++) {
        int digit = reader->at < reader->end ? hex_digit(*reader->at) : -1;
        if (digit < 0) return refuse(reader, "a hexadecimal digit expected"), false;
        *code_point = *code_point << 4 | (uint32_t)digit;
        reader->at++;
    }
    if (*code_point <= 0x10ffff && (*code_point < 0xd800 || *code_point > 0xdfff)) return true;
    zt_g_fail(reader->builder, "line %d: U+%04X is not a character", reader->line, *code_point);
    return false;
}

/* A character of a literal or a class, with escapes. */
static bool read_character(gbnf_reader *reader, uint32_t *code_point)
{
    static const char letters[] = "\\\"[]nrt-^", meant[] = "\\\"[]\n\r\t-^";
    if (!is_at(reader, '\\')) {
        int size = zt_utf8_decode(reader->at, (size_t)(reader->end - reader->at), code_point);
        if (size == 0 || *reader->at == '\n') return refuse(reader, "an unfinished literal or class"), false;
        reader->at += size;
        return true;
    }
    char letter = reader->at + 1 < reader->end ? reader->at[1] : 0;
    const char *known = letter ? strchr(letters, letter) : NULL;
    int digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (!known && !digits) return refuse(reader, "an unknown escape"), false;
    reader->at += 2;
    if (digits) return read_hex(reader, digits, code_point);
    *code_point = (unsigned char)meant[known - letters];
    return true;
}

/* ---- elements -------------------------------------------------------------------------------- */

static gexpr *read_literal(gbnf_reader *reader)
{
    zt_str text;
    zt_str_init(&text, reader->builder->ctx);
    bool read = true;
    while (read && !is_at(reader, '"')) {
        uint32_t code_point;
        char bytes[4];
        read = reader->at < reader->end || (refuse(reader, "'\"' expected"), false);
        if (read) read = read_character(reader, &code_point);
        if (read) read = zt_str_put(&text, bytes, (size_t)zt_utf8_encode(code_point, bytes)) == ZT_OK;
    }
    gexpr *expr = read ? zt_g_text(reader->builder, text.data ? text.data : "", text.len) : NULL;
    reader->at += read;
    zt_str_fini(&text);
    return expr;
}

static gexpr *read_class(gbnf_reader *reader)
{
    gchars chars = {0};
    bool inverted = skip_letter(reader, '^'), read = true;
    while (read && !is_at(reader, ']')) {
        uint32_t first, last;
        if (reader->at >= reader->end) return refuse(reader, "']' expected");
        read = read_character(reader, &first);
        last = first;
        bool range = read && reader->at + 1 < reader->end && reader->at[0] == '-' && reader->at[1] != ']';
        if (range) {
            reader->at++;
            read = read_character(reader, &last);
        }
        if (read && first > last) {
            zt_g_fail(reader->builder, "line %d: the range U+%04X-U+%04X is empty", reader->line, first, last);
            read = false;
        }
        if (read) read = zt_g_chars_add(reader->builder, &chars, first, last);
    }
    if (!read || (inverted && !zt_g_chars_invert(reader->builder, &chars))) return NULL;
    reader->at++;
    return zt_g_chars(reader->builder, &chars);
}

static int rule_of_name(gbnf_reader *reader, zt_bytes name)
{
    int64_t rule;
    if (zt_map_get(reader->names, name.data, name.n, &rule)) return (int)rule;
    int made = zt_g_rule(reader->builder, name.data, name.n);
    return made >= 0 && zt_map_put(reader->names, name.data, name.n, made) == ZT_OK ? made : -1;
}

static gexpr *read_group(gbnf_reader *reader)
{
    if (++reader->depth > MOST_NESTING)
        return zt_g_fail(reader->builder, "line %d: more than %d nested parentheses", reader->line, MOST_NESTING);
    skip_blanks(reader, true);
    gexpr *expr = read_alternatives(reader, true);
    reader->depth--;
    if (expr && !skip_letter(reader, ')')) return refuse(reader, "')' expected");
    return expr;
}

static bool read_count(gbnf_reader *reader, int64_t *count)
{
    if (reader->at >= reader->end || *reader->at < '0' || *reader->at > '9') return refuse(reader, "a number expected"), false;
    for (*count = 0; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        *count = *count * 10 + (*reader->at - '0');
        if (*count <= MOST_REPEATS) continue;
        zt_g_fail(reader->builder, "line %d: more than %d repetitions", reader->line, MOST_REPEATS);
        return false;
    }
    skip_blanks(reader, true);
    return true;
}

/* After "{". */
static gexpr *read_bounds(gbnf_reader *reader, gexpr *body)
{
    int64_t least = 0, most;
    skip_blanks(reader, true);
    if (!is_at(reader, ',') && !read_count(reader, &least)) return NULL;
    most = least;
    if (skip_letter(reader, ',')) {
        most = -1;
        skip_blanks(reader, true);
        if (!is_at(reader, '}') && !read_count(reader, &most)) return NULL;
    }
    if (!skip_letter(reader, '}')) return refuse(reader, "'}' expected");
    if (most >= 0 && most < least)
        return zt_g_fail(reader->builder, "line %d: {%d,%d}: the maximum is below the minimum", reader->line, (int)least,
                         (int)most);
    return zt_g_repeat(reader->builder, body, least, most);
}

static gexpr *read_element(gbnf_reader *reader)
{
    if (skip_letter(reader, '"')) return read_literal(reader);
    if (skip_letter(reader, '[')) return read_class(reader);
    if (skip_letter(reader, '(')) return read_group(reader);
    if (skip_letter(reader, '.')) return zt_g_range(reader->builder, 0, 0x10ffff);
    if (is_at(reader, '<') || is_at(reader, '!')) return refuse(reader, "references to tokens are not supported");
    if (reader->at < reader->end && is_name_letter(*reader->at))
        return zt_g_call(reader->builder, rule_of_name(reader, read_name(reader)));
    return refuse(reader, "a literal, class, group or rule expected");
}

static gexpr *read_repeats(gbnf_reader *reader, gexpr *expr, bool nested)
{
    for (int count = 0; expr; count++) {
        skip_blanks(reader, nested);
        if (count > MOST_NESTING) return refuse(reader, "too many repetitions of repetitions");
        if (skip_letter(reader, '*'))
            expr = zt_g_repeat(reader->builder, expr, 0, -1);
        else if (skip_letter(reader, '+'))
            expr = zt_g_repeat(reader->builder, expr, 1, -1);
        else if (skip_letter(reader, '?'))
            expr = zt_g_optional(reader->builder, expr);
        else if (skip_letter(reader, '{'))
            expr = read_bounds(reader, expr);
        else
            return expr;
    }
    return expr;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool ends_sequence(const gbnf_reader *reader, bool nested)
{
    return reader->at >= reader->end || *reader->at == '|' || (nested && *reader->at == ')') || *reader->at == '\n';
}

static gexpr *read_sequence(gbnf_reader *reader, bool nested)
{
    gexpr *list = zt_g_list(reader->builder, G_SEQUENCE);
    skip_blanks(reader, nested);
    while (list && !ends_sequence(reader, nested))
        list = zt_g_add(reader->builder, list, read_repeats(reader, read_element(reader), nested));
    return list;
}

static gexpr *read_alternatives(gbnf_reader *reader, bool nested)
{
    gexpr *choice = zt_g_list(reader->builder, G_CHOICE);
    do {
        choice = zt_g_add(reader->builder, choice, read_sequence(reader, nested));
        if (!choice || !skip_letter(reader, '|')) break;
        skip_blanks(reader, true);
    } while (true);
    return choice;
}

static bool read_rule(gbnf_reader *reader)
{
    gbuilder *builder = reader->builder;
    zt_bytes name = read_name(reader);
    if (name.n == 0) return refuse(reader, "the name of a rule expected"), false;
    skip_blanks(reader, false);
    if (reader->end - reader->at < 3 || memcmp(reader->at, "::=", 3) != 0) return refuse(reader, "'::=' expected"), false;
    reader->at += 3;
    skip_blanks(reader, true);
    int rule = rule_of_name(reader, name), line = reader->line;
    if (rule < 0) return false;
    if (builder->rule[rule].expr) {
        zt_g_fail(builder, "line %d: rule '%.100s' is defined twice", line, builder->rule[rule].name);
        return false;
    }
    gexpr *expr = read_alternatives(reader, false);
    if (!expr) return false;
    builder->rule[rule].expr = expr; /* the array may have moved meanwhile */
    if (reader->at < reader->end && *reader->at != '\n') return refuse(reader, "the end of the line expected"), false;
    return true;
}

gexpr *zt_g_gbnf(gbuilder *builder, const char *text, size_t size)
{
    gbnf_reader reader = {.builder = builder, .at = text, .end = text + size, .line = 1, .names = zt_map_new(builder->ctx, 16)};
    int first = builder->rule_count;
    int64_t root = -1;
    bool read = reader.names != NULL;
    for (skip_blanks(&reader, true); read && reader.at < reader.end; skip_blanks(&reader, true)) read = read_rule(&reader);
    for (int i = first; read && i < builder->rule_count; i++)
        if (!builder->rule[i].expr) read = zt_g_fail(builder, "rule '%.100s' is not defined", builder->rule[i].name);
    if (read && !zt_map_get(reader.names, "root", 4, &root)) read = zt_g_fail(builder, "rule 'root' is not defined");
    zt_map_free(reader.names);
    return read ? zt_g_call(builder, (int)root) : NULL;
}
