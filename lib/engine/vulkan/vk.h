/* vk.h - private to lib/engine/vulkan: the loader, the device, its memory, pipelines and kernels.
 *
 * Files: loader.c the library by dlopen, adapters.c which there are, device.c one made ready,
 * memory.c buffers and the pool, copies.c to and from them, work.c what is handed over, weights.c
 * how weights are packed, grids.c what some types read beside them, kernels.c which kernel runs an op, with a file for each family of ops
 * (elementwise.c, linear.c, norm.c, ...), pipeline.c shaders, module.c the one that is written here, cache.c what the driver
 * made of them, prepare.c from a schedule to tasks, passes.c the tasks of a kernel, record.c from tasks to commands, replay.c running
 * them, vulkan.c the vtable.
 *
 * Shaders find operands by device address (Vulkan 1.2, bufferDeviceAddress), so that no buffer is
 * too large for a binding and a step is a push of addresses and words.
 */
#ifndef ZT_VK_H
#define ZT_VK_H

#include "lib/engine/engine.h"
#include "lib/engine/schedule.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

/* ---- the loader ------------------------------------------------------------------------------ */

#define ZT_VK_GLOBAL(X) X(EnumerateInstanceVersion) X(CreateInstance)
// clang-format off
#define ZT_VK_INSTANCE(X)                                                                          \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2)                 \
    X(EnumerateDeviceExtensionProperties)                                                          \
    X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties)                             \
    X(GetPhysicalDeviceQueueFamilyProperties) X(CreateDevice) X(GetDeviceProcAddr)
#define ZT_VK_DEVICE(X)                                                                            \
    X(DestroyDevice) X(GetDeviceQueue) X(CreateBuffer) X(DestroyBuffer)                            \
    X(GetBufferMemoryRequirements) X(GetBufferDeviceAddress) X(AllocateMemory) X(FreeMemory)       \
    X(BindBufferMemory) X(MapMemory) X(CreateShaderModule) X(DestroyShaderModule)                  \
    X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreateComputePipelines)                     \
    X(DestroyPipeline) X(CreatePipelineCache) X(DestroyPipelineCache) X(GetPipelineCacheData)      \
    X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(FreeCommandBuffers)     \
    X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdBindPipeline) X(CmdPushConstants)               \
    X(CmdDispatch) X(CmdPipelineBarrier) X(CmdCopyBuffer) X(CmdFillBuffer) X(CreateFence)          \
    X(DestroyFence) X(ResetFences) X(WaitForFences) X(QueueSubmit) X(DeviceWaitIdle)               \
    X(CreateQueryPool) X(DestroyQueryPool) X(CmdResetQueryPool) X(CmdWriteTimestamp)               \
    X(GetQueryPoolResults)
// clang-format on

typedef struct zt_vk_api {
    void *library;
    PFN_vkGetInstanceProcAddr get;
#define X(f) PFN_vk##f f;
    ZT_VK_GLOBAL(X) ZT_VK_INSTANCE(X) ZT_VK_DEVICE(X)
#undef X
} zt_vk_api;

/* The library, and an instance of Vulkan 1.2. ZT_ENOTSUP where there is none. */
zt_status zt_vk_load(zt_ctx *ctx, zt_vk_api *api, VkInstance *instance);
void zt_vk_unload(zt_vk_api *api, VkInstance instance);
/* ZT_ENOTSUP "vkAllocateMemory: out of device memory" and the like; ZT_OK for VK_SUCCESS. */
zt_status zt_vk_check(zt_ctx *ctx, VkResult result, const char *call);

/* ---- the engine ------------------------------------------------------------------------------ */

/* Memory on the device. Buffers of one size class are kept when released and given out again. The
 * host touches no memory that the device still works on: `used` is the batch that does (work.c). */
typedef struct zt_vk_mem {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    uint8_t *map; /* NULL: the host does not see it */
    size_t bytes;
    int pooled; /* size class + 1, or 0 */
    uint64_t used;
} zt_vk_mem;

typedef enum zt_vk_kind { ZT_VK_DEVICE_MEM, ZT_VK_HOST_MEM, ZT_VK_KINDS } zt_vk_kind;

/* 4 KiB, 8 KiB ... 1 MiB; of each class of a kind and of all so many wait at most. */
enum { ZT_VK_CLASSES = 9, ZT_VK_POOL_EACH = 64, ZT_VK_POOL_BYTES = 32 << 20, ZT_VK_GRAVES = 256 };

