#!/usr/bin/env python3
"""make.py - made models of every architecture, and what transformers computes of them.

    pip install torch transformers numpy        (made with torch 2.15.0, transformers 5.23.0)
    tests/llm/archs/make.py [DIRECTORY [NAME...]]   (default: build/archs-made; NAME: only these)
    tests/llm/archs/make.py --pack DIRECTORY        (writes tests/llm/archs/archs.tar.xz)
    tests/llm/archs/make.py --mutate

Each model is a Hugging Face directory: config.json as those on the hub look, model.safetensors with
the names they have there, and beside it case.json {"kind": "text" | "embed", "ids": [...]}, and
    logits.npy  f32 [n, vocab]       text: the logits after each id
    hidden.npy  f32 [n, width]       embed: the last hidden states
    pooled.npy  f32 [width]          the mean of the last hidden states (of text: after the last
                                     norm), or what 1_Pooling/config.json says
Weights are random, norms and biases too, and epsilons large, so that nothing that a row says can be
left out unseen (--mutate shows it: by how much the logits move when one thing is said otherwise).
They are values of bfloat16, whatever the file's dtype: that packs well. The model runs in float64,
also where transformers' code says float32 (see `everything_double`).
"""
import copy, functools, io, json, lzma, os, struct, sys, tarfile, zlib

import numpy as np
import torch
import transformers

transformers.logging.set_verbosity_error()
HERE = os.path.dirname(os.path.abspath(__file__))

# ---- models -------------------------------------------------------------------------------------

WIDTH, HEADS, KV, FF, VOCAB = 32, 4, 2, 48, 96
TEXT = dict(vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS,
            num_key_value_heads=KV, intermediate_size=FF, max_position_embeddings=128,
            rms_norm_eps=0.01, rope_theta=10000.0, hidden_act="silu", tie_word_embeddings=False,
            bos_token_id=1, eos_token_id=2, torch_dtype="float32")


def text(cls, model_type, **more):
    return {"architectures": [cls], "model_type": model_type, **TEXT, **more}


def llama(**more):
    return text("LlamaForCausalLM", "llama", **more)


def gemma2(**more):
    c = text("Gemma2ForCausalLM", "gemma2", head_dim=16, rms_norm_eps=0.02, tie_word_embeddings=True,
             query_pre_attn_scalar=24, sliding_window=8, attn_logit_softcapping=2.0,
             final_logit_softcapping=9.0, hidden_activation="gelu_pytorch_tanh", **more)
    c["hidden_act"] = "gelu_pytorch_tanh"
    return c


def gemma3(**more):
    c = text("Gemma3ForCausalLM", "gemma3_text", head_dim=16, rms_norm_eps=0.02,
             tie_word_embeddings=True, query_pre_attn_scalar=24, sliding_window=8,
             sliding_window_pattern=6, attn_logit_softcapping=None, final_logit_softcapping=None,
             rope_local_base_freq=100.0, hidden_activation="gelu_pytorch_tanh", **more)
    del c["hidden_act"]
    return c


def with_vision(c):
    return {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
            "text_config": {k: v for k, v in c.items() if k != "architectures"},
            "vision_config": {"hidden_size": 4, "num_hidden_layers": 1}}


def phi3(**more):
    return text("Phi3ForCausalLM", "phi3", **{"original_max_position_embeddings": 128,
                                              "rope_scaling": None, "sliding_window": None,
                                              "partial_rotary_factor": 1.0, "pad_token_id": 0,
                                              **more})


def longrope(half):
    return dict(max_position_embeddings=128, original_max_position_embeddings=32, rope_scaling={
        "type": "longrope", "short_factor": [1 + .1 * i for i in range(half)],
        "long_factor": [1.5 + 1.5 * i for i in range(half)]})


def gpt2(**more):
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": VOCAB,
            "n_ctx": 64, "n_positions": 64, "n_embd": WIDTH, "n_layer": 2, "n_head": HEADS,
            "activation_function": "gelu_new", "layer_norm_epsilon": 0.01, "bos_token_id": 1,
            "eos_token_id": 1, **more}


def bert(**more):
    return {"architectures": ["BertModel"], "model_type": "bert", "vocab_size": VOCAB,
            "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS,
            "intermediate_size": FF, "max_position_embeddings": 64, "type_vocab_size": 2,
            "hidden_act": "gelu", "layer_norm_eps": 0.01, "pad_token_id": 0, **more}


