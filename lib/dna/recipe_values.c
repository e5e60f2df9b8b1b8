/* recipe_values.c - owns what "parameters" say: numbers, switches, lists of them and conditions. */
#include "lib/base/near.h"
#include "lib/dna/recipe_internal.h"

#include <math.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

static bool word_in(const char *text, const char *words) /* " yes no " */
{
    size_t n = strlen(text);
    for (const char *p = words; n && (p = strstr(p, text)); p++)
        if (p > words && p[-1] == ' ' && p[n] == ' ') return true;
    return false;
}

/* YAML 1.1's switches. */
static bool is_switch(const zt_tree *t, double *out)
{
    bool on = word_in(t->text, " true True TRUE yes Yes YES on On ON ");
    bool off = word_in(t->text, " false False FALSE no No NO off Off OFF ");
    *out = on;
    return t->plain && (on || off);
}

/* true is mergekit's rule, the same L1 norm; the others by name. */
static bool rescale_of(const zt_tree *t, double *out)
{
    static const char *const words[] = {"none", "l1", "density"};
    double on;
    if (is_switch(t, &on)) {
        *out = on ? RESCALE_L1 : RESCALE_NONE;
        return true;
    }
    for (int i = 0; i < 3; i++)
        if (!strcmp(t->text, words[i])) {
            *out = i;
            return true;
        }
    return false;
}

static zt_status number_of(builder *b, const zt_tree *t, merge_param p, double *out)
{
    const merge_param_info *about = &zt_merge_params[p];
    char shown[80];
    bool good = t->kind == ZT_TREE_SCALAR;
    if (good && about->kind == 'r')
        good = rescale_of(t, out);
    else if (good)
        good = is_switch(t, out) || zt_parse_double(t->text, out);
    if (good && about->kind == 'b') good = *out == 0 || *out == 1;
    if (!good)
        return REFUSE(t, "parameter '%s': '%s' is no %s", about->name,
                      t->kind == ZT_TREE_SCALAR
                          ? zt_escape(shown, sizeof shown, t->text, strlen(t->text))
                          : "a list in a list",
                      about->kind == 'b'   ? "switch"
                      : about->kind == 'r' ? "rescaling"
                                           : "number");
    if (!isfinite(*out) || *out < about->least || *out > about->most)
        return REFUSE(t, "parameter '%s': %g is out of range", about->name, *out);
    return ZT_OK;
}

static zt_status values_of(builder *b, const zt_tree *t, merge_param p, merge_cond *c)
{
    bool list = t->kind == ZT_TREE_LIST;
    int64_t n = list ? t->n : zt_recipe_is_null(t) ? 0 : 1;
    c->value = zt_recipe_room(b, n, sizeof *c->value);
    if (!c->value) return ZT_ENOMEM;
    for (int64_t i = 0; i < n; i++) {
        zt_status s = number_of(b, list ? t->item[i] : t, p, &c->value[i]);
        if (s != ZT_OK) return s;
    }
    c->n = (int)n;
    return ZT_OK;
}

typedef struct cond_into {
    merge_cond *c;
    const zt_tree *value;
} cond_into;

static zt_status on_filter(builder *b, const zt_tree *v, void *into)
{
    cond_into *k = into;
    zt_status s = zt_recipe_text(b, v, "filter", &k->c->filter);
    if (s == ZT_OK && !strcmp(k->c->filter, "*")) k->c->filter = NULL;
    return s;
}

static zt_status on_value(builder *b, const zt_tree *v, void *into)
{
    (void)b;
    ((cond_into *)into)->value = v;
    return ZT_OK;
}

static zt_status condition_of(builder *b, const zt_tree *t, merge_param p, merge_cond *c)
{
    static const recipe_key keys[] = {{"filter", on_filter}, {"value", on_value}, {0}};
    cond_into into = {.c = c};
    zt_status s = zt_recipe_keys(b, t, "a condition", keys, &into);
    if (s == ZT_OK && !zt_tree_get(t, "value")) s = REFUSE(t, "a condition without 'value'");
    return s == ZT_OK && into.value ? values_of(b, into.value, p, c) : s;
}

/* A scalar, a list of scalars, a condition, or a list of conditions. */
static zt_status setting_of(builder *b, const zt_tree *t, merge_setting *set)
{
    bool list = t->kind == ZT_TREE_LIST && t->n && t->item[0]->kind == ZT_TREE_MAP;
    set->n = list ? (int)t->n : 1;
    set->cond = zt_recipe_room(b, set->n, sizeof *set->cond);
    if (!set->cond) return ZT_ENOMEM;
    if (!list && t->kind != ZT_TREE_MAP) return values_of(b, t, set->param, set->cond);
    for (int i = 0; i < set->n; i++) {
        zt_status s = condition_of(b, list ? t->item[i] : t, set->param, &set->cond[i]);
        if (s != ZT_OK) return s;
    }
    return ZT_OK;
}

static const char *param_name(const void *user, int i)
{
    (void)user;
    return i < MP_COUNT ? zt_merge_params[i].name : NULL;
}

zt_status zt_recipe_parameters(builder *b, const zt_tree *t, void *into)
{
    merge_scope *scope = into;
    if (t->kind != ZT_TREE_MAP) return REFUSE(t, "parameters: keys and values were expected");
    scope->set = zt_recipe_room(b, t->n, sizeof *scope->set);
    for (int64_t i = 0; scope->set && i < t->n; i++) {
        const zt_tree *key = t->item[2 * i];
        char shown[80];
        zt_near_hint hint;
        int p = 0;
        while (p < MP_COUNT && strcmp(zt_merge_params[p].name, key->text)) p++;
        if (p == MP_COUNT)
            return REFUSE(key, "unknown parameter '%s'%s",
                          zt_escape(shown, sizeof shown, key->text, strlen(key->text)),
                          zt_near(hint, key->text, param_name, NULL));
        merge_setting *set = &scope->set[scope->n++];
        set->param = (merge_param)p;
        zt_status s = setting_of(b, t->item[2 * i + 1], set);
        if (s != ZT_OK) return s;
    }
    return scope->set ? ZT_OK : ZT_ENOMEM;
}
