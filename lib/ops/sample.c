/* sample.c - the row of op sample_token: one of the entries of each row of x, drawn as a language model's
 * next token is.
 *
 * Entries are told apart by their number and, where that is the same, by their place, the lower
 * first: so that "best first" is one order. What is left after each cut begins with the best. Weights
 * are whole multiples of 2^-40: their sums are exact, and depend on no order.
 */
#include "lib/ops/row.h"

#include <math.h>

enum { X, U, TEMP, TOP_K, TOP_P, MIN_P, PENALTY, RECENT, BANNED, EACH };

static zt_status sample_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    static const struct {
        int k;
        const char *name;
        zt_dtype dtype;
    } of_row[] = {{U, "u", ZT_F64},         {TEMP, "temp", ZT_F64},   {TOP_K, "top_k", ZT_I32},
                  {TOP_P, "top_p", ZT_F64}, {MIN_P, "min_p", ZT_F64}, {PENALTY, "penalty", ZT_F64}};
    const zt_type *x = in[X];
    zt_status status = zt_row_want_float(ctx, "x", x);
    (void)attrs;
    if (!status && x->rank != 2) status = zt_row_fail(ctx, ZT_ESHAPE, "x has %d dimensions, expected 2", x->rank);
    if (!status && x->dim[1] > 1 << 24)
        status = zt_row_fail(ctx, ZT_ESHAPE, "x has %lld columns: at most 2^24 are supported", (long long)x->dim[1]);
    for (int i = 0; i < ZT_LEN(of_row) && !status; i++) {
        const zt_type *type = in[of_row[i].k];
        if (!type) continue;
        status = zt_row_want(ctx, of_row[i].name, type, of_row[i].dtype, 1);
        if (!status && type->dim[0] != x->dim[0])
            status = zt_row_fail(ctx, ZT_ESHAPE, "%s has %lld entries, but x has %lld rows", of_row[i].name,
                                 (long long)type->dim[0], (long long)x->dim[0]);
    }
    if (!status && in[RECENT]) status = zt_row_want(ctx, "recent", in[RECENT], ZT_I32, 2);
    if (!status && in[RECENT] && in[RECENT]->dim[0] != x->dim[0])
        status = zt_row_fail(ctx, ZT_ESHAPE, "recent has %lld rows, but x has %lld", (long long)in[RECENT]->dim[0],
                             (long long)x->dim[0]);
    const zt_type *ban = in[BANNED];
    if (!status && ban) status = zt_row_want(ctx, "banned", ban, ZT_I32, ban->rank == 2 ? 2 : 1);
    if (!status && ban && ban->rank == 2 && ban->dim[0] != x->dim[0])
        status =
            zt_row_fail(ctx, ZT_ESHAPE, "banned has %lld rows, but x has %lld", (long long)ban->dim[0], (long long)x->dim[0]);
    out[0] = zt_type_make(ZT_I32, 1, x->dim);
    return status;
}

/* ---- a row ----------------------------------------------------------------------------------- */

typedef struct line {
    const zt_arg *in;
    int64_t r, n;
} line;

static double of_row(const line *l, int k, double otherwise) { return l->in[k].type ? l->in[k].f[l->r] : otherwise; }

static bool list_has(const zt_arg *list, int64_t from, int64_t n, int64_t i)
{
    for (int64_t k = 0; k < n; k++)
        if (list->i[from + k] == i) return true;
    return false;
}

/* Entry i as it counts: NaN does not. */
static double penalized_logit(const line *l, int64_t i)
{
    const zt_arg *recent = &l->in[RECENT], *banned = &l->in[BANNED];
    double v = l->in[X].f[l->r * l->n + i], by = of_row(l, PENALTY, 1);
    int64_t h = recent->type ? recent->type->dim[1] : 0;
    bool own = banned->type && banned->type->rank == 2;
    int64_t n = banned->type ? banned->type->dim[own] : 0;
    if (list_has(banned, own ? l->r * n : 0, n, i)) return NAN;
    if (by == 1 || !list_has(recent, l->r * h, h, i)) return v;
    return v > 0 ? v / by : v * by;
}

typedef struct entry { /* at -1: none */
    double v;
    int64_t at;
} entry;

static bool comes_before(entry a, entry b) { return a.v > b.v || (a.v == b.v && a.at < b.at); }

