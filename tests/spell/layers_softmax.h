/* layers_softmax.h - how the ops of golden/layers are spelled in zt: softmax kinds. */
#ifndef ZT_SPELL_LAYERS_SOFTMAX_H
#define ZT_SPELL_LAYERS_SOFTMAX_H

#include "tests/spell/spell.h"

static const spelling layers_softmax_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
