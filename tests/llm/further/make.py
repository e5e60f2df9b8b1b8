#!/usr/bin/env python3
"""make.py - made models of the architectures that came after those of tests/llm/state_space, and what transformers computes.

    pip install torch transformers numpy        (made with torch 2.15.0, transformers 5.24.0)
    tests/llm/further/make.py [DIRECTORY [NAME...]]   (default: build/further-made; NAME: only these)
    tests/llm/further/make.py --pack DIRECTORY        (writes tests/llm/further/further.tar.xz)

Directories and files are those of tests/llm/archs/make.py, whose functions these are. Weights are few different values, so
that the archive stays small.
"""
import importlib.util, os, sys, zlib

import numpy as np
import torch
import transformers

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


def baichuan(**more):
    """The config of the hub's; Llama runs it."""
    c = text("BaichuanForCausalLM", "baichuan", **{"intermediate_size": 24, "model_max_length": 128, **more})
    del c["num_key_value_heads"], c["rope_theta"], c["max_position_embeddings"]
    return c


BAICHUAN_13B = dict(hidden_size=16, num_hidden_layers=40, num_attention_heads=2, intermediate_size=12)


def packed(w):
    """q, k and v as one matrix."""
    out = {}
    for k, v in w.items():
        if "self_attn." not in k or "o_proj" in k:
            out[k] = v
        elif "q_proj" in k:
            out[k.replace("q_proj", "W_pack")] = np.concatenate([v] + [w[k.replace("q_proj", p)] for p in ("k_proj", "v_proj")])
    return out


def internlm2(**more):
    """The config of the hub's; Llama runs it."""
    return text("InternLM2ForCausalLM", "internlm2", **{
        "bias": False, "num_key_value_heads": 2, "rope_theta": 1e6, "rope_scaling": {"type": "dynamic", "factor": 2.0},
        "pad_token_id": 2, **more})


INTERNLM2 = {"self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
             "mlp.down_proj": "feed_forward.w2", "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm",
             "embed_tokens": "tok_embeddings", "lm_head": "output"}


def grouped(w):
    """q, k and v as one matrix: for each key head the rows of its query heads, its own, its values'."""
    out = {}
    for k, v in w.items():
        if "q_proj" in k:
            q, key, value = (w[k.replace("q_proj", p)] for p in ("q_proj", "k_proj", "v_proj"))
            head = WIDTH // archs.HEADS
            groups = len(key) // head
            parts = [x.reshape(groups, -1, WIDTH) for x in (q, key, value)]
            out[k.replace("self_attn.q_proj", "attention.wqkv")] = np.concatenate(parts, 1).reshape(-1, WIDTH)
        elif not any(p in k for p in ("k_proj", "v_proj")):
            for old, new in INTERNLM2.items():
                k = k.replace(old, new)
            out[k] = v
    return out


def labels(*names):
    return {"id2label": {str(i): n for i, n in enumerate(names)}, "label2id": {n: i for i, n in enumerate(names)}}


def qwen3(**more):
    return text("Qwen3ForSequenceClassification", "qwen3", head_dim=16, rope_theta=1e6, attention_bias=False,
                use_sliding_window=False, sliding_window=None, tie_word_embeddings=True, pad_token_id=0, **more)


def deepseek_v32(**more):
    """Of the keys each query chooses 6, or all where there are not more."""
    return text("DeepseekV32ForCausalLM", "deepseek_v32", **{
        "num_key_value_heads": archs.HEADS, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6,
        "q_lora_rank": 12, "pad_token_id": 0, "attention_bias": False, "first_k_dense_replace": 1, "moe_layer_freq": 1,
        "num_experts_per_tok": 3, "moe_intermediate_size": 16, "ep_size": 1, "n_routed_experts": 8, "n_shared_experts": 1,
        "n_group": 4, "topk_group": 2, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True,
        "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 0, "index_topk": 6, "index_head_dim": 8, "index_n_heads": 8,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": 8, "beta_slow": 1, "original_max_position_embeddings": 32,
                         "mscale": 1.0, "mscale_all_dim": 1.0}, **more})


