/* report.c - the result of compare as JSON, and as tables of layers, blocks and shifts. */
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 32 };

/* A number as a cell; "" for NaN. */
static const char *format_number(char buffer[NUMBER], const char *format, double number)
{
    buffer[0] = 0;
    if (!isnan(number)) snprintf(buffer, NUMBER, format, number);
    return buffer;
}

static const char *yes_or_no(bool flag) { return flag ? "yes" : "no"; }

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_layer(zt_str *text, const dna_report *report, const zt_dna_score *score)
{
    const zt_dna_layer *layer_a = zt_dna_get(report->model_a, score->layer_a),
                       *layer_b = zt_dna_get(report->model_b, score->layer_b);
    zt_str_putc(text, '{');
    dna_put_text(text, "name", layer_a->name);
    dna_put_place(text, layer_a);
    dna_put_text(text, "type", layer_a->type);
    zt_str_putc(text, ',');
    dna_put_text(text, "dtype_a", layer_a->dtype);
    zt_str_putc(text, ',');
    dna_put_text(text, "dtype_b", layer_b->dtype);
    dna_put_number(text, "overlap", score->overlap);
    dna_put_number(text, "cosine", score->cosine);
    dna_put_number(text, "rel_l2", score->rel_l2);
    dna_put_number(text, "spread", score->spread);
    dna_put_number(text, "rank_a", score->rank_a);
    dna_put_number(text, "rank_b", score->rank_b);
    dna_put_number(text, "rank_change", score->rank_b / score->rank_a);
    dna_put_number(text, "max_diff", score->max_diff);
    zt_str_printf(text, ",\"same\":%s,\"changed\":%s,", score->same ? "true" : "false", score->changed ? "true" : "false");
    dna_put_text(text, "change", zt_dna_change_word(score->change));
    zt_str_putc(text, '}');
}

static void put_shift(zt_str *text, const dna_report *report, const zt_dna_shift *shift)
{
    zt_str_putc(text, '{');
    dna_put_text(text, "source", zt_dna_get(report->model_a, shift->from_layer)->name);
    zt_str_putc(text, ',');
    dna_put_text(text, "target", zt_dna_get(report->model_b, shift->to_layer)->name);
    dna_put_number(text, "overlap", shift->overlap);
    zt_str_putc(text, '}');
}

