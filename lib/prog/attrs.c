/* attrs.c - owns attribute values: one row a kind, with how it is checked, compared, printed, read.
 *
 * Fields are moved with memcpy, so that any buffer of the right size serves as an attribute struct.
 */
#include "lib/base/require.h"
#include "lib/prog/list.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const void *field_of(const void *attrs, const zt_attrdef *attribute) { return (const char *)attrs + attribute->offset; }

/* Whose attribute: for messages. */
typedef struct attribute_owner {
    zt_prog *program;
    const char *op, *attr;
} attribute_owner;

static zt_status refuse_attribute(const attribute_owner *owner, const char *wrong, zt_span text)
{
    char buffer[ZT_QUOTE];
    return zt_prog_fail(owner->program, ZT_EUSAGE, "op %s: attribute '%s' %s '%s'", owner->op, owner->attr, wrong,
                        zt_quote(buffer, text));
}

static zt_status expect_word(const attribute_owner *owner, zt_lex *lexer, const char *what)
{
    char place[ZT_QUOTE];
    snprintf(place, sizeof place, "op %s: attribute '%s': ", owner->op, owner->attr);
    return zt_lex_expected_at(owner->program, lexer, place, what);
}

/* The next word as a string closed by a zero; false when there is none, or none so short. */
static bool read_bare_word(zt_lex *lexer, char *buffer, size_t bytes)
{
    zt_span word;
    if (!zt_lex_bare(lexer, &word) || word.length >= bytes) return false;
    memcpy(buffer, word.text, word.length);
    buffer[word.length] = 0;
    return true;
}

/* ---- i64 ------------------------------------------------------------------------------------- */

static bool i64_equal(const void *left, const void *right) { return memcmp(left, right, sizeof(int64_t)) == 0; }

static zt_status put_i64(const zt_prog *program, const void *field, zt_str *output_text)
{
    int64_t number;
    (void)program;
    memcpy(&number, field, sizeof number);
    return zt_str_printf(output_text, "%" PRId64, number);
}

static zt_status read_i64(const attribute_owner *owner, zt_lex *lexer, void *field)
{
    int64_t number;
    char text[64];
    zt_lex before = *lexer;
    if (!read_bare_word(lexer, text, sizeof text) || !zt_parse_i64(text, &number)) {
        *lexer = before;
        return expect_word(owner, lexer, "an integer");
    }
    memcpy(field, &number, sizeof number);
    return ZT_OK;
}

/* ---- f64 ------------------------------------------------------------------------------------- */

static bool equal_f64(const void *left, const void *right)
{
    double left_number, right_number;
    memcpy(&left_number, left, sizeof left_number);
    memcpy(&right_number, right, sizeof right_number);
    return memcmp(&left_number, &right_number, sizeof left_number) == 0 ||
           (isnan(left_number) && isnan(right_number)); /* 0 and -0 differ */
}

static zt_status put_f64(const zt_prog *program, const void *field, zt_str *output_text)
{
    double number;
    (void)program;
    memcpy(&number, field, sizeof number);
    return zt_str_put_double(output_text, number);
}

static zt_status read_f64(const attribute_owner *owner, zt_lex *lexer, void *field)
{
    double number;
    char text[64];
    zt_lex before = *lexer;
    if (!read_bare_word(lexer, text, sizeof text) || !zt_parse_double(text, &number)) {
        *lexer = before;
        return expect_word(owner, lexer, "a number");
    }
    memcpy(field, &number, sizeof number);
    return ZT_OK;
}

/* ---- word ------------------------------------------------------------------------------------ */

