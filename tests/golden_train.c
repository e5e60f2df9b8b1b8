/* golden_train.c - the golden set train: losses, norms of gradients and weights of training runs.
 *
 * A run's forward pass is a program, written here as text, of which lib/train makes a step. On ref
 * in f64 all of a run is the set's own to 1e-9; on cpu in f32 the first gradient is ref's to 1e-5 of
 * its norm, and the run within the set's tolerance, or within what f32 allows: where it is beyond
 * that, the run is made again with exact steps between weights that are numbers of f32, which says
 * what those alone lose (docs/decisions/0006). Runs of a kind that there is no program for are
 * counted and named.
 */
#include "lib/train/train.h"
#include "tests/golden.h"
#include "tests/npy.h"
#include "tests/tap.h"

#include <jansson.h>
#include <math.h>

enum { MAX_SLOTS = 64, TEXT = 8192 };

/* Something that is carried from step to step, or given: numbers in the program's float type. */
typedef struct slot {
    char name[40];
    int64_t shape[NPY_MAX_RANK];
    int rank;
    int64_t count;
    double *now;      /* the value, exact */
    void *held;    /* as the program takes it */
    bool ints;        /* i32 */
} slot;

typedef struct run {
    zt_ctx *ctx;
    const json_t *json, *attrs;
    const char *name;
    const npz *z;
    bool f64;
    int64_t batch, rows;
    slot slot[MAX_SLOTS];
    int n;
    int n_weights; /* the first slots */
    int rounds; /* the weights to f32 after each step: to nearest (1), down (2), up (3) */
    zt_prog *forward, *grad;
    zt_trainer *t;
    double *gradient[MAX_SLOTS]; /* of the first step, an array a weight */
} run;

/* ---- the set --------------------------------------------------------------------------------- */

static double number(const run *r, const char *key, double otherwise)
{
    const json_t *v = json_object_get(r->attrs, key);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

static const char *word(const run *r, const char *key)
{
    const char *s = json_string_value(json_object_get(r->attrs, key));
    return s ? s : "";
}

static double as_double(const npy *a, int64_t i)
{
    if (a->descr[1] == 'f' && a->descr[2] == '4') return (double)((const float *)a->data)[i];
    if (a->descr[1] == 'f') return ((const double *)a->data)[i];
    return (double)((const int64_t *)a->data)[i];
}

/* Entry `name` of a list of the case; NULL: there is none. Malloc'ed. */
static double *numbers(const run *r, const char *list, const char *name, npy *shape)
{
    size_t i;
    const json_t *t;
    npy a;
    json_array_foreach(json_object_get(r->json, list), i, t)
    {
        const char *key = json_string_value(json_object_get(t, "key"));
        if (strcmp(json_string_value(json_object_get(t, "name")), name) != 0 ||
            !npz_get(r->z, key, &a))
            continue;
        double *x = calloc((size_t)a.count + 1, sizeof *x);
        for (int64_t k = 0; k < a.count; k++) x[k] = as_double(&a, k);
        *shape = a;
        npy_free(&a);
        return x;
    }
    return NULL;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static slot *find(run *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->slot[i].name, name)) return &r->slot[i];
    return NULL;
}

static slot *add_slot(run *r, const char *prefix, const char *name, int rank, const int64_t *shape)
{
    slot *s = &r->slot[r->n++];
    *s = (slot){.rank = rank, .count = 1};
    snprintf(s->name, sizeof s->name, "%s%s", prefix, name);
    for (int d = 0; d < rank; d++) s->count *= s->shape[d] = shape[d];
    s->now = calloc((size_t)s->count + 1, sizeof *s->now);
    s->held = calloc((size_t)s->count + 1, 8);
    return s;
}

static void hold(const run *r, const slot *s, const double *from)
{
    for (int64_t i = 0; i < s->count; i++) {
        if (s->ints) ((int32_t *)s->held)[i] = (int32_t)from[i];
        else if (r->f64) ((double *)s->held)[i] = from[i];
        else ((float *)s->held)[i] = (float)from[i];
    }
}

static double made_at(const run *r, const void *made, int64_t i)
{
    return r->f64 ? ((const double *)made)[i] : (double)((const float *)made)[i];
}

