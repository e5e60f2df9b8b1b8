/* base64.c - owns bytes as text and back. */
#include "lib/io/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

zt_status zt_base64_put(zt_str *out, const void *bytes, size_t n)
{
    enum { STEP = 3 * 256 };
    const unsigned char *p = bytes;
    char text[STEP / 3 * 4];
    zt_status s = ZT_OK;
    for (size_t k; n && s == ZT_OK; p += k, n -= k) {
        size_t used = 0;
        k = n < STEP ? n : STEP;
        for (size_t i = 0; i < k; i += 3) {
            uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < k ? (uint32_t)p[i + 1] << 8 : 0) |
                         (i + 2 < k ? p[i + 2] : 0);
            text[used++] = digits[v >> 18];
            text[used++] = digits[v >> 12 & 63];
            text[used++] = i + 1 < k ? digits[v >> 6 & 63] : '=';
            text[used++] = i + 2 < k ? digits[v & 63] : '=';
        }
        s = zt_str_put(out, text, used);
    }
    return s;
}

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

char *zt_base64_get(zt_ctx *ctx, const char *text, size_t n, size_t *size)
{
    size_t pad = 0;
    while (pad < 2 && pad < n && text[n - 1 - pad] == '=') pad++;
    if (n % 4 != 0) return NULL;
    char *out = zt_alloc(ctx, n / 4 * 3 + 1), *to = out;
    uint32_t v = 0;
    for (size_t i = 0; out && i < n; i++) {
        int d = i < n - pad ? digit(text[i]) : 0;
        if (d < 0) {
            zt_free(ctx, out);
            return NULL;
        }
        v = v << 6 | (uint32_t)d;
        if (i % 4 == 3) {
            *to++ = (char)(v >> 16);
            *to++ = (char)(v >> 8);
            *to++ = (char)v;
        }
    }
    *size = n / 4 * 3 - pad;
    return out;
}
