// window.glsl - the windows of convolution and pooling (lib/ops/window.h), from the table that
// lib/engine/vulkan/window.c writes, operand WINDOW_AT. Its words: elements of the large value and of
// the small one, taps; then of DIMS dimensions the sizes of the large value, of the small one, strides,
// paddings before and behind, sizes of the kernel and dilations; then of each tap k * dilation along
// each dimension.
layout(constant_id = 3) const uint DIMS = 3u;

int window_word(uint i) { return Ints(call.at[WINDOW_AT]).v[i]; }
uint n_large() { return uint(window_word(0u)); }
uint n_small() { return uint(window_word(1u)); }
uint tap_count() { return uint(window_word(2u)); }
int size_large(uint d) { return window_word(3u + d); }
int size_small(uint d) { return window_word(3u + DIMS + d); }
int stride(uint d) { return window_word(3u + 2u * DIMS + d); }
int pad(uint d) { return window_word(3u + 3u * DIMS + d); }
int pad_end(uint d) { return window_word(3u + 4u * DIMS + d); }
int kernel_size(uint d) { return window_word(3u + 5u * DIMS + d); }
int dilation(uint d) { return window_word(3u + 6u * DIMS + d); }
int reach(uint tap, uint d) { return window_word(3u + 7u * DIMS + tap * DIMS + d); }

// Where the windows of one element begin: of a small one, tap 0 in the large value; of a large one, its
// own place behind the padding.
struct Start {
    int at[8]; // of DIMS
};

Start start_of_small(uint o)
{
    Start s;
    for (uint d = DIMS; d-- > 0u;) {
        uint size = uint(size_small(d));
        s.at[d] = int(o % size) * stride(d) - pad(d);
        o /= size;
    }
    return s;
}

Start start_of_large(uint i)
{
    Start s;
    for (uint d = DIMS; d-- > 0u;) {
        uint size = uint(size_large(d));
        s.at[d] = int(i % size) + pad(d);
        i /= size;
    }
    return s;
}

// Where tap `tap` of a small element is in the large value; -1: outside.
int large_at(const Start s, uint tap)
{
    int at = 0;
    bool inside = true;
    for (uint d = 0u; d < DIMS; d++) {
        int i = s.at[d] + reach(tap, d), size = size_large(d);
        inside = inside && i >= 0 && i < size;
        at = at * size + i;
    }
    return inside ? at : -1;
}

// Whose tap `tap` a large element is; -1: of none.
int small_at(const Start s, uint tap)
{
    int at = 0;
    bool inside = true;
    for (uint d = 0u; d < DIMS; d++) {
        int from = s.at[d] - reach(tap, d), size = size_small(d), by = stride(d), o = from;
        if (by != 1) {
            o = from / by;
            inside = inside && o * by == from;
        }
        inside = inside && from >= 0 && o < size;
        at = at * size + o;
    }
    return inside ? at : -1;
}

// How many taps of window o meet the large value, or (`padded`) it and its padding.
uint cells_of(uint o, bool padded)
{
    uint cells = 1u;
    Start s = start_of_small(o);
    for (uint d = 0u; d < DIMS; d++) {
        int low = padded ? -pad(d) : 0, high = size_large(d) + (padded ? pad_end(d) : 0);
        uint inside = 0u;
        for (int k = 0; k < kernel_size(d); k++) {
            int i = s.at[d] + k * dilation(d);
            if (i >= low && i < high) inside++;
        }
        cells *= inside;
    }
    return cells;
}
