/* program.c - zt-run of a program: its inputs by name from a file, one step, its outputs to a file.
 *
 * States begin as in the file, or cleared; what they are after the step is not kept. The program goes through
 * the passes before it runs.
 */
#include "tools/common/subject.h"
#include "tools/zt-run/run.h"
#include "tools/zt-run/tensors.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char program_magic[] = "zt program";

/* Decided by the file's first words; for a named pipe, which cannot be read twice, by its name. */
bool run_is_program(zt_cli *cli, const char *path)
{
    char head[sizeof program_magic - 1];
    struct stat info;
    size_t length = path ? strlen(path) : 0;
    if (length == 0) return false;
    if (zt_cli_is_network(cli, path)) return true;
    if (strcmp(path, "-") && stat(path, &info) == 0 && S_ISFIFO(info.st_mode))
        return length > 3 && !strcmp(path + length - 3, ".zt");
    return zt_cli_head(cli, path, head, sizeof head) == sizeof head && !memcmp(head, program_magic, sizeof head);
}

/* ---- in -------------------------------------------------------------------------------------- */

static zt_status check_files(zt_cli *cli, const run_options *options)
{
    if (!strcmp(options->model, "-") && options->input && !strcmp(options->input, "-"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "standard input (-) can be used for one file only");
    zt_status status = zt_cli_refuse_same(cli, options->model, cli->output);
    if (!status) status = zt_cli_refuse_same(cli, options->input, cli->output);
    return status ? status : zt_cli_refuse_same(cli, options->data, cli->output);
}

/* Where inputs come from: the file of -i; else standard input, if the program has inputs. */
static const char *input_of(const run_options *options, const zt_prog *program)
{
    if (options->input || zt_prog_count(program, ZT_VALUE_IN) == 0 || isatty(STDIN_FILENO) || !strcmp(options->model, "-"))
        return options->input;
    return "-";
}

/* What a job holds besides r. */
typedef struct program_job {
    zt_cli *cli;
    const run_options *options;
    zt_prog *program;
    bool input_is_csv;   /* inputs came as CSV, */
    int64_t csv_columns; /* of its first line */
    char *csv_bytes;     /* which these were made of */
    zt_subject *subject;
} program_job;

static zt_prog *open_network(const program_job *job, const zt_nn_shape *shape)
{
    return zt_cli_network(
        job->cli, job->options->model,
        &(zt_nn_options){.input = shape, .cycles = job->options->cycles, .held = job->options->feed == RUN_FEED_EVERY});
}

/* Builds the network for the shape of its input: of the array in the file, or rows of numbers in CSV. */
static zt_status reshape_network(program_job *job, const zt_checkpoint *input)
{
    const zt_type *input_type = &zt_prog_value(job->program, zt_prog_nth(job->program, ZT_VALUE_IN, 0))->type;
    zt_nn_shape shape = {.rank = 2, .dim = {0, 1}};
    zt_entry entry;
    int64_t entry_index = input ? zt_checkpoint_find(input, "x") : -1;
    if (entry_index < 0 && input && zt_checkpoint_count(input) == 1) entry_index = 0;
    if (entry_index >= 0) {
        zt_checkpoint_get(input, entry_index, &entry);
        shape.rank = entry.type.rank;
        memcpy(shape.dim, entry.type.dim, sizeof shape.dim);
    }
    for (int axis = 1; axis < input_type->rank && !input; axis++) shape.dim[1] *= input_type->dim[axis];
    if (!input && input_type->rank == 1) shape.dim[1] = job->csv_columns; /* ids, so many a row */
    if (input ? entry_index < 0 || shape.rank < 1 : input_type->rank < 3 && (input_type->rank != 1 || job->csv_columns < 2))
        return ZT_OK;
    zt_prog *program = open_network(job, &shape);
    if (!program) return zt_ctx_status(job->cli->ctx);
    zt_prog_free(job->program);
    job->program = program;
    return ZT_OK;
}

static int64_t columns_of(const zt_source *source)
{
    char head[1 << 12];
    size_t size;
    int64_t columns = 1;
    if (zt_source_read_some(source, 0, head, sizeof head, sizeof head, &size)) return 1;
    for (size_t i = 0; i < size && head[i] != '\n'; i++) columns += head[i] == ',';
    return columns;
}

/* Opens the file of inputs: CSV or a container of tensors, decided by its content. */
static zt_checkpoint *open_input(program_job *job, const char *path)
{
    zt_ctx *ctx = job->cli->ctx;
    bool network = zt_cli_is_network(job->cli, job->options->model);
    int input_count = zt_prog_count(job->program, ZT_VALUE_IN) - (network && zt_prog_find(job->program, "counter") >= 0);
    zt_checkpoint *checkpoint = NULL;
    zt_source *source = zt_source_open(ctx, path);
    if (!source) return NULL;
    job->input_is_csv = run_looks_csv(source);
    if (!job->input_is_csv) {
        checkpoint = zt_checkpoint_take(ctx, source);
        if (!checkpoint || !network || reshape_network(job, checkpoint) == ZT_OK) return checkpoint;
        zt_checkpoint_close(checkpoint);
        return NULL;
    }
    if (network) job->csv_columns = columns_of(source);
    if (network && reshape_network(job, NULL)) {
        zt_source_close(source);
        return NULL;
    }
    if (input_count == 1)
        checkpoint = run_csv_read(ctx, source, &zt_prog_value(job->program, zt_prog_nth(job->program, ZT_VALUE_IN, 0))->type,
                                  &job->csv_bytes);
    else
        zt_fail(ctx, ZT_EUSAGE, "%s: CSV needs a program with one input, but this one has %d", zt_source_name(source),
                input_count);
    zt_source_close(source);
    return checkpoint;
}

static zt_status open_subject(program_job *job)
{
    const run_options *options = job->options;
    const char *path = input_of(options, job->program);
    zt_subject_opts subject_options = {.path = options->model,
                                       .data = options->data,
                                       .bindings = options->bind,
                                       .counts = zt_cli_is_network(job->cli, options->model)};
    if (path) subject_options.tensors = open_input(job, path);
    if (!path || subject_options.tensors) job->subject = zt_subject_open(job->cli, job->program, &subject_options);
    return job->subject ? ZT_OK : zt_ctx_status(job->cli->ctx);
}

/* ---- out ------------------------------------------------------------------------------------- */

static zt_status write_csv(zt_cli *cli, const zt_type *type, const void *data)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_sink *sink = NULL;
    zt_status status = run_csv_put(type, data, &text);
    if (!status && !cli->output) status = zt_cli_write(cli, text.data, text.len);
    if (!status && cli->output) {
        sink = zt_sink_open(cli->ctx, cli->output, cli->force);
        status = sink ? zt_sink_write(sink, text.data, text.len) : zt_ctx_status(cli->ctx);
        if (!status) status = zt_sink_commit(sink);
    }
    zt_sink_close(sink);
    zt_str_fini(&text);
    return status;
}

