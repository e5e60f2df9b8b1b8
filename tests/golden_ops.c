/* golden_ops.c - golden/ops/vjp: every op's values and vector-Jacobian products on ref and cpu, as
 * PyTorch has them. One table says how a golden op is spelled here; ops that are not in it are
 * counted and printed. */
#include "lib/run/run.h"
#include "tests/golden.h"
#include "tests/npy.h"
#include "tests/tap.h"

#include <jansson.h>
#include <math.h>

enum { MAX_ARGS = 8 };

/* ---- how golden ops are spelled here --------------------------------------------------------- */

typedef struct call {
    zt_prog *p;
    const json_t *attrs;
    int in[MAX_ARGS]; /* values; ZT_NONE: null */
    zt_type type[MAX_ARGS];
    int *more; /* a build's outputs after the first */
} call;

typedef struct spelling {
    const char *golden;
    zt_op op;
    const char *attrs; /* "golden:ours ..."; others have one name in both */
    const char *fixed; /* "name=word" or "name=number ..." */
    const char *order; /* our inputs as digits of the golden's; NULL: alike */
    bool ids;          /* i64 inputs are indices: i32 here */
    int (*build)(const call *c); /* instead: emits its ops and returns the output; -1: not built */
} spelling;

static double number(const call *c, const char *name)
{
    return json_number_value(json_object_get(c->attrs, name));
}

static int build_div_scalar(const call *c)
{
    return zt_emit_scale(c->p, NULL, c->in[0], &(zt_scale_attrs){1 / number(c, "c")});
}

static int build_flatten(const call *c)
{
    zt_reshape_attrs a = {{1, {zt_type_count(&c->type[0])}}};
    return zt_emit_reshape(c->p, NULL, c->in[0], &a);
}

static int build_slice_range0(const call *c)
{
    int64_t from = (int64_t)number(c, "start");
    return zt_emit_slice(c->p, NULL, c->in[0],
                         &(zt_slice_attrs){0, from, from + (int64_t)number(c, "len")});
}

/* y = W x + b of one vector: a batch of one. */
static int build_linear_vec(const call *c)
{
    const zt_type *w = &c->type[0];
    zt_reshape_attrs one = {{2, {1, w->dim[1]}}}, flat = {{1, {w->dim[0]}}};
    int x = zt_emit_reshape(c->p, NULL, c->in[2], &one);
    int y = zt_emit_linear(c->p, NULL, x, c->in[0], c->in[1], NULL);
    return zt_emit_reshape(c->p, NULL, y, &flat);
}

static int permuted(const call *c, int64_t p, int64_t q, int64_t r)
{
    return zt_emit_transpose(c->p, NULL, c->in[0], &(zt_transpose_attrs){{3, {p, q, r}}});
}

static int build_bca(const call *c) { return permuted(c, 1, 2, 0); }
static int build_cab(const call *c) { return permuted(c, 2, 0, 1); }
static int build_acb(const call *c) { return permuted(c, 0, 2, 1); }

/* Past the last pair of axes: nothing moves. */
static int build_swap_adjacent(const call *c)
{
    int rank = c->type[0].rank;
    int64_t depth = (int64_t)number(c, "depth");
    zt_transpose_attrs a = {{rank, {0}}};
    for (int d = 0; d < rank; d++)
        a.axes.v[d] = depth + 1 >= rank ? d : d == depth ? d + 1 : d == depth + 1 ? d - 1 : d;
    return zt_emit_transpose(c->p, NULL, c->in[0], &a);
}

static int build_split(const call *c)
{
    int64_t axis = (int64_t)number(c, "axis"), n = (int64_t)number(c, "num");
    int64_t size = c->type[0].dim[axis < 0 ? axis + c->type[0].rank : axis] / n;
    int first = -1;
    for (int k = 0; k < n && k < ZT_MAX_OUT; k++) {
        zt_slice_attrs a = {axis, k * size, (k + 1) * size};
        int y = zt_emit_slice(c->p, NULL, c->in[0], &a);
        *(k ? &c->more[k - 1] : &first) = y;
    }
    return first;
}

static int build_scaled_softmax(const call *c)
{
    int x = zt_emit_scale(c->p, NULL, c->in[0], &(zt_scale_attrs){number(c, "scale")});
    return zt_emit_softmax(c->p, NULL, x, &(zt_softmax_attrs){(int64_t)number(c, "axis")});
}

