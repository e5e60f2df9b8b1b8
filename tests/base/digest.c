/* digest.c - SHA-256 beside the examples of FIPS 180-4, in pieces, again, and as text. */
#include "lib/base/digest.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    int times;
    const char *digest;
} cases[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

static void test_examples(zt_ctx *ctx)
{
    zt_digest *digest = zt_digest_new(ctx);
    uint8_t sum[ZT_DIGEST_BYTES], again[ZT_DIGEST_BYTES];
    char text[ZT_DIGEST_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zt_status status = ZT_OK;
        for (int n = 0; n < cases[i].times && !status; n++) status = zt_digest_add(digest, cases[i].text, strlen(cases[i].text));
        if (!status) status = zt_digest_end(digest, sum);
        ok(!status && !strcmp(zt_digest_text(sum, text), cases[i].digest), "%d times %.10s: %s", cases[i].times, cases[i].text,
           text);
        ok(zt_digest_parse(text, again) && !memcmp(sum, again, sizeof sum), "and back from text");
    }
    zt_digest_free(digest);
}

static void test_texts(void)
{
    uint8_t sum[ZT_DIGEST_BYTES];
    char text[ZT_DIGEST_TEXT + 1];
    memset(text, 'a', sizeof text);
    text[ZT_DIGEST_TEXT] = 0;
    ok(!zt_digest_parse(text, sum), "65 digits are refused");
    text[ZT_DIGEST_TEXT - 1] = 0;
    ok(zt_digest_parse(text, sum) && sum[0] == 0xaa && sum[31] == 0xaa, "64 are read");
    text[63] = 'A';
    ok(!zt_digest_parse(text, sum), "upper case is refused");
    text[63] = 0;
    ok(!zt_digest_parse(text, sum), "63 are refused");
}

static void test_missing(zt_ctx *ctx)
{
    setenv("ZT_LIBCRYPTO", "/none.so", 1);
    ok(!zt_digest_new(ctx) && zt_ctx_status(ctx) == ZT_ENOTSUP, "no library");
    zt_ctx_clear(ctx);
    setenv("ZT_LIBCRYPTO", "libm.so.6", 1);
    ok(!zt_digest_new(ctx) && zt_ctx_status(ctx) == ZT_ENOTSUP, "another library");
    zt_ctx_clear(ctx);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_examples(ctx);
    test_texts();
    test_missing(ctx);
    zt_ctx_free(ctx);
    return tap_done();
}
