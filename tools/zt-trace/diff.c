/* diff.c - zt-trace diff: a program on two engines, instruction sets or numbers of threads, or two
 * programs, compared op by op. The first op beyond its bound is named; the answer is the exit code.
 */
#include "tools/zt-trace/diff.h"

#include <inttypes.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------- */

const char *diff_where(const diff_side *side, int step, char *text, size_t capacity)
{
    long line = zt_prog_step_line(side->program, step);
    if (line == 0)
        snprintf(text, capacity, "step %d", step);
    else if (!strcmp(side->path, "-"))
        snprintf(text, capacity, "line %ld", line);
    else {
        char shown[256];
        zt_escape(shown, sizeof shown, side->path, strlen(side->path));
        snprintf(text, capacity, "%s:%ld", shown, line);
    }
    return text;
}

const char *diff_index(const zt_type *type, int64_t element, char *text, size_t capacity)
{
    int64_t index[ZT_MAX_RANK];
    size_t length = 0;
    for (int axis = type->rank; axis-- > 0; element /= type->dim[axis]) index[axis] = element % type->dim[axis];
    text[0] = 0;
    for (int axis = 0; axis < type->rank && length < capacity; axis++)
        length += (size_t)snprintf(text + length, capacity - length, "%s%" PRId64, axis ? "," : "[", index[axis]);
    if (length < capacity) snprintf(text + length, capacity - length, type->rank ? "]" : "[]");
    return text;
}

const char *diff_number(double number, char text[32])
{
    snprintf(text, 32, "%.4g", number);
    return text;
}

void diff_tell(const diff_job *job, const zt_diff_item *item)
{
    const diff_side *tested = &job->sides[1];
    const zt_bound *bound = zt_interpreter_bound(tested->interpreter);
    const zt_step *step = zt_prog_step(tested->program, item->step);
    const zt_opinfo *op_info = zt_op_info(step->op);
    char where[300], index[240], type[ZT_TYPE_TEXT], got[40], want[40], given[1024] = "";
    size_t length = 0;
    for (int input = 0; input < op_info->n_in && length < sizeof given; input++)
        if (step->in[input] >= 0)
            length += (size_t)snprintf(given + length, sizeof given - length, "%s%s %s", length ? ", " : "",
                                       op_info->in_name[input], zt_type_text(&bound->type[step->in[input]], type));
    zt_type_text(&bound->type[item->value], type);
    snprintf(got, sizeof got, "%.9g", item->difference.got);
    snprintf(want, sizeof want, "%.9g", item->difference.want);
    if (item->difference.worst < 0)
        zt_cli_note(job->cli, "%s: step %d, %s '%s' %s of %s: equal values, %" PRId64 " with different bits",
                    diff_where(tested, item->step, where, sizeof where), item->step, op_info->name,
                    zt_prog_value(tested->program, item->value)->name, type, given, item->difference.bits);
    else
        zt_cli_note(job->cli,
                    "%s: step %d, %s '%s' %s of %s: element %s is %s, expected %s; max error %.3g, NMSE %.3g, allowed %.3g",
                    diff_where(tested, item->step, where, sizeof where), item->step, op_info->name,
                    zt_prog_value(tested->program, item->value)->name, type, given,
                    diff_index(&bound->type[item->value], item->difference.worst, index, sizeof index), got, want,
                    item->difference.max_abs, item->difference.nmse, item->bound);
}

/* ---- comparing ------------------------------------------------------------------------------- */

typedef struct diff_report {
    diff_job *job;
    zt_table *table;
    int items, same, beyond, rows;
    zt_diff_item first;
} diff_report;

static const char *verdict_of(const zt_diff_item *item)
{
    return item->share > 1 ? "beyond" : item->difference.bits == 0 ? "same" : "within";
}

static zt_status put_item(void *user, const zt_diff_item *item)
{
    diff_report *report = user;
    const diff_side *tested = &report->job->sides[1];
    char step[16], line[24], type[ZT_TYPE_TEXT], numbers[4][32], bits[24];
    report->items++;
    report->same += item->difference.bits == 0;
    bool beyond = item->share > 1;
    if (beyond && !report->beyond++) report->first = *item;
    if (zt_cli_interrupted()) return zt_fail(report->job->cli->ctx, ZT_EINTR, "interrupted");
    if (!beyond && !report->job->options->all) return ZT_OK;
    report->rows++;
    snprintf(step, sizeof step, "%d", item->step);
    snprintf(line, sizeof line, "%ld", zt_prog_step_line(tested->program, item->step));
    snprintf(bits, sizeof bits, "%" PRId64, item->difference.bits);
    const char *cells[] = {step,
                           line,
                           zt_op_info(zt_prog_step(tested->program, item->step)->op)->name,
                           zt_prog_value(tested->program, item->value)->name,
                           zt_type_text(&zt_interpreter_bound(tested->interpreter)->type[item->value], type),
                           zt_interpreter_engine(tested->interpreter, item->step),
                           diff_number(item->difference.max_abs, numbers[0]),
                           diff_number(item->difference.nmse, numbers[1]),
                           diff_number(item->bound, numbers[2]),
                           diff_number(item->share, numbers[3]),
                           bits,
                           verdict_of(item)};
    return zt_table_row(report->table, cells);
}

