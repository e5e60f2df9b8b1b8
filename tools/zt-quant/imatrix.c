/* imatrix.c - --make-imatrix: a text in windows through a model, and what its matrices read. */
#include "tools/zt-quant/quant.h"

#include <inttypes.h>
#include <string.h>

/* The text's tokens in windows, each by itself; where the text begins with BOS, they all do, in
 * place of their first token. A rest is left out, unless it is all there is. */
static zt_status feed_windows(quant_run *run, zt_importance *importance, const zt_vocab *vocab, zt_ids *ids, int64_t *windows)
{
    int64_t window = run->options->window, token_count = (int64_t)ids->count;
    int32_t bos = zt_vocab_bos(vocab);
    bool opens = token_count > 0 && bos >= 0 && ids->id[0] == bos;
    zt_status status = ZT_OK;
    if (token_count < window) window = token_count;
    *windows = window ? token_count / window : 0;
    if (*windows == 0) return zt_fail(run->ctx, ZT_EUSAGE, "%s: the text is empty", run->options->input);
    for (int64_t i = 0; i < *windows && status == ZT_OK; i++) {
        int32_t *window_ids = ids->id + i * window;
        if (opens) window_ids[0] = bos;
        zt_progress(run->cli, &(zt_work){"imatrix", run->options->input, "windows", (double)i, (double)*windows});
        status = zt_cli_interrupted() ? ZT_EINTR : zt_importance_feed(importance, window_ids, window);
    }
    return status;
}

static zt_status write_imatrix(quant_run *run, const zt_importance *importance, int64_t windows)
{
    zt_imatrix *imatrix = zt_imatrix_new(run->ctx);
    zt_sink *sink = imatrix ? zt_sink_open(run->ctx, run->cli->output, run->cli->force) : NULL;
    zt_status status =
        sink ? zt_imatrix_about(imatrix, run->options->input, windows, run->options->window) : zt_ctx_status(run->ctx);
    for (int64_t i = 0; i < zt_importance_count(importance) && status == ZT_OK; i++) {
        zt_importance_of row = zt_importance_get(importance, i);
        for (int64_t k = 0; k < row.matrices && status == ZT_OK; k++)
            status = zt_imatrix_add_sums(imatrix, row.tensor, row.matrices, k, row.columns, row.squares + k * row.columns,
                                         row.rows ? (int64_t)row.rows[k] : row.tokens);
    }
    if (status == ZT_OK) status = zt_imatrix_write(imatrix, sink);
    if (status == ZT_OK) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_imatrix_close(imatrix);
    return status;
}

static zt_status run_model(quant_run *run, zt_gguf *gguf, zt_engine *engine)
{
    size_t length;
    int64_t windows;
    zt_ids ids = {0};
    char *text = zt_read_all(run->ctx, run->options->input, &length);
    bool is_text = text && zt_foreign_text_fail(run->ctx, run->options->input, text, length) == ZT_OK;
    zt_vocab *vocab = is_text ? zt_vocab_open(gguf) : NULL;
    zt_importance *importance = vocab ? zt_importance_open(gguf, engine, run->options->window) : NULL;
    zt_status status = importance ? zt_vocab_encode(vocab, text, length, ZT_TOK_BOS_RULE, &ids) : zt_ctx_status(run->ctx);
    if (status == ZT_OK) status = feed_windows(run, importance, vocab, &ids, &windows);
    if (status == ZT_OK) status = write_imatrix(run, importance, windows);
    zt_importance_close(importance);
    zt_ids_fini(run->ctx, &ids);
    zt_vocab_free(vocab);
    zt_free(run->ctx, text);
    return status;
}

zt_status quant_make_imatrix(quant_run *run)
{
    zt_status status = zt_cli_refuse_same(run->cli, run->options->model, run->cli->output);
    if (status == ZT_OK) status = zt_cli_refuse_same(run->cli, run->options->input, run->cli->output);
    if (status == ZT_OK && !strcmp(run->cli->output, "-")) status = zt_cli_refuse_terminal(run->cli, "an importance matrix");
    zt_gguf *gguf = status == ZT_OK ? zt_model_open(run->ctx, run->options->model) : NULL;
    zt_engine *engine = gguf ? zt_cli_engine(run->cli) : NULL;
    if (status == ZT_OK) status = engine ? run_model(run, gguf, engine) : zt_ctx_status(run->ctx);
    zt_engine_close(engine);
    zt_gguf_close(gguf);
    return status;
}
