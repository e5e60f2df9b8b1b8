/* transplant.c - owns a model with another's tokenizer: its tensors, of which those with a row for each token have the donor's
 * tokens, and its metadata.
 */
#include "lib/dna/transplant_internal.h"
#include "lib/base/require.h"
#include "lib/dna/merge.h"
#include "lib/tensor/quantize.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const method_names[ZT_TRANSPLANT_METHODS] = {[ZT_TRANSPLANT_OMP] = "omp",
                                                                [ZT_TRANSPLANT_INTERPOLATION] = "common_interpolation",
                                                                [ZT_TRANSPLANT_SUBWORD] = "subword",
                                                                [ZT_TRANSPLANT_MEAN] = "mean",
                                                                [ZT_TRANSPLANT_ZERO] = "zero"};

const char *zt_transplant_method_name(int method)
{
    return method >= 0 && method < ZT_TRANSPLANT_METHODS ? method_names[method] : NULL;
}

/* Tensors with a row for each token. */
static const struct {
    const char *name, *donor; /* donor: what a donor without the tensor has in its place, NULL: nothing */
    int rank;                 /* 1: new tokens have 0 */
} token_tensors[] = {{"token_embd.weight", NULL, 2},
                     {"output.weight", "token_embd.weight", 2},
                     {"output.bias", NULL, 1},
                     {"per_layer_token_embd.weight", "token_embd.weight", 2}}; /* Gemma 3n and 4 */
enum { N_TOKEN_TENSORS = sizeof token_tensors / sizeof *token_tensors };

/* Ends of the names of others, which are not supported. */
static const char *const other_tensors[] = {"nextn.embed_tokens.weight", "nextn.shared_head_head.weight"};

typedef struct token_matrix {
    int64_t tensor; /* of the model; -1: none */
    size_t row_bytes;
    int64_t *from; /* [tokens] the model's row; MADE - i: row i of `made`; NO_ROW: zeros */
    char *made;
} token_matrix;
enum { NO_ROW = -1, MADE = -2 };

typedef struct transplant {
    zt_ctx *ctx;
    zt_checkpoint *model;
    zt_entry *entries;
    zt_meta *meta;
    int64_t token_count;
    token_matrix matrices[N_TOKEN_TENSORS];
} transplant;

/* ---- sources --------------------------------------------------------------------------------- */

/* source->checkpoint stays NULL where the model has no such tensor. */
static zt_status open_source(zt_ctx *ctx, zt_checkpoint *checkpoint, const char *name, int rank, transplant_source *source)
{
    const int64_t tensor = name ? zt_checkpoint_find(checkpoint, name) : -1;
    if (tensor < 0) return ZT_OK;
    *source = (transplant_source){.checkpoint = checkpoint, .tensor = tensor};
    zt_checkpoint_get(checkpoint, tensor, &source->entry);
    const zt_type *type = &source->entry.type;
    if (type->rank != rank || type->dim[0] < 1 || type->dim[rank - 1] < 1)
        return zt_fail(ctx, ZT_EDATA, "%s: '%s' has %d dimensions, expected %d", zt_checkpoint_name(checkpoint), name, type->rank,
                       rank);
    if (type->dtype == ZT_DTYPE_COUNT || !zt_dtype_is_float(type->dtype) || !zt_dtype_get(type->dtype)->decode)
        return zt_fail(ctx, ZT_ENOTSUP, "%s: '%s' has type %s, which cannot be converted to f32", zt_checkpoint_name(checkpoint),
                       name, source->entry.dtype);
    source->rows = type->dim[0];
    source->width = rank == 1 ? 1 : type->dim[1];
    source->row_bytes = (size_t)(source->entry.bytes / (uint64_t)source->rows);
    return ZT_OK;
}

static bool needs_donor(zt_transplant_method method)
{
    return method == ZT_TRANSPLANT_OMP || method == ZT_TRANSPLANT_INTERPOLATION;
}

static zt_status open_donor(zt_ctx *ctx, zt_checkpoint *donor, int which, zt_transplant_method method, transplant_source *source)
{
    const char *name = token_tensors[which].name, *instead = token_tensors[which].donor;
    if (!needs_donor(method) || token_tensors[which].rank == 1) return ZT_OK;
    zt_status status = open_source(ctx, donor, name, 2, source);
    if (status == ZT_OK && !source->checkpoint) status = open_source(ctx, donor, instead, 2, source);
    if (status == ZT_OK && !source->checkpoint)
        status = zt_fail(ctx, ZT_EDATA, "%s: missing tensor '%s': method %s needs the donor's rows", zt_checkpoint_name(donor),
                         name, method_names[method]);
    return status;
}

