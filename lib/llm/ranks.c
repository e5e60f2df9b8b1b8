/* ranks.c - a language model whose layers are divided among ranks: what rank 0 opens, the others open too. */
#include "lib/base/require.h"
#include "lib/llm/llm_internal.h"

#include <string.h>

/* What rank 0 asks the others for: the options of a model that have no pointers, or the end. */
typedef struct open_request {
    int64_t opens;
    int64_t ctx_len, chunk, n_seq, cache_len, max_tokens;
    int32_t exact, kv, kv_values, strict, greedy, draws, embed;
    uint32_t passes_off;
} open_request;

zt_status zt_llm_request_open(const zt_llm_opts *opts)
{
    open_request request = {.opens = 1,
                            .ctx_len = opts->ctx_len,
                            .chunk = opts->chunk,
                            .n_seq = opts->n_seq,
                            .cache_len = opts->cache_len,
                            .max_tokens = opts->max_tokens,
                            .exact = opts->exact,
                            .kv = (int32_t)opts->kv,
                            .kv_values = (int32_t)opts->kv_values,
                            .strict = opts->strict,
                            .greedy = opts->greedy,
                            .draws = opts->draws,
                            .embed = opts->embed,
                            .passes_off = opts->passes_off};
    return zt_ranks_own(opts->ranks) ? ZT_OK : zt_ranks_broadcast(opts->ranks, &request, sizeof request);
}

static zt_llm_opts requested(const open_request *request, const zt_llm_opts *own)
{
    return (zt_llm_opts){.engine = own->engine,
                         .ctx_len = request->ctx_len,
                         .chunk = request->chunk,
                         .n_seq = request->n_seq,
                         .cache_len = request->cache_len,
                         .exact = request->exact,
                         .kv = (zt_dtype)request->kv,
                         .kv_values = (zt_dtype)request->kv_values,
                         .strict = request->strict,
                         .max_tokens = request->max_tokens,
                         .greedy = request->greedy,
                         .draws = request->draws,
                         .embed = request->embed,
                         .passes_off = request->passes_off,
                         .forward = own->forward,
                         .forward_name = own->forward_name,
                         .ranks = own->ranks};
}

zt_status zt_llm_divide(zt_llm *model, zt_gguf *gguf)
{
    zt_ranks *ranks = model->opts.ranks;
    zt_binding fixed = {"ctx", model->cache_rows};
    char key[33];
    zt_status status = zt_llm_key(gguf, key);
    if (!status) status = zt_ranks_agree(ranks, "the model's files", key, strlen(key));
    if (status) return status;
    model->stages = zt_stages_open(model->ctx, ranks, model->prog, &fixed, 1);
    model->part = zt_stages_prog(model->stages);
    return model->part ? ZT_OK : zt_ctx_status(model->ctx);
}

zt_status zt_llm_step(zt_llm *model, const zt_binding *symbols, int n, const void *const *inputs, void *const *outputs)
{
    if (model->stages) return zt_stages_step(model->stages, model->session, symbols, n, inputs, outputs);
    return zt_session_step(model->session, symbols, n, inputs, outputs);
}

zt_status zt_llm_work(zt_gguf *gguf, const zt_llm_opts *opts)
{
    if (!gguf) return ZT_EUSAGE;
    ZT_REQUIRE(zt_gguf_ctx(gguf), opts && opts->engine && zt_ranks_own(opts->ranks), ZT_EUSAGE);
    zt_status status = ZT_OK;
    open_request request;
    while (!status) {
        status = zt_ranks_broadcast(opts->ranks, &request, sizeof request);
        if (status || !request.opens) break;
        zt_llm_opts own = requested(&request, opts);
        zt_llm *model = zt_llm_open(gguf, &own);
        status = model ? zt_stages_serve(model->stages, model->session) : zt_ctx_status(zt_gguf_ctx(gguf));
        zt_llm_close(model);
    }
    return status;
}

zt_status zt_llm_dismiss(zt_ranks *ranks)
{
    open_request request = {.opens = 0};
    return zt_ranks_own(ranks) ? ZT_OK : zt_ranks_broadcast(ranks, &request, sizeof request);
}
