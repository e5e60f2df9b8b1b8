/* gguf_write.c - the GGUF writer: what it writes is what the reader reads, and what GGUF cannot say
 * is refused. */
#include "lib/io/gguf_write.h"

#include <stdlib.h>
#include <string.h>

#include "tests/io/read_gguf.h"
#include "tests/common/tap.h"

static void put_all(zt_gguf_writer *w)
{
    zt_bytes texts[] = {{"a", 1}, {"", 0}, {"b\0c", 3}};
    int32_t numbers[] = {-1, 0, 7};
    zt_gguf_put_align(w, 64);
    zt_gguf_put_str(w, "s", "text", 4);
    zt_gguf_put_int(w, "u8", ZT_GGUF_U8, 255);
    zt_gguf_put_int(w, "i8", ZT_GGUF_I8, -128);
    zt_gguf_put_int(w, "u16", ZT_GGUF_U16, 65535);
    zt_gguf_put_int(w, "i16", ZT_GGUF_I16, -32768);
    zt_gguf_put_int(w, "u32", ZT_GGUF_U32, UINT32_MAX);
    zt_gguf_put_int(w, "i32", ZT_GGUF_I32, INT32_MIN);
    zt_gguf_put_int(w, "u64", ZT_GGUF_U64, INT64_MAX);
    zt_gguf_put_int(w, "i64", ZT_GGUF_I64, INT64_MIN);
    zt_gguf_put_int(w, "bool", ZT_GGUF_BOOL, 1);
    zt_gguf_put_real(w, "f32", ZT_GGUF_F32, 0.5);
    zt_gguf_put_real(w, "f64", ZT_GGUF_F64, 0.1);
    zt_gguf_put_strs(w, "texts", texts, 3);
    zt_gguf_put_array(w, "numbers", ZT_GGUF_I32, numbers, 3);
    zt_type a = zt_type_make(ZT_F16, 2, (int64_t[]){3, 5});
    zt_type b = zt_type_make(ZT_Q4_0, 1, (int64_t[]){64});
    zt_gguf_put_tensor(w, "a.weight", &a);
    zt_gguf_put_tensor(w, "b.weight", &b);
}

static bool same_numbers(const zt_gguf *gguf)
{
    static const struct {
        const char *key;
        int64_t v;
    } want[] = {{"u8", 255},        {"i8", -128},       {"u16", 65535},     {"i16", -32768}, {"u32", UINT32_MAX},
                {"i32", INT32_MIN}, {"u64", INT64_MAX}, {"i64", INT64_MIN}, {"bool", 1},     {"general.alignment", 64}};
    bool same = true;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int64_t v;
        same = same && zt_gguf_i64(gguf, want[i].key, &v) && v == want[i].v;
    }
    return same;
}

/* The store of a header in memory: bytes that tell tensor and place. */
static zt_status read_made(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    ++*(int *)user;
    for (size_t i = 0; i < n; i++) ((char *)dst)[i] = (char)(100 * handle + (int64_t)(offset + i));
    return ZT_OK;
}

static void released(void *user) { *(int *)user = -1; }

static void check_read(zt_gguf *gguf)
{
    double f32 = 0, f64 = 0;
    zt_bytes s = {0}, texts[3] = {{0}};
    int64_t numbers[3] = {0};
    zt_gguf_f64(gguf, "f32", &f32);
    zt_gguf_f64(gguf, "f64", &f64);
    ok(same_numbers(gguf), "integers of every kind at their bounds");
    ok(f32 == 0.5 && f64 == 0.1, "floats");
    ok(zt_gguf_str(gguf, "s", &s) && s.n == 4 && memcmp(s.data, "text", 4) == 0, "a text");
    ok(zt_gguf_array_strs(gguf, "texts", texts, 3) && texts[1].n == 0 && texts[2].n == 3 && memcmp(texts[2].data, "b\0c", 3) == 0,
       "texts");
    ok(zt_gguf_array_i64(gguf, "numbers", numbers, 3) && numbers[0] == -1 && numbers[2] == 7, "numbers");
    zt_type type;
    uint64_t offset;
    size_t bytes;
    const char *name = zt_gguf_tensor(gguf, 1, &type, &offset, &bytes);
    ok(strcmp(name, "b.weight") == 0 && type.dtype == ZT_Q4_0 && type.rank == 1 && type.dim[0] == 64 && bytes == 36 &&
           offset % 64 == 0,
       "a tensor: type, shape, place");
    zt_gguf_tensor(gguf, 0, &type, NULL, NULL);
    ok(type.rank == 2 && type.dim[0] == 3 && type.dim[1] == 5, "row-major shape");
}

