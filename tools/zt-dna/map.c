/* map.c - the result of compare as a map: a column per block, a row per type, and in each cell the number of nines of the
 * layer's overlap: 0.9987 has 2, "=" is equal, "." is no such layer. */
#include "tools/common/svg.h"
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NINES = 9, TYPE_WIDTH = 32 };

typedef struct score_map {
    const dna_report *report;
    zt_map *rows, *columns;                           /* by type; by block */
    const zt_dna_layer **row_layers, **column_layers; /* the first layer of each */
    const zt_dna_score **scores;                      /* [rows x columns] */
    int64_t row_count, column_count;
} score_map;

int dna_nines(double overlap, bool same)
{
    if (same) return MOST_NINES + 1;
    if (!(overlap > 0)) return 0;
    double nines = -log10(1 - overlap + 1e-300);
    return nines > MOST_NINES ? MOST_NINES : nines > 0 ? (int)nines : 0;
}

void dna_put_cell(zt_str *text, double overlap, bool same, bool color)
{
    /* red to green of the 256 colours; the same: dim */
    static const int shade[] = {196, 202, 208, 214, 220, 226, 190, 154, 118, 82, 8};
    int nines = dna_nines(overlap, same);
    char digit = nines > MOST_NINES ? '=' : (char)('0' + nines);
    if (color)
        zt_str_printf(text, "\033[38;5;%dm%c\033[0m", shade[nines], digit);
    else
        zt_str_putc(text, digit);
}

static void put_layer(zt_str *text, const zt_dna_score *score, bool color)
{
    if (score)
        dna_put_cell(text, score->overlap, score->same, color);
    else
        zt_str_putc(text, '.');
}

/* The index of a key; a new one is added. */
static zt_status find_index(zt_map *keys, const char *key, size_t length, const zt_dna_layer **first, int64_t *count,
                            const zt_dna_layer *layer, int64_t *index_out)
{
    if (zt_map_get(keys, key, length, index_out)) return ZT_OK;
    *index_out = (*count)++;
    first[*index_out] = layer;
    return zt_map_put(keys, key, length, *index_out);
}

static zt_status place_layer(score_map *map, const zt_dna_layer *layer, int64_t *row, int64_t *column)
{
    bool net = zt_dna_is_net(map->report->model_a); /* rows are numbers of layers in a cell, or types of tensors */
    const char *key = net ? (const char *)&layer->place[3] : layer->type;
    size_t length = net ? sizeof layer->place[3] : strlen(layer->type);
    zt_status status = find_index(map->rows, key, length, map->row_layers, &map->row_count, layer, row);
    return status == ZT_OK ? find_index(map->columns, (const char *)layer->place, 3 * sizeof *layer->place, map->column_layers,
                                        &map->column_count, layer, column)
                           : status;
}

static int compare_places(const void *left, const void *right)
{
    const zt_dna_layer *first = *(const zt_dna_layer *const *)left, *second = *(const zt_dna_layer *const *)right;
    for (int k = 0; k < 3; k++)
        if (first->place[k] != second->place[k]) return first->place[k] < second->place[k] ? -1 : 1;
    return 0;
}

static int compare_numbers(const void *left, const void *right)
{
    const zt_dna_layer *first = *(const zt_dna_layer *const *)left, *second = *(const zt_dna_layer *const *)right;
    return (first->place[3] > second->place[3]) - (first->place[3] < second->place[3]);
}

/* Sorts blocks by number; tensors without a block come first. */
static zt_status put_in_order(score_map *map)
{
    zt_status status = ZT_OK;
    qsort(map->column_layers, (size_t)map->column_count, sizeof *map->column_layers, compare_places);
    for (int64_t column = 0; column < map->column_count && status == ZT_OK; column++)
        status = zt_map_put(map->columns, (const char *)map->column_layers[column]->place, 3 * sizeof(int64_t), column);
    if (!zt_dna_is_net(map->report->model_a)) return status;
    qsort(map->row_layers, (size_t)map->row_count, sizeof *map->row_layers, compare_numbers);
    for (int64_t row = 0; row < map->row_count && status == ZT_OK; row++)
        status = zt_map_put(map->rows, (const char *)&map->row_layers[row]->place[3], sizeof(int64_t), row);
    return status;
}

