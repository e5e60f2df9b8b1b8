/* plan.c - owns what becomes of each tensor: opening the input, choosing types, telling fallbacks.
 */
#include "tools/zt-quant/quant.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A file that lies in the input's folder is an input. */
static zt_status refuse_inside(quant_run *run, const struct stat *folder)
{
    struct stat info;
    const char *name = run->output_path ? strrchr(run->output_path, '/') : NULL;
    if (!run->output_path || stat(run->output_path, &info)) return ZT_OK;
    char *parent =
        name ? zt_strndup(run->ctx, run->output_path, (size_t)(name - run->output_path) + 1) : zt_strdup(run->ctx, ".");
    if (!parent) return ZT_ENOMEM;
    bool inside = stat(parent, &info) == 0 && info.st_dev == folder->st_dev && info.st_ino == folder->st_ino;
    zt_free(run->ctx, parent);
    return inside ? zt_fail(run->ctx, ZT_ECREATE, "%s: is part of the input and cannot be overwritten", run->output_path) : ZT_OK;
}

/* A folder is a language model of Hugging Face's, and becomes one of GGUF's names; any other file
 * is what it is. What needs to see the data twice cannot take it as it comes. */
zt_status quant_open(quant_run *run)
{
    struct stat info;
    bool folder = strcmp(run->input_path, "-") && stat(run->input_path, &info) == 0 && S_ISDIR(info.st_mode);
    bool twice = quant_fits(run->options) || run->options->scale == QUANT_SCALE_TENSOR || !run->mix;
    unsigned stream = twice ? 0 : ZT_CHECKPOINT_STREAM;
    zt_status status = zt_cli_refuse_same(run->cli, run->input_path, run->output_path);
    if (status == ZT_OK && folder) status = refuse_inside(run, &info);
    if (status != ZT_OK) return status;
    if (folder) {
        zt_gguf *gguf = zt_model_open_whole(run->ctx, run->input_path);
        run->input = gguf ? zt_checkpoint_of_gguf(run->ctx, gguf) : NULL;
    } else {
        run->input = zt_checkpoint_open(run->ctx, run->input_path, stream | ZT_CHECKPOINT_DECODE);
    }
    if (run->input && run->options->imatrix) run->imatrix = zt_imatrix_open(run->ctx, run->options->imatrix);
    return run->input && (run->imatrix || !run->options->imatrix) ? ZT_OK : zt_ctx_status(run->ctx);
}

/* ---- types ----------------------------------------------------------------------------------- */

/* What is known of the model. */
static zt_mix_of describe_model(const quant_run *run, char arch[64])
{
    zt_meta *meta = zt_checkpoint_meta(run->input);
    int64_t index = zt_meta_find(meta, "general.architecture");
    zt_bytes name = index >= 0 ? zt_meta_text(zt_meta_get(meta, index)) : (zt_bytes){NULL, 0};
    zt_mix_of model = {.mix = run->mix,
                       .wish = run->wishes,
                       .n_wishes = run->wish_count,
                       .embedding_type = run->embedding_type < ZT_DTYPE_COUNT ? &run->embedding_type : NULL,
                       .output_type = run->output_type < ZT_DTYPE_COUNT ? &run->output_type : NULL,
                       .pure = run->options->pure,
                       .imatrix = run->options->imatrix != NULL};
    if (!name.data) return model;
    snprintf(arch, 64, "%.*s", (int)(name.n < 63 ? name.n : 63), name.data);
    model.arch = arch;
    model.n_layers = quant_meta_i64(meta, arch, "block_count");
    model.n_heads = quant_meta_i64(meta, arch, "attention.head_count");
    model.n_kv_heads = quant_meta_i64(meta, arch, "attention.head_count_kv");
    model.n_kv_heads = model.n_kv_heads ? model.n_kv_heads : model.n_heads;
    model.n_experts = quant_meta_i64(meta, arch, "expert_count");
    return model;
}

/* A language model's norms and biases are f32, as llama.cpp wants them: other floats become so. */
static bool is_loose_vector(const quant_run *run, const quant_job *job)
{
    zt_dtype dtype = job->source.type.dtype;
    return run->is_llm && job->choice.kept && job->source.type.rank == 1 &&
           (dtype == ZT_F16 || dtype == ZT_BF16 || dtype == ZT_F64);
}

zt_status quant_retype(quant_run *run, quant_job *job, zt_dtype dtype)
{
    zt_dtype old = job->source.type.dtype;
    job->type = job->source.type;
    if (is_loose_vector(run, job)) {
        job->type.dtype = ZT_F32;
        job->copy = false;
        return ZT_OK;
    }
    job->copy = job->choice.kept || (dtype == old && (zt_dtype_get(dtype)->kind == 'Q' || quant_is_scaled(dtype)));
    job->choice.dtype = dtype;
    if (job->choice.kept) return ZT_OK;
    job->type.dtype = dtype;
    return zt_type_check(run->ctx, &job->type, NULL) ? ZT_OK : zt_ctx_status(run->ctx);
}

