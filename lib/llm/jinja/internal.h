/* internal.h - private to the Jinja interpreter: values, nodes, the machine, and who does what.
 *
 *   lexer.c     text to tokens, whitespace control        parser.c    tokens to statements
 *   expression.c   tokens to expressions                  check.c     what jinja2 refuses at compile time
 *   execute.c   statements, loops, scopes                 evaluate.c  expressions
 *   call.c      arguments, macros                         operators.c arithmetic, comparison
 *   value.c     lists, dicts, iteration, attributes       text.c, casing.c   strings
 *   print.c     str() and repr()                          json.c      JSON in and out
 *   format.c    % and str.format                          methods.c, string_methods.c
 *   filters*.c, tests.c, globals.c                        the tables of built-ins
 *
 * Errors leave by longjmp: everything that a parse or a rendering makes lives in one arena, so that
 * nothing has to be undone on the way out, and no function needs a path for failure.
 *
 * Python's semantics are meant wherever nothing else is said.
 */
#ifndef ZT_JINJA_INTERNAL_H
#define ZT_JINJA_INTERNAL_H

#include "lib/llm/jinja/jinja.h"

#include <jansson.h>
#include <setjmp.h>

/* ---- values ---------------------------------------------------------------------------------- */

typedef enum jkind {
    J_ABSENT, /* no value: an argument that was not given */
    J_UNDEFINED,
    J_NONE,
    J_BOOL,
    J_INT,
    J_FLOAT,
    J_STRING,
    J_LIST,
    J_TUPLE,
    J_DICT,
    J_RANGE,
    J_VIEW, /* of a dict: keys, values or items */
    J_ITER, /* a generator: it can be read once */
    J_NAMESPACE,
    J_MACRO,
    J_FUNCTION, /* a global function */
    J_METHOD,   /* a method with its object */
    J_LOOP,
    J_CYCLER,
    J_JOINER,
    J_KINDS
} jkind;

/* Bytes with room behind them: a string that ends where the buffer ends grows in place. Behind the
 * room stands a mark for each byte: 1 where it comes from the caller's text. */
typedef struct jbuf {
    size_t size, capacity;
    char data[]; /* [capacity] bytes, then [capacity] marks */
} jbuf;

typedef struct jtext { /* UTF-8, a part of a buffer */
    jbuf *buffer;
    size_t offset, size;
} jtext;

typedef struct jvalue jvalue;
typedef struct jnode jnode;
typedef struct jscope jscope;
typedef struct jmachine jmachine;
typedef struct jiter jiter;

typedef struct jlist {
    size_t count, capacity;
    jvalue *items;
    bool group; /* of groupby: its two items are also called grouper and list */
} jlist;

typedef struct jdict jdict;
typedef struct jundefined jundefined;
typedef struct jrange {
    int64_t start, stop, step, count;
} jrange;
typedef struct jview {
    jdict *dict;
    int part; /* 'k', 'v', 'i' */
} jview;
typedef struct jloop jloop;
typedef struct jmacro jmacro;
typedef struct jbuiltin jbuiltin;
typedef struct jmethod jmethod;

typedef struct jcycler {
    jlist *items;
    size_t position;
} jcycler;

typedef struct jjoiner {
    jvalue *sep;
    bool used;
} jjoiner;

struct jvalue {
    uint8_t kind;
    bool safe; /* of a string: markupsafe's Markup */
    union {
        bool boolean;
        int64_t integer;
        double number;
        jtext text;
        jlist *list; /* and tuple */
        jdict *dict; /* and namespace */
        jundefined *undefined;
        jrange *range;
        jview *view;
        jiter *iter;
        jmacro *macro;
        const jbuiltin *function;
        jmethod *method;
        jloop *loop;
        jcycler *cycler;
        jjoiner *joiner;
    };
};

typedef struct jpair {
    jvalue key, value;
    uint64_t hash;
} jpair;

struct jdict { /* in order of insertion */
    size_t count, capacity;
    jpair *pairs;
    uint32_t *slots; /* a pair's number plus 1; 0: free. NULL while there are few */
    size_t mask;
};

