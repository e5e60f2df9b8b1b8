/* builders.c - owns new networks: Loom's builders write a specification as a document, which is read like any other. */
#include "lib/base/near.h"
#include "lib/base/require.h"
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

typedef struct network_builder {
    zt_ctx *ctx;
    const zt_nn_arch *arch;
    zt_str text;
    int64_t layer_count; /* so far */
} network_builder;

/* A layer at the next place; `more` is the rest of its members. */
static void open_layer(network_builder *builder, int64_t per_cell, const char *type, zt_nn_act act)
{
    int64_t index = builder->layer_count++, cell = index / per_cell, row = cell / builder->arch->grid_cols;
    zt_str_printf(&builder->text,
                  "%s{\"z\":%" PRId64 ",\"y\":%" PRId64 ",\"x\":%" PRId64 ",\"l\":%" PRId64
                  ",\"type\":\"%s\",\"activation\":\"%s\",\"dtype\":\"float32\"",
                  index ? ",\n" : "", row / builder->arch->grid_rows, row % builder->arch->grid_rows,
                  cell % builder->arch->grid_cols, index % per_cell, type, zt_nn_act_name(act));
}

static void put_number(network_builder *builder, const char *key, int64_t value)
{
    zt_str_printf(&builder->text, ",\"%s\":%" PRId64, key, value);
}

static void put_sizes(network_builder *builder, int64_t input_size, int64_t output_size)
{
    put_number(builder, "input_height", input_size);
    put_number(builder, "output_height", output_size);
}

static void close_layer(network_builder *builder) { zt_str_putc(&builder->text, '}'); }

/* ---- sequential ------------------------------------------------------------------------------ */

/* Dense layers of d_model in every place; the first takes input_size and the last gives classes,
 * with no activation. */
static zt_status build_sequential(network_builder *builder)
{
    const zt_nn_arch *arch = builder->arch;
    int64_t count = arch->grid_depth * arch->grid_rows * arch->grid_cols * arch->layers_per_cell;
    for (int64_t i = 0; i < count; i++) {
        bool last = i + 1 == count;
        open_layer(builder, arch->layers_per_cell, "Dense", last ? ZT_NN_LINEAR : arch->activation);
        put_sizes(builder, i ? arch->d_model : arch->input_size, last ? arch->classes : arch->d_model);
        close_layer(builder);
    }
    return ZT_OK;
}

/* ---- cnn ------------------------------------------------------------------------------------- */

static void put_conv(network_builder *builder, int64_t channels, int64_t filters, int64_t side)
{
    open_layer(builder, 5, "CNN2", builder->arch->activation);
    put_sizes(builder, side, side - 2);
    put_number(builder, "input_width", side);
    put_number(builder, "output_width", side - 2);
    put_number(builder, "input_channels", channels);
    put_number(builder, "filters", filters);
    put_number(builder, "kernel_size", 3);
    put_number(builder, "stride", 1);
    close_layer(builder);
}

/* Two convolutions of 16 and 32 kernels of 3 x 3 over input_size x input_size, a layer of 128, the
 * classes. (Loom's own ends in a softmax over those 128.) */
static zt_status build_cnn(network_builder *builder)
{
    int64_t side = builder->arch->input_size, flat = 32 * (side - 4) * (side - 4);
    if (side < 5)
        return zt_fail(builder->ctx, ZT_EUSAGE, "inputSize is %" PRId64 ": must be at least 5 for two kernels of size 3", side);
    put_conv(builder, 1, 16, side);
    put_conv(builder, 16, 32, side - 2);
    open_layer(builder, 5, "Dense", builder->arch->activation);
    put_sizes(builder, flat, 128);
    close_layer(builder);
    open_layer(builder, 5, "Dense", ZT_NN_LINEAR);
    put_sizes(builder, 128, builder->arch->classes);
    close_layer(builder);
    return ZT_OK;
}

/* ---- transformer ----------------------------------------------------------------------------- */

/* x + f(norm(x)): a Residual adds what came into the step before it. */
static void put_block(network_builder *builder, const char *type, int64_t out)
{
    const zt_nn_arch *arch = builder->arch;
    open_layer(builder, arch->layers_per_cell, "Sequential", ZT_NN_LINEAR);
    zt_str_puts(&builder->text, ",\"sequential_layers\":[{\"type\":\"Sequential\",\"sequential_layers\":[");
    zt_str_printf(&builder->text, "{\"type\":\"RMSNorm\",\"input_height\":%" PRId64 "},{\"type\":\"%s\"", arch->d_model, type);
    put_sizes(builder, arch->d_model, out);
    put_number(builder, "d_model", arch->d_model);
    put_number(builder, "num_heads", arch->num_heads);
    zt_str_puts(&builder->text, ",\"rope_freq_base\":10000}]},{\"type\":\"Residual\"}]");
    close_layer(builder);
}