/* The best of those after `last`, or of all. */
static entry next_entry(const line *l, entry last)
{
    entry best = {0, -1};
    for (int64_t i = 0; i < l->n; i++) {
        entry e = {penalized_logit(l, i), i};
        if (isnan(e.v) || (last.at >= 0 && !comes_before(last, e))) continue;
        if (best.at < 0 || comes_before(e, best)) best = e;
    }
    return best;
}

static uint64_t fixed_weight(double v, double max, double temp)
{
    double w = v == max ? 1 : exp((v - max) / temp);
    return (uint64_t)(w * 0x1p40 + 0.5);
}

/* From the best on: the sum of the weights of `count` entries at most, of those that are at least
 * `least`, or of as many as have `enough` weight; how many those are. */
typedef struct sum {
    uint64_t weight;
    int64_t count;
    entry last;
} sum;

static sum add_up(const line *l, entry best, double temp, int64_t count, double least, uint64_t enough)
{
    sum s = {0, 0, best};
    for (entry e = best; e.at >= 0 && s.count < count; e = next_entry(l, e)) {
        if (s.count && (e.v < least || s.weight >= enough)) break;
        s.weight += fixed_weight(e.v, best.v, temp);
        s.last = e;
        s.count++;
    }
    return s;
}

/* The part p (below 1) of a weight, from which it is enough. */
static uint64_t part_of(double p, uint64_t all)
{
    double part = ceil(p * (double)all);
    return part > 1 ? (uint64_t)part : 1;
}

static int64_t draw_token(const line *l)
{
    entry best = next_entry(l, (entry){0, -1});
    double temp = of_row(l, TEMP, 1), top_p = of_row(l, TOP_P, 1), min_p = of_row(l, MIN_P, 0);
    int64_t k = l->in[TOP_K].type ? l->in[TOP_K].i[l->r] : 0;
    double u = of_row(l, U, 0), least = min_p > 0 ? best.v + log(min_p) : -INFINITY;
    if (best.at < 0 || !(temp > 0)) return best.at;
    if (k <= 0 || k > l->n) k = l->n;
    if (top_p < 1) {
        uint64_t all = add_up(l, best, 1, k, -INFINITY, UINT64_MAX).weight;
        k = add_up(l, best, 1, k, -INFINITY, part_of(top_p, all)).count;
    }
    sum left = add_up(l, best, temp, k, least, UINT64_MAX);
    uint64_t want = (uint64_t)floor((u - floor(u)) * (double)left.weight) + 1;
    if (want > left.weight) want = left.weight;
    return add_up(l, best, temp, left.count, -INFINITY, want).last.at;
}

static void sample_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)attrs, (void)error;
    for (int64_t r = 0; r < in[X].type->dim[0]; r++) {
        const line l = {in, r, in[X].type->dim[1]};
        out[0].i[r] = draw_token(&l);
    }
}

static double sample_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return 4 * (double)zt_type_count(in[X]);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* Which optional inputs are there, as bits (EACH: of what is banned each row has a list of its own);
 * 0: rows of how they are filled. */
