/* linear.c - rows of products with weights: which kernel makes them, in which launches. */
#include "lib/engine/cuda/blas.h"
#include "lib/engine/cuda/wgmma.h"
#include "lib/ops/linear.h"
#include "lib/tensor/decode.h"

#include <string.h>

enum { WARPS = 8 }; /* a block, and slices of K: SLICES of linear.h */

/* ---- grids ----------------------------------------------------------------------------------- */

static const struct {
    zt_dtype dtype;
    const uint16_t *grid;
    size_t bytes;
} grids[] = {
    {ZT_IQ2_XXS, zt_grid_iq2_xxs, sizeof zt_grid_iq2_xxs}, {ZT_IQ2_XS, zt_grid_iq2_xs, sizeof zt_grid_iq2_xs},
    {ZT_IQ2_S, zt_grid_iq2_s, sizeof zt_grid_iq2_s},       {ZT_IQ3_XXS, zt_grid_iq3_xxs, sizeof zt_grid_iq3_xxs},
    {ZT_IQ3_S, zt_grid_iq3_s, sizeof zt_grid_iq3_s},       {ZT_IQ1_S, zt_grid_iq1_s, sizeof zt_grid_iq1_s},
    {ZT_IQ1_M, zt_grid_iq1_s, sizeof zt_grid_iq1_s},
};

zt_status zt_cu_vectors(zt_cu_call *call, zt_dtype dtype, zt_cu_ptr *address)
{
    *address = 0;
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        if (grids[i].dtype != dtype) continue;
        *address = zt_cu_table(call, grids[i].grid, grids[i].bytes);
        return *address ? ZT_OK : ZT_ENOMEM;
    }
    return ZT_OK;
}

/* ---- which kernel ---------------------------------------------------------------------------- */

typedef struct product_form {
    const char *prefill_kernel;
    const char *decode_kernel; /* of few rows of x; NULL: none of its own */
    bool uses_codes;           /* x as codes of 8 bits */
    int rows_per_warp;         /* rows of x a warp */
    int columns;               /* of w that go together */
    int x_bytes;               /* of a number of x, with few rows */
    bool uses_pairs;           /* x as pairs of f16 (pair.cuh) */
} product_form;

static bool rounds_activations(const zt_enum_string *act) { return strcmp(act->s, "f32") != 0; }

/* Rows of codes a row of x. */
static int codes_of(const zt_enum_string *act) { return strcmp(act->s, "q16") ? 1 : 2; }

/* Of a platform that has one kernel for weights of all types. */
static const product_form one_form = {"zt_linear_file", NULL, false, 8, 32, 0, false};
static bool has_one_form(const zt_cu_engine *engine) { return !zt_cu_has_kernel(engine, "zt_linear_f32"); }

/* mma: has the device matrix units that are worth two products for one? */
static product_form form_of(const zt_enum_string *act, zt_dtype x_dtype, zt_dtype w_dtype, const zt_cu_pack *packed, bool mma)
{
    int block = packed ? zt_dtype_get(w_dtype)->block : 32;
    if (packed && rounds_activations(act))
        return (product_form){packed->by_codes, packed->by_decode, true, 32, block, codes_of(act), false};
    if (packed) return (product_form){packed->by_floats, NULL, false, 8, block, 0, false};
    if (w_dtype == ZT_BF16 && (x_dtype == ZT_BF16 || (x_dtype == ZT_F32 && rounds_activations(act))))
        return (product_form){"zt_half_bf16", x_dtype == ZT_F32 ? "zt_decode_half" : NULL, false, 64, 32, 2, false};
    if (w_dtype == ZT_F16 && x_dtype == ZT_F16) return (product_form){"zt_half_f16", NULL, false, 64, 32, 0, false};
    if (w_dtype == ZT_F16 && x_dtype == ZT_F32 && mma)
        return (product_form){"zt_half_f16", "zt_decode_pair", false, 64, 32, 4, true};
    if (w_dtype == ZT_F8_E4M3 && x_dtype != ZT_F32)
        return (product_form){x_dtype == ZT_F16 ? "zt_half_f16_e4m3" : "zt_half_bf16_e4m3", NULL, false, 64, 32, 0, false};
    static const struct {
        zt_dtype w;
        const char *kernel, *few;
    } plain[] = {{ZT_F32, "zt_linear_f32", "zt_decode_f32"},
                 {ZT_F16, "zt_linear_f16", "zt_decode_f16"},
                 {ZT_BF16, "zt_linear_bf16", "zt_decode_bf16"}};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (plain[i].w == w_dtype)
            return (product_form){plain[i].kernel, x_dtype == ZT_F32 ? plain[i].few : NULL, false, 8, 32, 4, false};
    return (product_form){"zt_linear_file", NULL, false, 8, 32, 0, false};
}

