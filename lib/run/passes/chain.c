/* chain.c - the pass chain: elementwise ops that hand values of one shape to each other become one
 * `pointwise`, which reads its inputs and writes its outputs once.
 *
 * A group stands where its last step stood. So whoever reads a value of it and is no member comes
 * after that step; and nothing it reads or writes is memory that a donation takes. It grows from
 * producer to consumer, in the program's order, while the limits of the row hold: 8 inputs, 6
 * outputs, 64 ops. The op is made only where the engine has it.
 */
#include "lib/ops/pointwise.h"
#include "lib/run/passes/rewrite.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = ZT_POINTWISE_OPS };

typedef struct grouping {
    const zt_prog *p;
    const zt_pass_opts *opts;
    zt_bound *b;
    int *root;      /* [values] */
    bool *used_up;  /* [values]: a donation takes this root's memory */
    bool *ends;     /* [values]: kept, or an output */
    int *uses;      /* [values + 1]: where a value's readers begin in `reader`, steps rising */
    int *reader;
    bool *may;      /* [steps] */
    int *leader;    /* [steps]: the first step of its group */
    int *next;      /* [steps]: the next of its group, -1: the last */
    int *last;      /* [steps]: of a leader's group */
    int *mark;      /* [steps]: the last union that a step was tried in */
    int found;
} grouping;

/* ---- what is asked of a program -------------------------------------------------------------- */

/* Do the sample's numbers tell symbols apart? */
static bool tells_apart(const zt_prog *program, const zt_pass_opts *options)
{
    for (int s = 0; s < zt_prog_n_symbols(program); s++) {
        int64_t value = 0;
        for (int i = 0; i < options->n_sample; i++)
            if (!strcmp(options->sample[i].symbol, zt_prog_symbol_name(program, s))) value = options->sample[i].value;
        if (value < 2) return false;
        for (int i = 0; i < options->n_sample; i++)
            if (options->sample[i].value == value &&
                strcmp(options->sample[i].symbol, zt_prog_symbol_name(program, s)))
                return false;
    }
    return true;
}

/* Is there an elementwise op that reads another's value? */
static bool any_pair(const zt_prog *program)
{
    for (int s = 0; s < zt_prog_n_steps(program); s++) {
        const zt_step *step = zt_prog_step(program, s);
        if (!zt_pointwise_takes(step->op)) continue;
        for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
            const zt_value *value = zt_prog_value(program, step->in[k]);
            if (value->kind == ZT_VALUE_OP && zt_pointwise_takes(zt_prog_step(program, value->index)->op))
                return true;
        }
    }
    return false;
}

static void find_ends(grouping *g)
{
    const zt_prog *program = g->p;
    zt_prog_roots(program, g->root);
    for (int s = 0; s < zt_prog_n_steps(program); s++) {
        const zt_step *step = zt_prog_step(program, s);
        for (int k = 0; k < zt_op_info(step->op)->def->donates; k++)
            g->used_up[g->root[step->in[k]]] = true;
    }
    for (int o = 0; o < zt_prog_n_outputs(program); o++) g->ends[zt_prog_output(program, o)->value] = true;
    for (int i = 0; i < zt_prog_count(program, ZT_VALUE_STATE); i++) {
        int keep = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, i))->keep;
        if (keep >= 0) g->ends[keep] = true;
    }
}

/* Readers of every value, a step as often as it reads it. */
static void find_readers(grouping *g)
{
    int n = zt_prog_n_values(g->p);
    for (int pass = 0; pass < 2; pass++) {
        for (int s = zt_prog_n_steps(g->p); s-- > 0;)
            for (int k = 0; k < ZT_MAX_IN; k++) {
                int v = zt_prog_step(g->p, s)->in[k];
                if (v < 0 || k >= zt_op_info(zt_prog_step(g->p, s)->op)->n_in) continue;
                if (pass)
                    g->reader[--g->uses[v]] = s;
                else
                    g->uses[v]++;
            }
        for (int v = 1; v <= n && !pass; v++) g->uses[v] += g->uses[v - 1];
    }
}

