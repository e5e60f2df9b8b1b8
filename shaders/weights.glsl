// weights.glsl - reading weights as lib/engine/vulkan/weights.c packs them: 32 rows side by side,
// so that word w of a row's unit lies beside that of the next row. A unit is what one block of the
// type holds.
//
// Every type gives its columns by 32 at a time; TYPE is a constant, so a pipeline has only one way.

layout(constant_id = 0) const uint TYPE = 0u; // as `packs` in lib/engine/vulkan/weights.c

const uint F32_PLAIN = 0u, F32 = 1u, F16 = 2u, BF16 = 3u, Q4_0 = 4u, Q4_1 = 5u, Q8_0 = 6u,
           Q4_K = 7u, Q6_K = 8u, Q5_0 = 9u, Q5_1 = 10u;

// Words a unit, and columns of it by 32.
uint unit_words()
{
    const uint words[] = {32u, 32u, 16u, 16u, 5u, 5u, 9u, 36u, 53u, 6u, 6u};
    return words[TYPE];
}
uint unit_parts() { return TYPE == Q4_K || TYPE == Q6_K ? 8u : 1u; }

struct Row { // one row of a packed matrix, or of a plain one of f32
    Words w;
    uint at; // its first word
    uint K;
};

Row row_of(Words w, uint row, uint K)
{
    if (TYPE == F32_PLAIN) return Row(w, row * K, K);
    uint units = (K + 32u * unit_parts() - 1u) / (32u * unit_parts());
    return Row(w, row / 32u * units * unit_words() * 32u + row % 32u, K);
}

uint word_of(Row r, uint unit, uint i) { return r.w.v[r.at + (unit * unit_words() + i) * 32u]; }
uint byte_of(Row r, uint unit, uint i)
{
    return bitfieldExtract(word_of(r, unit, i / 4u), int(i % 4u) * 8, 8);
}

// Scale and minimum of the j-th 32 of a Q4_K block: ggml's 6-bit packing, as a fact.
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

// Columns 32 part .. 32 part + 31 of a row; past the last column 0.
void part_of(Row r, uint part, out float v[32])
{
    uint u = part / unit_parts(), j = part % unit_parts();
    if (TYPE == F32_PLAIN) {
        for (uint k = 0u; k < 32u; k++)
            v[k] = part * 32u + k < r.K ? uintBitsToFloat(r.w.v[r.at + part * 32u + k]) : 0.0;
    } else if (TYPE == F32) {
        for (uint k = 0u; k < 32u; k++) v[k] = uintBitsToFloat(word_of(r, u, k));
    } else if (TYPE == F16) {
        for (uint k = 0u; k < 16u; k++) {
            vec2 two = unpackHalf2x16(word_of(r, u, k));
            v[2u * k] = two.x;
            v[2u * k + 1u] = two.y;
        }
    } else if (TYPE == BF16) {
        for (uint k = 0u; k < 16u; k++) {
            uint two = word_of(r, u, k);
            v[2u * k] = uintBitsToFloat(two << 16);
            v[2u * k + 1u] = uintBitsToFloat(two & 0xffff0000u);
        }
    } else if (TYPE == Q4_0 || TYPE == Q4_1) {
        uint head = word_of(r, u, 0u);
        vec2 dm = TYPE == Q4_1 ? unpackHalf2x16(head) : vec2(uintBitsToFloat(head), 0.0);
        if (TYPE == Q4_0) dm.y = -8.0 * dm.x;
        for (uint i = 0u; i < 4u; i++) {
            uint codes = word_of(r, u, 1u + i);
            for (uint k = 0u; k < 4u; k++) {
                v[4u * i + k] = fma(float(codes >> (8u * k) & 15u), dm.x, dm.y);
                v[4u * i + k + 16u] = fma(float(codes >> (8u * k + 4u) & 15u), dm.x, dm.y);
            }
        }
    } else if (TYPE == Q5_0 || TYPE == Q5_1) { // as Q4_0 and Q4_1, the fifth bits in word 1
        uint head = word_of(r, u, 0u);
        vec2 dm = TYPE == Q5_1 ? unpackHalf2x16(head) : vec2(uintBitsToFloat(head), 0.0);
        uint fifth = word_of(r, u, 1u);
        if (TYPE == Q5_0) dm.y = -16.0 * dm.x;
        for (uint i = 0u; i < 4u; i++) {
            uint codes = word_of(r, u, 2u + i);
            for (uint k = 0u; k < 4u; k++) {
                uint at = 4u * i + k;
                uint low = codes >> (8u * k) & 15u, high = codes >> (8u * k + 4u) & 15u;
                v[at] = fma(float(low | (fifth >> at & 1u) << 4), dm.x, dm.y);
                v[at + 16u] = fma(float(high | (fifth >> (at + 16u) & 1u) << 4), dm.x, dm.y);
            }
        }
    } else if (TYPE == Q8_0) {
        float d = uintBitsToFloat(word_of(r, u, 0u));
        for (uint i = 0u; i < 8u; i++) {
            int codes = int(word_of(r, u, 1u + i));
            for (int k = 0; k < 4; k++) v[4u * i + k] = d * float(bitfieldExtract(codes, 8 * k, 8));
        }
    } else if (TYPE == Q4_K) {
        vec2 dm = scales_k4(r, u, j);
        for (uint i = 0u; i < 8u; i++) {
            uint codes = word_of(r, u, 4u + j / 2u * 8u + i) >> (j % 2u * 4u);
            for (uint k = 0u; k < 4u; k++)
                v[4u * i + k] = dm.x * float(codes >> (8u * k) & 15u) - dm.y;
        }
    } else if (TYPE == Q6_K) { // words 0..31 low bits, 32..47 high, 48..51 scales, 52 d
        float d = half_to_float(word_of(r, u, 52u) & 0xffffu);
        uint h = j / 4u, q = j % 4u;
        float s[2];
        for (uint k = 0u; k < 2u; k++) {
            uint at = h * 8u + q * 2u + k;
            int scales = int(word_of(r, u, 48u + at / 4u));
            s[k] = d * float(bitfieldExtract(scales, int(at % 4u) * 8, 8));
        }
        for (uint i = 0u; i < 8u; i++) {
            uint low = word_of(r, u, h * 16u + (q & 1u) * 8u + i) >> (q / 2u * 4u);
            uint high = word_of(r, u, 32u + h * 8u + i) >> (2u * q);
            for (uint k = 0u; k < 4u; k++) {
                uint code = (low >> (8u * k) & 15u) | ((high >> (8u * k) & 3u) << 4);
                v[4u * i + k] = s[i / 4u] * (float(code) - 32.0);
            }
        }
    }
}
