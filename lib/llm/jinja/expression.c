/* expression.c - tokens to expressions, with Python's precedence as jinja2's parser.py has it.
 *
 * What the fields of an expression's node hold:
 *
 *   N_CONST                 value
 *   N_NAME                  name
 *   N_LIST, N_TUPLE         list: the items
 *   N_DICT                  list: key, value, key, value, ...
 *   N_ATTR                  first: the object; name, and value: the name as a string
 *   N_ITEM                  first: the object; second: the key
 *   N_SLICE                 first: the object; second, third, fourth: start, stop, step (NULL: none)
 *   N_CALL                  first: the function; list, keywords, star, double_star: the arguments
 *   N_FILTER, N_TEST        first: the operand (NULL: the body of a block); name, fn; arguments as of
 *                           N_CALL; flag: the test is negated
 *   N_NEG, N_POS, N_NOT     first
 *   N_AND, N_OR, N_ARITH    first, op, second
 *   N_CONCAT                list: the operands
 *   N_COMPARE               first, then ops[i] and list[i] in turn
 *   N_COND                  first if second else third
 *   N_NSREF                 name: the namespace; first: the attribute's name
 */
#include "lib/llm/jinja/internal.h"

#include <string.h>

static jnode *parse_unary(jmachine *machine, bool with_filter);
static jnode *parse_or(jmachine *machine);

static jtoken *take_token(jmachine *machine)
{
    jtoken *token = zt_j_token(machine);
    machine->position += token->type != T_END;
    return token;
}

static const jtoken *peek_token(jmachine *machine) /* at the one after the current */
{
    return &machine->tokens[machine->position + (machine->tokens[machine->position].type != T_END)];
}

static jnode *make_binary(jmachine *machine, jnode_type type, int op, jnode *left, jnode *right, int line)
{
    jnode *node = zt_j_node(machine, type, line);
    node->op = op;
    node->first = left;
    node->second = right;
    return node;
}

/* ---- names and literals ---------------------------------------------------------------------- */

static void mark_read(const char *name) { ((jname *)(name - offsetof(jname, text)))->read = true; }

/* The innermost macro and those around it have to hand over what is read in them. */
static void note_special(jmachine *machine, const char *name)
{
    for (jnode *macro = machine->macro; macro; macro = macro->fourth) {
        macro->varargs = macro->varargs || strcmp(name, "varargs") == 0;
        macro->kwargs = macro->kwargs || strcmp(name, "kwargs") == 0;
        macro->caller = macro->caller || strcmp(name, "caller") == 0;
    }
}

static jnode *make_constant(jmachine *machine, jvalue value, int line)
{
    jnode *node = zt_j_node(machine, N_CONST, line);
    node->value = value;
    return node;
}

static jnode *parse_name(jmachine *machine, bool nsref)
{
    jtoken *token = take_token(machine);
    if (strcmp(token->text, "true") == 0 || strcmp(token->text, "True") == 0)
        return make_constant(machine, zt_j_bool(true), token->line);
    if (strcmp(token->text, "false") == 0 || strcmp(token->text, "False") == 0)
        return make_constant(machine, zt_j_bool(false), token->line);
    if (strcmp(token->text, "none") == 0 || strcmp(token->text, "None") == 0)
        return make_constant(machine, zt_j_none, token->line);
    jnode *node = zt_j_node(machine, N_NAME, token->line);
    node->name = token->text;
    if (nsref && zt_j_skip_op(machine, '.')) {
        node->type = N_NSREF;
        node->first = zt_j_node(machine, N_NAME, token->line);
        node->first->name = zt_j_expect_name(machine)->text;
    }
    if (!machine->storing || node->type == N_NSREF) {
        mark_read(node->name);
        note_special(machine, node->name);
    }
    return node;
}

static jnode *parse_string(jmachine *machine)
{
    jtoken *token = take_token(machine);
    jtext joined = token->value.text;
    while (zt_j_token(machine)->type == T_STRING) joined = zt_j_concat(machine, joined, take_token(machine)->value.text);
    return make_constant(machine, zt_j_string(zt_j_text(machine, zt_j_data(joined), joined.size, false)), token->line);
}

