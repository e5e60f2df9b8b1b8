/* sdpa.c - dense attention and its gradient. */
#include "lib/ops/sdpa.h"
#include "lib/engine/vulkan/tile.h"
#include "lib/engine/vulkan/vk.h"

/* Columns that the shaders have room for, by 16 of an invocation; rows and columns of a tile. */
enum { MOST_COLUMNS = 256, ACROSS = 16, TILE = 32, ROWS = 8, FAR = 1 << 30 };
/* Rows of a block of 4 times as many; subgroups of so many invocations take the large ones. */
enum { ONE = 1, FEW = 2, LARGE_LANES = 32 };
enum { Q, K, V, DY, LSE, DELTA, MASK, LEN };
/* Words of the table, as shaders/sdpa.glsl reads it. */
enum {
    HEADS,
    KEY_HEADS,
    QUERIES,
    KEYS,
    WIDTH,
    VALUE_WIDTH,
    LOW,
    HIGH,
    SCALE,
    SOFTCAP,
    FROM_END,
    MASK_KIND,
    MASK_STEPS,
    SIDES = MASK_STEPS + 4, /* of q, k, v and y: batch, head, row */
    SCALE_F64 = SIDES + 12,
    SOFTCAP_F64 = SCALE_F64 + 2,
    TABLE_WORDS = SOFTCAP_F64 + 2
};

static bool has_sdpa(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_sdpa sizes = zt_sdpa_sizes(attrs, input_types[Q], input_types[K], input_types[V]);
    (void)out;
    return zt_vk_is_real(engine, input_types[Q]->dtype) && sizes.d <= MOST_COLUMNS && sizes.dv <= MOST_COLUMNS &&
           sizes.s <= FAR / 4 && sizes.t <= FAR / 4;
}

