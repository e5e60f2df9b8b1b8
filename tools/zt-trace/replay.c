/* replay.c - zt-trace diff --replay: one op with the inputs that it has in the program, on both
 * sides; what goes in and comes out in numbers; and (-o) the same as a program of its own, with its
 * values beside it, for who is to look into it.
 */
#include "tools/zt-trace/diff.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* ---- which, and with what -------------------------------------------------------------------- */

/* A line of the text, or the name of a value. */
static int find_step(const diff_job *job)
{
    const zt_prog *program = job->sides[0].program;
    const char *text = job->options->replay;
    char shown[96];
    int64_t line;
    if (zt_parse_i64(text, &line)) {
        for (int step_index = 0; step_index < zt_prog_n_steps(program); step_index++)
            if (zt_prog_step_line(program, step_index) == line) return step_index;
        zt_fail(job->cli->ctx, ZT_EUSAGE, "option '--replay': line %s of the program is not an op", text);
        return -1;
    }
    int value_id = zt_prog_find(program, text);
    if (value_id >= 0 && zt_prog_value(program, value_id)->kind == ZT_VALUE_OP) return zt_prog_value(program, value_id)->index;
    zt_fail(job->cli->ctx, ZT_EUSAGE, "option '--replay': '%s' is neither the line of an op nor the name of its result",
            zt_escape(shown, sizeof shown, text, strlen(text)));
    return -1;
}

/* The value as it stands in the file of -i; *found false: it does not. */
static zt_status put_recorded(const diff_job *job, int value_id, bool *found)
{
    zt_checkpoint *input = job->subject->input;
    zt_interpreter *interpreter = job->sides[0].interpreter;
    const zt_type *type = &zt_interpreter_bound(interpreter)->type[value_id];
    int64_t i = input ? zt_checkpoint_find(input, zt_prog_value(job->sides[0].program, value_id)->name) : -1;
    zt_entry entry;
    if (i >= 0) zt_checkpoint_get(input, i, &entry);
    *found = i >= 0 && zt_type_equal(&entry.type, type);
    if (!*found) return ZT_OK;
    void *bytes = zt_alloc(job->cli->ctx, zt_type_bytes(type) + 1);
    if (!bytes) return ZT_ENOMEM;
    zt_status status = zt_checkpoint_read(input, i, 0, bytes, zt_type_bytes(type));
    if (!status) status = zt_interpreter_put(interpreter, value_id, bytes);
    zt_free(job->cli->ctx, bytes);
    return status;
}

