#!/usr/bin/env python3
"""make.py - made models of the dense architectures and encoders that came after those of tests/llm/dense, classifiers and
rerankers, and what transformers computes.

    pip install torch transformers numpy        (made with torch 2.15.0, transformers 5.24.0)
    tests/llm/rows/make.py [DIRECTORY [NAME...]]   (default: build/rows-made; NAME: only these)
    tests/llm/rows/make.py --pack DIRECTORY        (writes tests/llm/rows/rows.tar.xz)

Directories and files are those of tests/llm/archs/make.py, whose functions these are; of classifiers pooled.npy holds the
scores. Weights are few different values, so that the archive stays small.
"""
import importlib.util, json, os, sys, zlib

import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name, folder="dense"):
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", f"{HERE}/../{folder}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


dense = load("make")
archs = dense.archs
WIDTH, VOCAB, case, text = archs.WIDTH, archs.VOCAB, dense.case, dense.text
YES, NO = 72, 73  # tokens of the dress "reranker" (ggufs.py)


def qwen3(**more):
    return text("Qwen3ForCausalLM", "qwen3", head_dim=16, rope_theta=1e6, attention_bias=False, use_sliding_window=False,
                sliding_window=None, **more)


def labels(*names):
    return {"id2label": {str(i): n for i, n in enumerate(names)}, "label2id": {n: i for i, n in enumerate(names)}}


def bert(*names):
    return archs.bert(architectures=["BertForSequenceClassification"], **labels(*names))


def modernbert(*names, **more):
    return dense.modernbert(architectures=["ModernBertForSequenceClassification"], classifier_activation="gelu",
                            classifier_bias=False, **labels(*names), **more)


def minicpm(run, **more):
    """With MiniCPM's names of the scales; to run, those of Granite, whose graph is the same."""
    layers, width, base = 2, WIDTH, 16
    c = text("MiniCPMForCausalLM", "minicpm", rms_norm_eps=0.02, **more)
    if not run:
        return {**c, "scale_emb": 6.0, "scale_depth": 0.7, "dim_model_base": base}
    return {**c, "architectures": ["GraniteForCausalLM"], "model_type": "granite", "embedding_multiplier": 6.0,
            "residual_multiplier": float(np.float32(0.7 / np.sqrt(layers))), "logits_scaling": width / base,
            "attention_multiplier": (width / c["num_attention_heads"]) ** -0.5}


def apertus(**more):
    return text("ApertusForCausalLM", "apertus", rms_norm_eps=0.02, hidden_act="xielu", attention_bias=False, pad_token_id=0,
                rope_theta=1000.0, rope_scaling=archs.LLAMA3, **more)


def curve_buffers(w):
    """Buffers of the curve are tensors too."""
    out = dict(w)
    for k in w:
        if k.endswith("alpha_p"):
            out[k.replace("alpha_p", "beta")] = np.array(0.5, np.float32)
            out[k.replace("alpha_p", "eps")] = np.array(-1e-6, np.float32)
    return out


def mpt(**more):
    attention = {"attn_type": "multihead_attention", "alibi": True, "alibi_bias_max": 8, "clip_qkv": None, "softmax_scale": None,
                 "qk_ln": False, "prefix_lm": False, "attn_uses_sequence_id": False, "attn_impl": "torch"}
    return {"architectures": ["MPTForCausalLM"], "model_type": "mpt", "vocab_size": VOCAB, "d_model": WIDTH, "n_heads": 4,
            "n_layers": 2, "expansion_ratio": 4, "max_seq_len": 128, "no_bias": True, "layer_norm_epsilon": 1e-5,
            "attn_config": {**attention, **more.pop("attn_config", {})}, "torch_dtype": "float32", **more}


JINA = {"architectures": ["JinaBertForMaskedLM"], "model_type": "bert", "vocab_size": VOCAB, "hidden_size": 48,
        "num_hidden_layers": 2, "num_attention_heads": 6, "intermediate_size": 40, "max_position_embeddings": 8192,
        "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 0.01, "pad_token_id": 0,
        "position_embedding_type": "alibi", "feed_forward_type": "geglu", "emb_pooler": "mean", "torch_dtype": "float32"}


def alibi_slopes(heads):
    """Of Press et al.; for a number that is no power of two those of half the power above lie between."""
    power = 2 ** int(np.floor(np.log2(heads)))
    near = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    return np.array(near + [2.0 ** (-4.0 * (2 * i + 1) / power) for i in range(heads - power)])


