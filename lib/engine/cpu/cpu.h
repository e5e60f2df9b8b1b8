/* cpu.h - private to lib/engine/cpu: what a kernel sees, and the form of packed weights.
 *
 * Kernels are leaves: they allocate nothing, log nothing, know no tensor and no thread pool. A
 * kernel cuts its work into items, by shapes alone, never by the number of threads; the engine
 * hands out ranges of items. Whatever item i computes depends on nothing but the inputs, so the
 * bits are the same for any number of threads (promise (a)); and what a row (token) gets does not
 * depend on how many rows there are or where in the batch it stands (promise (b)).
 *
 * Files in isa/ are compiled once for each instruction set with ZT_ISA naming it; everything they
 * export is named through ZT_SYM.
 */
#ifndef ZT_CPU_H
#define ZT_CPU_H

#include "lib/engine/engine.h"

#define ZT_CAT_(a, b) a##_##b
#define ZT_CAT(a, b)  ZT_CAT_(a, b)
#define ZT_SYM(name)  ZT_CAT(name, ZT_ISA) /* zt_cpu_norm -> zt_cpu_norm_avx512 */

#define ZT_CPU_MAX_PHASES 5 /* a kernel of a family has 3 at most: convert_operands.c adds two */

typedef struct zt_cpu_arg {
    zt_type type;
    void *data;  /* NULL: absent, or an output that nobody wants */
    bool packed; /* a weight in packed form (pack.h), not the plain layout of its type */
} zt_cpu_arg;

typedef struct zt_cpu_call zt_cpu_call;

/* Memory that is read once, from its beginning to its end; and then as much again, `more` times,
 * each `step` bytes after the one before. */
typedef struct zt_cpu_prefetch {
    const uint8_t *at;
    size_t bytes, step;
    int64_t more;
} zt_cpu_prefetch;
enum { ZT_CPU_PREFETCH_PIECES = 3 }; /* at most, of a range of items */

/* How many rows of x a product takes at once. */
typedef struct zt_cpu_tile {
    int64_t rows;  /* that the caller set; 0: those whose activations `bytes` hold */
    int64_t bytes; /* of the second-level cache, a part */
    bool amx;      /* may it use AMX's registers (zt_cpu_amx) */
} zt_cpu_tile;

typedef struct zt_cpu_kernel {
    zt_op op;
    /* May it run with these types? NULL inputs are absent. The same list serves asking and running. */
    bool (*has)(const void *attrs, const zt_type *const in[], const zt_type out[]);
    /* Once per prepared step: types, attrs and `packed` are set, data pointers only say present or
     * absent. Sets items of each phase, and the scratch it wants. */
    void (*setup)(zt_cpu_call *call);
    /* Items begin..end-1 of a phase. All items of a phase are done, by all threads, before the next
     * phase begins. `local` is local_bytes of this thread's own, 64-byte aligned, with any content. */
    void (*run)(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local);
    /* NULL, or: once per prepared step, between setup and the first run.
     * Fills c->keep, c->keep_bytes of memory that lives as long as the prepared step; runs only
     * read it. From types and attrs alone. */
    void (*prime)(zt_cpu_call *call);
    /* NULL, or: phase 0 of both, which read the same in[0], would fill `shared` alike, so that b may
     * do without (its items[0] become 0) and use a's. Asked of set up calls that run side by side. */
    bool (*same_first_phase)(const zt_cpu_call *a, const zt_cpu_call *b);
    /* NULL, or: the packed weights that items begin..end-1 of the last phase read, in that order, one
     * piece or more where there are several weights; returns how many. So a thread that waits for
     * other work can bring them into its caches. */
    int (*prefetch)(const zt_cpu_call *call, int64_t begin, int64_t end, zt_cpu_prefetch piece[ZT_CPU_PREFETCH_PIECES]);
    /* NULL, or the same for states that items of the first phase read, where integer inputs say which these are. Called
     * while a replay runs, if those inputs are there from its beginning. Returns the next piece; false: there are no more.
     * *turn is 0 for the first piece and the kernel's own after that. */
    bool (*prefetch_states)(const zt_cpu_call *call, int64_t begin, int64_t end, int64_t *turn, zt_cpu_prefetch *piece);
    bool uneven; /* items differ in what they cost: cut into more parts, of one item if they are few */
} zt_cpu_kernel; /* lists end with run NULL */

struct zt_cpu_call {
    const zt_cpu_kernel *kernel;
    zt_op op;
    const void *attrs;
    zt_cpu_arg in[ZT_MAX_IN], out[ZT_MAX_OUT];
    int n_phases;                     /* set by setup; 1 unless it says else */
    int64_t items[ZT_CPU_MAX_PHASES]; /* set by setup */
    size_t shared_bytes, local_bytes; /* set by setup; scratch of the call, and of each thread */
    void *shared;                     /* 64-byte aligned; lives for the call only */
    size_t keep_bytes;                /* set by setup; 0: no keep */
    void *keep;                       /* 64-byte aligned; filled by prime before the first run */
    int64_t aux[8];                   /* the kernel's own notes from setup */
    zt_cpu_tile tile;                 /* the engine's */
    zt_runtime_error error;           /* set through zt_cpu_runtime_error */
    zt_cpu_call *inner;               /* of convert_operands.c: the call in f32; NULL else */
};

/* Notes the first error of a call; from any thread. */
void zt_cpu_runtime_error(zt_cpu_call *call, const char *what, int64_t value, int64_t limit);

/* The lists: one per file of kernels in isa/ and instruction set, zt_cpu_FILE_ISA. */
// clang-format off
#define ZT_CPU_FAMILIES(X)                                                                         \
    X(argmax) X(attention) X(attention_indexed) X(causal_conv) X(causal_conv_back) X(conv)         \
    X(conv_filter) X(delta_rule) X(delta_rule_back) X(elementwise_binary) X(elementwise_bits)      \
    X(elementwise_cast) X(elementwise_compare) X(elementwise_logic) X(elementwise_unary) X(expert) \
    X(hadamard) X(index) X(kv_cache) X(linear) X(linear_fused) X(loss) X(matmul) X(matmul_weight) X(norm) X(norm_channels) \
    X(pad) X(pointwise) X(pool) X(quant) X(random) X(recurrent) X(recurrent_back) X(reduce)        \
    X(rope) X(sample) X(scan) X(selective_scan) X(selective_scan_back) X(sdpa) X(sdpa_grad) X(shape) X(shape_like) X(slice) X(softmax)      \
    X(spectral) X(topk) X(triangular) X(wkv7) X(wkv7_back)
// clang-format on
#define X(f)                                                                                                                     \
    extern const zt_cpu_kernel zt_cpu_##f##_scalar[], zt_cpu_##f##_avx2[], zt_cpu_##f##_avx512[], zt_cpu_##f##_neon[],           \
        zt_cpu_##f##_dotprod[];
ZT_CPU_FAMILIES(X)
#undef X

#endif
