/* compare.c - zt-dna compare: two models side by side. */
#include "tools/zt-dna/dna_tool.h"

#include <string.h>

static bool wanted(const void *user, const char *name)
{
    return dna_selected(((const dna_told *)user)->o, name);
}

static zt_status report_progress(void *user, const char *layer, int64_t done, int64_t all)
{
    return dna_tick(((const dna_told *)user)->cli, layer, done, all);
}

/* In words, on stderr. */
static void sum_up(const dna_told *t)
{
    const zt_dna_verdict *v = t->v;
    char missing[96] = "";
    if (v->only_a || v->only_b)
        snprintf(missing, sizeof missing, "; %lld only in the first, %lld only in the second",
                 (long long)v->only_a, (long long)v->only_b);
    zt_cli_note(t->cli, "overlap %.6f, relative L2 %.3g; %lld of %lld layers are the same%s",
                v->overlap, v->rel_l2, (long long)v->same_count, (long long)v->score_count, missing);
}

static zt_status tell(const dna_told *t)
{
    zt_status s = t->o->plot ? dna_tell_map(t, true) : ZT_OK;
    if (s != ZT_OK || t->o->map) return s != ZT_OK ? s : dna_tell_map(t, false);
    if (t->cli->format == ZT_FMT_JSON) return dna_tell_json(t);
    sum_up(t);
    if (t->o->shifts) return dna_tell_shifts(t);
    return t->o->by == DNA_BY_BLOCK ? dna_tell_blocks(t) : dna_tell_layers(t);
}

static zt_status compare(zt_cli *cli, const dna_options *o, zt_dna *a, zt_dna *b)
{
    zt_dna_verdict v = {.ctx = NULL};
    dna_told t = {.cli = cli, .o = o, .a = a, .b = b, .v = &v};
    zt_dna_compare_opts how = {.threads = dna_threads(cli),
                      .ranks = !o->shifts && !o->map,
                      .shifts = o->shifts || (cli->format == ZT_FMT_JSON && !o->map),
                      .wanted = wanted,
                      .progress = report_progress,
                      .user = &t};
    zt_status s = zt_dna_compare(a, b, &how, &v);
    if (s == ZT_OK) s = tell(&t);
    if (s == ZT_OK && !(v.overlap >= o->threshold)) zt_cli_no(cli);
    zt_dna_verdict_free(&v);
    return s;
}

zt_status dna_compare(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    (void)n;
    if (!strcmp(operands[0], "-") && !strcmp(operands[1], "-"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "both models cannot be stdin");
    if (o->shifts + o->map + (o->by == DNA_BY_BLOCK) > 1)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--shifts, --map and --by block exclude each other");
    for (int i = 0; i < 2; i++) {
        zt_status same = zt_cli_refuse_same(cli, operands[i], o->plot);
        if (same != ZT_OK) return same;
    }
    zt_dna *a = dna_open(cli, o, operands[0]);
    zt_dna *b = a ? dna_open(cli, o, operands[1]) : NULL;
    zt_status s = b ? compare(cli, o, a, b) : zt_ctx_status(cli->ctx);
    zt_dna_close(a);
    zt_dna_close(b);
    return s;
}
