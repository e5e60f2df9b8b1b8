/* linear.c - products with weights, alone and with what is done to them: x in 8- or 16-bit codes by block types that have
 * such, else as it is. Which passes that takes:
 *
 *   linear_codes    x to codes, once for all products that read the same ones
 *   linear_pack     blocks that lie as in a file to packed ones, and
 *   linear_powers   the powers of their rows; weights that are loaded have both (weights.c)
 *   linear_int8     the product of codes (linear_bytes where the device has no products of bytes), or
 *   linear          the product of floats; each with its bias and what comes after
 */
#include "lib/engine/vulkan/linear.h"
#include "lib/engine/cpu/pack.h"
#include "lib/ops/linear.h"

#include <string.h>

/* ---- one product ----------------------------------------------------------------------------- */

/* x may have several dimensions of rows. */
static int64_t rows_of(const zt_type *x)
{
    int64_t rows = 1;
    for (int axis = 0; axis + 1 < x->rank; axis++) rows *= x->dim[axis];
    return rows;
}

enum { MAX_ROWS = 8, FEW_ROWS = 4 };

/* Turns of the loops of shaders/linear.comp, whose are more than those of linear_int8.glsl. */
static int64_t turns_of(int64_t K, int64_t rows) { return (K + 31) / 32 * (17 * rows + 1) + rows; }

/* Rows of x that an invocation takes: a weight is unpacked once for all of them. */
static uint32_t rows_each(const zt_vk_engine *engine, int64_t n, int64_t K)
{
    return n >= FEW_ROWS && zt_vk_has_turns(engine, turns_of(K, MAX_ROWS)) ? MAX_ROWS : 1;
}

bool zt_vk_has_product(const zt_vk_engine *engine, const zt_type *x, const zt_type *w, const zt_type *b)
{
    return zt_vk_is_float(x->dtype) && zt_vk_pack_of(w->dtype) && (!b || zt_vk_is_float(b->dtype)) &&
           rows_of(x) <= engine->groups[1] && w->dim[w->rank - 2] / 32 < engine->groups[0] &&
           zt_vk_has_turns(engine, turns_of(zt_vk_last_dim(x), 1));
}

/* Rows of codes that a row of x becomes; 0: it stays as it is. */
static uint32_t parts_of(const zt_type *w, const char *act)
{
    if (!zt_pack_form_of(w->dtype).bits || !strcmp(act, "f32")) return 0;
    return strcmp(act, "q16") ? 1 : 2;
}

static uint32_t float_word(float number)
{
    uint32_t word;
    memcpy(&word, &number, sizeof word);
    return word;
}

/* Of codes for weights of a type: pairs of scales a row, bytes of all. */
static int64_t pairs_of(zt_pack_form form, int64_t K) { return zt_pack_padded_slices(form, K) / zt_pack_pair_slices(form); }

static size_t codes_bytes(const zt_vk_call *call, const zt_vk_product *product)
{
    const zt_type *x = call->in[0], *w = call->in[product->w];
    const zt_pack_form form = zt_pack_form_of(w->dtype);
    const int64_t K = zt_vk_last_dim(x), row = 32 * zt_pack_padded_slices(form, K) * parts_of(w, product->act);
    return (size_t)(rows_of(x) * (row + 16 * pairs_of(form, K))) + 64;
}

/* Do two products read the same codes? */
static bool same_codes(const zt_vk_call *call, const zt_vk_product *a, const zt_vk_product *b)
{
    const zt_type *v = call->in[a->w], *w = call->in[b->w];
    const zt_pack_form f = zt_pack_form_of(v->dtype), g = zt_pack_form_of(w->dtype);
    return parts_of(v, a->act) == parts_of(w, b->act) && zt_pack_scale_per_16(f) == zt_pack_scale_per_16(g) &&
           zt_pack_dot_shift(f) == zt_pack_dot_shift(g);
}

