/* loss.c - kernels of losses: what each element or position gives, in blocks that leave sums, then
 * the sums of blocks in order.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

enum { PIECE = 4096 };

static bool loss_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

/* ---- values and targets ---------------------------------------------------------------------- */

enum { MEAN = 'm', NONE = 'n' };

static int reduction_of(const zt_cpu_call *call)
{
    zt_op op = call->kernel->op;
    return op == ZT_OP_mse         ? ((const zt_mse_attrs *)call->attrs)->reduction.s[0]
           : op == ZT_OP_smooth_l1 ? ((const zt_smooth_l1_attrs *)call->attrs)->reduction.s[0]
                                   : ((const zt_bce_with_logits_attrs *)call->attrs)->reduction.s[0];
}

static void pair_setup(zt_cpu_call *call)
{
    int64_t n = zt_type_count(&call->in[0].type), blocks = (n + PIECE - 1) / PIECE;
    bool none = reduction_of(call) == NONE;
    call->n_phases = none ? 1 : 2;
    call->items[0] = blocks;
    call->items[1] = 1;
    call->shared_bytes = (size_t)blocks * sizeof(double);
}

INLINE vf mse_of(vf x, vf t, float p)
{
    (void)p;
    vf d = vf_sub(x, t);
    return vf_mul(d, d);
}

/* m (|d| - m/2) / beta with m = min(|d|, beta) */
INLINE vf smooth_of(vf x, vf t, float beta)
{
    vf d = vf_abs(vf_sub(x, t)), m = vf_min(vf_set(beta), d);
    vf y = vf_mul(m, vf_sub(d, vf_mul(m, vf_set(0.5f))));
    return vf_mul(y, vf_set(1 / beta));
}

/* ln(1 + e), e from 0 to 1, as 2 atanh(s) with s = e / (2 + e) <= 1/3: what is left out is below
 * 2e-8 of it. */
INLINE vf log1p_small(vf e)
{
    vf s = vf_div(e, vf_add(vf_set(2), e)), z = vf_mul(s, s), p = vf_set(1 / 15.0f);
    UNROLL_FOR (int i = 13; i > 0; i -= 2) p = vf_fma(p, z, vf_set(1 / (float)i));
    return vf_mul(vf_add(s, s), p);
}

INLINE vf bce_of(vf x, vf t, float p)
{
    (void)p;
    vf zero = vf_set(0), tail = log1p_small(vf_exp(vf_sub(zero, vf_abs(x))));
    return vf_add(vf_sub(vf_max(x, zero), vf_mul(x, t)), tail);
}

typedef vf pair_fn(vf x, vf t, float p);

INLINE double pair_block(const float *x, const float *t, float *y, int64_t n, pair_fn *f, float p)
{
    vf sum = vf_set(0);
    for (int64_t i = 0; i < n; i += LANES) {
        int k = n - i < LANES ? (int)(n - i) : LANES;
        vf v = f(vf_load_n(x + i, k), vf_load_n(t + i, k), p);
        if (y)
            vf_store_n(y + i, k, v);
        else
            sum = vf_add(sum, vf_first(k, v, vf_set(0)));
    }
    return (double)vf_sum(sum);
}

static void pair_item(const zt_cpu_call *call, int64_t item)
{
    int64_t count = zt_type_count(&call->in[0].type), at = item * PIECE;
    int64_t n = count - at < PIECE ? count - at : PIECE;
    const float *x = (const float *)call->in[0].data + at, *t = (const float *)call->in[1].data + at;
    float *y = reduction_of(call) == NONE ? (float *)call->out[0].data + at : NULL;
    const zt_smooth_l1_attrs *smooth_l1 = call->attrs;
    double *sum = (double *)call->shared + item;
    if (call->kernel->op == ZT_OP_mse) *sum = pair_block(x, t, y, n, mse_of, 0);
    if (call->kernel->op == ZT_OP_smooth_l1) *sum = pair_block(x, t, y, n, smooth_of, (float)smooth_l1->beta);
    if (call->kernel->op == ZT_OP_bce_with_logits) *sum = pair_block(x, t, y, n, bce_of, 0);
}

static void pair_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)local;
    for (int64_t i = begin; i < end; i++) {
        if (phase == 0) {
            pair_item(call, i);
            continue;
        }
        double sum = 0, n = (double)zt_type_count(&call->in[0].type);
        for (int64_t k = 0; k < call->items[0]; k++) sum += ((double *)call->shared)[k];
        *(float *)call->out[0].data = (float)(reduction_of(call) == MEAN ? sum / n : sum);
    }
}

