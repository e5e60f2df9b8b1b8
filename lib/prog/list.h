/* list.h - private to lib/prog: the list behind a program, and what its files share.
 *
 * Names, strings and attributes live in the program's arena; values, steps, expressions and
 * outputs in arrays that grow. What the C builder and the parser do is one code: the builder's
 * functions here take spans of text, and while a text is parsed each message begins with its line.
 */
#ifndef ZT_LIST_H
#define ZT_LIST_H

#include "lib/prog/prog.h"

enum {
    ZT_MAX_LIST = 1 << 20, /* values, steps, expressions, outputs */
    ZT_MAX_NAME = 255,
    ZT_MAX_TERMS = 64, /* numbers and symbols in one dimension: also bounds its depth */
    ZT_QUOTE = 96      /* bytes of a quotation inside a message */
};

typedef struct zt_span {
    const char *text; /* NULL: no text at all */
    size_t length;
} zt_span;

/* A cursor in the rest of one line. */
typedef struct zt_lex {
    const char *cursor, *end;
} zt_lex;

typedef struct zt_list {
    void *items;
    int count, capacity;
} zt_list;

/* A dimension below 0: -1 - its index among these. Operands come before their use. */
typedef struct zt_expr {
    char operator; /* one of + - * /, or 's': symbol number a */
    int terms;     /* numbers and symbols in it */
    int64_t left, right;
} zt_expr;

/* Views and donations share memory: `root` is the value whose memory it is. Each donation makes
 * all that was made of that memory before unusable; `age` distinguishes them. */
typedef struct zt_item {
    zt_value value;
    int root, age;
    /* of roots: */
    int donations;
    int holder; /* the last donation's output, for messages */
    int pinned; /* a value that is an output or kept, so that no more donations may come; or -1 */
} zt_item;

typedef struct zt_made {
    zt_step step;
    bool symbolic; /* attributes with expressions: binding copies them */
    long line;     /* of the text it was parsed from; 0 else */
} zt_made;

struct zt_prog {
    zt_ctx *ctx;
    zt_arena *memory;
    zt_map *names, *out_names; /* may hold names that a failed call left: see zt_prog_lookup */
    zt_list values, steps, expressions, outputs;
    zt_list kinds[ZT_VALUE_OP + 1]; /* int: values of each kind in order */
    zt_status dims_failed;          /* the first error of zt_prog_symbol or zt_prog_dim, whose 0 is a dimension too */
    int n_symbols;
    const char *symbol_names[ZT_MAX_SYMBOLS];
    int64_t symbol_dims[ZT_MAX_SYMBOLS];
    size_t symbolic_bytes;               /* of the attributes that binding copies, each rounded up to 16 */
    zt_binding bindings[ZT_MAX_SYMBOLS]; /* [n_given]: the bind line, in its order */
    int n_bindings;
    long bindings_line;    /* of the last bind line that was parsed */
    const char *file, *id; /* the model line */
    const char *where;     /* while parsing: the text's name, escaped */
    long line;             /* while parsing: from 1; 0 else */
};

static inline zt_span zt_span_of(const char *text)
{
    zt_span span = {text, 0};
    while (text && text[span.length]) span.length++;
    return span;
}

static inline bool zt_span_is(zt_span span, const char *text)
{
    size_t length = 0;
    while (length < span.length && text[length] && span.text[length] == text[length]) length++;
    return span.text && length == span.length && !text[length];
}

static inline zt_item *zt_item_at(const zt_prog *program, int value_id) { return (zt_item *)program->values.items + value_id; }

static inline const zt_expr *zt_expr_at(const zt_prog *program, int64_t dim)
{
    return (const zt_expr *)program->expressions.items + (-1 - dim);
}

/* ---- list.c: messages and room --------------------------------------------------------------- */

/* zt_fail; while parsing, the status is ZT_EDATA and the line stands before the message. */
zt_status zt_prog_fail(const zt_prog *program, zt_status status, const char *fmt, ...) ZT_PRINTF(3, 4);
/* Room for one more element of `size` bytes, cleared and counted; NULL on failure. */
void *zt_prog_push(zt_prog *program, zt_list *list, size_t size, const char *what);
/* How many bytes at text, at most max_length, are a name: [A-Za-z_][A-Za-z0-9_.]*. */
size_t zt_name_length(const char *text, size_t max_length);
/* A name and no more, not longer than ZT_MAX_NAME, not "_". `what` is for the message. */
zt_status zt_name_check(const zt_prog *program, const char *what, zt_span name);
const char *zt_quote(char quotation[ZT_QUOTE], zt_span text);

