/* lineage.c - owns who comes from whom among many models: every two are compared, and a tree of
 * least distances is grown from the first (R. C. Prim, 1957). */
#include "lib/dna/dna_file.h"

#include <math.h>
#include <string.h>

const char *zt_kinship_name(zt_kinship k)
{
    static const char *const name[] = {"root", "same", "rounded", "fine-tune"};
    return name[k];
}

static zt_status compare_all(zt_lineage *l, zt_dna *const *m, const zt_dna_how *how,
                             double *distance)
{
    int n = l->n;
    zt_status s = ZT_OK;
    for (int i = 0; i < n; i++) {
        l->overlap[i * n + i] = l->cosine[i * n + i] = 1;
        l->rel_l2[i * n + i] = distance[i * n + i] = 0;
    }
    for (int k = 0; k < n * n && s == ZT_OK; k++) {
        int i = k / n, j = k % n;
        zt_dna_verdict v;
        double a2 = 0, b2 = 0, d2 = 0;
        if (j <= i) continue;
        s = zt_dna_compare(m[i], m[j], how, &v);
        for (int64_t r = 0; r < v.n && s == ZT_OK; r++) {
            a2 += v.layer[r].a2;
            b2 += v.layer[r].b2;
            d2 += v.layer[r].d2;
        }
        l->overlap[i * n + j] = l->overlap[j * n + i] = v.overlap;
        l->cosine[i * n + j] = l->cosine[j * n + i] = v.cosine;
        l->rel_l2[i * n + j] = v.rel_l2;
        l->rel_l2[j * n + i] = d2 == 0 ? v.rel_l2 : sqrt(d2 / b2);
        double apart = d2 == 0 ? 0 : d2 / (sqrt(a2) * sqrt(b2));
        if (2 * v.fit < v.n + v.only_a || 2 * v.fit < v.n + v.only_b) apart = INFINITY;
        distance[i * n + j] = distance[j * n + i] = apart;
        zt_dna_verdict_free(&v);
    }
    return s;
}

/* What the verdict of a parent and its child says. */
static zt_kinship kinship(const zt_dna *parent, const zt_dna *child, const zt_dna_verdict *v)
{
    bool same_where_one_dtype = true;
    if (v->same == v->n && v->only_a == 0 && v->only_b == 0) return ZT_KIN_SAME;
    for (int64_t k = 0; k < v->n && same_where_one_dtype; k++) {
        const zt_dna_score *r = &v->layer[k];
        bool one = strcmp(parent->layer[r->a].dtype, child->layer[r->b].dtype) == 0;
        same_where_one_dtype = one ? r->same : !r->changed;
    }
    return same_where_one_dtype ? ZT_KIN_ROUNDED : ZT_KIN_FINE_TUNE;
}

/* The model outside the tree that is nearest to one inside which it is kin of; -1: none is. */
static int nearest(const zt_lineage *l, const double *distance, const bool *inside, double above,
                   int *parent)
{
    int best = -1;
    double least = INFINITY;
    for (int i = 0; i < l->n; i++)
        for (int j = 0; inside[i] && j < l->n; j++) {
            double d = distance[i * l->n + j];
            if (inside[j] || !(l->cosine[i * l->n + j] > above) || !(d < least)) continue;
            least = d;
            best = j;
            *parent = i;
        }
    return best;
}

static zt_status grow(zt_lineage *l, zt_dna *const *m, const zt_dna_how *how,
                      const double *distance, double above, bool *inside)
{
    zt_status s = ZT_OK;
    for (int done = 0; done < l->n && s == ZT_OK; done++) {
        int parent = -1, next = nearest(l, distance, inside, above, &parent);
        for (int k = 0; next < 0 && k < l->n; k++)
            if (!inside[k]) next = k; /* a root: the first that is left */
        inside[next] = true;
        zt_dna_kin *kin = &l->kin[next];
        kin->parent = parent;
        if (parent < 0) continue;
        s = zt_dna_compare(m[parent], m[next], how, &kin->with);
        if (s == ZT_OK) kin->how = kinship(m[parent], m[next], &kin->with);
    }
    return s;
}

zt_status zt_dna_lineage(zt_dna *const *m, int n, const zt_dna_how *how, double above,
                         zt_lineage *out)
{
    zt_ctx *ctx = m[0]->ctx;
    size_t cells = (size_t)n * (size_t)n;
    *out = (zt_lineage){.ctx = ctx, .n = n};
    out->overlap = zt_calloc(ctx, cells, sizeof(double));
    out->cosine = zt_calloc(ctx, cells, sizeof(double));
    out->rel_l2 = zt_calloc(ctx, cells, sizeof(double));
    out->kin = zt_calloc(ctx, (size_t)n, sizeof *out->kin);
    double *distance = zt_calloc(ctx, cells, sizeof *distance);
    bool *inside = zt_calloc(ctx, (size_t)n, sizeof *inside);
    bool room = out->overlap && out->cosine && out->rel_l2 && out->kin && distance && inside;
    zt_status s = room ? compare_all(out, m, how, distance) : ZT_ENOMEM;
    if (s == ZT_OK) s = grow(out, m, how, distance, above, inside);
    zt_free(ctx, distance);
    zt_free(ctx, inside);
    return s;
}

void zt_lineage_free(zt_lineage *l)
{
    if (!l->ctx) return;
    for (int i = 0; l->kin && i < l->n; i++) zt_dna_verdict_free(&l->kin[i].with);
    zt_free(l->ctx, l->overlap);
    zt_free(l->ctx, l->cosine);
    zt_free(l->ctx, l->rel_l2);
    zt_free(l->ctx, l->kin);
    *l = (zt_lineage){.ctx = NULL};
}