/* Weights, then x and y, a batch of them each. */
static bool load(run *r)
{
    size_t i;
    const json_t *t;
    npy a;
    json_array_foreach(json_object_get(r->json, "initial"), i, t)
    {
        const char *name = json_string_value(json_object_get(t, "name"));
        double *x = numbers(r, "initial", name, &a);
        if (!x || r->n == MAX_SLOTS / 4) return false;
        slot *s = add_slot(r, "", name, a.rank, a.shape);
        memcpy(s->now, x, (size_t)s->count * sizeof *x);
        hold(r, s, x);
        free(x);
    }
    r->n_weights = r->n;
    for (int k = 0; k < 2; k++) {
        const char *name = k ? "y" : "x";
        double *x = numbers(r, "inputs", name, &a);
        if (!x || a.rank < 1 || (r->rows && a.shape[0] != r->rows)) return false;
        r->rows = a.shape[0];
        slot *s = add_slot(r, "", name, a.rank, a.shape);
        s->ints = a.descr[1] != 'f';
        memcpy(s->now, x, (size_t)s->count * sizeof *x);
        free(x);
    }
    r->batch = (int64_t)number(r, "batch", (double)r->rows);
    return r->batch > 0 && r->rows % r->batch == 0;
}

/* ---- the forward pass ------------------------------------------------------------------------ */

typedef struct text {
    char s[TEXT];
    size_t n;
} text;

__attribute__((format(printf, 2, 3))) static void put(text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int k = vsnprintf(t->s + t->n, TEXT - t->n, fmt, ap);
    va_end(ap);
    t->n += k > 0 && (size_t)k < TEXT - t->n ? (size_t)k : 0;
}

static void put_inputs(const run *r, text *t)
{
    const char *real = r->f64 ? "f64" : "f32";
    put(t, "zt program 1\n");
    for (int i = 0; i < r->n; i++) {
        const slot *s = &r->slot[i];
        put(t, "in %s: %s[%s", s->name, s->ints ? "i32" : real, i < r->n_weights ? "" : "n");
        for (int d = i < r->n_weights ? 0 : 1; d < s->rank; d++)
            put(t, "%s%lld", d ? "," : "", (long long)s->shape[d]);
        put(t, "]\n");
    }
}

/* to = from w^T + b. linear has no f64, which is in simpler ops. */
static void put_dense(const run *r, text *t, const char *to, const char *from, const char *w,
                      const char *b)
{
    if (r->f64) put(t, "%s.x = matmul %s %s tb=1\n%s = add %s.x %s\n", to, from, w, to, to, b);
    else put(t, "%s = linear %s %s %s\n", to, from, w, b);
}

/* Dense layers w0 b0, w1 b1, ... with a curve between them. */
static bool put_mlp(run *r, text *t)
{
    const char *curve = word(r, "activation");
    char h[16], a[16] = "x", w[16], b[16];
    zt_op op;
    int layers = r->n_weights / 2;
    if (!layers || !zt_op_find(curve, strlen(curve), &op)) return false;
    for (int i = 0; i < layers; i++) {
        snprintf(h, sizeof h, "h%d", i);
        snprintf(w, sizeof w, "w%d", i);
        snprintf(b, sizeof b, "b%d", i);
        put_dense(r, t, i < layers - 1 ? h : "net", a, w, b);
        snprintf(a, sizeof a, "a%d", i);
        if (i < layers - 1) put(t, "%s = %s %s\n", a, curve, h);
    }
    return true;
}

/* Two convolutions on a square picture, each with relu and a pool of 2, and a dense layer. */
static bool put_cnn(run *r, text *t)
{
    slot *x = find(r, "x"), *w = find(r, "w");
    if (!x || !w || !find(r, "k1") || !find(r, "k2") || x->rank != 2) return false;
    long long side = llround(sqrt((double)x->shape[1])), flat = (long long)w->shape[1];
    put(t, "p = reshape x shape=[n,1,%lld,%lld]\n", side, side);
    put(t, "c1 = conv p k1 b1 pad=[1,1]\nr1 = relu c1\nm1, i1 = max_pool r1 kernel=[2,2] "
           "stride=[2,2]\n");
    put(t, "c2 = conv m1 k2 b2 pad=[1,1]\nr2 = relu c2\nm2, i2 = max_pool r2 kernel=[2,2] "
           "stride=[2,2]\n");
    put(t, "f = reshape m2 shape=[n,%lld]\n", flat);
    put_dense(r, t, "net", "f", "w", "b");
    return true;
}

