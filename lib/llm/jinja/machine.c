/* machine.c - parsing and rendering from the outside: the one place where errors arrive. */
#include "lib/llm/jinja/internal.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 20000000, DEPTH = 1000 };
#define MEMORY ((size_t)256 << 20)
#define OUTPUT ((size_t)64 << 20)
/* A template is some tens of kilobytes at most; its nodes take a multiple of that. */
#define TEMPLATE_BYTES ((size_t)4 << 20)

void zt_j_fail_as(jmachine *j, zt_status s, const char *fmt, ...)
{
    char what[512], shown[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof what ? (size_t)n : sizeof what - 1;
    zt_fail(j->ctx, s, "%s: line %d: %s", j->t->name, j->line,
            zt_escape(shown, sizeof shown, what, len));
    longjmp(j->leave, 1);
}

void zt_j_fail(jmachine *j, const char *fmt, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    zt_j_fail_as(j, ZT_EDATA, "%s", what);
}

void *zt_j_alloc(jmachine *j, size_t bytes)
{
    if (bytes > j->memory)
        zt_j_fail(j, "the template needs too much memory");
    j->memory -= bytes;
    void *p = zt_arena_alloc(j->mem, bytes ? bytes : 1);
    if (!p)
        longjmp(j->leave, 1); /* the allocator made the message */
    memset(p, 0, bytes);
    return p;
}

void *zt_j_array(jmachine *j, size_t n, size_t size)
{
    size_t bytes;
    if (!zt_mul_size(n, size, &bytes))
        zt_j_fail(j, "the template needs too much memory");
    return zt_j_alloc(j, bytes);
}

void zt_j_step(jmachine *j, uint64_t n)
{
    if (n > j->steps)
        zt_j_fail(j, "the template takes too many steps");
    j->steps -= n;
}

void zt_j_enter(jmachine *j)
{
    zt_j_step(j, 1);
    if (j->depth == 0)
        zt_j_fail(j, "the template is nested too deeply, or calls itself too often");
    j->depth--;
}

void zt_j_leave(jmachine *j)
{
    j->depth++;
}

/* ---- parsing --------------------------------------------------------------------------------- */

static void parse_all(jmachine *j, const char *text, size_t n)
{
    if (setjmp(j->leave))
        return;
    if (n > TEMPLATE_BYTES)
        zt_j_fail(j, "the template has %zu bytes, more than %zu", n, TEMPLATE_BYTES);
    j->parsing->loop = zt_j_intern(j, "loop", 4);
    j->parsing->caller = zt_j_intern(j, "caller", 6);
    j->parsing->kwargs = zt_j_intern(j, "kwargs", 6);
    j->parsing->varargs = zt_j_intern(j, "varargs", 7);
    zt_j_lex(j, text, n);
    zt_j_parse(j);
    zt_j_check(j, j->parsing->body);
}

zt_jinja *zt_jinja_parse(zt_ctx *ctx, const char *name, const char *text, size_t n)
{
    zt_jinja *t = zt_calloc(ctx, 1, sizeof *t);
    if (!t)
        return NULL;
    t->ctx = ctx;
    t->name = name;
    t->mem = zt_arena_new(ctx, 0);
    jmachine j = {.ctx = ctx, .t = t, .parsing = t, .mem = t->mem, .line = 1,
                  .steps = 200000000, .memory = MEMORY, .depth = DEPTH};
    if (t->mem)
        parse_all(&j, text, n);
    if (t->body && zt_ctx_status(ctx) == ZT_OK)
        return t;
    zt_jinja_free(t);
    return NULL;
}

void zt_jinja_free(zt_jinja *t)
{
    if (!t)
        return;
    zt_arena_free(t->mem);
    zt_free(t->ctx, t);
}

bool zt_jinja_uses(const zt_jinja *t, const char *variable)
{
    for (size_t i = 0; i < sizeof t->names / sizeof *t->names; i++)
        for (const jname *n = t->names[i]; n; n = n->next)
            if (n->read && strcmp(n->text, variable) == 0)
                return true;
    return false;
}

bool zt_jinja_mentions(const zt_jinja *t, const char *word)
{
    return memmem(t->text, t->n, word, strlen(word)) != NULL;
}

/* ---- rendering ------------------------------------------------------------------------------- */

static void render_all(jmachine *j, jout *out)
{
    if (setjmp(j->leave))
        return;
    j->out = out;
    j->document = true;
    j->root = zt_j_scope(j, NULL);
    zt_j_execute(j, j->t->body, j->root);
    if (!out->buf)
        zt_j_put(j, out, "", 0, false);
}

static zt_status deliver(const jbuf *b, zt_str *out, zt_str *origin)
{
    size_t before = out->len;
    zt_status s = zt_str_put(out, b->data, b->len);
    if (s == ZT_OK && origin)
        s = zt_str_put(origin, b->data + b->cap, b->len);
    if (s != ZT_OK && out->len > before) {
        out->len = before;
        out->data[before] = 0;
    }
    return s;
}

zt_status zt_jinja_render(zt_ctx *ctx, const zt_jinja *t, const zt_jinja_vars *vars, zt_str *out,
                          zt_str *origin)
{
    const zt_jinja_limits *l = &vars->limits;
    jmachine j = {.ctx = ctx, .t = t, .vars = vars, .line = 1,
                  .steps = l->steps ? l->steps : STEPS, .memory = l->memory ? l->memory : MEMORY,
                  .output = l->output ? l->output : OUTPUT, .depth = l->depth ? l->depth : DEPTH};
    jout *text = NULL;
    if (zt_ctx_status(ctx) != ZT_OK)
        return zt_ctx_status(ctx);
    j.mem = zt_arena_new(ctx, 0);
    if (j.mem)
        text = zt_arena_alloc(j.mem, sizeof *text);
    if (text) {
        text->buf = NULL;
        render_all(&j, text);
        if (zt_ctx_status(ctx) == ZT_OK)
            deliver(text->buf, out, origin);
    }
    zt_arena_free(j.mem);
    return zt_ctx_status(ctx);
}
