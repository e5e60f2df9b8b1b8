/* reduce.c - kernels of the ops that reduce axes, or go along one; f32.
 *
 * Sums run over at most CHUNK values in f32, in lanes, and go on in f64, in an order that shapes
 * alone decide.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/groups.h"
#include "lib/engine/cpu/isa/stream.h"

static int64_t cols_of(const zt_type *t) { return t->rank ? t->dim[t->rank - 1] : 1; }

static void rows_setup(zt_cpu_call *c)
{
    int64_t cols = cols_of(&c->in[0].type), count = zt_type_count(&c->in[0].type);
    int64_t rows = cols ? count / cols : zt_type_count(&c->out[0].type);
    c->items[0] = rows;
}

/* The largest of n, -inf when there is none; NaN never is. */
static float largest(const float *x, int64_t n)
{
    vf top = vf_set(-INFINITY), more[3] = {top, top, top};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) { /* four side by side: each waits for itself */
        top = vf_max(vf_load(x + i), top);
        UNROLL for (int j = 0; j < 3; j++)
            more[j] = vf_max(vf_load(x + i + (j + 1) * LANES), more[j]);
    }
    UNROLL for (int j = 0; j < 3; j++) top = vf_max(more[j], top);
    for (; i + LANES <= n; i += LANES) top = vf_max(vf_load(x + i), top);
    int rest = (int)(n - i);
    if (rest) top = vf_max(vf_first(rest, vf_load_n(x + i, rest), top), top);
    return vf_top(top);
}

/* ---- argmax ---------------------------------------------------------------------------------- */

static int32_t argmax(const float *x, int64_t n)
{
    float top = largest(x, n);
    for (int64_t i = 0; i < n; i++)
        if (x[i] == top) return (int32_t)i;
    return 0;
}

static void argmax_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const float *x = c->in[0].data;
    int32_t *y = c->out[0].data;
    int64_t cols = cols_of(&c->in[0].type);
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++) y[r] = argmax(x + r * cols, cols);
}

static int32_t argmin(const float *x, int64_t n)
{
    vf low = vf_set(INFINITY);
    float lane[LANES], best = INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) low = vf_min(vf_load(x + i), low);
    vf_store(lane, low);
    for (int j = 0; j < LANES; j++) best = lane[j] < best ? lane[j] : best;
    for (; i < n; i++) best = x[i] < best ? x[i] : best;
    for (i = 0; i < n; i++)
        if (x[i] == best) return (int32_t)i;
    return 0;
}

static void argmin_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const float *x = c->in[0].data;
    int32_t *y = c->out[0].data;
    int64_t cols = cols_of(&c->in[0].type);
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++) y[r] = argmin(x + r * cols, cols);
}

/* An attribute struct that begins with an axis names the last, and x is f32. */
static bool last_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    int64_t axis = ((const zt_softmax_attrs *)attrs)->axis;
    (void)out;
    return in[0]->dtype == ZT_F32 && (axis == -1 || axis == in[0]->rank - 1);
}

/* ---- softmax --------------------------------------------------------------------------------- */

enum {
    CHUNK = 1024,      /* a sum in f32 is at most so long; those are added up in f64 */
    PAST_COLS = 65536, /* a row's scratch: 256 KiB at most */
    ROWS_AHEAD = 2048  /* floats; to the second cache, for the first has three rows to hold */
};

/* The sum of exp(x - top) of n <= CHUNK, which are y's with `keep`; top is the largest. */
INLINE float exps(bool keep, const float *x, float *y, int n, float top)
{
    vf sum = vf_set(0), t = vf_set(top);
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf e = vf_exp_below(vf_sub(vf_load(x + i), t));
        if (keep) vf_store(y + i, e);
        sum = vf_add(sum, e);
    }
    if (i < n) {
        vf e = vf_exp_below(vf_sub(vf_load_n(x + i, n - i), t));
        if (keep) vf_store_n(y + i, n - i, e);
        sum = vf_add(sum, vf_first(n - i, e, vf_set(0)));
    }
    return vf_sum(sum);
}

