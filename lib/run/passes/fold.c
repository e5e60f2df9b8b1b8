/* fold.c - the pass fold: what is known before a step runs.
 *
 * A step that changes no bit of its input goes: a cast to its own dtype, a scale by 1, a view of
 * the same shape, a copy of all of an axis. So does the first of two casts when it loses nothing,
 * and the view under a view. A step that hangs on data alone becomes data, whose tensor is the op
 * itself:
 *
 *     data  g.f32: f32[576] "@cast f16[576] \"blk.0.attn_norm.weight\" to=f32"
 *
 * A session computes such a tensor once, when it is first needed (constant_data.c). Types are the same
 * when they are for the sample's numbers and for twice those.
 */
#include <string.h>

#include "lib/run/passes/rewrite.h"

enum {
    MAX_DERIVED = 1 << 22, /* bytes that may be made of data that is smaller */
    MAX_DEPTH = 5
};

typedef struct fold_state {
    zt_ctx *ctx;
    const zt_prog *program;
    zt_bound *bound_once, *bound_twice; /* under the sample, and under twice that */
    int *stands_for;                    /* [values]: the value that stands for it */
    int *reads_instead;                 /* [values]: what its step shall read instead of input 0; -1: as it is */
    bool *derived;                      /* [steps]: becomes data */
    char *depth;                        /* [values]: 1 of data, one more for each op that data was made by; 0: else */
    bool *donated;                      /* [values]: its memory is used up by a later step */
    bool *pinned;                       /* [values]: an output, or kept */
    int found;
} fold_state;

static bool type_same(const fold_state *folder, int first, int second)
{
    return zt_type_equal(&folder->bound_once->type[first], &folder->bound_once->type[second]) &&
           zt_type_equal(&folder->bound_twice->type[first], &folder->bound_twice->type[second]);
}

/* ---- steps that do nothing ------------------------------------------------------------------- */

static bool is_always_idle(const void *attrs)
{
    (void)attrs;
    return true;
}

static bool scale_idle(const void *attrs) { return ((const zt_scale_attrs *)attrs)->by == 1; }

static bool transpose_idle(const void *attrs)
{
    const zt_transpose_attrs *transpose = attrs;
    for (int i = 0; i < transpose->axes.n; i++)
        if (transpose->axes.v[i] != i) return false;
    return transpose->axes.n > 0;
}

/* The output is the input where both are of one type and `idle` says so. */
static const struct {
    zt_op op;
    bool (*idle)(const void *attrs);
} idle_ops[] = {
    {ZT_OP_cast, is_always_idle},         {ZT_OP_scale, scale_idle},      {ZT_OP_reshape, is_always_idle},
    {ZT_OP_slice, is_always_idle},        {ZT_OP_repeat, is_always_idle}, {ZT_OP_transpose, transpose_idle},
    {ZT_OP_reshape_like, is_always_idle}, {ZT_OP_sum_to, is_always_idle}, {ZT_OP_broadcast_to, is_always_idle},
};

static bool is_idle(const fold_state *folder, const zt_step *step)
{
    for (size_t i = 0; i < sizeof idle_ops / sizeof *idle_ops; i++)
        if (idle_ops[i].op == step->op) return idle_ops[i].idle(step->attrs) && type_same(folder, step->in[0], step->out[0]);
    return false;
}

/* Has `to` every value of `from`? */
static bool holds_values(zt_dtype dtype, zt_dtype from)
{
    static const struct {
        zt_dtype wide, narrow;
    } rows[] = {{ZT_F64, ZT_F32}, {ZT_F64, ZT_F16}, {ZT_F64, ZT_BF16}, {ZT_F32, ZT_F16}, {ZT_F32, ZT_BF16}};
    for (size_t row_index = 0; row_index < sizeof rows / sizeof *rows; row_index++)
        if (rows[row_index].wide == dtype && rows[row_index].narrow == from) return true;
    return false;
}

