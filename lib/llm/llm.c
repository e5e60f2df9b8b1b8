/* llm.c - a language model on an engine: open, feed, rewind, and what it would need.
 *
 * Sequence 0 alone is fed here, through a block table that is the identity; several are fed by
 * batch.c, which drives zt_llm_session with tables of its own. The cache is not a ring: forgetting
 * is moving the position back.
 */
#include "lib/llm/arch.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define DEFAULT_CTX 4096
#define DEFAULT_CHUNK 512
#define MAX_SEQ 4096

struct zt_llm {
    zt_ctx *ctx;
    zt_hyper h;
    zt_llm_opts opts;     /* with every default filled in */
    int64_t cache_rows;   /* of all sequences, in whole blocks */
    zt_prog *prog;    /* as it is built, */
    zt_prog *passed;  /* and as it runs, where no plan says it */
    zt_session *session;
    int64_t position;
    int32_t *iota, *pos, *seq, *table; /* iota, pos, seq [chunk], table [n_seq, blocks] */
    int32_t *last;                     /* [chunk], of an encoder */
    zt_drawing *drawing;               /* with opts.draws only */
    float *states;                     /* [chunk, width], and */
    double *pooled;                    /* [width]: with opts.embed only */
    size_t scratch;
};

/* ---- defaults and needs --------------------------------------------------------------------- */

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static int64_t or_default(int64_t asked, int64_t otherwise)
{
    return asked ? asked : otherwise;
}

static zt_status check_opts(zt_ctx *ctx, const zt_llm_opts *o)
{
    if (o->ctx_len < 1 || o->ctx_len > INT32_MAX - ZT_KV_BLOCK)
        return zt_fail(ctx, ZT_EUSAGE, "a context of %" PRId64 " tokens is not possible",
                       o->ctx_len);
    if (o->chunk < 1 || o->n_seq < 1 || o->n_seq > MAX_SEQ)
        return zt_fail(ctx, ZT_EUSAGE, "chunk %" PRId64 " or %" PRId64 " sequences is not possible",
                       o->chunk, o->n_seq);
    if (o->cache_len < 0 || o->cache_len > INT32_MAX - ZT_KV_BLOCK)
        return zt_fail(ctx, ZT_EUSAGE, "a cache of %" PRId64 " tokens is not possible",
                       o->cache_len);
    if (o->kv != ZT_F16 && o->kv != ZT_F32)
        return zt_fail(ctx, ZT_EUSAGE, "the cache is f16 or f32");
    return ZT_OK;
}

/* What this model cannot do. */
static zt_status check_model(const zt_llm *m, const zt_gguf *g)
{
    if (m->h.arch->encoder && !m->opts.embed)
        return zt_fail(m->ctx, ZT_ENOTSUP, "%s: %s is an encoder: it makes embeddings, not text",
                       zt_gguf_name(g), m->h.arch->name);
    if (m->h.parts & ZT_PART_POSITIONS && m->opts.ctx_len > m->h.ctx_train)
        return zt_fail(m->ctx, ZT_EUSAGE,
                       "%s: a context of %" PRId64 " tokens, and the model has learned %" PRId64
                       " positions", zt_gguf_name(g), m->opts.ctx_len, m->h.ctx_train);
    return ZT_OK;
}

/* Everything that needs no weights: hyper-parameters, options with their defaults, the program. */
static zt_status prepare_model(zt_llm *m, zt_gguf *g, const zt_llm_opts *opts)
{
    zt_llm_opts *o = &m->opts;
    zt_status s = zt_hyper_read(g, &m->h);
    if (s == ZT_OK)
        s = zt_weights_check(g, &m->h);
    if (s != ZT_OK)
        return s;
    *o = *opts;
    int64_t usual = m->h.ctx_train < DEFAULT_CTX ? m->h.ctx_train : DEFAULT_CTX;
    o->ctx_len = or_default(o->ctx_len, usual);
    o->n_seq = or_default(o->n_seq, 1);
    o->chunk = or_default(o->chunk, DEFAULT_CHUNK);
    if (o->kv == ZT_DTYPE_COUNT)
        o->kv = o->exact ? ZT_F32 : ZT_F16;
    /* Long or short rope factors go by the context asked for, however few tokens will come. */
    int64_t context = o->ctx_len;
    if (o->max_tokens > 0 && o->max_tokens < o->ctx_len)
        o->ctx_len = o->max_tokens;
    s = check_opts(m->ctx, o);
    if (s == ZT_OK)
        s = check_model(m, g);
    if (s != ZT_OK)
        return s;
    m->cache_rows = round_up(o->cache_len > o->ctx_len ? o->cache_len : o->ctx_len, ZT_KV_BLOCK);
    if (o->chunk > m->cache_rows || m->h.arch->encoder)
        o->chunk = m->cache_rows; /* an encoder sees a text at once */
    o->draws = o->draws && !o->embed && !o->planned && o->engine &&
               zt_drawing_may(o->engine, m->h.vocab);
    zt_build_opts b = {.exact = o->exact, .kv = o->kv, .ctx = context, .n_seq = o->n_seq,
                       .embed = o->embed, .draws = o->draws};
    m->prog = zt_llm_build(g, &m->h, &b);
    return m->prog ? ZT_OK : zt_ctx_status(m->ctx);
}

