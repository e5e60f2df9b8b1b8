#!/usr/bin/env python3
"""llama-peer.py MODEL THREADS PROMPT GEN [DEPTH] - one sample of llama.cpp's speed, as zt-bench model measures it.

Prints "pp<PROMPT> tokens/s" and "tg<GEN> tokens/s": PROMPT tokens as one batch from an empty context, or one of DEPTH
tokens; then, from such a context again, GEN single-token steps (without a depth after one token). A warm-up of both comes
first; what is 0 is left out. And "bytes N": those of all weights.

A context of many tokens is made of FED computed ones: their rows are repeated in the cache, since a step takes as long whatever
the rows hold, and the prompt itself would take minutes. A model with other memory than keys and values is fed all of them.

KV: the type of keys and values, f16 (llama.cpp's own choice of flash attention) or q8_0 or q4_0 (with it).
Needs llama-cpp-python (see bench/vs-llama).
"""
import ctypes
import os
import struct
import sys
import time

import llama_cpp as L
from llama_cpp import _ggml

model_path, threads, n_prompt, n_gen = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
depth = int(sys.argv[5]) if len(sys.argv) > 5 else 0
FED = 1024


@L.llama_log_callback
def quiet(level, text, user):
    pass


L.llama_log_set(quiet, ctypes.c_void_p(0))
L.llama_backend_init()
model_params = L.llama_model_default_params()
backend = os.environ.get("BACKEND")
if backend:
    load = _ggml.libggml.ggml_backend_load
    load.restype, load.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    if not load(backend.encode()):
        sys.exit(f"{backend}: not a backend of ggml")
    model_params.n_gpu_layers = 999
model = L.llama_model_load_from_file(model_path.encode(), model_params)
params = L.llama_context_default_params()
params.n_ctx = max(1024, depth + max(n_prompt, n_gen) + 256)
params.n_batch = params.n_ubatch = 512
params.n_threads = params.n_threads_batch = threads
kv = {"f16": 1, "q4_0": 2, "q8_0": 8}[os.environ.get("KV", "f16")]
if kv != 1:
    params.type_k = params.type_v = kv
    params.flash_attn_type = 1
if os.environ.get("FLASH_ATTENTION") == "0":  # lavapipe 22.3 refuses the pipeline of that shader
    params.flash_attn_type = 0
ctx = L.llama_init_from_model(model, params)
memory = L.llama_get_memory(ctx)
vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))


def feed(ids):
    array = (L.llama_token * len(ids))(*ids)
    if L.llama_decode(ctx, L.llama_batch_get_one(array, len(ids))):
        sys.exit("llama_decode failed")
    L.llama_synchronize(ctx)


def repeat_rows(state, fed, count):
    """The state of a sequence of `fed` tokens as one of `count`. ValueError: not a state of keys and values alone.

    The layout (llama_kv_cache::state_write of llama.cpp): a magic number, the sequence; then of each cache the number of streams,
    that of cells, for each cell its position, 1 and the sequence; whether values are transposed, the number of layers; for each
    layer the type and bytes of a row of keys, and rows; then the same for values (transposed: type, bytes and number of elements,
    and for each element those of the cells). A cache with a window has fewer cells than tokens: these move to the end.
    """
    at, out = 8, bytearray(state[:8])

    def take(layout):
        nonlocal at
        if at + struct.calcsize(layout) > len(state):
            raise ValueError
        fields = struct.unpack_from(layout, state, at)
        at += struct.calcsize(layout)
        return fields

    def rows(cells, wanted, size):
        nonlocal at
        block = state[at:at + cells * size]
        if len(block) != cells * size:
            raise ValueError
        at += len(block)
        out.extend(block * (wanted // cells) + block[:wanted % cells * size])

    while at < len(state):
        streams, cells = take("<II")
        if streams != 1 or not 0 < cells <= fed:
            raise ValueError
        wanted = count if cells == fed else cells
        out.extend(struct.pack("<II", 1, wanted))
        for _ in range(cells):
            position, sequences, sequence = take("<iIi")
            if sequences != 1 or sequence != 0 or not 0 <= position < fed:
                raise ValueError
        for cell in range(wanted):
            out.extend(struct.pack("<iIi", count - wanted + cell, 1, 0))
        transposed, layers = take("<II")
        out.extend(struct.pack("<II", transposed, layers))
        for values in (False, True):
            for _ in range(layers):
                if values and transposed:
                    kind, size, elements = take("<iII")
                    out.extend(struct.pack("<iII", kind, size, elements))
                    for _ in range(elements):
                        rows(cells, wanted, size)
                else:
                    kind, size = take("<iQ")
                    out.extend(struct.pack("<iQ", kind, size))
                    rows(cells, wanted, size)
    return out


def begin(first):
    """Leaves the first tokens in the context: those of the depth, or `first` of them."""
    count = depth or first
    if depth and L.llama_memory_seq_pos_max(memory, 0) >= depth - 1 and L.llama_memory_seq_rm(memory, 0, depth, -1):
        return
    L.llama_memory_clear(memory, True)
    fed = min(count, FED)
    for at in range(0, fed, 512):
        feed([(37 * i + 11) % 40000 % vocab for i in range(at, min(fed, at + 512))])
    if fed == count:
        return
    state = (ctypes.c_uint8 * L.llama_state_seq_get_size(ctx, 0))()
    size = L.llama_state_seq_get_data(ctx, state, len(state), 0)
    try:
        longer = repeat_rows(bytes(state)[:size], fed, count)
    except ValueError:
        for at in range(fed, count, 512):
            feed([(37 * i + 11) % 40000 % vocab for i in range(at, min(count, at + 512))])
        return
    if not L.llama_state_seq_set_data(ctx, (ctypes.c_uint8 * len(longer)).from_buffer(longer), len(longer), 0):
        sys.exit("llama_state_seq_set_data failed")
    if L.llama_memory_seq_pos_max(memory, 0) != count - 1:
        sys.exit(f"a context of {count} tokens was not taken")


def prompt(n):
    begin(0)
    start = time.perf_counter()
    feed([(37 * i + 11) % 40000 % vocab for i in range(n)])
    return n / (time.perf_counter() - start)


def generate(n):
    begin(1)
    start = time.perf_counter()
    for i in range(n):
        feed([(37 * i + 11) % 40000 % vocab])
    return n / (time.perf_counter() - start)


if n_prompt:
    prompt(n_prompt)
if n_gen:
    generate(8)
if n_prompt:
    print(f"pp{n_prompt} {prompt(n_prompt):.2f}")
if n_gen:
    print(f"tg{n_gen} {generate(n_gen):.2f}")
print(f"bytes {L.llama_model_size(model)}")
