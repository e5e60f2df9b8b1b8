/* prog.h - programs: lists of ops on tensors, built in memory, printed and parsed as text.
 *
 *     zt program 1
 *     bind  n=16 ctx=64
 *     in    x: f32[n,576]
 *     data  g: f32[576] "blk.0.attn_norm.weight"
 *     state kc: f16[ctx,192]
 *     h, rstd = rms_norm x g eps=1e-05
 *     kc1 = kv_put kc h pos
 *     keep  kc = kc1
 *     out   y = h
 *
 * Values are numbered from 0 in the order they are made: declarations first or among ops, every
 * value before its use. Dimensions are numbers or expressions (+ - * / of symbols and numbers,
 * floor division); only in, state and data declare shapes, all else is inferred by zt_prog_bind
 * once every symbol has a number, which the program itself may give (bind) to whoever runs it and
 * says none. Printing is canonical: parse(print(p)) prints the same bytes,
 * and of canonical text print(parse(text)) is that text.
 *
 * Kept states and outputs come last; trailing absent inputs and unwanted outputs are omitted.
 *
 * Text is hostile until zt_prog_parse accepted it: grammar, known ops, arity, attribute kinds,
 * unique names, use after definition, no use of a donated value, each state kept at most once. The
 * builder's functions make the same checks. An op with donated inputs (kv_put) overwrites them in
 * place: they and their views must not be used later, and must not be inputs, data, kept or outputs. A
 * state keeps a value of its own type: the result of its donation (no copy), or any other but data.
 *
 * From C, ops are added by typed emitters made from ops.def, which chain: a value of -1 means a
 * failed or (for optional inputs, ZT_NONE) an absent one, the first error stays in the context.
 *
 *     zt_prog *p = zt_prog_new(ctx);
 *     int64_t n = zt_prog_symbol(p, "n");
 *     int x = zt_prog_in(p, "x", ZT_F32, 2, (int64_t[]){n, 576});
 *     int y = zt_program_rms_norm(p, "h", x, g, &(zt_rms_norm_attrs){.eps = 1e-5}, NULL);
 *     zt_prog_out(p, "y", y);
 */
#ifndef ZT_PROG_H
#define ZT_PROG_H

#include "lib/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZT_MAX_SYMBOLS 16

typedef struct zt_prog zt_prog;

zt_prog *zt_prog_new(zt_ctx *ctx);   /* empty; NULL: ZT_ENOMEM */
void zt_prog_free(zt_prog *program); /* after what is bound to it, and its builders. NULL: nothing */

/* ---- build ----------------------------------------------------------------------------------- */

/* A dimension is an int64_t: 0 or more is the number itself; below 0 it refers to an expression
 * of this program. Errors give 0 and a message, and the program takes no outputs any more. */
int64_t zt_prog_symbol(zt_prog *program, const char *name); /* the same name gives the same dimension */
/* left operation right, the operation one of + - * /. Numbers are folded; a fold below 0 is an error. */
int64_t zt_prog_dim(zt_prog *program, char operation, int64_t left, int64_t right);

/* The three kinds of declaration: what each step is given, what a step leaves for the next, a tensor
 * of the model by its name there. `name` NULL: one is made up (v0, v1, ...). dims has `rank` entries.
 * Each returns the value's number, or -1: ZT_EUSAGE for names and dimensions, ZT_ESHAPE. */
int zt_prog_in(zt_prog *program, const char *name, zt_dtype dtype, int rank, const int64_t *dims);
int zt_prog_state(zt_prog *program, const char *name, zt_dtype dtype, int rank, const int64_t *dims); /* as zt_prog_in */
/* As zt_prog_in, of the model's tensor `tensor`, whose name is copied. */
int zt_prog_data(zt_prog *program, const char *name, zt_dtype dtype, int rank, const int64_t *dims, const char *tensor);
/* inputs[k] ZT_NONE: absent. attrs NULL: defaults. outputs[k] gets the outputs' numbers; names[k] may be
 * NULL, and "_" says that the output is not wanted (its number is ZT_NONE); never the first. On
 * failure the program is as it was. */
