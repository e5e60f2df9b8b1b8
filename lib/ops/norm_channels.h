/* norm_channels.h - private to lib/ops: what batch_norm's and group_norm's gradients have for
 * gradients. */
#ifndef ZT_OPS_NORM_CHANNELS_H
#define ZT_OPS_NORM_CHANNELS_H

#include "lib/ops/vjp.h"

/* groups 0: batch norm's, of each channel over the batch; else of a sample's groups of channels. */

/* Adds to v->dx[0] what x gets by mean and rstd, outputs 1 and 2 of v's op. */
void zt_norm_stats_vjp(zt_vjp *v, int64_t groups);
/* Of batch_norm_backward and group_norm_backward; training: dx hangs on the sums of a set. */
void zt_norm_backward_vjp(zt_vjp *v, int64_t groups, bool training);

#endif
