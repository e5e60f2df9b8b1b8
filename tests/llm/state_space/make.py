#!/usr/bin/env python3
"""make.py - made models with short convolutions or state-space layers, and what transformers computes of them.

    pip install torch transformers numpy        (made with torch 2.15.0, transformers 5.24.0)
    tests/llm/state_space/make.py [DIRECTORY [NAME...]]   (default: build/state_space-made; NAME: only these)
    tests/llm/state_space/make.py --pack DIRECTORY        (writes tests/llm/state_space/state_space.tar.xz)

Directories and files are those of tests/llm/archs/make.py, whose functions these are. Weights are few different values, so
that the archive stays small.
"""
import importlib.util, os, sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("archs_make", f"{HERE}/../archs/make.py")
archs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(archs)
exact_draw, WIDTH, VOCAB = archs.draw, archs.WIDTH, archs.VOCAB


def draw(rng, name, shape, model_type):
    """Multiples of a power of two near half the deviation. Skips D are about 1, decays and steps differ by head."""
    x = exact_draw(rng, name, shape, model_type).view(np.float32)
    if name.endswith("A_log"):
        x = rng.uniform(-1, 1.5, shape)
    if name.endswith((".D", "layernorm.weight")):
        x = 1 + .3 * rng.standard_normal(shape)
    step = 2.0 ** np.round(np.log2(max(x.std(), 1 / 64) / 2))
    return (np.round(x / step) * step).astype(np.float32).view(np.uint32)


def config(cls, model_type, **more):
    return {"architectures": [cls], "model_type": model_type, "vocab_size": VOCAB, "hidden_size": WIDTH, "bos_token_id": 1,
            "eos_token_id": 2, "pad_token_id": 0, **more}


ATTENTION = dict(num_attention_heads=4, num_key_value_heads=2)


def lfm2(types, **more):
    return config("Lfm2ForCausalLM", "lfm2", **ATTENTION, num_hidden_layers=len(types), layer_types=types, conv_L_cache=3,
                  conv_bias=False, conv_dim=WIDTH, norm_eps=0.01, rope_theta=1e4, max_position_embeddings=128, **{
                      "intermediate_size": 48, "block_ff_dim": 48, "block_auto_adjust_ff_dim": False, "block_multiple_of": 16,
                      "block_ffn_dim_multiplier": 1.0, "tie_word_embeddings": True, "tie_embedding": True, **more})


def lfm2moe(types, **more):
    return config("Lfm2MoeForCausalLM", "lfm2_moe", **ATTENTION, num_hidden_layers=len(types), layer_types=types, conv_L_cache=3,
                  conv_bias=False, norm_eps=0.01, rope_theta=1e4, max_position_embeddings=128, intermediate_size=48,
                  num_dense_layers=1, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, use_expert_bias=True,
                  norm_topk_prob=True, routed_scaling_factor=1.0, tie_word_embeddings=True, tie_embedding=True, **more)


def mamba(cls="MambaForCausalLM", model_type="mamba", **more):
    return config(cls, model_type, num_hidden_layers=2, intermediate_size=2 * WIDTH, state_size=8, conv_kernel=4, expand=2,
                  time_step_rank=4, use_conv_bias=True, use_bias=False, hidden_act="silu", layer_norm_epsilon=0.01,
                  residual_in_fp32=False, **{"tie_word_embeddings": True, **more})


def mamba2(**more):
    return config("Mamba2ForCausalLM", "mamba2", num_hidden_layers=2, state_size=24, conv_kernel=4, expand=2, head_dim=16,
                  num_heads=4, n_groups=2, use_conv_bias=True, use_bias=False, hidden_act="silu", layer_norm_epsilon=0.01,
                  chunk_size=8, rms_norm=True, residual_in_fp32=False, **{"tie_word_embeddings": False, **more})


MIXER = dict(mamba_n_heads=4, mamba_d_head=16, mamba_d_state=24, mamba_d_conv=4, mamba_chunk_size=8, mamba_conv_bias=True,
             mamba_proj_bias=False, hidden_act="silu", rms_norm_eps=0.01, max_position_embeddings=128)


def falcon_h1(**more):
    return config("FalconH1ForCausalLM", "falcon_h1", **ATTENTION, **MIXER, num_hidden_layers=2, head_dim=16, intermediate_size=48,
                  mamba_d_ssm=64, mamba_expand=2, mamba_n_groups=2, mamba_norm_before_gate=False, mamba_use_mlp=True,
                  rope_theta=1e4, attention_bias=False, mlp_bias=False, projectors_bias=False, embedding_multiplier=2.0,
                  lm_head_multiplier=0.5, key_multiplier=0.75, attention_in_multiplier=1.5, attention_out_multiplier=0.625,
                  ssm_in_multiplier=1.25, ssm_out_multiplier=0.5, ssm_multipliers=[0.5, 0.75, 1.25, 1.5, 0.875],
                  mlp_multipliers=[0.75, 0.5], **{"mamba_rms_norm": False, "tie_word_embeddings": False, **more})


