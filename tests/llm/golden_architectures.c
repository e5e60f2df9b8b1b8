/* golden_architectures.c - made models of every architecture against transformers: logits and embeddings of
 * --exact arithmetic within 1e-4 on cpu and ref, the same bits for any chunk; and of heads that predict further tokens.
 *
 *   golden_arch [FOLDER [GGUF]]
 *
 * FOLDER holds the Hugging Face directories of a make.py; default: archs, dense and others, of tests/llm/archs, tests/llm/dense and so on,
 * beside this program's folder, where the Makefile unpacks them. With GGUF, that folder's NAME.gguf are opened
 * instead: by hand, with what llama.cpp's converter makes of the same directories. The environment's ZT_ENGINE, where it is
 * set, is the only engine: by hand, for a machine with a GPU.
 */
#include "tests/common/npy.h"
#include "tests/common/tap.h"

#include "lib/llm/llm_internal.h"
#include "lib/zt/all.h"
#include <dirent.h>
#include <jansson.h>
#include <libgen.h>
#include <math.h>
#include <unistd.h>

#define BOUND    1e-4
#define MOST_IDS 256

static const char *gguf_folder;

/* ---- a case ---------------------------------------------------------------------------------- */

typedef struct golden {
    char name[256], model[5000];
    int32_t ids[MOST_IDS];
    int64_t n;              /* ids */
    float *logits, *pooled; /* f32[n, V] or NULL (an encoder), f32[width] or scores */
    float *next;            /* f32[n, V] or NULL: the head's, as tests/llm/heads/make.py says */
    int64_t vocab, width;
} golden;

static float *load_matrix(const char *dir, const char *file, int64_t *rows, int64_t *cols)
{
    char path[4700];
    int64_t shape[NPY_MAX_RANK];
    int rank;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    float *x = npy_load_f32(path, shape, &rank);
    *cols = x ? shape[rank - 1] : 0;
    *rows = x && rank == 2 ? shape[0] : 1;
    return x;
}

