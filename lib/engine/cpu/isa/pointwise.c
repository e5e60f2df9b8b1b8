/* pointwise.c - kernel of a chain of elementwise ops: one pass over memory.
 *
 * An item is a tile of the output. The chain's ops run on it one after the other, by the kernels
 * that run them alone, so that the bits are theirs; what lies between them stays in a tile of the
 * thread's own, which the first level of cache holds.
 */
#include "lib/engine/cpu/isa/broadcast.h"
#include "lib/ops/pointwise.h"

#include <string.h>

enum {
    TILE = 2 * CHUNK,
    SLOT = TILE * 8, /* bytes: of the widest type */
    VALUES = ZT_POINTWISE_VALUES
};

static const zt_cpu_kernel *const families[] = {ZT_SYM(zt_cpu_elementwise_unary),   ZT_SYM(zt_cpu_elementwise_binary),
                                                ZT_SYM(zt_cpu_elementwise_compare), ZT_SYM(zt_cpu_elementwise_logic),
                                                ZT_SYM(zt_cpu_elementwise_bits),    ZT_SYM(zt_cpu_elementwise_cast)};

/* Where the elements of an input are that is not of the output's shape. */
typedef struct spreading {
    bool needed;
    int64_t cols, step; /* runs of the output's elements, over which it moves by 1 or 0 */
    int lead;           /* dimensions of the output before them */
} spreading;

/* What a prepared chain is. */
typedef struct chain {
    zt_pointwise_chain p;
    const zt_cpu_kernel *kernel[ZT_POINTWISE_OPS]; /* NULL: the row's own loop, on 8 bytes each */
    zt_type type[VALUES], whole;
    spreading spread[ZT_POINTWISE_INS];
    int slot[VALUES]; /* its tile; -1: it lies in an operand of the call */
    int last[VALUES]; /* the op that reads it last; n_ops: it is an output */
    int n_slots;
} chain;

/* ---- which kernels --------------------------------------------------------------------------- */

static bool wide_type(const zt_type *type) { return type->dtype == ZT_F64 || type->dtype == ZT_I64 || type->dtype == ZT_U64; }

/* The kernel that runs op i alone; *plain where that is the row's loop without copies. */
static const zt_cpu_kernel *kernel_of(const chain *k, int i, bool *plain)
{
    const zt_pointwise_op *o = &k->p.op[i];
    const zt_type *in[ZT_MAX_IN] = {0}, *out = &k->type[ZT_POINTWISE_INS + i];
    *plain = wide_type(out);
    for (int v = 0; v < 3; v++) {
        if (o->in[v] < 0) continue;
        in[v] = &k->type[o->in[v]];
        *plain = *plain && wide_type(in[v]);
    }
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
        for (const zt_cpu_kernel *own = families[f]; own->run; own++)
            if (own->op == o->op && (!own->has || own->has(o->attrs, in, out))) return own;
    return NULL;
}

/* Parsed, typed and with kernels; false where one has none. */
static bool understand(chain *k, const void *attrs, const zt_type *const in[])
{
    const zt_pointwise_attrs *pointwise = attrs;
    if (zt_pointwise_parse(NULL, pointwise->chain, &k->p) || zt_pointwise_types(NULL, &k->p, in, k->type, &k->whole))
        return false;
    for (int i = 0; i < k->p.n_ops; i++) {
        bool plain;
        k->kernel[i] = kernel_of(k, i, &plain);
        if (!k->kernel[i] && !plain) return false;
    }
    return true;
}

static bool chain_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    chain k;
    (void)out;
    return understand(&k, attrs, in);
}

/* ---- where values are ------------------------------------------------------------------------ */

static void set_spreading(chain *k, int v)
{
    const zt_type *type = &k->type[v], *y = &k->whole;
    spreading *s = &k->spread[v];
    zt_type same = *type;
    same.dtype = y->dtype;
    s->needed = !zt_type_equal(&same, y);
    s->lead = y->rank;
    s->cols = 1;
    s->step = !(y->rank && repeats(type, y, y->rank - 1));
    while (s->lead && repeats(type, y, s->lead - 1) == !s->step) s->cols *= y->dim[--s->lead];
}

static int free_slot(chain *k, const bool *taken)
{
    int s = 0;
    while (s < k->n_slots && taken[s]) s++;
    if (s == k->n_slots) k->n_slots++;
    return s;
}

static void take(chain *k, int v, int slot, bool *taken)
{
    k->slot[v] = slot;
    taken[slot] = true;
}

/* An operand that ends with op i, whose tile the result may take. */
static int dying_operand(const chain *k, int i)
{
    const zt_pointwise_op *o = &k->p.op[i];
    if (!(zt_op_info(o->op)->def->flags & ZT_OPF_INPLACE)) return -1;
    for (int n = 0; n < 3; n++) {
        int v = o->in[n];
        if (v >= ZT_POINTWISE_INS && k->last[v] == i && k->type[v].dtype == k->type[ZT_POINTWISE_INS + i].dtype) return v;
    }
    return -1;
}