/* Writes all outputs into a container, by name and in order. */
static zt_status write_tensors(zt_cli *cli, const zt_bound_inputs *feed, const zt_container *container)
{
    const zt_prog *program = feed->prog;
    int output_count = zt_prog_n_outputs(program);
    zt_checkpoint_opts checkpoint_options = {.to = container, .force = cli->force};
    zt_entry *entries = zt_calloc(cli->ctx, (size_t)output_count + 1, sizeof *entries);
    zt_meta *meta = zt_meta_new(cli->ctx);
    for (int i = 0; entries && i < output_count; i++) {
        const zt_type *type = &feed->bound->type[zt_prog_output(program, i)->value];
        entries[i] = (zt_entry){zt_prog_output(program, i)->name, zt_dtype_get(type->dtype)->name, *type, zt_type_bytes(type)};
    }
    const char *path = cli->output ? cli->output : "-";
    zt_writer *writer = entries && meta ? zt_writer_open(cli->ctx, path, &checkpoint_options, meta, entries, output_count) : NULL;
    zt_status status = writer ? ZT_OK : zt_ctx_status(cli->ctx);
    for (int i = 0; i < output_count && !status; i++) status = zt_writer_put(writer, feed->out[i], entries[i].bytes);
    if (!status) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    zt_meta_free(meta);
    zt_free(cli->ctx, entries);
    return status;
}

/* The format of the output goes by the file's name. On stdout it is CSV if the input was CSV and there is one
 * output. */
static zt_status write_outputs(const program_job *job)
{
    zt_cli *cli = job->cli;
    const zt_bound_inputs *feed = job->subject->inputs;
    int output_count = zt_prog_n_outputs(job->program);
    bool to_stdout = !cli->output || !strcmp(cli->output, "-");
    const zt_container *container = to_stdout ? NULL : zt_container_for(cli->output);
    if (run_is_csv(cli->output) && output_count != 1)
        return zt_fail(cli->ctx, ZT_EUSAGE, "%s: CSV needs a program with one output, but this one has %d", cli->output,
                       output_count);
    if (run_is_csv(cli->output) || (to_stdout && output_count == 1 && job->input_is_csv))
        return write_csv(cli, &feed->bound->type[zt_prog_output(job->program, 0)->value], feed->out[0]);
    zt_status status = to_stdout ? zt_cli_refuse_terminal(cli, "the outputs") : ZT_OK;
    return status ? status : write_tensors(cli, feed, container ? container : zt_container_named("npz"));
}

/* ---- one step -------------------------------------------------------------------------------- */

static zt_status run_step(const program_job *job)
{
    zt_cli *cli = job->cli;
    const zt_bindings *bindings = &job->subject->bind;
    zt_engine *engine = zt_cli_engine_for(cli, cli->threads, job->program, bindings->items, bindings->count);
    zt_pass_opts pass_options = {.sample = bindings->items, .n_sample = bindings->count, .engine = engine};
    zt_prog *lowered = engine ? zt_prog_passes(cli->ctx, job->program, &pass_options, NULL) : NULL;
    zt_session *session = lowered ? zt_subject_session_of(job->subject, engine, lowered) : NULL;
    zt_status status = session ? zt_subject_step(job->subject, session) : zt_ctx_status(cli->ctx);
    if (!status && zt_session_get(session).fallbacks)
        zt_log(cli->ctx, ZT_LOG_INFO, "%d steps fell back to another engine", zt_session_get(session).fallbacks);
    zt_session_close(session);
    zt_prog_free(lowered);
    zt_engine_close(engine);
    return status;
}

zt_status run_program(run_state *run)
{
    program_job job = {.cli = run->cli, .options = run->options};
    zt_status status = check_files(job.cli, job.options);
    bool net = !status && zt_cli_is_network(job.cli, job.options->model);
    if (!status) job.program = net ? open_network(&job, NULL) : zt_cli_program(job.cli, job.options->model);
    if (!status) status = job.program ? open_subject(&job) : zt_ctx_status(job.cli->ctx);
    if (!status) status = zt_cli_given(job.cli, "chunk") ? run_rows(job.cli, job.options, job.subject->inputs) : run_step(&job);
    if (!status) status = write_outputs(&job);
    zt_subject_close(job.subject);
    zt_free(job.cli->ctx, job.csv_bytes);
    zt_prog_free(job.program);
    return status;
}
