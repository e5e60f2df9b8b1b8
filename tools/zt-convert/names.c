/* names.c - globs, and names changed by them. */
#include "tools/zt-convert/convert.h"

#include <fnmatch.h>
#include <string.h>

bool glob_matches(const char *pattern, const char *text) { return fnmatch(pattern, text, 0) == 0; }

enum { MOST_STARS = 8 };

typedef struct piece {
    const char *at;
    size_t n;
} piece;

/* Does the text match the first n bytes of the pattern, of which only * is special? What each *
 * stood for, the shortest that will do, goes into stars. */
static bool match(const char *pattern, size_t n, const char *text, piece *stars)
{
    size_t literal = 0;
    while (literal < n && pattern[literal] != '*') literal++;
    if (strncmp(pattern, text, literal) != 0) return false;
    text += literal;
    if (literal == n) return *text == '\0';
    for (size_t k = 0;; k++) {
        *stars = (piece){.at = text, .n = k};
        if (match(pattern + literal + 1, n - literal - 1, text + k, stars + 1)) return true;
        if (text[k] == '\0') return false;
    }
}

static const char *replace(job *j, const char *to, const piece *stars)
{
    zt_str s;
    const char *name = NULL;
    zt_status st = ZT_OK;
    zt_str_init(&s, j->ctx);
    for (; *to && st == ZT_OK; to++) {
        st = *to == '*' ? zt_str_put(&s, stars->at, stars->n) : zt_str_putc(&s, *to);
        stars += *to == '*';
    }
    if (st == ZT_OK) name = zt_arena_strndup(j->texts, s.data ? s.data : "", s.len);
    zt_str_fini(&s);
    return name;
}

bool rename_matches(const char *rule, const char *name)
{
    piece stars[MOST_STARS + 1];
    const char *to = strchr(rule, '=');
    return to && match(rule, (size_t)(to - rule), name, stars);
}

const char *renamed(job *j, const char *name)
{
    piece stars[MOST_STARS + 1];
    for (int i = 0; i < j->o->rename.n; i++) {
        const char *rule = j->o->rename.item[i], *to = strchr(rule, '=');
        if (match(rule, (size_t)(to - rule), name, stars)) return replace(j, to + 1, stars);
    }
    return name;
}

static int count(const char *text, size_t n, char c)
{
    int k = 0;
    for (size_t i = 0; i < n; i++) k += text[i] == c;
    return k;
}

zt_status check_renames(job *j)
{
    char text[160];
    for (int i = 0; i < j->o->rename.n; i++) {
        const char *rule = j->o->rename.item[i], *to = strchr(rule, '=');
        int from = to ? count(rule, (size_t)(to - rule), '*') : 0;
        if (!to || to == rule || !to[1] || count(to + 1, strlen(to + 1), '*') > from ||
            from > MOST_STARS)
            return zt_fail(j->ctx, ZT_EUSAGE,
                           "option '--rename': '%s' is not FROM=TO, with no more * in TO",
                           zt_escape(text, sizeof text, rule, strlen(rule)));
    }
    return ZT_OK;
}
