/* safetensors.c - a fuzz target for the safetensors reader: any bytes are refused, or read
 * without harm. Bytes that do not begin with a length are taken as the header alone, so that a
 * mutation need not keep the two in step.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "tests/fuzz/mutate_safetensors.h"
#include "tests/fuzz/result.h"
#include "tests/io/read_safetensors.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void read_file(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return;
    zt_mem_limit(ctx, 64 * count + (1 << 20));
    zt_source *in = zt_source_memory(ctx, "fuzz", bytes, count);
    zt_safetensors *safetensors = zt_safetensors_from(ctx, in);
    if (safetensors ? !st_walk(safetensors) : zt_ctx_status(ctx) != ZT_EDATA)
        abort(); /* an unsound file was opened, or a sound answer is missing */
    note_result(bytes, count, safetensors ? "" : zt_ctx_error(ctx));
    zt_safetensors_close(safetensors);
    zt_source_close(in);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
}

/* A header alone: the data that its largest offset asks for are put behind it, if they are few. */
static void read_header(const uint8_t *bytes, size_t count)
{
    enum { DATA = 64 };
    uint64_t len = count;
    uint8_t *file = calloc(1, 8 + count + DATA);
    if (!file) return;
    memcpy(file, &len, 8);
    memcpy(file + 8, bytes, count);
    const uint8_t *last = NULL; /* the text behind the last comma of data_offsets */
    for (size_t i = 0; i + 1 < count; i++)
        if (bytes[i] == ',' && bytes[i + 1] >= '0' && bytes[i + 1] <= '9') last = bytes + i + 1;
    size_t data = 0;
    for (; last && last < bytes + count && *last >= '0' && *last <= '9' && data < DATA; last++)
        data = 10 * data + (size_t)(*last - '0');
    read_file(file, 8 + count + (data < DATA ? data : DATA));
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n && bytes[0] == '{')
        read_header(bytes, n);
    else
        read_file(bytes, n);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed)
{
    mutant m = {bytes, size, most, seed};
    return draw(&m, 2) && mutate_safetensors(&m) ? m.size : LLVMFuzzerMutate(bytes, size, most);
}
