/* wrong_use.c - every public function called wrongly: NULL, 0, negative, huge. None may end by a signal or hang; what
 * fails with a context at hand leaves its sentence there.
 *
 * The calls are made from the headers: calls.pl writes $(BUILD)/tests/api/calls.inc, one function for each public
 * function, with a case for each set of arguments. Each public function has a child of its own, which a crash ends;
 * the next child goes on behind the call that crashed.
 *
 *     wrong_use [FUNCTION...]     only these, and what each call returned
 */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/made_llm.h"

/* ---- valid arguments -------------------------------------------------------------------------- */

/* calls.pl finds these by their types: a parameter `zt_prog *` or `const zt_prog *` is given a_zt_prog. */
static zt_ctx *a_zt_ctx;
static zt_str *a_zt_str;
static zt_arena *a_zt_arena;
static zt_bins *a_zt_bins;
static zt_map *a_zt_map;
static zt_pool *a_zt_pool;
static zt_source *a_zt_source;
static zt_sink *a_zt_sink;
static zt_type *a_zt_type;
static zt_tensor *a_zt_tensor;
static zt_tensor_pool *a_zt_tensor_pool;
static zt_meta *a_zt_meta;
static zt_gguf *a_zt_gguf;
static zt_checkpoint *a_zt_checkpoint;
static zt_safetensors *a_zt_safetensors;
static zt_npy *a_zt_npy;
static zt_npz *a_zt_npz;
static zt_pt *a_zt_pt;
static zt_writer *a_zt_writer;
static zt_gguf_writer *a_zt_gguf_writer;
static zt_st_writer *a_zt_st_writer;
static zt_npz_writer *a_zt_npz_writer;
static zt_pt_writer *a_zt_pt_writer;
static zt_imatrix *a_zt_imatrix;
static zt_prog *a_zt_prog;
static zt_bound *a_zt_bound;
static zt_builder *a_zt_builder;
static const zt_emit *a_zt_emit;
static zt_engine *a_zt_engine;
static zt_session *a_zt_session;
static zt_run *a_zt_run;
static zt_interpreter *a_zt_interpreter;
static zt_pages *a_zt_pages;
static zt_vocab *a_zt_vocab;
static zt_llm *a_zt_llm;
static zt_batch *a_zt_batch;
static zt_kv_store *a_zt_kv_store;
static zt_drafts *a_zt_drafts;
static zt_draft_model *a_zt_draft_model;
static zt_importance *a_zt_importance;
static const zt_template *a_zt_template;
static zt_jinja *a_zt_jinja;
static zt_grammar *a_zt_grammar;
static zt_token_trie *a_zt_token_trie;
static zt_grammar_matcher *a_zt_grammar_matcher;
static zt_nn *a_zt_nn;
static zt_nn_layer *a_zt_nn_layer;
static zt_dna *a_zt_dna;
static zt_recipe *a_zt_recipe;
static zt_moe_recipe *a_zt_moe_recipe;
static zt_samples *a_zt_samples;
static zt_trainer *a_zt_trainer;
static const zt_optimizer *a_zt_optimizer;
static const zt_container *a_zt_container;
static zt_store *a_zt_store;

/* Any other pointer: zeros, of which nothing is known; 4096 bytes on for each parameter. Aligned for every struct. */
#define SCRATCH (32 * 4096)
static _Alignas(64) char scratch[SCRATCH];

/* ---- what a call gave ------------------------------------------------------------------------- */

/* Shared with the parent. */
static struct progress {
    int variant; /* the call that runs now */
    int silent;  /* calls that failed without a sentence in the context */
    int first_silent;
} * progress;

static bool verbose, valid_ctx;

static void note(const char *name, bool failed, const char *what)
{
    bool said = zt_ctx_status(a_zt_ctx) != ZT_OK;
    if (verbose) diag("%s, call %d: %s; %s", name, progress->variant, what, zt_ctx_error(a_zt_ctx));
    if (failed && valid_ctx && !said && !progress->silent++) progress->first_silent = progress->variant;
}