/* A name of at most 23 letters; the bytes after it become zero. */
static zt_status check_word(const attribute_owner *owner, void *field, bool *symbolic)
{
    zt_enum_string word = {{0}}, given;
    (void)symbolic;
    memcpy(&given, field, sizeof given);
    size_t length = strnlen(given.s, sizeof given.s);
    if (length == sizeof given.s) return refuse_attribute(owner, "has more than 23 characters:", (zt_span){given.s, length});
    if (length == 0 || zt_name_length(given.s, length) != length)
        return refuse_attribute(owner, "must be a word, got", (zt_span){given.s, length});
    memcpy(word.s, given.s, length);
    memcpy(field, &word, sizeof word);
    return ZT_OK;
}

static bool word_equal(const void *left, const void *right) { return strncmp(left, right, sizeof(zt_enum_string)) == 0; }

static zt_status word_put(const zt_prog *program, const void *field, zt_str *output_text)
{
    (void)program;
    return zt_str_puts(output_text, field);
}

static zt_status read_word(const attribute_owner *owner, zt_lex *lexer, void *field)
{
    zt_enum_string word = {{0}};
    zt_span text;
    if (!zt_lex_name(lexer, &text)) return expect_word(owner, lexer, "a word");
    if (text.length >= sizeof word.s) return refuse_attribute(owner, "has more than 23 characters:", text);
    memcpy(word.s, text.text, text.length);
    memcpy(field, &word, sizeof word);
    return ZT_OK;
}

/* ---- dims ------------------------------------------------------------------------------------ */

static zt_status check_dims(const attribute_owner *owner, void *field, bool *symbolic)
{
    zt_dims dims, kept = {0};
    memcpy(&dims, field, sizeof dims);
    if (dims.n < 0 || dims.n > ZT_MAX_RANK)
        return zt_prog_fail(owner->program, ZT_EUSAGE, "op %s: attribute '%s' has an invalid number of dimensions: %" PRId64,
                            owner->op, owner->attr, dims.n);
    kept.n = dims.n;
    for (int i = 0; i < dims.n; i++) {
        if (!zt_dim_known(owner->program, dims.dim[i]))
            return zt_prog_fail(owner->program, ZT_EUSAGE, "op %s: attribute '%s': dimension %d belongs to another program",
                                owner->op, owner->attr, i);
        *symbolic = *symbolic || dims.dim[i] < 0;
        kept.dim[i] = dims.dim[i];
    }
    memcpy(field, &kept, sizeof kept);
    return ZT_OK;
}

static bool equal_dims(const void *left, const void *right)
{
    zt_dims left_dims, right_dims;
    memcpy(&left_dims, left, sizeof left_dims);
    memcpy(&right_dims, right, sizeof right_dims);
    return left_dims.n == right_dims.n &&
           memcmp(left_dims.dim, right_dims.dim, (size_t)left_dims.n * sizeof left_dims.dim[0]) == 0;
}

static zt_status dims_put(const zt_prog *program, const void *field, zt_str *output_text)
{
    zt_dims dims;
    memcpy(&dims, field, sizeof dims);
    return zt_dims_put(program, (int)dims.n, dims.dim, output_text);
}

static zt_status read_dims(const attribute_owner *owner, zt_lex *lexer, void *field)
{
    zt_dims dims = {0};
    int rank;
    if (!zt_lex_peek(lexer, '[')) return expect_word(owner, lexer, "a list [...]");
    zt_status status = zt_lex_dims(owner->program, lexer, &rank, dims.dim);
    dims.n = rank;
    if (!status) memcpy(field, &dims, sizeof dims);
    return status;
}

static zt_status dims_bind(const zt_prog *program, const int64_t *value, void *field)
{
    zt_dims dims;
    memcpy(&dims, field, sizeof dims);
    zt_status status = zt_dims_bind(program, value, (int)dims.n, dims.dim);
    if (!status) memcpy(field, &dims, sizeof dims);
    return status;
}

/* ---- ints ------------------------------------------------------------------------------------ */