static void test_round_trip(zt_ctx *ctx)
{
    zt_gguf_writer *w = zt_gguf_writer_new(ctx);
    size_t count;
    uint64_t data;
    int calls = 0;
    char got[4];
    put_all(w);
    char *header = zt_gguf_writer_finish(w, &count, &data);
    ok(header && count % 64 == 0 && data == 128, "%zu bytes of header for %llu of data", count, (unsigned long long)data);
    zt_gguf_writer_free(w);
    zt_store made = {.user = &calls, .read = read_made};
    zt_gguf *gguf = zt_gguf_over(ctx, "made", header, count, data, &made, released);
    if (!ok(gguf != NULL, "opens over a store %s", zt_ctx_error(ctx))) return;
    check_read(gguf);
    zt_store store = zt_gguf_store(gguf);
    ok(store.read(store.user, 1, 2, got, 4) == ZT_OK && got[0] == 102 && got[3] == 105 && calls == 1, "the store's bytes");
    ok(store.read(store.user, 1, 33, got, 4) == ZT_EUSAGE && calls == 1, "what is past a tensor's end does not reach the store");
    zt_ctx_clear(ctx);
    zt_gguf_close(gguf);
    ok(calls == -1, "the store is released with it");
}

static void test_refusals(zt_ctx *ctx)
{
    zt_type u8 = zt_type_make(ZT_U8, 1, (int64_t[]){1});
    zt_type five = zt_type_make(ZT_F32, 5, (int64_t[]){1, 1, 1, 1, 1});
    zt_type one = zt_type_make(ZT_F32, 1, (int64_t[]){1});
    const char *const what[] = {"256 as u8",
                                "-1 as u32",
                                "2 as bool",
                                "a real as text",
                                "a key twice",
                                "a tensor of u8",
                                "five dimensions",
                                "a name of 64 bytes",
                                "a tensor twice",
                                "an alignment of 48",
                                "an alignment after tensors"};
    char name[65];
    memset(name, 'x', 64);
    name[64] = 0;
    for (int i = 0; i < 11; i++) {
        zt_gguf_writer *w = zt_gguf_writer_new(ctx);
        size_t count;
        zt_gguf_put_str(w, "there", "", 0);
        zt_gguf_put_tensor(w, "there", &one); /* a key and a tensor may have one name */
        bool well = zt_gguf_writer_status(w) == ZT_OK;
        zt_status status[] = {ZT_OK, ZT_OK};
        switch (i) {
        case 0: status[0] = zt_gguf_put_int(w, "k", ZT_GGUF_U8, 256); break;
        case 1: status[0] = zt_gguf_put_int(w, "k", ZT_GGUF_U32, -1); break;
        case 2: status[0] = zt_gguf_put_int(w, "k", ZT_GGUF_BOOL, 2); break;
        case 3: status[0] = zt_gguf_put_real(w, "k", ZT_GGUF_STR, 1); break;
        case 4: status[0] = zt_gguf_put_str(w, "there", "", 0); break;
        case 5: status[0] = zt_gguf_put_tensor(w, "t", &u8); break;
        case 6: status[0] = zt_gguf_put_tensor(w, "t", &five); break;
        case 7: status[0] = zt_gguf_put_tensor(w, name, &one); break;
        case 8: status[0] = zt_gguf_put_tensor(w, "there", &one); break;
        case 9: status[0] = zt_gguf_put_align(w, 48); break;
        default: status[0] = zt_gguf_put_align(w, 64);
        }
        status[1] = zt_gguf_put_str(w, "after", "", 0);
        ok(well && status[0] != ZT_OK && status[1] == status[0] && !zt_gguf_writer_finish(w, &count, NULL),
           "%s: refused, and all that follows", what[i]);
        zt_gguf_writer_free(w);
        zt_ctx_clear(ctx);
    }
}

static void test_no_memory(zt_ctx *ctx)
{
    bool right = true, done = false;
    uint64_t nth = 1;
    for (; !done && nth < 1000; nth++) {
        size_t count;
        zt_mem_fail(ctx, nth, false);
        zt_gguf_writer *w = zt_gguf_writer_new(ctx);
        if (w) put_all(w);
        char *header = w ? zt_gguf_writer_finish(w, &count, NULL) : NULL;
        zt_mem_fail(ctx, 0, false);
        done = header != NULL;
        right = right && (done || zt_ctx_status(ctx) == ZT_ENOMEM);
        zt_free(ctx, header);
        zt_gguf_writer_free(w);
        zt_ctx_clear(ctx);
        right = right && zt_mem_get(ctx).blocks == 0;
    }
    ok(right && done && nth > 5, "memory that runs out at any of %d places", (int)nth - 2);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_round_trip(ctx);
    test_refusals(ctx);
    test_no_memory(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "no leak");
    zt_ctx_free(ctx);
    return tap_done();
}
