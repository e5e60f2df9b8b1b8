/* vocab_regex.c - patterns of tokenizer.json: literal texts, and regular expressions as Oniguruma
 * (Ruby's syntax) understands them, run by PCRE2.
 *
 * vocab_onig.c writes the expression anew for PCRE2. Matching is bounded in steps and memory; an
 * expression that exceeds them is bad data, never wrong ids. Empty matches count, save right after
 * another match: so does the library's Oniguruma.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/llm/vocab/vocab_onig.h"

#include <pcre2.h>
#include <string.h>

enum { MOST_STEPS = 10000000, MOST_HEAP_KIB = 64 << 10, JIT_STACK = 128 << 20 };
enum { MOST_PATTERN = 1 << 16 }; /* bytes */

struct zt_pattern {
    zt_ctx *ctx;
    const char *file;
    zt_bytes literal; /* n 0: a regular expression */
    pcre2_general_context *memory;
    pcre2_code *code;
};

/* ---- reading --------------------------------------------------------------------------------- */

static void *pcre_alloc(size_t n, void *ctx)
{
    return zt_alloc(ctx, n);
}

static void pcre_free(void *p, void *ctx)
{
    zt_free(ctx, p);
}

/* A regular expression that PCRE2 does not take is one that we cannot do. */
static zt_status compile(zt_tj_reader *r, zt_pattern *p, const zt_str *regex, zt_bytes shown)
{
    int code;
    PCRE2_SIZE at;
    PCRE2_UCHAR why[120];
    char buf[160];
    pcre2_compile_context *cc = pcre2_compile_context_create(p->memory);
    if (!cc)
        return ZT_ENOMEM;
    pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
    p->code = pcre2_compile((PCRE2_SPTR)regex->data, regex->len,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                            &code, &at, cc);
    pcre2_compile_context_free(cc);
    if (p->code) { /* without JIT PCRE2 interprets: slower, the same matches */
        int rc = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
        return rc == PCRE2_ERROR_NOMEMORY && zt_ctx_status(r->ctx) ? ZT_ENOMEM : ZT_OK;
    }
    if (code == PCRE2_ERROR_HEAP_FAILED)
        return ZT_ENOMEM;
    pcre2_get_error_message(code, why, sizeof why);
    return zt_fail(r->ctx, ZT_ENOTSUP, "%s: %s: regular expression '%s': %s", r->file, r->where,
                   zt_escape(buf, sizeof buf, shown.data, shown.n), (const char *)why);
}

static zt_status read_regex(zt_tj_reader *r, zt_pattern *p, zt_bytes text)
{
    zt_str regex;
    zt_str_init(&regex, r->ctx);
    p->memory = pcre2_general_context_create(pcre_alloc, pcre_free, r->ctx);
    zt_status s = p->memory ? ZT_OK : ZT_ENOMEM;
    if (!s && text.n > MOST_PATTERN)
        s = zt_fail(r->ctx, ZT_ENOTSUP, "%s: %s: a regular expression of %zu bytes, at most %d are "
                    "supported", r->file, r->where, text.n, MOST_PATTERN);
    if (!s)
        s = zt_onig_to_pcre2(r->ctx, r->file, r->where, text, &regex);
    if (!s)
        s = compile(r, p, &regex, text);
    zt_str_fini(&regex);
    return s;
}

zt_status zt_pattern_read(zt_tj_reader *r, const json_t *o, const char *name, zt_pattern **out)
{
    const json_t *j = json_object_get(o, name);
    zt_bytes literal = {NULL, 0}, regex = {NULL, 0};
    zt_status s = zt_tj_need(r, o, name);
    if (!s && (!json_is_object(j) || json_object_size(j) != 1))
        s = zt_fail(r->ctx, ZT_EDATA, "%s: %s: '%s' is neither a String nor a Regex", r->file,
                    r->where, name);
    if (!s)
        s = zt_tj_text(r, j, "String", &literal);
    if (!s)
        s = zt_tj_text(r, j, "Regex", &regex);
    if (!s && !literal.data && !regex.data)
        s = zt_tj_need(r, j, "String");
    zt_pattern *p = s ? NULL : zt_calloc(r->ctx, 1, sizeof *p);
    if (!p)
        return s ? s : ZT_ENOMEM;
    *out = p; /* freed with the step that it belongs to */
    p->ctx = r->ctx;
    p->file = r->file;
    p->literal = literal;
    return literal.n ? ZT_OK : read_regex(r, p, literal.data ? literal : regex);
}

