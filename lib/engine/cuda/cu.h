/* cu.h - private to lib/engine/cuda: the engine, its memory, kernels and executables.
 *
 * Files: driver.h the driver, platform.c what CUDA's and HIP's differ in, loader.c one opened,
 * device.c a device made ready, adapters.c which there are, memory.c buffers and the pool, copies.c
 * to and from them, weights.c how weights come in, pack.c their forms, kernels.c which row runs an
 * op and how one launches, blas*.c and fft.c what cuBLAS and cuFFT do where they are named, FAMILY.c
 * the rows beside FAMILY.cu, their kernels, contract.c what rows launch instead with strict_bits, prepare.c from a schedule to what
 * is captured, replay.c running it, work.c what runs ahead of the caller, cuda.c the vtables: cuda and hip are this one engine on two
 * drivers, and opencl is it on a third, with kernels of its own (lib/engine/opencl), so that an op runs there where all that its row
 * launches is there.
 *
 * All work goes to one stream, in order: memory that is released may be given out again at once,
 * and what a step writes is there for the next. Nothing of CUDA is needed to build this side.
 */
#ifndef ZT_CU_H
#define ZT_CU_H

#include "lib/engine/cuda/args.h"
#include "lib/engine/cuda/driver.h"
#include "lib/engine/engine.h"
#include "lib/engine/schedule.h"

/* ---- the engine ------------------------------------------------------------------------------ */

typedef struct zt_cu_mem {
    zt_cu_ptr address; /* on the device, or 0 */
    uint8_t *host;     /* pinned, or NULL */
    size_t bytes;
    int pooled; /* size class + 1, or 0 */
} zt_cu_mem;

typedef enum zt_cu_kind { ZT_CU_DEVICE_MEM, ZT_CU_HOST_MEM, ZT_CU_KINDS } zt_cu_kind;

/* 4 KiB, 8 KiB ... 16 MiB; of each class of a kind and of all so many wait at most. */
enum { ZT_CU_CLASSES = 13, ZT_CU_POOL_EACH = 64, ZT_CU_POOL_BYTES = 256 << 20 };

typedef struct zt_cu_pool {
    zt_cu_mem free[ZT_CU_KINDS][ZT_CU_CLASSES][ZT_CU_POOL_EACH];
    int count[ZT_CU_KINDS][ZT_CU_CLASSES];
} zt_cu_pool;

typedef struct zt_cu_known { /* a kernel found by its name, which is a constant of the rows */
    const char *name;
    zt_cu_function function;
    size_t shared; /* dynamic shared memory that it may take */
} zt_cu_known;

enum { ZT_CU_HALVES = 2, ZT_CU_MODULES = 64, ZT_CU_KNOWN = 1024, ZT_CU_AHEAD = 1024 };
/* Bytes of shared memory that a kernel's own arrays take at most, beside the dynamic bytes of a launch: a device counts
 * both against one limit. */
enum { ZT_CU_SHARED_OWN = 2048 };

typedef struct zt_cu_engine {
    zt_engine base;
    zt_cu_api cu;
    int device;
    zt_cu_context context;
    zt_cu_stream stream;
    char name[256];
    int major, minor, processors, max_threads, warp;
    unsigned max_grid[3];
    size_t shared, shared_optin; /* bytes a block has, and may be given */
    bool cooperative;            /* blocks of a launch may wait for each other */
    bool unified;                /* the device's memory is the host's */
    struct zt_cu_blas *blas;     /* blas.h; NULL: products are our own */
    int wgmma;                   /* wgmma.h: zt_cu_wgmma_use; 0: not known */
    struct zt_cu_fft *fft;       /* fft.h; NULL: transforms are */
    zt_cu_pool pool;
    zt_cu_module modules[ZT_CU_MODULES];
    int n_modules; /* loaded so far, in the order of zt_cu_images */
    zt_cu_known known[ZT_CU_KNOWN];
    struct { /* pinned, so that a copy goes on while the next piece is filled in */
        zt_cu_mem memory;
        zt_cu_event done;
        bool used;
    } halves[ZT_CU_HALVES];
    int next_half;
    zt_cu_mem arena; /* of all executables: nothing lives there between steps of the stream */
    uint64_t moved;  /* counts its moves: executables are captured anew then */
    int executables; /* prepared now: with the last of them the arena goes */
    /* What ran asynchronously since the last sync: an error block a step, and the step's op. */
    zt_cu_mem ahead, ahead_host;
    zt_op ahead_op[ZT_CU_AHEAD];
    int n_ahead;
    bool pending; /* the stream may have work that nobody has waited for */
    bool lost;    /* the device: nothing more is asked of it */
    zt_engine_report report;
} zt_cu_engine;

