/* match.c - owns the search for a pattern in a program, and what makes it right to fuse there.
 *
 * A pattern is laid on a program from one of its sinks backwards; further sinks (q, k, v of one x)
 * are sought among the users of a value that is bound already, the nearest first. What fits is then
 * proved: values inside are read by nobody else, or are outputs of the fused op; there is a place
 * in the order of steps after all it reads and before all that read it; no memory that it uses up
 * is looked at on the way; the row expanded again with the attributes found is exactly these steps;
 * types are the same, and the engine has the op.
 *
 * Places in the order are doubled: step i is at 2 i + 1, what is put before it at 2 i.
 */
#include "lib/run/passes/match.h"

#include <string.h>

enum {
    MAX_SPAN = 256, /* steps from the first of a match to its last */
    MAX_TRIES = 6   /* users looked at for a further sink */
};

typedef struct fused {
    zt_op op;
    int at; /* place */
    int in[ZT_MAX_IN], stands[ZT_MAX_OUT];
    void *attrs;
} fused;

struct zt_matcher {
    zt_ctx *ctx;
    const zt_prog *p;
    const zt_pass_opts *opts;
    zt_arena *memory;
    zt_bound *bound;
    int *maker;       /* [values]: the step, or -1 */
    int *first, *use; /* steps that read value v, rising: use[first[v]] .. use[first[v + 1] - 1] */
    bool *pinned;     /* [values]: an output, or kept */
    int *root;        /* [values] */
    int *place;       /* [steps] */
    int *of;          /* [steps]: number of the fused op that it is part of, or -1 */
    int *op_first, *op_step; /* steps of each op, likewise */
    fused *found;     /* [steps] at most */
    int n_found;
    zt_dag *dag;
    bool no_dims;
};

/* A pattern laid on the program. */
typedef struct match {
    zt_matcher *m;
    const zt_pattern *pat;
    int step[ZT_DAG_NODES]; /* -1: not laid yet */
    bool swapped[ZT_DAG_NODES];
    int in[ZT_MAX_IN]; /* values of the program; -1: not bound */
    int n_laid;
} match;

/* ---- the program, indexed -------------------------------------------------------------------- */

/* Lists of steps by key, rising: counted, then filled. */
static void index_uses(zt_matcher *matcher)
{
    int n = zt_prog_n_values(matcher->p), n_steps = zt_prog_n_steps(matcher->p);
    memset(matcher->first, 0, ((size_t)n + 2) * sizeof *matcher->first);
    for (int pass = 0; pass < 2; pass++) {
        for (int s = 0; s < n_steps; s++) {
            const zt_step *step = zt_prog_step(matcher->p, s);
            for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
                if (step->in[k] < 0) continue;
                int *at = &matcher->first[step->in[k] + 2 - pass];
                if (pass) matcher->use[*at] = s;
                ++*at;
            }
        }
        for (int v = 2; v < n + 2 && !pass; v++) matcher->first[v] += matcher->first[v - 1];
    }
}

static void index_ops(zt_matcher *matcher)
{
    int n_steps = zt_prog_n_steps(matcher->p);
    memset(matcher->op_first, 0, (ZT_OP_COUNT + 2) * sizeof *matcher->op_first);
    for (int s = 0; s < n_steps; s++) matcher->op_first[zt_prog_step(matcher->p, s)->op + 2]++;
    for (int o = 2; o < ZT_OP_COUNT + 2; o++) matcher->op_first[o] += matcher->op_first[o - 1];
    for (int s = 0; s < n_steps; s++) matcher->op_step[matcher->op_first[zt_prog_step(matcher->p, s)->op + 1]++] = s;
}

static void index_values(zt_matcher *matcher)
{
    const zt_prog *program = matcher->p;
    for (int v = 0; v < zt_prog_n_values(program); v++) {
        const zt_value *value = zt_prog_value(program, v);
        matcher->maker[v] = value->kind == ZT_VALUE_OP ? value->index : -1;
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0) matcher->pinned[value->keep] = true;
    }
    for (int o = 0; o < zt_prog_n_outputs(program); o++) matcher->pinned[zt_prog_output(program, o)->value] = true;
    for (int s = 0; s < zt_prog_n_steps(program); s++) {
        matcher->place[s] = 2 * s + 1;
        matcher->of[s] = -1;
    }
    zt_prog_roots(program, matcher->root);
}