static bool same_shape(const zt_type *a, const zt_type *b)
{
    zt_type type = *a;
    type.dtype = b->dtype;
    return zt_type_equal(&type, b);
}

/* ---- the op of a group ----------------------------------------------------------------------- */

/* Its chain, inputs and outputs; false where a limit of the row is passed. */
typedef struct fused {
    zt_pointwise_chain p;
    int in[ZT_MAX_IN], n_in; /* values of the program */
    int out[ZT_MAX_OUT];
} fused;

static int step_of(const grouping *g, int v)
{
    const zt_value *value = zt_prog_value(g->p, v);
    return value->kind == ZT_VALUE_OP ? value->index : -1;
}

static bool read_outside(const grouping *g, int v, int stamp)
{
    for (int i = g->uses[v]; i < g->uses[v + 1]; i++)
        if (g->mark[g->reader[i]] != stamp) return true;
    return g->ends[v];
}

static int operand(fused *f, const grouping *g, const int *member, int n, int v)
{
    for (int i = 0; i < n; i++)
        if (member[i] == step_of(g, v)) return ZT_POINTWISE_INS + i;
    int k = 0;
    while (k < f->n_in && f->in[k] != v) k++;
    if (k == ZT_POINTWISE_INS) return -1;
    if (k == f->n_in) f->in[f->n_in++] = v;
    f->p.inputs |= 1u << k;
    return k;
}

/* Members are in order and marked with `stamp`. */
static bool fuse(const grouping *g, const int *member, int n, int stamp, fused *f)
{
    f->n_in = 0;
    f->p.n_ops = f->p.n_out = 0;
    f->p.inputs = 0;
    for (int i = 0; i < n; i++) {
        const zt_step *step = zt_prog_step(g->p, member[i]);
        const zt_opinfo *info = zt_op_info(step->op);
        zt_pointwise_op *o = &f->p.op[f->p.n_ops++];
        *o = (zt_pointwise_op){.op = step->op, .in = {ZT_NONE, ZT_NONE, ZT_NONE}};
        memcpy(o->attrs, step->attrs ? step->attrs : info->defaults, info->attr_bytes);
        for (int k = 0; k < info->n_in; k++)
            if ((o->in[k] = operand(f, g, member, n, step->in[k])) < 0) return false;
        if (!read_outside(g, step->out[0], stamp)) continue;
        if (f->p.n_out == ZT_POINTWISE_OUTS) return false;
        f->out[f->p.n_out] = step->out[0];
        f->p.out[f->p.n_out++] = ZT_POINTWISE_INS + i;
    }
    return f->p.n_out && f->p.out[f->p.n_out - 1] == ZT_POINTWISE_INS + n - 1;
}

/* Has the engine the op: of these types, as the sample has them. */
static bool engine_has(const grouping *g, const fused *f, const char *text)
{
    const zt_pointwise_attrs attrs = {text};
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT];
    zt_engine *engine = g->opts->engine;
    for (int k = 0; k < f->n_in; k++) input_types[k] = &g->b->type[f->in[k]];
    return zt_op_infer(NULL, ZT_OP_pointwise, &attrs, input_types, out) == ZT_OK &&
           (!engine || engine->vt->has(engine, ZT_OP_pointwise, &attrs, input_types, out));
}

