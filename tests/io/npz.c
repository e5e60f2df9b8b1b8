/* npz.c - .npy and .npz beyond the golden files: what is written is read back, by us and by NumPy;
 * Fortran order and byte orders of any shape; zips that contradict themselves. */
#include "lib/zt/all.h"

#include <unistd.h>
#include <zlib.h>

#include "tests/io/arrays.h"
#include "tests/common/python.h"

IO_KIND(npy)
IO_KIND(npz)
ARRAYS_WRITER(npz)

/* ---- writing --------------------------------------------------------------------------------- */

static const made_array row[] = {
    {"layer/0/w", ZT_F32, 2, {3, 5}}, {"scalar", ZT_F64, 0, {0}}, {"empty", ZT_I32, 3, {2, 0, 7}},
    {"имя", ZT_F16, 1, {9}},          {"", ZT_BOOL, 1, {3}},      {"sp ace", ZT_U64, 4, {1, 2, 3, 2}},
    {"long", ZT_I8, 1, {200000}},
};
enum { ROWS = sizeof row / sizeof *row };

static void test_writer_faults(zt_ctx *ctx)
{
    zt_type f = zt_type_make(ZT_F32, 1, (int64_t[]){4}), q = zt_type_make(ZT_BF16, 1, f.dim);
    float x[5] = {0};
    zt_sink *out = zt_sink_open(ctx, under("c.npz"), true);
    zt_npz_writer *w = zt_npz_writer_new(ctx, out);
    status_is(ctx, zt_npz_begin(w, "q", &q), ZT_ENOTSUP);
    status_is(ctx, zt_npz_begin(w, "\xe9", &f), ZT_ENOTSUP);
    ok(zt_npz_begin(w, "x", &f) == ZT_OK, "an array begins");
    status_is(ctx, zt_npz_write(w, x, 20), ZT_EUSAGE);
    status_is(ctx, zt_npz_begin(w, "y", &f), ZT_EUSAGE);
    ok(zt_npz_write(w, x, 16) == ZT_OK, "and ends");
    status_is(ctx, zt_npz_begin(w, "x", &f), ZT_EUSAGE);
    zt_npz_writer_free(w);
    zt_sink_close(out);
    ok(access(under("c.npz"), F_OK) != 0, "nothing is left of it");
}

/* NumPy, where there is one, reads the same. */
static void test_numpy(void)
{
    const char *python = python_with("numpy");
    char line[1000];
    if (!python) return;
    snprintf(line, sizeof line,
             "%s -c '\n"
             "import numpy, sys\n"
             "z = numpy.load(sys.argv[1], allow_pickle=False)\n"
             "n = 0\n"
             "for k in z.files:\n"
             "    a = z[k]\n"
             "    i = numpy.arange(a.nbytes)\n"
             "    want = (i %% 2 if a.dtype == bool else i * 37 + 11).astype(\"u1\").tobytes()\n"
             "    assert a.tobytes() == want, k\n"
             "    n += 1\n"
             "assert n == %d, n\n"
             "assert z[\"layer/0/w\"].dtype == numpy.float32 and z[\"empty\"].shape == (2, 0, 7)\n"
             "' '%s'",
             python, ROWS, under("a.npz"));
    ok(system(line) == 0, "NumPy reads what is written");
}

/* ---- what other zips say --------------------------------------------------------------------- */

