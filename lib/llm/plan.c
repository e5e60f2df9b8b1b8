/* plan.c - owns the check that a plan is one of this model: its id, and the face of its program. */
#include "lib/llm/arch.h"

#include <string.h>

static zt_status other_model(zt_ctx *ctx, const zt_gguf *g, const zt_prog *p)
{
    const char *id = zt_prog_model_id(p), *file = zt_prog_model_file(p);
    if (id && !strcmp(id, zt_gguf_id(g)))
        return ZT_OK;
    return zt_fail(ctx, ZT_EDATA, "the plan is of the model %s (id %s), not of %s (id %s)",
                   file ? file : "?", id ? id : "none", zt_gguf_name(g), zt_gguf_id(g));
}

/* Values of a kind, one by one: the same names and, bound, types. */
static zt_status same_values(zt_ctx *ctx, const zt_bound *a, const zt_bound *b, zt_value_kind kind)
{
    char is[ZT_TYPE_TEXT], wants[ZT_TYPE_TEXT];
    int n = zt_prog_count(a->prog, kind);
    if (zt_prog_count(b->prog, kind) != n)
        return zt_fail(ctx, ZT_EDATA, "the plan has %d %s, the model's program %d",
                       zt_prog_count(b->prog, kind), kind == ZT_VALUE_IN ? "inputs" : "states", n);
    for (int i = 0; i < n; i++) {
        int v = zt_prog_nth(a->prog, kind, i), w = zt_prog_nth(b->prog, kind, i);
        const char *name = zt_prog_value(a->prog, v)->name;
        if (!strcmp(name, zt_prog_value(b->prog, w)->name) &&
            zt_type_equal(&a->type[v], &b->type[w]))
            continue;
        return zt_fail(ctx, ZT_EDATA, "the plan has %s: %s in the place of %s: %s",
                       zt_prog_value(b->prog, w)->name, zt_type_text(&b->type[w], is), name,
                       zt_type_text(&a->type[v], wants));
    }
    return ZT_OK;
}

static zt_status same_outputs(zt_ctx *ctx, const zt_bound *a, const zt_bound *b)
{
    int n = zt_prog_n_outputs(a->prog);
    bool same = zt_prog_n_outputs(b->prog) == n;
    for (int o = 0; o < n && same; o++) {
        const zt_output *x = zt_prog_output(a->prog, o), *y = zt_prog_output(b->prog, o);
        same = !strcmp(x->name, y->name) && zt_type_equal(&a->type[x->value], &b->type[y->value]);
    }
    return same ? ZT_OK : zt_fail(ctx, ZT_EDATA, "the plan's outputs are not the model's");
}

zt_status zt_llm_check_plan(const zt_gguf *g, const zt_plan_file *plan, const zt_prog *built,
                            const zt_binding *sample, int n)
{
    zt_ctx *ctx = zt_gguf_ctx(g);
    const zt_prog *p = zt_plan_file_prog(plan);
    zt_status s = other_model(ctx, g, p);
    for (int i = 0; i < zt_prog_n_symbols(p) && !s; i++) {
        int k = 0;
        while (k < n && strcmp(sample[k].symbol, zt_prog_symbol_name(p, i)) != 0)
            k++;
        if (k == n)
            s = zt_fail(ctx, ZT_EDATA, "the plan has a symbol '%s', the model none",
                        zt_prog_symbol_name(p, i));
    }
    zt_bound *a = s ? NULL : zt_prog_bind(built, sample, n);
    zt_bound *b = a ? zt_prog_bind(p, sample, n) : NULL;
    if (b) {
        s = same_values(ctx, a, b, ZT_VALUE_IN);
        if (!s)
            s = same_values(ctx, a, b, ZT_VALUE_STATE);
        if (!s)
            s = same_outputs(ctx, a, b);
    }
    zt_bound_free(a);
    zt_bound_free(b);
    return s ? s : zt_ctx_status(ctx);
}