static zt_status fill_map(score_map *map)
{
    zt_ctx *ctx = map->report->cli->ctx;
    const zt_dna_verdict *verdict = map->report->verdict;
    int64_t row, column;
    zt_status status = ZT_OK;
    map->rows = zt_map_new(ctx, 64);
    map->columns = zt_map_new(ctx, 64);
    map->row_layers = zt_alloc_array(ctx, (size_t)verdict->score_count + 1, sizeof *map->row_layers);
    map->column_layers = zt_alloc_array(ctx, (size_t)verdict->score_count + 1, sizeof *map->column_layers);
    if (!map->rows || !map->columns || !map->row_layers || !map->column_layers) return ZT_ENOMEM;
    for (int64_t k = 0; k < verdict->score_count && status == ZT_OK; k++)
        status = place_layer(map, zt_dna_get(map->report->model_a, verdict->scores[k].layer_a), &row, &column);
    if (status == ZT_OK) status = put_in_order(map);
    size_t cells = 0;
    if (status == ZT_OK && !zt_mul_size((size_t)map->row_count, (size_t)map->column_count, &cells))
        return zt_fail(ctx, ZT_ENOMEM, "a map of %" PRId64 " by %" PRId64 " is too large", map->row_count, map->column_count);
    map->scores = status == ZT_OK ? zt_calloc(ctx, cells + 1, sizeof(void *)) : NULL;
    if (status == ZT_OK && !map->scores) status = ZT_ENOMEM;
    for (int64_t score_index = 0; score_index < verdict->score_count && status == ZT_OK; score_index++) {
        status = place_layer(map, zt_dna_get(map->report->model_a, verdict->scores[score_index].layer_a), &row, &column);
        map->scores[row * map->column_count + column] = &verdict->scores[score_index];
    }
    return status;
}

/* The label of a row, escaped for a terminal. */
static void put_label(const score_map *map, int64_t row, zt_str *text)
{
    const zt_dna_layer *layer = map->row_layers[row];
    zt_str_clear(text);
    if (zt_dna_is_net(map->report->model_a))
        zt_str_printf(text, "layer %" PRId64, layer->place[3]);
    else
        zt_str_put_escaped(text, layer->type, strlen(layer->type));
}

static void put_map(const score_map *map, zt_str *text)
{
    bool color = map->report->cli->color == 1;
    zt_str label;
    zt_str_init(&label, text->ctx);
    for (int64_t row = 0; row < map->row_count; row++) {
        put_label(map, row, &label);
        zt_str_printf(text, "%-*s ", TYPE_WIDTH, label.data ? label.data : "");
        for (int64_t column = 0; column < map->column_count; column++)
            put_layer(text, map->scores[row * map->column_count + column], color);
        zt_str_putc(text, '\n');
    }
    zt_str_fini(&label);
    zt_str_printf(text, "%-*s ", TYPE_WIDTH, "block");
    for (int64_t column = 0; column < map->column_count; column++) {
        int64_t block = map->column_layers[column]->place[0];
        zt_str_putc(text, block < 0 ? '-' : (char)('0' + block % 10));
    }
    zt_str_putc(text, '\n');
}

/* ---- a drawing ------------------------------------------------------------------------------- */

enum { CELL = 16, LEFT = 220, TOP = 48, BELOW = 76, RIGHT = 24, LEGEND = 30 };

void dna_draw_cell(zt_str *text, int64_t row, int64_t column, double overlap, bool same, const char *what)
{
    char colour[8], title[320];
    snprintf(title, sizeof title, "%s: %.7f%s", what, overlap, same ? ", identical" : "");
    zt_svg_ramp(dna_nines(overlap, same) / (double)(MOST_NINES + 1), colour);
    zt_svg_rect(text, (double)(LEFT + column * CELL), (double)(TOP + row * CELL), CELL - 1, CELL - 1, colour, title);
}

