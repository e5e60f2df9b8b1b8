/* gguf.c - a fuzz target for the GGUF reader: any bytes are refused, or read without harm.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "tests/fuzz/mutate_gguf.h"
#include "tests/fuzz/result.h"
#include "tests/io/read_gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_mem_limit(ctx, 16 * count + (64 << 20));
    zt_source *source = zt_source_memory(ctx, "fuzz", bytes, count);
    zt_gguf *gguf = zt_gguf_from(ctx, source);
    if (gguf ? !gguf_walk(gguf) : zt_ctx_status(ctx) == ZT_OK || zt_ctx_status(ctx) == ZT_ENOMEM)
        abort(); /* an unsound file was opened, or a sound answer is missing */
    note_result(bytes, count, gguf ? "" : zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    zt_source_close(source);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed)
{
    mutant m = {bytes, size, most, seed};
    return draw(&m, 2) && mutate_gguf(&m) ? m.size : LLVMFuzzerMutate(bytes, size, most);
}