struct zt_ebuf {
    zt_type type;
    zt_cu_mem memory;
    const struct zt_cu_pack *pack; /* NULL: as in a file */
    zt_cu_mem plain;               /* of packed: a plain copy for ops that read no packed weights */
    bool model;                    /* a model's weight: nothing here writes it */
};

int zt_cu_adapters(zt_ctx *ctx, const zt_cu_platform *platform, zt_adapter *adapter, int max);
zt_status zt_cu_device_open(zt_cu_engine *engine, int index); /* after zt_cu_load */
void zt_cu_device_close(zt_cu_engine *engine);
/* The calling thread works on this engine's device. */
zt_status zt_cu_enter(zt_cu_engine *engine);
/* As zt_cu_check; after errors of the device nothing more is asked of it. */
zt_status zt_cu_try(zt_cu_engine *engine, int result, const char *call);
/* The same of a call after which nothing is known of the device's work: every failure loses it. */
zt_status zt_cu_done(zt_cu_engine *engine, int result, const char *call);
zt_status zt_cu_lost(zt_cu_engine *engine); /* fails: the device is lost */

/* memory.c: bytes 0 gives a small buffer. */
zt_status zt_cu_alloc(zt_cu_engine *engine, zt_cu_kind kind, size_t bytes, zt_cu_mem *out);
void zt_cu_release(zt_cu_engine *engine, zt_cu_mem *memory); /* to the pool, or for good; m is cleared */
void zt_cu_pool_close(zt_cu_engine *engine);

/* copies.c. Write and clear follow what the stream has to do and wait for nothing but room in the
 * staging; `src` is read before it returns. Read waits. */
zt_status zt_cu_write(zt_cu_engine *engine, zt_cu_ptr to, const void *source, size_t byte_count);
zt_status zt_cu_read(zt_cu_engine *engine, zt_cu_ptr from, void *destination, size_t byte_count);
zt_status zt_cu_clear(zt_cu_engine *engine, zt_cu_ptr address, size_t byte_count);
/* A piece of pinned memory to fill in, of at most *n bytes (set), and its way to the device. */
uint8_t *zt_cu_half(zt_cu_engine *engine, size_t *byte_count); /* NULL: an error */
zt_status zt_cu_half_send(zt_cu_engine *engine, zt_cu_ptr to, size_t byte_count);
void zt_cu_halves_close(zt_cu_engine *engine);

/* weights.c */
zt_ebuf *zt_cu_load_weight(zt_engine *engine, const zt_type *type, const zt_store *store, int64_t handle);
zt_status zt_cu_plain(zt_cu_engine *engine, zt_ebuf *buffer); /* makes b->plain */

typedef struct zt_cu_call zt_cu_call;

