/* record.c - zt-trace record: what zt-run runs of a language model, as a program.
 *
 * The program is the forward pass as it is built, before any pass; prompt and single token are this
 * one program, with other numbers for its symbols. With a prompt there are values, too: those of
 * the step that --at chooses, to which the run comes as zt-run does. Then the step is interpreted op by
 * op (--steps, --values) and replayed with a clock (--times).
 */
#include "tools/zt-trace/trace.h"

#include <inttypes.h>
#include <string.h>

typedef struct trace_recording {
    zt_cli *cli;
    zt_ctx *ctx;
    const trace_options *options;
    zt_gguf *gguf;
    zt_store store;
    zt_engine *engine;
    zt_prog *program;        /* of the model */
    zt_ids ids;              /* of the prompt, then of the tokens that followed */
    size_t prompt;           /* tokens of the prompt */
    int64_t from, row_count; /* the step feeds n ids from there on */
    zt_binding bindings[3];
    zt_bound_inputs *inputs; /* of the step */
    zt_interpreter *interpreter;
    zt_prog *part;   /* --steps: of the program; NULL: all of it */
    zt_bound *bound; /* what is printed, bound */
} trace_recording;

/* ---- the program ----------------------------------------------------------------------------- */

static zt_status open_program(trace_recording *recording)
{
    static const zt_dtype cache_types[] = {TRACE_CACHE_TYPES(ZT_WORD_NUMBER)};
    zt_llm_opts llm_options = {.ctx_len = recording->options->ctx,
                               .exact = recording->options->exact,
                               .embed = recording->options->embed,
                               .kv = recording->options->kv < 0 ? ZT_DTYPE_COUNT : cache_types[recording->options->kv]};
    recording->gguf = zt_model_open(recording->ctx, recording->options->model);
    recording->program = recording->gguf ? zt_llm_program(recording->gguf, &llm_options) : NULL;
    if (recording->program) recording->store = zt_gguf_store(recording->gguf);
    return zt_ctx_status(recording->ctx);
}

static zt_status read_prompt(trace_recording *recording)
{
    const char *text = recording->options->prompt;
    zt_vocab *vocab = zt_vocab_open(recording->gguf);
    zt_status status =
        vocab ? zt_vocab_encode(vocab, text, strlen(text), ZT_TOK_BOS_RULE, &recording->ids) : zt_ctx_status(recording->ctx);
    zt_vocab_free(vocab);
    recording->row_count = (int64_t)recording->ids.count;
    recording->prompt = recording->ids.count;
    if (status == ZT_OK && recording->row_count == 0) status = zt_fail(recording->ctx, ZT_EUSAGE, "the prompt has no tokens");
    return status;
}

/* ---- the symbols' numbers -------------------------------------------------------------------- */

/* Rows of the cache for so many tokens and the one after them: whole blocks. */
static int64_t cache_rows(int64_t tokens) { return (tokens + ZT_LLM_BLOCK) / ZT_LLM_BLOCK * ZT_LLM_BLOCK; }

/* Those of the step that is recorded, so that the program runs without --bind: of the prompt, of
 * the token that --at says, and without a prompt of a single token. */
static zt_status give_numbers(trace_recording *recording)
{
    bool single = !recording->options->prompt || recording->options->at > 0;
    const zt_binding numbers[] = {{"n", single ? 1 : (int64_t)recording->prompt},
                                  {"m", 1},
                                  {"ctx", cache_rows((int64_t)recording->prompt + recording->options->at)}};
    zt_status status = ZT_OK;
    for (int symbol_id = 0; symbol_id < zt_prog_n_symbols(recording->program) && !status; symbol_id++)
        for (int k = 0; k < 3 && !status; k++)
            if (!strcmp(zt_prog_symbol_name(recording->program, symbol_id), numbers[k].symbol))
                status = zt_prog_set_binding(recording->program, numbers[k].symbol, numbers[k].value);
    return status;
}

/* The model as the program's folder has it. Standard input has no name. */
static zt_status name_model(zt_cli *cli, zt_prog *program, const char *model)
{
    if (!strcmp(model, "-")) return ZT_OK;
    char *path = zt_cli_path_from(cli->ctx, model, cli->output);
    zt_status status = path ? zt_prog_model_path(program, path) : zt_ctx_status(cli->ctx);
    zt_free(cli->ctx, path);
    return status;
}

