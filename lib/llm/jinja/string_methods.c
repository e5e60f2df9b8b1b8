/* string_methods.c - the methods of str. Positions and counts are of code points. */
#include "lib/llm/jinja/internal.h"

#include <string.h>
#include <utf8proc.h>

static jtext text_of(jmachine *j, jvalue v, const char *method)
{
    if (v.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, v);
    if (v.kind != J_STRING)
        zt_j_fail(j, "%s: expected a string, not '%s'", method, zt_j_type(v));
    return v.s;
}

static bool given(jvalue v)
{
    return v.kind != J_ABSENT && v.kind != J_NONE;
}

/* A string that is Markup if `self` is. */
static jvalue like(jvalue self, jtext t)
{
    jvalue v = zt_j_string(t);
    v.safe = self.safe;
    return v;
}

#define METHOD(name) \
    static jvalue name(jmachine *j, jvalue self, const jvalue *a, const jcall *call)
#define UNUSED ((void)j, (void)a, (void)call)

/* ---- case ------------------------------------------------------------------------------------ */

METHOD(m_upper)
{
    UNUSED;
    return like(self, zt_j_upper(j, self.s));
}

METHOD(m_lower)
{
    UNUSED;
    return like(self, zt_j_lower(j, self.s));
}

METHOD(m_capitalize)
{
    UNUSED;
    return like(self, zt_j_capitalize(j, self.s));
}

static bool is_cased(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

/* One character after the other, by `change`: 1 upper, -1 lower, 0 as it is. */
static jvalue each_char(jmachine *j, jvalue self, int (*change)(uint32_t cp, bool *word))
{
    jout o = {NULL};
    bool word = false;
    zt_j_put(j, &o, "", 0, false);
    for (size_t at = 0, k; at < self.s.n; at += k) {
        k = zt_j_char_bytes(zt_j_data(self.s) + at, self.s.n - at);
        jtext one = zt_j_part(self.s, at, k);
        int how = change(zt_j_code(zt_j_data(one), k), &word);
        zt_j_put_text(j, &o, how > 0 ? zt_j_upper(j, one) : how < 0 ? zt_j_lower(j, one) : one);
    }
    return like(self, zt_j_done(j, &o));
}

static int title(uint32_t cp, bool *word)
{
    bool inside = *word;
    *word = is_cased(cp);
    return *word ? (inside ? -1 : 1) : 0;
}

static int swap(uint32_t cp, bool *word)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    (void)word;
    return c == UTF8PROC_CATEGORY_LU ? -1 : c == UTF8PROC_CATEGORY_LL ? 1 : 0;
}

METHOD(m_title)
{
    UNUSED;
    return each_char(j, self, title);
}

METHOD(m_swapcase)
{
    UNUSED;
    return each_char(j, self, swap);
}

/* ---- strip, split ---------------------------------------------------------------------------- */

static jvalue strip(jmachine *j, jvalue self, const jvalue *a, bool left, bool right)
{
    jtext chars;
    if (!given(a[0]))
        return like(self, zt_j_strip(j, self.s, NULL, left, right));
    chars = text_of(j, a[0], "strip");
    return like(self, zt_j_strip(j, self.s, &chars, left, right));
}

METHOD(m_strip)
{
    (void)call;
    return strip(j, self, a, true, true);
}

METHOD(m_lstrip)
{
    (void)call;
    return strip(j, self, a, true, false);
}

METHOD(m_rstrip)
{
    (void)call;
    return strip(j, self, a, false, true);
}

static int64_t limit(jmachine *j, jvalue v)
{
    return v.kind == J_ABSENT ? -1 : zt_j_as_int(j, v, "maxsplit");
}

static void reverse(jlist *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        jvalue v = l->item[i];
        l->item[i] = l->item[l->n - 1 - i];
        l->item[l->n - 1 - i] = v;
    }
}

