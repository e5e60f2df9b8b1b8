/* hf_head.c - heads of multi-token prediction in GLM-4.5, DeepSeek V3 and models like it, read and written: layers behind the last, which
 * config.json counts apart. Those of gated delta nets have other names: hf_delta.c.
 *
 * A layer is a head where its eh_proj, enorm and hnorm are there. What else lies behind the last layer is left out: transformers saves
 * models without heads, and config.json still counts them. In a file, GGUF's deepseek2 and deepseek32 have no heads: llama.cpp, whose
 * converter leaves them out, would run those of deepseek2 as layers of the model.
 */
#include "lib/llm/hf/hf_export.h"

#include <inttypes.h>
#include <stdio.h>

static bool has_head(const zt_checkpoint *from, int64_t layer)
{
    static const char *const parts[] = {"eh_proj", "enorm", "hnorm"};
    char name[64];
    bool has = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && has; i++) {
        snprintf(name, sizeof name, "model.layers.%" PRId64 ".%s.weight", layer, parts[i]);
        has = zt_checkpoint_find(from, name) >= 0;
    }
    return has;
}

zt_status zt_hf_head_layers(const hf_import *import, int64_t *count)
{
    double layers = 0;
    *count = 0;
    if (import->whole && zt_hf_is(import, HF_LATENTS)) return ZT_OK;
    if (!zt_hf_is(import, HF_NEXTS) || !import->tensors || !import->tensors->from) return ZT_OK;
    zt_status status = zt_hf_value(import, "block_count", &layers);
    while (status == ZT_OK && *count < MOST_FURTHER && has_head(import->tensors->from, (int64_t)layers + *count)) ++*count;
    return status;
}

zt_status zt_hf_put_heads(hf_import *import)
{
    int64_t count;
    zt_status status = zt_hf_head_layers(import, &count);
    return status == ZT_OK && count > 0 ? zt_hf_put_int(import, "nextn_predict_layers", count) : status;
}

zt_status zt_export_heads(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    if (!(HF_NEXTS & HF_SET(export->arch->id)) || hyper->extra_layers == 0) return ZT_OK;
    zt_status status = zt_export_set(export, export->config, "num_hidden_layers", json_integer(hyper->n_layers));
    return status == ZT_OK ? zt_export_set(export, export->config, "num_nextn_predict_layers", json_integer(hyper->extra_layers))
                           : status;
}
