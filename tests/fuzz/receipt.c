/* receipt.c - a fuzz target for receipts of zt-run: any bytes are refused with one line, or they are a receipt whose settings
 * are in range and whose chain has a link for every part of the tokens.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "tools/zt-run/receipt.h"

#include "tests/fuzz/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

static void check_record(const receipt_record *record)
{
    must(record->head && record->chain && record->stops && record->stop && record->isa);
    must(record->prompt.count > 0 && record->every > 0);
    must(record->link_count * (size_t)record->every >= record->tokens.count);
    must(record->options.context_tokens > 0 && record->options.new_tokens >= -1);
    for (int i = 0; i < record->options.stop_texts.n; i++) must(*record->stops[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    run_options options = {0};
    run_state run = {.ctx = ctx, .options = &options};
    receipt_record record;
    zt_mem_limit(ctx, 16 * count + (16 << 20));
    pair_put_only("receipt.json", bytes, count);
    zt_status status = receipt_read(&run, pair_path("receipt.json"), &record);
    must(status == zt_ctx_status(ctx) && (status == ZT_OK || status == ZT_EDATA || status == ZT_ENOTSUP || status == ZT_ENOMEM));
    must(!strchr(zt_ctx_error(ctx), '\n'));
    if (status == ZT_OK) check_record(&record);
    receipt_record_free(ctx, &record);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
