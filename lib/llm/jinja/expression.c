/* expression.c - tokens to expressions, with Python's precedence as jinja2's parser.py has it.
 *
 * Fields of an expression's node:
 *   N_CONST  value            N_NAME   name            N_LIST, N_TUPLE  list
 *   N_DICT   list: key, value, key, ...                N_ATTR   a, name and value
 *   N_ITEM   a, b the key     N_SLICE  b, c, d: start, stop, step (NULL: none); a what is cut
 *   N_CALL   a what is called; list, keyword, star, star2
 *   N_FILTER, N_TEST  a (NULL: the body of a block), name, fn, arguments likewise; flag: negated
 *   N_NEG, N_POS, N_NOT  a    N_AND, N_OR, N_ARITH  a, b, op   N_CONCAT  list
 *   N_COMPARE  a, list, ops   N_COND   a if b else c   N_NSREF  name . value's text (interned in a)
 */
#include "lib/llm/jinja/internal.h"

#include <string.h>

static jnode *parse_unary(jmachine *j, bool with_filter);
static jnode *parse_or(jmachine *j);

static jtoken *next(jmachine *j)
{
    jtoken *t = zt_j_token(j);
    j->at += t->type != T_END;
    return t;
}

static const jtoken *look(jmachine *j) /* at the one after the current */
{
    return &j->token[j->at + (j->token[j->at].type != T_END)];
}

static jnode *binary(jmachine *j, jnode_type type, int op, jnode *a, jnode *b, int line)
{
    jnode *n = zt_j_node(j, type, line);
    n->op = op;
    n->a = a;
    n->b = b;
    return n;
}

/* ---- names and literals ---------------------------------------------------------------------- */

static void mark_read(const char *name)
{
    ((jname *)(name - offsetof(jname, text)))->read = true;
}

/* The innermost macro and those around it have to hand over what is read in them. */
static void note_special(jmachine *j, const char *name)
{
    for (jnode *m = j->macro; m; m = m->d) {
        m->varargs = m->varargs || strcmp(name, "varargs") == 0;
        m->kwargs = m->kwargs || strcmp(name, "kwargs") == 0;
        m->caller = m->caller || strcmp(name, "caller") == 0;
    }
}

static jnode *constant(jmachine *j, jvalue v, int line)
{
    jnode *n = zt_j_node(j, N_CONST, line);
    n->value = v;
    return n;
}

static jnode *parse_name(jmachine *j, bool nsref)
{
    jtoken *t = next(j);
    if (strcmp(t->text, "true") == 0 || strcmp(t->text, "True") == 0)
        return constant(j, zt_j_bool(true), t->line);
    if (strcmp(t->text, "false") == 0 || strcmp(t->text, "False") == 0)
        return constant(j, zt_j_bool(false), t->line);
    if (strcmp(t->text, "none") == 0 || strcmp(t->text, "None") == 0)
        return constant(j, zt_j_none, t->line);
    jnode *n = zt_j_node(j, N_NAME, t->line);
    n->name = t->text;
    if (nsref && zt_j_skip_op(j, '.')) {
        n->type = N_NSREF;
        n->a = zt_j_node(j, N_NAME, t->line);
        n->a->name = zt_j_expect_name(j)->text;
    }
    if (!j->storing || n->type == N_NSREF) {
        mark_read(n->name);
        note_special(j, n->name);
    }
    return n;
}

static jnode *parse_string(jmachine *j)
{
    jtoken *t = next(j);
    jtext s = t->value.s;
    while (zt_j_token(j)->type == T_STRING)
        s = zt_j_concat(j, s, next(j)->value.s);
    return constant(j, zt_j_string(zt_j_text(j, zt_j_data(s), s.n, false)), t->line);
}

