#!/usr/bin/env python3
"""whole.py - Hugging Face directories with all that a text needs, and what is said with them.

    pip install torch transformers tokenizers jinja2 numpy
    tests/llm/archs/whole.py GOLDEN DIRECTORY      (GOLDEN: the golden folder; its tokenizers/hf is used)

config.json, generation_config.json, model.safetensors, tokenizer.json, tokenizer_config.json (with a
template of tests/llm/templates/cases.json), and runs.tsv: a line a run of zt-run, what it must write, a
tab, its arguments; and embed.json: texts, and the means of their last states. Ids are by the library tokenizers and by transformers in float64, greedily; a seed
is taken with which no choice is close and no text ends early. Writes tests/llm/archs/whole.tar.xz too.
"""
import json, os, shlex, shutil, sys

import numpy as np
import torch
import jinja2.sandbox
from tokenizers import Tokenizer

import make

MODELS = {
    "llama3": dict(tokenizer="bpe_llama3", config=make.llama, template="Llama 3",
                   bos="<|begin_of_text|>", eos="<|eot_id|>", vocab=4000),
    "qwen3": dict(tokenizer="bpe_qwen2", template="Qwen2.5", bos=None, eos="<|im_end|>", vocab=4032,
                  config=lambda **k: make.text("Qwen3ForCausalLM", "qwen3", head_dim=8, **k)),
    "llama2": dict(tokenizer="spm_bpe_bytefallback", config=make.llama, template="Llama 2", bos="<s>",
                   eos="</s>", vocab=3000),
    "mistral": dict(tokenizer="spm_bpe_bytefallback", template="Mistral v0.2", bos="<s>", eos="</s>",
                    config=lambda **k: make.text("MistralForCausalLM", "mistral", **k), vocab=3008),
    "gpt2": dict(tokenizer="bpe_gpt2", template=None, bos="<|endoftext|>", eos="<|endoftext|>",
                 vocab=4000, config=make.gpt2),
    "bert": dict(tokenizer="wordpiece_uncased", template=None, bos="[CLS]", eos="[SEP]", vocab=3000,
                 config=make.bert),
}
TEXTS = ["Copyright (C) 1991, it's free software!", " two  spaces, caf\u00e9 \u4f60\u597d", "x"]
STEPS, MARGIN = 12, 2e-3


def config_of(m, ids):
    if m["config"] is make.bert:
        return make.bert(hidden_size=16, num_attention_heads=2, intermediate_size=32,
                         vocab_size=m["vocab"])
    if m["config"] is make.gpt2:
        c = make.gpt2(n_embd=16, n_head=2, n_ctx=128, n_positions=128)
    else:
        c = m["config"](num_attention_heads=2, num_key_value_heads=1, hidden_size=16,
                        intermediate_size=32, tie_word_embeddings=True)
    return {**c, "vocab_size": m["vocab"], "torch_dtype": "bfloat16", **ids}


def coarse(weights, model):
    """Embeddings of few values: they pack well, and are most of a model of this size."""
    for name, p in model.named_parameters():
        if "embed" in name or "wte" in name:
            x = (np.clip(np.round(weights[name] * 2) / 2, -1.5, 1.5)).astype(np.float32)
            weights[name] = x
            p.data.copy_(torch.from_numpy(x.astype(np.float64)))
    return weights


def greedy(model, ids, ends):
    """The next STEPS ids, or None where a choice is close or ends the text."""
    out = list(ids)
    for _ in range(STEPS):
        y = make.forward(model, False, np.array(out))[1][-1]
        a, b = np.sort(y)[-2:][::-1]
        if a - b < MARGIN or int(y.argmax()) in ends:
            return None
        out.append(int(y.argmax()))
    return out[len(ids):]


def render(template, text, m):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return env.from_string(template).render(
        messages=[{"role": "user", "content": text}], add_generation_prompt=True,
        bos_token=m["bos"] or "", eos_token=m["eos"])


def prompts(m, tok, template):
    """Arguments, and the ids that the model then sees."""
    for text in TEXTS:
        yield ["--raw", "-p", text], tok.encode(text).ids
        if template:
            text = text.strip()
            yield ["-p", text], tok.encode(render(template, text, m), add_special_tokens=False).ids


def runs_of(m, tok, model, template, ends):
    if m["config"] is make.bert:
        return [(tok.encode(t).ids, ["--tokenize", "-p", t]) for t in TEXTS]
    lines = []
    for args, ids in prompts(m, tok, template):
        said = greedy(model, ids, ends)
        if said is None:
            return None
        if "--raw" in args:
            lines.append((ids, ["--tokenize", *args[1:]]))
        lines.append((said, ["--ids", "-n", str(STEPS), "--temp", "0", "--exact", *args]))
    return lines


def make_one(golden, root, name, m):
    source = f"{golden}/tokenizers/hf/{m['tokenizer']}.json"
    tok = Tokenizer.from_file(source)
    with open(f"{make.HERE}/../templates/cases.json") as f:
        template = next((c["template"] for c in json.load(f) if c["model"] == m["template"]), None)
    bos, eos = m["bos"] and tok.token_to_id(m["bos"]), tok.token_to_id(m["eos"])
    config = config_of(m, {"bos_token_id": bos, "eos_token_id": eos})
    for seed in range(200):
        model, _ = make.build({k: v for k, v in config.items() if k != "torch_dtype"})
        weights = coarse(make.fill(model, config["model_type"], seed), model)
        ends = {i for i in range(m["vocab"])
                if i >= tok.get_vocab_size() or (tok.id_to_token(i) or "<").startswith("<")}
        runs = runs_of(m, tok, model, template, ends)
        if runs:
            break
    folder = f"{root}/{name}"
    os.makedirs(folder, exist_ok=True)
    shutil.copyfile(source, f"{folder}/tokenizer.json")
    make.save_json(f"{folder}/config.json", config)
    if m["config"] is not make.bert:
        make.save_json(f"{folder}/generation_config.json", {"eos_token_id": [eos]})
    make.save_json(f"{folder}/tokenizer_config.json",
                   {"bos_token": m["bos"], "eos_token": m["eos"], "chat_template": template,
                    "tokenizer_class": "PreTrainedTokenizerFast"})
    make.safetensors(f"{folder}/model.safetensors", weights, "bf16")
    with open(f"{folder}/runs.tsv", "w") as f:
        for ids, args in runs:
            f.write(" ".join(map(str, ids)) + "\t" + shlex.join(args) + "\n")
    embedded = []
    for text in TEXTS:
        hidden = make.forward(model, m["config"] is make.bert, np.array(tok.encode(text).ids))[0]
        embedded.append({"text": text, "embedding": [float(f"{x:.8g}") for x in hidden.mean(0)]})
    make.save_json(f"{folder}/embed.json", embedded)
    print(name, "seed", seed, len(runs), "runs")


def main(golden, root):
    make.everything_double()
    for name, m in MODELS.items():
        make_one(golden, root, name, m)
    make.pack(root, "whole.tar.xz")


if __name__ == "__main__":
    main(*sys.argv[1:])
