/* parser.c - tokens to statements. The grammar is jinja2's parser.py.
 *
 * Fields of a statement's node:
 *   N_DATA         value the text                  N_OUTPUT    a
 *   N_BODY         list                            N_IF        a condition, b then, c else
 *   N_FOR          a target, b iterable, c condition, body list[0], else list[1]; flag recursive
 *   N_SET          a target, b value               N_SET_BLOCK a target, b filters, c body
 *   N_WITH         keyword: targets are list, values keyword[i].value; c body
 *   N_MACRO        name, list parameters, b..: defaults in keyword (from the right), c body
 *   N_CALL_BLOCK   a the call, c body as a macro   N_FILTER_BLOCK b filters, c body
 *   N_BLOCK, N_SCOPE   c body                      N_REFUSED   name what
 */
#include "lib/llm/jinja/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- nodes and tokens ------------------------------------------------------------------------ */

const char *zt_j_intern(jmachine *j, const char *text, size_t n)
{
    unsigned h = 5381;
    for (size_t i = 0; i < n; i++)
        h = h * 33 + (unsigned char)text[i];
    jname **at = &j->parsing->names[h & 255];
    for (; *at; at = &(*at)->next)
        if (strlen((*at)->text) == n && memcmp((*at)->text, text, n) == 0)
            return (*at)->text;
    *at = zt_j_alloc(j, sizeof **at + n + 1);
    memcpy((*at)->text, text, n);
    return (*at)->text;
}

jnode *zt_j_node(jmachine *j, jnode_type type, int line)
{
    jnode *n = zt_j_alloc(j, sizeof *n);
    n->type = type;
    n->line = line;
    return n;
}

void zt_j_append_node(jmachine *j, jnode *to, jnode *what)
{
    if ((to->n & (to->n - 1)) == 0) { /* full: 0, 1, 2, 4, 8 ... */
        jnode **more = zt_j_array(j, to->n ? (size_t)to->n * 2 : 1, sizeof *more);
        if (to->n)
            memcpy(more, to->list, (size_t)to->n * sizeof *more);
        to->list = more;
    }
    to->list[to->n++] = what;
}

jtoken *zt_j_token(jmachine *j)
{
    jtoken *t = &j->token[j->at];
    j->line = t->line;
    return t;
}

static jtoken *next(jmachine *j)
{
    jtoken *t = zt_j_token(j);
    j->at += t->type != T_END;
    return t;
}

const char *zt_j_describe(const jtoken *t, char buf[64])
{
    static const char *const names[] = {
        [T_END] = "end of template", [T_DATA] = "text", [T_VAR_BEGIN] = "{{", [T_VAR_END] = "}}",
        [T_BLOCK_BEGIN] = "{%", [T_BLOCK_END] = "%}", [T_STRING] = "string", [T_INT] = "integer",
        [T_FLOAT] = "float"};
    if (t->type == T_NAME)
        snprintf(buf, 64, "%.60s", t->text);
    else if (t->type == T_OP)
        snprintf(buf, 64, "%c%c", t->op & 255, t->op >> 8);
    else
        snprintf(buf, 64, "%s", names[t->type]);
    return buf;
}

bool zt_j_is_op(jmachine *j, int op)
{
    const jtoken *t = zt_j_token(j);
    return t->type == T_OP && t->op == op;
}

bool zt_j_is_word(jmachine *j, const char *word)
{
    const jtoken *t = zt_j_token(j);
    return t->type == T_NAME && strcmp(t->text, word) == 0;
}

bool zt_j_skip_op(jmachine *j, int op)
{
    return zt_j_is_op(j, op) && next(j);
}

bool zt_j_skip_word(jmachine *j, const char *word)
{
    return zt_j_is_word(j, word) && next(j);
}

void zt_j_expect_op(jmachine *j, int op)
{
    char got[64];
    if (!zt_j_skip_op(j, op))
        zt_j_fail(j, "expected '%c', got '%s'", op, zt_j_describe(zt_j_token(j), got));
}

static void expect(jmachine *j, jtoken_type type, const char *what)
{
    char got[64];
    if (zt_j_token(j)->type != type)
        zt_j_fail(j, "expected '%s', got '%s'", what, zt_j_describe(zt_j_token(j), got));
    next(j);
}

