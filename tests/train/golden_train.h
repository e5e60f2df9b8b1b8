/* golden_train.h - a run of the golden set train: what the set has of it, and its forward pass as
 * the text of a program. */
#ifndef ZT_GOLDEN_TRAIN_H
#define ZT_GOLDEN_TRAIN_H

#include "lib/train/train.h"
#include "tests/common/npy.h"
#include "tests/common/tap.h"

#include <jansson.h>
#include <math.h>

enum { MAX_SLOTS = 64, TEXT = 8192 };

/* Something that is carried from step to step, or given: numbers in the program's float type. */
typedef struct slot {
    char name[40];
    int64_t shape[NPY_MAX_RANK];
    int rank;
    int64_t count;
    double *now; /* the value, exact */
    void *held;  /* as the program takes it */
    bool ints;   /* i32 */
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
    int reading;   /* of a net in words, which of the readings: put_residual */
    int rounds;    /* the weights to f32 after each step: to nearest (1), down (2), up (3) */
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
        if (strcmp(json_string_value(json_object_get(t, "name")), name) != 0 || !npz_get(r->z, key, &a)) continue;
        double *x = calloc((size_t)a.count + 1, sizeof *x);
        for (int64_t k = 0; k < a.count; k++) x[k] = as_double(&a, k);
        *shape = a;
        npy_free(&a);
        return x;
    }
    return NULL;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static slot *find_slot(run *r, const char *name)
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

static void hold_values(const run *r, const slot *s, const double *from)
{
    for (int64_t i = 0; i < s->count; i++) {
        if (s->ints)
            ((int32_t *)s->held)[i] = (int32_t)from[i];
        else if (r->f64)
            ((double *)s->held)[i] = from[i];
        else
            ((float *)s->held)[i] = (float)from[i];
    }
}

static double made_at(const run *r, const void *made, int64_t i)
{
    return r->f64 ? ((const double *)made)[i] : (double)((const float *)made)[i];
}

/* Weights, then x and y, a batch of them each. */
static bool load_run(run *r)
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
        hold_values(r, s, x);
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

static void put_inputs(const run *r, text *buffer)
{
    const char *real = r->f64 ? "f64" : "f32";
    put(buffer, "zt program 1\n");
    for (int i = 0; i < r->n; i++) {
        const slot *s = &r->slot[i];
        put(buffer, "in %s: %s[%s", s->name, s->ints ? "i32" : real, i < r->n_weights ? "" : "n");
        for (int d = i < r->n_weights ? 0 : 1; d < s->rank; d++) put(buffer, "%s%lld", d ? "," : "", (long long)s->shape[d]);
        put(buffer, "]\n");
    }
}

/* to = from w^T + b. linear has no f64, which is in simpler ops. */
static void put_dense(const run *r, text *t, const char *to, const char *from, const char *w, const char *b)
{
    if (r->f64)
        put(t, "%s.x = matmul %s %s tb=1\n%s = add %s.x %s\n", to, from, w, to, to, b);
    else
        put(t, "%s = linear %s %s %s\n", to, from, w, b);
}

/* Dense layers w0 b0, w1 b1, ... with a curve between them. */
static bool put_mlp(run *r, text *buffer)
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
        put_dense(r, buffer, i < layers - 1 ? h : "net", a, w, b);
        snprintf(a, sizeof a, "a%d", i);
        if (i < layers - 1) put(buffer, "%s = %s %s\n", a, curve, h);
    }
    return true;
}

/* Two convolutions on a square picture, each with relu and a pool of 2, and a dense layer. */
static bool put_cnn(run *r, text *buffer)
{
    slot *x = find_slot(r, "x"), *w = find_slot(r, "w");
    if (!x || !w || !find_slot(r, "k1") || !find_slot(r, "k2") || x->rank != 2) return false;
    long long side = llround(sqrt((double)x->shape[1])), flat = (long long)w->shape[1];
    put(buffer, "p = reshape x shape=[n,1,%lld,%lld]\n", side, side);
    put(buffer, "c1 = conv p k1 b1 pad=[1,1]\nr1 = relu c1\nm1, i1 = max_pool r1 kernel=[2,2] "
                "stride=[2,2]\n");
    put(buffer, "c2 = conv m1 k2 b2 pad=[1,1]\nr2 = relu c2\nm2, i2 = max_pool r2 kernel=[2,2] "
                "stride=[2,2]\n");
    put(buffer, "f = reshape m2 shape=[n,%lld]\n", flat);
    put_dense(r, buffer, "net", "f", "w", "b");
    return true;
}

/* lstm has no f64 either: its steps one by one, gates i, f, g, o in H columns each. */
static void put_unrolled(text *buffer, int64_t steps, int64_t wide, int64_t H)
{
    static const char *const gate[] = {"i", "f", "g", "o"};
    for (int s = 0; s < (int)steps; s++) {
        put(buffer, "t%d = slice x axis=1 from=%d to=%d\n", s, s, s + 1);
        put(buffer, "x%d = reshape t%d shape=[n,%d]\n", s, s, (int)wide);
        put(buffer, "z%d = matmul x%d w_ih tb=1\n", s, s);
        if (s) put(buffer, "u%d = matmul h%d w_hh tb=1\nv%da = add z%d u%d\n", s, s - 1, s, s, s);
        put(buffer, "y%d = add %s%d%s bb\n", s, s ? "v" : "z", s, s ? "a" : "");
        for (int k = 0; k < 4; k++) {
            put(buffer, "%s%d.z = slice y%d axis=1 from=%d to=%d\n", gate[k], s, s, k * (int)H, (k + 1) * (int)H);
            put(buffer, "%s%d = %s %s%d.z\n", gate[k], s, k == 2 ? "tanh" : "sigmoid", gate[k], s);
        }
        put(buffer, "ig%d = mul i%d g%d\n", s, s, s);
        if (s)
            put(buffer, "fc%d = mul f%d c%d\nc%d = add ig%d fc%d\n", s, s, s - 1, s, s, s);
        else
            put(buffer, "c0 = scale ig0\n");
        put(buffer, "tc%d = tanh c%d\nh%d = mul o%d tc%d\n", s, s, s, s, s);
    }
}