static zt_status index_all(zt_matcher *matcher)
{
    size_t values = (size_t)zt_prog_n_values(matcher->p) + 2, steps = (size_t)zt_prog_n_steps(matcher->p) + 1;
    matcher->maker = zt_arena_alloc(matcher->memory, values * sizeof *matcher->maker);
    matcher->first = zt_arena_alloc(matcher->memory, values * sizeof *matcher->first);
    matcher->use = zt_arena_alloc(matcher->memory, steps * ZT_MAX_IN * sizeof *matcher->use);
    matcher->pinned = zt_arena_alloc(matcher->memory, values * sizeof *matcher->pinned);
    matcher->root = zt_arena_alloc(matcher->memory, values * sizeof *matcher->root);
    matcher->place = zt_arena_alloc(matcher->memory, steps * sizeof *matcher->place);
    matcher->of = zt_arena_alloc(matcher->memory, steps * sizeof *matcher->of);
    matcher->op_first = zt_arena_alloc(matcher->memory, (ZT_OP_COUNT + 2) * sizeof *matcher->op_first);
    matcher->op_step = zt_arena_alloc(matcher->memory, steps * sizeof *matcher->op_step);
    matcher->found = zt_arena_alloc(matcher->memory, steps * sizeof *matcher->found);
    matcher->dag = zt_arena_alloc(matcher->memory, sizeof *matcher->dag);
    if (!matcher->maker || !matcher->first || !matcher->use || !matcher->pinned || !matcher->root || !matcher->place ||
        !matcher->of || !matcher->op_first || !matcher->op_step || !matcher->found || !matcher->dag)
        return ZT_ENOMEM;
    memset(matcher->pinned, 0, values * sizeof *matcher->pinned);
    index_values(matcher);
    index_uses(matcher);
    index_ops(matcher);
    matcher->no_dims = zt_prog_n_symbols(matcher->p) > 0;
    return ZT_OK;
}

zt_status zt_matcher_new(zt_matcher **out, zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts)
{
    zt_matcher *matcher = *out = zt_calloc(ctx, 1, sizeof *matcher);
    if (!matcher) return ZT_ENOMEM;
    matcher->ctx = ctx;
    matcher->p = program;
    matcher->opts = opts;
    matcher->memory = zt_arena_new(ctx, 1 << 17);
    matcher->bound = matcher->memory ? zt_prog_bind(program, opts->sample, opts->n_sample) : NULL;
    zt_status status = matcher->bound ? index_all(matcher) : zt_ctx_status(ctx);
    if (status) {
        zt_matcher_free(matcher);
        *out = NULL;
    }
    return status;
}

void zt_matcher_free(zt_matcher *matcher)
{
    if (!matcher) return;
    zt_bound_free(matcher->bound);
    zt_arena_free(matcher->memory);
    zt_free(matcher->ctx, matcher);
}

/* ---- laying a pattern ------------------------------------------------------------------------ */

static bool lay(match *t, int node, int step);

static bool is_taken(const match *t, int step)
{
    for (int j = 0; j < t->pat->n; j++)
        if (t->step[j] == step) return true;
    return t->m->of[step] >= 0;
}

/* Value v of the program where the pattern has value x. */
static bool lay_value(match *t, int x, int v)
{
    if (x < 0 || v < 0) return x < 0 && v < 0;
    if (x < ZT_MAX_IN) {
        if (t->in[x] < 0) t->in[x] = v;
        return t->in[x] == v;
    }
    int node = (x - ZT_MAX_IN) / ZT_MAX_OUT, k = (x - ZT_MAX_IN) % ZT_MAX_OUT;
    int step = t->m->maker[v];
    if (step < 0 || zt_prog_step(t->m->p, step)->out[k] != v) return false;
    return t->step[node] >= 0 ? t->step[node] == step : lay(t, node, step);
}

