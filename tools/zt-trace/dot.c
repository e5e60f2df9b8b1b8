/* dot.c - zt-trace dot: a program as a graph, in Graphviz' language.
 *
 * A box an op, its data (weights) named inside; ovals are inputs and outputs, cylinders states.
 * What repeats is drawn once, in a frame that says how often: its first repetition, into which
 * arrows come from outside, and broken ones from where the next finds its input. Names that differ
 * between repetitions have a * there. Arrows carry types once every symbol has a number.
 */
#include "tools/common/svg.h"
#include "tools/zt-trace/blocks.h"
#include "tools/zt-trace/trace.h"

#include <string.h>

typedef struct graph {
    const zt_prog *p;
    zt_bound *b; /* NULL: not bound */
    trace_blocks blocks;
    zt_str *out;
} graph;

/* ---- text ------------------------------------------------------------------------------------ */

/* Inside a quoted string: Graphviz reads backslashes, quotes and HTML's entities there. */
static void put_text(zt_str *out, const char *text, size_t n)
{
    zt_str clean;
    zt_str_init(&clean, out->ctx);
    zt_str_put_escaped(&clean, text, n);
    for (size_t i = 0; i < clean.len; i++) {
        char c = clean.data[i];
        if (c == '"' || c == '\\') zt_str_putc(out, '\\');
        zt_str_putc(out, c);
        if (c == '&') zt_str_puts(out, "amp;");
    }
    zt_str_fini(&clean);
}

static void put_name(zt_str *out, const char *name) { put_text(out, name, strlen(name)); }

/* Where two names part: a * stands for what is not alike. */
static void put_merged(zt_str *out, const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b), head = 0, tail = 0;
    while (head < na && head < nb && a[head] == b[head]) head++;
    while (tail < na - head && tail < nb - head && a[na - 1 - tail] == b[nb - 1 - tail]) tail++;
    put_text(out, a, head);
    if (head < na || head < nb) zt_str_putc(out, '*');
    put_text(out, a + na - tail, tail);
}

/* " f32[4,8]", or nothing where a dimension has no number. */
static void put_type(const graph *g, int v)
{
    char text[ZT_TYPE_TEXT];
    const zt_type *type = g->b ? &g->b->type[v] : &zt_prog_value(g->p, v)->type;
    for (int d = 0; d < type->rank; d++)
        if (type->dim[d] < 0) return;
    if (g->b || zt_prog_value(g->p, v)->kind != ZT_VALUE_OP)
        zt_str_printf(g->out, " %s", zt_type_text(type, text));
}

/* ---- repetitions ----------------------------------------------------------------------------- */

/* The step that is drawn in the place of s. */
static int drawn(const graph *g, int s)
{
    const trace_block *b = trace_block_of(&g->blocks, s);
    return b ? b->first + (s - b->first) % b->size : s;
}

/* How often step s is there, and its input k in one of its repetitions. */
static int times_of(const graph *g, int s)
{
    const trace_block *b = trace_block_of(&g->blocks, s);
    return b ? b->times : 1;
}

static int input_of(const graph *g, int s, int k, int repetition)
{
    const trace_block *b = trace_block_of(&g->blocks, s);
    return zt_prog_step(g->p, b ? s + b->size * repetition : s)->in[k];
}

static int last_input(const graph *g, int s, int k)
{
    return input_of(g, s, k, times_of(g, s) - 1);
}

/* The type of data, with a * for the dtype where that is not the same in all repetitions. */
static void put_data_type(const graph *g, int s, int k)
{
    char text[ZT_TYPE_TEXT];
    int v = input_of(g, s, k, 0);
    zt_dtype dtype = zt_prog_value(g->p, v)->type.dtype;
    for (int r = 1; r < times_of(g, s); r++) {
        int other = input_of(g, s, k, r);
        if (zt_prog_value(g->p, other)->type.dtype == dtype) continue;
        zt_type_text(&zt_prog_value(g->p, v)->type, text);
        zt_str_printf(g->out, " *%s", text + strcspn(text, "["));
        return;
    }
    put_type(g, v);
}

