#!/usr/bin/env python3
"""ggufs.py - what llama.cpp's convert_hf_to_gguf.py makes of the directories of make.py.

    pip install torch transformers tokenizers sentencepiece protobuf numpy gguf xxhash pyyaml
    tests/llm/further/ggufs.py LLAMA_CPP MADE DIRECTORY  (then --pack DIRECTORY: further-ggufs.tar.xz, without the GGUFs)

Arguments and files are those of tests/llm/archs/ggufs.py, whose functions these are. Of Baichuan the converter of 0.3.36 calls
itself without end for all tensors but one: here they go the way of other models. It refuses classifiers of Qwen 3.
"""
import importlib.util, os, shutil, sys

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    spec = importlib.util.spec_from_file_location(f"archs_{name}", f"{HERE}/../archs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mend_baichuan(llama_cpp):
    sys.path[:0] = [llama_cpp, f"{llama_cpp}/gguf-py"]
    from conversion import baichuan, base

    unpack = baichuan.BaichuanModel.modify_tensors

    def modify(self, data, name, bid):
        packed = name.endswith("W_pack.weight")
        yield from (unpack if packed else base.TextModel.modify_tensors)(self, data, name, bid)

    baichuan.BaichuanModel.modify_tensors = modify


def mend_deepseek():
    """Its tokenizer must add a first token: here any will do."""
    from conversion import deepseek

    deepseek.DeepseekV32Model.set_vocab = lambda self: self._set_vocab_gpt2()


def mend_internlm2():
    """Its own function for tokens wants as many pieces as the embedding has rows: here they go the way of other models."""
    from conversion import internlm

    internlm.InternLM2Model.set_vocab = lambda self: self._set_vocab_sentencepiece()


def pack(root):
    for name in os.listdir(root):
        if name.endswith(".gguf"):
            os.unlink(f"{root}/{name}")
    archs = load("make")
    archs.HERE = HERE
    archs.pack(root, "further-ggufs.tar.xz")


def main(args):
    if args[0] == "--pack":
        return pack(args[1])
    ggufs = load("ggufs")
    ggufs.WEARS, ggufs.MORE = [("llama4", "llama3"), ("baichuan", "spm"), ("internlm2", "spm"), ("deepseek", "llama3"), ("", "gpt2")], []
    ggufs.DRESSES = {name: ggufs.DRESSES[name] for name in {dress for _, dress in ggufs.WEARS}}
    shutil.rmtree(args[2], ignore_errors=True)
    mend_baichuan(args[0])
    mend_deepseek()
    mend_internlm2()
    ggufs.main(*args)


if __name__ == "__main__":
    main(sys.argv[1:])
