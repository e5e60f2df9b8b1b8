#!/usr/bin/env python3
"""ggufs.py - what llama.cpp's convert_hf_to_gguf.py makes of the directories of make.py.

    pip install torch transformers tokenizers sentencepiece protobuf numpy gguf xxhash pyyaml
    tests/llm/delta/ggufs.py LLAMA_CPP MADE DIRECTORY     (then --pack DIRECTORY: delta-ggufs.tar.xz, without the GGUFs)

Arguments and files are those of tests/llm/archs/ggufs.py.
"""
import os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "archs"))
import made_set


def next_layers(base):
    """The converter wants a model's further layers named on the command line where the file has none."""
    from conversion import qwen

    usual = base.ModelBase.load_hparams

    def load_hparams(folder, is_mistral_format):
        qwen._QwenMtpMixin.no_mtp = str(folder).endswith("qwen3next-listed")
        return usual(folder, is_mistral_format)

    return load_hparams


WEARS = [("", "qwen2")]

if __name__ == "__main__":
    made_set.main(__file__, sys.argv[1:], WEARS, load_hparams=next_layers)