NOMIC = {"architectures": ["NomicBertModel"], "model_type": "nomic_bert", "vocab_size": VOCAB,
         "activation_function": "swiglu", "causal": False, "layer_norm_epsilon": 0.01,
         "max_trained_positions": 2048, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "n_embd": WIDTH,
         "n_head": HEADS, "n_inner": FF, "n_layer": 2, "n_positions": 8192, "parallel_block": False,
         "prenorm": False, "qkv_proj_bias": False, "rotary_emb_base": 1000,
         "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
         "rotary_scaling_factor": None, "type_vocab_size": 2, "use_rms_norm": False}

# What the model on the hub calls by names of its own, in transformers' names.
NOMIC_AS = {"model_type": "nomic_bert", "vocab_size": VOCAB, "hidden_size": WIDTH,
            "num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": FF,
            "hidden_act": "silu", "max_position_embeddings": 2048, "type_vocab_size": 2,
            "layer_norm_eps": 0.01,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}}


# ---- names in the files ------------------------------------------------------------------------

def gpt2_hub(w):
    """The oldest checkpoints: no 'transformer.', and masks among the weights."""
    w = {k.removeprefix("transformer."): v for k, v in w.items()}
    for i in range(2):
        w[f"h.{i}.attn.bias"] = np.tril(np.ones((1, 1, 64, 64), np.float32))
    return w


def bert_hub(w):
    """bert-base-uncased: a prefix, gamma and beta, and heads that nobody asks for."""
    out = {"bert." + k.replace("LayerNorm.weight", "LayerNorm.gamma")
           .replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in w.items()}
    out["cls.predictions.bias"] = np.zeros(VOCAB, np.float32)
    out["cls.predictions.transform.dense.weight"] = np.zeros((WIDTH, WIDTH), np.float32)
    out["cls.predictions.transform.dense.bias"] = np.zeros(WIDTH, np.float32)
    out["cls.predictions.transform.LayerNorm.gamma"] = np.ones(WIDTH, np.float32)
    out["cls.predictions.transform.LayerNorm.beta"] = np.zeros(WIDTH, np.float32)
    out["cls.seq_relationship.weight"] = np.zeros((2, WIDTH), np.float32)
    out["cls.seq_relationship.bias"] = np.zeros(2, np.float32)
    return out


def bert_sentence(w):
    """sentence-transformers: position numbers among the weights."""
    return {"embeddings.position_ids": np.arange(64, dtype=np.int64)[None], **w}


def nomic_hub(w):
    out, qkv = {}, {}
    names = [("embeddings.LayerNorm", "emb_ln"), ("self_attn.o_proj", "attn.out_proj"),
             ("up_proj", "fc11"), ("gate_proj", "fc12"), ("down_proj", "fc2"),
             ("post_attention_layernorm", "norm1"), ("post_mlp_layernorm", "norm2")]
    for k, v in w.items():
        k = "encoder." + k if k.startswith("layers.") else k
        for ours, theirs in names:
            k = k.replace(ours, theirs)
        if "self_attn." in k:
            qkv.setdefault(k.split("self_attn.")[0], {})[k.split("self_attn.")[1][0]] = v
        else:
            out[k] = v
    for k, v in qkv.items():
        out[k + "attn.Wqkv.weight"] = np.concatenate([v["q"], v["k"], v["v"]])
    return out


def inv_freq(w):
    """Checkpoints before 2023 hold the frequencies of each layer."""
    for i in range(2):
        w[f"model.layers.{i}.self_attn.rotary_emb.inv_freq"] = (
            10000.0 ** (-np.arange(0, 8, 2) / 8)).astype(np.float32)
    return w


def under(prefix):
    return lambda w: {prefix + k: v for k, v in w.items()}


def beside_vision(model, head):
    """Text models that come with eyes: prefixes, and weights of no use to us."""
    def names(w):
        out = {"vision_tower.vision_model.embeddings.patch_embedding.bias": np.zeros(4, np.float32),
               "multi_modal_projector.mm_input_projection_weight": np.zeros((4, 4), np.float32)}
        return {**out, **{k.replace("model.", model, 1) if k != "lm_head.weight" else head: v
                          for k, v in w.items()}}
    return names


