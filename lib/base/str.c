/* str.c - growing byte strings, and text made safe: for terminals, for JSON. */
#include "lib/base/base.h"
#include "lib/base/require.h"
#include "lib/base/utf8.h"
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void zt_str_init(zt_str *str, zt_ctx *ctx)
{
    if (!str) return;
    *str = (zt_str){.ctx = ctx};
}

void zt_str_fini(zt_str *str)
{
    if (!str) return;
    zt_free(str->ctx, str->data);
    *str = (zt_str){.ctx = str->ctx};
}

void zt_str_clear(zt_str *str)
{
    if (!str) return;
    str->len = 0;
    str->failed = false;
    if (str->data) str->data[0] = '\0';
}

static zt_status grow(zt_str *str, size_t needed)
{
    size_t capacity = str->cap < SIZE_MAX / 2 ? str->cap * 2 : needed;
    capacity = capacity < 64 ? 64 : capacity;
    capacity = capacity < needed ? needed : capacity;
    char *data = zt_realloc(str->ctx, str->data, capacity);
    if (!data) return ZT_ENOMEM;
    str->data = data;
    str->cap = capacity;
    return ZT_OK;
}

/* Room for `size` more bytes and the closing zero. The context may have been cleared since a put failed. */
static zt_status reserve_bytes(zt_str *str, size_t size)
{
    size_t needed;
    if (str->failed) return zt_fail(str->ctx, ZT_ENOMEM, "out of memory: a string lost a piece after %zu bytes", str->len);
    zt_status status = zt_add_size(str->len, size, &needed) && zt_add_size(needed, 1, &needed)
                           ? ZT_OK
                           : zt_fail(str->ctx, ZT_ENOMEM, "out of memory: string of %zu + %zu bytes", str->len, size);
    if (status == ZT_OK && needed > str->cap) status = grow(str, needed);
    str->failed = status != ZT_OK;
    return status;
}

zt_status zt_str_put(zt_str *str, const void *bytes, size_t size)
{
    if (!str) return ZT_EUSAGE;
    ZT_REQUIRE(str->ctx, bytes || !size, ZT_EUSAGE);
    zt_status status = reserve_bytes(str, size);
    if (status) return status;
    if (size) memcpy(str->data + str->len, bytes, size);
    str->len += size;
    str->data[str->len] = '\0';
    return ZT_OK;
}

zt_status zt_str_puts(zt_str *str, const char *text)
{
    if (!str) return ZT_EUSAGE;
    ZT_REQUIRE(str->ctx, text, ZT_EUSAGE);
    return zt_str_put(str, text, strlen(text));
}

zt_status zt_str_putc(zt_str *str, char character) { return str ? zt_str_put(str, &character, 1) : ZT_EUSAGE; }

zt_status zt_str_printf(zt_str *str, const char *format, ...)
{
    if (!str) return ZT_EUSAGE;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) return zt_fail(str->ctx, ZT_EUSAGE, "the text cannot be formatted");
    zt_status status = reserve_bytes(str, (size_t)length);
    if (status) return status;
    va_start(arguments, format);
    vsnprintf(str->data + str->len, (size_t)length + 1, format, arguments);
    va_end(arguments);
    str->len += (size_t)length;
    return ZT_OK;
}

/* ---- UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF) --------------- */

int zt_utf8_decode(const char *text, size_t size, uint32_t *code_point)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (size == 0 || !text) return 0;
    unsigned char first = (unsigned char)text[0];
    int length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (length == 0 || (size_t)length > size) return 0;
    uint32_t code = length == 1 ? first : first & (0xFFu >> (length + 1));
    for (int i = 1; i < length; i++) {
        unsigned char trail = (unsigned char)text[i];
        if ((trail & 0xC0) != 0x80) return 0;
        code = code << 6 | (trail & 0x3F);
    }
    if (code < least[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return 0;
    if (code_point) *code_point = code;
    return length;
}

size_t zt_utf8_count(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; text && i < size; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

#define HIGH_BITS UINT64_C(0x8080808080808080)

static uint64_t load_eight(const char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

bool zt_utf8_valid(const char *text, size_t size)
{
    if (!text) return size == 0;
    for (size_t i = 0; i < size;) {
        if (size - i >= 8 && !(load_eight(text + i) & HIGH_BITS)) {
            i += 8;
            continue;
        }
        int length = (signed char)text[i] >= 0 ? 1 : zt_utf8_decode(text + i, size - i, NULL);
        if (length == 0) return false;
        i += (size_t)length;
    }
    return true;
}

int zt_utf8_encode(uint32_t code_point, char out[4])
{
    if (!out) return 0;
    static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) return 0;
    int length = code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, code_point >>= 6) out[i] = (char)(0x80 | (code_point & 0x3F));
    out[0] = (char)(lead[length] | code_point);
    return length;
}

/* ---- text from files ------------------------------------------------------------------------- */

enum { UNIT = 8 }; /* bytes that one escaped or copied character takes at most */

/* C0, DEL and C1 can move a terminal's cursor or start a sequence that it obeys. */
static bool is_control(uint32_t code_point) { return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0); }

