#!/usr/bin/env python3
"""make.py FOLDER [GOLDEN] - tokenizers with every component that zt reads, and what PyPI's tokenizers
(0.23.3, Apache-2.0) makes of tricky texts with them. Packed as tests/llm/tokenizers/tokenizers.tar.xz:

    python3 make.py /tmp/tokenizers && tar -C /tmp/tokenizers -cJf tests/llm/tokenizers/tokenizers.tar.xz .

With GOLDEN (a folder of golden/tokenizers/hf) FOLDER gets that folder's tokenizers with our texts.
"""
import glob, json, os, random, sys
from tokenizers import Tokenizer

texts = [
    "", "a", " ", "  ", "   a", "a   ", "\n", "\n\n", " \n ", "\t", "\r\n", "a\nb\n\nc", "Hello", "Hello, world!", " Hello", "  Hello  world  ",
    "HELLO World", "don't you'll I'm we've they're he'd it's", "DON'T YOU'LL", "do not", " n't 's 've", "1234567890", "1 22 333 4444", "3.14e-10", "a1b22c333",
    "x=y+z;", "!!!", "?!.,", "a-b_c", "foo(bar)[baz]{qux}", "https://example.org/?a=b&c=d", "C:\\path\\file", "\"q\" 'r'", "``'' --", "$5 + 7% = ^_^ `~`",
    "caf\u00e9", "cafe\u0301", "\u00c5\u212b A\u030a", "\ufb01\ufb02", "\uff28\uff45\uff4c\uff4c\uff4f\uff0c", "\u0130stanbul I\u0307", "\u00df\u1e9e", "\u017f", "\u03a3\u03c2\u03c3",
    "na\u00efve r\u00e9sum\u00e9", "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440", "\u4f60\u597d\u4e16\u754c", "\u4e2d\u6587English\u6df7\u5408", "\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca\u30fc", "\ud55c\uad6d\uc5b4",
    "\u1112\u1161\u11ab", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e44\u0e17\u0e22\u0e04\u0e33", "\u05e9\u05b8\u05dc\u05d5\u05b9\u05dd", "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u0627", "a\u0323\u0301\u0316b", "\u0301x",
    "\U0001f642\U0001f3fd", "\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "a\u200bb\u200cc\u200dd\u2060e\ufefff", "a\u00a0b\u2003c\u3000d\u1680e\u202ff\u2028g\u2029h\u0085i\u180ej", "\u00ad\u061c",
    "a\u0000b", "\u0001\u0002\u007f\u0080\u009f", "\ufffd\ufffe", "\ue000", "\u2581a\u2581 b", "\u2581", "\u2581\u2581a", "\u2460\u24b6\u2163\u00b2\u00bd\u0664\u0966", "\u201cq\u201d\u2026\u2014\u00a1\u00bf", "\u00a7\u00b6\u00a9\u00ae\u20ac",
    "<s>", "</s>", "a<s>b", "<s> a", " <s> ", "a <s>  b", "<s><s></s>", "[MASK] [mask] x[MASK]y", "<unk>", "<0x41>", "<0x0a><0xff>", "##ing ##", "w</w> </w>",
    "<tag>x</tag>", "<TAG>", "lots of  lots of", "word words sword word", "word.word", "\u00c9t\u00e9 \u00e9t\u00e9", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababab", "the the the", "        if x:\n\t\treturn y\n",
    "The quick brown fox jumps over the lazy dog.", "Copyright (C) 1991, 1999 Free Software Foundation, Inc.", "supercalifragilisticexpialidocious antidisestablishmentarianism", "0x1F 1_000 1,000.50 \u0663\u0664", "a|b|c", "x\ty\u000bz\u000cw",
]


def more(n, seed):
    """Texts drawn from what is awkward."""
    rnd = random.Random(seed)
    pool = list("abcXYZ019 .,'!-_\n\t") + [" ", "  ", "the", "ing", "'s", "'LL", "\u2581", "\u00e9", "e\u0301", "\u0301", "\u4e2d", "\u30ab", "\u0663", "\u00a0", "\u200b", "\U0001f642", "<s>", "<tag>", "word", "[MASK]", "\u00df", "\uff21", "\ufb01", "\r\n"]
    return ["".join(rnd.choice(pool) for _ in range(rnd.randint(1, 24))) for _ in range(n)]


texts += more(40, 1)
chars = sorted({c for t in texts for c in t} | set(map(chr, range(256))) | set("\u0120\u010a\u0109"))
chars += [chr(c) for c in range(0x100, 0x180) if chr(c) not in chars]


def corpus():
    words = []
    for path in sorted(glob.glob("/usr/share/common-licenses/*")):
        if os.path.isfile(path):
            words += open(path, encoding="utf-8", errors="ignore").read().splitlines()
    return words[:3000] + texts * 3


