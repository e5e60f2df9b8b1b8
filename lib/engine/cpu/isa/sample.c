/* sample.c - the kernel of sample_token: a row an item. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/lines.h"
#include "lib/tensor/ranked.h"

#include <math.h>
#include <string.h>

/* ---- sample_token: a row an item --------------------------------------------------------------
 *
 * Candidates lie in a heap (lib/tensor/ranked.h). Weights are whole multiples of 2^-40: what is summed
 * in any order is the same.
 */

enum { X, U, TEMP, TOP_K, TOP_P, MIN_P, PENALTY, RECENT, BANNED };

static void sample_setup(zt_cpu_call *call)
{
    const zt_type *x = &call->in[X].type;
    call->items[0] = x->dim[0];
    call->local_bytes = (size_t)x->dim[1] * sizeof(uint64_t);
}

static double of_row(const zt_cpu_call *call, int k, int64_t r, double otherwise)
{
    return call->in[k].data ? ((const double *)call->in[k].data)[r] : otherwise;
}

/* The row's list of places, *n of them: one for all rows, or its own. */
static const int32_t *list_of(const zt_cpu_call *call, int k, int64_t r, int64_t *n)
{
    const zt_type *type = &call->in[k].type;
    const int32_t *list = call->in[k].data;
    *n = list ? type->dim[type->rank - 1] : 0;
    return list && type->rank == 2 ? list + r * *n : list;
}

/* All that count, in no order. */
static void gather(const zt_cpu_call *call, int64_t r, zt_ranked *e)
{
    int64_t n = call->in[X].type.dim[1], h, b;
    const float *x = (const float *)call->in[X].data + r * n;
    const int32_t *recent = list_of(call, RECENT, r, &h), *banned = list_of(call, BANNED, r, &b);
    double by = of_row(call, PENALTY, r, 1);
    for (int64_t i = 0; i < n; i++) zt_ranked_set(e, i, zt_ranked_key(x[i], i));
    for (int64_t k = 0; k < h && by != 1; k++) {
        int64_t i = recent[k];
        if (i < 0 || i >= n) continue;
        double v = (double)x[i];
        zt_ranked_set(e, i, zt_ranked_key((float)(v > 0 ? v / by : v * by), i));
    }
    for (int64_t k = 0; k < b; k++)
        if (banned[k] >= 0 && banned[k] < n) zt_ranked_set(e, banned[k], 0);
    e->count = 0;
    for (int64_t i = 0; i < n; i++)
        if (zt_ranked_get(e, i)) zt_ranked_set(e, e->count++, zt_ranked_get(e, i));
}

static uint64_t weight(uint64_t key, double max, double temp)
{
    double v = zt_ranked_number(key), w = v == max ? 1 : exp((v - max) / temp);
    return (uint64_t)(w * 0x1p40 + 0.5);
}

/* Of the `count` best those that are at least `least`, and the best: their weight. */
static uint64_t weight_of(zt_ranked *e, int64_t count, double least, double temp)
{
    uint64_t top = zt_ranked_best(e, 0), sum = 0;
    double max = zt_ranked_number(top);
    if (count < e->count) zt_ranked_best(e, count - 1);
    for (int64_t i = e->count; i-- > (count < e->count ? e->count - count : 0);) {
        uint64_t key = zt_ranked_get(e, i);
        if (key == top || zt_ranked_number(key) >= least) sum += weight(key, max, temp);
    }
    return sum;
}

/* How many of the best have `enough` weight; at least 1, at most `count`. */
static int64_t reach(zt_ranked *e, int64_t count, double temp, uint64_t enough)
{
    double max = zt_ranked_number(zt_ranked_best(e, 0));
    uint64_t sum = 0;
    for (int64_t j = 0; j < count; j++) {
        sum += weight(zt_ranked_best(e, j), max, temp);
        if (sum >= enough) return j + 1;
    }
    return count;
}

static int32_t draw(const zt_cpu_call *call, int64_t r, zt_ranked *e)
{
    double temp = of_row(call, TEMP, r, 1), top_p = of_row(call, TOP_P, r, 1);
    double min_p = of_row(call, MIN_P, r, 0), u = of_row(call, U, r, 0);
    int64_t k = call->in[TOP_K].data ? ((const int32_t *)call->in[TOP_K].data)[r] : 0;
    if (e->count == 0) return -1;
    zt_ranked_heap(e, 0);
    if (!(temp > 0)) return zt_ranked_place(zt_ranked_best(e, 0));
    if (k <= 0 || k > e->count) k = e->count;
    if (top_p < 1) {
        double part = ceil(top_p * (double)weight_of(e, k, -INFINITY, 1));
        k = reach(e, k, 1, part > 1 ? (uint64_t)part : 1);
    }
    double least = min_p > 0 ? zt_ranked_number(zt_ranked_best(e, 0)) + log(min_p) : -INFINITY;
    uint64_t all = weight_of(e, k, least, temp);
    uint64_t want = (uint64_t)floor((u - floor(u)) * (double)all) + 1;
    return zt_ranked_place(zt_ranked_best(e, reach(e, k, temp, want < all ? want : all) - 1));
}

static void sample_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    for (int64_t r = begin; r < end; r++) {
        zt_ranked e = {.keys = local};
        gather(call, r, &e);
        ((int32_t *)call->out[0].data)[r] = draw(call, r, &e);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_sample)[] = {
    {.op = ZT_OP_sample_token, .has = f32_has, .setup = sample_setup, .run = sample_run},
    {0},
};
