// sdpa.comp - dense attention with masks and windows: TILE_ROWS queries of one head a workgroup, keys in
// tiles of 32 at absolute places, softmax as it goes (online), so that never all scores are held. Operands:
// q, k, v, mask, y, the table, lengths; behind word, lse. word: 2 workgroups.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "math.glsl"
#include "values.glsl"
#define TABLE call.at[5]
#define LENGTHS call.at[6]
#define MASK_AT 3u
#include "sdpa.glsl"

const uint Q = 0u, K = 1u, V = 2u, Y = 3u; // sides of the table
const real HIDDEN = -1.0;                  // the weight of a pair that is not seen

shared real top[TILE_ROWS], shrink[TILE_ROWS], total[TILE_ROWS];
real acc[R * CHUNKS];

uint i0, batch, head, shared_head, n; // n: keys that there are

// Scores of the tile of keys from j0 on, LOWEST where they are not seen, to `weight`.
void make_scores(uint j0)
{
    clear_dots();
    barrier();
    for (uint c0 = 0u; c0 < width(); c0 += TILE) {
        barrier();
        bring_rows(0u, head_at(Q, batch, head), row_step(Q), i0, n_queries(), c0, width());
        bring_columns(1u, head_at(K, batch, shared_head), row_step(K), j0, n_keys(), c0, width());
        barrier();
        add_dots();
    }
    store_dots();
    barrier();
    [[dont_unroll]] for (uint e = gl_LocalInvocationID.x; e < TILE_ROWS * TILE; e += 64u) {
        uint i = i0 + e / TILE, j = j0 + e % TILE, at = place_in_tile(e);
        precise real s = weight[at] * scale();
        weight[at] = sees(i, j, n) ? masked(batch, head, i, j, cap_of(s)) : LOWEST;
    }
}

// The largest score so far of each row, a NaN above all; and from scores to weights.
void make_weights()
{
    uint row = gl_LocalInvocationID.x;
    barrier();
    if (row < TILE_ROWS) {
        real was = top[row], now = was;
        [[dont_unroll]] for (uint j = 0u; j < TILE; j++) {
            real s = weight[row * STEP + j];
            if (s > now || isnan(s)) now = s;
        }
        top[row] = now;
        shrink[row] = was == now ? 1.0 : exp_of(was - now);
    }
    barrier();
    [[dont_unroll]] for (uint e = gl_LocalInvocationID.x; e < TILE_ROWS * TILE; e += 64u) {
        precise real s = weight[place_in_tile(e)], below = s - top[e / TILE];
        weight[place_in_tile(e)] = s == LOWEST ? HIDDEN : exp_of(below);
    }
    barrier();
    if (row >= TILE_ROWS) return;
    precise real sum = total[row] * shrink[row];
    [[dont_unroll]] for (uint j = 0u; j < TILE; j++) {
        real p = weight[row * STEP + j];
        if (p != HIDDEN) sum += p;
    }
    total[row] = sum;
}

// What the tile adds to the own columns of y.
void add_values(uint j0)
{
    for (uint e = 0u; e < R * CHUNKS; e++) acc[e] *= shrink[own_row() + e / CHUNKS];
    for (uint part = 0u; part < CHUNKS / 2u; part++) {
        if (part * TILE >= value_width()) break;
        barrier();
        bring_columns(2u, head_at(V, batch, shared_head), row_step(V), j0, n_keys(), part * TILE, value_width());
        barrier();
        [[dont_unroll]] for (uint j = 0u; j < TILE; j++) {
            real v[2] = real[2](column_tile[j * STEP + own_column()], column_tile[j * STEP + own_column() + 16u]);
            for (uint r = 0u; r < R; r++) {
                real p = weight[(own_row() + r) * STEP + j];
                for (uint c = 0u; c < 2u; c++) {
                    uint e = r * CHUNKS + part * 2u + c;
                    precise real a = fma(p, v[c], acc[e]);
                    acc[e] = p == HIDDEN ? acc[e] : a;
                }
            }
        }
    }
}

void main()
{
    uint group = row_of_group(), blocks = (n_queries() + TILE_ROWS - 1u) / TILE_ROWS;
    if (group >= call.word[2]) return;
    i0 = group % blocks * TILE_ROWS;
    head = group / blocks % heads();
    batch = group / blocks / heads();
    shared_head = head / (heads() / key_heads());
    n = keys_of(batch);
    for (uint e = 0u; e < R * CHUNKS; e++) acc[e] = 0.0;
    if (gl_LocalInvocationID.x < TILE_ROWS) {
        top[gl_LocalInvocationID.x] = LOWEST;
        total[gl_LocalInvocationID.x] = 0.0;
    }
    int from = max(place_of(i0, n) + low(), 0) / int(TILE) * int(TILE);
    int to = min(place_of(i0 + TILE_ROWS - 1u, n) + high() + 1, int(n));
    for (int j0 = from; j0 < to; j0 += int(TILE)) {
        make_scores(uint(j0));
        make_weights();
        add_values(uint(j0));
    }
    barrier();
    for (uint r = 0u; r < R; r++) {
        uint row = own_row() + r, i = i0 + row;
        if (i >= n_queries()) break;
        bool none = top[row] == LOWEST;
        for (uint c = 0u; c < CHUNKS; c++) {
            uint column = c * 16u + own_column();
            precise real y = none ? 0.0 : acc[r * CHUNKS + c] / total[row];
            if (column < value_width()) put(4u, head_at(Y, batch, head) + i * row_step(Y) + column, y);
        }
        uvec2 lse = uvec2(call.word[0], call.word[1]);
        precise real sum = none ? LOWEST : top[row] + log_of(total[row]);
        if ((lse.x | lse.y) != 0u && own_column() == 0u)
            Reals(lse).v[(batch * heads() + head) * n_queries() + i] = sum;
    }
}
