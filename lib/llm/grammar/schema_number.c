/* schema_number.c - integers and numbers in ranges, by their digits.
 *
 * A range of whole numbers is split by the number of digits, and then digit by digit: 37 to 245 is 3[7-9] | [4-9]d | 1dd | 2[0-3]d |
 * 24[0-5]. A range of numbers with fractions has whole bounds; it is written without an exponent.
 */
#include "lib/llm/grammar/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WHOLE_DIGITS = 16, FRACTION_DIGITS = 16, EXPONENT_DIGITS = 2 };
#define MOST_WHOLE INT64_C(9999999999999999) /* of WHOLE_DIGITS */

/* ---- digits ---------------------------------------------------------------------------------- */

static gexpr *digits(gbuilder *builder, int64_t least, int64_t most)
{
    return zt_g_repeat(builder, zt_g_range(builder, '0', '9'), least, most);
}

static bool all_are(const char *text, size_t count, char digit)
{
    for (size_t i = 0; i < count; i++)
        if (text[i] != digit) return false;
    return true;
}

/* Of two numbers of count digits. */
static gexpr *same_length(gbuilder *builder, const char *low, const char *high, size_t count)
{
    if (count == 0) return zt_g_literal(builder, "");
    if (*low == *high)
        return ZT_G_SEQUENCE(builder, zt_g_text(builder, low, 1), same_length(builder, low + 1, high + 1, count - 1));
    gexpr *choice = zt_g_list(builder, G_CHOICE);
    static const char zeros[] = "00000000000000000000", nines[] = "99999999999999999999";
    char first = *low, last = *high;
    if (!all_are(low + 1, count - 1, '0')) {
        choice = zt_g_add(builder, choice,
                          ZT_G_SEQUENCE(builder, zt_g_text(builder, low, 1), same_length(builder, low + 1, nines, count - 1)));
        first++;
    }
    bool whole = all_are(high + 1, count - 1, '9');
    if (!whole) last--;
    if (first <= last)
        choice = zt_g_add(builder, choice,
                          ZT_G_SEQUENCE(builder, zt_g_range(builder, (uint32_t)first, (uint32_t)last),
                                        digits(builder, (int64_t)count - 1, (int64_t)count - 1)));
    if (!whole)
        choice = zt_g_add(builder, choice,
                          ZT_G_SEQUENCE(builder, zt_g_text(builder, high, 1), same_length(builder, zeros, high + 1, count - 1)));
    return choice;
}

