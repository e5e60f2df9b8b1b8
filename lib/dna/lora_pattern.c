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
    pcre2_code **code;
    const json_t **value;
    int n;
};

static void *pcre_alloc(size_t n, void *ctx) { return zt_alloc(ctx, n); }
static void pcre_free(void *p, void *ctx) { zt_free(ctx, p); }

/* ---- what both understand -------------------------------------------------------------------- */

/* Behind a backslash. *p: its character; moved to the last that belongs to it. */
static bool same_escape(const char **p)
{
    const char *c = *p;
    if (*c == 'x') {
        if (!isxdigit((unsigned char)c[1]) || !isxdigit((unsigned char)c[2])) return false;
        *p = c + 2;
        return true;
    }
    return *c && (!isalnum((unsigned char)*c) || isdigit((unsigned char)*c) ||
                  strchr("AbBdDsSwWZnrtfa", *c));
}

/* Behind "(": what kind of a group it is. */
static bool same_group(const char *p)
{
    if (*p == '*') return false;
    if (*p != '?') return true;
    p++;
    if (strchr(":=!>#(", *p) && *p) return true;
    if (*p == '<') return p[1] == '=' || p[1] == '!';
    if (*p == 'P') return p[1] == '<' || p[1] == '=';
    size_t flags = strspn(p, "imsx-");
    return flags && p[flags] == ':';
}

/* Behind "{": not a quantifier that only one of them reads as one. */
static bool same_braces(const char *p)
{
    size_t n = strcspn(p, "}");
    return *p != ',' && (!p[n] || !memchr(p, ' ', n));
}

/* The first place that both do not read alike; NULL: there is none. */
static const char *other_meaning(const char *key)
{
    bool set = false;
    for (const char *p = key; *p; p++) {
        const char *at = p;
        if (*p == '\\') {
            p++;
            if (!same_escape(&p)) return at;
        } else if (set) {
            if (*p == '[' && p[1] && strchr(":.=", p[1])) return at;
            set = *p != ']';
        } else if (*p == '[') {
            set = true;
            if (p[1] == '^') p++;
            if (p[1] == ']') p++; /* the first is itself */
        } else if ((*p == '(' && !same_group(p + 1)) || (*p == '{' && !same_braces(p + 1))) {
            return at;
        }
    }
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

static zt_status bad(const lora_patterns *p, const char *key, const char *why)
{
    char shown[160];
    return zt_fail(p->ctx, ZT_EDATA, "%s: %s: '%s': %s", p->file, p->member,
                   zt_escape(shown, sizeof shown, key, strlen(key)), why);
}

static zt_status compile(lora_patterns *p, const char *key)
{
    int code;
    PCRE2_SIZE at;
    PCRE2_UCHAR why[120];
    char text[200];
    const char *other = strlen(key) > MOST_KEY ? key : other_meaning(key);
    if (other) {
        char shown[24];
        snprintf(text, sizeof text, "'%s' is not read here as Python's re reads it",
                 zt_escape(shown, sizeof shown, other, strnlen(other, 3)));
        return bad(p, key, text);
    }
    zt_str whole;
    zt_str_init(&whole, p->ctx);
    zt_status s = zt_str_printf(&whole, "(.*\\.)?(%s)$", key);
    if (s == ZT_OK)
        p->code[p->n] = pcre2_compile((PCRE2_SPTR)whole.data, whole.len,
                                      PCRE2_ANCHORED | PCRE2_UTF | PCRE2_UCP, &code, &at, p->how);
    zt_str_fini(&whole);
    if (s != ZT_OK) return s;
    if (p->code[p->n++]) return ZT_OK;
    if (code == PCRE2_ERROR_HEAP_FAILED) return zt_fail(p->ctx, ZT_ENOMEM, "%s", p->file);
    pcre2_get_error_message(code, why, sizeof why);
    return bad(p, key, (const char *)why);
}

static zt_status read_keys(lora_patterns *p)
{
    const char *key;
    json_t *value;
    size_t n = json_object_size(p->object);
    if (n > MOST_KEYS)
        return zt_fail(p->ctx, ZT_EDATA, "%s: %s has %zu keys, at most %d are read", p->file,
                       p->member, n, MOST_KEYS);
    p->memory = pcre2_general_context_create(pcre_alloc, pcre_free, p->ctx);
    p->how = p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    p->limits = p->how ? pcre2_match_context_create(p->memory) : NULL;
    p->match = p->limits ? pcre2_match_data_create(1, p->memory) : NULL;
    p->code = zt_calloc(p->ctx, n, sizeof(pcre2_code *));
    p->value = zt_calloc(p->ctx, n, sizeof(json_t *));
    if (!p->match || !p->code || !p->value) return ZT_ENOMEM;
    pcre2_set_newline(p->how, PCRE2_NEWLINE_LF);
    pcre2_set_match_limit(p->limits, MOST_STEPS);
    pcre2_set_heap_limit(p->limits, MOST_HEAP_KIB);
    json_object_foreach((json_t *)(uintptr_t)p->object, key, value)
    {
        if (!json_is_number(value)) return bad(p, key, "its value is not a number");
        p->value[p->n] = value;
        zt_status s = compile(p, key);
        if (s != ZT_OK) return s;
    }
    return ZT_OK;
}

lora_patterns *zt_lora_patterns_read(zt_ctx *ctx, const char *file, const char *member,
                                     const json_t *object, zt_status *s)
{
    *s = ZT_OK;
    if (!object || json_is_null(object)) return NULL;
    if (!json_is_object(object)) {
        *s = zt_fail(ctx, ZT_EDATA, "%s: '%s' is not an object", file, member);
        return NULL;
    }
    if (!json_object_size(object)) return NULL;
    lora_patterns *p = zt_calloc(ctx, 1, sizeof *p);
    *s = p ? ZT_OK : ZT_ENOMEM;
    if (!p) return NULL;
    *p = (lora_patterns){.ctx = ctx, .file = file, .member = member, .object = object};
    *s = read_keys(p);
    if (*s == ZT_OK) return p;
    zt_lora_patterns_free(p);
    return NULL;
}

void zt_lora_patterns_free(lora_patterns *p)
{
    if (!p) return;
    for (int i = 0; p->code && i < p->n; i++) pcre2_code_free(p->code[i]);
    pcre2_match_data_free(p->match);
    pcre2_match_context_free(p->limits);
    pcre2_compile_context_free(p->how);
    pcre2_general_context_free(p->memory);
    zt_free(p->ctx, p->code);
    zt_free(p->ctx, p->value);
    zt_free(p->ctx, p);
}

/* ---- asking ---------------------------------------------------------------------------------- */

zt_status zt_lora_patterns_find(const lora_patterns *p, const char *module, const json_t **value)
{
    *value = NULL;
    for (int i = 0; p && i < p->n; i++) {
        int rc = pcre2_match(p->code[i], (PCRE2_SPTR)module, strlen(module), 0, 0, p->match,
                             p->limits);
        char shown[160];
        if (rc >= 0) {
            *value = p->value[i];
            return ZT_OK;
        }
        if (rc != PCRE2_ERROR_NOMATCH)
            return zt_fail(p->ctx, ZT_EDATA, "%s: %s: a pattern for '%s' takes too many steps",
                           p->file, p->member,
                           zt_escape(shown, sizeof shown, module, strlen(module)));
    }
    /* PEFT looks the module's own name up where no pattern matches */
    if (p) *value = json_object_get(p->object, module);
    return ZT_OK;
}