/* lstm has no f64 either: its steps one by one, gates i, f, g, o in H columns each. */
static void put_unrolled(text *t, int64_t steps, int64_t wide, int64_t H)
{
    static const char *const gate[] = {"i", "f", "g", "o"};
    for (int s = 0; s < (int)steps; s++) {
        put(t, "t%d = slice x axis=1 from=%d to=%d\n", s, s, s + 1);
        put(t, "x%d = reshape t%d shape=[n,%d]\n", s, s, (int)wide);
        put(t, "z%d = matmul x%d w_ih tb=1\n", s, s);
        if (s) put(t, "u%d = matmul h%d w_hh tb=1\nv%da = add z%d u%d\n", s, s - 1, s, s, s);
        put(t, "y%d = add %s%d%s bb\n", s, s ? "v" : "z", s, s ? "a" : "");
        for (int k = 0; k < 4; k++) {
            put(t, "%s%d.z = slice y%d axis=1 from=%d to=%d\n", gate[k], s, s, k * (int)H,
                (k + 1) * (int)H);
            put(t, "%s%d = %s %s%d.z\n", gate[k], s, k == 2 ? "tanh" : "sigmoid", gate[k], s);
        }
        put(t, "ig%d = mul i%d g%d\n", s, s, s);
        if (s) put(t, "fc%d = mul f%d c%d\nc%d = add ig%d fc%d\n", s, s, s - 1, s, s, s);
        else put(t, "c0 = scale ig0\n");
        put(t, "tc%d = tanh c%d\nh%d = mul o%d tc%d\n", s, s, s, s, s);
    }
}

/* The last state of an LSTM over x [batch, time, features], and a dense layer. */
static bool put_lstm(run *r, text *t)
{
    slot *x = find(r, "x"), *w = find(r, "w_hh");
    char last[32];
    if (!w || !find(r, "w_ih") || !find(r, "b_ih") || !find(r, "b_hh") || x->rank != 3)
        return false;
    put(t, "bb = add b_ih b_hh\n");
    if (r->f64) put_unrolled(t, x->shape[1], x->shape[2], w->shape[1]);
    else put(t, "xt = transpose x axes=[1,0,2]\ns, hn = lstm xt w_ih w_hh bb\n");
    snprintf(last, sizeof last, "h%d", (int)x->shape[1] - 1);
    put_dense(r, t, "net", r->f64 ? last : "hn", "w", "b");
    return true;
}

static bool put_net(run *r, text *t)
{
    static const struct {
        const char *net;
        bool (*put)(run *r, text *t);
    } nets[] = {{"mlp", put_mlp}, {"cnn", put_cnn}, {"lstm", put_lstm}};
    bool known = false;
    put_inputs(r, t);
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        if (!strcmp(word(r, "net"), nets[i].net)) known = nets[i].put(r, t);
    const char *loss = word(r, "loss");
    if (!known || (strcmp(loss, "mse") && strcmp(loss, "cross_entropy"))) return false;
    put(t, "%s net y\nout net = net\nout loss = loss\n",
        strcmp(loss, "mse") ? "loss, lse = cross_entropy" : "loss = mse");
    return true;
}

/* ---- how it is trained ----------------------------------------------------------------------- */

static zt_optim optimizer_of(const run *r)
{
    const json_t *betas = json_object_get(r->attrs, "betas");
    const char *name = word(r, "optimizer");
    bool nesterov = json_is_true(json_object_get(r->attrs, "nesterov"));
    const zt_optimizer *m = zt_optimizer_named(nesterov ? "nesterov" : name);
    if (!m) return (zt_optim){0};
    zt_optim o = zt_optim_default(m);
    o.momentum = number(r, "momentum", 0);
    o.decay = number(r, "weight_decay", 0);
    o.alpha = number(r, "alpha", o.alpha);
    o.eps = number(r, "eps", o.eps);
    if (betas) {
        o.beta1 = json_number_value(json_array_get(betas, 0));
        o.beta2 = json_number_value(json_array_get(betas, 1));
    }
    return o;
}

static zt_status find_tensor(void *user, const char *name, zt_type *type, int64_t *handle)
{
    run *r = user;
    slot *s = find(r, name);
    if (!s) return ZT_ENOENT;
    *type = zt_type_make(r->f64 ? ZT_F64 : ZT_F32, s->rank, s->shape);
    *handle = s - r->slot;
    return ZT_OK;
}

