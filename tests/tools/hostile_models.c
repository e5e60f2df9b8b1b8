/* hostile_models.c - made models with impossible numbers, names with escapes, and files that shrink
 * while they are read, through zt-run. What is demanded: tests/tools/hostile_run.h. */
#include <sys/ioctl.h>
#include <time.h>

#include "tests/tools/hostile_run.h"
#include "tests/common/mkmodel.h"

#include "lib/zt/all.h"

/* ---- made models ----------------------------------------------------------------------------- */

typedef struct file {
    char *bytes;
    size_t n;
} file;

static file make_model(const char *arch)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    ggufw writer = {0};
    file f = {0};
    mkmodel(&o, &writer);
    f.bytes = ggufw_bytes(&writer, &f.n);
    return f;
}

/* Overwrites the value of a key of 4 bytes. */
static bool patch(file *file_data, const char *key, uint32_t value)
{
    size_t size = strlen(key);
    for (char *at = file_data->bytes; (at = memmem(at, file_data->n - (size_t)(at - file_data->bytes), key, size)); at++) {
        uint64_t length;
        memcpy(&length, at - 8, 8);
        if (length != size) continue;
        memcpy(at + size + 4, &value, 4);
        return true;
    }
    return false;
}

/* The same length, once. */
static bool rename_to(file *f, const char *from, const char *to)
{
    char *at = memmem(f->bytes, f->n, from, strlen(from));
    if (at) memcpy(at, to, strlen(to));
    return at;
}

static void save(file *f, const char *name)
{
    if (!write_file(under("%s", name), f->bytes, f->n)) diag("%s cannot be written", name);
    free(f->bytes);
    *f = (file){0};
}

#define NAN_BITS       0x7fc00000u
#define INF_BITS       0x7f800000u
#define MINUS_ONE_BITS 0xbf800000u

static void test_numbers(void)
{
    static const struct {
        const char *arch, *key;
        uint32_t value;
        int want; /* 0: 65 */
    } row[] = {
        {"llama", "llama.block_count", 0, 0},
        {"llama", "llama.block_count", 1, 69}, /* tensors that the row does not know */
        {"llama", "llama.block_count", 3, 0},
        {"llama", "llama.block_count", 1u << 31, 0},
        {"llama", "llama.block_count", UINT32_MAX, 0},
        {"llama", "llama.context_length", 0, 0},
        {"llama", "llama.context_length", UINT32_MAX, 0},
        {"llama", "llama.embedding_length", 0, 0},
        {"llama", "llama.embedding_length", 63, 0},
        {"llama", "llama.embedding_length", 1u << 31, 0},
        {"llama", "llama.feed_forward_length", 0, 0},
        {"llama", "llama.feed_forward_length", UINT32_MAX, 0},
        {"llama", "llama.attention.head_count", 0, 0},
        {"llama", "llama.attention.head_count", 3, 0},
        {"llama", "llama.attention.head_count", 1u << 31, 0},
        {"llama", "llama.attention.head_count_kv", 0, 0},
        {"llama", "llama.attention.head_count_kv", 3, 0},
        {"llama", "llama.attention.head_count_kv", 8, 0},
        {"llama", "llama.rope.dimension_count", 7, 0},
        {"llama", "llama.rope.dimension_count", 18, 0},
        {"llama", "llama.rope.dimension_count", UINT32_MAX, 0},
        {"llama", "llama.rope.freq_base", NAN_BITS, 0},
        {"llama", "llama.rope.freq_base", INF_BITS, 0},
        {"llama", "llama.rope.freq_base", MINUS_ONE_BITS, 0},
        {"llama", "llama.rope.freq_base", 0, 0},
        {"llama", "llama.attention.layer_norm_rms_epsilon", NAN_BITS, 0},
        {"llama", "llama.attention.layer_norm_rms_epsilon", INF_BITS, 0},
        {"llama", "llama.attention.layer_norm_rms_epsilon", MINUS_ONE_BITS, 0},
        {"gemma3", "gemma3.attention.key_length", 0, 0},
        {"gemma3", "gemma3.attention.key_length", 15, 69}, /* and values of 16 */
        {"gemma3", "gemma3.attention.key_length", UINT32_MAX, 0},
        {"gemma3", "gemma3.attention.value_length", 0, 0},
        {"gemma3", "gemma3.attention.sliding_window", UINT32_MAX, 0},
        {"qwen2", "qwen2.attention.head_count", 0, 0},
    };
    size_t size = sizeof row / sizeof *row, wrong = 0;
    for (size_t i = 0; i < size; i++) {
        char label[200];
        file file_data = make_model(row[i].arch);
        bool patched = patch(&file_data, row[i].key, row[i].value);
        snprintf(label, sizeof label, "%s = 0x%x", row[i].key, row[i].value);
        save(&file_data, "made.gguf");
        outcome a = run_model(under("made.gguf"), GENERATE), b = run_model(under("made.gguf"), DRY_RUN);
        int want = row[i].want ? row[i].want : 65;
        wrong += !(patched && outcome_refused(&a, want, 1 << 20, label) && outcome_refused(&b, want, 1 << 20, label));
    }
    ok(wrong == 0, "%zu impossible hyper-parameters are refused at load (%zu are not)", size, wrong);
}

