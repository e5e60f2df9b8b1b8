/* fit.c - --target-size and --bpw: a type for each tensor, so that the whole is small enough and
 * loses little.
 *
 * Every candidate type of every tensor is tried on a sample of its rows. A type's loss is the
 * square of its relative error, as much for a small tensor as for a large one: each adds to the
 * same stream of activations by what it does to its own output. Matrices whose error reaches
 * further count more.
 */
#include "tools/zt-quant/quant.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SAMPLE = 1 << 17, PIECES = 8 }; /* elements of a tensor that are tried, in so many places */

static const zt_dtype candidates[] = {ZT_Q2_K, ZT_Q3_K, ZT_IQ4_XS, ZT_IQ4_NL, ZT_Q4_K, ZT_Q4_0, ZT_Q4_1,
                                      ZT_Q5_K, ZT_Q5_0, ZT_Q5_1,   ZT_Q6_K,   ZT_Q8_0, ZT_F16};
enum { CANDIDATES = sizeof candidates / sizeof *candidates };

/* ---- losses ---------------------------------------------------------------------------------- */

/* How far an error reaches: the divergence that goes away where a kind of matrix alone is kept in
 * q8_0 and all others are iq4_nl, for each matrix (SmolLM2; attn_output is 1). What makes the
 * logits stands alone where a layer's matrices are many, and counts by their number. */
static const struct {
    const char *part; /* of the name; the first that fits */
    double weight;
    bool alone;
} error_reach[] = {{"output.weight", 6, true}, {"token_embd", 6, true},   {"attn_v", 4.5, false},
                   {"ffn_down", 6.5, false},   {"ffn_up", 2.7, false},    {"ffn_gate", 2.2, false},
                   {"attn_q", 2.2, false},     {"attn_output", 1, false}, {"attn_k", 0.5, false}};

static double weight_of(const quant_run *run, const char *name)
{
    int64_t layers = run->layer_count > 0 ? run->layer_count : 1;
    /* Looked up alone, an embedding reaches no further than what it is added to. */
    if (strstr(name, "token_embd") && zt_checkpoint_find(run->input, "output.weight") >= 0) return (double)layers;
    for (size_t i = 0; i < sizeof error_reach / sizeof *error_reach; i++)
        if (strstr(name, error_reach[i].part) && (!error_reach[i].alone || strncmp(name, "blk.", 4)))
            return error_reach[i].weight * (error_reach[i].alone ? (double)layers : 1);
    return 1;
}

/* Pieces of rows from all over the tensor. */
static zt_status try_type(quant_run *run, int64_t i, zt_dtype dtype, double *loss)
{
    const zt_type *type = &run->jobs[i].source.type;
    int64_t rows = quant_n_rows(type), columns = type->dim[type->rank - 1];
    int64_t pieces = rows < PIECES ? rows : PIECES, each = SAMPLE / PIECES / (columns ? columns : 1);
    zt_loss_of measured = {0};
    zt_status status = ZT_OK;
    each = each < 1 ? 1 : each;
    if (each * pieces > rows) {
        pieces = 1;
        each = rows;
    }
    for (int64_t piece = 0; piece < pieces && status == ZT_OK; piece++) {
        int64_t first = pieces > 1 ? piece * (rows - each) / (pieces - 1) : 0;
        status = quant_rows(run, i, first, first + each, dtype, &measured, NULL, NULL);
    }
    *loss = measured.x2 > 0 ? weight_of(run, run->jobs[i].source.name) * measured.error2 / measured.x2 : 0;
    return status;
}

