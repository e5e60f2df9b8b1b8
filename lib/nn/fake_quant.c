/* fake_quant.c - owns what a layer's dtype makes of its masters: as a function of one number, and the
 * same as ops on a weight, so that a program can begin at the masters. Both give the same numbers
 * where ops are f32.
 *
 * By Loom's rule it is zt_loom_simulate; by the field's, zt_storage's, with x / scale in f32. */
#include "lib/nn/nn_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* How x / scale becomes a code. */
typedef enum cut {
    CUT_NOT,    /* x itself, whatever the scale */
    CUT_UPPER,  /* x with the upper 16 bits of its f32 alone */
    CUT_CODEC,  /* into [lo, hi], through dtype `to` */
    CUT_NEAR,   /* to the nearest whole number, halves to even, in [lo, hi] */
    CUT_ZERO,   /* towards zero */
    CUT_HALVES, /* the same of the double, then half of it */
    CUT_WRAP,   /* towards zero, of which the low 8 bits are kept, signed */
    CUT_THIRDS, /* 1 above 1/2, -1 below -1/2, else 0 */
    CUT_SIGN    /* of x: 1 above 0, else -1 */
} cut;

typedef struct precision {
    cut cut;
    bool scaled, at_zero; /* CUT_SIGN: 0 is 1 */
    zt_dtype to;
    double lo, hi;
    bool mean; /* by the field's rule: the scale is the mean magnitude, else the largest by hi */
} precision;

static precision field_precision(zt_storage t)
{
    precision p = {CUT_NEAR, true, false, zt_storage_get(t)->dtype, -1, 1, false};
    if (t == ZT_STORE_F32 || t == ZT_STORE_F64) return (precision){.cut = CUT_NOT};
    p.mean = t == ZT_STORE_BINARY || t == ZT_STORE_TERNARY;
    p.at_zero = true;
    if (t == ZT_STORE_BINARY) p.cut = CUT_SIGN;
    if (p.mean) return p;
    zt_dtype_range(p.to, &p.lo, &p.hi);
    p.scaled = t != ZT_STORE_F16 && t != ZT_STORE_BF16;
    if (!p.scaled || t == ZT_STORE_FP8E4M3 || t == ZT_STORE_FP8E5M2 || t == ZT_STORE_FP4)
        p.cut = CUT_CODEC;
    return p;
}

static precision loom_precision(zt_storage t)
{
    int bits = zt_storage_get(t)->bits;
    if (t == ZT_STORE_BF16) return (precision){.cut = CUT_UPPER};
    if (t <= ZT_STORE_F16 || bits >= 32) return (precision){.cut = CUT_NOT};
    if (t == ZT_STORE_BINARY) return (precision){.cut = CUT_SIGN, .scaled = true};
    if (t == ZT_STORE_TERNARY) return (precision){.cut = CUT_THIRDS, .scaled = true};
    return (precision){.cut = bits == 2   ? CUT_HALVES
                              : bits == 4 ? CUT_ZERO
                                          : CUT_WRAP,
                       .scaled = true};
}

/* Of what is put in place of its masters: of codes as zt_nn_put has it. */
static precision precision_of(const zt_nn_layer *l)
{
    return l->rule == ZT_RULE_FIELD || l->settled ? field_precision(l->dtype)
                                                  : loom_precision(l->dtype);
}

/* ---- of a number ----------------------------------------------------------------------------- */

static float through_codec(zt_dtype t, float x)
{
    unsigned char code[8] = {0};
    float four[8] = {x}; /* packed types are decoded by the byte */
    const zt_dtype_info *d = zt_dtype_get(t);
    d->encode(four, code, d->block);
    d->decode(code, four, d->block);
    return four[0];
}

float zt_layer_precise(const zt_nn_layer *l, float x)
{
    if (l->rule == ZT_RULE_LOOM) return zt_loom_simulate(l->dtype, x, l->scale);
    precision p = field_precision(l->dtype);
    float q = p.scaled ? x / l->scale : x, lo = (float)p.lo, hi = (float)p.hi;
    if (p.cut == CUT_NOT) return x;
    if (p.cut == CUT_SIGN) return x >= 0 ? l->scale : -l->scale;
    if (p.cut == CUT_NEAR) q = rintf(q);
    q = q < lo ? lo : q > hi ? hi : q;
    if (p.cut == CUT_CODEC) q = through_codec(p.to, q);
    return p.scaled ? q * l->scale : q;
}

/* ---- as ops ---------------------------------------------------------------------------------- */

/* Ops on one weight, whose values are called "NAME.of1", ... : other ops are copied behind them
 * with the names that they have. */
typedef struct maker {
    zt_prog *p;
    const char *name;
    int made;
    char buf[1 << 12];
} maker;

static const char *next_name(maker *m)
{
    snprintf(m->buf, sizeof m->buf, "%s.of%d", m->name, ++m->made);
    return m->buf;
}

static int like(maker *m, int x, double value)
{
    return zt_program_fill_like(m->p, next_name(m), x, &(zt_fill_like_attrs){value});
}

static int times(maker *m, int x, double by)
{
    return zt_program_scale(m->p, next_name(m), x, &(zt_scale_attrs){by});
}

static int floored(maker *m, int x) { return zt_program_floor(m->p, next_name(m), x); }

/* Whole numbers of magnitude, with the sign. */
static int to_zero(maker *m, int q)
{
    int whole = floored(m, zt_program_abs(m->p, next_name(m), q));
    return zt_program_mul(m->p, next_name(m), zt_program_sign(m->p, next_name(m), q), whole);
}

