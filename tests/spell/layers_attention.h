/* layers_attention.h - how the ops of golden/layers are spelled in
 * zt: attention layers and the LLaMA block. */
#ifndef ZT_SPELL_LAYERS_ATTENTION_H
#define ZT_SPELL_LAYERS_ATTENTION_H

#include "tests/spell/spell.h"

static const spelling layers_attention_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
