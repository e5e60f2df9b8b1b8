#!/usr/bin/env python3
"""Merges by mergekit: tests/dna/merging/merging.tar.xz.

    python3 make.py OUT.tar.xz        (numpy, torch, transformers, mergekit at 0.1.4 or later of its repository)

models/NAME.safetensors: LLaMA-type checkpoints of one layer; base, and a, b, c that differ from it. out/NAME.safetensors: what
mergekit's run_merge makes of them, computed in float64 and rounded to float32. manifest.json has the form of that of
tests/golden/merge.tar.xz: a name, mergekit's configuration, the output.
"""
import io
import json
import os
import sys
import tarfile
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

from mergekit.config import MergeConfiguration
from mergekit.merge import run_merge
from mergekit.options import MergeOptions

WIDTH, FF, VOCAB = 16, 24, 20
CONFIG = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=WIDTH, intermediate_size=FF,
              num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, vocab_size=VOCAB, rms_norm_eps=1e-5,
              max_position_embeddings=64, torch_dtype="float32", tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
SHAPES = {"model.embed_tokens.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,), "lm_head.weight": (VOCAB, WIDTH)}
LAYER = {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (WIDTH // 2, WIDTH), "self_attn.v_proj": (WIDTH // 2, WIDTH),
         "self_attn.o_proj": (WIDTH, WIDTH), "mlp.gate_proj": (FF, WIDTH), "mlp.up_proj": (FF, WIDTH),
         "mlp.down_proj": (WIDTH, FF), "input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,)}
for name, shape in LAYER.items():
    SHAPES[f"model.layers.0.{name}.weight"] = shape


def grid(rng, shape, scale):
    """Numbers of few bits, which pack well."""
    return (rng.integers(-127, 128, size=shape) / 128 * scale).astype("f4")


def change(rng, shape):
    """Of 20 bits: coarser numbers meet the threshold of arcee_fusion exactly, where rounding decides; finer ones would make the
    opposite of a change inexact."""
    return (rng.integers(-1 << 18, (1 << 18) + 1, size=shape) / (1 << 20)).astype("f4")


def models():
    rng = np.random.default_rng(46)
    base = {k: grid(rng, s, 1) + (1 if len(s) == 1 else 0) for k, s in SHAPES.items()}
    out = {"base": base}
    for name, part in (("a", 0.5), ("b", 0.6), ("c", 0.4)):
        # of each tensor a part of the elements differs; of the norm after the layers those of c alone
        out[name] = {k: (v + (0 if k == "model.norm.weight" and name != "c" else change(rng, v.shape) *
                             (rng.random(v.shape) < part))).astype("f4") for k, v in base.items()}
    # the direction of one matrix is the opposite of a's, from the base
    out["opposite"] = {k: (2 * v - out["a"][k]).astype("f4") if k.endswith("q_proj.weight") else out["b"][k]
                       for k, v in base.items()}
    return out


def case(name, method, sources, base=None, parameters=None):
    config = dict(merge_method=method)
    if base:
        config["base_model"] = base
    config["models"] = [dict(model=m, parameters=p) if p else dict(model=m) for m, p in sources]
    if parameters:
        config["parameters"] = parameters
    return name, config


def weighted(**weights):
    return [(name, dict(weight=w)) for name, w in weights.items()]


CASES = [
    case("multislerp", "multislerp", weighted(a=0.5, b=0.3, c=0.9)),
    case("multislerp_base", "multislerp", weighted(a=0.5, b=0.3), "base"),
    case("multislerp_raw", "multislerp", weighted(a=0.5, b=0.3, c=0.4), "base", dict(normalize_weights=False, eps=0.01)),
    case("multislerp_opposite", "multislerp", weighted(a=0.5, opposite=0.5), "base"),
    case("multislerp_one", "multislerp", weighted(a=0.25)),
    case("arcee_fusion", "arcee_fusion", [("base", None), ("a", None)], "base"),
    case("arcee_fusion_added", "arcee_fusion", [("b", None)], "base"),
    case("ram", "ram", [(m, None) for m in "abc"], "base"),
    case("ram_epsilon", "ram", [(m, None) for m in "ab"], "base", dict(epsilon=0.0625)),
    case("ramplus_tl", "ramplus_tl", [(m, None) for m in "abc"], "base"),
    case("ramplus_tl_all", "ramplus_tl", [(m, None) for m in "ab"], "base", dict(r=0.7, alpha=5.5, epsilon=0.03125)),
]


def folders(root, models):
    for name, tensors in models.items():
        os.makedirs(f"{root}/{name}")
        save_file({k: v.astype("f8") for k, v in tensors.items()}, f"{root}/{name}/model.safetensors",
                  metadata={"format": "pt"})
        json.dump(CONFIG, open(f"{root}/{name}/config.json", "w"))


def run(root, config, out):
    """mergekit's files of one configuration, the names of whose models are folders of root."""
    text = json.loads(json.dumps(config))
    here = os.getcwd()
    os.chdir(root)
    try:
        run_merge(MergeConfiguration.model_validate(text), out, MergeOptions(copy_tokenizer=False, write_model_card=False))
    finally:
        os.chdir(here)
    return load_file(f"{out}/model.safetensors")


def named(config):
    """The configuration with files instead of folders."""
    text = json.loads(json.dumps(config))
    for source in text["models"]:
        source["model"] += ".safetensors"
    if "base_model" in text:
        text["base_model"] += ".safetensors"
    return text


def pack(root, path):
    with tarfile.open(path, "w:xz", preset=9) as tar:
        for folder, _, files in sorted(os.walk(root)):
            for name in sorted(files):
                full = os.path.join(folder, name)
                info = tarfile.TarInfo(os.path.relpath(full, root))
                data = open(full, "rb").read()
                info.size, info.mode = len(data), 0o644
                tar.addfile(info, io.BytesIO(data))


def main(path):
    made = models()
    cases = []
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as root:
        folders(work, made)
        os.makedirs(f"{root}/models")
        os.makedirs(f"{root}/out")
        for name, tensors in made.items():
            save_file(tensors, f"{root}/models/{name}.safetensors")
        for name, config in CASES:
            tensors = run(work, config, f"{work}/{name}.out")
            save_file({k: np.ascontiguousarray(v, "f4") for k, v in tensors.items()}, f"{root}/out/{name}.safetensors")
            cases.append(dict(name=name, config=named(config), output=f"out/{name}.safetensors", random=False))
        json.dump(dict(cases=cases), open(f"{root}/manifest.json", "w"), indent=1)
        pack(root, path)


if __name__ == "__main__":
    main(sys.argv[1])
