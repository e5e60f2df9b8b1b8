/* base64.c - owns bytes as text and back. */
#include "lib/io/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t zt_base64_size(size_t n) { return (n + 2) / 3 * 4; }

static char *put_four(char *to, uint32_t v)
{
    *to++ = digits[v >> 18];
    *to++ = digits[v >> 12 & 63];
    *to++ = digits[v >> 6 & 63];
    *to++ = digits[v & 63];
    return to;
}

void zt_base64(const void *bytes, size_t n, char *to)
{
    const unsigned char *p = bytes;
    for (; n >= 3; p += 3, n -= 3)
        to = put_four(to, (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2]);
    if (n == 0) return;
    to = put_four(to, (uint32_t)p[0] << 16 | (n == 2 ? (uint32_t)p[1] << 8 : 0));
    to[-1] = '=';
    if (n == 1) to[-2] = '=';
}

zt_status zt_base64_put(zt_str *out, const void *bytes, size_t n)
{
    enum { STEP = 3 * 256 };
    const char *p = bytes;
    char text[STEP / 3 * 4];
    zt_status s = ZT_OK;
    for (size_t k; n && s == ZT_OK; p += k, n -= k) {
        k = n < STEP ? n : STEP;
        zt_base64(p, k, text);
        s = zt_str_put(out, text, zt_base64_size(k));
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
