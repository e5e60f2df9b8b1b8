/* layers_conv.h - how the ops of golden/layers are spelled in zt: convolutional layers. */
#ifndef ZT_SPELL_LAYERS_CONV_H
#define ZT_SPELL_LAYERS_CONV_H

#include "tests/spell/spell.h"

static const spelling layers_conv_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
