/* trainer.c - owns a step of training on an engine: its session, its states, its count. */
#include "lib/run/pass.h"
#include "lib/train/copy.h"
#include "lib/train/train.h"

#include <string.h>
#include <xxhash.h>

struct zt_trainer {
    zt_ctx *ctx;
    zt_prog *prog; /* after its passes */
    zt_session *session;
    int n_weights, n_forward_in, n_forward_out, n_watched, loss;
    uint64_t id[2];
    zt_dtype type; /* of weights, learning rate and step */
    uint64_t steps;
    const void **in;
    void **out;
};

static int state_value(const zt_trainer *t, int i)
{
    return zt_prog_nth(t->prog, ZT_VALUE_STATE, i);
}

zt_ctx *zt_trainer_ctx(const zt_trainer *t) { return t->ctx; }
int zt_trainer_n_weights(const zt_trainer *t) { return t->n_weights; }
int zt_trainer_n_states(const zt_trainer *t) { return zt_prog_count(t->prog, ZT_VALUE_STATE); }
const char *zt_trainer_state_name(const zt_trainer *t, int i)
{
    return zt_prog_value(t->prog, state_value(t, i))->name;
}
zt_type zt_trainer_state_type(const zt_trainer *t, int i)
{
    return zt_session_state_type(t->session, i);
}
zt_status zt_trainer_get(zt_trainer *t, int i, void *host)
{
    return zt_session_state_get(t->session, i, host);
}
zt_status zt_trainer_set(zt_trainer *t, int i, const void *host)
{
    return zt_session_state_set(t->session, i, host);
}
uint64_t zt_trainer_steps(const zt_trainer *t) { return t->steps; }
void zt_trainer_set_steps(zt_trainer *t, uint64_t steps) { t->steps = steps; }
const zt_prog *zt_trainer_program(const zt_trainer *t) { return t->prog; }
zt_session *zt_trainer_session(zt_trainer *t) { return t->session; }
const uint64_t *zt_trainer_id(const zt_trainer *t) { return t->id; }

/* ---- opening --------------------------------------------------------------------------------- */

/* State i from the store's tensor. */
static zt_status load(zt_trainer *t, int i, const zt_store *store, const char *tensor)
{
    char a[ZT_TYPE_TEXT], b[ZT_TYPE_TEXT];
    zt_type want = zt_trainer_state_type(t, i), have;
    int64_t handle;
    zt_status s = store->find(store->user, tensor, &have, &handle);
    if (s)
        return zt_ctx_status(t->ctx) ? s
                                     : zt_fail(t->ctx, ZT_EDATA, "there is no tensor '%s'", tensor);
    zt_dtype stored = have.dtype;
    have.dtype = want.dtype;
    bool alike = zt_type_equal(&have, &want) &&
                 (stored == want.dtype || zt_dtype_converts(stored, want.dtype));
    have.dtype = stored;
    if (!alike)
        return zt_fail(t->ctx, ZT_EDATA, "tensor '%s' is %s, and the weight %s", tensor,
                       zt_type_text(&have, a), zt_type_text(&want, b));
    char *raw = zt_alloc(t->ctx, zt_type_bytes(&have) + 1);
    char *made = zt_alloc(t->ctx, zt_type_bytes(&want) + 1);
    s = raw && made ? store->read(store->user, handle, 0, raw, zt_type_bytes(&have)) : ZT_ENOMEM;
    if (!s && stored != want.dtype)
        zt_dtype_convert(stored, raw, want.dtype, made, zt_type_count(&want));
    if (!s) s = zt_trainer_set(t, i, stored == want.dtype ? raw : made);
    zt_free(t->ctx, raw);
    zt_free(t->ctx, made);
    return s;
}

static zt_status load_all(zt_trainer *t, const zt_prog *forward, const zt_store *store)
{
    zt_status s = ZT_OK;
    for (int i = 0; i < t->n_weights && !s; i++) {
        const char *name = zt_trainer_state_name(t, i);
        const zt_value *w = zt_prog_value(forward, zt_prog_find(forward, name));
        s = load(t, i, store, w->kind == ZT_VALUE_DATA ? w->tensor : name);
    }
    return s;
}

static zt_prog *make(zt_ctx *ctx, zt_engine *e, const zt_prog *forward, const zt_train_opts *o)
{
    zt_prog *p = zt_train_program(ctx, forward, o);
    if (!p) return NULL;
    zt_pass_opts po = {.sample = o->sample, .n_sample = o->n_sample, .engine = e};
    zt_prog *passed = zt_prog_passes(ctx, p, &po, NULL);
    zt_prog_free(p);
    return passed;
}

static zt_status look(zt_trainer *t, const zt_prog *forward, const zt_train_opts *o)
{
    const char *loss = o->loss ? o->loss : "loss";
    t->n_forward_in = zt_prog_count(t->prog, ZT_VALUE_IN) - 2;
    t->n_forward_out = zt_prog_n_outputs(forward);
    for (int i = 0; i < t->n_forward_out; i++)
        if (!strcmp(zt_prog_output(forward, i)->name, loss)) t->loss = i;
    for (int v = 0; v < zt_prog_n_values(forward); v++) {
        const zt_value *x = zt_prog_value(forward, v);
        int found = x->kind == ZT_VALUE_OP ? -1 : zt_prog_find(t->prog, x->name);
        t->n_weights += found >= 0 && zt_prog_value(t->prog, found)->kind == ZT_VALUE_STATE;
    }
    t->type = zt_prog_value(t->prog, state_value(t, 0))->type.dtype;
    t->in = zt_calloc(t->ctx, (size_t)t->n_forward_in + 2, sizeof *t->in);
    t->n_watched = o->n_watched;
    t->out = zt_calloc(t->ctx, (size_t)(t->n_forward_out + 1 + t->n_watched), sizeof *t->out);
    return t->in && t->out ? ZT_OK : ZT_ENOMEM;
}

