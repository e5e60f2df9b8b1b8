/* record.c - zt-trace record: what zt-run runs of a language model, as a program.
 *
 * The program is the forward pass as it is built, before any pass; prompt and single token are this
 * one program, with other numbers for its symbols. With a prompt there are values, too: those of
 * the step that --at chooses, to which the run comes as zt-run does. Then the step is walked op by
 * op (--steps, --values) and replayed with a clock (--times).
 */
#include "tools/zt-trace/trace.h"

#include <inttypes.h>
#include <string.h>

typedef struct recording {
    zt_cli *cli;
    zt_ctx *ctx;
    const trace_options *o;
    zt_gguf *gguf;
    zt_store store;
    zt_engine *engine;
    zt_prog *prog;   /* of the model */
    zt_ids ids;      /* of the prompt, then of the tokens that followed */
    size_t prompt;   /* tokens of the prompt */
    int64_t from, n; /* the step feeds n ids from there on */
    zt_binding bind[3];
    zt_bound_inputs *feed;   /* of the step */
    zt_interpreter *walk;
    zt_prog *part;   /* --steps: of the program; NULL: all of it */
    zt_bound *bound; /* what is printed, bound */
} recording;

/* ---- the program ----------------------------------------------------------------------------- */

static zt_status open_program(recording *r)
{
    static const zt_dtype kv[] = {ZT_F16, ZT_F32};
    zt_llm_opts lo = {.ctx_len = r->o->ctx, .exact = r->o->exact, .embed = r->o->embed,
                      .kv = r->o->kv < 0 ? ZT_DTYPE_COUNT : kv[r->o->kv]};
    r->gguf = zt_model_open(r->ctx, r->o->model);
    r->prog = r->gguf ? zt_llm_program(r->gguf, &lo) : NULL;
    if (r->prog) r->store = zt_gguf_store(r->gguf);
    return zt_ctx_status(r->ctx);
}

static zt_status read_prompt(recording *r)
{
    const char *text = r->o->prompt;
    zt_vocab *v = zt_vocab_open(r->gguf);
    zt_status status = v ? zt_vocab_encode(v, text, strlen(text), ZT_TOK_BOS_RULE, &r->ids)
                    : zt_ctx_status(r->ctx);
    zt_vocab_free(v);
    r->n = (int64_t)r->ids.count;
    r->prompt = r->ids.count;
    if (status == ZT_OK && r->n == 0) status = zt_fail(r->ctx, ZT_EUSAGE, "the prompt has no tokens");
    return status;
}

/* ---- the symbols' numbers -------------------------------------------------------------------- */

/* Rows of the cache for so many tokens and the one after them: whole blocks. */
static int64_t cache_rows(int64_t tokens)
{
    return (tokens + ZT_LLM_BLOCK) / ZT_LLM_BLOCK * ZT_LLM_BLOCK;
}

/* Those of the step that is recorded, so that the program runs without --bind: of the prompt, of
 * the token that --at says, and without a prompt of a single token. */