/* The ring of buffers for transfers. */
enum { ZT_VK_STAGINGS = 4, ZT_VK_STAGING_BYTES = 2 << 20 };

typedef struct zt_vk_pool {
    zt_vk_mem free[ZT_VK_KINDS][ZT_VK_CLASSES][ZT_VK_POOL_EACH];
    int n[ZT_VK_KINDS][ZT_VK_CLASSES];
    zt_vk_mem grave[ZT_VK_GRAVES]; /* not for the pool: freed when the device is done with them */
    int n_graves;
} zt_vk_pool;

/* Constants of a shader, of which each uses those that it names; FLOATS of call.glsl is set for every
 * pass by the first input: 0 f32, 1 f16, 2 bf16; FUSED of fused.glsl for every pipeline by the device. */
enum { ZT_VK_SPECS = 8, ZT_VK_FLOATS = 4, ZT_VK_FUSED = 7 };

enum {
    ZT_VK_ERROR_BYTES = 512, /* bytes a task for its error block: a head and ZT_VK_RECORDS records (shaders/call.glsl) */
    ZT_VK_RECORDS = 20,
    ZT_VK_FEW = 7,  /* operands in `at` of the push constants */
    ZT_VK_MANY = 15 /* and with those in `word` */
};

/* Commands of executables that run ahead of the caller, handed over together. */
enum { ZT_VK_BATCHES = 4, ZT_VK_BATCH_MOST = 1024 };

typedef struct zt_vk_batch {
    VkCommandBuffer commands;
    VkFence fence;
    zt_vk_mem errors; /* a block each command */
    zt_op *op;        /* whose it is */
    uint32_t n;
    uint64_t serial;
    bool open, handed; /* being recorded; the device has it */
    bool waited;       /* it went along with a submit that was waited for */
} zt_vk_batch;

typedef struct zt_vk_pipe { /* a shader with its constants, made when first wanted */
    int shader, n_body;
    uint32_t spec[ZT_VK_SPECS], *body; /* of a chain: its ops */
    VkPipeline pipeline;
} zt_vk_pipe;

typedef struct zt_vk_engine {
    zt_engine base;
    zt_vk_api vk;
    VkInstance instance;
    VkPhysicalDevice adapter;
    VkDevice device;
    VkQueue queue;
    VkCommandPool commands;
    VkPipelineLayout layout;
    VkPipelineCache cache;
    uint64_t cached[2]; /* the hash of what was read into it */
    VkFence fence;
    uint32_t family, memory_type[ZT_VK_KINDS];
    uint32_t seen_types;              /* memory types that the host sees without flushing, a bit each */
    uint32_t shared_bytes, groups[3]; /* limits: shared memory, workgroups in each direction */
    uint32_t invocations;             /* of a workgroup, at most */
    uint32_t lanes;                   /* of a subgroup whose invocations can exchange values; 0: they cannot */
    bool dots;                        /* products of four pairs of signed bytes in one instruction */
    bool fused;                       /* fma rounds once: it is not a driver that runs on a CPU */
    bool doubles;                     /* it computes with f64 and integers of 64 bits */
    double tick;                      /* seconds of a timestamp's unit; 0: no timestamps */
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    uint32_t vendor, model; /* whose cached pipelines these are */
    uint8_t cache_uuid[VK_UUID_SIZE];
    zt_vk_pool pool;
    zt_vk_pipe *pipe;
    int n_pipes, room_pipes;
    zt_vk_mem staging[ZT_VK_STAGINGS]; /* of the host, for copies to and from memory that it does not see */
    unsigned staged;                   /* how often one of them was taken */
    size_t staging_filled;             /* bytes of the last one that are taken */
    zt_vk_mem arena;                   /* of all executables: replays are synchronous, so nothing lives there */
    uint64_t moved;                    /* counts its moves: executables then record anew */
    int executables;                   /* prepared now: with the last of them the arena goes */
    zt_vk_batch batch[ZT_VK_BATCHES];
    uint64_t serial, done; /* of the batch begun last; of the last that the device is done with */
    bool lost;             /* the device: nothing more is asked of it */
    zt_engine_report report;
} zt_vk_engine;

