#!/usr/bin/env python3
"""contract_program.py PROGRAM MODEL.gguf LOGITS.npy ID... - docs/arithmetic.md, as ops of a program.

Runs the program of a model (zt-trace record), token after token with one row, as that page defines each op, and compares all
logits with the file's, bit by bit; of an encoder (record --embed) the vector that zt-run --embed prints. Exit status 1: some
differ. Written from the page: nothing here comes from the kernels. contract_reference.py, which has the functions and the
products, computes a llama without a program.
"""
import functools
import json
import math
import os
import re
import struct
import sys
from fractions import Fraction
from types import SimpleNamespace

from contract_reference import (MAGIC, Gguf, Matrix, angle, attention, correct_power, exp, f32, fma, linear, sigmoid, to_f16, tree)

# ---- programs ------------------------------------------------------------------------------------


class Step:
    """NAME, NAME = OP VALUE ... KEY=WORD ..."""

    def __init__(self, line):
        names, call = line.split(" = ")
        self.out = [n.strip() for n in names.split(",")]
        self.op, *words = call.split()
        self.ins = [w for w in words if "=" not in w]
        self.attrs = dict(w.split("=", 1) for w in words if "=" in w)

    def number(self, name, usual):
        return float(self.attrs.get(name, usual))

    def whole(self, name, usual):
        return int(self.attrs.get(name, usual))


class Value:
    """Numbers in row-major order, and the shape."""

    def __init__(self, shape, numbers):
        self.shape, self.numbers = list(shape), list(numbers)

    def rows(self, width=None):
        width = width or self.shape[-1]
        return [self.numbers[i : i + width] for i in range(0, len(self.numbers), width)]


def shape_of(text):
    return [1 if d in ("n", "m") else int(d) if d.isdigit() else 0 for d in text.strip("[]").split(",")]


# ---- functions in f64 ----------------------------------------------------------------------------


def wide_fma(a, b, c):
    """The exact a b + c, rounded once to f64."""
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return exact.numerator / exact.denominator if exact else a * b + c


def wide_poly(x, text):
    y, *rest = (float.fromhex(c) for c in text.split())
    for c in rest:
        y = wide_fma(y, x, c)
    return y


BIG = 1.5 * 2**52


def reduced(x):
    x = min(700.0, max(-700.0, x))
    n = wide_fma(x, float.fromhex("0x1.71547652b82fep+0"), BIG) - BIG
    r = wide_fma(n, float.fromhex("-0x1.62e42fefa39efp-1"), x)
    p = wide_poly(
        r,
        "0x1.a1a189e29a0b2p-13 0x1.6d748a8d23053p-10 0x1.11108f883a896p-7 0x1.5554ade7cb0c4p-5 0x1.55555589095e2p-3 "
        "0x1.00000027c3cb8p-1",
    )
    return r * wide_fma(r, p, 1.0), int(n)


def wide_exp(x):
    em1, n = reduced(x)
    return math.ldexp(em1 + 1, n)


def wide_expm1(x):
    em1, n = reduced(x)
    return em1 * 2.0**n - (1 - 2.0**n)


def wide_tanh(x):
    m = wide_expm1(min(40.0, abs(x) + abs(x)))
    return math.copysign(m / (m + 2), x)


def near(f):
    p = wide_poly(
        f,
        "-0x1.97e3b858bb2eep-5 0x1.7c5cf06243707p-4 -0x1.7d15c40d24342p-4 0x1.70b2c63fd52aap-4 -0x1.94a203d748999p-4 "
        "0x1.c701760b1e1ep-4 -0x1.00244d4d1310dp-3 0x1.24943b893c00dp-3 -0x1.555454fc0df8ep-3 0x1.99998bfdec90fp-3 "
        "-0x1.000001846f0cfp-2 0x1.555555623b74dp-2 -0x1.fffffffebb99fp-2",
    )
    return wide_fma(f * f, p, f)


def log1p(x):
    part, e = math.frexp(x + 1)
    if part >= float.fromhex("0x1.6a09e667f3bcdp-1"):
        f = part - 1
    else:
        f, e = 2 * part - 1, e - 1
    return wide_fma(float(e), float.fromhex("0x1.62e42fefa39efp-1"), near(x if e == 0 else f))


def softcap(x, cap):
    return math.copysign(wide_tanh(abs(x * (1 / cap))) * cap, x)


