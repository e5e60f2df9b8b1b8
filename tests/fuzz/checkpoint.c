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

static uint64_t walk(zt_checkpoint *c)
{
    uint64_t all = 0;
    const zt_meta *m = zt_checkpoint_meta(c);
    must(m != NULL);
    for (int64_t i = 0; i < zt_meta_count(m); i++) {
        const zt_meta_item *item = zt_meta_get(m, i);
        size_t at = 0, seen = 0;
        zt_gguf_kind kind;
        uint64_t count;
        must(zt_meta_find(m, item->key.data) == i && strlen(item->key.data) == item->key.n);
        if (zt_meta_array(item, &kind, &count) && kind == ZT_GGUF_STR) {
            while (zt_meta_next_str(item, &at).data) seen++;
            must(seen == count);
        }
    }
    for (int64_t i = 0; i < zt_checkpoint_count(c); i++) {
        zt_entry e;
        size_t size;
        zt_checkpoint_get(c, i, &e);
        must(zt_checkpoint_find(c, e.name) == i && e.dtype);
        if (e.type.dtype < ZT_DTYPE_COUNT && e.type.rank >= 0)
            must(zt_type_check(NULL, &e.type, &size) && size == e.bytes);
        all = e.bytes > MOST ? MOST : all + e.bytes;
    }
    return all;
}

/* All of it, as another container. What cannot be written is told; nothing else may happen. */
static void write_as(zt_ctx *ctx, zt_checkpoint *c, const zt_container *to)
{
    int64_t n = zt_checkpoint_count(c);
    zt_entry *e = zt_alloc_array(ctx, (size_t)n, sizeof *e);
    char *data = zt_alloc(ctx, MOST);
    zt_checkpoint_opts o = {.to = to, .force = true};
    for (int64_t i = 0; e && i < n; i++) zt_checkpoint_get(c, i, &e[i]);
    zt_writer *w =
        e && data ? zt_writer_open(ctx, "/dev/null", &o, zt_checkpoint_meta(c), e, n) : NULL;
    zt_status s = w ? ZT_OK : zt_ctx_status(ctx);
    must(w || s != ZT_OK);
    for (int64_t i = 0; s == ZT_OK && i < n; i++) {
        s = zt_checkpoint_read(c, i, 0, data, (size_t)e[i].bytes);
        if (s == ZT_OK) s = zt_writer_put(w, data, (size_t)e[i].bytes);
    }
    if (s == ZT_OK) s = zt_writer_commit(w);
    must(s != ZT_EBUG);
    zt_writer_close(w);
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
static void look(zt_ctx *ctx, const uint8_t *bytes, size_t n)
{
    const zt_faults all = {.tell = hear};
    zt_faults_listen(ctx, &all);
    zt_checkpoint *c = zt_checkpoint_take(ctx, zt_source_memory(ctx, "fuzz", bytes, n));
    zt_faults_listen(ctx, NULL);
    must(c || zt_ctx_status(ctx) != ZT_OK);
    for (int64_t i = 0; c && i < zt_checkpoint_count(c); i++) {
        zt_entry e;
        char byte;
        zt_checkpoint_get(c, i, &e);
        zt_checkpoint_find(c, e.name);
        if (e.bytes == 0) continue;
        zt_checkpoint_read(c, i, 0, &byte, 1);
        zt_checkpoint_read(c, i, e.bytes - 1, &byte, 1);
    }
    zt_checkpoint_close(c);
    zt_ctx_clear(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_mem_limit(ctx, 16 * n + (64 << 20));
    zt_checkpoint *c = zt_checkpoint_take(ctx, zt_source_memory(ctx, "fuzz", bytes, n));
    must(c || zt_ctx_status(ctx) != ZT_OK);
    if (c && walk(c) < MOST)
        for (int i = 0; zt_container_at(i); i++)
            if (zt_container_writes(zt_container_at(i))) write_as(ctx, c, zt_container_at(i));
    zt_checkpoint_close(c);
    zt_ctx_clear(ctx);
    look(ctx, bytes, n);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
