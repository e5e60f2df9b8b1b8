/* convert_operands.c - kernels for operands that no kernel of a family takes as they are.
 *
 *   wide    floats of 16 bits and less: to f32, then the f32 kernel, then back. Every value is
 *           rounded once, at the end.
 *   plain   f64 (with whatever else) and integers: the row's own reference loop, for which what has
 *           64 bits needs no copy; by rows where the op has rows, else as one item.
 *
 * Both hold copies of operands in the call's shared scratch, one after the other, each on a line of
 * its own. Phase 0 fills those of the inputs, the last phase writes the outputs.
 */
#include "lib/engine/cpu/cpu_engine.h"
#include "lib/engine/convert.h"

#include <string.h>

enum { LINE = 64, CHUNK = 4096 /* elements converted at a time; a multiple of every block */ };

static size_t lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static bool is_small_float(zt_dtype t)
{
    const zt_dtype_info *d = zt_dtype_get(t);
    return d->kind == 'F' && d->block_bytes < 4;
}

static int64_t chunks_of(const zt_type *t) { return (zt_type_count(t) + CHUNK - 1) / CHUNK; }

/* Chunk i of t: where it begins, and how many elements it has. */
static int64_t chunk_at(const zt_type *t, int64_t i, int64_t *n)
{
    int64_t left = zt_type_count(t) - i * CHUNK;
    *n = left < CHUNK ? left : CHUNK;
    return i * CHUNK;
}

/* ---- operands with a copy -------------------------------------------------------------------- */

/* One operand: the original, and its copy; `copy` NULL: it has none. */
typedef struct twin {
    const zt_cpu_arg *arg;
    char *copy;
} twin;

typedef struct twins {
    twin in[ZT_MAX_IN], out[ZT_MAX_OUT];
    size_t bytes; /* of all copies */
} twins;

/* Copies lie in c->shared from `at` on; size(arg, k): bytes an element has there, 0: no copy. */
static twins find_twins(const zt_cpu_call *c, size_t at,
                        size_t (*size)(const zt_cpu_call *c, int k))
{
    twins t = {.bytes = at};
    for (int k = 0; k < ZT_MAX_IN + ZT_MAX_OUT; k++) {
        const zt_cpu_arg *a = k < ZT_MAX_IN ? &c->in[k] : &c->out[k - ZT_MAX_IN];
        twin *w = k < ZT_MAX_IN ? &t.in[k] : &t.out[k - ZT_MAX_IN];
        size_t each = a->data ? size(c, k) : 0;
        w->arg = a;
        if (!each) continue;
        w->copy = (char *)c->shared + t.bytes;
        t.bytes += lines((size_t)zt_type_count(&a->type) * each);
    }
    return t;
}

/* The same before there is scratch: only its size. */
static size_t twin_bytes(const zt_cpu_call *c, size_t (*size)(const zt_cpu_call *c, int k))
{
    size_t bytes = 0;
    for (int k = 0; k < ZT_MAX_IN + ZT_MAX_OUT; k++) {
        const zt_cpu_arg *a = k < ZT_MAX_IN ? &c->in[k] : &c->out[k - ZT_MAX_IN];
        if (a->data) bytes += lines((size_t)zt_type_count(&a->type) * size(c, k));
    }
    return bytes;
}

static int64_t twin_chunks(const zt_cpu_call *c, int from, int to,
                           size_t (*size)(const zt_cpu_call *c, int k))
{
    int64_t n = 0;
    for (int k = from; k < to; k++) {
        const zt_cpu_arg *a = k < ZT_MAX_IN ? &c->in[k] : &c->out[k - ZT_MAX_IN];
        if (a->data && size(c, k)) n += chunks_of(&a->type);
    }
    return n;
}

typedef void convert(const twin *w, int64_t at, int64_t n);

