/* plan.c - owns what becomes of each tensor: opening the input, choosing types, telling fallbacks.
 */
#include "tools/zt-quant/quant.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A file that lies in the input's folder is an input. */
static zt_status refuse_inside(quant *q, const struct stat *folder)
{
    struct stat st;
    const char *name = q->into ? strrchr(q->into, '/') : NULL;
    if (!q->into || stat(q->into, &st))
        return ZT_OK;
    char *parent = name ? zt_strndup(q->ctx, q->into, (size_t)(name - q->into) + 1)
                        : zt_strdup(q->ctx, ".");
    if (!parent)
        return ZT_ENOMEM;
    bool inside = stat(parent, &st) == 0 && st.st_dev == folder->st_dev &&
                  st.st_ino == folder->st_ino;
    zt_free(q->ctx, parent);
    return inside ? zt_fail(q->ctx, ZT_ECREATE, "%s: is part of the input, and will not be "
                                                "overwritten", q->into)
                  : ZT_OK;
}

/* A folder is a language model of Hugging Face's, and becomes one of GGUF's names; any other file
 * is what it is. What needs to see the data twice cannot take it as it comes. */
zt_status quant_open(quant *q)
{
    struct stat st;
    bool folder = strcmp(q->from, "-") && stat(q->from, &st) == 0 && S_ISDIR(st.st_mode);
    bool twice = quant_fits(q->o) || q->o->scale == QUANT_SCALE_TENSOR || !q->mix;
    unsigned stream = twice ? 0 : ZT_CHECKPOINT_STREAM;
    zt_status s = zt_cli_refuse_same(q->cli, q->from, q->into);
    if (s == ZT_OK && folder)
        s = refuse_inside(q, &st);
    if (s != ZT_OK)
        return s;
    if (folder) {
        zt_gguf *g = zt_model_open_whole(q->ctx, q->from);
        q->in = g ? zt_checkpoint_of_gguf(q->ctx, g) : NULL;
    } else {
        q->in = zt_checkpoint_open(q->ctx, q->from, stream);
    }
    if (q->in && q->o->imatrix)
        q->imatrix = zt_imatrix_open(q->ctx, q->o->imatrix);
    return q->in && (q->imatrix || !q->o->imatrix) ? ZT_OK : zt_ctx_status(q->ctx);
}

/* ---- types ----------------------------------------------------------------------------------- */

/* What is known of the model. */
static zt_mix_of describe(const quant *q, char arch[64])
{
    zt_meta *m = zt_checkpoint_meta(q->in);
    int64_t i = zt_meta_find(m, "general.architecture");
    zt_bytes name = i >= 0 ? zt_meta_text(zt_meta_get(m, i)) : (zt_bytes){NULL, 0};
    zt_mix_of of = {.mix = q->mix, .wish = q->wish, .n_wishes = q->o->wishes.n,
                    .pure = q->o->pure, .imatrix = q->o->imatrix != NULL};
    if (!name.data)
        return of;
    snprintf(arch, 64, "%.*s", (int)(name.n < 63 ? name.n : 63), name.data);
    of.arch = arch;
    of.n_layers = quant_meta_i64(m, arch, "block_count");
    of.n_heads = quant_meta_i64(m, arch, "attention.head_count");
    of.n_kv_heads = quant_meta_i64(m, arch, "attention.head_count_kv");
    of.n_kv_heads = of.n_kv_heads ? of.n_kv_heads : of.n_heads;
    of.n_experts = quant_meta_i64(m, arch, "expert_count");
    return of;
}

/* A language model's norms and biases are f32, as llama.cpp wants them: other floats become so. */
static bool is_loose_vector(const quant *q, const quant_job *j)
{
    zt_dtype t = j->in.type.dtype;
    return q->is_llm && j->to.kept && j->in.type.rank == 1 &&
           (t == ZT_F16 || t == ZT_BF16 || t == ZT_F64);
}

zt_status quant_retype(quant *q, quant_job *j, zt_dtype t)
{
    zt_dtype was = j->in.type.dtype;
    j->type = j->in.type;
    if (is_loose_vector(q, j)) {
        j->type.dtype = ZT_F32;
        j->copy = false;
        return ZT_OK;
    }
    j->copy = j->to.kept || (t == was && (zt_dtype_get(t)->kind == 'Q' || quant_is_scaled(t)));
    j->to.dtype = t;
    if (j->to.kept)
        return ZT_OK;
    j->type.dtype = t;
    return zt_type_check(q->ctx, &j->type, NULL) ? ZT_OK : zt_ctx_status(q->ctx);
}

/* Each wish must be one for something. */
static zt_status check_wishes(quant *q)
{
    for (int k = 0; k < q->o->wishes.n; k++) {
        bool any = false;
        char shown[64];
        for (int64_t i = 0; i < q->n && !any; i++)
            any = !q->job[i].to.kept && zt_mix_matches(&q->wish[k], q->job[i].in.name);
        if (!any)
            return zt_fail(q->ctx, ZT_EUSAGE,
                           "%s: --tensor-type '%s': no tensor that is quantized has "
                           "such a name",
                           zt_checkpoint_name(q->in),
                           zt_escape(shown, sizeof shown, q->glob[k], strlen(q->glob[k])));
    }
    return ZT_OK;
}

