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

typedef struct life {
    int value;
    int born, dies; /* steps of all parts together, inclusive */
    size_t offset, bytes;
} life;

typedef struct map {
    zt_cli *cli;
    trace_look look;
    life *life; /* [n], by born */
    int n;
    int *of;    /* [values]: the life of a value, -1: none */
    const zt_step **step; /* [n_steps] as they run */
    int n_steps;
    size_t *alive; /* [n_steps] bytes */
    size_t arena, bound, peak;
    int peak_at;
} map;

/* ---- lives ----------------------------------------------------------------------------------- */

enum { ALIGN = 64 }; /* of values in an arena: lib/run/schedule.c */

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static void use(map *m, int value, int at)
{
    if (value >= 0 && m->of[value] >= 0) m->life[m->of[value]].dies = at;
}

/* An input whose bytes an output takes over is not alive beside it. */
static void hand_on(map *m, const zt_step *step, size_t offset, int at)
{
    for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
        life *l = step->in[k] >= 0 && m->of[step->in[k]] >= 0 ? &m->life[m->of[step->in[k]]] : NULL;
        if (l && l->offset == offset && l->dies == at && l->born < at) l->dies = at - 1;
    }
}

/* Output k of step `at`: its base's life, or one of its own. */
static void make_life(map *m, const zt_session_part *part, const zt_step *step, int k, int at)
{
    int v = step->out[k];
    if (v < 0) return;
    if (k < zt_op_shares(step->op)) {
        m->of[v] = m->of[step->in[k]];
        return;
    }
    const zt_place *p = &part->plan->place[v];
    if (p->kind != ZT_PLACE_ARENA) return;
    hand_on(m, step, p->offset, at);
    m->of[v] = m->n;
    m->life[m->n++] = (life){
        .value = v, .born = at, .dies = at, .offset = p->offset,
        .bytes = aligned(part->engine->vt->value_bytes(part->engine, &part->plan->type[v]))};
}

static void find_lives(map *m)
{
    for (int v = 0; v < m->look.b->n_values; v++) m->of[v] = -1;
    for (int i = 0; i < zt_session_parts(m->look.session); i++) {
        zt_session_part part = zt_session_part_at(m->look.session, i);
        if (part.plan->arena_bytes > m->arena) {
            m->arena = part.plan->arena_bytes;
            m->bound = part.liveness_bytes;
        }
        for (int s = 0; s < part.plan->n_steps; s++, m->n_steps++) {
            const zt_step *step = &part.plan->step[s];
            m->step[m->n_steps] = step;
            for (int k = 0; k < zt_op_info(step->op)->n_in; k++) use(m, step->in[k], m->n_steps);
            for (int k = 0; k < zt_op_info(step->op)->n_out; k++)
                make_life(m, &part, step, k, m->n_steps);
        }
    }
}

/* As differences at the ends, then summed up. */
static void find_peak(map *m)
{
    for (int i = 0; i < m->n; i++) {
        m->alive[m->life[i].born] += m->life[i].bytes;
        m->alive[m->life[i].dies + 1] -= m->life[i].bytes; /* wraps, and back in the sum */
    }
    for (int s = 0; s < m->n_steps; s++) {
        if (s) m->alive[s] += m->alive[s - 1];
        if (m->alive[s] <= m->peak) continue;
        m->peak = m->alive[s];
        m->peak_at = s;
    }
}

