/* vocab_onig.c - translates a regular expression of Oniguruma (Ruby's syntax, as the tokenizers library uses it) for PCRE2.
 *
 *     Oniguruma                      written for PCRE2
 *     \s \S                          Unicode's White_Space
 *     \w \W                          Alphabetic, marks, decimal digits, connectors; outside of a class
 *                                    also the other numbers of Latin-1
 *     \d, \h                         Nd, a hexadecimal digit
 *     \b \B                          look-around by Oniguruma's \w
 *     \p{name}                       a set by its name; scripts without their extensions
 *     [a[b]&&[^c]]                   classes that nest, negate and intersect, as alternatives and look-ahead
 *     (?m)                           (?s)
 *     (?i) in the middle             a group up to the end of the enclosing group, over any |
 *     {,n}  {n,m}+  {n}?             {0,n}; a repetition of a repetition
 *     \Q                             a plain Q
 *
 * Refused: (?x), absent operators, callouts, \y \Y \X, other option letters, {m,n} with m > n.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/base/pcre.h"
#include "lib/llm/vocab/vocab_onig.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MOST_DEPTH = 100 };

/* \w in a class; and outside of one, where Latin-1's other numbers are in it too. */
#define WORD       "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORD_ALONE WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

typedef struct open_group_state {
    size_t offset; /* of its text in out */
    int closers;   /* further ')' to write at its end: for each (?i) and the like inside */
} open_group_state;

typedef struct translation { /* one expression being translated */
    zt_ctx *ctx;
    const char *file, *where;
    zt_bytes whole;
    const char *cursor, *end;
    zt_str *out;
    open_group_state group[MOST_DEPTH]; /* the last is the whole expression's */
    int depth;
    ptrdiff_t atom; /* where the last thing that may be repeated begins in out; negative: none */
} translation;

enum { NONE = -1 };

static zt_status fail_regex(const translation *state, zt_status status, const char *what)
{
    char escaped[160];
    return zt_fail(state->ctx, status, "%s: %s: regular expression '%s', byte %zu: %s", state->file, state->where,
                   zt_escape(escaped, sizeof escaped, state->whole.data, state->whole.n),
                   (size_t)(state->cursor - state->whole.data), what);
}

static bool is_among(const char *set, char letter) { return letter && strchr(set, letter); }

static bool comes_next(const translation *state, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(state->end - state->cursor) >= size && memcmp(state->cursor, text, size) == 0;
}

#define SPACE                                                                                                                    \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"                                                       \
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
    {"word", WORD},
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

