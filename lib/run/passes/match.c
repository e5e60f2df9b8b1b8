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
#include "lib/engine/contract_bits.h"
#include "lib/run/passes/match.h"

#include <string.h>

enum {
    MAX_SPAN = 256, /* steps from the first of a match to its last */
    MAX_TRIES = 6   /* users looked at for a further sink */
};

typedef struct fused_op {
    zt_op op;
    int place; /* place */
    int inputs[ZT_MAX_IN], stands[ZT_MAX_OUT];
    void *attrs;
} fused_op;

struct zt_matcher {
    zt_ctx *ctx;
    const zt_prog *program;
    const zt_pass_opts *options;
    zt_arena *memory;
    zt_bound *bound;
    int *makers;             /* [values]: the step, or -1 */
    int *first_use, *uses;   /* steps that read value v, rising: use[first[v]] .. use[first[v + 1] - 1] */
    bool *pinned;            /* [values]: an output, or kept */
    int *roots;              /* [values] */
    int *place;              /* [steps] */
    int *fused_by;           /* [steps]: number of the fused op that it is part of, or -1 */
    int *op_first, *op_step; /* steps of each op, in the same form */
    fused_op *fused_ops;     /* [steps] at most */
    int n_fused;
    zt_dag *dag;
    bool no_dims;
};

/* A pattern laid on the program. */
typedef struct pattern_match {
    zt_matcher *matcher;
    const zt_pattern *pattern;
    int steps[ZT_DAG_NODES]; /* -1: not laid yet */
    bool swapped[ZT_DAG_NODES];
    int inputs[ZT_MAX_IN]; /* values of the program; -1: not bound */
    int n_laid;
} pattern_match;

/* ---- the program, indexed -------------------------------------------------------------------- */

/* Lists of steps by key, rising: counted, then filled. */
static void index_uses(zt_matcher *matcher)
{
    int value_count = zt_prog_n_values(matcher->program), n_steps = zt_prog_n_steps(matcher->program);
    memset(matcher->first_use, 0, ((size_t)value_count + 2) * sizeof *matcher->first_use);
    for (int pass = 0; pass < 2; pass++) {
        for (int step_index = 0; step_index < n_steps; step_index++) {
            const zt_step *step = zt_prog_step(matcher->program, step_index);
            for (int input = 0; input < zt_op_info(step->op)->n_in; input++) {
                if (step->in[input] < 0) continue;
                int *next_use = &matcher->first_use[step->in[input] + 2 - pass];
                if (pass) matcher->uses[*next_use] = step_index;
                ++*next_use;
            }
        }
        for (int value_id = 2; value_id < value_count + 2 && !pass; value_id++)
            matcher->first_use[value_id] += matcher->first_use[value_id - 1];
    }
}

static void index_ops(zt_matcher *matcher)
{
    int n_steps = zt_prog_n_steps(matcher->program);
    memset(matcher->op_first, 0, (ZT_OP_COUNT + 2) * sizeof *matcher->op_first);
    for (int step_index = 0; step_index < n_steps; step_index++)
        matcher->op_first[zt_prog_step(matcher->program, step_index)->op + 2]++;
    for (int op_number = 2; op_number < ZT_OP_COUNT + 2; op_number++)
        matcher->op_first[op_number] += matcher->op_first[op_number - 1];
    for (int step_index = 0; step_index < n_steps; step_index++)
        matcher->op_step[matcher->op_first[zt_prog_step(matcher->program, step_index)->op + 1]++] = step_index;
}

static void index_values(zt_matcher *matcher)
{
    const zt_prog *program = matcher->program;
    for (int value_id = 0; value_id < zt_prog_n_values(program); value_id++) {
        const zt_value *value = zt_prog_value(program, value_id);
        matcher->makers[value_id] = value->kind == ZT_VALUE_OP ? value->index : -1;
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0) matcher->pinned[value->keep] = true;
    }
    for (int output_index = 0; output_index < zt_prog_n_outputs(program); output_index++)
        matcher->pinned[zt_prog_output(program, output_index)->value] = true;
    for (int step_index = 0; step_index < zt_prog_n_steps(program); step_index++) {
        matcher->place[step_index] = 2 * step_index + 1;
        matcher->fused_by[step_index] = -1;
    }
    zt_prog_roots(program, matcher->roots);
}

