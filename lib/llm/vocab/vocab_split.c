/* vocab_split.c - cuts text into pieces by regular expressions, as pre-tokenizers do.
 *
 * Each rule cuts what the one before left: its matches, and what is between them. Text may be any
 * bytes: PCRE2 sees only the stretches that are UTF-8, what lies between them is a piece by itself.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/llm/vocab/vocab.h"

#include <pcre2.h>
#include <string.h>

/* Unicode's White_Space, which is what \s means to those who wrote these patterns; PCRE2's \s has
 * U+180E besides. Within brackets; then all that is not in it. */
#define SPACE                                                                                      \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define OTHER                                                                                      \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"      \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"



typedef struct cutter {
    pcre2_code *code;
    zt_split_how how;
} cutter;

struct zt_split {
    zt_ctx *ctx;
    const char *file;
    pcre2_general_context *memory;
    pcre2_compile_context *compile;
    cutter rule[ZT_PRE_RULES];
    int n;
};

/* ---- compiling ------------------------------------------------------------------------------- */

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

/* What p begins with: bytes of it, and what to write instead (NULL: the same). *in: in a class. */
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
    *in = *p == '[' || (*in && *p != ']');
    return 1;
}

static zt_status translate(const char *pattern, zt_str *out)
{
    bool in = false;
    zt_status s = zt_str_puts(out, "");
    for (const char *p = pattern; !s && *p;) {
        const char *instead;
        size_t n = pattern_item(p, &in, &instead);
        s = instead ? zt_str_puts(out, instead) : zt_str_put(out, p, n);
        p += n;
    }
    return s;
}

/* Without JIT (a kernel that forbids it) PCRE2 interprets: slower, the same pieces. It says "no
 * memory" for that too: it was ours that lacked only when the context knows. */
static zt_status compile(zt_split *s, const zt_split_rule *r, const zt_str *text)
{
    int code;
    PCRE2_SIZE at;
    pcre2_code *c = pcre2_compile((PCRE2_SPTR)text->data, text->len, PCRE2_UTF | PCRE2_UCP, &code,
                                  &at, s->compile);
    if (!c)
        return zt_fail(s->ctx, ZT_EBUG, "pre-tokenizer: PCRE2 error %d at %zu of '%s'", code, at,
                       text->data);
    s->rule[s->n++] = (cutter){c, r->how};
    int rc = pcre2_jit_compile(c, PCRE2_JIT_COMPLETE);
    return rc == PCRE2_ERROR_NOMEMORY && zt_ctx_status(s->ctx) ? ZT_ENOMEM : ZT_OK;
}

static zt_status split_add(zt_split *s, const zt_split_rule *r)
{
    zt_str text;
    zt_str_init(&text, s->ctx);
    zt_status st = translate(r->pattern, &text);
    if (!st)
        st = compile(s, r, &text);
    zt_str_fini(&text);
    return st;
}

zt_split *zt_split_new(zt_ctx *ctx, const char *file, const zt_split_rule *rule, int n)
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
    for (int i = 0; i < n && i < ZT_PRE_RULES; i++)
        if (split_add(s, &rule[i]))
            goto fail;
    return s;
fail:
    zt_split_free(s);
    return NULL;
}

/* ---- cutting --------------------------------------------------------------------------------- */

typedef struct job { /* one call of zt_split_run */
    const zt_split *s;
    zt_split_fn *fn;
    void *arg;
    pcre2_match_data *match;
    pcre2_match_context *limits;
} job;

static zt_status cut(const job *j, int rule, const char *text, size_t n);

static bool starts_char(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* Bytes of the first n characters of text (valid UTF-8). */
static size_t bytes_of(const char *text, size_t bytes, size_t n)
{
    size_t i = 0;
    for (; i < bytes; i++)
        if (starts_char(text[i]) && n-- == 0)
            break;
    return i;
}

static zt_status threes(const job *j, int rule, const char *text, size_t n)
{
    size_t chars = 0;
    zt_status s = ZT_OK;
    for (size_t i = 0; i < n; i++)
        chars += starts_char(text[i]);
    for (size_t at = 0, want = chars % 3 ? chars % 3 : 3; !s && at < n; want = 3) {
        size_t len = bytes_of(text + at, n - at, want);
        s = cut(j, rule, text + at, len);
        at += len;
    }
    return s;
}

/* 1: found, 0: none, -1: failed. What JIT's small stack is too small for is interpreted. */
static int find(const job *j, int rule, const char *text, size_t n, size_t at, size_t *from,
                size_t *to)
{
    const pcre2_code *code = j->s->rule[rule].code;
    int rc = pcre2_match(code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, j->match, j->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, j->match,
                         j->limits);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc >= 0) {
        const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(j->match);
        *from = ov[0];
        *to = ov[1];
        return 1;
    }
    zt_fail(j->s->ctx, rc == PCRE2_ERROR_NOMEMORY ? ZT_ENOMEM : ZT_EDATA,
            "%s: pre-tokenizer: PCRE2 error %d of pattern %d at byte %zu of %zu", j->s->file, rc,
            rule + 1, at, n);
    return -1;
}

/* Text (valid UTF-8) cut by rule number `rule` and those after it. No pattern matches nothing. */
static zt_status cut(const job *j, int rule, const char *text, size_t n)
{
    size_t at = 0, from, to; /* all before at is done */
    zt_status s = ZT_OK;
    if (!n || rule == j->s->n)
        return n ? j->fn(j->arg, text, n) : ZT_OK;
    while (!s && at < n) {
        int found = find(j, rule, text, n, at, &from, &to);
        if (found < 0)
            return zt_ctx_status(j->s->ctx);
        if (!found)
            break;
        s = cut(j, rule + 1, text + at, from - at);
        if (!s)
            s = j->s->rule[rule].how == ZT_SPLIT_THREES ? threes(j, rule + 1, text + from, to - from)
                                                        : cut(j, rule + 1, text + from, to - from);
        at = to;
    }
    return s ? s : cut(j, rule + 1, text + at, n - at);
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
