/* hyper_biases.c - positions as biases of attention, linear ones (ALiBi) or learned, and the limit of q, k and v. Key names are facts from llama.cpp
 * (src/llama-arch.cpp). */
#include "lib/llm/arch/hyper_internal.h"

#include <math.h>
#include <string.h>

enum { MAX_ALIBI = 1024, MAX_BUCKETS = 256 };

void zt_hyper_read_biases(zt_key_reader *reader, zt_hyper *hyper)
{
    const zt_arch *arch = reader->arch;
    hyper->qkv_clamp = zt_hyper_real(reader, "attention.clamp_kqv", 0, 0);
    if (arch->parts & ZT_PART_RELATIVE) {
        hyper->buckets = zt_hyper_count(reader, "attention.relative_buckets_count", 0, MAX_BUCKETS);
        zt_hyper_require(reader, hyper->buckets % 4 == 0, "attention.relative_buckets_count is not a multiple of 4",
                         hyper->buckets, 4);
    }
    if (arch->alibi_layers && arch->alibi_layers != hyper->n_layers) return;
    hyper->alibi = arch->alibi_named ? zt_hyper_real(reader, "attention.max_alibi_bias", NAN, 0) : arch->alibi;
    if (arch->alibi_named && hyper->alibi == 0 && reader->status == ZT_OK)
        reader->status = zt_fail(reader->ctx, ZT_ENOTSUP, "%s: %s models without linear biases (ALiBi) are not supported",
                                 zt_gguf_name(reader->gguf), arch->name);
    zt_hyper_require(reader, hyper->alibi <= MAX_ALIBI, "attention.max_alibi_bias is too large",
                     (int64_t)fmin(hyper->alibi, 1e18), MAX_ALIBI);
    if (hyper->alibi > 0) memset(hyper->rotated, 0, sizeof hyper->rotated);
}
