/* matmul.h - private to lib/engine/vulkan: products of matrices as a pass of other kernels. */
#ifndef ZT_VK_MATMUL_H
#define ZT_VK_MATMUL_H

#include "lib/engine/vulkan/vk.h"

/* y[n,m] = sum_k a[n,k] b[k,m], all of the step's FLOATS; elements of a and b from row to row and from
 * column to column. Of `batches` products, each with its own y, the matrices lie where the table says
 * (shaders/matmul.comp), of `rank` dimensions. */
typedef struct zt_vk_product {
    zt_vk_arg a, b, y, table;
    int64_t N, K, M, batches;
    int rank;
    int64_t a_row, a_column, b_row, b_column;
} zt_vk_product;

/* Describes the pass, which the caller ends. */
void zt_vk_multiply(const zt_vk_engine *engine, zt_vk_call *call, const zt_vk_product *product);

/* Constants and workgroups of shaders/tiles.glsl for a product of N rows and M columns, so many times;
 * the number of workgroups goes into word `word`. */
void zt_vk_set_tiles(const zt_vk_engine *engine, zt_vk_call *call, int word, int64_t N, int64_t M, int64_t times);
/* The same with tiles that leave half the shared memory. */
void zt_vk_set_small_tiles(const zt_vk_engine *engine, zt_vk_call *call, int word, int64_t N, int64_t M, int64_t times);

#endif
