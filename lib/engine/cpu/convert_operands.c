/* convert_operands.c - kernels for operands of types that no kernel of a family takes.
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

static size_t whole_lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static bool is_small_float(zt_dtype type)
{
    const zt_dtype_info *dtype = zt_dtype_get(type);
    return dtype->kind == 'F' && dtype->block_bytes < 4;
}

static int64_t chunks_of(const zt_type *type) { return (zt_type_count(type) + CHUNK - 1) / CHUNK; }

/* Chunk i of t: where it begins, and how many elements it has. */
static int64_t chunk_at(const zt_type *type, int64_t i, int64_t *count)
{
    int64_t left = zt_type_count(type) - i * CHUNK;
    *count = left < CHUNK ? left : CHUNK;
    return i * CHUNK;
}

/* ---- operands with a copy -------------------------------------------------------------------- */

/* One operand: the original, and its copy; `copy` NULL: it has none. */
typedef struct operand_copy {
    const zt_cpu_arg *arg;
    char *copy;
} operand_copy;

typedef struct operand_copies {
    operand_copy in[ZT_MAX_IN], out[ZT_MAX_OUT];
    size_t bytes; /* of all copies */
} operand_copies;

/* Copies lie in c->shared from `at` on; size(arg, k): bytes an element has there, 0: no copy. */
static operand_copies find_copies(const zt_cpu_call *call, size_t at, size_t (*size)(const zt_cpu_call *call, int k))
{
    operand_copies copies = {.bytes = at};
    for (int k = 0; k < ZT_MAX_IN + ZT_MAX_OUT; k++) {
        const zt_cpu_arg *arg = k < ZT_MAX_IN ? &call->in[k] : &call->out[k - ZT_MAX_IN];
        operand_copy *copy = k < ZT_MAX_IN ? &copies.in[k] : &copies.out[k - ZT_MAX_IN];
        size_t element_bytes = arg->data ? size(call, k) : 0;
        copy->arg = arg;
        if (!element_bytes) continue;
        copy->copy = (char *)call->shared + copies.bytes;
        copies.bytes += whole_lines((size_t)zt_type_count(&arg->type) * element_bytes);
    }
    return copies;
}

/* The same before there is scratch: only its size. */
static size_t copy_bytes(const zt_cpu_call *call, size_t (*size)(const zt_cpu_call *call, int k))
{
    size_t bytes = 0;
    for (int k = 0; k < ZT_MAX_IN + ZT_MAX_OUT; k++) {
        const zt_cpu_arg *arg = k < ZT_MAX_IN ? &call->in[k] : &call->out[k - ZT_MAX_IN];
        if (arg->data) bytes += whole_lines((size_t)zt_type_count(&arg->type) * size(call, k));
    }
    return bytes;
}

static int64_t copy_chunks(const zt_cpu_call *call, int from, int to, size_t (*size)(const zt_cpu_call *call, int k))
{
    int64_t count = 0;
    for (int k = from; k < to; k++) {
        const zt_cpu_arg *arg = k < ZT_MAX_IN ? &call->in[k] : &call->out[k - ZT_MAX_IN];
        if (arg->data && size(call, k)) count += chunks_of(&arg->type);
    }
    return count;
}

typedef void convert_fn(const operand_copy *w, int64_t at, int64_t n);

/* Items begin..end-1 of a list of twins: chunks of the first that has a copy, then of the next. */
static void convert_items(const operand_copy *copy, int count, int64_t begin, int64_t end, convert_fn *convert_chunk)
{
    for (int k = 0; k < count && begin < end; k++) {
        if (!copy[k].copy) continue;
        int64_t chunks = chunks_of(&copy[k].arg->type), elements;
        for (int64_t i = begin > 0 ? begin : 0; i < chunks && i < end; i++) {
            int64_t at = chunk_at(&copy[k].arg->type, i, &elements);
            convert_chunk(&copy[k], at, elements);
        }
        begin -= chunks, end -= chunks;
        if (begin < 0) begin = 0;
    }
}

