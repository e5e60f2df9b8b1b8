/* chain.c - the pass chain: elementwise ops that hand values of one shape to each other become one
 * `pointwise`, which reads its inputs and writes its outputs once.
 *
 * A group stands where its last step stood. So whoever reads a value of it and is no member comes
 * after that step; and nothing it reads or writes is memory that a donation takes. It grows from
 * producer to consumer, in the program's order, while the limits of the row hold: 8 inputs, 6
 * outputs, 64 ops. The op is made only where the engine has it.
 */
#include "lib/engine/contract_bits.h"
#include "lib/ops/pointwise.h"
#include "lib/run/passes/rewrite.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MEMBERS = ZT_POINTWISE_OPS };

typedef struct chain_groups {
    const zt_prog *program;
    const zt_pass_opts *options;
    zt_bound *bound;
    int *roots;    /* [values] */
    bool *used_up; /* [values]: a donation takes this root's memory */
    bool *ends;    /* [values]: kept, or an output */
    int *uses;     /* [values + 1]: where a value's readers begin in `reader`, steps rising */
    int *readers;
    bool *may_join; /* [steps] */
    int *leaders;   /* [steps]: the first step of its group */
    int *next;      /* [steps]: the next of its group, -1: the last */
    int *last;      /* [steps]: of a leader's group */
    int *marks;     /* [steps]: the last union that a step was tried in */
    int found;
} chain_groups;

/* ---- what is asked of a program -------------------------------------------------------------- */

/* Are the sample's numbers of the symbols all different? */
static bool tells_apart(const zt_prog *program, const zt_pass_opts *options)
{
    for (int step_index = 0; step_index < zt_prog_n_symbols(program); step_index++) {
        int64_t value = 0;
        for (int i = 0; i < options->n_sample; i++)
            if (!strcmp(options->sample[i].symbol, zt_prog_symbol_name(program, step_index))) value = options->sample[i].value;
        if (value < 2) return false;
        for (int i = 0; i < options->n_sample; i++)
            if (options->sample[i].value == value && strcmp(options->sample[i].symbol, zt_prog_symbol_name(program, step_index)))
                return false;
    }
    return true;
}

/* Is there an elementwise op that reads another's value? */
static bool any_pair(const zt_prog *program)
{
    for (int step_index = 0; step_index < zt_prog_n_steps(program); step_index++) {
        const zt_step *step = zt_prog_step(program, step_index);
        if (!zt_pointwise_takes(step->op)) continue;
        for (int input = 0; input < zt_op_info(step->op)->n_in; input++) {
            const zt_value *value = zt_prog_value(program, step->in[input]);
            if (value->kind == ZT_VALUE_OP && zt_pointwise_takes(zt_prog_step(program, value->index)->op)) return true;
        }
    }
    return false;
}

static void find_ends(chain_groups *groups)
{
    const zt_prog *program = groups->program;
    zt_prog_roots(program, groups->roots);
    for (int step_index = 0; step_index < zt_prog_n_steps(program); step_index++) {
        const zt_step *step = zt_prog_step(program, step_index);
        for (int donated = 0; donated < zt_op_info(step->op)->def->donates; donated++)
            groups->used_up[groups->roots[step->in[donated]]] = true;
    }
    for (int output_index = 0; output_index < zt_prog_n_outputs(program); output_index++)
        groups->ends[zt_prog_output(program, output_index)->value] = true;
    for (int state_index = 0; state_index < zt_prog_count(program, ZT_VALUE_STATE); state_index++) {
        int keep = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, state_index))->keep;
        if (keep >= 0) groups->ends[keep] = true;
    }
}

/* Readers of every value, a step as often as it reads it. */
static void find_readers(chain_groups *groups)
{
    int value_count = zt_prog_n_values(groups->program);
    for (int pass = 0; pass < 2; pass++) {
        for (int step_index = zt_prog_n_steps(groups->program); step_index-- > 0;)
            for (int input = 0; input < ZT_MAX_IN; input++) {
                int value_id = zt_prog_step(groups->program, step_index)->in[input];
                if (value_id < 0 || input >= zt_op_info(zt_prog_step(groups->program, step_index)->op)->n_in) continue;
                if (pass)
                    groups->readers[--groups->uses[value_id]] = step_index;
                else
                    groups->uses[value_id]++;
            }
        for (int value_id = 1; value_id <= value_count && !pass; value_id++) groups->uses[value_id] += groups->uses[value_id - 1];
    }
}