zt_status zt_prog_op(zt_prog *program, zt_op op, const void *attrs, const int *inputs, const char *const *names, int *outputs);
/* `state` is `value` in the next step. ZT_EUSAGE: not a state, kept already, or a value that is used
 * up or data. Types are compared when the program is bound. */
zt_status zt_prog_keep(zt_prog *program, int state, int value);
/* Adds an output. ZT_EUSAGE: the name is invalid or taken, or the value was donated. */
zt_status zt_prog_out(zt_prog *program, const char *name, int value);
zt_status zt_prog_model(zt_prog *program, const char *file, const char *id); /* the header line */
/* Another path of the same model; NULL: the program names no model any more. ZT_EUSAGE: no model is named. */
zt_status zt_prog_model_path(zt_prog *program, const char *file);
/* A number, 0 or more, for a symbol that is bound without one: the line bind. Each symbol once. */
zt_status zt_prog_set_binding(zt_prog *program, const char *symbol, int64_t value);

/* int zt_program_rms_norm(zt_prog *, const char *label, int x, int g, const zt_rms_norm_attrs *,
 *                      int *rstd);
 * The first output's number; its name is `label`. Outputs after the first come through pointers
 * and get made-up names; NULL: not wanted. Ops without attributes lack the attrs parameter. */
#define OP(name, ins, outs, attrs)                                                                                               \
    int zt_program_##name(zt_prog *p, const char *label ZT_EMIT_##ins ZT_PARAM_##attrs(name) ZT_EMIT_##outs);
#include "lib/ops/ops.def"
#undef OP

/* ---- look ------------------------------------------------------------------------------------ */

/* Pointers are good until the program changes; names, strings and attributes until it goes. A number
 * out of range gives NULL. */

typedef enum zt_value_kind { ZT_VALUE_IN, ZT_VALUE_STATE, ZT_VALUE_DATA, ZT_VALUE_OP } zt_value_kind;

typedef struct zt_value {
    const char *name;
    zt_value_kind kind;
    zt_type type;       /* declared (dims may be expressions); of ops only after binding */
    const char *tensor; /* DATA: the tensor's name in the model */
    int index;          /* IN, STATE, DATA: its place among its kind; OP: the step that makes it */
    int keep;           /* STATE: the value kept at the end of the step, or -1 */
} zt_value;

typedef struct zt_step {
    zt_op op;
    const void *attrs; /* the op's attribute struct */
    int in[ZT_MAX_IN]; /* value numbers, ZT_NONE where absent */
    int out[ZT_MAX_OUT];
} zt_step;

typedef struct zt_output {
    const char *name;
    int value;
} zt_output;

int zt_prog_n_values(const zt_prog *program);                              /* declarations and what ops make */
const zt_value *zt_prog_value(const zt_prog *program, int value_id);       /* v from 0 */
int zt_prog_n_steps(const zt_prog *program);                               /* ops */
const zt_step *zt_prog_step(const zt_prog *program, int step_index);       /* s from 0 */
long zt_prog_step_line(const zt_prog *program, int step_index);            /* of the text it was parsed from; 0: none */
int zt_prog_n_outputs(const zt_prog *program);                             /* calls of zt_prog_out */
const zt_output *zt_prog_output(const zt_prog *program, int output_index); /* o from 0 */
int zt_prog_n_symbols(const zt_prog *program);                             /* at most ZT_MAX_SYMBOLS */
const char *zt_prog_symbol_name(const zt_prog *program, int symbol_id);    /* s from 0 */
int zt_prog_symbol_of(const zt_prog *program, int64_t dim);                /* of a dimension that is one; -1 */
int zt_prog_find(const zt_prog *program, const char *name);                /* value number or -1 */
int zt_prog_count(const zt_prog *program, zt_value_kind kind);             /* values of that kind */
int zt_prog_nth(const zt_prog *program, zt_value_kind kind, int index);    /* value number or -1 */
const char *zt_prog_model_file(const zt_prog *program);                    /* NULL: none */
const char *zt_prog_model_id(const zt_prog *program);                      /* hexadecimal digits; NULL: none */

