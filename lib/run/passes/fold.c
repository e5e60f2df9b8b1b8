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
    MAX_DEPTH = 3
};

typedef struct folder {
    zt_ctx *ctx;
    const zt_prog *p;
    zt_bound *one, *two; /* under the sample, and under twice that */
    int *same;           /* [values]: the value that stands for it */
    int *under;          /* [values]: what its step shall read instead of input 0; -1: as it is */
    bool *derived;       /* [steps]: becomes data */
    char *depth; /* [values]: 1 of data, one more for each op that data was made by; 0: else */
    bool *donated;       /* [values]: its memory is used up by a later step */
    bool *pinned;        /* [values]: an output, or kept */
    int found;
} folder;

static bool type_same(const folder *f, int a, int b)
{
    return zt_type_equal(&f->one->type[a], &f->one->type[b]) &&
           zt_type_equal(&f->two->type[a], &f->two->type[b]);
}

/* ---- steps that do nothing ------------------------------------------------------------------- */

static bool always(const void *attrs)
{
    (void)attrs;
    return true;
}

static bool scale_idle(const void *attrs) { return ((const zt_scale_attrs *)attrs)->by == 1; }

static bool transpose_idle(const void *attrs)
{
    const zt_transpose_attrs *a = attrs;
    for (int i = 0; i < a->axes.n; i++)
        if (a->axes.v[i] != i) return false;
    return a->axes.n > 0;
}

/* The output is the input where both are of one type and `idle` says so. */
static const struct {
    zt_op op;
    bool (*idle)(const void *attrs);
} idle_ops[] = {
    {ZT_OP_cast, always},           {ZT_OP_scale, scale_idle}, {ZT_OP_reshape, always},
    {ZT_OP_slice, always},          {ZT_OP_repeat, always},    {ZT_OP_transpose, transpose_idle},
    {ZT_OP_reshape_like, always},   {ZT_OP_sum_to, always},    {ZT_OP_broadcast_to, always},
};

static bool is_idle(const folder *f, const zt_step *step)
{
    for (size_t i = 0; i < sizeof idle_ops / sizeof *idle_ops; i++)
        if (idle_ops[i].op == step->op)
            return idle_ops[i].idle(step->attrs) && type_same(f, step->in[0], step->out[0]);
    return false;
}

/* Has `to` every value of `from`? */
static bool holds(zt_dtype dtype, zt_dtype from)
{
    static const struct {
        zt_dtype wide, narrow;
    } rows[] = {{ZT_F64, ZT_F32},  {ZT_F64, ZT_F16}, {ZT_F64, ZT_BF16},
                {ZT_F32, ZT_F16},  {ZT_F32, ZT_BF16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].wide == dtype && rows[i].narrow == from) return true;
    return false;
}

/* What a step may read instead of the step before it: x of cast(cast x), of view(view x). */
static int below(const folder *f, const zt_step *step)
{
    const zt_value *value = zt_prog_value(f->p, step->in[0]);
    if (value->kind != ZT_VALUE_OP) return -1;
    const zt_step *before = zt_prog_step(f->p, value->index);
    int x = before->in[0];
    const unsigned flags = zt_op_info(step->op)->def->flags, was = zt_op_info(before->op)->def->flags;
    if (step->op == ZT_OP_reshape && was & flags & ZT_OPF_VIEW && before->op == ZT_OP_reshape)
        return x;
    if (step->op != ZT_OP_cast || before->op != ZT_OP_cast) return -1;
    return holds(f->one->type[step->in[0]].dtype, f->one->type[x].dtype) ? x : -1;
}

/* ---- steps on data --------------------------------------------------------------------------- */

static bool fixed_type(const folder *f, int v)
{
    const zt_type *type = &f->one->type[v];
    for (int d = 0; d < type->rank; d++)
        if (type->dim[d] != f->two->type[v].dim[d]) return false;
    return type->rank == f->two->type[v].rank;
}

static bool has_dims(const zt_opinfo *info)
{
    for (int k = 0; k < info->n_attrs; k++)
        if (info->attrs[k].kind == ZT_ATTR_dims) return true;
    return false;
}

/* Does the step hang on data alone, and is what it makes worth keeping: of one output, not much
 * larger than what it is made of. */