static size_t data_bytes(const zt_llm *m)
{
    size_t sum = 0;
    for (int i = 0; i < zt_prog_count(m->prog, ZT_VALUE_DATA); i++)
        sum += zt_type_bytes(&zt_prog_value(m->prog, zt_prog_nth(m->prog, ZT_VALUE_DATA, i))->type);
    return sum;
}

static size_t cache_bytes(const zt_llm *m)
{
    size_t cell = (size_t)zt_dtype_get(m->opts.kv)->block_bytes;
    if (m->h.arch->encoder)
        return 0;
    return 2 * (size_t)m->h.n_layers * (size_t)m->cache_rows * (size_t)m->h.kv_width * cell;
}

/* Bytes that an engine lays out for value v in its arena: nothing for what updates a state. */
static size_t arena_bytes(const zt_engine *e, const zt_bound *b, int v)
{
    const zt_value *val = zt_prog_value(b->prog, v);
    if (val->kind != ZT_VALUE_OP)
        return 0;
    const zt_step *st = zt_prog_step(b->prog, val->index);
    for (int k = 0; k < zt_op_shares(st->op); k++)
        if (st->out[k] == v)
            return 0;
    return e->vt->value_bytes((zt_engine *)e, &b->type[v]);
}

/* The most bytes of intermediate values alive at once; last[v] is the last step that reads v. */
static size_t most_alive(const zt_engine *e, const zt_bound *b, const int *last)
{
    size_t now = 0, most = 0;
    for (int s = 0; s < b->n_steps; s++) {
        const zt_step *step = zt_prog_step(b->prog, s);
        for (int k = 0; k < ZT_MAX_OUT; k++)
            if (step->out[k] >= 0)
                now += arena_bytes(e, b, step->out[k]);
        most = now > most ? now : most;
        for (int k = 0; k < ZT_MAX_IN; k++) {
            bool again = false; /* the same value twice among the inputs dies once */
            for (int j = 0; j < k; j++)
                again |= step->in[j] == step->in[k];
            if (!again && step->in[k] >= 0 && last[step->in[k]] == s)
                now -= arena_bytes(e, b, step->in[k]);
        }
    }
    return most;
}

/* Scratch for a full chunk, by liveness: a lower bound that the memory plan comes close to. */
static zt_status estimate_scratch(const zt_llm *m, size_t *out)
{
    zt_status s = ZT_OK;
    zt_binding b[] = {{"n", m->opts.chunk}, {"m", m->opts.n_seq}, {"ctx", m->cache_rows}};
    zt_bound *bound = zt_prog_bind(m->prog, b, 3);
    int *last = bound ? zt_calloc(m->ctx, (size_t)bound->n_values, sizeof *last) : NULL;
    if (!last) {
        s = zt_ctx_status(m->ctx);
        goto out;
    }
    for (int i = 0; i < bound->n_steps; i++)
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (zt_prog_step(m->prog, i)->in[k] >= 0)
                last[zt_prog_step(m->prog, i)->in[k]] = i;
    *out = most_alive(m->opts.engine, bound, last);
out:
    zt_free(m->ctx, last);
    zt_bound_free(bound);
    return s;
}

zt_llm_info zt_llm_get(const zt_llm *m)
{
    return (zt_llm_info){
        .arch = m->h.arch->name,
        .n_layers = m->h.n_layers,
        .width = m->h.width,
        .n_heads = m->h.n_heads,
        .n_kv_heads = m->h.n_kv_heads,
        .head = m->h.head,
        .vocab = m->h.vocab,
        .ctx_train = m->h.ctx_train,
        .ctx_len = m->opts.ctx_len,
        .n_seq = m->opts.n_seq,
        .chunk = m->opts.chunk,
        .cache_len = m->cache_rows,
        .weight_bytes = data_bytes(m),
        .kv_bytes = cache_bytes(m),
        .scratch_bytes = m->scratch,
    };
}

zt_status zt_llm_plan(zt_gguf *g, const zt_llm_opts *opts, zt_llm_info *out)
{
    zt_llm m = {.ctx = zt_gguf_ctx(g)};
    zt_status s = prepare_model(&m, g, opts);
    if (s == ZT_OK)
        s = estimate_scratch(&m, &m.scratch);
    if (s == ZT_OK)
        *out = zt_llm_get(&m);
    zt_prog_free(m.prog);
    return s;
}

