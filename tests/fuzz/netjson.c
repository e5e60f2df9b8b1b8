/* netjson.c - a fuzz target for the reader of network JSON and for its writer's frames: any
 * bytes are refused, or read without harm, in 64 MiB of memory beyond their own.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/io/netjson.h"

#include <string.h>

#include "tests/common/read_arrays.h"

IO_KIND(netjson)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* A network's frame with all weights as another type: again a frame, of the same tensors. */
static void reframe(const uint8_t *bytes, size_t total)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_source *in = zt_source_memory(ctx, "network", bytes, total);
    zt_netjson *j = in ? zt_netjson_from(ctx, in) : NULL, *again = NULL;
    int64_t count = j ? zt_netjson_count(j) : 0;
    zt_net_weights *to = zt_alloc_array(ctx, (size_t)count + 1, sizeof *to);
    zt_str frame;
    zt_str_init(&frame, ctx);
    for (int64_t i = 0; i < count; i++)
        to[i] = (zt_net_weights){(zt_storage)(total % ZT_STORE_COUNT), true, (zt_storage_rule)(total / 7 % 2), 0.1f};
    zt_status st = j ? zt_netjson_reframe(j, to, &frame) : ZT_ENOTSUP;
    if (st == ZT_OK) again = zt_netjson_from_frame(ctx, frame.data, frame.len);
    if ((st != ZT_OK && st != ZT_ENOTSUP) || (st == ZT_OK && !again)) abort();
    for (int64_t i = 0; again && i < count; i++)
        if (zt_netjson_weights(again, i).type != to[i].type || zt_netjson_weights(again, i).scale != to[i].scale ||
            strcmp(zt_netjson_get(again, i)->name, zt_netjson_get(j, i)->name) != 0)
            abort();
    zt_str_fini(&frame);
    zt_free(ctx, to);
    zt_netjson_close(again);
    zt_netjson_close(j);
    zt_source_close(in);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    bool sound = true;
    io_most = 1 << 20;
    zt_status st = io_try(&io_netjson, bytes, count, count + (64 << 20), &sound);
    if (!sound || (st != ZT_OK && st != ZT_EDATA)) abort(); /* an unsound file was opened, or a sound answer is missing */
    reframe(bytes, count);
    zt_ctx *ctx = zt_ctx_new();
    zt_netjson_writer *w = zt_netjson_writer_new(ctx, NULL, (const char *)bytes, count);
    st = zt_ctx_status(ctx);
    zt_netjson_writer_free(w);
    if (!w != (st == ZT_EDATA) || zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    return 0;
}
