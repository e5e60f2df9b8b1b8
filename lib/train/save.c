/* save.c - owns checkpoints of a training run.
 *
 * The file, little endian:
 *
 *     file_head
 *     each state of the trainer, its bytes in memory
 *     XXH3-128 of all of the above
 *
 * It is written to a temporary file and renamed, and the previous one is kept under another name, so that a complete file
 * exists at any time. The whole file is checked before any of it is used.
 */
#include "lib/base/require.h"
#include "lib/train/fit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC "zt-train"

typedef struct file_head {
    char magic[8];
    uint32_t version, n_states;
    uint64_t run[2]; /* XXH3-128 of the caller's text and the trainer's identity */
    uint64_t bytes;  /* size of the file */
    zt_fit_state state;
} file_head;

enum { HASH = 16 };

static void put_hash(const void *bytes, size_t length, uint64_t hash_out[2])
{
    XXH128_hash_t hash = XXH3_128bits(bytes, length);
    hash_out[0] = hash.low64;
    hash_out[1] = hash.high64;
}

static zt_status hash_run(zt_trainer *trainer, const char *run, uint64_t id[2])
{
    zt_str text;
    zt_str_init(&text, zt_trainer_ctx(trainer));
    zt_status status = zt_str_puts(&text, run);
    if (!status) status = zt_str_put(&text, zt_trainer_id(trainer), 2 * sizeof *id);
    if (!status) put_hash(text.data, text.len, id);
    zt_str_fini(&text);
    return status;
}