zt_prog *zt_llm_program(zt_gguf *g, const zt_llm_opts *opts)
{
    zt_llm m = {.ctx = zt_gguf_ctx(g)};
    if (prepare_model(&m, g, opts) == ZT_OK) return m.prog;
    zt_prog_free(m.prog);
    return NULL;
}

/* ---- open and close ------------------------------------------------------------------------- */

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

/* The program that runs: what was built, after the passes; or the plan's, if it is of this model. */
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
    if (prepare_model(m, g, opts) != ZT_OK || estimate_scratch(m, &m->scratch) != ZT_OK ||
        pass_program(m, g) != ZT_OK || make_inputs(m) != ZT_OK)
        goto fail;
    zt_binding fixed = {"ctx", m->cache_rows};
    zt_session_opts so = {.strict = opts->strict, .fixed = &fixed, .n_fixed = 1,
                          .planned = opts->planned};
    const zt_prog *runs = opts->planned ? zt_planned_prog(opts->planned) : m->passed;
    m->session = zt_session_open(opts->engine, runs, &store, &so);
    /* Generation's shape, prepared now: that loads the weights. */
    zt_binding one[] = {{"n", 1}, {"m", 1}};
    bool draws = m->opts.draws, greedy = opts->greedy && !draws;
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

const zt_prog *zt_llm_prog(const zt_llm *m)
{
    return m->prog;
}

zt_session *zt_llm_session(zt_llm *m)
{
    return m->session;
}

/* ---- feed ----------------------------------------------------------------------------------- */

/* What a chunk is asked for: each may be NULL. Logits of its rows, or states; the likeliest token
 * after the last; the one drawn, as `draw` says. */
typedef struct answer {
    float *y;
    int32_t *best, *token;
    const zt_draw *draw;
} answer;

/* One chunk: n tokens from the current position on; answers for `wanted` rows (0: none, 1: the
 * last, n: all): f32[wanted, V], or states f32[wanted, width]. */
static zt_status feed_chunk(zt_llm *m, const int32_t *ids, int64_t n, int64_t wanted, answer a)
{
    for (int64_t i = 0; i < n; i++)
        m->pos[i] = (int32_t)(m->position + i);
    for (int64_t i = 0; i < n && m->h.arch->encoder; i++)
        m->last[i] = (int32_t)(n - 1);
    const int32_t *rows = wanted == 1 ? m->iota + n - 1 : m->iota;
    const void *decoder[5 + ZT_DRAW_INPUTS] = {ids, m->pos, m->seq, m->table, rows};
    const void *encoder[] = {ids, m->seq, m->pos, m->last}; /* all tokens are of type 0 */
    const void *const *in = m->h.arch->encoder ? encoder : decoder;
    void *out[] = {wanted ? a.y : NULL, wanted ? a.best : NULL, wanted ? a.token : NULL};
    if (m->drawing)
        zt_drawing_inputs(m->drawing, decoder + 5);
    zt_binding b[] = {{"n", n}, {"m", wanted}};
    zt_status s = zt_session_step(m->session, b, 2, in, out);
    if (s == ZT_OK)
        m->position += n;
    return s;
}

static zt_status check_feed(const zt_llm *m, const int32_t *ids, size_t n)
{
    size_t left = (size_t)(m->opts.ctx_len - m->position);
    if (n > left)
        return zt_fail(m->ctx, ZT_ENOMEM,
                       "the context of %" PRId64 " tokens is too small: %" PRId64
                       " are in it and %zu more were given", m->opts.ctx_len, m->position, n);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= m->h.vocab)
            return zt_fail(m->ctx, ZT_EUSAGE, "token id %" PRId32 " is not from 0 to %" PRId64,
                           ids[i], m->h.vocab - 1);
    return ZT_OK;
}

static zt_status feed(zt_llm *m, const int32_t *ids, size_t n, bool all, answer a)
{
    zt_status s = m->opts.embed ? zt_fail(m->ctx, ZT_EUSAGE, "a model opened for embeddings has no "
                                                             "logits")
                                : check_feed(m, ids, n);
    for (size_t at = 0; at < n && s == ZT_OK;) {
        size_t step = n - at < (size_t)m->opts.chunk ? n - at : (size_t)m->opts.chunk;
        int64_t wanted = !a.y && !a.best && !a.token ? 0 : all ? (int64_t)step : at + step == n;
        for (int64_t i = 0; a.draw && i < wanted; i++)
            zt_drawing_row(m->drawing, i, a.draw, ids, at + step - (size_t)(wanted - 1 - i));
        s = feed_chunk(m, ids + at, (int64_t)step, wanted, a);
        if (all && a.y)
            a.y += step * (size_t)m->h.vocab;
        if (all && a.best)
            a.best += step;
        if (all && a.token)
            a.token += step;
        at += step;
    }
    return s;
}

