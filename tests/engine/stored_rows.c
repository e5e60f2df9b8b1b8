/* stored_rows.c - large tables of which the cpu engine only gathers rows stay in their store: the rows are those of a table that
 * was loaded, bit for bit, and nothing else of it is read. */
#include "lib/tensor/quantize.h"
#include "tests/common/chain_program.h"

enum { COLUMNS = 256, PICKED = 7, KINDS = 40, BYTES = 17 << 20 };

typedef struct table {
    zt_dtype dtype;
    int64_t rows;
    size_t row, read; /* bytes; how many of all were read */
    uint8_t *kinds;   /* rows that take turns */
    bool broken;
} table;

static zt_status find_table(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const table *t = user;
    *handle = 0;
    *type = zt_type_make(t->dtype, 2, (int64_t[]){t->rows, COLUMNS});
    return strcmp(name, "w") == 0 ? ZT_OK : ZT_ENOENT;
}

static zt_status read_table(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    table *t = user;
    (void)handle;
    if (t->broken) return zt_fail(ctx, ZT_EIO, "the disk is gone");
    __atomic_fetch_add(&t->read, size, __ATOMIC_RELAXED);
    for (char *to = dst; size > 0;) {
        size_t within = offset % t->row, piece = t->row - within < size ? t->row - within : size;
        memcpy(to, t->kinds + offset / t->row % KINDS * t->row + within, piece);
        offset += piece;
        to += piece;
        size -= piece;
    }
    return ZT_OK;
}

static bool make_table(table *t, zt_dtype dtype)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    float values[KINDS * COLUMNS];
    *t = (table){.dtype = dtype, .row = (size_t)(COLUMNS / info->block * info->block_bytes)};
    t->rows = BYTES / (int64_t)t->row;
    t->kinds = calloc(KINDS, t->row);
    for (int i = 0; i < KINDS * COLUMNS; i++) values[i] = (float)zt_normal(3, dtype, (uint64_t)i);
    zt_quantizer quantizer = {.dtype = dtype, .columns = COLUMNS};
    if (t->kinds && info->encode)
        info->encode(values, t->kinds, KINDS * COLUMNS);
    else if (t->kinds)
        ok(zt_quantize_rows(ctx, &quantizer, values, KINDS, t->kinds) == ZT_OK, "%s: made", info->name);
    return t->kinds;
}

/* With `whole`, a product reads the table too. */
static zt_session *open_table(zt_engine *engine, const table *t, const zt_store *store, bool whole, zt_prog **program)
{
    char text[256];
    snprintf(text, sizeof text, "zt program 1\nin i: i32[n]\ndata w: %s[%lld,%d] \"w\"\ny = gather w i\n%sout y = y\n%s",
             zt_dtype_get(t->dtype)->name, (long long)t->rows, COLUMNS, whole ? "z = linear y w\n" : "",
             whole ? "out z = z\n" : "");
    *program = parse(text);
    return *program ? zt_session_open(engine, *program, store, NULL) : NULL;
}

static void test_type(zt_engine *engine, zt_dtype dtype)
{
    const char *name = zt_dtype_get(dtype)->name;
    table t;
    float y[2][PICKED * COLUMNS];
    if (!make_table(&t, dtype)) return;
    const int32_t at[PICKED] = {3, 39, 0, (int32_t)t.rows - 1, 3, 16, 15};
    zt_store store = {&t, find_table, read_table};
    float *z = calloc((size_t)(PICKED * t.rows), sizeof *z);
    for (int whole = 0; whole < 2; whole++) {
        zt_prog *program;
        zt_session *session = open_table(engine, &t, &store, whole, &program);
        t.read = 0;
        zt_status status =
            session ? zt_session_step(session, &(zt_binding){"n", PICKED}, 1, (const void *[]){at}, (void *[]){y[whole], z})
                    : zt_ctx_status(ctx);
        size_t want = whole ? (size_t)t.rows * t.row : PICKED * t.row;
        ok(status == ZT_OK && t.read == want, "%s: %zu bytes read, of %zu %s", name, t.read, want, zt_ctx_error(ctx));
        zt_session_close(session);
        zt_prog_free(program);
    }
    ok(memcmp(y[0], y[1], sizeof y[0]) == 0, "%s: the same bits", name);
    free(z);
    free(t.kinds);
}

static void test_faults(zt_engine *engine)
{
    table t;
    float y[COLUMNS];
    if (!make_table(&t, ZT_F16)) return;
    zt_store store = {&t, find_table, read_table};
    zt_prog *program;
    zt_session *session = open_table(engine, &t, &store, false, &program);
    zt_binding one = {"n", 1};
    int32_t at = (int32_t)t.rows;
    ok(zt_session_step(session, &one, 1, (const void *[]){&at}, (void *[]){y}) == ZT_EDATA, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    at = 1;
    t.broken = true;
    zt_status status = zt_session_step(session, &one, 1, (const void *[]){&at}, (void *[]){y});
    ok(status != ZT_OK && strstr(zt_ctx_error(ctx), "the disk is gone"), "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    t.broken = false;
    ok(zt_session_step(session, &one, 1, (const void *[]){&at}, (void *[]){y}) == ZT_OK, "and the next row is read");
    zt_session_close(session);
    zt_prog_free(program);
    free(t.kinds);
}

int main(void)
{
    static const zt_dtype dtypes[] = {ZT_F32, ZT_F16, ZT_BF16, ZT_Q8_0, ZT_Q4_0, ZT_Q4_K, ZT_Q6_K};
    ctx = zt_ctx_new();
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2});
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) test_type(engine, dtypes[i]);
    test_faults(engine);
    zt_engine_close(engine);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
