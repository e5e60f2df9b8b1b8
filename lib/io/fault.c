/* fault.c - owns who is told of a file's faults: a thing of the context's. */
#include "lib/io/fault.h"

#include <stdio.h>

static const char kind[] = "faults";

zt_status zt_faults_listen(zt_ctx *ctx, const zt_faults *f) { return zt_ctx_put(ctx, kind, "", f); }

zt_status zt_faults_tell(zt_ctx *ctx, const char *fmt, ...)
{
    char text[2048];
    const zt_faults *f = zt_ctx_get(ctx, kind, "");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!f) return zt_fail(ctx, ZT_EDATA, "%s", text);
    f->tell(f->user, text);
    return ZT_OK;
}

zt_status zt_faults_pass(zt_ctx *ctx, zt_status s)
{
    const zt_faults *f = zt_ctx_get(ctx, kind, "");
    if (s != ZT_EDATA || !f) return s;
    f->tell(f->user, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    return ZT_OK;
}
