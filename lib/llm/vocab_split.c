/* vocab_split.c - cuts text into pieces by regular expressions, as pre-tokenizers do.
 *
 * Each rule cuts what the one before left, and says what becomes of its matches. Text may be any
 * bytes: PCRE2 sees only the stretches that are UTF-8, and what lies between them is a piece by itself.
 * Names and meanings of the behaviours: tokenizer.json (huggingface/tokenizers, normalizer.rs), as facts.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/llm/vocab.h"

#include <pcre2.h>
#include <string.h>

/* Unicode's White_Space, which is what \s means to those who wrote these patterns; PCRE2's \s has
 * U+180E besides. Within brackets; then all that is not in it. */
#define SPACE                                                                                      \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define OTHER                                                                                      \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"      \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"

enum { MAX_RULES = 32 };

typedef struct cutter {
    pcre2_code *code;
    zt_split_how how;
    bool invert;
} cutter;

struct zt_split {
    zt_ctx *ctx;
    const char *file;
    pcre2_general_context *memory;
    pcre2_compile_context *compile;
    cutter rule[MAX_RULES];
    int n;
};

/* ---- compiling ------------------------------------------------------------------------------------ */

static void *pcre_alloc(size_t n, void *ctx)
{
    return zt_alloc(ctx, n);
}

static void pcre_free(void *p, void *ctx)
{
    zt_free(ctx, p);
}

void zt_split_free(zt_split *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n; i++)
        pcre2_code_free(s->rule[i].code);
    pcre2_compile_context_free(s->compile);
    pcre2_general_context_free(s->memory);
    zt_free(s->ctx, s);
}

/* What p begins with, where a class is open or not: bytes of it, and what to write instead (NULL: the
 * same). *in is told whether a class is open after it. 0: a class in a class, which PCRE2 lacks. */
static size_t pattern_item(const char *p, bool *in, const char **out)
{
    *out = NULL;
    if (*p == '\\' && p[1]) {
        if (p[1] == 's')
            *out = *in ? SPACE : "[" SPACE "]";
        else if (p[1] == 'S')
            *out = *in ? OTHER : "[^" SPACE "]";
        return 2;
    }
    if (!*in && *p == '[') {
        *in = true;
        size_t n = p[1] == '^' ? 2 : 1;
        return n + (p[n] == ']'); /* first of all it is itself */
    }
    if (*in && p[0] == '[' && p[1] == ':') {
        const char *end = strstr(p, ":]");
        return end ? (size_t)(end - p) + 2 : 1;
    }
    if (*in && (*p == '[' || (p[0] == '&' && p[1] == '&')))
        return 0;
    if (*in && *p == ']')
        *in = false;
    return 1;
}

static zt_status translate(const zt_split *s, const char *pattern, zt_str *out)
{
    bool in = false;
    zt_status st = ZT_OK;
    char buf[120];
    for (const char *p = pattern; !st && *p;) {
        const char *instead;
        size_t n = pattern_item(p, &in, &instead);
        if (!n)
            return zt_fail(s->ctx, ZT_ENOTSUP, "%s: pre-tokenizer: a class within a class in '%s'",
                           s->file, zt_escape(buf, sizeof buf, pattern, strlen(pattern)));
        st = instead ? zt_str_puts(out, instead) : zt_str_put(out, p, n);
        p += n;
    }
    return st;
}

/* Without JIT (a kernel that forbids it) PCRE2 interprets: slower, the same pieces. It says "no
 * memory" for that too: it was ours that lacked only when the context knows. */
static zt_status compile(zt_split *s, const zt_split_rule *r, const zt_str *text, bool from_file)
{
    int code;
    PCRE2_SIZE at;
    char buf[120];
    pcre2_code *c = pcre2_compile((PCRE2_SPTR)text->data, text->len,
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at,
                                  s->compile);
    if (!c)
        return zt_ctx_status(s->ctx) == ZT_ENOMEM
                   ? ZT_ENOMEM
                   : zt_fail(s->ctx, from_file ? ZT_EDATA : ZT_EBUG,
                             "%s: pre-tokenizer: PCRE2 error %d in '%s'", s->file, code,
                             zt_escape(buf, sizeof buf, r->pattern, strlen(r->pattern)));
    s->rule[s->n++] = (cutter){c, r->how, r->invert};
    int rc = pcre2_jit_compile(c, PCRE2_JIT_COMPLETE);
    return rc == PCRE2_ERROR_NOMEMORY && zt_ctx_status(s->ctx) ? ZT_ENOMEM : ZT_OK;
}