static zt_status check_ints(const attribute_owner *owner, void *field, bool *symbolic)
{
    zt_ints ints, kept = {0};
    (void)symbolic;
    memcpy(&ints, field, sizeof ints);
    if (ints.n < 0 || ints.n > ZT_MAX_RANK)
        return zt_prog_fail(owner->program, ZT_EUSAGE, "op %s: attribute '%s' has an invalid number of integers: %" PRId64,
                            owner->op, owner->attr, ints.n);
    kept.n = ints.n;
    memcpy(kept.v, ints.v, (size_t)ints.n * sizeof ints.v[0]);
    memcpy(field, &kept, sizeof kept);
    return ZT_OK;
}

static bool equal_ints(const void *left, const void *right)
{
    zt_ints left_ints, right_ints;
    memcpy(&left_ints, left, sizeof left_ints);
    memcpy(&right_ints, right, sizeof right_ints);
    return left_ints.n == right_ints.n && left_ints.n >= 0 && left_ints.n <= ZT_MAX_RANK &&
           memcmp(left_ints.v, right_ints.v, (size_t)left_ints.n * sizeof left_ints.v[0]) == 0;
}

static zt_status ints_put(const zt_prog *program, const void *field, zt_str *output_text)
{
    zt_ints ints;
    (void)program;
    memcpy(&ints, field, sizeof ints);
    zt_status status = zt_str_putc(output_text, '[');
    for (int i = 0; i < ints.n && !status; i++) status = zt_str_printf(output_text, "%s%" PRId64, i > 0 ? "," : "", ints.v[i]);
    return status ? status : zt_str_putc(output_text, ']');
}

static zt_status read_ints(const attribute_owner *owner, zt_lex *lexer, void *field)
{
    zt_ints ints = {0};
    if (!zt_lex_char(lexer, '[')) return expect_word(owner, lexer, "a list [...]");
    bool more = !zt_lex_char(lexer, ']');
    while (more) {
        if (ints.n == ZT_MAX_RANK)
            return zt_prog_fail(owner->program, ZT_EDATA, "op %s: attribute '%s': too many integers: at most %d are allowed",
                                owner->op, owner->attr, ZT_MAX_RANK);
        zt_status status = read_i64(owner, lexer, &ints.v[ints.n++]);
        if (status) return status;
        more = zt_lex_char(lexer, ',');
        if (!more && !zt_lex_char(lexer, ']')) return zt_lex_expected(owner->program, lexer, "',' or ']'");
    }
    memcpy(field, &ints, sizeof ints);
    return ZT_OK;
}

/* ---- str ------------------------------------------------------------------------------------- */

static const char *string_of(const void *field)
{
    const char *text;
    memcpy(&text, field, sizeof text);
    return text ? text : "";
}

static zt_status check_string(const attribute_owner *owner, void *field, bool *symbolic)
{
    const char *text = string_of(field);
    (void)symbolic;
    text = zt_arena_strndup(owner->program->memory, text, strlen(text));
    memcpy(field, &text, sizeof text);
    return text ? ZT_OK : ZT_ENOMEM;
}

static bool str_equal(const void *left, const void *right) { return strcmp(string_of(left), string_of(right)) == 0; }

static zt_status str_put(const zt_prog *program, const void *field, zt_str *output_text)
{
    (void)program;
    return zt_str_put_json(output_text, string_of(field), strlen(string_of(field)));
}

static zt_status read_string(const attribute_owner *owner, zt_lex *lexer, void *field)
{
    zt_span text;
    if (!zt_lex_peek(lexer, '"')) return expect_word(owner, lexer, "a string");
    zt_status status = zt_lex_string(owner->program, lexer, &text);
    if (!status) memcpy(field, &text.text, sizeof text.text);
    return status;
}

/* ---- func ------------------------------------------------------------------------------------ */

static const zt_func *function_of(const void *field)
{
    const zt_func *function;
    memcpy(&function, field, sizeof function);
    return function;
}

static bool func_equal(const void *left, const void *right) { return function_of(left) == function_of(right); }

/* A function without a name is marked: text cannot find it again. */
static const char opaque[] = "opaque";

