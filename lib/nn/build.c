/* build.c - owns networks made from nothing: specifications by S3's builders, as documents, read as
 * any other. */
#include "lib/base/near.h"
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

typedef struct builder {
    zt_ctx *ctx;
    const zt_nn_arch *a;
    zt_str text;
    int64_t layers; /* so far */
} builder;

/* A layer at the next place; `more` is the rest of its members. */
static void put(builder *b, int64_t per_cell, const char *type, zt_nn_act act)
{
    int64_t i = b->layers++, cell = i / per_cell, row = cell / b->a->grid_cols;
    zt_str_printf(&b->text,
                  "%s{\"z\":%" PRId64 ",\"y\":%" PRId64 ",\"x\":%" PRId64 ",\"l\":%" PRId64
                  ",\"type\":\"%s\",\"activation\":\"%s\",\"dtype\":\"float32\"",
                  i ? ",\n" : "", row / b->a->grid_rows, row % b->a->grid_rows,
                  cell % b->a->grid_cols, i % per_cell, type, zt_nn_act_name(act));
}

static void number(builder *b, const char *key, int64_t v)
{
    zt_str_printf(&b->text, ",\"%s\":%" PRId64, key, v);
}

static void sizes(builder *b, int64_t in, int64_t out)
{
    number(b, "input_height", in);
    number(b, "output_height", out);
}

static void end(builder *b) { zt_str_putc(&b->text, '}'); }

/* ---- sequential ------------------------------------------------------------------------------ */

/* Dense layers of d_model in every place; the first takes input_size and the last gives classes,
 * with no activation. */
static zt_status sequential(builder *b)
{
    const zt_nn_arch *a = b->a;
    int64_t n = a->grid_depth * a->grid_rows * a->grid_cols * a->layers_per_cell;
    for (int64_t i = 0; i < n; i++) {
        bool last = i + 1 == n;
        put(b, a->layers_per_cell, "Dense", last ? ZT_NN_LINEAR : a->act);
        sizes(b, i ? a->d_model : a->input_size, last ? a->classes : a->d_model);
        end(b);
    }
    return ZT_OK;
}

/* ---- cnn ------------------------------------------------------------------------------------- */

static void conv(builder *b, int64_t in, int64_t filters, int64_t side)
{
    put(b, 5, "CNN2", b->a->act);
    sizes(b, side, side - 2);
    number(b, "input_width", side);
    number(b, "output_width", side - 2);
    number(b, "input_channels", in);
    number(b, "filters", filters);
    number(b, "kernel_size", 3);
    number(b, "stride", 1);
    end(b);
}

/* Two convolutions of 16 and 32 kernels of 3 x 3 over input_size x input_size, a layer of 128, the
 * classes. (S3's ends in a softmax over those 128.) */
static zt_status cnn(builder *b)
{
    int64_t side = b->a->input_size, flat = 32 * (side - 4) * (side - 4);
    if (side < 5)
        return zt_fail(b->ctx, ZT_EUSAGE, "inputSize is %" PRId64 ": two kernels of 3 take 5",
                       side);
    conv(b, 1, 16, side);
    conv(b, 16, 32, side - 2);
    put(b, 5, "Dense", b->a->act);
    sizes(b, flat, 128);
    end(b);
    put(b, 5, "Dense", ZT_NN_LINEAR);
    sizes(b, 128, b->a->classes);
    end(b);
    return ZT_OK;
}

/* ---- transformer ----------------------------------------------------------------------------- */

/* x + f(norm(x)): a Residual adds what came into the step before it. */
static void block(builder *b, const char *type, int64_t out)
{
    const zt_nn_arch *a = b->a;
    put(b, a->layers_per_cell, "Sequential", ZT_NN_LINEAR);
    zt_str_puts(&b->text,
                ",\"sequential_layers\":[{\"type\":\"Sequential\",\"sequential_layers\":[");
    zt_str_printf(&b->text, "{\"type\":\"RMSNorm\",\"input_height\":%" PRId64 "},{\"type\":\"%s\"",
                  a->d_model, type);
    sizes(b, a->d_model, out);
    number(b, "d_model", a->d_model);
    number(b, "num_heads", a->num_heads);
    zt_str_puts(&b->text, ",\"rope_freq_base\":10000}]},{\"type\":\"Residual\"}]");
    end(b);
}

