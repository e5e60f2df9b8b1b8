/* golden_sentencepiece.c - tokenizer.model: of the models that tests/llm/sentencepiece/make.py made,
 * the ids of 2,000 texts and the texts of ids are SentencePiece's own; a directory and the GGUF
 * made of it give the same. Another folder of make.py's may be given. */
#include "lib/io/checkpoint.h"
#include "lib/llm/llm.h"
#include "tests/common/hf_writer.h"
#include "tests/common/tap.h"

#include <glob.h>
#include <libgen.h>

/* ---- make.py's files ------------------------------------------------------------------------- */

typedef struct file { /* a whole one, and where it is being read */
    char *bytes;
    size_t n, at;
} file;

static file open_file(zt_ctx *ctx, const char *path)
{
    file f = {0};
    f.bytes = zt_read_all(ctx, path, &f.n);
    return f;
}

static uint32_t number(file *f, size_t bytes)
{
    uint32_t v = 0;
    for (size_t i = 0; i < bytes && f->at < f->n; i++) v |= (uint32_t)(unsigned char)f->bytes[f->at++] << 8 * i;
    return v;
}

static zt_bytes text_of(file *file_data)
{
    size_t count = number(file_data, 4);
    if (count > file_data->n - file_data->at) count = 0;
    zt_bytes t = {file_data->bytes + file_data->at, count};
    file_data->at += count;
    return t;
}

enum { MOST = 4096 };

static size_t ids_of(file *f, int32_t ids[MOST])
{
    size_t n = number(f, 2);
    for (size_t i = 0; i < n; i++) ids[i < MOST ? i : 0] = (int32_t)number(f, 2);
    return n < MOST ? n : 0;
}

/* ---- one vocabulary -------------------------------------------------------------------------- */

static void show_ids(const char *what, const int32_t *ids, size_t n)
{
    char line[600] = "";
    for (size_t i = 0, at = 0; i < n && at < sizeof line - 12; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, " %d", ids[i]);
    diag("  %s:%s", what, line);
}

static bool check_ids(zt_ctx *ctx, const zt_vocab *vocab, zt_bytes text, const int32_t *want, size_t total)
{
    zt_ids got = {0};
    char buf[200];
    zt_status status = zt_vocab_encode(vocab, text.data, text.n, 0, &got);
    bool same = status == ZT_OK && got.count == total && (!total || memcmp(got.id, want, total * sizeof *want) == 0);
    if (!same) {
        diag("'%s': %s", zt_escape(buf, sizeof buf, text.data, text.n), zt_ctx_error(ctx));
        show_ids("ids", got.id, got.count);
        show_ids("expected", want, total);
    }
    zt_ids_fini(ctx, &got);
    zt_ctx_clear(ctx);
    return same;
}

static bool check_text(zt_ctx *ctx, const zt_vocab *vocab, const int32_t *ids, size_t count, zt_bytes want)
{
    zt_str out;
    char a[200], b[200];
    zt_str_init(&out, ctx);
    zt_str_puts(&out, "");
    zt_status status = zt_vocab_decode_ids(vocab, ids, count, false, &out);
    bool same = status == ZT_OK && out.len == want.n && memcmp(out.data, want.data, want.n) == 0;
    if (!same) {
        show_ids("of", ids, count);
        diag("'%s', '%s' expected: %s", zt_escape(a, sizeof a, out.data, out.len), zt_escape(b, sizeof b, want.data, want.n),
             zt_ctx_error(ctx));
    }
    zt_str_fini(&out);
    zt_ctx_clear(ctx);
    return same;
}

enum { SHOWN = 10 }; /* differences, before it is enough */

static void check_vocab(zt_ctx *ctx, const zt_vocab *vocab, const char *name, file texts, file answers)
{
    int32_t ids[MOST];
    int wrong[2] = {0}, all[2] = {0};
    while (vocab && answers.at < answers.n && wrong[0] + wrong[1] < SHOWN) {
        bool has_text = texts.at < texts.n;
        zt_bytes text = has_text ? text_of(&texts) : (zt_bytes){"", 0};
        size_t count = ids_of(&answers, ids);
        zt_bytes back = text_of(&answers);
        wrong[0] += has_text && !check_ids(ctx, vocab, text, ids, count);
        wrong[1] += !check_text(ctx, vocab, ids, count, back);
        all[0] += has_text;
        all[1]++;
    }
    ok(all[0] >= 2000 && !wrong[0], "%s: ids of %d texts", name, all[0]);
    ok(all[1] > all[0] && !wrong[1], "%s: texts of %d lists of ids", name, all[1]);
}

