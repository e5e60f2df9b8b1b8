/* nn_clock.c - networks as clocked meshes: chains, links forward and back in time, disabled and
 * empty places, against hand-made cycles; gradients through time; golden/loom systolic. */
#include "tests/common/made_network.h"
#include "tests/common/golden_network.h"

enum { D = 3, PLACES = 4 };

/* ---- by hand --------------------------------------------------------------------------------- */

/* What each place holds of one row, and whether it holds anything. */
typedef struct held {
    float x[PLACES][D];
    bool any[PLACES];
} held;

/* One cycle: place i reads source[i]; w[i] NULL passes that on, else tanh(w x). */
static void cycle_by_hand(held *h, const int source[PLACES], const float *const w[PLACES])
{
    held was = *h;
    for (int i = 0; i < PLACES; i++) {
        const float *x = was.x[source[i]];
        if (!was.any[source[i]]) continue;
        h->any[i] = true;
        for (int o = 0; o < D; o++) {
            double s = 0;
            for (int k = 0; k < D && w[i]; k++) s += (double)w[i][D * o + k] * x[k];
            h->x[i][o] = w[i] ? (float)tanh(s) : x[o];
        }
    }
}

#define LINK(l, target)                                                                                                          \
    "{\"type\":\"Dense\",\"l\":" #l ",\"input_height\":3,\"output_height\":3,"                                                   \
    "\"activation\":\"tanh\",\"is_remote_link\":true,\"target_l\":" #target "}"
#define OFF(l)                                                                                                                   \
    "{\"type\":\"Dense\",\"l\":" #l ",\"input_height\":9,\"output_height\":9,\"is_disabled\":"                                   \
    "true}"

static const struct {
    const char *what, *text;
    int source[PLACES], weight[PLACES]; /* -1: none */
} meshes[] = {
    {"a chain", GRID(4) DENSE(0, 3, 3) "," DENSE(1, 3, 3) "," DENSE(2, 3, 3) "," DENSE(3, 3, 3) END, {0, 0, 1, 2}, {0, 1, 2, 3}},
    {"a link to an earlier place",
     GRID(4) DENSE(0, 3, 3) "," DENSE(1, 3, 3) "," LINK(2, 0) "," DENSE(3, 3, 3) END,
     {0, 0, 0, 2},
     {0, 1, 2, 3}},
    {"a link back in time",
     GRID(4) LINK(0, 2) "," DENSE(1, 3, 3) "," DENSE(2, 3, 3) "," DENSE(3, 3, 3) END,
     {2, 0, 1, 2},
     {0, 1, 2, 3}},
    {"a place that is its own target",
     GRID(4) DENSE(0, 3, 3) "," DENSE(1, 3, 3) "," LINK(2, 3) "," LINK(3, 1) END,
     {0, 0, 3, 1},
     {0, 1, 2, 3}},
    {"a disabled place and an empty one", GRID(4) DENSE(0, 3, 3) "," OFF(1) "," DENSE(3, 3, 3) END, {0, 0, 1, 2}, {0, -1, -1, 2}},
    {"a link to an empty place", GRID(4) DENSE(0, 3, 3) "," DENSE(1, 3, 3) "," LINK(3, 2) END, {0, 0, 1, 2}, {0, 1, -1, 2}},
};

