/* vjp_attention.h - how the ops of golden/ops/vjp are spelled in
 * zt: attention and the fused ops beside it. */
#ifndef ZT_SPELL_VJP_ATTENTION_H
#define ZT_SPELL_VJP_ATTENTION_H

#include "tests/spell/spell.h"

static const spelling vjp_attention_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
