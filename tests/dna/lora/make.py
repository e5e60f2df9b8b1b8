#!/usr/bin/env python3
"""Made adapters, and what PEFT makes of them: tests/dna/lora/lora.tar.xz.

    python3 make.py OUT.tar.xz        (numpy, torch, transformers, peft 0.21)

bases/NAME/: models of transformers with random weights.
NAME/a, NAME/b: adapters as save_pretrained writes them. NAME/spec: the model as zt-dna merge takes
it. NAME/expected.safetensors: all tensors after PEFT's merge_and_unload; of `tied_embedding` those
of the model as it was trained, since there merge_and_unload changes the head as well (PEFT warns); of
`experts`, whose modules transformers 5 no longer has, W + scale B A by NumPy. experts/stacked.gguf: the same
adapter as llama.cpp's convert_lora_to_gguf.py stacks it.
"""
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import warnings

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, GptOssConfig,
                          GptOssForCausalLM, Llama4ForCausalLM, Llama4TextConfig, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3MoeConfig,
                          Qwen3MoeForCausalLM)

warnings.simplefilter("ignore")
VOCAB = 40
COMMON = dict(vocab_size=VOCAB, bos_token_id=1, eos_token_id=2, pad_token_id=None)
SIZES = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, **COMMON)
GPT2 = dict(n_embd=16, n_inner=32, n_layer=2, n_head=4, n_positions=64, **COMMON)
BASES = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(tie_word_embeddings=False, **SIZES)),
    "tied": lambda: LlamaForCausalLM(LlamaConfig(tie_word_embeddings=True, **SIZES)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(tie_word_embeddings=False, **SIZES)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**GPT2)),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(head_dim=4, **SIZES)),
    "qwen3moe": lambda: Qwen3MoeForCausalLM(Qwen3MoeConfig(
        head_dim=4, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=8, mlp_only_layers=[0], **SIZES)),
    # whose parameters are [experts, in, out]; gpt-oss says so, and has the rows of gate and up in turns
    "llama4": lambda: Llama4ForCausalLM(Llama4TextConfig(
        head_dim=4, num_local_experts=2, intermediate_size_mlp=24, interleave_moe_layer_step=2, **{**SIZES, "intermediate_size": 12})),
    "gptoss": lambda: GptOssForCausalLM(GptOssConfig(
        head_dim=4, num_local_experts=2, num_experts_per_tok=1, **{**SIZES, "intermediate_size": 12})),
}


def fill(params, seed, scale):
    """Numbers of few bits, which pack well."""
    rng = np.random.default_rng(seed)
    for _, p in params:
        values = rng.integers(-31, 32, size=tuple(p.shape)) / 64 * scale
        p.data = torch.from_numpy(values.astype("f4")).to(p.dtype)


def tokenizer(folder):
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + list("0123456789")
    words = ["<unk>", "<s>", "</s>"] + letters
    vocab = {w: i for i, w in enumerate(words[:VOCAB])}
    special = [dict(id=i, content=w, single_word=False, lstrip=False, rstrip=False,
                    normalized=False, special=True) for i, w in enumerate(words[:3])]
    made = dict(version="1.0", truncation=None, padding=None, added_tokens=special, normalizer=None,
                pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True,
                                   use_regex=True),
                post_processor=None,
                decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True,
                             use_regex=True),
                model=dict(type="BPE", dropout=None, unk_token="<unk>",
                           continuing_subword_prefix=None, end_of_word_suffix=None,
                           fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab=vocab,
                           merges=[["a", "b"]][:0]))
    config = dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>")
    json.dump(made, open(f"{folder}/tokenizer.json", "w"))
    json.dump(config, open(f"{folder}/tokenizer_config.json", "w"))


