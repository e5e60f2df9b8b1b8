/* blocks.c - finding what repeats in a program.
 *
 * Two steps are alike at distance d when they do the same and their inputs lie as far back or are
 * one value. A stretch in which every step is like the one d later is a block of d steps, repeated;
 * only the first repetition may take from anywhere before it what the others take from the one
 * before them. The widest is taken first, of those as wide the one with the shortest block; then
 * what is to the left of it and to the right.
 */
#include "tools/zt-trace/blocks.h"

#include <stdlib.h>
#include <string.h>

/* Pairs of steps that are compared: a program of a million steps is not looked at for long. */
static const int64_t MOST_WORK = 20000000;

typedef struct block_finder {
    const zt_prog *program;
    trace_blocks *blocks;
    int64_t work; /* that is left */
} block_finder;

static bool same_dims(const zt_type *first, const zt_type *second)
{
    return first->rank == second->rank && !memcmp(first->dim, second->dim, (size_t)first->rank * sizeof first->dim[0]);
}

/* Which of its step's outputs it is. */
static int output_number(const zt_prog *program, const zt_value *value, int number)
{
    const zt_step *step = zt_prog_step(program, value->index);
    int k = 0;
    while (k < ZT_MAX_OUT - 1 && step->out[k] != number) k++;
    return k;
}

/* Inputs first_value and second_value of steps `size` apart. first: the block's first step, if the
 * former step is in the first repetition; else -1. */
static bool values_alike(const zt_prog *program, int first_value, int second_value, int size, int first)
{
    if (first_value == second_value) return true;
    if (first_value < 0 || second_value < 0) return false;
    const zt_value *value = zt_prog_value(program, first_value), *other = zt_prog_value(program, second_value);
    int from = value->kind == ZT_VALUE_OP ? value->index : -1;
    if (first >= 0 && other->kind == ZT_VALUE_OP && from < first)
        return other->index >= first && other->index < first + size && value->kind != ZT_VALUE_DATA;
    if (value->kind != other->kind || value->kind == ZT_VALUE_IN) return false;
    if (value->kind != ZT_VALUE_OP) return same_dims(&value->type, &other->type);
    return other->index - value->index == size &&
           output_number(program, value, first_value) == output_number(program, other, second_value);
}

/* Strings are compared by their letters. */
static bool same_attrs(const zt_opinfo *op_info, const void *left, const void *right)
{
    char left_copy[ZT_MAX_ATTR_BYTES], right_copy[ZT_MAX_ATTR_BYTES];
    memcpy(left_copy, left, op_info->attr_bytes);
    memcpy(right_copy, right, op_info->attr_bytes);
    for (int attr_index = 0; attr_index < op_info->n_attrs; attr_index++) {
        const char *left_text, *right_text, *no_text = NULL;
        size_t offset = op_info->attrs[attr_index].offset;
        if (op_info->attrs[attr_index].kind != ZT_ATTR_str) continue;
        memcpy(&left_text, left_copy + offset, sizeof left_text);
        memcpy(&right_text, right_copy + offset, sizeof right_text);
        if (left_text != right_text && (!left_text || !right_text || strcmp(left_text, right_text))) return false;
        memcpy(left_copy + offset, &no_text, sizeof no_text);
        memcpy(right_copy + offset, &no_text, sizeof no_text);
    }
    return !memcmp(left_copy, right_copy, op_info->attr_bytes);
}

static bool steps_alike(block_finder *finder, int step_index, int size, int first)
{
    const zt_step *former = zt_prog_step(finder->program, step_index), *latter = zt_prog_step(finder->program, step_index + size);
    const zt_opinfo *op_info = zt_op_info(former->op);
    finder->work--;
    if (former->op != latter->op || !same_attrs(op_info, former->attrs, latter->attrs)) return false;
    for (int input = 0; input < op_info->n_in; input++)
        if (!values_alike(finder->program, former->in[input], latter->in[input], size, step_index < first + size ? first : -1))
            return false;
    for (int output = 0; output < op_info->n_out; output++)
        if ((former->out[output] < 0) != (latter->out[output] < 0)) return false;
    return true;
}

static int block_extent(const trace_block *block) { return block->size * block->times; }

/* The widest block of steps [from, to) with `size` steps. */
static trace_block widest_of(block_finder *finder, int from, int to, int size)
{
    trace_block best = {from, size, 0};
    for (int first = from; first + 2 * size <= to && finder->work > 0;) {
        int next_step = first;
        while (next_step + size < to && steps_alike(finder, next_step, size, first)) next_step++;
        trace_block block = {first, size, (next_step - first) / size + 1};
        if (block.times > 1 && block_extent(&block) > block_extent(&best)) best = block;
        first = block.times > 1 ? first + block_extent(&block) : first + 1;
    }
    return best;
}

static zt_status add_block(trace_blocks *blocks, trace_block one)
{
    trace_block *grown = zt_realloc(blocks->ctx, blocks->blocks, ((size_t)blocks->count + 1) * sizeof *grown);
    if (!grown) return ZT_ENOMEM;
    blocks->blocks = grown;
    grown[blocks->count++] = one;
    return ZT_OK;
}

