/* golden_network.h - for tests: golden cases of networks (loom/): their numbers, their networks run on an
 * engine, comparing, and walking folders of them. */
#ifndef ZT_TEST_GOLDEN_NETWORK_H
#define ZT_TEST_GOLDEN_NETWORK_H

#include "tests/common/golden.h"
#include "tests/common/loom_network.h"
#include "tests/common/tap.h"

#include "lib/zt/all.h"
#include <dirent.h>

#define NN_FN __attribute__((unused)) static

enum { MAX_GRADS = 256 };

NN_FN const char *const engines[] = {"ref", "cpu"};

/* ---- numbers of a case ----------------------------------------------------------------------- */

typedef struct numbers {
    double *x;
    size_t n;
} numbers;

NN_FN void put_number(numbers *to, double x)
{
    to->x = realloc(to->x, (to->n + 1) * sizeof *to->x);
    to->x[to->n++] = x;
}

/* Of a list, or of a tensor with those nested in it. */
NN_FN void put_all(numbers *to, const json_t *value)
{
    size_t i;
    const json_t *item;
    if (json_is_number(value) || json_is_string(value)) put_number(to, loom_number(value));
    json_array_foreach(value, i, item) put_all(to, item);
    if (!json_is_object(value)) return;
    put_all(to, json_object_get(value, "data"));
    put_all(to, json_object_get(value, "nested"));
}

static const json_t *by_path(const json_t *root, const char *path)
{
    char part[80];
    while (path && *path && root) {
        size_t count = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)count, path);
        root = json_object_get(root, part);
        path += count + (path[count] == '.');
    }
    return root;
}

/* ---- a network on an engine ------------------------------------------------------------------ */

typedef struct ran {
    double *y, *dx, *dw; /* dw: of all weights, one behind the other */
    size_t n_y, n_x, n_w;
    char why[300];
} ran;

NN_FN void ran_free(ran *r)
{
    free(r->y);
    free(r->dx);
    free(r->dw);
}

NN_FN double *doubles(const float *x, size_t n)
{
    double *d = malloc((n + 1) * sizeof *d);
    for (size_t i = 0; i < n; i++) d[i] = x[i];
    return d;
}

/* Outputs y, d.x and d.WEIGHT of program, by inputs x and d.y. */
NN_FN bool run_program(zt_ctx *ctx, zt_engine *engine, zt_nn *nn, const zt_prog *program, const void *const *in, ran *r)
{
    zt_store store = zt_nn_store(nn);
    zt_session *session = zt_session_open(engine, program, &store, &(zt_session_opts){0});
    zt_bound *bound = zt_prog_bind(program, NULL, 0);
    int total = zt_prog_n_outputs(program);
    float *out[MAX_GRADS] = {0};
    size_t count[MAX_GRADS] = {0};
    for (int o = 0; bound && o < total; o++) {
        count[o] = (size_t)zt_type_count(&bound->type[zt_prog_output(program, o)->value]);
        out[o] = calloc(count[o] + 1, sizeof(float));
    }
    bool well = session && bound && zt_session_step(session, NULL, 0, in, (void *const *)out) == ZT_OK;
    if (well) {
        r->y = doubles(out[0], r->n_y = count[0]);
        r->n_w = 0;
        r->dw = NULL;
        if (total > 1) r->dx = doubles(out[1], r->n_x = count[1]);
        for (int o = 2; o < total; o++) {
            r->dw = realloc(r->dw, (r->n_w + count[o]) * sizeof *r->dw);
            for (size_t i = 0; i < count[o]; i++) r->dw[r->n_w++] = out[o][i];
        }
    }
    for (int o = 0; o < total; o++) free(out[o]);
    zt_bound_free(bound);
    zt_session_close(session);
    if (!well) snprintf(r->why, sizeof r->why, "%s", zt_ctx_error(ctx));
    return well;
}

/* The network's program on x of these dimensions, numbers all, and its gradient by d.y. */
NN_FN zt_prog *lower(zt_ctx *ctx, zt_nn *nn, const zt_type *type, bool grads)
{
    int wrt[MAX_GRADS], count = 1;
    zt_prog *program = zt_prog_new(ctx);
    wrt[0] = zt_prog_in(program, "x", ZT_F32, type->rank, type->dim);
    int y = zt_nn_emit(nn, program, wrt[0], NULL);
    if (y < 0 || zt_prog_out(program, "y", y)) {
        zt_prog_free(program);
        return NULL;
    }
    if (!grads) return program;
    for (int64_t i = 0; i < zt_nn_n_weights(nn) && count < MAX_GRADS - 2; i++)
        if ((wrt[count] = zt_prog_find(program, zt_nn_weight_at(nn, i)->name)) >= 0) count++;
    zt_prog *g = zt_prog_grad(ctx, program, wrt, count, &(zt_grad_opts){.seeds = true});
    zt_prog_free(program);
    return g;
}

NN_FN float *floats(const json_t *value, size_t *count)
{
    numbers all = {0};
    put_all(&all, value);
    float *x = malloc((all.n + 1) * sizeof *x);
    for (size_t i = 0; i < all.n; i++) x[i] = (float)all.x[i];
    *count = all.n;
    free(all.x);
    return x;
}

