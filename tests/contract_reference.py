#!/usr/bin/env python3
"""contract_reference.py MODEL.gguf LOGITS.npy ID... [--exact] - docs/arithmetic.md, implemented a second time.

Computes a small model of architecture llama (weights of f32, f16, bf16, q4_1 and q8_0) for the token ids as that page says,
and compares all logits with the file's, bit by bit. Exit status 1: some differ. Written from the page: nothing here comes
from the kernels. Python's floats are f64; f32() rounds to f32, and fma() rounds the exact a b + c once.
"""
import math
import struct
import sys
from ctypes import c_float

# ---- numbers -------------------------------------------------------------------------------------


def f32(x):
    return c_float(x).value


def fma(a, b, c):
    """a b is exact in f64. The sum is rounded to odd, and then to f32: that is one rounding."""
    product = a * b
    total = product + c
    part = total - product
    left = (product - (total - part)) + (c - part)
    if left != 0 and not struct.unpack("<q", struct.pack("<d", total))[0] & 1:
        total = math.nextafter(total, math.copysign(math.inf, left))
    return f32(total)


def flush(a):
    return math.copysign(0, a) if abs(a) < 2.0**-126 else a


def flushed(a, b, c):
    a, b, c = flush(a), flush(b), flush(c)
    product = a * b
    total = product + c
    if abs(total) < 2.0**-126 - 2.0**-151:
        return math.copysign(0, total)
    return fma(a, b, c)


