/* persistent_kernel.c - launches of a schedule that become stages of one launch: which kernels may,
 * which of them the product that reads their result computes itself (folding), and the launch. */
#include "lib/engine/cuda/persistent_kernel.h"

#include <string.h>

enum { WORD = 256, THREADS = 256, LEAST_SHARED = 4096, MOST_JOINED = 16 };

_Static_assert(sizeof(zt_cu_stage) % 8 == 0, "stages are copied by eight bytes");
_Static_assert(LEAST_SHARED >= ZT_CU_PAIRS * 2 * sizeof(float), "turns of a row");

/* Graphs have cooperative launches since CUDA 12. */
bool zt_cu_persistent_kernel_fits(const zt_cu_engine *engine) { return engine->cooperative && engine->cu.version >= 12000; }

/* ---- stages ---------------------------------------------------------------------------------- */

/* A kernel that may be a stage; fits: are the arguments of a launch those of decoding, few rows. */
typedef struct stage_kind {
    const char *kernel;
    int stage;
    bool (*fits)(const void *args);
    size_t bytes;
} stage_kind;

static bool norms_fit(const void *args)
{
    const zt_cu_norm_args *norm = args;
    return norm->rows <= 2 * ZT_CU_DECODE_ROWS;
}
static bool gates_fit(const void *args)
{
    const zt_cu_gate_args *gate = args;
    return gate->type == ZT_CU_F32 && gate->n <= ZT_CU_DECODE_ROWS * 65536;
}
static bool rope_kv_writes_fit(const void *args) { return ((const zt_cu_rope_kv_write_args *)args)->n <= ZT_CU_DECODE_ROWS; }
static bool rows_fit(const void *args) { return ((const zt_cu_decode_args *)args)->a.n <= ZT_CU_DECODE_ROWS; }

static bool row_reads_fit(const void *args) { return ((const zt_cu_rows_args *)args)->n <= ZT_CU_DECODE_ROWS; }

static bool heads_fit(const void *args) { return ((const zt_cu_attention_args *)args)->n <= ZT_CU_DECODE_ROWS; }

static const stage_kind kinds[] = {
    {"zt_norm_f32", ZT_CU_STAGE_NORM, norms_fit, sizeof(zt_cu_norm_args)},
    {"zt_gate", ZT_CU_STAGE_GATE, gates_fit, sizeof(zt_cu_gate_args)},
    {"zt_rows", ZT_CU_STAGE_ROWS, row_reads_fit, sizeof(zt_cu_rows_args)},
    {"zt_rows_packed", ZT_CU_STAGE_ROWS_PACKED, row_reads_fit, sizeof(zt_cu_rows_args)},
    {"zt_rope_kv_write", ZT_CU_STAGE_ROPE_KV_WRITE, rope_kv_writes_fit, sizeof(zt_cu_rope_kv_write_args)},
#define X(D) {"zt_attention_decode_" #D, ZT_CU_STAGE_ATTENTION_##D, heads_fit, sizeof(zt_cu_attention_args)},
    X(64) X(128) X(256)
#undef X
        {"zt_attention_join", ZT_CU_STAGE_JOIN, heads_fit, sizeof(zt_cu_attention_args)},
#define X(type) {"zt_decode_" #type, ZT_CU_STAGE_DECODE_##type, rows_fit, sizeof(zt_cu_decode_args)},
    ZT_CU_PACKED_TYPES(X) X(f32) X(pair) X(bf16) X(half)
#undef X
};

static const stage_kind *kind_of(const char *kernel, const void *args, size_t bytes)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].kernel, kernel)) return kinds[i].bytes == bytes && kinds[i].fits(args) ? &kinds[i] : NULL;
    return NULL;
}

/* ---- what a product makes itself ------------------------------------------------------------- */

typedef struct byte_range {
    zt_cu_ptr address;
    int64_t bytes;
} byte_range;

