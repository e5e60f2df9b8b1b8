/* cluster_linkage.c - agglomerative clustering: a minimum spanning tree for single linkage, nearest-neighbour chains else. */
#include "lib/base/require.h"
#include "lib/train/cluster_internal.h"

#include <math.h>
#include <stdlib.h>

/* Two points whose clusters become one. Steps in the order of (distance, left, right), a total order, are the merges. */
typedef struct edge {
    int64_t left, right; /* left < right */
    double distance;
} edge;

static int compare_edges(const void *a, const void *b)
{
    const edge *left = a, *right = b;
    if (left->distance != right->distance) return left->distance < right->distance ? -1 : 1;
    if (left->left != right->left) return left->left < right->left ? -1 : 1;
    return (left->right > right->right) - (left->right < right->right);
}

static edge edge_of(int64_t a, int64_t b, double distance) { return (edge){a < b ? a : b, a < b ? b : a, distance}; }

/* ---- single linkage: Prim's algorithm ---------------------------------------------------------- */

typedef struct tree {
    const zt_rows *rows;
    edge *nearest; /* [count]: the least edge from the tree to each point that is not in it */
    bool *inside;  /* [count] */
    int64_t added; /* the point that came last */
} tree;

static void shorten(void *user, int64_t point)
{
    const tree *work = user;
    if (work->inside[point]) return;
    edge other = edge_of(point, work->added, zt_rows_distance(work->rows, point, work->added));
    if (compare_edges(&other, &work->nearest[point]) < 0) work->nearest[point] = other;
}

static zt_status find_tree(zt_ctx *ctx, zt_pool *pool, const zt_rows *rows, edge *edges)
{
    int64_t count = rows->count;
    tree work = {.rows = rows};
    work.nearest = zt_alloc_array(ctx, (size_t)count, sizeof *work.nearest);
    work.inside = zt_calloc(ctx, (size_t)count, sizeof *work.inside);
    bool room = work.nearest && work.inside;
    for (int64_t i = 0; i < count && room; i++) work.nearest[i] = (edge){count, count, INFINITY};
    for (int64_t i = 0; i + 1 < count && room; i++) {
        int64_t best = -1;
        work.inside[work.added] = true;
        zt_each_point(pool, count, shorten, &work);
        for (int64_t k = 0; k < count; k++)
            if (!work.inside[k] && (best < 0 || compare_edges(&work.nearest[k], &work.nearest[best]) < 0)) best = k;
        edges[i] = work.nearest[best];
        work.added = best;
    }
    zt_free(ctx, work.nearest);
    zt_free(ctx, work.inside);
    return room ? ZT_OK : ZT_ENOMEM;
}

/* ---- other linkages: nearest-neighbour chains --------------------------------------------------- */

/* A cluster is known by one of its points. Distances of ward are squared. */
typedef struct chain {
    const zt_rows *rows;
    zt_linkage linkage;
    double *distance; /* of i < j, at pair_at(i, j) */
    int64_t *size;    /* [count]; 0: the cluster is part of another */
    int64_t *stack;   /* [count]: each is a nearest neighbour of the one before */
} chain;

/* The pairs (i, j), i < j, by rows of the upper triangle. */
static size_t pair_at(const chain *work, int64_t i, int64_t j)
{
    size_t low = (size_t)(i < j ? i : j), high = (size_t)(i < j ? j : i), count = (size_t)work->rows->count;
    return low * count - low * (low + 1) / 2 + high - low - 1;
}

static void measure_pairs(void *user, int64_t point)
{
    const chain *work = user;
    for (int64_t other = point + 1; other < work->rows->count; other++) {
        double distance = zt_rows_distance(work->rows, point, other);
        work->distance[pair_at(work, point, other)] = work->linkage == ZT_WARD ? distance * distance : distance;
    }
}

/* Distance of `other` to the cluster of a and b (Lance and Williams). */
static double merged_distance(const chain *work, int64_t a, int64_t b, int64_t other)
{
    double to_a = work->distance[pair_at(work, a, other)], to_b = work->distance[pair_at(work, b, other)];
    double size_a = (double)work->size[a], size_b = (double)work->size[b], size = (double)work->size[other];
    if (work->linkage == ZT_COMPLETE) return fmax(to_a, to_b);
    if (work->linkage == ZT_AVERAGE) return (size_a * to_a + size_b * to_b) / (size_a + size_b);
    double between = work->distance[pair_at(work, a, b)];
    return ((size_a + size) * to_a + (size_b + size) * to_b - size * between) / (size_a + size_b + size);
}

/* The cluster that is nearest to `from`; of several, the one before it in the chain, so that the chain ends. */
static int64_t find_nearest(const chain *work, int64_t from, int64_t before, double *distance)
{
    int64_t best = before;
    *distance = before < 0 ? INFINITY : work->distance[pair_at(work, from, before)];
    for (int64_t i = 0; i < work->rows->count; i++) {
        if (i == from || !work->size[i]) continue;
        double apart = work->distance[pair_at(work, from, i)];
        if (best >= 0 && apart >= *distance) continue;
        *distance = apart;
        best = i;
    }
    return best;
}

/* b becomes part of a. */
static void merge_clusters(chain *work, int64_t a, int64_t b)
{
    for (int64_t i = 0; i < work->rows->count; i++)
        if (i != a && i != b && work->size[i]) work->distance[pair_at(work, a, i)] = merged_distance(work, a, b, i);
    work->size[a] += work->size[b];
    work->size[b] = 0;
}

