/* dims.c - owns symbols and dimension expressions: making, folding, printing, evaluating.
 *
 * Between numbers below 0 may appear (n - 8 + m); a dimension below 0 is refused where it is used.
 */
#include "lib/prog/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool zt_dim_known(const zt_prog *program, int64_t dim)
{
    return dim >= 0 || -1 - dim < program->exprs.n;
}

/* a op b; NULL, or what is wrong with it. */
static const char *apply(char operator, int64_t a, int64_t b, int64_t *r)
{
    bool over = false;
    if (operator == '+') over = __builtin_add_overflow(a, b, r);
    if (operator == '-') over = __builtin_sub_overflow(a, b, r);
    if (operator == '*') over = __builtin_mul_overflow(a, b, r);
    if (operator == '/') {
        if (b == 0) return "divides by zero";
        if (a == INT64_MIN && b == -1) return "overflows";
        *r = a / b - (a % b != 0 && (a < 0) != (b < 0));
    }
    return over ? "overflows" : NULL;
}

/* ---- make ------------------------------------------------------------------------------------ */

static int64_t add(zt_prog *program, zt_expr e)
{
    zt_expr *to = zt_prog_push(program, &program->exprs, sizeof *to, "dimension expressions");
    if (!to) return 0;
    *to = e;
    return -(int64_t)program->exprs.n;
}

int64_t zt_dim_symbol(zt_prog *program, zt_span name)
{
    for (int i = 0; i < program->n_symbols; i++)
        if (zt_span_is(name, program->symbol[i])) return program->symbol_dim[i];
    if (zt_name_check(program, "symbol", name)) return 0;
    if (program->n_symbols == ZT_MAX_SYMBOLS) {
        char buf[ZT_QUOTE];
        zt_prog_fail(program, ZT_EUSAGE, "symbol '%s': a program has at most %d symbols",
                     zt_quote(buf, name), ZT_MAX_SYMBOLS);
        return 0;
    }
    const char *copy = zt_arena_strndup(program->memory, name.s, name.n);
    int64_t dim = copy ? add(program, (zt_expr){.op = 's', .terms = 1, .a = program->n_symbols}) : 0;
    if (dim == 0) return 0;
    program->symbol[program->n_symbols] = copy;
    program->symbol_dim[program->n_symbols++] = dim;
    return dim;
}

int zt_prog_symbol_of(const zt_prog *program, int64_t dim)
{
    for (int i = 0; i < program->n_symbols; i++)
        if (program->symbol_dim[i] == dim) return i;
    return -1;
}

int64_t zt_prog_symbol(zt_prog *program, const char *name)
{
    return zt_dim_symbol(program, zt_span_of(name));
}

static zt_status fold(zt_prog *program, char operator, int64_t a, int64_t b, int64_t *dim)
{
    const char *wrong = apply(operator, a, b, dim);
    if (!wrong && *dim < 0) wrong = "is below 0";
    if (!wrong) return ZT_OK;
    return zt_prog_fail(program, ZT_EDATA, "dimension %" PRId64 "%c%" PRId64 " %s", a, operator, b, wrong);
}

zt_status zt_dim_join(zt_prog *program, char operator, int64_t a, int64_t b, int64_t *dim)
{
    if (a >= 0 && b >= 0) return fold(program, operator, a, b, dim);
    int terms = (a < 0 ? zt_expr_at(program, a)->terms : 1) + (b < 0 ? zt_expr_at(program, b)->terms : 1);
    if (terms > ZT_MAX_TERMS)
        return zt_prog_fail(program, ZT_EUSAGE, "a dimension has at most %d numbers and symbols",
                            ZT_MAX_TERMS);
    *dim = add(program, (zt_expr){.op = operator, .terms = terms, .a = a, .b = b});
    return *dim ? ZT_OK : zt_ctx_status(program->ctx);
}

