#!/usr/bin/env python3
"""make.py - the losses of made models while PyTorch trains them: tests/llm/learn/losses.h, for tests/llm/learn_losses.c.

    pip install torch transformers numpy        (made with torch 2.15.0, transformers 5.24.0)
    tests/llm/learn/make.py [NAME...]           (NAME: prints the losses of these only)

The models are those of tests/llm/state_space, tests/llm/delta and tests/llm/rows. They see two texts, STEPS times, in float64;
Adam divides by the gradient's own size, so that each weight counts, whatever its gradient. A weight is what a GGUF holds:
A = -exp(A_log), and products with constants that llama.cpp's converter multiplies weights by.
"""
import importlib.util, os, sys, zlib

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS, TOKENS, STEPS, RATE, EPSILON, BETAS = 2, 16, 4, 0.002, 1e-3, (0.9, 0.999)


def load(name):
    spec = importlib.util.spec_from_file_location(f"{name}_make", f"{HERE}/../{name}/make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SETS = {"state_space": ["mamba", "mamba-untied", "falcon_mamba", "mamba2", "falcon_h1", "falcon_h1-normed", "granitehybrid",
                        "granitehybrid-experts", "nemotron_h", "nemotron_h-last", "lfm2", "lfm2moe"],
        "delta": ["qwen3next", "qwen3next-listed", "qwen35", "qwen35-three", "qwen35moe"],
        "rows": ["mpt", "mpt-clip"]}


def texts(vocab):
    at = [[(7 * i * i + 13 * b * i + 5 * b + 3 * i) % (vocab - 3) + 3 for i in range(TOKENS + 1)] for b in range(TEXTS)]
    return torch.tensor(at)


def factors(config, name, shape):
    """What a weight of Falcon-H1 is multiplied by in a GGUF (conversion/falcon_h1.py); 1 for all others."""
    c = config
    if c["model_type"] != "falcon_h1":
        return 1.0
    if name.endswith("mamba.in_proj.weight"):
        inner, group = c["mamba_d_ssm"], c["mamba_n_groups"] * c["mamba_d_state"]
        by = np.repeat(c["ssm_multipliers"], [inner, inner, group, group, c["mamba_n_heads"]]) * c["ssm_in_multiplier"]
        return torch.from_numpy(by)[:, None]
    return {"mamba.out_proj.weight": c["ssm_out_multiplier"], "k_proj.weight": c["key_multiplier"] * c["attention_in_multiplier"],
            "q_proj.weight": c["attention_in_multiplier"], "v_proj.weight": c["attention_in_multiplier"],
            "o_proj.weight": c["attention_out_multiplier"], "gate_proj.weight": c["mlp_multipliers"][0],
            "down_proj.weight": c["mlp_multipliers"][1], "embed_tokens.weight": c["embedding_multiplier"],
            "lm_head.weight": c["lm_head_multiplier"]}.get(next((e for e in (
                "mamba.out_proj.weight", "k_proj.weight", "q_proj.weight", "v_proj.weight", "o_proj.weight", "gate_proj.weight",
                "down_proj.weight", "embed_tokens.weight", "lm_head.weight") if name.endswith(e)), ""), 1.0)


def losses(archs, name, case):
    config = {k: v for k, v in (case["run"] or case["config"]).items() if k != "torch_dtype"}
    model, _ = archs.build(config)
    archs.fill(model, case["config"]["model_type"], zlib.crc32(name.encode()))
    model.train(False)
    ids, seen, moments = texts(archs.VOCAB), [], {}
    for step in range(1, STEPS + 2):
        model.zero_grad()
        logits = model(ids[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        seen.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for key, p in model.named_parameters():
                if p.grad is None:
                    continue
                by = factors(config, key, p.shape)
                log = key.endswith("A_log")
                value = -torch.exp(p) if log else p * by
                d = p.grad / value if log else p.grad / by
                m, v = moments.get(key, (torch.zeros_like(p), torch.zeros_like(p)))
                m, v = BETAS[0] * m + (1 - BETAS[0]) * d, BETAS[1] * v + (1 - BETAS[1]) * d * d
                moments[key] = m, v
                value = value - RATE / (1 - BETAS[0]**step) * m / (torch.sqrt(v) / np.sqrt(1 - BETAS[1]**step) + EPSILON)
                p.copy_(torch.log(-value) if log else value / by)
    return seen


def main(only):
    lines = []
    for which, names in SETS.items():
        module = load(which)
        archs = module.archs
        archs.draw = getattr(module, "draw", None) or module.dense.coarse_draw
        archs.everything_double()
        for name in names:
            if only and name not in only:
                continue
            seen = losses(archs, name, module.CASES[name])
            print(f"{name:24}", " ".join(f"{x:.7f}" for x in seen))
            lines.append(f'    {{"{which}", "{name}", {{{", ".join(f"{x:.7f}" for x in seen)}}}}},\n')
    if only:
        return
    with open(f"{HERE}/losses.h", "w") as f:
        f.write(f"""/* losses.h - made by make.py: the losses of made models before each step of training, and after the last. */
enum {{ TEXTS = {TEXTS}, TOKENS = {TOKENS}, STEPS = {STEPS} }};
static const double learning_rate = {RATE}, epsilon = {EPSILON};

typedef struct curve {{
    const char *set, *name;
    double loss[STEPS + 1];
}} curve;

static const curve curves[] = {{
""" + "".join(lines) + "};\n")


if __name__ == "__main__":
    main(sys.argv[1:])
