#!/usr/bin/env python3
"""make.py - made models of RWKV-7, and what its formulas give for them.

    pip install torch transformers numpy        (for tests/llm/archs/make.py, whose functions write the files)
    tests/llm/rwkv/make.py [DIRECTORY [NAME...]]   (default: build/rwkv-made; NAME: only these)
    tests/llm/rwkv/make.py --pack DIRECTORY        (writes tests/llm/rwkv/rwkv.tar.xz)

Directories and files are those of tests/llm/archs/make.py, with the names and shapes of flash-linear-attention's
RWKV7ForCausalLM. transformers has no such model: the logits are those of the formulas of BlinkDL's rwkv_v7_numpy.py, written
here once more, in float64; those of ARWKV (RwkvHybridForCausalLM) are the same with Qwen 2.5's norms and feed-forward. Weights are few different values, so that the archive stays small.
"""
import importlib.util, os, sys, zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("archs_make", f"{HERE}/../archs/make.py")
archs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(archs)

WIDTH, VOCAB, HEAD_EPSILON = 32, 280, 64e-5


# ---- the formulas -------------------------------------------------------------------------------

def layer_norm(x, w, b, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * w + b


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Model:
    def __init__(self, config, weights):
        self.c = config
        self.w = {k: v.astype(np.float64) for k, v in weights.items()}
        self.heads, self.head = config["hidden_size"] // config["head_dim"], config["head_dim"]

    def low_rank(self, p, x, middle=lambda x: x):
        y = middle(x @ self.w[p + ".lora.0.weight"].T) @ self.w[p + ".lora.2.weight"].T
        return y + self.w.get(p + ".lora.2.bias", 0)

    def lerps(self, p):
        return [self.w[f"{p}.x_{n}"].ravel() for n in "rwkvag"]

    def gate(self, p, x):
        return self.low_rank(p + ".g_lora", x[0], sigmoid)

    def norm_heads(self, p, y):
        y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + HEAD_EPSILON)
        return y.ravel() * self.w[p + ".g_norm.weight"] + self.w[p + ".g_norm.bias"]

    def time_mix(self, layer, x, state):
        """Of one row: its result, and the state [head, value, key], which is changed."""
        p, w, H, N = f"model.layers.{layer}.attn", self.w, self.heads, self.head
        before, S = state["time"], state["wkv"]
        state["time"] = x
        r_in, w_in, k_in, v_in, a_in, *g_in = (x + (before - x) * lerp for lerp in self.lerps(p))
        r, k, v = w[p + ".r_proj.weight"] @ r_in, w[p + ".k_proj.weight"] @ k_in, w[p + ".v_proj.weight"] @ v_in
        decay = np.exp(-sigmoid(self.low_rank(p + ".w_lora", w_in, np.tanh)) / np.exp(.5))
        if layer == 0:
            state["first"] = v
        else:
            v = v + (state["first"] - v) * sigmoid(self.low_rank(p + ".v_lora", v_in))
        a = sigmoid(self.low_rank(p + ".a_lora", a_in))
        g = self.gate(p, g_in)
        kk = (k * w[p + ".k_k"].ravel()).reshape(H, N)
        kk = kk / np.maximum(np.sqrt((kk * kk).sum(-1, keepdims=True)), 1e-12)
        k = k * (1 + (a - 1) * w[p + ".k_a"].ravel())
        r, k, v, a, decay = (t.reshape(H, N) for t in (r, k, v, a, decay))
        for h in range(H):
            S[h] = S[h] * decay[h] - np.outer(S[h] @ kk[h], kk[h] * a[h]) + np.outer(v[h], k[h])
        y = np.stack([S[h] @ r[h] for h in range(H)])
        y = self.norm_heads(p, y)
        y = y + ((r * k * w[p + ".r_k"]).sum(-1, keepdims=True) * v).ravel()
        return w[p + ".o_proj.weight"] @ (y * g)

    def channel_mix(self, layer, x, state):
        p, w = f"model.layers.{layer}.ffn", self.w
        before, state["channel"] = state["channel"], x
        k = w[p + ".key.weight"] @ (x + (before - x) * w[p + ".x_k"].ravel())
        return w[p + ".value.weight"] @ np.maximum(k, 0) ** 2

    def forward(self, ids):
        c, w, eps = self.c, self.w, self.c["norm_eps"]
        states = [{"time": np.zeros(c["hidden_size"]), "channel": np.zeros(c["hidden_size"]),
                   "wkv": np.zeros((self.heads, self.head, self.head))} for _ in range(c["num_hidden_layers"])]
        norm = lambda x, name: layer_norm(x, w[name + ".weight"], w[name + ".bias"], eps)
        hidden = []
        for i in ids:
            x = norm(w["model.embeddings.weight"][i], "model.layers.0.pre_norm")
            for layer, state in enumerate(states):
                state["first"] = states[0].get("first")
                x = x + self.time_mix(layer, norm(x, f"model.layers.{layer}.attn_norm"), state)
                x = x + self.channel_mix(layer, norm(x, f"model.layers.{layer}.ffn_norm"), state)
            hidden.append(norm(x, "model.norm"))
        hidden = np.stack(hidden)
        return hidden, hidden @ w["lm_head.weight"].T