/* The forward program with no output but the loss; *weights are o's in it. */
static zt_prog *up_to_loss(zt_ctx *ctx, const zt_prog *p, int loss, const zt_train_opts *o,
                           int *weights)
{
    int *map = zt_calloc(ctx, (size_t)zt_prog_n_values(p) + 1, sizeof *map);
    zt_prog *q = map ? zt_prog_like(p, map) : NULL;
    const zt_output *out = zt_prog_output(p, loss);
    bool good =
        q && !zt_train_copy_ops(ctx, p, q, map) && !zt_prog_out(q, out->name, map[out->value]);
    for (int i = 0; good && i < o->n_weights; i++) weights[i] = map[o->weights[i]];
    zt_free(ctx, map);
    if (good) return q;
    zt_prog_free(q);
    return NULL;
}

/* By the step that would be, were nothing else looked at. */
static zt_status identify(zt_trainer *t, const zt_engine *e, const zt_prog *forward,
                          const zt_train_opts *o)
{
    int *weights = zt_alloc_array(t->ctx, (size_t)o->n_weights + 1, sizeof *weights);
    zt_train_opts plain = *o;
    plain.n_watched = 0;
    plain.weights = o->n_weights ? weights : NULL;
    zt_prog *only = weights ? up_to_loss(t->ctx, forward, t->loss, o, weights) : NULL;
    zt_prog *step = only ? zt_train_program(t->ctx, only, &plain) : NULL;
    zt_str s;
    zt_str_init(&s, t->ctx);
    zt_status st = step ? zt_prog_print(step, &s) : zt_ctx_status(t->ctx);
    if (!st) st = zt_str_puts(&s, zt_engine_inmost(e)->vt->name);
    XXH128_hash_t h = XXH3_128bits(s.data, st ? 0 : s.len);
    t->id[0] = h.low64;
    t->id[1] = h.high64;
    zt_str_fini(&s);
    zt_prog_free(step);
    zt_prog_free(only);
    zt_free(t->ctx, weights);
    return st;
}

/* Loss and weights are numbers of one type. */
static zt_status check_loss(const zt_trainer *t, const zt_train_opts *o)
{
    char a[ZT_TYPE_TEXT];
    zt_bound *b = zt_prog_bind(t->prog, o->sample, o->n_sample);
    if (!b) return zt_ctx_status(t->ctx);
    zt_type loss = b->type[zt_prog_output(t->prog, t->loss)->value];
    zt_bound_free(b);
    if (loss.dtype == t->type && loss.rank == 0) return ZT_OK;
    return zt_fail(t->ctx, ZT_EUSAGE, "the loss is %s, and must be one %s as the weights are",
                   zt_type_text(&loss, a), zt_dtype_get(t->type)->name);
}

zt_trainer *zt_trainer_open(zt_engine *e, const zt_prog *forward, const zt_train_opts *o,
                            const zt_store *store)
{
    zt_ctx *ctx = e->ctx;
    zt_trainer *t = zt_calloc(ctx, 1, sizeof *t);
    if (!t) return NULL;
    t->ctx = ctx;
    t->prog = make(ctx, e, forward, o);
    zt_status s = t->prog ? look(t, forward, o) : zt_ctx_status(ctx);
    if (!s) s = check_loss(t, o);
    if (!s)
        t->session = zt_session_open(e, t->prog, store, &(zt_session_opts){.strict = o->strict});
    if (t->session) s = identify(t, e, forward, o);
    if (t->session && !s) s = load_all(t, forward, store);
    if (t->session && !s) return t;
    zt_trainer_close(t);
    return NULL;
}

void zt_trainer_close(zt_trainer *t)
{
    if (!t) return;
    zt_session_close(t->session);
    zt_prog_free(t->prog);
    zt_free(t->ctx, t->in);
    zt_free(t->ctx, t->out);
    zt_free(t->ctx, t);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* A number of rank 0, of the weights' type. */
typedef union number {
    float f;
    double d;
} number;

static number as_number(const zt_trainer *t, double x)
{
    number n = {.d = x};
    if (t->type == ZT_F32) n.f = (float)x;
    return n;
}

static double value_of(const zt_trainer *t, number n)
{
    return t->type == ZT_F32 ? (double)n.f : n.d;
}

zt_status zt_trainer_step(zt_trainer *t, const zt_binding *b, int n, const void *const *in,
                          double lr, void *const *out, zt_trained *result)
{
    number rate = as_number(t, lr), count = as_number(t, (double)(t->steps + 1)), loss, norm;
    for (int i = 0; i < t->n_forward_in; i++) t->in[i] = in[i];
    t->in[t->n_forward_in] = &rate;
    t->in[t->n_forward_in + 1] = &count;
    for (int o = 0; o < t->n_forward_out; o++) t->out[o] = out ? out[o] : NULL;
    if (!t->out[t->loss]) t->out[t->loss] = &loss;
    t->out[t->n_forward_out] = &norm;
    for (int i = 0; i < t->n_watched; i++)
        t->out[t->n_forward_out + 1 + i] = out ? out[t->n_forward_out + i] : NULL;
    zt_status s = zt_session_step(t->session, b, n, t->in, t->out);
    if (s) return s;
    memcpy(&loss, t->out[t->loss], t->type == ZT_F32 ? sizeof loss.f : sizeof loss.d);
    *result = (zt_trained){value_of(t, loss), value_of(t, norm)};
    t->steps++;
    return ZT_OK;
}