/* A type that cannot hold a number of the tensor is none; where all are so, the first says why. */
static zt_status try_types(quant_run *run, int64_t i, zt_candidate tried[CANDIDATES])
{
    zt_status status = ZT_OK;
    int usable = 0, first = -1;
    double unused;
    for (int type = 0; type < CANDIDATES && status == ZT_OK; type++) {
        if (tried[type].loss == INFINITY) continue;
        first = first < 0 ? type : first;
        status = try_type(run, i, candidates[type], &tried[type].loss);
        usable += status == ZT_OK;
        if (status != ZT_EDATA) continue;
        zt_ctx_clear(run->ctx);
        tried[type].loss = INFINITY;
        status = ZT_OK;
    }
    return status != ZT_OK || usable || first < 0 ? status : try_type(run, i, candidates[first], &unused);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

typedef struct size_fit {
    quant_run *run;
    zt_candidate *sized; /* [count][CANDIDATES] of the tensors whose type is free */
    int *picks;          /* [count] */
    int64_t count;
    uint64_t align; /* what a tensor's data are padded to */
    uint64_t limit; /* of what is measured: bytes of the file, or of the tensors */
} size_fit;

static bool is_free(const quant_job *job) { return !job->choice.kept && job->choice.wish == ZT_MIX_RULES; }

/* What data are padded to: by GGUF only, and where bytes of the file count. */
static uint64_t align_of(const quant_run *run)
{
    if (!run->options->target || strcmp(zt_container_name(quant_container(run)), "gguf")) return 1;
    int64_t align = quant_meta_i64(zt_checkpoint_meta(run->input), "", "general.alignment");
    return align > 0 ? (uint64_t)align : 32;
}

/* The bytes of each type that a tensor can have; all others have an infinite loss. */
static void size_types(const size_fit *fit, int64_t i, zt_candidate sized[CANDIDATES])
{
    zt_type type = fit->run->jobs[i].source.type;
    int64_t columns = type.dim[type.rank - 1];
    for (int index = 0; index < CANDIDATES; index++) {
        sized[index] = (zt_candidate){0, INFINITY};
        if (zt_mix_fit(candidates[index], columns) != candidates[index] || !zt_quantize_has(candidates[index])) continue;
        type.dtype = candidates[index];
        sized[index].bytes = (zt_type_bytes(&type) + fit->align - 1) / fit->align * fit->align;
        sized[index].loss = 0;
    }
}

static void size_all(size_fit *fit)
{
    fit->count = 0;
    for (int64_t i = 0; i < fit->run->tensor_count; i++)
        if (is_free(&fit->run->jobs[i])) size_types(fit, i, fit->sized + CANDIDATES * fit->count++);
}

/* Each tensor's smallest type; the bytes of all. */
static uint64_t pick_smallest(size_fit *fit)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < fit->count; i++) {
        const zt_candidate *sized = fit->sized + CANDIDATES * i;
        int best = -1;
        for (int type = 0; type < CANDIDATES; type++)
            if (sized[type].loss < INFINITY && (best < 0 || sized[type].bytes < sized[best].bytes)) best = type;
        fit->picks[i] = best;
        sum += best < 0 ? 0 : sized[best].bytes;
    }
    return sum;
}

static zt_status apply_picks(size_fit *fit)
{
    quant_run *run = fit->run;
    int64_t index = 0;
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < run->tensor_count && status == ZT_OK; i++) {
        quant_job *job = &run->jobs[i];
        if (!is_free(job) || fit->picks[index++] < 0) continue;
        job->choice.wanted = candidates[fit->picks[index - 1]];
        job->choice.fell_back = false;
        job->choice.search = true;
        status = quant_retype(run, job, job->choice.wanted);
    }
    return status == ZT_OK ? quant_put_file_type(run) : status;
}

/* Bytes of all tensors of the output. */
static zt_status data_bytes(quant_run *run, uint64_t *bytes)
{
    quant_outputs outputs = {0};
    zt_status status = quant_outputs_list(run, &outputs);
    *bytes = 0;
    for (int64_t i = 0; status == ZT_OK && i < outputs.count; i++) *bytes += outputs.entries[i].bytes;
    quant_outputs_free(run, &outputs);
    return status;
}

static double count_weights(const quant_run *run)
{
    double count = 0;
    for (int64_t i = 0; i < run->tensor_count; i++)
        if (run->jobs[i].source.type.rank >= 0) count += (double)zt_type_count(&run->jobs[i].source.type);
    return count;
}