int64_t zt_prog_dim(zt_prog *program, char operator, int64_t a, int64_t b)
{
    int64_t dim = 0;
    if (operator && strchr("+-*/", operator) && zt_dim_known(program, a) && zt_dim_known(program, b))
        return zt_dim_join(program, operator, a, b, &dim) ? 0 : dim;
    zt_prog_fail(program, ZT_EUSAGE, "operator %d on dimensions %" PRId64 " and %" PRId64
                 ": one of them is not this program's", operator, a, b);
    return 0;
}

/* ---- print ----------------------------------------------------------------------------------- */

/* How tightly it binds: sums, products, then numbers and symbols. */
static int level(const zt_prog *program, int64_t dim)
{
    char operator = dim < 0 ? zt_expr_at(program, dim)->op : 's';
    return operator == 's' ? 3 : operator == '*' || operator == '/' ? 2 : 1;
}

static zt_status put_operand(const zt_prog *program, int64_t dim, bool parens, zt_str *out)
{
    zt_status status = parens ? zt_str_putc(out, '(') : ZT_OK;
    if (!status) status = zt_dim_put(program, dim, out);
    if (!status && parens) status = zt_str_putc(out, ')');
    return status;
}

/* As deep as the expression, which ZT_MAX_TERMS bounds. */
zt_status zt_dim_put(const zt_prog *program, int64_t dim, zt_str *out)
{
    if (dim >= 0) return zt_str_printf(out, "%" PRId64, dim);
    const zt_expr *expression = zt_expr_at(program, dim);
    if (expression->op == 's') return zt_str_puts(out, program->symbol[expression->a]);
    int own = level(program, dim);
    zt_status status = put_operand(program, expression->a, level(program, expression->a) < own, out);
    if (!status) status = zt_str_putc(out, expression->op);
    if (!status) status = put_operand(program, expression->b, level(program, expression->b) <= own, out);
    return status;
}

zt_status zt_dims_put(const zt_prog *program, int rank, const int64_t *dim, zt_str *out)
{
    zt_status status = zt_str_putc(out, '[');
    for (int i = 0; i < rank && !status; i++) {
        if (i > 0) status = zt_str_putc(out, ',');
        if (!status) status = zt_dim_put(program, dim[i], out);
    }
    return status ? status : zt_str_putc(out, ']');
}

/* ---- evaluate -------------------------------------------------------------------------------- */

/* "dimension n/m: 8/0 divides by zero" */
ZT_PRINTF(3, 4)
static zt_status refuse(const zt_prog *program, int64_t dim, const char *fmt, ...)
{
    char wrong[96];
    zt_str text;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(wrong, sizeof wrong, fmt, ap);
    va_end(ap);
    zt_str_init(&text, program->ctx);
    zt_status status = zt_dim_put(program, dim, &text);
    if (!status) status = zt_prog_fail(program, ZT_EDATA, "dimension %s%s", text.data, wrong);
    zt_str_fini(&text);
    return status;
}

zt_status zt_dims_eval(const zt_prog *program, const int64_t *symbol, int64_t *value)
{
    for (int i = 0; i < program->exprs.n; i++) {
        const zt_expr *expression = (const zt_expr *)program->exprs.at + i;
        if (expression->op == 's') {
            value[i] = symbol[expression->a];
            continue;
        }
        int64_t a = expression->a < 0 ? value[-1 - expression->a] : expression->a,
                b = expression->b < 0 ? value[-1 - expression->b] : expression->b;
        const char *wrong = apply(expression->op, a, b, &value[i]);
        if (wrong) return refuse(program, -1 - i, ": %" PRId64 "%c%" PRId64 " %s", a, expression->op, b, wrong);
    }
    return ZT_OK;
}

zt_status zt_dims_bind(const zt_prog *program, const int64_t *value, int rank, int64_t *dim)
{
    for (int i = 0; i < rank; i++) {
        if (dim[i] >= 0) continue;
        int64_t v = value[-1 - dim[i]];
        if (v < 0) return refuse(program, dim[i], " is %" PRId64, v);
        dim[i] = v;
    }
    return ZT_OK;
}
