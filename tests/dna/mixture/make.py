#!/usr/bin/env python3
"""Gates of mixtures by mergekit-moe: tests/dna/mixture/mixture.tar.xz.

    python3 make.py OUT.tar.xz        (numpy, torch, transformers, mergekit at 0.1.4 or later of its repository)

base/, one/, two/: LLaMA models of transformers with random weights, one tokenizer. NAME.json: a recipe; NAME.npz: for each layer the
router's rows by mergekit.moe.router.get_gate_params, "blk.N.ffn_gate_inp.weight". mergekit loads the base in bfloat16; here it is
float32. Prompts of one expert have the same number of tokens, as padding would count in the averages of mergekit.
"""
import importlib.util
import json
import os
import sys
import tarfile
import tempfile

import numpy as np
import torch
import transformers
from mergekit.common import ModelReference
from mergekit.moe import router
from mergekit.moe.config import Expert

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("merging", os.path.join(HERE, "..", "merging", "make.py"))
merging = importlib.util.module_from_spec(spec)
spec.loader.exec_module(merging)

WORDS = ["<unk>", "<s>", "</s>"] + [chr(c) for c in range(ord("a"), ord("z") + 1)] + list("0123456789")
SIZES = dict(vocab_size=len(WORDS), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=None,
             tie_word_embeddings=False)
EXPERTS = [dict(source_model="one", positive_prompts=["abcd", "wxyz"], negative_prompts=["0123"]),
           dict(source_model="two", positive_prompts=["onetwo"])]


def tokenizer(folder):
    special = [dict(id=i, content=w, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
               for i, w in enumerate(WORDS[:3])]
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    model = dict(type="BPE", dropout=None, unk_token="<unk>", continuing_subword_prefix=None, end_of_word_suffix=None,
                 fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab={w: i for i, w in enumerate(WORDS)}, merges=[])
    json.dump(dict(version="1.0", truncation=None, padding=None, added_tokens=special, normalizer=None, pre_tokenizer=level,
                   post_processor=None, decoder=level, model=model), open(f"{folder}/tokenizer.json", "w"))
    json.dump(dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>"),
              open(f"{folder}/tokenizer_config.json", "w"))


def make_model(root, name, seed):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    rng = np.random.default_rng(seed)
    for _, p in model.named_parameters():
        p.data = torch.from_numpy(merging.grid(rng, tuple(p.shape), 0.5) + (1 if p.dim() == 1 else 0)).to(torch.float32)
    model.save_pretrained(f"{root}/{name}")
    tokenizer(f"{root}/{name}")
    if os.path.exists(f"{root}/{name}/generation_config.json"):
        os.remove(f"{root}/{name}/generation_config.json")


def load_f32(name, **_):
    return transformers.LlamaForCausalLM.from_pretrained(name, dtype=torch.float32)


def main(path):
    router.AutoModelForCausalLM = type("Loader", (), dict(from_pretrained=staticmethod(load_f32)))
    with tempfile.TemporaryDirectory() as root:
        for seed, name in enumerate(("base", "one", "two")):
            make_model(root, name, seed + 46)
        os.chdir(root)
        words = transformers.AutoTokenizer.from_pretrained("base")
        words.padding_side, words.pad_token_id = "left", words.bos_token_id
        for mode in ("hidden", "hidden_avg", "cheap_embed"):
            gates = router.get_gate_params(ModelReference.model_validate("base"), words, [Expert(**e) for e in EXPERTS], mode=mode,
                                           device="cpu")
            np.savez(f"{mode}.npz", **{f"blk.{i}.ffn_gate_inp.weight": g.to(torch.float32).numpy() for i, g in enumerate(gates)})
            json.dump(dict(base_model="base", gate_mode=mode, experts=EXPERTS), open(f"{mode}.json", "w"))
        os.chdir(HERE)
        merging.pack(root, path)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
