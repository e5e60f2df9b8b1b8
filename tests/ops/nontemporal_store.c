/* nontemporal_store.c - outputs so large that they are stored past the caches: the same bits as small ones. */
#include "tests/common/one_op.h"
#include "tests/common/tap.h"

#include <stdlib.h>

/* 32 MiB and more of f32, in rows of whole lines and not. */
static const struct {
    zt_op op;
    int64_t rows, cols;
} big[] = {
    {ZT_OP_neg, 1, 8388608 + 21},   {ZT_OP_scale, 1, 8388608},      {ZT_OP_softmax, 129, 65040},  {ZT_OP_rms_norm, 4097, 2048},
    {ZT_OP_layer_norm, 4097, 2048}, {ZT_OP_layer_norm, 4300, 2001}, {ZT_OP_softmax, 2000, 4201},  {ZT_OP_transpose, 2912, 2912},
    {ZT_OP_transpose, 2901, 2896},  {ZT_OP_gelu, 1, 8388608 + 21},  {ZT_OP_silu, 1, 8388608 + 5}, {ZT_OP_add, 1, 8388608 + 21},
};

static bool norms(zt_op op) { return op == ZT_OP_rms_norm || op == ZT_OP_layer_norm; }

/* Norms are given weights: some values; a sum x twice. */
static zt_status run_op(zt_engine *engine, zt_op op, const float *x, float *y, int64_t rows, int64_t cols)
{
    static float g[4096] = {1, 2, 3, 0.5f, -1};
    zt_type weight = zt_type_make(ZT_F32, 1, &cols);
    zt_type in = zt_type_make(ZT_F32, 2, (int64_t[]){rows, cols});
    oneop call = {.op = op, .attrs = zt_op_info(op)->defaults, .in = {&in}, .data = {x}, .result = {y}};
    if (norms(op)) call.in[1] = &weight, call.data[1] = g;
    if (op == ZT_OP_add) call.in[1] = &in, call.data[1] = x;
    zt_status status = zt_op_infer(engine->ctx, op, call.attrs, call.in, call.out);
    return status ? status : oneop_run(engine, &call);
}

/* What is wrong with y of one op: of rows done alone, or of elements in their other places. */
static int64_t differences(zt_engine *engine, zt_op op, const float *x, const float *y, int64_t rows, int64_t cols)
{
    int64_t wrong = 0, part = 100003;
    float *one = malloc((size_t)(cols + part) * sizeof *one);
    for (int64_t r = 0; op == ZT_OP_transpose && r < rows; r++)
        for (int64_t c = 0; c < cols; c++) wrong += y[c * rows + r] != x[r * cols + c];
    for (int64_t r = 0; (op == ZT_OP_softmax || norms(op)) && r < rows; r += rows / 16) {
        run_op(engine, op, x + r * cols, one, 1, cols);
        wrong += memcmp(one, y + r * cols, (size_t)cols * sizeof *one) != 0;
    }
    for (int64_t c = 0; rows == 1 && c < cols; c += part) {
        int64_t count = cols - c < part ? cols - c : part;
        run_op(engine, op, x + c, one, 1, count);
        wrong += memcmp(one, y + c, (size_t)count * sizeof *one) != 0;
    }
    free(one);
    return wrong;
}

static void check(zt_ctx *ctx, zt_isa isa, int threads)
{
    zt_engine_opts opts = {.threads = threads, .isa = isa};
    zt_engine *engine = zt_engine_open(ctx, "cpu", &opts);
    for (size_t i = 0; i < sizeof big / sizeof big[0]; i++) {
        int64_t count = big[i].rows * big[i].cols;
        float *x = zt_alloc(ctx, (size_t)count * sizeof *x), *y = zt_calloc(ctx, (size_t)count, sizeof *y);
        for (int64_t k = 0; k < count; k++) x[k] = (float)(k * 7919 % 10007) / 10007 - 0.5f;
        zt_status status = run_op(engine, big[i].op, x, y, big[i].rows, big[i].cols);
        int64_t wrong = status ? count : differences(engine, big[i].op, x, y, big[i].rows, big[i].cols);
        ok(wrong == 0, "%s of %lld x %lld, %s, %d threads: %lld wrong", zt_op_info(big[i].op)->name, (long long)big[i].rows,
           (long long)big[i].cols, zt_isa_name(isa), threads, (long long)wrong);
        zt_free(ctx, x);
        zt_free(ctx, y);
    }
    zt_engine_close(engine);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) check(ctx, (zt_isa)isa, 3);
    zt_ctx_free(ctx);
    return tap_done();
}
