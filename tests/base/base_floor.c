/* base_floor.c - the ground floor: errors, strings, numbers, maps, random
 * numbers, the processor. Memory is in memory.c. */
#include "lib/base/base.h"
#include "lib/base/utf8.h"
#include "tests/common/tap.h"
#include <float.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- context --------------------------------------------------------------------------------- */

static void *fail_often(void *arg)
{
    zt_ctx *ctx = arg;
    for (int i = 0; i < 1000; i++) zt_fail(ctx, ZT_EDATA, "fault %d", i);
    return NULL;
}

static void count_lines(void *user, zt_level level, const char *line)
{
    int *n = user;
    n[level] += line[0] == 'm';
}

static void test_context(zt_ctx *ctx)
{
    ok(zt_ctx_status(ctx) == ZT_OK && !*zt_ctx_error(ctx), "a new context has no error");
    ok(zt_fail(ctx, ZT_EDATA, "tensor '%s': %d bytes", "w", 7) == ZT_EDATA, "fail gives a status");
    zt_fail(ctx, ZT_EIO, "later");
    ok(zt_ctx_status(ctx) == ZT_EDATA && !strcmp(zt_ctx_error(ctx), "tensor 'w': 7 bytes"), "the first error stays");
    zt_ctx_clear(ctx);
    ok(zt_ctx_status(ctx) == ZT_OK && !*zt_ctx_error(ctx), "clear forgets it");

    char *huge = zt_calloc(ctx, 5000, 1);
    memset(huge, 'x', 4999);
    zt_fail(ctx, ZT_EDATA, "%s", huge);
    size_t length = strlen(zt_ctx_error(ctx));
    ok(length > 1000 && !strcmp(zt_ctx_error(ctx) + length - 3, "..."), "a long message is cut and says so");
    zt_ctx_clear(ctx);
    zt_free(ctx, huge);

    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, fail_often, ctx);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    ok(!strcmp(zt_ctx_error(ctx), "fault 0"), "threads that fail at once leave one first message");
    zt_ctx_clear(ctx);

    bool named = true;
    for (int s = -1; s <= ZT_STATUS_COUNT; s++) named &= zt_status_name((zt_status)s) != NULL && *zt_status_name((zt_status)s);
    ok(named && strcmp(zt_status_name(ZT_EDATA), zt_status_name(ZT_EIO)), "statuses have names");

    int lines[3] = {0};
    zt_log(ctx, ZT_LOG_WARN, "m: nobody listens");
    zt_log_set(ctx, ZT_LOG_INFO, count_lines, lines);
    zt_log(ctx, ZT_LOG_WARN, "m%d", 1);
    zt_log(ctx, ZT_LOG_INFO, "m%d", 2);
    zt_log(ctx, ZT_LOG_DEBUG, "m%d", 3);
    ok(lines[0] == 1 && lines[1] == 1 && lines[2] == 0, "the log goes up to its level");
    zt_log_set(ctx, ZT_LOG_DEBUG, NULL, NULL);
}

/* ---- strings --------------------------------------------------------------------------------- */

enum { PUT_KINDS = 4 };
static zt_status put_big(zt_str *string, int kind, const char *big, size_t size)
{
    switch (kind) {
    case 0: return zt_str_put(string, big, size);
    case 1: return zt_str_put_escaped(string, big, size);
    case 2: return zt_str_put_json(string, big, size);
    default: return zt_str_printf(string, "%.*s", (int)size, big);
    }
}

