/* checkpoint.c - a fuzz target for model files of any container: any bytes are refused, or
 * read and written in every other container without harm. `make fuzz` drives it by libFuzzer,
 * tests/fuzz/main.c without. */
#include "lib/io/checkpoint.h"
#include "lib/io/fault.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MOST = 1 << 16 }; /* bytes of data that are written again */

/* Two answers that contradict each other. */
static void must(bool sound)
{
    if (!sound) abort();
}

static uint64_t read_all(zt_checkpoint *checkpoint)
{
    uint64_t all = 0;
    const zt_meta *meta = zt_checkpoint_meta(checkpoint);
    must(meta != NULL);
    for (int64_t i = 0; i < zt_meta_count(meta); i++) {
        const zt_meta_item *item = zt_meta_get(meta, i);
        size_t at = 0, seen = 0;
        zt_gguf_kind kind;
        uint64_t count;
        must(zt_meta_find(meta, item->key.data) == i && strlen(item->key.data) == item->key.n);
        if (zt_meta_array(item, &kind, &count) && kind == ZT_GGUF_STR) {
            while (zt_meta_next_str(item, &at).data) seen++;
            must(seen == count);
        }
    }
    for (int64_t i = 0; i < zt_checkpoint_count(checkpoint); i++) {
        zt_entry entry;
        size_t size;
        zt_checkpoint_get(checkpoint, i, &entry);
        must(zt_checkpoint_find(checkpoint, entry.name) == i && entry.dtype);
        if (entry.type.dtype < ZT_DTYPE_COUNT && entry.type.rank >= 0)
            must(zt_type_check(NULL, &entry.type, &size) && size == entry.bytes);
        all = entry.bytes > MOST ? MOST : all + entry.bytes;
    }
    return all;
}

/* All of it, as another container. What cannot be written is told; nothing else may happen. */
static void write_as(zt_ctx *ctx, zt_checkpoint *checkpoint, const zt_container *to)
{
    int64_t count = zt_checkpoint_count(checkpoint);
    zt_entry *e = zt_alloc_array(ctx, (size_t)count, sizeof *e);
    char *data = zt_alloc(ctx, MOST);
    zt_checkpoint_opts o = {.to = to, .force = true};
    for (int64_t i = 0; e && i < count; i++) zt_checkpoint_get(checkpoint, i, &e[i]);
    zt_writer *writer = e && data ? zt_writer_open(ctx, "/dev/null", &o, zt_checkpoint_meta(checkpoint), e, count) : NULL;
    zt_status status = writer ? ZT_OK : zt_ctx_status(ctx);
    must(writer || status != ZT_OK);
    for (int64_t i = 0; status == ZT_OK && i < count; i++) {
        status = zt_checkpoint_read(checkpoint, i, 0, data, (size_t)e[i].bytes);
        if (status == ZT_OK) status = zt_writer_put(writer, data, (size_t)e[i].bytes);
    }
    if (status == ZT_OK) status = zt_writer_commit(writer);
    must(status != ZT_EBUG);
    zt_writer_close(writer);
    zt_free(ctx, data);
    zt_free(ctx, e);
    zt_ctx_clear(ctx);
}

static void hear(void *user, const char *text)
{
    (void)user;
    must(*text != '\0');
}

/* As zt-convert --check does it: behind faults, where nothing is believed any more. */
static void open_bytes(zt_ctx *ctx, const uint8_t *bytes, size_t count)
{
    const zt_faults all = {.tell = hear};
    zt_faults_listen(ctx, &all);
    zt_checkpoint *checkpoint = zt_checkpoint_take(ctx, zt_source_memory(ctx, "fuzz", bytes, count));
    zt_faults_listen(ctx, NULL);
    must(checkpoint || zt_ctx_status(ctx) != ZT_OK);
    for (int64_t i = 0; checkpoint && i < zt_checkpoint_count(checkpoint); i++) {
        zt_entry entry;
        char byte;
        zt_checkpoint_get(checkpoint, i, &entry);
        zt_checkpoint_find(checkpoint, entry.name);
        if (entry.bytes == 0) continue;
        zt_checkpoint_read(checkpoint, i, 0, &byte, 1);
        zt_checkpoint_read(checkpoint, i, entry.bytes - 1, &byte, 1);
    }
    zt_checkpoint_close(checkpoint);
    zt_ctx_clear(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_mem_limit(ctx, 16 * count + (64 << 20));
    zt_checkpoint *checkpoint = zt_checkpoint_take(ctx, zt_source_memory(ctx, "fuzz", bytes, count));
    must(checkpoint || zt_ctx_status(ctx) != ZT_OK);
    if (checkpoint && read_all(checkpoint) < MOST)
        for (int i = 0; zt_container_at(i); i++)
            if (zt_container_writes(zt_container_at(i))) write_as(ctx, checkpoint, zt_container_at(i));
    zt_checkpoint_close(checkpoint);
    zt_ctx_clear(ctx);
    open_bytes(ctx, bytes, count);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