static zt_status func_put(const zt_prog *program, const void *field, zt_str *output_text)
{
    const char *name = function_of(field)->name;
    (void)program;
    return name ? zt_str_put_json(output_text, name, strlen(name)) : zt_str_puts(output_text, opaque);
}

static zt_status read_function(const attribute_owner *owner, zt_lex *lexer, void *field)
{
    zt_lex start = *lexer;
    zt_span text;
    if (zt_lex_bare(&start, &text) && zt_span_is(text, opaque))
        return zt_prog_fail(owner->program, ZT_EUSAGE,
                            "op %s: the function has no name: the program can run only in the process that "
                            "recorded it",
                            owner->op);
    if (!zt_lex_peek(lexer, '"')) return expect_word(owner, lexer, "a string");
    zt_status status = zt_lex_string(owner->program, lexer, &text);
    if (status) return status;
    const zt_func *function = strlen(text.text) == text.length ? zt_func_find(owner->program->ctx, text.text) : NULL;
    if (!function) return refuse_attribute(owner, "names an unregistered function:", text);
    memcpy(field, &function, sizeof function);
    return ZT_OK;
}

bool zt_attrs_opaque(const zt_opinfo *op_info, const void *attrs)
{
    for (int attr_index = 0; attr_index < op_info->n_attrs; attr_index++) {
        const zt_func *function =
            op_info->attrs[attr_index].kind == ZT_ATTR_func ? function_of(field_of(attrs, &op_info->attrs[attr_index])) : NULL;
        if (function && !function->name) return true;
    }
    return false;
}

/* ---- the kinds ------------------------------------------------------------------------------- */

static const struct kind {
    size_t bytes;
    /* May be NULL. Puts the field into the one form in which it is kept. */
    zt_status (*check)(const attribute_owner *o, void *field, bool *symbolic);
    bool (*equal)(const void *a, const void *b);
    zt_status (*put)(const zt_prog *p, const void *field, zt_str *out);
    zt_status (*read)(const attribute_owner *o, zt_lex *l, void *field);
    zt_status (*bind)(const zt_prog *p, const int64_t *value, void *field); /* may be NULL */
} kinds[] = {
    [ZT_ATTR_i64] = {sizeof(int64_t), NULL, i64_equal, put_i64, read_i64, NULL},
    [ZT_ATTR_f64] = {sizeof(double), NULL, equal_f64, put_f64, read_f64, NULL},
    [ZT_ATTR_word] = {sizeof(zt_enum_string), check_word, word_equal, word_put, read_word, NULL},
    [ZT_ATTR_dims] = {sizeof(zt_dims), check_dims, equal_dims, dims_put, read_dims, dims_bind},
    [ZT_ATTR_ints] = {sizeof(zt_ints), check_ints, equal_ints, ints_put, read_ints, NULL},
    [ZT_ATTR_str] = {sizeof(char *), check_string, str_equal, str_put, read_string, NULL},
    [ZT_ATTR_func] = {sizeof(zt_func *), NULL, func_equal, func_put, read_function, NULL},
};

static bool is_default(const zt_opinfo *op_info, const zt_attrdef *attribute, const void *attrs)
{
    return kinds[attribute->kind].equal(field_of(attrs, attribute), field_of(op_info->defaults, attribute));
}

bool zt_attrs_same(zt_op op, const void *left, const void *right)
{
    if (!left || !right || !zt_op_info(op)) return left == right;
    const zt_opinfo *op_info = zt_op_info(op);
    for (int attr_index = 0; attr_index < op_info->n_attrs && left != right; attr_index++) {
        const zt_attrdef *attribute = &op_info->attrs[attr_index];
        if (!kinds[attribute->kind].equal(field_of(left, attribute), field_of(right, attribute))) return false;
    }
    return true;
}