/* Whole numbers from low to high, neither below 0. */
static gexpr *whole_range(gbuilder *builder, int64_t low, int64_t high)
{
    gexpr *choice = zt_g_list(builder, G_CHOICE);
    for (int64_t from = low; choice && from <= high;) {
        char first[24], last[24];
        int count = snprintf(first, sizeof first, "%" PRId64, from);
        int64_t end = 9;
        for (int i = 1; i < count; i++) end = end > INT64_MAX / 10 - 1 ? INT64_MAX : end * 10 + 9;
        if (end > high) end = high;
        snprintf(last, sizeof last, "%" PRId64, end);
        choice = zt_g_add(builder, choice, same_length(builder, first, last, (size_t)count));
        if (end == INT64_MAX) break;
        from = end + 1;
    }
    return choice;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

typedef struct sbounds { /* no bound: the limit of what is written */
    int64_t low, high;
    bool open_low, open_high; /* exclusive */
    bool given;
} sbounds;

/* A bound as a whole number: for integers the next one inside. false: an error. */
static bool read_bound(const sreader *reader, const json_t *schema, const char *key, bool upper, bool integer, int64_t *bound,
                       bool *whole)
{
    const json_t *value = json_object_get(schema, key);
    double number = json_number_value(value);
    *whole = true;
    if (json_is_integer(value)) {
        *bound = json_integer_value(value);
        return true;
    }
    if (!json_is_real(value)) return zt_s_fail(reader, "\"%s\" is not a number", key), false;
    *whole = number == floor(number);
    if (!integer && !*whole) return zt_s_refuse(reader, key, "of numbers only a whole number is"), false;
    number = upper ? floor(number) : ceil(number);
    *bound = number >= 9e18 ? INT64_MAX : number <= -9e18 ? -INT64_MAX : (int64_t)number;
    return true;
}

/* false: an error. */
static bool read_bounds(const sreader *reader, const json_t *schema, bool integer, sbounds *bounds)
{
    static const struct {
        const char *key;
        bool upper, open;
    } keys[] = {
        {"minimum", false, false}, {"maximum", true, false}, {"exclusiveMinimum", false, true}, {"exclusiveMaximum", true, true}};
    bool set[2] = {false, false};
    *bounds = (sbounds){.low = -MOST_WHOLE, .high = MOST_WHOLE};
    for (int i = 0; i < 4; i++) {
        int64_t bound;
        bool whole, upper = keys[i].upper, open = keys[i].open;
        if (!json_object_get(schema, keys[i].key)) continue;
        if (!read_bound(reader, schema, keys[i].key, upper, integer, &bound, &whole)) return false;
        bounds->given = true;
        open = open && whole;
        if (integer && open && bound > -INT64_MAX && bound < INT64_MAX) bound += upper ? -1 : 1;
        if (integer) open = false;
        int64_t *mine = upper ? &bounds->high : &bounds->low;
        bool *mine_open = upper ? &bounds->open_high : &bounds->open_low;
        bool tighter = !set[upper] || (upper ? bound < *mine : bound > *mine) || (bound == *mine && open);
        set[upper] = true;
        if (!tighter) continue;
        *mine = bound;
        *mine_open = open;
    }
    /* one bound beyond what is written: the other end is as many digits away */
    if (set[0] && !set[1] && bounds->low > MOST_WHOLE / 10) bounds->high = INT64_MAX;
    if (set[1] && !set[0] && bounds->high < -MOST_WHOLE / 10) bounds->low = -INT64_MAX;
    if (bounds->low < -INT64_MAX) bounds->low = -INT64_MAX;
    return true;
}

static gexpr *negated(gbuilder *builder, gexpr *number) { return ZT_G_SEQUENCE(builder, zt_g_literal(builder, "-"), number); }

static gexpr *integer_range(gbuilder *builder, const sbounds *bounds)
{
    gexpr *choice = zt_g_list(builder, G_CHOICE);
    if (bounds->low < 0)
        choice =
            zt_g_add(builder, choice, negated(builder, whole_range(builder, bounds->high < 0 ? -bounds->high : 1, -bounds->low)));
    if (bounds->high < 0) return choice;
    return zt_g_add(builder, choice, whole_range(builder, bounds->low > 0 ? bounds->low : 0, bounds->high));
}

/* ---- numbers with fractions ------------------------------------------------------------------ */

static gexpr *fraction(gbuilder *builder)
{
    return ZT_G_SEQUENCE(builder, zt_g_literal(builder, "."), digits(builder, 1, FRACTION_DIGITS));
}

/* A number from low to high, neither below 0, without the bounds that are open. */
static gexpr *magnitude(gbuilder *builder, int64_t low, bool open_low, int64_t high, bool open_high)
{
    gexpr *choice = zt_g_list(builder, G_CHOICE),
          *zeros = zt_g_repeat(builder, zt_g_literal(builder, "0"), 0, FRACTION_DIGITS - 1);
    if (low > high || (low == high && (open_low || open_high))) return choice;
    int64_t from = low + open_low, to = high - 1; /* whole parts with any fraction */
    if (open_low && low < high)
        choice = zt_g_add(builder, choice,
                          ZT_G_SEQUENCE(builder, whole_range(builder, low, low), zt_g_literal(builder, "."), zeros,
                                        zt_g_range(builder, '1', '9'), digits(builder, 0, FRACTION_DIGITS)));
    if (from <= to)
        choice = zt_g_add(builder, choice,
                          ZT_G_SEQUENCE(builder, whole_range(builder, from, to), zt_g_optional(builder, fraction(builder))));
    if (open_high) return choice;
    gexpr *nothing = ZT_G_SEQUENCE(builder, zt_g_literal(builder, ".0"), zt_g_repeat(builder, zt_g_literal(builder, "0"), 0, 3));
    return zt_g_add(builder, choice, ZT_G_SEQUENCE(builder, whole_range(builder, high, high), zt_g_optional(builder, nothing)));
}

static gexpr *number_range(gbuilder *builder, const sbounds *bounds)
{
    gexpr *choice = zt_g_list(builder, G_CHOICE);
    if (bounds->low < 0) {
        bool below = bounds->high < 0;
        choice = zt_g_add(builder, choice,
                          negated(builder, magnitude(builder, below ? -bounds->high : 0, below ? bounds->open_high : true,
                                                     -bounds->low, bounds->open_low)));
    }
    if (bounds->high < 0) return choice;
    bool above = bounds->low >= 0;
    return zt_g_add(builder, choice,
                    magnitude(builder, above ? bounds->low : 0, above && bounds->open_low, bounds->high, bounds->open_high));
}

static gexpr *any_number(gbuilder *builder)
{
    gexpr *whole = ZT_G_CHOICE(builder, zt_g_literal(builder, "0"),
                               ZT_G_SEQUENCE(builder, zt_g_range(builder, '1', '9'), digits(builder, 0, WHOLE_DIGITS - 1)));
    gexpr *sign = zt_g_optional(builder, ZT_G_CHOICE(builder, zt_g_literal(builder, "+"), zt_g_literal(builder, "-")));
    gexpr *exponent = ZT_G_SEQUENCE(builder, ZT_G_CHOICE(builder, zt_g_literal(builder, "e"), zt_g_literal(builder, "E")), sign,
                                    digits(builder, 1, EXPONENT_DIGITS));
    return ZT_G_SEQUENCE(builder, zt_g_optional(builder, zt_g_literal(builder, "-")), whole,
                         zt_g_optional(builder, fraction(builder)), zt_g_optional(builder, exponent));
}

gexpr *zt_s_number(sreader *reader, const json_t *schema, bool integer)
{
    sbounds bounds;
    if (!read_bounds(reader, schema, integer, &bounds)) return NULL;
    if (integer) return integer_range(reader->builder, &bounds);
    return bounds.given ? number_range(reader->builder, &bounds) : any_number(reader->builder);
}
