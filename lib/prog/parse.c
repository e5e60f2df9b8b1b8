/* parse.c - owns the grammar of a program's lines. What a line means is checked where programs are
 * built, so that text and C are held to the same rules. */
#include "lib/base/near.h"
#include "lib/base/foreign.h"
#include "lib/prog/list.h"

#include <stdio.h>
#include <string.h>

/* The value of that name, defined before. */
static zt_status value_named(const zt_prog *p, zt_span name, int *v)
{
    char buf[ZT_QUOTE];
    *v = zt_prog_lookup(p, name);
    if (*v >= 0) return ZT_OK;
    return zt_prog_fail(p, ZT_EDATA, "value '%s' is not defined before", zt_quote(buf, name));
}

static zt_status line_end(const zt_prog *p, zt_lex *l)
{
    return zt_lex_end(l) ? ZT_OK : zt_lex_expected(p, l, "the end of the line");
}

/* ---- model, bind, in, state, data ------------------------------------------------------------------ */

/* model "FILE" id=HEX */
static zt_status model(zt_prog *p, zt_lex *l)
{
    zt_span file, word, id = {0};
    zt_status s = zt_lex_string(p, l, &file);
    if (s) return s;
    if (zt_lex_name(l, &word)) {
        if (!zt_span_is(word, "id") || !zt_lex_char(l, '=') || !zt_lex_bare(l, &id))
            return zt_prog_fail(p, ZT_EDATA, "id=HEX expected after the model's file");
    }
    s = line_end(p, l);
    return s ? s : zt_prog_set_model(p, file, id);
}

/* SYMBOL=N ... */
static zt_status bind(zt_prog *p, zt_lex *l)
{
    zt_status s = ZT_OK;
    do {
        zt_span symbol, number;
        char digits[24], buf[ZT_QUOTE];
        int64_t value;
        if (!zt_lex_name(l, &symbol)) return zt_lex_expected(p, l, "a symbol");
        if (!zt_lex_char(l, '=')) return zt_lex_expected(p, l, "'='");
        if (!zt_lex_bare(l, &number)) return zt_lex_expected(p, l, "a number");
        snprintf(digits, sizeof digits, "%.*s", (int)(number.n < 24 ? number.n : 23), number.s);
        if (number.n >= sizeof digits || !zt_parse_i64(digits, &value))
            return zt_prog_fail(p, ZT_EDATA, "symbol's number '%s' is not one of 63 bits",
                                zt_quote(buf, number));
        s = zt_prog_give(p, symbol, value);
        p->given_line = p->line;
    } while (!s && !zt_lex_end(l));
    return s;
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
    const zt_opinfo *o = info;
    return i < o->n_attrs ? o->attrs[i].name : NULL;
}

/* WHAT 'word' is not known, and the nearest of the names. */
static zt_status not_known(const zt_prog *p, const char *what, zt_span word, zt_name_fn *name,
                           const void *user)
{
    char buf[ZT_QUOTE], hint[ZT_QUOTE + 24] = "";
    const char *near = zt_near_name(word.s, word.n, name, user);
    if (near) snprintf(hint, sizeof hint, " (did you mean '%.40s'?)", near);
    return zt_prog_fail(p, ZT_EDATA, "%s '%s' is not known%s", what, zt_quote(buf, word), hint);
}

/* NAME: TYPE[...] and, of data, "TENSOR" */
static zt_status declaration(zt_prog *p, zt_lex *l, zt_value_kind kind)
{
    zt_span name, type, tensor = {0};
    zt_dtype dt;
    int rank;
    int64_t dim[ZT_MAX_RANK];
    if (!zt_lex_name(l, &name)) return zt_lex_expected(p, l, "a name");
    if (!zt_lex_char(l, ':')) return zt_lex_expected(p, l, "':'");
    if (!zt_lex_name(l, &type)) return zt_lex_expected(p, l, "a dtype");
    if (!zt_dtype_parse(type.s, type.n, &dt))
        return not_known(p, "dtype", type, dtype_name, NULL);
    zt_status s = zt_lex_dims(p, l, &rank, dim);
    if (!s && kind == ZT_VALUE_DATA) s = zt_lex_string(p, l, &tensor);
    if (!s) s = line_end(p, l);
    if (s) return s;
    int v = zt_prog_declare(p, kind, name, dt, rank, dim, tensor);
    return v < 0 ? zt_ctx_status(p->ctx) : ZT_OK;
}

