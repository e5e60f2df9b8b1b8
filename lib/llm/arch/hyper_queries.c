/* hyper_queries.c - what is done to queries beside rope: their growth with the position, norms without weights. Key names are facts
 * from llama.cpp (src/llama-arch.cpp); attention.use_qk_norm, whether there are such norms, is zt's own. */
#include "lib/llm/arch/hyper_internal.h"

enum { NO_UNIT_NORMS = 128 }; /* experts of the Llama 4 that has no such norms */

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
    zt_gguf_i64(reader->gguf, zt_hyper_key(reader, "attention.use_qk_norm"), &normed);
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
