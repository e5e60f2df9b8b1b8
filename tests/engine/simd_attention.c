/* simd_attention.c - the CPU kernel of attention on each instruction set: against plain loops, and
 * against itself in other company, in other order, in a prompt, with another future, and with the numbers of its caches as f32;
 * and the kernel that quantizes rows of a cache, against the quantizers of files.
 */
#include "lib/tensor/block_row.h"
#include "lib/tensor/quantize.h"
#include "tests/engine/kernel_call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows in two sequences over a cache of CTX positions; D columns a head, G key heads. */
enum { CTX = 640, N = 20, H = 6, BLOCKS = 20, EACH = CTX / BLOCKS };

typedef struct scene {
    zt_attention_attrs a;
    zt_dtype keys, values;
    bool paged;
    int G;
    float *q, *k, *v; /* k, v by slot, as the caches have them: */
    void *kc, *vc;
    int32_t pos[N], seq[N], table[2 * BLOCKS];
} scene;

static void *cache_of(zt_dtype dtype, float *x, int64_t n)
{
    void *c = aligned_memory((size_t)n * 4);
    if (zt_is_block_cache(dtype))
        zt_block_row_encode(dtype, x, n, c);
    else
        zt_dtype_get(dtype)->encode(x, c, n);
    zt_dtype_get(dtype)->decode(c, x, n);
    return c;
}

/* Pages: 0 none; else sequences take turns after so many rows. */
static scene make_scene(zt_attention_attrs a, zt_dtype keys, zt_dtype values, int pages, int G)
{
    const bool paged = pages > 0;
    scene w = {.a = a, .keys = keys, .values = values, .paged = paged, .G = G};
    int64_t D = a.head, n = CTX * G * D;
    w.q = normals(10, N * H * D);
    w.k = normals(11, n);
    w.v = normals(12, n);
    w.kc = cache_of(keys, w.k, n);
    w.vc = cache_of(values, w.v, n);
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
    zt_cpu_call c = {.attrs = &w->a};
    c.in[0] = arg(ZT_F32, 2, n, H * D, q);
    c.in[1] = arg(w->keys, 2, CTX, w->G * D, w->kc);
    c.in[2] = arg(w->values, 2, CTX, w->G * D, w->vc);
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

/* Types in the cache decide nothing but the numbers. */
static bool same_of_f32(const isa *s, const scene *w, const float *y)
{
    scene wide = *w;
    const size_t bytes = (size_t)(N * H * w->a.head) * sizeof *y;
    float *z = aligned_memory(bytes);
    wide.keys = wide.values = ZT_F32, wide.kc = w->k, wide.vc = w->v;
    attend(s, &wide, 0, N, false, z);
    bool same = !memcmp(y, z, bytes);
    free(z);
    return same;
}

/* Bytes of a row of a cache. */
static size_t row_bytes(const scene *w, zt_dtype dtype)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    return (size_t)(w->G * w->a.head / info->block * info->block_bytes);
}

/* What lies in slots after a row's own position must not matter, whatever it is. */
static bool deaf_to_the_future(const isa *s, scene *w, const float *y)
{
    int64_t D = w->a.head;
    const size_t keys = row_bytes(w, w->keys), values = row_bytes(w, w->values);
    float *z = aligned_memory((size_t)(N * H * D) * sizeof *z);
    for (int64_t p = w->pos[0] + 1; p < CTX; p++) {
        memset((char *)w->kc + (size_t)p * keys, 0xff, keys); /* NaN */
        memset((char *)w->vc + (size_t)p * values, 0xff, values);
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
        zt_dtype keys, values;
        int pages, G;
    } rows[] = {
        {{.head = 16}, ZT_F32, ZT_F32, 0, 2},
        {{.head = 64}, ZT_F16, ZT_F16, 0, 2},
        {{.head = 64, .window = 100}, ZT_F16, ZT_F16, 0, 2},
        {{.head = 80, .softcap = 3}, ZT_F16, ZT_F16, 3, 2},
        {{.head = 33, .scale = 0.4}, ZT_F32, ZT_F32, 3, 2},
        {{.head = 7, .window = 70}, ZT_F16, ZT_F16, 3, 2},
        {{.head = 256, .scale = 0.0625, .window = 300}, ZT_F16, ZT_F16, 0, 2},
        {{.head = 64}, ZT_F16, ZT_F16, 1, 2}, /* rows that are alone, beside each other */
        {{.head = 80, .window = 100}, ZT_F16, ZT_F16, 1, 3},
        {{.head = 33, .softcap = 3}, ZT_F32, ZT_F32, 1, 3},
        {{.head = 96, .window = 200}, ZT_F16, ZT_F16, 0, 1}, /* many queries of a key head */
        {{.head = 64, .softcap = 3}, ZT_F16, ZT_F16, 1, 1},
        {{.head = 64}, ZT_Q8_0, ZT_Q8_0, 0, 2},
        {{.head = 96, .window = 100}, ZT_Q8_0, ZT_Q4_0, 3, 2},
        {{.head = 256, .scale = 0.0625, .window = 300}, ZT_Q4_0, ZT_Q5_1, 0, 2},
        {{.head = 64}, ZT_Q5_0, ZT_IQ4_NL, 1, 2},
        {{.head = 32, .softcap = 3}, ZT_IQ4_NL, ZT_F16, 1, 1},
        {{.head = 64}, ZT_F16, ZT_Q5_0, 0, 3},
        {{.head = 128}, ZT_Q5_1, ZT_Q4_1, 0, 1},
        {{.head = 64}, ZT_Q4_1, ZT_F32, 3, 2},
        {{.head = 64}, ZT_Q8_0, ZT_Q8_0, 1, 2}, /* rows that are alone, of codes: 3 queries of a key head, and 6 */
        {{.head = 96, .window = 100}, ZT_Q8_0, ZT_Q8_0, 0, 1},
        {{.head = 64, .softcap = 3}, ZT_Q4_0, ZT_Q4_0, 1, 1},
        {{.head = 128}, ZT_Q5_0, ZT_Q5_0, 1, 3},
        {{.head = 32, .window = 70}, ZT_IQ4_NL, ZT_IQ4_NL, 0, 2},
        {{.head = 40}, ZT_F32, ZT_F16, 0, 2},
    };
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        scene w = make_scene(rows[i].a, rows[i].keys, rows[i].values, rows[i].pages, rows[i].G);
        float *y = aligned_memory((size_t)(N * H * w.a.head) * sizeof *y);
        attend(s, &w, 0, N, false, y);
        char name[64];
        snprintf(name, sizeof name, "%s: attention %d, head %lld", zt_isa_name(s->id), i, (long long)w.a.head);
        double e = error_of(&w, y);
        ok(e < 1e-12, "%s: error %.2g", name, e);
        ok(same_in_parts(s, &w, y), "%s: the same bits alone and in parts", name);
        ok(same_in_a_prompt(s, &w, y), "%s: the same bits in a prompt", name);
        ok(same_of_f32(s, &w, y), "%s: the same bits of %s keys and %s values as f32", name, zt_dtype_get(w.keys)->name,
           zt_dtype_get(w.values)->name);
        if (!w.paged) ok(deaf_to_the_future(s, &w, y), "%s: deaf to the future", name);
        free(y);
        free_scene(&w);
    }
}