/* ---- classes --------------------------------------------------------------------------------- */

/* A block is up to LANES positions: of one sample side by side, or where each sample is one
 * position (inner 1) of as many samples. */
enum { AUX_N, AUX_C, AUX_INNER, AUX_BLOCKS, AUX_REDUCTION, AUX_IGNORE };

/* Where inputs are, and the smoothing; of gradients lse and dy too (below 0: none). */
typedef struct class_op {
    int weight, lse, dy;
    double smoothing;
} class_op;

static class_op class_op_of(const zt_cpu_call *call)
{
    const zt_cross_entropy_attrs *cross_entropy = call->attrs; /* the gradient's are the same */
    if (call->kernel->op == ZT_OP_cross_entropy) return (class_op){2, -1, -1, cross_entropy->label_smoothing};
    if (call->kernel->op == ZT_OP_cross_entropy_backward) return (class_op){4, 2, 3, cross_entropy->label_smoothing};
    if (call->kernel->op == ZT_OP_nll) return (class_op){2, -1, -1, 0};
    return (class_op){3, -1, 2, 0};
}

static void class_sizes(zt_cpu_call *call)
{
    const zt_type *x = &call->in[0].type;
    const zt_nll_attrs *nll = call->attrs; /* all begin with reduction and ignore_index */
    int64_t N = x->dim[0], inner = N ? zt_type_count(&call->in[1].type) / N : 0;
    call->aux[AUX_N] = N;
    call->aux[AUX_C] = x->dim[1];
    call->aux[AUX_INNER] = inner;
    call->aux[AUX_BLOCKS] = inner == 1 ? (N + LANES - 1) / LANES : N * ((inner + LANES - 1) / LANES);
    call->aux[AUX_REDUCTION] = nll->reduction.s[0];
    call->aux[AUX_IGNORE] = nll->ignore_index;
}

static void class_setup(zt_cpu_call *call)
{
    class_sizes(call);
    call->n_phases = call->aux[AUX_REDUCTION] == NONE ? 1 : 2;
    call->items[0] = call->aux[AUX_BLOCKS];
    call->items[1] = 1;
    call->shared_bytes = (size_t)(2 * call->aux[AUX_BLOCKS]) * sizeof(double); /* losses and weights */
}

/* Positions at.. of a block, n of them; element `first` of x is class 0 of the first. */
typedef struct block {
    int64_t at, first;
    int n;
} block;

static block block_of(const zt_cpu_call *call, int64_t item)
{
    int64_t N = call->aux[AUX_N], C = call->aux[AUX_C], inner = call->aux[AUX_INNER];
    if (inner == 1) {
        int64_t at = item * LANES;
        return (block){at, at * C, N - at < LANES ? (int)(N - at) : LANES};
    }
    int64_t across = (inner + LANES - 1) / LANES, n = item / across, i = item % across * LANES;
    return (block){n * inner + i, n * C * inner + i, inner - i < LANES ? (int)(inner - i) : LANES};
}

static int64_t class_at(zt_cpu_call *call, int64_t i)
{
    int64_t t = ((const int32_t *)call->in[1].data)[i];
    if (t == call->aux[AUX_IGNORE]) return -1;
    if (t >= 0 && t < call->aux[AUX_C]) return t;
    zt_cpu_runtime_error(call, "target", t, call->aux[AUX_C]);
    return -1;
}

/* Element of x for position k of a block and a class. */
static int64_t element_at(const zt_cpu_call *call, const block *b, int k, int64_t class)
{
    int64_t C = call->aux[AUX_C], inner = call->aux[AUX_INNER];
    return b->first + (inner == 1 ? k * C : k) + class * inner;
}

static float weight_at(const float *weight, int64_t class) { return weight ? weight[class] : 1; }

/* One line of C neighbours: ln sum exp(x), and sum weight x where `weighed` is there. */
static float line_lse(const float *x, int64_t C, const float *weight, float *weighed)
{
    vf top = vf_set(-INFINITY), sum = vf_set(0), wx = vf_set(0);
    for (int64_t i = 0; i < C; i += LANES) {
        int n = C - i < LANES ? (int)(C - i) : LANES;
        vf v = vf_load_n(x + i, n), w = weight ? vf_load_n(weight + i, n) : vf_set(1);
        top = vf_max(vf_first(n, v, top), top);
        wx = vf_fma(v, w, wx); /* v is 0 past the end */
    }
    float most = vf_top(top);
    for (int64_t i = 0; i < C; i += LANES) {
        int n = C - i < LANES ? (int)(C - i) : LANES;
        vf e = vf_exp(vf_sub(vf_load_n(x + i, n), vf_set(most)));
        sum = vf_add(sum, vf_first(n, e, vf_set(0)));
    }
    *weighed = vf_sum(wx);
    return (float)((double)most + log((double)vf_sum(sum)));
}