struct zt_ebuf {
    zt_type type;
    zt_vk_mem mem;
    int pack;        /* a row of weights.c's table; 0: the plain layout */
    zt_vk_mem plain; /* of packed: a plain copy for ops that read no packed weights */
};

int zt_vk_adapters(zt_ctx *ctx, zt_adapter *adapter, int max);
zt_status zt_vk_adapter_pick(zt_vk_engine *engine, int index);
zt_status zt_vk_device_open(zt_vk_engine *engine, int index); /* after zt_vk_load */
void zt_vk_device_close(zt_vk_engine *engine);

/* memory.c: bytes 0 gives a small buffer. What `alloc` gives of the host's kind is not in use. */
zt_status zt_vk_alloc(zt_vk_engine *engine, zt_vk_kind kind, size_t bytes, zt_vk_mem *out);
void zt_vk_release(zt_vk_engine *engine, zt_vk_mem *memory); /* to the pool, or for good; m is cleared */
void zt_vk_bury(zt_vk_engine *engine);                       /* frees what the device is done with */
void zt_vk_pool_close(zt_vk_engine *engine);

/* copies.c: between host and device, after all that was asked of the device before. `read` waits for it and for the bytes;
 * of `write` src may change at once. */
zt_status zt_vk_write(zt_vk_engine *engine, zt_vk_mem *to, size_t at, const void *src, size_t n);
zt_status zt_vk_read(zt_vk_engine *engine, const zt_vk_mem *from, size_t at, void *dst, size_t n);
zt_status zt_vk_clear(zt_vk_engine *engine, zt_vk_mem *memory);

/* work.c */
zt_status zt_vk_submit(zt_vk_engine *engine, VkCommandBuffer c); /* and wait for it, and all before it */
zt_status zt_vk_enqueue(zt_engine *engine, zt_executable *executable, zt_ebuf *const *in, zt_ebuf *const *out);
/* The same for a copy of n bytes, and for zeros in all of a buffer. */
zt_status zt_vk_enqueue_copy(zt_vk_engine *engine, zt_vk_mem *from, size_t from_at, zt_vk_mem *to, size_t to_at, size_t n);
zt_status zt_vk_enqueue_fill(zt_vk_engine *engine, zt_vk_mem *to);
zt_status zt_vk_flush(zt_engine *engine);                    /* hands over what is recorded */
zt_status zt_vk_wait(zt_vk_engine *engine, uint64_t serial); /* until the device is done with this batch, as sync */
/* Flushes, waits for all of it and reports the first runtime error. */
zt_status zt_vk_sync(zt_engine *engine);
void zt_vk_batches_close(zt_vk_engine *engine);
zt_status zt_vk_lost(zt_vk_engine *engine); /* fails: the device is lost */

/* weights.c */
int zt_vk_pack_of(zt_dtype dtype); /* the constant TYPE of shaders/weights.glsl, or 0: none */
typedef struct zt_vk_unit {
    int words, bytes, header; /* packed words, bytes in the file, those of a header that gets a word of its own */
} zt_vk_unit;
zt_vk_unit zt_vk_unit_of(zt_dtype dtype);    /* of a type that has a packed form */
size_t zt_vk_powers_at(const zt_type *type); /* bytes of a packed matrix before the powers of its rows */
int64_t zt_vk_units(const zt_type *type);    /* of a row of a packed matrix */
zt_ebuf *zt_vk_load_weight(zt_engine *engine, const zt_type *type, const zt_store *store, int64_t handle);
zt_status zt_vk_plain(zt_vk_engine *engine, zt_ebuf *buffer); /* makes b->plain */

/* ---- kernels --------------------------------------------------------------------------------- */

/* Mesa's drivers for processors end the loops of an invocation after 65,535 turns, counted over all its loops, and report
 * nothing. Kernels divide what would take more, or leave it to the cpu. */
enum { ZT_VK_TURNS = 60000 };

/* May an invocation take so many? */
static inline bool zt_vk_has_turns(const zt_vk_engine *engine, int64_t turns) { return engine->fused || turns < ZT_VK_TURNS; }

