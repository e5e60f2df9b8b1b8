/* stats.c - zt-trace stats: where the time of a program goes, per op, step, family or layer, and
 * how near to what the machine can do (lib/engine/roof.h) it went by.
 *
 * The least time of a step: its arithmetic at the rate of its kind of numbers, or its bytes at the
 * bandwidth of the level that holds them, whichever is longer: data and states where all of these
 * have room, the rest (activations) where the arena has. Its share of the roof is that time by the
 * time it took. Only of steps that ran on the cpu: that roof is the processor's.
 */
#include "tools/zt-trace/blocks.h"
#include "tools/zt-trace/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct stats_group {
    const char *name;
    int64_t count;
    double seconds, flops, bytes;
    double least, held; /* seconds at the roof, and those that they are held against */
    int step;           /* of TRACE_BY_STEP */
} stats_group;

typedef struct trace_stats_state {
    zt_cli *cli;
    trace_profile profile;
    trace_layers layers;
    zt_roof roof;
    const zt_roof_level *of_data, *of_rest;
    int by;
    stats_group *groups;            /* [n] */
    int group_count, *group_of_key; /* a group's place + 1; 0: not met yet */
    stats_group total;
} trace_stats_state;

/* ---- groups ---------------------------------------------------------------------------------- */

static const char *name_of(const trace_stats_state *stats, int step)
{
    const zt_step *source_step = zt_prog_step(stats->profile.program, step);
    switch (stats->by) {
    case TRACE_BY_STEP: return zt_prog_value(stats->profile.program, source_step->out[0])->name;
    case TRACE_BY_FAMILY: return zt_op_family(source_step->op);
    case TRACE_BY_LAYER: return stats->layers.names[stats->layers.of_step[step]];
    default: return zt_op_info(source_step->op)->name;
    }
}

/* The number of a step's group, below steps + layers + ops. */
static int key_of(const trace_stats_state *stats, int step)
{
    zt_op op = zt_prog_step(stats->profile.program, step)->op;
    switch (stats->by) {
    case TRACE_BY_STEP: return step;
    case TRACE_BY_LAYER: return stats->layers.of_step[step];
    case TRACE_BY_FAMILY: /* its first op */
        while (op > 0 && zt_op_family(op) == zt_op_family((zt_op)(op - 1))) op = (zt_op)(op - 1);
        return (int)op;
    default: return (int)op;
    }
}

static stats_group *group_of(trace_stats_state *stats, int step)
{
    int key = key_of(stats, step);
    if (!stats->group_of_key[key]) {
        stats->groups[stats->group_count] = (stats_group){.name = name_of(stats, step), .step = step};
        stats->group_of_key[key] = ++stats->group_count;
    }
    return &stats->groups[stats->group_of_key[key] - 1];
}

static void add_step(trace_stats_state *stats, stats_group *group, int step)
{
    zt_cost cost = zt_cost_of(stats->profile.bound, stats->profile.root, stats->profile.filled, step);
    double seconds = stats->profile.seconds[step];
    double rate = zt_roof_rate(&stats->roof, cost.kind) / cost.passes;
    double compute = cost.flops / rate,
           move = cost.data / stats->of_data->read[ZT_ROOF_ALL] + cost.rest / stats->of_rest->read[ZT_ROOF_ALL];
    bool cpu = !strcmp(stats->profile.ran_on[step], "cpu");
    group->count++;
    group->seconds += seconds;
    group->flops += cost.flops;
    group->bytes += cost.data + cost.rest;
    if (cpu) group->least += compute > move ? compute : move;
    if (cpu) group->held += seconds;
}

static int by_time(const void *left, const void *right)
{
    const stats_group *left_group = left, *right_group = right;
    if (left_group->seconds != right_group->seconds) return left_group->seconds < right_group->seconds ? 1 : -1;
    return left_group->step - right_group->step;
}

/* Views run nothing: they are no rows. */
static zt_status make_groups(trace_stats_state *stats)
{
    int step_count = zt_prog_n_steps(stats->profile.program);
    stats->groups = zt_calloc(stats->cli->ctx, (size_t)step_count + 1, sizeof *stats->groups);
    stats->group_of_key =
        zt_calloc(stats->cli->ctx, (size_t)step_count + (size_t)stats->layers.count + ZT_OP_COUNT, sizeof *stats->group_of_key);
    if (!stats->groups || !stats->group_of_key) return ZT_ENOMEM;
    for (int step_index = 0; step_index < step_count; step_index++) {
        if (zt_op_info(zt_prog_step(stats->profile.program, step_index)->op)->def->flags & ZT_OPF_VIEW) continue;
        add_step(stats, group_of(stats, step_index), step_index);
        add_step(stats, &stats->total, step_index);
    }
    qsort(stats->groups, (size_t)stats->group_count, sizeof *stats->groups, by_time);
    return ZT_OK;
}

/* ---- the roof -------------------------------------------------------------------------------- */