static zt_status find_map(map *m)
{
    zt_ctx *ctx = m->cli->ctx;
    size_t values = (size_t)m->look.b->n_values + 1;
    size_t steps = (size_t)zt_prog_n_steps(m->look.p) + 2;
    m->life = zt_calloc(ctx, values, sizeof *m->life);
    m->of = zt_calloc(ctx, values, sizeof *m->of);
    m->step = zt_calloc(ctx, steps, sizeof *m->step);
    m->alive = zt_calloc(ctx, steps, sizeof *m->alive);
    if (!m->life || !m->of || !m->step || !m->alive) return ZT_ENOMEM;
    find_lives(m);
    find_peak(m);
    return ZT_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { N_COLUMNS = 7 };
static const char *const columns[N_COLUMNS] = {"value", "op",      "type",  "#first",
                                               "#last", "#offset", "#bytes"};

static zt_status put_life(const map *m, zt_table *table, const life *l)
{
    char type[ZT_TYPE_TEXT], number[4][24];
    snprintf(number[0], 24, "%d", l->born);
    snprintf(number[1], 24, "%d", l->dies);
    snprintf(number[2], 24, "%zu", l->offset);
    snprintf(number[3], 24, "%zu", l->bytes);
    const char *cell[N_COLUMNS] = {zt_prog_value(m->look.p, l->value)->name,
                                   zt_op_info(m->step[l->born]->op)->name,
                                   zt_type_text(&m->look.b->type[l->value], type),
                                   number[0], number[1], number[2], number[3]};
    return zt_table_row(table, cell);
}

static zt_status put_table(map *m)
{
    zt_table *table = zt_table_new(m->cli, "trace.memory", columns, N_COLUMNS);
    zt_status status = table ? ZT_OK : zt_ctx_status(m->cli->ctx);
    for (int i = 0; i < m->n && !status; i++) status = put_life(m, table, &m->life[i]);
    if (!status) status = trace_print(m->cli, table);
    zt_table_free(table);
    return status;
}

/* ---- the drawing ----------------------------------------------------------------------------- */

enum { WIDTH = 1080, LEFT = 96, INNER = 960, TOP = 76, MAP = 420, LINE_TOP = 560, LINE = 150 };

/* A colour for each family of ops, by the order in which they come. */
typedef struct legend {
    const char *family[16];
    int n;
} legend;

static int colour_of(legend *g, zt_op op)
{
    const char *family = zt_op_family(op);
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->family[i], family)) return i;
    if (g->n < 16) g->family[g->n++] = family;
    return g->n - 1;
}

static void put_legend(const legend *g, zt_str *out)
{
    double x = LEFT;
    for (int i = 0; i < g->n; i++) {
        zt_svg_rect(out, x, 54, 10, 10, zt_svg_colour((unsigned)i), NULL);
        zt_svg_text(out, x + 15, 63, ZT_SVG_SMALL, ZT_SVG_START, false, g->family[i]);
        x += 34 + 6.6 * (double)strlen(g->family[i]);
    }
}

/* A little less, so that neighbours can be told apart. */
static double apart(double length) { return length > 3 ? length - 0.6 : length; }

static void put_rectangles(const map *m, const zt_svg_plot *p, legend *g, zt_str *out)
{
    zt_str title;
    zt_str_init(&title, m->cli->ctx);
    for (int i = 0; i < m->n; i++) {
        const life *l = &m->life[i];
        char type[ZT_TYPE_TEXT], bytes[24];
        double x = zt_svg_at_x(p, l->born), y = zt_svg_at_y(p, (double)(l->offset + l->bytes));
        zt_str_clear(&title);
        zt_str_printf(&title, "%s = %s, %s: %s at %zu, steps %d to %d",
                      zt_prog_value(m->look.p, l->value)->name,
                      zt_op_info(m->step[l->born]->op)->name,
                      zt_type_text(&m->look.b->type[l->value], type),
                      zt_svg_bytes((double)l->bytes, bytes), l->offset, l->born, l->dies);
        double w = zt_svg_at_x(p, l->dies + 1) - x, h = zt_svg_at_y(p, (double)l->offset) - y;
        zt_svg_rect(out, x, y, apart(w), apart(h),
                    zt_svg_colour((unsigned)colour_of(g, m->step[l->born]->op)), title.data);
    }
    zt_str_fini(&title);
}

