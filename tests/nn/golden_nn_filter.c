/* golden_nn_filter.c - golden/loom layers: Parallel by a filter, on ref and cpu.
 *
 * A case does not have its gate's weights. What the branches' shares s were follows from what came
 * out: logits G x up to a constant. How they change with x follows from the differences by x beside
 * it: these are what is left when the shares stay as they are, plus G^T v, where v = (diag(s) - s
 * s^T) u and u what each branch is worth, y_i dy. A gate G that has both takes its place.
 *
 * Two things the original does otherwise, and both are looked at, so that it is known that nothing
 * else is. Its backward pass leaves out shares and gate: the recorded gradients, `expect`ed
 * grad_weights too, are those of branches that are just added. And of many rows the shares are the
 * first row's: other rows change none, so that of more than one row output and shares are compared,
 * not d.x.
 */
#include "tests/nn/solved_network.h"

typedef struct filter {
    const json_t *root;
    const char *engine;
    json_t *net;
    zt_type t;
    int rows, d, branches, cols;
    float *x, *post, *dy, *diff; /* differences by x */
    double *y, *held;            /* of the branches [rows][branches][cols]; d.x with the shares held */
    double share[MOST][MOST], logit[MOST * MOST], v[MOST][MOST];
    char *why;
    size_t size;
} filter;

static bool fail(const filter *f, const char *text)
{
    snprintf(f->why, f->size, "%s", text);
    return false;
}

static json_t *layer_of(const json_t *net) { return json_array_get(json_object_get(net, "layers"), 0); }

/* The branches' outputs and, by dy (NULL: none), the gradient by x. */
static bool run_joined(const filter *f, const float *dy, ran *r)
{
    json_t *joined = json_deep_copy(f->net);
    json_object_set_new(layer_of(joined), "combine_mode", json_string("concat"));
    bool well = run_document(joined, &f->t, f->x, dy, f->engine, r, NULL);
    json_decref(joined);
    return well || fail(f, r->why);
}

/* Least squares over the columns; shares are above 0 and sum to 1. */
static bool find_shares(filter *f)
{
    for (int row = 0; row < f->rows; row++) {
        double a[MOST][MOST] = {{0}}, sum = 0;
        const double *y = f->y + row * f->branches * f->cols;
        for (int i = 0; i < f->branches; i++)
            for (int c = 0; c < f->cols; c++) {
                f->share[row][i] += y[i * f->cols + c] * f->post[row * f->cols + c];
                for (int k = 0; k < f->branches; k++) a[i][k] += y[i * f->cols + c] * y[k * f->cols + c];
            }
        if (!solve(a, f->share[row], f->branches)) return fail(f, "its branches do not differ");
        for (int i = 0; i < f->branches; i++) {
            if (f->share[row][i] <= 0) return fail(f, "its output is no mix of its branches");
            f->logit[row * f->branches + i] = log(f->share[row][i]);
            sum += f->share[row][i];
        }
        if (fabs(sum - 1) > 1e-3) return fail(f, "the shares do not sum to 1");
    }
    return true;
}

static void find_v(filter *f)
{
    for (int row = 0; row < f->rows; row++) {
        double u[MOST] = {0}, mean = 0;
        for (int i = 0; i < f->branches; i++) {
            for (int c = 0; c < f->cols; c++) u[i] += f->y[(row * f->branches + i) * f->cols + c] * f->dy[row * f->cols + c];
            mean += f->share[row][i] * u[i];
        }
        for (int i = 0; i < f->branches; i++) f->v[row][i] = f->share[row][i] * (u[i] - mean);
    }
}

/* Gradients where branch i of a row gets its share of dy, or (NULL) all of it. */
static bool run_shared(const filter *f, double (*share)[MOST], ran *r)
{
    int all = f->branches * f->cols;
    float *dy = malloc((size_t)(f->rows * all) * sizeof *dy + 1);
    for (int row = 0; row < f->rows; row++)
        for (int i = 0; i < f->branches; i++)
            for (int c = 0; c < f->cols; c++)
                dy[row * all + i * f->cols + c] = (float)((share ? share[row][i] : 1) * f->dy[row * f->cols + c]);
    bool well = run_joined(f, dy, r);
    free(dy);
    return well;
}

/* d.x while shares stay as they are. */
static bool hold_shares(filter *f)
{
    ran result = {0};
    bool well = run_shared(f, f->share, &result);
    f->held = malloc((size_t)(f->rows * f->d) * sizeof *f->held + 1);
    for (size_t i = 0; well && i < result.n_x; i++) f->held[i] = result.dx[i];
    ran_free(&result);
    return well;
}

/* The original's derivative of GELU is that of another form. */
static double tolerance(const filter *f)
{
    size_t i;
    const json_t *branch;
    json_array_foreach(json_object_get(layer_of(f->net), "parallel_branches"), i, branch)
    {
        const char *act = json_string_value(json_object_get(branch, "activation"));
        if (act && !strcmp(act, "GELU")) return 2e-3;
    }
    return 1e-4;
}

