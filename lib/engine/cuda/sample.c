/* sample.c - the row of op sample_token: a language model's next token, chosen where its logits are. */
#include "lib/engine/cuda/args_sample.h"
#include "lib/engine/cuda/cu.h"

/* Threads of a row's block: of a short row fewer. */
enum { SHORT = 4096, FEW = 256, MANY = 1024 };

static bool has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_cu_is_float(in[0]->dtype) && in[0]->dim[0] <= (int64_t)e->max_grid[0];
}

static zt_status emit(zt_cu_call *c)
{
    const zt_type *x = c->in[0], *recent = c->in[7], *banned = c->in[8];
    zt_cu_sample_args a = {.x = c->x[0],
                           .u = c->x[1],
                           .temp = c->x[2],
                           .top_k = c->x[3],
                           .top_p = c->x[4],
                           .min_p = c->x[5],
                           .penalty = c->x[6],
                           .recent = c->x[7],
                           .banned = c->x[8],
                           .y = c->y[0],
                           .n = x->dim[1],
                           .n_recent = recent ? recent->dim[1] : 0,
                           .n_banned = banned ? banned->dim[banned->rank - 1] : 0,
                           .x_type = (int32_t)x->dtype,
                           .own = banned && banned->rank == 2};
    a.orders = zt_cu_scratch(c, (size_t)zt_type_count(x) * sizeof(uint32_t));
    if (!a.orders) return ZT_ENOMEM;
    return zt_cu_launch(c, "zt_cu_sample", (zt_cu_dim){(unsigned)x->dim[0], 1, 1},
                        (zt_cu_dim){a.n <= SHORT ? FEW : MANY, 1, 1}, 0, &a, sizeof a);
}

const zt_cu_row zt_cu_sample[] = {
    {.op = ZT_OP_sample_token, .has = has, .emit = emit},
    {.emit = NULL},
};
