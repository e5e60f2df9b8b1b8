/* scan.c - text up to a mark, as the rules of a deterministic automaton: one for each beginning of a mark with which the
 * text so far may end.
 *
 *     mark "ab"      nothing ::= [^a] nothing | "a" a
 *                    a       ::= [^ab] nothing | "a" a | "b" THEN
 *
 * The text is seen as bytes, so any token may come; in a strict scan as characters. The byte with which a control token
 * begins changes nothing: a mark may be a control token, or consist of several tokens.
 */
#include "lib/llm/grammar/internal.h"

#include <string.h>

enum { MOST_STATES = 2048 };

typedef struct unit_text { /* a mark, as bytes or characters */
    uint32_t *unit;
    size_t count;
} unit_text;

typedef struct scan_state { /* the text ends with the first `length` units of a mark */
    size_t mark, length;
    bool blank; /* so far there is only white space, or a beginning of a mark behind it */
    int rule;
} scan_state;

typedef struct scan_work {
    gbuilder *builder;
    const gscan *scan;
    unit_text *text;  /* [scan->count + 1]; the last is empty */
    uint32_t *letter; /* units of all marks, each once */
    size_t letter_count;
    scan_state *state;
    size_t state_count;
    uint32_t *unit; /* of the text that is looked at */
} scan_work;

/* ---- marks ----------------------------------------------------------------------------------- */

static bool is_blank(uint32_t unit) { return unit == ' ' || unit == '\n' || unit == '\t' || unit == '\r'; }

static bool read_units(scan_work *scanning, const char *text, unit_text *out)
{
    size_t size = strlen(text);
    out->unit = zt_arena_alloc(scanning->builder->arena, (size + 1) * sizeof *out->unit);
    for (size_t at = 0; out->unit && at < size; out->count++) {
        int length = scanning->scan->strict ? zt_utf8_decode(text + at, size - at, &out->unit[out->count]) : 1;
        if (length == 0) return zt_g_fail(scanning->builder, "not valid UTF-8"), false;
        if (!scanning->scan->strict) out->unit[out->count] = (unsigned char)text[at];
        at += (size_t)length;
    }
    return out->unit != NULL;
}

static void add_letters(scan_work *scanning, const unit_text *text)
{
    for (size_t i = 0; i < text->count; i++) {
        size_t k = 0;
        while (k < scanning->letter_count && scanning->letter[k] != text->unit[i]) k++;
        if (k == scanning->letter_count) scanning->letter[scanning->letter_count++] = text->unit[i];
    }
}

static bool read_marks(scan_work *scanning)
{
    static const uint32_t blanks[] = {' ', '\n', '\t', '\r'};
    zt_arena *arena = scanning->builder->arena;
    size_t count = scanning->scan->count, total = 0, longest = 0;
    scanning->text = zt_arena_alloc(arena, (count + 1) * sizeof *scanning->text);
    if (!scanning->text) return false;
    memset(scanning->text, 0, (count + 1) * sizeof *scanning->text);
    for (size_t i = 0; i < count; i++) {
        if (!read_units(scanning, scanning->scan->mark[i].text, &scanning->text[i])) return false;
        total += scanning->text[i].count;
        if (scanning->text[i].count > longest) longest = scanning->text[i].count;
    }
    scanning->letter = zt_arena_alloc(arena, (total + 4) * sizeof *scanning->letter);
    scanning->state = zt_arena_alloc(arena, MOST_STATES * sizeof *scanning->state);
    scanning->unit = zt_arena_alloc(arena, (longest + 1) * sizeof *scanning->unit);
    if (!scanning->letter || !scanning->state || !scanning->unit) return false;
    for (size_t i = 0; i < count; i++) add_letters(scanning, &scanning->text[i]);
    add_letters(scanning, &(unit_text){(uint32_t *)(uintptr_t)blanks, 4});
    return true;
}

/* ---- states ---------------------------------------------------------------------------------- */

