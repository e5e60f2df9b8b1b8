/* sdpa_grad_mma.cu - the gradient of dense attention on the matrix units, with weights made anew
 * from lse (Dao et al., "FlashAttention", 2022): of queries by a pass over the keys, of keys and
 * values by one over the queries of all heads that share them. No sum is shared between blocks.
 */
#include "lib/engine/cuda/sdpa_mma.cuh"

#ifndef __HIP__ /* as sdpa_mma.cu */

enum { ROWS = ZT_CU_SDPA_BACK_ROWS };
static_assert(ROWS == 16 * WARPS, "16 rows a warp");

template <class T, int D> struct back_sizes {
    enum {
        PARTS = PARTS_OF(T),
        W = ZT_CU_SDPA_BACK_WALK(PARTS_OF(T), D),
        STAGES = ZT_CU_SDPA_STAGES(PARTS_OF(T)),
        OWN = PARTS * ROWS * D,
        OTHERS = PARTS * W * D
    };
};

/* Of queries: q and dy, then k and v; of keys: k and v, then q and dy. */
template <class T, int D> struct alignas(16) back_room {
    typedef back_sizes<T, D> z;
    uint16_t own[2][z::OWN], others[z::STAGES][2][z::OTHERS];
    uint32_t odd[4];
};

/* A lane's rows lane / 4 and 8 more: what they see; of queries their lse and delta; and the power
 * of two by which what is summed for acc0 was multiplied (level). */
typedef struct back_rows {
    int64_t batch, row;
    ranges<1> sees;
    float lse[2], delta[2], by[2];
} back_rows;

/* Where a step of the pass is: of keys, the head whose queries these are. */
typedef struct back_step {
    int64_t head, at;
} back_step;

/* f16 alone has few exponents: gradients of scores are brought near 1 (level), and weights, which
 * among many keys are small, multiplied by 2^8. */
FN bool is_levelled(f16) { return true; }
FN bool is_levelled(bf16) { return false; }
FN bool is_levelled(float) { return false; }
template <class T> FN float lift() { return is_levelled(T()) ? 0x1p8f : 1.0f; }

/* Products (s of q and k, dp of dy and v) to weights, lifted, and gradients of q.k; who is seen. */
template <class T, bool KEYS, int W>
FN uint32_t weigh(const zt_cu_sdpa_args &a, const back_rows &r, const back_step &t, bool is_free,
                  float s[W / 8][4], float dp[W / 8][4])
{
    const int64_t stats = (r.batch * a.h + t.head) * a.s;
    const float scale = (float)a.scale, cap = (float)a.softcap;
    uint32_t seen = 0;
    UNROLL
    for (int i = 0; i < W / 2; i++) {
        const int h = i % 4 / 2;
        const int64_t own = r.row + h * 8, other = t.at + i / 4 * 8 + lane() % 4 * 2 + i % 2;
        float x = capped(a, s[i / 4][i % 4] * scale), slope = scale, lse = 0, delta = 0;
        if (cap > 0) slope *= 1 - x / cap * (x / cap);
        bool sees = is_free || (other >= r.sees.first[0][h] && other < r.sees.last[0][h]);
        if (sees && !is_free)
            x = masked<T>(a, r.batch, t.head, KEYS ? other : own, KEYS ? own : other, x);
        sees = sees && x != -INFINITY;
        if (!KEYS) {
            lse = r.lse[h];
            delta = r.delta[h];
        } else if (sees) {
            lse = PTR(const float, a.lse)[stats + other];
            delta = PTR(const float, a.delta)[stats + other];
        }
        float p = sees ? power_of(x - lse) : 0;
        dp[i / 4][i % 4] = sees ? p * (dp[i / 4][i % 4] - delta) * slope : 0;
        s[i / 4][i % 4] = p * lift<T>();
        if (sees) seen |= bit_of(i / 4, i % 4);
    }
    return seen;
}

