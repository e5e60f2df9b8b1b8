/* index_ops.c - values and refusals of the ops that cast, quantize, pad, step, sort and read or write
 * at indices: what conformance (cpu against ref) cannot see. On ref and cpu. */
#include "tests/common/one_op.h"
#include "tests/common/refusal.h"
#include "tests/common/tap.h"

#include <math.h>

static zt_ctx *ctx;
static zt_engine *engines[2];

/* ---- values ---------------------------------------------------------------------------------- */

/* The op on these inputs gives `want`, bytes of output 0, on both engines. */
static bool gives(zt_op op, const void *attrs, const zt_type *const in[], const void *const data[], const void *want)
{
    bool good = true;
    for (int e = 0; e < 2; e++) {
        char y[2][512] = {{0}};
        oneop call = {.op = op, .attrs = attrs, .result = {y[0], y[1]}};
        for (int k = 0; k < ZT_MAX_IN && in[k]; k++) call.in[k] = in[k], call.data[k] = data[k];
        bool runs =
            !zt_op_infer(ctx, op, attrs ? attrs : zt_op_info(op)->defaults, call.in, call.out) && !oneop_run(engines[e], &call);
        if (!runs || memcmp(y[0], want, zt_type_bytes(&call.out[0]))) {
            diag("%s on %s: %s", zt_op_info(op)->name, e ? "cpu" : "ref", zt_ctx_error(ctx));
            good = false;
        }
        zt_ctx_clear(ctx);
    }
    return good;
}

static zt_type line(zt_dtype t, int64_t n) { return zt_type_make(t, 1, &n); }

/* count elements at x become those at `want`. */
static bool casts(zt_dtype from, const void *x, const char *to, bool saturate, int64_t count, const void *want)
{
    zt_cast_attrs a = zt_cast_defaults();
    zt_type type = line(from, count);
    a.to = (zt_enum_string){{0}};
    memcpy(a.to.s, to, strlen(to));
    a.saturate = saturate;
    return gives(ZT_OP_cast, &a, (const zt_type *const[ZT_MAX_IN]){&type}, (const void *const[ZT_MAX_IN]){x}, want);
}

static void values_of_casts(void)
{
    /* halfway between 1 and 1 + 2^-10, and so little more that f32 has it at halfway */
    const double near_tie = 1 + 0x1p-11 + 0x1p-40;
    const int64_t wide = (INT64_C(1) << 60) + (INT64_C(1) << 36) + 1;  /* likewise for f64, f32 */
    const int64_t wider = (INT64_C(1) << 60) + (INT64_C(1) << 52) + 1; /* and bf16 */
    const uint64_t most = UINT64_MAX, high = UINT64_C(1) << 63;
    ok(casts(ZT_F64, &near_tie, "f16", true, 1, &(uint16_t){0x3c01}), "f64 to f16 rounds once");
    ok(casts(ZT_I64, &wide, "f32", true, 1, &(float){0x1p60f + 0x1p37f}), "i64 to f32 does");
    ok(casts(ZT_I64, &wider, "bf16", true, 1, &(uint16_t){0x5d81}), "i64 to bf16 does");
    ok(casts(ZT_U64, &most, "f32", true, 1, &(float){0x1p64f}), "u64 is not negative");
    ok(casts(ZT_F64, &(double){0x1p63}, "u64", true, 1, &high), "nor what becomes one");
    ok(casts(ZT_F32, &(float){1e30f}, "u64", true, 1, &most), "its end");
    const float big[] = {500, -INFINITY, NAN, 464, 465};
    ok(casts(ZT_F32, big, "f8_e4m3", true, 5, (uint8_t[]){0x7e, 0xfe, 0x7f, 0x7e, 0x7e}), "f8_e4m3 saturates");
    ok(casts(ZT_F32, big, "f8_e4m3", false, 5, (uint8_t[]){0x7f, 0xff, 0x7f, 0x7e, 0x7f}), "or becomes NaN");
    ok(casts(ZT_F32, (float[]){6e4f, INFINITY, 62000}, "f8_e5m2", false, 3, (uint8_t[]){0x7b, 0x7c, 0x7c}),
       "f8_e5m2 has infinity");
    ok(casts(ZT_F32, (float[]){-9, 8, 15.9f}, "i4", true, 3, (uint8_t[]){0x87, 0x0f}),
       "i4 keeps low bits, the first element's lowest");
    ok(casts(ZT_I32, (int32_t[]){5, -1, 2}, "u2", true, 3, (uint8_t[]){0x2d}), "u2 of integers");
    ok(casts(ZT_U4, (uint8_t[]){0xf1, 0x03}, "i32", true, 3, (int32_t[]){1, 15, 3}), "u4 to i32");
    ok(casts(ZT_F32, (float[]){0.25f, 0.75f, 7, NAN}, "f4_e2m1", true, 4, (uint8_t[]){0x20, 0x87}),
       "f4_e2m1 saturates, halves to even");
}

