/* device_memory.h - what the memory of engines with devices shares: size classes, counts and the limit.
 *
 * Small buffers come in size classes of 4 KiB, 8 KiB, 16 KiB ... A released one waits in the pool of its
 * class until a buffer of the class is asked for. Buffers above the largest class are made and freed one
 * by one. All of them count against the context's limit (base.h).
 */
#ifndef ZT_DEVICE_MEMORY_H
#define ZT_DEVICE_MEMORY_H

#include "lib/engine/engine.h"

/* The smallest of `class_count` classes whose buffers hold so many bytes; -1: too large for all. */
int zt_size_class(size_t bytes, int class_count);
size_t zt_size_class_bytes(int size_class);
/* Would `bytes` more exceed the context's limit? */
bool zt_exceeds_limit(const zt_ctx *ctx, size_t bytes);

/* Counts of a report: bytes that were made and freed, and a buffer that enters or leaves the pool. */
void zt_count_held(zt_engine_report *report, size_t made, size_t freed);
void zt_count_pooled(zt_engine_report *report, size_t bytes);
void zt_count_unpooled(zt_engine_report *report, size_t bytes);

#endif