/* Python's zipfile writes to a file or to a stream (data descriptors), with zip64 or without. */
static void test_zipfile(zt_ctx *ctx)
{
    static const char *const how[] = {"stored", "deflated", "streamed", "zip64"};
    char line[1400];
    if (system("python3 -c 'import zipfile' 2>/dev/null") != 0) {
        skip("no python3 here");
        return;
    }
    snprintf(line, sizeof line,
             "cd %s && python3 -c '\n"
             "import zipfile, sys\n"
             "class Pipe:\n"
             "    def __init__(self, f): self.f = f\n"
             "    def write(self, b): return self.f.write(b)\n"
             "    def flush(self): pass\n"
             "z = zipfile.ZipFile(\"a.npz\")\n"
             "assert z.testzip() is None and z.infolist()[0].date_time[0] == 1980\n"
             "for how in \"stored\", \"deflated\", \"streamed\", \"zip64\":\n"
             "    with open(how + \".npz\", \"wb\") as f:\n"
             "        deflate = how != \"stored\"\n"
             "        o = zipfile.ZipFile(Pipe(f) if how == \"streamed\" else f, \"w\", 8 * deflate)\n"
             "        for i in z.infolist():\n"
             "            with o.open(i.filename, \"w\", force_zip64=how == \"zip64\") as m:\n"
             "                m.write(z.read(i))\n"
             "        o.close()\n"
             "'",
             folder);
    ok(system(line) == 0, "zipfile reads what is written");
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        char file[40];
        snprintf(file, sizeof file, "%s.npz", how[i]);
        zt_npz *archive = zt_npz_open(ctx, under(file));
        bool same = archive && zt_npz_count(archive) == ROWS;
        for (int k = 0; same && k < ROWS; k++) same = made_is(&io_npz, archive, k, &row[k]);
        ok(same, "zipfile's, %s, is read%s", how[i], zt_ctx_error(ctx));
        zt_npz_close(archive);
        unlink(under(file));
    }
}

/* tests/fuzz/seeds/npz/libzip.npz is by libzip 1.7.3: 'stored' counts down from 1000, 'deflated' up. */
static void test_libzip(zt_ctx *ctx)
{
    int32_t x[40];
    zt_npz *archive = zt_npz_open(ctx, "tests/fuzz/seeds/npz/libzip.npz");
    bool same = archive && zt_npz_count(archive) == 2;
    for (int k = 0; same && k < 2; k++) {
        same = zt_npz_read(archive, zt_npz_find(archive, k ? "deflated" : "stored"), 0, x, sizeof x) == ZT_OK;
        for (int i = 0; same && i < 40; i++) same = x[i] == (k ? i : 1000 - i);
    }
    ok(same, "libzip's is read%s", zt_ctx_error(ctx));
    zt_npz_close(archive);
}

/* More members than a zip's first form can count: zip64. */
static void test_many(zt_ctx *ctx)
{
    enum { MANY = 70000 };
    zt_type type = zt_type_make(ZT_U8, 0, (int64_t[]){0});
    char name[32], line[600];
    zt_sink *out = zt_sink_open(ctx, under("many.npz"), true);
    zt_npz_writer *w = zt_npz_writer_new(ctx, out);
    bool done = w != NULL;
    for (int i = 0; done && i < MANY; i++) {
        uint8_t x = (uint8_t)(i % 251);
        snprintf(name, sizeof name, "w%d", i);
        done = zt_npz_begin(w, name, &type) == ZT_OK && zt_npz_write(w, &x, 1) == ZT_OK;
    }
    done = done && zt_npz_finish(w) == ZT_OK && zt_sink_commit(out) == ZT_OK;
    zt_npz_writer_free(w);
    zt_sink_close(out);
    zt_npz *archive = done ? zt_npz_open(ctx, under("many.npz")) : NULL;
    done = archive && zt_npz_count(archive) == MANY;
    for (int i = 0; done && i < MANY; i += 997) {
        uint8_t x = 0;
        snprintf(name, sizeof name, "w%d", i);
        done = zt_npz_read(archive, zt_npz_find(archive, name), 0, &x, 1) == ZT_OK && x == i % 251;
    }
    ok(done, "%d arrays%s", MANY, zt_ctx_error(ctx));
    zt_npz_close(archive);
    snprintf(line, sizeof line,
             "python3 -c 'import zipfile, sys\n"
             "assert len(zipfile.ZipFile(sys.argv[1]).infolist()) == %d' '%s' 2>/dev/null",
             MANY, under("many.npz"));
    if (system("python3 -c 'import zipfile' 2>/dev/null") == 0) ok(system(line) == 0, "zipfile counts them too");
    unlink(under("many.npz"));
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* An .npy of u2 3x4x5 in Fortran order, big endian: element (i, j, k) is 20 i + 5 j + k. */
static size_t make_fortran(uint8_t *out)
{
    static const char head[] = "{'descr': '>u2', 'fortran_order': True, 'shape': (3, 4, 5), }\n";
    size_t length = sizeof head - 1;
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (uint8_t)length;
    out[9] = 0;
    memcpy(out + 10, head, length);
    uint8_t *p = out + 10 + length;
    for (int k = 0; k < 5; k++)
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < 3; i++) {
                *p++ = 0;
                *p++ = (uint8_t)(20 * i + 5 * j + k);
            }
    return (size_t)(p - out);
}