static bool lay_inputs(match *t, int node, const zt_step *step, bool swapped)
{
    const int *inputs = t->pat->in[node];
    for (int k = 0; k < zt_op_info(step->op)->n_in; k++)
        if (!lay_value(t, inputs[k], step->in[swapped && k < 2 ? 1 - k : k])) return false;
    return true;
}

/* A node and all it reads. On failure the match is as it was. */
static bool lay(match *t, int node, int step)
{
    const zt_step *st = zt_prog_step(t->m->p, step);
    if (st->op != t->pat->node[node] || is_taken(t, step)) return false;
    match before = *t;
    int ways = zt_op_info(st->op)->def->flags & ZT_OPF_COMMUTATIVE ? 2 : 1;
    for (int way = 0; way < ways; way++) {
        t->step[node] = step;
        t->swapped[node] = way;
        t->n_laid++;
        if (lay_inputs(t, node, st, way)) return true;
        *t = before;
    }
    return false;
}

static bool prove(match *t);

/* An input of the sink that is bound already, read by fewer than others; -1: none. */
static int shared_value(const match *t, int node)
{
    int best = -1, least = 0;
    for (int k = 0; k < ZT_MAX_IN; k++) {
        int x = t->pat->in[node][k];
        if (x < 0 || x >= ZT_MAX_IN || t->in[x] < 0) continue;
        int n = t->m->first[t->in[x] + 1] - t->m->first[t->in[x]];
        if (best < 0 || n < least) {
            best = t->in[x];
            least = n;
        }
    }
    return best;
}

/* The sinks that are not laid, one by one: users of what is bound, from those nearest to `near`. */
static bool lay_rest(match *t, int near)
{
    int node = t->pat->n - 1;
    while (node >= 0 && t->step[node] >= 0) node--;
    if (node < 0) return prove(t);
    while (node >= 0 && (t->step[node] >= 0 || !(t->pat->sinks >> node & 1) ||
                         shared_value(t, node) < 0))
        node--;
    if (node < 0) return false;
    int v = shared_value(t, node), lo = t->m->first[v], hi = t->m->first[v + 1], at = lo;
    const int *use = t->m->use;
    for (int n = hi - lo; n > 0;) { /* the first use that is not before `near` */
        int half = n / 2;
        bool before = use[at + half] < near;
        at = before ? at + half + 1 : at;
        n = before ? n - half - 1 : half;
    }
    int down = at - 1, up = at;
    for (int tries = 0; tries < MAX_TRIES && (down >= lo || up < hi);) {
        bool back = up >= hi || (down >= lo && near - use[down] <= use[up] - near);
        int step = back ? use[down--] : use[up++];
        if (step > near + MAX_SPAN || step < near - MAX_SPAN) break;
        if (zt_prog_step(t->m->p, step)->op != t->pat->node[node]) continue;
        tries++;
        match before = *t;
        if (lay(t, node, step) && lay_rest(t, near)) return true;
        *t = before;
    }
    return false;
}

/* ---- proving --------------------------------------------------------------------------------- */

static bool in_match(const match *t, int step)
{
    for (int j = 0; j < t->pat->n; j++)
        if (t->step[j] == step) return true;
    return false;
}

/* The fused output that output k of a node is, or -1. */
static int fused_output(const zt_pattern *pat, int node, int k)
{
    for (int o = 0; o < zt_op_info(pat->op)->n_out; o++)
        if (pat->out[o] == ZT_DAG_OUT(node, k)) return o;
    return -1;
}

/* Outputs that somebody else reads are outputs of the fused op;
 * *before: the first reader's place. */
static bool prove_outputs(const match *t, fused *f, int *before)
{
    const zt_matcher *matcher = t->m;
    for (int k = 0; k < ZT_MAX_OUT; k++) f->stands[k] = ZT_NONE;
    for (int j = 0; j < t->pat->n; j++) {
        const zt_step *step = zt_prog_step(matcher->p, t->step[j]);
        for (int k = 0; k < zt_op_info(step->op)->n_out; k++) {
            int v = step->out[k], o = fused_output(t->pat, j, k);
            if (v < 0) continue;
            bool outside = matcher->pinned[v];
            for (int u = matcher->first[v]; u < matcher->first[v + 1]; u++) {
                if (in_match(t, matcher->use[u])) continue;
                outside = true;
                if (matcher->place[matcher->use[u]] < *before) *before = matcher->place[matcher->use[u]];
            }
            if (outside && o < 0) return false;
            if (outside || o == 0) f->stands[o] = v;
        }
    }
    return f->stands[0] >= 0;
}

