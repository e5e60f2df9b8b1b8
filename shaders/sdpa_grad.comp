// sdpa_grad.comp - the gradient of dense attention, with weights made anew from lse. KEYS 0: that of queries,
// 32 of one head a workgroup, over tiles of keys. KEYS 1: that of keys and values, 32 of one key head, over
// the queries of all heads that share it. Operands: q, k, v, dy, dq or dk, dv, mask; behind word, lse,
// delta, lengths, the table. word: 8 workgroups.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#define LENGTHS uvec2(call.word[4], call.word[5])
#define TABLE uvec2(call.word[6], call.word[7])
#define MASK_AT 6u
#include "sdpa.glsl"

layout(constant_id = 2) const uint KEYS = 0u;
const uint Q = 0u, K = 1u, V = 2u, Y = 3u; // sides of the table, and their operands
// Of the rows and of the columns of a tile: the side whose products are scores, and the other one.
const uint ROW_SIDE = KEYS != 0u ? K : Q, COLUMN_SIDE = KEYS != 0u ? Q : K;
const uint ROW_VALUE = KEYS != 0u ? V : Y, COLUMN_VALUE = KEYS != 0u ? Y : V;

real acc[R * CHUNKS], values[R * CHUNKS];
uint batch, head, shared_head, n; // n: keys that there are

uint head_of(uint side) { return head_at(side, batch, side == K || side == V ? shared_head : head); }
uint count_of(uint side) { return side == K || side == V ? n_keys() : n_queries(); }

// Products of rows from row0 on and from column0 on, into dots.
void multiply(uint row_side, uint column_side, uint row0, uint column0, uint columns)
{
    clear_dots();
    for (uint c0 = 0u; c0 < columns; c0 += TILE) {
        barrier();
        bring_rows(row_side, head_of(row_side), row_step(row_side), row0, count_of(row_side), c0, columns);
        bring_columns(column_side, head_of(column_side), row_step(column_side), column0, count_of(column_side), c0, columns);
        barrier();
        add_dots();
    }
}

// Weights of a tile's pairs to `row_tile`, gradients of their q.k to `weight`; both 0 where nothing is seen.
void make_gradients(uint row0, uint column0)
{
    barrier();
    multiply(ROW_SIDE, COLUMN_SIDE, row0, column0, width());
    store_dots();
    multiply(ROW_VALUE, COLUMN_VALUE, row0, column0, value_width());
    barrier();
    for (uint r = 0u; r < R; r++)
        for (uint c = 0u; c < 2u; c++) row_tile[(own_row() + r) * STEP + own_column() + 16u * c] = dots[r * 2u + c];
    barrier();
    Reals lse = Reals(uvec2(call.word[0], call.word[1])), delta = Reals(uvec2(call.word[2], call.word[3]));
    [[dont_unroll]] for (uint e = gl_LocalInvocationID.x; e < TILE_ROWS * TILE; e += 64u) {
        uint row = row0 + e / TILE, column = column0 + e % TILE, at = place_in_tile(e);
        uint i = KEYS != 0u ? column : row, j = KEYS != 0u ? row : column;
        uint query = (batch * heads() + head) * n_queries() + i;
        precise real capped = cap_of(weight[at] * scale()), p = 0.0, ds = 0.0;
        real s = sees(i, j, n) ? masked(batch, head, i, j, capped) : LOWEST;
        if (s != LOWEST) {
            p = exp_of(s - lse.v[query]);
            ds = p * (row_tile[at] - delta.v[query]) * scale();
            if (softcap() > 0.0) ds *= 1.0 - capped / softcap() * (capped / softcap());
        }
        row_tile[at] = p;
        weight[at] = ds;
    }
}

