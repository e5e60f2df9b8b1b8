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

static bool is_idle(const folder *f, const zt_step *st)
{
    for (size_t i = 0; i < sizeof idle_ops / sizeof *idle_ops; i++)
        if (idle_ops[i].op == st->op)
            return idle_ops[i].idle(st->attrs) && type_same(f, st->in[0], st->out[0]);
    return false;
}

/* Has `to` every value of `from`? */
static bool holds(zt_dtype to, zt_dtype from)
{
    static const struct {
        zt_dtype wide, narrow;
    } rows[] = {{ZT_F64, ZT_F32},  {ZT_F64, ZT_F16}, {ZT_F64, ZT_BF16},
                {ZT_F32, ZT_F16},  {ZT_F32, ZT_BF16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].wide == to && rows[i].narrow == from) return true;
    return false;
}

/* What a step may read instead of the step before it: x of cast(cast x), of view(view x). */
static int below(const folder *f, const zt_step *st)
{
    const zt_value *val = zt_prog_value(f->p, st->in[0]);
    if (val->kind != ZT_VALUE_OP) return -1;
    const zt_step *before = zt_prog_step(f->p, val->index);
    int x = before->in[0];
    const unsigned flags = zt_op_info(st->op)->def->flags, was = zt_op_info(before->op)->def->flags;
    if (st->op == ZT_OP_reshape && was & flags & ZT_OPF_VIEW && before->op == ZT_OP_reshape)
        return x;
    if (st->op != ZT_OP_cast || before->op != ZT_OP_cast) return -1;
    return holds(f->one->type[st->in[0]].dtype, f->one->type[x].dtype) ? x : -1;
}

/* ---- steps on data --------------------------------------------------------------------------- */

static bool fixed_type(const folder *f, int v)
{
    const zt_type *t = &f->one->type[v];
    for (int d = 0; d < t->rank; d++)
        if (t->dim[d] != f->two->type[v].dim[d]) return false;
    return t->rank == f->two->type[v].rank;
}

static bool has_dims(const zt_opinfo *info)
{
    for (int k = 0; k < info->n_attrs; k++)
        if (info->attrs[k].kind == ZT_ATTR_dims) return true;
    return false;
}

/* Does the step hang on data alone, and is what it makes worth keeping: of one output, not much
 * larger than what it is made of. */
static bool may_derive(const folder *f, const zt_step *st)
{
    const zt_opinfo *info = zt_op_info(st->op);
    size_t in = 0, made = zt_type_bytes(&f->one->type[st->out[0]]);
    int n = 0;
    if (zt_op_shares(st->op) || info->def->flags & ZT_OPF_CALLERS || has_dims(info))
        return false;
    for (int k = 0; k < info->n_in; k++) {
        if (st->in[k] < 0) continue;
        if (!f->depth[st->in[k]] || f->depth[st->in[k]] == MAX_DEPTH) return false;
        in += zt_type_bytes(&f->one->type[st->in[k]]);
        n++;
    }
    for (int k = 1; k < info->n_out; k++)
        if (st->out[k] >= 0) return false;
    return n && fixed_type(f, st->out[0]) && !f->donated[st->out[0]] &&
           (made <= in || made <= MAX_DERIVED);
}

/* "@cast f16[576] \"blk.0.attn_norm.weight\" to=f32": an absent input is _. */
static zt_status derived_name(const folder *f, const zt_rewrite *w, const zt_step *st, zt_str *name)
{
    const zt_opinfo *info = zt_op_info(st->op);
    int n = info->n_in;
    while (n > 0 && st->in[n - 1] < 0) n--;
    zt_status s = zt_str_printf(name, "@%s", info->name);
    for (int k = 0; k < n && !s; k++) {
        s = zt_str_putc(name, ' ');
        if (s) break;
        if (st->in[k] < 0) {
            s = zt_str_putc(name, '_');
        } else {
            char type[ZT_TYPE_TEXT];
            const char *tensor = zt_prog_value(w->to, w->map[f->same[st->in[k]]])->tensor;
            s = zt_str_printf(name, "%s ", zt_type_text(&f->one->type[st->in[k]], type));
            if (!s) s = zt_str_put_json(name, tensor, strlen(tensor));
        }
    }
    return s ? s : zt_prog_attrs_print(f->p, st->op, st->attrs, name);
}