static void test_fortran(zt_ctx *ctx)
{
    uint8_t file[400];
    uint16_t got[60];
    bool same = true, sound = true;
    size_t count = make_fortran(file);
    zt_source *in = zt_source_memory(ctx, "fortran", file, count);
    zt_npy *a = zt_npy_from(ctx, in);
    same = a && zt_npy_read(a, 0, 0, got, sizeof got) == ZT_OK;
    for (int i = 0; i < 60; i++) same = same && got[i] == i;
    ok(same, "Fortran order and big endian become what C on this machine reads");
    status_is(ctx, a ? zt_npy_read(a, 0, 119, got, 2) : ZT_OK, ZT_EUSAGE);
    zt_npy_close(a);
    zt_source_close(in);
    ok(io_try(&io_npy, file, count, 1 << 20, &sound) == ZT_OK && sound, "and any part of it");
}

/* ---- deflated -------------------------------------------------------------------------------- */

static uint8_t *put_number(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) *p++ = (uint8_t)(v >> 8 * i);
    return p;
}

/* A zip of one deflated member; malloc'ed. `size` and `crc` are what its directory says. */
static uint8_t *deflated(const uint8_t *data, size_t count, uint32_t size, uint32_t crc, size_t *zip_n)
{
    z_stream z = {0};
    uint8_t *zip = malloc(count + 1000), *p;
    deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)count;
    z.next_out = zip + 35;
    z.avail_out = (uInt)count + 500;
    deflate(&z, Z_FINISH);
    uint32_t packed = (uint32_t)z.total_out;
    deflateEnd(&z);
    p = put_number(zip, 0x04034b50, 4), p = put_number(p, 20, 2), p = put_number(p, 0, 2), p = put_number(p, 8, 2);
    p = put_number(p, 0x210000, 4), p = put_number(p, crc, 4), p = put_number(p, packed, 4), p = put_number(p, size, 4);
    p = put_number(p, 5, 2), p = put_number(p, 0, 2);
    memcpy(p, "a.npy", 5);
    p = zip + 35 + packed;
    uint32_t begin = (uint32_t)(p - zip);
    p = put_number(p, 0x02014b50, 4), p = put_number(p, 20, 2), p = put_number(p, 20, 2), p = put_number(p, 0, 2);
    p = put_number(p, 8, 2), p = put_number(p, 0x210000, 4), p = put_number(p, crc, 4), p = put_number(p, packed, 4);
    p = put_number(p, size, 4), p = put_number(p, 5, 2), p = put_number(p, 0, 8), p = put_number(p, 0, 8);
    memcpy(p - 4 + 0, "\0\0\0\0", 4);
    memcpy(p, "a.npy", 5);
    p += 5;
    uint32_t bytes = (uint32_t)(p - zip) - begin;
    p = put_number(p, 0x06054b50, 4), p = put_number(p, 0, 4), p = put_number(p, 1, 2), p = put_number(p, 1, 2);
    p = put_number(p, bytes, 4), p = put_number(p, begin, 4), p = put_number(p, 0, 2);
    *zip_n = (size_t)(p - zip);
    return zip;
}

