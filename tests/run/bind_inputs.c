/* bind_inputs.c - lib/run/bind_inputs.h: what a program is given by name, what shapes tell, what is drawn. */
#include "lib/run/bind_inputs.h"
#include "lib/zt/all.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static zt_ctx *ctx;

static const char *const text = "zt program 1\n"
                                "in    ids: i32[n]\n"
                                "in    pos: i32[n]\n"
                                "in    seq: i32[n]\n"
                                "in    table: i32[2,ctx/16]\n"
                                "in    rows: i64[m]\n"
                                "in    target: i32[m]\n"
                                "in    free: u8[m,m]\n"
                                "in    flag: bool[200]\n"
                                "data  emb: q8_0[50,32] \"emb\"\n"
                                "state kc: f16[ctx,32]\n"
                                "x = gather emb ids\n"
                                "kc1 = kv_put kc x pos seq table\n"
                                "a = attention x kc1 kc1 pos seq table head=32\n"
                                "r = reshape rows shape=[m]\n"
                                "r32 = cast r to=i32\n"
                                "y = gather a r32\n"
                                "l, lse = cross_entropy y target\n"
                                "keep  kc = kc1\n"
                                "out   l = l\n";

static void said(zt_status status, const char *part)
{
    ok(zt_ctx_status(ctx) == status && strstr(zt_ctx_error(ctx), part), "says '%s' (%s: %s)", part,
       zt_status_name(zt_ctx_status(ctx)), zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

/* An npz of arrays f32 or i32 that hold 1, 2, 3, ... */
static char path[] = "/tmp/zt-feed-XXXXXX";
static zt_checkpoint *archive(const char *const *name, const zt_type *type, int count)
{
    zt_sink *sink = zt_sink_open(ctx, path, true);
    zt_npz_writer *w = zt_npz_writer_new(ctx, sink);
    for (int i = 0; i < count; i++) {
        zt_npz_begin(w, name[i], &type[i]);
        for (int k = 0; k < zt_type_count(&type[i]); k++) {
            float f = (float)(k + 1);
            uint16_t h = zt_f32_to_f16(f);
            int32_t j = k + 1;
            const void *from = type[i].dtype == ZT_F16 ? (void *)&h : type[i].dtype == ZT_F32 ? (void *)&f : (void *)&j;
            zt_npz_write(w, from, (size_t)zt_dtype_get(type[i].dtype)->block_bytes);
        }
    }
    zt_npz_finish(w);
    zt_sink_commit(sink);
    zt_npz_writer_free(w);
    zt_sink_close(sink);
    return zt_checkpoint_open(ctx, path, 0);
}

static int32_t *input(const zt_bound_inputs *f, const char *name)
{
    return f->in[zt_prog_value(f->prog, zt_prog_find(f->prog, name))->index];
}

static bool rises(const int32_t *x, int n)
{
    for (int i = 0; i < n; i++)
        if (x[i] != i) return false;
    return true;
}

static bool below(const void *x, size_t size, int count, int64_t limit)
{
    int64_t most = 0;
    for (int i = 0; i < count; i++) {
        int64_t v = 0;
        memcpy(&v, (const char *)x + (size_t)i * size, size);
        if (v < 0 || v >= limit) return false;
        if (v > most) most = v;
    }
    return most > 0;
}

static void test_drawn(const zt_prog *program)
{
    zt_binding binding[] = {{"n", 40}, {"m", 30}, {"ctx", 64}};
    zt_bound_inputs_opts o = {.bind = binding, .n_bind = 3, .draw = true, .draw_data = true, .seed = 7};
    zt_bound_inputs *f = zt_bound_inputs_new(ctx, program, &o), *g = zt_bound_inputs_new(ctx, program, &o);
    o.seed = 8;
    zt_bound_inputs *h = zt_bound_inputs_new(ctx, program, &o);
    ok(f && g && h, "a program is fed (%s)", zt_ctx_error(ctx));
    int32_t *table = input(f, "table");
    ok(below(input(f, "ids"), 4, 40, 50), "ids are below the vocabulary");
    ok(rises(input(f, "pos"), 40), "positions rise from 0");
    bool zero = true, own = true;
    for (int i = 0; i < 40; i++) zero &= input(f, "seq")[i] == 0;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) own &= table[i] != table[4 + k];
    ok(zero, "sequences are 0");
    ok(own && below(table, 4, 8, 4), "a table gives each sequence blocks of its own");
    ok(below(input(f, "rows"), 8, 30, 40), "rows are below n, through reshape and cast");
    ok(below(input(f, "target"), 4, 30, 32), "targets are below the number of classes");
    ok(below(input(f, "free"), 1, 900, 2), "what nobody reads is below every dimension");
    ok(below(input(f, "flag"), 1, 200, 2), "bools are 0 or 1");
    ok(!memcmp(input(f, "ids"), input(g, "ids"), 160) && memcmp(input(f, "ids"), input(h, "ids"), 160),
       "the same seed draws the same, another another");
    ok(memcmp(f->data[0], h->data[0], 50 * 34) != 0, "data is drawn from the seed too");
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1, .isa = zt_isa_best()});
    zt_session_opts so = {.fixed = binding, .n_fixed = 3};
    zt_session *session = zt_session_open(engine, program, &f->store, &so);
    ok(session && !zt_bound_inputs_states(f, session) &&
           !zt_session_step(session, binding, 3, (const void *const *)f->in, f->out) && *(float *)f->out[0] > 0,
       "and it runs (%s)", zt_ctx_error(ctx));
    zt_session_close(session);
    zt_engine_close(engine);
    zt_bound_inputs_free(f);
    zt_bound_inputs_free(g);
    zt_bound_inputs_free(h);
}