def make_base(root, name):
    torch.manual_seed(0)
    m = BASES[name]()
    later = ("llama4", "gptoss")
    seed = 13 + later.index(name) if name in later else 7 + sorted(set(BASES) - set(later)).index(name)
    fill(m.named_parameters(), seed, 1)
    m.save_pretrained(f"{root}/bases/{name}")
    os.remove(f"{root}/bases/{name}/generation_config.json")
    tokenizer(f"{root}/bases/{name}")


def load_base(root, name, rows=None):
    cls = type(BASES[name]())
    m = cls.from_pretrained(f"{root}/bases/{name}", dtype=torch.float32)
    if rows:
        torch.manual_seed(3)
        m.resize_token_embeddings(rows, mean_resizing=False)
        fill([(n, p) for n, p in m.named_parameters() if p.shape[0] == rows], 5, 1)
    return m


def make_adapter(root, base, folder, seed, rows=None, dtype=torch.float32, **config):
    m = load_base(root, base, rows)
    config = dict(dict(r=4, lora_alpha=8, task_type="CAUSAL_LM"), **config)
    p = get_peft_model(m, LoraConfig(**config))
    trained = [(n, q) for n, q in p.named_parameters() if q.requires_grad]
    fill([(n, q) for n, q in trained if "magnitude" not in n], seed, 0.5)
    rng = np.random.default_rng(seed)
    for n, q in trained:
        if "magnitude" in n:
            q.data *= torch.from_numpy(rng.uniform(0.5, 1.5, size=q.shape).astype("f4"))
    if dtype != torch.float32:
        p = p.to(dtype)
    p.peft_config["default"].base_model_name_or_path = base
    p.save_pretrained(folder, save_embedding_layers=True if rows else "auto")
    if os.path.exists(f"{folder}/README.md"):
        os.remove(f"{folder}/README.md")


def merged(root, base, folder, rows=None):
    m = load_base(root, base, rows)
    return PeftModel.from_pretrained(m, folder).merge_and_unload().state_dict()


def clean(state, tied):
    if tied:
        state = {k: v for k, v in state.items() if k != "lm_head.weight"}
    return {k: v.detach().clone().contiguous() for k, v in state.items()
            if not k.endswith(".attn.bias") and not k.endswith(".masked_bias")}


LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CASES = {
    "patterns": ("llama", dict(target_modules=LINEAR, use_rslora=True,
                               rank_pattern={r"^model.layers.0.self_attn.k_proj": 2,
                                             r".*\.layers\.1\..*(up|gate)_proj": 6},
                               alpha_pattern={r"(q|k)_proj": 32, r"layers\.\d+\.mlp\.down_proj": 3,
                                              r"q_proj": 1})),
    "dora": ("llama", dict(target_modules=LINEAR, use_dora=True, alpha_pattern={"v_proj": 5})),
    "saved": ("llama", dict(target_modules=["q_proj"], modules_to_save=["lm_head", "norm"])),
    "ends": ("llama", dict(target_modules=["embed_tokens", "lm_head", "v_proj"])),
    "ends_dora": ("llama", dict(target_modules=["embed_tokens", "k_proj"], use_dora=True)),
    "grown": ("llama", dict(target_modules=["q_proj"], rows=44)),
    "grown_ends": ("llama", dict(target_modules=["embed_tokens", "lm_head"], rows=44)),
    "grown_tied": ("tied", dict(target_modules=["q_proj"], rows=44)),
    "tokens": ("llama", dict(target_modules=["q_proj"],
                             trainable_token_indices={"embed_tokens": [3, 17, 5]})),
    "tied_tokens": ("tied", dict(target_modules=["o_proj"], trainable_token_indices=[4, 9])),
    "tied_head": ("tied", dict(target_modules=["q_proj"], modules_to_save=["lm_head"])),
    "tied_saved": ("tied", dict(target_modules=["q_proj"], modules_to_save=["embed_tokens"])),
    "tied_embedding": ("tied", dict(target_modules=["embed_tokens", "q_proj"])),
    "bias": ("qwen2", dict(target_modules=["q_proj", "k_proj", "v_proj"], lora_bias=True,
                           init_lora_weights=False)),
    "bias_all": ("qwen2", dict(target_modules=["q_proj"], bias="all")),
    "conv1d": ("gpt2", dict(target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "conv1d_dora": ("gpt2", dict(target_modules=["c_attn", "c_proj"], fan_in_fan_out=True,
                                 use_dora=True)),
    "conv1d_saved": ("gpt2", dict(target_modules=["c_attn"], fan_in_fan_out=True,
                                  modules_to_save=["c_fc", "ln_f"])),
    "norms": ("gemma3", dict(target_modules=["q_proj", "down_proj"],
                             modules_to_save=["input_layernorm", "norm"])),
    "bf16": ("llama", dict(target_modules=LINEAR, dtype=torch.bfloat16)),
    "tied_both": ("tied", dict(target_modules=["q_proj"], modules_to_save=["embed_tokens"],
                               ensure_weight_tying=True)),
}


def make_case(root, name, seed):
    base, config = CASES[name]
    rows = config.get("rows")
    make_adapter(root, base, f"{root}/{name}/a", seed, **config)
    state = merged(root, base, f"{root}/{name}/a", rows)
    m = load_base(root, base, rows)
    before = m.state_dict()
    tied = m.config.tie_word_embeddings and torch.equal(state["lm_head.weight"],
                                                        state[m.get_input_embeddings_name()]
                                                        if hasattr(m, "get_input_embeddings_name")
                                                        else state[embedding(state)])
    if name == "tied_embedding":
        state["lm_head.weight"] = before["lm_head.weight"]
        tied = False
    if name == "grown_tied":
        tied = True
    save_file(clean(state, tied), f"{root}/{name}/expected.safetensors")
    open(f"{root}/{name}/spec", "w").write(f"bases/{base}+{name}/a\n")


def embedding(state):
    return next(k for k in state if k.endswith("embed_tokens.weight") or k.endswith("wte.weight"))


def make_weighted(root):
    """Two adapters with weights: PEFT's combination of the kind "cat" is the exact sum."""
    for k, (folder, kw) in enumerate([("a", dict(target_modules=["q_proj", "up_proj"])),
                                      ("b", dict(r=2, target_modules=["q_proj", "down_proj"]))]):
        make_adapter(root, "llama", f"{root}/weighted/{folder}", 70 + k, **kw)
    state = {k: v.double() for k, v in load_base(root, "llama").state_dict().items()}
    first = {k: v.clone() for k, v in state.items()}
    for folder, weight in (("a", 0.5), ("b", -1.25)):
        for k, v in merged(root, "llama", f"{root}/weighted/{folder}").items():
            state[k] += weight * (v.double() - first[k])
    save_file({k: v.float().contiguous() for k, v in state.items()},
              f"{root}/weighted/expected.safetensors")
    open(f"{root}/weighted/spec", "w").write(
        "bases/llama+weighted/a=0.5+weighted/b=-1.25\n")


def make_experts(root, seed):
    """Of q_proj in both layers, of experts in the one that has them; rank 2 for down_proj."""
    import gguf

    state = load_file(f"{root}/bases/qwen3moe/model.safetensors")
    rng, parts, names = np.random.default_rng(seed), {}, []
    for name in sorted(state):
        if name.endswith("_proj.weight") and (".experts." in name or "q_proj" in name):
            rank, (rows, columns) = 2 if "down" in name else 4, state[name].shape
            a, b = ((rng.integers(-31, 32, s) / 128).astype("f4") for s in ((rank, columns), (rows, rank)))
            module = "base_model.model." + name.removesuffix(".weight")
            parts[f"{module}.lora_A.weight"], parts[f"{module}.lora_B.weight"] = torch.from_numpy(a), torch.from_numpy(b)
            state[name] = state[name] + 8 / rank * torch.from_numpy(b @ a)
            names.append((name, a, b))
    os.makedirs(f"{root}/experts/a")
    save_file(parts, f"{root}/experts/a/adapter_model.safetensors")
    config = LoraConfig(r=4, lora_alpha=8, rank_pattern={"down_proj": 2}, task_type="CAUSAL_LM",
                        target_modules=["q_proj", "gate_proj", "up_proj", "down_proj"])
    config.save_pretrained(f"{root}/experts/a")
    save_file(state, f"{root}/experts/expected.safetensors")
    open(f"{root}/experts/spec", "w").write("bases/qwen3moe+experts/a\n")
    w = gguf.GGUFWriter(f"{root}/experts/stacked.gguf", "qwen3moe")
    w.add_string("general.type", "adapter")
    w.add_string("adapter.type", "lora")
    w.add_float32("adapter.lora.alpha", 8)
    for part in ("gate", "up", "down"):
        stack = [(a, b) for name, a, b in names if f".{part}_proj" in name]
        for k, end in enumerate("ab"):
            w.add_tensor(f"blk.1.ffn_{part}_exps.weight.lora_{end}", np.stack([pair[k] for pair in stack]))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_parameters(root, seed):
    """target_parameters: both parameters of the experts of the layer that has them, and one alone. What merge_and_unload leaves has a
    tensor for all experts; files of Qwen have one for each."""
    both = ["experts.gate_up_proj", "experts.down_proj"]
    for name, base_name, targets, rank in (("parameters", "qwen3moe", ["mlp." + both[0], both[1]], {"down_proj": 2}),
                                           ("parameter", "qwen3moe", ["down_proj"], {}), ("turned", "llama4", both, {}),
                                           ("in_turns", "gptoss", both, {"gate_up_proj": 4})):
        base = AutoModelForCausalLM.from_pretrained(f"{root}/bases/{base_name}")
        config = LoraConfig(r=3, lora_alpha=6, target_modules=["q_proj"], target_parameters=targets, rank_pattern=rank,
                            task_type="CAUSAL_LM")
        model = get_peft_model(base, config)
        fill(sorted((n, p) for n, p in model.named_parameters() if "lora_" in n), seed, 1)
        model.save_pretrained(f"{root}/{name}/a")
        os.remove(f"{root}/{name}/a/README.md")
        state = {}
        for key, value in model.merge_and_unload().state_dict().items():
            front, _, parameter = key.rpartition(".")
            if not front.endswith("experts") or base_name != "qwen3moe":
                state[key] = value
                continue
            half = value.shape[1] // 2
            parts = {"gate_proj": value[:, :half], "up_proj": value[:, half:]} if "gate" in parameter else {parameter: value}
            for part, stack in parts.items():
                for e in range(len(stack)):
                    state[f"{front}.{e}.{part}.weight"] = stack[e]
        save_file({k: v.float().contiguous() for k, v in state.items()}, f"{root}/{name}/expected.safetensors")
        open(f"{root}/{name}/spec", "w").write(f"bases/{base_name}+{name}/a\n")


def plain(info):
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = "root"
    info.mode = 0o755 if info.isdir() else 0o644
    return info


def main(out):
    root = tempfile.mkdtemp()
    os.mkdir(f"{root}/bases")
    for name in BASES:
        make_base(root, name)
    for k, name in enumerate(CASES):
        make_case(root, name, 20 + k)
    make_weighted(root)
    make_experts(root, 90)
    make_parameters(root, 91)
    buf = io.BytesIO()
    with tarfile.open(fileobj=buf, mode="w:xz", preset=9) as t:
        for name in sorted(os.listdir(root)):
            t.add(f"{root}/{name}", name, filter=plain)
    open(out, "wb").write(buf.getvalue())
    print(len(CASES) + 6, "adapters,", len(buf.getvalue()), "bytes")
    shutil.rmtree(root)


if __name__ == "__main__":
    main(sys.argv[1])