class Hybrid(Model):
    """ARWKV: the time mix in the place of attention in Qwen 2.5, as RwkvHybridForCausalLM has it."""

    def __init__(self, config, weights):
        renamed = {}
        for k, v in weights.items():
            k = k.replace("self_attn.time_mixer.", "attn.")
            p, last = k.rsplit(".", 1)
            if last in {n + d for n in "wavg" for d in "12"}:
                renamed[f"{p}.{last[0]}_lora.lora.{0 if last[1] == '1' else 2}.weight"] = v.T
            elif last in ("w0", "a0", "v0"):
                renamed[f"{p}.{last[0]}_lora.lora.2.bias"] = v.ravel()
            else:
                for a, b in (("receptance", "r_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "o_proj")):
                    k = k.replace(f"attn.{a}.", f"attn.{b}.")
                renamed[k] = v
        super().__init__({**config, "head_dim": config["head_size"]}, renamed)

    def gate(self, p, x):
        return super().gate(p, x) if self.c["wkv_has_gate"] else 1

    def norm_heads(self, p, y):
        if not self.c["wkv_has_group_norm"]:
            return y.ravel()
        y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + HEAD_EPSILON)
        return y.ravel() * self.w[p + ".ln_x.weight"] + self.w[p + ".ln_x.bias"]

    def lerps(self, p):
        return [self.w[f"{p}.x_{n}"].ravel() for n in ("rwkvag" if self.c["wkv_has_gate"] else "rwkva")]

    def forward(self, ids):
        c, w = self.c, self.w
        states = [{"time": np.zeros(c["hidden_size"]), "wkv": np.zeros((self.heads, self.head, self.head))}
                  for _ in range(c["num_hidden_layers"])]
        norm = lambda x, name: x / np.sqrt((x * x).mean() + c["rms_norm_eps"]) * w[name + ".weight"]
        hidden = []
        for i in ids:
            x = w["model.embed_tokens.weight"][i]
            for layer, state in enumerate(states):
                state["first"] = states[0].get("first")
                p = f"model.layers.{layer}"
                x = x + self.time_mix(layer, norm(x, p + ".input_layernorm"), state)
                y = norm(x, p + ".post_attention_layernorm")
                g = w[p + ".mlp.gate_proj.weight"] @ y
                x = x + w[p + ".mlp.down_proj.weight"] @ (g * sigmoid(g) * (w[p + ".mlp.up_proj.weight"] @ y))
            hidden.append(norm(x, "model.norm"))
        hidden = np.stack(hidden)
        return hidden, hidden @ w["lm_head.weight"].T


# ---- models -------------------------------------------------------------------------------------

def config(**more):
    return {"architectures": ["RWKV7ForCausalLM"], "model_type": "rwkv7", "vocab_size": VOCAB, "hidden_size": WIDTH,
            "num_hidden_layers": 3, "head_dim": 16, "norm_eps": 4e-5, "norm_first": True, "norm_bias": True, "hidden_act": "sqrelu",
            "intermediate_size": 48, "decay_low_rank_dim": 8, "gate_low_rank_dim": 12, "a_low_rank_dim": 6, "v_low_rank_dim": 4,
            "attn": None, "attn_mode": "chunk", "max_position_embeddings": 2048, "bos_token_id": 0, "eos_token_id": 0,
            "tie_word_embeddings": False, "torch_dtype": "float32", **more}


def hybrid(**more):
    return {"architectures": ["RwkvHybridForCausalLM"], "model_type": "rwkv_hybrid", "vocab_size": VOCAB, "hidden_size": 64,
            "num_hidden_layers": 2, "head_size": 32, "head_size_divisor": 8, "num_wkv_heads": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 48, "rms_norm_eps": 0.01, "hidden_act": "silu", "wkv_version": 7,
            "wkv_layers": "full", "wkv_has_gate": True, "wkv_has_group_norm": True, "bos_token_id": 1, "eos_token_id": 2,
            "max_position_embeddings": 2048, "tie_word_embeddings": False, "torch_dtype": "float32", **more}


def hybrid_shapes(c):
    C, H, N, V, F = c["hidden_size"], c["num_wkv_heads"], c["head_size"], c["vocab_size"], c["intermediate_size"]
    gate = c["wkv_has_gate"]
    out = {"model.embed_tokens.weight": (V, C), "lm_head.weight": (V, C), "model.norm.weight": (C,)}
    for i in range(c["num_hidden_layers"]):
        p, t = f"model.layers.{i}", f"model.layers.{i}.self_attn.time_mixer"
        out.update({f"{p}.{n}_layernorm.weight": (C,) for n in ("input", "post_attention")})
        out.update({f"{p}.mlp.{n}_proj.weight": (C, F) if n == "down" else (F, C) for n in ("gate", "up", "down")})
        out.update({f"{t}.x_{n}": (1, 1, C) for n in ("rwkvag" if gate else "rwkva")})
        out.update({f"{t}.k_k": (1, 1, C), f"{t}.k_a": (1, 1, C), f"{t}.r_k": (H, N)})
        out.update({f"{t}.{n}.weight": (C, C) for n in ("receptance", "key", "value", "output")})
        for n, r in (("w", 64), ("a", 64), ("v", 32), ("g", 128)):
            if n != "g" or gate:
                out.update({f"{t}.{n}1": (C, r), f"{t}.{n}2": (r, C)})
            if n != "g":
                out[f"{t}.{n}0"] = (1, 1, C)
        if c["wkv_has_group_norm"]:
            out.update({f"{t}.ln_x.weight": (C,), f"{t}.ln_x.bias": (C,)})
    return out


def rank(width, exponent, factor):
    return max(1, round(width**exponent * factor / 32)) * 32


def shapes(c, dummies):
    C, H, N, V = c["hidden_size"], c["hidden_size"] // c["head_dim"], c["head_dim"], c["vocab_size"]
    F = c["intermediate_size"] or 4 * C
    ranks = {"w": c["decay_low_rank_dim"] or rank(C, .5, 1.8), "a": c["a_low_rank_dim"] or rank(C, .5, 1.8),
             "v": c["v_low_rank_dim"] or rank(C, .5, 1.3), "g": c["gate_low_rank_dim"] or rank(C, .8, .6)}
    out = {"model.embeddings.weight": (V, C), "lm_head.weight": (V, C)}
    norms = ["model.norm", "model.layers.0.pre_norm"]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}"
        norms += [f"{p}.attn_norm", f"{p}.ffn_norm", f"{p}.attn.g_norm"]
        out.update({f"{p}.attn.x_{n}": (1, 1, C) for n in "rwkvag"})
        out.update({f"{p}.attn.k_k": (C,), f"{p}.attn.k_a": (C,), f"{p}.attn.r_k": (H, N)})
        out.update({f"{p}.attn.{n}_proj.weight": (C, C) for n in "rkvo"})
        for n in "wavg":
            if n == "v" and i == 0 and not dummies:
                continue
            out.update({f"{p}.attn.{n}_lora.lora.0.weight": (ranks[n], C), f"{p}.attn.{n}_lora.lora.2.weight": (C, ranks[n])})
            if n != "g":
                out[f"{p}.attn.{n}_lora.lora.2.bias"] = (C,)
        out.update({f"{p}.ffn.x_k": (C,), f"{p}.ffn.key.weight": (F, C), f"{p}.ffn.value.weight": (C, F)})
    for n in norms:
        out.update({n + ".weight": (C,), n + ".bias": (C,)})
    return out


