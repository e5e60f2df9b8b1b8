#!/usr/bin/env python3
"""llama-quantize.py FROM TO TYPE - FROM.gguf in another file type (Q8_0, Q4_K_M, F16 ...), by llama.cpp.

What is quantized already is quantized again from its rounded values: good for measuring speed, not for keeping.
Needs llama-cpp-python (see bench/vs-llama).
"""
import ctypes
import sys

import llama_cpp as L


@L.llama_log_callback
def quiet(level, text, user):
    pass


source, target, name = sys.argv[1:4]
names = [f"LLAMA_FTYPE_{how}_{name}" for how in ("MOSTLY", "ALL")]
numbers = [getattr(L, n) for n in names if hasattr(L, n)]
if not numbers:
    sys.exit(f"llama-quantize: no file type {name}")
L.llama_log_set(quiet, ctypes.c_void_p(0))
L.llama_backend_init()
params = L.llama_model_quantize_default_params()
params.ftype = numbers[0]
params.allow_requantize = True
params.nthread = 2
if L.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params)):
    sys.exit(f"llama-quantize: {target}: failed")