zt_status zt_llm_feed(zt_llm *m, const int32_t *ids, size_t n, bool all, float *logits)
{
    return feed(m, ids, n, all, (answer){.y = logits});
}

/* Was 0 the likeliest, or was no logit a number? The last token is fed again, for its logits. */
static zt_status check_zero(zt_llm *m, const int32_t *last, int32_t *next)
{
    float *y = zt_alloc_array(m->ctx, (size_t)m->h.vocab, sizeof *y);
    if (!y)
        return ZT_ENOMEM;
    m->position--;
    zt_status s = feed(m, last, 1, false, (answer){.y = y});
    if (s == ZT_OK && isnan(y[0]))
        *next = -1;
    zt_free(m->ctx, y);
    return s;
}

zt_status zt_llm_next(zt_llm *m, const int32_t *ids, size_t n, int32_t *next)
{
    if (n == 0)
        return zt_fail(m->ctx, ZT_EUSAGE, "no tokens to go on from");
    zt_status s = feed(m, ids, n, false, (answer){.best = next});
    return s == ZT_OK && *next == 0 ? check_zero(m, ids + n - 1, next) : s;
}

zt_status zt_llm_nexts(zt_llm *m, const int32_t *ids, size_t n, int32_t *next)
{
    int64_t from = m->position;
    zt_status s = feed(m, ids, n, true, (answer){.best = next});
    for (size_t i = 0; i < n && s == ZT_OK; i++) {
        if (next[i] != 0)
            continue;
        m->position = from + (int64_t)i + 1;
        s = check_zero(m, ids + i, next + i);
    }
    m->position = from + (s == ZT_OK ? (int64_t)n : 0);
    return s;
}

bool zt_llm_draws(const zt_llm *m)
{
    return m->opts.draws;
}

zt_status zt_llm_draw(zt_llm *m, const int32_t *ids, size_t n, bool all, const zt_draw *d,
                      int32_t *next)
{
    if (n == 0 || !m->opts.draws || !zt_draw_fits(d))
        return zt_fail(m->ctx, ZT_EUSAGE, n ? "the engine does not draw this model's tokens so"
                                            : "no tokens to go on from");
    return feed(m, ids, n, all, (answer){.token = next, .draw = d});
}

int64_t zt_llm_position(const zt_llm *m)
{
    return m->position;
}

zt_ctx *zt_llm_ctx(const zt_llm *m)
{
    return m->ctx;
}

/* The states were filled up to there by other means than feeding. */
void zt_llm_place(zt_llm *m, int64_t position)
{
    m->position = position;
}

zt_status zt_llm_rewind(zt_llm *m, int64_t position)
{
    if (position < 0 || position > m->position)
        return zt_fail(m->ctx, ZT_EUSAGE, "cannot rewind to position %" PRId64 " from %" PRId64,
                       position, m->position);
    m->position = position;
    return ZT_OK;
}

/* ---- embeddings ----------------------------------------------------------------------------- */

/* n rows of states into the sum (or the one that counts), in order, whatever the chunks. */
static void pool(zt_llm *m, int64_t n, bool first)
{
    int64_t width = m->h.width;
    if (first)
        memset(m->pooled, 0, (size_t)width * sizeof *m->pooled);
    for (int64_t i = 0; i < n; i++) {
        const float *x = m->states + i * width;
        if (m->h.pooling == ZT_POOL_FIRST && !(first && i == 0))
            return;
        for (int64_t k = 0; k < width; k++)
            m->pooled[k] = (m->h.pooling == ZT_POOL_MEAN ? m->pooled[k] : 0) + (double)x[k];
    }
}

zt_status zt_llm_embed(zt_llm *m, const int32_t *ids, size_t n, float *out)
{
    if (!m->opts.embed || n == 0)
        return zt_fail(m->ctx, ZT_EUSAGE, n ? "the model was opened for logits, not embeddings"
                                            : "no tokens to embed");
    m->position = 0;
    zt_status s = check_feed(m, ids, n);
    for (size_t at = 0; at < n && s == ZT_OK;) {
        size_t step = n - at < (size_t)m->opts.chunk ? n - at : (size_t)m->opts.chunk;
        s = feed_chunk(m, ids + at, (int64_t)step, (int64_t)step, (answer){.y = m->states});
        if (s == ZT_OK)
            pool(m, (int64_t)step, at == 0);
        at += step;
    }
    double by = m->h.pooling == ZT_POOL_MEAN ? 1 / (double)n : 1;
    for (int64_t k = 0; k < m->h.width && s == ZT_OK; k++)
        out[k] = (float)(m->pooled[k] * by);
    return s;
}