/* A kernel's `set` describes the dispatches of a step: its passes. It runs once, when the step is prepared.
 *
 * One pass: fill shader, spec, word and groups of the call and return. Its operands are then the op's inputs
 * in order, the step's table if it has one, and its outputs, at call.at[0], [1], ... of the shader.
 *
 * Several: describe the first, zt_vk_then, describe the second, zt_vk_then, and so on; zt_vk_then empties the
 * description (spec[ZT_VK_FLOATS] is set again by the first input). What is described when `set` returns is the
 * last pass; with a group count of 0 it is none. Every pass waits for the ones before it. The operands of a pass
 * are named before it ends:
 *
 *     zt_vk_arg sums = zt_vk_scratch(call, 4 * parts);
 *     call->shader = ZT_VK_SHADER_reduce; ... ZT_VK_ARGS(call, zt_vk_in(0), sums);
 *     zt_status status = zt_vk_then(engine, call);
 *     if (status) return status;
 *     call->shader = ZT_VK_SHADER_reduce; ... ZT_VK_ARGS(call, sums, zt_vk_out(0));
 *     return ZT_OK;
 *
 * Operands past the seventh have their addresses in `word`, two words each, from word[0] on (ZT_VK_MANY in all).
 * More words than `word` holds go into the step's table: table = zt_alloc_array(ctx, table_words, 4), which the engine
 * keeps and frees, the same for all passes; zt_vk_table(n) is the address of its word n. */
typedef enum zt_vk_arg_kind {
    ZT_VK_ARG_NONE, /* address 0: there(k) is false */
    ZT_VK_ARG_IN,   /* input or output `index`; absent or not wanted: address 0 */
    ZT_VK_ARG_OUT,
    ZT_VK_ARG_SCRATCH,
    ZT_VK_ARG_KEPT,
    ZT_VK_ARG_TABLE
} zt_vk_arg_kind;

typedef struct zt_vk_arg {
    zt_vk_arg_kind kind;
    int index;
    size_t offset; /* bytes; an argument may be moved by adding to it, multiples of its element */
} zt_vk_arg;

typedef struct zt_vk_step zt_vk_step; /* passes.c */

typedef struct zt_vk_call {
    const void *attrs;
    const zt_type *in[ZT_MAX_IN]; /* NULL: absent */
    const zt_type *out;
    bool wanted[ZT_MAX_OUT];
    int packed[ZT_MAX_IN]; /* of the kernel's weights: the row of weights.c's table; 0: none has this type */
    bool plain[ZT_MAX_IN]; /* but its rows lie as in a file */
    /* of the whole step */
    uint32_t *table; /* table_words that the engine keeps for the step, zt_alloc'ed; NULL: none */
    size_t table_words;
    zt_vk_step *step;
    /* of the pass */
    int shader;
    uint32_t spec[ZT_VK_SPECS], word[16], groups[3]; /* a group count of 0: nothing to do */
    uint32_t body[128];                              /* n_body words of a chain's ops, ZT_VK_BODY */
    int n_body;
    zt_vk_arg arg[ZT_VK_MANY];
    int n_args; /* 0: inputs, table, outputs */
} zt_vk_call;

static inline zt_vk_arg zt_vk_none(void) { return (zt_vk_arg){ZT_VK_ARG_NONE, 0, 0}; }
static inline zt_vk_arg zt_vk_in(int k) { return (zt_vk_arg){ZT_VK_ARG_IN, k, 0}; }
static inline zt_vk_arg zt_vk_out(int k) { return (zt_vk_arg){ZT_VK_ARG_OUT, k, 0}; }
static inline zt_vk_arg zt_vk_table(size_t word) { return (zt_vk_arg){ZT_VK_ARG_TABLE, 0, 4 * word}; }
/* Fresh memory of this step, 64-byte aligned, of undefined content; 0 bytes are allowed. */
zt_vk_arg zt_vk_scratch(zt_vk_call *call, size_t bytes);
/* Memory that keeps its content from step to step, for a pass that ends with zt_vk_once. One a step. */
zt_vk_arg zt_vk_kept(zt_vk_call *call, size_t bytes);
#define ZT_VK_ARGS(call, ...)                                                                                                    \
    zt_vk_args(call, (const zt_vk_arg[]){__VA_ARGS__}, (int)(sizeof((const zt_vk_arg[]){__VA_ARGS__}) / sizeof(zt_vk_arg)))
void zt_vk_args(zt_vk_call *call, const zt_vk_arg *arg, int count);
/* Ends the pass and begins the next. */
zt_status zt_vk_then(zt_vk_engine *engine, zt_vk_call *call);
/* The same for a pass that fills zt_vk_kept; it is left out where the one before in the program is equal: the same
 * shader, constants, words and values. */
