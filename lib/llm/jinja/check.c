/* check.c - what jinja2 refuses before it renders anything: filters and tests that are not there
 * (but not directly inside of an if, where a template may ask first), break and continue outside of
 * loops. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

typedef struct place {
    bool soft; /* directly in the branch of an if: a missing filter is an error when it is run */
    bool loop;
} place;

static void check(jmachine *j, const jnode *n, place p);

static void check_list(jmachine *j, jnode *const *list, int n, place p)
{
    for (int i = 0; i < n; i++)
        check(j, list[i], p);
}

static void check_arguments(jmachine *j, const jnode *n, place p)
{
    check_list(j, n->list, n->n, p);
    for (int i = 0; i < n->n_keywords; i++)
        if (n->keyword)
            check(j, n->keyword[i].value, p);
    check(j, n->star, p);
    check(j, n->star2, p);
}

static void check_known(jmachine *j, const jnode *n, place p)
{
    const char *what = n->type == N_FILTER ? "filter" : "test";
    j->line = n->line;
    if (n->fn && !n->fn->fn)
        zt_j_fail(j, "the %s '%s' is not supported", what, n->name);
    if (!n->fn && !p.soft)
        zt_j_fail(j, "no %s named '%s'", what, n->name);
}

static void check_macro(jmachine *j, const jnode *n, place p)
{
    place inner = {.soft = false};
    for (int i = 0; i < n->n; i++)
        check(j, n->list[i]->a, p);
    check(j, n->c, inner);
}

static void check_for(jmachine *j, const jnode *n, place p)
{
    place body = {.loop = true}, otherwise = {.loop = p.loop};
    check(j, n->b, p);
    check(j, n->c, (place){.soft = false});
    check(j, n->list[0], body);
    check(j, n->list[1], otherwise);
}

static void check(jmachine *j, const jnode *n, place p)
{
    place inner = {.loop = p.loop}, soft = {.soft = true, .loop = p.loop};
    if (!n)
        return;
    zt_j_enter(j);
    j->line = n->line;
    switch (n->type) {
    case N_FILTER:
    case N_TEST:
        check_known(j, n, p);
        check(j, n->a, p);
        check_arguments(j, n, p);
        break;
    case N_COND:
    case N_IF:
        check(j, n->a, soft);
        check(j, n->b, soft);
        check(j, n->c, soft);
        break;
    case N_FOR:
        check_for(j, n, p);
        break;
    case N_MACRO:
        check_macro(j, n, p);
        break;
    case N_CALL_BLOCK:
        check(j, n->a, p);
        check_macro(j, n->c, p);
        break;
    case N_BLOCK:
        check(j, n->c, (place){.soft = false});
        break;
    case N_SET_BLOCK:
    case N_FILTER_BLOCK:
    case N_SCOPE:
        check(j, n->b, p);
        if (n->type == N_SCOPE)
            inner.loop = false;
        check(j, n->c, inner);
        break;
    case N_WITH:
        check(j, n->b, p);
        check(j, n->c, inner);
        break;
    case N_BREAK:
    case N_CONTINUE:
        if (!p.loop)
            zt_j_fail(j, "'%s' outside of a loop", n->type == N_BREAK ? "break" : "continue");
        break;
    default:
        check(j, n->a, p);
        check(j, n->b, p);
        check(j, n->c, p);
        check(j, n->d, p);
        check_arguments(j, n, p);
    }
    zt_j_leave(j);
}

void zt_j_check(jmachine *j, jnode *body)
{
    check(j, body, (place){.soft = false});
}