/* x[index] by a slice, and one added there by a slice put among zeros. */
static int build_gather_one(const call *c)
{
    const zt_type *x = &c->type[0];
    int64_t i = (int64_t)number(c, "index");
    zt_reshape_attrs flat = {{x->rank - 1, {0}}};
    memcpy(flat.shape.dim, x->dim + 1, (size_t)(x->rank - 1) * sizeof x->dim[0]);
    int y = zt_emit_slice(c->p, NULL, c->in[0], &(zt_slice_attrs){0, i, i + 1});
    return zt_emit_reshape(c->p, NULL, y, &flat);
}

static int build_add_one(const call *c)
{
    const zt_type *x = &c->type[0];
    int64_t i = (int64_t)number(c, "index");
    zt_reshape_attrs row = {{x->rank, {1}}};
    memcpy(row.shape.dim + 1, x->dim + 1, (size_t)(x->rank - 1) * sizeof x->dim[0]);
    int v = zt_emit_reshape(c->p, NULL, c->in[1], &row);
    v = zt_emit_slice_put(c->p, NULL, v, c->in[0], &(zt_slice_put_attrs){0, i, i + 1});
    return zt_emit_add(c->p, NULL, c->in[0], v);
}

static int build_mse(const call *c)
{
    int d = zt_emit_sub(c->p, NULL, c->in[0], c->in[1]);
    return zt_emit_mean(c->p, NULL, zt_emit_square(c->p, NULL, d), NULL);
}

/* m (|d| - m/2) with m = min(|d|, 1) is d^2/2 up to 1, then |d| - 1/2. */
static int build_smooth_l1(const call *c)
{
    zt_prog *p = c->p;
    const zt_clamp_attrs to_one = {-1, 1};
    int d = zt_emit_abs(p, NULL, zt_emit_sub(p, NULL, c->in[0], c->in[1]));
    int m = zt_emit_clamp(p, NULL, d, &to_one);
    int half = zt_emit_scale(p, NULL, m, &(zt_scale_attrs){0.5});
    int y = zt_emit_mul(p, NULL, m, zt_emit_sub(p, NULL, d, half));
    return zt_emit_mean(p, NULL, y, NULL);
}

static int build_bce(const call *c)
{
    zt_prog *p = c->p;
    int y = zt_emit_sub(p, NULL, zt_emit_softplus(p, NULL, c->in[0]),
                        zt_emit_mul(p, NULL, c->in[0], c->in[1]));
    return zt_emit_mean(p, NULL, y, NULL);
}

/* The mean over rows of -log softmax(x)[target]. */
static int build_cross_entropy(const call *c)
{
    zt_prog *p = c->p;
    zt_one_hot_attrs hot = zt_one_hot_defaults();
    hot.depth = c->type[0].dim[1];
    int y = zt_emit_mul(p, NULL, zt_emit_log_softmax(p, NULL, c->in[0], NULL),
                        zt_emit_one_hot(p, NULL, c->in[1], &hot));
    return zt_emit_scale(p, NULL, zt_emit_sum(p, NULL, y, NULL),
                         &(zt_scale_attrs){-1.0 / (double)c->type[0].dim[0]});
}

/* A vector of a number a channel, so that it broadcasts along dimension `axis` of x. */
static int along(const call *c, int v, int axis)
{
    zt_reshape_attrs a = {{c->type[0].rank - axis, {c->type[0].dim[axis], 1, 1, 1, 1, 1, 1, 1}}};
    return zt_emit_reshape(c->p, NULL, v, &a);
}

/* Normalised over groups of what follows each other, then times gamma and plus beta by channel. */
static int group_norm(const call *c, int64_t groups, int axis)
{
    zt_prog *p = c->p;
    int64_t count = zt_type_count(&c->type[0]);
    zt_reshape_attrs rows = {{2, {groups, groups ? count / groups : 0}}};
    zt_reshape_attrs back = {{c->type[0].rank, {0}}};
    memcpy(back.shape.dim, c->type[0].dim, sizeof back.shape.dim);
    int n = zt_emit_layer_norm(p, NULL, zt_emit_reshape(p, NULL, c->in[0], &rows), ZT_NONE, ZT_NONE,
                               &(zt_layer_norm_attrs){number(c, "eps")}, NULL, NULL);
    n = zt_emit_mul(p, NULL, zt_emit_reshape(p, NULL, n, &back), along(c, c->in[1], axis));
    return zt_emit_add(p, NULL, n, along(c, c->in[2], axis));
}

