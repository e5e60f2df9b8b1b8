/* refusal.h - for tests: what an op refuses, and in which words. */
#ifndef ZT_REFUSAL_H
#define ZT_REFUSAL_H

#include "lib/ops/ops.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

typedef struct refusal {
    zt_op op;
    const void *attrs; /* NULL: defaults */
    zt_status status;
    const char *says;
    const char *in[ZT_MAX_IN]; /* "f32 2 3"; NULL: absent */
} refusal;

static zt_type read_type(const char *text)
{
    zt_type t = {.dtype = ZT_F32};
    size_t n = strcspn(text, " ");
    if (!zt_dtype_parse(text, n, &t.dtype)) t.rank = -1;
    for (const char *p = text + n; *p; p += strcspn(p, " ")) t.dim[t.rank++] = atoll(++p);
    return t;
}

static void op_refused(const refusal *r)
{
    const zt_opinfo *info = zt_op_info(r->op);
    zt_ctx *ctx = zt_ctx_new();
    zt_type type[ZT_MAX_IN], out[ZT_MAX_OUT];
    const zt_type *in[ZT_MAX_IN] = {0};
    char name[40], text[ZT_TYPE_TEXT];
    for (int k = 0; k < ZT_MAX_IN; k++) {
        if (!r->in[k]) continue;
        type[k] = read_type(r->in[k]);
        in[k] = &type[k];
    }
    zt_status result = zt_op_infer(ctx, r->op, r->attrs, in, out);
    const char *e = zt_ctx_error(ctx);
    snprintf(name, sizeof name, "op %s: ", info->name);
    bool good = result == r->status && zt_ctx_status(ctx) == result && !strncmp(e, name, strlen(name)) && strstr(e, r->says) &&
                strstr(e, zt_type_text(in[0], text));
    good &= zt_op_infer(NULL, r->op, r->attrs, in, out) == result;
    if (!ok(good, "%s refuses: %s", info->name, r->says)) diag("status %d: %s", (int)result, e);
    zt_ctx_free(ctx);
}

#endif
