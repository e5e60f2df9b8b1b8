/* parser.c - tokens to statements. The grammar is jinja2's parser.py.
 *
 * What the fields of a statement's node hold:
 *
 *                    first       second      third       others
 *   N_DATA                                               value: the text
 *   N_OUTPUT         expression
 *   N_BODY                                               list: the statements
 *   N_IF             condition   then        else
 *   N_FOR            target      iterable    condition   list[0]: body, list[1]: else; flag: recursive
 *   N_SET            target      value
 *   N_SET_BLOCK      target      filters     body
 *   N_WITH                                   body        list[i]: target i, keywords[i].value: its value
 *   N_MACRO                                  body        name; list: parameters; keywords: the defaults
 *                                                        of the last parameters; fourth: macro around it
 *   N_CALL_BLOCK     the call                N_MACRO
 *   N_FILTER_BLOCK               filters     body
 *   N_BLOCK, N_SCOPE                         body
 *   N_REFUSED                                            name: what is refused
 */
#include "lib/llm/jinja/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- nodes and tokens ------------------------------------------------------------------------ */

const char *zt_j_intern(jmachine *machine, const char *text, size_t size)
{
    unsigned hash = 5381;
    for (size_t i = 0; i < size; i++) hash = hash * 33 + (unsigned char)text[i];
    jname **place = &machine->parsing->names[hash & 255];
    for (; *place; place = &(*place)->next)
        if (strlen((*place)->text) == size && memcmp((*place)->text, text, size) == 0) return (*place)->text;
    *place = zt_j_alloc(machine, sizeof **place + size + 1);
    memcpy((*place)->text, text, size);
    return (*place)->text;
}

jnode *zt_j_node(jmachine *machine, jnode_type type, int line)
{
    jnode *node = zt_j_alloc(machine, sizeof *node);
    node->type = type;
    node->line = line;
    return node;
}

void zt_j_append_node(jmachine *machine, jnode *to, jnode *what)
{
    if ((to->list_count & (to->list_count - 1)) == 0) { /* full: 0, 1, 2, 4, 8 ... */
        jnode **more = zt_j_array(machine, to->list_count ? (size_t)to->list_count * 2 : 1, sizeof *more);
        if (to->list_count) memcpy(more, to->list, (size_t)to->list_count * sizeof *more);
        to->list = more;
    }
    to->list[to->list_count++] = what;
}

jtoken *zt_j_token(jmachine *machine)
{
    jtoken *token = &machine->tokens[machine->position];
    machine->line = token->line;
    return token;
}

static jtoken *take_token(jmachine *machine)
{
    jtoken *token = zt_j_token(machine);
    machine->position += token->type != T_END;
    return token;
}

const char *zt_j_describe(const jtoken *token, char buffer[64])
{
    static const char *const names[] = {
        [T_END] = "end of template", [T_DATA] = "text",     [T_VAR_BEGIN] = "{{", [T_VAR_END] = "}}", [T_BLOCK_BEGIN] = "{%",
        [T_BLOCK_END] = "%}",        [T_STRING] = "string", [T_INT] = "integer",  [T_FLOAT] = "float"};
    if (token->type == T_NAME)
        snprintf(buffer, 64, "%.60s", token->text);
    else if (token->type == T_OP)
        snprintf(buffer, 64, "%c%c", token->op & 255, token->op >> 8);
    else
        snprintf(buffer, 64, "%s", names[token->type]);
    return buffer;
}

bool zt_j_is_op(jmachine *machine, int op)
{
    const jtoken *token = zt_j_token(machine);
    return token->type == T_OP && token->op == op;
}

bool zt_j_is_word(jmachine *machine, const char *word)
{
    const jtoken *token = zt_j_token(machine);
    return token->type == T_NAME && strcmp(token->text, word) == 0;
}

bool zt_j_skip_op(jmachine *machine, int op) { return zt_j_is_op(machine, op) && take_token(machine); }

bool zt_j_skip_word(jmachine *machine, const char *word) { return zt_j_is_word(machine, word) && take_token(machine); }

void zt_j_expect_op(jmachine *machine, int op)
{
    char got[64];
    if (!zt_j_skip_op(machine, op)) zt_j_fail(machine, "expected '%c', got '%s'", op, zt_j_describe(zt_j_token(machine), got));
}