static void test_special_ids(void)
{
    static const struct {
        const char *arch, *key;
    } row[] = {
        {"llama", "tokenizer.ggml.bos_token_id"},     {"llama", "tokenizer.ggml.eos_token_id"},
        {"llama", "tokenizer.ggml.unknown_token_id"}, {"llama", "tokenizer.ggml.padding_token_id"},
        {"gemma3", "tokenizer.ggml.bos_token_id"},    {"gemma3", "tokenizer.ggml.eos_token_id"},
        {"gemma3", "tokenizer.ggml.eot_token_id"},
    };
    static const uint32_t id[] = {400, 0x7fffffff, 0x80000000u};
    size_t count = 0, wrong = 0;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (size_t k = 0; k < sizeof id / sizeof *id; k++, count++) {
            char label[200];
            file file_data = make_model(row[i].arch);
            bool patched = patch(&file_data, row[i].key, id[k]);
            snprintf(label, sizeof label, "%s = %u", row[i].key, id[k]);
            save(&file_data, "made.gguf");
            outcome a = run_model(under("made.gguf"), GENERATE), b = run_model(under("made.gguf"), TOKENIZE);
            wrong += !(patched && outcome_refused(&a, 65, 1 << 20, label) && outcome_refused(&b, 65, 1 << 20, label));
        }
    ok(wrong == 0, "%zu special ids beyond the vocabulary are refused at load (%zu are not)", count, wrong);
}

static void test_vocabularies(void)
{
    static const int64_t pair[][2] = {{299, 300}, {300, 299}, {290, 512}};
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        file file_data = {0};
        file_data.bytes = mkmodel_uneven(pair[i][0], pair[i][1], &file_data.n);
        save(&file_data, "made.gguf");
        outcome result = run_model(under("made.gguf"), GENERATE);
        ok(outcome_refused(&result, 65, 1 << 20, "uneven"), "%d tokens, %d embeddings: 65", (int)pair[i][0], (int)pair[i][1]);
    }
    file file_data = make_model("llama");
    save(&file_data, "made.gguf");
    static const char *const ids[] = {"300", "4294967296", "-1", "1 99999999999999999999"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char *argv[] = {tool, "-m", (char *)(uintptr_t)under("made.gguf"), "--detokenize", "-p", (char *)(uintptr_t)ids[i], NULL};
        outcome result = finish(start(argv, -1));
        ok(outcome_refused(&result, 65, 1 << 20, ids[i]), "--detokenize '%s': 65", ids[i]);
    }
}

/* ---- names that speak to terminals ----------------------------------------------------------- */

/* With a tensor that has no place in it. */
static file make_stray(void)
{
    mkmodel_opts o = mkmodel_defaults("llama");
    ggufw writer = {0};
    file f = {0};
    mkmodel(&o, &writer);
    ggufw_tensor(&writer, "stray.weight", 0, 1, (int64_t[]){1}, "none", 4);
    f.bytes = ggufw_bytes(&writer, &f.n);
    return f;
}

