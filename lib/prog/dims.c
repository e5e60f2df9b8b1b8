/* dims.c - owns symbols and dimension expressions: making, folding, printing, evaluating.
 *
 * Between numbers below 0 may appear (n - 8 + m); a dimension below 0 is refused where it is used.
 */
#include "lib/prog/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool zt_dim_known(const zt_prog *program, int64_t dim) { return dim >= 0 || -1 - dim < program->expressions.count; }

/* left operator right; NULL, or what is wrong with it. */
static const char *apply_operator(char operator, int64_t left, int64_t right, int64_t *result)
{
    bool over = false;
    if (operator== '+') over = __builtin_add_overflow(left, right, result);
    if (operator== '-') over = __builtin_sub_overflow(left, right, result);
    if (operator== '*') over = __builtin_mul_overflow(left, right, result);
    if (operator== '/') {
        if (right == 0) return "divides by zero";
        if (left == INT64_MIN && right == -1) return "overflows";
        *result = left / right - (left % right != 0 && (left < 0) != (right < 0));
    }
    return over ? "overflows" : NULL;
}

/* ---- make ------------------------------------------------------------------------------------ */

static int64_t add_expression(zt_prog *program, zt_expr expression)
{
    zt_expr *added = zt_prog_push(program, &program->expressions, sizeof *added, "dimension expressions");
    if (!added) return 0;
    *added = expression;
    return -(int64_t)program->expressions.count;
}

int64_t zt_dim_symbol(zt_prog *program, zt_span name)
{
    for (int symbol_id = 0; symbol_id < program->n_symbols; symbol_id++)
        if (zt_span_is(name, program->symbol_names[symbol_id])) return program->symbol_dims[symbol_id];
    if (zt_name_check(program, "symbol", name)) return 0;
    if (program->n_symbols == ZT_MAX_SYMBOLS) {
        char buffer[ZT_QUOTE];
        zt_prog_fail(program, ZT_EUSAGE, "too many symbols at '%s': a program has at most %d", zt_quote(buffer, name),
                     ZT_MAX_SYMBOLS);
        return 0;
    }
    const char *copy = zt_arena_strndup(program->memory, name.text, name.length);
    int64_t dim = copy ? add_expression(program, (zt_expr){.operator= 's', .terms = 1, .left = program->n_symbols}) : 0;
    if (dim == 0) return 0;
    program->symbol_names[program->n_symbols] = copy;
    program->symbol_dims[program->n_symbols++] = dim;
    return dim;
}

int zt_prog_symbol_of(const zt_prog *program, int64_t dim)
{
    if (!program) return -1;
    for (int symbol_id = 0; symbol_id < program->n_symbols; symbol_id++)
        if (program->symbol_dims[symbol_id] == dim) return symbol_id;
    return -1;
}

/* A dimension that could not be made: 0, and the program takes no outputs. */
static int64_t dim_failed(zt_prog *program)
{
    zt_status status = zt_ctx_status(program->ctx);
    if (!program->dims_failed) program->dims_failed = status ? status : ZT_EUSAGE;
    return 0;
}

int64_t zt_prog_symbol(zt_prog *program, const char *name)
{
    int64_t dim = program ? zt_dim_symbol(program, zt_span_of(name)) : 0;
    return program && dim == 0 ? dim_failed(program) : dim;
}

static zt_status fold_numbers(zt_prog *program, char operator, int64_t left, int64_t right, int64_t *dims)
{
    const char *wrong = apply_operator(operator, left, right, dims);
    if (!wrong && *dims < 0) wrong = "is negative";
    if (!wrong) return ZT_OK;
    return zt_prog_fail(program, ZT_EDATA, "dimension %" PRId64 "%c%" PRId64 " %s", left, operator, right, wrong);
}

zt_status zt_dim_join(zt_prog *program, char operator, int64_t left, int64_t right, int64_t *dims)
{
    if (left >= 0 && right >= 0) return fold_numbers(program, operator, left, right, dims);
    int terms = (left < 0 ? zt_expr_at(program, left)->terms : 1) + (right < 0 ? zt_expr_at(program, right)->terms : 1);
    if (terms > ZT_MAX_TERMS)
        return zt_prog_fail(program, ZT_EUSAGE, "a dimension has at most %d numbers and symbols", ZT_MAX_TERMS);
    *dims = add_expression(program, (zt_expr){.operator= operator, .terms = terms, .left = left, .right = right});
    return *dims ? ZT_OK : zt_ctx_status(program->ctx);
}

