/* attention_contract.cu - attention with the bits of docs/arithmetic.md. Orders of sums are the page's; which thread has which
 * columns does not change a bit. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/contract.cuh"
#include "lib/engine/cuda/slots.h"

enum { TILE = ZT_CU_TILE, CHUNK = ZT_CU_SPLIT };

FN float cached(const float *p) { return *p; }
FN float cached(const f16 *p) { return get(*p); }

/* The row and head of a block. */
typedef struct head_row {
    int64_t row, head, column; /* column: of a row of the cache */
    int64_t low, last;         /* positions that it sees */
    float slope;
    int32_t query_at;
} head_row;

FN head_row head_row_of(const zt_cu_attention_args &a)
{
    head_row h;
    h.row = block();
    h.head = block_y();
    h.column = h.head / (a.H / a.G) * a.D;
    h.last = PTR(const int32_t, a.slots.pos)[h.row];
    h.low = a.window > 0 && h.last >= a.window ? h.last - a.window + 1 : 0;
    if (a.chunked) h.low = h.last - h.last % a.window;
    h.slope = a.slopes ? PTR(const float, a.slopes)[h.head] : 0;
    h.query_at = a.query_at ? PTR(const int32_t, a.query_at)[h.row] : (int32_t)h.last;
    return h;
}

template <class T> FN float score_of(const zt_cu_attention_args &a, const head_row &h, const float *q, int64_t slot, int64_t p)
{
    const T *k = PTR(const T, a.k) + slot * a.W + h.column;
    float s = 0;
    for (int64_t d = 0; d < a.D; d++) s = fmaf(q[d], cached(k + d), s);
    s = s * a.scale;
    if (a.softcap > 0) s = a.softcap * contract_tanh(s / a.softcap);
    return a.slopes ? fmaf(-fabsf((float)(p - h.query_at)), h.slope, s) : s;
}

/* The page's state of a softmax; every thread of a block has the same. */
typedef struct softmax {
    float top, sum;
} softmax;

FN softmax empty_softmax()
{
    const softmax s = {-INFINITY, 0};
    return s;
}

/* The tile's scores and slots become weights, and the state and sums of values go on with them. */
template <class T>
FN void add_tile(const zt_cu_attention_args &a, const head_row &h, float *score, const int64_t *slot, softmax *state, float *acc)
{
    float most = -INFINITY, lanes[16];
    for (int j = 0; j < TILE; j++) most = score[j] > most ? score[j] : most;
    if (most > state->top) {
        const float k = state->sum != 0 ? contract_exp(state->top - most) : 1.0f;
        if (k != 1.0f) {
            state->sum = state->sum * k;
            for (int64_t d = thread(); d < a.D; d += TILE) acc[d] = acc[d] * k;
        }
        state->top = most;
    }
    barrier();
    const float least = state->top > -0x1.fffffep127f ? state->top : -0x1.fffffep127f;
    score[thread()] = contract_exp_below(score[thread()] - least);
    barrier();
    for (int i = 0; i < 16; i++) lanes[i] = ((score[i] + score[16 + i]) + score[32 + i]) + score[48 + i];
    for (int n = 8; n; n >>= 1)
        for (int i = 0; i < n; i++) lanes[i] = lanes[i] + lanes[i + n];
    state->sum = state->sum + lanes[0];
    for (int64_t d = thread(); d < a.D; d += TILE) {
        float s = acc[d];
        for (int j = 0; j < TILE; j++)
            if (slot[j] >= 0) s = fmaf(score[j], cached(PTR(const T, a.v) + slot[j] * a.W + h.column + d), s);
        acc[d] = s;
    }
}

/* A chunk's state and sums join the total's, and are empty then. */
FN void join_chunk(const zt_cu_attention_args &a, softmax *total, softmax *chunk, float *all, float *acc)
{
    const bool is_first = total->top == -INFINITY;
    const float top = chunk->top > total->top ? chunk->top : total->top;
    const float k = is_first ? 0 : contract_exp(total->top - top), b = is_first ? 1.0f : contract_exp(chunk->top - top);
    for (int64_t d = thread(); d < a.D; d += TILE) {
        all[d] = is_first ? acc[d] : fmaf(all[d], k, acc[d] * b);
        acc[d] = 0;
    }
    const softmax both = {top, total->sum * k + chunk->sum * b};
    *total = is_first ? *chunk : both;
    *chunk = empty_softmax();
}

/* A block a row and head, a thread a key of a tile, and every 64th column. */
template <class T> FN void attend(const zt_cu_attention_args &a, float *q, float *score, int64_t *slot)
{
    const head_row h = head_row_of(a);
    const int64_t at = (h.row * a.H + h.head) * a.D;
    float *acc = q + a.D, *all = q + 2 * a.D;
    softmax total = empty_softmax(), chunk = empty_softmax();
    bool good = h.last >= 0 && h.last < a.slots.ctx;
    for (int64_t d = thread(); d < a.D; d += TILE) q[d] = PTR(const float, a.q)[at + d], acc[d] = all[d] = 0;
    if (!good && thread() == 0) slot_of(a.slots, h.row, h.last, a.trouble, h.row);
    for (int64_t p0 = h.low / TILE * TILE; good && p0 <= h.last; p0 += TILE) {
        const int64_t p = p0 + thread();
        const bool seen = p >= h.low && p <= h.last;
        barrier();
        slot[thread()] = seen ? slot_of(a.slots, h.row, p, a.trouble, h.row) : -2;
        score[thread()] = slot[thread()] >= 0 ? score_of<T>(a, h, q, slot[thread()], p) : -INFINITY;
        barrier();
        for (int j = 0; j < TILE; j++) good = good && slot[j] != -1;
        add_tile<T>(a, h, score, slot, &chunk, acc);
        if ((p0 + TILE) % CHUNK == 0 || p0 + TILE > h.last) join_chunk(a, &total, &chunk, all, acc);
    }
    if (a.sinks && good) total.sum = total.sum + contract_exp(PTR(const float, a.sinks)[h.head] - total.top);
    for (int64_t d = thread(); d < a.D; d += TILE) PTR(float, a.y)[at + d] = good ? all[d] / total.sum : 0;
}

#define ATTENTION(name, number)                                                                    \
    KERNEL_OF(name, zt_cu_attention_args, ZT_CU_TILE)                                              \
    {                                                                                              \
        SHARED(float, score, [ZT_CU_TILE]);                                                        \
        SHARED(int64_t, slot, [ZT_CU_TILE]);                                                       \
        DYNAMIC_SHARED(float, columns);                                                            \
        attend<number>(a, columns, score, slot);                                                   \
    }
ATTENTION(zt_contract_attention_f32, float)
ATTENTION(zt_contract_attention_f16, f16)