/* ---- up to the step -------------------------------------------------------------------------- */

/* An input of the program, by its name: those of lib/llm's forward passes. */
static void fill_input(const trace_recording *recording, const char *name, const zt_type *type, int32_t *values)
{
    int64_t count = zt_type_count(type);
    for (int64_t i = 0; i < count; i++)
        values[i] = !strcmp(name, "ids")                             ? recording->ids.id[recording->from + i]
                    : !strcmp(name, "pos")                           ? (int32_t)(recording->from + i)
                    : !strcmp(name, "table")                         ? (int32_t)i
                    : !strcmp(name, "rows") || !strcmp(name, "last") ? (int32_t)(recording->row_count - 1)
                                                                     : 0; /* seq, types */
}

/* Inputs of the step that feeds n ids after those before `from`, into a new feed. */
static zt_status begin_step(trace_recording *recording)
{
    int64_t rows = cache_rows(recording->row_count + recording->options->at);
    if (recording->inputs) rows = recording->bindings[2].value;
    zt_binding numbers[] = {{"n", recording->row_count}, {"m", 1}, {"ctx", rows}};
    memcpy(recording->bindings, numbers, sizeof numbers);
    zt_bound_inputs_free(recording->inputs);
    recording->inputs = zt_bound_inputs_new(recording->ctx, recording->program,
                                            &(zt_bound_inputs_opts){.bind = recording->bindings, .n_bind = 3, .draw = true});
    if (!recording->inputs) return zt_ctx_status(recording->ctx);
    for (int input_index = 0; input_index < zt_prog_count(recording->program, ZT_VALUE_IN); input_index++) {
        int value_id = zt_prog_nth(recording->program, ZT_VALUE_IN, input_index);
        fill_input(recording, zt_prog_value(recording->program, value_id)->name, &recording->inputs->bound->type[value_id],
                   recording->inputs->in[input_index]);
    }
    return ZT_OK;
}

/* Which output is the likeliest token; -1: none. */
static int best_output(const zt_prog *program)
{
    for (int output_index = 0; output_index < zt_prog_n_outputs(program); output_index++)
        if (!strcmp(zt_prog_output(program, output_index)->name, "best")) return output_index;
    return -1;
}

/* Runs the step, and makes the one after it the next. */
static zt_status advance_step(trace_recording *recording, zt_session *session, int best)
{
    zt_status status = zt_cli_interrupted() ? ZT_EINTR
                                            : zt_session_step(session, recording->bindings, 2,
                                                              (const void *const *)recording->inputs->in, recording->inputs->out);
    if (status == ZT_OK) status = zt_ids_push(recording->ctx, &recording->ids, *(int32_t *)recording->inputs->out[best]);
    recording->from += recording->row_count;
    recording->row_count = 1;
    return status == ZT_OK ? begin_step(recording) : status;
}

static zt_status take_states(trace_recording *recording, zt_session *session)
{
    for (int state_index = 0; state_index < zt_prog_count(recording->program, ZT_VALUE_STATE); state_index++) {
        zt_type type = zt_session_state_type(session, state_index);
        recording->inputs->state[state_index] = zt_alloc(recording->ctx, zt_type_bytes(&type) + 1);
        if (!recording->inputs->state[state_index]) return ZT_ENOMEM;
        zt_status status = zt_session_state_get(session, state_index, recording->inputs->state[state_index]);
        if (status) return status;
    }
    return ZT_OK;
}

static zt_status run_up_to_step(trace_recording *recording)
{
    int best = best_output(recording->program);
    zt_status status = begin_step(recording);
    if (status || recording->options->at == 0) return status;
    if (best < 0) return zt_fail(recording->ctx, ZT_EUSAGE, "--at: the model does not generate tokens");
    zt_session_opts session_options = {.strict = recording->cli->strict, .fixed = &recording->bindings[2], .n_fixed = 1};
    zt_session *session = zt_session_open(recording->engine, recording->program, &recording->store, &session_options);
    if (!session) return zt_ctx_status(recording->ctx);
    for (int64_t i = 0; i < recording->options->at && !status; i++) status = advance_step(recording, session, best);
    if (!status) status = take_states(recording, session);
    zt_session_close(session);
    return status;
}

/* ---- the step, op by op ---------------------------------------------------------------------- */