INLINE double row_exps(bool keep, const float *x, float *y, int64_t cols, float top)
{
    double sum = 0;
    for (int64_t i = 0; i < cols; i += CHUNK)
        sum += (double)exps(keep, x + i, keep ? y + i : NULL,
                            cols - i < CHUNK ? (int)(cols - i) : CHUNK, top);
    return sum;
}

static void times(const float *x, float *y, int64_t n, float by)
{
    vf f = vf_set(by);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(y + i, vf_mul(vf_load(x + i), f));
    int rest = (int)(n - i);
    if (rest) vf_store_n(y + i, rest, vf_mul(vf_load_n(x + i, rest), f));
}

static void softmax_row(const float *x, float *y, int64_t cols)
{
    double sum = row_exps(true, x, y, cols, largest(x, cols));
    times(y, y, cols, (float)(1 / sum));
}

/* ln sum exp(x - top) of a row whose largest is top. */
static double log_sum(const float *x, int64_t cols, float top)
{
    return log(row_exps(false, x, NULL, cols, top));
}

static void log_softmax_row(const float *x, float *y, int64_t n)
{
    float top = largest(x, n), less = (float)log_sum(x, n, top);
    vf t = vf_set(top), l = vf_set(less);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(y + i, vf_sub(vf_sub(vf_load(x + i), t), l));
    for (; i < n; i++) y[i] = x[i] - top - less;
}

/* ---- rows from memory, and to it past the caches --------------------------------------------- */

/* Three rows at a time, so that reading, computing and storing do not wait for each other: while
 * the exponentials of one are added up, the largest of the next is found, which comes from memory,
 * and what is known by now of the one before is stored. */
typedef struct rows_past {
    const float *next; /* the next row, or any where there is none */
    float next_top;    /* found: its largest */
    float *e;          /* scratch: a row's exponentials take the place of those of the one before */
    float *before;     /* the result of the row before */
    float top, by;     /* its largest, and what was made of its sum */
} rows_past;

/* A vector of the row before, from its x or its exponentials. */
INLINE void put_before(bool logs, const rows_past *p, const float *x, int64_t i, vf top, vf by)
{
    vf y = logs ? vf_sub(vf_sub(vf_load(x + i), top), by) : vf_mul(vf_load(p->e + i), by);
    vf_stream(p->before + i, y);
}

/* row_exps where LANES divides cols, to the bit. */
INLINE double past_exps(bool logs, bool before, rows_past *p, const float *x, int64_t cols,
                        float top)
{
    vf t = vf_set(top), old = vf_set(p->top), by = vf_set(p->by), most = vf_set(-INFINITY);
    double all = 0;
    for (int64_t i = 0; i < cols;) {
        vf sum = vf_set(0);
        for (int64_t last = cols - i < CHUNK ? cols : i + CHUNK; i < last; i += LANES) {
            __builtin_prefetch(p->next + i + ROWS_AHEAD, 0, 2);
            most = vf_max(vf_load(p->next + i), most);
            if (before) put_before(logs, p, x - cols, i, old, by);
            vf e = vf_exp_below(vf_sub(vf_load(x + i), t));
            if (!logs) vf_store(p->e + i, e);
            sum = vf_add(sum, e);
        }
        all += (double)vf_sum(sum);
    }
    p->next_top = vf_top(most);
    return all;
}

