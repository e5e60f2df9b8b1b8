/* regex.c - regular expressions: what ECMAScript, RE2 and PCRE have in common, without what is not regular.
 *
 *     a|b  ab  (a)  (?:a)  (?<name>a)  a*  a+  a?  a{2}  a{2,}  a{2,5}  .  [a-z]  [^a-z]  \d \w \s \D \W \S
 *     \n \t \r \f \v \0 \xNN \uNNNN \u{N...}  \. and other escaped punctuation  ^ and $ at the ends
 *
 * A lazy repetition (a*?) has the same texts as a greedy one. Refused by name: backreferences, lookaround, word boundaries,
 * possessive and atomic groups, inline flags, Unicode properties, anchors that are not at an end.
 *
 * As JSON Schema's `pattern`, the expression is about the string's value, and the characters are written as JSON has them.
 */
#include "lib/llm/grammar/internal.h"

#include <string.h>

typedef struct regex_reader {
    gbuilder *builder;
    const char *text, *at, *end;
    int depth;
    gwritten written;
} regex_reader;

static gexpr *read_alternatives(regex_reader *reader);

static gexpr *refuse(regex_reader *reader, const char *what)
{
    char shown[160];
    size_t size = (size_t)(reader->end - reader->text);
    return zt_g_fail(reader->builder, "'%s', offset %d: %s", zt_escape(shown, sizeof shown, reader->text, size < 80 ? size : 80),
                     (int)(reader->at - reader->text), what);
}

static bool is_at(const regex_reader *reader, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(reader->end - reader->at) >= size && memcmp(reader->at, text, size) == 0;
}

static bool skip_text(regex_reader *reader, const char *text)
{
    if (!is_at(reader, text)) return false;
    reader->at += strlen(text);
    return true;
}

/* ---- characters ------------------------------------------------------------------------------ */

