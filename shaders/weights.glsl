// weights.glsl - reading matrices as lib/engine/vulkan/weights.c packs them: 32 rows side by side,
// so that word w of a row's unit lies beside that of the next row. A unit is what one block of the
// type holds. PLAIN ones lie as in a file, one row after the other; their words are made to be
// those that packing would have made.
//
// Every type gives its columns by 32 at a time; TYPE is a constant, so a pipeline has only one way.

layout(constant_id = 0) const uint TYPE = 1u; // as `packs` in lib/engine/vulkan/weights.c
layout(constant_id = 3) const uint PLAIN = 0u;

const uint F32 = 1u, F16 = 2u, BF16 = 3u, Q4_0 = 4u, Q4_1 = 5u, Q8_0 = 6u, Q4_K = 7u, Q6_K = 8u,
           Q5_0 = 9u, Q5_1 = 10u, Q5_K = 11u;
const bool WIDENED = TYPE == Q4_0 || TYPE == Q5_0 || TYPE == Q8_0; // word 0 is the f16 scale as f32

// Words a unit, the 16-bit halves that a file has for it, and columns of it by 32.
uint unit_words()
{
    const uint words[] = {0u, 32u, 16u, 16u, 5u, 5u, 9u, 36u, 53u, 6u, 6u, 44u};
    return words[TYPE];
}
uint unit_halves()
{
    const uint halves[] = {0u, 64u, 32u, 32u, 9u, 10u, 17u, 72u, 105u, 11u, 12u, 88u};
    return halves[TYPE];
}
uint unit_parts() { return TYPE == Q4_K || TYPE == Q5_K || TYPE == Q6_K ? 8u : 1u; }

struct Row {
    Words w;
    Halves h; // the same memory
    uint at;  // its first word, or half; of plain f32 word
    uint K;
};

Row row_of(uvec2 matrix, uint row, uint K)
{
    uint units = (K + 32u * unit_parts() - 1u) / (32u * unit_parts());
    uint at = row / 32u * units * unit_words() * 32u + row % 32u;
    if (PLAIN != 0u) at = row * (TYPE <= BF16 ? K : units * unit_halves());
    return Row(Words(matrix), Halves(matrix), at, K);
}

uint half_of(Row r, uint i) { return uint(r.h.v[r.at + i]); }

// Word i of a unit of a plain matrix; past the last column 0.
uint plain_word(Row r, uint unit, uint i)
{
    if (TYPE == F32) return unit * 32u + i < r.K ? r.w.v[r.at + unit * 32u + i] : 0u;
    uint first = unit * unit_halves() + 2u * i;
    uint end = TYPE <= BF16 ? r.K : (unit + 1u) * unit_halves();
    if (WIDENED && i == 0u) return floatBitsToUint(half_to_float(half_of(r, first)));
    if (WIDENED) first--;
    uint low = first < end ? half_of(r, first) : 0u;
    return low | (first + 1u < end ? half_of(r, first + 1u) << 16 : 0u);
}

uint word_of(Row r, uint unit, uint i)
{
    if (PLAIN != 0u) return plain_word(r, unit, i);
    return r.w.v[r.at + (unit * unit_words() + i) * 32u];
}

uint byte_of(Row r, uint unit, uint i)
{
    return bitfieldExtract(word_of(r, unit, i / 4u), int(i % 4u) * 8, 8);
}

// Scale and minimum of the j-th 32 of a Q4_K or Q5_K block: ggml's 6-bit packing, as a fact.
vec2 scales_k4(Row r, uint u, uint j)
{
    vec2 d = unpackHalf2x16(word_of(r, u, 0u));
    uint s, m;
    if (j < 4u) {
        s = byte_of(r, u, 4u + j) & 63u;
        m = byte_of(r, u, 8u + j) & 63u;
    } else {
        uint both = byte_of(r, u, 8u + j);
        s = (both & 15u) | (byte_of(r, u, j) >> 6 << 4);
        m = (both >> 4) | (byte_of(r, u, 4u + j) >> 6 << 4);
    }
    return vec2(d.x * float(s), d.y * float(m));
}

struct Scales { // of 32 columns: value = by * code + least; by[1] is of the last 16, if HALVES
    float by[2];
    float least;
};
const bool HALVES = TYPE == Q6_K;
const bool MINIMA = TYPE == Q4_1 || TYPE == Q5_1 || TYPE == Q4_K || TYPE == Q5_K;

// Each byte of a, below 64, less `by`, as signed bytes.
int less(uint a, uint by) { return int(((a | 0x80808080u) - by * 0x01010101u) ^ 0x80808080u); }
// Bits 0..3 to bit 4 of each byte.
uint fifths(uint bits) { return ((bits & 15u) * 0x00204081u & 0x01010101u) << 4; }

