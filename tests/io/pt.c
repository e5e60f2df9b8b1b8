/* pt.c - checkpoints beyond the golden files: every way out of the pickle machine that we know of
 * is refused, views are read as they should be, and PyTorch, where there is one, reads what is
 * written and is read.
 *
 *   pt --evil DIR     writes the hostile files to a folder, for tests of tools
 */
#include "lib/zt/all.h"

#include <time.h>
#include <unistd.h>

#include "tests/io/arrays.h"
#include "tests/io/pt_writer.h"
#include "tests/common/python.h"

IO_KIND(pt)
ARRAYS_WRITER(pt)

/* The status that a file's bytes end with, in 64 MiB beyond their size and 2 s; ZT_EBUG if not. */
static zt_status open_bytes(const void *bytes, size_t n)
{
    bool sound = true;
    clock_t start = clock();
    zt_status st = io_try(&io_pt, bytes, n, n + (64 << 20), &sound);
    return sound && clock() - start < 2 * CLOCKS_PER_SEC ? st : ZT_EBUG;
}

static zt_status try_zip(const void *pickle, size_t n)
{
    size_t size;
    uint8_t *file = ptw_zip(pickle, n, &size);
    zt_status st = open_bytes(file, size);
    free(file);
    return st;
}

static zt_status try_older(const void *pickle, size_t n, int at)
{
    size_t size;
    uint8_t *file = ptw_older(pickle, n, at, &size);
    zt_status st = open_bytes(file, size);
    free(file);
    return st;
}

/* ---- harm ------------------------------------------------------------------------------------ */

static void test_evil(void)
{
    for (int i = 0; i < PTW_EVIL; i++) {
        const piece *e = &ptw_evil[i];
        bool refused = try_zip(e->bytes, e->n) == ZT_EDATA;
        for (int at = 0; at < 5; at++) refused = try_older(e->bytes, e->n, at) == ZT_EDATA && refused;
        ok(refused, "%s: refused, in a zip and in each pickle of the older format", e->name);
    }
}

/* Names that are known are values, also those that make no tensor. */
static void test_known(void)
{
    static const char sparse[] = "\x80\x02"
                                 "ctorch._utils\n_rebuild_sparse_tensor\n.",
                      wrapper[] = "\x80\x02"
                                  "ctorch._utils\n_rebuild_wrapper_subclass\n.",
                      from_type[] = "\x80\x02"
                                    "ctorch._tensor\n_rebuild_from_type_v2\n.",
                      bytes[] = "\x80\x02"
                                "c_codecs\nencode\n(X\x03\x00\x00\x00x\xc3\xbfU\x06latin1tR.",
                      zip[] = "\x80\x02"
                              "c_codecs\nencode\n(U\x01xU\x03ziptR.",
                      wide[] = "\x80\x02"
                               "c_codecs\nencode\n(X\x02\x00\x00\x00\xc4\x80U\x06latin1tR.",
                      newobj[] = "\x80\x02"
                                 "ccollections\nOrderedDict\n)\x81.";
    ok(try_zip(sparse, sizeof sparse - 1) == ZT_OK && try_zip(wrapper, sizeof wrapper - 1) == ZT_OK &&
           try_zip(from_type, sizeof from_type - 1) == ZT_OK,
       "functions that are known may be named");
    ok(try_zip(bytes, sizeof bytes - 1) == ZT_OK && try_zip(newobj, sizeof newobj - 1) == ZT_OK,
       "bytes as a text in latin1, an OrderedDict without __init__");
    ok(try_zip(zip, sizeof zip - 1) == ZT_EDATA && try_zip(wide, sizeof wide - 1) == ZT_EDATA,
       "no other encoding, and no character above 255");
}

/* A beginning, total times a piece, an end. */
static zt_status try_long(zt_ctx *ctx, const zt_str *begin, const char *piece_of, int total, const char *end)
{
    zt_str text;
    zt_str_init(&text, ctx);
    zt_str_put(&text, begin->data, begin->len);
    for (int i = 0; i < total; i++) zt_str_puts(&text, piece_of);
    zt_str_puts(&text, end);
    zt_status st = try_zip(text.data, text.len);
    zt_str_fini(&text);
    return st;
}

static zt_status try_many(zt_ctx *ctx, const char *begin, const char *piece_of, int total, const char *end)
{
    zt_str text;
    zt_str_init(&text, ctx);
    zt_str_puts(&text, begin);
    zt_status st = try_long(ctx, &text, piece_of, total, end);
    zt_str_fini(&text);
    return st;
}

