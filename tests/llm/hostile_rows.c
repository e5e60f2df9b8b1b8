/* hostile_rows.c - for the model of every row: each key and each tensor, damaged in each way.
 *
 *   hostile_rows [FOLDER...]
 *
 * The models are those of mkmodel, and the directories in each FOLDER; default: the sets of tests/llm, beside this program's
 * folder, of each architecture the first. A copy with one damage is either refused with one line, or it is a model that
 * runs. Which damage must be refused, the tables below say. With ZT_LONG=1 all of it, in every directory; else every
 * so-many-th damage, so that the whole takes seconds. */
#include "lib/base/sanitized.h"
#include "tests/common/mkmodel.h"
#include "tests/common/tap.h"

#include "lib/zt/all.h"

#include <dirent.h>
#include <inttypes.h>
#include <libgen.h>
#include <math.h>
#include <time.h>

enum { MOST_KEYS = 128, MOST_TENSORS = 512, MOST_ENTRIES = 512, MOST_ARCHS = 128 };

/* ---- damage ---------------------------------------------------------------------------------- */

typedef enum key_harm {
    KEY_NONE,
    KEY_MISSING,
    KEY_TEXT,       /* a text instead of a number, or another text */
    KEY_OTHER_KIND, /* a list of one number instead of a number or text, a number instead of a list */
    KEY_EMPTY,      /* an empty list */
    KEY_SHORT,      /* a list without its last entry */
    KEY_LONG,       /* a list with one entry more */
    KEY_ZERO,       /* of a list: the last entry, as for all that follow */
    KEY_ONE,
    KEY_NEGATIVE,
    KEY_LARGE,
    KEY_HUGE,
    KEY_FRACTION,
    KEY_NOT_A_NUMBER,
    KEY_INFINITE,
    KEY_HARMS
} key_harm;

static const char *const key_words[KEY_HARMS] = {"none",       "missing",   "text", "other kind", "empty list",
                                                 "short list", "long list", "0",    "1",          "-7",
                                                 "large",      "huge",      "2.5",  "nan",        "infinite"};

typedef enum tensor_harm {
    TENSOR_NONE,
    TENSOR_MISSING,
    TENSOR_RENAMED,
    TENSOR_TWICE,
    TENSOR_LONGER,  /* one row more */
    TENSOR_SHORTER, /* one row less */
    TENSOR_WIDER,   /* one column more */
    TENSOR_SWAPPED, /* the last two dimensions */
    TENSOR_FLAT,    /* a vector of as many values; a vector: a matrix of two rows */
    TENSOR_NO_ROWS,
    TENSOR_NO_COLUMNS,
    TENSOR_HUGE, /* 2^40 rows */
    TENSOR_INTEGER,
    TENSOR_Q8_1,    /* which ggml has and zt has not */
    TENSOR_UNKNOWN, /* a number that ggml does not have */
    TENSOR_HARMS
} tensor_harm;

static const char *const tensor_words[TENSOR_HARMS] = {"none",       "missing", "renamed", "twice", "longer",
                                                       "shorter",    "wider",   "swapped", "flat",  "no rows",
                                                       "no columns", "huge",    "i32",     "q8_1",  "unknown type"};

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct key_row {
    char name[128];
    zt_gguf_kind kind;
    zt_bytes value;
    bool listed;
    zt_gguf_kind element;
    int64_t count;
    double entry[MOST_ENTRIES]; /* of a number: the first */
} key_row;

typedef struct tensor_row {
    char name[64];
    zt_type type;
    uint32_t number; /* ggml's */
    char *data;
    size_t bytes;
} tensor_row;

typedef struct base {
    const char *name;
    char arch[64];
    zt_gguf *gguf;
    key_row key[MOST_KEYS];
    tensor_row tensor[MOST_TENSORS];
    int64_t key_count, tensor_count, vocab;
    bool encoder;
} base;

static bool is_tokenizer(const char *key) { return strncmp(key, "tokenizer.", 10) == 0 && !strstr(key, "token_type_count"); }

