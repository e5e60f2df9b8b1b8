/* print.c - owns the canonical text: the model and the symbols' numbers, declarations and ops in the order in which they were made,
 * then the kept states in their order, then the outputs in theirs. */
#include "lib/prog/list.h"

#include <string.h>

static zt_status put_model(const zt_prog *p, zt_str *out)
{
    if (!p->file) return ZT_OK;
    zt_status s = zt_str_puts(out, "model ");
    if (!s) s = zt_str_put_json(out, p->file, strlen(p->file));
    if (!s && p->id) s = zt_str_printf(out, " id=%s", p->id);
    return s ? s : zt_str_putc(out, '\n');
}

static zt_status put_declaration(const zt_prog *p, const zt_value *v, zt_str *out)
{
    static const char *const word[] = {
        [ZT_VALUE_IN] = "in", [ZT_VALUE_STATE] = "state", [ZT_VALUE_DATA] = "data"};
    zt_status s = zt_str_printf(out, "%-5s %s: %s", word[v->kind], v->name,
                                zt_dtype_get(v->type.dtype)->name);
    if (!s) s = zt_dims_put(p, v->type.rank, v->type.dim, out);
    if (!s && v->tensor) s = zt_str_putc(out, ' ');
    if (!s && v->tensor) s = zt_str_put_json(out, v->tensor, strlen(v->tensor));
    return s ? s : zt_str_putc(out, '\n');
}

/* Up to the last that is there; what is absent before it is "_". */
static zt_status put_values(const zt_prog *p, const int *value, int n, const char *between,
                            zt_str *out)
{
    zt_status s = ZT_OK;
    while (n > 0 && value[n - 1] < 0) n--;
    for (int k = 0; k < n && !s; k++) {
        if (k > 0) s = zt_str_puts(out, between);
        if (!s) s = zt_str_puts(out, value[k] < 0 ? "_" : zt_prog_value(p, value[k])->name);
    }
    return s;
}

static zt_status put_step(const zt_prog *p, const zt_step *st, zt_str *out)
{
    const zt_opinfo *info = zt_op_info(st->op);
    zt_status s = put_values(p, st->out, info->n_out, ", ", out);
    if (!s) s = zt_str_printf(out, " = %s ", info->name);
    if (!s) s = put_values(p, st->in, info->n_in, " ", out);
    if (!s) s = zt_attrs_put(p, info, st->attrs, out);
    return s ? s : zt_str_putc(out, '\n');
}

static zt_status put_list(const zt_prog *p, zt_str *out)
{
    zt_status s = ZT_OK;
    for (int v = 0; v < p->values.n && !s; v++) {
        const zt_value *val = zt_prog_value(p, v);
        if (val->kind != ZT_VALUE_OP)
            s = put_declaration(p, val, out);
        else if (zt_prog_step(p, val->index)->out[0] == v)
            s = put_step(p, zt_prog_step(p, val->index), out);
    }
    return s;
}

static zt_status put_end(const zt_prog *p, zt_str *out)
{
    zt_status s = ZT_OK;
    for (int i = 0; i < zt_prog_count(p, ZT_VALUE_STATE) && !s; i++) {
        const zt_value *v = zt_prog_value(p, zt_prog_nth(p, ZT_VALUE_STATE, i));
        if (v->keep >= 0)
            s = zt_str_printf(out, "keep  %s = %s\n", v->name, zt_prog_value(p, v->keep)->name);
    }
    for (int i = 0; i < p->outputs.n && !s; i++) {
        const zt_output *o = zt_prog_output(p, i);
        s = zt_str_printf(out, "out   %s = %s\n", o->name, zt_prog_value(p, o->value)->name);
    }
    return s;
}

zt_status zt_prog_print(const zt_prog *p, zt_str *out)
{
    size_t start = out->len;
    zt_status s = zt_str_puts(out, "zt program 1\n");
    if (!s) s = put_model(p, out);
    if (!s) s = zt_given_put(p, out);
    if (!s) s = put_list(p, out);
    if (!s) s = put_end(p, out);
    if (s && out->data) out->data[out->len = start] = 0; /* all or nothing */
    return s;
}

bool zt_prog_has_opaque(const zt_prog *p)
{
    for (int s = 0; s < p->steps.n; s++) {
        const zt_step *st = zt_prog_step(p, s);
        if (zt_attrs_opaque(zt_op_info(st->op), st->attrs)) return true;
    }
    return false;
}