/* At white space; none of it is in the pieces, but at the end of the last where `most` ended it. */
static jlist *split_space(jmachine *j, jvalue self, int64_t most, bool back)
{
    jlist *l = zt_j_list(j, 0);
    jtext rest = zt_j_strip(j, self.s, NULL, !back, back);
    while (rest.n > 0) {
        const char *p = zt_j_data(rest);
        size_t at = back ? rest.n : 0, k = 0;
        bool last = most >= 0 && (int64_t)l->n >= most;
        while (!last && (back ? at > 0 : at < rest.n)) {
            if (back) {
                for (k = 1; k < at && ((unsigned char)p[at - k] & 0xc0) == 0x80; k++)
                    ;
                if (zt_j_is_space(zt_j_code(p + at - k, k)))
                    break;
                at -= k;
            } else {
                k = zt_j_char_bytes(p + at, rest.n - at);
                if (zt_j_is_space(zt_j_code(p + at, k)))
                    break;
                at += k;
            }
            zt_j_step(j, 1);
        }
        if (last)
            at = back ? 0 : rest.n;
        jtext piece = back ? zt_j_part(rest, at, rest.n - at) : zt_j_part(rest, 0, at);
        zt_j_append(j, l, like(self, piece));
        rest = back ? zt_j_part(rest, 0, at) : zt_j_part(rest, at, rest.n - at);
        rest = zt_j_strip(j, rest, NULL, !back, back);
    }
    if (back)
        reverse(l);
    return l;
}

static jlist *split_at(jmachine *j, jvalue self, jtext sep, int64_t most, bool back)
{
    jlist *l = zt_j_list(j, 0);
    jtext rest = self.s;
    if (sep.n == 0)
        zt_j_fail(j, "empty separator");
    for (;;) {
        size_t hit = most >= 0 && (int64_t)l->n >= most ? SIZE_MAX
                     : back                             ? zt_j_rfind_text(j, rest, rest.n, sep)
                                                        : zt_j_find_text(j, rest, 0, sep);
        if (hit == SIZE_MAX)
            break;
        jtext head = zt_j_part(rest, 0, hit);
        jtext tail = zt_j_part(rest, hit + sep.n, rest.n - hit - sep.n);
        zt_j_append(j, l, like(self, back ? tail : head));
        rest = back ? head : tail;
    }
    zt_j_append(j, l, like(self, rest));
    if (back)
        reverse(l);
    return l;
}

static jvalue split(jmachine *j, jvalue self, const jvalue *a, bool back)
{
    int64_t most = limit(j, a[1]);
    jlist *l = given(a[0]) ? split_at(j, self, text_of(j, a[0], "split"), most, back)
                           : split_space(j, self, most, back);
    return zt_j_of_list(l, J_LIST);
}

METHOD(m_split)
{
    (void)call;
    return split(j, self, a, false);
}

METHOD(m_rsplit)
{
    (void)call;
    return split(j, self, a, true);
}

METHOD(m_splitlines)
{
    (void)call;
    jlist *l = zt_j_lines(j, self.s, a[0].kind != J_ABSENT && zt_j_truth(j, a[0]));
    for (size_t i = 0; i < l->n; i++)
        l->item[i].safe = self.safe;
    return zt_j_of_list(l, J_LIST);
}

static jvalue partition(jmachine *j, jvalue self, jtext sep, bool back)
{
    jlist *l = zt_j_list(j, 3);
    jvalue none = like(self, zt_j_part(self.s, 0, 0));
    if (sep.n == 0)
        zt_j_fail(j, "empty separator");
    size_t hit = back ? zt_j_rfind_text(j, self.s, self.s.n, sep) : zt_j_find_text(j, self.s, 0, sep);
    if (hit == SIZE_MAX) {
        zt_j_append(j, l, back ? none : self);
        zt_j_append(j, l, none);
        zt_j_append(j, l, back ? self : none);
    } else {
        zt_j_append(j, l, like(self, zt_j_part(self.s, 0, hit)));
        zt_j_append(j, l, like(self, sep));
        zt_j_append(j, l, like(self, zt_j_part(self.s, hit + sep.n, self.s.n - hit - sep.n)));
    }
    return zt_j_of_list(l, J_TUPLE);
}

METHOD(m_partition)
{
    (void)call;
    return partition(j, self, text_of(j, a[0], "partition"), false);
}

METHOD(m_rpartition)
{
    (void)call;
    return partition(j, self, text_of(j, a[0], "rpartition"), true);
}

/* ---- searching ------------------------------------------------------------------------------- */

/* The part between the positions a[0] and a[1] in bytes; false: there is none. */
static bool window(jmachine *j, jtext t, const jvalue *a, size_t *from, size_t *to)
{
    int64_t n = (int64_t)zt_j_chars(j, t), first, by;
    int64_t start = given(a[0]) ? zt_j_as_int(j, a[0], "start") : 0;
    int64_t count = zt_j_slice_of(j, n, a[0], a[1], zt_j_none, &first, &by);
    *from = zt_j_char_at(j, t, (size_t)first);
    jtext rest = zt_j_part(t, *from, t.n - *from);
    *to = *from + zt_j_char_at(j, rest, (size_t)count);
    int64_t stop = given(a[1]) ? zt_j_as_int(j, a[1], "end") : n;
    stop = stop < 0 ? stop + n : stop;
    return start <= n && (first <= stop || first == 0);
}

