/* cluster.h - private to zt-train cluster: what cluster.c finds, and cluster_print.c and cluster_plot.c show. */
#ifndef ZT_TRAIN_TOOL_CLUSTER_H
#define ZT_TRAIN_TOOL_CLUSTER_H

#include "lib/train/cluster.h"
#include "tools/zt-train/train_tool.h"

typedef struct train_clusters {
    zt_cli *cli;
    const train_options *options;
    zt_pool *pool;
    train_learner *learner; /* NULL: the samples themselves */
    zt_prog *program;       /* whose inputs the samples are, without a learner */
    zt_samples *data;
    float *outputs;      /* of the learner, [count, width] */
    zt_points points;    /* the samples or outputs */
    int64_t *classes;    /* [count], by --labels: numbered by their first samples; NULL: not known */
    float *class_values; /* [class_count]: the numbers in the data */
    int64_t class_count;
    zt_kmeans kmeans;       /* without --linkage */
    zt_linkage_step *steps; /* [count - 1], with --linkage */
    int64_t *cut;
    const int64_t *label; /* [count]: of kmeans or cut */
    int64_t cluster_count;
    double *silhouette; /* [count]; NAN: not computed */
} train_clusters;

zt_status train_cluster_print(const train_clusters *work);
/* The samples on their two principal components; with --linkage, the tree. */
zt_status train_cluster_plot(const train_clusters *work);

#endif
