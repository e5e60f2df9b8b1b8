/* main.c - drives a fuzz target without libFuzzer: for gcc, for a crash's file, for afl's @@.
 *
 *   fuzz_TARGET [-n RUNS] [-s SEED] [-c CHANGES] [-o FILE] FILE...
 *
 * Every file is run as it is; then RUNS times a file is drawn, changed at 1 to CHANGES (8) places (bytes,
 * numbers at their limits, pieces cut, doubled or taken from another file) and run. The same seed
 * makes the same inputs. -o writes each input that a target reports (result.h) and what became of it: its size in bytes (u32), the
 * bytes, the length of the message by which it was refused (0: it was read), and the message. Coverage does not guide it: that is libFuzzer's part (make fuzz).
 */
#include "lib/base/base.h"
#include "tests/common/npy.h"
#include "tests/fuzz/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
/* Of targets that know the structure of their input (mutate.h). */
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most);

enum { MOST = 1 << 16 }; /* bytes of an input that is changed */

typedef struct input {
    uint8_t *bytes;
    size_t n;
} input;

static uint64_t state;
static size_t most_changes = 8; /* of an input */

static size_t below(size_t n) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (size_t)((z ^ z >> 31) % n);
}

/* ---- changes: each makes one of n bytes at b, which has room for MOST, and returns the new n --- */

static size_t flip_bit(uint8_t *b, size_t n, const input *other)
{
    (void)other;
    b[below(n)] ^= (uint8_t)(1u << below(8));
    return n;
}

static size_t set_byte(uint8_t *b, size_t n, const input *other)
{
    (void)other;
    b[below(n)] = (uint8_t)below(256);
    return n;
}

static size_t set_number(uint8_t *b, size_t n, const input *other)
{
    static const uint64_t limits[] = {
        0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX, UINT64_C(1) << 63, 31, 32, 33, 1 << 16};
    size_t width = (size_t)1 << below(4);
    uint64_t v = limits[below(sizeof limits / sizeof *limits)];
    (void)other;
    if (width <= n) memcpy(b + below(n - width + 1), &v, width);
    return n;
}

static size_t cut(uint8_t *b, size_t count, const input *other)
{
    size_t at = below(count), len = 1 + below(count - at);
    (void)other;
    len = below(4) ? 1 + len % 16 : len;
    len = len < count - at ? len : count - at;
    memmove(b + at, b + at + len, count - at - len);
    return count - len;
}

/* `len` bytes from `from` (not in b) go in at a drawn place. */
static size_t insert(uint8_t *b, size_t n, const uint8_t *from, size_t len)
{
    size_t at = below(n + 1);
    if (n + len > MOST) return n;
    memmove(b + at + len, b + at, n - at);
    memcpy(b + at, from, len);
    return n + len;
}

static size_t repeat(uint8_t *b, size_t count, const input *other)
{
    uint8_t piece[64];
    size_t len = 1 + below(sizeof piece), at;
    (void)other;
    len = len < count ? len : count;
    at = below(count - len + 1);
    memcpy(piece, b + at, len);
    return insert(b, count, piece, len);
}

static size_t graft(uint8_t *b, size_t n, const input *other)
{
    if (!other->n) return n;
    size_t at = below(other->n), len = 1 + below(other->n - at);
    return insert(b, n, other->bytes + at, len < 256 ? len : 256);
}

static size_t (*const changes[])(uint8_t *, size_t, const input *) = {
    flip_bit, set_byte, set_number, set_number, cut, repeat, graft,
};

static const input *grafted; /* what graft takes pieces of */

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most)
{
    return size && most == MOST ? changes[below(sizeof changes / sizeof *changes)](bytes, size, grafted) : size;
}

static size_t change(uint8_t *bytes, size_t size)
{
    return LLVMFuzzerCustomMutator ? LLVMFuzzerCustomMutator(bytes, size, MOST, (unsigned)below(UINT32_MAX))
                                   : LLVMFuzzerMutate(bytes, size, MOST);
}

static void run_changed(const input *in, size_t n_in, uint8_t *room)
{
    const input *base = &in[below(n_in)], *other = &in[below(n_in)];
    size_t size = base->n < MOST ? base->n : MOST;
    memcpy(room, base->bytes, size);
    grafted = other;
    for (size_t k = 1 + below(most_changes); k && size; k--) size = change(room, size);
    uint8_t *exact = malloc(size ? size : 1); /* so that a sanitizer sees one byte too far */
    memcpy(exact, room, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

/* ---- results ------------------------------------------------------------------------------------ */

static FILE *results; /* of -o; NULL: not given */

static void put_piece(const void *bytes, size_t size)
{
    uint32_t length = (uint32_t)size;
    if (fwrite(&length, sizeof length, 1, results) != 1 || (size && fwrite(bytes, size, 1, results) != 1)) {
        perror("fuzz: results");
        exit(74);
    }
}

void fuzz_result(const void *bytes, size_t size, const char *message)
{
    if (!results) return;
    put_piece(bytes, size);
    put_piece(message, strlen(message));
}

int main(int argc, char **argv)
{
    long long runs = 0;
    for (int c; (c = getopt(argc, argv, "n:s:c:o:")) != -1;) {
        if (c == 'n')
            runs = atoll(optarg);
        else if (c == 's')
            state = (uint64_t)atoll(optarg);
        else if (c == 'c')
            most_changes = (size_t)atoll(optarg) > 0 ? (size_t)atoll(optarg) : 1;
        else if (c != 'o' || !(results = fopen(optarg, "wb")))
            return 64;
    }
    size_t count = 0;
    input *in = calloc((size_t)argc, sizeof *in);
    uint8_t *room = malloc(MOST);
    for (int i = optind; i < argc; i++) {
        in[count].bytes = npy_file(argv[i], &in[count].n);
        if (!in[count].bytes) {
            fprintf(stderr, "%s: cannot read\n", argv[i]);
            return 66;
        }
        LLVMFuzzerTestOneInput(in[count].bytes, in[count].n);
        count++;
    }
    for (long long i = 0; count && i < runs; i++) run_changed(in, count, room);
    if (results && fclose(results) != 0) return 74;
    printf("%zu files and %lld inputs made from them\n", count, count ? runs : 0);
    for (size_t i = 0; i < count; i++) free(in[i].bytes);
    free(room);
    free(in);
    return 0;
}
