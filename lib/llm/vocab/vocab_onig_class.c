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

static void *pcre_alloc(size_t size, void *ctx) { return zt_alloc(ctx, size); }

static void pcre_free(void *memory, void *ctx) { zt_free(ctx, memory); }

static zt_status pcre2_knows(zt_ctx *ctx, const char *set, bool *known)
{
    int error_code = PCRE2_ERROR_HEAP_FAILED;
    PCRE2_SIZE error_offset;
    pcre2_general_context *memory = pcre2_general_context_create(pcre_alloc, pcre_free, ctx);
    pcre2_compile_context *compile_context = memory ? pcre2_compile_context_create(memory) : NULL;
    pcre2_code *code = NULL;
    if (compile_context)
        code = pcre2_compile((PCRE2_SPTR)set, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error_code, &error_offset,
                             compile_context);
    *known = code != NULL;
    pcre2_code_free(code);
    pcre2_compile_context_free(compile_context);
    pcre2_general_context_free(memory);
    return !code && error_code == PCRE2_ERROR_HEAP_FAILED ? ZT_ENOMEM : ZT_OK;
}

/* The set of the name (case, blanks, - and _ do not count), or \p{name} left to PCRE2, into set. */
static zt_status name_set(const zt_onig *onig, const char *name, size_t size, char *set, size_t capacity)
{
    char plain[48];
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        char character = name[i];
        bool letter = (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
                      (character >= '0' && character <= '9');
        if (!letter && character != ' ' && character != '-' && character != '_')
            return zt_onig_fail(onig, ZT_ENOTSUP, "the name of a property is not known");
        if (length + 1 == sizeof plain)
            return zt_onig_fail(onig, ZT_ENOTSUP, "the name of a property is too long");
        if (letter)
            plain[length++] = character;
    }
    plain[length] = 0;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (strcasecmp(sets[i].name, plain) == 0) {
            snprintf(set, capacity, "%s", sets[i].set);
            return ZT_OK;
        }
    /* PCRE2's \p{Han} goes by Script_Extensions, which is more. */
    bool script = false;
    snprintf(set, capacity, "\\p{sc:%s}", plain);
    zt_status status = length > 2 ? pcre2_knows(onig->ctx, set, &script) : ZT_OK;
    if (!script)
        snprintf(set, capacity, "\\p{%s}", plain);
    return status;
}

/* After \p or \P: {name} or {^name}. */
zt_status zt_onig_property(zt_onig *onig, bool *negative, char *set, size_t capacity)
{
    const char *close = NULL;
    if (onig->cursor < onig->end && *onig->cursor == '{')
        close = memchr(onig->cursor, '}', (size_t)(onig->end - onig->cursor));
    if (!close)
        return zt_onig_fail(onig, ZT_EDATA, "a property without {name}");
    const char *name = onig->cursor + 1;
    if (*name == '^') {
        *negative = !*negative;
        name++;
    }
    zt_status status = name_set(onig, name, (size_t)(close - name), set, capacity);
    onig->cursor = close + 1;
    return status;
}

/* Is the escape letter letter a set? Then its text, and whether it is the set's opposite. */
const char *zt_onig_letter(char letter, bool *negative)
{
    static const struct {
        char letter;
        const char *set;
    } table[] = {{'s', SPACE}, {'d', "\\p{Nd}"}, {'w', ZT_ONIG_WORD}, {'h', HEX}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].letter == (letter | 32)) {
            *negative = table[i].letter != letter;
            return table[i].set;
        }
    return NULL;
}

/* ---- single characters ----------------------------------------------------------------------- */

static int hex_value(char letter)
{
    return letter >= '0' && letter <= '9'                 ? letter - '0'
           : (letter | 32) >= 'a' && (letter | 32) <= 'f' ? (letter | 32) - 'a' + 10
                                                          : -1;
}

/* Up to `limit` digits of a base that is a power of two; how many there were. */
static int read_digits(zt_onig *onig, int base, int limit, uint32_t *value)
{
    int count = 0;
    for (*value = 0; count < limit && onig->cursor < onig->end; count++, onig->cursor++) {
        int digit = hex_value(*onig->cursor);
        if (digit < 0 || digit >= base)
            break;
        *value = *value * (uint32_t)base + (uint32_t)digit;
    }
    return count;
}

