/* data.c - a fuzz target for DATA of zt-train: any bytes as a file, which is text or a container of arrays, are refused with one line,
 * or they are rows of one width with finite memory. The first byte says whether a row ends with a label.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "tools/zt-train/train_tool.h"

#include "tests/fuzz/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

static void check_samples(const zt_samples *samples)
{
    must(samples->field_count >= 1 && samples->rows >= 1);
    for (int i = 0; i < samples->field_count; i++)
        must(samples->fields[i].data.len == (size_t)samples->rows * samples->fields[i].bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static train_options options;
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx || count == 0) {
        zt_ctx_free(ctx);
        return 0;
    }
    zt_mem_limit(ctx, 16 * count + (64 << 20));
    pair_put_only("data", bytes + 1, count - 1);
    zt_cli cli = {.ctx = ctx};
    zt_prog *program = NULL;
    options = (train_options){.input = pair_path("data"), .labels = bytes[0] & 1, .scale = 1};
    zt_samples *samples = train_data_rows(&cli, &options, &program);
    zt_status status = zt_ctx_status(ctx);
    must(samples ? status == ZT_OK : status == ZT_EDATA || status == ZT_ENOTSUP || status == ZT_ENOMEM || status == ZT_ESHAPE);
    must(!strchr(zt_ctx_error(ctx), '\n'));
    if (samples) check_samples(samples);
    zt_samples_free(samples);
    zt_prog_free(program);
    train_data_done(ctx);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