static zt_status build_transformer(network_builder *builder)
{
    const zt_nn_arch *arch = builder->arch;
    int64_t count = arch->grid_depth * arch->grid_rows * arch->grid_cols * arch->layers_per_cell;
    if (arch->d_model % arch->num_heads)
        return zt_fail(builder->ctx, ZT_EUSAGE, "dModel %" PRId64 " is not a multiple of numHeads %" PRId64, arch->d_model,
                       arch->num_heads);
    for (int64_t i = 0; i < count; i++)
        put_block(builder, i % 2 ? "SwiGLU" : "MultiHeadAttention", i % 2 ? 4 * arch->d_model : arch->d_model);
    return ZT_OK;
}

/* ---- random ---------------------------------------------------------------------------------- */

/* A layer with d_model inputs and outputs. */
static void put_random_layer(network_builder *builder, int64_t index)
{
    const zt_nn_arch *arch = builder->arch;
    int64_t width = arch->d_model, pick = (int64_t)(8 * zt_uniform(arch->seed, 0, (uint64_t)index));
    static const char *const type[] = {"Dense", "MultiHeadAttention", "SwiGLU", "RMSNorm", "RNN", "LSTM", "LayerNorm", "CNN1"};
    if (pick == 1 && width % arch->num_heads) pick = 0;
    open_layer(builder, arch->layers_per_cell, type[pick], pick == 0 || pick == 7 ? arch->activation : ZT_NN_LINEAR);
    put_sizes(builder, width, pick == 2 ? 2 * width : width);
    if (pick == 1) put_number(builder, "num_heads", arch->num_heads);
    if (pick == 7) {
        put_number(builder, "input_channels", 1);
        put_number(builder, "filters", 1);
        put_number(builder, "kernel_size", 3);
        put_number(builder, "padding", 1);
    }
    close_layer(builder);
}

static zt_status build_random(network_builder *builder)
{
    const zt_nn_arch *arch = builder->arch;
    int64_t count = arch->grid_depth * arch->grid_rows * arch->grid_cols * arch->layers_per_cell;
    for (int64_t i = 0; i < count; i++) put_random_layer(builder, i);
    return ZT_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    zt_status (*build)(network_builder *b);
    int64_t layers_per_cell; /* its own, whatever the caller's; 0: the caller's */
} builders[] = {{"sequential", build_sequential, 0},
                {"cnn", build_cnn, 5},
                {"transformer", build_transformer, 0},
                {"random", build_random, 0}};

const char *zt_nn_builder(int i) { return i >= 0 && (size_t)i < sizeof builders / sizeof *builders ? builders[i].name : NULL; }

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
                        .activation = ZT_NN_RELU,
                        .dtype = ZT_STORE_F32,
                        .init_scale = 1};
}

static zt_status check_arch(zt_ctx *ctx, const zt_nn_arch *arch)
{
    const int64_t size[] = {arch->grid_depth, arch->grid_rows, arch->grid_cols,  arch->layers_per_cell,
                            arch->d_model,    arch->num_heads, arch->input_size, arch->classes};
    static const char *const name[] = {"gridDepth", "gridRows", "gridCols",  "layersPerCell",
                                       "dModel",    "numHeads", "inputSize", "numClasses"};
    int64_t places = 1;
    for (int i = 0; i < 8; i++) {
        if (size[i] < 1 || size[i] > 1 << 16)
            return zt_fail(ctx, ZT_EUSAGE, "%s is %" PRId64 ": must be 1 to 65536", name[i], size[i]);
        if (i < 4) places *= places < 1 << 20 ? size[i] : 1;
    }
    return places <= 1 << 12 ? ZT_OK : zt_fail(ctx, ZT_EUSAGE, "the grid has more than 4096 layers");
}

static zt_status write_document(network_builder *builder, int which)
{
    const zt_nn_arch *arch = builder->arch;
    zt_str_puts(&builder->text, "{\"id\":");
    zt_str_put_json(&builder->text, arch->name, strlen(arch->name));
    zt_str_printf(&builder->text,
                  ",\"depth\":%" PRId64 ",\"rows\":%" PRId64 ",\"cols\":%" PRId64 ",\"layers_per_cell\":%" PRId64
                  ",\"layers\":[\n",
                  arch->grid_depth, arch->grid_rows, arch->grid_cols, arch->layers_per_cell);
    zt_status status = builders[which].build(builder);
    zt_str_puts(&builder->text, "]}\n");
    return status ? status : zt_ctx_status(builder->ctx);
}