static void expect_token(jmachine *machine, jtoken_type type, const char *what)
{
    char got[64];
    if (zt_j_token(machine)->type != type)
        zt_j_fail(machine, "expected '%s', got '%s'", what, zt_j_describe(zt_j_token(machine), got));
    take_token(machine);
}

jtoken *zt_j_expect_name(jmachine *machine)
{
    char got[64];
    if (zt_j_token(machine)->type != T_NAME)
        zt_j_fail(machine, "expected a name, got '%s'", zt_j_describe(zt_j_token(machine), got));
    return take_token(machine);
}

static void expect_word(jmachine *machine, const char *word)
{
    char got[64];
    if (!zt_j_skip_word(machine, word))
        zt_j_fail(machine, "expected '%s', got '%s'", word, zt_j_describe(zt_j_token(machine), got));
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static jnode *parse_statement(jmachine *machine);

static bool at_end_word(jmachine *machine, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (zt_j_is_word(machine, *ends)) return true;
    return false;
}

static jnode *data_node(jmachine *machine, const jtoken *token)
{
    jnode *node = zt_j_node(machine, N_DATA, token->line);
    node->value = zt_j_string(zt_j_text(machine, token->text, token->size, false));
    return node;
}

/* Up to one of the words that may end it, which is then the current token; ends NULL: to the end. */
static jnode *parse_until(jmachine *machine, const char *const *ends)
{
    jnode *body = zt_j_node(machine, N_BODY, zt_j_token(machine)->line);
    zt_j_enter(machine);
    for (;;) {
        jtoken *token = take_token(machine);
        if (token->type == T_DATA) {
            zt_j_append_node(machine, body, data_node(machine, token));
        } else if (token->type == T_VAR_BEGIN) {
            jnode *out = zt_j_node(machine, N_OUTPUT, token->line);
            out->first = zt_j_parse_tuple(machine, true, false);
            expect_token(machine, T_VAR_END, "}}");
            zt_j_append_node(machine, body, out);
        } else if (token->type == T_BLOCK_BEGIN) {
            if (at_end_word(machine, ends)) break;
            zt_j_append_node(machine, body, parse_statement(machine));
            expect_token(machine, T_BLOCK_END, "%}");
        } else if (token->type == T_END && !ends) {
            break;
        } else {
            zt_j_fail(machine, "the template ends where '%s' is missing", ends ? ends[0] : "");
        }
    }
    zt_j_leave(machine);
    return body;
}

/* The same behind a tag's end. */
static jnode *parse_body(jmachine *machine, const char *const *ends)
{
    zt_j_skip_op(machine, ':');
    expect_token(machine, T_BLOCK_END, "%}");
    return parse_until(machine, ends);
}

static jnode *parse_to(jmachine *machine, const char *end)
{
    const char *const ends[] = {end, NULL};
    jnode *body = parse_body(machine, ends);
    take_token(machine);
    return body;
}

/* ---- statements ------------------------------------------------------------------------------ */

static bool is_assignable(const jnode *node)
{
    bool all = node->type == N_NAME || node->type == N_NSREF || node->type == N_TUPLE;
    for (int i = 0; all && node->type == N_TUPLE && i < node->list_count; i++) all = is_assignable(node->list[i]);
    return all;
}

jnode *zt_j_parse_targets(jmachine *machine, bool nsref)
{
    /* Names, literals and parentheses, a comma between. */
    jnode *first = NULL, *tuple = NULL;
    int line = zt_j_token(machine)->line;
    for (;;) {
        bool stop =
            zt_j_token(machine)->type == T_VAR_END || zt_j_token(machine)->type == T_BLOCK_END || zt_j_is_op(machine, ')');
        if (stop && first) break;
        machine->storing = true;
        jnode *part = zt_j_parse_primary(machine, nsref);
        machine->storing = false;
        if (!first) first = part;
        if (tuple) zt_j_append_node(machine, tuple, part);
        if (!zt_j_skip_op(machine, ',')) break;
        if (!tuple) {
            tuple = zt_j_node(machine, N_TUPLE, line);
            zt_j_append_node(machine, tuple, first);
        }
    }
    jnode *target = tuple ? tuple : first;
    if (!is_assignable(target)) zt_j_fail(machine, "something is assigned to that is not a name");
    return target;
}

static const char *parse_name(jmachine *machine)
{
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    const char *name = zt_j_expect_name(machine)->text;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (strcmp(name, constants[i]) == 0) zt_j_fail(machine, "'%s' cannot be assigned to", name);
    return name;
}

static jnode *parse_set(jmachine *machine, int line)
{
    jnode *node = zt_j_node(machine, N_SET, line);
    node->first = zt_j_parse_targets(machine, true);
    if (zt_j_skip_op(machine, '=')) {
        node->second = zt_j_parse_tuple(machine, true, false);
        return node;
    }
    node->type = N_SET_BLOCK;
    if (zt_j_is_op(machine, '|')) node->second = zt_j_parse_filters(machine, NULL, false);
    node->third = parse_to(machine, "endset");
    return node;
}

static jnode *parse_for(jmachine *machine, int line)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    jnode *node = zt_j_node(machine, N_FOR, line), *otherwise = NULL;
    node->first = zt_j_parse_targets(machine, false);
    expect_word(machine, "in");
    node->second = zt_j_parse_tuple(machine, false, false);
    if (zt_j_skip_word(machine, "if")) node->third = zt_j_parse_expression(machine, true);
    node->flag = zt_j_skip_word(machine, "recursive");
    jnode *body = parse_body(machine, ends);
    if (strcmp(take_token(machine)->text, "else") == 0) otherwise = parse_to(machine, "endfor");
    zt_j_append_node(machine, node, body);
    zt_j_append_node(machine, node, otherwise);
    return node;
}

