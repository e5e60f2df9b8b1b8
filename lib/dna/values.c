/* values.c - owns a layer's numbers: at the precision of their dtype, and as a signature.
 *
 * A tensor's numbers are read where they are wanted, piece by piece. A layer of a network is held
 * whole: its precision asks for all of a tensor, its parts are brought to length 1 each. What such
 * a layer with parts counts as is its signature times the length of all its numbers. */
#include "lib/dna/dna_file.h"
#include "lib/tensor/quantize.h"

#include <math.h>
#include <string.h>

/* ---- whole numbers as floats ----------------------------------------------------------------- */

#define WIDEN(name, type)                                                                          \
    static void widen_##name(const void *src, float *out, int64_t n)                               \
    {                                                                                              \
        const char *p = src;                                                                       \
        type v;                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                          \
            memcpy(&v, p + (size_t)i * sizeof v, sizeof v);                                        \
            out[i] = (float)v;                                                                     \
        }                                                                                          \
    }
WIDEN(i64, int64_t)
WIDEN(i32, int32_t)
WIDEN(i16, int16_t)
WIDEN(i8, int8_t)
WIDEN(u64, uint64_t)
WIDEN(u32, uint32_t)
WIDEN(u16, uint16_t)
WIDEN(u8, uint8_t)

static void (*const widen[ZT_DTYPE_COUNT])(const void *src, float *out, int64_t n) = {
    [ZT_I64] = widen_i64, [ZT_I32] = widen_i32, [ZT_I16] = widen_i16,
    [ZT_I8] = widen_i8,   [ZT_U64] = widen_u64, [ZT_U32] = widen_u32,
    [ZT_U16] = widen_u16, [ZT_U8] = widen_u8,   [ZT_BOOL] = widen_u8};

void zt_dna_decode(zt_dtype t, const void *src, float *out, int64_t n)
{
    if (widen[t])
        widen[t](src, out, n);
    else
        zt_dtype_convert(t, src, ZT_F32, out, n);
}

size_t zt_dna_bytes(zt_dtype t, int64_t n)
{
    const zt_dtype_info *info = zt_dtype_get(t);
    return (size_t)((n + info->block - 1) / info->block) * (size_t)info->block_bytes;
}

/* ---- weights of a network at their precision ------------------------------------------------- */

zt_status zt_dna_room(zt_dna *d, size_t bytes)
{
    if (bytes <= d->codes_room) return ZT_OK;
    char *more = zt_realloc(d->ctx, d->codes, bytes);
    if (!more) return ZT_ENOMEM;
    d->codes = more;
    d->codes_room = bytes;
    return ZT_OK;
}

/* Codes of less than a byte stand in a network with the first in the highest bits, where the
 * field's have it in the lowest. */
static void turn(uint8_t *p, size_t n, int bits)
{
    unsigned mask = (1u << bits) - 1;
    for (size_t i = 0; i < n; i++) {
        unsigned was = p[i], is = 0;
        for (int at = 0; at < 8; at += bits) is |= (was >> at & mask) << (8 - bits - at);
        p[i] = (uint8_t)is;
    }
}

static zt_status decode_weights(zt_dna *d, const dna_part *p, float *out)
{
    zt_net_weights w = p->are;
    zt_entry e;
    zt_checkpoint_get(d->from, p->tensor, &e);
    zt_status s = zt_dna_room(d, (size_t)e.bytes);
    if (s == ZT_OK) s = zt_checkpoint_read(d->from, p->tensor, 0, d->codes, (size_t)e.bytes);
    if (s != ZT_OK) return s;
    int bits = zt_storage_get(w.type)->bits;
    if (w.native && bits < 8) {
        if (w.rule == ZT_RULE_FIELD) turn((uint8_t *)d->codes, (size_t)e.bytes, bits);
        zt_storage_decode(w.type, w.rule, d->codes, p->n, w.scale, out);
    } else {
        zt_net_decode(&w, d->codes, p->n, out);
    }
    return ZT_OK;
}

/* As it would be read from a file that holds it in these codes. */
static zt_status through_codes(zt_dna *d, const dna_part *p, float *x)
{
    size_t bytes = zt_net_bytes(&p->are, p->n);
    if (!p->are.native) return ZT_OK;
    zt_net_weights nearest = zt_net_nearest(&p->are);
    zt_status s = zt_dna_room(d, bytes);
    return s == ZT_OK ? zt_net_encode(d->ctx, &nearest, x, p->n, d->codes, x) : s;
}

