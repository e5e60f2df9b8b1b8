/* grids.c - the vectors that codes of some block types stand for, as entries of 16 bits in a step's table. */
#include "lib/engine/vulkan/vk.h"
#include "lib/tensor/decode.h"

#include <string.h>

typedef struct grid {
    zt_dtype dtype;
    const uint16_t *entries;
    size_t count;
} grid;

static const grid grids[] = {
    {ZT_IQ3_S, zt_grid_iq3_s, 512},   {ZT_IQ3_XXS, zt_grid_iq3_xxs, 256}, {ZT_IQ2_XXS, zt_grid_iq2_xxs, 256},
    {ZT_IQ2_XS, zt_grid_iq2_xs, 512}, {ZT_IQ2_S, zt_grid_iq2_s, 1024},    {ZT_IQ1_S, zt_grid_iq1_s, 2048},
    {ZT_IQ1_M, zt_grid_iq1_s, 2048},
};
enum { GRIDS = sizeof grids / sizeof *grids };

/* That of an input which is a weight; NULL: it has none. */
static const grid *grid_of(const zt_vk_call *call, int input)
{
    for (int k = 0; call->in[input] && call->packed[input] && k < GRIDS; k++)
        if (grids[k].dtype == call->in[input]->dtype) return &grids[k];
    return NULL;
}

/* Words before the grid of an input: those of the inputs before it. */
static size_t words_before(const zt_vk_call *call, int input)
{
    size_t words = 0;
    for (int k = 0; k < input; k++)
        if (grid_of(call, k)) words += grid_of(call, k)->count / 2;
    return words;
}

zt_status zt_vk_put_grids(zt_vk_engine *engine, zt_vk_call *call)
{
    call->table_words = words_before(call, ZT_MAX_IN);
    if (!call->table_words) return ZT_OK;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    for (int k = 0; k < ZT_MAX_IN; k++) {
        const grid *used = grid_of(call, k);
        if (used) memcpy(call->table + words_before(call, k), used->entries, used->count * sizeof *used->entries);
    }
    return ZT_OK;
}

zt_vk_arg zt_vk_grid(const zt_vk_call *call, int input)
{
    return grid_of(call, input) ? zt_vk_table(words_before(call, input)) : zt_vk_none();
}
