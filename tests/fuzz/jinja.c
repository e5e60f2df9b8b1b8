/* jinja.c - a fuzz target for Jinja templates: any bytes are refused, or render within their
 * bounds to valid UTF-8 of which each byte has an origin.
 *
 * Bytes up to the first zero are the template, those after it a text among its variables. Drivers: see
 * main.c and make fuzz.
 */
#include "lib/llm/jinja/jinja.h"
#include "tests/fuzz/result.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check_status(zt_ctx *ctx, zt_status s)
{
    if (s != ZT_OK && s != ZT_EDATA && s != ZT_ENOTSUP && s != ZT_ENOMEM) abort();
    if (s != zt_ctx_status(ctx)) abort();
}

static void render(zt_ctx *ctx, const zt_jinja *t, const json_t *vars)
{
    zt_str out, origin;
    zt_str_init(&out, ctx);
    zt_str_init(&origin, ctx);
    zt_jinja_vars v = {.input = vars, .now = 0, .utc = true, .limits = {.steps = 200000, .memory = 1 << 24, .output = 1 << 20}};
    zt_status status = zt_jinja_render(ctx, t, &v, &out, &origin);
    check_status(ctx, status);
    if (out.len != origin.len || out.len > (1 << 20) || (status != ZT_OK && out.len) ||
        !zt_utf8_valid(out.len ? out.data : "", out.len))
        abort();
    for (size_t i = 0; i < origin.len; i++)
        if ((unsigned char)origin.data[i] > 1) abort();
    zt_str_fini(&out);
    zt_str_fini(&origin);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char text[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a b\\n\"}, {\"role\": \"assistant\", "
        "\"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1}}}]}],"
        " \"tools\": null, \"s\": \"Hi <b>\", \"n\": 3, \"f\": 1.5, \"l\": [3, 1, 2], \"d\": {\"a\": 1, \"b\": [true]}}";
    const uint8_t *zero = count ? memchr(bytes, 0, count) : NULL;
    size_t len = zero ? (size_t)(zero - bytes) : count;
    json_t *vars = json_loads(text, 0, NULL);
    if (zero) json_object_set_new(vars, "u", json_stringn((const char *)zero + 1, count - len - 1));
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx || !vars) abort();
    zt_mem_limit(ctx, 1 << 27);
    zt_jinja *t = zt_jinja_parse(ctx, "t", (const char *)bytes, len);
    check_status(ctx, zt_ctx_status(ctx));
    if (!t && zt_ctx_status(ctx) == ZT_OK) abort();
    note_result(bytes, count, t ? "" : zt_ctx_error(ctx));
    if (t) render(ctx, t, vars);
    zt_jinja_free(t);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    json_decref(vars);
    return 0;
}
