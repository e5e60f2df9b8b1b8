/* attention.cu - causal attention over a cache of f32, or of heads that attention_mma.cu does not
 * take: a block takes one row, up to HEADS query heads of one key head, and one split of the keys or
 * all. And the join of splits, of every cache.
 */
#include "lib/engine/cuda/attention.h"
#include "lib/engine/cuda/unroll.h"

enum { HEADS = 8, THREADS = 128 };

/* What the block shares. */
typedef struct room {
    float score[HEADS][TILE];
    float top[HEADS], sum[HEADS], shrink[HEADS]; /* of the split so far */
    int64_t slot[TILE];
    uint32_t bad[TILE / 32]; /* was a slot of these lanes' not good */
} room;

FN bool is_bad(const room *r) { return r->bad[0] || r->bad[1]; }

/* Whose work it is. */
typedef struct task {
    int64_t row, head, column; /* the first query head; the first column of the key head */
    int64_t first, last;       /* positions that the row sees */
    int heads;
    /* Of sums over keys: this thread's columns are column + 128 c of heads part, part + parts. */
    int d, part, parts;
} task;

FN task task_of(const zt_cu_attention_args &a)
{
    task w;
    int64_t R = a.H / a.G, groups = (R + HEADS - 1) / HEADS, g = block_y() / groups;
    int64_t from = block_y() % groups * HEADS, D = a.D;
    w.row = block();
    w.head = g * R + from;
    w.heads = R - from < HEADS ? (int)(R - from) : HEADS;
    w.column = g * D;
    w.last = PTR(const int32_t, a.slots.pos)[w.row];
    w.first = first_of(a, w.last);
    w.parts = D >= THREADS ? 1 : (int)(THREADS / D);
    w.part = D >= THREADS ? 0 : (int)(thread() / D);
    w.d = D >= THREADS ? thread() : (int)(thread() % D);
    return w;
}

FN float tanh_of(float x) { return tanhf(x); }

/* Columns k .. k + 7 of a cache row from element `at` on; those past D are 0. */
template <class T>
FN void eight(const T *p, bool whole, int64_t at, int64_t k, int64_t D, float v[8])
{
    if (whole) {
        const int each = 16 / sizeof(T);
        for (int i = 0; i < 8 / each; i++) {
            vec<T, each> part = load_vec<each>(p + at + k + i * each);
            for (int j = 0; j < each; j++) v[i * each + j] = get(part.v[j]);
        }
    } else {
        for (int j = 0; j < 8; j++) v[j] = k + j < D ? get(p[at + k + j]) : 0;
    }
}

/* Scores of a tile: eight lanes a key, each with every eighth eight columns. */
template <class T>
FN void score_tile(const zt_cu_attention_args &a, const task &w, int64_t p0, const float *q, room *r)
{
    bool whole = a.whole;
    for (int j = thread() / 8; j < TILE; j += THREADS / 8) {
        int64_t slot = r->slot[j];
        float sum[HEADS] = {0};
        for (int64_t k = thread() % 8 * 8; slot >= 0 && k < a.D; k += 64) {
            float v[8];
            eight(PTR(const T, a.k), whole, slot * a.W + w.column, k, a.D, v);
            for (int h = 0; h < HEADS; h++)
                for (int i = 0; i < 8; i++)
                    if (h < w.heads && k + i < a.D) sum[h] = fmaf(q[h * a.D + k + i], v[i], sum[h]);
        }
        for (int h = 0; h < HEADS; h++) {
            if (h >= w.heads) continue;
            float s = sum[h];
            for (int m = 1; m < 8; m *= 2) s += shuffle_xor(s, m);
            s *= a.scale;
            if (a.softcap > 0) s = a.softcap * tanh_of(s / a.softcap);
            if (thread() % 8 == 0) r->score[h][j] = slot >= 0 ? s : -INFINITY;
        }
        ROLLED
        for (int h = 0; a.slopes && thread() % 8 == 0 && h < w.heads; h++)
            r->score[h][j] = with_bias(bias_of(a, w.row, w.head + h), p0 + j, r->score[h][j]);
    }
}