void zt_pattern_free(zt_pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    pcre2_general_context_free(p->memory);
    zt_free(p->ctx, p);
}

/* ---- matching -------------------------------------------------------------------------------- */

static zt_status prepare(zt_tj_work *w)
{
    if (w->match)
        return ZT_OK;
    w->memory = pcre2_general_context_create(pcre_alloc, pcre_free, w->t->ctx);
    w->context = w->memory ? pcre2_match_context_create(w->memory) : NULL;
    w->match = w->context ? pcre2_match_data_create(1, w->memory) : NULL;
    if (!w->match)
        return ZT_ENOMEM;
    pcre2_set_match_limit(w->context, MOST_STEPS);
    pcre2_set_heap_limit(w->context, MOST_HEAP_KIB);
    return ZT_OK;
}

void zt_pattern_work_fini(zt_tj_work *w)
{
    pcre2_match_data_free(w->match);
    pcre2_jit_stack_free(w->stack);
    pcre2_match_context_free(w->context);
    pcre2_general_context_free(w->memory);
}

/* A repeated group over a long text asks for much; the system gives it page by page. */
static bool grow_stack(zt_tj_work *w)
{
    if (w->stack)
        return false;
    w->stack = pcre2_jit_stack_create(32 << 10, JIT_STACK, w->memory);
    if (w->stack)
        pcre2_jit_stack_assign(w->context, NULL, w->stack);
    return w->stack;
}

static int match(const zt_finder *f, uint32_t how)
{
    return pcre2_match(f->p->code, (PCRE2_SPTR)f->text, f->n, f->at, PCRE2_NO_UTF_CHECK | how,
                       f->work->match, f->work->context);
}

static zt_status find_regex(zt_finder *f, bool *found, size_t *from, size_t *to)
{
    zt_status s = prepare(f->work);
    if (s)
        return s;
    int rc = match(f, 0);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && grow_stack(f->work))
        rc = match(f, 0);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter has the heap */
        rc = match(f, PCRE2_NO_JIT);
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH)
        return ZT_OK;
    if (rc < 0)
        return zt_fail(f->p->ctx, ZT_EDATA,
                       "%s: a regular expression takes more than %d steps or %d KiB at byte %zu "
                       "of %zu (PCRE2 error %d)",
                       f->p->file, MOST_STEPS, MOST_HEAP_KIB, f->at, f->n, rc);
    const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(f->work->match);
    *from = ov[0];
    *to = ov[1];
    if (*from > *to) /* \K in a look-ahead can do that */
        return zt_fail(f->p->ctx, ZT_EDATA, "%s: a match that ends before it begins", f->p->file);
    return ZT_OK;
}

static bool find_literal(const zt_finder *f, size_t *from, size_t *to)
{
    zt_bytes lit = f->p->literal;
    const char *p = memmem(f->text + f->at, f->n - f->at, lit.data, lit.n);
    if (!p)
        return false;
    *from = (size_t)(p - f->text);
    *to = *from + lit.n;
    return true;
}

zt_status zt_finder_next(zt_finder *f, bool *found, size_t *from, size_t *to)
{
    while (f->at <= f->n) {
        zt_status s = ZT_OK;
        if (f->p->literal.n)
            *found = find_literal(f, from, to);
        else
            s = find_regex(f, found, from, to);
        if (s || !*found)
            return s;
        if (*from != *to || !f->any || f->last != *to) {
            f->any = true;
            f->at = f->last = *to;
            return ZT_OK;
        }
        if (f->at < f->n)
            zt_char_next(f->text, f->n, &f->at);
        else
            f->at++;
    }
    *found = false;
    return ZT_OK;
}
