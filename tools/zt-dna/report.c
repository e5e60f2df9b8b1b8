/* report.c - what compare has found: as JSON, and as tables of layers, blocks and shifts. */
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 32 };

/* A number as a cell; "" for none. */
static const char *cell(char buf[NUMBER], const char *format, double x)
{
    buf[0] = 0;
    if (!isnan(x)) snprintf(buf, NUMBER, format, x);
    return buf;
}

static const char *yes(bool b) { return b ? "yes" : "no"; }

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_layer(zt_str *s, const dna_told *t, const zt_dna_score *r)
{
    const zt_dna_layer *a = zt_dna_get(t->a, r->layer_a), *b = zt_dna_get(t->b, r->layer_b);
    zt_str_putc(s, '{');
    dna_put_text(s, "name", a->name);
    dna_put_place(s, a);
    dna_put_text(s, "type", a->type);
    zt_str_putc(s, ',');
    dna_put_text(s, "dtype_a", a->dtype);
    zt_str_putc(s, ',');
    dna_put_text(s, "dtype_b", b->dtype);
    dna_put_number(s, "overlap", r->overlap);
    dna_put_number(s, "cosine", r->cosine);
    dna_put_number(s, "rel_l2", r->rel_l2);
    dna_put_number(s, "spread", r->spread);
    dna_put_number(s, "rank_a", r->rank_a);
    dna_put_number(s, "rank_b", r->rank_b);
    dna_put_number(s, "rank_change", r->rank_b / r->rank_a);
    dna_put_number(s, "max_diff", r->max_diff);
    zt_str_printf(s, ",\"same\":%s,\"changed\":%s,", r->same ? "true" : "false",
                  r->changed ? "true" : "false");
    dna_put_text(s, "change", zt_dna_change_word(r->change));
    zt_str_putc(s, '}');
}

static void put_shift(zt_str *s, const dna_told *t, const zt_dna_shift *x)
{
    zt_str_putc(s, '{');
    dna_put_text(s, "source", zt_dna_get(t->a, x->from_layer)->name);
    zt_str_putc(s, ',');
    dna_put_text(s, "target", zt_dna_get(t->b, x->to_layer)->name);
    dna_put_number(s, "overlap", x->overlap);
    zt_str_putc(s, '}');
}

