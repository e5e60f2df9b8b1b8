/* memory.c - zt-trace memory: the arena as the plan lays it out. A map, steps from left to right
 * and offsets upwards, on which each value is a rectangle from the step that makes it to the last
 * that reads it; below it how many bytes are alive at each step, with the arena's size and the
 * lower bound that no plan comes below. As SVG, or with --format as a table of the values.
 *
 * A view is its base's bytes, and an op in place hands its input's on: neither counts twice.
 * Nothing is run, the program is only prepared.
 */
#include "tools/common/svg.h"
#include "tools/zt-trace/profile.h"

#include <inttypes.h>
#include <string.h>

typedef struct live_range {
    int value;
    int born, dies; /* steps of all parts together, inclusive */
    size_t offset, bytes;
} live_range;

typedef struct memory_map {
    zt_cli *cli;
    trace_profile profile;
    live_range *ranges; /* [n], by born */
    int range_count;
    int *range_of;         /* [values]: the life of a value, -1: none */
    const zt_step **steps; /* [n_steps] as they run */
    int n_steps;
    size_t *alive_bytes; /* [n_steps] bytes */
    size_t arena, bound, peak;
    int peak_at;
} memory_map;

/* ---- lives ----------------------------------------------------------------------------------- */

enum { ALIGN = 64 }; /* of values in an arena: lib/run/partition.c */

static size_t align_size(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static void use_value(memory_map *map, int value, int step_index)
{
    if (value >= 0 && map->range_of[value] >= 0) map->ranges[map->range_of[value]].dies = step_index;
}

/* An input whose bytes an output takes over is not alive beside it. */
static void hand_on(memory_map *map, const zt_step *step, size_t offset, int step_index)
{
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++) {
        live_range *range =
            step->in[input] >= 0 && map->range_of[step->in[input]] >= 0 ? &map->ranges[map->range_of[step->in[input]]] : NULL;
        if (range && range->offset == offset && range->dies == step_index && range->born < step_index)
            range->dies = step_index - 1;
    }
}

/* Output k of step `at`: its base's life, or one of its own. */
static void make_range(memory_map *map, const zt_session_part *part, const zt_step *step, int k, int step_index)
{
    int value_id = step->out[k];
    if (value_id < 0) return;
    if (k < zt_op_shares(step->op)) {
        map->range_of[value_id] = map->range_of[step->in[k]];
        return;
    }
    const zt_place *place = &part->schedule->place[value_id];
    if (place->kind != ZT_PLACE_ARENA) return;
    hand_on(map, step, place->offset, step_index);
    map->range_of[value_id] = map->range_count;
    map->ranges[map->range_count++] =
        (live_range){.value = value_id,
                     .born = step_index,
                     .dies = step_index,
                     .offset = place->offset,
                     .bytes = align_size(part->engine->vt->value_bytes(part->engine, &part->schedule->type[value_id]))};
}

static void find_ranges(memory_map *map)
{
    for (int value_id = 0; value_id < map->profile.bound->n_values; value_id++) map->range_of[value_id] = -1;
    for (int part_index = 0; part_index < zt_session_parts(map->profile.session); part_index++) {
        zt_session_part part = zt_session_part_at(map->profile.session, part_index);
        if (part.schedule->arena_bytes > map->arena) {
            map->arena = part.schedule->arena_bytes;
            map->bound = part.liveness_bytes;
        }
        for (int step_index = 0; step_index < part.schedule->n_steps; step_index++, map->n_steps++) {
            const zt_step *step = &part.schedule->step[step_index];
            map->steps[map->n_steps] = step;
            for (int input = 0; input < zt_op_info(step->op)->n_in; input++) use_value(map, step->in[input], map->n_steps);
            for (int output = 0; output < zt_op_info(step->op)->n_out; output++)
                make_range(map, &part, step, output, map->n_steps);
        }
    }
}

/* As differences at the ends, then summed up. */
static void find_peak(memory_map *map)
{
    for (int range_index = 0; range_index < map->range_count; range_index++) {
        map->alive_bytes[map->ranges[range_index].born] += map->ranges[range_index].bytes;
        map->alive_bytes[map->ranges[range_index].dies + 1] -= map->ranges[range_index].bytes; /* wraps, and back in the sum */
    }
    for (int step_index = 0; step_index < map->n_steps; step_index++) {
        if (step_index) map->alive_bytes[step_index] += map->alive_bytes[step_index - 1];
        if (map->alive_bytes[step_index] <= map->peak) continue;
        map->peak = map->alive_bytes[step_index];
        map->peak_at = step_index;
    }
}