/* ---- the rows of one matrix ------------------------------------------------------------------- */

/* Rows of tokens, by where they come from. */
typedef struct row_plan {
    transplant_source model, donor;
    int64_t *shared_model, *shared_donor, *targets; /* [tokens] */
    int64_t shared_count, target_count;
} row_plan;

static void plan_rows(row_plan *plan, const int64_t *ids, const bool *exact, int64_t token_count, int64_t *from,
                      zt_transplant_counts *counts)
{
    const bool has_donor = plan->donor.checkpoint;
    *counts = (zt_transplant_counts){0};
    for (int64_t id = 0; id < token_count; id++) {
        const bool shared = ids[id] >= 0 && ids[id] < plan->model.rows;
        const bool without = has_donor && id >= plan->donor.rows;
        from[id] = shared ? ids[id] : without ? NO_ROW : MADE - plan->target_count;
        if (shared)
            counts->shared++;
        else if (without)
            counts->without++;
        else
            plan->targets[plan->target_count++] = id;
        if (!shared || !exact[id] || without) continue;
        plan->shared_model[plan->shared_count] = ids[id];
        plan->shared_donor[plan->shared_count++] = id;
    }
    counts->approximated = plan->target_count;
}

static zt_status make_rows(transplant *made, int which, const row_plan *plan, const zt_transplant_vocab *vocab,
                           const zt_transplant_opts *options)
{
    token_matrix *matrix = &made->matrices[which];
    const zt_entry *entry = &plan->model.entry;
    zt_transplant_opts chosen = *options;
    if (token_tensors[which].rank == 1) chosen.method = ZT_TRANSPLANT_ZERO;
    if (!plan->target_count) return ZT_OK;
    if (!zt_quantize_has(entry->type.dtype))
        return zt_fail(made->ctx, ZT_ENOTSUP, "%s: '%s' has type %s, which can be read but not written",
                       zt_checkpoint_name(made->model), entry->name, entry->dtype);
    if (needs_donor(chosen.method) && !plan->shared_count)
        return zt_fail(made->ctx, ZT_EDATA, "no token of %s is in %s: method %s needs tokens that both have",
                       zt_checkpoint_name(plan->donor.checkpoint), zt_checkpoint_name(made->model), method_names[chosen.method]);
    matrix->made = zt_alloc_array(made->ctx, (size_t)plan->target_count, matrix->row_bytes);
    transplant_work work = {.ctx = made->ctx,
                            .options = &chosen,
                            .model = &plan->model,
                            .donor = &plan->donor,
                            .shared_model = plan->shared_model,
                            .shared_donor = plan->shared_donor,
                            .shared_count = plan->shared_count,
                            .targets = plan->targets,
                            .target_count = plan->target_count,
                            .vocab = vocab,
                            .rows = matrix->made};
    return matrix->made ? zt_transplant_rows(&work) : ZT_ENOMEM;
}

static zt_status make_matrix(transplant *made, int which, zt_checkpoint *donor, const int64_t *ids, const bool *exact,
                             const zt_transplant_vocab *vocab, const zt_transplant_opts *options, zt_transplant_counts *counts)
{
    zt_ctx *ctx = made->ctx;
    token_matrix *matrix = &made->matrices[which];
    const size_t count = (size_t)made->token_count;
    row_plan plan = {0};
    zt_status status = open_source(ctx, made->model, token_tensors[which].name, token_tensors[which].rank, &plan.model);
    if (status != ZT_OK || !plan.model.checkpoint) return status;
    status = open_donor(ctx, donor, which, options->method, &plan.donor);
    if (status != ZT_OK) return status;
    plan.shared_model = zt_alloc_array(ctx, count, sizeof *plan.shared_model);
    plan.shared_donor = zt_alloc_array(ctx, count, sizeof *plan.shared_donor);
    plan.targets = zt_alloc_array(ctx, count, sizeof *plan.targets);
    matrix->from = zt_alloc_array(ctx, count, sizeof *matrix->from);
    status = plan.shared_model && plan.shared_donor && plan.targets && matrix->from ? ZT_OK : ZT_ENOMEM;
    if (status == ZT_OK) {
        matrix->tensor = plan.model.tensor;
        matrix->row_bytes = plan.model.row_bytes;
        made->entries[matrix->tensor].type.dim[0] = made->token_count;
        made->entries[matrix->tensor].bytes = (uint64_t)count * matrix->row_bytes;
        plan_rows(&plan, ids, exact, made->token_count, matrix->from, counts);
        status = make_rows(made, which, &plan, vocab, options);
    }
    zt_free(ctx, plan.shared_model);
    zt_free(ctx, plan.shared_donor);
    zt_free(ctx, plan.targets);
    return status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name), end_length = strlen(end);
    return length >= end_length && !strcmp(name + length - end_length, end);
}

