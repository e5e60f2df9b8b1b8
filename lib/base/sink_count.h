/* sink_count.h - sinks of other kinds: one that keeps nothing and counts what it is given, for how
 * large an output would be, and one whose target is what is read.
 *
 *     zt_sink *sink = zt_sink_count(ctx);
 *     zt_sink_write(sink, bytes, size);
 *     zt_sink_counted(sink);  // size
 *     zt_sink_close(sink);
 */
#ifndef ZT_SINK_COUNT_H
#define ZT_SINK_COUNT_H

#include "lib/base/base.h"

zt_sink *zt_sink_count(zt_ctx *ctx);           /* NULL: no memory; it is not committed */
uint64_t zt_sink_counted(const zt_sink *sink); /* bytes so far */

/* As zt_sink_open with force, and also over an open source, which goes on reading the old file. */
zt_sink *zt_sink_open_in_place(zt_ctx *ctx, const char *path);

#endif
