/* vocab_split.c - cuts text into pieces by regular expressions, as pre-tokenizers do.
 *
 * Each rule cuts what the one before left: its matches, and what is between them. Text may be any
 * bytes: PCRE2 sees only the stretches that are UTF-8, what lies between them is a piece by itself.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/base/pcre.h"
#include "lib/llm/vocab/vocab.h"

#include <pcre2.h>
#include <string.h>

/* Unicode's White_Space, which is what \s means to those who wrote these patterns; PCRE2's \s has
 * U+180E besides. Within brackets; then all that is not in it. */
#define SPACE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define OTHER                                                                                                                    \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"                                    \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"

typedef struct cutter {
    pcre2_code *code;
    zt_split_how behavior;
} cutter;

struct zt_split {
    zt_ctx *ctx;
    const char *file;
    pcre2_general_context *memory;
    pcre2_compile_context *compile;
    cutter rule[ZT_PRE_RULES];
    int rule_count;
};

/* ---- compiling ------------------------------------------------------------------------------- */

void zt_split_free(zt_split *split)
{
    if (!split) return;
    for (int i = 0; i < split->rule_count; i++) pcre2_code_free(split->rule[i].code);
    pcre2_compile_context_free(split->compile);
    pcre2_general_context_free(split->memory);
    zt_free(split->ctx, split);
}

/* The size of the item at the beginning of a pattern, and what to write instead (NULL: the same). *in_class: is
 * it inside of a class ([...])? */
static size_t pattern_item(const char *pattern, bool *in_class, const char **instead)
{
    *instead = NULL;
    if (*pattern == '\\' && pattern[1]) {
        if (pattern[1] == 's')
            *instead = *in_class ? SPACE : "[" SPACE "]";
        else if (pattern[1] == 'S')
            *instead = *in_class ? OTHER : "[^" SPACE "]";
        return 2;
    }
    *in_class = *pattern == '[' || (*in_class && *pattern != ']');
    return 1;
}

static zt_status translate_pattern(const char *pattern, zt_str *out)
{
    bool in_class = false;
    zt_status status = zt_str_puts(out, "");
    for (const char *item = pattern; !status && *item;) {
        const char *instead;
        size_t size = pattern_item(item, &in_class, &instead);
        status = instead ? zt_str_puts(out, instead) : zt_str_put(out, item, size);
        item += size;
    }
    return status;
}

/* Without JIT (a kernel may forbid it) PCRE2 interprets: slower, same pieces. PCRE2 reports that as "no memory" too; only
 * the context's status says whether memory was really short. */
static zt_status compile_rule(zt_split *split, const zt_split_rule *rule, const zt_str *text)
{
    int code;
    PCRE2_SIZE error_offset;
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)text->data, text->len, PCRE2_UTF | PCRE2_UCP, &code, &error_offset, split->compile);
    if (!compiled)
        return zt_fail(split->ctx, ZT_EBUG, "pre-tokenizer: PCRE2 error %d at %zu of '%s'", code, error_offset, text->data);
    split->rule[split->rule_count++] = (cutter){compiled, rule->behavior};
    int result = pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    return result == PCRE2_ERROR_NOMEMORY && zt_ctx_status(split->ctx) ? ZT_ENOMEM : ZT_OK;
}

static zt_status add_rule(zt_split *split, const zt_split_rule *rule)
{
    zt_str text;
    zt_str_init(&text, split->ctx);
    zt_status status = translate_pattern(rule->pattern, &text);
    if (!status) status = compile_rule(split, rule, &text);
    zt_str_fini(&text);
    return status;
}

zt_split *zt_split_new(zt_ctx *ctx, const char *file, const zt_split_rule *rules, int rule_count)
{
    zt_split *split = zt_calloc(ctx, 1, sizeof *split);
    if (!split) return NULL;
    split->ctx = ctx;
    split->file = file;
    split->memory = pcre2_general_context_create(zt_pcre_alloc, zt_pcre_free, ctx);
    split->compile = split->memory ? pcre2_compile_context_create(split->memory) : NULL;
    if (!split->compile) goto fail;
    for (int i = 0; i < rule_count && i < ZT_PRE_RULES; i++)
        if (add_rule(split, &rules[i])) goto fail;
    return split;
fail:
    zt_split_free(split);
    return NULL;
}

/* ---- cutting --------------------------------------------------------------------------------- */

typedef struct cut_job { /* one call of zt_split_run */
    const zt_split *split;
    zt_split_fn *fn;
    void *arg;
    pcre2_match_data *match;
    pcre2_match_context *limits;
} cut_job;

static zt_status cut_by_rule(const cut_job *job, int rule, const char *text, size_t size);

