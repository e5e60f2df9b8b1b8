/* golden_train.c - the golden set train: losses, norms of gradients and weights of training runs.
 *
 * A run's forward pass is a program, written here as text, of which lib/train makes a step. On ref
 * in f64 all of a run is the set's own to 1e-9; on cpu in f32 the first gradient is ref's to 1e-5
 * of its norm, and the run within the set's tolerance, or within what f32 allows: where it is
 * beyond that, the run is made again with exact steps between weights that are numbers of f32,
 * which says what those alone lose (docs/decisions/0006). A net that the table does not know is
 * read as dense layers around residual blocks, in each way that such words are meant, and played
 * in the one whose first loss is the set's. Runs that there is no
 * program for are counted and named.
 */
#include "lib/train/train.h"
#include "tests/common/golden.h"
#include "tests/train/golden_train.h"
#include "tests/common/tap.h"

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
    slot *s = find_slot(r, name);
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
    zt_prog *program =
        zt_prog_grad(r->ctx, r->forward, wrt, r->n_weights, &(zt_grad_opts){.of = &of, .n_of = 1, .sample = n, .n_sample = 1});
    zt_str s, string;
    zt_str_init(&s, r->ctx);
    zt_str_init(&string, r->ctx);
    if (program && !zt_prog_print(program, &s)) again = zt_prog_parse(r->ctx, "grad.zt", s.data, s.len);
    if (again && !zt_prog_print(again, &string))
        ok(string.len == s.len && !memcmp(string.data, s.data, s.len), "%s: canonical text", r->name);
    zt_str_fini(&s);
    zt_str_fini(&string);
    zt_prog_free(program);
    return again;
}

static bool make_forward(run *r)
{
    text t = {.n = 0};
    if (!put_net(r, &t)) return false;
    r->forward = zt_prog_parse(r->ctx, r->name, t.s, t.n);
    return r->forward;
}

static bool make_step(run *r, zt_engine *engine)
{
    int wrt[MAX_SLOTS];
    if (!make_forward(r)) return false;
    for (int i = 0; i < r->n_weights; i++) wrt[i] = zt_prog_find(r->forward, r->slot[i].name);
    const zt_binding n = {"n", r->batch};
    zt_optim optimizer = optimizer_of(r);
    r->grad = gradient_program(r, wrt, &n);
    r->t = zt_trainer_open(engine, r->forward,
                           &(zt_train_opts){.optim = &optimizer,
                                            .clip = number(r, "clip_norm", 0),
                                            .weights = wrt,
                                            .n_weights = r->n_weights,
                                            .sample = &n,
                                            .n_sample = 1},
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
        hold_values(r, &s, r->slot[i].now + s.count / rows * first);
    }
}

/* One run of a program whose inputs are the slots; out[o] is malloc'ed. */
static bool replay(run *r, zt_engine *engine, const zt_prog *program, int64_t rows, double **out)
{
    const void *in[MAX_SLOTS];
    void *made[2 * MAX_SLOTS] = {0};
    zt_binding n = {"n", rows};
    zt_bound *bound = zt_prog_bind(program, &n, 1);
    zt_session *session = bound ? zt_session_open(engine, program, NULL, NULL) : NULL;
    for (int i = 0; i < zt_prog_count(program, ZT_VALUE_IN); i++)
        in[i] = find_slot(r, zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_IN, i))->name)->held;
    for (int o = 0; bound && o < zt_prog_n_outputs(program); o++)
        made[o] = malloc(zt_type_bytes(&bound->type[zt_prog_output(program, o)->value]) + 1);
    bool ran = session && !zt_session_step(session, &n, 1, in, made);
    for (int o = 0; ran && o < zt_prog_n_outputs(program); o++) {
        int64_t count = zt_type_count(&bound->type[zt_prog_output(program, o)->value]);
        out[o] = calloc((size_t)count + 1, sizeof **out);
        for (int64_t i = 0; i < count; i++) out[o][i] = made_at(r, made[o], i);
    }
    for (int o = 0; o < 2 * MAX_SLOTS; o++) free(made[o]);
    zt_session_close(session);
    zt_bound_free(bound);
    return ran;
}

