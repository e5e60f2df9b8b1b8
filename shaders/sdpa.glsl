// sdpa.glsl - what dense attention and its gradient share. Rows are those of one side (queries, or in the
// gradient of keys and values keys), columns those of the other: tiles of TILE_ROWS by 32 pairs, whose sums
// over the numbers of a row are made 32 at a time through shared memory. Invocation i has R rows of a tile
// from i / 16 * R on, columns i % 16 and 16 more. The shader defines TABLE, the address of the table
// (lib/engine/vulkan/sdpa.c), and MASK_AT and LENGTHS, the mask's operand and the address of the lengths.
#extension GL_EXT_control_flow_attributes : require
layout(constant_id = 0) const uint R = 8u;
layout(constant_id = 1) const uint CHUNKS = 4u; // 16 columns of a row each, of all that it may have
layout(local_size_x = 64) in;

const uint TILE = 32u, TILE_ROWS = 4u * R, STEP = TILE + 1u;
#define LOWEST uintBitsToFloat(0xff800000u) // minus infinity
shared real row_tile[TILE_ROWS * STEP], column_tile[TILE * STEP], weight[TILE_ROWS * STEP];

int setting(uint i) { return Ints(TABLE).v[i]; }
uint heads() { return uint(setting(0u)); }
uint key_heads() { return uint(setting(1u)); }
uint n_queries() { return uint(setting(2u)); }
uint n_keys() { return uint(setting(3u)); }
uint width() { return uint(setting(4u)); }  // columns of q and k
uint value_width() { return uint(setting(5u)); } // of v and y
int low() { return setting(6u); }  // keys from query + low to query + high are seen
int high() { return setting(7u); }
#ifdef IN_F64
double setting_f64(uint i) { return packDouble2x32(uvec2(setting(i), setting(i + 1u))); }
double scale() { return setting_f64(28u); }
double softcap() { return setting_f64(30u); }
#else
float scale() { return intBitsToFloat(setting(8u)); }
float softcap() { return intBitsToFloat(setting(9u)); }
#endif
bool from_end() { return setting(10u) != 0; }
uint mask_kind() { return uint(setting(11u)); } // 0 none, 1 bool, 2 of q's type
uint mask_step(uint d) { return uint(setting(12u + d)); }
// Of q, k, v, y: elements from one batch, head, row to the next.
uint row_step(uint side) { return uint(setting(18u + 3u * side)); }
uint head_at(uint side, uint batch, uint head)
{
    return batch * uint(setting(16u + 3u * side)) + head * uint(setting(17u + 3u * side));
}

uint own_row() { return gl_LocalInvocationID.x / 16u * R; }
uint own_column() { return gl_LocalInvocationID.x % 16u; }

// Keys of a batch that there are; a length out of range is trouble, and none.
uint keys_of(uint batch)
{
    if ((LENGTHS.x | LENGTHS.y) == 0u) return n_keys();
    int n = Ints(LENGTHS).v[batch];
    if (n >= 0 && n <= int(n_keys())) return uint(n);
    if (gl_LocalInvocationID.x == 0u) trouble(BAD_LENGTH, n, int(n_keys()) + 1, batch, 0u);
    return 0u;
}

// Where query i sees its own place among n keys.
int place_of(uint i, uint n) { return int(i) + (from_end() ? int(n) - int(n_queries()) : 0); }

bool sees(uint i, uint j, uint n)
{
    int p = place_of(i, n);
    return i < n_queries() && j < n && int(j) >= p + low() && int(j) <= p + high();
}

real cap_of(real s) { return softcap() > 0.0 ? softcap() * tanh_of(s / softcap()) : s; }

// A score with the mask, LOWEST where that hides it.
real masked(uint batch, uint head, uint i, uint j, real s)
{
    if (mask_kind() == 0u) return s;
    uint at = batch * mask_step(0u) + head * mask_step(1u) + i * mask_step(2u) + j * mask_step(3u);
    if (mask_kind() == 1u) return uint(Bytes(call.at[MASK_AT]).v[at]) != 0u ? s : LOWEST;
    precise real more = get(MASK_AT, at), sum = s + more;
    return more == LOWEST ? more : sum;
}

// Where pair e of a tile is.
uint place_in_tile(uint e) { return e / TILE * STEP + e % TILE; }

// Columns from c0 on of rows from `first` on of a head that begins at `at`; what is outside is 0.
real number_at(uint k, uint at, uint step, uint row, uint rows, uint c, uint columns)
{
    return row < rows && c < columns ? get(k, at + row * step + c) : 0.0;
}

void bring_rows(uint k, uint at, uint step, uint first, uint rows, uint c0, uint columns)
{
    [[dont_unroll]] for (uint e = gl_LocalInvocationID.x; e < TILE_ROWS * TILE; e += 64u)
        row_tile[place_in_tile(e)] =
            number_at(k, at, step, first + e / TILE, rows, c0 + e % TILE, columns);
}

void bring_columns(uint k, uint at, uint step, uint first, uint rows, uint c0, uint columns)
{
    [[dont_unroll]] for (uint e = gl_LocalInvocationID.x; e < TILE * TILE; e += 64u)
        column_tile[place_in_tile(e)] =
            number_at(k, at, step, first + e / TILE, rows, c0 + e % TILE, columns);
}

// Sums of the own pairs, R by 2, and those over the numbers that were brought added to them.
real dots[R * 2u];

void clear_dots()
{
    for (uint e = 0u; e < R * 2u; e++) dots[e] = 0.0;
}

void store_dots()
{
    for (uint r = 0u; r < R; r++)
        for (uint c = 0u; c < 2u; c++) weight[(own_row() + r) * STEP + own_column() + 16u * c] = dots[r * 2u + c];
}

void add_dots()
{
    uint row = own_row(), column = own_column();
    [[dont_unroll]] for (uint k = 0u; k < TILE; k++) {
        real v[2] = real[2](column_tile[column * STEP + k], column_tile[(column + 16u) * STEP + k]);
        for (uint r = 0u; r < R; r++) {
            real u = row_tile[(row + r) * STEP + k];
            for (uint c = 0u; c < 2u; c++) {
                precise real s = fma(u, v[c], dots[r * 2u + c]);
                dots[r * 2u + c] = s;
            }
        }
    }
}
