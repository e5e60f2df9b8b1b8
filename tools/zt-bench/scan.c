/* scan.c - --parameter-scan of zt-bench run: the command with every combination of values, the last parameter fastest.
 *
 *     --parameter-scan threads=1..8*2 --parameter-scan kind=a,b     {threads} and {kind} in the words become
 *     threads=1 kind=a,  threads=1 kind=b,  threads=2 kind=a, ...
 */
#include "tools/zt-bench/bench.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PARAMETERS = 8, MOST_VALUES = BENCH_MAX_COUNTS };

typedef struct scan_parameter {
    const char *name;
    const char *values[MOST_VALUES]; /* [count] */
    int count, current;
} scan_parameter;

struct bench_scan {
    zt_ctx *ctx;
    zt_arena *arena; /* of names and values */
    scan_parameter parameters[MOST_PARAMETERS];
    int count;
    char **words;    /* [word_count], as they were given */
    char **replaced; /* [word_count], of the current combination; NULL before the first */
    zt_str name;
    int word_count;
    bool started;
};

/* ---- parameters ------------------------------------------------------------------------------- */

static zt_status fail_parameter(zt_ctx *ctx, const char *text)
{
    char shown[96];
    return zt_fail(ctx, ZT_EUSAGE,
                   "--parameter-scan: '%s' is not NAME=VALUE,... with 1 to %d values, such as n=1..8*2 or kind=a,b",
                   zt_escape(shown, sizeof shown, text, strnlen(text, 80)), MOST_VALUES);
}

static zt_status add_value(bench_scan *scan, scan_parameter *parameter, const char *value, size_t length, const char *text)
{
    if (parameter->count == MOST_VALUES || length == 0) return fail_parameter(scan->ctx, text);
    const char *copy = zt_arena_strndup(scan->arena, value, length);
    if (copy) parameter->values[parameter->count++] = copy;
    return zt_ctx_status(scan->ctx);
}

static zt_status add_range(bench_scan *scan, scan_parameter *parameter, const char *range, const char *text)
{
    bench_numbers numbers;
    char value[24];
    zt_status status = bench_numbers_of(scan->ctx, "--parameter-scan", range, 0, INT64_MAX / 2, &numbers);
    for (int i = 0; i < numbers.count && !status; i++) {
        int length = snprintf(value, sizeof value, "%" PRId64, numbers.values[i]);
        status = add_value(scan, parameter, value, (size_t)length, text);
    }
    return status;
}

/* A part that begins with a digit and has ".." in it is a range; any other part is a word. */
static zt_status add_part(bench_scan *scan, scan_parameter *parameter, const char *part, size_t length, const char *text)
{
    const char *copy = zt_arena_strndup(scan->arena, part, length);
    if (!copy) return zt_ctx_status(scan->ctx);
    bool range = isdigit((unsigned char)*copy) && strstr(copy, "..");
    return range ? add_range(scan, parameter, copy, text) : add_value(scan, parameter, part, length, text);
}

static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("_-", text[i])) return false;
    return length > 0;
}

static zt_status add_parameter(bench_scan *scan, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || !is_name(text, (size_t)(equals - text))) return fail_parameter(scan->ctx, text);
    if (scan->count == MOST_PARAMETERS)
        return zt_fail(scan->ctx, ZT_EUSAGE, "--parameter-scan: more than %d parameters", MOST_PARAMETERS);
    scan_parameter *parameter = &scan->parameters[scan->count++];
    parameter->name = zt_arena_strndup(scan->arena, text, (size_t)(equals - text));
    zt_status status = zt_ctx_status(scan->ctx);
    for (int i = 0; i + 1 < scan->count && !status; i++)
        if (!strcmp(scan->parameters[i].name, parameter->name))
            status = zt_fail(scan->ctx, ZT_EUSAGE, "--parameter-scan: '%s' is given twice", parameter->name);
    for (const char *part = equals; *part && !status;) {
        size_t length = strcspn(++part, ",");
        status = add_part(scan, parameter, part, length, text);
        part += length;
    }
    return status;
}

/* ---- replacement ------------------------------------------------------------------------------ */