/* Why a value is undefined, for the message of who uses it. */
struct jundefined {
    const char *hint; /* the whole message; NULL: made of the others */
    const char *name; /* of a variable or an attribute */
    jkind owner_kind; /* J_ABSENT: a variable */
    jvalue *key;      /* where it was no string */
};

struct jiter {
    bool (*next)(jmachine *machine, jiter *iterator, jvalue *out); /* false: the end */
    const char *name;                                              /* of a generator, as Python prints it */
    jvalue source;
    size_t position;
    void *state;
};

/* ---- built-ins ------------------------------------------------------------------------------- */

typedef struct jkeyword {
    const char *name;
    jvalue value;
} jkeyword;

typedef struct jcall { /* the arguments of a call */
    jvalue *args;
    int arg_count;
    jkeyword *keywords;
    int keyword_count;
} jcall;

enum { J_PARAMS = 8 };

/* args[i] is the i-th parameter, J_ABSENT if it was not given; where the row has no parameters, the
 * function reads `call`. */
typedef jvalue jbuiltin_fn(jmachine *machine, jvalue self, const jvalue *args, const jcall *call);

struct jbuiltin {
    const char *name;
    const char *params; /* names, a space between; "-": by position only; NULL: any arguments */
    int required;
    jbuiltin_fn *fn; /* NULL: known, but refused */
};

struct jmethod {
    jvalue self;
    const jbuiltin *fn;
};

const jbuiltin *zt_j_filter(const char *name, size_t size); /* NULL: there is none */
const jbuiltin *zt_j_test(const char *name, size_t size);
const jbuiltin *zt_j_global(const char *name);
/* The method of an object; NULL: none. *changes: it would change the object, and is refused. */
const jbuiltin *zt_j_method(jkind kind, const char *name, size_t size, bool *changes);
const jbuiltin *zt_j_function_method(const jbuiltin *builtin, const char *name, size_t size);
const jbuiltin *zt_j_string_method(const char *name, size_t size);
const jbuiltin *zt_j_find(const jbuiltin *table, const char *name, size_t size);

extern const jbuiltin zt_j_filters_text[], zt_j_filters_number[], zt_j_filters_sequence[], zt_j_filters_select[];

/* ---- nodes ----------------------------------------------------------------------------------- */

// clang-format off
typedef enum jnode_type {
    /* expressions */
    N_CONST, N_NAME, N_LIST, N_TUPLE, N_DICT, N_ATTR, N_ITEM, N_SLICE, N_CALL, N_FILTER, N_TEST,
    N_NEG, N_POS, N_NOT, N_AND, N_OR, N_COMPARE, N_CONCAT, N_ARITH, N_COND, N_NSREF,
    /* statements */
    N_DATA, N_OUTPUT, N_BODY, N_IF, N_FOR, N_SET, N_SET_BLOCK, N_WITH, N_MACRO, N_CALL_BLOCK,
    N_FILTER_BLOCK, N_BREAK, N_CONTINUE, N_BLOCK, N_SCOPE, N_REFUSED
} jnode_type;
// clang-format on

typedef struct jarg { /* a keyword argument */
    const char *name;
    jnode *value;
} jarg;

/* What the fields are for is said where the nodes are made: parser.c, expression.c. */
struct jnode {
    jnode_type type;
    int line, op;
    bool flag, varargs, kwargs, caller; /* of a macro: what its body reads */
    const char *name;                   /* interned */
    jvalue value;
    jnode *first, *second, *third, *fourth;
    jnode **list;
    int list_count;
    jarg *keywords;
    int keyword_count;
    jnode *star, *double_star; /* *args, **kwargs */
    int *ops;                  /* of a comparison */
    const jbuiltin *fn;        /* of a filter or test; NULL: there is none of this name */
};

// clang-format off
typedef enum jtoken_type {
    T_END, T_DATA, T_VAR_BEGIN, T_VAR_END, T_BLOCK_BEGIN, T_BLOCK_END, T_NAME, T_STRING, T_INT,
    T_FLOAT, T_OP
} jtoken_type;
// clang-format on

typedef struct jtoken {
    jtoken_type type;
    int line, op;     /* op: J_OP() of its characters */
    const char *text; /* data, names */
    size_t size;
    jvalue value; /* strings, numbers */
} jtoken;

#define J_OP(a, b) ((a) | (b) << 8)
enum { /* comparisons that are words */
       J_OP_IN = 1 << 16,
       J_OP_NOT_IN
};

