/* compile.c - zt-trace compile: a program through the passes, and its memory planned. */
#include "tools/zt-trace/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static unsigned passes_off(const trace_options *options)
{
    unsigned off = 0;
    for (int i = 0; i < TRACE_N_PASSES; i++) off |= (unsigned)options->no_pass[i] << i;
    return off;
}

/* Numbers by which the passes know shapes: those bound above 1; the others unlike one another. */
static void make_sample(const zt_prog *program, const zt_bindings *bindings, zt_binding *sample)
{
    for (int symbol_id = 0; symbol_id < zt_prog_n_symbols(program); symbol_id++) {
        const char *name = zt_prog_symbol_name(program, symbol_id);
        sample[symbol_id] = (zt_binding){name, 64 * (2 * symbol_id + 3)};
        for (int k = 0; k < bindings->count; k++)
            if (!strcmp(bindings->items[k].symbol, name) && bindings->items[k].value > 1)
                sample[symbol_id].value = bindings->items[k].value;
    }
}

/* The numbers bound, in the order of the program's symbols; how many: 0 unless all are. */
static int bind_all(const zt_prog *program, const zt_bindings *bindings, zt_binding *all)
{
    if (!trace_all_bound(program, bindings)) return 0;
    for (int symbol_id = 0; symbol_id < zt_prog_n_symbols(program); symbol_id++)
        for (int k = 0; k < bindings->count; k++)
            if (!strcmp(bindings->items[k].symbol, zt_prog_symbol_name(program, symbol_id))) all[symbol_id] = bindings->items[k];
    return zt_prog_n_symbols(program);
}

/* The least seconds of a step of `program` in a fifth of a second of them; program has the subject's face. */
static zt_status time_step(const zt_subject *subject, zt_engine *engine, const zt_prog *program, double *seconds)
{
    zt_session *run = zt_subject_session_of(subject, engine, program);
    zt_status status = run ? zt_subject_step(subject, run) : zt_ctx_status(subject->cli->ctx);
    *seconds = INFINITY;
    for (double begin = zt_seconds(); !status && zt_seconds() - begin < 0.2;) {
        double from = zt_seconds();
        status = zt_subject_step(subject, run);
        *seconds = fmin(*seconds, zt_seconds() - from);
    }
    zt_session_close(run);
    return status;
}

/* seconds[i]: a step before pass i; the last: after all. Passes from i on are off. */
static zt_status time_passes(zt_cli *cli, const zt_subject *subject, const zt_prog *program, zt_engine *engine,
                             zt_pass_opts pass_options, double *seconds)
{
    zt_status status = ZT_OK;
    unsigned off = pass_options.off;
    for (int i = 0; i <= TRACE_N_PASSES && !status; i++) {
        pass_options.off = off | (unsigned)(~UINT64_C(0) << i);
        zt_prog *passed = zt_prog_passes(cli->ctx, program, &pass_options, NULL);
        status = passed ? time_step(subject, engine, passed, &seconds[i]) : zt_ctx_status(cli->ctx);
        zt_prog_free(passed);
    }
    return status;
}

/* What each pass saved, on stderr; times NULL: it was not run. */
static void report_passes(const zt_pass_report *reports, const double *times)
{
    fprintf(stderr, "%-8s %8s %8s %12s %12s %12s %8s", "pass", "kernels", "then", "arena", "then", "bound", "ms");
    fprintf(stderr, times ? " %10s %10s\n" : "\n", "step ms", "then");
    for (int i = 0; i < TRACE_N_PASSES; i++) {
        if (!reports[i].ran) {
            fprintf(stderr, "%-8s off\n", zt_pass_at(i)->name);
            continue;
        }
        fprintf(stderr, "%-8s %8d %8d %12zu %12zu %12zu %8.3f", zt_pass_at(i)->name, reports[i].kernels_before,
                reports[i].kernels_after, reports[i].arena_before, reports[i].arena_after, reports[i].bound_after,
                reports[i].seconds * 1e3);
        if (times) fprintf(stderr, " %10.3f %10.3f", times[i] * 1e3, times[i + 1] * 1e3);
        fputc('\n', stderr);
    }
}

/* Where every symbol has a number the program is run, too. */
static zt_status report_savings(zt_cli *cli, const trace_options *options, const zt_prog *program, zt_engine *engine,
                                char **operands, int operand_count, const zt_pass_opts *pass_options, const zt_bindings *bindings)
{
    zt_pass_report reports[TRACE_N_PASSES];
    double times[TRACE_N_PASSES + 1];
    bool runs = trace_all_bound(program, bindings);
    zt_pass_opts measured = *pass_options;
    if (runs) { /* memory is that of these numbers */
        measured.sample = bindings->items;
        measured.n_sample = bindings->count;
    }
    zt_prog *passed = zt_prog_passes(cli->ctx, program, &measured, reports);
    zt_subject *subject = passed && runs ? trace_subject(cli, options, program, operands, operand_count) : NULL;
    zt_status status = zt_ctx_status(cli->ctx);
    if (subject) status = time_passes(cli, subject, program, engine, *pass_options, times);
    if (!status) report_passes(reports, runs ? times : NULL);
    zt_subject_close(subject);
    zt_prog_free(passed);
    return status;
}

static zt_status compile_program(zt_cli *cli, const trace_options *options, const zt_prog *program, zt_engine *engine,
                                 char **operands, int operand_count)
{
    zt_bindings bindings;
    zt_binding sample[ZT_MAX_SYMBOLS], all[ZT_MAX_SYMBOLS];
    zt_str text;
    zt_status status = zt_bindings_of(cli->ctx, options->bind, program, &bindings);
    if (status) return status;
    make_sample(program, &bindings, sample);
    zt_pass_opts pass_options = {
        .sample = sample, .n_sample = zt_prog_n_symbols(program), .engine = engine, .off = passes_off(options)};
    zt_prog *passed = zt_prog_passes(cli->ctx, program, &pass_options, NULL);
    if (!passed) return zt_ctx_status(cli->ctx);
    zt_plan_file_opts plan_options = {
        .engine = engine, .isa = cli->isa, .off = pass_options.off, .bind = all, .n_bind = bind_all(program, &bindings, all)};
    zt_str_init(&text, cli->ctx);
    status = zt_cli_move_model(cli, passed, operand_count > 0 ? operands[0] : NULL, cli->output);
    if (!status) status = zt_plan_file_print(passed, &plan_options, &text);
    zt_prog_free(passed);
    if (!status && options->report)
        status = report_savings(cli, options, program, engine, operands, operand_count, &pass_options, &bindings);
    zt_status written = trace_write(cli, &text);
    return status ? status : written;
}

zt_status trace_compile(zt_cli *cli, const trace_options *options, char **operands, int operand_count)
{
    if (!options->report && zt_cli_refuse_given(cli, "model|input|data|seed", "compile without --report")) return ZT_EUSAGE;
    zt_prog *program = trace_program(cli, operands, operand_count);
    zt_engine *engine = program ? zt_cli_engine(cli) : NULL;
    zt_status status = engine ? compile_program(cli, options, program, engine, operands, operand_count) : zt_ctx_status(cli->ctx);
    zt_engine_close(engine);
    zt_prog_free(program);
    return status;
}
