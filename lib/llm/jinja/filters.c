/* filters.c - which filters there are, and those on text. The rows' functions follow jinja2's
 * filters.py; an undefined value is an empty text to most of them. */
#include "lib/llm/jinja/internal.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#define FILTER(name) \
    static jvalue name(jmachine *j, jvalue v, const jvalue *a, const jcall *call)
#define UNUSED ((void)j, (void)a, (void)call)

static jvalue like(jvalue v, jtext t)
{
    jvalue r = zt_j_string(t);
    r.safe = v.kind == J_STRING && v.safe;
    return r;
}

FILTER(f_upper)
{
    UNUSED;
    return like(v, zt_j_upper(j, zt_j_str(j, v)));
}

FILTER(f_lower)
{
    UNUSED;
    return like(v, zt_j_lower(j, zt_j_str(j, v)));
}

FILTER(f_capitalize)
{
    UNUSED;
    return like(v, zt_j_capitalize(j, zt_j_str(j, v)));
}

/* Words begin after blanks, hyphens and opening brackets. */
FILTER(f_title)
{
    jtext t = zt_j_str(j, v);
    jout o = {NULL};
    bool inside = false;
    UNUSED;
    zt_j_put(j, &o, "", 0, false);
    for (size_t at = 0, k; at < t.n; at += k) {
        const char *p = zt_j_data(t) + at;
        k = zt_j_char_bytes(p, t.n - at);
        jtext one = zt_j_part(t, at, k);
        bool between = zt_j_is_space(zt_j_code(p, k)) || (k == 1 && strchr("-({[<", *p));
        zt_j_put_text(j, &o, between ? one : inside ? zt_j_lower(j, one) : zt_j_upper(j, one));
        inside = !between;
    }
    return like(v, zt_j_done(j, &o));
}

FILTER(f_trim)
{
    jtext t = zt_j_str(j, v);
    (void)call;
    if (a[0].kind == J_ABSENT || a[0].kind == J_NONE)
        return like(v, zt_j_strip(j, t, NULL, true, true));
    if (a[0].kind != J_STRING)
        zt_j_fail(j, "trim: expected a string, not '%s'", zt_j_type(a[0]));
    return like(v, zt_j_strip(j, t, &a[0].s, true, true));
}

FILTER(f_string)
{
    UNUSED;
    return like(v, zt_j_str(j, v));
}

FILTER(f_replace)
{
    int64_t count = a[2].kind == J_ABSENT || a[2].kind == J_NONE
                        ? -1
                        : zt_j_as_int(j, a[2], "replace");
    (void)call;
    return like(v, zt_j_replace(j, zt_j_str(j, v), zt_j_str(j, a[0]), zt_j_str(j, a[1]), count));
}

FILTER(f_escape)
{
    UNUSED;
    jvalue r = zt_j_string(v.kind == J_STRING && v.safe ? v.s : zt_j_escape_html(j, zt_j_str(j, v)));
    r.safe = true;
    return r;
}

FILTER(f_forceescape)
{
    UNUSED;
    jvalue r = zt_j_string(zt_j_escape_html(j, zt_j_str(j, v)));
    r.safe = true;
    return r;
}

FILTER(f_safe)
{
    UNUSED;
    jvalue r = zt_j_string(zt_j_str(j, v));
    r.safe = true;
    return r;
}

FILTER(f_format)
{
    jvalue args = {.kind = J_TUPLE};
    (void)a;
    if (call->n && call->n_keywords)
        zt_j_fail(j, "format: positional and keyword arguments at the same time");
    if (call->n_keywords) {
        args = (jvalue){.kind = J_DICT, .dict = zt_j_dict(j)};
        for (int i = 0; i < call->n_keywords; i++)
            zt_j_dict_set(j, args.dict, zt_j_literal(j, call->keyword[i].name),
                          call->keyword[i].value);
    } else {
        args.list = zt_j_list(j, (size_t)call->n);
        for (int i = 0; i < call->n; i++)
            zt_j_append(j, args.list, call->arg[i]);
    }
    return zt_j_percent(j, like(v, zt_j_str(j, v)), args);
}

FILTER(f_indent)
{
    jvalue width = a[0].kind == J_ABSENT ? zt_j_int(4) : a[0];
    bool first = a[1].kind != J_ABSENT && zt_j_truth(j, a[1]);
    bool blank = a[2].kind != J_ABSENT && zt_j_truth(j, a[2]);
    jout o = {NULL};
    (void)call;
    if (v.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, v);
    if (v.kind != J_STRING)
        zt_j_fail(j, "indent: expected a string, not '%s'", zt_j_type(v));
    jtext in = width.kind == J_STRING ? width.s
                                      : zt_j_repeat(j, zt_j_literal(j, " ").s,
                                                    zt_j_as_int(j, width, "indent"));
    jlist *lines = zt_j_lines(j, zt_j_concat(j, v.s, zt_j_literal(j, "\n").s), false);
    for (size_t i = 0; i < lines->n; i++) {
        jtext line = lines->item[i].s;
        if (i)
            zt_j_puts(j, &o, "\n");
        if (i ? blank || line.n : first)
            zt_j_put_text(j, &o, in);
        zt_j_put_text(j, &o, line);
    }
    return like(v, zt_j_done(j, &o));
}

/* The last space in the first n bytes; n if there is none. */
static size_t last_space(jtext t)
{
    for (size_t i = t.n; i-- > 0;)
        if (zt_j_data(t)[i] == ' ')
            return i;
    return t.n;
}

