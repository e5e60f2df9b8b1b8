/* hf_layers.c - owns what config.json says of layers: which see only a window, which rotate. */
#include "lib/llm/hf/hf.h"

#include <string.h>

enum { MAX_LAYERS = 4096 };

/* Does entry i of "layer_types" name a window? -1: neither that nor the whole context. */
static int is_windowed(const json_t *types, size_t i)
{
    const char *t = json_string_value(json_array_get(types, i));
    if (t && strcmp(t, "sliding_attention") == 0)
        return 1;
    return t && strcmp(t, "full_attention") == 0 ? 0 : -1;
}

/* Which layers see only a window: as listed, or (Qwen) those from the n-th on. */
static zt_status put_window_layers(hf *m, const json_t *types, int64_t layers, int64_t from)
{
    size_t n = json_is_array(types) ? json_array_size(types) : (size_t)layers;
    uint8_t *flag = n <= MAX_LAYERS ? zt_alloc(m->ctx, n) : NULL;
    zt_status s = flag ? ZT_OK : zt_ctx_status(m->ctx);
    if (n > MAX_LAYERS)
        s = zt_fail(m->ctx, ZT_EDATA, "%sconfig.json: %zu layers", m->folder.data, n);
    for (size_t i = 0; s == ZT_OK && i < n; i++) {
        int windowed = json_is_array(types) ? is_windowed(types, i) : (int64_t)i >= from;
        flag[i] = windowed == 1;
        if (windowed < 0)
            s = zt_fail(m->ctx, ZT_ENOTSUP,
                        "%sconfig.json: layer_types other than full_attention "
                        "and sliding_attention are not supported",
                        m->folder.data);
    }
    if (s == ZT_OK)
        s = zt_hf_put_flags(m, "attention.sliding_window_pattern", flag, n);
    zt_free(m->ctx, flag);
    return s;
}

/* Windows of attention: how far they see, and in which layers where config.json says it. */
static zt_status put_window(hf *m)
{
    bool qwen = zt_hf_is(m, HF_SET(HF_QWEN2) | HF_SET(HF_QWEN3));
    if (!zt_hf_is(m, HF_WINDOWED) || (qwen && !json_is_true(zt_hf_get(m, "use_sliding_window"))))
        return ZT_OK;
    const json_t *given = zt_hf_get(m, "sliding_window"), *types = zt_hf_get(m, "layer_types");
    int64_t window = json_is_null(given) || m->arch.id == HF_PHI3 ? 0 : 4096, period = 0, from = 28;
    double layers = 0;
    zt_status s = zt_hf_int(m, "sliding_window", &window);
    /* of phi3, 0 tells that there is none */
    if (s == ZT_OK && (window > 0 || m->arch.id == HF_PHI3))
        s = zt_hf_put_int(m, "attention.sliding_window", window);
    if (s == ZT_OK)
        s = zt_hf_value(m, "block_count", &layers);
    if (s == ZT_OK)
        s = zt_hf_int(m, "max_window_layers", &from);
    if (s == ZT_OK && window > 0 && (json_is_array(types) || qwen))
        return put_window_layers(m, types, (int64_t)layers, from);
    if (s == ZT_OK)
        s = zt_hf_int(m, "sliding_window_pattern|_sliding_window_pattern", &period);
    return s == ZT_OK && period > 0 ? zt_hf_put_int(m, "attention.sliding_window_pattern", period)
                                    : s;
}

/* SmolLM3: which layers rotate. By a list (1: the layer does), or all but each so many-th. */
static zt_status put_rope_layers(hf *m)
{
    const json_t *list = zt_hf_get(m, "no_rope_layers");
    uint8_t flag[MAX_LAYERS];
    size_t n = json_array_size(list);
    int64_t interval = 4;
    zt_status s = zt_hf_int(m, "no_rope_layer_interval", &interval);
    if (s != ZT_OK || !json_is_array(list))
        return s ? s : zt_hf_put_int(m, "rope.layer_pattern", interval);
    if (n > MAX_LAYERS)
        return zt_fail(m->ctx, ZT_EDATA, "%sconfig.json: %zu layers", m->folder.data, n);
    for (size_t i = 0; i < n; i++)
        flag[i] = json_integer_value(json_array_get(list, i)) != 0;
    return zt_hf_put_flags(m, "rope.layer_pattern", flag, n);
}

zt_status zt_hf_put_layers(hf *m)
{
    zt_status s = put_window(m);
    return s == ZT_OK && m->arch.id == HF_SMOLLM3 ? put_rope_layers(m) : s;
}
