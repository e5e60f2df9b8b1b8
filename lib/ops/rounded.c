/* rounded.c - powers, logarithms and exponentials in numbers of two doubles, rounded once at the end.
 *
 * Errors are below 2^-90 of the result: a rounding would be wrong where the exact result is nearer than that to the middle of two
 * doubles, of which none is known.
 */
#include "lib/ops/rounded.h"

#include <math.h>

/* hi + lo, |lo| at most half a unit of hi's last place: some 106 bits. */
typedef struct two_doubles {
    double hi, lo;
} two_doubles;

static const two_doubles ln2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

static two_doubles two_sum(double a, double b)
{
    double sum = a + b, part = sum - a;
    return (two_doubles){sum, (a - (sum - part)) + (b - part)};
}

static two_doubles two_add(two_doubles a, two_doubles b)
{
    two_doubles sum = two_sum(a.hi, b.hi);
    return two_sum(sum.hi, sum.lo + a.lo + b.lo);
}

static two_doubles two_times(two_doubles a, two_doubles b)
{
    double product = a.hi * b.hi;
    return two_sum(product, fma(a.hi, b.hi, -product) + (a.hi * b.lo + a.lo * b.hi));
}

static two_doubles two_over(two_doubles a, double b)
{
    double quotient = a.hi / b;
    return two_sum(quotient, (fma(-quotient, b, a.hi) + a.lo) / b);
}

/* exp(x) - 1 of |x| < 2^-9, by Taylor: the first term left out is below 2^-120. */
static two_doubles two_expm1(two_doubles x)
{
    two_doubles sum = {1, 0};
    for (int n = 10; n > 1; n--) sum = two_add((two_doubles){1, 0}, two_over(two_times(sum, x), n));
    return two_times(sum, x);
}

/* exp(x) = 2^n (1 + expm1(r / 256))^256, r = x - n ln 2. */
static two_doubles two_exp(two_doubles x)
{
    double n = rint(x.hi / ln2.hi);
    two_doubles r = two_add(x, two_times((two_doubles){-n, 0}, ln2)), y = two_expm1((two_doubles){r.hi / 256, r.lo / 256});
    for (int i = 0; i < 8; i++) y = two_add((two_doubles){2 * y.hi, 2 * y.lo}, two_times(y, y));
    y = two_add((two_doubles){1, 0}, y);
    return (two_doubles){ldexp(y.hi, (int)n), ldexp(y.lo, (int)n)};
}

/* One step of Newton's method from the C library's log, after which nothing of its error is left. */
static two_doubles two_log(two_doubles x)
{
    double from = log(x.hi);
    two_doubles rest = two_add(two_times(x, two_exp((two_doubles){-from, 0})), (two_doubles){-1, 0});
    two_doubles bend = two_times(rest, rest);
    return two_add((two_doubles){from, 0}, two_add(rest, (two_doubles){-bend.hi / 2, -bend.lo / 2}));
}

double zt_rounded_power(double x, double exponent)
{
    if (!(x > 0) || !isfinite(x)) return pow(x, exponent);
    two_doubles y = two_exp(two_times(two_log((two_doubles){x, 0}), (two_doubles){exponent, 0}));
    return y.hi + y.lo;
}

double zt_rounded_log(double x)
{
    if (!(x > 0) || !isfinite(x)) return log(x);
    two_doubles y = two_log((two_doubles){x, 0});
    return y.hi + y.lo;
}

double zt_rounded_exp2(double x)
{
    if (!(fabs(x) < 1000)) return exp2(x);
    two_doubles y = two_exp(two_times((two_doubles){x, 0}, ln2));
    return y.hi + y.lo;
}

/* max(0, x) + log(1 + exp(-|x|)) */
double zt_rounded_softplus(double x)
{
    if (!(fabs(x) < 700)) return x > 0 ? x : isnan(x) ? x : exp(x);
    two_doubles one_more = two_add((two_doubles){1, 0}, two_exp((two_doubles){-fabs(x), 0}));
    two_doubles y = two_add((two_doubles){x > 0 ? x : 0, 0}, two_log(one_more));
    return y.hi + y.lo;
}