static bool same_shape(const zt_type *first, const zt_type *second)
{
    zt_type type = *first;
    type.dtype = second->dtype;
    return zt_type_equal(&type, second);
}

/* ---- the op of a group ----------------------------------------------------------------------- */

/* Its chain, inputs and outputs; false where a limit of the row is passed. */
typedef struct fused_chain {
    zt_pointwise_chain chain;
    int inputs[ZT_MAX_IN], input_count; /* values of the program */
    int outputs[ZT_MAX_OUT];
} fused_chain;

static int step_of(const chain_groups *groups, int value_id)
{
    const zt_value *value = zt_prog_value(groups->program, value_id);
    return value->kind == ZT_VALUE_OP ? value->index : -1;
}

static bool read_outside(const chain_groups *groups, int value_id, int mark_value)
{
    for (int i = groups->uses[value_id]; i < groups->uses[value_id + 1]; i++)
        if (groups->marks[groups->readers[i]] != mark_value) return true;
    return groups->ends[value_id];
}

static int operand_number(fused_chain *fused, const chain_groups *groups, const int *member, int member_count, int value_id)
{
    for (int member_index = 0; member_index < member_count; member_index++)
        if (member[member_index] == step_of(groups, value_id)) return ZT_POINTWISE_INS + member_index;
    int k = 0;
    while (k < fused->input_count && fused->inputs[k] != value_id) k++;
    if (k == ZT_POINTWISE_INS) return -1;
    if (k == fused->input_count) fused->inputs[fused->input_count++] = value_id;
    fused->chain.inputs |= 1u << k;
    return k;
}

/* Members are in order and marked with `mark_value`. */
static bool build_chain(const chain_groups *groups, const int *member, int member_count, int mark_value, fused_chain *fused)
{
    fused->input_count = 0;
    fused->chain.n_ops = fused->chain.n_out = 0;
    fused->chain.inputs = 0;
    for (int member_index = 0; member_index < member_count; member_index++) {
        const zt_step *step = zt_prog_step(groups->program, member[member_index]);
        const zt_opinfo *op_info = zt_op_info(step->op);
        zt_pointwise_op *chain_op = &fused->chain.op[fused->chain.n_ops++];
        *chain_op = (zt_pointwise_op){.op = step->op, .in = {ZT_NONE, ZT_NONE, ZT_NONE}};
        memcpy(chain_op->attrs, step->attrs ? step->attrs : op_info->defaults, op_info->attr_bytes);
        for (int input = 0; input < op_info->n_in; input++)
            if ((chain_op->in[input] = operand_number(fused, groups, member, member_count, step->in[input])) < 0) return false;
        if (!read_outside(groups, step->out[0], mark_value)) continue;
        if (fused->chain.n_out == ZT_POINTWISE_OUTS) return false;
        fused->outputs[fused->chain.n_out] = step->out[0];
        fused->chain.out[fused->chain.n_out++] = ZT_POINTWISE_INS + member_index;
    }
    return fused->chain.n_out && fused->chain.out[fused->chain.n_out - 1] == ZT_POINTWISE_INS + member_count - 1;
}

/* Has the engine the op: of these types, as the sample has them. */
static bool engine_has(const chain_groups *groups, const fused_chain *fused, const char *text)
{
    const zt_pointwise_attrs attrs = {text};
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type output_types[ZT_MAX_OUT];
    zt_engine *engine = groups->options->engine;
    for (int input = 0; input < fused->input_count; input++) input_types[input] = &groups->bound->type[fused->inputs[input]];
    return zt_op_infer(NULL, ZT_OP_pointwise, &attrs, input_types, output_types) == ZT_OK &&
           (!engine || zt_engine_runs(engine, ZT_OP_pointwise, &attrs, input_types, output_types));
}