static int64_t find(jmachine *j, jvalue self, const jvalue *a, const char *method, bool back)
{
    size_t from, to;
    jtext what = text_of(j, a[0], method);
    if (!window(j, self.s, a + 1, &from, &to))
        return -1;
    jtext in = zt_j_part(self.s, from, to - from);
    zt_j_step(j, in.n / 16);
    size_t hit = back ? zt_j_rfind_text(j, in, in.n, what) : zt_j_find_text(j, in, 0, what);
    return hit == SIZE_MAX ? -1 : (int64_t)zt_j_chars(j, zt_j_part(self.s, 0, from + hit));
}

METHOD(m_find)
{
    (void)call;
    return zt_j_int(find(j, self, a, "find", false));
}

METHOD(m_rfind)
{
    (void)call;
    return zt_j_int(find(j, self, a, "rfind", true));
}

static jvalue index_of(jmachine *j, jvalue self, const jvalue *a, bool back)
{
    int64_t i = find(j, self, a, "index", back);
    if (i < 0)
        zt_j_fail(j, "substring not found");
    return zt_j_int(i);
}

METHOD(m_index)
{
    (void)call;
    return index_of(j, self, a, false);
}

METHOD(m_rindex)
{
    (void)call;
    return index_of(j, self, a, true);
}

METHOD(m_count)
{
    size_t from, to, n = 0;
    jtext what = text_of(j, a[0], "count");
    (void)call;
    if (!window(j, self.s, a + 1, &from, &to))
        return zt_j_int(0);
    jtext in = zt_j_part(self.s, from, to - from);
    if (what.n == 0)
        return zt_j_int((int64_t)zt_j_chars(j, in) + 1);
    for (size_t at = 0; (at = zt_j_find_text(j, in, at, what)) != SIZE_MAX; at += what.n)
        n++;
    return zt_j_int((int64_t)n);
}

static bool has_affix(jtext t, jtext what, bool end)
{
    return what.n <= t.n && zt_j_text_same(zt_j_part(t, end ? t.n - what.n : 0, what.n), what);
}

/* One affix, or a tuple of them of which one will do. */
static jvalue affix(jmachine *j, jvalue self, const jvalue *a, bool end)
{
    size_t from, to;
    const char *name = end ? "endswith" : "startswith";
    if (!window(j, self.s, a + 1, &from, &to))
        return zt_j_bool(false);
    jtext t = zt_j_part(self.s, from, to - from);
    if (a[0].kind != J_TUPLE)
        return zt_j_bool(has_affix(t, text_of(j, a[0], name), end));
    for (size_t i = 0; i < a[0].list->n; i++)
        if (has_affix(t, text_of(j, a[0].list->item[i], name), end))
            return zt_j_bool(true);
    return zt_j_bool(false);
}

METHOD(m_startswith)
{
    (void)call;
    return affix(j, self, a, false);
}

METHOD(m_endswith)
{
    (void)call;
    return affix(j, self, a, true);
}

METHOD(m_removeprefix)
{
    (void)call;
    jtext what = text_of(j, a[0], "removeprefix");
    bool has = has_affix(self.s, what, false);
    return like(self, has ? zt_j_part(self.s, what.n, self.s.n - what.n) : self.s);
}

METHOD(m_removesuffix)
{
    (void)call;
    jtext what = text_of(j, a[0], "removesuffix");
    bool has = has_affix(self.s, what, true);
    return like(self, has ? zt_j_part(self.s, 0, self.s.n - what.n) : self.s);
}

/* ---- making ---------------------------------------------------------------------------------- */

METHOD(m_replace)
{
    (void)call;
    jtext old = text_of(j, a[0], "replace"), new = text_of(j, a[1], "replace");
    if (self.safe && !a[1].safe)
        new = zt_j_escape_html(j, new);
    return like(self, zt_j_replace(j, self.s, old, new, limit(j, a[2])));
}

METHOD(m_join)
{
    jvalue item;
    jout o = {NULL};
    jiter *it = zt_j_iter(j, a[0]);
    (void)call;
    zt_j_put(j, &o, "", 0, false);
    for (size_t i = 0; zt_j_next(j, it, &item); i++) {
        if (i)
            zt_j_put_text(j, &o, self.s);
        if (item.kind != J_STRING)
            zt_j_fail(j, "sequence item %zu: expected str instance, %s found", i, zt_j_type(item));
        zt_j_put_text(j, &o, self.safe && !item.safe ? zt_j_escape_html(j, item.s) : item.s);
    }
    return like(self, zt_j_done(j, &o));
}

