/* kv_store.c - tests of the KV store: logits behind stored blocks have the bits of a run without it, on every layout of a cache and
 * with every kind of recurrent layer; damaged files are never used; a writer that is killed at any of its system calls, or whose disk is full, harms nothing; the
 * directory has a bound. */
#include "tests/common/made_llm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 100, BLOCKS = N / ZT_LLM_BLOCK, CTX = 128 };

static const uint8_t ID[ZT_DIGEST_BYTES] = {1, 2, 3}, OTHER[ZT_DIGEST_BYTES] = {1, 2, 4};
static char folder[64];

static const setup as_usual = {.engine = "cpu", .threads = 1, .isa = ZT_ISA_SCALAR, .ctx_len = CTX};

/* ---- system calls that fail or kill ----------------------------------------------------------- */

/* Of these calls the library's are counted. The kill_at-th kills the process, before it is made; from full_at on writes fail. */
static int calls, kill_at, full_at;

static bool is_full(void)
{
    calls++;
    if (calls == kill_at) raise(SIGKILL);
    return full_at && calls >= full_at;
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    if (fd <= 2) return syscall(SYS_write, fd, bytes, count);
    if (!is_full()) return syscall(SYS_write, fd, bytes, count);
    if (count > 1) return syscall(SYS_write, fd, bytes, count / 2); /* the rest of the disk */
    errno = ENOSPC;
    return -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    if (!is_full()) return syscall(SYS_pwrite64, fd, bytes, count, offset);
    errno = ENOSPC;
    return -1;
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    is_full();
    return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    is_full();
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int unlinkat(int dir, const char *path, int flags)
{
    is_full();
    return (int)syscall(SYS_unlinkat, dir, path, flags);
}

int utimensat(int dir, const char *path, const struct timespec times[2], int flags)
{
    is_full();
    return (int)syscall(SYS_utimensat, dir, path, times, flags);
}

/* ---- the directory ---------------------------------------------------------------------------- */

/* Calls `visit` for each file but `lock`; returns how many there are, and the sum of their sizes. */
static int each_file(void (*visit)(const char *path), uint64_t *bytes)
{
    char path[512];
    struct stat info;
    int count = 0;
    DIR *open = opendir(folder);
    if (bytes) *bytes = 0;
    for (struct dirent *entry; open && (entry = readdir(open));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (!strcmp(entry->d_name, "lock") || stat(path, &info) || !S_ISREG(info.st_mode)) continue;
        count++;
        if (bytes) *bytes += (uint64_t)info.st_size;
        if (visit) visit(path);
    }
    if (open) closedir(open);
    return count;
}

static char some_path[512];
static void note_path(const char *path) { snprintf(some_path, sizeof some_path, "%s", path); }
static void remove_path(const char *path) { unlink(path); }

static void empty_folder(void)
{
    char path[128];
    each_file(remove_path, NULL);
    snprintf(path, sizeof path, "%s/lock", folder);
    unlink(path);
}

static uint8_t *slurp(const char *path, size_t *size)
{
    FILE *stream = fopen(path, "rb");
    uint8_t *bytes = calloc(1, 1 << 20);
    *size = stream ? fread(bytes, 1, 1 << 20, stream) : 0;
    if (stream) fclose(stream);
    return bytes;
}

static void spit(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *stream = fopen(path, "wb");
    if (!stream) return;
    fwrite(bytes, 1, size, stream);
    fclose(stream);
}

/* ---- a run ------------------------------------------------------------------------------------- */

typedef struct outcome {
    zt_status status;
    int64_t resumed; /* tokens that the store had */
    zt_kv_store_count count;
    size_t left; /* blocks of memory */
} outcome;

/* Feeds ids[N], what the store has of the first N - 1 by it; the last token's logits; then stores. limit 0: without a store. */
static outcome run_with(const file *made, const setup *how, const uint8_t identity[ZT_DIGEST_BYTES], uint64_t limit,
                        const int32_t *ids, float *logits)
{
    outcome out = {0};
    zt_ctx *ctx = zt_ctx_new();
    model o;
    zt_ids fed = {0};
    zt_log_set(ctx, ZT_LOG_WARN, NULL, NULL);
    out.status = model_open(&o, ctx, made, how);
    zt_kv_store *store = out.status == ZT_OK && limit ? zt_kv_store_open(ctx, folder, limit) : NULL;
    if (store && out.status == ZT_OK) out.status = zt_kv_store_attach(store, o.m, identity);
    if (out.status == ZT_OK) out.status = zt_ctx_status(ctx);
    if (out.status == ZT_OK) out.status = zt_kv_store_resume(store, ids, N - 1, &fed);
    out.resumed = (int64_t)fed.count;
    if (out.status == ZT_OK && zt_llm_position(o.m) != out.resumed) out.status = ZT_EBUG;
    for (int64_t at = out.resumed, stop; at < N && out.status == ZT_OK; at = stop) {
        stop = zt_kv_store_stop(store, ids, N, at);
        out.status = zt_llm_feed(o.m, ids + at, (size_t)(stop - at), false, logits);
        if (out.status == ZT_OK) zt_kv_store_keep_fed(store, ids, (size_t)stop);
    }
    if (out.status == ZT_OK) out.status = zt_ctx_status(ctx);
    if (out.status != ZT_OK && out.status != ZT_ENOTSUP) diag("%s", zt_ctx_error(ctx));
    out.count = zt_kv_store_counted(store);
    zt_kv_store_close(store);
    zt_ids_fini(ctx, &fed);
    model_close(&o);
    out.left = zt_mem_get(ctx).blocks;
    zt_ctx_free(ctx);
    return out;
}

typedef struct subject {
    file made;
    int64_t vocab;
    int32_t ids[N];
    float *want, *got; /* [vocab] */
} subject;

static subject make_subject(const char *arch, const char *type, const setup *how)
{
    subject s = {.made = make_file(arch, type, 2, NULL)};
    s.vocab = vocab_of(&s.made);
    draw_ids(s.ids, N, s.vocab);
    s.want = calloc((size_t)s.vocab, sizeof *s.want);
    s.got = calloc((size_t)s.vocab, sizeof *s.got);
    if (run_with(&s.made, how, ID, 0, s.ids, s.want).status != ZT_OK) diag("%s: it does not run", arch);
    return s;
}

static void free_subject(subject *s)
{
    free(s->made.bytes);
    free(s->want);
    free(s->got);
}

static bool same_logits(const subject *s) { return memcmp(s->want, s->got, (size_t)s->vocab * sizeof *s->want) == 0; }

static outcome run_again(subject *s, const setup *how, uint64_t limit)
{
    memset(s->got, 0, (size_t)s->vocab * sizeof *s->got);
    return run_with(&s->made, how, ID, limit, s->ids, s->got);
}

/* ---- the same bits ----------------------------------------------------------------------------- */

/* `states`: with recurrent layers, whose states are a file more. */
static void test_same_bits(const char *arch, const char *type, const setup *how, bool states)
{
    subject s = make_subject(arch, type, how);
    const uint64_t files = BLOCKS + states;
    empty_folder();
    outcome first = run_again(&s, how, 1 << 30);
    ok(first.status == ZT_OK && first.resumed == 0 && first.count.written == files && same_logits(&s),
       "%s on %s: %d files are stored", arch, how->engine, (int)files);
    outcome second = run_again(&s, how, 1 << 30);
    ok(second.status == ZT_OK && second.resumed == BLOCKS * ZT_LLM_BLOCK && second.count.found == files &&
           second.count.written == 0 && same_logits(&s),
       "%s on %s: the logits behind them have the same bits", arch, how->engine);
    ok(first.left == 0 && second.left == 0, "%s on %s: nothing leaks", arch, how->engine);
    free_subject(&s);
}

/* A text that has its first `common` tokens in common with the subject's, and its logits without a store. */
static subject make_other(const subject *s, int common, int variant, const setup *how)
{
    subject other = *s;
    for (int i = common; i < N; i++) other.ids[i] = (s->ids[i] + variant) % (int32_t)s->vocab;
    other.want = calloc((size_t)s->vocab, sizeof *other.want);
    other.got = calloc((size_t)s->vocab, sizeof *other.got);
    if (run_with(&s->made, how, ID, 0, other.ids, other.want).status != ZT_OK) diag("it does not run");
    return other;
}

static bool resumes_at(subject *s, const setup *how, int64_t position, uint64_t damaged)
{
    outcome out = run_again(s, how, 1 << 30);
    bool good = out.status == ZT_OK && out.resumed == position && out.count.damaged == damaged && same_logits(s) && !out.left;
    if (!good) diag("resumed at %d, %d damaged", (int)out.resumed, (int)out.count.damaged);
    return good;
}

static char state_path[8][512];
static int state_count;
static void note_state(const char *path)
{
    if (strstr(path, ".state") && state_count < 8) snprintf(state_path[state_count++], sizeof *state_path, "%s", path);
}

static void flip_bit(const char *path)
{
    size_t size;
    uint8_t *bytes = slurp(path, &size);
    bytes[size - 40] ^= 4;
    spit(path, bytes, size);
    free(bytes);
}

/* Texts with a beginning in common: the second leaves a state where it departs from the first, and the third goes on from there. */
static void test_branches(const char *arch)
{
    subject s = make_subject(arch, "f32", &as_usual);
    subject other = make_other(&s, 70, 1, &as_usual), third = make_other(&s, 70, 2, &as_usual);
    empty_folder();
    ok(resumes_at(&s, &as_usual, 0, 0) && resumes_at(&other, &as_usual, 0, 0), "%s: no state where two texts depart", arch);
    ok(resumes_at(&third, &as_usual, 64, 0) && resumes_at(&third, &as_usual, 96, 0), "%s: a third text goes on from there", arch);
    ok(resumes_at(&s, &as_usual, 96, 0) && resumes_at(&other, &as_usual, 96, 0), "%s: the first two from their last blocks",
       arch);
    state_count = 0;
    each_file(note_state, NULL);
    const int stored = state_count;
    for (int i = 0; i < state_count; i++) flip_bit(state_path[i]);
    ok(stored == 4 && resumes_at(&s, &as_usual, 0, 2), "%s: damaged states are removed, and computed", arch);
    ok(resumes_at(&s, &as_usual, 96, 0), "%s: and stored again", arch);
    state_count = 0;
    each_file(note_state, NULL);
    each_file(note_path, NULL);
    for (int i = 0; i < state_count; i++) unlink(state_path[i]);
    ok(resumes_at(&s, &as_usual, 0, 0), "%s: blocks without states are not resumed", arch);
    free(other.want);
    free(other.got);
    free(third.want);
    free(third.got);
    free_subject(&s);
}

static void test_keys(void)
{
    subject s = make_subject("llama", "q4_1", &as_usual);
    int32_t changed[N];
    empty_folder();
    run_again(&s, &as_usual, 1 << 30);
    ok(run_with(&s.made, &as_usual, OTHER, 1 << 30, s.ids, s.got).resumed == 0, "another identity has no blocks");
    for (int at = 0; at < N - 1; at += 33) {
        memcpy(changed, s.ids, sizeof changed);
        changed[at] = (changed[at] + 1) % (int32_t)s.vocab;
        ok(run_with(&s.made, &as_usual, ID, 1 << 30, changed, s.got).resumed == at / ZT_LLM_BLOCK * ZT_LLM_BLOCK,
           "token %d is another: blocks before it alone", at);
    }
    free_subject(&s);
}

static void test_refused(void)
{
    zt_ctx *ctx = zt_ctx_new();
    ok(!zt_kv_store_open(ctx, "/nonexistent/a/b", 1000) && zt_ctx_status(ctx) == ZT_ECREATE, "no such directory");
    zt_ctx_clear(ctx);
    ok(!zt_kv_store_open(ctx, "/dev/null", 1000) && zt_ctx_status(ctx) == ZT_ECREATE, "not a directory");
    zt_ctx_free(ctx);
}

/* ---- damage ------------------------------------------------------------------------------------ */

/* One try with a damaged block; the file has to be gone, and made anew. */
static bool survives(subject *s, const uint8_t *bytes, size_t size)
{
    spit(some_path, bytes, size);
    outcome out = run_again(s, &as_usual, 1 << 30);
    return out.status == ZT_OK && out.count.damaged == 1 && out.count.written == 1 && same_logits(s);
}

/* Every byte of the parts around the rows; of the rows some. */
static void test_damaged(void)
{
    subject s = make_subject("llama", "q4_1", &as_usual);
    size_t size, again;
    int wrong = 0, tried = 0;
    empty_folder();
    run_again(&s, &as_usual, 1 << 30);
    each_file(note_path, NULL);
    uint8_t *bytes = slurp(some_path, &size);
    for (size_t i = 0; i < size; i += i < 256 || i + 17 > size ? 1 : 509, tried++) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        wrong += !survives(&s, bytes, size);
        bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    ok(tried > 256 && !wrong, "a bit of each of %d bytes of %zu is changed", tried, size);
    wrong = 0;
    for (size_t i = 0; i < size; i += 1 + size / 20) wrong += !survives(&s, bytes, i);
    uint8_t *longer = calloc(1, size + 1);
    memcpy(longer, bytes, size);
    ok(!wrong && survives(&s, longer, size + 1), "cut at 20 places, and longer");
    unlink(some_path);
    mkdir(some_path, 0777);
    outcome out = run_again(&s, &as_usual, 1 << 30);
    ok(out.status == ZT_OK && same_logits(&s), "a directory in its place");
    rmdir(some_path);
    run_again(&s, &as_usual, 1 << 30);
    uint8_t *last = slurp(some_path, &again);
    ok(again == size && memcmp(last, bytes, size) == 0, "the block is as it was, to the byte");
    free(last);
    free(longer);
    free(bytes);
    free_subject(&s);
}

/* ---- kills and full disks ---------------------------------------------------------------------- */

/* A child that stores as long as it may; true: it was killed. */
static bool run_killed(subject *s, uint64_t limit, int at)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        calls = 0;
        kill_at = at;
        run_again(s, &as_usual, limit);
        _exit(0);
    }
    int state = 0;
    waitpid(child, &state, 0);
    return WIFSIGNALED(state);
}

