#!/usr/bin/env python3
"""ggufs.py - what llama.cpp's convert_hf_to_gguf.py makes of the directories of make.py.

    pip install torch transformers tokenizers sentencepiece protobuf numpy gguf xxhash pyyaml
    tests/llm/latent/ggufs.py LLAMA_CPP MADE DIRECTORY     (then --pack DIRECTORY: latent-ggufs.tar.xz, without the GGUFs)

Arguments and files are those of tests/llm/archs/ggufs.py.
"""
import os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "archs"))
import made_set


WEARS = [("glm4", "glm"), ("minicpm3", "spm"), ("", "llama3")]

if __name__ == "__main__":
    made_set.main(__file__, sys.argv[1:], WEARS)
