/* attrs.c - owns attribute values: one row a kind, with how it is checked, compared, printed, read.
 *
 * Fields are moved with memcpy, so that any buffer of the right size serves as an attribute struct.
 */
#include "lib/prog/list.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const void *field_of(const void *attrs, const zt_attrdef *attribute)
{
    return (const char *)attrs + attribute->offset;
}

/* Whose attribute: for messages. */
typedef struct owner {
    zt_prog *p;
    const char *op, *attr;
} owner;

static zt_status refuse(const owner *o, const char *wrong, zt_span text)
{
    char buf[ZT_QUOTE];
    return zt_prog_fail(o->p, ZT_EUSAGE, "op %s: attribute '%s' %s '%s'", o->op, o->attr, wrong,
                        zt_quote(buf, text));
}

static zt_status wants(const owner *o, zt_lex *lexer, const char *what)
{
    char text[ZT_QUOTE];
    snprintf(text, sizeof text, "op %s: attribute '%s': %s", o->op, o->attr, what);
    return zt_lex_expected(o->p, lexer, text);
}

/* The next word as a string closed by a zero; false when there is none, or none so short. */
static bool bare(zt_lex *lexer, char *buf, size_t bytes)
{
    zt_span word;
    if (!zt_lex_bare(lexer, &word) || word.n >= bytes) return false;
    memcpy(buf, word.s, word.n);
    buf[word.n] = 0;
    return true;
}

/* ---- i64 ------------------------------------------------------------------------------------- */

static bool i64_equal(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(int64_t)) == 0;
}

static zt_status i64_put(const zt_prog *program, const void *field, zt_str *out)
{
    int64_t v;
    (void)program;
    memcpy(&v, field, sizeof v);
    return zt_str_printf(out, "%" PRId64, v);
}

static zt_status i64_take(const owner *o, zt_lex *lexer, void *field)
{
    int64_t v;
    char text[64];
    zt_lex before = *lexer;
    if (!bare(lexer, text, sizeof text) || !zt_parse_i64(text, &v)) {
        *lexer = before;
        return wants(o, lexer, "an integer");
    }
    memcpy(field, &v, sizeof v);
    return ZT_OK;
}

/* ---- f64 ------------------------------------------------------------------------------------- */

static bool f64_equal(const void *left, const void *right)
{
    double x, y;
    memcpy(&x, left, sizeof x);
    memcpy(&y, right, sizeof y);
    return memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y)); /* 0 and -0 differ */
}

static zt_status f64_put(const zt_prog *program, const void *field, zt_str *out)
{
    double v;
    (void)program;
    memcpy(&v, field, sizeof v);
    return zt_str_put_double(out, v);
}

static zt_status f64_take(const owner *o, zt_lex *lexer, void *field)
{
    double v;
    char text[64];
    zt_lex before = *lexer;
    if (!bare(lexer, text, sizeof text) || !zt_parse_double(text, &v)) {
        *lexer = before;
        return wants(o, lexer, "a number");
    }
    memcpy(field, &v, sizeof v);
    return ZT_OK;
}

/* ---- word ------------------------------------------------------------------------------------ */

/* A name of at most 23 letters; the bytes after it become zero. */
static zt_status word_check(const owner *o, void *field, bool *symbolic)
{
    zt_enum_string w = {{0}}, v;
    (void)symbolic;
    memcpy(&v, field, sizeof v);
    size_t n = strnlen(v.s, sizeof v.s);
    if (n == sizeof v.s) return refuse(o, "has more than 23 letters:", (zt_span){v.s, n});
    if (n == 0 || zt_name_length(v.s, n) != n)
        return refuse(o, "wants a word, not", (zt_span){v.s, n});
    memcpy(w.s, v.s, n);
    memcpy(field, &w, sizeof w);
    return ZT_OK;
}

static bool word_equal(const void *left, const void *right)
{
    return strncmp(left, right, sizeof(zt_enum_string)) == 0;
}

static zt_status word_put(const zt_prog *program, const void *field, zt_str *out)
{
    (void)program;
    return zt_str_puts(out, field);
}

