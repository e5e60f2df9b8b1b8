/* mkops.c - prints zt-ops(7) from the table of ops; with --list the contract: one fact a line.
 *
 *   mkops >zt-ops.7        mkops --list | LC_ALL=C sort
 *
 * The facts are what programs are written against: a row's name, the place and name of each input and
 * output, whether an input may be absent, each attribute's kind and default; and the old name of an op that
 * was renamed, with the same facts. tests/ops/contract.txt holds those that have been promised.
 */
#include "lib/engine/engine.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_name[] = {
    [ZT_ATTR_i64] = "i64",   [ZT_ATTR_f64] = "f64", [ZT_ATTR_word] = "word", [ZT_ATTR_dims] = "dims",
    [ZT_ATTR_ints] = "ints", [ZT_ATTR_str] = "str", [ZT_ATTR_func] = "func",
};

/* ---- values ---------------------------------------------------------------------------------- */

static void put_list(const int64_t *v, int64_t n)
{
    putchar('[');
    for (int64_t i = 0; i < n; i++) printf("%s%lld", i ? "," : "", (long long)v[i]);
    putchar(']');
}

static void put_default(zt_ctx *ctx, const zt_opinfo *info, const zt_attrdef *a)
{
    const char *field = (const char *)info->defaults + a->offset;
    zt_str s;
    double d;
    int64_t i;
    zt_ints list; /* zt_dims has the same layout */
    switch (a->kind) {
    case ZT_ATTR_i64: memcpy(&i, field, sizeof i), printf("%lld", (long long)i); break;
    case ZT_ATTR_f64:
        zt_str_init(&s, ctx);
        memcpy(&d, field, sizeof d);
        if (zt_str_put_double(&s, d) == ZT_OK) fputs(s.data, stdout);
        zt_str_fini(&s);
        break;
    case ZT_ATTR_word: fputs(field, stdout); break;
    case ZT_ATTR_dims:
    case ZT_ATTR_ints: memcpy(&list, field, sizeof list), put_list(list.v, list.n); break;
    case ZT_ATTR_str:
    case ZT_ATTR_func: fputs("none", stdout); break;
    }
}

/* ---- the contract ---------------------------------------------------------------------------- */

/* The facts of an op by one of its names. */
static void list_op(zt_ctx *ctx, const zt_opinfo *info, const char *name)
{
    for (int k = 0; k < info->n_in; k++)
        printf("%s in %d %s%s\n", name, k + 1, info->in_name[k], k < info->def->n_required ? "" : " optional");
    for (int k = 0; k < info->n_out; k++) printf("%s out %d %s\n", name, k + 1, info->out_name[k]);
    for (int k = 0; k < info->n_attrs; k++) {
        printf("%s attr %s %s ", name, info->attrs[k].name, kind_name[info->attrs[k].kind]);
        put_default(ctx, info, &info->attrs[k]);
        putchar('\n');
    }
}

/* ---- which types ----------------------------------------------------------------------------- */

/* Does the row take some case of it with input 0's dtype, wherever that stands, replaced by t; and
 * has the engine a kernel for that? */
static void probe(zt_engine *e, zt_op op, zt_dtype t, bool *taken, bool *kernel)
{
    zt_case c;
    *taken = *kernel = false;
    for (int i = 0; zt_op_case(op, i, &c) && !*kernel; i++) {
        const zt_type *in[ZT_MAX_IN] = {0};
        zt_type out[ZT_MAX_OUT];
        zt_dtype was = c.in[0].dtype;
        for (int k = 0; k < zt_op_info(op)->n_in; k++) {
            if (c.fill[k] == ZT_FILL_ABSENT) continue;
            if (c.in[k].dtype == was) c.in[k].dtype = t;
            in[k] = &c.in[k];
        }
        if (zt_op_infer(NULL, op, c.attrs, in, out)) continue;
        *taken = true;
        *kernel = e->vt->has(e, op, c.attrs, in, out);
    }
}

