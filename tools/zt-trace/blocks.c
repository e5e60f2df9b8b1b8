/* blocks.c - finding what repeats in a program.
 *
 * Two steps are alike at distance d when they do the same and their inputs lie as far back or are
 * one value. A stretch in which every step is like the one d later is a block of d steps, repeated;
 * only the first repetition may take from anywhere before it what the others take from the one
 * before them. The widest is taken first, of those as wide the one with the shortest block; then
 * what is to the left of it and to the right.
 */
#include "tools/zt-trace/blocks.h"

#include <stdlib.h>
#include <string.h>

/* Pairs of steps that are compared: a program of a million steps is not looked at for long. */
static const int64_t MOST_WORK = 20000000;

typedef struct finder {
    const zt_prog *p;
    trace_blocks *b;
    int64_t work; /* that is left */
} finder;

static bool same_dims(const zt_type *a, const zt_type *b)
{
    return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]);
}

/* Which of its step's outputs it is. */
static int output_number(const zt_prog *program, const zt_value *value, int number)
{
    const zt_step *step = zt_prog_step(program, value->index);
    int k = 0;
    while (k < ZT_MAX_OUT - 1 && step->out[k] != number) k++;
    return k;
}

/* Inputs a and b of steps `size` apart. first: the block's first step, if the former step is in the
 * first repetition; else -1. */
static bool alike_value(const zt_prog *program, int a, int b, int size, int first)
{
    if (a == b) return true;
    if (a < 0 || b < 0) return false;
    const zt_value *value = zt_prog_value(program, a), *y = zt_prog_value(program, b);
    int from = value->kind == ZT_VALUE_OP ? value->index : -1;
    if (first >= 0 && y->kind == ZT_VALUE_OP && from < first)
        return y->index >= first && y->index < first + size && value->kind != ZT_VALUE_DATA;
    if (value->kind != y->kind || value->kind == ZT_VALUE_IN) return false;
    if (value->kind != ZT_VALUE_OP) return same_dims(&value->type, &y->type);
    return y->index - value->index == size && output_number(program, value, a) == output_number(program, y, b);
}

/* Strings are compared by their letters. */
static bool same_attrs(const zt_opinfo *info, const void *left, const void *right)
{
    char x[ZT_MAX_ATTR_BYTES], y[ZT_MAX_ATTR_BYTES];
    memcpy(x, left, info->attr_bytes);
    memcpy(y, right, info->attr_bytes);
    for (int i = 0; i < info->n_attrs; i++) {
        const char *s, *t, *none = NULL;
        size_t at = info->attrs[i].offset;
        if (info->attrs[i].kind != ZT_ATTR_str) continue;
        memcpy(&s, x + at, sizeof s);
        memcpy(&t, y + at, sizeof t);
        if (s != t && (!s || !t || strcmp(s, t))) return false;
        memcpy(x + at, &none, sizeof none);
        memcpy(y + at, &none, sizeof none);
    }
    return !memcmp(x, y, info->attr_bytes);
}

static bool alike(finder *f, int s, int size, int first)
{
    const zt_step *a = zt_prog_step(f->p, s), *b = zt_prog_step(f->p, s + size);
    const zt_opinfo *info = zt_op_info(a->op);
    f->work--;
    if (a->op != b->op || !same_attrs(info, a->attrs, b->attrs)) return false;
    for (int k = 0; k < info->n_in; k++)
        if (!alike_value(f->p, a->in[k], b->in[k], size, s < first + size ? first : -1))
            return false;
    for (int k = 0; k < info->n_out; k++)
        if ((a->out[k] < 0) != (b->out[k] < 0)) return false;
    return true;
}

static int extent(const trace_block *b) { return b->size * b->times; }

/* The widest block of steps [from, to) with `size` steps. */
static trace_block widest_of(finder *f, int from, int to, int size)
{
    trace_block best = {from, size, 0};
    for (int first = from; first + 2 * size <= to && f->work > 0;) {
        int s = first;
        while (s + size < to && alike(f, s, size, first)) s++;
        trace_block b = {first, size, (s - first) / size + 1};
        if (b.times > 1 && extent(&b) > extent(&best)) best = b;
        first = b.times > 1 ? first + extent(&b) : first + 1;
    }
    return best;
}

static zt_status add_block(trace_blocks *b, trace_block one)
{
    trace_block *at = zt_realloc(b->ctx, b->at, ((size_t)b->n + 1) * sizeof *at);
    if (!at) return ZT_ENOMEM;
    b->at = at;
    at[b->n++] = one;
    return ZT_OK;
}

/* In [from, to), appended in order; no deeper than `depth`. */
static zt_status find_blocks(finder *f, int from, int to, int depth)
{
    trace_block best = {from, 1, 0};
    for (int size = 1; size <= (to - from) / 2 && f->work > 0; size++) {
        trace_block one = widest_of(f, from, to, size);
        if (extent(&one) > extent(&best)) best = one;
    }
    if (extent(&best) < 4 || depth == 0) return ZT_OK;
    zt_status status = find_blocks(f, from, best.first, depth - 1);
    if (!status) status = add_block(f->b, best);
    return status ? status : find_blocks(f, best.first + extent(&best), to, depth - 1);
}