def softplus(x):
    return max(0.0, x) + log1p(wide_exp(max(-350.0, 0 - abs(x))))


# ---- ops -----------------------------------------------------------------------------------------


def each(function):
    return lambda run, step, x: Value(x.shape, [f32(function(v)) for v in x.numbers])


def spread(value, shape):
    """A dimension of 1 is repeated."""
    own, numbers = [1] * (len(shape) - len(value.shape)) + value.shape, value.numbers
    for axis in range(len(shape)):
        if own[axis] != shape[axis]:
            inner = math.prod(own[axis + 1 :])
            numbers = [v for at in range(0, len(numbers), inner) for v in numbers[at : at + inner] * shape[axis]]
            own[axis] = shape[axis]
    return numbers


def both(function):
    def apply(run, step, a, b):
        rank = max(len(a.shape), len(b.shape))
        sizes = [[1] * (rank - len(v.shape)) + v.shape for v in (a, b)]
        shape = [v if u == 1 else u for u, v in zip(*sizes)]
        return Value(shape, [f32(function(u, v)) for u, v in zip(spread(a, shape), spread(b, shape))])

    return apply


def swiglu(run, step, g, u):
    return Value(g.shape, [f32(f32(v * sigmoid(v)) * w) for v, w in zip(g.numbers, u.numbers)])


GELU = [float.fromhex(c) for c in ("0x1.2444f2p-4", "0x1.988452p+0")]


@functools.lru_cache
def gelu_table(form):
    """Columns c, h, k1 ... k4, as the page prints them."""
    page = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs/arithmetic.md")).read()
    rows = re.findall(r"^ {4}%s (?:c|h|k[1-4]) +((?:[-\d.,\s]|e[-+]?\d)*\d)" % form, page, re.M)
    return list(zip(*([f32(float(n)) for n in row.split(",")] for row in rows)))


def gelu(run, step, x):
    form, y = step.attrs.get("form", "tanh"), []
    table = gelu_table(form)
    width, last = (f32(w) for w in {"erf": (0.4564, 14.37), "tanh": (0.344, 10.8)}[form])
    for v in x.numbers:
        a = min(abs(v), last)
        c, h, k1, k2, k3, k4 = table[int(f32(fma(a, f32(1 / width), MAGIC) - MAGIC))]
        t = f32(a - c)
        b = fma(fma(k4, t, k3), t, k2)
        whole = float(round(fma(k1, t, h)))
        r = fma(f32(t * t), b, fma(k1, t, f32(h - whole)))
        g, *rest = (float.fromhex(n) for n in GELU_TAIL.split())
        for n in rest:
            g = fma(g, r, n)
        tail = f32(math.ldexp(fma(f32(a * r), g, a), int(whole)))
        y.append(f32((v if v > 0 else -0.0 if v < 0 else 0.0) - tail))
    return Value(x.shape, y)


GELU_TAIL = "0x1.39f71p-13 0x1.5f2d26p-10 0x1.3b36d4p-7 0x1.c6af3cp-5 0x1.ebfbd4p-3 0x1.62e43p-1"


def geglu(run, step, g, u):
    if step.attrs.get("form", "tanh") == "erf":
        y = [f32(v * w) for v, w in zip(gelu(run, SimpleNamespace(attrs={"form": "erf"}), g).numbers, u.numbers)]
        return Value(g.shape, y)
    y = [f32(f32(v * sigmoid(f32(v * fma(f32(v * v), *GELU)))) * w) for v, w in zip(g.numbers, u.numbers)]
    return Value(g.shape, y)


def lanes(numbers, width=16):
    sums = [0.0] * width
    for i, (a, b) in enumerate(numbers):
        sums[i % width] = fma(a, b, sums[i % width])
    return sums


def four(numbers):
    s = lanes(numbers, 4)
    return f32(f32(s[0] + s[1]) + f32(s[2] + s[3]))