static zt_status index_all(zt_matcher *matcher)
{
    size_t values = (size_t)zt_prog_n_values(matcher->program) + 2, steps = (size_t)zt_prog_n_steps(matcher->program) + 1;
    matcher->makers = zt_arena_alloc(matcher->memory, values * sizeof *matcher->makers);
    matcher->first_use = zt_arena_alloc(matcher->memory, values * sizeof *matcher->first_use);
    matcher->uses = zt_arena_alloc(matcher->memory, steps * ZT_MAX_IN * sizeof *matcher->uses);
    matcher->pinned = zt_arena_alloc(matcher->memory, values * sizeof *matcher->pinned);
    matcher->roots = zt_arena_alloc(matcher->memory, values * sizeof *matcher->roots);
    matcher->place = zt_arena_alloc(matcher->memory, steps * sizeof *matcher->place);
    matcher->fused_by = zt_arena_alloc(matcher->memory, steps * sizeof *matcher->fused_by);
    matcher->op_first = zt_arena_alloc(matcher->memory, (ZT_OP_COUNT + 2) * sizeof *matcher->op_first);
    matcher->op_step = zt_arena_alloc(matcher->memory, steps * sizeof *matcher->op_step);
    matcher->fused_ops = zt_arena_alloc(matcher->memory, steps * sizeof *matcher->fused_ops);
    matcher->dag = zt_arena_alloc(matcher->memory, sizeof *matcher->dag);
    if (!matcher->makers || !matcher->first_use || !matcher->uses || !matcher->pinned || !matcher->roots || !matcher->place ||
        !matcher->fused_by || !matcher->op_first || !matcher->op_step || !matcher->fused_ops || !matcher->dag)
        return ZT_ENOMEM;
    memset(matcher->pinned, 0, values * sizeof *matcher->pinned);
    index_values(matcher);
    index_uses(matcher);
    index_ops(matcher);
    matcher->no_dims = zt_prog_n_symbols(matcher->program) > 0;
    return ZT_OK;
}

zt_status zt_matcher_new(zt_matcher **out, zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts)
{
    zt_matcher *matcher = *out = zt_calloc(ctx, 1, sizeof *matcher);
    if (!matcher) return ZT_ENOMEM;
    matcher->ctx = ctx;
    matcher->program = program;
    matcher->options = opts;
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

static bool lay_node(pattern_match *match, int node, int step);

static bool is_taken(const pattern_match *match, int step_index)
{
    for (int j = 0; j < match->pattern->n; j++)
        if (match->steps[j] == step_index) return true;
    return match->matcher->fused_by[step_index] >= 0;
}

/* The value of the program where the pattern has pattern_value. */
static bool lay_value(pattern_match *match, int pattern_value, int value_id)
{
    if (pattern_value < 0 || value_id < 0) return pattern_value < 0 && value_id < 0;
    if (pattern_value < ZT_MAX_IN) {
        if (match->inputs[pattern_value] < 0) match->inputs[pattern_value] = value_id;
        return match->inputs[pattern_value] == value_id;
    }
    int node = (pattern_value - ZT_MAX_IN) / ZT_MAX_OUT, k = (pattern_value - ZT_MAX_IN) % ZT_MAX_OUT;
    int step = match->matcher->makers[value_id];
    if (step < 0 || zt_prog_step(match->matcher->program, step)->out[k] != value_id) return false;
    return match->steps[node] >= 0 ? match->steps[node] == step : lay_node(match, node, step);
}

static bool lay_inputs(pattern_match *match, int node, const zt_step *step, bool swapped)
{
    const int *inputs = match->pattern->in[node];
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++)
        if (!lay_value(match, inputs[input], step->in[swapped && input < 2 ? 1 - input : input])) return false;
    return true;
}

/* A node and all it reads. On failure the match is as it was. */
static bool lay_node(pattern_match *match, int node, int step)
{
    const zt_step *source_step = zt_prog_step(match->matcher->program, step);
    if (source_step->op != match->pattern->node[node] || is_taken(match, step)) return false;
    pattern_match before = *match;
    int ways = zt_op_info(source_step->op)->def->flags & ZT_OPF_COMMUTATIVE ? 2 : 1;
    for (int way = 0; way < ways; way++) {
        match->steps[node] = step;
        match->swapped[node] = way;
        match->n_laid++;
        if (lay_inputs(match, node, source_step, way)) return true;
        *match = before;
    }
    return false;
}

