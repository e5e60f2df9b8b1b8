/* adapter.c - a fuzz target for PEFT's adapters: adapter_config.json and adapter_model.safetensors (pair.h) are refused with
 * one line, or they are an adapter, in 64 MiB.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/dna/lora.h"

#include "tests/fuzz/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_mem_limit(ctx, count + (64 << 20));
    pair_write("adapter_config.json", "adapter_model.safetensors", bytes, count);
    zt_lora *adapter = zt_lora_open(ctx, pair_directory, NULL);
    zt_status status = zt_ctx_status(ctx);
    bool refused = status == ZT_EDATA || status == ZT_ENOTSUP || status == ZT_ENOENT || status == ZT_ENOMEM;
    if (adapter ? status != ZT_OK : !refused) abort();
    for (int i = 0; adapter && zt_lora_unknown(adapter, i); i++)
        if (!*zt_lora_unknown(adapter, i)) abort();
    if (strchr(zt_ctx_error(ctx), '\n')) abort();
    zt_lora_close(adapter);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    return 0;
}
