/* imatrix.c - --make-imatrix: a text in windows through a model, and what its matrices read. */
#include "tools/zt-quant/quant.h"

#include <inttypes.h>
#include <string.h>

/* The text's tokens in windows, each by itself; where the text begins with BOS, they all do, in
 * place of their first token. A rest is left out, unless it is all there is. */
static zt_status feed(quant *q, zt_importance *m, const zt_vocab *v, zt_ids *ids, int64_t *windows)
{
    int64_t window = q->o->window, n = (int64_t)ids->count;
    int32_t bos = zt_vocab_bos(v);
    bool opens = n > 0 && bos >= 0 && ids->id[0] == bos;
    zt_status s = ZT_OK;
    if (n < window)
        window = n;
    *windows = window ? n / window : 0;
    if (*windows == 0)
        return zt_fail(q->ctx, ZT_EUSAGE, "%s: the text is empty", q->o->input);
    for (int64_t i = 0; i < *windows && s == ZT_OK; i++) {
        int32_t *id = ids->id + i * window;
        if (opens)
            id[0] = bos;
        zt_progress(q->cli, &(zt_work){"imatrix", q->o->input, "windows", (double)i,
                                       (double)*windows});
        s = zt_cli_interrupted() ? ZT_EINTR : zt_importance_feed(m, id, window);
    }
    return s;
}

static zt_status save(quant *q, const zt_importance *m, int64_t windows)
{
    zt_imatrix *im = zt_imatrix_new(q->ctx);
    zt_sink *sink = im ? zt_sink_open(q->ctx, q->cli->output, q->cli->force) : NULL;
    zt_status s = sink ? zt_imatrix_about(im, q->o->input, windows, q->o->window)
                       : zt_ctx_status(q->ctx);
    for (int64_t i = 0; i < zt_importance_count(m) && s == ZT_OK; i++) {
        zt_importance_of of = zt_importance_get(m, i);
        s = zt_imatrix_add_sums(im, of.tensor, of.columns, of.squares, of.tokens);
    }
    if (s == ZT_OK)
        s = zt_imatrix_write(im, sink);
    if (s == ZT_OK)
        s = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_imatrix_close(im);
    return s;
}

static zt_status run_model(quant *q, zt_gguf *g, zt_engine *e)
{
    size_t n;
    int64_t windows;
    zt_ids ids = {0};
    char *text = zt_read_all(q->ctx, q->o->input, &n);
    bool is_text = text && zt_foreign_text_fail(q->ctx, q->o->input, text, n) == ZT_OK;
    zt_vocab *v = is_text ? zt_vocab_open(g) : NULL;
    zt_importance *m = v ? zt_importance_open(g, e, q->o->window) : NULL;
    zt_status s = m ? zt_vocab_encode(v, text, n, ZT_TOK_BOS_RULE, &ids) : zt_ctx_status(q->ctx);
    if (s == ZT_OK)
        s = feed(q, m, v, &ids, &windows);
    if (s == ZT_OK)
        s = save(q, m, windows);
    zt_importance_close(m);
    zt_ids_fini(q->ctx, &ids);
    zt_vocab_free(v);
    zt_free(q->ctx, text);
    return s;
}

zt_status quant_make_imatrix(quant *q)
{
    zt_status s = zt_cli_refuse_same(q->cli, q->o->model, q->cli->output);
    if (s == ZT_OK)
        s = zt_cli_refuse_same(q->cli, q->o->input, q->cli->output);
    if (s == ZT_OK && !strcmp(q->cli->output, "-"))
        s = zt_cli_refuse_terminal(q->cli, "an importance matrix");
    zt_gguf *g = s == ZT_OK ? zt_model_open(q->ctx, q->o->model) : NULL;
    zt_engine *e = g ? zt_cli_engine(q->cli) : NULL;
    if (s == ZT_OK)
        s = e ? run_model(q, g, e) : zt_ctx_status(q->ctx);
    zt_engine_close(e);
    zt_gguf_close(g);
    return s;
}
