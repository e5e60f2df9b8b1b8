/* device_memory.c - size classes, counts and the limit of device memory. */
#include "lib/engine/device_memory.h"

enum { SMALLEST = 4096 };

int zt_size_class(size_t bytes, int class_count)
{
    int size_class = 0;
    while (size_class < class_count && zt_size_class_bytes(size_class) < bytes) size_class++;
    return size_class < class_count ? size_class : -1;
}

size_t zt_size_class_bytes(int size_class) { return (size_t)SMALLEST << size_class; }

bool zt_exceeds_limit(const zt_ctx *ctx, size_t bytes)
{
    zt_mem usage = zt_mem_get(ctx);
    return usage.limit && (usage.held > usage.limit || bytes > usage.limit - usage.held);
}

void zt_count_held(zt_engine_report *report, size_t made, size_t freed)
{
    report->held += made - freed;
    report->allocated += made;
    if (report->held > report->peak) report->peak = report->held;
}

void zt_count_pooled(zt_engine_report *report, size_t bytes)
{
    report->pooled++;
    report->pooled_bytes += bytes;
}

void zt_count_unpooled(zt_engine_report *report, size_t bytes)
{
    report->pooled--;
    report->pooled_bytes -= bytes;
}