static zt_status give_numbers(recording *r)
{
    bool single = !r->o->prompt || r->o->at > 0;
    const zt_binding b[] = {{"n", single ? 1 : (int64_t)r->prompt},
                            {"m", 1},
                            {"ctx", cache_rows((int64_t)r->prompt + r->o->at)}};
    zt_status status = ZT_OK;
    for (int i = 0; i < zt_prog_n_symbols(r->prog) && !status; i++)
        for (int k = 0; k < 3 && !status; k++)
            if (!strcmp(zt_prog_symbol_name(r->prog, i), b[k].symbol))
                status = zt_prog_set_binding(r->prog, b[k].symbol, b[k].value);
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
static void fill_input(const recording *r, const char *name, const zt_type *type, int32_t *x)
{
    int64_t count = zt_type_count(type);
    for (int64_t i = 0; i < count; i++)
        x[i] = !strcmp(name, "ids")     ? r->ids.id[r->from + i]
               : !strcmp(name, "pos")   ? (int32_t)(r->from + i)
               : !strcmp(name, "table") ? (int32_t)i
               : !strcmp(name, "rows") || !strcmp(name, "last") ? (int32_t)(r->n - 1)
                                                                : 0; /* seq, types */
}

/* Inputs of the step that feeds n ids after those before `from`, into a new feed. */
static zt_status begin_step(recording *r)
{
    int64_t rows = cache_rows(r->n + r->o->at);
    if (r->feed) rows = r->bind[2].value;
    zt_binding b[] = {{"n", r->n}, {"m", 1}, {"ctx", rows}};
    memcpy(r->bind, b, sizeof b);
    zt_bound_inputs_free(r->feed);
    r->feed = zt_bound_inputs_new(r->ctx, r->prog,
                          &(zt_bound_inputs_opts){.bind = r->bind, .n_bind = 3, .draw = true});
    if (!r->feed) return zt_ctx_status(r->ctx);
    for (int i = 0; i < zt_prog_count(r->prog, ZT_VALUE_IN); i++) {
        int v = zt_prog_nth(r->prog, ZT_VALUE_IN, i);
        fill_input(r, zt_prog_value(r->prog, v)->name, &r->feed->bound->type[v], r->feed->in[i]);
    }
    return ZT_OK;
}

/* Which output is the likeliest token; -1: none. */
static int best_output(const zt_prog *program)
{
    for (int i = 0; i < zt_prog_n_outputs(program); i++)
        if (!strcmp(zt_prog_output(program, i)->name, "best")) return i;
    return -1;
}

/* Runs the step, and makes the one after it the next. */
static zt_status advance(recording *r, zt_session *session, int best)
{
    zt_status status = zt_cli_interrupted() ? ZT_EINTR
                                        : zt_session_step(session, r->bind, 2,
                                                          (const void *const *)r->feed->in,
                                                          r->feed->out);
    if (status == ZT_OK) status = zt_ids_push(r->ctx, &r->ids, *(int32_t *)r->feed->out[best]);
    r->from += r->n;
    r->n = 1;
    return status == ZT_OK ? begin_step(r) : status;
}

static zt_status take_states(recording *r, zt_session *session)
{
    for (int i = 0; i < zt_prog_count(r->prog, ZT_VALUE_STATE); i++) {
        zt_type type = zt_session_state_type(session, i);
        r->feed->state[i] = zt_alloc(r->ctx, zt_type_bytes(&type) + 1);
        if (!r->feed->state[i]) return ZT_ENOMEM;
        zt_status status = zt_session_state_get(session, i, r->feed->state[i]);
        if (status) return status;
    }
    return ZT_OK;
}

static zt_status run_up_to_step(recording *r)
{
    int best = best_output(r->prog);
    zt_status status = begin_step(r);
    if (status || r->o->at == 0) return status;
    if (best < 0) return zt_fail(r->ctx, ZT_EUSAGE, "--at: the model makes no tokens");
    zt_session_opts so = {.strict = r->cli->strict, .fixed = &r->bind[2], .n_fixed = 1};
    zt_session *session = zt_session_open(r->engine, r->prog, &r->store, &so);
    if (!session) return zt_ctx_status(r->ctx);
    for (int64_t i = 0; i < r->o->at && !status; i++) status = advance(r, session, best);
    if (!status) status = take_states(r, session);
    zt_session_close(session);
    return status;
}

/* ---- the step, op by op ---------------------------------------------------------------------- */

/* "A..B", both among them; "A": that one. */
static zt_status read_steps(recording *r, int64_t *first, int64_t *last)
{
    char a[24], shown[64];
    const char *text = r->o->steps, *dots = strstr(text, "..");
    size_t n = dots ? (size_t)(dots - text) : strlen(text);
    snprintf(a, sizeof a, "%.*s", (int)(n < sizeof a ? n : sizeof a - 1), text);
    bool good = zt_parse_i64(a, first) && zt_parse_i64(dots ? dots + 2 : a, last);
    if (good && *first >= 0 && *first <= *last && *last < zt_prog_n_steps(r->prog)) return ZT_OK;
    return zt_fail(r->ctx, ZT_EUSAGE, "--steps '%s': not A..B, ops from 0 to %d",
                   zt_escape(shown, sizeof shown, text, strlen(text)),
                   zt_prog_n_steps(r->prog) - 1);
}

static zt_status walk_to(recording *r, int64_t last)
{
    zt_status status = ZT_OK;
    r->walk = zt_interpreter_open(r->engine, r->prog, &r->store, r->bind, 3, r->cli->strict);
    if (!r->walk) return zt_ctx_status(r->ctx);
    for (int i = 0; i < zt_prog_count(r->prog, ZT_VALUE_IN) && !status; i++)
        status = zt_interpreter_put(r->walk, zt_prog_nth(r->prog, ZT_VALUE_IN, i), r->feed->in[i]);
    for (int i = 0; i < zt_prog_count(r->prog, ZT_VALUE_STATE) && !status; i++)
        if (r->feed->state[i])
            status = zt_interpreter_put(r->walk, zt_prog_nth(r->prog, ZT_VALUE_STATE, i), r->feed->state[i]);
    for (int s = 0; s <= last && !status; s++)
        status = zt_cli_interrupted() ? ZT_EINTR : zt_interpreter_step(r->walk, s);
    return status;
}

/* What is printed: the program, or the part of it that --steps tells. */
static zt_status choose_part(recording *r)
{
    int64_t first = 0, last = zt_prog_n_steps(r->prog) - 1;
    zt_status status = r->o->steps ? read_steps(r, &first, &last) : ZT_OK;
    if (!status && r->o->steps) r->part = zt_prog_part(r->feed->bound, (int)first, (int)last);
    if (!status) r->bound = zt_prog_bind(r->part ? r->part : r->prog, r->bind, 3);
    if (!status && !r->bound) status = zt_ctx_status(r->ctx);
    bool walks = r->o->values || (r->o->times && r->part);
    return status || !walks ? status : walk_to(r, last);
}

/* The bytes of a value of what is printed. */
static const void *bytes_of(recording *r, int v)
{
    return zt_interpreter_get(r->walk, zt_prog_find(r->prog, zt_prog_value(r->bound->prog, v)->name));
}

/* Everything but data, in the order of the program. */
static zt_status write_values(recording *r)
{
    const zt_prog *program = r->bound->prog;
    zt_checkpoint_opts co = {.to = zt_container_named("npz"), .force = r->cli->force};
    zt_entry *e = zt_calloc(r->ctx, (size_t)r->bound->n_values + 1, sizeof *e);
    zt_meta *meta = zt_meta_new(r->ctx);
    int64_t n = 0;
    for (int v = 0; e && v < r->bound->n_values; v++) {
        if (zt_prog_value(program, v)->kind == ZT_VALUE_DATA) continue;
        const zt_type *type = &r->bound->type[v];
        e[n++] = (zt_entry){zt_prog_value(program, v)->name, zt_dtype_get(type->dtype)->name, *type,
                            zt_type_bytes(type)};
    }
    zt_writer *w = e && meta ? zt_writer_open(r->ctx, r->o->values, &co, meta, e, n) : NULL;
    zt_status status = w ? ZT_OK : zt_ctx_status(r->ctx);
    for (int64_t i = 0; i < n && !status; i++) {
        const void *bytes = bytes_of(r, zt_prog_find(program, e[i].name));
        status = bytes ? zt_writer_put(w, bytes, e[i].bytes) : zt_ctx_status(r->ctx);
    }
    if (!status) status = zt_writer_commit(w);
    zt_writer_close(w);
    zt_meta_free(meta);
    zt_free(r->ctx, e);
    return status;
}

/* ---- the step, timed ------------------------------------------------------------------------- */

enum { REPLAYS = 5 };

typedef struct stopwatch {
    const zt_prog *prog;
    double *least; /* [steps]: of all replays */
} stopwatch;

static void note(void *user, const zt_run_schedule *plan, int step, double seconds)
{
    const stopwatch *c = user;
    int s = zt_prog_value(c->prog, plan->step[step].out[0])->index;
    if (!(c->least[s] > 0) || seconds < c->least[s]) c->least[s] = seconds;
}

/* The inputs and states of what is printed, as they are before it. */
static zt_status feed_part(recording *r, zt_bound_inputs *bound_inputs)
{
    static const zt_value_kind kinds[] = {ZT_VALUE_IN, ZT_VALUE_STATE};
    for (int k = 0; k < 2; k++) {
        void **to = k ? bound_inputs->state : bound_inputs->in;
        for (int i = 0; i < zt_prog_count(r->part, kinds[k]); i++) {
            int v = zt_prog_nth(r->part, kinds[k], i);
            const void *from = bytes_of(r, v);
            size_t bytes = zt_type_bytes(&r->bound->type[v]);
            if (!to[i]) to[i] = zt_alloc(r->ctx, bytes + 1);
            if (!from || !to[i]) return zt_ctx_status(r->ctx);
            memcpy(to[i], from, bytes);
        }
    }
    return ZT_OK;
}

static zt_status replay(recording *r, stopwatch *c)
{
    zt_engine *engine = zt_engine_trace(zt_cli_engine(r->cli), note, c);
    zt_bound_inputs_opts fo = {.draw = true};
    zt_bound_inputs *own = r->part ? zt_bound_inputs_new(r->ctx, r->part, &fo) : NULL, *bound_inputs = own ? own : r->feed;
    zt_session_opts so = {.strict = r->cli->strict, .fixed = &r->bind[2], .n_fixed = 1};
    zt_session *session = engine ? zt_session_open(engine, c->prog, &r->store, &so) : NULL;
    zt_status status = session && (own || !r->part) ? ZT_OK : zt_ctx_status(r->ctx);
    if (!status && own) status = feed_part(r, own);
    for (int i = 0; i < REPLAYS && !status; i++) {
        status = zt_cli_interrupted() ? ZT_EINTR : zt_bound_inputs_states(bound_inputs, session);
        if (!status) status = zt_session_step(session, r->bind, 2, (const void *const *)bound_inputs->in, bound_inputs->out);
    }
    zt_session_close(session);
    zt_bound_inputs_free(own);
    zt_engine_close(engine);
    return status;
}

static zt_status put_times(const stopwatch *c, zt_str *out)
{
    for (int s = 0; s < zt_prog_n_steps(c->prog); s++) {
        const zt_step *step = zt_prog_step(c->prog, s);
        zt_str_printf(out, "{\"step\":%d,\"op\":\"%s\",\"out\":\"%s\",\"seconds\":%.9f}\n", s,
                      zt_op_info(step->op)->name, zt_prog_value(c->prog, step->out[0])->name,
                      c->least[s]);
    }
    return zt_ctx_status(out->ctx);
}

static zt_status write_times(recording *r)
{
    stopwatch c = {.prog = r->bound->prog};
    c.least = zt_calloc(r->ctx, (size_t)zt_prog_n_steps(c.prog) + 1, sizeof *c.least);
    zt_str text;
    zt_str_init(&text, r->ctx);
    zt_sink *sink = c.least ? zt_sink_open(r->ctx, r->o->times, r->cli->force) : NULL;
    zt_status status = sink ? replay(r, &c) : zt_ctx_status(r->ctx);
    if (!status) status = put_times(&c, &text);
    if (!status) status = zt_sink_write(sink, text.data, text.len);
    if (!status) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_str_fini(&text);
    zt_free(r->ctx, c.least);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static zt_status check(zt_cli *cli, const trace_options *options)
{
    const char *const out[] = {cli->output ? cli->output : "-", options->values, options->times};
    if (!options->model) return zt_fail(cli->ctx, ZT_EUSAGE, "no model: name one with -m");
    if (zt_cli_refuse_given(cli, "cycles", "a language model; it applies to a network"))
        return ZT_EUSAGE;
    if (options->prompt && !*options->prompt) return zt_fail(cli->ctx, ZT_EUSAGE, "the prompt is empty");
    if (!options->prompt && (options->steps || options->values || options->times || options->at))
        return zt_fail(cli->ctx, ZT_EUSAGE,
                       "--steps, --values, --times and --at are of a run: give a prompt (-p)");
    if (!options->steps && !options->values && !options->times &&
        zt_cli_refuse_given(cli, TRACE_ENGINE_OPTIONS,
                            "record without --steps, --values or --times: nothing is run"))
        return ZT_EUSAGE;
    for (int i = 0; i < 3; i++) {
        if (zt_cli_refuse_same(cli, options->model, out[i])) return zt_ctx_status(cli->ctx);
        for (int k = 0; k < i; k++)
            if (out[i] && out[k] && !strcmp(out[i], out[k]))
                return zt_fail(cli->ctx, ZT_EUSAGE, "two outputs are one file, '%s'",
                               strcmp(out[i], "-") ? out[i] : "-, which is stdout");
    }
    return ZT_OK;
}

static zt_status record(recording *r)
{
    const trace_options *options = r->o;
    zt_status status = check(r->cli, options);
    if (!status) status = open_program(r);
    if (!status) status = name_model(r->cli, r->prog, options->model);
    if (!status && options->prompt) status = read_prompt(r);
    if (!status) status = give_numbers(r);
    if (!status && options->prompt && (options->steps || options->values || options->times)) {
        r->engine = zt_cli_engine(r->cli);
        if (!r->engine) status = zt_ctx_status(r->ctx);
        if (!status) status = run_up_to_step(r);
        if (!status) status = choose_part(r);
    }
    if (!status && options->values) status = write_values(r);
    if (!status && options->times) status = write_times(r);
    return status ? status : trace_write_program(r->cli, r->part ? r->part : r->prog);
}

/* Of a network the program is all there is. */
static zt_status record_network(zt_cli *cli, const trace_options *options)
{
    if (zt_cli_refuse_given(cli,
                            "prompt|steps|values|times|at|ctx|kv|exact|embed|" TRACE_ENGINE_OPTIONS,
                            "a network; it applies to a language model"))
        return ZT_EUSAGE;
    zt_prog *program = zt_cli_network(cli, options->model, &(zt_nn_options){.cycles = options->cycles});
    zt_status status = program ? name_model(cli, program, options->model) : zt_ctx_status(cli->ctx);
    for (int i = 0; program && i < zt_prog_n_symbols(program) && !status; i++) /* a batch of one */
        status = zt_prog_set_binding(program, zt_prog_symbol_name(program, i), 1);
    if (!status) status = trace_write_program(cli, program);
    zt_prog_free(program);
    return status;
}

zt_status trace_record(zt_cli *cli, const trace_options *options, char **operands, int n)
{
    (void)operands, (void)n;
    if (zt_cli_is_network(cli, options->model)) return record_network(cli, options);
    recording r = {.cli = cli, .ctx = cli->ctx, .o = options};
    zt_status status = record(&r);
    zt_bound_free(r.bound);
    zt_interpreter_close(r.walk);
    zt_prog_free(r.part);
    zt_bound_inputs_free(r.feed);
    zt_ids_fini(r.ctx, &r.ids);
    zt_engine_close(r.engine);
    zt_prog_free(r.prog);
    zt_gguf_close(r.gguf);
    return status;
}