def bare(w):
    """A base model: no 'model.', and no head."""
    return {k.removeprefix("model."): v for k, v in w.items() if k != "lm_head.weight"}


def w_experts(w):
    """Mixtral's and Phi-3.5-MoE's names: w1 (gate), w2 (down) and w3 (up) of each expert."""
    return apart(w, "block_sparse_moe", ("w1", "w3", "w2"))


def mlp_experts(w):
    return apart(w, "mlp", ("gate_proj", "up_proj", "down_proj"))


def apart(w, block, names):
    """transformers 5 holds experts in one tensor of gate over up, and one of down; files do not."""
    out = {}
    for k, v in w.items():
        k = k.replace(".mlp.", f".{block}.").replace("block_sparse_moe.router.", "block_sparse_moe.gate.")
        k = k.replace("mlp.gate.moe_statics", "mlp.moe_statics")
        if not k.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[k] = v
            continue
        half = v.shape[1] // 2
        parts = [v[:, :half], v[:, half:]] if "gate_up" in k else [v]
        for name, part in zip(names[:2] if "gate_up" in k else names[2:], parts):
            for e in range(len(v)):
                out[f"{k[:k.rindex('.')]}.{e}.{name}.weight"] = np.ascontiguousarray(part[e])
    return out


def granite_experts(w):
    """The names of JetMoe."""
    names = {"experts.gate_up_proj": "input_linear.weight", "experts.down_proj": "output_linear.weight",
             "router.weight": "router.layer.weight"}
    out = {}
    for k, v in w.items():
        for ours, theirs in names.items():
            if "block_sparse_moe" in k and k.endswith(ours):
                k = k[:-len(ours)] + theirs
        out[k] = v
    return out


# ---- cases --------------------------------------------------------------------------------------

def case(config, n=24, names=None, dtype="f32", shards=1, v5=False, run=None, pooling=None):
    return dict(config=config, n=n, names=names, dtype=dtype, shards=shards, v5=v5, run=run,
                pooling=pooling)


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
GRANITE = dict(embedding_multiplier=6.0, attention_multiplier=0.2, residual_multiplier=0.4,
               logits_scaling=3.0, attention_bias=False, mlp_bias=False, tie_word_embeddings=True)

MOE = dict(num_hidden_layers=2, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, output_router_logits=False)
MIXTRAL = dict(intermediate_size=24, num_hidden_layers=2, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)


def ernie(**more):
    return text("Ernie4_5_MoeForCausalLM", "ernie4_5_moe", **{
        "num_hidden_layers": 2, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16, "moe_num_shared_experts": 1,
        "moe_layer_start_index": 1, "moe_layer_end_index": 1, "moe_layer_interval": 1, "use_bias": False, "pad_token_id": 0, **more})


def glm4(**more):
    return text("Glm4MoeForCausalLM", "glm4_moe", **{
        "num_hidden_layers": 2, "head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "n_shared_experts": 1, "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.8, "n_group": 1,
        "topk_group": 1, "attention_bias": True, "use_qk_norm": False, "partial_rotary_factor": 0.5, "pad_token_id": 0, **more})


PHIMOE = dict(intermediate_size=24, num_hidden_layers=2, num_local_experts=4, num_experts_per_tok=2, sliding_window=None, attention_bias=True,
              lm_head_bias=True, router_jitter_noise=0.01, pad_token_id=0, original_max_position_embeddings=128)


def phimoe_long():
    scaling = {"type": "longrope", "short_factor": [1 + .1 * i for i in range(4)], "long_factor": [1.5 + 1.5 * i for i in range(4)],
               "short_mscale": 1.25, "long_mscale": 1.25, "original_max_position_embeddings": 32}
    return {**PHIMOE, "original_max_position_embeddings": 32, "rope_scaling": scaling}