static zt_status list_entries(transplant *made)
{
    const int64_t count = zt_checkpoint_count(made->model);
    char shown[160];
    if (zt_checkpoint_find(made->model, token_tensors[0].name) < 0)
        return zt_fail(made->ctx, ZT_EDATA, "%s: not a language model: no tensor '%s'", zt_checkpoint_name(made->model),
                       token_tensors[0].name);
    made->entries = zt_alloc_array(made->ctx, (size_t)count, sizeof *made->entries);
    if (!made->entries) return ZT_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        zt_checkpoint_get(made->model, i, &made->entries[i]);
        const char *name = made->entries[i].name;
        for (size_t k = 0; k < sizeof other_tensors / sizeof *other_tensors; k++)
            if (ends_in(name, other_tensors[k]))
                return zt_fail(made->ctx, ZT_ENOTSUP, "%s: tensor '%s' has a row for each token, which is not supported",
                               zt_checkpoint_name(made->model), zt_escape(shown, sizeof shown, name, strlen(name)));
    }
    return ZT_OK;
}

static zt_status make_matrices(transplant *made, zt_checkpoint *donor, const zt_transplant_vocab *model_vocab,
                               const zt_transplant_vocab *donor_vocab, const zt_transplant_opts *options,
                               zt_transplant_counts *counts)
{
    int64_t *ids = zt_alloc_array(made->ctx, (size_t)made->token_count, sizeof *ids);
    bool *exact = zt_alloc_array(made->ctx, (size_t)made->token_count, sizeof *exact);
    zt_status status = ids && exact ? zt_transplant_match(made->ctx, model_vocab, donor_vocab, ids, exact) : ZT_ENOMEM;
    for (int which = 0; which < N_TOKEN_TENSORS && status == ZT_OK; which++) {
        zt_transplant_counts of_matrix;
        status = make_matrix(made, which, donor, ids, exact, donor_vocab, options, which || !counts ? &of_matrix : counts);
    }
    zt_free(made->ctx, ids);
    zt_free(made->ctx, exact);
    return status;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static bool is_tokenizer(const zt_meta_item *item) { return !strncmp(item->key.data, "tokenizer.", 10); }

/* The items of one kind: the tokenizer's, or all others. */
static zt_status copy_items(transplant *made, zt_checkpoint *from, bool tokenizer)
{
    const zt_meta *meta = zt_checkpoint_meta(from);
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < zt_meta_count(meta); i++) {
        const zt_meta_item *item = zt_meta_get(meta, i);
        if (is_tokenizer(item) == tokenizer)
            status = zt_meta_put(made->meta, item->key.data, item->kind, item->value, item->bytes);
    }
    return status;
}

/* Where the model's keys have the number of tokens, it is the new one. */
static zt_status put_size(transplant *made)
{
    char key[160];
    int64_t i = zt_meta_find(made->meta, "general.architecture");
    zt_bytes arch = i >= 0 ? zt_meta_text(zt_meta_get(made->meta, i)) : (zt_bytes){NULL, 0};
    if (!arch.data || arch.n > 64) return ZT_OK;
    snprintf(key, sizeof key, "%.*s.vocab_size", (int)arch.n, arch.data);
    return zt_meta_find(made->meta, key) < 0 ? ZT_OK : zt_meta_put_u32(made->meta, key, (uint32_t)made->token_count);
}

static zt_status put_origin(transplant *made, zt_checkpoint *donor, const zt_transplant_opts *options)
{
    zt_checkpoint *const models[] = {made->model, donor};
    char ids[2][33], recipe[120];
    zt_bytes names[2], digits[2];
    zt_status status = ZT_OK;
    for (int i = 0; i < 2 && status == ZT_OK; i++) {
        status = zt_dna_id(made->ctx, models[i], ids[i]);
        names[i] = (zt_bytes){zt_checkpoint_name(models[i]), strlen(zt_checkpoint_name(models[i]))};
        digits[i] = (zt_bytes){ids[i], 32};
    }
    int length =
        snprintf(recipe, sizeof recipe, "{\"method\":\"%s\",\"k\":%" PRId64 "}", method_names[options->method], options->k);
    if (status == ZT_OK) status = zt_meta_put_str(made->meta, "zt.merge.method", "transplant", 10);
    if (status == ZT_OK) status = zt_meta_put_str(made->meta, "zt.merge.recipe", recipe, (size_t)length);
    if (status == ZT_OK) status = zt_meta_put_strs(made->meta, "zt.merge.parents", names, 2);
    return status == ZT_OK ? zt_meta_put_strs(made->meta, "zt.merge.ids", digits, 2) : status;
}