static zt_status transformer(builder *b)
{
    const zt_nn_arch *a = b->a;
    int64_t n = a->grid_depth * a->grid_rows * a->grid_cols * a->layers_per_cell;
    if (a->d_model % a->num_heads)
        return zt_fail(b->ctx, ZT_EUSAGE,
                       "dModel %" PRId64 " is not shared evenly by %" PRId64 " heads", a->d_model,
                       a->num_heads);
    for (int64_t i = 0; i < n; i++)
        block(b, i % 2 ? "SwiGLU" : "MultiHeadAttention", i % 2 ? 4 * a->d_model : a->d_model);
    return ZT_OK;
}

/* ---- random ---------------------------------------------------------------------------------- */

/* What takes d_model numbers and gives as many. */
static void random_layer(builder *b, int64_t i)
{
    const zt_nn_arch *a = b->a;
    int64_t d = a->d_model, pick = (int64_t)(8 * zt_uniform(a->seed, 0, (uint64_t)i));
    static const char *const type[] = {"Dense", "MultiHeadAttention", "SwiGLU", "RMSNorm", "RNN",
                                       "LSTM",  "LayerNorm",          "CNN1"};
    if (pick == 1 && d % a->num_heads) pick = 0;
    put(b, a->layers_per_cell, type[pick], pick == 0 || pick == 7 ? a->act : ZT_NN_LINEAR);
    sizes(b, d, pick == 2 ? 2 * d : d);
    if (pick == 1) number(b, "num_heads", a->num_heads);
    if (pick == 7) {
        number(b, "input_channels", 1);
        number(b, "filters", 1);
        number(b, "kernel_size", 3);
        number(b, "padding", 1);
    }
    end(b);
}

static zt_status random_net(builder *b)
{
    const zt_nn_arch *a = b->a;
    int64_t n = a->grid_depth * a->grid_rows * a->grid_cols * a->layers_per_cell;
    for (int64_t i = 0; i < n; i++) random_layer(b, i);
    return ZT_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    zt_status (*build)(builder *b);
    int64_t layers_per_cell; /* its own, whatever the caller's; 0: the caller's */
} builders[] = {{"sequential", sequential, 0},
                {"cnn", cnn, 5},
                {"transformer", transformer, 0},
                {"random", random_net, 0}};

const char *zt_nn_builder(int i)
{
    return i >= 0 && (size_t)i < sizeof builders / sizeof *builders ? builders[i].name : NULL;
}

zt_nn_arch zt_nn_arch_defaults(void)
{
    return (zt_nn_arch){.name = "network",
                        .grid_depth = 1,
                        .grid_rows = 1,
                        .grid_cols = 1,
                        .layers_per_cell = 4,
                        .d_model = 64,
                        .num_heads = 4,
                        .input_size = 0,
                        .classes = 0,
                        .act = ZT_NN_RELU,
                        .dtype = ZT_STORE_F32,
                        .init_scale = 1};
}

static zt_status check(zt_ctx *ctx, const zt_nn_arch *a)
{
    const int64_t size[] = {a->grid_depth, a->grid_rows, a->grid_cols,  a->layers_per_cell,
                            a->d_model,    a->num_heads, a->input_size, a->classes};
    static const char *const name[] = {"gridDepth", "gridRows", "gridCols",  "layersPerCell",
                                       "dModel",    "numHeads", "inputSize", "numClasses"};
    int64_t places = 1;
    for (int i = 0; i < 8; i++) {
        if (size[i] < 1 || size[i] > 1 << 16)
            return zt_fail(ctx, ZT_EUSAGE, "%s is %" PRId64 ", not from 1 to 65536", name[i],
                           size[i]);
        if (i < 4) places *= places < 1 << 20 ? size[i] : 1;
    }
    return places <= 1 << 12 ? ZT_OK : zt_fail(ctx, ZT_EUSAGE, "a grid of more than 4096 layers");
}

static zt_status write_document(builder *b, int which)
{
    const zt_nn_arch *a = b->a;
    zt_str_puts(&b->text, "{\"id\":");
    zt_str_put_json(&b->text, a->name, strlen(a->name));
    zt_str_printf(&b->text,
                  ",\"depth\":%" PRId64 ",\"rows\":%" PRId64 ",\"cols\":%" PRId64
                  ",\"layers_per_cell\":%" PRId64 ",\"layers\":[\n",
                  a->grid_depth, a->grid_rows, a->grid_cols, a->layers_per_cell);
    zt_status s = builders[which].build(b);
    zt_str_puts(&b->text, "]}\n");
    return s ? s : zt_ctx_status(b->ctx);
}

