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
    zt_list *lists[] = {&program->values, &program->steps, &program->expressions, &program->outputs};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) zt_free(program->ctx, lists[i]->items);
    for (int k = 0; k <= ZT_VALUE_OP; k++) zt_free(program->ctx, program->kinds[k].items);
    zt_map_free(program->names);
    zt_map_free(program->out_names);
    zt_arena_free(program->memory);
    zt_free(program->ctx, program);
}

void *zt_prog_push(zt_prog *program, zt_list *list, size_t size, const char *what)
{
    if (list->count == ZT_MAX_LIST) {
        zt_prog_fail(program, ZT_EUSAGE, "too many items: a program has at most %d %s", ZT_MAX_LIST, what);
        return NULL;
    }
    if (list->count == list->capacity) {
        int capacity = list->capacity ? list->capacity * 2 : 16;
        void *grown = zt_realloc(program->ctx, list->items, (size_t)capacity * size);
        if (!grown) return NULL;
        list->items = grown;
        list->capacity = capacity;
    }
    return memset((char *)list->items + (size_t)list->count++ * size, 0, size);
}

/* ---- names and messages ---------------------------------------------------------------------- */

static bool is_letter(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
}

size_t zt_name_length(const char *text, size_t max_length)
{
    if (max_length == 0 || !is_letter(text[0])) return 0;
    size_t k = 1;
    while (k < max_length && (is_letter(text[k]) || (text[k] >= '0' && text[k] <= '9') || text[k] == '.')) k++;
    return k;
}

zt_status zt_name_check(const zt_prog *program, const char *what, zt_span name)
{
    char buffer[ZT_QUOTE];
    if (name.length > ZT_MAX_NAME)
        return zt_prog_fail(program, ZT_EUSAGE, "%s '%s' has %zu characters: at most %d are allowed", what,
                            zt_quote(buffer, name), name.length, ZT_MAX_NAME);
    if (name.length == 0 || zt_name_length(name.text, name.length) != name.length || (name.length == 1 && *name.text == '_'))
        return zt_prog_fail(program, ZT_EUSAGE, "%s '%s' is not a valid name", what, zt_quote(buffer, name));
    return ZT_OK;
}

const char *zt_quote(char quotation[ZT_QUOTE], zt_span text) { return zt_escape(quotation, ZT_QUOTE, text.text, text.length); }

zt_status zt_prog_fail(const zt_prog *program, zt_status status, const char *fmt, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(text, sizeof text, fmt, arguments);
    va_end(arguments);
    if (!program->line) return zt_fail(program->ctx, status, "%s", text);
    return zt_fail(program->ctx, ZT_EDATA, "%s:%ld: %s", program->where, program->line, text);
}

/* ---- look ------------------------------------------------------------------------------------ */

int zt_prog_n_values(const zt_prog *program) { return program ? program->values.count : 0; }

const zt_value *zt_prog_value(const zt_prog *program, int value_id)
{
    if (!program) return NULL;
    return value_id >= 0 && value_id < program->values.count ? &zt_item_at(program, value_id)->value : NULL;
}

int zt_prog_n_steps(const zt_prog *program) { return program ? program->steps.count : 0; }

long zt_prog_step_line(const zt_prog *program, int step_index)
{
    if (!program) return 0;
    return step_index < 0 || step_index >= program->steps.count ? 0 : ((const zt_made *)program->steps.items + step_index)->line;
}

const zt_step *zt_prog_step(const zt_prog *program, int step_index)
{
    if (!program) return NULL;
    return step_index >= 0 && step_index < program->steps.count ? &((const zt_made *)program->steps.items)[step_index].step
                                                                : NULL;
}

int zt_prog_n_outputs(const zt_prog *program) { return program ? program->outputs.count : 0; }

const zt_output *zt_prog_output(const zt_prog *program, int output_index)
{
    if (!program) return NULL;
    return output_index >= 0 && output_index < program->outputs.count ? (const zt_output *)program->outputs.items + output_index
                                                                      : NULL;
}

int zt_prog_n_symbols(const zt_prog *program) { return program ? program->n_symbols : 0; }

const char *zt_prog_symbol_name(const zt_prog *program, int symbol_id)
{
    return program ? (symbol_id >= 0 && symbol_id < program->n_symbols ? program->symbol_names[symbol_id] : NULL) : NULL;
}

int zt_prog_find(const zt_prog *program, const char *name) { return program ? zt_prog_lookup(program, zt_span_of(name)) : -1; }

int zt_prog_count(const zt_prog *program, zt_value_kind kind)
{
    return program && (unsigned)kind <= ZT_VALUE_OP ? program->kinds[kind].count : 0;
}

int zt_prog_nth(const zt_prog *program, zt_value_kind kind, int index)
{
    if (!program || (unsigned)kind > ZT_VALUE_OP) return -1;
    if (!program) return -1;
    const zt_list *list = &program->kinds[kind];
    return index >= 0 && index < list->count ? ((const int *)list->items)[index] : -1;
}

const char *zt_prog_model_file(const zt_prog *program) { return program ? program->file : NULL; }

const char *zt_prog_model_id(const zt_prog *program) { return program ? program->id : NULL; }
