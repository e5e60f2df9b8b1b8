/* pointwise_text.c - the text of a chain of elementwise ops: read, checked, written. */
#include "lib/ops/pointwise.h"
#include "lib/ops/row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- which ops ------------------------------------------------------------------------------- */

static bool plain_attrs(const zt_opinfo *info)
{
    for (int k = 0; k < info->n_attrs; k++)
        if (info->attrs[k].kind > ZT_ATTR_word) return false;
    return info->attr_bytes <= ZT_POINTWISE_ATTRS;
}

bool zt_pointwise_takes(zt_op op)
{
    const unsigned no = ZT_OPF_VIEW | ZT_OPF_RANDOM | ZT_OPF_CALLERS;
    const zt_opinfo *info = zt_op_info(op);
    return info && info->def->flags & ZT_OPF_ELEMENTWISE && !(info->def->flags & no) && !info->def->donates && info->n_out == 1 &&
           info->n_in <= 3 && info->def->n_required == info->n_in && plain_attrs(info);
}

/* ---- values of attributes -------------------------------------------------------------------- */

enum { MOST_VALUE = 40 }; /* bytes of an attribute's value as text, with the closing zero */

/* A value as programs print it; of a word its letters. */
static void value_text(zt_attr_kind kind, const void *field, char text[MOST_VALUE])
{
    zt_str s = {.data = text, .cap = MOST_VALUE}; /* which never grows */
    int64_t i;
    double d;
    if (kind == ZT_ATTR_word) {
        snprintf(text, MOST_VALUE, "%.23s", (const char *)field);
    } else if (kind == ZT_ATTR_i64) {
        memcpy(&i, field, sizeof i);
        snprintf(text, MOST_VALUE, "%" PRId64, i);
    } else {
        memcpy(&d, field, sizeof d);
        if (zt_str_put_double(&s, d)) text[0] = 0;
    }
}

/* The reverse; false where the text is not a value, or not in its printed form. */
static bool take_value(zt_attr_kind kind, const char *text, void *field)
{
    char again[MOST_VALUE];
    zt_enum_string w = {{0}};
    int64_t i;
    double d;
    if (kind == ZT_ATTR_word) {
        if (strlen(text) >= sizeof w.s) return false;
        memcpy(w.s, text, strlen(text));
        memcpy(field, &w, sizeof w);
    } else if (kind == ZT_ATTR_i64) {
        if (!zt_parse_i64(text, &i)) return false;
        memcpy(field, &i, sizeof i);
    } else {
        if (!zt_parse_double(text, &d)) return false;
        memcpy(field, &d, sizeof d);
    }
    value_text(kind, field, again);
    return !strcmp(again, text);
}

