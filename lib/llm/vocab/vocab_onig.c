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

zt_status zt_onig_fail(const zt_onig *onig, zt_status status, const char *what)
{
    char escaped[160];
    return zt_fail(onig->ctx, status, "%s: %s: regular expression '%s', byte %zu: %s", onig->file, onig->where,
                   zt_escape(escaped, sizeof escaped, onig->whole.data, onig->whole.n), (size_t)(onig->cursor - onig->whole.data),
                   what);
}

bool zt_onig_among(const char *set, char letter) { return letter && strchr(set, letter); }

bool zt_onig_more(const zt_onig *onig, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(onig->end - onig->cursor) >= size && memcmp(onig->cursor, text, size) == 0;
}

/* ---- escapes, groups, repetition ------------------------------------------------------------- */

static void mark_atom(zt_onig *onig) { onig->atom = (ptrdiff_t)onig->out->len; }

/* A group's name with what closes it, as it is; what opens it may have been copied. */
static zt_status copy_name(zt_onig *onig)
{
    const char *start = onig->cursor;
    onig->cursor += onig->cursor < onig->end && zt_onig_among("<'", *onig->cursor);
    while (onig->cursor < onig->end && !zt_onig_among(">')", *onig->cursor))
        onig->cursor++;
    if (onig->cursor == onig->end || *onig->cursor == ')')
        return zt_onig_fail(onig, ZT_EDATA, "a name without its end");
    onig->cursor++;
    return zt_str_put(onig->out, start, (size_t)(onig->cursor - start));
}

static zt_status translate_escape(zt_onig *onig)
{
    static const char word_edge[] = "(?:(?<=[" ZT_ONIG_WORD_ALONE "])(?![" ZT_ONIG_WORD_ALONE
                                    "])|(?<![" ZT_ONIG_WORD_ALONE "])(?=[" ZT_ONIG_WORD_ALONE "]))";
    static const char no_edge[] = "(?:(?<=[" ZT_ONIG_WORD_ALONE "])(?=[" ZT_ONIG_WORD_ALONE
                                  "])|(?<![" ZT_ONIG_WORD_ALONE "])(?![" ZT_ONIG_WORD_ALONE "]))";
    char text[128];
    uint32_t codepoint;
    bool negative = false;
    if (++onig->cursor == onig->end)
        return zt_onig_fail(onig, ZT_EDATA, "it ends with a backslash");
    char letter = *onig->cursor;
    mark_atom(onig);
    const char *named = zt_onig_letter(letter, &negative);
    if (named || (letter | 32) == 'p') {
        onig->cursor++;
        zt_status status = ZT_OK;
        if (!named) {
            negative = letter == 'P';
            status = zt_onig_property(onig, &negative, text, sizeof text);
        }
        named = named ? named : text;
        named = strcmp(named, ZT_ONIG_WORD) == 0 ? ZT_ONIG_WORD_ALONE : named;
        return status ? status : zt_str_printf(onig->out, "[%s%s]", negative ? "^" : "", named);
    }
    if (zt_onig_among("yYX", letter))
        return zt_onig_fail(onig, ZT_ENOTSUP, "text segments");
    if (zt_onig_among("bBO", letter)) {
        onig->cursor++;
        return zt_str_puts(onig->out, letter == 'b' ? word_edge : letter == 'B' ? no_edge : "(?s:.)");
    }
    if (zt_onig_among("AZzGKRNgk123456789", letter)) {
        onig->cursor++;
        zt_status status = zt_str_printf(onig->out, "\\%c", letter);
        return !status && zt_onig_among("gk", letter) ? copy_name(onig) : status;
    }
    zt_status status = zt_onig_char(onig, true, &codepoint);
    return status ? status : zt_onig_put_char(onig->out, codepoint);
}

/* After "(?": options, with PCRE2's letters. ")" ends them: they hold to the end of the group. */
static zt_status translate_options(zt_onig *onig)
{
    zt_status status = zt_str_puts(onig->out, "(?");
    for (; !status && onig->cursor < onig->end && zt_onig_among("im-", *onig->cursor); onig->cursor++)
        status = zt_str_putc(onig->out, *onig->cursor == 'm' ? 's' : *onig->cursor);
    if (status || onig->cursor == onig->end || (*onig->cursor != ')' && *onig->cursor != ':'))
        return status ? status : zt_onig_fail(onig, ZT_ENOTSUP, "that kind of group");
    if (*onig->cursor == ')') {
        onig->depth--;
        onig->group[onig->depth ? onig->depth - 1 : ZT_ONIG_DEPTH - 1].closers++;
        onig->atom = NONE;
    }
    onig->cursor++;
    return zt_str_putc(onig->out, ':');
}