static jnode *parse_list(jmachine *j)
{
    jnode *n = zt_j_node(j, N_LIST, next(j)->line);
    while (!zt_j_is_op(j, ']')) {
        if (n->n)
            zt_j_expect_op(j, ',');
        if (zt_j_is_op(j, ']'))
            break;
        zt_j_append_node(j, n, zt_j_parse_expression(j, true));
    }
    zt_j_expect_op(j, ']');
    return n;
}

static jnode *parse_dict(jmachine *j)
{
    jnode *n = zt_j_node(j, N_DICT, next(j)->line);
    while (!zt_j_is_op(j, '}')) {
        if (n->n)
            zt_j_expect_op(j, ',');
        if (zt_j_is_op(j, '}'))
            break;
        zt_j_append_node(j, n, zt_j_parse_expression(j, true));
        zt_j_expect_op(j, ':');
        zt_j_append_node(j, n, zt_j_parse_expression(j, true));
    }
    zt_j_expect_op(j, '}');
    return n;
}

jnode *zt_j_parse_primary(jmachine *j, bool nsref)
{
    char got[64];
    jtoken *t = zt_j_token(j);
    if (t->type == T_NAME)
        return parse_name(j, nsref);
    if (t->type == T_STRING)
        return parse_string(j);
    if (t->type == T_INT || t->type == T_FLOAT)
        return constant(j, next(j)->value, t->line);
    if (zt_j_is_op(j, '[') || zt_j_is_op(j, '{') || zt_j_is_op(j, '(')) {
        jnode *n;
        zt_j_enter(j);
        if (t->op == '(') {
            next(j);
            n = zt_j_parse_tuple(j, true, true);
            zt_j_expect_op(j, ')');
        } else {
            n = t->op == '[' ? parse_list(j) : parse_dict(j);
        }
        zt_j_leave(j);
        return n;
    }
    zt_j_fail(j, "unexpected '%s'", zt_j_describe(t, got));
}

static bool tuple_ends(jmachine *j)
{
    jtoken_type t = zt_j_token(j)->type;
    return t == T_VAR_END || t == T_BLOCK_END || zt_j_is_op(j, ')');
}

jnode *zt_j_parse_tuple(jmachine *j, bool cond, bool parens)
{
    char got[64];
    jnode *n = zt_j_node(j, N_TUPLE, zt_j_token(j)->line);
    bool tuple = false;
    while (!tuple_ends(j)) {
        zt_j_append_node(j, n, zt_j_parse_expression(j, cond));
        if (!zt_j_skip_op(j, ','))
            break;
        tuple = true;
    }
    if (!tuple && n->n)
        return n->list[0];
    if (!tuple && !parens)
        zt_j_fail(j, "expected an expression, got '%s'", zt_j_describe(zt_j_token(j), got));
    return n;
}

/* ---- what stands behind a value -------------------------------------------------------------- */

static void parse_argument(jmachine *j, jnode *n)
{
    if (zt_j_skip_op(j, '*')) {
        if (n->star || n->star2)
            zt_j_fail(j, "invalid syntax of a call");
        n->star = zt_j_parse_expression(j, true);
    } else if (zt_j_skip_op(j, J_OP('*', '*'))) {
        if (n->star2)
            zt_j_fail(j, "invalid syntax of a call");
        n->star2 = zt_j_parse_expression(j, true);
    } else if (zt_j_token(j)->type == T_NAME && look(j)->type == T_OP && look(j)->op == '=') {
        if (n->star2)
            zt_j_fail(j, "invalid syntax of a call");
        jarg *more = zt_j_array(j, (size_t)n->n_keywords + 1, sizeof *more);
        if (n->n_keywords)
            memcpy(more, n->keyword, (size_t)n->n_keywords * sizeof *more);
        n->keyword = more;
        more += n->n_keywords++;
        more->name = next(j)->text;
        next(j);
        more->value = zt_j_parse_expression(j, true);
    } else {
        if (n->star || n->star2 || n->n_keywords)
            zt_j_fail(j, "a positional argument follows others");
        zt_j_append_node(j, n, zt_j_parse_expression(j, true));
    }
}