zt_status zt_vk_once(zt_vk_engine *engine, zt_vk_call *call);
/* A pass that sets or copies bytes, before the one that is being described. Of a fill, `word` is repeated; the offset is a
 * multiple of 4, and the bytes are rounded up to one. An absent operand, or 0 bytes: nothing. */
zt_status zt_vk_fill(zt_vk_call *call, zt_vk_arg to, size_t bytes, uint32_t word);
zt_status zt_vk_copy(zt_vk_call *call, zt_vk_arg to, zt_vk_arg from, size_t bytes);

/* Rows are written with designators: {.op = ZT_OP_linear, .has = linear_has, .set = set_linear, .weights = 1u << 1}. */
typedef struct zt_vk_kernel {
    zt_op op;
    bool (*has)(const zt_vk_engine *e, const void *attrs, const zt_type *const in[], const zt_type out[]);
    zt_status (*set)(zt_vk_engine *e, zt_vk_call *c);
    /* Has what `has` accepts the bits of docs/arithmetic.md? NULL: it does not promise them. */
    bool (*contract)(const zt_vk_engine *e, const void *attrs, const zt_type *const in[], const zt_type out[]);
    unsigned weights; /* inputs that may be packed matrices, a bit each */
    bool many;        /* where no arguments are named: those past the seventh are passed in `word`; else they are left out */
} zt_vk_kernel;

/* For `contract`: for every type that the kernel has; where angles are computed in f64. */
bool zt_vk_always(const zt_vk_engine *e, const void *attrs, const zt_type *const in[], const zt_type out[]);
bool zt_vk_with_f64(const zt_vk_engine *e, const void *attrs, const zt_type *const in[], const zt_type out[]);

/* grids.c: the vectors that codes of the step's weights stand for, into its table; the argument that shaders/weights.glsl
 * wants for a weight, absent where its type has none. */
zt_status zt_vk_put_grids(zt_vk_engine *engine, zt_vk_call *call);
zt_vk_arg zt_vk_grid(const zt_vk_call *call, int input);

/* The lists, zt_vk_FILE, one per file of kernels; they end with set NULL. */
// clang-format off
#define ZT_VK_FAMILIES(X) \
    X(argmax)              \
    X(attention)           \
    X(attention_indexed)   \
    X(causal_conv)         \
    X(causal_conv_back)    \
    X(conv)                \
    X(delta_rule)          \
    X(delta_rule_back)     \
    X(elementwise)         \
    X(expert)              \
    X(index)               \
    X(kv_cache)            \
    X(linear)              \
    X(loss)                \
    X(matmul)              \
    X(matmul_weight)       \
    X(norm)                \
    X(norm_channels)       \
    X(pad)                 \
    X(pointwise)           \
    X(pools)               \
    X(quant)               \
    X(random)              \
    X(recurrent)           \
    X(reduce)              \
    X(rope)                \
    X(sample)              \
    X(scan)                \
    X(sdpa)                \
    X(selective_scan)      \
    X(selective_scan_back) \
    X(shape)               \
    X(shape_like)          \
    X(slice)               \
    X(softmax)             \
    X(spectral)            \
    X(topk)                \
    X(triangular)          \
    X(wkv7)                \
    X(wkv7_back)
// clang-format on
#define X(family) extern const zt_vk_kernel zt_vk_##family[];
ZT_VK_FAMILIES(X)
#undef X
const zt_vk_kernel *zt_vk_find(const zt_vk_engine *engine, zt_op op, const void *attrs, const zt_type *const input_types[],
                               const zt_type out[]);
/* Invocations of a workgroup that must wait for each other: those of a subgroup do at no cost. */
uint32_t zt_vk_width(const zt_vk_engine *engine);
/* elementwise.c: the number of an op's function of floats and bools, from ZT_VK_PAIRS on of two values or three, or -1; at:
 * NULL, or its two attributes (0 where it has none). And its name in shaders/functions.glsl. */
enum { ZT_VK_PAIRS = 64 };
int zt_vk_function(zt_op op, const void *attrs, double at[2]);
bool zt_vk_function_contract(int f); /* of f32: has it the bits of docs/arithmetic.md? */
bool zt_vk_function_name(int f, char *name, size_t bytes);
/* A pass of elements of one type as those of another. */
zt_status zt_vk_set_cast(zt_vk_engine *engine, zt_vk_call *call, int64_t count, zt_vk_arg x, zt_dtype from, zt_vk_arg y,
                         zt_dtype to);
