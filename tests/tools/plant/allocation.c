/* allocation.c - all tools, linked with --wrap=zt_ctx_new and --wrap=zt_ctx_free: one allocation of each context is refused.
 *
 *     ZT_REFUSE=17            the 17th; 17+: and all after it
 *     ZT_ALLOCATIONS=FILE     the most allocations that a context had, written at the end of each
 */
#include "lib/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

zt_ctx *__real_zt_ctx_new(void);
zt_ctx *__wrap_zt_ctx_new(void);
void __real_zt_ctx_free(zt_ctx *ctx);
void __wrap_zt_ctx_free(zt_ctx *ctx);

static FILE *counts;

static void open_counts(void)
{
    const char *path = getenv("ZT_ALLOCATIONS");
    if (path && !counts) counts = fopen(path, "we");
}

zt_ctx *__wrap_zt_ctx_new(void)
{
    zt_ctx *ctx = __real_zt_ctx_new();
    const char *nth = getenv("ZT_REFUSE");
    open_counts(); /* before a sandbox */
    if (ctx && nth) zt_mem_fail(ctx, strtoull(nth, NULL, 10), strchr(nth, '+') != NULL);
    return ctx;
}

void __wrap_zt_ctx_free(zt_ctx *ctx)
{
    static unsigned long long most;
    if (counts && ctx) {
        unsigned long long calls = zt_mem_get(ctx).calls;
        most = calls > most ? calls : most;
        rewind(counts);
        fprintf(counts, "%llu\n", most);
        fflush(counts);
    }
    __real_zt_ctx_free(ctx);
}
