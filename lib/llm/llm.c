/* llm.c - a language model on an engine: opened, with its session, and closed. */
#include "lib/llm/llm_internal.h"

#include <inttypes.h>

static zt_status make_inputs(zt_llm *m)
{
    size_t chunk = (size_t)m->opts.chunk, blocks = (size_t)(m->cache_rows / ZT_KV_BLOCK);
    m->iota = zt_alloc_array(m->ctx, chunk, sizeof *m->iota);
    m->pos = zt_alloc_array(m->ctx, chunk, sizeof *m->pos);
    m->seq = zt_calloc(m->ctx, chunk, sizeof *m->seq);
    m->table = zt_alloc_array(m->ctx, (size_t)m->opts.n_seq * blocks, sizeof *m->table);
    m->last = zt_alloc_array(m->ctx, m->h.arch->encoder ? chunk : 0, sizeof *m->last);
    if (!m->iota || !m->pos || !m->seq || !m->table || !m->last)
        return ZT_ENOMEM;
    if (m->opts.draws && !(m->drawing = zt_drawing_new(m->ctx, m->opts.chunk)))
        return ZT_ENOMEM;
    if (m->opts.embed) {
        m->states = zt_alloc_array(m->ctx, chunk * (size_t)m->h.width, sizeof *m->states);
        m->pooled = zt_alloc_array(m->ctx, (size_t)m->h.width, sizeof *m->pooled);
        if (!m->states || !m->pooled)
            return ZT_ENOMEM;
    }
    for (size_t i = 0; i < chunk; i++)
        m->iota[i] = (int32_t)i;
    for (size_t i = 0; i < (size_t)m->opts.n_seq * blocks; i++)
        m->table[i] = (int32_t)(i % blocks);
    return ZT_OK;
}

/* What was built runs after the passes; or the plan does, if it is of this model. */
static zt_status pass_program(zt_llm *m, const zt_gguf *g)
{
    const zt_binding sample[] = {{"n", 3}, {"m", 2}, {"ctx", m->cache_rows}};
    if (m->opts.planned)
        return zt_llm_check_plan(g, m->opts.planned, m->prog, sample, 3);
    zt_pass_opts o = {.sample = sample, .n_sample = 3, .engine = m->opts.engine,
                      .off = m->opts.passes_off};
    m->passed = zt_prog_passes(m->ctx, m->prog, &o, NULL);
    return m->passed ? ZT_OK : zt_ctx_status(m->ctx);
}

static void log_opened(const zt_llm *m, const zt_gguf *g)
{
    zt_llm_info i = zt_llm_get(m);
    zt_session_report r = zt_session_get(m->session);
    zt_log(m->ctx, ZT_LOG_INFO,
           "%s: %s, %" PRId64 " layers, width %" PRId64 ", vocabulary %" PRId64 ", context %" PRId64
           ", weights %.1f MB, cache %.1f MB, %d steps fall back",
           zt_gguf_name(g), i.arch, i.n_layers, i.width, i.vocab, i.ctx_len,
           (double)i.weight_bytes / 1e6, (double)i.kv_bytes / 1e6, r.fallbacks);
}

zt_llm *zt_llm_open(zt_gguf *g, const zt_llm_opts *opts)
{
    zt_ctx *ctx = zt_gguf_ctx(g);
    zt_store store = zt_gguf_store(g);
    zt_llm *m = zt_calloc(ctx, 1, sizeof *m);
    if (!m)
        return NULL;
    m->ctx = ctx;
    if (zt_llm_executable(m, g, opts) != ZT_OK || zt_llm_scratch(m, &m->scratch) != ZT_OK ||
        pass_program(m, g) != ZT_OK || make_inputs(m) != ZT_OK)
        goto fail;
    zt_binding fixed = {"ctx", m->cache_rows};
    zt_session_opts so = {.strict = opts->strict, .fixed = &fixed, .n_fixed = 1,
                          .plan = opts->planned};
    const zt_prog *runs = opts->planned ? zt_plan_file_prog(opts->planned) : m->passed;
    m->session = zt_session_open(opts->engine, runs, &store, &so);
    /* Generation's shape, prepared now: that loads the weights. */
    zt_binding one[] = {{"n", 1}, {"m", 1}};
    bool greedy = opts->greedy, draws = m->opts.draws && !greedy;
    void *const wanted[] = {(greedy && !opts->embed) || draws ? NULL : m, greedy ? m : NULL,
                            draws ? m : NULL};
    if (m->session && zt_session_prepare(m->session, one, 2, wanted) == ZT_OK) {
        log_opened(m, g);
        return m;
    }
fail:
    zt_llm_close(m);
    return NULL;
}

void zt_llm_close(zt_llm *m)
{
    if (!m)
        return;
    zt_session_close(m->session);
    zt_prog_free(m->passed);
    zt_prog_free(m->prog);
    zt_free(m->ctx, m->iota);
    zt_free(m->ctx, m->pos);
    zt_free(m->ctx, m->seq);
    zt_free(m->ctx, m->table);
    zt_free(m->ctx, m->last);
    zt_drawing_free(m->drawing);
    zt_free(m->ctx, m->states);
    zt_free(m->ctx, m->pooled);
    zt_free(m->ctx, m);
}

zt_ctx *zt_llm_ctx(const zt_llm *m)
{
    return m->ctx;
}

const zt_prog *zt_llm_prog(const zt_llm *m)
{
    return m->prog;
}

zt_session *zt_llm_session(zt_llm *m)
{
    return m->session;
}