static void put_data(const graph *g, int s)
{
    const zt_step *step = zt_prog_step(g->p, s);
    for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
        int v = step->in[k], last = v < 0 ? v : last_input(g, s, k);
        if (v < 0 || zt_prog_value(g->p, v)->kind != ZT_VALUE_DATA) continue;
        zt_str_puts(g->out, "\\n");
        put_merged(g->out, zt_prog_value(g->p, v)->tensor, zt_prog_value(g->p, last)->tensor);
        put_data_type(g, s, k);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void put_value_node(const graph *g, int v, const char *other, const char *shape)
{
    zt_str_printf(g->out, "v%d [shape=%s, label=\"", v, shape);
    put_merged(g->out, zt_prog_value(g->p, v)->name, other);
    put_type(g, v);
    zt_str_puts(g->out, "\"];\n");
}

/* States that step s reads, which no drawn step before it did. */
static void put_states(const graph *g, int s, bool *seen)
{
    const zt_step *step = zt_prog_step(g->p, s);
    for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
        int v = step->in[k];
        if (v < 0 || seen[v] || zt_prog_value(g->p, v)->kind != ZT_VALUE_STATE) continue;
        seen[v] = true;
        put_value_node(g, v, zt_prog_value(g->p, last_input(g, s, k))->name, "cylinder");
    }
}

/* A colour for each family of ops. */
static unsigned family_number(const char *name)
{
    unsigned n = 0;
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        if (!strcmp(zt_op_family((zt_op)op), name)) return n;
        n += op + 1 < ZT_OP_COUNT && zt_op_family((zt_op)op) != zt_op_family((zt_op)(op + 1));
    }
    return n;
}

static void put_step(const graph *g, int s)
{
    const zt_step *step = zt_prog_step(g->p, s);
    zt_str_printf(g->out, "s%d [label=\"%s", s, zt_op_info(step->op)->name);
    put_data(g, s);
    zt_str_printf(g->out, "\", color=\"%s\", tooltip=\"",
                  zt_svg_colour(family_number(zt_op_family(step->op))));
    put_name(g->out, zt_prog_value(g->p, step->out[0])->name);
    zt_str_puts(g->out, "\"];\n");
}

static void put_nodes(const graph *g, bool *seen)
{
    int n = zt_prog_n_steps(g->p);
    for (int i = 0; i < zt_prog_count(g->p, ZT_VALUE_IN); i++) {
        int v = zt_prog_nth(g->p, ZT_VALUE_IN, i);
        put_value_node(g, v, zt_prog_value(g->p, v)->name, "oval");
    }
    for (int s = 0, k = 0; s < n; s++) {
        const trace_block *b = trace_block_of(&g->blocks, s);
        if (b && s == b->first)
            zt_str_printf(g->out,
                          "subgraph cluster_%d {\nstyle=\"rounded,dashed\"; color=\"#80868b\"; "
                          "labeljust=l; label=\"%d times\";\n",
                          k++, b->times);
        put_states(g, s, seen);
        put_step(g, s);
        if (b && s == b->first + b->size - 1) {
            zt_str_puts(g->out, "}\n");
            s = b->first + b->size * b->times - 1;
        }
    }
    for (int o = 0; o < zt_prog_n_outputs(g->p); o++) {
        zt_str_printf(g->out, "out%d [shape=oval, style=bold, label=\"", o);
        put_name(g->out, zt_prog_output(g->p, o)->name);
        zt_str_puts(g->out, "\"];\n");
    }
}

/* ---- edges ----------------------------------------------------------------------------------- */

/* Up to the target, which the caller writes, and put_edge_end. */
static void put_edge_from(const graph *g, int v)
{
    const zt_value *value = zt_prog_value(g->p, v);
    if (value->kind == ZT_VALUE_OP)
        zt_str_printf(g->out, "s%d -> ", drawn(g, value->index));
    else
        zt_str_printf(g->out, "v%d -> ", v);
}

static void put_edge_end(const graph *g, int v, const char *style)
{
    zt_str_printf(g->out, " [%s", style);
    if (g->b) {
        char text[ZT_TYPE_TEXT];
        zt_str_printf(g->out, "%slabel=\"%s\"", *style ? ", " : "",
                      zt_type_text(&g->b->type[v], text));
    }
    zt_str_puts(g->out, "];\n");
}