static size_t file_size(zt_trainer *trainer)
{
    size_t all = sizeof(file_head) + HASH;
    for (int i = 0; i < zt_trainer_n_states(trainer); i++) {
        zt_type type = zt_trainer_state_type(trainer, i);
        all += zt_type_bytes(&type);
    }
    return all;
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* The file's content; free it with zt_free. */
static char *compose_file(zt_trainer *trainer, const zt_fit_state *state, const char *run, size_t size)
{
    file_head head = {.version = 1, .n_states = (uint32_t)zt_trainer_n_states(trainer), .bytes = size, .state = *state};
    zt_ctx *ctx = zt_trainer_ctx(trainer);
    char *file = zt_alloc(ctx, size), *cursor = file + sizeof head;
    uint64_t hash[2];
    if (!file) return NULL;
    memcpy(head.magic, MAGIC, sizeof head.magic);
    zt_status status = hash_run(trainer, run, head.run);
    memcpy(file, &head, sizeof head);
    for (int state_index = 0; state_index < zt_trainer_n_states(trainer) && !status; state_index++) {
        zt_type type = zt_trainer_state_type(trainer, state_index);
        status = zt_trainer_get(trainer, state_index, cursor);
        cursor += zt_type_bytes(&type);
    }
    put_hash(file, size - HASH, hash);
    memcpy(cursor, hash, HASH);
    if (!status) return file;
    zt_free(ctx, file);
    return NULL;
}

/* "PATH.before"; free it with zt_free. */
static char *name_before(zt_ctx *ctx, const char *path)
{
    zt_str text;
    zt_str_init(&text, ctx);
    if (!zt_str_printf(&text, "%s.before", path)) return text.data;
    zt_str_fini(&text);
    return NULL;
}

/* Keeps the file at path as PATH.before too: by a link, so that path always exists. */
static zt_status keep_before(zt_ctx *ctx, const char *path)
{
    char *before = name_before(ctx, path), *beside = before ? name_before(ctx, before) : NULL;
    zt_status status = beside ? ZT_OK : ZT_ENOMEM;
    if (!status && access(path, F_OK) == 0) {
        unlink(beside);
        if (link(path, beside) || rename(beside, before))
            status = zt_fail(ctx, ZT_ECREATE, "%s: cannot create the file: %m", before);
    }
    zt_free(ctx, before);
    zt_free(ctx, beside);
    return status;
}

zt_status zt_train_save(zt_trainer *trainer, const zt_fit_state *state, const char *run, const char *path)
{
    if (!trainer) return ZT_EUSAGE;
    ZT_REQUIRE(zt_trainer_ctx(trainer), state && run && path, ZT_EUSAGE);
    zt_ctx *ctx = zt_trainer_ctx(trainer);
    size_t size = file_size(trainer);
    char *file = compose_file(trainer, state, run, size);
    if (!file) return zt_ctx_status(ctx);
    zt_sink *sink = zt_sink_open(ctx, path, true);
    zt_status status = sink ? zt_sink_write(sink, file, size) : zt_ctx_status(ctx);
    if (!status) status = keep_before(ctx, path);
    if (!status) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_free(ctx, file);
    return status;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Checks that the file is intact and belongs to this trainer and run. ctx: a separate one, for messages. */
static zt_status check_file(zt_ctx *ctx, const char *path, const char *file, size_t size, zt_trainer *trainer,
                            const uint64_t run[2])
{
    file_head head;
    uint64_t hash[2];
    if (size < sizeof head + HASH || memcmp(file, MAGIC, sizeof head.magic))
        return zt_fail(ctx, ZT_EDATA, "%s: not a training checkpoint", path);
    memcpy(&head, file, sizeof head);
    put_hash(file, size - HASH, hash);
    if (memcmp(hash, file + size - HASH, HASH) || head.bytes != size)
        return zt_fail(ctx, ZT_EDATA, "%s: corrupt training checkpoint (%zu bytes): checksum mismatch", path, size);
    if (head.version != 1)
        return zt_fail(ctx, ZT_ENOTSUP, "%s: unsupported checkpoint version %" PRIu32 ": must be 1", path, head.version);
    if (memcmp(head.run, run, sizeof head.run) || size != file_size(trainer))
        return zt_fail(ctx, ZT_EUSAGE, "%s: checkpoint of another run: the model, data or options differ", path);
    return ZT_OK;
}

static zt_status restore_state(zt_trainer *trainer, const char *file, zt_fit_state *state)
{
    zt_status status = ZT_OK;
    const char *cursor = file + sizeof(file_head);
    for (int state_index = 0; state_index < zt_trainer_n_states(trainer) && !status; state_index++) {
        zt_type type = zt_trainer_state_type(trainer, state_index);
        status = zt_trainer_set(trainer, state_index, cursor);
        cursor += zt_type_bytes(&type);
    }
    if (status) return status;
    *state = ((const file_head *)(const void *)file)->state;
    zt_trainer_set_steps(trainer, state->steps);
    return ZT_OK;
}

/* Loads one of the two files. Errors of the file are in the context `own`, those of the trainer in the trainer's. */
static zt_status load_one(zt_trainer *trainer, zt_fit_state *state, const uint64_t run[2], const char *path, zt_ctx *own)
{
    size_t size;
    char *file = zt_read_all(own, path, &size);
    zt_status status = file ? check_file(own, path, file, size, trainer, run) : zt_ctx_status(own);
    if (!status) status = restore_state(trainer, file, state);
    zt_free(own, file);
    return status;
}

/* The error of the first file goes to *why if the second was loaded; else it is the result. */
static zt_status choose_result(zt_ctx *ctx, zt_status first, const char *said, zt_status second, const char *said_too, char **why)
{
    if (first == ZT_ENOENT && second == ZT_ENOENT) return ZT_ENOENT;
    if (first == ZT_ENOENT && second) return zt_fail(ctx, second, "%s", said_too);
    if (second) return zt_fail(ctx, first, "%s", said);
    *why = zt_strdup(ctx, said);
    return *why ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_train_load(zt_trainer *trainer, zt_fit_state *state, const char *run, const char *path, char **why)
{
    if (!trainer) return ZT_EUSAGE;
    ZT_REQUIRE(zt_trainer_ctx(trainer), state && run && path && why, ZT_EUSAGE);
    zt_ctx *ctx = zt_trainer_ctx(trainer), *own = zt_ctx_new(), *more = zt_ctx_new();
    char *before = name_before(ctx, path);
    uint64_t id[2];
    *why = NULL;
    zt_status status = own && more && before ? hash_run(trainer, run, id) : ZT_ENOMEM;
    if (!status) status = load_one(trainer, state, id, path, own);
    if ((status == ZT_EDATA || status == ZT_ENOENT) && !zt_ctx_status(ctx)) {
        zt_status second = load_one(trainer, state, id, before, more);
        status = choose_result(ctx, status, zt_ctx_error(own), second, zt_ctx_error(more), why);
    } else if (status && own) {
        status = zt_fail(ctx, status, "%s", zt_ctx_error(own));
    }
    zt_free(ctx, before);
    zt_ctx_free(own);
    zt_ctx_free(more);
    return status;
}