/* The number of a curve, or a gate's. */
static int curve_of(const zt_after *after)
{
    static const struct {
        zt_op op;
        int tanh, erf;
    } curves[] = {
        {ZT_OP_relu, ZT_CU_RELU, 0},
        {ZT_OP_silu, ZT_CU_SILU, 0},
        {ZT_OP_swiglu, ZT_CU_SILU, 0},
        {ZT_OP_gelu, ZT_CU_GELU, ZT_CU_GELU_ERF},
        {ZT_OP_geglu, ZT_CU_GELU, ZT_CU_GELU_ERF},
        {ZT_OP_tanh, ZT_CU_TANH, 0},
    };
    const zt_enum_string *form = after->attrs; /* the only attribute of those that have one */
    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++)
        if (curves[i].op == after->op) return form && !strcmp(form->s, "erf") ? curves[i].erf : curves[i].tanh;
    return ZT_CU_SIGMOID;
}

/* ---- products of one x ---------------------------------------------------------------------- */

typedef struct linear_products {
    zt_cu_call *call;
    const zt_enum_string *act;
    int count, weights[ZT_CU_PRODUCTS], biases[ZT_CU_PRODUCTS]; /* inputs */
    zt_cu_ptr outputs[ZT_CU_PRODUCTS];                          /* 0: not wanted */
    zt_cu_ptr residual;
    int after, curve;
    zt_cu_ptr codes, sums; /* of x, once made */
    zt_cu_ptr pairs, backs;
} linear_products;

/* May 16 bytes of floats (8 of halves) be read at every fourth number of every row? */
static bool is_wide(zt_cu_ptr at, int64_t K, int by) { return at % 16 == 0 && K % by == 0; }

/* Codes of x [rows,K], `each` rows of them a row of x, and their sums, into fresh memory. */
static zt_status encode_rows(zt_cu_call *call, zt_cu_ptr x, int64_t rows, int64_t K, int each, zt_cu_ptr *codes, zt_cu_ptr *sums)
{
    const int64_t parts = (rows + 7) / 8 * (K / 32);
    *codes = zt_cu_scratch(call, (size_t)(parts * each) * 256);
    *sums = zt_cu_scratch(call, (size_t)(parts * each) * 64);
    if (!*codes || !*sums) return ZT_ENOMEM;
    const zt_cu_codes_args args = {
        .x = x, .codes = *codes, .sums = *sums, .n = rows, .K = K, .x_type = (int32_t)call->input_types[0]->dtype, .each = each};
    return zt_cu_launch(call, "zt_codes", zt_cu_grid(parts, 4), (zt_cu_dim){128, 1, 1}, 0, &args, sizeof args);
}

static zt_status make_codes(linear_products *products)
{
    zt_cu_call *call = products->call;
    const zt_type *x_type = call->input_types[0];
    if (products->codes) return ZT_OK;
    return encode_rows(call, call->inputs[0], x_type->dim[0], x_type->dim[1], codes_of(products->act), &products->codes,
                       &products->sums);
}

static zt_status make_pairs(linear_products *products)
{
    zt_cu_call *call = products->call;
    const int64_t row_count = call->input_types[0]->dim[0], K = call->input_types[0]->dim[1];
    if (products->pairs || row_count == 0) return ZT_OK;
    products->pairs = zt_cu_scratch(call, (size_t)(row_count * K) * 4);
    products->backs = zt_cu_scratch(call, (size_t)row_count * 4);
    if (!products->pairs || !products->backs) return ZT_ENOMEM;
    const zt_cu_pairs_args args = {.x = call->inputs[0],
                                   .y = products->pairs,
                                   .backs = products->backs,
                                   .n = row_count,
                                   .K = K,
                                   .wide = is_wide(call->inputs[0], K, 4)};
    return zt_cu_launch(call, "zt_pairs", (zt_cu_dim){(unsigned)row_count, 1, 1}, (zt_cu_dim){256, 1, 1}, 0, &args, sizeof args);
}