/* The text of a group's chain, into `text`; *fits says whether the op may be made. */
static zt_status try_text(const grouping *g, const fused *f, zt_str *text, bool *fits)
{
    zt_str_clear(text);
    zt_status status = zt_pointwise_print(&f->p, text);
    *fits = !status && engine_has(g, f, text->data);
    return status;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static int members_of(const grouping *g, int leader, int *to)
{
    int n = 0;
    for (int s = leader; s >= 0; s = g->next[s]) to[n++] = s;
    return n;
}

static int by_step(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

/* Steps of two groups and s, in order; 0: too many. */
static int gather(const grouping *g, const int *leader, int n_leaders, int s, int *member)
{
    int n = 0, all[3 * MOST];
    for (int i = 0; i < n_leaders; i++) n += members_of(g, leader[i], all + n);
    if (n >= MOST) return 0;
    memcpy(member, all, (size_t)n * sizeof *member);
    qsort(member, (size_t)n, sizeof *member, by_step);
    member[n++] = s;
    return n;
}

/* Does all of a union that others read, they read after s? */
static bool read_later(const grouping *g, const int *member, int n, int s, int stamp)
{
    for (int i = 0; i < n; i++) {
        int v = zt_prog_step(g->p, member[i])->out[0];
        for (int u = g->uses[v]; u < g->uses[v + 1] && g->reader[u] <= s; u++)
            if (g->mark[g->reader[u]] != stamp) return false;
    }
    return true;
}

/* Step s and the groups of `leader` become one, if they may. */
static bool unite(grouping *g, const int *leader, int n_leaders, int s, int stamp)
{
    int member[MOST];
    fused f;
    int n = gather(g, leader, n_leaders, s, member);
    if (n == 0) return false;
    for (int i = 0; i < n; i++) g->mark[member[i]] = stamp;
    if (!read_later(g, member, n, s, stamp) || !fuse(g, member, n, stamp, &f)) return false;
    for (int i = 0; i < n; i++) {
        g->leader[member[i]] = member[0];
        g->next[member[i]] = i + 1 < n ? member[i + 1] : -1;
    }
    g->last[member[0]] = s;
    return true;
}

/* With the groups that made its operands: all of them, or the first that it can. */
static void join(grouping *g, int s, int *stamp)
{
    const zt_step *step = zt_prog_step(g->p, s);
    int leader[3], n = 0;
    for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
        int from = step_of(g, step->in[k]);
        if (from < 0 || !g->may[from]) continue;
        if (!same_shape(&g->b->type[step->in[k]], &g->b->type[step->out[0]])) continue;
        bool known = false;
        for (int i = 0; i < n; i++) known = known || leader[i] == g->leader[from];
        if (!known) leader[n++] = g->leader[from];
    }
    if (n == 0 || unite(g, leader, n, s, ++*stamp)) return;
    for (int i = 0; i < n && n > 1; i++)
        if (unite(g, &leader[i], 1, s, ++*stamp)) return;
}

/* Which steps may be in a chain. */
static zt_status find_candidates(grouping *g, zt_str *text)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < zt_prog_n_steps(g->p) && !status; i++) {
        const zt_step *step = zt_prog_step(g->p, i);
        fused f;
        g->may[i] = zt_pointwise_takes(step->op) && !g->used_up[g->root[step->out[0]]];
        for (int k = 0; k < zt_op_info(step->op)->n_in && g->may[i]; k++)
            g->may[i] = !g->used_up[g->root[step->in[k]]];
        g->mark[i] = 0;
        if (!g->may[i]) continue;
        g->mark[i] = -1;
        fuse(g, &i, 1, -1, &f);
        f.p.n_out = 1; /* of a step that nobody reads, too */
        f.p.out[0] = ZT_POINTWISE_INS;
        status = try_text(g, &f, text, &g->may[i]);
        g->mark[i] = 0;
    }
    return status;
}

/* ---- the new program ------------------------------------------------------------------------- */