static bool ranges_overlap(const byte_range *first, int first_count, const byte_range *second, int second_count)
{
    for (int i = 0; i < first_count; i++)
        for (int j = 0; j < second_count; j++)
            if (first[i].address && second[j].address && first[i].address < second[j].address + (zt_cu_ptr)second[j].bytes &&
                second[j].address < first[i].address + (zt_cu_ptr)first[i].bytes)
                return true;
    return false;
}

/* A product that computes its x itself (folding) reads what x is computed from in all blocks, and there is
 * no barrier before the writes. So these ranges of memory must not overlap:
 *
 *     from      what x is computed from       read by every block
 *     outputs   the product's outputs         written while other blocks still read `from`
 *     left      what the folded kernel wrote  written by one block, at the same time
 *     more      the residual that is added    read while `left` is written
 */
static bool is_apart(const zt_cu_decode_args *args, const byte_range from[3], const byte_range left[3])
{
    const int64_t row_count = args->a.n, element_bytes = args->a.y_type == ZT_CU_F32 ? 4 : 2;
    byte_range outputs[ZT_CU_PRODUCTS], more = {0};
    for (int product_index = 0; product_index < ZT_CU_PRODUCTS; product_index++)
        outputs[product_index] =
            (byte_range){args->a.product[product_index].y, row_count * args->a.product[product_index].M * element_bytes};
    if (args->a.after == ZT_CU_AFTER_ADD) more = (byte_range){args->a.residual, row_count * args->a.product[0].M * element_bytes};
    return !ranges_overlap(outputs, ZT_CU_PRODUCTS, from, 3) && !ranges_overlap(left, 3, from, 3) &&
           !ranges_overlap(left, 3, outputs, ZT_CU_PRODUCTS) && !ranges_overlap(left, 3, &more, 1);
}

static bool folds_norm(const zt_cu_norm_args *norm, zt_cu_decode_args *args)
{
    const int64_t bytes = norm->rows * norm->K * 4;
    const byte_range from[3] = {{norm->x, bytes}, {norm->before, bytes}, {norm->after, bytes}};
    const byte_range left[3] = {{norm->y, bytes}, {norm->sum, bytes}, {norm->rstd, norm->rows * 4}};
    if (norm->y != args->a.x || norm->rows != args->a.n || norm->K != args->a.K || !is_apart(args, from, left)) return false;
    args->from = ZT_CU_OF_NORM;
    args->of.norm = *norm;
    return true;
}

static bool folds_gate(const zt_cu_gate_args *gate, zt_cu_decode_args *args)
{
    const int64_t bytes = gate->n * 4;
    const byte_range from[3] = {{gate->g, bytes}, {gate->u, bytes}, {0}}, left[3] = {{gate->y, bytes}, {0}, {0}};
    if (gate->y != args->a.x || gate->n != args->a.n * args->a.K || !is_apart(args, from, left)) return false;
    args->from = ZT_CU_OF_GATE;
    args->of.gate = *gate;
    return true;
}

/* Every block joins all heads: worth it while there are few splits. */
static bool folds_join(const zt_cu_attention_args *attention, zt_cu_decode_args *decode)
{
    const int64_t rows = attention->n * attention->H * 4;
    const byte_range from[3] = {{attention->parts, rows * attention->splits * (attention->D + 2)}, {0}, {0}};
    const byte_range left[3] = {{attention->y, rows * attention->D}, {0}, {0}};
    if (attention->y != decode->a.x || attention->n != decode->a.n || attention->H * attention->D != decode->a.K ||
        attention->D % 4 != 0 || attention->splits > MOST_JOINED || !is_apart(decode, from, left))
        return false;
    decode->from = ZT_CU_OF_JOIN;
    decode->of.join = *attention;
    return true;
}

/* Is x of the product what stage `s` makes? Then it makes it itself. */
static bool folds_stage(const zt_cu_stage *stage, zt_cu_decode_args *args)
{
    if (stage->blocks == 0 || args->a.x_type != ZT_CU_F32) return false;
    return stage->kind == ZT_CU_STAGE_NORM   ? folds_norm(&stage->of.norm, args)
           : stage->kind == ZT_CU_STAGE_GATE ? folds_gate(&stage->of.gate, args)
           : stage->kind == ZT_CU_STAGE_JOIN ? folds_join(&stage->of.attention, args)
                                             : false;
}

