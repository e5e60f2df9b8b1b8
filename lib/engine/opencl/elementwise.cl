/* elementwise.cl - ops of single elements: any chain of them by an interpreter, and functions of one and of two floats of one
 * type by kernels of their own, which give the same bits. */
#include "lib/engine/opencl/functions.clh"
#include "lib/engine/opencl/values.clh"

/* ---- integers ---------------------------------------------------------------------------------- */

/* Towards zero, as unsigned ones where they are; by zero nothing, and an error. */
FN uint64_t quotient(int64_t a, int64_t b, bool sign)
{
    if (!b) return 0;
    if (!sign) return (uint64_t)a / (uint64_t)b;
    return b == -1 ? -(uint64_t)a : (uint64_t)(a / b);
}
FN uint64_t left_over(int64_t a, int64_t b, bool sign) { return b ? (uint64_t)a - quotient(a, b, sign) * (uint64_t)b : 0; }
FN uint64_t floored(int64_t a, int64_t b, bool sign)
{
    const int64_t r = (int64_t)left_over(a, b, sign);
    return (uint64_t)(r && sign && (r < 0) != (b < 0) ? r + b : r);
}
FN bool below(int64_t a, int64_t b, bool sign) { return sign ? a < b : (uint64_t)a < (uint64_t)b; }

