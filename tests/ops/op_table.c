/* op_table.c - the op table: what it knows, and values known by hand. (What it refuses: op_refusals.c.) */
#include "lib/ops/ops.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------------------------- */

static void table_is_whole(void)
{
    bool rows = true, found = true, attrs = true;
    zt_op op;
    for (int i = 0; i < ZT_OP_COUNT; i++) {
        const zt_opinfo *info = zt_op_info((zt_op)i);
        const zt_opdef *def = info->def;
        rows &= def->synopsis && def->synopsis[0] && def->infer && def->ref && def->cases;
        rows &= def->n_required >= 1 && def->n_required <= info->n_in;
        found &= zt_op_find(info->name, strlen(info->name), &op) && op == (zt_op)i;
        found &= !zt_op_find(info->name, strlen(info->name) - 1, &op) || op != (zt_op)i;
        for (int a = 0; a < info->n_attrs; a++) attrs &= info->attrs[a].offset < info->attr_bytes && info->attrs[a].name[0];
    }
    ok(rows, "every row says synopsis, inference, reference and cases");
    ok(found, "every op is found by its whole name");
    ok(attrs, "every attribute lies in its struct");
    ok(!zt_op_find("ropee", 5, &op) && !zt_op_find("", 0, &op), "no op of another name");
    ok(!zt_op_info(ZT_OP_COUNT), "no op past the last");
    ok(zt_op_find("ln", 2, &op) && op == ZT_OP_log && !strcmp(zt_op_old_name(op), "ln") && !zt_op_old_name(ZT_OP_exp),
       "ln is log by its old name");
}

static void defaults_are_right(void)
{
    const zt_opinfo *rope = zt_op_info(ZT_OP_rope);
    zt_rope_attrs a = zt_rope_defaults();
    ok(a.theta == 1e4 && a.dims == 0 && a.scale == 1 && !strcmp(a.pair.s, "halves"), "rope's defaults");
    ok(!memcmp(rope->defaults, &a, sizeof a) && rope->attr_bytes == sizeof a, "the same by the table");
    ok(rope->n_in == 3 && rope->n_out == 1 && rope->n_attrs == 9 && rope->def->n_required == 2, "rope's arity");
    ok(!strcmp(rope->in_name[2], "tab") && !strcmp(rope->attrs[3].name, "pair") && rope->attrs[3].kind == ZT_ATTR_word &&
           rope->attrs[3].offset == offsetof(zt_rope_attrs, pair),
       "rope's names");
    ok(zt_op_info(ZT_OP_add)->n_attrs == 0, "add has no attributes");
}

static void fills_repeat(void)
{
    zt_case op_case;
    unsigned char a[4096], b[4096];
    bool same = true, other = true;
    for (int i = 0; zt_op_case(ZT_OP_gather, i, &op_case); i++) {
        if (zt_type_bytes(&op_case.in[0]) > sizeof a) continue;
        zt_case_fill(&op_case, 0, 3, a);
        zt_case_fill(&op_case, 0, 3, b);
        same &= !memcmp(a, b, zt_type_bytes(&op_case.in[0]));
        zt_case_fill(&op_case, 0, 4, b);
        other &= !!memcmp(a, b, zt_type_bytes(&op_case.in[0]));
    }
    ok(same, "a case is filled alike by one seed");
    ok(other, "and otherwise by another");
}

static void permutation_is_one(void)
{
    int32_t t[3 * 12];
    int seen[12] = {0}, first = 0;
    zt_case op_case = {.in = {zt_type_make(ZT_I32, 2, (int64_t[]){3, 12})}, .fill = {ZT_FILL_PERM}};
    zt_case_fill(&op_case, 0, 5, t);
    for (int b = 0; b < 12; b++) seen[t[b]]++;
    bool once = true;
    for (int b = 0; b < 12; b++) once &= seen[b] == 1;
    ok(once, "a row of a block table is a permutation");
    memset(seen, 0, sizeof seen);
    for (int s = 0; s < 3; s++)
        for (int b = 0; b < 4; b++) first += seen[t[s * 12 + b]]++ == 0;
    ok(first == 12, "the first blocks of its rows are all different");
}

/* ---- values known by hand -------------------------------------------------------------------- */

