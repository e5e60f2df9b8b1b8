/* attrs.c - owns attribute values: one row a kind, with how it is checked, compared, printed, read.
 *
 * Fields are moved with memcpy, so that any buffer of the right size serves as an attribute struct.
 */
#include "lib/prog/list.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const void *field_of(const void *attrs, const zt_attrdef *a)
{
    return (const char *)attrs + a->offset;
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

static zt_status wants(const owner *o, zt_lex *l, const char *what)
{
    char text[ZT_QUOTE];
    snprintf(text, sizeof text, "op %s: attribute '%s': %s", o->op, o->attr, what);
    return zt_lex_expected(o->p, l, text);
}

/* The next word as a string closed by a zero; false when there is none, or none so short. */
static bool bare(zt_lex *l, char *buf, size_t bytes)
{
    zt_span word;
    if (!zt_lex_bare(l, &word) || word.n >= bytes) return false;
    memcpy(buf, word.s, word.n);
    buf[word.n] = 0;
    return true;
}

/* ---- i64 ------------------------------------------------------------------------------------- */

static bool i64_equal(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(int64_t)) == 0;
}

static zt_status i64_put(const zt_prog *p, const void *field, zt_str *out)
{
    int64_t v;
    (void)p;
    memcpy(&v, field, sizeof v);
    return zt_str_printf(out, "%" PRId64, v);
}

static zt_status i64_take(const owner *o, zt_lex *l, void *field)
{
    int64_t v;
    char text[64];
    zt_lex before = *l;
    if (!bare(l, text, sizeof text) || !zt_parse_i64(text, &v)) {
        *l = before;
        return wants(o, l, "an integer");
    }
    memcpy(field, &v, sizeof v);
    return ZT_OK;
}

/* ---- f64 ------------------------------------------------------------------------------------- */

static bool f64_equal(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y)); /* 0 and -0 differ */
}

static zt_status f64_put(const zt_prog *p, const void *field, zt_str *out)
{
    double v;
    (void)p;
    memcpy(&v, field, sizeof v);
    return zt_str_put_double(out, v);
}

