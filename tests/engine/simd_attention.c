/* simd_attention.c - the CPU kernel of attention on each instruction set: against plain loops, and
 * against itself in other company, in other order, in a prompt, and with another future.
 */
#include "tests/engine/kernel_call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows in two sequences over a cache of CTX positions; D columns a head, G key heads. */
enum { CTX = 640, N = 20, H = 6, BLOCKS = 20, EACH = CTX / BLOCKS };

typedef struct scene {
    zt_attention_attrs a;
    bool half, paged;
    int G;
    float *q, *k, *v; /* k, v by slot */
    void *kc, *vc;    /* as the cache has them */
    int32_t pos[N], seq[N], table[2 * BLOCKS];
} scene;

static void *cache_of(const scene *w, const float *x, int64_t n)
{
    void *c = aligned_memory((size_t)n * 4);
    zt_dtype_get(w->half ? ZT_F16 : ZT_F32)->encode(x, c, n);
    zt_dtype_get(w->half ? ZT_F16 : ZT_F32)->decode(c, (float *)(uintptr_t)x, n);
    return c;
}

/* Pages: 0 none; else sequences take turns after so many rows. */
static scene make_scene(zt_attention_attrs a, bool half, int pages, int G)
{
    const bool paged = pages > 0;
    scene w = {.a = a, .half = half, .paged = paged, .G = G};
    int64_t D = a.head, n = CTX * G * D;
    w.q = normals(10, N * H * D);
    w.k = normals(11, n);
    w.v = normals(12, n);
    w.kc = cache_of(&w, w.k, n);
    w.vc = cache_of(&w, w.v, n);
    for (int i = 0; i < N; i++) {
        w.seq[i] = paged && (i / pages) % 2; /* runs of 3 cross blocks of rows */
        w.pos[i] = paged ? 250 + 3 * i : i == 19 ? 0 : 500 + 7 * i;
    }
    for (int i = 0; i < 2 * BLOCKS; i++) /* 7 is prime to BLOCKS: a permutation for each sequence */
        w.table[i] = (i % BLOCKS * 7 + i / BLOCKS * 3) % BLOCKS;
    return w;
}

static void free_scene(scene *w)
{
    void *all[] = {w->q, w->k, w->v, w->kc, w->vc};
    for (int i = 0; i < 5; i++) free(all[i]);
}

static int64_t slot(const scene *w, int t, int64_t p)
{
    return w->paged ? w->table[w->seq[t] * BLOCKS + p / EACH] * EACH + p % EACH : p;
}

/* n rows as one call. */
static void attend_rows(const isa *s, const scene *w, int n, float *q, int32_t *pos, int32_t *seq, bool backwards, float *y)
{
    int64_t D = w->a.head;
    zt_dtype t = w->half ? ZT_F16 : ZT_F32;
    zt_cpu_call c = {.attrs = &w->a};
    c.in[0] = arg(ZT_F32, 2, n, H * D, q);
    c.in[1] = arg(t, 2, CTX, w->G * D, w->kc);
    c.in[2] = arg(t, 2, CTX, w->G * D, w->vc);
    c.in[3] = arg(ZT_I32, 1, n, 0, pos);
    if (w->paged) {
        c.in[4] = arg(ZT_I32, 1, n, 0, seq);
        c.in[5] = arg(ZT_I32, 2, 2, BLOCKS, (int32_t *)(uintptr_t)w->table);
    }
    c.out[0] = arg(ZT_F32, 2, n, H * D, y);
    call(s, ZT_OP_attention, &c, backwards ? 1 : 5, backwards);
}

/* Rows first..first+n-1. */
static void attend(const isa *s, scene *w, int first, int n, bool backwards, float *y)
{
    int64_t at = first * H * w->a.head;
    attend_rows(s, w, n, w->q + at, w->pos + first, w->seq + first, backwards, y + at);
}

static void plain_row(const scene *w, int t, int h, double *y)
{
    int64_t D = w->a.head, pos = w->pos[t], g = h / (H / w->G);
    int64_t lo = w->a.window && pos >= w->a.window ? pos - w->a.window + 1 : 0;
    double score[CTX], top = -INFINITY, sum = 0;
    double scale = w->a.scale != 0 ? w->a.scale : 1 / sqrt((double)D);
    for (int64_t p = lo; p <= pos; p++) {
        const float *k = w->k + (slot(w, t, p) * w->G + g) * D, *q = w->q + (t * H + h) * D;
        double x = 0;
        for (int64_t d = 0; d < D; d++) x += (double)q[d] * (double)k[d];
        x *= scale;
        score[p] = w->a.softcap > 0 ? w->a.softcap * tanh(x / w->a.softcap) : x;
        top = fmax(top, score[p]);
    }
    for (int64_t d = 0; d < D; d++) y[d] = 0;
    for (int64_t p = lo; p <= pos; p++) {
        double e = exp(score[p] - top);
        sum += e;
        const float *v = w->v + (slot(w, t, p) * w->G + g) * D;
        for (int64_t d = 0; d < D; d++) y[d] += e * (double)v[d];
    }
    for (int64_t d = 0; d < D; d++) y[d] /= sum;
}