/* FNV-1a over the fields: each is in the one form in which programs keep it. */
uint64_t zt_attrs_hash(zt_op op, const void *attrs)
{
    if (!attrs || !zt_op_info(op)) return 0;
    const zt_opinfo *op_info = zt_op_info(op);
    uint64_t hash = 0xcbf29ce484222325u;
    for (int attr_index = 0; attr_index < op_info->n_attrs; attr_index++) {
        const zt_attrdef *attribute = &op_info->attrs[attr_index];
        bool text = attribute->kind == ZT_ATTR_str;
        const char *bytes = text ? string_of(field_of(attrs, attribute)) : field_of(attrs, attribute);
        size_t length = text ? strlen(bytes) : kinds[attribute->kind].bytes;
        for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

/* Field by field, so that what lies between them never differs; defaults are not looked at. */
const void *zt_attrs_keep(zt_prog *program, const zt_opinfo *op_info, const void *attrs, bool *symbolic)
{
    char buffer[ZT_MAX_ATTR_BYTES];
    bool changed = false;
    *symbolic = false;
    memcpy(buffer, op_info->defaults, op_info->attr_bytes);
    for (int attr_index = 0; attrs && attr_index < op_info->n_attrs; attr_index++) {
        const zt_attrdef *attribute = &op_info->attrs[attr_index];
        const struct kind *kind = &kinds[attribute->kind];
        if (is_default(op_info, attribute, attrs)) continue;
        changed = true;
        memcpy(buffer + attribute->offset, field_of(attrs, attribute), kind->bytes);
        attribute_owner owner = {program, op_info->name, attribute->name};
        if (kind->check && kind->check(&owner, buffer + attribute->offset, symbolic)) return NULL;
    }
    if (!changed) return op_info->defaults;
    void *copy = zt_arena_alloc(program->memory, op_info->attr_bytes);
    return copy ? memcpy(copy, buffer, op_info->attr_bytes) : NULL;
}

zt_status zt_attrs_put(const zt_prog *program, const zt_opinfo *op_info, const void *attrs, zt_str *output_text)
{
    zt_status status = ZT_OK;
    for (int attr_index = 0; attr_index < op_info->n_attrs && !status; attr_index++) {
        const zt_attrdef *attribute = &op_info->attrs[attr_index];
        if (is_default(op_info, attribute, attrs)) continue;
        status = zt_str_printf(output_text, " %s=", attribute->name);
        if (!status) status = kinds[attribute->kind].put(program, field_of(attrs, attribute), output_text);
    }
    return status;
}

zt_status zt_prog_attrs_print(const zt_prog *program, zt_op op, const void *attrs, zt_str *output_text)
{
    if (!program) return ZT_EUSAGE;
    ZT_REQUIRE(program->ctx, attrs && output_text && zt_op_info(op), ZT_EUSAGE);
    if (!program) return ZT_EUSAGE;
    ZT_REQUIRE(program->ctx, attrs && output_text, ZT_EUSAGE);
    return zt_attrs_put(program, zt_op_info(op), attrs, output_text);
}

zt_status zt_attr_take(zt_prog *program, zt_lex *lexer, const zt_opinfo *op_info, const zt_attrdef *attribute, void *attrs)
{
    attribute_owner owner = {program, op_info->name, attribute->name};
    return kinds[attribute->kind].read(&owner, lexer, (char *)attrs + attribute->offset);
}

zt_status zt_attrs_bind(const zt_prog *program, const zt_opinfo *op_info, const void *attrs, const int64_t *value,
                        void *bound_attrs)
{
    memcpy(bound_attrs, attrs, op_info->attr_bytes);
    for (int attr_index = 0; attr_index < op_info->n_attrs; attr_index++) {
        const zt_attrdef *attribute = &op_info->attrs[attr_index];
        zt_status status = ZT_OK;
        if (kinds[attribute->kind].bind)
            status = kinds[attribute->kind].bind(program, value, (char *)bound_attrs + attribute->offset);
        if (status) return status;
    }
    return ZT_OK;
}