static void values_of_places(void)
{
    zt_type x = line(ZT_F32, 4), i = line(ZT_I32, 3), s = zt_type_make(ZT_F32, 0, NULL);
    const float v[] = {1, NAN, 3, 3}, half = 0.5f;
    ok(gives(ZT_OP_topk, &(zt_topk_attrs){3, 0, 1}, (const zt_type *const[ZT_MAX_IN]){&x}, (const void *const[ZT_MAX_IN]){v},
             (float[]){NAN, 3, 3}),
       "NaN is the largest");
    const float up[] = {0.25f, 0.75f, -1, 100};
    ok(gives(ZT_OP_quantize_linear, &(zt_quantize_linear_attrs){{"u4"}, 0, 0, 1}, (const zt_type *const[ZT_MAX_IN]){&x, &s},
             (const void *const[ZT_MAX_IN]){up, &half}, (uint8_t[]){0x20, 0xf0}),
       "quantize_linear: halves to even, cut to the range");
    zt_type matrix = zt_type_make(ZT_F32, 2, (int64_t[]){2, 2});
    zt_type at = zt_type_make(ZT_I32, 2, (int64_t[]){3, 1});
    zt_type u = zt_type_make(ZT_F32, 2, (int64_t[]){3, 2});
    const int32_t rows[] = {1, 0, 1};
    const float m[] = {1, 2, 3, 4}, three[] = {5, 6, 7, 8, 9, 1};
    ok(gives(ZT_OP_scatter_nd, NULL, (const zt_type *const[ZT_MAX_IN]){&matrix, &at, &u},
             (const void *const[ZT_MAX_IN]){m, rows, three}, (float[]){7, 8, 9, 1}),
       "of several, the last is put");
    ok(gives(ZT_OP_scatter_nd, &(zt_scatter_nd_attrs){0, {"max"}, {"error"}}, (const zt_type *const[ZT_MAX_IN]){&matrix, &at, &u},
             (const void *const[ZT_MAX_IN]){m, rows, three}, (float[]){7, 8, 9, 6}),
       "or the largest");
    ok(gives(ZT_OP_pad, &(zt_pad_attrs){{1, {2}}, {1, {5}}, {"reflect"}, 0}, (const zt_type *const[ZT_MAX_IN]){&i},
             (const void *const[ZT_MAX_IN]){rows}, (int32_t[]){1, 0, 1, 0, 1, 0, 1, 0, 1, 0}),
       "reflect goes to and fro");
}

/* ---- refusals -------------------------------------------------------------------------------- */

