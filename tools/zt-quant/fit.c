/* fit.c - --target-size: a type for each tensor, so that the file fits and loses little.
 *
 * Every candidate type of every tensor is tried on a sample of its rows. A type's loss is the
 * square of its relative error, as much for a small tensor as for a large one: each adds to the
 * same stream of activations by what it does to its own output. Matrices whose error reaches
 * further count more.
 */
#include "tools/zt-quant/quant.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SAMPLE = 1 << 17, PIECES = 8 }; /* elements of a tensor that are tried, in so many places */

static const zt_dtype candidate[] = {ZT_Q2_K, ZT_Q3_K, ZT_IQ4_XS, ZT_IQ4_NL, ZT_Q4_K,
                                     ZT_Q4_0, ZT_Q4_1, ZT_Q5_K,   ZT_Q5_0,   ZT_Q5_1,
                                     ZT_Q6_K, ZT_Q8_0, ZT_F16};
enum { N = sizeof candidate / sizeof *candidate };

/* ---- losses ---------------------------------------------------------------------------------- */

/* How far an error reaches: the divergence that goes away where a kind of matrix alone is kept in
 * q8_0 and all others are iq4_nl, for each matrix (SmolLM2; attn_output is 1). What makes the
 * logits stands alone where a layer's matrices are many, and counts by their number. */
static const struct {
    const char *part; /* of the name; the first that fits */
    double weight;
    bool alone;
} reach[] = {{"output.weight", 6, true}, {"token_embd", 6, true},   {"attn_v", 4.5, false},
             {"ffn_down", 6.5, false},   {"ffn_up", 2.7, false},    {"ffn_gate", 2.2, false},
             {"attn_q", 2.2, false},     {"attn_output", 1, false}, {"attn_k", 0.5, false}};

static double weight_of(const quant *q, const char *name)
{
    int64_t layers = q->n_layers > 0 ? q->n_layers : 1;
    /* Looked up alone, an embedding reaches no further than what it is added to. */
    if (strstr(name, "token_embd") && zt_checkpoint_find(q->in, "output.weight") >= 0)
        return (double)layers;
    for (size_t i = 0; i < sizeof reach / sizeof *reach; i++)
        if (strstr(name, reach[i].part) && (!reach[i].alone || strncmp(name, "blk.", 4)))
            return reach[i].weight * (reach[i].alone ? (double)layers : 1);
    return 1;
}

/* Pieces of rows from all over the tensor. */
static zt_status try_type(quant *q, int64_t i, zt_dtype t, double *loss)
{
    const zt_type *type = &q->job[i].in.type;
    int64_t rows = quant_n_rows(type), columns = type->dim[type->rank - 1];
    int64_t pieces = rows < PIECES ? rows : PIECES,
            each = SAMPLE / PIECES / (columns ? columns : 1);
    zt_loss_of l = {0};
    zt_status s = ZT_OK;
    each = each < 1 ? 1 : each;
    if (each * pieces > rows) {
        pieces = 1;
        each = rows;
    }
    for (int64_t p = 0; p < pieces && s == ZT_OK; p++) {
        int64_t from = pieces > 1 ? p * (rows - each) / (pieces - 1) : 0;
        s = quant_rows(q, i, from, from + each, t, &l, NULL, NULL);
    }
    *loss = l.x2 > 0 ? weight_of(q, q->job[i].in.name) * l.error2 / l.x2 : 0;
    return s;
}

static zt_status try_types(quant *q, int64_t i, zt_candidate c[N])
{
    quant_job *j = &q->job[i];
    int64_t columns = j->in.type.dim[j->in.type.rank - 1];
    zt_type type = j->in.type;
    zt_status s = ZT_OK;
    for (int k = 0; k < N && s == ZT_OK; k++) {
        c[k] = (zt_candidate){0, INFINITY};
        if (zt_mix_fit(candidate[k], columns) != candidate[k] || !zt_quantize_has(candidate[k]))
            continue;
        type.dtype = candidate[k];
        c[k].bytes = quant_padded(zt_type_bytes(&type));
        s = try_type(q, i, candidate[k], &c[k].loss);
    }
    return s;
}

/* ---- the choice ------------------------------------------------------------------------------ */

static bool is_free(const quant_job *j)
{
    return !j->to.kept && j->to.wish < 0;
}

/* Bytes of the file that no choice changes. */
static uint64_t fixed_bytes(const quant *q)
{
    uint64_t sum = quant_header_bytes(q);
    for (int64_t i = 0; i < q->n; i++)
        if (!is_free(&q->job[i]))
            sum += quant_padded(quant_new_bytes(&q->job[i]));
    return sum;
}

static zt_status measure_all(quant *q, zt_candidate *c, int64_t *n)
{
    zt_status s = ZT_OK;
    *n = 0;
    for (int64_t i = 0; i < q->n && s == ZT_OK; i++) {
        zt_progress(q->cli, "measure", (double)i, (double)q->n);
        if (is_free(&q->job[i]))
            s = try_types(q, i, c + N * (*n)++);
    }
    return s;
}

static zt_status take(quant *q, const int *pick)
{
    int64_t n = 0;
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < q->n && s == ZT_OK; i++) {
        quant_job *j = &q->job[i];
        if (!is_free(j))
            continue;
        j->to.wanted = candidate[pick[n++]];
        j->to.fell_back = false;
        j->to.search = true;
        s = quant_retype(q, j, j->to.wanted);
    }
    return s;
}

zt_status quant_fit(quant *q)
{
    uint64_t fixed = fixed_bytes(q);
    int64_t n = 0;
    zt_candidate *c = zt_alloc_array(q->ctx, (size_t)q->n + 1, N * sizeof *c);
    int *pick = zt_calloc(q->ctx, (size_t)q->n + 1, sizeof *pick);
    q->fitting = true;
    zt_status s = c && pick ? measure_all(q, c, &n) : ZT_ENOMEM;
    q->fitting = false;
    if (s == ZT_OK && q->o->target < fixed)
        s = zt_fail(q->ctx, ZT_EUSAGE,
                    "--target-size: %zu bytes are too few: what is not quantized takes %" PRIu64,
                    q->o->target, fixed);
    if (s == ZT_OK)
        s = zt_budget(q->ctx, c, n, N, q->o->target - fixed, pick);
    if (s == ZT_OK)
        s = take(q, pick);
    zt_free(q->ctx, c);
    zt_free(q->ctx, pick);
    return s;
}