static bool prove_match(pattern_match *match);

/* An input of the sink that is bound already, read by fewer than others; -1: none. */
static int shared_value(const pattern_match *match, int node)
{
    int best = -1, least = 0;
    for (int input = 0; input < ZT_MAX_IN; input++) {
        int pattern_value = match->pattern->in[node][input];
        if (pattern_value < 0 || pattern_value >= ZT_MAX_IN || match->inputs[pattern_value] < 0) continue;
        int use_count =
            match->matcher->first_use[match->inputs[pattern_value] + 1] - match->matcher->first_use[match->inputs[pattern_value]];
        if (best < 0 || use_count < least) {
            best = match->inputs[pattern_value];
            least = use_count;
        }
    }
    return best;
}

/* The sinks that are not laid, one by one: users of what is bound, from those nearest to `near_place`. */
static bool lay_rest(pattern_match *match, int near_place)
{
    int node = match->pattern->n - 1;
    while (node >= 0 && match->steps[node] >= 0) node--;
    if (node < 0) return prove_match(match);
    while (node >= 0 && (match->steps[node] >= 0 || !(match->pattern->sinks >> node & 1) || shared_value(match, node) < 0))
        node--;
    if (node < 0) return false;
    int value_id = shared_value(match, node), first_use = match->matcher->first_use[value_id],
        use_end = match->matcher->first_use[value_id + 1], nearest = first_use;
    const int *use = match->matcher->uses;
    for (int remaining = use_end - first_use; remaining > 0;) { /* the first use that is not before `near` */
        int half = remaining / 2;
        bool before = use[nearest + half] < near_place;
        nearest = before ? nearest + half + 1 : nearest;
        remaining = before ? remaining - half - 1 : half;
    }
    int down = nearest - 1, up = nearest;
    for (int tries = 0; tries < MAX_TRIES && (down >= first_use || up < use_end);) {
        bool back = up >= use_end || (down >= first_use && near_place - use[down] <= use[up] - near_place);
        int step = back ? use[down--] : use[up++];
        if (step > near_place + MAX_SPAN || step < near_place - MAX_SPAN) break;
        if (zt_prog_step(match->matcher->program, step)->op != match->pattern->node[node]) continue;
        tries++;
        pattern_match before = *match;
        if (lay_node(match, node, step) && lay_rest(match, near_place)) return true;
        *match = before;
    }
    return false;
}

/* ---- proving --------------------------------------------------------------------------------- */

static bool in_match(const pattern_match *match, int step_index)
{
    for (int j = 0; j < match->pattern->n; j++)
        if (match->steps[j] == step_index) return true;
    return false;
}

/* The fused output that output k of a node is, or -1. */
static int fused_output(const zt_pattern *pattern, int node, int k)
{
    for (int output_index = 0; output_index < zt_op_info(pattern->op)->n_out; output_index++)
        if (pattern->out[output_index] == ZT_DAG_OUT(node, k)) return output_index;
    return -1;
}

/* Outputs that somebody else reads are outputs of the fused op;
 * *before: the first reader's place. */
static bool prove_outputs(const pattern_match *match, fused_op *fused, int *before)
{
    const zt_matcher *matcher = match->matcher;
    for (int output = 0; output < ZT_MAX_OUT; output++) fused->stands[output] = ZT_NONE;
    for (int j = 0; j < match->pattern->n; j++) {
        const zt_step *step = zt_prog_step(matcher->program, match->steps[j]);
        for (int output = 0; output < zt_op_info(step->op)->n_out; output++) {
            int value_id = step->out[output], output_index = fused_output(match->pattern, j, output);
            if (value_id < 0) continue;
            bool outside = matcher->pinned[value_id];
            for (int use_index = matcher->first_use[value_id]; use_index < matcher->first_use[value_id + 1]; use_index++) {
                if (in_match(match, matcher->uses[use_index])) continue;
                outside = true;
                if (matcher->place[matcher->uses[use_index]] < *before) *before = matcher->place[matcher->uses[use_index]];
            }
            if (outside && output_index < 0) return false;
            if (outside || output_index == 0) fused->stands[output_index] = value_id;
        }
    }
    return fused->stands[0] >= 0;
}