static void put_types(zt_engine *cpu, zt_op op)
{
    int n_taken = 0, n_more = 0;
    zt_dtype more[ZT_DTYPE_COUNT];
    printf("Types of\n.Ar %s :\n", zt_op_info(op)->in_name[0]);
    for (int t = 0; t < ZT_DTYPE_COUNT; t++) {
        bool taken, kernel;
        probe(cpu, op, (zt_dtype)t, &taken, &kernel);
        if (taken && !kernel) more[n_more++] = (zt_dtype)t;
        if (kernel) printf("%s%s", n_taken++ ? " " : "", zt_dtype_get((zt_dtype)t)->name);
    }
    for (int i = 0; i < n_more; i++)
        printf("%s%s", i ? " " : n_taken ? "; on ref only " : "on ref only ", zt_dtype_get(more[i])->name);
    puts(".");
}

/* ---- the page -------------------------------------------------------------------------------- */

static const char head[] =
    ".Dd November 26, 2026\n"
    ".Dt ZT-OPS 7\n"
    ".Os\n"
    ".Sh NAME\n"
    ".Nm zt-ops\n"
    ".Nd operations of zt programs\n"
    ".Sh DESCRIPTION\n"
    "A program is a list of operations (ops) on tensors, one a line:\n"
    ".Bd -literal -offset indent\n"
    "y, rstd = rms_norm x g eps=1e-06\n"
    ".Ed\n"
    ".Pp\n"
    "Outputs are before the equals sign; inputs and then attributes follow the name.\n"
    "Inputs in brackets may be absent; an absent input before another is written\n"
    ".Ql _ .\n"
    "Omitted attributes have the default shown here.\n"
    "In C each op is a function,\n"
    ".Fn zt_eager_rms_norm run x g attrs rstd ,\n"
    "and for building a program\n"
    ".Fn zt_program_rms_norm .\n"
    ".Pp\n"
    "Kinds of attributes: i64 is an integer, f64 a number, word a keyword, dims a list of dimensions,\n"
    "ints a list of integers, str a string, func the name of a custom function.\n"
    ".Pp\n"
    "Shapes are row-major.\n"
    "A negative axis counts from the last; an empty list of axes means all of them.\n"
    "Broadcasting aligns shapes at their last dimensions and repeats dimensions of 1.\n"
    "For squeezing and unsqueezing use\n"
    ".Ic reshape ,\n"
    "for splitting\n"
    ".Ic slice .\n"
    ".Pp\n"
    "A gradient is either implemented by the op, or derived by expansion into simpler ops.\n"
    "The types listed are those of the first input, and of other inputs of that type, for which the cpu engine\n"
    "has a kernel;\n"
    "the reference engine (ref) runs every op in f64.\n"
    ".Sh CONTRACT\n"
    "Ops are never removed; a renamed op is still accepted by its old name.\n"
    "The names, order and presence of inputs and outputs, the names, kinds and defaults of\n"
    "attributes, and their meaning do not change: a new meaning is a new op, or a new attribute\n"
    "whose default keeps the old one.\n"
    "There is one op for each meaning.\n"
    "A result with a given destination\n"
    ".Pq Fn zt_run_into\n"
    "must have the type of that destination, whose previous content is not read.\n"
    "Each change of behaviour has a decision record in\n"
    ".Pa docs/decisions .\n"
    ".Sh OPS\n"
    ".Bl -tag -width Ds\n";

static const char tail[] = ".El\n"
                           ".Sh SEE ALSO\n"
                           ".Xr zt-bench 1 ,\n"
                           ".Xr zt-run 1 ,\n"
                           ".Xr zt-trace 1 ,\n"
                           ".Xr zt-program 5 ,\n"
                           ".Xr zt 7\n";

/* Text of a row: a sentence begins a line; a line cannot begin with a dot or a quote, and a backslash
 * is written \\e. */
static void put_text(const char *s)
{
    for (bool first = true; *s; s++) {
        if (first && (*s == '.' || *s == '\'')) fputs("\\&", stdout);
        first = s[0] == '.' && s[1] == ' ';
        if (*s == '\\')
            fputs("\\e", stdout);
        else
            putchar(*s);
        if (!first) continue;
        putchar('\n');
        s++;
    }
    putchar('\n');
}

