/* stages_step.c - owns the steps of a program in stages: what goes from rank to rank.
 *
 * Rank 0 sends a head with the symbols' numbers, then all inputs, to the others. Each stage receives the values that cross from the
 * stage before it, runs, and sends those that cross behind it to the next. Rank 0 has the last stage, so that the outputs are where
 * they are wanted.
 */
#include "lib/base/require.h"
#include "lib/run/stages_internal.h"

#include <string.h>

enum { STEP = 1, END = 2 };

typedef struct step_head {
    int64_t command;
    int64_t symbols[ZT_MAX_SYMBOLS];
} step_head;

static int rank_of_stage(const zt_stages *stages, int stage) { return (stage + 1) % stages->count; }

static zt_status reserve(const zt_stages *stages, char **buffer, size_t *have, size_t bytes)
{
    if (*buffer && *have >= bytes) return ZT_OK;
    zt_free(stages->ctx, *buffer);
    *buffer = zt_alloc(stages->ctx, bytes + 1);
    *have = *buffer ? bytes : 0;
    return *buffer ? ZT_OK : ZT_ENOMEM;
}

/* Inputs are packed at multiples of 64. */
static size_t place_input(size_t offset, size_t bytes) { return offset + (bytes + 63) / 64 * 64; }

/* The inputs of rank 0 (NULL on the others), to all; stages->in then has all. */
static zt_status share_inputs(zt_stages *stages, const step_head *head, const void *const *inputs)
{
    size_t all = 0, offset = 0;
    for (int i = 0; i < stages->inputs.count; i++) all = place_input(all, zt_port_bytes(&stages->inputs.items[i], head->symbols));
    zt_status status = reserve(stages, &stages->packed, &stages->packed_bytes, all);
    for (int i = 0; i < stages->inputs.count && !status; i++) {
        size_t bytes = zt_port_bytes(&stages->inputs.items[i], head->symbols);
        if (inputs) memcpy(stages->packed + offset, inputs[i], bytes);
        stages->in[i] = stages->packed + offset;
        offset = place_input(offset, bytes);
    }
    return status ? status : zt_ranks_broadcast(stages->ranks, stages->packed, all);
}

static zt_status receive_before(zt_stages *stages, const step_head *head)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < stages->before.count && !status; i++) {
        size_t bytes = zt_port_bytes(&stages->before.items[i], head->symbols);
        status = reserve(stages, &stages->received[i], &stages->received_bytes[i], bytes);
        if (!status) status = zt_ranks_receive(stages->ranks, rank_of_stage(stages, stages->own - 1), stages->received[i], bytes);
        stages->in[stages->inputs.count + i] = stages->received[i];
    }
    return status;
}

static zt_status send_after(zt_stages *stages, const step_head *head)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < stages->after.count && !status; i++)
        status = zt_ranks_send(stages->ranks, rank_of_stage(stages, stages->own + 1), stages->computed[i],
                               zt_port_bytes(&stages->after.items[i], head->symbols));
    return status;
}

static zt_status reserve_after(zt_stages *stages, const step_head *head)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < stages->after.count && !status; i++) {
        size_t bytes = zt_port_bytes(&stages->after.items[i], head->symbols);
        status = reserve(stages, &stages->computed[i], &stages->computed_bytes[i], bytes);
        stages->out[i] = stages->computed[i];
    }
    return status;
}

static int bind_symbols(const zt_stages *stages, const step_head *head, zt_binding *bindings)
{
    int count = 0;
    for (int i = 0; i < zt_prog_n_symbols(stages->program); i++)
        if (!stages->fixed[i]) bindings[count++] = (zt_binding){zt_prog_symbol_name(stages->program, i), head->symbols[i]};
    return count;
}

zt_status zt_stages_step(zt_stages *stages, zt_session *session, const zt_binding *bindings, int n, const void *const *inputs,
                         void *const *outputs)
{
    if (!stages) return ZT_EUSAGE;
    ZT_REQUIRE(stages->ctx, session && n >= 0 && (bindings || !n) && (inputs || !stages->inputs.count) && outputs, ZT_EUSAGE);
    ZT_REQUIRE(stages->ctx, zt_ranks_own(stages->ranks) == 0, ZT_EUSAGE);
    step_head head = {.command = STEP};
    for (int i = 0; i < n; i++)
        for (int symbol = 0; symbol < zt_prog_n_symbols(stages->program); symbol++)
            if (!strcmp(zt_prog_symbol_name(stages->program, symbol), bindings[i].symbol))
                head.symbols[symbol] = bindings[i].value;
    zt_status status = zt_ranks_broadcast(stages->ranks, &head, sizeof head);
    if (!status) status = share_inputs(stages, &head, inputs);
    if (!status) status = receive_before(stages, &head);
    return status ? status : zt_session_step(session, bindings, n, stages->in, outputs);
}

zt_status zt_stages_serve(zt_stages *stages, zt_session *session)
{
    if (!stages) return ZT_EUSAGE;
    ZT_REQUIRE(stages->ctx, session, ZT_EUSAGE);
    zt_binding bindings[ZT_MAX_SYMBOLS];
    zt_status status = ZT_OK;
    step_head head;
    while (!status) {
        status = zt_ranks_broadcast(stages->ranks, &head, sizeof head);
        if (!status && head.command == END) return ZT_OK;
        if (!status) status = share_inputs(stages, &head, NULL);
        if (!status) status = receive_before(stages, &head);
        if (!status) status = reserve_after(stages, &head);
        if (!status) status = zt_session_step(session, bindings, bind_symbols(stages, &head, bindings), stages->in, stages->out);
        if (!status) status = send_after(stages, &head);
    }
    return status;
}

zt_status zt_stages_end(zt_stages *stages)
{
    if (!stages) return ZT_OK;
    step_head head = {.command = END};
    return zt_ranks_broadcast(stages->ranks, &head, sizeof head);
}
