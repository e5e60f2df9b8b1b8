/* vocab_onig_class.c - what stands for one character in a regular expression of Oniguruma: escapes,
 * sets by name, and classes in brackets, written anew for PCRE2.
 *
 * What differs and is translated: \s \S are Unicode's White_Space, \w \W Alphabetic, marks, decimal
 * digits and connectors (and outside of a class Latin-1's other numbers), \d is Nd, \h a
 * hexadecimal digit; names of properties, and scripts without their
 * extensions; classes nest, negate and intersect (&&).
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/llm/vocab/vocab_onig.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SPACE                                                                                      \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"                        \
    "\\x{202f}\\x{205f}\\x{3000}"
#define HEX "0-9A-Fa-f"

enum { MOST_CLASS_DEPTH = 16 };

/* ---- sets of characters by name -------------------------------------------------------------- */

static const struct {
    const char *name, *set; /* within brackets */
} sets[] = {
    {"alnum", "\\p{Alphabetic}\\p{Nd}"},
    {"alpha", "\\p{Alphabetic}"},
    {"blank", "\\p{Zs}\\t"},
    {"cntrl", "\\p{Cc}"},
    {"digit", "\\p{Nd}"},
    {"lower", "\\p{Lowercase}"},
    {"punct", "\\p{P}"}, /* and in [:punct:] symbols */
    {"space", SPACE},
    {"upper", "\\p{Uppercase}"},
    {"word", ZT_ONIG_WORD},
    {"xdigit", HEX},
    {"ascii", "\\x{0}-\\x{7f}"},
    {"letter", "\\p{L}"},
    {"uppercaseletter", "\\p{Lu}"},
    {"lowercaseletter", "\\p{Ll}"},
    {"titlecaseletter", "\\p{Lt}"},
    {"modifierletter", "\\p{Lm}"},
    {"otherletter", "\\p{Lo}"},
    {"casedletter", "\\p{Lu}\\p{Ll}\\p{Lt}"},
    {"lc", "\\p{Lu}\\p{Ll}\\p{Lt}"},
    {"mark", "\\p{M}"},
    {"combiningmark", "\\p{M}"},
    {"nonspacingmark", "\\p{Mn}"},
    {"spacingmark", "\\p{Mc}"},
    {"enclosingmark", "\\p{Me}"},
    {"number", "\\p{N}"},
    {"decimalnumber", "\\p{Nd}"},
    {"letternumber", "\\p{Nl}"},
    {"othernumber", "\\p{No}"},
    {"punctuation", "\\p{P}"},
    {"symbol", "\\p{S}"},
    {"mathsymbol", "\\p{Sm}"},
    {"currencysymbol", "\\p{Sc}"},
    {"modifiersymbol", "\\p{Sk}"},
    {"othersymbol", "\\p{So}"},
    {"separator", "\\p{Z}"},
    {"spaceseparator", "\\p{Zs}"},
    {"other", "\\p{C}"},
    {"control", "\\p{Cc}"},
    {"format", "\\p{Cf}"},
};

static void *pcre_alloc(size_t n, void *ctx)
{
    return zt_alloc(ctx, n);
}

static void pcre_free(void *p, void *ctx)
{
    zt_free(ctx, p);
}

static zt_status pcre2_knows(zt_ctx *ctx, const char *set, bool *known)
{
    int code = PCRE2_ERROR_HEAP_FAILED;
    PCRE2_SIZE at;
    pcre2_general_context *memory = pcre2_general_context_create(pcre_alloc, pcre_free, ctx);
    pcre2_compile_context *cc = memory ? pcre2_compile_context_create(memory) : NULL;
    pcre2_code *c = NULL;
    if (cc)
        c = pcre2_compile((PCRE2_SPTR)set, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &at,
                          cc);
    *known = c != NULL;
    pcre2_code_free(c);
    pcre2_compile_context_free(cc);
    pcre2_general_context_free(memory);
    return !c && code == PCRE2_ERROR_HEAP_FAILED ? ZT_ENOMEM : ZT_OK;
}

