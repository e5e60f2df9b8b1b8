"""What bench/quant-tools.py and bench/llama-quantize.py read of GGUF files with numpy."""
import struct

import numpy as np

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Gguf:
    """Name -> (type, elements, offset) of a file of version 3."""

    def __init__(self, path):
        self.path, self.align = path, 32
        with open(path, "rb") as f:
            self.f = f
            _, _, tensors, keys = struct.unpack("<4sIQQ", f.read(24))
            for _ in range(keys):
                self.text()
                self.value(*struct.unpack("<I", f.read(4)))
            self.tensor = {}
            for _ in range(tensors):
                name = self.text()
                (rank,) = struct.unpack("<I", f.read(4))
                dims = struct.unpack(f"<{rank}Q", f.read(8 * rank))
                kind, at = struct.unpack("<IQ", f.read(12))
                self.tensor[name] = [kind, dims, at]
            start = (f.tell() + self.align - 1) // self.align * self.align
        for t in self.tensor.values():
            t[2] += start

    def text(self):
        (n,) = struct.unpack("<Q", self.f.read(8))
        return self.f.read(n).decode()

    def value(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            inner, n = struct.unpack("<IQ", self.f.read(12))
            for _ in range(n) if inner in (8, 9) else ():
                self.value(inner)
            if inner not in (8, 9):
                self.f.seek(n * SIZES[inner], 1)
        else:
            self.f.seek(SIZES[kind], 1)

    def map(self, name, dtype, n):
        return np.memmap(self.path, dtype, "r", self.tensor[name][2], n)


def of(path):
    """Name of a matrix -> importances of its columns, [columns], of one that is not of experts: squares by their count."""
    file, ends = Gguf(path), ".in_sum2"
    rows = {}
    for name, (_, dims, _) in file.tensor.items():
        if name.endswith(ends) and dims[-1] == 1:
            count = float(file.map(name[:-len(ends)] + ".counts", np.float32, 1)[0])
            rows[name[:-len(ends)]] = np.array(file.map(name, np.float32, dims[0])) / max(count, 1)
    return rows