static zt_cu_product product_of(const linear_products *products, int index)
{
    const zt_cu_call *call = products->call;
    const zt_type *w_type = call->input_types[products->weights[index]], *bias_type = call->input_types[products->biases[index]];
    const zt_cu_pack *packed = call->packed[products->weights[index]];
    zt_cu_product one = {.w = call->inputs[products->weights[index]], .y = products->outputs[index], .M = w_type->dim[0]};
    if (bias_type) one.b = call->inputs[products->biases[index]], one.b_type = (int32_t)bias_type->dtype;
    if (packed) {
        one.heads = zt_cu_pack_heads(packed, one.w, w_type->dim[0], w_type->dim[1]);
        one.halves = zt_cu_pack_halves(packed, one.w, w_type->dim[0], w_type->dim[1]);
    }
    return one;
}

/* Whether warps of a block share one tile: few rows of x, or too little for all processors. */
static bool splits_tile(const zt_cu_call *call, int64_t row_count, int64_t tiles, int rows_per_warp)
{
    return row_count <= 8 ||
           (tiles + WARPS - 1) / WARPS * ((row_count + rows_per_warp - 1) / rows_per_warp) < 2 * call->engine->processors;
}

/* Shared memory of a block with few rows of x: two of them have room on a processor. */
static size_t room_of(const zt_cu_engine *engine)
{
    const size_t half = engine->shared_optin / 2;
    return half > engine->shared + ZT_CU_SHARED_OWN ? half - ZT_CU_SHARED_OWN : engine->shared - ZT_CU_SHARED_OWN;
}

/* With few rows of x, which each block brings into its shared memory for itself, as codes or as it
 * is: where there is room. Everything else of `f` is there. */
static bool fill_decode(const zt_cu_call *call, product_form form, zt_cu_decode_args *args)
{
    const int64_t numbers = args->a.n * ((args->a.K + 31) / 32 * 32), bytes = numbers * form.x_bytes;
    if (!form.decode_kernel || args->a.n > ZT_CU_DECODE_ROWS || args->a.K % 4 != 0 || bytes > (int64_t)room_of(call->engine))
        return false;
    args->sums_at = (int32_t)bytes;
    args->part_at = args->sums_at + (form.uses_codes ? (int32_t)(bytes / 32 * 8) : 0);
    const int64_t sums = 2 * WARPS * args->a.n * 16 * (form.uses_pairs ? 2 : 1);
    args->room_at = args->part_at + (int32_t)(sums * (int64_t)sizeof(float));
    args->bytes = args->room_at + 48 * (int32_t)sizeof(float);
    return (size_t)args->bytes <= room_of(call->engine);
}

static zt_status launch_decode(zt_cu_call *call, const char *kernel, zt_cu_decode_args *args)
{
    int64_t tiles = 0;
    for (int product_index = 0; product_index < ZT_CU_PRODUCTS; product_index++)
        tiles += (args->a.product[product_index].M + 15) / 16;
    return zt_cu_launch(call, kernel, (zt_cu_dim){(unsigned)tiles, 1, 1}, (zt_cu_dim){32 * WARPS, 1, 1}, (size_t)args->bytes,
                        args, sizeof *args);
}

/* ---- many rows ------------------------------------------------------------------------------- */

/* Is a product worth tiles of 128 by 128, in blocks with `bytes` of shared memory? */
static bool is_large(const zt_cu_call *call, product_form form, int64_t row_count, int64_t rows, unsigned count, size_t bytes)
{
    int64_t tiles =
        (rows + ZT_CU_GEMM_TILE - 1) / ZT_CU_GEMM_TILE * ((row_count + ZT_CU_GEMM_TILE - 1) / ZT_CU_GEMM_TILE) * count;
    return row_count > form.rows_per_warp && tiles * 4 >= call->engine->processors && zt_cu_has_shared(call->engine, bytes);
}

/* The type of a large product's operands, where it is made by gemm.cuh; else ZT_DTYPE_COUNT. */
static zt_dtype large_type(const zt_cu_call *call, product_form form, int64_t row_count, int64_t rows, unsigned count)
{
    if (!is_large(call, form, row_count, rows, count, ZT_CU_GEMM_BYTES)) return ZT_DTYPE_COUNT;
    return !strncmp(form.prefill_kernel, "zt_half_f16", 11)    ? ZT_F16
           : !strncmp(form.prefill_kernel, "zt_half_bf16", 12) ? ZT_BF16
                                                               : ZT_DTYPE_COUNT;
}

