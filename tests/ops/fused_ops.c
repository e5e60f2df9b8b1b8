/* fused_ops.c - rows that say ZT_OPF_SAME: on the cpu, at every instruction set and with any number of
 * threads, each gives the very bits of its expansion, op by op, in all its cases and in every dtype
 * that it takes. And which rows with an expansion do not say so, by a measurement.
 */
#include "tests/common/one_op.h"
#include "tests/common/tap.h"

#include <stdlib.h>

enum { MANY = 4 };

/* ---- engines --------------------------------------------------------------------------------- */

typedef struct machine {
    char name[32];
    zt_engine *engine;
} machine;

static machine machines[2 * ZT_ISA_COUNT];
static int n_machines;

static void open_machines(zt_ctx *ctx)
{
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++)
        for (int threads = 1; threads <= MANY; threads += MANY - 1) {
            machine *m = &machines[n_machines++];
            zt_engine_opts opts = {.threads = threads, .isa = (zt_isa)isa};
            m->engine = zt_engine_open(ctx, "cpu", &opts);
            snprintf(m->name, sizeof m->name, "%s, %d threads", zt_isa_name((zt_isa)isa), threads);
            ok(m->engine != NULL, "cpu with %s", m->name);
        }
}

/* ---- a case and its expansion ---------------------------------------------------------------- */

typedef struct subject {
    zt_ctx *ctx;
    zt_op op;
    int index;
    zt_case c;
    oneop whole;
    void *data[ZT_MAX_IN];
    zt_prog *p; /* the expansion; the row's inputs are its first values */
    zt_bound *bound;
    int out[ZT_MAX_OUT]; /* the row's outputs in it; ZT_NONE: not told */
    void **value;        /* of p, in host memory */
} subject;

/* The expansion as a program; false: it cannot be written, which is told. */
static bool expand(subject *s)
{
    const zt_opinfo *info = zt_op_info(s->op);
    int in[ZT_MAX_IN];
    char name[24];
    s->p = zt_prog_new(s->ctx);
    for (int k = 0; k < info->n_in; k++) {
        const zt_type *type = s->whole.in[k];
        snprintf(name, sizeof name, "in%d", k);
        in[k] = !type                    ? ZT_NONE
                : k < info->def->donates ? zt_prog_state(s->p, name, type->dtype, type->rank, type->dim)
                                         : zt_prog_in(s->p, name, type->dtype, type->rank, type->dim);
    }
    for (int k = 0; k < ZT_MAX_OUT; k++) s->out[k] = ZT_NONE;
    zt_builder *b = zt_builder_new(s->p, NULL, 0);
    info->def->expand(zt_builder_emit(b), s->c.attrs, in, s->out);
    zt_builder_free(b);
    s->bound = zt_ctx_status(s->ctx) ? NULL : zt_prog_bind(s->p, NULL, 0);
    if (s->bound) return true;
    diag("%s case %d: the expansion: %s", info->name, s->index, zt_ctx_error(s->ctx));
    zt_ctx_clear(s->ctx);
    return false;
}

static void close_subject(subject *s)
{
    for (int v = 0; s->value && v < zt_prog_n_values(s->p); v++) free(s->value[v]);
    free(s->value);
    zt_bound_free(s->bound);
    zt_prog_free(s->p);
    for (int k = 0; k < ZT_MAX_IN; k++) free(s->data[k]);
}

/* Case `index` with its f32 as `as`: 1, 0 where the row does not take that, -1 past the last. */
static int open_subject(subject *s, zt_ctx *ctx, zt_op op, int index, zt_dtype as)
{
    *s = (subject){.ctx = ctx, .op = op, .index = index};
    if (!zt_op_case(op, index, &s->c)) return -1;
    if (as != ZT_F32 && !retyped(&s->c, as)) return 0;
    s->whole = (oneop){.op = op, .attrs = s->c.attrs};
    for (int k = 0; k < zt_op_info(op)->n_in; k++) {
        if (s->c.fill[k] == ZT_FILL_ABSENT) continue;
        s->whole.in[k] = &s->c.in[k];
        s->data[k] = malloc(zt_type_bytes(&s->c.in[k]) + 1);
        zt_case_fill(&s->c, k, 1 + (uint64_t)index, s->data[k]);
        s->whole.data[k] = s->data[k];
    }
    return !zt_op_infer(NULL, op, s->c.attrs, s->whole.in, s->whole.out);
}

/* ---- both on an engine ----------------------------------------------------------------------- */