static double error_of(const scene *w, const float *y)
{
    double want[256], off = 0, all = 0;
    for (int i = 0; i < N * H; i++) {
        plain_row(w, i / H, i % H, want);
        for (int64_t d = 0; d < w->a.head; d++) {
            double e = (double)y[i * w->a.head + d] - want[d];
            off += e * e;
            all += want[d] * want[d];
        }
    }
    return off / all;
}

/* The same rows in other company, in another order of items. */
static bool same_in_parts(const isa *s, scene *w, const float *y)
{
    size_t bytes = (size_t)(N * H * w->a.head) * sizeof(float);
    static const int cuts[] = {1, 3, 4, 5, 11};
    float *z = aligned_memory(bytes);
    bool same = true;
    for (int k = 0; k < 5; k++) {
        memset(z, 0xff, bytes);
        for (int i = 0; i < N; i += cuts[k]) attend(s, w, i, N - i < cuts[k] ? N - i : cuts[k], k % 2, z);
        same = same && !memcmp(y, z, bytes);
    }
    free(z);
    return same;
}

/* The same rows TIMES over, which makes a prompt of them: larger blocks, of more rows. */
static bool same_in_a_prompt(const isa *s, const scene *w, const float *y)
{
    enum { TIMES = 8 };
    size_t row = (size_t)(N * H * w->a.head);
    float *q = aligned_memory(TIMES * row * sizeof *q), *z = aligned_memory(TIMES * row * sizeof *z);
    int32_t pos[TIMES * N], seq[TIMES * N];
    bool same = true;
    for (size_t k = 0; k < TIMES; k++) {
        memcpy(q + k * row, w->q, row * sizeof *q);
        memcpy(pos + k * N, w->pos, sizeof w->pos);
        memcpy(seq + k * N, w->seq, sizeof w->seq);
    }
    attend_rows(s, w, TIMES * N, q, pos, seq, false, z);
    for (size_t k = 0; k < TIMES; k++) same = same && !memcmp(y, z + k * row, row * sizeof *y);
    free(q);
    free(z);
    return same;
}

/* What lies in slots after a row's own position must not matter, whatever it is. */
static bool deaf_to_the_future(const isa *s, scene *w, const float *y)
{
    int64_t D = w->a.head, W = w->G * D, item = w->half ? 2 : 4;
    float *z = aligned_memory((size_t)(N * H * D) * sizeof *z);
    for (int64_t p = w->pos[0] + 1; p < CTX; p++) {
        memset((char *)w->kc + p * W * item, 0xff, (size_t)(W * item)); /* NaN */
        memset((char *)w->vc + p * W * item, 0xff, (size_t)(W * item));
    }
    attend(s, w, 0, N, false, z);
    bool same = !memcmp(y, z, (size_t)(H * D) * sizeof *z);
    same = same && (w->pos[1] <= w->pos[0] || isnan(z[H * D]));
    attend(s, w, 0, 1, false, z);
    same = same && !memcmp(y, z, (size_t)(H * D) * sizeof *z);
    free(z);
    return same;
}

static void test_attention(const isa *s)
{
    static const struct {
        zt_attention_attrs a;
        bool half;
        int pages, G;
    } rows[] = {
        {{.head = 16}, false, 0, 2},
        {{.head = 64}, true, 0, 2},
        {{.head = 64, .window = 100}, true, 0, 2},
        {{.head = 80, .softcap = 3}, true, 3, 2},
        {{.head = 33, .scale = 0.4}, false, 3, 2},
        {{.head = 7, .window = 70}, true, 3, 2},
        {{.head = 256, .scale = 0.0625, .window = 300}, true, 0, 2},
        {{.head = 64}, true, 1, 2}, /* rows that are alone, beside each other */
        {{.head = 80, .window = 100}, true, 1, 3},
        {{.head = 33, .softcap = 3}, false, 1, 3},
        {{.head = 96, .window = 200}, true, 0, 1}, /* many queries of a key head */
        {{.head = 64, .softcap = 3}, true, 1, 1},
    };
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        scene w = make_scene(rows[i].a, rows[i].half, rows[i].pages, rows[i].G);
        float *y = aligned_memory((size_t)(N * H * w.a.head) * sizeof *y);
        attend(s, &w, 0, N, false, y);
        char name[64];
        snprintf(name, sizeof name, "%s: attention %d, head %lld", zt_isa_name(s->id), i, (long long)w.a.head);
        double e = error_of(&w, y);
        ok(e < 1e-12, "%s: error %.2g", name, e);
        ok(same_in_parts(s, &w, y), "%s: the same bits alone and in parts", name);
        ok(same_in_a_prompt(s, &w, y), "%s: the same bits in a prompt", name);
        if (!w.paged) ok(deaf_to_the_future(s, &w, y), "%s: deaf to the future", name);
        free(y);
        free_scene(&w);
    }
}

int main(void)
{
    on_each_isa(test_attention);
    return tap_done();
}