/* The codes of x, which no pass has made in this step. */
static zt_status make_codes(zt_vk_engine *engine, zt_vk_call *call, zt_vk_product *product, bool kept)
{
    const zt_type *x = call->in[0], *w = call->in[product->w];
    const zt_pack_form form = zt_pack_form_of(w->dtype);
    const int64_t K = zt_vk_last_dim(x), pairs = pairs_of(form, K), all = rows_of(x) * pairs;
    const bool per_16 = zt_pack_scale_per_16(form);
    const size_t bytes = codes_bytes(call, product);
    product->x = kept ? zt_vk_kept(call, bytes) : zt_vk_scratch(call, bytes);
    call->shader = ZT_VK_SHADER_linear_codes;
    call->spec[1] = parts_of(w, product->act);
    call->word[0] = (uint32_t)all;
    call->word[1] = (uint32_t)pairs;
    call->word[2] = (uint32_t)(K / 32);
    call->word[3] = per_16;
    call->word[4] = float_word((float)(1 << (zt_pack_dot_shift(form) + (per_16 ? 0 : 15))));
    zt_vk_spread(engine, call, all, 64);
    ZT_VK_ARGS(call, zt_vk_in(0), product->x);
    return kept ? zt_vk_once(engine, call) : zt_vk_then(engine, call);
}

/* Where a product finds its weights. */
typedef struct weights_place {
    zt_vk_arg w, powers; /* powers: of block types that have codes */
    bool plain;          /* rows as in a file: of plain types alone */
} weights_place;

static zt_status make_powers(zt_vk_engine *engine, zt_vk_call *call, const zt_vk_product *product, weights_place *place)
{
    const zt_type *w = call->in[product->w];
    const int64_t M = w->dim[w->rank - 2], rows = (M + 31) / 32 * 32 * (w->rank == 3 ? w->dim[0] : 1);
    place->powers = zt_vk_scratch(call, (size_t)rows * sizeof(float));
    call->shader = ZT_VK_SHADER_linear_powers;
    call->spec[0] = (uint32_t)call->packed[product->w];
    call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = (uint32_t)rows;
    call->word[1] = (uint32_t)zt_vk_last_dim(w);
    zt_vk_spread(engine, call, rows, 64);
    ZT_VK_ARGS(call, place->w, place->powers);
    return zt_vk_then(engine, call);
}

/* Blocks that are packed, by a pass where they are not yet. */
static zt_status find_weights(zt_vk_engine *engine, zt_vk_call *call, const zt_vk_product *product, weights_place *place)
{
    const zt_type *w = call->in[product->w];
    const bool codes = zt_pack_form_of(w->dtype).bits, blocks = zt_dtype_get(w->dtype)->kind == 'Q';
    *place = (weights_place){.w = zt_vk_in(product->w), .powers = zt_vk_none(), .plain = call->plain[product->w] && !blocks};
    if (codes) place->powers = place->w;
    place->powers.offset = codes ? zt_vk_powers_at(w) : 0;
    if (!call->plain[product->w] || !blocks || zt_type_count(w) == 0) return ZT_OK;
    place->w = zt_vk_scratch(call, zt_vk_powers_at(w));
    const zt_vk_unit unit = zt_vk_unit_of(w->dtype);
    call->shader = ZT_VK_SHADER_linear_pack;
    call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = (uint32_t)rows_of(w);
    call->word[1] = (uint32_t)w->dim[w->rank - 2];
    call->word[2] = (uint32_t)zt_vk_units(w);
    call->word[3] = (uint32_t)unit.words;
    call->word[4] = (uint32_t)unit.bytes;
    call->word[5] = (uint32_t)unit.header;
    zt_vk_spread(engine, call, rows_of(w) * zt_vk_units(w), 64);
    ZT_VK_ARGS(call, zt_vk_in(product->w), place->w);
    zt_status status = zt_vk_then(engine, call);
    return status || !codes || !parts_of(w, product->act) ? status : make_powers(engine, call, product, place);
}

