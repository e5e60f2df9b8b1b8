/* contract.c - launches of kernels that have the bits of docs/arithmetic.md, which rows choose on an engine with strict_bits:
 * products with weights, and ops of single elements.
 */
#include "lib/engine/cuda/args_contract.h"
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

#include <string.h>

/* ---- products -------------------------------------------------------------------------------- */

/* The page's table of types that are multiplied as integers. */
static const zt_cu_contract_form forms[] = {
    /* type, middle, shift, bits, halves, minima */
    {ZT_CU_Q4_0, 8, 0, 0, 0, 0},  {ZT_CU_Q4_1, 8, 0, 0, 0, 1},   {ZT_CU_Q5_0, 16, 1, 0, 0, 0}, {ZT_CU_Q5_1, 16, 1, 0, 0, 1},
    {ZT_CU_Q8_0, 0, 4, 0, 0, 0},  {ZT_CU_IQ4_NL, 0, 4, 0, 0, 0}, {ZT_CU_MXFP4, 0, 1, 0, 0, 0}, {ZT_CU_NVFP4, 0, 0, 0, 1, 0},
    {ZT_CU_Q2_0, 1, 0, 0, 0, 0},  {ZT_CU_TQ2_0, 1, 0, 0, 0, 0},  {ZT_CU_Q2_K, 2, 0, 4, 1, 1},  {ZT_CU_Q3_K, 4, 0, 7, 1, 0},
    {ZT_CU_Q4_K, 8, 0, 6, 0, 1},  {ZT_CU_Q5_K, 16, 1, 6, 0, 1},  {ZT_CU_Q6_K, 32, 1, 7, 1, 0}, {ZT_CU_IQ4_XS, 0, 4, 5, 0, 0},
    {ZT_CU_IQ3_S, 0, 1, 5, 0, 0},
};

/* Types whose products have two chains, by the numbers of their tables or their own. */
static const zt_dtype chained[] = {ZT_F32,   ZT_F16,     ZT_BF16,   ZT_Q1_0,  ZT_TQ1_0,  ZT_IQ1_S,
                                   ZT_IQ1_M, ZT_IQ2_XXS, ZT_IQ2_XS, ZT_IQ2_S, ZT_IQ3_XXS};

static const zt_cu_contract_form *find_form(zt_dtype dtype)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].dtype == (int32_t)dtype) return &forms[i];
    return NULL;
}

bool zt_cu_contract_has_weight(const zt_type *weight)
{
    bool found = find_form(weight->dtype) != NULL;
    for (size_t i = 0; i < sizeof chained / sizeof *chained; i++) found = found || chained[i] == weight->dtype;
    return found && weight->rank == 2;
}

static zt_cu_contract_way way_of(zt_dtype dtype, const zt_enum_string *act)
{
    const bool rounds = strcmp(act->s, "f32") != 0;
    if (!find_form(dtype)) return dtype == ZT_BF16 && rounds ? ZT_CU_CONTRACT_PAIRS : ZT_CU_CONTRACT_TWO_CHAINS;
    if (!rounds) return ZT_CU_CONTRACT_ONE_CHAIN;
    return strcmp(act->s, "q16") ? ZT_CU_CONTRACT_8_BITS : ZT_CU_CONTRACT_16_BITS;
}

/* x as codes, into fresh memory. */
static zt_status encode_x(zt_cu_call *call, int parts, zt_cu_ptr *codes, zt_cu_ptr *heads)
{
    const int64_t n = call->input_types[0]->dim[0], K = call->input_types[0]->dim[1], blocks = n * (K / 32);
    *codes = zt_cu_scratch(call, (size_t)(blocks * parts) * 32);
    *heads = zt_cu_scratch(call, (size_t)blocks * sizeof(zt_cu_contract_head));
    if (!*codes || !*heads) return ZT_ENOMEM;
    const zt_cu_codes_args args = {
        .x = call->inputs[0], .codes = *codes, .sums = *heads, .n = n, .K = K, .x_type = ZT_CU_F32, .each = parts};
    return zt_cu_launch(call, "zt_contract_codes", zt_cu_grid(blocks, 128), (zt_cu_dim){128, 1, 1}, 0, &args, sizeof args);
}