/* The set of the name (case, blanks, - and _ do not count), or \p{name} left to PCRE2, into set. */
static zt_status name_set(const zt_onig *o, const char *name, size_t n, char *set, size_t cap)
{
    char plain[48];
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != ' ' && c != '-' && c != '_')
            return zt_onig_fail(o, ZT_ENOTSUP, "the name of a property is not known");
        if (len + 1 == sizeof plain)
            return zt_onig_fail(o, ZT_ENOTSUP, "the name of a property is too long");
        if (letter)
            plain[len++] = c;
    }
    plain[len] = 0;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (strcasecmp(sets[i].name, plain) == 0) {
            snprintf(set, cap, "%s", sets[i].set);
            return ZT_OK;
        }
    /* PCRE2's \p{Han} goes by Script_Extensions, which is more. */
    bool script = false;
    snprintf(set, cap, "\\p{sc:%s}", plain);
    zt_status s = len > 2 ? pcre2_knows(o->ctx, set, &script) : ZT_OK;
    if (!script)
        snprintf(set, cap, "\\p{%s}", plain);
    return s;
}

/* After \p or \P: {name} or {^name}. */
zt_status zt_onig_property(zt_onig *o, bool *negative, char *set, size_t cap)
{
    const char *close = NULL;
    if (o->p < o->end && *o->p == '{')
        close = memchr(o->p, '}', (size_t)(o->end - o->p));
    if (!close)
        return zt_onig_fail(o, ZT_EDATA, "a property without {name}");
    const char *name = o->p + 1;
    if (*name == '^') {
        *negative = !*negative;
        name++;
    }
    zt_status s = name_set(o, name, (size_t)(close - name), set, cap);
    o->p = close + 1;
    return s;
}

/* Is the escape letter c a set? Then its text, and whether it is the set's opposite. */
const char *zt_onig_letter(char c, bool *negative)
{
    static const struct {
        char c;
        const char *set;
    } table[] = {{'s', SPACE}, {'d', "\\p{Nd}"}, {'w', ZT_ONIG_WORD}, {'h', HEX}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].c == (c | 32)) {
            *negative = table[i].c != c;
            return table[i].set;
        }
    return NULL;
}

/* ---- single characters ----------------------------------------------------------------------- */

