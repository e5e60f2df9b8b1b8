/* kernels.c - which row runs an op, and how a row launches its kernels. */
#include "lib/engine/cuda/persistent_kernel.h"

#include <string.h>

#define X(name) _Static_assert((int)ZT_CU_##name == (int)ZT_##name, "the dtypes of args.h");
ZT_CU_DTYPES(X)
#undef X
_Static_assert((int)ZT_CU_DTYPE_COUNT == (int)ZT_DTYPE_COUNT, "the dtypes of args.h");

enum { ALIGN = 256 };

/* What stands for an address while sizing: not 0, which would mean that there is none. */
static const zt_cu_ptr somewhere = ALIGN;

/* ---- rows ------------------------------------------------------------------------------------ */

static const zt_cu_row *const families[] = {
#define X(f) zt_cu_##f,
    ZT_CU_FAMILIES(X)
#undef X
};

bool zt_cu_has_kernel(const zt_cu_engine *engine, const char *name)
{
    const zt_cu_platform *platform = engine->cu.platform;
    return !platform->has_kernel || platform->has_kernel(name);
}

/* Block types that the kernels do not decode (blocks.h): those of ik_llama.cpp. */
static bool is_undecoded(zt_dtype dtype) { return dtype >= ZT_IQ2_K && dtype <= ZT_IQ6_K; }

static bool decodes_inputs(zt_op op, const zt_type *const input_types[])
{
    bool good = true;
    for (int input = 0; input < zt_op_info(op)->n_in; input++)
        good = good && !(input_types[input] && is_undecoded(input_types[input]->dtype));
    return good;
}

/* Of a platform with kernels of its own: whether it has those that the row launches. They know no f64. */
static bool has_kernels(const zt_cu_engine *engine, const zt_cu_row *row, const void *attrs, const zt_type *const input_types[],
                        const zt_type output_types[])
{
    const zt_opinfo *info = zt_op_info(row->op);
    zt_cu_call call = {
        .engine = (zt_cu_engine *)(uintptr_t)engine, .op = row->op, .attrs = attrs, .sizing = true, .asking = true};
    bool good = true;
    if (!engine->cu.platform->has_kernel) return true;
    for (int input = 0; input < info->n_in; input++) {
        call.input_types[input] = input_types[input];
        call.inputs[input] = input_types[input] ? somewhere : 0;
        good = good && (!input_types[input] || input_types[input]->dtype != ZT_F64);
    }
    for (int output = 0; output < info->n_out; output++) {
        call.output_types[output] = &output_types[output];
        call.outputs[output] = somewhere;
        good = good && output_types[output].dtype != ZT_F64;
    }
    call.error = somewhere;
    good = good && row->emit(&call) == ZT_OK && !call.lacks;
    zt_free(engine->base.ctx, call.table);
    return good;
}

const zt_cu_row *zt_cu_find(const zt_cu_engine *engine, zt_op op, const void *attrs, const zt_type *const input_types[],
                            const zt_type output_types[])
{
    if (!attrs) attrs = zt_op_info(op)->defaults;
    for (size_t family = 0; family < sizeof families / sizeof families[0]; family++)
        for (const zt_cu_row *row = families[family]; row->emit; row++)
            if (row->op == op && decodes_inputs(op, input_types) && row->has(engine, attrs, input_types, output_types) &&
                has_kernels(engine, row, attrs, input_types, output_types))
                return row;
    return NULL;
}

bool zt_cu_always(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)op, (void)attrs, (void)in, (void)out;
    return true;
}

bool zt_cu_of_f32(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)op, (void)attrs, (void)out;
    return in[0]->dtype == ZT_F32;
}

bool zt_cu_is_float(zt_dtype dtype) { return dtype == ZT_F32 || dtype == ZT_F16 || dtype == ZT_BF16; }

bool zt_cu_has_shared(const zt_cu_engine *engine, size_t shared) { return shared + ZT_CU_SHARED_OWN <= engine->shared_optin; }

/* ---- kernels by name ------------------------------------------------------------------------- */

