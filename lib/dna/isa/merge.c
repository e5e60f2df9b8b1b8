/* merge.c - the loops of merging, compiled once for each instruction set.
 *
 * What is done to a value is the same in lanes and in the rest behind them, and nothing is fused:
 * the same bits everywhere. dot adds in sixteen f64 lanes, whatever the registers.
 */
#include "lib/dna/merge_internal.h"
#include "lib/tensor/isa/lanes.h"

#include <math.h>

#define CAT_(a, b) a##_##b
#define CAT(a, b)  CAT_(a, b)

typedef float v8 __attribute__((vector_size(32)));
typedef double d8 __attribute__((vector_size(64)));

static void combine(float *y, const float *const *x, const float *c, int k, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf sum = vf_load(x[0] + i) * c[0];
        for (int j = 1; j < k; j++) sum += vf_load(x[j] + i) * c[j];
        vf_store(y + i, sum);
    }
    for (; i < n; i++) {
        float sum = x[0][i] * c[0];
        for (int j = 1; j < k; j++) sum += x[j][i] * c[j];
        y[i] = sum;
    }
}

static void combine_from(float *y, const float *b, const float *const *x, const float *c, int k,
                         int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf from = vf_load(b + i), sum = vf_set(0);
        for (int j = 0; j < k; j++) sum += (vf_load(x[j] + i) - from) * c[j];
        vf_store(y + i, from + sum);
    }
    for (; i < n; i++) {
        float sum = 0;
        for (int j = 0; j < k; j++) sum += (x[j][i] - b[i]) * c[j];
        y[i] = b[i] + sum;
    }
}

static void combine_on(float *y, const float *b, float *const *d, const float *c, int k, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf sum = vf_set(0);
        for (int j = 0; j < k; j++) sum += vf_load(d[j] + i) * c[j];
        vf_store(y + i, vf_load(b + i) + sum);
    }
    for (; i < n; i++) {
        float sum = 0;
        for (int j = 0; j < k; j++) sum += d[j][i] * c[j];
        y[i] = b[i] + sum;
    }
}

static void subtract(float *d, const float *x, const float *b, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(d + i, vf_load(x + i) - vf_load(b + i));
    for (; i < n; i++) d[i] = x[i] - b[i];
}

static void add(float *y, const float *x, float c, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(y + i, vf_load(y + i) + vf_load(x + i) * c);
    for (; i < n; i++) y[i] += x[i] * c;
}

INLINE d8 wide(const float *p)
{
    v8 a;
    memcpy(&a, p, sizeof a);
    return __builtin_convertvector(a, d8);
}

static double dot(const float *x, const float *y, int64_t n)
{
    d8 a = {0}, b = {0};
    double lane[16], rest = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        a += wide(x + i) * wide(y + i);
        b += wide(x + i + 8) * wide(y + i + 8);
    }
    for (; i < n; i++) rest += (double)x[i] * y[i];
    memcpy(lane, &a, sizeof a);
    memcpy(lane + 8, &b, sizeof b);
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0] + rest;
}

static void keep(float *d, float lo, float hi, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf v = vf_load(d + i), a = vf_abs(v);
        vf_store(d + i, vf_choose((a >= lo) & (a <= hi), v, vf_set(0)));
    }
    for (; i < n; i++) d[i] = fabsf(d[i]) >= lo && fabsf(d[i]) <= hi ? d[i] : 0;
}

/* One value; the lanes do the same. */
INLINE float agreed(float b, float *const *d, const float *w, int k, bool normalize, float scale,
                    int64_t i)
{
    float sum = 0, some = 0, of = 0;
    for (int j = 0; j < k; j++) sum += d[j][i] * w[j];
    for (int j = 0; j < k; j++) {
        float t = d[j][i] * w[j];
        bool with = sum >= 0 ? t > 0 : t < 0;
        some += with ? t : 0;
        of += with ? w[j] : 0;
    }
    if (normalize) some = some / (of == 0 ? 1 : of);
    return b + some * scale;
}

static void consensus(float *y, const float *b, float *const *d, const float *w, int k,
                      bool normalize, float scale, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf sum = vf_set(0), some = sum, of = sum;
        for (int j = 0; j < k; j++) sum += vf_load(d[j] + i) * w[j];
        vi up = sum >= 0;
        for (int j = 0; j < k; j++) {
            vf t = vf_load(d[j] + i) * w[j];
            vi with = (up & (t > 0)) | (~up & (t < 0));
            some += vf_choose(with, t, vf_set(0));
            of += vf_choose(with, vf_set(w[j]), vf_set(0));
        }
        if (normalize) some = some / vf_choose(of == 0, vf_set(1), of);
        vf_store(y + i, vf_load(b + i) + some * scale);
    }
    for (; i < n; i++) y[i] = agreed(b[i], d, w, k, normalize, scale, i);
}

static void nearswap(float *y, const float *a, const float *b, float t, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf p = vf_load(a + i), q = vf_load(b + i), far = vf_abs(p - q);
        vf w = vf_between(t / vf_choose(far < 1e-6f, vf_set(1e-6f), far), 0, 1);
        vf_store(y + i, w * q + (1 - w) * p);
    }
    for (; i < n; i++) {
        float far = fabsf(a[i] - b[i]), w = t / (far < 1e-6f ? 1e-6f : far);
        w = w > 0 ? w : 0;
        w = w < 1 ? w : 1;
        y[i] = w * b[i] + (1 - w) * a[i];
    }
}

const merge_loops CAT(zt_merge_loops, ZT_ISA) = {
    .combine = combine,
    .combine_from = combine_from,
    .combine_on = combine_on,
    .subtract = subtract,
    .add = add,
    .dot = dot,
    .keep = keep,
    .consensus = consensus,
    .nearswap = nearswap,
};