typedef struct jname { /* an interned name */
    struct jname *next;
    bool read; /* somewhere in the template */
    char text[];
} jname;

struct zt_jinja {
    zt_ctx *ctx;
    const char *name;
    const char *text; /* with \n for every line's end */
    size_t text_size;
    zt_arena *arena;
    jname *names[256];
    const char *loop, *caller, *kwargs, *varargs; /* these names */
    jnode *body;
};

/* ---- the machine ----------------------------------------------------------------------------- */

typedef struct jout { /* a text that is being written */
    jbuf *buffer;
} jout;

struct jmachine {
    zt_ctx *ctx;
    const zt_jinja *jinja;
    const zt_jinja_vars *vars;
    zt_arena *arena;
    jmp_buf leave;
    int line;
    uint64_t steps; /* left */
    size_t memory;  /* left */
    size_t output;  /* most */
    int depth;      /* left */
    jout *out;      /* where statements write */
    bool document;  /* ... is the output itself */
    jscope *root;
    /* while parsing */
    jtoken *tokens;
    size_t position;
    zt_jinja *parsing;
    jnode *macro; /* the innermost */
    bool storing; /* names are assigned to, not read */
};

/* Makes the message "NAME: line N: ..." and leaves. */
_Noreturn void zt_j_fail(jmachine *machine, const char *fmt, ...) ZT_PRINTF(2, 3);
_Noreturn void zt_j_fail_as(jmachine *machine, zt_status status, const char *fmt, ...) ZT_PRINTF(3, 4);
void *zt_j_alloc(jmachine *machine, size_t bytes); /* cleared; never NULL */
void *zt_j_array(jmachine *machine, size_t count, size_t size);
void zt_j_step(jmachine *machine, uint64_t count);
void zt_j_enter(jmachine *machine); /* a level deeper; whoever enters leaves */
void zt_j_leave(jmachine *machine);

/* lexer.c, parser.c, expression.c, check.c */
void zt_j_lex(jmachine *machine, const char *text, size_t size);
const char *zt_j_intern(jmachine *machine, const char *text, size_t size);
void zt_j_parse(jmachine *machine);
void zt_j_check(jmachine *machine, jnode *body);
jnode *zt_j_node(jmachine *machine, jnode_type type, int line);
jtoken *zt_j_token(jmachine *machine); /* the current one */
bool zt_j_is_op(jmachine *machine, int op);
bool zt_j_is_word(jmachine *machine, const char *word);
bool zt_j_skip_op(jmachine *machine, int op); /* if it is there */
bool zt_j_skip_word(jmachine *machine, const char *word);
void zt_j_expect_op(jmachine *machine, int op);
jtoken *zt_j_expect_name(jmachine *machine);
const char *zt_j_describe(const jtoken *token, char buffer[64]);
jnode *zt_j_parse_expression(jmachine *machine, bool cond);
jnode *zt_j_parse_primary(jmachine *machine, bool nsref);
jnode *zt_j_parse_tuple(jmachine *machine, bool cond, bool parens); /* parens: () is one */
jnode *zt_j_parse_targets(jmachine *machine, bool nsref);
jnode *zt_j_parse_filters(jmachine *machine, jnode *of, bool first); /* first: without a bar before it */
void zt_j_append_node(jmachine *machine, jnode *to, jnode *what);

/* ---- text ------------------------------------------------------------------------------------ */

