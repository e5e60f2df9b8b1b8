/* list.c - owns a program's memory and arrays, names, messages, and the ways to look at it. */
#include "lib/prog/list.h"

#include <stdio.h>
#include <string.h>

zt_prog *zt_prog_new(zt_ctx *ctx)
{
    zt_prog *program = zt_calloc(ctx, 1, sizeof *program);
    if (!program) return NULL;
    program->ctx = ctx;
    program->memory = zt_arena_new(ctx, 0);
    program->names = program->memory ? zt_map_new(ctx, 64) : NULL;
    program->out_names = program->names ? zt_map_new(ctx, 8) : NULL;
    if (program->out_names) return program;
    zt_prog_free(program);
    return NULL;
}

void zt_prog_free(zt_prog *program)
{
    if (!program) return;
    zt_list *lists[] = {&program->values, &program->steps, &program->exprs, &program->outputs};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) zt_free(program->ctx, lists[i]->at);
    for (int k = 0; k <= ZT_VALUE_OP; k++) zt_free(program->ctx, program->kinds[k].at);
    zt_map_free(program->names);
    zt_map_free(program->out_names);
    zt_arena_free(program->memory);
    zt_free(program->ctx, program);
}

void *zt_prog_push(zt_prog *program, zt_list *l, size_t size, const char *what)
{
    if (l->n == ZT_MAX_LIST) {
        zt_prog_fail(program, ZT_EUSAGE, "a program has at most %d %s", ZT_MAX_LIST, what);
        return NULL;
    }
    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 16;
        void *at = zt_realloc(program->ctx, l->at, (size_t)cap * size);
        if (!at) return NULL;
        l->at = at;
        l->cap = cap;
    }
    return memset((char *)l->at + (size_t)l->n++ * size, 0, size);
}

/* ---- names and messages ---------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

size_t zt_name_length(const char *s, size_t n)
{
    if (n == 0 || !is_letter(s[0])) return 0;
    size_t k = 1;
    while (k < n && (is_letter(s[k]) || (s[k] >= '0' && s[k] <= '9') || s[k] == '.')) k++;
    return k;
}

zt_status zt_name_check(const zt_prog *program, const char *what, zt_span name)
{
    char buf[ZT_QUOTE];
    if (name.n > ZT_MAX_NAME)
        return zt_prog_fail(program, ZT_EUSAGE, "%s '%s' has %zu letters, at most %d fit", what,
                            zt_quote(buf, name), name.n, ZT_MAX_NAME);
    if (name.n == 0 || zt_name_length(name.s, name.n) != name.n || (name.n == 1 && *name.s == '_'))
        return zt_prog_fail(program, ZT_EUSAGE, "%s '%s' is not a name", what, zt_quote(buf, name));
    return ZT_OK;
}

const char *zt_quote(char buf[ZT_QUOTE], zt_span text)
{
    return zt_escape(buf, ZT_QUOTE, text.s, text.n);
}

zt_status zt_prog_fail(const zt_prog *program, zt_status status, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!program->line) return zt_fail(program->ctx, status, "%s", text);
    return zt_fail(program->ctx, ZT_EDATA, "%s:%ld: %s", program->where, program->line, text);
}

/* ---- look ------------------------------------------------------------------------------------ */

int zt_prog_n_values(const zt_prog *program)
{
    return program->values.n;
}

const zt_value *zt_prog_value(const zt_prog *program, int v)
{
    return v >= 0 && v < program->values.n ? &zt_item_at(program, v)->pub : NULL;
}

int zt_prog_n_steps(const zt_prog *program)
{
    return program->steps.n;
}

long zt_prog_step_line(const zt_prog *program, int s)
{
    return s < 0 || s >= program->steps.n ? 0 : ((const zt_made *)program->steps.at + s)->line;
}

const zt_step *zt_prog_step(const zt_prog *program, int s)
{
    return s >= 0 && s < program->steps.n ? &((const zt_made *)program->steps.at)[s].pub : NULL;
}

int zt_prog_n_outputs(const zt_prog *program)
{
    return program->outputs.n;
}

const zt_output *zt_prog_output(const zt_prog *program, int o)
{
    return o >= 0 && o < program->outputs.n ? (const zt_output *)program->outputs.at + o : NULL;
}

int zt_prog_n_symbols(const zt_prog *program)
{
    return program->n_symbols;
}

const char *zt_prog_symbol_name(const zt_prog *program, int s)
{
    return s >= 0 && s < program->n_symbols ? program->symbol[s] : NULL;
}

int zt_prog_find(const zt_prog *program, const char *name)
{
    return zt_prog_lookup(program, zt_span_of(name));
}

int zt_prog_count(const zt_prog *program, zt_value_kind kind)
{
    return program->kinds[kind].n;
}

int zt_prog_nth(const zt_prog *program, zt_value_kind kind, int index)
{
    const zt_list *l = &program->kinds[kind];
    return index >= 0 && index < l->n ? ((const int *)l->at)[index] : -1;
}

const char *zt_prog_model_file(const zt_prog *program)
{
    return program->file;
}

const char *zt_prog_model_id(const zt_prog *program)
{
    return program->id;
}
