/* durable.h - outputs that need not survive a power failure: many small files that can be made again. */
#ifndef ZT_DURABLE_H
#define ZT_DURABLE_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* durable false: from now on zt_sink_commit renames a file without waiting until it is on the disk. The file is still whole or
 * absent after the process is killed, at any moment; after a power failure it may be empty. Initially true. */
void zt_ctx_durable(zt_ctx *ctx, bool durable);

#ifdef __cplusplus
}
#endif
#endif