/* The first character of `text` as it is shown: itself, or \xNN for its first byte, *used bytes of `text`.
 * A C1 control is two bytes of UTF-8, both of which need escaping: the second, alone, is broken. */
static int show_unit(const char *text, size_t size, char out[UNIT], size_t *used)
{
    uint32_t code_point = 0;
    int length = zt_utf8_decode(text, size, &code_point);
    if (length == 0 || is_control(code_point)) {
        *used = 1;
        return snprintf(out, UNIT, "\\x%02x", (unsigned char)text[0]);
    }
    memcpy(out, text, (size_t)length);
    *used = (size_t)length;
    return length;
}

/* How many bytes at the beginning are printable ASCII. */
static size_t printable_run(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && text[i] >= ' ' && text[i] < 0x7f) i++;
    return i;
}

zt_status zt_str_put_escaped(zt_str *str, const char *bytes, size_t size)
{
    if (!str) return ZT_EUSAGE;
    ZT_REQUIRE(str->ctx, bytes || !size, ZT_EUSAGE);
    size_t start = str->len, used = printable_run(bytes, size);
    zt_status status = zt_str_put(str, bytes, used);
    for (size_t i = used; status == ZT_OK && i < size; i += used) {
        char unit[UNIT];
        used = printable_run(bytes + i, size - i);
        if (used) {
            status = zt_str_put(str, bytes + i, used);
            continue;
        }
        int length = show_unit(bytes + i, size - i, unit, &used);
        status = zt_str_put(str, unit, (size_t)length);
    }
    if (status && str->data) str->data[str->len = start] = '\0';
    return status;
}

/* What does not fit is cut after a whole character and the cut shown by "...". */
const char *zt_escape(char *buffer, size_t buf_bytes, const char *bytes, size_t size)
{
    if (!buffer || buf_bytes == 0) return "";
    if (!bytes) size = 0;
    size_t length = 0, fit = 0, i = 0, used = 0; /* fit: where "..." still has room */
    for (; i < size; i += used) {
        char unit[UNIT];
        size_t unit_length = (size_t)show_unit(bytes + i, size - i, unit, &used);
        if (length + unit_length >= buf_bytes) break;
        if (length + 3 < buf_bytes) fit = length;
        memcpy(buffer + length, unit, unit_length);
        length += unit_length;
    }
    if (i < size && buf_bytes > 3) {
        fit = length + 3 < buf_bytes ? length : fit;
        memcpy(buffer + fit, "...", 3);
        length = fit + 3;
    }
    buffer[length] = '\0';
    return buffer;
}

/* One character inside a JSON string. Quotes, backslashes and controls are escaped; also DEL and
 * C1, which JSON would allow but a terminal obeys. */
static int json_unit(const char *text, size_t size, char out[UNIT], size_t *used)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    uint32_t code_point = 0;
    int length = zt_utf8_decode(text, size, &code_point);
    *used = length ? (size_t)length : 1;
    if (length == 0) return zt_utf8_encode(0xFFFD, out);
    const char *found = code_point && code_point < 0x80 ? strchr(plain, (int)code_point) : NULL;
    if (found) {
        out[0] = '\\';
        out[1] = letter[found - plain];
        return 2;
    }
    if (is_control(code_point)) return snprintf(out, UNIT, "\\u%04x", code_point);
    memcpy(out, text, (size_t)length);
    return length;
}

/* Is one of eight bytes zero? */
static bool any_zero(uint64_t word) { return (word - UINT64_C(0x0101010101010101)) & ~word & HIGH_BITS; }

/* Do all eight bytes stand for themselves in JSON? Subtracting a blank from each borrows from the
 * next only behind a byte that does not. */
static bool all_plain(uint64_t word)
{
    uint64_t quote = word ^ UINT64_C(0x2222222222222222), backslash = word ^ UINT64_C(0x5c5c5c5c5c5c5c5c),
             del = word ^ UINT64_C(0x7f7f7f7f7f7f7f7f);
    bool control = (word - UINT64_C(0x2020202020202020)) & ~word & HIGH_BITS;
    return !(word & HIGH_BITS) && !control && !any_zero(quote) && !any_zero(backslash) && !any_zero(del);
}

/* How many bytes stand for themselves. */
static size_t plain_run(const char *text, size_t size)
{
    size_t i = 0;
    while (size - i >= 8 && all_plain(load_eight(text + i))) i += 8;
    while (i < size && text[i] >= ' ' && text[i] < 0x7f && text[i] != '"' && text[i] != '\\') i++;
    return i;
}