# ---- models -----------------------------------------------------------------------------------------


def ends(vocab=()):
    """Every character, and every character at the end of its piece: ids tell all of the pieces."""
    v = {"<unk>": 0}
    for t in list(vocab) + chars + [c + "</w>" for c in chars]:
        v.setdefault(t, len(v))
    return {"type": "BPE", "unk_token": "<unk>", "fuse_unk": False, "end_of_word_suffix": "</w>", "vocab": v, "merges": []}


def trained(kind, size=500, **options):
    from tokenizers import models, trainers, pre_tokenizers
    model = {"BPE": models.BPE, "Unigram": models.Unigram, "WordPiece": models.WordPiece, "WordLevel": models.WordLevel}[kind]
    trainer = {"BPE": trainers.BpeTrainer, "Unigram": trainers.UnigramTrainer, "WordPiece": trainers.WordPieceTrainer, "WordLevel": trainers.WordLevelTrainer}[kind]
    pre = options.pop("pre", None) or pre_tokenizers.Whitespace()
    tok = Tokenizer(model() if kind == "Unigram" else model(unk_token="<unk>") if kind != "BPE" else model(unk_token="<unk>"))
    tok.pre_tokenizer = pre
    tok.train_from_iterator(corpus(), trainer(vocab_size=size, special_tokens=["<unk>"], show_progress=False, **options))
    return json.loads(tok.to_str())["model"]


# ---- files ------------------------------------------------------------------------------------------


def added(content, special=False, normalized=None, single_word=False, lstrip=False, rstrip=False):
    return {"id": 0, "content": content, "single_word": single_word, "lstrip": lstrip, "rstrip": rstrip,
            "normalized": (not special) if normalized is None else normalized, "special": special}


plain = [added("<s>", True), added("</s>", True), added("<tag>", False), added("[MASK]", True, lstrip=True)]


def tokenizer(model, norm=None, pre=None, post=None, decoder=None, tokens=plain):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": norm,
            "pre_tokenizer": pre, "post_processor": post, "decoder": decoder, "model": model}


