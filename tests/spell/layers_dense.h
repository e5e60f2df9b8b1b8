/* layers_dense.h - how the ops of golden/layers are spelled in
 * zt: dense layers, norms, embedding, the MLP. */
#ifndef ZT_SPELL_LAYERS_DENSE_H
#define ZT_SPELL_LAYERS_DENSE_H

#include "tests/spell/spell.h"

static const spelling layers_dense_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
