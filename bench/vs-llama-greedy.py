#!/usr/bin/env python3
"""vs-llama-greedy.py ZT_RUN FOLDER DIRECTORY... - greedy text of tiny models, zt beside llama.cpp.

    PEER/bin/python bench/vs-llama-greedy.py build/bin/zt-run /tmp/greedy build/archs/* build/delta/* ...

Each DIRECTORY is a Hugging Face model of a set of tests/llm; zt-convert (beside ZT_RUN) makes a GGUF of it in FOLDER, with
matrices in F32 and a vocabulary that names each token by its number, and both programs continue the same twelve ids by 48
tokens from that file: zt-run --exact, and llama.cpp with a cache in F32 and without flash attention. Prints a Markdown table:
row, equal tokens of 48, and of the first difference the position, both tokens, and how far apart their logits are in
llama.cpp, in deviations of all logits. Rows that llama.cpp does not run have the reason instead. FOLDER also gets NAME.ids, the ids up
to the first difference, for a reference (greedy-authors.py).
Needs llama-cpp-python (0.3.36 here; see bench/vs-llama).
"""
import ctypes
import json
import os
import statistics
import struct
import subprocess
import sys

PROMPT, NEW = 12, 48
FIRST = ["<unk>", "<s>", "<|endoftext|>", "</s>"]  # texts of the first ids, which llama.cpp looks up for some rows; then t4, t5, ...
ENDS = (2, 3)  # of them those that end a text: never generated
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def skip(data, at, kind):
    """The place behind a value."""
    if kind == 8:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != 9:
        return at + SIZES[kind]
    element, count = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(count):
        at = skip(data, at, element)
    return at


def vocabulary(size):
    """Keys of a SentencePiece vocabulary whose tokens name their numbers."""
    tokens = FIRST + [f"t{i}" for i in range(len(FIRST), size)]
    out = [text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("llama")]
    out += [text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, size) + b"".join(text(t) for t in tokens)]
    out += [text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, size) + struct.pack(f"<{size}f", *([0.0] * size))]
    out += [text("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, size) + struct.pack(f"<{size}i", *([1] * size))]
    out += [text(f"tokenizer.ggml.{k}_token_id") + struct.pack("<II", 4, i) for k, i in [("unknown", 0), ("bos", 1), ("eos", ENDS[0])]]
    out += [text("tokenizer.ggml.add_bos_token") + struct.pack("<IB", 7, 0)]
    return out


def dress(path):
    """Replaces the vocabulary of the file; the number of tokens."""
    data = open(path, "rb").read()
    tensors, count = struct.unpack_from("<QQ", data, 8)
    at, keys = 24, []
    for _ in range(count):
        start = at
        at = skip(data, at, 8)
        name = data[start + 8 : at].decode()
        at = skip(data, at + 4, struct.unpack_from("<I", data, at)[0])
        if not name.startswith("tokenizer.") and name != "general.alignment":
            keys.append(data[start:at])
    start, size = at, 0
    for _ in range(tensors):
        before = at
        at = skip(data, at, 8)
        rank = struct.unpack_from("<I", data, at)[0]
        if data[before + 8 : at] == b"token_embd.weight":
            size = struct.unpack_from("<QQ", data, at + 4)[1]
        at += 4 + 8 * rank + 12
    infos, body = data[start:at], data[(at + 31) // 32 * 32 :]
    keys += vocabulary(size)
    head = b"GGUF" + struct.pack("<IQQ", 3, tensors, len(keys)) + b"".join(keys) + infos
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + body)
    return size


def by_zt(program, path, prompt):
    request = json.dumps({"prompt": prompt, "n": NEW, "temp": 0, "ignore-eos": True})
    out = subprocess.run([program, "-m", path, "--exact", "--threads", "1", "--jsonl"], input=request, capture_output=True, text=True)
    if out.returncode:
        raise RuntimeError(out.stderr.strip().splitlines()[-1])
    answer = json.loads(out.stdout)
    if "ids" not in answer:
        raise RuntimeError(out.stdout.strip()[:200])
    return answer["ids"]


def by_llama(path, prompt):
    """The ids, and the logits that each was taken from."""
    import llama_cpp as L

    lines = []

    @L.llama_log_callback
    def catch(level, words, user):
        lines.append(words.decode(errors="replace"))

    L.llama_log_set(catch, ctypes.c_void_p(0))
    L.llama_backend_init()
    params = L.llama_model_default_params()
    params.n_gpu_layers = 0
    model = L.llama_model_load_from_file(path.encode(), params)
    if not model:
        sys.exit(([line for line in lines if "error" in line] + ["not opened"])[0].strip())
    options = L.llama_context_default_params()
    options.n_ctx, options.n_threads, options.n_threads_batch = 128, 1, 1
    options.type_k = options.type_v = L.GGML_TYPE_F32
    options.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_DISABLED
    ctx = L.llama_init_from_model(model, options)
    if not ctx:
        sys.exit("no context: " + lines[-1].strip())
    size = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    ids, rows, feed = [], [], prompt
    for _ in range(NEW):
        array = (L.llama_token * len(feed))(*feed)
        if L.llama_decode(ctx, L.llama_batch_get_one(array, len(feed))):
            sys.exit("llama_decode failed: " + lines[-1].strip())
        row = L.llama_get_logits_ith(ctx, -1)[:size]
        ids.append(max((i for i in range(size) if i not in ENDS), key=row.__getitem__))
        rows.append(list(row))
        feed = ids[-1:]
    return ids, rows


def compare(program, folder, directory):
    name = os.path.basename(directory.rstrip("/"))
    path = os.path.join(folder, name + ".gguf")
    convert = os.path.join(os.path.dirname(program), "zt-convert")
    subprocess.run([convert, "-f", "--dtype", "f32", directory, path], check=True, capture_output=True)
    size = dress(path)
    prompt = [(37 * i + 11) % size for i in range(PROMPT)]
    try:
        ours = by_zt(program, path, prompt)
    except RuntimeError as refused:
        print(f"| {name} | zt: {refused} | |")
        return
    out = subprocess.run([sys.executable, __file__, "--llama", path, json.dumps(prompt)], capture_output=True, text=True,
                         env=os.environ | {"GGML_NO_BACKTRACE": "1"})
    if out.returncode:
        print(f"| {name} | llama.cpp: {(out.stderr.strip() or 'stops').splitlines()[-1]} | |")
        return
    theirs, rows = json.loads(out.stdout)
    at = next((i for i in range(NEW) if ours[i : i + 1] != theirs[i : i + 1]), NEW)
    if at == NEW:
        print(f"| {name} | {NEW} of {NEW} | |")
        return
    if at == len(ours):
        print(f"| {name} | {at} of {NEW} | zt ends |")
        return
    mine, other, row = ours[at], theirs[at], rows[at]
    gap = (row[other] - row[mine]) / statistics.pstdev(row)
    with open(os.path.join(folder, name + ".ids"), "w") as f:
        json.dump({"directory": directory, "ids": prompt + ours[:at], "zt": mine, "llama": other}, f)
    print(f"| {name} | {at} of {NEW} | zt {mine}, llama.cpp {other}, {gap:.2g} deviations apart |")


if __name__ == "__main__":
    if sys.argv[1] == "--llama":
        print(json.dumps(by_llama(sys.argv[2], json.loads(sys.argv[3]))))
        sys.exit()
    os.makedirs(sys.argv[2], exist_ok=True)
    print("| model | equal tokens | first difference |\n|---|---|---|")
    for place in sys.argv[3:]:
        compare(os.path.abspath(sys.argv[1]), sys.argv[2], place)
        sys.stdout.flush()