/* What a step may read instead of the step before it: x of cast(cast x), of view(view x). */
static int skip_input(const fold_state *folder, const zt_step *step)
{
    const zt_value *value = zt_prog_value(folder->program, step->in[0]);
    if (value->kind != ZT_VALUE_OP) return -1;
    const zt_step *before = zt_prog_step(folder->program, value->index);
    int source = before->in[0];
    const unsigned flags = zt_op_info(step->op)->def->flags, was = zt_op_info(before->op)->def->flags;
    if (step->op == ZT_OP_reshape && was & flags & ZT_OPF_VIEW && before->op == ZT_OP_reshape) return source;
    if (step->op != ZT_OP_cast || before->op != ZT_OP_cast) return -1;
    return holds_values(folder->bound_once->type[step->in[0]].dtype, folder->bound_once->type[source].dtype) ? source : -1;
}

/* ---- steps on data --------------------------------------------------------------------------- */

static bool fixed_type(const fold_state *folder, int value_id)
{
    const zt_type *type = &folder->bound_once->type[value_id];
    for (int axis = 0; axis < type->rank; axis++)
        if (type->dim[axis] != folder->bound_twice->type[value_id].dim[axis]) return false;
    return type->rank == folder->bound_twice->type[value_id].rank;
}

static bool has_dims(const zt_opinfo *op_info)
{
    for (int attr_index = 0; attr_index < op_info->n_attrs; attr_index++)
        if (op_info->attrs[attr_index].kind == ZT_ATTR_dims) return true;
    return false;
}

/* Does the step hang on data alone, and is what it makes worth keeping: of one output, not much
 * larger than what it is made of. */
static bool may_derive(const fold_state *folder, const zt_step *step)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    size_t input_bytes = 0, made_bytes = zt_type_bytes(&folder->bound_once->type[step->out[0]]);
    int input_count = 0;
    if (zt_op_shares(step->op) || op_info->def->flags & ZT_OPF_CALLERS || has_dims(op_info)) return false;
    for (int input = 0; input < op_info->n_in; input++) {
        if (step->in[input] < 0) continue;
        if (!folder->depth[step->in[input]] || folder->depth[step->in[input]] == MAX_DEPTH) return false;
        input_bytes += zt_type_bytes(&folder->bound_once->type[step->in[input]]);
        input_count++;
    }
    for (int output = 1; output < op_info->n_out; output++)
        if (step->out[output] >= 0) return false;
    return input_count && fixed_type(folder, step->out[0]) && !folder->donated[step->out[0]] &&
           (made_bytes <= input_bytes || made_bytes <= MAX_DERIVED);
}

/* "@cast f16[576] \"blk.0.attn_norm.weight\" to=f32": an absent input is _. */
static zt_status derived_name(const fold_state *folder, const zt_rewrite *rewrite, const zt_step *step, zt_str *name)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    int input_count = op_info->n_in;
    while (input_count > 0 && step->in[input_count - 1] < 0) input_count--;
    zt_status status = zt_str_printf(name, "@%s", op_info->name);
    for (int k = 0; k < input_count && !status; k++) {
        status = zt_str_putc(name, ' ');
        if (status) break;
        if (step->in[k] < 0) {
            status = zt_str_putc(name, '_');
        } else {
            char type[ZT_TYPE_TEXT];
            const char *tensor = zt_prog_value(rewrite->target, rewrite->map[folder->stands_for[step->in[k]]])->tensor;
            status = zt_str_printf(name, "%s ", zt_type_text(&folder->bound_once->type[step->in[k]], type));
            if (!status) status = zt_str_put_json(name, tensor, strlen(tensor));
        }
    }
    return status ? status : zt_prog_attrs_print(folder->program, step->op, step->attrs, name);
}

