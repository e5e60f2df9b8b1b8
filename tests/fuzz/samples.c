/* samples.c - a fuzz target for training data: any bytes as CSV and as NDJSON are refused with one line, or they are samples,
 * of which each input has as many.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/train/samples.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

/* Two numbers, a matrix and a class. */
static zt_prog *make_program(zt_ctx *ctx)
{
    zt_prog *program = zt_prog_new(ctx);
    int64_t n = program ? zt_prog_symbol(program, "n") : 0, x[2] = {n, 2}, m[3] = {n, 1, 2}, label[1] = {n};
    must(program && zt_prog_in(program, "x", ZT_F32, 2, x) >= 0 && zt_prog_in(program, "m", ZT_F64, 3, m) >= 0 &&
         zt_prog_in(program, "label", ZT_I32, 1, label) >= 0);
    return program;
}

static void read_samples(zt_ctx *ctx, const zt_prog *program, bool json, const char *text, size_t size)
{
    zt_samples *samples = zt_samples_new(ctx, program, NULL, 0);
    zt_batches batches;
    must(samples != NULL);
    zt_status status = (json ? zt_samples_ndjson : zt_samples_csv)(samples, "fuzz", text, size);
    if (status == ZT_OK) status = zt_samples_check(samples, "fuzz");
    must(status == ZT_OK || status == ZT_EDATA);
    must(status == zt_ctx_status(ctx) && !strchr(zt_ctx_error(ctx), '\n'));
    for (int i = 0; i < samples->field_count && status == ZT_OK; i++)
        must(samples->fields[i].data.len == (size_t)samples->rows * samples->fields[i].bytes);
    if (status == ZT_OK) must(zt_samples_batches(samples, &(zt_shuffle){.batch = 3, .shuffle = true}, &batches) == ZT_OK);
    zt_ctx_clear(ctx);
    zt_samples_free(samples);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_prog *program = make_program(ctx);
    read_samples(ctx, program, false, (const char *)bytes, n);
    read_samples(ctx, program, true, (const char *)bytes, n);
    zt_prog_free(program);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