/* All of x to y, where a line begins; y may be x. */
INLINE void past_rows(bool logs, const float *x, float *y, int64_t rows, int64_t cols, float *e)
{
    rows_past p = {.e = e, .next_top = largest(x, cols)};
    for (int64_t r = 0; r < rows; r++, x += cols, y += cols) {
        float top = p.next_top;
        p.next = r + 1 < rows ? x + cols : x;
        double sum = r ? past_exps(logs, true, &p, x, cols, top)
                       : past_exps(logs, false, &p, x, cols, top);
        p.before = y;
        p.top = top;
        p.by = (float)(logs ? log(sum) : 1 / sum);
    }
    vf top = vf_set(p.top), by = vf_set(p.by);
    for (int64_t i = 0; i < cols; i += LANES) put_before(logs, &p, x - cols, i, top, by);
}

static void past_setup(zt_cpu_call *c)
{
    rows_setup(c);
    c->aux[0] = cols_of(&c->in[0].type) % LANES == 0 && beyond_caches(&c->in[0].type);
}

static void softmax_setup(zt_cpu_call *c)
{
    int64_t cols = cols_of(&c->in[0].type);
    past_setup(c);
    c->aux[0] = c->aux[0] && cols <= PAST_COLS;
    if (c->aux[0]) c->local_bytes = (size_t)cols * sizeof(float);
}

typedef void row_run(const float *x, float *y, int64_t cols);

INLINE void softmax_rows(bool logs, zt_cpu_call *c, int64_t begin, int64_t end, void *local)
{
    int64_t cols = cols_of(&c->in[0].type);
    const float *x = (const float *)c->in[0].data + begin * cols;
    float *y = (float *)c->out[0].data + begin * cols;
    row_run *row = logs ? log_softmax_row : softmax_row;
    if (c->aux[0] && on_line(y) && begin < end)
        past_rows(logs, x, y, end - begin, cols, local);
    else
        for (int64_t r = begin; r < end; r++, x += cols, y += cols) row(x, y, cols);
}

static void softmax_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    softmax_rows(false, c, begin, end, local);
}

static void log_softmax_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    softmax_rows(true, c, begin, end, local);
}

/* ---- logsumexp of rows ----------------------------------------------------------------------- */

/* One axis, the last. */
static bool last_only_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_ints *axes = &((const zt_logsumexp_attrs *)attrs)->axes;
    int rank = in[0]->rank;
    bool last = axes->n == 1 ? axes->v[0] == -1 || axes->v[0] == rank - 1 : !axes->n && rank == 1;
    (void)out;
    return in[0]->dtype == ZT_F32 && rank > 0 && last;
}

/* Of a row whose largest, top, is not finite: that, or a NaN. */
static float boundless(const float *x, int64_t cols, float top)
{
    for (int64_t i = 0; i < cols; i++)
        if (isnan(x[i])) return NAN;
    return top;
}

static void logsumexp_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t cols = cols_of(&c->in[0].type);
    const float *x = (const float *)c->in[0].data + begin * cols;
    float *y = c->out[0].data;
    rows_past p = {.next_top = begin < end ? largest(x, cols) : 0};
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++, x += cols) {
        float top = p.next_top;
        double sum;
        p.next = r + 1 < end ? x + cols : x;
        if (c->aux[0]) {
            sum = past_exps(true, false, &p, x, cols, top);
        } else {
            sum = row_exps(false, x, NULL, cols, top);
            p.next_top = largest(p.next, cols);
        }
        y[r] = isfinite(top) ? (float)((double)top + log(sum)) : boundless(x, cols, top);
    }
}

/* ---- sum, mean, amax, amin: axes in groups --------------------------------------------------- */

enum { SUM, MOST, LEAST };

INLINE float nothing(int kind) { return kind == SUM ? 0 : kind == MOST ? -INFINITY : INFINITY; }

/* NaN never compares; it is noted in the signs of `bad`. */
INLINE void take(int kind, vf x, vf *v, vi *bad)
{
    if (kind == SUM) {
        *v = vf_add(*v, x);
        return;
    }
    *v = kind == MOST ? vf_max(x, *v) : vf_min(x, *v);
    *bad = vi_or(*bad, vi_sub(vi_set(0x7f800000), vi_of_bits(vf_abs(x))));
}