static zt_status put_meta(transplant *made, zt_checkpoint *donor, const zt_transplant_opts *options)
{
    made->meta = zt_meta_new(made->ctx);
    zt_status status = made->meta ? copy_items(made, made->model, false) : ZT_ENOMEM;
    if (status == ZT_OK) status = copy_items(made, donor, true);
    if (status == ZT_OK) status = put_size(made);
    return status == ZT_OK ? put_origin(made, donor, options) : status;
}

/* ---- the result ------------------------------------------------------------------------------ */

static zt_status read_row(const transplant *made, const token_matrix *matrix, int64_t id, size_t offset, char *out, size_t count)
{
    const int64_t from = matrix->from[id];
    if (from >= 0)
        return zt_checkpoint_read(made->model, matrix->tensor, (uint64_t)from * matrix->row_bytes + offset, out, count);
    if (from == NO_ROW)
        memset(out, 0, count);
    else
        memcpy(out, matrix->made + (size_t)(MADE - from) * matrix->row_bytes + offset, count);
    return ZT_OK;
}

static zt_status read_tensor(void *user, int64_t index, uint64_t offset, void *dst, size_t count)
{
    const transplant *made = user;
    int which = 0;
    zt_status status = ZT_OK;
    while (which < N_TOKEN_TENSORS && made->matrices[which].tensor != index) which++;
    if (which == N_TOKEN_TENSORS) return zt_checkpoint_read(made->model, index, offset, dst, count);
    const token_matrix *matrix = &made->matrices[which];
    for (size_t done = 0, step; done < count && status == ZT_OK; done += step, offset += step) {
        const size_t inside = (size_t)(offset % matrix->row_bytes);
        step = matrix->row_bytes - inside < count - done ? matrix->row_bytes - inside : count - done;
        status = read_row(made, matrix, (int64_t)(offset / matrix->row_bytes), inside, (char *)dst + done, step);
    }
    return status;
}

static void release(void *user)
{
    transplant *made = user;
    for (int which = 0; which < N_TOKEN_TENSORS; which++) {
        zt_free(made->ctx, made->matrices[which].from);
        zt_free(made->ctx, made->matrices[which].made);
    }
    zt_free(made->ctx, made->entries);
    zt_meta_free(made->meta);
    zt_free(made->ctx, made);
}

zt_checkpoint *zt_transplant_new(zt_ctx *ctx, zt_checkpoint *model, const zt_transplant_vocab *model_vocab, zt_checkpoint *donor,
                                 const zt_transplant_vocab *donor_vocab, const zt_transplant_opts *options,
                                 zt_transplant_counts *counts)
{
    ZT_REQUIRE(ctx, model && model_vocab && donor && donor_vocab && options, NULL);
    ZT_REQUIRE(ctx, options->method >= 0 && options->method < ZT_TRANSPLANT_METHODS && options->k > 0, NULL);
    ZT_REQUIRE(ctx, options->encode || options->method != ZT_TRANSPLANT_SUBWORD, NULL);
    ZT_REQUIRE(ctx, model_vocab->count > 0 && model_vocab->tokens && donor_vocab->count > 0 && donor_vocab->tokens, NULL);
    transplant *made = zt_calloc(ctx, 1, sizeof *made);
    if (!made) return NULL;
    *made = (transplant){.ctx = ctx, .model = model, .token_count = donor_vocab->count};
    for (int which = 0; which < N_TOKEN_TENSORS; which++) made->matrices[which].tensor = -1;
    zt_status status = list_entries(made);
    if (status == ZT_OK) status = make_matrices(made, donor, model_vocab, donor_vocab, options, counts);
    if (status == ZT_OK) status = put_meta(made, donor, options);
    if (status != ZT_OK) {
        release(made);
        return NULL;
    }
    return zt_checkpoint_of_made(ctx, &(zt_made){.name = zt_checkpoint_name(model),
                                                 .container = zt_container_named("gguf"),
                                                 .entries = made->entries,
                                                 .count = zt_checkpoint_count(model),
                                                 .meta = made->meta,
                                                 .user = made,
                                                 .read = read_tensor,
                                                 .release = release});
}
