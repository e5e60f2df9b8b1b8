// weights.glsl - reading matrices as lib/engine/vulkan/weights.c packs them: 32 rows side by side, so that word w of
// a row's unit lies beside that of the next row. A unit is what one block of the type holds, or 32 plain numbers; a
// header that leaves its codes off words has a word of its own. PLAIN matrices lie as in a file, one row after the
// other; their words are made to be those that packing would have made, but for what is behind a block's end.
//
// Every type gives its columns by 32 at a time; TYPE is a constant, so a pipeline has only one way. Block layouts:
// ggml-common.h of ggml (MIT), as facts.

layout(constant_id = 0) const uint TYPE = 1u; // as `packs` in lib/engine/vulkan/weights.c
layout(constant_id = 3) const uint PLAIN = 0u;

const uint F32 = 1u, F16 = 2u, BF16 = 3u, Q4_0 = 4u, Q4_1 = 5u, Q8_0 = 6u, Q4_K = 7u, Q6_K = 8u, Q5_0 = 9u, Q5_1 = 10u,
           Q5_K = 11u, IQ4_NL = 12u, MXFP4 = 13u, NVFP4 = 14u, Q2_0 = 15u, TQ2_0 = 16u, Q2_K = 17u, Q3_K = 18u,
           IQ4_XS = 19u, Q1_0 = 20u, TQ1_0 = 21u, IQ3_S = 22u, IQ3_XXS = 23u, IQ2_XXS = 24u, IQ2_XS = 25u, IQ2_S = 26u,
           IQ1_S = 27u, IQ1_M = 28u;

// Words of a unit, the bytes that a file has for it and those of its header, and columns of it by 32.
uint unit_words()
{
    const uint words[] = {0u,  32u, 16u, 16u, 5u, 5u,  9u,  36u, 53u, 6u,  6u,  44u, 5u,  5u, 9u,
                          5u,  17u, 21u, 28u, 34u, 5u, 14u, 28u, 25u, 17u, 19u, 21u, 13u, 14u};
    return words[TYPE];
}
uint unit_bytes()
{
    const uint bytes[] = {0u,  128u, 64u, 64u,  18u,  20u, 34u, 144u, 210u, 22u, 24u, 176u, 18u, 17u, 36u,
                          18u, 66u,  84u, 110u, 136u, 18u, 54u, 110u, 98u,  66u, 74u, 82u,  50u, 56u};
    return bytes[TYPE];
}
// Is TYPE one of a set, a bit each?
#define ONE_OF(set) (((set) >> TYPE & 1u) != 0u)
const uint HEADERS = 1u << Q4_0 | 1u << Q5_0 | 1u << Q8_0 | 1u << IQ4_NL | 1u << MXFP4 | 1u << Q2_0 | 1u << Q1_0 |
                     1u << IQ3_S | 1u << IQ3_XXS | 1u << IQ2_XXS | 1u << IQ2_XS | 1u << IQ2_S | 1u << IQ1_S;
const bool HEADER = ONE_OF(HEADERS); // of 2 bytes, in mxfp4 of 1
const uint HEADER_BYTES = 2u - uint(TYPE == MXFP4);
const bool LARGE = ONE_OF(1u << Q4_K | 1u << Q5_K | 1u << Q6_K | 1u << TQ2_0 | 1u << Q2_K | 1u << Q3_K | 1u << IQ4_XS |
                          1u << TQ1_0 | 127u << IQ3_S); // 256 columns
uint unit_parts() { return LARGE ? 8u : TYPE == Q1_0 ? 4u : TYPE == NVFP4 || TYPE == Q2_0 ? 2u : 1u; }

// Shaders that meet packed blocks alone define PACKED_BLOCKS, and are shorter.
#ifdef PACKED_BLOCKS
const bool LIES_PLAIN = PLAIN != 0u && TYPE <= BF16;
#else
const bool LIES_PLAIN = PLAIN != 0u;
#endif

struct Row {
    Words w;
    Halves h; // the same memory
    uint at;  // its first word; of plain halves half, of plain blocks byte
    uint K;
};

Row row_of(uvec2 matrix, uint row, uint K)
{
    uint units = (K + 32u * unit_parts() - 1u) / (32u * unit_parts());
    uint at = row / 32u * units * unit_words() * 32u + row % 32u;
    if (LIES_PLAIN) at = row * (TYPE <= BF16 ? K : units * unit_bytes());
    return Row(Words(matrix), Halves(matrix), at, K);
}

