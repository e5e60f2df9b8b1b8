/* delta_rule_back.c - the row of delta_rule_backward (lib/ops/delta_rule_back.c): an invocation a column of a head's state, then
 * sums over columns and over the heads that share a key, then what the lengths of keys and queries take. */
#include "lib/engine/vulkan/delta_rule.h"
#include "lib/engine/vulkan/state_back.h"

#include <string.h>

enum { STATE, Q, K, V, G, BETA, FROM, TO, DSTATE1, DY }; /* inputs */
enum { DSTATE, DQ, DK, DV, DG, DBETA };                  /* outputs */

typedef struct delta_sizes {
    int64_t rows, slots, heads, keys, D, E, state; /* keys: of a row; state: numbers of a slot */
    bool tiled;
    int64_t q, k, g, beta, all; /* of scratch, in floats: where parts begin, and all of it */
} delta_sizes;

static delta_sizes sizes_of(const zt_type *const in[], const zt_delta_rule_attrs *attrs)
{
    const int64_t *state = in[STATE]->dim;
    delta_sizes s = {.rows = in[Q]->dim[0], .slots = state[0], .heads = state[1], .D = state[2], .E = state[3]};
    s.keys = s.D ? in[Q]->dim[1] / s.D : 0;
    s.state = s.heads * s.D * s.E;
    s.tiled = attrs->share.s[0] == 't';
    s.q = (2 * s.slots + 1 + s.rows) * s.state;
    s.k = s.q + s.rows * s.state;
    s.g = s.k + s.rows * s.state;
    s.beta = s.g + s.rows * s.heads * s.E;
    s.all = s.beta + s.rows * s.heads * s.E;
    return s;
}

static bool delta_rule_back_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                                const zt_type out[])
{
    const delta_sizes s = sizes_of(input_types, attrs);
    (void)out;
    return input_types[STATE]->dtype == ZT_F32 && s.heads <= engine->groups[1] && s.E / 64 < engine->groups[0] &&
           s.all <= ZT_VK_STATE_BACK_FLOATS && zt_vk_has_turns(engine, s.E) &&
           zt_vk_has_turns(engine, (2 * s.slots + 2) * s.D + s.rows * (6 * s.D + 8));
}

static zt_status put_sizes(zt_vk_engine *engine, zt_vk_call *call, const delta_sizes *s)
{
    const uint32_t sizes[] = {
        (uint32_t)s->rows, (uint32_t)s->slots, (uint32_t)s->heads, (uint32_t)s->keys, (uint32_t)s->D, (uint32_t)s->E, s->tiled};
    call->table_words = sizeof sizes / sizeof *sizes;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    for (size_t i = 0; call->table && i < call->table_words; i++) call->table[i] = sizes[i];
    return call->table ? ZT_OK : ZT_ENOMEM;
}

/* dq or dk: parts of columns, then of the heads that share a key, then through the length of x. */
static zt_status sum_keys(zt_vk_engine *engine, zt_vk_call *call, const delta_sizes *s, zt_vk_arg room, int64_t at,
                          zt_vk_arg factors, int x, int output)
{
    const int64_t share = s->keys ? s->heads / s->keys : 1, vectors = s->rows * s->keys;
    const float scale = output == DQ ? zt_vk_delta_scale(call->attrs, s->D) : 1;
    if (!call->wanted[output]) return ZT_OK;
    const zt_vk_arg heads = zt_vk_scratch(call, (size_t)(s->rows * s->heads * s->D) * sizeof(float));
    const zt_vk_arg sums = zt_vk_scratch(call, (size_t)(vectors * s->D) * sizeof(float));
    zt_status status = zt_vk_sum_parts(engine, call, room, (size_t)at, s->rows * s->heads * s->D, s->E, s->D, heads);
    if (!status) status = zt_vk_sum_parts(engine, call, heads, 0, vectors * s->D, share, s->tiled ? s->keys * s->D : s->D, sums);
    if (status) return status;
    call->shader = ZT_VK_SHADER_delta_rule_back_lengths;
    call->word[0] = (uint32_t)vectors;
    call->word[1] = (uint32_t)s->D;
    call->word[2] = output == DQ;
    memcpy(&call->word[3], &scale, sizeof scale);
    zt_vk_spread(engine, call, vectors, 64);
    ZT_VK_ARGS(call, zt_vk_in(x), sums, factors, zt_vk_out(output));
    return zt_vk_then(engine, call);
}

static zt_status sum_columns(zt_vk_engine *engine, zt_vk_call *call, const delta_sizes *s, zt_vk_arg room, int64_t at, int output)
{
    if (!call->wanted[output]) return ZT_OK;
    return zt_vk_sum_parts(engine, call, room, (size_t)at, s->rows * s->heads, s->E, 1, zt_vk_out(output));
}

static zt_status set_delta_rule_back(zt_vk_engine *engine, zt_vk_call *call)
{
    const delta_sizes s = sizes_of(call->in, call->attrs);
    const zt_vk_arg room = zt_vk_scratch(call, (size_t)s.all * sizeof(float));
    const zt_vk_arg factors = zt_vk_scratch(call, (size_t)(s.rows * s.keys) * 2 * sizeof(float));
    zt_status status = put_sizes(engine, call, &s);
    if (!status) status = zt_vk_delta_factors(engine, call, s.rows * s.keys, s.D, factors);
    if (status) return status;
    call->shader = ZT_VK_SHADER_delta_rule_back;
    call->groups[0] = (uint32_t)((s.E + 63) / 64);
    call->groups[1] = (uint32_t)s.heads;
    call->groups[2] = 1;
    ZT_VK_ARGS(call, zt_vk_in(STATE), zt_vk_in(K), zt_vk_in(V), zt_vk_in(FROM), zt_vk_in(TO), zt_vk_in(G), zt_vk_in(BETA),
               zt_vk_in(Q), factors, zt_vk_in(DSTATE1), zt_vk_in(DY), zt_vk_out(DSTATE), zt_vk_out(DV), room, zt_vk_table(0));
    status = zt_vk_then(engine, call);
    if (!status) status = sum_keys(engine, call, &s, room, s.q, factors, Q, DQ);
    if (!status) status = sum_keys(engine, call, &s, room, s.k, factors, K, DK);
    if (!status) status = sum_columns(engine, call, &s, room, s.g, DG);
    return status ? status : sum_columns(engine, call, &s, room, s.beta, DBETA);
}

const zt_vk_kernel zt_vk_delta_rule_back[] = {
    {.op = ZT_OP_delta_rule_backward, .has = delta_rule_back_has, .set = set_delta_rule_back},
    {0},
};
