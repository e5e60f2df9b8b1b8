#!/usr/bin/env python3
"""make.py - made models with a head of multi-token prediction, and what transformers computes of it.

    pip install torch transformers numpy            (made with torch 2.15.0, transformers 5.24.0)
    tests/llm/heads/make.py [DIRECTORY [NAME...]]   (default: build/heads-made; NAME: only these)
    tests/llm/heads/make.py --pack DIRECTORY        (writes tests/llm/heads/heads.tar.xz)

transformers leaves heads out. Here a head is a model of one layer of the same class, which reads what the head's matrix makes of a normed
embedding beside a normed hidden state, in place of embedded tokens: so the layer, the last norm and the output matrix are transformers'.
Directories and files are those of tests/llm/archs/make.py, and

    next.npy    f32 [n, vocab]   of ids t0 .. t(n-1) and the model's hidden states h behind its last norm, the head's logits of the rows
                                 (h0, t1), (h1, t2) ... (h(n-2), t(n-1)), and then of (s, t0): s is the head's own state of the row before,
                                 behind its norm (Qwen) or before it (others)

That the embedding is the first half, and which states are normed, is from vLLM (qwen3_next_mtp.py, glm4_moe_mtp.py, deepseek_mtp.py).
"""
import importlib.util, os, sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    spec = importlib.util.spec_from_file_location(f"{name}_make", f"{HERE}/../{name}/make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


delta, latent, further = load("delta"), load("latent"), load("further")
archs, WIDTH = delta.archs, delta.WIDTH


def norm(x, weight, eps, less_one):
    """RMS norm; Qwen3-Next and Qwen3.5 multiply by 1 + weight."""
    x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)
    return x * (weight + 1 if less_one else weight)


class Case:
    def __init__(self, config, one, qwen, own=False, run=None, names=None):
        self.config, self.one, self.qwen, self.own = config, one, qwen, own
        self.run, self.names = run or config, names or (lambda w: w)
        self.draw = delta.draw if qwen else latent.coarse_draw

    def tensor(self, rng, name, shape):
        return self.draw(rng, name, shape, "").view(np.float32)


def head_weights(c, inner, weights, rng, layers):
    """The head's tensors under the names of the hub; and as torch has them."""
    x = {"fc": c.tensor(rng, "fc.weight", (WIDTH, 2 * WIDTH)), "enorm": c.tensor(rng, "enorm_norm.weight", (WIDTH,)),
         "hnorm": c.tensor(rng, "hnorm_norm.weight", (WIDTH,))}
    layer = {k.split("layers.0.")[1]: v for k, v in inner.items() if "layers.0." in k}
    last = next(v for k, v in inner.items() if k.endswith("model.norm.weight"))
    if c.qwen:
        names = {"mtp.fc.weight": x["fc"], "mtp.pre_fc_norm_embedding.weight": x["enorm"],
                 "mtp.pre_fc_norm_hidden.weight": x["hnorm"], "mtp.norm.weight": last}
        return x, {**names, **{f"mtp.layers.0.{k}": v for k, v in layer.items()}}
    at = f"model.layers.{layers}"
    names = {f"{at}.eh_proj.weight": x["fc"], f"{at}.enorm.weight": x["enorm"], f"{at}.hnorm.weight": x["hnorm"],
             f"{at}.shared_head.norm.weight": last}
    if c.own:  # tables of its own
        names[f"{at}.embed_tokens.weight"] = x["embed"] = c.tensor(rng, "embed.weight", weights["model.embed_tokens.weight"].shape)
        names[f"{at}.shared_head.head.weight"] = inner["lm_head.weight"]
    return x, {**names, **{f"{at}.{k}": v for k, v in layer.items()}}


