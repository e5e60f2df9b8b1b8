/* lines.h - private to lib/engine/vulkan: the lines of a value along one axis. */
#ifndef ZT_VK_LINES_H
#define ZT_VK_LINES_H

#include "lib/engine/vulkan/vk.h"

/* Entries of a line, elements from one to the next, and how many lines; words 0 to 2 of a pass. */
typedef struct zt_vk_lines {
    int64_t count, inner, lines;
} zt_vk_lines;

static inline zt_vk_lines zt_vk_lines_of(const zt_type *x, int64_t axis)
{
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    zt_vk_lines all = {x->rank ? x->dim[at] : 1, 1, 1};
    for (int i = 0; i < x->rank; i++) {
        if (i != at) all.lines *= x->dim[i];
        if (i > at) all.inner *= x->dim[i];
    }
    return all;
}

/* An invocation a line, where lines are short, or not long and neighbours lie side by side; else a workgroup. */
static inline bool zt_vk_lines_apart(const zt_vk_lines *all)
{
    return all->count <= 32 || (all->inner >= 32 && all->count <= 1024);
}

/* Can a workgroup go through the line of this axis so many times? */
static inline bool zt_vk_lines_fit(const zt_type *x, int64_t axis, int64_t times)
{
    return zt_vk_lines_of(x, axis).count / 64 * times < ZT_VK_TURNS;
}

/* The words, and an invocation (64 a workgroup) or a workgroup a line. */
static inline void zt_vk_put_lines(const zt_vk_engine *engine, zt_vk_call *call, const zt_vk_lines *all, bool apart)
{
    call->word[0] = (uint32_t)all->count;
    call->word[1] = (uint32_t)all->inner;
    call->word[2] = (uint32_t)all->lines;
    zt_vk_spread(engine, call, all->lines, apart ? 64 : 1);
}

#endif
