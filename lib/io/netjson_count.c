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
} members[] = {{"input_height", offsetof(nj_sizes, in)},
               {"output_height", offsetof(nj_sizes, out)},
               {"input_channels", offsetof(nj_sizes, channels)},
               {"filters", offsetof(nj_sizes, filters)},
               {"kernel_size", offsetof(nj_sizes, kernel)},
               {"num_heads", offsetof(nj_sizes, heads)},
               {"num_kv_heads", offsetof(nj_sizes, kv_heads)},
               {"head_dim", offsetof(nj_sizes, head_dim)},
               {"d_model", offsetof(nj_sizes, d_model)},
               {"vocab_size", offsetof(nj_sizes, vocab)},
               {"embedding_dim", offsetof(nj_sizes, embedding)},
               {"num_clusters", offsetof(nj_sizes, clusters)}};

void zt_nj_note_size(nj_sizes *s, const char *key, const json_t *value)
{
    double x = json_number_value(value);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (strcmp(key, members[i].key) == 0 && x >= 0 && x <= MAX_SIZE)
            *(int64_t *)(void *)((char *)s + members[i].offset) = (int64_t)x;
    if (strcmp(key, "type") == 0 && json_is_string(value)) {
        const char *name = json_string_value(value);
        size_t n = strlen(name);
        s->kind[0] = 0;
        if (n < sizeof s->kind)
            memcpy(s->kind, name, n + 1);
    }
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Numbers are at most 2^24: no product of two overflows, and of a sum of them neither. */

static int64_t dense(const nj_sizes *s)
{
    return s->in * s->out;
}

static int64_t attention(const nj_sizes *s)
{
    int64_t d = s->d_model ? s->d_model : s->in;
    int64_t each = s->head_dim ? s->head_dim : s->heads ? d / s->heads : 0, kv;
    if (!zt_mul_i64(s->kv_heads ? s->kv_heads : s->heads, each, &kv) || kv > MAX_SIZE)
        return -1;
    return 2 * d * d + 2 * kv * d + 2 * d + 2 * kv;
}

static int64_t gated(const nj_sizes *s)
{
    return 3 * s->in * s->out + 2 * s->out + s->in;
}

static int64_t one(const nj_sizes *s)
{
    return s->in;
}

static int64_t two(const nj_sizes *s)
{
    return 2 * s->in;
}

static int64_t kernels(const nj_sizes *s, int dimensions)
{
    int64_t n = s->filters * s->channels;
    for (int d = 0; d < dimensions; d++)
        if (!zt_mul_i64(n, s->kernel ? s->kernel : 1, &n))
            return -1;
    return n;
}

static int64_t line(const nj_sizes *s)
{
    return kernels(s, 1);
}

static int64_t plane(const nj_sizes *s)
{
    return kernels(s, 2);
}

static int64_t volume(const nj_sizes *s)
{
    return kernels(s, 3);
}

static int64_t recurrent(const nj_sizes *s)
{
    return s->out * s->in + s->out * s->out + s->out;
}

static int64_t four_gates(const nj_sizes *s)
{
    return 4 * recurrent(s);
}

static int64_t embedding(const nj_sizes *s)
{
    return (s->vocab ? s->vocab : s->in) * (s->embedding ? s->embedding : s->out);
}

static int64_t centres(const nj_sizes *s)
{
    return (s->clusters ? s->clusters : s->out) * s->in;
}

/* In any case of letters. */
static const struct {
    const char *kind;
    int64_t (*count)(const nj_sizes *s);
} kinds[] = {{"Dense", dense},
             {"MultiHeadAttention", attention},
             {"MHA", attention},
             {"attention", attention},
             {"SwiGLU", gated},
             {"RMSNorm", one},
             {"LayerNorm", two},
             {"CNN1", line},
             {"CNN2", plane},
             {"CNN3", volume},
             {"ConvTransposed1D", line},
             {"ConvTransposed2D", plane},
             {"ConvTransposed3D", volume},
             {"RNN", recurrent},
             {"LSTM", four_gates},
             {"Embedding", embedding},
             {"KMeans", centres}};

int64_t zt_nj_count(const nj_sizes *s, const zt_net_weights *w, uint64_t bytes)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcasecmp(s->kind, kinds[i].kind) != 0)
            continue;
        int64_t n = kinds[i].count(s);
        uint64_t most = bytes * 8 / (unsigned)zt_storage_get(w->type)->bits;
        bool fits = n >= 0 && (uint64_t)n <= most && zt_net_bytes(w, n) == bytes;
        return fits ? n : -1;
    }
    return -1;
}
