/* matmul.c - products of matrices, in batches; and their tiles, for others that multiply. */
#include "lib/engine/vulkan/matmul.h"

#include <string.h>

/* As shaders/tiles.glsl has them; a subgroup of so many takes large tiles. */
enum { COLUMNS = 64, ACROSS = 16, FEW_ROWS = 4, ROWS = 8, SMALL = 64, LARGE = 256, LARGE_LANES = 32 };

/* ---- tiles ----------------------------------------------------------------------------------- */

static int64_t groups_of(int64_t n, int64_t each) { return (n + each - 1) / each; }

void zt_vk_set_small_tiles(const zt_vk_engine *engine, zt_vk_call *call, int word, int64_t N, int64_t M, int64_t times)
{
    const uint32_t rows = N <= FEW_ROWS && engine->lanes >= LARGE_LANES ? 1 : ROWS;
    call->spec[1] = rows;
    call->spec[2] = SMALL;
    zt_vk_group_each(engine, call, word, groups_of(N, SMALL / ACROSS * rows) * groups_of(M, COLUMNS) * times);
}

void zt_vk_set_tiles(const zt_vk_engine *engine, zt_vk_call *call, int word, int64_t N, int64_t M, int64_t times)
{
    zt_vk_set_small_tiles(engine, call, word, N, M, times);
    if (engine->lanes < LARGE_LANES || call->spec[ZT_VK_FLOATS] == ZT_VK_F64 || N < LARGE / ACROSS * ROWS) return;
    call->spec[2] = LARGE;
    zt_vk_group_each(engine, call, word, groups_of(N, LARGE / ACROSS * ROWS) * groups_of(M, COLUMNS) * times);
}

void zt_vk_multiply(const zt_vk_engine *engine, zt_vk_call *call, const zt_vk_product *product)
{
    call->shader = ZT_VK_SHADER_matmul;
    call->word[0] = (uint32_t)product->N;
    call->word[1] = (uint32_t)product->K;
    call->word[2] = (uint32_t)product->M;
    call->word[3] = (uint32_t)product->a_row;
    call->word[4] = (uint32_t)product->a_column;
    call->word[5] = (uint32_t)product->b_row;
    call->word[6] = (uint32_t)product->b_column;
    call->word[7] = (uint32_t)product->rank;
    ZT_VK_ARGS(call, product->a, product->b, product->table, product->y);
    zt_vk_set_tiles(engine, call, 8, product->N, product->M, product->batches);
}

/* ---- matmul ---------------------------------------------------------------------------------- */

static bool has_matmul(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_dtype dtype = input_types[0]->dtype;
    (void)attrs, (void)out;
    return zt_vk_is_real(engine, dtype) || zt_dtype_get(dtype)->kind == 'I' || zt_dtype_get(dtype)->kind == 'U';
}

/* Elements from one matrix to the next along each dimension of y's batches; 0 where it is repeated. */
static void set_steps(const zt_type *type, const zt_type *whole, uint32_t *step)
{
    int64_t size = type->dim[type->rank - 1] * type->dim[type->rank - 2];
    for (int axis = whole->rank - 3; axis >= 0; axis--) {
        int own_axis = axis - (whole->rank - type->rank);
        step[axis] = own_axis >= 0 && type->dim[own_axis] != 1 ? (uint32_t)size : 0;
        if (own_axis >= 0) size *= type->dim[own_axis];
    }
}

/* The table of shaders/matmul.comp. */
static zt_status set_batches(zt_vk_engine *engine, zt_vk_call *call, zt_vk_product *product)
{
    const zt_type *y = call->out;
    const int rank = y->rank - 2;
    product->rank = rank;
    product->batches = 1;
    for (int axis = 0; axis < rank; axis++) product->batches *= y->dim[axis];
    if (rank == 0) return ZT_OK;
    call->table_words = 3 * (size_t)rank;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    for (int axis = 0; axis < rank; axis++) call->table[axis] = (uint32_t)y->dim[axis];
    set_steps(call->in[0], y, call->table + rank);
    set_steps(call->in[1], y, call->table + 2 * rank);
    product->table = zt_vk_table(0);
    return ZT_OK;
}

/* What a pass of integers has of its own: an invocation an element. */
static void set_integers(const zt_vk_engine *engine, zt_vk_call *call)
{
    const int64_t count = zt_type_count(call->out);
    memset(call->spec, 0, sizeof call->spec);
    call->shader = ZT_VK_SHADER_matmul_integer;
    call->spec[0] = (uint32_t)call->in[0]->dtype;
    call->word[8] = (uint32_t)count;
    zt_vk_spread(engine, call, count, 64);
}

static zt_status set_matmul(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_matmul_attrs *attrs = call->attrs;
    const zt_type *a = call->in[0], *b = call->in[1], *y = call->out;
    const int64_t columns_a = a->dim[a->rank - 1], columns_b = b->dim[b->rank - 1];
    zt_vk_product product = {.a = zt_vk_in(0),
                             .b = zt_vk_in(1),
                             .y = zt_vk_out(0),
                             .N = y->dim[y->rank - 2],
                             .K = a->dim[a->rank - (attrs->ta ? 2 : 1)],
                             .M = y->dim[y->rank - 1],
                             .a_row = attrs->ta ? 1 : columns_a,
                             .a_column = attrs->ta ? columns_a : 1,
                             .b_row = attrs->tb ? 1 : columns_b,
                             .b_column = attrs->tb ? columns_b : 1};
    zt_status status = set_batches(engine, call, &product);
    if (status) return status;
    zt_vk_multiply(engine, call, &product);
    if (a->dtype >= ZT_I64) set_integers(engine, call);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_matmul[] = {
    {.op = ZT_OP_matmul, .has = has_matmul, .set = set_matmul},
    {0},
};