/* What the limit is for, of the types that are taken. */
static zt_status measure_size(quant_run *run, uint64_t *bytes)
{
    return run->options->target ? quant_file_bytes(run, bytes) : data_bytes(run, bytes);
}

/* A thousandth of a byte is a rounding error of X. */
static uint64_t limit_of(const quant_run *run)
{
    return run->options->target ? run->options->target : (uint64_t)(run->options->bpw * count_weights(run) / 8 + 1e-3);
}

/* The least size names itself in the history of the file that has it: a number of as many digits. */
static zt_status refuse_limit(quant_run *run, uint64_t least)
{
    for (int i = 0; i < 4 && run->target && run->target != least; i++) {
        run->target = least;
        zt_status status = quant_file_bytes(run, &least);
        if (status != ZT_OK) return status;
    }
    const char *file = zt_checkpoint_name(run->input);
    double bits = 8 * (double)least / count_weights(run), rounded_up = ceil(bits * 1e4 - 1e-9) / 1e4;
    return run->options->target
               ? zt_fail(run->ctx, ZT_EUSAGE, "%s: --target-size: %zu bytes are too few; the minimum is %" PRIu64, file,
                         run->options->target, least)
               : zt_fail(run->ctx, ZT_EUSAGE, "%s: --bpw: %.10g bits per weight are too few; the minimum is %.10g", file,
                         run->options->bpw, rounded_up);
}

/* ---- the choice ------------------------------------------------------------------------------ */

static zt_status measure_losses(size_fit *fit)
{
    quant_run *run = fit->run;
    zt_status status = ZT_OK;
    int64_t index = 0;
    run->fitting = true;
    for (int64_t i = 0; i < run->tensor_count && status == ZT_OK; i++) {
        zt_progress(run->cli, &(zt_work){"measure", run->jobs[i].source.name, "tensors", (double)i, (double)run->tensor_count});
        if (is_free(&run->jobs[i])) status = try_types(run, i, fit->sized + CANDIDATES * index++);
    }
    run->fitting = false;
    return status;
}

/* The types of least loss whose size, as it is written, is within the limit. What a file holds
 * beside data hardly depends on them; what it does is taken from the room for data. */
static zt_status choose_types(size_fit *fit)
{
    enum { TRIES = 16 };
    uint64_t smallest = pick_smallest(fit), bytes = 0;
    zt_status status = apply_picks(fit);
    if (status == ZT_OK) status = measure_size(fit->run, &bytes);
    if (status == ZT_OK && bytes > fit->limit) return refuse_limit(fit->run, bytes);
    uint64_t available = smallest + (fit->limit - bytes);
    if (status == ZT_OK) status = measure_losses(fit);
    for (int i = 0; i < TRIES && status == ZT_OK; i++) {
        status = zt_budget(fit->run->ctx, fit->sized, fit->count, CANDIDATES, available, fit->picks);
        if (status == ZT_OK) status = apply_picks(fit);
        if (status == ZT_OK) status = measure_size(fit->run, &bytes);
        if (status != ZT_OK || bytes <= fit->limit) return status;
        if (available - smallest < bytes - fit->limit) break;
        available -= bytes - fit->limit;
    }
    pick_smallest(fit);
    return status == ZT_OK ? apply_picks(fit) : status;
}

zt_status quant_fit(quant_run *run)
{
    size_fit fit = {.run = run, .align = align_of(run), .limit = limit_of(run)};
    fit.sized = zt_alloc_array(run->ctx, (size_t)run->tensor_count + 1, CANDIDATES * sizeof *fit.sized);
    fit.picks = zt_calloc(run->ctx, (size_t)run->tensor_count + 1, sizeof *fit.picks);
    zt_status status = fit.sized && fit.picks ? ZT_OK : ZT_ENOMEM;
    if (status == ZT_OK) {
        size_all(&fit);
        status = choose_types(&fit);
    }
    zt_free(run->ctx, fit.sized);
    zt_free(run->ctx, fit.picks);
    return status;
}