static zt_status split_add(zt_split *s, const zt_split_rule *r, bool from_file)
{
    zt_str text;
    zt_str_init(&text, s->ctx);
    zt_status st = zt_str_puts(&text, "");
    if (!st)
        st = translate(s, r->pattern, &text);
    if (!st)
        st = compile(s, r, &text, from_file);
    zt_str_fini(&text);
    return st;
}

zt_split *zt_split_new(zt_ctx *ctx, const char *file, const zt_split_rule *rule, int n, bool from_file)
{
    zt_split *s = zt_calloc(ctx, 1, sizeof *s);
    if (!s)
        return NULL;
    s->ctx = ctx;
    s->file = file;
    s->memory = pcre2_general_context_create(pcre_alloc, pcre_free, ctx);
    s->compile = s->memory ? pcre2_compile_context_create(s->memory) : NULL;
    if (!s->compile)
        goto fail;
    if (n > MAX_RULES) {
        zt_fail(ctx, ZT_ENOTSUP, "%s: %d pre-tokenizers in a row, at most %d", file, n, MAX_RULES);
        goto fail;
    }
    for (int i = 0; i < n; i++)
        if (split_add(s, &rule[i], from_file))
            goto fail;
    return s;
fail:
    zt_split_free(s);
    return NULL;
}

/* ---- cutting -------------------------------------------------------------------------------------- */

typedef struct job { /* one call of zt_split_run */
    const zt_split *s;
    zt_split_fn *fn;
    void *arg;
    pcre2_match_data *match;
    pcre2_match_context *limits;
} job;

typedef struct level { /* one rule at work on one piece of the level before */
    const job *j;
    int rule;
    const char *text;
    size_t from, to; /* held back: not yet known where it ends */
    bool held, held_match;
} level;

static zt_status cut(const job *j, int rule, const char *text, size_t n);

static zt_status flush(level *l)
{
    bool held = l->held;
    l->held = false;
    return held ? cut(l->j, l->rule + 1, l->text + l->from, l->to - l->from) : ZT_OK;
}

/* Where the first of the threes ends in text of n bytes. */
static size_t first_three(const char *text, size_t n)
{
    size_t chars = 0, i = 0;
    for (size_t k = 0; k < n; k++)
        chars += ((unsigned char)text[k] & 0xc0) != 0x80;
    for (size_t want = chars % 3 ? chars % 3 : 3; i < n; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80 && want-- == 0)
            break;
    return i;
}

static zt_status threes(const level *l, size_t from, size_t to)
{
    zt_status s = ZT_OK;
    size_t end = from + first_three(l->text + from, to - from);
    while (!s && from < to) {
        s = cut(l->j, l->rule + 1, l->text + from, end - from);
        from = end;
        for (int c = 0; end < to; end++)
            if (((unsigned char)l->text[end] & 0xc0) != 0x80 && c++ == 3)
                break;
    }
    return s;
}

/* May this segment grow the one that is held back? */
static bool joins(zt_split_how how, const level *l, bool match)
{
    if (!l->held)
        return false;
    return how == ZT_SPLIT_WITH_PREVIOUS ? match && !l->held_match
           : how == ZT_SPLIT_WITH_NEXT   ? !match && l->held_match
           : how == ZT_SPLIT_CONTIGUOUS  ? match == l->held_match
                                         : false;
}

/* Segments, matches and what lies between, come in order; together they are the whole text. */
static zt_status segment(level *l, size_t from, size_t to, bool found)
{
    const cutter *r = &l->j->s->rule[l->rule];
    bool match = found != r->invert;
    if (from == to)
        return ZT_OK;
    if (r->how == ZT_SPLIT_ISOLATED)
        return cut(l->j, l->rule + 1, l->text + from, to - from);
    if (r->how == ZT_SPLIT_REMOVED)
        return match ? ZT_OK : cut(l->j, l->rule + 1, l->text + from, to - from);
    if (r->how == ZT_SPLIT_THREES)
        return match ? threes(l, from, to) : cut(l->j, l->rule + 1, l->text + from, to - from);
    zt_status s = ZT_OK;
    if (joins(r->how, l, match)) {
        l->to = to;
        l->held_match = match;
        return s;
    }
    s = flush(l);
    l->from = from;
    l->to = to;
    l->held = true;
    l->held_match = match;
    return s;
}

