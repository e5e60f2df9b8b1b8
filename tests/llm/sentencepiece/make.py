#!/usr/bin/env python3
"""make.py FOLDER - twelve SentencePiece models over all of its switches, and what PyPI's sentencepiece
(0.2.3, Apache-2.0) makes of 2,000 texts with them, and of ids. Packed as tests/llm/sentencepiece/sentencepiece.tar.xz:

    python3 make.py /tmp/sentencepiece && tar -C /tmp/sentencepiece --sort=name --owner=0 --group=0 \\
        --mtime=@0 -cJf tests/llm/sentencepiece/sentencepiece.tar.xz .

make.py FOLDER --random SEED N makes N models of random pieces and switches instead;
make.py FOLDER --seeds the inputs of tests/fuzz/sentencepiece.c, tests/fuzz/seeds/sentencepiece.

Files: texts (each: u32 bytes, bytes), NAME.model, NAME.bin (for each text, then for lists of ids that no
text gave until the end: u16 count, u16 ids, u32 bytes, decoded text). Little endian.
"""
import io
import os
import random
import struct
import sys

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as pb

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

# ---- texts ------------------------------------------------------------------------------------------

WORDS = """the of and to in is that it was for on with as his they at be this from have or by one had not but
what all were when we there can an your which their said if do will each about how up out them then she many
some so these would other into has more her two like him see time could no make than first been its who now
people my made over did down only way find use may water long little very after words called just where most
know hello world don't I'll we've token model number street house 1234 99 3.14 2024-05-06 a1b2""".split()
SCRIPTS = [
    "абвгдежзийклмнопрстуфхцчшщыьэюя", "αβγδεζηθικλμνξοπρστυφχψω", "אבגדהוזחטיכלמנסעפצקרשת",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهوي", "अआइईउऊएकखगघचछजझटठडतथदधनपफबभमयरलवशसह", "กขคงจฉชซญดตถทนบปผพฟมยรลวสหอ",
    "あいうえおかきくけこさしすせそ", "アイウエオカキクケコガギグ", "一二三四五六七八九十人大小中国日本語文字",
    "가나다라마바사아자차한국어", "àáâãäåæçèéêëìíîïñòóôõöøùúûüýÿßœ",
]
ODD = [
    " ", "  ", "   ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u3000", "\u200b", "\u200d", "\ufeff", "\u0085", "\u2028",
    "\u2581", "\u2581\u2581", "\u0000", "\u0001", "\u001f", "\u007f", "\u00ad", "\u0301", "e\u0301", "A\u030a", "\u212b", "\ufb01", "\ufb03",
    "\uff21\uff22", "\uff11\uff12", "\uff76\uff9e", "\u2460", "\u00bd", "\u2163", "\u00b2", "\u33a5", "\u1112\u1161\u11ab", "\u0130", "\u017f", "\u03c2\u03a3",
    "\u1e9e", "\ufdfa", "\u2126", "\ufffd", "\ufffe", "\U0010ffff", "\U0001f642", "\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001d400",
    "\U00020000", "<s>", "</s>", "<unk>", "<pad>", "<0x41>", "<0x0A>", "<|x|>", "<|x|>y", "<|", "|>", "[user]", "[ user ]", "<ctl>", "\u2047", " \u2047 ",
    "abab", "ab", "\U0001f600\U0001f600", "``", "''", "...", "\u2026", "\u00e9", "\u00c9", "@@", "##", "/", "\\n", "~", "\uff5e", "\u301c", "\u2012",
]


def word(rnd):
    k = rnd.random()
    if k < 0.6:
        w = rnd.choice(WORDS)
        return w.upper() if rnd.random() < 0.05 else w.capitalize() if rnd.random() < 0.1 else w
    letters = rnd.choice(SCRIPTS)
    return "".join(rnd.choice(letters) for _ in range(rnd.randint(1, 6)))


def sentence(rnd, n):
    return " ".join(word(rnd) for _ in range(n)) + rnd.choice(["", ".", "!", ",", "?"])


def corpus():
    rnd = random.Random(7)
    lines = [sentence(rnd, rnd.randint(3, 12)) for _ in range(3000)]
    lines += ["".join(rnd.choice(ODD[5:]) + rnd.choice(WORDS) for _ in range(4)) for _ in range(150)]
    return [line.replace("\n", " ").replace("\r", " ").replace("\u0000", "") for line in lines]