/* ---- writing down ---------------------------------------------------------------------------- */

static void *grow_array(zt_cu_engine *engine, void *array, int count, int *capacity, size_t element_bytes)
{
    if (count < *capacity) return array;
    int more = *capacity ? 2 * *capacity : 64;
    void *fresh = zt_realloc(engine->base.ctx, array, (size_t)more * element_bytes);
    if (fresh) *capacity = more;
    return fresh;
}

static zt_status open_run(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel)
{
    if (kernel->run_open) return ZT_OK;
    zt_cu_persistent_kernel_run *run = grow_array(engine, kernel->runs, kernel->current_run, &kernel->run_capacity, sizeof *run);
    if (!run) return ZT_ENOMEM;
    kernel->runs = run;
    if (!kernel->captures) {
        kernel->runs[kernel->current_run] = (zt_cu_persistent_kernel_run){.first = kernel->n_stages, .shared = LEAST_SHARED};
        kernel->n_runs = kernel->current_run + 1;
    }
    kernel->run_open = true;
    kernel->unsynced = kernel->n_stages;
    kernel->foldable_stage = -1;
    kernel->folded.blocks = 0;
    return ZT_OK;
}

/* The stage goes behind the others; one that does not wait goes on where they left off. */
static zt_status append_stage(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel, zt_cu_stage *stage, size_t shared)
{
    zt_cu_stage *all = grow_array(engine, kernel->stages, kernel->n_stages, &kernel->stage_capacity, sizeof *all);
    if (!all) return ZT_ENOMEM;
    kernel->stages = all;
    zt_cu_persistent_kernel_run *run = &kernel->runs[kernel->current_run];
    if (stage->waits) kernel->unsynced = kernel->n_stages;
    stage->skew = 0;
    for (int stage_index = kernel->unsynced; stage_index < kernel->n_stages; stage_index++)
        stage->skew += all[stage_index].blocks;
    all[kernel->n_stages++] = *stage;
    run->stage_count = kernel->n_stages - run->first;
    if (stage->skew + stage->blocks > run->blocks) run->blocks = stage->skew + stage->blocks;
    if (shared > run->shared) run->shared = shared;
    return ZT_OK;
}

/* A product: of what the stage before it makes it takes the place. */
static zt_status put_product(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel, zt_cu_stage *stage, size_t shared,
                             bool beside)
{
    zt_cu_decode_args *args = &stage->of.decode;
    if (kernel->foldable_stage >= 0 && folds_stage(&kernel->stages[kernel->foldable_stage], args)) {
        kernel->folded = kernel->stages[kernel->foldable_stage];
        stage->waits = kernel->folded.waits;
        kernel->n_stages = kernel->foldable_stage;
        args->tells = 1;
    } else if (beside && folds_stage(&kernel->folded, args)) {
        stage->waits = 0;
    } else {
        stage->waits = !beside || kernel->folded.blocks > 0;
        kernel->folded.blocks = 0;
    }
    kernel->foldable_stage = -1;
    return append_stage(engine, kernel, stage, shared);
}

static zt_status put_stage(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel, const stage_kind *kind, zt_cu_dim grid,
                           size_t shared, const void *args, bool beside)
{
    zt_cu_stage stage = {.kind = kind->stage, .waits = 1, .across = (int32_t)grid.x, .up = (int32_t)grid.y};
    stage.blocks = (int32_t)(grid.x * grid.y * grid.z);
    memcpy(&stage.of, args, kind->bytes);
    if (kind->stage >= ZT_CU_STAGE_DECODE_q4_0) return put_product(engine, kernel, &stage, shared, beside);
    kernel->folded.blocks = 0;
    kernel->foldable_stage = kernel->n_stages;
    return append_stage(engine, kernel, &stage, shared);
}