/* The state with this beginning of a mark; made if it is new. MOST_STATES: an error. */
static size_t find_state(scan_work *scanning, size_t mark, size_t length, bool blank)
{
    const uint32_t *unit = scanning->text[mark].unit;
    for (size_t i = 0; i < scanning->state_count; i++) {
        const scan_state *state = &scanning->state[i];
        if (state->length == length && state->blank == blank &&
            (length == 0 || memcmp(scanning->text[state->mark].unit, unit, length * sizeof *unit) == 0))
            return i;
    }
    int rule = zt_g_rule(scanning->builder, "text", 4);
    if (rule < 0) return MOST_STATES;
    if (scanning->state_count == MOST_STATES) {
        zt_g_fail(scanning->builder, "the marks of a text have more than %d beginnings", MOST_STATES);
        return MOST_STATES;
    }
    scanning->state[scanning->state_count] = (scan_state){mark, length, blank, rule};
    return scanning->state_count++;
}

typedef struct scan_step { /* where a unit leads */
    bool mark;             /* to what follows a mark, */
    size_t index;          /* its index; or that of a state */
} scan_step;

static bool begins_with(const unit_text *text, const uint32_t *unit, size_t count)
{
    return text->count >= count && (count == 0 || memcmp(text->unit, unit, count * sizeof *unit) == 0);
}

/* The state at the beginning of a text, or behind text that is nothing. */
static size_t nothing_state(scan_work *scanning, bool blank) { return find_state(scanning, scanning->scan->count, 0, blank); }

/* From a state by a unit. */
static scan_step step_scan(scan_work *scanning, const scan_state *from, uint32_t unit)
{
    size_t count = from->length;
    if (count) memcpy(scanning->unit, scanning->text[from->mark].unit, count * sizeof unit);
    scanning->unit[count++] = unit;
    for (size_t skipped = 0; skipped < count; skipped++) /* a whole mark */
        for (size_t i = 0; i < scanning->scan->count; i++) {
            bool counts = !scanning->scan->mark[i].first || (from->blank && skipped == 0);
            const unit_text *text = &scanning->text[i];
            if (counts && text->count == count - skipped && begins_with(text, scanning->unit + skipped, text->count))
                return (scan_step){true, i};
        }
    if (from->blank && from->length == 0 && is_blank(unit)) return (scan_step){false, nothing_state(scanning, true)};
    for (size_t i = 0; i < scanning->scan->count && from->blank; i++)
        if (scanning->scan->mark[i].first && begins_with(&scanning->text[i], scanning->unit, count))
            return (scan_step){false, find_state(scanning, i, count, true)};
    for (size_t skipped = 0; skipped < count; skipped++) /* the beginning of one */
        for (size_t i = 0; i < scanning->scan->count; i++)
            if (!scanning->scan->mark[i].first && begins_with(&scanning->text[i], scanning->unit + skipped, count - skipped))
                return (scan_step){false, find_state(scanning, i, count - skipped, false)};
    return (scan_step){false, nothing_state(scanning, false)};
}

/* ---- rules ----------------------------------------------------------------------------------- */

static gexpr *control_byte(gbuilder *builder)
{
    static const gset control = {.word = {0, 0, 0, UINT64_C(1) << CONTROL_BYTE % 64}};
    return zt_g_bytes(builder, &control);
}

static gexpr *one_unit(scan_work *scanning, uint32_t unit)
{
    gset set = {{0}};
    if (scanning->scan->strict) return zt_g_range(scanning->builder, unit, unit);
    set.word[unit / 64] |= UINT64_C(1) << unit % 64;
    return zt_g_bytes(scanning->builder, &set);
}

/* All units but those that are listed, and the byte of control tokens. */
static gexpr *other_units(scan_work *scanning, const uint32_t *unit, size_t count)
{
    gset set;
    gchars chars = {0};
    memset(&set, 0xff, sizeof set);
    set.word[CONTROL_BYTE / 64] &= ~(UINT64_C(1) << CONTROL_BYTE % 64);
    for (size_t i = 0; i < count; i++) {
        if (!scanning->scan->strict)
            set.word[unit[i] / 64] &= ~(UINT64_C(1) << unit[i] % 64);
        else if (!zt_g_chars_add(scanning->builder, &chars, unit[i], unit[i]))
            return NULL;
    }
    if (!scanning->scan->strict) return zt_g_bytes(scanning->builder, &set);
    zt_g_chars_normalize(&chars);
    return zt_g_chars_invert(scanning->builder, &chars) ? zt_g_chars(scanning->builder, &chars) : NULL;
}

