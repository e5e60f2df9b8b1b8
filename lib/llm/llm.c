/* llm.c - a language model on an engine: opened, with its session, and closed. */
#include "lib/base/require.h"
#include "lib/llm/arch/arch.h"
#include "lib/llm/llm_internal.h"

#include <inttypes.h>
#include <string.h>

static zt_status make_inputs(zt_llm *model)
{
    size_t chunk = (size_t)model->opts.chunk, blocks = (size_t)(model->cache_rows / ZT_KV_BLOCK);
    model->iota = zt_alloc_array(model->ctx, chunk, sizeof *model->iota);
    model->pos = zt_alloc_array(model->ctx, chunk, sizeof *model->pos);
    model->seq = zt_calloc(model->ctx, chunk, sizeof *model->seq);
    model->table = zt_alloc_array(model->ctx, (size_t)model->opts.n_seq * blocks, sizeof *model->table);
    model->last = zt_alloc_array(model->ctx, model->hyper.arch->encoder ? chunk : 0, sizeof *model->last);
    if (!model->iota || !model->pos || !model->seq || !model->table || !model->last) return ZT_ENOMEM;
    if (model->hyper.recurrent && !(model->recurrent = zt_recurrent_open(model->ctx, model->opts.chunk, model->opts.ctx_len)))
        return ZT_ENOMEM;
    if (model->opts.hidden && !(model->hidden = zt_hidden_open(model->ctx, model->hyper.width, model->opts.ctx_len)))
        return ZT_ENOMEM;
    if (model->opts.draws && !(model->drawing = zt_drawing_new(model->ctx, model->opts.chunk))) return ZT_ENOMEM;
    if (model->opts.embed) {
        model->states = zt_alloc_array(model->ctx, chunk * (size_t)zt_llm_vector_length(model), sizeof *model->states);
        model->pooled = zt_alloc_array(model->ctx, (size_t)zt_llm_vector_length(model), sizeof *model->pooled);
        if (!model->states || !model->pooled) return ZT_ENOMEM;
    }
    for (size_t i = 0; i < chunk; i++) model->iota[i] = (int32_t)i;
    for (size_t i = 0; i < (size_t)model->opts.n_seq * blocks; i++) model->table[i] = (int32_t)(i % blocks);
    return ZT_OK;
}

/* ---- a plan file: is it of this model? ------------------------------------------------------- */

static zt_status check_model_id(zt_ctx *ctx, const zt_gguf *gguf, const zt_prog *program)
{
    const char *id = zt_prog_model_id(program), *file = zt_prog_model_file(program);
    if (id && !strcmp(id, zt_gguf_id(gguf))) return ZT_OK;
    return zt_fail(ctx, ZT_EDATA, "the plan was compiled for model %s (id %s), not for %s (id %s)", file ? file : "?",
                   id ? id : "none", zt_gguf_name(gguf), zt_gguf_id(gguf));
}

/* Values of a kind, one by one: the same names and, bound, types. */
static zt_status check_values(zt_ctx *ctx, const zt_bound *expected, const zt_bound *planned, zt_value_kind kind)
{
    char planned_text[ZT_TYPE_TEXT], expected_text[ZT_TYPE_TEXT];
    int count = zt_prog_count(expected->prog, kind);
    if (zt_prog_count(planned->prog, kind) != count)
        return zt_fail(ctx, ZT_EDATA, "the plan has %d %s, the model's program %d", zt_prog_count(planned->prog, kind),
                       kind == ZT_VALUE_IN ? "inputs" : "states", count);
    for (int i = 0; i < count; i++) {
        int expected_value = zt_prog_nth(expected->prog, kind, i), planned_value = zt_prog_nth(planned->prog, kind, i);
        const char *name = zt_prog_value(expected->prog, expected_value)->name;
        if (!strcmp(name, zt_prog_value(planned->prog, planned_value)->name) &&
            zt_type_equal(&expected->type[expected_value], &planned->type[planned_value]))
            continue;
        return zt_fail(ctx, ZT_EDATA, "the plan has %s: %s where the model's program has %s: %s",
                       zt_prog_value(planned->prog, planned_value)->name,
                       zt_type_text(&planned->type[planned_value], planned_text), name,
                       zt_type_text(&expected->type[expected_value], expected_text));
    }
    return ZT_OK;
}

static zt_status check_outputs(zt_ctx *ctx, const zt_bound *expected, const zt_bound *planned)
{
    int count = zt_prog_n_outputs(expected->prog);
    bool same = zt_prog_n_outputs(planned->prog) == count;
    for (int index = 0; index < count && same; index++) {
        const zt_output *expected_output = zt_prog_output(expected->prog, index),
                        *planned_output = zt_prog_output(planned->prog, index);
        same = !strcmp(expected_output->name, planned_output->name) &&
               zt_type_equal(&expected->type[expected_output->value], &planned->type[planned_output->value]);
    }
    return same ? ZT_OK : zt_fail(ctx, ZT_EDATA, "the outputs of the plan differ from those of the model's program");
}

static zt_status check_plan(const zt_gguf *gguf, const zt_plan_file *plan, const zt_prog *built, const zt_binding *sample,
                            int sample_count)
{
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    const zt_prog *program = zt_plan_file_prog(plan);
    zt_status status = check_model_id(ctx, gguf, program);
    for (int i = 0; i < zt_prog_n_symbols(program) && !status; i++) {
        int k = 0;
        while (k < sample_count && strcmp(sample[k].symbol, zt_prog_symbol_name(program, i)) != 0) k++;
        if (k == sample_count)
            status = zt_fail(ctx, ZT_EDATA, "the plan has the symbol '%s', which the model's program does not have",
                             zt_prog_symbol_name(program, i));
    }
    zt_bound *expected = status ? NULL : zt_prog_bind(built, sample, sample_count);
    zt_bound *planned = expected ? zt_prog_bind(program, sample, sample_count) : NULL;
    if (planned) {
        status = check_values(ctx, expected, planned, ZT_VALUE_IN);
        if (!status) status = check_values(ctx, expected, planned, ZT_VALUE_STATE);
        if (!status) status = check_outputs(ctx, expected, planned);
    }
    zt_bound_free(expected);
    zt_bound_free(planned);
    return status ? status : zt_ctx_status(ctx);
}