/* Drawn weights count `scale` times as much, but for those that begin as ones. */
static void scale_weights(zt_nn *nn, double scale)
{
    for (int64_t i = 0; i < nn->n_weights; i++)
        for (int64_t k = 0; k < zt_type_count(&nn->weight[i].type) && nn->weight[i].type.rank > 1;
             k++)
            nn->weight[i].value[k] *= (float)scale;
}

static const char *builder_name(const void *user, int i)
{
    (void)user;
    return zt_nn_builder(i);
}

zt_nn *zt_nn_new(zt_ctx *ctx, const char *name, const zt_nn_arch *arch)
{
    int which = 0;
    zt_nn_arch own = *arch;
    while (zt_nn_builder(which) && strcmp(zt_nn_builder(which), name)) which++;
    if (!zt_nn_builder(which)) {
        zt_fail_unknown(ctx, ZT_EUSAGE, "kind of network", name, strlen(name), builder_name, NULL);
        return NULL;
    }
    if (builders[which].layers_per_cell) {
        own.layers_per_cell = builders[which].layers_per_cell;
        own.grid_depth = own.grid_rows = own.grid_cols = 1;
    }
    if (!own.input_size) own.input_size = own.d_model;
    if (!own.classes) own.classes = own.d_model;
    builder b = {.ctx = ctx, .a = &own};
    zt_str_init(&b.text, ctx);
    zt_source *source = NULL;
    if (!check(ctx, &own) && !write_document(&b, which))
        source = zt_source_memory(ctx, name, b.text.data, b.text.len);
    zt_nn *nn = source ? zt_nn_from(ctx, source, own.seed) : NULL;
    zt_source_close(source);
    zt_str_fini(&b.text);
    if (nn && own.init_scale != 1) scale_weights(nn, own.init_scale);
    if (nn) zt_nn_set_dtype(nn, own.dtype);
    return nn;
}

/* ---- ArchConfig ------------------------------------------------------------------------------ */

static zt_status set_number(zt_ctx *ctx, zt_nn_arch *a, const char *key, const char *text,
                            bool *known)
{
    static const struct {
        const char *key;
        size_t at;
    } numbers[] = {{"gridDepth", offsetof(zt_nn_arch, grid_depth)},
                   {"gridRows", offsetof(zt_nn_arch, grid_rows)},
                   {"gridCols", offsetof(zt_nn_arch, grid_cols)},
                   {"layersPerCell", offsetof(zt_nn_arch, layers_per_cell)},
                   {"dModel", offsetof(zt_nn_arch, d_model)},
                   {"numHeads", offsetof(zt_nn_arch, num_heads)},
                   {"inputSize", offsetof(zt_nn_arch, input_size)},
                   {"numClasses", offsetof(zt_nn_arch, classes)}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(numbers[i].key, key)) continue;
        *known = true;
        return zt_parse_i64(text, (int64_t *)((char *)a + numbers[i].at))
                   ? ZT_OK
                   : zt_fail(ctx, ZT_EUSAGE, "%s is no whole number: '%s'", key, text);
    }
    return ZT_OK;
}

zt_status zt_nn_arch_set(zt_ctx *ctx, zt_nn_arch *a, const char *key, const char *text)
{
    bool known = false, well = true;
    int64_t number = 0;
    zt_status s = set_number(ctx, a, key, text, &known);
    if (s || known) return s;
    if (!strcmp(key, "activation")) {
        well = zt_nn_act_parse(text, &a->act) ||
               (zt_parse_i64(text, &number) && number >= ZT_NN_LINEAR && number < ZT_NN_ACTS);
        if (well && zt_parse_i64(text, &number)) a->act = (zt_nn_act)number;
    } else if (!strcmp(key, "dtype")) {
        well = zt_nn_dtype_parse(text, &a->dtype);
    } else if (!strcmp(key, "initScale")) {
        well = zt_parse_double(text, &a->init_scale) && a->init_scale > 0;
    } else if (!strcmp(key, "name")) {
        a->name = text;
    } else {
        return zt_fail(ctx, ZT_EUSAGE, "'%s' is no property of a new network", key);
    }
    return well ? ZT_OK : zt_fail(ctx, ZT_EUSAGE, "%s cannot be '%s'", key, text);
}