/* "A..B", both among them; "A": that one. */
static zt_status read_steps(trace_recording *recording, int64_t *first, int64_t *last)
{
    char word[24], shown[64];
    const char *text = recording->options->steps, *dots = strstr(text, "..");
    size_t length = dots ? (size_t)(dots - text) : strlen(text);
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), text);
    bool good = zt_parse_i64(word, first) && zt_parse_i64(dots ? dots + 2 : word, last);
    if (good && *first >= 0 && *first <= *last && *last < zt_prog_n_steps(recording->program)) return ZT_OK;
    return zt_fail(recording->ctx, ZT_EUSAGE, "--steps: '%s' is not A..B with ops from 0 to %d",
                   zt_escape(shown, sizeof shown, text, strlen(text)), zt_prog_n_steps(recording->program) - 1);
}

static zt_status interpret_to(trace_recording *recording, int64_t last)
{
    zt_status status = ZT_OK;
    recording->interpreter = zt_interpreter_open(recording->engine, recording->program, &recording->store, recording->bindings, 3,
                                                 recording->cli->strict);
    if (!recording->interpreter) return zt_ctx_status(recording->ctx);
    for (int input_index = 0; input_index < zt_prog_count(recording->program, ZT_VALUE_IN) && !status; input_index++)
        status = zt_interpreter_put(recording->interpreter, zt_prog_nth(recording->program, ZT_VALUE_IN, input_index),
                                    recording->inputs->in[input_index]);
    for (int state_index = 0; state_index < zt_prog_count(recording->program, ZT_VALUE_STATE) && !status; state_index++)
        if (recording->inputs->state[state_index])
            status = zt_interpreter_put(recording->interpreter, zt_prog_nth(recording->program, ZT_VALUE_STATE, state_index),
                                        recording->inputs->state[state_index]);
    for (int step_index = 0; step_index <= last && !status; step_index++)
        status = zt_cli_interrupted() ? ZT_EINTR : zt_interpreter_step(recording->interpreter, step_index);
    return status;
}

/* What is printed: the program, or the part of it that --steps names. */
static zt_status choose_part(trace_recording *recording)
{
    int64_t first = 0, last = zt_prog_n_steps(recording->program) - 1;
    zt_status status = recording->options->steps ? read_steps(recording, &first, &last) : ZT_OK;
    if (!status && recording->options->steps) recording->part = zt_prog_part(recording->inputs->bound, (int)first, (int)last);
    if (!status) recording->bound = zt_prog_bind(recording->part ? recording->part : recording->program, recording->bindings, 3);
    if (!status && !recording->bound) status = zt_ctx_status(recording->ctx);
    bool interprets = recording->options->values || (recording->options->times && recording->part);
    return status || !interprets ? status : interpret_to(recording, last);
}

/* The bytes of a value of what is printed. */
static const void *bytes_of(trace_recording *recording, int value_id)
{
    return zt_interpreter_get(recording->interpreter,
                              zt_prog_find(recording->program, zt_prog_value(recording->bound->prog, value_id)->name));
}

/* Everything but data, in the order of the program. */
static zt_status write_values(trace_recording *recording)
{
    const zt_prog *program = recording->bound->prog;
    zt_checkpoint_opts checkpoint_options = {.to = zt_container_named("npz"), .force = recording->cli->force};
    zt_entry *entries = zt_calloc(recording->ctx, (size_t)recording->bound->n_values + 1, sizeof *entries);
    zt_meta *meta = zt_meta_new(recording->ctx);
    int64_t entry_count = 0;
    for (int value_id = 0; entries && value_id < recording->bound->n_values; value_id++) {
        if (zt_prog_value(program, value_id)->kind == ZT_VALUE_DATA) continue;
        const zt_type *type = &recording->bound->type[value_id];
        entries[entry_count++] =
            (zt_entry){zt_prog_value(program, value_id)->name, zt_dtype_get(type->dtype)->name, *type, zt_type_bytes(type)};
    }
    zt_writer *writer = entries && meta ? zt_writer_open(recording->ctx, recording->options->values, &checkpoint_options, meta,
                                                         entries, entry_count)
                                        : NULL;
    zt_status status = writer ? ZT_OK : zt_ctx_status(recording->ctx);
    for (int64_t entry_index = 0; entry_index < entry_count && !status; entry_index++) {
        const void *bytes = bytes_of(recording, zt_prog_find(program, entries[entry_index].name));
        status = bytes ? zt_writer_put(writer, bytes, entries[entry_index].bytes) : zt_ctx_status(recording->ctx);
    }
    if (!status) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    zt_meta_free(meta);
    zt_free(recording->ctx, entries);
    return status;
}