INLINE double better(int kind, double a, double b)
{
    if (kind == SUM) return a + b;
    return isnan(b) || (kind == MOST ? b > a : b < a) ? b : a;
}

/* Of n <= CHUNK neighbours. */
INLINE double fold_chunk(int kind, const float *x, int n)
{
    vf v[4], start = vf_set(nothing(kind));
    vi bad = vi_set(0);
    int i = 0;
    UNROLL for (int j = 0; j < 4; j++) v[j] = start;
    for (; i + COLUMNS <= n; i += COLUMNS)
        UNROLL for (int j = 0; j < 4; j++) take(kind, vf_load(x + i + j * LANES), &v[j], &bad);
    for (; i < n; i += LANES) {
        int some = n - i < LANES ? n - i : LANES;
        take(kind, vf_first(some, vf_load_n(x + i, some), start), &v[0], &bad);
    }
    vi none = vi_set(0);
    UNROLL for (int j = 1; j < 4; j++) take(kind, v[j], &v[0], &none);
    if (kind == SUM) return (double)vf_sum(v[0]);
    float lane[LANES];
    double best = (double)nothing(kind);
    vf_store(lane, vf_choose(vf_of_bits(bad), vf_set(NAN), v[0]));
    for (int j = 0; j < LANES; j++) best = better(kind, best, (double)lane[j]);
    return best;
}

INLINE double fold_run(int kind, const float *x, int64_t n)
{
    double y = (double)nothing(kind);
    for (int64_t i = 0; i < n; i += CHUNK)
        y = better(kind, y, fold_chunk(kind, x + i, n - i < CHUNK ? (int)(n - i) : CHUNK));
    return y;
}

/* n <= COLUMNS neighbours of y, each over the reduced groups; sums in blocks of BLOCK. */
INLINE void fold_columns(int kind, const groups *g, const float *x, int n, double by, float *y)
{
    double sum[COLUMNS] = {0};
    float part[COLUMNS];
    int block = kind == SUM ? BLOCK : INT32_MAX;
    int64_t r = 0;
    do {
        vf v[4];
        vi bad[4];
        for (int j = 0; j < 4; j++) v[j] = vf_set(nothing(kind)), bad[j] = vi_set(0);
        for (int64_t last = g->gone - r > block ? r + block : g->gone; r < last; r++) {
            const float *row = x + group_at(g->n_gone, g->gone_dim, g->gone_stride, r);
            for (int j = 0; j * LANES < n; j++) {
                int some = n - j * LANES;
                const float *at = row + j * LANES;
                take(kind, some >= LANES ? vf_load(at) : vf_load_n(at, some), &v[j], &bad[j]);
            }
        }
        for (int j = 0; j < 4; j++)
            vf_store(part + j * LANES,
                     kind == SUM ? v[j] : vf_choose(vf_of_bits(bad[j]), vf_set(NAN), v[j]));
        for (int j = 0; j < n; j++) sum[j] = (kind == SUM ? sum[j] : 0) + (double)part[j];
    } while (r < g->gone);
    for (int j = 0; j < n; j++) y[j] = (float)(sum[j] / by);
}

INLINE void fold_items(int kind, zt_cpu_call *c, bool mean, int64_t begin, int64_t end)
{
    groups g = groups_of(&((const zt_sum_attrs *)c->attrs)->axes, &c->in[0].type);
    double by = mean ? (double)g.gone * (double)(g.run_gone ? g.run : 1) : 1;
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    int64_t tiles = tiles_of(&g);
    for (int64_t i = begin; i < end; i++) {
        int64_t o = g.run_gone ? i : i / tiles, at = g.run_gone ? 0 : i % tiles * COLUMNS;
        const float *from = x + group_at(g.n_kept, g.kept_dim, g.kept_stride, o) + at;
        if (!g.run_gone) {
            int n = g.run - at < COLUMNS ? (int)(g.run - at) : COLUMNS;
            fold_columns(kind, &g, from, n, by, y + o * g.run + at);
            continue;
        }
        double sum = (double)nothing(kind);
        for (int64_t r = 0; r < g.gone; r++) {
            int64_t next = group_at(g.n_gone, g.gone_dim, g.gone_stride, r);
            sum = better(kind, sum, fold_run(kind, from + next, g.run));
        }
        y[i] = (float)(sum / by);
    }
}

