/* serve_embed.c - /v1/embeddings: the vectors that --embed makes. A model that generates text is opened a second time for them,
 * when they are first asked for. */
#include "lib/io/base64.h"
#include "tools/zt-run/serve.h"

zt_status serve_embedder_open(run_state *run, serve_embedder *embedder)
{
    zt_llm_opts opts = run_llm_opts(run);
    if (embedder->model) return ZT_OK;
    if (run->options->plan) return zt_fail(run->ctx, ZT_ENOTSUP, "with --plan there are no embeddings");
    opts.engine = run->engine;
    opts.embed = true;
    embedder->model = zt_llm_open(run->gguf, &opts);
    embedder->own = true;
    if (embedder->model) embedder->vector = zt_alloc_array(run->ctx, (size_t)zt_llm_get(embedder->model).vector, sizeof(float));
    if (embedder->vector) return ZT_OK;
    serve_embedder_close(run, embedder);
    return zt_ctx_status(run->ctx);
}

void serve_embedder_close(run_state *run, serve_embedder *embedder)
{
    zt_free(run->ctx, embedder->vector);
    if (embedder->own) zt_llm_close(embedder->model);
    *embedder = (serve_embedder){0};
}

static void put_numbers(zt_str *out, const float *vector, int64_t width)
{
    for (int64_t i = 0; i < width; i++) zt_str_printf(out, "%c%.9g", i ? ',' : '[', vector[i]);
    zt_str_putc(out, ']');
}

static void put_base64(zt_str *out, const float *vector, int64_t width)
{
    zt_str_putc(out, '"');
    zt_base64_put(out, vector, (size_t)width * sizeof *vector);
    zt_str_putc(out, '"');
}

zt_status serve_embed(run_state *run, serve_embedder *embedder, const json_t *text, size_t index, bool base64, zt_str *out,
                      size_t *tokens)
{
    zt_ids ids = {0};
    unsigned flags = run_encode_flags(run->options);
    zt_status status = json_is_array(text)
                           ? request_read_ids(run, "input", text, &ids)
                           : zt_vocab_encode(run->vocab, json_string_value(text), json_string_length(text), flags, &ids);
    if (status == ZT_OK && ids.count == 0) status = zt_fail(run->ctx, ZT_EDATA, "\"input\": text %zu has no tokens", index);
    if (status == ZT_OK) status = zt_llm_embed(embedder->model, ids.id, ids.count, embedder->vector);
    if (status == ZT_OK) {
        int64_t width = zt_llm_get(embedder->model).vector;
        *tokens += ids.count;
        zt_str_printf(out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", index ? "," : "", index);
        (base64 ? put_base64 : put_numbers)(out, embedder->vector, width);
        status = zt_str_putc(out, '}');
    }
    zt_ids_fini(run->ctx, &ids);
    return status;
}
