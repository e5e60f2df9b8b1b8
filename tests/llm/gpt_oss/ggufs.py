#!/usr/bin/env python3
"""ggufs.py - what llama.cpp's convert_hf_to_gguf.py makes of the directories of make.py.

    pip install torch transformers tokenizers sentencepiece protobuf numpy gguf xxhash pyyaml
    tests/llm/gpt_oss/ggufs.py LLAMA_CPP GPT_OSS DIRECTORY   (then --pack DIRECTORY: gpt_oss-ggufs.tar.xz, without the GGUFs)

Arguments and files are those of tests/llm/archs/ggufs.py, whose functions these are. The tokenizer has the pattern of o200k.
"""
import importlib.util, os, shutil, sys

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    spec = importlib.util.spec_from_file_location(f"archs_{name}", f"{HERE}/../archs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ggufs = load("ggufs")
UPPER, LOWER, END = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = "|".join([rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{END}", rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{END}",
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def dress_o200k(d):
    t = ggufs.bpe(["<|startoftext|>", "<|endoftext|>", "<|return|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>"])
    t["pre_tokenizer"] = ggufs.split(O200K)
    t["post_processor"] = ggufs.LEVEL
    t["model"]["ignore_merges"] = False
    return t, {"bos_token": "<|startoftext|>", "eos_token": "<|return|>", "pad_token": "<|endoftext|>",
               "tokenizer_class": "PreTrainedTokenizerFast",
               "chat_template": "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"}


def pack(root):
    for name in os.listdir(root):
        if name.endswith(".gguf"):
            os.unlink(f"{root}/{name}")
    archs = load("make")
    archs.HERE = HERE
    archs.pack(root, "gpt_oss-ggufs.tar.xz")


def main(args):
    if args[0] == "--pack":
        return pack(args[1])
    ggufs.WEARS, ggufs.MORE, ggufs.DRESSES, ggufs.PRE = [("", "o200k")], [], {"o200k": dress_o200k}, {"o200k": "gpt-4o"}
    shutil.rmtree(args[2], ignore_errors=True)
    ggufs.main(*args)


if __name__ == "__main__":
    main(sys.argv[1:])