/* Reads a step between them memory that the match uses up? */
static bool is_disturbed(const pattern_match *match, int first, int last)
{
    const zt_matcher *matcher = match->matcher;
    for (int j = 0; j < match->pattern->n; j++) {
        const zt_step *step = zt_prog_step(matcher->program, match->steps[j]);
        for (int step_index = first + 1, shares = zt_op_shares(step->op); step_index < last && shares; step_index++) {
            const zt_step *other = zt_prog_step(matcher->program, step_index);
            for (int input = 0; input < ZT_MAX_IN && !in_match(match, step_index); input++)
                for (int shared = 0; shared < shares && other->in[input] >= 0; shared++)
                    if (matcher->roots[other->in[input]] == matcher->roots[step->in[shared]]) return true;
        }
    }
    return false;
}

/* A place after all that is read, before all that reads. What is read is not made by the match. */
static bool prove_place(const pattern_match *match, fused_op *fused, int before)
{
    const zt_matcher *matcher = match->matcher;
    int first = match->steps[0], last = match->steps[0];
    for (int j = 1; j < match->pattern->n; j++) {
        if (match->steps[j] < first) first = match->steps[j];
        if (match->steps[j] > last) last = match->steps[j];
    }
    if (last - first > MAX_SPAN) return false;
    fused->place = 2 * last + 1;
    if (before <= fused->place) fused->place = before - 1;
    if (before % 2 == 0 && before < 2 * last + 1) return false; /* two before one step: no order */
    for (int input = 0; input < zt_op_info(fused->op)->n_in; input++) {
        int maker = fused->inputs[input] < 0 ? -1 : matcher->makers[fused->inputs[input]];
        if (maker >= 0 && (matcher->place[maker] >= fused->place || in_match(match, maker))) return false;
    }
    return !is_disturbed(match, first, last);
}

static void gather_attrs(const pattern_match *match, void *attrs)
{
    const zt_opinfo *op_info = zt_op_info(match->pattern->op);
    memcpy(attrs, match->pattern->attrs, op_info->attr_bytes);
    for (int attr_index = 0; attr_index < op_info->n_attrs; attr_index++) {
        const zt_origin *origin = &match->pattern->gather[attr_index];
        if (!origin->n) continue;
        const zt_step *step = zt_prog_step(match->matcher->program, match->steps[origin->at[0].node]);
        const zt_attrdef *from = &zt_op_info(step->op)->attrs[origin->at[0].attr];
        size_t end = attr_index + 1 < op_info->n_attrs ? op_info->attrs[attr_index + 1].offset : op_info->attr_bytes;
        memcpy((char *)attrs + op_info->attrs[attr_index].offset, (const char *)step->attrs + from->offset,
               end - op_info->attrs[attr_index].offset);
    }
}

static bool same_node(const pattern_match *match, int node)
{
    const zt_dag *dag = match->matcher->dag;
    const zt_step *step = zt_prog_step(match->matcher->program, match->steps[node]);
    return dag->node[node].op == step->op && !memcmp(dag->node[node].in, match->pattern->in[node], sizeof dag->node[node].in) &&
           zt_attrs_same(step->op, dag->node[node].attrs, step->attrs);
}

/* Is the row, expanded, what was found; are its outputs of the same types; has the engine it. */
static bool prove_meaning(const pattern_match *match, const fused_op *fused, const void *attrs)
{
    const zt_matcher *matcher = match->matcher;
    const zt_opinfo *op_info = zt_op_info(fused->op);
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type output_types[ZT_MAX_OUT] = {0};
    for (int input = 0; input < op_info->n_in; input++)
        input_types[input] = fused->inputs[input] < 0 ? NULL : &matcher->bound->type[fused->inputs[input]];
    if (zt_op_infer(NULL, fused->op, attrs, input_types, output_types)) return false;
    for (int output = 0; output < op_info->n_out; output++)
        if (fused->stands[output] >= 0 && !zt_type_equal(&output_types[output], &matcher->bound->type[fused->stands[output]]))
            return false;
    if (!zt_dag_expand(matcher->dag, fused->op, attrs, input_types, matcher->no_dims) || matcher->dag->n != match->pattern->n ||
        memcmp(matcher->dag->out, match->pattern->out, sizeof match->pattern->out) != 0)
        return false;
    for (int j = 0; j < match->pattern->n; j++)
        if (!same_node(match, j)) return false;
    zt_engine *engine = matcher->options->engine;
    return !engine || zt_engine_runs(engine, fused->op, attrs, input_types, output_types);
}

