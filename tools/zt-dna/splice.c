/* splice.c - zt-dna splice: a child of two models, and a report of how it came about. */
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const modes[] = {"blend", "point", "uniform"};

typedef struct splice {
    zt_cli *cli;
    const dna_options *o;
    zt_dna *a, *b, *child;
    zt_dna_compare_opts how;
} splice;

static zt_status tick(void *user, const char *layer, int64_t done, int64_t all)
{
    return dna_tick(((const splice *)user)->cli, layer, done, all);
}

/* ---- the report ------------------------------------------------------------------------------ */

static void put_config(const splice *x, zt_str *s)
{
    const dna_options *o = x->o;
    zt_str_puts(s, "{\"schema\":\"zt.dna.splice/1\",");
    dna_put_text(s, "mode", modes[o->mode]);
    zt_str_putc(s, ',');
    dna_put_text(s, "rule", o->rule == ZT_RULE_LOOM ? "loom" : "field");
    dna_put_number(s, "alpha", o->alpha);
    dna_put_number(s, "ratio", o->ratio);
    dna_put_number(s, "fitness_a", o->fitness_a);
    dna_put_number(s, "fitness_b", o->fitness_b);
    zt_str_printf(s, ",\"seed\":%" PRIu64, x->cli->seed);
}

static void put_layers(const splice *x, zt_str *s)
{
    int64_t mixed = 0, common = 0;
    zt_str_puts(s, ",\"similarities\":{");
    for (int64_t i = 0; i < zt_dna_count(x->a); i++) {
        const zt_splice_row *r = zt_dna_splice_row(x->child, i);
        mixed += r->mixed;
        if (r->layer_b < 0) continue;
        if (common++) zt_str_putc(s, ',');
        zt_str_put_json(s, zt_dna_get(x->a, i)->name, strlen(zt_dna_get(x->a, i)->name));
        zt_str_putc(s, ':');
        if (isfinite(r->similarity))
            zt_str_put_double(s, r->similarity);
        else
            zt_str_puts(s, "null");
    }
    zt_str_printf(s, "},\"mixed\":%" PRId64 ",\"layers\":[", mixed);
    for (int64_t i = 0; i < zt_dna_count(x->a); i++) {
        const zt_splice_row *r = zt_dna_splice_row(x->child, i);
        zt_str_puts(s, i ? ",{" : "{");
        dna_put_text(s, "name", zt_dna_get(x->a, i)->name);
        zt_str_printf(s, ",\"in_b\":%s,\"mixed\":%s", r->layer_b < 0 ? "false" : "true",
                      r->mixed ? "true" : "false");
        dna_put_number(s, "alpha", r->mixed && x->o->mode == ZT_SPLICE_BLEND ? r->alpha : NAN);
        zt_str_putc(s, '}');
    }
    zt_str_putc(s, ']');
}

static zt_status put_overlap(const splice *x, const char *key, zt_dna *parent, zt_str *s)
{
    zt_dna_verdict v = {.ctx = NULL};
    zt_status st = zt_dna_compare(x->child, parent, &x->how, &v);
    if (st == ZT_OK) dna_put_number(s, key, v.overlap);
    zt_dna_verdict_free(&v);
    return st;
}

static zt_status put_dna(const char *key, zt_dna *d, zt_str *s)
{
    zt_str_printf(s, ",\"%s\":", key);
    return dna_put_signatures(d, zt_dna_is_net(d), s);
}

/* Of networks the signatures are told whole, of checkpoints what they are of. */
static zt_status make_report(const splice *x, zt_str *s)
{
    put_config(x, s);
    put_layers(x, s);
    zt_status st = put_overlap(x, "child_vs_a", x->a, s);
    if (st == ZT_OK) st = put_overlap(x, "child_vs_b", x->b, s);
    if (st == ZT_OK) st = put_dna("dna_a", x->a, s);
    if (st == ZT_OK) st = put_dna("dna_b", x->b, s);
    if (st == ZT_OK) st = put_dna("dna_child", x->child, s);
    return st == ZT_OK ? zt_str_puts(s, "}\n") : st;
}

