/* persistent_kernel.cu - the kernel that stays: what would be many launches is one, whose blocks go from stage
 * to stage, with a barrier of the grid between. A stage calls what its own kernel calls, block by
 * block, so that it has the same bits.
 *
 * The next stage is read while one runs, and the weights a block begins it with are on their way
 * before it waits for the others. AMD's driver cannot launch it (docs/engines.md), so hipcc has
 * nothing to compile here.
 */
#ifndef __HIP__
#include "lib/engine/cuda/args_persistent_kernel.h"
#include "lib/engine/cuda/attention_decode.cuh"
#include "lib/engine/cuda/index_rows.cuh"
#include "lib/engine/cuda/linear_decode_plain.cuh"
#include "lib/engine/cuda/kv_cache.cuh"

enum { THREADS = 32 * SLICES };

/* The block's first block of a stage. */
FN int64_t first_of(const zt_cu_stage &s)
{
    return (block() + blocks() - s.skew % blocks()) % blocks();
}

FN void run_norm(const zt_cu_stage &s, char *memory)
{
    for (int64_t v = first_of(s); v < s.blocks; v += blocks()) {
        barrier();
        norm_row<float>(s.of.norm, v, (float *)memory);
    }
}

FN void run_gate(const zt_cu_stage &s)
{
    for (int64_t v = first_of(s); v < s.blocks; v += blocks())
        gate_at(s.of.gate, v * THREADS + thread());
}

FN void run_rope_kv_write(const zt_cu_stage &s, char *memory)
{
    for (int64_t v = first_of(s); v < s.blocks; v += blocks()) {
        barrier();
        rope_kv_write(s.of.rope_kv_write, v, (float (*)[2])memory);
    }
}

FN void run_rows(const zt_cu_stage &s, char *memory)
{
    for (int64_t v = first_of(s); v < s.blocks; v += blocks()) {
        barrier();
        if (warp() >= ROW_WARPS) continue;
        if (s.kind == ZT_CU_STAGE_ROWS)
            rows_at(s.of.rows, v % s.across, v / s.across);
        else
            packed_rows_at(s.of.rows, v % s.across, v / s.across,
                           (uint16_t (*)[MOST_HALVES + 1])memory);
    }
}

template <int D> FN void run_attention(const zt_cu_stage &s, char *memory)
{
    for (int64_t v = first_of(s); v < s.blocks; v += blocks()) {
        barrier();
        decode_rows<D, SLICES>(s.of.attention, v % s.across, v / s.across % s.up,
                            v / s.across / s.up, (decode_room<D> *)memory);
    }
}

FN void run_join(const zt_cu_stage &s)
{
    const zt_cu_attention_args &a = s.of.attention;
    for (int64_t v = first_of(s); v < s.blocks; v += blocks()) {
        const int64_t row = v % s.across, head = v / s.across;
        for (int64_t d = thread(); d < a.D; d += THREADS)
            join_columns<1>(a, row, head, d, PTR(float, a.y) + (row * a.H + head) * a.D + d);
    }
}

FN void slice_by_type(int kind, const decode_run &q, float acc[4])
{
    switch (kind) {
#define X(type)                                                                                    \
    case ZT_CU_STAGE_DECODE_##type: decode_slice<packed_##type>(q, acc); break;
        ZT_CU_PACKED_TYPES(X)
#undef X
    default: break;
    }
}

FN void run_codes(const zt_cu_stage &s, const x_room &r, int64_t v)
{
    const zt_cu_decode_args &f = s.of.decode;
    decode_codes<true>(f, r, v == 0);
    for (int half = 0; v < s.blocks; v += blocks(), half ^= 1) {
        const share tile = decode_share(f.a, v);
        float acc[4] = {0};
        slice_by_type(s.kind, run_of(f, r, tile), acc);
        decode_finish(f, r, tile, acc, half);
    }
}

FN void plain_by_type(int kind, const zt_cu_decode_args &f, const x_room &r, const share &s, int half)
{
    switch (kind) {
    case ZT_CU_STAGE_DECODE_f32: decode_plain_tile<float>(f, r, s, half); break;
    case ZT_CU_STAGE_DECODE_pair: decode_pair_tile(f, r, s, half); break;
    case ZT_CU_STAGE_DECODE_bf16: decode_plain_tile<bf16>(f, r, s, half); break;
    default: decode_half_tile(f, r, s, half);
    }
}

