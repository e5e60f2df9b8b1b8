/* golden_tokenizer_json.c - vocabularies from tokenizer.json: every case of golden/tokenizers/hf and of
 * those that tests/llm/tokenizers/make.py made with the library itself (ids, decoded text); Loom's
 * tokenizer cases, where each case's note says that they are right; a mebibyte of one letter. */
#include "lib/llm/llm.h"
#include "tests/common/golden.h"
#include "tests/common/tap.h"

#include <glob.h>
#include <jansson.h>
#include <libgen.h>
#include <string.h>

typedef struct vocab { /* one tokenizer.json, open */
    zt_ctx *ctx;
    char *text;
    zt_vocab *v;
} vocab;

static vocab open_file(const char *path)
{
    vocab o = {.ctx = zt_ctx_new()};
    size_t n;
    o.text = zt_read_all(o.ctx, path, &n);
    o.v = o.text ? zt_vocab_open_json(o.ctx, path, o.text, n) : NULL;
    return o;
}

static void close_file(vocab *o)
{
    zt_vocab_free(o->v);
    zt_free(o->ctx, o->text);
    ok(zt_mem_get(o->ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(o->ctx);
}

/* ---- one case -------------------------------------------------------------------------------- */

static bool same_ids(const zt_ids *got, const json_t *want)
{
    bool same = got->count == json_array_size(want);
    for (size_t i = 0; same && i < got->count; i++) same = got->id[i] == json_integer_value(json_array_get(want, i));
    return same;
}

static void show_ids(const zt_ids *got, const json_t *want)
{
    char *list = json_dumps(want, JSON_COMPACT);
    char line[600] = "";
    for (size_t i = 0, at = 0; i < got->count && at < sizeof line - 12; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%d", i ? "," : "", got->id[i]);
    diag("  ids [%s], %.600s expected", line, list);
    free(list);
}

static bool check_ids(const vocab *o, zt_bytes text, unsigned flags, const json_t *want)
{
    zt_ids ids = {0};
    bool same = !zt_vocab_encode(o->v, text.data, text.n, flags, &ids) && same_ids(&ids, want);
    char buf[200];
    if (!same) {
        diag("'%s': %s", zt_escape(buf, sizeof buf, text.data, text.n), zt_ctx_error(o->ctx));
        show_ids(&ids, want);
    }
    zt_ids_fini(o->ctx, &ids);
    zt_ctx_clear(o->ctx);
    return same;
}

static bool check_text(const vocab *o, const json_t *ids, bool special, const json_t *want)
{
    int32_t *id = calloc(json_array_size(ids) + 1, sizeof *id);
    zt_str out;
    char a[300], b[300];
    for (size_t i = 0; i < json_array_size(ids); i++) id[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    zt_str_init(&out, o->ctx);
    zt_str_puts(&out, "");
    bool same = !zt_vocab_decode_ids(o->v, id, json_array_size(ids), special, &out) && out.len == json_string_length(want) &&
                memcmp(out.data, json_string_value(want), out.len) == 0;
    if (!same)
        diag("decoded '%s', '%s' expected: %s", zt_escape(a, sizeof a, out.data, out.len),
             zt_escape(b, sizeof b, json_string_value(want), json_string_length(want)), zt_ctx_error(o->ctx));
    zt_str_fini(&out);
    zt_ctx_clear(o->ctx);
    free(id);
    return same;
}

/* Token by token, as a model writes: the same, but for characters that are not whole. */
static bool check_stream(const vocab *o, const json_t *ids, const json_t *want)
{
    zt_str out;
    char a[300], b[300];
    zt_status status = ZT_OK;
    if (strstr(json_string_value(want), "\xef\xbf\xbd")) return true;
    zt_str_init(&out, o->ctx);
    zt_str_puts(&out, "");
    for (size_t i = 0; !status && i < json_array_size(ids); i++)
        status = zt_vocab_decode(o->v, (int32_t)json_integer_value(json_array_get(ids, i)), true, i == 0, &out);
    bool same = !status && out.len == json_string_length(want) && memcmp(out.data, json_string_value(want), out.len) == 0;
    if (!same)
        diag("token by token '%s', '%s' expected", zt_escape(a, sizeof a, out.data, out.len),
             zt_escape(b, sizeof b, json_string_value(want), json_string_length(want)));
    zt_str_fini(&out);
    return same;
}

/* ---- one tokenizer --------------------------------------------------------------------------- */

static void check_cases(const vocab *o, const char *name, const json_t *cases, bool stream)
{
    size_t i, bad[5] = {0};
    json_t *item;
    json_array_foreach(cases, i, item)
    {
        const json_t *text = json_object_get(item, "text"), *ids = json_object_get(item, "ids");
        const json_t *with = json_object_get(item, "ids_special");
        const json_t *all = json_object_get(item, "decoded");
        const json_t *skip = json_object_get(item, "decoded_skip");
        zt_bytes t = {json_string_value(text), json_string_length(text)};
        bad[0] += !check_ids(o, t, ZT_TOK_SPECIAL, ids);
        bad[1] += !check_ids(o, t, ZT_TOK_SPECIAL | ZT_TOK_BOS_RULE, with ? with : ids);
        bad[2] += !check_text(o, ids, true, all);
        bad[3] += !check_text(o, ids, false, skip ? skip : all);
        bad[4] += stream && !check_stream(o, ids, all);
    }
    ok(i && !bad[0], "%s: ids of %zu texts", name, i);
    ok(!bad[1], "%s: ids with what the post-processor adds", name);
    ok(!bad[2], "%s: decoded", name);
    ok(!bad[3], "%s: decoded without special tokens", name);
    if (stream) ok(!bad[4], "%s: decoded token by token", name);
}

/* What grows with the square of a text takes hours here: tests/tap-runner ends it. */
static void one_letter(const vocab *o, const char *name)
{
    static const char *const units[] = {"a", " ", "\n", "\xe4\xb8\x80"};
    size_t n = 1 << 20;
    char *text = malloc(n + 4);
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        size_t len = strlen(units[u]), total = n / len * len;
        zt_ids ids = {0};
        for (size_t i = 0; i < total; i += len) memcpy(text + i, units[u], len);
        zt_status status = zt_vocab_encode(o->v, text, total, ZT_TOK_SPECIAL, &ids);
        char buf[16];
        ok(!status, "%s: 1 MiB of '%s': %zu ids", name, zt_escape(buf, sizeof buf, units[u], len), ids.count);
        zt_ids_fini(o->ctx, &ids);
    }
    free(text);
}

static void check_tokenizer(const char *cases_path, bool golden)
{
    char path[4096], *copy = strdup(cases_path);
    const char *name = basename(copy);
    size_t length = strlen(cases_path) - strlen(".cases.json");
    json_t *root = json_load_file(cases_path, JSON_ALLOW_NUL, NULL);
    snprintf(path, sizeof path, "%.*s.json", (int)length, cases_path);
    vocab o = open_file(path);
    if (ok(o.v && root, "%s: opens", name)) {
        check_cases(&o, name, json_object_get(root, "cases"), golden);
        if (golden) one_letter(&o, name);
    } else {
        diag("%s", zt_ctx_error(o.ctx));
    }
    close_file(&o);
    json_decref(root);
    free(copy);
}

/* How many there were. */
static size_t check_folder(const char *folder, bool golden)
{
    char pattern[4096];
    glob_t g;
    snprintf(pattern, sizeof pattern, "%s/*.cases.json", folder);
    size_t n = glob(pattern, 0, NULL, &g) ? 0 : g.gl_pathc;
    for (size_t i = 0; i < n; i++) check_tokenizer(g.gl_pathv[i], golden);
    globfree(&g);
    return n;
}

/* ---- Loom ------------------------------------------------------------------------------------ */

/* The original has the byte alphabet wrong from 0xA1 on: up to there its ids are right. */
static bool is_plain(zt_bytes t)
{
    for (size_t i = 0; i < t.n; i++)
        if ((unsigned char)t.data[i] >= 0xa1) return false;
    return true;
}

static bool back(const vocab *o, zt_bytes t)
{
    zt_ids ids = {0};
    zt_str out;
    zt_str_init(&out, o->ctx);
    zt_str_puts(&out, "");
    bool same = !zt_vocab_encode(o->v, t.data, t.n, ZT_TOK_SPECIAL, &ids) &&
                !zt_vocab_decode_ids(o->v, ids.id, ids.count, true, &out) && out.len == t.n && memcmp(out.data, t.data, t.n) == 0;
    zt_str_fini(&out);
    zt_ids_fini(o->ctx, &ids);
    return same;
}

static void loom_case(const vocab *o, const char *path)
{
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, NULL);
    const json_t *text = json_object_get(root, "text"), *ids = json_object_get(root, "ids");
    zt_bytes t = {json_string_value(text), json_string_length(text)};
    if (ok(t.data != NULL, "%s: a case", path)) {
        ok(back(o, t), "%s: its bytes come back", path);
        if (is_plain(t)) {
            ok(check_ids(o, t, ZT_TOK_SPECIAL, ids), "%s: ids", path);
            ok(check_text(o, ids, true, json_object_get(root, "decoded")), "%s: decoded", path);
            ok(check_text(o, ids, false, json_object_get(root, "decoded_skip_special")), "%s: decoded without special tokens",
               path);
        }
    }
    json_decref(root);
}

static void check_loom(const char *folder)
{
    char path[4200];
    glob_t g;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (!golden_has(path)) return;
    vocab o = open_file(path);
    snprintf(path, sizeof path, "%s/e*.json", folder);
    if (!ok(o.v != NULL, "Loom's tokenizer opens"))
        diag("%s", zt_ctx_error(o.ctx));
    else if (glob(path, 0, NULL, &g) == 0) {
        for (size_t i = 0; i < g.gl_pathc; i++) loom_case(&o, g.gl_pathv[i]);
        globfree(&g);
    }
    close_file(&o);
}

int main(int argc, char **argv)
{
    const char *tests = getenv("ZT_TESTS");
    char path[4096];
    if (argc > 1) { /* another folder of tokenizers and cases */
        check_folder(argv[1], false);
        return tap_done();
    }
    snprintf(path, sizeof path, "%s/../tokenizers", tests && *tests ? tests : dirname(argv[0]));
    ok(check_folder(path, false) > 0, "made tokenizers are in %s", path);
    if (golden_holds("tokenizers/hf", path)) check_folder(path, true);
    if (golden_holds("loom/tokenizer", path)) check_loom(path);
    return tap_done();
}