/* In [from, to), appended in order; no deeper than `depth`. */
static zt_status find_blocks(block_finder *finder, int from, int to, int depth)
{
    trace_block best = {from, 1, 0};
    for (int size = 1; size <= (to - from) / 2 && finder->work > 0; size++) {
        trace_block one = widest_of(finder, from, to, size);
        if (block_extent(&one) > block_extent(&best)) best = one;
    }
    if (block_extent(&best) < 4 || depth == 0) return ZT_OK;
    zt_status status = find_blocks(finder, from, best.first, depth - 1);
    if (!status) status = add_block(finder->blocks, best);
    return status ? status : find_blocks(finder, best.first + block_extent(&best), to, depth - 1);
}

zt_status trace_blocks_find(zt_ctx *ctx, const zt_prog *program, trace_blocks *blocks)
{
    block_finder finder = {program, blocks, MOST_WORK};
    *blocks = (trace_blocks){.ctx = ctx};
    zt_status status = find_blocks(&finder, 0, zt_prog_n_steps(program), 4);
    if (status) trace_blocks_free(blocks);
    return status;
}

void trace_blocks_free(trace_blocks *blocks)
{
    zt_free(blocks->ctx, blocks->blocks);
    blocks->blocks = NULL;
    blocks->count = 0;
}

const trace_block *trace_block_of(const trace_blocks *blocks, int step_index)
{
    for (int block_index = 0; block_index < blocks->count; block_index++)
        if (step_index >= blocks->blocks[block_index].first &&
            step_index < blocks->blocks[block_index].first + block_extent(&blocks->blocks[block_index]))
            return &blocks->blocks[block_index];
    return NULL;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* Letters of "blk.17" in "blk.17.attn_q.weight"; 0: no part is a number. */
static size_t numbered_prefix(const char *name)
{
    for (const char *part = name; *part; part += *part == '.') {
        size_t length = strcspn(part, ".");
        if (length && strspn(part, "0123456789") == length) return (size_t)(part - name) + length;
        part += length;
    }
    return 0;
}

typedef struct layer_search {
    zt_ctx *ctx;
    const zt_prog *program;
    trace_layers *layers;
    zt_map *known; /* name to number */
} layer_search;

static int layer_named(layer_search *search, const char *name, size_t length)
{
    int64_t found;
    if (zt_map_get(search->known, name, length, &found)) return (int)found;
    char *copy = zt_arena_strndup(search->layers->memory, name, length);
    if (!copy || zt_map_put(search->known, copy, length, search->layers->count)) return -1;
    search->layers->names[search->layers->count] = copy;
    return search->layers->count++;
}

/* -1: no memory. */
static int layer_of_step(layer_search *search, int step_index)
{
    const zt_step *step = zt_prog_step(search->program, step_index);
    int latest = 0, own = -1;
    bool reads = false;
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++) {
        if (step->in[input] < 0) continue;
        const zt_value *value = zt_prog_value(search->program, step->in[input]);
        size_t length = value->kind == ZT_VALUE_DATA ? numbered_prefix(value->tensor) : 0;
        if (length && (own = layer_named(search, value->tensor, length)) < 0) return -1;
        reads = reads || value->kind == ZT_VALUE_DATA;
        if (value->kind == ZT_VALUE_OP && search->layers->of_step[value->index] > latest)
            latest = search->layers->of_step[value->index];
    }
    return own >= 0 ? own : reads ? 0 : latest;
}

/* No name has a layer: each repetition of a block is one. */
static zt_status layers_of_blocks(layer_search *search)
{
    trace_blocks blocks;
    char name[24];
    zt_status status = trace_blocks_find(search->ctx, search->program, &blocks);
    for (int block_index = 0, made = 0; block_index < blocks.count && !status; block_index++) {
        for (int repetition = 0; repetition < blocks.blocks[block_index].times && !status; repetition++) {
            snprintf(name, sizeof name, "#%d", made++);
            int layer = layer_named(search, name, strlen(name));
            if (layer < 0) status = ZT_ENOMEM;
            for (int k = 0; k < blocks.blocks[block_index].size && !status; k++)
                search->layers->of_step[blocks.blocks[block_index].first + repetition * blocks.blocks[block_index].size + k] =
                    layer;
        }
    }
    trace_blocks_free(&blocks);
    return status;
}

static zt_status find_layers(layer_search *search)
{
    int step_count = zt_prog_n_steps(search->program);
    for (int step_index = 0; step_index < step_count; step_index++) {
        search->layers->of_step[step_index] = 0;
        int layer = layer_of_step(search, step_index);
        if (layer < 0) return ZT_ENOMEM;
        search->layers->of_step[step_index] = layer;
    }
    return search->layers->count > 1 ? ZT_OK : layers_of_blocks(search);
}

zt_status trace_layers_find(zt_ctx *ctx, const zt_prog *program, trace_layers *layers)
{
    size_t step_count = (size_t)zt_prog_n_steps(program);
    layer_search search = {ctx, program, layers, zt_map_new(ctx, 64)};
    *layers = (trace_layers){.memory = zt_arena_new(ctx, 0), .count = 1};
    if (layers->memory) {
        layers->of_step = zt_arena_alloc(layers->memory, (step_count + 1) * sizeof *layers->of_step);
        layers->names = zt_arena_alloc(layers->memory, (step_count * ZT_MAX_IN + 2) * sizeof *layers->names);
    }
    zt_status status = search.known && layers->of_step && layers->names ? ZT_OK : ZT_ENOMEM;
    if (!status) {
        layers->names[0] = "other";
        status = find_layers(&search);
    }
    zt_map_free(search.known);
    if (status) trace_layers_free(layers);
    return status;
}

void trace_layers_free(trace_layers *layers)
{
    zt_arena_free(layers->memory);
    *layers = (trace_layers){0};
}