/* The parameter of which {NAME} stands at the text; NULL: none does. */
static const scan_parameter *parameter_at(const bench_scan *scan, const char *text)
{
    for (int i = 0; i < scan->count && *text == '{'; i++) {
        size_t length = strlen(scan->parameters[i].name);
        if (!strncmp(text + 1, scan->parameters[i].name, length) && text[1 + length] == '}') return &scan->parameters[i];
    }
    return NULL;
}

static bool is_used(const bench_scan *scan, const scan_parameter *parameter)
{
    for (int i = 0; i < scan->word_count; i++)
        for (const char *text = scan->words[i]; text && *text; text++)
            if (parameter_at(scan, text) == parameter) return true;
    return false;
}

static char *replace_names(bench_scan *scan, const char *word)
{
    zt_str out;
    zt_str_init(&out, scan->ctx);
    zt_str_puts(&out, "");
    while (*word) {
        const scan_parameter *parameter = parameter_at(scan, word);
        if (parameter)
            zt_str_puts(&out, parameter->values[parameter->current]);
        else
            zt_str_put(&out, word, 1);
        word += parameter ? strlen(parameter->name) + 2 : 1;
    }
    char *text = zt_strdup(scan->ctx, out.data ? out.data : "");
    zt_str_fini(&out);
    return text;
}

static void free_words(bench_scan *scan)
{
    for (int i = 0; i < scan->word_count; i++) {
        zt_free(scan->ctx, scan->replaced[i]);
        scan->replaced[i] = NULL;
    }
}

/* ---- combinations ----------------------------------------------------------------------------- */

bench_scan *bench_scan_open(zt_ctx *ctx, const zt_opt_list *parameters, char **words, int word_count)
{
    bench_scan *scan = zt_calloc(ctx, 1, sizeof *scan);
    if (!scan) return NULL;
    *scan = (bench_scan){.ctx = ctx, .arena = zt_arena_new(ctx, 0), .words = words, .word_count = word_count};
    scan->replaced = zt_calloc(ctx, (size_t)word_count + 1, sizeof *scan->replaced);
    zt_str_init(&scan->name, ctx);
    zt_status status = scan->arena && scan->replaced ? ZT_OK : zt_ctx_status(ctx);
    for (int i = 0; i < parameters->n && !status; i++) status = add_parameter(scan, parameters->item[i]);
    for (int i = 0; i < scan->count && !status; i++)
        if (!is_used(scan, &scan->parameters[i]))
            status = zt_fail(ctx, ZT_EUSAGE, "--parameter-scan: the command has no {%s}", scan->parameters[i].name);
    if (!status) return scan;
    bench_scan_close(scan);
    return NULL;
}

/* Counts up, as the digits of a number; false: the last combination was current. */
static bool advance(bench_scan *scan)
{
    for (int i = scan->count - 1; i >= 0; i--) {
        if (++scan->parameters[i].current < scan->parameters[i].count) return true;
        scan->parameters[i].current = 0;
    }
    return false;
}

bool bench_scan_next(bench_scan *scan)
{
    if (scan->started && !advance(scan)) return false;
    scan->started = true;
    free_words(scan);
    zt_str_clear(&scan->name);
    for (int i = 0; i < scan->count; i++)
        zt_str_printf(&scan->name, " %s=%s", scan->parameters[i].name, scan->parameters[i].values[scan->parameters[i].current]);
    for (int i = 0; i < scan->word_count; i++)
        if (scan->words[i] && !(scan->replaced[i] = replace_names(scan, scan->words[i]))) return false;
    return zt_ctx_status(scan->ctx) == ZT_OK;
}

char **bench_scan_words(bench_scan *scan) { return scan->replaced; }

const char *bench_scan_name(const bench_scan *scan) { return scan->name.data ? scan->name.data : ""; }

void bench_scan_close(bench_scan *scan)
{
    if (!scan) return;
    if (scan->replaced) free_words(scan);
    zt_free(scan->ctx, scan->replaced);
    zt_str_fini(&scan->name);
    zt_arena_free(scan->arena);
    zt_free(scan->ctx, scan);
}
