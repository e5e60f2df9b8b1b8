/* map.c - what compare has found, as a map: blocks across, types down, and how many nines of the
 * overlap each layer has: 0.9987 has 2, "=" is all the same, "." no such layer. */
#include "tools/common/svg.h"
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NINES = 9, TYPE_WIDTH = 32 };

typedef struct map {
    const dna_told *t;
    zt_map *rows, *columns;             /* by type; by block */
    const zt_dna_layer **row, **column; /* the first layer of each */
    const zt_dna_score **at;            /* [rows x columns] */
    int64_t n_rows, n_columns;
} map;

int dna_nines(double overlap, bool same)
{
    if (same) return MOST_NINES + 1;
    if (!(overlap > 0)) return 0;
    double n = -log10(1 - overlap + 1e-300);
    return n > MOST_NINES ? MOST_NINES : n > 0 ? (int)n : 0;
}

void dna_put_cell(zt_str *s, double overlap, bool same, bool color)
{
    /* red to green of the 256 colours; the same: dim */
    static const int shade[] = {196, 202, 208, 214, 220, 226, 190, 154, 118, 82, 8};
    int n = dna_nines(overlap, same);
    char c = n > MOST_NINES ? '=' : (char)('0' + n);
    if (color)
        zt_str_printf(s, "\033[38;5;%dm%c\033[0m", shade[n], c);
    else
        zt_str_putc(s, c);
}

static void put_layer(zt_str *s, const zt_dna_score *r, bool color)
{
    if (r)
        dna_put_cell(s, r->overlap, r->same, color);
    else
        zt_str_putc(s, '.');
}

/* The index of a key, which is new or not. */
static zt_status index_of(zt_map *m, const char *key, size_t n, const zt_dna_layer **first,
                          int64_t *count, const zt_dna_layer *l, int64_t *at)
{
    if (zt_map_get(m, key, n, at)) return ZT_OK;
    *at = (*count)++;
    first[*at] = l;
    return zt_map_put(m, key, n, *at);
}

static zt_status place(map *m, const zt_dna_layer *l, int64_t *row, int64_t *column)
{
    bool net = zt_dna_is_net(m->t->a); /* cells have layers by number, blocks tensors by type */
    const char *key = net ? (const char *)&l->place[3] : l->type;
    size_t n = net ? sizeof l->place[3] : strlen(l->type);
    zt_status s = index_of(m->rows, key, n, m->row, &m->n_rows, l, row);
    return s == ZT_OK ? index_of(m->columns, (const char *)l->place, 3 * sizeof *l->place,
                                 m->column, &m->n_columns, l, column)
                      : s;
}

static int by_place(const void *a, const void *b)
{
    const zt_dna_layer *p = *(const zt_dna_layer *const *)a, *q = *(const zt_dna_layer *const *)b;
    for (int k = 0; k < 3; k++)
        if (p->place[k] != q->place[k]) return p->place[k] < q->place[k] ? -1 : 1;
    return 0;
}

static int by_number(const void *a, const void *b)
{
    const zt_dna_layer *p = *(const zt_dna_layer *const *)a, *q = *(const zt_dna_layer *const *)b;
    return (p->place[3] > q->place[3]) - (p->place[3] < q->place[3]);
}

/* Blocks by number, whatever the order of the file: what is of none comes first. */
static zt_status put_in_order(map *m)
{
    zt_status s = ZT_OK;
    qsort(m->column, (size_t)m->n_columns, sizeof *m->column, by_place);
    for (int64_t c = 0; c < m->n_columns && s == ZT_OK; c++)
        s = zt_map_put(m->columns, (const char *)m->column[c]->place, 3 * sizeof(int64_t), c);
    if (!zt_dna_is_net(m->t->a)) return s;
    qsort(m->row, (size_t)m->n_rows, sizeof *m->row, by_number);
    for (int64_t r = 0; r < m->n_rows && s == ZT_OK; r++)
        s = zt_map_put(m->rows, (const char *)&m->row[r]->place[3], sizeof(int64_t), r);
    return s;
}