FN void run_plain(const zt_cu_stage &s, const x_room &r, int64_t v)
{
    const zt_cu_decode_args &f = s.of.decode;
    if (s.kind == ZT_CU_STAGE_DECODE_pair)
        decode_pairs<true>(f, r, v == 0);
    else
        decode_numbers<true>(f, r, s.kind == ZT_CU_STAGE_DECODE_half, v == 0);
    for (int half = 0; v < s.blocks; v += blocks(), half ^= 1)
        plain_by_type(s.kind, f, r, decode_share(f.a, v), half);
}

FN void run_decode(const zt_cu_stage &s, char *memory)
{
    const x_room r = room_of(s.of.decode, memory);
    const int64_t v = first_of(s);
    if (v >= s.blocks) return;
    if (s.kind < ZT_CU_STAGE_DECODE_f32)
        run_codes(s, r, v);
    else
        run_plain(s, r, v);
}

FN void run_stage(const zt_cu_stage &s, char *memory)
{
    switch (s.kind) {
    case ZT_CU_STAGE_NORM: run_norm(s, memory); break;
    case ZT_CU_STAGE_GATE: run_gate(s); break;
    case ZT_CU_STAGE_ROPE_KV_WRITE: run_rope_kv_write(s, memory); break;
    case ZT_CU_STAGE_ROWS:
    case ZT_CU_STAGE_ROWS_PACKED: run_rows(s, memory); break;
    case ZT_CU_STAGE_ATTENTION_64: run_attention<64>(s, memory); break;
    case ZT_CU_STAGE_ATTENTION_128: run_attention<128>(s, memory); break;
    case ZT_CU_STAGE_ATTENTION_256: run_attention<256>(s, memory); break;
    case ZT_CU_STAGE_JOIN: run_join(s); break;
    default: run_decode(s, memory);
    }
}

/* What the block's slices of plain rows begin with: a thread 128 bytes. */
FN void fetch_rows(const zt_cu_linear_args &a, const share &s)
{
    const int64_t slice = a.units_slice * 32 * a.block_bytes, row = s.tile * 16 + thread() / 16;
    const int64_t at = thread() % 16 / 2 * slice + thread() % 2 * 128;
    if (row < s.p->M && at < a.row_bytes)
        prefetch(PTR(const char, s.p->w) + row * a.row_bytes + at);
}

/* Of the tile that the block begins a product with, its codes. */
FN void fetch_ahead(const zt_cu_stage &s)
{
    const int64_t v = first_of(s);
    if (s.kind < ZT_CU_STAGE_DECODE_q4_0 || v >= s.blocks) return;
    const share from = decode_share(s.of.decode.a, v);
    const int64_t tile = s.of.decode.tile_bytes;
    if (s.kind >= ZT_CU_STAGE_DECODE_f32) {
        fetch_rows(s.of.decode.a, from);
        return;
    }
    for (int64_t i = (int64_t)thread() * 128; i < tile; i += THREADS * 128)
        prefetch(PTR(const char, from.p->w) + from.tile * tile + i);
}

FN void load_stage(const zt_cu_persistent_kernel_args &a, int64_t i, zt_cu_stage *to)
{
    const uint64_t *from = PTR(const uint64_t, a.stages + (zt_cu_ptr)i * sizeof(zt_cu_stage));
    for (int k = thread(); k < (int)(sizeof(zt_cu_stage) / 8); k += THREADS)
        ((uint64_t *)to)[k] = from[k];
}

KERNEL_EACH(zt_persistent_kernel, zt_cu_persistent_kernel_args, THREADS, 2)
{
    SHARED(zt_cu_stage, stage, [2]);
    DYNAMIC_SHARED(char, memory);
    load_stage(a, 0, &stage[0]);
    barrier();
    for (int64_t i = 0; i < a.n; i++) {
        if (i + 1 < a.n) load_stage(a, i + 1, &stage[(i + 1) % 2]);
        run_stage(stage[i % 2], memory);
        barrier();
        if (i + 1 == a.n) break;
        fetch_ahead(stage[(i + 1) % 2]);
        if (stage[(i + 1) % 2].waits) grid_barrier(PTR(uint32_t, a.word));
    }
}

#endif
