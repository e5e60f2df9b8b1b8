/* results.c - a fuzz target for results that zt-bench compares: its own, and the JSON of llama-bench and hyperfine. Any bytes are
 * refused with one line, or each result has a test, a unit and finite samples.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "tools/zt-bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    bench_list list;
    if (!ctx) return 0;
    zt_status status = bench_read_text(ctx, "fuzz", (const char *)bytes, count, &list);
    must(status == zt_ctx_status(ctx) && (status == ZT_OK || status == ZT_EDATA));
    must(status == ZT_OK ? list.first != NULL : *zt_ctx_error(ctx) && !strchr(zt_ctx_error(ctx), '\n'));
    for (const bench_result *result = list.first; result && status == ZT_OK; result = result->next) {
        must(*result->unit && result->test && result->count >= 1);
        for (int64_t i = 0; i < result->count; i++) must(isfinite(result->samples[i]));
    }
    bench_list_free(ctx, &list);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
