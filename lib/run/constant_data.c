/* constant_data.c - owns data that an op makes of data: "@cast f16[576] \"blk.0.attn_norm.weight\"".
 *
 * Such a name is the op's line with its operands' types and tensors. It becomes a program of one
 * op, which runs on the engine that wants the tensor; an operand may be such a name itself. The
 * text is as hostile as the plan that it stands in: the parser reads it, and the type is checked.
 */
#include <string.h>

#include "lib/run/partition.h"

/* The next operand: `_`, or a type and a JSON string. Its end, or NULL where there is none. */
static const char *operand_end(const char *text)
{
    if (text[0] == '_' && (text[1] == ' ' || !text[1])) return text + 1;
    const char *quote = strchr(text, '"');
    const char *space = strchr(text, ' ');
    if (!quote || !space || space + 1 != quote) return NULL;
    for (text = quote + 1; *text && *text != '"'; text++)
        if (*text == '\\' && text[1]) text++;
    return *text ? text + 1 : NULL;
}

/* The program of one op; ZT_EDATA where the name is none. */
static zt_prog *parse_one_op(zt_ctx *ctx, const char *name)
{
    zt_str declarations, op_line;
    zt_prog *program = NULL;
    int operand_count = 0;
    const char *text = name + 1 + strcspn(name + 1, " "), *end;
    zt_str_init(&declarations, ctx);
    zt_str_init(&op_line, ctx);
    zt_str_puts(&declarations, "zt program 1\n");
    zt_str_printf(&op_line, "y = %.*s", (int)(text - name - 1), name + 1);
    for (; *text == ' ' && (end = operand_end(text + 1)) != NULL; text = end, operand_count++) {
        int length = (int)(end - text - 1);
        if (text[1] != '_') zt_str_printf(&declarations, "data t%d: %.*s\n", operand_count, length, text + 1);
        zt_str_printf(&op_line, text[1] != '_' ? " t%d" : " _", operand_count);
    }
    zt_str_printf(&op_line, "%s\nout y = y\n", text);
    if (!zt_ctx_status(ctx) && !zt_str_put(&declarations, op_line.data, op_line.len))
        program = zt_prog_parse(ctx, "data", declarations.data, declarations.len);
    zt_str_fini(&declarations);
    zt_str_fini(&op_line);
    return program;
}

static zt_status check_type(zt_ctx *ctx, const zt_prog *program, const zt_type *wanted_type)
{
    char actual_text[ZT_TYPE_TEXT], wanted_text[ZT_TYPE_TEXT];
    zt_bound *bound = zt_prog_bind(program, NULL, 0);
    if (!bound) return zt_ctx_status(ctx);
    zt_type type = bound->type[zt_prog_output(program, 0)->value];
    zt_bound_free(bound);
    if (zt_prog_n_outputs(program) == 1 && zt_type_equal(&type, wanted_type)) return ZT_OK;
    return zt_fail(ctx, ZT_EDATA, "computed data has type %s, but the program expects %s", zt_type_text(&type, actual_text),
                   zt_type_text(wanted_type, wanted_text));
}

typedef struct constant_bytes {
    const zt_type *type;
    const char *bytes;
} constant_bytes;

static zt_status find_constant(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)name;
    *type = *((const constant_bytes *)user)->type;
    *handle = 0;
    return ZT_OK;
}

static zt_status read_constant(void *user, int64_t handle, size_t offset, void *bytes, size_t byte_count)
{
    (void)handle;
    memcpy(bytes, ((const constant_bytes *)user)->bytes + offset, byte_count);
    return ZT_OK;
}

bool zt_is_derived(const char *tensor) { return tensor[0] == '@'; }

zt_status zt_constant_data_read(zt_engine *engine, const char *name, const zt_type *wanted_type, const zt_store *store,
                                void *bytes)
{
    zt_ctx *ctx = engine->ctx;
    for (const char *letter = name; *letter; letter++)
        if ((unsigned char)*letter < ' ') return zt_fail(ctx, ZT_EDATA, "computed data: the name contains a control character");
    zt_prog *program = parse_one_op(ctx, name);
    zt_status status = program ? check_type(ctx, program, wanted_type) : zt_ctx_status(ctx);
    zt_session *session = status ? NULL : zt_session_open(engine, program, store, NULL);
    if (!status) status = session ? zt_session_step(session, NULL, 0, NULL, (void *[]){bytes}) : zt_ctx_status(ctx);
    zt_session_close(session);
    zt_prog_free(program);
    return status;
}

zt_ebuf *zt_constant_data_load(zt_engine *engine, const char *name, const zt_type *wanted_type, const zt_store *store)
{
    char *bytes = zt_alloc(engine->ctx, zt_type_bytes(wanted_type) + 1);
    zt_status status = bytes ? zt_constant_data_read(engine, name, wanted_type, store, bytes) : ZT_ENOMEM;
    constant_bytes constant = {wanted_type, bytes};
    const zt_store store_of_one = {&constant, find_constant, read_constant};
    zt_ebuf *buffer = status ? NULL : engine->vt->load(engine, wanted_type, &store_of_one, 0);
    zt_free(engine->ctx, bytes);
    return buffer;
}
