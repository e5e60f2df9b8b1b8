#!/usr/bin/env python3
"""make.py - made models with latent attention, and what transformers computes of them.

    pip install torch transformers numpy        (made with torch 2.15.0, transformers 5.24.0)
    tests/llm/latent/make.py [DIRECTORY [NAME...]]   (default: build/latent-made; NAME: only these)
    tests/llm/latent/make.py --pack DIRECTORY        (writes tests/llm/latent/latent.tar.xz)

Directories and files are those of tests/llm/archs/make.py, whose functions these are. Weights are few different values, so
that the archive stays small. config.json says what those of DeepSeek, Kimi, GLM and MiniCPM on the hub say.
"""
import copy, importlib.util, os, sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("archs_make", f"{HERE}/../archs/make.py")
archs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(archs)
exact_draw, exact_build, WIDTH, HEADS = archs.draw, archs.build, archs.WIDTH, archs.HEADS


def coarse_draw(rng, name, shape, model_type):
    """Multiples of a power of two near half the deviation."""
    x = exact_draw(rng, name, shape, model_type).view(np.float32)
    if "kv_a_proj" in name:
        x = .1 * x  # so that the epsilon of the latent's norm counts
    if model_type == "minicpm3" and "embed" in name:
        x = x / 16  # which multiplies both ends
    step = 2.0 ** np.round(np.log2(max(x.std(), 1 / 64) / 2))
    return (np.round(x / step) * step).astype(np.float32).view(np.uint32)


def build(config):
    """Mistral 4 is a text model of one with eyes, which no auto class makes alone."""
    if config["model_type"] != "mistral4":
        return exact_build(config)
    from transformers.models.mistral4 import modeling_mistral4 as m

    config = m.Mistral4Config(**{k: copy.deepcopy(v) for k, v in config.items() if k not in ("architectures", "model_type")})
    config._attn_implementation = config._experts_implementation = "eager"
    return m.Mistral4ForCausalLM(config).eval().double(), False


LATENT = dict(num_key_value_heads=HEADS, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6, pad_token_id=0,
              attention_bias=False)
ROUTED = dict(first_k_dense_replace=1, moe_layer_freq=1, num_experts_per_tok=3, moe_intermediate_size=16, ep_size=1)
YARN = {"type": "yarn", "factor": 4.0, "beta_fast": 8, "beta_slow": 1, "original_max_position_embeddings": 32}


def v2(**more):
    return archs.text("DeepseekV2ForCausalLM", "deepseek_v2", **{
        **LATENT, **ROUTED, "q_lora_rank": 12, "n_routed_experts": 8, "n_shared_experts": 2, "n_group": 4, "topk_group": 2,
        "topk_method": "group_limited_greedy", "scoring_func": "softmax", "norm_topk_prob": False, "routed_scaling_factor": 4.0,
        "rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}, **more})


def v3(**more):
    return archs.text("DeepseekV3ForCausalLM", "deepseek_v3", **{
        **LATENT, **ROUTED, "q_lora_rank": 12, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 4, "topk_group": 2,
        "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True, "routed_scaling_factor": 2.5,
        "num_nextn_predict_layers": 1, "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}, **more})


def kimi(**more):
    return {**v3(n_group=1, topk_group=1, rope_theta=50000.0, routed_scaling_factor=2.827, num_nextn_predict_layers=0, **more),
            "model_type": "kimi_k2"}


def glm(**more):
    return archs.text("Glm4MoeLiteForCausalLM", "glm4_moe_lite", **{
        **LATENT, **ROUTED, "q_lora_rank": 12, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
        "topk_method": "noaux_tc", "norm_topk_prob": True, "routed_scaling_factor": 1.8, "rope_scaling": None,
        "partial_rotary_factor": 1.0, "num_nextn_predict_layers": 0, "rope_theta": 1e6, **more})


def mistral4(**more):
    c = archs.text("Mistral4ForCausalLM", "mistral4", **{
        **LATENT, "first_k_dense_replace": 0, "num_experts_per_tok": 3, "moe_intermediate_size": 16, "q_lora_rank": 12,
        "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "norm_topk_prob": True,
        "routed_scaling_factor": 1.0, "rope_interleave": True, "rope_parameters": {
            **YARN, "rope_type": "yarn", "rope_theta": 10000.0, "original_max_position_embeddings": 8, "mscale": 1.0,
            "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5, "partial_rotary_factor": 4 / 12}, **more})
    return {k: v for k, v in c.items() if k != "rope_theta"}


def youtu(**more):
    return archs.text("YoutuForCausalLM", "youtu", **{**LATENT, "q_lora_rank": 12, "rope_interleave": True, "rope_scaling": None,
                                                      "tie_word_embeddings": True, **more})


def with_eyes(c):
    return {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3",
            "text_config": {k: v for k, v in c.items() if k != "architectures"},
            "vision_config": {"hidden_size": 4, "num_hidden_layers": 1}}


def minicpm3(**more):
    return archs.text("MiniCPM3ForCausalLM", "minicpm3", **{
        **{k: v for k, v in LATENT.items() if k not in ("pad_token_id", "v_head_dim")}, "q_lora_rank": 12, "scale_emb": 12,
        "scale_depth": 1.4, "dim_model_base": 256, "rope_scaling": None, "tie_word_embeddings": True, **more})


def longrope(**more):
    return dict(max_position_embeddings=128, rope_scaling={
        "type": "longrope", "short_factor": [1.0, 1.1], "long_factor": [1.5, 3.0], "original_max_position_embeddings": 128, **more})


def with_prediction(w):
    """DeepSeek V3's layer behind the last, which predicts a further token: of no use here."""
    w = archs.mlp_experts(w)
    extra = {k.replace("model.layers.1.", "model.layers.2."): v for k, v in w.items() if "model.layers.1.input_layernorm" in k}
    return {**w, **extra, "model.layers.2.eh_proj.weight": np.zeros((WIDTH, 2 * WIDTH), np.float32)}


def case(config, n=16, **more):
    return archs.case(config, n=n, **{"names": archs.mlp_experts, **more})


CASES = {
    "deepseek-v2": case(v2()),
    "deepseek-v2-lite": case(v2(q_lora_rank=None, n_group=1, topk_group=1, topk_method="greedy", routed_scaling_factor=1.0)),
    "deepseek-v3": case(v3(), names=with_prediction),
    "deepseek-v3-mscale": case(v3(rope_scaling={**YARN, "mscale": 1.0, "mscale_all_dim": 0.5})),
    "deepseek-v3-v5": case(v3(rope_scaling=None, torch_dtype="bfloat16"), v5=True, dtype="bf16"),
    "kimi-k2": case(kimi(torch_dtype="bfloat16"), run={**kimi(), "model_type": "deepseek_v3"}, dtype="bf16", shards=2),
    "glm4_moe_lite": case(glm()),
    "youtu": case(youtu(), names=None),
    "mistral4": case(with_eyes(mistral4()), run=mistral4(),
                     names=archs.beside_vision("model.language_model.", "lm_head.weight")),
    "minicpm3": case(minicpm3(), names=None),
    "minicpm3-long": case(minicpm3(**longrope()), names=None),
}


def main(args):
    archs.HERE, archs.CASES, archs.draw, archs.build = HERE, CASES, coarse_draw, build
    if args[:1] == ["--pack"]:
        return archs.pack(args[1], "latent.tar.xz")
    archs.everything_double()
    root = args[0] if args else "build/latent-made"
    for name in args[1:] or CASES:
        archs.make(root, name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
