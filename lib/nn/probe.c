/* probe.c - owns the search for layers among tensors: S3's rules, as facts. */
#include "lib/nn/probe_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TENSORS = 1 << 14, PIECE = 1 << 14 };

/* ---- what is found --------------------------------------------------------------------------- */

static int64_t dim(const zt_nn_probe *p, int64_t i, int d) { return p->g[i].type.dim[d]; }
static bool is_rank(const zt_nn_probe *p, int64_t i, int rank) { return p->g[i].type.rank == rank; }
static bool is_gain(const zt_nn_probe *p, int64_t i) { return p->g[i].mean_abs > 0.4f; }
static bool is_bias(const zt_nn_probe *p, int64_t i) { return p->g[i].mean_abs < 0.2f; }

void zt_probe_role(zt_nn_probe *p, zt_nn_archetype *a, const char *name, int64_t tensor)
{
    p->role[a->n_roles++] = (zt_nn_role){name, tensor};
    p->used[tensor] = true;
}

void zt_probe_metric(zt_nn_archetype *a, const char *name, int64_t value)
{
    a->metric[a->n_metrics++] = (zt_nn_metric){name, value};
}

/* A vector of `size` that may be a bias, the first that nobody has; -1: none. */
static int64_t find_bias(const zt_nn_probe *p, int64_t size)
{
    for (int64_t j = 0; j < p->n; j++)
        if (!p->used[j] && is_rank(p, j, 1) && dim(p, j, 0) == size && is_bias(p, j)) return j;
    return -1;
}

static void take_bias(zt_nn_probe *p, zt_nn_archetype *a, const char *name, int64_t size)
{
    int64_t j = find_bias(p, size);
    if (j >= 0) zt_probe_role(p, a, name, j);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Words of a name that tell a role, between dots and underscores. */
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
    for (size_t n; *name; name += n + (name[n] != 0)) {
        n = strcspn(name, "._");
        if (n == strlen(word) && !memcmp(name, word, n)) return true;
    }
    return false;
}

static const char *told_role(const zt_nn_probe *p, zt_nn_kind kind, int64_t tensor)
{
    for (size_t i = 0; i < sizeof words / sizeof *words && p->g[tensor].name; i++)
        for (int k = 0; k < 4 && words[i].kind == kind && words[i].word[k]; k++)
            if (has_word(p->g[tensor].name, words[i].word[k])) return words[i].role;
    return NULL;
}

/* Tensors of one shape have their roles by order; where the names of all that have a role with
 * words tell each another one, by these. */
static void sort_roles(zt_nn_probe *p, zt_nn_archetype *a)
{
    const char *told[4];
    int64_t n = 0;
    for (; n < a->n_roles && n < 4; n++) {
        told[n] = told_role(p, a->kind, p->role[n].tensor);
        for (int64_t k = 0; k < n && told[n]; k++)
            if (!strcmp(told[k], told[n])) return;
        if (!told[n] && strcmp(p->role[n].name, "d")) return;
        if (!told[n]) break; /* SwiGLU's third is told by its shape */
    }
    for (int64_t k = 0; k < n; k++) p->role[k].name = told[k];
}

/* ---- one more ------------------------------------------------------------------------ */