/* n lines side by side, whose classes are `step` apart. */
static void lanes_lse(const float *x, int64_t C, int64_t step, int n, const float *weight, float *lse, float *weighed)
{
    vf top = vf_set(-INFINITY), sum = vf_set(0), wx = vf_set(0);
    float most[LANES], sums[LANES];
    for (int64_t i = 0; i < C; i++) {
        vf v = vf_load_n(x + i * step, n);
        top = vf_max(v, top);
        wx = vf_fma(v, vf_set(weight_at(weight, i)), wx);
    }
    for (int64_t i = 0; i < C; i++) sum = vf_add(sum, vf_exp(vf_sub(vf_load_n(x + i * step, n), top)));
    vf_store(most, top);
    vf_store(sums, sum);
    vf_store_n(weighed, n, wx);
    for (int k = 0; k < n; k++) lse[k] = (float)((double)most[k] + log((double)sums[k]));
}

static double all_weights(const float *weight, int64_t C)
{
    double sum = 0;
    for (int64_t i = 0; i < C; i++) sum += (double)weight_at(weight, i);
    return sum;
}

static void class_block(zt_cpu_call *call, int64_t item)
{
    class_op o = class_op_of(call);
    block b = block_of(call, item);
    const float *x = call->in[0].data, *weight = call->in[o.weight].data;
    float lse[LANES] = {0}, weighed[LANES], *y = call->out[0].data;
    int64_t C = call->aux[AUX_C];
    bool nll = call->kernel->op == ZT_OP_nll;
    double total = 0, weights = 0, even = o.smoothing / (double)C;
    double all = o.smoothing > 0 ? all_weights(weight, C) : 0;
    for (int k = 0; k < b.n && call->aux[AUX_INNER] == 1 && !nll; k++)
        lse[k] = line_lse(x + b.first + k * C, C, weight, &weighed[k]);
    if (call->aux[AUX_INNER] != 1 && !nll) lanes_lse(x + b.first, C, call->aux[AUX_INNER], b.n, weight, lse, weighed);
    if (!nll && call->out[1].data) memcpy((float *)call->out[1].data + b.at, lse, (size_t)b.n * sizeof *lse);
    for (int k = 0; k < b.n; k++) {
        int64_t t = class_at(call, b.at + k);
        double loss = 0, w = t < 0 ? 0 : (double)weight_at(weight, t), l = (double)lse[k];
        if (t >= 0) loss = (1 - o.smoothing) * w * (l - (double)x[element_at(call, &b, k, t)]);
        if (t >= 0 && o.smoothing > 0) loss += even * (all * l - (double)weighed[k]);
        if (call->aux[AUX_REDUCTION] == NONE) y[b.at + k] = (float)loss;
        total += loss;
        weights += w;
    }
    ((double *)call->shared)[2 * item] = total;
    ((double *)call->shared)[2 * item + 1] = weights;
}

static void class_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)local;
    for (int64_t i = begin; i < end; i++) {
        if (phase == 0) {
            class_block(call, i);
            continue;
        }
        double sum = 0, weights = 0;
        for (int64_t k = 0; k < call->aux[AUX_BLOCKS]; k++) {
            sum += ((double *)call->shared)[2 * k];
            weights += ((double *)call->shared)[2 * k + 1];
        }
        *(float *)call->out[0].data = (float)(call->aux[AUX_REDUCTION] == MEAN ? sum / weights : sum);
    }
}

/* ---- gradients of classes -------------------------------------------------------------------- */

static void back_setup(zt_cpu_call *call)
{
    class_sizes(call);
    call->n_phases = 2;
    call->items[0] = 1;
    call->items[1] = call->aux[AUX_BLOCKS];
    call->shared_bytes = 2 * sizeof(double); /* the targets' weights, and all classes' */
}

static void sum_weights(zt_cpu_call *call)
{
    class_op o = class_op_of(call);
    const float *weight = call->in[o.weight].data;
    double *sums = call->shared;
    sums[0] = 0;
    for (int64_t i = 0; i < call->aux[AUX_N] * call->aux[AUX_INNER]; i++) {
        int64_t t = class_at(call, i);
        if (t >= 0) sums[0] += (double)weight_at(weight, t);
    }
    sums[1] = all_weights(weight, call->aux[AUX_C]);
}

