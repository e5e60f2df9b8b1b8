/* layers_softmax.h - how the ops of golden/layers are spelled in zt: softmax kinds. */
#ifndef ZT_SPELL_LAYERS_SOFTMAX_H
#define ZT_SPELL_LAYERS_SOFTMAX_H

#include "tests/ops/spell/spell.h"

static int softmax_at(const call *node, int x)
{
    return zt_program_softmax(node->p, NULL, x, &(zt_softmax_attrs){int_or(node, "axis", -1)});
}

static int cooled(const call *node, int x)
{
    return zt_program_scale(node->p, NULL, x, &(zt_scale_attrs){1 / number_or(node, "temperature", 1)});
}

static int build_softmax_temperature(const call *node) { return softmax_at(node, cooled(node, node->in[0])); }

static int entmax_of(const call *node, double alpha)
{
    return zt_program_entmax(node->p, NULL, node->in[0], &(zt_entmax_attrs){int_or(node, "axis", -1), alpha});
}

static int build_sparsemax(const call *node) { return entmax_of(node, 2); }
static int build_entmax(const call *node) { return entmax_of(node, number_or(node, "alpha", 1.5)); }

static int build_softmax_masked(const call *node)
{
    int none = zt_program_fill_like(node->p, NULL, node->in[0], &(zt_fill_like_attrs){-INFINITY});
    return softmax_at(node, zt_program_where(node->p, NULL, node->in[1], node->in[0], none));
}

/* Softmax of rows of `columns`, in x's own shape. */
static int softmax_rows(const call *node, int64_t columns)
{
    int64_t n = count_of(node, 0);
    int x = reshaped(node, node->in[0], 2, (int64_t[]){columns ? n / columns : 0, columns});
    return reshaped(node, softmax_at(node, x), node->type[0].rank, node->type[0].dim);
}

static int build_softmax_grid(const call *node) { return softmax_rows(node, int_or(node, "cols", 1)); }

static int build_softmax_hierarchical(const call *node)
{
    int64_t levels[16];
    int n = attr_ints(node, "levels", levels, 16);
    return softmax_rows(node, n > 0 ? levels[n - 1] : 1);
}

/* -ln(-ln u) is a Gumbel draw. */
static int build_softmax_gumbel(const call *node)
{
    int g = zt_program_neg(node->p, NULL, zt_program_log(node->p, NULL, node->in[1]));
    g = zt_program_neg(node->p, NULL, zt_program_log(node->p, NULL, g));
    return softmax_at(node, cooled(node, zt_program_add(node->p, NULL, node->in[0], g)));
}

static int build_entmax_mix(const call *node)
{
    double alpha = number_or(node, "alpha", 1.5);
    int soft = zt_program_scale(node->p, NULL, softmax_at(node, node->in[0]), &(zt_scale_attrs){2 - alpha});
    int sparse = zt_program_scale(node->p, NULL, entmax_of(node, 2), &(zt_scale_attrs){alpha - 1});
    return zt_program_add(node->p, NULL, soft, sparse);
}

static const spelling layers_softmax_ops[] = {
    {"softmax_temperature", .build = build_softmax_temperature},
    {"sparsemax", .build = build_sparsemax},
    {"entmax15", .build = build_entmax},
    {"entmax", .build = build_entmax},
    {"softmax_masked", .build = build_softmax_masked},
    {"softmax_grid", .build = build_softmax_grid},
    {"softmax_hierarchical", .build = build_softmax_hierarchical},
    {"softmax_gumbel_given", .build = build_softmax_gumbel},
    {"entmax_mix", .build = build_entmax_mix},
};

#endif
