/* nn.c - a fuzz target for networks: any bytes are refused, or are a network that is lowered
 * to programs that bind or are refused, that learns, is saved and then opens again; in 64 MiB of
 * memory. `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
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
    zt_status status = out ? zt_nn_write(nn, out) : ZT_ENOMEM;
    if (!status) status = zt_sink_commit(out);
    zt_sink_close(out);
    zt_nn *again = status ? NULL : zt_nn_open(ctx, path(), 0);
    if (again ? zt_nn_n_weights(again) != zt_nn_n_weights(nn) : zt_ctx_status(ctx) != ZT_ENOMEM) {
        fprintf(stderr, "saved: %s\n", zt_ctx_error(ctx));
        abort();
    }
    zt_nn_close(again);
    remove(path());
}

/* Layer after layer, by a clock, with caches. */
static void lower(zt_ctx *ctx, const zt_nn *nn)
{
    static const zt_nn_options how[] = {{0}, {.cycles = 3}, {.cache = true}};
    for (int k = 0; k < 3; k++) {
        zt_prog *program = zt_nn_prog_as(nn, &how[k]);
        zt_binding by[] = {{"n", 3}, {"ctx", 5}};
        zt_bound *bound = program ? zt_prog_bind(program, by, zt_prog_n_symbols(program)) : NULL;
        if (!program && zt_ctx_status(ctx) == ZT_OK) abort();
        zt_bound_free(bound);
        zt_prog_free(program);
        zt_ctx_clear(ctx);
    }
}

/* What training makes of each weight. */
static void learn(zt_ctx *ctx, zt_nn *nn)
{
    zt_prog *program = zt_prog_new(ctx);
    for (int64_t i = 0; program && i < zt_nn_n_weights(nn) && i < 64; i++) {
        const zt_nn_weight *w = zt_nn_weight_at(nn, i);
        int v = zt_prog_in(program, w->name, ZT_F32, w->type.rank, w->type.dim);
        if (v >= 0 && zt_nn_through(nn, program, v, w->name) < 0 && zt_ctx_status(ctx) == ZT_OK) abort();
    }
    zt_prog_free(program);
    zt_ctx_clear(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_mem_limit(ctx, 64 << 20);
    zt_source *in = zt_source_memory(ctx, "network", bytes, count);
    zt_nn *nn = in ? zt_nn_from(ctx, in, 0) : NULL;
    if (!nn && zt_ctx_status(ctx) == ZT_OK) abort();
    zt_ctx_clear(ctx);
    if (nn) lower(ctx, nn);
    if (nn) learn(ctx, nn);
    if (nn) save(ctx, nn);
    zt_nn_close(nn);
    zt_source_close(in);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    return 0;
}
