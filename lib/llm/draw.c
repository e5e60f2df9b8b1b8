/* draw.c - what op sample_token is given so that it draws as zt_sample does: of each row that a token
 * is wanted after, the sampler's numbers, the draw of its position, the tokens before it. */
#include "lib/llm/arch.h"

#include <string.h>

struct zt_drawing {
    zt_ctx *ctx;
    double *u, *temp, *top_p, *min_p, *penalty; /* [rows] */
    int32_t *top_k, *recent, *banned;           /* [rows], [rows, RECENT], [rows, BANNED] */
};

bool zt_draw_fits(const zt_draw *d)
{
    const zt_sampler *s = d->sampler;
    return d->n_banned <= ZT_DRAW_BANNED && s->top_k <= INT32_MAX && s->frequency_penalty == 0 &&
           s->presence_penalty == 0 &&
           (s->repeat_penalty == 1 || (s->repeat_last >= 0 && s->repeat_last <= ZT_DRAW_RECENT));
}

void zt_drawing_free(zt_drawing *w)
{
    if (!w)
        return;
    double *const doubles[] = {w->u, w->temp, w->top_p, w->min_p, w->penalty};
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++)
        zt_free(w->ctx, doubles[i]);
    zt_free(w->ctx, w->top_k);
    zt_free(w->ctx, w->recent);
    zt_free(w->ctx, w->banned);
    zt_free(w->ctx, w);
}

zt_drawing *zt_drawing_new(zt_ctx *ctx, int64_t rows)
{
    size_t n = (size_t)rows;
    zt_drawing *w = zt_calloc(ctx, 1, sizeof *w);
    if (!w)
        return NULL;
    w->ctx = ctx;
    double **const doubles[] = {&w->u, &w->temp, &w->top_p, &w->min_p, &w->penalty};
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++)
        *doubles[i] = zt_alloc_array(ctx, n, sizeof **doubles[i]);
    w->top_k = zt_alloc_array(ctx, n, sizeof *w->top_k);
    w->recent = zt_alloc_array(ctx, n, ZT_DRAW_RECENT * sizeof *w->recent);
    w->banned = zt_alloc_array(ctx, n, ZT_DRAW_BANNED * sizeof *w->banned);
    if (w->u && w->temp && w->top_p && w->min_p && w->penalty && w->top_k && w->recent && w->banned)
        return w;
    zt_drawing_free(w);
    return NULL;
}

/* Places in lists that are not used name no token. */
void zt_drawing_row(zt_drawing *w, int64_t row, const zt_draw *d, const int32_t *ids, size_t n)
{
    const zt_sampler *s = d->sampler;
    size_t all = d->n_history + n, last = (size_t)s->repeat_last;
    int32_t *recent = w->recent + row * ZT_DRAW_RECENT, *banned = w->banned + row * ZT_DRAW_BANNED;
    w->u[row] = zt_uniform(s->seed, s->sequence, all);
    w->temp[row] = s->temp;
    w->top_k[row] = (int32_t)s->top_k;
    w->top_p[row] = s->top_p;
    w->min_p[row] = s->min_p;
    w->penalty[row] = (double)(float)s->repeat_penalty;
    memset(recent, -1, ZT_DRAW_RECENT * sizeof *recent);
    for (size_t k = 0; s->repeat_penalty != 1 && k < last && k < all; k++) {
        size_t at = all - 1 - k;
        recent[k] = at < d->n_history ? d->history[at] : ids[at - d->n_history];
    }
    memset(banned, -1, ZT_DRAW_BANNED * sizeof *banned);
    for (size_t k = 0; k < d->n_banned; k++)
        banned[k] = d->banned[k];
}

void zt_drawing_inputs(const zt_drawing *w, const void *in[ZT_DRAW_INPUTS])
{
    const void *const all[ZT_DRAW_INPUTS] = {w->u,     w->temp,    w->top_k,  w->top_p,
                                             w->min_p, w->penalty, w->recent, w->banned};
    memcpy(in, all, sizeof all);
}

int zt_drawing_build(zt_prog *p, int logits, int64_t m)
{
    int in[ZT_DRAW_INPUTS];
    static const struct {
        const char *name;
        zt_dtype dtype;
    } rows[] = {{"u", ZT_F64},     {"temp", ZT_F64},  {"top_k", ZT_I32},
                {"top_p", ZT_F64}, {"min_p", ZT_F64}, {"penalty", ZT_F64}};
    for (int k = 0; k < 6; k++)
        in[k] = zt_prog_in(p, rows[k].name, rows[k].dtype, 1, &m);
    in[6] = zt_prog_in(p, "recent", ZT_I32, 2, (int64_t[]){m, ZT_DRAW_RECENT});
    in[7] = zt_prog_in(p, "banned", ZT_I32, 2, (int64_t[]){m, ZT_DRAW_BANNED});
    return zt_program_sample_token(p, "drawn", logits, in[0], in[1], in[2], in[3], in[4], in[5], in[6],
                                in[7]);
}

bool zt_drawing_may(zt_engine *e, int64_t vocab)
{
    zt_type row[2] = {zt_type_make(ZT_F64, 1, (int64_t[]){1}), zt_type_make(ZT_I32, 1, (int64_t[]){1})};
    zt_type x = zt_type_make(ZT_F32, 2, (int64_t[]){1, vocab});
    zt_type recent = zt_type_make(ZT_I32, 2, (int64_t[]){1, ZT_DRAW_RECENT});
    zt_type banned = zt_type_make(ZT_I32, 2, (int64_t[]){1, ZT_DRAW_BANNED}), out[ZT_MAX_OUT];
    const zt_type *in[ZT_MAX_IN] = {&x,      &row[0], &row[0],  &row[1], &row[0],
                                    &row[0], &row[0], &recent, &banned};
    if (zt_op_infer(NULL, ZT_OP_sample_token, NULL, in, out))
        return false;
    return zt_engine_inmost(e)->vt->devices && e->vt->has(e, ZT_OP_sample_token, NULL, in, out);
}
