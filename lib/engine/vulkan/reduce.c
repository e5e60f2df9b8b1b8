/* reduce.c - folds over axes: which dimensions go, and in how many parts. All of it depends on shapes alone. */
#include "lib/engine/vulkan/reduce.h"

#include <string.h>

enum { GROUP = 64, WORDS_OF_DIMS = 8 /* behind them the words of a pass are full */ };

/* ---- dimensions ------------------------------------------------------------------------------ */

/* Of x, from the last: sizes and steps of those that stay, then of those that go; neighbours as one. */
typedef struct reduce_dims {
    int n_kept, n_gone;
    int64_t kept, gone; /* elements of each */
    uint32_t kept_dim[ZT_MAX_RANK][2], gone_dim[ZT_MAX_RANK][2];
} reduce_dims;

static void add_dim(int *count, uint32_t dim[][2], int64_t size, int64_t step)
{
    if (size == 1) return;
    if (*count && step == (int64_t)dim[*count - 1][0] * dim[*count - 1][1]) {
        dim[*count - 1][0] *= (uint32_t)size;
        return;
    }
    dim[*count][0] = (uint32_t)size;
    dim[(*count)++][1] = (uint32_t)step;
}

static reduce_dims dims_of(const zt_type *x, const bool *gone)
{
    reduce_dims dims = {.kept = 1, .gone = 1};
    int64_t step = 1;
    for (int axis = x->rank - 1; axis >= 0; step *= x->dim[axis--]) {
        if (gone[axis])
            add_dim(&dims.n_gone, dims.gone_dim, x->dim[axis], step);
        else
            add_dim(&dims.n_kept, dims.kept_dim, x->dim[axis], step);
        *(gone[axis] ? &dims.gone : &dims.kept) *= x->dim[axis];
    }
    return dims;
}

/* As words of the pass from number `word` on, or where there is no room in the step's table, which *list then is. */
static zt_status put_dims(zt_vk_engine *engine, zt_vk_call *call, const uint32_t *dims, size_t count, int word, zt_vk_arg *list)
{
    *list = zt_vk_none();
    if (word + (int)count <= (int)(sizeof call->word / sizeof call->word[0])) {
        memcpy(call->word + word, dims, count * sizeof *dims);
        return ZT_OK;
    }
    call->table = zt_alloc_array(engine->base.ctx, count, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    memcpy(call->table, dims, count * sizeof *dims);
    call->table_words = count;
    *list = zt_vk_table(0);
    return ZT_OK;
}

/* ---- folds ----------------------------------------------------------------------------------- */

bool zt_vk_folds(const zt_vk_engine *engine, zt_dtype dtype)
{
    return zt_vk_is_real(engine, dtype) || (dtype >= ZT_I64 && dtype <= ZT_U8);
}

static bool is_whole(zt_dtype dtype) { return dtype >= ZT_I64; }

/* A workgroup takes a row where what goes lies in a row; else an invocation does. */
static bool by_rows(const reduce_dims *dims) { return dims->gone >= 32 && dims->n_gone == 1 && dims->gone_dim[0][1] == 1; }

/* Of few long rows, or of very long ones, the entries of a part; else all. */
static int64_t part_of(const reduce_dims *dims)
{
    enum { PART_OF_ROW = 4096, PART_OF_COLUMN = 128, LONG_ROW = 1 << 20, LONG_COLUMN = 1 << 14, MOST_PARTS = 1 << 16 };
    const bool rows = by_rows(dims);
    const int64_t least = rows ? PART_OF_ROW : PART_OF_COLUMN, each = dims->gone / MOST_PARTS + 1;
    const bool few = rows ? dims->gone > 32768 && dims->kept < 512 : dims->gone > 512 && dims->kept < 65536;
    if (!few && dims->gone <= (rows ? LONG_ROW : LONG_COLUMN)) return dims->gone;
    return each > least ? each : least;
}

typedef struct fold_pass {
    zt_vk_fold fold;
    zt_dtype x_type, y_type;
    int64_t each; /* entries of a part */
    int64_t by;   /* what a sum is divided by */
} fold_pass;

static zt_status set_pass(zt_vk_engine *engine, zt_vk_call *call, const reduce_dims *dims, const fold_pass *pass, zt_vk_arg x,
                          zt_vk_arg y)
{
    bool integer = is_whole(pass->x_type), rows = by_rows(dims);
    int64_t parts = pass->each < dims->gone ? (dims->gone + pass->each - 1) / pass->each : 1, results = dims->kept * parts;
    uint32_t all[2 * ZT_MAX_RANK][2];
    zt_vk_arg list;
    call->shader = ZT_VK_SHADER_reduce;
    call->spec[0] = pass->fold;
    call->spec[1] = rows;
    call->spec[2] = integer;
    call->spec[ZT_VK_FLOATS] = zt_vk_floats(pass->x_type);
    call->word[1] = (uint32_t)parts;
    call->word[2] = (uint32_t)pass->each;
    call->word[3] = (uint32_t)dims->gone;
    call->word[4] = (uint32_t)pass->by;
    call->word[5] = pass->x_type;
    call->word[6] = integer ? (uint32_t)pass->y_type : zt_vk_floats(pass->y_type);
    call->word[7] = (uint32_t)dims->n_kept | (uint32_t)dims->n_gone << 8;
    memcpy(all, dims->kept_dim, (size_t)dims->n_kept * sizeof all[0]);
    memcpy(all + dims->n_kept, dims->gone_dim, (size_t)dims->n_gone * sizeof all[0]);
    zt_status status = put_dims(engine, call, all[0], 2 * (size_t)(dims->n_kept + dims->n_gone), WORDS_OF_DIMS, &list);
    call->word[0] = (uint32_t)results;
    zt_vk_spread(engine, call, results, rows ? 1 : GROUP);
    if (!status) ZT_VK_ARGS(call, x, y, list);
    return status;
}

zt_status zt_vk_set_reduce(zt_vk_engine *engine, zt_vk_call *call, zt_vk_fold fold, const zt_type *x, const bool *gone,
                           int64_t by)
{
    reduce_dims dims = dims_of(x, gone);
    fold_pass pass = {fold, x->dtype, x->dtype, part_of(&dims), by};
    int64_t parts = pass.each < dims.gone ? (dims.gone + pass.each - 1) / pass.each : 1;
    if (parts == 1) return set_pass(engine, call, &dims, &pass, zt_vk_in(0), zt_vk_out(0));
    zt_dtype wide = !is_whole(x->dtype) ? zt_vk_summed(x->dtype) : x->dtype == ZT_U64 ? ZT_U64 : ZT_I64;
    zt_vk_arg folded = zt_vk_scratch(call, (size_t)(dims.kept * parts) * (size_t)zt_dtype_get(wide)->block_bytes);
    pass.y_type = wide;
    pass.by = 1;
    zt_status status = set_pass(engine, call, &dims, &pass, zt_vk_in(0), folded);
    if (!status) status = zt_vk_then(engine, call);
    if (status) return status;
    const zt_type rows = zt_type_make(wide, 2, (int64_t[]){dims.kept, parts});
    reduce_dims rest = dims_of(&rows, (bool[]){false, true});
    return set_pass(engine, call, &rest, &(fold_pass){fold, wide, x->dtype, parts, by}, folded, zt_vk_out(0));
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool number_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_folds(engine, input_types[0]->dtype);
}

static bool float_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_is_real(engine, input_types[0]->dtype);
}

