/* needs.c - what a language model is before its weights are read: options with their defaults, what
 * cannot be, its program, and the memory that it would take.
 */
#include "lib/llm/llm_internal.h"

#include <inttypes.h>

#define DEFAULT_CTX 4096
#define DEFAULT_CHUNK 512
#define MAX_SEQ 4096

/* ---- options --------------------------------------------------------------------------------- */

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

zt_status zt_llm_executable(zt_llm *m, zt_gguf *g, const zt_llm_opts *opts)
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
    if (o->kv == ZT_DTYPE_COUNT || o->kv == 0) /* 0, as in options that say nothing */
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

/* ---- memory ---------------------------------------------------------------------------------- */

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

zt_status zt_llm_scratch(const zt_llm *m, size_t *out)
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
    zt_status s = zt_llm_executable(&m, g, opts);
    if (s == ZT_OK)
        s = zt_llm_scratch(&m, &m.scratch);
    if (s == ZT_OK)
        *out = zt_llm_get(&m);
    zt_prog_free(m.prog);
    return s;
}

zt_prog *zt_llm_program(zt_gguf *g, const zt_llm_opts *opts)
{
    zt_llm m = {.ctx = zt_gguf_ctx(g)};
    if (zt_llm_executable(&m, g, opts) == ZT_OK) return m.prog;
    zt_prog_free(m.prog);
    return NULL;
}