def run_head(c, head, x, embed, hidden, ids):
    """Logits of each row, and of one more that reads the head's own state."""
    t = {k: torch.from_numpy(v.astype(np.float64)) for k, v in x.items()}
    eps, before = c.run["rms_norm_eps"], []
    hook = head.model.norm.register_forward_pre_hook(lambda module, args: before.append(args[0]))
    rows = list(hidden[:-1])
    for step in range(2):
        tokens = torch.from_numpy(np.concatenate([ids[1:], ids[:1]])[:len(rows)])
        e = norm(t.get("embed", embed)[tokens], t["enorm"], eps, c.qwen)
        h = norm(torch.stack(rows), t["hnorm"], eps, c.qwen)
        inputs = torch.cat([e, h], -1) @ t["fc"].T
        with torch.no_grad():
            out = head(inputs_embeds=inputs[None], output_hidden_states=True)
        rows.append(out.hidden_states[-1][0, -1] if c.qwen else before[-1][0, -1])
    hook.remove()
    return out.logits[0].numpy()


def make(root, name, c):
    import zlib
    archs.draw = c.draw
    seed = zlib.crc32(name.encode())
    run = {k: v for k, v in c.run.items() if k != "torch_dtype"}
    model, _ = latent.build(run)
    weights = archs.fill(model, c.config["model_type"], seed)
    head, _ = latent.build({**run, **c.one})
    inner = archs.fill(head, c.config["model_type"], seed + 2)
    rng = np.random.default_rng(seed + 3)
    x, extra = head_weights(c, inner, weights, rng, c.run["num_hidden_layers"])
    embed = torch.from_numpy(weights["model.embed_tokens.weight"].astype(np.float64))
    if not c.own:
        with torch.no_grad():
            head.lm_head.weight.copy_(model.lm_head.weight)
    ids = np.random.default_rng(seed + 1).integers(3, archs.VOCAB, 16)
    hidden, y = archs.forward(model, False, ids)
    z = run_head(c, head, x, embed, torch.from_numpy(hidden), ids)
    assert np.isfinite(z).all() and z.std() > .5, (name, z.std())
    folder = f"{root}/{name}"
    os.makedirs(folder, exist_ok=True)
    archs.save_json(f"{folder}/config.json", c.config)
    archs.save_json(f"{folder}/case.json", {"kind": "text", "ids": ids.tolist()})
    archs.save_weights(folder, c.names({**weights, **extra}), "f32", 1)
    np.save(f"{folder}/logits.npy", y.astype("<f4"))
    np.save(f"{folder}/next.npy", z.astype("<f4"))
    np.save(f"{folder}/pooled.npy", hidden.mean(0).astype("<f4"))
    print(f"{name:20} {'x'.join(map(str, z.shape)):8} deviation {y.std():.2f} {z.std():.2f}")


def mlp_experts(w):
    """Experts one by one, of the head too."""
    return archs.mlp_experts(w)


ATTENTION = {"num_hidden_layers": 1, "layer_types": ["full_attention"], "mtp_num_hidden_layers": 0}
SPARSE = {"num_hidden_layers": 1, "first_k_dense_replace": 0, "num_nextn_predict_layers": 0}
QWEN35, QWEN35MOE = delta.qwen35(), delta.qwen35(moe=True)


def without_mtp(config):
    return {k: v for k, v in config.items() if k != "mtp_num_hidden_layers"}


CASES = {
    "qwen3next-head": Case(delta.next80(), ATTENTION, True, names=mlp_experts),
    "qwen35-head": Case(delta.hub35(QWEN35), ATTENTION, True, run=without_mtp(QWEN35), names=lambda w: hub_names(w)),
    "qwen35moe-head": Case(delta.hub35(QWEN35MOE), ATTENTION, True, run=without_mtp(QWEN35MOE), names=lambda w: hub_names(w)),
    "glm4_moe-head": Case(archs.glm4(num_nextn_predict_layers=1), SPARSE, False, own=True, names=mlp_experts),
    "deepseek-v3-head": Case(latent.v3(), SPARSE, False, names=mlp_experts),
    "deepseek-v32-head": Case(further.deepseek_v32(num_nextn_predict_layers=1), SPARSE, False, names=mlp_experts),
}


def hub_names(w):
    return {k.replace("model.", "model.language_model.", 1) if k.startswith("model.") else k: v for k, v in w.items()}


def main(args):
    archs.HERE = HERE
    if args[:1] == ["--pack"]:
        return archs.pack(args[1], "heads.tar.xz")
    archs.everything_double()
    root = args[0] if args else "build/heads-made"
    for name in args[1:] or CASES:
        make(root, name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