zt_status zt_str_put_json(zt_str *str, const char *bytes, size_t size)
{
    if (!str) return ZT_EUSAGE;
    ZT_REQUIRE(str->ctx, bytes || !size, ZT_EUSAGE);
    size_t start = str->len;
    zt_status status = zt_str_putc(str, '"');
    for (size_t i = 0, used = 0; status == ZT_OK && i < size; i += used) {
        char unit[UNIT];
        used = plain_run(bytes + i, size - i);
        if (used) {
            status = zt_str_put(str, bytes + i, used);
            continue;
        }
        int length = json_unit(bytes + i, size - i, unit, &used);
        status = zt_str_put(str, unit, (size_t)length);
    }
    if (!status) status = zt_str_putc(str, '"');
    if (status && str->data) str->data[str->len = start] = '\0';
    return status;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* 15 digits bring back every decimal that was short, and %g drops the zeros at its end; 17 bring
 * back every double. Subnormals have fewer digits to give, so there the search starts at one.
 * glibc's C locale is a constant: newlocale neither allocates nor fails. */
zt_status zt_str_put_double(zt_str *str, double value)
{
    if (!str) return ZT_EUSAGE;
    if (isnan(value)) return zt_str_puts(str, "nan");
    if (isinf(value)) return zt_str_puts(str, value < 0 ? "-inf" : "inf");
    char text[40];
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0), previous = uselocale(c_locale);
    for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    uselocale(previous);
    freelocale(c_locale);
    return zt_str_puts(str, text);
}

bool zt_parse_double(const char *text, double *out)
{
    if (!text) return false;
    const char *body = text + (*text == '-' || *text == '+');
    bool word = strcmp(body, "inf") == 0 || strcmp(body, "nan") == 0;
    if (!word && (strspn(body, "0123456789.eE+-") != strlen(body) || !strpbrk(body, "0123456789"))) return false;
    char *end;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = strtod_l(text, &end, c_locale);
    freelocale(c_locale);
    if (*end || (!word && isinf(value))) return false;
    *out = value;
    return true;
}

bool zt_parse_i64(const char *text, int64_t *out)
{
    if (!text) return false;
    const char *digit = text + (*text == '-' || *text == '+');
    if (!*digit) return false;
    int64_t value = 0; /* kept negative: there is one more of them */
    for (; *digit; digit++) {
        if (*digit < '0' || *digit > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, *digit - '0', &value))
            return false;
    }
    if (*text != '-' && value == INT64_MIN) return false;
    *out = *text == '-' ? value : -value;
    return true;
}

/* The number of bytes that a unit stands for, 0 for what is none. */
static uint64_t unit_bytes(const char *name)
{
    // clang-format off
    static const struct {
        const char *name;
        uint64_t bytes;
    } unit[] = {
        {"", 1},           {"B", 1},           {"K", 1000},          {"KB", 1000},
        {"KiB", 1u << 10}, {"M", 1000000},     {"MB", 1000000},      {"MiB", 1u << 20},
        {"G", 1000000000}, {"GB", 1000000000}, {"GiB", 1u << 30},    {"T", 1000000000000},
        {"TB", 1000000000000}, {"TiB", (uint64_t)1 << 40},
    };
    // clang-format on
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        if (strcasecmp(name, unit[i].name) == 0) return unit[i].bytes;
    return 0;
}

/* "1.5GiB" too: up to six digits after the point, which all units from T down keep below 2^64. */
bool zt_name_ends_in_n(const char *name, size_t length, const char *end, size_t end_length)
{
    return name && end && end_length && length >= end_length && !memcmp(name + length - end_length, end, end_length) &&
           (length == end_length || name[length - end_length - 1] == '.');
}

bool zt_name_ends_in(const char *name, const char *end)
{
    return name && end && zt_name_ends_in_n(name, strlen(name), end, strlen(end));
}

bool zt_parse_size(const char *text, size_t *out)
{
    if (!text) return false;
    size_t whole = 0, part = 0, scale = 1, bytes;
    const char *cursor = text;
    for (; *cursor >= '0' && *cursor <= '9'; cursor++)
        if (!zt_mul_size(whole, 10, &whole) || !zt_add_size(whole, (size_t)(*cursor - '0'), &whole)) return false;
    if (cursor == text) return false;
    if (*cursor == '.') {
        for (cursor++; *cursor >= '0' && *cursor <= '9' && scale < 1000000; cursor++, scale *= 10)
            part = part * 10 + (size_t)(*cursor - '0');
        if (scale == 1) return false;
    }
    uint64_t unit = unit_bytes(cursor);
    if (unit == 0 || (unit == 1 && scale > 1)) return false;
    return zt_mul_size(whole, unit, &bytes) && zt_add_size(bytes, part * unit / scale, &bytes) && (*out = bytes, true);
}
