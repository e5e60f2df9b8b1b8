/* model_id.c - owns what a model is known by: a hash of its tensors' names, types and a sample of bytes.
 */
#define XXH_STATIC_LINKING_ONLY /* the state's size, to have it on the stack */
#include "lib/base/require.h"
#include "lib/dna/merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct named_tensor {
    const char *name;
    int64_t index;
} named_tensor;

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const named_tensor *)left)->name, ((const named_tensor *)right)->name);
}

static zt_status hash_tensor(XXH3_state_t *state, zt_checkpoint *checkpoint, int64_t index)
{
    enum { SAMPLE = 512 };
    char buf[SAMPLE];
    zt_entry entry;
    zt_status status = ZT_OK;
    zt_checkpoint_get(checkpoint, index, &entry);
    XXH3_128bits_update(state, entry.name, strlen(entry.name) + 1);
    XXH3_128bits_update(state, entry.dtype, strlen(entry.dtype) + 1);
    for (int k = 0; k < entry.type.rank; k++) XXH3_128bits_update(state, &entry.type.dim[k], sizeof entry.type.dim[k]);
    XXH3_128bits_update(state, &entry.bytes, sizeof entry.bytes);
    size_t sample_size = entry.bytes < SAMPLE ? (size_t)entry.bytes : SAMPLE;
    uint64_t offsets[3] = {0, (entry.bytes - sample_size) / 2, entry.bytes - sample_size};
    for (int k = 0; k < (entry.bytes > SAMPLE ? 3 : 1) && sample_size && status == ZT_OK; k++) {
        status = zt_checkpoint_read(checkpoint, index, offsets[k], buf, sample_size);
        XXH3_128bits_update(state, buf, sample_size);
    }
    return status;
}

zt_status zt_dna_id(zt_ctx *ctx, zt_checkpoint *checkpoint, char id[33])
{
    ZT_REQUIRE(ctx, checkpoint && id, ZT_EUSAGE);
    int64_t count = zt_checkpoint_count(checkpoint);
    XXH3_state_t state;
    named_tensor *list = zt_alloc_array(ctx, (size_t)count + 1, sizeof *list);
    zt_status status = list ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; list && i < count; i++) {
        zt_entry entry;
        zt_checkpoint_get(checkpoint, i, &entry);
        list[i] = (named_tensor){entry.name, i};
    }
    if (list) qsort(list, (size_t)count, sizeof *list, compare_names);
    XXH3_128bits_reset(&state);
    for (int64_t i = 0; i < count && status == ZT_OK; i++) status = hash_tensor(&state, checkpoint, list[i].index);
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    snprintf(id, 33, "%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
    zt_free(ctx, list);
    return status;
}