static union {
    zt_cast_attrs cast;
    zt_bitcast_attrs bitcast;
    zt_slice_step_attrs step;
    zt_pad_attrs pad;
    zt_topk_attrs topk;
    zt_gather_nd_attrs nd;
    zt_scatter_nd_attrs put;
    zt_scatter_elements_attrs elements;
    zt_quantize_linear_attrs quantize;
    zt_dequantize_linear_attrs dequantize;
} const saturate2 = {.cast = {{"f16"}, 2, 0}}, round2 = {.cast = {{"f16"}, 1, 2}}, to_i16 = {.bitcast = {{"i16"}}},
        step0 = {.step = {0, 0, 0, 0}}, step_far = {.step = {0, 1, 2, 3}}, step_low = {.step = {0, 0, INT64_MIN, 0}},
        pad_word = {.pad = {{0}, {0}, {"mirror"}, 0}}, pad1 = {.pad = {{1, {1}}, {0}, {"edge"}, 0}},
        pad_less = {.pad = {{1, {-2}}, {1, {-2}}, {"constant"}, 0}},
        pad_huge = {.pad = {{1, {INT64_MAX}}, {1, {INT64_MAX}}, {"constant"}, 0}}, k9 = {.topk = {9, 0, 1}},
        largest2 = {.topk = {1, 0, 2}}, batch2 = {.nd = {2, {"error"}}}, by_sum = {.put = {0, {"sum"}, {"error"}}},
        max_bool = {.put = {0, {"max"}, {"error"}}}, adds = {.elements = {0, {"add"}, {"error"}}},
        to_f32 = {.quantize = {{"f32"}, 1, 0, 1}}, to_u8 = {.quantize = {{"u8"}, 1, 0, 1}}, block_low = {.dequantize = {0, -1}},
        block2 = {.dequantize = {1, 2}};