/* A form of block types that the inner loops want, made of the file's on the device and back. */
typedef struct zt_cu_pack zt_cu_pack;
struct zt_cu_pack {
    zt_dtype dtype;
    size_t (*bytes)(const zt_cu_pack *p, int64_t rows, int64_t columns);
    /* Launches; from: blocks as in a file, to: `bytes` of memory; and the other way. */
    zt_status (*pack)(const zt_cu_pack *p, zt_cu_call *c, zt_cu_ptr from, zt_cu_ptr to, int64_t rows, int64_t columns);
    zt_status (*unpack)(const zt_cu_pack *p, zt_cu_call *c, zt_cu_ptr from, zt_cu_ptr to, int64_t rows, int64_t columns);
    /* A block as zt_cu_pack_args has it, and the kernels of products with codes of x, or x itself. */
    int codes, head, half, codes_at, head_at, half_at;
    const char *by_codes, *by_floats, *by_decode, *by_large;
};
/* What kernels must know of a packed matrix; raw, packed and back are 0. */
struct zt_cu_pack_args zt_cu_pack_call(const zt_cu_pack *pack, int64_t rows, int64_t columns);
/* Where the parts after the codes of a packed matrix begin. */
zt_cu_ptr zt_cu_pack_heads(const zt_cu_pack *pack, zt_cu_ptr packed, int64_t rows, int64_t columns);
zt_cu_ptr zt_cu_pack_halves(const zt_cu_pack *pack, zt_cu_ptr packed, int64_t rows, int64_t columns);
enum { ZT_CU_TILE_ROWS = 16 };         /* rows of a matrix that are packed together */
extern const zt_cu_pack zt_cu_packs[]; /* ends with pack NULL */
const zt_cu_pack *zt_cu_pack_find(zt_dtype dtype);

/* ---- kernels --------------------------------------------------------------------------------- */

typedef struct zt_cu_dim {
    unsigned x, y, z;
} zt_cu_dim;

typedef struct zt_cu_persistent_kernel zt_cu_persistent_kernel; /* persistent_kernel.h */

/* An op, as a row's `emit` finds it. emit runs several times: once to see what the step needs, with
 * addresses that mean nothing, then whenever the step is captured or run; so it depends on what is
 * here alone, and all times launches the same kernels. */
struct zt_cu_call {
    zt_cu_engine *engine;
    zt_op op;
    const void *attrs;
    const zt_type *input_types[ZT_MAX_IN], *output_types[ZT_MAX_OUT]; /* NULL: absent, not wanted */
    zt_cu_ptr inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];                 /* 0: absent, not wanted */
    const zt_cu_pack *packed[ZT_MAX_IN];                              /* of a weight in its packed form */
    unsigned model;                                                   /* inputs that are a model's weights, as bits */
    zt_cu_ptr error;                                                  /* a zt_cu_runtime_error */
    bool beside;                         /* emit: what is launched next needs nothing of what this op launched before */
    zt_cu_persistent_kernel *persistent; /* launches may become stages; NULL: they are launched */
    /* kernels.c's own */
    bool asking; /* sizing, and only whether the driver's platform has all kernels */
    bool lacks;  /* it has not, or a launch is larger than the device takes */
    bool sizing; /* nothing is launched; with `persistent` addresses are the real ones */
    size_t scratch_bytes, scratch_used;
    zt_cu_ptr scratch, tables;
    size_t table_bytes; /* so far, of all steps */
    uint8_t *table;     /* sizing: their bytes, gathered; zt_alloc'ed */
    size_t table_room;
    uint64_t launches;
};

typedef struct zt_cu_row {
    zt_op op;
    bool (*has)(const zt_cu_engine *e, const void *attrs, const zt_type *const in[], const zt_type out[]);
    zt_status (*emit)(zt_cu_call *c);
    unsigned weights; /* inputs that may be packed, a bit each */
    /* Has it the bits of docs/arithmetic.md on an engine with strict_bits, whose rows may launch other kernels for them?
     * NULL: it has not. */
    bool (*contract)(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[]);
} zt_cu_row;

bool zt_cu_always(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[]); /* it moves numbers */
bool zt_cu_of_f32(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[]); /* input 0 is of f32 */

/* Launches KERNEL(name, its struct): `bytes` of arguments at `args`. A grid with a 0 is nothing to
 * do. `shared`: bytes of dynamic shared memory. */
zt_status zt_cu_launch(zt_cu_call *call, const char *name, zt_cu_dim grid, zt_cu_dim block, size_t shared, const void *args,
                       size_t bytes);