CASES = {
    "mixtral": case(text("MixtralForCausalLM", "mixtral", rope_theta=1e6, **MIXTRAL), names=w_experts),
    "mixtral-bf16": case(text("MixtralForCausalLM", "mixtral", torch_dtype="bfloat16", **MIXTRAL), names=w_experts, dtype="bf16",
                         shards=2),
    "qwen2moe": case(text("Qwen2MoeForCausalLM", "qwen2_moe", shared_expert_intermediate_size=24, norm_topk_prob=False,
                          decoder_sparse_step=1, use_sliding_window=False, **MOE), names=mlp_experts),
    "qwen2moe-normed": case(text("Qwen2MoeForCausalLM", "qwen2_moe", shared_expert_intermediate_size=24, norm_topk_prob=True,
                                 decoder_sparse_step=2, use_sliding_window=False, **MOE), names=mlp_experts),
    "qwen3moe": case(text("Qwen3MoeForCausalLM", "qwen3_moe", head_dim=16, norm_topk_prob=True, decoder_sparse_step=1,
                          mlp_only_layers=[], use_sliding_window=False, attention_bias=False, **MOE), names=mlp_experts),
    "qwen3moe-mixed": case(text("Qwen3MoeForCausalLM", "qwen3_moe", head_dim=16, norm_topk_prob=False, decoder_sparse_step=1,
                                mlp_only_layers=[0], use_sliding_window=False, attention_bias=False, **MOE), names=mlp_experts),
    "olmoe": case(text("OlmoeForCausalLM", "olmoe", intermediate_size=24, num_hidden_layers=2, num_experts=4, num_experts_per_tok=2, clip_qkv=None,
                       norm_topk_prob=False, pad_token_id=0), names=mlp_experts),
    "granitemoe": case(text("GraniteMoeForCausalLM", "granitemoe", intermediate_size=24, num_local_experts=4, num_experts_per_tok=2,
                            num_hidden_layers=2, **{k: v for k, v in GRANITE.items() if k != "mlp_bias"}), names=granite_experts),
    "granitemoe-shared": case(text("GraniteMoeSharedForCausalLM", "granitemoeshared", intermediate_size=24, num_local_experts=4, num_experts_per_tok=2,
                                   num_hidden_layers=2, shared_intermediate_size=40,
                                   **{k: v for k, v in GRANITE.items() if k != "mlp_bias"}), names=granite_experts),
    "phimoe": case(text("PhiMoEForCausalLM", "phimoe", **PHIMOE), names=w_experts),
    "phimoe-long": case(text("PhiMoEForCausalLM", "phimoe", **phimoe_long()), names=w_experts, n=40),
    "ernie4_5_moe": case(ernie(), names=mlp_experts),
    "ernie4_5_moe-two": case(ernie(moe_num_shared_experts=2, moe_layer_interval=2, moe_layer_start_index=0, tie_word_embeddings=True),
                             names=mlp_experts),
    "glm4_moe": case(glm4(), names=mlp_experts),
    "glm4_moe-groups": case(glm4(n_group=2, topk_group=1, use_qk_norm=True, attention_bias=False, norm_topk_prob=False),
                            names=mlp_experts),
    "llama": case(llama(rope_scaling=None)),
    "llama-tied": case(llama(tie_word_embeddings=True)),
    "llama-mha": case(llama(num_key_value_heads=HEADS), names=inv_freq),
    "llama-llama3": case(llama(head_dim=16, rope_theta=1000.0, rope_scaling=LLAMA3), n=40),
    "llama-linear": case(llama(rope_scaling={"type": "linear", "factor": 4.0}), n=40),
    "llama-yarn": case(llama(head_dim=16, rope_scaling=YARN), n=40),
    "llama-yarn-v5": case(llama(head_dim=16, rope_scaling={
        **YARN, "beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.3}), n=40, v5=True),
    "llama-biases": case(llama(attention_bias=True, mlp_bias=True)),
    "llama-head": case(llama(head_dim=16)),
    "llama-bf16": case(llama(torch_dtype="bfloat16"), dtype="bf16"),
    "llama-f16": case(llama(torch_dtype="float16"), dtype="f16"),
    "llama-shards": case(llama(), shards=3),
    "llama-foreign": case(llama(), names=under("base.")),
    "llama-bare": case(llama(tie_word_embeddings=True), names=bare),
    "llama-v5": case(llama(rope_theta=5e5), v5=True),
    "mistral": case(text("MistralForCausalLM", "mistral", sliding_window=None)),
    "mistral-window": case(text("MistralForCausalLM", "mistral", sliding_window=8)),
    "qwen2": case(text("Qwen2ForCausalLM", "qwen2", rope_theta=1e6, tie_word_embeddings=True,
                       use_sliding_window=False, sliding_window=8, max_window_layers=2)),
    "qwen2-window": case(text("Qwen2ForCausalLM", "qwen2", rope_theta=1e6, use_sliding_window=True,
                              sliding_window=8, max_window_layers=1)),
    "qwen2-yarn": case(text("Qwen2ForCausalLM", "qwen2", rope_scaling=YARN,
                            use_sliding_window=False), n=40),
    "qwen3": case(text("Qwen3ForCausalLM", "qwen3", head_dim=16, rope_theta=1e6,
                       attention_bias=False, use_sliding_window=False, sliding_window=None,
                       tie_word_embeddings=True)),
    "qwen3-bf16": case(text("Qwen3ForCausalLM", "qwen3", head_dim=16, rope_theta=1e6,
                            attention_bias=False, torch_dtype="bfloat16"), dtype="bf16"),
    "gemma2": case(gemma2()),
    "gemma3": case(gemma3()),
    "gemma3-seven": case(gemma3(num_hidden_layers=7)),
    "gemma3-linear": case(gemma3(num_hidden_layers=7,
                                 rope_scaling={"rope_type": "linear", "factor": 8.0})),
    "gemma3-v5": case(gemma3(num_hidden_layers=7), v5=True),
    "gemma3-vision": case(with_vision(gemma3()), run=gemma3(),
                          names=beside_vision("language_model.model.", "language_model.lm_head.weight")),
    "gemma3-vision-v5": case(with_vision(gemma3()), run=gemma3(),
                             names=beside_vision("model.language_model.", "lm_head.weight")),
    "phi3": case(phi3()),
    "phi3-window": case(phi3(sliding_window=8)),
    "phi3-partial": case(phi3(partial_rotary_factor=0.5)),
    "phi3-long-below": case(phi3(**longrope(4)), n=24),
    "phi3-long-above": case(phi3(**longrope(4)), n=40),
    "phi3-long-partial": case(phi3(partial_rotary_factor=0.5, **longrope(2)), n=40),
    "gpt2": case(gpt2()),
    "gpt2-hub": case(gpt2(), names=gpt2_hub),
    "smollm3": case(text("SmolLM3ForCausalLM", "smollm3", num_hidden_layers=5, rope_theta=5e4,
                         no_rope_layer_interval=4, no_rope_layers=[1, 1, 1, 0, 1],
                         use_sliding_window=False, attention_bias=False, mlp_bias=False,
                         tie_word_embeddings=True, pad_token_id=0)),
    "smollm3-default": case(text("SmolLM3ForCausalLM", "smollm3", num_hidden_layers=5,
                                 rope_theta=5e4, pad_token_id=0)),
    "olmo2": case(text("Olmo2ForCausalLM", "olmo2", rms_norm_eps=0.02, rope_theta=5e5,
                       attention_bias=False, pad_token_id=0)),
    "granite": case(text("GraniteForCausalLM", "granite", **GRANITE)),
    "bert": case(bert()),
    "bert-hub": case(bert(architectures=["BertForMaskedLM"]), names=bert_hub),
    "bert-cls": case(bert(), names=bert_sentence, pooling="cls"),
    "nomic-bert": case(NOMIC, names=nomic_hub, run=NOMIC_AS),
    "nomic-bert-v5": case({"architectures": ["NomicBertModel"], **NOMIC_AS}, names=nomic_hub),
}
EMBED = ("bert", "nomic_bert")

# ---- weights ------------------------------------------------------------------------------------


def draw(rng, name, shape, model_type):
    """Values that matter: norms about 1 (gemma: 0), biases of a third, matrices that keep sums near 1."""
    norm = ("norm" in name.lower() or ".ln_" in name) and name.endswith("weight")
    if norm:
        centre = 0.0 if model_type.startswith("gemma") else 1.0
        x = centre + .3 * rng.standard_normal(shape)
    elif name.endswith("bias"):
        x = .3 * rng.standard_normal(shape)
    elif "embed" in name or name.endswith(("wte.weight", "wpe.weight")):
        x = rng.standard_normal(shape)
    else:
        fan_in = shape[0] if model_type == "gpt2" else shape[-1]
        x = 1.2 / np.sqrt(fan_in) * rng.standard_normal(shape)
    return to_bf16(x.astype(np.float32)).astype(np.uint32) << 16


def to_bf16(x):
    """The upper halves of f32, to nearest even."""
    u = x.view(np.uint32)
    return ((u + 0x7fff + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def fill(model, model_type, seed):
    rng = np.random.default_rng(seed)
    weights = {}
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            x = draw(rng, name, tuple(p.shape), model_type).view(np.float32)
            p.copy_(torch.from_numpy(x.copy()))
            weights[name] = x
        for name, b in sorted(model.named_buffers()):
            if name.endswith(("e_score_correction_bias", "expert_bias")):  # what the choice of experts goes by, beside scores below 1
                x = draw(rng, name, tuple(b.shape), model_type).view(np.float32)
                b.copy_(torch.from_numpy(x.copy()))
                weights[name] = x
    return weights  # tied ones once


# ---- files --------------------------------------------------------------------------------------

def safetensors(path, weights, dtype):
    """Header (u64 length, JSON), then the tensors, as the format's README has it."""
    head, data = {"__metadata__": {"format": "pt"}}, b""
    for name, x in weights.items():
        if x.dtype == np.int64:
            kind, raw = "I64", x.tobytes()
        elif x.dtype == np.uint8:
            kind, raw = "U8", x.tobytes()
        elif dtype == "bf16":
            kind, raw = "BF16", to_bf16(x).tobytes()
        else:
            kind, raw = ("F16", x.astype(np.float16).tobytes()) if dtype == "f16" else \
                        ("F32", x.tobytes())
        head[name] = {"dtype": kind, "shape": list(x.shape),
                      "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def save_weights(folder, weights, dtype, shards):
    if shards == 1:
        return safetensors(f"{folder}/model.safetensors", weights, dtype)
    files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    where = {name: files[i % shards] for i, name in enumerate(weights)}
    for file in files:
        safetensors(f"{folder}/{file}", {k: v for k, v in weights.items() if where[k] == file},
                    dtype)
    size = sum(v.nbytes for v in weights.values())
    save_json(f"{folder}/model.safetensors.index.json",
              {"metadata": {"total_size": size}, "weight_map": where})


def save_json(path, what):
    with open(path, "w") as f:
        json.dump(what, f, indent=1)
        f.write("\n")


def save_pooling(folder, pooling):
    """As sentence-transformers says it."""
    os.makedirs(f"{folder}/1_Pooling", exist_ok=True)
    save_json(f"{folder}/1_Pooling/config.json",
              {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": pooling == "cls",
               "pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_max_tokens": False,
               **({"pooling_mode_lasttoken": True} if pooling == "last" else {})})
    save_json(f"{folder}/modules.json", [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])


# ---- running ------------------------------------------------------------------------------------

def everything_double():
    """transformers' norms, softmaxes and rotations say float32: here that word means float64."""
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double


def build(config):
    config = transformers.AutoConfig.for_model(**copy.deepcopy(config))  # it writes into dicts
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    embed = config.model_type in EMBED
    if config.model_type == "bert":
        from transformers import BertModel
        model = BertModel(config, add_pooling_layer=False)
    else:
        auto = transformers.AutoModel if embed else transformers.AutoModelForCausalLM
        model = auto.from_config(config, attn_implementation="eager")
    if config.model_type == "phimoe" and config.rope_parameters["rope_type"] == "longrope":
        # Microsoft's own code takes the factors by the length of the text; here transformers always takes the short ones.
        # The cases of this file are longer than the original context.
        for module in model.modules():
            if hasattr(module, "rope_init_fn"):
                module.rope_init_fn = functools.partial(module.rope_init_fn, seq_len=40)
    return model.eval().double(), embed


def forward(model, embed, ids):
    """Hidden states after the last norm [n, width], and logits [n, vocab] (of an encoder: None)."""
    with torch.no_grad():
        out = model(torch.from_numpy(ids)[None], output_hidden_states=True)
    hidden = (out.last_hidden_state if embed else out.hidden_states[-1])[0].numpy()
    return hidden, hidden if embed else out.logits[0].numpy()


def v5_config(config):
    """As transformers 5 writes it: rope_parameters, dtype, layer_types."""
    c = json.loads(transformers.AutoConfig.for_model(**copy.deepcopy(config)).to_json_string())
    return {**c, "architectures": config["architectures"], "dtype": "float32"}


def make(root, name, c):
    config = c["config"]
    seed = zlib.crc32(name.encode())
    if name.startswith("phi3-long-") and name != "phi3-long-partial":
        seed = 3  # below and above: one model
    model, embed = build({k: v for k, v in (c["run"] or config).items() if k != "torch_dtype"})
    weights = fill(model, config["model_type"], seed)
    ids = np.random.default_rng(seed + 1).integers(3, VOCAB, c["n"])
    hidden, y = forward(model, embed, ids)
    assert np.isfinite(y).all() and y.std() > .5, (name, y.std())
    folder = f"{root}/{name}"
    os.makedirs(folder, exist_ok=True)
    save_json(f"{folder}/config.json", v5_config(config) if c["v5"] else config)
    save_json(f"{folder}/case.json", {"kind": "embed" if embed else "text", "ids": ids.tolist()})
    save_weights(folder, (c["names"] or (lambda w: w))(weights), c["dtype"], c["shards"])
    np.save(f"{folder}/{'hidden' if embed else 'logits'}.npy", y.astype("<f4"))
    if embed or c["pooling"]:
        save_pooling(folder, c["pooling"] or "mean")
    pooled = {"cls": hidden[0], "last": hidden[-1]}.get(c["pooling"], hidden.mean(0))
    np.save(f"{folder}/pooled.npy", pooled.astype("<f4"))
    print(f"{name:20} {'x'.join(map(str, y.shape)):8} deviation {y.std():.2f}")


# ---- does it matter -----------------------------------------------------------------------------

OTHERWISE = {
    "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-6, "layer_norm_epsilon": 1e-6, "rope_theta": 9000.0,
    "rope_scaling": None, "sliding_window": 7, "attn_logit_softcapping": None,
    "final_logit_softcapping": None, "query_pre_attn_scalar": 16, "rope_local_base_freq": 1e4,
    "embedding_multiplier": 1.0, "attention_multiplier": 0.35, "residual_multiplier": 1.0,
    "logits_scaling": 1.0, "no_rope_layers": None, "partial_rotary_factor": 1.0,
    "no_rope_layer_interval": 3, "hidden_act": "relu", "hidden_activation": "relu",
    "activation_function": "relu", "sliding_window_pattern": 2}


def moved(name, c, key):
    """By how much the logits move when the config says another thing of `key`."""
    config = {k: v for k, v in (c["run"] or c["config"]).items() if k != "torch_dtype"}
    ids = np.random.default_rng(1).integers(3, VOCAB, c["n"])
    other = {**config, key: OTHERWISE[key]}
    if key == "no_rope_layer_interval":
        del other["no_rope_layers"]
    y = []
    for one in (config, other):
        model, embed = build(one)
        fill(model, config["model_type"], zlib.crc32(name.encode()))
        y.append(forward(model, embed, ids)[1])
    return np.abs(y[0] - y[1]).max()


def mutate():
    for name, c in CASES.items():
        config = c["run"] or c["config"]
        keys = [k for k, v in config.items() if v and k in OTHERWISE and OTHERWISE[k] != v]
        for k in keys:
            try:
                print(f"{name:20} {k:24} {moved(name, c, k):.2g}")
            except Exception as e:
                print(f"{name:20} {k:24} refused: {type(e).__name__}")


# ---- one archive --------------------------------------------------------------------------------

def pack(root, name="archs.tar.xz"):
    """Sorted, and without times and owners: the same bytes from the same files."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        files = sorted(os.path.join(d, f) for d, _, fs in os.walk(root) for f in fs)
        for path in files:
            info = tarfile.TarInfo(os.path.relpath(path, root))
            info.size, info.mode = os.path.getsize(path), 0o644
            with open(path, "rb") as f:
                tar.addfile(info, f)
    with open(f"{HERE}/{name}", "wb") as f:
        f.write(lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def main(args):
    if args[:1] == ["--pack"]:
        return pack(args[1])
    everything_double()
    if args[:1] == ["--mutate"]:
        return mutate()
    root = args[0] if args else "build/archs-made"
    for name in args[1:] or CASES:
        make(root, name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