static bool may_derive(const folder *f, const zt_step *step)
{
    const zt_opinfo *info = zt_op_info(step->op);
    size_t in = 0, made = zt_type_bytes(&f->one->type[step->out[0]]);
    int n = 0;
    if (zt_op_shares(step->op) || info->def->flags & ZT_OPF_CALLERS || has_dims(info))
        return false;
    for (int k = 0; k < info->n_in; k++) {
        if (step->in[k] < 0) continue;
        if (!f->depth[step->in[k]] || f->depth[step->in[k]] == MAX_DEPTH) return false;
        in += zt_type_bytes(&f->one->type[step->in[k]]);
        n++;
    }
    for (int k = 1; k < info->n_out; k++)
        if (step->out[k] >= 0) return false;
    return n && fixed_type(f, step->out[0]) && !f->donated[step->out[0]] &&
           (made <= in || made <= MAX_DERIVED);
}

/* "@cast f16[576] \"blk.0.attn_norm.weight\" to=f32": an absent input is _. */
static zt_status derived_name(const folder *f, const zt_rewrite *rewrite, const zt_step *step, zt_str *name)
{
    const zt_opinfo *info = zt_op_info(step->op);
    int n = info->n_in;
    while (n > 0 && step->in[n - 1] < 0) n--;
    zt_status status = zt_str_printf(name, "@%s", info->name);
    for (int k = 0; k < n && !status; k++) {
        status = zt_str_putc(name, ' ');
        if (status) break;
        if (step->in[k] < 0) {
            status = zt_str_putc(name, '_');
        } else {
            char type[ZT_TYPE_TEXT];
            const char *tensor = zt_prog_value(rewrite->to, rewrite->map[f->same[step->in[k]]])->tensor;
            status = zt_str_printf(name, "%s ", zt_type_text(&f->one->type[step->in[k]], type));
            if (!status) status = zt_str_put_json(name, tensor, strlen(tensor));
        }
    }
    return status ? status : zt_prog_attrs_print(f->p, step->op, step->attrs, name);
}

static zt_status derive(const folder *f, zt_rewrite *rewrite, const zt_step *step)
{
    const zt_type *type = &f->one->type[step->out[0]];
    zt_str name;
    zt_str_init(&name, f->ctx);
    zt_status status = derived_name(f, rewrite, step, &name);
    int v = status ? -1 : zt_prog_data(rewrite->to, zt_prog_value(f->p, step->out[0])->name, type->dtype, type->rank,
                                  type->dim, name.data);
    zt_str_fini(&name);
    rewrite->map[step->out[0]] = v;
    return v < 0 ? zt_ctx_status(f->ctx) : ZT_OK;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void note_values(folder *f)
{
    const zt_prog *program = f->p;
    int *root = f->under; /* scratch, before it is needed */
    zt_prog_roots(program, root);
    for (int s = 0; s < zt_prog_n_steps(program); s++) {
        const zt_step *step = zt_prog_step(program, s);
        for (int k = 0; k < zt_op_info(step->op)->def->donates; k++)
            f->donated[root[step->in[k]]] = true;
    }
    for (int v = 0; v < zt_prog_n_values(program); v++) {
        const zt_value *value = zt_prog_value(program, v);
        f->donated[v] = f->donated[root[v]];
        f->same[v] = v;
        f->depth[v] = value->kind == ZT_VALUE_DATA;
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0) f->pinned[value->keep] = true;
    }
    for (int o = 0; o < zt_prog_n_outputs(program); o++) f->pinned[zt_prog_output(program, o)->value] = true;
    for (int v = 0; v < zt_prog_n_values(program); v++) f->under[v] = -1;
}

static char deepest(const folder *f, const zt_step *step)
{
    char depth = 0;
    for (int k = 0; k < ZT_MAX_IN; k++)
        if (step->in[k] >= 0 && f->depth[step->in[k]] > depth) depth = f->depth[step->in[k]];
    return depth;
}

static void look_at(folder *f, int s)
{
    const zt_step *step = zt_prog_step(f->p, s);
    int out = step->out[0], in = step->in[0];
    if (in < 0 || f->donated[out] || f->donated[in]) return;
    if (!f->pinned[out] && is_idle(f, step)) {
        f->same[out] = f->same[in];
        f->depth[out] = f->depth[in];
    } else if (!f->pinned[out] && may_derive(f, step)) {
        f->derived[s] = true;
        f->depth[out] = (char)(deepest(f, step) + 1);
    } else {
        int x = below(f, step);
        if (x < 0 || f->donated[x]) return;
        f->under[out] = x;
    }
    f->found++;
}