static zt_arg arg(const zt_type *t, double *f, int64_t *i) { return (zt_arg){t, f, i}; }

static bool nearly_equal(double a, double b) { return fabs(a - b) < 1e-12; }

static zt_runtime_error run_ref(zt_op op, const void *attrs, const zt_arg *in, zt_arg *out)
{
    zt_runtime_error t = {0};
    zt_op_info(op)->def->ref(attrs ? attrs : zt_op_info(op)->defaults, in, out, &t);
    return t;
}

static void values_of_curves(void)
{
    zt_type one = zt_type_make(ZT_F32, 1, (int64_t[]){1});
    zt_gelu_attrs erf_form = {{"erf"}};
    zt_softcap_attrs cap = {2};
    double x = 1, y;
    zt_arg in = arg(&one, &x, NULL), out = arg(&one, &y, NULL);
    run_ref(ZT_OP_silu, NULL, &in, &out);
    ok(nearly_equal(y, 0.7310585786300049), "silu(1)");
    run_ref(ZT_OP_gelu, NULL, &in, &out);
    ok(nearly_equal(y, 0.8411919906082768), "gelu(1), tanh");
    run_ref(ZT_OP_gelu, &erf_form, &in, &out);
    ok(nearly_equal(y, 0.8413447460685429), "gelu(1), erf");
    run_ref(ZT_OP_softcap, &cap, &in, &out);
    ok(nearly_equal(y, 2 * 0.46211715726000973), "softcap(1), 2");
}

static bool casts_to(double x, zt_dtype dtype, int64_t want)
{
    zt_type from = zt_type_make(ZT_F64, 1, (int64_t[]){1}), to = zt_type_make(dtype, 1, from.dim);
    int64_t y = 99;
    zt_arg in = arg(&from, &x, NULL), out = arg(&to, NULL, &y);
    run_ref(ZT_OP_cast, NULL, &in, &out);
    return y == want;
}

static void values_of_casts(void)
{
    ok(casts_to(-2.9, ZT_I32, -2) && casts_to(2.9, ZT_U8, 2), "a cast goes towards zero");
    ok(casts_to(300, ZT_I8, 127) && casts_to(-300, ZT_I8, -128) && casts_to(-1, ZT_U8, 0) && casts_to(1e30, ZT_I64, INT64_MAX) &&
           casts_to(-INFINITY, ZT_I64, INT64_MIN),
       "what is out of range goes to its end");
    ok(casts_to(NAN, ZT_I16, 0) && casts_to(NAN, ZT_BOOL, 1) && casts_to(0.25, ZT_BOOL, 1) && casts_to(-0.0, ZT_BOOL, 0),
       "NaN is 0, and as a bool what is not 0");
}

static void values_of_rope(void)
{
    zt_type x = zt_type_make(ZT_F32, 2, (int64_t[]){1, 4}), p = zt_type_make(ZT_I32, 1, (int64_t[]){1});
    double v[4] = {1, 2, 3, 4}, y[4];
    int64_t pos = 1;
    zt_arg in[3] = {arg(&x, v, NULL), arg(&p, NULL, &pos), {0}}, out = arg(&x, y, NULL);
    zt_rope_attrs a = zt_rope_defaults(); /* angles 1 and 0.01 */
    run_ref(ZT_OP_rope, &a, in, &out);
    ok(nearly_equal(y[0], cos(1) - 3 * sin(1)) && nearly_equal(y[2], sin(1) + 3 * cos(1)) &&
           nearly_equal(y[1], 2 * cos(0.01) - 4 * sin(0.01)) && nearly_equal(y[3], 2 * sin(0.01) + 4 * cos(0.01)),
       "rope turns halves");
    strcpy(a.pair.s, "neighbours");
    run_ref(ZT_OP_rope, &a, in, &out);
    ok(nearly_equal(y[0], cos(1) - 2 * sin(1)) && nearly_equal(y[1], sin(1) + 2 * cos(1)) &&
           nearly_equal(y[2], 3 * cos(0.01) - 4 * sin(0.01)) && nearly_equal(y[3], 3 * sin(0.01) + 4 * cos(0.01)),
       "rope turns neighbours");
    zt_type type = zt_type_make(ZT_F32, 1, (int64_t[]){2});
    double tab[2] = {2, 4};
    in[2] = arg(&type, tab, NULL);
    a.scale = 6;
    run_ref(ZT_OP_rope, &a, in, &out);
    ok(nearly_equal(y[0], cos(3) - 2 * sin(3)) && nearly_equal(y[2], 3 * cos(0.015) - 4 * sin(0.015)),
       "rope with frequency factors and scale");
}