static bool has_damage(const char *key)
{
    return !is_tokenizer(key) && strncmp(key, "general.", 8) != 0 && strncmp(key, "split.", 6) != 0;
}

static bool read_key(base *b, int64_t index)
{
    key_row *row = &b->key[b->key_count];
    zt_bytes name = zt_gguf_key_value(b->gguf, index, &row->kind, &row->value);
    snprintf(row->name, sizeof row->name, "%.*s", (int)name.n, name.data);
    if (is_tokenizer(row->name)) return true;
    row->listed = row->kind == ZT_GGUF_ARRAY && zt_gguf_array(b->gguf, row->name, &row->element, &row->count);
    if (row->count > MOST_ENTRIES) return false;
    if (row->listed)
        zt_gguf_array_f64(b->gguf, row->name, row->entry, row->count);
    else
        zt_gguf_f64(b->gguf, row->name, row->entry);
    return ++b->key_count < MOST_KEYS;
}

static uint32_t number_of(zt_dtype dtype)
{
    static const struct {
        zt_dtype dtype;
        uint32_t number;
    } rows[] = {{ZT_F32, 0}, {ZT_F16, 1}, {ZT_Q8_0, 8}, {ZT_BF16, 30}, {ZT_MXFP4, 39}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].dtype == dtype) return rows[i].number;
    return UINT32_MAX;
}

static bool read_tensor(base *b, int64_t index)
{
    tensor_row *row = &b->tensor[b->tensor_count++];
    zt_store store = zt_gguf_store(b->gguf);
    int64_t handle;
    const char *name = zt_gguf_tensor(b->gguf, index, &row->type, NULL, &row->bytes);
    snprintf(row->name, sizeof row->name, "%s", name);
    row->number = number_of(row->type.dtype);
    row->data = malloc(row->bytes + 1);
    if (strcmp(name, "token_embd.weight") == 0) b->vocab = row->type.dim[0];
    return row->number != UINT32_MAX && store.find(store.user, name, &row->type, &handle) == ZT_OK &&
           store.read(store.user, handle, 0, row->data, row->bytes) == ZT_OK;
}

static bool read_base(base *b)
{
    zt_bytes arch;
    bool good = zt_gguf_str(b->gguf, "general.architecture", &arch) && zt_gguf_n_tensors(b->gguf) <= MOST_TENSORS;
    if (good) snprintf(b->arch, sizeof b->arch, "%.*s", (int)arch.n, arch.data);
    for (int64_t i = 0; i < zt_gguf_n_keys(b->gguf) && good; i++) good = read_key(b, i);
    for (int64_t i = 0; i < zt_gguf_n_tensors(b->gguf) && good; i++) good = read_tensor(b, i);
    b->encoder = strstr(b->arch, "bert") || strstr(b->arch, "t5encoder") || strstr(b->arch, "embedding");
    return good;
}

