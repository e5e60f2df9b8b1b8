#!/usr/bin/env python3
"""ggufs.py - what llama.cpp's convert_hf_to_gguf.py makes of the directories of make.py.

    pip install torch transformers tokenizers sentencepiece protobuf numpy gguf xxhash pyyaml
    tests/llm/state_space/ggufs.py LLAMA_CPP MADE DIRECTORY  (then --pack DIRECTORY: state_space-ggufs.tar.xz, without the GGUFs)

Arguments and files are those of tests/llm/archs/ggufs.py, whose functions these are.
"""
import importlib.util, json, os, shutil, sys

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    spec = importlib.util.spec_from_file_location(f"archs_{name}", f"{HERE}/../archs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain_hparams(llama_cpp):
    """load_hparams for the converter: config.json itself where transformers 5 names things otherwise than the converter."""
    sys.path[:0] = [llama_cpp, f"{llama_cpp}/gguf-py"]
    from conversion import base

    usual = base.ModelBase.load_hparams

    def load_hparams(folder, is_mistral_format):
        with open(f"{folder}/config.json") as f:
            config = json.load(f)
        return usual(folder, is_mistral_format) if config["model_type"] == "lfm2" else config

    return load_hparams


def pack(root):
    for name in os.listdir(root):
        if name.endswith(".gguf"):
            os.unlink(f"{root}/{name}")
    archs = load("make")
    archs.HERE = HERE
    archs.pack(root, "state_space-ggufs.tar.xz")


def main(args):
    if args[0] == "--pack":
        return pack(args[1])
    ggufs = load("ggufs")
    ggufs.WEARS, ggufs.MORE = [("", "gpt2")], []
    ggufs.DRESSES = {"gpt2": ggufs.DRESSES["gpt2"]}
    ggufs.LOAD[0] = plain_hparams(args[0])
    shutil.rmtree(args[2], ignore_errors=True)
    ggufs.main(*args)


if __name__ == "__main__":
    main(sys.argv[1:])
