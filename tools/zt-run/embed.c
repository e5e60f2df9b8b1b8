/* embed.c - --embed: a text, or each of its lines, as one vector: the states after the last norm,
 * pooled as the model says (mean where it says nothing), or the scores of its classifier. npy, or with --format a JSON object. */
#include "lib/io/npy.h"
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <string.h>

/* Writes the vector of a text, and sets the number of its tokens. A text without tokens has no
 * vector. */
static zt_status embed_text(run_state *run, const char *text, size_t size, float *vector, size_t *token_count)
{
    run->ids.count = 0;
    zt_status status = zt_vocab_encode(run->vocab, text, size, run_encode_flags(run->options), &run->ids);
    *token_count = run->ids.count;
    return status == ZT_OK && *token_count ? zt_llm_embed(run->llm, run->ids.id, *token_count, vector) : status;
}

static zt_status write_npy(run_state *run, const float *vector, int64_t length)
{
    zt_type type = zt_type_make(ZT_F32, 1, &length);
    zt_sink *sink = run->sink ? run->sink : zt_sink_open(run->ctx, "-", false);
    zt_status status = sink ? zt_npy_write_header(sink, run->ctx, &type) : zt_ctx_status(run->ctx);
    if (status == ZT_OK) status = zt_sink_write(sink, vector, (size_t)length * sizeof *vector);
    if (status == ZT_OK && !run->sink) status = zt_sink_commit(sink);
    if (!run->sink) zt_sink_close(sink);
    return status;
}

/* One object, one line. */
static zt_status write_json(run_state *run, int64_t index, const float *vector, int64_t length, size_t tokens)
{
    zt_str object;
    zt_str_init(&object, run->ctx);
    zt_str_printf(&object, "{\"index\":%" PRId64 ",\"tokens\":%zu,\"%s\":", index, tokens,
                  zt_llm_get(run->llm).labels ? "scores" : "embedding");
    for (int64_t i = 0; tokens && i < length; i++) zt_str_printf(&object, "%c%.9g", i ? ',' : '[', vector[i]);
    zt_str_puts(&object, tokens ? "]}\n" : "null}\n");
    zt_status status = zt_ctx_status(run->ctx);
    if (status == ZT_OK) status = run_write(run, object.data, object.len);
    zt_str_fini(&object);
    return status;
}

/* The size of a line that ends at `stop`, without the \r of "\r\n". */
static size_t line_bytes(const run_state *run, const char *line, const char *stop)
{
    bool ends = stop < run->prompt_text + run->prompt_bytes && stop > line && stop[-1] == '\r';
    return (size_t)(stop - line) - (ends && !run->options->verbatim);
}

/* Puts the number of the line before the error's message. */
static zt_status number_error(run_state *run, int64_t index, zt_status status)
{
    char why[512];
    if (status == ZT_OK || status == ZT_EINTR || status == ZT_EBUG) return status;
    snprintf(why, sizeof why, "%s", zt_ctx_error(run->ctx));
    zt_ctx_clear(run->ctx);
    return zt_fail(run->ctx, status, "line %" PRId64 ": %s", index + 1, why);
}

static zt_status embed_lines(run_state *run, float *vector, int64_t length)
{
    zt_status status = ZT_OK;
    int64_t index = 0;
    const char *end = run->prompt_text + run->prompt_bytes;
    for (const char *line = run->prompt_text, *next; status == ZT_OK && line < end; line = next) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t token_count;
        next = stop ? stop + 1 : end;
        if (zt_cli_interrupted()) return ZT_EINTR;
        status = number_error(run, index, embed_text(run, line, line_bytes(run, line, stop ? stop : end), vector, &token_count));
        if (status == ZT_OK) status = write_json(run, index++, vector, length, token_count);
    }
    return status;
}

zt_status run_embed(run_state *run)
{
    size_t token_count = 0;
    zt_status status = run_open_llm(run, 0, true);
    int64_t length = status == ZT_OK ? zt_llm_get(run->llm).vector : 0;
    float *vector = status == ZT_OK ? zt_alloc_array(run->ctx, (size_t)length, sizeof *vector) : NULL;
    if (!vector) return zt_ctx_status(run->ctx);
    if (run->cli->format == ZT_FMT_NDJSON) {
        status = embed_lines(run, vector, length);
    } else {
        status = embed_text(run, run->prompt_text, run->prompt_bytes, vector, &token_count);
        if (status == ZT_OK && token_count == 0) status = zt_fail(run->ctx, ZT_EUSAGE, "the text has no tokens");
        if (status == ZT_OK)
            status = run->cli->format == ZT_FMT_JSON ? write_json(run, 0, vector, length, token_count)
                                                     : write_npy(run, vector, length);
    }
    zt_free(run->ctx, vector);
    return status;
}