static void free_base(base *b)
{
    for (int64_t i = 0; i < b->tensor_count; i++) free(b->tensor[i].data);
    b->tensor_count = b->key_count = 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void put_raw(ggufw *to, const key_row *row)
{
    ggufw_key(to, row->name, (uint32_t)row->kind);
    ggufw_put(&to->keys, row->value.data, row->value.n);
}

static void put_f64(ggufw *to, const char *key, double value) { ggufw_plain(to, key, ZT_GGUF_F64, &value, sizeof value); }

static void put_i64(ggufw *to, const char *key, int64_t value) { ggufw_plain(to, key, ZT_GGUF_I64, &value, sizeof value); }

/* The number that a harm makes of another; `whole`: it is an integer. */
static double harmed(key_harm harm, double value)
{
    switch (harm) {
    case KEY_ZERO: return 0;
    case KEY_ONE: return 1;
    case KEY_NEGATIVE: return -7;
    case KEY_LARGE: return 1 << 20;
    case KEY_HUGE: return 4e18;
    case KEY_FRACTION: return 2.5;
    case KEY_NOT_A_NUMBER: return NAN;
    case KEY_INFINITE: return INFINITY;
    default: return value;
    }
}

static void put_number(ggufw *to, const char *key, double value)
{
    if (value == floor(value) && fabs(value) < 9e18)
        put_i64(to, key, (int64_t)value);
    else
        put_f64(to, key, value);
}

static void put_list(ggufw *to, const key_row *row, key_harm harm)
{
    double entry[MOST_ENTRIES + 1];
    int64_t whole[MOST_ENTRIES + 1], count = row->count;
    bool integral = true;
    memcpy(entry, row->entry, sizeof row->entry);
    if (harm == KEY_EMPTY) count = 0;
    if (harm == KEY_SHORT) count--;
    if (harm == KEY_LONG) entry[count++] = row->count ? row->entry[0] : 1;
    if (count > 0) entry[count - 1] = harmed(harm, entry[count - 1]);
    for (int64_t i = 0; i < count; i++) {
        integral = integral && entry[i] == floor(entry[i]) && fabs(entry[i]) < 9e18;
        whole[i] = integral ? (int64_t)entry[i] : 0;
    }
    const void *values = integral ? (const void *)whole : (const void *)entry;
    ggufw_array(to, row->name, integral ? ZT_GGUF_I64 : ZT_GGUF_F64, (uint64_t)count, values, (size_t)count * 8);
}

/* Can the harm be done to a key of this kind? */
static bool is_possible(const key_row *row, key_harm harm)
{
    bool list_only = harm == KEY_EMPTY || harm == KEY_SHORT || harm == KEY_LONG;
    if (row->kind == ZT_GGUF_STR || (row->listed && row->element == ZT_GGUF_STR)) return harm <= KEY_OTHER_KIND;
    return list_only <= row->listed;
}

static void put_key(ggufw *to, const key_row *row, key_harm harm)
{
    int64_t one = 1;
    if (harm == KEY_NONE)
        put_raw(to, row);
    else if (harm == KEY_TEXT)
        ggufw_str(to, row->name, "hostile");
    else if (harm == KEY_OTHER_KIND && row->listed)
        put_i64(to, row->name, 1 << 20);
    else if (harm == KEY_OTHER_KIND)
        ggufw_array(to, row->name, ZT_GGUF_I64, 1, &one, sizeof one);
    else if (row->listed)
        put_list(to, row, harm);
    else if (harm != KEY_MISSING)
        put_number(to, row->name, harmed(harm, row->entry[0]));
}

static void put_shape(ggufw *to, const tensor_row *row, const char *name, uint32_t number, zt_type type)
{
    size_t bytes = row->bytes;
    bool plain = type.dtype == ZT_F32 || type.dtype == ZT_F16 || type.dtype == ZT_BF16;
    bool sound = plain && zt_type_bytes(&type) < ((size_t)1 << 30);
    if (sound && number == row->number) bytes = zt_type_bytes(&type);
    char *data = calloc(bytes + 1, 1);
    memcpy(data, row->data, bytes < row->bytes ? bytes : row->bytes);
    ggufw_tensor(to, name, number, type.rank, type.dim, data, bytes);
    free(data);
}

static void put_tensor(ggufw *to, const tensor_row *row, tensor_harm harm)
{
    zt_type type = row->type;
    char name[64];
    int last = type.rank - 1;
    uint32_t number = row->number;
    snprintf(name, sizeof name, "%s", row->name);
    switch (harm) {
    case TENSOR_MISSING: return;
    case TENSOR_RENAMED: name[strlen(name) - 1] = 'Z'; break;
    case TENSOR_TWICE: put_shape(to, row, name, number, type); break;
    case TENSOR_LONGER: type.dim[0]++; break;
    case TENSOR_SHORTER: type.dim[0]--; break;
    case TENSOR_WIDER: type.dim[last]++; break;
    case TENSOR_SWAPPED:
        type.dim[last] = row->type.dim[last - 1];
        type.dim[last - 1] = row->type.dim[last];
        break;
    case TENSOR_FLAT:
        type.rank = row->type.rank == 1 ? 2 : 1;
        type.dim[0] = row->type.rank == 1 ? 2 : zt_type_count(&row->type);
        type.dim[1] = row->type.dim[0] / 2;
        break;
    case TENSOR_NO_ROWS: type.dim[0] = 0; break;
    case TENSOR_NO_COLUMNS: type.dim[last] = 0; break;
    case TENSOR_HUGE: type.dim[0] = INT64_C(1) << 40; break;
    case TENSOR_INTEGER: number = 26; break;
    case TENSOR_Q8_1: number = 9; break;
    case TENSOR_UNKNOWN: number = 200; break;
    default: break;
    }
    put_shape(to, row, name, number, type);
}

/* Has the harm a meaning for this tensor, and does it change it? */
static bool changes(const tensor_row *row, tensor_harm harm)
{
    int last = row->type.rank - 1;
    if (harm == TENSOR_SWAPPED) return last > 0 && row->type.dim[last] != row->type.dim[last - 1];
    if (harm == TENSOR_FLAT) return last > 0 ? row->type.dim[0] > 1 : row->type.dim[0] % 2 == 0;
    return true;
}

/* The copy with one damage: of key k, or of tensor t. */
static char *copy_base(const base *b, int64_t k, key_harm key, int64_t t, tensor_harm tensor, size_t *bytes)
{
    ggufw to = {0};
    for (int64_t i = 0; i < b->key_count; i++) put_key(&to, &b->key[i], i == k ? key : KEY_NONE);
    ggufw_array(&to, "tokenizer.ggml.tokens", ZT_GGUF_STR, (uint64_t)b->vocab, NULL, 0);
    for (int64_t i = 0; i < b->vocab; i++) ggufw_puts(&to.keys, "x", 1);
    for (int64_t i = 0; i < b->tensor_count; i++) put_tensor(&to, &b->tensor[i], i == t ? tensor : TENSOR_NONE);
    return ggufw_bytes(&to, bytes);
}

/* ---- what comes of a copy -------------------------------------------------------------------- */

typedef struct outcome {
    zt_status status; /* ZT_OK: it ran */
    char text[400];
    size_t leaks;
    double seconds;
} outcome;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Opens the model and runs it over a few tokens. */
static zt_status run_model(const base *b, zt_gguf *gguf, zt_engine *engine)
{
    static const int32_t ids[] = {1, 2, 1, 0};
    zt_llm_opts options = {.engine = engine, .ctx_len = 32, .chunk = 4, .kv = ZT_DTYPE_COUNT, .embed = b->encoder};
    zt_llm_info info;
    zt_status status = zt_llm_plan(gguf, &options, &info);
    zt_llm *model = status == ZT_OK ? zt_llm_open(gguf, &options) : NULL;
    if (!model) return status != ZT_OK ? status : zt_ctx_status(zt_gguf_ctx(gguf));
    info = zt_llm_get(model);
    float *out = calloc((size_t)(b->encoder ? info.vector : info.vocab) + 1, sizeof *out);
    status = b->encoder ? zt_llm_embed(model, ids, 4, out) : zt_llm_feed(model, ids, 4, false, out);
    free(out);
    zt_llm_close(model);
    return status;
}

static outcome try_copy(const base *b, char *bytes, size_t size)
{
    outcome o = {0};
    double start = now();
    zt_ctx *ctx = zt_ctx_new();
    zt_mem_limit(ctx, (size_t)256 << 20);
    zt_source *source = zt_source_memory(ctx, "copy", bytes, size);
    zt_gguf *gguf = zt_gguf_from(ctx, source);
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1, .isa = zt_isa_best()});
    o.status = gguf ? run_model(b, gguf, engine) : zt_ctx_status(ctx);
    snprintf(o.text, sizeof o.text, "%s", zt_ctx_error(ctx));
    zt_engine_close(engine);
    zt_gguf_close(gguf);
    zt_source_close(source);
    o.leaks = zt_mem_get(ctx).blocks;
    zt_ctx_free(ctx);
    o.seconds = now() - start;
    free(bytes);
    return o;
}