/* Stairs: each step as wide as one. */
static zt_status put_line(const map *m, const zt_svg_plot *p, zt_str *out)
{
    double *xy = zt_alloc_array(m->cli->ctx, 4 * (size_t)m->n_steps + 4, sizeof *xy);
    size_t n = 0;
    if (!xy) return ZT_ENOMEM;
    xy[2 * n] = p->x, xy[2 * n++ + 1] = p->y + p->h;
    for (int s = 0; s < m->n_steps; s++)
        for (int end = 0; end < 2; end++, n++) {
            xy[2 * n] = zt_svg_at_x(p, s + end);
            xy[2 * n + 1] = zt_svg_at_y(p, (double)m->alive[s]);
        }
    xy[2 * n] = p->x + p->w, xy[2 * n++ + 1] = p->y + p->h;
    zt_svg_line(out, xy, n, zt_svg_colour(0), 1.2, false, zt_svg_colour(0));
    zt_free(m->cli->ctx, xy);
    return ZT_OK;
}

static void put_level(const zt_svg_plot *p, double bytes, const char *colour, bool dashed,
                      zt_str *out)
{
    double y = zt_svg_at_y(p, bytes), xy[] = {p->x, y, p->x + p->w, y};
    zt_svg_line(out, xy, 2, colour, 1.5, dashed, NULL);
}

static zt_status put_drawing(map *m, const char *name, zt_str *out)
{
    char arena[24], bound[24], peak[24], text[512];
    double most = m->arena ? (double)m->arena : 1, steps = m->n_steps ? m->n_steps : 1;
    legend g = {.n = 0};
    zt_svg_scale across = {.lo = 0, .hi = steps};
    zt_svg_plot top = {LEFT, TOP, INNER, MAP, across,
                       {.lo = 0, .hi = most, .unit = ZT_SVG_BYTES, .label = "offset in the arena"}};
    zt_svg_plot low = {LEFT, LINE_TOP, INNER, LINE, across,
                       {.lo = 0, .hi = most * 1.08, .unit = ZT_SVG_BYTES, .label = "bytes alive"}};
    low.across.label = "step";
    snprintf(text, sizeof text, "%.200s: arena %s, lower bound %s, most alive %s at step %d", name,
             zt_svg_bytes((double)m->arena, arena), zt_svg_bytes((double)m->bound, bound),
             zt_svg_bytes((double)m->peak, peak), m->peak_at);
    zt_svg_begin(out, WIDTH, LINE_TOP + LINE + 70, text);
    zt_svg_axes(out, &top);
    put_rectangles(m, &top, &g, out);
    put_legend(&g, out);
    zt_svg_axes(out, &low);
    zt_status status = put_line(m, &low, out);
    put_level(&low, (double)m->arena, zt_svg_colour(3), false, out);
    put_level(&low, (double)m->bound, zt_svg_colour(1), true, out);
    zt_svg_text(out, LEFT, LINE_TOP + LINE + 56, ZT_SVG_SMALL, ZT_SVG_START, false,
                "line: the arena's size; broken: the lower bound");
    zt_svg_end(out);
    return status;
}

/* Without --format a drawing. */
static zt_status put_map(map *m, const char *name)
{
    zt_str out;
    if (m->cli->format != ZT_FMT_AUTO) return put_table(m);
    zt_str_init(&out, m->cli->ctx);
    put_drawing(m, name, &out);
    return trace_write(m->cli, &out);
}

zt_status trace_memory(zt_cli *cli, const trace_options *options, char **operands, int n)
{
    map m = {.cli = cli};
    zt_prog *program = trace_program(cli, operands, n);
    if (!program) return zt_ctx_status(cli->ctx);
    zt_status status = trace_look_prepare(&m.look, cli, options, program, operands, n);
    if (!status) status = find_map(&m);
    if (!status) status = put_map(&m, n > 0 ? operands[0] : "stdin");
    zt_free(cli->ctx, m.life);
    zt_free(cli->ctx, m.of);
    zt_free(cli->ctx, m.step);
    zt_free(cli->ctx, m.alive);
    trace_look_close(&m.look);
    zt_prog_free(program);
    return status;
}