static zt_status word_take(const owner *o, zt_lex *lexer, void *field)
{
    zt_enum_string w = {{0}};
    zt_span text;
    if (!zt_lex_name(lexer, &text)) return wants(o, lexer, "a word");
    if (text.n >= sizeof w.s) return refuse(o, "has more than 23 letters:", text);
    memcpy(w.s, text.s, text.n);
    memcpy(field, &w, sizeof w);
    return ZT_OK;
}

/* ---- dims ------------------------------------------------------------------------------------ */

static zt_status dims_check(const owner *o, void *field, bool *symbolic)
{
    zt_dims dims, v = {0};
    memcpy(&dims, field, sizeof dims);
    if (dims.n < 0 || dims.n > ZT_MAX_RANK)
        return zt_prog_fail(o->p, ZT_EUSAGE, "op %s: attribute '%s' has %" PRId64 " dimensions",
                            o->op, o->attr, dims.n);
    v.n = dims.n;
    for (int i = 0; i < dims.n; i++) {
        if (!zt_dim_known(o->p, dims.dim[i]))
            return zt_prog_fail(o->p, ZT_EUSAGE, "op %s: attribute '%s': dimension %d is not this "
                                "program's", o->op, o->attr, i);
        *symbolic = *symbolic || dims.dim[i] < 0;
        v.dim[i] = dims.dim[i];
    }
    memcpy(field, &v, sizeof v);
    return ZT_OK;
}

static bool dims_equal(const void *left, const void *right)
{
    zt_dims x, y;
    memcpy(&x, left, sizeof x);
    memcpy(&y, right, sizeof y);
    return x.n == y.n && memcmp(x.dim, y.dim, (size_t)x.n * sizeof x.dim[0]) == 0;
}

static zt_status dims_put(const zt_prog *program, const void *field, zt_str *out)
{
    zt_dims dims;
    memcpy(&dims, field, sizeof dims);
    return zt_dims_put(program, (int)dims.n, dims.dim, out);
}