static void test_bombs(zt_ctx *ctx)
{
    ok(try_many(ctx, "", "]", 1000000, ".") == ZT_EDATA, "a million lists on the stack");
    ok(try_many(ctx, "]", "(]", 1000000, "ee.") == ZT_EDATA, "and with marks between them");
    ok(try_many(ctx, "]", "]", 200000, "a.") == ZT_EDATA, "lists on the stack at the end");
    ok(try_many(ctx, "N", "2\x86", 100, ".") == ZT_EDATA, "2^100 values by tuples of two");
    ok(try_many(ctx, "](", "}", 3000000, "e.") == ZT_EDATA, "3 million dictionaries: 40 MiB and more");
    zt_str key; /* a key of 60000 bytes, above one tensor thousands of times */
    zt_str_init(&key, ctx);
    zt_str_puts(&key, "}X\x60\xea");
    zt_str_put(&key, "\0\0", 2);
    for (int i = 0; i < 60000; i++) zt_str_putc(&key, 'x');
    zt_str_puts(&key, "](" V2 "(" STORAGE("I6\n") "I0\n))I00\n" ODICT "tRp1\n");
    ok(try_long(ctx, &key, "g1\n", 5000, "es.") == ZT_EDATA, "5000 names of 60000 bytes");
    zt_str_fini(&key);
    ok(try_many(ctx, "](", "K\x01", 1000000, "e.") == ZT_OK, "a million numbers are plain values");
}

/* Every cut, and every byte changed to some others, of a sound file. */
static void test_changed(void)
{
    static const char good[] = "\x80\x02}(U\x01x" PLAIN "U\x01y](K\x01" PLAIN "eu.";
    static const uint8_t to[] = {0, 1, 0xff, '.', '(', 'R', 'c', 0x93};
    size_t total;
    uint8_t *file = ptw_older(good, sizeof good - 1, 3, &total);
    bool fine = open_bytes(file, total) == ZT_OK;
    for (size_t i = 0; i < total && fine; i++) {
        uint8_t *cut = malloc(i ? i : 1), was = file[i];
        memcpy(cut, file, i);
        fine = open_bytes(cut, i) == ZT_EDATA;
        free(cut);
        for (size_t k = 0; k < sizeof to && fine; k++) {
            file[i] = to[k];
            zt_status st = open_bytes(file, total);
            fine = st == ZT_OK || st == ZT_EDATA;
        }
        file[i] = was;
    }
    ok(fine, "cut anywhere it is refused; with any byte changed it is read or refused");
    free(file);
    ok(try_zip(good, sizeof good - 1) == ZT_OK, "and it is sound in a zip");
}

/* ---- views ----------------------------------------------------------------------------------- */

static void test_view(zt_ctx *ctx, const char *what, const void *pickle, size_t total, int count, const char *want)
{
    float x[24];
    size_t size;
    uint8_t *file = ptw_zip(pickle, total, &size);
    zt_source *in = zt_source_memory(ctx, "view", file, size);
    zt_pt *t = zt_pt_from(ctx, in);
    bool same = t && zt_pt_count(t) == 1 && zt_pt_get(t, 0)->bytes == 4 * (size_t)count &&
                zt_pt_read(t, 0, 0, x, 4 * (size_t)count) == ZT_OK;
    for (int i = 0; same && i < count; i++) same = x[i] == (float)(want[i] - '0');
    ok(same, "%s%s", what, zt_ctx_error(ctx));
    zt_pt_close(t);
    zt_source_close(in);
    free(file);
    zt_ctx_clear(ctx);
}

#define VIEW(what, pickle, count, want) test_view(ctx, what, pickle, sizeof(pickle) - 1, count, want)