static int left_behind;
static void note_left(const char *path) { left_behind += strstr(path, ".tmp") != NULL; }

/* At each of the calls of a writer, until one ends. The blocks of another text are there; with room for `blocks` some of them are
 * removed. */
static void test_killed(uint64_t blocks)
{
    subject s = make_subject("llama", "q4_1", &as_usual), t = make_subject("llama", "q4_1", &as_usual);
    int kills = 0, wrong = 0;
    uint64_t bytes, limit;
    empty_folder();
    run_again(&s, &as_usual, 1 << 30);
    limit = (each_file(NULL, &bytes), bytes / BLOCKS * blocks);
    for (int i = 0; i < N; i++) t.ids[i] = s.ids[N - 1 - i];
    run_with(&t.made, &as_usual, ID, 0, t.ids, t.want);
    for (bool killed = true; killed && kills < 100; kills += killed) {
        each_file(remove_path, NULL);
        run_again(&t, &as_usual, limit);
        killed = run_killed(&s, limit, kills + 1);
        wrong += run_again(&s, &as_usual, limit).status != ZT_OK || !same_logits(&s);
        wrong += run_again(&t, &as_usual, limit).status != ZT_OK || !same_logits(&t);
        int files = each_file(note_left, &bytes);
        wrong += bytes > limit || files < BLOCKS;
    }
    ok(kills >= 10 && kills < 100 && !wrong && !left_behind,
       "room for %llu blocks: killed at %d calls: the same logits, whole files and no others", (unsigned long long)blocks, kills);
    free_subject(&s);
    free_subject(&t);
}

