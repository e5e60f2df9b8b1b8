/* scan.cu - running sums and products. */
#include "lib/engine/cuda/lines.cuh"

/* Floats run in double: a long line's last sum is as good as its first. */
FN double run_start(bool product, double) { return product ? 1 : 0; }
FN int64_t run_start(bool product, int64_t) { return product ? 1 : 0; }
FN double run(bool product, double a, double b) { return product ? a * b : a + b; }
FN int64_t run(bool product, int64_t a, int64_t b)
{
    return (int64_t)(product ? (uint64_t)a * (uint64_t)b : (uint64_t)a + (uint64_t)b);
}
FN double load_run(int t, zt_cu_ptr x, int64_t i, double)
{
    return is_f64(t) ? load_as<double>(t, x, i) : (double)load_as<float>(t, x, i);
}
FN int64_t load_run(int t, zt_cu_ptr x, int64_t i, int64_t) { return load_as<int64_t>(t, x, i); }
FN void store_run(int t, zt_cu_ptr y, int64_t i, double v) { store_value(t, y, i, to_float(t, v)); }
FN void store_run(int t, zt_cu_ptr y, int64_t i, int64_t v) { store_as(t, y, i, v); }

template <class R> FN void runs(const zt_cu_line_args &a, bool product)
{
    for (int64_t l = first(); l < a.lines; l += stride()) {
        R sum = run_start(product, R());
        const int64_t from = line_at(a, a.n, l);
        for (int64_t i = 0; i < a.n; i++) {
            const int64_t at = from + (a.reverse ? a.n - 1 - i : i) * a.inner;
            const R next = run(product, sum, load_run(a.type, a.x, at, R()));
            store_run(a.type, a.y, at, a.exclusive ? sum : next);
            sum = next;
        }
    }
}

KERNEL_OF(zt_cu_run_lines, zt_cu_line_args, LINE_THREADS)
{
    if (a.type < ZT_CU_I64)
        runs<double>(a, a.k != 0);
    else
        runs<int64_t>(a, a.k != 0);
}

/* A block a line, as many entries at a time as it has threads. */
template <class R>
FN void run_rows(const zt_cu_line_args &a, bool product, R (&room)[2][LINE_THREADS])
{
    for (int64_t l = block(); l < a.lines; l += blocks()) {
        const int64_t from = line_at(a, a.n, l);
        R carry = run_start(product, R());
        for (int64_t i0 = 0; i0 < a.n; i0 += LINE_THREADS) {
            const int64_t i = i0 + thread();
            const int64_t at = from + (a.reverse ? a.n - 1 - i : i) * a.inner;
            R v = i < a.n ? load_run(a.type, a.x, at, R()) : run_start(product, R());
            int now = 0;
            for (int d = 1; d < LINE_THREADS; d *= 2, now ^= 1) {
                room[now][thread()] = v;
                barrier();
                if (thread() >= d) v = run(product, room[now][thread() - d], v);
            }
            room[now][thread()] = v;
            barrier();
            const R sum = run(product, carry, v);
            const R until = thread() ? run(product, carry, room[now][thread() - 1]) : carry;
            if (i < a.n) store_run(a.type, a.y, at, a.exclusive ? until : sum);
            carry = run(product, carry, room[now][LINE_THREADS - 1]);
            barrier();
        }
    }
}

KERNEL_OF(zt_cu_run_rows, zt_cu_line_args, LINE_THREADS)
{
    SHARED(double, room, [2][LINE_THREADS]);
    if (a.type < ZT_CU_I64)
        run_rows(a, a.k != 0, room);
    else
        run_rows(a, a.k != 0, reinterpret_cast<int64_t(&)[2][LINE_THREADS]>(room));
}
