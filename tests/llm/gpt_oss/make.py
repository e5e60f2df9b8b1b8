#!/usr/bin/env python3
"""make.py - made gpt-oss models, and what transformers computes of them.

    pip install torch transformers numpy        (made with torch 2.15.0, transformers 5.24.0)
    tests/llm/gpt_oss/make.py [DIRECTORY [NAME...]]   (default: build/gpt_oss-made; NAME: only these)
    tests/llm/gpt_oss/make.py --pack DIRECTORY        (writes tests/llm/gpt_oss/gpt_oss.tar.xz)

Directories and files are those of tests/llm/archs/make.py, whose functions these are. Experts' weights are values of MXFP4 in
every case, large enough that some gates and ups meet the limit; in one case they are written so, as blocks and scales.
"""
import importlib.util, os, sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("archs_make", f"{HERE}/../archs/make.py")
archs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(archs)
exact_draw = archs.draw
LEVELS = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)


def mxfp4_draw(rng, shape):
    """Blocks of 32 run down the columns of a matrix [in, out], as experts hold theirs."""
    experts, inner, outer = shape
    code = rng.integers(0, 16, (experts, outer, inner // 32, 32))
    scale = rng.integers(-4, -1, (experts, outer, inner // 32, 1))
    x = np.where(code & 8, -1, 1) * LEVELS[code & 7] * 2.0 ** scale
    return np.ascontiguousarray(x.reshape(experts, outer, inner).transpose(0, 2, 1).astype(np.float32))


def draw(rng, name, shape, model_type):
    if name.endswith(("gate_up_proj", "down_proj")):
        return mxfp4_draw(rng, shape).view(np.uint32)
    x = exact_draw(rng, name, shape, model_type).view(np.float32)
    if name.endswith("sinks"):
        x = 4 * x
    if name.endswith("gate_up_proj_bias"):
        x = 10 * x
    step = 2.0 ** np.round(np.log2(max(x.std(), 1 / 64) / 2))
    return (np.round(x / step) * step).astype(np.float32).view(np.uint32)


def packed(w):
    """Experts as the checkpoints of gpt-oss have them: nibbles of two values that follow each other, and exponents."""
    out = {}
    for k, v in w.items():
        if not k.endswith(("gate_up_proj", "down_proj")):
            out[k] = v
            continue
        x = v.transpose(0, 2, 1)
        x = x.reshape(*x.shape[:2], -1, 32)
        top = np.abs(x).max(-1, keepdims=True)
        scale = np.floor(np.log2(np.where(top > 0, top, 1))).astype(np.int64) - 2
        index = np.abs(np.abs(x)[..., None] * 2.0 ** -scale[..., None] - LEVELS).argmin(-1)
        assert (LEVELS[index] * 2.0 ** scale == np.abs(x)).all()
        code = (index | np.where(np.signbit(x), 8, 0)).astype(np.uint8)
        out[k + "_blocks"] = code[..., ::2] | code[..., 1::2] << 4
        out[k + "_scales"] = (scale[..., 0] + 127).astype(np.uint8)
    return out


YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 32}


def gpt_oss(**more):
    c = archs.text("GptOssForCausalLM", "gpt_oss", **{
        "head_dim": 16, "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "experts_per_token": 2,
        "sliding_window": 8, "attention_bias": True, "rope_theta": 150000.0, "rope_scaling": YARN, "swiglu_limit": 7.0,
        "pad_token_id": 0, **more})
    return c


def layers_of(letters):
    return [{"L": "sliding_attention", "G": "full_attention"}[c] for c in letters]


METHOD = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                               "model.embed_tokens", "lm_head"]}
CASES = {
    "gpt-oss": archs.case(gpt_oss(layer_types=layers_of("LG")), n=40),
    "gpt-oss-bf16": archs.case(gpt_oss(num_hidden_layers=3, torch_dtype="bfloat16"), n=40, dtype="bf16", shards=2),
    "gpt-oss-mxfp4": archs.case(gpt_oss(layer_types=layers_of("LG"), quantization_config=METHOD, torch_dtype="bfloat16"),
                                run=gpt_oss(), n=40, dtype="bf16", names=packed),
    "gpt-oss-listed": archs.case(gpt_oss(layer_types=layers_of("GL"), rope_scaling={**YARN, "truncate": True}), n=40),
}


def main(args):
    archs.HERE, archs.CASES, archs.draw = HERE, CASES, draw
    if args[:1] == ["--pack"]:
        return archs.pack(args[1], "gpt_oss.tar.xz")
    archs.everything_double()
    root = args[0] if args else "build/gpt_oss-made"
    for name in args[1:] or CASES:
        archs.make(root, name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
