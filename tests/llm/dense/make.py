#!/usr/bin/env python3
"""make.py - made models of the dense architectures that came after those of tests/llm/archs, and what transformers computes.

    pip install torch transformers numpy        (made with torch 2.15.0, transformers 5.23.0)
    tests/llm/dense/make.py [DIRECTORY [NAME...]]   (default: build/dense-made; NAME: only these)
    tests/llm/dense/make.py --pack DIRECTORY        (writes tests/llm/dense/dense.tar.xz)

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


def coarse_draw(rng, name, shape, model_type):
    """Multiples of a power of two near half the deviation."""
    x = exact_draw(rng, name, shape, model_type).view(np.float32)
    step = 2.0 ** np.round(np.log2(max(x.std(), 1 / 64) / 2))
    return (np.round(x / step) * step).astype(np.float32).view(np.uint32)


def case(config, n=16, **more):
    return archs.case(config, n=n, **more)


def text(cls, model_type, **more):
    """A config without RMS norms has no epsilon of theirs."""
    c = archs.text(cls, model_type, **more)
    if any(key in more for key in ("layer_norm_eps", "norm_epsilon", "layer_norm_epsilon")):
        del c["rms_norm_eps"]
    return c


def cohere(**more):
    return text("CohereForCausalLM", "cohere", layer_norm_eps=0.01, logit_scale=0.25, tie_word_embeddings=True,
                attention_bias=False, model_max_length=128, pad_token_id=0, **{"use_qk_norm": False, **more})


def cohere2(**more):
    return text("Cohere2ForCausalLM", "cohere2", layer_norm_eps=0.01, logit_scale=0.25, tie_word_embeddings=True,
                attention_bias=False, head_dim=8, rotary_pct=1.0, sliding_window=8, pad_token_id=0, **more)


def stablelm(**more):
    return text("StableLmForCausalLM", "stablelm", layer_norm_eps=0.01, partial_rotary_factor=0.25, qk_layernorm=False, **more)


def starcoder2(**more):
    return text("Starcoder2ForCausalLM", "starcoder2", norm_epsilon=0.01, use_bias=True, **{
        "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True, **more})


def neox(**more):
    c = text("GPTNeoXForCausalLM", "gpt_neox", layer_norm_eps=0.01, rotary_pct=0.5, rotary_emb_base=10000, attention_bias=True,
             **{"hidden_act": "gelu", **more})
    del c["num_key_value_heads"], c["rope_theta"]
    return c


def falcon(**more):
    c = text("FalconForCausalLM", "falcon", layer_norm_epsilon=0.01, alibi=False, bias=False, parallel_attn=True,
             max_position_embeddings=2048, tie_word_embeddings=True, **more)
    del c["num_key_value_heads"], c["hidden_act"], c["intermediate_size"]
    return c


def phi(**more):
    c = text("PhiForCausalLM", "phi", layer_norm_eps=0.01, partial_rotary_factor=0.5, qk_layernorm=False, **{
        "hidden_act": "gelu_new", "intermediate_size": 4 * WIDTH, **more})
    c["num_key_value_heads"] = None
    return c


def exaone(run, **more):
    """With the names of the hub's, and, to run, those of Llama, whose graph transformers takes."""
    c = archs.llama(rms_norm_eps=0.02, rope_theta=1000.0, rope_scaling=archs.LLAMA3, **more)
    if run:
        return c
    names = {"num_hidden_layers": "num_layers", "rms_norm_eps": "layer_norm_epsilon", "hidden_act": "activation_function"}
    return {**{names.get(k, k): v for k, v in c.items()}, "architectures": ["ExaoneForCausalLM"], "model_type": "exaone"}


def exaone_hub(w):
    names = [("model.layers", "transformer.h"), ("model.embed_tokens", "transformer.wte"), ("model.norm", "transformer.ln_f"),
             ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"), ("self_attn.o_proj", "attn.attention.out_proj"),
             ("self_attn", "attn.attention"), ("gate_proj", "c_fc_0"), ("up_proj", "c_fc_1"), ("down_proj", "c_proj")]
    out = {}
    for k, v in w.items():
        for ours, theirs in names:
            k = k.replace(ours, theirs)
        out[k] = v
    return out


def exaone4(**more):
    return text("Exaone4ForCausalLM", "exaone4", rms_norm_eps=0.02, pad_token_id=0, **more)


def glm4(**more):
    return text("Glm4ForCausalLM", "glm4", rms_norm_eps=0.02, head_dim=16, partial_rotary_factor=0.5, pad_token_id=0, **more)


