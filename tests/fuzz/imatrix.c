/* imatrix.c - a fuzz target for importance matrices, GGUF or the older form: any bytes are refused with one line, or they are
 * entries of which each mean is a finite number from 0 on, and which are written in both forms.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/io/imatrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MOST_VALUES = 1 << 16 };

static void must(bool good)
{
    if (!good) abort();
}

static void walk(zt_imatrix *imatrix)
{
    for (int64_t i = 0; i < zt_imatrix_count(imatrix); i++) {
        zt_imatrix_entry entry = zt_imatrix_get(imatrix, i);
        must(entry.name && entry.matrices >= 1 && entry.columns >= 1);
        must(zt_imatrix_find(imatrix, entry.name, entry.matrices - 1, entry.columns) != NULL);
        must(zt_imatrix_find(imatrix, entry.name, entry.matrices, entry.columns) == NULL);
        for (int64_t k = 0; k < entry.matrices * entry.columns && k < MOST_VALUES; k++)
            must(entry.mean[k] >= 0 && !isnan(entry.mean[k]));
    }
}

static void write_both(zt_ctx *ctx, const zt_imatrix *imatrix)
{
    for (int form = 0; form < 2; form++) {
        zt_sink *sink = zt_sink_open(ctx, "/dev/null", true);
        if (sink && (form ? zt_imatrix_write_dat(imatrix, sink) : zt_imatrix_write(imatrix, sink)) == ZT_OK) zt_sink_commit(sink);
        zt_sink_close(sink);
        must(zt_ctx_status(ctx) != ZT_EBUG);
        zt_ctx_clear(ctx);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_mem_limit(ctx, 16 * count + (64 << 20));
    zt_source *source = zt_source_memory(ctx, "fuzz", bytes, count);
    zt_imatrix *imatrix = zt_imatrix_from(ctx, source);
    zt_status status = zt_ctx_status(ctx);
    must(imatrix ? status == ZT_OK : status == ZT_EDATA || status == ZT_ENOTSUP || status == ZT_ENOMEM);
    must(!strchr(zt_ctx_error(ctx), '\n'));
    if (imatrix) {
        bool has;
        walk(imatrix);
        write_both(ctx, imatrix);
        if (zt_imatrix_count(imatrix)) zt_imatrix_fit(imatrix, zt_imatrix_get(imatrix, 0).name, 2, 3, &has);
        zt_ctx_clear(ctx);
        walk(imatrix);
    }
    zt_imatrix_close(imatrix);
    zt_source_close(source);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