static zt_status dims_take(const owner *o, zt_lex *lexer, void *field)
{
    zt_dims dims = {0};
    int rank;
    if (!zt_lex_peek(lexer, '[')) return wants(o, lexer, "a list [...]");
    zt_status status = zt_lex_dims(o->p, lexer, &rank, dims.dim);
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

static zt_status ints_check(const owner *o, void *field, bool *symbolic)
{
    zt_ints ints, v = {0};
    (void)symbolic;
    memcpy(&ints, field, sizeof ints);
    if (ints.n < 0 || ints.n > ZT_MAX_RANK)
        return zt_prog_fail(o->p, ZT_EUSAGE, "op %s: attribute '%s' has %" PRId64 " integers",
                            o->op, o->attr, ints.n);
    v.n = ints.n;
    memcpy(v.v, ints.v, (size_t)ints.n * sizeof ints.v[0]);
    memcpy(field, &v, sizeof v);
    return ZT_OK;
}

static bool ints_equal(const void *left, const void *right)
{
    zt_ints x, y;
    memcpy(&x, left, sizeof x);
    memcpy(&y, right, sizeof y);
    return x.n == y.n && x.n >= 0 && x.n <= ZT_MAX_RANK &&
           memcmp(x.v, y.v, (size_t)x.n * sizeof x.v[0]) == 0;
}

static zt_status ints_put(const zt_prog *program, const void *field, zt_str *out)
{
    zt_ints ints;
    (void)program;
    memcpy(&ints, field, sizeof ints);
    zt_status status = zt_str_putc(out, '[');
    for (int i = 0; i < ints.n && !status; i++)
        status = zt_str_printf(out, "%s%" PRId64, i > 0 ? "," : "", ints.v[i]);
    return status ? status : zt_str_putc(out, ']');
}

static zt_status ints_take(const owner *o, zt_lex *lexer, void *field)
{
    zt_ints ints = {0};
    if (!zt_lex_char(lexer, '[')) return wants(o, lexer, "a list [...]");
    bool more = !zt_lex_char(lexer, ']');
    while (more) {
        if (ints.n == ZT_MAX_RANK)
            return zt_prog_fail(o->p, ZT_EDATA, "op %s: attribute '%s': more than %d integers",
                                o->op, o->attr, ZT_MAX_RANK);
        zt_status status = i64_take(o, lexer, &ints.v[ints.n++]);
        if (status) return status;
        more = zt_lex_char(lexer, ',');
        if (!more && !zt_lex_char(lexer, ']')) return zt_lex_expected(o->p, lexer, "',' or ']'");
    }
    memcpy(field, &ints, sizeof ints);
    return ZT_OK;
}

/* ---- str ------------------------------------------------------------------------------------- */

static const char *string(const void *field)
{
    const char *s;
    memcpy(&s, field, sizeof s);
    return s ? s : "";
}

static zt_status str_check(const owner *o, void *field, bool *symbolic)
{
    const char *s = string(field);
    (void)symbolic;
    s = zt_arena_strndup(o->p->memory, s, strlen(s));
    memcpy(field, &s, sizeof s);
    return s ? ZT_OK : ZT_ENOMEM;
}

static bool str_equal(const void *left, const void *right)
{
    return strcmp(string(left), string(right)) == 0;
}

static zt_status str_put(const zt_prog *program, const void *field, zt_str *out)
{
    (void)program;
    return zt_str_put_json(out, string(field), strlen(string(field)));
}

static zt_status str_take(const owner *o, zt_lex *lexer, void *field)
{
    zt_span text;
    if (!zt_lex_peek(lexer, '"')) return wants(o, lexer, "a string");
    zt_status status = zt_lex_string(o->p, lexer, &text);
    if (!status) memcpy(field, &text.s, sizeof text.s);
    return status;
}

/* ---- func ------------------------------------------------------------------------------------ */

static const zt_func *func(const void *field)
{
    const zt_func *function;
    memcpy(&function, field, sizeof function);
    return function;
}

static bool func_equal(const void *left, const void *right) { return func(left) == func(right); }

/* A function without a name is marked: text cannot find it again. */
static const char opaque[] = "opaque";

static zt_status func_put(const zt_prog *program, const void *field, zt_str *out)
{
    const char *name = func(field)->name;
    (void)program;
    return name ? zt_str_put_json(out, name, strlen(name)) : zt_str_puts(out, opaque);
}

static zt_status func_take(const owner *o, zt_lex *lexer, void *field)
{
    zt_lex start = *lexer;
    zt_span text;
    if (zt_lex_bare(&start, &text) && zt_span_is(text, opaque))
        return zt_prog_fail(o->p, ZT_EUSAGE,
                            "op %s: its function has no name: the program runs only "
                            "in the process that recorded it",
                            o->op);
    if (!zt_lex_peek(lexer, '"')) return wants(o, lexer, "a string");
    zt_status status = zt_lex_string(o->p, lexer, &text);
    if (status) return status;
    const zt_func *function = strlen(text.s) == text.n ? zt_func_find(o->p->ctx, text.s) : NULL;
    if (!function) return refuse(o, "names no registered function:", text);
    memcpy(field, &function, sizeof function);
    return ZT_OK;
}

bool zt_attrs_opaque(const zt_opinfo *info, const void *attrs)
{
    for (int k = 0; k < info->n_attrs; k++) {
        const zt_func *function =
            info->attrs[k].kind == ZT_ATTR_func ? func(field_of(attrs, &info->attrs[k])) : NULL;
        if (function && !function->name) return true;
    }
    return false;
}

/* ---- the kinds ------------------------------------------------------------------------------- */

static const struct kind {
    size_t bytes;
    /* May be NULL. Puts the field into the one form in which it is kept. */
    zt_status (*check)(const owner *o, void *field, bool *symbolic);
    bool (*equal)(const void *a, const void *b);
    zt_status (*put)(const zt_prog *p, const void *field, zt_str *out);
    zt_status (*take)(const owner *o, zt_lex *l, void *field);
    zt_status (*bind)(const zt_prog *p, const int64_t *value, void *field); /* may be NULL */
} kinds[] = {
    [ZT_ATTR_i64] = {sizeof(int64_t), NULL, i64_equal, i64_put, i64_take, NULL},
    [ZT_ATTR_f64] = {sizeof(double), NULL, f64_equal, f64_put, f64_take, NULL},
    [ZT_ATTR_word] = {sizeof(zt_enum_string), word_check, word_equal, word_put, word_take, NULL},
    [ZT_ATTR_dims] = {sizeof(zt_dims), dims_check, dims_equal, dims_put, dims_take, dims_bind},
    [ZT_ATTR_ints] = {sizeof(zt_ints), ints_check, ints_equal, ints_put, ints_take, NULL},
    [ZT_ATTR_str] = {sizeof(char *), str_check, str_equal, str_put, str_take, NULL},
    [ZT_ATTR_func] = {sizeof(zt_func *), NULL, func_equal, func_put, func_take, NULL},
};

static bool is_default(const zt_opinfo *info, const zt_attrdef *attribute, const void *attrs)
{
    return kinds[attribute->kind].equal(field_of(attrs, attribute), field_of(info->defaults, attribute));
}

bool zt_attrs_same(zt_op op, const void *left, const void *right)
{
    const zt_opinfo *info = zt_op_info(op);
    for (int k = 0; k < info->n_attrs && left != right; k++) {
        const zt_attrdef *d = &info->attrs[k];
        if (!kinds[d->kind].equal(field_of(left, d), field_of(right, d))) return false;
    }
    return true;
}

/* FNV-1a over the fields: each is in the one form in which programs keep it. */
uint64_t zt_attrs_hash(zt_op op, const void *attrs)
{
    const zt_opinfo *info = zt_op_info(op);
    uint64_t h = 0xcbf29ce484222325u;
    for (int k = 0; k < info->n_attrs; k++) {
        const zt_attrdef *d = &info->attrs[k];
        bool text = d->kind == ZT_ATTR_str;
        const char *at = text ? string(field_of(attrs, d)) : field_of(attrs, d);
        size_t n = text ? strlen(at) : kinds[d->kind].bytes;
        for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)at[i]) * 0x100000001b3u;
    }
    return h;
}