static zt_status measure_roof(trace_stats_state *stats)
{
    zt_roof_opts roof_options = {.threads = (int)stats->cli->threads, .isa = stats->cli->isa, .brief = true};
    zt_status status = zt_roof_measure(stats->cli->ctx, &roof_options, &stats->roof);
    size_t data = 0, rest = 0;
    if (status) return status;
    for (int value_id = 0; value_id < stats->profile.bound->n_values; value_id++) {
        zt_value_kind kind = zt_prog_value(stats->profile.program, value_id)->kind;
        if (kind == ZT_VALUE_DATA || kind == ZT_VALUE_STATE) data += zt_type_bytes(&stats->profile.bound->type[value_id]);
    }
    for (int part_index = 0; stats->profile.session && part_index < zt_session_parts(stats->profile.session); part_index++) {
        size_t arena = zt_session_part_at(stats->profile.session, part_index).schedule->arena_bytes;
        rest = arena > rest ? arena : rest;
    }
    stats->of_data = zt_roof_level_of(&stats->roof, data + rest);
    stats->of_rest = zt_roof_level_of(&stats->roof, rest);
    return ZT_OK;
}

static void report_roof(const trace_stats_state *stats)
{
    const zt_roof *roof = &stats->roof;
    char replay[96] = "";
    if (stats->profile.replay > 0) snprintf(replay, sizeof replay, "; unprofiled run: %.0f us", stats->profile.replay * 1e6);
    zt_cli_note(stats->cli,
                "roof, %d threads: f32 %.0f, bf16 %.0f, int8 %.0f G/s; data in %s %.1f, "
                "the rest in %s %.1f GB/s%s",
                roof->threads, zt_roof_rate(roof, ZT_ROOF_F32) / 1e9, zt_roof_rate(roof, ZT_ROOF_BF16) / 1e9,
                zt_roof_rate(roof, ZT_ROOF_INT8) / 1e9, stats->of_data->name, stats->of_data->read[ZT_ROOF_ALL] / 1e9,
                stats->of_rest->name, stats->of_rest->read[ZT_ROOF_ALL] / 1e9, replay);
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { N_COLUMNS = 10 };
static const char *const columns[N_COLUMNS] = {"name",   "#count",  "#us",       "#time_pct", "#flops",
                                               "#bytes", "#gflops", "#gb_per_s", "#roof_pct", "detail"};

/* A number, or nothing where there is none: 0 / 0. */
static void put_number(char text[32], const char *format, double number, bool present)
{
    text[0] = 0;
    if (present) snprintf(text, 32, format, number);
}

static zt_status put_row(const trace_stats_state *stats, zt_table *table, const stats_group *group, const char *detail)
{
    char count[32], us[32], share[32], flops[32], bytes[32], gflops[32], gbs[32], roof[32];
    snprintf(count, sizeof count, "%" PRId64, group->count);
    put_number(us, "%.2f", group->seconds * 1e6, true);
    put_number(share, "%.2f", 100 * group->seconds / stats->total.seconds, stats->total.seconds > 0);
    put_number(flops, "%.0f", group->flops, true);
    put_number(bytes, "%.0f", group->bytes, true);
    put_number(gflops, "%.2f", group->flops / group->seconds / 1e9, group->seconds > 0);
    put_number(gbs, "%.2f", group->bytes / group->seconds / 1e9, group->seconds > 0);
    put_number(roof, "%.2f", 100 * group->least / group->held, group->held > 0);
    const char *cell[N_COLUMNS] = {group->name, count, us, share, flops, bytes, gflops, gbs, roof, detail};
    return zt_table_row(table, cell);
}

static zt_status put_group(trace_stats_state *stats, zt_table *table, const stats_group *group)
{
    zt_str detail;
    zt_str_init(&detail, stats->cli->ctx);
    if (stats->by == TRACE_BY_STEP) {
        const zt_step *step = zt_prog_step(stats->profile.program, group->step);
        zt_str_printf(&detail, "%d: %s ", group->step, zt_op_info(step->op)->name);
        trace_types_of(&stats->profile, group->step, &detail);
    }
    zt_status status = put_row(stats, table, group, detail.data);
    zt_str_fini(&detail);
    return status;
}

static zt_status put_table(trace_stats_state *stats)
{
    zt_table *table = zt_table_new(stats->cli, "trace.stats", columns, N_COLUMNS);
    zt_status status = table ? ZT_OK : zt_ctx_status(stats->cli->ctx);
    for (int group_index = 0; group_index < stats->group_count && !status; group_index++)
        status = put_group(stats, table, &stats->groups[group_index]);
    stats->total.name = "total";
    if (!status) status = put_row(stats, table, &stats->total, NULL);
    if (!status) status = trace_print(stats->cli, table);
    zt_table_free(table);
    return status;
}

zt_status trace_stats(zt_cli *cli, const trace_options *options, char **operands, int operand_count)
{
    trace_stats_state stats = {.cli = cli, .by = options->by};
    zt_prog *program = trace_program(cli, operands, operand_count);
    if (!program) return zt_ctx_status(cli->ctx);
    zt_status status = trace_profile_open(&stats.profile, cli, options, program, operands, operand_count);
    if (!status) status = trace_layers_find(cli->ctx, program, &stats.layers);
    if (!status) status = measure_roof(&stats);
    if (!status) status = make_groups(&stats);
    if (!status) status = put_table(&stats);
    if (!status) report_roof(&stats);
    zt_free(cli->ctx, stats.groups);
    zt_free(cli->ctx, stats.group_of_key);
    trace_layers_free(&stats.layers);
    trace_profile_close(&stats.profile);
    zt_prog_free(program);
    return status;
}
