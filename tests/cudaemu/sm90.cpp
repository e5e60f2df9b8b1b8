/* sm90.cpp - what compute capability 9.0 has: barriers of shared memory, copies of boxes of
 * tensors, products of a warpgroup.
 *
 * Copies and products happen as late as they may: a copy when nobody could go on without one, a
 * product when its warp waits for it. Until then no thread may touch where a copy goes, no copy may
 * go there or to what a product still reads: a missing wait is told, or leaves NaN.
 */
#include "lib/engine/cuda/prim_sm90.h"
#include "emu.h"
#include "tensormap.h"

#include <algorithm>
#include <string.h>
#include <vector>

/* ---- barriers -------------------------------------------------------------------------------- */

/* What lies in its eight bytes. */
struct mbarrier {
    uint32_t parity : 1, count : 10, missing : 10, mark : 11; /* arrivals; MARK */
    int32_t bytes;                                            /* that are to come */
};
static_assert(sizeof(mbarrier) == 8, "as a barrier is");
enum { MARK = 0x2A5 };

static bool unfenced; /* one was made that copies need not see yet */

static mbarrier *made(uint64_t *bar)
{
    emu_aligned(bar, 8);
    emu_touch_atomic(reinterpret_cast<uintptr_t>(bar), 8);
    auto *b = reinterpret_cast<mbarrier *>(bar);
    if (b->mark != MARK) emu_fail(EMU_LAUNCH_FAILED, "no mbarrier is there");
    return b;
}

static void ends(mbarrier *b)
{
    if (b->missing || b->bytes) return;
    b->parity ^= 1;
    b->missing = b->count;
    emu_wake(b);
}

void mbarrier_init(uint64_t *bar, int count)
{
    emu_aligned(bar, 8);
    emu_touch_atomic(reinterpret_cast<uintptr_t>(bar), 8);
    unfenced = true;
    *reinterpret_cast<mbarrier *>(bar) = {0, (uint32_t)count & 1023, (uint32_t)count & 1023, MARK,
                                          0};
}
void mbarrier_fence() { unfenced = false; }

void mbarrier_expect(uint64_t *bar, uint32_t bytes)
{
    made(bar)->bytes += (int32_t)bytes;
    mbarrier_arrive(bar);
}
void mbarrier_arrive(uint64_t *bar)
{
    mbarrier *b = made(bar);
    if (!b->missing) emu_fail(EMU_LAUNCH_FAILED, "more arrivals than the mbarrier counts");
    b->missing--;
    ends(b);
}
void mbarrier_wait(uint64_t *bar, uint32_t parity)
{
    while (made(bar)->parity == (parity & 1)) emu_sleep("an mbarrier", bar);
}

/* ---- copies ---------------------------------------------------------------------------------- */

struct box_copy {
    uint32_t to; /* of shared memory */
    const emu_tensor *from;
    int at[3], thread;
    uint64_t *bar;
};
static std::vector<box_copy> copies;

static uint32_t bytes_of(const emu_tensor *t) { return t->box[0] * t->box[1] * 2; }

/* One copy or product's bytes of shared memory. */
struct range {
    uint32_t from, to;
};
static bool meet(range a, range b) { return a.from < b.to && b.from < a.to; }
static range goes_to(const box_copy &c) { return {c.to, c.to + bytes_of(c.from)}; }

uint32_t shared_address(const void *p)
{
    return (uint32_t)(reinterpret_cast<uintptr_t>(p) - emu_shared_base());
}
static unsigned char *at_address(uint32_t a)
{
    return reinterpret_cast<unsigned char *>(emu_shared_base() + a);
}
/* Chunks of 16 bytes of a row of 128, mixed up by the row's number. */
static uint32_t swizzled(uint32_t a) { return a ^ (a >> 7 & 7) << 4; }

static void refuse_copied(range r, const char *does)
{
    for (const box_copy &c : copies)
        if (meet(r, goes_to(c)))
            emu_fail(
                EMU_ILLEGAL_ADDRESS,
                "%s byte %u of shared memory, where a box is on its way that nobody waited for",
                does, std::max(r.from, c.to));
}

void emu_touch_copied(uintptr_t p, size_t n)
{
    if (copies.empty()) return;
    const uint32_t at = (uint32_t)(p - emu_shared_base());
    refuse_copied({at, at + (uint32_t)n}, "touches");
}

void tensor_prefetch(const zt_cu_tensor_map *map) { emu_tensor_of(map); }

static void refuse_read(range to);

