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

typedef struct dot_graph {
    const zt_prog *program;
    zt_bound *bound; /* NULL: not bound */
    trace_blocks blocks;
    zt_str *text;
} dot_graph;

/* ---- text ------------------------------------------------------------------------------------ */

/* Inside a quoted string: Graphviz reads backslashes, quotes and HTML's entities there. */
static void put_text(zt_str *output_text, const char *text, size_t length)
{
    zt_str clean;
    zt_str_init(&clean, output_text->ctx);
    zt_str_put_escaped(&clean, text, length);
    for (size_t i = 0; i < clean.len; i++) {
        char letter = clean.data[i];
        if (letter == '"' || letter == '\\') zt_str_putc(output_text, '\\');
        zt_str_putc(output_text, letter);
        if (letter == '&') zt_str_puts(output_text, "amp;");
    }
    zt_str_fini(&clean);
}

static void put_name(zt_str *output_text, const char *name) { put_text(output_text, name, strlen(name)); }

/* Where two names part: a * stands for what is not alike. */
static void put_merged(zt_str *output_text, const char *first, const char *second)
{
    size_t first_length = strlen(first), second_length = strlen(second), head = 0, tail = 0;
    while (head < first_length && head < second_length && first[head] == second[head]) head++;
    while (tail < first_length - head && tail < second_length - head &&
           first[first_length - 1 - tail] == second[second_length - 1 - tail])
        tail++;
    put_text(output_text, first, head);
    if (head < first_length || head < second_length) zt_str_putc(output_text, '*');
    put_text(output_text, first + first_length - tail, tail);
}

/* " f32[4,8]", or nothing where a dimension has no number. */
static void put_type(const dot_graph *graph, int value_id)
{
    char text[ZT_TYPE_TEXT];
    const zt_type *type = graph->bound ? &graph->bound->type[value_id] : &zt_prog_value(graph->program, value_id)->type;
    for (int axis = 0; axis < type->rank; axis++)
        if (type->dim[axis] < 0) return;
    if (graph->bound || zt_prog_value(graph->program, value_id)->kind != ZT_VALUE_OP)
        zt_str_printf(graph->text, " %s", zt_type_text(type, text));
}

/* ---- repetitions ----------------------------------------------------------------------------- */

/* The step that is drawn in the place of a step. */
static int drawn_step(const dot_graph *graph, int step_index)
{
    const trace_block *block = trace_block_of(&graph->blocks, step_index);
    return block ? block->first + (step_index - block->first) % block->size : step_index;
}

/* How often the step is there, and its input k in one of its repetitions. */
static int times_of(const dot_graph *graph, int step_index)
{
    const trace_block *block = trace_block_of(&graph->blocks, step_index);
    return block ? block->times : 1;
}

static int input_of(const dot_graph *graph, int step_index, int k, int repetition)
{
    const trace_block *block = trace_block_of(&graph->blocks, step_index);
    return zt_prog_step(graph->program, block ? step_index + block->size * repetition : step_index)->in[k];
}

static int last_input(const dot_graph *graph, int step_index, int k)
{
    return input_of(graph, step_index, k, times_of(graph, step_index) - 1);
}

/* The type of data, with a * for the dtype where that is not the same in all repetitions. */
static void put_data_type(const dot_graph *graph, int step_index, int k)
{
    char text[ZT_TYPE_TEXT];
    int value_id = input_of(graph, step_index, k, 0);
    zt_dtype dtype = zt_prog_value(graph->program, value_id)->type.dtype;
    for (int repetition = 1; repetition < times_of(graph, step_index); repetition++) {
        int other = input_of(graph, step_index, k, repetition);
        if (zt_prog_value(graph->program, other)->type.dtype == dtype) continue;
        zt_type_text(&zt_prog_value(graph->program, value_id)->type, text);
        zt_str_printf(graph->text, " *%s", text + strcspn(text, "["));
        return;
    }
    put_type(graph, value_id);
}

