#!/usr/bin/env python3
"""make.py - made models of the architectures that came after those of tests/llm/state_space, and what transformers computes.

    pip install torch transformers numpy        (made with torch 2.15.0, transformers 5.24.0)
    tests/llm/further/make.py [DIRECTORY [NAME...]]   (default: build/further-made; NAME: only these)
    tests/llm/further/make.py --pack DIRECTORY        (writes tests/llm/further/further.tar.xz)

Directories and files are those of tests/llm/archs/make.py, whose functions these are. Weights are few different values, so
that the archive stays small.
"""
import importlib.util, os, sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("dense_make", f"{HERE}/../dense/make.py")
dense = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dense)
archs = dense.archs
WIDTH, VOCAB, case, text = archs.WIDTH, archs.VOCAB, dense.case, dense.text


def llama4(**more):
    """Layers that see chunks of 8192 positions, unless `more` has it otherwise."""
    return text("Llama4ForCausalLM", "llama4_text", **{
        "num_hidden_layers": 4, "intermediate_size": 8, "intermediate_size_mlp": 24, "num_local_experts": 3,
        "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "head_dim": 8, "use_qk_norm": True, "rope_theta": 5e4,
        "attention_bias": False, "attn_temperature_tuning": True, "pad_token_id": 0, "router_jitter_noise": 0.0, **more})


# Both bounds alike, as Scout has them: a wave is long or short.
SCOUT = {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0, "original_max_position_embeddings": 32}
SHORT = dict(attention_chunk_size=8, floor_scale=4, attn_scale=0.5)


def with_vision(c):
    return {"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4",
            "text_config": {k: v for k, v in c.items() if k != "architectures"},
            "vision_config": {"hidden_size": 4, "num_hidden_layers": 1}}


CASES = {
    "llama4-scout": case(llama4(rope_scaling=SCOUT), n=20),
    "llama4-maverick": case(with_vision(llama4(interleave_moe_layer_step=2, num_experts_per_tok=2)),
                            run=llama4(interleave_moe_layer_step=2, num_experts_per_tok=2), n=12,
                            names=archs.beside_vision("language_model.model.", "language_model.lm_head.weight")),
    "llama4-chunks": case(llama4(interleave_moe_layer_step=2, num_experts_per_tok=2, **SHORT), n=40),
    "llama4-layers": case(llama4(num_hidden_layers=3, use_qk_norm=False, no_rope_layers=[1, 0, 1],
                                 **{**SHORT, "attention_chunk_size": 10}), n=30),
    "llama4-whole": case(llama4(num_hidden_layers=2, attention_chunk_size=None, no_rope_layers=[1, 1],
                                interleave_moe_layer_step=2, tie_word_embeddings=True), n=12),
}


def main(args):
    archs.HERE, archs.CASES, archs.draw = HERE, CASES, dense.coarse_draw
    if args[:1] == ["--pack"]:
        return archs.pack(args[1], "further.tar.xz")
    archs.everything_double()
    root = args[0] if args else "build/further-made"
    for name in args[1:] or CASES:
        archs.make(root, name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