def texts(count=2000):
    rnd = random.Random(11)
    out = ["", " ", "  ", "\u2581", " \u2581 ", "\n", "\u3000", "a", " a", "a ", "  a  b  ", "\u0000", "a\u0000b"] + ODD
    out += ["".join(rnd.choice(ODD) for _ in range(rnd.randint(2, 9))) for _ in range(500)]
    out += ["".join(rnd.choice([word(rnd), rnd.choice(ODD), " "]) for _ in range(rnd.randint(2, 10))) for _ in range(700)]
    out += [chr(c) for c in rnd.sample(range(0x80, 0x3000), 120)] + [chr(rnd.randrange(0x3000, 0xd800)) for _ in range(40)]
    out += [chr(rnd.randrange(0xf900, 0x11000)) + " " + chr(rnd.randrange(0x1d000, 0x1fb00)) for _ in range(60)]
    out += ["x" * 300, " " * 200, "ab" * 150, "the " * 80, "\u4e00" * 120, "<|x|>" * 30, sentence(rnd, 150)]
    raw = [t.encode() for t in out]
    for _ in range(150):  # bytes that are not UTF-8
        b = bytearray(sentence(rnd, 2).encode())
        for _ in range(rnd.randint(1, 3)):
            b[rnd.randrange(len(b))] = rnd.choice([0x80, 0xc0, 0xc3, 0xe2, 0xed, 0xf0, 0xf5, 0xff, rnd.randrange(256)])
        raw.append(bytes(b))
    while len(raw) < count:
        raw.append(sentence(rnd, rnd.randint(1, 9)).encode())
    return raw[:count]


# ---- models -----------------------------------------------------------------------------------------


def trained(lines, size, **options):
    out = io.BytesIO()
    spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, vocab_size=size, num_threads=1, minloglevel=2,
                                   hard_vocab_limit=False, **options)
    m = pb.ModelProto()
    m.ParseFromString(out.getvalue())
    return m


def tsv(folder, name, rules):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        for a, b in rules:
            f.write(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n")
    return path


def without_some(m, share, seed):
    """Some pieces of several characters are not to be used."""
    rnd = random.Random(seed)
    for p in m.pieces:
        if p.type == NORMAL and len(p.piece) > 1 and rnd.random() < share:
            p.type = UNUSED
    return m


def unescaped(m):
    for p in m.pieces:
        p.piece = p.piece.replace("\u2581", " ")
    m.normalizer_spec.escape_whitespaces = False
    return m


def models(folder):
    lines = corpus()
    uni, bpe = {"model_type": "unigram"}, {"model_type": "bpe"}
    user = ["<|x|>", "<|x|>y", "[user]", "[ user ]", "ab"]
    rules = tsv(folder, "rules.tsv", [("a", "b"), ("th", "\u00fe"), ("\u00bd", "1/2"), ("\u3000", " "), ("\u200b", ""), ("xx", " x ")])
    back = tsv(folder, "back.tsv", [("\u00fe", "th"), ("1/2", "\u00bd")])
    yield "unigram", trained(lines, 600, **uni)
    yield "unigram_bytes", trained(lines, 800, **uni, normalization_rule_name="identity", byte_fallback=True, remove_extra_whitespaces=False,
                                   user_defined_symbols=user, control_symbols=["<ctl>"], character_coverage=0.98)
    yield "unigram_cf", trained(lines, 600, **uni, normalization_rule_name="nfkc_cf", add_dummy_prefix=False, user_defined_symbols=user,
                                pad_id=3, split_digits=True)
    yield "unigram_suffix", trained(lines, 600, **uni, normalization_rule_name="nfkc", treat_whitespace_as_suffix=True, unk_surface="[?]",
                                    control_symbols=["<ctl>"])
    yield "unigram_rules", without_some(trained(lines, 600, **uni, normalization_rule_tsv=rules, denormalization_rule_tsv=back,
                                                remove_extra_whitespaces=False, bos_id=-1, eos_id=-1, character_coverage=0.98), 0.2, 3)
    yield "bpe", trained(lines, 600, **bpe, character_coverage=0.98)
    yield "bpe_llama", trained(lines, 900, **bpe, normalization_rule_name="identity", byte_fallback=True, remove_extra_whitespaces=False,
                               split_digits=True, allow_whitespace_only_pieces=True, character_coverage=0.98)
    yield "bpe_gemma", trained(lines, 900, **bpe, normalization_rule_name="identity", byte_fallback=True, remove_extra_whitespaces=False,
                               add_dummy_prefix=False, user_defined_symbols=user + ["\n", "\t", "\u2581\u2581", "\u2581\u2581\u2581"],
                               control_symbols=["<ctl>"], pad_id=0, eos_id=1, bos_id=2, unk_id=3)
    yield "bpe_suffix", trained(lines, 600, **bpe, normalization_rule_name="nmt_nfkc_cf", treat_whitespace_as_suffix=True,
                                remove_extra_whitespaces=False, split_by_whitespace=False)
    yield "bpe_unused", unescaped(without_some(trained(lines, 600, **bpe, normalization_rule_name="nfkc", user_defined_symbols=user), 0.3, 5))
    yield "word", trained(lines, 300, model_type="word", normalization_rule_name="nfkc", user_defined_symbols=user)
    yield "char", without_some(trained(lines, 300, model_type="char", byte_fallback=False, user_defined_symbols=user, unk_surface=""), 0.5, 9)
    os.remove(rules)
    os.remove(back)


def drawn(rnd):
    """A model of random pieces and switches: not what a trainer would make, but what a file may be."""
    m = pb.ModelProto()
    t, n = m.trainer_spec, m.normalizer_spec
    t.model_type = rnd.randint(1, 4)
    t.byte_fallback = rnd.random() < 0.4
    t.treat_whitespace_as_suffix = rnd.random() < 0.3
    if rnd.random() < 0.3:
        t.unk_surface = rnd.choice(["", "?", "\u2581?"])
    n.add_dummy_prefix, n.remove_extra_whitespaces, n.escape_whitespaces = rnd.random() < 0.6, rnd.random() < 0.5, rnd.random() < 0.8
    names = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL}
    if t.byte_fallback:
        names.update({"<0x%02X>" % b: BYTE for b in range(256)})
    pool = ["a", "b", "h", "e", "t", "o", "\u2581", " ", "x", "\u00e9", "\u4e00", "1", "<", "|", ">", "s"]
    for _ in range(rnd.randint(5, 120)):
        w = "".join(rnd.choice(pool) for _ in range(rnd.choice([1, 1, 1, 2, 2, 3, 4, 6])))
        names.setdefault(w, rnd.choices([NORMAL, USER, UNUSED, CONTROL], [12, 1, 2, 0.3])[0])
    names.setdefault("a", NORMAL)
    order = list(names)
    if rnd.random() < 0.5:
        rnd.shuffle(order)
    for w in order:
        p = m.pieces.add()
        p.piece, p.type = w, names[w]
        p.score = rnd.choice([0.0, -1.0, -2.0, -float(rnd.randint(0, 50)), rnd.uniform(-20, 5)])
    return m


