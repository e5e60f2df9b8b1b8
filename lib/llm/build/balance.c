/* balance.c - the builder of gains for keys of blocks: where q and k are normed head by head, each pair of columns that rope turns
 * together takes half of what the norms' gains put into queries or keys alone.
 *
 * A block's scale is that of its largest number, so columns of keys with large gains cost the others precision, and errors of keys
 * count as much as the query's column is large. With e the sum of a pair's squared gains, key columns times (e_q / e_k)^(1/4) and query
 * columns times the inverse have the same products, and among such factors the least error of a product, where normed columns
 * vary alike (Nagel et al., "Data-Free Quantization", 2019, equalize layers so). A factor of a pair commutes with rope.
 */
#include "lib/llm/build/internal.h"
#include "lib/tensor/block_row.h"

#include <stdio.h>
#include <string.h>

/* Are the layer's keys and values read by itself alone? */
static bool is_only_reader(const zt_hyper *hyper, int64_t layer)
{
    for (int64_t other = 0; other < hyper->n_layers; other++)
        if ((hyper->layer[other].cache == layer) != (other == layer)) return false;
    return true;
}

/* Does rope turn column i with column i + head / 2, or nothing? */
static bool turns_halves(const zt_hyper *hyper, int64_t layer)
{
    const zt_rope_attrs *rope = hyper->local[layer] ? &hyper->local_rope : &hyper->rope;
    const int64_t head = hyper->layer[layer].head;
    if (!hyper->rotated[layer]) return head % 2 == 0;
    return strcmp(rope->pair.s, "halves") == 0 && head % 2 == 0 && (rope->dims == 0 || rope->dims == head);
}

bool zt_balances_gains(const zt_program_builder *builder)
{
    const zt_hyper *hyper = builder->hyper;
    const int64_t layer = builder->layer;
    if (hyper->arch->encoder || builder->opts->lesson || !zt_is_block_cache(builder->opts->kv)) return false;
    if (hyper->arch->layer_norm || hyper->arch->qk_norm_whole || hyper->parts & ZT_PART_HEAD_NORMS) return false;
    return zt_weight_find(builder->gguf, hyper, ZT_W_Q_NORM, layer) >= 0 &&
           zt_weight_find(builder->gguf, hyper, ZT_W_K_NORM, layer) >= 0 && is_only_reader(hyper, layer) &&
           turns_halves(hyper, layer);
}

/* Half of the gains of q or k: columns below head / 2, or the others. */
static int half_of(zt_program_builder *builder, char which, bool upper)
{
    const int64_t half = builder->hyper->layer[builder->layer].head / 2;
    const char what[] = {which, upper ? 'u' : 'l', '_', 0};
    const int found = zt_prog_find(builder->program, zt_layer_label(builder, what));
    if (found >= 0) return found;
    const int gains = zt_weight_data(builder, which == 'q' ? ZT_W_Q_NORM : ZT_W_K_NORM);
    return zt_emit_slice(builder, what, gains, 0, upper ? half : 0, upper ? 2 * half : half);
}

/* The half's gains, times the fourth root of the other's squares by its own. The root of zeros by zeros is 1. */
static int balance_half(zt_program_builder *builder, char which, bool upper)
{
    static const zt_pointwise_attrs attrs = {
        .chain = "mul a a; mul b b; add %0 %1; add_scalar %2 by=1e-12; mul c c; mul d d; add %4 %5; add_scalar %6 by=1e-12; "
                 "div %7 %3; sqrt %8; sqrt %9; clamp %10 lo=0.0625 hi=16; mul a %11"};
    const char what[] = {which, 'b', upper ? 'u' : 'l', 0}, other = which == 'q' ? 'k' : 'q';
    const int own = half_of(builder, which, upper), beside = half_of(builder, which, !upper);
    const int theirs = half_of(builder, other, false), theirs_beside = half_of(builder, other, true);
    return zt_program_pointwise(builder->program, zt_layer_label(builder, what), own, beside, theirs, theirs_beside, ZT_NONE,
                                ZT_NONE, ZT_NONE, ZT_NONE, &attrs, NULL, NULL, NULL, NULL, NULL);
}

/* All gains of q or k: f32[head]. */
static int balanced_gains(zt_program_builder *builder, char which)
{
    const char what[] = {which, 'b', 0};
    const int lower = balance_half(builder, which, false), upper = balance_half(builder, which, true);
    return zt_program_concat(builder->program, zt_layer_label(builder, what), lower, upper, ZT_NONE, ZT_NONE, ZT_NONE,
                             &(zt_concat_attrs){.axis = 0});
}

int zt_emit_balanced_norm(zt_program_builder *builder, char which, int x)
{
    const int gains = balanced_gains(builder, which);
    const char what[] = {which, 'n', 0};
    return zt_program_rms_norm(
        builder->program, zt_layer_label(builder, what), x, gains,
        &(zt_rms_norm_attrs){.eps = builder->hyper->eps, .dims = builder->hyper->layer[builder->layer].head}, NULL);
}
