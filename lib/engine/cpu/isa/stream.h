/* stream.h - private to isa/: large outputs are stored past the caches (vf_stream). An ordinary store first reads its
 * line, which costs a third of the bandwidth of a copy, and evicts what the next op reads. The engine waits for such stores after every part of a call (replay.c).
 */
#ifndef ZT_CPU_STREAM_H
#define ZT_CPU_STREAM_H

#include "lib/engine/cpu/isa/simd.h"

enum { BEYOND_CACHES = 32 << 20 }; /* bytes from which an output does not fit the caches */

INLINE bool beyond_caches(const zt_type *type) { return zt_type_bytes(type) >= BEYOND_CACHES; }

/* Does a cache line begin here? */
INLINE bool on_line(const void *p) { return (uintptr_t)p % 64 == 0; }

/* Sixteen floats, past the caches (then y is on a line) or not. */
INLINE void vf_put(float *y, vf value, bool past_caches)
{
    if (past_caches)
        vf_stream(y, value);
    else
        vf_store(y, value);
}

enum { AHEAD = 2048 };

/* For what is read in order while such an output is written: the processor prefetches no further than to the end of a
 * page, where each store behind a line that is missing waits too. */
INLINE void fetch_ahead(const void *p) { __builtin_prefetch((const char *)p + AHEAD); }

/* n floats to where a line begins. */
INLINE void stream_copy(const float *x, float *y, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) vf_stream(y + i, vf_load(x + i));
    if (i < count) vf_store_n(y + i, (int)(count - i), vf_load_n(x + i, (int)(count - i)));
}

#endif
