/* vjp_conv.h - how the ops of golden/ops/vjp are spelled in
 * zt: convolution and pooling, N-D, with padding. */
#ifndef ZT_SPELL_VJP_CONV_H
#define ZT_SPELL_VJP_CONV_H

#include "tests/spell/spell.h"

static const spelling vjp_conv_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
