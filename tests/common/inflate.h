/* inflate.h - for tests: undo deflate (RFC 1951), so that golden archives need no library. */
#ifndef ZT_TEST_INFLATE_H
#define ZT_TEST_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INFLATE_FN __attribute__((unused)) static

typedef struct inflate_state {
    const uint8_t *in;
    size_t n, at;
    uint32_t bits;
    int n_bits;
    bool bad;
    uint8_t *out;
    size_t size, done;
} inflate_state;

typedef struct inflate_code { /* canonical Huffman: codes of each length, symbols in order */
    uint16_t count[16], symbol[288];
} inflate_code;

INFLATE_FN uint32_t inflate_take(inflate_state *s, int count)
{
    while (s->n_bits < count) {
        if (s->at == s->n) {
            s->bad = true;
            return 0;
        }
        s->bits |= (uint32_t)s->in[s->at++] << s->n_bits;
        s->n_bits += 8;
    }
    uint32_t v = s->bits & ((1u << count) - 1);
    s->bits >>= count;
    s->n_bits -= count;
    return v;
}

INFLATE_FN void inflate_build(inflate_code *c, const uint8_t *len, int total)
{
    uint16_t at[16] = {0};
    memset(c, 0, sizeof *c);
    for (int i = 0; i < total; i++) c->count[len[i]]++;
    c->count[0] = 0;
    for (int l = 1; l < 15; l++) at[l + 1] = (uint16_t)(at[l] + c->count[l]);
    for (int i = 0; i < total; i++) {
        if (len[i]) c->symbol[at[len[i]]++] = (uint16_t)i;
    }
}

INFLATE_FN int inflate_symbol(inflate_state *s, const inflate_code *c)
{
    int code = 0, first = 0, index = 0;
    for (int l = 1; l < 16 && !s->bad; l++) {
        code |= (int)inflate_take(s, 1);
        int total = c->count[l];
        if (code - first < total) return c->symbol[index + code - first];
        index += total;
        first = (first + total) << 1;
        code <<= 1;
    }
    s->bad = true;
    return 256;
}

INFLATE_FN void inflate_put(inflate_state *s, uint8_t byte)
{
    if (s->done == s->size)
        s->bad = true;
    else
        s->out[s->done++] = byte;
}

INFLATE_FN void inflate_copy(inflate_state *s, int symbol, const inflate_code *dist)
{
    static const uint16_t length[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                      31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint16_t base[] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    int k = symbol - 257;
    if (k > 28) {
        s->bad = true;
        return;
    }
    uint32_t count = length[k] + inflate_take(s, k < 8 || k == 28 ? 0 : (k - 4) / 4);
    int d = inflate_symbol(s, dist);
    uint32_t back = d < 30 ? base[d] + inflate_take(s, d < 2 ? 0 : d / 2 - 1) : 0;
    if (back == 0 || back > s->done) s->bad = true;
    while (!s->bad && count--) inflate_put(s, s->out[s->done - back]);
}

INFLATE_FN void inflate_block(inflate_state *s, const inflate_code *lit, const inflate_code *dist)
{
    for (int symbol; !s->bad && (symbol = inflate_symbol(s, lit)) != 256;) {
        if (symbol < 256)
            inflate_put(s, (uint8_t)symbol);
        else
            inflate_copy(s, symbol, dist);
    }
}

INFLATE_FN void inflate_stored(inflate_state *s)
{
    s->bits = 0, s->n_bits = 0;
    uint32_t n = inflate_take(s, 16);
    inflate_take(s, 16);
    while (!s->bad && n--) inflate_put(s, (uint8_t)inflate_take(s, 8));
}

INFLATE_FN void inflate_dynamic(inflate_state *s)
{
    static const uint8_t order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t len[320] = {0}, short_len[19] = {0};
    inflate_code lit, dist;
    int n_lit = (int)inflate_take(s, 5) + 257, n_dist = (int)inflate_take(s, 5) + 1;
    int n_order = (int)inflate_take(s, 4) + 4;
    for (int i = 0; i < n_order; i++) short_len[order[i]] = (uint8_t)inflate_take(s, 3);
    inflate_build(&lit, short_len, 19);
    for (int i = 0; i < n_lit + n_dist && !s->bad;) {
        int symbol = inflate_symbol(s, &lit);
        if (symbol < 16) {
            len[i++] = (uint8_t)symbol;
            continue;
        }
        uint8_t value = symbol == 16 && i > 0 ? len[i - 1] : 0;
        int count = symbol == 16   ? 3 + (int)inflate_take(s, 2)
                    : symbol == 17 ? 3 + (int)inflate_take(s, 3)
                                   : 11 + (int)inflate_take(s, 7);
        s->bad |= i + count > n_lit + n_dist;
        while (!s->bad && count--) len[i++] = value;
    }
    if (n_lit > 286) s->bad = true;
    inflate_build(&lit, len, n_lit);
    inflate_build(&dist, len + n_lit, n_dist);
    inflate_block(s, &lit, &dist);
}

INFLATE_FN void inflate_fixed(inflate_state *s)
{
    uint8_t len[288];
    inflate_code lit, dist;
    for (int i = 0; i < 288; i++) len[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    inflate_build(&lit, len, 288);
    memset(len, 5, 30);
    inflate_build(&dist, len, 30);
    inflate_block(s, &lit, &dist);
}

/* Raw deflate; true when exactly `size` bytes came out. */
INFLATE_FN bool inflate_bytes(const uint8_t *in, size_t count, uint8_t *out, size_t size)
{
    inflate_state s = {.in = in, .n = count, .out = out, .size = size};
    for (bool last = false; !last && !s.bad;) {
        last = inflate_take(&s, 1);
        uint32_t kind = inflate_take(&s, 2);
        if (kind == 0)
            inflate_stored(&s);
        else if (kind == 1)
            inflate_fixed(&s);
        else if (kind == 2)
            inflate_dynamic(&s);
        else
            s.bad = true;
    }
    return !s.bad && s.done == size;
}

#endif
