/* parse.c - owns the grammar of a program's lines. What a line means is checked where programs are
 * built, so that text and C are held to the same rules. */
#include "lib/base/near.h"
#include "lib/base/foreign.h"
#include "lib/base/require.h"
#include "lib/prog/list.h"

#include <stdio.h>
#include <string.h>

/* The value of that name, defined before. */
static zt_status value_named(const zt_prog *program, zt_span name, int *value_id)
{
    char buffer[ZT_QUOTE];
    *value_id = zt_prog_lookup(program, name);
    if (*value_id >= 0) return ZT_OK;
    return zt_prog_fail(program, ZT_EDATA, "undefined value '%s'", zt_quote(buffer, name));
}

static zt_status line_end(const zt_prog *program, zt_lex *lexer)
{
    return zt_lex_end(lexer) ? ZT_OK : zt_lex_expected(program, lexer, "the end of the line");
}

/* ---- model, bind, in, state, data ------------------------------------------------------------------ */

/* model "FILE" id=HEX */
static zt_status read_model(zt_prog *program, zt_lex *lexer)
{
    zt_span file, word, id = {0};
    zt_status status = zt_lex_string(program, lexer, &file);
    if (status) return status;
    if (zt_lex_name(lexer, &word)) {
        if (!zt_span_is(word, "id") || !zt_lex_char(lexer, '=') || !zt_lex_bare(lexer, &id))
            return zt_prog_fail(program, ZT_EDATA, "expected id=HEX after the model's file name");
    }
    status = line_end(program, lexer);
    return status ? status : zt_prog_set_model(program, file, id);
}

/* SYMBOL=N ... */
static zt_status read_bind(zt_prog *program, zt_lex *lexer)
{
    zt_status status = ZT_OK;
    do {
        zt_span symbol, number;
        char digits[24], buffer[ZT_QUOTE];
        int64_t value;
        if (!zt_lex_name(lexer, &symbol)) return zt_lex_expected(program, lexer, "a symbol");
        if (!zt_lex_char(lexer, '=')) return zt_lex_expected(program, lexer, "'='");
        if (!zt_lex_bare(lexer, &number)) return zt_lex_expected(program, lexer, "a number");
        snprintf(digits, sizeof digits, "%.*s", (int)(number.length < 24 ? number.length : 23), number.text);
        if (number.length >= sizeof digits || !zt_parse_i64(digits, &value))
            return zt_prog_fail(program, ZT_EDATA, "symbol value '%s' is not an integer from 0 to 2^63 - 1",
                                zt_quote(buffer, number));
        status = zt_prog_give(program, symbol, value);
        program->bindings_line = program->line;
    } while (!status && !zt_lex_end(lexer));
    return status;
}

static const char *op_name(const void *user, int i)
{
    (void)user;
    return i < ZT_OP_COUNT ? zt_op_info((zt_op)i)->name : NULL;
}

static const char *dtype_name(const void *user, int i)
{
    (void)user;
    return i < ZT_DTYPE_COUNT ? zt_dtype_get((zt_dtype)i)->name : NULL;
}

static const char *attribute_name(const void *info, int i)
{
    const zt_opinfo *op_info = info;
    return i < op_info->n_attrs ? op_info->attrs[i].name : NULL;
}

/* "unknown WHAT 'word'", with the nearest of the names. */
static zt_status not_known(const zt_prog *program, const char *what, zt_span word, zt_name_fn *name, const void *user)
{
    char buffer[ZT_QUOTE], hint[ZT_QUOTE + 24] = "";
    const char *near = zt_near_name(word.text, word.length, name, user);
    if (near) snprintf(hint, sizeof hint, " (did you mean '%.40s'?)", near);
    return zt_prog_fail(program, ZT_EDATA, "unknown %s '%s'%s", what, zt_quote(buffer, word), hint);
}

/* NAME: TYPE[...] and, of data, "TENSOR" */
static zt_status read_declaration(zt_prog *program, zt_lex *lexer, zt_value_kind kind)
{
    zt_span name, type, tensor = {0};
    zt_dtype dtype;
    int rank;
    int64_t dims[ZT_MAX_RANK];
    if (!zt_lex_name(lexer, &name)) return zt_lex_expected(program, lexer, "a name");
    if (!zt_lex_char(lexer, ':')) return zt_lex_expected(program, lexer, "':'");
    if (!zt_lex_name(lexer, &type)) return zt_lex_expected(program, lexer, "a dtype");
    if (!zt_dtype_parse(type.text, type.length, &dtype)) return not_known(program, "dtype", type, dtype_name, NULL);
    zt_status status = zt_lex_dims(program, lexer, &rank, dims);
    if (!status && kind == ZT_VALUE_DATA) status = zt_lex_string(program, lexer, &tensor);
    if (!status) status = line_end(program, lexer);
    if (status) return status;
    int value_id = zt_prog_declare(program, kind, name, dtype, rank, dims, tensor);
    return value_id < 0 ? zt_ctx_status(program->ctx) : ZT_OK;
}

