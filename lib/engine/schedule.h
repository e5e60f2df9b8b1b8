/* schedule.h - for engines with devices: the places of a schedule's inputs, or outputs, one behind the
 * other in memory that a replay fills or reads at once. */
#ifndef ZT_ENGINE_SCHEDULE_H
#define ZT_ENGINE_SCHEDULE_H

#include "lib/engine/engine.h"

typedef struct zt_layout {
    size_t *at, *bytes; /* [n], in the arena; bytes 0: an input that no value of the schedule is */
} zt_layout;

/* Of the count places of `kind`, from *total on, which grows by what they take; each begins at a
 * multiple of `align`, a power of two. ZT_ENOMEM where they are more than there can be. */
zt_status zt_run_schedule_lay_out(zt_ctx *ctx, zt_arena *arena, const zt_run_schedule *schedule, zt_place_kind kind, int count,
                                  size_t align, zt_layout *layout, size_t *total);

#endif