def seq(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def meta(scheme="always", do_split=True, rep="\u2581"):
    return {"type": "Metaspace", "replacement": rep, "prepend_scheme": scheme, "split": do_split}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def byte_level(space=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": True, "use_regex": regex}


contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
regexes = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": contractions + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + contractions + r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + contractions + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "kimi": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek3": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek-llm": "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    "cjk": "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "bloom": " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",
    "end": r"\s+$", "begin": r"^\s*\w", "edges": r"\b\w", "no-edge": r"\B.", "digits3": r"[0-9][0-9][0-9]", "possessive": r"\p{L}++\p{N}*+",
    "nested": r"[a-c[x-z]\d[^\x00-\x7f]]+", "minus": r"[\w&&[^\d_]&&\S]+", "posix": r"[[:alpha:]]+|[[:^space:][:digit:]]", "hex": r"\h+|\H",
    "dots": r"(?m:a.b)|.\n?", "late": r"a(?i)x|THE|y", "counts": r"[a-z]{2}+|\s{,2}|\d{2}?", "named": r"(?<c>.)\k<c>", "ahead": r"(?<=[a-z])(?=[A-Z])|(?<!a)b",
    "empty": r"x*", "atom": r"(?>a+)b|\R|\O", "unicode": r"\u00e9|\x{4e2d}|\p{Greek}+|\p{^L}|\P{M}\p{M}+", "names": r"\p{Lowercase_Letter}+|\p{Punct}+|\p{Alnum}",
    "brackets": r"[]\[a-]+|[^]\n]",
}
strings = ["a", " ", "ab", "\u2581", "the", "\n", "."]
behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def pre_tokenizers():
    for name, r in regexes.items():
        yield "split-" + name, split(r, behaviors[len(name) % 5], len(name) % 7 == 0)
        yield "isolated-" + name, split(r)
    for i, b in enumerate(behaviors):
        yield "punctuation-" + b, {"type": "Punctuation", "behavior": b}
        yield "string-" + b, split(strings[i], b, False, "String")
        yield "invert-" + b, split(strings[i + 1], b, True, "String")
        yield "regex-" + b, split(r"\d|\s", b)
        yield "regex-invert-" + b, split(r"\w+", b, True)
    for scheme in ("always", "first", "never"):
        yield "meta-" + scheme, meta(scheme)
        yield "meta-whole-" + scheme, meta(scheme, False)
        yield "meta-after-" + scheme, seq("pretokenizers", {"type": "WhitespaceSplit"}, meta(scheme))
        yield "meta-digits-" + scheme, seq("pretokenizers", {"type": "Digits", "individual_digits": True}, meta(scheme, True, "_"))
    for a in (False, True):
        for b in (False, True):
            yield f"bytes-{a}-{b}", byte_level(a, b)
        yield f"digits-{a}", {"type": "Digits", "individual_digits": a}
    yield "whitespace", {"type": "Whitespace"}
    yield "whitespace-split", {"type": "WhitespaceSplit"}
    yield "bert", {"type": "BertPreTokenizer"}
    yield "delimiter", {"type": "CharDelimiterSplit", "delimiter": "|"}
    yield "fixed", {"type": "FixedLength", "length": 3}
    yield "empty-string", split("", kind="String")
    yield "falcon", seq("pretokenizers", {"type": "Punctuation", "behavior": "Contiguous"}, byte_level(), {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"))
    yield "starcoder", seq("pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level(False, True))
    yield "nested", seq("pretokenizers", seq("pretokenizers", {"type": "WhitespaceSplit"}), seq("pretokenizers", {"type": "Punctuation"}, byte_level(True, False)))


def normalizers():
    for n in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"):
        yield n, {"type": n}
    for a in (False, True):
        for b in (False, True):
            yield f"Strip-{a}-{b}", {"type": "Strip", "strip_left": a, "strip_right": b}
            for c in (None, False, True):
                yield f"Bert-{a}-{b}-{c}", {"type": "BertNormalizer", "clean_text": a, "handle_chinese_chars": not b, "strip_accents": c, "lowercase": b}
    yield "prepend", {"type": "Prepend", "prepend": "\u2581"}
    yield "replace", replace(" ", "\u2581")
    yield "replace-regex", replace(r"\s+|'(?=s)", "_", "Regex")
    yield "replace-empty", replace(r"x*", "-", "Regex")
    yield "llama", seq("normalizers", {"type": "Prepend", "prepend": "\u2581"}, replace(" ", "\u2581"))
    yield "accents", seq("normalizers", {"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "Strip", "strip_left": True, "strip_right": True})


def decoders():
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    yield "none", None
    yield "bytes", byte_level()
    yield "meta", meta()
    yield "meta-never", meta("never")
    yield "wordpiece", {"type": "WordPiece", "prefix": "##", "cleanup": True}
    yield "wordpiece-plain", {"type": "WordPiece", "prefix": "", "cleanup": False}
    yield "bpe", {"type": "BPEDecoder", "suffix": "</w>"}
    yield "fallback", {"type": "ByteFallback"}
    yield "fuse", {"type": "Fuse"}
    yield "strip", {"type": "Strip", "content": "a", "start": 2, "stop": 0}
    yield "replace", replace("a", "<A>")
    yield "replace-regex", replace(r"[aeiou]|x*", "-", "Regex")
    yield "llama", seq("decoders", replace("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"}, strip)
    yield "both", seq("decoders", {"type": "ByteFallback"}, meta("first"))


def posts():
    special = {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, "two": {"id": "two", "ids": [2, 3], "tokens": ["a", "b"]}}
    piece = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
    a, b = ({"Sequence": {"id": x, "type_id": 0}} for x in "AB")
    template = {"type": "TemplateProcessing", "single": [piece("<s>"), piece("two"), a, piece("two")], "pair": [a, b], "special_tokens": special}
    yield "template", template
    yield "bert", {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}
    yield "roberta", {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": False}
    yield "sequence", seq("processors", byte_level(), template)
    yield "bytes", byte_level()


def all_tokenizers():
    for name, p in pre_tokenizers():
        yield "pre-" + name, tokenizer(ends(), pre=p)
    for name, n in normalizers():
        yield "norm-" + name, tokenizer(ends(), norm=n, tokens=plain + [added("\u00c9t\u00e9"), added("word", single_word=True, rstrip=True), added("the", False)])
        yield "norm-first-" + name, tokenizer(ends(), norm=n, pre=seq("pretokenizers", {"type": "Punctuation"}, meta("first")))
    tokens = [added("<s>", True, True, lstrip=True, rstrip=True), added("word", False, False, single_word=True), added("lots of", False, True, rstrip=True), added("<tag>", False, False, lstrip=True),
              added("</tag>", True), added(" ", False, False), added("the the", False), added("the", True), added("aaaa", False), added("aa", False, False), added("\u00e9", False), added("", False), added("a", True)]
    for i, norm in enumerate([None, {"type": "Lowercase"}, seq("normalizers", {"type": "NFD"}, {"type": "StripAccents"}), replace(" ", "\u2581")]):
        yield f"added-{i}", tokenizer(ends(["<s>", "aaaa"]), norm=norm, tokens=tokens, decoder={"type": "Fuse"})
        yield f"added-{i}-reversed", tokenizer(ends(), norm=norm, pre=meta("first"), tokens=tokens[::-1])
    for name, p in posts():
        yield "post-" + name, tokenizer(ends(), post=p, tokens=plain)
    bytes_ = {f"<0x{b:02X}>": b + 1 for b in range(256)}
    everything = {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "vocab": {"<unk>": 0, **bytes_}, "merges": []}
    for t in "abeghinost ##ing \u2581the \u2581 </w> th er .".split(" ") + list("\u00e9 \n") + ["a</w>", "'s", "n't", "do", "not", " "]:
        everything["vocab"].setdefault(t, len(everything["vocab"]))
    for name, d in decoders():
        yield "decode-" + name, tokenizer(everything, decoder=d)
    from tokenizers import pre_tokenizers as pt
    yield "wordlevel", tokenizer(trained("WordLevel"), pre={"type": "Whitespace"})
    yield "wordpiece", tokenizer(trained("WordPiece"), pre={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True})
    m = trained("WordPiece", continuing_subword_prefix="@@")
    yield "wordpiece-at", tokenizer({**m, "continuing_subword_prefix": "@@", "max_input_chars_per_word": 12}, pre={"type": "Whitespace"}, decoder={"type": "WordPiece", "prefix": "@@", "cleanup": False})
    m = trained("BPE", end_of_word_suffix="</w>")
    yield "bpe-suffix", tokenizer({**m, "end_of_word_suffix": "</w>"}, norm={"type": "Lowercase"}, pre={"type": "Whitespace"}, decoder={"type": "BPEDecoder", "suffix": "</w>"})
    m = trained("BPE", continuing_subword_prefix="##")
    yield "bpe-prefix", tokenizer({**m, "continuing_subword_prefix": "##"}, pre={"type": "Whitespace"})
    m = trained("BPE", limit_alphabet=60)
    for fuse in (False, True):
        for fall in (False, True):
            vocab = dict(m["vocab"])
            for t in list(bytes_)[:200] if fall else []:
                vocab.setdefault(t, len(vocab))
            yield f"bpe-unk-{fuse}-{fall}", tokenizer({**m, "vocab": vocab, "fuse_unk": fuse, "byte_fallback": fall})
    yield "bpe-no-unk", tokenizer({**m, "unk_token": None})
    yield "bpe-ignore", tokenizer({**m, "ignore_merges": True, "merges": m["merges"][40:]}, pre={"type": "Whitespace"})
    yield "bpe-strings", tokenizer({**m, "merges": [" ".join(p) for p in m["merges"]]}, pre=meta())
    m = trained("Unigram", unk_token="<unk>", pre=pt.Metaspace())
    for scheme in ("always", "first", "never"):
        yield "unigram-" + scheme, tokenizer(m, pre=meta(scheme, scheme == "always"), decoder=meta(scheme))
    vocab = m["vocab"] + [[t, -30.0] for t in bytes_]
    yield "unigram-bytes", tokenizer({**m, "vocab": vocab, "byte_fallback": True}, norm={"type": "NFKC"}, pre=meta("first", False), decoder=seq("decoders", {"type": "ByteFallback"}, meta("first")))


def cases_of(tok, name):
    out = []
    for t in texts:
        try:
            ids, special = tok.encode(t, add_special_tokens=False).ids, tok.encode(t).ids
            c = {"text": t, "ids": ids, "decoded": tok.decode(ids, skip_special_tokens=False)}
            skipped = tok.decode(ids, skip_special_tokens=True)
        except BaseException as e:  # the library panics on some empty lists
            print(f"{name}: {t!r}: {str(e)[:80]}")
            continue
        if special != ids:
            c["ids_special"] = special
        if skipped != c["decoded"]:
            c["decoded_skip"] = skipped
        out.append(c)
    return out


def write(folder, name, text):
    tok = Tokenizer.from_str(text)
    open(f"{folder}/{name}.json", "w").write(text)
    cases = cases_of(tok, name)
    json.dump({"tokenizer": name, "made_by": "tests/llm/tokenizers/make.py", "count": len(cases), "cases": cases}, open(f"{folder}/{name}.cases.json", "w"))


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    if len(sys.argv) > 2:
        for path in sorted(glob.glob(sys.argv[2] + "/*.cases.json")):
            name = os.path.basename(path)[: -len(".cases.json")]
            write(folder, name, open(path[: -len(".cases.json")] + ".json").read())
        return
    for name, t in all_tokenizers():
        try:
            write(folder, name.lower(), json.dumps(t))
        except Exception as e:
            print(f"{name}: left out: {str(e)[:100]}")


main()
