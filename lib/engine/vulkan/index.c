/* index.c - ops at places that are data: rows, parts, elements. Sums of 16-bit floats are kept in f32 until the last one.
 *
 * What comes to one place comes in the order of the indices, whatever the device: one invocation sees to all that comes to
 * a place.
 */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum {
    GROUP = 64,
    MOST_BUCKETS = 64,
    ITEMS_WANTED = 65536,
    TUPLES = 4096,  /* that a pass scatters of a batch: shaders/index_parts.comp */
    INDICES = 32768 /* and of a line: shaders/index_elements.comp */
};

/* Flags of shaders/merge.glsl, and how elements are merged. */
enum { FAILS = 1 << 8, WIDE_INDEX = 1 << 9, TYPE_SHIFT = 10, MERGE_SHIFT = 15, NARROWS = 1 << 18, BUCKET_SHIFT = 20 };
typedef enum zt_vk_merge { PUT, ADD, TIMES, LARGER, SMALLER } zt_vk_merge;

static bool is_plain(zt_dtype dtype) { return zt_dtype_get(dtype)->block == 1; }

static bool is_index(zt_dtype dtype) { return dtype == ZT_I32 || dtype == ZT_I64; }

static uint32_t flags_of(const zt_type *x, const zt_type *index, const zt_enum_string *oob)
{
    return (oob->s[0] == 'e' ? FAILS : 0) | (index->dtype == ZT_I64 ? WIDE_INDEX : 0) | (uint32_t)x->dtype << TYPE_SHIFT;
}

static zt_vk_merge merge_of(const zt_enum_string *reduction)
{
    static const char *const words[] = {"none", "add", "mul", "max", "min"};
    int merge = 0;
    while (merge < SMALLER && strcmp(reduction->s, words[merge])) merge++;
    return (zt_vk_merge)merge;
}

/* Can elements of the type come together so: put there, any; else floats of 16 bits and more, and integers. */
static bool merges(const zt_vk_engine *engine, zt_dtype dtype, zt_vk_merge merge)
{
    return merge == PUT ? is_plain(dtype) : zt_vk_is_real(engine, dtype) || (dtype >= ZT_I64 && dtype <= ZT_U8);
}

/* ---- what is merged into --------------------------------------------------------------------- */

/* The output, or of 16-bit floats that are merged an f32 copy of it. */
typedef struct scatter_target {
    zt_vk_arg place;
    bool apart;
} scatter_target;

/* x's elements are there from the start. */
static zt_status open_target(zt_vk_engine *engine, zt_vk_call *call, zt_vk_merge merge, scatter_target *target)
{
    const zt_type *x = call->in[0];
    target->apart = merge != PUT && (x->dtype == ZT_F16 || x->dtype == ZT_BF16);
    target->place = zt_vk_out(0);
    if (!target->apart) return zt_vk_copy(call, zt_vk_out(0), zt_vk_in(0), zt_type_bytes(x));
    target->place = zt_vk_scratch(call, (size_t)zt_type_count(x) * sizeof(float));
    zt_status status = zt_vk_set_cast(engine, call, zt_type_count(call->in[0]), zt_vk_in(0), x->dtype, target->place, ZT_F32);
    return status ? status : zt_vk_then(engine, call);
}

/* Ends the pass that merges. */
static zt_status close_target(zt_vk_engine *engine, zt_vk_call *call, const scatter_target *target)
{
    if (!target->apart) return ZT_OK;
    zt_status status = zt_vk_then(engine, call);
    return status ? status
                  : zt_vk_set_cast(engine, call, zt_type_count(call->in[0]), target->place, ZT_F32, zt_vk_out(0),
                                   call->in[0]->dtype);
}

/* ---- parts at tuples ------------------------------------------------------------------------- */

typedef struct index_parts {
    int64_t tuples, per_batch, batches, rest; /* rest: elements of a part */
} index_parts;

