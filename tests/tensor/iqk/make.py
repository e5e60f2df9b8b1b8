"""Golden blocks of ik_llama.cpp's types: make.py SOURCE, its source tree; writes iqk.tar.xz beside this file.

Of each type T, in iqk.npz: T.bytes and T.dequant, a row of 512 numbers quantized and decoded by its own functions, and
T.random_bytes and T.random_dequant, blocks of random bits with finite scales; of types whose rows begin with a scale, rows of 512
of them. The decoders of iq1_bn and iq2_bn there leave the row's scale to their callers: it is multiplied here. Made from commit 8337e4cd by g++ 12 on x86-64:
only iqk_quantize.cpp and ggml.c are compiled, and what else they name is not called. Seconds of one core: about 30.
"""

import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

import numpy as np

PROGRAM = r"""
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>
#include "ggml.h"
#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"
#include "iqk/iqk_quantize.h"

/* Not in that header. */
extern "C" {
size_t quantize_iq1_bn(const float *, void *, int64_t, int64_t, const float *, const struct quantize_user_data *);
void dequantize_row_iq1_bn(const block_iq1_bn *, float *, int64_t);
}

static uint64_t state = 42;
static uint32_t draw() { state = state * 6364136223846793005ull + 1442695040888963407ull; return uint32_t(state >> 33); }
static float normal() { float sum = 0; for (int i = 0; i < 12; i++) sum += float(draw() & 0xffff) / 65536; return sum - 6; }

static void put(const char *type, const char *what, const void *data, size_t bytes)
{
    char name[100];
    snprintf(name, sizeof name, "%s.%s", type, what);
    FILE *file = fopen(name, "wb");
    fwrite(data, 1, bytes, file);
    fclose(file);
}

template <class B> static void make(const char *type, decltype(quantize_iq2_k) quantize, void (*decode)(const B *, float *, int64_t))
{
    enum { COLUMNS = 512, RANDOM = 6 };
    std::vector<float> x(COLUMNS), y(RANDOM * 256);
    std::vector<B> blocks(COLUMNS / 256 + 1), random(RANDOM);
    for (int i = 0; i < COLUMNS; i++) x[i] = normal() * 0.03f + (i % 97 ? 0 : 0.1f);
    put(type, "bytes", blocks.data(), quantize(x.data(), blocks.data(), 1, COLUMNS, nullptr, nullptr));
    decode(blocks.data(), y.data(), COLUMNS);
    put(type, "dequant", y.data(), COLUMNS * sizeof(float));
    for (B &block : random) {
        uint8_t *bytes = (uint8_t *)&block;
        for (size_t i = 0; i < sizeof block; i++) bytes[i] = uint8_t(draw());
        uint16_t half = uint16_t((draw() & 0x83ff) | (8 + draw() % 16) << 10);
        memcpy(bytes, &half, 2);
    }
    decode(random.data(), y.data(), RANDOM * 256);
    put(type, "random_bytes", random.data(), random.size() * sizeof(B));
    put(type, "random_dequant", y.data(), y.size() * sizeof(float));
}

/* Decodes a row that begins with `scale` bytes; the ternary types' decoders read their blocks alone. */
template <class B> static void read_row(const std::vector<uint8_t> &row, size_t scale, bool ternary,
                                        void (*decode)(const B *, float *, int64_t), float *y, int columns)
{
    float d;
    decode((const B *)(row.data() + (ternary ? scale : 0)), y, columns);
    if (!ternary) return;
    if (scale == 4) memcpy(&d, row.data(), 4);
    else {
        ggml_fp16_t half;
        memcpy(&half, row.data(), 2);
        d = ggml_fp16_to_fp32(half);
    }
    for (int i = 0; i < columns; i++) y[i] *= d;
}

template <class B> static void make_row(const char *type, size_t scale, bool ternary, decltype(quantize_iq2_k) quantize,
                                        void (*decode)(const B *, float *, int64_t))
{
    enum { COLUMNS = 512, ROWS = 3 };
    const int block = ternary ? 64 : 256;
    const size_t bytes = scale + COLUMNS / block * sizeof(B);
    std::vector<float> x(COLUMNS), y(ROWS * COLUMNS);
    std::vector<uint8_t> row(bytes), all;
    for (int i = 0; i < COLUMNS; i++) x[i] = normal() * 0.03f + (i % 97 ? 0 : 0.1f);
    put(type, "bytes", row.data(), quantize(x.data(), row.data(), 1, COLUMNS, nullptr, nullptr));
    read_row(row, scale, ternary, decode, y.data(), COLUMNS);
    put(type, "dequant", y.data(), COLUMNS * sizeof(float));
    for (int r = 0; r < ROWS; r++) {
        uint16_t half = uint16_t((draw() & 0x83ff) | (8 + draw() % 16) << 10);
        float d = ggml_fp16_to_fp32(half) * 1.0009765625f;
        for (uint8_t &byte : row) byte = uint8_t(draw());
        if (scale == 4) memcpy(row.data(), &d, 4);
        else memcpy(row.data(), &half, 2);
        read_row(row, scale, ternary, decode, y.data() + r * COLUMNS, COLUMNS);
        all.insert(all.end(), row.begin(), row.end());
    }
    put(type, "random_bytes", all.data(), all.size());
    put(type, "random_dequant", y.data(), y.size() * sizeof(float));
}

int main()
{
    ggml_init_params params = {1 << 20, nullptr, true};
    ggml_init(params);
    make("iq2_k", quantize_iq2_k, dequantize_row_iq2_k);
    make("iq3_k", quantize_iq3_k, dequantize_row_iq3_k);
    make("iq4_k", quantize_iq4_k, dequantize_row_iq4_k);
    make("iq5_k", quantize_iq5_k, dequantize_row_iq5_k);
    make("iq6_k", quantize_iq6_k, dequantize_row_iq6_k);
    make_row("iq1_bn", 2, true, quantize_iq1_bn, dequantize_row_iq1_bn);
    make_row("iq2_bn", 4, true, quantize_iq2_bn, dequantize_row_iq2_bn);
    make_row("iq2_ks", 2, false, quantize_iq2_ks, dequantize_row_iq2_ks);
    make_row("iq2_kl", 2, false, quantize_iq2_kl, dequantize_row_iq2_kl);
    make_row("iq3_ks", 2, false, quantize_iq3_ks, dequantize_row_iq3_ks);
    make_row("iq4_ks", 4, false, quantize_iq4_ks, dequantize_row_iq4_ks);
    make_row("iq4_kss", 4, false, quantize_iq4_kss, dequantize_row_iq4_kss);
    make_row("iq5_ks", 4, false, quantize_iq5_ks, dequantize_row_iq5_ks);
}
"""


