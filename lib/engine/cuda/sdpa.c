/* sdpa.c - rows of dense attention and of its gradient: on the matrix units where the device has
 * them and heads have up to 128 columns, else by sdpa.cu. Which it is depends on that alone, not on
 * how many rows there are.
 */
#include "lib/ops/sdpa.h"
#include "lib/engine/cuda/args_nn.h"
#include "lib/engine/cuda/cu.h"

enum { WARPS = 4, ROWS = 16, TILE = 32 }; /* as sdpa.cu has them */
enum { Q, K, V, DY, LSE, DELTA, MASK, LEN };

#define OF_TYPE(name, end) name "_f32" end, name "_f16" end, name "_bf16" end
/* What a kernel is called by type: any number of columns, up to 64 by mma, up to 128. */
enum { F32, F16, BF16, F64 };
typedef struct kernel_names {
    const char *plain[4], *mma[2][3];
} kernel_names;
// clang-format off
#define NAMES(name)                                                                                \
    {                                                                                              \
        {OF_TYPE(name, ""), name "_f64"},                                                          \
        {                                                                                          \
            {OF_TYPE(name, "_64")}, {OF_TYPE(name, "_128")}                                        \
        }                                                                                          \
    }
// clang-format on
static const kernel_names forward_names = NAMES("zt_sdpa");
static const kernel_names query_names = NAMES("zt_sdpa_queries"), key_names = NAMES("zt_sdpa_keys");

/* Of a number in shared memory, by sdpa.cu. */
static size_t wide_bytes(zt_dtype dtype) { return dtype == ZT_F64 ? sizeof(double) : sizeof(float); }

static bool has_sdpa(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                     const zt_type output_types[])
{
    zt_sdpa sizes = zt_sdpa_sizes(attrs, input_types[Q], input_types[K], input_types[V]);
    (void)output_types;
    zt_dtype dtype = input_types[Q]->dtype;
    size_t most = (size_t)(ROWS + TILE) * (size_t)(sizes.d + sizes.dv + 2) * wide_bytes(dtype);
    return (zt_cu_is_float(dtype) || dtype == ZT_F64) && sizes.d <= ZT_CU_SDPA_MOST && sizes.dv <= ZT_CU_SDPA_MOST &&
           zt_cu_has_shared(engine, most) && sizes.b * sizes.h <= (int64_t)engine->max_grid[1];
}

/* Rows of a value [b,H,n,cols], or [b,n,H,cols]. */
static zt_cu_rows rows_of(const zt_sdpa *sizes, zt_cu_ptr address, int64_t H, int64_t row_count, int64_t cols)
{
    return (zt_cu_rows){.at = address,
                        .batch = H * row_count * cols,
                        .head = sizes->bshd ? cols : row_count * cols,
                        .row = sizes->bshd ? H * cols : cols};
}

static zt_cu_sdpa_args args_of(const zt_cu_call *call, const zt_sdpa *sizes, int mask, int len)
{
    const zt_sdpa_attrs *attrs = call->attrs;
    const zt_type *mask_type = call->input_types[mask];
    const int64_t full[] = {sizes->b, sizes->h, sizes->s, sizes->t};
    // clang-format off
    zt_cu_sdpa_args args = {.q = rows_of(sizes, call->inputs[Q], sizes->h, sizes->s, sizes->d),
                         .k = rows_of(sizes, call->inputs[K], sizes->g, sizes->t, sizes->d),
                         .v = rows_of(sizes, call->inputs[V], sizes->g, sizes->t, sizes->dv),
                         .mask = call->inputs[mask],
                         .len = call->inputs[len],
                         .trouble = call->error,
                         .b = sizes->b,
                         .h = sizes->h,
                         .g = sizes->g,
                         .s = sizes->s,
                         .t = sizes->t,
                         .d = sizes->d,
                         .dv_cols = sizes->dv,
                         .offset = attrs->offset,
                         .left = attrs->left,
                         .right = attrs->causal ? 0 : attrs->right,
                         .scale = zt_sdpa_scale(attrs, sizes),
                         .softcap = attrs->softcap,
                         .end = !strcmp(attrs->align.s, "end")};
    // clang-format on
    if (!mask_type) return args;
    args.mask_bool = mask_type->dtype == ZT_BOOL;
    int64_t step = 1;
    for (int dimension = 1; dimension <= mask_type->rank; dimension++) {
        int64_t size = mask_type->dim[mask_type->rank - dimension];
        args.mask_step[4 - dimension] = size == full[4 - dimension] && size != 1 ? step : 0;
        step *= size;
    }
    return args;
}

/* ---- on the matrix units --------------------------------------------------------------------- */

/* How an op runs: with D columns by mma, in parts of numbers; D 0: by sdpa.cu. */
typedef struct kernel_choice {
    int type, D, parts;
    size_t bytes; /* of a block's shared memory */
    int64_t rows; /* its rows */
} kernel_choice;

static kernel_choice choice_of(const zt_cu_call *call, const zt_sdpa *sizes, bool back)
{
    zt_dtype dtype = call->input_types[Q]->dtype;
    int64_t most = sizes->d > sizes->dv ? sizes->d : sizes->dv, least = sizes->d < sizes->dv ? sizes->d : sizes->dv;
    kernel_choice choice = {.type = dtype == ZT_F32    ? F32
                                    : dtype == ZT_F16  ? F16
                                    : dtype == ZT_BF16 ? BF16
                                                       : F64,
                            .D = most <= 64 ? 64 : 128,
                            .parts = dtype == ZT_F32 ? ZT_CU_SDPA_PARTS : 1};
    choice.bytes = (size_t)(back ? ZT_CU_SDPA_BACK_BYTES(choice.parts, choice.D) : ZT_CU_SDPA_BYTES(choice.parts, choice.D));
    choice.rows = back ? ZT_CU_SDPA_BACK_ROWS : ZT_CU_SDPA_ROWS(choice.parts);
    if (call->engine->cu.platform == &zt_cu_nvidia && zt_cu_has_shared(call->engine, choice.bytes) && choice.type != F64 &&
        least > 0 && most <= 128 && sizes->s <= INT32_MAX && sizes->t <= INT32_MAX)
        return choice;
    choice.D = 0;
    choice.rows = ROWS;
    choice.bytes = wide_bytes(dtype) * (size_t)(back ? (ROWS + TILE) * (sizes->d + sizes->dv + 2)
                                                     : (ROWS + TILE) * (sizes->d + 1) + TILE * (sizes->dv + 1));
    return choice;
}

