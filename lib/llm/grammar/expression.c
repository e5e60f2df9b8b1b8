/* expression.c - expressions: what the notations are read into, and rules are made of. */
#include "lib/llm/grammar/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *zt_g_fail(const gbuilder *builder, const char *format, ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    zt_fail(builder->ctx, ZT_EDATA, "%s: %s", builder->name, message);
    return NULL;
}

zt_ctx *zt_g_context(const gbuilder *builder) { return builder->ctx; }

void zt_g_name(gbuilder *builder, const char *name) { builder->name = name; }

static gexpr *new_expression(gbuilder *builder, gkind kind)
{
    if (++builder->expressions > MOST_EXPRESSIONS) return zt_g_fail(builder, "more than %d expressions", MOST_EXPRESSIONS);
    gexpr *expr = zt_arena_alloc(builder->arena, sizeof *expr);
    if (expr) *expr = (gexpr){.kind = kind};
    return expr;
}

gexpr *zt_g_text(gbuilder *builder, const char *text, size_t size)
{
    gexpr *expr = new_expression(builder, G_TEXT);
    const char *copy = expr ? zt_arena_strndup(builder->arena, text, size) : NULL;
    if (!copy) return NULL;
    expr->text = (zt_bytes){copy, size};
    return expr;
}

gexpr *zt_g_literal(gbuilder *builder, const char *text) { return zt_g_text(builder, text, strlen(text)); }

gexpr *zt_g_chars(gbuilder *builder, const gchars *chars)
{
    gexpr *expr = new_expression(builder, G_CHARS);
    grange *range = expr ? zt_arena_alloc(builder->arena, (size_t)(chars->count + 1) * sizeof *range) : NULL;
    if (!range) return NULL;
    if (chars->count) memcpy(range, chars->range, (size_t)chars->count * sizeof *range);
    expr->chars = (gchars){range, chars->count, chars->count + 1};
    zt_g_chars_normalize(&expr->chars);
    return expr;
}

gexpr *zt_g_bytes(gbuilder *builder, const gset *bytes)
{
    gexpr *expr = new_expression(builder, G_BYTES);
    if (expr) expr->bytes = *bytes;
    return expr;
}

gexpr *zt_g_range(gbuilder *builder, uint32_t first, uint32_t last)
{
    grange range = {first, last};
    return zt_g_chars(builder, &(gchars){&range, 1, 1});
}

gexpr *zt_g_list(gbuilder *builder, gkind kind) { return new_expression(builder, kind); }

gexpr *zt_g_add(gbuilder *builder, gexpr *list, gexpr *item)
{
    if (!list || !item) return NULL;
    if (list->list.count == list->list.capacity) {
        int capacity = list->list.capacity ? 2 * list->list.capacity : 4;
        gexpr **grown = zt_arena_alloc(builder->arena, (size_t)capacity * sizeof *grown);
        if (!grown) return NULL;
        if (list->list.count) memcpy(grown, list->list.item, (size_t)list->list.count * sizeof *grown);
        list->list.item = grown;
        list->list.capacity = capacity;
    }
    list->list.item[list->list.count++] = item;
    return list;
}

static gexpr *list_of(gbuilder *builder, gkind kind, int count, gexpr *const *item)
{
    gexpr *list = zt_g_list(builder, kind);
    for (int i = 0; i < count; i++) list = zt_g_add(builder, list, item[i]);
    return list;
}

gexpr *zt_g_sequence(gbuilder *builder, int count, gexpr *const *item) { return list_of(builder, G_SEQUENCE, count, item); }

gexpr *zt_g_choice(gbuilder *builder, int count, gexpr *const *item) { return list_of(builder, G_CHOICE, count, item); }

gexpr *zt_g_repeat(gbuilder *builder, gexpr *body, int64_t least, int64_t most)
{
    gexpr *expr = body ? new_expression(builder, G_REPEAT) : NULL;
    if (!expr) return NULL;
    expr->repeat.body = body;
    expr->repeat.least = least;
    expr->repeat.most = most;
    return expr;
}