/* A call's result: a status, a pointer to an object made, or another. */
#define STATUS(name, call)                                                                                                       \
    do {                                                                                                                         \
        zt_status s_ = (call);                                                                                                   \
        note(name, s_ != ZT_OK, zt_status_name(s_));                                                                             \
    } while (0)
#define OBJECT(name, call)                                                                                                       \
    do {                                                                                                                         \
        const void *p_ = (call);                                                                                                 \
        note(name, !p_, p_ ? "an object" : "NULL");                                                                              \
    } while (0)
#define OTHER(name, call)                                                                                                        \
    do {                                                                                                                         \
        (void)(call);                                                                                                            \
        note(name, false, "returned");                                                                                           \
    } while (0)
#define NOTHING(name, call)                                                                                                      \
    do {                                                                                                                         \
        call;                                                                                                                    \
        note(name, false, "returned");                                                                                           \
    } while (0)

typedef struct wrong_function {
    const char *name;
    int n_variants;
    void (*call)(int variant);
    bool ends; /* it may release what it is given: a process a call */
} wrong_function;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdiscarded-qualifiers" /* zt_template_free of one of the table */
#include "tests/api/calls.inc"
#pragma GCC diagnostic pop

/* ---- making the valid arguments ----------------------------------------------------------------- */

static zt_status end_text(void *text, float *logits, int32_t best, bool *more)
{
    (void)text, (void)logits, (void)best;
    *more = false;
    return ZT_OK;
}

static const char program_text[] = "zt program 1\n"
                                   "in x: f32[n,4]\n"
                                   "data w: f32[2,4] \"w\"\n"
                                   "y = linear x w\n"
                                   "loss = sum y\n"
                                   "out loss = loss\n";

