/* fit.c - --target-size and --bpw: a type for each tensor, so that the whole is small enough and
 * loses little.
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

/* A type that cannot hold a number of the tensor is none; where all are so, the first says why. */
static zt_status try_types(quant *q, int64_t i, zt_candidate c[N])
{
    zt_status s = ZT_OK;
    int can = 0, first = -1;
    double none;
    for (int k = 0; k < N && s == ZT_OK; k++) {
        if (c[k].loss == INFINITY)
            continue;
        first = first < 0 ? k : first;
        s = try_type(q, i, candidate[k], &c[k].loss);
        can += s == ZT_OK;
        if (s != ZT_EDATA)
            continue;
        zt_ctx_clear(q->ctx);
        c[k].loss = INFINITY;
        s = ZT_OK;
    }
    return s != ZT_OK || can || first < 0 ? s : try_type(q, i, candidate[first], &none);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

typedef struct fit {
    quant *q;
    zt_candidate *c; /* [n][N] of the tensors whose type is free */
    int *pick;       /* [n] */
    int64_t n;
    uint64_t align; /* what a tensor's data are padded to */
    uint64_t limit; /* of what is measured: bytes of the file, or of the tensors */
} fit;

static bool is_free(const quant_job *j)
{
    return !j->to.kept && j->to.wish < 0;
}

/* What data are padded to: by GGUF only, and where bytes of the file count. */
static uint64_t align_of(const quant *q)
{
    if (!q->o->target || strcmp(zt_container_name(quant_container(q)), "gguf"))
        return 1;
    int64_t align = quant_meta_i64(zt_checkpoint_meta(q->in), "", "general.alignment");
    return align > 0 ? (uint64_t)align : 32;
}

/* The bytes of each type that a tensor can have; all others have an infinite loss. */
static void size_types(const fit *f, int64_t i, zt_candidate c[N])
{
    zt_type type = f->q->job[i].in.type;
    int64_t columns = type.dim[type.rank - 1];
    for (int k = 0; k < N; k++) {
        c[k] = (zt_candidate){0, INFINITY};
        if (zt_mix_fit(candidate[k], columns) != candidate[k] || !zt_quantize_has(candidate[k]))
            continue;
        type.dtype = candidate[k];
        c[k].bytes = (zt_type_bytes(&type) + f->align - 1) / f->align * f->align;
        c[k].loss = 0;
    }
}

static void size_all(fit *f)
{
    f->n = 0;
    for (int64_t i = 0; i < f->q->n; i++)
        if (is_free(&f->q->job[i]))
            size_types(f, i, f->c + N * f->n++);
}

/* Each tensor's smallest type; the bytes of all. */
static uint64_t pick_smallest(fit *f)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < f->n; i++) {
        const zt_candidate *c = f->c + N * i;
        int best = -1;
        for (int k = 0; k < N; k++)
            if (c[k].loss < INFINITY && (best < 0 || c[k].bytes < c[best].bytes))
                best = k;
        f->pick[i] = best;
        sum += best < 0 ? 0 : c[best].bytes;
    }
    return sum;
}

static zt_status take(fit *f)
{
    quant *q = f->q;
    int64_t n = 0;
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < q->n && s == ZT_OK; i++) {
        quant_job *j = &q->job[i];
        if (!is_free(j) || f->pick[n++] < 0)
            continue;
        j->to.wanted = candidate[f->pick[n - 1]];
        j->to.fell_back = false;
        j->to.search = true;
        s = quant_retype(q, j, j->to.wanted);
    }
    return s == ZT_OK ? quant_put_file_type(q) : s;
}

/* Bytes of all tensors of the output. */
static zt_status data_bytes(quant *q, uint64_t *bytes)
{
    quant_outputs out = {0};
    zt_status s = quant_outputs_list(q, &out);
    *bytes = 0;
    for (int64_t i = 0; s == ZT_OK && i < out.n; i++)
        *bytes += out.entry[i].bytes;
    quant_outputs_free(q, &out);
    return s;
}