int64_t zt_prog_dim(zt_prog *program, char operation, int64_t left, int64_t right)
{
    if (!program) return 0;
    int64_t dim = 0;
    if (operation && strchr("+-*/", operation) && zt_dim_known(program, left) && zt_dim_known(program, right))
        return zt_dim_join(program, operation, left, right, &dim) ? dim_failed(program) : dim;
    zt_prog_fail(program, ZT_EUSAGE,
                 "operator %d on dimensions %" PRId64 " and %" PRId64 ": a dimension belongs to another program", operation, left,
                 right);
    return dim_failed(program);
}

/* ---- print ----------------------------------------------------------------------------------- */

/* How tightly it binds: sums, products, then numbers and symbols. */
static int binding_level(const zt_prog *program, int64_t dim)
{
    char operator= dim<0 ? zt_expr_at(program, dim)->operator: 's';
    return operator== 's' ? 3 : operator== '*' || operator== '/' ? 2 : 1;
}

static zt_status put_operand(const zt_prog *program, int64_t dim, bool parens, zt_str *output_text)
{
    zt_status status = parens ? zt_str_putc(output_text, '(') : ZT_OK;
    if (!status) status = zt_dim_put(program, dim, output_text);
    if (!status && parens) status = zt_str_putc(output_text, ')');
    return status;
}

/* As deep as the expression, which ZT_MAX_TERMS bounds. */
zt_status zt_dim_put(const zt_prog *program, int64_t dim, zt_str *output_text)
{
    if (dim >= 0) return zt_str_printf(output_text, "%" PRId64, dim);
    const zt_expr *expression = zt_expr_at(program, dim);
    if (expression->operator== 's') return zt_str_puts(output_text, program->symbol_names[expression->left]);
    int own = binding_level(program, dim);
    zt_status status = put_operand(program, expression->left, binding_level(program, expression->left) < own, output_text);
    if (!status) status = zt_str_putc(output_text, expression->operator);
    if (!status) status = put_operand(program, expression->right, binding_level(program, expression->right) <= own, output_text);
    return status;
}

zt_status zt_dims_put(const zt_prog *program, int rank, const int64_t *dims, zt_str *output_text)
{
    zt_status status = zt_str_putc(output_text, '[');
    for (int axis = 0; axis < rank && !status; axis++) {
        if (axis > 0) status = zt_str_putc(output_text, ',');
        if (!status) status = zt_dim_put(program, dims[axis], output_text);
    }
    return status ? status : zt_str_putc(output_text, ']');
}

/* ---- evaluate -------------------------------------------------------------------------------- */

/* "dimension n/m: 8/0 divides by zero" */
ZT_PRINTF(3, 4)
static zt_status refuse_dimension(const zt_prog *program, int64_t dim, const char *fmt, ...)
{
    char wrong[96];
    zt_str text;
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(wrong, sizeof wrong, fmt, arguments);
    va_end(arguments);
    zt_str_init(&text, program->ctx);
    zt_status status = zt_dim_put(program, dim, &text);
    if (!status) status = zt_prog_fail(program, ZT_EDATA, "dimension %s%s", text.data, wrong);
    zt_str_fini(&text);
    return status;
}

zt_status zt_dims_eval(const zt_prog *program, const int64_t *symbol, int64_t *value)
{
    for (int i = 0; i < program->expressions.count; i++) {
        const zt_expr *expression = (const zt_expr *)program->expressions.items + i;
        if (expression->operator== 's') {
            value[i] = symbol[expression->left];
            continue;
        }
        int64_t left = expression->left < 0 ? value[-1 - expression->left] : expression->left,
                right = expression->right < 0 ? value[-1 - expression->right] : expression->right;
        const char *wrong = apply_operator(expression->operator, left, right, &value[i]);
        if (wrong)
            return refuse_dimension(program, -1 - i, ": %" PRId64 "%c%" PRId64 " %s", left, expression->operator, right, wrong);
    }
    return ZT_OK;
}

zt_status zt_dims_bind(const zt_prog *program, const int64_t *value, int rank, int64_t *dims)
{
    for (int axis = 0; axis < rank; axis++) {
        if (dims[axis] >= 0) continue;
        int64_t number = value[-1 - dims[axis]];
        if (number < 0) return refuse_dimension(program, dims[axis], " is %" PRId64, number);
        dims[axis] = number;
    }
    return ZT_OK;
}