static void make_arguments(const char *folder)
{
    zt_ctx *ctx = a_zt_ctx = zt_ctx_new();
    static zt_str text;
    static zt_type type;
    static zt_store store;
    char path[200];
    zt_str_init(&text, ctx);
    a_zt_str = &text;
    zt_str_puts(&text, "text");
    a_zt_arena = zt_arena_new(ctx, 0);
    a_zt_bins = zt_bins_new(ctx);
    a_zt_map = zt_map_new(ctx, 4);
    a_zt_pool = zt_pool_new(ctx, 1);
    a_zt_source = zt_source_memory(ctx, "memory", "0123456789", 10);
    snprintf(path, sizeof path, "%s/sink", folder);
    a_zt_sink = zt_sink_open(ctx, path, true);
    type = zt_type_make(ZT_F32, 2, (int64_t[]){2, 4});
    a_zt_type = &type;
    a_zt_tensor = zt_tensor_new(ctx, &type);
    memset(zt_tensor_data(a_zt_tensor), 0, zt_type_bytes(&type));
    a_zt_tensor_pool = zt_tensor_pool_new(ctx);
    a_zt_meta = zt_meta_new(ctx);

    file made = make_file("llama", "q8_0", 1, NULL);
    zt_source *bytes = zt_source_memory(ctx, "made", made.bytes, made.n);
    a_zt_gguf = zt_gguf_from(ctx, bytes);
    a_zt_checkpoint = zt_checkpoint_take(ctx, zt_source_memory(ctx, "made", made.bytes, made.n));
    a_zt_vocab = zt_vocab_open(a_zt_gguf);
    a_zt_engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1});
    a_zt_llm = zt_llm_open(a_zt_gguf, &(zt_llm_opts){.engine = a_zt_engine, .ctx_len = 64, .kv = ZT_DTYPE_COUNT});
    zt_llm *other = zt_llm_open(a_zt_gguf, &(zt_llm_opts){.engine = a_zt_engine, .ctx_len = 64, .kv = ZT_DTYPE_COUNT});
    a_zt_batch = zt_batch_open(other, &(zt_batch_opts){.next = end_text});
    snprintf(path, sizeof path, "%s/kv", folder);
    a_zt_kv_store = zt_kv_store_open(ctx, path, 1 << 20);
    a_zt_drafts = zt_drafts_open(ctx, 64);
    zt_llm *small = zt_llm_open(a_zt_gguf, &(zt_llm_opts){.engine = a_zt_engine, .ctx_len = 128, .kv = ZT_DTYPE_COUNT});
    a_zt_draft_model =
        zt_draft_model_open(&(zt_draft_model_opts){.model = small, .model_vocab = a_zt_vocab, .vocab = a_zt_vocab, .length = 2});
    a_zt_importance = zt_importance_open(a_zt_gguf, a_zt_engine, 8);
    a_zt_template = zt_template_find("chatml");
    a_zt_jinja = zt_jinja_parse(ctx, "text", "{{ x }}", 7);
    zt_grammar_part digits = {.kind = ZT_GRAMMAR_REGEX, .text = {"[0-9]+", 6}};
    a_zt_grammar = zt_grammar_compile(ctx, &digits, 1);
    a_zt_token_trie = zt_token_trie_new(ctx, a_zt_vocab);
    a_zt_grammar_matcher = zt_grammar_matcher_new(a_zt_grammar, a_zt_token_trie);

    zt_entry entry = {.name = "w", .dtype = "f32", .type = type, .bytes = zt_type_bytes(&type)};
    const char *names[] = {"safetensors", "npz", "pt"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/file.%s", folder, names[i]);
        zt_writer *w = zt_writer_open(ctx, path, &(zt_checkpoint_opts){.force = true}, a_zt_meta, &entry, 1);
        if (!w || zt_writer_put(w, zt_tensor_data(a_zt_tensor), entry.bytes) || zt_writer_commit(w))
            diag("%s", zt_ctx_error(ctx));
        zt_writer_close(w);
    }
    snprintf(path, sizeof path, "%s/file.safetensors", folder);
    a_zt_safetensors = zt_safetensors_open(ctx, path);
    snprintf(path, sizeof path, "%s/file.npz", folder);
    a_zt_npz = zt_npz_open(ctx, path);
    snprintf(path, sizeof path, "%s/file.pt", folder);
    a_zt_pt = zt_pt_open(ctx, path);
    snprintf(path, sizeof path, "%s/out.gguf", folder);
    static zt_entry entries[1];
    entries[0] = entry;
    a_zt_writer = zt_writer_open(ctx, path, &(zt_checkpoint_opts){.force = true}, a_zt_meta, entries, 1);
    a_zt_gguf_writer = zt_gguf_writer_new(ctx);
    a_zt_st_writer = zt_st_writer_new(ctx, 1);
    a_zt_npz_writer = zt_npz_writer_new(ctx, a_zt_sink);
    a_zt_pt_writer = zt_pt_writer_new(ctx, a_zt_sink);
    static char array[84];
    memcpy(array, "\x93NUMPY\x01\x00\x46\x00", 10);
    snprintf(array + 10, 71, "%-69s\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }");
    a_zt_npy = zt_npy_take(ctx, zt_source_memory(ctx, "array", array, 84));
    a_zt_imatrix = zt_imatrix_new(ctx);

    zt_binding n = {"n", 3};
    a_zt_prog = zt_prog_parse(ctx, "text", program_text, sizeof program_text - 1);
    a_zt_bound = zt_prog_bind(a_zt_prog, &n, 1);
    zt_prog *built = zt_prog_parse(ctx, "text", program_text, sizeof program_text - 1);
    a_zt_builder = zt_builder_new(built, &n, 1);
    a_zt_emit = zt_builder_emit(a_zt_builder);
    zt_checkpoint *weights = zt_checkpoint_open(ctx, (snprintf(path, sizeof path, "%s/file.npz", folder), path), 0);
    store = zt_checkpoint_store(weights);
    a_zt_store = &store;
    a_zt_session = zt_session_open(a_zt_engine, a_zt_prog, &store, NULL);
    a_zt_run = zt_run_new(a_zt_engine, false);
    a_zt_interpreter = zt_interpreter_open(a_zt_engine, a_zt_prog, &store, &n, 1, false);
    a_zt_pages = zt_pages_open(ctx, 8, 16, 2);

    static const char net[] = "{\"depth\":1,\"rows\":1,\"cols\":1,\"layers_per_cell\":1,\"layers\":["
                              "{\"type\":\"Dense\",\"l\":0,\"input_height\":4,\"output_height\":2,\"activation\":\"tanh\"}]}";
    zt_source *document = zt_source_memory(ctx, "net.json", net, sizeof net - 1);
    a_zt_nn = zt_nn_from(ctx, document, 1);
    a_zt_nn_layer = a_zt_nn ? zt_nn_layer_at(a_zt_nn, 0) : NULL;
    a_zt_dna = zt_dna_of(ctx, a_zt_checkpoint, ZT_RULE_FIELD);
    static const char recipe[] = "merge_method: linear\nmodels:\n- model: a\n- model: b\n";
    a_zt_recipe = zt_recipe_parse(ctx, "recipe", recipe, sizeof recipe - 1);
    static const char mixture[] = "base_model: a\ngate_mode: random\nexperts: [{source_model: a}, {source_model: b}]\n";
    a_zt_moe_recipe = zt_moe_recipe_parse(ctx, "mixture", mixture, sizeof mixture - 1);
    a_zt_samples = zt_samples_new(ctx, a_zt_prog, NULL, 0);
    a_zt_optimizer = zt_optimizer_named("sgd");
    a_zt_container = zt_container_named("gguf");
    static zt_optim optim;
    optim = zt_optim_default(a_zt_optimizer);
    a_zt_trainer =
        zt_trainer_open(a_zt_engine, a_zt_prog, &(zt_train_opts){.optim = &optim, .sample = &n, .n_sample = 1}, &store);
    if (zt_ctx_status(ctx)) diag("%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    const struct {
        const char *name;
        const void *made;
    } arguments[] = {ALL};
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        ok(arguments[i].made != NULL, "a valid %s", arguments[i].name);
    zt_mem_limit(ctx, (size_t)1 << 30);
}

