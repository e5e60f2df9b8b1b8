/* op.c - zt-bench op: the speed of one op, or of a program, per thread count.
 *
 * A line such as 'rms_norm f32[512,576] f32[576] eps=1e-6' becomes a program of one step: types are
 * inputs (`_` is an absent one), except a weight (linear's w), which is data, packed once as a model's is. Inputs and data of a
 * program from a file are generated in the same way (lib/run/bind_inputs.h), with indices in range.
 *
 * A sample is the mean of as many runs as take at least two milliseconds. Three results per subject:
 *
 *     us        time of a run
 *     GFLOP/s   from the flops that the ops' rows state
 *     GB/s      inputs read once and outputs written once
 */
#include "tools/common/subject.h"
#include "lib/run/pass.h"
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const double SHORTEST = 0.002; /* minimum duration of a sample in seconds */

/* ---- subjects -------------------------------------------------------------------------------- */

typedef struct op_subject {
    zt_cli *cli;
    const bench_options *options;
    zt_prog *program;
    zt_bindings bind;
    zt_bound_inputs *inputs;
    double flops, bytes;
    zt_cost_whole cost;
} op_subject;

static const char *skip_blanks(const char *text) { return text + strspn(text, " \t"); }

/* The operand at `at`, the k-th: a declaration in `text` and its name in `call`. The next token. */
static const char *put_operand(const char *cursor, int k, bool weight, zt_str *text, zt_str *call)
{
    size_t length = strcspn(cursor, " \t");
    if (length == 1 && *cursor == '_') {
        zt_str_puts(call, " _");
    } else {
        zt_str_printf(text, "%s a%d: %.*s", weight ? "data" : "in  ", k, (int)length, cursor);
        zt_str_printf(text, weight ? " \"a%d\"\n" : "\n", k);
        zt_str_printf(call, " a%d", k);
    }
    return skip_blanks(cursor + length);
}

/* An op line as a program's text. */
static zt_status write_program(const char *line, zt_str *text, zt_str *call)
{
    const char *cursor = skip_blanks(line);
    size_t length = strcspn(cursor, " \t");
    zt_op op = ZT_OP_COUNT;
    unsigned weights = zt_op_find(cursor, length, &op) ? zt_op_info(op)->def->weights : 0;
    zt_str_puts(text, "zt program 1\n");
    zt_str_printf(call, "y = %.*s", (int)length, cursor);
    cursor = skip_blanks(cursor + length);
    for (int k = 0; *cursor && !memchr(cursor, '=', strcspn(cursor, " \t")); k++)
        cursor = put_operand(cursor, k, k < ZT_MAX_IN && weights >> k & 1, text, call);
    return zt_str_printf(text, "%s %s\nout y = y\n", call->data ? call->data : "", cursor);
}

/* Removes LINE:N from the parser's message, lines of a program that the user did not write. */
static void fail_line(zt_ctx *ctx, const char *line)
{
    char what[512], shown[128];
    zt_status status = zt_ctx_status(ctx);
    size_t length = strlen(line);
    const char *said = zt_ctx_error(ctx);
    if (strncmp(said, line, length) || said[length] != ':') return;
    said += length + 1;
    said += strspn(said, "0123456789");
    snprintf(what, sizeof what, "%s", said + strspn(said, ": "));
    zt_ctx_clear(ctx);
    zt_fail(ctx, status, "'%s': %s", zt_escape(shown, sizeof shown, line, length), what);
}

static zt_prog *parse_line(zt_ctx *ctx, const char *line)
{
    zt_str text, call;
    zt_str_init(&text, ctx);
    zt_str_init(&call, ctx);
    zt_status status = write_program(line, &text, &call);
    zt_prog *program = status == ZT_OK ? zt_prog_parse(ctx, line, text.data, text.len) : NULL;
    if (status == ZT_OK && !program) fail_line(ctx, line);
    zt_str_fini(&text);
    zt_str_fini(&call);
    return program;
}

static bool is_file(zt_cli *cli, const char *name)
{
    size_t length = strlen(name);
    return (length > 3 && !strcmp(name + length - 3, ".zt")) || zt_cli_is_network(cli, name);
}

