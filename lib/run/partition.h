/* partition.h - private to lib/run: partitions a bound program between engines and places every value.
 *
 * Values that share memory have one root: the output of a view is its input, the output of an
 * op with a donated input is that state, and the value that a state keeps is the state, if it may
 * overwrite the old value. Only roots are placed.
 */
#ifndef ZT_RUN_PARTITION_H
#define ZT_RUN_PARTITION_H

#include "lib/run/plan_file.h"

/* The engine asked for and those it falls back to, opened when first needed. */
#define ZT_MAX_CHAIN 3
typedef struct zt_chain {
    zt_engine *engines[ZT_MAX_CHAIN]; /* [0] borrowed, the others owned; NULL: not opened yet */
    const char *names[ZT_MAX_CHAIN];
    int count;
    bool spills;          /* steps that exceed the memory of the first engine run on the next */
    bool skip_first;      /* pick past the first */
    bool *skip_first_for; /* [values of a program]: the same for steps that read this value; NULL: none */
} zt_chain;
void zt_chain_init(zt_chain *chain, zt_engine *engine);
void zt_chain_fini(zt_chain *chain);
/* The first engine of the chain that has a kernel: its index, or -1 with ZT_ENOTSUP (`strict`: the
 * first engine or nothing). input_types[k] NULL: absent. */
int zt_chain_pick(zt_chain *chain, bool strict, zt_op op, const void *attrs, const zt_type *const input_types[],
                  const zt_type *output_types);
/* May what failed with `status` on the first engine run on the next one? Then the error is logged as a
 * warning that names `what`, and cleared. */
bool zt_chain_spill(zt_chain *chain, bool strict, zt_status status, const char *what);

/* Steps [first, last) run by one engine. in and out name the values that cross its border. */
typedef struct zt_segment {
    int engine, first, last;
    int n_inputs, n_outputs, n_buffers;
    int *inputs, *outputs; /* roots, read from and written to host memory */
    int *buffers;          /* roots: data and states */
    zt_place *places;      /* [n_values], of every value used inside */
    int *over;             /* [n_values]: the root whose bytes it takes over, or -1 */
    size_t arena_bytes, liveness_bytes;
} zt_segment;

typedef struct zt_partition {
    zt_arena *memory; /* holds everything below */
    int *roots;       /* [n_values] */
    zt_step *steps;   /* [n_steps], attributes bound; none that only unwanted outputs need */
    int n_steps;
    bool *wanted; /* [the program's outputs] */
    int n_segments, fallbacks;
    zt_segment *segments;
} zt_partition;

/* A value's bytes in an arena, from the step that makes it to the last that reads it. */
typedef struct zt_live_range {
    int root;
    int born, dies; /* steps, inclusive */
    size_t bytes, offset;
} zt_live_range;

/* Offsets for live ranges within steps [first, last), which change places; the arena's size, and the most
 * bytes alive at once. */
zt_status zt_live_ranges_place(zt_arena *memory, zt_live_range *ranges, int range_count, int first, int last, size_t *arena_bytes,
                               size_t *liveness_bytes);

/* What a plan states (plan_file.h) for some numbers and wanted outputs. */
typedef struct zt_plan_layout_place {
    int value, over; /* over -1: bytes of its own */
    size_t offset, bytes;
} zt_plan_layout_place;

typedef struct zt_plan_layout_part {
    char engine[32];
    int first, last; /* steps of the partition, the last not in it */
    size_t arena, bound;
    int first_place, n_places; /* among the plan's places */
} zt_plan_layout_part;

typedef struct zt_plan_layout {
    zt_ctx *ctx;
    const char *where;  /* "plan.zt:412", for messages */
    const char *engine; /* the one asked for: it may run inside another, which watches it */
    int64_t symbols[ZT_MAX_SYMBOLS];
    bool *wanted; /* [the program's outputs] */
    int n_splits, first_split;
    const zt_plan_layout_part *split;
    const zt_plan_layout_place *places; /* of the whole plan */
} zt_plan_layout;

/* What it states for these symbols and outputs (as zt_partition_make's), or NULL. */
const zt_plan_layout *zt_plan_file_find(const zt_plan_file *plan, const int64_t *symbols, void *const *outputs);
int zt_plan_file_count(const zt_plan_file *plan);
const zt_plan_layout *zt_plan_file_nth(const zt_plan_file *plan, int i);

/* outputs: an output whose entry is NULL is not wanted; NULL: all are. layout: what must be decided, or
 * NULL. */
zt_status zt_partition_make(zt_partition *partition, zt_chain *chain, const zt_bound *bound, bool strict, void *const *outputs,
                            const zt_plan_layout *layout);
/* plan_check.c: is the partition as stated. Live ranges get the offsets stated for segment i; ZT_EDATA says what is
 * wrong with them. */
zt_status zt_plan_layout_parts(const zt_plan_layout *layout, const zt_partition *partition, const zt_chain *chain);
zt_status zt_plan_layout_apply(const zt_plan_layout *layout, const zt_partition *partition, int segment_index,
                               const zt_bound *bound, zt_live_range *ranges, int range_count, size_t *arena_bytes,
                               size_t *liveness_bytes);
void zt_partition_free(zt_partition *partition);

/* constant_data.c: a tensor whose name begins with @, computed from those of the store. */
bool zt_is_derived(const char *tensor);
zt_status zt_constant_data_read(zt_engine *engine, const char *name, const zt_type *wanted_type, const zt_store *store,
                                void *bytes);
zt_ebuf *zt_constant_data_load(zt_engine *engine, const char *name, const zt_type *wanted_type, const zt_store *store);

/* The handle of tensor `name` in a store: ZT_EDATA where there is none, or of another type. */
zt_status zt_store_weight(zt_ctx *ctx, const zt_store *store, const char *name, const zt_type *wanted_type, int64_t *handle);

#endif