const char *zt_j_data(jtext text);
const uint8_t *zt_j_marks(jtext text);
jtext zt_j_text(jmachine *machine, const char *data, size_t size, bool input);
jtext zt_j_part(jtext text, size_t offset, size_t size); /* bytes */
jvalue zt_j_string(jtext text);
jvalue zt_j_literal(jmachine *machine, const char *text);
bool zt_j_text_is(jtext value, const char *text);
bool zt_j_text_same(jtext left, jtext right);
int zt_j_text_compare(jtext left, jtext right);
size_t zt_j_find_text(jmachine *machine, jtext text, size_t from, jtext what);    /* SIZE_MAX: not there */
size_t zt_j_rfind_text(jmachine *machine, jtext text, size_t before, jtext what); /* that ends at or before */
size_t zt_j_chars(jmachine *machine, jtext text);                                 /* code points */
size_t zt_j_char_at(jmachine *machine, jtext text, size_t index);                 /* its byte offset, at most size */
size_t zt_j_char_bytes(const char *data, size_t size);
uint32_t zt_j_code(const char *data, size_t size);
jtext zt_j_concat(jmachine *machine, jtext left, jtext right);
jtext zt_j_repeat(jmachine *machine, jtext text, int64_t times);
void zt_j_put(jmachine *machine, jout *out, const char *data, size_t size, bool input);
void zt_j_puts(jmachine *machine, jout *out, const char *text);
void zt_j_put_char(jmachine *machine, jout *out, uint32_t codepoint, bool input);
void zt_j_put_text(jmachine *machine, jout *out, jtext text);
void zt_j_put_fill(jmachine *machine, jout *out, jtext fill, int64_t times);
jtext zt_j_done(jmachine *machine, jout *out);
const char *zt_j_zero(jmachine *machine, jtext text); /* closed by a zero, escaped for a message if need be */
bool zt_j_is_space(uint32_t codepoint);               /* Python's str.isspace */
jtext zt_j_strip(jmachine *machine, jtext text, const jtext *chars, bool left, bool right);
/* casing.c: a character of the text in another case; a text, its first character and the others */
typedef enum jcase { J_KEEP, J_LOWER, J_UPPER, J_TITLE, J_FOLD } jcase;
void zt_j_put_case(jmachine *machine, jout *out, jtext text, size_t offset, size_t length, jcase wanted);
jtext zt_j_in_case(jmachine *machine, jtext text, jcase first, jcase rest);
bool zt_j_is_upper(uint32_t codepoint);
bool zt_j_is_lower(uint32_t codepoint);
bool zt_j_is_cased(uint32_t codepoint); /* upper, lower or title */
jtext zt_j_replace(jmachine *machine, jtext text, jtext old, jtext new, int64_t count);
jtext zt_j_escape_html(jmachine *machine, jtext text);
/* Lines without their ends, or with them. */
jlist *zt_j_lines(jmachine *machine, jtext text, bool keep);

/* ---- values ---------------------------------------------------------------------------------- */

extern const jvalue zt_j_none, zt_j_absent;
jvalue zt_j_bool(bool boolean);
jvalue zt_j_int(int64_t integer);
jvalue zt_j_float(double number);
jvalue zt_j_undefined(jmachine *machine, const char *hint, const char *name);
_Noreturn void zt_j_fail_undefined(jmachine *machine, jvalue value);
jlist *zt_j_list(jmachine *machine, size_t capacity);
void zt_j_append(jmachine *machine, jlist *list, jvalue value);
jvalue zt_j_of_list(jlist *list, jkind kind);
jvalue zt_j_pair(jmachine *machine, jvalue first, jvalue second); /* a tuple */
jdict *zt_j_dict(jmachine *machine);
void zt_j_dict_set(jmachine *machine, jdict *dict, jvalue key, jvalue value);
jvalue *zt_j_dict_get(jmachine *machine, const jdict *dict, jvalue key); /* NULL: not there */
jvalue *zt_j_dict_find(jmachine *machine, const jdict *dict, const char *key);
bool zt_j_hashable(jmachine *machine, jvalue value);
const char *zt_j_type(jvalue value); /* Python's name of it */
bool zt_j_truth(jmachine *machine, jvalue value);
bool zt_j_is_number(jvalue value);                                      /* an int, a bool or a float */
int64_t zt_j_as_int(jmachine *machine, jvalue value, const char *what); /* an int or bool, else fails */
double zt_j_as_float(jvalue value);
/* Length by len(): false where it has none. */
bool zt_j_length(jmachine *machine, jvalue value, int64_t *length);
jiter *zt_j_iter(jmachine *machine, jvalue value); /* fails: 'int' object is not iterable */
bool zt_j_iterable(jvalue value);
bool zt_j_next(jmachine *machine, jiter *iterator, jvalue *out);
jvalue zt_j_generator(jmachine *machine, const char *name, bool (*next)(jmachine *machine, jiter *iterator, jvalue *out),
                      jvalue source, void *state);
