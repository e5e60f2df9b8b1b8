/* json_value.c - owns checking a JSON value without keeping anything of it. */
#include "lib/io/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *cursor, const char *end)
{
    while (cursor < end && (*cursor == ' ' || *cursor == '\n' || *cursor == '\r' || *cursor == '\t')) cursor++;
    return cursor;
}

/* ---- strings --------------------------------------------------------------------------------- */

/* The four hexadecimal digits at `cursor`; -1: they are not there. */
static int parse_hex4(const char *cursor, const char *end)
{
    int value = 0;
    if (end - cursor < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char character = cursor[i];
        int digit = character >= '0' && character <= '9'   ? character - '0'
                    : character >= 'a' && character <= 'f' ? character - 'a' + 10
                    : character >= 'A' && character <= 'F' ? character - 'A' + 10
                                                           : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

static bool is_high(int unit) { return unit >= 0xD800 && unit <= 0xDBFF; }

static bool is_low(int unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }

/* Past the escape whose backslash is at `cursor`. A surrogate comes with its other half. */
static const char *escape_end(const char *cursor, const char *end)
{
    if (end - cursor < 2 || !strchr("\"\\/bfnrtu", cursor[1]) || !cursor[1]) return NULL;
    if (cursor[1] != 'u') return cursor + 2;
    int unit = parse_hex4(cursor + 2, end);
    if (unit < 0 || is_low(unit)) return NULL;
    cursor += 6;
    if (!is_high(unit)) return cursor;
    return end - cursor >= 2 && cursor[0] == '\\' && cursor[1] == 'u' && is_low(parse_hex4(cursor + 2, end)) ? cursor + 6 : NULL;
}

static const char *string_end(const char *cursor, const char *end)
{
    cursor++;
    while (cursor && cursor < end && *cursor != '"') {
        uint32_t code;
        int length = zt_utf8_decode(cursor, (size_t)(end - cursor), &code);
        if (length == 0 || code < 0x20) return NULL;
        cursor = *cursor == '\\' ? escape_end(cursor, end) : cursor + length;
    }
    return cursor && cursor < end ? cursor + 1 : NULL;
}

/* ---- numbers and words ----------------------------------------------------------------------- */

static const char *digits_end(const char *cursor, const char *end)
{
    const char *begin = cursor;
    while (cursor < end && *cursor >= '0' && *cursor <= '9') cursor++;
    return cursor > begin ? cursor : NULL;
}

/* Is the number one that a double holds? Only long ones and those with an exponent may not be. */
static bool is_finite(const char *text, size_t length)
{
    enum { SHORT = 300 };
    char copy[SHORT + 1];
    if (length > SHORT) return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    return isfinite(strtod(copy, NULL));
}

static const char *number_end(const char *cursor, const char *end)
{
    const char *begin = cursor, *whole;
    cursor += *cursor == '-';
    whole = cursor;
    cursor = digits_end(cursor, end);
    if (!cursor || (*whole == '0' && cursor > whole + 1)) return NULL;
    if (cursor < end && *cursor == '.') cursor = digits_end(cursor + 1, end);
    if (cursor && cursor < end && (*cursor == 'e' || *cursor == 'E')) {
        cursor++;
        cursor += cursor < end && (*cursor == '+' || *cursor == '-');
        cursor = digits_end(cursor, end);
    }
    return cursor && is_finite(begin, (size_t)(cursor - begin)) ? cursor : NULL;
}

static const char *word_end(const char *cursor, const char *end)
{
    static const char *const words[] = {"null", "true", "false"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(end - cursor) >= length && memcmp(cursor, words[i], length) == 0) return cursor + length;
    }
    return NULL;
}

/* ---- lists and objects ----------------------------------------------------------------------- */

static const char *item_end(const char *cursor, const char *end, bool named, int depth)
{
    if (named) {
        cursor = cursor < end && *cursor == '"' ? string_end(cursor, end) : NULL;
        cursor = cursor ? skip_space(cursor, end) : NULL;
        if (!cursor || cursor == end || *cursor != ':') return NULL;
        cursor = skip_space(cursor + 1, end);
    }
    return zt_json_value_end(cursor, end, depth);
}

static const char *nested_end(const char *cursor, const char *end, int depth)
{
    bool named = *cursor == '{';
    char close = named ? '}' : ']';
    if (depth == 0) return NULL;
    cursor = skip_space(cursor + 1, end);
    if (cursor < end && *cursor == close) return cursor + 1;
    for (;;) {
        cursor = item_end(cursor, end, named, depth - 1);
        cursor = cursor ? skip_space(cursor, end) : NULL;
        if (!cursor || cursor == end) return NULL;
        if (*cursor == close) return cursor + 1;
        if (*cursor != ',') return NULL;
        cursor = skip_space(cursor + 1, end);
    }
}

const char *zt_json_value_end(const char *cursor, const char *end, int depth)
{
    if (cursor == end) return NULL;
    if (*cursor == '{' || *cursor == '[') return nested_end(cursor, end, depth);
    if (*cursor == '"') return string_end(cursor, end);
    return *cursor == '-' || (*cursor >= '0' && *cursor <= '9') ? number_end(cursor, end) : word_end(cursor, end);
}