static zt_status open_group(zt_onig *onig)
{
    static const char *const plain[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?<", "(?'"};
    if (zt_onig_more(onig, "(?#")) {
        const char *end = memchr(onig->cursor, ')', (size_t)(onig->end - onig->cursor));
        onig->cursor = end ? end + 1 : onig->end;
        return end ? ZT_OK : zt_onig_fail(onig, ZT_EDATA, "a comment without its end");
    }
    if (onig->depth == ZT_ONIG_DEPTH - 1)
        return zt_onig_fail(onig, ZT_ENOTSUP, "groups nested so deep");
    onig->group[onig->depth++] = (zt_onig_group){onig->out->len, 0};
    onig->atom = NONE;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (zt_onig_more(onig, plain[i])) {
            onig->cursor += strlen(plain[i]);
            zt_status status = zt_str_puts(onig->out, plain[i]);
            return !status && i >= 6 ? copy_name(onig) : status;
        }
    if (zt_onig_more(onig, "(?")) {
        onig->cursor += 2;
        return translate_options(onig);
    }
    if (zt_onig_more(onig, "(*"))
        return zt_onig_fail(onig, ZT_ENOTSUP, "callouts");
    onig->cursor++;
    return zt_str_putc(onig->out, '(');
}

static zt_status close_group(zt_onig *onig)
{
    if (!onig->depth)
        return zt_onig_fail(onig, ZT_EDATA, "a ) too many");
    zt_onig_group *group = &onig->group[--onig->depth];
    zt_status status = ZT_OK;
    for (int i = 0; !status && i <= group->closers; i++)
        status = zt_str_putc(onig->out, ')');
    onig->atom = (ptrdiff_t)group->offset;
    onig->cursor++;
    return status;
}

/* "(?:" before the last atom and ")" after it. */
static zt_status wrap_atom(zt_onig *onig)
{
    zt_status status = zt_str_puts(onig->out, "(?:)");
    if (status)
        return status;
    char *atom = onig->out->data + onig->atom;
    memmove(atom + 3, atom, onig->out->len - 4 - (size_t)onig->atom);
    memcpy(atom, "(?:", 3);
    onig->out->data[onig->out->len - 1] = ')';
    return ZT_OK;
}

/* {bounds}, {bounds,}, {,m}, {bounds,m}; else a brace is a brace. */
static zt_status translate_interval(zt_onig *onig)
{
    const char *cursor = onig->cursor + 1;
    long bounds[2] = {0, -1};
    int given = 0;
    bool comma = false;
    for (; cursor < onig->end && ((*cursor >= '0' && *cursor <= '9') || (*cursor == ',' && !comma)); cursor++) {
        if (*cursor == ',') {
            comma = true;
            continue;
        }
        long *bound = &bounds[comma];
        *bound = (*bound < 0 ? 0 : *bound) * 10 + (*cursor - '0');
        given |= 1 << comma;
        if (*bound > 100000)
            return zt_onig_fail(onig, ZT_EDATA, "so many repetitions");
    }
    if (!given || cursor == onig->end || *cursor != '}' || onig->atom == NONE) {
        onig->cursor++;
        mark_atom(onig);
        return zt_str_puts(onig->out, "\\{");
    }
    if (comma && bounds[1] >= 0 && bounds[1] < bounds[0])
        return zt_onig_fail(onig, ZT_ENOTSUP, "a repetition that is out of order");
    onig->cursor = cursor + 1;
    zt_status status = !comma          ? zt_str_printf(onig->out, "{%ld}", bounds[0])
                       : bounds[1] < 0 ? zt_str_printf(onig->out, "{%ld,}", bounds[0])
                                       : zt_str_printf(onig->out, "{%ld,%ld}", bounds[0], bounds[1]);
    bool nested = onig->cursor < onig->end && (*onig->cursor == '+' || (*onig->cursor == '?' && !comma));
    return !status && nested ? wrap_atom(onig) : status;
}

static zt_status translate_one(zt_onig *onig)
{
    uint32_t codepoint;
    zt_status status;
    switch (*onig->cursor) {
    case '\\':
        return translate_escape(onig);
    case '[':
        onig->cursor++;
        mark_atom(onig);
        return zt_onig_class(onig, onig->out, 0);
    case '(':
        return open_group(onig);
    case ')':
        return close_group(onig);
    case '{':
        return translate_interval(onig);
    case '.':
        mark_atom(onig);
        return zt_str_putc(onig->out, *onig->cursor++);
    case '|':
    case '^':
    case '$':
        onig->atom = NONE;
        return zt_str_putc(onig->out, *onig->cursor++);
    case '*':
    case '+':
    case '?':
        return zt_str_putc(onig->out, *onig->cursor++);
    default:
        mark_atom(onig);
        status = zt_onig_char(onig, false, &codepoint);
        return status ? status : zt_onig_put_char(onig->out, codepoint);
    }
}

zt_status zt_onig_to_pcre2(zt_ctx *ctx, const char *file, const char *where, zt_bytes regex,
                           zt_str *out)
{
    zt_onig onig = {.ctx = ctx,
                    .file = file,
                    .where = where,
                    .whole = regex,
                    .cursor = regex.data,
                    .end = regex.data + regex.n,
                    .out = out,
                    .atom = NONE};
    zt_status status = zt_str_puts(out, "");
    while (!status && onig.cursor < onig.end)
        status = translate_one(&onig);
    if (!status && onig.depth)
        status = zt_onig_fail(&onig, ZT_EDATA, "a ( without its )");
    for (int i = 0; !status && i < onig.group[ZT_ONIG_DEPTH - 1].closers; i++)
        status = zt_str_putc(out, ')');
    return status;
}