/* Items begin..end-1 of a list of twins: chunks of the first that has a copy, then of the next. */
static void convert_items(const twin *w, int n_twins, int64_t begin, int64_t end, convert *f)
{
    for (int k = 0; k < n_twins && begin < end; k++) {
        if (!w[k].copy) continue;
        int64_t chunks = chunks_of(&w[k].arg->type), n;
        for (int64_t i = begin > 0 ? begin : 0; i < chunks && i < end; i++) {
            int64_t at = chunk_at(&w[k].arg->type, i, &n);
            f(&w[k], at, n);
        }
        begin -= chunks, end -= chunks;
        if (begin < 0) begin = 0;
    }
}

static char *element(const zt_cpu_arg *a, int64_t i)
{
    const zt_dtype_info *d = zt_dtype_get(a->type.dtype);
    return (char *)a->data + i / d->block * d->block_bytes;
}

/* ---- wide ------------------------------------------------------------------------------------ */

/* The types that the f32 kernel is to run with; false: nothing to widen, or the op does not allow
 * it. An input that is read in packed form stays as it is. */
bool zt_cpu_widened(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[],
                    zt_type wide_in[], zt_type wide_out[])
{
    const zt_opinfo *info = zt_op_info(op);
    const zt_type *with[ZT_MAX_IN] = {0};
    bool any = false;
    if (zt_op_shares(op)) return false;
    for (int k = 0; k < info->n_in; k++) {
        if (!in[k]) continue;
        wide_in[k] = *in[k];
        with[k] = &wide_in[k];
        if (!is_small_float(in[k]->dtype) || info->def->weights >> k & 1) continue;
        wide_in[k].dtype = ZT_F32;
        any = true;
    }
    if (!any || zt_op_infer(NULL, op, attrs, with, wide_out)) return false;
    for (int k = 0; k < info->n_out; k++) {
        zt_type t = out[k];
        if (is_small_float(t.dtype)) t.dtype = wide_out[k].dtype;
        if (!zt_type_equal(&t, &wide_out[k])) return false;
    }
    return true;
}

static const zt_cpu_arg *inner_arg(const zt_cpu_call *c, int k)
{
    return k < ZT_MAX_IN ? &c->inner->in[k] : &c->inner->out[k - ZT_MAX_IN];
}

static size_t wide_size(const zt_cpu_call *c, int k)
{
    const zt_cpu_arg *a = k < ZT_MAX_IN ? &c->in[k] : &c->out[k - ZT_MAX_IN];
    return inner_arg(c, k)->type.dtype == a->type.dtype ? 0 : sizeof(float);
}

static void wide_setup(zt_cpu_call *c)
{
    zt_cpu_call *inner = c->inner;
    inner->n_phases = 1;
    inner->kernel->setup(inner);
    c->n_phases = inner->n_phases + 2;
    c->items[0] = twin_chunks(c, 0, ZT_MAX_IN, wide_size);
    for (int p = 0; p < inner->n_phases; p++) c->items[p + 1] = inner->items[p];
    c->items[c->n_phases - 1] = twin_chunks(c, ZT_MAX_IN, ZT_MAX_IN + ZT_MAX_OUT, wide_size);
    c->shared_bytes = lines(inner->shared_bytes) + twin_bytes(c, wide_size);
    c->local_bytes = inner->local_bytes;
    c->keep_bytes = inner->keep_bytes;
}

static void wide_prime(zt_cpu_call *c)
{
    c->inner->keep = c->keep;
    if (c->inner->kernel->prime) c->inner->kernel->prime(c->inner);
}

static void decode(const twin *w, int64_t at, int64_t n)
{
    zt_dtype_get(w->arg->type.dtype)->decode(element(w->arg, at), (float *)(void *)w->copy + at, n);
}

static void encode(const twin *w, int64_t at, int64_t n)
{
    zt_dtype_get(w->arg->type.dtype)->encode((float *)(void *)w->copy + at, element(w->arg, at), n);
}

/* The f32 kernel on the copies. The call is this thread's own: addresses change with replays. */
static void run_inner(zt_cpu_call *c, const twins *t, int phase, int64_t begin, int64_t end,
                      void *local)
{
    zt_cpu_call inner = *c->inner;
    for (int k = 0; k < ZT_MAX_IN; k++)
        inner.in[k].data = t->in[k].copy ? t->in[k].copy : c->in[k].data;
    for (int k = 0; k < ZT_MAX_OUT; k++)
        inner.out[k].data = t->out[k].copy ? t->out[k].copy : c->out[k].data;
    inner.shared = c->shared;
    inner.kernel->run(&inner, phase, begin, end, local);
    const zt_runtime_error *bad = &inner.trouble;
    if (bad->what) zt_cpu_runtime_error(c, bad->what, bad->value, bad->limit);
}