def draw(rng, name, shape):
    """Multiples of a power of two near half the deviation; what is mixed of the row before is from 0 to 1."""
    if "norm.weight" in name or name.endswith(("k_k", "k_a", "ln_x.weight")):
        x, step = 1 + .3 * rng.standard_normal(shape), 1 / 8
    elif ".x_" in name:
        x, step = rng.uniform(0, 1, shape), 1 / 8
    elif name.endswith(("bias", "r_k", "w0", "a0", "v0")):
        x, step = .5 * rng.standard_normal(shape), 1 / 4
    elif name in ("model.embeddings.weight", "model.embed_tokens.weight", "lm_head.weight"):
        x, step = rng.standard_normal(shape) * (1 if "emb" in name else .3), 1 / 4
    else:
        x, step = 1.2 / np.sqrt(shape[-1]) * rng.standard_normal(shape), 2.0 ** np.round(np.log2(.6 / np.sqrt(shape[-1])))
    return (np.round(x / step) * step).astype(np.float32)


CASES = {
    "rwkv7": dict(config=config(), n=20),
    "rwkv7-usual": dict(config=config(num_hidden_layers=2, intermediate_size=None, decay_low_rank_dim=None, gate_low_rank_dim=None,
                                      a_low_rank_dim=None, v_low_rank_dim=None, value_dim=[WIDTH, WIDTH], torch_dtype="bfloat16"),
                        n=24, dtype="bf16", dummies=True),
    "arwkv7": dict(config=hybrid(), n=16),
    "arwkv7-bare": dict(config=hybrid(wkv_has_gate=False, wkv_has_group_norm=False, torch_dtype="bfloat16"), n=16, dtype="bf16"),
}


