/* cluster_print.c - the tables of zt-train cluster: samples, clusters, or the steps of a linkage. */
#include "tools/zt-train/cluster.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CELL = 32 };

static const char *put_real(char cell[CELL], double value)
{
    snprintf(cell, CELL, "%.6g", value);
    return isnan(value) ? NULL : cell;
}

static const char *put_integer(char cell[CELL], int64_t value)
{
    snprintf(cell, CELL, "%" PRId64, value);
    return cell;
}

/* ---- samples and steps ------------------------------------------------------------------------- */

static zt_status put_samples(const train_clusters *work, zt_table *table)
{
    zt_status status = ZT_OK;
    char cell[4][CELL];
    for (int64_t i = 0; i < work->points.count && !status; i++) {
        const char *row[] = {put_integer(cell[0], i), put_integer(cell[1], work->label[i]),
                             put_real(cell[2], work->silhouette[i]),
                             work->classes ? put_real(cell[3], (double)work->class_values[work->classes[i]]) : NULL};
        status = zt_table_row(table, row);
    }
    return status;
}

static zt_status put_steps(const train_clusters *work, zt_table *table)
{
    zt_status status = ZT_OK;
    char cell[4][CELL];
    for (int64_t i = 0; i + 1 < work->points.count && !status; i++) {
        const zt_linkage_step *step = &work->steps[i];
        const char *row[] = {put_integer(cell[0], step->left), put_integer(cell[1], step->right),
                             put_real(cell[2], step->distance), put_integer(cell[3], step->size)};
        status = zt_table_row(table, row);
    }
    return status;
}

/* ---- clusters ---------------------------------------------------------------------------------- */

typedef struct summary {
    int64_t size, scored;
    double silhouette; /* sum over `scored` samples */
    int64_t common;    /* the most frequent class, and its samples */
    int64_t common_size;
} summary;

/* counts: [clusters, classes], samples of each class. */
static void summarize(const train_clusters *work, summary *all, int64_t *counts)
{
    for (int64_t i = 0; i < work->points.count; i++) {
        summary *one = &all[work->label[i]];
        one->size++;
        if (!isnan(work->silhouette[i])) {
            one->scored++;
            one->silhouette += work->silhouette[i];
        }
        if (work->classes) counts[work->label[i] * work->class_count + work->classes[i]]++;
    }
    for (int64_t i = 0; i < work->cluster_count; i++)
        for (int64_t class = 0; class < work->class_count; class ++)
            if (counts[i * work->class_count + class] > all[i].common_size) {
                all[i].common = class;
                all[i].common_size = counts[i * work->class_count + class];
            }
}

static double pairs_of(int64_t count) { return (double)count * (double)(count - 1) / 2; }

/* The adjusted Rand index (Hubert and Arabie 1985): agreement of pairs beyond that of chance. */
static double find_adjusted_rand(const train_clusters *work, const summary *all, const int64_t *counts)
{
    double same = 0, in_clusters = 0, in_classes = 0, pairs = pairs_of(work->points.count);
    for (int64_t i = 0; i < work->cluster_count; i++) in_clusters += pairs_of(all[i].size);
    for (int64_t class = 0; class < work->class_count; class ++) {
        int64_t size = 0;
        for (int64_t i = 0; i < work->cluster_count; i++) {
            int64_t both = counts[i * work->class_count + class];
            same += pairs_of(both);
            size += both;
        }
        in_classes += pairs_of(size);
    }
    double chance = pairs > 0 ? in_clusters * in_classes / pairs : 0, most = (in_clusters + in_classes) / 2;
    return most - chance > 0 ? (same - chance) / (most - chance) : 1;
}

