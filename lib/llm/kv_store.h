/* kv_store.h - blocks of the KV cache in a directory that processes share, found by their content.
 *
 * A block is the keys and values of ZT_LLM_BLOCK tokens, in all layers, behind certain tokens before them. Its key is a digest of
 * what decides its bits (the identity: model, program, arithmetic) and of all tokens up to its end, so that what is found under a
 * key is what would be computed, bit by bit. zt-formats(5) describes the files.
 *
 * Recurrent layers have no rows of tokens but a state behind the last, which is large and cannot go back. It is stored under the
 * key of the block that ends there, at some of the ends only: zt_kv_store_stop says where. A text is resumed at the last of them;
 * a block without its state still says that a text had these tokens.
 *
 *     zt_kv_store *store = zt_kv_store_open(ctx, "cache", 10000000000);
 *     zt_kv_store_model(store, gguf, NULL, digest);                  // part of the identity, which the caller makes
 *     zt_kv_store_attach(store, model, identity);
 *     zt_kv_store_resume(store, ids, count - 1, &fed);               // tokens whose keys and values the cache now has
 *     ... feed the others, up to each zt_kv_store_stop, and there:
 *     zt_kv_store_keep_fed(store, ids, count);
 *     zt_kv_store_close(store);
 *
 * A file is verified before it is used: a damaged one is removed, and counts as missing. What fails of the directory later than
 * at opening is logged, and never an error: blocks are computed, or not stored.
 */
#ifndef ZT_KV_STORE_H
#define ZT_KV_STORE_H

#include "lib/base/digest.h"
#include "lib/llm/llm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_kv_store zt_kv_store;

/* Opens a directory, which is made if only its last name is missing, for files of `limit` bytes at most: when there are more, those
 * that were used longest ago are removed. NULL: ZT_ECREATE, the directory cannot be opened or made; ZT_ENOMEM. */
zt_kv_store *zt_kv_store_open(zt_ctx *ctx, const char *path, uint64_t limit);
void zt_kv_store_close(zt_kv_store *store); /* before its model is closed. NULL: no effect */

/* zt_model_digest, which is kept in the store for the next time, where the model's files tell whether they changed. `stop`: as
 * there. ZT_ENOTSUP: libcrypto is missing. */
zt_status zt_kv_store_model(zt_kv_store *store, zt_gguf *gguf, bool (*stop)(void), uint8_t digest[ZT_DIGEST_BYTES]);

/* From now on the blocks are those of this model, which is borrowed. `identity`: SHA-256 of all that decides the bits of its cache.
 * ZT_ENOTSUP: the model has no cache at all, or its engine cannot read and write a part of a state. */
zt_status zt_kv_store_attach(zt_kv_store *store, zt_llm *model, const uint8_t identity[ZT_DIGEST_BYTES]);

/* Where a text is in the model's cache. */
typedef struct zt_kv_place {
    const int32_t *table; /* [blocks]: the block of the cache that holds tokens i * ZT_LLM_BLOCK on; NULL: block i */
    int64_t slot;         /* of the states of recurrent layers; -1: none, they are not at hand */
} zt_kv_place;

/* Puts blocks of the beginning of ids[count] into the model's cache, which has the keys and values of the first `from` tokens; the
 * blocks after the first missing one are not looked at. With recurrent layers up to the last state, which is put into place->slot.
 * Returns how many tokens the cache has then, `from` or a multiple of ZT_LLM_BLOCK above it; the caller, who keeps count of
 * positions, goes on from there. 0 also where a state was damaged half-way: nothing of the cache is to be used. */
int64_t zt_kv_store_fetch(zt_kv_store *store, const int32_t *ids, size_t count, int64_t from, const zt_kv_place *place);
/* The same for a model that is fed by zt_llm_feed and its like: `fed`, the tokens that it was fed, is a beginning of ids[count] and
 * gets the tokens of the blocks; zt_llm_position is then their number. ZT_ENOMEM. */
zt_status zt_kv_store_resume(zt_kv_store *store, const int32_t *ids, size_t count, zt_ids *fed);

/* The next position behind `from` at which the states of recurrent layers are worth storing while ids[count] is fed: a step should
 * end there. It is the next multiple of 512, the end of what another text that was stored had in common, or the last end of a block
 * before the last token, whichever comes first. `count`: there is none. */
int64_t zt_kv_store_stop(zt_kv_store *store, const int32_t *ids, size_t count, int64_t from);

/* Stores the whole blocks of ids[count], whose keys and values the cache has, and which the store has not; and the states behind
 * them all, if place->slot has these. */
void zt_kv_store_keep(zt_kv_store *store, const int32_t *ids, size_t count, const zt_kv_place *place);
/* The same for a model that is fed by zt_llm_feed and its like, and was fed ids[count]. */
void zt_kv_store_keep_fed(zt_kv_store *store, const int32_t *ids, size_t count);

typedef struct zt_kv_store_count {
    uint64_t found, damaged, written, removed; /* files of blocks; removed: any files */
} zt_kv_store_count;
zt_kv_store_count zt_kv_store_counted(const zt_kv_store *store); /* since it was opened */

#ifdef __cplusplus
}
#endif
#endif
