/* xielu.c - the builder of xIELU, the feed-forward's curve of Apertus (Huang and Schlag, "Deriving Activation Functions Using
 * Integration", 2024); zt_xielu has the formula. The numbers of a layer are constants of the program. */
#include "lib/llm/build/internal.h"

#include "lib/ops/rounded.h"

#include <math.h>

int zt_emit_xielu(zt_program_builder *builder, int x)
{
    zt_prog *program = builder->program;
    const zt_xielu *number = &builder->hyper->xielu[builder->layer];
    int zero = zt_program_fill_like(program, zt_layer_label(builder, "fz"), x, &(zt_fill_like_attrs){0});
    int above = zt_program_gt(program, zt_layer_label(builder, "fa"), x, zero);
    int square = zt_program_mul(program, zt_layer_label(builder, "fq"), x, x);
    square = zt_emit_scale(builder, zt_layer_label(builder, "fp"), square, zt_rounded_softplus(number->alpha_p));
    int low = zt_program_clamp(program, zt_layer_label(builder, "fc"), x, &(zt_clamp_attrs){-INFINITY, number->eps});
    low = zt_program_expm1(program, zt_layer_label(builder, "fe"), low);
    low = zt_program_sub(program, zt_layer_label(builder, "fd"), low, x);
    low = zt_emit_scale(builder, zt_layer_label(builder, "fn"), low, number->beta + zt_rounded_softplus(number->alpha_n));
    int curve = zt_program_where(program, zt_layer_label(builder, "fw"), above, square, low);
    int line = zt_emit_scale(builder, zt_layer_label(builder, "fb"), x, number->beta);
    return zt_program_add(program, zt_layer_label(builder, "f"), curve, line);
}