static zt_prog *open_program(zt_cli *cli, const char *name)
{
    return is_file(cli, name) ? zt_cli_program(cli, name) : parse_line(cli->ctx, name);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Bytes of inputs and data, read once, and of outputs, written once. */
static double count_bytes(const op_subject *subject)
{
    const zt_type *type = subject->inputs->bound->type;
    double sum = 0;
    for (int value = 0; value < subject->inputs->bound->n_values; value++) {
        zt_value_kind kind = zt_prog_value(subject->program, value)->kind;
        if (kind == ZT_VALUE_IN || kind == ZT_VALUE_DATA) sum += (double)zt_type_bytes(&type[value]);
    }
    for (int output = 0; output < zt_prog_n_outputs(subject->program); output++)
        sum += (double)zt_type_bytes(&type[zt_prog_output(subject->program, output)->value]);
    return sum;
}

static double count_flops(const op_subject *subject)
{
    double sum = 0;
    for (int i = 0; i < subject->inputs->bound->n_steps; i++) {
        const zt_step *step = zt_prog_step(subject->program, i);
        const zt_type *inputs[ZT_MAX_IN] = {0};
        zt_type out[ZT_MAX_OUT] = {{0}};
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (step->in[k] >= 0) inputs[k] = &subject->inputs->bound->type[step->in[k]];
        for (int k = 0; k < ZT_MAX_OUT; k++)
            if (step->out[k] >= 0) out[k] = subject->inputs->bound->type[step->out[k]];
        const void *attrs = subject->inputs->bound->attrs[i];
        sum += zt_op_flops(step->op, attrs ? attrs : zt_op_info(step->op)->defaults, inputs, out);
    }
    return sum;
}

static zt_status open_subject(op_subject *subject, const char *name)
{
    zt_ctx *ctx = subject->cli->ctx;
    subject->program = open_program(subject->cli, name);
    zt_status status =
        subject->program ? zt_bindings_of(ctx, subject->options->bind, subject->program, &subject->bind) : zt_ctx_status(ctx);
    if (status != ZT_OK) return status;
    subject->inputs = zt_bound_inputs_new(
        ctx, subject->program,
        &(zt_bound_inputs_opts){.bind = subject->bind.items, .n_bind = subject->bind.count, .draw = true, .draw_data = true});
    if (!subject->inputs) return zt_ctx_status(ctx);
    int *root = zt_cost_roots(ctx, subject->program);
    status = root ? zt_cost_add(ctx, subject->inputs->bound, root, -1, 1, &subject->cost) : ZT_ENOMEM;
    subject->flops = count_flops(subject);
    subject->bytes = count_bytes(subject);
    zt_free(ctx, root);
    return status;
}

static void close_subject(op_subject *subject)
{
    zt_bound_inputs_free(subject->inputs);
    zt_prog_free(subject->program);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* One of the two, by --ops. */
typedef struct op_runner {
    zt_session *session;
    bench_eager *eager;
} op_runner;

static zt_status run_once(op_subject *subject, const op_runner *runner)
{
    if (runner->eager) return bench_eager_run(runner->eager, subject->inputs->out);
    return zt_session_step(runner->session, subject->bind.items, subject->bind.count, (const void *const *)subject->inputs->in,
                           subject->inputs->out);
}

static zt_status run_times(op_subject *subject, const op_runner *runner, int64_t times, double *seconds)
{
    zt_status status = ZT_OK;
    double start = zt_seconds();
    for (int64_t i = 0; i < times && status == ZT_OK; i++) status = zt_cli_interrupted() ? ZT_EINTR : run_once(subject, runner);
    *seconds = (zt_seconds() - start) / (double)times;
    return status;
}

/* A subject on an engine: prepared and replayed, or op by op, as --ops says. */
typedef struct op_rig {
    op_subject *subject;
    const char *name;
    zt_engine *engine;
    zt_prog *passed; /* after the passes, for a session */
    op_runner way;
    bench_counters counters;
    double counts[BENCH_COUNTS]; /* of all samples */
    int64_t runs_per_sample;     /* runs per sample */
    double *seconds;             /* [count] a run */
    int64_t count;
} op_rig;

static zt_status rig_open(op_rig *rig, op_subject *subject, const char *name, int64_t threads)
{
    zt_ctx *ctx = subject->cli->ctx;
    bool replay = subject->options->how == BENCH_REPLAY;
    zt_session_opts session_options = {
        .strict = subject->cli->strict, .fixed = subject->bind.items, .n_fixed = subject->bind.count};
    *rig = (op_rig){.subject = subject, .name = name};
    if (!subject->options->vs) bench_counters_open(&rig->counters); /* before its threads begin */
    zt_engine *engine = rig->engine =
        zt_cli_engine_for(subject->cli, threads, subject->program, subject->bind.items, subject->bind.count);
    zt_pass_opts pass_options = {.sample = subject->bind.items, .n_sample = subject->bind.count, .engine = engine};
    rig->seconds = zt_calloc(ctx, (size_t)bench_most(subject->options), sizeof *rig->seconds);
    if (engine && replay) rig->passed = zt_prog_passes(ctx, subject->program, &pass_options, NULL);
    if (rig->passed)
        rig->way.session = zt_session_open(engine, rig->passed, &subject->inputs->store, &session_options);
    else if (engine && !replay)
        rig->way.eager = bench_eager_open(engine, subject->program, subject->inputs->bound, subject->inputs->in,
                                          subject->inputs->data, subject->options->how == BENCH_EAGER, subject->cli->strict);
    return zt_ctx_status(ctx);
}

static void rig_close(op_rig *rig)
{
    if (!rig->subject) return;
    zt_free(rig->subject->cli->ctx, rig->seconds);
    bench_counters_close(&rig->counters);
    bench_eager_close(rig->way.eager);
    if (rig->way.session) zt_session_close(rig->way.session);
    zt_prog_free(rig->passed);
    if (rig->engine) zt_engine_close(rig->engine);
}

/* Adds the results of one subject: the same samples in three units; with --vs its time only, since the other's work may differ.
 */
static zt_status add_rows(op_rig *rig, bench_list *list, int64_t threads)
{
    const op_subject *subject = rig->subject;
    const struct {
        const char *unit;
        double per; /* the unit's figure of a run is per / seconds; 0: seconds in us */
    } unit[] = {{"us", 0}, {"GFLOP/s", subject->flops / 1e9}, {"GB/s", subject->bytes / 1e9}};
    snprintf(list->engine, sizeof list->engine, "%s", rig->engine->vt->name);
    const zt_roof *roof = bench_roof(subject->cli, rig->engine, subject->options, list, (int)threads);
    for (int unit_index = 0; unit_index < (subject->options->vs ? 1 : 3); unit_index++) {
        if (unit_index && unit[unit_index].per == 0) continue;
        bench_result *row = bench_add(subject->cli->ctx, list, rig->name, threads, unit[unit_index].unit, rig->count);
        if (!row) return zt_ctx_status(subject->cli->ctx);
        if (roof) bench_set_roof(row, &subject->cost, roof);
        bench_set_counts(row, &rig->counters, rig->counts, (double)(rig->count * rig->runs_per_sample));
        for (row->count = 0; row->count < rig->count; row->count++)
            row->samples[row->count] =
                unit_index ? unit[unit_index].per / rig->seconds[row->count] : rig->seconds[row->count] * 1e6;
    }
    int fell = rig->way.eager ? bench_eager_fallbacks(rig->way.eager) : zt_session_get(rig->way.session).fallbacks;
    if (fell) zt_cli_note(subject->cli, "%s: %d steps fell back to another engine", rig->name, fell);
    return ZT_OK;
}

/* Two runs, from which the number of runs per sample follows. */
static zt_status warm_up(op_rig *rig)
{
    double once = 0;
    zt_status status = run_times(rig->subject, &rig->way, 1, &once);
    if (status == ZT_OK) status = run_times(rig->subject, &rig->way, 1, &once);
    rig->runs_per_sample = once >= SHORTEST ? 1 : 1 + (int64_t)(SHORTEST / (once > 1e-9 ? once : 1e-9));
    return status;
}

/* More rounds, of two sides? */
static zt_status add_rounds(const op_rig *rigs, int64_t *rounds)
{
    bench_result row[2];
    for (int k = 0; k < 2; k++)
        row[k] = (bench_result){.test = "", .unit = "us", .samples = rigs[k].seconds, .count = rigs[k].count};
    return bench_more(rigs->subject->cli, rigs->subject->options, &row[0], &row[1], rounds);
}

static zt_status take_samples(op_rig *rigs, int sides)
{
    int64_t reps = rigs->subject->options->reps;
    zt_status status = ZT_OK;
    for (int k = 0; k < sides && status == ZT_OK; k++) status = warm_up(&rigs[k]);
    bench_counters_start(&rigs->counters, rigs->engine);
    for (int64_t i = 0; i < reps && status == ZT_OK; i++) {
        for (int turn = 0; turn < sides && status == ZT_OK; turn++) {
            op_rig *now = &rigs[bench_turn(sides, i, turn)];
            status = run_times(now->subject, &now->way, now->runs_per_sample, &now->seconds[now->count++]);
        }
        zt_progress(rigs->subject->cli, &(zt_work){"op", rigs->name, "samples", (double)(i + 1), (double)reps});
        if (status == ZT_OK && i + 1 == reps) status = add_rounds(rigs, &reps);
    }
    bench_counters_add(&rigs->counters, rigs->engine, rigs->counts);
    return status;
}

static zt_status with_threads(op_subject *subjects, bench_list *lists, char *const *name, int sides, int64_t threads)
{
    op_rig rigs[2] = {{0}};
    zt_status status = ZT_OK;
    for (int k = 0; k < sides && status == ZT_OK; k++) status = rig_open(&rigs[k], &subjects[k], name[k], threads);
    if (status == ZT_OK) status = take_samples(rigs, sides);
    for (int k = 0; k < sides && status == ZT_OK; k++) status = add_rows(&rigs[k], &lists[k], threads);
    for (int k = 0; k < sides; k++) rig_close(&rigs[k]);
    return status;
}

/* One subject, or with --vs two. */
static zt_status measure_op(zt_cli *cli, const bench_options *options, bench_list *lists, char *const *name,
                            const bench_numbers *threads)
{
    int sides = bench_sides(options);
    op_subject subjects[2] = {{.cli = cli, .options = options}, {.cli = cli, .options = options}};
    zt_status status = ZT_OK;
    for (int k = 0; k < sides && status == ZT_OK; k++) status = open_subject(&subjects[k], name[k]);
    for (int i = 0; i < threads->count && status == ZT_OK; i++)
        status = with_threads(subjects, lists, name, sides, threads->values[i]);
    for (int k = 0; k < sides; k++) close_subject(&subjects[k]);
    return status;
}

/* Measures each line of -i FILE; empty lines and those that begin with # are skipped. */
static zt_status measure_lines(zt_cli *cli, const bench_options *options, bench_list *lists, const bench_numbers *threads)
{
    size_t bytes;
    char *text = zt_read_all(cli->ctx, options->input, &bytes);
    zt_status status = text ? ZT_OK : zt_ctx_status(cli->ctx);
    bool any = false;
    for (char *cursor = text, *next; status == ZT_OK && cursor && *cursor; cursor = next) {
        size_t len = strcspn(cursor, "\n");
        next = cursor + len + (cursor[len] == '\n');
        cursor[len] = 0;
        char *line = cursor + strspn(cursor, " \t");
        if (!*line || *line == '#') continue;
        any = true;
        status = measure_op(cli, options, lists, &line, threads);
    }
    if (status == ZT_OK && !any) status = zt_fail(cli->ctx, ZT_EDATA, "%s: no op found", options->input);
    zt_free(cli->ctx, text);
    return status;
}

zt_status bench_op(zt_cli *cli, const bench_options *options)
{
    bench_numbers threads;
    int sides = bench_sides(options);
    bench_list lists[2] = {{0}};
    zt_status status = bench_threads_of(cli->ctx, options, &threads);
    if (status == ZT_OK && cli->n_operands < 2 && !options->input)
        status = zt_fail(cli->ctx, ZT_EUSAGE, "no op, expected one such as 'rms_norm f32[512,576] f32[576] eps=1e-6'");
    if (status == ZT_OK && options->vs && (cli->n_operands != 3 || options->input))
        status = zt_fail(cli->ctx, ZT_EUSAGE, "op --vs needs two ops or programs, got %d", cli->n_operands - 1);
    for (int i = 1; i < cli->n_operands && status == ZT_OK; i += sides)
        status = measure_op(cli, options, lists, cli->operands + i, &threads);
    if (status == ZT_OK && options->input) status = measure_lines(cli, options, lists, &threads);
    if (status == ZT_OK) status = bench_answer(cli, options, lists);
    for (int k = 0; k < sides; k++) bench_list_free(cli->ctx, &lists[k]);
    return status;
}
