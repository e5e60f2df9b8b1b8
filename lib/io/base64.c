/* base64.c - owns bytes as text and back. */
#include "lib/io/base64.h"

#include "lib/base/require.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t zt_base64_size(size_t size) { return (size + 2) / 3 * 4; }

static char *put_four(char *output, uint32_t bits)
{
    *output++ = digits[bits >> 18];
    *output++ = digits[bits >> 12 & 63];
    *output++ = digits[bits >> 6 & 63];
    *output++ = digits[bits & 63];
    return output;
}

void zt_base64(const void *bytes, size_t size, char *output)
{
    const unsigned char *input = bytes;
    if (!output || !bytes) return;
    for (; size >= 3; input += 3, size -= 3)
        output = put_four(output, (uint32_t)input[0] << 16 | (uint32_t)input[1] << 8 | input[2]);
    if (size == 0) return;
    output = put_four(output, (uint32_t)input[0] << 16 | (size == 2 ? (uint32_t)input[1] << 8 : 0));
    output[-1] = '=';
    if (size == 1) output[-2] = '=';
}

zt_status zt_base64_put(zt_str *out, const void *bytes, size_t size)
{
    enum { STEP = 3 * 256 };
    if (!out) return ZT_EUSAGE;
    ZT_REQUIRE(out->ctx, bytes || !size, ZT_EUSAGE);
    const char *input = bytes;
    char encoded[STEP / 3 * 4];
    zt_status status = ZT_OK;
    for (size_t step; size && status == ZT_OK; input += step, size -= step) {
        step = size < STEP ? size : STEP;
        zt_base64(input, step, encoded);
        status = zt_str_put(out, encoded, zt_base64_size(step));
    }
    return status;
}

static int digit_value(char character)
{
    if (character >= 'A' && character <= 'Z') return character - 'A';
    if (character >= 'a' && character <= 'z') return character - 'a' + 26;
    if (character >= '0' && character <= '9') return character - '0' + 52;
    return character == '+' ? 62 : character == '/' ? 63 : -1;
}

char *zt_base64_get(zt_ctx *ctx, const char *text, size_t length, size_t *size)
{
    size_t padding = 0;
    ZT_REQUIRE(ctx, ctx && text && size, NULL);
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=') padding++;
    if (length % 4 != 0) return NULL;
    char *out = zt_alloc(ctx, length / 4 * 3 + 1), *cursor = out;
    uint32_t bits = 0;
    for (size_t i = 0; out && i < length; i++) {
        int value = i < length - padding ? digit_value(text[i]) : 0;
        if (value < 0) {
            zt_free(ctx, out);
            return NULL;
        }
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 == 3) {
            *cursor++ = (char)(bits >> 16);
            *cursor++ = (char)(bits >> 8);
            *cursor++ = (char)bits;
        }
    }
    *size = length / 4 * 3 - padding;
    return out;
}