/* A type that an option gives to a kind of tensor. Where the model has none of that kind, it applies to nothing; where
 * another option came before it, that is said. */
static zt_status check_type_used(quant_run *run, const char *option, zt_dtype dtype, int64_t wish)
{
    if (dtype == ZT_DTYPE_COUNT) return ZT_OK;
    for (int64_t i = 0; i < run->tensor_count; i++)
        if (!run->jobs[i].choice.kept && run->jobs[i].choice.wish == wish) return ZT_OK;
    bool other = wish == ZT_MIX_OUTPUT_TYPE && zt_checkpoint_find(run->input, "token_embd.weight") >= 0;
    if (!other)
        return zt_fail(run->ctx, ZT_EUSAGE, "%s: --%s applies to no quantized tensor", zt_checkpoint_name(run->input), option);
    zt_cli_note(run->cli, "warning: %s: --%s is not used: the output is the token embedding, whose type another option gives",
                zt_checkpoint_name(run->input), option);
    return ZT_OK;
}

/* Each wish must be one for something. */
static zt_status check_wishes(quant_run *run)
{
    zt_status status = check_type_used(run, "token-embedding-type", run->embedding_type, ZT_MIX_EMBEDDING_TYPE);
    if (status == ZT_OK) status = check_type_used(run, "output-tensor-type", run->output_type, ZT_MIX_OUTPUT_TYPE);
    for (int64_t wish = run->wish_count - 1; wish >= 0 && status == ZT_OK; wish--) { /* lines of a file in their order */
        bool any = false;
        for (int64_t i = 0; i < run->tensor_count && !any; i++)
            any = !run->jobs[i].choice.kept && zt_mix_matches(&run->wishes[wish], run->jobs[i].source.name);
        if (!any) status = quant_wish_unused(run, wish, "quantized tensor");
    }
    return status;
}

static zt_status choose_types(quant_run *run)
{
    char arch[64];
    zt_mix_of model = describe_model(run, arch);
    run->layer_count = model.n_layers;
    run->is_llm = model.arch != NULL;
    zt_mix_tensor *tensors = zt_calloc(run->ctx, (size_t)run->tensor_count + 1, sizeof *tensors);
    zt_status status = tensors ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < run->tensor_count && status == ZT_OK; i++)
        tensors[i] = (zt_mix_tensor){.name = run->jobs[i].source.name, .type = &run->jobs[i].source.type};
    if (status == ZT_OK) status = zt_mix_choose(run->ctx, &model, tensors, run->tensor_count);
    for (int64_t i = 0; i < run->tensor_count && status == ZT_OK; i++) {
        run->jobs[i].choice = tensors[i];
        status = quant_retype(run, &run->jobs[i], tensors[i].dtype);
    }
    zt_free(run->ctx, tensors);
    return status;
}

/* ---- importance ------------------------------------------------------------------------------ */

/* An importance of another shape is of another model; but an embedding is looked up and not
 * multiplied with, and its importance is not used. */
static zt_status take_importance(quant_run *run, quant_job *job)
{
    const zt_type *type = &job->source.type;
    if (strstr(job->source.name, "token_embd")) return ZT_OK;
    return zt_imatrix_fit(run->imatrix, job->source.name, quant_n_experts(type), type->dim[type->rank - 1], &job->weighed);
}

/* Entries for tensors that the model does not have: all of them, and the importance is of another
 * model; some, and it may be. */
static zt_status check_entries(quant_run *run)
{
    int64_t count = zt_imatrix_count(run->imatrix), unknown = 0;
    const char *first = NULL;
    char shown[80];
    for (int64_t i = 0; i < count; i++) {
        const char *name = zt_imatrix_get(run->imatrix, i).name;
        if (zt_checkpoint_find(run->input, name) >= 0) continue;
        first = first ? first : name;
        unknown++;
    }
    if (count > 0 && unknown == 0) return ZT_OK;
    if (count == 0) return zt_fail(run->ctx, ZT_EDATA, "%s: the importance matrix has no entries", run->options->imatrix);
    zt_escape(shown, sizeof shown, first, strlen(first));
    if (unknown == count)
        return zt_fail(run->ctx, ZT_EDATA,
                       "%s: the importance matrix is for a different model: none of its %" PRId64
                       " entries ('%s', ...) matches a tensor of %s",
                       run->options->imatrix, count, shown, zt_checkpoint_name(run->input));
    zt_cli_note(run->cli, "%s: %" PRId64 " of %" PRId64 " entries ('%s'%s) match no tensor of %s", run->options->imatrix, unknown,
                count, shown, unknown > 1 ? ", ..." : "", zt_checkpoint_name(run->input));
    return ZT_OK;
}

