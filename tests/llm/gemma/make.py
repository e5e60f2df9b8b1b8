#!/usr/bin/env python3
"""make.py - made models of Gemma 3n, Gemma 4 and EmbeddingGemma, and what transformers computes.

    pip install torch transformers numpy        (made with torch 2.15.0, transformers 5.24.0)
    tests/llm/gemma/make.py [DIRECTORY [NAME...]]   (default: build/gemma-made; NAME: only these)
    tests/llm/gemma/make.py --pack DIRECTORY        (writes tests/llm/gemma/gemma.tar.xz)

Directories and files are those of tests/llm/archs/make.py, whose functions these are. Weights are few different values, so
that the archive stays small.
"""
import importlib.util, os, sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("archs_make", f"{HERE}/../archs/make.py")
archs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(archs)
exact_draw, exact_fill, exact_make = archs.draw, archs.fill, archs.make
WIDTH, VOCAB = archs.WIDTH, archs.VOCAB
FACTORS = ("correct_output_scale", "router.scale", "per_expert_scale", "layer_scalar")


def coarse_draw(rng, name, shape, model_type):
    """Multiples of a power of two near half the deviation. Norms and factors about 1; of EmbeddingGemma norms about 0."""
    kind = model_type if model_type == "gemma3_text" else "other"
    x = exact_draw(rng, name + ("_norm.weight" if name.endswith(FACTORS) else ""), shape, kind).view(np.float32)
    step = 2.0 ** np.round(np.log2(max(x.std(), 1 / 64) / 2))
    return (np.round(x / step) * step).astype(np.float32).view(np.uint32)


def fill(model, model_type, seed):
    """Also the factor of each layer, which is a buffer there."""
    weights, rng = exact_fill(model, model_type, seed), np.random.default_rng(seed + 2)
    with torch.no_grad():
        for name, b in sorted(model.named_buffers()):
            if name.endswith("layer_scalar"):
                x = coarse_draw(rng, name, tuple(b.shape), model_type).view(np.float32)
                b.copy_(torch.from_numpy(x.copy()))
                weights[name] = x
    return weights


def embedding(types, **more):
    c = gemma("Gemma3TextModel", "gemma3_text", **{
        "layer_types": layers_of(types), "num_hidden_layers": len(types), "head_dim": 16, "query_pre_attn_scalar": 16,
        "use_bidirectional_attention": True, "attn_logit_softcapping": None, "final_logit_softcapping": None,
        "rope_local_base_freq": 100.0, "rope_scaling": None, "_sliding_window_pattern": 6, **more})
    c["rope_theta"] = 10000.0
    return c


def layers_of(letters):
    return [{"L": "sliding_attention", "G": "full_attention"}[c] for c in letters]


def case(config, **more):
    return archs.case(config, n=16, **more)


