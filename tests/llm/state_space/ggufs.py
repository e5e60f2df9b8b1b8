#!/usr/bin/env python3
"""ggufs.py - what llama.cpp's convert_hf_to_gguf.py makes of the directories of make.py.

    pip install torch transformers tokenizers sentencepiece protobuf numpy gguf xxhash pyyaml
    tests/llm/state_space/ggufs.py LLAMA_CPP MADE DIRECTORY     (then --pack DIRECTORY: state_space-ggufs.tar.xz, without the GGUFs)

Arguments and files are those of tests/llm/archs/ggufs.py.
"""
import json, os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "archs"))
import made_set


def plain_hparams(base):
    """load_hparams for the converter: config.json itself where transformers 5 names things otherwise than the converter."""
    usual = base.ModelBase.load_hparams

    def load_hparams(folder, is_mistral_format):
        with open(f"{folder}/config.json") as f:
            config = json.load(f)
        return usual(folder, is_mistral_format) if config["model_type"] == "lfm2" else config

    return load_hparams


WEARS = [("", "gpt2")]

if __name__ == "__main__":
    made_set.main(__file__, sys.argv[1:], WEARS, load_hparams=plain_hparams)
