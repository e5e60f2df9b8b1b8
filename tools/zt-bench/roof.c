/* roof.c - how near to the roof (lib/engine/roof.h) a result is: the least time of what was run, by
 * its arithmetic and its bytes (lib/run/cost.h). The roof is measured once for each number of
 * threads, in the same process: the processor's, or the device's where its engine measures it.
 */
#include "tools/zt-bench/bench.h"

#include <string.h>

static const double SECONDS = 0.15; /* for one measurement */
enum { CHUNK = 512 };               /* tokens of a prompt at a time, as zt_llm_feed has it */

struct bench_roofs {
    zt_roof roofs[BENCH_MAX_COUNTS]; /* [count] */
    int count;
};

/* Under a limit of memory what is walked through may be less than a cache: that says nothing. */
static bool beyond_caches(const zt_roof *roof)
{
    const zt_roof_level *memory = &roof->level[roof->n_levels - 1];
    return roof->n_levels < 2 || memory->set * (size_t)roof->threads > memory[-1].bytes;
}

/* The roof of a device: its memory, and arithmetic in f32. */
static zt_status measure_device(zt_cli *cli, zt_engine *engine, zt_roof *roof)
{
    double moved = 0, computed = 0;
    zt_status status = engine->vt->rates(engine, &moved, &computed);
    if (status) return status;
    *roof = (zt_roof){.threads = 1, .n_levels = 1, .n_peaks = 1};
    roof->level[0] = (zt_roof_level){.name = "memory", .sharers = 1};
    roof->peak[0] = (zt_roof_peak){.isa = cli->isa, .kind = ZT_ROOF_F32, .set = engine->vt->name, .how = "fma"};
    for (int who = 0; who < 2; who++) {
        roof->level[0].read[who] = roof->level[0].copy[who] = moved;
        roof->peak[0].rate[who] = computed;
    }
    return moved > 0 && computed > 0 ? ZT_OK : zt_fail(cli->ctx, ZT_ESYS, "%s: no time was measured", engine->vt->name);
}

static zt_status measure_roof(zt_cli *cli, zt_engine *engine, int threads, zt_roof *roof)
{
    if (engine->vt->rates) return measure_device(cli, engine, roof);
    zt_roof_opts roof_options = {.threads = threads, .isa = cli->isa, .seconds = SECONDS, .brief = true};
    zt_status status = zt_roof_measure(cli->ctx, &roof_options, roof);
    if (status || beyond_caches(roof)) return status;
    return zt_fail(cli->ctx, ZT_ENOMEM, "too little memory");
}

const zt_roof *bench_roof(zt_cli *cli, zt_engine *engine, const bench_options *options, bench_list *list, int threads)
{
    if (options->no_roof || options->vs || (strcmp(list->engine, "cpu") && !engine->vt->rates)) return NULL;
    if (!list->roofs) list->roofs = zt_calloc(cli->ctx, 1, sizeof *list->roofs);
    for (int i = 0; list->roofs && i < list->roofs->count; i++)
        if (engine->vt->rates || list->roofs->roofs[i].threads == threads) return &list->roofs->roofs[i];
    if (!list->roofs || list->roofs->count == BENCH_MAX_COUNTS) return NULL;
    zt_roof *roof = &list->roofs->roofs[list->roofs->count];
    if (measure_roof(cli, engine, threads, roof) == ZT_OK) {
        list->roofs->count++;
        return roof;
    }
    zt_cli_note(cli, "roofline not measured: %s", zt_ctx_error(cli->ctx));
    zt_ctx_clear(cli->ctx);
    return NULL;
}

zt_status bench_roof_add(zt_ctx *ctx, bench_list *list, const zt_roof *roof)
{
    if (!list->roofs) list->roofs = zt_calloc(ctx, 1, sizeof *list->roofs);
    if (!list->roofs) return ZT_ENOMEM;
    if (list->roofs->count < BENCH_MAX_COUNTS) list->roofs->roofs[list->roofs->count++] = *roof;
    return ZT_OK;
}

const zt_roof *bench_roof_nth(const bench_list *list, int index)
{
    return list->roofs && index < list->roofs->count ? &list->roofs->roofs[index] : NULL;
}

void bench_set_roof(bench_result *result, const zt_cost_whole *one, const zt_roof *roof)
{
    double least = zt_cost_least(one, roof);
    for (int k = 0; k < ZT_ROOF_KINDS; k++) result->flops += one->flops[k];
    result->bytes = one->bytes;
    if (!(least > 0)) return;
    double per = !strcmp(result->unit, "GFLOP/s") ? result->flops / 1e9 : !strcmp(result->unit, "GB/s") ? result->bytes / 1e9 : 1;
    result->roof = strcmp(result->unit, "us") ? per / least : least * 1e6;
}

bool bench_less_is_better(const char *unit)
{
    size_t length = strlen(unit);
    return length < 2 || strcmp(unit + length - 2, "/s");
}

double bench_roof_share(const bench_result *result, double median)
{
    if (!(result->roof > 0) || !(median > 0)) return 0;
    return bench_less_is_better(result->unit) ? result->roof / median : median / result->roof;
}

/* ---- language models ------------------------------------------------------------------------- */

/* A prompt's rows look back to its beginning: on average over half of the chunk, and all before. */
static zt_status add_rows(zt_llm *model, int64_t count, int64_t before, bool last, double runs, zt_cost_whole *cost)
{
    zt_ctx *ctx = zt_llm_ctx(model);
    const zt_prog *program = zt_llm_prog(model);
    int64_t rows = zt_llm_get(model).ctx_len / ZT_LLM_BLOCK * ZT_LLM_BLOCK + ZT_LLM_BLOCK;
    const zt_binding bindings[] = {{"n", count}, {"m", last}, {"ctx", rows}};
    zt_bound *bound = zt_prog_bind(program, bindings, 3);
    int *root = bound ? zt_cost_roots(ctx, program) : NULL;
    zt_status status = root ? zt_cost_add(ctx, bound, root, before + (count + 1) / 2, runs, cost) : ZT_ENOMEM;
    zt_free(ctx, root);
    zt_bound_free(bound);
    return status;
}

zt_status bench_roof_model(zt_llm *model, bench_result *result, const zt_roof *roof, int64_t depth, int64_t tokens, bool prompt)
{
    zt_cost_whole cost = {0};
    zt_status status = ZT_OK;
    for (int64_t position = 0, count; prompt && position < tokens && !status; position += count) {
        count = tokens - position < CHUNK ? tokens - position : CHUNK;
        status = add_rows(model, count, depth + position, position + count == tokens, 1.0 / (double)tokens, &cost);
    }
    if (!prompt) status = add_rows(model, 1, depth + tokens / 2, true, 1, &cost);
    if (!status) bench_set_roof(result, &cost, roof);
    return status;
}