/* The product itself, whose x is there. */
static zt_status set_product(zt_vk_engine *engine, zt_vk_call *call, const zt_vk_product *product)
{
    const zt_type *x = call->in[0], *w = call->in[product->w], *b = call->in[product->b];
    const uint32_t parts = parts_of(w, product->act);
    const bool brain = w->dtype == ZT_BF16 && strcmp(product->act, "f32"), quick = engine->dots && engine->lanes >= 8;
    const int64_t M = w->dim[w->rank - 2], rows = rows_of(x) * (product->experts ? product->each : 1);
    const uint32_t each = product->experts ? 1 : rows_each(engine, rows, zt_vk_last_dim(x)), floats = zt_vk_floats(x->dtype);
    weights_place place;
    zt_status status = find_weights(engine, call, product, &place);
    if (status) return status;
    call->shader = !parts ? ZT_VK_SHADER_linear : quick ? ZT_VK_SHADER_linear_int8 : ZT_VK_SHADER_linear_bytes;
    call->spec[0] = (uint32_t)call->packed[product->w];
    call->spec[1] = engine->fused ? each : MAX_ROWS; /* a compiler for CPUs makes a loop of the rows, and so one pipeline */
    call->spec[2] = parts ? parts : brain;
    call->spec[3] = place.plain;
    call->spec[ZT_VK_FLOATS] = parts ? 0 : floats;
    call->word[0] = (uint32_t)rows;
    call->word[1] = (uint32_t)zt_vk_last_dim(x);
    call->word[2] = (uint32_t)M;
    call->word[3] = b ? zt_vk_floats(b->dtype) : 0;
    call->word[4] = (uint32_t)product->experts;
    call->word[5] = product->experts ? (uint32_t)product->each : 1;
    call->word[6] = (uint32_t)rows_of(x);
    call->word[7] = each;
    call->word[8] = product->adds;
    call->word[9] = floats;
    call->groups[0] = (uint32_t)((M + 31) / 32);
    call->groups[1] = (uint32_t)((rows + each - 1) / each);
    call->groups[2] = 1;
    ZT_VK_ARGS(call, product->x, place.w, b ? zt_vk_in(product->b) : zt_vk_none(), product->y, place.powers,
               zt_vk_grid(call, product->w), product->beside);
    return ZT_OK;
}

zt_status zt_vk_set_products(zt_vk_engine *engine, zt_vk_call *call, zt_vk_product *product, int count)
{
    bool kept = true;
    zt_status status = zt_vk_put_grids(engine, call);
    for (int k = 0; k < count && !status; k++) {
        int from = 0;
        product[k].x = zt_vk_in(0);
        if (parts_of(call->in[product[k].w], product[k].act)) {
            while (from < k && !same_codes(call, &product[from], &product[k])) from++;
            product[k].x = product[from].x;
            if (from == k) {
                status = make_codes(engine, call, &product[k], kept);
                kept = false; /* there is one of these a step */
            }
        }
        if (!status) status = set_product(engine, call, &product[k]);
        if (!status && k + 1 < count) status = zt_vk_then(engine, call);
    }
    return status;
}

/* ---- linear ---------------------------------------------------------------------------------- */

static bool linear_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_has_product(engine, input_types[0], input_types[1], input_types[2]);
}

static zt_status set_linear(zt_vk_engine *engine, zt_vk_call *call)
{
    zt_vk_product product = {.w = 1, .b = 2, .act = ((const zt_linear_attrs *)call->attrs)->act.s, .y = zt_vk_out(0)};
    return zt_vk_set_products(engine, call, &product, 1);
}

/* ---- linears --------------------------------------------------------------------------------- */

enum { MAX_PRODUCTS = 3 };

static bool linears_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    bool has = true;
    (void)attrs, (void)out;
    for (int k = 0; k < MAX_PRODUCTS; k++)
        has = has && (!input_types[1 + k] || zt_vk_has_product(engine, input_types[0], input_types[1 + k], input_types[4 + k]));
    return has;
}

static zt_status set_linears(zt_vk_engine *engine, zt_vk_call *call)
{
    zt_vk_product product[MAX_PRODUCTS];
    int count = 0;
    for (int k = 0; k < MAX_PRODUCTS; k++)
        if (call->in[1 + k] && call->wanted[k])
            product[count++] =
                (zt_vk_product){.w = 1 + k, .b = 4 + k, .act = zt_linears_act(call->attrs, k)->s, .y = zt_vk_out(k)};
    return zt_vk_set_products(engine, call, product, count);
}

