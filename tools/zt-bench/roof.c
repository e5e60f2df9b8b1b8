/* roof.c - how near to the roof (lib/engine/roof.h) a result is: the least time of what was run, by
 * its arithmetic and its bytes (lib/run/cost.h). The roof is measured once for each number of
 * threads, in the same process, and is the processor's: other engines have none.
 */
#include "tools/zt-bench/bench.h"

#include <string.h>

static const double SECONDS = 0.15; /* for one measurement */
enum { CHUNK = 512 };               /* tokens of a prompt at a time, as zt_llm_feed has it */

struct bench_roofs {
    zt_roof at[BENCH_MAX_COUNTS]; /* [n] */
    int n;
};

/* Under a limit of memory what is walked through may be less than a cache: that says nothing. */
static bool beyond_caches(const zt_roof *r)
{
    const zt_roof_level *memory = &r->level[r->n_levels - 1];
    return r->n_levels < 2 || memory->set * (size_t)r->threads > memory[-1].bytes;
}

const zt_roof *bench_roof(zt_cli *cli, const bench_options *o, bench_list *l, int threads)
{
    if (o->no_roof || o->vs || strcmp(l->engine, "cpu")) return NULL;
    if (!l->roofs) l->roofs = zt_calloc(cli->ctx, 1, sizeof *l->roofs);
    for (int i = 0; l->roofs && i < l->roofs->n; i++)
        if (l->roofs->at[i].threads == threads) return &l->roofs->at[i];
    if (!l->roofs || l->roofs->n == BENCH_MAX_COUNTS) return NULL;
    zt_roof *roof = &l->roofs->at[l->roofs->n];
    zt_roof_opts ro = {.threads = threads, .isa = cli->isa, .seconds = SECONDS, .brief = true};
    if (zt_roof_measure(cli->ctx, &ro, roof) == ZT_OK && beyond_caches(roof)) {
        l->roofs->n++;
        return roof;
    }
    zt_cli_note(cli, "no roof: too little memory to measure with");
    zt_ctx_clear(cli->ctx);
    return NULL;
}

zt_status bench_roof_add(zt_ctx *ctx, bench_list *l, const zt_roof *roof)
{
    if (!l->roofs) l->roofs = zt_calloc(ctx, 1, sizeof *l->roofs);
    if (!l->roofs) return ZT_ENOMEM;
    if (l->roofs->n < BENCH_MAX_COUNTS) l->roofs->at[l->roofs->n++] = *roof;
    return ZT_OK;
}

const zt_roof *bench_roof_nth(const bench_list *l, int i)
{
    return l->roofs && i < l->roofs->n ? &l->roofs->at[i] : NULL;
}

void bench_set_roof(bench_result *r, const zt_cost_whole *one, const zt_roof *roof)
{
    double least = zt_cost_least(one, roof);
    for (int k = 0; k < ZT_ROOF_KINDS; k++) r->flops += one->flops[k];
    r->bytes = one->bytes;
    if (!(least > 0)) return;
    double per = !strcmp(r->unit, "GFLOP/s") ? r->flops / 1e9
                 : !strcmp(r->unit, "GB/s")  ? r->bytes / 1e9
                                             : 1;
    r->roof = strcmp(r->unit, "us") ? per / least : least * 1e6;
}

bool bench_less_is_better(const char *unit)
{
    size_t n = strlen(unit);
    return n < 2 || strcmp(unit + n - 2, "/s");
}

double bench_roof_share(const bench_result *r, double median)
{
    if (!(r->roof > 0) || !(median > 0)) return 0;
    return bench_less_is_better(r->unit) ? r->roof / median : median / r->roof;
}

/* ---- language models ------------------------------------------------------------------------- */

/* A prompt's rows look back to its beginning: on average over half of the chunk, and all before. */
static zt_status add_rows(zt_llm *m, int64_t n, int64_t before, bool last, double runs,
                          zt_cost_whole *w)
{
    zt_ctx *ctx = zt_llm_ctx(m);
    const zt_prog *p = zt_llm_prog(m);
    int64_t rows = zt_llm_get(m).ctx_len / ZT_LLM_BLOCK * ZT_LLM_BLOCK + ZT_LLM_BLOCK;
    const zt_binding at[] = {{"n", n}, {"m", last}, {"ctx", rows}};
    zt_bound *b = zt_prog_bind(p, at, 3);
    int *root = b ? zt_cost_roots(ctx, p) : NULL;
    zt_status s = root ? zt_cost_add(ctx, b, root, before + (n + 1) / 2, runs, w) : ZT_ENOMEM;
    zt_free(ctx, root);
    zt_bound_free(b);
    return s;
}

zt_status bench_roof_model(zt_cli *cli, const bench_options *o, bench_list *l, zt_llm *m,
                           int64_t threads)
{
    zt_cost_whole prompt = {0}, token = {0};
    const zt_roof *roof = bench_roof(cli, o, l, (int)threads);
    zt_status s = ZT_OK;
    for (int64_t at = 0, n; at < o->prompt && roof && !s; at += n) {
        n = o->prompt - at < CHUNK ? o->prompt - at : CHUNK;
        s = add_rows(m, n, at, at + n == o->prompt, 1.0 / (double)o->prompt, &prompt);
    }
    if (roof && o->generate > 0 && !s) s = add_rows(m, 1, o->generate / 2, true, 1, &token);
    for (bench_result *r = l->first; r && roof && !s; r = r->next)
        if (r->threads == threads) bench_set_roof(r, r->test[0] == 'p' ? &prompt : &token, roof);
    return s;
}