static zt_status hex_escape(zt_onig *onig, char kind, uint32_t *codepoint)
{
    bool braces = kind == 'x' && onig->cursor < onig->end && *onig->cursor == '{';
    onig->cursor += braces;
    int count = read_digits(onig, 16, braces ? 8 : kind == 'u' ? 4 : 2, codepoint);
    if (!count || (kind == 'u' && count != 4) || (braces && (onig->cursor == onig->end || *onig->cursor++ != '}')))
        return zt_onig_fail(onig, ZT_EDATA, "a character's number is incomplete");
    if (*codepoint > 0x10ffff || (*codepoint >= 0xd800 && *codepoint < 0xe000))
        return zt_onig_fail(onig, ZT_EDATA, "no such character");
    if (kind == 'x' && !braces && *codepoint > 0x7f)
        return zt_onig_fail(onig, ZT_ENOTSUP, "a byte beyond ASCII");
    return ZT_OK;
}

/* \b is a backspace: that is so in a class, and elsewhere it does not come here. */
zt_status zt_onig_char(zt_onig *onig, bool escaped, uint32_t *codepoint)
{
    static const char escape_letters[] = "tnrfvaeb", escape_values[] = "\t\n\r\f\v\a\x1b\b";
    int length = zt_utf8_decode(onig->cursor, (size_t)(onig->end - onig->cursor), codepoint);
    if (!length)
        return zt_onig_fail(onig, ZT_EDATA, "it ends too early, or is not UTF-8");
    onig->cursor += length;
    if (!escaped)
        return ZT_OK;
    const char *simple = *codepoint && *codepoint < 128 ? strchr(escape_letters, (int)*codepoint) : NULL;
    if (simple)
        *codepoint = (unsigned char)escape_values[simple - escape_letters];
    else if (*codepoint == 'x' || *codepoint == 'u')
        return hex_escape(onig, (char)*codepoint, codepoint);
    else if (*codepoint >= '0' && *codepoint <= '7') {
        onig->cursor--;
        read_digits(onig, 8, 3, codepoint);
        if (*codepoint > 0x7f)
            return zt_onig_fail(onig, ZT_ENOTSUP, "a byte beyond ASCII");
    } else if (*codepoint == 'c') {
        if (onig->cursor == onig->end || (unsigned char)*onig->cursor > 127)
            return zt_onig_fail(onig, ZT_EDATA, "a control character is incomplete");
        *codepoint = (uint32_t)(*onig->cursor++ & 0x1f);
    } else if (*codepoint == 'C' || *codepoint == 'M')
        return zt_onig_fail(onig, ZT_ENOTSUP, "control and meta escapes");
    return ZT_OK;
}

/* A literal, in or out of a class. */
zt_status zt_onig_put_char(zt_str *out, uint32_t codepoint)
{
    char utf8[4];
    if (codepoint < 32 || codepoint == 127)
        return zt_str_printf(out, "\\x{%x}", (unsigned)codepoint);
    bool plain = codepoint > 127 || codepoint == ' ' || (codepoint >= '0' && codepoint <= '9') ||
                 ((codepoint | 32) >= 'a' && (codepoint | 32) <= 'z');
    zt_status status = plain ? ZT_OK : zt_str_putc(out, '\\');
    return status ? status : zt_str_put(out, utf8, (size_t)zt_utf8_encode(codepoint, utf8));
}

/* ---- classes --------------------------------------------------------------------------------- */

typedef struct char_set {  /* the union of what is in brackets and of alternatives */
    zt_str simple, others; /* "a-z\p{L}"; "|[^b]|(?:...)" */
} char_set;

static void set_init(char_set *set, zt_ctx *ctx)
{
    zt_str_init(&set->simple, ctx);
    zt_str_init(&set->others, ctx);
}

static void set_fini(char_set *set)
{
    zt_str_fini(&set->simple);
    zt_str_fini(&set->others);
}

/* An expression for one character of the set, or none of it. */
static zt_status set_put(const char_set *set, bool negative, zt_str *out)
{
    const char *simple = set->simple.len ? set->simple.data : NULL;
    if (!set->others.len)
        return simple ? zt_str_printf(out, "[%s%s]", negative ? "^" : "", simple)
                      : zt_str_puts(out, negative ? "(?s:.)" : "(?!)");
    zt_status status = zt_str_puts(out, negative ? "(?:(?!" : "(?:");
    if (!status)
        status = simple ? zt_str_printf(out, "[%s]%s", simple, set->others.data) : zt_str_puts(out, set->others.data + 1);
    return status ? status : zt_str_puts(out, negative ? ")(?s:.))" : ")");
}

static zt_status set_add(char_set *set, const char *content, bool negative)
{
    return negative ? zt_str_printf(&set->others, "|[^%s]", content) : zt_str_puts(&set->simple, content);
}

