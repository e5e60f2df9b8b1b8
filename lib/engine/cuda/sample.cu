/* sample.cu - op sample_token: a block a row.
 *
 * Every entry has a key of 56 bits: its value as an integer of the same order, below that its place
 * turned round; keys are all different, so best first is one order. What is cut, and what is drawn,
 * is the key at which the keys from the best on have so much: so many of them, or so much weight.
 * It is found digit by digit. Weights are multiples of 2^-40, so that sums by atomics are exact and
 * the same whatever their order. Mostly few entries are left by top_k: these go to shared memory.
 */
#include "lib/engine/cuda/args_sample.h"
#include "lib/engine/cuda/values.h"

enum { MOST = 1024, LIST = 2048, BINS = 256, PLACE = 24, DIGITS = 7 };

/* ---- keys ------------------------------------------------------------------------------------ */

/* 0: NaN, which does not count. */
FN uint32_t order_of(float v)
{
    const uint32_t bits = bits_as<uint32_t>(v + 0.0f); /* -0 is 0 */
    if (v != v) return 0;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
FN float value_of(uint64_t key)
{
    const uint32_t bits = (uint32_t)(key >> PLACE);
    return bits_as<float>(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}
FN uint64_t key_of(uint32_t order, int64_t i)
{
    return order ? (uint64_t)order << PLACE | (uint64_t)((1 << PLACE) - 1 - i) : 0;
}
FN int32_t place_of(uint64_t key)
{
    return (int32_t)((1 << PLACE) - 1 - (int64_t)(key & ((1 << PLACE) - 1)));
}

/* Is list[j] named before it already? So each is changed by one thread. */
FN bool again(const int32_t *list, int64_t j)
{
    for (int64_t k = 0; k < j; k++)
        if (list[k] == list[j]) return true;
    return false;
}

/* The orders of row r, with the penalty and without what is banned. */
FN void make_orders(const zt_cu_sample_args &a, int64_t r, uint32_t *order)
{
    const int32_t *recent = PTR(const int32_t, a.recent) + r * a.n_recent;
    const int32_t *banned = PTR(const int32_t, a.banned) + (a.own ? r * a.n_banned : 0);
    const double by = a.penalty ? PTR(const double, a.penalty)[r] : 1;
    for (int64_t i = thread(); i < a.n; i += threads())
        order[i] = order_of(load_as<float>(a.x_type, a.x, r * a.n + i));
    barrier();
    for (int64_t j = thread(); j < a.n_recent && by != 1; j += threads()) {
        const int64_t i = recent[j];
        if (i < 0 || i >= a.n || again(recent, j)) continue;
        const double v = (double)load_as<float>(a.x_type, a.x, r * a.n + i);
        order[i] = order_of((float)(v > 0 ? v / by : v * by));
    }
    barrier();
    for (int64_t j = thread(); j < a.n_banned; j += threads())
        if (banned[j] >= 0 && banned[j] < a.n && !again(banned, j)) order[banned[j]] = 0;
    barrier();
}

/* ---- what is left ---------------------------------------------------------------------------- */

struct entries {
    const uint64_t *list; /* of shared memory, n of them; null: */
    const uint32_t *order;
    int64_t n;
    uint64_t best, least; /* keys; the latter of those that are left */
    double bar;           /* and values */

    FN_MEMBER uint64_t at(int64_t i) const
    {
        const uint64_t key = list ? list[i] : key_of(order[i], i);
        return key >= least ? key : 0;
    }
    /* In multiples of 2^-40; temp 0: each counts 1. */
    FN_MEMBER uint64_t weight(uint64_t key, double temp) const
    {
        const double v = (double)value_of(key), max = (double)value_of(best);
        if (!key) return 0;
        if (temp == 0) return 1;
        if (v < bar && key != best) return 0;
        return (uint64_t)((v == max ? 1 : exp((v - max) / temp)) * 0x1p40 + 0.5);
    }
};

struct rooms {
    uint64_t bin[BINS], room[32], found[2];
    uint32_t n_list;
};

FN uint64_t weight_of_all(const entries &e, double temp, rooms &s)
{
    uint64_t sum = 0;
    for (int64_t i = thread(); i < e.n; i += threads()) sum += e.weight(e.at(i), temp);
    barrier();
    return block_sum(sum, s.room);
}

/* By the first warp: the bin, from the last one down, at which sums reach `target`, and what is
 * missing when it begins. Somewhere they do. */
FN void find_bin(uint64_t target, rooms &s)
{
    const int first = BINS - 1 - lane() * (BINS / 32);
    uint64_t own = 0;
    for (int j = 0; j < BINS / 32; j++) own += s.bin[first - j];
    uint64_t to = own;
    for (int d = 1; d < 32; d *= 2) {
        const uint64_t other = shuffle(to, (lane() - d) & 31);
        if (lane() >= d) to += other;
    }
    uint64_t sum = to - own;
    if (sum >= target || to < target) return;
    for (int j = 0; j < BINS / 32; j++) {
        sum += s.bin[first - j];
        if (sum < target) continue;
        s.found[0] = (uint64_t)(first - j);
        s.found[1] = target - (sum - s.bin[first - j]);
        return;
    }
}

/* The key at which the weights from the best on reach `target`, from 1 to that of all. */
FN uint64_t reach(const entries &e, double temp, uint64_t target, rooms &s)
{
    uint64_t prefix = 0;
    for (int shift = 8 * (DIGITS - 1); shift >= 0; shift -= 8) {
        for (int i = thread(); i < BINS; i += threads()) s.bin[i] = 0;
        barrier();
        for (int64_t i = thread(); i < e.n; i += threads()) {
            const uint64_t key = e.at(i);
            if (!key || key >> (shift + 8) != prefix) continue;
            const uint64_t w = e.weight(key, temp);
            if (w) atomic_add(&s.bin[key >> shift & 255], w);
        }
        barrier();
        if (warp() == 0) find_bin(target, s);
        barrier();
        prefix = prefix << 8 | s.found[0];
        target = s.found[1];
    }
    return prefix;
}

/* Eighths below the best: bin 255 is that of the best. */
FN int bin_of(uint64_t key, uint64_t best)
{
    const float v = value_of(key), max = value_of(best);
    const float below = v == max ? 0 : (max - v) * 8;
    return below < BINS - 1 ? BINS - 1 - (int)below : 0;
}

/* All entries, or the k best and some more in shared memory, where they fit; *k becomes how many
 * there are at most. */
FN void gather_best(entries &e, int64_t *k, uint64_t *list, rooms &s)
{
    for (int i = thread(); i < BINS; i += threads()) s.bin[i] = 0;
    if (thread() == 0) s.n_list = 0;
    barrier();
    for (int64_t i = thread(); i < e.n; i += threads())
        if (uint64_t key = e.at(i)) atomic_add(&s.bin[bin_of(key, e.best)], (uint64_t)1);
    barrier();
    uint64_t all = 0, kept = 0;
    for (int i = 0; i < BINS; i++) all += s.bin[i];
    if ((uint64_t)*k > all) *k = (int64_t)all;
    if (warp() == 0) find_bin((uint64_t)*k, s);
    barrier();
    const int from = (int)s.found[0];
    for (int i = from; i < BINS; i++) kept += s.bin[i];
    if (kept > LIST) return;
    for (int64_t i = thread(); i < e.n; i += threads()) {
        const uint64_t key = e.at(i);
        if (key && bin_of(key, e.best) >= from) list[atomic_add(&s.n_list, 1u)] = key;
    }
    barrier();
    e.list = list;
    e.n = (int64_t)kept;
    if ((uint64_t)*k < kept) e.least = reach(e, 0, (uint64_t)*k, s);
}

/* The weight that is the part p of all; 1 at least. */
FN uint64_t part_of(double p, uint64_t all)
{
    const double part = ceil(p * (double)all);
    if (!(part > 1)) return 1;
    return part < (double)all ? (uint64_t)part : all;
}

KERNEL_OF(zt_cu_sample, zt_cu_sample_args, MOST)
{
    SHARED(rooms, s, [1]);
    SHARED(uint64_t, list, [LIST]);
    const int64_t r = block();
    const double temp = a.temp ? PTR(const double, a.temp)[r] : 1;
    const double top_p = a.top_p ? PTR(const double, a.top_p)[r] : 1;
    const double min_p = a.min_p ? PTR(const double, a.min_p)[r] : 0;
    const double u = a.u ? PTR(const double, a.u)[r] : 0;
    int64_t k = a.top_k ? PTR(const int32_t, a.top_k)[r] : 0;
    uint32_t *order = PTR(uint32_t, a.orders) + r * a.n;
    int32_t *y = PTR(int32_t, a.y) + r;
    entries e = {nullptr, order, a.n, 0, 1, -INFINITY};
    make_orders(a, r, order);
    for (int64_t i = thread(); i < a.n; i += threads())
        if (e.at(i) > e.best) e.best = e.at(i);
    e.best = block_max(e.best, s[0].room);
    if (!e.best || !(temp > 0)) {
        if (thread() == 0) *y = e.best ? place_of(e.best) : -1;
        return;
    }
    if (k <= 0 || k > a.n) k = a.n;
    gather_best(e, &k, list, s[0]);
    if (!e.list && weight_of_all(e, 0, s[0]) > (uint64_t)k) e.least = reach(e, 0, (uint64_t)k, s[0]);
    if (top_p < 1) {
        const uint64_t all = weight_of_all(e, 1, s[0]);
        e.least = reach(e, 1, part_of(top_p, all), s[0]);
    }
    if (min_p > 0) e.bar = (double)value_of(e.best) + log(min_p);
    const uint64_t all = weight_of_all(e, temp, s[0]);
    const uint64_t want = (uint64_t)floor((u - floor(u)) * (double)all) + 1;
    const uint64_t key = reach(e, temp, want < all ? want : all, s[0]);
    if (thread() == 0) *y = place_of(key);
}