zt_status zt_probe_put(zt_nn_probe *p, zt_nn_archetype *a)
{
    if (p->n_found == p->room) {
        int64_t room = p->room ? 2 * p->room : 32;
        zt_nn_archetype *more = zt_realloc(p->ctx, p->found, (size_t)room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        p->found = more;
        p->room = room;
    }
    if (a->n_metrics && !a->named) sort_roles(p, a);
    size_t bytes = (size_t)a->n_roles * sizeof *p->role;
    zt_nn_role *role = zt_arena_alloc(p->keep, bytes);
    if (!role) return ZT_ENOMEM;
    memcpy(role, p->role, bytes);
    a->role = role;
    p->any_named = p->any_named || a->named;
    p->found[p->n_found++] = *a;
    return ZT_OK;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Each gives an archetype whose tensors it took, or none: kind ZT_NN_KINDS. */
typedef zt_nn_archetype matcher(zt_nn_probe *p, int64_t pivot);

static const zt_nn_archetype none = {.kind = ZT_NN_KINDS};

static zt_nn_archetype attention(zt_nn_probe *p, int64_t pivot)
{
    static const char *const name[] = {"q", "k", "v", "o"}, *const bias[] = {"qb", "kb", "vb",
                                                                             "ob"};
    int64_t d = dim(p, pivot, 0), square[4] = {pivot}, n = 1;
    zt_nn_archetype a = {.kind = ZT_NN_MHA, .type = "Multi-Head Attention"};
    if (!is_rank(p, pivot, 2) || dim(p, pivot, 1) != d) return none;
    for (int64_t j = 0; j < p->n && n < 4; j++)
        if (!p->used[j] && j != pivot && is_rank(p, j, 2) && dim(p, j, 0) == d && dim(p, j, 1) == d)
            square[n++] = j;
    if (n < 4) return none;
    for (int k = 0; k < 4; k++) zt_probe_role(p, &a, name[k], square[k]);
    for (int k = 0; k < 4; k++) take_bias(p, &a, bias[k], d);
    zt_probe_metric(&a, "d", d);
    return a;
}

static zt_nn_archetype lstm(zt_nn_probe *p, int64_t pivot)
{
    zt_nn_archetype a = {.kind = ZT_NN_LSTM, .type = "LSTM Unit"};
    if (!is_rank(p, pivot, 2) || dim(p, pivot, 1) < 1 || dim(p, pivot, 0) / 4 != dim(p, pivot, 1) ||
        dim(p, pivot, 0) % 4)
        return none;
    for (int64_t j = 0; j < p->n; j++) {
        if (p->used[j] || j == pivot || !is_rank(p, j, 2) || dim(p, j, 0) != dim(p, pivot, 0) ||
            dim(p, j, 1) != dim(p, pivot, 1))
            continue;
        zt_probe_role(p, &a, "ih", pivot);
        zt_probe_role(p, &a, "hh", j);
        zt_probe_metric(&a, "h", dim(p, pivot, 1));
        return a;
    }
    return none;
}

/* Three of one shape or of it turned, the last with more columns than rows being `down`. */
static zt_nn_archetype gated(zt_nn_probe *p, int64_t pivot)
{
    int64_t rows = dim(p, pivot, 0), cols = dim(p, pivot, 1), of[3] = {pivot}, n = 1, down = -1;
    zt_nn_archetype a = {.kind = ZT_NN_SWIGLU, .type = "SwiGLU Block"};
    if (!is_rank(p, pivot, 2)) return none;
    for (int64_t j = 0; j < p->n && n < 3; j++)
        if (!p->used[j] && j != pivot && is_rank(p, j, 2) &&
            ((dim(p, j, 0) == rows && dim(p, j, 1) == cols) ||
             (dim(p, j, 0) == cols && dim(p, j, 1) == rows)))
            of[n++] = j;
    for (int k = 0; k < 3 && n == 3; k++)
        if (dim(p, of[k], 0) < dim(p, of[k], 1)) down = of[k];
    if (down < 0) return none;
    for (int k = 0; k < 3; k++)
        if (of[k] != down) zt_probe_role(p, &a, a.n_roles ? "u" : "g", of[k]);
    zt_probe_role(p, &a, "d", down);
    zt_probe_metric(&a, "h", dim(p, down, 0));
    zt_probe_metric(&a, "i", dim(p, down, 1));
    return a;
}

/* Vectors of one length: a gain, a bias, and all others as what they may be of. Tensor 0 counts as
 * no gain and no bias where another may be one: so does the original. */
static zt_nn_archetype norm(zt_nn_probe *p, int64_t pivot)
{
    int64_t d = dim(p, pivot, 0), gain = is_gain(p, pivot) ? pivot : -1,
            bias = gain < 0 ? pivot : -1;
    zt_nn_archetype a = {.kind = ZT_NN_LAYERNORM};
    if (!is_rank(p, pivot, 1)) return none;
    for (int64_t j = 0; j < p->n; j++) {
        char name[32];
        if (p->used[j] || j == pivot || !is_rank(p, j, 1) || dim(p, j, 0) != d) continue;
        if (is_gain(p, j) && gain <= 0)
            gain = j;
        else if (is_bias(p, j) && bias <= 0)
            bias = j;
        else {
            snprintf(name, sizeof name, "stat_%" PRId64, j);
            zt_probe_role(p, &a, zt_arena_strndup(p->keep, name, strlen(name)), j);
        }
    }
    if (gain >= 0) zt_probe_role(p, &a, "s", gain);
    if (bias >= 0) zt_probe_role(p, &a, "b", bias);
    a.type = gain >= 0 && bias >= 0 ? "LayerNorm Doublet" : "Normalization Cluster";
    zt_probe_metric(&a, "d", d);
    return a;
}

/* ---- one by one ------------------------------------------------------------------------------ */

static zt_nn_archetype conv(zt_nn_probe *p, int64_t i)
{
    bool two = is_rank(p, i, 4);
    zt_nn_archetype a = {.kind = two ? ZT_NN_CNN2 : ZT_NN_CNN1, .type = two ? "CNN2D" : "CNN1D"};
    zt_probe_role(p, &a, "w", i);
    zt_probe_metric(&a, "f", dim(p, i, 0));
    zt_probe_metric(&a, "c", dim(p, i, 1));
    zt_probe_metric(&a, "k", dim(p, i, 2));
    take_bias(p, &a, "b", dim(p, i, 0));
    return a;
}

/* A matrix of ten times as many rows as columns is a vocabulary's. */
static zt_nn_archetype matrix(zt_nn_probe *p, int64_t i)
{
    bool vocab = dim(p, i, 0) / 10 > dim(p, i, 1) ||
                 (dim(p, i, 0) / 10 == dim(p, i, 1) && dim(p, i, 0) % 10);
    zt_nn_archetype a = {.kind = vocab ? ZT_NN_EMBEDDING : ZT_NN_DENSE,
                         .type = vocab ? "Embedding Cluster" : "Dense Linear"};
    zt_probe_role(p, &a, "w", i);
    zt_probe_metric(&a, vocab ? "v" : "out", dim(p, i, 0));
    zt_probe_metric(&a, vocab ? "d" : "in", dim(p, i, 1));
    if (!vocab) take_bias(p, &a, "b", dim(p, i, 0));
    return a;
}

static zt_nn_archetype alone(zt_nn_probe *p, int64_t i)
{
    zt_nn_archetype a = {.kind = ZT_NN_SEQUENTIAL, .type = "Structural Metadata"};
    if (zt_type_count(&p->g[i].type) < 10) {
        zt_probe_role(p, &a, "m", i);
        return a;
    }
    if (is_rank(p, i, 4) || is_rank(p, i, 3)) return conv(p, i);
    if (is_rank(p, i, 2)) return matrix(p, i);
    if (!is_rank(p, i, 1) || !is_gain(p, i)) return none;
    a = (zt_nn_archetype){.kind = ZT_NN_RMSNORM, .type = "Normalization Parameter"};
    zt_probe_role(p, &a, "w", i);
    zt_probe_metric(&a, "d", dim(p, i, 0));
    return a;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The sizes that a tensor alone has as a layer of this kind; none where its rank is another. */
static void hinted_metrics(const zt_nn_probe *p, zt_nn_archetype *a, int64_t i)
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
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int d = 0; d < 3 && rows[r].kind == a->kind && is_rank(p, i, rows[r].rank); d++)
            if (rows[r].metric[d]) zt_probe_metric(a, rows[r].metric[d], dim(p, i, d));
}

static zt_status take_hints(zt_nn_probe *p, const zt_nn_hint *hints, int n)
{
    zt_status s = ZT_OK;
    for (int k = 0; k < n && !s; k++) {
        zt_nn_archetype a = {.kind = hints[k].kind, .type = "HINTED Layer"};
        if (hints[k].index < 0 || hints[k].index >= p->n)
            return zt_fail(p->ctx, ZT_EUSAGE, "a hint for tensor %" PRId64 ": there are %" PRId64,
                           hints[k].index, p->n);
        zt_probe_role(p, &a, "w", hints[k].index);
        hinted_metrics(p, &a, hints[k].index);
        s = zt_probe_put(p, &a);
    }
    return s;
}

static zt_status match_all(zt_nn_probe *p)
{
    static matcher *const groups[] = {attention, lstm, gated, norm};
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < p->n && !s; i++)
        for (int m = 0; m < 4 && !p->used[i] && !s; m++) {
            zt_nn_archetype a = groups[m](p, i);
            if (a.kind == ZT_NN_KINDS) continue;
            s = zt_probe_put(p, &a);
            break;
        }
    for (int64_t i = 0; i < p->n && !s; i++) {
        zt_nn_archetype a = p->used[i] ? none : alone(p, i);
        if (a.kind != ZT_NN_KINDS) s = zt_probe_put(p, &a);
    }
    return s;
}