/* Tuples of `count` indices, behind `batch` dimensions that x and the indices share; the words of a pass. */
static index_parts put_parts(zt_vk_call *call, int64_t batch, int64_t count, const zt_enum_string *oob)
{
    const zt_type *x = call->in[0], *index = call->in[1];
    index_parts parts = {.tuples = count ? zt_type_count(index) / count : 0, .batches = 1, .rest = 1};
    int64_t span = 1;
    for (int axis = 0; axis < batch; axis++) parts.batches *= index->dim[axis];
    for (int axis = (int)batch; axis < x->rank; axis++) {
        span *= x->dim[axis];
        if (axis < batch + count)
            call->word[6 + axis - batch] = (uint32_t)x->dim[axis];
        else
            parts.rest *= x->dim[axis];
    }
    if (!count) { /* a tuple of nothing is a whole batch */
        parts.tuples = 1;
        for (int axis = 0; axis + 1 < index->rank; axis++) parts.tuples *= index->dim[axis];
    }
    parts.per_batch = parts.batches ? parts.tuples / parts.batches : 0;
    call->shader = ZT_VK_SHADER_index_parts;
    call->word[1] = (uint32_t)parts.tuples;
    call->word[2] = (uint32_t)parts.rest;
    call->word[3] = (uint32_t)parts.per_batch;
    call->word[4] = (uint32_t)span;
    call->word[5] = (uint32_t)count | flags_of(x, index, oob);
    return parts;
}

static zt_status set_gather_parts(zt_vk_engine *engine, zt_vk_call *call, const index_parts *parts)
{

    int64_t items = parts->tuples * (parts->rest ? parts->rest : 1);
    call->word[0] = (uint32_t)items;
    zt_vk_spread(engine, call, items, GROUP);
    return ZT_OK;
}

/* Few elements a part: more buckets, so that the device is full. */
static zt_status set_scatter_parts(zt_vk_engine *engine, zt_vk_call *call, int64_t batch, int64_t count,
                                   const zt_enum_string *oob, zt_vk_merge merge)
{
    scatter_target target;
    zt_status status = open_target(engine, call, merge, &target);
    if (status) return status;
    for (int64_t from = 0, per_batch = 1; from < per_batch && !status; from += TUPLES) {
        index_parts parts = put_parts(call, batch, count, oob);
        int64_t wide = parts.rest ? parts.rest : 1, buckets = 1;
        per_batch = parts.per_batch;
        while (buckets < MOST_BUCKETS && buckets * wide * parts.batches < ITEMS_WANTED && buckets < parts.tuples) buckets *= 2;
        call->spec[0] = 1;
        call->word[0] = (uint32_t)(wide * buckets * parts.batches);
        call->word[1] = (uint32_t)from;
        call->word[5] |= (uint32_t)merge << MERGE_SHIFT | (uint32_t)buckets << BUCKET_SHIFT;
        zt_vk_spread(engine, call, wide * buckets * parts.batches, GROUP);
        ZT_VK_ARGS(call, zt_vk_none(), zt_vk_in(1), zt_vk_in(2), target.place);
        if (from + TUPLES < per_batch) status = zt_vk_then(engine, call);
    }
    if (status) return status;
    return close_target(engine, call, &target);
}

static bool scatter_add_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                            const zt_type out[])
{
    (void)attrs, (void)out;
    return merges(engine, input_types[0]->dtype, ADD) && is_index(input_types[1]->dtype);
}

static zt_status set_scatter_add(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_scatter_parts(engine, call, 0, 1, &((const zt_scatter_add_attrs *)call->attrs)->oob, ADD);
}

static int64_t tuple_of(const zt_type *index) { return index->dim[index->rank - 1]; }

static bool gather_nd_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return is_plain(input_types[0]->dtype) && is_index(input_types[1]->dtype);
}

static zt_status set_gather_nd(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_gather_nd_attrs *attrs = call->attrs;
    index_parts parts = put_parts(call, attrs->batch, tuple_of(call->in[1]), &attrs->oob);
    return set_gather_parts(engine, call, &parts);
}

static bool scatter_nd_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)out;
    return merges(engine, input_types[0]->dtype, merge_of(&((const zt_scatter_nd_attrs *)attrs)->reduction)) &&
           is_index(input_types[1]->dtype);
}

