/* vocab_onig.c - writes a regular expression of Oniguruma (Ruby's syntax, as the tokenizers library
 * uses it) anew for PCRE2; vocab_onig_class.c does what stands for one character.
 *
 * What differs and is translated: \b and \B go by Oniguruma's \w; (?m) is PCRE2's (?s); a (?i) in
 * the middle reaches to the end of its group over any |; {,n} is {0,n}; {n,m}+ and {n}? repeat a
 * repetition; \Q is a plain Q. Refused: (?x), absent operators, callouts, \y \Y \X, other option
 * letters, {m,n} with m > n.
 */
#include "lib/llm/vocab/vocab_onig.h"

#include <string.h>

enum { NONE = -1 };

zt_status zt_onig_fail(const zt_onig *o, zt_status s, const char *what)
{
    char buf[160];
    return zt_fail(o->ctx, s, "%s: %s: regular expression '%s', byte %zu: %s", o->file, o->where,
                   zt_escape(buf, sizeof buf, o->whole.data, o->whole.n),
                   (size_t)(o->p - o->whole.data), what);
}

bool zt_onig_among(const char *set, char c)
{
    return c && strchr(set, c);
}

bool zt_onig_more(const zt_onig *o, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(o->end - o->p) >= n && memcmp(o->p, text, n) == 0;
}

/* ---- escapes, groups, repetition ------------------------------------------------------------- */

static void mark_atom(zt_onig *o)
{
    o->atom = (ptrdiff_t)o->out->len;
}

/* A group's name with what closes it, as it is; what opens it may have been copied. */
static zt_status copy_name(zt_onig *o)
{
    const char *from = o->p;
    o->p += o->p < o->end && zt_onig_among("<'", *o->p);
    while (o->p < o->end && !zt_onig_among(">')", *o->p))
        o->p++;
    if (o->p == o->end || *o->p == ')')
        return zt_onig_fail(o, ZT_EDATA, "a name without its end");
    o->p++;
    return zt_str_put(o->out, from, (size_t)(o->p - from));
}

static zt_status escape(zt_onig *o)
{
    static const char word_edge[] = "(?:(?<=[" ZT_ONIG_WORD_ALONE "])(?![" ZT_ONIG_WORD_ALONE
                                    "])|(?<![" ZT_ONIG_WORD_ALONE "])(?=[" ZT_ONIG_WORD_ALONE "]))";
    static const char no_edge[] = "(?:(?<=[" ZT_ONIG_WORD_ALONE "])(?=[" ZT_ONIG_WORD_ALONE
                                  "])|(?<![" ZT_ONIG_WORD_ALONE "])(?![" ZT_ONIG_WORD_ALONE "]))";
    char text[128];
    uint32_t cp;
    bool negative = false;
    if (++o->p == o->end)
        return zt_onig_fail(o, ZT_EDATA, "it ends with a backslash");
    char c = *o->p;
    mark_atom(o);
    const char *named = zt_onig_letter(c, &negative);
    if (named || (c | 32) == 'p') {
        o->p++;
        zt_status st = ZT_OK;
        if (!named) {
            negative = c == 'P';
            st = zt_onig_property(o, &negative, text, sizeof text);
        }
        named = named ? named : text;
        named = strcmp(named, ZT_ONIG_WORD) == 0 ? ZT_ONIG_WORD_ALONE : named;
        return st ? st : zt_str_printf(o->out, "[%s%s]", negative ? "^" : "", named);
    }
    if (zt_onig_among("yYX", c))
        return zt_onig_fail(o, ZT_ENOTSUP, "text segments");
    if (zt_onig_among("bBO", c)) {
        o->p++;
        return zt_str_puts(o->out, c == 'b' ? word_edge : c == 'B' ? no_edge : "(?s:.)");
    }
    if (zt_onig_among("AZzGKRNgk123456789", c)) {
        o->p++;
        zt_status st = zt_str_printf(o->out, "\\%c", c);
        return !st && zt_onig_among("gk", c) ? copy_name(o) : st;
    }
    zt_status st = zt_onig_char(o, true, &cp);
    return st ? st : zt_onig_put_char(o->out, cp);
}

/* After "(?": options, with PCRE2's letters. ")" ends them: they hold to the end of the group. */
static zt_status options(zt_onig *o)
{
    zt_status st = zt_str_puts(o->out, "(?");
    for (; !st && o->p < o->end && zt_onig_among("im-", *o->p); o->p++)
        st = zt_str_putc(o->out, *o->p == 'm' ? 's' : *o->p);
    if (st || o->p == o->end || (*o->p != ')' && *o->p != ':'))
        return st ? st : zt_onig_fail(o, ZT_ENOTSUP, "that kind of group");
    if (*o->p == ')') {
        o->depth--;
        o->group[o->depth ? o->depth - 1 : ZT_ONIG_DEPTH - 1].closers++;
        o->atom = NONE;
    }
    o->p++;
    return zt_str_putc(o->out, ':');
}