/* By a power of two, that of the largest of their row so far. */
template <int D, int W>
FN void level(back_rows *r, float ds[W / 8][4], float acc[D / 8][4])
{
    UNROLL
    for (int h = 0; h < 2; h++) {
        float most = 0;
        UNROLL
        for (int i = 0; i < W / 4; i++) {
            float x = fabsf(ds[i / 2][h * 2 + i % 2]);
            if (x < INFINITY) most = fmaxf(most, x);
        }
        most = fmaxf(most, shuffle_xor(most, 1));
        most = fmaxf(most, shuffle_xor(most, 2));
        uint32_t e = bits_as<uint32_t>(most) >> 23;
        e = e < 1 ? 1 : e > 253 ? 253 : e;
        const float by = fminf(r->by[h], bits_as<float>((254 - e) << 23));
        const float shrink = by / r->by[h];
        r->by[h] = by;
        UNROLL
        for (int i = 0; i < W / 4; i++) ds[i / 2][h * 2 + i % 2] *= by;
        UNROLL
        for (int i = 0; i < D / 4; i++) acc[i / 2][h * 2 + i % 2] *= shrink;
    }
}

/* ---- a pass ---------------------------------------------------------------------------------- */

/* What a block has to do: its head (of keys: of keys), and the heads of queries that it visits, each
 * in `each` steps. */
typedef struct back_task {
    int64_t head, batch, row, n;
    int64_t heads, each;
    pass_range w;
} back_task;

template <bool KEYS, int W> FN back_task task_of(const zt_cu_sdpa_args &a)
{
    const int64_t heads = KEYS ? a.g : a.h;
    back_task t = {block_y() % heads, block_y() / heads, 0, 0, KEYS ? a.h / a.g : 1, 0, {}};
    t.row = (int64_t)(KEYS ? block() : blocks() - 1 - block()) * ROWS; /* most begins */
    t.n = keys_of(a, t.batch, (t.batch * a.h + (KEYS ? 0 : t.head)) * a.s + (KEYS ? 0 : t.row));
    t.w = pass_range_of<KEYS, W>(a, t.n, t.row, ROWS);
    t.each = t.w.lo < t.w.hi ? (t.w.hi - t.w.lo + W - 1) / W : 0;
    return t;
}

template <bool KEYS> FN back_rows rows_of(const zt_cu_sdpa_args &a, const back_task &t)
{
    back_rows r;
    r.batch = t.batch;
    r.row = t.row + warp() * 16 + lane() / 4;
    set_ranges<KEYS>(a, t.n, r.row, &r.sees);
    UNROLL
    for (int h = 0; h < 2; h++) {
        bool is = !KEYS && r.row + h * 8 < a.s;
        int64_t at = (t.batch * a.h + t.head) * a.s + r.row + h * 8;
        r.lse[h] = is ? PTR(const float, a.lse)[at] : 0;
        r.delta[h] = is ? PTR(const float, a.delta)[at] : 0;
        r.by[h] = 0x1p126f;
    }
    return r;
}

template <bool KEYS, int W>
FN back_step step_of(const back_task &t, int64_t step)
{
    int64_t head = KEYS ? t.head * t.heads + step / t.each : t.head;
    return back_step{head, t.w.lo + step % t.each * W};
}

template <class T, int D, bool KEYS>
FN void bring_step(const zt_cu_sdpa_args &a, const back_task &t, int64_t step,
                   back_room<T, D> *room)
{
    typedef back_sizes<T, D> z;
    if (step < t.heads * t.each) {
        const back_step to = step_of<KEYS, z::W>(t, step);
        const int64_t head = KEYS ? to.head : t.head / (a.h / a.g), rows = KEYS ? a.s : t.n;
        uint16_t(*others)[z::OTHERS] = room->others[step % z::STAGES];
        bring<z::PARTS, D, z::W>(side_of(a, KEYS ? 0 : 1, t.batch, head, rows), to.at, others[0]);
        bring<z::PARTS, D, z::W>(side_of(a, KEYS ? 3 : 2, t.batch, head, rows), to.at, others[1]);
    }
    copy_commit();
}