/* In the second repetition: does this input come from the first? Drawn broken, as it does not come
 * from there in the first. */
static void put_carried(const graph *g, int s, int k)
{
    const trace_block *b = trace_block_of(&g->blocks, s);
    int v = b ? zt_prog_step(g->p, s + b->size)->in[k] : ZT_NONE;
    if (v < 0 || zt_prog_value(g->p, v)->kind != ZT_VALUE_OP) return;
    int from = zt_prog_value(g->p, v)->index;
    if (from < b->first || from >= b->first + b->size) return;
    put_edge_from(g, v);
    zt_str_printf(g->out, "s%d", s);
    put_edge_end(g, v, "style=dashed, constraint=false");
}

static void put_step_edges(const graph *g, int s)
{
    const zt_step *step = zt_prog_step(g->p, s);
    for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
        int v = step->in[k];
        if (v < 0 || zt_prog_value(g->p, v)->kind == ZT_VALUE_DATA) continue;
        put_edge_from(g, v);
        zt_str_printf(g->out, "s%d", s);
        put_edge_end(g, v, "");
        put_carried(g, s, k);
    }
}

static void put_edges(const graph *g, const bool *seen)
{
    for (int s = 0; s < zt_prog_n_steps(g->p); s++)
        if (drawn(g, s) == s) put_step_edges(g, s);
    for (int i = 0; i < zt_prog_count(g->p, ZT_VALUE_STATE); i++) {
        int v = zt_prog_nth(g->p, ZT_VALUE_STATE, i), keep = zt_prog_value(g->p, v)->keep;
        if (!seen[v] || keep < 0 || zt_prog_value(g->p, keep)->kind != ZT_VALUE_OP) continue;
        put_edge_from(g, keep);
        zt_str_printf(g->out, "v%d [style=dotted, constraint=false];\n", v);
    }
    for (int o = 0; o < zt_prog_n_outputs(g->p); o++) {
        int v = zt_prog_output(g->p, o)->value;
        zt_value_kind kind = zt_prog_value(g->p, v)->kind;
        if (kind == ZT_VALUE_DATA || (kind == ZT_VALUE_STATE && !seen[v])) continue;
        put_edge_from(g, v);
        zt_str_printf(g->out, "out%d", o);
        put_edge_end(g, v, "");
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static zt_status put_graph(zt_cli *cli, graph *g, const char *name)
{
    bool *seen = zt_calloc(cli->ctx, (size_t)zt_prog_n_values(g->p) + 1, sizeof *seen);
    zt_status status = seen ? trace_blocks_find(cli->ctx, g->p, &g->blocks) : ZT_ENOMEM;
    if (!status) {
        zt_str_puts(g->out, "digraph \"");
        put_name(g->out, name);
        zt_str_puts(g->out, "\" {\ngraph [fontname=\"sans-serif\", fontsize=11];\n"
                            "node [shape=box, style=rounded, fontname=\"sans-serif\", "
                            "fontsize=11];\nedge [fontname=\"sans-serif\", fontsize=9];\n");
        put_nodes(g, seen);
        put_edges(g, seen);
        zt_str_puts(g->out, "}\n");
        trace_blocks_free(&g->blocks);
    }
    zt_free(cli->ctx, seen);
    return status;
}

zt_status trace_dot(zt_cli *cli, const trace_options *options, char **operands, int n)
{
    zt_bindings bind;
    zt_prog *program = trace_program(cli, operands, n);
    zt_status status = program ? zt_bindings_of(cli->ctx, options->bind, program, &bind) : zt_ctx_status(cli->ctx);
    if (status) {
        zt_prog_free(program);
        return status;
    }
    zt_str out;
    zt_str_init(&out, cli->ctx);
    graph g = {.p = program, .out = &out};
    if (trace_all_bound(program, &bind)) g.b = zt_prog_bind(program, bind.at, bind.n);
    status = zt_ctx_status(cli->ctx);
    if (!status) status = put_graph(cli, &g, n > 0 ? operands[0] : "stdin");
    status = trace_write(cli, &out);
    zt_bound_free(g.b);
    zt_prog_free(program);
    return status;
}
