/* loss.h - private to lib/ops: what rows of losses share. */
#ifndef ZT_LOSS_H
#define ZT_LOSS_H

#include "lib/ops/vjp.h"

zt_status zt_loss_reduction(zt_ctx *ctx, const zt_enum_string *reduction); /* mean, sum or none */
extern const zt_enum_string zt_loss_words[3];

#endif