static void test_mesh(zt_ctx *ctx, size_t m, const char *engine, int64_t cycles)
{
    zt_nn *nn = open_text(ctx, meshes[m].text);
    size_t count = 0;
    float *y = nn ? run_as(nn, engine, &(zt_nn_options){.cycles = cycles}, 2, 0, &count) : NULL;
    bool same = y && count == 2 * D;
    for (int r = 0; r < 2 && same; r++) {
        held h = {.any = {true}};
        const float *w[PLACES];
        for (int i = 0; i < PLACES; i++) {
            int at = meshes[m].weight[i];
            w[i] = at < 0 ? NULL : zt_nn_weight_at(nn, at)->values;
        }
        for (int i = 0; i < D; i++) h.x[0][i] = (float)zt_normal(7, 0, (uint64_t)(r * D + i));
        for (int64_t c = 0; c < cycles; c++) cycle_by_hand(&h, meshes[m].source, w);
        for (int i = 0; i < D; i++) same = same && h.any[PLACES - 1] && fabsf(y[r * D + i] - h.x[PLACES - 1][i]) < 1e-6f;
    }
    ok(same, "%s, %d cycles on %s%s", meshes[m].what, (int)cycles, engine, zt_ctx_error(ctx));
    free(y);
    zt_nn_close(nn);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void test_refused(int64_t cycles, const char *text, zt_status status, const char *says)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_nn *nn = open_text(ctx, text);
    zt_prog *program = nn ? zt_nn_prog_as(nn, &(zt_nn_options){.cycles = cycles}) : NULL;
    ok(nn && !program && zt_ctx_status(ctx) == status && strstr(zt_ctx_error(ctx), says), "refused: %s", zt_ctx_error(ctx));
    zt_prog_free(program);
    zt_nn_close(nn);
    if (zt_mem_get(ctx).blocks) ok(false, "%zu blocks leak", zt_mem_get(ctx).blocks);
    zt_ctx_free(ctx);
}

/* ---- golden ---------------------------------------------------------------------------------- */

static json_t *with_masters(const json_t *root)
{
    json_t *net = json_deep_copy(json_object_get(root, "network")), *layer;
    size_t i;
    json_array_foreach(json_object_get(net, "layers"), i, layer)
    {
        size_t first = 0;
        loom_put_master(layer, json_array_get(json_object_get(root, "masters_before"), i), &first);
    }
    return net;
}

/* The program of all cycles with its gradient by d.y; every place's value of every cycle goes out
 * after these, *n_each of them. */
static zt_prog *clocked(zt_ctx *ctx, zt_nn *nn, const zt_type *type, int64_t cycles, int *each, size_t n_each, bool grads)
{
    zt_prog *program = zt_prog_new(ctx);
    int wrt[MAX_GRADS], count = 1;
    wrt[0] = zt_prog_in(program, "x", ZT_F32, type->rank, type->dim);
    int y = zt_nn_emit_as(nn, program, wrt[0], &(zt_nn_options){.cycles = cycles}, each);
    bool well = y >= 0 && zt_prog_out(program, "y", y) == ZT_OK;
    for (size_t i = 0; i < n_each && well && !grads; i++) {
        char name[32];
        snprintf(name, sizeof name, "each.%zu", i);
        if (each[i] >= 0) well = zt_prog_out(program, name, each[i]) == ZT_OK;
    }
    for (int64_t i = 0; i < zt_nn_n_weights(nn) && grads && count < MAX_GRADS - 2; i++)
        if ((wrt[count] = zt_prog_find(program, zt_nn_weight_at(nn, i)->name)) >= 0) count++;
    zt_prog *g = well && grads ? zt_prog_grad(ctx, program, wrt, count, &(zt_grad_opts){.seeds = true}) : NULL;
    if (well && !grads) return program;
    zt_prog_free(program);
    return g;
}

typedef struct mesh_case {
    zt_ctx *ctx;
    zt_nn *nn;
    zt_engine *engine;
    const json_t *root;
    zt_type t;
    int64_t cycles;
    float *x, *dy;
    char *why;
    size_t size;
} mesh_case;