/* Two sequences in blocks of 2 positions; keys all equal, so that attention is a mean of values. */
static void values_of_cache(void)
{
    zt_type cache = zt_type_make(ZT_F32, 2, (int64_t[]){8, 1}), x = zt_type_make(ZT_F32, 2, (int64_t[]){3, 1});
    zt_type row = zt_type_make(ZT_I32, 1, (int64_t[]){3}), table = zt_type_make(ZT_I32, 2, (int64_t[]){2, 4});
    double v[8] = {0}, keys[8] = {0}, xs[3] = {5, 6, 7}, y[3];
    int64_t pos[3] = {0, 3, 2}, seq[3] = {1, 0, 1}, blocks[8] = {3, 0, 1, 2, 2, 1, 0, 3};
    zt_arg put[5] = {arg(&cache, v, NULL), arg(&x, xs, NULL), arg(&row, NULL, pos), arg(&row, NULL, seq),
                     arg(&table, NULL, blocks)};
    zt_arg out = arg(&cache, v, NULL);
    run_ref(ZT_OP_kv_put, NULL, put, &out);
    ok(v[4] == 5 && v[1] == 6 && v[2] == 7, "kv_put writes where the table says");
    zt_attention_attrs a = {.head = 1};
    zt_arg in[6] = {arg(&x, xs, NULL), arg(&cache, keys, NULL), arg(&cache, v, NULL), put[2], put[3], put[4]};
    zt_arg att = arg(&x, y, NULL);
    run_ref(ZT_OP_attention, &a, in, &att);
    ok(nearly_equal(y[0], 5) && nearly_equal(y[1], 6.0 / 4) && nearly_equal(y[2], 12.0 / 3), "attention sees its sequence only");
    a.window = 2;
    run_ref(ZT_OP_attention, &a, in, &att);
    ok(nearly_equal(y[0], 5) && nearly_equal(y[1], 6.0 / 2) && nearly_equal(y[2], 7.0 / 2), "and no further than its window");
    pos[1] = 8;
    zt_runtime_error t = run_ref(ZT_OP_attention, &a, in, &att);
    ok(t.what && !strcmp(t.what, "position") && t.value == 8 && t.limit == 8 && y[1] == 0, "a position out of range is trouble");
    pos[1] = 3;
    seq[2] = 2;
    t = run_ref(ZT_OP_kv_put, NULL, put, &out);
    ok(t.what && !strcmp(t.what, "sequence") && t.value == 2, "so is a sequence");
    seq[2] = 1;
    blocks[1] = -1;
    t = run_ref(ZT_OP_kv_put, NULL, put, &out);
    ok(t.what && !strcmp(t.what, "block") && t.value == -1 && t.limit == 4, "so is a block");
}

/* Two sequences in three slots, a filter of two taps: y = x + 10 times the row before. */
static void states_of_rows(void)
{
    zt_type state = zt_type_make(ZT_F32, 3, (int64_t[]){3, 1, 1}), x = zt_type_make(ZT_F32, 2, (int64_t[]){4, 1});
    zt_type w = zt_type_make(ZT_F32, 2, (int64_t[]){1, 2}), row = zt_type_make(ZT_I32, 1, (int64_t[]){4});
    double kept[3] = {7, 8, 9}, xs[4] = {1, 2, 3, 4}, taps[2] = {10, 1}, y[4];
    int64_t from[4] = {1, -2, -1, 0}, to[4] = {0, -1, 2, 1};
    zt_arg in[6] = {arg(&state, kept, NULL), arg(&x, xs, NULL),   arg(&w, taps, NULL),
                    arg(&row, NULL, from),   arg(&row, NULL, to), {0}};
    zt_arg out[2] = {arg(&state, kept, NULL), arg(&x, y, NULL)};
    run_ref(ZT_OP_causal_conv, NULL, in, out);
    ok(y[0] == 81 && y[1] == 12 && y[2] == 3 && y[3] == 14, "causal_conv: a row starts from its slot, the row before, or zeros");
    ok(kept[0] == 1 && kept[1] == 4 && kept[2] == 3, "and its state goes where `to` says, in the order of the rows");
    from[0] = -2;
    zt_runtime_error t = run_ref(ZT_OP_causal_conv, NULL, in, out);
    ok(t.what && !strcmp(t.what, "state slot") && t.value == -2 && t.limit == 3, "row 0 continues nothing");
    from[0] = 3;
    t = run_ref(ZT_OP_causal_conv, NULL, in, out);
    ok(t.what && t.value == 3, "a slot out of range is an error");
    from[0] = 0;
    to[3] = -2;
    t = run_ref(ZT_OP_causal_conv, NULL, in, out);
    ok(t.what && t.value == -2, "so is one that gets a state");
}