def gemma(cls, model_type, **more):
    c = archs.text(cls, model_type, **{"rms_norm_eps": 0.02, "tie_word_embeddings": True, "sliding_window": 8, "pad_token_id": 0,
                                       "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False, **more})
    del c["hidden_act"], c["rope_theta"]
    return c


def gemma4(types, **more):
    return gemma("Gemma4ForCausalLM", "gemma4_text", **{
        "layer_types": layers_of(types), "num_hidden_layers": len(types), "head_dim": 8, "global_head_dim": 16,
        "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": VOCAB, "attention_k_eq_v": False,
        "num_global_key_value_heads": None, "num_kv_shared_layers": 0, "use_double_wide_mlp": False, "enable_moe_block": False,
        "num_experts": None, "top_k_experts": None, "moe_intermediate_size": None, "final_logit_softcapping": 9.0,
        "use_bidirectional_attention": None,
        "rope_parameters": {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 10000.0, "rope_type": "proportional"},
                            "sliding_attention": {"rope_theta": 100.0, "rope_type": "default"}}, **more})


def gemma3n(types, **more):
    c = gemma("Gemma3nForCausalLM", "gemma3n_text", **{
        "layer_types": layers_of(types), "num_hidden_layers": len(types), "head_dim": 8, "intermediate_size": [48] * len(types),
        "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCAB, "num_kv_shared_layers": 2, "altup_num_inputs": 4,
        "altup_active_idx": 0, "altup_coef_clip": 120.0, "altup_correct_scale": True, "laurel_rank": 4,
        "activation_sparsity_pattern": [0.6, 0.7] + [0.0] * (len(types) - 2), "final_logit_softcapping": 9.0,
        "rope_theta": 10000.0, "rope_local_base_freq": 100.0, "rope_scaling": None, **more})
    c["rope_theta"] = 10000.0
    return c


def with_senses(c):
    """A model for more than text, as on the hub."""
    whole = c["architectures"][0].replace("ForCausalLM", "ForConditionalGeneration")
    return {"architectures": [whole], "model_type": c["model_type"].replace("_text", ""),
            "text_config": {k: v for k, v in c.items() if k != "architectures"}, "vision_config": {"hidden_size": 4}}


def beside_senses(w):
    out = {"model.vision_tower.encoder.layers.0.mlp.gate_proj.weight": np.zeros((4, 4), np.float32),
           "model.audio_tower.layers.0.norm_out.weight": np.zeros(4, np.float32),
           "model.embed_vision.embedding_projection.weight": np.zeros((4, 4), np.float32),
           "model.embed_audio.embedding_projection.weight": np.zeros((4, 4), np.float32)}
    return {**out, **{k.replace("model.", "model.language_model.", 1): v for k, v in w.items()}}


def unused_keys(w):
    """Layers that read another's cache have keys and values in the file, of no use."""
    out = dict(w)
    for k in w:
        for layer in (4, 5):
            if ".layers.3.self_attn." in k and any(f".{part}." in k for part in ("k_proj", "v_proj", "k_norm")):
                out[k.replace(".layers.3.", f".layers.{layer}.")] = np.zeros_like(w[k])
    return out


SENSES_3 = gemma3n("LGLG", altup_active_idx=2, vocab_size_per_layer_input=88)
SENSES_4 = gemma4("LGLG", hidden_size_per_layer_input=8, num_kv_shared_layers=2)

CASES = {
    "gemma4": case(gemma4("LLGLG", attention_k_eq_v=True, num_global_key_value_heads=1)),
    "gemma4-layers": case(gemma4("LGLGLG", hidden_size_per_layer_input=8, num_kv_shared_layers=3, use_double_wide_mlp=True)),
    "gemma4-senses": case(with_senses(SENSES_4), run=SENSES_4, names=beside_senses),
    "gemma4-experts": case(gemma4("LLG", attention_k_eq_v=True, num_global_key_value_heads=1, enable_moe_block=True,
                                  num_experts=4, top_k_experts=2, moe_intermediate_size=16, final_logit_softcapping=None)),
    "gemma-embedding": case(embedding("LGLG"), names=archs.bare),
    "gemma-embedding-dense": case(embedding("LG"), names=archs.bare),
    "gemma3n": case(gemma3n("LGLGLG"), names=unused_keys),
    "gemma3n-senses": case(with_senses(SENSES_3), run=SENSES_3, names=beside_senses),
}


def forward(model, embed, ids):
    """Hidden states after the last norm, which the list of them does not hold of several streams."""
    with torch.no_grad():
        if embed:
            hidden = model(torch.from_numpy(ids)[None]).last_hidden_state[0].numpy()
            for matrix in DENSE:
                hidden = hidden @ matrix.T
            return hidden, hidden
        hidden = model.model(torch.from_numpy(ids)[None]).last_hidden_state[0].numpy()
        return hidden, model(torch.from_numpy(ids)[None]).logits[0].numpy()


DENSE = []


def make(root, name, c):
    """Ids that all tables have. Behind one model two matrices, as sentence-transformers writes them."""
    DENSE[:] = []
    if name == "gemma-embedding-dense":
        rng = np.random.default_rng(5)
        DENSE[:] = [np.round(8 * rng.standard_normal(shape)) / 32 for shape in ((48, WIDTH), (24, 48))]
    archs.VOCAB = (c["run"] or c["config"]).get("vocab_size_per_layer_input", VOCAB)
    exact_make(root, name, c)
    if DENSE:
        save_dense(f"{root}/{name}")


def save_dense(folder):
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Dense", "3_Dense"), ("Normalize", "4_Normalize")]
    archs.save_json(f"{folder}/modules.json", [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                                               for i, (kind, path) in enumerate(modules)])
    for matrix, path in zip(DENSE, ("2_Dense", "3_Dense")):
        os.makedirs(f"{folder}/{path}", exist_ok=True)
        archs.save_json(f"{folder}/{path}/config.json", {"in_features": matrix.shape[1], "out_features": matrix.shape[0], "bias": False,
                                                         "activation_function": "torch.nn.modules.linear.Identity"})
        archs.safetensors(f"{folder}/{path}/model.safetensors", {"linear.weight": matrix.astype(np.float32)}, "f32")


def main(args):
    archs.HERE, archs.CASES, archs.draw, archs.fill, archs.forward = HERE, CASES, coarse_draw, fill, forward
    if args[:1] == ["--pack"]:
        return archs.pack(args[1], "gemma.tar.xz")
    archs.EMBED += ("gemma3_text",)
    archs.everything_double()
    root = args[0] if args else "build/gemma-made"
    for name in args[1:] or CASES:
        make(root, name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
