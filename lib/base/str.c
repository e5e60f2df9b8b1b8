/* str.c - growing byte strings, and text made safe: for terminals, for JSON. */
#include "lib/base/base.h"
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void zt_str_init(zt_str *s, zt_ctx *ctx)
{
    *s = (zt_str){.ctx = ctx};
}

void zt_str_fini(zt_str *s)
{
    zt_free(s->ctx, s->data);
    *s = (zt_str){.ctx = s->ctx};
}

void zt_str_clear(zt_str *s)
{
    s->len = 0;
    if (s->data)
        s->data[0] = '\0';
}

/* Room for n more bytes and the closing zero. */
static zt_status reserve(zt_str *s, size_t n)
{
    size_t need;
    if (!zt_add_size(s->len, n, &need) || !zt_add_size(need, 1, &need))
        return zt_fail(s->ctx, ZT_ENOMEM, "out of memory: a string of %zu + %zu bytes", s->len, n);
    if (need <= s->cap)
        return ZT_OK;
    size_t cap = s->cap < SIZE_MAX / 2 ? s->cap * 2 : need;
    cap = cap < 64 ? 64 : cap;
    cap = cap < need ? need : cap;
    char *data = zt_realloc(s->ctx, s->data, cap);
    if (!data)
        return ZT_ENOMEM;
    s->data = data;
    s->cap = cap;
    return ZT_OK;
}

zt_status zt_str_put(zt_str *s, const void *bytes, size_t n)
{
    zt_status st = reserve(s, n);
    if (st)
        return st;
    if (n)
        memcpy(s->data + s->len, bytes, n);
    s->len += n;
    s->data[s->len] = '\0';
    return ZT_OK;
}

zt_status zt_str_puts(zt_str *s, const char *text)
{
    return zt_str_put(s, text, strlen(text));
}

zt_status zt_str_putc(zt_str *s, char c)
{
    return zt_str_put(s, &c, 1);
}

zt_status zt_str_printf(zt_str *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return zt_fail(s->ctx, ZT_EUSAGE, "text that cannot be formatted");
    zt_status st = reserve(s, (size_t)n);
    if (st)
        return st;
    va_start(ap, fmt);
    vsnprintf(s->data + s->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    s->len += (size_t)n;
    return ZT_OK;
}

/* ---- UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF) --------------- */

int zt_utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (n == 0)
        return 0;
    unsigned char c = (unsigned char)s[0];
    int len = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
    if (len == 0 || (size_t)len > n)
        return 0;
    uint32_t u = len == 1 ? c : c & (0xFFu >> (len + 1));
    for (int i = 1; i < len; i++) {
        unsigned char t = (unsigned char)s[i];
        if ((t & 0xC0) != 0x80)
            return 0;
        u = u << 6 | (t & 0x3F);
    }
    if (u < least[len] || u > 0x10FFFF || (u >= 0xD800 && u <= 0xDFFF))
        return 0;
    if (cp)
        *cp = u;
    return len;
}

#define HIGH_BITS UINT64_C(0x8080808080808080)

static uint64_t eight(const char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

bool zt_utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        if (n - i >= 8 && !(eight(s + i) & HIGH_BITS)) {
            i += 8;
            continue;
        }
        int len = (signed char)s[i] >= 0 ? 1 : zt_utf8_decode(s + i, n - i, NULL);
        if (len == 0)
            return false;
        i += (size_t)len;
    }
    return true;
}

int zt_utf8_encode(uint32_t cp, char out[4])
{
    static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        return 0;
    int len = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = len - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3F));
    out[0] = (char)(lead[len] | cp);
    return len;
}

/* ---- text from files ------------------------------------------------------------------------- */

enum { UNIT = 8 }; /* bytes that one escaped or copied character takes at most */

/* C0, DEL and C1 can move a terminal's cursor or start a sequence that it obeys. */
static bool is_control(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7F && cp < 0xA0);
}

/* The first character of s as it is shown: itself, or \xNN for its first byte, *used bytes of s.
 * A C1 control is two bytes of UTF-8, both of which need escaping: the second, alone, is broken. */
