/* layers_recurrent.h - how the ops of golden/layers are spelled in zt: recurrent layers. */
#ifndef ZT_SPELL_LAYERS_RECURRENT_H
#define ZT_SPELL_LAYERS_RECURRENT_H

#include "tests/spell/spell.h"

static const spelling layers_recurrent_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