/* "[:alpha:]" or "[:^alpha:]" at p? */
static bool read_posix_set(zt_onig *onig, char_set *set, zt_status *status)
{
    const char *name = onig->cursor + 2, *close;
    char text[128];
    if (!zt_onig_more(onig, "[:") || !(close = memmem(name, (size_t)(onig->end - name), ":]", 2)))
        return false;
    bool negative = *name == '^';
    name += negative;
    for (const char *letter = name; letter < close; letter++)
        if ((*letter | 32) < 'a' || (*letter | 32) > 'z')
            return false;
    *status = name_set(onig, name, (size_t)(close - name), text, sizeof text);
    if (!*status && close - name == 5 && strncasecmp(name, "punct", 5) == 0)
        snprintf(text, sizeof text, "\\p{P}\\p{S}");
    if (!*status)
        *status = set_add(set, text, negative);
    onig->cursor = close + 2;
    return true;
}

/* A character, or a range of them, or an escape that is a set. */
static zt_status class_item(zt_onig *onig, char_set *set)
{
    char text[128];
    uint32_t from, to;
    bool escaped = *onig->cursor == '\\', negative = false;
    if (escaped && ++onig->cursor == onig->end)
        return zt_onig_fail(onig, ZT_EDATA, "it ends with a backslash");
    const char *named = escaped ? zt_onig_letter(*onig->cursor, &negative) : NULL;
    if (named) {
        onig->cursor++;
        return set_add(set, named, negative);
    }
    if (escaped && (*onig->cursor | 32) == 'p') {
        negative = *onig->cursor++ == 'P';
        zt_status status = zt_onig_property(onig, &negative, text, sizeof text);
        return status ? status : set_add(set, text, negative);
    }
    if (escaped && zt_onig_among("RXNOKGAzZByYgk", *onig->cursor))
        return zt_onig_fail(onig, ZT_ENOTSUP, "that escape within a class");
    zt_status status = zt_onig_char(onig, escaped, &from);
    if (status)
        return status;
    status = zt_onig_put_char(&set->simple, from);
    if (status || onig->end - onig->cursor < 2 || *onig->cursor != '-' || onig->cursor[1] == ']' || onig->cursor[1] == '[')
        return status;
    onig->cursor++;
    escaped = *onig->cursor == '\\';
    onig->cursor += escaped;
    if (escaped && onig->cursor < onig->end && (zt_onig_letter(*onig->cursor, &negative) || (*onig->cursor | 32) == 'p'))
        return zt_onig_fail(onig, ZT_EDATA, "a range that ends with a set");
    status = zt_onig_char(onig, escaped, &to);
    if (!status && to < from)
        status = zt_onig_fail(onig, ZT_EDATA, "a range out of order");
    if (!status)
        status = zt_str_putc(&set->simple, '-');
    return status ? status : zt_onig_put_char(&set->simple, to);
}

/* One operand of &&: up to && or the closing bracket. */
static zt_status class_union(zt_onig *onig, char_set *set, bool first, int depth)
{
    zt_status status = ZT_OK;
    for (; !status && onig->cursor < onig->end && !zt_onig_more(onig, "&&"); first = false) {
        if (*onig->cursor == ']' && !first)
            break;
        if (read_posix_set(onig, set, &status))
            continue;
        if (*onig->cursor != '[') {
            status = class_item(onig, set);
            continue;
        }
        onig->cursor++;
        status = zt_str_putc(&set->others, '|');
        if (!status)
            status = zt_onig_class(onig, &set->others, depth + 1);
    }
    return !status && onig->cursor == onig->end ? zt_onig_fail(onig, ZT_EDATA, "a class without its end") : status;
}

/* After "[": appends an expression for one character. A && B: B here, and A. */
zt_status zt_onig_class(zt_onig *onig, zt_str *out, int depth)
{
    char_set set;
    zt_str intersected;
    zt_status status = ZT_OK;
    bool first = true, negative = onig->cursor < onig->end && *onig->cursor == '^';
    if (depth > MOST_CLASS_DEPTH)
        return zt_onig_fail(onig, ZT_ENOTSUP, "classes nested so deep");
    onig->cursor += negative;
    zt_str_init(&intersected, onig->ctx);
    for (bool again = true; !status && again; first = false) {
        set_init(&set, onig->ctx);
        status = class_union(onig, &set, first, depth);
        again = !status && zt_onig_more(onig, "&&");
        onig->cursor += again ? 2 : 0;
        if (!status && first && !again)
            status = set_put(&set, negative, out);
        else if (!status) {
            status = zt_str_puts(&intersected, "(?=");
            status = status ? status : set_put(&set, false, &intersected);
            status = status ? status : zt_str_putc(&intersected, ')');
        }
        set_fini(&set);
    }
    if (!status && intersected.len)
        status = zt_str_printf(out, negative ? "(?:(?!%s)(?s:.))" : "(?:%s(?s:.))", intersected.data);
    onig->cursor += !status;
    zt_str_fini(&intersected);
    return status;
}