def make_jina(root, name, c):
    """BERT whose attention has linear biases in both directions and whose feed-forward has a gate; transformers has no code for
    it (the model's own is modeling_bert.py of jinaai/jina-bert-implementation)."""
    config, seed = c["config"], zlib.crc32(name.encode())
    width, heads, ff, types = config["hidden_size"], config["num_attention_heads"], config["intermediate_size"], 2
    shapes = {"embeddings.word_embeddings.weight": (VOCAB, width), "embeddings.token_type_embeddings.weight": (types, width),
              "embeddings.LayerNorm.weight": (width,), "embeddings.LayerNorm.bias": (width,)}
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            shapes |= {f"{layer}attention.self.{part}.weight": (width, width), f"{layer}attention.self.{part}.bias": (width,)}
        shapes |= {f"{layer}attention.output.dense.weight": (width, width), f"{layer}attention.output.dense.bias": (width,),
                   f"{layer}mlp.gated_layers.weight": (2 * ff, width), f"{layer}mlp.wo.weight": (width, ff),
                   f"{layer}mlp.wo.bias": (width,)}
        for norm in ("attention.output.LayerNorm", "mlp.layernorm"):
            shapes |= {f"{layer}{norm}.weight": (width,), f"{layer}{norm}.bias": (width,)}
    rng = np.random.default_rng(seed)
    w = {k: dense.coarse_draw(rng, k, s, "bert").view(np.float32) for k, s in shapes.items()}
    t = {k: torch.from_numpy(v.astype(np.float64)) for k, v in w.items()}
    ids = np.random.default_rng(seed + 1).integers(3, VOCAB, c["n"])

    def norm(x, key):
        return torch.nn.functional.layer_norm(x, (width,), t[key + ".weight"], t[key + ".bias"], config["layer_norm_eps"])

    def linear(x, key):
        return x @ t[key + ".weight"].T + t.get(key + ".bias", 0)

    x = norm(t["embeddings.word_embeddings.weight"][ids] + t["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    at = torch.arange(len(ids))
    bias = -torch.from_numpy(alibi_slopes(heads))[:, None, None] * (at[None] - at[:, None]).abs()
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        q, k, v = (linear(x, f"{layer}attention.self.{p}").reshape(len(ids), heads, -1).transpose(0, 1) for p in ("query", "key", "value"))
        share = torch.softmax(q @ k.transpose(1, 2) / (width / heads) ** 0.5 + bias, -1)
        y = (share @ v).transpose(0, 1).reshape(len(ids), width)
        x = norm(linear(y, f"{layer}attention.output.dense") + x, f"{layer}attention.output.LayerNorm")
        both = linear(x, f"{layer}mlp.gated_layers")
        y = linear(torch.nn.functional.gelu(both[:, :ff]) * both[:, ff:], f"{layer}mlp.wo")
        x = norm(y + x, f"{layer}mlp.layernorm")
    x = x.numpy()
    folder = f"{root}/{name}"
    os.makedirs(folder, exist_ok=True)
    archs.save_json(f"{folder}/config.json", config)
    archs.save_json(f"{folder}/case.json", {"kind": "embed", "ids": ids.tolist()})
    archs.save_weights(folder, w, c["dtype"], c["shards"])
    np.save(f"{folder}/hidden.npy", x.astype("<f4"))
    archs.save_pooling(folder, "mean")
    np.save(f"{folder}/pooled.npy", x.mean(0).astype("<f4"))
    print(f"{name:20} deviation {x.std():.2f}")


def t5(**more):
    return {"architectures": ["T5EncoderModel"], "model_type": "t5", "vocab_size": VOCAB, "d_model": WIDTH, "d_kv": 12,
            "d_ff": 40, "num_layers": 3, "num_heads": 4, "relative_attention_num_buckets": 16,
            "relative_attention_max_distance": 128, "layer_norm_epsilon": 0.01, "feed_forward_proj": "relu", "n_positions": 512,
            "is_encoder_decoder": False, "use_cache": False, "pad_token_id": 0, "eos_token_id": 1,
            "torch_dtype": "float32", **more}


def make_t5(root, name, c):
    config, seed = c["config"], zlib.crc32(name.encode())
    run = transformers.T5Config(**{k: v for k, v in config.items() if k not in ("architectures", "torch_dtype", "model_type")})
    run._attn_implementation = "eager"
    model = transformers.T5EncoderModel(run).eval().double()
    weights = archs.fill(model, "t5", seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "relative_attention_bias" in key:
                p.mul_(3)
                weights[key] = p.numpy().astype(np.float32)
    weights = {k: v for k, v in weights.items() if k != "encoder.embed_tokens.weight"}
    ids = np.random.default_rng(seed + 1).integers(3, VOCAB, c["n"])
    with torch.no_grad():
        x = model(torch.from_numpy(ids)[None]).last_hidden_state[0].numpy()
    folder = f"{root}/{name}"
    os.makedirs(folder, exist_ok=True)
    archs.save_json(f"{folder}/config.json", config)
    archs.save_json(f"{folder}/case.json", {"kind": "embed", "ids": ids.tolist()})
    archs.save_weights(folder, weights, c["dtype"], c["shards"])
    np.save(f"{folder}/hidden.npy", x.astype("<f4"))
    np.save(f"{folder}/pooled.npy", x.mean(0).astype("<f4"))
    print(f"{name:20} deviation {x.std():.2f}")


CASES = {
    "t5": case(t5(), n=60),
    "t5-gated": case(t5(feed_forward_proj="gated-gelu", relative_attention_num_buckets=32), n=200),
    "mpt": case(mpt(), n=20),
    "mpt-clip": case(mpt(d_model=48, n_heads=6, attn_config={"clip_qkv": 1.0}), n=20),
    "jina-bert-v2": case(JINA, n=20),
    "minicpm": case(minicpm(False, tie_word_embeddings=True), run=minicpm(True, tie_word_embeddings=True)),
    "minicpm-long": case(minicpm(False, **archs.longrope(4)), run=minicpm(True, **archs.longrope(4)), n=40),
    "apertus": case(apertus(), names=curve_buffers, n=20),
    "bert-labels": case(bert("good", "bad", "ugly")),
    "bert-rank": case(bert("LABEL_0")),
    "modernbert-labels": case(modernbert("yes", "no", classifier_pooling="cls")),
    "modernbert-mean": case(modernbert("LABEL_0", classifier_pooling="mean")),
    "qwen3-reranker": case(qwen3(tie_word_embeddings=True, _name_or_path="Qwen/Qwen3-Reranker-0.6B")),
    "qwen3-reranker-untied": case(qwen3(tie_word_embeddings=False, _name_or_path="Qwen/Qwen3-Reranker-8B")),
}


# ---- scores -------------------------------------------------------------------------------------

def classifier(config):
    config = transformers.AutoConfig.for_model(**json.loads(json.dumps(config)))
    config._attn_implementation = "eager"
    return transformers.AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").eval().double()


def make_scores(root, name, c):
    """A classifier, or a reranker of Qwen 3: the shares of the logits of two tokens."""
    config, seed = c["config"], zlib.crc32(name.encode())
    reranks = config["model_type"] == "qwen3"
    model = archs.build(config)[0] if reranks else classifier(config)
    weights = archs.fill(model, config["model_type"], seed)
    ids = np.random.default_rng(seed + 1).integers(3, VOCAB, c["n"])
    with torch.no_grad():
        y = model(torch.from_numpy(ids)[None]).logits[0]
    y = (torch.softmax(y[-1, [YES, NO]], -1) if reranks else y).numpy()
    folder = f"{root}/{name}"
    os.makedirs(folder, exist_ok=True)
    archs.save_json(f"{folder}/config.json", config)
    archs.save_json(f"{folder}/case.json", {"kind": "embed", "ids": ids.tolist()})
    archs.save_weights(folder, weights, c["dtype"], c["shards"])
    np.save(f"{folder}/pooled.npy", y.astype("<f4"))
    if reranks:
        tokenizer, _ = load("ggufs", "rows").dress_reranker(folder)
        archs.save_json(f"{folder}/tokenizer.json", tokenizer)
    print(f"{name:20} {y}")


def main(args):
    archs.HERE, archs.CASES, archs.draw = HERE, CASES, dense.coarse_draw
    archs.EMBED += ("modernbert",)
    if args[:1] == ["--pack"]:
        return archs.pack(args[1], "rows.tar.xz")
    archs.everything_double()
    root = args[0] if args else "build/rows-made"
    for name in args[1:] or CASES:
        c = CASES[name]
        scores = "id2label" in c["config"] or "reranker" in name
        other = {"jina": make_jina, "t5": make_t5}.get(name.split("-")[0], archs.make)
        (make_scores if scores else other)(root, name, c)


if __name__ == "__main__":
    main(sys.argv[1:])