/* dx = a exp(x - lse) - b weight; a and b of a line, or of a lane each. */
INLINE vf slope(vf x, vf lse, vf a, vf b, vf weight) { return vf_sub(vf_mul(a, vf_exp(vf_sub(x, lse))), vf_mul(b, weight)); }

static void entropy_lines(const zt_cpu_call *call, const block *b, const float *weight, const float *lse, const float *by_p,
                          const float *by_w)
{
    int64_t C = call->aux[AUX_C];
    for (int k = 0; k < b->n; k++) {
        const float *x = (const float *)call->in[0].data + b->first + k * C;
        float *dx = (float *)call->out[0].data + b->first + k * C;
        for (int64_t i = 0; i < C; i += LANES) {
            int n = C - i < LANES ? (int)(C - i) : LANES;
            vf w = weight ? vf_load_n(weight + i, n) : vf_set(1);
            vf_store_n(dx + i, n, slope(vf_load_n(x + i, n), vf_set(lse[k]), vf_set(by_p[k]), vf_set(by_w[k]), w));
        }
    }
}

static void entropy_lanes(const zt_cpu_call *call, const block *b, const float *weight, const float *lse, const float *by_p,
                          const float *by_w)
{
    const float *x = (const float *)call->in[0].data + b->first;
    float *dx = (float *)call->out[0].data + b->first;
    vf l = vf_load_n(lse, b->n), p = vf_load(by_p), w = vf_load(by_w);
    for (int64_t i = 0; i < call->aux[AUX_C]; i++, x += call->aux[AUX_INNER], dx += call->aux[AUX_INNER])
        vf_store_n(dx, b->n, slope(vf_load_n(x, b->n), l, p, w, vf_set(weight_at(weight, i))));
}

static void clear_block(const zt_cpu_call *call, const block *b)
{
    float *dx = call->out[0].data;
    for (int64_t i = 0; i < call->aux[AUX_C]; i++)
        for (int k = 0; k < b->n; k++) dx[element_at(call, b, k, i)] = 0;
}

static void back_block(zt_cpu_call *call, int64_t item)
{
    class_op o = class_op_of(call);
    block b = block_of(call, item);
    const float *weight = call->in[o.weight].data, *dy = call->in[o.dy].data;
    const double *sums = call->shared;
    float by_p[LANES] = {0}, by_w[LANES] = {0}, at_target[LANES] = {0}, *dx = call->out[0].data;
    int64_t target[LANES], reduction = call->aux[AUX_REDUCTION];
    for (int k = 0; k < b.n; k++) {
        target[k] = class_at(call, b.at + k);
        if (target[k] < 0) continue;
        double d = (double)(reduction == NONE ? dy[b.at + k] : dy[0]);
        if (reduction == MEAN) d /= sums[0];
        double w = d * (1 - o.smoothing) * (double)weight_at(weight, target[k]);
        double even = d * o.smoothing / (double)call->aux[AUX_C];
        at_target[k] = (float)w;
        by_p[k] = (float)(w + even * sums[1]);
        by_w[k] = (float)even;
    }
    if (o.lse < 0)
        clear_block(call, &b);
    else if (call->aux[AUX_INNER] == 1)
        entropy_lines(call, &b, weight, (const float *)call->in[o.lse].data + b.at, by_p, by_w);
    else
        entropy_lanes(call, &b, weight, (const float *)call->in[o.lse].data + b.at, by_p, by_w);
    for (int k = 0; k < b.n; k++)
        if (target[k] >= 0) dx[element_at(call, &b, k, target[k])] -= at_target[k];
}

static void back_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)local;
    for (int64_t i = begin; i < end; i++) {
        if (phase == 0)
            sum_weights(call);
        else
            back_block(call, i);
    }
}

#define PAIR(OP)                                                                                                                 \
    {                                                                                                                            \
        .op = ZT_OP_##OP, .has = loss_has, .setup = pair_setup, .run = pair_run                                                  \
    }
#define CLASS(OP)                                                                                                                \
    {                                                                                                                            \
        .op = ZT_OP_##OP, .has = loss_has, .setup = class_setup, .run = class_run                                                \
    }
#define BACK(OP)                                                                                                                 \
    {                                                                                                                            \
        .op = ZT_OP_##OP, .has = loss_has, .setup = back_setup, .run = back_run                                                  \
    }
const zt_cpu_kernel ZT_SYM(zt_cpu_loss)[] = {
    PAIR(mse),
    PAIR(smooth_l1),
    PAIR(bce_with_logits),
    CLASS(cross_entropy),
    CLASS(nll),
    BACK(cross_entropy_backward),
    BACK(nll_backward),
    {0},
};
