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

/* In the order of --by's words. */
enum { BY_OP, BY_STEP, BY_FAMILY, BY_LAYER };

typedef struct group {
    const char *name;
    int64_t count;
    double seconds, flops, bytes;
    double least, held; /* seconds at the roof, and those that they are held against */
    int step;           /* of BY_STEP */
} group;

typedef struct stats {
    zt_cli *cli;
    trace_look look;
    trace_layers layers;
    zt_roof roof;
    const zt_roof_level *of_data, *of_rest;
    int by;
    group *group; /* [n] */
    int n, *of_key; /* a group's place + 1; 0: not met yet */
    group total;
} stats;

/* ---- groups ---------------------------------------------------------------------------------- */

static const char *name_of(const stats *s, int step)
{
    const zt_step *st = zt_prog_step(s->look.p, step);
    switch (s->by) {
    case BY_STEP: return zt_prog_value(s->look.p, st->out[0])->name;
    case BY_FAMILY: return zt_op_family(st->op);
    case BY_LAYER: return s->layers.name[s->layers.of[step]];
    default: return zt_op_info(st->op)->name;
    }
}

/* Numbers that tell groups apart, below steps + layers + ops. */
static int key_of(const stats *s, int step)
{
    zt_op op = zt_prog_step(s->look.p, step)->op;
    switch (s->by) {
    case BY_STEP: return step;
    case BY_LAYER: return s->layers.of[step];
    case BY_FAMILY: /* its first op */
        while (op > 0 && zt_op_family(op) == zt_op_family((zt_op)(op - 1))) op = (zt_op)(op - 1);
        return (int)op;
    default: return (int)op;
    }
}

static group *group_of(stats *s, int step)
{
    int key = key_of(s, step);
    if (!s->of_key[key]) {
        s->group[s->n] = (group){.name = name_of(s, step), .step = step};
        s->of_key[key] = ++s->n;
    }
    return &s->group[s->of_key[key] - 1];
}

static void add_step(stats *s, group *g, int step)
{
    zt_cost c = zt_cost_of(s->look.b, s->look.root, s->look.filled, step);
    double seconds = s->look.seconds[step];
    double rate = zt_roof_rate(&s->roof, c.kind) / c.passes;
    double compute = c.flops / rate, move = c.data / s->of_data->read[ZT_ROOF_ALL] +
                                            c.rest / s->of_rest->read[ZT_ROOF_ALL];
    bool cpu = !strcmp(s->look.ran_on[step], "cpu");
    g->count++;
    g->seconds += seconds;
    g->flops += c.flops;
    g->bytes += c.data + c.rest;
    if (cpu) g->least += compute > move ? compute : move;
    if (cpu) g->held += seconds;
}

static int by_time(const void *left, const void *right)
{
    const group *x = left, *y = right;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? 1 : -1;
    return x->step - y->step;
}

/* Views run nothing: they are no rows. */
static zt_status make_groups(stats *s)
{
    int n = zt_prog_n_steps(s->look.p);
    s->group = zt_calloc(s->cli->ctx, (size_t)n + 1, sizeof *s->group);
    s->of_key = zt_calloc(s->cli->ctx, (size_t)n + (size_t)s->layers.n + ZT_OP_COUNT,
                           sizeof *s->of_key);
    if (!s->group || !s->of_key) return ZT_ENOMEM;
    for (int i = 0; i < n; i++) {
        if (zt_op_info(zt_prog_step(s->look.p, i)->op)->def->flags & ZT_OPF_VIEW) continue;
        add_step(s, group_of(s, i), i);
        add_step(s, &s->total, i);
    }
    qsort(s->group, (size_t)s->n, sizeof *s->group, by_time);
    return ZT_OK;
}

/* ---- the roof -------------------------------------------------------------------------------- */

static zt_status measure_roof(stats *s)
{
    zt_roof_opts o = {.threads = (int)s->cli->threads, .isa = s->cli->isa, .brief = true};
    zt_status status = zt_roof_measure(s->cli->ctx, &o, &s->roof);
    size_t data = 0, rest = 0;
    if (status) return status;
    for (int v = 0; v < s->look.b->n_values; v++) {
        zt_value_kind kind = zt_prog_value(s->look.p, v)->kind;
        if (kind == ZT_VALUE_DATA || kind == ZT_VALUE_STATE)
            data += zt_type_bytes(&s->look.b->type[v]);
    }
    for (int i = 0; s->look.session && i < zt_session_parts(s->look.session); i++) {
        size_t arena = zt_session_part_at(s->look.session, i).plan->arena_bytes;
        rest = arena > rest ? arena : rest;
    }
    s->of_data = zt_roof_level_of(&s->roof, data + rest);
    s->of_rest = zt_roof_level_of(&s->roof, rest);
    return ZT_OK;
}

