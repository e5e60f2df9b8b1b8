/* names.c - globs, and names changed by them. */
#include "tools/zt-convert/convert.h"

#include <fnmatch.h>
#include <string.h>

bool glob_matches(const char *pattern, const char *text) { return fnmatch(pattern, text, 0) == 0; }

enum { MOST_STARS = 8 };

typedef struct text_piece {
    const char *text;
    size_t length;
} text_piece;

/* Does the text match the first `pattern_length` bytes of the pattern, of which only * is special? What each *
 * stood for, the shortest that will do, goes into stars. */
static bool match_pattern(const char *pattern, size_t pattern_length, const char *text, text_piece *stars)
{
    size_t literal = 0;
    while (literal < pattern_length && pattern[literal] != '*') literal++;
    if (strncmp(pattern, text, literal) != 0) return false;
    text += literal;
    if (literal == pattern_length) return *text == '\0';
    for (size_t length = 0;; length++) {
        *stars = (text_piece){.text = text, .length = length};
        if (match_pattern(pattern + literal + 1, pattern_length - literal - 1, text + length, stars + 1)) return true;
        if (text[length] == '\0') return false;
    }
}

static const char *replace_stars(convert_job *job, const char *target, const text_piece *stars)
{
    zt_str text;
    const char *name = NULL;
    zt_status status = ZT_OK;
    zt_str_init(&text, job->ctx);
    for (; *target && status == ZT_OK; target++) {
        status = *target == '*' ? zt_str_put(&text, stars->text, stars->length) : zt_str_putc(&text, *target);
        stars += *target == '*';
    }
    if (status == ZT_OK) name = zt_arena_strndup(job->texts, text.data ? text.data : "", text.len);
    zt_str_fini(&text);
    return name;
}

bool rename_matches(const char *rule, const char *name)
{
    text_piece stars[MOST_STARS + 1];
    const char *equals = strchr(rule, '=');
    return equals && match_pattern(rule, (size_t)(equals - rule), name, stars);
}

const char *rename_tensor(convert_job *job, const char *name)
{
    text_piece stars[MOST_STARS + 1];
    for (int i = 0; i < job->options->rename.n; i++) {
        const char *rule = job->options->rename.item[i], *equals = strchr(rule, '=');
        if (match_pattern(rule, (size_t)(equals - rule), name, stars)) return replace_stars(job, equals + 1, stars);
    }
    return name;
}

static int count_character(const char *text, size_t length, char wanted)
{
    int matches = 0;
    for (size_t i = 0; i < length; i++) matches += text[i] == wanted;
    return matches;
}

zt_status check_renames(convert_job *job)
{
    char text[160];
    for (int i = 0; i < job->options->rename.n; i++) {
        const char *rule = job->options->rename.item[i], *equals = strchr(rule, '=');
        int star_count = equals ? count_character(rule, (size_t)(equals - rule), '*') : 0;
        if (!equals || equals == rule || !equals[1] || count_character(equals + 1, strlen(equals + 1), '*') > star_count ||
            star_count > MOST_STARS)
            return zt_fail(job->ctx, ZT_EUSAGE, "option '--rename': '%s' is not FROM=TO, with no more * in TO",
                           zt_escape(text, sizeof text, rule, strlen(rule)));
    }
    return ZT_OK;
}
