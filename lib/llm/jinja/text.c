/* text.c - strings: parts of buffers with a mark for each byte, and what grows them. */
#include "lib/llm/jinja/internal.h"

#include <string.h>
#include <utf8proc.h>

enum { LEAST_ROOM = 64, STEP_BYTES = 16 };

static uint8_t *marks(jbuf *b)
{
    return (uint8_t *)b->data + b->cap;
}

static jbuf *new_buf(jmachine *j, size_t cap)
{
    size_t bytes;
    if (!zt_mul_size(cap, 2, &bytes) || !zt_add_size(bytes, sizeof(jbuf), &bytes))
        zt_j_fail(j, "the template needs too much memory");
    zt_j_step(j, cap / STEP_BYTES);
    jbuf *b = zt_j_alloc(j, bytes);
    b->cap = cap;
    return b;
}

const char *zt_j_data(jtext t)
{
    return t.buf ? t.buf->data + t.at : "";
}

const uint8_t *zt_j_marks(jtext t)
{
    return t.buf ? marks(t.buf) + t.at : (const uint8_t *)"";
}

jtext zt_j_text(jmachine *j, const char *data, size_t n, bool input)
{
    jbuf *b = new_buf(j, n);
    if (n)
        memcpy(b->data, data, n);
    memset(marks(b), input, n);
    b->len = n;
    return (jtext){b, 0, n};
}

jtext zt_j_part(jtext t, size_t at, size_t n)
{
    return (jtext){t.buf, t.at + at, n};
}

jvalue zt_j_string(jtext t)
{
    return (jvalue){.kind = J_STRING, .s = t};
}

jvalue zt_j_literal(jmachine *j, const char *text)
{
    return zt_j_string(zt_j_text(j, text, strlen(text), false));
}

bool zt_j_text_is(jtext t, const char *text)
{
    return strlen(text) == t.n && memcmp(zt_j_data(t), text, t.n) == 0;
}

bool zt_j_text_same(jtext a, jtext b)
{
    return a.n == b.n && memcmp(zt_j_data(a), zt_j_data(b), a.n) == 0;
}

/* The order of code points is that of UTF-8's bytes. */
int zt_j_text_compare(jtext a, jtext b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = memcmp(zt_j_data(a), zt_j_data(b), n);
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

size_t zt_j_find_text(jmachine *j, jtext in, size_t from, jtext what)
{
    if (from > in.n || what.n > in.n - from)
        return SIZE_MAX;
    if (what.n == 0)
        return from;
    const char *data = zt_j_data(in), *hit = memmem(data + from, in.n - from, zt_j_data(what), what.n);
    size_t at = hit ? (size_t)(hit - data) : SIZE_MAX;
    zt_j_step(j, ((hit ? at : in.n) - from) / STEP_BYTES);
    return at;
}

size_t zt_j_rfind_text(jmachine *j, jtext in, size_t before, jtext what)
{
    const char *data = zt_j_data(in), *w = zt_j_data(what);
    zt_j_step(j, before / STEP_BYTES);
    for (size_t at = before + 1; at-- > 0;) {
        if (what.n > before - at || (what.n && data[at] != *w))
            continue;
        zt_j_step(j, what.n / STEP_BYTES);
        if (memcmp(data + at, w, what.n) == 0)
            return at;
    }
    return SIZE_MAX;
}

/* ---- characters ------------------------------------------------------------------------------ */

/* All strings are valid UTF-8: the template and JSON are checked, and only whole characters are cut. */
size_t zt_j_char_bytes(const char *p, size_t n)
{
    unsigned char c = (unsigned char)*p;
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return len < n ? len : n;
}

uint32_t zt_j_code(const char *p, size_t n)
{
    uint32_t cp = 0;
    return zt_utf8_decode(p, n, &cp) ? cp : 0xfffd;
}

size_t zt_j_chars(jmachine *j, jtext t)
{
    const char *p = zt_j_data(t);
    size_t n = 0;
    zt_j_step(j, t.n / STEP_BYTES);
    for (size_t i = 0; i < t.n; i++)
        n += ((unsigned char)p[i] & 0xc0) != 0x80;
    return n;
}

size_t zt_j_char_at(jmachine *j, jtext t, size_t i)
{
    const char *p = zt_j_data(t);
    size_t at = 0;
    while (at < t.n && i > 0) {
        at += zt_j_char_bytes(p + at, t.n - at);
        i--;
    }
    zt_j_step(j, at / STEP_BYTES);
    return at;
}

/* Python's str.isspace: White_Space and the four separators of ASCII. */
bool zt_j_is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 32) || cp == 0x85 || cp == 0xa0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Room for n more bytes at the end of *b. */
static void make_room(jmachine *j, jbuf **b, size_t n)
{
    size_t have = *b ? (*b)->len : 0, want;
    if (*b && (*b)->cap - have >= n)
        return;
    if (!zt_add_size(have, n, &want) || !zt_mul_size(want, 2, &want))
        zt_j_fail(j, "the template needs too much memory");
    jbuf *more = new_buf(j, want < LEAST_ROOM ? LEAST_ROOM : want);
    if (have) {
        memcpy(more->data, (*b)->data, have);
        memcpy(marks(more), marks(*b), have);
    }
    more->len = have;
    *b = more;
}