/* A program with one of another's inputs, and others of other names, numbers and uses. */
static void test_by_name(const zt_prog *program)
{
    static const char *const other = "zt program 1\n"
                                     "in    more: f32[3]\n"
                                     "data  table: f32[50,2] \"table\"\n"
                                     "in    ids: i32[40]\n"
                                     "y = gather table ids\n"
                                     "out   y = y\n";
    zt_prog *other_program = zt_prog_parse(ctx, "q", other, strlen(other));
    zt_binding binding[] = {{"n", 40}, {"m", 1}, {"ctx", 32}};
    zt_bound_inputs_opts o = {.bind = binding, .n_bind = 3, .draw = true};
    zt_bound_inputs *f = zt_bound_inputs_new(ctx, program, &o), *g = zt_bound_inputs_new(ctx, other_program, &o);
    ok(f && g && !memcmp(input(f, "ids"), input(g, "ids"), 160),
       "an input of the same name and use is drawn alike in another program");
    zt_bound_inputs_free(f);
    zt_bound_inputs_free(g);
    zt_prog_free(other_program);
}

static void test_given(const zt_prog *program)
{
    const char *name[] = {"ids", "target", "kc"};
    zt_type type[] = {zt_type_make(ZT_I32, 1, (int64_t[]){5}), zt_type_make(ZT_I32, 1, (int64_t[]){2}),
                      zt_type_make(ZT_F16, 2, (int64_t[]){32, 32})};
    zt_checkpoint *checkpoint = archive(name, type, 3);
    zt_binding binding[ZT_MAX_SYMBOLS] = {{"m", 9}};
    int count = 1;
    zt_bound_inputs_symbols(ctx, program, checkpoint, binding, &count);
    ok(count == 3 && !strcmp(binding[1].symbol, "n") && binding[1].value == 5 && !strcmp(binding[2].symbol, "ctx") &&
           binding[2].value == 32 && binding[0].value == 9,
       "shapes of inputs and states tell symbols that have no number");
    zt_bound_inputs_opts o = {.bind = binding, .n_bind = count, .from = checkpoint, .draw = true};
    ok(!zt_bound_inputs_new(ctx, program, &o), "an input of another shape is refused");
    said(ZT_EDATA, "input 'target' has type i32[2], but the program expects i32[9]");
    binding[0].value = 2;
    zt_bound_inputs *f = zt_bound_inputs_new(ctx, program, &o);
    uint16_t one = zt_f32_to_f16(1);
    ok(f && input(f, "ids")[4] == 5 && f->state[0] && !memcmp(f->state[0], &one, 2),
       "inputs and states come from the archive (%s)", zt_ctx_error(ctx));
    ok(f && rises(input(f, "pos"), 5), "and the rest is drawn");
    zt_bound_inputs_free(f);
    o.draw = false;
    ok(!zt_bound_inputs_new(ctx, program, &o), "or is missed");
    said(ZT_EDATA, "missing input 'pos'");
    o.n_bind = 1;
    ok(!zt_bound_inputs_new(ctx, program, &o), "a symbol without a number is misuse");
    said(ZT_EUSAGE, "symbol 'n'");
    zt_checkpoint_close(checkpoint);
}

int main(void)
{
    ctx = zt_ctx_new();
    close(mkstemp(path));
    zt_prog *program = zt_prog_parse(ctx, "p", text, strlen(text));
    ok(program != NULL, "a program (%s)", zt_ctx_error(ctx));
    test_drawn(program);
    test_by_name(program);
    test_given(program);
    zt_prog_free(program);
    unlink(path);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is leaked");
    zt_ctx_free(ctx);
    return tap_done();
}