/* Multiplies drawn weights by `scale`, but not vectors. */
static void scale_weights(zt_nn *network, double scale)
{
    for (int64_t i = 0; i < network->weight_count; i++)
        for (int64_t k = 0; k < zt_type_count(&network->weights[i].type) && network->weights[i].type.rank > 1; k++)
            network->weights[i].values[k] *= (float)scale;
}

static const char *builder_name(const void *user, int i)
{
    (void)user;
    return zt_nn_builder(i);
}

zt_nn *zt_nn_new(zt_ctx *ctx, const char *name, const zt_nn_arch *arch)
{
    ZT_REQUIRE(ctx, name && arch, NULL);
    int which = 0;
    zt_nn_arch own = *arch;
    while (zt_nn_builder(which) && strcmp(zt_nn_builder(which), name)) which++;
    if (!zt_nn_builder(which)) {
        zt_fail_unknown(ctx, ZT_EUSAGE, "unknown network kind", name, strlen(name), builder_name, NULL);
        return NULL;
    }
    if (builders[which].layers_per_cell) {
        own.layers_per_cell = builders[which].layers_per_cell;
        own.grid_depth = own.grid_rows = own.grid_cols = 1;
    }
    if (!own.input_size) own.input_size = own.d_model;
    if (!own.classes) own.classes = own.d_model;
    network_builder builder = {.ctx = ctx, .arch = &own};
    zt_str_init(&builder.text, ctx);
    zt_source *source = NULL;
    if (!check_arch(ctx, &own) && !write_document(&builder, which))
        source = zt_source_memory(ctx, name, builder.text.data, builder.text.len);
    zt_nn *network = source ? zt_nn_from(ctx, source, own.seed) : NULL;
    zt_source_close(source);
    zt_str_fini(&builder.text);
    if (network && own.init_scale != 1) scale_weights(network, own.init_scale);
    if (network) zt_nn_set_dtype(network, own.dtype);
    return network;
}

/* ---- ArchConfig ------------------------------------------------------------------------------ */

static zt_status set_number(zt_ctx *ctx, zt_nn_arch *arch, const char *key, const char *text, bool *known)
{
    static const struct {
        const char *key;
        size_t at;
    } numbers[] = {{"gridDepth", offsetof(zt_nn_arch, grid_depth)}, {"gridRows", offsetof(zt_nn_arch, grid_rows)},
                   {"gridCols", offsetof(zt_nn_arch, grid_cols)},   {"layersPerCell", offsetof(zt_nn_arch, layers_per_cell)},
                   {"dModel", offsetof(zt_nn_arch, d_model)},       {"numHeads", offsetof(zt_nn_arch, num_heads)},
                   {"inputSize", offsetof(zt_nn_arch, input_size)}, {"numClasses", offsetof(zt_nn_arch, classes)}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(numbers[i].key, key)) continue;
        *known = true;
        return zt_parse_i64(text, (int64_t *)((char *)arch + numbers[i].at))
                   ? ZT_OK
                   : zt_fail(ctx, ZT_EUSAGE, "%s is not an integer: '%s'", key, text);
    }
    return ZT_OK;
}

zt_status zt_nn_arch_set(zt_ctx *ctx, zt_nn_arch *arch, const char *key, const char *text)
{
    ZT_REQUIRE(ctx, key, ZT_EUSAGE);
    bool known = false, valid = true;
    int64_t number = 0;
    zt_status status = set_number(ctx, arch, key, text, &known);
    if (status || known) return status;
    if (!strcmp(key, "activation")) {
        valid = zt_nn_act_parse(text, &arch->activation) ||
                (zt_parse_i64(text, &number) && number >= ZT_NN_LINEAR && number < ZT_NN_ACTS);
        if (valid && zt_parse_i64(text, &number)) arch->activation = (zt_nn_act)number;
    } else if (!strcmp(key, "dtype")) {
        valid = zt_nn_dtype_parse(text, &arch->dtype);
    } else if (!strcmp(key, "initScale")) {
        valid = zt_parse_double(text, &arch->init_scale) && arch->init_scale > 0;
    } else if (!strcmp(key, "name")) {
        arch->name = text;
    } else {
        return zt_fail(ctx, ZT_EUSAGE, "unknown property '%s' of a new network", key);
    }
    return valid ? ZT_OK : zt_fail(ctx, ZT_EUSAGE, "%s cannot be '%s'", key, text);
}