static char *element_at(const zt_cpu_arg *arg, int64_t i)
{
    const zt_dtype_info *dtype = zt_dtype_get(arg->type.dtype);
    return (char *)arg->data + i / dtype->block * dtype->block_bytes;
}

/* ---- wide ------------------------------------------------------------------------------------ */

/* The types that the f32 kernel is to run with; false: nothing to widen, or the op does not allow
 * it. An input that is read in packed form stays as it is. */
bool zt_cpu_widen_types(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[], zt_type wide_in[],
                        zt_type wide_out[])
{
    const zt_opinfo *info = zt_op_info(op);
    const zt_type *types[ZT_MAX_IN] = {0};
    bool any = false;
    if (zt_op_shares(op)) return false;
    for (int k = 0; k < info->n_in; k++) {
        if (!in[k]) continue;
        wide_in[k] = *in[k];
        types[k] = &wide_in[k];
        if (!is_small_float(in[k]->dtype) || info->def->weights >> k & 1) continue;
        wide_in[k].dtype = ZT_F32;
        any = true;
    }
    if (!any || zt_op_infer(NULL, op, attrs, types, wide_out)) return false;
    for (int k = 0; k < info->n_out; k++) {
        zt_type type = out[k];
        if (is_small_float(type.dtype)) type.dtype = wide_out[k].dtype;
        if (!zt_type_equal(&type, &wide_out[k])) return false;
    }
    return true;
}

static const zt_cpu_arg *inner_arg(const zt_cpu_call *call, int k)
{
    return k < ZT_MAX_IN ? &call->inner->in[k] : &call->inner->out[k - ZT_MAX_IN];
}

static size_t wide_size(const zt_cpu_call *call, int k)
{
    const zt_cpu_arg *arg = k < ZT_MAX_IN ? &call->in[k] : &call->out[k - ZT_MAX_IN];
    return inner_arg(call, k)->type.dtype == arg->type.dtype ? 0 : sizeof(float);
}

static void wide_setup(zt_cpu_call *call)
{
    zt_cpu_call *inner = call->inner;
    inner->n_phases = 1;
    inner->kernel->setup(inner);
    call->n_phases = inner->n_phases + 2;
    call->items[0] = copy_chunks(call, 0, ZT_MAX_IN, wide_size);
    for (int phase = 0; phase < inner->n_phases; phase++) call->items[phase + 1] = inner->items[phase];
    call->items[call->n_phases - 1] = copy_chunks(call, ZT_MAX_IN, ZT_MAX_IN + ZT_MAX_OUT, wide_size);
    call->shared_bytes = whole_lines(inner->shared_bytes) + copy_bytes(call, wide_size);
    call->local_bytes = inner->local_bytes;
    call->keep_bytes = inner->keep_bytes;
}

static void wide_prime(zt_cpu_call *call)
{
    call->inner->keep = call->keep;
    if (call->inner->kernel->prime) call->inner->kernel->prime(call->inner);
}

static void decode_chunk(const operand_copy *copy, int64_t at, int64_t count)
{
    zt_dtype_get(copy->arg->type.dtype)->decode(element_at(copy->arg, at), (float *)(void *)copy->copy + at, count);
}

static void encode_chunk(const operand_copy *copy, int64_t at, int64_t count)
{
    zt_dtype_get(copy->arg->type.dtype)->encode((float *)(void *)copy->copy + at, element_at(copy->arg, at), count);
}

/* The f32 kernel on the copies. The call is this thread's own: addresses change with replays. */
static void run_inner(zt_cpu_call *call, const operand_copies *copies, int phase, int64_t begin, int64_t end, void *local)
{
    zt_cpu_call inner = *call->inner;
    for (int k = 0; k < ZT_MAX_IN; k++) inner.in[k].data = copies->in[k].copy ? copies->in[k].copy : call->in[k].data;
    for (int k = 0; k < ZT_MAX_OUT; k++) inner.out[k].data = copies->out[k].copy ? copies->out[k].copy : call->out[k].data;
    inner.shared = call->shared;
    inner.kernel->run(&inner, phase, begin, end, local);
    const zt_runtime_error *error = &inner.error;
    if (error->what) zt_cpu_runtime_error(call, error->what, error->value, error->limit);
}

