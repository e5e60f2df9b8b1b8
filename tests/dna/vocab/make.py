#!/usr/bin/env python3
"""Merges of models with different tokens by mergekit: tests/dna/vocab/vocab.tar.xz.

    python3 make.py OUT.tar.xz        (numpy, torch, transformers, mergekit at 0.1.5)

base/, one/, two/, more/: LLaMA models of transformers with random weights of few bits; their tokenizers are byte-level BPE with
some words in common. NAME.json: a recipe, whose key rectify_embed is mergekit's option --unsafe-truncate-embeddings;
NAME.safetensors: the tensors of mergekit's run_merge by GGUF's names, with the rows in the order of NAME.tokens, a text in a line.
New tokens have mergekit's order except among those of text, which mergekit keeps in a hash table: those have the order of the
models and of their ids.
"""
import importlib.util
import json
import os
import sys
import tempfile

import numpy as np
import torch
import transformers
from mergekit.config import MergeConfiguration
from mergekit.merge import run_merge
from mergekit.options import MergeOptions
from safetensors.numpy import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name, *path):
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, *path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


merging = load("merging", "..", "merging", "make.py")

BYTES = [chr(c) for c in list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))] + [chr(256 + i) for i in range(68)]
MODELS = {"base": dict(special=["<s>", "</s>", "<unk>"], words=["the", "then", "cat", "sing", "red"], tied=False),
          "one": dict(special=["<s>", "</s>", "<unk>", "<|user|>"], words=["cat", "dog", "the", "thing"], tied=False),
          "two": dict(special=["</s>", "<s>", "<unk>", "<|tool|>"], words=["dog", "red", "blue", "the"], tied=True)}
MODELS["more"] = dict(MODELS["base"], after=["<|pad|>", "<|more|>"])
WIDTH = 8
RECIPES = {
    "base": dict(models="one two", tokenizer=dict(source="base")),
    "one": dict(models="base two", tokenizer=dict(source="one")),
    "union": dict(models="one two", tokenizer=dict(source="union")),
    "mean": dict(models="one two base", base=False, tokenizer=dict(source="union")),
    "source": dict(models="one two", tokenizer_source="two"),
    # mergekit 0.1.5 cannot add tokens to those of a model: it takes the list of the model's tokens for its vocabulary
    "tokens": dict(models="one two", tokenizer=dict(source="union", pad_to_multiple_of=50, tokens={
        "<|user|>": dict(source="one"), "<|tool|>": dict(source="two", force=True), "<s>": dict(source="two", force=True),
        "<|new|>": dict(source=dict(kind="zero")), "</s>": dict(source=dict(kind="zero"), force=True),
        "<|end|>": dict(source=dict(kind="model_token", model="one", token="</s>")),
        "<|start|>": dict(source=dict(kind="model_token", model="two", token_id=1))})),
    "rectify": dict(models="more", rectify_embed=True),
    "stack": dict(slices=["one", "base"], tokenizer=dict(source="union")),
}


def vocabulary(side):
    """Tokens, and merges that build each word from its left end."""
    tokens, merges = side["special"] + BYTES, []
    for word in ["\u0120" + w for w in side["words"]]:
        for end in range(2, len(word) + 1):
            if word[:end] not in tokens:
                tokens = tokens + [word[:end]]
                merges.append(word[:end - 1] + " " + word[end - 1])
    return tokens + side.get("after", []), merges


def tokenizer(folder, side):
    tokens, merges = vocabulary(side)
    special = [dict(id=tokens.index(w), content=w, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
               for w in side["special"] + side.get("after", [])]
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                 fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab={w: i for i, w in enumerate(tokens)},
                 merges=merges)
    json.dump(dict(version="1.0", truncation=None, padding=None, added_tokens=special, normalizer=None, pre_tokenizer=level,
                   post_processor=None, decoder=level, model=model), open(f"{folder}/tokenizer.json", "w"))
    json.dump(dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>", unk_token="<unk>"),
              open(f"{folder}/tokenizer_config.json", "w"))


