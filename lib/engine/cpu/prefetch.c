/* prefetch.c - which weights, and which states, each thread will read in which round.
 *
 * A token is a few hundred rounds of some microseconds. While one thread does what is not worth
 * handing out, or finishes its part, the others would leave memory idle, and at the beginning of a
 * part nothing is on its way yet. So a thread that waits fetches the weights of its own parts of the
 * next round that has any, and before them the keys and values of an attention on the way there
 * (replay.c). That changes when bytes come, not what is computed.
 */
#include "lib/engine/cpu/cpu_engine.h"

#include <limits.h>

/* Is everything that `late` looks at there before the replay begins? */
static bool states_known(const zt_cpu_task *task)
{
    for (int k = 0; k < ZT_MAX_IN; k++)
        if (task->in[k].kind != ZT_PLACE_NOWHERE && task->in[k].kind != ZT_PLACE_IN &&
            !zt_dtype_is_float(task->call.in[k].type.dtype))
            return false;
    return true;
}

/* What `thread` reads in round i, to `to` unless that is NULL; returns how many pieces it is. */
static size_t list_reads(const zt_executable *executable, int round_index, int thread, int threads, zt_cpu_prefetch_item *list)
{
    const zt_cpu_round *round = &executable->round[round_index];
    int32_t end = zt_cpu_first_part(round->part_count, thread + 1, threads);
    size_t count = 0, bytes_left = ZT_CPU_PREFETCH_BYTES;
    for (int32_t k = zt_cpu_first_part(round->part_count, thread, threads); k < end; k++) {
        const zt_cpu_part *part = &round->part[k];
        const zt_cpu_call *call = &executable->task[part->task].call;
        zt_cpu_prefetch piece[ZT_CPU_PREFETCH_PIECES];
        if (!part->call_count && call->kernel->prefetch_states && part->phase == 0 &&
            states_known(&executable->task[part->task])) {
            if (list) list[count] = (zt_cpu_prefetch_item){round_index, {0}, call, part->begin, part->end};
            count++;
        }
        if (threads == 1) continue; /* it waits for nobody */
        if (part->call_count || !call->kernel->prefetch || part->phase != call->n_phases - 1) continue;
        int pieces = call->kernel->prefetch(call, part->begin, part->end, piece);
        for (int j = 0; j < pieces && bytes_left; j++) {
            if (piece[j].bytes > bytes_left) piece[j].bytes = bytes_left;
            bytes_left -= piece[j].bytes;
            if (list) list[count] = (zt_cpu_prefetch_item){.round = round_index, .weights = piece[j]};
            count++;
        }
    }
    return count;
}

zt_status zt_cpu_list_prefetches(const zt_cpu_engine *engine, zt_executable *executable)
{
    int threads = zt_pool_size(engine->pool);
    if (threads > zt_cpu_count()) return ZT_OK; /* nobody may spin */
    executable->prefetch = zt_arena_alloc(executable->memory, (size_t)threads * sizeof *executable->prefetch);
    if (!executable->prefetch) return ZT_ENOMEM;
    for (int thread = 0; thread < threads; thread++) {
        size_t count = 0, room = 1;
        for (int i = 0; i < executable->n_rounds; i++) room += list_reads(executable, i, thread, threads, NULL);
        zt_cpu_prefetch_item *list = zt_arena_alloc(executable->memory, room * sizeof *list);
        if (!list) return ZT_ENOMEM;
        for (int i = 0; i < executable->n_rounds; i++) count += list_reads(executable, i, thread, threads, list + count);
        list[count] = (zt_cpu_prefetch_item){.round = INT_MAX};
        executable->prefetch[thread] = list;
    }
    return ZT_OK;
}