/* ---- children --------------------------------------------------------------------------------- */

/* Runs calls from `first` on in a child. How it ended, as by waitpid. */
static int run_child(const wrong_function *f, int first)
{
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        for (int v = first; v < f->n_variants; v++) {
            progress->variant = v;
            alarm(120);
            zt_ctx_clear(a_zt_ctx);
            memset(scratch, 0, sizeof scratch);
            f->call(v);
            if (f->ends) break;
        }
        fflush(stdout);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/zt-wrong-use-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder)) /* "text", an argument, names a file there */
        return 1;
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED) return 1;
    make_arguments(folder);
    verbose = argc > 1;
    size_t functions = 0, calls = 0, crashed = 0, silent = 0;
    for (size_t i = 0; i < sizeof wrong_functions / sizeof *wrong_functions; i++) {
        const wrong_function *f = &wrong_functions[i];
        bool wanted = argc < 2;
        for (int a = 1; a < argc; a++) wanted |= !strcmp(argv[a], f->name);
        if (!wanted) continue;
        functions++;
        memset(progress, 0, sizeof *progress);
        for (int v = 0; v < f->n_variants; v = progress->variant + 1) {
            int status = run_child(f, v);
            if (status) {
                crashed++;
                diag("%s: call %d of wrong_use ended by %s %d", f->name, progress->variant,
                     WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            }
        }
        calls += (size_t)f->n_variants;
        if (progress->silent) {
            silent++;
            diag("%s: call %d failed without a message (%d such)", f->name, progress->first_silent, progress->silent);
        }
    }
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) diag("%s is left", folder);
    ok(argc > 1 || functions > 1000, "%zu functions, %zu calls", functions, calls);
    ok(crashed == 0, "no call ends by a signal: %zu do", crashed);
    ok(silent == 0, "what fails says why: %zu functions do not", silent);
    return tap_done();
}