static zt_status lay_out(map *m)
{
    zt_ctx *ctx = m->t->cli->ctx;
    const zt_dna_verdict *v = m->t->v;
    int64_t r, c;
    zt_status s = ZT_OK;
    m->rows = zt_map_new(ctx, 64);
    m->columns = zt_map_new(ctx, 64);
    m->row = zt_alloc_array(ctx, (size_t)v->score_count + 1, sizeof *m->row);
    m->column = zt_alloc_array(ctx, (size_t)v->score_count + 1, sizeof *m->column);
    if (!m->rows || !m->columns || !m->row || !m->column) return ZT_ENOMEM;
    for (int64_t k = 0; k < v->score_count && s == ZT_OK; k++)
        s = place(m, zt_dna_get(m->t->a, v->scores[k].layer_a), &r, &c);
    if (s == ZT_OK) s = put_in_order(m);
    size_t cells = 0;
    if (s == ZT_OK && !zt_mul_size((size_t)m->n_rows, (size_t)m->n_columns, &cells))
        return zt_fail(ctx, ZT_ENOMEM, "a map of %" PRId64 " by %" PRId64, m->n_rows, m->n_columns);
    m->at = s == ZT_OK ? zt_calloc(ctx, cells + 1, sizeof(void *)) : NULL;
    if (s == ZT_OK && !m->at) s = ZT_ENOMEM;
    for (int64_t k = 0; k < v->score_count && s == ZT_OK; k++) {
        s = place(m, zt_dna_get(m->t->a, v->scores[k].layer_a), &r, &c);
        m->at[r * m->n_columns + c] = &v->scores[k];
    }
    return s;
}

/* What a row is of, as text for a terminal. */
static void put_label(const map *m, int64_t row, zt_str *s)
{
    const zt_dna_layer *l = m->row[row];
    zt_str_clear(s);
    if (zt_dna_is_net(m->t->a))
        zt_str_printf(s, "layer %" PRId64, l->place[3]);
    else
        zt_str_put_escaped(s, l->type, strlen(l->type));
}

static void put_map(const map *m, zt_str *s)
{
    bool color = m->t->cli->color == 1;
    zt_str label;
    zt_str_init(&label, s->ctx);
    for (int64_t r = 0; r < m->n_rows; r++) {
        put_label(m, r, &label);
        zt_str_printf(s, "%-*s ", TYPE_WIDTH, label.data ? label.data : "");
        for (int64_t c = 0; c < m->n_columns; c++) put_layer(s, m->at[r * m->n_columns + c], color);
        zt_str_putc(s, '\n');
    }
    zt_str_fini(&label);
    zt_str_printf(s, "%-*s ", TYPE_WIDTH, "block");
    for (int64_t c = 0; c < m->n_columns; c++) {
        int64_t z = m->column[c]->place[0];
        zt_str_putc(s, z < 0 ? '-' : (char)('0' + z % 10));
    }
    zt_str_putc(s, '\n');
}

/* ---- a drawing ------------------------------------------------------------------------------- */

enum { CELL = 16, LEFT = 220, TOP = 48, BELOW = 76, RIGHT = 24, LEGEND = 30 };

void dna_draw_cell(zt_str *s, int64_t row, int64_t column, double overlap, bool same,
                   const char *what)
{
    char colour[8], title[320];
    snprintf(title, sizeof title, "%s: %.7f%s", what, overlap, same ? ", the same" : "");
    zt_svg_ramp(dna_nines(overlap, same) / (double)(MOST_NINES + 1), colour);
    zt_svg_rect(s, (double)(LEFT + column * CELL), (double)(TOP + row * CELL), CELL - 1, CELL - 1,
                colour, title);
}

