/* plan_check.c - owns the checks of what a plan states: the same split, a place for every value that
 * needs one and for no other, and no two values on the same bytes while both are needed. */
#include "lib/run/schedule.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

zt_status zt_plan_layout_parts(const zt_plan_layout *st, const zt_partition *cut, const zt_chain *chain)
{
    zt_ctx *ctx = chain->engine[0]->ctx;
    if (st->n_splits != cut->n_segments)
        return zt_fail(ctx, ZT_EDATA, "%s: the plan has %d splits, its program %d", st->where,
                       st->n_splits, cut->n_segments);
    for (int i = 0; i < st->n_splits; i++) {
        const zt_plan_layout_part *a = &st->split[i];
        const zt_segment *segment = &cut->segment[i];
        const char *engine = segment->engine ? chain->name[segment->engine] : st->engine;
        if (a->first == segment->first && a->last == segment->last && !strcmp(a->engine, engine)) continue;
        return zt_fail(ctx, ZT_EDATA, "%s: the plan splits %s %d..%d, its program %s %d..%d",
                       st->where, a->engine, a->first, a->last, engine, segment->first, segment->last);
    }
    return ZT_OK;
}

/* One segment's places against its lives. */
typedef struct check {
    const zt_plan_layout *st;
    const zt_prog *p;
    zt_ctx *ctx;
    const zt_plan_layout_place **of; /* [values]: the place stated, or NULL */
    const int *heir;
} check;

static zt_status refuse(const check *c, int v, const char *wrong)
{
    return zt_fail(c->ctx, ZT_EDATA, "%s: value '%s' %s", c->st->where,
                   zt_prog_value(c->p, v)->name, wrong);
}

static zt_status note_places(const check *c, const zt_plan_layout_part *split, zt_status status)
{
    for (int i = 0; i < split->n_at && !status; i++) {
        const zt_plan_layout_place *a = &c->st->at[split->first_at + i];
        if (c->of[a->value]) status = refuse(c, a->value, "has two places");
        c->of[a->value] = a;
    }
    return status;
}

static zt_status take_offset(const check *c, zt_live_range *l, size_t *end)
{
    const zt_plan_layout_place *a = c->of[l->root];
    if (!a) return refuse(c, l->root, "has no place");
    if (a->over >= 0) return refuse(c, l->root, "cannot be over another");
    if (a->bytes != l->bytes) return refuse(c, l->root, "is of another size");
    if (a->offset % ALIGN || a->offset > SIZE_MAX - a->bytes)
        return refuse(c, l->root, "has no offset that is possible");
    l->offset = a->offset;
    if (a->offset + a->bytes > *end) *end = a->offset + a->bytes;
    return ZT_OK;
}

/* Those that took over another's bytes say so. */
static zt_status check_heirs(const check *c, int n_values, int *n)
{
    for (int v = 0; v < n_values; v++) {
        const zt_plan_layout_place *a = c->of[v];
        if (c->heir[v] < 0) continue;
        ++*n;
        if (!a) return refuse(c, v, "has no place");
        const zt_plan_layout_place *under = c->of[c->heir[v]];
        if (a->over != c->heir[v] || !under || under->offset != a->offset ||
            under->bytes != a->bytes)
            return refuse(c, v, "is not over the value that it takes over");
    }
    return ZT_OK;
}

static int by_birth(const void *left, const void *right)
{
    const zt_live_range *x = left, *y = right;
    return x->born != y->born ? x->born - y->born : x->root - y->root;
}

/* In the order of birth, beside those alive, which are sorted by offset. */
static zt_status check_overlaps(const check *c, zt_live_range *life, int n, int *near)
{
    int n_near = 0;
    qsort(life, (size_t)n, sizeof *life, by_birth);
    for (int i = 0; i < n; i++) {
        int kept = 0, at;
        for (int k = 0; k < n_near; k++)
            if (life[near[k]].dies >= life[i].born) near[kept++] = near[k];
        for (at = kept; at > 0 && life[near[at - 1]].offset > life[i].offset; at--)
            near[at] = near[at - 1];
        near[at] = i;
        n_near = kept + 1;
        int other = -1;
        if (at > 0 && life[near[at - 1]].offset + life[near[at - 1]].bytes > life[i].offset)
            other = near[at - 1];
        if (at < kept && life[i].offset + life[i].bytes > life[near[at + 1]].offset)
            other = near[at + 1];
        if (other < 0) continue;
        return zt_fail(c->ctx, ZT_EDATA, "%s: values '%s' and '%s' overlap", c->st->where,
                       zt_prog_value(c->p, life[other].root)->name,
                       zt_prog_value(c->p, life[i].root)->name);
    }
    return ZT_OK;
}

zt_status zt_plan_layout_apply(const zt_plan_layout *st, const zt_partition *cut, int i, const zt_bound *b,
                          zt_live_range *life, int n, size_t *arena, size_t *bound)
{
    const zt_plan_layout_part *split = &st->split[i];
    check c = {.st = st, .p = b->prog, .ctx = st->ctx, .heir = cut->segment[i].over};
    size_t values = (size_t)b->n_values + 1, end = 0;
    int n_heirs = 0;
    c.of = zt_arena_alloc(cut->memory, values * sizeof *c.of);
    int *near = zt_arena_alloc(cut->memory, ((size_t)n + 1) * sizeof *near);
    if (!c.of || !near) return ZT_ENOMEM;
    memset(c.of, 0, values * sizeof *c.of);
    zt_status status = note_places(&c, split, ZT_OK);
    for (int k = 0; k < n && !status; k++) status = take_offset(&c, &life[k], &end);
    if (!status) status = check_heirs(&c, b->n_values, &n_heirs);
    if (!status && n + n_heirs != split->n_at)
        status = zt_fail(c.ctx, ZT_EDATA, "%s: the plan has %d places, %d values need one", st->where,
                    split->n_at, n + n_heirs);
    if (!status && end != split->arena)
        status = zt_fail(c.ctx, ZT_EDATA, "%s: the arena is %zu bytes, its values need %zu", st->where,
                    split->arena, end);
    if (!status) status = check_overlaps(&c, life, n, near);
    *arena = split->arena;
    *bound = split->bound;
    return status;
}