/* n numbers of type `from` at *at become those of type `to` elsewhere, if they are not. */
static zt_status convert_halves(zt_cu_call *call, zt_dtype from, zt_dtype dtype, int64_t number_count, zt_cu_ptr *address)
{
    if (from == dtype) return ZT_OK;
    zt_cu_halves_args args = {.x = *address, .n = number_count, .type = (int32_t)dtype};
    *address = args.y = zt_cu_scratch(call, (size_t)number_count * 2);
    if (!args.y) return ZT_ENOMEM;
    return zt_cu_launch(call, from == ZT_F32 ? "zt_halves_f32" : "zt_halves_e4m3", zt_cu_grid(number_count, 1024),
                        (zt_cu_dim){256, 1, 1}, 0, &args, sizeof args);
}

/* A block a tile of each product. */
static zt_status launch_tiles(zt_cu_call *call, const char *kernel, size_t shared, zt_cu_linear_args *args, unsigned count)
{
    int64_t left = 0;
    for (unsigned i = 0; i < count; i++) {
        int64_t tiles = (args->product[i].M + ZT_CU_GEMM_TILE - 1) / ZT_CU_GEMM_TILE;
        left = tiles > left ? tiles : left;
    }
    args->right = (int32_t)((args->n + ZT_CU_GEMM_TILE - 1) / ZT_CU_GEMM_TILE);
    return zt_cu_launch(call, kernel, (zt_cu_dim){(unsigned)(left * args->right), count, 1}, (zt_cu_dim){32 * WARPS, 1, 1},
                        shared, args, sizeof *args);
}

static zt_status launch_large(zt_cu_call *call, zt_dtype dtype, zt_cu_linear_args *args, unsigned count)
{
    zt_status status = convert_halves(call, (zt_dtype)args->x_type, dtype, args->n * args->K, &args->x);
    for (unsigned i = 0; i < count && !status; i++) {
        status = convert_halves(call, (zt_dtype)args->w_type, dtype, args->product[i].M * args->K, &args->product[i].w);
        args->wide_w = (!i || args->wide_w) && is_wide(args->product[i].w, args->K, 8);
    }
    args->wide_x = is_wide(args->x, args->K, 8);
    bool done = false;
    if (!status) status = zt_cu_wgmma_linear(call, dtype, args, count, &done);
    if (status || done) return status;
    return launch_tiles(call, dtype == ZT_F16 ? "zt_gemm_f16" : "zt_gemm_bf16", ZT_CU_GEMM_BYTES, args, count);
}

/* x as kernels of many rows want it. */
static zt_status prepare_x(linear_products *products, product_form form, zt_dtype w_dtype, zt_cu_linear_args *args)
{
    zt_status status = form.uses_codes   ? make_codes(products)
                       : form.uses_pairs ? make_pairs(products)
                                         : zt_cu_vectors(products->call, w_dtype, &args->grid);
    if (form.uses_codes) args->x = products->codes, args->x_sums = products->sums;
    if (form.uses_pairs) args->x = products->pairs, args->x_backs = products->backs, args->n *= 2, args->x_type = ZT_F16;
    return status;
}

/* How the K columns of weights lie, and how they are cut into slices. */
static void place_columns(product_form form, zt_dtype w_dtype, zt_cu_linear_args *args)
{
    const zt_dtype_info *info = zt_dtype_get(w_dtype);
    args->units = (args->K + form.columns - 1) / form.columns;
    args->units_slice = (args->units + WARPS - 1) / WARPS;
    args->row_bytes = args->K / info->block * info->block_bytes;
    args->w_type = (int32_t)w_dtype;
    args->block = info->block;
    args->block_bytes = info->block_bytes;
}

/* The products from number `first` on whose weights are of its form, in one launch; which they are.
 */