/* Reads a step between them memory that the match uses up? */
static bool disturbed(const match *t, int first, int last)
{
    const zt_matcher *matcher = t->m;
    for (int j = 0; j < t->pat->n; j++) {
        const zt_step *step = zt_prog_step(matcher->p, t->step[j]);
        for (int s = first + 1, shares = zt_op_shares(step->op); s < last && shares; s++) {
            const zt_step *other = zt_prog_step(matcher->p, s);
            for (int k = 0; k < ZT_MAX_IN && !in_match(t, s); k++)
                for (int d = 0; d < shares && other->in[k] >= 0; d++)
                    if (matcher->root[other->in[k]] == matcher->root[step->in[d]]) return true;
        }
    }
    return false;
}

/* A place after all that is read, before all that reads. What is read is not made by the match. */
static bool prove_place(const match *t, fused *f, int before)
{
    const zt_matcher *matcher = t->m;
    int first = t->step[0], last = t->step[0];
    for (int j = 1; j < t->pat->n; j++) {
        if (t->step[j] < first) first = t->step[j];
        if (t->step[j] > last) last = t->step[j];
    }
    if (last - first > MAX_SPAN) return false;
    f->at = 2 * last + 1;
    if (before <= f->at) f->at = before - 1;
    if (before % 2 == 0 && before < 2 * last + 1) return false; /* two before one step: no order */
    for (int k = 0; k < zt_op_info(f->op)->n_in; k++) {
        int maker = f->in[k] < 0 ? -1 : matcher->maker[f->in[k]];
        if (maker >= 0 && (matcher->place[maker] >= f->at || in_match(t, maker))) return false;
    }
    return !disturbed(t, first, last);
}

static void gather_attrs(const match *t, void *attrs)
{
    const zt_opinfo *info = zt_op_info(t->pat->op);
    memcpy(attrs, t->pat->attrs, info->attr_bytes);
    for (int k = 0; k < info->n_attrs; k++) {
        const zt_origin *origin = &t->pat->gather[k];
        if (!origin->n) continue;
        const zt_step *step = zt_prog_step(t->m->p, t->step[origin->at[0].node]);
        const zt_attrdef *from = &zt_op_info(step->op)->attrs[origin->at[0].attr];
        size_t end = k + 1 < info->n_attrs ? info->attrs[k + 1].offset : info->attr_bytes;
        memcpy((char *)attrs + info->attrs[k].offset, (const char *)step->attrs + from->offset,
               end - info->attrs[k].offset);
    }
}

static bool same_node(const match *t, int j)
{
    const zt_dag *dag = t->m->dag;
    const zt_step *step = zt_prog_step(t->m->p, t->step[j]);
    return dag->node[j].op == step->op &&
           !memcmp(dag->node[j].in, t->pat->in[j], sizeof dag->node[j].in) &&
           zt_attrs_same(step->op, dag->node[j].attrs, step->attrs);
}

/* Is the row, expanded, what was found; are its outputs of the same types; has the engine it. */
static bool prove_meaning(const match *t, const fused *f, const void *attrs)
{
    const zt_matcher *matcher = t->m;
    const zt_opinfo *info = zt_op_info(f->op);
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT] = {0};
    for (int k = 0; k < info->n_in; k++) input_types[k] = f->in[k] < 0 ? NULL : &matcher->bound->type[f->in[k]];
    if (zt_op_infer(NULL, f->op, attrs, input_types, out)) return false;
    for (int k = 0; k < info->n_out; k++)
        if (f->stands[k] >= 0 && !zt_type_equal(&out[k], &matcher->bound->type[f->stands[k]]))
            return false;
    if (!zt_dag_expand(matcher->dag, f->op, attrs, input_types, matcher->no_dims) || matcher->dag->n != t->pat->n ||
        memcmp(matcher->dag->out, t->pat->out, sizeof t->pat->out) != 0)
        return false;
    for (int j = 0; j < t->pat->n; j++)
        if (!same_node(t, j)) return false;
    zt_engine *engine = matcher->opts->engine;
    return !engine || engine->vt->has(engine, f->op, attrs, input_types, out);
}