/* ---- the step, timed ------------------------------------------------------------------------- */

enum { REPLAYS = 5 };

typedef struct step_stopwatch {
    const zt_prog *program;
    double *least; /* [steps]: of all replays */
} step_stopwatch;

static void note_step(void *user, const zt_run_schedule *schedule, int step, double seconds)
{
    const step_stopwatch *stopwatch = user;
    int step_index = zt_prog_value(stopwatch->program, schedule->step[step].out[0])->index;
    if (!(stopwatch->least[step_index] > 0) || seconds < stopwatch->least[step_index]) stopwatch->least[step_index] = seconds;
}

/* The inputs and states of what is printed, as they are before it. */
static zt_status feed_part(trace_recording *recording, zt_bound_inputs *bound_inputs)
{
    static const zt_value_kind kinds[] = {ZT_VALUE_IN, ZT_VALUE_STATE};
    for (int k = 0; k < 2; k++) {
        void **arrays = k ? bound_inputs->state : bound_inputs->in;
        for (int i = 0; i < zt_prog_count(recording->part, kinds[k]); i++) {
            int value_id = zt_prog_nth(recording->part, kinds[k], i);
            const void *from = bytes_of(recording, value_id);
            size_t bytes = zt_type_bytes(&recording->bound->type[value_id]);
            if (!arrays[i]) arrays[i] = zt_alloc(recording->ctx, bytes + 1);
            if (!from || !arrays[i]) return zt_ctx_status(recording->ctx);
            memcpy(arrays[i], from, bytes);
        }
    }
    return ZT_OK;
}

static zt_status replay_part(trace_recording *recording, step_stopwatch *stopwatch)
{
    zt_engine *engine = zt_engine_trace(zt_cli_engine(recording->cli), note_step, stopwatch);
    zt_bound_inputs_opts input_options = {.draw = true};
    zt_bound_inputs *own = recording->part ? zt_bound_inputs_new(recording->ctx, recording->part, &input_options) : NULL,
                    *bound_inputs = own ? own : recording->inputs;
    zt_session_opts session_options = {.strict = recording->cli->strict, .fixed = &recording->bindings[2], .n_fixed = 1};
    zt_session *session = engine ? zt_session_open(engine, stopwatch->program, &recording->store, &session_options) : NULL;
    zt_status status = session && (own || !recording->part) ? ZT_OK : zt_ctx_status(recording->ctx);
    if (!status && own) status = feed_part(recording, own);
    for (int i = 0; i < REPLAYS && !status; i++) {
        status = zt_cli_interrupted() ? ZT_EINTR : zt_bound_inputs_states(bound_inputs, session);
        if (!status)
            status = zt_session_step(session, recording->bindings, 2, (const void *const *)bound_inputs->in, bound_inputs->out);
    }
    zt_session_close(session);
    zt_bound_inputs_free(own);
    zt_engine_close(engine);
    return status;
}

static zt_status put_times(const step_stopwatch *stopwatch, zt_str *output_text)
{
    for (int step_index = 0; step_index < zt_prog_n_steps(stopwatch->program); step_index++) {
        const zt_step *step = zt_prog_step(stopwatch->program, step_index);
        zt_str_printf(output_text, "{\"step\":%d,\"op\":\"%s\",\"out\":\"%s\",\"seconds\":%.9f}\n", step_index,
                      zt_op_info(step->op)->name, zt_prog_value(stopwatch->program, step->out[0])->name,
                      stopwatch->least[step_index]);
    }
    return zt_ctx_status(output_text->ctx);
}