zt_status trace_blocks_find(zt_ctx *ctx, const zt_prog *program, trace_blocks *b)
{
    finder f = {program, b, MOST_WORK};
    *b = (trace_blocks){.ctx = ctx};
    zt_status status = find_blocks(&f, 0, zt_prog_n_steps(program), 4);
    if (status) trace_blocks_free(b);
    return status;
}

void trace_blocks_free(trace_blocks *b)
{
    zt_free(b->ctx, b->at);
    b->at = NULL;
    b->n = 0;
}

const trace_block *trace_block_of(const trace_blocks *b, int s)
{
    for (int i = 0; i < b->n; i++)
        if (s >= b->at[i].first && s < b->at[i].first + extent(&b->at[i])) return &b->at[i];
    return NULL;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* Letters of "blk.17" in "blk.17.attn_q.weight"; 0: no part is a number. */
static size_t numbered(const char *name)
{
    for (const char *at = name; *at; at += *at == '.') {
        size_t n = strcspn(at, ".");
        if (n && strspn(at, "0123456789") == n) return (size_t)(at - name) + n;
        at += n;
    }
    return 0;
}

typedef struct search {
    zt_ctx *ctx;
    const zt_prog *p;
    trace_layers *l;
    zt_map *known; /* name to number */
} search;

static int layer_named(search *s, const char *name, size_t n)
{
    int64_t found;
    if (zt_map_get(s->known, name, n, &found)) return (int)found;
    char *copy = zt_arena_strndup(s->l->memory, name, n);
    if (!copy || zt_map_put(s->known, copy, n, s->l->n)) return -1;
    s->l->name[s->l->n] = copy;
    return s->l->n++;
}

/* -1: no memory. */
static int layer_of_step(search *s, int i)
{
    const zt_step *step = zt_prog_step(s->p, i);
    int latest = 0, own = -1;
    bool reads = false;
    for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
        if (step->in[k] < 0) continue;
        const zt_value *value = zt_prog_value(s->p, step->in[k]);
        size_t n = value->kind == ZT_VALUE_DATA ? numbered(value->tensor) : 0;
        if (n && (own = layer_named(s, value->tensor, n)) < 0) return -1;
        reads = reads || value->kind == ZT_VALUE_DATA;
        if (value->kind == ZT_VALUE_OP && s->l->of[value->index] > latest) latest = s->l->of[value->index];
    }
    return own >= 0 ? own : reads ? 0 : latest;
}

/* No name told any: the repetitions of what repeats. */
static zt_status layers_of_blocks(search *s)
{
    trace_blocks b;
    char name[24];
    zt_status status = trace_blocks_find(s->ctx, s->p, &b);
    for (int i = 0, made = 0; i < b.n && !status; i++) {
        for (int t = 0; t < b.at[i].times && !status; t++) {
            snprintf(name, sizeof name, "#%d", made++);
            int layer = layer_named(s, name, strlen(name));
            if (layer < 0) status = ZT_ENOMEM;
            for (int k = 0; k < b.at[i].size && !status; k++)
                s->l->of[b.at[i].first + t * b.at[i].size + k] = layer;
        }
    }
    trace_blocks_free(&b);
    return status;
}

static zt_status find_layers(search *s)
{
    int n = zt_prog_n_steps(s->p);
    for (int i = 0; i < n; i++) {
        s->l->of[i] = 0;
        int layer = layer_of_step(s, i);
        if (layer < 0) return ZT_ENOMEM;
        s->l->of[i] = layer;
    }
    return s->l->n > 1 ? ZT_OK : layers_of_blocks(s);
}

zt_status trace_layers_find(zt_ctx *ctx, const zt_prog *program, trace_layers *l)
{
    size_t n = (size_t)zt_prog_n_steps(program);
    search s = {ctx, program, l, zt_map_new(ctx, 64)};
    *l = (trace_layers){.memory = zt_arena_new(ctx, 0), .n = 1};
    if (l->memory) {
        l->of = zt_arena_alloc(l->memory, (n + 1) * sizeof *l->of);
        l->name = zt_arena_alloc(l->memory, (n * ZT_MAX_IN + 2) * sizeof *l->name);
    }
    zt_status status = s.known && l->of && l->name ? ZT_OK : ZT_ENOMEM;
    if (!status) {
        l->name[0] = "other";
        status = find_layers(&s);
    }
    zt_map_free(s.known);
    if (status) trace_layers_free(l);
    return status;
}

void trace_layers_free(trace_layers *l)
{
    zt_arena_free(l->memory);
    *l = (trace_layers){0};
}