static void wide_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    twins t = find_twins(c, lines(c->inner->shared_bytes), wide_size);
    if (phase == 0)
        convert_items(t.in, ZT_MAX_IN, begin, end, decode);
    else if (phase == c->n_phases - 1)
        convert_items(t.out, ZT_MAX_OUT, begin, end, encode);
    else
        run_inner(c, &t, phase - 1, begin, end, local);
}

const zt_cpu_kernel zt_cpu_convert_operands = {.setup = wide_setup, .run = wide_run, .prime = wide_prime};

/* ---- plain ----------------------------------------------------------------------------------- */

/* Ops whose rows know nothing of each other: the inputs with a row for each of the output's, as
 * bits, and the rank from which the first dimension counts rows. */
static const struct {
    unsigned inputs;
    int min_rank;
} by_rows[ZT_OP_COUNT] = {
    [ZT_OP_softmax] = {1, 2}, [ZT_OP_log_softmax] = {1, 2}, [ZT_OP_cumsum] = {1, 2},
    [ZT_OP_argmax] = {1, 2},  [ZT_OP_argmin] = {1, 2},      [ZT_OP_layer_norm] = {1, 2},
    [ZT_OP_rms_norm] = {1, 2}, [ZT_OP_linear] = {1, 2},
};

/* Where an operand is f64, or none is a float. */
bool zt_cpu_is_plain(zt_op op, const zt_type *const in[], const zt_type out[])
{
    const zt_opinfo *info = zt_op_info(op);
    bool floats = false, wide = false;
    if (zt_op_shares(op) || info->def->flags & ZT_OPF_CALLERS) return false;
    for (int k = 0; k < info->n_in + info->n_out; k++) {
        const zt_type *t = k < info->n_in ? in[k] : &out[k - info->n_in];
        floats |= t && zt_dtype_is_float(t->dtype);
        wide |= t && t->dtype == ZT_F64;
    }
    return wide || !floats;
}

static size_t plain_size(const zt_cpu_call *c, int k)
{
    const zt_cpu_arg *a = k < ZT_MAX_IN ? &c->in[k] : &c->out[k - ZT_MAX_IN];
    zt_dtype t = a->type.dtype;
    return t == ZT_F64 || t == ZT_I64 || t == ZT_U64 ? 0 : 8;
}

/* The attribute `axis` of a row that has one, from the front; -1: it has none. */
static int64_t axis_of(const zt_cpu_call *c)
{
    const zt_opinfo *info = zt_op_info(c->op);
    for (int k = 0; k < info->n_attrs; k++) {
        int64_t axis;
        if (strcmp(info->attrs[k].name, "axis")) continue;
        memcpy(&axis, (const char *)c->attrs + info->attrs[k].offset, sizeof axis);
        return axis < 0 ? axis + c->in[0].type.rank : axis;
    }
    return -1;
}

/* Are the elements of all operands one for one, so that any piece may be done alone? */
static bool one_for_one(const zt_cpu_call *c)
{
    if (!(zt_op_info(c->op)->def->flags & ZT_OPF_ELEMENTWISE)) return false;
    for (int k = 0; k < ZT_MAX_IN; k++) {
        zt_type t = c->in[k].type;
        t.dtype = c->out[0].type.dtype;
        if (c->in[k].data && !zt_type_equal(&t, &c->out[0].type)) return false;
    }
    return true;
}

enum { A_ROWS, A_INPUTS, A_FLAT }; /* of aux: rows an item; inputs that have rows; flat elements */

static int64_t rows_of(const zt_cpu_call *c)
{
    if (one_for_one(c)) return zt_type_count(&c->out[0].type);
    if (!by_rows[c->op].inputs || c->in[0].type.rank < by_rows[c->op].min_rank) return 1;
    return axis_of(c) == 0 ? 1 : c->in[0].type.dim[0];
}