/* A tile of the pass. acc0: of q, or of k; acc1: of v. */
template <class T, int D, bool KEYS>
FN void add_step(const zt_cu_sdpa_args &a, const back_task &t, int64_t step,
                 back_room<T, D> *room, back_rows *r, float acc0[1][D / 8][4],
                 float acc1[1][D / 8][4])
{
    typedef back_sizes<T, D> z;
    const back_step at = step_of<KEYS, z::W>(t, step);
    const bool open = is_free(t.w, at.at, z::W);
    uint16_t(*others)[z::OTHERS] = room->others[step % z::STAGES];
    float s[1][z::W / 8][4], dp[1][z::W / 8][4];
    products_of<T, D, 1, ROWS, z::W>(room->own[0], others[0], s);
    products_of<T, D, 1, ROWS, z::W>(room->own[1], others[1], dp);
    const uint32_t seen = weigh<T, KEYS, z::W>(a, *r, at, open, s[0], dp[0]);
    if (!open) {
        barrier(); /* who sees what is no number has a gradient that is none, too */
        if (has_odd<T, D, z::W>(others[0], &room->odd[0])) take_out<T, D, z::W>(others[0]);
        if (KEYS) mend<T, D, 1, z::W>(others[1], &seen, &room->odd[1], acc1);
    }
    if (is_levelled(T())) level<D, z::W>(r, dp[0], acc0[0]);
    add_products<T, D, 1, z::W>(dp, others[0], acc0);
    if (KEYS) add_products<T, D, 1, z::W>(s, others[1], acc1);
}

template <class T, int D, bool KEYS>
FN void back(const zt_cu_sdpa_args &a, back_room<T, D> *room)
{
    typedef back_sizes<T, D> z;
    const back_task t = task_of<KEYS, z::W>(a);
    back_rows r = rows_of<KEYS>(a, t);
    float acc0[1][D / 8][4] = {{{0}}}, acc1[1][D / 8][4] = {{{0}}};
    bring<z::PARTS, D, ROWS>(side_of(a, KEYS ? 1 : 0, t.batch, t.head, KEYS ? t.n : a.s), t.row,
                             room->own[0]);
    bring<z::PARTS, D, ROWS>(side_of(a, KEYS ? 2 : 3, t.batch, t.head, KEYS ? t.n : a.s), t.row,
                             room->own[1]);
    for (int i = 0; i < z::STAGES; i++) bring_step<T, D, KEYS>(a, t, i, room);
    ROLLED
    for (int64_t step = 0; step < t.heads * t.each; step++) {
        copy_wait<z::STAGES - 1>();
        barrier();
        add_step<T, D, KEYS>(a, t, step, room, &r, acc0, acc1);
        barrier();
        bring_step<T, D, KEYS>(a, t, step + z::STAGES, room);
    }
    copy_wait<0>();
    UNROLL
    for (int h = 0; h < 2; h++) {
        int64_t row = r.row + h * 8;
        if (row >= (KEYS ? a.t : a.s)) continue;
        const zt_cu_rows &to = KEYS ? a.dk : a.dq;
        const float by = is_levelled(T()) ? r.by[h] : 1;
        if (to.at) store_row<T, D>(to, t.batch, t.head, row, a.d, h, by, acc0[0]);
        if (KEYS && a.dv.at)
            store_row<T, D>(a.dv, t.batch, t.head, row, a.dv_cols, h, lift<T>(), acc1[0]);
    }
}

#define BACK(name, number, D)                                                                      \
    static_assert(sizeof(back_room<number, D>) == ZT_CU_SDPA_BACK_BYTES(PARTS_OF(number), D),      \
                  "as the host knows it");                                                         \
    KERNEL_OF(zt_sdpa_queries_##name##_##D, zt_cu_sdpa_args, 32 * WARPS)                           \
    {                                                                                              \
        typedef back_room<number, D> room;                                                         \
        DYNAMIC_SHARED(room, r);                                                                   \
        back<number, D, false>(a, r);                                                              \
    }                                                                                              \
    KERNEL_OF(zt_sdpa_keys_##name##_##D, zt_cu_sdpa_args, 32 * WARPS)                              \
    {                                                                                              \
        typedef back_room<number, D> room;                                                         \
        DYNAMIC_SHARED(room, r);                                                                   \
        back<number, D, true>(a, r);                                                               \
    }
BACK(f32, float, 64)
BACK(f32, float, 128)
BACK(f16, f16, 64)
BACK(f16, f16, 128)
BACK(bf16, bf16, 64)
BACK(bf16, bf16, 128)
#endif
