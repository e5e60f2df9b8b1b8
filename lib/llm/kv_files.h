/* kv_files.h - private to lib/llm: a directory of small files that processes share, of bounded size: kv_store.c's blocks.
 *
 * A name is 32 bytes, 64 hex digits in the directory, and a suffix. A file is written under another name and renamed, so that it is
 * whole or absent after a kill; it is not synced, so that after a power failure it may be damaged, which its reader finds by a
 * checksum. It never changes; when it was used last is its mtime.
 *
 * Writers have the file `lock` locked. It holds the sum of all sizes and its complement as u64, which differ from each other while
 * a writer works: after one that was killed, the next counts again and removes what it left behind.
 */
#ifndef ZT_KV_FILES_H
#define ZT_KV_FILES_H

#include "lib/base/digest.h"

typedef struct zt_kv_files zt_kv_files;

/* Opens the directory, and makes it if only its last name is missing. `limit`: bytes of all files, at most. NULL: ZT_ECREATE,
 * it cannot be opened or made; ZT_ENOMEM. */
zt_kv_files *zt_kv_files_open(zt_ctx *ctx, const char *path, uint64_t limit);
void zt_kv_files_close(zt_kv_files *files); /* NULL: no effect */

bool zt_kv_files_has(const zt_kv_files *files, const uint8_t name[ZT_DIGEST_BYTES], const char *suffix);
/* Maps a file of exactly `size` bytes, read only; *damaged: it is there and is not such a file. NULL: it is not there, or
 * damaged. The caller unmaps it. */
const uint8_t *zt_kv_files_map(const zt_kv_files *files, const uint8_t name[ZT_DIGEST_BYTES], const char *suffix, size_t size,
                               bool *damaged);
void zt_kv_files_unmap(const uint8_t *bytes, size_t size);
void zt_kv_files_remove(const zt_kv_files *files, const uint8_t name[ZT_DIGEST_BYTES], const char *suffix);
/* It was used now: `rank` of several at once, those of a higher rank are removed first. */
void zt_kv_files_touch(const zt_kv_files *files, const uint8_t name[ZT_DIGEST_BYTES], const char *suffix, int64_t rank);

/* Begins to write: `kept` bytes of files that were touched just now stay, and others are removed until there is room for `wanted`
 * more. *room: as many of these as may be written. false: nothing may be written; the reason was logged as a warning, the first
 * time. After true call _end. */
bool zt_kv_files_begin(zt_kv_files *files, uint64_t kept, uint64_t wanted, uint64_t *room);
/* Writes one file. false: it failed, logged as above. */
bool zt_kv_files_write(zt_kv_files *files, const uint8_t name[ZT_DIGEST_BYTES], const char *suffix, const void *bytes,
                       size_t size);
void zt_kv_files_end(zt_kv_files *files);

typedef struct zt_kv_files_count {
    uint64_t written, removed;
} zt_kv_files_count;
zt_kv_files_count zt_kv_files_counted(const zt_kv_files *files);

#endif
