/* internal.h - private to the Jinja interpreter: values, nodes, the machine, and who does what.
 *
 *   lexer.c     text to tokens, whitespace control        parser.c    tokens to statements
 *   expression.c   tokens to expressions                  check.c     what jinja2 refuses at compile time
 *   execute.c   statements, loops, scopes                 evaluate.c  expressions
 *   call.c      arguments, macros                         operators.c arithmetic, comparison
 *   value.c     lists, dicts, iteration, attributes       text.c      strings
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
    J_ITER, /* a generator: it can be walked once */
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
    size_t len, cap;
    char data[]; /* cap bytes, then cap marks */
} jbuf;

typedef struct jtext { /* UTF-8, a part of a buffer */
    jbuf *buf;
    size_t at, n;
} jtext;

typedef struct jvalue jvalue;
typedef struct jnode jnode;
typedef struct jscope jscope;
typedef struct jmachine jmachine;
typedef struct jiter jiter;

typedef struct jlist {
    size_t n, cap;
    jvalue *item;
    bool group; /* of groupby: its two items are also called grouper and list */
} jlist;

typedef struct jdict jdict;
typedef struct jundefined jundefined;
typedef struct jrange {
    int64_t start, stop, step, n;
} jrange;
typedef struct jview {
    jdict *dict;
    int what; /* 'k', 'v', 'i' */
} jview;
typedef struct jloop jloop;
typedef struct jmacro jmacro;
typedef struct jbuiltin jbuiltin;
typedef struct jmethod jmethod;

typedef struct jcycler {
    jlist *items;
    size_t pos;
} jcycler;

typedef struct jjoiner {
    jvalue *sep;
    bool used;
} jjoiner;