/* elementwise.c, for shape_like.c: fill_like is an elementwise op to a device. */
bool zt_vk_fill_like_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[]);
zt_status zt_vk_set_fill_like(zt_vk_engine *engine, zt_vk_call *call);
/* An op of a chain of any plain types, the words that shaders/pointwise_values.comp reads; word[1], its operands, is 0. False:
 * it has no such op. */
bool zt_vk_chain_words(zt_op op, const void *attrs, const zt_type *const in[], const zt_type *out, uint32_t word[4]);
/* Operands that broadcast to y: its dimensions from the last, those that go on from each other in
 * all operands as one; and for each the elements from one index to
 * the next, 0 where it is repeated. */
typedef struct zt_vk_strides {
    int axis_count;
    uint32_t dims[ZT_MAX_RANK], steps[ZT_MAX_IN][ZT_MAX_RANK];
} zt_vk_strides;
zt_vk_strides zt_vk_strides_of(const zt_type *const input_types[], int n, const zt_type *y);
/* For shaders/strides.glsl, an invocation an element of `whole`: their number in word[0], the axes of the first inputs in
 * word[1], their steps in the next; and the table, where there is more than one axis. */
zt_status zt_vk_set_strides(zt_vk_engine *engine, zt_vk_call *call, int operand_count, const zt_type *whole);
/* strides.c: elements of x in the order of y, from `base` on, by the dimensions of y (the last first), with their steps in x;
 * a step may be below 0. */
typedef struct zt_vk_steps {
    int axis_count;
    int64_t base, dims[ZT_MAX_RANK], steps[ZT_MAX_RANK];
} zt_vk_steps;
void zt_vk_add_axis(zt_vk_steps *steps, int64_t dim, int64_t step);
/* `count` entries of `whole` along an axis, from `from` on in steps of `by`. */
zt_vk_steps zt_vk_steps_along(const zt_type *whole, int axis, int64_t from, int64_t by, int64_t count);
/* The first input's elements to the output, whatever they are: `has` and the pass. */
bool zt_vk_moves(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[]);
zt_status zt_vk_move(zt_vk_engine *engine, zt_vk_call *call, zt_vk_steps steps);
uint32_t zt_vk_bytes(zt_dtype dtype);               /* of an element */
int64_t zt_vk_inner(const zt_type *type, int axis); /* elements of all dimensions after it */
static inline int zt_vk_axis(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }
/* module.c. An op of a chain, two words: its function and three values (t of shaders/pointwise.comp); its type there, and the
 * output that it is, plus 1. The module, zt_alloc'ed, of *made bytes; NULL: an error. */
#define ZT_VK_BODY(f, a, b, c) ((uint32_t)(f) | (uint32_t)(a) << 8 | (uint32_t)(b) << 16 | (uint32_t)(c) << 24)
#define ZT_VK_BODY_F(w)        ((w)&255)
#define ZT_VK_BODY_VALUE(w, k) ((w) >> (8 + 8 * (k)) & 255)
#define ZT_VK_BODY_TYPE(more)  ((more)&255)
#define ZT_VK_BODY_OUT(more)   ((more) >> 8)
uint32_t *zt_vk_module(zt_ctx *ctx, const uint32_t *code, size_t bytes, const uint32_t *body, int n, size_t *made);
/* Groups of `each` invocations for n of them, in two directions where one is too short. */
void zt_vk_spread(const zt_vk_engine *engine, zt_vk_call *call, int64_t n, int64_t each);
/* One workgroup a row; shaders find theirs by row_of_group() and count them in the word given. */
void zt_vk_group_each(const zt_vk_engine *engine, zt_vk_call *call, int word, int64_t rows);
/* ctx, S, B, block of a cache from word `word` on (lib/ops/row.h: zt_slots_make); table NULL: none. */
void zt_vk_set_slots(zt_vk_call *call, int word, const zt_type *cache, const zt_type *table);
int64_t zt_vk_last_dim(const zt_type *type); /* 1 of a scalar */
/* Are they f32, f16 or bf16, which shaders read and write by FLOATS? */
bool zt_vk_is_float(zt_dtype dtype);
/* The same for a shader that has a twin, which has f64 too where the device has it. */
bool zt_vk_is_real(const zt_vk_engine *engine, zt_dtype dtype);
enum { ZT_VK_F64 = 3 };                 /* FLOATS of a pass in f64 */
uint32_t zt_vk_floats(zt_dtype dtype);  /* that constant */
zt_dtype zt_vk_summed(zt_dtype dtype);  /* f64, or f32 of all others: what sums of theirs are kept in */
size_t zt_vk_sum_bytes(zt_dtype dtype); /* of one of these */
/* An attribute's number, as real_number of shaders/call.glsl reads it: f32 in `word`; in f64 its bits in two from `bits` on. */
void zt_vk_put_number(zt_vk_call *call, int word, int bits, double number);
/* Of a type that shaders/values.glsl reads and writes by its number, the dtype's own: f64 to f8, integers of 8 to 64 bits,
 * bool. f64 is moved and converted by its bits, on any device. */
