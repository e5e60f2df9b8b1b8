/* symbols.c - owns the numbers that a program itself gives its symbols: its line `bind`. */
#include "lib/prog/list.h"

#include <inttypes.h>
#include <string.h>

zt_status zt_prog_give(zt_prog *p, zt_span symbol, int64_t value)
{
    zt_status s = zt_name_check(p, "symbol", symbol);
    for (int i = 0; i < p->n_given && !s; i++)
        if (zt_span_is(symbol, p->given[i].symbol))
            s = zt_prog_fail(p, ZT_EUSAGE, "symbol '%s' has a number already",
                             p->given[i].symbol);
    if (!s && value < 0)
        s = zt_prog_fail(p, ZT_EUSAGE, "symbol '%.*s' is %" PRId64 ", below 0", (int)symbol.n,
                         symbol.s, value);
    if (!s && p->n_given == ZT_MAX_SYMBOLS)
        s = zt_prog_fail(p, ZT_EUSAGE, "a program has at most %d symbols", ZT_MAX_SYMBOLS);
    if (s) return s;
    const char *copy = zt_arena_strndup(p->memory, symbol.s, symbol.n);
    if (!copy) return ZT_ENOMEM;
    p->given[p->n_given++] = (zt_binding){copy, value};
    return ZT_OK;
}

zt_status zt_prog_set_binding(zt_prog *p, const char *symbol, int64_t value)
{
    return zt_prog_give(p, zt_span_of(symbol), value);
}

void zt_prog_bindings(const zt_prog *p, zt_binding *b, int *n)
{
    int before = *n;
    for (int i = 0; i < p->n_given && *n < ZT_MAX_SYMBOLS; i++) {
        int k = 0;
        while (k < before && strcmp(b[k].symbol, p->given[i].symbol) != 0) k++;
        if (k == before) b[(*n)++] = p->given[i];
    }
}

/* ---- symbols that the text names ------------------------------------------------------------- */

/* A dimension has at most ZT_MAX_TERMS terms. */
static void mark_dim(const zt_prog *p, int64_t dim, bool used[ZT_MAX_SYMBOLS])
{
    if (dim >= 0) return;
    const zt_expr *e = zt_expr_at(p, dim);
    if (e->op == 's') {
        used[e->a] = true;
        return;
    }
    mark_dim(p, e->a, used);
    mark_dim(p, e->b, used);
}

static void mark_dims(const zt_prog *p, int n, const int64_t *dim, bool used[ZT_MAX_SYMBOLS])
{
    for (int i = 0; i < n; i++) mark_dim(p, dim[i], used);
}

static void mark_attrs(const zt_prog *p, const zt_step *st, bool used[ZT_MAX_SYMBOLS])
{
    const zt_opinfo *info = zt_op_info(st->op);
    for (int k = 0; k < info->n_attrs; k++) {
        zt_dims d;
        if (info->attrs[k].kind != ZT_ATTR_dims) continue;
        memcpy(&d, (const char *)st->attrs + info->attrs[k].offset, sizeof d);
        mark_dims(p, d.n, d.dim, used);
    }
}

/* Those that stand in dimensions of declarations and attributes. */
static void mark_used(const zt_prog *p, bool used[ZT_MAX_SYMBOLS])
{
    memset(used, 0, ZT_MAX_SYMBOLS * sizeof *used);
    for (int v = 0; v < p->values.n; v++) {
        const zt_value *val = zt_prog_value(p, v);
        if (val->kind != ZT_VALUE_OP) mark_dims(p, val->type.rank, val->type.dim, used);
    }
    for (int s = 0; s < p->steps.n; s++)
        if (((const zt_made *)p->steps.at)[s].symbolic) mark_attrs(p, zt_prog_step(p, s), used);
}

static bool is_used(const zt_prog *p, const char *symbol, const bool used[ZT_MAX_SYMBOLS])
{
    for (int i = 0; i < p->n_symbols; i++)
        if (used[i] && !strcmp(p->symbol[i], symbol)) return true;
    return false;
}

zt_status zt_given_check(const zt_prog *p)
{
    bool used[ZT_MAX_SYMBOLS];
    if (!p->n_given) return ZT_OK;
    mark_used(p, used);
    for (int i = 0; i < p->n_given; i++)
        if (!is_used(p, p->given[i].symbol, used))
            return zt_prog_fail(p, ZT_EDATA, "bind: no dimension has a symbol '%s'",
                                p->given[i].symbol);
    return ZT_OK;
}

zt_status zt_given_put(const zt_prog *p, zt_str *out)
{
    bool used[ZT_MAX_SYMBOLS];
    int n = 0;
    zt_status s = ZT_OK;
    if (!p->n_given) return ZT_OK;
    mark_used(p, used);
    for (int i = 0; i < p->n_given && !s; i++)
        if (is_used(p, p->given[i].symbol, used))
            s = zt_str_printf(out, "%s %s=%" PRId64, n++ ? "" : "bind ", p->given[i].symbol,
                              p->given[i].value);
    return s || !n ? s : zt_str_putc(out, '\n');
}