jtoken *zt_j_expect_name(jmachine *j)
{
    char got[64];
    if (zt_j_token(j)->type != T_NAME)
        zt_j_fail(j, "expected a name, got '%s'", zt_j_describe(zt_j_token(j), got));
    return next(j);
}

static void expect_word(jmachine *j, const char *word)
{
    char got[64];
    if (!zt_j_skip_word(j, word))
        zt_j_fail(j, "expected '%s', got '%s'", word, zt_j_describe(zt_j_token(j), got));
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static jnode *parse_statement(jmachine *j);

static bool at_end_word(jmachine *j, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (zt_j_is_word(j, *ends))
            return true;
    return false;
}

static jnode *data_node(jmachine *j, const jtoken *t)
{
    jnode *n = zt_j_node(j, N_DATA, t->line);
    n->value = zt_j_string(zt_j_text(j, t->text, t->n, false));
    return n;
}

/* Up to one of the words that may end it, which is then the current token; ends NULL: to the end. */
static jnode *parse_until(jmachine *j, const char *const *ends)
{
    jnode *body = zt_j_node(j, N_BODY, zt_j_token(j)->line);
    zt_j_enter(j);
    for (;;) {
        jtoken *t = next(j);
        if (t->type == T_DATA) {
            zt_j_append_node(j, body, data_node(j, t));
        } else if (t->type == T_VAR_BEGIN) {
            jnode *out = zt_j_node(j, N_OUTPUT, t->line);
            out->a = zt_j_parse_tuple(j, true, false);
            expect(j, T_VAR_END, "}}");
            zt_j_append_node(j, body, out);
        } else if (t->type == T_BLOCK_BEGIN) {
            if (at_end_word(j, ends))
                break;
            zt_j_append_node(j, body, parse_statement(j));
            expect(j, T_BLOCK_END, "%}");
        } else if (t->type == T_END && !ends) {
            break;
        } else {
            zt_j_fail(j, "the template ends where '%s' is missing", ends ? ends[0] : "");
        }
    }
    zt_j_leave(j);
    return body;
}

/* The same behind a tag's end. */
static jnode *parse_body(jmachine *j, const char *const *ends)
{
    zt_j_skip_op(j, ':');
    expect(j, T_BLOCK_END, "%}");
    return parse_until(j, ends);
}

static jnode *parse_to(jmachine *j, const char *end)
{
    const char *const ends[] = {end, NULL};
    jnode *body = parse_body(j, ends);
    next(j);
    return body;
}

/* ---- statements ------------------------------------------------------------------------------ */

static bool assignable(const jnode *n)
{
    bool all = n->type == N_NAME || n->type == N_NSREF || n->type == N_TUPLE;
    for (int i = 0; all && n->type == N_TUPLE && i < n->n; i++)
        all = assignable(n->list[i]);
    return all;
}

jnode *zt_j_parse_targets(jmachine *j, bool nsref)
{
    /* Names, literals and parentheses, a comma between. */
    jnode *first = NULL, *tuple = NULL;
    int line = zt_j_token(j)->line;
    for (;;) {
        bool stop = zt_j_token(j)->type == T_VAR_END || zt_j_token(j)->type == T_BLOCK_END ||
                    zt_j_is_op(j, ')');
        if (stop && first)
            break;
        j->storing = true;
        jnode *one = zt_j_parse_primary(j, nsref);
        j->storing = false;
        if (!first)
            first = one;
        if (tuple)
            zt_j_append_node(j, tuple, one);
        if (!zt_j_skip_op(j, ','))
            break;
        if (!tuple) {
            tuple = zt_j_node(j, N_TUPLE, line);
            zt_j_append_node(j, tuple, first);
        }
    }
    jnode *target = tuple ? tuple : first;
    if (!assignable(target))
        zt_j_fail(j, "something is assigned to that is not a name");
    return target;
}

static const char *parse_name(jmachine *j)
{
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    const char *name = zt_j_expect_name(j)->text;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (strcmp(name, constants[i]) == 0)
            zt_j_fail(j, "'%s' cannot be assigned to", name);
    return name;
}

static jnode *parse_set(jmachine *j, int line)
{
    jnode *n = zt_j_node(j, N_SET, line);
    n->a = zt_j_parse_targets(j, true);
    if (zt_j_skip_op(j, '=')) {
        n->b = zt_j_parse_tuple(j, true, false);
        return n;
    }
    n->type = N_SET_BLOCK;
    if (zt_j_is_op(j, '|'))
        n->b = zt_j_parse_filters(j, NULL, false);
    n->c = parse_to(j, "endset");
    return n;
}

static jnode *parse_for(jmachine *j, int line)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    jnode *n = zt_j_node(j, N_FOR, line), *otherwise = NULL;
    n->a = zt_j_parse_targets(j, false);
    expect_word(j, "in");
    n->b = zt_j_parse_tuple(j, false, false);
    if (zt_j_skip_word(j, "if"))
        n->c = zt_j_parse_expression(j, true);
    n->flag = zt_j_skip_word(j, "recursive");
    jnode *body = parse_body(j, ends);
    if (strcmp(next(j)->text, "else") == 0)
        otherwise = parse_to(j, "endfor");
    zt_j_append_node(j, n, body);
    zt_j_append_node(j, n, otherwise);
    return n;
}