static zt_status read_in(zt_prog *program, zt_lex *lexer) { return read_declaration(program, lexer, ZT_VALUE_IN); }

static zt_status read_state(zt_prog *program, zt_lex *lexer) { return read_declaration(program, lexer, ZT_VALUE_STATE); }

static zt_status read_data(zt_prog *program, zt_lex *lexer) { return read_declaration(program, lexer, ZT_VALUE_DATA); }

/* ---- keep, out ------------------------------------------------------------------------------- */

/* NAME = VALUE */
static zt_status read_pair(zt_prog *program, zt_lex *lexer, zt_span *name, int *value)
{
    zt_span value_name;
    if (!zt_lex_name(lexer, name)) return zt_lex_expected(program, lexer, "a name");
    if (!zt_lex_char(lexer, '=')) return zt_lex_expected(program, lexer, "'='");
    if (!zt_lex_name(lexer, &value_name)) return zt_lex_expected(program, lexer, "a value");
    zt_status status = line_end(program, lexer);
    return status ? status : value_named(program, value_name, value);
}

static zt_status read_keep(zt_prog *program, zt_lex *lexer)
{
    zt_span name;
    int state = -1, value = -1;
    zt_status status = read_pair(program, lexer, &name, &value);
    if (!status) status = value_named(program, name, &state);
    return status ? status : zt_prog_keep(program, state, value);
}

