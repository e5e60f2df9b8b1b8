/* plan_check.c - owns the checks of what a plan states: the same split, a place for every value that
 * needs one and for no other, and no two values on the same bytes while both are needed. */
#include "lib/run/partition.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

zt_status zt_plan_layout_parts(const zt_plan_layout *layout, const zt_partition *partition, const zt_chain *chain)
{
    zt_ctx *ctx = chain->engines[0]->ctx;
    if (layout->n_splits != partition->n_segments)
        return zt_fail(ctx, ZT_EDATA, "%s: the plan has %d partitions, but its program needs %d", layout->where, layout->n_splits,
                       partition->n_segments);
    for (int i = 0; i < layout->n_splits; i++) {
        const zt_plan_layout_part *part = &layout->split[i];
        const zt_segment *segment = &partition->segments[i];
        const char *engine = segment->engine ? chain->names[segment->engine] : layout->engine;
        if (part->first == segment->first && part->last == segment->last && !strcmp(part->engine, engine)) continue;
        return zt_fail(ctx, ZT_EDATA, "%s: the plan has partition %s %d..%d, but its program needs %s %d..%d", layout->where,
                       part->engine, part->first, part->last, engine, segment->first, segment->last);
    }
    return ZT_OK;
}

/* One segment's places against its live ranges. */
typedef struct place_check {
    const zt_plan_layout *layout;
    const zt_prog *program;
    zt_ctx *ctx;
    const zt_plan_layout_place **places; /* [values]: the place in the plan file, or NULL */
    const int *heirs;
} place_check;

static zt_status refuse_place(const place_check *check, int value_id, const char *wrong)
{
    return zt_fail(check->ctx, ZT_EDATA, "%s: value '%s' %s", check->layout->where, zt_prog_value(check->program, value_id)->name,
                   wrong);
}

static zt_status note_places(const place_check *check, const zt_plan_layout_part *split, zt_status status)
{
    for (int i = 0; i < split->n_places && !status; i++) {
        const zt_plan_layout_place *place = &check->layout->places[split->first_place + i];
        if (check->places[place->value]) status = refuse_place(check, place->value, "has two offsets");
        check->places[place->value] = place;
    }
    return status;
}

static zt_status use_stated_offset(const place_check *check, zt_live_range *range, size_t *end)
{
    const zt_plan_layout_place *place = check->places[range->root];
    if (!place) return refuse_place(check, range->root, "has no offset");
    if (place->over >= 0) return refuse_place(check, range->root, "cannot share the memory of another value");
    if (place->bytes != range->bytes) return refuse_place(check, range->root, "has another size in the program");
    if (place->offset % ALIGN || place->offset > SIZE_MAX - place->bytes)
        return refuse_place(check, range->root, "has an invalid offset");
    range->offset = place->offset;
    if (place->offset + place->bytes > *end) *end = place->offset + place->bytes;
    return ZT_OK;
}

/* Those that took over another's bytes say so. */
static zt_status check_heirs(const place_check *check, int n_values, int *heir_count)
{
    for (int value_id = 0; value_id < n_values; value_id++) {
        const zt_plan_layout_place *place = check->places[value_id];
        if (check->heirs[value_id] < 0) continue;
        ++*heir_count;
        if (!place) return refuse_place(check, value_id, "has no offset");
        const zt_plan_layout_place *under = check->places[check->heirs[value_id]];
        if (place->over != check->heirs[value_id] || !under || under->offset != place->offset || under->bytes != place->bytes)
            return refuse_place(check, value_id, "does not share the memory of the value it was donated");
    }
    return ZT_OK;
}

static int by_birth(const void *left, const void *right)
{
    const zt_live_range *left_range = left, *right_range = right;
    return left_range->born != right_range->born ? left_range->born - right_range->born : left_range->root - right_range->root;
}

/* In the order of birth, beside those alive, which are sorted by offset. */
static zt_status check_overlaps(const place_check *check, zt_live_range *ranges, int range_count, int *alive)
{
    int n_near = 0;
    qsort(ranges, (size_t)range_count, sizeof *ranges, by_birth);
    for (int range_index = 0; range_index < range_count; range_index++) {
        int kept = 0, position;
        for (int k = 0; k < n_near; k++)
            if (ranges[alive[k]].dies >= ranges[range_index].born) alive[kept++] = alive[k];
        for (position = kept; position > 0 && ranges[alive[position - 1]].offset > ranges[range_index].offset; position--)
            alive[position] = alive[position - 1];
        alive[position] = range_index;
        n_near = kept + 1;
        int other = -1;
        if (position > 0 && ranges[alive[position - 1]].offset + ranges[alive[position - 1]].bytes > ranges[range_index].offset)
            other = alive[position - 1];
        if (position < kept && ranges[range_index].offset + ranges[range_index].bytes > ranges[alive[position + 1]].offset)
            other = alive[position + 1];
        if (other < 0) continue;
        return zt_fail(check->ctx, ZT_EDATA, "%s: values '%s' and '%s' overlap", check->layout->where,
                       zt_prog_value(check->program, ranges[other].root)->name,
                       zt_prog_value(check->program, ranges[range_index].root)->name);
    }
    return ZT_OK;
}

zt_status zt_plan_layout_apply(const zt_plan_layout *layout, const zt_partition *partition, int segment_index,
                               const zt_bound *bound, zt_live_range *ranges, int range_count, size_t *arena_bytes,
                               size_t *liveness_bytes)
{
    const zt_plan_layout_part *split = &layout->split[segment_index];
    place_check check = {
        .layout = layout, .program = bound->prog, .ctx = layout->ctx, .heirs = partition->segments[segment_index].over};
    size_t values = (size_t)bound->n_values + 1, end = 0;
    int n_heirs = 0;
    check.places = zt_arena_alloc(partition->memory, values * sizeof *check.places);
    int *near = zt_arena_alloc(partition->memory, ((size_t)range_count + 1) * sizeof *near);
    if (!check.places || !near) return ZT_ENOMEM;
    memset(check.places, 0, values * sizeof *check.places);
    zt_status status = note_places(&check, split, ZT_OK);
    for (int range_index = 0; range_index < range_count && !status; range_index++)
        status = use_stated_offset(&check, &ranges[range_index], &end);
    if (!status) status = check_heirs(&check, bound->n_values, &n_heirs);
    if (!status && range_count + n_heirs != split->n_places)
        status = zt_fail(check.ctx, ZT_EDATA, "%s: the plan has %d offsets, but %d values need one", layout->where,
                         split->n_places, range_count + n_heirs);
    if (!status && end != split->arena)
        status = zt_fail(check.ctx, ZT_EDATA, "%s: the arena has %zu bytes, but its values need %zu", layout->where, split->arena,
                         end);
    if (!status) status = check_overlaps(&check, ranges, range_count, near);
    *arena_bytes = split->arena;
    *liveness_bytes = split->bound;
    return status;
}
