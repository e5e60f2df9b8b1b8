/* pass.c - owns the table of passes, the driver that runs it, and the figures of its report. */
#include "lib/base/require.h"
#include "lib/run/pass.h"

#include <string.h>

#include "lib/run/compute.h"
#include "lib/run/passes/rewrite.h"
#include "lib/run/partition.h"

#define ROW(name) &zt_pass_##name,
static const zt_pass *const passes[] = {ZT_PASSES(ROW)};

enum { N_PASSES = sizeof passes / sizeof passes[0] };

const zt_pass *zt_pass_at(int i) { return i >= 0 && i < N_PASSES ? passes[i] : NULL; }

int zt_pass_find(const char *name, size_t length)
{
    for (int i = 0; i < N_PASSES; i++)
        if (strlen(passes[i]->name) == length && !memcmp(passes[i]->name, name, length)) return i;
    return -1;
}

int zt_prog_kernels(const zt_prog *program)
{
    if (!program) return 0;
    int kernel_count = 0;
    for (int step_index = 0; step_index < zt_prog_n_steps(program); step_index++)
        kernel_count += !(zt_op_info(zt_prog_step(program, step_index)->op)->def->flags & ZT_OPF_VIEW);
    return kernel_count;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* zt_op_bytes of all steps. */
static double bytes_of(const zt_prog *program, const zt_bound *bound)
{
    double sum = 0;
    for (int step_index = 0; step_index < zt_prog_n_steps(program); step_index++) {
        const zt_step *step = zt_prog_step(program, step_index);
        const zt_opinfo *op_info = zt_op_info(step->op);
        const zt_type *input_types[ZT_MAX_IN] = {0};
        zt_type output_types[ZT_MAX_OUT] = {{0}};
        for (int input = 0; input < op_info->n_in; input++)
            input_types[input] = step->in[input] < 0 ? NULL : &bound->type[step->in[input]];
        for (int output = 0; output < op_info->n_out; output++)
            if (step->out[output] >= 0) output_types[output] = bound->type[step->out[output]];
        sum += zt_op_bytes(step->op, bound->attrs[step_index], input_types, output_types);
    }
    return sum;
}

zt_status zt_pass_measure(const zt_prog *program, const zt_pass_opts *options, zt_pass_figures *figures)
{
    zt_chain chain;
    zt_partition partition;
    *figures = (zt_pass_figures){0};
    if (!options->engine) return ZT_OK;
    zt_bound *bound = zt_prog_bind(program, options->sample, options->n_sample);
    if (!bound) return zt_ctx_status(options->engine->ctx);
    zt_chain_init(&chain, options->engine);
    zt_status status = zt_partition_make(&partition, &chain, bound, false, NULL, NULL);
    if (!status) figures->segments = partition.n_segments;
    if (!status) figures->fallbacks = partition.fallbacks;
    if (!status) figures->bytes = bytes_of(program, bound);
    for (int i = 0; i < figures->segments; i++) {
        if (partition.segments[i].arena_bytes <= figures->arena) continue;
        figures->arena = partition.segments[i].arena_bytes;
        figures->bound = partition.segments[i].liveness_bytes;
    }
    zt_partition_free(&partition);
    zt_chain_fini(&chain);
    zt_bound_free(bound);
    return status;
}

/* What is after a pass, as long as it did nothing what was before it. */
static zt_status tell_after(const zt_prog *program, const zt_pass_opts *options, zt_pass_report *report)
{
    zt_pass_figures figures;
    zt_status status = zt_pass_measure(program, options, &figures);
    report->kernels_after = zt_prog_kernels(program);
    report->arena_after = figures.arena;
    report->bound_after = figures.bound;
    report->segments_after = figures.segments;
    report->fallbacks = figures.fallbacks;
    report->bytes_after = figures.bytes;
    return status;
}

static zt_status tell_before(const zt_prog *program, const zt_pass_opts *options, zt_pass_report *report)
{
    *report = (zt_pass_report){0};
    zt_status status = tell_after(program, options, report);
    report->kernels_before = report->kernels_after;
    report->arena_before = report->arena_after;
    report->segments_before = report->segments_after;
    report->bytes_before = report->bytes_after;
    return status;
}

/* ---- the driver ------------------------------------------------------------------------------ */

static zt_status run_pass(zt_ctx *ctx, int pass_index, const zt_pass_opts *options, zt_prog **program, zt_pass_report *report)
{
    zt_prog *next = NULL;
    zt_status status = report ? tell_before(*program, options, report) : ZT_OK;
    if (status || options->off >> pass_index & 1) return status;
    double from = zt_seconds();
    status = passes[pass_index]->run(ctx, *program, options, &next);
    double seconds = zt_seconds() - from;
    if (next) {
        zt_prog_free(*program);
        *program = next;
    }
    if (status || !report) return status;
    report->ran = true;
    report->seconds = seconds;
    return tell_after(*program, options, report);
}

zt_prog *zt_prog_passes(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts, zt_pass_report *reports)
{
    static const zt_pass_opts plain;
    ZT_REQUIRE(ctx, ctx && program, NULL);
    if (!opts) opts = &plain;
    if (zt_ctx_status(ctx)) return NULL;
    zt_compute how = opts->engine ? opts->engine->compute : ZT_COMPUTE_F32;
    zt_prog *now = zt_prog_computed(ctx, program, opts->sample, opts->n_sample, how);
    zt_status status = now ? ZT_OK : zt_ctx_status(ctx);
    for (int i = 0; i < N_PASSES && !status; i++) status = run_pass(ctx, i, opts, &now, reports ? &reports[i] : NULL);
    if (!status) return now;
    zt_prog_free(now);
    return NULL;
}