# ---- answers ----------------------------------------------------------------------------------------


def pack(ids, text):
    return struct.pack("<H%dH" % len(ids), len(ids), *ids) + struct.pack("<I", len(text)) + text


def answers(m, raw):
    sp = spm.SentencePieceProcessor()
    sp.LoadFromSerializedProto(m.SerializeToString())
    rnd = random.Random(len(m.pieces))
    out = b""
    for t in raw:
        ids = sp.encode(t)
        out += pack(ids, decode(sp, ids))
    for _ in range(300):
        ids = [rnd.randrange(len(m.pieces)) for _ in range(rnd.randint(0, 8))]
        out += pack(ids, decode(sp, ids))
    return out


def seeds(folder):
    """Small models: of each type with and without bytes, and one with a charsmap."""
    for i in range(8):
        rnd = random.Random(100 + i)
        m = drawn(rnd)
        while m.trainer_spec.model_type != i % 4 + 1 or m.trainer_spec.byte_fallback != (i >= 4):
            m = drawn(rnd)
        yield f"drawn{i}", m
    made = dict(models(folder))["unigram_rules"]
    del made.pieces[150:]
    yield "rules", made


def decode(sp, ids):
    return sp.decode(ids).encode("utf-8", "surrogateescape")


def main(folder, *args):
    os.makedirs(folder, exist_ok=True)
    if args == ("--seeds",):
        for name, m in seeds(folder):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(b"\x0b" + b"the ab<|x|>" + m.SerializeToString())
        return
    raw = texts()
    made = models(folder)
    if args:
        rnd = random.Random(int(args[1]))
        made = ((f"random{i}", drawn(rnd)) for i in range(int(args[2])))
    with open(os.path.join(folder, "texts"), "wb") as f:
        f.write(b"".join(struct.pack("<I", len(t)) + t for t in raw))
    for name, m in made:
        with open(os.path.join(folder, name + ".bin"), "wb") as f:
            f.write(answers(m, raw))
        with open(os.path.join(folder, name + ".model"), "wb") as f:
            f.write(m.SerializeToString())
        print(name, len(m.pieces), "pieces")


if __name__ == "__main__":
    main(*sys.argv[1:])