/* 1: found, 0: none, -1: failed. What JIT's small stack is too small for is interpreted. */
static int find(const level *l, size_t n, size_t at, size_t *from, size_t *to)
{
    const job *j = l->j;
    const pcre2_code *code = j->s->rule[l->rule].code;
    int rc = pcre2_match(code, (PCRE2_SPTR)l->text, n, at, PCRE2_NO_UTF_CHECK, j->match, j->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, (PCRE2_SPTR)l->text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         j->match, j->limits);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(j->match);
    *from = rc < 0 ? 0 : ov[0];
    *to = rc < 0 ? 0 : ov[1];
    if (rc >= 0 && *from >= at && *to >= *from)
        return 1;
    bool memory = rc == PCRE2_ERROR_NOMEMORY;
    zt_fail(j->s->ctx, memory ? ZT_ENOMEM : ZT_EDATA,
            "%s: pre-tokenizer: pattern %d, PCRE2 error %d at byte %zu of %zu", j->s->file, l->rule + 1,
            rc, at, n);
    return -1;
}

/* An empty match only cuts, and not where a match has just ended. */
static zt_status cut_by(level *l, size_t n)
{
    size_t done = 0, last = SIZE_MAX, from, to;
    zt_status s = ZT_OK;
    for (size_t at = 0; !s && at < n;) {
        int found = find(l, n, at, &from, &to);
        if (found < 0)
            return zt_ctx_status(l->j->s->ctx);
        if (!found)
            break;
        at = to;
        if (from == to) {
            for (at++; at < n && ((unsigned char)l->text[at] & 0xc0) == 0x80;)
                at++;
            if (from == last)
                continue;
        }
        s = segment(l, done, from, false);
        if (!s)
            s = segment(l, from, to, true);
        done = last = to;
    }
    if (!s)
        s = segment(l, done, n, false);
    return s ? s : flush(l);
}

/* Text (valid UTF-8) cut by rule number `rule` and those after it. */
static zt_status cut(const job *j, int rule, const char *text, size_t n)
{
    level l = {.j = j, .rule = rule, .text = text};
    return rule < j->s->n ? cut_by(&l, n) : n ? j->fn(j->arg, text, n) : ZT_OK;
}

/* Bytes at the start of text that are all UTF-8 (valid), or all not. */
static size_t stretch(const char *text, size_t n, bool valid)
{
    size_t i = 0;
    uint32_t cp;
    while (i < n) {
        int len = (unsigned char)text[i] < 0x80 ? 1 : zt_utf8_decode(text + i, n - i, &cp);
        if ((len > 0) != valid)
            break;
        i += len ? (size_t)len : 1;
    }
    return i;
}

/* Steps that PCRE2 may take for one match: an honest pattern needs a few for each byte. */
static uint32_t step_limit(size_t n)
{
    return n > UINT32_MAX / 64 ? UINT32_MAX : (uint32_t)(100000 + 32 * n);
}

zt_status zt_split_run(const zt_split *s, const char *text, size_t n, zt_split_fn *fn, void *arg)
{
    job j = {s, fn, arg, pcre2_match_data_create(1, s->memory),
             pcre2_match_context_create(s->memory)};
    zt_status st = j.match && j.limits ? ZT_OK : ZT_ENOMEM;
    if (!st)
        pcre2_set_match_limit(j.limits, step_limit(n));
    for (size_t at = 0; !st && at < n;) {
        size_t good = stretch(text + at, n - at, true);
        st = good ? cut(&j, 0, text + at, good) : ZT_OK;
        at += good;
        size_t bad = stretch(text + at, n - at, false);
        if (!st && bad)
            st = fn(arg, text + at, bad);
        at += bad;
    }
    pcre2_match_context_free(j.limits);
    pcre2_match_data_free(j.match);
    return st;
}
