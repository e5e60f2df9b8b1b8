/* layers_softmax.h - how the ops of golden/layers are spelled in zt: softmax kinds. */
#ifndef ZT_SPELL_LAYERS_SOFTMAX_H
#define ZT_SPELL_LAYERS_SOFTMAX_H

#include "tests/ops/spell/spell.h"

static int softmax_at(const call *c, int x)
{
    return zt_program_softmax(c->p, NULL, x, &(zt_softmax_attrs){int_or(c, "axis", -1)});
}

static int cooled(const call *c, int x)
{
    return zt_program_scale(c->p, NULL, x, &(zt_scale_attrs){1 / number_or(c, "temperature", 1)});
}

static int build_softmax_temperature(const call *c) { return softmax_at(c, cooled(c, c->in[0])); }

static int entmax_of(const call *c, double alpha)
{
    return zt_program_entmax(c->p, NULL, c->in[0], &(zt_entmax_attrs){int_or(c, "axis", -1), alpha});
}

static int build_sparsemax(const call *c) { return entmax_of(c, 2); }
static int build_entmax(const call *c) { return entmax_of(c, number_or(c, "alpha", 1.5)); }

static int build_softmax_masked(const call *c)
{
    int none = zt_program_fill_like(c->p, NULL, c->in[0], &(zt_fill_like_attrs){-INFINITY});
    return softmax_at(c, zt_program_where(c->p, NULL, c->in[1], c->in[0], none));
}

/* Softmax of rows of `columns`, in x's own shape. */
static int softmax_rows(const call *c, int64_t columns)
{
    int64_t n = count_of(c, 0);
    int x = reshaped(c, c->in[0], 2, (int64_t[]){columns ? n / columns : 0, columns});
    return reshaped(c, softmax_at(c, x), c->type[0].rank, c->type[0].dim);
}

static int build_softmax_grid(const call *c) { return softmax_rows(c, int_or(c, "cols", 1)); }

static int build_softmax_hierarchical(const call *c)
{
    int64_t levels[16];
    int n = attr_ints(c, "levels", levels, 16);
    return softmax_rows(c, n > 0 ? levels[n - 1] : 1);
}

/* -ln(-ln u) is a Gumbel draw. */
static int build_softmax_gumbel(const call *c)
{
    int g = zt_program_neg(c->p, NULL, zt_program_log(c->p, NULL, c->in[1]));
    g = zt_program_neg(c->p, NULL, zt_program_log(c->p, NULL, g));
    return softmax_at(c, cooled(c, zt_program_add(c->p, NULL, c->in[0], g)));
}

static int build_entmax_mix(const call *c)
{
    double alpha = number_or(c, "alpha", 1.5);
    int soft = zt_program_scale(c->p, NULL, softmax_at(c, c->in[0]), &(zt_scale_attrs){2 - alpha});
    int sparse = zt_program_scale(c->p, NULL, entmax_of(c, 2), &(zt_scale_attrs){alpha - 1});
    return zt_program_add(c->p, NULL, soft, sparse);
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