void tensor_copy(void *to, const zt_cu_tensor_map *map, int x, int y, int z, uint64_t *bar)
{
    box_copy c = {shared_address(to), emu_tensor_of(map), {x, y, z}, emu_is.thread, bar};
    made(bar);
    if (unfenced) emu_fail(EMU_LAUNCH_FAILED, "a copy before mbarrier_fence");
    if (c.to % 1024) emu_fail(EMU_ILLEGAL_ADDRESS, "a box not on 1024 bytes");
    emu_touch_atomic(reinterpret_cast<uintptr_t>(to), bytes_of(c.from));
    refuse_copied(goes_to(c), "copies over");
    refuse_read(goes_to(c));
    copies.push_back(c);
}

/* Row y of the box at c; what is outside of the tensor as zeros. */
static void copy_row(const box_copy &c, uint32_t y)
{
    const emu_tensor *t = c.from;
    const int64_t row = (int64_t)c.at[1] + y, z = c.at[2], width = t->box[0];
    const bool any = row >= 0 && row < t->size[1] && z >= 0 && z < t->size[2];
    const int64_t first = std::clamp<int64_t>(-(int64_t)c.at[0], 0, width);
    const int64_t last = any ? std::clamp<int64_t>(t->size[0] - c.at[0], first, width) : first;
    const uintptr_t from =
        t->at + (uintptr_t)(z * t->step[1] + row * t->step[0] + (c.at[0] + first) * 2);
    std::vector<uint16_t> v((size_t)width, 0);
    if (last > first) {
        emu_touch(from, (size_t)(last - first) * 2, false);
        memcpy(&v[(size_t)first], reinterpret_cast<const void *>(from), (size_t)(last - first) * 2);
    }
    for (uint32_t x = 0; x < (uint32_t)width; x++)
        memcpy(at_address(swizzled(c.to + (y * (uint32_t)width + x) * 2)), &v[x], 2);
}

bool emu_copy_box()
{
    if (copies.empty()) return false;
    const size_t i = (size_t)(emu_random() % copies.size());
    const box_copy c = copies[i];
    copies.erase(copies.begin() + (long)i);
    emu_is.thread = c.thread;
    emu_is.warp = c.thread >> 5;
    for (uint32_t y = 0; y < c.from->box[1]; y++) copy_row(c, y);
    mbarrier *b = made(c.bar);
    b->bytes -= (int32_t)bytes_of(c.from);
    ends(b);
    return true;
}

/* ---- products -------------------------------------------------------------------------------- */

enum { WARPS = EMU_THREADS / 32, WIDEST = 256 };

struct product {
    emu_product how;
    float *d[32]; /* of the lanes */
    unsigned group;
};
static std::vector<product> products[WARPS];
static unsigned groups[WARPS]; /* committed */
static bool fenced[EMU_THREADS];
static const char *mode = "";

void emu_wgmma_mode(const char *named) { mode = named ? named : ""; }

/* A descriptor of a tile, as the hardware reads it. */
struct tile {
    uint32_t from, lead, stride;
    bool side;
};
static tile tile_of(uint64_t d, bool side)
{
    if (d >> 62 != 1 || (d >> 49 & 7))
        emu_fail(EMU_ILLEGAL_ADDRESS, "a tile whose rows are not of 128 bytes, from 1024 on");
    return {(uint32_t)(d & 0x3FFF) << 4, (uint32_t)(d >> 16 & 0x3FFF) << 4,
            (uint32_t)(d >> 32 & 0x3FFF) << 4, side};
}

static uint32_t place(const tile &t, uint32_t row, uint32_t k)
{
    const uint32_t at = t.side ? row / 64 * t.lead + row % 64 * 2 + k / 8 * t.stride + k % 8 * 128
                               : row / 8 * t.stride + row % 8 * 128 + k * 2;
    return swizzled(t.from + at);
}

/* All bytes of shared memory that may be read by it. */
static range reads(const tile &t, uint32_t rows)
{
    const uint32_t from = t.from & ~1023u;
    return {from, (t.side ? t.from + (rows / 64 - 1) * t.lead + t.stride
                          : from + (rows / 8 - 1) * t.stride) +
                      1024};
}

static void refuse_read(range to)
{
    for (const auto &of_warp : products)
        for (const product &p : of_warp)
            if (meet(to, reads(tile_of(p.how.a, p.how.a_side), 64)) ||
                meet(to, reads(tile_of(p.how.b, p.how.b_side), (uint32_t)p.how.width)))
                emu_fail(EMU_ILLEGAL_ADDRESS,
                         "copies over byte %u of shared memory, which a product reads that nobody "
                         "waited for",
                         to.from);
}