static jnode *parse_list(jmachine *machine)
{
    jnode *node = zt_j_node(machine, N_LIST, take_token(machine)->line);
    while (!zt_j_is_op(machine, ']')) {
        if (node->list_count) zt_j_expect_op(machine, ',');
        if (zt_j_is_op(machine, ']')) break;
        zt_j_append_node(machine, node, zt_j_parse_expression(machine, true));
    }
    zt_j_expect_op(machine, ']');
    return node;
}

static jnode *parse_dict(jmachine *machine)
{
    jnode *node = zt_j_node(machine, N_DICT, take_token(machine)->line);
    while (!zt_j_is_op(machine, '}')) {
        if (node->list_count) zt_j_expect_op(machine, ',');
        if (zt_j_is_op(machine, '}')) break;
        zt_j_append_node(machine, node, zt_j_parse_expression(machine, true));
        zt_j_expect_op(machine, ':');
        zt_j_append_node(machine, node, zt_j_parse_expression(machine, true));
    }
    zt_j_expect_op(machine, '}');
    return node;
}

jnode *zt_j_parse_primary(jmachine *machine, bool nsref)
{
    char got[64];
    jtoken *token = zt_j_token(machine);
    if (token->type == T_NAME) return parse_name(machine, nsref);
    if (token->type == T_STRING) return parse_string(machine);
    if (token->type == T_INT || token->type == T_FLOAT) return make_constant(machine, take_token(machine)->value, token->line);
    if (zt_j_is_op(machine, '[') || zt_j_is_op(machine, '{') || zt_j_is_op(machine, '(')) {
        jnode *node;
        zt_j_enter(machine);
        if (token->op == '(') {
            take_token(machine);
            node = zt_j_parse_tuple(machine, true, true);
            zt_j_expect_op(machine, ')');
        } else {
            node = token->op == '[' ? parse_list(machine) : parse_dict(machine);
        }
        zt_j_leave(machine);
        return node;
    }
    zt_j_fail(machine, "unexpected '%s'", zt_j_describe(token, got));
}

static bool tuple_ends(jmachine *machine)
{
    jtoken_type type = zt_j_token(machine)->type;
    return type == T_VAR_END || type == T_BLOCK_END || zt_j_is_op(machine, ')');
}

jnode *zt_j_parse_tuple(jmachine *machine, bool cond, bool parens)
{
    char got[64];
    jnode *node = zt_j_node(machine, N_TUPLE, zt_j_token(machine)->line);
    bool tuple = false;
    while (!tuple_ends(machine)) {
        zt_j_append_node(machine, node, zt_j_parse_expression(machine, cond));
        if (!zt_j_skip_op(machine, ',')) break;
        tuple = true;
    }
    if (!tuple && node->list_count) return node->list[0];
    if (!tuple && !parens) zt_j_fail(machine, "expected an expression, got '%s'", zt_j_describe(zt_j_token(machine), got));
    return node;
}

/* ---- what stands behind a value -------------------------------------------------------------- */

static void parse_argument(jmachine *machine, jnode *node)
{
    if (zt_j_skip_op(machine, '*')) {
        if (node->star || node->double_star) zt_j_fail(machine, "invalid syntax of a call");
        node->star = zt_j_parse_expression(machine, true);
    } else if (zt_j_skip_op(machine, J_OP('*', '*'))) {
        if (node->double_star) zt_j_fail(machine, "invalid syntax of a call");
        node->double_star = zt_j_parse_expression(machine, true);
    } else if (zt_j_token(machine)->type == T_NAME && peek_token(machine)->type == T_OP && peek_token(machine)->op == '=') {
        if (node->double_star) zt_j_fail(machine, "invalid syntax of a call");
        jarg *more = zt_j_array(machine, (size_t)node->keyword_count + 1, sizeof *more);
        if (node->keyword_count) memcpy(more, node->keywords, (size_t)node->keyword_count * sizeof *more);
        node->keywords = more;
        more += node->keyword_count++;
        more->name = take_token(machine)->text;
        take_token(machine);
        more->value = zt_j_parse_expression(machine, true);
    } else {
        if (node->star || node->double_star || node->keyword_count) zt_j_fail(machine, "a positional argument follows others");
        zt_j_append_node(machine, node, zt_j_parse_expression(machine, true));
    }
}