bool zt_vk_is_value(zt_dtype dtype);
void zt_vk_value_bits(zt_dtype dtype, double value, uint32_t bits[2]); /* elementwise.c: a value of that type; no number: 0 */
/* Counts that 32 bits hold, on every operand. */
bool zt_vk_small(const zt_type *const input_types[], int n_in, const zt_type *out);

/* Made from shaders/ by the Makefile: ZT_VK_SHADER_norm and so on are places in zt_vk_code. */
// clang-format off
#define ZT_VK_SHADERS(X) \
    X(argmax) \
    X(attention) \
    X(attention_indexed) \
    X(attention_indexed_choose) \
    X(attention_indexed_scores) \
    X(causal_conv) \
    X(causal_conv_back) \
    X(conv) \
    X(conv_parts) \
    X(delta_rule) \
    X(delta_rule_back) \
    X(delta_rule_back_lengths) \
    X(delta_rule_factors) \
    X(elementwise_binary) \
    X(elementwise_blocks) \
    X(elementwise_packed) \
    X(elementwise_unary) \
    X(elementwise_values) \
    X(expert_back) \
    X(index_elements) \
    X(index_gather) \
    X(index_one_hot) \
    X(index_parts) \
    X(kv_cache) \
    X(linear) \
    X(linear_after) \
    X(linear_bytes) \
    X(linear_codes) \
    X(linear_int8) \
    X(linear_pack) \
    X(linear_powers) \
    X(loss_classes) \
    X(loss_pair) \
    X(loss_sum) \
    X(matmul) \
    X(matmul_integer) \
    X(matmul_weight) \
    X(norm) \
    X(norm_channels) \
    X(pad) \
    X(pad_back) \
    X(pointwise) \
    X(pointwise_values) \
    X(pool) \
    X(pool_max) \
    X(pool_planes) \
    X(quant) \
    X(random) \
    X(recurrent) \
    X(recurrent_backward) \
    X(recurrent_sums) \
    X(recurrent_transpose) \
    X(reduce) \
    X(reduce_spread) \
    X(roof) \
    X(rope) \
    X(rope_f64) \
    X(rope_table) \
    X(sample) \
    X(scan) \
    X(sdpa) \
    X(sdpa_grad) \
    X(selective_scan) \
    X(selective_scan_back) \
    X(shape) \
    X(shape_concat) \
    X(slice_put) \
    X(softmax) \
    X(spectral) \
    X(spectral_conv) \
    X(state_back) \
    X(topk) \
    X(triangular) \
    X(wkv7) \
    X(wkv7_back)
// clang-format on
enum {
#define X(s) ZT_VK_SHADER_##s,
    ZT_VK_SHADERS(X)
#undef X
        ZT_VK_N_SHADERS
};
/* Those that have a twin, the same text compiled to compute in f64, which passes with FLOATS = ZT_VK_F64 run (mk/sources.mk lists
 * them too). */
// clang-format off
#define ZT_VK_TWINS(X) \
    X(conv) \
    X(conv_parts) \
    X(elementwise_binary) \
    X(elementwise_unary) \
    X(index_elements) \
    X(index_parts) \
    X(loss_classes) \
    X(loss_pair) \
    X(loss_sum) \
    X(matmul) \
    X(norm_channels) \
    X(pad_back) \
    X(pool) \
    X(pool_planes) \
    X(reduce) \
    X(reduce_spread) \
    X(scan) \
    X(sdpa) \
    X(softmax) \
    X(spectral) \
    X(spectral_conv)
