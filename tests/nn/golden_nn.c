/* golden_nn.c - golden/loom layers, softmax, activations, dtype_layers, network, names: layers of
 * S3 and whole grids, forward and backward, by lib/nn on ref and on cpu.
 *
 * A case is compared with the fields that its `expect` names. Where the original is another than
 * what we build, this is said: Parallel joins whole batches there and rows here, so that what it
 * makes of several rows is looked at branch by branch; and its derivative of GELU is not that of
 * its tanh form, so that gradients through it are held to the finite differences beside them. A
 * filter's gate is not recorded: golden_nn_filter.c. Of weights in a sequence see steps_are.
 */
#include "tests/nn/solved_network.h"

/* Is there a member `key` of this value anywhere? */
static bool has(const json_t *element, const char *key, const char *value)
{
    size_t i;
    const char *name, *is = json_string_value(json_object_get(element, key));
    json_t *item;
    bool any = is && !strcmp(is, value);
    json_array_foreach(element, i, item) any = any || has(item, key, value);
    json_object_foreach((json_t *)element, name, item) any = any || has(item, key, value);
    return any;
}

static bool has_gelu(const json_t *root) { return has(json_object_get(root, "network"), "activation", "GELU"); }

/* The field that a gradient must be: what `expect` names, beside GELU its finite differences. */
static const char *gradient_of(const json_t *root, const char *what, char *buf, size_t size)
{
    const char *named = json_string_value(json_object_get(json_object_get(root, "expect"), what));
    snprintf(buf, size, "finite_difference_%s", what);
    return named && has_gelu(root) && json_object_get(root, buf) ? buf : named;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static const json_t *first_layer(const json_t *root)
{
    return json_array_get(json_object_get(json_object_get(root, "network"), "layers"), 0);
}

static bool is_layer(const json_t *root, const char *key, const char *value)
{
    const char *s = json_string_value(json_object_get(first_layer(root), key));
    return s && !strcmp(s, value);
}

/* The case's network with what its format leaves out. */
static json_t *document_of(const json_t *root)
{
    static const char *const beside[] = {"mask", "hierarchy_levels"};
    json_t *net = json_deep_copy(json_object_get(root, "network"));
    json_t *layer = json_array_get(json_object_get(net, "layers"), 0);
    for (int i = 0; i < 2; i++)
        if (json_object_get(root, beside[i])) json_object_set(layer, beside[i], json_object_get(root, beside[i]));
    return net;
}

/* What the original lays branch after branch, whole batches: [branch][row][col] as rows. */
static void rows_of_branches(const json_t *root, int64_t rows, float *x, size_t count)
{
    size_t branches = json_array_size(json_object_get(first_layer(root), "parallel_branches"));
    float *old = malloc((count + 1) * sizeof *x);
    size_t cols = rows && branches ? count / (size_t)rows / branches : 0;
    memcpy(old, x, count * sizeof *x);
    for (size_t b = 0; b < branches; b++)
        for (size_t r = 0; r < (size_t)rows; r++)
            memcpy(x + (r * branches + b) * cols, old + (b * (size_t)rows + r) * cols, cols * sizeof *x);
    free(old);
}

static void branches_of_rows(const json_t *root, int64_t rows, double *x, size_t count)
{
    size_t branches = json_array_size(json_object_get(first_layer(root), "parallel_branches"));
    double *old = malloc((count + 1) * sizeof *x);
    size_t cols = rows && branches ? count / (size_t)rows / branches : 0;
    memcpy(old, x, count * sizeof *x);
    for (size_t b = 0; b < branches; b++)
        for (size_t r = 0; r < (size_t)rows; r++)
            memcpy(x + (b * (size_t)rows + r) * cols, old + (r * branches + b) * cols, cols * sizeof *x);
    free(old);
}

static bool joins(const json_t *root)
{
    return is_layer(root, "type", "Parallel") &&
           (is_layer(root, "combine_mode", "concat") || is_layer(root, "combine_mode", "grid_scatter"));
}

/* In a sequence no field has all weights' gradients right (SwiGLU's, and those before a Residual),
 * nor need they be where branches of several rows are joined. They are held to differences, and to
 * the original's where those say that it is right. */
static bool is_wrong_there(const json_t *root)
{
    int64_t rows = type_of(json_object_get(root, "input")).dim[0];
    return json_object_get(first_layer(root), "sequential_layers") || (joins(root) && rows > 1);
}

static int compared; /* steps and branches whose recorded gradients were right */

static bool steps_are(const json_t *root, const double *dw, double *by_h, char *why, size_t size)
{
    const json_t *nested = by_path(root, "grad_weights.nested"), *step;
    const char *key = joins(root) ? "parallel_branches" : "sequential_layers";
    size_t k, at = 0;
    json_array_foreach(json_object_get(first_layer(root), key), k, step)
    {
        const char *text = json_string_value(json_object_get(step, "weights"));
        size_t length = text ? strlen(text) / 4 * 3 / sizeof(float) : 0;
        numbers there = {0}, truth = {by_h + at, length};
        put_all(&there, json_object_get(json_array_get(nested, k), "data"));
        char ignored[300];
        bool right = length && there.n == length && numbers_are(there.x, length, &truth, "", 0, ignored, sizeof ignored);
        bool well =
            !right || numbers_are(dw + at, length, &there, "a step's grad_weights", has_gelu(root) ? 2e-3 : 1e-4, why, size);
        compared += right;
        free(there.x);
        if (!well) return false;
        at += length;
    }
    return true;
}

static bool weights_are(const json_t *root, const ran *r, double *by_h, char *why, size_t size)
{
    char buf[80];
    const char *dw = gradient_of(root, "grad_weights", buf, sizeof buf);
    numbers want = {by_h, r->n_w};
    if (by_h)
        return numbers_are(r->dw, r->n_w, &want, "differences of weights", 0, why, size) &&
               steps_are(root, r->dw, by_h, why, size);
    double tolerance = has_gelu(root) ? 0 : 1e-4;
    return !dw || !r->n_w || same_numbers(r->dw, r->n_w, root, dw, tolerance, why, size);
}

/* A document, the case's or one made for it, against the case. */
static bool document_is(const json_t *root, const json_t *net, const char *engine, char *why, size_t size)
{
    const json_t *input = json_object_get(root, "input");
    const char *post = json_string_value(by_path(root, "expect.post"));
    char buf[80];
    const char *dx = gradient_of(root, "grad_input", buf, sizeof buf);
    size_t count, m;
    float *x = floats(input, &count), *dy = floats(json_object_get(root, "grad_output"), &m);
    zt_type type = type_of(input);
    bool own = is_wrong_there(root);
    double *by_h = NULL;
    ran result;
    if (joins(root)) rows_of_branches(root, type.dim[0], dy, m);
    bool well = run_document(net, &type, x, dx ? dy : NULL, engine, &result, dx && own ? &by_h : NULL);
    if (!well) snprintf(why, size, "%s", result.why);
    if (well && joins(root)) branches_of_rows(root, type.dim[0], result.y, result.n_y);
    if (!post) post = json_object_get(root, "post_full") ? "post_full" : "post";
    double tolerance = is_layer(root, "type", "LSTM") || is_layer(root, "type", "MultiHeadAttention") ? 1e-4 : 1e-5;
    well = well && same_numbers(result.y, result.n_y, root, post, tolerance, why, size);
    if (well && dx) well = same_numbers(result.dx, result.n_x, root, dx, tolerance, why, size);
    if (well && dx) well = weights_are(root, &result, by_h, why, size);
    ran_free(&result);
    free(by_h);
    free(x);
    free(dy);
    return well;
}

/* ---- cases that leave something out ---------------------------------------------------------- */

/* The gradient by the skip of a residual whose input is W skip: W^T grad_input + grad_output. */
static json_t *through(const float *w, const json_t *root, int rows, int d)
{
    size_t count, m;
    float *dx = floats(json_object_get(root, "grad_input"), &count), *dy = floats(json_object_get(root, "grad_output"), &m);
    json_t *list = json_array();
    for (int r = 0; r < rows && count == m; r++)
        for (int k = 0; k < d; k++) {
            double sum = dy[r * d + k];
            for (int o = 0; o < d; o++) sum += (double)w[o * d + k] * dx[r * d + o];
            json_array_append_new(list, json_real(sum));
        }
    free(dx);
    free(dy);
    return list;
}

/* Residual of a skip and an input: in a sequence, behind a layer that makes one of the other. */
static bool skip_on(const json_t *root, const char *engine, char *why, size_t size)
{
    json_t *turned = json_deep_copy(root), *net = document_of(root);
    json_t *layers = json_object_get(net, "layers");
    zt_type type = type_of(json_object_get(root, "input"));
    int rows = (int)type.dim[0], d = (int)type.dim[1];
    size_t count;
    float w[MOST * MOST], *skip = floats(json_object_get(root, "skip"), &count),
                          *input = floats(json_object_get(root, "input"), &count);
    double *want = doubles(input, count);
    bool well = rows <= MOST && d <= MOST && matrix_between(skip, want, rows, d, d, w);
    json_array_set_new(
        layers, 0, json_pack("{s:s,s:[o,{s:s}]}", "type", "Sequential", "sequential_layers", dense(w, d, d), "type", "Residual"));
    json_object_set(turned, "input", json_object_get(root, "skip"));
    json_object_set_new(turned, "grad_skip", through(w, root, rows, d));
    json_object_set_new(json_object_get(turned, "expect"), "grad_input", json_string("grad_skip"));
    json_object_del(json_object_get(turned, "expect"), "grad_weights");
    well = well && document_is(turned, net, engine, why, size);
    free(skip);
    free(input);
    free(want);
    json_decref(turned);
    json_decref(net);
    return well;
}

/* One draw of the original's; without noise it is the standard softmax, which ours must be. */
static bool gumbel_on(const json_t *root, const char *engine, char *why, size_t size)
{
    json_t *net = document_of(root);
    zt_type type = type_of(json_object_get(root, "input"));
    size_t count;
    float *x = floats(json_object_get(root, "input"), &count);
    double sum = 0, most = 0;
    ran result;
    bool well = run_document(net, &type, x, NULL, engine, &result, NULL);
    if (!well) snprintf(why, size, "%s", result.why);
    double T = json_number_value(json_object_get(first_layer(root), "temperature"));
    for (size_t i = 0; i < count; i++) sum += exp(x[i] / (T > 0 ? T : 1));
    for (size_t i = 0; i < count && well; i++) most = fmax(most, fabs(result.y[i] - exp(x[i] / (T > 0 ? T : 1)) / sum));
    if (well && most > 1e-6) snprintf(why, size, "off the softmax by %g", most);
    ran_free(&result);
    free(x);
    json_decref(net);
    return well && most <= 1e-6;
}

/* ---- layers and softmax ---------------------------------------------------------------------- */

typedef bool case_fn(const json_t *root, const char *engine, char *why, size_t size);

static void on_engines(const json_t *root, const char *name, case_fn *run)
{
    for (int e = 0; e < 2; e++) {
        char why[300] = "";
        bool well = run(root, engines[e], why, sizeof why);
        ok(well, "%s on %s%s%s", name, engines[e], well ? "" : ": ", why);
    }
}

static bool layer_on(const json_t *root, const char *engine, char *why, size_t size)
{
    if (is_layer(root, "softmax_type", "Gumbel")) return gumbel_on(root, engine, why, size);
    if (json_object_get(root, "skip")) return skip_on(root, engine, why, size);
    json_t *net = document_of(root);
    bool well = document_is(root, net, engine, why, size);
    json_decref(net);
    return well;
}

static void layer_case(const json_t *root, const char *name)
{
    if (is_layer(root, "combine_mode", "filter")) return; /* golden_nn_filter.c */
    on_engines(root, name, layer_on);
}

/* ---- activations ----------------------------------------------------------------------------- */

/* As the activation of a dense layer of one weight, 1. The original's derivative of GELU is that of
 * another form, up to .002 off. */
static void activation_case(const json_t *root, const char *name)
{
    size_t count;
    const float one = 1;
    float *x = floats(json_object_get(root, "x"), &count), *dy = malloc((count + 1) * sizeof *dy);
    const char *act = json_string_value(json_object_get(root, "activation"));
    json_t *layer = dense(&one, 1, 1);
    json_object_set_new(layer, "activation", json_string(act));
    json_t *net = json_pack("{s:i,s:i,s:i,s:i,s:[o]}", "depth", 1, "rows", 1, "cols", 1, "layers_per_cell", 1, "layers", layer);
    zt_type type = zt_type_make(ZT_F32, 2, (int64_t[]){(int64_t)count, 1});
    for (size_t i = 0; i < count; i++) dy[i] = 1;
    for (int e = 0; e < 2; e++) {
        char why[300] = "";
        ran result;
        bool gelu = act && !strcmp(act, "GELU");
        bool well = run_document(net, &type, x, dy, engines[e], &result, NULL);
        if (!well) snprintf(why, sizeof why, "%s", result.why);
        well = well && same_numbers(result.y, result.n_y, root, "y", 1e-5, why, sizeof why);
        well = well && same_numbers(result.dx, result.n_x, root, "dydx", gelu ? 2e-3 : 1e-5, why, sizeof why);
        ok(well, "%s on %s%s%s", name, engines[e], well ? "" : ": ", why);
        ran_free(&result);
    }
    json_decref(net);
    free(x);
    free(dy);
}

/* ---- grids ----------------------------------------------------------------------------------- */

static bool network_on(const json_t *root, const char *engine, char *why, size_t size)
{
    json_t *net = json_deep_copy(json_object_get(root, "network"));
    const json_t *disabled = json_object_get(root, "disabled_layer_indices"), *v;
    json_t *grads = json_deep_copy(json_object_get(root, "layer_grad_weights"));
    size_t count, m, i;
    float *x = floats(json_object_get(root, "input"), &count), *dy = floats(json_object_get(root, "grad_output"), &m);
    zt_type type = type_of(json_object_get(root, "input"));
    numbers want = {0};
    ran result;
    json_array_foreach(disabled, i, v)
    {
        size_t k = (size_t)json_integer_value(v);
        json_object_set_new(json_array_get(json_object_get(net, "layers"), k), "is_disabled", json_true());
        json_array_set_new(grads, k, json_array()); /* its weights are in no program */
    }
    bool gelu = has_gelu(root), well = run_document(net, &type, x, dy, engine, &result, NULL);
    if (!well) snprintf(why, size, "%s", result.why);
    put_all(&want, grads);
    well = well && same_numbers(result.y, result.n_y, root, "output", 1e-5, why, size);
    well = well && same_numbers(result.dx, result.n_x, root, "grad_input", gelu ? 2e-3 : 1e-5, why, size);
    well = well && numbers_are(result.dw, result.n_w, &want, "layer_grad_weights", gelu ? 2e-3 : 1e-5, why, size);
    ran_free(&result);
    free(want.x);
    free(x);
    free(dy);
    json_decref(net);
    json_decref(grads);
    return well;
}

static void network_case(const json_t *root, const char *name) { on_engines(root, name, network_on); }

/* ---- dtypes ---------------------------------------------------------------------------------- */

static bool all_same(const json_t *list)
{
    numbers v = {0};
    put_all(&v, list);
    bool same = v.n > 0;
    for (size_t i = 1; i < v.n; i++) same = same && v.x[i] == v.x[0];
    free(v.x);
    return same;
}

/* The document with its weights as the dtype makes them, in f32. */
static void simulate(json_t *layer, const json_t *weights, const char *dtype, float scale)
{
    size_t count;
    zt_storage t;
    float *w = floats(weights, &count);
    zt_nn_dtype_parse(dtype, &t);
    for (size_t i = 0; i < count; i++) w[i] = zt_loom_simulate(t, w[i], scale);
    char *text = loom_base64(w, count);
    json_object_set_new(layer, "weights", json_string(text));
    json_object_set_new(layer, "dtype", json_string("float32"));
    free(text);
    free(w);
}

/* Of types whose precision changes nothing the original makes what it makes of f32; where it does
 * not, its way for all types but f32 is another function. */
static bool is_another_there(const json_t *root)
{
    size_t count = 0;
    char why[300];
    float *x = floats(by_path(root, "by_dtype.float64.from_master"), &count);
    double *d = doubles(x, count);
    bool same = count == 0 || same_numbers(d, count, root, "post_f32", 1e-4, why, sizeof why);
    free(d);
    free(x);
    return !same;
}

/* Weights through their dtype's precision. Where the original has no code for a type it leaves its
 * output as it begins, all one number, or has another function's: then ours must be that of weights
 * made so beforehand. What `after_morph` holds is not wanted: codes without their scale there, or
 * rounded twice. */
static bool dtype_on(const json_t *root, const char *dtype, const json_t *from_master, char *why, size_t size)
{
    json_t *net = json_deep_copy(json_object_get(root, "network_f32"));
    json_t *layer = json_array_get(json_object_get(net, "layers"), 0);
    size_t count;
    float *x = floats(json_object_get(root, "input"), &count);
    zt_type type = type_of(json_object_get(root, "input"));
    bool nothing = all_same(from_master) || is_another_there(root);
    ran result, made = {0};
    json_object_set_new(layer, "dtype", json_string(dtype));
    json_object_set(layer, "scale", json_object_get(root, "scale"));
    bool well = run_document(net, &type, x, NULL, "cpu", &result, NULL);
    if (!well) snprintf(why, size, "%s", result.why);
    simulate(layer, json_object_get(root, "weights"), dtype, (float)json_number_value(json_object_get(root, "scale")));
    if (well && nothing) {
        well = run_document(net, &type, x, NULL, "cpu", &made, NULL);
        numbers want = {made.y, made.n_y};
        well = well && numbers_are(result.y, result.n_y, &want, "made so beforehand", 1e-6, why, size);
    } else if (well) {
        well = same_numbers(result.y, result.n_y, from_master, "", 1e-4, why, size);
    }
    ran_free(&result);
    ran_free(&made);
    free(x);
    json_decref(net);
    return well;
}

static void dtype_case(const json_t *root, const char *name)
{
    const char *dtype;
    json_t *of;
    json_object_foreach(json_object_get(root, "by_dtype"), dtype, of)
    {
        char why[300] = "";
        const json_t *from_master = json_object_get(of, "from_master");
        bool well = !from_master || dtype_on(root, dtype, from_master, why, sizeof why);
        if (from_master) ok(well, "%s in %s%s%s", name, dtype, well ? "" : ": ", why);
    }
}

int main(void)
{
    static const walked sets[] = {{"loom/layers", layer_case},
                                  {"loom/softmax", layer_case},
                                  {"loom/activations", activation_case},
                                  {"loom/network", network_case},
                                  {"loom/dtype_layers", dtype_case}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) walk_set(&sets[i]);
    diag("%d gradients of steps and branches are right there, and the same here", compared);
    return tap_done();
}