/* |got - want| / |want|, of all elements together. */
static double apart(const double *got, const double *want, int64_t count)
{
    double num = 0, den = 0;
    for (int64_t i = 0; i < count; i++) {
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

/* The reading of a net in words whose first loss is the set's; -1: none is. */
static int find_reading(run *r, zt_engine *ref)
{
    npy a;
    int found = -1;
    double *loss = numbers(r, "outputs", "loss", &a);
    hold_batch(r, 0, r->batch);
    for (r->reading = 0; r->reading < READINGS && found < 0 && loss; r->reading++) {
        double *out[2 * MAX_SLOTS] = {0};
        bool ran = make_forward(r) && replay(r, ref, r->forward, r->batch, out);
        if (ran && fabs(out[1][0] - loss[0]) <= 1e-9 * fabs(loss[0])) found = r->reading;
        for (int o = 0; o < 2 * MAX_SLOTS; o++) free(out[o]);
        zt_prog_free(r->forward);
        r->forward = NULL;
        zt_ctx_clear(r->ctx);
    }
    free(loss);
    return found;
}

/* Is the net none of the table's, which need no reading? */
static bool in_words(const run *r)
{
    static const char *const nets[] = {"mlp", "cnn", "lstm"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(word(r, "net"), nets[i])) return false;
    return true;
}

typedef struct errors {
    double loss, norm, weights, net;
} errors;

/* The first gradient, of the program's own outputs d.NAME. */
static bool first_gradient(run *r, zt_engine *engine)
{
    double *out[2 * MAX_SLOTS] = {0};
    int before = zt_prog_n_outputs(r->forward);
    hold_batch(r, 0, r->batch);
    bool ran = replay(r, engine, r->grad, r->batch, out);
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
        slot *s = find_slot(r, zt_trainer_state_name(r->t, i));
        fine = s && !zt_trainer_get(r->t, i, s->held);
        for (int64_t k = 0; fine && k < s->count; k++) ((double *)s->held)[k] = rounded(((double *)s->held)[k], r->rounds);
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
        ran = !zt_trainer_step(r->t, &n, 1, in, learning_rate(r, s, steps), NULL, &got) && (!r->rounds || round_weights(r));
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
        slot *s = find_slot(r, zt_trainer_state_name(r->t, i));
        took = took && s && !zt_trainer_get(r->t, i, s->held);
        for (int64_t k = 0; took && k < s->count; k++) s->now[k] = made_at(r, s->held, k);
    }
    return took;
}

static bool finish(run *r, zt_engine *engine, errors *err)
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
    bool ran = want && replay(r, engine, r->forward, r->rows, out); /* "net" is its first */
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
static bool play_run(run *r, zt_engine *engine, errors *err)
{
    *err = (errors){0};
    if (!load_run(r) || !optimizer_of(r).method) return false;
    if (r->reading < 0 && in_words(r) && r->f64) r->reading = find_reading(r, engine);
    if (!make_step(r, engine)) return false;
    bool ran = first_gradient(r, engine) && train(r, err) && finish(r, engine, err);
    ok(ran, "%s: runs on %s (%s)", r->name, engine->vt->name, zt_ctx_error(r->ctx));
    return true;
}

static double gradients_apart(const run *a, const run *b)
{
    double worst = 0;
    for (int i = 0; i < a->n_weights; i++)
        if (a->gradient[i] && b->gradient[i])
            worst = fmax(worst, apart(b->gradient[i], a->gradient[i], a->slot[i].count));
        else
            worst = INFINITY;
    return worst;
}

/* How far runs on ref go from the set's whose weights are f32 and whose steps are exact: the most
 * of the losses' error of three ways to round. */
static double what_f32_loses(const run *like, zt_engine *ref)
{
    double most = 0;
    for (int how = 1; how <= 3; how++) {
        run r = {.ctx = like->ctx,
                 .json = like->json,
                 .z = like->z,
                 .attrs = like->attrs,
                 .name = like->name,
                 .f64 = true,
                 .reading = like->reading,
                 .rounds = how};
        errors e;
        if (play_run(&r, ref, &e)) most = fmax(most, e.loss);
        close_run(&r);
    }
    diag("%s in exact steps between weights of f32: losses within %.1e", like->name, most);
    return most;
}

static bool play_case(zt_ctx *ctx, zt_engine *ref, zt_engine *cpu, const json_t *item, const npz *archive)
{
    run a = {.ctx = ctx,
             .json = item,
             .z = archive,
             .f64 = true,
             .reading = -1,
             .attrs = json_object_get(item, "attrs"),
             .name = json_string_value(json_object_get(item, "name"))};
    run b = a;
    errors e, f;
    double rtol = json_number_value(json_object_get(json_object_get(item, "tol"), "rtol"));
    bool known = play_run(&a, ref, &e);
    b.f64 = false;
    b.reading = a.reading;
    if (known && play_run(&b, cpu, &f)) {
        ok(e.loss <= 1e-9 && e.norm <= 1e-9 && e.weights <= 1e-9 && e.net <= 1e-9,
           "%s on ref: losses %.1e, norms %.1e, weights %.1e, output %.1e", a.name, e.loss, e.norm, e.weights, e.net);
        double d = gradients_apart(&a, &b);
        ok(d <= 1e-5, "%s on cpu: the first gradient within %.1e of its norm", a.name, d);
        double most = rtol; /* a step of f32 rounds in many places where those round once */
        if (f.loss > rtol || f.weights > 10 * rtol) most = fmax(rtol, 4 * what_f32_loses(&a, ref));
        ok(f.loss <= most && f.weights <= 10 * most, "%s on cpu: losses %.1e, norms %.1e, weights %.1e, output %.1e", a.name,
           f.loss, f.norm, f.weights, f.net);
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
    const json_t *item;
    json_error_t why;
    int left = 0;
    zt_engine *ref = zt_engine_open(ctx, "ref", NULL);
    zt_engine *cpu = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    snprintf(path, sizeof path, "%s/manifest.json", root);
    json_t *all = json_load_file(path, 0, &why), *cases = json_object_get(all, "cases");
    ok(json_array_size(cases) > 0, "there are cases");
    json_array_foreach(cases, i, item)
    {
        npz archive;
        snprintf(path, sizeof path, "%s/%s", root, json_string_value(json_object_get(item, "file")));
        if (ok(npz_open(&archive, path), "%s", path)) left += !play_case(ctx, ref, cpu, item, &archive);
        npz_close(&archive);
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