def make_model(name, side, seed):
    config = transformers.LlamaConfig(vocab_size=len(vocabulary(side)[0]), hidden_size=WIDTH, intermediate_size=12,
                                      num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                                      bos_token_id=side["special"].index("<s>"), eos_token_id=side["special"].index("</s>"),
                                      pad_token_id=None, max_position_embeddings=64, tie_word_embeddings=side["tied"])
    model = transformers.LlamaForCausalLM(config)
    rng = np.random.default_rng(seed)
    for _, p in model.named_parameters():
        p.data = torch.from_numpy(merging.grid(rng, tuple(p.shape), 0.5) + (1 if p.dim() == 1 else 0)).to(torch.float32)
    model.save_pretrained(name)
    tokenizer(name, side)
    if os.path.exists(f"{name}/generation_config.json"):
        os.remove(f"{name}/generation_config.json")


def recipe(rows):
    out = dict(dtype="float32", **{k: v for k, v in rows.items() if k.startswith("tokenizer") or k == "rectify_embed"})
    if "slices" in rows:
        slices = [dict(sources=[dict(model=m, layer_range=[0, 1])]) for m in rows["slices"]]
        return dict(out, merge_method="passthrough", slices=slices)
    if rows.get("base", True):
        out["base_model"] = "base" if "base" not in rows["models"].split() else "one"
    # of few bits, and their sum is one: no sum is rounded
    names = rows["models"].split()
    weights = {1: [0.75], 2: [0.5, 0.25], 3: [0.5, 0.25, 0.25]}[len(names)]
    listed = names + ([out["base_model"]] if "base_model" in out else [])
    weights = weights + [0.25] * (len(listed) - len(names))
    return dict(out, merge_method="linear", models=[dict(model=m, parameters=dict(weight=w)) for m, w in zip(listed, weights)])


def order(name, rows, child):
    """The child's tokens: mergekit's, but new ones of text by model and id."""
    source = rows.get("tokenizer", {}).get("source")
    by_id = [t for t, _ in sorted(child.items(), key=lambda x: x[1])]
    if source != "union":
        return by_id
    listed = [m["model"] for m in recipe(rows).get("models", [])] or rows["slices"]
    first = recipe(rows).get("base_model") or listed[0]
    models = [first] + [m for m in listed if m != first]
    tokens = list(vocabulary(MODELS[first])[0])
    for of_text in (True, False):
        for m in models:
            tokens += [t for t in vocabulary(MODELS[m])[0] if (t not in MODELS[m]["special"]) == of_text and t not in tokens]
    tokens += [t for t in rows["tokenizer"].get("tokens", {}) if t not in tokens]
    assert sorted(tokens) == sorted(by_id), name
    return tokens


def main(path):
    with tempfile.TemporaryDirectory() as root:
        os.chdir(root)
        for seed, (name, side) in enumerate(MODELS.items()):
            make_model(name, side, seed + 46)
        for name, rows in RECIPES.items():
            text = recipe(rows)
            with tempfile.TemporaryDirectory() as out:
                run_merge(MergeConfiguration.model_validate(json.loads(json.dumps(text))), out, 
                          MergeOptions(write_model_card=False, unsafe_truncate_embeddings="rectify_embed" in rows))
                child = transformers.AutoTokenizer.from_pretrained(out).get_vocab()
                tensors = load_file(f"{out}/model.safetensors")
            tokens = order(name, rows, child)
            rows_of = [child[t] for t in tokens]
            made = {}
            for theirs, ours in (("model.embed_tokens.weight", "token_embd.weight"), ("lm_head.weight", "output.weight")):
                if theirs in tensors:
                    t = tensors[theirs]
                    made[ours] = np.concatenate([t[rows_of], t[len(tokens):]])
            save_file(made, f"{name}.safetensors")
            json.dump(text, open(f"{name}.json", "w"))
            with open(f"{name}.tokens", "w", encoding="utf-8") as f:
                f.write("".join(t + "\n" for t in tokens))
            print(name, {k: v.shape for k, v in made.items()}, len(tokens))
        os.chdir(HERE)
        merging.pack(root, path)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
