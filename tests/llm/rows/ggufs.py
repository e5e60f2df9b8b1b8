#!/usr/bin/env python3
"""ggufs.py - what llama.cpp's convert_hf_to_gguf.py makes of the directories of make.py.

    pip install torch transformers tokenizers sentencepiece protobuf numpy gguf xxhash pyyaml
    tests/llm/rows/ggufs.py LLAMA_CPP ROWS DIRECTORY     (then --pack DIRECTORY: rows-ggufs.tar.xz, without the GGUFs)

Arguments and files are those of tests/llm/archs/ggufs.py, whose functions these are.
"""
import importlib.util, os, shutil, sys

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    spec = importlib.util.spec_from_file_location(f"archs_{name}", f"{HERE}/../archs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ggufs = load("ggufs")


def dress_reranker(d):
    """Qwen's, with the tokens "yes" and "no"; the card says what the model is."""
    t, c = ggufs.dress_qwen2(d)
    t["model"]["vocab"] = {{"i": "yes", "j": "no"}.get(k, k): v for k, v in t["model"]["vocab"].items()}
    with open(f"{d}/README.md", "w") as f:
        f.write("---\nlicense: mit\n---\n# Qwen3-Reranker\n")
    return t, c


WEARS = [("qwen3-reranker", "reranker"), ("bert", "wordpiece"), ("jina", "wordpiece"), ("t5", "spm"), ("minicpm", "spm"), ("apertus", "llama3"), ("", "gpt2")]


def pack(root):
    for name in os.listdir(root):
        if name.endswith(".gguf"):
            os.unlink(f"{root}/{name}")
    archs = load("make")
    archs.HERE = HERE
    archs.pack(root, "rows-ggufs.tar.xz")


def main(args):
    if args[0] == "--pack":
        return pack(args[1])
    ggufs.WEARS, ggufs.MORE, ggufs.PRE = WEARS, [], {**ggufs.PRE, "reranker": "qwen2"}
    ggufs.DRESSES = {**ggufs.DRESSES, "reranker": dress_reranker}
    ggufs.DRESSES = {name: ggufs.DRESSES[name] for name in {dress for _, dress in WEARS}}
    shutil.rmtree(args[2], ignore_errors=True)
    ggufs.main(*args)


if __name__ == "__main__":
    main(sys.argv[1:])