static zt_status launch_products(linear_products *products, int first, unsigned *done)
{
    zt_cu_call *call = products->call;
    const zt_type *x_type = call->input_types[0], *w_type = call->input_types[products->weights[first]];
    const zt_cu_pack *packed = call->packed[products->weights[first]];
    const zt_dtype_info *info = zt_dtype_get(w_type->dtype);
    product_form form = has_one_form(call->engine) ? one_form
                                                   : form_of(products->act, x_type->dtype, w_type->dtype, packed,
                                                             zt_cu_has_shared(call->engine, ZT_CU_GEMM_BYTES));
    zt_cu_decode_args decode_args = {.a = {.x = call->inputs[0],
                                           .n = x_type->dim[0],
                                           .K = x_type->dim[1],
                                           .x_type = (int32_t)x_type->dtype,
                                           .y_type = (int32_t)x_type->dtype,
                                           .each = codes_of(products->act)}};
    bool decode = fill_decode(call, form, &decode_args);
    zt_cu_linear_args args = decode_args.a;
    int64_t tiles = 0;
    unsigned count = 0;
    zt_status status = decode ? ZT_OK : prepare_x(products, form, w_type->dtype, &args);
    args.wide_w = 1;
    for (int i = first; i < products->count && !status; i++) {
        if (*done >> i & 1 || call->input_types[products->weights[i]]->dtype != w_type->dtype ||
            call->packed[products->weights[i]] != packed)
            continue;
        *done |= 1u << i;
        if (!products->outputs[i]) continue;
        args.product[count] = product_of(products, i);
        args.wide_w = args.wide_w && is_wide(args.product[count].w, args.K, info->block_bytes <= 2 ? 8 : 4);
        int64_t row_tiles = (args.product[count++].M + 15) / 16;
        tiles = row_tiles > tiles ? row_tiles : tiles;
    }
    place_columns(form, w_type->dtype, &args);
    args.wide_x =
        is_wide(form.uses_pairs ? args.x : call->inputs[0], args.K, decode || strncmp(form.prefill_kernel, "zt_half", 7) ? 4 : 8);
    args.split = splits_tile(call, args.n, tiles, form.rows_per_warp);
    args.residual = products->residual;
    args.after = products->after;
    args.curve = products->curve;
    int64_t most = args.n < form.rows_per_warp ? args.n : form.rows_per_warp;
    const zt_cu_dim grid = {(unsigned)(args.split ? tiles : (tiles + WARPS - 1) / WARPS),
                            (unsigned)((args.n + form.rows_per_warp - 1) / form.rows_per_warp), count};
    size_t shared = args.split ? (size_t)most * WARPS * 16 * sizeof(float) : 0;
    decode_args.a = args;
    if (decode && packed) decode_args.tile_bytes = args.units * packed->codes * 64;
    if (status || decode) return status ? status : launch_decode(call, form.decode_kernel, &decode_args);
    bool taken;
    status = zt_cu_blas_linear(call, &args, count, &taken);
    if (status || taken) return status;
    if (form.uses_codes && is_large(call, form, args.n, tiles * 16, count, ZT_CU_CODES_BYTES))
        return launch_tiles(call, packed->by_large, ZT_CU_CODES_BYTES, &args, count);
    zt_dtype dtype = large_type(call, form, args.n, tiles * 16, count);
    if (dtype != ZT_DTYPE_COUNT) return launch_large(call, dtype, &args, count);
    return zt_cu_launch(call, form.prefill_kernel, grid, (zt_cu_dim){32 * WARPS, 1, 1}, shared, &args, sizeof args);
}

/* Has the op the bits of docs/arithmetic.md? Those do whose products nothing is done to but an addition. */
static bool linear_contract(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const int count = op == ZT_OP_linears ? 3 : 1, bias = op == ZT_OP_linears ? 4 : op == ZT_OP_linear_add ? 3 : 2;
    bool good = in[0]->dtype == ZT_F32 && op != ZT_OP_gated_linear && op != ZT_OP_linear_act;
    (void)attrs, (void)out;
    for (int k = 0; k < count; k++)
        good = good && (!in[1 + k] || zt_cu_contract_has_weight(in[1 + k])) && (!in[bias + k] || in[bias + k]->dtype == ZT_F32);
    return good;
}

static zt_status multiply_all(linear_products *products)
{
    unsigned done = 0;
    zt_status status = ZT_OK;
    const zt_cu_call *call = products->call;
    if (call->engine->base.strict_bits && linear_contract(call->op, call->attrs, call->input_types, call->output_types[0]))
        return zt_cu_contract_multiply(products->call, products->act, products->count, products->weights, products->biases,
                                       products->outputs, products->residual);
    for (int i = 0; i < products->count && !status; i++) {
        if (done >> i & 1) continue;
        products->call->beside = done != 0;
        status = launch_products(products, i, &done);
    }
    products->call->beside = false;
    return status;
}