zt_status dna_tell_json(const dna_told *t)
{
    const zt_dna_verdict *v = t->v;
    zt_str s;
    zt_str_init(&s, t->cli->ctx);
    zt_str_puts(&s, "{\"schema\":\"zt.dna/1\",");
    dna_put_text(&s, "rule", t->o->rule == ZT_RULE_LOOM ? "loom" : "field");
    dna_put_number(&s, "overlap", v->overlap);
    dna_put_number(&s, "cosine", v->cosine);
    dna_put_number(&s, "rel_l2", v->rel_l2);
    zt_str_printf(&s,
                  ",\"alike\":%s,\"same\":%" PRId64 ",\"only_a\":%" PRId64 ",\"only_b\":%" PRId64
                  ",\"layers\":[",
                  v->overlap >= t->o->threshold ? "true" : "false", v->same_count, v->only_a, v->only_b);
    for (int64_t k = 0; k < v->score_count; k++) {
        if (k) zt_str_putc(&s, ',');
        put_layer(&s, t, &v->scores[k]);
    }
    zt_str_puts(&s, "],\"shifts\":[");
    for (int64_t k = 0; k < v->shift_count; k++) {
        if (k) zt_str_putc(&s, ',');
        put_shift(&s, t, &v->shifts[k]);
    }
    zt_status st = zt_str_puts(&s, "]}\n");
    if (st == ZT_OK) st = zt_cli_write(t->cli, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

/* ---- tables ---------------------------------------------------------------------------------- */

zt_status dna_tell_layers(const dna_told *t)
{
    static const char *const columns[] = {"name",    "dtype_a", "dtype_b", "#overlap", "#rel_l2",
                                          "#spread", "#rank",   "same",    "changed"};
    zt_table *table = zt_table_new(t->cli, "dna", columns, 9);
    zt_status s = table ? ZT_OK : ZT_ENOMEM;
    for (int64_t k = 0; k < t->v->score_count && s == ZT_OK; k++) {
        char n[4][NUMBER];
        const zt_dna_score *r = &t->v->scores[k];
        const zt_dna_layer *a = zt_dna_get(t->a, r->layer_a), *b = zt_dna_get(t->b, r->layer_b);
        s = zt_table_row(
            table, (const char *[]){a->name, a->dtype, b->dtype, cell(n[0], "%.7f", r->overlap),
                                    cell(n[1], "%.5g", r->rel_l2), cell(n[2], "%.5f", r->spread),
                                    cell(n[3], "%.4f", r->rank_b / r->rank_a), yes(r->same),
                                    zt_dna_change_word(r->change)});
    }
    if (s == ZT_OK) s = zt_table_print(table);
    zt_table_free(table);
    return s;
}

zt_status dna_tell_shifts(const dna_told *t)
{
    static const char *const columns[] = {"source", "target", "#overlap"};
    zt_table *table = zt_table_new(t->cli, "dna.shifts", columns, 3);
    zt_status s = table ? ZT_OK : ZT_ENOMEM;
    for (int64_t k = 0; k < t->v->shift_count && s == ZT_OK; k++) {
        char n[NUMBER];
        const zt_dna_shift *x = &t->v->shifts[k];
        s = zt_table_row(table, (const char *[]){zt_dna_get(t->a, x->from_layer)->name,
                                                 zt_dna_get(t->b, x->to_layer)->name,
                                                 cell(n, "%.7f", x->overlap)});
    }
    if (s == ZT_OK) s = zt_table_print(table);
    zt_table_free(table);
    return s;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct block {
    int64_t z, y, x, layers, same, changed;
    double overlap, a2, b2, ab, d2;
} block;

static int by_place(const void *a, const void *b)
{
    const block *p = a, *q = b;
    if (p->z != q->z) return p->z < q->z ? -1 : 1;
    if (p->y != q->y) return p->y < q->y ? -1 : 1;
    return (p->x > q->x) - (p->x < q->x);
}

static void add(block *b, const zt_dna_score *r)
{
    b->layers++;
    b->same += r->same;
    b->changed += r->changed;
    b->overlap += r->overlap;
    b->a2 += r->sum_aa;
    b->b2 += r->sum_bb;
    b->ab += r->sum_ab;
    b->d2 += r->sum_dd;
}

static zt_status put_block(zt_table *table, const block *b)
{
    char p[6][NUMBER], n[3][NUMBER];
    const int64_t whole[6] = {b->z, b->y, b->x, b->layers, b->same, b->changed};
    for (int k = 0; k < 6; k++) snprintf(p[k], NUMBER, "%" PRId64, whole[k]);
    double cosine = b->a2 > 0 && b->b2 > 0 ? b->ab / (sqrt(b->a2) * sqrt(b->b2)) : NAN;
    double rel_l2 = b->d2 == 0 ? 0 : sqrt(b->d2 / b->a2);
    return zt_table_row(table, (const char *[]){p[0], p[1], p[2], p[3],
                                                cell(n[0], "%.7f", b->overlap / (double)b->layers),
                                                cell(n[1], "%.7f", cosine),
                                                cell(n[2], "%.5g", rel_l2), p[4], p[5]});
}

zt_status dna_tell_blocks(const dna_told *t)
{
    static const char *const columns[] = {"#z",      "#y",      "#x",    "#layers", "#overlap",
                                          "#cosine", "#rel_l2", "#same", "#changed"};
    const zt_dna_verdict *v = t->v;
    zt_ctx *ctx = t->cli->ctx;
    block *b = zt_alloc_array(ctx, (size_t)v->score_count + 1, sizeof *b);
    zt_map *places = zt_map_new(ctx, (size_t)v->score_count);
    zt_table *table = zt_table_new(t->cli, "dna.blocks", columns, 9);
    zt_status s = b && places && table ? ZT_OK : ZT_ENOMEM;
    int64_t n = 0;
    for (int64_t k = 0; k < v->score_count && s == ZT_OK; k++) {
        const zt_dna_layer *l = zt_dna_get(t->a, v->scores[k].layer_a);
        int64_t at = n;
        /* the map borrows its keys: the place within the layer */
        if (!zt_map_get(places, (const char *)l->place, 3 * sizeof *l->place, &at)) {
            b[n++] = (block){.z = l->place[0], .y = l->place[1], .x = l->place[2]};
            s = zt_map_put(places, (const char *)l->place, 3 * sizeof *l->place, at);
        }
        add(&b[at], &v->scores[k]);
    }
    if (s == ZT_OK) qsort(b, (size_t)n, sizeof *b, by_place);
    for (int64_t k = 0; k < n && s == ZT_OK; k++) s = put_block(table, &b[k]);
    if (s == ZT_OK) s = zt_table_print(table);
    zt_table_free(table);
    zt_map_free(places);
    zt_free(ctx, b);
    return s;
}
