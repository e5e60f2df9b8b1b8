/* simd.c - the CPU kernels called one by one on each instruction set: functions over all of their
 * range, halves of every pattern, one tree of sums, what is out of range. (tests/engine/conformance.c has
 * every op's cases against ref, through the engine; attention is simd_attention.c's.)
 */
#include "tests/engine/kernel_call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- functions ------------------------------------------------------------------------------- */

enum { POINTS = 1 << 16 };

static void unary(const isa *s, zt_op op, const void *attrs, const float *x, float *y)
{
    zt_cpu_call c = {.attrs = attrs, .in = {arg(ZT_F32, 1, POINTS, 0, x)}};
    c.out[0] = arg(ZT_F32, 1, POINTS, 0, y);
    call(s, op, &c, 7, true);
}

static double f_tanh(double x) { return tanh(x); }
static double f_silu(double x) { return x < 0 ? x * exp(x) / (1 + exp(x)) : x / (1 + exp(-x)); }
static double f_gelu(double x) { return x * erfc(-x * M_SQRT1_2) / 2; }
static double f_gelu_tanh(double x) { return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

/* Worst error beside |f| or, where that is hardly there, beside the smallest normal number. */
static double worst(const float *x, const float *y, double (*f)(double))
{
    double bad = 0;
    for (int i = 0; i < POINTS; i++) {
        double want = f((double)x[i]), scale = fabs(want) + 1.2e-38;
        double e = fabs((double)y[i] - want) / scale;
        if (!(e <= bad)) bad = e;
    }
    return bad;
}

static void test_functions(const isa *s)
{
    static const double spans[] = {1e-6, 1, 5, 12, 60};
    float *x = aligned_memory(POINTS * sizeof *x), *y = aligned_memory(POINTS * sizeof *y);
    zt_softcap_attrs one = {.cap = 1};
    zt_gelu_attrs erf_form = {.form = {"erf"}}, tanh_form = {.form = {"tanh"}};
    double e[4] = {0};
    for (int k = 0; k < 5; k++) {
        for (int i = 0; i < POINTS; i++) x[i] = (float)((2.0 * i / (POINTS - 1) - 1) * spans[k]);
        unary(s, ZT_OP_softcap, &one, x, y);
        e[0] = fmax(e[0], worst(x, y, f_tanh));
        unary(s, ZT_OP_silu, NULL, x, y);
        e[1] = fmax(e[1], worst(x, y, f_silu));
        if (k > 3) break; /* beyond, an error of x^2 counts x^2 times in gelu's tails */
        unary(s, ZT_OP_gelu, &erf_form, x, y);
        e[2] = fmax(e[2], worst(x, y, f_gelu));
        unary(s, ZT_OP_gelu, &tanh_form, x, y);
        e[3] = fmax(e[3], k < 3 ? worst(x, y, f_gelu_tanh) : 0);
    }
    const char *isa_name = zt_isa_name(s->id);
    ok(e[0] < 2.5e-7, "%s: tanh within %.2g", isa_name, e[0]);
    ok(e[1] < 3e-7, "%s: silu within %.2g", isa_name, e[1]);
    ok(e[2] < 1e-5, "%s: gelu, erf form, within %.2g down to -12", isa_name, e[2]);
    ok(e[3] < 1e-5, "%s: gelu, tanh form, within %.2g down to -5", isa_name, e[3]);
    const float odd[] = {INFINITY, -INFINITY, NAN, 0, 200, -200};
    for (int i = 0; i < POINTS; i++) x[i] = odd[i % 6];
    unary(s, ZT_OP_softcap, &one, x, y);
    ok(y[0] == 1 && y[1] == -1 && isnan(y[2]) && y[3] == 0 && y[4] == 1 && y[5] == -1,
       "%s: tanh of infinities, NaN and what is far out", isa_name);
    unary(s, ZT_OP_silu, NULL, x, y);
    ok(y[0] == INFINITY && isnan(y[2]) && y[3] == 0 && y[4] == 200 && y[5] == 0, "%s: silu of them", isa_name);
    free(x);
    free(y);
}

/* softmax of (0, x) is exp(x) / (1 + exp(x)): nothing but exp where x is far below 0. */
static void test_exp(const isa *s)
{
    float *x = aligned_memory(2 * POINTS * sizeof *x), *y = aligned_memory(2 * POINTS * sizeof *y);
    double bad = 0, tiny = 0;
    bool zero = true;
    for (int i = 0; i < POINTS; i++) {
        x[2 * i] = 0;
        x[2 * i + 1] = -(float)i / POINTS * 110;
    }
    zt_cpu_call c = {.in = {arg(ZT_F32, 2, POINTS, 2, x)}, .out = {arg(ZT_F32, 2, POINTS, 2, y)}};
    call(s, ZT_OP_softmax, &c, 1000, false);
    for (int i = 0; i < POINTS; i++) {
        double e = exp((double)x[2 * i + 1]), want = e / (1 + e), got = (double)y[2 * i + 1];
        if (want > 1.2e-38)
            bad = fmax(bad, fabs(got - want) / want);
        else
            tiny = fmax(tiny, fabs(got - want));
        if (x[2 * i + 1] < -104) zero = zero && got == 0;
    }
    ok(bad < 2.5e-7, "%s: exp within %.2g", zt_isa_name(s->id), bad);
    ok(tiny < 2e-45 && zero, "%s: exp below the normal numbers, and 0 in the end", zt_isa_name(s->id));
    free(x);
    free(y);
}

static void test_rope_angles(const isa *s)
{
    enum { N = 40, D = 34 };
    float x[N * D], y[N * D];
    int32_t pos[N];
    double bad = 0;
    zt_rope_attrs a = zt_rope_defaults();
    a.theta = 1e6, a.scale = 0.25;
    strcpy(a.pair.s, "neighbours");
    for (int i = 0; i < N; i++) pos[i] = i < 31 ? (int32_t)(1u << i) - 1 : -i * 1000;
    for (int i = 0; i < N * D; i++) x[i] = i % 2 ? 0 : 1; /* pairs (1, 0) become (cos, sin) */
    zt_cpu_call c = {.attrs = &a, .in = {arg(ZT_F32, 2, N, D, x), arg(ZT_I32, 1, N, 0, pos)}};
    c.out[0] = arg(ZT_F32, 2, N, D, y);
    call(s, ZT_OP_rope, &c, 1, true);
    for (int i = 0; i < N * D; i += 2) {
        double angle = pos[i / D] * a.scale * pow(a.theta, -(double)(i % D) / D);
        bad = fmax(bad, fmax(fabs((double)y[i] - cos(angle)), fabs((double)y[i + 1] - sin(angle))));
    }
    ok(bad < 3e-7, "%s: rope's angles to position 2^30 within %.2g", zt_isa_name(s->id), bad);
}

/* ---- halves ---------------------------------------------------------------------------------- */

static bool same_half(uint16_t a, uint16_t b)
{
    bool nan = (b & 0x7fff) > 0x7c00;
    return nan ? (a & 0x7fff) > 0x7c00 : a == b;
}

/* kv_put rounds to halves: every half, and what lies just beside the middle of two. */
static void test_to_half(const isa *s)
{
    enum { W = 65536 };
    float *x = aligned_memory(3 * W * sizeof *x);
    uint16_t *cache = aligned_memory(3 * W * sizeof *cache);
    const int32_t pos[] = {0, 1, 2};
    for (int i = 0; i < W; i++) {
        float a = zt_f16_to_f32((uint16_t)i), b = zt_f16_to_f32((uint16_t)(i + 1)), mid = (a + b) / 2;
        x[i] = a;
        x[W + i] = mid;
        x[2 * W + i] = nextafterf(mid, i % 2 ? a : b);
    }
    zt_cpu_call c = {.in = {arg(ZT_F16, 2, 3, W, cache), arg(ZT_F32, 2, 3, W, x), arg(ZT_I32, 1, 3, 0, pos)}};
    c.out[0] = c.in[0];
    call(s, ZT_OP_kv_put, &c, 100, true);
    int wrong = 0;
    for (int i = 0; i < 3 * W; i++) wrong += !same_half(cache[i], zt_f32_to_f16(x[i]));
    ok(wrong == 0, "%s: f32 to f16 as the dtype table does it (%d wrong)", zt_isa_name(s->id), wrong);
    free(x);
    free(cache);
}

/* One key: its weight is 1, and attention gives its value back. */
static void test_from_half(const isa *s)
{
    enum { D = 1000 };
    static const uint16_t k[D] = {0};
    static const float q[D] = {0};
    const int32_t pos = 0;
    zt_attention_attrs a = {.head = D};
    uint16_t v[D];
    float y[D];
    int wrong = 0;
    for (int first = 0; first < 65536; first += D) {
        for (int i = 0; i < D; i++) v[i] = (uint16_t)(first + i);
        zt_cpu_call c = {
            .attrs = &a,
            .in = {arg(ZT_F32, 2, 1, D, q), arg(ZT_F16, 2, 1, D, k), arg(ZT_F16, 2, 1, D, v), arg(ZT_I32, 1, 1, 0, &pos)}};
        c.out[0] = arg(ZT_F32, 2, 1, D, y);
        call(s, ZT_OP_attention, &c, 1, false);
        for (int i = 0; i < D; i++) {
            float want = zt_f16_to_f32(v[i]);
            wrong += isnan(want) ? !isnan(y[i]) : y[i] != want;
        }
    }
    ok(wrong == 0, "%s: f16 to f32 of every half (%d wrong)", zt_isa_name(s->id), wrong);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Squares of numbers of 12 bits are exact, so rounding comes from the order of the sum alone. */
static void test_tree(void)
{
    enum { K = 1000 };
    float x[K], g[K] = {0}, rstd[3] = {0};
    int n = 0;
    zt_rms_norm_attrs a = {.eps = 1e-5};
    for (int i = 0; i < K; i++) x[i] = ldexpf(roundf(normal(1, i) * 1000), -i % 7);
    for (int k = 0; k < (int)(sizeof isas / sizeof isas[0]); k++) {
        if (isas[k].id > zt_isa_best()) continue;
        zt_cpu_call c = {.attrs = &a, .in = {arg(ZT_F32, 2, 1, K, x), arg(ZT_F32, 1, K, 0, g)}};
        c.out[0] = arg(ZT_F32, 2, 1, K, NULL);
        c.out[1] = arg(ZT_F32, 2, 1, 1, &rstd[n++]);
        call(&isas[k], ZT_OP_rms_norm, &c, 1, false);
    }
    bool same = rstd[0] > 0;
    for (int i = 1; i < n; i++) same = same && rstd[i] == rstd[0];
    ok(same, "one tree of sums on %d instruction sets", n);
}

/* ---- troubles -------------------------------------------------------------------------------- */

static bool is_trouble(const zt_cpu_call *c, const char *what, int64_t value, int64_t limit)
{
    const zt_runtime_error *t = &c->error;
    return t->what && !strcmp(t->what, what) && t->value == value && t->limit == limit;
}

static void test_put_troubles(const isa *s)
{
    static const struct {
        int32_t pos, seq;
        const char *what;
        int64_t value, limit;
    } rows[] = {
        {8, 0, "position", 8, 8},   {-1, 0, "position", -1, 8}, {3, 2, "sequence", 2, 2},
        {3, -5, "sequence", -5, 2}, {6, 1, "block", 4, 4},
    };
    const int32_t table[8] = {0, 1, 2, 3, 3, 2, 1, 4};
    for (int i = 0; i < 5; i++) {
        float cache[16] = {0}, x[4] = {1, 2, 3, 4};
        const int32_t pos[] = {rows[i].pos, 5}, seq[] = {rows[i].seq, 1};
        zt_cpu_call c = {.in = {arg(ZT_F32, 2, 8, 2, cache), arg(ZT_F32, 2, 2, 2, x), arg(ZT_I32, 1, 2, 0, pos),
                                arg(ZT_I32, 1, 2, 0, seq), arg(ZT_I32, 2, 2, 4, table)}};
        c.out[0] = c.in[0];
        call(s, ZT_OP_kv_put, &c, 1, false);
        float want[16] = {[6] = 3, [7] = 4}; /* position 5 of sequence 1: block 1, its second row */
        ok(is_trouble(&c, rows[i].what, rows[i].value, rows[i].limit) && !memcmp(cache, want, sizeof want),
           "%s: kv_put: %s %lld, and the other row is put", zt_isa_name(s->id), rows[i].what, (long long)rows[i].value);
    }
}

static void test_read_troubles(const isa *s)
{
    const float x[6] = {1, 2, 3, 4, 5, 6};
    const int32_t at[] = {2, 3, -1, 0}, pos[] = {1, 3}, broken[] = {1, 3, 2};
    float y[8];
    const zt_gather_attrs rows = zt_gather_defaults();
    zt_cpu_call c = {.attrs = &rows, .in = {arg(ZT_F32, 2, 3, 2, x), arg(ZT_I32, 1, 4, 0, at)}};
    c.out[0] = arg(ZT_F32, 2, 4, 2, y);
    call(s, ZT_OP_gather, &c, 4, false);
    const float want[] = {5, 6, 0, 0, 0, 0, 1, 2};
    ok(is_trouble(&c, "index", 3, 3) && !memcmp(y, want, sizeof want), "%s: gather: index 3", zt_isa_name(s->id));
    zt_attention_attrs a = {.head = 2};
    zt_cpu_call d = {
        .attrs = &a,
        .in = {arg(ZT_F32, 2, 2, 2, x), arg(ZT_F32, 2, 3, 2, x), arg(ZT_F32, 2, 3, 2, x), arg(ZT_I32, 1, 2, 0, pos)}};
    d.out[0] = arg(ZT_F32, 2, 2, 2, y);
    call(s, ZT_OP_attention, &d, 1, false);
    ok(is_trouble(&d, "position", 3, 3) && y[0] > 1 && y[2] == 0 && y[3] == 0, "%s: attention: position 3, a row of zeros",
       zt_isa_name(s->id));
    d.error = (zt_runtime_error){0};
    d.in[3] = arg(ZT_I32, 1, 2, 0, (const int32_t[]){0, 1});
    d.in[5] = arg(ZT_I32, 2, 1, 3, broken);
    call(s, ZT_OP_attention, &d, 1, false);
    ok(is_trouble(&d, "block", 3, 3), "%s: attention: block 3", zt_isa_name(s->id));
}

static void test_kernels(const isa *s)
{
    test_functions(s);
    test_exp(s);
    test_rope_angles(s);
    test_to_half(s);
    test_from_half(s);
    test_put_troubles(s);
    test_read_troubles(s);
}

int main(void)
{
    on_each_isa(test_kernels);
    test_tree();
    return tap_done();
}
