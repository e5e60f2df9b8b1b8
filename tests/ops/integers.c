/* integers.c - values of integer types, and indices of i64, on ref and cpu: what NumPy gives for the same numbers, but for what is said. */
#include "tests/common/one_op.h"
#include "tests/common/tap.h"

#include <math.h>

enum { MOST = 512 };

static zt_ctx *ctx;
static zt_engine *engines[2];

static zt_type shape(zt_dtype dtype, int rank, int64_t a, int64_t b) { return zt_type_make(dtype, rank, (int64_t[]){a, b}); }

/* Runs the op on two inputs (b NULL: one) on both engines; *error: the message of a runtime error, else "". */
static bool runs(zt_op op, const void *attrs, const zt_type *a, const void *a_data, const zt_type *b, const void *b_data,
                 char y[2][MOST], zt_type *out)
{
    bool good = true;
    for (int e = 0; e < 2; e++) {
        oneop call = {.op = op, .attrs = attrs ? attrs : zt_op_info(op)->defaults, .in = {a, b}, .data = {a_data, b_data}};
        call.result[0] = y[e];
        good = good && !zt_op_infer(ctx, op, call.attrs, call.in, call.out) && !oneop_run(engines[e], &call);
        *out = call.out[0];
    }
    return good;
}

static void gives(const char *what, zt_op op, const void *attrs, const zt_type *a, const void *a_data, const zt_type *b,
                  const void *b_data, zt_dtype dtype, const void *want)
{
    static char y[2][MOST];
    zt_type out = {0};
    bool good = runs(op, attrs, a, a_data, b, b_data, y, &out) && out.dtype == dtype &&
                !memcmp(y[0], want, zt_type_bytes(&out)) && !memcmp(y[1], want, zt_type_bytes(&out));
    ok(good, "%s %s", what, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

static void fails(const char *what, zt_op op, const zt_type *a, const void *a_data, const zt_type *b, const void *b_data,
                  const char *word)
{
    static char y[2][MOST];
    zt_type out;
    bool failed = !runs(op, NULL, a, a_data, b, b_data, y, &out) && strstr(zt_ctx_error(ctx), word);
    ok(failed, "%s: %s", what, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

static void test_arithmetic(void)
{
    const zt_type i8 = shape(ZT_I8, 2, 2, 2), u64 = shape(ZT_U64, 1, 3, 0), i32 = shape(ZT_I32, 1, 4, 0),
                  u8 = shape(ZT_U8, 1, 3, 0);
    gives("matmul of i8 wraps", ZT_OP_matmul, NULL, &i8, (int8_t[]){100, 2, -3, 4}, &i8, (int8_t[]){5, -6, 7, 8}, ZT_I8,
          (int8_t[]){2, -72, 13, 50});
    gives("pow of i32, 0^0 is 1, and wraps", ZT_OP_pow, NULL, &i32, (int32_t[]){-3, 0, 2, 3}, &i32, (int32_t[]){3, 0, 33, 21},
          ZT_I32, (int32_t[]){-27, 1, 0, 1870418611});
    gives("pow of u64 has exponents beyond i64", ZT_OP_pow, NULL, &u64, (uint64_t[]){1, UINT64_MAX, 3}, &u64,
          (uint64_t[]){UINT64_MAX, UINT64_MAX, 2}, ZT_U64, (uint64_t[]){1, UINT64_MAX, 9});
    fails("pow of a negative exponent", ZT_OP_pow, &i32, (int32_t[]){2, 2, 2, 2}, &i32, (int32_t[]){1, 2, -1, 3},
          "negative integer exponent");
    gives("scale of u8 wraps", ZT_OP_scale, &(zt_scale_attrs){-3}, &u8, (uint8_t[]){1, 100, 0}, NULL, NULL, ZT_U8,
          (uint8_t[]){253, 212, 0});
    gives("fill_like of i8", ZT_OP_fill_like, &(zt_fill_like_attrs){-128}, &i8, (int8_t[]){1, 2, 3, 4}, NULL, NULL, ZT_I8,
          (int8_t[]){-128, -128, -128, -128});
}

static void test_reductions(void)
{
    const uint64_t big = UINT64_C(1) << 63;
    const zt_type i8 = shape(ZT_I8, 2, 2, 3), u64 = shape(ZT_U64, 1, 3, 0), i64 = shape(ZT_I64, 1, 3, 0);
    const zt_mean_attrs rows = {.axes = {1, {1}}};
    const zt_argmax_attrs along = {.axis = 1};
    gives("mean of i8: no sum wraps, and -5/3 is -1 (NumPy's is a float)", ZT_OP_mean, &rows, &i8,
          (int8_t[]){100, 100, 101, -5, 1, -1}, NULL, NULL, ZT_I8, (int8_t[]){100, -1});
    gives("mean of u64", ZT_OP_mean, NULL, &u64, (uint64_t[]){big, big - 3, 3}, NULL, NULL, ZT_U64, (uint64_t[]){0});
    gives("argmax of i8, ties to the first", ZT_OP_argmax, &along, &i8, (int8_t[]){-1, 5, 5, -128, -128, -127}, NULL, NULL,
          ZT_I32, (int32_t[]){1, 2});
    gives("argmin of u64", ZT_OP_argmin, NULL, &u64, (uint64_t[]){big, 7, UINT64_MAX}, NULL, NULL, ZT_I32, (int32_t[]){1});
    gives("argmax of u64 beyond i64", ZT_OP_argmax, NULL, &u64, (uint64_t[]){7, big, 1}, NULL, NULL, ZT_I32, (int32_t[]){1});
    gives("amax of u64 beyond i64", ZT_OP_amax, NULL, &u64, (uint64_t[]){7, big, 1}, NULL, NULL, ZT_U64, &big);
    gives("amin of u64 beyond i64", ZT_OP_amin, NULL, &u64, (uint64_t[]){UINT64_MAX, big, big + 1}, NULL, NULL, ZT_U64, &big);
    gives("argmax of i64 that doubles do not tell apart", ZT_OP_argmax, NULL, &i64,
          (int64_t[]){INT64_MAX - 1, INT64_MAX, INT64_MAX - 2}, NULL, NULL, ZT_I32, (int32_t[]){1});
}

static void test_indices(void)
{
    const zt_type i64 = shape(ZT_I64, 2, 3, 2), f32 = shape(ZT_F32, 2, 3, 2), two = shape(ZT_I64, 1, 2, 0);
    const int64_t table[] = {1, -2, INT64_MAX, 4, 5, INT64_MIN}, at[] = {2, 1}, far[] = {INT64_C(1) << 32, 0};
    const float floats[] = {1, 2, 3, 4, 5, 6};
    gives("gather of i64 by i64", ZT_OP_gather, NULL, &i64, table, &two, at, ZT_I64, (int64_t[]){5, INT64_MIN, INT64_MAX, 4});
    gives("gather of f32 by i64", ZT_OP_gather, NULL, &f32, floats, &two, at, ZT_F32, (float[]){5, 6, 3, 4});
    fails("an index of 2^32 is not 0", ZT_OP_gather, &f32, floats, &two, far, "index 4294967296");
    const zt_one_hot_attrs hot = {3, {"error"}};
    gives("one_hot of i64", ZT_OP_one_hot, &hot, &two, at, NULL, NULL, ZT_F32, (float[]){0, 0, 1, 0, 1, 0});
    const zt_type columns = shape(ZT_I64, 2, 3, 1);
    gives("gather_elements by i64", ZT_OP_gather_elements, &(zt_gather_elements_attrs){1, {"error"}}, &f32, floats, &columns,
          (int64_t[]){1, 0, 1}, ZT_F32, (float[]){2, 3, 6});
}

/* What integers cannot have is refused before anything runs. */
static void test_refusals(void)
{
    const zt_type u8 = shape(ZT_U8, 1, 3, 0);
    const zt_type *const in[ZT_MAX_IN] = {&u8};
    zt_type out[ZT_MAX_OUT];
    const struct {
        zt_op op;
        double value;
        const char *word;
    } row[] = {{ZT_OP_scale, 0.5, "by is 0.5: must be a whole number"},
               {ZT_OP_scale, NAN, "by is nan"},
               {ZT_OP_scale, 1e300, "by is 1e+300"},
               {ZT_OP_fill_like, 256, "value is 256"},
               {ZT_OP_fill_like, -1, "value is -1"},
               {ZT_OP_fill_like, 1.5, "value is 1.5"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        zt_status status = zt_op_infer(ctx, row[i].op, &row[i].value, in, out);
        ok(status == ZT_EUSAGE && strstr(zt_ctx_error(ctx), row[i].word), "%s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
}

int main(void)
{
    ctx = zt_ctx_new();
    engines[0] = zt_engine_open(ctx, "ref", NULL);
    engines[1] = zt_engine_open(ctx, "cpu", NULL);
    test_arithmetic();
    test_reductions();
    test_indices();
    test_refusals();
    for (int i = 0; i < 2; i++) zt_engine_close(engines[i]);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