def half(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def to_f16(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def to_bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return bf16((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def tree(sums):
    sums = list(sums)
    h = 8
    while h:
        for i in range(h):
            sums[i] = f32(sums[i] + sums[i + h])
        h //= 2
    return sums[0]


def hexes(text):
    return [float.fromhex(t) for t in text.split()]


# ---- functions -----------------------------------------------------------------------------------

MAGIC = 1.5 * 2**23
EXP = hexes("0x1.a01a02p-13 0x1.6c16c2p-10 0x1.111112p-7 0x1.555556p-5 0x1.555556p-3 0x1p-1")


def split(x):
    n = f32(fma(x, float.fromhex("0x1.715476p+0"), MAGIC) - MAGIC)
    r = fma(n, float.fromhex("0x1.bd0106p-13"), fma(n, float.fromhex("-0x1.63p-1"), x))
    q = EXP[0]
    for c in EXP[1:]:
        q = fma(q, r, c)
    return fma(f32(r * r), q, r), int(n)


def exp(x):
    em1, n = split(min(89.0, max(-104.0, x)))
    return f32(math.ldexp(f32(em1 + 1), n))


def sigmoid(x):
    e = exp(-abs(x))
    return f32((e if math.copysign(1, x) < 0 else 1) / f32(1 + e))


def tanh(x):
    em1, n = split(f32(2 * min(10.0, abs(x))))
    e = fma(em1, 2.0**n, f32(2.0**n - 1))
    return math.copysign(f32(e / f32(e + 2)), x)


# ---- the file ------------------------------------------------------------------------------------


class Gguf:
    def __init__(self, path):
        self.data = open(path, "rb").read()
        self.at = 24
        tensors, count = struct.unpack_from("<QQ", self.data, 8)
        self.keys = {}
        for _ in range(count):
            name = self.text()
            self.keys[name] = self.value(self.take("<I"))
        found = []
        for _ in range(tensors):
            name = self.text()
            shape = [self.take("<Q") for _ in range(self.take("<I"))]
            found.append((name, shape, self.take("<I"), self.take("<Q")))
        unit = self.keys.get("general.alignment", 32)
        base = (self.at + unit - 1) // unit * unit
        self.tensors = {name: (shape, kind, base + offset) for name, shape, kind, offset in found}

    def take(self, form):
        (v,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return v

    def text(self):
        size = self.take("<Q")
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "replace")

    def value(self, kind):
        forms = ["<B", "<b", "<H", "<h", "<I", "<i", "<f", "<?", None, None, "<Q", "<q", "<d"]
        if kind == 8:
            return self.text()
        if kind == 9:
            of, count = self.take("<I"), self.take("<Q")
            return [self.value(of) for _ in range(count)]
        return self.take(forms[kind])


# ---- linear --------------------------------------------------------------------------------------


class Matrix:
    """Rows of a tensor: codes with their scales, or numbers."""

    BLOCK = {0: (1, 4), 1: (1, 2), 30: (1, 2), 3: (32, 20), 8: (32, 34)}

    def __init__(self, file, name):
        (self.columns, *rows), self.kind, at = file.tensors[name]
        size, width = self.BLOCK[self.kind]
        stride = self.columns // size * width
        self.rows = [self.read(file.data[at + m * stride : at + (m + 1) * stride]) for m in range(rows[0] if rows else 1)]

    def read(self, raw):
        if self.kind == 0:
            return struct.unpack("<%df" % self.columns, raw)
        if self.kind == 1:
            return struct.unpack("<%de" % self.columns, raw)
        if self.kind == 30:
            return [bf16(b) for b in struct.unpack("<%dH" % self.columns, raw)]
        return [self.block(raw, i) for i in range(0, len(raw), self.BLOCK[self.kind][1])]

    def block(self, raw, at):
        """d, m, and the integers v: w = d v + m + middle d of q4_1, d v of q8_0."""
        if self.kind == 8:
            return half(struct.unpack_from("<H", raw, at)[0]), 0.0, struct.unpack_from("<32b", raw, at + 2)
        d, m = (half(b) for b in struct.unpack_from("<HH", raw, at))
        code = raw[at + 4 : at + 20]
        return d, m, [(c & 15) - 8 for c in code] + [(c >> 4) - 8 for c in code]

    @property
    def middle(self):
        return 8 if self.kind == 3 else 0

    def numbers(self, m):
        if self.kind not in (3, 8):
            return self.rows[m]
        return [f32(d * (v + self.middle) + low) for d, low, vs in self.rows[m] for v in vs]


def quantized(x):
    """Of each 32 columns: q and e; without a rounding of q for fine ones."""
    for k in range(0, len(x), 32):
        part = x[k : k + 32]
        top = max(abs(v) for v in part)
        yield part, top, f32(127 / top) if top > float.fromhex("0x1.a95a5cp-117") else 0.0


def eight_bits(x):
    blocks = [([round(f32(v * r)) for v in part], f32(top / 127)) for part, top, r in quantized(x)]
    if len(blocks) % 2:
        blocks.append(([0] * 32, 0.0))
    return blocks


def sixteen_bits(x):
    blocks = []
    for part, top, r in quantized(x):
        q = []
        for v in part:
            u = round(f32(f32(v * r) * 256))
            hi = u + 128 >> 8
            q.append(256 * hi + max(u - 256 * hi, -127))
        blocks.append((q, f32(f32(top / 127) / 256)))
    return blocks


def dot(v, q):
    return sum(map(int.__mul__, v, q))


def mul(a, b):
    return a * b + 2**14 >> 15


def power_of(blocks, middle, shift2, minima):
    d = max(abs(b[0]) for b in blocks)
    top = max(d, f32(max(abs(b[1]) for b in blocks) + middle * d) / 2**shift2) if minima else d
    if top == 0:
        return 1.0
    power = 2.0 ** min(126, 15 - math.frexp(top)[1])
    return power / 2 if round(top * power) > 32767 else power


def by_eight_bits(matrix, x):
    shift, minima = (0, True) if matrix.kind == 3 else (4, False)
    shift2 = shift + 3
    acts = eight_bits(x)
    y = []
    for blocks in matrix.rows:
        power = power_of(blocks, matrix.middle, shift2, minima)
        blocks = list(blocks) + [(0.0, 0.0, [0] * 32)] * (len(blocks) % 2)
        total = 0.0
        for at in range(0, len(blocks), 2):
            top = max(acts[at][1], acts[at + 1][1])
            r = f32(16383 / top) if top > float.fromhex("0x1.a95a5cp-117") else 0.0
            whole = 0
            for i in range(2):
                (d, m, v), (q, e) = blocks[at + i], acts[at + i]
                E, D, S = round(f32(e * r)), round(f32(d * power)), dot(v, q)
                if shift:
                    S = S + 2 ** (shift - 1) - i >> shift
                whole += S * mul(D, E)
                if minima:
                    Q = round(f32(f32(E * float(sum(q))) * 2.0**-12))
                    whole += (D + round(m * power / 2**shift2)) * Q
            total = fma(f32(whole), f32(f32(top / 16383) * 2.0 ** (15 + shift)), total)
        y.append(f32(total / power))
    return y


def by_sixteen_bits(matrix, x):
    acts = sixteen_bits(x)
    y = []
    for blocks in matrix.rows:
        total = 0.0
        for (d, m, v), (q, e) in zip(blocks, acts):
            total = fma(f32(dot(v, q)), f32(d * e), total)
            if matrix.kind == 3:
                total = fma(f32(d * 8 + m), f32(e * f32(sum(q))), total)
        y.append(total)
    return y


def by_one_chain(matrix, x):
    y = []
    for m in range(len(matrix.rows)):
        total = 0.0
        for w, v in zip(matrix.numbers(m), x):
            total = fma(w, v, total)
        y.append(total)
    return y


def by_two_chains(matrix, x):
    y = []
    for row in matrix.rows:
        chain = [0.0, 0.0]
        for k, w in enumerate(row):
            chain[k % 2] = fma(w, x[k], chain[k % 2])
        y.append(f32(chain[0] + chain[1]))
    return y


def by_pairs(matrix, x):
    x = [to_bf16(v) for v in x] + [0.0]
    y = []
    for row in matrix.rows:
        row = list(row) + [0.0]
        chain = [0.0, 0.0]
        for j in range((matrix.columns + 1) // 2):
            once = flushed(row[2 * j + 1], x[2 * j + 1], chain[j % 2])
            chain[j % 2] = flushed(row[2 * j], x[2 * j], once)
        y.append(f32(chain[0] + chain[1]))
    return y


def linear(matrix, x, exact, fine=False):
    if matrix.kind in (3, 8):
        way = by_one_chain if exact else by_sixteen_bits if fine else by_eight_bits
    else:
        way = by_pairs if matrix.kind == 30 and not exact else by_two_chains
    return way(matrix, x)


# ---- the layer -----------------------------------------------------------------------------------


def rms_norm(x, g, eps):
    sums = [0.0] * 16
    for i, v in enumerate(x):
        sums[i % 16] = fma(v, v, sums[i % 16])
    r = f32(1 / math.sqrt(tree(sums) / len(x) + eps))
    return [f32(f32(v * r) * w) for v, w in zip(x, g)]


SINE = hexes("0x1.71de3ap-19 -0x1.a01a02p-13 0x1.111112p-7 -0x1.555556p-3")
COSINE = hexes("-0x1.27e4fcp-22 0x1.a01a02p-16 -0x1.6c16c2p-10 0x1.555556p-5 -0x1p-1")
QUARTER = float.fromhex("0x1.921fb54442d18p+0")


def correct_power(theta, e):
    """theta^e rounded once, by numbers of 60 decimal digits."""
    from decimal import Decimal, getcontext

    getcontext().prec = 60
    return float((Decimal(theta).ln() * Decimal(e)).exp())


def angle(position, power, factor=None):
    t = position * (power / QUARTER)
    t = t / factor if factor else t
    n = round(t)
    a = f32((t - n) * QUARTER)
    z = f32(a * a)
    s, c = SINE[0], COSINE[0]
    for k in SINE[1:]:
        s = fma(s, z, k)
    for k in COSINE[1:]:
        c = fma(c, z, k)
    sine, cosine = fma(f32(s * z), a, a), fma(c, z, 1.0)
    return [(sine, cosine), (cosine, 0 - sine), (0 - sine, 0 - cosine), (0 - cosine, sine)][n % 4]


def rope(x, head, powers, position):
    """Pairs of neighbours."""
    y = list(x)
    for i, power in enumerate(powers):
        s, c = angle(position, power)
        for h in range(0, len(x), head):
            a, b = x[h + 2 * i], x[h + 2 * i + 1]
            y[h + 2 * i] = fma(a, c, f32(b * -s))
            y[h + 2 * i + 1] = fma(b, c, f32(a * s))
    return y


def attention(q, keys, values, scale, first=0, cap=0.0, sink=None, slope=0.0, own=None):
    """One head's query; keys and values of positions 0, 1 ..., the last its own or that at `own`. The first that it sees."""
    width, total, own = len(q), None, len(keys) - 1 if own is None else own
    for chunk in range(first // 256 * 256, len(keys), 256):
        top, sums, acc = -math.inf, 0.0, [0.0] * width
        for tile in range(chunk, min(chunk + 256, len(keys)), 64):
            tile, end = max(tile, first), min(tile + 64, len(keys))
            if tile >= end:
                continue
            x = []
            for j, key in enumerate(keys[tile:end], tile):
                s = 0.0
                for a, b in zip(q, key):
                    s = fma(a, b, s)
                s = f32(s * scale)
                s = f32(cap * tanh(f32(s / cap))) if cap else s
                x.append(fma(-float(abs(j - own)), slope, s) if slope else s)
            m = max(x)
            if m > top:
                if sums != 0:
                    k = exp(f32(top - m))
                    if k != 1:
                        sums, acc = f32(sums * k), [f32(a * k) for a in acc]
                top = m
            w = [exp(f32(v - top)) for v in x]
            lanes = [0.0] * 16
            for j, v in enumerate(w):
                lanes[j % 16] = f32(lanes[j % 16] + v)
            sums = f32(sums + tree(lanes))
            for v, value in zip(w, values[tile:end]):
                acc = [fma(v, b, a) for a, b in zip(acc, value)]
        if total is None:
            total = (top, sums, acc)
            continue
        new = max(top, total[0])
        k, b = exp(f32(total[0] - new)), exp(f32(top - new))
        total = (new, f32(f32(total[1] * k) + f32(sums * b)), [fma(a, k, f32(c * b)) for a, c in zip(total[2], acc)])
    top, sums, acc = total
    if sink is not None:
        sums = f32(sums + exp(f32(sink - top)))
    return [f32(a / sums) for a in acc]


class Model:
    def __init__(self, path, exact):
        file = Gguf(path)
        key = lambda name: file.keys["llama." + name]
        self.exact, self.eps = exact, key("attention.layer_norm_rms_epsilon")
        self.heads = key("attention.head_count")
        self.groups = file.keys.get("llama.attention.head_count_kv", self.heads)
        self.embedding = Matrix(file, "token_embd.weight")
        self.head = file.keys.get("llama.attention.key_length", self.embedding.columns // self.heads)
        dims = file.keys.get("llama.rope.dimension_count", self.head)
        theta = file.keys.get("llama.rope.freq_base", 10000.0)
        self.powers = [correct_power(theta, -2.0 * i / dims) for i in range(dims // 2)]
        self.scale = f32(1 / math.sqrt(self.head))
        names = "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down".split()
        self.layers = [
            {n: Matrix(file, "blk.%d.%s.weight" % (i, n)) for n in names} for i in range(key("block_count"))
        ]
        self.norm = Matrix(file, "output_norm.weight")
        self.output = Matrix(file, "output.weight") if "output.weight" in file.tensors else self.embedding
        self.cache = [([], []) for _ in self.layers]

    def step(self, token, position):
        x = list(self.embedding.numbers(token))
        for layer, cache in zip(self.layers, self.cache):
            x = self.feed_forward(layer, self.attend(layer, cache, x, position))
        return linear(self.output, rms_norm(x, self.norm.rows[0], self.eps), self.exact, True)

    def attend(self, layer, cache, x, position):
        y = rms_norm(x, layer["attn_norm"].rows[0], self.eps)
        q, k, v = (linear(layer[n], y, self.exact, n != "attn_q") for n in ("attn_q", "attn_k", "attn_v"))
        q, k = (rope(t, self.head, self.powers, position) for t in (q, k))
        cache[0].append(k if self.exact else [to_f16(t) for t in k])
        cache[1].append(v if self.exact else [to_f16(t) for t in v])
        y = []
        for h in range(self.heads):
            at = h // (self.heads // self.groups) * self.head
            keys, values = ([row[at : at + self.head] for row in rows] for rows in cache)
            y += attention(q[h * self.head : (h + 1) * self.head], keys, values, self.scale)
        return [f32(a + b) for a, b in zip(x, linear(layer["attn_output"], y, self.exact))]

    def feed_forward(self, layer, x):
        y = rms_norm(x, layer["ffn_norm"].rows[0], self.eps)
        gate, up = (linear(layer[n], y, self.exact) for n in ("ffn_gate", "ffn_up"))
        y = [f32(f32(g * sigmoid(g)) * u) for g, u in zip(gate, up)]
        return [f32(a + b) for a, b in zip(x, linear(layer["ffn_down"], y, self.exact))]


def main():
    exact = "--exact" in sys.argv
    path, logits, *ids = [a for a in sys.argv[1:] if a != "--exact"]
    model = Model(path, exact)
    data = open(logits, "rb").read()
    at = 10 + struct.unpack_from("<H", data, 8)[0]
    wrong = 0
    for position, token in enumerate(int(i) for i in ids):
        mine = model.step(token, position)
        bytes_of = struct.pack("<%df" % len(mine), *mine)
        theirs = data[at : at + len(bytes_of)]
        at += len(bytes_of)
        for i in range(0, len(bytes_of), 4):
            if bytes_of[i : i + 4] == theirs[i : i + 4]:
                continue
            if not wrong:
                other = struct.unpack_from("<f", theirs, i)[0]
                print("position %d, logit %d: %s by the page, %s in the file" % (position, i // 4, mine[i // 4].hex(), other.hex()))
            wrong += 1
    if at != len(data):
        print("the file has %d bytes, and %d are expected" % (len(data), at))
    print("%d of %d logits have other bits" % (wrong, len(ids) * len(mine)))
    return 1 if wrong or at != len(data) else 0


if __name__ == "__main__":
    sys.exit(main())