static void test_str(zt_ctx *ctx)
{
    zt_str string;
    zt_str_init(&string, ctx);
    ok(zt_str_puts(&string, "") == ZT_OK && string.data && !*string.data && string.len == 0, "an empty put makes \"\"");
    zt_str_puts(&string, "abc");
    zt_str_putc(&string, '-');
    zt_str_put(&string, "d\0e", 3);
    zt_str_printf(&string, "%d %s", 12, "x");
    ok(string.len == 11 && !memcmp(string.data, "abc-d\0e12 x", 12), "puts, putc, put, printf");
    for (int i = 0; i < 1000; i++) zt_str_printf(&string, "%d,", i);
    ok(string.len == 11 + 10 * 2 + 90 * 3 + 900 * 4 && string.data[string.len] == 0, "it grows");
    zt_str_clear(&string);
    ok(string.len == 0 && !*string.data && string.cap > 1000, "clear keeps the memory");

    zt_str_puts(&string, "kept");
    zt_mem_fail(ctx, 1, true);
    char big[8000];
    memset(big, '\1', sizeof big);
    bool alone = true, stays = true;
    for (int kind = 0; kind < PUT_KINDS; kind++) {
        zt_str_clear(&string);
        zt_str_puts(&string, "kept");
        alone = alone && put_big(&string, kind, big, sizeof big) == ZT_ENOMEM && !strcmp(string.data, "kept") && string.len == 4;
        zt_ctx_clear(ctx);
        stays = stays && zt_str_putc(&string, '!') == ZT_ENOMEM && zt_ctx_status(ctx) == ZT_ENOMEM && string.len == 4;
        zt_ctx_clear(ctx);
    }
    ok(alone, "a failed put leaves the string alone");
    ok(stays, "after it all puts fail, so that no piece is missing in the middle");
    zt_str_clear(&string);
    ok(zt_str_puts(&string, "new") == ZT_OK && !strcmp(string.data, "new"), "until the string is cleared");
    ok(zt_str_put(&string, big, SIZE_MAX) == ZT_ENOMEM, "lengths that overflow are refused");
    zt_mem_fail(ctx, 0, false);
    zt_ctx_clear(ctx);
    zt_str_fini(&string);
    ok(!string.data && zt_mem_get(ctx).blocks == 0, "fini");
}

static bool escapes(zt_ctx *ctx, const char *in, size_t count, const char *want)
{
    zt_str string;
    zt_str_init(&string, ctx);
    zt_str_put_escaped(&string, in, count);
    bool same = !strcmp(string.data, want);
    zt_str_fini(&string);
    return same;
}

static bool json(zt_ctx *ctx, const char *in, size_t count, const char *want)
{
    zt_str string;
    zt_str_init(&string, ctx);
    zt_str_put_json(&string, in, count);
    bool same = !strcmp(string.data, want);
    zt_str_fini(&string);
    return same;
}

typedef zt_status put_text(zt_str *s, const char *bytes, size_t n);

static zt_status put_in_quotes(zt_str *s, const char *bytes, size_t n)
{
    zt_status st = zt_str_put_json(s, bytes, n);
    s->data[s->len - 1] = '\0'; /* the quotes go, so that pieces can follow each other */
    memmove(s->data, s->data + 1, s->len -= 2);
    s->data[s->len] = '\0';
    return st;
}

/* The text is what its three pieces are, one after the other. */
static bool is_pieces(zt_ctx *ctx, put_text *put, const char *text, size_t count, size_t at)
{
    zt_str whole, piece;
    const size_t cut[] = {0, at, at + 1, count};
    zt_str_init(&whole, ctx);
    put(&whole, text, count);
    const char *cursor = whole.data;
    bool same = true;
    for (int i = 0; i < 3 && same; i++) {
        zt_str_init(&piece, ctx);
        put(&piece, text + cut[i], cut[i + 1] - cut[i]);
        same = strncmp(cursor, piece.data, piece.len) == 0;
        cursor += same ? piece.len : 0;
        zt_str_fini(&piece);
    }
    same = same && *cursor == '\0';
    zt_str_fini(&whole);
    return same;
}

