/* op_sample.h - for tests of gradients: a row's case as a program of one step, and its values. */
#ifndef ZT_OP_SAMPLE_H
#define ZT_OP_SAMPLE_H

#include "lib/run/run.h"
#include "tests/ops/f64_interpreter.h"
#include "tests/common/tap.h"

#include <math.h>

#define SAMPLE_FN __attribute__((unused)) static

enum { SMALL = 5000 }; /* elements of what is differentiated */

typedef struct sample {
    zt_ctx *ctx;
    zt_op op;
    int index;
    zt_case c;
    zt_prog *p;
    int in[ZT_MAX_IN]; /* values; ZT_NONE: absent */
} sample;

SAMPLE_FN bool is_plain(zt_dtype t) { return zt_dtype_get(t)->kind == 'F'; }

/* An output of f32[0] beside a first of another type: the case has none there. */
SAMPLE_FN bool sample_lacks(const sample *sample_run, int k)
{
    const zt_type *in[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT], none = zt_type_make(ZT_F32, 1, (int64_t[]){0});
    for (int i = 0; i < ZT_MAX_IN; i++)
        if (sample_run->c.fill[i] != ZT_FILL_ABSENT) in[i] = &sample_run->c.in[i];
    return zt_op_infer(NULL, sample_run->op, sample_run->c.attrs, in, out) == ZT_OK && zt_type_equal(&out[k], &none) &&
           !zt_type_equal(&out[0], &none);
}

SAMPLE_FN bool sample_open(sample *sample_run, zt_ctx *ctx, zt_op op, int i)
{
    const zt_opinfo *info = zt_op_info(op);
    char name[24];
    *sample_run = (sample){.ctx = ctx, .op = op, .index = i};
    if (!zt_op_case(op, i, &sample_run->c)) return false;
    sample_run->p = zt_prog_new(ctx);
    for (int k = 0; k < ZT_MAX_IN; k++) {
        const zt_type *type = &sample_run->c.in[k];
        sample_run->in[k] = ZT_NONE;
        if (k >= info->n_in || sample_run->c.fill[k] == ZT_FILL_ABSENT) continue;
        snprintf(name, sizeof name, "in%d", k);
        sample_run->in[k] = zt_prog_in(sample_run->p, name, type->dtype, type->rank, type->dim);
    }
    int out[ZT_MAX_OUT], in[ZT_MAX_IN];
    const char *names[ZT_MAX_OUT] = {0};
    for (int k = 1; k < info->n_out; k++)
        if (sample_lacks(sample_run, k)) names[k] = "_";
    memcpy(in, sample_run->in, sizeof in);
    for (int k = 0; k < info->def->donates; k++) /* an input of the program cannot be overwritten: a copy of it can */
        in[k] = zt_program_scale(sample_run->p, k ? "copy1" : "copy0", in[k], &(zt_scale_attrs){1});
    if (zt_prog_op(sample_run->p, op, sample_run->c.attrs, in, names, out)) return true;
    for (int k = 0; k < info->n_out; k++) {
        if (out[k] < 0) continue;
        snprintf(name, sizeof name, "y%d", k);
        zt_prog_out(sample_run->p, name, out[k]);
    }
    return true;
}

SAMPLE_FN void sample_close(sample *s) { zt_prog_free(s->p); }

/* The case's values into a run of a program whose first inputs are the sample's; others random. */
SAMPLE_FN void fill_inputs(const sample *sample_run, f64run *r)
{
    for (int i = 0, n = zt_prog_count(r->p, ZT_VALUE_IN); i < n; i++) {
        int v = zt_prog_nth(r->p, ZT_VALUE_IN, i), k = 0;
        zt_arg *a = &r->arg[v];
        int64_t count = zt_type_count(a->type);
        while (k < ZT_MAX_IN && sample_run->in[k] != v) k++;
        if (k == ZT_MAX_IN) {
            for (int64_t e = 0; e < count; e++) a->f[e] = zt_normal(7, (uint64_t)i, (uint64_t)e);
            continue;
        }
        const zt_dtype_info *info = zt_dtype_get(a->type->dtype);
        char *raw = malloc(zt_type_bytes(a->type) + 1);
        zt_case_fill(&sample_run->c, k, 1 + (uint64_t)sample_run->index, raw);
        for (int64_t e = 0; e < count; e++) {
            const char *at = raw + e * info->block_bytes;
            if (a->type->dtype == ZT_F64) {
                memcpy(&a->f[e], at, sizeof(double));
            } else if (info->kind == 'F') {
                float x;
                info->decode(at, &x, 1);
                a->f[e] = x;
            } else if (info->kind != 'Q') {
                int64_t x = 0;
                memcpy(&x, at, (size_t)info->block_bytes);
                int unused = 64 - 8 * info->block_bytes;
                a->i[e] = info->kind == 'I' ? (int64_t)((uint64_t)x << unused) >> unused : x;
            }
        }
        if (info->kind == 'Q') {
            float *x = malloc((size_t)count * sizeof *x);
            info->decode(raw, x, count);
            for (int64_t e = 0; e < count; e++) a->f[e] = x[e];
            free(x);
        }
        free(raw);
    }
}

/* Cases that are small enough and have floats to differentiate. */
SAMPLE_FN bool is_small(const sample *sample_run, const zt_opdef *def)
{
    int64_t total = 0;
    bool floats = false;
    const zt_type *in[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT];
    for (int k = 0; k < zt_op_info(sample_run->op)->n_in; k++) {
        if (sample_run->in[k] < 0) continue;
        in[k] = &sample_run->c.in[k];
        total += zt_type_count(in[k]);
        floats |= is_plain(in[k]->dtype) && !(def->constant >> k & 1);
    }
    if (zt_op_infer(NULL, sample_run->op, sample_run->c.attrs, in, out)) return false;
    return floats && is_plain(out[0].dtype) && total <= SMALL && zt_type_count(&out[0]) <= SMALL;
}

/* The inputs that have a gradient. */
SAMPLE_FN int wanted(const sample *s, const zt_opdef *def, int *wrt)
{
    int n = 0;
    for (int k = 0; k < ZT_MAX_IN; k++)
        if (s->in[k] >= 0 && is_plain(s->c.in[k].dtype) && !(def->constant >> k & 1)) wrt[n++] = s->in[k];
    return n;
}

SAMPLE_FN bool report_failure(const sample *s, const char *what)
{
    diag("%s case %d: %s: %s", zt_op_info(s->op)->name, s->index, what, zt_ctx_error(s->ctx));
    zt_ctx_clear(s->ctx);
    return false;
}

#endif