/* ---- what must come of it -------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_one_of(const char *name, const char *const *ends)
{
    for (; *ends; ends++)
        if (ends_with(name, *ends)) return true;
    return false;
}

/* Keys that are not read: at all, or in models of an architecture whose other keys say so. */
static bool is_unread(const base *b, const char *key)
{
    static const char *const always[] = {".vocab_size",         "zt.weights.sample", ".rope.dimension_sections",
                                         ".tensor_data_layout", ".output_labels",    NULL};
    static const struct {
        const char *arch, *key;
    } some[] = {
        {"deepseek2", "attention.key_length"}, /* which the numbers for split matrices repeat */
        {"deepseek2", "attention.value_length"},
        {"deepseek2", "leading_dense_block_count"}, /* without experts */
        {"deepseek2", "expert_shared_count"},
        {"deepseek2", "expert_feed_forward_length"},
        {"deepseek32", "attention.key_length"},
        {"deepseek32", "attention.value_length"},
        {"granitehybrid", "expert_used_count"},
        {"granitehybrid", "expert_shared_feed_forward_length"},
        {"llama4", "expert_shared_feed_forward_length"}, /* that of an expert */
        {"jina-bert-v2", "rope.freq_base"},              /* without rotations */
        {"mpt", "rope.freq_base"},
        {"nemotron_h", "rope.scaling.finetuned"},
        {"nemotron_h_moe", "rope.scaling.finetuned"},
        {"mamba", "attention.head_count"}, /* without attention */
        {"mamba", "feed_forward_length"},
        {"mamba2", "attention.head_count"},
        {"mamba2", "feed_forward_length"},
        {"rwkv7", "attention.head_count"},
        {"arwkv7", "attention.head_count"},
        {"mistral4", "attention.key_length"},
        {"mistral4", "attention.value_length"},
        {"modern-bert", "attention.layer_norm_epsilon"}, /* beside layer_norm_rms_epsilon */
        {"t5encoder", "attention.layer_norm_epsilon"},
        {"modern-bert", "classifier.pooling_type"}, /* without a classifier that is used */
        {"stablelm", "use_parallel_residual"},
    };
    if (is_one_of(key, always)) return true;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (strcmp(b->arch, some[i].arch) == 0 && ends_with(key, some[i].key) &&
            strlen(key) == strlen(some[i].arch) + 1 + strlen(some[i].key))
            return true;
    return false;
}