/* Plain text is passed over in steps: what is not, is seen at any place of them. */
static void test_runs(zt_ctx *ctx)
{
    enum { N = 21 };
    char text[N];
    bool json = true, escaped = true, valid = true;
    for (size_t at = 0; at < N; at++)
        for (int c = 0; c < 256; c++) {
            memset(text, c & 1 ? 'a' : '~', N);
            text[at] = (char)c;
            json = json && is_pieces(ctx, put_in_quotes, text, N, at);
            escaped = escaped && is_pieces(ctx, zt_str_put_escaped, text, N, at);
            valid = valid && zt_utf8_valid(text, N) == (c < 0x80);
        }
    ok(json, "any byte at any place of a text is its own in JSON");
    ok(escaped, "and where it is shown");
    ok(valid, "and broken UTF-8 is seen there");
}

static void test_escape(zt_ctx *ctx)
{
    ok(escapes(ctx, "a\033[2Jb\n\t\0\177", 10, "a\\x1b[2Jb\\x0a\\x09\\x00\\x7f"), "C0 and DEL");
    ok(escapes(ctx,
               "\xc2\x9b"
               "31m",
               5, "\\xc2\\x9b31m"),
       "C1 controls");
    static const char text[] = "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80";
    ok(escapes(ctx, text, strlen(text), text), "text stays");
    ok(escapes(ctx, "\xff\xc3", 2, "\\xff\\xc3"), "broken UTF-8");
    ok(json(ctx, "a\"b\\c\n\r\t\b\f\1\177\0", 13, "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u007f\\u0000\""),
       "JSON: quotes and controls");
    ok(json(ctx, "\xc3\xbc\xc2\x9b\xff/", 6, "\"\xc3\xbc\\u009b\xef\xbf\xbd/\""),
       "JSON: text stays, C1 escaped, broken UTF-8 replaced");

    char buf[16];
    ok(zt_name_ends_in("a.b.c", "c") && zt_name_ends_in("a.b.c", "b.c") && zt_name_ends_in("c", "c"), "the last parts of a name");
    ok(!zt_name_ends_in("a.bc", "c") && !zt_name_ends_in("a.c", ".c") && !zt_name_ends_in("a.", "") &&
           !zt_name_ends_in("c", "a.c") && !zt_name_ends_in(NULL, "c") && !zt_name_ends_in("c", NULL) &&
           zt_name_ends_in_n("a.bc", 3, "b", 1),
       "no part of one, none");
    ok(!strcmp(zt_escape(buf, 16, "ab\n", 3), "ab\\x0a"), "escape into a buffer");
    ok(!strcmp(zt_escape(buf, 6, "abcde", 5), "abcde"), "that just fits");
    bool cut = true;
    for (size_t n = 1; n <= 16; n++) {
        zt_escape(buf, n, "a\xc3\xbc\n\xc3\xbc\xc3\xbc\xc3\xbc\n\n\n", 12);
        size_t len = strlen(buf), at = 0;
        for (int k; at < len; at += (size_t)k)
            if ((k = zt_utf8_decode(buf + at, len - at, NULL)) == 0) break;
        cut &= len < n && at == len && (n < 5 || !strcmp(buf + len - 3, "..."));
    }
    ok(cut, "what does not fit is cut after a whole character and shown");
}