static int build_batchnorm_chw(const call *c) { return group_norm(c, c->type[0].dim[0], 0); }

static int build_instancenorm(const call *c)
{
    return group_norm(c, c->type[0].dim[0] * c->type[0].dim[1], 1);
}

static int build_groupnorm(const call *c)
{
    return group_norm(c, c->type[0].dim[0] * (int64_t)number(c, "groups"), 1);
}

static int build_batchnorm_infer(const call *c)
{
    zt_prog *p = c->p;
    int var = zt_emit_add_scalar(p, NULL, c->in[4], &(zt_add_scalar_attrs){number(c, "eps")});
    int by = zt_emit_mul(p, NULL, zt_emit_rsqrt(p, NULL, var), c->in[1]);
    int y = zt_emit_sub(p, NULL, c->in[0], along(c, c->in[3], 1));
    y = zt_emit_mul(p, NULL, y, along(c, by, 1));
    return zt_emit_add(p, NULL, y, along(c, c->in[2], 1));
}

static int build_swiglu_ffn(const call *c)
{
    zt_prog *p = c->p;
    int gate = zt_emit_matmul(p, NULL, c->in[0], c->in[1], NULL);
    int up = zt_emit_matmul(p, NULL, c->in[0], c->in[2], NULL);
    return zt_emit_matmul(p, NULL, zt_emit_swiglu(p, NULL, gate, up), c->in[3], NULL);
}

/* The tables say how many columns turn: rotary_dim, where 0 is all. */
static int build_rope(const call *c)
{
    return zt_emit_rope_table(c->p, NULL, c->in[0], c->in[1], c->in[2], NULL);
}

static int build_rope_interleaved(const call *c)
{
    const zt_rope_table_attrs a = {{"neighbours"}};
    return zt_emit_rope_table(c->p, NULL, c->in[0], c->in[1], c->in[2], &a);
}

