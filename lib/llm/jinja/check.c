/* check.c - what jinja2 refuses before it renders anything: filters and tests that are not there
 * (but not directly inside of an if, where a template may ask first), break and continue outside of
 * loops. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

typedef struct check_place {
    bool soft; /* directly in the branch of an if: a missing filter is an error when it is run */
    bool loop;
} check_place;

static void check_node(jmachine *machine, const jnode *node, check_place place);

static void check_list(jmachine *machine, jnode *const *list, int count, check_place place)
{
    for (int i = 0; i < count; i++) check_node(machine, list[i], place);
}

static void check_arguments(jmachine *machine, const jnode *node, check_place place)
{
    check_list(machine, node->list, node->list_count, place);
    for (int i = 0; i < node->keyword_count; i++)
        if (node->keywords) check_node(machine, node->keywords[i].value, place);
    check_node(machine, node->star, place);
    check_node(machine, node->double_star, place);
}

static void check_known(jmachine *machine, const jnode *node, check_place place)
{
    const char *what = node->type == N_FILTER ? "filter" : "test";
    machine->line = node->line;
    if (node->fn && !node->fn->fn) zt_j_fail(machine, "the %s '%s' is not supported", what, node->name);
    if (!node->fn && !place.soft) zt_j_fail(machine, "no %s named '%s'", what, node->name);
}

static void check_macro(jmachine *machine, const jnode *node, check_place place)
{
    check_place inner = {.soft = false};
    for (int i = 0; i < node->list_count; i++) check_node(machine, node->list[i]->first, place);
    check_node(machine, node->third, inner);
}

static void check_for(jmachine *machine, const jnode *node, check_place place)
{
    check_place body = {.loop = true}, otherwise = {.loop = place.loop};
    check_node(machine, node->second, place);
    check_node(machine, node->third, (check_place){.soft = false});
    check_node(machine, node->list[0], body);
    check_node(machine, node->list[1], otherwise);
}

/* Literals, and what is made of them. */
static bool is_constant(const jnode *node)
{
    if (node->type == N_CONST) return true;
    if (node->type != N_LIST && node->type != N_TUPLE && node->type != N_DICT) return false;
    for (int i = 0; i < node->list_count; i++)
        if (!is_constant(node->list[i])) return false;
    return true;
}

static bool is_hashable(const jnode *node)
{
    if (node->type == N_LIST || node->type == N_DICT) return false;
    for (int i = 0; i < node->list_count; i++)
        if (!is_hashable(node->list[i])) return false;
    return true;
}

/* A dict of constants is made while jinja2 compiles. */
static void check_dict(jmachine *machine, const jnode *node)
{
    for (int i = 0; i + 1 < node->list_count; i += 2) {
        if (!is_constant(node->list[i]) || !is_constant(node->list[i + 1])) return;
        if (!is_hashable(node->list[i])) zt_j_fail(machine, "unhashable key of a dict");
    }
}

static void check_node(jmachine *machine, const jnode *node, check_place place)
{
    check_place inner = {.loop = place.loop}, soft = {.soft = true, .loop = place.loop};
    if (!node) return;
    zt_j_enter(machine);
    machine->line = node->line;
    if (node->type == N_DICT) check_dict(machine, node);
    switch (node->type) {
    case N_FILTER:
    case N_TEST:
        check_known(machine, node, place);
        check_node(machine, node->first, place);
        check_arguments(machine, node, place);
        break;
    case N_COND:
    case N_IF:
        check_node(machine, node->first, soft);
        check_node(machine, node->second, soft);
        check_node(machine, node->third, soft);
        break;
    case N_FOR: check_for(machine, node, place); break;
    case N_MACRO: check_macro(machine, node, place); break;
    case N_CALL_BLOCK:
        check_node(machine, node->first, place);
        check_macro(machine, node->third, place);
        break;
    case N_BLOCK: check_node(machine, node->third, (check_place){.soft = false}); break;
    case N_SET_BLOCK:
    case N_FILTER_BLOCK:
    case N_SCOPE:
        check_node(machine, node->second, place);
        if (node->type == N_SCOPE) inner.loop = false;
        check_node(machine, node->third, inner);
        break;
    case N_WITH:
        check_node(machine, node->second, place);
        check_node(machine, node->third, inner);
        break;
    case N_BREAK:
    case N_CONTINUE:
        if (!place.loop) zt_j_fail(machine, "'%s' outside of a loop", node->type == N_BREAK ? "break" : "continue");
        break;
    default:
        check_node(machine, node->first, place);
        check_node(machine, node->second, place);
        check_node(machine, node->third, place);
        check_node(machine, node->fourth, place);
        check_arguments(machine, node, place);
    }
    zt_j_leave(machine);
}

void zt_j_check(jmachine *machine, jnode *body) { check_node(machine, body, (check_place){.soft = false}); }