static void test_utf8(void)
{
    // clang-format off
    static const struct {
        const char *s;
        int len;
        uint32_t cp;
    } c[] = {
        {"A", 1, 'A'}, {"\x7f", 1, 0x7f}, {"\xc2\x80", 2, 0x80}, {"\xdf\xbf", 2, 0x7ff},
        {"\xe0\xa0\x80", 3, 0x800}, {"\xed\x9f\xbf", 3, 0xd7ff}, {"\xee\x80\x80", 3, 0xe000},
        {"\xef\xbf\xbf", 3, 0xffff}, {"\xf0\x90\x80\x80", 4, 0x10000},
        {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
        /* a tail alone, overlong forms, surrogates, past the end, cut, a wrong tail */
        {"\x80", 0, 0}, {"\xc0\x80", 0, 0}, {"\xc1\xbf", 0, 0}, {"\xe0\x9f\xbf", 0, 0},
        {"\xf0\x8f\xbf\xbf", 0, 0}, {"\xed\xa0\x80", 0, 0}, {"\xed\xbf\xbf", 0, 0},
        {"\xf4\x90\x80\x80", 0, 0}, {"\xf5\x80\x80\x80", 0, 0}, {"\xff", 0, 0}, {"\xc3", 0, 0},
        {"\xe2\x82", 0, 0}, {"\xf0\x9f\x98", 0, 0}, {"\xe2\x28\xa1", 0, 0}, {"\xc3\x28", 0, 0},
    };
    // clang-format on
    bool good = zt_utf8_decode("", 0, NULL) == 0, back = true;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        uint32_t cp = 0;
        char out[4];
        int len = zt_utf8_decode(c[i].s, strlen(c[i].s), &cp);
        if (len != c[i].len || cp != c[i].cp) {
            diag("case %zu: %d bytes, U+%04X", i, len, cp);
            good = false;
        }
        back &= !len || (zt_utf8_encode(cp, out) == len && !memcmp(out, c[i].s, (size_t)len));
    }
    char out[4];
    ok(good, "utf8_decode takes what RFC 3629 allows and nothing else");
    ok(back, "utf8_encode gives it back");
    ok(zt_utf8_count("a\0\xc3\xa9\xf0\x90\x80\x80", 8) == 4 && zt_utf8_count("\xa9\xe9t", 3) == 2 && zt_utf8_count(NULL, 0) == 0,
       "utf8_count counts characters");
    ok(zt_utf8_valid("a\0\xc3\xa9\xf0\x90\x80\x80", 8) && zt_utf8_valid("", 0) &&
           !zt_utf8_valid("a\xc3\xa9\xf0\x90\x80\x80", 6) && !zt_utf8_valid("\xe9t\xe9", 3),
       "utf8_valid is of all characters");
    ok(!zt_utf8_encode(0xd800, out) && !zt_utf8_encode(0x110000, out), "and encodes no surrogates");
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool prints(zt_ctx *ctx, double x, const char *want)
{
    zt_str string;
    zt_str_init(&string, ctx);
    zt_str_put_double(&string, x);
    bool same = !strcmp(string.data, want);
    if (!same) diag("%.17g printed as %s", x, string.data);
    zt_str_fini(&string);
    return same;
}

static bool round_trips(zt_ctx *ctx, int count)
{
    zt_str string;
    zt_str_init(&string, ctx);
    bool good = true;
    for (int i = 0; i < count && good; i++) {
        uint32_t r[4];
        zt_philox(1, 2, (uint64_t)i, r);
        double x, y = 0;
        memcpy(&x, r, sizeof x);
        if (isnan(x)) continue;
        zt_str_clear(&string);
        zt_str_put_double(&string, x);
        good = zt_parse_double(string.data, &y) && memcmp(&x, &y, sizeof x) == 0;
        if (!good) diag("%.17g printed as %s", x, string.data);
    }
    zt_str_fini(&string);
    return good;
}

static void test_double(zt_ctx *ctx)
{
    ok(prints(ctx, 0.1, "0.1") && prints(ctx, 1e-5, "1e-05") && prints(ctx, 1, "1") && prints(ctx, 100000, "100000") &&
           prints(ctx, -0.0, "-0") && prints(ctx, 1e300, "1e+300") && prints(ctx, 1.0 / 3, "0.3333333333333333") &&
           prints(ctx, DBL_MAX, "1.7976931348623157e+308") && prints(ctx, 5e-324, "5e-324") &&
           prints(ctx, 0x1p-1030, "8.691694759794e-311"),
       "the shortest decimal");
    ok(prints(ctx, INFINITY, "inf") && prints(ctx, -INFINITY, "-inf") && prints(ctx, NAN, "nan"), "inf and nan");
    ok(round_trips(ctx, 20000), "20000 doubles of all sizes come back");
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8")) {
        double x;
        ok(prints(ctx, 0.5, "0.5") && zt_parse_double("0.5", &x) && x == 0.5, "in any locale");
        setlocale(LC_NUMERIC, "C");
    } else {
        skip("no German locale here");
    }
}

