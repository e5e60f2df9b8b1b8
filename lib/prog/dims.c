/* dims.c - owns symbols and dimension expressions: making, folding, printing, evaluating.
 *
 * Between numbers below 0 may appear (n - 8 + m); a dimension below 0 is refused where it is used.
 */
#include "lib/prog/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool zt_dim_known(const zt_prog *p, int64_t dim)
{
    return dim >= 0 || -1 - dim < p->exprs.n;
}

/* a op b; NULL, or what is wrong with it. */
static const char *apply(char op, int64_t a, int64_t b, int64_t *r)
{
    bool over = false;
    if (op == '+') over = __builtin_add_overflow(a, b, r);
    if (op == '-') over = __builtin_sub_overflow(a, b, r);
    if (op == '*') over = __builtin_mul_overflow(a, b, r);
    if (op == '/') {
        if (b == 0) return "divides by zero";
        if (a == INT64_MIN && b == -1) return "overflows";
        *r = a / b - (a % b != 0 && (a < 0) != (b < 0));
    }
    return over ? "overflows" : NULL;
}

/* ---- make ------------------------------------------------------------------------------------ */

static int64_t add(zt_prog *p, zt_expr e)
{
    zt_expr *to = zt_prog_push(p, &p->exprs, sizeof *to, "dimension expressions");
    if (!to) return 0;
    *to = e;
    return -(int64_t)p->exprs.n;
}

int64_t zt_dim_symbol(zt_prog *p, zt_span name)
{
    for (int i = 0; i < p->n_symbols; i++)
        if (zt_span_is(name, p->symbol[i])) return p->symbol_dim[i];
    if (zt_name_check(p, "symbol", name)) return 0;
    if (p->n_symbols == ZT_MAX_SYMBOLS) {
        char buf[ZT_QUOTE];
        zt_prog_fail(p, ZT_EUSAGE, "symbol '%s': a program has at most %d symbols",
                     zt_quote(buf, name), ZT_MAX_SYMBOLS);
        return 0;
    }
    const char *copy = zt_arena_strndup(p->memory, name.s, name.n);
    int64_t dim = copy ? add(p, (zt_expr){.op = 's', .terms = 1, .a = p->n_symbols}) : 0;
    if (dim == 0) return 0;
    p->symbol[p->n_symbols] = copy;
    p->symbol_dim[p->n_symbols++] = dim;
    return dim;
}

int zt_prog_symbol_of(const zt_prog *p, int64_t dim)
{
    for (int i = 0; i < p->n_symbols; i++)
        if (p->symbol_dim[i] == dim) return i;
    return -1;
}

int64_t zt_prog_symbol(zt_prog *p, const char *name)
{
    return zt_dim_symbol(p, zt_span_of(name));
}

static zt_status fold(zt_prog *p, char op, int64_t a, int64_t b, int64_t *dim)
{
    const char *wrong = apply(op, a, b, dim);
    if (!wrong && *dim < 0) wrong = "is below 0";
    if (!wrong) return ZT_OK;
    return zt_prog_fail(p, ZT_EDATA, "dimension %" PRId64 "%c%" PRId64 " %s", a, op, b, wrong);
}

zt_status zt_dim_join(zt_prog *p, char op, int64_t a, int64_t b, int64_t *dim)
{
    if (a >= 0 && b >= 0) return fold(p, op, a, b, dim);
    int terms = (a < 0 ? zt_expr_at(p, a)->terms : 1) + (b < 0 ? zt_expr_at(p, b)->terms : 1);
    if (terms > ZT_MAX_TERMS)
        return zt_prog_fail(p, ZT_EUSAGE, "a dimension has at most %d numbers and symbols",
                            ZT_MAX_TERMS);
    *dim = add(p, (zt_expr){.op = op, .terms = terms, .a = a, .b = b});
    return *dim ? ZT_OK : zt_ctx_status(p->ctx);
}

