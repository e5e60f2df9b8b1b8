/* netjson_count.c - owns how many weights a layer has by its own numbers: what packed codes do not
 * say, whose last byte may have places to spare.
 *
 * The shapes are those of lib/nn/kinds.c, which stands above; tests/nn/nn_dtype.c compares both. */
#include "lib/io/json.h"
#include "lib/io/netjson_file.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { MAX_SIZE = 1 << 24 }; /* of any of the numbers */

static const struct {
    const char *key;
    size_t offset;
} members[] = {{"input_height", offsetof(nj_sizes, in)},         {"output_height", offsetof(nj_sizes, out)},
               {"input_channels", offsetof(nj_sizes, channels)}, {"filters", offsetof(nj_sizes, filters)},
               {"kernel_size", offsetof(nj_sizes, kernel)},      {"num_heads", offsetof(nj_sizes, heads)},
               {"num_kv_heads", offsetof(nj_sizes, kv_heads)},   {"head_dim", offsetof(nj_sizes, head_dim)},
               {"d_model", offsetof(nj_sizes, d_model)},         {"vocab_size", offsetof(nj_sizes, vocab)},
               {"embedding_dim", offsetof(nj_sizes, embedding)}, {"num_clusters", offsetof(nj_sizes, clusters)}};

void zt_nj_note_size(nj_sizes *sizes, const char *key, const json_t *value)
{
    double number = json_number_value(value);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (strcmp(key, members[i].key) == 0 && number >= 0 && number <= MAX_SIZE)
            *(int64_t *)(void *)((char *)sizes + members[i].offset) = (int64_t)number;
    if (strcmp(key, "type") == 0 && json_is_string(value)) {
        const char *name = json_string_value(value);
        size_t length = strlen(name);
        sizes->kind[0] = 0;
        if (length < sizeof sizes->kind) memcpy(sizes->kind, name, length + 1);
    }
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Numbers are at most 2^24: no product of two overflows, and of a sum of them neither. */

static int64_t count_dense(const nj_sizes *sizes) { return sizes->in * sizes->out; }

static int64_t count_attention(const nj_sizes *sizes)
{
    int64_t width = sizes->d_model ? sizes->d_model : sizes->in;
    int64_t head_size = sizes->head_dim ? sizes->head_dim : sizes->heads ? width / sizes->heads : 0, kv_width;
    if (!zt_mul_i64(sizes->kv_heads ? sizes->kv_heads : sizes->heads, head_size, &kv_width) || kv_width > MAX_SIZE) return -1;
    return 2 * width * width + 2 * kv_width * width + 2 * width + 2 * kv_width;
}

static int64_t count_gated(const nj_sizes *sizes) { return 3 * sizes->in * sizes->out + 2 * sizes->out + sizes->in; }

static int64_t count_rmsnorm(const nj_sizes *sizes) { return sizes->in; }

static int64_t count_layernorm(const nj_sizes *sizes) { return 2 * sizes->in; }

static int64_t count_kernels(const nj_sizes *sizes, int dimensions)
{
    int64_t product = sizes->filters * sizes->channels;
    for (int d = 0; d < dimensions; d++)
        if (!zt_mul_i64(product, sizes->kernel ? sizes->kernel : 1, &product)) return -1;
    return product;
}

static int64_t count_conv1d(const nj_sizes *sizes) { return count_kernels(sizes, 1); }

static int64_t count_conv2d(const nj_sizes *sizes) { return count_kernels(sizes, 2); }

static int64_t count_conv3d(const nj_sizes *sizes) { return count_kernels(sizes, 3); }

static int64_t count_rnn(const nj_sizes *sizes) { return sizes->out * sizes->in + sizes->out * sizes->out + sizes->out; }

static int64_t count_lstm(const nj_sizes *sizes) { return 4 * count_rnn(sizes); }

static int64_t count_embedding(const nj_sizes *sizes)
{
    return (sizes->vocab ? sizes->vocab : sizes->in) * (sizes->embedding ? sizes->embedding : sizes->out);
}

static int64_t count_kmeans(const nj_sizes *sizes) { return (sizes->clusters ? sizes->clusters : sizes->out) * sizes->in; }

/* In any case of letters. */
static const struct {
    const char *kind;
    int64_t (*count)(const nj_sizes *s);
} kinds[] = {{"Dense", count_dense},
             {"MultiHeadAttention", count_attention},
             {"MHA", count_attention},
             {"attention", count_attention},
             {"SwiGLU", count_gated},
             {"RMSNorm", count_rmsnorm},
             {"LayerNorm", count_layernorm},
             {"CNN1", count_conv1d},
             {"CNN2", count_conv2d},
             {"CNN3", count_conv3d},
             {"ConvTransposed1D", count_conv1d},
             {"ConvTransposed2D", count_conv2d},
             {"ConvTransposed3D", count_conv3d},
             {"RNN", count_rnn},
             {"LSTM", count_lstm},
             {"Embedding", count_embedding},
             {"KMeans", count_kmeans}};

int64_t zt_nj_count(const nj_sizes *sizes, const zt_net_weights *weights, uint64_t bytes)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcasecmp(sizes->kind, kinds[i].kind) != 0) continue;
        int64_t count = kinds[i].count(sizes);
        uint64_t limit = bytes * 8 / (unsigned)zt_storage_get(weights->type)->bits;
        bool fits = count >= 0 && (uint64_t)count <= limit && zt_net_bytes(weights, count) == bytes;
        return fits ? count : -1;
    }
    return -1;
}
