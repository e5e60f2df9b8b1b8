/* kv_block.c - the files of a block: their key, and its bytes around the rows. */
#include "lib/llm/kv_block.h"

#include <string.h>
#include <xxhash.h>

static const char magics[ZT_KV_KINDS][8] = {{'z', 't', '-', 'k', 'v', '-', '0', '1'}, {'z', 't', '-', 's', 't', '-', '0', '1'}};

enum { AT_BYTES = 8, AT_KEY = 16, AT_BEFORE = 48, AT_POSITION = 80, AT_TOKENS = 88, AT_STATES = 92, AT_IDS = 96 };

zt_status zt_kv_block_key(zt_digest *digest, zt_kv_block *block)
{
    zt_status status = zt_digest_add(digest, block->before, sizeof block->before);
    if (!status) status = zt_digest_add(digest, block->ids, ZT_LLM_BLOCK * sizeof *block->ids);
    return status ? status : zt_digest_end(digest, block->key);
}

size_t zt_kv_block_rows(const zt_kv_block *block) { return ZT_KV_BLOCK_HEAD + (size_t)block->state_count * sizeof(uint64_t); }

size_t zt_kv_block_bytes(const zt_kv_block *block)
{
    size_t bytes = zt_kv_block_rows(block) + ZT_KV_BLOCK_SUM;
    for (uint32_t i = 0; i < block->state_count; i++)
        if (!zt_add_size(bytes, (size_t)block->state_bytes[i], &bytes)) return 0;
    return bytes;
}

/* What stands before the sizes of the states. */
static void make_head(const zt_kv_block *block, uint8_t head[ZT_KV_BLOCK_HEAD])
{
    const uint64_t bytes = zt_kv_block_bytes(block), position = (uint64_t)block->position;
    const uint32_t tokens = ZT_LLM_BLOCK;
    memcpy(head, magics[block->kind], sizeof magics[block->kind]);
    memcpy(head + AT_BYTES, &bytes, sizeof bytes);
    memcpy(head + AT_KEY, block->key, sizeof block->key);
    memcpy(head + AT_BEFORE, block->before, sizeof block->before);
    memcpy(head + AT_POSITION, &position, sizeof position);
    memcpy(head + AT_TOKENS, &tokens, sizeof tokens);
    memcpy(head + AT_STATES, &block->state_count, sizeof block->state_count);
    memcpy(head + AT_IDS, block->ids, ZT_LLM_BLOCK * sizeof *block->ids);
}

static XXH128_canonical_t sum_of(const uint8_t *file, size_t size)
{
    XXH128_canonical_t sum;
    XXH128_canonicalFromHash(&sum, XXH3_128bits(file, size - sizeof sum));
    return sum;
}

void zt_kv_block_seal(const zt_kv_block *block, uint8_t *file)
{
    const size_t size = zt_kv_block_bytes(block);
    make_head(block, file);
    memcpy(file + ZT_KV_BLOCK_HEAD, block->state_bytes, block->state_count * sizeof *block->state_bytes);
    XXH128_canonical_t sum = sum_of(file, size);
    memcpy(file + size - sizeof sum, &sum, sizeof sum);
}

bool zt_kv_block_check(const zt_kv_block *block, const uint8_t *file, size_t size)
{
    uint8_t head[ZT_KV_BLOCK_HEAD];
    if (!size || size != zt_kv_block_bytes(block)) return false;
    make_head(block, head);
    if (memcmp(file, head, sizeof head) != 0) return false;
    if (memcmp(file + sizeof head, block->state_bytes, block->state_count * sizeof *block->state_bytes) != 0) return false;
    XXH128_canonical_t sum = sum_of(file, size);
    return memcmp(file + size - sizeof sum, &sum, sizeof sum) == 0;
}