def ministral3(**more):
    """As on the hub: everything of rope in one object."""
    c = text("Ministral3ForCausalLM", "ministral3", rms_norm_eps=0.02, head_dim=16, sliding_window=None, max_position_embeddings=32,
             rope_parameters={"rope_type": "yarn", "type": "yarn", "rope_theta": 1e4, "factor": 4.0, "beta_fast": 32.0,
                              "beta_slow": 1.0, "original_max_position_embeddings": 8, "mscale": 1.0, "mscale_all_dim": 1.0,
                              "llama_4_scaling_beta": 0.4, **more})
    del c["rope_theta"]
    return c


def modernbert(**more):
    """With the names of the hub's."""
    return {"architectures": ["ModernBertModel"], "model_type": "modernbert", "vocab_size": VOCAB, "hidden_size": WIDTH,
            "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 128,
            "local_attention": 8, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0,
            "norm_eps": 0.01, "layer_norm_eps": 0.01, "norm_bias": False, "attention_bias": False, "mlp_bias": False,
            "hidden_activation": "gelu", "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1,
            "sep_token_id": 2, **more}


def layers_of(letters):
    return [{"L": "sliding_attention", "G": "full_attention"}[c] for c in letters]


CASES = {
    "command-r": case(cohere()),
    "command-r-plus": case(cohere(use_qk_norm=True)),
    "cohere2": case(cohere2(sliding_window_pattern=2)),
    "cohere2-default": case(cohere2(num_hidden_layers=4)),
    "cohere2-listed": case(cohere2(layer_types=layers_of("GL"))),
    "stablelm": case(stablelm(use_qkv_bias=True, use_parallel_residual=False)),
    "stablelm-parallel": case(stablelm(use_qkv_bias=False, use_parallel_residual=True)),
    "starcoder2": case(starcoder2(sliding_window=None)),
    "starcoder2-window": case(starcoder2(sliding_window=8)),
    "gptneox": case(neox(use_parallel_residual=True)),
    "gptneox-sequential": case(neox(use_parallel_residual=False)),
    "falcon": case(falcon(multi_query=True, new_decoder_architecture=False)),
    "falcon-two": case(falcon(new_decoder_architecture=True, num_kv_heads=2)),
    "falcon-one": case(falcon(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1)),
    "phi2": case(phi()),
    "exaone": case(exaone(False), run=exaone(True), names=exaone_hub),
    "exaone4": case(exaone4(sliding_window=None, layer_types=layers_of("GG"))),
    "exaone4-window": case(exaone4(sliding_window=8, sliding_window_pattern="LLLG", num_hidden_layers=4, head_dim=16,
                                   layer_types=layers_of("LLLG"))),
    "glm4": case(glm4(attention_bias=True)),
    "glm4-plain": case(glm4(attention_bias=False, tie_word_embeddings=True)),
    "seed_oss": case(text("SeedOssForCausalLM", "seed_oss", rms_norm_eps=0.02, head_dim=16, attention_bias=True,
                          attention_out_bias=False, mlp_bias=False, rope_theta=1e6, pad_token_id=0)),
    "hunyuan": case(text("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", rms_norm_eps=0.02, head_dim=16, pad_token_id=0,
                         eod_token_id=80)),
    "hunyuan-alpha": case(text("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", rms_norm_eps=0.02, head_dim=16, pad_token_id=0,
                               attention_bias=True, tie_word_embeddings=True, eod_token_id=80, max_position_embeddings=262144,
                               rope_scaling={"type": "dynamic", "alpha": 1000.0, "factor": 1.0})),
    "ministral3": case(ministral3(), n=20),
    "ministral3-other": case(ministral3(mscale=0.8, mscale_all_dim=0.5), n=20),
    "qwen3-embedding": case(text("Qwen3ForCausalLM", "qwen3", head_dim=16, rope_theta=1e6, attention_bias=False,
                                 use_sliding_window=False, sliding_window=None, tie_word_embeddings=True), names=archs.bare,
                            pooling="last"),
    "modernbert": case(modernbert()),
    "modernbert-cls": case(modernbert(**{"hidden_activation": "silu", "global_attn_every_n_layers": 2}), pooling="cls"),
    "olmo3": case(text("Olmo3ForCausalLM", "olmo3", rms_norm_eps=0.02, rope_theta=500000.0, num_hidden_layers=4,
                       sliding_window=8, attention_bias=False, pad_token_id=0, max_position_embeddings=128, rope_scaling={
                           "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0,
                           "beta_slow": 1.0, "attention_factor": 1.1386294361119891}), n=20),
}


def main(args):
    archs.HERE, archs.CASES, archs.draw = HERE, CASES, coarse_draw
    archs.EMBED += ("modernbert",)
    if args[:1] == ["--pack"]:
        return archs.pack(args[1], "dense.tar.xz")
    archs.everything_double()
    root = args[0] if args else "build/dense-made"
    for name in args[1:] or CASES:
        archs.make(root, name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
