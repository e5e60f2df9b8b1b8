#!/usr/bin/env python3
"""Tokenizer transplants by mergekit-tokensurgeon: tests/dna/transplant/transplant.tar.xz.

    python3 make.py OUT.tar.xz        (numpy, torch, transformers, mergekit at 0.1.5)

model/, donor/: LLaMA models of transformers with random weights; the model's tokenizer is byte-level BPE, the donor's has the
notation of SentencePiece. METHOD.npz: embedding and head by mergekit.scripts.tokensurgeon.build_embedding_matrix, in float32.
Special tokens have the same names.
"""
import importlib.util
import json
import os
import sys
import tempfile

import numpy as np
import torch
import transformers
from mergekit.architecture import WeightInfo
from mergekit.common import ModelReference
from mergekit.scripts import tokensurgeon
from mergekit.tokenizer.normalization import normalize_token
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("merging", os.path.join(HERE, "..", "merging", "make.py"))
merging = importlib.util.module_from_spec(spec)
spec.loader.exec_module(merging)

LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
SIDES = {"model": dict(width=16, space="Ġ", special=["<unk>", "<s>", "</s>"], letters=LETTERS + list("0123456789"), tied=False,
                       words=["the", "then", "cat", "dog", "sing", "red", "blue", "ring", "stone", "one", "ten", "net"]),
         "donor": dict(width=24, space="▁", special=["</s>", "<unk>", "<s>"], letters=LETTERS[::-1] + list(".,!?"),
                       words=["stone", "thing", "cat", "there", "ring", "bluest", "tenor", "dogs", "net", "one"], tied=True)}
METHODS = ["omp", "common_interpolation", "subword", "mean", "zero"]
ATOMS = 6


def vocabulary(side):
    """Tokens, and merges that build each word from its left end, with a space in front of it and without."""
    tokens, merges = side["special"] + [side["space"]] + side["letters"], []
    for word in [side["space"] + w for w in side["words"]] + side["words"]:
        for end in range(2, len(word) + 1):
            if word[:end] not in tokens:
                tokens.append(word[:end])
                merges.append(word[:end - 1] + " " + word[end - 1])
    return tokens, merges


def tokenizer(folder, side):
    tokens, merges = vocabulary(side)
    special = [dict(id=i, content=w, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
               for i, w in enumerate(side["special"])]
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    spaces = dict(type="Replace", pattern=dict(String=" "), content=side["space"])
    back = dict(type="Sequence", decoders=[dict(type="Replace", pattern=dict(String=side["space"]), content=" "), dict(type="Fuse")])
    bytes_ = side["space"] == "Ġ"
    model = dict(type="BPE", dropout=None, unk_token="<unk>", continuing_subword_prefix=None, end_of_word_suffix=None,
                 fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab={w: i for i, w in enumerate(tokens)}, merges=merges)
    json.dump(dict(version="1.0", truncation=None, padding=None, added_tokens=special, normalizer=None if bytes_ else spaces,
                   pre_tokenizer=level if bytes_ else None, post_processor=None, decoder=level if bytes_ else back, model=model),
              open(f"{folder}/tokenizer.json", "w"))
    json.dump(dict(tokenizer_class="PreTrainedTokenizerFast", unk_token="<unk>", bos_token="<s>", eos_token="</s>"),
              open(f"{folder}/tokenizer_config.json", "w"))


def make_model(name, side, seed):
    config = transformers.LlamaConfig(vocab_size=len(vocabulary(side)[0]), hidden_size=side["width"], intermediate_size=24,
                                      num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                                      bos_token_id=side["special"].index("<s>"), eos_token_id=side["special"].index("</s>"),
                                      pad_token_id=None, max_position_embeddings=64,
                                      tie_word_embeddings=side["tied"])
    model = transformers.LlamaForCausalLM(config)
    rng = np.random.default_rng(seed)
    for _, p in model.named_parameters():
        p.data = torch.from_numpy(merging.grid(rng, tuple(p.shape), 0.5) + (1 if p.dim() == 1 else 0)).to(torch.float32)
    model.save_pretrained(name)
    tokenizer(name, side)
    if os.path.exists(f"{name}/generation_config.json"):
        os.remove(f"{name}/generation_config.json")


def tokens_of(name):
    words = transformers.AutoTokenizer.from_pretrained(name)
    return {normalize_token(t, words.special_tokens_map, SIDES[name]["space"]): i for t, i in words.get_vocab().items()}


def main(path):
    with tempfile.TemporaryDirectory() as root:
        os.chdir(root)
        for seed, (name, side) in enumerate(SIDES.items()):
            make_model(name, side, seed + 46)
        model, donor = (load_file(f"{name}/model.safetensors") for name in SIDES)
        ours, theirs = (tokens_of(name) for name in SIDES)
        print(len(ours), len(theirs), len(set(ours) & set(theirs)))
        for method in METHODS:
            options = tokensurgeon.TokenSurgeonOptions(model=ModelReference.model_validate("model"), out_path="none", method=method,
                                                       donor=ModelReference.model_validate("donor"), k=ATOMS)
            out = {}
            for ours_name, theirs_name, gguf in (("model.embed_tokens.weight", "model.embed_tokens.weight", "token_embd.weight"),
                                                 ("lm_head.weight", "model.embed_tokens.weight", "output.weight")):
                out[gguf] = tokensurgeon.build_embedding_matrix(
                    WeightInfo(name=ours_name), model[ours_name], donor[theirs_name], orig_vocab=ours, donor_vocab=theirs,
                    junk_tokens=[], allow_prefix=False, allow_byte=False, is_lm_head=gguf == "output.weight", options=options).numpy()
            np.savez(f"{method}.npz", **out)
        os.chdir(HERE)
        merging.pack(root, path)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