static void parse_arguments(jmachine *machine, jnode *node)
{
    bool more = false;
    zt_j_expect_op(machine, '(');
    while (!zt_j_is_op(machine, ')')) {
        if (more) zt_j_expect_op(machine, ',');
        if (zt_j_is_op(machine, ')')) break;
        parse_argument(machine, node);
        more = true;
    }
    zt_j_expect_op(machine, ')');
}

static jnode *parse_subscribed(jmachine *machine, int line)
{
    jnode *start = NULL, *part[2] = {NULL, NULL};
    if (!zt_j_is_op(machine, ':')) {
        start = zt_j_parse_expression(machine, true);
        if (!zt_j_is_op(machine, ':')) return start;
    }
    for (int i = 0; i < 2 && zt_j_skip_op(machine, ':'); i++)
        if (!zt_j_is_op(machine, ':') && !zt_j_is_op(machine, ']') && !zt_j_is_op(machine, ','))
            part[i] = zt_j_parse_expression(machine, true);
    jnode *node = zt_j_node(machine, N_SLICE, line);
    node->second = start;
    node->third = part[0];
    node->fourth = part[1];
    return node;
}

static jnode *parse_brackets(jmachine *machine, jnode *of, int line)
{
    jnode *key = NULL, *tuple = NULL;
    while (!zt_j_is_op(machine, ']')) {
        if (key) zt_j_expect_op(machine, ',');
        jnode *subscript = parse_subscribed(machine, line);
        if (key && !tuple) {
            tuple = zt_j_node(machine, N_TUPLE, line);
            zt_j_append_node(machine, tuple, key);
        }
        if (tuple) zt_j_append_node(machine, tuple, subscript);
        if (!key) key = subscript;
        if ((tuple && subscript->type == N_SLICE) || (tuple && key->type == N_SLICE))
            zt_j_fail(machine, "a slice of several dimensions");
    }
    zt_j_expect_op(machine, ']');
    if (!key) key = zt_j_node(machine, N_TUPLE, line);
    if (key->type == N_SLICE) {
        key->first = of;
        return key;
    }
    return make_binary(machine, N_ITEM, 0, of, tuple ? tuple : key, line);
}

static jnode *parse_subscript(jmachine *machine, jnode *of)
{
    int line = zt_j_token(machine)->line;
    if (zt_j_skip_op(machine, '[')) {
        return parse_brackets(machine, of, line);
    }
    take_token(machine);
    jtoken *token = take_token(machine);
    if (token->type == T_INT) return make_binary(machine, N_ITEM, 0, of, make_constant(machine, token->value, line), line);
    if (token->type != T_NAME) zt_j_fail(machine, "expected a name or a number after '.'");
    jnode *node = make_binary(machine, N_ATTR, 0, of, NULL, line);
    node->name = token->text;
    node->value = zt_j_literal(machine, token->text);
    return node;
}

static jnode *parse_call(jmachine *machine, jnode *of)
{
    jnode *node = make_binary(machine, N_CALL, 0, of, NULL, zt_j_token(machine)->line);
    zt_j_enter(machine);
    parse_arguments(machine, node);
    zt_j_leave(machine);
    return node;
}

/* A chain (a.b.c) is parsed by a loop, but evaluated by recursion: each link counts as a level. */
static jnode *parse_postfix(jmachine *machine, jnode *node)
{
    int levels = 0;
    for (;; levels++) {
        if (zt_j_is_op(machine, '.') || zt_j_is_op(machine, '[')) {
            zt_j_enter(machine);
            node = parse_subscript(machine, node);
        } else if (zt_j_is_op(machine, '(')) {
            zt_j_enter(machine);
            node = parse_call(machine, node);
        } else {
            break;
        }
    }
    while (levels-- > 0) zt_j_leave(machine);
    return node;
}