// clang-format on
VkPipeline zt_vk_pipeline(zt_vk_engine *engine, const zt_vk_call *call); /* of its shader */
void zt_vk_pipelines_close(zt_vk_engine *engine);

/* cache.c: what the driver compiled, in the user's cache folder. Failures are silent. */
void zt_vk_cache_open(zt_vk_engine *engine);
void zt_vk_cache_close(zt_vk_engine *engine); /* written where pipelines were made that it lacked */

/* ---- executables ----------------------------------------------------------------------------- */

typedef struct zt_vk_push { /* the push constants of a dispatch, as shaders/call.glsl has them */
    uint64_t at[8];
    uint32_t word[16];
} zt_vk_push;

typedef enum zt_vk_act { ZT_VK_DISPATCH, ZT_VK_COPY, ZT_VK_FILL } zt_vk_act;

typedef struct zt_vk_operand { /* where an argument is, found anew when the arena moves */
    zt_vk_arg_kind kind;
    int value;      /* of the schedule, or -1 */
    zt_place place; /* of an input or output */
    int pack;       /* as the op reads it */
    size_t offset;  /* of the argument in it, or in its memory */
} zt_vk_operand;

typedef struct zt_vk_task {
    zt_vk_act act;
    int step;
    zt_vk_operand operand[ZT_VK_MANY]; /* of a copy: from, to */
    int n_operands;
    VkPipeline pipeline;
    uint32_t groups[3], word[16]; /* of a fill: word[0] */
    size_t bytes;                 /* of a copy or a fill */
} zt_vk_task;

struct zt_executable {
    zt_arena *memory;
    zt_run_schedule schedule;
    zt_vk_task *task;
    int n_tasks, room_tasks;
    zt_vk_mem host;    /* inputs, outputs and the error block, seen by both sides */
    zt_layout in, out; /* in it */
    size_t errors_at;
    zt_vk_mem tables;
    /* Behind the schedule's arena: one scratch for all steps, then what is kept between them. */
    size_t scratch_at, scratch_bytes, kept_at, kept_bytes;
    int kept_task; /* that filled it last, or -1 */
    VkCommandBuffer commands;
    VkQueryPool times; /* two a task, when watched */
    bool watched;      /* as recorded */
    uint64_t moved;    /* the engine's count when it was recorded */
};

/* passes.c: a step while its tasks are made. */
struct zt_vk_step {
    zt_vk_engine *engine;
    zt_executable *executable;
    int index;
    bool many;
    zt_vk_operand input[ZT_MAX_IN], output[ZT_MAX_OUT];
    int n_in, n_out;
    size_t table_at, scratch_bytes, kept_bytes;
};
zt_vk_task *zt_vk_add_task(zt_vk_step *step, zt_vk_act act); /* an empty one; NULL: no memory */

zt_executable *zt_vk_prepare(zt_engine *engine, const zt_run_schedule *schedule);
void zt_vk_unprepare(zt_engine *engine, zt_executable *executable);
/* record.c. Where inputs and outputs are: host memory of the executable's own, or the buffers given. */
typedef struct zt_vk_place {
    VkCommandBuffer commands;
    zt_ebuf *const *inputs, *const *outputs; /* NULL: host memory */
    VkDeviceAddress errors;
} zt_vk_place;
zt_status zt_vk_record(zt_vk_engine *engine, zt_executable *executable, bool watched);
void zt_vk_record_task(zt_vk_engine *engine, const zt_executable *executable, int task, const zt_vk_place *p);
/* What was written before is read after: by shaders and copies, and by the host where `last`. */
void zt_vk_record_barrier(zt_vk_engine *engine, VkCommandBuffer commands, bool last);
/* Before the device works with `count` error blocks. */
void zt_vk_clear_errors(uint8_t *blocks, size_t count);
/* The runtime error of a task of op `op`, step `step` (-1: none), if its block holds one. */
zt_status zt_vk_runtime_error(zt_ctx *ctx, const uint8_t *block, zt_op op, int step);
zt_status zt_vk_rates(zt_engine *engine, double *moved, double *computed); /* roof.c */
zt_status zt_vk_replay(zt_engine *engine, zt_executable *executable, const void *const *inputs, void *const *outputs,
                       const zt_watch *watch);

#endif
