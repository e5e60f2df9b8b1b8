/* vocab_json_pattern.c - patterns of tokenizer.json: literal texts, and regular expressions as Oniguruma
 * (Ruby's syntax) understands them, run by PCRE2.
 *
 * vocab_onig.c translates the expression for PCRE2. Matching is bounded in steps and memory; an expression that exceeds
 * them is bad data, never wrong ids. Empty matches count except right after another match, as in the library's Oniguruma.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/base/pcre.h"
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

/* A regular expression that PCRE2 does not take is one that we cannot do. */
static zt_status compile_pattern(zt_tj_reader *reader, zt_pattern *pattern, const zt_str *regex, zt_bytes shown)
{
    int error_code;
    PCRE2_SIZE error_offset;
    PCRE2_UCHAR reason[120];
    char escaped[160];
    pcre2_compile_context *compile_context = pcre2_compile_context_create(pattern->memory);
    if (!compile_context) return ZT_ENOMEM;
    pcre2_set_newline(compile_context, PCRE2_NEWLINE_LF);
    pattern->code =
        pcre2_compile((PCRE2_SPTR)regex->data, regex->len, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                      &error_code, &error_offset, compile_context);
    pcre2_compile_context_free(compile_context);
    if (pattern->code) { /* without JIT PCRE2 interprets: slower, the same matches */
        int result = pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);
        return result == PCRE2_ERROR_NOMEMORY && zt_ctx_status(reader->ctx) ? ZT_ENOMEM : ZT_OK;
    }
    if (error_code == PCRE2_ERROR_HEAP_FAILED) return ZT_ENOMEM;
    pcre2_get_error_message(error_code, reason, sizeof reason);
    return zt_fail(reader->ctx, ZT_ENOTSUP, "%s: %s: regular expression '%s': %s", reader->file, reader->where,
                   zt_escape(escaped, sizeof escaped, shown.data, shown.n), (const char *)reason);
}

static zt_status read_regex(zt_tj_reader *reader, zt_pattern *pattern, zt_bytes text)
{
    zt_str regex;
    zt_str_init(&regex, reader->ctx);
    pattern->memory = pcre2_general_context_create(zt_pcre_alloc, zt_pcre_free, reader->ctx);
    zt_status status = pattern->memory ? ZT_OK : ZT_ENOMEM;
    if (!status && text.n > MOST_PATTERN)
        status = zt_fail(reader->ctx, ZT_ENOTSUP, "%s: %s: regular expression of %zu bytes, the limit is %d", reader->file,
                         reader->where, text.n, MOST_PATTERN);
    if (!status) status = zt_onig_to_pcre2(reader->ctx, reader->file, reader->where, text, &regex);
    if (!status) status = compile_pattern(reader, pattern, &regex, text);
    zt_str_fini(&regex);
    return status;
}

zt_status zt_pattern_read(zt_tj_reader *reader, const json_t *object, const char *name, zt_pattern **out)
{
    const json_t *value = json_object_get(object, name);
    zt_bytes literal = {NULL, 0}, regex = {NULL, 0};
    zt_status status = zt_tj_need(reader, object, name);
    if (!status && (!json_is_object(value) || json_object_size(value) != 1))
        status =
            zt_fail(reader->ctx, ZT_EDATA, "%s: %s: '%s' is neither a String nor a Regex", reader->file, reader->where, name);
    if (!status) status = zt_tj_text(reader, value, "String", &literal);
    if (!status) status = zt_tj_text(reader, value, "Regex", &regex);
    if (!status && !literal.data && !regex.data) status = zt_tj_need(reader, value, "String");
    zt_pattern *pattern = status ? NULL : zt_calloc(reader->ctx, 1, sizeof *pattern);
    if (!pattern) return status ? status : ZT_ENOMEM;
    *out = pattern; /* freed with the step that it belongs to */
    pattern->ctx = reader->ctx;
    pattern->file = reader->file;
    pattern->literal = literal;
    return literal.n ? ZT_OK : read_regex(reader, pattern, literal.data ? literal : regex);
}

