/* state_back.h - private to isa/: the gradient of a recurrence over rows of sequences, of one item's part of the state
 * (lib/ops/state_back.h has the meaning).
 *
 * Two passes. Forward, the world before every L-th row is stored, where a world is the state that a continuing row finds
 * and those of all slots. Backward, L rows at a time, the states before these rows are computed from the world before the
 * first of them, then the rows are visited from the last to the first. With L near the root of the number of rows, about
 * twice that many states are in memory.
 *
 *   memory   worlds [rows/L, 1+slots, size], states [L, size], the current world and its cotangents [1+slots, size] each
 */
#ifndef ZT_CPU_STATE_BACK_H
#define ZT_CPU_STATE_BACK_H

#include "lib/engine/cpu/isa/simd.h"
#include "lib/engine/cpu/isa/state_rows.h"

typedef struct state_back {
    state_rows from_to;
    int64_t rows, slots, size; /* size: floats of the item's part of a slot */
    void *user;
    /* The item's part of a slot of `from`, which has the state's type, and back. */
    void (*load)(const void *user, const float *from, int64_t slot, float *part);
    void (*store)(const void *user, float *to, int64_t slot, const float *part);
    void (*step)(void *user, int64_t r, float *state);
    void (*back)(void *user, int64_t r, const float *before, float *cotangent);
} state_back;

static int64_t state_back_length(int64_t rows)
{
    int64_t length = 1;
    while (length * length < rows) length++;
    return length;
}

static size_t state_back_floats(int64_t rows, int64_t slots, int64_t size)
{
    int64_t length = state_back_length(rows), segments = (rows + length - 1) / length;
    return (size_t)(((segments + 2) * (1 + slots) + length) * size);
}

/* The state before row r, at world[0]. */
static void state_back_start(const state_back *of, zt_cpu_call *call, int64_t r, float *world)
{
    int64_t start = state_row_from(&of->from_to, call, r);
    size_t bytes = (size_t)of->size * sizeof *world;
    if (start == STATE_ZEROS) memset(world, 0, bytes);
    if (start >= 0) memcpy(world, world + (1 + start) * of->size, bytes);
}

/* Row r of a world: from the state before it, as state_back_start left it, to the world after it. */
static void state_back_step(const state_back *of, zt_cpu_call *call, int64_t r, float *world)
{
    int64_t end = state_row_to(&of->from_to, call, r);
    of->step(of->user, r, world);
    if (end >= 0) memcpy(world + (1 + end) * of->size, world, (size_t)of->size * sizeof *world);
}

/* Cotangents of the world after row r become those of the world before it. */
static void state_back_row(const state_back *of, zt_cpu_call *call, int64_t r, const float *before, float *cotangents)
{
    int64_t end = state_row_to(&of->from_to, call, r), start = state_row_from(&of->from_to, call, r);
    float *slot = cotangents + (1 + end) * of->size;
    for (int64_t i = 0; i < of->size && end >= 0; i++) {
        cotangents[i] += slot[i];
        slot[i] = 0;
    }
    of->back(of->user, r, before, cotangents);
    slot = cotangents + (1 + start) * of->size;
    for (int64_t i = 0; i < of->size && start >= 0; i++) slot[i] += cotangents[i];
    if (start != STATE_CONTINUED) memset(cotangents, 0, (size_t)of->size * sizeof *cotangents);
}

/* Rows first..last-1, from the world before them. */
static void state_back_segment(const state_back *of, zt_cpu_call *call, int64_t first, int64_t last, float *world, float *states,
                               float *cotangents)
{
    for (int64_t r = first; r < last; r++) {
        state_back_start(of, call, r, world);
        memcpy(states + (r - first) * of->size, world, (size_t)of->size * sizeof *states);
        state_back_step(of, call, r, world);
    }
    for (int64_t r = last; r-- > first;) state_back_row(of, call, r, states + (r - first) * of->size, cotangents);
}

/* `state` as the step found it; dstate1 NULL: zeros; dstate NULL: not wanted. */
static void state_back_run(const state_back *of, zt_cpu_call *call, const float *state, const float *dstate1, float *dstate,
                           float *memory)
{
    int64_t length = state_back_length(of->rows), segments = (of->rows + length - 1) / length, world = (1 + of->slots) * of->size;
    float *worlds = memory, *current = worlds + segments * world, *cotangents = current + world, *states = cotangents + world;
    memset(current, 0, (size_t)of->size * sizeof *current);
    memset(cotangents, 0, (size_t)world * sizeof *cotangents);
    for (int64_t slot = 0; slot < of->slots; slot++) {
        of->load(of->user, state, slot, current + (1 + slot) * of->size);
        if (dstate1) of->load(of->user, dstate1, slot, cotangents + (1 + slot) * of->size);
    }
    for (int64_t r = 0; r < of->rows; r++) {
        if (r % length == 0) memcpy(worlds + r / length * world, current, (size_t)world * sizeof *worlds);
        state_back_start(of, call, r, current);
        state_back_step(of, call, r, current);
    }
    for (int64_t i = segments; i-- > 0;)
        state_back_segment(of, call, i * length, (i + 1) * length < of->rows ? (i + 1) * length : of->rows, worlds + i * world,
                           states, cotangents);
    for (int64_t slot = 0; slot < of->slots && dstate; slot++)
        of->store(of->user, dstate, slot, cotangents + (1 + slot) * of->size);
}

#endif