/* All of it; then the match is taken. */
static bool prove(match *t)
{
    zt_matcher *matcher = t->m;
    int64_t attrs[ZT_MAX_ATTR_BYTES / 8];
    const zt_opinfo *info = zt_op_info(t->pat->op);
    fused f = {.op = t->pat->op};
    int before = 2 * zt_prog_n_steps(matcher->p) + 2;
    for (int k = 0; k < ZT_MAX_IN; k++) f.in[k] = t->in[k] < 0 ? ZT_NONE : t->in[k];
    for (int k = 0; k < info->def->n_required; k++)
        if (f.in[k] < 0) return false;
    if (!prove_outputs(t, &f, &before) || !prove_place(t, &f, before)) return false;
    gather_attrs(t, attrs);
    if (!prove_meaning(t, &f, attrs)) return false;
    f.attrs = zt_arena_alloc(matcher->memory, info->attr_bytes);
    if (!f.attrs) return false; /* no memory: the context says so */
    memcpy(f.attrs, attrs, info->attr_bytes);
    for (int j = 0; j < t->pat->n; j++) {
        matcher->of[t->step[j]] = matcher->n_found;
        matcher->place[t->step[j]] = f.at;
    }
    matcher->found[matcher->n_found++] = f;
    return true;
}

/* ---- the two ends ---------------------------------------------------------------------------- */

zt_status zt_matcher_find(zt_matcher *matcher, const zt_pattern *pat)
{
    int anchor = pat->n - 1; /* the last node is a sink */
    for (int j = 0; j < pat->n; j++)
        if (matcher->op_first[pat->node[j] + 1] == matcher->op_first[pat->node[j]]) return ZT_OK;
    int lo = matcher->op_first[pat->node[anchor]], hi = matcher->op_first[pat->node[anchor] + 1];
    for (int i = hi; i-- > lo;) { /* the last of q, k and v is the last of the pattern's */
        match t = {.m = matcher, .pat = pat};
        memset(t.step, 0xff, sizeof t.step);
        memset(t.in, 0xff, sizeof t.in);
        if (lay(&t, anchor, matcher->op_step[i])) lay_rest(&t, matcher->op_step[i]);
    }
    return zt_ctx_status(matcher->ctx);
}

/* next[i]: the fused op after i at the same place. */
static zt_status emit(zt_matcher *matcher, zt_rewrite *rewrite, const int *head, const int *next)
{
    zt_status status = ZT_OK;
    for (int at = 0; at <= 2 * zt_prog_n_steps(matcher->p) && !status; at++) {
        for (int i = head[at]; i >= 0 && !status; i = next[i])
            status = zt_rewrite_op(rewrite, matcher->found[i].op, matcher->found[i].attrs, matcher->found[i].in,
                              matcher->found[i].stands);
        if (at % 2 && !status && matcher->of[at / 2] < 0) status = zt_rewrite_copy(rewrite, at / 2, NULL);
    }
    return status;
}

zt_status zt_matcher_replace(zt_matcher *matcher, zt_prog **out)
{
    zt_rewrite rewrite;
    size_t places = 2 * (size_t)zt_prog_n_steps(matcher->p) + 2;
    if (!matcher->n_found) return ZT_OK;
    int *head = zt_arena_alloc(matcher->memory, places * sizeof *head);
    int *next = zt_arena_alloc(matcher->memory, (size_t)matcher->n_found * sizeof *next);
    if (!head || !next) return ZT_ENOMEM;
    memset(head, 0xff, places * sizeof *head);
    for (int i = matcher->n_found; i-- > 0;) {
        next[i] = head[matcher->found[i].at];
        head[matcher->found[i].at] = i;
    }
    zt_status status = zt_rewrite_begin(&rewrite, matcher->ctx, matcher->p);
    if (!status) status = emit(matcher, &rewrite, head, next);
    return zt_rewrite_end(&rewrite, status, out);
}