static gexpr *go_on(scan_work *scanning, gexpr *list, gexpr *unit, size_t state)
{
    gbuilder *builder = scanning->builder;
    if (state == MOST_STATES) return NULL;
    return zt_g_add(builder, list, ZT_G_SEQUENCE(builder, unit, zt_g_call(builder, scanning->state[state].rule)));
}

/* In a strict scan a control token may be the rest of a mark. */
static gexpr *add_control_ends(scan_work *scanning, gexpr *list, const scan_state *from)
{
    gbuilder *builder = scanning->builder;
    for (size_t i = 0; list && i < scanning->scan->count; i++)
        for (size_t skipped = 0; list && skipped <= from->length; skipped++) {
            const gmark *mark = &scanning->scan->mark[i];
            const uint32_t *unit = scanning->text[from->mark].unit + skipped;
            size_t count = from->length - skipped, bytes = 0;
            char text[4];
            if (mark->first || !mark->then || !begins_with(&scanning->text[i], unit, count)) continue;
            for (size_t k = 0; k < count; k++) bytes += (size_t)zt_utf8_encode(unit[k], text);
            gexpr *rest = zt_g_mark(builder, mark->text + bytes, strlen(mark->text) - bytes);
            list = zt_g_add(builder, list, ZT_G_SEQUENCE(builder, control_byte(builder), rest, mark->then));
        }
    return list;
}

static bool make_state(scan_work *scanning, size_t index)
{
    gbuilder *builder = scanning->builder;
    const scan_state from = scanning->state[index];
    gexpr *list = zt_g_list(builder, G_CHOICE);
    uint32_t *listed = zt_arena_alloc(builder->arena, (scanning->letter_count + 1) * sizeof *listed);
    size_t listed_count = 0, outside = nothing_state(scanning, false);
    for (size_t i = 0; listed && list && i < scanning->letter_count; i++) {
        uint32_t unit = scanning->letter[i];
        scan_step step = step_scan(scanning, &from, unit);
        if (!step.mark && step.index == outside) continue;
        listed[listed_count++] = unit;
        const gmark *mark = step.mark ? &scanning->scan->mark[step.index] : NULL;
        if (mark && mark->then)
            list = zt_g_add(builder, list, ZT_G_SEQUENCE(builder, one_unit(scanning, unit), mark->then));
        else if (!mark)
            list = go_on(scanning, list, one_unit(scanning, unit), step.index);
    }
    if (!listed) return false;
    list = go_on(scanning, list, other_units(scanning, listed, listed_count), outside);
    if (scanning->scan->strict)
        list = add_control_ends(scanning, list, &from);
    else
        list = go_on(scanning, list, control_byte(builder), index);
    if (scanning->scan->may_end) list = zt_g_add(builder, list, zt_g_literal(builder, ""));
    return zt_g_define(builder, from.rule, list);
}

gexpr *zt_g_scan(gbuilder *builder, const gscan *scan)
{
    scan_work scanning = {.builder = builder, .scan = scan};
    bool blank = false;
    for (size_t i = 0; i < scan->count; i++) blank = blank || scan->mark[i].first;
    if (!read_marks(&scanning)) return NULL;
    size_t start = nothing_state(&scanning, blank);
    for (size_t i = 0; i < scanning.state_count; i++)
        if (!make_state(&scanning, i)) return NULL;
    return start < MOST_STATES ? zt_g_call(builder, scanning.state[start].rule) : NULL;
}

gexpr *zt_g_mark(gbuilder *builder, const char *text, size_t size)
{
    gexpr *list = zt_g_list(builder, G_SEQUENCE), *begin = zt_g_optional(builder, control_byte(builder));
    for (size_t i = 0; list && i < size; i++) {
        list = zt_g_add(builder, list, begin);
        list = zt_g_add(builder, list, zt_g_text(builder, text + i, 1));
    }
    return list;
}
