/* importance.c - the pass that adds sums of squares to a program, and the texts that go through. */
#include "lib/llm/importance.h"

#include "lib/llm/arch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct matrix {
    const char *tensor; /* the program's */
    int output;
} matrix;

typedef struct sums { /* of one output */
    int64_t n;
    float *step; /* of the last text */
    double *all;
} sums;

struct zt_importance {
    zt_ctx *ctx;
    zt_hyper h;
    int64_t window, rows; /* rows: of the cache, whole blocks */
    zt_prog *prog;
    zt_session *session;
    matrix *matrix;
    int64_t n_matrices, tokens;
    sums *sum;
    int n_sums;
    int32_t *iota, *zero, *last; /* [window or blocks] what the inputs are but for ids */
    void **out;
};

/* ---- the program ----------------------------------------------------------------------------- */

/* Its steps, with x's sum of squares as an output for each x that a matrix is multiplied with. */
typedef struct pass {
    const zt_prog *from;
    zt_prog *to;
    int *map;    /* [values of from] in `to` */
    int *output; /* [values of from] of that x's sums; -1: none yet */
    zt_importance *m;
} pass;

static zt_status copy_step(pass *p, const zt_step *st)
{
    const zt_opinfo *info = zt_op_info(st->op);
    const char *names[ZT_MAX_OUT];
    int in[ZT_MAX_IN], out[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++)
        in[k] = st->in[k] < 0 ? ZT_NONE : p->map[st->in[k]];
    for (int k = 0; k < info->n_out; k++)
        names[k] = st->out[k] < 0 ? "_" : zt_prog_value(p->from, st->out[k])->name;
    zt_status s = zt_prog_op(p->to, st->op, st->attrs, in, names, out);
    for (int k = 0; k < info->n_out && s == ZT_OK; k++)
        if (st->out[k] >= 0)
            p->map[st->out[k]] = out[k];
    return s;
}

/* The number of the output that holds the sums of x, a value of `from`. */
static int output_of(pass *p, int x)
{
    char name[32];
    zt_sum_attrs rows = {.axes = {1, {0}}};
    if (p->output[x] >= 0)
        return p->output[x];
    int y = zt_program_sum(p->to, NULL, zt_program_mul(p->to, NULL, p->map[x], p->map[x]), &rows);
    snprintf(name, sizeof name, "sum%d", p->m->n_sums);
    if (y < 0 || zt_prog_out(p->to, name, y) != ZT_OK)
        return -1;
    return p->output[x] = p->m->n_sums++;
}

static bool is_matrix(const pass *p, const zt_step *st)
{
    return st->op == ZT_OP_linear && zt_prog_value(p->from, st->in[1])->kind == ZT_VALUE_DATA;
}

static zt_status copy_steps(pass *p)
{
    zt_importance *m = p->m;
    zt_status s = ZT_OK;
    for (int i = 0; i < zt_prog_n_steps(p->from) && s == ZT_OK; i++)
        s = copy_step(p, zt_prog_step(p->from, i));
    for (int v = 0; v < zt_prog_n_values(p->from) && s == ZT_OK; v++)
        if (zt_prog_value(p->from, v)->kind == ZT_VALUE_STATE &&
            zt_prog_value(p->from, v)->keep >= 0)
            s = zt_prog_keep(p->to, p->map[v], p->map[zt_prog_value(p->from, v)->keep]);
    for (int i = 0; i < zt_prog_n_steps(p->from) && s == ZT_OK; i++) {
        const zt_step *st = zt_prog_step(p->from, i);
        if (!is_matrix(p, st))
            continue;
        int o = output_of(p, st->in[0]);
        int w = p->map[st->in[1]];
        m->matrix[m->n_matrices++] = (matrix){zt_prog_value(p->to, w)->tensor, o};
        s = o < 0 ? zt_ctx_status(m->ctx) : ZT_OK;
    }
    return s;
}

static zt_status make_prog(zt_importance *m, const zt_prog *from)
{
    int n = zt_prog_n_values(from);
    pass p = {.from = from, .m = m};
    p.map = zt_alloc_array(m->ctx, (size_t)n + 1, sizeof *p.map);
    p.output = zt_alloc_array(m->ctx, (size_t)n + 1, sizeof *p.output);
    m->matrix = zt_calloc(m->ctx, (size_t)zt_prog_n_steps(from) + 1, sizeof *m->matrix);
    if (p.map && p.output && m->matrix)
        p.to = m->prog = zt_prog_like(from, p.map);
    for (int v = 0; v < n && p.to; v++)
        p.output[v] = -1;
    zt_status s = p.to ? copy_steps(&p) : zt_ctx_status(m->ctx);
    zt_free(m->ctx, p.map);
    zt_free(m->ctx, p.output);
    return s;
}

/* ---- open and close -------------------------------------------------------------------------- */

static zt_status build(zt_importance *m, zt_gguf *g)
{
    zt_status s = zt_hyper_read(g, &m->h);
    if (s == ZT_OK)
        s = zt_weights_check(g, &m->h);
    if (s == ZT_OK && m->h.parts & ZT_PART_POSITIONS && m->window > m->h.ctx_train)
        s = zt_fail(m->ctx, ZT_EUSAGE, "%s: windows of %" PRId64 " tokens, and the model has "
                    "learned %" PRId64 " positions", zt_gguf_name(g), m->window, m->h.ctx_train);
    if (s != ZT_OK)
        return s;
    zt_prog *from = zt_llm_build(g, &m->h, &(zt_build_opts){.exact = true, .kv = ZT_F32, .n_seq = 1,
                                                            .ctx = m->window, .embed = true});
    s = from ? make_prog(m, from) : zt_ctx_status(m->ctx);
    zt_prog_free(from);
    return s;
}