static void put_item(zt_ctx *ctx, const zt_opinfo *info)
{
    fputs(".It Xo\n", stdout);
    for (int k = 0; k < info->n_out; k++) printf(".Ar %s%s\n", info->out_name[k], k + 1 < info->n_out ? " ," : "");
    printf("=\n.Ic %s\n", info->name);
    for (int k = 0; k < info->n_in; k++) printf(k < info->def->n_required ? ".Ar %s\n" : ".Op Ar %s\n", info->in_name[k]);
    for (int k = 0; k < info->n_attrs; k++) {
        printf(".Op Cm %s Ns = Ns ", info->attrs[k].name);
        put_default(ctx, info, &info->attrs[k]);
        putchar('\n');
    }
    fputs(".Xc\n", stdout);
}

static void put_attrs(const zt_opinfo *info)
{
    if (info->n_attrs == 0) return;
    fputs("Attributes:\n", stdout);
    for (int k = 0; k < info->n_attrs; k++)
        printf(".Cm %s\n%s%s\n", info->attrs[k].name, kind_name[info->attrs[k].kind], k + 1 < info->n_attrs ? "," : ".");
}

static void put_nature(zt_op op, const zt_opinfo *info)
{
    static const struct {
        unsigned flag;
        const char *text;
    } flags[] = {
        {ZT_OPF_ELEMENTWISE, "elementwise"},
        {ZT_OPF_COMMUTATIVE, "commutative"},
        {ZT_OPF_VIEW, "a view: no copy"},
        {ZT_OPF_INPLACE, "may work in place"},
        {ZT_OPF_RANDOM, "random"},
        {ZT_OPF_SAME, "bit-exact with its expansion"},
        {ZT_OPF_CALLERS, "runs undivided, in the caller's thread"},
    };
    const zt_opdef *d = info->def;
    printf("Gradient: %s", d->vjp ? "yes" : zt_op_has_gradient(op) ? "by expansion" : "none");
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (d->flags & flags[i].flag) printf("; %s", flags[i].text);
    if (d->donates) printf("; consumes %s", info->in_name[0]);
    for (int k = 1; k < d->donates; k++) printf(" and %s", info->in_name[k]);
    for (int k = 0, n = 0; k < info->n_in; k++)
        if (d->weights >> k & 1) printf("%s %s", n++ ? "," : "; may be of a block type:", info->in_name[k]);
    puts(".");
}

static void put_op(zt_ctx *ctx, zt_engine *cpu, zt_op op)
{
    const zt_opinfo *info = zt_op_info(op);
    put_item(ctx, info);
    put_text(info->def->synopsis);
    if (zt_op_old_name(op)) printf("Former name:\n.Ic %s ,\nwhich is still accepted.\n", zt_op_old_name(op));
    fputs(".Pp\n", stdout);
    put_attrs(info);
    put_nature(op, info);
    put_types(cpu, op);
}

/* The next op by name after `last` (NULL: the first), or NULL. */
static const zt_opinfo *next_op(const char *last, zt_op *op)
{
    const zt_opinfo *best = NULL;
    for (int i = 0; i < ZT_OP_COUNT; i++) {
        const zt_opinfo *info = zt_op_info((zt_op)i);
        if (last && strcmp(info->name, last) <= 0) continue;
        if (best && strcmp(info->name, best->name) > 0) continue;
        best = info;
        *op = (zt_op)i;
    }
    return best;
}

int main(int argc, char **argv)
{
    bool list = argc == 2 && !strcmp(argv[1], "--list");
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *cpu = ctx ? zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1}) : NULL;
    zt_op op = (zt_op)0;
    if (!cpu) return 1;
    if (!list) fputs(head, stdout);
    for (const zt_opinfo *i = next_op(NULL, &op); i; i = next_op(i->name, &op)) {
        const char *old_name = zt_op_old_name(op);
        if (list && old_name) {
            printf("%s renamed %s\n", old_name, i->name);
            list_op(ctx, i, old_name);
        }
        if (list)
            list_op(ctx, i, i->name);
        else
            put_op(ctx, cpu, op);
    }
    if (!list) fputs(tail, stdout);
    zt_engine_close(cpu);
    zt_ctx_free(ctx);
    return fflush(stdout) ? 1 : 0;
}
