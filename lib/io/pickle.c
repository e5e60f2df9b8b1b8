/* pickle.c - owns the machine that pickles are programs for: its bytes, its stack, its memory. */
#include "lib/io/pickle_machine.h"

#include <string.h>

/* ---- faults and memory ----------------------------------------------------------------------- */

uint64_t zt_pk_here(const pickle *p)
{
    return p->at - (p->got - p->next);
}

zt_status zt_pk_fail(pickle *p, const char *what)
{
    return zt_fail(p->ctx, ZT_EDATA, "%s: pickle, byte %llu: %s", p->file,
                   (unsigned long long)zt_pk_here(p), what);
}

bool zt_pk_spend(pickle *p, size_t bytes)
{
    if (bytes <= p->budget) {
        p->budget -= bytes;
        return true;
    }
    zt_pk_fail(p, "it makes more values than a file of its size should");
    return false;
}

void *zt_pk_alloc(pickle *p, size_t n, size_t size)
{
    size_t bytes;
    if (!zt_mul_size(n, size, &bytes) || bytes > SIZE_MAX - 16) {
        zt_pk_fail(p, "too many values");
        return NULL;
    }
    return zt_pk_spend(p, bytes + 16) ? zt_arena_alloc(p->keep, bytes) : NULL;
}

/* Why a NULL came back. */
zt_status zt_pk_why(const pickle *p)
{
    return zt_ctx_status(p->ctx);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static zt_status refill(pickle *p)
{
    uint64_t left = p->end - p->at;
    size_t n = left < PK_BUFFER ? (size_t)left : PK_BUFFER;
    if (n == 0)
        return zt_pk_fail(p, "it is cut");
    zt_status st = p->fetch(p->user, p->at, p->buffer, n);
    if (st != ZT_OK)
        return st;
    p->at += n;
    p->next = 0;
    p->got = n;
    return ZT_OK;
}

static zt_status read_bytes(pickle *p, void *dst, size_t n)
{
    uint8_t *to = dst;
    while (n) {
        zt_status st = p->next == p->got ? refill(p) : ZT_OK;
        if (st != ZT_OK)
            return st;
        size_t some = p->got - p->next < n ? p->got - p->next : n;
        memcpy(to, p->buffer + p->next, some);
        p->next += some;
        to += some;
        n -= some;
    }
    return ZT_OK;
}

zt_status zt_pk_read_le(pickle *p, int bytes, uint64_t *v)
{
    uint8_t b[8];
    zt_status st = read_bytes(p, b, (size_t)bytes);
    *v = 0;
    for (int i = bytes; st == ZT_OK && i-- > 0;)
        *v = *v << 8 | b[i];
    return st;
}

/* A line of text, without its end; closed by a zero. */
zt_status zt_pk_read_line(pickle *p, char line[PK_LINE], size_t *n)
{
    zt_status st;
    for (*n = 0; (st = read_bytes(p, line + *n, 1)) == ZT_OK && line[*n] != '\n'; ++*n)
        if (*n + 2 > PK_LINE)
            return zt_pk_fail(p, "a line of text that is too long");
    line[*n] = 0;
    return st;
}

/* n bytes that are kept, closed by a zero. */
zt_status zt_pk_read_text(pickle *p, uint64_t n, pk_value *out)
{
    if (n > p->end - zt_pk_here(p) || n > UINT32_MAX)
        return zt_pk_fail(p, "a text longer than the file");
    char *s = zt_pk_alloc(p, (size_t)n + 1, 1);
    if (!s)
        return zt_pk_why(p);
    s[n] = 0;
    *out = (pk_value){.kind = PK_TEXT, .n = (uint32_t)n, .text = s};
    return read_bytes(p, s, (size_t)n);
}

/* ---- stack ----------------------------------------------------------------------------------- */

zt_status zt_pk_push(pickle *p, pk_value v)
{
    if (p->n == p->room) {
        size_t room = p->room ? 2 * p->room : 64;
        if (!zt_pk_spend(p, (room - p->room) * sizeof *p->stack))
            return zt_pk_why(p);
        pk_value *s = zt_realloc(p->ctx, p->stack, room * sizeof *s);
        if (!s)
            return ZT_ENOMEM;
        p->stack = s;
        p->room = room;
    }
    p->stack[p->n++] = v;
    return ZT_OK;
}

/* The topmost value, which must be no mark. */
zt_status zt_pk_pop(pickle *p, pk_value *v)
{
    if (!p->n || p->stack[p->n - 1].kind == PK_MARK)
        return zt_pk_fail(p, "a value is missing on the stack");
    *v = p->stack[--p->n];
    return ZT_OK;
}

/* Where the values above the last mark begin; the mark is taken away. */
zt_status zt_pk_above_mark(pickle *p, size_t *first)
{
    size_t i = p->n;
    while (i && p->stack[i - 1].kind != PK_MARK)
        i--;
    if (!i)
        return zt_pk_fail(p, "a mark is missing on the stack");
    *first = i;
    return ZT_OK;
}

pk_list *zt_pk_list(pickle *p)
{
    pk_list *l = zt_pk_alloc(p, 1, sizeof *l);
    if (l)
        *l = (pk_list){0};
    return l;
}

zt_status zt_pk_append(pickle *p, pk_list *l, const pk_value *v, size_t n)
{
    if (l->room - l->n < n) {
        size_t room = n > l->room ? l->n + n : 2 * l->room;
        pk_value *item = zt_pk_alloc(p, room, sizeof *item);
        if (!item)
            return zt_pk_why(p);
        if (l->n)
            memcpy(item, l->item, l->n * sizeof *item);
        l->item = item;
        l->room = room;
    }
    if (n)
        memcpy(l->item + l->n, v, n * sizeof *v);
    l->n += n;
    return ZT_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static zt_status run(pickle *p, pk_value *out)
{
    for (;;) {
        uint8_t op;
        zt_status st = read_bytes(p, &op, 1);
        if (st != ZT_OK)
            return st;
        p->ops++;
        if (op == '.')
            break;
        st = zt_pk_opcodes[op].run ? zt_pk_opcodes[op].run(p, zt_pk_opcodes[op].arg)
                                   : zt_pk_fail(p, "no opcode");
        if (st != ZT_OK)
            return st;
    }
    if (p->n != 1 || p->stack[0].kind == PK_MARK)
        return zt_pk_fail(p, "not one value is left at its end");
    *out = p->stack[0];
    return ZT_OK;
}

zt_status zt_pickle_read(pickle *p, pk_value *out)
{
    p->stack = p->memo = NULL;
    p->n = p->room = p->memo_n = p->memoized = p->ops = p->next = p->got = 0;
    zt_status st = run(p, out);
    p->at = zt_pk_here(p);
    p->next = p->got = 0;
    zt_free(p->ctx, p->stack);
    zt_free(p->ctx, p->memo);
    p->stack = p->memo = NULL;
    return st;
}

void zt_pickle_end(pickle *p)
{
    zt_map_free(p->names);
    p->names = NULL;
}
