#!/usr/bin/env python3
"""llama-perplexity.py MODEL TEXT THREADS - llama.cpp's perplexity of a text, with its defaults.

The windows of its llama-perplexity: 512 tokens, BOS first where the model wants it, the second half
scored. Prints perplexity, standard error and tokens scored. Needs llama-cpp-python and numpy.
"""
import ctypes
import math
import sys

import llama_cpp as L
import numpy as np

model_path, text_path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
WINDOW = 512


@L.llama_log_callback
def quiet(level, text, user):
    pass


L.llama_log_set(quiet, ctypes.c_void_p(0))
L.llama_backend_init()
model = L.llama_model_load_from_file(model_path.encode(), L.llama_model_default_params())
vocab = L.llama_model_get_vocab(model)
params = L.llama_context_default_params()
params.n_ctx = params.n_batch = params.n_ubatch = WINDOW
params.n_threads = params.n_threads_batch = threads
ctx = L.llama_init_from_model(model, params)
V = L.llama_vocab_n_tokens(vocab)

text = open(text_path, "rb").read()
room = (L.llama_token * (len(text) + 8))()
n = L.llama_tokenize(vocab, text, len(text), room, len(room), True, False)
ids = list(room[:n])
batch = L.llama_batch_init(WINDOW, 0, 1)
total = squares = 0.0
count = 0
for start in range(0, n - WINDOW + 1, WINDOW):
    window = ids[start:start + WINDOW]
    if L.llama_vocab_get_add_bos(vocab):
        window[0] = L.llama_vocab_bos(vocab)
    L.llama_memory_clear(L.llama_get_memory(ctx), True)
    batch.n_tokens = WINDOW
    for i, token in enumerate(window):
        batch.token[i] = token
        batch.pos[i] = i
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = 0
        batch.logits[i] = i >= WINDOW // 2
    if L.llama_decode(ctx, batch):
        sys.exit("llama_decode failed")
    for i in range(WINDOW // 2, WINDOW - 1):
        x = np.ctypeslib.as_array(L.llama_get_logits_ith(ctx, i), (V,)).astype(np.float64)
        top = x.max()
        nll = top + math.log(np.exp(x - top).sum()) - x[window[i + 1]]
        total += nll
        squares += nll * nll
        count += 1
mean = total / count
error = math.exp(mean) * math.sqrt(max(squares / count - mean * mean, 0) / (count - 1))
print(f"{math.exp(mean):.6f} {error:.6f} {count}")