gexpr *zt_g_optional(gbuilder *builder, gexpr *body) { return zt_g_repeat(builder, body, 0, 1); }

int zt_g_rule(gbuilder *builder, const char *name, size_t size)
{
    if (builder->rule_count == builder->rule_capacity) {
        int capacity = builder->rule_capacity ? 2 * builder->rule_capacity : 16;
        grule *grown = zt_realloc(builder->ctx, builder->rule, (size_t)capacity * sizeof *grown);
        if (!grown) return -1;
        builder->rule = grown;
        builder->rule_capacity = capacity;
    }
    const char *copy = zt_arena_strndup(builder->arena, name, size);
    if (!copy) return -1;
    builder->rule[builder->rule_count] = (grule){copy, NULL};
    return builder->rule_count++;
}

bool zt_g_define(gbuilder *builder, int rule, gexpr *expr)
{
    if (rule < 0 || !expr) return false;
    builder->rule[rule].expr = expr;
    return true;
}

gexpr *zt_g_as_rule(gbuilder *builder, gexpr *expr)
{
    int rule = expr ? zt_g_rule(builder, "part", 4) : -1;
    return zt_g_define(builder, rule, expr) ? zt_g_call(builder, rule) : NULL;
}

gexpr *zt_g_call(gbuilder *builder, int rule)
{
    gexpr *expr = rule >= 0 ? new_expression(builder, G_RULE) : NULL;
    if (expr) expr->rule = rule;
    return expr;
}

/* ---- one of many texts ----------------------------------------------------------------------- */

static int compare_texts(const void *first, const void *second)
{
    const zt_bytes *left = first, *right = second;
    size_t shorter = left->n < right->n ? left->n : right->n;
    int order = shorter ? memcmp(left->data, right->data, shorter) : 0;
    return order ? order : (left->n > right->n) - (left->n < right->n);
}

/* Of sorted texts that are equal up to `from`: the length up to which they are equal. The last decides. */
static size_t common_length(const zt_bytes *texts, size_t count, size_t from)
{
    const zt_bytes *first = &texts[0], *last = &texts[count - 1];
    while (from < first->n && from < last->n && first->data[from] == last->data[from]) from++;
    return from;
}

/* Of sorted texts, without their first `from` bytes, which are equal. A level deeper for each byte at which texts part. */
static gexpr *choose_text(gbuilder *builder, const zt_bytes *texts, size_t count, size_t from, int depth)
{
    size_t common = common_length(texts, count, from), begin = 0;
    gexpr *rest = zt_g_list(builder, G_CHOICE);
    if (count == 1) return zt_g_text(builder, texts[0].data + from, texts[0].n - from);
    while (begin < count && texts[begin].n == common) begin++; /* equal texts count once */
    if (begin) rest = zt_g_add(builder, rest, zt_g_literal(builder, ""));
    for (size_t end; rest && begin < count; begin = end) {
        for (end = begin + 1; end < count && texts[end].data[common] == texts[begin].data[common];) end++;
        bool deep = depth >= MOST_NESTING;
        for (size_t i = begin; deep && rest && i < end; i++)
            rest = zt_g_add(builder, rest, zt_g_text(builder, texts[i].data + common, texts[i].n - common));
        if (!deep) rest = zt_g_add(builder, rest, choose_text(builder, texts + begin, end - begin, common, depth + 1));
    }
    return ZT_G_SEQUENCE(builder, zt_g_text(builder, texts[0].data + from, common - from), rest);
}

gexpr *zt_g_one_of(gbuilder *builder, zt_bytes *texts, size_t count)
{
    if (count == 0) return zt_g_list(builder, G_CHOICE);
    qsort(texts, count, sizeof *texts, compare_texts);
    return choose_text(builder, texts, count, 0, 0);
}
