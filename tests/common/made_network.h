/* made_network.h - for tests: networks of a few layers made of text, and run on drawn rows. */
#ifndef ZT_TEST_MADE_NETWORK_H
#define ZT_TEST_MADE_NETWORK_H

#include "lib/zt/all.h"

#include <stdlib.h>
#include <string.h>

#define MADE_FN __attribute__((unused)) static

MADE_FN zt_nn *open_text(zt_ctx *ctx, const char *text)
{
    zt_source *s = zt_source_memory(ctx, "net.json", text, strlen(text));
    zt_nn *nn = zt_nn_from(ctx, s, 1);
    zt_source_close(s);
    return nn;
}

#define GRID(n) "{\"depth\":1,\"rows\":1,\"cols\":1,\"layers_per_cell\":" #n ",\"layers\":["
#define DENSE(l, in, out)                                                                                                        \
    "{\"type\":\"Dense\",\"l\":" #l ",\"input_height\":" #in ",\"output_height\":" #out ",\"activation\":\"tanh\"}"
#define END "]}"

/* ---- running --------------------------------------------------------------------------------- */

/* y of a network on `rows` rows of drawn numbers, malloc'ed, *count of them; NULL: not run. */
MADE_FN float *run_as(zt_nn *nn, const char *engine, const zt_nn_options *how, int64_t rows, int64_t from, size_t *count)
{
    zt_ctx *ctx = zt_nn_ctx(nn);
    zt_engine *e = zt_engine_open(ctx, engine, NULL);
    zt_prog *program = zt_nn_prog_as(nn, how);
    zt_store store = zt_nn_store(nn);
    zt_binding binding = {"n", rows};
    zt_session *session = program && e ? zt_session_open(e, program, &store, &(zt_session_opts){0}) : NULL;
    zt_bound *bound = program ? zt_prog_bind(program, &binding, 1) : NULL;
    float *y = NULL;
    if (session && bound) {
        size_t nx = (size_t)zt_type_count(&bound->type[zt_prog_find(program, "x")]);
        float *x = malloc((nx + 1) * sizeof *x);
        for (size_t i = 0; i < nx; i++) x[i] = (float)zt_normal(7, 0, (uint64_t)from * (nx / (size_t)rows) + i);
        *count = (size_t)zt_type_count(&bound->type[zt_prog_output(program, 0)->value]);
        y = malloc((*count + 1) * sizeof *y);
        int64_t counter = 3;
        const void *inputs[] = {x, &counter};
        if (zt_session_step(session, &binding, 1, inputs, (void *const[]){y})) {
            free(y);
            y = NULL;
        }
        free(x);
    }
    zt_bound_free(bound);
    zt_session_close(session);
    zt_prog_free(program);
    zt_engine_close(e);
    return y;
}

MADE_FN float *run(zt_nn *nn, const char *engine, const zt_nn_shape *in, int64_t rows, int64_t from, size_t *n)
{
    return run_as(nn, engine, &(zt_nn_options){.input = in}, rows, from, n);
}

#endif