static int show_unit(const char *s, size_t n, char out[UNIT], size_t *used)
{
    uint32_t cp = 0;
    int len = zt_utf8_decode(s, n, &cp);
    if (len == 0 || is_control(cp)) {
        *used = 1;
        return snprintf(out, UNIT, "\\x%02x", (unsigned char)s[0]);
    }
    memcpy(out, s, (size_t)len);
    *used = (size_t)len;
    return len;
}

/* How many bytes at the beginning are printable ASCII. */
static size_t printable_run(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && p[i] >= ' ' && p[i] < 0x7f)
        i++;
    return i;
}

zt_status zt_str_put_escaped(zt_str *s, const char *bytes, size_t n)
{
    size_t start = s->len, used = printable_run(bytes, n);
    zt_status st = zt_str_put(s, bytes, used);
    for (size_t i = used; st == ZT_OK && i < n; i += used) {
        char unit[UNIT];
        used = printable_run(bytes + i, n - i);
        if (used) {
            st = zt_str_put(s, bytes + i, used);
            continue;
        }
        int len = show_unit(bytes + i, n - i, unit, &used);
        st = zt_str_put(s, unit, (size_t)len);
    }
    if (st && s->data)
        s->data[s->len = start] = '\0';
    return st;
}

/* What does not fit is cut after a whole character and the cut shown by "...". */
const char *zt_escape(char *buf, size_t buf_bytes, const char *bytes, size_t n)
{
    if (buf_bytes == 0)
        return "";
    size_t len = 0, fit = 0, i = 0, used = 0; /* fit: where "..." still has room */
    for (; i < n; i += used) {
        char unit[UNIT];
        size_t k = (size_t)show_unit(bytes + i, n - i, unit, &used);
        if (len + k >= buf_bytes)
            break;
        if (len + 3 < buf_bytes)
            fit = len;
        memcpy(buf + len, unit, k);
        len += k;
    }
    if (i < n && buf_bytes > 3) {
        fit = len + 3 < buf_bytes ? len : fit;
        memcpy(buf + fit, "...", 3);
        len = fit + 3;
    }
    buf[len] = '\0';
    return buf;
}

/* One character inside a JSON string. Quotes, backslashes and controls are escaped; also DEL and
 * C1, which JSON would allow but a terminal obeys. */
static int json_unit(const char *s, size_t n, char out[UNIT], size_t *used)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    uint32_t cp = 0;
    int len = zt_utf8_decode(s, n, &cp);
    *used = len ? (size_t)len : 1;
    if (len == 0)
        return zt_utf8_encode(0xFFFD, out);
    const char *at = cp && cp < 0x80 ? strchr(plain, (int)cp) : NULL;
    if (at) {
        out[0] = '\\';
        out[1] = letter[at - plain];
        return 2;
    }
    if (is_control(cp))
        return snprintf(out, UNIT, "\\u%04x", cp);
    memcpy(out, s, (size_t)len);
    return len;
}

/* Is one of eight bytes zero? */
static bool any_zero(uint64_t x)
{
    return (x - UINT64_C(0x0101010101010101)) & ~x & HIGH_BITS;
}

/* Do all eight bytes stand for themselves in JSON? Subtracting a blank from each borrows from the
 * next only behind a byte that does not. */
static bool all_plain(uint64_t x)
{
    uint64_t quote = x ^ UINT64_C(0x2222222222222222), back = x ^ UINT64_C(0x5c5c5c5c5c5c5c5c),
             del = x ^ UINT64_C(0x7f7f7f7f7f7f7f7f);
    bool control = (x - UINT64_C(0x2020202020202020)) & ~x & HIGH_BITS;
    return !(x & HIGH_BITS) && !control && !any_zero(quote) && !any_zero(back) && !any_zero(del);
}

/* How many bytes stand for themselves. */
static size_t plain_run(const char *p, size_t n)
{
    size_t i = 0;
    while (n - i >= 8 && all_plain(eight(p + i)))
        i += 8;
    while (i < n && p[i] >= ' ' && p[i] < 0x7f && p[i] != '"' && p[i] != '\\')
        i++;
    return i;
}

