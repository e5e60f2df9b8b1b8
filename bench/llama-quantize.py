#!/usr/bin/env python3
"""llama-quantize.py FROM TO TYPE [THREADS] - FROM.gguf in another file type (Q8_0, Q4_K_M, F16 ...), by llama.cpp.

What is quantized already is quantized again from its rounded values: good for measuring speed, not for keeping.
TYPE NAME=NUMBER is all matrices in the ggml type of that number. IMATRIX in the environment: an importance matrix as zt-quant
and llama-imatrix write it (GGUF). Prints the seconds it took, without loading
llama.cpp itself, and the most memory in kB. Needs llama-cpp-python (see bench/vs-llama).
"""
import ctypes
import os
import resource
import sys
import time

import llama_cpp as L


@L.llama_log_callback
def quiet(level, text, user):
    pass


source, target, name = sys.argv[1:4]
name, _, number = name.partition("=")
names = [f"LLAMA_FTYPE_{how}_{'Q4_0' if number else name}" for how in ("MOSTLY", "ALL")]
numbers = [getattr(L, n) for n in names if hasattr(L, n)]
if not numbers:
    sys.exit(f"llama-quantize: no file type {name}")
L.llama_log_set(quiet, ctypes.c_void_p(0))
L.llama_backend_init()
params = L.llama_model_quantize_default_params()
params.ftype = numbers[0]
params.allow_requantize = True
params.nthread = int(sys.argv[4]) if len(sys.argv) > 4 else 2
if number:
    wish = (L.llama_model_tensor_override * 2)()
    wish[0].pattern, wish[0].type = b".*", int(number)
    params.tt_overrides = ctypes.cast(wish, ctypes.POINTER(L.llama_model_tensor_override))
if "IMATRIX" in os.environ:
    import importances

    rows = importances.of(os.environ["IMATRIX"])
    arrays = [(name.encode(), (ctypes.c_float * len(x))(*x)) for name, x in rows.items()]
    matrix = (L.llama_model_imatrix_data * (len(arrays) + 1))()  # a NULL name ends it
    for one, (name, x) in zip(matrix, arrays):
        one.name, one.data, one.size = name, ctypes.cast(x, ctypes.POINTER(ctypes.c_float)), len(x)
    params.imatrix = ctypes.cast(matrix, ctypes.POINTER(L.llama_model_imatrix_data))
start = time.monotonic()
if L.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params)):
    sys.exit(f"llama-quantize: {target}: failed")
print(f"{time.monotonic() - start:.3f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}")
