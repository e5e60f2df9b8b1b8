/* sink_count.h - a sink that keeps nothing and counts what it is given: how large an output would be.
 *
 *     zt_sink *s = zt_sink_count(ctx);
 *     zt_sink_write(s, bytes, n);
 *     zt_sink_counted(s);                                       // n
 *     zt_sink_close(s);
 */
#ifndef ZT_SINK_COUNT_H
#define ZT_SINK_COUNT_H

#include "lib/base/base.h"

zt_sink *zt_sink_count(zt_ctx *ctx); /* NULL: no memory; it is not committed */
uint64_t zt_sink_counted(const zt_sink *s); /* bytes so far */

#endif