static void test_full(void)
{
    subject s = make_subject("llama", "q4_1", &as_usual);
    int wrong = 0, tries = 0;
    for (; tries < 20; tries++) {
        empty_folder();
        calls = 0;
        full_at = tries + 1;
        outcome out = run_again(&s, &as_usual, 1 << 30);
        full_at = 0;
        wrong += out.status != ZT_OK || !same_logits(&s) || out.left;
        out = run_again(&s, &as_usual, 1 << 30);
        wrong += out.status != ZT_OK || !same_logits(&s) || out.count.damaged || each_file(NULL, NULL) != BLOCKS;
    }
    ok(!wrong, "the disk is full from call 1 to %d on", tries);
    free_subject(&s);
}

/* ---- the bound --------------------------------------------------------------------------------- */

static void test_bound(void)
{
    subject s = make_subject("llama", "q4_1", &as_usual);
    uint64_t bytes, block;
    empty_folder();
    run_again(&s, &as_usual, 1 << 30);
    block = (each_file(NULL, &bytes), bytes / BLOCKS);
    empty_folder();
    outcome out = run_again(&s, &as_usual, block * 2 - 1);
    ok(out.count.written == 1, "of a text with %d blocks the one that there is room for", BLOCKS);
    ok(run_again(&s, &as_usual, block * 2 - 1).resumed == ZT_LLM_BLOCK && same_logits(&s), "it is the first, and stays");
    ok(run_again(&s, &as_usual, block - 1).count.written == 0 && same_logits(&s), "no room for any");
    empty_folder();
    int wrong = 0;
    for (int text = 0; text < 6; text++) {
        for (int i = 0; i < N; i++) s.ids[i] = (s.ids[i] + 1) % (int32_t)s.vocab;
        out = run_again(&s, &as_usual, block * 7);
        each_file(NULL, &bytes);
        wrong += bytes > block * 7 || out.count.written != BLOCKS;
        out = run_again(&s, &as_usual, block * 7);
        wrong += out.resumed != BLOCKS * ZT_LLM_BLOCK;
    }
    ok(!wrong, "six texts in room for two: the last is there");
    free_subject(&s);
}