def build(source, folder):
    (folder / "make.cpp").write_text(PROGRAM)
    flags = ["-O1", "-march=native", "-w", "-fpermissive", "-DGGML_USE_IQK_MULMAT", "-DGGML_IQK_MULMAT", "-D_GNU_SOURCE"]
    flags += ["-I", source / "ggml/include", "-I", source / "ggml/src"]
    parts = [folder / "make.cpp", source / "ggml/src/iqk/iqk_quantize.cpp", source / "ggml/src/ggml.c"]
    objects = []
    for part in parts:
        objects.append(folder / (part.name + ".o"))
        compiler = ["gcc", "-std=gnu11"] if part.suffix == ".c" else ["g++", "-std=c++17"]
        subprocess.run([*compiler, *flags, "-c", part, "-o", objects[-1]], check=True)
    link = ["g++", *objects, "-o", folder / "make", "-lpthread", "-lm"]
    missing = subprocess.run([*link, "-Wl,--no-demangle"], capture_output=True, text=True).stderr
    names = sorted(set(re.findall(r"undefined reference to `(\w+)'", missing)))
    stubs = "".join(f".globl {name}\n{name}: ud2\n" for name in names)
    (folder / "stubs.s").write_text(".text\n" + stubs + '.section .note.GNU-stack,"",@progbits\n')
    subprocess.run([*link, folder / "stubs.s"], check=True)


def main(source):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build(source, folder)
        subprocess.run([folder / "make"], cwd=folder, check=True)
        arrays = {}
        for file in [*sorted(folder.glob("iq*bytes")), *sorted(folder.glob("iq*dequant"))]:
            arrays[file.name] = np.fromfile(file, np.float32 if file.suffix.endswith("dequant") else np.uint8)
    data = io.BytesIO()
    np.savez(data, **arrays)
    with tarfile.open(pathlib.Path(__file__).with_name("iqk.tar.xz"), "w:xz", preset=9) as archive:
        member = tarfile.TarInfo("iqk.npz")
        member.size = len(data.getvalue())
        archive.addfile(member, io.BytesIO(data.getvalue()))


if __name__ == "__main__":
    main(pathlib.Path(os.path.abspath(sys.argv[1])))
