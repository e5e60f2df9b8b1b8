/* sm90.h - the primitives of lib/engine/cuda/prim_sm90.h for tests without a GPU: sm90.cpp. */
#ifndef ZT_EMU_SM90_H
#define ZT_EMU_SM90_H

uint32_t shared_address(const void *p);

void mbarrier_init(uint64_t *bar, int count);
void mbarrier_fence();
void mbarrier_arrive(uint64_t *bar);
void mbarrier_expect(uint64_t *bar, uint32_t bytes);
void mbarrier_wait(uint64_t *bar, uint32_t parity);

void tensor_copy(void *to, const zt_cu_tensor_map *map, int x, int y, int z, uint64_t *bar);
void tensor_prefetch(const zt_cu_tensor_map *map);

/* How a product is to be made: the tiles, whether their rows lie side by side, its width. */
struct emu_product {
    uint64_t a, b;
    int width;
    bool a_side, b_side, adds, brain; /* brain: of bf16 */
};
void emu_wgmma(const emu_product &p, float *d);
void emu_wgmma_fence();
void emu_wgmma_wait(int newest);

uint64_t wgmma_tile(const void *p, uint32_t lead, uint32_t stride);
FN bool emu_brain(f16) { return false; }
FN bool emu_brain(bf16) { return true; }
template <class T, int WIDTH, bool A, bool B> FN void wgmma(float (&d)[WIDTH / 2], uint64_t a, uint64_t b, bool adds)
{
    emu_wgmma({a, b, WIDTH, A, B, adds, emu_brain(T())}, d);
}
template <int N> FN void wgmma_fence(float (&)[N]) { emu_wgmma_fence(); }
void wgmma_commit();
template <int N> FN void wgmma_wait() { emu_wgmma_wait(N); }
template <int N> FN void wgmma_done(float (&)[N]) { emu_wgmma_wait(0); }

template <int N> FN void registers_give() {}
template <int N> FN void registers_take() {}

#endif
