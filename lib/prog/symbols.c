/* symbols.c - owns the numbers that a program itself gives its symbols: its line `bind`. */
#include "lib/base/require.h"
#include "lib/prog/list.h"

#include <inttypes.h>
#include <string.h>

zt_status zt_prog_give(zt_prog *program, zt_span symbol, int64_t value)
{
    zt_status status = zt_name_check(program, "symbol", symbol);
    for (int i = 0; i < program->n_bindings && !status; i++)
        if (zt_span_is(symbol, program->bindings[i].symbol))
            status = zt_prog_fail(program, ZT_EUSAGE, "symbol '%s' is already bound", program->bindings[i].symbol);
    if (!status && value < 0)
        status = zt_prog_fail(program, ZT_EUSAGE, "symbol '%.*s' is %" PRId64 ": must be nonnegative", (int)symbol.length,
                              symbol.text, value);
    if (!status && program->n_bindings == ZT_MAX_SYMBOLS)
        status = zt_prog_fail(program, ZT_EUSAGE, "too many symbols: a program has at most %d", ZT_MAX_SYMBOLS);
    if (status) return status;
    const char *copy = zt_arena_strndup(program->memory, symbol.text, symbol.length);
    if (!copy) return ZT_ENOMEM;
    program->bindings[program->n_bindings++] = (zt_binding){copy, value};
    return ZT_OK;
}

zt_status zt_prog_set_binding(zt_prog *program, const char *symbol, int64_t value)
{
    return program ? zt_prog_give(program, zt_span_of(symbol), value) : ZT_EUSAGE;
}

void zt_prog_bindings(const zt_prog *program, zt_binding *bindings, int *binding_count)
{
    if (!program) return;
    ZT_REQUIRE(program->ctx, binding_count, );
    int before = *binding_count;
    for (int binding_index = 0; binding_index < program->n_bindings && *binding_count < ZT_MAX_SYMBOLS; binding_index++) {
        int k = 0;
        while (k < before && strcmp(bindings[k].symbol, program->bindings[binding_index].symbol) != 0) k++;
        if (k == before) bindings[(*binding_count)++] = program->bindings[binding_index];
    }
}

/* ---- symbols that the text names ------------------------------------------------------------- */

/* A dimension has at most ZT_MAX_TERMS terms. */
static void mark_dim(const zt_prog *program, int64_t dim, bool used[ZT_MAX_SYMBOLS])
{
    if (dim >= 0) return;
    const zt_expr *expression = zt_expr_at(program, dim);
    if (expression->operator== 's') {
        used[expression->left] = true;
        return;
    }
    mark_dim(program, expression->left, used);
    mark_dim(program, expression->right, used);
}

static void mark_dims(const zt_prog *program, int rank, const int64_t *dims, bool used[ZT_MAX_SYMBOLS])
{
    for (int i = 0; i < rank; i++) mark_dim(program, dims[i], used);
}

static void mark_attrs(const zt_prog *program, const zt_step *step, bool used[ZT_MAX_SYMBOLS])
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    for (int attr_index = 0; attr_index < op_info->n_attrs; attr_index++) {
        zt_dims dims;
        if (op_info->attrs[attr_index].kind != ZT_ATTR_dims) continue;
        memcpy(&dims, (const char *)step->attrs + op_info->attrs[attr_index].offset, sizeof dims);
        mark_dims(program, dims.n, dims.dim, used);
    }
}

/* Those that stand in dimensions of declarations and attributes. */
static void mark_used(const zt_prog *program, bool used[ZT_MAX_SYMBOLS])
{
    memset(used, 0, ZT_MAX_SYMBOLS * sizeof *used);
    for (int value_id = 0; value_id < program->values.count; value_id++) {
        const zt_value *value = zt_prog_value(program, value_id);
        if (value->kind != ZT_VALUE_OP) mark_dims(program, value->type.rank, value->type.dim, used);
    }
    for (int step_index = 0; step_index < program->steps.count; step_index++)
        if (((const zt_made *)program->steps.items)[step_index].symbolic)
            mark_attrs(program, zt_prog_step(program, step_index), used);
}

static bool is_used(const zt_prog *program, const char *symbol, const bool used[ZT_MAX_SYMBOLS])
{
    for (int symbol_id = 0; symbol_id < program->n_symbols; symbol_id++)
        if (used[symbol_id] && !strcmp(program->symbol_names[symbol_id], symbol)) return true;
    return false;
}

zt_status zt_given_check(const zt_prog *program)
{
    bool used[ZT_MAX_SYMBOLS];
    if (!program->n_bindings) return ZT_OK;
    mark_used(program, used);
    for (int i = 0; i < program->n_bindings; i++)
        if (!is_used(program, program->bindings[i].symbol, used))
            return zt_prog_fail(program, ZT_EDATA, "bind: no dimension uses the symbol '%s'", program->bindings[i].symbol);
    return ZT_OK;
}

zt_status zt_given_put(const zt_prog *program, zt_str *output_text)
{
    bool used[ZT_MAX_SYMBOLS];
    int put_count = 0;
    zt_status status = ZT_OK;
    if (!program->n_bindings) return ZT_OK;
    mark_used(program, used);
    for (int i = 0; i < program->n_bindings && !status; i++)
        if (is_used(program, program->bindings[i].symbol, used))
            status = zt_str_printf(output_text, "%s %s=%" PRId64, put_count++ ? "" : "bind ", program->bindings[i].symbol,
                                   program->bindings[i].value);
    return status || !put_count ? status : zt_str_putc(output_text, '\n');
}