static jnode *parse_if(jmachine *j, int line)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    jnode *first = zt_j_node(j, N_IF, line), *n = first;
    for (;;) {
        n->a = zt_j_parse_tuple(j, false, false);
        n->b = parse_body(j, ends);
        jtoken *t = next(j);
        if (strcmp(t->text, "elif") != 0) {
            if (strcmp(t->text, "else") == 0)
                n->c = parse_to(j, "endif");
            return first;
        }
        n->c = zt_j_node(j, N_IF, t->line);
        n = n->c;
    }
}

static jnode *parse_with(jmachine *j, int line)
{
    jnode *n = zt_j_node(j, N_WITH, line), *values = zt_j_node(j, N_TUPLE, line);
    while (zt_j_token(j)->type != T_BLOCK_END) {
        if (n->n)
            zt_j_expect_op(j, ',');
        zt_j_append_node(j, n, zt_j_parse_targets(j, false));
        zt_j_expect_op(j, '=');
        zt_j_append_node(j, values, zt_j_parse_expression(j, true));
    }
    n->b = values;
    n->c = parse_to(j, "endwith");
    return n;
}

/* Parameters, with their defaults in `keyword`: the last n_keywords of them have one. */
static void parse_signature(jmachine *j, jnode *n)
{
    zt_j_expect_op(j, '(');
    while (!zt_j_is_op(j, ')')) {
        if (n->n)
            zt_j_expect_op(j, ',');
        jnode *name = zt_j_node(j, N_NAME, zt_j_token(j)->line);
        name->name = parse_name(j);
        if (zt_j_skip_op(j, '=')) {
            name->a = zt_j_parse_expression(j, true);
            n->n_keywords++;
        } else if (n->n_keywords) {
            zt_j_fail(j, "a parameter without a default follows one that has a default");
        }
        for (int i = 0; i < n->n; i++)
            if (n->list[i]->name == name->name)
                zt_j_fail(j, "two parameters are called '%s'", name->name);
        zt_j_append_node(j, n, name);
    }
    zt_j_expect_op(j, ')');
}

/* The body of a macro; what it reads of varargs, kwargs and caller is noted on the way. */
static void parse_macro_body(jmachine *j, jnode *n, const char *end)
{
    jnode *outer = j->macro;
    n->d = outer; /* for the names that a macro inside reads */
    j->macro = n;
    n->c = parse_to(j, end);
    j->macro = outer;
    for (int i = 0; i < n->n; i++) {
        const char *name = n->list[i]->name;
        n->varargs = n->varargs && strcmp(name, "varargs") != 0;
        n->kwargs = n->kwargs && strcmp(name, "kwargs") != 0;
        if (n->caller && strcmp(name, "caller") == 0 && !n->list[i]->a)
            zt_j_fail(j, "the parameter 'caller' needs a default");
    }
}

static jnode *parse_macro(jmachine *j, int line)
{
    jnode *n = zt_j_node(j, N_MACRO, line);
    n->name = parse_name(j);
    parse_signature(j, n);
    parse_macro_body(j, n, "endmacro");
    return n;
}

