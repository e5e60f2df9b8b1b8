/* pt.c - a fuzz target for the reader of PyTorch's checkpoints: any bytes are refused, or read
 * without harm, in 64 MiB of memory beyond their own. Bytes that begin neither a zip nor the older
 * format are taken as a pickle alone, which is put in both: a mutation need not keep sums.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/io/pt.h"

#include "tests/fuzz/mutate_pickle.h"
#include "tests/common/read_arrays.h"
#include "tests/io/pt_writer.h"

IO_KIND(pt)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static zt_status read_file(const uint8_t *bytes, size_t n)
{
    bool sound = true;
    zt_status st = io_try(&io_pt, bytes, n, n + (64 << 20), &sound);
    if (!sound || (st != ZT_OK && st != ZT_EDATA)) abort(); /* an unsound file was opened, or a sound answer is missing */
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    size_t size;
    io_most = 1 << 20;
    if (zt_pt_sniff(bytes, count) || (count > 2 && memcmp(bytes, "PK", 2) == 0)) {
        read_file(bytes, count);
        return 0;
    }
    uint8_t *zip = ptw_zip(bytes, count, &size);
    zt_status in_zip = read_file(zip, size);
    free(zip);
    uint8_t *older = ptw_older(bytes, count, 3, &size);
    zt_status in_older = read_file(older, size);
    free(older);
    /* The zip allows no less, but for a frame (0x95) that ends in the pickle behind it. */
    if (in_zip == ZT_EDATA && in_older == ZT_OK && !memchr(bytes, 0x95, count)) abort();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed)
{
    mutant m = {bytes, size, most, seed};
    return !zt_pt_sniff(bytes, size) && draw(&m, 2) && mutate_pickle(&m) ? m.size : LLVMFuzzerMutate(bytes, size, most);
}