// What a tile's gradients add to the own columns of acc.
void add_gradients(uint column0)
{
    for (uint part = 0u; part < CHUNKS / 2u; part++) {
        if (part * TILE >= width()) break;
        barrier();
        bring_columns(COLUMN_SIDE, head_of(COLUMN_SIDE), row_step(COLUMN_SIDE), column0, count_of(COLUMN_SIDE), part * TILE, width());
        barrier();
        [[dont_unroll]] for (uint j = 0u; j < TILE; j++) {
            real v[2] = real[2](column_tile[j * STEP + own_column()], column_tile[j * STEP + own_column() + 16u]);
            for (uint r = 0u; r < R; r++) {
                real by = weight[(own_row() + r) * STEP + j];
                for (uint c = 0u; c < 2u; c++) {
                    uint e = r * CHUNKS + part * 2u + c;
                    precise real a = fma(by, v[c], acc[e]);
                    acc[e] = by == 0.0 ? acc[e] : a;
                }
            }
        }
    }
}

// The same of weights and dy.
void add_values(uint column0)
{
    for (uint part = 0u; part < CHUNKS / 2u; part++) {
        if (part * TILE >= value_width()) break;
        barrier();
        bring_columns(COLUMN_VALUE, head_of(COLUMN_VALUE), row_step(COLUMN_VALUE), column0, count_of(COLUMN_VALUE), part * TILE, value_width());
        barrier();
        [[dont_unroll]] for (uint j = 0u; j < TILE; j++) {
            real v[2] = real[2](column_tile[j * STEP + own_column()], column_tile[j * STEP + own_column() + 16u]);
            for (uint r = 0u; r < R; r++) {
                real by = row_tile[(own_row() + r) * STEP + j];
                for (uint c = 0u; c < 2u; c++) {
                    uint e = r * CHUNKS + part * 2u + c;
                    precise real a = fma(by, v[c], values[e]);
                    values[e] = by == 0.0 ? values[e] : a;
                }
            }
        }
    }
}

void over_keys(uint i0)
{
    int from = max(place_of(i0, n) + low(), 0) / int(TILE) * int(TILE);
    int to = min(place_of(i0 + TILE_ROWS - 1u, n) + high() + 1, int(n));
    for (int j0 = from; j0 < to; j0 += int(TILE)) {
        make_gradients(i0, uint(j0));
        add_gradients(uint(j0));
    }
}

void over_queries(uint j0)
{
    uint each = heads() / key_heads();
    if (j0 >= n) return;
    for (head = shared_head * each; head < (shared_head + 1u) * each; head++)
        for (uint i0 = 0u; i0 < n_queries(); i0 += TILE) {
            int last = place_of(min(i0 + TILE, n_queries()) - 1u, n);
            if (int(j0) > last + high() || int(j0 + TILE_ROWS) <= place_of(i0, n) + low()) continue;
            make_gradients(j0, i0);
            add_gradients(i0);
            add_values(i0);
        }
}

void main()
{
    uint group = row_of_group(), rows = KEYS != 0u ? n_keys() : n_queries();
    uint blocks = (rows + TILE_ROWS - 1u) / TILE_ROWS, sides = KEYS != 0u ? key_heads() : heads();
    if (group >= call.word[8]) return;
    uint first = group % blocks * TILE_ROWS;
    head = group / blocks % sides;
    batch = group / blocks / sides;
    shared_head = KEYS != 0u ? head : head / (heads() / key_heads());
    n = keys_of(batch);
    for (uint e = 0u; e < R * CHUNKS; e++) acc[e] = values[e] = 0.0;
    if (KEYS != 0u)
        over_queries(first);
    else
        over_keys(first);
    for (uint r = 0u; r < R; r++) {
        uint row = first + own_row() + r;
        if (row >= rows) break;
        for (uint c = 0u; c < CHUNKS; c++) {
            uint column = c * 16u + own_column();
            if (there(4u) && column < width()) put(4u, head_of(ROW_SIDE) + row * row_step(ROW_SIDE) + column, acc[r * CHUNKS + c]);
            if (KEYS != 0u && there(5u) && column < value_width())
                put(5u, head_of(V) + row * row_step(V) + column, values[r * CHUNKS + c]);
        }
    }
}