/* A head of two channels with one number each, decays e^(dt a) = 1/2: s = s/2 + x b, y = 3 s + 100 x. */
static void scan_of_states(void)
{
    zt_type state = zt_type_make(ZT_F32, 3, (int64_t[]){2, 2, 1}), x = zt_type_make(ZT_F32, 2, (int64_t[]){3, 2});
    zt_type one = zt_type_make(ZT_F32, 2, (int64_t[]){3, 1}), a = zt_type_make(ZT_F32, 2, (int64_t[]){1, 1});
    zt_type skip = zt_type_make(ZT_F32, 1, (int64_t[]){1}), row = zt_type_make(ZT_I32, 1, (int64_t[]){3});
    double kept[4] = {8, 16, -1, -1}, xs[6] = {1, 2, 3, 4, 5, 6}, dt[3] = {1, 1, 1}, decay = -0.693147180559945309417, y[6];
    double b[3] = {2, 2, 2}, c[3] = {3, 3, 3}, d = 100;
    int64_t from[3] = {0, -2, -1}, to[3] = {-1, 1, 0};
    zt_arg in[9] = {arg(&state, kept, NULL), arg(&x, xs, NULL),   arg(&one, dt, NULL),
                    arg(&a, &decay, NULL),   arg(&one, b, NULL),  arg(&one, c, NULL),
                    arg(&row, NULL, from),   arg(&row, NULL, to), arg(&skip, &d, NULL)};
    zt_arg out[2] = {arg(&state, kept, NULL), arg(&x, y, NULL)};
    run_ref(ZT_OP_selective_scan, NULL, in, out);
    ok(nearly_equal(y[0], 118) && nearly_equal(y[1], 236) && nearly_equal(y[2], 327) && nearly_equal(y[3], 442),
       "selective_scan: a row starts from its slot, or from the row before");
    ok(nearly_equal(y[4], 530) && nearly_equal(y[5], 636), "or from zeros");
    ok(nearly_equal(kept[0], 10) && nearly_equal(kept[2], 9) && nearly_equal(kept[3], 14), "and its state goes where `to` says");
    to[2] = 2;
    zt_runtime_error t = run_ref(ZT_OP_selective_scan, NULL, in, out);
    ok(t.what && !strcmp(t.what, "state slot") && t.value == 2 && t.limit == 2, "a slot out of range is an error");
}