zt_status zt_dna_mixed(zt_dna *d, int64_t part, float *out)
{
    const dna_part *p = &d->part[part];
    if (!d->mix) return decode_weights(d, p, out);
    /* A's codes are read as A has them: a child's scale may be another */
    dna_part was = *p;
    was.are = d->mix->twin[part] < 0 ? p->are : d->mix->was[part];
    zt_status s = decode_weights(d, &was, out);
    return s == ZT_OK && d->mix->twin[part] >= 0 ? zt_dna_mix(d, part, 0, p->n, out) : s;
}

zt_status zt_dna_master(zt_dna *d, int64_t part, float *out)
{
    bool mixed = d->mix && d->mix->twin[part] >= 0;
    zt_status s = zt_dna_mixed(d, part, out);
    return s == ZT_OK && mixed ? through_codes(d, &d->part[part], out) : s;
}

/* As codes of their dtype would give them back. What is native has been codes already. */
static zt_status field_precision(zt_dna *d, const dna_part *p, float *x)
{
    zt_storage t = p->are.type;
    if (p->are.native || t == ZT_STORE_F32 || t == ZT_STORE_F64) return ZT_OK;
    float scale = zt_storage_scale(t, x, p->n);
    zt_status s = zt_dna_room(d, zt_storage_bytes(t, ZT_RULE_FIELD, p->n));
    if (s == ZT_OK) s = zt_storage_encode(d->ctx, t, ZT_RULE_FIELD, x, p->n, scale, d->codes);
    if (s == ZT_OK) zt_storage_decode(t, ZT_RULE_FIELD, d->codes, p->n, scale, x);
    return s;
}

/* The numbers of a part that is no group. */
static zt_status part_values(zt_dna *d, int64_t part, float *out)
{
    const dna_part *p = &d->part[part];
    if (p->tensor < 0) {
        out[0] = 1;
        return ZT_OK;
    }
    zt_status s = zt_dna_master(d, part, out);
    if (s != ZT_OK || d->rule == ZT_RULE_FIELD) return s == ZT_OK ? field_precision(d, p, out) : s;
    if (p->are.native) return ZT_OK; /* codes have been taken so already: not twice */
    float scale = p->are.scale == 0 ? 1 : p->are.scale;
    for (int64_t i = 0; i < p->n; i++) out[i] = zt_loom_simulate(p->are.type, out[i], scale);
    return ZT_OK;
}

/* ---- signatures ------------------------------------------------------------------------------ */

/* Squares in f32, summed in f64, as Loom has it; gives their sum. */
static double make_unit(float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        float square = x[i] * x[i];
        sum += square;
    }
    float length = (float)sqrt(sum);
    for (int64_t i = 0; i < n && length != 0; i++) x[i] /= length;
    return sum;
}

/* Part p brought to length 1, and what is in it before that; adds the squares of its numbers. */
static zt_status sign_part(zt_dna *d, int64_t p, float *out, double *squares)
{
    const dna_part *part = &d->part[p];
    zt_status s = ZT_OK;
    if (!part->group) {
        s = part_values(d, p, out);
        if (s == ZT_OK) *squares += make_unit(out, part->n);
        return s;
    }
    for (int64_t i = p + 1, at = 0; i < part->next && s == ZT_OK; i = d->part[i].next) {
        s = sign_part(d, i, out + at, squares);
        at += d->part[i].n;
    }
    if (s == ZT_OK) make_unit(out, part->n);
    return s;
}

static zt_status hold(zt_dna *d, int64_t i)
{
    const dna_part *p = &d->part[d->first[i]];
    double squares = 0;
    if (d->held_layer == i) return ZT_OK;
    d->held_layer = -1;
    if (p->n > d->held_room) {
        float *more = zt_realloc(d->ctx, d->held, (size_t)p->n * sizeof *more);
        if (!more) return ZT_ENOMEM;
        d->held = more;
        d->held_room = p->n;
    }
    zt_status s = p->group ? sign_part(d, d->first[i], d->held, &squares)
                           : part_values(d, d->first[i], d->held);
    float length = (float)sqrt(squares);
    for (int64_t k = 0; p->group && k < p->n && s == ZT_OK; k++) d->held[k] *= length;
    if (s == ZT_OK) d->held_layer = i;
    return s;
}

