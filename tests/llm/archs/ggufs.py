#!/usr/bin/env python3
"""ggufs.py - what llama.cpp's convert_hf_to_gguf.py makes of the directories of make.py.

    pip install torch transformers tokenizers sentencepiece protobuf numpy gguf xxhash pyyaml
    tests/llm/archs/ggufs.py LLAMA_CPP ARCHS DIRECTORY

LLAMA_CPP: vendor/llama.cpp of llama-cpp-python's source (made with 0.3.36); ARCHS: the directories
of make.py; DIRECTORY gets NAME.gguf, and what goes into tests/llm/archs/ggufs.tar.xz:
    dress/NAME/...      tokenizers of 96 tokens, one of each way that a tokenizer goes
    cases.tsv           a line a case: directory of ARCHS, dress
    CASE.txt            what is in the GGUF: a line a key, `name type value`, and a line a tensor,
                        `name dtype shape hash`; long values as their number and XXH3-64, in
                        hexadecimal
The converter knows a pre-tokenizer by a hash of ids that only a model's own vocabulary makes: here
it is told the name (PRE). General keys that it guesses from names are left out of the lists.
"""

import base64, json, os, pathlib, shutil, struct, sys, tempfile

import numpy as np
import xxhash

HERE = os.path.dirname(os.path.abspath(__file__))

# ---- dresses ------------------------------------------------------------------------------------

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
PRE = {
    "gpt2": "gpt-2",
    "llama3": "llama-bpe",
    "qwen2": "qwen2",
    "glm": "dbrx",  # the same patterns
    "smollm": "smollm",
    "phi4": "dbrx",
    "wordpiece": "default",
}


def token(i, text, special=True, **more):
    return {
        "id": i,
        "content": text,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": not special,
        "special": special,
        **more,
    }


def bpe(specials, users=(), pairs=False):
    """Letters, a few merges, and added tokens up to 96."""
    base = [chr(c) for c in range(33, 97)] + list("abcdefghij") + ["\u0120", "\u010a"]
    merges = [("\u0120", "a"), ("a", "b"), ("\u0120a", "b"), ("c", "d"), ("ab", "cd")]
    base += [a + b for a, b in merges]
    vocab = {t: i for i, t in enumerate(base)}
    names = [(t, True) for t in specials] + [(t, False) for t in users]
    added = [token(len(base) + i, t, s) for i, (t, s) in enumerate(names)]
    assert len(base) + len(added) <= 96
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {**LEVEL, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [list(m) if pairs else " ".join(m) for m in merges],
        },
    }


def split(pattern):
    return {
        "type": "Sequence",
        "pretokenizers": [
            {
                "type": "Split",
                "pattern": {"Regex": pattern},
                "behavior": "Isolated",
                "invert": False,
            },
            LEVEL,
        ],
    }