FN uint64_t of_integers(const zt_cu_chain_op *o, int64_t a, int64_t b)
{
    const bool sign = is_signed(o->of);
    const bool far = b < 0 || b >= bits_of(o->of);
    switch (o->fn) {
    case ZT_CU_F_neg: return -(uint64_t)a;
    case ZT_CU_F_abs: return sign && a < 0 ? -(uint64_t)a : (uint64_t)a;
    case ZT_CU_F_sign: return (uint64_t)(int64_t)(sign ? (a > 0) - (a < 0) : a != 0);
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

/* ---- tests ------------------------------------------------------------------------------------- */

/* Of what a and b compare as, and whether each is 0. */
FN bool test(int fn, bool less, bool equal, bool more, bool a_not_0, bool b_not_0)
{
    switch (fn) {
    case ZT_CU_F_eq: return equal;
    case ZT_CU_F_ne: return !equal;
    case ZT_CU_F_lt: return less;
    case ZT_CU_F_le: return less || equal;
    case ZT_CU_F_gt: return more;
    case ZT_CU_F_ge: return more || equal;
    case ZT_CU_F_logical_and: return a_not_0 && b_not_0;
    case ZT_CU_F_logical_or: return a_not_0 || b_not_0;
    case ZT_CU_F_logical_xor: return a_not_0 != b_not_0;
    default: return !a_not_0; /* logical_not */
    }
}
FN bool is_test(int fn) { return fn >= ZT_CU_F_eq && fn <= ZT_CU_F_logical_not; }

FN value run_test(const zt_cu_chain_op *o, value a, value b)
{
    bool yes;
    if (is_float_type(o->of)) {
        yes = test(o->fn, a.f < b.f, a.f == b.f, a.f > b.f, a.f != 0, b.f != 0);
    } else {
        const bool sign = is_signed(o->of);
        yes = test(o->fn, below(a.i, b.i, sign), a.i == b.i, below(b.i, a.i, sign), a.i != 0, b.i != 0);
    }
    return of_int(yes);
}

/* isinf: p and q say whether an infinity below and above 0 counts. */
FN bool ask(const zt_cu_chain_op *o, float x)
{
    const bool infinite = isinf(x);
    if (o->fn == ZT_CU_F_isnan) return x != x;
    if (o->fn == ZT_CU_F_isfinite) return x == x && !infinite;
    return infinite && (x < 0 ? o->p != 0 : o->q != 0);
}

/* ---- casts ------------------------------------------------------------------------------------- */

/* Towards zero, what is out of range to its end, NaN to 0; to bool, is it not 0. */
FN int64_t whole(int type, float x)
{
    const int bits = bits_of(type) - is_signed(type);
    const float end = bits == 64 ? 18446744073709551616.0f : (float)((uint64_t)1 << bits);
    if (type == ZT_CU_BOOL) return x != 0;
    if (x != x) return 0;
    if (x >= end) return bits == 64 ? -1 : bits == 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
    if (!is_signed(type)) return x <= 0 ? 0 : (int64_t)(uint64_t)x;
    return x <= -end ? -((int64_t)1 << (bits - 1)) * 2 : (int64_t)x;
}

/* As a float; to a narrower type than f32 so that rounding once more is right (to odd). */
FN float of_integer(int from, int to, int64_t v)
{
    const bool negative = v < 0 && is_signed(from);
    uint64_t size = negative ? 0 - (uint64_t)v : (uint64_t)v;
    const int over = to == ZT_CU_F32 ? 0 : 40 - (int)clz(size); /* bits past the 24 that f32 has */
    if (over > 0) size = (size >> over | ((size & (((uint64_t)1 << over) - 1)) != 0)) << over;
    return negative ? -(float)size : (float)size;
}

FN value cast(const zt_cu_chain_op *o, value x)
{
    const int from = o->of, to = o->to;
    if (!is_float_type(to)) return of_int(is_float_type(from) ? whole(to, x.f) : wrapped(to, (uint64_t)x.i));
    float y = is_float_type(from) ? x.f : of_integer(from, to, x.i);
    if (to > ZT_CU_BF16 && to <= ZT_CU_F8_E8M0 && o->q != 0) { /* saturates */
        const float most = small_get(to, small_of(to).most);
        y = y > most ? most : y < -most ? -most : y;
    }
    return of_float(to <= ZT_CU_BF16 ? rounded(to, y) : y);
}

/* ---- chains ------------------------------------------------------------------------------------ */

FN bool not_zero(int type, value v) { return is_float_type(type) ? v.f != 0 : v.i != 0; }

FN value run_op(const zt_cu_chain_op *o, const value *v, int64_t i, zt_cu_ptr error)
{
    const value a = v[o->in[0]], b = v[o->in[1]];
    if (o->fn == ZT_CU_F_where) return not_zero(o->of0, a) ? b : v[o->in[2]];
    if (o->fn == ZT_CU_F_cast) return cast(o, a);
    if (o->fn == ZT_CU_F_fill) return of_float(number_as(o->to, o->p));
    if (is_test(o->fn)) return run_test(o, a, b);
    if (o->fn >= ZT_CU_F_isnan) return of_int(ask(o, a.f));
    if (is_float_type(o->of)) {
        const float y = o->fn < ZT_CU_F_add ? f_unary(o->fn, a.f, number(o->p), number(o->q)) : f_binary(o->fn, a.f, b.f);
        return of_float(rounded(o->to, y));
    }
    if (divides(o->fn) && !b.i) trouble(error, ZT_CU_DIVISION, i, 0, -1);
    return of_int(wrapped(o->to, of_integers(o, a.i, b.i)));
}

KERNEL(zt_cu_chain, zt_cu_chain_args)
{
    __global const zt_cu_chain_op *ops = PTR(const zt_cu_chain_op, a.ops);
    EACH_OF(i, a.n)
    {
        value v[ZT_CU_CHAIN_IN + ZT_CU_CHAIN_OPS];
        v[0].i = 0;
        for (int k = 0; k < a.n_in; k++)
            if (a.x[k]) v[k] = load_value(a.x_type[k], a.x[k], offset_at(a.n_dims, a.dim, a.step[k], i));
        if (!a.ops) {
            const zt_cu_chain_op one = a.one;
            store_value(a.y_type[0], a.y[0], i, run_op(&one, v, i, a.trouble));
            continue;
        }
        for (int k = 0; k < a.n_ops; k++) {
            const zt_cu_chain_op one = ops[k];
            v[ZT_CU_CHAIN_IN + k] = run_op(&one, v, i, a.trouble);
        }
        for (int k = 0; k < a.n_ops; k++) {
            const int to = ops[k].out;
            if (to && a.y[to - 1]) store_value(a.y_type[to - 1], a.y[to - 1], i, v[ZT_CU_CHAIN_IN + k]);
        }
    }
}

/* ---- one float, two floats --------------------------------------------------------------------- */

#define MAP(name, type)                                                                                                          \
    KERNEL(name, zt_cu_map_args)                                                                                                 \
    {                                                                                                                            \
        const float p = number(a.p), q = number(a.q);                                                                            \
        EACH_OF(i, a.n) put(type, a.y, i, f_unary(a.fn, get(type, a.x, i), p, q));                                               \
    }
MAP(zt_cu_map_f32, ZT_CU_F32)
MAP(zt_cu_map_f16, ZT_CU_F16)
MAP(zt_cu_map_bf16, ZT_CU_BF16)

#define MAP2(name, type)                                                                                                         \
    KERNEL(name, zt_cu_map2_args)                                                                                                \
    {                                                                                                                            \
        EACH_OF(i, a.n)                                                                                                          \
        put(type, a.y, i,                                                                                                        \
            f_binary(a.fn, get(type, a.a, i / a.a_each % a.a_size), get(type, a.b, i / a.b_each % a.b_size)));                   \
    }
MAP2(zt_cu_map2_f32, ZT_CU_F32)
MAP2(zt_cu_map2_f16, ZT_CU_F16)
MAP2(zt_cu_map2_bf16, ZT_CU_BF16)
