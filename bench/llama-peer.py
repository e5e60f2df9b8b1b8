#!/usr/bin/env python3
"""llama-peer.py MODEL THREADS PROMPT GEN - one sample of llama.cpp's speed, as zt-bench model measures it.

Prints "pp<PROMPT> tokens/s" and "tg<GEN> tokens/s": PROMPT tokens as one batch from an empty context,
then, from an empty context again, GEN single-token steps after one token. A warm-up of both comes first; what
is 0 is left out. And "bytes N": those of all weights.
Needs llama-cpp-python (see bench/vs-llama).
"""
import ctypes
import sys
import time

import llama_cpp as L

model_path, threads, n_prompt, n_gen = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])


@L.llama_log_callback
def quiet(level, text, user):
    pass


L.llama_log_set(quiet, ctypes.c_void_p(0))
L.llama_backend_init()
model = L.llama_model_load_from_file(model_path.encode(), L.llama_model_default_params())
params = L.llama_context_default_params()
params.n_ctx = 1024
params.n_batch = params.n_ubatch = 512
params.n_threads = params.n_threads_batch = threads
ctx = L.llama_init_from_model(model, params)
memory = L.llama_get_memory(ctx)


def feed(ids):
    array = (L.llama_token * len(ids))(*ids)
    if L.llama_decode(ctx, L.llama_batch_get_one(array, len(ids))):
        sys.exit("llama_decode failed")
    L.llama_synchronize(ctx)


def prompt(n):
    L.llama_memory_clear(memory, True)
    start = time.perf_counter()
    feed([(37 * i + 11) % 40000 + 100 for i in range(n)])
    return n / (time.perf_counter() - start)


def generate(n):
    L.llama_memory_clear(memory, True)
    feed([100])
    start = time.perf_counter()
    for i in range(n):
        feed([(37 * i + 11) % 40000 + 100])
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