/* The op's inputs: recorded ones; where one is missing, all that comes before the op is run. */
static zt_status find_inputs(diff_job *job, int step)
{
    zt_interpreter *reference = job->sides[0].interpreter;
    const zt_step *source_step = zt_prog_step(job->sides[0].program, step);
    zt_status status = ZT_OK;
    bool all = true, found;
    int input_count = zt_op_info(source_step->op)->n_in;
    for (int k = 0; k < input_count && !status; k++) {
        if (source_step->in[k] < 0 || zt_prog_value(job->sides[0].program, source_step->in[k])->kind != ZT_VALUE_OP) continue;
        status = put_recorded(job, source_step->in[k], &found);
        all = all && found;
    }
    for (int i = 0; i < step && !all && !status; i++) status = zt_interpreter_step(reference, i);
    for (int k = 0; k < input_count && !status; k++) {
        if (source_step->in[k] < 0 || zt_prog_value(job->sides[0].program, source_step->in[k])->kind == ZT_VALUE_DATA) continue;
        const void *bytes = zt_interpreter_get(reference, source_step->in[k]);
        status = bytes ? zt_interpreter_put(job->sides[1].interpreter, source_step->in[k], bytes) : zt_ctx_status(job->cli->ctx);
    }
    return status;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* A row: what is in the value of a side; of an output of the second with what it is off by. */
static zt_status put_value(const diff_job *job, zt_table *table, const char *what, int side, int value_id, const char *engine,
                           const zt_diff_item *item)
{
    zt_interpreter *interpreter = job->sides[side].interpreter;
    const zt_type *type = &zt_interpreter_bound(interpreter)->type[value_id];
    const void *bytes = zt_interpreter_get(interpreter, value_id);
    char text[ZT_TYPE_TEXT], numbers[10][32];
    zt_summary summary;
    if (!bytes) return zt_ctx_status(job->cli->ctx);
    zt_summarize(type, bytes, &summary);
    snprintf(numbers[0], 32, "%" PRId64, summary.nan);
    snprintf(numbers[1], 32, "%" PRId64, summary.infinite);
    // clang-format off
    const char *cells[] = {what, zt_prog_value(job->sides[side].program, value_id)->name,
                           zt_type_text(type, text), engine, diff_number(summary.min, numbers[2]),
                           diff_number(summary.max, numbers[3]), diff_number(summary.mean, numbers[4]),
                           diff_number(summary.rms, numbers[5]), numbers[0], numbers[1], NULL, NULL, NULL, NULL, NULL};
    // clang-format on
    if (item) {
        cells[10] = diff_number(item->difference.max_abs, numbers[6]);
        cells[11] = diff_number(item->difference.nmse, numbers[7]);
        cells[12] = diff_number(item->bound, numbers[8]);
        cells[13] = diff_number(item->share, numbers[9]);
        cells[14] = item->share > 1 ? "beyond" : item->difference.bits ? "within" : "same";
    }
    return zt_table_row(table, cells);
}

/* Both results and their difference; `first` is the first that is beyond. */
static zt_status put_outputs(const diff_job *job, zt_table *table, int step, zt_diff_item *first, int *beyond)
{
    const zt_step *source_step = zt_prog_step(job->sides[0].program, step);
    const zt_opinfo *op_info = zt_op_info(source_step->op);
    zt_interpreter *reference = job->sides[0].interpreter, *tested = job->sides[1].interpreter;
    zt_status status = ZT_OK;
    for (int output = 0; output < op_info->n_out && !status; output++) {
        zt_diff_item item;
        if (source_step->out[output] < 0) continue;
        status = zt_diff_step(reference, tested, step, output, &job->diff_options, &item);
        if (!status)
            status =
                put_value(job, table, op_info->out_name[output], 0, item.value, zt_interpreter_engine(reference, step), NULL);
        if (!status)
            status = put_value(job, table, op_info->out_name[output], 1, item.value, zt_interpreter_engine(tested, step), &item);
        if (item.share > 1 && !(*beyond)++) *first = item;
    }
    return status;
}

static zt_status put_table(diff_job *job, int step)
{
    static const char *const columns[] = {"what", "name", "type",     "engine", "#min",   "#max",   "#mean",  "#rms",
                                          "#nan", "#inf", "#max_abs", "#nmse",  "#bound", "#share", "verdict"};
    const zt_step *source_step = zt_prog_step(job->sides[0].program, step);
    const zt_opinfo *op_info = zt_op_info(source_step->op);
    zt_table *table = zt_table_new(job->cli, "replay", columns, sizeof columns / sizeof *columns);
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    zt_diff_item first;
    int beyond = 0;
    for (int input = 0; input < op_info->n_in && !status; input++)
        if (source_step->in[input] >= 0)
            status = put_value(job, table, op_info->in_name[input], 0, source_step->in[input], NULL, NULL);
    if (!status) status = put_outputs(job, table, step, &first, &beyond);
    if (!status) status = zt_table_print(table);
    if (!status) status = zt_cli_flush(job->cli);
    zt_table_free(table);
    if (status || !beyond) return status;
    diff_tell(job, &first);
    zt_cli_no(job->cli);
    return ZT_OK;
}

/* ---- a program of its own -------------------------------------------------------------------- */

typedef struct own_program {
    zt_prog *program;
    int map[ZT_MAX_IN];    /* of each input of the op */
    int values[ZT_MAX_IN]; /* values that go into the file, once each */
    int value_count;
} own_program;

static bool is_donated(const zt_step *step, int k) { return k < zt_op_info(step->op)->def->donates; }

/* Input k as an input, or data where it is; what the op uses up as a copy of one. */
static void declare_input(const diff_job *job, own_program *own, const zt_step *step, int k)
{
    int value_id = step->in[k];
    char copy[256];
    own->map[k] = ZT_NONE;
    if (value_id < 0) return;
    for (int i = 0; i < k; i++)
        if (step->in[i] == value_id) {
            own->map[k] = own->map[i];
            return;
        }
    const zt_value *value = zt_prog_value(job->sides[0].program, value_id);
    const zt_type *type = &zt_interpreter_bound(job->sides[0].interpreter)->type[value_id];
    if (value->kind == ZT_VALUE_DATA)
        own->map[k] = zt_prog_data(own->program, value->name, type->dtype, type->rank, type->dim, value->name);
    else
        own->map[k] = zt_prog_in(own->program, value->name, type->dtype, type->rank, type->dim);
    snprintf(copy, sizeof copy, "%.240s.copy", value->name);
    if (is_donated(step, k)) own->map[k] = zt_program_scale(own->program, copy, own->map[k], NULL);
    own->values[own->value_count++] = value_id;
}

static zt_status make_program(const diff_job *job, own_program *own, int step)
{
    const zt_prog *program = job->sides[0].program;
    const zt_step *source_step = zt_prog_step(program, step);
    const zt_opinfo *op_info = zt_op_info(source_step->op);
    const char *names[ZT_MAX_OUT];
    int outputs[ZT_MAX_OUT];
    own->program = zt_prog_new(job->cli->ctx);
    if (!own->program) return ZT_ENOMEM;
    for (int input = 0; input < op_info->n_in; input++) declare_input(job, own, source_step, input);
    for (int output = 0; output < op_info->n_out; output++)
        names[output] = source_step->out[output] < 0 ? "_" : zt_prog_value(program, source_step->out[output])->name;
    zt_status status = zt_ctx_status(job->cli->ctx);
    if (!status)
        status = zt_prog_op(own->program, source_step->op, zt_interpreter_bound(job->sides[0].interpreter)->attrs[step], own->map,
                            names, outputs);
    for (int output = 0; output < op_info->n_out && !status; output++)
        if (outputs[output] >= 0) status = zt_prog_out(own->program, names[output], outputs[output]);
    return status;
}

static zt_status write_values(const diff_job *job, const own_program *own, const char *path)
{
    zt_interpreter *reference = job->sides[0].interpreter;
    zt_checkpoint_opts opts = {.to = zt_container_named("npz"), .force = job->cli->force};
    zt_entry entry[ZT_MAX_IN];
    zt_meta *meta = zt_meta_new(job->cli->ctx);
    if (!meta) return ZT_ENOMEM;
    for (int value_id = 0; value_id < own->value_count; value_id++) {
        const zt_type *type = &zt_interpreter_bound(reference)->type[own->values[value_id]];
        entry[value_id] = (zt_entry){zt_prog_value(job->sides[0].program, own->values[value_id])->name,
                                     zt_dtype_get(type->dtype)->name, *type, zt_type_bytes(type)};
    }
    zt_writer *writer = zt_writer_open(job->cli->ctx, path, &opts, meta, entry, own->value_count);
    zt_status status = writer ? ZT_OK : zt_ctx_status(job->cli->ctx);
    for (int value_id = 0; value_id < own->value_count && !status; value_id++) {
        const void *bytes = zt_interpreter_get(reference, own->values[value_id]);
        status = bytes ? zt_writer_put(writer, bytes, (size_t)entry[value_id].bytes) : zt_ctx_status(job->cli->ctx);
    }
    if (!status) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    zt_meta_free(meta);
    return status;
}

/* case.zt, and case.npz beside it. */
static zt_status write_case(const diff_job *job, int step)
{
    const char *path = job->cli->output;
    size_t length = strlen(path);
    char values[4096];
    own_program own = {0};
    if (length < 4 || strcmp(path + length - 3, ".zt") || length + 2 > sizeof values)
        return zt_fail(job->cli->ctx, ZT_EUSAGE, "--replay -o: the output is not NAME.zt (the values are written to NAME.npz)");
    snprintf(values, sizeof values, "%.*s.npz", (int)(length - 3), path);
    zt_status status = make_program(job, &own, step);
    if (!status && !job->cli->force && !access(path, F_OK))
        status = zt_fail(job->cli->ctx, ZT_ECREATE, "%s: already exists (--force overwrites)", path);
    if (!status) status = write_values(job, &own, values);
    if (!status) status = trace_write_program(job->cli, own.program);
    zt_prog_free(own.program);
    return status;
}

zt_status diff_replay(diff_job *job)
{
    int step = find_step(job);
    zt_status status = step < 0 ? zt_ctx_status(job->cli->ctx) : find_inputs(job, step);
    for (int i = 0; i < 2 && !status; i++) status = zt_interpreter_step(job->sides[i].interpreter, step);
    if (!status && job->cli->output) status = write_case(job, step);
    return status ? status : put_table(job, step);
}