struct jvalue {
    uint8_t kind;
    bool safe; /* of a string: markupsafe's Markup */
    union {
        bool b;
        int64_t i;
        double f;
        jtext s;
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
    size_t n, cap;
    jpair *pair;
    uint32_t *slot; /* a pair's number plus 1; 0: free. NULL while there are few */
    size_t mask;
};

/* Why a value is undefined, for the message of who uses it. */
struct jundefined {
    const char *hint; /* the whole message; NULL: made of the others */
    const char *name; /* of a variable or an attribute */
    jkind of;         /* J_ABSENT: a variable */
    jvalue *key;      /* where it was no string */
};

struct jiter {
    bool (*next)(jmachine *j, jiter *it, jvalue *out); /* false: the end */
    const char *name; /* of a generator, as Python prints it */
    jvalue source;
    size_t i;
    void *state;
};

/* ---- built-ins ------------------------------------------------------------------------------- */

typedef struct jkeyword {
    const char *name;
    jvalue value;
} jkeyword;

typedef struct jcall { /* the arguments of a call */
    jvalue *arg;
    int n;
    jkeyword *keyword;
    int n_keywords;
} jcall;

enum { J_PARAMS = 8 };

/* a[i] is the i-th parameter, J_ABSENT if it was not given; where the row has no parameters, the
 * function reads `call`. */
typedef jvalue jbuiltin_fn(jmachine *j, jvalue self, const jvalue *a, const jcall *call);

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

const jbuiltin *zt_j_filter(const char *name, size_t n); /* NULL: there is none */
const jbuiltin *zt_j_test(const char *name, size_t n);
const jbuiltin *zt_j_global(const char *name);
/* The method of an object; NULL: none. *changes: it would change the object, and is refused. */
const jbuiltin *zt_j_method(jkind kind, const char *name, size_t n, bool *changes);
const jbuiltin *zt_j_function_method(const jbuiltin *f, const char *name, size_t n);
const jbuiltin *zt_j_string_method(const char *name, size_t n);
const jbuiltin *zt_j_find(const jbuiltin *table, const char *name, size_t n);

extern const jbuiltin zt_j_filters_text[], zt_j_filters_number[], zt_j_filters_sequence[],
    zt_j_filters_select[];

/* ---- nodes ----------------------------------------------------------------------------------- */

typedef enum jnode_type {
    /* expressions */
    N_CONST, N_NAME, N_LIST, N_TUPLE, N_DICT, N_ATTR, N_ITEM, N_SLICE, N_CALL, N_FILTER, N_TEST,
    N_NEG, N_POS, N_NOT, N_AND, N_OR, N_COMPARE, N_CONCAT, N_ARITH, N_COND, N_NSREF,
    /* statements */
    N_DATA, N_OUTPUT, N_BODY, N_IF, N_FOR, N_SET, N_SET_BLOCK, N_WITH, N_MACRO, N_CALL_BLOCK,
    N_FILTER_BLOCK, N_BREAK, N_CONTINUE, N_BLOCK, N_SCOPE, N_REFUSED
} jnode_type;

typedef struct jarg { /* a keyword argument */
    const char *name;
    jnode *value;
} jarg;

/* What the fields are for is said where the nodes are made: parser.c, expression.c. */
struct jnode {
    jnode_type type;
    int line, op;
    bool flag, varargs, kwargs, caller; /* of a macro: what its body reads */
    const char *name; /* interned */
    jvalue value;
    jnode *a, *b, *c, *d;
    jnode **list;
    int n;
    jarg *keyword;
    int n_keywords;
    jnode *star, *star2; /* *args, **kwargs */
    int *ops;            /* of a comparison */
    const jbuiltin *fn;  /* of a filter or test; NULL: there is none of this name */
};

typedef enum jtoken_type {
    T_END, T_DATA, T_VAR_BEGIN, T_VAR_END, T_BLOCK_BEGIN, T_BLOCK_END, T_NAME, T_STRING, T_INT,
    T_FLOAT, T_OP
} jtoken_type;

typedef struct jtoken {
    jtoken_type type;
    int line, op; /* op: J_OP() of its characters */
    const char *text; /* data, names */
    size_t n;
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
    size_t n;
    zt_arena *mem;
    jname *names[256];
    const char *loop, *caller, *kwargs, *varargs; /* these names */
    jnode *body;
};

/* ---- the machine ----------------------------------------------------------------------------- */

typedef struct jout { /* a text that is being written */
    jbuf *buf;
} jout;

struct jmachine {
    zt_ctx *ctx;
    const zt_jinja *t;
    const zt_jinja_vars *vars;
    zt_arena *mem;
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
    jtoken *token;
    size_t at;
    zt_jinja *parsing;
    jnode *macro; /* the innermost */
    bool storing; /* names are assigned to, not read */
};

/* Makes the message "NAME: line N: ..." and leaves. */
_Noreturn void zt_j_fail(jmachine *j, const char *fmt, ...) ZT_PRINTF(2, 3);
_Noreturn void zt_j_fail_as(jmachine *j, zt_status s, const char *fmt, ...) ZT_PRINTF(3, 4);
void *zt_j_alloc(jmachine *j, size_t bytes); /* cleared; never NULL */
void *zt_j_array(jmachine *j, size_t n, size_t size);
void zt_j_step(jmachine *j, uint64_t n);
void zt_j_enter(jmachine *j); /* a level deeper; whoever enters leaves */
void zt_j_leave(jmachine *j);

/* lexer.c, parser.c, expression.c, check.c */
void zt_j_lex(jmachine *j, const char *text, size_t n);
const char *zt_j_intern(jmachine *j, const char *text, size_t n);
void zt_j_parse(jmachine *j);
void zt_j_check(jmachine *j, jnode *body);
jnode *zt_j_node(jmachine *j, jnode_type type, int line);
jtoken *zt_j_token(jmachine *j);          /* the current one */
bool zt_j_is_op(jmachine *j, int op);
bool zt_j_is_word(jmachine *j, const char *word);
bool zt_j_skip_op(jmachine *j, int op);   /* if it is there */
bool zt_j_skip_word(jmachine *j, const char *word);
void zt_j_expect_op(jmachine *j, int op);
jtoken *zt_j_expect_name(jmachine *j);
const char *zt_j_describe(const jtoken *t, char buf[64]);
jnode *zt_j_parse_expression(jmachine *j, bool cond);
jnode *zt_j_parse_primary(jmachine *j, bool nsref);
jnode *zt_j_parse_tuple(jmachine *j, bool cond, bool parens); /* parens: () is one */
jnode *zt_j_parse_targets(jmachine *j, bool nsref);
jnode *zt_j_parse_filters(jmachine *j, jnode *of, bool first); /* first: without a bar before it */
void zt_j_append_node(jmachine *j, jnode *to, jnode *what);

/* ---- text ------------------------------------------------------------------------------------ */

const char *zt_j_data(jtext t);
const uint8_t *zt_j_marks(jtext t);
jtext zt_j_text(jmachine *j, const char *data, size_t n, bool input);
jtext zt_j_part(jtext t, size_t at, size_t n); /* bytes */
jvalue zt_j_string(jtext t);
jvalue zt_j_literal(jmachine *j, const char *text);
bool zt_j_text_is(jtext t, const char *text);
bool zt_j_text_same(jtext a, jtext b);
int zt_j_text_compare(jtext a, jtext b);
size_t zt_j_find_text(jmachine *j, jtext in, size_t from, jtext what); /* SIZE_MAX: not there */
size_t zt_j_rfind_text(jmachine *j, jtext in, size_t before, jtext what); /* that ends at or before */
size_t zt_j_chars(jmachine *j, jtext t);              /* code points */
size_t zt_j_char_at(jmachine *j, jtext t, size_t i);  /* byte offset of code point i, at most n */
size_t zt_j_char_bytes(const char *p, size_t n);
uint32_t zt_j_code(const char *p, size_t n);
jtext zt_j_concat(jmachine *j, jtext a, jtext b);
jtext zt_j_repeat(jmachine *j, jtext t, int64_t times);
void zt_j_put(jmachine *j, jout *o, const char *data, size_t n, bool input);
void zt_j_puts(jmachine *j, jout *o, const char *text);
void zt_j_put_char(jmachine *j, jout *o, uint32_t cp, bool input);
void zt_j_put_text(jmachine *j, jout *o, jtext t);
void zt_j_put_fill(jmachine *j, jout *o, jtext fill, int64_t times);
jtext zt_j_done(jmachine *j, jout *o);
const char *zt_j_zero(jmachine *j, jtext t); /* closed by a zero, escaped for a message if need be */
bool zt_j_is_space(uint32_t cp);             /* Python's str.isspace */
jtext zt_j_strip(jmachine *j, jtext t, const jtext *chars, bool left, bool right);
jtext zt_j_upper(jmachine *j, jtext t);
jtext zt_j_lower(jmachine *j, jtext t);
jtext zt_j_capitalize(jmachine *j, jtext t);
jtext zt_j_replace(jmachine *j, jtext t, jtext old, jtext new, int64_t count);
jtext zt_j_escape_html(jmachine *j, jtext t);
/* Lines without their ends, or with them. */
jlist *zt_j_lines(jmachine *j, jtext t, bool keep);

/* ---- values ---------------------------------------------------------------------------------- */

extern const jvalue zt_j_none, zt_j_absent;
jvalue zt_j_bool(bool b);
jvalue zt_j_int(int64_t i);
jvalue zt_j_float(double f);
jvalue zt_j_undefined(jmachine *j, const char *hint, const char *name);
_Noreturn void zt_j_fail_undefined(jmachine *j, jvalue v);
jlist *zt_j_list(jmachine *j, size_t cap);
void zt_j_append(jmachine *j, jlist *l, jvalue v);
jvalue zt_j_of_list(jlist *l, jkind kind);
jvalue zt_j_pair(jmachine *j, jvalue a, jvalue b); /* a tuple */
jdict *zt_j_dict(jmachine *j);
void zt_j_dict_set(jmachine *j, jdict *d, jvalue key, jvalue value);
jvalue *zt_j_dict_get(jmachine *j, const jdict *d, jvalue key); /* NULL: not there */
jvalue *zt_j_dict_find(jmachine *j, const jdict *d, const char *key);
bool zt_j_hashable(jmachine *j, jvalue v);
const char *zt_j_type(jvalue v); /* Python's name of it */
bool zt_j_truth(jmachine *j, jvalue v);
bool zt_j_is_number(jvalue v); /* an int, a bool or a float */
int64_t zt_j_as_int(jmachine *j, jvalue v, const char *what); /* an int or bool, else fails */
double zt_j_as_float(jvalue v);
/* Length by len(): false where it has none. */
bool zt_j_length(jmachine *j, jvalue v, int64_t *n);
jiter *zt_j_iter(jmachine *j, jvalue v);    /* fails: 'int' object is not iterable */
bool zt_j_iterable(jvalue v);
bool zt_j_next(jmachine *j, jiter *it, jvalue *out);
jvalue zt_j_generator(jmachine *j, const char *name,
                      bool (*next)(jmachine *j, jiter *it, jvalue *out), jvalue source, void *state);
jlist *zt_j_listed(jmachine *j, jvalue v); /* list(v): a list of its own */
jvalue zt_j_range_item(const jrange *r, int64_t i);
jvalue zt_j_attribute(jmachine *j, jvalue of, jtext name); /* of.name */
jvalue zt_j_item(jmachine *j, jvalue of, jvalue key);                     /* of[key] */
jvalue zt_j_slice(jmachine *j, jvalue of, jvalue start, jvalue stop, jvalue step);
/* The start and number of items of a slice of n. */
int64_t zt_j_slice_of(jmachine *j, int64_t n, jvalue start, jvalue stop, jvalue step, int64_t *from,
                      int64_t *by);

/* operators.c */
bool zt_j_equal(jmachine *j, jvalue a, jvalue b);
bool zt_j_less(jmachine *j, jvalue a, jvalue b, int op); /* '<', '>' and J_OP(.., '=') */
bool zt_j_contains(jmachine *j, jvalue in, jvalue what);
bool zt_j_compare(jmachine *j, int op, jvalue a, jvalue b); /* any of the operators */
jvalue zt_j_arith(jmachine *j, int op, jvalue a, jvalue b);
jvalue zt_j_negate(jmachine *j, jvalue v);
jvalue zt_j_plus(jmachine *j, jvalue v);
/* Sorts stably by keys; key NULL: by the items themselves. */
void zt_j_sort(jmachine *j, jvalue *item, jvalue *key, size_t n, bool reverse);

/* print.c, json.c, format.c */
jtext zt_j_str(jmachine *j, jvalue v);
void zt_j_put_str(jmachine *j, jout *o, jvalue v);
void zt_j_put_repr(jmachine *j, jout *o, jvalue v);
jtext zt_j_repr(jmachine *j, jvalue v);
/* repr() of a float; buf holds 64. */
const char *zt_j_print_float(double f, char buf[64]);
jvalue zt_j_from_json(jmachine *j, const json_t *value, bool input);
jvalue zt_j_tojson(jmachine *j, jvalue v, const jvalue *a);
jvalue zt_j_percent(jmachine *j, jvalue format, jvalue args);
jvalue zt_j_str_format(jmachine *j, jvalue self, const jvalue *a, const jcall *call);

/* call.c, evaluate.c, execute.c */
jvalue zt_j_invoke(jmachine *j, const jbuiltin *f, jvalue self, const jcall *call);
jvalue zt_j_call(jmachine *j, jvalue f, const jcall *call);
jcall zt_j_arguments(jmachine *j, const jnode *n, jscope *s);
jvalue zt_j_evaluate(jmachine *j, const jnode *n, jscope *s);
jvalue zt_j_call_macro(jmachine *j, jmacro *m, const jcall *call);
jvalue zt_j_call_loop(jmachine *j, jloop *l, const jcall *call);
jvalue zt_j_loop_attribute(jmachine *j, jvalue loop, const char *name, size_t n);
int64_t zt_j_loop_length(jmachine *j, jloop *l);

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
    jvariable *var;
    int n, cap;
};

void zt_j_set(jmachine *j, jscope *s, const char *name, jvalue v);
jvalue zt_j_lookup(jmachine *j, jscope *s, const char *name);
jscope *zt_j_scope(jmachine *j, jscope *outer);
void zt_j_assign(jmachine *j, jscope *s, const jnode *target, jvalue v);
/* What the statements write, as a text. */
jtext zt_j_capture(jmachine *j, const jnode *body, jscope *s, int *flow);
enum { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };
int zt_j_execute(jmachine *j, const jnode *n, jscope *s);

/* What filters mean by an attribute: "a.b.0" or a number; J_NONE and J_ABSENT: the item itself. What is
 * undefined on the way becomes *otherwise (NULL: stays so). */
jvalue zt_j_path(jmachine *j, jvalue item, jvalue path, const jvalue *otherwise);

#endif