/* The escape that JSON needs for a character. */
static gexpr *escaped_character(gbuilder *builder, uint32_t code_point)
{
    static const char letters[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    const char *known = code_point ? strchr(letters, (int)code_point) : NULL;
    char text[8];
    if (known)
        snprintf(text, sizeof text, "\\%c", names[known - letters]);
    else
        snprintf(text, sizeof text, "\\u%04x", (unsigned)code_point);
    return zt_g_literal(builder, text);
}

/* A set of characters, written as JSON has them: those that are plain, or one of the escapes. */
gexpr *zt_g_json_characters(gbuilder *builder, gchars *chars)
{
    gexpr *choice = zt_g_list(builder, G_CHOICE);
    gchars plain = {0};
    zt_g_chars_normalize(chars);
    for (int i = 0; i < chars->count && choice; i++) {
        uint32_t first = chars->range[i].first, last = chars->range[i].last;
        for (; first <= last && first <= '\\'; first++) {
            bool escaped = first < 0x20 || first == '"' || first == '\\' || (first == '<' && builder->escape_less);
            if (escaped)
                choice = zt_g_add(builder, choice, escaped_character(builder, first));
            else if (!zt_g_chars_add(builder, &plain, first, first))
                return NULL;
            if (!choice) return NULL;
        }
        if (first <= last && !zt_g_chars_add(builder, &plain, first, last)) return NULL;
    }
    return zt_g_add(builder, choice, zt_g_chars(builder, &plain));
}

gexpr *zt_g_raw_characters(gbuilder *builder, gchars *chars)
{
    static const grange excluded[] = {{0, 0x1f}, {'<', '<'}, {0x7f, 0x9f}};
    zt_g_chars_normalize(chars);
    gchars kept = {0};
    for (int i = 0; i < chars->count; i++) {
        uint32_t first = chars->range[i].first, last = chars->range[i].last;
        for (size_t j = 0; j < sizeof excluded / sizeof *excluded && first <= last; j++) {
            if (excluded[j].last < first || excluded[j].first > last) continue;
            if (excluded[j].first > first && !zt_g_chars_add(builder, &kept, first, excluded[j].first - 1)) return NULL;
            first = excluded[j].last + 1;
        }
        if (first <= last && !zt_g_chars_add(builder, &kept, first, last)) return NULL;
    }
    return zt_g_chars(builder, &kept);
}

static gexpr *characters(regex_reader *reader, gchars *chars)
{
    if (reader->written == G_RAW_STRING) return zt_g_raw_characters(reader->builder, chars);
    return reader->written == G_PLAIN ? zt_g_chars(reader->builder, chars) : zt_g_json_characters(reader->builder, chars);
}

static gexpr *one_character(regex_reader *reader, uint32_t code_point)
{
    grange range = {code_point, code_point};
    return characters(reader, &(gchars){&range, 1, 1});
}

static bool read_hex(regex_reader *reader, int digits, uint32_t *code_point)
{
    *code_point = 0;
    for (int i = 0; digits ? i < digits : !is_at(reader, "}"); i++) {
        char letter = reader->at < reader->end ? *reader->at : 0;
        const char *all = "0123456789abcdefABCDEF", *digit = letter ? strchr(all, letter) : NULL;
        if (!digit || *code_point > 0xfffff) return refuse(reader, "not a character's hexadecimal number"), false;
        int64_t value = digit - all;
        *code_point = *code_point << 4 | (uint32_t)(value < 16 ? value : value - 6);
        reader->at++;
    }
    if (*code_point > 0x10ffff || (*code_point >= 0xd800 && *code_point <= 0xdfff))
        return refuse(reader, "not the number of a character"), false;
    return true;
}

/* After a backslash: one character. Letters that mean something else are refused by name. */
static bool read_escape(regex_reader *reader, bool in_class, uint32_t *code_point)
{
    static const char letters[] = "nrtfva", meant[] = "\n\r\t\f\v\a";
    static const struct {
        const char *letters, *name;
    } unsupported[] = {{"123456789k", "backreferences are not supported"},
                       {"bB", "word boundaries (\\b) are not supported"},
                       {"pPX", "Unicode properties (\\p) are not supported"},
                       {"AzZG", "the anchors \\A, \\z, \\Z and \\G are not supported"}};
    if (reader->at >= reader->end) return refuse(reader, "an unfinished escape"), false;
    char letter = *reader->at;
    const char *known = letter ? strchr(letters, letter) : NULL;
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (letter && strchr(unsupported[i].letters, letter) && !(in_class && letter == 'b'))
            return refuse(reader, unsupported[i].name), false;
    if ((letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) {
        reader->at++;
        *code_point = known ? (unsigned char)meant[known - letters] : letter == 'b' ? '\b' : 0;
        if (known || letter == '0' || letter == 'b') return true;
        if (letter == 'x') return read_hex(reader, 2, code_point);
        if (letter == 'u' && skip_text(reader, "{")) return read_hex(reader, 0, code_point) && skip_text(reader, "}");
        if (letter == 'u') return read_hex(reader, 4, code_point);
        reader->at--;
        return refuse(reader, "an unknown escape"), false;
    }
    int size = zt_utf8_decode(reader->at, (size_t)(reader->end - reader->at), code_point);
    reader->at += size;
    return size > 0 || (refuse(reader, "not valid UTF-8"), false);
}

static bool is_class_letter(char letter) { return letter && strchr("dDwWsS", letter); }

/* An item of a class, or an end of its range. *single: it is one character; else the characters were added. */
static bool read_class_item(regex_reader *reader, gchars *chars, bool inverted, bool *single, uint32_t *code_point)
{
    *single = true;
    if (is_at(reader, "[:")) return refuse(reader, "POSIX classes ([:alpha:]) are not supported"), false;
    if (skip_text(reader, "\\")) {
        *single = reader->at >= reader->end || !is_class_letter(*reader->at);
        if (*single) return read_escape(reader, true, code_point);
        return zt_g_chars_class(reader->builder, chars, *reader->at++, inverted);
    }
    int size = zt_utf8_decode(reader->at, (size_t)(reader->end - reader->at), code_point);
    reader->at += size;
    return size > 0 || (refuse(reader, "']' expected"), false);
}

/* After "[". */
static gexpr *read_class(regex_reader *reader)
{
    gchars chars = {0};
    bool inverted = skip_text(reader, "^");
    for (bool first = true; first || !is_at(reader, "]"); first = false) {
        uint32_t low = 0, high = 0;
        bool single, single_end;
        if (first && is_at(reader, "]")) return refuse(reader, "an empty class; ']' as a character is '\\]'");
        if (reader->at >= reader->end) return refuse(reader, "']' expected");
        if (!read_class_item(reader, &chars, inverted, &single, &low)) return NULL;
        high = low;
        if (is_at(reader, "-") && reader->at + 1 < reader->end && reader->at[1] != ']') {
            reader->at++;
            if (!read_class_item(reader, &chars, inverted, &single_end, &high)) return NULL;
            if (!single || !single_end) return refuse(reader, "a range of classes");
            if (low > high) return refuse(reader, "an empty range");
        }
        if (single && !zt_g_chars_add(reader->builder, &chars, low, high)) return NULL;
    }
    reader->at++;
    if (inverted && !zt_g_chars_invert(reader->builder, &chars)) return NULL;
    return characters(reader, &chars);
}

/* Any character but line ends. */
static gexpr *any_character(regex_reader *reader)
{
    gchars chars = {0};
    if (!zt_g_chars_add(reader->builder, &chars, '\n', '\n') || !zt_g_chars_add(reader->builder, &chars, '\r', '\r') ||
        !zt_g_chars_add(reader->builder, &chars, 0x2028, 0x2029) || !zt_g_chars_invert(reader->builder, &chars))
        return NULL;
    return characters(reader, &chars);
}

/* ---- elements -------------------------------------------------------------------------------- */

/* After "(". */
static gexpr *read_group(regex_reader *reader)
{
    if (++reader->depth > MOST_NESTING) return refuse(reader, "too many nested groups");
    if (is_at(reader, "?=") || is_at(reader, "?!") || is_at(reader, "?<=") || is_at(reader, "?<!"))
        return refuse(reader, "lookahead and lookbehind are not supported");
    if (is_at(reader, "?>")) return refuse(reader, "atomic groups are not supported");
    if (skip_text(reader, "?<") || skip_text(reader, "?P<")) {
        while (reader->at < reader->end && *reader->at != '>') reader->at++;
        if (!skip_text(reader, ">")) return refuse(reader, "'>' expected");
    } else if (!skip_text(reader, "?:") && is_at(reader, "?")) {
        return refuse(reader, "flags in a group are not supported");
    }
    gexpr *expr = read_alternatives(reader);
    reader->depth--;
    if (expr && !skip_text(reader, ")")) return refuse(reader, "')' expected");
    return expr;
}

static gexpr *read_atom(regex_reader *reader)
{
    if (skip_text(reader, "(")) return read_group(reader);
    if (skip_text(reader, "[")) return read_class(reader);
    if (skip_text(reader, ".")) return any_character(reader);
    if (is_at(reader, "^") || is_at(reader, "$")) return refuse(reader, "'^' and '$' are supported at the ends only");
    if (is_at(reader, "*") || is_at(reader, "+") || is_at(reader, "?") || is_at(reader, "{"))
        return refuse(reader, "nothing to repeat");
    uint32_t code_point;
    if (skip_text(reader, "\\")) {
        gchars chars = {0};
        if (reader->at < reader->end && is_class_letter(*reader->at))
            return zt_g_chars_class(reader->builder, &chars, *reader->at++, false) ? characters(reader, &chars) : NULL;
        return read_escape(reader, false, &code_point) ? one_character(reader, code_point) : NULL;
    }
    int size = zt_utf8_decode(reader->at, (size_t)(reader->end - reader->at), &code_point);
    if (size == 0) return refuse(reader, "not valid UTF-8");
    reader->at += size;
    return one_character(reader, code_point);
}

static bool read_count(regex_reader *reader, int64_t *count)
{
    const char *first = reader->at;
    for (*count = 0; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        *count = *count * 10 + (*reader->at - '0');
        if (*count > MOST_REPEATS) return refuse(reader, "more than 65536 repetitions"), false;
    }
    return reader->at > first || (refuse(reader, "a number expected in {}"), false);
}

/* After "{". */
static gexpr *read_bounds(regex_reader *reader, gexpr *body)
{
    int64_t least = 0, most;
    if (!read_count(reader, &least)) return NULL;
    most = least;
    if (skip_text(reader, ",")) {
        most = -1;
        if (!is_at(reader, "}") && !read_count(reader, &most)) return NULL;
    }
    if (!skip_text(reader, "}")) return refuse(reader, "'}' expected");
    if (most >= 0 && most < least) return refuse(reader, "the maximum of {} is below the minimum");
    return zt_g_repeat(reader->builder, body, least, most);
}

static gexpr *read_repeat(regex_reader *reader, gexpr *expr)
{
    if (!expr) return NULL;
    if (skip_text(reader, "*"))
        expr = zt_g_repeat(reader->builder, expr, 0, -1);
    else if (skip_text(reader, "+"))
        expr = zt_g_repeat(reader->builder, expr, 1, -1);
    else if (skip_text(reader, "?"))
        expr = zt_g_optional(reader->builder, expr);
    else if (skip_text(reader, "{"))
        expr = read_bounds(reader, expr);
    else
        return expr;
    if (expr && is_at(reader, "+")) return refuse(reader, "possessive repetitions are not supported");
    if (expr) skip_text(reader, "?"); /* lazy */
    if (expr && (is_at(reader, "*") || is_at(reader, "?") || is_at(reader, "{"))) return refuse(reader, "nothing to repeat");
    return expr;
}

static gexpr *any_text(regex_reader *reader)
{
    gchars all = {0};
    if (!zt_g_chars_add(reader->builder, &all, 0, 0x10ffff)) return NULL;
    return zt_g_repeat(reader->builder, characters(reader, &all), 0, -1);
}

/* One alternative. At the outside, an end without an anchor may have any text beyond it in a JSON string. */
static gexpr *read_sequence(regex_reader *reader)
{
    gbuilder *builder = reader->builder;
    gexpr *list = zt_g_list(builder, G_SEQUENCE);
    bool outside = reader->depth == 0, part = outside && reader->written != G_PLAIN;
    if (!(outside && skip_text(reader, "^")) && part) list = zt_g_add(builder, list, any_text(reader));
    while (list && reader->at < reader->end && !is_at(reader, "|") && !is_at(reader, ")")) {
        bool last = reader->at + 1 == reader->end || reader->at[1] == '|';
        if (outside && is_at(reader, "$") && last) break;
        list = zt_g_add(builder, list, read_repeat(reader, read_atom(reader)));
    }
    if (!(outside && skip_text(reader, "$")) && part) list = zt_g_add(builder, list, any_text(reader));
    return list;
}

static gexpr *read_alternatives(regex_reader *reader)
{
    gexpr *choice = zt_g_list(reader->builder, G_CHOICE);
    do {
        choice = zt_g_add(reader->builder, choice, read_sequence(reader));
    } while (choice && skip_text(reader, "|"));
    return choice;
}

gexpr *zt_g_regex(gbuilder *builder, const char *text, size_t size, gwritten written)
{
    regex_reader reader = {.builder = builder, .text = text, .at = text, .end = text + size, .written = written};
    gexpr *expr = read_alternatives(&reader);
    if (expr && reader.at < reader.end) return refuse(&reader, "')' without '('");
    return expr;
}
