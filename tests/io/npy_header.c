/* npy_header.c - .npy headers that zt writes, read back by the tests' own reader. */
#include "tests/common/npy.h"
#include "tests/common/tap.h"

#include "lib/zt/all.h"
#include <unistd.h>

/* Write zeros of a type; NULL-closed header text of the file into `head`, its size back. */
static size_t written(zt_ctx *ctx, const zt_type *type, char head[256])
{
    char path[] = "/tmp/zt-npy-XXXXXX";
    int fd = mkstemp(path);
    zt_sink *out = fd < 0 ? NULL : zt_sink_open(ctx, path, true);
    size_t bytes = zt_type_bytes(type), n = 0;
    void *zeros = calloc(bytes + 1, 1);
    bool good = out && zt_npy_write_header(out, ctx, type) == ZT_OK && zt_sink_write(out, zeros, bytes) == ZT_OK &&
                zt_sink_commit(out) == ZT_OK;
    zt_sink_close(out);
    char *file = good ? npy_file(path, &n) : NULL;
    if (file) snprintf(head, 256, "%.*s", n > 10 ? (int)(n - 10 < 200 ? n - 10 : 200) : 0, file + 10);
    free(file);
    free(zeros);
    if (fd >= 0) close(fd);
    unlink(path);
    return n;
}

int main(void)
{
    static const struct {
        zt_dtype dtype;
        int rank;
        int64_t dim[3];
        const char *says;
    } row[] = {
        {ZT_F32, 2, {3, 5}, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }"},
        {ZT_F64, 1, {4}, "{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }"},
        {ZT_I8, 0, {0}, "{'descr': '|i1', 'fortran_order': False, 'shape': (), }"},
        {ZT_I32, 3, {2, 0, 7}, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 0, 7), }"},
        {ZT_F16, 2, {1, 12345}, "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 12345), }"},
    };
    zt_ctx *ctx = zt_ctx_new();
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char head[256] = "";
        zt_type type = zt_type_make(row[i].dtype, row[i].rank, row[i].dim);
        size_t size = written(ctx, &type, head), begin = size - zt_type_bytes(&type);
        ok(size > 0 && begin % 64 == 0 && strncmp(head, row[i].says, strlen(row[i].says)) == 0, "%s", row[i].says);
    }
    for (int k = 0; k < 2; k++) {
        char head[256];
        zt_type type = zt_type_make(k ? ZT_Q4_K : ZT_BF16, 1, (int64_t[]){256});
        size_t size = written(ctx, &type, head);
        ok(size == 0 && zt_ctx_status(ctx) == ZT_ENOTSUP, "refused: %s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
