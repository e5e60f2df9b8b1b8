/* golden_transformers.c - golden/loom/transformer: greedy tokens of Loom's tiny transformers, by lib/llm.
 *
 * A case is a network of blocks RMSNorm, MultiHeadAttention, RMSNorm, SwiGLU with the layouts that
 * the golden README names. It becomes a llama model in memory: llama rotates neighbouring columns
 * where Loom rotates halves, so rows of Q and K are put in llama's order, as llama.cpp's converter
 * does. Ids must be equal for each repetition penalty, on both engines and by --exact.
 */
#include "tests/common/gguf_writer.h"
#include "tests/common/golden.h"
#include "tests/common/tap.h"

#include "lib/zt/all.h"
#include <dirent.h>
#include <jansson.h>

enum { MOST_IDS = 1024 };

static int64_t whole(const json_t *object, const char *key) { return (int64_t)json_number_value(json_object_get(object, key)); }

/* ---- weights --------------------------------------------------------------------------------- */

/* Base64 of little-endian f32; malloc'ed, *count values. */
static float *weights_of(const json_t *layer, int64_t *count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const json_t *text = json_object_get(layer, "weights");
    size_t len = json_string_length(text), done = 0;
    uint8_t *out = malloc(len + 4);
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; out && i < len; i++) {
        const char *at = strchr(digits, json_string_value(text)[i]);
        if (!at || !*at) break;
        bits = bits << 6 | (uint32_t)(at - digits);
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[done++] = (uint8_t)(bits >> held);
        }
    }
    *count = (int64_t)(done / 4);
    return (float *)out;
}

static float *floats_of(const json_t *array, int64_t *n)
{
    *n = (int64_t)json_array_size(array);
    float *x = malloc((size_t)*n * sizeof *x + 1);
    for (int64_t i = 0; x && i < *n; i++) x[i] = (float)json_number_value(json_array_get(array, (size_t)i));
    return x;
}

/* Rows of each head from halves to neighbours: row i of the first half, row i of the second, ... */
static void interleave(float *w, int64_t heads, int64_t head, int64_t cols)
{
    size_t row = (size_t)cols * sizeof *w;
    float *old = malloc((size_t)head * row);
    for (int64_t h = 0; old && h < heads; h++, w += head * cols) {
        memcpy(old, w, (size_t)head * row);
        for (int64_t i = 0; i < head; i++) memcpy(w + i * cols, old + (i / 2 + i % 2 * (head / 2)) * cols, row);
    }
    free(old);
}

/* ---- a model --------------------------------------------------------------------------------- */

typedef struct made {
    ggufw w;
    const float *at; /* weights still to be written, and how many */
    int64_t left;
    bool good;
} made;

/* The next rows x cols weights (cols 0: a vector). */
static void put_tensor(made *made_model, int64_t block, const char *what, int64_t rows, int64_t cols)
{
    char name[64];
    int64_t count = rows * (cols ? cols : 1);
    snprintf(name, sizeof name, "blk.%lld.%s", (long long)block, what);
    made_model->good = made_model->good && count > 0 && count <= made_model->left;
    if (!made_model->good) return;
    ggufw_tensor(&made_model->w, name, 0, cols ? 2 : 1, (int64_t[]){rows, cols}, made_model->at, (size_t)count * 4);
    made_model->at += count;
    made_model->left -= count;
}

static void put_norm(made *m, int64_t block, const json_t *l, bool second)
{
    put_tensor(m, block, second ? "ffn_norm.weight" : "attn_norm.weight", whole(l, "input_height"), 0);
}

static void put_attention(made *made_model, int64_t block, const json_t *l, float *w)
{
    int64_t d = whole(l, "d_model"), head = whole(l, "head_dim"), heads = whole(l, "num_heads"),
            kv_heads = whole(l, "num_kv_heads"), q = heads * head, kv = kv_heads * head;
    int64_t biases = q * d + 2 * kv * d + d * q;
    made_model->good = made_model->good && head > 0 && made_model->left == biases + q + 2 * kv + d;
    if (!made_model->good) return;
    interleave(w, heads, head, d);
    interleave(w + q * d, kv_heads, head, d);
    interleave(w + biases, heads, head, 1);
    interleave(w + biases + q, kv_heads, head, 1);
    put_tensor(made_model, block, "attn_q.weight", q, d);
    put_tensor(made_model, block, "attn_k.weight", kv, d);
    put_tensor(made_model, block, "attn_v.weight", kv, d);
    put_tensor(made_model, block, "attn_output.weight", d, q);
    put_tensor(made_model, block, "attn_q.bias", q, 0);
    put_tensor(made_model, block, "attn_k.bias", kv, 0);
    put_tensor(made_model, block, "attn_v.bias", kv, 0);
    put_tensor(made_model, block, "attn_output.bias", d, 0);
}