/* ---- products by expert ---------------------------------------------------------------------- */

/* Input 1 is a stack of matrices; the kernels are those of many rows of x, for tiles of few rows too. */
static product_form expert_form(const zt_cu_call *call, const zt_enum_string *act)
{
    product_form form = has_one_form(call->engine)
                            ? one_form
                            : form_of(act, call->input_types[0]->dtype, call->input_types[1]->dtype, call->packed[1], false);
    form.decode_kernel = NULL;
    return form;
}

int64_t zt_cu_expert_tile_rows(const zt_cu_call *call, const zt_enum_string *act) { return expert_form(call, act).rows_per_warp; }

/* Where the first expert's weights are, and how far it is to the next's. */
static void place_experts(const zt_cu_call *call, product_form form, zt_cu_linear_args *args)
{
    const zt_type *w_type = call->input_types[1], *b_type = call->input_types[3];
    const zt_cu_pack *packed = call->packed[1];
    const int64_t E = w_type->dim[0], M = w_type->dim[1], K = w_type->dim[2];
    const zt_dtype_info *info = zt_dtype_get(w_type->dtype);
    zt_cu_product *product = &args->product[0];
    place_columns(form, w_type->dtype, args);
    args->w_step = M * args->row_bytes;
    product->w = call->inputs[1];
    product->M = M;
    if (b_type) product->b = call->inputs[3], product->b_type = (int32_t)b_type->dtype;
    if (packed) {
        const int64_t blocks = M / ZT_CU_TILE_ROWS * args->units;
        product->heads = zt_cu_pack_heads(packed, product->w, E * M, K);
        product->halves = zt_cu_pack_halves(packed, product->w, E * M, K);
        args->w_step = blocks * 64 * packed->codes;
        args->heads_step = blocks * 64 * packed->head;
        args->halves_step = blocks * 32 * packed->half;
    }
    args->wide_w = is_wide(product->w, K, info->block_bytes <= 2 ? 8 : 4) && args->w_step % 16 == 0;
}

