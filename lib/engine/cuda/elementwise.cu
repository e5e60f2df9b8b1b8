/* elementwise.cu - ops of single elements: any chain of them by an interpreter, and functions of
 * one and of two floats of one type by kernels of their own, which give the same bits. */
#include "lib/engine/cuda/functions.h"
#include "lib/engine/cuda/values.h"

/* ---- integers -------------------------------------------------------------------------------- */

/* Towards zero, as unsigned ones where they are; by zero nothing, and an error. */
FN uint64_t quotient(int64_t a, int64_t b, bool sign)
{
    if (!b) return 0;
    if (!sign) return (uint64_t)a / (uint64_t)b;
    return b == -1 ? -(uint64_t)a : (uint64_t)(a / b);
}
FN uint64_t left_over(int64_t a, int64_t b, bool sign)
{
    return b ? (uint64_t)a - quotient(a, b, sign) * (uint64_t)b : 0;
}
FN uint64_t floored(int64_t a, int64_t b, bool sign)
{
    int64_t r = (int64_t)left_over(a, b, sign);
    return (uint64_t)(r && sign && (r < 0) != (b < 0) ? r + b : r);
}
FN bool below(int64_t a, int64_t b, bool sign) { return sign ? a < b : (uint64_t)a < (uint64_t)b; }

FN uint64_t of_integers(const zt_cu_chain_op &o, int64_t a, int64_t b)
{
    const bool sign = is_signed(o.of);
    const int width = bits_of(o.of);
    const bool far = b < 0 || b >= width;
    switch (o.fn) {
    case ZT_CU_F_neg: return -(uint64_t)a;
    case ZT_CU_F_abs: return sign && a < 0 ? -(uint64_t)a : (uint64_t)a;
    case ZT_CU_F_sign: return (uint64_t)(sign ? (a > 0) - (a < 0) : a != 0);
    case ZT_CU_F_square: return (uint64_t)a * (uint64_t)a;
    case ZT_CU_F_relu: return (uint64_t)(sign && a < 0 ? 0 : a);
    case ZT_CU_F_add: return (uint64_t)a + (uint64_t)b;
    case ZT_CU_F_sub: return (uint64_t)a - (uint64_t)b;
    case ZT_CU_F_mul: return (uint64_t)a * (uint64_t)b;
    case ZT_CU_F_div: return quotient(a, b, sign);
    case ZT_CU_F_mod: return floored(a, b, sign);
    case ZT_CU_F_fmod: return left_over(a, b, sign);
    case ZT_CU_F_max: return (uint64_t)(below(b, a, sign) ? a : b);
    case ZT_CU_F_min: return (uint64_t)(below(a, b, sign) ? a : b);
    case ZT_CU_F_bitwise_and: return (uint64_t)(a & b);
    case ZT_CU_F_bitwise_or: return (uint64_t)(a | b);
    case ZT_CU_F_bitwise_xor: return (uint64_t)(a ^ b);
    case ZT_CU_F_bitwise_not: return ~(uint64_t)a;
    case ZT_CU_F_shift_left: return far ? 0 : (uint64_t)a << b;
    case ZT_CU_F_shift_right:
        if (!sign) return far ? 0 : (uint64_t)a >> b;
        return (uint64_t)(a >> (far ? 63 : b));
    default: return (uint64_t)a;
    }
}
FN bool divides(int fn) { return fn == ZT_CU_F_div || fn == ZT_CU_F_mod || fn == ZT_CU_F_fmod; }

/* ---- tests ----------------------------------------------------------------------------------- */

template <class W> FN bool test(int fn, W a, W b)
{
    switch (fn) {
    case ZT_CU_F_eq: return a == b;
    case ZT_CU_F_ne: return a != b;
    case ZT_CU_F_lt: return a < b;
    case ZT_CU_F_le: return a <= b;
    case ZT_CU_F_gt: return a > b;
    case ZT_CU_F_ge: return a >= b;
    case ZT_CU_F_logical_and: return a != 0 && b != 0;
    case ZT_CU_F_logical_or: return a != 0 || b != 0;
    case ZT_CU_F_logical_xor: return (a != 0) != (b != 0);
    default: return a == 0; /* logical_not */
    }
}
FN bool is_test(int fn) { return fn >= ZT_CU_F_eq && fn <= ZT_CU_F_logical_not; }