static void wide_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    operand_copies copies = find_copies(call, whole_lines(call->inner->shared_bytes), wide_size);
    if (phase == 0)
        convert_items(copies.in, ZT_MAX_IN, begin, end, decode_chunk);
    else if (phase == call->n_phases - 1)
        convert_items(copies.out, ZT_MAX_OUT, begin, end, encode_chunk);
    else
        run_inner(call, &copies, phase - 1, begin, end, local);
}

const zt_cpu_kernel zt_cpu_convert_operands = {.setup = wide_setup, .run = wide_run, .prime = wide_prime};

/* ---- plain ----------------------------------------------------------------------------------- */

/* Ops whose rows know nothing of each other: the inputs with a row for each of the output's, as
 * bits, and the rank from which the first dimension counts rows. */
static const struct {
    unsigned inputs;
    int min_rank;
} by_rows[ZT_OP_COUNT] = {
    [ZT_OP_softmax] = {1, 2}, [ZT_OP_log_softmax] = {1, 2}, [ZT_OP_cumsum] = {1, 2},   [ZT_OP_argmax] = {1, 2},
    [ZT_OP_argmin] = {1, 2},  [ZT_OP_layer_norm] = {1, 2},  [ZT_OP_rms_norm] = {1, 2}, [ZT_OP_linear] = {1, 2},
};

/* Where an operand is f64, or none is a float. */
bool zt_cpu_needs_plain_loop(zt_op op, const zt_type *const in[], const zt_type out[])
{
    const zt_opinfo *info = zt_op_info(op);
    bool floats = false, wide = false;
    if (zt_op_shares(op) || info->def->flags & ZT_OPF_CALLERS) return false;
    for (int k = 0; k < info->n_in + info->n_out; k++) {
        const zt_type *type = k < info->n_in ? in[k] : &out[k - info->n_in];
        floats |= type && zt_dtype_is_float(type->dtype);
        wide |= type && type->dtype == ZT_F64;
    }
    return wide || !floats;
}

static size_t plain_size(const zt_cpu_call *call, int k)
{
    const zt_cpu_arg *arg = k < ZT_MAX_IN ? &call->in[k] : &call->out[k - ZT_MAX_IN];
    zt_dtype t = arg->type.dtype;
    return t == ZT_F64 || t == ZT_I64 || t == ZT_U64 ? 0 : 8;
}

/* The attribute `axis` of a row that has one, from the front; -1: it has none. */
static int64_t axis_attribute(const zt_cpu_call *call)
{
    const zt_opinfo *info = zt_op_info(call->op);
    for (int k = 0; k < info->n_attrs; k++) {
        int64_t axis;
        if (strcmp(info->attrs[k].name, "axis")) continue;
        memcpy(&axis, (const char *)call->attrs + info->attrs[k].offset, sizeof axis);
        return axis < 0 ? axis + call->in[0].type.rank : axis;
    }
    return -1;
}

/* Are the elements of all operands one for one, so that any piece may be done alone? */
static bool one_for_one(const zt_cpu_call *call)
{
    if (!(zt_op_info(call->op)->def->flags & ZT_OPF_ELEMENTWISE)) return false;
    for (int k = 0; k < ZT_MAX_IN; k++) {
        zt_type type = call->in[k].type;
        type.dtype = call->out[0].type.dtype;
        if (call->in[k].data && !zt_type_equal(&type, &call->out[0].type)) return false;
    }
    return true;
}

enum { AUX_ROWS, AUX_INPUTS, AUX_FLAT }; /* of aux: rows an item; inputs that have rows; flat elements */

static int64_t row_count(const zt_cpu_call *call)
{
    if (one_for_one(call)) return zt_type_count(&call->out[0].type);
    if (!by_rows[call->op].inputs || call->in[0].type.rank < by_rows[call->op].min_rank) return 1;
    return axis_attribute(call) == 0 ? 1 : call->in[0].type.dim[0];
}