/* ---- any layer ------------------------------------------------------------------------------- */

zt_dtype zt_dna_dtype(const zt_dna *d, int64_t i)
{
    return d->net || d->length ? ZT_F32 : d->layer[i].shape.dtype;
}

/* Floats in a dtype that can be written. */
static zt_status encode(zt_dna *d, int64_t i, const float *x, int64_t n, void *dst)
{
    zt_dtype t = zt_dna_dtype(d, i);
    if (zt_dtype_get(t)->kind == 'Q' && !zt_dtype_is_packed(t)) {
        zt_quantizer q = {.dtype = t, .n = n, .name = d->layer[i].name};
        return zt_quantize_rows(d->ctx, &q, x, 1, dst);
    }
    zt_dtype_convert(ZT_F32, x, t, dst, n);
    return ZT_OK;
}

static zt_status fetch_mixed(zt_dna *d, int64_t i, int64_t at, int64_t n, void *dst)
{
    zt_dtype t = zt_dna_dtype(d, i);
    float *x = zt_alloc_array(d->ctx, (size_t)n, sizeof *x);
    zt_status s = x ? zt_checkpoint_read(d->from, i, zt_dna_bytes(t, at), dst, zt_dna_bytes(t, n))
                    : ZT_ENOMEM;
    if (s == ZT_OK) {
        zt_dna_decode(t, dst, x, n);
        s = zt_dna_mix(d, i, at, n, x);
    }
    if (s == ZT_OK) s = encode(d, i, x, n, dst);
    zt_free(d->ctx, x);
    return s;
}

/* Signatures times their length: about the weights that they are of. */
static zt_status fetch_signed(zt_dna *d, int64_t i, int64_t at, int64_t n, float *out)
{
    zt_dtype t = d->layer[i].shape.dtype;
    double by = d->length[i];
    zt_status s = ZT_OK;
    if (d->given) {
        memcpy(out, d->given[i] + at, (size_t)n * sizeof *out);
    } else {
        s = zt_dna_room(d, zt_dna_bytes(t, n));
        if (s == ZT_OK)
            s = zt_checkpoint_read(d->from, i, zt_dna_bytes(t, at), d->codes, zt_dna_bytes(t, n));
        if (s == ZT_OK) zt_dna_decode(t, d->codes, out, n);
        if (t == ZT_F16) by /= sqrt((double)d->layer[i].n);
    }
    for (int64_t k = 0; k < n && s == ZT_OK; k++) out[k] = (float)(out[k] * by);
    return s;
}

zt_status zt_dna_fetch(zt_dna *d, int64_t i, int64_t at, int64_t n, void *dst)
{
    zt_dtype t = zt_dna_dtype(d, i);
    if (d->length) return fetch_signed(d, i, at, n, dst);
    if (!d->net && (!d->mix || d->mix->twin[i] < 0))
        return zt_checkpoint_read(d->from, i, zt_dna_bytes(t, at), dst, zt_dna_bytes(t, n));
    if (!d->net) return fetch_mixed(d, i, at, n, dst);
    zt_status s = hold(d, i);
    if (s == ZT_OK) memcpy(dst, d->held + at, (size_t)n * sizeof(float));
    return s;
}

zt_status zt_dna_read(zt_dna *d, int64_t i, float *out)
{
    enum { PIECE = 1 << 14 };
    char codes[PIECE * sizeof(double)]; /* no number takes more */
    int64_t n = d->layer[i].n, k;
    zt_status s = ZT_OK;
    for (int64_t at = 0; at < n && s == ZT_OK; at += k) {
        k = n - at < PIECE ? n - at : PIECE;
        s = zt_dna_fetch(d, i, at, k, codes);
        if (s == ZT_OK) zt_dna_decode(zt_dna_dtype(d, i), codes, out + at, k);
    }
    return s;
}

zt_status zt_dna_sign(zt_dna *d, int64_t i, float *out, double *length)
{
    double squares = 0;
    zt_status s = d->net ? sign_part(d, d->first[i], out, &squares) : zt_dna_read(d, i, out);
    if (s != ZT_OK) return s;
    if (!d->net) squares = make_unit(out, d->layer[i].n);
    if (length) *length = sqrt(squares);
    return ZT_OK;
}