/* What is recorded: branches that are added. */
static bool recorded_is(const filter *f)
{
    ran result = {0};
    numbers want = {0};
    put_all(&want, by_path(f->root, "grad_weights.nested"));
    bool well = run_shared(f, NULL, &result) &&
                same_numbers(result.dx, result.n_x, f->root, "grad_input", tolerance(f), f->why, f->size) &&
                numbers_are(result.dw, result.n_w, &want, "grad_weights", tolerance(f), f->why, f->size);
    ran_free(&result);
    free(want.x);
    return well;
}

/* The first row's shares in all, and no other row's x in them. */
static bool first_rows(const filter *f)
{
    double most = 0;
    for (int i = 0; i < f->rows * f->d; i++) most = fmax(most, fabs(f->diff[i]));
    for (int row = 1; row < f->rows; row++) {
        for (int i = 0; i < f->branches; i++)
            if (fabs(f->share[row][i] - f->share[0][i]) > 1e-4) return fail(f, "shares of each row");
        for (int k = row * f->d; k < (row + 1) * f->d; k++)
            if (fabs(f->diff[k] - f->held[k]) > 4e-3 * (.05 + most)) return fail(f, "another row's x is in the shares");
    }
    return true;
}

/* ---- a gate ---------------------------------------------------------------------------------- */

static double product(const double *a, const double *b, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

/* Of one row: the smallest G with the logits, and what v must see besides, which x does not. */
static bool find_gate(const filter *f, float *g)
{
    double x[MOST], rest[MOST], most = 0;
    if (!matrix_between(f->x, f->logit, f->rows, f->d, f->branches, g)) return fail(f, "rows that depend on each other");
    if (f->rows > 1) return true;
    for (int k = 0; k < f->d; k++) {
        rest[k] = f->diff[k] - f->held[k];
        for (int i = 0; i < f->branches; i++) rest[k] -= g[i * f->d + k] * f->v[0][i];
        x[k] = f->x[k];
        most = fmax(most, fabs(f->diff[k]));
    }
    double off = product(x, rest, f->d), xx = product(x, x, f->d), vv = product(f->v[0], f->v[0], f->branches);
    if (fabs(off) > 8e-3 * (.05 + most) * (1 + sqrt(xx))) return fail(f, "its differences are of no linear gate");
    for (int i = 0; i < f->branches; i++)
        for (int k = 0; k < f->d; k++) g[i * f->d + k] += (float)(f->v[0][i] / vv * (rest[k] - off / xx * x[k]));
    return true;
}

/* ---- the case -------------------------------------------------------------------------------- */

/* Output and d.x as recorded; weights, the gate's too, by differences. */
static bool gated_is(const filter *f, const float *g)
{
    ran result = {0};
    double *by_h = NULL;
    json_object_set_new(layer_of(f->net), "filter_gate", dense(g, f->d, f->branches));
    bool well = run_document(f->net, &f->t, f->x, f->dy, f->engine, &result, &by_h);
    if (!well) fail(f, result.why);
    numbers want = {by_h, result.n_w};
    well = well && same_numbers(result.y, result.n_y, f->root, "post", 1e-4, f->why, f->size) &&
           numbers_are(result.dw, result.n_w, &want, "weights", 0, f->why, f->size);
    if (f->rows == 1)
        well = well && same_numbers(result.dx, result.n_x, f->root, "finite_difference_grad_input", 0, f->why, f->size);
    ran_free(&result);
    free(by_h);
    return well;
}

static bool filter_on(const json_t *root, const char *engine, char *why, size_t size)
{
    size_t count, m;
    float g[MOST * MOST];
    filter f = {.root = root,
                .engine = engine,
                .why = why,
                .size = size,
                .net = json_deep_copy(json_object_get(root, "network")),
                .t = type_of(json_object_get(root, "input")),
                .x = floats(json_object_get(root, "input"), &count),
                .post = floats(json_object_get(root, "post"), &m),
                .dy = floats(json_object_get(root, "grad_output"), &m),
                .diff = floats(json_object_get(root, "finite_difference_grad_input"), &count)};
    f.branches = (int)json_array_size(json_object_get(layer_of(f.net), "parallel_branches"));
    f.rows = (int)f.t.dim[0];
    f.d = (int)f.t.dim[1];
    f.cols = f.rows ? (int)m / f.rows : 0;
    ran result = {0};
    bool well = f.branches <= MOST && f.rows <= MOST && f.d <= MOST && f.cols >= f.branches && run_joined(&f, NULL, &result);
    f.y = result.y;
    well = well && find_shares(&f);
    if (well) find_v(&f);
    well = well && hold_shares(&f) && recorded_is(&f) && first_rows(&f) && find_gate(&f, g) && gated_is(&f, g);
    ran_free(&result);
    free(f.held);
    free(f.x);
    free(f.post);
    free(f.dy);
    free(f.diff);
    json_decref(f.net);
    return well;
}

static void filter_case(const json_t *root, const char *name)
{
    const char *mode = json_string_value(json_object_get(layer_of(json_object_get(root, "network")), "combine_mode"));
    if (!mode || strcmp(mode, "filter") != 0) return;
    for (int e = 0; e < 2; e++) {
        char why[300] = "";
        bool well = filter_on(root, engines[e], why, sizeof why);
        ok(well, "%s on %s%s%s", name, engines[e], well ? "" : ": ", why);
    }
}

int main(void)
{
    walk_set(&(walked){"loom/layers/parallel", filter_case});
    return tap_done();
}
