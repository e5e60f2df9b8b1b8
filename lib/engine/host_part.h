/* host_part.h - write_part and read_part of engines whose states are in host memory (engine.h). */
#ifndef ZT_HOST_PART_H
#define ZT_HOST_PART_H

#include "lib/engine/engine.h"

#include <string.h>

/* `host` to `bytes` of the state at `data`, from `offset` on; and back. */
static inline zt_status zt_host_write_part(void *data, size_t offset, size_t bytes, const void *host)
{
    if (bytes) memcpy((char *)data + offset, host, bytes);
    return ZT_OK;
}

static inline zt_status zt_host_read_part(const void *data, size_t offset, size_t bytes, void *host)
{
    if (bytes) memcpy(host, (const char *)data + offset, bytes);
    return ZT_OK;
}

#endif