static void test_parse(void)
{
    static const struct {
        const char *text;
        size_t bytes;
    } sizes[] = {{"0", 0},
                 {"20000", 20000},
                 {"512M", 512000000},
                 {"4GiB", (size_t)4 << 30},
                 {"1k", 1000},
                 {"1KiB", 1024},
                 {"2MB", 2000000},
                 {"1.5GiB", 1610612736},
                 {"0.25M", 250000},
                 {"3T", 3000000000000},
                 {"1TiB", (size_t)1 << 40},
                 {"7B", 7},
                 {"18446744073709551615", SIZE_MAX}};
    static const char *const no_size[] = {"",
                                          "M",
                                          "-1",
                                          "+1",
                                          " 1",
                                          "1 M",
                                          "1X",
                                          "1.5",
                                          "1.M",
                                          "1e3",
                                          "18446744073709551616",
                                          "18446744073709551615K",
                                          "99999999TiB",
                                          "1MiBs",
                                          "1.1234567M",
                                          "0x10"};
    size_t z;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ok(zt_parse_size(sizes[i].text, &z) && z == sizes[i].bytes, "size %s", sizes[i].text);
    for (size_t i = 0; i < sizeof no_size / sizeof *no_size; i++) ok(!zt_parse_size(no_size[i], &z), "no size: '%s'", no_size[i]);

    int64_t number;
    ok(zt_parse_i64("-9223372036854775808", &number) && number == INT64_MIN && zt_parse_i64("9223372036854775807", &number) &&
           number == INT64_MAX && zt_parse_i64("+5", &number) && number == 5 && zt_parse_i64("007", &number) && number == 7,
       "parse_i64");
    static const char *const no_i64[] = {
        "", "-", "+", "1x", " 1", "1 ", "0x1", "9223372036854775808", "--1", "1.0", "1e3", "-9223372036854775809"};
    for (size_t i = 0; i < sizeof no_i64 / sizeof *no_i64; i++)
        ok(!zt_parse_i64(no_i64[i], &number), "no integer: '%s'", no_i64[i]);

    double x;
    ok(zt_parse_double("-1.5e3", &x) && x == -1500 && zt_parse_double(".5", &x) && x == 0.5 && zt_parse_double("+inf", &x) &&
           isinf(x) && zt_parse_double("nan", &x) && isnan(x) && zt_parse_double("1e-400", &x) && x == 0,
       "parse_double");
    static const char *const no_double[] = {"",      "-",        ".",   "e5",  "1e",    "1x",  " 1",   "1 ",
                                            "0x1p3", "infinity", "NAN", "1,5", "1e400", "--1", "1.2.3"};
    for (size_t i = 0; i < sizeof no_double / sizeof *no_double; i++)
        ok(!zt_parse_double(no_double[i], &x), "no number: '%s'", no_double[i]);
}

/* ---- map ------------------------------------------------------------------------------------- */