static const refusal refusals[] = {
    {ZT_OP_cast, &saturate2, ZT_EUSAGE, "saturate is 2", {"f32 3"}},
    {ZT_OP_cast, &round2, ZT_EUSAGE, "round is 2", {"f32 3"}},
    {ZT_OP_bitcast, &to_i16, ZT_ESHAPE, "the elements of x have 32 bits, but those of i16 have 16", {"f32 3"}},
    {ZT_OP_bitcast, &to_i16, ZT_ESHAPE, "q8_0 is a block type", {"q8_0 32"}},
    {ZT_OP_slice_step, &step0, ZT_ESHAPE, "0 entries from 0 with step 0 are out of range for an axis of 3", {"f32 3"}},
    {ZT_OP_slice_step, &step_far, ZT_ESHAPE, "3 entries from 1 with step 2 are out of range for an axis of 5", {"f32 5"}},
    {ZT_OP_slice_step,
     &step_low,
     ZT_ESHAPE,
     "0 entries from 0 with step -9223372036854775808 are out of range for an axis of 5",
     {"f32 5"}},
    {ZT_OP_slice_step, NULL, ZT_ESHAPE, "axis 0 is out of range for 0 dimensions", {"f32"}},
    {ZT_OP_slice_step_put, NULL, ZT_ESHAPE, "x must have type f32[3]: the selected entries of like", {"f32 2", "f32 3"}},
    {ZT_OP_pad, &pad_word, ZT_EUSAGE, "mode is 'mirror'", {"f32 3"}},
    {ZT_OP_pad, &pad1, ZT_ESHAPE, "before and after have 1 and 0 entries, expected 2 (dimensions)", {"f32 3 4"}},
    {ZT_OP_pad, &pad1, ZT_ESHAPE, "dimension 0 is empty: this mode needs an entry to pad with", {"f32 0"}},
    {ZT_OP_pad, &pad_less, ZT_ESHAPE, "3 entries cannot be padded by -2 and -2", {"f32 3"}},
    {ZT_OP_pad, &pad_huge, ZT_ESHAPE, "3 entries cannot be padded by 9223372036854775807 and 9223372036854775807", {"f32 3"}},
    {ZT_OP_pad, NULL, ZT_ESHAPE, "block type", {"q8_0 32"}},
    {ZT_OP_pad_back, NULL, ZT_ESHAPE, "dy does not have the shape of like with this padding", {"f32 3", "f32 4"}},
    {ZT_OP_tril, NULL, ZT_ESHAPE, "x must have at least 2 dimensions", {"f32 3"}},
    {ZT_OP_topk, &k9, ZT_ESHAPE, "k is 9: must be 0 to 3", {"f32 3"}},
    {ZT_OP_topk, &largest2, ZT_EUSAGE, "largest is 2", {"f32 3"}},
    {ZT_OP_topk, NULL, ZT_ESHAPE, "x has dtype bool: must be a plain float or integer type", {"bool 3"}},
    {ZT_OP_cumprod, NULL, ZT_ESHAPE, "x has dtype bool: must be a plain float or integer type", {"bool 3"}},
    {ZT_OP_gather_nd, NULL, ZT_ESHAPE, "3 indices are too many for 2 dimensions", {"f32 2 3", "i32 4 3"}},
    {ZT_OP_gather_nd, &batch2, ZT_ESHAPE, "invalid number of batch dimensions 2 for ranks 2 and 2", {"f32 2 3", "i32 2 1"}},
    {ZT_OP_gather_nd, NULL, ZT_ESHAPE, "i has type i16, expected i32 or i64", {"f32 2 3", "i16 2 1"}},
    {ZT_OP_scatter_nd, &by_sum, ZT_EUSAGE, "reduction is 'sum'", {"f32 2", "i32 1 1", "f32 1"}},
    {ZT_OP_scatter_nd, &max_bool, ZT_ESHAPE, "only reduction=none", {"bool 2", "i32 1 1", "bool 1"}},
    {ZT_OP_scatter_nd, NULL, ZT_ESHAPE, "u must have type f32[1]: the selected part of x", {"f32 2", "i32 1 1", "f32 2"}},
    {ZT_OP_scatter_elements, &adds, ZT_EUSAGE, "reduction is 'add'", {"f32 2", "i32 1", "f32 1"}},
    {ZT_OP_scatter_elements, NULL, ZT_ESHAPE, "i has 3 entries along axis 1, but x has 2", {"f32 2 2", "i32 1 3", "f32 1 3"}},
    {ZT_OP_scatter_elements, NULL, ZT_ESHAPE, "u must have the dtype of x and the shape of i", {"f32 2", "i32 1", "f32 2"}},
    {ZT_OP_quantize_linear, &to_f32, ZT_ESHAPE, "to has dtype f32, which is not a type of quantized codes", {"f32 3", "f32"}},
    {ZT_OP_quantize_linear, &to_u8, ZT_ESHAPE, "scale must have 1 element or type f32[3]", {"f32 2 3", "f32 2"}},
    {ZT_OP_quantize_linear, &to_u8, ZT_ESHAPE, "zero has dtype i8, expected u8", {"f32 2 3", "f32", "i8"}},
    {ZT_OP_quantize_linear, &to_u8, ZT_ESHAPE, "zero must have the shape of scale", {"f32 2 3", "f32 3", "u8"}},
    {ZT_OP_dequantize_linear, &block_low, ZT_EUSAGE, "block is -1", {"u8 2 3", "f32"}},
    {ZT_OP_dequantize_linear, &block2, ZT_ESHAPE, "scale must have 1 element or type f32[2,2]", {"u8 2 3", "f32 2 3"}},
    {ZT_OP_dequantize_linear, NULL, ZT_ESHAPE, "x has dtype i64, which is not a type of quantized codes", {"i64 2 3", "f32"}},
};

int main(void)
{
    ctx = zt_ctx_new();
    engines[0] = zt_engine_open(ctx, "ref", &(zt_engine_opts){0});
    engines[1] = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2});
    ok(engines[0] && engines[1], "the engines open");
    values_of_casts();
    values_of_places();
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) op_refused(&refusals[i]);
    zt_engine_close(engines[0]);
    zt_engine_close(engines[1]);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
