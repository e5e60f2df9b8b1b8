#!/usr/bin/env python3
"""quant-tools.py WHAT ... - what bench/quant computes with numpy.

  source Q4_1.gguf F16.gguf OUT SEED
                                  the second with the first's values spread evenly over the steps of their blocks:
                                  weights that were not quantized before, of a model that still speaks
  rmse SOURCE.gguf A.gguf         of all matrices, both files in f32
  weighted SOURCE.gguf A.gguf B.gguf IMATRIX.gguf
                                  of matrices with importances, all in f32: weighted squared error of A, of the source's
                                  weighted squares; A's by B's; the largest such ratio of one matrix; and A's by B's of
                                  matrices without importances. On stderr a line for each matrix: name and both errors
  same A.gguf B.gguf              exit 0 where both have the same tensors, bytes and all
  kl SOURCE A                     KL(softmax of SOURCE || softmax of A) of each row of the logits N.npy in these folders
  ratio A B                       of two outputs of kl for the same rows: both means, the first in units of the second,
                                  and the standard error of that
"""
import os
import sys

import numpy as np

import importances
from importances import Gguf


def source(q4_1, f16, out, seed):
    a, b = Gguf(q4_1), Gguf(f16)
    data = np.fromfile(f16, np.uint8)
    draw = np.random.default_rng(int(seed))
    for name, (kind, dims, at) in b.tensor.items():
        n = int(np.prod(dims))
        if name not in a.tensor or a.tensor[name][0] != 3 or kind != 1:
            continue
        blocks = a.map(name, np.uint8, n // 32 * 20).reshape(-1, 20)
        d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        here = data[at:at + 2 * n].view(np.float16)
        x = here.astype(np.float32).reshape(-1, 32) + d * draw.uniform(-0.5, 0.5, (n // 32, 32)).astype(np.float32)
        here[:] = x.astype(np.float16).ravel()
    data.tofile(out)


def rmse(path_a, path_b):
    a, b = Gguf(path_a), Gguf(path_b)
    total = count = 0
    for name, (_, dims, _) in a.tensor.items():
        n = int(np.prod(dims))
        if len(dims) > 1:
            e = a.map(name, np.float32, n).astype(np.float64) - b.map(name, np.float32, n)
            total, count = total + float(e @ e), count + n
    print(f"{(total / count) ** 0.5:.8g}")


def weighted(path, path_a, path_b, matrix):
    x, files = Gguf(path), [Gguf(path_a), Gguf(path_b)]
    rows = importances.of(matrix)
    whole, sums, others, worst = 0.0, np.zeros(2), np.zeros(2), 0.0
    for name, (_, dims, _) in x.tensor.items():
        if len(dims) < 2:
            continue
        n = int(np.prod(dims))
        right = x.map(name, np.float32, n).reshape(-1, dims[0])
        weight = rows.get(name)
        errors = np.zeros(2)
        for i in range(2):
            e = files[i].map(name, np.float32, n).reshape(-1, dims[0]) - right
            columns = np.einsum("ij,ij->j", e, e, dtype=np.float64)
            errors[i] = columns @ weight if weight is not None else columns.sum()
        if weight is None:
            others += errors
            continue
        squares = float(np.einsum("ij,ij->j", right, right, dtype=np.float64) @ weight)
        print(name, *(f"{e / squares:.6g}" for e in errors), file=sys.stderr)
        whole, sums = whole + squares, sums + errors
        worst = max(worst, errors[0] / errors[1] if errors[1] else 1.0)
    print(f"{sums[0] / whole:.8g} {sums[0] / sums[1]:.6f} {worst:.6f} {others[0] / others[1] if others[1] else 1.0:.6f}")


def parts(gguf):
    """Name -> (type, elements, bytes from the tensor's start to the next one's)."""
    data = np.memmap(gguf.path, np.uint8, "r")
    starts = sorted(t[2] for t in gguf.tensor.values()) + [len(data)]
    end = dict(zip(starts, starts[1:]))
    return {name: (kind, dims, data[at:end[at]]) for name, (kind, dims, at) in gguf.tensor.items()}


def same(path_a, path_b):
    a, b = parts(Gguf(path_a)), parts(Gguf(path_b))
    if a.keys() != b.keys():
        sys.exit(1)
    for name, (kind, dims, x) in a.items():
        n = min(len(x), len(b[name][2]))  # the last one's padding is no writer's duty
        if (kind, dims) != b[name][:2] or not np.array_equal(x[:n], b[name][2][:n]):
            sys.exit(1)


def rows_kl(x, y):
    """With p of x and d = x - y: mean of d, and log of the mean of exp(mean - d): little rounding where y is near x."""
    d = x - y
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True, dtype=np.float64).astype(np.float32)
    d -= np.einsum("ij,ij->i", p, d)[:, None]
    return np.log((p * np.exp(-d)).sum(1, dtype=np.float64) / p.sum(1, dtype=np.float64))


def kl(source, a):
    for name in sorted(os.listdir(source)):
        x, y = (np.load(os.path.join(at, name), mmap_mode="r") for at in (source, a))
        for i in range(0, len(x), 128):
            print("\n".join(f"{k:.9g}" for k in rows_kl(np.array(x[i:i + 128]), y[i:i + 128])))


def ratio(path_a, path_b):
    a, b = np.loadtxt(path_a), np.loadtxt(path_b)
    r = a.sum() / b.sum() if b.any() else 1.0
    error = np.sqrt(((a - r * b) ** 2).sum()) / b.sum() if b.any() else 0.0
    print(f"{a.mean():.3g} {b.mean():.3g} {r:.3f} {error:.3f}")


{"source": source, "rmse": rmse, "weighted": weighted, "same": same, "kl": kl, "ratio": ratio}[sys.argv[1]](*sys.argv[2:])