static void put_mlp(made *made_model, int64_t block, const json_t *l)
{
    int64_t d = whole(l, "input_height"), inter = whole(l, "output_height");
    put_tensor(made_model, block, "ffn_gate.weight", inter, d);
    put_tensor(made_model, block, "ffn_up.weight", inter, d);
    put_tensor(made_model, block, "ffn_down.weight", d, inter);
    put_tensor(made_model, block, "ffn_gate.bias", inter, 0);
    put_tensor(made_model, block, "ffn_up.bias", inter, 0);
    put_tensor(made_model, block, "ffn_down.bias", d, 0);
}

static void put_layer(made *made_model, const json_t *l, int64_t i)
{
    static const char *const order[] = {"RMSNorm", "MultiHeadAttention", "RMSNorm", "SwiGLU"};
    const char *type = json_string_value(json_object_get(l, "type"));
    float *w = weights_of(l, &made_model->left);
    made_model->at = w;
    made_model->good = made_model->good && w && type && strcmp(type, order[i % 4]) == 0;
    if (i % 2 == 0)
        put_norm(made_model, i / 4, l, i % 4 == 2);
    else if (i % 4 == 1)
        put_attention(made_model, i / 4, l, w);
    else
        put_mlp(made_model, i / 4, l);
    made_model->good = made_model->good && made_model->left == 0;
    free(w);
}

/* An array of the case as a tensor; none where the case has none. */
static void put_array(made *made_model, const json_t *root, const char *key, const char *name, int64_t rows, int64_t cols)
{
    int64_t count;
    float *x = floats_of(json_object_get(root, key), &count);
    made_model->good = made_model->good && x && (count == 0 || count == rows * (cols ? cols : 1));
    if (made_model->good && count)
        ggufw_tensor(&made_model->w, name, 0, cols ? 2 : 1, (int64_t[]){rows, cols}, x, (size_t)count * 4);
    free(x);
}