def make(root, name, c):
    seed = zlib.crc32(name.encode())
    rng = np.random.default_rng(seed)
    is_hybrid = c["config"]["model_type"] == "rwkv_hybrid"
    all_shapes = hybrid_shapes(c["config"]) if is_hybrid else shapes(c["config"], c.get("dummies"))
    weights = {n: draw(rng, n, s) for n, s in sorted(all_shapes.items())}
    ids = np.random.default_rng(seed + 1).integers(3, VOCAB, c["n"])
    hidden, y = (Hybrid if is_hybrid else Model)(c["config"], weights).forward(ids)
    assert np.isfinite(y).all() and y.std() > .5, (name, y.std())
    folder = f"{root}/{name}"
    os.makedirs(folder, exist_ok=True)
    archs.save_json(f"{folder}/config.json", c["config"])
    archs.save_json(f"{folder}/case.json", {"kind": "text", "ids": ids.tolist()})
    archs.save_weights(folder, weights, c.get("dtype", "f32"), 1)
    np.save(f"{folder}/logits.npy", y.astype("<f4"))
    np.save(f"{folder}/pooled.npy", hidden.mean(0).astype("<f4"))
    print(f"{name:20} {'x'.join(map(str, y.shape)):8} deviation {y.std():.2f}")


def main(args):
    archs.HERE = HERE
    if args[:1] == ["--pack"]:
        return archs.pack(args[1], "rwkv.tar.xz")
    root = args[0] if args else "build/rwkv-made"
    for name in args[1:] or CASES:
        make(root, name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
