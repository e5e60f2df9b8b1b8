/* lora_pattern.c - owns rank_pattern and alpha_pattern: which key is for a module.
 *
 * PEFT (utils/other.py, get_pattern_key, as facts) takes the first key, in the file's order, for
 * which Python's re.match(r'(.*\.)?(KEY)$', module) matches. PCRE2 runs the same expression. What
 * the two read differently is refused by name: escapes and groups that Python does not have or that
 * mean something else there.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/dna/lora_part.h"

#include <ctype.h>
#include <pcre2.h>
#include <string.h>

enum { MOST_KEYS = 1 << 14, MOST_KEY = 1 << 12, MOST_STEPS = 100000, MOST_HEAP_KIB = 16 << 10 };

struct lora_patterns {
    zt_ctx *ctx;
    const char *file, *member;
    const json_t *object;
    pcre2_general_context *memory;
    pcre2_compile_context *how;
    pcre2_match_context *limits;
    pcre2_match_data *match;
    pcre2_code **codes;
    const json_t **values;
    int count;
};

static void *pcre_alloc(size_t size, void *ctx) { return zt_alloc(ctx, size); }
static void pcre_free(void *memory, void *ctx) { zt_free(ctx, memory); }

/* ---- what both understand -------------------------------------------------------------------- */

/* Behind a backslash. *cursor: its character; moved to the last that belongs to it. */
static bool is_same_escape(const char **cursor)
{
    const char *escape = *cursor;
    if (*escape == 'x') {
        if (!isxdigit((unsigned char)escape[1]) || !isxdigit((unsigned char)escape[2])) return false;
        *cursor = escape + 2;
        return true;
    }
    return *escape && (!isalnum((unsigned char)*escape) || isdigit((unsigned char)*escape) || strchr("AbBdDsSwWZnrtfa", *escape));
}

/* Behind "(": what kind of a group it is. */
static bool is_same_group(const char *text)
{
    if (*text == '*') return false;
    if (*text != '?') return true;
    text++;
    if (strchr(":=!>#(", *text) && *text) return true;
    if (*text == '<') return text[1] == '=' || text[1] == '!';
    if (*text == 'P') return text[1] == '<' || text[1] == '=';
    size_t flags = strspn(text, "imsx-");
    return flags && text[flags] == ':';
}

/* Behind "{": not a quantifier that only one of them reads as one. */
static bool is_same_braces(const char *text)
{
    size_t length = strcspn(text, "}");
    return *text != ',' && (!text[length] || !memchr(text, ' ', length));
}