/* isinf: p and q say whether an infinity below and above 0 counts. */
FN bool ask(const zt_cu_chain_op &o, double x)
{
    const bool infinite = fabs(x) > 1.7976931348623157e308;
    if (o.fn == ZT_CU_F_isnan) return x != x;
    if (o.fn == ZT_CU_F_isfinite) return x == x && !infinite;
    return infinite && (x < 0 ? o.p != 0 : o.q != 0);
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* Towards zero, what is out of range to its end, NaN to 0; to bool, is it not 0. */
FN int64_t whole(int t, double x)
{
    const int bits = bits_of(t) - is_signed(t);
    const double end = bits == 64 ? 18446744073709551616.0 : (double)((uint64_t)1 << bits);
    if (t == ZT_CU_BOOL) return x != 0;
    if (x != x) return 0;
    if (x >= end) return bits == 64 ? -1 : bits == 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
    if (!is_signed(t)) return x <= 0 ? 0 : (int64_t)(uint64_t)x;
    return x <= -end ? -((int64_t)1 << (bits - 1)) * 2 : (int64_t)x;
}

/* As f64; where it does not fit, so that rounding once more to a shorter type is right (to odd). */
FN double of_integer(int from, int to, int64_t v)
{
    const bool negative = v < 0 && is_signed(from);
    uint64_t m = negative ? 0 - (uint64_t)v : (uint64_t)v;
    if (to != ZT_CU_F64 && m >> 53) m = (m & ~(uint64_t)0x7ff) | (m & 0x7ff ? 0x800 : 0);
    return negative ? -(double)m : (double)m;
}

/* What is too large for a float of a byte becomes the largest; q: saturate. */
FN double cut_small(const zt_cu_chain_op &o, double x)
{
    if (o.to <= ZT_CU_BF16 || o.to > ZT_CU_F8_E8M0 || o.q == 0) return x;
    const double most = (double)small_get(o.to, small_of(o.to).most);
    return x > most ? most : x < -most ? -most : x;
}

FN value cast(const zt_cu_chain_op &o, value x)
{
    const int from = o.of, to = o.to;
    value v;
    const bool floats = is_f64(from) || is_f32(from);
    const double wide = cut_small(
        o, is_f64(from) ? x.d : is_f32(from) ? (double)x.f : of_integer(from, to, x.i));
    if (is_f64(to) || is_f32(to)) return to_float(to, wide);
    v.i = floats ? whole(to, wide) : wrapped(to, (uint64_t)x.i);
    return v;
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* Rounds a float of a chain to its type. */
FN value rounded(int t, value v)
{
    if (t == ZT_CU_F16) v.f = get(put<f16>(v.f));
    if (t == ZT_CU_BF16) v.f = get(put<bf16>(v.f));
    return v;
}

template <class W> FN W of_floats(const zt_cu_chain_op &o, W a, W b)
{
    return o.fn < ZT_CU_F_add ? f_unary(o.fn, a, (W)o.p, (W)o.q) : f_binary(o.fn, a, b);
}

FN bool not_zero(int t, value v) { return is_f64(t) ? v.d != 0 : is_f32(t) ? v.f != 0 : v.i != 0; }

FN value run_test(const zt_cu_chain_op &o, value a, value b)
{
    value y;
    if (is_f64(o.of))
        y.i = test(o.fn, a.d, b.d);
    else if (is_f32(o.of))
        y.i = test(o.fn, a.f, b.f);
    else if (is_signed(o.of))
        y.i = test(o.fn, a.i, b.i);
    else
        y.i = test(o.fn, (uint64_t)a.i, (uint64_t)b.i);
    return y;
}

FN value run_op(const zt_cu_chain_op &o, const value *v, int64_t i, zt_cu_ptr troubles)
{
    const value a = v[o.in[0]], b = v[o.in[1]];
    value y;
    y.i = 0;
    if (o.fn == ZT_CU_F_where) return not_zero(o.of0, a) ? b : v[o.in[2]];
    if (o.fn == ZT_CU_F_cast) return cast(o, a);
    if (o.fn == ZT_CU_F_fill) return to_float(o.to, o.p);
    if (is_test(o.fn)) return run_test(o, a, b);
    if (o.fn >= ZT_CU_F_isnan) {
        y.i = ask(o, is_f64(o.of) ? a.d : (double)a.f);
        return y;
    }
    if (is_f64(o.of))
        y.d = of_floats(o, a.d, b.d);
    else if (is_f32(o.of))
        y.f = of_floats(o, a.f, b.f);
    else
        y.i = wrapped(o.to, of_integers(o, a.i, b.i));
    if (o.of >= ZT_CU_I64 && divides(o.fn) && !b.i)
        trouble(PTR(zt_cu_runtime_error, troubles), ZT_CU_DIVISION, i, 0, -1);
    return rounded(o.to, y);
}

KERNEL_OF(zt_cu_chain, zt_cu_chain_args, 256)
{
    const zt_cu_chain_op *ops = PTR(const zt_cu_chain_op, a.ops);
    for (int64_t i = first(); i < a.n; i += stride()) {
        value v[ZT_CU_CHAIN_IN + ZT_CU_CHAIN_OPS];
        v[0].i = 0;
        for (int k = 0; k < a.n_in; k++)
            if (a.x[k])
                v[k] = load_value(a.x_type[k], a.x[k], offset_at(a.n_dims, a.dim, a.step[k], i));
        if (!a.ops) v[ZT_CU_CHAIN_IN] = run_op(a.one, v, i, a.trouble);
        for (int k = 0; k < a.n_ops && a.ops; k++)
            v[ZT_CU_CHAIN_IN + k] = run_op(ops[k], v, i, a.trouble);
        if (!a.ops) store_value(a.y_type[0], a.y[0], i, v[ZT_CU_CHAIN_IN]);
        for (int k = 0; k < a.n_ops && a.ops; k++) {
            const int to = ops[k].out;
            if (to && a.y[to - 1])
                store_value(a.y_type[to - 1], a.y[to - 1], i, v[ZT_CU_CHAIN_IN + k]);
        }
    }
}

/* ---- one float, two floats ------------------------------------------------------------------- */

enum { FOUR = 4 };

template <class T> FN void map(const zt_cu_map_args &a)
{
    typedef typename wide<T>::type W;
    const T *x = PTR(const T, a.x);
    T *y = PTR(T, a.y);
    const W p = (W)a.p, q = (W)a.q;
    const int64_t whole_n = a.vectors ? a.n / FOUR : 0;
    for (int64_t i = first(); i < whole_n; i += stride()) {
        vec<T, FOUR> in = load_vec<FOUR>(x + i * FOUR), out;
        switch (a.fn) {
#define X(name)                                                                                    \
    case ZT_CU_F_##name:                                                                           \
        for (int k = 0; k < FOUR; k++) out.v[k] = put<T>(f_##name((W)get(in.v[k]), p, q));         \
        break;
            ZT_CU_UNARY(X)
#undef X
        default: out = in;
        }
        store_vec(y + i * FOUR, out);
    }
    for (int64_t i = whole_n * FOUR + first(); i < a.n; i += stride())
        y[i] = put<T>(f_unary(a.fn, (W)get(x[i]), p, q));
}

KERNEL_OF(zt_cu_map_f32, zt_cu_map_args, 256) { map<float>(a); }
KERNEL_OF(zt_cu_map_f16, zt_cu_map_args, 256) { map<f16>(a); }
KERNEL_OF(zt_cu_map_bf16, zt_cu_map_args, 256) { map<bf16>(a); }
KERNEL_OF(zt_cu_map_f64, zt_cu_map_args, 256) { map<double>(a); }

/* Four elements of an operand from element i of y on, which is a multiple of 4. */
template <class T>
FN vec<T, FOUR> four_of(const T *x, int64_t i, int64_t each, int64_t size, int64_t n)
{
    vec<T, FOUR> v;
    if (each == 1 && size % FOUR == 0) return load_vec<FOUR>(x + (size == n ? i : i % size));
    for (int k = 0; k < FOUR; k++) v.v[k] = x[size == 1 ? 0 : (i + k) / each % size];
    return v;
}

template <class T> FN void map2(const zt_cu_map2_args &a)
{
    typedef typename wide<T>::type W;
    const T *pa = PTR(const T, a.a), *pb = PTR(const T, a.b);
    T *y = PTR(T, a.y);
    const int64_t whole_n = a.vectors ? a.n / FOUR : 0;
    for (int64_t i = first(); i < whole_n; i += stride()) {
        vec<T, FOUR> u = four_of(pa, i * FOUR, a.a_each, a.a_size, a.n), out;
        vec<T, FOUR> v = four_of(pb, i * FOUR, a.b_each, a.b_size, a.n);
        switch (a.fn) {
#define X(name)                                                                                    \
    case ZT_CU_F_##name:                                                                           \
        for (int k = 0; k < FOUR; k++)                                                             \
            out.v[k] = put<T>(f_##name((W)get(u.v[k]), (W)get(v.v[k])));                           \
        break;
            ZT_CU_BINARY(X)
#undef X
        default: out = u;
        }
        store_vec(y + i * FOUR, out);
    }
    for (int64_t i = whole_n * FOUR + first(); i < a.n; i += stride())
        y[i] = put<T>(f_binary(a.fn, (W)get(pa[i / a.a_each % a.a_size]),
                               (W)get(pb[i / a.b_each % a.b_size])));
}

KERNEL_OF(zt_cu_map2_f32, zt_cu_map2_args, 256) { map2<float>(a); }
KERNEL_OF(zt_cu_map2_f16, zt_cu_map2_args, 256) { map2<f16>(a); }
KERNEL_OF(zt_cu_map2_bf16, zt_cu_map2_args, 256) { map2<bf16>(a); }
KERNEL_OF(zt_cu_map2_f64, zt_cu_map2_args, 256) { map2<double>(a); }
