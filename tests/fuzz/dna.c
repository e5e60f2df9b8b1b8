/* dna.c - a fuzz target for lib/dna: networks, checkpoints and signatures of any bytes are
 * refused, or told, compared with themselves, and mixed with themselves without harm, in 64 MiB of
 * memory beyond their own. `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/dna/dna.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MOST = 1 << 18 }; /* numbers in all that are looked at */

static zt_dna *open_bytes(zt_ctx *ctx, const uint8_t *bytes, size_t count, zt_storage_rule rule)
{
    zt_source *in = zt_source_memory(ctx, "bytes", bytes, count);
    if (!in || !zt_dna_sniff(bytes, count)) return zt_dna_of(ctx, in ? zt_checkpoint_take(ctx, in) : NULL, rule);
    zt_dna *d = zt_dna_of_json(ctx, in);
    zt_source_close(in);
    return d;
}

static bool is_small(const zt_dna *dna)
{
    int64_t all = 0;
    for (int64_t i = 0; i < zt_dna_count(dna); i++) {
        if (zt_dna_get(dna, i)->count < 0 || zt_dna_get(dna, i)->count > MOST) return false;
        all += zt_dna_get(dna, i)->count;
    }
    return all <= MOST && zt_dna_count(dna) < 256;
}

/* What a layer is can be asked of all; a signature of each. */
static void sign_all(zt_ctx *ctx, zt_dna *dna)
{
    for (int64_t i = 0; i < zt_dna_count(dna); i++) {
        float *x = zt_alloc_array(ctx, (size_t)zt_dna_get(dna, i)->count + 1, sizeof *x);
        if (!zt_dna_get(dna, i)->name || !zt_dna_get(dna, i)->type || !zt_dna_get(dna, i)->dtype) abort();
        if (x && zt_dna_get(dna, i)->count > 0) (void)zt_dna_sign(dna, i, x, NULL);
        zt_free(ctx, x);
    }
}

static void pair(zt_ctx *ctx, zt_dna *a, zt_dna *b)
{
    zt_dna_compare_opts how = {.threads = 1, .ranks = true, .shifts = true};
    zt_splice_opts splice = {.mode = ZT_SPLICE_UNIFORM};
    zt_dna_verdict v;
    (void)zt_dna_compare(a, b, &how, &v);
    zt_dna_verdict_free(&v);
    zt_dna *child = zt_dna_splice(a, b, &splice, &how);
    if (child) sign_all(ctx, child);
    zt_dna_close(child);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    for (int rule = 0; rule < 2; rule++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_mem_limit(ctx, count + (64 << 20));
        zt_dna *a = open_bytes(ctx, bytes, count, (zt_storage_rule)rule);
        if (!a && zt_ctx_status(ctx) == ZT_OK) abort(); /* refused without a word */
        if (a && is_small(a)) {
            sign_all(ctx, a);
            zt_dna *b = open_bytes(ctx, bytes, count, (zt_storage_rule)rule);
            if (b) pair(ctx, a, b);
            zt_dna_close(b);
        }
        zt_dna_close(a);
        if (zt_mem_get(ctx).blocks) abort();
        zt_ctx_free(ctx);
    }
    return 0;
}