static const spelling spellings[] = {
#define SAME(name) {#name, ZT_OP_##name, 0, 0, 0, 0, 0}
    SAME(neg), SAME(abs), SAME(sqrt), SAME(rsqrt), SAME(exp), SAME(sin), SAME(cos), SAME(tanh),
    SAME(sigmoid), SAME(relu), SAME(softplus), SAME(square), SAME(silu), SAME(elu), SAME(log1p),
    SAME(expm1), SAME(tan), SAME(erf), SAME(tanh_prime), SAME(safe_log), SAME(clamp),
    SAME(leaky_relu), SAME(pow_scalar), SAME(add), SAME(sub), SAME(mul), SAME(div), SAME(max),
    SAME(min), SAME(pow), SAME(eq), SAME(ne), SAME(lt), SAME(le), SAME(gt), SAME(ge),
    SAME(logical_and), SAME(logical_or), SAME(logical_xor), SAME(logical_not), SAME(where),
    SAME(reshape), SAME(broadcast_to), SAME(matmul), SAME(swiglu),
    SAME(argmax), SAME(argmin), SAME(cumsum), SAME(softmax), SAME(log_softmax), SAME(transpose),
    SAME(concat),
    {"gather_dim", ZT_OP_gather_elements, "dim:axis", 0, 0, true, 0},
    {"scatter_add_dim", ZT_OP_scatter_add_elements, "dim:axis", 0, "021", true, 0},
    {"gather_vec", ZT_OP_gather_elements, 0, 0, 0, true, 0},
    {"scatter_add_vec_many", ZT_OP_scatter_add_elements, 0, 0, "021", true, 0},
    {"one_hot", ZT_OP_one_hot, 0, 0, 0, true, 0},
    {"gather_scalar", 0, 0, 0, 0, 0, build_gather_one},
    {"gather_row", 0, 0, 0, 0, 0, build_gather_one},
    {"scatter_add_vec", 0, 0, 0, 0, 0, build_add_one},
    {"scatter_add_row", 0, 0, 0, 0, 0, build_add_one},
    {"sum_all", ZT_OP_sum, 0, 0, 0, 0, 0},
    {"reduce_sum", ZT_OP_sum, "axis:axes", 0, 0, 0, 0},
    {"reduce_mean", ZT_OP_mean, "axis:axes", 0, 0, 0, 0},
    {"reduce_max", ZT_OP_amax, "axis:axes", 0, 0, 0, 0},
    {"reduce_min", ZT_OP_amin, "axis:axes", 0, 0, 0, 0},
    {"reduce_prod", ZT_OP_prod, "axis:axes", 0, 0, 0, 0},
    {"logsumexp", ZT_OP_logsumexp, "axis:axes", 0, 0, 0, 0},
    {"repeat", ZT_OP_repeat, "repetitions:times", 0, 0, 0, 0},
    {"permute3_bca", 0, 0, 0, 0, 0, build_bca},
    {"permute3_cab", 0, 0, 0, 0, 0, build_cab},
    {"permute3_acb", 0, 0, 0, 0, 0, build_acb},
    {"swap_adjacent", 0, 0, 0, 0, 0, build_swap_adjacent},
    {"split", 0, 0, 0, 0, 0, build_split},
    {"scaled_softmax", 0, 0, 0, 0, 0, build_scaled_softmax},
    {"mse", 0, 0, 0, 0, 0, build_mse},
    {"log", ZT_OP_ln, 0, 0, 0, 0, 0},
    {"inv", ZT_OP_recip, 0, 0, 0, 0, 0},
    {"gelu_tanh", ZT_OP_gelu, 0, 0, 0, 0, 0},
    {"gelu_erf", ZT_OP_gelu, 0, "form=erf", 0, 0, 0},
    {"add_scalar", ZT_OP_add_scalar, "c:by", 0, 0, 0, 0},
    {"scale", ZT_OP_scale, "c:by", 0, 0, 0, 0},
    {"div_scalar", 0, 0, 0, 0, 0, build_div_scalar},
    {"flatten", 0, 0, 0, 0, 0, build_flatten},
    {"slice_range0", 0, 0, 0, 0, 0, build_slice_range0},
    {"matmul_tb", ZT_OP_matmul, 0, "tb=1", 0, 0, 0},
    {"bmm", ZT_OP_matmul, 0, 0, 0, 0, 0},
    {"linear", 0, 0, 0, 0, 0, build_linear_vec},
    {"linear_batch", ZT_OP_linear, 0, 0, "201", 0, 0},
    {"gather_rows", ZT_OP_gather, 0, 0, 0, true, 0},
    {"embedding", ZT_OP_gather, 0, 0, 0, true, 0},
    {"scatter_add_rows", ZT_OP_scatter_add, 0, 0, "021", true, 0},
    {"smooth_l1", 0, 0, 0, 0, 0, build_smooth_l1},
    {"cross_entropy", 0, 0, 0, 0, true, build_cross_entropy},
    {"nll", 0, 0, 0, 0, true, build_cross_entropy},
    {"batchnorm_chw", 0, 0, 0, 0, 0, build_batchnorm_chw},
    {"instancenorm", 0, 0, 0, 0, 0, build_instancenorm},
    {"groupnorm", 0, 0, 0, 0, 0, build_groupnorm},
    {"batchnorm_infer", 0, 0, 0, 0, 0, build_batchnorm_infer},
    {"bce_with_logits", 0, 0, 0, 0, 0, build_bce},
    {"swiglu_ffn", 0, 0, 0, 0, 0, build_swiglu_ffn},
    {"rope", 0, 0, 0, 0, 0, build_rope},
    {"rope_interleaved", 0, 0, 0, 0, 0, build_rope_interleaved},
    {"add_rmsnorm", ZT_OP_add_rms_norm, 0, 0, 0, 0, 0},
    SAME(norm_add),
    {"layernorm", ZT_OP_layer_norm, 0, 0, 0, 0, 0},
    {"rmsnorm", ZT_OP_rms_norm, 0, 0, 0, 0, 0},
};