static void put_data(const dot_graph *graph, int step_index)
{
    const zt_step *step = zt_prog_step(graph->program, step_index);
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++) {
        int value_id = step->in[input], last = value_id < 0 ? value_id : last_input(graph, step_index, input);
        if (value_id < 0 || zt_prog_value(graph->program, value_id)->kind != ZT_VALUE_DATA) continue;
        zt_str_puts(graph->text, "\\n");
        put_merged(graph->text, zt_prog_value(graph->program, value_id)->tensor, zt_prog_value(graph->program, last)->tensor);
        put_data_type(graph, step_index, input);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void put_value_node(const dot_graph *graph, int value_id, const char *other, const char *shape)
{
    zt_str_printf(graph->text, "v%d [shape=%s, label=\"", value_id, shape);
    put_merged(graph->text, zt_prog_value(graph->program, value_id)->name, other);
    put_type(graph, value_id);
    zt_str_puts(graph->text, "\"];\n");
}

/* States that the step reads, which no drawn step before it did. */
static void put_states(const dot_graph *graph, int step_index, bool *seen)
{
    const zt_step *step = zt_prog_step(graph->program, step_index);
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++) {
        int value_id = step->in[input];
        if (value_id < 0 || seen[value_id] || zt_prog_value(graph->program, value_id)->kind != ZT_VALUE_STATE) continue;
        seen[value_id] = true;
        put_value_node(graph, value_id, zt_prog_value(graph->program, last_input(graph, step_index, input))->name, "cylinder");
    }
}

/* A colour for each family of ops. */
static unsigned family_number(const char *name)
{
    unsigned number = 0;
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        if (!strcmp(zt_op_family((zt_op)op), name)) return number;
        number += op + 1 < ZT_OP_COUNT && zt_op_family((zt_op)op) != zt_op_family((zt_op)(op + 1));
    }
    return number;
}

static void put_step(const dot_graph *graph, int step_index)
{
    const zt_step *step = zt_prog_step(graph->program, step_index);
    zt_str_printf(graph->text, "s%d [label=\"%s", step_index, zt_op_info(step->op)->name);
    put_data(graph, step_index);
    zt_str_printf(graph->text, "\", color=\"%s\", tooltip=\"", zt_svg_colour(family_number(zt_op_family(step->op))));
    put_name(graph->text, zt_prog_value(graph->program, step->out[0])->name);
    zt_str_puts(graph->text, "\"];\n");
}

static void put_nodes(const dot_graph *graph, bool *seen)
{
    int step_count = zt_prog_n_steps(graph->program);
    for (int input_index = 0; input_index < zt_prog_count(graph->program, ZT_VALUE_IN); input_index++) {
        int value_id = zt_prog_nth(graph->program, ZT_VALUE_IN, input_index);
        put_value_node(graph, value_id, zt_prog_value(graph->program, value_id)->name, "oval");
    }
    for (int step_index = 0, k = 0; step_index < step_count; step_index++) {
        const trace_block *block = trace_block_of(&graph->blocks, step_index);
        if (block && step_index == block->first)
            zt_str_printf(graph->text,
                          "subgraph cluster_%d {\nstyle=\"rounded,dashed\"; color=\"#80868b\"; "
                          "labeljust=l; label=\"%d times\";\n",
                          k++, block->times);
        put_states(graph, step_index, seen);
        put_step(graph, step_index);
        if (block && step_index == block->first + block->size - 1) {
            zt_str_puts(graph->text, "}\n");
            step_index = block->first + block->size * block->times - 1;
        }
    }
    for (int output_index = 0; output_index < zt_prog_n_outputs(graph->program); output_index++) {
        zt_str_printf(graph->text, "out%d [shape=oval, style=bold, label=\"", output_index);
        put_name(graph->text, zt_prog_output(graph->program, output_index)->name);
        zt_str_puts(graph->text, "\"];\n");
    }
}

/* ---- edges ----------------------------------------------------------------------------------- */

/* Up to the target, which the caller writes, and put_edge_end. */
static void put_edge_from(const dot_graph *graph, int value_id)
{
    const zt_value *value = zt_prog_value(graph->program, value_id);
    if (value->kind == ZT_VALUE_OP)
        zt_str_printf(graph->text, "s%d -> ", drawn_step(graph, value->index));
    else
        zt_str_printf(graph->text, "v%d -> ", value_id);
}

static void put_edge_end(const dot_graph *graph, int value_id, const char *style)
{
    zt_str_printf(graph->text, " [%s", style);
    if (graph->bound) {
        char text[ZT_TYPE_TEXT];
        zt_str_printf(graph->text, "%slabel=\"%s\"", *style ? ", " : "", zt_type_text(&graph->bound->type[value_id], text));
    }
    zt_str_puts(graph->text, "];\n");
}

/* In the second repetition: does this input come from the first? Drawn broken, as it does not come
 * from there in the first. */