/* Scores to their exponentials under the highest so far; a warp a head. */
FN void soften(const task &w, room *r)
{
    for (int h = warp(); h < w.heads; h += THREADS / 32) {
        float was = r->top[h], one = r->score[h][lane()], two = r->score[h][lane() + 32];
        float top = fmaxf(was, warp_max(fmaxf(one, two)));
        one = expf(one - top);
        two = expf(two - top);
        float shrink = was == top ? 1.0f : expf(was - top), sum = warp_sum(one + two);
        r->score[h][lane()] = one;
        r->score[h][lane() + 32] = two;
        warp_barrier();
        if (lane() != 0) continue;
        r->top[h] = top;
        r->shrink[h] = shrink;
        r->sum[h] = r->sum[h] * shrink + sum;
    }
}

template <class T, int COLUMNS>
FN void add_values(const zt_cu_attention_args &a, const task &w, const room *r,
                   float acc[HEADS][COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++) {
        int64_t d = w.d + c * THREADS;
        if (w.part >= w.parts || d >= a.D) continue;
        for (int i = 0; i < HEADS; i++)
            if (i * w.parts + w.part < w.heads) acc[i][c] *= r->shrink[i * w.parts + w.part];
        for (int j = 0; j < TILE; j++) {
            if (r->slot[j] < 0) continue;
            float v = get(PTR(const T, a.v)[r->slot[j] * a.W + w.column + d]);
            for (int i = 0; i < HEADS; i++)
                if (i * w.parts + w.part < w.heads)
                    acc[i][c] = fmaf(r->score[i * w.parts + w.part][j], v, acc[i][c]);
        }
    }
}

/* The keys of one split: sums of values, and in the room the top and the sum of exponentials. */
template <class T, int COLUMNS>
FN void attend_split(const zt_cu_attention_args &a, const task &w, int64_t split, const float *q,
                   room *r, float acc[HEADS][COLUMNS])
{
    barrier();
    if (thread() < HEADS) r->top[thread()] = -INFINITY, r->sum[thread()] = 0;
    for (int64_t p0 = split * SPLIT; p0 < (split + 1) * SPLIT && p0 <= w.last; p0 += TILE) {
        if (p0 + TILE <= w.first) continue;
        barrier();
        for (int j = thread(); j < TILE; j += THREADS) { /* whole warps */
            int64_t p = p0 + j, order = w.row << 32 | (p == w.last ? 0 : p - w.first + 1);
            bool seen = p >= w.first && p <= w.last;
            r->slot[j] = seen ? slot_of(a.slots, w.row, p, block_y() ? 0 : a.trouble, order) : -2;
            uint32_t bad = vote(r->slot[j] == -1);
            if (bad && lane() == 0) r->bad[warp()] = 1;
        }
        barrier();
        score_tile<T>(a, w, p0, q, r);
        barrier();
        soften(w, r);
        barrier();
        add_values<T, COLUMNS>(a, w, r, acc);
    }
    barrier();
}

/* One block a row's heads: all splits in order. */
template <class T, int COLUMNS>
FN void attend_all(const zt_cu_attention_args &a, const task &w, const float *q, room *r)
{
    float total[HEADS][COLUMNS] = {{0}}, top[HEADS], sum[HEADS];
    for (int i = 0; i < HEADS; i++) top[i] = -INFINITY, sum[i] = 0;
    for (int64_t s = w.first / SPLIT; w.last < a.slots.ctx && s <= w.last / SPLIT && w.last >= 0;
         s++) {
        float acc[HEADS][COLUMNS] = {{0}};
        attend_split<T, COLUMNS>(a, w, s, q, r, acc);
        for (int i = 0; i < HEADS; i++) {
            int h = i * w.parts + w.part;
            float old = 0, fresh = 0;
            if (h < w.heads) join_by(&top[i], &sum[i], r->top[h], r->sum[h], &old, &fresh);
            for (int c = 0; c < COLUMNS; c++)
                total[i][c] = fmaf(acc[i][c], fresh, total[i][c] * old);
        }
    }
    bool good = w.last >= 0 && w.last < a.slots.ctx && !is_bad(r);
    for (int i = 0; i < HEADS; i++)
        for (int c = 0; c < COLUMNS; c++) {
            int h = i * w.parts + w.part;
            int64_t d = w.d + c * THREADS;
            if (h >= w.heads || w.part >= w.parts || d >= a.D) continue;
            PTR(float, a.y)[(w.row * a.H + w.head + h) * a.D + d] = good ? total[i][c] / sum_with_sink(a, w.head + h, top[i], sum[i]) : 0;
        }
}

