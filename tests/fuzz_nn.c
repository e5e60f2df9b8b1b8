/* fuzz_nn.c - a fuzz target for networks: any bytes are refused, or are a network that is lowered
 * to a program that binds or is refused, that is saved and then opens again; in 64 MiB of memory.
 * `make fuzz` drives it by libFuzzer, tests/fuzz_main.c without. */
#include "lib/nn/nn.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *path(void)
{
    static char name[64];
    if (!*name) snprintf(name, sizeof name, "/tmp/zt-fuzz-nn-%ld.json", (long)getpid());
    return name;
}

/* What is saved must be a network of as many weights. */
static void save(zt_ctx *ctx, const zt_nn *nn)
{
    zt_sink *out = zt_sink_open(ctx, path(), true);
    zt_status s = out ? zt_nn_write(nn, out) : ZT_ENOMEM;
    if (!s) s = zt_sink_commit(out);
    zt_sink_close(out);
    zt_nn *again = s ? NULL : zt_nn_open(ctx, path(), 0);
    if (again ? zt_nn_n_weights(again) != zt_nn_n_weights(nn) : zt_ctx_status(ctx) != ZT_ENOMEM) {
        fprintf(stderr, "saved: %s\n", zt_ctx_error(ctx));
        abort();
    }
    zt_nn_close(again);
    remove(path());
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_mem_limit(ctx, 64 << 20);
    zt_source *in = zt_source_memory(ctx, "network", bytes, n);
    zt_nn *nn = in ? zt_nn_from(ctx, in, 0) : NULL;
    zt_prog *p = nn ? zt_nn_prog(nn, NULL) : NULL;
    zt_bound *b = p ? zt_prog_bind(p, &(zt_binding){"n", 3}, 1) : NULL;
    if (!nn && zt_ctx_status(ctx) == ZT_OK) abort();
    zt_bound_free(b);
    zt_prog_free(p);
    zt_ctx_clear(ctx);
    if (nn) save(ctx, nn);
    zt_nn_close(nn);
    zt_source_close(in);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    return 0;
}