static zt_status find_map(memory_map *map)
{
    zt_ctx *ctx = map->cli->ctx;
    size_t values = (size_t)map->profile.bound->n_values + 1;
    size_t steps = (size_t)zt_prog_n_steps(map->profile.program) + 2;
    map->ranges = zt_calloc(ctx, values, sizeof *map->ranges);
    map->range_of = zt_calloc(ctx, values, sizeof *map->range_of);
    map->steps = zt_calloc(ctx, steps, sizeof *map->steps);
    map->alive_bytes = zt_calloc(ctx, steps, sizeof *map->alive_bytes);
    if (!map->ranges || !map->range_of || !map->steps || !map->alive_bytes) return ZT_ENOMEM;
    find_ranges(map);
    find_peak(map);
    return ZT_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { N_COLUMNS = 7 };
static const char *const columns[N_COLUMNS] = {"value", "op", "type", "#first", "#last", "#offset", "#bytes"};

static zt_status put_range(const memory_map *map, zt_table *table, const live_range *range)
{
    char type[ZT_TYPE_TEXT], number[4][24];
    snprintf(number[0], 24, "%d", range->born);
    snprintf(number[1], 24, "%d", range->dies);
    snprintf(number[2], 24, "%zu", range->offset);
    snprintf(number[3], 24, "%zu", range->bytes);
    const char *cell[N_COLUMNS] = {zt_prog_value(map->profile.program, range->value)->name,
                                   zt_op_info(map->steps[range->born]->op)->name,
                                   zt_type_text(&map->profile.bound->type[range->value], type),
                                   number[0],
                                   number[1],
                                   number[2],
                                   number[3]};
    return zt_table_row(table, cell);
}

static zt_status put_table(memory_map *map)
{
    zt_table *table = zt_table_new(map->cli, "trace.memory", columns, N_COLUMNS);
    zt_status status = table ? ZT_OK : zt_ctx_status(map->cli->ctx);
    for (int range_index = 0; range_index < map->range_count && !status; range_index++)
        status = put_range(map, table, &map->ranges[range_index]);
    if (!status) status = trace_print(map->cli, table);
    zt_table_free(table);
    return status;
}

/* ---- the drawing ----------------------------------------------------------------------------- */

enum { WIDTH = 1080, LEFT = 96, INNER = 960, TOP = 76, MAP = 420, LINE_TOP = 560, LINE = 150 };

/* A colour for each family of ops, by the order in which they come. */
typedef struct family_legend {
    const char *family[16];
    int count;
} family_legend;

static int family_colour(family_legend *legend, zt_op op)
{
    const char *family = zt_op_family(op);
    for (int i = 0; i < legend->count; i++)
        if (!strcmp(legend->family[i], family)) return i;
    if (legend->count < 16) legend->family[legend->count++] = family;
    return legend->count - 1;
}

static void put_legend(const family_legend *legend, zt_str *output_text)
{
    double left = LEFT;
    for (int i = 0; i < legend->count; i++) {
        zt_svg_rect(output_text, left, 54, 10, 10, zt_svg_colour((unsigned)i), NULL);
        zt_svg_text(output_text, left + 15, 63, ZT_SVG_SMALL, ZT_SVG_START, false, legend->family[i]);
        left += 34 + 6.6 * (double)strlen(legend->family[i]);
    }
}

/* A little less, so that a gap shows between neighbours. */
static double shrink_length(double length) { return length > 3 ? length - 0.6 : length; }

static void put_rectangles(const memory_map *map, const zt_svg_plot *plot, family_legend *legend, zt_str *output_text)
{
    zt_str title;
    zt_str_init(&title, map->cli->ctx);
    for (int range_index = 0; range_index < map->range_count; range_index++) {
        const live_range *range = &map->ranges[range_index];
        char type[ZT_TYPE_TEXT], bytes[24];
        double left = zt_svg_at_x(plot, range->born), top = zt_svg_at_y(plot, (double)(range->offset + range->bytes));
        zt_str_clear(&title);
        zt_str_printf(&title, "%s = %s, %s: %s at %zu, steps %d to %d", zt_prog_value(map->profile.program, range->value)->name,
                      zt_op_info(map->steps[range->born]->op)->name, zt_type_text(&map->profile.bound->type[range->value], type),
                      zt_svg_bytes((double)range->bytes, bytes), range->offset, range->born, range->dies);
        double width = zt_svg_at_x(plot, range->dies + 1) - left, height = zt_svg_at_y(plot, (double)range->offset) - top;
        zt_svg_rect(output_text, left, top, shrink_length(width), shrink_length(height),
                    zt_svg_colour((unsigned)family_colour(legend, map->steps[range->born]->op)), title.data);
    }
    zt_str_fini(&title);
}

/* Stairs: each step as wide as one. */
static zt_status put_line(const memory_map *map, const zt_svg_plot *plot, zt_str *output_text)
{
    double *points = zt_alloc_array(map->cli->ctx, 4 * (size_t)map->n_steps + 4, sizeof *points);
    size_t point_count = 0;
    if (!points) return ZT_ENOMEM;
    points[2 * point_count] = plot->x, points[2 * point_count++ + 1] = plot->y + plot->height;
    for (int step_index = 0; step_index < map->n_steps; step_index++)
        for (int end = 0; end < 2; end++, point_count++) {
            points[2 * point_count] = zt_svg_at_x(plot, step_index + end);
            points[2 * point_count + 1] = zt_svg_at_y(plot, (double)map->alive_bytes[step_index]);
        }
    points[2 * point_count] = plot->x + plot->width, points[2 * point_count++ + 1] = plot->y + plot->height;
    zt_svg_line(output_text, points, point_count, zt_svg_colour(0), 1.2, false, zt_svg_colour(0));
    zt_free(map->cli->ctx, points);
    return ZT_OK;
}

static void put_level(const zt_svg_plot *plot, double bytes, const char *colour, bool dashed, zt_str *output_text)
{
    double height = zt_svg_at_y(plot, bytes), points[] = {plot->x, height, plot->x + plot->width, height};
    zt_svg_line(output_text, points, 2, colour, 1.5, dashed, NULL);
}

static zt_status put_drawing(memory_map *map, const char *name, zt_str *output_text)
{
    char arena[24], bound[24], peak[24], text[512];
    double most = map->arena ? (double)map->arena : 1, steps = map->n_steps ? map->n_steps : 1;
    family_legend legend = {.count = 0};
    zt_svg_scale across = {.low = 0, .high = steps};
    zt_svg_plot top = {LEFT, TOP,    INNER,
                       MAP,  across, {.low = 0, .high = most, .unit = ZT_SVG_BYTES, .label = "offset in the arena"}};
    zt_svg_plot low = {LEFT, LINE_TOP, INNER,
                       LINE, across,   {.low = 0, .high = most * 1.08, .unit = ZT_SVG_BYTES, .label = "live bytes"}};
    low.across.label = "step";
    snprintf(text, sizeof text, "%.200s: arena %s, lower bound %s, peak of live bytes %s at step %d", name,
             zt_svg_bytes((double)map->arena, arena), zt_svg_bytes((double)map->bound, bound),
             zt_svg_bytes((double)map->peak, peak), map->peak_at);
    zt_svg_begin(output_text, WIDTH, LINE_TOP + LINE + 70, text);
    zt_svg_axes(output_text, &top);
    put_rectangles(map, &top, &legend, output_text);
    put_legend(&legend, output_text);
    zt_svg_axes(output_text, &low);
    zt_status status = put_line(map, &low, output_text);
    put_level(&low, (double)map->arena, zt_svg_colour(3), false, output_text);
    put_level(&low, (double)map->bound, zt_svg_colour(1), true, output_text);
    zt_svg_text(output_text, LEFT, LINE_TOP + LINE + 56, ZT_SVG_SMALL, ZT_SVG_START, false,
                "solid line: size of the arena; dashed line: lower bound");
    zt_svg_end(output_text);
    return status;
}

/* Without --format a drawing. */
static zt_status put_map(memory_map *map, const char *name)
{
    zt_str out;
    if (map->cli->format != ZT_FMT_AUTO) return put_table(map);
    zt_str_init(&out, map->cli->ctx);
    put_drawing(map, name, &out);
    return trace_write(map->cli, &out);
}

zt_status trace_memory(zt_cli *cli, const trace_options *options, char **operands, int operand_count)
{
    memory_map map = {.cli = cli};
    zt_prog *program = trace_program(cli, operands, operand_count);
    if (!program) return zt_ctx_status(cli->ctx);
    zt_status status = trace_profile_prepare(&map.profile, cli, options, program, operands, operand_count);
    if (!status) status = find_map(&map);
    if (!status) status = put_map(&map, operand_count > 0 ? operands[0] : "stdin");
    zt_free(cli->ctx, map.ranges);
    zt_free(cli->ctx, map.range_of);
    zt_free(cli->ctx, map.steps);
    zt_free(cli->ctx, map.alive_bytes);
    trace_profile_close(&map.profile);
    zt_prog_free(program);
    return status;
}