static void plain_setup(zt_cpu_call *c)
{
    int64_t rows = rows_of(c), count = zt_type_count(&c->in[0].type);
    int64_t row = rows > 1 ? count / rows : 1; /* elements in one */
    c->aux[A_FLAT] = one_for_one(c);
    c->aux[A_INPUTS] = c->aux[A_FLAT] ? (1 << ZT_MAX_IN) - 1 : by_rows[c->op].inputs;
    c->aux[A_ROWS] = rows > 1 && row < CHUNK ? CHUNK / (row > 0 ? row : 1) : 1;
    c->n_phases = 3;
    c->items[0] = twin_chunks(c, 0, ZT_MAX_IN, plain_size);
    c->items[1] = rows > 1 ? (rows + c->aux[A_ROWS] - 1) / c->aux[A_ROWS] : 1;
    c->items[2] = twin_chunks(c, ZT_MAX_IN, ZT_MAX_IN + ZT_MAX_OUT, plain_size);
    c->shared_bytes = twin_bytes(c, plain_size);
}

static void widen(const twin *w, int64_t at, int64_t n)
{
    zt_widen(w->arg->type.dtype, element(w->arg, at), w->copy + 8 * at, n);
}

static void narrow(const twin *w, int64_t at, int64_t n)
{
    zt_narrow(w->arg->type.dtype, w->copy + 8 * at, element(w->arg, at), n);
}

/* What the reference loop gets: rows first..first+n-1 of an operand that has rows, else all. */
static zt_arg rows_arg(const twin *w, bool flat, bool has_rows, int64_t first, int64_t n,
                       zt_type *type)
{
    const zt_cpu_arg *a = w->arg;
    if (!a->data) return (zt_arg){0};
    char *data = w->copy ? w->copy : a->data;
    *type = flat ? zt_type_make(a->type.dtype, 1, (int64_t[]){n}) : a->type;
    if (has_rows && !flat) type->dim[0] = n;
    if (has_rows) data += 8 * first * (flat || n == 0 ? 1 : zt_type_count(type) / n);
    bool floats = zt_dtype_is_float(a->type.dtype);
    return (zt_arg){.type = type,
                    .f = floats ? (double *)(void *)data : NULL,
                    .i = floats ? NULL : (int64_t *)(void *)data};
}

static void run_rows(zt_cpu_call *c, const twins *t, int64_t first, int64_t n, bool all)
{
    zt_type type[ZT_MAX_IN + ZT_MAX_OUT];
    zt_arg in[ZT_MAX_IN], out[ZT_MAX_OUT];
    zt_runtime_error bad = {0};
    bool flat = c->aux[A_FLAT];
    for (int k = 0; k < ZT_MAX_IN; k++)
        in[k] = rows_arg(&t->in[k], flat, !all && c->aux[A_INPUTS] >> k & 1, first, n, &type[k]);
    for (int k = 0; k < ZT_MAX_OUT; k++)
        out[k] = rows_arg(&t->out[k], flat, !all, first, n, &type[ZT_MAX_IN + k]);
    zt_op_info(c->op)->def->ref(c->attrs, in, out, &bad);
    if (bad.what) zt_cpu_runtime_error(c, bad.what, bad.value, bad.limit);
}

static void plain_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    twins t = find_twins(c, 0, plain_size);
    (void)local;
    if (phase == 0) convert_items(t.in, ZT_MAX_IN, begin, end, widen);
    if (phase == 2) convert_items(t.out, ZT_MAX_OUT, begin, end, narrow);
    if (phase != 1) return;
    int64_t rows = rows_of(c), each = c->aux[A_ROWS];
    if (rows <= 1) {
        run_rows(c, &t, 0, c->aux[A_FLAT] ? rows : 0, !c->aux[A_FLAT]);
        return;
    }
    int64_t first = begin * each, last = end * each < rows ? end * each : rows;
    run_rows(c, &t, first, last - first, false);
}

const zt_cpu_kernel zt_cpu_plain_loop = {.setup = plain_setup, .run = plain_run};
