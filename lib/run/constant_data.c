/* constant_data.c - owns data that an op makes of data: "@cast f16[576] \"blk.0.attn_norm.weight\"".
 *
 * Such a name is the op's line with its operands' types and tensors. It becomes a program of one
 * op, which runs on the engine that wants the tensor; an operand may be such a name itself. The
 * text is as hostile as the plan that it stands in: the parser reads it, and the type is checked.
 */
#include <string.h>

#include "lib/run/schedule.h"

/* The next operand: `_`, or a type and a JSON string. Its end, or NULL where there is none. */
static const char *operand_end(const char *at)
{
    if (at[0] == '_' && (at[1] == ' ' || !at[1])) return at + 1;
    const char *quote = strchr(at, '"');
    const char *space = strchr(at, ' ');
    if (!quote || !space || space + 1 != quote) return NULL;
    for (at = quote + 1; *at && *at != '"'; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : NULL;
}

/* The program of one op; ZT_EDATA where the name is none. */
static zt_prog *one_op(zt_ctx *ctx, const char *name)
{
    zt_str head, op;
    zt_prog *program = NULL;
    int n = 0;
    const char *at = name + 1 + strcspn(name + 1, " "), *end;
    zt_str_init(&head, ctx);
    zt_str_init(&op, ctx);
    zt_str_puts(&head, "zt program 1\n");
    zt_str_printf(&op, "y = %.*s", (int)(at - name - 1), name + 1);
    for (; *at == ' ' && (end = operand_end(at + 1)) != NULL; at = end, n++) {
        int length = (int)(end - at - 1);
        if (at[1] != '_') zt_str_printf(&head, "data t%d: %.*s\n", n, length, at + 1);
        zt_str_printf(&op, at[1] != '_' ? " t%d" : " _", n);
    }
    zt_str_printf(&op, "%s\nout y = y\n", at);
    if (!zt_ctx_status(ctx) && !zt_str_put(&head, op.data, op.len))
        program = zt_prog_parse(ctx, "data", head.data, head.len);
    zt_str_fini(&head);
    zt_str_fini(&op);
    return program;
}

static zt_status check_type(zt_ctx *ctx, const zt_prog *program, const zt_type *want)
{
    char is[ZT_TYPE_TEXT], wants[ZT_TYPE_TEXT];
    zt_bound *bound = zt_prog_bind(program, NULL, 0);
    if (!bound) return zt_ctx_status(ctx);
    zt_type type = bound->type[zt_prog_output(program, 0)->value];
    zt_bound_free(bound);
    if (zt_prog_n_outputs(program) == 1 && zt_type_equal(&type, want)) return ZT_OK;
    return zt_fail(ctx, ZT_EDATA, "data made of data is %s, the program wants %s",
                   zt_type_text(&type, is), zt_type_text(want, wants));
}

typedef struct made {
    const zt_type *type;
    const char *bytes;
} made;

static zt_status made_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)name;
    *type = *((const made *)user)->type;
    *handle = 0;
    return ZT_OK;
}

static zt_status made_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    (void)handle;
    memcpy(dst, ((const made *)user)->bytes + offset, n);
    return ZT_OK;
}

bool zt_is_derived(const char *tensor) { return tensor[0] == '@'; }

zt_status zt_constant_data_read(zt_engine *engine, const char *name, const zt_type *want,
                          const zt_store *store, void *bytes)
{
    zt_ctx *ctx = engine->ctx;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ')
            return zt_fail(ctx, ZT_EDATA, "data made of data: a line break in its name");
    zt_prog *program = one_op(ctx, name);
    zt_status status = program ? check_type(ctx, program, want) : zt_ctx_status(ctx);
    zt_session *session = status ? NULL : zt_session_open(engine, program, store, NULL);
    if (!status) status = session ? zt_session_step(session, NULL, 0, NULL, (void *[]){bytes}) : zt_ctx_status(ctx);
    zt_session_close(session);
    zt_prog_free(program);
    return status;
}

zt_ebuf *zt_constant_data_load(zt_engine *engine, const char *name, const zt_type *want, const zt_store *store)
{
    char *bytes = zt_alloc(engine->ctx, zt_type_bytes(want) + 1);
    zt_status status = bytes ? zt_constant_data_read(engine, name, want, store, bytes) : ZT_ENOMEM;
    made m = {want, bytes};
    const zt_store one = {&m, made_find, made_read};
    zt_ebuf *buffer = status ? NULL : engine->vt->load(engine, want, &one, 0);
    zt_free(engine->ctx, bytes);
    return buffer;
}