static jnode *parse_if(jmachine *machine, int line)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    jnode *first = zt_j_node(machine, N_IF, line), *node = first;
    for (;;) {
        node->first = zt_j_parse_tuple(machine, false, false);
        node->second = parse_body(machine, ends);
        jtoken *token = take_token(machine);
        if (strcmp(token->text, "elif") != 0) {
            if (strcmp(token->text, "else") == 0) node->third = parse_to(machine, "endif");
            return first;
        }
        node->third = zt_j_node(machine, N_IF, token->line);
        node = node->third;
    }
}

static jnode *parse_with(jmachine *machine, int line)
{
    jnode *node = zt_j_node(machine, N_WITH, line), *values = zt_j_node(machine, N_TUPLE, line);
    while (zt_j_token(machine)->type != T_BLOCK_END) {
        if (node->list_count) zt_j_expect_op(machine, ',');
        zt_j_append_node(machine, node, zt_j_parse_targets(machine, false));
        zt_j_expect_op(machine, '=');
        zt_j_append_node(machine, values, zt_j_parse_expression(machine, true));
    }
    node->second = values;
    node->third = parse_to(machine, "endwith");
    return node;
}

/* Parameters, with their defaults in `keyword`: the last n_keywords of them have one. */
static void parse_signature(jmachine *machine, jnode *node)
{
    zt_j_expect_op(machine, '(');
    while (!zt_j_is_op(machine, ')')) {
        if (node->list_count) zt_j_expect_op(machine, ',');
        jnode *name = zt_j_node(machine, N_NAME, zt_j_token(machine)->line);
        name->name = parse_name(machine);
        if (zt_j_skip_op(machine, '=')) {
            name->first = zt_j_parse_expression(machine, true);
            node->keyword_count++;
        } else if (node->keyword_count) {
            zt_j_fail(machine, "a parameter without a default follows one that has a default");
        }
        for (int i = 0; i < node->list_count; i++)
            if (node->list[i]->name == name->name) zt_j_fail(machine, "two parameters are called '%s'", name->name);
        zt_j_append_node(machine, node, name);
    }
    zt_j_expect_op(machine, ')');
}

/* The body of a macro; what it reads of varargs, kwargs and caller is noted on the way. */
static void parse_macro_body(jmachine *machine, jnode *node, const char *end)
{
    jnode *outer = machine->macro;
    node->fourth = outer; /* for the names that a macro inside reads */
    machine->macro = node;
    node->third = parse_to(machine, end);
    machine->macro = outer;
    for (int i = 0; i < node->list_count; i++) {
        const char *name = node->list[i]->name;
        node->varargs = node->varargs && strcmp(name, "varargs") != 0;
        node->kwargs = node->kwargs && strcmp(name, "kwargs") != 0;
        if (node->caller && strcmp(name, "caller") == 0 && !node->list[i]->first)
            zt_j_fail(machine, "the parameter 'caller' needs a default");
    }
}

static jnode *parse_macro(jmachine *machine, int line)
{
    jnode *node = zt_j_node(machine, N_MACRO, line);
    node->name = parse_name(machine);
    parse_signature(machine, node);
    parse_macro_body(machine, node, "endmacro");
    return node;
}