zt_status zt_cu_multiply_experts(zt_cu_call *call, const zt_enum_string *act, zt_cu_ptr x, zt_cu_ptr y, zt_cu_ptr tiles,
                                 int64_t tile_count)
{
    const zt_type *x_type = call->input_types[0], *w_type = call->input_types[1];
    const product_form form = expert_form(call, act);
    const int64_t count = tile_count * form.rows_per_warp, row_tiles = (w_type->dim[1] + 15) / 16;
    zt_cu_linear_args args = {.x = x,
                              .n = count,
                              .K = w_type->dim[2],
                              .x_type = (int32_t)x_type->dtype,
                              .y_type = (int32_t)x_type->dtype,
                              .each = codes_of(act),
                              .product = {{.y = y}},
                              .expert_tiles = tiles};
    zt_status status = form.uses_codes ? encode_rows(call, x, count, args.K, args.each, &args.x, &args.x_sums)
                                       : zt_cu_vectors(call, w_type->dtype, &args.grid);
    if (status) return status;
    place_experts(call, form, &args);
    args.wide_x = is_wide(x, args.K, strncmp(form.prefill_kernel, "zt_half", 7) ? 4 : 8);
    args.split = splits_tile(call, count, row_tiles, form.rows_per_warp);
    const zt_cu_dim grid = {(unsigned)(args.split ? row_tiles : (row_tiles + WARPS - 1) / WARPS), (unsigned)tile_count, 1};
    size_t shared = args.split ? (size_t)form.rows_per_warp * WARPS * 16 * sizeof(float) : 0;
    return zt_cu_launch(call, form.prefill_kernel, grid, (zt_cu_dim){32 * WARPS, 1, 1}, shared, &args, sizeof args);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool weights_fit(const zt_cu_engine *engine, const zt_type *const input_types[], int first, int weight_count)
{
    if (!zt_cu_is_float(input_types[0]->dtype) || (input_types[0]->dim[0] + 7) / 8 > engine->max_grid[1]) return false;
    for (int k = first; k < first + weight_count; k++) {
        if (!input_types[k]) continue;
        if (input_types[k]->dtype == ZT_F64 || input_types[k]->dim[1] % zt_dtype_get(input_types[k]->dtype)->block) return false;
    }
    return true;
}

static bool has_linear(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                       const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    return weights_fit(engine, input_types, 1, 1);
}

static bool has_linears(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                        const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    return weights_fit(engine, input_types, 1, 3);
}

static bool has_gated(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    return weights_fit(engine, input_types, 1, 2);
}

static zt_status emit_linear(zt_cu_call *call)
{
    const zt_linear_attrs *attrs = call->attrs;
    linear_products products = {
        .call = call, .act = &attrs->act, .count = 1, .weights = {1}, .biases = {2}, .outputs = {call->outputs[0]}};
    return multiply_all(&products);
}

static zt_status emit_linears(zt_cu_call *call)
{
    const zt_linears_attrs *attrs = call->attrs;
    linear_products own = {.call = call, .act = zt_linears_act(attrs, 0)}, rest = {.call = call, .act = &attrs->act};
    bool alone = strcmp(own.act->s, attrs->act.s) != 0;
    for (int k = 0; k < 3; k++) {
        linear_products *products = k == 0 && alone ? &own : &rest;
        if (!call->input_types[1 + k]) continue;
        products->weights[products->count] = 1 + k;
        products->biases[products->count] = 4 + k;
        products->outputs[products->count++] = call->outputs[k];
    }
    zt_status status = multiply_all(&own);
    return status ? status : multiply_all(&rest);
}

static zt_status emit_gated(zt_cu_call *call)
{
    const zt_gated_linear_attrs *attrs = call->attrs;
    int64_t value_count = zt_type_count(call->output_types[0]);
    size_t bytes = zt_type_bytes(call->output_types[0]);
    linear_products products = {.call = call, .act = &attrs->act, .count = 2, .weights = {1, 2}, .biases = {3, 4}};
    for (int k = 0; k < 2; k++)
        if (!(products.outputs[k] = zt_cu_scratch(call, bytes))) return ZT_ENOMEM;
    zt_status status = multiply_all(&products);
    const zt_cu_gate_args gate = {.g = products.outputs[0],
                                  .u = products.outputs[1],
                                  .y = call->outputs[0],
                                  .n = value_count,
                                  .type = (int32_t)call->output_types[0]->dtype,
                                  .gate = curve_of(zt_gate_after(&attrs->gate))};
    if (status) return status;
    return zt_cu_launch(call, "zt_gate", zt_cu_grid(value_count, 256), (zt_cu_dim){256, 1, 1}, 0, &gate, sizeof gate);
}

static zt_status emit_act(zt_cu_call *call)
{
    const zt_linear_act_attrs *attrs = call->attrs;
    linear_products products = {
        .call = call, .act = &attrs->act, .count = 1, .weights = {1}, .biases = {2}, .outputs = {call->outputs[0]}};
    products.after = ZT_CU_AFTER_CURVE;
    products.curve = curve_of(zt_curve_after(&attrs->curve));
    return multiply_all(&products);
}

static zt_status emit_add(zt_cu_call *call)
{
    const zt_linear_add_attrs *attrs = call->attrs;
    linear_products products = {
        .call = call, .act = &attrs->act, .count = 1, .weights = {1}, .biases = {3}, .outputs = {call->outputs[0]}};
    products.after = ZT_CU_AFTER_ADD;
    products.residual = call->inputs[2];
    return multiply_all(&products);
}

const zt_cu_row zt_cu_linear[] = {
    {.op = ZT_OP_linear, .has = has_linear, .emit = emit_linear, .contract = linear_contract, .weights = 1 << 1},
    {.op = ZT_OP_linears,
     .has = has_linears,
     .emit = emit_linears,
     .contract = linear_contract,
     .weights = 1 << 1 | 1 << 2 | 1 << 3},
    {.op = ZT_OP_gated_linear, .has = has_gated, .emit = emit_gated, .weights = 1 << 1 | 1 << 2},
    {.op = ZT_OP_linear_act, .has = has_linear, .emit = emit_act, .weights = 1 << 1},
    {.op = ZT_OP_linear_add, .has = has_linear, .emit = emit_add, .contract = linear_contract, .weights = 1 << 1},
    {0},
};