static zt_status choose(quant *q)
{
    char arch[64];
    zt_mix_of of = describe(q, arch);
    q->n_layers = of.n_layers;
    q->is_llm = of.arch != NULL;
    zt_mix_tensor *t = zt_calloc(q->ctx, (size_t)q->n + 1, sizeof *t);
    zt_status s = t ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < q->n && s == ZT_OK; i++)
        t[i] = (zt_mix_tensor){.name = q->job[i].in.name, .type = &q->job[i].in.type};
    if (s == ZT_OK)
        s = zt_mix_choose(q->ctx, &of, t, q->n);
    for (int64_t i = 0; i < q->n && s == ZT_OK; i++) {
        q->job[i].to = t[i];
        s = quant_retype(q, &q->job[i], t[i].dtype);
    }
    zt_free(q->ctx, t);
    return s;
}

/* ---- importance ------------------------------------------------------------------------------ */

/* An importance of another shape is of another model; but an embedding is looked up and not
 * multiplied with, and its importance is not used. */
static zt_status take_importance(quant *q, quant_job *j)
{
    const zt_type *t = &j->in.type;
    if (strstr(j->in.name, "token_embd"))
        return ZT_OK;
    return zt_imatrix_fit(q->imatrix, j->in.name, quant_n_experts(t), t->dim[t->rank - 1],
                          &j->weighed);
}

/* Entries for tensors that the model does not have: all of them, and the importance is of another
 * model; some, and it may be. */
static zt_status check_entries(quant *q)
{
    int64_t n = zt_imatrix_count(q->imatrix), unknown = 0;
    const char *first = NULL;
    char shown[80];
    for (int64_t i = 0; i < n; i++) {
        const char *name = zt_imatrix_get(q->imatrix, i).name;
        if (zt_checkpoint_find(q->in, name) >= 0)
            continue;
        first = first ? first : name;
        unknown++;
    }
    if (n > 0 && unknown == 0)
        return ZT_OK;
    if (n == 0)
        return zt_fail(q->ctx, ZT_EDATA, "%s: an importance matrix without entries",
                       q->o->imatrix);
    zt_escape(shown, sizeof shown, first, strlen(first));
    if (unknown == n)
        return zt_fail(q->ctx, ZT_EDATA,
                       "%s: an importance matrix for another model: none of its %" PRId64
                       " entries ('%s', ...) names a tensor of %s",
                       q->o->imatrix, n, shown, zt_checkpoint_name(q->in));
    zt_cli_note(q->cli,
                "%s: %" PRId64 " of %" PRId64 " entries ('%s'%s) match no tensor of %s",
                q->o->imatrix, unknown, n, shown, unknown > 1 ? ", ..." : "",
                zt_checkpoint_name(q->in));
    return ZT_OK;
}

static zt_status take_importances(quant *q)
{
    int64_t n = 0, without = 0;
    zt_status s = q->imatrix ? check_entries(q) : ZT_OK;
    for (int64_t i = 0; q->imatrix && i < q->n && s == ZT_OK; i++) {
        if (q->job[i].to.kept)
            continue;
        s = take_importance(q, &q->job[i]);
        without += !q->job[i].weighed;
        n++;
    }
    if (s == ZT_OK && without > 0)
        zt_cli_note(q->cli, "%s: no importance of %" PRId64 " of %" PRId64 " matrices",
                    q->o->imatrix, without, n);
    return s;
}

/* What was quantized before has lost something already. */
static void tell_again(const quant *q)
{
    int64_t n = 0, matrices = 0;
    for (int64_t i = 0; i < q->n; i++)
        matrices += !q->job[i].to.kept;
    if (matrices == 0)
        zt_cli_note(q->cli, "%s: no tensor is a matrix: nothing to quantize",
                    zt_checkpoint_name(q->in));
    for (int64_t i = 0; i < q->n; i++)
        n += !q->job[i].copy && zt_dtype_get(q->job[i].in.type.dtype)->kind == 'Q';
    if (n > 0)
        zt_cli_note(q->cli,
                    "%s: %" PRId64 " tensors are quantized already: the new error comes on top",
                    zt_checkpoint_name(q->in), n);
}

zt_status quant_plan(quant *q)
{
    q->n = zt_checkpoint_count(q->in);
    q->job = zt_calloc(q->ctx, (size_t)q->n + 1, sizeof *q->job);
    if (!q->job)
        return ZT_ENOMEM;
    for (int64_t i = 0; i < q->n; i++)
        zt_checkpoint_get(q->in, i, &q->job[i].in);
    zt_status s = choose(q);
    if (s == ZT_OK)
        s = check_wishes(q);
    if (s == ZT_OK)
        s = take_importances(q);
    if (s == ZT_OK)
        tell_again(q);
    return s;
}

/* ---- fallbacks ------------------------------------------------------------------------------- */

void quant_tell_fallbacks(quant *q)
{
    int64_t n = 0;
    static int64_t pair[ZT_DTYPE_COUNT][ZT_DTYPE_COUNT];
    for (int64_t i = 0; i < q->n; i++)
        if (q->job[i].to.fell_back) {
            pair[q->job[i].to.wanted][q->job[i].to.dtype]++;
            n++;
        }
    if (n == 0)
        return;
    zt_str how;
    zt_str_init(&how, q->ctx);
    for (int a = 0; a < ZT_DTYPE_COUNT; a++)
        for (int b = 0; b < ZT_DTYPE_COUNT; b++)
            if (pair[a][b])
                zt_str_printf(&how, "%s%" PRId64 " %s for %s", how.len ? ", " : "", pair[a][b],
                              zt_dtype_get((zt_dtype)b)->name, zt_dtype_get((zt_dtype)a)->name);
    zt_cli_note(q->cli,
                "%s: %" PRId64 " of %" PRId64
                " tensors fall back, their rows are no whole blocks: %s",
                zt_checkpoint_name(q->in), n, q->n, how.data ? how.data : "");
    zt_str_fini(&how);
    if (q->o->strict)
        zt_cli_no(q->cli);
}
