/* pass.c - owns the table of passes, the driver that runs it, and the figures of its report. */
#include "lib/run/pass.h"

#include <string.h>

#include "lib/run/compute.h"
#include "lib/run/passes/rewrite.h"
#include "lib/run/schedule.h"

#define ROW(name) &zt_pass_##name,
static const zt_pass *const passes[] = {ZT_PASSES(ROW)};

enum { N_PASSES = sizeof passes / sizeof passes[0] };

const zt_pass *zt_pass_at(int i) { return i >= 0 && i < N_PASSES ? passes[i] : NULL; }

int zt_pass_find(const char *name, size_t n)
{
    for (int i = 0; i < N_PASSES; i++)
        if (strlen(passes[i]->name) == n && !memcmp(passes[i]->name, name, n)) return i;
    return -1;
}

int zt_prog_kernels(const zt_prog *program)
{
    int n = 0;
    for (int s = 0; s < zt_prog_n_steps(program); s++)
        n += !(zt_op_info(zt_prog_step(program, s)->op)->def->flags & ZT_OPF_VIEW);
    return n;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* zt_op_bytes of all steps. */
static double bytes_of(const zt_prog *program, const zt_bound *bound)
{
    double sum = 0;
    for (int s = 0; s < zt_prog_n_steps(program); s++) {
        const zt_step *step = zt_prog_step(program, s);
        const zt_opinfo *info = zt_op_info(step->op);
        const zt_type *input_types[ZT_MAX_IN] = {0};
        zt_type out[ZT_MAX_OUT] = {{0}};
        for (int k = 0; k < info->n_in; k++) input_types[k] = step->in[k] < 0 ? NULL : &bound->type[step->in[k]];
        for (int k = 0; k < info->n_out; k++)
            if (step->out[k] >= 0) out[k] = bound->type[step->out[k]];
        sum += zt_op_bytes(step->op, bound->attrs[s], input_types, out);
    }
    return sum;
}

zt_status zt_pass_measure(const zt_prog *program, const zt_pass_opts *options, zt_pass_figures *f)
{
    zt_chain chain;
    zt_partition cut;
    *f = (zt_pass_figures){0};
    if (!options->engine) return ZT_OK;
    zt_bound *bound = zt_prog_bind(program, options->sample, options->n_sample);
    if (!bound) return zt_ctx_status(options->engine->ctx);
    zt_chain_init(&chain, options->engine);
    zt_status status = zt_partition_make(&cut, &chain, bound, false, NULL, NULL);
    if (!status) f->segments = cut.n_segments;
    if (!status) f->fallbacks = cut.fallbacks;
    if (!status) f->bytes = bytes_of(program, bound);
    for (int i = 0; i < f->segments; i++) {
        if (cut.segment[i].arena_bytes <= f->arena) continue;
        f->arena = cut.segment[i].arena_bytes;
        f->bound = cut.segment[i].liveness_bytes;
    }
    zt_partition_free(&cut);
    zt_chain_fini(&chain);
    zt_bound_free(bound);
    return status;
}

/* What is after a pass, as long as it did nothing what was before it. */
static zt_status tell_after(const zt_prog *program, const zt_pass_opts *options, zt_pass_report *r)
{
    zt_pass_figures f;
    zt_status status = zt_pass_measure(program, options, &f);
    r->kernels_after = zt_prog_kernels(program);
    r->arena_after = f.arena;
    r->bound_after = f.bound;
    r->segments_after = f.segments;
    r->fallbacks = f.fallbacks;
    r->bytes_after = f.bytes;
    return status;
}

static zt_status tell_before(const zt_prog *program, const zt_pass_opts *options, zt_pass_report *r)
{
    *r = (zt_pass_report){0};
    zt_status status = tell_after(program, options, r);
    r->kernels_before = r->kernels_after;
    r->arena_before = r->arena_after;
    r->segments_before = r->segments_after;
    r->bytes_before = r->bytes_after;
    return status;
}

/* ---- the driver ------------------------------------------------------------------------------ */

static zt_status run_pass(zt_ctx *ctx, int i, const zt_pass_opts *options, zt_prog **p,
                          zt_pass_report *report)
{
    zt_prog *next = NULL;
    zt_status status = report ? tell_before(*p, options, report) : ZT_OK;
    if (status || options->off >> i & 1) return status;
    double from = zt_seconds();
    status = passes[i]->run(ctx, *p, options, &next);
    double seconds = zt_seconds() - from;
    if (next) {
        zt_prog_free(*p);
        *p = next;
    }
    if (status || !report) return status;
    report->ran = true;
    report->seconds = seconds;
    return tell_after(*p, options, report);
}

zt_prog *zt_prog_passes(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts,
                        zt_pass_report *reports)
{
    static const zt_pass_opts plain;
    if (!opts) opts = &plain;
    if (zt_ctx_status(ctx)) return NULL;
    zt_compute how = opts->engine ? opts->engine->compute : ZT_COMPUTE_F32;
    zt_prog *now = zt_prog_computed(ctx, program, opts->sample, opts->n_sample, how);
    zt_status status = now ? ZT_OK : zt_ctx_status(ctx);
    for (int i = 0; i < N_PASSES && !status; i++)
        status = run_pass(ctx, i, opts, &now, reports ? &reports[i] : NULL);
    if (!status) return now;
    zt_prog_free(now);
    return NULL;
}