jlist *zt_j_listed(jmachine *machine, jvalue value); /* list(v): a list of its own */
jvalue zt_j_range_item(const jrange *range, int64_t index);
jvalue zt_j_attribute(jmachine *machine, jvalue of, jtext name); /* of.name */
jvalue zt_j_item(jmachine *machine, jvalue of, jvalue key);      /* of[key] */
jvalue zt_j_slice(jmachine *machine, jvalue of, jvalue start, jvalue stop, jvalue step);
/* The number of items of a slice of count; *from, *to, *step: its bounds within 0 and count. */
int64_t zt_j_slice_of(jmachine *machine, int64_t count, jvalue start, jvalue stop, jvalue wanted_step, int64_t *from, int64_t *to,
                      int64_t *step);

/* operators.c */
bool zt_j_equal(jmachine *machine, jvalue left, jvalue right);
bool zt_j_less(jmachine *machine, jvalue left, jvalue right, int op); /* '<', '>' and J_OP(.., '=') */
bool zt_j_contains(jmachine *machine, jvalue container, jvalue item);
bool zt_j_compare(jmachine *machine, int op, jvalue left, jvalue right); /* any of the operators */
jvalue zt_j_arith(jmachine *machine, int op, jvalue left, jvalue right);
jvalue zt_j_negate(jmachine *machine, jvalue value);
jvalue zt_j_plus(jmachine *machine, jvalue value);
/* Sorts stably by keys; key NULL: by the items themselves. */
void zt_j_sort(jmachine *machine, jvalue *items, jvalue *keys, size_t count, bool reverse);

/* print.c, json.c, format.c */
jtext zt_j_str(jmachine *machine, jvalue value);
void zt_j_put_str(jmachine *machine, jout *out, jvalue value);
void zt_j_put_repr(jmachine *machine, jout *out, jvalue value);
jtext zt_j_repr(jmachine *machine, jvalue value);
/* repr() of a float. */
const char *zt_j_print_float(double number, char buffer[64]);
jvalue zt_j_from_json(jmachine *machine, const json_t *value, bool input);
jvalue zt_j_tojson(jmachine *machine, jvalue value, const jvalue *args);
jvalue zt_j_percent(jmachine *machine, jvalue format, jvalue args);
jvalue zt_j_str_format(jmachine *machine, jvalue self, const jvalue *args, const jcall *call);

/* call.c, evaluate.c, execute.c */
jvalue zt_j_invoke(jmachine *machine, const jbuiltin *builtin, jvalue self, const jcall *call);
jvalue zt_j_call(jmachine *machine, jvalue function, const jcall *call);
jcall zt_j_arguments(jmachine *machine, const jnode *node, jscope *scope);
jvalue zt_j_evaluate(jmachine *machine, const jnode *node, jscope *scope);
jvalue zt_j_call_macro(jmachine *machine, jmacro *macro, const jcall *call);
jvalue zt_j_call_loop(jmachine *machine, jloop *loop, const jcall *call);
jvalue zt_j_loop_attribute(jmachine *machine, jvalue loop, const char *name, size_t size);
int64_t zt_j_loop_length(jmachine *machine, jloop *loop);

struct jmacro {
    const jnode *node;
    jscope *scope;
};

typedef struct jvariable {
    const char *name;
    jvalue value;
} jvariable;

struct jscope {
    jscope *outer;
    jvariable *variables;
    int count, capacity;
};

void zt_j_set(jmachine *machine, jscope *scope, const char *name, jvalue value);
jvalue zt_j_lookup(jmachine *machine, jscope *scope, const char *name);
jscope *zt_j_scope(jmachine *machine, jscope *outer);
void zt_j_assign(jmachine *machine, jscope *scope, const jnode *target, jvalue value);
/* What the statements write, as a text. */
jtext zt_j_capture(jmachine *machine, const jnode *body, jscope *scope, int *flow);
enum { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };
int zt_j_execute(jmachine *machine, const jnode *node, jscope *scope);

/* What filters mean by an attribute: "a.b.0" or a number; J_NONE and J_ABSENT: the item itself. A step
 * that is undefined becomes *otherwise (NULL: it stays undefined). */
jvalue zt_j_path(jmachine *machine, jvalue item, jvalue path, const jvalue *otherwise);

#endif
