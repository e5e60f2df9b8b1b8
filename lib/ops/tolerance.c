/* tolerance.c - how far from an op's meaning an engine's result may be. */
#include "lib/ops/linear.h"

#include <stdlib.h>
#include <string.h>

/* Bits that activations go to against block types: 8, 16; 0: they stay as they are. The fewest of all
 * outputs. */
static int activation_bits(zt_op op, const void *attrs)
{
    int fewest = 0;
    for (int k = 0; k < zt_op_info(op)->n_out; k++) {
        const zt_enum_string *act = zt_op_act(op, attrs, k);
        int bits = act && act->s[0] == 'q' ? atoi(act->s + 1) : 0;
        if (bits && (!fewest || bits < fewest)) fewest = bits;
    }
    return fewest;
}

/* Is an input after the first, and no vector, of block type (bf16: of bf16)? */
static bool has_weight(const zt_opinfo *info, const zt_type *const in[], bool bf16)
{
    for (int k = 1; k < info->n_in; k++) {
        if (!in[k] || in[k]->rank < 2) continue;
        if (bf16 ? in[k]->dtype == ZT_BF16 : zt_dtype_get(in[k]->dtype)->kind == 'Q') return true;
    }
    return false;
}

/* Errors of roundings one after the other add up; squared, by the square of their number. */
static double rounding_count(const zt_opinfo *info, const void *attrs)
{
    double n = info->def->roundings ? info->def->roundings(attrs ? attrs : info->defaults) : 1;
    return n * n;
}

int zt_op_rounds(zt_op op, const void *attrs, const zt_type *const in[])
{
    if (!in || !zt_op_info(op)) return 0;
    const zt_opinfo *info = zt_op_info(op);
    return has_weight(info, in, false) ? activation_bits(op, attrs ? attrs : info->defaults) : 0;
}

/* f32 arithmetic has 2^-24 = 6e-8, squared 4e-15, a step; a value in 16 bits may round to the other
 * side here and there, and one in 8 bits as well. */
double zt_op_bound(zt_op op, const void *attrs, const zt_type *const in[], const zt_type *out)
{
    if (!in || !out || !zt_op_info(op) || !zt_dtype_get(out->dtype)) return 0;
    const zt_opinfo *info = zt_op_info(op);
    const zt_dtype_info *d = zt_dtype_get(out->dtype);
    int bits = activation_bits(op, attrs ? attrs : info->defaults);
    double narrow = out->dtype == ZT_F16 ? 1e-6 : out->dtype == ZT_BF16 ? 4e-6 : 0;
    if (info->def->flags & (ZT_OPF_EXACT | ZT_OPF_VIEW) || !zt_dtype_is_float(out->dtype)) return 0;
    if (bits && has_weight(info, in, false)) /* x in blocks of 32: (amax/127)^2/12 of 1 is 3e-5 */
        return narrow * rounding_count(info, attrs) + (bits == 8 ? 5e-4 : 5e-4 / 254 / 254);
    if (bits && has_weight(info, in, true)) /* x in bf16: at worst 2^-18 */
        return (narrow + 4e-6) * rounding_count(info, attrs);
    if (narrow > 0) return narrow * rounding_count(info, attrs);
    if (d->kind == 'F' && d->block_bytes == 1) return 1e-3;
    if (out->dtype == ZT_F64) return 1e-20;
    return info->def->flags & ZT_OPF_SUMS ? 1e-10 : 1e-12 * rounding_count(info, attrs);
}