static void count_output(jmachine *j, const jout *o, size_t n)
{
    if (j->document && o == j->out && (o->buf ? o->buf->len : 0) + n > j->output)
        zt_j_fail(j, "the template writes more than %zu bytes", j->output);
}

void zt_j_put(jmachine *j, jout *o, const char *data, size_t n, bool input)
{
    count_output(j, o, n);
    make_room(j, &o->buf, n);
    zt_j_step(j, n / STEP_BYTES);
    if (n) {
        memcpy(o->buf->data + o->buf->len, data, n);
        memset(marks(o->buf) + o->buf->len, input, n);
    }
    o->buf->len += n;
}

void zt_j_puts(jmachine *j, jout *o, const char *text)
{
    zt_j_put(j, o, text, strlen(text), false);
}

void zt_j_put_char(jmachine *j, jout *o, uint32_t cp, bool input)
{
    char c[4];
    zt_j_put(j, o, c, (size_t)zt_utf8_encode(cp, c), input);
}

void zt_j_put_text(jmachine *j, jout *o, jtext t)
{
    count_output(j, o, t.n);
    make_room(j, &o->buf, t.n);
    zt_j_step(j, t.n / STEP_BYTES);
    if (t.n) {
        memcpy(o->buf->data + o->buf->len, zt_j_data(t), t.n);
        memcpy(marks(o->buf) + o->buf->len, zt_j_marks(t), t.n);
    }
    o->buf->len += t.n;
}

void zt_j_put_fill(jmachine *j, jout *o, jtext fill, int64_t times)
{
    for (int64_t i = 0; i < times; i++) {
        zt_j_step(j, 1);
        zt_j_put_text(j, o, fill);
    }
}

jtext zt_j_done(jmachine *j, jout *o)
{
    return o->buf ? (jtext){o->buf, 0, o->buf->len} : zt_j_text(j, "", 0, false);
}

/* A text that ends where its buffer does grows in place: texts are built by + as often as not. */
jtext zt_j_concat(jmachine *j, jtext a, jtext b)
{
    jout o = {a.buf};
    if (b.n == 0)
        return a;
    if (a.n == 0)
        return b;
    if (a.at + a.n != a.buf->len || a.buf->cap - a.buf->len < b.n) {
        o.buf = new_buf(j, (a.n + b.n) * 2);
        memcpy(o.buf->data, zt_j_data(a), a.n);
        memcpy(marks(o.buf), zt_j_marks(a), a.n);
        o.buf->len = a.n;
        a.at = 0;
    }
    zt_j_put_text(j, &o, b);
    return (jtext){o.buf, a.at, a.n + b.n};
}

jtext zt_j_repeat(jmachine *j, jtext t, int64_t times)
{
    size_t bytes;
    jout o = {NULL};
    if (times <= 0 || t.n == 0)
        return zt_j_part(t, 0, 0);
    if (!zt_mul_size(t.n, (size_t)times, &bytes) || bytes > j->memory)
        zt_j_fail(j, "the template needs too much memory");
    make_room(j, &o.buf, bytes);
    zt_j_put_fill(j, &o, t, times);
    return zt_j_done(j, &o);
}

const char *zt_j_zero(jmachine *j, jtext t)
{
    char *p = zt_j_alloc(j, t.n + 1);
    memcpy(p, zt_j_data(t), t.n);
    return p;
}

/* ---- what methods and filters share ---------------------------------------------------------- */

/* Is the character at p to be stripped? */
static bool strips(const char *p, size_t n, const jtext *chars)
{
    if (!chars)
        return zt_j_is_space(zt_j_code(p, n));
    for (size_t i = 0, k; i < chars->n; i += k) {
        k = zt_j_char_bytes(zt_j_data(*chars) + i, chars->n - i);
        if (k == n && memcmp(zt_j_data(*chars) + i, p, n) == 0)
            return true;
    }
    return false;
}

jtext zt_j_strip(jmachine *j, jtext t, const jtext *chars, bool left, bool right)
{
    const char *p = zt_j_data(t);
    size_t from = 0, to = t.n;
    while (left && from < to) {
        size_t k = zt_j_char_bytes(p + from, to - from);
        zt_j_step(j, 1);
        if (!strips(p + from, k, chars))
            break;
        from += k;
    }
    while (right && to > from) {
        size_t k = 1;
        zt_j_step(j, 1);
        while (k < to - from && ((unsigned char)p[to - k] & 0xc0) == 0x80)
            k++;
        if (!strips(p + to - k, k, chars))
            break;
        to -= k;
    }
    return zt_j_part(t, from, to - from);
}