/* The text of a group's chain, into `text`; *fits says whether the op may be made. */
static zt_status try_text(const chain_groups *groups, const fused_chain *fused, zt_str *text, bool *fits)
{
    zt_str_clear(text);
    zt_status status = zt_pointwise_print(&fused->chain, text);
    *fits = !status && engine_has(groups, fused, text->data);
    return status;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static int members_of(const chain_groups *groups, int leader, int *members)
{
    int member_count = 0;
    for (int step_index = leader; step_index >= 0; step_index = groups->next[step_index]) members[member_count++] = step_index;
    return member_count;
}

static int by_step(const void *left, const void *right) { return *(const int *)left - *(const int *)right; }

/* Steps of two groups and the step, in order; 0: too many. */
static int gather_members(const chain_groups *groups, const int *leader, int n_leaders, int step_index, int *member)
{
    int member_count = 0, candidates[3 * MAX_MEMBERS];
    for (int i = 0; i < n_leaders; i++) member_count += members_of(groups, leader[i], candidates + member_count);
    if (member_count >= MAX_MEMBERS) return 0;
    memcpy(member, candidates, (size_t)member_count * sizeof *member);
    qsort(member, (size_t)member_count, sizeof *member, by_step);
    member[member_count++] = step_index;
    return member_count;
}

/* Does all of a union that others read, they read after the step? */
static bool read_later(const chain_groups *groups, const int *member, int member_count, int step_index, int mark_value)
{
    for (int member_index = 0; member_index < member_count; member_index++) {
        int value_id = zt_prog_step(groups->program, member[member_index])->out[0];
        for (int use = groups->uses[value_id]; use < groups->uses[value_id + 1] && groups->readers[use] <= step_index; use++)
            if (groups->marks[groups->readers[use]] != mark_value) return false;
    }
    return true;
}

/* The step and the groups of `leader` become one, if they may. */
static bool unite_groups(chain_groups *groups, const int *leader, int n_leaders, int step_index, int mark_value)
{
    int member[MAX_MEMBERS];
    fused_chain fused;
    int member_count = gather_members(groups, leader, n_leaders, step_index, member);
    if (member_count == 0) return false;
    for (int member_index = 0; member_index < member_count; member_index++) groups->marks[member[member_index]] = mark_value;
    if (!read_later(groups, member, member_count, step_index, mark_value) ||
        !build_chain(groups, member, member_count, mark_value, &fused))
        return false;
    for (int member_index = 0; member_index < member_count; member_index++) {
        groups->leaders[member[member_index]] = member[0];
        groups->next[member[member_index]] = member_index + 1 < member_count ? member[member_index + 1] : -1;
    }
    groups->last[member[0]] = step_index;
    return true;
}

/* With the groups that made its operands: all of them, or the first that it can. */
static void join_makers(chain_groups *groups, int step_index, int *mark_value)
{
    const zt_step *step = zt_prog_step(groups->program, step_index);
    int leader[3], leader_count = 0;
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++) {
        int from = step_of(groups, step->in[input]);
        if (from < 0 || !groups->may_join[from]) continue;
        if (!same_shape(&groups->bound->type[step->in[input]], &groups->bound->type[step->out[0]])) continue;
        bool known = false;
        for (int i = 0; i < leader_count; i++) known = known || leader[i] == groups->leaders[from];
        if (!known) leader[leader_count++] = groups->leaders[from];
    }
    if (leader_count == 0 || unite_groups(groups, leader, leader_count, step_index, ++*mark_value)) return;
    for (int i = 0; i < leader_count && leader_count > 1; i++)
        if (unite_groups(groups, &leader[i], 1, step_index, ++*mark_value)) return;
}

/* Which steps may be in a chain. */
static zt_status find_candidates(chain_groups *groups, zt_str *text)
{
    zt_status status = ZT_OK;
    for (int step_index = 0; step_index < zt_prog_n_steps(groups->program) && !status; step_index++) {
        const zt_step *step = zt_prog_step(groups->program, step_index);
        fused_chain fused;
        groups->may_join[step_index] = zt_pointwise_takes(step->op) && !groups->used_up[groups->roots[step->out[0]]];
        for (int input = 0; input < zt_op_info(step->op)->n_in && groups->may_join[step_index]; input++)
            groups->may_join[step_index] = !groups->used_up[groups->roots[step->in[input]]];
        groups->marks[step_index] = 0;
        if (!groups->may_join[step_index]) continue;
        groups->marks[step_index] = -1;
        build_chain(groups, &step_index, 1, -1, &fused);
        fused.chain.n_out = 1; /* of a step that nobody reads, too */
        fused.chain.out[0] = ZT_POINTWISE_INS;
        status = try_text(groups, &fused, text, &groups->may_join[step_index]);
        groups->marks[step_index] = 0;
    }
    return status;
}

/* ---- the new program ------------------------------------------------------------------------- */