static void plain_setup(zt_cpu_call *call)
{
    int64_t rows = row_count(call), count = zt_type_count(&call->in[0].type);
    int64_t row = rows > 1 ? count / rows : 1; /* elements in one */
    call->aux[AUX_FLAT] = one_for_one(call);
    call->aux[AUX_INPUTS] = call->aux[AUX_FLAT] ? (1 << ZT_MAX_IN) - 1 : by_rows[call->op].inputs;
    call->aux[AUX_ROWS] = rows > 1 && row < CHUNK ? CHUNK / (row > 0 ? row : 1) : 1;
    call->n_phases = 3;
    call->items[0] = copy_chunks(call, 0, ZT_MAX_IN, plain_size);
    call->items[1] = rows > 1 ? (rows + call->aux[AUX_ROWS] - 1) / call->aux[AUX_ROWS] : 1;
    call->items[2] = copy_chunks(call, ZT_MAX_IN, ZT_MAX_IN + ZT_MAX_OUT, plain_size);
    call->shared_bytes = copy_bytes(call, plain_size);
}

static void widen_chunk(const operand_copy *copy, int64_t at, int64_t count)
{
    zt_widen(copy->arg->type.dtype, element_at(copy->arg, at), copy->copy + 8 * at, count);
}

static void narrow_chunk(const operand_copy *copy, int64_t at, int64_t count)
{
    zt_narrow(copy->arg->type.dtype, copy->copy + 8 * at, element_at(copy->arg, at), count);
}

/* What the reference loop gets: rows first..first+n-1 of an operand that has rows, else all. */
static zt_arg rows_arg(const operand_copy *copy, bool flat, bool has_rows, int64_t first, int64_t rows, zt_type *type)
{
    const zt_cpu_arg *arg = copy->arg;
    if (!arg->data) return (zt_arg){0};
    char *data = copy->copy ? copy->copy : arg->data;
    *type = flat ? zt_type_make(arg->type.dtype, 1, (int64_t[]){rows}) : arg->type;
    if (has_rows && !flat) type->dim[0] = rows;
    if (has_rows) data += 8 * first * (flat || rows == 0 ? 1 : zt_type_count(type) / rows);
    bool floats = zt_dtype_is_float(arg->type.dtype);
    return (zt_arg){.type = type, .f = floats ? (double *)(void *)data : NULL, .i = floats ? NULL : (int64_t *)(void *)data};
}

static void run_rows(zt_cpu_call *call, const operand_copies *copies, int64_t first, int64_t rows, bool all)
{
    zt_type type[ZT_MAX_IN + ZT_MAX_OUT];
    zt_arg in[ZT_MAX_IN], out[ZT_MAX_OUT];
    zt_runtime_error error = {0};
    bool flat = call->aux[AUX_FLAT];
    for (int k = 0; k < ZT_MAX_IN; k++)
        in[k] = rows_arg(&copies->in[k], flat, !all && call->aux[AUX_INPUTS] >> k & 1, first, rows, &type[k]);
    for (int k = 0; k < ZT_MAX_OUT; k++) out[k] = rows_arg(&copies->out[k], flat, !all, first, rows, &type[ZT_MAX_IN + k]);
    zt_op_info(call->op)->def->ref(call->attrs, in, out, &error);
    if (error.what) zt_cpu_runtime_error(call, error.what, error.value, error.limit);
}

static void plain_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    operand_copies copies = find_copies(call, 0, plain_size);
    (void)local;
    if (phase == 0) convert_items(copies.in, ZT_MAX_IN, begin, end, widen_chunk);
    if (phase == 2) convert_items(copies.out, ZT_MAX_OUT, begin, end, narrow_chunk);
    if (phase != 1) return;
    int64_t rows = row_count(call), rows_per_item = call->aux[AUX_ROWS];
    if (rows <= 1) {
        run_rows(call, &copies, 0, call->aux[AUX_FLAT] ? rows : 0, !call->aux[AUX_FLAT]);
        return;
    }
    int64_t first = begin * rows_per_item, last = end * rows_per_item < rows ? end * rows_per_item : rows;
    run_rows(call, &copies, first, last - first, false);
}

const zt_cpu_kernel zt_cpu_plain_loop = {.setup = plain_setup, .run = plain_run};