def granite(types, **more):
    return config("GraniteMoeHybridForCausalLM", "granitemoehybrid", **ATTENTION, **MIXER, num_hidden_layers=len(types),
                  layer_types=types, mamba_expand=2, mamba_n_groups=1, shared_intermediate_size=40,
                  position_embedding_type="nope", embedding_multiplier=6.0, attention_multiplier=0.2, residual_multiplier=0.4,
                  logits_scaling=3.0, attention_bias=False, tie_word_embeddings=True, **{
                      "intermediate_size": 40, "num_local_experts": 0, "num_experts_per_tok": 0, **more})


def nemotron_h(pattern, **more):
    types = [{"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}[c] for c in pattern]
    return config("NemotronHForCausalLM", "nemotron_h", **ATTENTION, num_hidden_layers=len(pattern), layers_block_type=types,
                  hybrid_override_pattern=pattern, head_dim=16, intermediate_size=48, ssm_state_size=24, mamba_num_heads=4,
                  mamba_head_dim=16, n_groups=2, conv_kernel=4, expand=2, chunk_size=8, use_conv_bias=True, use_bias=False,
                  mamba_proj_bias=False, attention_bias=False, mlp_bias=False, mlp_hidden_act="relu2", mamba_hidden_act="silu",
                  layer_norm_epsilon=0.01, residual_in_fp32=False, max_position_embeddings=128, tie_word_embeddings=False, **more)


ROUTED = dict(n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True,
              moe_shared_expert_intermediate_size=24, routed_scaling_factor=2.5, n_group=1, topk_group=1)


def bamba(indices, layers, **more):
    c = config("BambaForCausalLM", "bamba", **ATTENTION, **MIXER, num_hidden_layers=layers, attn_layer_indices=indices, mamba_expand=2,
               mamba_n_groups=2, intermediate_size=40, attn_rotary_emb=4, rope_theta=1e4, attention_bias=False, mlp_bias=False,
               tie_word_embeddings=False, z_loss_coefficient=0.0, **more)
    return c


def case(c, n=20, **more):
    return archs.case(c, n=n, **more)


def lfm2_experts(w):
    """As files have them: w1 (gate), w3 (up) and w2 (down) of each expert."""
    out = {}
    for k, v in w.items():
        if not k.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[k] = v
            continue
        half = v.shape[1] // 2
        parts = zip(("w1", "w3"), (v[:, :half], v[:, half:])) if "gate_up" in k else [("w2", v)]
        for name, part in parts:
            for e in range(len(v)):
                out[f"{k[:k.rindex('.')]}.{e}.{name}.weight"] = np.ascontiguousarray(part[e])
    return out


def backbone(w):
    """The hub's names of Nemotron-H, and each expert's matrices for themselves."""
    out = {}
    for k, v in w.items():
        k = k.replace("model.", "backbone.")
        if ".experts." not in k:
            out[k] = v
        for e in range(len(v) if ".experts." in k else 0):
            out[f"{k.replace('experts.', f'experts.{e}.')}.weight"] = np.ascontiguousarray(v[e])
    return out


CASES = {
    "lfm2": case(lfm2(["conv", "full_attention", "conv"])),
    "lfm2-adjusted": case(lfm2(["conv", "conv", "full_attention"], block_auto_adjust_ff_dim=True, intermediate_size=72,
                               block_ff_dim=72)),
    "lfm2moe": case(lfm2moe(["conv", "full_attention", "conv"]), names=lfm2_experts),
    "mamba": case(mamba()),
    "mamba-untied": case(mamba(tie_word_embeddings=False)),
    "falcon_mamba": case(mamba("FalconMambaForCausalLM", "falcon_mamba", mixer_rms_eps=1e-6)),
    "mamba2": case(mamba2()),
    "falcon_h1": case(falcon_h1()),
    "falcon_h1-normed": case(falcon_h1(mamba_rms_norm=True)),
    "granitehybrid": case(granite(["mamba", "attention", "mamba"])),
    "granitehybrid-experts": case(granite(["mamba", "attention"], intermediate_size=24, num_local_experts=4, num_experts_per_tok=2),
                                  names=archs.granite_experts),
    "nemotron_h": case(nemotron_h("M-*-M"), names=backbone),
    "nemotron_h-last": case(nemotron_h("*M-"), names=backbone),
    "nemotron_h_moe": case(nemotron_h("ME*E", **ROUTED), names=backbone),
    "nemotron_h_moe-latent": case(nemotron_h("*EM", **{**ROUTED, "moe_latent_size": 24, "n_group": 2, "norm_topk_prob": False}), names=backbone),
    "bamba": case(bamba([1], 3)),
}


def main(args):
    archs.HERE, archs.CASES, archs.draw = HERE, CASES, draw
    if args[:1] == ["--pack"]:
        return archs.pack(args[1], "state_space.tar.xz")
    archs.everything_double()
    root = args[0] if args else "build/state_space-made"
    for name in args[1:] or CASES:
        archs.make(root, name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
