/* safetensors_parse.c - an entry of a safetensors header means the same scanned as it does walked: each is
 * read as it is, and with an escape in the name of a member, which is not scanned. What is read is
 * what safetensors 0.8.0 (PyPI) reads. */
#include "lib/io/safetensors.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 400, DATA = 24 };

typedef struct outcome {
    zt_status status;
    char error[300];
    zt_safetensors_entry e;
} outcome;

/* A header of that one entry, and DATA bytes of data. */
static outcome read_entry(zt_ctx *ctx, const char *entry)
{
    char file[8 + ROOM + DATA + 16] = {0};
    uint64_t len = (uint64_t)snprintf(file + 8, ROOM, "{\"a\":%s}", entry);
    outcome o = {.status = ZT_OK};
    memcpy(file, &len, 8);
    zt_source *in = zt_source_memory(ctx, "m", file, 8 + len + DATA);
    zt_safetensors *safetensors = zt_safetensors_from(ctx, in);
    if (safetensors && zt_safetensors_count(safetensors) == 1) o.e = *zt_safetensors_get(safetensors, 0);
    o.e.name = NULL;
    o.status = zt_ctx_status(ctx);
    snprintf(o.error, sizeof o.error, "%s", zt_ctx_error(ctx));
    zt_safetensors_close(safetensors);
    zt_source_close(in);
    zt_ctx_clear(ctx);
    return o;
}

/* The first name of a member that is whole gets its first letter as an escape. */
static bool put_escape(const char *entry, char to[ROOM])
{
    static const char *const names[] = {"\"dtype\"", "\"shape\"", "\"data_offsets\""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *at = strstr(entry, names[i]);
        if (!at) continue;
        int before = (int)(at - entry) + 1;
        snprintf(to, ROOM, "%.*s\\u%04x%s", before, entry, (unsigned)at[1], at + 2);
        return true;
    }
    return false;
}

static bool same_type(const zt_type *a, const zt_type *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

/* What is wrong with an entry as JSON is told with the text around it, and that differs. */
static bool same_outcome(const outcome *a, const outcome *b)
{
    bool json = strstr(a->error, ": JSON, ") && strstr(b->error, ": JSON, ");
    return a->status == b->status && a->e.dtype == b->e.dtype && a->e.bytes == b->e.bytes && a->e.rank == b->e.rank &&
           same_type(&a->e.type, &b->e.type) && (json || strcmp(a->error, b->error) == 0);
}

/* 1: both open it; 0: both refuse it; -1: they differ. */
static int compare(zt_ctx *ctx, const char *entry)
{
    char other[ROOM];
    if (!put_escape(entry, other)) return 0;
    outcome a = read_entry(ctx, entry), b = read_entry(ctx, other);
    if (same_outcome(&a, &b)) return a.status == ZT_OK;
    diag("'%s' and '%s' for %s", a.error, b.error, zt_escape(other, sizeof other, entry, strlen(entry)));
    return -1;
}

static void test_by_hand(zt_ctx *ctx)
{
    static const struct {
        const char *entry;
        int verdict;
    } list[] = {
        {"{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}", 1},
        {" \n{\t\"shape\" : [ 2 ,\r3 ] , \"data_offsets\":[ 0 , 24 ],\"dtype\": \"F32\" } ", 1},
        {"{\"dtype\":\"F32\",\"data_offsets\":[0,24],\"shape\":[1,1,1,1,1,1,1,1,6]}", 1},
        {"{\"dtype\":\"F64\",\"shape\":[0,3],\"data_offsets\":[24,24]}", 0},
        {"{\"dtype\":\"F4\",\"shape\":[48],\"data_offsets\":[0,24]}", 1},
        {"{\"dtype\":\"F4\",\"shape\":[47],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"F8_E8M0\",\"shape\":[-0,24],\"data_offsets\":[0,0]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[-0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[024],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24.0],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[2e1],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24,],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[2 4],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,23]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[24,0]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[999999999999999999],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[9223372036854775807],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[9223372036854775808],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[18446744073709551640],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U9\",\"shape\":[24],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8 \",\"shape\":[24],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"\",\"shape\":[24],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":8,\"shape\":[24],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"shape\":[24]}", 0},
        {"{\"dtype\":\"U8\",\"dtype\":\"U8\",\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"\":1}", 1},
        {"{\"x\":[],\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24]}", 1},
        {"{\"dtype\":\"U8\",\"x\":{\"y\":[1e9,-0,null,{}]},\"shape\":[24],\"data_offsets\":[0,24]}", 1},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"x\":1,\"x\":\"\\u0000\"}", 1},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"x\":\"\\ud83d\\ude00\"}", 1},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"x\":\"\\ud83d\"}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"x\":\"\\x\"}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"x\":\"\xff\"}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"x\":01}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"x\":1e400}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"x\":nul}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"x\":[1,]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],\"x\"}", 0},
        {"{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24],}", 0},
        {"{\"dtype\":\"U8\"\"shape\":[24],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\" \"U8\",\"shape\":[24],\"data_offsets\":[0,24]}", 0},
        {"{\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,24]}", 0},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char text[ROOM];
        ok(compare(ctx, list[i].entry) == list[i].verdict, "%s %s", list[i].verdict ? "read" : "refused",
           zt_escape(text, sizeof text, list[i].entry, strlen(list[i].entry)));
    }
}

/* ---- drawn ----------------------------------------------------------------------------------- */

static uint64_t state = 20261122;

static size_t below(size_t n) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (size_t)((z ^ z >> 31) % n);
}

/* One byte is another, is gone, or is put in; the text keeps one at least. */
static void change(char *text)
{
    static const char draw[] = "{}[]\",:: \n\t0123456789-+.eEFBUI\\x";
    size_t length = strlen(text), at = below(length), how = below(3);
    char c = draw[below(sizeof draw - 1)];
    if (how == 0)
        text[at] = c;
    else if (how == 1 && length > 1)
        memmove(text + at, text + at + 1, length - at);
    else if (how == 2) {
        memmove(text + at + 1, text + at, length - at + 1);
        text[at] = c;
    }
}

static void test_drawn(zt_ctx *ctx)
{
    static const char *const from[] = {"{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}",
                                       "{\"data_offsets\": [0, 24], \"shape\": [12], \"dtype\": \"BF16\"}",
                                       "{\"dtype\":\"I8\",\"shape\":[1,24,1],\"data_offsets\":[0,24]}"};
    enum { ROUNDS = 20000 };
    int count[3] = {0}, *told = count + 1;
    for (int i = 0; i < ROUNDS; i++) {
        char entry[ROOM];
        snprintf(entry, sizeof entry, "%s", from[below(3)]);
        for (size_t k = 1 + below(3); k > 0; k--) change(entry);
        told[compare(ctx, entry)]++;
    }
    ok(told[-1] == 0 && told[1] > ROUNDS / 100 && told[0] > ROUNDS / 2,
       "of %d drawn entries %d are read, %d refused, %d not alike", ROUNDS, told[1], told[0], told[-1]);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_by_hand(ctx);
    test_drawn(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "no leak");
    zt_ctx_free(ctx);
    return tap_done();
}