static void test_views(zt_ctx *ctx)
{
    VIEW("as it lies", "\x80\x02" PLAIN ".", 6, "012345");
    VIEW("transposed", "\x80\x02" TENSOR("K\x06", "K\x00(K\x03K\x02t(K\x01K\x03t") ".", 6, "031425");
    VIEW("a column", "\x80\x02" TENSOR("K\x06", "K\x01(K\x02K\x01t(K\x03K\x01t") ".", 2, "14");
    VIEW("each row four times", "\x80\x02" TENSOR("K\x06", "K\x00(K\x02K\x04K\x03t(K\x03K\x00K\x01t") ".", 24,
         "012012012012345345345345");
    VIEW("windows that overlap", "\x80\x02" TENSOR("K\x06", "K\x01(K\x03K\x03t(K\x01K\x01t") ".", 9, "123234345");
    VIEW("a scalar", "\x80\x02" TENSOR("K\x06", "K\x04))") ".", 1, "4");
    VIEW("empty, from past the end", "\x80\x02" TENSOR("K\x06", "K\x09(K\x00K\x02t(K\x02K\x01t") ".", 0, "");
    VIEW("a parameter",
         "\x80\x02"
         "ctorch._utils\n_rebuild_parameter\n(" PLAIN "\x88" ODICT "tR.",
         6, "012345");
    VIEW("without gradient",
         "\x80\x02"
         "ctorch._utils\n_rebuild_tensor\n(" STORAGE("K\x06") "K\x02(K\x02t(K\x02ttR.",
         2, "24");
    VIEW("a part of a storage, of before 0.4",
         "\x80\x02" V2 "((" U("\x07", "storage") "ctorch\nFloatStorage\n" U("\x01", "0")
             U("\x03", "cpu") "K\x06(" U("\x01", "1") "K\x02K\x03ttQK\x01(K\x02t(K\x01t\x89" ODICT "tR.",
         2, "34");
    VIEW("a class of tensors and its state, of before 0.2",
         "\x80\x02"
         "ctorch\nFloatTensor\n)\x81(" STORAGE("K\x06") "K\x02(K\x02t(K\x02ttb.",
         2, "24");
    VIEW("torch.nn.Parameter without __init__",
         "\x80\x02"
         "ctorch.nn.parameter\nParameter\n(" PLAIN "\x88t\x81.",
         6, "012345");
    VIEW("a torch.Size, protocol 0",
         "(dp0\nVw\np1\n" V2 "(" STORAGE("I6\n") "I0\nctorch\nSize\n((I2\nI3\nttR"
                                                 "(I3\nL1L\ntI00\n" ODICT "tRs.",
         6, "012345");
    VIEW("an OrderedDict of pairs",
         "\x80\x02"
         "ccollections\nOrderedDict\n(](](U\x01w" PLAIN "eetR.",
         6, "012345");
}

/* ---- writing, and PyTorch -------------------------------------------------------------------- */

static const made_array row[] = {
    {"fc.weight", ZT_F32, 2, {3, 5}},
    {"scalar", ZT_F64, 0, {0}},
    {"empty", ZT_I32, 3, {2, 0, 7}},
    {"имя", ZT_F16, 1, {9}},
    {"", ZT_BOOL, 1, {300}},
    {"b", ZT_BF16, 4, {1, 2, 3, 2}},
    {"i64", ZT_I64, 1, {3}},
    {"i16", ZT_I16, 1, {70000}},
    {"i8", ZT_I8, 1, {3}},
    {"u8", ZT_U8, 1, {3}},
    {"u16", ZT_U16, 2, {3, 4}},
    {"u32", ZT_U32, 1, {3}},
    {"u64", ZT_U64, 1, {3}},
    {"e4m3", ZT_F8_E4M3, 1, {7}},
    {"e5m2", ZT_F8_E5M2, 1, {7}},
    {"e4", ZT_F8_E4M3FNUZ, 1, {7}},
    {"e5", ZT_F8_E5M2FNUZ, 1, {7}},
    {"e8m0", ZT_F8_E8M0, 1, {7}},
};
enum { ROWS = sizeof row / sizeof *row };

static void test_writing(zt_ctx *ctx)
{
    bool can = true;
    for (int i = 0; i < ROWS; i++) {
        zt_type type = zt_type_make(row[i].dtype, row[i].rank, row[i].dim);
        can = can && zt_pt_can(&type);
    }
    ok(can, "PyTorch has all of these types");
    test_written(ctx, &io_pt, &arrays_pt, "a.pt", row, ROWS);
    zt_source *in = zt_source_open(ctx, under("a.pt"));
    ok(zt_pt_is_zip(in), "this zip is a checkpoint");
    zt_source_close(in);
    in = zt_source_open(ctx, "tests/fuzz/seeds/npz/libzip.npz");
    ok(in && !zt_pt_is_zip(in), "an npz is none");
    zt_source_close(in);
}

static void test_writer_faults(zt_ctx *ctx)
{
    zt_type f = zt_type_make(ZT_F32, 1, (int64_t[]){32}), q = zt_type_make(ZT_Q8_0, 1, f.dim);
    float x[32] = {0};
    zt_sink *out = zt_sink_open(ctx, under("c.pt"), true);
    zt_pt_writer *w = zt_pt_writer_new(ctx, out);
    ok(!zt_pt_can(&q), "PyTorch has no q8_0");
    status_is(ctx, zt_pt_begin(w, "q", &q), ZT_ENOTSUP);
    status_is(ctx, zt_pt_begin(w, "\xe9", &f), ZT_ENOTSUP);
    ok(zt_pt_begin(w, "x", &f) == ZT_OK && zt_pt_write(w, x, sizeof x) == ZT_OK, "a tensor");
    status_is(ctx, zt_pt_begin(w, "x", &f), ZT_EUSAGE);
    status_is(ctx, zt_pt_write(w, x, 1), ZT_EUSAGE);
    zt_pt_writer_free(w);
    zt_sink_close(out);
}