static double n_weights(const quant *q)
{
    double n = 0;
    for (int64_t i = 0; i < q->n; i++)
        if (q->job[i].in.type.rank >= 0)
            n += (double)zt_type_count(&q->job[i].in.type);
    return n;
}

/* What the limit is for, of the types that are taken. */
static zt_status measure_size(quant *q, uint64_t *bytes)
{
    return q->o->target ? quant_file_bytes(q, bytes) : data_bytes(q, bytes);
}

/* A thousandth of a byte is a rounding error of X. */
static uint64_t limit_of(const quant *q)
{
    return q->o->target ? q->o->target : (uint64_t)(q->o->bpw * n_weights(q) / 8 + 1e-3);
}

/* The least size names itself in the history of the file that has it: a number of as many digits. */
static zt_status refuse(quant *q, uint64_t least)
{
    for (int i = 0; i < 4 && q->target && q->target != least; i++) {
        q->target = least;
        zt_status s = quant_file_bytes(q, &least);
        if (s != ZT_OK)
            return s;
    }
    const char *file = zt_checkpoint_name(q->in);
    double bits = 8 * (double)least / n_weights(q), up = ceil(bits * 1e4 - 1e-9) / 1e4;
    return q->o->target
               ? zt_fail(q->ctx, ZT_EUSAGE,
                         "%s: --target-size: %zu bytes are too few; the least possible is %" PRIu64,
                         file, q->o->target, least)
               : zt_fail(q->ctx, ZT_EUSAGE,
                         "%s: --bpw: %.10g bits per weight are too few; the least possible is %.10g",
                         file, q->o->bpw, up);
}

/* ---- the choice ------------------------------------------------------------------------------ */

static zt_status measure_losses(fit *f)
{
    quant *q = f->q;
    zt_status s = ZT_OK;
    int64_t n = 0;
    q->fitting = true;
    for (int64_t i = 0; i < q->n && s == ZT_OK; i++) {
        zt_progress(q->cli, &(zt_work){"measure", q->job[i].in.name, "tensors", (double)i,
                                       (double)q->n});
        if (is_free(&q->job[i]))
            s = try_types(q, i, f->c + N * n++);
    }
    q->fitting = false;
    return s;
}

/* The types of least loss whose size, as it is written, is within the limit. What a file holds
 * beside data hardly depends on them; what it does is taken from the room for data. */
static zt_status choose(fit *f)
{
    enum { TRIES = 16 };
    uint64_t smallest = pick_smallest(f), bytes = 0;
    zt_status s = take(f);
    if (s == ZT_OK)
        s = measure_size(f->q, &bytes);
    if (s == ZT_OK && bytes > f->limit)
        return refuse(f->q, bytes);
    uint64_t room = smallest + (f->limit - bytes);
    if (s == ZT_OK)
        s = measure_losses(f);
    for (int i = 0; i < TRIES && s == ZT_OK; i++) {
        s = zt_budget(f->q->ctx, f->c, f->n, N, room, f->pick);
        if (s == ZT_OK)
            s = take(f);
        if (s == ZT_OK)
            s = measure_size(f->q, &bytes);
        if (s != ZT_OK || bytes <= f->limit)
            return s;
        if (room - smallest < bytes - f->limit)
            break;
        room -= bytes - f->limit;
    }
    pick_smallest(f);
    return s == ZT_OK ? take(f) : s;
}

zt_status quant_fit(quant *q)
{
    fit f = {.q = q, .align = align_of(q), .limit = limit_of(q)};
    f.c = zt_alloc_array(q->ctx, (size_t)q->n + 1, N * sizeof *f.c);
    f.pick = zt_calloc(q->ctx, (size_t)q->n + 1, sizeof *f.pick);
    zt_status s = f.c && f.pick ? ZT_OK : ZT_ENOMEM;
    if (s == ZT_OK) {
        size_all(&f);
        s = choose(&f);
    }
    zt_free(q->ctx, f.c);
    zt_free(q->ctx, f.pick);
    return s;
}