/* Pads to a width; share: how much of what is missing goes to the left, of 2. */
static jvalue pad(jmachine *j, jvalue self, const jvalue *a, int side)
{
    jout o = {NULL};
    int64_t n = (int64_t)zt_j_chars(j, self.s), width = zt_j_as_int(j, a[0], "width");
    int64_t missing = width > n ? width - n : 0;
    jtext fill = a[1].kind == J_ABSENT ? zt_j_literal(j, " ").s : text_of(j, a[1], "fillchar");
    if (zt_j_chars(j, fill) != 1)
        zt_j_fail(j, "the fill character must be exactly one character long");
    int64_t left = side < 0 ? missing : side > 0 ? 0 : missing / 2 + (missing & width & 1);
    zt_j_put_fill(j, &o, fill, left);
    zt_j_put_text(j, &o, self.s);
    zt_j_put_fill(j, &o, fill, missing - left);
    return like(self, zt_j_done(j, &o));
}

METHOD(m_ljust)
{
    (void)call;
    return pad(j, self, a, 1);
}

METHOD(m_rjust)
{
    (void)call;
    return pad(j, self, a, -1);
}

METHOD(m_center)
{
    (void)call;
    return pad(j, self, a, 0);
}

METHOD(m_zfill)
{
    jout o = {NULL};
    int64_t n = (int64_t)zt_j_chars(j, self.s), width = zt_j_as_int(j, a[0], "width");
    bool sign = self.s.n && (*zt_j_data(self.s) == '-' || *zt_j_data(self.s) == '+');
    (void)call;
    zt_j_put_text(j, &o, zt_j_part(self.s, 0, sign));
    zt_j_put_fill(j, &o, zt_j_literal(j, "0").s, width - n);
    zt_j_put_text(j, &o, zt_j_part(self.s, sign, self.s.n - sign));
    return like(self, zt_j_done(j, &o));
}

METHOD(m_expandtabs)
{
    jout o = {NULL};
    int64_t size = a[0].kind == J_ABSENT ? 8 : zt_j_as_int(j, a[0], "tabsize"), column = 0;
    (void)call;
    zt_j_put(j, &o, "", 0, false);
    for (size_t at = 0, k; at < self.s.n; at += k) {
        k = zt_j_char_bytes(zt_j_data(self.s) + at, self.s.n - at);
        char c = zt_j_data(self.s)[at];
        int64_t blanks = c == '\t' && size > 0 ? size - column % size : 0;
        if (c == '\t')
            zt_j_put_fill(j, &o, zt_j_literal(j, " ").s, blanks);
        else
            zt_j_put_text(j, &o, zt_j_part(self.s, at, k));
        column = c == '\n' || c == '\r' ? 0 : column + (c == '\t' ? blanks : 1);
    }
    return like(self, zt_j_done(j, &o));
}

/* ---- questions ------------------------------------------------------------------------------- */

typedef bool char_test(uint32_t cp);

static bool is_alpha(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_ND;
}

/* Decimals, superscripts, and the circled and their like. */
static bool is_digit(uint32_t cp)
{
    return is_decimal(cp) || cp == 0xb2 || cp == 0xb3 || cp == 0xb9 || cp == 0x2070 ||
           (cp >= 0x2074 && cp <= 0x2079) || (cp >= 0x2080 && cp <= 0x2089) ||
           (cp >= 0x2460 && cp <= 0x2468);
}

