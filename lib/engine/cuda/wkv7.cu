/* wkv7.cu - RWKV-7's recurrence over sequences whose states are in slots. */
#include "lib/engine/cuda/state_rows.cuh"

/* Row r of one column of a head's state, S [D]: S = w S + b (S.a) + k v; y = S.q. */
FN void run_row(const zt_cu_wkv7_args &a, int64_t r, int64_t head, int64_t e, int64_t start, int64_t end)
{
    const int64_t row = r * a.heads + head, at = row * a.D;
    const float *w = PTR(const float, a.w) + at, *k = PTR(const float, a.k) + at, *removes = PTR(const float, a.a) + at;
    const float *b = PTR(const float, a.b) + at, *q = PTR(const float, a.q) + at;
    const float v = PTR(const float, a.v)[row * a.E + e];
    float *work = PTR(float, a.work) + head * a.D * a.E + e, *states = PTR(float, a.state) + e;
    const float *from = start == STATE_CONTINUED ? work : states + (start < 0 ? 0 : start * a.heads + head) * a.D * a.E;
    float *to = end < 0 ? work : states + (end * a.heads + head) * a.D * a.E;
    float removed = 0, y = 0;
    for (int64_t d = 0; d < a.D && start != STATE_ZEROS; d++) removed = fmaf(from[d * a.E], removes[d], removed);
    for (int64_t d = 0; d < a.D; d++) {
        const float kept = start == STATE_ZEROS ? 0 : from[d * a.E] * w[d];
        const float s = fmaf(k[d], v, fmaf(b[d], removed, kept));
        y = fmaf(s, q[d], y);
        work[d * a.E] = s;
        to[d * a.E] = s;
    }
    if (a.y) PTR(float, a.y)[row * a.E + e] = y;
}

/* Block x of head y: a thread a column. */
KERNEL_OF(zt_wkv7, zt_cu_wkv7_args, 64)
{
    const int64_t e = (int64_t)block() * threads() + thread(), head = block_y();
    const bool tells = e == 0 && head == 0;
    for (int64_t r = 0; r < a.rows.n; r++) {
        const int64_t start = start_of(a.rows, r, tells), end = end_of(a.rows, r, tells);
        if (e < a.E) run_row(a, r, head, e, start, end);
    }
}
