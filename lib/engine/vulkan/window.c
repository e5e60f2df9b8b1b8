/* window.c - the table of windows that shaders/window.glsl reads. */
#include "lib/engine/vulkan/window.h"

enum { FEW_DIMS = 3, HEAD = 3, LISTS = 7, MOST_TAPS = 1 << 20 };

bool zt_vk_window_fits(const zt_window *window)
{
    const int64_t most = INT32_MAX / 2;
    for (int d = 0; d < window->n; d++) {
        const int64_t before = window->pad[d] > 0 ? window->pad[d] : -window->pad[d];
        const int64_t behind = window->end[d] > 0 ? window->end[d] : -window->end[d];
        if (window->in[d] + before + behind + window->stride[d] > most) return false;
        if (window->dilation[d] * window->k[d] > most) return false;
    }
    return window->taps <= MOST_TAPS;
}

/* Dimensions of one place come first where there are fewer than the shader has. */
static void set_lists(const zt_window *window, int dims, uint32_t *table)
{
    const int more = dims - window->n;
    for (int d = 0; d < dims; d++) {
        const int own = d - more;
        const int64_t list[LISTS] = {own < 0 ? 1 : window->in[own],      own < 0 ? 1 : window->out[own],
                                     own < 0 ? 1 : window->stride[own],  own < 0 ? 0 : window->pad[own],
                                     own < 0 ? 0 : window->end[own],     own < 0 ? 1 : window->k[own],
                                     own < 0 ? 1 : window->dilation[own]};
        for (int k = 0; k < LISTS; k++) table[k * dims + d] = (uint32_t)(int32_t)list[k];
    }
}

static void set_reach(const zt_window *window, int dims, uint32_t *reach)
{
    const int more = dims - window->n;
    for (int64_t tap = 0; tap < window->taps; tap++) {
        int64_t rest = tap;
        for (int d = window->n - 1; d >= 0; d--) {
            reach[tap * dims + more + d] = (uint32_t)(rest % window->k[d] * window->dilation[d]);
            rest /= window->k[d];
        }
        for (int d = 0; d < more; d++) reach[tap * dims + d] = 0;
    }
}

zt_status zt_vk_set_window(zt_vk_engine *engine, zt_vk_call *call, const zt_window *window)
{
    const int dims = window->n <= FEW_DIMS ? FEW_DIMS : ZT_WINDOW_RANK;
    call->table_words = HEAD + (size_t)(LISTS * dims) + (size_t)window->taps * (size_t)dims;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    call->table[0] = (uint32_t)window->n_in;
    call->table[1] = (uint32_t)window->n_out;
    call->table[2] = (uint32_t)window->taps;
    set_lists(window, dims, call->table + HEAD);
    set_reach(window, dims, call->table + HEAD + LISTS * dims);
    call->spec[3] = (uint32_t)dims;
    return ZT_OK;
}
