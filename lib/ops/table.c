/* table.c - the op table: what ops.def and the rows say, by op, and the ways to ask it. */
#include "lib/base/require.h"
// clang-format off
#include "lib/ops/row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- defaults -------------------------------------------------------------------------------- */

#define LIT_i64(d) d
#define LIT_f64(d) d
#define LIT_word(d)                                                                                \
    {                                                                                              \
        d                                                                                          \
    }
#define LIT_dims(d)      d
#define LIT_ints(d)      d
#define LIT_str(d)       d
#define LIT_func(d)      d
#define INIT(k, n, d)    .n = LIT_##k(d),
#define INITS_ATTR0      .none = 0
#define INITS_ATTR1(...) ZT_EACH1(INIT, __VA_ARGS__)
#define INITS_ATTR2(...) ZT_EACH2(INIT, __VA_ARGS__)
#define INITS_ATTR3(...) ZT_EACH3(INIT, __VA_ARGS__)
#define INITS_ATTR4(...) ZT_EACH4(INIT, __VA_ARGS__)
#define INITS_ATTR5(...) ZT_EACH5(INIT, __VA_ARGS__)
#define INITS_ATTR6(...) ZT_EACH6(INIT, __VA_ARGS__)
#define INITS_ATTR7(...) ZT_EACH7(INIT, __VA_ARGS__)
#define INITS_ATTR8(...) ZT_EACH8(INIT, __VA_ARGS__)
#define INITS_ATTR9(...) ZT_EACH9(INIT, __VA_ARGS__)
#define INITS_ATTR10(...) ZT_EACH10(INIT, __VA_ARGS__)
#define INITS_ATTR11(...) ZT_EACH11(INIT, __VA_ARGS__)
#define INITS_ATTR12(...) ZT_EACH12(INIT, __VA_ARGS__)
#define OP(name, ins, outs, attrs)                                                                 \
    static const zt_##name##_attrs defaults_##name = {INITS_##attrs};                              \
    zt_##name##_attrs zt_##name##_defaults(void) { return defaults_##name; }                       \
    _Static_assert(sizeof(zt_##name##_attrs) <= ZT_MAX_ATTR_BYTES, "ZT_MAX_ATTR_BYTES");
#include "lib/ops/ops.def"
#undef OP

/* ---- one zt_opinfo an op --------------------------------------------------------------------- */

/* Each op's facts sit in a function of its own, so that `self` can name its attribute struct in
 * macros that know only kind, name and default. */
#define FIELD_DEF(k, n, d) {#n, ZT_ATTR_##k, offsetof(self, n)},
#define FIELD_DEFS_ATTR0
#define FIELD_DEFS_ATTR1(...) ZT_EACH1(FIELD_DEF, __VA_ARGS__)
#define FIELD_DEFS_ATTR2(...) ZT_EACH2(FIELD_DEF, __VA_ARGS__)
#define FIELD_DEFS_ATTR3(...) ZT_EACH3(FIELD_DEF, __VA_ARGS__)
#define FIELD_DEFS_ATTR4(...) ZT_EACH4(FIELD_DEF, __VA_ARGS__)
#define FIELD_DEFS_ATTR5(...) ZT_EACH5(FIELD_DEF, __VA_ARGS__)
#define FIELD_DEFS_ATTR6(...) ZT_EACH6(FIELD_DEF, __VA_ARGS__)
#define FIELD_DEFS_ATTR7(...) ZT_EACH7(FIELD_DEF, __VA_ARGS__)
#define FIELD_DEFS_ATTR8(...) ZT_EACH8(FIELD_DEF, __VA_ARGS__)
#define FIELD_DEFS_ATTR9(...) ZT_EACH9(FIELD_DEF, __VA_ARGS__)
#define FIELD_DEFS_ATTR10(...) ZT_EACH10(FIELD_DEF, __VA_ARGS__)
#define FIELD_DEFS_ATTR11(...) ZT_EACH11(FIELD_DEF, __VA_ARGS__)
#define FIELD_DEFS_ATTR12(...) ZT_EACH12(FIELD_DEF, __VA_ARGS__)
#define OP(op, ins, outs, attributes)                                                              \
    static const zt_opinfo *info_##op(void)                                                        \
    {                                                                                              \
        typedef zt_##op##_attrs self;                                                              \
        static const zt_attrdef fields[] = {FIELD_DEFS_##attributes{NULL, ZT_ATTR_i64, 0}};        \
        static const zt_opinfo info = {                                                            \
            .name = #op,                                                                           \
            .n_in = ZT_COUNT_##ins,                                                                \
            .n_out = ZT_COUNT_##outs,                                                              \
            .n_attrs = (int)(sizeof fields / sizeof fields[0]) - 1,                                \
            .in_name = {ZT_NAMES_##ins},                                                           \
            .out_name = {ZT_NAMES_##outs},                                                         \
            .attrs = fields,                                                                       \
            .defaults = &defaults_##op,                                                            \
            .attr_bytes = sizeof(self),                                                            \
            .def = &zt_op_##op,                                                                    \
        };                                                                                         \
        return &info;                                                                              \
    }
#include "lib/ops/ops.def"
#undef OP

static const zt_opinfo *(*const infos[ZT_OP_COUNT])(void) = {
#define OP(name, ins, outs, attrs) info_##name,
#include "lib/ops/ops.def"
#undef OP
};
// clang-format on

/* The number of each family's first op. */
enum {
#define FAMILY(name)               FIRST_##name, BEFORE_##name = FIRST_##name - 1,
#define OP(name, ins, outs, attrs) AT_##name,
#include "lib/ops/ops.def"
#undef OP
};

const char *zt_op_family(zt_op op)
{
    static const struct {
        const char *name;
        int first;
    } family[] = {
#define FAMILY(name) {#name, FIRST_##name},
#define OP(name, ins, outs, attrs)
#include "lib/ops/ops.def"
#undef OP
    };
    int i = (int)(sizeof family / sizeof family[0]) - 1;
    while (i > 0 && family[i].first > (int)op) i--;
    return family[i].name;
}

const zt_opinfo *zt_op_info(zt_op op) { return (unsigned)op < ZT_OP_COUNT ? infos[op]() : NULL; }

int zt_op_shares(zt_op op)
{
    if (!zt_op_info(op)) return 0;
    const zt_opdef *def = zt_op_info(op)->def;
    return def->flags & ZT_OPF_VIEW ? 1 : def->donates;
}

bool zt_op_has_gradient(zt_op op)
{
    if (!zt_op_info(op)) return false;
    const zt_opdef *def = zt_op_info(op)->def;
    return def->vjp || (def->expand && !def->donates);
}

/* Names that programs of earlier releases have; what is written has the present one. */
static const struct {
    const char *name;
    zt_op op;
} old_names[] = {{"ln", ZT_OP_log}};

const char *zt_op_old_name(zt_op op)
{
    for (size_t i = 0; i < sizeof old_names / sizeof old_names[0]; i++)
        if (old_names[i].op == op) return old_names[i].name;
    return NULL;
}

static bool is_name(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && !memcmp(name, text, length);
}

bool zt_op_find(const char *name, size_t n, zt_op *out)
{
    if (!name) return false;
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        const char *old_name = zt_op_old_name((zt_op)op);
        if (!is_name(infos[op]()->name, name, n) && !(old_name && is_name(old_name, name, n))) continue;
        *out = (zt_op)op;
        return true;
    }
    return false;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static const char *string_at(const void *attrs, const zt_attrdef *a)
{
    const char *s;
    memcpy(&s, (const char *)attrs + a->offset, sizeof s);
    return s ? s : "";
}

const void *zt_op_attrs_copy(zt_arena *memory, zt_op op, const void *attrs)
{
    if (!memory || !attrs || !zt_op_info(op)) return NULL;
    const zt_opinfo *info = zt_op_info(op);
    char *to = zt_arena_alloc(memory, info->attr_bytes + 1);
    if (!to) return NULL;
    memcpy(to, attrs, info->attr_bytes);
    for (int k = 0; k < info->n_attrs; k++) {
        if (info->attrs[k].kind != ZT_ATTR_str) continue;
        const char *was = string_at(attrs, &info->attrs[k]);
        const char *s = zt_arena_strndup(memory, was, strlen(was));
        if (!s) return NULL;
        memcpy(to + info->attrs[k].offset, &s, sizeof s);
    }
    return to;
}

/* ---- asking a row ---------------------------------------------------------------------------- */

#define TYPES_TEXT ((ZT_TYPE_TEXT + 32) * ZT_MAX_IN)

/* "x f32[2,63], w q8_0[5,64]" */
static void inputs_text(const zt_opinfo *info, const zt_type *const in[], char *buf)
{
    char type[ZT_TYPE_TEXT];
    size_t at = 0;
    buf[0] = 0;
    for (int k = 0; k < info->n_in; k++) {
        if (!in[k]) continue;
        int n = snprintf(buf + at, TYPES_TEXT - at, "%s%s %s", at ? ", " : "", info->in_name[k], zt_type_text(in[k], type));
        at += n > 0 ? (size_t)n : 0;
        if (at >= TYPES_TEXT) return;
    }
}

/* Arity, then the row's own rule, then: are the outputs types at all, and do their bytes fit. */
static zt_status infer_types(zt_ctx *ctx, const zt_opinfo *info, const void *attrs, const zt_type *const in[], zt_type out[])
{
    for (int k = 0; k < info->n_in; k++) {
        if (!in[k] && k < info->def->n_required) return zt_row_fail(ctx, ZT_EUSAGE, "missing input '%s'", info->in_name[k]);
        if (in[k] && !zt_type_check(ctx, in[k], NULL)) return ZT_ESHAPE;
    }
    for (int k = 0; k < info->n_out; k++) out[k] = (zt_type){0};
    zt_status status = info->def->infer(ctx, attrs, in, out);
    for (int k = 0; k < info->n_out && !status; k++)
        if (!zt_type_check(ctx, &out[k], NULL)) status = ZT_ESHAPE;
    return status;
}

zt_status zt_op_infer(zt_ctx *ctx, zt_op op, const void *attrs, const zt_type *const in[], zt_type out[])
{
    ZT_REQUIRE(ctx, in, ZT_EUSAGE);
    const zt_opinfo *info = zt_op_info(op);
    if (!info) return zt_fail(ctx, ZT_EUSAGE, "invalid op number %d", (int)op);
    if (!attrs) attrs = info->defaults;
    zt_status status = infer_types(NULL, info, attrs, in, out);
    if (!status || !ctx) return status;
    /* The sentence is made in a context of its own, so that op and types can be put around it. */
    char types[TYPES_TEXT];
    inputs_text(info, in, types);
    zt_ctx *own = zt_ctx_new();
    if (!own) return zt_fail(ctx, ZT_ENOMEM, "op %s: out of memory (error message)", info->name);
    infer_types(own, info, attrs, in, out);
    zt_fail(ctx, status, "op %s: %s (%s)", info->name, zt_ctx_error(own), types);
    zt_ctx_free(own);
    return status;
}

/* May an op's cost be asked for: it is an op, and the types of its required inputs are there. */
static bool op_asked(zt_op op, const zt_type *const in[], const zt_type *out)
{
    const zt_opinfo *info = in && out ? zt_op_info(op) : NULL;
    for (int k = 0; info && k < info->def->n_required; k++)
        if (!in[k]) return false;
    return info != NULL;
}

double zt_op_flops(zt_op op, const void *attrs, const zt_type *const in[], const zt_type *out)
{
    if (!op_asked(op, in, out)) return 0;
    const zt_opinfo *info = zt_op_info(op);
    if (!attrs) attrs = info->defaults;
    return info->def->flops ? info->def->flops(attrs, in, out) : (double)zt_type_count(&out[0]);
}

/* zt_opdef's rule where a row has none of its own. */
static double bytes_of(const zt_opinfo *info, const zt_type *const in[], const zt_type *out)
{
    int donates = info->def->donates;
    double read = 0, written = 0;
    for (int k = donates; k < info->n_in; k++)
        if (in[k]) read += (double)zt_type_bytes(in[k]);
    for (int k = donates; k < info->n_out; k++)
        if (out[k].rank > 0) written += (double)zt_type_bytes(&out[k]);
    return read + written + (donates ? read : 0);
}

double zt_op_bytes(zt_op op, const void *attrs, const zt_type *const in[], const zt_type *out)
{
    if (!op_asked(op, in, out)) return 0;
    const zt_opinfo *info = zt_op_info(op);
    if (info->def->flags & ZT_OPF_VIEW) return 0;
    if (!info->def->bytes) return bytes_of(info, in, out);
    return info->def->bytes(attrs ? attrs : info->defaults, in, out);
}

bool zt_op_case(zt_op op, int i, zt_case *test_case)
{
    if (!test_case || !zt_op_info(op)) return false;
    const zt_opinfo *info = zt_op_info(op);
    memset(test_case, 0, sizeof *test_case);
    memcpy(test_case->attrs, info->defaults, info->attr_bytes);
    return i >= 0 && info->def->cases(i, test_case);
}