static zt_status probe(zt_nn_probe *p, const zt_nn_geometry *g, int64_t n, const zt_nn_hint *hints,
                       int n_hints)
{
    p->g = g;
    p->n = n;
    if (n > MOST_TENSORS)
        return zt_fail(p->ctx, ZT_ENOTSUP, "%" PRId64 " tensors: at most %d are looked at", n,
                       MOST_TENSORS);
    p->used = zt_calloc(p->ctx, (size_t)n + 1, sizeof *p->used);
    p->role = zt_calloc(p->ctx, (size_t)n + 8, sizeof *p->role);
    zt_status s = p->used && p->role ? take_hints(p, hints, n_hints) : ZT_ENOMEM;
    if (!s) s = zt_probe_prefixes(p);
    return s ? s : match_all(p);
}

static zt_nn_probe *begin(zt_ctx *ctx)
{
    zt_nn_probe *p = zt_calloc(ctx, 1, sizeof *p);
    if (!p) return NULL;
    p->ctx = ctx;
    p->keep = zt_arena_new(ctx, 0);
    if (p->keep) return p;
    zt_nn_probe_free(p);
    return NULL;
}

zt_nn_probe *zt_nn_probe_new(zt_ctx *ctx, const zt_nn_geometry *g, int64_t n,
                             const zt_nn_hint *hints, int n_hints)
{
    zt_nn_probe *p = begin(ctx);
    if (p && probe(p, g, n, hints, n_hints) == ZT_OK) return p;
    zt_nn_probe_free(p);
    return NULL;
}