// Block types of 32 columns: q4_0 q4_1 q5_0 q5_1 q8_0.
Scales codes_of_32(Row r, uint u, out int c[8])
{
    uint head = word_of(r, u, 0u), fifth = 0u, first = 1u;
    vec2 dm = MINIMA ? unpackHalf2x16(head) : vec2(uintBitsToFloat(head), 0.0);
    if (TYPE == Q8_0) {
        for (uint i = 0u; i < 8u; i++) c[i] = int(word_of(r, u, 1u + i));
        return Scales(float[2](dm.x, dm.x), 0.0);
    }
    if (TYPE == Q5_0 || TYPE == Q5_1) fifth = word_of(r, u, first++);
    uint offset = TYPE == Q4_0 ? 8u : TYPE == Q5_0 ? 16u : 0u;
    for (uint i = 0u; i < 4u; i++) {
        uint codes = word_of(r, u, first + i);
        c[i] = less(codes & 0x0f0f0f0fu | fifths(fifth >> (4u * i)), offset);
        c[4u + i] = less(codes >> 4 & 0x0f0f0f0fu | fifths(fifth >> (4u * i + 16u)), offset);
    }
    return Scales(float[2](dm.x, dm.x), dm.y);
}

// Q5_K has the fifth bits before the low ones: bit j of each byte is of the j-th 32.
Scales codes_of_q4_k(Row r, uint u, uint j, out int c[8])
{
    vec2 dm = scales_k4(r, u, j);
    uint first = TYPE == Q5_K ? 12u : 4u;
    for (uint i = 0u; i < 8u; i++) {
        uint low = word_of(r, u, first + j / 2u * 8u + i) >> (j % 2u * 4u) & 0x0f0f0f0fu;
        uint high = TYPE == Q5_K ? word_of(r, u, 4u + i) >> j & 0x01010101u : 0u;
        c[i] = int(low | high << 4);
    }
    return Scales(float[2](dm.x, dm.x), -dm.y);
}

// Words 0..31 hold the low bits, 32..47 the high ones, 48..51 scales, 52 d.
Scales codes_of_q6_k(Row r, uint u, uint j, out int c[8])
{
    float d = half_to_float(word_of(r, u, 52u) & 0xffffu), by[2];
    uint h = j / 4u, q = j % 4u;
    for (uint k = 0u; k < 2u; k++) {
        uint at = h * 8u + q * 2u + k;
        int scales = int(word_of(r, u, 48u + at / 4u));
        by[k] = d * float(bitfieldExtract(scales, int(at % 4u) * 8, 8));
    }
    for (uint i = 0u; i < 8u; i++) {
        uint low = word_of(r, u, h * 16u + (q & 1u) * 8u + i) >> (q / 2u * 4u) & 0x0f0f0f0fu;
        uint high = word_of(r, u, 32u + h * 8u + i) >> (2u * q) & 0x03030303u;
        c[i] = less(low | high << 4, 32u);
    }
    return Scales(by, 0.0);
}

// Columns 32 part .. 32 part + 31 of a row of a block type, as signed bytes, 4 a word.
Scales codes_of(Row r, uint part, out int c[8])
{
    if (TYPE == Q4_K || TYPE == Q5_K) return codes_of_q4_k(r, part / 8u, part % 8u, c);
    if (TYPE == Q6_K) return codes_of_q6_k(r, part / 8u, part % 8u, c);
    return codes_of_32(r, part, c);
}

// The same columns of any type as numbers; past the last column 0.
void part_of(Row r, uint part, out float v[32])
{
    if (TYPE == F32) {
        for (uint k = 0u; k < 32u; k++) v[k] = uintBitsToFloat(word_of(r, part, k));
    } else if (TYPE == F16) {
        for (uint k = 0u; k < 16u; k++) {
            vec2 two = unpackHalf2x16(word_of(r, part, k));
            v[2u * k] = two.x;
            v[2u * k + 1u] = two.y;
        }
    } else if (TYPE == BF16) {
        for (uint k = 0u; k < 16u; k++) {
            uint two = word_of(r, part, k);
            v[2u * k] = uintBitsToFloat(two << 16);
            v[2u * k + 1u] = uintBitsToFloat(two & 0xffff0000u);
        }
    } else {
        int c[8];
        Scales s = codes_of(r, part, c);
        for (uint i = 0u; i < 8u; i++)
            for (int k = 0; k < 4; k++) {
                precise float code = float(bitfieldExtract(c[i], 8 * k, 8));
                v[4u * i + k] = fma(code, s.by[i / 4u], s.least);
            }
    }
}