static void parse_arguments(jmachine *j, jnode *n)
{
    bool more = false;
    zt_j_expect_op(j, '(');
    while (!zt_j_is_op(j, ')')) {
        if (more)
            zt_j_expect_op(j, ',');
        if (zt_j_is_op(j, ')'))
            break;
        parse_argument(j, n);
        more = true;
    }
    zt_j_expect_op(j, ')');
}

static jnode *parse_subscribed(jmachine *j, int line)
{
    jnode *start = NULL, *part[2] = {NULL, NULL};
    if (!zt_j_is_op(j, ':')) {
        start = zt_j_parse_expression(j, true);
        if (!zt_j_is_op(j, ':'))
            return start;
    }
    for (int i = 0; i < 2 && zt_j_skip_op(j, ':'); i++)
        if (!zt_j_is_op(j, ':') && !zt_j_is_op(j, ']') && !zt_j_is_op(j, ','))
            part[i] = zt_j_parse_expression(j, true);
    jnode *n = zt_j_node(j, N_SLICE, line);
    n->b = start;
    n->c = part[0];
    n->d = part[1];
    return n;
}

static jnode *parse_brackets(jmachine *j, jnode *of, int line)
{
    jnode *key = NULL, *tuple = NULL;
    while (!zt_j_is_op(j, ']')) {
        if (key)
            zt_j_expect_op(j, ',');
        jnode *one = parse_subscribed(j, line);
        if (key && !tuple) {
            tuple = zt_j_node(j, N_TUPLE, line);
            zt_j_append_node(j, tuple, key);
        }
        if (tuple)
            zt_j_append_node(j, tuple, one);
        if (!key)
            key = one;
        if ((tuple && one->type == N_SLICE) || (tuple && key->type == N_SLICE))
            zt_j_fail(j, "a slice of several dimensions");
    }
    zt_j_expect_op(j, ']');
    if (!key)
        zt_j_fail(j, "expected a subscript");
    if (key->type == N_SLICE) {
        key->a = of;
        return key;
    }
    return binary(j, N_ITEM, 0, of, tuple ? tuple : key, line);
}

static jnode *parse_subscript(jmachine *j, jnode *of)
{
    int line = zt_j_token(j)->line;
    if (zt_j_skip_op(j, '[')) {
        return parse_brackets(j, of, line);
    }
    next(j);
    jtoken *t = next(j);
    if (t->type == T_INT)
        return binary(j, N_ITEM, 0, of, constant(j, t->value, line), line);
    if (t->type != T_NAME)
        zt_j_fail(j, "expected a name or a number after '.'");
    jnode *n = binary(j, N_ATTR, 0, of, NULL, line);
    n->name = t->text;
    n->value = zt_j_literal(j, t->text);
    return n;
}

static jnode *parse_call(jmachine *j, jnode *of)
{
    jnode *n = binary(j, N_CALL, 0, of, NULL, zt_j_token(j)->line);
    zt_j_enter(j);
    parse_arguments(j, n);
    zt_j_leave(j);
    return n;
}

/* Chains are loops here, but not in those that walk them: each link counts as a level. */
static jnode *parse_postfix(jmachine *j, jnode *n)
{
    int levels = 0;
    for (;; levels++) {
        if (zt_j_is_op(j, '.') || zt_j_is_op(j, '[')) {
            zt_j_enter(j);
            n = parse_subscript(j, n);
        } else if (zt_j_is_op(j, '(')) {
            zt_j_enter(j);
            n = parse_call(j, n);
        } else {
            break;
        }
    }
    while (levels-- > 0)
        zt_j_leave(j);
    return n;
}

/* "a.b.c" of filters and tests that have dots in their names. */
static const char *parse_dotted(jmachine *j)
{
    jtoken *t = zt_j_expect_name(j);
    jout o = {NULL};
    zt_j_puts(j, &o, t->text);
    while (zt_j_skip_op(j, '.')) {
        zt_j_put(j, &o, ".", 1, false);
        zt_j_puts(j, &o, zt_j_expect_name(j)->text);
    }
    jtext name = zt_j_done(j, &o);
    return zt_j_intern(j, zt_j_data(name), name.n);
}

