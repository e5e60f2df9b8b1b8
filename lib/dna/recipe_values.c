/* recipe_values.c - owns what "parameters" say: numbers, switches, lists of them and conditions. */
#include "lib/base/near.h"
#include "lib/dna/recipe_internal.h"

#include <math.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

static bool contains_word(const char *text, const char *words) /* " yes no " */
{
    size_t length = strlen(text);
    for (const char *cursor = words; length && (cursor = strstr(cursor, text)); cursor++)
        if (cursor > words && cursor[-1] == ' ' && cursor[length] == ' ') return true;
    return false;
}

/* YAML 1.1's switches. */
static bool is_switch(const zt_tree *node, double *out)
{
    bool on = contains_word(node->text, " true True TRUE yes Yes YES on On ON ");
    bool off = contains_word(node->text, " false False FALSE no No NO off Off OFF ");
    *out = on;
    return node->plain && (on || off);
}

/* true is mergekit's rule, the same L1 norm; the others by name. */
static bool parse_rescale(const zt_tree *node, double *out)
{
    static const char *const words[] = {"none", "l1", "density"};
    double on;
    if (is_switch(node, &on)) {
        *out = on ? RESCALE_L1 : RESCALE_NONE;
        return true;
    }
    for (int i = 0; i < 3; i++)
        if (!strcmp(node->text, words[i])) {
            *out = i;
            return true;
        }
    return false;
}

static zt_status read_number(recipe_builder *builder, const zt_tree *node, merge_param param, double *out)
{
    const merge_param_info *about = &zt_merge_params[param];
    char shown[80];
    bool good = node->kind == ZT_TREE_SCALAR;
    if (good && about->kind == 'r')
        good = parse_rescale(node, out);
    else if (good)
        good = is_switch(node, out) || zt_parse_double(node->text, out);
    if (good && about->kind == 'b') good = *out == 0 || *out == 1;
    if (!good)
        return REFUSE(node, "parameter '%s': '%s' is no %s", about->name,
                      node->kind == ZT_TREE_SCALAR ? zt_escape(shown, sizeof shown, node->text, strlen(node->text))
                                                   : "a list in a list",
                      about->kind == 'b'   ? "switch"
                      : about->kind == 'r' ? "rescaling"
                                           : "number");
    if (!isfinite(*out) || *out < about->minimum || *out > about->maximum)
        return REFUSE(node, "parameter '%s': %g is out of range", about->name, *out);
    return ZT_OK;
}

static zt_status read_values(recipe_builder *builder, const zt_tree *node, merge_param param, merge_cond *condition)
{
    bool list = node->kind == ZT_TREE_LIST;
    int64_t count = list ? node->count : zt_recipe_is_null(node) ? 0 : 1;
    condition->values = zt_recipe_alloc(builder, count, sizeof *condition->values);
    if (!condition->values) return ZT_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        zt_status status = read_number(builder, list ? node->items[i] : node, param, &condition->values[i]);
        if (status != ZT_OK) return status;
    }
    condition->count = (int)count;
    return ZT_OK;
}

typedef struct cond_into {
    merge_cond *condition;
    const zt_tree *value;
} cond_into;

static zt_status on_filter(recipe_builder *builder, const zt_tree *node, void *into)
{
    cond_into *target = into;
    zt_status status = zt_recipe_text(builder, node, "filter", &target->condition->filter);
    if (status == ZT_OK && !strcmp(target->condition->filter, "*")) target->condition->filter = NULL;
    return status;
}

static zt_status on_value(recipe_builder *builder, const zt_tree *node, void *into)
{
    (void)builder;
    ((cond_into *)into)->value = node;
    return ZT_OK;
}

static zt_status read_condition(recipe_builder *builder, const zt_tree *node, merge_param param, merge_cond *condition)
{
    static const recipe_key keys[] = {{"filter", on_filter}, {"value", on_value}, {0}};
    cond_into into = {.condition = condition};
    zt_status status = zt_recipe_keys(builder, node, "a condition", keys, &into);
    if (status == ZT_OK && !zt_tree_get(node, "value")) status = REFUSE(node, "a condition without 'value'");
    return status == ZT_OK && into.value ? read_values(builder, into.value, param, condition) : status;
}

/* A scalar, a list of scalars, a condition, or a list of conditions. */
static zt_status read_setting(recipe_builder *builder, const zt_tree *node, merge_setting *set)
{
    bool list = node->kind == ZT_TREE_LIST && node->count && node->items[0]->kind == ZT_TREE_MAP;
    set->count = list ? (int)node->count : 1;
    set->conditions = zt_recipe_alloc(builder, set->count, sizeof *set->conditions);
    if (!set->conditions) return ZT_ENOMEM;
    if (!list && node->kind != ZT_TREE_MAP) return read_values(builder, node, set->param, set->conditions);
    for (int i = 0; i < set->count; i++) {
        zt_status status = read_condition(builder, list ? node->items[i] : node, set->param, &set->conditions[i]);
        if (status != ZT_OK) return status;
    }
    return ZT_OK;
}

static const char *param_name(const void *user, int index)
{
    (void)user;
    return index < MP_COUNT ? zt_merge_params[index].name : NULL;
}

zt_status zt_recipe_parameters(recipe_builder *builder, const zt_tree *node, void *into)
{
    merge_scope *scope = into;
    if (node->kind != ZT_TREE_MAP) return REFUSE(node, "parameters: keys and values were expected");
    scope->settings = zt_recipe_alloc(builder, node->count, sizeof *scope->settings);
    for (int64_t i = 0; scope->settings && i < node->count; i++) {
        const zt_tree *key = node->items[2 * i];
        char shown[80];
        zt_near_hint hint;
        int param = 0;
        while (param < MP_COUNT && strcmp(zt_merge_params[param].name, key->text)) param++;
        if (param == MP_COUNT)
            return REFUSE(key, "unknown parameter '%s'%s", zt_escape(shown, sizeof shown, key->text, strlen(key->text)),
                          zt_near(hint, key->text, param_name, NULL));
        merge_setting *set = &scope->settings[scope->count++];
        set->param = (merge_param)param;
        zt_status status = read_setting(builder, node->items[2 * i + 1], set);
        if (status != ZT_OK) return status;
    }
    return scope->settings ? ZT_OK : ZT_ENOMEM;
}