static bool golden_open(golden *c, const char *folder, const char *name)
{
    char dir[4600], path[4700];
    int64_t rows = 0;
    *c = (golden){0};
    snprintf(c->name, sizeof c->name, "%s", name);
    snprintf(dir, sizeof dir, "%s/%s", folder, name);
    snprintf(path, sizeof path, "%s/case.json", dir);
    json_t *root = json_load_file(path, 0, NULL);
    const json_t *ids = json_object_get(root, "ids");
    bool text = strcmp(json_string_value(json_object_get(root, "kind")), "text") == 0;
    c->n = (int64_t)json_array_size(ids);
    for (int64_t i = 0; i < c->n && i < MOST_IDS; i++) c->ids[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
    json_decref(root);
    if (text) c->logits = load_matrix(dir, "logits.npy", &rows, &c->vocab);
    c->pooled = load_matrix(dir, "pooled.npy", &(int64_t){0}, &c->width);
    snprintf(c->model, sizeof c->model, gguf_folder ? "%s/%s.gguf" : "%s/%s", gguf_folder ? gguf_folder : folder, name);
    c->next = load_matrix(dir, "next.npy", &(int64_t){0}, &(int64_t){0});
    return c->n > 0 && c->n <= MOST_IDS && c->pooled && (!text || rows == c->n);
}

static void golden_close(golden *c)
{
    free(c->logits);
    free(c->pooled);
    free(c->next);
}

/* ---- a model --------------------------------------------------------------------------------- */

typedef struct model {
    zt_ctx *ctx;
    zt_gguf *g;
    zt_engine *e;
    zt_llm *m;
} model;

/* The context is as short as the ids allow: what long texts make of a model is asked for by long
 * cases (Phi-3's factors for a context beyond its original one). */
static bool model_open(model *o, const golden *c, const char *engine, int64_t chunk, bool embed)
{
    *o = (model){.ctx = zt_ctx_new()};
    o->g = zt_model_open(o->ctx, c->model);
    o->e = zt_engine_open(o->ctx, engine, &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    zt_llm_opts lo = {
        .engine = o->e, .ctx_len = (c->n + 31) / 32 * 32, .chunk = chunk, .exact = true, .kv = ZT_DTYPE_COUNT, .embed = embed};
    o->m = o->g && o->e ? zt_llm_open(o->g, &lo) : NULL;
    if (!o->m) diag("%s: %s", c->name, zt_ctx_error(o->ctx));
    return o->m;
}

static bool model_close(model *o)
{
    zt_llm_close(o->m);
    zt_engine_close(o->e);
    zt_gguf_close(o->g);
    size_t left = zt_mem_get(o->ctx).blocks;
    if (left) diag("%zu blocks leak", left);
    zt_ctx_free(o->ctx);
    return left == 0;
}

/* f32[n, V], malloc'ed, or NULL. */
static float *logits_of(const golden *c, const char *engine, int64_t chunk)
{
    model o;
    float *y = calloc((size_t)(c->n * c->vocab), sizeof *y);
    bool good = model_open(&o, c, engine, chunk, false);
    if (good && zt_llm_get(o.m).vocab != c->vocab) {
        diag("%s: a vocabulary of %d", c->name, (int)zt_llm_get(o.m).vocab);
        good = false;
    }
    if (good && zt_llm_feed(o.m, c->ids, (size_t)c->n, true, y) != ZT_OK) {
        diag("%s: %s", c->name, zt_ctx_error(o.ctx));
        good = false;
    }
    if (model_close(&o) && good) return y;
    free(y);
    return NULL;
}

static float *embedding_of(const golden *c, const char *engine)
{
    model o;
    float *y = calloc((size_t)c->width, sizeof *y);
    bool good = model_open(&o, c, engine, 0, true) && zt_llm_get(o.m).vector == c->width &&
                zt_llm_embed(o.m, c->ids, (size_t)c->n, y) == ZT_OK;
    if (!good) diag("%s: %s", c->name, zt_ctx_error(o.ctx));
    if (model_close(&o) && good) return y;
    free(y);
    return NULL;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double distance(const float *a, const float *b, int64_t count)
{
    double most = a && b ? 0 : INFINITY;
    for (int64_t i = 0; a && b && i < count; i++) {
        double d = fabs((double)a[i] - b[i]);
        most = d <= most ? most : d; /* a NaN is far */
    }
    return most;
}

/* The first row that is off tells what is wrong: 0 a weight, 1 a rotation, later ones a window. */
static void print_deviation(const golden *c, const float *y)
{
    for (int64_t row = 0; y && row < c->n; row++) {
        double d = distance(c->logits + row * c->vocab, y + row * c->vocab, c->vocab);
        if (d <= BOUND) continue;
        diag("%s: off from row %d: %.3g", c->name, (int)row, d);
        return;
    }
}

static void try_logits(const golden *c, const char *engine)
{
    float *y = logits_of(c, engine, 0);
    double d = distance(c->logits, y, c->n * c->vocab);
    if (!ok(d <= BOUND, "%s on %s: logits off by %.2g", c->name, engine, d)) print_deviation(c, y);
    static const int64_t chunk[] = {1, 7};
    bool same = y;
    for (size_t i = 0; i < sizeof chunk / sizeof *chunk; i++) {
        float *z = logits_of(c, engine, chunk[i]);
        same = same && z && memcmp(y, z, (size_t)(c->n * c->vocab) * sizeof *y) == 0;
        free(z);
    }
    ok(same, "%s on %s: the same bits for chunks of 1, 7 and all", c->name, engine);
    free(y);
}

/* ---- heads ----------------------------------------------------------------------------------- */

/* The head's logits of each row of the text behind the first, all in one step; and then of one row that reads its own state. */
static bool feed_head(const golden *c, zt_llm *m, zt_llm *head, float *y)
{
    const size_t rows = (size_t)c->n - 1;
    float *state = calloc((size_t)c->width, sizeof *state);
    bool good = zt_llm_feed(m, c->ids, (size_t)c->n, false, NULL) == ZT_OK &&
                zt_llm_feed_head(head, c->ids + 1, zt_hidden_at(m->hidden, 0), rows, true, y, NULL) == ZT_OK &&
                zt_llm_rewind(head, (int64_t)rows - 1) == ZT_OK &&
                zt_llm_feed_head(head, c->ids + rows, zt_hidden_at(m->hidden, rows - 1), 1, false,
                                 y + (rows - 1) * (size_t)c->vocab, state) == ZT_OK &&
                zt_llm_feed_head(head, c->ids, state, 1, false, y + rows * (size_t)c->vocab, NULL) == ZT_OK;
    free(state);
    return good;
}

static void try_head(const golden *c, const char *engine)
{
    model o = {.ctx = zt_ctx_new()};
    float *y = calloc((size_t)(c->n * c->vocab), sizeof *y);
    o.g = zt_model_open(o.ctx, c->model);
    o.e = zt_engine_open(o.ctx, engine, &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    zt_llm_opts lo = {.engine = o.e, .ctx_len = 32, .exact = true, .kv = ZT_DTYPE_COUNT, .hidden = true};
    o.m = o.g && o.e ? zt_llm_open(o.g, &lo) : NULL;
    lo.hidden = false;
    lo.head = true;
    lo.lender = o.m;
    zt_llm *head = o.m ? zt_llm_open(o.g, &lo) : NULL;
    bool good = head && feed_head(c, o.m, head, y);
    if (!good) diag("%s: %s", c->name, zt_ctx_error(o.ctx));
    zt_llm_close(head);
    double d = model_close(&o) && good ? distance(c->next, y, c->n * c->vocab) : INFINITY;
    ok(d <= BOUND, "%s on %s: logits of the head off by %.2g", c->name, engine, d);
    free(y);
}

static void try_case(const char *folder, const char *name)
{
    const char *only = getenv("ZT_ENGINE");
    const char *const engines[] = {only ? only : "cpu", only ? NULL : "ref"};
    golden c;
    bool there = golden_open(&c, folder, name);
    if (!there) ok(false, "%s: a case", name);
    for (size_t i = 0; there && i < sizeof engines / sizeof *engines && engines[i]; i++) {
        if (c.logits) try_logits(&c, engines[i]);
        if (c.next) try_head(&c, engines[i]);
        float *y = embedding_of(&c, engines[i]);
        double d = distance(c.pooled, y, c.width);
        ok(d <= BOUND, "%s on %s: embedding off by %.2g", name, engines[i], d);
        free(y);
    }
    golden_close(&c);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int is_case(const struct dirent *e) { return e->d_name[0] != '.'; }

static void try_all(const char *folder)
{
    struct dirent **entry;
    int count = scandir(folder, &entry, is_case, alphasort);
    ok(count > 0, "%s: %d models", folder, count);
    for (int i = 0; i < count; i++) {
        char path[8192];
        snprintf(path, sizeof path, "%s/%s.gguf", gguf_folder ? gguf_folder : "", entry[i]->d_name);
        if (!gguf_folder || access(path, R_OK) == 0) try_case(folder, entry[i]->d_name);
        free(entry[i]);
    }
    if (count >= 0) free(entry);
}

int main(int argc, char **argv)
{
    static const char *const sets[] = {"archs", "dense",       "gpt_oss", "latent", "rows", "gemma",
                                       "delta", "state_space", "further", "rwkv",   "heads"};
    char self[4096], folder[4200];
    snprintf(self, sizeof self, "%s", argv[0]);
    const char *programs = dirname(self);
    gguf_folder = argc > 2 ? argv[2] : NULL;
    if (argc > 1) try_all(argv[1]);
    for (size_t i = 0; i < sizeof sets / sizeof *sets && argc < 2; i++) {
        snprintf(folder, sizeof folder, "%s/../%s", programs, sets[i]);
        try_all(folder);
    }
    return tap_done();
}