/* A colour for each number of nines, and for what is the same. */
static void draw_legend(zt_str *s, double y)
{
    static const char *const labels[MOST_NINES + 2] = {
        "0", "0.9", "0.99", "0.999", "4 nines", "5", "6", "7", "8", "9", "the same"};
    enum { WIDTH = 21 };
    char colour[8];
    zt_svg_text(s, LEFT - 8, y + CELL - 4, ZT_SVG_SMALL, ZT_SVG_STOP, false, "overlap from");
    for (int k = 0; k <= MOST_NINES + 1; k++) {
        double x = (double)(LEFT + k * WIDTH);
        zt_svg_ramp(k / (double)(MOST_NINES + 1), colour);
        zt_svg_rect(s, x, y, WIDTH - 1, CELL - 4, colour, labels[k]);
        if (k % 3 == 0 || k > MOST_NINES)
            zt_svg_text(s, x, y + CELL + 8, ZT_SVG_SMALL, ZT_SVG_START, false, labels[k]);
    }
}

void dna_draw_begin(zt_str *s, int64_t rows, int64_t columns, const char *title)
{
    double w = LEFT + (double)columns * CELL + RIGHT, h = TOP + (double)rows * CELL + BELOW;
    enum { LEAST = LEFT + 320 }; /* the legend */
    zt_svg_begin(s, w < LEAST ? LEAST : w, h, title);
    draw_legend(s, TOP + (double)rows * CELL + LEGEND);
}

void dna_draw_row(zt_str *s, int64_t row, const char *label)
{
    zt_svg_text(s, LEFT - 8, (double)(TOP + row * CELL + CELL - 4), ZT_SVG_SMALL, ZT_SVG_STOP,
                false, label);
}

static void draw(const map *m, zt_str *s)
{
    char number[24];
    zt_str label;
    zt_str_init(&label, s->ctx);
    dna_draw_begin(s, m->n_rows, m->n_columns,
                   "overlap by type and block");
    for (int64_t r = 0; r < m->n_rows; r++) {
        put_label(m, r, &label);
        dna_draw_row(s, r, label.data ? label.data : "");
        for (int64_t c = 0; c < m->n_columns; c++) {
            const zt_dna_score *x = m->at[r * m->n_columns + c];
            if (x) dna_draw_cell(s, r, c, x->overlap, x->same, zt_dna_get(m->t->a, x->layer_a)->name);
        }
    }
    for (int64_t c = 0; c < m->n_columns; c++) {
        int64_t z = m->column[c]->place[0];
        snprintf(number, sizeof number, "%" PRId64, z);
        if (z >= 0 && z % 5 == 0)
            zt_svg_text(s, (double)(LEFT + c * CELL + CELL / 2),
                        (double)(TOP + m->n_rows * CELL + 14), ZT_SVG_SMALL, ZT_SVG_MIDDLE, false,
                        number);
    }
    zt_svg_end(s);
    zt_str_fini(&label);
}

zt_status dna_write_plot(zt_cli *cli, const dna_options *o, const zt_str *s)
{
    zt_status st = zt_ctx_status(cli->ctx);
    zt_sink *out = st == ZT_OK ? zt_sink_open(cli->ctx, o->plot, cli->force) : NULL;
    if (st == ZT_OK) st = out ? zt_sink_write(out, s->data, s->len) : zt_ctx_status(cli->ctx);
    if (st == ZT_OK) st = zt_sink_commit(out);
    zt_sink_close(out);
    return st;
}

static void free_map(map *m)
{
    zt_ctx *ctx = m->t->cli->ctx;
    zt_map_free(m->rows);
    zt_map_free(m->columns);
    zt_free(ctx, m->row);
    zt_free(ctx, m->column);
    zt_free(ctx, m->at);
}

zt_status dna_tell_map(const dna_told *t, bool plot)
{
    map m = {.t = t};
    zt_str s;
    zt_str_init(&s, t->cli->ctx);
    zt_status st = lay_out(&m);
    if (st == ZT_OK) {
        (plot ? draw : put_map)(&m, &s);
        st = zt_ctx_status(t->cli->ctx);
    }
    if (st == ZT_OK)
        st = plot ? dna_write_plot(t->cli, t->o, &s) : zt_cli_write(t->cli, s.data, s.len);
    zt_str_fini(&s);
    free_map(&m);
    return st;
}
