/* kv_block.h - private to lib/llm: the files of a block of the KV cache, to the byte. Numbers are little endian.
 *
 *     offset  bytes  what
 *          0      8  "zt-kv-01"; of the states of recurrent layers "zt-st-01"
 *          8      8  u64: bytes of the file
 *         16     32  key of the block
 *         48     32  key of the block before it; of the first block the identity
 *         80      8  u64: position of its first token
 *         88      4  u32: number of tokens, 32
 *         92      4  u32: number of states in this file, n
 *         96    128  i32[32]: its tokens
 *        224     8n  u64[n]: bytes of each state's rows; of a recurrent layer's state those that a sequence has
 *     224+8n         these bytes of the first state, of the second, ...
 *   end - 16     16  XXH3-128 of all before, most significant byte first
 *
 * All but the rows is known to who looks for a block: it is compared, and nothing of it is believed.
 */
#ifndef ZT_KV_BLOCK_H
#define ZT_KV_BLOCK_H

#include "lib/base/digest.h"
#include "lib/llm/llm.h"

enum { ZT_KV_BLOCK_HEAD = 224, ZT_KV_BLOCK_SUM = 16 };

/* What a file has: the rows of the block's tokens, or the states of recurrent layers behind its last token. */
typedef enum zt_kv_kind { ZT_KV_ROWS, ZT_KV_STATES, ZT_KV_KINDS } zt_kv_kind;

typedef struct zt_kv_block {
    uint8_t key[ZT_DIGEST_BYTES], before[ZT_DIGEST_BYTES];
    int64_t position;
    const int32_t *ids; /* [ZT_LLM_BLOCK] */
    zt_kv_kind kind;
    uint32_t state_count;
    const uint64_t *state_bytes; /* [state_count] */
} zt_kv_block;

/* SHA-256 of block->before and block->ids, into block->key. */
zt_status zt_kv_block_key(zt_digest *digest, zt_kv_block *block);
size_t zt_kv_block_bytes(const zt_kv_block *block); /* of the file; 0: more than a size_t holds */
size_t zt_kv_block_rows(const zt_kv_block *block);  /* the offset of the rows */
/* Writes all but the rows into a file in memory, whose rows are there. */
void zt_kv_block_seal(const zt_kv_block *block, uint8_t *file);
/* Is this the whole and undamaged file of this block? */
bool zt_kv_block_check(const zt_kv_block *block, const uint8_t *file, size_t size);

#endif
