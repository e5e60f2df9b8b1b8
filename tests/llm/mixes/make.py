#!/usr/bin/env python3
"""make.py > types.txt - which type llama-quantize gives each tensor: headers of made models, by its dry run.

Needs llama-cpp-python (0.3.36 here). The form is told at the top of what it prints.
"""
import collections
import ctypes
import itertools
import os
import re
import struct
import sys
import tempfile

import llama_cpp as L

F16, F32 = 1, 0
MIXES = """q8_0 q6_k q5_k_m q5_k_s q5_1 q5_0 q4_k_m q4_k_s q4_1 q4_0 iq4_nl iq4_xs mxfp4_moe q3_k_l q3_k_m
q3_k_s q2_k q2_k_s tq2_0 tq1_0 f16 bf16""".split()


def layers(width, ff, kv, gate=True, experts=0, fused=False, more=()):
    """The tensors of a layer: name, and shape with rows before columns."""
    out = [("attn_norm.weight", (width,)), ("attn_output.weight", (width, width))]
    if fused:
        out += [("attn_qkv.weight", (width + 2 * kv, width))]
    else:
        out += [("attn_q.weight", (width, width)), ("attn_k.weight", (kv, width)), ("attn_v.weight", (kv, width))]
    e, x = ((experts,), "_exps") if experts else ((), "")
    if experts:
        out += [("ffn_gate_inp.weight", (experts, width))]
    out += [(f"ffn_up{x}.weight", e + (ff, width)), (f"ffn_down{x}.weight", e + (width, ff))]
    out += [(f"ffn_gate{x}.weight", e + (ff, width))] if gate else []
    return out + list(more)


EMBED, OUTPUT = ("token_embd.weight", (512, 0)), ("output.weight", (512, 0))
POS = ("position_embd.weight", (64, 0))
TYPES = ("token_types.weight", (2, 0))
# name, arch, layers, heads, heads of keys, experts, width, tensors outside of layers, those of a layer
MODELS = [
    ("smollm2", "llama", 30, 9, 3, 0, 576, [EMBED], layers(576, 1536, 192)),
    ("friendly", "llama", 17, 16, 4, 0, 1024, [EMBED, OUTPUT], layers(1024, 2816, 256)),
    ("many heads of keys", "llama", 32, 8, 8, 0, 512, [EMBED, OUTPUT], layers(512, 1536, 512)),
    ("80 layers", "llama", 80, 8, 1, 0, 256, [EMBED, OUTPUT], layers(256, 512, 256)),
    ("80 layers, all keys", "llama", 80, 4, 4, 0, 256, [EMBED, OUTPUT], layers(256, 512, 256)),
    ("qwen2 of 80 layers", "qwen2", 80, 4, 2, 0, 256, [EMBED], layers(256, 512, 256)),
    ("eight experts", "llama", 32, 8, 2, 8, 512, [EMBED, OUTPUT], layers(512, 1024, 128, experts=8)),
    ("four experts", "llama", 20, 8, 4, 4, 288, [EMBED, OUTPUT], layers(288, 768, 144, experts=4)),
    ("falcon", "falcon", 32, 8, 1, 0, 512, [EMBED, OUTPUT], layers(512, 2048, 64, gate=False, fused=True)),
    ("gemma3", "gemma3", 26, 4, 1, 0, 640, [EMBED], layers(640, 2048, 256)),
    ("phi3", "phi3", 16, 8, 8, 0, 512, [EMBED, OUTPUT], layers(512, 1024, 512, gate=False, fused=True)),
    ("gpt2", "gpt2", 12, 4, 4, 0, 256, [EMBED, POS], layers(256, 1024, 256, gate=False, fused=True)),
    ("bert", "bert", 12, 4, 4, 0, 256, [EMBED, POS, TYPES], layers(256, 1024, 256, gate=False)),
    ("rows of 40", "llama", 8, 4, 2, 0, 40, [EMBED, OUTPUT], layers(40, 72, 20)),
    ("rows of 96", "llama", 8, 4, 2, 0, 96, [EMBED], layers(96, 160, 48)),
]


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def keys(arch, n, heads, kv, experts, width):
    u32 = {"block_count": n, "attention.head_count": heads, "attention.head_count_kv": kv, "embedding_length": width,
           "context_length": 128, "feed_forward_length": 4 * width, "vocab_size": 512}
    if experts:
        u32 |= {"expert_count": experts, "expert_used_count": 2}
    f32 = {"attention.layer_norm_rms_epsilon": 1e-5, "attention.layer_norm_epsilon": 1e-5}
    out = [text("general.architecture") + struct.pack("<I", 8) + text(arch)]
    out += [text(f"{arch}.{k}") + struct.pack("<II", 4, v) for k, v in u32.items()]
    out += [text(f"{arch}.{k}") + struct.pack("<If", 6, v) for k, v in f32.items()]
    out += [text(f"{arch}.attention.causal") + struct.pack("<IB", 7, arch != "bert")]
    return out


