/* rounded.h - private to the library: functions of few numbers that a program's constants are made of, with one rounding, so that they
 * do not depend on the C library. What is infinite, NaN or outside the domain comes as in the C library. */
#ifndef ZT_OPS_ROUNDED_H
#define ZT_OPS_ROUNDED_H

double zt_rounded_power(double x, double exponent); /* x > 0 */
double zt_rounded_log(double x);
double zt_rounded_exp2(double x);
double zt_rounded_softplus(double x); /* log(1 + exp(x)) */

#endif
