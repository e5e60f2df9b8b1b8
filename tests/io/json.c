/* json.c - JSON that nobody vouches for: what is one value, and what is none. */
#include "lib/io/json.h"
#include "tests/common/tap.h"

#include <string.h>

#define TEXT(s) s, sizeof(s) - 1

int main(void)
{
    static const struct {
        const char *text;
        size_t n;
        bool good;
    } row[] = {
        {TEXT("{\"a\":[1,2.5,null]}"), true},
        {TEXT(" 12 "), true},
        {TEXT("{\"a\":1,\"a\":1}"), false},
        {TEXT("[1] 2"), false},
        {TEXT(""), false},
        {TEXT("[1\0]"), false},
        {TEXT("[1\0,2]"), false},
        {TEXT("[\0"
              "1]"),
         false},
        {TEXT("\n[true\0]"), false},
        {TEXT("12\0"), false},
        {TEXT("[\"a\0b\"]"), false},
        {TEXT("[\"a\\u0000b\"]"), false}, /* U+0000: no string of C holds it */
    };
    zt_ctx *ctx = zt_ctx_new();
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        json_error_t error;
        json_t *quiet = zt_json_parse(row[i].text, row[i].n, JSON_DECODE_ANY, &error);
        json_t *root = zt_json_load(ctx, "x.json", row[i].text, row[i].n);
        ok(!!root == row[i].good && !!quiet == row[i].good && zt_ctx_status(ctx) == (row[i].good ? ZT_OK : ZT_EDATA), "%zu: %s%s",
           i, row[i].good ? "a value" : "none: ", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        json_decref(root);
        json_decref(quiet);
    }
    json_error_t error;
    json_t *root = zt_json_parse(TEXT("[1,\n\n2\0]"), 0, &error);
    ok(!root && error.line == 3 && strstr(error.text, "byte 6"), "a zero byte's place: line %d, %s", error.line, error.text);
    ok(!zt_json_parse(TEXT("[1\0]"), 0, NULL), "without asking why");
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