/* "a.b.c" of filters and tests that have dots in their names. */
static const char *parse_dotted(jmachine *machine)
{
    jtoken *token = zt_j_expect_name(machine);
    jout out = {NULL};
    zt_j_puts(machine, &out, token->text);
    while (zt_j_skip_op(machine, '.')) {
        zt_j_put(machine, &out, ".", 1, false);
        zt_j_puts(machine, &out, zt_j_expect_name(machine)->text);
    }
    jtext name = zt_j_done(machine, &out);
    return zt_j_intern(machine, zt_j_data(name), name.size);
}

jnode *zt_j_parse_filters(jmachine *machine, jnode *of, bool first)
{
    int levels = 0;
    while (first || zt_j_is_op(machine, '|')) {
        if (!first) take_token(machine);
        zt_j_enter(machine);
        levels++;
        first = false;
        jnode *node = zt_j_node(machine, N_FILTER, zt_j_token(machine)->line);
        node->first = of;
        node->name = parse_dotted(machine);
        node->fn = zt_j_filter(node->name, strlen(node->name));
        if (zt_j_is_op(machine, '(')) parse_arguments(machine, node);
        of = node;
    }
    while (levels-- > 0) zt_j_leave(machine);
    return of;
}

/* Can the current token begin the argument of a test that has no parentheses? */
static bool begins_argument(jmachine *machine)
{
    const jtoken *token = zt_j_token(machine);
    if (token->type == T_OP) return token->op == '[' || token->op == '{';
    return (token->type == T_NAME || token->type == T_STRING || token->type == T_INT || token->type == T_FLOAT) &&
           !zt_j_is_word(machine, "else") && !zt_j_is_word(machine, "or") && !zt_j_is_word(machine, "and");
}

static jnode *parse_test(jmachine *machine, jnode *of)
{
    int line = take_token(machine)->line;
    jnode *node = zt_j_node(machine, N_TEST, line);
    node->first = of;
    node->flag = zt_j_skip_word(machine, "not");
    node->name = parse_dotted(machine);
    node->fn = zt_j_test(node->name, strlen(node->name));
    if (zt_j_is_op(machine, '(')) {
        parse_arguments(machine, node);
    } else if (begins_argument(machine)) {
        if (zt_j_is_word(machine, "is")) zt_j_fail(machine, "tests cannot be chained with 'is'");
        zt_j_append_node(machine, node, parse_postfix(machine, zt_j_parse_primary(machine, false)));
    }
    return node;
}

static jnode *parse_filters_and_tests(jmachine *machine, jnode *node)
{
    int levels = 0;
    for (;; levels++) {
        if (zt_j_is_op(machine, '|')) {
            node = zt_j_parse_filters(machine, node, false);
        } else if (zt_j_is_word(machine, "is")) {
            node = parse_test(machine, node);
        } else if (zt_j_is_op(machine, '(')) {
            node = parse_call(machine, node);
        } else {
            break;
        }
        zt_j_enter(machine);
    }
    while (levels-- > 0) zt_j_leave(machine);
    return node;
}

/* ---- operators, the tightest first ----------------------------------------------------------- */

static jnode *parse_unary(jmachine *machine, bool with_filter)
{
    int line = zt_j_token(machine)->line;
    jnode *node;
    zt_j_enter(machine);
    if (zt_j_skip_op(machine, '-'))
        node = make_binary(machine, N_NEG, 0, parse_unary(machine, false), NULL, line);
    else if (zt_j_skip_op(machine, '+'))
        node = make_binary(machine, N_POS, 0, parse_unary(machine, false), NULL, line);
    else
        node = zt_j_parse_primary(machine, false);
    node = parse_postfix(machine, node);
    if (with_filter) node = parse_filters_and_tests(machine, node);
    zt_j_leave(machine);
    return node;
}

/* Operators of one level, from left to right: each makes the tree a level deeper. */
static jnode *parse_level(jmachine *machine, const int *ops, jnode *(*tighter)(jmachine *machine))
{
    jnode *node = tighter(machine);
    int levels = 0;
    for (;;) {
        int line = zt_j_token(machine)->line, op = 0;
        for (const int *candidate = ops; *candidate && !op; candidate++)
            if (zt_j_skip_op(machine, *candidate)) op = *candidate;
        if (!op) break;
        zt_j_enter(machine);
        levels++;
        node = make_binary(machine, N_ARITH, op, node, tighter(machine), line);
    }
    while (levels-- > 0) zt_j_leave(machine);
    return node;
}