static zt_status read_tensor(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    run *r = user;
    memcpy(dst, (char *)r->slot[handle].held + offset, n);
    return ZT_OK;
}

/* The gradient as a program, from its own text, as a file would hold it. */
static zt_prog *gradient_program(run *r, const int *wrt, const zt_binding *n)
{
    const char *of = "loss";
    zt_prog *again = NULL;
    zt_prog *g = zt_prog_grad(r->ctx, r->forward, wrt, r->n_weights,
                              &(zt_grad_opts){.of = &of, .n_of = 1, .sample = n, .n_sample = 1});
    zt_str s, t;
    zt_str_init(&s, r->ctx);
    zt_str_init(&t, r->ctx);
    if (g && !zt_prog_print(g, &s)) again = zt_prog_parse(r->ctx, "grad.zt", s.data, s.len);
    if (again && !zt_prog_print(again, &t))
        ok(t.len == s.len && !memcmp(t.data, s.data, s.len), "%s: canonical text", r->name);
    zt_str_fini(&s);
    zt_str_fini(&t);
    zt_prog_free(g);
    return again;
}

static bool make(run *r, zt_engine *e)
{
    text t = {.n = 0};
    int wrt[MAX_SLOTS];
    if (!put_net(r, &t)) return false;
    r->forward = zt_prog_parse(r->ctx, r->name, t.s, t.n);
    if (!r->forward) return false;
    for (int i = 0; i < r->n_weights; i++) wrt[i] = zt_prog_find(r->forward, r->slot[i].name);
    const zt_binding n = {"n", r->batch};
    zt_optim o = optimizer_of(r);
    r->grad = gradient_program(r, wrt, &n);
    r->t = zt_trainer_open(e, r->forward,
                           &(zt_train_opts){.optim = &o, .clip = number(r, "clip_norm", 0),
                                            .weights = wrt, .n_weights = r->n_weights,
                                            .sample = &n, .n_sample = 1},
                           &(zt_store){r, find_tensor, read_tensor});
    return r->grad && r->t;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Rows of x and y from `first` on are held. */
static void hold_batch(run *r, int64_t first, int64_t rows)
{
    for (int i = r->n_weights; i < r->n_weights + 2; i++) {
        slot s = r->slot[i];
        s.count = s.count / s.shape[0] * rows;
        hold(r, &s, r->slot[i].now + s.count / rows * first);
    }
}

/* One run of a program whose inputs are the slots; out[o] is malloc'ed. */
static bool replay(run *r, zt_engine *e, const zt_prog *p, int64_t rows, double **out)
{
    const void *in[MAX_SLOTS];
    void *made[2 * MAX_SLOTS] = {0};
    zt_binding n = {"n", rows};
    zt_bound *b = zt_prog_bind(p, &n, 1);
    zt_session *s = b ? zt_session_open(e, p, NULL, NULL) : NULL;
    for (int i = 0; i < zt_prog_count(p, ZT_VALUE_IN); i++)
        in[i] = find(r, zt_prog_value(p, zt_prog_nth(p, ZT_VALUE_IN, i))->name)->held;
    for (int o = 0; b && o < zt_prog_n_outputs(p); o++)
        made[o] = malloc(zt_type_bytes(&b->type[zt_prog_output(p, o)->value]) + 1);
    bool ran = s && !zt_session_step(s, &n, 1, in, made);
    for (int o = 0; ran && o < zt_prog_n_outputs(p); o++) {
        int64_t count = zt_type_count(&b->type[zt_prog_output(p, o)->value]);
        out[o] = calloc((size_t)count + 1, sizeof **out);
        for (int64_t i = 0; i < count; i++) out[o][i] = made_at(r, made[o], i);
    }
    for (int o = 0; o < 2 * MAX_SLOTS; o++) free(made[o]);
    zt_session_close(s);
    zt_bound_free(b);
    return ran;
}

/* |got - want| / |want|, of all elements together. */
static double apart(const double *got, const double *want, int64_t n)
{
    double num = 0, den = 0;
    for (int64_t i = 0; i < n; i++) {
        num += (got[i] - want[i]) * (got[i] - want[i]);
        den += want[i] * want[i];
    }
    return num == 0 ? 0 : sqrt(num / den);
}

static double learning_rate(const run *r, int64_t s, int64_t steps)
{
    double lr = number(r, "lr", 0);
    if (strncmp(word(r, "schedule"), "cosine", 6)) return lr;
    return lr * 0.5 * (1 + cos(3.14159265358979323846 * (double)s / (double)steps));
}

typedef struct errors {
    double loss, norm, weights, net;
} errors;

/* The first gradient, of the program's own outputs d.NAME. */
static bool first_gradient(run *r, zt_engine *e)
{
    double *out[2 * MAX_SLOTS] = {0};
    int before = zt_prog_n_outputs(r->forward);
    hold_batch(r, 0, r->batch);
    bool ran = replay(r, e, r->grad, r->batch, out);
    for (int i = 0; i < before; i++) free(out[i]);
    for (int i = 0; i < r->n_weights; i++) r->gradient[i] = out[before + i];
    return ran;
}

static float rounded(double x, int how)
{
    float y = (float)x;
    if (how == 2 && y > x) return nextafterf(y, -INFINITY);
    if (how == 3 && y < x) return nextafterf(y, INFINITY);
    return y;
}

/* The weights that a step of f64 left, as numbers of f32. */
static bool round_weights(run *r)
{
    bool fine = r->f64;
    for (int i = 0; i < r->n_weights && fine; i++) {
        slot *s = find(r, zt_trainer_state_name(r->t, i));
        fine = s && !zt_trainer_get(r->t, i, s->held);
        for (int64_t k = 0; fine && k < s->count; k++)
            ((double *)s->held)[k] = rounded(((double *)s->held)[k], r->rounds);
        fine = fine && !zt_trainer_set(r->t, i, s->held);
    }
    return fine;
}

static bool train(run *r, errors *e)
{
    npy a;
    double *loss = numbers(r, "outputs", "loss", &a), *norm = numbers(r, "outputs", "grad_norm", &a);
    int64_t steps = a.count;
    bool ran = loss && norm;
    zt_trained got = {0};
    const zt_binding n = {"n", r->batch};
    const void *in[2] = {r->slot[r->n_weights].held, r->slot[r->n_weights + 1].held};
    for (int64_t s = 0; s < steps && ran; s++) {
        hold_batch(r, r->batch * s % r->rows, r->batch);
        ran = !zt_trainer_step(r->t, &n, 1, in, learning_rate(r, s, steps), NULL, &got) &&
              (!r->rounds || round_weights(r));
        e->loss = fmax(e->loss, fabs(got.loss - loss[s]) / fabs(loss[s]));
        e->norm = fmax(e->norm, fabs(got.grad_norm - norm[s]) / fabs(norm[s]));
    }
    free(loss);
    free(norm);
    return ran;
}

/* Weights as they are now, in their slots. */
static bool take_weights(run *r)
{
    bool took = true;
    for (int i = 0; i < r->n_weights; i++) {
        slot *s = find(r, zt_trainer_state_name(r->t, i));
        took = took && s && !zt_trainer_get(r->t, i, s->held);
        for (int64_t k = 0; took && k < s->count; k++) s->now[k] = made_at(r, s->held, k);
    }
    return took;
}

static bool finish(run *r, zt_engine *e, errors *err)
{
    npy a;
    double *out[2 * MAX_SLOTS] = {0};
    if (!take_weights(r)) return false;
    for (int i = 0; i < r->n_weights; i++) {
        double *want = numbers(r, "final", r->slot[i].name, &a);
        err->weights = want ? fmax(err->weights, apart(r->slot[i].now, want, a.count)) : INFINITY;
        free(want);
    }
    double *want = numbers(r, "outputs", "final_output", &a);
    hold_batch(r, 0, r->rows);
    bool ran = want && replay(r, e, r->forward, r->rows, out); /* "net" is its first */
    if (ran) err->net = apart(out[0], want, a.count);
    for (int o = 0; o < 2 * MAX_SLOTS; o++) free(out[o]);
    free(want);
    return ran;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void close_run(run *r)
{
    zt_trainer_close(r->t);
    zt_prog_free(r->grad);
    zt_prog_free(r->forward);
    for (int i = 0; i < r->n; i++) {
        free(r->slot[i].now);
        free(r->slot[i].held);
    }
    for (int i = 0; i < MAX_SLOTS; i++) free(r->gradient[i]);
}

/* The whole run on an engine; false: it is not of a kind that there is a program for. */
static bool play(run *r, zt_engine *e, errors *err)
{
    *err = (errors){0};
    if (!load(r) || !optimizer_of(r).method || !make(r, e)) return false;
    bool ran = first_gradient(r, e) && train(r, err) && finish(r, e, err);
    ok(ran, "%s: runs on %s (%s)", r->name, e->vt->name, zt_ctx_error(r->ctx));
    return true;
}

static double gradients_apart(const run *a, const run *b)
{
    double worst = 0;
    for (int i = 0; i < a->n_weights; i++)
        if (a->gradient[i] && b->gradient[i])
            worst = fmax(worst, apart(b->gradient[i], a->gradient[i], a->slot[i].count));
        else worst = INFINITY;
    return worst;
}

/* How far runs on ref go from the set's whose weights are f32 and whose steps are exact: the most of
 * the losses' error of three ways to round. */
static double what_f32_loses(const run *like, zt_engine *ref)
{
    double most = 0;
    for (int how = 1; how <= 3; how++) {
        run r = {.ctx = like->ctx, .json = like->json, .z = like->z, .attrs = like->attrs,
                 .name = like->name, .f64 = true, .rounds = how};
        errors e;
        if (play(&r, ref, &e)) most = fmax(most, e.loss);
        close_run(&r);
    }
    diag("%s in exact steps between weights of f32: losses within %.1e", like->name, most);
    return most;
}

static bool play_case(zt_ctx *ctx, zt_engine *ref, zt_engine *cpu, const json_t *c, const npz *z)
{
    run a = {.ctx = ctx, .json = c, .z = z, .f64 = true, .attrs = json_object_get(c, "attrs"),
             .name = json_string_value(json_object_get(c, "name"))};
    run b = a;
    errors e, f;
    double rtol = json_number_value(json_object_get(json_object_get(c, "tol"), "rtol"));
    bool known = play(&a, ref, &e);
    b.f64 = false;
    if (known && play(&b, cpu, &f)) {
        ok(e.loss <= 1e-9 && e.norm <= 1e-9 && e.weights <= 1e-9 && e.net <= 1e-9,
           "%s on ref: losses %.1e, norms %.1e, weights %.1e, output %.1e", a.name, e.loss, e.norm,
           e.weights, e.net);
        double d = gradients_apart(&a, &b);
        ok(d <= 1e-5, "%s on cpu: the first gradient within %.1e of its norm", a.name, d);
        double most = rtol; /* a step of f32 rounds in many places where those round once */
        if (f.loss > rtol || f.weights > 10 * rtol) most = fmax(rtol, 4 * what_f32_loses(&a, ref));
        ok(f.loss <= most && f.weights <= 10 * most,
           "%s on cpu: losses %.1e, norms %.1e, weights %.1e, output %.1e", a.name, f.loss, f.norm,
           f.weights, f.net);
    } else {
        diag("%s: left, there is no program for it (%s)", a.name, zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    close_run(&a);
    close_run(&b);
    return known;
}

static void play_set(zt_ctx *ctx, const char *root)
{
    char path[8192];
    size_t i;
    const json_t *c;
    json_error_t why;
    int left = 0;
    zt_engine *ref = zt_engine_open(ctx, "ref", NULL);
    zt_engine *cpu = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2,
                                                                  .isa = zt_isa_best()});
    snprintf(path, sizeof path, "%s/manifest.json", root);
    json_t *all = json_load_file(path, 0, &why), *cases = json_object_get(all, "cases");
    ok(json_array_size(cases) > 0, "there are cases");
    json_array_foreach(cases, i, c)
    {
        npz z;
        snprintf(path, sizeof path, "%s/%s", root, json_string_value(json_object_get(c, "file")));
        if (ok(npz_open(&z, path), "%s", path)) left += !play_case(ctx, ref, cpu, c, &z);
        npz_close(&z);
    }
    diag("%d of %zu runs played", (int)json_array_size(cases) - left, json_array_size(cases));
    json_decref(all);
    zt_engine_close(ref);
    zt_engine_close(cpu);
}

int main(void)
{
    char root[4096];
    zt_ctx *ctx = zt_ctx_new();
    if (golden_holds("train", root)) play_set(ctx, root);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