static bool starts_char(char byte) { return ((unsigned char)byte & 0xc0) != 0x80; }

/* Bytes of the first char_count characters of text (valid UTF-8). */
static size_t prefix_bytes(const char *text, size_t bytes, size_t char_count)
{
    size_t i = 0;
    for (; i < bytes; i++)
        if (starts_char(text[i]) && char_count-- == 0) break;
    return i;
}

static zt_status cut_in_threes(const cut_job *job, int rule, const char *text, size_t size)
{
    size_t chars = 0;
    zt_status status = ZT_OK;
    for (size_t i = 0; i < size; i++) chars += starts_char(text[i]);
    for (size_t offset = 0, char_count = chars % 3 ? chars % 3 : 3; !status && offset < size; char_count = 3) {
        size_t length = prefix_bytes(text + offset, size - offset, char_count);
        status = cut_by_rule(job, rule, text + offset, length);
        offset += length;
    }
    return status;
}

/* 1: found, 0: none, -1: failed. What JIT's small stack is too small for is interpreted. */
static int find_match(const cut_job *job, int rule, const char *text, size_t size, size_t offset, size_t *from, size_t *to)
{
    const pcre2_code *code = job->split->rule[rule].code;
    int result = pcre2_match(code, (PCRE2_SPTR)text, size, offset, PCRE2_NO_UTF_CHECK, job->match, job->limits);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
        result = pcre2_match(code, (PCRE2_SPTR)text, size, offset, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, job->match, job->limits);
    if (result == PCRE2_ERROR_NOMATCH) return 0;
    if (result >= 0) {
        const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(job->match);
        *from = offsets[0];
        *to = offsets[1];
        return 1;
    }
    zt_fail(job->split->ctx, result == PCRE2_ERROR_NOMEMORY ? ZT_ENOMEM : ZT_EDATA,
            "%s: pre-tokenizer: PCRE2 error %d of pattern %d at byte %zu of %zu", job->split->file, result, rule + 1, offset,
            size);
    return -1;
}

/* Text (valid UTF-8) cut by rule number `rule` and those after it. No pattern matches nothing. */
static zt_status cut_by_rule(const cut_job *job, int rule, const char *text, size_t size)
{
    size_t offset = 0, from, to; /* all before at is done */
    zt_status status = ZT_OK;
    if (!size || rule == job->split->rule_count) return size ? job->fn(job->arg, text, size) : ZT_OK;
    while (!status && offset < size) {
        int found = find_match(job, rule, text, size, offset, &from, &to);
        if (found < 0) return zt_ctx_status(job->split->ctx);
        if (!found) break;
        status = cut_by_rule(job, rule + 1, text + offset, from - offset);
        if (!status)
            status = job->split->rule[rule].behavior == ZT_SPLIT_THREES ? cut_in_threes(job, rule + 1, text + from, to - from)
                                                                        : cut_by_rule(job, rule + 1, text + from, to - from);
        offset = to;
    }
    return status ? status : cut_by_rule(job, rule + 1, text + offset, size - offset);
}

/* Bytes at the start of text that are all UTF-8 (valid), or all not. */
static size_t stretch_length(const char *text, size_t size, bool valid)
{
    size_t i = 0;
    uint32_t codepoint;
    while (i < size) {
        int length = (unsigned char)text[i] < 0x80 ? 1 : zt_utf8_decode(text + i, size - i, &codepoint);
        if ((length > 0) != valid) break;
        i += length ? (size_t)length : 1;
    }
    return i;
}

/* Steps that PCRE2 may take for one match: an honest pattern needs a few for each byte. */
static uint32_t step_limit(size_t size) { return size > UINT32_MAX / 64 ? UINT32_MAX : (uint32_t)(100000 + 32 * size); }

zt_status zt_split_run(const zt_split *split, const char *text, size_t size, zt_split_fn *fn, void *arg)
{
    cut_job job = {split, fn, arg, pcre2_match_data_create(1, split->memory), pcre2_match_context_create(split->memory)};
    zt_status status = job.match && job.limits ? ZT_OK : ZT_ENOMEM;
    if (!status) pcre2_set_match_limit(job.limits, step_limit(size));
    for (size_t offset = 0; !status && offset < size;) {
        size_t good = stretch_length(text + offset, size - offset, true);
        status = good ? cut_by_rule(&job, 0, text + offset, good) : ZT_OK;
        offset += good;
        size_t bad = stretch_length(text + offset, size - offset, false);
        if (!status && bad) status = fn(arg, text + offset, bad);
        offset += bad;
    }
    pcre2_match_context_free(job.limits);
    pcre2_match_data_free(job.match);
    return status;
}
