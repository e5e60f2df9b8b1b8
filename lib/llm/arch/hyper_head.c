/* hyper_head.c - the head of a model that predicts further tokens: a layer behind the last, of which the keys say only that it is there.
 * What it computes is a fact from vLLM (model_executor/models/qwen3_next_mtp.py, deepseek_mtp.py, glm4_moe_mtp.py); names of
 * tensors are llama.cpp's (src/llama-arch.cpp).
 */
#include "lib/llm/arch/hyper_internal.h"

static bool has_tensor(const zt_gguf *gguf, zt_weight weight, int64_t layer)
{
    char name[ZT_WEIGHT_NAME];
    return zt_gguf_find(gguf, zt_weight_name(weight, layer, name)) >= 0;
}

zt_status zt_hyper_read_head(const zt_gguf *gguf, zt_hyper *hyper)
{
    const int64_t head = hyper->n_layers;
    int64_t alike = head - 1;
    if (hyper->extra_layers == 0)
        return zt_fail(zt_gguf_ctx(gguf), ZT_EDATA, "%s: the model has no multi-token-prediction head", zt_gguf_name(gguf));
    while (alike >= 0 && hyper->layer[alike].kind != ZT_LAYER_ATTENTION) alike--;
    if (!hyper->arch->heads || alike < 0)
        return zt_fail(zt_gguf_ctx(gguf), ZT_ENOTSUP, "%s: multi-token-prediction heads of %s models are not supported",
                       zt_gguf_name(gguf), hyper->arch->name);
    hyper->layer[head] = hyper->layer[alike];
    hyper->layer[head].cache = head;
    hyper->local[head] = hyper->local[alike];
    hyper->rotated[head] = hyper->rotated[alike];
    hyper->sparse[head] = hyper->n_experts > 0 && has_tensor(gguf, ZT_W_ROUTER, head);
    return ZT_OK;
}