static zt_status pcre2_knows(zt_ctx *ctx, const char *set, bool *known)
{
    int error_code = PCRE2_ERROR_HEAP_FAILED;
    PCRE2_SIZE error_offset;
    pcre2_general_context *memory = pcre2_general_context_create(zt_pcre_alloc, zt_pcre_free, ctx);
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

/* Writes the set of this name (case, blanks, - and _ are ignored) to `set`, or \p{name} for PCRE2 to resolve. */
static zt_status name_set(const translation *state, const char *name, size_t size, char *set, size_t capacity)
{
    char plain[48];
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        char character = name[i];
        bool letter = (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
                      (character >= '0' && character <= '9');
        if (!letter && character != ' ' && character != '-' && character != '_')
            return fail_regex(state, ZT_ENOTSUP, "unknown property name");
        if (length + 1 == sizeof plain) return fail_regex(state, ZT_ENOTSUP, "property name too long");
        if (letter) plain[length++] = character;
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
    zt_status status = length > 2 ? pcre2_knows(state->ctx, set, &script) : ZT_OK;
    if (!script) snprintf(set, capacity, "\\p{%s}", plain);
    return status;
}

/* After \p or \P: {name} or {^name}. */
static zt_status read_property(translation *state, bool *negative, char *set, size_t capacity)
{
    const char *close = NULL;
    if (state->cursor < state->end && *state->cursor == '{')
        close = memchr(state->cursor, '}', (size_t)(state->end - state->cursor));
    if (!close) return fail_regex(state, ZT_EDATA, "property without a {name}");
    const char *name = state->cursor + 1;
    if (*name == '^') {
        *negative = !*negative;
        name++;
    }
    zt_status status = name_set(state, name, (size_t)(close - name), set, capacity);
    state->cursor = close + 1;
    return status;
}

/* The set of an escape letter (\s, \D ...) as text for brackets, and whether its opposite is meant; NULL: not a set. */
static const char *find_letter_set(char letter, bool *negative)
{
    static const struct {
        char letter;
        const char *set;
    } table[] = {{'s', SPACE}, {'d', "\\p{Nd}"}, {'w', WORD}, {'h', HEX}};
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
static int read_digits(translation *state, int base, int limit, uint32_t *value)
{
    int count = 0;
    for (*value = 0; count < limit && state->cursor < state->end; count++, state->cursor++) {
        int digit = hex_value(*state->cursor);
        if (digit < 0 || digit >= base) break;
        *value = *value * (uint32_t)base + (uint32_t)digit;
    }
    return count;
}

static zt_status hex_escape(translation *state, char kind, uint32_t *codepoint)
{
    bool braces = kind == 'x' && state->cursor < state->end && *state->cursor == '{';
    state->cursor += braces;
    int count = read_digits(state, 16, braces ? 8 : kind == 'u' ? 4 : 2, codepoint);
    if (!count || (kind == 'u' && count != 4) || (braces && (state->cursor == state->end || *state->cursor++ != '}')))
        return fail_regex(state, ZT_EDATA, "incomplete character code");
    if (*codepoint > 0x10ffff || (*codepoint >= 0xd800 && *codepoint < 0xe000))
        return fail_regex(state, ZT_EDATA, "invalid character code");
    if (kind == 'x' && !braces && *codepoint > 0x7f)
        return fail_regex(state, ZT_ENOTSUP, "byte escapes beyond ASCII are not supported");
    return ZT_OK;
}

/* Reads one character, after a backslash if `escaped`. \b is a backspace here: it is one in a class, and outside of one
 * it is handled before. */
static zt_status read_char(translation *state, bool escaped, uint32_t *codepoint)
{
    static const char escape_letters[] = "tnrfvaeb", escape_values[] = "\t\n\r\f\v\a\x1b\b";
    int length = zt_utf8_decode(state->cursor, (size_t)(state->end - state->cursor), codepoint);
    if (!length) return fail_regex(state, ZT_EDATA, "unexpected end, or not UTF-8");
    state->cursor += length;
    if (!escaped) return ZT_OK;
    const char *simple = *codepoint && *codepoint < 128 ? strchr(escape_letters, (int)*codepoint) : NULL;
    if (simple)
        *codepoint = (unsigned char)escape_values[simple - escape_letters];
    else if (*codepoint == 'x' || *codepoint == 'u')
        return hex_escape(state, (char)*codepoint, codepoint);
    else if (*codepoint >= '0' && *codepoint <= '7') {
        state->cursor--;
        read_digits(state, 8, 3, codepoint);
        if (*codepoint > 0x7f) return fail_regex(state, ZT_ENOTSUP, "byte escapes beyond ASCII are not supported");
    } else if (*codepoint == 'c') {
        if (state->cursor == state->end || (unsigned char)*state->cursor > 127)
            return fail_regex(state, ZT_EDATA, "incomplete control escape");
        *codepoint = (uint32_t)(*state->cursor++ & 0x1f);
    } else if (*codepoint == 'C' || *codepoint == 'M')
        return fail_regex(state, ZT_ENOTSUP, "control and meta escapes are not supported");
    return ZT_OK;
}

/* A literal, in or out of a class. */
static zt_status put_literal(zt_str *out, uint32_t codepoint)
{
    char utf8[4];
    if (codepoint < 32 || codepoint == 127) return zt_str_printf(out, "\\x{%x}", (unsigned)codepoint);
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

/* Appends an expression for one character of the set, or (negative) for one that is not in it. */
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
static bool read_posix_set(translation *state, char_set *set, zt_status *status)
{
    const char *name = state->cursor + 2, *close;
    char text[128];
    if (!comes_next(state, "[:") || !(close = memmem(name, (size_t)(state->end - name), ":]", 2))) return false;
    bool negative = *name == '^';
    name += negative;
    for (const char *letter = name; letter < close; letter++)
        if ((*letter | 32) < 'a' || (*letter | 32) > 'z') return false;
    *status = name_set(state, name, (size_t)(close - name), text, sizeof text);
    if (!*status && close - name == 5 && strncasecmp(name, "punct", 5) == 0) snprintf(text, sizeof text, "\\p{P}\\p{S}");
    if (!*status) *status = set_add(set, text, negative);
    state->cursor = close + 2;
    return true;
}

/* A character, or a range of them, or an escape that is a set. */
static zt_status class_item(translation *state, char_set *set)
{
    char text[128];
    uint32_t from, to;
    bool escaped = *state->cursor == '\\', negative = false;
    if (escaped && ++state->cursor == state->end) return fail_regex(state, ZT_EDATA, "trailing backslash");
    const char *named = escaped ? find_letter_set(*state->cursor, &negative) : NULL;
    if (named) {
        state->cursor++;
        return set_add(set, named, negative);
    }
    if (escaped && (*state->cursor | 32) == 'p') {
        negative = *state->cursor++ == 'P';
        zt_status status = read_property(state, &negative, text, sizeof text);
        return status ? status : set_add(set, text, negative);
    }
    if (escaped && is_among("RXNOKGAzZByYgk", *state->cursor))
        return fail_regex(state, ZT_ENOTSUP, "this escape is not supported in a character class");
    zt_status status = read_char(state, escaped, &from);
    if (status) return status;
    status = put_literal(&set->simple, from);
    if (status || state->end - state->cursor < 2 || *state->cursor != '-' || state->cursor[1] == ']' || state->cursor[1] == '[')
        return status;
    state->cursor++;
    escaped = *state->cursor == '\\';
    state->cursor += escaped;
    if (escaped && state->cursor < state->end && (find_letter_set(*state->cursor, &negative) || (*state->cursor | 32) == 'p'))
        return fail_regex(state, ZT_EDATA, "a range ends in a character class");
    status = read_char(state, escaped, &to);
    if (!status && to < from) status = fail_regex(state, ZT_EDATA, "range out of order");
    if (!status) status = zt_str_putc(&set->simple, '-');
    return status ? status : put_literal(&set->simple, to);
}

static zt_status translate_class(translation *state, zt_str *out, int depth);

/* One operand of &&: up to && or the closing bracket. */
static zt_status class_union(translation *state, char_set *set, bool first, int depth)
{
    zt_status status = ZT_OK;
    for (; !status && state->cursor < state->end && !comes_next(state, "&&"); first = false) {
        if (*state->cursor == ']' && !first) break;
        if (read_posix_set(state, set, &status)) continue;
        if (*state->cursor != '[') {
            status = class_item(state, set);
            continue;
        }
        state->cursor++;
        status = zt_str_putc(&set->others, '|');
        if (!status) status = translate_class(state, &set->others, depth + 1);
    }
    return !status && state->cursor == state->end ? fail_regex(state, ZT_EDATA, "missing ] after a character class") : status;
}

/* After "[": appends an expression for one character. A && B becomes (?=A) before B. */
static zt_status translate_class(translation *state, zt_str *out, int depth)
{
    char_set set;
    zt_str intersected;
    zt_status status = ZT_OK;
    bool first = true, negative = state->cursor < state->end && *state->cursor == '^';
    if (depth > MOST_CLASS_DEPTH) return fail_regex(state, ZT_ENOTSUP, "character classes nested too deeply");
    state->cursor += negative;
    zt_str_init(&intersected, state->ctx);
    for (bool again = true; !status && again; first = false) {
        set_init(&set, state->ctx);
        status = class_union(state, &set, first, depth);
        again = !status && comes_next(state, "&&");
        state->cursor += again ? 2 : 0;
        if (!status && first && !again)
            status = set_put(&set, negative, out);
        else if (!status) {
            status = zt_str_puts(&intersected, "(?=");
            status = status ? status : set_put(&set, false, &intersected);
            status = status ? status : zt_str_putc(&intersected, ')');
        }
        set_fini(&set);
    }
    if (!status && intersected.len) status = zt_str_printf(out, negative ? "(?:(?!%s)(?s:.))" : "(?:%s(?s:.))", intersected.data);
    state->cursor += !status;
    zt_str_fini(&intersected);
    return status;
}

/* ---- escapes, groups, repetition ------------------------------------------------------------- */

static void mark_atom(translation *state) { state->atom = (ptrdiff_t)state->out->len; }

/* Copies a group's name and its closing character; the opening one may have been copied already. */
static zt_status copy_name(translation *state)
{
    const char *start = state->cursor;
    state->cursor += state->cursor < state->end && is_among("<'", *state->cursor);
    while (state->cursor < state->end && !is_among(">')", *state->cursor)) state->cursor++;
    if (state->cursor == state->end || *state->cursor == ')') return fail_regex(state, ZT_EDATA, "unterminated group name");
    state->cursor++;
    return zt_str_put(state->out, start, (size_t)(state->cursor - start));
}

static zt_status translate_escape(translation *state)
{
    static const char word_edge[] = "(?:(?<=[" WORD_ALONE "])(?![" WORD_ALONE "])|(?<![" WORD_ALONE "])(?=[" WORD_ALONE "]))";
    static const char no_edge[] = "(?:(?<=[" WORD_ALONE "])(?=[" WORD_ALONE "])|(?<![" WORD_ALONE "])(?![" WORD_ALONE "]))";
    char text[128];
    uint32_t codepoint;
    bool negative = false;
    if (++state->cursor == state->end) return fail_regex(state, ZT_EDATA, "trailing backslash");
    char letter = *state->cursor;
    mark_atom(state);
    const char *named = find_letter_set(letter, &negative);
    if (named || (letter | 32) == 'p') {
        state->cursor++;
        zt_status status = ZT_OK;
        if (!named) {
            negative = letter == 'P';
            status = read_property(state, &negative, text, sizeof text);
        }
        named = named ? named : text;
        named = strcmp(named, WORD) == 0 ? WORD_ALONE : named;
        return status ? status : zt_str_printf(state->out, "[%s%s]", negative ? "^" : "", named);
    }
    if (is_among("yYX", letter)) return fail_regex(state, ZT_ENOTSUP, "text segments (\\X, \\y, \\Y) are not supported");
    if (is_among("bBO", letter)) {
        state->cursor++;
        return zt_str_puts(state->out, letter == 'b' ? word_edge : letter == 'B' ? no_edge : "(?s:.)");
    }
    if (is_among("AZzGKRNgk123456789", letter)) {
        state->cursor++;
        zt_status status = zt_str_printf(state->out, "\\%c", letter);
        return !status && is_among("gk", letter) ? copy_name(state) : status;
    }
    zt_status status = read_char(state, true, &codepoint);
    return status ? status : put_literal(state->out, codepoint);
}

/* After "(?": options, written with PCRE2's letters. Without ":" they hold to the end of the enclosing group. */
static zt_status translate_options(translation *state)
{
    zt_status status = zt_str_puts(state->out, "(?");
    for (; !status && state->cursor < state->end && is_among("im-", *state->cursor); state->cursor++)
        status = zt_str_putc(state->out, *state->cursor == 'm' ? 's' : *state->cursor);
    if (status || state->cursor == state->end || (*state->cursor != ')' && *state->cursor != ':'))
        return status ? status : fail_regex(state, ZT_ENOTSUP, "this kind of group is not supported");
    if (*state->cursor == ')') {
        state->depth--;
        state->group[state->depth ? state->depth - 1 : MOST_DEPTH - 1].closers++;
        state->atom = NONE;
    }
    state->cursor++;
    return zt_str_putc(state->out, ':');
}

static zt_status open_group(translation *state)
{
    static const char *const plain[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?<", "(?'"};
    if (comes_next(state, "(?#")) {
        const char *end = memchr(state->cursor, ')', (size_t)(state->end - state->cursor));
        state->cursor = end ? end + 1 : state->end;
        return end ? ZT_OK : fail_regex(state, ZT_EDATA, "unterminated comment");
    }
    if (state->depth == MOST_DEPTH - 1) return fail_regex(state, ZT_ENOTSUP, "groups nested too deeply");
    state->group[state->depth++] = (open_group_state){state->out->len, 0};
    state->atom = NONE;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (comes_next(state, plain[i])) {
            state->cursor += strlen(plain[i]);
            zt_status status = zt_str_puts(state->out, plain[i]);
            return !status && i >= 6 ? copy_name(state) : status;
        }
    if (comes_next(state, "(?")) {
        state->cursor += 2;
        return translate_options(state);
    }
    if (comes_next(state, "(*")) return fail_regex(state, ZT_ENOTSUP, "callouts are not supported");
    state->cursor++;
    return zt_str_putc(state->out, '(');
}

static zt_status close_group(translation *state)
{
    if (!state->depth) return fail_regex(state, ZT_EDATA, "unmatched )");
    open_group_state *group = &state->group[--state->depth];
    zt_status status = ZT_OK;
    for (int i = 0; !status && i <= group->closers; i++) status = zt_str_putc(state->out, ')');
    state->atom = (ptrdiff_t)group->offset;
    state->cursor++;
    return status;
}

/* "(?:" before the last atom and ")" after it. */
static zt_status wrap_atom(translation *state)
{
    zt_status status = zt_str_puts(state->out, "(?:)");
    if (status) return status;
    char *atom = state->out->data + state->atom;
    memmove(atom + 3, atom, state->out->len - 4 - (size_t)state->atom);
    memcpy(atom, "(?:", 3);
    state->out->data[state->out->len - 1] = ')';
    return ZT_OK;
}

/* {n}, {n,}, {,m}, {n,m}; any other brace is a literal. */
static zt_status translate_interval(translation *state)
{
    const char *cursor = state->cursor + 1;
    long bounds[2] = {0, -1};
    int given = 0;
    bool comma = false;
    for (; cursor < state->end && ((*cursor >= '0' && *cursor <= '9') || (*cursor == ',' && !comma)); cursor++) {
        if (*cursor == ',') {
            comma = true;
            continue;
        }
        long *bound = &bounds[comma];
        *bound = (*bound < 0 ? 0 : *bound) * 10 + (*cursor - '0');
        given |= 1 << comma;
        if (*bound > 100000) return fail_regex(state, ZT_EDATA, "repetition count above 100000");
    }
    if (!given || cursor == state->end || *cursor != '}' || state->atom == NONE) {
        state->cursor++;
        mark_atom(state);
        return zt_str_puts(state->out, "\\{");
    }
    if (comma && bounds[1] >= 0 && bounds[1] < bounds[0]) return fail_regex(state, ZT_ENOTSUP, "repetition bounds out of order");
    state->cursor = cursor + 1;
    zt_status status = !comma          ? zt_str_printf(state->out, "{%ld}", bounds[0])
                       : bounds[1] < 0 ? zt_str_printf(state->out, "{%ld,}", bounds[0])
                                       : zt_str_printf(state->out, "{%ld,%ld}", bounds[0], bounds[1]);
    bool nested = state->cursor < state->end && (*state->cursor == '+' || (*state->cursor == '?' && !comma));
    return !status && nested ? wrap_atom(state) : status;
}

static zt_status translate_one(translation *state)
{
    uint32_t codepoint;
    zt_status status;
    switch (*state->cursor) {
    case '\\': return translate_escape(state);
    case '[':
        state->cursor++;
        mark_atom(state);
        return translate_class(state, state->out, 0);
    case '(': return open_group(state);
    case ')': return close_group(state);
    case '{': return translate_interval(state);
    case '.': mark_atom(state); return zt_str_putc(state->out, *state->cursor++);
    case '|':
    case '^':
    case '$': state->atom = NONE; return zt_str_putc(state->out, *state->cursor++);
    case '*':
    case '+':
    case '?': return zt_str_putc(state->out, *state->cursor++);
    default:
        mark_atom(state);
        status = read_char(state, false, &codepoint);
        return status ? status : put_literal(state->out, codepoint);
    }
}

zt_status zt_onig_to_pcre2(zt_ctx *ctx, const char *file, const char *where, zt_bytes regex, zt_str *out)
{
    translation state = {.ctx = ctx,
                         .file = file,
                         .where = where,
                         .whole = regex,
                         .cursor = regex.data,
                         .end = regex.data + regex.n,
                         .out = out,
                         .atom = NONE};
    zt_status status = zt_str_puts(out, "");
    while (!status && state.cursor < state.end) status = translate_one(&state);
    if (!status && state.depth) status = fail_regex(&state, ZT_EDATA, "missing )");
    for (int i = 0; !status && i < state.group[MOST_DEPTH - 1].closers; i++) status = zt_str_putc(out, ')');
    return status;
}
