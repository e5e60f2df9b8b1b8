/* selective_scan_back.c - the row of selective_scan_backward (lib/ops/selective_scan_back.c): an invocation a channel, then sums
 * over the channels of heads and groups. */
#include "lib/engine/vulkan/state_back.h"

enum { STATE, X, DT, A, B, C, FROM, TO, D, DSTATE1, DY }; /* inputs */
enum { DSTATE, DX, DDT, DA, DB, DC, DD };                 /* outputs */

typedef struct scan_sizes {
    int64_t rows, slots, H, P, N, groups, width, state; /* state: numbers of a slot */
    bool wide;
    /* of scratch, in floats: where parts begin, and all of it */
    int64_t b, c, dt, a, d, all;
} scan_sizes;

static scan_sizes sizes_of(const zt_type *const in[])
{
    scan_sizes s = {.rows = in[X]->dim[0], .slots = in[STATE]->dim[0], .H = in[A]->dim[0], .N = in[STATE]->dim[2]};
    s.width = in[STATE]->dim[1];
    s.P = s.H ? s.width / s.H : 0;
    s.groups = s.N ? in[B]->dim[1] / s.N : 1;
    s.state = s.width * s.N;
    s.wide = in[A]->dim[1] > 1;
    s.b = (2 * s.slots + 1 + s.rows) * s.state;
    s.c = s.b + s.rows * s.state;
    s.dt = s.c + s.rows * s.state;
    s.a = s.dt + s.rows * s.width;
    s.d = s.a + (s.wide ? s.state : s.width);
    s.all = s.d + s.width;
    return s;
}

static bool selective_scan_back_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                                    const zt_type out[])
{
    const scan_sizes s = sizes_of(input_types);
    (void)attrs, (void)out;
    return input_types[X]->dtype == ZT_F32 && s.all <= ZT_VK_STATE_BACK_FLOATS && zt_vk_has_turns(engine, s.width) &&
           zt_vk_has_turns(engine, (2 * s.slots + 2) * s.N + s.rows * (2 * s.N + 64));
}

static zt_status put_sizes(zt_vk_engine *engine, zt_vk_call *call, const scan_sizes *s)
{
    const uint32_t sizes[] = {(uint32_t)s->rows, (uint32_t)s->slots,  (uint32_t)s->H, (uint32_t)s->P,
                              (uint32_t)s->N,    (uint32_t)s->groups, s->wide};
    call->table_words = sizeof sizes / sizeof *sizes;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    for (size_t i = 0; call->table && i < call->table_words; i++) call->table[i] = sizes[i];
    return call->table ? ZT_OK : ZT_ENOMEM;
}

/* An output that is a sum over channels. */
static zt_status sum_channels(zt_vk_engine *engine, zt_vk_call *call, zt_vk_arg room, int64_t at, int64_t outer, int64_t parts,
                              int64_t inner, int output)
{
    if (!call->wanted[output]) return ZT_OK;
    return zt_vk_sum_parts(engine, call, room, (size_t)at, outer * inner, parts, inner, zt_vk_out(output));
}

static zt_status set_selective_scan_back(zt_vk_engine *engine, zt_vk_call *call)
{
    const scan_sizes s = sizes_of(call->in);
    const int64_t per_group = s.groups ? s.width / s.groups : 0;
    const zt_vk_arg room = zt_vk_scratch(call, (size_t)s.all * sizeof(float));
    zt_status status = put_sizes(engine, call, &s);
    if (status) return status;
    call->shader = ZT_VK_SHADER_selective_scan_back;
    zt_vk_spread(engine, call, s.width, 64);
    ZT_VK_ARGS(call, zt_vk_in(STATE), zt_vk_in(X), zt_vk_in(DT), zt_vk_in(FROM), zt_vk_in(TO), zt_vk_in(A), zt_vk_in(B),
               zt_vk_in(C), zt_vk_in(D), zt_vk_in(DY), zt_vk_in(DSTATE1), zt_vk_out(DSTATE), zt_vk_out(DX), room, zt_vk_table(0));
    status = zt_vk_then(engine, call);
    if (!status) status = sum_channels(engine, call, room, s.b, s.rows * s.groups, per_group, s.N, DB);
    if (!status) status = sum_channels(engine, call, room, s.c, s.rows * s.groups, per_group, s.N, DC);
    if (!status) status = sum_channels(engine, call, room, s.dt, s.rows * s.H, s.P, 1, DDT);
    if (!status) status = sum_channels(engine, call, room, s.a, s.H, s.P, s.wide ? s.N : 1, DA);
    if (!status && call->in[D]) status = sum_channels(engine, call, room, s.d, s.H, s.P, 1, DD);
    return status;
}

const zt_vk_kernel zt_vk_selective_scan_back[] = {
    {.op = ZT_OP_selective_scan_backward, .has = selective_scan_back_has, .set = set_selective_scan_back},
    {0},
};