/* d.w by central differences of the program's y: sum of dy (y(w + h) - y(w - h)) / 2h. */
NN_FN double *differences(zt_ctx *ctx, zt_engine *engine, zt_nn *nn, const zt_prog *program, const void *x, const float *dy,
                          size_t count)
{
    const double h = 1.0 / 64;
    double *d = calloc(count + 1, sizeof *d);
    size_t at = 0;
    for (int64_t k = 0; k < zt_nn_n_weights(nn); k++)
        for (int64_t i = 0; i < zt_type_count(&zt_nn_weight_at(nn, k)->type) && at < count; i++, at++)
            for (int side = -1; side <= 1; side += 2) {
                float *w = &zt_nn_weight_at(nn, k)->values[i], was = *w;
                ran result = {0};
                *w = (float)(was + side * h);
                if (run_program(ctx, engine, nn, program, &x, &result))
                    for (size_t o = 0; o < result.n_y; o++) d[at] += side * result.y[o] * dy[o] / (2 * h);
                *w = was;
                ran_free(&result);
            }
    return d;
}

/* Runs a document on an engine. dy NULL: forward alone. `by_h`, if that is not NULL, gets the
 * differences that d.w ought to be. */
NN_FN bool run_document(const json_t *net, const zt_type *type, const float *x, const float *dy, const char *engine, ran *r,
                        double **by_h)
{
    zt_ctx *ctx = zt_ctx_new();
    char *text = json_dumps(net, JSON_COMPACT);
    zt_source *source = zt_source_memory(ctx, "net.json", text, strlen(text));
    zt_nn *nn = zt_nn_from(ctx, source, 0);
    zt_engine *e = zt_engine_open(ctx, engine, NULL);
    zt_prog *program = nn && e ? lower(ctx, nn, type, dy != NULL) : NULL;
    *r = (ran){0};
    bool well = program && run_program(ctx, e, nn, program, (const void *const[]){x, dy}, r);
    if (!well) snprintf(r->why, sizeof r->why, "%s", zt_ctx_error(ctx));
    if (well && by_h) {
        zt_prog *forward = lower(ctx, nn, type, false);
        *by_h = differences(ctx, e, nn, forward, x, dy, r->n_w);
        zt_prog_free(forward);
    }
    zt_prog_free(program);
    zt_engine_close(e);
    zt_nn_close(nn);
    zt_source_close(source);
    free(text);
    if (zt_mem_get(ctx).blocks) {
        snprintf(r->why, sizeof r->why, "%zu blocks leak", zt_mem_get(ctx).blocks);
        well = false;
    }
    zt_ctx_free(ctx);
    return well;
}

/* ---- comparing ------------------------------------------------------------------------------- */

NN_FN double largest(const numbers *v)
{
    double most = 0;
    for (size_t i = 0; i < v->n; i++) most = fmax(most, fabs(v->x[i]));
    return most;
}

/* Are count numbers those of `want`, within `tolerance` (relative above 1); tolerance 0: as finite
 * differences are, within the set's bound for these, of which two in a hundred may be at a kink. */
NN_FN bool numbers_are(const double *got, size_t count, const numbers *want, const char *what, double tolerance, char *why,
                       size_t size)
{
    bool finite = tolerance == 0;
    double worst = 0;
    size_t bad = 0;
    if (finite) tolerance = 4e-3 * (0.05 + largest(want));
    for (size_t i = 0; i < count && count == want->n; i++) {
        worst = fmax(worst, fabs(got[i] - want->x[i]));
        bad += !loom_near(got[i], want->x[i], tolerance);
    }
    bool well = count == want->n && (bad == 0 || (finite && bad * 50 <= count));
    if (!well) snprintf(why, size, "%s: %zu of %zu (%zu wanted) differ, by up to %g", what, bad, count, want->n, worst);
    return well;
}

NN_FN bool same_numbers(const double *got, size_t count, const json_t *root, const char *path, double tolerance, char *why,
                        size_t size)
{
    numbers want = {0};
    put_all(&want, by_path(root, path));
    bool well = numbers_are(got, count, &want, path, strstr(path, "finite_difference") ? 0 : tolerance, why, size);
    free(want.x);
    return well;
}

NN_FN zt_type type_of(const json_t *tensor)
{
    const json_t *shape = json_object_get(tensor, "shape");
    zt_type t = {.dtype = ZT_F32, .rank = (int)json_array_size(shape)};
    for (int d = 0; d < t.rank; d++) t.dim[d] = json_integer_value(json_array_get(shape, (size_t)d));
    return t;
}

/* ---- folders --------------------------------------------------------------------------------- */

NN_FN int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

NN_FN int is_shown(const struct dirent *d) { return d->d_name[0] != '.'; }

/* fn for every case at or below a folder; how many. */
NN_FN int each_case(const char *where, void (*fn)(const json_t *root, const char *name))
{
    struct dirent **list;
    int count = scandir(where, &list, is_shown, by_name), cases = 0;
    for (int i = 0; i < count; i++) {
        char path[1024];
        size_t len = strlen(list[i]->d_name);
        snprintf(path, sizeof path, "%s/%s", where, list[i]->d_name);
        bool json = len > 5 && !strcmp(list[i]->d_name + len - 5, ".json");
        json_t *root = json ? json_load_file(path, 0, NULL) : NULL;
        if (root) {
            const char *end = strstr(path, "loom/");
            fn(root, end ? end + 5 : path);
            cases++;
        } else if (json) {
            ok(false, "%s is JSON", path);
        } else {
            cases += each_case(path, fn);
        }
        json_decref(root);
        free(list[i]);
    }
    if (count >= 0) free(list);
    return cases;
}

typedef struct walked {
    const char *set; /* "loom/layers" */
    void (*fn)(const json_t *root, const char *name);
} walked;

NN_FN void walk_set(const walked *w)
{
    char path[1024];
    if (golden_holds(w->set, path)) diag("%s: %d cases", w->set, each_case(path, w->fn));
}

#endif