CASES = {
    "baichuan": case(baichuan(), names=packed),
    "baichuan2": case(baichuan(z_loss_weight=0), names=packed),
    "baichuan-alibi": case(baichuan(**BAICHUAN_13B), names=packed, n=20),
    "internlm2": case(internlm2(), run={**internlm2(rope_scaling=None), "model_type": "llama"}, names=grouped),
    "internlm2-bf16": case(internlm2(torch_dtype="bfloat16", num_key_value_heads=1), dtype="bf16", names=grouped,
                           run={**internlm2(rope_scaling=None, num_key_value_heads=1), "model_type": "llama"}),
    "qwen3-labels": case(qwen3(**labels("good", "bad", "ugly"))),
    "qwen3-score": case(qwen3(**labels("LABEL_0"), _name_or_path="Qwen3-Reranker-seq-cls")),
    "deepseek-v32": case(deepseek_v32(), n=24, names=archs.mlp_experts),
    "deepseek-v32-whole": case(deepseek_v32(index_topk=64, rope_scaling=None, index_n_heads=4), n=12, names=archs.mlp_experts),
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


def save_case(folder, c, kind, ids, weights, **arrays):
    os.makedirs(folder, exist_ok=True)
    archs.save_json(f"{folder}/config.json", c["config"])
    archs.save_json(f"{folder}/case.json", {"kind": kind, "ids": ids.tolist()})
    archs.save_weights(folder, (c["names"] or (lambda w: w))(weights), c["dtype"], c["shards"])
    for name, x in arrays.items():
        np.save(f"{folder}/{name}.npy", x.astype("<f4"))


def make_baichuan(root, name, c):
    """Llama's graph; of 40 layers without rope, with linear biases (Press et al.), which the mask holds."""
    config, seed = c["config"], zlib.crc32(name.encode())
    run = {**config, "model_type": "llama", "num_key_value_heads": config["num_attention_heads"], "rope_theta": 1e4}
    model, _ = archs.build({k: v for k, v in run.items() if k not in ("torch_dtype", "architectures")})
    weights = archs.fill(model, "llama", seed)
    ids = np.random.default_rng(seed + 1).integers(3, VOCAB, c["n"])
    mask = None
    with torch.no_grad():
        if config["num_hidden_layers"] == 40:
            heads, at = config["num_attention_heads"], torch.arange(c["n"])
            slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)
            away = (at[None] - at[:, None]).double()
            mask = (slopes[:, None, None] * away).masked_fill(away > 0, -torch.inf)[None]
            model.model.rotary_emb.inv_freq.zero_()
        if "z_loss_weight" in config:
            model.lm_head.weight.copy_(torch.nn.functional.normalize(model.lm_head.weight))
        out = model(torch.from_numpy(ids)[None], attention_mask=mask, output_hidden_states=True)
    y, hidden = out.logits[0].numpy(), out.hidden_states[-1][0].numpy()
    save_case(f"{root}/{name}", c, "text", ids, weights, logits=y, pooled=hidden.mean(0))
    print(f"{name:20} deviation {y.std():.2f}")


def make_scores(root, name, c):
    config, seed = c["config"], zlib.crc32(name.encode())
    run = transformers.AutoConfig.for_model(**{k: v for k, v in config.items() if k != "torch_dtype"})
    model = transformers.AutoModelForSequenceClassification.from_config(run, attn_implementation="eager").eval().double()
    weights = archs.fill(model, "qwen3", seed)
    ids = np.random.default_rng(seed + 1).integers(3, VOCAB, c["n"])
    with torch.no_grad():
        y = model(torch.from_numpy(ids)[None]).logits[0].numpy()
    save_case(f"{root}/{name}", c, "embed", ids, weights, pooled=y)
    print(f"{name:20} {y}")


def main(args):
    archs.HERE, archs.CASES, archs.draw = HERE, CASES, dense.coarse_draw
    if args[:1] == ["--pack"]:
        return archs.pack(args[1], "further.tar.xz")
    archs.everything_double()
    root = args[0] if args else "build/further-made"
    for name in args[1:] or CASES:
        config = CASES[name]["config"]
        own = make_baichuan if config["model_type"] == "baichuan" else make_scores if "id2label" in config else archs.make
        own(root, name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