static bool is_default(const zt_opinfo *info, const zt_attrdef *a, const void *attrs)
{
    char ours[MOST_VALUE], theirs[MOST_VALUE];
    value_text(a->kind, (const char *)attrs + a->offset, ours);
    value_text(a->kind, (const char *)info->defaults + a->offset, theirs);
    return !strcmp(ours, theirs);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Words lie between single blanks; "; " ends an op. */
typedef struct reader {
    zt_ctx *ctx;
    zt_pointwise_chain *p;
    const char *at;
    bool more;     /* words of this op */
    char word[96]; /* the last one read */
    bool used[ZT_POINTWISE_VALUES];
} reader;

static zt_status refuse_chain(const reader *r, const char *wrong)
{
    char text[4 * sizeof r->word];
    return zt_row_fail(r->ctx, ZT_EUSAGE, "chain: op %d: '%s' %s", r->p->n_ops,
                       zt_escape(text, sizeof text, r->word, strlen(r->word)), wrong);
}

/* The next word of this op. */
static zt_status next_word(reader *r)
{
    size_t n = strcspn(r->at, " ;");
    size_t keep = n < sizeof r->word ? n : sizeof r->word - 1;
    memcpy(r->word, r->at, keep);
    r->word[keep] = 0;
    if (n == 0 || n > keep) return refuse_chain(r, n ? "is too long" : "is not a word");
    r->at += n;
    r->more = *r->at == ' ';
    if (r->more) r->at++;
    return ZT_OK;
}

/* "a" to "h" or "%k" as a value; -1: it is none that there is. */
static int value_of(const reader *r)
{
    const char *s = r->word;
    int n = 0;
    if (s[0] >= 'a' && s[0] < 'a' + ZT_POINTWISE_INS && !s[1]) return s[0] - 'a';
    if (s[0] != '%' || !s[1] || strlen(s) > 3 || (s[1] == '0' && s[2])) return -1;
    for (s++; *s; s++) {
        if (*s < '0' || *s > '9') return -1;
        n = 10 * n + (*s - '0');
    }
    return n < r->p->n_ops ? ZT_POINTWISE_INS + n : -1;
}

static zt_status take_operand(reader *r, int *value)
{
    zt_status status = r->more ? next_word(r) : ZT_OK;
    if (status) return status;
    *value = value_of(r);
    if (*value < 0) return refuse_chain(r, "is not an input or an earlier result");
    r->used[*value] = true;
    if (*value < ZT_POINTWISE_INS) r->p->inputs |= 1u << *value;
    return ZT_OK;
}

static zt_status take_attrs(reader *r, const zt_opinfo *info, zt_pointwise_op *o)
{
    int next = 0;
    memcpy(o->attrs, info->defaults, info->attr_bytes);
    while (r->more) {
        zt_status status = next_word(r);
        if (status) return status;
        char *is = strchr(r->word, '=');
        size_t n = is ? (size_t)(is - r->word) : 0;
        while (next < info->n_attrs && (strlen(info->attrs[next].name) != n || memcmp(info->attrs[next].name, r->word, n)))
            next++;
        if (!is || next == info->n_attrs) return refuse_chain(r, "is not an attribute, or out of order");
        const zt_attrdef *a = &info->attrs[next++];
        if (!take_value(a->kind, is + 1, (char *)o->attrs + a->offset) || is_default(info, a, o->attrs))
            return refuse_chain(r, "is not in canonical form, or is the default value");
    }
    return ZT_OK;
}

static zt_status take_op(reader *r, const char *name)
{
    zt_pointwise_chain *chain = r->p;
    zt_op op;
    if (!zt_op_find(name, strlen(name), &op)) return refuse_chain(r, "is not an op");
    if (!zt_pointwise_takes(op)) return refuse_chain(r, "is not an elementwise op");
    if (chain->n_ops == ZT_POINTWISE_OPS)
        return zt_row_fail(r->ctx, ZT_EUSAGE, "chain: too many ops: at most %d", ZT_POINTWISE_OPS);
    const zt_opinfo *info = zt_op_info(op);
    zt_pointwise_op *o = &chain->op[chain->n_ops];
    *o = (zt_pointwise_op){.op = op, .in = {ZT_NONE, ZT_NONE, ZT_NONE}};
    for (int k = 0; k < info->n_in; k++) {
        if (!r->more) return refuse_chain(r, "has too few operands");
        zt_status status = take_operand(r, &o->in[k]);
        if (status) return status;
    }
    zt_status status = take_attrs(r, info, o);
    if (!status) chain->n_ops++;
    return status;
}

/* "out %0 %2", of two and more. */
static zt_status take_outs(reader *r)
{
    zt_pointwise_chain *chain = r->p;
    while (r->more) {
        int value;
        if (chain->n_out == ZT_POINTWISE_OUTS)
            return zt_row_fail(r->ctx, ZT_EUSAGE, "chain: too many outputs: at most %d", ZT_POINTWISE_OUTS);
        zt_status status = take_operand(r, &value);
        if (status) return status;
        if (value < ZT_POINTWISE_INS || (chain->n_out && value <= chain->out[chain->n_out - 1]))
            return refuse_chain(r, "is not a valid output: expected results of ops in increasing order");
        chain->out[chain->n_out++] = value;
    }
    if (chain->n_out < 2) return refuse_chain(r, "lists only the result of the last op, which is the default");
    return *r->at ? refuse_chain(r, "must be the last item") : ZT_OK;
}

static zt_status check_used(reader *r)
{
    zt_pointwise_chain *chain = r->p;
    int last = ZT_POINTWISE_INS + chain->n_ops - 1;
    if (chain->n_out == 0) {
        chain->out[chain->n_out++] = last;
        r->used[last] = true;
    }
    if (chain->out[chain->n_out - 1] != last)
        return zt_row_fail(r->ctx, ZT_EUSAGE, "chain: the result of the last op is not an output");
    for (int v = ZT_POINTWISE_INS; v < last; v++)
        if (!r->used[v]) return zt_row_fail(r->ctx, ZT_EUSAGE, "chain: %%%d is never used", v - ZT_POINTWISE_INS);
    return ZT_OK;
}

zt_status zt_pointwise_parse(zt_ctx *ctx, const char *text, zt_pointwise_chain *chain)
{
    reader r = {.ctx = ctx, .p = chain, .at = text ? text : ""};
    bool outs = false;
    chain->n_ops = chain->n_out = 0;
    chain->inputs = 0;
    while (!outs) {
        char name[sizeof r.word];
        zt_status status = next_word(&r);
        if (status) return status;
        memcpy(name, r.word, sizeof name);
        outs = chain->n_ops && !strcmp(name, "out");
        status = outs ? take_outs(&r) : take_op(&r, name);
        if (status) return status;
        if (!*r.at) break;
        if (r.at[0] != ';' || r.at[1] != ' ') return refuse_chain(&r, "is not followed by '; '");
        r.at += 2;
    }
    return check_used(&r);
}

/* ---- writing --------------------------------------------------------------------------------- */

static zt_status put_value(int v, zt_str *out)
{
    return v < ZT_POINTWISE_INS ? zt_str_printf(out, " %c", 'a' + v) : zt_str_printf(out, " %%%d", v - ZT_POINTWISE_INS);
}

static zt_status put_op(const zt_pointwise_op *chain_op, zt_str *out)
{
    const zt_opinfo *info = zt_op_info(chain_op->op);
    zt_status status = zt_str_puts(out, info->name);
    for (int k = 0; k < info->n_in && !status; k++) status = put_value(chain_op->in[k], out);
    for (int k = 0; k < info->n_attrs && !status; k++) {
        const zt_attrdef *a = &info->attrs[k];
        char text[MOST_VALUE];
        if (is_default(info, a, chain_op->attrs)) continue;
        value_text(a->kind, (const char *)chain_op->attrs + a->offset, text);
        status = zt_str_printf(out, " %s=%s", a->name, text);
    }
    return status;
}

zt_status zt_pointwise_print(const zt_pointwise_chain *chain, zt_str *out)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < chain->n_ops && !status; i++) {
        if (i) status = zt_str_puts(out, "; ");
        if (!status) status = put_op(&chain->op[i], out);
    }
    if (!status && chain->n_out > 1) status = zt_str_puts(out, "; out");
    for (int k = 0; k < chain->n_out && chain->n_out > 1 && !status; k++) status = put_value(chain->out[k], out);
    return status;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool plain_type(zt_dtype dtype)
{
    char kind = zt_dtype_get(dtype)->kind;
    bool small = kind == 'F' && dtype != ZT_F64 && dtype != ZT_F32 && dtype != ZT_F16 && dtype != ZT_BF16;
    return kind != 'Q' && !small && zt_dtype_get(dtype)->block == 1;
}