zt_status dna_print_json(const dna_report *report)
{
    const zt_dna_verdict *verdict = report->verdict;
    zt_str text;
    zt_str_init(&text, report->cli->ctx);
    zt_str_puts(&text, "{\"schema\":\"zt.dna/1\",");
    dna_put_text(&text, "rule", report->options->rule == ZT_RULE_LOOM ? "loom" : "field");
    dna_put_number(&text, "overlap", verdict->overlap);
    dna_put_number(&text, "cosine", verdict->cosine);
    dna_put_number(&text, "rel_l2", verdict->rel_l2);
    zt_str_printf(&text, ",\"alike\":%s,\"same\":%" PRId64 ",\"only_a\":%" PRId64 ",\"only_b\":%" PRId64 ",\"layers\":[",
                  verdict->overlap >= report->options->threshold ? "true" : "false", verdict->same_count, verdict->only_a,
                  verdict->only_b);
    for (int64_t score_index = 0; score_index < verdict->score_count; score_index++) {
        if (score_index) zt_str_putc(&text, ',');
        put_layer(&text, report, &verdict->scores[score_index]);
    }
    zt_str_puts(&text, "],\"shifts\":[");
    for (int64_t shift_index = 0; shift_index < verdict->shift_count; shift_index++) {
        if (shift_index) zt_str_putc(&text, ',');
        put_shift(&text, report, &verdict->shifts[shift_index]);
    }
    zt_status status = zt_str_puts(&text, "]}\n");
    if (status == ZT_OK) status = zt_cli_write(report->cli, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

/* ---- tables ---------------------------------------------------------------------------------- */

zt_status dna_print_layers(const dna_report *report)
{
    static const char *const columns[] = {"name",    "dtype_a", "dtype_b", "#overlap", "#rel_l2",
                                          "#spread", "#rank",   "same",    "changed"};
    zt_table *table = zt_table_new(report->cli, "dna", columns, 9);
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    for (int64_t k = 0; k < report->verdict->score_count && status == ZT_OK; k++) {
        char cells[4][NUMBER];
        const zt_dna_score *score = &report->verdict->scores[k];
        const zt_dna_layer *layer_a = zt_dna_get(report->model_a, score->layer_a),
                           *layer_b = zt_dna_get(report->model_b, score->layer_b);
        status = zt_table_row(table, (const char *[]){layer_a->name, layer_a->dtype, layer_b->dtype,
                                                      format_number(cells[0], "%.7f", score->overlap),
                                                      format_number(cells[1], "%.5g", score->rel_l2),
                                                      format_number(cells[2], "%.5f", score->spread),
                                                      format_number(cells[3], "%.4f", score->rank_b / score->rank_a),
                                                      yes_or_no(score->same), zt_dna_change_word(score->change)});
    }
    if (status == ZT_OK) status = zt_table_print(table);
    zt_table_free(table);
    return status;
}

zt_status dna_print_shifts(const dna_report *report)
{
    static const char *const columns[] = {"source", "target", "#overlap"};
    zt_table *table = zt_table_new(report->cli, "dna.shifts", columns, 3);
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    for (int64_t k = 0; k < report->verdict->shift_count && status == ZT_OK; k++) {
        char cell[NUMBER];
        const zt_dna_shift *shift = &report->verdict->shifts[k];
        status = zt_table_row(table, (const char *[]){zt_dna_get(report->model_a, shift->from_layer)->name,
                                                      zt_dna_get(report->model_b, shift->to_layer)->name,
                                                      format_number(cell, "%.7f", shift->overlap)});
    }
    if (status == ZT_OK) status = zt_table_print(table);
    zt_table_free(table);
    return status;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct block_scores {
    int64_t z, y, x, layers, same, changed;
    double overlap, sum_aa, sum_bb, sum_ab, sum_dd;
} block_scores;

static int compare_places(const void *left, const void *right)
{
    const block_scores *first = left, *second = right;
    if (first->z != second->z) return first->z < second->z ? -1 : 1;
    if (first->y != second->y) return first->y < second->y ? -1 : 1;
    return (first->x > second->x) - (first->x < second->x);
}

static void add_score(block_scores *block, const zt_dna_score *score)
{
    block->layers++;
    block->same += score->same;
    block->changed += score->changed;
    block->overlap += score->overlap;
    block->sum_aa += score->sum_aa;
    block->sum_bb += score->sum_bb;
    block->sum_ab += score->sum_ab;
    block->sum_dd += score->sum_dd;
}

static zt_status put_block(zt_table *table, const block_scores *block)
{
    char whole_cells[6][NUMBER], cells[3][NUMBER];
    const int64_t whole[6] = {block->z, block->y, block->x, block->layers, block->same, block->changed};
    for (int k = 0; k < 6; k++) snprintf(whole_cells[k], NUMBER, "%" PRId64, whole[k]);
    double cosine = block->sum_aa > 0 && block->sum_bb > 0 ? block->sum_ab / (sqrt(block->sum_aa) * sqrt(block->sum_bb)) : NAN;
    double rel_l2 = block->sum_dd == 0 ? 0 : sqrt(block->sum_dd / block->sum_aa);
    return zt_table_row(table, (const char *[]){whole_cells[0], whole_cells[1], whole_cells[2], whole_cells[3],
                                                format_number(cells[0], "%.7f", block->overlap / (double)block->layers),
                                                format_number(cells[1], "%.7f", cosine), format_number(cells[2], "%.5g", rel_l2),
                                                whole_cells[4], whole_cells[5]});
}

zt_status dna_print_blocks(const dna_report *report)
{
    static const char *const columns[] = {"#z", "#y", "#x", "#layers", "#overlap", "#cosine", "#rel_l2", "#same", "#changed"};
    const zt_dna_verdict *verdict = report->verdict;
    zt_ctx *ctx = report->cli->ctx;
    block_scores *blocks = zt_alloc_array(ctx, (size_t)verdict->score_count + 1, sizeof *blocks);
    zt_map *places = zt_map_new(ctx, (size_t)verdict->score_count);
    zt_table *table = zt_table_new(report->cli, "dna.blocks", columns, 9);
    zt_status status = blocks && places && table ? ZT_OK : ZT_ENOMEM;
    int64_t block_count = 0;
    for (int64_t score_index = 0; score_index < verdict->score_count && status == ZT_OK; score_index++) {
        const zt_dna_layer *layer = zt_dna_get(report->model_a, verdict->scores[score_index].layer_a);
        int64_t index = block_count;
        /* the map borrows its keys: the place within the layer */
        if (!zt_map_get(places, (const char *)layer->place, 3 * sizeof *layer->place, &index)) {
            blocks[block_count++] = (block_scores){.z = layer->place[0], .y = layer->place[1], .x = layer->place[2]};
            status = zt_map_put(places, (const char *)layer->place, 3 * sizeof *layer->place, index);
        }
        add_score(&blocks[index], &verdict->scores[score_index]);
    }
    if (status == ZT_OK) qsort(blocks, (size_t)block_count, sizeof *blocks, compare_places);
    for (int64_t k = 0; k < block_count && status == ZT_OK; k++) status = put_block(table, &blocks[k]);
    if (status == ZT_OK) status = zt_table_print(table);
    zt_table_free(table);
    zt_map_free(places);
    zt_free(ctx, blocks);
    return status;
}
