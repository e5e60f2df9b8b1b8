/* attention.c - the rows of causal attention over a cache, without and with sinks or linear biases, or in chunks: few rows by splits of the keys, many each
 * with all; on the matrix units where the cache is of f16. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"
#include "lib/ops/alibi.h"
#include "lib/tensor/block_row.h"

#include <math.h>

enum { THREADS = 128, HEADS = 8, MAX_DECODE_ROWS = 16 }; /* as attention.cu has them */
enum { SINKS = 3, QUERY_AT = 6 };                        /* inputs: of sinks, pos in their place without them; of linear biases */
enum { MAX_DECODE_ROWS_MMA = 64, PARTS = 64 << 20 };     /* rows and bytes up to which splits are blocks */

/* Kernels on the matrix units, by columns of a head. */
static const struct {
    int64_t D;
    const char *decode, *prefill;
    size_t decode_bytes, prefill_bytes;
    int prefill_warps; /* of a prefill kernel's block: 16 rows each */
} mma_kernels[] = {
    {64, "zt_attention_decode_64", "zt_attention_prefill_64", ZT_CU_DECODE_BYTES(64), ZT_CU_PREFILL_BYTES(64, 4), 4},
    {128, "zt_attention_decode_128", "zt_attention_prefill_128", ZT_CU_DECODE_BYTES(128), ZT_CU_PREFILL_BYTES(128, 4), 4},
    {256, "zt_attention_decode_256", "zt_attention_prefill_256", ZT_CU_DECODE_BYTES(256), ZT_CU_PREFILL_BYTES(256, 2), 2},
};
enum { MMA_KERNELS = sizeof mma_kernels / sizeof *mma_kernels };

/* The number of the kernels for this cache, -1: attention.cu. Of the number of rows nothing is
 * asked: all have the same bits. */
static int mma_kernel_of(const zt_cu_engine *engine, const zt_type *k_type, int64_t D)
{
    int kind = 0;
    while (kind < MMA_KERNELS && mma_kernels[kind].D < D) kind++;
    bool fits = kind < MMA_KERNELS && zt_cu_has_shared(engine, mma_kernels[kind].decode_bytes) &&
                zt_cu_has_shared(engine, mma_kernels[kind].prefill_bytes);
    return fits && k_type->dtype == ZT_F16 && D % 8 == 0 && zt_cu_has_kernel(engine, mma_kernels[kind].decode) ? kind : -1;
}

static int64_t groups_of(int64_t H, int64_t G, int heads) { return G * ((H / G + heads - 1) / heads); }

static bool has_attention(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                          const zt_type output_types[])
{
    const zt_attention_attrs *attention = attrs;
    (void)output_types;
    if (zt_is_block_cache(input_types[1]->dtype) || !zt_type_equal(input_types[1], input_types[2])) return false;
    return attention->head <= ZT_CU_ATTENTION_WIDE && input_types[0]->dim[0] <= (int64_t)engine->max_grid[0] &&
           input_types[0]->dim[1] / attention->head <= (int64_t)engine->max_grid[1] &&
           input_types[1]->dim[0] <= ZT_CU_SPLIT * (int64_t)engine->max_grid[2];
}

static zt_status launch_plain(zt_cu_call *call, const zt_cu_attention_args *args)
{
    zt_cu_dim grid = {(unsigned)args->n, (unsigned)groups_of(args->H, args->G, HEADS), 1};
    static const char *const kernels[2][2] = {{"zt_attention_f32", "zt_attention_f16"},
                                              {"zt_attention_wide_f32", "zt_attention_wide_f16"}};
    const char *kernel = kernels[args->D > ZT_CU_ATTENTION_HEAD][call->input_types[1]->dtype == ZT_F16];
    size_t shared = (size_t)(HEADS * args->D) * sizeof(float);
    if (args->splits) grid.z = (unsigned)args->splits;
    return zt_cu_launch(call, kernel, grid, (zt_cu_dim){THREADS, 1, 1}, shared, args, sizeof *args);
}

static zt_status launch_mma(zt_cu_call *call, const zt_cu_attention_args *args, int kind, bool decode)
{
    int64_t heads_per_group = args->H / args->G,
            tokens_per_block = mma_kernels[kind].prefill_warps * 16 / (heads_per_group < 16 ? heads_per_group : 16);
    zt_cu_dim grid = {(unsigned)(decode ? args->n : (args->n + tokens_per_block - 1) / tokens_per_block),
                      (unsigned)groups_of(args->H, args->G, 16), args->splits ? (unsigned)args->splits : 1};
    zt_cu_dim block = {decode ? THREADS : 32 * (unsigned)mma_kernels[kind].prefill_warps, 1, 1};
    return zt_cu_launch(call, decode ? mma_kernels[kind].decode : mma_kernels[kind].prefill, grid, block,
                        decode ? mma_kernels[kind].decode_bytes : mma_kernels[kind].prefill_bytes, args, sizeof *args);
}

