#!/usr/bin/env python3
"""ggufs.py - what llama.cpp's convert_hf_to_gguf.py makes of the directories of make.py.

    pip install torch transformers tokenizers sentencepiece protobuf numpy gguf xxhash pyyaml
    tests/llm/rows/ggufs.py LLAMA_CPP MADE DIRECTORY     (then --pack DIRECTORY: rows-ggufs.tar.xz, without the GGUFs)

Arguments and files are those of tests/llm/archs/ggufs.py.
"""
import os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "archs"))
import made_set


def dress_reranker(d):
    """Qwen's, with the tokens "yes" and "no"; the card says what the model is."""
    t, c = made_set.ggufs.dress_qwen2(d)
    t["model"]["vocab"] = {{"i": "yes", "j": "no"}.get(k, k): v for k, v in t["model"]["vocab"].items()}
    with open(f"{d}/README.md", "w") as f:
        f.write("---\nlicense: mit\n---\n# Qwen3-Reranker\n")
    return t, c


WEARS = [("qwen3-reranker", "reranker"), ("bert", "wordpiece"), ("jina", "wordpiece"), ("t5", "spm"), ("minicpm", "spm"), ("apertus", "llama3"), ("", "gpt2")]

if __name__ == "__main__":
    made_set.main(__file__, sys.argv[1:], WEARS, dresses={"reranker": dress_reranker}, pre={"reranker": "qwen2"})