/* A colour for each number of nines, and for equal layers. */
static void draw_legend(zt_str *text, double top)
{
    static const char *const labels[MOST_NINES + 2] = {"0", "0.9", "0.99", "0.999", "4 nines",  "5",
                                                       "6", "7",   "8",    "9",     "identical"};
    enum { WIDTH = 21 };
    char colour[8];
    zt_svg_text(text, LEFT - 8, top + CELL - 4, ZT_SVG_SMALL, ZT_SVG_STOP, false, "overlap from");
    for (int k = 0; k <= MOST_NINES + 1; k++) {
        double left = (double)(LEFT + k * WIDTH);
        zt_svg_ramp(k / (double)(MOST_NINES + 1), colour);
        zt_svg_rect(text, left, top, WIDTH - 1, CELL - 4, colour, labels[k]);
        if (k % 3 == 0 || k > MOST_NINES) zt_svg_text(text, left, top + CELL + 8, ZT_SVG_SMALL, ZT_SVG_START, false, labels[k]);
    }
}

void dna_draw_begin(zt_str *text, int64_t rows, int64_t columns, const char *title)
{
    double width = LEFT + (double)columns * CELL + RIGHT, height = TOP + (double)rows * CELL + BELOW;
    enum { LEAST = LEFT + 320 }; /* the legend */
    zt_svg_begin(text, width < LEAST ? LEAST : width, height, title);
    draw_legend(text, TOP + (double)rows * CELL + LEGEND);
}

void dna_draw_row(zt_str *text, int64_t row, const char *label)
{
    zt_svg_text(text, LEFT - 8, (double)(TOP + row * CELL + CELL - 4), ZT_SVG_SMALL, ZT_SVG_STOP, false, label);
}

static void draw_map(const score_map *map, zt_str *text)
{
    char number[24];
    zt_str label;
    zt_str_init(&label, text->ctx);
    dna_draw_begin(text, map->row_count, map->column_count, "overlap by type and block");
    for (int64_t row = 0; row < map->row_count; row++) {
        put_label(map, row, &label);
        dna_draw_row(text, row, label.data ? label.data : "");
        for (int64_t column = 0; column < map->column_count; column++) {
            const zt_dna_score *score = map->scores[row * map->column_count + column];
            if (score)
                dna_draw_cell(text, row, column, score->overlap, score->same,
                              zt_dna_get(map->report->model_a, score->layer_a)->name);
        }
    }
    for (int64_t column = 0; column < map->column_count; column++) {
        int64_t block = map->column_layers[column]->place[0];
        snprintf(number, sizeof number, "%" PRId64, block);
        if (block >= 0 && block % 5 == 0)
            zt_svg_text(text, (double)(LEFT + column * CELL + CELL / 2), (double)(TOP + map->row_count * CELL + 14), ZT_SVG_SMALL,
                        ZT_SVG_MIDDLE, false, number);
    }
    zt_svg_end(text);
    zt_str_fini(&label);
}

zt_status dna_write_plot(zt_cli *cli, const dna_options *options, const zt_str *text)
{
    zt_status status = zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = zt_sink_put_file(cli->ctx, options->plot, cli->force, text->data, text->len);
    return status;
}

static void free_map(score_map *map)
{
    zt_ctx *ctx = map->report->cli->ctx;
    zt_map_free(map->rows);
    zt_map_free(map->columns);
    zt_free(ctx, map->row_layers);
    zt_free(ctx, map->column_layers);
    zt_free(ctx, map->scores);
}

zt_status dna_print_map(const dna_report *report, bool plot)
{
    score_map map = {.report = report};
    zt_str text;
    zt_str_init(&text, report->cli->ctx);
    zt_status status = fill_map(&map);
    if (status == ZT_OK) {
        (plot ? draw_map : put_map)(&map, &text);
        status = zt_ctx_status(report->cli->ctx);
    }
    if (status == ZT_OK)
        status = plot ? dna_write_plot(report->cli, report->options, &text) : zt_cli_write(report->cli, text.data, text.len);
    zt_str_fini(&text);
    free_map(&map);
    return status;
}