static jnode *parse_tightest(jmachine *machine) { return parse_unary(machine, true); }

static jnode *parse_power(jmachine *machine)
{
    static const int ops[] = {J_OP('*', '*'), 0};
    return parse_level(machine, ops, parse_tightest);
}

static jnode *parse_product(jmachine *machine)
{
    static const int ops[] = {'*', '/', J_OP('/', '/'), '%', 0};
    return parse_level(machine, ops, parse_power);
}

static jnode *parse_concat(jmachine *machine)
{
    jnode *first = parse_product(machine), *node = NULL;
    while (zt_j_skip_op(machine, '~')) {
        if (!node) {
            node = zt_j_node(machine, N_CONCAT, first->line);
            zt_j_append_node(machine, node, first);
        }
        zt_j_append_node(machine, node, parse_product(machine));
    }
    return node ? node : first;
}

static jnode *parse_sum(jmachine *machine)
{
    static const int ops[] = {'+', '-', 0};
    return parse_level(machine, ops, parse_concat);
}

/* The comparison that comes next, 0: none. */
static int read_comparison(jmachine *machine)
{
    static const int ops[] = {J_OP('=', '='), J_OP('!', '='), J_OP('<', '='), J_OP('>', '='), '<', '>'};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (zt_j_skip_op(machine, ops[i])) return ops[i];
    if (zt_j_skip_word(machine, "in")) return J_OP_IN;
    if (zt_j_is_word(machine, "not") && peek_token(machine)->type == T_NAME && strcmp(peek_token(machine)->text, "in") == 0) {
        take_token(machine);
        take_token(machine);
        return J_OP_NOT_IN;
    }
    return 0;
}

static jnode *parse_compare(jmachine *machine)
{
    jnode *first = parse_sum(machine), *node = NULL;
    int line = zt_j_token(machine)->line, op;
    while ((op = read_comparison(machine)) != 0) {
        if (!node) {
            node = zt_j_node(machine, N_COMPARE, line);
            node->first = first;
        }
        int *ops = zt_j_array(machine, (size_t)node->list_count + 1, sizeof *ops);
        if (node->list_count) memcpy(ops, node->ops, (size_t)node->list_count * sizeof *ops);
        ops[node->list_count] = op;
        node->ops = ops;
        zt_j_append_node(machine, node, parse_sum(machine));
    }
    return node ? node : first;
}

static jnode *parse_not(jmachine *machine)
{
    int line = zt_j_token(machine)->line;
    if (!zt_j_skip_word(machine, "not")) return parse_compare(machine);
    zt_j_enter(machine);
    jnode *node = make_binary(machine, N_NOT, 0, parse_not(machine), NULL, line);
    zt_j_leave(machine);
    return node;
}

static jnode *parse_words(jmachine *machine, const char *word, jnode_type type, jnode *(*tighter)(jmachine *machine))
{
    jnode *node = tighter(machine);
    int line = zt_j_token(machine)->line, levels = 0;
    while (zt_j_skip_word(machine, word)) {
        zt_j_enter(machine);
        levels++;
        node = make_binary(machine, type, 0, node, tighter(machine), line);
    }
    while (levels-- > 0) zt_j_leave(machine);
    return node;
}

static jnode *parse_and(jmachine *machine) { return parse_words(machine, "and", N_AND, parse_not); }

static jnode *parse_or(jmachine *machine) { return parse_words(machine, "or", N_OR, parse_and); }

jnode *zt_j_parse_expression(jmachine *machine, bool cond)
{
    zt_j_enter(machine);
    jnode *node = parse_or(machine);
    int levels = 0;
    while (cond && zt_j_skip_word(machine, "if")) {
        jnode *condition = make_binary(machine, N_COND, 0, node, parse_or(machine), node->line);
        zt_j_enter(machine);
        levels++;
        if (zt_j_skip_word(machine, "else")) condition->third = zt_j_parse_expression(machine, true);
        node = condition;
    }
    while (levels-- > 0) zt_j_leave(machine);
    zt_j_leave(machine);
    return node;
}