static zt_status set_scatter_nd(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_scatter_nd_attrs *attrs = call->attrs;
    return set_scatter_parts(engine, call, attrs->batch, tuple_of(call->in[1]), &attrs->oob, merge_of(&attrs->reduction));
}

/* ---- elements along an axis ------------------------------------------------------------------ */

/* The words of a pass, where there is no room in the step's table. Returns how many lines there are. */
static zt_status put_elements(zt_vk_engine *engine, zt_vk_call *call, int64_t axis, const zt_enum_string *oob, int64_t *lines,
                              zt_vk_arg *list)
{
    enum { IN_WORDS = 3 };
    const zt_type *x = call->in[0], *index = call->in[1];
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    uint32_t dims[ZT_MAX_RANK][3], count = 0;
    int64_t i_step = 1, x_step = 1;
    *lines = 1;
    *list = zt_vk_none();
    for (int k = x->rank - 1; k >= 0; i_step *= index->dim[k], x_step *= x->dim[k--]) {
        if (k == at) {
            call->word[3] = (uint32_t)i_step;
            call->word[4] = (uint32_t)x_step;
            continue;
        }
        const uint32_t dim[] = {(uint32_t)index->dim[k], (uint32_t)i_step, (uint32_t)x_step};
        memcpy(dims[count++], dim, sizeof dim);
        *lines *= index->dim[k];
    }
    call->shader = ZT_VK_SHADER_index_elements;
    call->word[1] = (uint32_t)index->dim[at];
    call->word[2] = (uint32_t)x->dim[at];
    call->word[5] = count | flags_of(x, index, oob);
    if (count <= IN_WORDS) {
        memcpy(call->word + 6, dims, count * sizeof dims[0]);
        return ZT_OK;
    }
    if (!call->table) call->table = zt_alloc_array(engine->base.ctx, (size_t)3 * count, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    memcpy(call->table, dims, count * sizeof dims[0]);
    call->table_words = (size_t)3 * count;
    *list = zt_vk_table(0);
    return ZT_OK;
}

static zt_status set_gather_elements(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_gather_elements_attrs *attrs = call->attrs;
    int64_t lines, items = zt_type_count(call->in[1]);
    zt_vk_arg list;
    zt_status status = put_elements(engine, call, attrs->axis, &attrs->oob, &lines, &list);
    call->word[0] = (uint32_t)items;
    zt_vk_spread(engine, call, items, GROUP);
    if (!status) ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_out(0), list);
    return status;
}

static zt_status scatter_elements(zt_vk_engine *engine, zt_vk_call *call, int64_t axis, const zt_enum_string *oob,
                                  zt_vk_merge merge)
{
    scatter_target target;
    int64_t lines;
    zt_vk_arg list;
    zt_status status = open_target(engine, call, merge, &target);
    for (int64_t from = 0, of_line = 1; from < of_line && !status; from += INDICES) {
        status = put_elements(engine, call, axis, oob, &lines, &list);
        if (status) return status;
        of_line = call->word[1];
        call->spec[0] = 1;
        call->word[0] = (uint32_t)lines;
        call->word[5] |= (uint32_t)merge << MERGE_SHIFT;
        call->word[15] = (uint32_t)from;
        zt_vk_spread(engine, call, lines, GROUP);
        ZT_VK_ARGS(call, zt_vk_none(), zt_vk_in(1), zt_vk_in(2), target.place, list);
        if (from + INDICES < of_line) status = zt_vk_then(engine, call);
    }
    if (status) return status;
    return close_target(engine, call, &target);
}

static zt_status set_scatter_add_elements(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_scatter_add_elements_attrs *attrs = call->attrs;
    return scatter_elements(engine, call, attrs->axis, &attrs->oob, ADD);
}

static bool scatter_elements_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                                 const zt_type out[])
{
    (void)out;
    return merges(engine, input_types[0]->dtype, merge_of(&((const zt_scatter_elements_attrs *)attrs)->reduction)) &&
           is_index(input_types[1]->dtype);
}