/* ---- build.c --------------------------------------------------------------------------------- */

int zt_prog_lookup(const zt_prog *program, zt_span name); /* value number or -1 */
/* name.s NULL: made up. `tensor` only for ZT_VALUE_DATA. */
int zt_prog_declare(zt_prog *program, zt_value_kind kind, zt_span name, zt_dtype dtype, int rank, const int64_t *dims,
                    zt_span tensor);
zt_status zt_prog_add_op(zt_prog *program, zt_op op, const void *attrs, const int *inputs, const zt_span *names, int *outputs);
zt_status zt_prog_add_out(zt_prog *program, zt_span name, int value);
zt_status zt_prog_set_model(zt_prog *program, zt_span file, zt_span id);

/* ---- symbols.c ------------------------------------------------------------------------------- */

/* zt_prog_set_binding. */
zt_status zt_prog_give(zt_prog *program, zt_span symbol, int64_t value);
/* Does a dimension have each symbol that is given a number? */
zt_status zt_given_check(const zt_prog *program);
/* The bind line of those symbols that a dimension has; nothing where there is none. */
zt_status zt_given_put(const zt_prog *program, zt_str *output_text);

/* ---- dims.c ---------------------------------------------------------------------------------- */

bool zt_dim_known(const zt_prog *program, int64_t dim); /* a number, or an expression of this program */
int64_t zt_dim_symbol(zt_prog *program, zt_span name);  /* 0 on failure */
zt_status zt_dim_join(zt_prog *program, char operator, int64_t left, int64_t right, int64_t *dims); /* dim: a op b */
zt_status zt_dim_put(const zt_prog *program, int64_t dim, zt_str *output_text);
zt_status zt_dims_put(const zt_prog *program, int rank, const int64_t *dims, zt_str *output_text); /* "[n,4]" */
/* Every expression's value, from those of the symbols. */
zt_status zt_dims_eval(const zt_prog *program, const int64_t *symbol, int64_t *value);
/* Dimensions become the numbers that they stand for; ZT_EDATA when one is below 0. */
zt_status zt_dims_bind(const zt_prog *program, const int64_t *value, int rank, int64_t *dims);

/* ---- attrs.c --------------------------------------------------------------------------------- */

/* Checks attributes (NULL: defaults) and gives those to keep: the op's defaults themselves or a
 * copy in the program's memory. NULL on failure. */
const void *zt_attrs_keep(zt_prog *program, const zt_opinfo *op_info, const void *attrs, bool *symbolic);
/* " eps=1e-05 dims=64": those that differ from the defaults. */
zt_status zt_attrs_put(const zt_prog *program, const zt_opinfo *op_info, const void *attrs, zt_str *output_text);
/* The value after `name=`, into the attribute struct. */
zt_status zt_attr_take(zt_prog *program, zt_lex *lexer, const zt_opinfo *op_info, const zt_attrdef *attribute, void *attrs);
/* Is a function without a name among them? */
bool zt_attrs_opaque(const zt_opinfo *op_info, const void *attrs);
/* A copy in `to` whose dims are numbers. */
zt_status zt_attrs_bind(const zt_prog *program, const zt_opinfo *op_info, const void *attrs, const int64_t *value, void *to);

/* ---- lex.c ----------------------------------------------------------------------------------- */

bool zt_lex_end(zt_lex *lexer);                                          /* nothing but space or a comment is left */
bool zt_lex_peek(zt_lex *lexer, char wanted);                            /* is c next, after space */
bool zt_lex_char(zt_lex *lexer, char wanted);                            /* the same, and step over it */
bool zt_lex_name(zt_lex *lexer, zt_span *name);                          /* a name of any length, "_" too */
bool zt_lex_bare(zt_lex *lexer, zt_span *word);                          /* a run of letters, digits, _ . + - */
zt_status zt_lex_string(zt_prog *program, zt_lex *lexer, zt_span *text); /* JSON; the text in the arena */
/* "[n,2*(m+1)]": at most ZT_MAX_RANK dimensions. */
zt_status zt_lex_dims(zt_prog *program, zt_lex *lexer, int *rank, int64_t dims[ZT_MAX_RANK]);
/* Fails with "expected WHAT, got 'next token'". */
zt_status zt_lex_expected(const zt_prog *program, zt_lex *lexer, const char *what);
/* The same after a place that ends in ": ". */
zt_status zt_lex_expected_at(const zt_prog *program, zt_lex *lexer, const char *place, const char *what);

#endif