static bool sample_cases(int i, zt_case *test_case)
{
    static const struct {
        int64_t rows, n;
        zt_fill x, temp; /* ABSENT, POSITIVE or ZERO */
        unsigned with;
        int64_t top_k, recent, banned;
    } rows[] = {
        {1, 40, ZT_FILL_NORMAL, ZT_FILL_ABSENT, 0, 0, 0, 0},
        {3, 100, ZT_FILL_NORMAL, ZT_FILL_ZERO, 1 << U, 0, 0, 0},
        {5, 33, ZT_FILL_TIES, ZT_FILL_ZERO, 0, 0, 0, 0},
        {4, 300, ZT_FILL_NORMAL, ZT_FILL_POSITIVE, 1 << U, 0, 0, 0},
        {4, 300, ZT_FILL_TIES, ZT_FILL_POSITIVE, 1 << U | 1 << TOP_K, 40, 0, 0},
        {6, 65, ZT_FILL_NORMAL, ZT_FILL_POSITIVE, 1 << U | 1 << TOP_P, 0, 0, 0},
        {6, 65, ZT_FILL_NORMAL, ZT_FILL_ABSENT, 1 << U | 1 << MIN_P, 0, 0, 0},
        {9, 200, ZT_FILL_NORMAL, ZT_FILL_POSITIVE, 1 << U | 1 << TOP_K | 1 << TOP_P | 1 << MIN_P, 9, 0, 0},
        {3, 50, ZT_FILL_NORMAL, ZT_FILL_POSITIVE, 1 << U | 1 << TOP_K | 1 << PENALTY | 1 << RECENT | 1 << BANNED, 20, 30, 8},
        {3, 50, ZT_FILL_TIES, ZT_FILL_ZERO, 1 << PENALTY | 1 << RECENT | 1 << BANNED, 0, 64, 40},
        {5, 24, ZT_FILL_NORMAL, ZT_FILL_POSITIVE, 1 << U | 1 << PENALTY | 1 << RECENT | 1 << BANNED | 1 << EACH, 0, 9, 14},
        {3, 12, ZT_FILL_NORMAL, ZT_FILL_ZERO, 1 << BANNED | 1 << EACH, 0, 0, 11},
        {2, 4921, ZT_FILL_NORMAL, ZT_FILL_POSITIVE, 1 << U | 1 << TOP_K, 60, 0, 0},
        {2, 2200, ZT_FILL_NORMAL, ZT_FILL_POSITIVE, 1 << U | 1 << TOP_K, 2190, 0, 0},
        {1, 2500, ZT_FILL_NORMAL, ZT_FILL_POSITIVE, 1 << U | 1 << TOP_P, 0, 0, 0},
        {2, 1, ZT_FILL_NORMAL, ZT_FILL_POSITIVE, 1 << U | 1 << BANNED, 0, 0, 3},
        {2, 0, ZT_FILL_NORMAL, ZT_FILL_POSITIVE, 1 << U, 0, 0, 0},
        {0, 7, ZT_FILL_NORMAL, ZT_FILL_POSITIVE, 1 << U, 0, 0, 0},
    };
    if (i >= ZT_LEN(rows)) return false;
    int64_t m = rows[i].rows, n = rows[i].n, ids = n > 0 ? n : 1;
    unsigned with = rows[i].with;
    zt_case_in(test_case, X, rows[i].x, 0, ZT_F32, 2, (int64_t[]){m, n});
    if (with >> U & 1) zt_case_in(test_case, U, ZT_FILL_UNIT, 0, ZT_F64, 1, &m);
    if (rows[i].temp) zt_case_in(test_case, TEMP, rows[i].temp, 0, ZT_F64, 1, &m);
    if (with >> TOP_K & 1) zt_case_in(test_case, TOP_K, ZT_FILL_IDS, rows[i].top_k, ZT_I32, 1, &m);
    if (with >> TOP_P & 1) zt_case_in(test_case, TOP_P, ZT_FILL_UNIT, 0, ZT_F64, 1, &m);
    if (with >> MIN_P & 1) zt_case_in(test_case, MIN_P, ZT_FILL_UNIT, 0, ZT_F64, 1, &m);
    if (with >> PENALTY & 1) zt_case_in(test_case, PENALTY, ZT_FILL_ABOVE, 0, ZT_F64, 1, &m);
    if (with >> RECENT & 1) zt_case_in(test_case, RECENT, ZT_FILL_IDS, ids, ZT_I32, 2, (int64_t[]){m, rows[i].recent});
    if (with >> BANNED & 1)
        zt_case_in(test_case, BANNED, ZT_FILL_IDS, ids, ZT_I32, with >> EACH & 1 ? 2 : 1,
                   (int64_t[]){with >> EACH & 1 ? m : rows[i].banned, rows[i].banned});
    return true;
}

const zt_opdef zt_op_sample_token = {
    .synopsis = "y[r] = an index into row r of the logits x, sampled with probabilities proportional "
                "to exp(x / temp), in descending order, by the fractional part of u. Candidates are "
                "filtered by top-k (the top_k largest, 0: all), then nucleus (top_p: the smallest "
                "set with at least this share of all exp(x)), then min-p (exp(x) at least min_p "
                "times the largest). Before that the repetition penalty applies once to each entry "
                "in `recent`: positive logits are divided by `penalty`, others multiplied; entries "
                "in `banned` and NaN are excluded; indices out of range in these two are ignored. "
                "Ties go to the lowest index; temp 0 is greedy; -1 if no entry is left. Defaults: u "
                "0, temp 1, no filter, no penalty; x [m,n], recent i32 [m,h], banned i32 [b] or "
                "[m,b], the others [m], f64 except top_k i32",
    .n_required = 1,
    .infer = sample_infer,
    .ref = sample_ref,
    .flops = sample_flops,
    .cases = sample_cases,
    .constant = 0x1fe,
};