uint64_t wgmma_tile(const void *p, uint32_t lead, uint32_t stride)
{
    const uint32_t at = shared_address(p);
    if ((at | lead | stride) & 15) emu_fail(EMU_ILLEGAL_ADDRESS, "a tile not on 16 bytes");
    return at >> 4 | (uint64_t)(lead >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | 1ull << 62;
}

static const char on_wgmma[] = "a wgmma", on_fence[] = "wgmma_fence", on_commit[] = "wgmma_commit",
                  on_wait[] = "wgmma_wait";

void emu_wgmma_fence()
{
    fenced[emu_is.thread] = true;
    emu_exchange(on_fence, nullptr, 0);
}

void emu_wgmma(const emu_product &how, float *d)
{
    struct {
        emu_product how;
        float *d;
    } mine = {how, d};
    static_assert(sizeof mine <= EMU_SLOT, "a lane's slot");
    if (!fenced[emu_is.thread]) emu_fail(EMU_LAUNCH_FAILED, "a wgmma before its fence");
    const unsigned char *all = emu_exchange(on_wgmma, &mine, sizeof mine);
    if (emu_is.thread & 31) return;
    product p = {how, {}, groups[emu_is.warp]};
    for (int i = 0; i < 32; i++) {
        memcpy(&mine, all + i * EMU_SLOT, sizeof mine);
        if (mine.how.a != how.a || mine.how.b != how.b || mine.how.adds != how.adds)
            emu_fail(EMU_LAUNCH_FAILED, "a wgmma whose lanes do not agree");
        p.d[i] = mine.d;
    }
    products[emu_is.warp].push_back(p);
}

void wgmma_commit()
{
    emu_exchange(on_commit, nullptr, 0);
    if ((emu_is.thread & 31) == 0) groups[emu_is.warp]++;
}

static float number_at(uint32_t at, bool brain)
{
    uint16_t v;
    memcpy(&v, at_address(at), 2);
    return brain ? get(bf16{v}) : get(f16{v});
}

/* In what order 16 products are added up is nobody's promise. Here it is that of prim_emu.cpp's mma
 * where lane % 4 has four columns that follow each other; or, if asked for, another. */
static const uint32_t as_mma[16] = {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15},
                      in_turn[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* Rows of a warp of the first of the warpgroup's, by all columns. */
static void multiply(const product &p)
{
    static float a[16][16], b[16][WIDEST], d[WIDEST];
    const tile left = tile_of(p.how.a, p.how.a_side), right = tile_of(p.how.b, p.how.b_side);
    const uint32_t first = (uint32_t)emu_is.warp % 4 * 16, width = (uint32_t)p.how.width;
    for (range r : {reads(left, 64), reads(right, width)}) {
        emu_touch_atomic(emu_shared_base() + r.from, r.to - r.from);
        refuse_copied(r, "multiplies");
    }
    for (uint32_t k = 0; k < 16; k++) {
        for (uint32_t r = 0; r < 16; r++)
            a[r][k] = number_at(place(left, first + r, k), p.how.brain);
        for (uint32_t c = 0; c < width; c++) b[k][c] = number_at(place(right, c, k), p.how.brain);
    }
    for (uint32_t r = 0; r < 16; r++) {
        for (uint32_t c = 0; c < width; c++) {
            const float *mine = p.d[r % 8 * 4 + c % 8 / 2];
            d[c] = p.how.adds ? mine[c / 8 * 4 + r / 8 * 2 + c % 2] : 0;
        }
        for (uint32_t k : strcmp(mode, "order") ? as_mma : in_turn)
            for (uint32_t c = 0; c < WIDEST; c++) d[c] += a[r][k] * b[k][c];
        for (uint32_t c = 0; c < width; c++)
            p.d[r % 8 * 4 + c % 8 / 2][c / 8 * 4 + r / 8 * 2 + c % 2] = d[c];
    }
    if (!strcmp(mode, "wrong")) p.d[7][1] += 1;
    if (!strcmp(mode, "fails")) emu_fail(EMU_LAUNCH_FAILED, "a wgmma that was to fail");
}

void emu_wgmma_wait(int newest)
{
    auto &mine = products[emu_is.warp];
    fenced[emu_is.thread] = false;
    if ((emu_is.thread & 31) == 0) {
        size_t kept = 0;
        for (size_t i = 0; i < mine.size(); i++) {
            if (mine[i].group + (unsigned)newest >= groups[emu_is.warp])
                mine[kept++] = mine[i];
            else
                multiply(mine[i]);
        }
        mine.resize(kept);
    }
    emu_exchange(on_wait, nullptr, 0);
}

/* ---- a block --------------------------------------------------------------------------------- */

bool emu_thread_waits() { return !products[emu_is.warp].empty(); }
bool emu_block_waits() { return !copies.empty(); }
void emu_block_forgets()
{
    copies.clear();
    for (auto &of_warp : products) of_warp.clear();
    memset(groups, 0, sizeof groups);
    memset(fenced, 0, sizeof fenced);
    unfenced = false;
}