/* ---- the child ------------------------------------------------------------------------------- */

static zt_status check(zt_cli *cli, const dna_options *o, char **operands)
{
    const char *out = cli->output;
    if (!out) return zt_fail(cli->ctx, ZT_EUSAGE, "the output is missing: -o CHILD");
    if (!strcmp(operands[0], "-") && !strcmp(operands[1], "-"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "both models cannot be stdin");
    zt_status s = ZT_OK;
    for (int i = 0; i < 2 && s == ZT_OK; i++) {
        s = zt_cli_refuse_same(cli, operands[i], out);
        if (s == ZT_OK) s = zt_cli_refuse_same(cli, operands[i], o->report);
    }
    return s;
}

static zt_status make_child(splice *x)
{
    const dna_options *o = x->o;
    zt_splice_opts how = {.mode = (zt_splice_mode)o->mode,
                         .alpha = o->alpha,
                         .ratio = o->ratio,
                         .fitness_a = o->fitness_a,
                         .fitness_b = o->fitness_b,
                         .seed = x->cli->seed};
    int64_t mixed = 0;
    x->child = zt_dna_splice(x->a, x->b, &how, &x->how);
    for (int64_t i = 0; x->child && i < zt_dna_count(x->a); i++)
        mixed += zt_dna_splice_row(x->child, i)->mixed;
    if (x->child && mixed == 0)
        return zt_fail(x->cli->ctx, ZT_ESHAPE,
                       "%s: none of its %" PRId64 " layers has type, shape and dtype of one in %s",
                       zt_dna_name(x->a), zt_dna_count(x->a), zt_dna_name(x->b));
    return x->child ? ZT_OK : zt_ctx_status(x->cli->ctx);
}

/* A is the template: what B alone has is not in the child. */
static void tell_left_out(const splice *x)
{
    const char *first = NULL;
    int64_t n = 0;
    char shown[160];
    for (int64_t i = 0; i < zt_dna_count(x->b); i++) {
        const char *name = zt_dna_get(x->b, i)->name;
        if (zt_dna_find(x->a, name) >= 0) continue;
        first = first ? first : name;
        n++;
    }
    if (n)
        zt_cli_note(x->cli, "warning: %" PRId64 " layer%s of %s alone %s not in the child: '%s'%s",
                    n, n == 1 ? "" : "s", zt_dna_name(x->b), n == 1 ? "is" : "are",
                    zt_escape(shown, sizeof shown, first, strlen(first)), n == 1 ? "" : ", ...");
}

/* The child, and then the report: where one fails there is no report, and no child without one that
 * could be written. */
static zt_status write_both(splice *x)
{
    const dna_options *o = x->o;
    zt_str report;
    zt_str_init(&report, x->cli->ctx);
    zt_status s = o->report ? make_report(x, &report) : ZT_OK;
    zt_sink *sink =
        s == ZT_OK && o->report ? zt_sink_open(x->cli->ctx, o->report, x->cli->force) : NULL;
    if (s == ZT_OK && o->report)
        s = sink ? zt_sink_write(sink, report.data, report.len) : zt_ctx_status(x->cli->ctx);
    if (s == ZT_OK) s = dna_write(x->cli, o, x->child, modes[o->mode]);
    if (s == ZT_OK && sink) s = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_str_fini(&report);
    return s;
}

zt_status dna_splice(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    splice x = {.cli = cli, .o = o};
    (void)n;
    x.how = (zt_dna_compare_opts){.threads = dna_threads(cli), .progress = tick, .user = &x};
    zt_status s = check(cli, o, operands);
    if (s != ZT_OK) return s;
    x.a = dna_open(cli, o, operands[0]);
    x.b = x.a ? dna_open(cli, o, operands[1]) : NULL;
    s = x.b ? make_child(&x) : zt_ctx_status(cli->ctx);
    if (s == ZT_OK) tell_left_out(&x);
    if (s == ZT_OK) s = write_both(&x);
    zt_dna_close(x.child);
    zt_dna_close(x.a);
    zt_dna_close(x.b);
    return s;
}