static zt_status take_importances(quant_run *run)
{
    int64_t count = 0, without = 0;
    zt_status status = run->imatrix ? check_entries(run) : ZT_OK;
    for (int64_t i = 0; run->imatrix && i < run->tensor_count && status == ZT_OK; i++) {
        if (run->jobs[i].choice.kept) continue;
        status = take_importance(run, &run->jobs[i]);
        without += !run->jobs[i].weighed;
        count++;
    }
    if (status == ZT_OK && without > 0)
        zt_cli_note(run->cli, "%s: no importance values for %" PRId64 " of %" PRId64 " matrices", run->options->imatrix, without,
                    count);
    return status;
}

/* Types of so few bits that without an importance matrix little is left of a model: llama-quantize's rule. What is looked up
 * or makes the logits has none. */
static bool needs_importance(const quant_job *job)
{
    static const zt_dtype low[] = {ZT_IQ1_S, ZT_IQ1_M, ZT_IQ2_XXS, ZT_IQ2_XS, ZT_IQ2_S, ZT_IQ3_XXS};
    static const char *const without[] = {"token_embd.weight", "per_layer_token_embd.weight", "output.weight"};
    bool needed = false;
    for (size_t i = 0; i < sizeof low / sizeof *low; i++) needed |= job->type.dtype == low[i] && !job->copy;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) needed &= strcmp(job->source.name, without[i]) != 0;
    return needed;
}

static zt_status check_importances(quant_run *run)
{
    char shown[80];
    if (!run->is_llm || run->options->dry_run) return ZT_OK;
    for (int64_t i = 0; i < run->tensor_count; i++) {
        const quant_job *job = &run->jobs[i];
        if (job->weighed || !needs_importance(job)) continue;
        zt_escape(shown, sizeof shown, job->source.name, strlen(job->source.name));
        const char *type = zt_dtype_get(job->type.dtype)->name;
        return run->imatrix ? zt_fail(run->ctx, ZT_EDATA, "%s: no importance values for '%s', and %s requires them",
                                      run->options->imatrix, shown, type)
                            : zt_fail(run->ctx, ZT_EUSAGE, "%s: '%s': %s requires an importance matrix (--imatrix)",
                                      zt_checkpoint_name(run->input), shown, type);
    }
    return ZT_OK;
}

/* What was quantized before has lost something already. */
static void note_requantized(const quant_run *run)
{
    int64_t count = 0, matrices = 0;
    for (int64_t i = 0; i < run->tensor_count; i++) matrices += !run->jobs[i].choice.kept;
    if (matrices == 0) zt_cli_note(run->cli, "%s: no matrices: nothing to quantize", zt_checkpoint_name(run->input));
    for (int64_t i = 0; i < run->tensor_count; i++)
        count += !run->jobs[i].copy && zt_dtype_get(run->jobs[i].source.type.dtype)->kind == 'Q';
    if (count > 0)
        zt_cli_note(run->cli, "warning: %s: %" PRId64 " tensors are already quantized; requantizing compounds the error",
                    zt_checkpoint_name(run->input), count);
}

zt_status quant_plan(quant_run *run)
{
    run->tensor_count = zt_checkpoint_count(run->input);
    run->jobs = zt_calloc(run->ctx, (size_t)run->tensor_count + 1, sizeof *run->jobs);
    if (!run->jobs) return ZT_ENOMEM;
    for (int64_t i = 0; i < run->tensor_count; i++) zt_checkpoint_get(run->input, i, &run->jobs[i].source);
    zt_status status = choose_types(run);
    if (status == ZT_OK) status = check_wishes(run);
    if (status == ZT_OK) status = take_importances(run);
    if (status == ZT_OK) status = check_importances(run);
    if (status == ZT_OK) note_requantized(run);
    return status;
}

/* ---- fallbacks ------------------------------------------------------------------------------- */

void quant_tell_fallbacks(quant_run *run)
{
    int64_t count = 0;
    static int64_t pairs[ZT_DTYPE_COUNT][ZT_DTYPE_COUNT];
    for (int64_t i = 0; i < run->tensor_count; i++)
        if (run->jobs[i].choice.fell_back) {
            pairs[run->jobs[i].choice.wanted][run->jobs[i].choice.dtype]++;
            count++;
        }
    if (count == 0) return;
    zt_str list;
    zt_str_init(&list, run->ctx);
    for (int wanted = 0; wanted < ZT_DTYPE_COUNT; wanted++)
        for (int given = 0; given < ZT_DTYPE_COUNT; given++)
            if (pairs[wanted][given])
                zt_str_printf(&list, "%s%" PRId64 " %s for %s", list.len ? ", " : "", pairs[wanted][given],
                              zt_dtype_get((zt_dtype)given)->name, zt_dtype_get((zt_dtype)wanted)->name);
    zt_cli_note(run->cli,
                "%s: %" PRId64 " of %" PRId64
                " tensors use a fallback type because the row length is not a multiple of the block size: %s",
                zt_checkpoint_name(run->input), count, run->tensor_count, list.data ? list.data : "");
    zt_str_fini(&list);
    if (run->options->strict) zt_cli_no(run->cli);
}