static zt_status f64_take(const owner *o, zt_lex *l, void *field)
{
    double v;
    char text[64];
    zt_lex before = *l;
    if (!bare(l, text, sizeof text) || !zt_parse_double(text, &v)) {
        *l = before;
        return wants(o, l, "a number");
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

static bool word_equal(const void *a, const void *b)
{
    return strncmp(a, b, sizeof(zt_enum_string)) == 0;
}

static zt_status word_put(const zt_prog *p, const void *field, zt_str *out)
{
    (void)p;
    return zt_str_puts(out, field);
}

static zt_status word_take(const owner *o, zt_lex *l, void *field)
{
    zt_enum_string w = {{0}};
    zt_span text;
    if (!zt_lex_name(l, &text)) return wants(o, l, "a word");
    if (text.n >= sizeof w.s) return refuse(o, "has more than 23 letters:", text);
    memcpy(w.s, text.s, text.n);
    memcpy(field, &w, sizeof w);
    return ZT_OK;
}

/* ---- dims ------------------------------------------------------------------------------------ */

static zt_status dims_check(const owner *o, void *field, bool *symbolic)
{
    zt_dims d, v = {0};
    memcpy(&d, field, sizeof d);
    if (d.n < 0 || d.n > ZT_MAX_RANK)
        return zt_prog_fail(o->p, ZT_EUSAGE, "op %s: attribute '%s' has %" PRId64 " dimensions",
                            o->op, o->attr, d.n);
    v.n = d.n;
    for (int i = 0; i < d.n; i++) {
        if (!zt_dim_known(o->p, d.dim[i]))
            return zt_prog_fail(o->p, ZT_EUSAGE, "op %s: attribute '%s': dimension %d is not this "
                                "program's", o->op, o->attr, i);
        *symbolic = *symbolic || d.dim[i] < 0;
        v.dim[i] = d.dim[i];
    }
    memcpy(field, &v, sizeof v);
    return ZT_OK;
}

static bool dims_equal(const void *a, const void *b)
{
    zt_dims x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x.n == y.n && memcmp(x.dim, y.dim, (size_t)x.n * sizeof x.dim[0]) == 0;
}

static zt_status dims_put(const zt_prog *p, const void *field, zt_str *out)
{
    zt_dims d;
    memcpy(&d, field, sizeof d);
    return zt_dims_put(p, (int)d.n, d.dim, out);
}

static zt_status dims_take(const owner *o, zt_lex *l, void *field)
{
    zt_dims d = {0};
    int rank;
    if (!zt_lex_peek(l, '[')) return wants(o, l, "a list [...]");
    zt_status s = zt_lex_dims(o->p, l, &rank, d.dim);
    d.n = rank;
    if (!s) memcpy(field, &d, sizeof d);
    return s;
}

static zt_status dims_bind(const zt_prog *p, const int64_t *value, void *field)
{
    zt_dims d;
    memcpy(&d, field, sizeof d);
    zt_status s = zt_dims_bind(p, value, (int)d.n, d.dim);
    if (!s) memcpy(field, &d, sizeof d);
    return s;
}

/* ---- ints ------------------------------------------------------------------------------------ */

static zt_status ints_check(const owner *o, void *field, bool *symbolic)
{
    zt_ints d, v = {0};
    (void)symbolic;
    memcpy(&d, field, sizeof d);
    if (d.n < 0 || d.n > ZT_MAX_RANK)
        return zt_prog_fail(o->p, ZT_EUSAGE, "op %s: attribute '%s' has %" PRId64 " integers",
                            o->op, o->attr, d.n);
    v.n = d.n;
    memcpy(v.v, d.v, (size_t)d.n * sizeof d.v[0]);
    memcpy(field, &v, sizeof v);
    return ZT_OK;
}

static bool ints_equal(const void *a, const void *b)
{
    zt_ints x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x.n == y.n && x.n >= 0 && x.n <= ZT_MAX_RANK &&
           memcmp(x.v, y.v, (size_t)x.n * sizeof x.v[0]) == 0;
}

static zt_status ints_put(const zt_prog *p, const void *field, zt_str *out)
{
    zt_ints d;
    (void)p;
    memcpy(&d, field, sizeof d);
    zt_status s = zt_str_putc(out, '[');
    for (int i = 0; i < d.n && !s; i++)
        s = zt_str_printf(out, "%s%" PRId64, i > 0 ? "," : "", d.v[i]);
    return s ? s : zt_str_putc(out, ']');
}

static zt_status ints_take(const owner *o, zt_lex *l, void *field)
{
    zt_ints d = {0};
    if (!zt_lex_char(l, '[')) return wants(o, l, "a list [...]");
    bool more = !zt_lex_char(l, ']');
    while (more) {
        if (d.n == ZT_MAX_RANK)
            return zt_prog_fail(o->p, ZT_EDATA, "op %s: attribute '%s': more than %d integers",
                                o->op, o->attr, ZT_MAX_RANK);
        zt_status s = i64_take(o, l, &d.v[d.n++]);
        if (s) return s;
        more = zt_lex_char(l, ',');
        if (!more && !zt_lex_char(l, ']')) return zt_lex_expected(o->p, l, "',' or ']'");
    }
    memcpy(field, &d, sizeof d);
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

static bool str_equal(const void *a, const void *b)
{
    return strcmp(string(a), string(b)) == 0;
}

static zt_status str_put(const zt_prog *p, const void *field, zt_str *out)
{
    (void)p;
    return zt_str_put_json(out, string(field), strlen(string(field)));
}

static zt_status str_take(const owner *o, zt_lex *l, void *field)
{
    zt_span text;
    if (!zt_lex_peek(l, '"')) return wants(o, l, "a string");
    zt_status s = zt_lex_string(o->p, l, &text);
    if (!s) memcpy(field, &text.s, sizeof text.s);
    return s;
}

/* ---- func ------------------------------------------------------------------------------------ */

static const zt_func *func(const void *field)
{
    const zt_func *f;
    memcpy(&f, field, sizeof f);
    return f;
}

static bool func_equal(const void *a, const void *b) { return func(a) == func(b); }

/* A function without a name is marked: text cannot find it again. */
static const char opaque[] = "opaque";

static zt_status func_put(const zt_prog *p, const void *field, zt_str *out)
{
    const char *name = func(field)->name;
    (void)p;
    return name ? zt_str_put_json(out, name, strlen(name)) : zt_str_puts(out, opaque);
}

static zt_status func_take(const owner *o, zt_lex *l, void *field)
{
    zt_lex start = *l;
    zt_span text;
    if (zt_lex_bare(&start, &text) && zt_span_is(text, opaque))
        return zt_prog_fail(o->p, ZT_EUSAGE,
                            "op %s: its function has no name: the program runs only "
                            "in the process that recorded it",
                            o->op);
    if (!zt_lex_peek(l, '"')) return wants(o, l, "a string");
    zt_status s = zt_lex_string(o->p, l, &text);
    if (s) return s;
    const zt_func *f = strlen(text.s) == text.n ? zt_func_find(o->p->ctx, text.s) : NULL;
    if (!f) return refuse(o, "names no registered function:", text);
    memcpy(field, &f, sizeof f);
    return ZT_OK;
}

bool zt_attrs_opaque(const zt_opinfo *info, const void *attrs)
{
    for (int k = 0; k < info->n_attrs; k++) {
        const zt_func *f =
            info->attrs[k].kind == ZT_ATTR_func ? func(field_of(attrs, &info->attrs[k])) : NULL;
        if (f && !f->name) return true;
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

static bool is_default(const zt_opinfo *info, const zt_attrdef *a, const void *attrs)
{
    return kinds[a->kind].equal(field_of(attrs, a), field_of(info->defaults, a));
}

bool zt_attrs_same(zt_op op, const void *a, const void *b)
{
    const zt_opinfo *info = zt_op_info(op);
    for (int k = 0; k < info->n_attrs && a != b; k++) {
        const zt_attrdef *d = &info->attrs[k];
        if (!kinds[d->kind].equal(field_of(a, d), field_of(b, d))) return false;
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
const void *zt_attrs_keep(zt_prog *p, const zt_opinfo *info, const void *attrs, bool *symbolic)
{
    char buf[ZT_MAX_ATTR_BYTES];
    bool changed = false;
    *symbolic = false;
    memcpy(buf, info->defaults, info->attr_bytes);
    for (int k = 0; attrs && k < info->n_attrs; k++) {
        const zt_attrdef *a = &info->attrs[k];
        const struct kind *kind = &kinds[a->kind];
        if (is_default(info, a, attrs)) continue;
        changed = true;
        memcpy(buf + a->offset, field_of(attrs, a), kind->bytes);
        owner o = {p, info->name, a->name};
        if (kind->check && kind->check(&o, buf + a->offset, symbolic)) return NULL;
    }
    if (!changed) return info->defaults;
    void *copy = zt_arena_alloc(p->memory, info->attr_bytes);
    return copy ? memcpy(copy, buf, info->attr_bytes) : NULL;
}

zt_status zt_attrs_put(const zt_prog *p, const zt_opinfo *info, const void *attrs, zt_str *out)
{
    zt_status s = ZT_OK;
    for (int k = 0; k < info->n_attrs && !s; k++) {
        const zt_attrdef *a = &info->attrs[k];
        if (is_default(info, a, attrs)) continue;
        s = zt_str_printf(out, " %s=", a->name);
        if (!s) s = kinds[a->kind].put(p, field_of(attrs, a), out);
    }
    return s;
}

zt_status zt_prog_attrs_print(const zt_prog *p, zt_op op, const void *attrs, zt_str *out)
{
    return zt_attrs_put(p, zt_op_info(op), attrs, out);
}

zt_status zt_attr_take(zt_prog *p, zt_lex *l, const zt_opinfo *info, const zt_attrdef *a,
                       void *attrs)
{
    owner o = {p, info->name, a->name};
    return kinds[a->kind].take(&o, l, (char *)attrs + a->offset);
}

zt_status zt_attrs_bind(const zt_prog *p, const zt_opinfo *info, const void *attrs,
                        const int64_t *value, void *to)
{
    memcpy(to, attrs, info->attr_bytes);
    for (int k = 0; k < info->n_attrs; k++) {
        const zt_attrdef *a = &info->attrs[k];
        zt_status s = ZT_OK;
        if (kinds[a->kind].bind) s = kinds[a->kind].bind(p, value, (char *)to + a->offset);
        if (s) return s;
    }
    return ZT_OK;
}