/* The square of what a quantized row is off. */
static double loss_of(zt_dtype dtype, const void *row, const float *x, int64_t n)
{
    float back[256];
    double sum = 0;
    zt_dtype_get(dtype)->decode(row, back, n);
    for (int64_t i = 0; i < n; i++) sum += ((double)back[i] - (double)x[i]) * ((double)back[i] - (double)x[i]);
    return sum;
}

/* Rows of x by kv_put into a cache of blocks: q8_0 as a file would have them, the other types with no more error; a block of NaN
 * where x cannot be quantized, and other slots as they were. */
static void test_blocks(const isa *s)
{
    enum { SLOTS = 9, W = 96, ROWS = 4 };
    static const zt_dtype types[] = {ZT_Q8_0, ZT_Q5_1, ZT_Q5_0, ZT_Q4_1, ZT_Q4_0, ZT_IQ4_NL};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const zt_dtype_info *info = zt_dtype_get(types[i]);
        const size_t row = (size_t)(W / info->block * info->block_bytes);
        uint8_t *cache = aligned_memory(SLOTS * row), want[W * 2];
        float *x = normals(20 + (int)i, ROWS * W), back[W];
        int32_t pos[ROWS] = {7, 2, 3, 0};
        bool same = true;
        zt_ctx *ctx = zt_ctx_new();
        memset(cache, 0x5a, SLOTS * row);
        x[3 * W + 40] = i % 2 ? INFINITY : NAN;
        zt_cpu_call c = {.in = {arg(types[i], 2, SLOTS, W, cache), arg(ZT_F32, 2, ROWS, W, x), arg(ZT_I32, 1, ROWS, 0, pos)}};
        c.out[0] = c.in[0];
        call(s, ZT_OP_kv_put, &c, 3, true);
        const zt_quantizer quantizer = {.dtype = types[i], .columns = W, .search = types[i] != ZT_Q8_0};
        for (int r = 0; r + 1 < ROWS; r++) {
            const uint8_t *got = cache + (size_t)pos[r] * row;
            same = same && zt_quantize_rows(ctx, &quantizer, x + r * W, 1, want) == ZT_OK;
            same = same &&
                   (types[i] == ZT_Q8_0 ? !memcmp(got, want, row)
                                        : loss_of(types[i], got, x + r * W, W) <= 1.05 * loss_of(types[i], want, x + r * W, W));
        }
        ok(same, "%s: kv_put of %s quantizes as well as a file's rows", zt_isa_name(s->id), info->name);
        info->decode(cache, back, W);
        same = true;
        for (int k = 0; k < W; k++) same = same && !isnan(back[k]) == (k / 32 != 1);
        ok(same, "%s: kv_put of %s: a block that cannot be quantized is NaN, others are not", zt_isa_name(s->id), info->name);
        same = true;
        for (size_t k = 0; k < row; k++) same = same && cache[row + k] == 0x5a && cache[8 * row + k] == 0x5a;
        ok(same, "%s: kv_put of %s leaves other slots", zt_isa_name(s->id), info->name);
        zt_ctx_free(ctx);
        free(cache);
        free(x);
    }
}

int main(void)
{
    on_each_isa(test_attention);
    on_each_isa(test_blocks);
    return tap_done();
}