/* The last state of an LSTM over x [batch, time, features], and a dense layer. */
static bool put_lstm(run *r, text *buffer)
{
    slot *x = find_slot(r, "x"), *w = find_slot(r, "w_hh");
    char last[32];
    if (!w || !find_slot(r, "w_ih") || !find_slot(r, "b_ih") || !find_slot(r, "b_hh") || x->rank != 3) return false;
    put(buffer, "bb = add b_ih b_hh\n");
    if (r->f64)
        put_unrolled(buffer, x->shape[1], x->shape[2], w->shape[1]);
    else
        put(buffer, "xt = transpose x axes=[1,0,2]\ns, hn = lstm xt w_ih w_hh bb\n");
    snprintf(last, sizeof last, "h%d", (int)x->shape[1] - 1);
    put_dense(r, buffer, "net", r->f64 ? last : "hn", "w", "b");
    return true;
}

/* Dense layers around residual blocks, of which the set says in words how they stand: whether the
 * first layer is before the blocks and the last behind them, how many a block has, which curve, and
 * whether it is also after the layer before, before a block, at its end and after its sum. A number
 * counts through these readings; a run takes the one whose first loss is the set's. */
enum { CURVES = 5, READINGS = CURVES << 7 };

typedef struct reading {
    const char *curve;
    bool before, behind, curved, first, end, sum;
    int each; /* layers of a block */
} reading;

static reading reading_of(int k)
{
    static const char *const curves[CURVES] = {"relu", "tanh", "gelu", "silu", "sigmoid"};
    int bits = k / CURVES;
    return (reading){curves[k % CURVES], !(bits & 1), !(bits & 2), bits & 4, bits & 8, bits & 16, bits & 32, bits & 64 ? 1 : 2};
}

typedef struct dense_walk {
    const run *r;
    text *t;
    int weight, values; /* the next layer's first slot; values named so far */
    char at[24];        /* the value that was made last */
} dense_walk;

static void walk_curve(dense_walk *w, const char *curve, bool wanted)
{
    if (!wanted) return;
    put(w->t, "q%d = %s %s\n", w->values, curve, w->at);
    snprintf(w->at, sizeof w->at, "q%d", w->values++);
}

/* The next layer, with a bias if the slot after its weight is one. */
static void walk_dense(dense_walk *w)
{
    const slot *k = &w->r->slot[w->weight++], *b = &w->r->slot[w->weight];
    bool has = w->weight < w->r->n_weights && b->rank == 1;
    put(w->t, w->r->f64 ? "q%d = matmul %s %s tb=1\n" : "q%d = linear %s %s\n", w->values, w->at, k->name);
    snprintf(w->at, sizeof w->at, "q%d", w->values++);
    if (!has) return;
    put(w->t, "q%d = add %s %s\n", w->values, w->at, b->name);
    snprintf(w->at, sizeof w->at, "q%d", w->values++);
    w->weight++;
}

static void walk_block(dense_walk *w, const reading *g)
{
    char from[24];
    memcpy(from, w->at, sizeof from);
    walk_curve(w, g->curve, g->first);
    for (int i = 0; i < g->each; i++) {
        walk_dense(w);
        walk_curve(w, g->curve, i < g->each - 1 || g->end);
    }
    put(w->t, "q%d = add %s %s\n", w->values, from, w->at);
    snprintf(w->at, sizeof w->at, "q%d", w->values++);
    walk_curve(w, g->curve, g->sum);
}

static bool put_residual(run *r, text *buffer)
{
    reading g = reading_of(r->reading);
    dense_walk w = {.r = r, .t = buffer, .at = "x"};
    int layers = 0;
    for (int i = 0; i < r->n_weights; i++) {
        int rank = r->slot[i].rank;
        layers += rank == 2;
        if (rank > 2 || rank < (i ? 1 : 2)) return false;
    }
    layers -= g.before + g.behind;
    if (layers <= 0 || layers % g.each) return false;
    if (g.before) walk_dense(&w);
    walk_curve(&w, g.curve, g.before && g.curved);
    for (; layers > 0; layers -= g.each) walk_block(&w, &g);
    if (g.behind) walk_dense(&w);
    put(buffer, "net = scale %s\n", w.at);
    return w.weight == r->n_weights;
}

static bool put_net(run *r, text *buffer)
{
    static const struct {
        const char *net;
        bool (*put)(run *r, text *buffer);
    } nets[] = {{"mlp", put_mlp}, {"cnn", put_cnn}, {"lstm", put_lstm}};
    bool known = false, named = false;
    put_inputs(r, buffer);
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        if (strcmp(word(r, "net"), nets[i].net)) continue;
        known = nets[i].put(r, buffer);
        named = true;
    }
    if (!named) known = r->reading >= 0 && put_residual(r, buffer);
    const char *loss = word(r, "loss");
    if (!known || (strcmp(loss, "mse") && strcmp(loss, "cross_entropy"))) return false;
    put(buffer, "%s net y\nout net = net\nout loss = loss\n", strcmp(loss, "mse") ? "loss, lse = cross_entropy" : "loss = mse");
    return true;
}

#endif
