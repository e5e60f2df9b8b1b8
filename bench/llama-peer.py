#!/usr/bin/env python3
"""llama-peer.py MODEL THREADS PROMPT GEN [DEPTH] - one sample of llama.cpp's speed, as zt-bench model measures it.

Prints "pp<PROMPT> tokens/s" and "tg<GEN> tokens/s": PROMPT tokens as one batch from an empty context, or one of DEPTH
tokens; then, from such a context again, GEN single-token steps (without a depth after one token). A warm-up of both comes
first; what is 0 is left out. And "bytes N": those of all weights.
Needs llama-cpp-python (see bench/vs-llama).
"""
import ctypes
import os
import sys
import time

import llama_cpp as L
from llama_cpp import _ggml

model_path, threads, n_prompt, n_gen = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
depth = int(sys.argv[5]) if len(sys.argv) > 5 else 0


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


def begin(first):
    """Leaves the first tokens in the context: those of the depth, or `first` of them."""
    count = depth or first
    if depth and L.llama_memory_seq_pos_max(memory, 0) >= depth - 1 and L.llama_memory_seq_rm(memory, 0, depth, -1):
        return
    L.llama_memory_clear(memory, True)
    for at in range(0, count, 512):
        feed([(37 * i + 11) % 40000 % vocab for i in range(at, min(count, at + 512))])


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