static zt_status open_group(zt_onig *o)
{
    static const char *const plain[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?<", "(?'"};
    if (zt_onig_more(o, "(?#")) {
        const char *close = memchr(o->p, ')', (size_t)(o->end - o->p));
        o->p = close ? close + 1 : o->end;
        return close ? ZT_OK : zt_onig_fail(o, ZT_EDATA, "a comment without its end");
    }
    if (o->depth == ZT_ONIG_DEPTH - 1)
        return zt_onig_fail(o, ZT_ENOTSUP, "groups nested so deep");
    o->group[o->depth++] = (zt_onig_group){o->out->len, 0};
    o->atom = NONE;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (zt_onig_more(o, plain[i])) {
            o->p += strlen(plain[i]);
            zt_status st = zt_str_puts(o->out, plain[i]);
            return !st && i >= 6 ? copy_name(o) : st;
        }
    if (zt_onig_more(o, "(?")) {
        o->p += 2;
        return options(o);
    }
    if (zt_onig_more(o, "(*"))
        return zt_onig_fail(o, ZT_ENOTSUP, "callouts");
    o->p++;
    return zt_str_putc(o->out, '(');
}

static zt_status close_group(zt_onig *o)
{
    if (!o->depth)
        return zt_onig_fail(o, ZT_EDATA, "a ) too many");
    zt_onig_group *g = &o->group[--o->depth];
    zt_status st = ZT_OK;
    for (int i = 0; !st && i <= g->closers; i++)
        st = zt_str_putc(o->out, ')');
    o->atom = (ptrdiff_t)g->at;
    o->p++;
    return st;
}

/* "(?:" before the last atom and ")" after it. */
static zt_status wrap_atom(zt_onig *o)
{
    zt_status st = zt_str_puts(o->out, "(?:)");
    if (st)
        return st;
    char *at = o->out->data + o->atom;
    memmove(at + 3, at, o->out->len - 4 - (size_t)o->atom);
    memcpy(at, "(?:", 3);
    o->out->data[o->out->len - 1] = ')';
    return ZT_OK;
}

/* {n}, {n,}, {,m}, {n,m}; else a brace is a brace. */
static zt_status interval(zt_onig *o)
{
    const char *p = o->p + 1;
    long n[2] = {0, -1};
    int given = 0;
    bool comma = false;
    for (; p < o->end && ((*p >= '0' && *p <= '9') || (*p == ',' && !comma)); p++) {
        if (*p == ',') {
            comma = true;
            continue;
        }
        long *x = &n[comma];
        *x = (*x < 0 ? 0 : *x) * 10 + (*p - '0');
        given |= 1 << comma;
        if (*x > 100000)
            return zt_onig_fail(o, ZT_EDATA, "so many repetitions");
    }
    if (!given || p == o->end || *p != '}' || o->atom == NONE) {
        o->p++;
        mark_atom(o);
        return zt_str_puts(o->out, "\\{");
    }
    if (comma && n[1] >= 0 && n[1] < n[0])
        return zt_onig_fail(o, ZT_ENOTSUP, "a repetition that is out of order");
    o->p = p + 1;
    zt_status st = !comma      ? zt_str_printf(o->out, "{%ld}", n[0])
                   : n[1] < 0 ? zt_str_printf(o->out, "{%ld,}", n[0])
                              : zt_str_printf(o->out, "{%ld,%ld}", n[0], n[1]);
    bool nested = o->p < o->end && (*o->p == '+' || (*o->p == '?' && !comma));
    return !st && nested ? wrap_atom(o) : st;
}

static zt_status one(zt_onig *o)
{
    uint32_t cp;
    zt_status st;
    switch (*o->p) {
    case '\\':
        return escape(o);
    case '[':
        o->p++;
        mark_atom(o);
        return zt_onig_class(o, o->out, 0);
    case '(':
        return open_group(o);
    case ')':
        return close_group(o);
    case '{':
        return interval(o);
    case '.':
        mark_atom(o);
        return zt_str_putc(o->out, *o->p++);
    case '|':
    case '^':
    case '$':
        o->atom = NONE;
        return zt_str_putc(o->out, *o->p++);
    case '*':
    case '+':
    case '?':
        return zt_str_putc(o->out, *o->p++);
    default:
        mark_atom(o);
        st = zt_onig_char(o, false, &cp);
        return st ? st : zt_onig_put_char(o->out, cp);
    }
}

zt_status zt_onig_to_pcre2(zt_ctx *ctx, const char *file, const char *where, zt_bytes regex,
                           zt_str *out)
{
    zt_onig o = {.ctx = ctx, .file = file, .where = where, .whole = regex, .p = regex.data,
              .end = regex.data + regex.n, .out = out, .atom = NONE};
    zt_status st = zt_str_puts(out, "");
    while (!st && o.p < o.end)
        st = one(&o);
    if (!st && o.depth)
        st = zt_onig_fail(&o, ZT_EDATA, "a ( without its )");
    for (int i = 0; !st && i < o.group[ZT_ONIG_DEPTH - 1].closers; i++)
        st = zt_str_putc(out, ')');
    return st;
}
