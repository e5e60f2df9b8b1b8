/* hyper_streams.c - hyper-parameters of per-layer embeddings and of several streams (Gemma 3n and 4), read from a file and
 * checked. Key names are facts from llama.cpp (src/llama-arch.cpp), where the bounds of activation sparsity, the layers that
 * share a cache and the rank of Laurel are numbers in the code. Also of the matrices behind the last norm (gemma-embedding).
 */
#include "lib/llm/arch/hyper_internal.h"

#include <inttypes.h>
#include <math.h>

static void read_per_layer(zt_key_reader *reader, zt_hyper *hyper)
{
    if (!(hyper->parts & ZT_PART_PER_LAYER)) return;
    if (!zt_hyper_i64(reader, "embedding_length_per_layer_input", &hyper->per_layer)) {
        zt_hyper_missing(reader);
        return;
    }
    bool needed = hyper->parts & ZT_PART_ALTUP;
    zt_hyper_require(reader, hyper->per_layer >= needed && hyper->per_layer <= ZT_MAX_WIDTH,
                     "embedding_length_per_layer_input is not a length", hyper->per_layer, ZT_MAX_WIDTH);
    if (reader->status != ZT_OK) hyper->per_layer = 0;
    if (hyper->per_layer == 0) hyper->parts &= ~ZT_PART_PER_LAYER;
    hyper->per_layer_width = hyper->n_layers * hyper->per_layer;
}

/* Rows of the matrix that makes the path of low rank; no key holds them. */
static int64_t laurel_rank(const zt_key_reader *reader)
{
    zt_type type;
    int64_t index = zt_gguf_find(reader->gguf, "blk.0.laurel_l.weight");
    if (index >= 0) zt_gguf_tensor(reader->gguf, index, &type, NULL, NULL);
    return index >= 0 && type.rank == 2 ? type.dim[0] : 1;
}

static void read_cutoffs(zt_key_reader *reader, zt_hyper *hyper)
{
    double cutoff[ZT_MAX_LAYERS];
    if (reader->status == ZT_OK &&
        !zt_gguf_array_f64(reader->gguf, zt_hyper_key(reader, "activation_sparsity_scale"), cutoff, hyper->n_layers))
        reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s is not %" PRId64 " numbers, one for each layer",
                                 zt_gguf_name(reader->gguf), reader->key, hyper->n_layers);
    for (int64_t layer = 0; layer < hyper->n_layers && reader->status == ZT_OK; layer++) {
        hyper->layer[layer].cutoff = cutoff[layer];
        if (!(cutoff[layer] < INFINITY))
            reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s is %g in layer %" PRId64 ", expected a number below infinity",
                                     zt_gguf_name(reader->gguf), reader->key, cutoff[layer], layer);
    }
}

static void read_altup(zt_key_reader *reader, zt_hyper *hyper)
{
    enum { MAX_STREAMS = 16 };
    for (int64_t layer = 0; layer < hyper->n_layers; layer++) hyper->layer[layer].cutoff = -INFINITY;
    if (!(hyper->parts & ZT_PART_ALTUP)) return;
    hyper->streams = zt_hyper_count(reader, "altup.num_inputs", 0, MAX_STREAMS);
    zt_hyper_require(reader, hyper->streams >= 2, "altup.num_inputs is below 2", hyper->streams, 2);
    if (!zt_hyper_i64(reader, "altup.active_idx", &hyper->active_stream)) zt_hyper_missing(reader);
    zt_hyper_require(reader, hyper->active_stream >= 0 && hyper->active_stream < hyper->streams,
                     "altup.active_idx is not below altup.num_inputs", hyper->active_stream, hyper->streams);
    hyper->other_streams = hyper->streams - 1;
    hyper->stream_pairs = hyper->streams * hyper->streams;
    hyper->laurel_rank = laurel_rank(reader);
    zt_hyper_require(reader, hyper->laurel_rank >= 1 && hyper->streams * hyper->width <= ZT_MAX_WIDTH,
                     "streams or laurel_l are too large", hyper->streams, hyper->laurel_rank);
    read_cutoffs(reader, hyper);
}

/* ---- matrices behind the last norm ------------------------------------------------------------ */

/* The rows of a matrix, which the keys repeat if they are there; 0: there is none. */
static int64_t dense_rows(zt_key_reader *reader, const char *tensor, const char *columns_key, const char *rows_key)
{
    zt_type type;
    int64_t index = zt_gguf_find(reader->gguf, tensor), columns, rows = 0;
    if (index >= 0) zt_gguf_tensor(reader->gguf, index, &type, NULL, NULL);
    if (index < 0)
        zt_hyper_require(reader, !zt_hyper_i64(reader, rows_key, &rows), "a matrix behind the last norm is missing", rows, 0);
    if (index < 0 || type.rank != 2 || reader->status != ZT_OK) return 0;
    columns = type.dim[1];
    rows = type.dim[0];
    zt_hyper_i64(reader, columns_key, &columns);
    zt_hyper_require(reader, columns == type.dim[1], "a matrix behind the last norm is not as wide as its key says", columns,
                     type.dim[1]);
    zt_hyper_i64(reader, rows_key, &rows);
    zt_hyper_require(reader, rows == type.dim[0], "a matrix behind the last norm is not as long as its key says", rows,
                     type.dim[0]);
    zt_hyper_require(reader, rows >= 1 && rows <= ZT_MAX_WIDTH, "a matrix behind the last norm is too long", rows, ZT_MAX_WIDTH);
    return rows;
}

static void read_dense(zt_key_reader *reader, zt_hyper *hyper)
{
    if (!(hyper->parts & ZT_PART_DENSE)) return;
    hyper->dense_2 = dense_rows(reader, "dense_2.weight", "dense_2_feat_in", "dense_2_feat_out");
    hyper->dense_3 = dense_rows(reader, "dense_3.weight", "dense_3_feat_in", "dense_3_feat_out");
    zt_hyper_require(reader, hyper->dense_2 > 0 || hyper->dense_3 == 0,
                     "tensor 'dense_3.weight' is there without 'dense_2.weight'", hyper->dense_3, hyper->dense_2);
}

void zt_hyper_read_streams(zt_key_reader *reader, zt_hyper *hyper)
{
    read_per_layer(reader, hyper);
    read_altup(reader, hyper);
    read_dense(reader, hyper);
}
