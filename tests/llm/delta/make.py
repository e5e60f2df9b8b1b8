#!/usr/bin/env python3
"""make.py - made models with gated delta nets (Qwen3-Next, Qwen3.5), and what transformers computes of them.

    pip install torch transformers numpy        (made with torch 2.15.0, transformers 5.24.0)
    tests/llm/delta/make.py [DIRECTORY [NAME...]]   (default: build/delta-made; NAME: only these)
    tests/llm/delta/make.py --pack DIRECTORY        (writes tests/llm/delta/delta.tar.xz)

Directories and files are those of tests/llm/archs/make.py, whose functions these are. Weights are few different values, so
that the archive stays small. Layers that predict further tokens (mtp) are in the files, as on the hub, and not run.
"""
import importlib.util, os, sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("dense_make", f"{HERE}/../dense/make.py")
dense = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dense)
archs, WIDTH = dense.archs, dense.WIDTH
HEAD, KEY, VALUE = 16, 8, 8


def draw(rng, name, shape, model_type):
    """Norms are weights less 1, but for those of delta nets; A from 1/2 to 4."""
    if name.endswith("A_log"):
        return np.log(rng.integers(1, 9, shape) / 2).astype(np.float32).view(np.uint32)
    x = dense.coarse_draw(rng, name, shape, model_type).view(np.float32)
    if "norm" in name and name.endswith("weight") and "linear_attn.norm" not in name:
        x = x - np.float32(1)
    return x.view(np.uint32)


def text(cls, model_type, **more):
    return archs.text(cls, model_type, **{
        "num_hidden_layers": 2, "full_attention_interval": 2, "head_dim": HEAD, "attention_bias": False, "rope_theta": 1e4,
        "partial_rotary_factor": 0.25, "linear_conv_kernel_dim": 4, "linear_key_head_dim": KEY, "linear_value_head_dim": VALUE,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "pad_token_id": 0, "rms_norm_eps": 0.01, **more})


MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24,
           norm_topk_prob=True, output_router_logits=False)


def next80(**more):
    return text("Qwen3NextForCausalLM", "qwen3_next", **{**MOE, "decoder_sparse_step": 1, "mlp_only_layers": [], **more})


ROPE35 = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0],
          "mrope_interleaved": True}


def qwen35(moe=False, **more):
    """As transformers runs it: the part for text."""
    name, kind = ("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text") if moe else ("Qwen3_5ForCausalLM", "qwen3_5_text")
    c = text(name, kind, rope_parameters=ROPE35, **{**(MOE if moe else {}), "mtp_num_hidden_layers": 1, **more})
    del c["rope_theta"], c["partial_rotary_factor"]
    if moe:
        del c["norm_topk_prob"]
    return c


def hub35(config):
    """As the hub has it: beside a vision tower."""
    moe = "moe" in config["model_type"]
    inner = {k: v for k, v in config.items() if k not in ("architectures", "torch_dtype")}
    return {"architectures": ["Qwen3_5MoeForConditionalGeneration" if moe else "Qwen3_5ForConditionalGeneration"],
            "model_type": "qwen3_5_moe" if moe else "qwen3_5", "text_config": {**inner, "dtype": "bfloat16"},
            "tie_word_embeddings": config["tie_word_embeddings"],
            "vision_config": {"hidden_size": 4, "depth": 1, "model_type": "qwen3_5_moe" if moe else "qwen3_5"}}


def mtp(w, moe, fused):
    """A layer with attention behind the last, under names of its own."""
    rng = np.random.default_rng(5)
    shapes = {"fc.weight": (WIDTH, 2 * WIDTH), "pre_fc_norm_embedding.weight": (WIDTH,), "pre_fc_norm_hidden.weight": (WIDTH,),
              "norm.weight": (WIDTH,)}
    last = max(int(k.split("layers.")[1].split(".")[0]) for k in w if "layers." in k)
    for k, v in w.items():
        if f"layers.{last}." in k:
            shapes["layers.0." + k.split(f"layers.{last}.")[1]] = v.shape
    for name, shape in shapes.items():
        w["mtp." + name] = draw(rng, name, shape, "").view(np.float32)
    return w


def next_hub(with_mtp):
    def names(w):
        w = archs.mlp_experts(w)
        return mtp(w, True, False) if with_mtp else w
    return names


def hub_names(w):
    """Qwen3.5's: experts in two tensors, as transformers has them."""
    w = mtp(dict(w), False, True)
    out = {"model.visual.patch_embed.proj.bias": np.zeros(4, np.float32)}
    return {**out, **{k.replace("model.", "model.language_model.", 1) if k.startswith("model.") else k: v for k, v in w.items()}}


def flat_names(w):
    return mtp(dict(w), False, True)


def case35(**more):
    config = qwen35(**more)
    return archs.case(hub35(config), n=20, names=hub_names, run=config)


CASES = {
    "qwen3next": archs.case(next80(num_hidden_layers=4, full_attention_interval=4), n=20, names=next_hub(True)),
    "qwen3next-listed": archs.case(next80(num_hidden_layers=3, linear_num_value_heads=2, norm_topk_prob=False,
                                          layer_types=["full_attention", "linear_attention", "linear_attention"]),
                                   n=20, names=next_hub(False)),
    "qwen35": case35(num_hidden_layers=4, full_attention_interval=4),
    "qwen35-text": archs.case(qwen35(linear_num_key_heads=4, tie_word_embeddings=True), n=20, names=flat_names),
    "qwen35-three": case35(linear_num_value_heads=6, linear_conv_kernel_dim=3),
    "qwen35moe": case35(moe=True),
}


def main(args):
    archs.HERE, archs.CASES, archs.draw = HERE, CASES, draw
    if args[:1] == ["--pack"]:
        return archs.pack(args[1], "delta.tar.xz")
    archs.everything_double()
    root = args[0] if args else "build/delta-made"
    for name in args[1:] or CASES:
        archs.make(root, name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