/* In f64 the gradient stays on the cpu engine. */
static bool has_sdpa_grad(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    return zt_vk_is_float(input_types[Q]->dtype) && has_sdpa(engine, attrs, input_types, out);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void put_number(uint32_t *single_word, uint32_t *words, double value)
{
    const float single = (float)value;
    memcpy(single_word, &single, sizeof single);
    memcpy(words, &value, sizeof value);
}

static uint32_t bound_far(int64_t distance)
{
    return (uint32_t)(int32_t)(distance < -FAR ? -FAR : distance > FAR ? FAR : distance);
}

/* Elements from one batch, head and row to the next, of a value [b,H,n,cols] or [b,n,H,cols]. */
static void set_side(const zt_sdpa *sizes, int64_t head_count, int64_t row_count, int64_t columns, uint32_t *side)
{
    side[0] = (uint32_t)(head_count * row_count * columns);
    side[1] = (uint32_t)(sizes->bshd ? columns : row_count * columns);
    side[2] = (uint32_t)(sizes->bshd ? head_count * columns : columns);
}

static void set_mask(const zt_sdpa *sizes, const zt_type *mask, uint32_t *table)
{
    const int64_t full[] = {sizes->b, sizes->h, sizes->s, sizes->t};
    int64_t step = 1;
    if (!mask) return;
    table[MASK_KIND] = mask->dtype == ZT_BOOL ? 1 : 2;
    for (int axis = 1; axis <= mask->rank; axis++) {
        const int64_t size = mask->dim[mask->rank - axis];
        table[MASK_STEPS + 4 - axis] = size == full[4 - axis] && size != 1 ? (uint32_t)step : 0;
        step *= size;
    }
}

static zt_status set_table(zt_vk_engine *engine, zt_vk_call *call, const zt_sdpa *sizes, const zt_type *mask)
{
    const zt_sdpa_attrs *attrs = call->attrs;
    const int64_t right = attrs->causal ? 0 : attrs->right;
    call->table_words = TABLE_WORDS;
    uint32_t *table = call->table = zt_calloc(engine->base.ctx, TABLE_WORDS, sizeof *table);
    if (!table) return ZT_ENOMEM;
    table[HEADS] = (uint32_t)sizes->h;
    table[KEY_HEADS] = (uint32_t)sizes->g;
    table[QUERIES] = (uint32_t)sizes->s;
    table[KEYS] = (uint32_t)sizes->t;
    table[WIDTH] = (uint32_t)sizes->d;
    table[VALUE_WIDTH] = (uint32_t)sizes->dv;
    table[LOW] = bound_far(attrs->left < 0 ? -FAR : attrs->offset - attrs->left);
    table[HIGH] = bound_far(right < 0 ? FAR : attrs->offset + right);
    put_number(&table[SCALE], &table[SCALE_F64], zt_sdpa_scale(attrs, sizes));
    put_number(&table[SOFTCAP], &table[SOFTCAP_F64], attrs->softcap);
    table[FROM_END] = !strcmp(attrs->align.s, "end");
    set_mask(sizes, mask, table);
    set_side(sizes, sizes->h, sizes->s, sizes->d, table + SIDES);
    set_side(sizes, sizes->g, sizes->t, sizes->d, table + SIDES + 3);
    set_side(sizes, sizes->g, sizes->t, sizes->dv, table + SIDES + 6);
    set_side(sizes, sizes->h, sizes->s, sizes->dv, table + SIDES + 9);
    return ZT_OK;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* What an invocation has of `columns` columns: 16 apart, in steps so that few shaders are made. */
static uint32_t chunks_of(int64_t columns)
{
    uint32_t chunks = 4;
    while (chunks * ACROSS < columns) chunks *= 2;
    return chunks;
}

/* Rows of an invocation: a block of 4 times as many has at most the rows of a tile that the device's shared memory allows, so
 * that of long heads, whose columns fill the registers, it has few. */
static uint32_t rows_of(const zt_vk_engine *engine, const zt_vk_call *call, int64_t rows, int64_t columns)
{
    if (engine->lanes < LARGE_LANES || call->spec[ZT_VK_FLOATS] == ZT_VK_F64) return FEW;
    if (rows <= TILE / ROWS) return ONE;
    const int allowed = zt_vk_tile(engine->shared_bytes, columns);
    return allowed >= TILE ? ROWS : allowed >= TILE / 2 ? ROWS / 2 : FEW;
}

/* A workgroup a block of rows of a head. A row's bits do not depend on the size of its block. */
static void set_blocks(const zt_vk_engine *engine, zt_vk_call *call, int word, int64_t rows, int64_t columns, int64_t heads)
{
    const uint32_t rows_each = rows_of(engine, call, rows, columns);
    const int64_t block = (int64_t)(TILE / ROWS) * rows_each;
    call->spec[0] = rows_each;
    zt_vk_group_each(engine, call, word, (rows + block - 1) / block * heads);
}

static zt_status set_sdpa(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_sdpa sizes = zt_sdpa_sizes(call->attrs, call->in[Q], call->in[K], call->in[V]);
    zt_status status = set_table(engine, call, &sizes, call->in[3]);
    if (status) return status;
    call->shader = ZT_VK_SHADER_sdpa;
    call->spec[1] = chunks_of(sizes.dv);
    ZT_VK_ARGS(call, zt_vk_in(Q), zt_vk_in(K), zt_vk_in(V), zt_vk_in(3), zt_vk_out(0), zt_vk_table(0), zt_vk_in(4), zt_vk_out(1));
    set_blocks(engine, call, 2, sizes.s, sizes.dv, sizes.b * sizes.h);
    return ZT_OK;
}

/* Of queries, or of keys and values, into `out` and, of keys, `out` + 1. */
static void set_gradient(const zt_vk_engine *engine, zt_vk_call *call, const zt_sdpa *sizes, bool keys)
{
    const int64_t columns = keys && sizes->dv > sizes->d ? sizes->dv : sizes->d;
    call->shader = ZT_VK_SHADER_sdpa_grad;
    call->spec[1] = chunks_of(columns);
    call->spec[2] = keys;
    ZT_VK_ARGS(call, zt_vk_in(Q), zt_vk_in(K), zt_vk_in(V), zt_vk_in(DY), zt_vk_out(keys ? K : Q),
               keys ? zt_vk_out(V) : zt_vk_none(), zt_vk_in(MASK), zt_vk_in(LSE), zt_vk_in(DELTA), zt_vk_in(LEN), zt_vk_table(0));
    set_blocks(engine, call, 8, keys ? sizes->t : sizes->s, columns, sizes->b * (keys ? sizes->g : sizes->h));
}

static zt_status set_sdpa_grad(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_sdpa sizes = zt_sdpa_sizes(call->attrs, call->in[Q], call->in[K], call->in[V]);
    zt_status status = set_table(engine, call, &sizes, call->in[MASK]);
    if (!status && call->wanted[Q]) {
        set_gradient(engine, call, &sizes, false);
        status = zt_vk_then(engine, call);
    }
    if (!status && (call->wanted[K] || call->wanted[V])) set_gradient(engine, call, &sizes, true);
    return status;
}

const zt_vk_kernel zt_vk_sdpa[] = {
    {.op = ZT_OP_sdpa, .has = has_sdpa, .set = set_sdpa},
    {.op = ZT_OP_sdpa_grad, .has = has_sdpa_grad, .set = set_sdpa_grad},
    {0},
};