static zt_status launch_rows(zt_cu_call *call, const kernel_names *names, const kernel_choice *choice, int64_t rows,
                             int64_t heads, const zt_cu_sdpa_args *args)
{
    const char *name = !choice->D ? names->plain[choice->type] : names->mma[choice->D == 128][choice->type];
    zt_cu_dim grid = {(unsigned)((rows + choice->rows - 1) / choice->rows), (unsigned)heads, 1};
    return zt_cu_launch(call, name, grid, (zt_cu_dim){32 * WARPS, 1, 1}, choice->bytes, args, sizeof *args);
}

/* Rows of f32 to parts of them in scratch. */
static zt_status split_rows(zt_cu_call *call, const zt_sdpa *sizes, zt_cu_rows *rows, int64_t heads, int64_t row_count,
                            int64_t cols, int64_t *part)
{
    int64_t wide = (cols + 7) / 8 * 8;
    zt_cu_parts_args args = {.from = *rows, .b = sizes->b, .heads = heads, .n = row_count, .cols = cols};
    *part = sizes->b * heads * row_count * wide;
    args.to = zt_cu_scratch(call, (size_t)*part * ZT_CU_SDPA_PARTS * sizeof(uint16_t));
    if (!args.to) return ZT_ENOMEM;
    *rows = (zt_cu_rows){.at = args.to, .batch = heads * row_count * wide, .head = row_count * wide, .row = wide};
    return zt_cu_launch(call, "zt_sdpa_parts", zt_cu_grid(*part / 8, 256), (zt_cu_dim){256, 1, 1}, 0, &args, sizeof args);
}

/* q, k, v and, of the gradient, dy in the form that mma kernels read. */
static zt_status convert_for_mma(zt_cu_call *call, const zt_sdpa *sizes, const kernel_choice *choice, bool back,
                                 zt_cu_sdpa_args *args)
{
    const struct {
        zt_cu_rows *rows;
        int64_t heads, n, cols;
    } sides[] = {{&args->q, sizes->h, sizes->s, sizes->d},
                 {&args->k, sizes->g, sizes->t, sizes->d},
                 {&args->v, sizes->g, sizes->t, sizes->dv},
                 {&args->y, sizes->h, sizes->s, sizes->dv}};
    zt_status status = ZT_OK;
    for (int k = 0; k < (back ? 4 : 3) && choice->D && !status; k++) {
        args->wide[k] = choice->parts > 1 || (sides[k].rows->at % 16 == 0 && sides[k].cols % 8 == 0);
        if (choice->parts > 1)
            status = split_rows(call, sizes, sides[k].rows, sides[k].heads, sides[k].n, sides[k].cols, &args->part[k]);
    }
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static zt_status emit_sdpa(zt_cu_call *call)
{
    zt_sdpa sizes = zt_sdpa_sizes(call->attrs, call->input_types[Q], call->input_types[K], call->input_types[V]);
    zt_cu_sdpa_args args = args_of(call, &sizes, 3, 4);
    kernel_choice choice = choice_of(call, &sizes, false);
    args.y = rows_of(&sizes, call->outputs[0], sizes.h, sizes.s, sizes.dv);
    args.lse = call->outputs[1];
    zt_status status = convert_for_mma(call, &sizes, &choice, false, &args);
    return status ? status : launch_rows(call, &forward_names, &choice, sizes.s, sizes.b * sizes.h, &args);
}

static zt_status emit_grad(zt_cu_call *call)
{
    zt_sdpa sizes = zt_sdpa_sizes(call->attrs, call->input_types[Q], call->input_types[K], call->input_types[V]);
    zt_cu_sdpa_args args = args_of(call, &sizes, MASK, LEN);
    kernel_choice choice = choice_of(call, &sizes, true);
    args.y = rows_of(&sizes, call->inputs[DY], sizes.h, sizes.s, sizes.dv);
    args.lse = call->inputs[LSE];
    args.delta = call->inputs[DELTA];
    args.dq = rows_of(&sizes, call->outputs[Q], sizes.h, sizes.s, sizes.d);
    args.dk = rows_of(&sizes, call->outputs[K], sizes.g, sizes.t, sizes.d);
    args.dv = rows_of(&sizes, call->outputs[V], sizes.g, sizes.t, sizes.dv);
    zt_status status = convert_for_mma(call, &sizes, &choice, true, &args);
    if (!status && call->outputs[Q]) status = launch_rows(call, &query_names, &choice, sizes.s, sizes.b * sizes.h, &args);
    if (status || (!call->outputs[K] && !call->outputs[V])) return status;
    return launch_rows(call, &key_names, &choice, sizes.t, sizes.b * sizes.g, &args);
}

const zt_cu_row zt_cu_sdpa[] = {
    {.op = ZT_OP_sdpa, .has = has_sdpa, .emit = emit_sdpa},
    {.op = ZT_OP_sdpa_grad, .has = has_sdpa, .emit = emit_grad},
    {0},
};
