/* backward.c - backward of every row's small cases, eager, gives what
 * the gradient's program gives. */
#include "lib/run/run.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static zt_ctx *ctx;
static zt_run *run;

enum { SMALL = 2000, CASES = 4 };

typedef struct sample {
    zt_op op;
    const zt_opinfo *info;
    zt_case c;
    zt_type out[ZT_MAX_OUT];
    zt_tensor *in[ZT_MAX_IN];
    int n_wrt, wrt[ZT_MAX_IN]; /* inputs */
} sample;

/* Cases of a few floats that have a gradient and use up nothing. */
static bool open_sample(sample *sample_run)
{
    const zt_type *in[ZT_MAX_IN] = {0};
    int64_t count = 0;
    sample_run->n_wrt = 0;
    for (int k = 0; k < sample_run->info->n_in; k++) {
        if (sample_run->c.fill[k] == ZT_FILL_ABSENT) continue;
        in[k] = &sample_run->c.in[k];
        count += zt_type_count(in[k]);
        if (zt_dtype_get(in[k]->dtype)->kind == 'F' && !(sample_run->info->def->constant >> k & 1))
            sample_run->wrt[sample_run->n_wrt++] = k;
    }
    if (zt_op_infer(NULL, sample_run->op, sample_run->c.attrs, in, sample_run->out) || count > SMALL || sample_run->n_wrt == 0)
        return false;
    if (zt_dtype_get(sample_run->out[0].dtype)->kind != 'F' || zt_type_count(&sample_run->out[0]) > SMALL) return false;
    for (int k = 0; k < ZT_MAX_IN; k++) {
        sample_run->in[k] = in[k] ? zt_tensor_new(ctx, in[k]) : NULL;
        if (in[k]) zt_case_fill(&sample_run->c, k, 1, zt_tensor_data(sample_run->in[k]));
    }
    return true;
}

static void close_sample(sample *s)
{
    for (int k = 0; k < ZT_MAX_IN; k++) {
        if (s->in[k]) zt_grad_require(run, s->in[k], false);
        zt_tensor_unref(s->in[k]);
    }
    zt_ctx_clear(ctx);
}

/* The recorded op's gradient program, whose last outputs are the gradients, in a session. */
static bool by_program(zt_engine *engine, const sample *sample_run, const zt_prog *graph, void **dx)
{
    const void *in[ZT_MAX_IN];
    void *out[1 + ZT_MAX_IN] = {malloc(zt_type_bytes(&sample_run->out[0]) + 1)};
    int wrt[ZT_MAX_IN], n_in = 0, at[ZT_MAX_IN];
    for (int k = 0; k < ZT_MAX_IN; k++) {
        at[k] = n_in;
        if (sample_run->in[k]) in[n_in++] = zt_tensor_data(sample_run->in[k]);
    }
    for (int i = 0; i < sample_run->n_wrt; i++) {
        wrt[i] = zt_prog_nth(graph, ZT_VALUE_IN, at[sample_run->wrt[i]]);
        out[1 + i] = dx[i] = malloc(zt_tensor_bytes(sample_run->in[sample_run->wrt[i]]) + 1);
    }
    zt_prog *program = zt_prog_grad(ctx, graph, wrt, sample_run->n_wrt, NULL);
    zt_session *session = program ? zt_session_open(engine, program, NULL, NULL) : NULL;
    bool good = session && zt_session_step(session, NULL, 0, in, out) == ZT_OK;
    zt_session_close(session);
    zt_prog_free(program);
    free(out[0]);
    return good;
}

static bool alike(const zt_tensor *a, const void *want)
{
    const zt_type *type = zt_tensor_type(a);
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    double num = 0, den = 0;
    for (int64_t i = 0; i < zt_type_count(type); i++) {
        float x, y;
        info->decode((const char *)zt_tensor_data(a) + i * info->block_bytes, &x, 1);
        info->decode((const char *)want + i * info->block_bytes, &y, 1);
        if (x == y || (isnan(x) && isnan(y))) continue;
        num += ((double)x - y) * ((double)x - y);
        den += (double)y * y;
    }
    return num <= (type->dtype == ZT_F32 || type->dtype == ZT_F64 ? 1e-9 : 1e-3) * fmax(den, 1e-3);
}

/* Backward of one op gives what the gradient's program gives. -1: it
 * has none for these attributes. */
static int backward_like_program(zt_engine *engine, sample *sample_run)
{
    zt_tensor *out[ZT_MAX_OUT];
    void *dx[ZT_MAX_IN] = {0};
    zt_scope_begin(run);
    zt_record_begin(run);
    for (int i = 0; i < sample_run->n_wrt; i++) zt_grad_require(run, sample_run->in[sample_run->wrt[i]], true);
    zt_run_op(run, sample_run->op, sample_run->c.attrs, sample_run->in, out);
    zt_status st = zt_backward(run, out[0], NULL);
    int good = st == ZT_ENOTSUP ? -1 : st == ZT_OK;
    zt_prog *program = st ? NULL : zt_record_end(run, out, 1);
    if (good == 1) good = program && by_program(engine, sample_run, program, dx);
    for (int i = 0; i < sample_run->n_wrt && good == 1; i++) {
        const zt_tensor *d = zt_grad_of(run, sample_run->in[sample_run->wrt[i]]);
        good = d && zt_type_equal(zt_tensor_type(d), zt_tensor_type(sample_run->in[sample_run->wrt[i]])) && alike(d, dx[i]);
    }
    if (good == 0) diag("%s: %s", sample_run->info->name, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    if (st) zt_prog_free(zt_record_end(run, NULL, 0));
    for (int i = 0; i < sample_run->n_wrt; i++) free(dx[i]);
    zt_prog_free(program);
    zt_scope_end(run);
    return good;
}

/* A tensor given twice would be one input of the recording: cases have none. */
static void every_row(zt_engine *engine)
{
    int rows = 0, wrong = 0;
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        sample s = {.op = (zt_op)op, .info = zt_op_info((zt_op)op)};
        int tried = 0;
        if (!zt_op_has_gradient(s.op)) continue;
        for (int i = 0; tried < CASES && zt_op_case(s.op, i, &s.c); i++) {
            if (!open_sample(&s)) continue;
            int good = backward_like_program(engine, &s);
            close_sample(&s);
            tried += good >= 0;
            wrong += good == 0;
        }
        rows += tried > 0;
    }
    ok(rows > 60 && wrong == 0, "backward of %d rows gives what their gradients' programs give", rows);
}

int main(void)
{
    static const char *const engine[] = {"ref", "cpu"};
    ctx = zt_ctx_new();
    for (int i = 0; i < 2; i++) {
        zt_engine *e = zt_engine_open(ctx, engine[i], &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
        run = zt_run_new(e, false);
        every_row(e);
        zt_run_free(run);
        zt_engine_close(e);
        ok(zt_mem_get(ctx).blocks == 0, "%s: nothing is left", engine[i]);
    }
    zt_ctx_free(ctx);
    return tap_done();
}