static void put_keys(made *made_model, const json_t *root, const json_t *layers)
{
    const json_t *attention = json_array_get(layers, 1), *mlp = json_array_get(layers, 3);
    double theta = json_number_value(json_object_get(attention, "rope_freq_base"));
    ggufw_str(&made_model->w, "general.architecture", "llama");
    ggufw_u32(&made_model->w, "llama.context_length", MOST_IDS);
    ggufw_u32(&made_model->w, "llama.embedding_length", (uint32_t)whole(root, "d_model"));
    ggufw_u32(&made_model->w, "llama.block_count", (uint32_t)whole(root, "blocks"));
    ggufw_u32(&made_model->w, "llama.feed_forward_length", (uint32_t)whole(mlp, "output_height"));
    ggufw_u32(&made_model->w, "llama.attention.head_count", (uint32_t)whole(attention, "num_heads"));
    ggufw_u32(&made_model->w, "llama.attention.head_count_kv", (uint32_t)whole(attention, "num_kv_heads"));
    ggufw_u32(&made_model->w, "llama.attention.key_length", (uint32_t)whole(attention, "head_dim"));
    ggufw_u32(&made_model->w, "llama.attention.value_length", (uint32_t)whole(attention, "head_dim"));
    ggufw_f32(&made_model->w, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
    ggufw_f32(&made_model->w, "llama.rope.freq_base", theta > 0 ? (float)theta : 1e4f);
    if (!(theta > 0)) { /* no rope: turns too small for a float to tell */
        ggufw_str(&made_model->w, "llama.rope.scaling.type", "linear");
        ggufw_f32(&made_model->w, "llama.rope.scaling.factor", 1e30f);
    }
}

/* The case as a GGUF file, malloc'ed; NULL: not such a network. */
static char *make_gguf(const json_t *root, size_t *count)
{
    made made_model = {.good = true};
    const json_t *layers = json_object_get(json_object_get(root, "network"), "layers");
    int64_t d = whole(root, "d_model"), vocab = whole(root, "vocab");
    made_model.good = (int64_t)json_array_size(layers) == 4 * whole(root, "blocks");
    put_keys(&made_model, root, layers);
    put_array(&made_model, root, "embeddings", "token_embd.weight", vocab, d);
    put_array(&made_model, root, "final_norm", "output_norm.weight", d, 0);
    put_array(&made_model, root, "lm_head", "output.weight", vocab, d);
    for (size_t i = 0; i < json_array_size(layers); i++) put_layer(&made_model, json_array_get(layers, i), (int64_t)i);
    char *file = ggufw_bytes(&made_model.w, count);
    if (made_model.good) return file;
    free(file);
    return NULL;
}

/* ---- greedy ---------------------------------------------------------------------------------- */

typedef struct run {
    const char *engine;
    const int32_t *want; /* prompt and what follows */
    size_t n_prompt, n;
    int64_t window, vocab;
    double penalty;
} run;

/* How many ids are equal, the prompt's included. */
static size_t follow(const run *r, zt_llm *model)
{
    zt_sampler sampler = zt_sampler_defaults();
    float *y = calloc((size_t)(3 * r->vocab), sizeof *y);
    size_t at = r->n_prompt;
    sampler.temp = 0;
    sampler.repeat_penalty = r->penalty;
    sampler.repeat_last = r->window;
    bool fed = y && zt_llm_feed(model, r->want, at, false, y) == ZT_OK;
    for (; fed && at < r->n; at++) {
        int32_t id = zt_sample(&sampler, y, r->vocab, r->want, at, (int64_t)at, y + r->vocab);
        if (id != r->want[at]) break;
        fed = zt_llm_feed(model, &id, 1, false, y) == ZT_OK;
    }
    free(y);
    return at;
}

static size_t greedy(const run *r, const char *file, size_t bytes)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_source *src = zt_source_memory(ctx, "loom", file, bytes);
    zt_gguf *gguf = src ? zt_gguf_from(ctx, src) : NULL;
    zt_engine *e = zt_engine_open(ctx, r->engine, &(zt_engine_opts){.isa = zt_isa_best()});
    zt_llm_opts o = {.engine = e, .exact = true, .kv = ZT_DTYPE_COUNT, .ctx_len = MOST_IDS};
    zt_llm *model = gguf && e ? zt_llm_open(gguf, &o) : NULL;
    size_t equal = model && zt_llm_get(model).vocab == r->vocab ? follow(r, model) : 0;
    if (zt_ctx_status(ctx)) diag("%s", zt_ctx_error(ctx));
    zt_llm_close(model);
    zt_engine_close(e);
    zt_gguf_close(gguf);
    zt_source_close(src);
    zt_ctx_free(ctx);
    return equal;
}

static void try_case(const char *name, json_t *root)
{
    static const char *const engines[] = {"cpu", "ref"};
    size_t bytes;
    int32_t want[MOST_IDS];
    char *file = make_gguf(root, &bytes);
    const char *penalty;
    json_t *ids, *by_penalty = json_object_get(root, "greedy_tokens_by_repetition_penalty");
    if (!ok(file && json_object_size(by_penalty) > 0, "%s: a network of such blocks", name)) return;
    json_object_foreach(by_penalty, penalty, ids)
    {
        run r = {.want = want,
                 .n_prompt = json_array_size(json_object_get(root, "prompt")),
                 .window = whole(root, "repetition_window"),
                 .vocab = whole(root, "vocab"),
                 .penalty = strtod(penalty, NULL)};
        for (; r.n < json_array_size(ids) && r.n < MOST_IDS; r.n++)
            want[r.n] = (int32_t)json_integer_value(json_array_get(ids, r.n));
        for (size_t e = 0; e < sizeof engines / sizeof *engines; e++) {
            r.engine = engines[e];
            size_t equal = greedy(&r, file, bytes);
            ok(r.n > r.n_prompt && equal == r.n, "%s, penalty %s, %s: %zu of %zu ids", name, penalty, r.engine, equal, r.n);
        }
    }
    free(file);
}

static int is_case(const struct dirent *e) { return strstr(e->d_name, ".json") != NULL; }

int main(void)
{
    char folder[4096], path[4500];
    struct dirent **entry;
    int count = golden_holds("loom/transformer", folder) ? scandir(folder, &entry, is_case, alphasort) : -1;
    if (count < 1) diag("no cases");
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        json_t *root = json_load_file(path, 0, NULL);
        try_case(entry[i]->d_name, root);
        json_decref(root);
        free(entry[i]);
    }
    if (count >= 0) free(entry);
    return tap_done();
}