static zt_status put_group(zt_rewrite *rewrite, const grouping *g, int leader, int stamp, zt_str *text)
{
    int member[MOST] = {0}, n = members_of(g, leader, member), stands[ZT_MAX_OUT];
    fused f;
    bool fits = false;
    for (int i = 0; i < n; i++) g->mark[member[i]] = stamp;
    for (int k = 0; k < ZT_MAX_OUT; k++) stands[k] = ZT_NONE;
    zt_status status = fuse(g, member, n, stamp, &f) ? try_text(g, &f, text, &fits) : ZT_OK;
    for (int i = 0; i < n && !fits && !status; i++) status = zt_rewrite_copy(rewrite, member[i], NULL);
    if (status || !fits) return status;
    memcpy(stands, f.out, (size_t)f.p.n_out * sizeof *stands);
    for (int k = f.n_in; k < ZT_MAX_IN; k++) f.in[k] = ZT_NONE;
    return zt_rewrite_op(rewrite, ZT_OP_pointwise, &(zt_pointwise_attrs){text->data}, f.in, stands);
}

static zt_status rewrite(zt_ctx *ctx, const grouping *g, int stamp, zt_str *text, zt_prog **out)
{
    zt_rewrite rewrite;
    zt_status status = zt_rewrite_begin(&rewrite, ctx, g->p);
    for (int i = 0; i < zt_prog_n_steps(g->p) && !status; i++) {
        int leader = g->leader[i];
        if (g->last[leader] == leader)
            status = zt_rewrite_copy(&rewrite, i, NULL);
        else if (g->last[leader] == i)
            status = put_group(&rewrite, g, leader, ++stamp, text);
    }
    return zt_rewrite_end(&rewrite, status, out);
}

static zt_status find_groups(zt_ctx *ctx, grouping *g, zt_prog **out)
{
    int stamp = 0;
    zt_str text;
    zt_str_init(&text, ctx);
    find_ends(g);
    find_readers(g);
    zt_status status = find_candidates(g, &text);
    for (int i = 0; i < zt_prog_n_steps(g->p) && !status; i++) {
        g->leader[i] = g->last[i] = i;
        g->next[i] = -1;
        if (g->may[i]) join(g, i, &stamp);
        g->found += g->leader[i] != i;
    }
    if (!status && g->found) status = rewrite(ctx, g, stamp, &text, out);
    zt_str_fini(&text);
    return status;
}

static zt_status run(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts, zt_prog **out)
{
    size_t values = (size_t)zt_prog_n_values(program) + 2, steps = (size_t)zt_prog_n_steps(program) + 1;
    if (!any_pair(program) || !tells_apart(program, opts)) return ZT_OK;
    grouping g = {.p = program, .opts = opts, .b = zt_prog_bind(program, opts->sample, opts->n_sample)};
    g.root = zt_calloc(ctx, values, sizeof *g.root);
    g.used_up = zt_calloc(ctx, values, sizeof *g.used_up);
    g.ends = zt_calloc(ctx, values, sizeof *g.ends);
    g.uses = zt_calloc(ctx, values, sizeof *g.uses);
    g.reader = zt_alloc_array(ctx, steps * ZT_MAX_IN, sizeof *g.reader);
    g.may = zt_calloc(ctx, steps, sizeof *g.may);
    g.leader = zt_alloc_array(ctx, steps, sizeof *g.leader);
    g.next = zt_alloc_array(ctx, steps, sizeof *g.next);
    g.last = zt_alloc_array(ctx, steps, sizeof *g.last);
    g.mark = zt_calloc(ctx, steps, sizeof *g.mark);
    bool room = g.b && g.root && g.used_up && g.ends && g.uses && g.reader && g.may && g.leader &&
                g.next && g.last && g.mark;
    zt_status status = room ? find_groups(ctx, &g, out) : zt_ctx_status(ctx);
    void *const all[] = {g.root, g.used_up, g.ends, g.uses, g.reader,
                         g.may,  g.leader,  g.next, g.last, g.mark};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) zt_free(ctx, all[i]);
    zt_bound_free(g.b);
    return status;
}

const zt_pass zt_pass_chain = {
    .name = "chain",
    .help = "one pass over memory for elementwise ops that follow each other",
    .run = run,
};