#define FOLD(NAME, KIND, MEAN)                                                                     \
    static void NAME##_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)     \
    {                                                                                              \
        (void)phase, (void)local;                                                                  \
        fold_items(KIND, c, MEAN, begin, end);                                                     \
    }
FOLD(sum, SUM, false)
FOLD(mean, SUM, true)
FOLD(amax, MOST, false)
FOLD(amin, LEAST, false)

static bool f32_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[0]->dtype == ZT_F32;
}

/* ---- spread: one entry of x an item, or a run of them that stay neighbours ------------------- */

static void spread_setup(zt_cpu_call *c)
{
    groups g = groups_of(&((const zt_spread_attrs *)c->attrs)->axes, &c->out[0].type);
    c->items[0] = g.kept * g.gone;
}

static void spread_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_spread_attrs *a = c->attrs;
    groups g = groups_of(&a->axes, &c->out[0].type);
    double by = a->mean ? (double)g.gone * (double)(g.run_gone ? g.run : 1) : 1;
    (void)phase, (void)local;
    for (int64_t i = begin; i < end; i++) {
        int64_t o = i / g.gone, r = i % g.gone;
        const float *x = (const float *)c->in[0].data + (g.run_gone ? o : o * g.run);
        float *y = (float *)c->out[0].data + group_at(g.n_kept, g.kept_dim, g.kept_stride, o) +
                   group_at(g.n_gone, g.gone_dim, g.gone_stride, r);
        for (int64_t j = 0; j < g.run; j++) y[j] = (float)((double)x[g.run_gone ? 0 : j] / by);
    }
}

static int64_t inner_of(int64_t axis, const zt_type *x)
{
    int64_t inner = 1;
    for (int d = (int)(axis < 0 ? axis + x->rank : axis) + 1; d < x->rank; d++) inner *= x->dim[d];
    return inner;
}

/* ---- softmax and its kin along another axis than the last: LANES neighbours an item ---------- */

/* Entries of a line, floats from one to the next, and items to `inner`. */
enum { L_N, L_INNER, L_TILES };

static void columns_setup(zt_cpu_call *c)
{
    int64_t axis = ((const zt_softmax_attrs *)c->attrs)->axis;
    const zt_type *x = &c->in[0].type;
    c->aux[L_N] = x->dim[axis < 0 ? axis + x->rank : axis];
    c->aux[L_INNER] = inner_of(axis, x);
    c->aux[L_TILES] = (c->aux[L_INNER] + LANES - 1) / LANES;
    int64_t line = c->aux[L_N] * c->aux[L_INNER];
    c->items[0] = line ? zt_type_count(x) / line * c->aux[L_TILES] : 0;
}

/* The largest of each lane's line, and the sum of exp(x - it), in blocks of BLOCK. */
INLINE vf columns_sum(const float *x, int64_t n, int64_t inner, int some, vf *top)
{
    vf sum = vf_set(0);
    *top = vf_set(-INFINITY);
    for (int64_t i = 0; i < n; i++) *top = vf_max(vf_load_n(x + i * inner, some), *top);
    for (int64_t i = 0; i < n;) {
        vf part = vf_set(0);
        for (int64_t last = n - i < BLOCK ? n : i + BLOCK; i < last; i++)
            part = vf_add(part, vf_exp(vf_sub(vf_load_n(x + i * inner, some), *top)));
        sum = vf_add(sum, part);
    }
    return sum;
}