/* The first place that both do not read alike; NULL: there is none. */
static const char *find_other_meaning(const char *key)
{
    bool set = false;
    for (const char *cursor = key; *cursor; cursor++) {
        const char *start = cursor;
        if (*cursor == '\\') {
            cursor++;
            if (!is_same_escape(&cursor)) return start;
        } else if (set) {
            if (*cursor == '[' && cursor[1] && strchr(":.=", cursor[1])) return start;
            set = *cursor != ']';
        } else if (*cursor == '[') {
            set = true;
            if (cursor[1] == '^') cursor++;
            if (cursor[1] == ']') cursor++; /* the first is itself */
        } else if ((*cursor == '(' && !is_same_group(cursor + 1)) || (*cursor == '{' && !is_same_braces(cursor + 1))) {
            return start;
        }
    }
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

static zt_status fail_pattern(const lora_patterns *patterns, const char *key, const char *why)
{
    char shown[160];
    return zt_fail(patterns->ctx, ZT_EDATA, "%s: %s: '%s': %s", patterns->file, patterns->member,
                   zt_escape(shown, sizeof shown, key, strlen(key)), why);
}

static zt_status compile_pattern(lora_patterns *patterns, const char *key)
{
    int code;
    PCRE2_SIZE error_offset;
    PCRE2_UCHAR why[120];
    char text[200];
    const char *other = strlen(key) > MOST_KEY ? key : find_other_meaning(key);
    if (other) {
        char shown[24];
        snprintf(text, sizeof text, "'%s' is not read here as Python's re reads it",
                 zt_escape(shown, sizeof shown, other, strnlen(other, 3)));
        return fail_pattern(patterns, key, text);
    }
    zt_str whole;
    zt_str_init(&whole, patterns->ctx);
    zt_status status = zt_str_printf(&whole, "(.*\\.)?(%s)$", key);
    if (status == ZT_OK)
        patterns->codes[patterns->count] = pcre2_compile(
            (PCRE2_SPTR)whole.data, whole.len, PCRE2_ANCHORED | PCRE2_UTF | PCRE2_UCP, &code, &error_offset, patterns->how);
    zt_str_fini(&whole);
    if (status != ZT_OK) return status;
    if (patterns->codes[patterns->count++]) return ZT_OK;
    if (code == PCRE2_ERROR_HEAP_FAILED) return zt_fail(patterns->ctx, ZT_ENOMEM, "%s", patterns->file);
    pcre2_get_error_message(code, why, sizeof why);
    return fail_pattern(patterns, key, (const char *)why);
}

static zt_status read_keys(lora_patterns *patterns)
{
    const char *key;
    json_t *value;
    size_t length = json_object_size(patterns->object);
    if (length > MOST_KEYS)
        return zt_fail(patterns->ctx, ZT_EDATA, "%s: %s has %zu keys, at most %d are read", patterns->file, patterns->member,
                       length, MOST_KEYS);
    patterns->memory = pcre2_general_context_create(pcre_alloc, pcre_free, patterns->ctx);
    patterns->how = patterns->memory ? pcre2_compile_context_create(patterns->memory) : NULL;
    patterns->limits = patterns->how ? pcre2_match_context_create(patterns->memory) : NULL;
    patterns->match = patterns->limits ? pcre2_match_data_create(1, patterns->memory) : NULL;
    patterns->codes = zt_calloc(patterns->ctx, length, sizeof(pcre2_code *));
    patterns->values = zt_calloc(patterns->ctx, length, sizeof(json_t *));
    if (!patterns->match || !patterns->codes || !patterns->values) return ZT_ENOMEM;
    pcre2_set_newline(patterns->how, PCRE2_NEWLINE_LF);
    pcre2_set_match_limit(patterns->limits, MOST_STEPS);
    pcre2_set_heap_limit(patterns->limits, MOST_HEAP_KIB);
    json_object_foreach((json_t *)(uintptr_t)patterns->object, key, value)
    {
        if (!json_is_number(value)) return fail_pattern(patterns, key, "its value is not a number");
        patterns->values[patterns->count] = value;
        zt_status status = compile_pattern(patterns, key);
        if (status != ZT_OK) return status;
    }
    return ZT_OK;
}

lora_patterns *zt_lora_patterns_read(zt_ctx *ctx, const char *file, const char *member, const json_t *object, zt_status *status)
{
    *status = ZT_OK;
    if (!object || json_is_null(object)) return NULL;
    if (!json_is_object(object)) {
        *status = zt_fail(ctx, ZT_EDATA, "%s: '%s' is not an object", file, member);
        return NULL;
    }
    if (!json_object_size(object)) return NULL;
    lora_patterns *patterns = zt_calloc(ctx, 1, sizeof *patterns);
    *status = patterns ? ZT_OK : ZT_ENOMEM;
    if (!patterns) return NULL;
    *patterns = (lora_patterns){.ctx = ctx, .file = file, .member = member, .object = object};
    *status = read_keys(patterns);
    if (*status == ZT_OK) return patterns;
    zt_lora_patterns_free(patterns);
    return NULL;
}

void zt_lora_patterns_free(lora_patterns *patterns)
{
    if (!patterns) return;
    for (int i = 0; patterns->codes && i < patterns->count; i++) pcre2_code_free(patterns->codes[i]);
    pcre2_match_data_free(patterns->match);
    pcre2_match_context_free(patterns->limits);
    pcre2_compile_context_free(patterns->how);
    pcre2_general_context_free(patterns->memory);
    zt_free(patterns->ctx, patterns->codes);
    zt_free(patterns->ctx, patterns->values);
    zt_free(patterns->ctx, patterns);
}

/* ---- asking ---------------------------------------------------------------------------------- */

zt_status zt_lora_patterns_find(const lora_patterns *patterns, const char *module, const json_t **value)
{
    *value = NULL;
    for (int i = 0; patterns && i < patterns->count; i++) {
        int matched =
            pcre2_match(patterns->codes[i], (PCRE2_SPTR)module, strlen(module), 0, 0, patterns->match, patterns->limits);
        char shown[160];
        if (matched >= 0) {
            *value = patterns->values[i];
            return ZT_OK;
        }
        if (matched != PCRE2_ERROR_NOMATCH)
            return zt_fail(patterns->ctx, ZT_EDATA, "%s: %s: a pattern for '%s' takes too many steps", patterns->file,
                           patterns->member, zt_escape(shown, sizeof shown, module, strlen(module)));
    }
    /* PEFT looks the module's own name up where no pattern matches */
    if (patterns) *value = json_object_get(patterns->object, module);
    return ZT_OK;
}
