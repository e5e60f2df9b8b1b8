/* random_inputs.c - values for the inputs of a program, made up from a seed so that the program can run.
 *
 * Floats are normal. What an integer may be depends on who reads it, which the name of that op's
 * input tells: `pos`, `seq` and `table` are those of a cache, `i` and `target` are places in the
 * op's first input. Reshaped, cast or cut it is still the same number.
 */
#include "lib/run/bind_inputs.h"

#include <string.h>

/* How an integer is filled, and for FILL_IDS what it must stay below. */
typedef struct role {
    zt_fill fill;
    int64_t limit;
} role;

/* An index into all of x, whatever its axis. */
static int64_t least_dim(const zt_type *x)
{
    int64_t least = INT32_MAX;
    for (int d = 0; d < x->rank; d++)
        if (x->dim[d] < least) least = x->dim[d];
    return least;
}

static role position(const zt_bound *bound, int s)
{
    (void)bound, (void)s;
    return (role){ZT_FILL_RISING, 0};
}

static role sequence(const zt_bound *bound, int s)
{
    (void)bound, (void)s;
    return (role){ZT_FILL_ZERO, 0};
}

static role table(const zt_bound *bound, int s)
{
    (void)bound, (void)s;
    return (role){ZT_FILL_PERM, 0};
}

static role place(const zt_bound *bound, int s)
{
    const zt_step *step = zt_prog_step(bound->prog, s);
    const zt_one_hot_attrs *hot = bound->attrs[s];
    if (step->op == ZT_OP_one_hot) return (role){ZT_FILL_IDS, hot->depth};
    const zt_type *x = &bound->type[step->in[0]];
    bool rows = step->op == ZT_OP_gather || step->op == ZT_OP_scatter_add;
    return (role){ZT_FILL_IDS, rows && x->rank ? x->dim[0] : least_dim(x)};
}

static role class_of(const zt_bound *bound, int s)
{
    const zt_type *x = &bound->type[zt_prog_step(bound->prog, s)->in[0]];
    return (role){ZT_FILL_IDS, x->rank ? x->dim[x->rank > 1] : 1};
}

static const struct {
    const char *name; /* of an op's input */
    role (*role)(const zt_bound *b, int s);
} roles[] = {{"pos", position}, {"seq", sequence}, {"table", table},
             {"i", place},      {"ids", place},    {"target", class_of}};

/* Is output 0 the numbers of input 0 in another form? */
static bool same_numbers(const zt_step *step)
{
    return step->op == ZT_OP_cast || (zt_op_info(step->op)->def->flags & ZT_OPF_VIEW);
}

/* What step s takes its k-th input for; false: it does not tell. */
static bool role_at(const zt_bound *bound, int s, int k, role *r)
{
    const char *name = zt_op_info(zt_prog_step(bound->prog, s)->op)->in_name[k];
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(roles[i].name, name) != 0) continue;
        *r = roles[i].role(bound, s);
        return true;
    }
    return false;
}

/* Who reads v says what it may be: of several limits the least, and positions before indices. */
static role role_of(const zt_bound *bound, int v)
{
    role found = {ZT_FILL_ABSENT, INT64_MAX}, r;
    int alias = v; /* v in another form: the last one made */
    for (int s = 0; s < bound->n_steps; s++) {
        const zt_step *step = zt_prog_step(bound->prog, s);
        for (int k = 0; k < ZT_MAX_IN; k++) {
            if (step->in[k] < 0 || (step->in[k] != v && step->in[k] != alias)) continue;
            if (k == 0 && same_numbers(step))
                alias = step->out[0];
            else if (role_at(bound, s, k, &r) &&
                     (r.fill != ZT_FILL_IDS || found.fill == ZT_FILL_ABSENT ||
                      (found.fill == ZT_FILL_IDS && r.limit < found.limit)))
                found = r;
        }
    }
    return found;
}

/* Of an integer of which nobody tells what it is for: below each dimension of the program's other
 * values that are not made by ops. */
static int64_t limit_for(const zt_bound *bound, int v)
{
    int64_t least = INT32_MAX;
    for (int i = 0; i < bound->n_values; i++) {
        if (i == v || zt_prog_value(bound->prog, i)->kind == ZT_VALUE_OP) continue;
        int64_t dim = least_dim(&bound->type[i]);
        if (dim < least) least = dim;
    }
    return least;
}

/* FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo): a name as a number. */
static uint64_t hash(const char *name, uint64_t seed)
{
    uint64_t h = 14695981039346656037u ^ seed * 0x9e3779b97f4a7c15u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h;
}

void zt_bound_inputs_draw(const zt_bound *bound, int v, uint64_t seed, void *dst)
{
    const zt_type *type = &bound->type[v];
    zt_case c = {.in = {*type}, .fill = {ZT_FILL_NORMAL}};
    if (!zt_dtype_is_float(type->dtype)) {
        role r = role_of(bound, v);
        bool rotates = type->rank == 2 && type->dim[0] > 1 && type->dim[0] <= type->dim[1];
        if (r.fill == ZT_FILL_PERM && !rotates) r = (role){ZT_FILL_RISING, 0};
        if (r.fill == ZT_FILL_ABSENT) r = (role){ZT_FILL_IDS, limit_for(bound, v)};
        if (zt_dtype_get(type->dtype)->kind == 'B') r = (role){ZT_FILL_IDS, 2};
        c.fill[0] = r.fill;
        c.limit[0] = r.fill == ZT_FILL_IDS && r.limit < 1 ? 1 : r.limit;
    }
    zt_case_fill(&c, 0, hash(zt_prog_value(bound->prog, v)->name, seed), dst);
}
