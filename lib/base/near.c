/* near.c - the distance between words, and the nearest of some names (near.h). */
#include "lib/base/near.h"
#include "lib/base/require.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 63 }; /* letters of a word that count */

static size_t smaller_of(size_t first, size_t second) { return first < second ? first : second; }

static bool is_same_letter(char first, char second) { return tolower((unsigned char)first) == tolower((unsigned char)second); }

/* The restricted distance of Damerau and Levenshtein. */
static size_t edit_distance(const char *first, size_t first_length, const char *second, size_t second_length)
{
    size_t distances[MOST + 1][MOST + 1];
    for (size_t i = 0; i <= first_length; i++) {
        for (size_t j = 0; j <= second_length; j++) {
            if (i == 0 || j == 0) {
                distances[i][j] = i + j;
                continue;
            }
            distances[i][j] = smaller_of(distances[i - 1][j], distances[i][j - 1]) + 1;
            distances[i][j] = smaller_of(distances[i][j], distances[i - 1][j - 1] + !is_same_letter(first[i - 1], second[j - 1]));
            if (i > 1 && j > 1 && is_same_letter(first[i - 1], second[j - 2]) && is_same_letter(first[i - 2], second[j - 1]))
                distances[i][j] = smaller_of(distances[i][j], distances[i - 2][j - 2] + 1);
        }
    }
    return distances[first_length][second_length];
}

/* How far apart two words of so many letters may be. */
static size_t max_distance(size_t first_length, size_t second_length)
{
    size_t length = first_length > second_length ? first_length : second_length;
    return length <= 4 ? 1 : length / 3 > 2 ? length / 3 : 2;
}

const char *zt_near_list(const void *names, int i) { return names && i >= 0 ? ((const char *const *)names)[i] : NULL; }

const char *zt_near_name(const char *word, size_t length, zt_name_fn *name, const void *user)
{
    if (!word || !name) return NULL;
    const char *best = NULL, *candidate;
    size_t best_distance = SIZE_MAX;
    length = smaller_of(length, MOST);
    for (int i = 0; (candidate = name(user, i)); i++) {
        size_t candidate_length = smaller_of(strlen(candidate), MOST), alike = 0,
               distance = length && candidate_length ? edit_distance(word, length, candidate, candidate_length) : MOST;
        if (distance > max_distance(length, candidate_length) || distance >= length || distance >= candidate_length) continue;
        while (alike < length && alike < candidate_length && is_same_letter(word[alike], candidate[alike])) alike++;
        distance = distance * (MOST + 1) + MOST - alike;
        if (distance < best_distance) best = candidate;
        best_distance = smaller_of(distance, best_distance);
    }
    return best;
}

const char *zt_near(zt_near_hint hint, const char *word, zt_name_fn *name, const void *user)
{
    if (!hint || !word || !name) return "";
    char shown[72];
    const char *best = zt_near_name(word, strlen(word), name, user);
    if (!best) return "";
    snprintf(hint, sizeof(zt_near_hint), " (did you mean '%s'?)", zt_escape(shown, sizeof shown, best, strlen(best)));
    return hint;
}

void zt_near_put(zt_str *out, int limit, zt_name_fn *name, const void *user)
{
    if (!out) return;
    ZT_REQUIRE(out->ctx, name, );
    int named = 0, total = 0, written = 0;
    while (name(user, total)) named += *name(user, total++) != '\0';
    for (int i = 0; i < total && written < limit; i++) {
        const char *text = name(user, i);
        if (!*text) continue;
        zt_str_puts(out, written == 0 ? "" : written == named - 1 ? " or " : ", ");
        zt_str_puts(out, text);
        written++;
    }
    if (written < named) zt_str_puts(out, ", ...");
}

zt_status zt_fail_unknown(zt_ctx *ctx, zt_status status, const char *what, const char *word, size_t length, zt_name_fn *name,
                          const void *user)
{
    if (!ctx) return ZT_EUSAGE;
    ZT_REQUIRE(ctx, name, ZT_EUSAGE);
    enum { LISTED = 16 };
    char shown[80], near_shown[72];
    const char *best = zt_near_name(word, length, name, user);
    zt_str names;
    zt_str_init(&names, ctx);
    zt_near_put(&names, LISTED, name, user);
    if (best) zt_escape(near_shown, sizeof near_shown, best, strlen(best));
    zt_fail(ctx, status, "%s '%s'%s%s%s: expected %s", what, zt_escape(shown, sizeof shown, word, length),
            best ? " (did you mean '" : "", best ? near_shown : "", best ? "'?)" : "", names.data ? names.data : "");
    zt_str_fini(&names);
    return zt_ctx_status(ctx);
}