static zt_status set_scatter_elements(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_scatter_elements_attrs *attrs = call->attrs;
    return scatter_elements(engine, call, attrs->axis, &attrs->oob, merge_of(&attrs->reduction));
}

/* ---- one_hot --------------------------------------------------------------------------------- */

static bool one_hot_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return is_index(input_types[0]->dtype);
}

static zt_status set_one_hot(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_one_hot_attrs *attrs = call->attrs;
    int64_t count = zt_type_count(call->in[0]);
    call->shader = ZT_VK_SHADER_index_one_hot;
    call->word[0] = (uint32_t)count;
    call->word[1] = (uint32_t)attrs->depth;
    call->word[5] = flags_of(call->in[0], call->in[0], &attrs->oob);
    zt_vk_spread(engine, call, count * (attrs->depth ? attrs->depth : 1), GROUP);
    return ZT_OK;
}

/* ---- rows of a matrix ------------------------------------------------------------------------ */

static bool gather_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return zt_vk_pack_of(input_types[0]->dtype) && is_index(input_types[1]->dtype);
}

static zt_status set_gather(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_gather_attrs *attrs = call->attrs;
    int64_t rows = zt_type_count(call->in[1]), K = call->in[0]->dim[1], most = engine->groups[1];
    call->shader = ZT_VK_SHADER_index_gather;
    call->spec[0] = (uint32_t)call->packed[0];
    call->spec[3] = call->plain[0];
    call->word[0] = (uint32_t)rows;
    call->word[1] = (uint32_t)K;
    call->word[2] = (uint32_t)call->in[0]->dim[0];
    call->word[3] = attrs->oob.s[0] == 'e';
    call->word[4] = call->in[1]->dtype == ZT_I64;
    call->groups[0] = K ? (uint32_t)((K + 32 * 32 - 1) / (32 * 32)) : 1;
    call->groups[1] = (uint32_t)(rows < most ? rows : most);
    call->groups[2] = (uint32_t)((rows + most - 1) / most);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_out(0), zt_vk_none(), zt_vk_none(), zt_vk_grid(call, 0));
    return zt_vk_put_grids(engine, call);
}

/* Integers, and f64 to f32. */
static bool gather_plain_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                             const zt_type out[])
{
    (void)engine, (void)attrs;
    return is_index(input_types[1]->dtype) && (input_types[0]->dtype == ZT_F64 || input_types[0]->dtype == out[0].dtype);
}

static zt_status set_gather_plain(zt_vk_engine *engine, zt_vk_call *call)
{
    index_parts parts = put_parts(call, 0, 1, &((const zt_gather_attrs *)call->attrs)->oob);
    if (call->in[0]->dtype != call->out->dtype) call->word[5] |= NARROWS;
    return set_gather_parts(engine, call, &parts);
}

const zt_vk_kernel zt_vk_index[] = {
    {.op = ZT_OP_gather, .has = gather_has, .set = set_gather, .contract = zt_vk_always, .weights = 1u << 0},
    {.op = ZT_OP_gather, .has = gather_plain_has, .set = set_gather_plain, .contract = zt_vk_always},
    {.op = ZT_OP_scatter_add, .has = scatter_add_has, .set = set_scatter_add},
    {.op = ZT_OP_gather_elements, .has = gather_nd_has, .set = set_gather_elements, .contract = zt_vk_always},
    {.op = ZT_OP_scatter_add_elements, .has = scatter_add_has, .set = set_scatter_add_elements},
    {.op = ZT_OP_scatter_elements, .has = scatter_elements_has, .set = set_scatter_elements},
    {.op = ZT_OP_gather_nd, .has = gather_nd_has, .set = set_gather_nd, .contract = zt_vk_always},
    {.op = ZT_OP_scatter_nd, .has = scatter_nd_has, .set = set_scatter_nd},
    {.op = ZT_OP_one_hot, .has = one_hot_has, .set = set_one_hot, .contract = zt_vk_always},
    {0},
};