/* *taken: the launch is a stage of the persistent kernel, and must not be made. */
zt_status zt_cu_persistent_kernel_take(zt_cu_call *call, const char *name, zt_cu_dim grid, size_t shared, const void *args,
                                       size_t bytes, bool *taken);
/* Before anything else goes into the stream, in both passes: ends the run of stages, which goes first. kernel may be
 * NULL. */
zt_status zt_cu_persistent_kernel_cut(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel);
/* What a library launches comes next; *goes: now, and not in a pass that only sees what there is. */
zt_status zt_cu_foreign(zt_cu_call *call, bool *goes);
/* Fresh memory for this op alone, 256-byte aligned. bytes may be 0. */
zt_cu_ptr zt_cu_scratch(zt_cu_call *call, size_t bytes);
/* Constants of the step, the same at every run. 0: an error. */
zt_cu_ptr zt_cu_table(zt_cu_call *call, const void *host, size_t bytes);
zt_status zt_cu_fill(zt_cu_call *call, zt_cu_ptr address, unsigned char value, size_t byte_count); /* n may be 0 */
zt_status zt_cu_move(zt_cu_call *call, zt_cu_ptr to, zt_cu_ptr from, size_t byte_count);
/* Blocks of `each` threads for n items, in one direction. */
zt_cu_dim zt_cu_grid(int64_t item_count, int64_t threads);

/* They end with emit NULL. */
// clang-format off
#define ZT_CU_FAMILIES(X)                                                                          \
    X(elementwise) X(pointwise) X(shape) X(shape_like) X(slice) X(pad) X(triangular) X(reduce)     \
    X(argmax) X(topk) X(scan) X(linear) X(norm) X(softmax) X(rope) X(kv_cache) X(attention)        \
    X(matmul) X(index) X(random) X(loss) X(conv) X(pools) X(norm_channels) X(sdpa) X(spectral)      \
    X(quant) X(recurrent) X(sample) X(expert) X(causal_conv) X(delta_rule) X(selective_scan) \
    X(wkv7)
// clang-format on
#define X(f) extern const zt_cu_row zt_cu_##f[];
ZT_CU_FAMILIES(X)
#undef X
const zt_cu_row *zt_cu_find(const zt_cu_engine *engine, zt_op op, const void *attrs, const zt_type *const input_types[],
                            const zt_type output_types[]);
bool zt_cu_has_kernel(const zt_cu_engine *engine, const char *name);
zt_cu_function zt_cu_function_of(zt_cu_engine *engine, const char *name, size_t shared);
void zt_cu_modules_close(zt_cu_engine *engine);
bool zt_cu_is_float(zt_dtype dtype); /* f32, f16 or bf16 */
/* Has the device `shared` bytes of dynamic shared memory for a block, beside a kernel's own arrays? */
bool zt_cu_has_shared(const zt_cu_engine *engine, size_t shared);
/* kv_cache.c: positions, sequences and table are inputs pos, pos + 1 and pos + 2. */
struct zt_cu_slots zt_cu_slots_of(const zt_cu_call *call, const zt_type *cache, int pos);
/* contract.c: products of x, input 0, by weights whose form the page of the arithmetic has, and what is added to them. biases are
 * inputs too; an output that is 0 is not wanted. */
bool zt_cu_contract_has_weight(const zt_type *weight);
zt_status zt_cu_contract_multiply(zt_cu_call *call, const zt_enum_string *act, int count, const int weights[], const int biases[],
                                  const zt_cu_ptr outputs[], zt_cu_ptr residual);
/* contract.c: ops of single elements whose kernel is another with strict_bits. */
bool zt_cu_contract_maps(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[]);
zt_status zt_cu_contract_map(zt_cu_call *call);
/* norm.c: of a value of type `type`, as the row rms_norm. */
zt_status zt_cu_rms_norm(zt_cu_call *call, const zt_type *type, zt_cu_ptr x, zt_cu_ptr gain, double eps, int64_t dims,
                         zt_cu_ptr y);
