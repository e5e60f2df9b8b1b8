// slots.glsl - which row of a cache holds position p of row t's sequence (lib/ops/row.h, zt_slots). Errors of a row come in the order
// position, sequence, then blocks from the first on.

int slot_of(uint seq_at, uint table_at, uint first_word, uint t, int p)
{
    int ctx = whole(first_word), S = whole(first_word + 1u), B = whole(first_word + 2u);
    int block = whole(first_word + 3u), seq = there(seq_at) ? Ints(call.at[seq_at]).v[t] : 0;
    if (p < 0 || p >= ctx) {
        trouble(BAD_POSITION, p, ctx, t, 0u);
        return -1;
    }
    if (seq < 0 || seq >= S) {
        trouble(BAD_SEQUENCE, seq, S, t, 0u);
        return -1;
    }
    if (!there(table_at)) return p;
    int b = Ints(call.at[table_at]).v[seq * B + p / block];
    if (b < 0 || b >= B) {
        trouble(BAD_BLOCK, b, B, t, uint(p / block) + 1u);
        return -1;
    }
    return b * block + p % block;
}