/* ---- text ------------------------------------------------------------------------------------ */

/* A function without a name is marked fn=opaque: such text is for display only, and rejected by the parser. */
zt_status zt_prog_print(const zt_prog *program, zt_str *output_text);
bool zt_prog_has_opaque(const zt_prog *program); /* does it call one */
/* `name` is for messages: "run.zt:12: unknown op 'ropee'". NULL on failure (ZT_EDATA). */
zt_prog *zt_prog_parse(zt_ctx *ctx, const char *name, const char *text, size_t length);

/* ---- bind ------------------------------------------------------------------------------------ */

typedef struct zt_binding {
    const char *symbol;
    int64_t value; /* 0 or more */
} zt_binding;

/* The program's own numbers for symbols that bindings lacks are appended to bindings, which has room for
 * ZT_MAX_SYMBOLS. Names are good until program goes. */
void zt_prog_bindings(const zt_prog *program, zt_binding *bindings, int *binding_count);

/* The program with every symbol a number: all types known and checked by the ops' rules. The
 * bound program borrows p, which must outlive it and not change. A symbol without a value in b is
 * ZT_EUSAGE, also where the program has one (zt_prog_bindings), values of other symbols are ignored. */
typedef struct zt_bound {
    const zt_prog *prog;
    int n_values;
    zt_type *type; /* [n_values] */
    int n_steps;
    const void **attrs; /* [n_steps] with their dims as numbers */
} zt_bound;

/* bindings[binding_count] is borrowed for the call. NULL: ZT_EUSAGE as above or a value below 0;
 * ZT_ESHAPE where types do not fit; ZT_EDATA for an attribute; ZT_ENOMEM. */
zt_bound *zt_prog_bind(const zt_prog *program, const zt_binding *bindings, int binding_count);
void zt_bound_free(zt_bound *bound); /* before its program; NULL: nothing */

/* ---- attributes ------------------------------------------------------------------------------ */

/* Are two attribute structs of an op equal? Both are kept by programs. */
bool zt_attrs_same(zt_op op, const void *left, const void *right);
/* A hash of attributes that a program keeps; equal attributes have equal hashes. */
uint64_t zt_attrs_hash(zt_op op, const void *attrs);
/* " eps=1e-05 dims=64", as in a step's line: those that differ from the defaults. */
zt_status zt_prog_attrs_print(const zt_prog *program, zt_op op, const void *attrs, zt_str *output_text);

/* Steps first to last of a bound program as a program of its own, whose dimensions are numbers and
 * whose values keep their names. What comes in from before is an input, or a state where a step
 * uses it up, which then keeps what was made of it; what a later step reads or the program puts out
 * is an output. NULL: no such steps (ZT_EUSAGE). */
zt_prog *zt_prog_part(const zt_bound *bound, int first, int last);

/* ---- ops written by rows --------------------------------------------------------------------- */

/* A new program with the program's symbols, dimensions, model line and declarations, and none of its ops.
 * map[v], for every value of program: its number in the new one, -1 for what ops make. */
zt_prog *zt_prog_like(const zt_prog *program, int *map);

/* A zt_emit on a program: each op is inferred as it is added, with `sample` for the symbols, so
 * that rows can ask for dtypes and ranks. No symbols or expressions may be added beside it. */
typedef struct zt_builder zt_builder;
/* Borrows program; sample[sample_count] is borrowed for the call. NULL: a symbol has no sample (ZT_EUSAGE), a
 * dimension cannot be computed, ZT_ENOMEM. */
zt_builder *zt_builder_new(zt_prog *program, const zt_binding *sample, int sample_count);
void zt_builder_free(zt_builder *builder);           /* p stays, and must still be there. NULL: nothing */
const zt_emit *zt_builder_emit(zt_builder *builder); /* borrowed from b */
zt_status zt_builder_op(zt_builder *builder, zt_op op, const void *attrs, const int *inputs, const char *const *names,
                        int *outputs);                      /* zt_prog_op */
zt_type zt_builder_type(zt_builder *builder, int value_id); /* with the sample's dims */

#ifdef __cplusplus
}
#endif
#endif