/* ---- one model ------------------------------------------------------------------------------- */

static void check_opened(zt_ctx *ctx, zt_gguf *gguf, const char *name, file texts, file answers)
{
    zt_vocab *vocab = gguf ? zt_vocab_open(gguf) : NULL;
    if (!vocab) diag("%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    check_vocab(ctx, vocab, name, texts, answers);
    zt_vocab_free(vocab);
    zt_gguf_close(gguf);
}

/* A directory of one tensor's model, written as a GGUF. */
static zt_gguf *converted(zt_ctx *ctx, hfw *directory)
{
    char out[600];
    zt_checkpoint_opts o = {.force = true};
    snprintf(out, sizeof out, "%s", hfw_path(directory, "o.gguf"));
    zt_gguf *gguf = zt_model_open_whole(ctx, directory->path);
    zt_checkpoint *checkpoint = gguf ? zt_checkpoint_of_gguf(ctx, gguf) : NULL;
    if (!checkpoint) return NULL;
    zt_writer *writer = zt_writer_open(ctx, out, &o, zt_checkpoint_meta(checkpoint), NULL, 0);
    bool written = writer && zt_writer_commit(writer) == ZT_OK;
    zt_writer_close(writer);
    zt_checkpoint_close(checkpoint);
    return written ? zt_model_open(ctx, out) : NULL;
}

static void check_model(const char *path, file texts)
{
    static const char config[] = "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":%d,"
                                 "\"hidden_size\":8,\"intermediate_size\":8,\"num_hidden_layers\":1,"
                                 "\"num_attention_heads\":1,\"max_position_embeddings\":8,\"rms_norm_eps\":1e-5}";
    char name[600], text[600], copy[4096];
    zt_ctx *ctx = zt_ctx_new();
    snprintf(copy, sizeof copy, "%.*s.bin", (int)(strlen(path) - strlen(".model")), path);
    file answers = open_file(ctx, copy), model = open_file(ctx, path);
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(name, sizeof name, "%s", basename(copy));
    zt_gguf *gguf = zt_model_open(ctx, path);
    zt_vocab *vocab = gguf ? zt_vocab_open(gguf) : NULL;
    int count = vocab ? zt_vocab_size(vocab) : 0;
    zt_vocab_free(vocab);
    check_opened(ctx, gguf, name, texts, answers);
    hfw directory = hfw_new();
    hfw_bytes(&directory, "tokenizer.model", model.bytes, model.n);
    snprintf(text, sizeof text, config, count);
    hfw_text(&directory, "config.json", text);
    snprintf(name, sizeof name, "%s in a directory", basename(copy));
    check_opened(ctx, zt_model_open_vocabulary(ctx, directory.path), name, texts, answers);
    hfw_f32(&directory, "model.norm.weight", 1, (int64_t[]){8}, 1);
    hfw_save(&directory, "model.safetensors");
    snprintf(name, sizeof name, "%s in a GGUF", basename(copy));
    check_opened(ctx, converted(ctx, &directory), name, texts, answers);
    hfw_end(&directory);
    zt_free(ctx, answers.bytes);
    zt_free(ctx, model.bytes);
    ok(zt_mem_get(ctx).blocks == 0, "%s: nothing leaks", path);
    zt_ctx_free(ctx);
}

int main(int argc, char **argv)
{
    const char *tests = getenv("ZT_TESTS");
    char folder[2048], path[4096];
    snprintf(folder, sizeof folder, "%s/../sentencepiece", tests && *tests ? tests : dirname(argv[0]));
    if (argc > 1) snprintf(folder, sizeof folder, "%s", argv[1]);
    zt_ctx *ctx = zt_ctx_new();
    snprintf(path, sizeof path, "%s/texts", folder);
    file texts = open_file(ctx, path);
    snprintf(path, sizeof path, "%s/*.model", folder);
    glob_t g;
    size_t count = glob(path, 0, NULL, &g) ? 0 : g.gl_pathc;
    ok(texts.n && count >= 12, "%zu models in %s", count, folder);
    for (size_t i = 0; i < count; i++) check_model(g.gl_pathv[i], texts);
    globfree(&g);
    zt_free(ctx, texts.bytes);
    zt_ctx_free(ctx);
    return tap_done();
}
