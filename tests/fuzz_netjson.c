/* fuzz_netjson.c - a fuzz target for the reader of network JSON and for its writer's frames: any
 * bytes are refused, or read without harm, in 64 MiB of memory beyond their own.
 * `make fuzz` drives it by libFuzzer, tests/fuzz_main.c without. */
#include "lib/io/netjson.h"

#include "tests/io_walk.h"

IO_KIND(netjson)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    bool sound = true;
    io_most = 1 << 20;
    zt_status st = io_try(&io_netjson, bytes, n, n + (64 << 20), &sound);
    if (!sound || (st != ZT_OK && st != ZT_EDATA))
        abort(); /* an unsound file was opened, or a sound answer is missing */
    zt_ctx *ctx = zt_ctx_new();
    zt_netjson_writer *w = zt_netjson_writer_new(ctx, NULL, (const char *)bytes, n);
    st = zt_ctx_status(ctx);
    zt_netjson_writer_free(w);
    if (!w != (st == ZT_EDATA) || zt_mem_get(ctx).blocks)
        abort();
    zt_ctx_free(ctx);
    return 0;
}