static void follow_chains(chain *work, edge *edges)
{
    int64_t depth = 0, next = 0;
    for (int64_t found = 0; found + 1 < work->rows->count;) {
        while (!depth && !work->size[next]) next++;
        if (!depth) work->stack[depth++] = next;
        double distance;
        int64_t last = work->stack[depth - 1], before = depth > 1 ? work->stack[depth - 2] : -1;
        int64_t nearest = find_nearest(work, last, before, &distance);
        if (nearest != before) {
            work->stack[depth++] = nearest;
            continue;
        }
        edges[found++] = edge_of(last, before, work->linkage == ZT_WARD ? sqrt(fmax(distance, 0)) : distance);
        merge_clusters(work, last < before ? last : before, last < before ? before : last);
        depth -= 2;
    }
}

static zt_status find_chains(zt_ctx *ctx, zt_pool *pool, const zt_rows *rows, zt_linkage linkage, edge *edges)
{
    size_t count = (size_t)rows->count, pairs = count * (count - 1) / 2;
    chain work = {.rows = rows, .linkage = linkage};
    work.distance = zt_alloc_array(ctx, pairs + 1, sizeof *work.distance);
    work.size = zt_alloc_array(ctx, count, sizeof *work.size);
    work.stack = zt_alloc_array(ctx, count, sizeof *work.stack);
    bool room = work.distance && work.size && work.stack;
    for (size_t i = 0; i < count && room; i++) work.size[i] = 1;
    if (room) zt_each_point(pool, rows->count, measure_pairs, &work);
    if (room) follow_chains(&work, edges);
    zt_free(ctx, work.distance);
    zt_free(ctx, work.size);
    zt_free(ctx, work.stack);
    return room ? ZT_OK : ZT_ENOMEM;
}

/* ---- steps ------------------------------------------------------------------------------------- */

/* The first of the points that are joined with `point`; paths are halved on the way. */
static int64_t find_root(int64_t *parent, int64_t point)
{
    while (parent[point] != point) point = parent[point] = parent[parent[point]];
    return point;
}

/* cluster, size: of each root. */
static void make_steps(const edge *edges, int64_t count, int64_t *parent, int64_t *cluster, int64_t *size, zt_linkage_step *steps)
{
    for (int64_t i = 0; i < count; i++) {
        parent[i] = cluster[i] = i;
        size[i] = 1;
    }
    for (int64_t i = 0; i + 1 < count; i++) {
        int64_t a = find_root(parent, edges[i].left), b = find_root(parent, edges[i].right);
        edge pair = edge_of(cluster[a], cluster[b], edges[i].distance);
        parent[b] = a;
        cluster[a] = count + i;
        size[a] += size[b];
        steps[i] = (zt_linkage_step){pair.left, pair.right, pair.distance, size[a]};
    }
}

zt_status zt_linkage_find(zt_ctx *ctx, zt_pool *pool, const zt_points *points, zt_linkage linkage, zt_linkage_step *steps)
{
    ZT_REQUIRE(ctx, zt_points_good(points) && steps && linkage >= ZT_SINGLE && linkage <= ZT_WARD, ZT_EUSAGE);
    ZT_REQUIRE(ctx, linkage != ZT_WARD || points->distance == ZT_EUCLIDEAN, ZT_EUSAGE);
    zt_rows rows;
    size_t count = (size_t)points->count;
    zt_status status = zt_rows_make(ctx, points, &rows);
    edge *edges = zt_alloc_array(ctx, count, sizeof *edges);
    int64_t *room = zt_alloc_array(ctx, 3 * count, sizeof *room);
    if (!status && (!edges || !room)) status = ZT_ENOMEM;
    if (!status)
        status = linkage == ZT_SINGLE ? find_tree(ctx, pool, &rows, edges) : find_chains(ctx, pool, &rows, linkage, edges);
    if (!status) {
        qsort(edges, count - 1, sizeof *edges, compare_edges);
        make_steps(edges, points->count, room, room + count, room + 2 * count, steps);
    }
    zt_free(ctx, edges);
    zt_free(ctx, room);
    zt_rows_free(ctx, &rows);
    return status;
}

/* ---- cuts -------------------------------------------------------------------------------------- */

int64_t zt_linkage_cut(zt_ctx *ctx, const zt_linkage_step *steps, int64_t count, double threshold, int64_t clusters,
                       int64_t *labels)
{
    ZT_REQUIRE(ctx, steps && count > 0 && clusters >= 0 && clusters <= count && labels, -1);
    /* first[c]: a point of cluster c, which may be one of the results of steps */
    int64_t *parent = zt_alloc_array(ctx, 3 * (size_t)count, sizeof *parent), *first = parent + count, given = -1;
    for (int64_t i = 0; i < count && parent; i++) parent[i] = first[i] = i;
    for (int64_t i = 0; i + 1 < count && parent; i++) {
        int64_t a = first[steps[i].left], b = first[steps[i].right];
        first[count + i] = a;
        bool joined = clusters ? count - i > clusters : steps[i].distance <= threshold;
        if (joined) parent[find_root(parent, b)] = find_root(parent, a);
    }
    for (int64_t i = 0; i < count && parent; i++) labels[i] = find_root(parent, i);
    if (parent) given = zt_number_labels(labels, count, first, count);
    zt_free(ctx, parent);
    return given;
}
