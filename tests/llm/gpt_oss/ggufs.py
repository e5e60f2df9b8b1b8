#!/usr/bin/env python3
"""ggufs.py - what llama.cpp's convert_hf_to_gguf.py makes of the directories of make.py.

    pip install torch transformers tokenizers sentencepiece protobuf numpy gguf xxhash pyyaml
    tests/llm/gpt_oss/ggufs.py LLAMA_CPP MADE DIRECTORY     (then --pack DIRECTORY: gpt_oss-ggufs.tar.xz, without the GGUFs)

Arguments and files are those of tests/llm/archs/ggufs.py. The tokenizer has the pattern of o200k.
"""
import os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "archs"))
import made_set


UPPER, LOWER, END = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = "|".join([rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{END}", rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{END}",
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def dress_o200k(d):
    t = made_set.ggufs.bpe(["<|startoftext|>", "<|endoftext|>", "<|return|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>"])
    t["pre_tokenizer"] = made_set.ggufs.split(O200K)
    t["post_processor"] = made_set.ggufs.LEVEL
    t["model"]["ignore_merges"] = False
    return t, {"bos_token": "<|startoftext|>", "eos_token": "<|return|>", "pad_token": "<|endoftext|>",
               "tokenizer_class": "PreTrainedTokenizerFast",
               "chat_template": "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"}


WEARS = [("", "o200k")]

if __name__ == "__main__":
    made_set.main(__file__, sys.argv[1:], WEARS, dresses={"o200k": dress_o200k}, pre={"o200k": "gpt-4o"})
