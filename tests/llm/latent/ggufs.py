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


def register_kimi():
    """Kimi K2's repositories have the class of their configuration with them, DeepSeek V3's under another name; transformers has none."""
    from transformers import AutoConfig, DeepseekV3Config

    class KimiK2Config(DeepseekV3Config):
        model_type = "kimi_k2"

    AutoConfig.register("kimi_k2", KimiK2Config)


if __name__ == "__main__":
    if sys.argv[1] != "--pack":
        register_kimi()
    made_set.main(__file__, sys.argv[1:], WEARS)
