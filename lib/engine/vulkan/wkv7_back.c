/* wkv7_back.c - the row of wkv7_backward (lib/ops/wkv7_back.c): an invocation a column of a head's state, then sums over columns. */
#include "lib/engine/vulkan/state_back.h"

enum { STATE, Q, W, K, V, A, B, FROM, TO, DSTATE1, DY }; /* inputs */
enum { DSTATE, DQ, DW, DK, DV, DA, DB };                 /* outputs */

typedef struct wkv7_sizes {
    int64_t rows, slots, heads, D, E, state; /* state: numbers of a slot */
    int64_t parts, all;                      /* of scratch, in floats: where parts begin, and all of it */
} wkv7_sizes;

/* Outputs that are sums over columns, in the order of their parts in scratch. */
static const int sums[] = {DQ, DW, DK, DA, DB};
enum { SUMS = sizeof sums / sizeof *sums };

static wkv7_sizes sizes_of(const zt_type *const in[])
{
    const int64_t *state = in[STATE]->dim;
    wkv7_sizes s = {.rows = in[Q]->dim[0], .slots = state[0], .heads = state[1], .D = state[2], .E = state[3]};
    s.state = s.heads * s.D * s.E;
    s.parts = (2 * s.slots + 1 + s.rows) * s.state;
    s.all = s.parts + SUMS * s.rows * s.state;
    return s;
}

static bool wkv7_back_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const wkv7_sizes s = sizes_of(input_types);
    (void)attrs, (void)out;
    return s.heads <= engine->groups[1] && s.E / 64 < engine->groups[0] && s.all <= ZT_VK_STATE_BACK_FLOATS &&
           zt_vk_has_turns(engine, (2 * s.slots + 2) * s.D + s.rows * (6 * s.D + 8)) && zt_vk_has_turns(engine, s.E);
}

static zt_status put_sizes(zt_vk_engine *engine, zt_vk_call *call, const wkv7_sizes *s)
{
    const uint32_t sizes[] = {(uint32_t)s->rows, (uint32_t)s->slots, (uint32_t)s->heads, (uint32_t)s->D, (uint32_t)s->E};
    call->table_words = sizeof sizes / sizeof *sizes;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    for (size_t i = 0; call->table && i < call->table_words; i++) call->table[i] = sizes[i];
    return call->table ? ZT_OK : ZT_ENOMEM;
}

static zt_status set_wkv7_back(zt_vk_engine *engine, zt_vk_call *call)
{
    const wkv7_sizes s = sizes_of(call->in);
    const zt_vk_arg room = zt_vk_scratch(call, (size_t)s.all * sizeof(float));
    zt_status status = put_sizes(engine, call, &s);
    if (status) return status;
    call->shader = ZT_VK_SHADER_wkv7_back;
    call->groups[0] = (uint32_t)((s.E + 63) / 64);
    call->groups[1] = (uint32_t)s.heads;
    call->groups[2] = 1;
    ZT_VK_ARGS(call, zt_vk_in(STATE), zt_vk_in(Q), zt_vk_in(W), zt_vk_in(FROM), zt_vk_in(TO), zt_vk_in(K), zt_vk_in(V),
               zt_vk_in(A), zt_vk_in(B), zt_vk_in(DSTATE1), zt_vk_in(DY), zt_vk_out(DSTATE), zt_vk_out(DV), room, zt_vk_table(0));
    status = zt_vk_then(engine, call);
    for (int i = 0; i < SUMS && !status; i++)
        if (call->wanted[sums[i]])
            status = zt_vk_sum_parts(engine, call, room, (size_t)(s.parts + i * s.rows * s.state), s.rows * s.heads * s.D, s.E,
                                     s.D, zt_vk_out(sums[i]));
    return status;
}

const zt_vk_kernel zt_vk_wkv7_back[] = {
    {.op = ZT_OP_wkv7_backward, .has = wkv7_back_has, .set = set_wkv7_back},
    {0},
};