jnode *zt_j_parse_filters(jmachine *j, jnode *of, bool first)
{
    int levels = 0;
    while (first || zt_j_is_op(j, '|')) {
        if (!first)
            next(j);
        zt_j_enter(j);
        levels++;
        first = false;
        jnode *n = zt_j_node(j, N_FILTER, zt_j_token(j)->line);
        n->a = of;
        n->name = parse_dotted(j);
        n->fn = zt_j_filter(n->name, strlen(n->name));
        if (zt_j_is_op(j, '('))
            parse_arguments(j, n);
        of = n;
    }
    while (levels-- > 0)
        zt_j_leave(j);
    return of;
}

/* Can the current token begin the argument of a test that has no parentheses? */
static bool begins_argument(jmachine *j)
{
    const jtoken *t = zt_j_token(j);
    if (t->type == T_OP)
        return t->op == '[' || t->op == '{';
    return (t->type == T_NAME || t->type == T_STRING || t->type == T_INT || t->type == T_FLOAT) &&
           !zt_j_is_word(j, "else") && !zt_j_is_word(j, "or") && !zt_j_is_word(j, "and");
}

static jnode *parse_test(jmachine *j, jnode *of)
{
    int line = next(j)->line;
    jnode *n = zt_j_node(j, N_TEST, line);
    n->a = of;
    n->flag = zt_j_skip_word(j, "not");
    n->name = parse_dotted(j);
    n->fn = zt_j_test(n->name, strlen(n->name));
    if (zt_j_is_op(j, '(')) {
        parse_arguments(j, n);
    } else if (begins_argument(j)) {
        if (zt_j_is_word(j, "is"))
            zt_j_fail(j, "tests cannot be chained with 'is'");
        zt_j_append_node(j, n, parse_postfix(j, zt_j_parse_primary(j, false)));
    }
    return n;
}

static jnode *parse_filters_and_tests(jmachine *j, jnode *n)
{
    int levels = 0;
    for (;; levels++) {
        if (zt_j_is_op(j, '|')) {
            n = zt_j_parse_filters(j, n, false);
        } else if (zt_j_is_word(j, "is")) {
            n = parse_test(j, n);
        } else if (zt_j_is_op(j, '(')) {
            n = parse_call(j, n);
        } else {
            break;
        }
        zt_j_enter(j);
    }
    while (levels-- > 0)
        zt_j_leave(j);
    return n;
}

/* ---- operators, the tightest first ----------------------------------------------------------- */

static jnode *parse_unary(jmachine *j, bool with_filter)
{
    int line = zt_j_token(j)->line;
    jnode *n;
    zt_j_enter(j);
    if (zt_j_skip_op(j, '-'))
        n = binary(j, N_NEG, 0, parse_unary(j, false), NULL, line);
    else if (zt_j_skip_op(j, '+'))
        n = binary(j, N_POS, 0, parse_unary(j, false), NULL, line);
    else
        n = zt_j_parse_primary(j, false);
    n = parse_postfix(j, n);
    if (with_filter)
        n = parse_filters_and_tests(j, n);
    zt_j_leave(j);
    return n;
}

/* Left to right: operators of one level, each one deeper for those that walk the tree. */
static jnode *parse_level(jmachine *j, const int *ops, jnode *(*tighter)(jmachine *j))
{
    jnode *n = tighter(j);
    int levels = 0;
    for (;;) {
        int line = zt_j_token(j)->line, op = 0;
        for (const int *o = ops; *o && !op; o++)
            if (zt_j_skip_op(j, *o))
                op = *o;
        if (!op)
            break;
        zt_j_enter(j);
        levels++;
        n = binary(j, N_ARITH, op, n, tighter(j), line);
    }
    while (levels-- > 0)
        zt_j_leave(j);
    return n;
}