def template(bos, i):
    one = [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": one,
        "pair": one
        + [{"SpecialToken": {"id": bos, "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {bos: {"id": bos, "ids": [i], "tokens": [bos]}},
    }


def dress_gpt2(d):
    t = bpe(["<|endoftext|>"])
    t["pre_tokenizer"] = t["post_processor"] = {**LEVEL, "use_regex": True}
    with open(f"{d}/README.md", "w") as f:
        f.write(CARD)
    return t, {
        "bos_token": "<|endoftext|>",
        "eos_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
        "tokenizer_class": "GPT2Tokenizer",
    }


CARD = """---
language:
- en
- "fr"
license: mit
license_link: 'https://example.org/LICENSE'   # a comment
tags: [made, "of random numbers"]
pipeline_tag: text-generation
library_name: transformers
---
# A card
license: other
"""


def dress_phi4(d):
    t, c = dress_gpt2(d)
    t["pre_tokenizer"] = split(LLAMA3)
    return t, c


def dress_llama3(d):
    t = bpe(["<|begin_of_text|>", "<|eot_id|>", "<|end_of_text|>"])
    t["pre_tokenizer"] = split(LLAMA3)
    t["post_processor"] = {
        "type": "Sequence",
        "processors": [LEVEL, template("<|begin_of_text|>", t["added_tokens"][0]["id"])],
    }
    t["model"]["ignore_merges"] = True
    with open(f"{d}/chat_template.jinja", "w") as f:
        f.write("{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}")
    with open(f"{d}/generation_config.json", "w") as f:
        json.dump(
            {
                "eos_token_id": [82, 83],
                "temperature": 0.6,
                "top_p": 0.9,
                "top_k": 40,
                "do_sample": True,
            },
            f,
        )
    return t, {
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|eot_id|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def dress_qwen2(d):
    t = bpe(
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<tool>", "<|looks|>", "a\u2581b"], True
    )
    t["pre_tokenizer"], t["normalizer"] = split(QWEN2), {"type": "NFC"}
    t["post_processor"] = LEVEL
    return t, {
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "add_bos_token": False,
        "add_prefix_space": False,
        "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}",
        "additional_special_tokens": ["<|im_start|>"],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def dress_glm(d):
    """GLM-4.5's special tokens; its converter gives them their parts by name."""
    names = ["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
    t = bpe(names)
    t["pre_tokenizer"], t["post_processor"] = split(LLAMA3), LEVEL
    return t, {
        "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
        "chat_template": "[gMASK]<sop>{% for m in messages %}{{ m.content }}{% endfor %}",
        "additional_special_tokens": names,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def dress_smollm(d):
    t = bpe(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {**LEVEL, "use_regex": True},
        ],
    }
    return t, {
        "bos_token": "<|im_start|>",
        "eos_token": {
            "__type": "AddedToken",
            **{k: v for k, v in t["added_tokens"][2].items() if k != "id"},
        },
        "unk_token": "<|endoftext|>",
        "pad_token": "<|im_end|>",
        "add_prefix_space": False,
        "chat_template": [
            {"name": "default", "template": "{{ messages }}"},
            {"name": "tool-use", "template": "{{ tools }}"},
        ],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def pieces():
    return (
        ["<unk>", "<s>", "</s>"]
        + [f"<0x{i:02X}>" for i in (10, 32, 65)]
        + ["\u2581a", "\u2581b", "ab", "\u2581ab"]
        + ["\u2581"]
        + [chr(c) for c in range(65, 91)]
        + [chr(c) for c in range(97, 123)]
    )


def dress_spm_json(d):
    """As Llama 2's, without tokenizer.model."""
    vocab = {t: i for i, t in enumerate(pieces())}
    n = len(vocab)
    t = bpe([])
    t["model"].update(
        vocab=vocab,
        merges=["\u2581 a", "\u2581 b", "a b", "\u2581a b"],
        byte_fallback=True,
        fuse_unk=True,
        unk_token="<unk>",
    )
    t["added_tokens"] = [
        token(0, "<unk>"),
        token(1, "<s>"),
        token(2, "</s>"),
        token(n, "<pad>"),
        token(n + 1, "<extra>", False),
    ]
    t["normalizer"] = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        ],
    }
    t["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    }
    t["post_processor"] = template("<s>", 1)
    # as many as the model has rows: the converter does not fill up
    for i in range(n + 2, 96):
        t["added_tokens"].append(token(i, f"<x{i}>", False))
    return t, {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "add_bos_token": True,
        "add_eos_token": False,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, raw):
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def dress_spm(d):
    """tokenizer.model alone."""
    kinds = {"<unk>": 2, "<s>": 3, "</s>": 3}
    body = b""
    for i, t in enumerate(pieces()[:80]):
        t = {"<0x0A>": "used", "<0x20>": "user", "<0x41>": "late"}.get(t, t)  # all bytes or none
        kind = kinds.get(t, {"used": 5, "user": 4}.get(t, 1))
        one = field(1, t.encode()) + b"\x15" + struct.pack("<f", -i if kind == 1 else 0)
        body += field(1, one + (b"\x18" + varint(kind) if kind != 1 else b""))
    trainer = (
        b"\x18\x02"
        + b"\xc0\x02\x00"
        + b"\xc8\x02\x01"
        + b"\xd0\x02\x02"
        + b"\xd8\x02"
        + varint(2**64 - 1)
    )
    body += field(2, trainer) + field(3, field(1, b"identity") + field(2, b""))
    with open(f"{d}/tokenizer.model", "wb") as f:
        f.write(body)
    with open(f"{d}/added_tokens.json", "w") as f:
        json.dump({"<added>": 80}, f)
    decoder = {
        i: token(i, t, s)
        for i, t, s in [
            (0, "<unk>", True),
            (1, "<s>", True),
            (2, "</s>", True),
            (81, "<|end|>", False),
            (82, "a\u2581b", False),
            (83, "<mask>", False),
            (84, "<last>", True),
        ]
    }
    for v in decoder.values():
        del v["id"]
    return None, {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "add_bos_token": True,
        "added_tokens_decoder": {str(k): v for k, v in decoder.items()},
        "chat_template": "{{ messages[0].content }}",
        "tokenizer_class": "LlamaTokenizer",
    }


def dress_wordpiece(d):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab = names + [chr(c) for c in range(97, 123)] + ["##" + chr(c) for c in range(97, 123)]
    t = bpe([])
    t["model"] = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {w: i for i, w in enumerate(vocab)},
    }
    t["added_tokens"] = [token(i, w) for i, w in enumerate(names)]
    t["normalizer"] = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }
    t["pre_tokenizer"], t["decoder"] = {"type": "BertPreTokenizer"}, {
        "type": "WordPiece",
        "prefix": "##",
        "cleanup": True,
    }
    cls, sep = ({"SpecialToken": {"id": w, "type_id": 0}} for w in ("[CLS]", "[SEP]"))
    a, b = ({"Sequence": {"id": w, "type_id": 0}} for w in "AB")
    t["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [cls, a, sep],
        "pair": [cls, a, sep, b, sep],
        "special_tokens": {
            w: {"id": w, "ids": [i], "tokens": [w]} for w, i in (("[CLS]", 2), ("[SEP]", 3))
        },
    }
    return t, {
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
        "do_lower_case": True,
        "tokenizer_class": "BertTokenizer",
    }


def dress_unigram(d):
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    vocab = [[w, 0.0] for w in names] + [["\u2581", -2.5]]
    vocab += [[chr(c), -3 - c / 64] for c in range(97, 123)] + [["\u2581ab", -3.25], ["cd", -4.125]]
    vocab += [["<mask>", 0.0]]
    t = bpe([])
    t["model"] = {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": False}
    t["added_tokens"] = [token(i, w) for i, w in enumerate(names)] + [
        token(len(vocab) - 1, "<mask>", lstrip=True)
    ]
    # as SentencePiece packs it, without a mapping: the trie's bytes, the trie, the texts
    t["normalizer"] = {
        "type": "Precompiled",
        "precompiled_charsmap": base64.b64encode(
            struct.pack("<I", 1024) + struct.pack("<256I", *([0] * 256)) + b"\0"
        ).decode(),
    }
    meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    t["pre_tokenizer"] = t["decoder"] = meta
    s, e = ({"SpecialToken": {"id": w, "type_id": 0}} for w in ("<s>", "</s>"))
    a, b = ({"Sequence": {"id": w, "type_id": 0}} for w in "AB")
    t["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [s, a, e],
        "pair": [s, a, e, e, b, e],
        "special_tokens": {
            w: {"id": w, "ids": [i], "tokens": [w]} for w, i in (("<s>", 0), ("</s>", 2))
        },
    }
    return t, {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "add_prefix_space": True,
        "clean_up_tokenization_spaces": True,
        "tokenizer_class": "XLMRobertaTokenizer",
    }


DRESSES = {
    "gpt2": dress_gpt2,
    "phi4": dress_phi4,
    "llama3": dress_llama3,
    "qwen2": dress_qwen2,
    "glm": dress_glm,
    "smollm": dress_smollm,
    "spm-json": dress_spm_json,
    "spm": dress_spm,
    "wordpiece": dress_wordpiece,
    "unigram": dress_unigram,
}
# By the beginning of the directory's name; the first that fits.
WEARS = [
    ("llama-tied", "spm-json"),
    ("llama-mha", "spm"),
    ("llama-linear", "smollm"),
    ("llama-head", "gpt2"),
    ("llama-bf16", "spm"),
    ("llama-f16", "qwen2"),
    ("llama", "llama3"),
    ("mistral-window", "spm-json"),
    ("mistral", "spm"),
    ("qwen2-yarn", "spm"),
    ("qwen", "qwen2"),
    ("gemma", "spm"),
    ("phi3-partial", "phi4"),
    ("phi3", "spm"),
    ("gpt2", "gpt2"),
    ("mixtral-bf16", "spm-json"),
    ("mixtral", "spm"),
    ("olmoe", "gpt2"),
    ("phimoe", "spm"),
    ("ernie4_5_moe", "spm"),
    ("glm4_moe", "glm"),
    ("smollm3", "llama3"),
    ("olmo2", "gpt2"),
    ("granite", "smollm"),
    ("bert", "wordpiece"),
    ("nomic-bert", "wordpiece"),
]
MORE = [("nomic-bert", "unigram"), ("granite", "spm-json"), ("smollm3", "spm")]


def make_dresses(root):
    for name, make in DRESSES.items():
        d = f"{root}/{name}"
        os.makedirs(d, exist_ok=True)
        tokenizer, config = make(d)
        for file, what in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
            if what is not None:
                with open(f"{d}/{file}", "w") as f:
                    json.dump(what, f, ensure_ascii=False)


# ---- lists --------------------------------------------------------------------------------------

LEFT_OUT = (
    "general.name",
    "general.basename",
    "general.finetune",
    "general.version",
    "general.organization",
    "general.size_label",
)


def digest(raw):
    return f"{xxhash.xxh3_64_intdigest(raw):016x}"


def text_value(raw):
    if len(raw) > 60 or b"\n" in raw or b"\t" in raw:
        return f"{len(raw)} {digest(raw)}"
    return raw.decode()


def listed(path):
    import gguf

    r = gguf.GGUFReader(path)
    lines = []
    for f in r.fields.values():
        if f.name.startswith("GGUF.") or f.name in LEFT_OUT:
            continue
        kind = f.types[0].name
        if kind == "ARRAY":
            kind, values = f.types[1].name, [f.parts[i] for i in f.data]
            if kind == "STRING":
                raw = b"".join(struct.pack("<Q", len(v)) + bytes(v) for v in values)
            else:
                raw = b"".join(v.tobytes() for v in values)
            lines.append(f"{f.name} [{kind}] {len(values)} {digest(raw)}")
        elif kind == "STRING":
            lines.append(f"{f.name} {kind} {text_value(bytes(f.parts[f.data[0]]))}")
        else:
            v = f.parts[f.data[0]][0]
            text = f"{v:.9g}" if kind.startswith("FLOAT") else f"{int(v)}"
            lines.append(f"{f.name} {kind} {text}")
    for t in r.tensors:
        shape = "x".join(str(int(n)) for n in reversed(t.shape))
        lines.append(f"{t.name} {t.tensor_type.name} {shape} {digest(t.data.tobytes())}")
    return sorted(lines)


# ---- converting ---------------------------------------------------------------------------------

LOAD = {}


def convert(llama_cpp, folder, dress, out):
    sys.path[:0] = [llama_cpp, f"{llama_cpp}/gguf-py"]
    import conversion
    import convert_hf_to_gguf
    import gguf
    from conversion import base

    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: PRE[dress]
    with open(f"{folder}/config.json") as f:
        config = json.load(f)
    if "n_embd" in config and config["model_type"] == "nomic_bert":
        # transformers' own class knows none of the hub's names, and says its defaults instead
        base.ModelBase.load_hparams = staticmethod(lambda d, mistral: dict(config))
    else:
        base.ModelBase.load_hparams = staticmethod(LOAD.setdefault(0, base.ModelBase.load_hparams))
    hp = base.ModelBase.load_hparams(pathlib.Path(folder), False)
    cls = conversion.get_model_class(base.get_model_architecture(hp, base.ModelType.TEXT))
    dtype = {"F32": gguf.LlamaFileType.ALL_F32}.get(first_dtype(folder), gguf.LlamaFileType.GUESSED)
    cls(pathlib.Path(folder), dtype, pathlib.Path(out)).write()


def first_dtype(folder):
    from safetensors import safe_open

    file = sorted(f for f in os.listdir(folder) if f.endswith(".safetensors"))[0]
    with safe_open(f"{folder}/{file}", "np") as s:
        kinds = [
            s.get_slice(k).get_dtype() for k in s.keys() if len(s.get_slice(k).get_shape()) > 1
        ]
    return kinds[0]


def main(llama_cpp, archs, root):
    make_dresses(f"{root}/dress")
    cases = [
        (n, next((d for p, d in WEARS if n.startswith(p)), None)) for n in sorted(os.listdir(archs))
    ]
    rows = []
    for name, dress in cases + MORE:
        with tempfile.TemporaryDirectory() as tmp:
            folder = f"{tmp}/{name}"
            shutil.copytree(f"{archs}/{name}", folder)
            shutil.copytree(f"{root}/dress/{dress}", folder, dirs_exist_ok=True)
            out = f"{root}/{name}-{dress}.gguf"
            try:
                convert(llama_cpp, folder, dress, out)
            except BaseException as e:
                print(f"{name:20} {dress:10} the converter refuses: {type(e).__name__} {e}")
                continue
            with open(f"{root}/{name}-{dress}.txt", "w") as f:
                f.write("\n".join(listed(out)) + "\n")
            rows.append(f"{name}\t{dress}\n")
            print(f"{name:20} {dress:10} ok")
    with open(f"{root}/cases.tsv", "w") as f:
        f.write("".join(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