static jnode *parse_call_block(jmachine *j, int line)
{
    jnode *n = zt_j_node(j, N_CALL_BLOCK, line);
    n->c = zt_j_node(j, N_MACRO, line);
    if (zt_j_is_op(j, '('))
        parse_signature(j, n->c);
    n->a = zt_j_parse_expression(j, true);
    if (n->a->type != N_CALL)
        zt_j_fail(j, "expected a call");
    parse_macro_body(j, n->c, "endcall");
    return n;
}

static jnode *parse_filter_block(jmachine *j, int line)
{
    jnode *n = zt_j_node(j, N_FILTER_BLOCK, line);
    n->b = zt_j_parse_filters(j, NULL, true);
    n->c = parse_to(j, "endfilter");
    return n;
}

static jnode *parse_block(jmachine *j, int line)
{
    jnode *n = zt_j_node(j, N_BLOCK, line);
    n->name = zt_j_expect_name(j)->text;
    n->flag = zt_j_skip_word(j, "scoped");
    if (zt_j_skip_word(j, "required"))
        zt_j_fail(j, "'required' blocks are not supported");
    n->c = parse_to(j, "endblock");
    zt_j_skip_word(j, n->name);
    return n;
}

static jnode *parse_generation(jmachine *j, int line)
{
    jnode *n = zt_j_node(j, N_SCOPE, line);
    n->c = parse_to(j, "endgeneration");
    return n;
}

/* Texts are never escaped here: {% autoescape false %} is a scope. */
static jnode *parse_autoescape(jmachine *j, int line)
{
    jnode *n = zt_j_node(j, N_WITH, line), *on = zt_j_parse_expression(j, true);
    if (on->type != N_CONST || zt_j_truth(j, on->value))
        zt_j_fail(j, "'autoescape' is not supported");
    n->c = parse_to(j, "endautoescape");
    return n;
}

static jnode *parse_print(jmachine *j, int line)
{
    jnode *n = zt_j_node(j, N_BODY, line);
    while (zt_j_token(j)->type != T_BLOCK_END) {
        if (n->n)
            zt_j_expect_op(j, ',');
        jnode *out = zt_j_node(j, N_OUTPUT, zt_j_token(j)->line);
        out->a = zt_j_parse_expression(j, true);
        zt_j_append_node(j, n, out);
    }
    return n;
}

static jnode *parse_break(jmachine *j, int line)
{
    return zt_j_node(j, N_BREAK, line);
}

static jnode *parse_continue(jmachine *j, int line)
{
    return zt_j_node(j, N_CONTINUE, line);
}

static const struct {
    const char *word;
    jnode *(*parse)(jmachine *j, int line);
} statements[] = {
    {"for", parse_for},           {"if", parse_if},
    {"set", parse_set},           {"with", parse_with},
    {"macro", parse_macro},       {"call", parse_call_block},
    {"filter", parse_filter_block}, {"block", parse_block},
    {"print", parse_print},       {"generation", parse_generation},
    {"break", parse_break},       {"continue", parse_continue},
    {"autoescape", parse_autoescape},
};

/* Other templates, which there are none of: an error where one is asked for. */
static const char *const refused[] = {"include", "import", "from", "extends", NULL};

static jnode *parse_refused(jmachine *j, const char *word, int line)
{
    jnode *n = zt_j_node(j, N_REFUSED, line);
    n->name = word;
    while (zt_j_token(j)->type != T_BLOCK_END && zt_j_token(j)->type != T_END)
        next(j);
    return n;
}

static jnode *parse_statement(jmachine *j)
{
    char got[64];
    jtoken *t = zt_j_token(j);
    if (t->type != T_NAME)
        zt_j_fail(j, "expected a statement's name, got '%s'", zt_j_describe(t, got));
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (strcmp(t->text, statements[i].word) == 0) {
            next(j);
            zt_j_enter(j);
            jnode *n = statements[i].parse(j, t->line);
            zt_j_leave(j);
            return n;
        }
    for (const char *const *word = refused; *word; word++)
        if (strcmp(t->text, *word) == 0) {
            next(j);
            return parse_refused(j, *word, t->line);
        }
    zt_j_fail(j, "unknown statement '%s'", zt_j_describe(t, got));
}

void zt_j_parse(jmachine *j)
{
    j->parsing->body = parse_until(j, NULL);
}