def spell(tensors, n):
    for name, shape in tensors:
        for i in range(n) if "*" in name else [0]:
            yield name.replace("*", str(i)), shape


def write(path, arch, tensors, kv):
    """A header, and data that is one hole."""
    head, at = b"", 0
    for name, shape in tensors:
        count = 1
        for d in shape:
            count *= d
        kind = F32 if len(shape) == 1 else F16
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in shape[::-1])
        head += struct.pack("<IQ", kind, at)
        at += (count * (4 if kind == F32 else 2) + 31) // 32 * 32
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(kv)) + b"".join(kv) + head)
        f.truncate((f.tell() + 31) // 32 * 32 + at)


lines = []


@L.llama_log_callback
def catch(level, words, user):
    lines.append(words.decode())


def ask(path, mix, imatrix):
    """{tensor: type}, and how many fell back."""
    p = L.llama_model_quantize_default_params()
    names = [f"LLAMA_FTYPE_{how}_{mix.upper()}" for how in ("MOSTLY", "ALL")]
    p.ftype = next(getattr(L, n) for n in names if hasattr(L, n))
    p.dry_run, p.nthread = True, 1
    some = (L.llama_model_imatrix_data * 2)()
    one = (ctypes.c_float * 1)(1.0)
    some[0].name, some[0].data, some[0].size = b"nothing", one, 1
    if imatrix:
        p.imatrix = ctypes.cast(some, ctypes.POINTER(L.llama_model_imatrix_data))
    lines.clear()
    if L.llama_model_quantize(path.encode(), b"/dev/null", ctypes.byref(p)):
        sys.exit(f"{path} {mix}: " + "".join(lines))
    said = "".join(lines)
    types = {}
    for m in re.finditer(r"\] +(\S+) +- \[.*?\], type = +(\w+), size = .*?MiB(?: -> .*?\((\w+)\))?\n", said):
        types[m[1]] = (m[3] or m[2]).lower()
    fell = re.search(r"(\d+) of \d+ tensor\(s\) required fallback", said)
    return types, int(fell[1]) if fell else 0


def runs(types):
    return " ".join(t + (f"*{n}" if n > 1 else "") for t, n in ((t, len(list(g))) for t, g in itertools.groupby(types)))


def tell(tensors, n, types, fell, head):
    """Norms are not told of: all that are vectors stay as they are."""
    vectors = {x for x, shape in spell(tensors, n) if len(shape) == 1}
    assert all(types[x] == "f32" for x in vectors)
    usual = collections.Counter(t for x, t in types.items() if x not in vectors).most_common(1)[0][0]
    print(f"{head} {fell} {usual}")
    for name, shape in tensors:
        if len(shape) == 1:
            continue
        of = [types[x] for x, _ in spell([(name, ())], n)]
        if set(of) != {usual}:
            print(f"{name} {runs(of)}")


L.llama_log_set(catch, ctypes.c_void_p(0))
L.llama_backend_init()


def main():
    print("""# Made by make.py with llama-cpp-python 0.3.36: which type llama-quantize gives each tensor.
# model: architecture, layers, heads, heads of keys, experts; then its tensors and their shapes, * for every
# layer. mix: name, with or without an imatrix, how many fall back, the usual type; then who has another.""")
    for name, arch, n, heads, kv, experts, width, outer, inner in MODELS:
        tensors = [(t, tuple(d or width for d in shape)) for t, shape in outer]
        tensors += [("output_norm.weight", (width,))] + [("blk.*." + t, shape) for t, shape in inner]
        print(f"model {arch} {n} {heads} {kv} {experts} # {name}")
        for t, shape in tensors:
            print(t, *shape)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.gguf")
            write(path, arch, list(spell(tensors, n)), keys(arch, n, heads, kv, experts, width))
            for mix in MIXES:
                plain, with_it = ask(path, mix, False), ask(path, mix, True)
                if plain == with_it:
                    tell(tensors, n, *plain, f"mix {mix} both")
                else:
                    tell(tensors, n, *plain, f"mix {mix} without")
                    tell(tensors, n, *with_it, f"mix {mix} with")


if __name__ == "__main__":
    main()
