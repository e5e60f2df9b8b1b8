/* netdata.c - a fuzz target for networks whose weights are in another file: the JSON and the safetensors file that its member
 * zt.data names, net.safetensors (pair.h), are refused with one line, or every tensor can be read, in 64 MiB.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/io/netjson.h"

#include "tests/fuzz/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void read_tensors(zt_netjson *net)
{
    enum { PIECE = 1021 };
    char piece[PIECE];
    for (int64_t i = 0; i < zt_netjson_count(net); i++) {
        size_t size = zt_type_bytes(&zt_netjson_get(net, i)->type);
        for (size_t at = 0; at < size; at += PIECE)
            if (zt_netjson_read(net, i, at, piece, size - at < PIECE ? size - at : PIECE) != ZT_OK) return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_mem_limit(ctx, count + (64 << 20));
    pair_write("net.json", "net.safetensors", bytes, count);
    zt_netjson *net = zt_netjson_open(ctx, pair_path("net.json"));
    zt_status status = zt_ctx_status(ctx);
    if (!net && status != ZT_EDATA && status != ZT_ENOTSUP && status != ZT_ENOENT && status != ZT_ENOMEM) abort();
    if (net) read_tensors(net);
    if (strchr(zt_ctx_error(ctx), '\n')) abort();
    zt_netjson_close(net);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    return 0;
}