// Row m of the e-th of a stack of matrices of M rows, and where its number in a list of all rows is: packed ones are
// padded to whole groups.
uint row_in_stack(uint e, uint M, uint m) { return e * (LIES_PLAIN ? M : (M + 31u) / 32u * 32u) + m; }

uint plain_half(Row r, uint k) { return k < r.K ? uint(r.h.v[r.at + k]) : 0u; }

// Word i of a unit of a plain matrix; of plain numbers past the last column 0.
uint plain_word(Row r, uint unit, uint i)
{
    if (TYPE == F32) return unit * 32u + i < r.K ? r.w.v[r.at + unit * 32u + i] : 0u;
#ifdef PACKED_BLOCKS
    return plain_half(r, unit * 32u + 2u * i) | plain_half(r, unit * 32u + 2u * i + 1u) << 16;
#else
    if (TYPE <= BF16) return plain_half(r, unit * 32u + 2u * i) | plain_half(r, unit * 32u + 2u * i + 1u) << 16;
    uint at = r.at + unit * unit_bytes() + (HEADER && i > 0u ? HEADER_BYTES + 4u * (i - 1u) : 4u * i);
    uint shift = at % 4u * 8u, low = r.w.v[at / 4u] >> shift;
    uint bits = HEADER && i == 0u ? 8u * HEADER_BYTES : 32u;
    if (shift + bits > 32u) low |= r.w.v[at / 4u + 1u] << (32u - shift);
    return HEADER && i == 0u ? low & (1u << bits) - 1u : low;
#endif
}

uint word_of(Row r, uint unit, uint i)
{
    if (LIES_PLAIN) return plain_word(r, unit, i);
    return r.w.v[r.at + (unit * unit_words() + i) * 32u];
}

uint byte_of(Row r, uint unit, uint i) { return bitfieldExtract(word_of(r, unit, i / 4u), int(i % 4u) * 8, 8); }

// Bytes i and i + 1, i even.
uint short_of(Row r, uint unit, uint i) { return bitfieldExtract(word_of(r, unit, i / 4u), int(i % 4u) * 8, 16); }

// ---- codes and scales -----------------------------------------------------------------------------------------------

// value = scale * (code - OFFSET) + least. Products take codes less their middle (zt_pack_middle), of types with minima a
// middle that their minima then have more of. Scales are floats (d, m), for 32 columns or two for 16, or whole numbers
// of SCALE_BITS bits (s, n) times d[0], m[0].
struct Scales {
    float d[2], m[2];
    int s[2], n[2];
};
const bool MINIMA = ONE_OF(1u << Q4_1 | 1u << Q5_1 | 1u << Q4_K | 1u << Q5_K | 1u << Q2_K);
const bool HALVES = ONE_OF(1u << Q6_K | 1u << Q3_K | 1u << Q2_K | 1u << NVFP4); // a scale for 16 columns
const bool TABLED = ONE_OF(1u << IQ4_NL | 1u << IQ4_XS | 1u << MXFP4 | 1u << NVFP4);
const bool DECODED = ONE_OF(1u << Q1_0 | 1u << TQ1_0 | 63u << IQ3_XXS); // block types that have no codes
const int SCALE_BITS = TYPE == Q4_K || TYPE == Q5_K ? 6 : TYPE == Q6_K || TYPE == Q3_K ? 7 : TYPE == Q2_K ? 4
                     : TYPE == IQ4_XS || TYPE == IQ3_S ? 5 : 0;
const int MIDDLE = !MINIMA ? 0 : TYPE == Q2_K ? 2 : TYPE == Q5_1 || TYPE == Q5_K ? 16 : 8;

float scale_of(Scales s, uint h)
{
    precise float by = SCALE_BITS > 0 ? s.d[0] * float(s.s[h]) : s.d[HALVES ? h : 0u];
    return by;
}
float least_of(Scales s, uint h)
{
    precise float least = SCALE_BITS > 0 ? -(s.m[0] * float(s.n[h])) : s.m[0];
    return least;
}

// Each byte of a, below 128, less `by`, as signed bytes.
int less(uint a, uint by) { return int(((a | 0x80808080u) - by * 0x01010101u) ^ 0x80808080u); }
// Bits 0..3 to bit 0 of each byte.
uint spread_bits(uint bits) { return (bits & 15u) * 0x00204081u & 0x01010101u; }
// Bits 2 j and 2 j + 1 of a byte to byte j.
uint spread_pairs(uint bits) { return bits & 3u | (bits & 12u) << 6 | (bits & 48u) << 12 | (bits & 192u) << 18; }