static zt_status compare_sides(diff_job *job)
{
    static const char *const columns[] = {"#step",    "#line", "op",     "name",   "type",    "engine",
                                          "#max_abs", "#nmse", "#bound", "#share", "#differ", "verdict"};
    diff_report report = {.job = job};
    report.table = zt_table_new(job->cli, "diff", columns, sizeof columns / sizeof *columns);
    if (!report.table) return ZT_ENOMEM;
    zt_status status = zt_diff(job->sides[0].interpreter, job->sides[1].interpreter, &job->diff_options, put_item, &report);
    if (!status && (report.rows || job->cli->format != ZT_FMT_AUTO)) status = zt_table_print(report.table);
    if (!status) status = zt_cli_flush(job->cli);
    zt_table_free(report.table);
    if (status) return status;
    if (report.beyond) diff_tell(job, &report.first);
    zt_cli_note(job->cli, "%d values compared: %d bit-exact, %d beyond %s", report.items, report.same, report.beyond,
                report.beyond == 1 ? "its bound" : "their bounds");
    if (report.beyond) zt_cli_no(job->cli);
    return ZT_OK;
}

/* ---- the two sides --------------------------------------------------------------------------- */

/* Of one program without a pair of anything: ref judges. */
static zt_status open_engines(diff_job *job)
{
    zt_cli *cli = job->cli;
    zt_cli_second second = zt_cli_pair(cli);
    bool judge = !cli->pair && !job->two_programs;
    const char *name[2] = {judge ? "ref" : cli->engine, second.engine};
    zt_engine_opts engine_options[2] = {{.threads = (int)cli->threads, .isa = cli->isa, .tile = cli->tile},
                                        {.threads = (int)second.threads, .isa = second.isa, .tile = cli->tile}};
    for (int i = 0; i < 2; i++) {
        job->sides[i].engine = zt_engine_open(cli->ctx, name[i], &engine_options[i]);
        if (!job->sides[i].engine) return zt_ctx_status(cli->ctx);
    }
    /* Threads alone change no bit: promise (a) of design.md. */
    bool alike = !job->two_programs && !judge && !strcmp(name[0], name[1]) && engine_options[0].isa == engine_options[1].isa;
    job->diff_options = (zt_diff_opts){.through = job->options->through,
                                       .exact = job->options->exact || alike,
                                       .judge = job->sides[0].engine->vt == &zt_engine_ref};
    return ZT_OK;
}

static zt_status open_interpreters(diff_job *job)
{
    const zt_subject *subject = job->subject;
    zt_binding bind[ZT_MAX_SYMBOLS];
    int binding_count = subject->bind.count;
    memcpy(bind, subject->bind.items, (size_t)binding_count * sizeof *bind);
    zt_prog_bindings(job->sides[1].program, bind, &binding_count); /* those that the first program does not have */
    for (int i = 0; i < 2; i++) {
        diff_side *side = &job->sides[i];
        side->interpreter =
            zt_interpreter_open(side->engine, side->program, &subject->inputs->store, bind, binding_count, job->cli->strict);
        if (!side->interpreter) return zt_ctx_status(job->cli->ctx);
    }
    const zt_prog *program = job->sides[0].program;
    zt_status status = ZT_OK;
    for (int input_index = 0; input_index < zt_prog_count(program, ZT_VALUE_IN) && !status; input_index++)
        status = zt_interpreter_put(job->sides[0].interpreter, zt_prog_nth(program, ZT_VALUE_IN, input_index),
                                    subject->inputs->in[input_index]);
    for (int state_index = 0; state_index < zt_prog_count(program, ZT_VALUE_STATE) && !status; state_index++)
        if (subject->inputs->state[state_index])
            status = zt_interpreter_put(job->sides[0].interpreter, zt_prog_nth(program, ZT_VALUE_STATE, state_index),
                                        subject->inputs->state[state_index]);
    return status;
}

static zt_status open_sides(diff_job *job, char **operands, int operand_count)
{
    zt_ctx *ctx = job->cli->ctx;
    job->two_programs = operand_count == 2;
    for (int i = 0; i < 2; i++) job->sides[i].path = operand_count == 0 ? "-" : operands[operand_count == 2 ? i : 0];
    job->sides[0].program = trace_program(job->cli, operands, operand_count);
    if (!job->sides[0].program) return zt_ctx_status(ctx);
    job->sides[1].program = operand_count == 2 ? trace_program(job->cli, operands + 1, 1) : job->sides[0].program;
    if (!job->sides[1].program) return zt_ctx_status(ctx);
    zt_status status = open_engines(job);
    if (status) return status;
    job->subject = trace_subject(job->cli, job->options, job->sides[0].program, operands, operand_count);
    return job->subject ? open_interpreters(job) : zt_ctx_status(ctx);
}

static void close_sides(diff_job *job)
{
    for (int i = 0; i < 2; i++) zt_interpreter_close(job->sides[i].interpreter);
    zt_subject_close(job->subject);
    for (int i = 0; i < 2; i++) zt_engine_close(job->sides[i].engine);
    if (job->two_programs) zt_prog_free(job->sides[1].program);
    zt_prog_free(job->sides[0].program);
}

static zt_status check_use(const diff_job *job, int operand_count)
{
    zt_ctx *ctx = job->cli->ctx;
    if (job->cli->output && !job->options->replay) return zt_fail(ctx, ZT_EUSAGE, "diff: --output applies only with --replay");
    if (job->options->replay && operand_count == 2) return zt_fail(ctx, ZT_EUSAGE, "--replay needs one program, got two");
    return ZT_OK;
}

zt_status trace_diff(zt_cli *cli, const trace_options *options, char **operands, int operand_count)
{
    diff_job job = {.cli = cli, .options = options};
    zt_status status = check_use(&job, operand_count);
    if (!status) status = open_sides(&job, operands, operand_count);
    if (!status) status = options->replay ? diff_replay(&job) : compare_sides(&job);
    close_sides(&job);
    return status;
}