int64_t zt_prog_dim(zt_prog *p, char op, int64_t a, int64_t b)
{
    int64_t dim = 0;
    if (op && strchr("+-*/", op) && zt_dim_known(p, a) && zt_dim_known(p, b))
        return zt_dim_join(p, op, a, b, &dim) ? 0 : dim;
    zt_prog_fail(p, ZT_EUSAGE, "operator %d on dimensions %" PRId64 " and %" PRId64
                 ": one of them is not this program's", op, a, b);
    return 0;
}

/* ---- print ----------------------------------------------------------------------------------- */

/* How tightly it binds: sums, products, then numbers and symbols. */
static int level(const zt_prog *p, int64_t dim)
{
    char op = dim < 0 ? zt_expr_at(p, dim)->op : 's';
    return op == 's' ? 3 : op == '*' || op == '/' ? 2 : 1;
}

static zt_status put_operand(const zt_prog *p, int64_t dim, bool parens, zt_str *out)
{
    zt_status s = parens ? zt_str_putc(out, '(') : ZT_OK;
    if (!s) s = zt_dim_put(p, dim, out);
    if (!s && parens) s = zt_str_putc(out, ')');
    return s;
}

/* As deep as the expression, which ZT_MAX_TERMS bounds. */
zt_status zt_dim_put(const zt_prog *p, int64_t dim, zt_str *out)
{
    if (dim >= 0) return zt_str_printf(out, "%" PRId64, dim);
    const zt_expr *e = zt_expr_at(p, dim);
    if (e->op == 's') return zt_str_puts(out, p->symbol[e->a]);
    int own = level(p, dim);
    zt_status s = put_operand(p, e->a, level(p, e->a) < own, out);
    if (!s) s = zt_str_putc(out, e->op);
    if (!s) s = put_operand(p, e->b, level(p, e->b) <= own, out);
    return s;
}

zt_status zt_dims_put(const zt_prog *p, int rank, const int64_t *dim, zt_str *out)
{
    zt_status s = zt_str_putc(out, '[');
    for (int i = 0; i < rank && !s; i++) {
        if (i > 0) s = zt_str_putc(out, ',');
        if (!s) s = zt_dim_put(p, dim[i], out);
    }
    return s ? s : zt_str_putc(out, ']');
}

/* ---- evaluate -------------------------------------------------------------------------------- */

/* "dimension n/m: 8/0 divides by zero" */
ZT_PRINTF(3, 4)
static zt_status refuse(const zt_prog *p, int64_t dim, const char *fmt, ...)
{
    char wrong[96];
    zt_str text;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(wrong, sizeof wrong, fmt, ap);
    va_end(ap);
    zt_str_init(&text, p->ctx);
    zt_status s = zt_dim_put(p, dim, &text);
    if (!s) s = zt_prog_fail(p, ZT_EDATA, "dimension %s%s", text.data, wrong);
    zt_str_fini(&text);
    return s;
}

zt_status zt_dims_eval(const zt_prog *p, const int64_t *symbol, int64_t *value)
{
    for (int i = 0; i < p->exprs.n; i++) {
        const zt_expr *e = (const zt_expr *)p->exprs.at + i;
        if (e->op == 's') {
            value[i] = symbol[e->a];
            continue;
        }
        int64_t a = e->a < 0 ? value[-1 - e->a] : e->a, b = e->b < 0 ? value[-1 - e->b] : e->b;
        const char *wrong = apply(e->op, a, b, &value[i]);
        if (wrong) return refuse(p, -1 - i, ": %" PRId64 "%c%" PRId64 " %s", a, e->op, b, wrong);
    }
    return ZT_OK;
}

zt_status zt_dims_bind(const zt_prog *p, const int64_t *value, int rank, int64_t *dim)
{
    for (int i = 0; i < rank; i++) {
        if (dim[i] >= 0) continue;
        int64_t v = value[-1 - dim[i]];
        if (v < 0) return refuse(p, dim[i], " is %" PRId64, v);
        dim[i] = v;
    }
    return ZT_OK;
}
