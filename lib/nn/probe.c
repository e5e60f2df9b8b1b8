/* probe.c - owns the search for layers among tensors: Loom's rules, as facts. */
#include "lib/base/require.h"
#include "lib/nn/probe_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TENSORS = 1 << 14, PIECE = 1 << 14 };

/* ---- what is found --------------------------------------------------------------------------- */

static int64_t get_dimension(const zt_nn_probe *probe, int64_t tensor, int axis)
{
    return probe->geometries[tensor].type.dim[axis];
}
static bool is_rank(const zt_nn_probe *probe, int64_t tensor, int rank) { return probe->geometries[tensor].type.rank == rank; }
static bool is_gain(const zt_nn_probe *probe, int64_t tensor) { return probe->geometries[tensor].mean_abs > 0.4f; }
static bool is_bias(const zt_nn_probe *probe, int64_t tensor) { return probe->geometries[tensor].mean_abs < 0.2f; }

void zt_probe_role(zt_nn_probe *probe, zt_nn_archetype *archetype, const char *name, int64_t tensor)
{
    probe->roles[archetype->role_count++] = (zt_nn_role){name, tensor};
    probe->used[tensor] = true;
}

void zt_probe_metric(zt_nn_archetype *archetype, const char *name, int64_t value)
{
    archetype->metrics[archetype->metric_count++] = (zt_nn_metric){name, value};
}

/* The first unused vector of `size` elements that may be a bias; -1: none. */
static int64_t find_bias(const zt_nn_probe *probe, int64_t size)
{
    for (int64_t j = 0; j < probe->tensor_count; j++)
        if (!probe->used[j] && is_rank(probe, j, 1) && get_dimension(probe, j, 0) == size && is_bias(probe, j)) return j;
    return -1;
}