/* The characters whose upper or lower case is more than one: what chat templates may meet. */
static bool put_special(jmachine *j, jout *o, uint32_t cp, bool upper, bool input)
{
    if (upper && cp == 0xdf) {
        zt_j_put(j, o, "SS", 2, input);
        return true;
    }
    if (!upper && cp == 0x130) {
        zt_j_put(j, o, "i\xcc\x87", 3, input);
        return true;
    }
    return false;
}

static void put_cased(jmachine *j, jout *o, jtext t, size_t at, size_t k, bool upper)
{
    const char *p = zt_j_data(t) + at;
    bool input = zt_j_marks(t)[at];
    uint32_t cp = zt_j_code(p, k);
    if (put_special(j, o, cp, upper, input))
        return;
    utf8proc_int32_t c = upper ? utf8proc_toupper((utf8proc_int32_t)cp)
                               : utf8proc_tolower((utf8proc_int32_t)cp);
    zt_j_put_char(j, o, (uint32_t)c, input);
}

/* The first character in one case, the others in another. */
static jtext in_case(jmachine *j, jtext t, bool first_upper, bool rest_upper)
{
    jout o = {NULL};
    for (size_t at = 0, k; at < t.n; at += k) {
        k = zt_j_char_bytes(zt_j_data(t) + at, t.n - at);
        put_cased(j, &o, t, at, k, at == 0 ? first_upper : rest_upper);
    }
    return zt_j_done(j, &o);
}

jtext zt_j_upper(jmachine *j, jtext t)
{
    return in_case(j, t, true, true);
}

jtext zt_j_lower(jmachine *j, jtext t)
{
    return in_case(j, t, false, false);
}

jtext zt_j_capitalize(jmachine *j, jtext t)
{
    return in_case(j, t, true, false);
}

/* With an empty `old`, `new` goes between all characters. */
static jtext interleave(jmachine *j, jtext t, jtext new, int64_t count)
{
    jout o = {NULL};
    size_t at = 0;
    for (; count != 0 && at <= t.n; count--) {
        zt_j_put_text(j, &o, new);
        if (at == t.n)
            return zt_j_done(j, &o);
        size_t k = zt_j_char_bytes(zt_j_data(t) + at, t.n - at);
        zt_j_put_text(j, &o, zt_j_part(t, at, k));
        at += k;
    }
    zt_j_put_text(j, &o, zt_j_part(t, at, t.n - at));
    return zt_j_done(j, &o);
}

jtext zt_j_replace(jmachine *j, jtext t, jtext old, jtext new, int64_t count)
{
    jout o = {NULL};
    size_t at = 0, hit;
    if (old.n == 0)
        return interleave(j, t, new, count);
    while (count != 0 && (hit = zt_j_find_text(j, t, at, old)) != SIZE_MAX) {
        zt_j_step(j, 1);
        zt_j_put_text(j, &o, zt_j_part(t, at, hit - at));
        zt_j_put_text(j, &o, new);
        at = hit + old.n;
        count -= count > 0;
    }
    if (at == 0)
        return t;
    zt_j_put_text(j, &o, zt_j_part(t, at, t.n - at));
    return zt_j_done(j, &o);
}

jtext zt_j_escape_html(jmachine *j, jtext t)
{
    static const struct {
        char c;
        const char *text;
    } entities[] = {{'&', "&amp;"}, {'>', "&gt;"}, {'<', "&lt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    jout o = {NULL};
    const char *p = zt_j_data(t);
    for (size_t i = 0; i < t.n; i++) {
        const char *text = NULL;
        for (size_t k = 0; k < sizeof entities / sizeof *entities; k++)
            if (p[i] == entities[k].c)
                text = entities[k].text;
        if (text)
            zt_j_put(j, &o, text, strlen(text), zt_j_marks(t)[i]);
        else
            zt_j_put_text(j, &o, zt_j_part(t, i, 1));
    }
    return zt_j_done(j, &o);
}

/* What ends a line for str.splitlines. */
static bool ends_line(uint32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

jlist *zt_j_lines(jmachine *j, jtext t, bool keep)
{
    jlist *l = zt_j_list(j, 0);
    const char *p = zt_j_data(t);
    size_t from = 0;
    for (size_t at = 0, k; at < t.n; at += k) {
        k = zt_j_char_bytes(p + at, t.n - at);
        zt_j_step(j, 1);
        if (!ends_line(zt_j_code(p + at, k)))
            continue;
        size_t end = at;
        if (p[at] == '\r' && at + 1 < t.n && p[at + 1] == '\n')
            k = 2;
        zt_j_append(j, l, zt_j_string(zt_j_part(t, from, (keep ? at + k : end) - from)));
        from = at + k;
    }
    if (from < t.n)
        zt_j_append(j, l, zt_j_string(zt_j_part(t, from, t.n - from)));
    return l;
}