static void find(folder *f)
{
    note_values(f);
    for (int s = 0; s < zt_prog_n_steps(f->p); s++) look_at(f, s);
}

static zt_status fold(folder *f, zt_prog **out)
{
    zt_rewrite rewrite;
    zt_status status = zt_rewrite_begin(&rewrite, f->ctx, f->p);
    for (int i = 0; i < zt_prog_n_steps(f->p) && !status; i++) {
        zt_step st = *zt_prog_step(f->p, i);
        int made = st.out[0];
        if (f->same[made] != made)
            rewrite.map[made] = rewrite.map[f->same[made]];
        else if (f->derived[i])
            status = derive(f, &rewrite, &st);
        else {
            if (f->under[made] >= 0) st.in[0] = f->same[f->under[made]];
            status = zt_rewrite_op(&rewrite, st.op, st.attrs, st.in, st.out);
        }
    }
    return zt_rewrite_end(&rewrite, status, out);
}

/* A program may allow the sample and not twice that: then `two` stays
 * NULL, and nothing is known. */
static zt_status bind_twice(folder *f, const zt_pass_opts *options)
{
    zt_binding twice[ZT_MAX_SYMBOLS];
    int n = options->n_sample < ZT_MAX_SYMBOLS ? options->n_sample : ZT_MAX_SYMBOLS;
    bool fits = true;
    for (int i = 0; i < n; i++) {
        twice[i] = options->sample[i];
        fits &= zt_mul_i64(2, options->sample[i].value, &twice[i].value);
    }
    f->one = zt_prog_bind(f->p, options->sample, options->n_sample);
    if (!f->one) return zt_ctx_status(f->ctx);
    if (zt_prog_n_symbols(f->p) == 0) f->two = f->one;
    if (f->two || !fits) return ZT_OK;
    f->two = zt_prog_bind(f->p, twice, n);
    if (f->two || zt_ctx_status(f->ctx) == ZT_ENOMEM) return zt_ctx_status(f->ctx);
    zt_ctx_clear(f->ctx);
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
    for (int s = 0; s < zt_prog_n_steps(program); s++) {
        const zt_step *step = zt_prog_step(program, s);
        bool data = step->in[0] >= 0;
        for (int k = 0; k < ZT_MAX_IN && data; k++) {
            const zt_value *value = step->in[k] < 0 ? NULL : zt_prog_value(program, step->in[k]);
            data = !value || value->kind == ZT_VALUE_DATA;
        }
        if (data || may_be_idle(step)) return true;
    }
    return false;
}

static zt_status run(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts, zt_prog **out)
{
    if (!may_fold(program)) return ZT_OK;
    size_t values = (size_t)zt_prog_n_values(program) + 1;
    folder f = {.ctx = ctx, .p = program,
                .same = zt_alloc_array(ctx, values, sizeof *f.same),
                .under = zt_alloc_array(ctx, values, sizeof *f.under),
                .derived = zt_calloc(ctx, (size_t)zt_prog_n_steps(program) + 1, sizeof *f.derived),
                .depth = zt_calloc(ctx, values, sizeof *f.depth),
                .donated = zt_calloc(ctx, values, sizeof *f.donated),
                .pinned = zt_calloc(ctx, values, sizeof *f.pinned)};
    bool room = f.same && f.under && f.derived && f.depth && f.donated && f.pinned;
    zt_status status = room ? bind_twice(&f, opts) : ZT_ENOMEM;
    if (!status && f.two) find(&f);
    if (!status && f.found) status = fold(&f, out);
    if (f.two != f.one) zt_bound_free(f.two);
    zt_bound_free(f.one);
    zt_free(ctx, f.same);
    zt_free(ctx, f.under);
    zt_free(ctx, f.derived);
    zt_free(ctx, f.depth);
    zt_free(ctx, f.donated);
    zt_free(ctx, f.pinned);
    return status;
}

const zt_pass zt_pass_fold = {
    .name = "fold",
    .help = "drop what changes nothing, compute once what hangs on data",
    .run = run,
};