void zt_nn_probe_free(zt_nn_probe *p)
{
    if (!p) return;
    zt_free(p->ctx, p->own);
    zt_free(p->ctx, p->used);
    zt_free(p->ctx, p->role);
    zt_free(p->ctx, p->found);
    zt_arena_free(p->keep);
    zt_free(p->ctx, p);
}

int64_t zt_nn_probe_count(const zt_nn_probe *p) { return p->n_found; }
const zt_nn_archetype *zt_nn_probe_at(const zt_nn_probe *p, int64_t i) { return &p->found[i]; }
int64_t zt_nn_probe_tensors(const zt_nn_probe *p) { return p->n; }
const zt_nn_geometry *zt_nn_probe_tensor(const zt_nn_probe *p, int64_t i) { return &p->g[i]; }
bool zt_nn_probe_matched(const zt_nn_probe *p, int64_t tensor) { return p->used[tensor]; }

/* ---- of a file ------------------------------------------------------------------------------- */

/* Mean magnitude, and mean square less its square, rounded where S3 rounds. */
static zt_status measure(zt_nn_probe *p, zt_checkpoint *c, int64_t entry, zt_nn_geometry *g)
{
    const zt_dtype_info *info = zt_dtype_get(g->type.dtype);
    int64_t n = zt_type_count(&g->type), each = PIECE / info->block * info->block;
    double sum = 0, squares = 0;
    if (!info->decode || n == 0) return ZT_OK;
    size_t bytes = (size_t)(each / info->block) * (size_t)info->block_bytes;
    char *raw = zt_alloc(p->ctx, bytes + (size_t)each * sizeof(float));
    float *x = (float *)(void *)(raw + bytes);
    zt_status s = raw ? ZT_OK : ZT_ENOMEM;
    for (int64_t at = 0; at < n && !s; at += each) {
        int64_t some = n - at < each ? n - at : each;
        size_t size = (size_t)((some + info->block - 1) / info->block) * (size_t)info->block_bytes;
        s = zt_checkpoint_read(c, entry, (size_t)(at / info->block) * (size_t)info->block_bytes,
                               raw, size);
        if (!s) info->decode(raw, x, some);
        for (int64_t i = 0; i < some && !s; i++) {
            sum += fabs((double)x[i]);
            squares += (double)x[i] * x[i];
        }
    }
    zt_free(p->ctx, raw);
    g->mean_abs = (float)(sum / (double)n);
    g->variance = (float)(squares / (double)n - (double)(g->mean_abs * g->mean_abs));
    return s;
}

typedef struct named {
    const char *name;
    int64_t entry;
} named;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static zt_status measure_all(zt_nn_probe *p, zt_checkpoint *c)
{
    int64_t n = zt_checkpoint_count(c);
    zt_entry e;
    if (n > MOST_TENSORS) return ZT_OK; /* which probe refuses */
    named *list = zt_alloc_array(p->ctx, (size_t)n + 1, sizeof *list);
    p->own = zt_calloc(p->ctx, (size_t)n + 1, sizeof *p->own);
    zt_status s = list && p->own ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < n && !s; i++) {
        zt_checkpoint_get(c, i, &e);
        list[i] = (named){zt_arena_strndup(p->keep, e.name, strlen(e.name)), i};
        if (!list[i].name) s = ZT_ENOMEM;
    }
    if (!s) qsort(list, (size_t)n, sizeof *list, by_name);
    for (int64_t i = 0; i < n && !s; i++) {
        zt_checkpoint_get(c, list[i].entry, &e);
        p->own[i] = (zt_nn_geometry){.name = list[i].name, .type = e.type};
        if (e.type.rank < 0 || e.type.dtype >= ZT_DTYPE_COUNT)
            s = zt_fail(p->ctx, ZT_ENOTSUP, "tensor '%s' is of a type that is not known", e.name);
        else
            s = measure(p, c, list[i].entry, &p->own[i]);
    }
    zt_free(p->ctx, list);
    return s;
}

zt_nn_probe *zt_nn_probe_of(zt_ctx *ctx, zt_checkpoint *c, const zt_nn_hint *hints, int n_hints)
{
    zt_nn_probe *p = begin(ctx);
    if (p && measure_all(p, c) == ZT_OK &&
        probe(p, p->own, zt_checkpoint_count(c), hints, n_hints) == ZT_OK)
        return p;
    zt_nn_probe_free(p);
    return NULL;
}