/* ---- the passes ------------------------------------------------------------------------------ */

void zt_cu_persistent_kernel_begin(zt_cu_persistent_kernel *kernel, bool captures)
{
    kernel->captures = captures;
    kernel->n_stages = kernel->current_run = 0;
    if (!captures) kernel->n_runs = 0;
    kernel->run_open = false;
    kernel->launches = 0;
}

zt_status zt_cu_persistent_kernel_take(zt_cu_call *call, const char *name, zt_cu_dim grid, size_t shared, const void *args,
                                       size_t bytes, bool *taken)
{
    zt_cu_persistent_kernel *kernel = call->persistent;
    const stage_kind *kind = kind_of(name, args, bytes);
    *taken = false;
    if (!kind) return zt_cu_persistent_kernel_cut(call->engine, kernel);
    zt_status status = open_run(call->engine, kernel);
    if (!status) status = put_stage(call->engine, kernel, kind, grid, shared, args, call->beside);
    if (status) return status;
    if (!kernel->captures) kernel->runs[kernel->current_run].launches++;
    *taken = kernel->runs[kernel->current_run].launches >= ZT_CU_MIN_RUN;
    return ZT_OK;
}

static zt_status launch_run(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel, const zt_cu_persistent_kernel_run *run)
{
    zt_cu_persistent_kernel_args args = {.stages = kernel->memory.address + WORD + (zt_cu_ptr)run->first * sizeof(zt_cu_stage),
                                         .word = kernel->memory.address,
                                         .n = run->stage_count};
    void *params[] = {&args};
    int each = 0;
    zt_cu_function function = zt_cu_function_of(engine, "zt_persistent_kernel", run->shared);
    if (!function) return zt_ctx_status(engine->base.ctx);
    zt_status status = zt_cu_try(engine, engine->cu.OccupancyMaxBlocks(&each, function, THREADS, run->shared),
                                 "OccupancyMaxActiveBlocksPerMultiprocessor");
    int most = each * engine->processors, blocks = run->blocks < most ? run->blocks : most;
    if (!status && blocks < 1)
        return zt_fail(engine->base.ctx, ZT_EBUG, "engine cuda: zt_persistent_kernel does not fit on the device");
    kernel->launches++;
    if (status) return status;
    return zt_cu_try(engine,
                     engine->cu.LaunchCooperativeKernel(function, (unsigned)blocks, 1, 1, THREADS, 1, 1, (unsigned)run->shared,
                                                        engine->stream, params),
                     "LaunchCooperativeKernel");
}

zt_status zt_cu_persistent_kernel_cut(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel)
{
    if (!kernel || !kernel->run_open) return ZT_OK;
    const zt_cu_persistent_kernel_run *run = &kernel->runs[kernel->current_run++];
    kernel->run_open = false;
    return kernel->captures && run->launches >= ZT_CU_MIN_RUN ? launch_run(engine, kernel, run) : ZT_OK;
}

zt_status zt_cu_persistent_kernel_send(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel)
{
    size_t bytes = (size_t)kernel->n_stages * sizeof *kernel->stages, whole = WORD + bytes;
    if (kernel->n_stages == 0) return ZT_OK;
    if (kernel->memory.bytes < whole) zt_cu_release(engine, &kernel->memory);
    zt_status status = kernel->memory.address ? ZT_OK : zt_cu_alloc(engine, ZT_CU_DEVICE_MEM, whole, &kernel->memory);
    if (!status) status = zt_cu_clear(engine, kernel->memory.address, WORD);
    return status ? status : zt_cu_write(engine, kernel->memory.address + WORD, kernel->stages, bytes);
}

void zt_cu_persistent_kernel_free(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel)
{
    zt_free(engine->base.ctx, kernel->stages);
    zt_free(engine->base.ctx, kernel->runs);
    zt_cu_release(engine, &kernel->memory);
    *kernel = (zt_cu_persistent_kernel){0};
}
