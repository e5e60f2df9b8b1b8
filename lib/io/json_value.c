/* json_value.c - owns checking a JSON value without keeping anything of it. */
#include "lib/io/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* ---- strings --------------------------------------------------------------------------------- */

/* The four hexadecimal digits at p; -1: they are not there. */
static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

static bool is_high(int unit) { return unit >= 0xD800 && unit <= 0xDBFF; }

static bool is_low(int unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }

/* Past the escape whose backslash is at p. A surrogate comes with its other half. */
static const char *escape_end(const char *p, const char *end)
{
    if (end - p < 2 || !strchr("\"\\/bfnrtu", p[1]) || !p[1])
        return NULL;
    if (p[1] != 'u')
        return p + 2;
    int unit = hex4(p + 2, end);
    if (unit < 0 || is_low(unit))
        return NULL;
    p += 6;
    if (!is_high(unit))
        return p;
    return end - p >= 2 && p[0] == '\\' && p[1] == 'u' && is_low(hex4(p + 2, end)) ? p + 6 : NULL;
}

static const char *string_end(const char *p, const char *end)
{
    p++;
    while (p && p < end && *p != '"') {
        uint32_t code;
        int n = zt_utf8_decode(p, (size_t)(end - p), &code);
        if (n == 0 || code < 0x20)
            return NULL;
        p = *p == '\\' ? escape_end(p, end) : p + n;
    }
    return p && p < end ? p + 1 : NULL;
}

/* ---- numbers and words ----------------------------------------------------------------------- */

static const char *digits_end(const char *p, const char *end)
{
    const char *from = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p > from ? p : NULL;
}

/* Is the number one that a double holds? Only long ones and those with an exponent may not be. */
static bool is_finite(const char *text, size_t n)
{
    enum { SHORT = 300 };
    char copy[SHORT + 1];
    if (n > SHORT)
        return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    return isfinite(strtod(copy, NULL));
}

static const char *number_end(const char *p, const char *end)
{
    const char *from = p, *whole;
    p += *p == '-';
    whole = p;
    p = digits_end(p, end);
    if (!p || (*whole == '0' && p > whole + 1))
        return NULL;
    if (p < end && *p == '.')
        p = digits_end(p + 1, end);
    if (p && p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        p = digits_end(p, end);
    }
    return p && is_finite(from, (size_t)(p - from)) ? p : NULL;
}

static const char *word_end(const char *p, const char *end)
{
    static const char *const words[] = {"null", "true", "false"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(end - p) >= n && memcmp(p, words[i], n) == 0)
            return p + n;
    }
    return NULL;
}

/* ---- lists and objects ----------------------------------------------------------------------- */

static const char *item_end(const char *p, const char *end, bool named, int depth)
{
    if (named) {
        p = p < end && *p == '"' ? string_end(p, end) : NULL;
        p = p ? skip_space(p, end) : NULL;
        if (!p || p == end || *p != ':')
            return NULL;
        p = skip_space(p + 1, end);
    }
    return zt_json_value_end(p, end, depth);
}

static const char *nested_end(const char *p, const char *end, int depth)
{
    bool named = *p == '{';
    char close = named ? '}' : ']';
    if (depth == 0)
        return NULL;
    p = skip_space(p + 1, end);
    if (p < end && *p == close)
        return p + 1;
    for (;;) {
        p = item_end(p, end, named, depth - 1);
        p = p ? skip_space(p, end) : NULL;
        if (!p || p == end)
            return NULL;
        if (*p == close)
            return p + 1;
        if (*p != ',')
            return NULL;
        p = skip_space(p + 1, end);
    }
}

const char *zt_json_value_end(const char *p, const char *end, int depth)
{
    if (p == end)
        return NULL;
    if (*p == '{' || *p == '[')
        return nested_end(p, end, depth);
    if (*p == '"')
        return string_end(p, end);
    return *p == '-' || (*p >= '0' && *p <= '9') ? number_end(p, end) : word_end(p, end);
}