static zt_status derive_data(const fold_state *folder, zt_rewrite *rewrite, const zt_step *step)
{
    const zt_type *type = &folder->bound_once->type[step->out[0]];
    zt_str name;
    zt_str_init(&name, folder->ctx);
    zt_status status = derived_name(folder, rewrite, step, &name);
    int value_id = status ? -1
                          : zt_prog_data(rewrite->target, zt_prog_value(folder->program, step->out[0])->name, type->dtype,
                                         type->rank, type->dim, name.data);
    zt_str_fini(&name);
    rewrite->map[step->out[0]] = value_id;
    return value_id < 0 ? zt_ctx_status(folder->ctx) : ZT_OK;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void note_values(fold_state *folder)
{
    const zt_prog *program = folder->program;
    int *root = folder->reads_instead; /* scratch, before it is needed */
    zt_prog_roots(program, root);
    for (int step_index = 0; step_index < zt_prog_n_steps(program); step_index++) {
        const zt_step *step = zt_prog_step(program, step_index);
        for (int donated = 0; donated < zt_op_info(step->op)->def->donates; donated++)
            folder->donated[root[step->in[donated]]] = true;
    }
    for (int value_id = 0; value_id < zt_prog_n_values(program); value_id++) {
        const zt_value *value = zt_prog_value(program, value_id);
        folder->donated[value_id] = folder->donated[root[value_id]];
        folder->stands_for[value_id] = value_id;
        folder->depth[value_id] = value->kind == ZT_VALUE_DATA;
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0) folder->pinned[value->keep] = true;
    }
    for (int output_index = 0; output_index < zt_prog_n_outputs(program); output_index++)
        folder->pinned[zt_prog_output(program, output_index)->value] = true;
    for (int value_id = 0; value_id < zt_prog_n_values(program); value_id++) folder->reads_instead[value_id] = -1;
}

static char deepest_input(const fold_state *folder, const zt_step *step)
{
    char depth = 0;
    for (int input = 0; input < ZT_MAX_IN; input++)
        if (step->in[input] >= 0 && folder->depth[step->in[input]] > depth) depth = folder->depth[step->in[input]];
    return depth;
}

static void check_step(fold_state *folder, int step_index)
{
    const zt_step *step = zt_prog_step(folder->program, step_index);
    int made = step->out[0], input = step->in[0];
    if (input < 0 || folder->donated[made] || folder->donated[input]) return;
    if (!folder->pinned[made] && is_idle(folder, step)) {
        folder->stands_for[made] = folder->stands_for[input];
        folder->depth[made] = folder->depth[input];
    } else if (!folder->pinned[made] && may_derive(folder, step)) {
        folder->derived[step_index] = true;
        folder->depth[made] = (char)(deepest_input(folder, step) + 1);
    } else {
        int source = skip_input(folder, step);
        if (source < 0 || folder->donated[source]) return;
        folder->reads_instead[made] = source;
    }
    folder->found++;
}

static void find_folds(fold_state *folder)
{
    note_values(folder);
    for (int step_index = 0; step_index < zt_prog_n_steps(folder->program); step_index++) check_step(folder, step_index);
}

static zt_status fold_steps(fold_state *folder, zt_prog **rewritten)
{
    zt_rewrite rewrite;
    zt_status status = zt_rewrite_begin(&rewrite, folder->ctx, folder->program);
    for (int step_index = 0; step_index < zt_prog_n_steps(folder->program) && !status; step_index++) {
        zt_step step = *zt_prog_step(folder->program, step_index);
        int made = step.out[0];
        if (folder->stands_for[made] != made)
            rewrite.map[made] = rewrite.map[folder->stands_for[made]];
        else if (folder->derived[step_index])
            status = derive_data(folder, &rewrite, &step);
        else {
            if (folder->reads_instead[made] >= 0) step.in[0] = folder->stands_for[folder->reads_instead[made]];
            status = zt_rewrite_op(&rewrite, step.op, step.attrs, step.in, step.out);
        }
    }
    return zt_rewrite_end(&rewrite, status, rewritten);
}

/* A program may allow the sample and not twice that: then `two` stays
 * NULL, and nothing is known. */