static void test_map(zt_ctx *ctx)
{
    enum { N = 5000 };
    static char keys[N][16];
    zt_map *m = zt_map_new(ctx, 0);
    int64_t v = -1;
    ok(!zt_map_get(m, "x", 1, &v) && v == -1 && zt_map_count(m) == 0, "a new map is empty");
    bool good = true;
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        good &= zt_map_put(m, keys[i], strlen(keys[i]), i) == ZT_OK;
    }
    for (int i = 0; i < N; i++) good &= zt_map_get(m, keys[i], strlen(keys[i]), &v) && v == i;
    ok(good && zt_map_count(m) == N, "5000 keys come back");
    ok(zt_map_find(m, "k42") == 42 && zt_map_find(m, "k5000") == -1, "find gives an index or -1");
    ok(!zt_map_get(m, "k5000", 5, &v) && !zt_map_get(m, "k", 1, NULL), "others are not there");
    zt_map_put(m, "k7", 2, -7);
    ok(zt_map_get(m, "k7", 2, &v) && v == -7 && zt_map_count(m) == N, "put replaces");
    zt_map_put(m, NULL, 0, 99);
    zt_map_put(m, "a\0b", 3, 100);
    ok(zt_map_get(m, "", 0, &v) && v == 99 && zt_map_get(m, "a\0b", 3, &v) && v == 100 && !zt_map_get(m, "a\0c", 3, &v) &&
           !zt_map_get(m, "a", 1, &v),
       "the empty key, keys with zeros");
    zt_map_free(m);
    zt_map_free(NULL);

    m = zt_map_new(ctx, N);
    uint64_t calls = zt_mem_get(ctx).calls;
    for (int i = 0; i < N; i++) zt_map_put(m, keys[i], strlen(keys[i]), i);
    ok(zt_mem_get(ctx).calls == calls, "a map made for 5000 keys does not grow");
    zt_map_free(m);

    m = zt_map_new(ctx, 0);
    zt_mem_fail(ctx, 1, true);
    int put = 0;
    while (put < N && zt_map_put(m, keys[put], strlen(keys[put]), put) == ZT_OK) put++;
    zt_mem_fail(ctx, 0, false);
    ok(put > 0 && put < N && zt_map_count(m) == (size_t)put && zt_map_get(m, keys[0], 2, &v),
       "a map that cannot grow stays as it was");
    zt_ctx_clear(ctx);
    zt_map_free(m);
    ok(zt_mem_get(ctx).blocks == 0, "a map leaks nothing");
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* Known answers from Random123's kat_vectors (philox4x32, 10 rounds). */
static void test_philox(void)
{
    static const struct {
        uint64_t seed, sequence, position;
        uint32_t want[4];
    } kat[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
        uint32_t r[4];
        zt_philox(kat[i].seed, kat[i].sequence, kat[i].position, r);
        ok(!memcmp(r, kat[i].want, sizeof r), "philox known answer %zu", i);
    }
    enum { N = 20000 };
    double us = 0, ns = 0, nq = 0;
    bool in_range = true;
    for (uint64_t i = 0; i < N; i++) {
        double u = zt_uniform(7, 1, i), n = zt_normal(7, 2, i);
        in_range &= u >= 0 && u < 1 && isfinite(n);
        us += u, ns += n, nq += n * n;
    }
    ok(in_range && fabs(us / N - 0.5) < 0.01, "uniform: mean %.4f", us / N);
    ok(fabs(ns / N) < 0.03 && fabs(nq / N - 1) < 0.04, "normal: mean %.4f, variance %.4f", ns / N, nq / N);
    ok(zt_uniform(1, 2, 3) == zt_uniform(1, 2, 3) && zt_uniform(1, 2, 3) != zt_uniform(1, 2, 4) &&
           zt_uniform(1, 2, 3) != zt_uniform(1, 3, 3) && zt_uniform(1, 2, 3) != zt_uniform(2, 2, 3),
       "a draw is its name");
}

static void test_cpu(void)
{
    zt_isa isa;
    bool back = true;
    char model[ZT_CPU_MODEL];
    for (int i = 0; i < ZT_ISA_COUNT; i++) back &= zt_isa_parse(zt_isa_name((zt_isa)i), &isa) && (int)isa == i;
    ok(back && !zt_isa_parse("sse", &isa) && zt_isa_best() < ZT_ISA_COUNT, "instruction sets");
    ok(zt_cpu_count() >= 1 && *zt_cpu_model(model), "%d of %s", zt_cpu_count(), model);
    double t = zt_seconds();
    ok(zt_seconds() >= t, "the clock does not go back");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_context(ctx);
    test_str(ctx);
    test_escape(ctx);
    test_runs(ctx);
    test_utf8();
    test_double(ctx);
    test_parse();
    test_map(ctx);
    test_philox();
    test_cpu();
    ok(zt_ctx_status(ctx) == ZT_OK && zt_mem_get(ctx).blocks == 0, "nothing is left");
    zt_ctx_free(ctx);
    zt_ctx_free(NULL);
    return tap_done();
}