/* Does the last op's value go where the output is? Not past the caches; and outputs may lie over
 * inputs, which the op then must bear. */
static bool goes_direct(const chain *k, const zt_cpu_call *call)
{
    const zt_cpu_arg *y = &call->out[k->p.n_out - 1];
    unsigned flags = zt_op_info(k->p.op[k->p.n_ops - 1].op)->def->flags;
    return y->data && !beyond_caches(&y->type) && flags & ZT_OPF_INPLACE;
}

static void set_slots(chain *k, const zt_cpu_call *call)
{
    bool taken[VALUES] = {false};
    const zt_pointwise_chain *p = &k->p;
    for (int v = 0; v < VALUES; v++) k->last[v] = k->slot[v] = -1;
    for (int i = 0; i < p->n_ops; i++)
        for (int n = 0; n < 3; n++)
            if (p->op[i].in[n] >= 0) k->last[p->op[i].in[n]] = i;
    for (int o = 0; o < p->n_out; o++) k->last[p->out[o]] = p->n_ops;
    for (int v = 0; v < ZT_POINTWISE_INS; v++)
        if (p->inputs >> v & 1 && k->spread[v].needed) take(k, v, free_slot(k, taken), taken);
    for (int i = 0; i < p->n_ops; i++) {
        int v = ZT_POINTWISE_INS + i, over = dying_operand(k, i);
        if (i < p->n_ops - 1 || !goes_direct(k, call)) take(k, v, over >= 0 ? k->slot[over] : free_slot(k, taken), taken);
        for (int n = 0; n < 3; n++) {
            int in = p->op[i].in[n];
            if (in >= ZT_POINTWISE_INS && k->last[in] == i && k->slot[in] != k->slot[v]) taken[k->slot[in]] = false;
        }
    }
}

static void chain_setup(zt_cpu_call *call)
{
    chain k;
    const zt_type *in[ZT_MAX_IN] = {0};
    size_t local = 0;
    for (int v = 0; v < ZT_POINTWISE_INS; v++) in[v] = call->in[v].data ? &call->in[v].type : NULL;
    if (!understand(&k, call->attrs, in)) return; /* the engine asked before */
    for (int i = 0; i < k.p.n_ops; i++) {
        zt_cpu_call one = {.kernel = k.kernel[i], .op = k.p.op[i].op, .attrs = k.p.op[i].attrs};
        one.out[0].type = zt_type_make(k.type[ZT_POINTWISE_INS + i].dtype, 1, (int64_t[]){TILE});
        for (int n = 0; n < 3; n++) {
            one.in[n].type = one.out[0].type;
            if (k.p.op[i].in[n] >= 0) one.in[n].type.dtype = k.type[k.p.op[i].in[n]].dtype;
        }
        if (one.kernel) one.kernel->setup(&one);
        if (one.local_bytes > local) local = one.local_bytes;
    }
    k.n_slots = 0;
    for (int v = 0; v < ZT_POINTWISE_INS; v++)
        if (in[v]) set_spreading(&k, v);
    set_slots(&k, call);
    call->keep_bytes = sizeof k;
    call->local_bytes = (size_t)k.n_slots * SLOT + local;
    call->items[0] = (zt_type_count(&k.whole) + TILE - 1) / TILE;
}