/* Images are loaded one after the other until one has the kernel. The emulation has one module. */
static zt_status load_next(zt_cu_engine *engine, bool *more)
{
    const void *image = engine->cu.emulated ? NULL : engine->cu.platform->images[engine->n_modules];
    *more = engine->n_modules < ZT_CU_MODULES && (engine->cu.emulated ? engine->n_modules == 0 : image != NULL);
    if (!*more) return ZT_OK;
    int result = engine->cu.ModuleLoadData(&engine->modules[engine->n_modules], image);
    if (result == ZT_CU_NO_BINARY)
        return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine %s: no kernels for %s with compute capability %d.%d",
                       engine->base.vt->name, engine->name, engine->major, engine->minor);
    zt_status status = zt_cu_try(engine, result, "ModuleLoadData");
    if (!status) engine->n_modules++;
    return status;
}

static zt_status find_function(zt_cu_engine *engine, const char *name, zt_cu_function *function)
{
    bool more = true;
    for (int module_index = 0; more; module_index++) {
        zt_status status = module_index < engine->n_modules ? ZT_OK : load_next(engine, &more);
        if (status) return status;
        if (!more) break;
        int result = engine->cu.ModuleGetFunction(function, engine->modules[module_index], name);
        if (result != ZT_CU_NOT_FOUND) return zt_cu_try(engine, result, "ModuleGetFunction");
    }
    return zt_fail(engine->base.ctx, ZT_EBUG, "engine %s: no kernel '%s'", engine->base.vt->name, name);
}

/* Its place in the table, or the free one where it belongs; NULL: the table is full. */
static zt_cu_known *place_of(zt_cu_engine *engine, const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *letter = name; *letter; letter++) hash = (hash ^ (uint8_t)*letter) * 16777619u;
    for (uint32_t i = 0; i < ZT_CU_KNOWN; i++) {
        zt_cu_known *k = &engine->known[(hash + i) % ZT_CU_KNOWN];
        if (!k->name || !strcmp(k->name, name)) return k;
    }
    return NULL;
}

zt_cu_function zt_cu_function_of(zt_cu_engine *engine, const char *name, size_t shared)
{
    zt_cu_known *k = place_of(engine, name);
    if (!k) {
        zt_fail(engine->base.ctx, ZT_EBUG, "engine %s: more than %d kernels", engine->base.vt->name, ZT_CU_KNOWN);
        return NULL;
    }
    if (!k->name) {
        zt_cu_function function = NULL;
        if (find_function(engine, name, &function)) return NULL;
        *k = (zt_cu_known){.name = name, .function = function, .shared = engine->shared - ZT_CU_SHARED_OWN};
    }
    if (shared > k->shared) { /* more than every kernel has, its own arrays counted, must be asked for */
        if (zt_cu_try(engine, engine->cu.FuncSetAttribute(k->function, ZT_CU_FUNC_DYNAMIC_SHARED, (int)shared),
                      "FuncSetAttribute"))
            return NULL;
        k->shared = shared;
    }
    return k->function;
}

void zt_cu_modules_close(zt_cu_engine *engine)
{
    for (int module_index = 0; module_index < engine->n_modules; module_index++)
        engine->cu.ModuleUnload(engine->modules[module_index]);
    engine->n_modules = 0;
}

/* ---- what a row's emit calls ----------------------------------------------------------------- */

static zt_status too_large(const zt_cu_call *call, const char *what)
{
    return zt_fail(call->engine->base.ctx, ZT_ENOTSUP, "engine %s: op %s: %s is too large", call->engine->base.vt->name,
                   zt_op_info(call->op)->name, what);
}

/* What of a launch is larger than the device takes, or NULL. */
static const char *find_excess(const zt_cu_engine *engine, zt_cu_dim grid, zt_cu_dim block, size_t shared, size_t bytes)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (bytes > ZT_CU_ARGS) return "what a kernel is given";
    if (!zt_cu_has_shared(engine, shared)) return "a block's shared memory";
    if (threads > (uint64_t)engine->max_threads) return "a block";
    if (grid.x > engine->max_grid[0] || grid.y > engine->max_grid[1] || grid.z > engine->max_grid[2]) return "a grid";
    return NULL;
}

