/* machine.c - parsing and rendering from the outside: the one place where errors arrive. */
#include "lib/base/require.h"
#include "lib/llm/jinja/internal.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 20000000, DEPTH = 1000 };
#define MEMORY ((size_t)256 << 20)
#define OUTPUT ((size_t)64 << 20)
/* A template is some tens of kilobytes at most; its nodes take a multiple of that. */
#define TEMPLATE_BYTES ((size_t)4 << 20)

void zt_j_fail_as(jmachine *machine, zt_status status, const char *fmt, ...)
{
    char what[512], shown[1024];
    va_list arguments;
    va_start(arguments, fmt);
    int written = vsnprintf(what, sizeof what, fmt, arguments);
    va_end(arguments);
    size_t length = written < 0 ? 0 : (size_t)written < sizeof what ? (size_t)written : sizeof what - 1;
    zt_fail(machine->ctx, status, "%s: line %d: %s", machine->jinja->name, machine->line,
            zt_escape(shown, sizeof shown, what, length));
    longjmp(machine->leave, 1);
}

void zt_j_fail(jmachine *machine, const char *fmt, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(what, sizeof what, fmt, arguments);
    va_end(arguments);
    zt_j_fail_as(machine, ZT_EDATA, "%s", what);
}

void *zt_j_alloc(jmachine *machine, size_t bytes)
{
    if (bytes > machine->memory) zt_j_fail(machine, "the template needs too much memory");
    machine->memory -= bytes;
    void *memory = zt_arena_alloc(machine->arena, bytes ? bytes : 1);
    if (!memory) longjmp(machine->leave, 1); /* the allocator made the message */
    memset(memory, 0, bytes);
    return memory;
}

void *zt_j_array(jmachine *machine, size_t count, size_t size)
{
    size_t bytes;
    if (!zt_mul_size(count, size, &bytes)) zt_j_fail(machine, "the template needs too much memory");
    return zt_j_alloc(machine, bytes);
}

void zt_j_step(jmachine *machine, uint64_t count)
{
    if (count > machine->steps) zt_j_fail(machine, "the template takes too many steps");
    machine->steps -= count;
}

void zt_j_enter(jmachine *machine)
{
    zt_j_step(machine, 1);
    if (machine->depth == 0) zt_j_fail(machine, "the template is nested too deeply, or calls itself too often");
    machine->depth--;
}

void zt_j_leave(jmachine *machine) { machine->depth++; }

/* ---- parsing --------------------------------------------------------------------------------- */

static void parse_all(jmachine *machine, const char *text, size_t size)
{
    if (setjmp(machine->leave)) return;
    if (size > TEMPLATE_BYTES) zt_j_fail(machine, "the template has %zu bytes, more than %zu", size, TEMPLATE_BYTES);
    machine->parsing->loop = zt_j_intern(machine, "loop", 4);
    machine->parsing->caller = zt_j_intern(machine, "caller", 6);
    machine->parsing->kwargs = zt_j_intern(machine, "kwargs", 6);
    machine->parsing->varargs = zt_j_intern(machine, "varargs", 7);
    zt_j_lex(machine, text, size);
    zt_j_parse(machine);
    zt_j_check(machine, machine->parsing->body);
}

zt_jinja *zt_jinja_parse(zt_ctx *ctx, const char *name, const char *text, size_t size)
{
    ZT_REQUIRE(ctx, text || !size, NULL);
    zt_jinja *jinja = zt_calloc(ctx, 1, sizeof *jinja);
    if (!jinja) return NULL;
    jinja->ctx = ctx;
    jinja->name = name;
    jinja->arena = zt_arena_new(ctx, 0);
    jmachine machine = {.ctx = ctx,
                        .jinja = jinja,
                        .parsing = jinja,
                        .arena = jinja->arena,
                        .line = 1,
                        .steps = 200000000,
                        .memory = MEMORY,
                        .depth = DEPTH};
    if (jinja->arena) parse_all(&machine, text, size);
    if (jinja->body && zt_ctx_status(ctx) == ZT_OK) return jinja;
    zt_jinja_free(jinja);
    return NULL;
}

void zt_jinja_free(zt_jinja *jinja)
{
    if (!jinja) return;
    zt_arena_free(jinja->arena);
    zt_free(jinja->ctx, jinja);
}

const char *zt_jinja_text(const zt_jinja *jinja, size_t *size)
{
    if (size) *size = jinja ? jinja->text_size : 0;
    return jinja ? jinja->text : NULL;
}

bool zt_jinja_uses(const zt_jinja *jinja, const char *variable)
{
    if (!jinja) return false;
    ZT_REQUIRE(jinja->ctx, variable, false);
    for (size_t bucket = 0; bucket < sizeof jinja->names / sizeof *jinja->names; bucket++)
        for (const jname *name = jinja->names[bucket]; name; name = name->next)
            if (name->read && strcmp(name->text, variable) == 0) return true;
    return false;
}

bool zt_jinja_mentions(const zt_jinja *jinja, const char *word)
{
    if (!jinja) return false;
    ZT_REQUIRE(jinja->ctx, word, false);
    return memmem(jinja->text, jinja->text_size, word, strlen(word)) != NULL;
}

/* ---- rendering ------------------------------------------------------------------------------- */

static void render_all(jmachine *machine, jout *out)
{
    if (setjmp(machine->leave)) return;
    machine->out = out;
    machine->document = true;
    machine->root = zt_j_scope(machine, NULL);
    zt_j_execute(machine, machine->jinja->body, machine->root);
    if (!out->buffer) zt_j_put(machine, out, "", 0, false);
}

static zt_status deliver_output(const jbuf *buffer, zt_str *out, zt_str *origin)
{
    size_t before = out->len;
    zt_status status = zt_str_put(out, buffer->data, buffer->size);
    if (status == ZT_OK && origin) status = zt_str_put(origin, buffer->data + buffer->capacity, buffer->size);
    if (status != ZT_OK && out->len > before) {
        out->len = before;
        out->data[before] = 0;
    }
    return status;
}

zt_status zt_jinja_render(zt_ctx *ctx, const zt_jinja *jinja, const zt_jinja_vars *vars, zt_str *out, zt_str *origin)
{
    ZT_REQUIRE(ctx, jinja && vars && out, ZT_EUSAGE);
    const zt_jinja_limits *limits = &vars->limits;
    jmachine machine = {.ctx = ctx,
                        .jinja = jinja,
                        .vars = vars,
                        .line = 1,
                        .steps = limits->steps ? limits->steps : STEPS,
                        .memory = limits->memory ? limits->memory : MEMORY,
                        .output = limits->output ? limits->output : OUTPUT,
                        .depth = limits->depth ? limits->depth : DEPTH};
    jout *text = NULL;
    if (zt_ctx_status(ctx) != ZT_OK) return zt_ctx_status(ctx);
    machine.arena = zt_arena_new(ctx, 0);
    if (machine.arena) text = zt_arena_alloc(machine.arena, sizeof *text);
    if (text) {
        text->buffer = NULL;
        render_all(&machine, text);
        if (zt_ctx_status(ctx) == ZT_OK) deliver_output(text->buffer, out, origin);
    }
    zt_arena_free(machine.arena);
    return zt_ctx_status(ctx);
}