static void take_bias(zt_nn_probe *probe, zt_nn_archetype *archetype, const char *name, int64_t size)
{
    int64_t j = find_bias(probe, size);
    if (j >= 0) zt_probe_role(probe, archetype, name, j);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Words of a name, between dots and underscores, that give a role. */
static const struct {
    zt_nn_kind kind;
    const char *role, *word[4];
} words[] = {{ZT_NN_MHA, "q", {"q", "query", "wq"}},
             {ZT_NN_MHA, "k", {"k", "key", "wk"}},
             {ZT_NN_MHA, "v", {"v", "value", "wv"}},
             {ZT_NN_MHA, "o", {"o", "out", "output", "wo"}},
             {ZT_NN_SWIGLU, "g", {"gate", "g", "w1"}},
             {ZT_NN_SWIGLU, "u", {"up", "u", "w3"}},
             {ZT_NN_LSTM, "ih", {"ih"}},
             {ZT_NN_LSTM, "hh", {"hh"}}};

static bool has_word(const char *name, const char *word)
{
    for (size_t length; *name; name += length + (name[length] != 0)) {
        length = strcspn(name, "._");
        if (length == strlen(word) && !memcmp(name, word, length)) return true;
    }
    return false;
}

static const char *find_role(const zt_nn_probe *probe, zt_nn_kind kind, int64_t tensor)
{
    for (size_t i = 0; i < sizeof words / sizeof *words && probe->geometries[tensor].name; i++)
        for (int k = 0; k < 4 && words[i].kind == kind && words[i].word[k]; k++)
            if (has_word(probe->geometries[tensor].name, words[i].word[k])) return words[i].role;
    return NULL;
}

/* Tensors of one shape have roles by their order. Where each name has the word of another role, roles follow the names. */
static void sort_roles(zt_nn_probe *probe, zt_nn_archetype *archetype)
{
    const char *roles[4];
    int64_t count = 0;
    for (; count < archetype->role_count && count < 4; count++) {
        roles[count] = find_role(probe, archetype->kind, probe->roles[count].tensor);
        for (int64_t k = 0; k < count && roles[count]; k++)
            if (!strcmp(roles[k], roles[count])) return;
        if (!roles[count] && strcmp(probe->roles[count].name, "d")) return;
        if (!roles[count]) break; /* SwiGLU's third role follows from the shape */
    }
    for (int64_t k = 0; k < count; k++) probe->roles[k].name = roles[k];
}

/* ---- one more ------------------------------------------------------------------------ */

zt_status zt_probe_put(zt_nn_probe *probe, zt_nn_archetype *archetype)
{
    if (probe->archetype_count == probe->archetype_capacity) {
        int64_t room = probe->archetype_capacity ? 2 * probe->archetype_capacity : 32;
        zt_nn_archetype *more = zt_realloc(probe->ctx, probe->archetypes, (size_t)room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        probe->archetypes = more;
        probe->archetype_capacity = room;
    }
    if (archetype->metric_count && !archetype->named) sort_roles(probe, archetype);
    size_t bytes = (size_t)archetype->role_count * sizeof *probe->roles;
    zt_nn_role *role = zt_arena_alloc(probe->arena, bytes);
    if (!role) return ZT_ENOMEM;
    memcpy(role, probe->roles, bytes);
    archetype->roles = role;
    probe->any_named = probe->any_named || archetype->named;
    probe->archetypes[probe->archetype_count++] = *archetype;
    return ZT_OK;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Each returns an archetype whose tensors it marked as used, or `none`. */
typedef zt_nn_archetype matcher(zt_nn_probe *p, int64_t pivot);

static const zt_nn_archetype none = {.kind = ZT_NN_KINDS};

static zt_nn_archetype match_attention(zt_nn_probe *probe, int64_t pivot)
{
    static const char *const name[] = {"q", "k", "v", "o"}, *const bias[] = {"qb", "kb", "vb", "ob"};
    int64_t width = get_dimension(probe, pivot, 0), square[4] = {pivot}, count = 1;
    zt_nn_archetype archetype = {.kind = ZT_NN_MHA, .type = "Multi-Head Attention"};
    if (!is_rank(probe, pivot, 2) || get_dimension(probe, pivot, 1) != width) return none;
    for (int64_t j = 0; j < probe->tensor_count && count < 4; j++)
        if (!probe->used[j] && j != pivot && is_rank(probe, j, 2) && get_dimension(probe, j, 0) == width &&
            get_dimension(probe, j, 1) == width)
            square[count++] = j;
    if (count < 4) return none;
    for (int k = 0; k < 4; k++) zt_probe_role(probe, &archetype, name[k], square[k]);
    for (int k = 0; k < 4; k++) take_bias(probe, &archetype, bias[k], width);
    zt_probe_metric(&archetype, "d", width);
    return archetype;
}

static zt_nn_archetype match_lstm(zt_nn_probe *probe, int64_t pivot)
{
    zt_nn_archetype archetype = {.kind = ZT_NN_LSTM, .type = "LSTM Unit"};
    if (!is_rank(probe, pivot, 2) || get_dimension(probe, pivot, 1) < 1 ||
        get_dimension(probe, pivot, 0) / 4 != get_dimension(probe, pivot, 1) || get_dimension(probe, pivot, 0) % 4)
        return none;
    for (int64_t tensor_index = 0; tensor_index < probe->tensor_count; tensor_index++) {
        if (probe->used[tensor_index] || tensor_index == pivot || !is_rank(probe, tensor_index, 2) ||
            get_dimension(probe, tensor_index, 0) != get_dimension(probe, pivot, 0) ||
            get_dimension(probe, tensor_index, 1) != get_dimension(probe, pivot, 1))
            continue;
        zt_probe_role(probe, &archetype, "ih", pivot);
        zt_probe_role(probe, &archetype, "hh", tensor_index);
        zt_probe_metric(&archetype, "h", get_dimension(probe, pivot, 1));
        return archetype;
    }
    return none;
}

/* Three of one shape or of it turned, the last with more columns than rows being `down`. */
static zt_nn_archetype match_gated(zt_nn_probe *probe, int64_t pivot)
{
    int64_t rows = get_dimension(probe, pivot, 0), cols = get_dimension(probe, pivot, 1), tensors[3] = {pivot}, count = 1,
            down = -1;
    zt_nn_archetype archetype = {.kind = ZT_NN_SWIGLU, .type = "SwiGLU Block"};
    if (!is_rank(probe, pivot, 2)) return none;
    for (int64_t j = 0; j < probe->tensor_count && count < 3; j++)
        if (!probe->used[j] && j != pivot && is_rank(probe, j, 2) &&
            ((get_dimension(probe, j, 0) == rows && get_dimension(probe, j, 1) == cols) ||
             (get_dimension(probe, j, 0) == cols && get_dimension(probe, j, 1) == rows)))
            tensors[count++] = j;
    for (int k = 0; k < 3 && count == 3; k++)
        if (get_dimension(probe, tensors[k], 0) < get_dimension(probe, tensors[k], 1)) down = tensors[k];
    if (down < 0) return none;
    for (int k = 0; k < 3; k++)
        if (tensors[k] != down) zt_probe_role(probe, &archetype, archetype.role_count ? "u" : "g", tensors[k]);
    zt_probe_role(probe, &archetype, "d", down);
    zt_probe_metric(&archetype, "h", get_dimension(probe, down, 0));
    zt_probe_metric(&archetype, "i", get_dimension(probe, down, 1));
    return archetype;
}

/* Vectors of one length: a gain, a bias, and all others as what they may be of. Tensor 0 counts as
 * no gain and no bias where another may be one: as in Loom. */
static zt_nn_archetype match_norm(zt_nn_probe *probe, int64_t pivot)
{
    int64_t width = get_dimension(probe, pivot, 0), gain = is_gain(probe, pivot) ? pivot : -1, bias = gain < 0 ? pivot : -1;
    zt_nn_archetype archetype = {.kind = ZT_NN_LAYERNORM};
    if (!is_rank(probe, pivot, 1)) return none;
    for (int64_t tensor_index = 0; tensor_index < probe->tensor_count; tensor_index++) {
        char name[32];
        if (probe->used[tensor_index] || tensor_index == pivot || !is_rank(probe, tensor_index, 1) ||
            get_dimension(probe, tensor_index, 0) != width)
            continue;
        if (is_gain(probe, tensor_index) && gain <= 0)
            gain = tensor_index;
        else if (is_bias(probe, tensor_index) && bias <= 0)
            bias = tensor_index;
        else {
            snprintf(name, sizeof name, "stat_%" PRId64, tensor_index);
            zt_probe_role(probe, &archetype, zt_arena_strndup(probe->arena, name, strlen(name)), tensor_index);
        }
    }
    if (gain >= 0) zt_probe_role(probe, &archetype, "s", gain);
    if (bias >= 0) zt_probe_role(probe, &archetype, "b", bias);
    archetype.type = gain >= 0 && bias >= 0 ? "LayerNorm Doublet" : "Normalization Cluster";
    zt_probe_metric(&archetype, "d", width);
    return archetype;
}

/* ---- one by one ------------------------------------------------------------------------------ */

static zt_nn_archetype match_conv(zt_nn_probe *probe, int64_t tensor)
{
    bool two = is_rank(probe, tensor, 4);
    zt_nn_archetype archetype = {.kind = two ? ZT_NN_CNN2 : ZT_NN_CNN1, .type = two ? "CNN2D" : "CNN1D"};
    zt_probe_role(probe, &archetype, "w", tensor);
    zt_probe_metric(&archetype, "f", get_dimension(probe, tensor, 0));
    zt_probe_metric(&archetype, "c", get_dimension(probe, tensor, 1));
    zt_probe_metric(&archetype, "k", get_dimension(probe, tensor, 2));
    take_bias(probe, &archetype, "b", get_dimension(probe, tensor, 0));
    return archetype;
}

/* A matrix of ten times as many rows as columns is a vocabulary's. */
static zt_nn_archetype match_matrix(zt_nn_probe *probe, int64_t tensor)
{
    bool vocab =
        get_dimension(probe, tensor, 0) / 10 > get_dimension(probe, tensor, 1) ||
        (get_dimension(probe, tensor, 0) / 10 == get_dimension(probe, tensor, 1) && get_dimension(probe, tensor, 0) % 10);
    zt_nn_archetype archetype = {.kind = vocab ? ZT_NN_EMBEDDING : ZT_NN_DENSE,
                                 .type = vocab ? "Embedding Cluster" : "Dense Linear"};
    zt_probe_role(probe, &archetype, "w", tensor);
    zt_probe_metric(&archetype, vocab ? "v" : "out", get_dimension(probe, tensor, 0));
    zt_probe_metric(&archetype, vocab ? "d" : "in", get_dimension(probe, tensor, 1));
    if (!vocab) take_bias(probe, &archetype, "b", get_dimension(probe, tensor, 0));
    return archetype;
}

static zt_nn_archetype match_single(zt_nn_probe *probe, int64_t tensor)
{
    zt_nn_archetype archetype = {.kind = ZT_NN_SEQUENTIAL, .type = "Structural Metadata"};
    if (zt_type_count(&probe->geometries[tensor].type) < 10) {
        zt_probe_role(probe, &archetype, "m", tensor);
        return archetype;
    }
    if (is_rank(probe, tensor, 4) || is_rank(probe, tensor, 3)) return match_conv(probe, tensor);
    if (is_rank(probe, tensor, 2)) return match_matrix(probe, tensor);
    if (!is_rank(probe, tensor, 1) || !is_gain(probe, tensor)) return none;
    archetype = (zt_nn_archetype){.kind = ZT_NN_RMSNORM, .type = "Normalization Parameter"};
    zt_probe_role(probe, &archetype, "w", tensor);
    zt_probe_metric(&archetype, "d", get_dimension(probe, tensor, 0));
    return archetype;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The metrics of a single tensor as a layer of this kind; none where the rank is wrong. */
static void hinted_metrics(const zt_nn_probe *probe, zt_nn_archetype *archetype, int64_t tensor)
{
    static const struct {
        zt_nn_kind kind;
        int rank;
        const char *metric[3];
    } rows[] = {{ZT_NN_DENSE, 2, {"out", "in"}},
                {ZT_NN_EMBEDDING, 2, {"v", "d"}},
                {ZT_NN_RMSNORM, 1, {"d"}},
                {ZT_NN_CNN1, 3, {"f", "c", "k"}},
                {ZT_NN_CNN2, 4, {"f", "c", "k"}}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
        for (int axis = 0; axis < 3 && rows[row].kind == archetype->kind && is_rank(probe, tensor, rows[row].rank); axis++)
            if (rows[row].metric[axis]) zt_probe_metric(archetype, rows[row].metric[axis], get_dimension(probe, tensor, axis));
}

static zt_status take_hints(zt_nn_probe *probe, const zt_nn_hint *hints, int hint_count)
{
    zt_status status = ZT_OK;
    for (int hint_index = 0; hint_index < hint_count && !status; hint_index++) {
        zt_nn_archetype archetype = {.kind = hints[hint_index].kind, .type = "HINTED Layer"};
        if (hints[hint_index].index < 0 || hints[hint_index].index >= probe->tensor_count)
            return zt_fail(probe->ctx, ZT_EUSAGE, "hint for tensor %" PRId64 ": the file has only %" PRId64 " tensors",
                           hints[hint_index].index, probe->tensor_count);
        zt_probe_role(probe, &archetype, "w", hints[hint_index].index);
        hinted_metrics(probe, &archetype, hints[hint_index].index);
        status = zt_probe_put(probe, &archetype);
    }
    return status;
}

static zt_status match_all(zt_nn_probe *probe)
{
    static matcher *const groups[] = {match_attention, match_lstm, match_gated, match_norm};
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < probe->tensor_count && !status; i++)
        for (int group = 0; group < 4 && !probe->used[i] && !status; group++) {
            zt_nn_archetype archetype = groups[group](probe, i);
            if (archetype.kind == ZT_NN_KINDS) continue;
            status = zt_probe_put(probe, &archetype);
            break;
        }
    for (int64_t tensor_index = 0; tensor_index < probe->tensor_count && !status; tensor_index++) {
        zt_nn_archetype archetype = probe->used[tensor_index] ? none : match_single(probe, tensor_index);
        if (archetype.kind != ZT_NN_KINDS) status = zt_probe_put(probe, &archetype);
    }
    return status;
}

static zt_status run_probe(zt_nn_probe *probe, const zt_nn_geometry *geometries, int64_t count, const zt_nn_hint *hints,
                           int n_hints)
{
    probe->geometries = geometries;
    probe->tensor_count = count;
    if (count > MOST_TENSORS)
        return zt_fail(probe->ctx, ZT_ENOTSUP, "too many tensors (%" PRId64 "): at most %d are supported", count, MOST_TENSORS);
    probe->used = zt_calloc(probe->ctx, (size_t)count + 1, sizeof *probe->used);
    probe->roles = zt_calloc(probe->ctx, (size_t)count + 8, sizeof *probe->roles);
    zt_status status = probe->used && probe->roles ? take_hints(probe, hints, n_hints) : ZT_ENOMEM;
    if (!status) status = zt_probe_prefixes(probe);
    return status ? status : match_all(probe);
}

static zt_nn_probe *new_probe(zt_ctx *ctx)
{
    zt_nn_probe *probe = zt_calloc(ctx, 1, sizeof *probe);
    if (!probe) return NULL;
    probe->ctx = ctx;
    probe->arena = zt_arena_new(ctx, 0);
    if (probe->arena) return probe;
    zt_nn_probe_free(probe);
    return NULL;
}

zt_nn_probe *zt_nn_probe_new(zt_ctx *ctx, const zt_nn_geometry *geometries, int64_t tensor_count, const zt_nn_hint *hints,
                             int n_hints)
{
    ZT_REQUIRE(ctx, (geometries || !tensor_count) && (hints || !n_hints), NULL);
    zt_nn_probe *probe = new_probe(ctx);
    if (probe && run_probe(probe, geometries, tensor_count, hints, n_hints) == ZT_OK) return probe;
    zt_nn_probe_free(probe);
    return NULL;
}

void zt_nn_probe_free(zt_nn_probe *probe)
{
    if (!probe) return;
    zt_free(probe->ctx, probe->own_geometries);
    zt_free(probe->ctx, probe->used);
    zt_free(probe->ctx, probe->roles);
    zt_free(probe->ctx, probe->archetypes);
    zt_arena_free(probe->arena);
    zt_free(probe->ctx, probe);
}

int64_t zt_nn_probe_count(const zt_nn_probe *probe) { return probe ? probe->archetype_count : 0; }
const zt_nn_archetype *zt_nn_probe_at(const zt_nn_probe *probe, int64_t index)
{
    return probe ? &probe->archetypes[index] : NULL;
}
int64_t zt_nn_probe_tensors(const zt_nn_probe *probe) { return probe ? probe->tensor_count : 0; }
const zt_nn_geometry *zt_nn_probe_tensor(const zt_nn_probe *probe, int64_t index)
{
    return probe ? &probe->geometries[index] : NULL;
}
bool zt_nn_probe_matched(const zt_nn_probe *probe, int64_t tensor) { return probe && probe->used[tensor]; }

/* ---- of a file ------------------------------------------------------------------------------- */

/* mean_abs and variance of a tensor, rounded to f32 where Loom rounds. */
static zt_status measure_tensor(zt_nn_probe *probe, zt_checkpoint *checkpoint, int64_t entry, zt_nn_geometry *geometry)
{
    const zt_dtype_info *info = zt_dtype_get(geometry->type.dtype);
    int64_t count = zt_type_count(&geometry->type), piece = PIECE / info->block * info->block;
    double sum = 0, squares = 0;
    if (!info->decode || count == 0) return ZT_OK;
    size_t bytes = (size_t)(piece / info->block) * (size_t)info->block_bytes;
    char *raw = zt_alloc(probe->ctx, bytes + (size_t)piece * sizeof(float));
    float *values = (float *)(void *)(raw + bytes);
    zt_status status = raw ? ZT_OK : ZT_ENOMEM;
    for (int64_t offset = 0; offset < count && !status; offset += piece) {
        int64_t piece_count = count - offset < piece ? count - offset : piece;
        size_t size = (size_t)((piece_count + info->block - 1) / info->block) * (size_t)info->block_bytes;
        status = zt_checkpoint_read(checkpoint, entry, (size_t)(offset / info->block) * (size_t)info->block_bytes, raw, size);
        if (!status) info->decode(raw, values, piece_count);
        for (int64_t piece_index = 0; piece_index < piece_count && !status; piece_index++) {
            sum += fabs((double)values[piece_index]);
            squares += (double)values[piece_index] * values[piece_index];
        }
    }
    zt_free(probe->ctx, raw);
    geometry->mean_abs = (float)(sum / (double)count);
    geometry->variance = (float)(squares / (double)count - (double)(geometry->mean_abs * geometry->mean_abs));
    return status;
}

typedef struct named_entry {
    const char *name;
    int64_t entry;
} named_entry;

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const named_entry *)left)->name, ((const named_entry *)right)->name);
}

