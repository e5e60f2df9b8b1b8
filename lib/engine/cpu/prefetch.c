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
static bool known(const zt_cpu_task *t)
{
    for (int k = 0; k < ZT_MAX_IN; k++)
        if (t->in[k].kind != ZT_PLACE_NOWHERE && t->in[k].kind != ZT_PLACE_IN &&
            !zt_dtype_is_float(t->call.in[k].type.dtype))
            return false;
    return true;
}

/* What `thread` reads in round i, to `to` unless that is NULL; returns how many pieces it is. */
static size_t look(const zt_executable *r, int i, int thread, int threads, zt_cpu_prefetch_item *to)
{
    const zt_cpu_round *round = &r->round[i];
    int32_t end = zt_cpu_own_items(round->n, thread + 1, threads);
    size_t n = 0, room = ZT_CPU_COMING;
    for (int32_t p = zt_cpu_own_items(round->n, thread, threads); p < end; p++) {
        const zt_cpu_part *part = &round->part[p];
        const zt_cpu_call *c = &r->task[part->task].call;
        zt_cpu_prefetch a[ZT_CPU_AHEAD];
        if (!part->n && c->kernel->late && part->phase == 0 && known(&r->task[part->task])) {
            if (to) to[n] = (zt_cpu_prefetch_item){i, {0}, c, part->begin, part->end};
            n++;
        }
        if (threads == 1) continue; /* it waits for nobody */
        if (part->n || !c->kernel->ahead || part->phase != c->n_phases - 1) continue;
        int pieces = c->kernel->ahead(c, part->begin, part->end, a);
        for (int k = 0; k < pieces && room; k++) {
            if (a[k].bytes > room) a[k].bytes = room;
            room -= a[k].bytes;
            if (to) to[n] = (zt_cpu_prefetch_item){.round = i, .what = a[k]};
            n++;
        }
    }
    return n;
}

zt_status zt_cpu_prefetch_next(const zt_cpu_engine *e, zt_executable *r)
{
    int threads = zt_pool_size(e->pool);
    if (threads > zt_cpu_count()) return ZT_OK; /* nobody may spin */
    r->coming = zt_arena_alloc(r->memory, (size_t)threads * sizeof *r->coming);
    if (!r->coming) return ZT_ENOMEM;
    for (int t = 0; t < threads; t++) {
        size_t n = 0, all = 1;
        for (int i = 0; i < r->n_rounds; i++) all += look(r, i, t, threads, NULL);
        zt_cpu_prefetch_item *list = zt_arena_alloc(r->memory, all * sizeof *list);
        if (!list) return ZT_ENOMEM;
        for (int i = 0; i < r->n_rounds; i++) n += look(r, i, t, threads, list + n);
        list[n] = (zt_cpu_prefetch_item){.round = INT_MAX};
        r->coming[t] = list;
    }
    return ZT_OK;
}