static int hex_value(char c)
{
    return c >= '0' && c <= '9'               ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

/* Up to `most` digits of a base that is a power of two; how many there were. */
static int digits(zt_onig *o, int base, int most, uint32_t *value)
{
    int n = 0;
    for (*value = 0; n < most && o->p < o->end; n++, o->p++) {
        int d = hex_value(*o->p);
        if (d < 0 || d >= base)
            break;
        *value = *value * (uint32_t)base + (uint32_t)d;
    }
    return n;
}

static zt_status hex_escape(zt_onig *o, char kind, uint32_t *cp)
{
    bool braces = kind == 'x' && o->p < o->end && *o->p == '{';
    o->p += braces;
    int n = digits(o, 16, braces ? 8 : kind == 'u' ? 4 : 2, cp);
    if (!n || (kind == 'u' && n != 4) || (braces && (o->p == o->end || *o->p++ != '}')))
        return zt_onig_fail(o, ZT_EDATA, "a character's number is incomplete");
    if (*cp > 0x10ffff || (*cp >= 0xd800 && *cp < 0xe000))
        return zt_onig_fail(o, ZT_EDATA, "no such character");
    if (kind == 'x' && !braces && *cp > 0x7f)
        return zt_onig_fail(o, ZT_ENOTSUP, "a byte beyond ASCII");
    return ZT_OK;
}

/* \b is a backspace: that is so in a class, and elsewhere it does not come here. */
zt_status zt_onig_char(zt_onig *o, bool escaped, uint32_t *cp)
{
    static const char from[] = "tnrfvaeb", to[] = "\t\n\r\f\v\a\x1b\b";
    int len = zt_utf8_decode(o->p, (size_t)(o->end - o->p), cp);
    if (!len)
        return zt_onig_fail(o, ZT_EDATA, "it ends too early, or is not UTF-8");
    o->p += len;
    if (!escaped)
        return ZT_OK;
    const char *simple = *cp && *cp < 128 ? strchr(from, (int)*cp) : NULL;
    if (simple)
        *cp = (unsigned char)to[simple - from];
    else if (*cp == 'x' || *cp == 'u')
        return hex_escape(o, (char)*cp, cp);
    else if (*cp >= '0' && *cp <= '7') {
        o->p--;
        digits(o, 8, 3, cp);
        if (*cp > 0x7f)
            return zt_onig_fail(o, ZT_ENOTSUP, "a byte beyond ASCII");
    } else if (*cp == 'c') {
        if (o->p == o->end || (unsigned char)*o->p > 127)
            return zt_onig_fail(o, ZT_EDATA, "a control character is incomplete");
        *cp = (uint32_t)(*o->p++ & 0x1f);
    } else if (*cp == 'C' || *cp == 'M')
        return zt_onig_fail(o, ZT_ENOTSUP, "control and meta escapes");
    return ZT_OK;
}

/* A literal, in or out of a class. */
zt_status zt_onig_put_char(zt_str *out, uint32_t cp)
{
    char utf8[4];
    if (cp < 32 || cp == 127)
        return zt_str_printf(out, "\\x{%x}", (unsigned)cp);
    bool plain = cp > 127 || cp == ' ' || (cp >= '0' && cp <= '9') ||
                 ((cp | 32) >= 'a' && (cp | 32) <= 'z');
    zt_status s = plain ? ZT_OK : zt_str_putc(out, '\\');
    return s ? s : zt_str_put(out, utf8, (size_t)zt_utf8_encode(cp, utf8));
}

/* ---- classes --------------------------------------------------------------------------------- */

typedef struct set { /* the union of what is in brackets and of alternatives */
    zt_str simple, others; /* "a-z\p{L}"; "|[^b]|(?:...)" */
} set;

static void set_init(set *s, zt_ctx *ctx)
{
    zt_str_init(&s->simple, ctx);
    zt_str_init(&s->others, ctx);
}

static void set_fini(set *s)
{
    zt_str_fini(&s->simple);
    zt_str_fini(&s->others);
}

/* An expression for one character of the set, or none of it. */
static zt_status set_put(const set *s, bool negative, zt_str *out)
{
    const char *simple = s->simple.len ? s->simple.data : NULL;
    if (!s->others.len)
        return simple ? zt_str_printf(out, "[%s%s]", negative ? "^" : "", simple)
                      : zt_str_puts(out, negative ? "(?s:.)" : "(?!)");
    zt_status st = zt_str_puts(out, negative ? "(?:(?!" : "(?:");
    if (!st)
        st = simple ? zt_str_printf(out, "[%s]%s", simple, s->others.data)
                    : zt_str_puts(out, s->others.data + 1);
    return st ? st : zt_str_puts(out, negative ? ")(?s:.))" : ")");
}

static zt_status set_add(set *s, const char *content, bool negative)
{
    return negative ? zt_str_printf(&s->others, "|[^%s]", content)
                    : zt_str_puts(&s->simple, content);
}

/* "[:alpha:]" or "[:^alpha:]" at p? */
static bool posix(zt_onig *o, set *s, zt_status *st)
{
    const char *name = o->p + 2, *close;
    char text[128];
    if (!zt_onig_more(o, "[:") || !(close = memmem(name, (size_t)(o->end - name), ":]", 2)))
        return false;
    bool negative = *name == '^';
    name += negative;
    for (const char *c = name; c < close; c++)
        if ((*c | 32) < 'a' || (*c | 32) > 'z')
            return false;
    *st = name_set(o, name, (size_t)(close - name), text, sizeof text);
    if (!*st && close - name == 5 && strncasecmp(name, "punct", 5) == 0)
        snprintf(text, sizeof text, "\\p{P}\\p{S}");
    if (!*st)
        *st = set_add(s, text, negative);
    o->p = close + 2;
    return true;
}

/* A character, or a range of them, or an escape that is a set. */
static zt_status class_item(zt_onig *o, set *s)
{
    char text[128];
    uint32_t from, to;
    bool escaped = *o->p == '\\', negative = false;
    if (escaped && ++o->p == o->end)
        return zt_onig_fail(o, ZT_EDATA, "it ends with a backslash");
    const char *named = escaped ? zt_onig_letter(*o->p, &negative) : NULL;
    if (named) {
        o->p++;
        return set_add(s, named, negative);
    }
    if (escaped && (*o->p | 32) == 'p') {
        negative = *o->p++ == 'P';
        zt_status st = zt_onig_property(o, &negative, text, sizeof text);
        return st ? st : set_add(s, text, negative);
    }
    if (escaped && zt_onig_among("RXNOKGAzZByYgk", *o->p))
        return zt_onig_fail(o, ZT_ENOTSUP, "that escape within a class");
    zt_status st = zt_onig_char(o, escaped, &from);
    if (st)
        return st;
    st = zt_onig_put_char(&s->simple, from);
    if (st || o->end - o->p < 2 || *o->p != '-' || o->p[1] == ']' || o->p[1] == '[')
        return st;
    o->p++;
    escaped = *o->p == '\\';
    o->p += escaped;
    if (escaped && o->p < o->end && (zt_onig_letter(*o->p, &negative) || (*o->p | 32) == 'p'))
        return zt_onig_fail(o, ZT_EDATA, "a range that ends with a set");
    st = zt_onig_char(o, escaped, &to);
    if (!st && to < from)
        st = zt_onig_fail(o, ZT_EDATA, "a range out of order");
    if (!st)
        st = zt_str_putc(&s->simple, '-');
    return st ? st : zt_onig_put_char(&s->simple, to);
}

/* One operand of &&: up to && or the closing bracket. */
static zt_status class_union(zt_onig *o, set *s, bool first, int depth)
{
    zt_status st = ZT_OK;
    for (; !st && o->p < o->end && !zt_onig_more(o, "&&"); first = false) {
        if (*o->p == ']' && !first)
            break;
        if (posix(o, s, &st))
            continue;
        if (*o->p != '[') {
            st = class_item(o, s);
            continue;
        }
        o->p++;
        st = zt_str_putc(&s->others, '|');
        if (!st)
            st = zt_onig_class(o, &s->others, depth + 1);
    }
    return !st && o->p == o->end ? zt_onig_fail(o, ZT_EDATA, "a class without its end") : st;
}

/* After "[": appends an expression for one character. A && B: B here, and A. */
zt_status zt_onig_class(zt_onig *o, zt_str *out, int depth)
{
    set s;
    zt_str one;
    zt_status st = ZT_OK;
    bool first = true, negative = o->p < o->end && *o->p == '^';
    if (depth > MOST_CLASS_DEPTH)
        return zt_onig_fail(o, ZT_ENOTSUP, "classes nested so deep");
    o->p += negative;
    zt_str_init(&one, o->ctx);
    for (bool again = true; !st && again; first = false) {
        set_init(&s, o->ctx);
        st = class_union(o, &s, first, depth);
        again = !st && zt_onig_more(o, "&&");
        o->p += again ? 2 : 0;
        if (!st && first && !again)
            st = set_put(&s, negative, out);
        else if (!st) {
            st = zt_str_puts(&one, "(?=");
            st = st ? st : set_put(&s, false, &one);
            st = st ? st : zt_str_putc(&one, ')');
        }
        set_fini(&s);
    }
    if (!st && one.len)
        st = zt_str_printf(out, negative ? "(?:(?!%s)(?s:.))" : "(?:%s(?s:.))", one.data);
    o->p += !st;
    zt_str_fini(&one);
    return st;
}
