/* norm_channels.c - kernels of normalisation by channels, x [N,C,...].
 *
 * A plane is one channel of one sample. Sums are of planes first, in f32 over PIECE elements and in
 * f64 over pieces; what is normalised together then adds its planes, in order.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

enum { PIECE = 2048 };
enum { AUX_N, AUX_C, AUX_SIZE, AUX_GROUPS }; /* groups of a sample; 0: a channel of all samples */

static bool channels_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

/* Shared: two f64 a plane. */
static void sizes(zt_cpu_call *call, int64_t groups)
{
    const zt_type *x = &call->in[0].type;
    int64_t size = 1, N = x->dim[0], C = x->dim[1];
    if (!zt_type_count(x)) { /* statistics alone: of a channel a group */
        size = 0;
        if (groups)
            C = groups;
        else
            N = 0;
    }
    for (int d = 2; d < x->rank && size; d++) size *= x->dim[d];
    call->aux[AUX_N] = N;
    call->aux[AUX_C] = C;
    call->aux[AUX_SIZE] = size;
    call->aux[AUX_GROUPS] = groups;
    call->shared_bytes = (size_t)(2 * N * C) * sizeof(double);
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* The sums over a plane of (x - from)^power dy; dy NULL: 1. */
INLINE double plane_sum(const float *x, const float *dy, int64_t size, float from, int power)
{
    double total = 0;
    vf around = vf_set(from);
    for (int64_t at = 0; at < size; at += PIECE) {
        int64_t end = at + PIECE < size ? at + PIECE : size;
        vf sum = vf_set(0);
        for (int64_t i = at; i < end; i += LANES) {
            int n = end - i < LANES ? (int)(end - i) : LANES;
            vf v = dy ? vf_load_n(dy + i, n) : vf_set(0);
            if (power) {
                vf d = vf_first(n, vf_sub(vf_load_n(x + i, n), around), vf_set(0));
                v = dy ? vf_mul(v, d) : power == 2 ? vf_mul(d, d) : d;
            }
            sum = vf_add(sum, v);
        }
        total += (double)vf_sum(sum);
    }
    return total;
}

/* The sum of what planes have at `which` (0 or 1) over those normalised with plane (n, ch); each
 * times its channel's `by` where that is there. */
static double set_sum(const zt_cpu_call *call, int64_t n, int64_t ch, int which, const float *by)
{
    const double *sums = call->shared;
    int64_t N = call->aux[AUX_N], C = call->aux[AUX_C], groups = call->aux[AUX_GROUPS];
    double sum = 0;
    if (!groups) {
        for (int64_t i = 0; i < N; i++) sum += sums[2 * (i * C + ch) + which];
        return by ? sum * (double)by[ch] : sum;
    }
    int64_t of = C / groups, first = ch / of * of;
    for (int64_t k = first; k < first + of; k++) sum += sums[2 * (n * C + k) + which] * (by ? (double)by[k] : 1);
    return sum;
}

static double set_count(const zt_cpu_call *call)
{
    int64_t groups = call->aux[AUX_GROUPS];
    return (double)(call->aux[AUX_SIZE] * (groups ? call->aux[AUX_C] / groups : call->aux[AUX_N]));
}

static double set_mean(const zt_cpu_call *call, int64_t n, int64_t ch)
{
    double count = set_count(call);
    return count > 0 ? set_sum(call, n, ch, 0, NULL) / count : 0;
}

static double set_squares(const zt_cpu_call *call, int64_t n, int64_t ch) { return set_sum(call, n, ch, 1, NULL); }

/* y = (x - mean) by + plus */
static void plane_norm(const float *x, float *y, int64_t size, float mean, float by, float plus)
{
    vf m = vf_set(mean), k = vf_set(by), b = vf_set(plus);
    for (int64_t i = 0; i < size; i += LANES) {
        int n = size - i < LANES ? (int)(size - i) : LANES;
        vf_store_n(y + i, n, vf_fma(vf_sub(vf_load_n(x + i, n), m), k, b));
    }
}

static float channel(const zt_cpu_arg *arg, int64_t ch, float otherwise)
{
    return arg->data ? ((const float *)arg->data)[ch] : otherwise;
}

/* ---- batch_norm, group_norm ------------------------------------------------------------------ */

static void forward_setup(zt_cpu_call *call)
{
    const zt_group_norm_attrs *group_norm = call->attrs;
    int64_t groups = call->kernel->op == ZT_OP_group_norm ? group_norm->groups : 0;
    sizes(call, groups);
    call->n_phases = 3;
    call->items[0] = call->items[1] = call->items[2] = call->aux[AUX_N] * call->aux[AUX_C];
    if (!groups && !call->aux[AUX_N]) call->items[2] = call->aux[AUX_C]; /* statistics */
}

static void batch_statistics(const zt_cpu_call *call, int64_t ch, double mean, double rstd)
{
    const zt_batch_norm_attrs *batch_norm = call->attrs;
    double count = set_count(call), m = batch_norm->momentum, over = batch_norm->unbiased && count > 1 ? count - 1 : count;
    double var = count > 0 ? set_squares(call, 0, ch) / over : 0;
    double was[2] = {(double)channel(&call->in[3], ch, 0), (double)channel(&call->in[4], ch, 1)};
    double value[4] = {mean, rstd, (1 - m) * was[0] + m * mean, (1 - m) * was[1] + m * var};
    for (int k = 0; k < 4; k++)
        if (call->out[k + 1].data) ((float *)call->out[k + 1].data)[ch] = (float)value[k];
}

static void forward_finish(const zt_cpu_call *call, int64_t plane)
{
    int64_t C = call->aux[AUX_C], size = call->aux[AUX_SIZE], groups = call->aux[AUX_GROUPS];
    int64_t n = plane / C, ch = plane % C;
    const zt_batch_norm_attrs *batch = call->attrs;
    const zt_group_norm_attrs *group = call->attrs;
    double count = set_count(call), mean = set_mean(call, n, ch);
    double var = count > 0 ? set_squares(call, n, ch) / count : 0;
    double rstd = 1 / sqrt(var + (groups ? group->eps : batch->eps));
    if (!groups && n == 0) batch_statistics(call, ch, mean, rstd);
    if (groups && ch % (C / groups) == 0) {
        int64_t at = n * groups + ch / (C / groups);
        if (call->out[1].data) ((float *)call->out[1].data)[at] = (float)mean;
        if (call->out[2].data) ((float *)call->out[2].data)[at] = (float)rstd;
    }
    if (!call->out[0].data || n >= call->aux[AUX_N] || !size) return;
    plane_norm((const float *)call->in[0].data + plane * size, (float *)call->out[0].data + plane * size, size, (float)mean,
               (float)(rstd * (double)channel(&call->in[1], ch, 1)), channel(&call->in[2], ch, 0));
}

static void forward_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t C = call->aux[AUX_C], size = call->aux[AUX_SIZE];
    double *sums = call->shared;
    (void)local;
    for (int64_t i = begin; i < end; i++) {
        const float *x = (const float *)call->in[0].data + i * size;
        if (phase == 0) sums[2 * i] = plane_sum(x, NULL, size, 0, 1);
        if (phase == 1) sums[2 * i + 1] = plane_sum(x, NULL, size, (float)set_mean(call, i / C, i % C), 2);
        if (phase == 2) forward_finish(call, i);
    }
}