static zt_status multiply(zt_cu_call *call, const zt_type *weight, zt_cu_contract_product_args *args)
{
    const zt_dtype_info *info = zt_dtype_get(weight->dtype);
    const zt_cu_contract_form *form = find_form(weight->dtype), plain = {.dtype = (int32_t)weight->dtype};
    enum { TOKENS = 4, THREADS = 32 }; /* as linear_contract.cu has them */
    args->n = call->input_types[0]->dim[0];
    args->K = call->input_types[0]->dim[1];
    args->M = weight->dim[0];
    args->row_bytes = args->K / info->block * info->block_bytes;
    args->block = info->block;
    args->block_bytes = info->block_bytes;
    args->form = form ? *form : plain;
    zt_cu_dim grid = zt_cu_grid(args->M, THREADS);
    grid.y = (unsigned)((args->n + TOKENS - 1) / TOKENS);
    zt_status status = zt_cu_vectors(call, weight->dtype, &args->grid);
    return status ? status
                  : zt_cu_launch(call, args->heads ? "zt_contract_integers" : "zt_contract_chains", grid,
                                 (zt_cu_dim){THREADS, 1, 1}, 0, args, sizeof *args);
}

zt_status zt_cu_contract_multiply(zt_cu_call *call, const zt_enum_string *act, int count, const int weights[], const int biases[],
                                  const zt_cu_ptr outputs[], zt_cu_ptr residual)
{
    zt_cu_ptr codes = 0, heads = 0;
    zt_status status = ZT_OK;
    for (int i = 0; i < count && !status; i++) {
        const zt_type *weight = call->input_types[weights[i]];
        const zt_cu_contract_way way = way_of(weight->dtype, act);
        const bool integers = way == ZT_CU_CONTRACT_8_BITS || way == ZT_CU_CONTRACT_16_BITS;
        if (!outputs[i]) continue;
        if (integers && !codes) status = encode_x(call, way == ZT_CU_CONTRACT_16_BITS ? 2 : 1, &codes, &heads);
        zt_cu_contract_product_args args = {.x = integers ? codes : call->inputs[0],
                                            .heads = integers ? heads : 0,
                                            .w = call->inputs[weights[i]],
                                            .b = call->input_types[biases[i]] ? call->inputs[biases[i]] : 0,
                                            .y = outputs[i],
                                            .residual = residual,
                                            .way = (int32_t)way};
        if (!status) status = multiply(call, weight, &args);
    }
    return status;
}

/* ---- single elements ------------------------------------------------------------------------- */

static const struct {
    zt_op op;
    zt_cu_contract_fn fn;
} maps[] = {
    {ZT_OP_scale, ZT_CU_CONTRACT_SCALE},
    {ZT_OP_swiglu, ZT_CU_CONTRACT_SWIGLU},
    {ZT_OP_geglu, ZT_CU_CONTRACT_GEGLU_TANH},
};

/* f32 throughout, operands of one size. */
bool zt_cu_contract_maps(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    bool found = false;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) found = found || maps[i].op == op;
    if (!found || (op == ZT_OP_geglu && strcmp(((const zt_geglu_attrs *)attrs)->form.s, "tanh") != 0)) return false;
    for (int k = 0; k < 2; k++)
        if (in[k] && (in[k]->dtype != ZT_F32 || !zt_type_equal(in[k], out))) return false;
    return out->dtype == ZT_F32;
}

zt_status zt_cu_contract_map(zt_cu_call *call)
{
    enum { THREADS = 256 };
    zt_cu_contract_map_args args = {
        .a = call->inputs[0], .b = call->inputs[1], .y = call->outputs[0], .n = zt_type_count(call->output_types[0])};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        if (maps[i].op == call->op) args.fn = (int32_t)maps[i].fn;
    if (call->op == ZT_OP_scale) args.by = ((const zt_scale_attrs *)call->attrs)->by;
    return zt_cu_launch(call, "zt_contract_map", zt_cu_grid(args.n, THREADS), (zt_cu_dim){THREADS, 1, 1}, 0, &args, sizeof args);
}
