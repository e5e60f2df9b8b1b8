/* copy.h - private to lib/train: ops of a program copied behind another's declarations. */
#ifndef ZT_TRAIN_COPY_H
#define ZT_TRAIN_COPY_H

#include "lib/prog/prog.h"

/* All ops of `from`, in order. map[v], for every value of from: its number in `to`, given for
 * declarations, filled in for what ops make. */
zt_status zt_train_copy_ops(zt_ctx *ctx, const zt_prog *from, zt_prog *to, int *map);

#endif
