/* hf_layers.c - owns what config.json says of layers: which see only a window, which rotate. */
#include "lib/llm/hf/hf.h"

#include <string.h>

enum { MAX_LAYERS = 4096 };

/* Does entry index of "layer_types" name a window? -1: neither that nor the whole context. */
static int is_windowed(const json_t *types, size_t index)
{
    const char *type = json_string_value(json_array_get(types, index));
    if (type && strcmp(type, "sliding_attention") == 0)
        return 1;
    return type && strcmp(type, "full_attention") == 0 ? 0 : -1;
}

/* Which layers see only a window: as listed, or (Qwen) those from the n-th on. */
static zt_status put_window_layers(hf_import *import, const json_t *types, int64_t layers, int64_t from)
{
    size_t count = json_is_array(types) ? json_array_size(types) : (size_t)layers;
    uint8_t *flag = count <= MAX_LAYERS ? zt_alloc(import->ctx, count) : NULL;
    zt_status status = flag ? ZT_OK : zt_ctx_status(import->ctx);
    if (count > MAX_LAYERS)
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: %zu layers", import->folder.data, count);
    for (size_t i = 0; status == ZT_OK && i < count; i++) {
        int windowed = json_is_array(types) ? is_windowed(types, i) : (int64_t)i >= from;
        flag[i] = windowed == 1;
        if (windowed < 0)
            status = zt_fail(import->ctx, ZT_ENOTSUP,
                             "%sconfig.json: layer_types other than full_attention "
                             "and sliding_attention are not supported",
                             import->folder.data);
    }
    if (status == ZT_OK)
        status = zt_hf_put_flags(import, "attention.sliding_window_pattern", flag, count);
    zt_free(import->ctx, flag);
    return status;
}

/* Windows of attention: how far they see, and in which layers where config.json says it. */
static zt_status put_window(hf_import *import)
{
    bool qwen = zt_hf_is(import, HF_SET(HF_QWEN2) | HF_SET(HF_QWEN3));
    if (!zt_hf_is(import, HF_WINDOWED) || (qwen && !json_is_true(zt_hf_get(import, "use_sliding_window"))))
        return ZT_OK;
    const json_t *given = zt_hf_get(import, "sliding_window"), *types = zt_hf_get(import, "layer_types");
    int64_t window = json_is_null(given) || import->arch.id == HF_PHI3 ? 0 : 4096, period = 0, from = 28;
    double layers = 0;
    zt_status status = zt_hf_int(import, "sliding_window", &window);
    /* of phi3, 0 tells that there is none */
    if (status == ZT_OK && (window > 0 || import->arch.id == HF_PHI3))
        status = zt_hf_put_int(import, "attention.sliding_window", window);
    if (status == ZT_OK)
        status = zt_hf_value(import, "block_count", &layers);
    if (status == ZT_OK)
        status = zt_hf_int(import, "max_window_layers", &from);
    if (status == ZT_OK && window > 0 && (json_is_array(types) || qwen))
        return put_window_layers(import, types, (int64_t)layers, from);
    if (status == ZT_OK)
        status = zt_hf_int(import, "sliding_window_pattern|_sliding_window_pattern", &period);
    return status == ZT_OK && period > 0 ? zt_hf_put_int(import, "attention.sliding_window_pattern", period) : status;
}

/* SmolLM3: which layers rotate. By a list (1: the layer does), or all but each so many-th. */
static zt_status put_rope_layers(hf_import *import)
{
    const json_t *list = zt_hf_get(import, "no_rope_layers");
    uint8_t flag[MAX_LAYERS];
    size_t count = json_array_size(list);
    int64_t interval = 4;
    zt_status status = zt_hf_int(import, "no_rope_layer_interval", &interval);
    if (status != ZT_OK || !json_is_array(list))
        return status ? status : zt_hf_put_int(import, "rope.layer_pattern", interval);
    if (count > MAX_LAYERS)
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: %zu layers", import->folder.data, count);
    for (size_t i = 0; i < count; i++)
        flag[i] = json_integer_value(json_array_get(list, i)) != 0;
    return zt_hf_put_flags(import, "rope.layer_pattern", flag, count);
}

zt_status zt_hf_put_layers(hf_import *import)
{
    zt_status status = put_window(import);
    return status == ZT_OK && import->arch.id == HF_SMOLLM3 ? put_rope_layers(import) : status;
}
