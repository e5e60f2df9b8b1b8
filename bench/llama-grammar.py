#!/usr/bin/env python3
"""llama-grammar.py MODEL THREADS TOKENS TEMP SEED SCHEMA PROMPT - one sample of llama.cpp's speed with a JSON schema and without.

Prints "none X", "checked X" and "masked X": tokens/s of generation without a grammar; with one as llama.cpp's own tools do it (a token is
drawn first, and only if the grammar rejects it, the grammar looks at all tokens and another is drawn); and with one as llama-cpp-python's Llama does it
(the grammar looks at all tokens each time). Each evaluates the prompt first, which is not counted. Ends of a text are never chosen.
Needs llama-cpp-python (see bench/grammar-speed).
"""
import ctypes
import json
import sys
import time

import llama_cpp as L
import numpy as np
from llama_cpp.llama_grammar import json_schema_to_gbnf

model_path, threads, count, temp, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
grammar_text = json_schema_to_gbnf(open(sys.argv[6]).read()).encode()


@L.llama_log_callback
def quiet(level, text, user):
    pass


L.llama_log_set(quiet, ctypes.c_void_p(0))
L.llama_backend_init()
model = L.llama_model_load_from_file(model_path.encode(), L.llama_model_default_params())
vocab = L.llama_model_get_vocab(model)
params = L.llama_context_default_params()
params.n_ctx = 1024
params.n_batch = params.n_ubatch = 512
params.n_threads = params.n_threads_batch = threads
ctx = L.llama_init_from_model(model, params)
size = L.llama_vocab_n_tokens(vocab)
ends = [i for i in range(size) if L.llama_vocab_is_eog(vocab, i)]
candidates = (L.llama_token_data * size)()
one = (L.llama_token_data * 1)()

text = sys.argv[7].encode()
room = (L.llama_token * (len(text) + 8))()
prompt = list(room[: L.llama_tokenize(vocab, text, len(text), room, len(room), True, True)])


def feed(ids):
    array = (L.llama_token * len(ids))(*ids)
    if L.llama_decode(ctx, L.llama_batch_get_one(array, len(ids))):
        sys.exit("llama_decode failed")
    L.llama_synchronize(ctx)


def chain():
    made = L.llama_sampler_chain_init(L.llama_sampler_chain_default_params())
    if temp == 0:
        L.llama_sampler_chain_add(made, L.llama_sampler_init_greedy())
        return made
    for sampler in (L.llama_sampler_init_top_k(40), L.llama_sampler_init_top_p(0.95, 1), L.llama_sampler_init_min_p(0.05, 1),
                    L.llama_sampler_init_temp(temp), L.llama_sampler_init_dist(seed)):
        L.llama_sampler_chain_add(made, sampler)
    return made


# candidates, filled by numpy: a loop of Python over the vocabulary would be what is measured
table = np.frombuffer(candidates, dtype=np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")]))
ids = np.arange(size, dtype=np.int32)


def choose(sampler, grammar):
    logits = np.ctypeslib.as_array(L.llama_get_logits_ith(ctx, -1), shape=(size,))
    table["id"] = ids
    table["logit"] = logits
    table["logit"][ends] = -np.inf
    array = L.llama_token_data_array(candidates, size, -1, False)
    if grammar:
        L.llama_sampler_apply(grammar, ctypes.byref(array))
    L.llama_sampler_apply(sampler, ctypes.byref(array))
    return array.data[array.selected].id


def generate(way):
    L.llama_memory_clear(L.llama_get_memory(ctx), True)
    sampler, grammar = chain(), L.llama_sampler_init_grammar(vocab, grammar_text, b"root") if way != "none" else None
    feed(prompt)
    start = time.perf_counter()
    for done in range(count):
        token = choose(sampler, grammar if way == "masked" else None)
        if way == "checked":
            one[0].id, one[0].logit = token, 1.0
            array = L.llama_token_data_array(one, 1, -1, False)
            L.llama_sampler_apply(grammar, ctypes.byref(array))
            if one[0].logit == float("-inf"):
                token = choose(sampler, grammar)
        if grammar:
            L.llama_sampler_accept(grammar, token)
        feed([token])
    speed = count / (time.perf_counter() - start)
    L.llama_sampler_free(sampler)
    if grammar:
        L.llama_sampler_free(grammar)
    return speed


for way in ("none", "checked", "masked"):
    print(way, "%.2f" % generate(way), flush=True)