/* Threads of the block that norms a row of K: its sum's order. */
unsigned zt_cu_norm_team(int64_t K);
/* matmul.c: one product of f32 matrices whose rows and columns lie as its steps say. */
struct zt_cu_matmul_args;
zt_status zt_cu_multiply(zt_cu_call *call, const struct zt_cu_matmul_args *args);
/* linear.c: the vectors that codes of a block type stand for, as a constant of the step; 0 of others. */
zt_status zt_cu_vectors(zt_cu_call *call, zt_dtype dtype, zt_cu_ptr *address);
/* linear.c: rows of x that a product by input 1, a stack of matrices [E,M,K], takes at once. */
int64_t zt_cu_expert_tile_rows(const zt_cu_call *call, const zt_enum_string *act);
/* linear.c: products of tiles of so many rows of x [tile_count * rows, K], each by the matrix of its expert (and its row of input
 * 3), into y. tiles: zt_cu_expert_tile on the device. */
zt_status zt_cu_multiply_experts(zt_cu_call *call, const zt_enum_string *act, zt_cu_ptr x, zt_cu_ptr y, zt_cu_ptr tiles,
                                 int64_t tile_count);

/* ---- executables ----------------------------------------------------------------------------- */

typedef struct zt_cu_task { /* a step: copies into places apart, then its row */
    int step;
    const zt_cu_row *row; /* NULL: a view */
    unsigned apart;       /* outputs whose input of that number is copied to them first */
    bool packed[ZT_MAX_IN];
    size_t table_at; /* in ready's tables */
} zt_cu_task;

struct zt_executable {
    zt_arena *memory;
    zt_run_schedule schedule;
    zt_cu_task *tasks;
    int n_tasks;
    /* Inputs, then outputs, then the flag: pinned, and the same on the device; so one copy brings
     * all inputs and one takes all outputs. Behind them on the device an error block a task. */
    zt_cu_mem host, device;
    zt_layout inputs, outputs;
    size_t in_total, flag_at, errors_at;
    zt_cu_mem tables;
    size_t scratch_bytes;                /* behind the schedule's arena; one scratch for all steps */
    uint64_t launches;                   /* kernels a replay */
    zt_cu_persistent_kernel *persistent; /* NULL: every launch is one */
    zt_cu_exec exec;
    uint64_t moved;     /* the engine's count when it was captured */
    zt_cu_event *times; /* n_tasks + 1, made when first watched */
};

zt_executable *zt_cu_prepare(zt_engine *engine, const zt_run_schedule *schedule);
void zt_cu_unprepare(zt_engine *engine, zt_executable *executable);
/* Where inputs and outputs are: the executable's own memory, or the buffers given. */
typedef struct zt_cu_where {
    zt_ebuf *const *inputs, *const *outputs; /* NULL: the executable's */
    zt_cu_ptr errors;
    zt_cu_persistent_kernel *persistent; /* or NULL */
} zt_cu_where;
zt_status zt_cu_capture(zt_cu_engine *engine, zt_executable *executable);
zt_status zt_cu_run_task(zt_cu_engine *engine, const zt_executable *executable, int task, const zt_cu_where *where);
zt_status zt_cu_replay(zt_engine *engine, zt_executable *executable, const void *const *inputs, void *const *outputs,
                       const zt_watch *watch);
/* The runtime error of op `op`, step `step` (-1: none), if the block holds one. */
zt_status zt_cu_report_runtime_error(zt_ctx *ctx, const zt_cu_runtime_error *error, zt_op op, int step);

/* n blocks, empty, and the word at `flag` that they set. */
zt_status zt_cu_clear_runtime_errors(zt_cu_engine *engine, zt_cu_ptr blocks, int count, zt_cu_ptr flag);

/* work.c */
zt_status zt_cu_enqueue(zt_engine *engine, zt_executable *executable, zt_ebuf *const *in, zt_ebuf *const *out);
zt_status zt_cu_flush(zt_engine *engine);
zt_status zt_cu_sync(zt_engine *engine); /* waits for all of it and reports the first runtime error */

#endif
