#!/usr/bin/env python3
"""ggufs.py - what llama.cpp's convert_hf_to_gguf.py makes of the directories of make.py.

    pip install torch transformers tokenizers sentencepiece protobuf numpy gguf xxhash pyyaml
    tests/llm/rwkv/ggufs.py LLAMA_CPP MADE DIRECTORY     (then --pack DIRECTORY: rwkv-ggufs.tar.xz, without the GGUFs)

Arguments and files are those of tests/llm/archs/ggufs.py.
"""
import json, os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "archs"))
import made_set


def dress_rwkv(d):
    """A vocabulary like RWKV's World, of 271 tokens: all bytes, and strings with all that Python escapes."""
    words = ["\t\n", "\n\t", "  ", "ab", "\n\n", "abc", "\u00e9", b"\xe2\x80", "\u4e2d", "it's", '"x"', "\"'", "\\n", "\x7f\u0085"]
    tokens = [chr(i) if i < 128 else bytes([i]) for i in range(256)] + words
    with open(f"{d}/rwkv_vocab_v20230424.txt", "w", encoding="utf-8") as f:
        for i, t in enumerate(tokens):
            f.write(f"{i + 1} {t!r} {len(t if isinstance(t, bytes) else t.encode())}\n")
    return None, {"chat_template": "{% for m in messages %}{{ m.content }}\n\n{% endfor %}", "tokenizer_class": "RwkvTokenizer"}


def plain_hparams(base):
    """load_hparams for the converter: config.json itself, as transformers has no such class. The converter's class keeps the
    tensors of the last model."""
    usual = base.ModelBase.load_hparams

    def load_hparams(folder, is_mistral_format):
        from conversion.rwkv import Rwkv7Model

        Rwkv7Model.lerp_weights.clear()
        with open(f"{folder}/config.json") as f:
            config = json.load(f)
        return config if config["model_type"] in ("rwkv7", "rwkv_hybrid") else usual(folder, is_mistral_format)

    return load_hparams


if __name__ == "__main__":
    made_set.main(__file__, sys.argv[1:], [("rwkv7", "rwkv"), ("arwkv7", "gpt2")], dresses={"rwkv": dress_rwkv}, load_hparams=plain_hparams)