/* ---- products with what comes after ------------------------------------------------------------ */

static bool gated_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_has_product(engine, input_types[0], input_types[1], input_types[3]) &&
           zt_vk_has_product(engine, input_types[0], input_types[2], input_types[4]);
}

/* The last pass of a product whose rows are in y: y = f(y), or f(x, y) of an op on two values. */
static zt_status set_after(zt_vk_engine *engine, zt_vk_call *call, const zt_after *after, zt_vk_arg x)
{
    const int function = zt_vk_function(after->op, after->attrs, NULL);
    const bool pair = function >= ZT_VK_PAIRS;
    zt_status status = zt_vk_then(engine, call);
    if (status) return status;
    call->shader = ZT_VK_SHADER_linear_after;
    call->spec[0] = (uint32_t)(pair ? function - ZT_VK_PAIRS : function);
    call->spec[1] = pair;
    call->word[0] = (uint32_t)zt_type_count(call->out);
    zt_vk_spread(engine, call, zt_type_count(call->out), 64);
    ZT_VK_ARGS(call, x, zt_vk_out(0));
    return ZT_OK;
}

static zt_status set_gated(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_gated_linear_attrs *attrs = call->attrs;
    const zt_vk_arg gate = zt_vk_scratch(call, zt_type_bytes(call->out));
    zt_vk_product product[] = {{.w = 1, .b = 3, .act = attrs->act.s, .y = gate},
                               {.w = 2, .b = 4, .act = attrs->act.s, .y = zt_vk_out(0)}};
    zt_status status = zt_vk_set_products(engine, call, product, 2);
    return status ? status : set_after(engine, call, zt_gate_after(&attrs->gate), gate);
}

static zt_status set_act(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_linear_act_attrs *attrs = call->attrs;
    zt_vk_product product = {.w = 1, .b = 2, .act = attrs->act.s, .y = zt_vk_out(0)};
    zt_status status = zt_vk_set_products(engine, call, &product, 1);
    return status ? status : set_after(engine, call, zt_curve_after(&attrs->curve), zt_vk_none());
}

static bool add_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_has_product(engine, input_types[0], input_types[1], input_types[3]);
}

static zt_status set_add(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_linear_add_attrs *attrs = call->attrs;
    zt_vk_product product = {.w = 1, .b = 3, .act = attrs->act.s, .y = zt_vk_out(0), .adds = true, .beside = zt_vk_in(2)};
    return zt_vk_set_products(engine, call, &product, 1);
}

static bool has_after_contract(const zt_after *after)
{
    return zt_vk_function_contract(zt_vk_function(after->op, after->attrs, NULL));
}

static bool gated_contract(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)out;
    return input_types[0]->dtype == ZT_F32 && has_after_contract(zt_gate_after(&((const zt_gated_linear_attrs *)attrs)->gate));
}

static bool act_contract(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)out;
    return input_types[0]->dtype == ZT_F32 && has_after_contract(zt_curve_after(&((const zt_linear_act_attrs *)attrs)->curve));
}

const zt_vk_kernel zt_vk_linear[] = {
    {.op = ZT_OP_linear, .has = linear_has, .set = set_linear, .contract = zt_vk_always, .weights = 1u << 1},
    {.op = ZT_OP_linears,
     .has = linears_has,
     .set = set_linears,
     .contract = zt_vk_always,
     .weights = 1u << 1 | 1u << 2 | 1u << 3},
    {.op = ZT_OP_gated_linear, .has = gated_has, .set = set_gated, .contract = gated_contract, .weights = 1u << 1 | 1u << 2},
    {.op = ZT_OP_linear_act, .has = linear_has, .set = set_act, .contract = act_contract, .weights = 1u << 1},
    {.op = ZT_OP_linear_add, .has = add_has, .set = set_add, .contract = zt_vk_always, .weights = 1u << 1},
    {0},
};
