/* directory.c - a fuzz target for Hugging Face directories, of quantized models above all: config.json and model.safetensors
 * (pair.h) are refused with one line, or every tensor of the model can be read, in 64 MiB.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/llm/llm.h"

#include "tests/fuzz/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MOST_BYTES = 4 << 20 };

static bool is_refusal(zt_status status)
{
    return status == ZT_EDATA || status == ZT_ENOTSUP || status == ZT_ENOENT || status == ZT_ENOMEM;
}

/* Reads the tensors, those that are not too long, in pieces of an odd length. */
static void read_tensors(zt_ctx *ctx, zt_gguf *gguf)
{
    enum { PIECE = 4999 };
    char piece[PIECE];
    zt_store store = zt_gguf_store(gguf);
    size_t all = 0;
    for (int64_t i = 0; i < zt_gguf_n_tensors(gguf) && zt_ctx_status(ctx) == ZT_OK; i++) {
        zt_type type;
        size_t size;
        int64_t handle;
        const char *name = zt_gguf_tensor(gguf, i, &type, NULL, &size);
        if (store.find(store.user, name, &type, &handle) != ZT_OK || (all += size) > MOST_BYTES) break;
        for (size_t at = 0; at < size; at += PIECE)
            if (store.read(store.user, handle, at, piece, size - at < PIECE ? size - at : PIECE) != ZT_OK) break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_mem_limit(ctx, count + (64 << 20));
    pair_write("config.json", "model.safetensors", bytes, count);
    zt_gguf *gguf = zt_model_open(ctx, pair_directory);
    if (!gguf && !is_refusal(zt_ctx_status(ctx))) abort();
    if (gguf) read_tensors(ctx, gguf);
    if (zt_ctx_status(ctx) != ZT_OK && !is_refusal(zt_ctx_status(ctx))) abort();
    if (strchr(zt_ctx_error(ctx), '\n')) abort();
    zt_gguf_close(gguf);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    return 0;
}
