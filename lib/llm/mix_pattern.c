/* mix_pattern.c - regular expressions over the names of tensors, compiled once and searched in each name. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/base/pcre.h"
#include "lib/base/require.h"
#include "lib/llm/mix.h"

#include <pcre2.h>
#include <string.h>

/* A name has less than 64 bytes in GGUF: an expression that needs more steps is not one for names. */
enum { MOST_STEPS = 1 << 20, MOST_HEAP_KIB = 1 << 14 };

struct zt_mix_pattern {
    zt_ctx *ctx;
    char *place, *regex; /* for messages */
    pcre2_general_context *memory;
    pcre2_compile_context *how;
    pcre2_match_context *limits;
    pcre2_match_data *match;
    pcre2_code *code;
};

static zt_status fail_pattern(const zt_mix_pattern *pattern, const char *why)
{
    char shown[160];
    return zt_fail(pattern->ctx, ZT_EDATA, "%s: '%s': %s", pattern->place,
                   zt_escape(shown, sizeof shown, pattern->regex, strlen(pattern->regex)), why);
}

static zt_status compile_pattern(zt_mix_pattern *pattern)
{
    int error;
    PCRE2_SIZE position;
    PCRE2_UCHAR why[120];
    pattern->memory = pcre2_general_context_create(zt_pcre_alloc, zt_pcre_free, pattern->ctx);
    pattern->how = pattern->memory ? pcre2_compile_context_create(pattern->memory) : NULL;
    pattern->limits = pattern->how ? pcre2_match_context_create(pattern->memory) : NULL;
    pattern->match = pattern->limits ? pcre2_match_data_create(1, pattern->memory) : NULL;
    if (!pattern->match) return ZT_ENOMEM;
    pcre2_set_match_limit(pattern->limits, MOST_STEPS);
    pcre2_set_heap_limit(pattern->limits, MOST_HEAP_KIB);
    pattern->code = pcre2_compile((PCRE2_SPTR)pattern->regex, PCRE2_ZERO_TERMINATED, PCRE2_NEVER_BACKSLASH_C, &error, &position,
                                  pattern->how);
    if (pattern->code) return ZT_OK;
    if (error == PCRE2_ERROR_HEAP_FAILED) return zt_fail(pattern->ctx, ZT_ENOMEM, "%s", pattern->place);
    pcre2_get_error_message(error, why, sizeof why);
    return fail_pattern(pattern, (const char *)why);
}

zt_mix_pattern *zt_mix_pattern_new(zt_ctx *ctx, const char *place, const char *regex)
{
    ZT_REQUIRE(ctx, ctx && place && regex, NULL);
    zt_mix_pattern *pattern = zt_calloc(ctx, 1, sizeof *pattern);
    if (!pattern) return NULL;
    pattern->ctx = ctx;
    pattern->place = zt_strdup(ctx, place);
    pattern->regex = zt_strdup(ctx, regex);
    if (pattern->place && pattern->regex && compile_pattern(pattern) == ZT_OK) return pattern;
    zt_mix_pattern_free(pattern);
    return NULL;
}

void zt_mix_pattern_free(zt_mix_pattern *pattern)
{
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    pcre2_match_data_free(pattern->match);
    pcre2_match_context_free(pattern->limits);
    pcre2_compile_context_free(pattern->how);
    pcre2_general_context_free(pattern->memory);
    zt_free(pattern->ctx, pattern->place);
    zt_free(pattern->ctx, pattern->regex);
    zt_free(pattern->ctx, pattern);
}

bool zt_mix_pattern_matches(const zt_mix_pattern *pattern, const char *name)
{
    if (!pattern || !name) return false;
    int found = pcre2_match(pattern->code, (PCRE2_SPTR)name, strlen(name), 0, 0, pattern->match, pattern->limits);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) fail_pattern(pattern, "searching a tensor's name takes too many steps");
    return found >= 0;
}