/* All of it; then the match is taken. */
static bool prove_match(pattern_match *match)
{
    zt_matcher *matcher = match->matcher;
    int64_t attrs[ZT_MAX_ATTR_BYTES / 8];
    const zt_opinfo *op_info = zt_op_info(match->pattern->op);
    fused_op fused = {.op = match->pattern->op};
    int before = 2 * zt_prog_n_steps(matcher->program) + 2;
    for (int input = 0; input < ZT_MAX_IN; input++)
        fused.inputs[input] = match->inputs[input] < 0 ? ZT_NONE : match->inputs[input];
    for (int k = 0; k < op_info->def->n_required; k++)
        if (fused.inputs[k] < 0) return false;
    if (!prove_outputs(match, &fused, &before) || !prove_place(match, &fused, before)) return false;
    gather_attrs(match, attrs);
    if (!prove_meaning(match, &fused, attrs)) return false;
    fused.attrs = zt_arena_alloc(matcher->memory, op_info->attr_bytes);
    if (!fused.attrs) return false; /* no memory: the context says so */
    memcpy(fused.attrs, attrs, op_info->attr_bytes);
    for (int j = 0; j < match->pattern->n; j++) {
        matcher->fused_by[match->steps[j]] = matcher->n_fused;
        matcher->place[match->steps[j]] = fused.place;
    }
    matcher->fused_ops[matcher->n_fused++] = fused;
    return true;
}

/* ---- the two ends ---------------------------------------------------------------------------- */

zt_status zt_matcher_find(zt_matcher *matcher, const zt_pattern *pattern)
{
    int anchor = pattern->n - 1; /* the last node is a sink */
    for (int j = 0; j < pattern->n; j++)
        if (matcher->op_first[pattern->node[j] + 1] == matcher->op_first[pattern->node[j]]) return ZT_OK;
    int first_step = matcher->op_first[pattern->node[anchor]], step_end = matcher->op_first[pattern->node[anchor] + 1];
    for (int i = step_end; i-- > first_step;) { /* the last of q, k and v is the last of the pattern's */
        pattern_match match = {.matcher = matcher, .pattern = pattern};
        memset(match.steps, 0xff, sizeof match.steps);
        memset(match.inputs, 0xff, sizeof match.inputs);
        if (lay_node(&match, anchor, matcher->op_step[i])) lay_rest(&match, matcher->op_step[i]);
    }
    return zt_ctx_status(matcher->ctx);
}

/* next[i]: the fused op after i at the same place. */
static zt_status emit_fused(zt_matcher *matcher, zt_rewrite *rewrite, const int *head, const int *next)
{
    zt_status status = ZT_OK;
    for (int place = 0; place <= 2 * zt_prog_n_steps(matcher->program) && !status; place++) {
        for (int i = head[place]; i >= 0 && !status; i = next[i])
            status = zt_rewrite_op(rewrite, matcher->fused_ops[i].op, matcher->fused_ops[i].attrs, matcher->fused_ops[i].inputs,
                                   matcher->fused_ops[i].stands);
        if (place % 2 && !status && matcher->fused_by[place / 2] < 0) status = zt_rewrite_copy(rewrite, place / 2, NULL);
    }
    return status;
}

zt_status zt_matcher_replace(zt_matcher *matcher, zt_prog **rewritten)
{
    zt_rewrite rewrite;
    size_t places = 2 * (size_t)zt_prog_n_steps(matcher->program) + 2;
    if (!matcher->n_fused) return ZT_OK;
    int *head = zt_arena_alloc(matcher->memory, places * sizeof *head);
    int *next = zt_arena_alloc(matcher->memory, (size_t)matcher->n_fused * sizeof *next);
    if (!head || !next) return ZT_ENOMEM;
    memset(head, 0xff, places * sizeof *head);
    for (int i = matcher->n_fused; i-- > 0;) {
        next[i] = head[matcher->fused_ops[i].place];
        head[matcher->fused_ops[i].place] = i;
    }
    zt_status status = zt_rewrite_begin(&rewrite, matcher->ctx, matcher->program);
    if (!status) status = emit_fused(matcher, &rewrite, head, next);
    return zt_rewrite_end(&rewrite, status, rewritten);
}