/* All reductions have the attributes of sum. Returns how many elements go into one. */
static int64_t mark_gone(const zt_ints *axes, const zt_type *x, bool *gone)
{
    int64_t count = 1;
    for (int axis = 0; axis < x->rank; axis++) gone[axis] = axes->n == 0;
    for (int64_t i = 0; i < axes->n; i++) gone[axes->v[i] < 0 ? axes->v[i] + x->rank : axes->v[i]] = true;
    for (int axis = 0; axis < x->rank; axis++)
        if (gone[axis]) count *= x->dim[axis];
    return count;
}

static zt_status set_fold(zt_vk_engine *engine, zt_vk_call *call, zt_vk_fold fold, bool mean)
{
    bool gone[ZT_MAX_RANK];
    int64_t count = mark_gone(&((const zt_sum_attrs *)call->attrs)->axes, call->in[0], gone);
    return zt_vk_set_reduce(engine, call, fold, call->in[0], gone, mean ? count : 1);
}

static zt_status set_sum(zt_vk_engine *engine, zt_vk_call *call) { return set_fold(engine, call, ZT_VK_SUM, false); }
static zt_status set_mean(zt_vk_engine *engine, zt_vk_call *call) { return set_fold(engine, call, ZT_VK_SUM, true); }
static zt_status set_prod(zt_vk_engine *engine, zt_vk_call *call) { return set_fold(engine, call, ZT_VK_PROD, false); }
static zt_status set_amax(zt_vk_engine *engine, zt_vk_call *call) { return set_fold(engine, call, ZT_VK_MAX, false); }
static zt_status set_amin(zt_vk_engine *engine, zt_vk_call *call) { return set_fold(engine, call, ZT_VK_MIN, false); }
static zt_status set_logsumexp(zt_vk_engine *engine, zt_vk_call *call) { return set_fold(engine, call, ZT_VK_LSE, false); }

static zt_status set_spread(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_spread_attrs *attrs = call->attrs;
    const zt_type *y = call->out;
    bool gone[ZT_MAX_RANK];
    int64_t times = mark_gone(&attrs->axes, y, gone), step = 1;
    uint32_t dims[ZT_MAX_RANK][2];
    int count = 0;
    for (int axis = y->rank - 1; axis >= 0; axis--) {
        if (y->dim[axis] == 1) continue;
        if (count && gone[axis] == (dims[count - 1][1] == 0)) { /* goes on from its neighbour */
            dims[count - 1][0] *= (uint32_t)y->dim[axis];
        } else {
            dims[count][0] = (uint32_t)y->dim[axis];
            dims[count++][1] = gone[axis] ? 0 : (uint32_t)step;
        }
        if (!gone[axis]) step *= y->dim[axis];
    }
    zt_vk_arg list;
    call->shader = ZT_VK_SHADER_reduce_spread;
    call->word[0] = (uint32_t)zt_type_count(y);
    call->word[1] = (uint32_t)(attrs->mean ? times : 1);
    call->word[2] = (uint32_t)count;
    zt_status status = put_dims(engine, call, dims[0], 2 * (size_t)count, 3, &list);
    zt_vk_spread(engine, call, zt_type_count(y), GROUP);
    if (!status) ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_out(0), list);
    return status;
}

const zt_vk_kernel zt_vk_reduce[] = {
    {.op = ZT_OP_sum, .has = number_has, .set = set_sum},
    {.op = ZT_OP_mean, .has = number_has, .set = set_mean},
    {.op = ZT_OP_prod, .has = number_has, .set = set_prod},
    {.op = ZT_OP_amax, .has = number_has, .set = set_amax, .contract = zt_vk_always},
    {.op = ZT_OP_amin, .has = number_has, .set = set_amin, .contract = zt_vk_always},
    {.op = ZT_OP_logsumexp, .has = float_has, .set = set_logsumexp},
    {.op = ZT_OP_spread, .has = float_has, .set = set_spread},
    {0},
};