/* PyTorch reads ours; ours reads what PyTorch writes in every protocol and both formats. */
static void test_torch(zt_ctx *ctx)
{
    static const char script[] = "import torch, sys, os\n"
                                 "os.chdir(sys.argv[1])\n"
                                 "z = torch.load('a.pt', weights_only=True)\n"
                                 "assert list(z)[:2] == ['fc.weight', 'scalar'] and len(z) == int(sys.argv[2]), list(z)\n"
                                 "for k, a in z.items():\n"
                                 "    n = a.numel() * a.element_size()\n"
                                 "    b = bytes(a.contiguous().view(-1).view(torch.uint8).tolist()) if n else b''\n"
                                 "    want = [i % 2 if a.dtype == torch.bool else (i * 37 + 11) % 256 for i in range(n)]\n"
                                 "    assert list(b) == want, k\n"
                                 "w = torch.arange(6, dtype=torch.float32).view(2, 3)\n"
                                 "for zip in 0, 1:\n"
                                 "    for p in range(1, 6):\n"
                                 "        torch.save({'m': [w, (w.t(), 3)], 'n': torch.nn.Parameter(w[:, 1:]), 's': {1, "
                                 "2},\n"
                                 "            5: w.half(), 'o': torch.Size([3]), 'd': torch.device('cpu'), 't': "
                                 "torch.int8},\n"
                                 "            'p%d%d.pt' % (zip, p), pickle_protocol=p, _use_new_zipfile_serialization=zip "
                                 "> 0)\n";
    const char *python = python_with("torch");
    char line[4000];
    if (!python) return;
    snprintf(line, sizeof line, "%s -c \"%s\" '%s' %d", python, script, folder, ROWS);
    ok(system(line) == 0, "PyTorch reads what is written, weights_only=True");
    for (int i = 2; i < 12; i++) {
        char file[20];
        int zip = i % 2, protocol = i / 2;
        float x[6] = {0};
        snprintf(file, sizeof file, "p%d%d.pt", zip, protocol);
        uint8_t head[32] = {0};
        zt_source *in = zt_source_open(ctx, under(file));
        bool seen =
            in && zt_source_read(in, 0, head, sizeof head) == ZT_OK && (zip ? zt_pt_is_zip(in) : zt_pt_sniff(head, sizeof head));
        zt_pt *t = zt_pt_take(ctx, in);
        bool same = t && seen && zt_pt_count(t) == 4 && zt_pt_find(t, "m.0") == 0 && zt_pt_find(t, "n") == 2 &&
                    zt_pt_find(t, "5") == 3 && zt_pt_read(t, zt_pt_find(t, "m.1.0"), 0, x, sizeof x) == ZT_OK;
        ok(same && x[1] == 3 && x[5] == 5, "PyTorch's %s, protocol %d, is read%s", zip ? "zip" : "older format", protocol,
           zt_ctx_error(ctx));
        zt_pt_close(t);
        zt_ctx_clear(ctx);
        unlink(under(file));
    }
}

static int write_evil(const char *to)
{
    bool done = true;
    for (int i = 0; done && i < PTW_EVIL; i++) {
        char path[4096];
        size_t total;
        uint8_t *file = ptw_zip(ptw_evil[i].bytes, ptw_evil[i].n, &total);
        snprintf(path, sizeof path, "%s/%s.pt", to, ptw_evil[i].name);
        FILE *stream = fopen(path, "wb");
        done = stream && fwrite(file, 1, total, stream) == total;
        done = stream && fclose(stream) == 0 && done;
        free(file);
    }
    return !done;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--evil") == 0) return write_evil(argv[2]);
    zt_ctx *ctx = zt_ctx_new();
    if (!folder_make("pt")) return 1;
    test_evil();
    test_known();
    test_bombs(ctx);
    test_changed();
    test_views(ctx);
    test_writing(ctx);
    test_writer_faults(ctx);
    test_torch(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    unlink(under("a.pt"));
    ok(rmdir(folder) == 0, "tidy");
    return tap_done();
}