/* The inputs of the expansion, then every other value's room. */
static void fill_values(subject *s)
{
    int count = zt_prog_n_values(s->p), v = 0;
    s->value = calloc((size_t)count + 1, sizeof *s->value);
    for (int i = 0; i < count; i++) s->value[i] = calloc(1, zt_type_bytes(&s->bound->type[i]) + 8);
    for (int k = 0; k < ZT_MAX_IN; k++)
        if (s->whole.in[k]) {
            memcpy(s->value[v], s->data[k], zt_type_bytes(s->whole.in[k]));
            v++;
        }
}

/* Step by step: 1, 0 where the engine has no kernel for one, -1 when it fails. */
static int run_expansion(subject *s, zt_engine *engine)
{
    for (int i = 0; i < zt_prog_n_steps(s->p); i++) {
        const zt_step *st = zt_prog_step(s->p, i);
        const zt_opinfo *info = zt_op_info(st->op);
        oneop call = {.op = st->op, .attrs = s->bound->attrs[i]};
        for (int k = 0; k < info->n_in; k++) {
            if (st->in[k] < 0) continue;
            call.in[k] = &s->bound->type[st->in[k]];
            call.data[k] = s->value[st->in[k]];
        }
        if (zt_op_infer(s->ctx, call.op, call.attrs, call.in, call.out)) return -1;
        for (int k = 0; k < info->n_out; k++) call.result[k] = st->out[k] < 0 ? NULL : s->value[st->out[k]];
        if (!oneop_has(engine, &call)) return 0;
        if (oneop_run(engine, &call)) return -1;
    }
    return 1;
}

typedef struct tally {
    int same, other, without;
} tally;

static bool report_mismatch(const subject *s, const machine *m, const char *what)
{
    char type[ZT_TYPE_TEXT];
    diag("%s case %d (%s), %s: %s %s", zt_op_info(s->op)->name, s->index, zt_type_text(&s->c.in[0], type), m->name, what,
         zt_ctx_error(s->ctx));
    zt_ctx_clear(s->ctx);
    return false;
}

static bool compare(subject *s, const machine *m, bool held, tally *t)
{
    const zt_opinfo *info = zt_op_info(s->op);
    oneop whole = s->whole;
    bool same = true, good = true;
    if (!oneop_has(m->engine, &whole)) {
        t->without++;
        return true;
    }
    int ran = run_expansion(s, m->engine);
    if (ran < 0) return report_mismatch(s, m, "the expansion does not run:");
    if (ran == 0) return !held || report_mismatch(s, m, "there is no kernel for an op of the expansion");
    for (int k = 0; k < info->n_out; k++) whole.result[k] = calloc(1, zt_type_bytes(&whole.out[k]) + 8);
    if (oneop_run(m->engine, &whole)) good = report_mismatch(s, m, "does not run:");
    for (int k = 0; k < info->n_out && good; k++) {
        if (s->out[k] == ZT_NONE) continue;
        if (!zt_type_equal(&whole.out[k], &s->bound->type[s->out[k]]))
            good = report_mismatch(s, m, "an output is of another type");
        else if (memcmp(whole.result[k], s->value[s->out[k]], zt_type_bytes(&whole.out[k])))
            same = false;
    }
    for (int k = 0; k < info->n_out; k++) free(whole.result[k]);
    *(same ? &t->same : &t->other) += 1;
    return good && (same || !held || report_mismatch(s, m, "other bits than its expansion"));
}

/* All cases of a row in one dtype. */
static bool check_cases(zt_ctx *ctx, zt_op op, zt_dtype as, bool held, tally *t)
{
    bool good = true;
    subject s;
    for (int i = 0, more = 0; more >= 0; i++) {
        more = open_subject(&s, ctx, op, i, as);
        if (more > 0) {
            good = expand(&s) && good;
            if (s.bound) fill_values(&s);
            for (int m = 0; m < n_machines && s.bound; m++) good = compare(&s, &machines[m], held, t) && good;
        }
        close_subject(&s);
    }
    return good;
}

int main(void)
{
    static const zt_dtype dtypes[] = {ZT_F32, ZT_F16, ZT_BF16, ZT_F64};
    zt_ctx *ctx = zt_ctx_new();
    open_machines(ctx);
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        const zt_opinfo *info = zt_op_info((zt_op)op);
        bool held = info->def->flags & ZT_OPF_SAME, good = true;
        tally t = {0};
        if (!info->def->expand) {
            if (held) ok(false, "%s has an expansion", info->name);
            continue;
        }
        for (int d = 0; d < 4; d++) good = check_cases(ctx, (zt_op)op, dtypes[d], held, &t) && good;
        ok(good && (!held || t.same > 0), "%s: %s its expansion (%d the same, %d not, %d without)", info->name,
           held ? "the bits of" : "runs as", t.same, t.other, t.without);
        if (!held && t.other == 0) diag("%s could say ZT_OPF_SAME", info->name);
    }
    for (int m = 0; m < n_machines; m++) zt_engine_close(machines[m].engine);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