// What codes of 4 bits stand for: signed bytes, the first in the lowest.
const uint IQ4_TABLE[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
const uint E2M1_TABLE[4] = {0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu};
uint looked_up(uint code)
{
    uint word = TYPE == IQ4_NL || TYPE == IQ4_XS ? IQ4_TABLE[code >> 2] : E2M1_TABLE[code >> 2];
    return word >> (code & 3u) * 8u & 255u;
}
int look_up(uint codes)
{
    return int(looked_up(codes & 15u) | looked_up(codes >> 8 & 15u) << 8 | looked_up(codes >> 16 & 15u) << 16 |
               looked_up(codes >> 24 & 15u) << 24);
}

// 2^(e - 128), and a number of 4 exponent bits and 3 below them of half its usual size.
float e8m0_of(uint e) { return uintBitsToFloat(e < 2u ? 0x200000u << e : (e - 1u) << 23); }
float e4m3_of(uint e)
{
    precise float x = half_to_float(e == 0x7fu ? 0u : (e & 0x7fu) << 7) * 128.0;
    return x;
}

// The scales of a block of 32 or 64 columns.
Scales scales_of_small(Row r, uint part)
{
    uint u = part / unit_parts(), head = word_of(r, u, 0u);
    Scales s;
    s.m[0] = 0.0;
    if (TYPE == NVFP4) {
        s.d[0] = e4m3_of(head >> part % 2u * 16u & 255u);
        s.d[1] = e4m3_of(head >> part % 2u * 16u + 8u & 255u);
    } else if (TYPE == MXFP4) {
        s.d[0] = e8m0_of(head & 255u);
    } else if (MINIMA) {
        vec2 two = unpackHalf2x16(head);
        s.d[0] = two.x;
        s.m[0] = two.y;
    } else {
        s.d[0] = half_to_float(head & 0xffffu);
    }
    return s;
}

// Scale and minimum of the j-th 32 of a Q4_K or Q5_K block: ggml's 6-bit packing.
Scales scales_of_q4_k(Row r, uint u, uint j)
{
    vec2 d = unpackHalf2x16(word_of(r, u, 0u));
    Scales s;
    s.d[0] = d.x;
    s.m[0] = d.y;
    if (j < 4u) {
        s.s[0] = int(byte_of(r, u, 4u + j) & 63u);
        s.n[0] = int(byte_of(r, u, 8u + j) & 63u);
    } else {
        uint both = byte_of(r, u, 8u + j);
        s.s[0] = int(both & 15u | byte_of(r, u, j) >> 6 << 4);
        s.n[0] = int(both >> 4 | byte_of(r, u, 4u + j) >> 6 << 4);
    }
    s.s[1] = s.s[0];
    s.n[1] = s.n[0];
    return s;
}

// Those of the j-th 32 of a block of 256.
Scales scales_of_large(Row r, uint u, uint j)
{
    Scales s;
    s.m[0] = 0.0;
    s.n[0] = s.n[1] = 0;
    if (TYPE == Q4_K || TYPE == Q5_K) return scales_of_q4_k(r, u, j);
    if (TYPE == TQ2_0) {
        s.d[0] = half_to_float(short_of(r, u, 64u));
    } else if (TYPE == Q2_K) {
        vec2 d = unpackHalf2x16(word_of(r, u, 20u));
        s.d[0] = d.x;
        s.m[0] = d.y;
        for (uint h = 0u; h < 2u; h++) {
            uint both = byte_of(r, u, 2u * j + h);
            s.s[h] = int(both & 15u);
            s.n[h] = int(both >> 4);
        }
    } else if (TYPE == Q3_K) {
        s.d[0] = half_to_float(short_of(r, u, 108u));
        for (uint h = 0u; h < 2u; h++) {
            uint g = 2u * j + h, low = byte_of(r, u, 96u + g % 8u) >> g / 8u * 4u & 15u;
            s.s[h] = int(low | (byte_of(r, u, 104u + g % 4u) >> g / 4u * 2u & 3u) << 4) - 32;
        }
    } else if (TYPE == Q6_K) {
        s.d[0] = half_to_float(short_of(r, u, 208u));
        for (uint h = 0u; h < 2u; h++) {
            uint g = 2u * j + h;
            s.s[h] = bitfieldExtract(int(word_of(r, u, 48u + g / 4u)), int(g % 4u) * 8, 8);
        }
    } else if (TYPE == IQ4_XS) {
        uint head = word_of(r, u, 0u);
        s.d[0] = half_to_float(head & 0xffffu);
        s.s[0] = s.s[1] = int(byte_of(r, u, 4u + j / 2u) >> j % 2u * 4u & 15u | (head >> 16u + 2u * j & 3u) << 4) - 32;
    } else if (TYPE == IQ3_S) {
        s.d[0] = half_to_float(word_of(r, u, 0u));
        s.s[0] = s.s[1] = 1 + 2 * int(word_of(r, u, 27u) >> 4u * j & 15u);
    }
    return s;
}

Scales scales_of(Row r, uint part)
{
    if (LARGE) return scales_of_large(r, part / 8u, part % 8u);
    return scales_of_small(r, part);
}

#ifdef GRID_AT
// Entry i of the vectors that codes of the type stand for: 16 bits each.
uint grid_of(uint i) { return uint(Halves(call.at[GRID_AT]).v[i]); }
#else
uint grid_of(uint i) { return 0u; }
#endif

// Nibbles of 16 bytes from word `first` on, the low ones first.
void nibbles_of(Row r, uint u, uint first, out uint c[8])
{
    for (uint i = 0u; i < 4u; i++) {
        uint codes = word_of(r, u, first + i);
        c[i] = codes & 0x0f0f0f0fu;
        c[4u + i] = codes >> 4 & 0x0f0f0f0fu;
    }
}

// Codes of blocks of 32 and 64 columns.
void codes_of_small(Row r, uint part, out uint c[8])
{
    uint u = part / unit_parts();
    if (TYPE == NVFP4) {
        for (uint i = 0u; i < 8u; i++) // of each 16 columns 8 bytes
            c[i] = word_of(r, u, 1u + part % 2u * 4u + i / 4u * 2u + i % 2u) >> i / 2u % 2u * 4u & 0x0f0f0f0fu;
    } else if (TYPE == Q2_0) {
        for (uint i = 0u; i < 8u; i++) c[i] = spread_pairs(byte_of(r, u, 4u + part % 2u * 8u + i));
    } else if (TYPE == Q5_0 || TYPE == Q5_1) {
        uint fifth = word_of(r, u, 1u);
        nibbles_of(r, u, 2u, c);
        for (uint i = 0u; i < 8u; i++) c[i] |= spread_bits(fifth >> 4u * i) << 4;
    } else {
        nibbles_of(r, u, 1u, c);
    }
}

// Four columns of iq3_s: sizes 1, 3 ... 15 by the vector's nibbles, and signs.
int signed_odds(uint vector, uint signs)
{
    uint size = (vector | vector << 8) & 0x00ff00ffu;
    size = ((size | size << 4) & 0x0f0f0f0fu) * 2u + 0x01010101u;
    uint negative = spread_bits(signs) * 255u;
    return int((size ^ negative) + (negative & 0x01010101u));
}

// Codes of the j-th 32 of a block of 256.
void codes_of_large(Row r, uint u, uint j, out uint c[8])
{
    for (uint i = 0u; i < 8u; i++) {
        if (TYPE == Q4_K || TYPE == Q5_K) {
            uint first = TYPE == Q5_K ? 12u : 4u;
            uint low = word_of(r, u, first + j / 2u * 8u + i) >> j % 2u * 4u & 0x0f0f0f0fu;
            c[i] = TYPE == Q5_K ? low | (word_of(r, u, 4u + i) >> j & 0x01010101u) << 4 : low;
        } else if (TYPE == Q6_K) {
            uint h = j / 4u, q = j % 4u;
            uint low = word_of(r, u, h * 16u + (q & 1u) * 8u + i) >> q / 2u * 4u & 0x0f0f0f0fu;
            c[i] = low | (word_of(r, u, 32u + h * 8u + i) >> 2u * q & 0x03030303u) << 4;
        } else if (TYPE == IQ4_XS) {
            c[i] = word_of(r, u, 2u + 4u * j + i % 4u) >> i / 4u * 4u & 0x0f0f0f0fu;
        } else { // two bits: tq2_0, q2_k, q3_k
            uint first = TYPE == TQ2_0 ? 0u : TYPE == Q2_K ? 4u : 8u;
            c[i] = word_of(r, u, first + j / 4u * 8u + i) >> j % 4u * 2u & 0x03030303u;
            if (TYPE == Q3_K) c[i] |= (word_of(r, u, i) >> j & 0x01010101u) << 2;
        }
    }
}

// Columns 32 part .. 32 part + 31 of a row of a block type that has codes, less their middle, as signed bytes, 4 a word.
void codes_of(Row r, uint part, out int c[8])
{
    uint codes[8];
    if (TYPE == Q8_0) {
        for (uint i = 0u; i < 8u; i++) c[i] = int(word_of(r, part, 1u + i));
        return;
    }
    if (TYPE == IQ3_S) {
        uint u = part / 8u, j = part % 8u, high = byte_of(r, u, 68u + j);
        for (uint i = 0u; i < 8u; i++) {
            uint vector = grid_of(byte_of(r, u, 4u + 8u * j + i) | (high >> i & 1u) << 8);
            c[i] = signed_odds(vector, byte_of(r, u, 76u + 4u * j + i / 2u) >> i % 2u * 4u);
        }
        return;
    }
    if (LARGE)
        codes_of_large(r, part / 8u, part % 8u, codes);
    else
        codes_of_small(r, part, codes);
    const uint middle = MINIMA ? uint(MIDDLE) : TYPE == Q4_0 ? 8u : TYPE == Q5_0 ? 16u : TYPE == Q6_K ? 32u
                      : TYPE == Q3_K ? 4u : 1u;
    for (uint i = 0u; i < 8u; i++) {
        if (TABLED)
            c[i] = look_up(codes[i]);
        else
            c[i] = less(codes[i], middle);
    }
}

// Bits that a sum of codes times bytes has beyond 16, by the largest code, and log2 of the unit of minima in that of
// scales: zt_pack_dot_shift and zt_pack_min_shift of the cpu engine.
uint most_code()
{
    if (TYPE == Q8_0 || TYPE == IQ4_NL || TYPE == IQ4_XS) return 128u;
    if (TYPE == Q6_K) return 32u;
    if (TYPE == Q5_0 || TYPE == Q5_1 || TYPE == Q5_K) return 16u;
    if (TYPE == IQ3_S) return 15u;
    if (TYPE == MXFP4 || TYPE == NVFP4) return 12u;
    if (TYPE == Q4_0 || TYPE == Q4_1 || TYPE == Q4_K) return 8u;
    if (TYPE == Q3_K) return 4u;
    return 2u;
}
uint dot_shift()
{
    uint sum = most_code() * 127u * (HALVES ? 16u : 32u);
    return uint(sum >> 15 > 0u) + uint(sum >> 16 > 0u) + uint(sum >> 17 > 0u) + uint(sum >> 18 > 0u);
}
uint least_shift() { return dot_shift() + (HALVES ? 0u : 3u); }

// ---- values ---------------------------------------------------------------------------------------------------------

// Eight signs of which seven are kept: their number is even.
uint even_signs(uint seven) { return seven & 127u | (uint(bitCount(seven & 127u)) & 1u) << 7; }

float signed_number(float size, uint signs, uint k) { return (signs >> k & 1u) != 0u ? -size : size; }

// Digit k of a byte of tq1_0.
float trit(uint q, uint k)
{
    const uint powers[] = {1u, 3u, 9u, 27u, 81u};
    return float(int((q * powers[k] & 255u) * 3u >> 8) - 1);
}

// iq2: eight columns of sizes 8, 25, 43 by two bits each.
void iq2_values(uint vector, uint signs, float scale, uint first, inout float v[32])
{
    for (uint k = 0u; k < 8u; k++) {
        uint code = vector >> 2u * k & 3u;
        precise float y = scale * signed_number(float(8u + code * 17u + (code >> 1)), signs, k);
        v[first + k] = y;
    }
}

// The 32 columns of part j of a block of 256 whose codes stand for vectors.
void grid_values(Row r, uint u, uint j, inout float v[32])
{
    precise float d = half_to_float(word_of(r, u, 0u) & 0xffffu), scale;
    for (uint q = 0u; q < 4u; q++) {
        uint k = 4u * j + q;
        if (TYPE == IQ2_XXS) {
            uint rest = word_of(r, u, 2u + 2u * j);
            scale = d * (0.5 + float(rest >> 28)) * 0.25;
            iq2_values(grid_of(byte_of(r, u, 4u + 8u * j + q)), even_signs(rest >> 7u * q), scale, 8u * q, v);
        } else if (TYPE == IQ2_XS) {
            uint code = short_of(r, u, 4u + 2u * k);
            scale = d * (0.5 + float(byte_of(r, u, 68u + j) >> q / 2u * 4u & 15u)) * 0.25;
            iq2_values(grid_of(code & 511u), even_signs(code >> 9), scale, 8u * q, v);
        } else if (TYPE == IQ2_S) {
            uint code = byte_of(r, u, 4u + k) | (byte_of(r, u, 68u + j) >> 2u * q & 3u) << 8;
            scale = d * (0.5 + float(byte_of(r, u, 76u + j) >> q / 2u * 4u & 15u)) * 0.25;
            iq2_values(grid_of(code), byte_of(r, u, 36u + k), scale, 8u * q, v);
        } else if (TYPE == IQ3_XXS) {
            uint rest = word_of(r, u, 17u + j), signs = even_signs(rest >> 7u * q);
            scale = d * (0.5 + float(rest >> 28)) * 0.5;
            for (uint i = 0u; i < 8u; i++) {
                uint code = grid_of(byte_of(r, u, 4u + 8u * j + 2u * q + i / 4u)) >> i % 4u * 4u & 15u;
                precise float y = scale * signed_number(float(4u + code * 8u + (code == 7u ? 2u : 0u)), signs, i);
                v[8u * q + i] = y;
            }
        } else {
            uint high, vector;
            if (TYPE == IQ1_S) {
                high = short_of(r, u, 36u + 2u * j);
                vector = grid_of(byte_of(r, u, 4u + k) | (high >> 3u * q & 7u) << 8);
                scale = d * float(2u * (high >> 12 & 7u) + 1u);
                high >>= 12;
            } else {
                uint half_d = 0u;
                for (uint w = 0u; w < 4u; w++) half_d |= short_of(r, u, 48u + 2u * w) >> 12 << 4u * w;
                high = byte_of(r, u, 32u + k / 2u) >> k % 2u * 4u & 15u;
                vector = grid_of(byte_of(r, u, k) | (high & 7u) << 8);
                scale = half_to_float(half_d) *
                        float(2u * (short_of(r, u, 48u + k / 8u * 2u) >> k / 2u % 4u * 3u & 7u) + 1u);
            }
            float middle = (high & 8u) != 0u ? -1.125 : -0.875;
            for (uint i = 0u; i < 8u; i++) {
                precise float y = scale * (float(vector >> 2u * i & 3u) + middle);
                v[8u * q + i] = y;
            }
        }
    }
}

void decoded_values(Row r, uint part, inout float v[32])
{
    if (TYPE == Q1_0) {
        uint u = part / 4u, bits = word_of(r, u, 1u + part % 4u);
        float d = half_to_float(word_of(r, u, 0u));
        for (uint k = 0u; k < 32u; k++) v[k] = (bits >> k & 1u) != 0u ? d : -d;
    } else if (TYPE == TQ1_0) {
        uint u = part / 8u;
        float d = half_to_float(short_of(r, u, 52u));
        for (uint k = 0u; k < 32u; k++) {
            uint e = part % 8u * 32u + k;
            uint q = byte_of(r, u, e < 160u ? e % 32u : e < 240u ? 32u + (e - 160u) % 16u : 48u + (e - 240u) % 4u);
            precise float y = trit(q, e < 160u ? e / 32u : e < 240u ? (e - 160u) / 16u : (e - 240u) / 4u) * d;
            v[k] = y;
        }
    } else {
        grid_values(r, part / 8u, part % 8u, v);
    }
}

// The same columns of any type as numbers; of plain types past the last column 0.
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
    } else if (DECODED) {
        decoded_values(r, part, v);
    } else {
        int c[8];
        Scales s = scales_of(r, part);
        codes_of(r, part, c);
        for (uint i = 0u; i < 8u; i++) {
            precise float by = scale_of(s, i / 4u), least = MINIMA ? least_of(s, i / 4u) : 0.0;
            for (int k = 0; k < 4; k++) {
                precise float y = float(bitfieldExtract(c[i], 8 * k, 8) + MIDDLE) * by;
                if (MINIMA) y = y + least;
                v[4u * i + k] = y;
            }
        }
    }
}