static zt_status bind_twice(fold_state *folder, const zt_pass_opts *options)
{
    zt_binding twice[ZT_MAX_SYMBOLS];
    int symbol_count = options->n_sample < ZT_MAX_SYMBOLS ? options->n_sample : ZT_MAX_SYMBOLS;
    bool fits = true;
    for (int symbol_id = 0; symbol_id < symbol_count; symbol_id++) {
        twice[symbol_id] = options->sample[symbol_id];
        fits &= zt_mul_i64(2, options->sample[symbol_id].value, &twice[symbol_id].value);
    }
    folder->bound_once = zt_prog_bind(folder->program, options->sample, options->n_sample);
    if (!folder->bound_once) return zt_ctx_status(folder->ctx);
    if (zt_prog_n_symbols(folder->program) == 0) folder->bound_twice = folder->bound_once;
    if (folder->bound_twice || !fits) return ZT_OK;
    folder->bound_twice = zt_prog_bind(folder->program, twice, symbol_count);
    if (folder->bound_twice || zt_ctx_status(folder->ctx) == ZT_ENOMEM) return zt_ctx_status(folder->ctx);
    zt_ctx_clear(folder->ctx);
    return ZT_OK;
}

static bool may_be_idle(const zt_step *step)
{
    for (size_t i = 0; i < sizeof idle_ops / sizeof *idle_ops; i++)
        if (idle_ops[i].op == step->op && idle_ops[i].idle(step->attrs)) return true;
    return false;
}

/* Is there a step that types may show to be no work, or one on data alone: most programs of models
 * have none, and need no types. */
static bool may_fold(const zt_prog *program)
{
    for (int step_index = 0; step_index < zt_prog_n_steps(program); step_index++) {
        const zt_step *step = zt_prog_step(program, step_index);
        bool data = step->in[0] >= 0;
        for (int input = 0; input < ZT_MAX_IN && data; input++) {
            const zt_value *value = step->in[input] < 0 ? NULL : zt_prog_value(program, step->in[input]);
            data = !value || value->kind == ZT_VALUE_DATA;
        }
        if (data || may_be_idle(step)) return true;
    }
    return false;
}

static zt_status run_fold_pass(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options, zt_prog **rewritten)
{
    if (!may_fold(program)) return ZT_OK;
    size_t values = (size_t)zt_prog_n_values(program) + 1;
    fold_state folder = {.ctx = ctx,
                         .program = program,
                         .stands_for = zt_alloc_array(ctx, values, sizeof *folder.stands_for),
                         .reads_instead = zt_alloc_array(ctx, values, sizeof *folder.reads_instead),
                         .derived = zt_calloc(ctx, (size_t)zt_prog_n_steps(program) + 1, sizeof *folder.derived),
                         .depth = zt_calloc(ctx, values, sizeof *folder.depth),
                         .donated = zt_calloc(ctx, values, sizeof *folder.donated),
                         .pinned = zt_calloc(ctx, values, sizeof *folder.pinned)};
    bool room = folder.stands_for && folder.reads_instead && folder.derived && folder.depth && folder.donated && folder.pinned;
    zt_status status = room ? bind_twice(&folder, options) : ZT_ENOMEM;
    if (!status && folder.bound_twice) find_folds(&folder);
    if (!status && folder.found) status = fold_steps(&folder, rewritten);
    if (folder.bound_twice != folder.bound_once) zt_bound_free(folder.bound_twice);
    zt_bound_free(folder.bound_once);
    zt_free(ctx, folder.stands_for);
    zt_free(ctx, folder.reads_instead);
    zt_free(ctx, folder.derived);
    zt_free(ctx, folder.depth);
    zt_free(ctx, folder.donated);
    zt_free(ctx, folder.pinned);
    return status;
}

const zt_pass zt_pass_fold = {
    .name = "fold",
    .help = "constant folding: drop identity ops, compute steps on data alone once",
    .run = run_fold_pass,
};