static const spelling *spelled(const char *golden)
{
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
        if (!strcmp(spellings[i].golden, golden)) return &spellings[i];
    return NULL;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static double json_number(const json_t *v)
{
    const char *s = json_string_value(v);
    if (s) return strtod(s, NULL); /* "inf" */
    return json_is_boolean(v) ? json_is_true(v) : json_number_value(v);
}

static bool set_attr(const zt_opinfo *info, const char *name, const json_t *v, char *attrs)
{
    for (int k = 0; k < info->n_attrs; k++) {
        const zt_attrdef *a = &info->attrs[k];
        if (strcmp(a->name, name)) continue;
        double d = json_number(v);
        int64_t i = (int64_t)d;
        zt_dims dims = {.n = (int64_t)json_array_size(v)};
        zt_word word = {{0}};
        for (int64_t j = 0; j < dims.n && j < ZT_MAX_RANK; j++)
            dims.dim[j] = json_integer_value(json_array_get(v, (size_t)j));
        if (json_string_value(v)) snprintf(word.s, sizeof word.s, "%s", json_string_value(v));
        if (a->kind == ZT_ATTR_f64) memcpy(attrs + a->offset, &d, sizeof d);
        if (a->kind == ZT_ATTR_i64) memcpy(attrs + a->offset, &i, sizeof i);
        if (a->kind == ZT_ATTR_dims) memcpy(attrs + a->offset, &dims, sizeof dims);
        zt_ints ints = json_is_array(v) ? (zt_ints){.n = dims.n} : (zt_ints){1, {i}};
        if (json_is_array(v)) memcpy(ints.v, dims.dim, sizeof ints.v);
        if (a->kind == ZT_ATTR_ints) memcpy(attrs + a->offset, &ints, sizeof ints);
        if (a->kind == ZT_ATTR_word) memcpy(attrs + a->offset, &word, sizeof word);
        return true;
    }
    return false;
}

/* "c:by" among the renames of a spelling. */
static const char *renamed(const spelling *s, const char *name, char *buf, size_t room)
{
    size_t n = strlen(name);
    for (const char *at = s->attrs; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (!strncmp(at, name, n) && at[n] == ':') {
            snprintf(buf, room, "%.*s", (int)strcspn(at + n + 1, " "), at + n + 1);
            return buf;
        }
    return name;
}

static bool read_attrs(const spelling *s, const json_t *given, char *attrs)
{
    const zt_opinfo *info = zt_op_info(s->op);
    const char *key;
    char name[64], word[64];
    json_t *v;
    bool good = true;
    memcpy(attrs, info->defaults, info->attr_bytes);
    json_object_foreach((json_t *)given, key, v) good &=
        set_attr(info, renamed(s, key, name, sizeof name), v, attrs);
    if (s->fixed && sscanf(s->fixed, "%63[^=]=%63s", name, word) == 2) {
        char *end;
        double d = strtod(word, &end);
        v = *end ? json_string(word) : json_real(d);
        good &= set_attr(info, name, v, attrs);
        json_decref(v);
    }
    return good;
}

/* ---- a case ---------------------------------------------------------------------------------- */

typedef struct golden_case {
    zt_ctx *ctx;
    const json_t *json;
    const npz *z;
    const spelling *how;
    const char *name;
    double rtol, atol;
    zt_prog *p;
    int in[MAX_ARGS], n_in, n_out;
    void *data[2 * MAX_ARGS]; /* of the inputs, then of the cotangents that there are */
} golden_case;

static zt_dtype dtype_of(const npy *a, bool ids)
{
    static const struct {
        const char *descr;
        zt_dtype dtype;
    } list[] = {{"<f4", ZT_F32}, {"<f8", ZT_F64}, {"<f2", ZT_F16}, {"<i8", ZT_I64}, {"<i4", ZT_I32},
                {"<i2", ZT_I16}, {"|i1", ZT_I8},  {"|u1", ZT_U8},  {"|b1", ZT_BOOL}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (!strcmp(a->descr, list[i].descr))
            return ids && list[i].dtype == ZT_I64 ? ZT_I32 : list[i].dtype;
    return ZT_DTYPE_COUNT;
}

static bool get(const golden_case *g, const char *list, int i, npy *a)
{
    const json_t *t = json_array_get(json_object_get(g->json, list), (size_t)i);
    const char *key = json_string_value(json_object_get(t, "key"));
    return key && npz_get(g->z, key, a);
}

static int count(const golden_case *g, const char *list)
{
    return (int)json_array_size(json_object_get(g->json, list));
}

static bool there(const golden_case *g, const char *list, int i)
{
    return json_is_object(json_array_get(json_object_get(g->json, list), (size_t)i));
}

static double element(const void *data, zt_dtype t, int64_t i)
{
    const char *at = (const char *)data + i * zt_dtype_get(t)->block_bytes;
    int64_t v = 0;
    double d;
    float f;
    if (t == ZT_F64) memcpy(&d, at, sizeof d);
    if (t == ZT_F64) return d;
    if (zt_dtype_is_float(t)) zt_dtype_get(t)->decode(at, &f, 1);
    if (zt_dtype_is_float(t)) return (double)f;
    memcpy(&v, at, (size_t)zt_dtype_get(t)->block_bytes);
    int unused = 64 - 8 * zt_dtype_get(t)->block_bytes;
    bool sign = zt_dtype_get(t)->kind == 'I';
    return sign ? (double)((int64_t)((uint64_t)v << unused) >> unused) : (double)v;
}

static void *copy_values(const npy *a, zt_dtype to)
{
    size_t size = (size_t)zt_dtype_get(to)->block_bytes;
    char *data = calloc((size_t)a->count + 1, size);
    if (to != ZT_I32 || !strcmp(a->descr, "<i4")) {
        memcpy(data, a->data, (size_t)a->count * size);
        return data;
    }
    for (int64_t i = 0; i < a->count; i++) {
        int64_t v;
        memcpy(&v, (const char *)a->data + i * 8, 8);
        int32_t w = (int32_t)v;
        memcpy(data + i * 4, &w, 4);
    }
    return data;
}

static bool add_inputs(golden_case *g, call *c)
{
    char name[16];
    g->n_in = count(g, "inputs");
    for (int i = 0; i < g->n_in && i < MAX_ARGS; i++) {
        npy a;
        g->in[i] = c->in[i] = ZT_NONE;
        if (!there(g, "inputs", i)) continue;
        if (!get(g, "inputs", i, &a)) return false;
        zt_dtype t = dtype_of(&a, g->how->ids);
        snprintf(name, sizeof name, "x%d", i);
        c->type[i] = zt_type_make(t, a.rank, a.shape);
        g->in[i] = c->in[i] = zt_prog_in(g->p, name, t, a.rank, a.shape);
        g->data[i] = copy_values(&a, t);
        npy_free(&a);
    }
    return g->n_in <= MAX_ARGS;
}

static bool add_op(golden_case *g, const call *c)
{
    const spelling *s = g->how;
    int in[ZT_MAX_IN], out[ZT_MAX_OUT] = {-1, -1, -1};
    int64_t attrs[ZT_MAX_ATTR_BYTES / 8];
    char name[16];
    g->n_out = count(g, "outputs");
    if (s->build) {
        call with = *c;
        with.more = out + 1;
        out[0] = s->build(&with);
    } else {
        const zt_opinfo *info = zt_op_info(s->op);
        for (int k = 0; k < ZT_MAX_IN; k++) {
            int from = s->order && k < (int)strlen(s->order) ? s->order[k] - '0' : k;
            in[k] = from < g->n_in && k < info->n_in ? c->in[from] : ZT_NONE;
        }
        if (!read_attrs(s, c->attrs, (char *)attrs)) return false;
        if (zt_prog_op(g->p, s->op, attrs, in, NULL, out)) return false;
    }
    for (int k = 0; k < g->n_out && k < ZT_MAX_OUT; k++) {
        snprintf(name, sizeof name, "y%d", k);
        if (out[k] < 0 || zt_prog_out(g->p, name, out[k])) return false;
    }
    return true;
}

/* ---- running and comparing ------------------------------------------------------------------- */

static bool says(const golden_case *g, const char *engine, const char *what)
{
    diag("%s on %s: %s: %s", g->name, engine, what, zt_ctx_error(g->ctx));
    zt_ctx_clear(g->ctx);
    return false;
}

/* |got - want| <= atol + rtol |want|; atol grows with the largest value, for sums' sake. */
static bool alike(const golden_case *g, const char *list, int i, const zt_type *t, const void *got)
{
    npy a;
    if (!get(g, list, i, &a)) return false;
    zt_dtype dt = dtype_of(&a, false);
    double most = 1;
    bool good = a.count == zt_type_count(t);
    for (int64_t e = 0; e < a.count; e++) {
        double w = fabs(element(a.data, dt, e));
        if (isfinite(w) && w > most) most = w;
    }
    for (int64_t e = 0; e < a.count && good; e++) {
        double w = element(a.data, dt, e), y = element(got, t->dtype, e);
        if (zt_dtype_is_float(t->dtype) && zt_dtype_is_float(dt)) w = isfinite(w) ? w : (float)w;
        good = y == w || (isnan(y) && isnan(w)) ||
               fabs(y - w) <= g->atol * most + g->rtol * fabs(w) ||
               (isinf((float)w) && y == (float)w);
        if (!good)
            diag("%s %d, element %lld: %.9g, not %.9g", list, i, (long long)e, y, w);
    }
    npy_free(&a);
    return good;
}

/* Replays p (inputs: the case's data in order) and keeps all outputs, malloc'ed. */
static bool run(const golden_case *g, zt_engine *e, const zt_prog *p, void **out, zt_type *type)
{
    int n = zt_prog_n_outputs(p);
    zt_bound *b = zt_prog_bind(p, NULL, 0);
    if (!b) return false;
    const void *in[2 * MAX_ARGS];
    int n_in = 0;
    for (int i = 0; i < 2 * MAX_ARGS; i++)
        if (g->data[i]) in[n_in++] = g->data[i];
    for (int o = 0; o < n; o++) {
        type[o] = b->type[zt_prog_output(p, o)->value];
        out[o] = calloc(1, zt_type_bytes(&type[o]) + 1);
    }
    zt_bound_free(b);
    zt_session *s = zt_session_open(e, p, NULL, NULL);
    bool good = s && zt_session_step(s, NULL, 0, in, out) == ZT_OK;
    zt_session_close(s);
    return good;
}

static bool check_forward(golden_case *g, zt_engine *e)
{
    void *out[4 * MAX_ARGS] = {0};
    zt_type type[4 * MAX_ARGS];
    bool good = run(g, e, g->p, out, type) || says(g, e->vt->name, "does not run");
    for (int k = 0; k < g->n_out && good; k++)
        if (there(g, "outputs", k))
            good = alike(g, "outputs", k, &type[k], out[k]) || says(g, e->vt->name, "output");
    for (int o = 0; o < zt_prog_n_outputs(g->p); o++) free(out[o]);
    return good;
}

/* The gradient program, with the cotangents' data after the inputs'. */
static zt_prog *gradient(golden_case *g, int *wrt, int *n)
{
    static const char *const names[] = {"y0", "y1", "y2"};
    const char *of[ZT_MAX_OUT];
    int n_of = 0;
    for (int k = 0; k < g->n_out && k < ZT_MAX_OUT; k++) {
        npy a;
        if (!there(g, "cotangents", k) || !get(g, "cotangents", k, &a)) continue;
        if (!g->data[MAX_ARGS + k]) g->data[MAX_ARGS + k] = copy_values(&a, dtype_of(&a, false));
        npy_free(&a);
        of[n_of++] = names[k];
    }
    *n = 0;
    for (int i = 0; i < g->n_in; i++)
        if (there(g, "vjp", i)) wrt[(*n)++] = g->in[i];
    return zt_prog_grad(g->ctx, g->p, wrt, *n,
                        &(zt_grad_opts){.of = of, .n_of = n_of, .seeds = true});
}

static bool check_vjp(golden_case *g, zt_engine *e)
{
    void *out[4 * MAX_ARGS] = {0};
    zt_type type[4 * MAX_ARGS];
    int wrt[MAX_ARGS], n, o = zt_prog_n_outputs(g->p);
    zt_prog *p = gradient(g, wrt, &n);
    if (!p) return says(g, e->vt->name, "no gradient");
    bool good = run(g, e, p, out, type) || says(g, e->vt->name, "its gradient does not run");
    for (int i = 0; i < g->n_in && good; i++)
        if (there(g, "vjp", i)) {
            good = alike(g, "vjp", i, &type[o], out[o]) || says(g, e->vt->name, "vjp");
            o++;
        }
    for (int k = 0; k < zt_prog_n_outputs(p); k++) free(out[k]);
    zt_prog_free(p);
    return good;
}

static bool check_case(golden_case *g, zt_engine *const *engines)
{
    bool good = true;
    g->p = zt_prog_new(g->ctx);
    call c = {.p = g->p, .attrs = json_object_get(g->json, "attrs")};
    if (!add_inputs(g, &c) || !add_op(g, &c)) good = says(g, "any", "cannot be written");
    for (int e = 0; e < 2 && good; e++) {
        good = check_forward(g, engines[e]);
        if (good && count(g, "vjp") > 0) good = check_vjp(g, engines[e]);
        for (int k = 0; k < MAX_ARGS; k++) {
            free(g->data[MAX_ARGS + k]);
            g->data[MAX_ARGS + k] = NULL;
        }
    }
    for (int k = 0; k < MAX_ARGS; k++) free(g->data[k]);
    zt_prog_free(g->p);
    return good;
}

/* ---- walking --------------------------------------------------------------------------------- */

typedef struct tally {
    char op[48];
    int cases, passed;
    bool built;
} tally;

static tally tallies[512];
static int n_tallies;

static tally *tally_of(const char *op)
{
    for (int i = 0; i < n_tallies; i++)
        if (!strcmp(tallies[i].op, op)) return &tallies[i];
    if (n_tallies == (int)(sizeof tallies / sizeof tallies[0])) return &tallies[n_tallies - 1];
    snprintf(tallies[n_tallies].op, sizeof tallies[0].op, "%s", op);
    return &tallies[n_tallies++];
}

/* The npz of a case, kept open while the next case has the same. */
static const npz *archive(const char *folder, const char *file)
{
    static npz z;
    static char open_now[512];
    char path[512];
    if (!folder) {
        if (open_now[0]) npz_close(&z);
        return NULL;
    }
    snprintf(path, sizeof path, "%s/ops/vjp/%s", folder, file);
    if (!strcmp(path, open_now)) return &z;
    if (open_now[0]) npz_close(&z);
    open_now[0] = 0;
    if (!npz_open(&z, path)) return NULL;
    snprintf(open_now, sizeof open_now, "%s", path);
    return &z;
}

static void walk(zt_ctx *ctx, zt_engine *const *engines, const char *folder, const json_t *cases)
{
    size_t i;
    json_t *json;
    json_array_foreach(cases, i, json)
    {
        const json_t *tol = json_object_get(json, "tol");
        const char *op = json_string_value(json_object_get(json, "op"));
        golden_case g = {.ctx = ctx,
                         .json = json,
                         .how = spelled(op),
                         .name = json_string_value(json_object_get(json, "name")),
                         .rtol = json_number_value(json_object_get(tol, "rtol")),
                         .atol = json_number_value(json_object_get(tol, "atol"))};
        tally *t = tally_of(op);
        t->cases++;
        t->built = g.how != NULL;
        if (!g.how) continue;
        g.z = archive(folder, json_string_value(json_object_get(json, "file")));
        t->passed += g.z && check_case(&g, engines);
    }
    archive(NULL, NULL);
}

static void report(void)
{
    int built = 0, all = 0;
    char line[160] = "";
    for (int i = 0; i < n_tallies; i++) {
        const tally *t = &tallies[i];
        all += t->cases;
        if (!t->built) continue;
        ok(t->passed == t->cases, "%s: %d of %d cases, values and gradients", t->op, t->passed,
           t->cases);
        built += t->cases;
    }
    diag("%d of %d cases are of ops in the table; not built yet:", built, all);
    for (int i = 0; i < n_tallies; i++) {
        if (tallies[i].built) continue;
        char text[64];
        snprintf(text, sizeof text, " %.40s %d", tallies[i].op, tallies[i].cases);
        if (strlen(line) + strlen(text) >= 100) {
            diag("%s", line);
            line[0] = 0;
        }
        strcat(line, text);
    }
    if (line[0]) diag("%s", line);
}

int main(void)
{
    const char *folder = golden_folder();
    char path[512];
    if (!folder) {
        skip("no golden cases (ZT_GOLDEN)");
        return tap_done();
    }
    snprintf(path, sizeof path, "%s/ops/vjp/manifest.json", folder);
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *engines[2] = {zt_engine_open(ctx, "ref", &(zt_engine_opts){0}),
                             zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2})};
    json_t *manifest = golden_has(path) ? json_load_file(path, 0, NULL) : NULL;
    ok(engines[0] && engines[1], "the engines open");
    if (manifest) walk(ctx, engines, folder, json_object_get(manifest, "cases"));
    if (golden_has(path)) ok(manifest != NULL, "the list of cases is read");
    report();
    json_decref(manifest);
    zt_engine_close(engines[0]);
    zt_engine_close(engines[1]);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