static bool must_refuse_key(const base *b, const key_row *row, key_harm harm)
{
    static const char *const below[] = {
        "xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps", ".activation_sparsity_scale", NULL};
    static const char *const either[] = {"xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps", NULL};
    bool real = row->kind == ZT_GGUF_F32 || row->kind == ZT_GGUF_F64 || (row->listed && row->element == ZT_GGUF_F32);
    if (is_unread(b, row->name)) return false;
    if (harm == KEY_NEGATIVE && is_one_of(row->name, below)) return false;
    if (harm == KEY_OTHER_KIND && is_one_of(row->name, either)) return false;
    return harm == KEY_TEXT || harm == KEY_OTHER_KIND || harm == KEY_NEGATIVE || harm == KEY_NOT_A_NUMBER ||
           harm == KEY_INFINITE || harm == KEY_SHORT || harm == KEY_EMPTY || (harm == KEY_HUGE && !real);
}

static int64_t number_at(const base *b, const char *end)
{
    for (int64_t k = 0; k < b->key_count; k++)
        if (ends_with(b->key[k].name, end)) return (int64_t)b->key[k].entry[0];
    return 0;
}

/* Is it of one of the last layers, as many as the key says? Those of nextn_predict_layers predict further tokens and are not
 * run; those of shared_kv_layers need no keys of their own. */