def sets_of(x, fused):
    """What layer_norm, sum and mean add: four sets of sixteen sums. (fused: of squares.)"""
    sets = [[0.0] * 16 for _ in range(4)]
    whole = len(x) // 64 * 64
    for i, v in enumerate(x):
        s = sets[i // 16 % 4 if i < whole else 0]
        s[i % 16] = fma(v, v, s[i % 16]) if fused else f32(s[i % 16] + v)
    return sets


def normed(sets):
    return tree([f32(f32(a + b) + f32(c + d)) for a, b, c, d in zip(*sets)])


def reduced_sum(sets):
    return tree([f32(f32(f32(a + b) + c) + d) for a, b, c, d in zip(*sets)])


def rms_norm(run, step, x, g):
    y, eps = [], step.number("eps", 0)
    for row in x.rows(step.whole("dims", 0) or x.shape[-1]):
        r = f32(1 / math.sqrt(tree(lanes(zip(row, row))) / len(row) + eps))
        y += [f32(f32(v * r) * w) for v, w in zip(row, g.numbers)]
    return Value(x.shape, y)


def layer_norm(run, step, x, g=None, b=None):
    y, eps = [], step.number("eps", 0)
    for row in x.rows():
        mean = f32(normed(sets_of(row, False)) / len(row))
        row = [f32(v - mean) for v in row]
        r = f32(1 / math.sqrt(normed(sets_of(row, True)) / len(row) + eps))
        row = [f32(v * r) for v in row]
        row = [f32(v * w) for v, w in zip(row, g.numbers)] if g else row
        y += [f32(v + w) for v, w in zip(row, b.numbers)] if b else row
    return Value(x.shape, y)


def added(numbers):
    """As lanes, without products."""
    sums = [0.0] * 16
    for i, v in enumerate(numbers):
        sums[i % 16] = f32(sums[i % 16] + v)
    return tree(sums)


def softmax(run, step, x):
    y = []
    for row in x.rows():
        w = [exp(f32(v - max(row))) for v in row]
        share = f32(1 / sum(added(w[i : i + 1024]) for i in range(0, len(w), 1024)))
        y += [f32(v * share) for v in w]
    return Value(x.shape, y)


def total(run, step, x):
    return summed(step, x, 1)


def mean(run, step, x):
    return summed(step, x, x.shape[axis_of(step, x)])


def axis_of(step, x):
    return int(step.attrs.get("axes", "[-1]").strip("[]")) % len(x.shape)


def summed(step, x, parts):
    """The sums over an axis, divided in f64."""
    axis = axis_of(step, x)
    if axis < len(x.shape) - 1:
        rows = total_of_rows(x, axis)  # numbers of f64
        return Value(rows.shape, [f32(s / parts) for s in rows.numbers])
    sums = [sum(reduced_sum(sets_of(row[i : i + 1024], False)) for i in range(0, len(row), 1024)) for row in x.rows()]
    return Value(x.shape[:-1] + [1] * step.whole("keepdims", 0), [f32(s / parts) for s in sums])


def total_of_rows(x, axis):
    """Of an axis that is not the last: in order, in blocks of 16 rows."""
    width, y = math.prod(x.shape[axis + 1 :]), []
    for part in x.rows(width * x.shape[axis]):
        rows, wide = [part[at : at + width] for at in range(0, len(part), width)], [0.0] * width
        for block in range(0, len(rows), 16):
            sums = [0.0] * width
            for row in rows[block : block + 16]:
                sums = [f32(a + b) for a, b in zip(sums, row)]
            wide = [a + b for a, b in zip(wide, sums)]
        y += wide
    return Value(x.shape[:axis] + x.shape[axis + 1 :], y)


def topk(run, step, x):
    """The largest first; of equals the first."""
    chosen = sorted(range(len(x.numbers)), key=lambda i: -x.numbers[i])[: step.whole("k", 1)]
    return Value([1, len(chosen)], [x.numbers[i] for i in chosen]), Value([1, len(chosen)], chosen)


def gather_elements(run, step, x, index):
    return Value(index.shape, [x.numbers[i] for i in index.numbers])


def cumsum(run, step, x):
    """Of whole numbers, which are exact in any order."""
    y, exclusive = [], step.whole("exclusive", 0)
    for row in x.rows():
        for i in range(len(row)):
            y.append(f32(sum(row[: i + 1 - exclusive])))
    return Value(x.shape, y)


def repeat(run, step, x):
    axis, times = step.whole("axis", 0), step.whole("times", 1)
    rows = x.rows(math.prod(x.shape[axis:]))
    return Value(x.shape[:axis] + [x.shape[axis] * times] + x.shape[axis + 1 :], [v for row in rows for v in row * times])


def cast(run, step, x):
    whole = step.attrs.get("to") == "i32"
    return Value(x.shape, [int(v) if whole else f32(v) for v in x.numbers])


def matmul(run, step, a, b):
    """Of f32, up to 512 columns."""
    y, (inner, columns) = [], b.shape[-2:]
    for at, matrix in enumerate(b.rows(inner * columns)):
        for row in a.rows()[at * a.shape[-2] : (at + 1) * a.shape[-2]]:
            for j in range(columns):
                s = 0.0
                for k in range(inner):
                    s = fma(row[k], matrix[k * columns + j], s)
                y.append(s)
    return Value(a.shape[:-1] + [columns], y)


def transpose(run, step, x):
    axes = shape_of(step.attrs["axes"])
    shape, y = [x.shape[axis] for axis in axes], []
    strides = [math.prod(x.shape[axis + 1 :]) for axis in axes]
    for i in range(len(x.numbers)):
        at = 0
        for size, stride in zip(reversed(shape), reversed(strides)):
            at += i % size * stride
            i //= size
        y.append(x.numbers[at])
    return Value(shape, y)


def expert_linear(run, step, x, experts, index, b=None):
    """A row for each expert that was chosen: of the token's row, or of its own."""
    y, act = [], step.attrs.get("act", "f32")
    rows = x.rows() if len(x.shape) > 2 else x.rows() * len(index.numbers)
    if isinstance(experts, Value):
        (_, height, width), wide = experts.shape, experts.rows()
        experts = [in_rows(width, wide[at : at + height]) for at in range(0, len(wide), height)]
    for row, expert in zip(rows, index.numbers):
        made = linear(experts[expert], row, act == "f32", act == "q16")
        y += [f32(v + c) for v, c in zip(made, b.rows()[expert])] if b else made
    return Value([1, len(index.numbers), len(y) // len(index.numbers)], y)


def in_rows(columns, rows):
    """A matrix of f32."""
    return SimpleNamespace(kind=0, columns=columns, rows=rows, numbers=lambda m: rows[m])


def product(run, step, x, w, b=None):
    if isinstance(w, Value):
        w = in_rows(w.shape[-1], w.rows())
    act = step.attrs.get("act", "f32")
    y = linear(w, x.numbers, act == "f32", act == "q16")
    return Value(x.shape[:-1] + [len(y)], [f32(a + c) for a, c in zip(y, b.numbers)] if b else y)


def where(run, step, choice, a, b):
    a, b = (spread(v, choice.shape) for v in (a, b))
    return Value(choice.shape, [u if c else v for c, u, v in zip(choice.numbers, a, b)])


def scatter_elements(run, step, x, index, u):
    y = list(x.numbers)
    for i, v in zip(index.numbers, u.numbers):
        y[i] = v
    return Value(x.shape, y)


def gather(run, step, x, index):
    """A token's row of a matrix, or that of each index; rows of activations are all there, one by one."""
    if index is None:
        return x
    index = index if isinstance(index, Value) else Value([1], [index])
    rows = [x.numbers_of(i) if isinstance(x, Matrix) else x.rows()[i] for i in index.numbers]
    return Value(index.shape + [x.shape[1]], [v for row in rows for v in row])


def slice_of(run, step, x):
    axis = step.whole("axis", 0)
    begin, end = step.whole("from", 0), step.whole("to", x.shape[axis])
    inner = math.prod(x.shape[axis + 1 :])
    y = [v for row in x.rows(inner * x.shape[axis]) for v in row[begin * inner : end * inner]]
    return Value(x.shape[:axis] + [end - begin] + x.shape[axis + 1 :], y)


def concat(run, step, a, b):
    axis = step.whole("axis", 0)
    wide = [math.prod(v.shape[axis:]) for v in (a, b)]
    shape = a.shape[:axis] + [a.shape[axis] + b.shape[axis]] + a.shape[axis + 1 :]
    return Value(shape, [v for r, s in zip(a.rows(wide[0]), b.rows(wide[1])) for v in r + s])


def rope(run, step, x, pos, factors=None):
    head, dims = step.whole("head", 0), step.whole("dims", 0)
    y, far = list(x.numbers), step.attrs.get("pair", "halves") == "halves"
    low, high, amplitude = step.number("low", 0), step.number("high", 0), f32(step.number("amplitude", 1))
    for i in range(dims // 2):
        u = step.number("extend", 0) * (1 - min(max((i - low) / max(high - low, 0.001), 0), 1))
        scale = step.number("scale", 1) * (1 - u) + u
        power = scale * correct_power(step.number("theta", 10000.0), -2.0 * i / dims)
        s, c = angle(run.position, power, factors.numbers[i] if factors else None)
        s, c = f32(s * amplitude), f32(c * amplitude)
        first, second = (i, i + dims // 2) if far else (2 * i, 2 * i + 1)
        for h in range(0, len(y), head):
            a, b = x.numbers[h + first], x.numbers[h + second]
            y[h + first], y[h + second] = fma(a, c, f32(b * -s)), fma(b, c, f32(a * s))
    return Value(x.shape, y)


def kv_put(run, step, cache, x, *at):
    return cache + [[to_f16(v) for v in x.numbers]]


def attend(run, step, q, keys, values, *at, sinks=None, slopes=None):
    head, y = step.whole("head", 0), []
    scale, cap = f32(step.number("scale", 0) or 1 / math.sqrt(head)), f32(step.number("softcap", 0))
    window, chunk = step.whole("window", 0), step.whole("chunk", 0)
    if isinstance(keys, Value):  # an encoder's
        keys, values = run.rows_of[step.ins[1]], run.rows_of[step.ins[2]]
    first = max(0, len(keys) - window) if window else run.position // chunk * chunk if chunk else 0
    share = len(q.numbers) // len(keys[0])
    for h in range(0, len(q.numbers), head):
        column = h // head // share * head
        part = [[row[column : column + head] for row in rows] for rows in (keys, values)]
        sink, slope = (of[h // head] if of else None for of in (sinks, slopes))
        y += attention(q.numbers[h : h + head], *part, scale, first, cap, sink, slope or 0.0, run.position)
    return Value(q.shape, y)


def sdpa(run, step, q, keys, values, bias, length):
    """Of an encoder's layers with a window around the row, or with biases of distances."""
    heads, head = q.shape[2:]
    keys, values = run.rows_of[step.ins[1]], run.rows_of[step.ins[2]]
    left, right = step.whole("left", -1), step.whole("right", -1)
    first = max(0, run.position - left) if left >= 0 else 0
    end = min(len(keys), run.position + right + 1) if right >= 0 else len(keys)
    scale, share, y = f32(step.number("scale", 0) or 1 / math.sqrt(head)), heads * head // len(keys[0]), []
    for h in range(heads):
        at, column = h * head, h // share * head
        part = [[row[column : column + head] for row in rows[first:end]] for rows in (keys, values)]
        more = bias.rows()[h][first:end] if bias else None
        y += in_tiles([f32(v * scale) for v in q.numbers[at : at + head]], *part, more, first)
    return Value(q.shape, y)


def in_tiles(q, keys, values, bias, first):
    """One head's query, which is scaled; keys and values of positions first, first + 1 ..."""
    top, total, acc = -math.inf, 0.0, [0.0] * len(q)
    x = []
    for key in keys:
        s = 0.0
        for a, b in zip(q, key):
            s = fma(a, b, s)
        x.append(s)
    x = [f32(s + b) for s, b in zip(x, bias)] if bias else x
    for tile in range(first // 128 * 128, first + len(x), 128):
        begin, end = max(tile - first, 0), tile + 128 - first
        m = max(x[begin:end])
        if m > top:
            k = exp(f32(top - m))
            total, acc, top = f32(total * k), [f32(a * k) for a in acc], m
        sums, part = [0.0] * 16, [0.0] * len(q)
        for j, (s, value) in enumerate(zip(x[begin:end], values[begin:end]), begin + first):
            w = exp(f32(s - top))
            sums[j % 16] = f32(sums[j % 16] + w)
            part = [fma(w, v, a) for v, a in zip(value, part)]
        total, acc = f32(total + tree(sums)), [f32(a + b) for a, b in zip(acc, part)]
    return [f32(a / total) for a in acc]


def attend_alibi(run, step, q, keys, values, *at):
    count = len(q.numbers) // step.whole("head", 0)
    below = 2 ** int(math.log2(count))
    size = step.number("bias", 8) / below
    powers = [-size * (h + 1) if h < below else -(size / 2) * (2 * (h - below) + 1) for h in range(count)]
    return attend(run, step, q, keys, values, slopes=[f32(2.0**power) for power in powers])


def attend_sinks(run, step, q, keys, values, sinks, *at):
    return attend(run, step, q, keys, values, sinks=sinks.numbers)


# ---- recurrences -----------------------------------------------------------------------------------


class Fresh:
    """The state before the first row."""


def matrices(run, step, state):
    """S[head][d][e]: of a step, or zeros."""
    heads, depth, width = run.shapes[step.ins[0]][1:]
    return [[[0.0] * width for _ in range(depth)] for _ in range(heads)] if isinstance(state, Fresh) else state


def causal_conv(run, step, state, x, w, start, end, b=None):
    channels, taps = w.shape
    seen = ([[0.0] * channels] * (taps - 1) if isinstance(state, Fresh) else state) + [x.numbers]
    y = []
    for c in range(channels):
        s = b.numbers[c] if b else 0.0
        for k in range(taps):
            s = fma(w.numbers[c * taps + k], seen[k][c], s)
        y.append(f32(s * sigmoid(s)) if step.attrs.get("act") == "silu" else s)
    return seen[1:], Value(x.shape, y)


def divided(x, eps, scale):
    factor = f32(scale / f32(math.sqrt(f32(tree(lanes(zip(x, x))) + eps))))
    return [f32(v * factor) for v in x]


def delta_rule(run, step, state, q, k, v, g, beta, start, end):
    heads, depth, width = run.shapes[step.ins[0]][1:]
    S = matrices(run, step, state)
    eps, scale = f32(step.number("eps", 1e-6)), f32(step.number("scale", 0) or 1 / math.sqrt(depth))
    key_heads = len(q.numbers) // depth
    y, after = [], []
    for h in range(heads):
        at = (h % key_heads if step.attrs.get("share") == "tiled" else h // (heads // key_heads)) * depth
        key, query = divided(k.numbers[at : at + depth], eps, 1.0), divided(q.numbers[at : at + depth], eps, scale)
        decay, rate, columns = exp(g.numbers[h]), beta.numbers[h], []
        for e in range(width):
            column = [S[h][d][e] for d in range(depth)]
            seen = four(zip(column, key))
            change = f32(rate * f32(v.numbers[h * width + e] - f32(decay * seen)))
            column = [fma(u, change, f32(s * decay)) for u, s in zip(key, column)]
            columns.append(column)
            y.append(four(zip(column, query)))
        after.append([list(row) for row in zip(*columns)])
    return after, Value(v.shape, y)


def wkv7(run, step, state, q, w, k, v, a, b, start, end):
    heads, depth, width = run.shapes[step.ins[0]][1:]
    S = matrices(run, step, state)
    y, after = [], []
    for h in range(heads):
        of = lambda x: x.numbers[h * depth : (h + 1) * depth]
        columns = []
        for e in range(width):
            column = [S[h][d][e] for d in range(depth)]
            removed = four(zip(column, of(a)))
            value = v.numbers[h * width + e]
            column = [fma(ki, value, fma(bi, removed, f32(s * wi))) for s, wi, bi, ki in zip(column, of(w), of(b), of(k))]
            columns.append(column)
            y.append(four(zip(column, of(q))))
        after.append([list(row) for row in zip(*columns)])
    return after, Value(v.shape, y)


def selective_scan(run, step, state, x, dt, a, b, c, start, end, d=None):
    width, count = run.shapes[step.ins[0]][1:]
    heads, groups = a.shape[0], len(b.numbers) // count
    y, after = [], []
    for channel in range(width):
        h, group = channel // (width // heads), channel // (width // groups) * count
        u, S, row = f32(dt.numbers[h] * x.numbers[channel]), [], None
        if not isinstance(state, Fresh):
            row = state[channel]
        for i in range(count):
            rate = a.numbers[h * count + i if a.shape[1] > 1 else h]
            s = f32(u * b.numbers[group + i])
            S.append(fma(row[i], exp(f32(dt.numbers[h] * rate)), s) if row else s)
        s = tree(lanes(zip(S, c.numbers[group : group + count])))
        y.append(f32(s + f32(d.numbers[h] * x.numbers[channel])) if d else s)
        after.append(S)
    return after, Value(x.shape, y)


def filled(run, step, x):
    return Value(x.shape, [f32(step.number("value", 0))] * len(x.numbers))


def of_keys(step):
    """Is this a shape whose last axis is all rows of a text, for a row of its own?"""
    return step.op == "reshape" and step.attrs["shape"].endswith(",n]")


def reshaped(run, step, x):
    shape = shape_of(step.attrs["shape"])
    if of_keys(step):
        numbers = x.numbers if len(x.numbers) > 1 else [v for row in run.rows_of[step.ins[0]] for v in row]
        return Value(shape[:-1] + [len(numbers) // math.prod(shape[:-1])], numbers)
    return Value(shape, x.numbers)


OPS = {
    "add": both(lambda a, b: a + b),
    "sub": both(lambda a, b: a - b),
    "mul": both(lambda a, b: a * b),
    "div": both(lambda a, b: a / b),
    "max": both(max),
    "gt": both(lambda a, b: float(a > b)),
    "where": where,
    "abs": each(abs),
    "neg": each(lambda x: -x),
    "square": each(lambda x: x * x),
    "sqrt": each(math.sqrt),
    "floor": each(math.floor),
    "log1p": each(log1p),
    "relu": each(lambda x: x if x > 0 else 0.0),
    "exp": each(wide_exp),
    "expm1": each(wide_expm1),
    "tanh": each(wide_tanh),
    "sigmoid": each(lambda x: 1 / (wide_exp(0 - x) + 1)),
    "softplus": each(softplus),
    "scale": lambda run, step, x: each(lambda v: v * step.number("by", 1))(run, step, x),
    "add_scalar": lambda run, step, x: each(lambda v: v + step.number("by", 0))(run, step, x),
    "clamp": lambda run, step, x: each(lambda v: min(max(v, step.number("lo", 0)), step.number("hi", 1)))(run, step, x),
    "softcap": lambda run, step, x: each(lambda v: softcap(v, step.number("cap", 30)))(run, step, x),
    "softmax": softmax,
    "topk": topk,
    "gather_elements": gather_elements,
    "scatter_elements": scatter_elements,
    "expert_linear": expert_linear,
    "sum": total,
    "mean": mean,
    "cumsum": cumsum,
    "repeat": repeat,
    "cast": cast,
    "matmul": matmul,
    "transpose": transpose,
    "swiglu": swiglu,
    "gelu": gelu,
    "geglu": geglu,
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "linear": product,
    "gather": gather,
    "slice": slice_of,
    "concat": concat,
    "reshape": reshaped,
    "fill_like": filled,
    "rope": rope,
    "kv_put": kv_put,
    "attention": attend,
    "attention_sinks": attend_sinks,
    "attention_chunked": attend,
    "attention_alibi": attend_alibi,
    "sdpa": sdpa,
    "causal_conv": causal_conv,
    "delta_rule": delta_rule,
    "wkv7": wkv7,
    "selective_scan": selective_scan,
}


class Run:
    def __init__(self, program, path):
        self.file = Gguf(path)
        self.position, self.data, self.state, self.shapes, self.steps, self.keep = 0, {}, {}, {}, [], {}
        self.result, self.rows_of = "logits", {}
        for line in open(program):
            word, _, rest = line.partition(" ")
            name, _, of = rest.strip().partition(": ")
            if word == "data":
                self.data[name] = self.weight(of[of.index('"') :])
            elif word == "state":
                kind, _, shape = of.partition("[")
                self.shapes[name] = shape_of("[" + shape)
                self.state[name] = [] if kind == "f16" else Fresh()
            elif word == "keep":
                before, _, after = rest.strip().partition(" = ")
                self.keep[before] = after
            elif word == "out" and rest.strip().split()[0] in ("logits", "states"):
                self.result = rest.split()[-1]
            elif " = " in line and word not in ("in", "out", "model", "bind"):
                self.steps.append(Step(line.strip()))

    def weight(self, quoted):
        """A tensor of the file, or "@OP TYPE[SHAPE] "OF" KEY=WORD": what an op makes of one."""
        name = json.loads(quoted)
        if name.startswith("@"):
            return self.derived(name)
        shape = list(reversed(self.file.tensors[name][0]))
        if len(shape) < 2:
            return Value(shape, Matrix(self.file, name).rows[0])
        matrix = Matrix(self.file, name) if len(shape) == 2 else None
        if matrix is None and self.file.tensors[name][1] == 0 and "_exps" not in name:
            (_, _, at), count = self.file.tensors[name], math.prod(shape)
            return Value(shape, struct.unpack_from("<%df" % count, self.file.data, at))
        if matrix is None:
            return self.experts(*self.file.tensors[name])
        matrix.numbers_of = matrix.numbers
        matrix.shape = shape
        return matrix

    def experts(self, dims, kind, at):
        """[expert]: each a matrix of its own."""
        columns, rows, count = dims
        size, width = Matrix.BLOCK[kind]
        made = []
        for expert in range(count):
            self.file.tensors["expert"] = ([columns, rows], kind, at + expert * rows * (columns // size * width))
            made.append(Matrix(self.file, "expert"))
        return made

    def derived(self, name):
        head, quoted, attrs = re.fullmatch(r'(@\S+ \S+) ("(?:[^"\\]|\\.)*")(.*)', name).groups()
        step = Step("made = " + head[1:] + attrs)
        if step.op == "reshape":  # of blocks: a file's order stays
            shape = shape_of(step.attrs["shape"])
            _, kind, at = self.file.tensors[json.loads(quoted)]
            return self.experts(list(reversed(shape)), kind, at)
        x = self.weight(quoted)
        if isinstance(x, list):
            rows = [m.numbers(r) for m in x for r in range(len(m.rows))]
            x = Value([len(x), len(x[0].rows), len(rows[0])], [v for row in rows for v in row])
        return OPS[step.op](self, step, x)

    def compute(self, step, values):
        """Of one row."""
        if step.op == "argmax":
            return
        if step.op not in OPS:
            sys.exit("contract_program: op %s: docs/arithmetic.md has it, this file has not" % step.op)
        ins = [None if n == "_" else values[n] for n in step.ins]
        if step.op not in ("linear", "gather"):
            ins = [flat(v) if isinstance(v, Matrix) else v for v in ins]
        made = OPS[step.op](self, step, *ins)
        values.update(zip(step.out, made if isinstance(made, tuple) else (made,)))

    def given(self, token, position):
        """The inputs of a row."""
        none = dict.fromkeys(("seq", "table", "rows", "from", "to", "last"))
        return dict(self.data, ids=token, types=0, pos=Value([1], [position]), **none)

    def row(self, token):
        values = dict(self.given(token, self.position), **self.state)
        for step in self.steps:
            self.compute(step, values)
        self.state = {before: values[after] for before, after in self.keep.items()}
        self.position += 1
        return values[self.result].numbers

    def text(self, tokens):
        """An encoder: each op for all rows, as attention reads all."""
        rows = [self.given(token, position) for position, token in enumerate(tokens)]
        for values in rows:
            values["last"] = Value([1], [len(tokens) - 1])
        for step in self.steps:
            if step.op.startswith("attention") or step.op == "sdpa":
                self.rows_of = {name: [values[name].numbers for values in rows] for name in step.ins[1:3]}
            elif of_keys(step):
                self.rows_of = {step.ins[0]: [values[step.ins[0]].numbers for values in rows]}
            for self.position, values in enumerate(rows):
                self.compute(step, values)
        return [values[self.result].numbers for values in rows]


def flat(matrix):
    return Value(matrix.shape, [v for m in range(len(matrix.rows)) for v in matrix.numbers(m)])


def mean_of(states):
    """What --embed prints: the mean of all rows, f64 sums in order."""
    part = 1 / len(states)
    return [f32(sum(column) * part) for column in zip(*states)]


def main():
    program, path, answer, *ids = sys.argv[1:]
    run, wrong, count = Run(program, path), 0, 0
    data, tokens = open(answer, "rb").read(), [int(i) for i in ids]
    at = 10 + struct.unpack_from("<H", data, 8)[0]
    encoder = not any(step.op == "kv_put" for step in run.steps) and "last" in [n for step in run.steps for n in step.ins]
    rows = [mean_of(run.text(tokens))] if encoder else (run.row(token) for token in tokens)
    for position, row in enumerate(rows):
        for i, mine in enumerate(row):
            theirs = data[at : at + 4]
            at += 4
            count += 1
            if struct.pack("<f", mine) == theirs:
                continue
            if not wrong:
                other = struct.unpack("<f", theirs)[0]
                print("position %d, number %d: %s by the page, %s in the file" % (position, i, mine.hex(), other.hex()))
            wrong += 1
    print("%d of %d %s have other bits" % (wrong, count, "numbers" if encoder else "logits"))
    return 1 if wrong or at != len(data) else 0


if __name__ == "__main__":
    sys.exit(main())