static zt_status in(zt_prog *p, zt_lex *l)
{
    return declaration(p, l, ZT_VALUE_IN);
}

static zt_status state(zt_prog *p, zt_lex *l)
{
    return declaration(p, l, ZT_VALUE_STATE);
}

static zt_status data(zt_prog *p, zt_lex *l)
{
    return declaration(p, l, ZT_VALUE_DATA);
}

/* ---- keep, out ------------------------------------------------------------------------------- */

/* NAME = VALUE */
static zt_status pair(zt_prog *p, zt_lex *l, zt_span *name, int *value)
{
    zt_span v;
    if (!zt_lex_name(l, name)) return zt_lex_expected(p, l, "a name");
    if (!zt_lex_char(l, '=')) return zt_lex_expected(p, l, "'='");
    if (!zt_lex_name(l, &v)) return zt_lex_expected(p, l, "a value");
    zt_status s = line_end(p, l);
    return s ? s : value_named(p, v, value);
}

static zt_status keep(zt_prog *p, zt_lex *l)
{
    zt_span name;
    int of = -1, value = -1;
    zt_status s = pair(p, l, &name, &value);
    if (!s) s = value_named(p, name, &of);
    return s ? s : zt_prog_keep(p, of, value);
}

static zt_status out(zt_prog *p, zt_lex *l)
{
    zt_span name;
    int value = -1;
    zt_status s = pair(p, l, &name, &value);
    return s ? s : zt_prog_add_out(p, name, value);
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* Y, RSTD = ; those not named are not wanted. How many there are: *n. */
static zt_status outputs(zt_prog *p, zt_lex *l, zt_span names[ZT_MAX_OUT], int *n)
{
    *n = 0;
    for (int k = 0; k < ZT_MAX_OUT; k++) names[k] = (zt_span){"_", 1};
    do {
        if (*n == ZT_MAX_OUT)
            return zt_prog_fail(p, ZT_EDATA, "more than %d outputs", ZT_MAX_OUT);
        if (!zt_lex_name(l, &names[(*n)++])) return zt_lex_expected(p, l, "a name");
    } while (zt_lex_char(l, ','));
    return zt_lex_char(l, '=') ? ZT_OK : zt_lex_expected(p, l, "',' or '='");
}

static zt_status find_op(const zt_prog *p, zt_lex *l, int n_out, zt_op *op)
{
    zt_span name;
    if (!zt_lex_name(l, &name)) return zt_lex_expected(p, l, "an op");
    if (!zt_op_find(name.s, name.n, op))
        return not_known(p, "op", name, op_name, NULL);
    const zt_opinfo *info = zt_op_info(*op);
    if (n_out <= info->n_out) return ZT_OK;
    return zt_prog_fail(p, ZT_EDATA, "op %s: %d outputs named, it has %d", info->name, n_out,
                        info->n_out);
}

/* NAME=VALUE; `seen` has a bit for each attribute that was there. */
static zt_status attribute(zt_prog *p, zt_lex *l, const zt_opinfo *info, zt_span name, void *attrs,
                           unsigned *seen)
{
    char buf[ZT_QUOTE];
    for (int k = 0; k < info->n_attrs; k++) {
        if (!zt_span_is(name, info->attrs[k].name)) continue;
        if (*seen & 1u << k)
            return zt_prog_fail(p, ZT_EDATA, "op %s: attribute '%s' comes twice", info->name,
                                info->attrs[k].name);
        *seen |= 1u << k;
        return zt_attr_take(p, l, info, &info->attrs[k], attrs);
    }
    char hint[ZT_QUOTE + 24] = "";
    const char *near = zt_near_name(name.s, name.n, attribute_name, info);
    if (near) snprintf(hint, sizeof hint, " (did you mean '%.40s'?)", near);
    return zt_prog_fail(p, ZT_EDATA, "op %s: attribute '%s' is not known%s", info->name,
                        zt_quote(buf, name), hint);
}

static zt_status input(const zt_prog *p, const zt_opinfo *info, zt_span name, int *inputs, int *n,
                       bool late)
{
    char buf[ZT_QUOTE];
    if (late)
        return zt_prog_fail(p, ZT_EDATA, "op %s: input '%s' after the attributes", info->name,
                            zt_quote(buf, name));
    if (*n == info->n_in)
        return zt_prog_fail(p, ZT_EDATA, "op %s: too many inputs, it has %d", info->name,
                            info->n_in);
    if (zt_span_is(name, "_")) {
        inputs[(*n)++] = ZT_NONE;
        return ZT_OK;
    }
    return value_named(p, name, &inputs[(*n)++]);
}

/* Y, RSTD = OP INPUT ... NAME=VALUE ... */
static zt_status op_line(zt_prog *p, zt_lex *l)
{
    zt_span names[ZT_MAX_OUT], word;
    int inputs[ZT_MAX_IN], n_in = 0, n_out;
    char attrs[ZT_MAX_ATTR_BYTES];
    unsigned seen = 0;
    zt_op op;
    zt_status s = outputs(p, l, names, &n_out);
    if (!s) s = find_op(p, l, n_out, &op);
    if (s) return s;
    const zt_opinfo *info = zt_op_info(op);
    memcpy(attrs, info->defaults, info->attr_bytes);
    while (!s && zt_lex_name(l, &word))
        s = zt_lex_char(l, '=') ? attribute(p, l, info, word, attrs, &seen)
                                : input(p, info, word, inputs, &n_in, seen != 0);
    if (!s) s = line_end(p, l);
    while (n_in < ZT_MAX_IN) inputs[n_in++] = ZT_NONE;
    return s ? s : zt_prog_add_op(p, op, attrs, inputs, names, NULL);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static const struct line_kind {
    const char *word;
    zt_status (*take)(zt_prog *p, zt_lex *l);
} line_kinds[] = {
    {"model", model}, {"bind", bind}, {"in", in},  {"state", state},
    {"data", data},   {"keep", keep}, {"out", out},
};

/* Words are not reserved: `in = silu x` is an op whose output is called in. */
static zt_status line(zt_prog *p, zt_lex l)
{
    char buf[ZT_QUOTE];
    zt_lex start = l;
    zt_span word;
    if (zt_lex_end(&l)) return ZT_OK;
    if (!zt_lex_name(&l, &word)) return zt_lex_expected(p, &l, "a name");
    if (zt_lex_peek(&l, '=') || zt_lex_peek(&l, ',')) return op_line(p, &start);
    for (size_t k = 0; k < sizeof line_kinds / sizeof line_kinds[0]; k++)
        if (zt_span_is(word, line_kinds[k].word)) return line_kinds[k].take(p, &l);
    return zt_prog_fail(p, ZT_EDATA, "'%s' begins no line: model, bind, in, state, data, keep, out, or "
                        "NAME = OP expected", zt_quote(buf, word));
}

static zt_status first_line(const zt_prog *p, zt_lex l)
{
    char buf[ZT_QUOTE];
    zt_span a, b, version;
    if (!zt_lex_name(&l, &a) || !zt_span_is(a, "zt") || !zt_lex_name(&l, &b) ||
        !zt_span_is(b, "program") || !zt_lex_bare(&l, &version))
        return zt_prog_fail(p, ZT_EDATA, "no program: it must begin with 'zt program 1'");
    if (!zt_span_is(version, "1"))
        return zt_prog_fail(p, ZT_EDATA, "version %s of programs is not known, only 1",
                            zt_quote(buf, version));
    return line_end(p, &l);
}

static zt_status lines(zt_prog *p, const char *text, const char *end)
{
    zt_status s = ZT_OK;
    for (p->line = 1; !s && (text < end || p->line == 1); p->line++) {
        const char *stop = text < end ? memchr(text, '\n', (size_t)(end - text)) : NULL;
        zt_lex l = {text, stop ? stop : end};
        s = p->line == 1 ? first_line(p, l) : line(p, l);
        text = stop ? stop + 1 : end;
    }
    return s;
}

zt_prog *zt_prog_parse(zt_ctx *ctx, const char *name, const char *text, size_t n)
{
    char where[256];
    zt_prog *p = zt_foreign_fail(ctx, name, text, n) ? NULL : zt_prog_new(ctx);
    if (!p) return NULL;
    p->where = zt_escape(where, sizeof where, name, strlen(name));
    zt_status s = lines(p, n ? text : "", (n ? text : "") + n);
    p->line = p->given_line;
    if (!s) s = zt_given_check(p);
    p->where = NULL;
    p->line = 0;
    if (!s) return p;
    zt_prog_free(p);
    return NULL;
}
