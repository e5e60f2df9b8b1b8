/* iqk_blocks.c - the types of ik_llama.cpp against what its own code makes of the same blocks (tests/tensor/iqk/make.py). */
#include "lib/tensor/row_types.h"
#include "lib/tensor/tensor.h"

#include <math.h>
#include <stdlib.h>

#include "tests/common/npy.h"
#include "tests/common/tap.h"

static bool get(const npz *archive, const char *type, const char *what, npy *out)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", type, what);
    return npz_get(archive, name, out);
}

/* The scale of element i: d times its group's, as the table of lib/tensor/dtype_iqk.c has it for iq6_k. */
static float iq6_scale(const uint8_t *blocks, int64_t i)
{
    const uint8_t *block = blocks + i / 256 * 212;
    uint16_t half;
    memcpy(&half, block, 2);
    return zt_f16_to_f32(half) * (float)(int8_t)block[4 + i % 256 / 16];
}

/* The row decoder of iq6_k there has a polynomial that is up to .49 beside the table that its products use. */
static bool is_near(zt_dtype dtype, const uint8_t *blocks, int64_t i, float got, float want)
{
    if (dtype != ZT_IQ6_K) return memcmp(&got, &want, 4) == 0;
    float scale = iq6_scale(blocks, i);
    if (scale == 0) return got == want;
    return fabsf(got - want) <= 0.49f * fabsf(scale) && fabsf(rintf(want / scale) * scale - got) <= 1e-5f * fabsf(got);
}

static void decodes(const npz *archive, zt_dtype dtype, const char *bytes, const char *values)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    npy b = {0}, v = {0};
    bool there = get(archive, info->name, bytes, &b) && get(archive, info->name, values, &v) && v.count > 0 &&
                 (int64_t)b.bytes / info->block_bytes * info->block == v.count;
    float *got = there ? malloc((size_t)v.count * sizeof *got) : NULL;
    int64_t bad = 0;
    if (got) info->decode(b.data, got, v.count);
    for (int64_t i = 0; got && i < v.count; i++) {
        float want;
        memcpy(&want, (const char *)v.data + 4 * i, 4);
        bad += !is_near(dtype, b.data, i, got[i], want);
    }
    ok(got && bad == 0, "%s: %s decode as there (%lld of %lld do not)", info->name, bytes, (long long)bad, (long long)v.count);
    free(got);
    npy_free(&b);
    npy_free(&v);
}

typedef struct row_case {
    const char *name;
    zt_decode_row_fn *decode;
    int64_t block, block_bytes, scale; /* scale: bytes before the blocks of a row */
} row_case;

/* Rows of 512 elements, whole, and their second half alone. */
static void decodes_rows(const npz *archive, const row_case *type, const char *bytes, const char *values)
{
    enum { COLUMNS = 512 };
    const int64_t half = COLUMNS / 2 / type->block * type->block_bytes, row_bytes = type->scale + 2 * half;
    npy b = {0}, v = {0};
    bool there = get(archive, type->name, bytes, &b) && get(archive, type->name, values, &v) && v.count >= COLUMNS &&
                 v.count % COLUMNS == 0 && (int64_t)b.bytes == v.count / COLUMNS * row_bytes;
    int64_t bad = 0;
    for (int64_t row = 0; there && row < v.count / COLUMNS; row++) {
        const uint8_t *scale = (const uint8_t *)b.data + row * row_bytes;
        const char *want = (const char *)v.data + 4 * COLUMNS * row;
        float got[COLUMNS], end[COLUMNS / 2];
        type->decode(scale, scale + type->scale, got, COLUMNS);
        type->decode(scale, scale + type->scale + half, end, COLUMNS / 2);
        bad += memcmp(got, want, sizeof got) != 0 || memcmp(end, got + COLUMNS / 2, sizeof end) != 0;
    }
    ok(there && bad == 0, "%s: %s decode as there (%lld rows do not)", type->name, bytes, (long long)bad);
    npy_free(&b);
    npy_free(&v);
}

static const row_case row_cases[] = {{"iq1_bn", zt_decode_iq1_bn, 64, 13, 2},     {"iq2_bn", zt_decode_iq2_bn, 64, 16, 4},
                                     {"iq2_ks", zt_decode_iq2_ks, 256, 70, 2},    {"iq2_kl", zt_decode_iq2_kl, 256, 86, 2},
                                     {"iq3_ks", zt_decode_iq3_ks, 256, 102, 2},   {"iq4_ks", zt_decode_iq4_ks, 256, 136, 4},
                                     {"iq4_kss", zt_decode_iq4_kss, 256, 128, 4}, {"iq5_ks", zt_decode_iq5_ks, 256, 168, 4}};

int main(void)
{
    static const zt_dtype types[] = {ZT_IQ2_K, ZT_IQ3_K, ZT_IQ4_K, ZT_IQ5_K, ZT_IQ6_K};
    const char *tests = getenv("ZT_TESTS");
    char path[4096];
    npz archive;
    snprintf(path, sizeof path, "%s/../iqk/iqk.npz", tests ? tests : "build/tests");
    bool there = npz_open(&archive, path);
    ok(there, "%s", path);
    for (size_t i = 0; there && i < sizeof types / sizeof *types; i++) {
        decodes(&archive, types[i], "bytes", "dequant");
        decodes(&archive, types[i], "random_bytes", "random_dequant");
    }
    for (size_t i = 0; there && i < sizeof row_cases / sizeof *row_cases; i++) {
        decodes_rows(&archive, &row_cases[i], "bytes", "dequant");
        decodes_rows(&archive, &row_cases[i], "random_bytes", "random_dequant");
    }
    if (there) npz_close(&archive);
    return tap_done();
}