static jnode *parse_tightest(jmachine *j)
{
    return parse_unary(j, true);
}

static jnode *parse_power(jmachine *j)
{
    static const int ops[] = {J_OP('*', '*'), 0};
    return parse_level(j, ops, parse_tightest);
}

static jnode *parse_product(jmachine *j)
{
    static const int ops[] = {'*', '/', J_OP('/', '/'), '%', 0};
    return parse_level(j, ops, parse_power);
}

static jnode *parse_concat(jmachine *j)
{
    jnode *first = parse_product(j), *n = NULL;
    while (zt_j_skip_op(j, '~')) {
        if (!n) {
            n = zt_j_node(j, N_CONCAT, first->line);
            zt_j_append_node(j, n, first);
        }
        zt_j_append_node(j, n, parse_product(j));
    }
    return n ? n : first;
}

static jnode *parse_sum(jmachine *j)
{
    static const int ops[] = {'+', '-', 0};
    return parse_level(j, ops, parse_concat);
}

/* The comparison that comes next, 0: none. */
static int comparison(jmachine *j)
{
    static const int ops[] = {J_OP('=', '='), J_OP('!', '='), J_OP('<', '='),
                              J_OP('>', '='), '<',            '>'};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (zt_j_skip_op(j, ops[i]))
            return ops[i];
    if (zt_j_skip_word(j, "in"))
        return J_OP_IN;
    if (zt_j_is_word(j, "not") && look(j)->type == T_NAME && strcmp(look(j)->text, "in") == 0) {
        next(j);
        next(j);
        return J_OP_NOT_IN;
    }
    return 0;
}

static jnode *parse_compare(jmachine *j)
{
    jnode *first = parse_sum(j), *n = NULL;
    int line = zt_j_token(j)->line, op;
    while ((op = comparison(j)) != 0) {
        if (!n) {
            n = zt_j_node(j, N_COMPARE, line);
            n->a = first;
        }
        int *ops = zt_j_array(j, (size_t)n->n + 1, sizeof *ops);
        if (n->n)
            memcpy(ops, n->ops, (size_t)n->n * sizeof *ops);
        ops[n->n] = op;
        n->ops = ops;
        zt_j_append_node(j, n, parse_sum(j));
    }
    return n ? n : first;
}

static jnode *parse_not(jmachine *j)
{
    int line = zt_j_token(j)->line;
    if (!zt_j_skip_word(j, "not"))
        return parse_compare(j);
    zt_j_enter(j);
    jnode *n = binary(j, N_NOT, 0, parse_not(j), NULL, line);
    zt_j_leave(j);
    return n;
}

static jnode *parse_words(jmachine *j, const char *word, jnode_type type,
                          jnode *(*tighter)(jmachine *j))
{
    jnode *n = tighter(j);
    int line = zt_j_token(j)->line, levels = 0;
    while (zt_j_skip_word(j, word)) {
        zt_j_enter(j);
        levels++;
        n = binary(j, type, 0, n, tighter(j), line);
    }
    while (levels-- > 0)
        zt_j_leave(j);
    return n;
}

static jnode *parse_and(jmachine *j)
{
    return parse_words(j, "and", N_AND, parse_not);
}

static jnode *parse_or(jmachine *j)
{
    return parse_words(j, "or", N_OR, parse_and);
}

jnode *zt_j_parse_expression(jmachine *j, bool cond)
{
    zt_j_enter(j);
    jnode *n = parse_or(j);
    int levels = 0;
    while (cond && zt_j_skip_word(j, "if")) {
        jnode *c = binary(j, N_COND, 0, n, parse_or(j), n->line);
        zt_j_enter(j);
        levels++;
        if (zt_j_skip_word(j, "else"))
            c->c = zt_j_parse_expression(j, true);
        n = c;
    }
    while (levels-- > 0)
        zt_j_leave(j);
    zt_j_leave(j);
    return n;
}
