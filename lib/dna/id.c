/* id.c - owns what a model is known by: a hash of its tensors' names, types and a sample of bytes.
 */
#define XXH_STATIC_LINKING_ONLY /* the state's size, to have it on the stack */
#include "lib/dna/merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct named {
    const char *name;
    int64_t index;
} named;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static zt_status add_tensor(XXH3_state_t *x, zt_checkpoint *c, int64_t i)
{
    enum { SAMPLE = 512 };
    char buf[SAMPLE];
    zt_entry e;
    zt_status s = ZT_OK;
    zt_checkpoint_get(c, i, &e);
    XXH3_128bits_update(x, e.name, strlen(e.name) + 1);
    XXH3_128bits_update(x, e.dtype, strlen(e.dtype) + 1);
    for (int k = 0; k < e.type.rank; k++)
        XXH3_128bits_update(x, &e.type.dim[k], sizeof e.type.dim[k]);
    XXH3_128bits_update(x, &e.bytes, sizeof e.bytes);
    size_t n = e.bytes < SAMPLE ? (size_t)e.bytes : SAMPLE;
    uint64_t at[3] = {0, (e.bytes - n) / 2, e.bytes - n};
    for (int k = 0; k < (e.bytes > SAMPLE ? 3 : 1) && n && s == ZT_OK; k++) {
        s = zt_checkpoint_read(c, i, at[k], buf, n);
        XXH3_128bits_update(x, buf, n);
    }
    return s;
}

zt_status zt_dna_id(zt_ctx *ctx, zt_checkpoint *c, char id[33])
{
    int64_t n = zt_checkpoint_count(c);
    XXH3_state_t x;
    named *list = zt_alloc_array(ctx, (size_t)n + 1, sizeof *list);
    zt_status s = list ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; list && i < n; i++) {
        zt_entry e;
        zt_checkpoint_get(c, i, &e);
        list[i] = (named){e.name, i};
    }
    if (list) qsort(list, (size_t)n, sizeof *list, by_name);
    XXH3_128bits_reset(&x);
    for (int64_t i = 0; i < n && s == ZT_OK; i++) s = add_tensor(&x, c, list[i].index);
    XXH128_hash_t h = XXH3_128bits_digest(&x);
    snprintf(id, 33, "%016" PRIx64 "%016" PRIx64, h.high64, h.low64);
    zt_free(ctx, list);
    return s;
}