/* Room for the sums, whose lengths a program of one token tells. */
static zt_status make_sums(zt_importance *m)
{
    zt_binding b[] = {{"n", 1}, {"m", 1}, {"ctx", m->rows}};
    zt_bound *bound = zt_prog_bind(m->prog, b, 3);
    m->sum = zt_calloc(m->ctx, (size_t)m->n_sums + 1, sizeof *m->sum);
    m->out = zt_calloc(m->ctx, (size_t)m->n_sums + 1, sizeof *m->out);
    zt_status s = bound && m->sum && m->out ? ZT_OK : zt_ctx_status(m->ctx);
    for (int i = 0; i < m->n_sums && s == ZT_OK; i++) {
        sums *u = &m->sum[i];
        u->n = zt_type_count(&bound->type[zt_prog_output(m->prog, i)->value]);
        u->step = zt_calloc(m->ctx, (size_t)u->n, sizeof *u->step);
        u->all = zt_calloc(m->ctx, (size_t)u->n, sizeof *u->all);
        m->out[i] = u->step;
        s = u->step && u->all ? ZT_OK : ZT_ENOMEM;
    }
    zt_bound_free(bound);
    return s;
}

static zt_status make_inputs(zt_importance *m)
{
    size_t n = (size_t)m->rows;
    m->iota = zt_alloc_array(m->ctx, n, sizeof *m->iota);
    m->zero = zt_calloc(m->ctx, n, sizeof *m->zero);
    m->last = zt_alloc_array(m->ctx, n, sizeof *m->last);
    for (size_t i = 0; i < n && m->iota; i++)
        m->iota[i] = (int32_t)i;
    return m->iota && m->zero && m->last ? ZT_OK : ZT_ENOMEM;
}

zt_importance *zt_importance_open(zt_gguf *g, zt_engine *e, int64_t window)
{
    zt_ctx *ctx = zt_gguf_ctx(g);
    zt_store store = zt_gguf_store(g);
    if (window < 1 || window > INT32_MAX - ZT_KV_BLOCK) {
        zt_fail(ctx, ZT_EUSAGE, "a window of %" PRId64 " tokens is not possible", window);
        return NULL;
    }
    zt_importance *m = zt_calloc(ctx, 1, sizeof *m);
    if (!m)
        return NULL;
    m->ctx = ctx;
    m->window = window;
    m->rows = (window + ZT_KV_BLOCK - 1) / ZT_KV_BLOCK * ZT_KV_BLOCK;
    zt_binding fixed = {"ctx", m->rows};
    zt_session_opts so = {.fixed = &fixed, .n_fixed = 1};
    if (build(m, g) == ZT_OK && make_sums(m) == ZT_OK && make_inputs(m) == ZT_OK)
        m->session = zt_session_open(e, m->prog, &store, &so);
    if (m->session)
        return m;
    zt_importance_close(m);
    return NULL;
}

void zt_importance_close(zt_importance *m)
{
    if (!m)
        return;
    zt_session_close(m->session);
    zt_prog_free(m->prog);
    for (int i = 0; i < m->n_sums && m->sum; i++) {
        zt_free(m->ctx, m->sum[i].step);
        zt_free(m->ctx, m->sum[i].all);
    }
    zt_free(m->ctx, m->sum);
    zt_free(m->ctx, m->out);
    zt_free(m->ctx, m->matrix);
    zt_free(m->ctx, m->iota);
    zt_free(m->ctx, m->zero);
    zt_free(m->ctx, m->last);
    zt_free(m->ctx, m);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static zt_status check_text(const zt_importance *m, const int32_t *ids, int64_t n)
{
    if (n < 1 || n > m->window)
        return zt_fail(m->ctx, ZT_EUSAGE, "a text of %" PRId64 " tokens, not 1 to %" PRId64, n,
                       m->window);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= m->h.vocab)
            return zt_fail(m->ctx, ZT_EUSAGE, "token id %" PRId32 " is not from 0 to %" PRId64,
                           ids[i], m->h.vocab - 1);
    return ZT_OK;
}

zt_status zt_importance_feed(zt_importance *m, const int32_t *ids, int64_t n)
{
    zt_binding b[] = {{"n", n}, {"m", n}};
    const void *decoder[] = {ids, m->iota, m->zero, m->iota, m->iota}; /* table: the identity */
    const void *encoder[] = {ids, m->zero, m->iota, m->last};
    zt_status s = check_text(m, ids, n);
    for (int64_t i = 0; i < n && s == ZT_OK; i++)
        m->last[i] = (int32_t)(n - 1);
    if (s == ZT_OK)
        s = zt_session_step(m->session, b, 2, m->h.arch->encoder ? encoder : decoder, m->out);
    if (s != ZT_OK)
        return s;
    for (int i = 0; i < m->n_sums; i++)
        for (int64_t k = 0; k < m->sum[i].n; k++)
            m->sum[i].all[k] += (double)m->sum[i].step[k];
    m->tokens += n;
    return ZT_OK;
}

int64_t zt_importance_count(const zt_importance *m)
{
    return m->n_matrices;
}

zt_importance_of zt_importance_get(const zt_importance *m, int64_t i)
{
    const matrix *a = &m->matrix[i];
    const sums *u = &m->sum[a->output];
    return (zt_importance_of){a->tensor, u->n, u->all, m->tokens};
}