static void test_escapes(void)
{
    static const struct {
        const char *from, *to, *shown; /* the same length */
        int want;
    } row[] = {
        {"stray.weight", "s\x1b]0;x\x07ight", "s\\x1b]0;x\\x07ight", 69},
        {"blk.0.attn_q.weight", "blk.0.a\x1b[31m.weight", "", 65},
        {"llama", "l\x1b[2J", "l\\x1b[2J", 69}, /* the first is the architecture's name */
        {"llama", "l\nX\rY", "l\\x0aX\\x0dY", 69},
        {"llama",
         "l\xc2\x9b"
         "1m",
         "", 69},                                  /* U+009B: the same in one character */
        {"smollm", "sm\x1b[1m", "sm\\x1b[1m", 69}, /* the pre-tokenizer */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file file_data = make_stray();
        bool renamed = rename_to(&file_data, row[i].from, row[i].to);
        save(&file_data, "made.gguf");
        outcome result = run_model(under("made.gguf"), GENERATE);
        bool raw = strstr(result.err, "\xc2\x9b");
        ok(renamed && outcome_refused(&result, row[i].want, 1 << 20, row[i].from) && !raw && strstr(result.err, row[i].shown),
           "%s with an escape: %.*s", row[i].from, (int)strcspn(result.err, "\n"), result.err);
    }
}

/* ---- files that shrink ----------------------------------------------------------------------- */

/* By the library: cut between opening and loading, to this many bytes before its end. */
static void test_shrunk(off_t cut)
{
    file file_data = make_model("llama");
    off_t size = (off_t)file_data.n;
    save(&file_data, "made.gguf");
    zt_ctx *ctx = zt_ctx_new();
    zt_gguf *gguf = zt_gguf_open(ctx, under("made.gguf"));
    zt_engine *e = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.isa = zt_isa_best()});
    zt_llm_opts o = {.engine = e, .kv = ZT_DTYPE_COUNT};
    bool cutting = truncate(under("made.gguf"), size - cut) == 0;
    zt_llm *model = gguf && e ? zt_llm_open(gguf, &o) : NULL;
    ok(gguf && cutting && !model && zt_ctx_status(ctx) == ZT_EIO, "%d bytes gone after opening: %s", (int)cut, zt_ctx_error(ctx));
    zt_llm_close(model);
    zt_engine_close(e);
    zt_gguf_close(gguf);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
}

/* By the tool: it has opened the model when it takes the prompt from its stdin. */
static void test_shrunk_while_running(void)
{
    int pipes[2], left = 1;
    file file_data = make_model("llama");
    save(&file_data, "made.gguf");
    char *argv[] = {tool, "-m", (char *)(uintptr_t)under("made.gguf"), "-n", "1", NULL};
    if (pipe(pipes) != 0 || fcntl(pipes[1], F_SETFD, FD_CLOEXEC) != 0) return;
    pid_t pid = start(argv, pipes[0]);
    bool fed = write(pipes[1], "x", 1) == 1;
    for (int i = 0; i < 20000 && left; i++) { /* until it has been taken */
        fed = fed && ioctl(pipes[1], FIONREAD, &left) == 0;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    bool cutting = truncate(under("made.gguf"), size_of(under("made.gguf")) / 2) == 0;
    close(pipes[1]);
    close(pipes[0]);
    outcome result = finish(pid);
    ok(fed && left == 0 && cutting && outcome_refused(&result, 74, 1 << 20, "shrunk"), "zt-run, the model cut under it: %.*s",
       (int)strcspn(result.err, "\n"), result.err);
}

/* ---------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    (void)argc;
    if (!ok(hostile_open(argv[0]), "zt-run is there")) return tap_done();
    test_numbers();
    test_special_ids();
    test_vocabularies();
    test_escapes();
    test_shrunk(1);
    test_shrunk(20000);
    test_shrunk_while_running();
    hostile_close();
    return tap_done();
}