/* t - 256 floor((t + 128) / 256): exact in f32, as t is whole. */
static int low_byte(maker *m, int t)
{
    int up = zt_program_add_scalar(m->p, next_name(m), t, &(zt_add_scalar_attrs){128});
    int turns = floored(m, times(m, up, 1.0 / 256));
    return zt_program_sub(m->p, next_name(m), t, times(m, turns, 256));
}

/* 1 where a > b, by `above`, else what `other` is. */
static int choose(maker *m, int above, int x, double then, int other)
{
    return zt_program_where(m->p, next_name(m), above, like(m, x, then), other);
}

/* The table's functions: q is x / scale, of CUT_SIGN and those without a scale x. */

static int towards_zero(maker *m, int q, const precision *p)
{
    (void)p;
    return to_zero(m, q);
}

static int halves(maker *m, int q, const precision *p)
{
    (void)p;
    return times(m, to_zero(m, times(m, q, 2)), 0.5);
}

static int wrap(maker *m, int q, const precision *p)
{
    (void)p;
    return low_byte(m, to_zero(m, q));
}

static int thirds(maker *m, int q, const precision *p)
{
    (void)p;
    int low = zt_program_lt(m->p, next_name(m), q, like(m, q, -0.5));
    int high = zt_program_gt(m->p, next_name(m), q, like(m, q, 0.5));
    return choose(m, high, q, 1, choose(m, low, q, -1, like(m, q, 0)));
}

static int sign_of(maker *m, int x, const precision *p)
{
    int zero = like(m, x, 0);
    int above = p->at_zero ? zt_program_ge(m->p, next_name(m), x, zero)
                           : zt_program_gt(m->p, next_name(m), x, zero);
    return choose(m, above, x, 1, like(m, x, -1));
}

static int upper_bits(maker *m, int x, const precision *p)
{
    (void)p;
    int bits = zt_program_bitcast(m->p, next_name(m), x, &(zt_bitcast_attrs){{"i32"}});
    zt_cast_attrs whole = {.to = {"i32"}, .saturate = 1};
    int mask = zt_program_cast(m->p, next_name(m), like(m, x, -65536), &whole);
    int kept = zt_program_bitwise_and(m->p, next_name(m), bits, mask);
    return zt_program_bitcast(m->p, next_name(m), kept, &(zt_bitcast_attrs){{"f32"}});
}

static int within(maker *m, int q, const precision *p)
{
    return zt_program_clamp(m->p, next_name(m), q, &(zt_clamp_attrs){p->lo, p->hi});
}

static int nearest(maker *m, int q, const precision *p)
{
    return within(m, zt_program_round(m->p, next_name(m), q), p);
}

static int codec(maker *m, int q, const precision *p)
{
    zt_cast_attrs there = zt_cast_defaults(), back = zt_cast_defaults();
    snprintf(there.to.s, sizeof there.to.s, "%s", zt_dtype_get(p->to)->name);
    int code = zt_program_cast(m->p, next_name(m), within(m, q, p), &there);
    return zt_program_cast(m->p, next_name(m), code, &back);
}

static int (*const cuts[])(maker *m, int q, const precision *p) = {
    [CUT_UPPER] = upper_bits, [CUT_CODEC] = codec, [CUT_NEAR] = nearest,  [CUT_ZERO] = towards_zero,
    [CUT_HALVES] = halves,    [CUT_WRAP] = wrap,   [CUT_THIRDS] = thirds, [CUT_SIGN] = sign_of};

/* Of numbers of one weight: their largest magnitude, or the sum of all. */
static int magnitude(maker *m, int w, bool sum)
{
    int size = zt_program_abs(m->p, next_name(m), w);
    return sum ? zt_program_sum(m->p, next_name(m), size, NULL)
               : zt_program_amax(m->p, next_name(m), size, NULL);
}

/* The field's scale of all weights of the layer, as they are in the program: zt_storage_scale. */
static int field_scale(maker *m, const zt_nn *nn, const zt_nn_layer *l, const precision *how)
{
    int all = -1;
    for (int64_t i = l->weights; i < l->weights + l->n_weights; i++) {
        int w = zt_prog_find(m->p, nn->weight[i].name),
            one = w < 0 ? -1 : magnitude(m, w, how->mean);
        if (one < 0) continue;
        all = all < 0     ? one
              : how->mean ? zt_program_add(m->p, next_name(m), all, one)
                          : zt_program_max(m->p, next_name(m), all, one);
    }
    double by = how->mean ? (double)zt_nn_layer_size(nn, l) : how->hi;
    int some = zt_program_gt(m->p, next_name(m), all, like(m, all, 0));
    int scale = zt_program_div(m->p, next_name(m), all, like(m, all, by));
    return zt_program_where(m->p, next_name(m), some, scale, like(m, all, 1));
}

int zt_nn_through(zt_nn *nn, zt_prog *p, int weight, const char *name)
{
    int64_t i = zt_nn_store(nn).find ? zt_map_find(nn->names, name) : -1;
    if (i < 0 || i >= nn->n_weights) return weight;
    const zt_nn_layer *l = nn->weight[i].layer;
    precision how = precision_of(l);
    maker m = {.p = p, .name = name};
    if (how.cut == CUT_NOT) return weight;
    if (!how.scaled) return cuts[how.cut](&m, weight, &how);
    bool field = l->rule == ZT_RULE_FIELD || l->settled;
    int scale = field ? field_scale(&m, nn, l, &how) : like(&m, weight, (double)l->scale);
    int q = how.cut == CUT_SIGN ? weight : zt_program_div(p, next_name(&m), weight, scale);
    return zt_program_mul(p, next_name(&m), cuts[how.cut](&m, q, &how), scale);
}
