/* hyper_queries.c - what is done to queries beside rope: their growth with the position, norms without weights, the indexer that
 * chooses keys for them. Key names are facts
 * from llama.cpp (src/llama-arch.cpp); attention.use_qk_norm, whether there are such norms, and rope.pair, which two columns of
 * a head rotate together (neighbours or halves), are zt's own. */
#include "lib/llm/arch/hyper_internal.h"

#include <stdio.h>
#include <string.h>

enum { NO_UNIT_NORMS = 128 }; /* experts of the Llama 4 that has no such norms */

void zt_hyper_read_pair(zt_key_reader *reader, zt_hyper *hyper)
{
    static const char *const words[] = {"neighbours", "halves"};
    zt_bytes word = {0};
    bool some = false;
    for (int64_t layer = 0; layer < hyper->n_layers; layer++) some = some || hyper->rotated[layer];
    if (!reader->arch->pair_named || !some) return;
    if (!zt_hyper_str(reader, "rope.pair", &word)) {
        /* llama.cpp's converter pairs the columns of whole heads, also where a part of them rotates */
        if (hyper->rope_dims != hyper->rope.head && reader->status == ZT_OK)
            reader->status = zt_fail(reader->ctx, ZT_ENOTSUP,
                                     "%s: %s models that rotate a part of each head are not supported without the key '%s'",
                                     zt_gguf_name(reader->gguf), reader->arch->name, reader->key);
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == word.n && memcmp(words[i], word.data, word.n) == 0) {
            snprintf(hyper->rope.pair.s, sizeof hyper->rope.pair.s, "%s", words[i]);
            return;
        }
    if (reader->status == ZT_OK)
        reader->status =
            zt_fail(reader->ctx, ZT_EDATA, "%s: %s is neither neighbours nor halves", zt_gguf_name(reader->gguf), reader->key);
}

/* The indexer rotates the first columns of its heads, as many as attention does. */
void zt_hyper_read_indexer(zt_key_reader *reader, zt_latent_sizes *latent, int64_t turned)
{
    latent->index_heads = zt_hyper_count(reader, "attention.indexer.head_count", 0, ZT_MAX_WIDTH);
    latent->index_head = zt_hyper_count(reader, "attention.indexer.key_length", 0, ZT_MAX_WIDTH);
    latent->index_topk = zt_hyper_count(reader, "attention.indexer.top_k", 0, INT32_MAX);
    latent->index_width = latent->index_heads * latent->index_head; /* below 2^48 */
    zt_hyper_require(reader, turned <= latent->index_head, "rope.dimension_count is above attention.indexer.key_length", turned,
                     latent->index_head);
    zt_hyper_require(reader, latent->index_width <= ZT_MAX_WIDTH, "heads of the indexer times their length is too large",
                     latent->index_heads, latent->index_head);
    zt_hyper_require(reader, latent->q_rank > 0,
                     "the indexer reads the latent of queries, but there is none: attention.q_lora_rank", latent->q_rank, 1);
}

static void read_growth(zt_key_reader *reader, zt_hyper *hyper)
{
    const zt_arch *arch = reader->arch;
    if (!arch->tempered) return;
    hyper->temperature = zt_hyper_real(reader, "attention.temperature_scale", arch->temperature, 0);
    hyper->temper_length = arch->temper_length > 0
                               ? zt_hyper_count(reader, "attention.temperature_length", arch->temper_length, INT32_MAX)
                               : hyper->ctx_orig;
}

static void read_unit_norms(zt_key_reader *reader, zt_hyper *hyper)
{
    int64_t normed = reader->arch->unit_norms && hyper->n_experts != NO_UNIT_NORMS;
    if (!reader->arch->unit_norms) return;
    zt_hyper_flag(reader, "attention.use_qk_norm", &normed);
    hyper->unit_norms = normed != 0;
    if (hyper->unit_norms)
        zt_hyper_require(reader, hyper->head <= hyper->width, "the head length is more than the width", hyper->head,
                         hyper->width);
}

void zt_hyper_read_queries(zt_key_reader *reader, zt_hyper *hyper)
{
    read_growth(reader, hyper);
    read_unit_norms(reader, hyper);
}