/* ---- failing allocations ------------------------------------------------------------------------ */

static void test_allocations(void)
{
    subject s = make_subject("llama", "q4_1", &as_usual);
    int wrong = 0, nth = 1;
    empty_folder();
    zt_ctx *ctx = zt_ctx_new();
    model o;
    zt_log_set(ctx, ZT_LOG_WARN, NULL, NULL);
    if (model_open(&o, ctx, &s.made, &as_usual) || zt_llm_feed(o.m, s.ids, N, false, s.got)) diag("%s", zt_ctx_error(ctx));
    size_t before = zt_mem_get(ctx).blocks;
    for (bool done = false; !done && nth < 200; nth++) {
        zt_ids fed = {0};
        zt_llm_rewind(o.m, 0);
        zt_mem_fail(ctx, (uint64_t)nth, false);
        zt_kv_store *store = zt_kv_store_open(ctx, folder, 1 << 30);
        zt_status status = store ? zt_kv_store_attach(store, o.m, ID) : ZT_ENOMEM;
        zt_kv_store_keep_fed(store, s.ids, N);
        if (status == ZT_OK) status = zt_kv_store_resume(store, s.ids, N - 1, &fed);
        zt_mem_fail(ctx, 0, false);
        done = status == ZT_OK && zt_kv_store_counted(store).found == BLOCKS && zt_kv_store_counted(store).written == BLOCKS;
        zt_kv_store_close(store);
        zt_ids_fini(ctx, &fed);
        wrong += (status != ZT_OK && status != ZT_ENOMEM) || zt_mem_get(ctx).blocks != before;
        zt_ctx_clear(ctx);
        each_file(remove_path, NULL);
    }
    ok(!wrong && nth > 5 && nth < 200, "each of %d allocations fails: nothing leaks, and no other error", nth);
    model_close(&o);
    zt_ctx_free(ctx);
    free_subject(&s);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/zt-kv-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) return 1;
    setup exact = as_usual, ref = as_usual, chunks = as_usual;
    exact.exact = true;
    ref.engine = "ref";
    chunks.chunk = 7;
    test_same_bits("llama", "q4_1", &as_usual, false);
    test_same_bits("llama", "q4_1", &exact, false);
    test_same_bits("llama", "q4_1", &ref, false);
    test_same_bits("llama", "f32", &chunks, false);
    static const char *const archs[] = {"gemma3", "gemma3n", "deepseek2", "qwen3moe", "gpt-oss", "gpt2"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) test_same_bits(archs[i], "f32", &as_usual, false);
    static const char *const recurrent[] = {"qwen3next", "qwen35", "rwkv7", "arwkv7"};
    for (size_t i = 0; i < sizeof recurrent / sizeof *recurrent; i++) test_same_bits(recurrent[i], "f32", &as_usual, true);
    test_same_bits("qwen35", "f32", &ref, true);
    test_same_bits("qwen35", "f32", &chunks, true);
    test_branches("qwen35");
    test_branches("rwkv7");
    test_keys();
    test_refused();
    test_damaged();
    test_killed(1000);
    test_killed(5);
    test_full();
    test_bound();
    test_allocations();
    empty_folder();
    rmdir(folder);
    return tap_done();
}
