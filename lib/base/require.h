/* require.h - the arguments of public functions: wrong use is an error, never a signal.
 *
 *     zt_status zt_source_read(const zt_source *s, uint64_t offset, void *dst, size_t n)
 *     {
 *         if (!s)
 *             return ZT_EUSAGE;                     no context at hand: the status alone
 *         ZT_REQUIRE(s->ctx, dst || !n, ZT_EUSAGE);
 *
 * leaves "zt_source_read: invalid argument (required: dst || !n)" in the context. Internal functions
 * check nothing: who calls them has been checked.
 */
#ifndef ZT_REQUIRE_H
#define ZT_REQUIRE_H

#include "lib/base/base.h"

/* Unless `condition` holds: ZT_EUSAGE in the context (NULL: no message), and returns `result`, which is
 * empty in a function that returns nothing. */
#define ZT_REQUIRE(ctx, condition, result)                                                                                       \
    do {                                                                                                                         \
        if (__builtin_expect(!(condition), 0)) {                                                                                 \
            zt_fail(ctx, ZT_EUSAGE, "%s: invalid argument (required: %s)", __func__, #condition);                                \
            return result;                                                                                                       \
        }                                                                                                                        \
    } while (0)

#endif