/* ---- opening ---------------------------------------------------------------------------------- */

/* What was built runs after the passes; or the plan does, if it is of this model. */
static zt_status pass_program(zt_llm *model, const zt_gguf *gguf)
{
    const zt_binding sample[] = {{"n", 3}, {"m", 2}, {"ctx", model->cache_rows}};
    if (model->opts.planned) return check_plan(gguf, model->opts.planned, model->prog, sample, 3);
    zt_pass_opts pass_opts = {.sample = sample, .n_sample = 3, .engine = model->opts.engine, .off = model->opts.passes_off};
    model->passed = zt_prog_passes(model->ctx, model->part ? model->part : model->prog, &pass_opts, NULL);
    return model->passed ? ZT_OK : zt_ctx_status(model->ctx);
}

static void log_opened(const zt_llm *model, const zt_gguf *gguf)
{
    zt_llm_info info = zt_llm_get(model);
    zt_session_report report = zt_session_get(model->session);
    zt_log(model->ctx, ZT_LOG_INFO,
           "%s: %s, %" PRId64 " layers, width %" PRId64 ", vocabulary %" PRId64 ", context %" PRId64
           ", weights %.1f MB, cache %.1f MB, states %.1f MB, %d steps fall back",
           zt_gguf_name(gguf), info.arch, info.n_layers, info.width, info.vocab, info.ctx_len, (double)info.weight_bytes / 1e6,
           (double)info.kv_bytes / 1e6, (double)info.recurrent_bytes / 1e6, report.fallbacks);
    if (info.heads && !model->opts.hidden && !model->opts.head)
        zt_log(model->ctx, ZT_LOG_INFO, "%s: %" PRId64 " multi-token-prediction head%s not used", zt_gguf_name(gguf), info.heads,
               info.heads == 1 ? " is" : "s are");
}

zt_llm *zt_llm_open(zt_gguf *gguf, const zt_llm_opts *opts)
{
    if (!gguf) return NULL;
    ZT_REQUIRE(zt_gguf_ctx(gguf), opts && opts->engine, NULL);
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    zt_store store = zt_gguf_store(gguf);
    zt_llm *model = zt_calloc(ctx, 1, sizeof *model);
    if (!model) return NULL;
    model->ctx = ctx;
    if (opts->ranks && zt_llm_request_open(opts) != ZT_OK) goto fail;
    if (zt_llm_executable(model, gguf, opts) != ZT_OK || zt_llm_scratch(model, &model->scratch) != ZT_OK ||
        (opts->ranks && zt_llm_divide(model, gguf) != ZT_OK) || pass_program(model, gguf) != ZT_OK || make_inputs(model) != ZT_OK)
        goto fail;
    zt_binding fixed = {"ctx", model->cache_rows};
    zt_session_opts session_opts = {.strict = opts->strict, .fixed = &fixed, .n_fixed = 1, .plan = opts->planned};
    if (opts->head && opts->lender) session_opts.lender = opts->lender->session;
    const zt_prog *runnable = opts->planned ? zt_plan_file_prog(opts->planned) : model->passed;
    model->session = zt_session_open(opts->engine, runnable, &store, &session_opts);
    /* Generation's shape, prepared now: that loads the weights. */
    zt_binding single[] = {{"n", 1}, {"m", 1}};
    bool greedy = opts->greedy, draws = model->opts.draws && !greedy;
    void *wanted[] = {(greedy && !opts->embed) || draws ? NULL : model, greedy ? model : NULL, draws ? model : NULL, NULL};
    if (opts->hidden || opts->head) wanted[zt_llm_hidden_output(model)] = model;
    bool others = zt_ranks_own(opts->ranks) != 0; /* their outputs are what the next rank needs */
    if (model->session && zt_session_prepare(model->session, single, 2, others ? NULL : wanted) == ZT_OK) {
        log_opened(model, gguf);
        model->served = model->stages && !others;
        return model;
    }
fail:
    zt_llm_close(model);
    return NULL;
}

void zt_llm_close(zt_llm *model)
{
    if (!model) return;
    if (model->served) zt_stages_end(model->stages);
    zt_stages_close(model->stages);
    zt_session_close(model->session);
    zt_prog_free(model->passed);
    zt_prog_free(model->part);
    zt_prog_free(model->prog);
    zt_free(model->ctx, model->iota);
    zt_free(model->ctx, model->pos);
    zt_free(model->ctx, model->seq);
    zt_free(model->ctx, model->table);
    zt_free(model->ctx, model->last);
    zt_recurrent_close(model->recurrent);
    zt_drawing_free(model->drawing);
    zt_hidden_close(model->hidden);
    zt_free(model->ctx, model->states);
    zt_free(model->ctx, model->pooled);
    zt_free(model->ctx, model);
}

zt_ctx *zt_llm_ctx(const zt_llm *model) { return model ? model->ctx : NULL; }

const zt_prog *zt_llm_prog(const zt_llm *model) { return model ? model->prog : NULL; }

zt_session *zt_llm_session(zt_llm *model) { return model ? model->session : NULL; }