static zt_status read_out(zt_prog *program, zt_lex *lexer)
{
    zt_span name;
    int value = -1;
    zt_status status = read_pair(program, lexer, &name, &value);
    return status ? status : zt_prog_add_out(program, name, value);
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* Y, RSTD = ; those not named are not wanted. How many there are: *output_count. */
static zt_status read_outputs(zt_prog *program, zt_lex *lexer, zt_span names[ZT_MAX_OUT], int *output_count)
{
    *output_count = 0;
    for (int output = 0; output < ZT_MAX_OUT; output++) names[output] = (zt_span){"_", 1};
    do {
        if (*output_count == ZT_MAX_OUT)
            return zt_prog_fail(program, ZT_EDATA, "too many outputs: at most %d are allowed", ZT_MAX_OUT);
        if (!zt_lex_name(lexer, &names[(*output_count)++])) return zt_lex_expected(program, lexer, "a name");
    } while (zt_lex_char(lexer, ','));
    return zt_lex_char(lexer, '=') ? ZT_OK : zt_lex_expected(program, lexer, "',' or '='");
}

static zt_status find_op(const zt_prog *program, zt_lex *lexer, int n_out, zt_op *op)
{
    zt_span name;
    if (!zt_lex_name(lexer, &name)) return zt_lex_expected(program, lexer, "an op");
    if (!zt_op_find(name.text, name.length, op)) return not_known(program, "op", name, op_name, NULL);
    const zt_opinfo *op_info = zt_op_info(*op);
    if (n_out <= op_info->n_out) return ZT_OK;
    return zt_prog_fail(program, ZT_EDATA, "op %s: too many outputs (%d): at most %d", op_info->name, n_out, op_info->n_out);
}

/* NAME=VALUE; `seen` has a bit for each attribute that was there. */
static zt_status read_attribute(zt_prog *program, zt_lex *lexer, const zt_opinfo *op_info, zt_span name, void *attrs,
                                unsigned *seen)
{
    char buffer[ZT_QUOTE];
    for (int attr_index = 0; attr_index < op_info->n_attrs; attr_index++) {
        if (!zt_span_is(name, op_info->attrs[attr_index].name)) continue;
        if (*seen & 1u << attr_index)
            return zt_prog_fail(program, ZT_EDATA, "op %s: duplicate attribute '%s'", op_info->name,
                                op_info->attrs[attr_index].name);
        *seen |= 1u << attr_index;
        return zt_attr_take(program, lexer, op_info, &op_info->attrs[attr_index], attrs);
    }
    char hint[ZT_QUOTE + 24] = "";
    const char *near = zt_near_name(name.text, name.length, attribute_name, op_info);
    if (near) snprintf(hint, sizeof hint, " (did you mean '%.40s'?)", near);
    return zt_prog_fail(program, ZT_EDATA, "op %s: unknown attribute '%s'%s", op_info->name, zt_quote(buffer, name), hint);
}

static zt_status read_input(const zt_prog *program, const zt_opinfo *op_info, zt_span name, int *inputs, int *input_count,
                            bool late)
{
    char buffer[ZT_QUOTE];
    if (late)
        return zt_prog_fail(program, ZT_EDATA, "op %s: input '%s' must come before the attributes", op_info->name,
                            zt_quote(buffer, name));
    if (*input_count == op_info->n_in)
        return zt_prog_fail(program, ZT_EDATA, "op %s: too many inputs: at most %d", op_info->name, op_info->n_in);
    if (zt_span_is(name, "_")) {
        inputs[(*input_count)++] = ZT_NONE;
        return ZT_OK;
    }
    return value_named(program, name, &inputs[(*input_count)++]);
}

/* Y, RSTD = OP INPUT ... NAME=VALUE ... */
static zt_status read_op_line(zt_prog *program, zt_lex *lexer)
{
    zt_span names[ZT_MAX_OUT], word;
    int inputs[ZT_MAX_IN], n_in = 0, n_out;
    char attrs[ZT_MAX_ATTR_BYTES];
    unsigned seen = 0;
    zt_op op;
    zt_status status = read_outputs(program, lexer, names, &n_out);
    if (!status) status = find_op(program, lexer, n_out, &op);
    if (status) return status;
    const zt_opinfo *op_info = zt_op_info(op);
    memcpy(attrs, op_info->defaults, op_info->attr_bytes);
    while (!status && zt_lex_name(lexer, &word))
        status = zt_lex_char(lexer, '=') ? read_attribute(program, lexer, op_info, word, attrs, &seen)
                                         : read_input(program, op_info, word, inputs, &n_in, seen != 0);
    if (!status) status = line_end(program, lexer);
    while (n_in < ZT_MAX_IN) inputs[n_in++] = ZT_NONE;
    return status ? status : zt_prog_add_op(program, op, attrs, inputs, names, NULL);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static const struct line_kind {
    const char *word;
    zt_status (*read)(zt_prog *p, zt_lex *l);
} line_kinds[] = {
    {"model", read_model}, {"bind", read_bind}, {"in", read_in},   {"state", read_state},
    {"data", read_data},   {"keep", read_keep}, {"out", read_out},
};

/* Words are not reserved: `in = silu x` is an op whose output is called in. */
static zt_status read_line(zt_prog *program, zt_lex lexer)
{
    char buffer[ZT_QUOTE];
    zt_lex start = lexer;
    zt_span word;
    if (zt_lex_end(&lexer)) return ZT_OK;
    if (!zt_lex_name(&lexer, &word)) return zt_lex_expected(program, &lexer, "a name");
    if (zt_lex_peek(&lexer, '=') || zt_lex_peek(&lexer, ',')) return read_op_line(program, &start);
    for (size_t k = 0; k < sizeof line_kinds / sizeof line_kinds[0]; k++)
        if (zt_span_is(word, line_kinds[k].word)) return line_kinds[k].read(program, &lexer);
    return zt_prog_fail(program, ZT_EDATA,
                        "'%s' cannot start a line: expected model, bind, in, state, data, keep, out or NAME "
                        "= OP",
                        zt_quote(buffer, word));
}

static zt_status read_first_line(const zt_prog *program, zt_lex lexer)
{
    char buffer[ZT_QUOTE];
    zt_span first_word, second_word, version;
    if (!zt_lex_name(&lexer, &first_word) || !zt_span_is(first_word, "zt") || !zt_lex_name(&lexer, &second_word) ||
        !zt_span_is(second_word, "program") || !zt_lex_bare(&lexer, &version))
        return zt_prog_fail(program, ZT_EDATA, "not a program: the first line must be 'zt program 1'");
    if (!zt_span_is(version, "1"))
        return zt_prog_fail(program, ZT_EDATA, "unsupported program version %s: must be 1", zt_quote(buffer, version));
    return line_end(program, &lexer);
}

static zt_status read_lines(zt_prog *program, const char *text, const char *end)
{
    zt_status status = ZT_OK;
    for (program->line = 1; !status && (text < end || program->line == 1); program->line++) {
        const char *stop = text < end ? memchr(text, '\n', (size_t)(end - text)) : NULL;
        zt_lex lexer = {text, stop ? stop : end};
        status = program->line == 1 ? read_first_line(program, lexer) : read_line(program, lexer);
        text = stop ? stop + 1 : end;
    }
    return status;
}

zt_prog *zt_prog_parse(zt_ctx *ctx, const char *name, const char *text, size_t length)
{
    ZT_REQUIRE(ctx, name && (text || !length), NULL);
    char where[256];
    zt_prog *program = zt_foreign_fail(ctx, name, text, length) ? NULL : zt_prog_new(ctx);
    if (!program) return NULL;
    program->where = zt_escape(where, sizeof where, name, strlen(name));
    zt_status status = read_lines(program, length ? text : "", (length ? text : "") + length);
    program->line = program->bindings_line;
    if (!status) status = zt_given_check(program);
    program->where = NULL;
    program->line = 0;
    if (!status) return program;
    zt_prog_free(program);
    return NULL;
}