void zt_pattern_free(zt_pattern *pattern)
{
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    pcre2_general_context_free(pattern->memory);
    zt_free(pattern->ctx, pattern);
}

/* ---- matching -------------------------------------------------------------------------------- */

static zt_status prepare_match(zt_tj_work *work)
{
    if (work->match) return ZT_OK;
    work->memory = pcre2_general_context_create(zt_pcre_alloc, zt_pcre_free, work->tokenizer->ctx);
    work->context = work->memory ? pcre2_match_context_create(work->memory) : NULL;
    work->match = work->context ? pcre2_match_data_create(1, work->memory) : NULL;
    if (!work->match) return ZT_ENOMEM;
    pcre2_set_match_limit(work->context, MOST_STEPS);
    pcre2_set_heap_limit(work->context, MOST_HEAP_KIB);
    return ZT_OK;
}

void zt_pattern_work_fini(zt_tj_work *work)
{
    pcre2_match_data_free(work->match);
    pcre2_jit_stack_free(work->stack);
    pcre2_match_context_free(work->context);
    pcre2_general_context_free(work->memory);
}

/* A repeated group over a long text asks for much; the system gives it page by page. */
static bool grow_stack(zt_tj_work *work)
{
    if (work->stack) return false;
    work->stack = pcre2_jit_stack_create(32 << 10, JIT_STACK, work->memory);
    if (work->stack) pcre2_jit_stack_assign(work->context, NULL, work->stack);
    return work->stack;
}

static int run_match(const zt_finder *finder, uint32_t options)
{
    return pcre2_match(finder->pattern->code, (PCRE2_SPTR)finder->text, finder->size, finder->position,
                       PCRE2_NO_UTF_CHECK | options, finder->work->match, finder->work->context);
}

static zt_status find_regex(zt_finder *finder, bool *found, size_t *from, size_t *to)
{
    zt_status status = prepare_match(finder->work);
    if (status) return status;
    int result = run_match(finder, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && grow_stack(finder->work)) result = run_match(finder, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter has the heap */
        result = run_match(finder, PCRE2_NO_JIT);
    *found = result >= 0;
    if (result == PCRE2_ERROR_NOMATCH) return ZT_OK;
    if (result < 0)
        return zt_fail(finder->pattern->ctx, ZT_EDATA,
                       "%s: a regular expression takes more than %d steps or %d KiB at byte %zu "
                       "of %zu (PCRE2 error %d)",
                       finder->pattern->file, MOST_STEPS, MOST_HEAP_KIB, finder->position, finder->size, result);
    const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(finder->work->match);
    *from = offsets[0];
    *to = offsets[1];
    if (*from > *to) /* \K in a look-ahead can do that */
        return zt_fail(finder->pattern->ctx, ZT_EDATA, "%s: a regular expression match ends before it begins",
                       finder->pattern->file);
    return ZT_OK;
}

static bool find_literal(const zt_finder *finder, size_t *from, size_t *to)
{
    zt_bytes literal = finder->pattern->literal;
    const char *found = memmem(finder->text + finder->position, finder->size - finder->position, literal.data, literal.n);
    if (!found) return false;
    *from = (size_t)(found - finder->text);
    *to = *from + literal.n;
    return true;
}

zt_status zt_finder_next(zt_finder *finder, bool *found, size_t *from, size_t *to)
{
    while (finder->position <= finder->size) {
        zt_status status = ZT_OK;
        if (finder->pattern->literal.n)
            *found = find_literal(finder, from, to);
        else
            status = find_regex(finder, found, from, to);
        if (status || !*found) return status;
        if (*from != *to || !finder->any || finder->last != *to) {
            finder->any = true;
            finder->position = finder->last = *to;
            return ZT_OK;
        }
        if (finder->position < finder->size)
            zt_char_next(finder->text, finder->size, &finder->position);
        else
            finder->position++;
    }
    *found = false;
    return ZT_OK;
}
