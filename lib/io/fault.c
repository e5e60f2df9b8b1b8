/* fault.c - owns who is told of a file's faults: a thing of the context's. */
#include "lib/io/fault.h"

#include <stdio.h>

static const char kind[] = "faults";

zt_status zt_faults_listen(zt_ctx *ctx, const zt_faults *faults) { return zt_ctx_put(ctx, kind, "", faults); }

zt_status zt_faults_tell(zt_ctx *ctx, const char *format, ...)
{
    char text[2048];
    const zt_faults *faults = zt_ctx_get(ctx, kind, "");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!faults) return zt_fail(ctx, ZT_EDATA, "%s", text);
    faults->tell(faults->user, text);
    return ZT_OK;
}

zt_status zt_faults_pass(zt_ctx *ctx, zt_status status)
{
    const zt_faults *faults = zt_ctx_get(ctx, kind, "");
    if (status != ZT_EDATA || !faults) return status;
    faults->tell(faults->user, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    return ZT_OK;
}