static zt_status measure_all(zt_nn_probe *probe, zt_checkpoint *checkpoint)
{
    int64_t count = zt_checkpoint_count(checkpoint);
    zt_entry entry;
    if (count > MOST_TENSORS) return ZT_OK; /* run_probe reports it */
    named_entry *list = zt_alloc_array(probe->ctx, (size_t)count + 1, sizeof *list);
    probe->own_geometries = zt_calloc(probe->ctx, (size_t)count + 1, sizeof *probe->own_geometries);
    zt_status status = list && probe->own_geometries ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < count && !status; i++) {
        zt_checkpoint_get(checkpoint, i, &entry);
        list[i] = (named_entry){zt_arena_strndup(probe->arena, entry.name, strlen(entry.name)), i};
        if (!list[i].name) status = ZT_ENOMEM;
    }
    if (!status) qsort(list, (size_t)count, sizeof *list, compare_names);
    for (int64_t i = 0; i < count && !status; i++) {
        zt_checkpoint_get(checkpoint, list[i].entry, &entry);
        probe->own_geometries[i] = (zt_nn_geometry){.name = list[i].name, .type = entry.type};
        if (entry.type.rank < 0 || entry.type.dtype >= ZT_DTYPE_COUNT)
            status = zt_fail(probe->ctx, ZT_ENOTSUP, "tensor '%s' has an unsupported type", entry.name);
        else
            status = measure_tensor(probe, checkpoint, list[i].entry, &probe->own_geometries[i]);
    }
    zt_free(probe->ctx, list);
    return status;
}

zt_nn_probe *zt_nn_probe_of(zt_ctx *ctx, zt_checkpoint *checkpoint, const zt_nn_hint *hints, int n_hints)
{
    ZT_REQUIRE(ctx, checkpoint && (hints || !n_hints), NULL);
    zt_nn_probe *probe = new_probe(ctx);
    if (probe && measure_all(probe, checkpoint) == ZT_OK &&
        run_probe(probe, probe->own_geometries, zt_checkpoint_count(checkpoint), hints, n_hints) == ZT_OK)
        return probe;
    zt_nn_probe_free(probe);
    return NULL;
}
