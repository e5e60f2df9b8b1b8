/* subject.c - programs that tools run: their text, and numbers for their symbols. */
#include "tools/common/subject.h"

#include <string.h>

zt_prog *zt_cli_program(zt_cli *cli, const char *path)
{
    size_t n;
    char *text = zt_read_all(cli->ctx, path, &n);
    zt_prog *p = text ? zt_prog_parse(cli->ctx, strcmp(path, "-") ? path : "stdin", text, n) : NULL;
    zt_free(cli->ctx, text);
    return p;
}

/* The n bytes at `at`, "NAME=N", as the next binding. */
static zt_status take_binding(zt_ctx *ctx, const char *at, size_t n, zt_bindings *b)
{
    char shown[64], number[24];
    size_t name = strcspn(at, "=");
    if (b->n == ZT_MAX_SYMBOLS || name >= n || name == 0 || name >= sizeof b->name[0])
        return zt_fail(ctx, ZT_EUSAGE, "--bind: '%s' is not NAME=N,...",
                       zt_escape(shown, sizeof shown, at, n));
    zt_binding *next = &b->at[b->n];
    size_t digits = n - name - 1;
    snprintf(b->name[b->n], sizeof b->name[0], "%.*s", (int)name, at);
    snprintf(number, sizeof number, "%.*s", (int)(digits < 24 ? digits : 23), at + name + 1);
    next->symbol = b->name[b->n];
    if (!zt_parse_i64(number, &next->value) || next->value < 0)
        return zt_fail(ctx, ZT_EUSAGE, "--bind: '%s' is not a size",
                       zt_escape(shown, sizeof shown, at + name + 1, digits));
    b->n++;
    return ZT_OK;
}

zt_status zt_bindings_parse(zt_ctx *ctx, const char *text, zt_bindings *b)
{
    zt_status s = ZT_OK;
    b->n = 0;
    for (const char *at = text; at && *at && s == ZT_OK;) {
        size_t n = strcspn(at, ",");
        s = take_binding(ctx, at, n, b);
        at += n + (at[n] == ',');
    }
    return s;
}
