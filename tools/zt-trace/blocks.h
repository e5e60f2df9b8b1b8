/* blocks.h - private to zt-trace: what of a program repeats, and which layer a step belongs to. */
#ifndef ZT_TRACE_BLOCKS_H
#define ZT_TRACE_BLOCKS_H

#include "tools/common/cli.h"

/* Steps first .. first + size * times - 1 are `times` times the same `size` steps: the same ops and
 * attributes, inputs from as far back or from the same value, data and states of the same shape;
 * but what the others take from the repetition before them, the first takes from anywhere. */
typedef struct trace_block {
    int first, size, times;
} trace_block;

typedef struct trace_blocks {
    zt_ctx *ctx;
    trace_block *blocks; /* [n], in the order of the steps, disjoint */
    int count;
} trace_blocks;

zt_status trace_blocks_find(zt_ctx *ctx, const zt_prog *program, trace_blocks *blocks);
void trace_blocks_free(trace_blocks *blocks);
/* The block that the step is in; NULL: none. */
const trace_block *trace_block_of(const trace_blocks *blocks, int step_index);

/* The layer of each step: that of the data it reads, from the tensors' names ("blk.17." or
 * "model.layers.17.": up to the first part that is a number); of a step that reads none, the latest
 * of those its inputs come from. Where no name has a number, the repetitions of the blocks: "#0",
 * "#1"... What belongs to no layer is in "other". */
typedef struct trace_layers {
    zt_arena *memory;
    int *of_step;       /* [steps]: into name */
    const char **names; /* [n]; [0] is "other", the rest in order of appearance */
    int count;
} trace_layers;

zt_status trace_layers_find(zt_ctx *ctx, const zt_prog *program, trace_layers *layers);
void trace_layers_free(trace_layers *layers);

#endif