/* Field by field, so that what lies between them never differs; defaults are not looked at. */
const void *zt_attrs_keep(zt_prog *program, const zt_opinfo *info, const void *attrs, bool *symbolic)
{
    char buf[ZT_MAX_ATTR_BYTES];
    bool changed = false;
    *symbolic = false;
    memcpy(buf, info->defaults, info->attr_bytes);
    for (int k = 0; attrs && k < info->n_attrs; k++) {
        const zt_attrdef *attribute = &info->attrs[k];
        const struct kind *kind = &kinds[attribute->kind];
        if (is_default(info, attribute, attrs)) continue;
        changed = true;
        memcpy(buf + attribute->offset, field_of(attrs, attribute), kind->bytes);
        owner o = {program, info->name, attribute->name};
        if (kind->check && kind->check(&o, buf + attribute->offset, symbolic)) return NULL;
    }
    if (!changed) return info->defaults;
    void *copy = zt_arena_alloc(program->memory, info->attr_bytes);
    return copy ? memcpy(copy, buf, info->attr_bytes) : NULL;
}

zt_status zt_attrs_put(const zt_prog *program, const zt_opinfo *info, const void *attrs, zt_str *out)
{
    zt_status status = ZT_OK;
    for (int k = 0; k < info->n_attrs && !status; k++) {
        const zt_attrdef *attribute = &info->attrs[k];
        if (is_default(info, attribute, attrs)) continue;
        status = zt_str_printf(out, " %s=", attribute->name);
        if (!status) status = kinds[attribute->kind].put(program, field_of(attrs, attribute), out);
    }
    return status;
}

zt_status zt_prog_attrs_print(const zt_prog *program, zt_op op, const void *attrs, zt_str *out)
{
    return zt_attrs_put(program, zt_op_info(op), attrs, out);
}

zt_status zt_attr_take(zt_prog *program, zt_lex *lexer, const zt_opinfo *info, const zt_attrdef *attribute,
                       void *attrs)
{
    owner o = {program, info->name, attribute->name};
    return kinds[attribute->kind].take(&o, lexer, (char *)attrs + attribute->offset);
}

zt_status zt_attrs_bind(const zt_prog *program, const zt_opinfo *info, const void *attrs,
                        const int64_t *value, void *to)
{
    memcpy(to, attrs, info->attr_bytes);
    for (int k = 0; k < info->n_attrs; k++) {
        const zt_attrdef *attribute = &info->attrs[k];
        zt_status status = ZT_OK;
        if (kinds[attribute->kind].bind) status = kinds[attribute->kind].bind(program, value, (char *)to + attribute->offset);
        if (status) return status;
    }
    return ZT_OK;
}
