/* lineage.c - zt-dna lineage: who comes from whom, as a table, JSON, a tree or a drawing. */
#include "tools/common/svg.h"
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256, NUMBER = 32 };

typedef struct line {
    zt_cli *cli;
    const dna_options *o;
    char **name; /* of the files */
    int n;
    zt_dna *m[MOST];
    zt_lineage of;
} line;

static zt_status tick(void *user, const char *layer, int64_t done, int64_t all)
{
    return dna_tick(((const line *)user)->cli, layer, done, all);
}

static bool wanted(const void *user, const char *name)
{
    return dna_selected(((const line *)user)->o, name);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_matrix(zt_str *s, const char *key, const double *x, int n)
{
    zt_str_printf(s, ",\"%s\":[", key);
    for (int i = 0; i < n * n; i++) {
        zt_str_puts(s, i % n == 0 ? (i ? ",[" : "[") : ",");
        if (isfinite(x[i]))
            zt_str_put_double(s, x[i]);
        else
            zt_str_puts(s, "null");
        if (i % n == n - 1) zt_str_putc(s, ']');
    }
    zt_str_putc(s, ']');
}

static void put_kin(zt_str *s, const line *l, int i)
{
    const zt_dna_descent *k = &l->of.descents[i];
    int64_t listed = 0;
    zt_str_puts(s, i ? ",{" : "{");
    dna_put_text(s, "model", l->name[i]);
    zt_str_putc(s, ',');
    if (k->parent >= 0)
        dna_put_text(s, "parent", l->name[k->parent]);
    else
        zt_str_puts(s, "\"parent\":null");
    zt_str_putc(s, ',');
    dna_put_text(s, "kind", zt_dna_relation_name(k->relation));
    dna_put_number(s, "overlap", k->parent < 0 ? NAN : k->verdict.overlap);
    dna_put_number(s, "rel_l2", k->parent < 0 ? NAN : k->verdict.rel_l2);
    zt_str_puts(s, ",\"frozen\":[");
    for (int64_t r = 0; r < k->verdict.score_count; r++) {
        if (!k->verdict.scores[r].same) continue;
        const char *name = zt_dna_get(l->m[k->parent], k->verdict.scores[r].layer_a)->name;
        if (listed++) zt_str_putc(s, ',');
        zt_str_put_json(s, name, strlen(name));
    }
    zt_str_puts(s, "]}");
}

static zt_status tell_json(const line *l)
{
    zt_str s;
    zt_str_init(&s, l->cli->ctx);
    zt_str_puts(&s, "{\"schema\":\"zt.dna.lineage/1\",\"models\":[");
    for (int i = 0; i < l->n; i++) {
        if (i) zt_str_putc(&s, ',');
        zt_str_put_json(&s, l->name[i], strlen(l->name[i]));
    }
    zt_str_putc(&s, ']');
    put_matrix(&s, "overlap", l->of.overlap, l->n);
    put_matrix(&s, "cosine", l->of.cosine, l->n);
    put_matrix(&s, "rel_l2", l->of.rel_l2, l->n);
    zt_str_puts(&s, ",\"tree\":[");
    for (int i = 0; i < l->n; i++) put_kin(&s, l, i);
    zt_status st = zt_str_puts(&s, "]}\n");
    if (st == ZT_OK) st = zt_cli_write(l->cli, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { OWN = 7 }; /* columns before the matrix's */

static zt_status put_row(zt_table *t, const line *l, int i)
{
    const zt_dna_descent *k = &l->of.descents[i];
    char text[4][NUMBER] = {"", "", "", ""}, cell[MOST][NUMBER];
    const char *row[OWN + MOST];
    if (k->parent >= 0) {
        snprintf(text[0], NUMBER, "%.7f", k->verdict.overlap);
        snprintf(text[1], NUMBER, "%.5g", k->verdict.rel_l2);
        snprintf(text[2], NUMBER, "%" PRId64, k->verdict.same_count);
        snprintf(text[3], NUMBER, "%" PRId64, k->verdict.score_count);
    }
    row[0] = l->name[i];
    row[1] = k->parent < 0 ? "" : l->name[k->parent];
    row[2] = zt_dna_relation_name(k->relation);
    for (int c = 0; c < 4; c++) row[3 + c] = text[c];
    for (int j = 0; j < l->n; j++) {
        snprintf(cell[j], NUMBER, "%.6f", l->of.overlap[i * l->n + j]);
        row[OWN + j] = cell[j];
    }
    return zt_table_row(t, row);
}

static zt_status tell_table(const line *l)
{
    static const char *const own[OWN] = {"model",   "parent",  "kind",   "#overlap",
                                         "#rel_l2", "#frozen", "#layers"};
    const char *columns[OWN + MOST];
    char numbered[MOST][NUMBER];
    for (int c = 0; c < OWN; c++) columns[c] = own[c];
    for (int j = 0; j < l->n; j++) {
        snprintf(numbered[j], NUMBER, "#with_%d", j + 1);
        columns[OWN + j] = numbered[j];
    }
    zt_table *t = zt_table_new(l->cli, "dna.lineage", columns, OWN + l->n);
    zt_status s = t ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < l->n && s == ZT_OK; i++) s = put_row(t, l, i);
    if (s == ZT_OK) s = zt_table_print(t);
    zt_table_free(t);
    return s;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void put_node(zt_str *s, const line *l, int i, int depth)
{
    const zt_dna_descent *k = &l->of.descents[i];
    for (int d = 1; d < depth; d++) zt_str_puts(s, "   ");
    if (depth) zt_str_puts(s, "`- ");
    zt_str_put_escaped(s, l->name[i], strlen(l->name[i]));
    if (k->parent >= 0)
        zt_str_printf(s, "  %s, relative L2 %.3g, %" PRId64 " of %" PRId64 " layers the same",
                      zt_dna_relation_name(k->relation), k->verdict.rel_l2, k->verdict.same_count, k->verdict.score_count);
    zt_str_putc(s, '\n');
    for (int j = 0; j < l->n; j++)
        if (l->of.descents[j].parent == i) put_node(s, l, j, depth + 1);
}

static zt_status tell_tree(const line *l)
{
    zt_str s;
    zt_str_init(&s, l->cli->ctx);
    for (int i = 0; i < l->n; i++)
        if (l->of.descents[i].parent < 0) put_node(&s, l, i, 0);
    for (int i = 0; i < l->n; i++) {
        zt_str_putc(&s, '\n');
        for (int j = 0; j < l->n; j++) {
            double overlap = l->of.overlap[i * l->n + j];
            bool same = l->of.rel_l2[i * l->n + j] == 0;
            dna_put_cell(&s, overlap, same, l->cli->color == 1);
        }
        zt_str_putc(&s, ' ');
        zt_str_put_escaped(&s, l->name[i], strlen(l->name[i]));
    }
    zt_status st = zt_str_putc(&s, '\n');
    if (st == ZT_OK) st = zt_cli_write(l->cli, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

/* ---- a drawing ------------------------------------------------------------------------------- */

static zt_status draw(const line *l)
{
    zt_str s, what;
    zt_str_init(&s, l->cli->ctx);
    zt_str_init(&what, l->cli->ctx);
    dna_draw_begin(&s, l->n, l->n, "overlap of every two");
    for (int i = 0; i < l->n; i++) {
        dna_draw_row(&s, i, l->name[i]);
        for (int j = 0; j < l->n; j++) {
            zt_str_clear(&what);
            zt_str_printf(&what, "%s, %s", l->name[i], l->name[j]);
            dna_draw_cell(&s, i, j, l->of.overlap[i * l->n + j], l->of.rel_l2[i * l->n + j] == 0,
                          what.data ? what.data : "");
        }
    }
    zt_svg_end(&s);
    zt_status st = dna_write_plot(l->cli, l->o, &s);
    zt_str_fini(&s);
    zt_str_fini(&what);
    return st;
}

/* ---- the command ----------------------------------------------------------------------------- */

static zt_status tell(const line *l)
{
    zt_status s = l->o->plot ? draw(l) : ZT_OK;
    if (s != ZT_OK || l->o->map) return s != ZT_OK ? s : tell_tree(l);
    return l->cli->format == ZT_FMT_JSON ? tell_json(l) : tell_table(l);
}

zt_status dna_lineage(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    line l = {.cli = cli, .o = o, .name = operands, .n = n};
    zt_dna_compare_opts how = {.threads = dna_threads(cli), .wanted = wanted, .progress = tick, .user = &l};
    double above = zt_cli_given(cli, "threshold") ? o->threshold : 0.5;
    int stdins = 0;
    if (n > MOST) return zt_fail(cli->ctx, ZT_EUSAGE, "%d models; %d at most", n, MOST);
    zt_status s = ZT_OK;
    for (int i = 0; i < n && s == ZT_OK; i++) {
        stdins += !strcmp(operands[i], "-");
        s = zt_cli_refuse_same(cli, operands[i], o->plot);
    }
    if (s != ZT_OK) return s;
    if (stdins > 1) return zt_fail(cli->ctx, ZT_EUSAGE, "only one model can be stdin");
    for (int i = 0; i < n && s == ZT_OK; i++) {
        l.m[i] = dna_open(cli, o, operands[i]);
        s = l.m[i] ? ZT_OK : zt_ctx_status(cli->ctx);
    }
    if (s == ZT_OK) s = zt_dna_lineage(l.m, n, &how, above, &l.of);
    if (s == ZT_OK) s = tell(&l);
    zt_lineage_free(&l.of);
    for (int i = 0; i < n; i++) zt_dna_close(l.m[i]);
    return s;
}