static void chain_prime(zt_cpu_call *call)
{
    chain *k = call->keep;
    const zt_type *in[ZT_MAX_IN] = {0};
    for (int v = 0; v < ZT_POINTWISE_INS; v++) in[v] = call->in[v].data ? &call->in[v].type : NULL;
    if (!understand(k, call->attrs, in)) return;
    k->n_slots = 0;
    for (int v = 0; v < ZT_POINTWISE_INS; v++)
        if (in[v]) set_spreading(k, v);
    set_slots(k, call);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

typedef struct tile {
    zt_cpu_call *c;
    const chain *k;
    char *slots;
    void *local;     /* of the ops' kernels */
    zt_cpu_call one; /* an op's call */
    int64_t at, n;
    int64_t filled[ZT_POINTWISE_INS]; /* a repeated element that fills its tile; -1: none */
} tile;

static void *data_of(const tile *t, int v)
{
    const chain *k = t->k;
    if (k->slot[v] >= 0) return t->slots + (size_t)k->slot[v] * SLOT;
    if (v < ZT_POINTWISE_INS) return element(&t->c->in[v], t->at);
    return element(&t->c->out[k->p.n_out - 1], t->at);
}

static void fill(const void *x, int bytes, void *to, int64_t n)
{
    for (int64_t i = 0; i < n && bytes == 1; i++) ((uint8_t *)to)[i] = *(const uint8_t *)x;
    for (int64_t i = 0; i < n && bytes == 2; i++) ((uint16_t *)to)[i] = *(const uint16_t *)x;
    for (int64_t i = 0; i < n && bytes == 4; i++) ((uint32_t *)to)[i] = *(const uint32_t *)x;
    for (int64_t i = 0; i < n && bytes == 8; i++) ((uint64_t *)to)[i] = *(const uint64_t *)x;
}

/* The tile of input v, which is broadcast. */
static void spread_input(tile *t, int v)
{
    const spreading *s = &t->k->spread[v];
    const zt_cpu_arg *arg = &t->c->in[v];
    int bytes = zt_dtype_get(arg->type.dtype)->block_bytes;
    char *to = data_of(t, v);
    for (int64_t i = 0; i < t->n;) {
        int64_t row = (t->at + i) / s->cols, col = (t->at + i) % s->cols;
        int64_t n = s->cols - col < t->n - i ? s->cols - col : t->n - i;
        int64_t from = row_begin(&arg->type, &t->k->whole, s->lead, row) + col * s->step;
        if (s->step) {
            memcpy(to + i * bytes, element(arg, from), (size_t)(n * bytes));
        } else if (n < t->n || t->filled[v] != from) {
            fill(element(arg, from), bytes, to + i * bytes, n);
            t->filled[v] = n == TILE ? from : -1;
        }
        i += n;
    }
}

/* Op i by its row's own loop: all of it has 8 bytes an element. */
static void run_plain(tile *t, int i)
{
    const zt_pointwise_op *o = &t->k->p.op[i];
    zt_arg in[ZT_MAX_IN] = {{0}}, out[ZT_MAX_OUT] = {{0}};
    zt_type type[4];
    for (int n = 0; n < 4; n++) {
        int v = n < 3 ? o->in[n] : ZT_POINTWISE_INS + i;
        if (v < 0) continue;
        type[n] = zt_type_make(t->k->type[v].dtype, 1, &t->n);
        bool real = zt_dtype_is_float(type[n].dtype);
        zt_arg a = {&type[n], real ? data_of(t, v) : NULL, real ? NULL : data_of(t, v)};
        *(n < 3 ? &in[n] : &out[0]) = a;
    }
    zt_op_info(o->op)->def->ref(o->attrs, in, out, &t->one.error);
}

static void set_arg(const tile *t, zt_cpu_arg *arg, int v)
{
    arg->type.dtype = t->k->type[v].dtype;
    arg->type.rank = 1;
    arg->type.dim[0] = t->n;
    arg->data = data_of(t, v);
}

static void run_op(tile *t, int i)
{
    const zt_pointwise_op *o = &t->k->p.op[i];
    zt_cpu_call *one = &t->one;
    one->kernel = t->k->kernel[i];
    if (!one->kernel) {
        run_plain(t, i);
        return;
    }
    one->op = o->op;
    one->attrs = o->attrs;
    for (int n = 0; n < 3 && o->in[n] >= 0; n++) set_arg(t, &one->in[n], o->in[n]);
    set_arg(t, &one->out[0], ZT_POINTWISE_INS + i);
    one->kernel->setup(one);
    one->kernel->run(one, 0, 0, one->items[0], t->local);
}

static void put_outputs(const tile *t)
{
    for (int o = 0; o < t->k->p.n_out; o++) {
        const zt_cpu_arg *y = &t->c->out[o];
        const void *from = data_of(t, t->k->p.out[o]);
        if (!y->data || t->k->slot[t->k->p.out[o]] < 0) continue;
        if (streamed(y, t->at))
            stream_copy(from, (float *)y->data + t->at, t->n);
        else
            memcpy(element(y, t->at), from, (size_t)(t->n * zt_dtype_get(y->type.dtype)->block_bytes));
    }
}

static void chain_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const chain *k = call->keep;
    tile t = {.c = call, .k = k, .slots = local, .local = (char *)local + (size_t)k->n_slots * SLOT};
    int64_t count = zt_type_count(&k->whole);
    (void)phase;
    for (int v = 0; v < ZT_POINTWISE_INS; v++) t.filled[v] = -1;
    for (t.at = begin * TILE; t.at < end * TILE && t.at < count; t.at += TILE) {
        t.n = count - t.at < TILE ? count - t.at : TILE;
        for (int v = 0; v < ZT_POINTWISE_INS; v++)
            if (k->slot[v] >= 0) spread_input(&t, v);
        for (int i = 0; i < k->p.n_ops; i++) run_op(&t, i);
        put_outputs(&t);
    }
    if (t.one.error.what) zt_cpu_runtime_error(call, t.one.error.what, t.one.error.value, t.one.error.limit);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_pointwise)[] = {
    {.op = ZT_OP_pointwise, .has = chain_has, .setup = chain_setup, .run = chain_run, .prime = chain_prime},
    {0},
};