static zt_status check_inputs(zt_ctx *ctx, const zt_pointwise_chain *chain, const zt_type *const in[], zt_type *whole)
{
    bool first = true;
    for (int k = 0; k < ZT_POINTWISE_INS; k++) {
        bool used = chain->inputs >> k & 1;
        if (used != (in[k] != NULL))
            return zt_row_fail(ctx, ZT_EUSAGE, "input '%c' %s", 'a' + k, used ? "is missing" : "is not used by the chain");
        if (!used) continue;
        zt_type both;
        zt_status status = first ? ZT_OK : zt_row_broadcast(ctx, whole, in[k], &both);
        if (status) return status;
        *whole = first ? *in[k] : both;
        first = false;
    }
    return ZT_OK;
}

zt_status zt_pointwise_types(zt_ctx *ctx, const zt_pointwise_chain *chain, const zt_type *const in[],
                             zt_type value[ZT_POINTWISE_VALUES], zt_type *whole)
{
    zt_status status = check_inputs(ctx, chain, in, whole);
    for (int k = 0; k < ZT_POINTWISE_INS && !status; k++)
        if (in[k]) value[k] = *in[k];
    for (int i = 0; i < chain->n_ops && !status; i++) {
        const zt_type *args[ZT_MAX_IN] = {0};
        zt_type out[ZT_MAX_OUT];
        for (int k = 0; k < 3; k++)
            if (chain->op[i].in[k] >= 0) args[k] = &value[chain->op[i].in[k]];
        status = zt_op_infer(ctx, chain->op[i].op, chain->op[i].attrs, args, out);
        value[ZT_POINTWISE_INS + i] = out[0];
    }
    for (int v = 0; v < ZT_POINTWISE_INS + chain->n_ops && !status; v++)
        if ((v >= ZT_POINTWISE_INS || in[v]) && !plain_type(value[v].dtype))
            status = zt_row_fail(ctx, ZT_ESHAPE,
                                 "unsupported dtype %s of a value: must be f64 f32 f16 bf16, an integer of 8 to 64 "
                                 "bits or bool",
                                 zt_dtype_get(value[v].dtype)->name);
    for (int k = 0; k < chain->n_out && !status; k++) {
        zt_type type = value[chain->out[k]];
        type.dtype = whole->dtype;
        if (!zt_type_equal(&type, whole))
            status = zt_row_fail(ctx, ZT_ESHAPE, "output %%%d does not have the broadcast shape of the inputs",
                                 chain->out[k] - ZT_POINTWISE_INS);
    }
    return status;
}