static bool is_numeric(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

static bool is_alnum(uint32_t cp)
{
    return is_alpha(cp) || is_numeric(cp);
}

static bool is_ascii(uint32_t cp)
{
    return cp < 0x80;
}

/* Not empty, and all of its characters are so. */
static jvalue all_chars(jmachine *j, jvalue self, char_test *test, bool empty)
{
    for (size_t at = 0, k; at < self.s.n; at += k) {
        k = zt_j_char_bytes(zt_j_data(self.s) + at, self.s.n - at);
        zt_j_step(j, 1);
        if (!test(zt_j_code(zt_j_data(self.s) + at, k)))
            return zt_j_bool(false);
    }
    return zt_j_bool(empty || self.s.n > 0);
}

#define QUESTION(name, test, empty)                     \
    METHOD(name)                                        \
    {                                                   \
        UNUSED;                                         \
        return all_chars(j, self, test, empty);         \
    }
QUESTION(m_isalpha, is_alpha, false)
QUESTION(m_isdecimal, is_decimal, false)
QUESTION(m_isdigit, is_digit, false)
QUESTION(m_isnumeric, is_numeric, false)
QUESTION(m_isalnum, is_alnum, false)
QUESTION(m_isspace, zt_j_is_space, false)
QUESTION(m_isascii, is_ascii, true)

/* Some character has this case, and none the other. */
static jvalue one_case(jmachine *j, jvalue self, utf8proc_category_t want)
{
    bool some = false;
    for (size_t at = 0, k; at < self.s.n; at += k) {
        k = zt_j_char_bytes(zt_j_data(self.s) + at, self.s.n - at);
        uint32_t cp = zt_j_code(zt_j_data(self.s) + at, k);
        zt_j_step(j, 1);
        if (is_cased(cp) && utf8proc_category((utf8proc_int32_t)cp) != want)
            return zt_j_bool(false);
        some = some || is_cased(cp);
    }
    return zt_j_bool(some);
}

METHOD(m_islower)
{
    UNUSED;
    return one_case(j, self, UTF8PROC_CATEGORY_LL);
}

METHOD(m_isupper)
{
    UNUSED;
    return one_case(j, self, UTF8PROC_CATEGORY_LU);
}

METHOD(m_istitle)
{
    bool word = false, some = false;
    UNUSED;
    for (size_t at = 0, k; at < self.s.n; at += k) {
        k = zt_j_char_bytes(zt_j_data(self.s) + at, self.s.n - at);
        uint32_t cp = zt_j_code(zt_j_data(self.s) + at, k);
        bool cased = is_cased(cp);
        zt_j_step(j, 1);
        if (cased && word != (utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_LL))
            return zt_j_bool(false);
        some = some || cased;
        word = cased;
    }
    return zt_j_bool(some);
}

static const jbuiltin methods[] = {
    {"upper", "", 0, m_upper},
    {"lower", "", 0, m_lower},
    {"casefold", "", 0, m_lower},
    {"capitalize", "", 0, m_capitalize},
    {"title", "", 0, m_title},
    {"swapcase", "", 0, m_swapcase},
    {"strip", "-", 0, m_strip},
    {"lstrip", "-", 0, m_lstrip},
    {"rstrip", "-", 0, m_rstrip},
    {"split", "sep maxsplit", 0, m_split},
    {"rsplit", "sep maxsplit", 0, m_rsplit},
    {"splitlines", "keepends", 0, m_splitlines},
    {"partition", "-", 1, m_partition},
    {"rpartition", "-", 1, m_rpartition},
    {"find", "- - -", 1, m_find},
    {"rfind", "- - -", 1, m_rfind},
    {"index", "- - -", 1, m_index},
    {"rindex", "- - -", 1, m_rindex},
    {"count", "- - -", 1, m_count},
    {"startswith", "- - -", 1, m_startswith},
    {"endswith", "- - -", 1, m_endswith},
    {"removeprefix", "-", 1, m_removeprefix},
    {"removesuffix", "-", 1, m_removesuffix},
    {"replace", "- - -", 2, m_replace},
    {"join", "-", 1, m_join},
    {"ljust", "- -", 1, m_ljust},
    {"rjust", "- -", 1, m_rjust},
    {"center", "- -", 1, m_center},
    {"zfill", "-", 1, m_zfill},
    {"expandtabs", "tabsize", 0, m_expandtabs},
    {"format", NULL, 0, zt_j_str_format},
    {"isalpha", "", 0, m_isalpha},
    {"isdecimal", "", 0, m_isdecimal},
    {"isdigit", "", 0, m_isdigit},
    {"isnumeric", "", 0, m_isnumeric},
    {"isalnum", "", 0, m_isalnum},
    {"isspace", "", 0, m_isspace},
    {"isascii", "", 0, m_isascii},
    {"islower", "", 0, m_islower},
    {"isupper", "", 0, m_isupper},
    {"istitle", "", 0, m_istitle},
    {"encode", NULL, 0, NULL},
    {"format_map", NULL, 0, NULL},
    {"isidentifier", NULL, 0, NULL},
    {"isprintable", NULL, 0, NULL},
    {"maketrans", NULL, 0, NULL},
    {"translate", NULL, 0, NULL},
    {NULL, NULL, 0, NULL},
};

const jbuiltin *zt_j_string_method(const char *name, size_t n)
{
    return zt_j_find(methods, name, n);
}
