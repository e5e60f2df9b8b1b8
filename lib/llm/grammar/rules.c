/* rules.c - expressions become rules, whose alternatives are sequences of byte sets and rules.
 *
 *     "ab" | [0-9]{2,} x      rule ::= {a} {b} | {0-9} {0-9} more x
 *                             more ::= {0-9} more | (nothing)
 *
 * A set of characters beyond ASCII is a rule of its own, with an alternative for each sequence of byte ranges. What is
 * repeated is one symbol, and the rules of a repetition are shared by all places where it is met.
 *
 * Then the rules are checked: each must derive some text (alternatives that derive none are left out), and none may begin
 * with itself.
 */
#include "lib/llm/grammar/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct pending_rule { /* a rule that has a number, and no alternatives yet */
    uint32_t rule;
    const gexpr *expr; /* NULL: `symbol` and then `next`, or nothing */
    gsymbol symbol, next;
} pending_rule;

typedef struct lowering {
    gbuilder *builder;
    grules *rules;
    pending_rule *pending;
    size_t pending_count, pending_capacity, done;
    zt_map *sets, *characters, *repeats; /* by their bytes: to the index of a set, to a rule */
    int name;                            /* of the rule that is made */
    bool failed;
} lowering;

/* ---- growing arrays -------------------------------------------------------------------------- */

