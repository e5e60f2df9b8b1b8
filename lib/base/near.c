/* near.c - the distance between words, and the nearest of some names (near.h). */
#include "lib/base/near.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 63 }; /* letters of a word that count */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* The restricted distance of Damerau and Levenshtein. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t d[MOST + 1][MOST + 1];
    for (size_t i = 0; i <= na; i++) {
        for (size_t j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least(d[i - 1][j], d[i][j - 1]) + 1;
            d[i][j] = least(d[i][j], d[i - 1][j - 1] + !same(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[na][nb];
}

/* How far apart two words of so many letters may be. */
static size_t tolerated(size_t na, size_t nb)
{
    size_t n = na > nb ? na : nb;
    return n <= 4 ? 1 : n / 3 > 2 ? n / 3 : 2;
}

const char *zt_near_list(const void *names, int i) { return ((const char *const *)names)[i]; }

const char *zt_near_name(const char *word, size_t n, zt_name_fn *name, const void *user)
{
    const char *best = NULL, *one;
    size_t best_d = SIZE_MAX;
    n = least(n, MOST);
    for (int i = 0; (one = name(user, i)); i++) {
        size_t m = least(strlen(one), MOST), alike = 0, d = n && m ? distance(word, n, one, m) : MOST;
        if (d > tolerated(n, m) || d >= n || d >= m) continue;
        while (alike < n && alike < m && same(word[alike], one[alike])) alike++;
        d = d * (MOST + 1) + MOST - alike;
        if (d < best_d) best = one;
        best_d = least(d, best_d);
    }
    return best;
}

const char *zt_near(zt_near_hint hint, const char *word, zt_name_fn *name, const void *user)
{
    char shown[72];
    const char *best = zt_near_name(word, strlen(word), name, user);
    if (!best) return "";
    snprintf(hint, sizeof(zt_near_hint), " (did you mean '%s'?)",
             zt_escape(shown, sizeof shown, best, strlen(best)));
    return hint;
}

void zt_near_put(zt_str *out, int most, zt_name_fn *name, const void *user)
{
    int n = 0, all = 0, put = 0;
    while (name(user, all)) n += *name(user, all++) != '\0';
    for (int i = 0; i < all && put < most; i++) {
        const char *one = name(user, i);
        if (!*one) continue;
        zt_str_puts(out, put == 0 ? "" : put == n - 1 ? " or " : ", ");
        zt_str_puts(out, one);
        put++;
    }
    if (put < n) zt_str_puts(out, ", ...");
}

zt_status zt_fail_unknown(zt_ctx *ctx, zt_status status, const char *what, const char *word, size_t n,
                          zt_name_fn *name, const void *user)
{
    enum { LISTED = 16 };
    char shown[80], near_shown[72];
    const char *best = zt_near_name(word, n, name, user);
    zt_str names;
    zt_str_init(&names, ctx);
    zt_near_put(&names, LISTED, name, user);
    if (best) zt_escape(near_shown, sizeof near_shown, best, strlen(best));
    zt_fail(ctx, status, "%s '%s' is not known%s%s%s: %s", what,
            zt_escape(shown, sizeof shown, word, n), best ? " (did you mean '" : "",
            best ? near_shown : "", best ? "'?)" : "", names.data ? names.data : "");
    zt_str_fini(&names);
    return zt_ctx_status(ctx);
}
