#!/usr/bin/env python3
"""rows.py - the types that zt-quant and llama-quantize give the tensors of the models of all rows.

    rows.py ZT_QUANT GGUF...      a line for each tensor whose types differ, one for each model that llama.cpp does not
                                  open, and a summary; exit 1 if any differ
    rows.py --list GGUF...        what llama-quantize chooses, in the form of types.txt: rows.txt is
                                  that of deepseek-v3 falcon_h1 gemma3n gemma4-experts gpt-oss granitehybrid lfm2moe llama4-scout
                                  mamba2 mistral4 nemotron_h_moe qwen3next t5, and of rwkv7 and arwkv7 made by mkmodel

Needs llama-cpp-python (0.3.36 here). Each GGUF is one of a tiny model of a row, as zt-convert makes them of the sets in
build/; of it are taken the keys, and the tensors with rows of whole blocks of 256, without values.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.argv, arguments = sys.argv[:1], sys.argv[1:]
import make as llama  # noqa: E402

MIXES = "q8_0 q6_k q5_k_m q5_k_s q4_k_m q4_k_s q4_0 q5_0 iq4_nl iq4_xs mxfp4_moe q3_k_l q3_k_m q3_k_s q2_k q2_k_s".split()
SIZES = {0: 1, 1: 1, 4: 4, 5: 4, 6: 4, 7: 1, 2: 2, 3: 2, 10: 8, 11: 8, 12: 8}


def read(path):
    """The bytes of each key with its name, and of each tensor name and shape (rows before columns)."""
    data = open(path, "rb").read()
    at = 24
    count, keys = struct.unpack_from("<QQ", data, 8)

    def text():
        nonlocal at
        n = struct.unpack_from("<Q", data, at)[0]
        at += 8 + n
        return data[at - n : at].decode()

    def skip(kind):
        nonlocal at
        if kind == 8:
            text()
        elif kind == 9:
            element, n = struct.unpack_from("<IQ", data, at)
            at += 12
            for _ in range(n):
                skip(element)
        else:
            at += SIZES[kind]

    kept = []
    for _ in range(keys):
        start = at
        name = text()
        kind = struct.unpack_from("<I", data, at)[0]
        at += 4
        skip(kind)
        if not name.startswith("tokenizer."):
            kept.append(data[start:at])
    tensors = []
    for _ in range(count):
        name = text()
        rank = struct.unpack_from("<I", data, at)[0]
        shape = struct.unpack_from(f"<{rank}Q", data, at + 4)[::-1]
        at += 4 + 8 * rank + 12
        if rank > 1 and shape[-1] >= 8:
            shape = shape[:-1] + ((shape[-1] + 255) // 256 * 256,)
        tensors.append((name, shape))
    return kept, tensors


def ask_zt(program, path, mix):
    out = subprocess.run([program, "--type", mix, "--dry-run", path], capture_output=True, text=True)
    rows = [line.split("\t") for line in out.stdout.splitlines()]
    if not rows:
        sys.exit(f"{path} {mix}: {out.stderr}")
    return {r[0]: r[3] for r in rows[1:]}


def number(keys, end):
    """The number of a key, of a list the first; 0: there is none."""
    for key in keys:
        n = struct.unpack_from("<Q", key)[0]
        if key[8 : 8 + n].decode().endswith("." + end):
            kind = struct.unpack_from("<I", key, 8 + n)[0]
            at = 12 + n
            if kind == 9:
                kind, at = struct.unpack_from("<I", key, at)[0], at + 12
            return int.from_bytes(key[at : at + SIZES[kind]], "little")
    return 0


LISTED = "q6_k q5_k_m q4_k_m mxfp4_moe q3_k_m q2_k".split()


def list_types(paths):
    print("""# Made by rows.py --list with llama-cpp-python 0.3.36, of tiny models of rows with experts, states and latents. The
# form is that of types.txt.""")
    for path in paths:
        keys, tensors = read(path)
        arch = next(k for k in keys if b"general.architecture" in k)[40:].decode()
        heads, kv = number(keys, "attention.head_count"), number(keys, "attention.head_count_kv")
        sizes = number(keys, "block_count"), heads, kv or heads, number(keys, "expert_count")
        print(f"model {arch}", *sizes, "#", os.path.basename(path).removesuffix(".gguf"))
        for name, shape in tensors:
            print(name, *shape)
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "m.gguf")
            llama.write(made, "", tensors, keys)
            for mix in LISTED:
                plain, with_it = llama.ask(made, mix, False), llama.ask(made, mix, True)
                assert plain == with_it
                llama.tell(tensors, 1, *plain, f"mix {mix} both")


def compare(program, path):
    """Prints what differs in one model."""
    keys, tensors = read(path)
    row = os.path.basename(path).removesuffix(".gguf")
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "m.gguf")
        llama.write(made, "", tensors, keys)
        for mix in MIXES:
            try:
                theirs = llama.ask(made, mix, False)[0]
            except SystemExit as refused:
                print(f"{row}: llama.cpp does not open it: {str(refused).strip().splitlines()[-1]}")
                return
            ours = ask_zt(program, made, mix)
            for name, _ in tensors:
                same = ours.get(name) == theirs.get(name)
                print("same" if same else f"{row} {mix} {name}: zt {ours.get(name)}, llama.cpp {theirs.get(name)}")


def main():
    """Each model in a process of its own: llama.cpp ends it where it meets sizes that it does not know."""
    program, paths = arguments[0], arguments[1:]
    if program == "--list":
        return list_types(paths)
    if len(paths) == 1:
        return compare(program, paths[0])
    differ = same = 0
    for path in paths:
        out = subprocess.run([sys.executable, __file__, program, path], capture_output=True, text=True,
                             env=os.environ | {"GGML_NO_BACKTRACE": "1"})
        lines = out.stdout.splitlines()
        same += lines.count("same")
        lines = [line for line in lines if line != "same"]
        if out.returncode:
            lines = [f"{os.path.basename(path)}: llama.cpp stops: {out.stderr.strip().splitlines()[-1]}"]
        differ += len([line for line in lines if ": zt " in line])
        print("\n".join(lines), end="\n" if lines else "", flush=True)
    print(f"{len(paths)} models, {same + differ} types compared, {differ} differ")
    return differ > 0


if __name__ == "__main__":
    sys.exit(main())