static bool reserve_items(zt_ctx *ctx, void **array, size_t size, uint32_t count, uint32_t *capacity)
{
    if (count < *capacity) return true;
    uint32_t wanted = *capacity ? 2 * *capacity : 64;
    void *grown = zt_realloc(ctx, *array, wanted * size);
    if (!grown) return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

static void put_symbol(lowering *low, gsymbol symbol)
{
    grules *rules = low->rules;
    if (low->failed) return;
    if (rules->symbol_count >= MOST_SYMBOLS) {
        zt_g_fail(low->builder, "the grammar is too large: more than %d symbols with its repetitions written out", MOST_SYMBOLS);
        low->failed = true;
    } else if (!reserve_items(low->builder->ctx, (void **)&rules->symbol, sizeof symbol, rules->symbol_count,
                              &rules->symbol_capacity)) {
        low->failed = true;
    } else {
        rules->symbol[rules->symbol_count++] = symbol;
    }
}

static void begin_alternative(lowering *low)
{
    grules *rules = low->rules;
    if (low->failed || !reserve_items(low->builder->ctx, (void **)&rules->alternative, sizeof *rules->alternative,
                                      rules->alternative_count, &rules->alternative_capacity))
        low->failed = true;
    else
        rules->alternative[rules->alternative_count++] = rules->symbol_count;
}

/* A new rule, whose alternatives are made later. */
static gsymbol add_rule(lowering *low, pending_rule made)
{
    grules *rules = low->rules;
    if (low->failed) return SYMBOL_END;
    if (low->pending_count == low->pending_capacity) {
        size_t capacity = low->pending_capacity ? 2 * low->pending_capacity : 64;
        pending_rule *grown = zt_realloc(low->builder->ctx, low->pending, capacity * sizeof *grown);
        if (grown) {
            low->pending = grown;
            low->pending_capacity = capacity;
        }
        low->failed = !grown;
    }
    if (low->failed ||
        !reserve_items(low->builder->ctx, (void **)&rules->body, sizeof *rules->body, rules->rule_count, &rules->rule_capacity)) {
        low->failed = true;
        return SYMBOL_END;
    }
    rules->body[rules->rule_count] = (gbody){.name = low->name};
    made.rule = rules->rule_count;
    low->pending[low->pending_count++] = made;
    return SYMBOL_OF(SYMBOL_RULE, rules->rule_count++);
}

/* ---- symbols --------------------------------------------------------------------------------- */

/* Puts a key that lives as long as the builder. */
static void remember(lowering *low, zt_map *map, const void *key, size_t size, int64_t value)
{
    const char *copy = zt_arena_strndup(low->builder->arena, key, size);
    if (!copy || zt_map_put(map, copy, size, value) != ZT_OK) low->failed = true;
}

static gsymbol set_symbol(lowering *low, const gset *set)
{
    grules *rules = low->rules;
    int64_t index;
    if (low->failed) return SYMBOL_END;
    if (zt_map_get(low->sets, (const char *)set, sizeof *set, &index)) return SYMBOL_OF(SYMBOL_SET, index);
    if (!reserve_items(low->builder->ctx, (void **)&rules->set, sizeof *set, rules->set_count, &rules->set_capacity)) {
        low->failed = true;
        return SYMBOL_END;
    }
    rules->set[rules->set_count] = *set;
    remember(low, low->sets, set, sizeof *set, rules->set_count);
    return SYMBOL_OF(SYMBOL_SET, rules->set_count++);
}

static void add_bytes(gset *set, unsigned first, unsigned last)
{
    for (unsigned byte = first; byte <= last; byte++) zt_g_set_add(set, byte);
}

static gsymbol range_symbol(lowering *low, unsigned first, unsigned last)
{
    gset set = {{0}};
    add_bytes(&set, first, last);
    return set_symbol(low, &set);
}

static gsymbol characters_symbol(lowering *low, const gexpr *expr)
{
    const gchars *chars = &expr->chars;
    gset set = {{0}};
    int64_t rule;
    size_t size = (size_t)chars->count * sizeof *chars->range;
    if (chars->count == 0 || chars->range[chars->count - 1].last < 0x80) {
        for (int i = 0; i < chars->count; i++) add_bytes(&set, chars->range[i].first, chars->range[i].last);
        return set_symbol(low, &set);
    }
    if (zt_map_get(low->characters, (const char *)chars->range, size, &rule)) return SYMBOL_OF(SYMBOL_RULE, rule);
    gsymbol symbol = add_rule(low, (pending_rule){.expr = expr});
    if (!low->failed) remember(low, low->characters, chars->range, size, SYMBOL_INDEX(symbol));
    return symbol;
}

/* One symbol for an expression. */
static gsymbol single_symbol(lowering *low, const gexpr *expr)
{
    while ((expr->kind == G_SEQUENCE || expr->kind == G_CHOICE) && expr->list.count == 1) expr = expr->list.item[0];
    if (expr->kind == G_RULE) return SYMBOL_OF(SYMBOL_RULE, expr->rule);
    if (expr->kind == G_CHARS) return characters_symbol(low, expr);
    if (expr->kind == G_BYTES) return set_symbol(low, &expr->bytes);
    if (expr->kind == G_TEXT && expr->text.n == 1)
        return range_symbol(low, (unsigned char)expr->text.data[0], (unsigned char)expr->text.data[0]);
    return add_rule(low, (pending_rule){.expr = expr});
}

/* The rule of up to `most` times the symbol; -1: of any number of times. */
static gsymbol repeated_symbol(lowering *low, gsymbol symbol, int64_t most)
{
    struct {
        int64_t symbol, most;
    } key = {symbol, most};
    int64_t rule;
    gsymbol next = SYMBOL_END;
    if (zt_map_get(low->repeats, (const char *)&key, sizeof key, &rule)) return SYMBOL_OF(SYMBOL_RULE, rule);
    if (most < 0) {
        next = add_rule(low, (pending_rule){.symbol = symbol});
        if (!low->failed) low->pending[low->pending_count - 1].next = next;
        if (!low->failed) remember(low, low->repeats, &key, sizeof key, SYMBOL_INDEX(next));
        return next;
    }
    /* from the longest that exists up, so that nothing calls itself here */
    int64_t times = most;
    for (; times > 1; times--) {
        key.most = times - 1;
        if (!zt_map_get(low->repeats, (const char *)&key, sizeof key, &rule)) continue;
        next = SYMBOL_OF(SYMBOL_RULE, rule);
        break;
    }
    for (; times <= most && !low->failed; times++) {
        next = add_rule(low, (pending_rule){.symbol = symbol, .next = next});
        key.most = times;
        if (!low->failed) remember(low, low->repeats, &key, sizeof key, SYMBOL_INDEX(next));
    }
    return next;
}

static void put_repeat(lowering *low, const gexpr *expr)
{
    int64_t least = expr->repeat.least, most = expr->repeat.most;
    if (most == 0) return;
    gsymbol symbol = single_symbol(low, expr->repeat.body);
    for (int64_t i = 0; i < least && !low->failed; i++) put_symbol(low, symbol);
    if (!low->failed && most != least) put_symbol(low, repeated_symbol(low, symbol, most < 0 ? -1 : most - least));
}

static void put_sequence(lowering *low, const gexpr *expr)
{
    switch (expr->kind) {
    case G_TEXT:
        for (size_t i = 0; i < expr->text.n && !low->failed; i++)
            put_symbol(low, range_symbol(low, (unsigned char)expr->text.data[i], (unsigned char)expr->text.data[i]));
        return;
    case G_SEQUENCE:
        for (int i = 0; i < expr->list.count && !low->failed; i++) put_sequence(low, expr->list.item[i]);
        return;
    case G_REPEAT: put_repeat(low, expr); return;
    default: put_symbol(low, single_symbol(low, expr));
    }
}

/* ---- alternatives ---------------------------------------------------------------------------- */

static bool put_byte_sequence(void *user, const gbytes_sequence *sequence)
{
    lowering *low = user;
    if (sequence->count == 1) return !low->failed;
    begin_alternative(low);
    for (int i = 0; i < sequence->count; i++) put_symbol(low, range_symbol(low, sequence->first[i], sequence->last[i]));
    put_symbol(low, SYMBOL_END);
    return !low->failed;
}

static void put_characters(lowering *low, const gchars *chars)
{
    gset ascii = {{0}};
    for (int i = 0; i < chars->count; i++) {
        grange range = chars->range[i];
        if (range.first < 0x80) add_bytes(&ascii, range.first, range.last < 0x7f ? range.last : 0x7f);
    }
    if (ascii.word[0] || ascii.word[1]) {
        begin_alternative(low);
        put_symbol(low, set_symbol(low, &ascii));
        put_symbol(low, SYMBOL_END);
    }
    zt_g_chars_bytes(chars, put_byte_sequence, low);
}

static void put_alternatives(lowering *low, const gexpr *expr)
{
    if (expr->kind == G_CHOICE) {
        for (int i = 0; i < expr->list.count && !low->failed; i++) put_alternatives(low, expr->list.item[i]);
        return;
    }
    if (expr->kind == G_CHARS) {
        put_characters(low, &expr->chars);
        return;
    }
    begin_alternative(low);
    put_sequence(low, expr);
    put_symbol(low, SYMBOL_END);
}

static void make_pending(lowering *low)
{
    for (; low->done < low->pending_count && !low->failed; low->done++) {
        pending_rule made = low->pending[low->done];
        gbody *body = &low->rules->body[made.rule];
        low->name = body->name;
        body->first = low->rules->alternative_count;
        if (made.expr) {
            put_alternatives(low, made.expr);
        } else {
            begin_alternative(low);
            put_symbol(low, made.symbol);
            if (made.next != SYMBOL_END) put_symbol(low, made.next);
            put_symbol(low, SYMBOL_END);
            begin_alternative(low);
            put_symbol(low, SYMBOL_END);
        }
        low->rules->body[made.rule].end = low->rules->alternative_count;
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool is_empty_set(const grules *rules, gsymbol symbol)
{
    const gset *set = &rules->set[SYMBOL_INDEX(symbol)];
    return (set->word[0] | set->word[1] | set->word[2] | set->word[3]) == 0;
}

typedef struct occurrences { /* where each rule is called: the alternatives that call it, by rule */
    uint32_t *first;         /* [rule_count + 1] */
    uint32_t *alternative;
    uint32_t *owner; /* [alternative_count]: the rule that an alternative is of */
    uint32_t *calls; /* [alternative_count]: how many of its calls are not settled */
    uint32_t *queue; /* [rule_count] */
} occurrences;

static bool list_occurrences(gbuilder *builder, const grules *rules, occurrences *all)
{
    size_t rule_count = rules->rule_count, count = rules->alternative_count;
    all->first = zt_calloc(builder->ctx, rule_count + 2, sizeof *all->first);
    all->alternative = zt_alloc_array(builder->ctx, rules->symbol_count, sizeof *all->alternative);
    all->owner = zt_alloc_array(builder->ctx, count, sizeof *all->owner);
    all->calls = zt_alloc_array(builder->ctx, count, sizeof *all->calls);
    all->queue = zt_alloc_array(builder->ctx, rule_count, sizeof *all->queue);
    if (!all->first || !all->alternative || !all->owner || !all->calls || !all->queue) return false;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t at = rules->alternative[i]; rules->symbol[at] != SYMBOL_END; at++)
            if ((rules->symbol[at] & SYMBOL_KIND) == SYMBOL_RULE) all->first[SYMBOL_INDEX(rules->symbol[at]) + 2]++;
    for (size_t rule = 0; rule <= rule_count; rule++) all->first[rule + 1] += all->first[rule];
    for (uint32_t rule = 0; rule < rule_count; rule++)
        for (uint32_t i = rules->body[rule].first; i < rules->body[rule].end; i++) all->owner[i] = rule;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t at = rules->alternative[i]; rules->symbol[at] != SYMBOL_END; at++)
            if ((rules->symbol[at] & SYMBOL_KIND) == SYMBOL_RULE)
                all->alternative[all->first[SYMBOL_INDEX(rules->symbol[at]) + 1]++] = i;
    return true;
}

static void drop_occurrences(zt_ctx *ctx, occurrences *all)
{
    zt_free(ctx, all->first);
    zt_free(ctx, all->alternative);
    zt_free(ctx, all->owner);
    zt_free(ctx, all->calls);
    zt_free(ctx, all->queue);
}

/* Sets out[rule] where an alternative has only symbols that derive some text, or with `empty` the empty text. Each
 * alternative is looked at once, and once more for each call in it. */
static void find_derivable(const grules *rules, occurrences *all, bool empty, bool *out)
{
    uint32_t queued = 0;
    for (uint32_t i = 0; i < rules->alternative_count; i++) {
        bool blocked = false;
        all->calls[i] = 0;
        for (uint32_t at = rules->alternative[i]; rules->symbol[at] != SYMBOL_END; at++) {
            bool call = (rules->symbol[at] & SYMBOL_KIND) == SYMBOL_RULE;
            all->calls[i] += call;
            blocked = blocked || (!call && (empty || is_empty_set(rules, rules->symbol[at])));
        }
        if (blocked) all->calls[i] = UINT32_MAX;
        if (all->calls[i] || out[all->owner[i]]) continue;
        out[all->owner[i]] = true;
        all->queue[queued++] = all->owner[i];
    }
    for (uint32_t next = 0; next < queued; next++) {
        uint32_t rule = all->queue[next];
        for (uint32_t j = all->first[rule]; j < all->first[rule + 1]; j++) {
            uint32_t i = all->alternative[j];
            if (all->calls[i] == UINT32_MAX || --all->calls[i] || out[all->owner[i]]) continue;
            out[all->owner[i]] = true;
            all->queue[queued++] = all->owner[i];
        }
    }
}

/* Leaves out alternatives that derive no text: those whose calls are not all settled. The rules' alternatives lie in the
 * order of the rules. */
static void drop_alternatives(grules *rules, const occurrences *all)
{
    uint32_t kept = 0;
    for (uint32_t rule = 0; rule < rules->rule_count; rule++) {
        gbody *body = &rules->body[rule];
        uint32_t first = kept;
        for (uint32_t i = body->first; i < body->end; i++)
            if (all->calls[i] == 0) rules->alternative[kept++] = rules->alternative[i];
        body->first = first;
        body->end = kept;
    }
    rules->alternative_count = kept;
}

/* The next call at or after the position with which the rule may begin: only nullable rules are before it. */
static uint32_t next_beginning(const grules *rules, uint32_t position, bool fresh)
{
    if (!fresh) {
        if (!rules->nullable[SYMBOL_INDEX(rules->symbol[position])]) return UINT32_MAX;
        position++;
    }
    return (rules->symbol[position] & SYMBOL_KIND) == SYMBOL_RULE ? position : UINT32_MAX;
}

typedef struct visit { /* of a rule in a depth-first search: the place in its alternatives */
    uint32_t rule, alternative, position;
} visit;

/* Numbers the rules so that each comes before those that it may begin with. A call of the rule itself at the end of an
 * alternative, behind nothing but nullable rules, adds nothing and is passed over. */
static bool order_rules(gbuilder *builder, grules *rules)
{
    enum { NEW, OPEN, DONE };
    unsigned char *mark = zt_calloc(builder->ctx, rules->rule_count, 1);
    visit *stack = zt_alloc_array(builder->ctx, rules->rule_count, sizeof *stack);
    uint32_t number = rules->rule_count;
    const char *recursive = NULL;
    for (uint32_t root = 0; mark && stack && root < rules->rule_count && !recursive; root++) {
        size_t depth = 0;
        if (mark[root] != NEW) continue;
        mark[root] = OPEN;
        stack[depth++] = (visit){root, rules->body[root].first, UINT32_MAX};
        while (depth && !recursive) {
            visit *top = &stack[depth - 1];
            if (top->alternative == rules->body[top->rule].end) {
                mark[top->rule] = DONE;
                rules->order[top->rule] = --number;
                depth--;
                continue;
            }
            bool fresh = top->position == UINT32_MAX;
            uint32_t position = fresh ? rules->alternative[top->alternative] : top->position;
            top->position = next_beginning(rules, position, fresh);
            if (top->position == UINT32_MAX) {
                top->alternative++;
                continue;
            }
            uint32_t called = SYMBOL_INDEX(rules->symbol[top->position]);
            bool at_end = rules->symbol[top->position + 1] == SYMBOL_END;
            if (mark[called] == OPEN && !(called == top->rule && at_end)) {
                int name = rules->body[called].name;
                recursive = name >= 0 ? builder->rule[name].name : "root";
            } else if (mark[called] == NEW) {
                mark[called] = OPEN;
                stack[depth++] = (visit){called, rules->body[called].first, UINT32_MAX};
            }
        }
    }
    bool made = mark && stack && !recursive;
    if (recursive) zt_g_fail(builder, "left recursion: rule '%.100s' may begin with itself; write it as a repetition", recursive);
    zt_free(builder->ctx, mark);
    zt_free(builder->ctx, stack);
    return made;
}

static bool check_rules(gbuilder *builder, grules *rules, uint32_t root)
{
    occurrences all = {0};
    bool *derivable = zt_calloc(builder->ctx, rules->rule_count, sizeof *derivable);
    rules->nullable = zt_calloc(builder->ctx, rules->rule_count, sizeof *rules->nullable);
    rules->order = zt_alloc_array(builder->ctx, rules->rule_count, sizeof *rules->order);
    bool made = derivable && rules->nullable && rules->order && list_occurrences(builder, rules, &all);
    if (made) {
        find_derivable(rules, &all, false, derivable);
        made = derivable[root];
        if (!made) zt_g_fail(builder, "no text fits the grammar");
    }
    if (made) {
        drop_alternatives(rules, &all);
        drop_occurrences(builder->ctx, &all);
        made = list_occurrences(builder, rules, &all);
    }
    if (made) {
        find_derivable(rules, &all, true, rules->nullable);
        made = order_rules(builder, rules);
    }
    drop_occurrences(builder->ctx, &all);
    zt_free(builder->ctx, derivable);
    return made;
}

/* ---- byte classes ---------------------------------------------------------------------------- */

/* Bytes that are in the same sets are one class. The sets become sets of classes. */
static bool classify_bytes(zt_ctx *ctx, grules *rules)
{
    unsigned count = 1;
    if (!(rules->set_bytes = zt_alloc_array(ctx, (size_t)rules->set_count + 1, sizeof *rules->set_bytes))) return false;
    if (rules->set_count) memcpy(rules->set_bytes, rules->set, rules->set_count * sizeof *rules->set);
    for (uint32_t i = 0; i < rules->set_count; i++) {
        int16_t inside[256];
        memset(inside, -1, sizeof inside);
        bool seen[256] = {false};
        for (unsigned byte = 0; byte < 256; byte++)
            if (!zt_g_set_has(&rules->set[i], byte)) seen[rules->byte_class[byte]] = true;
        for (unsigned byte = 0; byte < 256; byte++) {
            unsigned byte_class = rules->byte_class[byte];
            if (!zt_g_set_has(&rules->set[i], byte) || !seen[byte_class]) continue;
            if (inside[byte_class] < 0) inside[byte_class] = (int16_t)count++;
            rules->byte_class[byte] = (unsigned char)inside[byte_class];
        }
    }
    rules->class_count = count;
    for (uint32_t i = 0; i < rules->set_count; i++) {
        gset classes = {{0}};
        for (unsigned byte = 0; byte < 256; byte++)
            if (zt_g_set_has(&rules->set[i], byte)) zt_g_set_add(&classes, rules->byte_class[byte]);
        rules->set[i] = classes;
    }
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

bool zt_g_rules_make(gbuilder *builder, gexpr *root, grules *rules)
{
    zt_ctx *ctx = builder->ctx;
    lowering low = {.builder = builder, .rules = rules, .failed = root == NULL};
    low.sets = zt_map_new(ctx, 64);
    low.characters = zt_map_new(ctx, 64);
    low.repeats = zt_map_new(ctx, 64);
    if (!low.sets || !low.characters || !low.repeats) low.failed = true;
    for (int i = 0; i < builder->rule_count && !low.failed; i++) { /* in the builder's order, with its numbers */
        low.name = i;
        add_rule(&low, (pending_rule){.expr = builder->rule[i].expr});
    }
    low.name = -1;
    gsymbol called = low.failed ? SYMBOL_END : add_rule(&low, (pending_rule){.expr = root});
    make_pending(&low);
    rules->start = rules->symbol_count;
    put_symbol(&low, called);
    put_symbol(&low, SYMBOL_END);
    bool made = !low.failed && check_rules(builder, rules, SYMBOL_INDEX(called));
    made = made && classify_bytes(ctx, rules);
    zt_map_free(low.sets);
    zt_map_free(low.characters);
    zt_map_free(low.repeats);
    zt_free(ctx, low.pending);
    return made;
}

void zt_g_rules_fini(zt_ctx *ctx, grules *rules)
{
    zt_free(ctx, rules->symbol);
    zt_free(ctx, rules->alternative);
    zt_free(ctx, rules->body);
    zt_free(ctx, rules->nullable);
    zt_free(ctx, rules->order);
    zt_free(ctx, rules->set);
    zt_free(ctx, rules->set_bytes);
    *rules = (grules){0};
}