static bool is_of_last(const base *b, const char *tensor, const char *key)
{
    int64_t layer;
    return sscanf(tensor, "blk.%" SCNd64, &layer) == 1 && layer >= number_at(b, ".block_count") - number_at(b, key);
}

/* Has no other layer a tensor of this name? Then its absence says nothing. */
static bool is_single(const base *b, const char *tensor)
{
    const char *name = strncmp(tensor, "blk.", 4) == 0 ? strchr(tensor + 4, '.') : tensor;
    int64_t count = 0;
    for (int64_t t = 0; t < b->tensor_count; t++) count += ends_with(b->tensor[t].name, name);
    return count == 1;
}

/* Can a model be without the tensor, and nothing else says that it has it? */
static bool is_optional(const base *b, const char *tensor)
{
    static const char *const whole[] = {"output.weight", "output.bias",     "rope_freqs.weight", "token_types.weight",
                                        "cls.bias",      "cls.norm.weight", "cls.output.bias",   NULL};
    static const char *const single[] = {"ssm_conv1d.bias", "exp_probs_b.bias", NULL};
    static const char *const shared[] = {"attn_k.weight", "attn_k_norm.weight", "attn_v.weight", NULL};
    bool keys = is_one_of(tensor, shared) && is_of_last(b, tensor, ".shared_kv_layers");
    bool value = strcmp(b->arch, "gemma4") == 0 && ends_with(tensor, "attn_v.weight"); /* which may be the key */
    return is_one_of(tensor, whole) || (is_single(b, tensor) && is_one_of(tensor, single)) || keys || value;
}

static bool must_refuse_tensor(const base *b, const tensor_row *row, tensor_harm harm)
{
    return !is_of_last(b, row->name, ".nextn_predict_layers") && (harm != TENSOR_MISSING || !is_optional(b, row->name));
}

/* One damage: prints what is wrong; true: nothing. */
static bool check(const base *b, const char *what, const char *harm, outcome o, bool must)
{
    bool refused = o.status == ZT_EDATA || o.status == ZT_ENOTSUP;
    bool one_line = !refused || (*o.text && !strchr(o.text, '\n'));
    bool good = (refused || (o.status == ZT_OK && !must)) && one_line && o.leaks == 0 && o.seconds < (SANITIZED ? 60 : 5);
    if (!good)
        diag("%s: %s, %s: status %d, '%s', %zu leaks, %.1f s", b->name, what, harm, (int)o.status, o.text, o.leaks, o.seconds);
    return good;
}

static int64_t stride, turn; /* of all damage, each `stride`th is done */

static void try_keys(const base *b)
{
    int64_t tried = 0, wrong = 0;
    for (int64_t k = 0; k < b->key_count; k++) {
        const key_row *row = &b->key[k];
        if (!has_damage(row->name)) continue;
        for (key_harm harm = KEY_MISSING; harm < KEY_HARMS; harm++) {
            size_t size;
            if (!is_possible(row, harm) || turn++ % stride != 0) continue;
            char *bytes = copy_base(b, k, harm, -1, TENSOR_NONE, &size);
            wrong += !check(b, row->name, key_words[harm], try_copy(b, bytes, size), must_refuse_key(b, row, harm));
            tried++;
        }
    }
    ok(wrong == 0, "%s: %lld damaged keys, %lld wrong", b->name, (long long)tried, (long long)wrong);
}

static void try_tensors(const base *b)
{
    int64_t tried = 0, wrong = 0;
    for (int64_t t = 0; t < b->tensor_count; t++) {
        const tensor_row *row = &b->tensor[t];
        for (tensor_harm harm = TENSOR_MISSING; harm < TENSOR_HARMS; harm++) {
            size_t size;
            if (!changes(row, harm) || turn++ % stride != 0) continue;
            char *bytes = copy_base(b, -1, KEY_NONE, t, harm, &size);
            wrong += !check(b, row->name, tensor_words[harm], try_copy(b, bytes, size), must_refuse_tensor(b, row, harm));
            tried++;
        }
    }
    ok(wrong == 0, "%s: %lld damaged tensors, %lld wrong", b->name, (long long)tried, (long long)wrong);
}

