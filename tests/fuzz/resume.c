/* resume.c - a fuzz target for files from which a run goes on: the checkpoint of a training run, and the session of a language model.
 * The first byte chooses:
 *
 *     't', 's'   a sound checkpoint or session, XOR the bytes, with the checksum of that, so that what lies behind it is reached
 *     'T', 'S'   the bytes alone
 *
 * The file is refused with one line, or its state is in range. Trainer and model are opened once.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/train/fit.h"
#include "tests/common/made_llm.h"

#include "tests/fuzz/pair.h"

#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { SUM = 16, CONTEXT = 16, TOKENS = 5 };

static const char key[] = "0123456789abcdef0123456789abcdef", arithmetic[] = "cpu", run_text[] = "a run";

static void must(bool good)
{
    if (!good) abort();
}

/* ---- opened once ------------------------------------------------------------------------------------ */

static zt_ctx *ctx;
static model language;
static file language_file, checkpoint, session; /* the last two: sound */
static zt_engine *engine;
static zt_prog *program;
static zt_trainer *trainer;

static zt_status find_zeros(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)user, (void)name;
    *type = zt_type_make(ZT_F32, 2, (const int64_t[]){3, 4});
    *handle = 0;
    return ZT_OK;
}

static zt_status read_zeros(void *user, int64_t handle, size_t offset, void *dst, size_t count)
{
    (void)user, (void)handle, (void)offset;
    memset(dst, 0, count);
    return ZT_OK;
}

static void open_trainer(void)
{
    static const char text[] = "zt program 1\nin x: f32[n,4]\nin y: i32[n]\ndata w: f32[3,4] \"w\"\no = linear x w\n"
                               "loss, lse = cross_entropy o y\nout loss = loss\n";
    const zt_binding rows = {"n", 2};
    zt_optim optim = zt_optim_default(zt_optimizer_named("adam"));
    program = zt_prog_parse(ctx, "program", text, sizeof text - 1);
    engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1, .isa = ZT_ISA_SCALAR});
    must(program && engine);
    trainer = zt_trainer_open(engine, program, &(zt_train_opts){.optim = &optim, .sample = &rows, .n_sample = 1},
                              &(zt_store){NULL, find_zeros, read_zeros});
    must(trainer != NULL);
}

static void read_sound(file *into)
{
    into->bytes = zt_read_all(ctx, pair_path("run"), &into->n);
    must(into->bytes && into->n > SUM);
}

static void close_all(void)
{
    zt_free(ctx, checkpoint.bytes);
    zt_free(ctx, session.bytes);
    model_close(&language);
    zt_trainer_close(trainer);
    zt_engine_close(engine);
    zt_prog_free(program);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    free(language_file.bytes);
}

static void open_all(void)
{
    static const int32_t ids[TOKENS] = {1, 2, 3, 4, 5};
    const zt_fit_state state = zt_fit_begin();
    pair_put_only("run", "", 0);
    ctx = zt_ctx_new();
    must(ctx != NULL);
    zt_log_set(ctx, ZT_LOG_WARN, NULL, NULL);
    open_trainer();
    must(zt_train_save(trainer, &state, run_text, pair_path("run")) == ZT_OK);
    read_sound(&checkpoint);
    language_file = make_file("llama", "f32", 1, NULL);
    must(model_open(&language, ctx, &language_file,
                    &(setup){.engine = "cpu", .threads = 1, .isa = ZT_ISA_SCALAR, .ctx_len = CONTEXT}) == ZT_OK);
    must(zt_llm_feed(language.m, ids, TOKENS, false, NULL) == ZT_OK);
    must(zt_llm_save(language.m, key, arithmetic, ids, pair_path("run")) == ZT_OK);
    read_sound(&session);
    unlink(pair_path("run.before"));
    atexit(close_all);
}

/* ---- one file --------------------------------------------------------------------------------------- */

/* The sound file XOR the bytes, which may be longer. */
static void put_changed(const file *sound, const uint8_t *bytes, size_t count, bool session_sum)
{
    size_t size = sound->n > count + SUM ? sound->n : count + SUM, end = size - SUM;
    char *changed = calloc(1, size);
    must(changed != NULL);
    memcpy(changed, sound->bytes, sound->n - SUM);
    for (size_t i = 0; i < count; i++) changed[i] ^= (char)bytes[i];
    XXH128_hash_t sum = XXH3_128bits(changed, end);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, sum);
    memcpy(changed + end, &sum.low64, 8);
    memcpy(changed + end + 8, &sum.high64, 8);
    if (session_sum) memcpy(changed + end, &canonical, SUM);
    pair_put("run", changed, size);
    free(changed);
}

static void load_checkpoint(void)
{
    zt_fit_state state = zt_fit_begin();
    char *why = NULL;
    zt_status status = zt_train_load(trainer, &state, run_text, pair_path("run"), &why);
    must(status == zt_ctx_status(ctx));
    must(status == ZT_OK || status == ZT_EDATA || status == ZT_EUSAGE || status == ZT_ENOTSUP);
    must(status != ZT_OK || zt_trainer_steps(trainer) == state.steps);
    zt_free(ctx, why);
}

static void load_session(void)
{
    zt_ids ids = {0};
    must(zt_llm_rewind(language.m, 0) == ZT_OK);
    zt_status status = zt_llm_load(language.m, key, arithmetic, pair_path("run"), &ids);
    must(status == zt_ctx_status(ctx) && (status == ZT_OK || status == ZT_EDATA || status == ZT_ENOMEM));
    int64_t vocab = zt_llm_get(language.m).vocab;
    must(zt_llm_position(language.m) <= CONTEXT && (status != ZT_OK || zt_llm_position(language.m) == (int64_t)ids.count));
    for (size_t i = 0; i < ids.count && status == ZT_OK; i++) must(ids.id[i] >= 0 && ids.id[i] < vocab);
    zt_ids_fini(ctx, &ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count == 0) return 0;
    if (!ctx) open_all();
    bool is_session = (bytes[0] | 32) == 's', whole = bytes[0] & 32;
    if (whole)
        put_changed(is_session ? &session : &checkpoint, bytes + 1, count - 1, is_session);
    else
        pair_put("run", bytes + 1, count - 1);
    size_t blocks = zt_mem_get(ctx).blocks;
    (is_session ? load_session : load_checkpoint)();
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_ctx_clear(ctx);
    must(zt_mem_get(ctx).blocks == blocks);
    return 0;
}
