/* cuda_prefill_rows.h - for tests of products on cuda whose rows have the same bits by the kernels of few
 * rows and of many: some rows of one product, and which kernels the emulation has launched. */
#ifndef ZT_TEST_CUDA_PREFILL_ROWS_H
#define ZT_TEST_CUDA_PREFILL_ROWS_H

#include "tests/common/one_op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A linear_add: more [rows,M] + x [rows,K] w^T + bias [M]. */
typedef struct manyrows {
    const char *act;
    zt_dtype t; /* of w [M,K]; all else is f32 */
    int64_t K, M;
    float *x, *more, *bias;
    void *w;
} manyrows;

/* Its rows from .. from + count - 1, to `to` [count,M]; false after a line that says why not. */
static inline bool manyrows_made(zt_engine *engine, const manyrows *p, int64_t from, int64_t count, float *to)
{
    zt_linear_add_attrs attrs = {0};
    snprintf(attrs.act.s, sizeof attrs.act.s, "%s", p->act);
    zt_type in[4] = {{.dtype = ZT_F32, .rank = 2, .dim = {count, p->K}},
                     {.dtype = p->t, .rank = 2, .dim = {p->M, p->K}},
                     {.dtype = ZT_F32, .rank = 2, .dim = {count, p->M}},
                     {.dtype = ZT_F32, .rank = 1, .dim = {p->M}}};
    oneop call = {.op = ZT_OP_linear_add,
                  .attrs = &attrs,
                  .data = {p->x + from * p->K, p->w, p->more + from * p->M, p->bias},
                  .result = {to}};
    for (int i = 0; i < 4; i++) call.in[i] = &in[i];
    return oneop_made(engine, &call);
}

/* Is a launch of this kernel in the emulation's list, which ZT_CUDA_EMU_LAUNCHES names? */
static inline bool was_launched(const char *kernel)
{
    const char *list = getenv("ZT_CUDA_EMU_LAUNCHES");
    char line[128];
    bool found = false;
    FILE *file = list ? fopen(list, "r") : NULL;
    while (file && !found && fgets(line, sizeof line, file))
        found = !strncmp(line, kernel, strlen(kernel)) && line[strlen(kernel)] == ' ';
    if (file) fclose(file);
    return found;
}

#endif