INLINE void columns(bool logs, zt_cpu_call *c, int64_t begin, int64_t end)
{
    int64_t n = c->aux[L_N], inner = c->aux[L_INNER], tiles = c->aux[L_TILES];
    for (int64_t i = begin; i < end; i++) {
        int64_t column = i % tiles * LANES, at = i / tiles * n * inner + column;
        int some = inner - column < LANES ? (int)(inner - column) : LANES;
        const float *x = (const float *)c->in[0].data + at;
        float *y = (float *)c->out[0].data + at, lane[LANES];
        vf top, sum = columns_sum(x, n, inner, some, &top);
        if (logs) {
            vf_store(lane, sum);
            for (int j = 0; j < LANES; j++) lane[j] = logf(lane[j]);
            sum = vf_load(lane);
        }
        for (int64_t k = 0; k < n; k++) {
            vf d = vf_sub(vf_load_n(x + k * inner, some), top);
            vf_store_n(y + k * inner, some, logs ? vf_sub(d, sum) : vf_div(vf_exp(d), sum));
        }
    }
}

static void softmax_columns(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    columns(false, c, begin, end);
}

static void log_softmax_columns(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    columns(true, c, begin, end);
}

/* ---- cumsum: one line an item, in f64 -------------------------------------------------------- */

static void cumsum_setup(zt_cpu_call *c)
{
    const zt_cumsum_attrs *a = c->attrs;
    const zt_type *x = &c->in[0].type;
    int64_t n = x->dim[a->axis < 0 ? a->axis + x->rank : a->axis];
    c->items[0] = n ? zt_type_count(x) / n : 0;
    c->aux[0] = n;
    c->aux[1] = inner_of(a->axis, x);
}

static void cumsum_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_cumsum_attrs *a = c->attrs;
    int64_t n = c->aux[0], inner = c->aux[1];
    (void)phase, (void)local;
    for (int64_t l = begin; l < end; l++) {
        int64_t at = l / inner * n * inner + l % inner, step = a->reverse ? -inner : inner;
        if (a->reverse) at += (n - 1) * inner;
        double sum = 0;
        for (int64_t i = 0; i < n; i++, at += step) {
            double x = (double)((const float *)c->in[0].data)[at];
            ((float *)c->out[0].data)[at] = (float)(a->exclusive ? sum : sum + x);
            sum += x;
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_reduce)[] = {
    {.op = ZT_OP_argmax, .has = last_has, .setup = rows_setup, .run = argmax_run},
    {.op = ZT_OP_argmin, .has = last_has, .setup = rows_setup, .run = argmin_run},
    {.op = ZT_OP_softmax, .has = last_has, .setup = softmax_setup, .run = softmax_run},
    {.op = ZT_OP_softmax, .has = f32_has, .setup = columns_setup, .run = softmax_columns},
    {.op = ZT_OP_log_softmax, .has = last_has, .setup = past_setup, .run = log_softmax_run},
    {.op = ZT_OP_log_softmax, .has = f32_has, .setup = columns_setup, .run = log_softmax_columns},
    {.op = ZT_OP_logsumexp, .has = last_only_has, .setup = past_setup, .run = logsumexp_run},
    {.op = ZT_OP_sum, .has = f32_has, .setup = groups_setup, .run = sum_run},
    {.op = ZT_OP_mean, .has = f32_has, .setup = groups_setup, .run = mean_run},
    {.op = ZT_OP_amax, .has = f32_has, .setup = groups_setup, .run = amax_run},
    {.op = ZT_OP_amin, .has = f32_has, .setup = groups_setup, .run = amin_run},
    {.op = ZT_OP_spread, .has = f32_has, .setup = spread_setup, .run = spread_run},
    {.op = ZT_OP_cumsum, .has = f32_has, .setup = cumsum_setup, .run = cumsum_run},
    {0},
};