static jnode *parse_call_block(jmachine *machine, int line)
{
    jnode *node = zt_j_node(machine, N_CALL_BLOCK, line);
    node->third = zt_j_node(machine, N_MACRO, line);
    if (zt_j_is_op(machine, '(')) parse_signature(machine, node->third);
    node->first = zt_j_parse_expression(machine, true);
    if (node->first->type != N_CALL) zt_j_fail(machine, "expected a call");
    parse_macro_body(machine, node->third, "endcall");
    return node;
}

static jnode *parse_filter_block(jmachine *machine, int line)
{
    jnode *node = zt_j_node(machine, N_FILTER_BLOCK, line);
    node->second = zt_j_parse_filters(machine, NULL, true);
    node->third = parse_to(machine, "endfilter");
    return node;
}

static jnode *parse_block(jmachine *machine, int line)
{
    jnode *node = zt_j_node(machine, N_BLOCK, line);
    node->name = zt_j_expect_name(machine)->text;
    node->flag = zt_j_skip_word(machine, "scoped");
    if (zt_j_skip_word(machine, "required")) zt_j_fail(machine, "'required' blocks are not supported");
    node->third = parse_to(machine, "endblock");
    zt_j_skip_word(machine, node->name);
    return node;
}

static jnode *parse_generation(jmachine *machine, int line)
{
    jnode *node = zt_j_node(machine, N_SCOPE, line);
    node->third = parse_to(machine, "endgeneration");
    return node;
}

/* Texts are never escaped here: {% autoescape false %} is a scope. */
static jnode *parse_autoescape(jmachine *machine, int line)
{
    jnode *node = zt_j_node(machine, N_WITH, line), *on = zt_j_parse_expression(machine, true);
    if (on->type != N_CONST || zt_j_truth(machine, on->value)) zt_j_fail(machine, "'autoescape' is not supported");
    node->third = parse_to(machine, "endautoescape");
    return node;
}

static jnode *parse_print(jmachine *machine, int line)
{
    jnode *node = zt_j_node(machine, N_BODY, line);
    while (zt_j_token(machine)->type != T_BLOCK_END) {
        if (node->list_count) zt_j_expect_op(machine, ',');
        jnode *out = zt_j_node(machine, N_OUTPUT, zt_j_token(machine)->line);
        out->first = zt_j_parse_expression(machine, true);
        zt_j_append_node(machine, node, out);
    }
    return node;
}

static jnode *parse_break(jmachine *machine, int line) { return zt_j_node(machine, N_BREAK, line); }

static jnode *parse_continue(jmachine *machine, int line) { return zt_j_node(machine, N_CONTINUE, line); }

static const struct {
    const char *word;
    jnode *(*parse)(jmachine *machine, int line);
} statements[] = {
    {"for", parse_for},
    {"if", parse_if},
    {"set", parse_set},
    {"with", parse_with},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"block", parse_block},
    {"print", parse_print},
    {"generation", parse_generation},
    {"break", parse_break},
    {"continue", parse_continue},
    {"autoescape", parse_autoescape},
};

/* Other templates, which there are none of: an error where one is asked for. */
static const char *const refused[] = {"include", "import", "from", "extends", NULL};

static jnode *parse_refused(jmachine *machine, const char *word, int line)
{
    jnode *node = zt_j_node(machine, N_REFUSED, line);
    node->name = word;
    while (zt_j_token(machine)->type != T_BLOCK_END && zt_j_token(machine)->type != T_END) take_token(machine);
    return node;
}

static jnode *parse_statement(jmachine *machine)
{
    char got[64];
    jtoken *token = zt_j_token(machine);
    if (token->type != T_NAME) zt_j_fail(machine, "expected a statement's name, got '%s'", zt_j_describe(token, got));
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (strcmp(token->text, statements[i].word) == 0) {
            take_token(machine);
            zt_j_enter(machine);
            jnode *node = statements[i].parse(machine, token->line);
            zt_j_leave(machine);
            return node;
        }
    for (const char *const *word = refused; *word; word++)
        if (strcmp(token->text, *word) == 0) {
            take_token(machine);
            return parse_refused(machine, *word, token->line);
        }
    zt_j_fail(machine, "unknown statement '%s'", zt_j_describe(token, got));
}

void zt_j_parse(jmachine *machine) { machine->parsing->body = parse_until(machine, NULL); }