static void tell_roof(const stats *s)
{
    const zt_roof *r = &s->roof;
    char replay[96] = "";
    if (s->look.replay > 0)
        snprintf(replay, sizeof replay, "; a replay that is not watched takes %.1f us",
                 s->look.replay * 1e6);
    zt_cli_note(s->cli,
                "roof, %d threads: f32 %.0f, bf16 %.0f, int8 %.0f G/s; data in %s %.1f, "
                "the rest in %s %.1f GB/s%s",
                r->threads, zt_roof_rate(r, ZT_ROOF_F32) / 1e9, zt_roof_rate(r, ZT_ROOF_BF16) / 1e9,
                zt_roof_rate(r, ZT_ROOF_INT8) / 1e9, s->of_data->name,
                s->of_data->read[ZT_ROOF_ALL] / 1e9, s->of_rest->name,
                s->of_rest->read[ZT_ROOF_ALL] / 1e9, replay);
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { N_COLUMNS = 10 };
static const char *const columns[N_COLUMNS] = {"name",      "#count",    "#us",    "#time_pct",
                                               "#flops",    "#bytes",    "#gflops", "#gb_per_s",
                                               "#roof_pct", "detail"};

/* A number, or nothing where there is none: 0 / 0. */
static void put_number(char text[32], const char *format, double x, bool there)
{
    text[0] = 0;
    if (there) snprintf(text, 32, format, x);
}

static zt_status put_row(const stats *s, zt_table *table, const group *g, const char *detail)
{
    char count[32], us[32], share[32], flops[32], bytes[32], gflops[32], gbs[32], roof[32];
    snprintf(count, sizeof count, "%" PRId64, g->count);
    put_number(us, "%.2f", g->seconds * 1e6, true);
    put_number(share, "%.2f", 100 * g->seconds / s->total.seconds, s->total.seconds > 0);
    put_number(flops, "%.0f", g->flops, true);
    put_number(bytes, "%.0f", g->bytes, true);
    put_number(gflops, "%.2f", g->flops / g->seconds / 1e9, g->seconds > 0);
    put_number(gbs, "%.2f", g->bytes / g->seconds / 1e9, g->seconds > 0);
    put_number(roof, "%.2f", 100 * g->least / g->held, g->held > 0);
    const char *cell[N_COLUMNS] = {g->name, count, us,  share, flops,
                                   bytes,   gflops, gbs, roof,  detail};
    return zt_table_row(table, cell);
}

static zt_status put_group(stats *s, zt_table *table, const group *g)
{
    zt_str detail;
    zt_str_init(&detail, s->cli->ctx);
    if (s->by == BY_STEP) {
        const zt_step *step = zt_prog_step(s->look.p, g->step);
        zt_str_printf(&detail, "%d: %s ", g->step, zt_op_info(step->op)->name);
        trace_types_of(&s->look, g->step, &detail);
    }
    zt_status status = put_row(s, table, g, detail.data);
    zt_str_fini(&detail);
    return status;
}

static zt_status put_table(stats *s)
{
    zt_table *table = zt_table_new(s->cli, "trace.stats", columns, N_COLUMNS);
    zt_status status = table ? ZT_OK : zt_ctx_status(s->cli->ctx);
    for (int i = 0; i < s->n && !status; i++) status = put_group(s, table, &s->group[i]);
    s->total.name = "total";
    if (!status) status = put_row(s, table, &s->total, NULL);
    if (!status) status = trace_print(s->cli, table);
    zt_table_free(table);
    return status;
}

zt_status trace_stats(zt_cli *cli, const trace_options *options, char **operands, int n)
{
    stats s = {.cli = cli, .by = options->by};
    zt_prog *program = trace_program(cli, operands, n);
    if (!program) return zt_ctx_status(cli->ctx);
    zt_status status = trace_look_open(&s.look, cli, options, program, operands, n);
    if (!status) status = trace_layers_find(cli->ctx, program, &s.layers);
    if (!status) status = measure_roof(&s);
    if (!status) status = make_groups(&s);
    if (!status) status = put_table(&s);
    if (!status) tell_roof(&s);
    zt_free(cli->ctx, s.group);
    zt_free(cli->ctx, s.of_key);
    trace_layers_free(&s.layers);
    trace_look_close(&s.look);
    zt_prog_free(program);
    return status;
}