static zt_status derive(const folder *f, zt_rewrite *w, const zt_step *st)
{
    const zt_type *t = &f->one->type[st->out[0]];
    zt_str name;
    zt_str_init(&name, f->ctx);
    zt_status s = derived_name(f, w, st, &name);
    int v = s ? -1 : zt_prog_data(w->to, zt_prog_value(f->p, st->out[0])->name, t->dtype, t->rank,
                                  t->dim, name.data);
    zt_str_fini(&name);
    w->map[st->out[0]] = v;
    return v < 0 ? zt_ctx_status(f->ctx) : ZT_OK;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void note_values(folder *f)
{
    const zt_prog *p = f->p;
    int *root = f->under; /* scratch, before it is needed */
    zt_prog_roots(p, root);
    for (int s = 0; s < zt_prog_n_steps(p); s++) {
        const zt_step *st = zt_prog_step(p, s);
        for (int k = 0; k < zt_op_info(st->op)->def->donates; k++)
            f->donated[root[st->in[k]]] = true;
    }
    for (int v = 0; v < zt_prog_n_values(p); v++) {
        const zt_value *val = zt_prog_value(p, v);
        f->donated[v] = f->donated[root[v]];
        f->same[v] = v;
        f->depth[v] = val->kind == ZT_VALUE_DATA;
        if (val->kind == ZT_VALUE_STATE && val->keep >= 0) f->pinned[val->keep] = true;
    }
    for (int o = 0; o < zt_prog_n_outputs(p); o++) f->pinned[zt_prog_output(p, o)->value] = true;
    for (int v = 0; v < zt_prog_n_values(p); v++) f->under[v] = -1;
}

static char deepest(const folder *f, const zt_step *st)
{
    char depth = 0;
    for (int k = 0; k < ZT_MAX_IN; k++)
        if (st->in[k] >= 0 && f->depth[st->in[k]] > depth) depth = f->depth[st->in[k]];
    return depth;
}

static void look_at(folder *f, int s)
{
    const zt_step *st = zt_prog_step(f->p, s);
    int out = st->out[0], in = st->in[0];
    if (in < 0 || f->donated[out] || f->donated[in]) return;
    if (!f->pinned[out] && is_idle(f, st)) {
        f->same[out] = f->same[in];
        f->depth[out] = f->depth[in];
    } else if (!f->pinned[out] && may_derive(f, st)) {
        f->derived[s] = true;
        f->depth[out] = (char)(deepest(f, st) + 1);
    } else {
        int x = below(f, st);
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
    zt_rewrite w;
    zt_status s = zt_rewrite_begin(&w, f->ctx, f->p);
    for (int i = 0; i < zt_prog_n_steps(f->p) && !s; i++) {
        zt_step st = *zt_prog_step(f->p, i);
        int made = st.out[0];
        if (f->same[made] != made)
            w.map[made] = w.map[f->same[made]];
        else if (f->derived[i])
            s = derive(f, &w, &st);
        else {
            if (f->under[made] >= 0) st.in[0] = f->same[f->under[made]];
            s = zt_rewrite_op(&w, st.op, st.attrs, st.in, st.out);
        }
    }
    return zt_rewrite_end(&w, s, out);
}

/* A program may allow the sample and not twice that: then `two` stays
 * NULL, and nothing is known. */
static zt_status bind_twice(folder *f, const zt_pass_opts *o)
{
    zt_binding twice[ZT_MAX_SYMBOLS];
    int n = o->n_sample < ZT_MAX_SYMBOLS ? o->n_sample : ZT_MAX_SYMBOLS;
    bool fits = true;
    for (int i = 0; i < n; i++) {
        twice[i] = o->sample[i];
        fits &= zt_mul_i64(2, o->sample[i].value, &twice[i].value);
    }
    f->one = zt_prog_bind(f->p, o->sample, o->n_sample);
    if (!f->one) return zt_ctx_status(f->ctx);
    if (zt_prog_n_symbols(f->p) == 0) f->two = f->one;
    if (f->two || !fits) return ZT_OK;
    f->two = zt_prog_bind(f->p, twice, n);
    if (f->two || zt_ctx_status(f->ctx) == ZT_ENOMEM) return zt_ctx_status(f->ctx);
    zt_ctx_clear(f->ctx);
    return ZT_OK;
}

static bool may_be_idle(const zt_step *st)
{
    for (size_t i = 0; i < sizeof idle_ops / sizeof *idle_ops; i++)
        if (idle_ops[i].op == st->op && idle_ops[i].idle(st->attrs)) return true;
    return false;
}

/* Is there a step that types may show to be no work, or one on data alone: most programs of models
 * have none, and need no types. */
static bool may_fold(const zt_prog *p)
{
    for (int s = 0; s < zt_prog_n_steps(p); s++) {
        const zt_step *st = zt_prog_step(p, s);
        bool data = st->in[0] >= 0;
        for (int k = 0; k < ZT_MAX_IN && data; k++) {
            const zt_value *v = st->in[k] < 0 ? NULL : zt_prog_value(p, st->in[k]);
            data = !v || v->kind == ZT_VALUE_DATA;
        }
        if (data || may_be_idle(st)) return true;
    }
    return false;
}

static zt_status run(zt_ctx *ctx, const zt_prog *p, const zt_pass_opts *opts, zt_prog **out)
{
    if (!may_fold(p)) return ZT_OK;
    size_t values = (size_t)zt_prog_n_values(p) + 1;
    folder f = {.ctx = ctx, .p = p,
                .same = zt_alloc_array(ctx, values, sizeof *f.same),
                .under = zt_alloc_array(ctx, values, sizeof *f.under),
                .derived = zt_calloc(ctx, (size_t)zt_prog_n_steps(p) + 1, sizeof *f.derived),
                .depth = zt_calloc(ctx, values, sizeof *f.depth),
                .donated = zt_calloc(ctx, values, sizeof *f.donated),
                .pinned = zt_calloc(ctx, values, sizeof *f.pinned)};
    bool room = f.same && f.under && f.derived && f.depth && f.donated && f.pinned;
    zt_status s = room ? bind_twice(&f, opts) : ZT_ENOMEM;
    if (!s && f.two) find(&f);
    if (!s && f.found) s = fold(&f, out);
    if (f.two != f.one) zt_bound_free(f.two);
    zt_bound_free(f.one);
    zt_free(ctx, f.same);
    zt_free(ctx, f.under);
    zt_free(ctx, f.derived);
    zt_free(ctx, f.depth);
    zt_free(ctx, f.donated);
    zt_free(ctx, f.pinned);
    return s;
}

const zt_pass zt_pass_fold = {
    .name = "fold",
    .help = "drop what changes nothing, compute once what hangs on data",
    .run = run,
};