/* A head with keys of length 2 and values of length 1: S = w S + b (S.a) + k v, y = S.q. */
static void wkv7_of_states(void)
{
    zt_type state = zt_type_make(ZT_F32, 4, (int64_t[]){2, 1, 2, 1}), key = zt_type_make(ZT_F32, 2, (int64_t[]){3, 2});
    zt_type value = zt_type_make(ZT_F32, 2, (int64_t[]){3, 1}), row = zt_type_make(ZT_I32, 1, (int64_t[]){3});
    double kept[4] = {1, 2, -1, -1}, y[3], q[6] = {1, 10, 1, 10, 1, 10}, w[6] = {0.5, 2, 0.5, 2, 0.5, 2};
    double k[6] = {1, 2, 1, 2, 1, 2}, v[3] = {3, 3, 3}, a[6] = {1, 1, 1, 1, 1, 1}, b[6] = {1, 0, 1, 0, 1, 0};
    int64_t from[3] = {0, -2, -1}, to[3] = {-1, 1, 0};
    zt_arg in[9] = {arg(&state, kept, NULL), arg(&key, q, NULL), arg(&key, w, NULL),    arg(&key, k, NULL), arg(&value, v, NULL),
                    arg(&key, a, NULL),      arg(&key, b, NULL), arg(&row, NULL, from), arg(&row, NULL, to)};
    zt_arg out[2] = {arg(&state, kept, NULL), arg(&value, y, NULL)};
    run_ref(ZT_OP_wkv7, NULL, in, out);
    ok(nearly_equal(y[0], 106.5) && nearly_equal(y[1], 282.75) && nearly_equal(y[2], 63),
       "wkv7: a row starts from its slot, from the row before or from zeros");
    ok(nearly_equal(kept[0], 3) && nearly_equal(kept[1], 6) && nearly_equal(kept[2], 22.75) && nearly_equal(kept[3], 26),
       "and its state goes where `to` says");
    from[1] = 2;
    zt_runtime_error t = run_ref(ZT_OP_wkv7, NULL, in, out);
    ok(t.what && !strcmp(t.what, "state slot") && t.value == 2 && t.limit == 2, "a slot out of range is an error");
}

static void families(void)
{
    static const struct {
        zt_op op;
        const char *family;
    } some[] = {{ZT_OP_add, "elementwise"},
                {ZT_OP_neg, "unary"},
                {ZT_OP_linear, "linalg"},
                {ZT_OP_rms_norm, "norm"},
                {ZT_OP_attention, "attention"},
                {(zt_op)0, "elementwise"},
                {ZT_OP_dequantize_linear, "quantization"}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        ok(!strcmp(zt_op_family(some[i].op), some[i].family), "%s is of %s", zt_op_info(some[i].op)->name, some[i].family);
}

/* What costs say of bytes: by the rule, and where a row has its own. */
static void bytes_of_ops(void)
{
    zt_type x = zt_type_make(ZT_F32, 2, (int64_t[]){4, 8}), y = x;
    zt_type i = zt_type_make(ZT_I32, 1, (int64_t[]){2});
    zt_type picked = zt_type_make(ZT_F32, 2, (int64_t[]){2, 64});
    zt_type table = zt_type_make(ZT_Q8_0, 2, (int64_t[]){100, 64});
    zt_type cache = zt_type_make(ZT_F16, 2, (int64_t[]){512, 8}), q = x;
    ok(zt_op_bytes(ZT_OP_add, NULL, (const zt_type *[]){&x, &x}, &y) == 3 * 128, "add: three");
    ok(zt_op_bytes(ZT_OP_reshape, NULL, (const zt_type *[]){&x}, &y) == 0, "a view: none");
    ok(zt_op_bytes(ZT_OP_gather, NULL, (const zt_type *[]){&table, &i}, &picked) == 2 * 68 + 2 * 256 + 8,
       "gather: the rows it picks, not the table");
    ok(zt_op_bytes(ZT_OP_kv_put, NULL, (const zt_type *[]){&cache, &x, &i, NULL, NULL}, &cache) == 2 * (128 + 8),
       "kv_put: what is put, not the cache");
    zt_attention_attrs a = zt_attention_defaults();
    const zt_type *in[] = {&q, &cache, &cache, &i, NULL, NULL};
    ok(zt_op_bytes(ZT_OP_attention, &a, in, &y) == 2 * 128 + 2 * 8192 + 8, "attention: the cache");
    a.window = 60;
    ok(zt_op_bytes(ZT_OP_attention, &a, in, &y) == 2 * 128 + 2 * 1024 + 8, "or its window");
    const zt_type sinks = zt_type_make(ZT_F32, 1, (int64_t[]){4});
    const zt_type *with_sinks[] = {&q, &cache, &cache, &sinks, &i, NULL, NULL};
    ok(zt_op_bytes(ZT_OP_attention_sinks, &a, with_sinks, &y) == 2 * 128 + 2 * 1024 + 16 + 8, "and its sinks");
}

int main(void)
{
    families();
    bytes_of_ops();
    table_is_whole();
    defaults_are_right();
    fills_repeat();
    permutation_is_one();
    values_of_curves();
    values_of_casts();
    values_of_rope();
    values_of_cache();
    states_of_rows();
    scan_of_states();
    wkv7_of_states();
    return tap_done();
}