/* With the bits of docs/arithmetic.md: a block a row and head. */
static zt_status launch_contract(zt_cu_call *call, const zt_cu_attention_args *args)
{
    return zt_cu_launch(call, call->input_types[1]->dtype == ZT_F16 ? "zt_contract_attention_f16" : "zt_contract_attention_f32",
                        (zt_cu_dim){(unsigned)args->n, (unsigned)args->H, 1}, (zt_cu_dim){ZT_CU_TILE, 1, 1},
                        (size_t)args->D * 3 * sizeof(float), args, sizeof *args);
}

static zt_status launch_attention(zt_cu_call *call, const zt_cu_attention_args *args, int kind, bool decode)
{
    zt_status status = kind < 0 ? launch_plain(call, args) : launch_mma(call, args, kind, decode);
    if (status || !args->splits) return status;
    return zt_cu_launch(call, "zt_attention_join", (zt_cu_dim){(unsigned)args->n, (unsigned)args->H, 1},
                        (zt_cu_dim){THREADS, 1, 1}, 0, args, sizeof *args);
}

/* The slopes of linear biases, as a constant of the step; 0: an error. */
static zt_cu_ptr put_slopes(zt_cu_call *call, double bias, int64_t heads)
{
    float *slopes = zt_alloc_array(call->engine->base.ctx, (size_t)heads, sizeof *slopes);
    for (int64_t head = 0; slopes && head < heads; head++) slopes[head] = (float)zt_alibi_slope(bias, heads, head);
    const zt_cu_ptr address = slopes ? zt_cu_table(call, slopes, (size_t)heads * sizeof *slopes) : 0;
    zt_free(call->engine->base.ctx, slopes);
    return address;
}

static zt_status emit_attention(zt_cu_call *call)
{
    const zt_attention_attrs *attrs = call->attrs;
    const zt_type *k_type = call->input_types[1];
    const bool has_sinks = call->op == ZT_OP_attention_sinks;
    int64_t D = attrs->head, splits = (k_type->dim[0] + ZT_CU_SPLIT - 1) / ZT_CU_SPLIT;
    zt_cu_attention_args args = {
        .q = call->inputs[0],
        .k = call->inputs[1],
        .v = call->inputs[2],
        .y = call->outputs[0],
        .trouble = call->error,
        .sinks = has_sinks ? call->inputs[SINKS] : 0,
        .slots = zt_cu_slots_of(call, k_type, has_sinks ? SINKS + 1 : SINKS),
        .n = call->input_types[0]->dim[0],
        .D = D,
        .H = call->input_types[0]->dim[1] / D,
        .G = k_type->dim[1] / D,
        .W = k_type->dim[1],
        .window = attrs->window,
        .scale = (float)(attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)D)),
        .softcap = (float)attrs->softcap,
        .chunked = call->op == ZT_OP_attention_chunked,
        .whole = D % 8 == 0 && call->inputs[1] % 16 == 0,
    };
    if (args.n == 0 || args.H == 0) return ZT_OK;
    if (call->op == ZT_OP_attention_alibi) {
        args.slopes = put_slopes(call, ((const zt_attention_alibi_attrs *)call->attrs)->bias, args.H);
        args.query_at = call->inputs[QUERY_AT];
        if (!args.slopes) return zt_ctx_status(call->engine->base.ctx);
    }
    if (call->engine->base.strict_bits) return launch_contract(call, &args);
    int kind = mma_kernel_of(call->engine, k_type, D);
    int64_t parts = args.n * args.H * splits * (D + 2) * (int64_t)sizeof(float);
    args.units = kind >= 0;
    bool decode = args.n <= MAX_DECODE_ROWS || (kind >= 0 && args.n <= MAX_DECODE_ROWS_MMA && parts <= PARTS);
    if (decode && splits > 1 && zt_cu_has_kernel(call->engine, "zt_attention_join")) {
        args.splits = splits;
        args.parts = zt_cu_scratch(call, (size_t)parts);
        if (!args.parts) return ZT_ENOMEM;
    }
    return launch_attention(call, &args, kind, decode);
}

const zt_cu_row zt_cu_attention[] = {
    {.op = ZT_OP_attention, .has = has_attention, .emit = emit_attention, .contract = zt_cu_of_f32},
    {.op = ZT_OP_attention_sinks, .has = has_attention, .emit = emit_attention, .contract = zt_cu_of_f32},
    {.op = ZT_OP_attention_alibi, .has = has_attention, .emit = emit_attention, .contract = zt_cu_of_f32},
    {.op = ZT_OP_attention_chunked, .has = has_attention, .emit = emit_attention, .contract = zt_cu_of_f32},
    {0},
};
