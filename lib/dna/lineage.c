/* lineage.c - owns who comes from whom among many models: every two are compared, and a tree of
 * least distances is grown from the first (R. C. Prim, 1957). */
#include "lib/base/require.h"
#include "lib/dna/dna_file.h"

#include <math.h>
#include <string.h>

const char *zt_dna_relation_name(zt_dna_relation kinship)
{
    static const char *const name[] = {"root", "same", "rounded", "fine-tune"};
    return (unsigned)kinship < sizeof name / sizeof *name ? name[kinship] : NULL;
}

static zt_status compare_all(zt_lineage *lineage, zt_dna *const *models, const zt_dna_compare_opts *options, double *distance)
{
    int count = lineage->model_count;
    zt_status status = ZT_OK;
    for (int i = 0; i < count; i++) {
        lineage->overlap[i * count + i] = lineage->cosine[i * count + i] = 1;
        lineage->rel_l2[i * count + i] = distance[i * count + i] = 0;
    }
    for (int k = 0; k < count * count && status == ZT_OK; k++) {
        int i = k / count, j = k % count;
        zt_dna_verdict verdict;
        double sum_aa = 0, sum_bb = 0, sum_dd = 0;
        if (j <= i) continue;
        status = zt_dna_compare(models[i], models[j], options, &verdict);
        for (int64_t row = 0; row < verdict.score_count && status == ZT_OK; row++) {
            sum_aa += verdict.scores[row].sum_aa;
            sum_bb += verdict.scores[row].sum_bb;
            sum_dd += verdict.scores[row].sum_dd;
        }
        lineage->overlap[i * count + j] = lineage->overlap[j * count + i] = verdict.overlap;
        lineage->cosine[i * count + j] = lineage->cosine[j * count + i] = verdict.cosine;
        lineage->rel_l2[i * count + j] = verdict.rel_l2;
        lineage->rel_l2[j * count + i] = sum_dd == 0 ? verdict.rel_l2 : sqrt(sum_dd / sum_bb);
        double gap = sum_dd == 0 ? 0 : sum_dd / (sqrt(sum_aa) * sqrt(sum_bb));
        if (2 * verdict.fit_count < verdict.score_count + verdict.only_a ||
            2 * verdict.fit_count < verdict.score_count + verdict.only_b)
            gap = INFINITY;
        distance[i * count + j] = distance[j * count + i] = gap;
        zt_dna_verdict_free(&verdict);
    }
    return status;
}

/* What the verdict of a parent and its child says. */
static zt_dna_relation find_kinship(const zt_dna *parent, const zt_dna *child, const zt_dna_verdict *verdict)
{
    bool same_where_one_dtype = true;
    if (verdict->same_count == verdict->score_count && verdict->only_a == 0 && verdict->only_b == 0) return ZT_RELATION_SAME;
    for (int64_t k = 0; k < verdict->score_count && same_where_one_dtype; k++) {
        const zt_dna_score *score = &verdict->scores[k];
        bool one = strcmp(parent->layers[score->layer_a].dtype, child->layers[score->layer_b].dtype) == 0;
        same_where_one_dtype = one ? score->same : !score->changed;
    }
    return same_where_one_dtype ? ZT_RELATION_ROUNDED : ZT_RELATION_FINE_TUNE;
}

/* The model outside the tree that is nearest to one inside which it is kin of; -1: none is. */
static int find_nearest(const zt_lineage *lineage, const double *distance, const bool *inside, double min_cosine, int *parent)
{
    int best = -1;
    double least = INFINITY;
    for (int i = 0; i < lineage->model_count; i++)
        for (int j = 0; inside[i] && j < lineage->model_count; j++) {
            double candidate = distance[i * lineage->model_count + j];
            if (inside[j] || !(lineage->cosine[i * lineage->model_count + j] > min_cosine) || !(candidate < least)) continue;
            least = candidate;
            best = j;
            *parent = i;
        }
    return best;
}

static zt_status grow_tree(zt_lineage *lineage, zt_dna *const *models, const zt_dna_compare_opts *options, const double *distance,
                           double min_cosine, bool *inside)
{
    zt_status status = ZT_OK;
    for (int done = 0; done < lineage->model_count && status == ZT_OK; done++) {
        int parent = -1, next = find_nearest(lineage, distance, inside, min_cosine, &parent);
        for (int k = 0; next < 0 && k < lineage->model_count; k++)
            if (!inside[k]) next = k; /* a root: the first that is left */
        inside[next] = true;
        zt_dna_descent *descent = &lineage->descents[next];
        descent->parent = parent;
        if (parent < 0) continue;
        status = zt_dna_compare(models[parent], models[next], options, &descent->verdict);
        if (status == ZT_OK) descent->relation = find_kinship(models[parent], models[next], &descent->verdict);
    }
    return status;
}

zt_status zt_dna_lineage(zt_dna *const *models, int count, const zt_dna_compare_opts *options, double min_cosine, zt_lineage *out)
{
    if (!models || count < 1 || !models[0]) return ZT_EUSAGE;
    zt_ctx *ctx = models[0]->ctx;
    ZT_REQUIRE(ctx, options && out, ZT_EUSAGE);
    for (int i = 0; i < count; i++) ZT_REQUIRE(ctx, models[i], ZT_EUSAGE);
    size_t cells = (size_t)count * (size_t)count;
    *out = (zt_lineage){.ctx = ctx, .model_count = count};
    out->overlap = zt_calloc(ctx, cells, sizeof(double));
    out->cosine = zt_calloc(ctx, cells, sizeof(double));
    out->rel_l2 = zt_calloc(ctx, cells, sizeof(double));
    out->descents = zt_calloc(ctx, (size_t)count, sizeof *out->descents);
    double *distance = zt_calloc(ctx, cells, sizeof *distance);
    bool *inside = zt_calloc(ctx, (size_t)count, sizeof *inside);
    bool room = out->overlap && out->cosine && out->rel_l2 && out->descents && distance && inside;
    zt_status status = room ? compare_all(out, models, options, distance) : ZT_ENOMEM;
    if (status == ZT_OK) status = grow_tree(out, models, options, distance, min_cosine, inside);
    zt_free(ctx, distance);
    zt_free(ctx, inside);
    return status;
}

void zt_lineage_free(zt_lineage *lineage)
{
    if (!lineage) return;
    if (!lineage->ctx) return;
    for (int i = 0; lineage->descents && i < lineage->model_count; i++) zt_dna_verdict_free(&lineage->descents[i].verdict);
    zt_free(lineage->ctx, lineage->overlap);
    zt_free(lineage->ctx, lineage->cosine);
    zt_free(lineage->ctx, lineage->rel_l2);
    zt_free(lineage->ctx, lineage->descents);
    *lineage = (zt_lineage){.ctx = NULL};
}