static zt_status put_group(zt_rewrite *rewrite, const chain_groups *groups, int leader, int mark_value, zt_str *text)
{
    int member[MAX_MEMBERS] = {0}, member_count = members_of(groups, leader, member), stands[ZT_MAX_OUT];
    fused_chain fused;
    bool fits = false;
    for (int member_index = 0; member_index < member_count; member_index++) groups->marks[member[member_index]] = mark_value;
    for (int output = 0; output < ZT_MAX_OUT; output++) stands[output] = ZT_NONE;
    zt_status status =
        build_chain(groups, member, member_count, mark_value, &fused) ? try_text(groups, &fused, text, &fits) : ZT_OK;
    for (int member_index = 0; member_index < member_count && !fits && !status; member_index++)
        status = zt_rewrite_copy(rewrite, member[member_index], NULL);
    if (status || !fits) return status;
    memcpy(stands, fused.outputs, (size_t)fused.chain.n_out * sizeof *stands);
    for (int input = fused.input_count; input < ZT_MAX_IN; input++) fused.inputs[input] = ZT_NONE;
    return zt_rewrite_op(rewrite, ZT_OP_pointwise, &(zt_pointwise_attrs){text->data}, fused.inputs, stands);
}

static zt_status rewrite_program(zt_ctx *ctx, const chain_groups *groups, int mark_value, zt_str *text, zt_prog **rewritten)
{
    zt_rewrite rewrite;
    zt_status status = zt_rewrite_begin(&rewrite, ctx, groups->program);
    for (int step_index = 0; step_index < zt_prog_n_steps(groups->program) && !status; step_index++) {
        int leader = groups->leaders[step_index];
        if (groups->last[leader] == leader)
            status = zt_rewrite_copy(&rewrite, step_index, NULL);
        else if (groups->last[leader] == step_index)
            status = put_group(&rewrite, groups, leader, ++mark_value, text);
    }
    return zt_rewrite_end(&rewrite, status, rewritten);
}

static zt_status find_groups(zt_ctx *ctx, chain_groups *groups, zt_prog **rewritten)
{
    int mark_value = 0;
    zt_str text;
    zt_str_init(&text, ctx);
    find_ends(groups);
    find_readers(groups);
    zt_status status = find_candidates(groups, &text);
    for (int step_index = 0; step_index < zt_prog_n_steps(groups->program) && !status; step_index++) {
        groups->leaders[step_index] = groups->last[step_index] = step_index;
        groups->next[step_index] = -1;
        if (groups->may_join[step_index]) join_makers(groups, step_index, &mark_value);
        groups->found += groups->leaders[step_index] != step_index;
    }
    if (!status && groups->found) status = rewrite_program(ctx, groups, mark_value, &text, rewritten);
    zt_str_fini(&text);
    return status;
}

static zt_status run_chain_pass(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options, zt_prog **rewritten)
{
    size_t values = (size_t)zt_prog_n_values(program) + 2, steps = (size_t)zt_prog_n_steps(program) + 1;
    if (!any_pair(program) || !tells_apart(program, options)) return ZT_OK;
    chain_groups groups = {
        .program = program, .options = options, .bound = zt_prog_bind(program, options->sample, options->n_sample)};
    groups.roots = zt_calloc(ctx, values, sizeof *groups.roots);
    groups.used_up = zt_calloc(ctx, values, sizeof *groups.used_up);
    groups.ends = zt_calloc(ctx, values, sizeof *groups.ends);
    groups.uses = zt_calloc(ctx, values, sizeof *groups.uses);
    groups.readers = zt_alloc_array(ctx, steps * ZT_MAX_IN, sizeof *groups.readers);
    groups.may_join = zt_calloc(ctx, steps, sizeof *groups.may_join);
    groups.leaders = zt_alloc_array(ctx, steps, sizeof *groups.leaders);
    groups.next = zt_alloc_array(ctx, steps, sizeof *groups.next);
    groups.last = zt_alloc_array(ctx, steps, sizeof *groups.last);
    groups.marks = zt_calloc(ctx, steps, sizeof *groups.marks);
    bool room = groups.bound && groups.roots && groups.used_up && groups.ends && groups.uses && groups.readers &&
                groups.may_join && groups.leaders && groups.next && groups.last && groups.marks;
    zt_status status = room ? find_groups(ctx, &groups, rewritten) : zt_ctx_status(ctx);
    void *const all[] = {groups.roots,    groups.used_up, groups.ends, groups.uses, groups.readers,
                         groups.may_join, groups.leaders, groups.next, groups.last, groups.marks};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) zt_free(ctx, all[i]);
    zt_bound_free(groups.bound);
    return status;
}

const zt_pass zt_pass_chain = {
    .name = "chain",
    .help = "fuse chains of elementwise ops into one pass over memory",
    .run = run_chain_pass,
};