static zt_status try_deflated(const uint8_t *data, size_t count, uint32_t size, uint32_t crc, size_t most)
{
    bool sound = true;
    size_t zip_n;
    uint8_t *zip = deflated(data, count, size, crc, &zip_n);
    zt_status st = io_try(&io_npz, zip, zip_n, most, &sound);
    free(zip);
    return sound ? st : ZT_EBUG;
}

static void test_deflated(void)
{
    enum { N = 3 << 20 };
    uint8_t small[400], *big = calloc(1, N);
    size_t count = make_fortran(small);
    uint32_t crc = (uint32_t)crc32(0, small, (uInt)count);
    ok(try_deflated(small, count, (uint32_t)count, crc, 1 << 20) == ZT_OK, "deflated, in Fortran order");
    ok(try_deflated(small, count, (uint32_t)count, crc ^ 1, 1 << 20) == ZT_EDATA, "a wrong CRC-32");
    ok(try_deflated(small, count, (uint32_t)count - 1, crc, 1 << 20) == ZT_EDATA, "a size too small");
    ok(try_deflated(small, count, (uint32_t)count + 1, crc, 1 << 20) == ZT_EDATA, "a size too large");
    int head = sprintf((char *)big, "\x93NUMPY\x01%c", 0);
    head += 2 + sprintf((char *)big + 10,
                        "{'descr': '|u1', 'fortran_order': False, "
                        "'shape': (%d,), } \n",
                        N - 80);
    put_number(big + 8, 80 - 10, 2);
    memset(big + head, ' ', (size_t)(80 - head));
    crc = (uint32_t)crc32(0, big, N);
    ok(try_deflated(big, N, N, crc, 1 << 20) == ZT_OK, "3 MB of zeros, in 1 MB of memory");
    put_number(big + 8, 70, 2);
    memcpy(strchr((char *)big + 10, '('), "(9,), }    ", 11);
    crc = (uint32_t)crc32(0, big, N);
    ok(try_deflated(big, N, N, crc, 1 << 20) == ZT_EDATA, "3 MB behind a header that says 9 bytes");
    free(big);
}

/* The archive of a small array, its name's first byte and the flags of local header and directory
 * changed. */
static zt_status try_name(char first, uint16_t local_flags, uint16_t flags)
{
    uint8_t small[400];
    size_t count = make_fortran(small), zip_n;
    bool sound = true;
    uint8_t *zip = deflated(small, count, (uint32_t)count, (uint32_t)crc32(0, small, (uInt)count), &zip_n);
    uint8_t *entry = zip + zip_n - 22 - 51;
    zip[30] = entry[46] = (uint8_t)first;
    put_number(zip + 6, local_flags, 2);
    put_number(entry + 8, flags, 2);
    zt_status st = io_try(&io_npz, zip, zip_n, 1 << 20, &sound);
    free(zip);
    return sound ? st : ZT_EBUG;
}

static void test_names(void)
{
    enum { UTF8 = 1 << 11 };
    ok(try_name('b', UTF8, UTF8) == ZT_OK, "a name that is UTF-8, and says so");
    ok(try_name((char)0xE9, 0, 0) == ZT_OK, "a name of another encoding");
    ok(try_name((char)0xE9, UTF8, UTF8) == ZT_EDATA, "that says it is UTF-8");
    ok(try_name((char)0xE9, 0, UTF8) == ZT_EDATA, "in the directory alone");
    ok(try_name((char)0xE9, UTF8, 0) == ZT_EDATA, "in its header alone");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!folder_make("npz")) return 1;
    test_written(ctx, &io_npz, &arrays_npz, "a.npz", row, ROWS);
    test_numpy();
    test_zipfile(ctx);
    test_libzip(ctx);
    test_many(ctx);
    test_writer_faults(ctx);
    test_fortran(ctx);
    test_deflated();
    test_names();
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    unlink(under("a.npz"));
    ok(rmdir(folder) == 0, "tidy");
    return tap_done();
}
