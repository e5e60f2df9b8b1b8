/* module.c - writes the body of `chain` into the module of shaders/pointwise.comp, in SPIR-V.
 *
 * A module is a header of five words and instructions: the first word has the opcode in its low
 * half and the number of words in the high one. Functions are found by the names that the compiler
 * left in (OpName), types by what they are. New are the constants, which stand before the first
 * function, and for each op of the chain
 *
 *     t[8 + i] = rounded(f(t[a], given(2 i), given(2 i + 1)))     or f(t[a], t[b], t[a])
 *
 * and a call of `store` where the value is an output.
 */
#include "lib/engine/vulkan/vk.h"
#include "lib/ops/pointwise.h"

#include <stdio.h>
#include <string.h>

enum { /* SPIR-V 1.5, 3.52 */
    NAME = 5, TYPE_VOID = 19, TYPE_INT = 21, TYPE_FLOAT = 22, TYPE_POINTER = 32, CONSTANT = 43,
    FUNCTION = 54, CALL = 57, LOAD = 61, STORE = 62, ACCESS = 65, LABEL = 248,
    PRIVATE = 6, HEADER = 5, CONSTANTS = 2 * ZT_POINTWISE_OPS + ZT_POINTWISE_INS,
    EACH = 64 /* words that an op takes at most */
};

typedef struct writer {
    const uint32_t *code;
    size_t n;
    uint32_t *to; /* NULL: nothing is written yet */
    size_t at;
    uint32_t next; /* the first free id */
    uint32_t none, u32, f32, pointer, t, constant, given, rounded, store, chain, function[128];
} writer;

/* ---- finding --------------------------------------------------------------------------------- */

static bool named(const uint32_t *at, uint32_t words, const char *name)
{
    size_t n = strlen(name) + 1;
    return n <= 4 * (words - 2) && !memcmp(at + 2, name, n);
}

static void find_name(writer *w, const uint32_t *at, uint32_t words)
{
    char name[64];
    const struct {
        const char *name;
        uint32_t *id;
    } ours[] = {{"t", &w->t},
                {"given(u1;", &w->given},
                {"rounded(f1;", &w->rounded},
                {"store(u1;f1;", &w->store},
                {"chain(", &w->chain}};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (named(at, words, ours[i].name)) *ours[i].id = at[1];
    for (int f = 0; f < 128; f++) {
        if (!zt_vk_function_name(f, name, sizeof name - 12)) continue;
        strcat(name, "(f1;f1;f1;");
        if (named(at, words, name)) w->function[f] = at[1];
    }
}

static void find_type(writer *w, const uint32_t *at, uint32_t op)
{
    if (op == TYPE_VOID) w->none = at[1];
    if (op == TYPE_FLOAT && at[2] == 32) w->f32 = at[1];
    if (op == TYPE_INT && at[2] == 32 && at[3] == 0) w->u32 = at[1];
    if (op == TYPE_POINTER && at[2] == PRIVATE && at[3] == w->f32) w->pointer = at[1];
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put(writer *w, uint32_t op, const uint32_t *word, uint32_t n)
{
    w->to[w->at++] = (n + 1) << 16 | op;
    memcpy(w->to + w->at, word, n * sizeof *word);
    w->at += n;
}
#define PUT(w, op, ...)                                                                            \
    put(w, op, (const uint32_t[]){__VA_ARGS__},                                                    \
        sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void put_constants(writer *w)
{
    w->constant = w->next;
    for (uint32_t i = 0; i < CONSTANTS; i++) PUT(w, CONSTANT, w->u32, w->next++, i);
}

static uint32_t load(writer *w, uint32_t value)
{
    uint32_t p = w->next++, x = w->next++;
    PUT(w, ACCESS, w->pointer, p, w->t, w->constant + value);
    PUT(w, LOAD, w->f32, x, p);
    return x;
}

static uint32_t given(writer *w, uint32_t i)
{
    uint32_t x = w->next++;
    PUT(w, CALL, w->f32, x, w->given, w->constant + i);
    return x;
}

static void put_op(writer *w, uint32_t i, uint32_t op)
{
    uint32_t f = ZT_VK_BODY_F(op), x = load(w, ZT_VK_BODY_A(op)), a, b = x;
    if (f < ZT_VK_PAIRS) {
        a = given(w, 2 * i);
        b = given(w, 2 * i + 1);
    } else {
        a = load(w, ZT_VK_BODY_B(op));
    }
    uint32_t y = w->next++, r = w->next++, p = w->next++;
    PUT(w, CALL, w->f32, y, w->function[f], x, a, b);
    PUT(w, CALL, w->f32, r, w->rounded, y);
    PUT(w, ACCESS, w->pointer, p, w->t, w->constant + ZT_POINTWISE_INS + i);
    PUT(w, STORE, p, r);
    if (ZT_VK_BODY_TO(op))
        PUT(w, CALL, w->none, w->next++, w->store, w->constant + ZT_VK_BODY_TO(op) - 1, r);
}

static bool all_there(const writer *w, const uint32_t *body, int n)
{
    bool good = w->none && w->u32 && w->f32 && w->pointer && w->t && w->given && w->rounded &&
                w->store && w->chain;
    for (int i = 0; i < n; i++) good = good && w->function[ZT_VK_BODY_F(body[i])];
    return good;
}

/* Every instruction copied, with ours between. */
static bool write(writer *w, const uint32_t *body, int n)
{
    bool functions = false, ours = false;
    memcpy(w->to, w->code, HEADER * sizeof *w->to);
    w->at = HEADER;
    for (size_t i = HEADER; i < w->n;) {
        const uint32_t *at = w->code + i;
        uint32_t op = *at & 0xffff, words = *at >> 16;
        if (words == 0 || words > w->n - i) return false;
        if (op == NAME) find_name(w, at, words);
        if (words > 1) find_type(w, at, op);
        if (op == FUNCTION && !functions) {
            if (!all_there(w, body, n)) return false;
            put_constants(w);
            functions = true;
        }
        if (op == FUNCTION) ours = at[2] == w->chain;
        put(w, op, at + 1, words - 1);
        for (int k = 0; k < n && ours && op == LABEL; k++) put_op(w, (uint32_t)k, body[k]);
        i += words;
    }
    w->to[3] = w->next; /* the bound of ids */
    return functions;
}

uint32_t *zt_vk_module(zt_ctx *ctx, const uint32_t *code, size_t bytes, const uint32_t *body,
                       int n, size_t *made)
{
    writer w = {.code = code, .n = bytes / sizeof *code, .next = code[3]};
    w.to = zt_alloc_array(ctx, w.n + 4 * CONSTANTS + (size_t)n * EACH, sizeof *w.to);
    if (!w.to) return NULL;
    if (write(&w, body, n)) {
        *made = w.at * sizeof *w.to;
        return w.to;
    }
    zt_free(ctx, w.to);
    zt_fail(ctx, ZT_EBUG, "engine vulkan: the module of chains lacks what is to be called");
    return NULL;
}