/* A block a split: its state into the parts; a sum below 0 says that a slot was not good. */
template <class T, int COLUMNS>
FN void attend_one(const zt_cu_attention_args &a, const task &w, const float *q, room *r)
{
    int64_t s = block_z();
    float acc[HEADS][COLUMNS] = {{0}};
    bool any = w.last >= 0 && w.last < a.slots.ctx && s >= w.first / SPLIT && s <= w.last / SPLIT;
    if (!any) return;
    attend_split<T, COLUMNS>(a, w, s, q, r, acc);
    for (int i = 0; i < HEADS; i++) {
        int h = i * w.parts + w.part;
        if (h >= w.heads || w.part >= w.parts) continue;
        float *part =
            PTR(float, a.parts) + (((w.row * a.H + w.head + h) * a.splits) + s) * (a.D + 2);
        if (w.d == 0) part[0] = r->top[h], part[1] = is_bad(r) ? -1 : r->sum[h];
        for (int c = 0; c < COLUMNS; c++)
            if (w.d + c * THREADS < a.D) part[2 + w.d + c * THREADS] = acc[i][c];
    }
}

/* COLUMNS: of the head, that a thread has at most. */
template <class T, int COLUMNS> FN void attend(const zt_cu_attention_args &a, float *q, room *r)
{
    task w = task_of(a);
    if (thread() == 0) {
        for (int i = 0; i < TILE / 32; i++) r->bad[i] = 0;
        /* The last position first, as the reference looks at it; also where no split has it. */
        if (block_y() == 0 && block_z() == 0)
            slot_of(a.slots, w.row, w.last, a.trouble, w.row << 32);
    }
    const float *from = PTR(const float, a.q) + (w.row * a.H + w.head) * a.D;
    for (int64_t i = thread(); i < w.heads * a.D; i += THREADS) q[i] = from[i];
    barrier();
    if (a.splits)
        attend_one<T, COLUMNS>(a, w, q, r);
    else
        attend_all<T, COLUMNS>(a, w, q, r);
}

#define ATTENTION(name, T, most)                                                                   \
    KERNEL_OF(name, zt_cu_attention_args, THREADS)                                                 \
    {                                                                                              \
        DYNAMIC_SHARED(float, q);                                                                  \
        SHARED(room, r, [1]);                                                                      \
        attend<T, most / THREADS>(a, q, r);                                                        \
    }
ATTENTION(zt_attention_f32, float, ZT_CU_ATTENTION_HEAD)
ATTENTION(zt_attention_f16, f16, ZT_CU_ATTENTION_HEAD)
ATTENTION(zt_attention_wide_f32, float, ZT_CU_ATTENTION_WIDE)
ATTENTION(zt_attention_wide_f16, f16, ZT_CU_ATTENTION_WIDE)

/* A thread a column. */
KERNEL_OF(zt_attention_join, zt_cu_attention_args, THREADS)
{
    const int64_t row = block(), head = block_y();
    for (int64_t d = thread(); d < a.D; d += THREADS)
        join_columns<1>(a, row, head, d, PTR(float, a.y) + (row * a.H + head) * a.D + d);
}