static zt_status put_clusters(const train_clusters *work, const summary *all, zt_table *table)
{
    zt_status status = ZT_OK;
    char cell[5][CELL];
    for (int64_t i = 0; i < work->cluster_count && !status; i++) {
        const summary *one = &all[i];
        double mean = one->scored ? one->silhouette / (double)one->scored : NAN;
        const char *row[] = {put_integer(cell[0], i), put_integer(cell[1], one->size), put_real(cell[2], mean),
                             work->classes ? put_real(cell[3], (double)work->class_values[one->common]) : NULL,
                             work->classes ? put_real(cell[4], (double)one->common_size / (double)one->size) : NULL};
        status = zt_table_row(table, row);
    }
    return status;
}

/* "3 clusters of 150 samples: inertia 78.9, silhouette 0.553, purity 0.887, adjusted Rand index 0.716" */
static void put_note(const train_clusters *work, const summary *all, const int64_t *counts)
{
    double silhouette = 0;
    int64_t scored = 0, pure = 0;
    char inertia[48] = "", mean[48] = "", classes[96] = "";
    for (int64_t i = 0; i < work->cluster_count; i++) {
        silhouette += all[i].silhouette;
        scored += all[i].scored;
        pure += all[i].common_size;
    }
    if (!work->steps) snprintf(inertia, sizeof inertia, " inertia %.6g", work->kmeans.inertia);
    if (scored) snprintf(mean, sizeof mean, "%s silhouette %.4f", *inertia ? "," : "", silhouette / (double)scored);
    if (work->classes)
        snprintf(classes, sizeof classes, "%s purity %.4f, adjusted Rand index %.4f", *inertia || *mean ? "," : "",
                 (double)pure / (double)work->points.count, find_adjusted_rand(work, all, counts));
    zt_cli_note(work->cli, "%lld cluster%s of %lld samples%s%s%s%s", (long long)work->cluster_count,
                work->cluster_count == 1 ? "" : "s", (long long)work->points.count, *inertia || *mean || *classes ? ":" : "",
                inertia, mean, classes);
}

/* ---- all --------------------------------------------------------------------------------------- */

zt_status train_cluster_print(const train_clusters *work)
{
    static const char *const columns[][5] = {
        [TRAIN_SHOW_SAMPLES] = {"#sample", "#cluster", "#silhouette", "#label"},
        [TRAIN_SHOW_CLUSTERS] = {"#cluster", "#size", "#silhouette", "#label", "#purity"},
        [TRAIN_SHOW_STEPS] = {"#left", "#right", "#distance", "#size"},
    };
    static const int column_count[] = {[TRAIN_SHOW_SAMPLES] = 3, [TRAIN_SHOW_CLUSTERS] = 3, [TRAIN_SHOW_STEPS] = 4};
    static const int class_columns[] = {[TRAIN_SHOW_SAMPLES] = 1, [TRAIN_SHOW_CLUSTERS] = 2, [TRAIN_SHOW_STEPS] = 0};
    int show = work->options->show;
    zt_ctx *ctx = work->cli->ctx;
    size_t clusters = (size_t)work->cluster_count;
    summary *all = zt_calloc(ctx, clusters, sizeof *all);
    int64_t *counts = zt_calloc(ctx, clusters, (size_t)(work->class_count + 1) * sizeof *counts);
    zt_table *table =
        zt_table_new(work->cli, "cluster", columns[show], column_count[show] + (work->classes ? class_columns[show] : 0));
    zt_status status = all && counts ? (table ? ZT_OK : zt_ctx_status(ctx)) : ZT_ENOMEM;
    if (!status) summarize(work, all, counts);
    if (!status && show == TRAIN_SHOW_SAMPLES) status = put_samples(work, table);
    if (!status && show == TRAIN_SHOW_CLUSTERS) status = put_clusters(work, all, table);
    if (!status && show == TRAIN_SHOW_STEPS) status = put_steps(work, table);
    if (!status) status = zt_table_print(table);
    if (!status) put_note(work, all, counts);
    zt_table_free(table);
    zt_free(ctx, all);
    zt_free(ctx, counts);
    return status;
}