zt_status zt_cu_launch(zt_cu_call *call, const char *name, zt_cu_dim grid, zt_cu_dim block, size_t shared, const void *args,
                       size_t bytes)
{
    zt_cu_engine *engine = call->engine;
    void *params[] = {(void *)(uintptr_t)args};
    void *extra[] = {&bytes}; /* a driver of its own is told how large the arguments are */
    const char *excess = call->sizing ? find_excess(engine, grid, block, shared, bytes) : NULL;
    if (call->asking) {
        call->lacks = call->lacks || excess || !zt_cu_has_kernel(engine, name);
        return ZT_OK;
    }
    if (!grid.x || !grid.y || !grid.z) return ZT_OK;
    zt_status status = excess ? too_large(call, excess) : ZT_OK;
    zt_cu_function function = status ? NULL : zt_cu_function_of(engine, name, shared);
    if (!function) return status ? status : zt_ctx_status(engine->base.ctx);
    call->launches++;
    bool taken = false;
    if (call->persistent && (status = zt_cu_persistent_kernel_take(call, name, grid, shared, args, bytes, &taken))) return status;
    if (call->sizing || taken) return ZT_OK;
    if (call->persistent) call->persistent->launches++;
    return zt_cu_try(engine,
                     engine->cu.LaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared,
                                             engine->stream, params, engine->cu.platform->load ? extra : NULL),
                     "LaunchKernel");
}

zt_status zt_cu_foreign(zt_cu_call *call, bool *goes)
{
    call->launches++;
    zt_status status = zt_cu_persistent_kernel_cut(call->engine, call->persistent);
    *goes = !status && !call->sizing;
    if (*goes && call->persistent) call->persistent->launches++;
    return status;
}

zt_cu_ptr zt_cu_scratch(zt_cu_call *call, size_t bytes)
{
    size_t offset = call->scratch_used;
    if (bytes > SIZE_MAX / 2 || offset > SIZE_MAX / 2) {
        too_large(call, "scratch");
        return 0;
    }
    call->scratch_used = offset + (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (call->scratch_used > call->scratch_bytes) call->scratch_bytes = call->scratch_used;
    return call->sizing && !call->persistent ? somewhere : call->scratch + offset;
}

zt_cu_ptr zt_cu_table(zt_cu_call *call, const void *host, size_t bytes)
{
    size_t offset = call->table_bytes, end = offset + (bytes + ALIGN - 1) / ALIGN * ALIGN;
    call->table_bytes = end;
    if (!call->sizing || call->persistent) return call->tables + offset;
    if (end > call->table_room) {
        size_t room = end > 2 * call->table_room ? end : 2 * call->table_room;
        uint8_t *more = zt_realloc(call->engine->base.ctx, call->table, room);
        if (!more) return 0;
        call->table = more;
        call->table_room = room;
    }
    memset(call->table + offset, 0, end - offset);
    if (bytes) memcpy(call->table + offset, host, bytes);
    return somewhere;
}

zt_status zt_cu_fill(zt_cu_call *call, zt_cu_ptr address, unsigned char value, size_t byte_count)
{
    zt_status status = byte_count ? zt_cu_persistent_kernel_cut(call->engine, call->persistent) : ZT_OK;
    if (call->sizing || byte_count == 0 || status) return status;
    return zt_cu_try(call->engine, call->engine->cu.MemsetD8Async(address, value, byte_count, call->engine->stream),
                     "MemsetD8Async");
}

zt_status zt_cu_move(zt_cu_call *call, zt_cu_ptr to, zt_cu_ptr from, size_t byte_count)
{
    if (byte_count == 0 || to == from) return ZT_OK;
    zt_status status = zt_cu_persistent_kernel_cut(call->engine, call->persistent);
    if (call->sizing || status) return status;
    return zt_cu_try(call->engine, call->engine->cu.MemcpyDtoDAsync(to, from, byte_count, call->engine->stream),
                     "MemcpyDtoDAsync");
}

zt_cu_dim zt_cu_grid(int64_t item_count, int64_t threads)
{
    int64_t blocks = item_count / threads + (item_count % threads > 0);
    return (zt_cu_dim){(unsigned)(blocks < UINT32_MAX ? blocks : UINT32_MAX), 1, 1};
}
