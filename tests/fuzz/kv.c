/* kv.c - a fuzz target for blocks of the KV store: any bytes are refused, unless they are to the byte what the store would have
 * written for the rows in them.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/llm/kv_block.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { ROWS = 64 }; /* bytes of each of two states */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    int32_t ids[ZT_LLM_BLOCK];
    const uint64_t state_bytes[] = {ROWS, ROWS};
    uint8_t file[ZT_KV_BLOCK_HEAD + sizeof state_bytes + 2 * ROWS + ZT_KV_BLOCK_SUM];
    zt_kv_block block = {
        .key = {1, 2}, .before = {3, 4}, .position = 32, .ids = ids, .state_count = 2, .state_bytes = state_bytes};
    for (int i = 0; i < ZT_LLM_BLOCK; i++) ids[i] = 7 * i;
    if (zt_kv_block_bytes(&block) != sizeof file) abort();
    uint8_t *exact = malloc(count + 1); /* a byte beyond the file is found */
    if (!exact) return 0;
    memcpy(exact, bytes, count);
    bool same = false;
    if (count == sizeof file) {
        memcpy(file, bytes, count);
        zt_kv_block_seal(&block, file);
        same = memcmp(file, bytes, count) == 0;
        if (!zt_kv_block_check(&block, file, count)) abort();
    }
    if (zt_kv_block_check(&block, exact, count) != same) abort();
    free(exact);
    return 0;
}
