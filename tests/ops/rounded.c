/* rounded.c - functions with one rounding (lib/ops/rounded.h) against values of Python's decimal with 200 digits, rounded once. */
#include "lib/ops/rounded.h"
#include "tests/common/tap.h"

#include <math.h>

typedef struct value {
    double x, y;
} value;

static void same(const char *name, double (*f)(double), const value *values, int count)
{
    int wrong = 0;
    for (int i = 0; i < count; i++)
        if (f(values[i].x) != values[i].y) {
            diag("%s(%a) is %a, expected %a", name, values[i].x, f(values[i].x), values[i].y);
            wrong++;
        }
    ok(!wrong, "%s is rounded once", name);
}

#define SAME(name, f, values) same(name, f, values, (int)(sizeof(values) / sizeof *(values)))

static const value logs[] = {
    {0x1.0000000000000p+1, 0x1.62e42fefa39efp-1},   {0x1.4000000000000p+3, 0x1.26bb1bbb55516p+1},
    {0x1.4000000000000p+5, 0x1.d82d33b32720dp+1},   {0x1.e848000000000p+18, 0x1.a3ea669a05c01p+3},
    {0x1.0624dd2f1a9fcp-10, -0x1.ba18a998fffa0p+2}, {0x1.000000006df38p+0, 0x1.b7cdffffa18d8p-34},
    {0x1.fff2e48e8a71ep-1, -0x1.a3738d2cf1cc2p-14}, {0x1.71bf45b24880fp+0, 0x1.787722e1609c1p-2},
    {0x1.41a634228e34fp-1, -0x1.dc050ca1b5600p-2},  {0x1.a7643fbbdce02p-2, -0x1.c42f6bbcfd41fp-1},
    {0x1.d9f0acebe3e9dp-1, -0x1.3c63c95345681p-4},  {0x1.454ebb5327118p-1, -0x1.d0705a8a30a62p-2},
    {0x1.946d8a1865d14p-1, -0x1.e305f13b84202p-3},  {0x1.3646021b43aabp+0, 0x1.89c853a7f28bdp-3},
    {0x1.2b5485d7a74f0p+0, 0x1.403ec9a7958c1p-3},
};

static const value powers_of_2[] = {
    {-0x1.0000000000000p-1, 0x1.6a09e667f3bcdp-1},   {-0x1.0000000000000p+3, 0x1.0000000000000p-8},
    {-0x1.0000000000000p-3, 0x1.d5818dcfba487p-1},   {0x1.a666666666666p+1, 0x1.3b2c47bff8328p+3},
    {-0x1.5554c985f06f7p+2, 0x1.966251ab1c301p-6},   {0x1.9066666666666p+6, 0x1.125fbee250651p+100},
    {-0x1.4d55555555555p+8, 0x1.965fea53d6e9ap-334}, {-0x1.0172a48139e4cp+2, 0x1.f808c04643d7dp-5},
    {0x1.c47093a475c80p-1, 0x1.d85628ae0baa8p+0},    {-0x1.7b0a1509f7070p+1, 0x1.06f856b9a57dep-3},
    {0x1.dbd90bc923e64p+1, 0x1.a4f764e3958b7p+3},    {-0x1.f5913f8a98592p+2, 0x1.1e9f7240cdbd2p-8},
    {0x1.76b44a6b58070p+1, 0x1.e6dd5bbb531b8p+2},
};

static const value softpluses[] = {
    {0x0.0p+0, 0x1.62e42fefa39efp-1},
    {0x1.999999999999ap-1, 0x1.2bcd40d491cc8p+0},
    {-0x1.3333333333333p-2, 0x1.1bd4735ab7816p-1},
    {-0x1.4000000000000p+5, 0x1.39792499b1a24p-58},
    {-0x1.9100000000000p+7, 0x1.ab75a9120ca42p-290},
    {0x1.e000000000000p+4, 0x1.e00000000001ap+4},
    {0x1.2c00000000000p+9, 0x1.2c00000000000p+9},
    {-0x1.70eab039ffe40p+1, 0x1.be78dd2f527d2p-5},
    {-0x1.b761b1c6269e0p+1, 0x1.046c4c45577f0p-5},
    {-0x1.17adcb8a1067cp+0, 0x1.2827e8d3b2cd3p-2},
    {-0x1.7bab11e935f4dp+1, 0x1.9b63c22e8ebc6p-5},
    {-0x1.fa6d43b0f72dcp+1, 0x1.367a35d98e60bp-6},
    {-0x1.b4d8e0648fee0p-1, 0x1.6b6ba63adf80dp-2},
    {-0x1.1fcb2752dae9ap+2, 0x1.6b2cf3fc0d405p-7},
    {0x1.1f6292a2ab478p+1, 0x1.2c452f40907bdp+1},
};

static const struct {
    double x, exponent, y;
} powers[] = {
    {0x1.3880000000000p+13, -0x1.8000000000000p-4, 0x1.afd1354c40d50p-2},
    {0x1.e848000000000p+18, -0x1.1000000000000p-2, 0x1.f5ea7e575c95ep-6},
    {0x1.e848000000000p+19, -0x1.f800000000000p-1, 0x1.4d1c97f4e952fp-20},
    {0x1.86a0000000000p+16, -0x1.5555555555555p-1, 0x1.e6b4b396428ecp-12},
};

int main(void)
{
    int wrong = 0;
    SAME("log", zt_rounded_log, logs);
    SAME("exp2", zt_rounded_exp2, powers_of_2);
    SAME("softplus", zt_rounded_softplus, softpluses);
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++)
        wrong += zt_rounded_power(powers[i].x, powers[i].exponent) != powers[i].y;
    ok(!wrong, "a power is rounded once");
    ok(zt_rounded_exp2(-3) == 0.125 && zt_rounded_exp2(0) == 1 && zt_rounded_log(1) == 0, "exact results are exact");
    ok(zt_rounded_log(0) == -INFINITY && isnan(zt_rounded_log(-1)) && isnan(zt_rounded_log(NAN)) &&
           zt_rounded_exp2(2000) == INFINITY && zt_rounded_power(INFINITY, -1) == 0 && zt_rounded_softplus(800) == 800 &&
           zt_rounded_softplus(-INFINITY) == 0,
       "ends are the C library's");
    return tap_done();
}