static zt_status write_times(trace_recording *recording)
{
    step_stopwatch stopwatch = {.program = recording->bound->prog};
    stopwatch.least = zt_calloc(recording->ctx, (size_t)zt_prog_n_steps(stopwatch.program) + 1, sizeof *stopwatch.least);
    zt_str text;
    zt_str_init(&text, recording->ctx);
    zt_sink *sink = stopwatch.least ? zt_sink_open(recording->ctx, recording->options->times, recording->cli->force) : NULL;
    zt_status status = sink ? replay_part(recording, &stopwatch) : zt_ctx_status(recording->ctx);
    if (!status) status = put_times(&stopwatch, &text);
    if (!status) status = zt_sink_write(sink, text.data, text.len);
    if (!status) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_str_fini(&text);
    zt_free(recording->ctx, stopwatch.least);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static zt_status check_options(zt_cli *cli, const trace_options *options)
{
    const char *const out[] = {cli->output ? cli->output : "-", options->values, options->times};
    if (!options->model) return zt_fail(cli->ctx, ZT_EUSAGE, "no model: specify one with -m");
    if (zt_cli_refuse_given(cli, "cycles", "a language model; it applies to a network")) return ZT_EUSAGE;
    if (options->prompt && !*options->prompt) return zt_fail(cli->ctx, ZT_EUSAGE, "the prompt is empty");
    if (!options->prompt && (options->steps || options->values || options->times || options->at))
        return zt_fail(cli->ctx, ZT_EUSAGE, "--steps, --values, --times and --at need a prompt (-p)");
    if (!options->steps && !options->values && !options->times &&
        zt_cli_refuse_given(cli, TRACE_ENGINE_OPTIONS, "record without --steps, --values or --times: nothing is run"))
        return ZT_EUSAGE;
    for (int i = 0; i < 3; i++) {
        if (zt_cli_refuse_same(cli, options->model, out[i])) return zt_ctx_status(cli->ctx);
        for (int k = 0; k < i; k++)
            if (out[i] && out[k] && !strcmp(out[i], out[k]))
                return zt_fail(cli->ctx, ZT_EUSAGE, "two outputs are the same file, '%s'",
                               strcmp(out[i], "-") ? out[i] : "-, which is stdout");
    }
    return ZT_OK;
}

static zt_status record_step(trace_recording *recording)
{
    const trace_options *options = recording->options;
    zt_status status = check_options(recording->cli, options);
    if (!status) status = open_program(recording);
    if (!status && options->forward) {
        status = zt_prog_model_path(recording->program, NULL);
        return status ? status : trace_write_program(recording->cli, recording->program);
    }
    if (!status) status = name_model(recording->cli, recording->program, options->model);
    if (!status && options->prompt) status = read_prompt(recording);
    if (!status) status = give_numbers(recording);
    if (!status && options->prompt && (options->steps || options->values || options->times)) {
        recording->engine = zt_cli_engine(recording->cli);
        if (!recording->engine) status = zt_ctx_status(recording->ctx);
        if (!status) status = run_up_to_step(recording);
        if (!status) status = choose_part(recording);
    }
    if (!status && options->values) status = write_values(recording);
    if (!status && options->times) status = write_times(recording);
    return status ? status : trace_write_program(recording->cli, recording->part ? recording->part : recording->program);
}

/* Of a network the program is all there is. */
static zt_status record_network(zt_cli *cli, const trace_options *options)
{
    if (zt_cli_refuse_given(cli, "prompt|forward|steps|values|times|at|ctx|kv|exact|embed|" TRACE_ENGINE_OPTIONS,
                            "a network; it applies to a language model"))
        return ZT_EUSAGE;
    zt_prog *program = zt_cli_network(cli, options->model, &(zt_nn_options){.cycles = options->cycles});
    zt_status status = program ? name_model(cli, program, options->model) : zt_ctx_status(cli->ctx);
    for (int symbol_id = 0; program && symbol_id < zt_prog_n_symbols(program) && !status; symbol_id++) /* a batch of one */
        status = zt_prog_set_binding(program, zt_prog_symbol_name(program, symbol_id), 1);
    if (!status) status = trace_write_program(cli, program);
    zt_prog_free(program);
    return status;
}

zt_status trace_record(zt_cli *cli, const trace_options *options, char **operands, int operand_count)
{
    (void)operands, (void)operand_count;
    if (zt_cli_is_network(cli, options->model)) return record_network(cli, options);
    trace_recording recording = {.cli = cli, .ctx = cli->ctx, .options = options};
    zt_status status = record_step(&recording);
    zt_bound_free(recording.bound);
    zt_interpreter_close(recording.interpreter);
    zt_prog_free(recording.part);
    zt_bound_inputs_free(recording.inputs);
    zt_ids_fini(recording.ctx, &recording.ids);
    zt_engine_close(recording.engine);
    zt_prog_free(recording.program);
    zt_gguf_close(recording.gguf);
    return status;
}
