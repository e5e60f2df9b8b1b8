/* module.c - writes the body of `chain` into the module of shaders/pointwise.comp, in SPIR-V.
 *
 * A module is a header of five words and instructions: the first word has the opcode in its low
 * half and the number of words in the high one. Functions are found by the names that the compiler
 * left in (OpName), types by what they are. New are the constants, which stand before the first
 * function, and for each op of the chain
 *
 *     t[8 + i] = rounded(f(t[a], given(2 i), given(2 i + 1)), type)     or f(t[a], t[b], t[c])
 *
 * and a call of `store` where the value is an output.
 */
// clang-format off
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
// clang-format on

typedef struct module_writer {
    const uint32_t *code;
    size_t word_count;
    uint32_t *output; /* NULL: nothing is written yet */
    size_t at;
    uint32_t next; /* the first free id */
    uint32_t none, u32, f32, pointer, stored_type, constant, given, rounded, store, chain, function[128];
} module_writer;

/* ---- finding --------------------------------------------------------------------------------- */

static bool has_name(const uint32_t *instruction, uint32_t words, const char *name)
{
    size_t length = strlen(name) + 1;
    return length <= 4 * (words - 2) && !memcmp(instruction + 2, name, length);
}

static void find_name(module_writer *writer, const uint32_t *instruction, uint32_t words)
{
    char name[64];
    const struct {
        const char *name;
        uint32_t *id;
    } ours[] = {{"t", &writer->stored_type},
                {"given(u1;", &writer->given},
                {"rounded(f1;u1;", &writer->rounded},
                {"store(u1;u1;f1;", &writer->store},
                {"chain(", &writer->chain}};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (has_name(instruction, words, ours[i].name)) *ours[i].id = instruction[1];
    for (int function = 0; function < 128; function++) {
        if (!zt_vk_function_name(function, name, sizeof name - 12)) continue;
        strcat(name, "(f1;f1;f1;");
        if (has_name(instruction, words, name)) writer->function[function] = instruction[1];
    }
}

static void find_type(module_writer *writer, const uint32_t *instruction, uint32_t op)
{
    if (op == TYPE_VOID) writer->none = instruction[1];
    if (op == TYPE_FLOAT && instruction[2] == 32) writer->f32 = instruction[1];
    if (op == TYPE_INT && instruction[2] == 32 && instruction[3] == 0) writer->u32 = instruction[1];
    if (op == TYPE_POINTER && instruction[2] == PRIVATE && instruction[3] == writer->f32) writer->pointer = instruction[1];
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_instruction(module_writer *writer, uint32_t op, const uint32_t *word, uint32_t word_count)
{
    writer->output[writer->at++] = (word_count + 1) << 16 | op;
    memcpy(writer->output + writer->at, word, word_count * sizeof *word);
    writer->at += word_count;
}
#define PUT(w, op, ...)                                                                                                          \
    put_instruction(w, op, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void put_constants(module_writer *writer)
{
    writer->constant = writer->next;
    for (uint32_t i = 0; i < CONSTANTS; i++) PUT(writer, CONSTANT, writer->u32, writer->next++, i);
}

static uint32_t load_value(module_writer *writer, uint32_t value)
{
    uint32_t pointer = writer->next++, loaded = writer->next++;
    PUT(writer, ACCESS, writer->pointer, pointer, writer->stored_type, writer->constant + value);
    PUT(writer, LOAD, writer->f32, loaded, pointer);
    return loaded;
}

static uint32_t load_given(module_writer *writer, uint32_t input)
{
    uint32_t converted = writer->next++;
    PUT(writer, CALL, writer->f32, converted, writer->given, writer->constant + input);
    return converted;
}

static void put_op(module_writer *writer, uint32_t op_index, uint32_t op, uint32_t more)
{
    uint32_t function = ZT_VK_BODY_F(op), first = load_value(writer, ZT_VK_BODY_VALUE(op, 0)), argument, second;
    uint32_t type = writer->constant + ZT_VK_BODY_TYPE(more);
    if (function < ZT_VK_PAIRS) {
        argument = load_given(writer, 2 * op_index);
        second = load_given(writer, 2 * op_index + 1);
    } else {
        argument = load_value(writer, ZT_VK_BODY_VALUE(op, 1));
        second = load_value(writer, ZT_VK_BODY_VALUE(op, 2));
    }
    uint32_t computed = writer->next++, rounded = writer->next++, stored_at = writer->next++;
    PUT(writer, CALL, writer->f32, computed, writer->function[function], first, argument, second);
    PUT(writer, CALL, writer->f32, rounded, writer->rounded, computed, type);
    PUT(writer, ACCESS, writer->pointer, stored_at, writer->stored_type, writer->constant + ZT_POINTWISE_INS + op_index);
    PUT(writer, STORE, stored_at, rounded);
    if (ZT_VK_BODY_OUT(more))
        PUT(writer, CALL, writer->none, writer->next++, writer->store, writer->constant + ZT_VK_BODY_OUT(more) - 1, type,
            rounded);
}

static bool all_there(const module_writer *writer, const uint32_t *body, int op_count)
{
    bool good = writer->none && writer->u32 && writer->f32 && writer->pointer && writer->stored_type && writer->given &&
                writer->rounded && writer->store && writer->chain;
    for (int i = 0; i < op_count; i++) good = good && writer->function[ZT_VK_BODY_F(body[2 * i])];
    return good;
}

/* Every instruction copied, with ours between. */
static bool write_module(module_writer *writer, const uint32_t *body, int op_count)
{
    bool functions = false, ours = false;
    memcpy(writer->output, writer->code, HEADER * sizeof *writer->output);
    writer->at = HEADER;
    for (size_t position = HEADER; position < writer->word_count;) {
        const uint32_t *instruction = writer->code + position;
        uint32_t op = *instruction & 0xffff, words = *instruction >> 16;
        if (words == 0 || words > writer->word_count - position) return false;
        if (op == NAME) find_name(writer, instruction, words);
        if (words > 1) find_type(writer, instruction, op);
        if (op == FUNCTION && !functions) {
            if (!all_there(writer, body, op_count)) return false;
            put_constants(writer);
            functions = true;
        }
        if (op == FUNCTION) ours = instruction[2] == writer->chain;
        put_instruction(writer, op, instruction + 1, words - 1);
        for (int k = 0; k < op_count && ours && op == LABEL; k++) put_op(writer, (uint32_t)k, body[2 * k], body[2 * k + 1]);
        position += words;
    }
    writer->output[3] = writer->next; /* the bound of ids */
    return functions;
}

uint32_t *zt_vk_module(zt_ctx *ctx, const uint32_t *code, size_t bytes, const uint32_t *body, int body_words,
                       size_t *module_bytes)
{
    const int op_count = body_words / 2;
    module_writer writer = {.code = code, .word_count = bytes / sizeof *code, .next = code[3]};
    writer.output = zt_alloc_array(ctx, writer.word_count + 4 * CONSTANTS + (size_t)op_count * EACH, sizeof *writer.output);
    if (!writer.output) return NULL;
    if (write_module(&writer, body, op_count)) {
        *module_bytes = writer.at * sizeof *writer.output;
        return writer.output;
    }
    zt_free(ctx, writer.output);
    zt_fail(ctx, ZT_EBUG, "engine vulkan: a function is missing from the module of pointwise chains");
    return NULL;
}