FILTER(f_truncate)
{
    int64_t length = a[0].kind == J_ABSENT ? 255 : zt_j_as_int(j, a[0], "truncate"), n;
    jvalue end = a[2].kind == J_ABSENT ? zt_j_literal(j, "...") : a[2];
    int64_t leeway = a[3].kind == J_ABSENT || a[3].kind == J_NONE ? 5
                                                                  : zt_j_as_int(j, a[3], "truncate");
    (void)call;
    if (!zt_j_length(j, v, &n) || end.kind != J_STRING)
        zt_j_fail(j, "truncate: expected a string, not '%s'", zt_j_type(v));
    int64_t tail = (int64_t)zt_j_chars(j, end.s);
    if (length < tail || leeway < 0)
        zt_j_fail(j, "truncate: a length of at least %lld is expected, got %lld", (long long)tail,
                  (long long)length);
    if (n <= length + leeway)
        return v;
    if (v.kind != J_STRING)
        zt_j_fail(j, "truncate: expected a string, not '%s'", zt_j_type(v));
    jtext cut = zt_j_part(v.s, 0, zt_j_char_at(j, v.s, (size_t)(length - tail)));
    if (a[1].kind == J_ABSENT || !zt_j_truth(j, a[1]))
        cut = zt_j_part(cut, 0, last_space(cut));
    return like(v, zt_j_concat(j, cut, end.s));
}

FILTER(f_wordcount)
{
    jtext t = zt_j_str(j, v);
    int64_t n = 0;
    bool inside = false;
    UNUSED;
    for (size_t at = 0, k; at < t.n; at += k) {
        k = zt_j_char_bytes(zt_j_data(t) + at, t.n - at);
        uint32_t cp = zt_j_code(zt_j_data(t) + at, k);
        utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        bool word = cp == '_' || (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) ||
                    (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
        zt_j_step(j, 1);
        n += word && !inside;
        inside = word;
    }
    return zt_j_int(n);
}

FILTER(f_center)
{
    jvalue self = like(v, zt_j_str(j, v)), width = a[0].kind == J_ABSENT ? zt_j_int(80) : a[0];
    jcall c = {.arg = &width, .n = 1};
    (void)call;
    return zt_j_invoke(j, zt_j_string_method("center", 6), self, &c);
}

FILTER(f_tojson)
{
    (void)call;
    return zt_j_tojson(j, v, a);
}

static void put_quoted(jmachine *j, jout *o, jtext t, bool query)
{
    static const char plain[] = "_.-~";
    for (size_t i = 0; i < t.n; i++) {
        unsigned char c = (unsigned char)zt_j_data(t)[i];
        char buf[8];
        bool keep = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    (c && strchr(plain, c)) || (c == '/' && !query);
        if (keep) {
            zt_j_put_text(j, o, zt_j_part(t, i, 1));
            continue;
        }
        snprintf(buf, sizeof buf, "%%%02X", c);
        zt_j_put(j, o, query && c == ' ' ? "+" : buf, query && c == ' ' ? 1 : 3, zt_j_marks(t)[i]);
    }
}

FILTER(f_urlencode)
{
    jout o = {NULL};
    UNUSED;
    zt_j_put(j, &o, "", 0, false);
    if (v.kind == J_STRING || !zt_j_iterable(v)) {
        put_quoted(j, &o, zt_j_str(j, v), false);
        return zt_j_string(zt_j_done(j, &o));
    }
    if (v.kind == J_DICT)
        v = zt_j_call(j, zt_j_attribute(j, v, zt_j_literal(j, "items").s), &(jcall){0});
    jlist *l = zt_j_listed(j, v);
    for (size_t i = 0; i < l->n; i++) {
        jlist *pair = zt_j_listed(j, l->item[i]);
        if (pair->n != 2)
            zt_j_fail(j, "urlencode: pairs are expected");
        zt_j_puts(j, &o, i ? "&" : "");
        put_quoted(j, &o, zt_j_str(j, pair->item[0]), true);
        zt_j_puts(j, &o, "=");
        put_quoted(j, &o, zt_j_str(j, pair->item[1]), true);
    }
    return zt_j_string(zt_j_done(j, &o));
}

const jbuiltin zt_j_filters_text[] = {
    {"upper", "", 0, f_upper},
    {"lower", "", 0, f_lower},
    {"capitalize", "", 0, f_capitalize},
    {"title", "", 0, f_title},
    {"trim", "chars", 0, f_trim},
    {"string", "", 0, f_string},
    {"replace", "old new count", 2, f_replace},
    {"escape", "", 0, f_escape},
    {"e", "", 0, f_escape},
    {"forceescape", "", 0, f_forceescape},
    {"safe", "", 0, f_safe},
    {"format", NULL, 0, f_format},
    {"indent", "width first blank", 0, f_indent},
    {"truncate", "length killwords end leeway", 0, f_truncate},
    {"wordcount", "", 0, f_wordcount},
    {"center", "width", 0, f_center},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, f_tojson},
    {"urlencode", "", 0, f_urlencode},
    {"pprint", NULL, 0, NULL},
    {"random", NULL, 0, NULL},
    {"striptags", NULL, 0, NULL},
    {"urlize", NULL, 0, NULL},
    {"wordwrap", NULL, 0, NULL},
    {"xmlattr", NULL, 0, NULL},
    {NULL, NULL, 0, NULL},
};

const jbuiltin *zt_j_filter(const char *name, size_t n)
{
    static const jbuiltin *const tables[] = {zt_j_filters_text, zt_j_filters_number,
                                             zt_j_filters_sequence, zt_j_filters_select};
    const jbuiltin *f = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !f; i++)
        f = zt_j_find(tables[i], name, n);
    return f;
}
