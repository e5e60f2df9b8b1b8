/* linear.h - private to lib/engine/vulkan: one product x w^T + b of an op, x its first input. */
#ifndef ZT_VK_LINEAR_H
#define ZT_VK_LINEAR_H

#include "lib/engine/vulkan/vk.h"

typedef struct zt_vk_product {
    int w, b;        /* inputs; b may be absent */
    const char *act; /* the word of the attribute */
    zt_vk_arg y;     /* where it goes */
    bool adds;       /* `beside` is added to it */
    zt_vk_arg beside;
    zt_vk_arg x;  /* x or its codes */
    int experts;  /* matrices of a stack, 0: w is one; then `beside` names one for each row of y, */
    int64_t each; /* so many of which share a row of x */
} zt_vk_product;

/* w: a matrix, or a stack of them. */
bool zt_vk_has_product(const zt_vk_engine *engine, const zt_type *x, const zt_type *w, const zt_type *b);
/* Products of x, one after the other; what is described at the end is the last. */
zt_status zt_vk_set_products(zt_vk_engine *engine, zt_vk_call *call, zt_vk_product *product, int count);

#endif