/* ---- all models ------------------------------------------------------------------------------ */

static char seen[MOST_ARCHS][64];
static int seen_count;

static bool is_new(const char *arch)
{
    for (int i = 0; i < seen_count; i++)
        if (strcmp(seen[i], arch) == 0) return false;
    if (seen_count < MOST_ARCHS) snprintf(seen[seen_count++], sizeof *seen, "%s", arch);
    return true;
}

static void try_base(base *b)
{
    size_t size;
    bool read = b->gguf && read_base(b);
    char *bytes = read ? copy_base(b, -1, KEY_NONE, -1, TENSOR_NONE, &size) : NULL;
    outcome o = {.status = ZT_EBUG};
    if (bytes) o = try_copy(b, bytes, size);
    if (ok(o.status == ZT_OK, "%s: a copy runs %s", b->name, o.text)) {
        try_keys(b);
        try_tensors(b);
    }
    free_base(b);
}

static void try_directory(const char *path, const char *name, bool all)
{
    static base b;
    zt_ctx *ctx = zt_ctx_new();
    zt_bytes arch;
    char text[64];
    b = (base){.name = name, .gguf = zt_model_open(ctx, path)};
    bool named = b.gguf && zt_gguf_str(b.gguf, "general.architecture", &arch);
    snprintf(text, sizeof text, "%.*s", named ? (int)arch.n : 0, named ? arch.data : "");
    if (!b.gguf) ok(false, "%s: %s", path, zt_ctx_error(ctx));
    if (b.gguf && (is_new(text) || all)) try_base(&b);
    zt_gguf_close(b.gguf);
    zt_ctx_free(ctx);
}

static int is_case(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void try_folder(const char *folder, bool all)
{
    struct dirent **entry;
    int count = scandir(folder, &entry, is_case, alphasort);
    ok(count > 0, "%s: %d models", folder, count);
    for (int i = 0; i < count; i++) {
        char path[8192];
        snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        try_directory(path, entry[i]->d_name, all);
        free(entry[i]);
    }
    if (count >= 0) free(entry);
}

static void try_made(const char *arch)
{
    static base b;
    mkmodel_opts o = mkmodel_defaults(arch);
    ggufw writer = {0};
    size_t size;
    char name[80];
    o.type = mkmodel_type("f32");
    const char *why = mkmodel(&o, &writer);
    if (why) diag("mkmodel: %s", why);
    char *bytes = ggufw_bytes(&writer, &size);
    zt_ctx *ctx = zt_ctx_new();
    zt_source *source = zt_source_memory(ctx, arch, bytes, size);
    snprintf(name, sizeof name, "%s, made", arch);
    b = (base){.name = name, .gguf = zt_gguf_from(ctx, source)};
    try_base(&b);
    zt_gguf_close(b.gguf);
    zt_source_close(source);
    zt_ctx_free(ctx);
    free(bytes);
}

int main(int argc, char **argv)
{
    static const char *const sets[] = {"archs",  "delta", "dense",       "gemma",   "gpt_oss",
                                       "latent", "rows",  "state_space", "further", "rwkv"};
    const char *asked = getenv("ZT_LONG");
    bool all = asked && *asked;
    char self[4096], folder[4200];
    snprintf(self, sizeof self, "%s", argv[0]);
    const char *beside = dirname(self);
    stride = all ? 1 : SANITIZED ? 97 : 13;
    for (int i = 1; i < argc; i++) try_folder(argv[i], all);
    for (size_t i = 0; argc < 2 && i < sizeof sets / sizeof *sets; i++) {
        snprintf(folder, sizeof folder, "%s/../%s", beside, sets[i]);
        try_folder(folder, all);
    }
    for (size_t i = 0; argc < 2 && i < sizeof mkmodel_archs / sizeof *mkmodel_archs; i++)
        if (is_new(mkmodel_archs[i].name) || all) try_made(mkmodel_archs[i].name);
    return tap_done();
}