/* ---- batch_norm_inference -------------------------------------------------------------------- */

static void inference_setup(zt_cpu_call *call)
{
    sizes(call, 0);
    call->shared_bytes = 0;
    call->items[0] = call->aux[AUX_N] * call->aux[AUX_C];
}

static void inference_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_batch_norm_inference_attrs *batch_norm_inference = call->attrs;
    int64_t C = call->aux[AUX_C], size = call->aux[AUX_SIZE];
    (void)phase, (void)local;
    for (int64_t i = begin; i < end; i++) {
        double rstd = 1 / sqrt((double)channel(&call->in[2], i % C, 0) + batch_norm_inference->eps);
        plane_norm((const float *)call->in[0].data + i * size, (float *)call->out[0].data + i * size, size,
                   channel(&call->in[1], i % C, 0), (float)(rstd * (double)channel(&call->in[3], i % C, 1)),
                   channel(&call->in[4], i % C, 0));
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void back_setup(zt_cpu_call *call)
{
    bool group = call->kernel->op == ZT_OP_group_norm_backward;
    sizes(call, group ? call->in[1].type.dim[1] : 0);
    call->n_phases = 3;
    if (!call->aux[AUX_SIZE]) { /* dg and db alone, 0 */
        call->aux[AUX_N] = 0;
        call->aux[AUX_C] = call->in[0].type.dim[1];
        call->shared_bytes = 0;
    }
    call->items[0] = call->items[2] = call->aux[AUX_N] * call->aux[AUX_C];
    call->items[1] = call->aux[AUX_C];
}

/* Where the statistics of a plane are. */
static int64_t stat_at(const zt_cpu_call *call, int64_t plane)
{
    int64_t C = call->aux[AUX_C], groups = call->aux[AUX_GROUPS];
    return groups ? plane / C * groups + plane % C / (C / groups) : plane % C;
}

/* dx = dy a + (x - mean) b + k */
static void plane_back(const float *x, const float *dy, float *dx, int64_t size, float mean, const float by[3])
{
    vf m = vf_set(mean), a = vf_set(by[0]), b = vf_set(by[1]), k = vf_set(by[2]);
    for (int64_t i = 0; i < size; i += LANES) {
        int n = size - i < LANES ? (int)(size - i) : LANES;
        vf v = vf_fma(vf_sub(vf_load_n(x + i, n), m), b, k);
        vf_store_n(dx + i, n, vf_fma(vf_load_n(dy + i, n), a, v));
    }
}

static void back_finish(const zt_cpu_call *call, int64_t plane)
{
    int64_t C = call->aux[AUX_C], size = call->aux[AUX_SIZE], ch = plane % C, at = stat_at(call, plane);
    const zt_batch_norm_backward_attrs *batch_norm_backward = call->attrs;
    double rstd = (double)((const float *)call->in[2].data)[at], m = set_count(call);
    float by[3] = {(float)(rstd * (double)channel(&call->in[4], ch, 1)), 0, 0};
    if (call->aux[AUX_GROUPS] || batch_norm_backward->training) {
        by[1] = (float)(-rstd * rstd * set_sum(call, plane / C, ch, 1, call->in[4].data) / m);
        by[2] = (float)(-rstd * set_sum(call, plane / C, ch, 0, call->in[4].data) / m);
    }
    if (call->out[0].data)
        plane_back((const float *)call->in[0].data + plane * size, (const float *)call->in[3].data + plane * size,
                   (float *)call->out[0].data + plane * size, size, ((const float *)call->in[1].data)[at], by);
}

/* A channel's dg and db, over the samples. */
static void back_channel(const zt_cpu_call *call, int64_t ch)
{
    const double *sums = call->shared;
    double total[2] = {0, 0};
    for (int64_t n = 0; n < call->aux[AUX_N]; n++)
        for (int k = 0; k < 2; k++) total[k] += sums[2 * (n * call->aux[AUX_C] + ch) + k];
    if (call->out[1].data) ((float *)call->out[1].data)[ch] = (float)total[1];
    if (call->out[2].data) ((float *)call->out[2].data)[ch] = (float)total[0];
}

static void back_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t size = call->aux[AUX_SIZE];
    double *sums = call->shared;
    const float *mean = call->in[1].data, *rstd = call->in[2].data;
    (void)local;
    for (int64_t i = begin; i < end; i++) {
        const float *x = (const float *)call->in[0].data + i * size;
        const float *dy = (const float *)call->in[3].data + i * size;
        if (phase == 0) {
            int64_t at = stat_at(call, i);
            sums[2 * i] = plane_sum(x, dy, size, 0, 0);
            sums[2 * i + 1] = plane_sum(x, dy, size, mean[at], 1) * (double)rstd[at];
        }
        if (phase == 1) back_channel(call, i);
        if (phase == 2) back_finish(call, i);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_norm_channels)[] = {
    {.op = ZT_OP_batch_norm, .has = channels_has, .setup = forward_setup, .run = forward_run},
    {.op = ZT_OP_group_norm, .has = channels_has, .setup = forward_setup, .run = forward_run},
    {.op = ZT_OP_batch_norm_inference, .has = channels_has, .setup = inference_setup, .run = inference_run},
    {.op = ZT_OP_batch_norm_backward, .has = channels_has, .setup = back_setup, .run = back_run},
    {.op = ZT_OP_group_norm_backward, .has = channels_has, .setup = back_setup, .run = back_run},
    {0},
};