static void put_carried(const dot_graph *graph, int step_index, int k)
{
    const trace_block *block = trace_block_of(&graph->blocks, step_index);
    int value_id = block ? zt_prog_step(graph->program, step_index + block->size)->in[k] : ZT_NONE;
    if (value_id < 0 || zt_prog_value(graph->program, value_id)->kind != ZT_VALUE_OP) return;
    int from = zt_prog_value(graph->program, value_id)->index;
    if (from < block->first || from >= block->first + block->size) return;
    put_edge_from(graph, value_id);
    zt_str_printf(graph->text, "s%d", step_index);
    put_edge_end(graph, value_id, "style=dashed, constraint=false");
}

static void put_step_edges(const dot_graph *graph, int step_index)
{
    const zt_step *step = zt_prog_step(graph->program, step_index);
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++) {
        int value_id = step->in[input];
        if (value_id < 0 || zt_prog_value(graph->program, value_id)->kind == ZT_VALUE_DATA) continue;
        put_edge_from(graph, value_id);
        zt_str_printf(graph->text, "s%d", step_index);
        put_edge_end(graph, value_id, "");
        put_carried(graph, step_index, input);
    }
}

static void put_edges(const dot_graph *graph, const bool *seen)
{
    for (int step_index = 0; step_index < zt_prog_n_steps(graph->program); step_index++)
        if (drawn_step(graph, step_index) == step_index) put_step_edges(graph, step_index);
    for (int state_index = 0; state_index < zt_prog_count(graph->program, ZT_VALUE_STATE); state_index++) {
        int value_id = zt_prog_nth(graph->program, ZT_VALUE_STATE, state_index),
            keep = zt_prog_value(graph->program, value_id)->keep;
        if (!seen[value_id] || keep < 0 || zt_prog_value(graph->program, keep)->kind != ZT_VALUE_OP) continue;
        put_edge_from(graph, keep);
        zt_str_printf(graph->text, "v%d [style=dotted, constraint=false];\n", value_id);
    }
    for (int output_index = 0; output_index < zt_prog_n_outputs(graph->program); output_index++) {
        int value_id = zt_prog_output(graph->program, output_index)->value;
        zt_value_kind kind = zt_prog_value(graph->program, value_id)->kind;
        if (kind == ZT_VALUE_DATA || (kind == ZT_VALUE_STATE && !seen[value_id])) continue;
        put_edge_from(graph, value_id);
        zt_str_printf(graph->text, "out%d", output_index);
        put_edge_end(graph, value_id, "");
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static zt_status put_graph(zt_cli *cli, dot_graph *graph, const char *name)
{
    bool *seen = zt_calloc(cli->ctx, (size_t)zt_prog_n_values(graph->program) + 1, sizeof *seen);
    zt_status status = seen ? trace_blocks_find(cli->ctx, graph->program, &graph->blocks) : ZT_ENOMEM;
    if (!status) {
        zt_str_puts(graph->text, "digraph \"");
        put_name(graph->text, name);
        zt_str_puts(graph->text, "\" {\ngraph [fontname=\"sans-serif\", fontsize=11];\n"
                                 "node [shape=box, style=rounded, fontname=\"sans-serif\", "
                                 "fontsize=11];\nedge [fontname=\"sans-serif\", fontsize=9];\n");
        put_nodes(graph, seen);
        put_edges(graph, seen);
        zt_str_puts(graph->text, "}\n");
        trace_blocks_free(&graph->blocks);
    }
    zt_free(cli->ctx, seen);
    return status;
}

zt_status trace_dot(zt_cli *cli, const trace_options *options, char **operands, int operand_count)
{
    zt_bindings bind;
    zt_prog *program = trace_program(cli, operands, operand_count);
    zt_status status = program ? zt_bindings_of(cli->ctx, options->bind, program, &bind) : zt_ctx_status(cli->ctx);
    if (status) {
        zt_prog_free(program);
        return status;
    }
    zt_str out;
    zt_str_init(&out, cli->ctx);
    dot_graph graph = {.program = program, .text = &out};
    if (trace_all_bound(program, &bind)) graph.bound = zt_prog_bind(program, bind.items, bind.count);
    status = zt_ctx_status(cli->ctx);
    if (!status) status = put_graph(cli, &graph, operand_count > 0 ? operands[0] : "stdin");
    status = trace_write(cli, &out);
    zt_bound_free(graph.bound);
    zt_prog_free(program);
    return status;
}
