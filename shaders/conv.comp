// conv.comp - convolution, to its result, its data or its filter, as a product of matrices whose
// elements are found as they are loaded; a tile of a group's product a workgroup. large [N,B,in], small
// [N,A,out], w [A,B/groups,taps]:
//   KIND 0, the result   rows: filters    columns: sample, small element   k: channel, tap
//        1, the data     rows: channels   columns: sample, large element   k: filter, tap
//        2, the filter   rows: filters    columns: channel, tap            k: sample, small element
// Operands: w (2: small), large (1: small), bias or none, the window's table, y. word: N, A, B, groups,
// k of a part, parts, workgroups. Of several parts y is f32, [part, element].
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#define DEEP 16u
#include "tiles.glsl"
#define WINDOW_AT 3u
#include "window.glsl"

layout(constant_id = 0) const uint KIND = 0u;
const uint RESULT = 0u, DATA = 1u, FILTER = 2u;

uint A_each, B_each, taps, n_in, n_out, group, first_a, first_b; // channels of a group; its first

uint rows() { return KIND == DATA ? B_each : A_each; }
uint columns()
{
    return KIND == FILTER ? B_each * taps : call.word[0] * (KIND == RESULT ? n_out : n_in);
}
uint depth()
{
    return KIND == FILTER ? call.word[0] * n_out : (KIND == RESULT ? B_each : A_each) * taps;
}

// What stays the same along a column of the right matrix.
struct Column {
    Start start;
    uint base;
};

Column column_of(uint j)
{
    Column c;
    if (KIND == RESULT) {
        c.start = start_of_small(j % n_out);
        c.base = (j / n_out * call.word[2] + first_b) * n_in;
    } else if (KIND == DATA) {
        c.start = start_of_large(j % n_in);
        c.base = (j / n_in * call.word[1] + first_a) * n_out;
    } else {
        for (uint d = 0u; d < DIMS; d++) c.start.at[d] = reach(j % taps, d) - pad(d);
        c.base = (first_b + j / taps) * n_in;
    }
    return c;
}

// A place along k, which moves on without a division: channel or filter and tap; sample and small
// element, of which the dimensions are known too.
struct Depth {
    uint outer, inner;
    int at[8]; // of DIMS
};

Depth depth_of(uint k)
{
    uint size = KIND == FILTER ? n_out : taps;
    Depth p;
    p.outer = size > 0u ? k / size : 0u;
    p.inner = size > 0u ? k % size : 0u;
    uint o = p.inner;
    if (KIND == FILTER && size > 0u)
        for (uint d = DIMS; d-- > 0u;) {
            uint width = uint(size_small(d));
            p.at[d] = int(o % width);
            o /= width;
        }
    return p;
}

void move_on(inout Depth p, uint by)
{
    uint size = KIND == FILTER ? n_out : taps;
    p.inner += by;
    while (p.inner >= size) {
        p.inner -= size;
        p.outer++;
    }
    if (KIND != FILTER) return;
    p.at[DIMS - 1u] += int(by);
    for (uint d = DIMS - 1u; d > 0u; d--)
        while (p.at[d] >= size_small(d)) {
            p.at[d] -= size_small(d);
            p.at[d - 1u]++;
        }
    while (p.at[0] >= size_small(0u)) p.at[0] -= size_small(0u);
}

real right_at(const Column c, const Depth p)
{
    if (KIND == DATA) {
        int o = small_at(c.start, p.inner);
        return o < 0 ? 0.0 : get(1u, c.base + p.outer * n_out + uint(o));
    }
    if (KIND == RESULT) {
        int i = large_at(c.start, p.inner);
        return i < 0 ? 0.0 : get(1u, c.base + p.outer * n_in + uint(i));
    }
    int at = 0;
    bool inside = true;
    for (uint d = 0u; d < DIMS; d++) {
        int i = c.start.at[d] + p.at[d] * stride(d), size = size_large(d);
        inside = inside && i >= 0 && i < size;
        at = at * size + i;
    }
    return inside ? get(1u, c.base + p.outer * call.word[2] * n_in + uint(at)) : 0.0;
}

real left_at(uint m, uint k, const Depth p)
{
    if (KIND == RESULT) return get(0u, (first_a + m) * B_each * taps + k);
    if (KIND == DATA) return get(0u, ((first_a + p.outer) * B_each + m) * taps + p.inner);
    return get(0u, (p.outer * call.word[1] + first_a + m) * n_out + p.inner);
}

uint place_of(uint m, uint j)
{
    if (KIND == RESULT) return (j / n_out * call.word[1] + first_a + m) * n_out + j % n_out;
    if (KIND == DATA) return (j / n_in * call.word[2] + first_b + m) * n_in + j % n_in;
    return (first_a + m) * B_each * taps + j;
}

void store_sums(uint m0, uint j0, uint part)
{
    for (uint r = 0u; r < ROWS; r++) {
        uint m = m0 + own_row() + r;
        if (m >= rows()) return;
        real bias = there(2u) ? get(2u, (KIND == DATA ? first_b : first_a) + m) : 0.0;
        for (uint c = 0u; c < 4u; c++) {
            uint j = j0 + own_column() + 16u * c;
            if (j >= columns()) continue;
            precise real y = sums[r * 4u + c] + bias;
            if (call.word[5] > 1u)
                Reals(call.at[4]).v[part * call.word[1] * B_each * taps + place_of(m, j)] = y;
            else
                put(4u, place_of(m, j), y);
        }
    }
}

void main()
{
    uint index = row_of_group(), groups = call.word[3], i = gl_LocalInvocationID.x;
    if (index >= call.word[6]) return;
    A_each = call.word[1] / groups;
    B_each = call.word[2] / groups;
    taps = tap_count();
    n_in = n_large();
    n_out = n_small();
    uint tiles_m = (rows() + TILE_N - 1u) / TILE_N, tiles_j = (columns() + TILE_M - 1u) / TILE_M;
    uint j0 = index % tiles_j * TILE_M, m0 = index / tiles_j % tiles_m * TILE_N;
    group = index / tiles_j / tiles_m % groups;
    uint part = index / tiles_j / tiles_m / groups, from = part * call.word[4];
    uint to = min(from + call.word[4], depth());
    first_a = group * A_each;
    first_b = group * B_each;
    clear_sums();
    uint across = i % TILE_M, own_k = i / TILE_M;
    bool any = j0 + across < columns() && from < to;
    Column column = column_of(any ? j0 + across : 0u);
    Depth place = depth_of(from < to ? from + own_k : 0u);
    for (uint k0 = from; k0 < to; k0 += DEEP) {
        for (uint k = own_k; k < DEEP; k += THREADS / TILE_M) {
            bool inside = k0 + k < to;
            right[k * RIGHT_STEP + across] = inside && any ? right_at(column, place) : 0.0;
            for (uint m = across; m < TILE_N; m += TILE_M)
                left[k * LEFT_STEP + m] = inside && m0 + m < rows() ? left_at(m0 + m, k0 + k, place) : 0.0;
            move_on(place, THREADS / TILE_M);
        }
        barrier();
        if (m0 + own_row() < rows()) add_products();
        barrier();
    }
    store_sums(m0, j0, part);
}