zt_status zt_str_put_json(zt_str *s, const char *bytes, size_t n)
{
    size_t start = s->len;
    zt_status st = zt_str_putc(s, '"');
    for (size_t i = 0, used = 0; st == ZT_OK && i < n; i += used) {
        char unit[UNIT];
        used = plain_run(bytes + i, n - i);
        if (used) {
            st = zt_str_put(s, bytes + i, used);
            continue;
        }
        int len = json_unit(bytes + i, n - i, unit, &used);
        st = zt_str_put(s, unit, (size_t)len);
    }
    if (!st)
        st = zt_str_putc(s, '"');
    if (st && s->data)
        s->data[s->len = start] = '\0';
    return st;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* 15 digits bring back every decimal that was short, and %g drops the zeros at its end; 17 bring
 * back every double. Subnormals have fewer digits to give, so there the search starts at one.
 * glibc's C locale is a constant: newlocale neither allocates nor fails. */
zt_status zt_str_put_double(zt_str *s, double x)
{
    if (isnan(x))
        return zt_str_puts(s, "nan");
    if (isinf(x))
        return zt_str_puts(s, x < 0 ? "-inf" : "inf");
    char text[40];
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), was = uselocale(c);
    for (int digits = fabs(x) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    uselocale(was);
    freelocale(c);
    return zt_str_puts(s, text);
}

bool zt_parse_double(const char *text, double *out)
{
    const char *body = text + (*text == '-' || *text == '+');
    bool word = strcmp(body, "inf") == 0 || strcmp(body, "nan") == 0;
    if (!word && (strspn(body, "0123456789.eE+-") != strlen(body) || !strpbrk(body, "0123456789")))
        return false;
    char *end;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double x = strtod_l(text, &end, c);
    freelocale(c);
    if (*end || (!word && isinf(x)))
        return false;
    *out = x;
    return true;
}

bool zt_parse_i64(const char *text, int64_t *out)
{
    const char *p = text + (*text == '-' || *text == '+');
    if (!*p)
        return false;
    int64_t x = 0; /* kept negative: there is one more of them */
    for (; *p; p++) {
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(x, 10, &x) ||
            __builtin_sub_overflow(x, *p - '0', &x))
            return false;
    }
    if (*text != '-' && x == INT64_MIN)
        return false;
    *out = *text == '-' ? x : -x;
    return true;
}

/* The number of bytes that a unit stands for, 0 for what is none. */
static uint64_t unit_bytes(const char *name)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } unit[] = {
        {"", 1},           {"B", 1},           {"K", 1000},          {"KB", 1000},
        {"KiB", 1u << 10}, {"M", 1000000},     {"MB", 1000000},      {"MiB", 1u << 20},
        {"G", 1000000000}, {"GB", 1000000000}, {"GiB", 1u << 30},    {"T", 1000000000000},
        {"TB", 1000000000000}, {"TiB", (uint64_t)1 << 40},
    };
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        if (strcasecmp(name, unit[i].name) == 0)
            return unit[i].bytes;
    return 0;
}

/* "1.5GiB" too: up to six digits after the point, which all units from T down keep below 2^64. */
bool zt_parse_size(const char *text, size_t *out)
{
    size_t whole = 0, part = 0, scale = 1, bytes;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++)
        if (!zt_mul_size(whole, 10, &whole) || !zt_add_size(whole, (size_t)(*p - '0'), &whole))
            return false;
    if (p == text)
        return false;
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9' && scale < 1000000; p++, scale *= 10)
            part = part * 10 + (size_t)(*p - '0');
        if (scale == 1)
            return false;
    }
    uint64_t unit = unit_bytes(p);
    if (unit == 0 || (unit == 1 && scale > 1))
        return false;
    return zt_mul_size(whole, unit, &bytes) && zt_add_size(bytes, part * unit / scale, &bytes) &&
           (*out = bytes, true);
}
