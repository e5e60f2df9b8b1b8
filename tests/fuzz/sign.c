/* sign.c - a fuzz target for signatures. The first byte chooses: a bundle, of which the payload is read whoever signed it, or a
 * statement alone. What is accepted is written again, and that reads the same.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/sign/internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void compare_files(const zt_manifest *one, const zt_manifest *two)
{
    if (one->count != two->count || one->symlinks != two->symlinks || strcmp(one->name, two->name) != 0) abort();
    for (size_t i = 0; i < one->count; i++)
        if (strcmp(one->files[i].path, two->files[i].path) != 0 ||
            memcmp(one->files[i].digest, two->files[i].digest, ZT_DIGEST_BYTES) != 0)
            abort();
}

static void read_statement(zt_ctx *ctx, const char *text, size_t size)
{
    zt_manifest manifest, again;
    zt_str written;
    zt_str_init(&written, ctx);
    if (zt_manifest_init(ctx, &manifest) || zt_manifest_init(ctx, &again)) abort();
    if (zt_statement_read(&manifest, "statement", text, size) == ZT_OK) {
        if (zt_statement_write(&manifest, &written) || zt_statement_read(&again, "written", written.data, written.len)) abort();
        compare_files(&manifest, &again);
    } else if (!zt_ctx_error(ctx)[0] || strchr(zt_ctx_error(ctx), '\n')) {
        abort();
    }
    zt_str_fini(&written);
    zt_manifest_fini(&manifest);
    zt_manifest_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count == 0) return 0;
    zt_ctx *ctx = zt_ctx_new();
    zt_bundle bundle = {0};
    char *text = malloc(count); /* a byte beyond the text is found */
    if (!ctx || !text) abort();
    memcpy(text, bytes + 1, count - 1);
    if (bytes[0] == 's')
        read_statement(ctx, text, count - 1);
    else if (zt_bundle_read(ctx, &bundle, "bundle", text, count - 1) == ZT_OK)
        read_statement(ctx, bundle.payload.bytes, bundle.payload.size);
    else if (!zt_ctx_error(ctx)[0] || strchr(zt_ctx_error(ctx), '\n'))
        abort();
    zt_bundle_fini(ctx, &bundle);
    if (zt_mem_get(ctx).blocks) abort();
    free(text);
    zt_ctx_free(ctx);
    return 0;
}