/* What places hold after each cycle. */
static bool forward_is(mesh_case *m)
{
    const json_t *cycles = json_object_get(m->root, "layer_data_after_each_cycle"), *list, *v;
    size_t n_each = (size_t)(m->cycles * zt_nn_count(m->nn)), c, i, at = 0;
    int each[MAX_GRADS];
    numbers want = {0};
    ran result = {0};
    if (n_each > MAX_GRADS - 4) return false;
    zt_prog *program = clocked(m->ctx, m->nn, &m->t, m->cycles, each, n_each, false);
    bool well = program && run_program(m->ctx, m->engine, m->nn, program, (const void *const[]){m->x}, &result);
    if (!well) snprintf(m->why, m->size, "%s", zt_ctx_error(m->ctx));
    json_array_foreach(cycles, c, list) json_array_foreach(list, i, v)
    {
        well = well && (json_is_null(v) == (each[at++] < 0));
        if (!json_is_null(v)) put_all(&want, v);
    }
    for (size_t k = 0; well && k < result.n_w; k++) /* outputs 1 and on: dx and dw of `step` */
        if (!loom_near(result.dw[k], want.x[result.n_x + k], 1e-5)) well = false;
    for (size_t k = 0; well && k < result.n_x; k++)
        if (!loom_near(result.dx[k], want.x[k], 1e-5)) well = false;
    if (!well && !*m->why) snprintf(m->why, m->size, "another value in some cycle");
    well = well && result.n_x + result.n_w == want.n;
    ran_free(&result);
    free(want.x);
    zt_prog_free(program);
    return well;
}

/* Gradients through all cycles. The original's derivative of GELU is another form's. */
static bool backward_is(mesh_case *m)
{
    int each[MAX_GRADS];
    numbers want = {0};
    ran result = {0};
    zt_prog *program = clocked(m->ctx, m->nn, &m->t, m->cycles, each, 0, true);
    bool well = program && run_program(m->ctx, m->engine, m->nn, program, (const void *const[]){m->x, m->dy}, &result);
    if (!well) snprintf(m->why, m->size, "%s", zt_ctx_error(m->ctx));
    put_all(&want, json_object_get(m->root, "backward_layer_grad_weights"));
    well = well && same_numbers(result.dx, result.n_x, m->root, "backward_grad_input", 2e-3, m->why, m->size);
    well = well && numbers_are(result.dw, result.n_w, &want, "backward_layer_grad_weights", 2e-3, m->why, m->size);
    ran_free(&result);
    free(want.x);
    zt_prog_free(program);
    return well;
}

static bool systolic_on(const json_t *root, const char *engine, char *why, size_t size)
{
    size_t count;
    json_t *net = with_masters(root);
    char *text = json_dumps(net, JSON_COMPACT);
    mesh_case m = {.ctx = zt_ctx_new(),
                   .root = root,
                   .why = why,
                   .size = size,
                   .t = type_of(json_object_get(root, "input")),
                   .cycles = json_integer_value(json_object_get(root, "cycles")),
                   .x = floats(json_object_get(root, "input"), &count),
                   .dy = floats(json_object_get(root, "grad_output"), &count)};
    m.nn = open_text(m.ctx, text);
    m.engine = zt_engine_open(m.ctx, engine, NULL);
    bool well = m.nn && m.engine && forward_is(&m) && backward_is(&m);
    if (!m.nn) snprintf(why, size, "%s", zt_ctx_error(m.ctx));
    zt_engine_close(m.engine);
    zt_nn_close(m.nn);
    zt_ctx_free(m.ctx);
    free(m.x);
    free(m.dy);
    free(text);
    json_decref(net);
    return well;
}

static void systolic_case(const json_t *root, const char *name)
{
    for (int e = 0; e < 2; e++) {
        char why[300] = "";
        bool well = systolic_on(root, engines[e], why, sizeof why);
        ok(well, "%s on %s%s%s", name, engines[e], well ? "" : ": ", why);
    }
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (int e = 0; e < 2; e++)
            for (int64_t cycles = 4; cycles <= 9; cycles += 5) test_mesh(ctx, m, engines[e], cycles);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    test_refused(2, meshes[0].text, ZT_EUSAGE, "no output after 2 cycles: the last layer has not been reached");
    test_refused(20000, meshes[0].text, ZT_EUSAGE, "20000 cycles times 4 places");
    test_refused(4, GRID(2) LINK(0, 1) "," LINK(1, 5) END, ZT_EDATA,
                 "layers.1 (Dense): the link's target 0,0,0,5 is outside the grid");
    walk_set(&(walked){"loom/systolic", systolic_case});
    return tap_done();
}
