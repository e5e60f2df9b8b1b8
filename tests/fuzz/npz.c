/* npz.c - a fuzz target for the .npz reader: any bytes are refused, or read without harm, in
 * 64 MiB of memory beyond their own. `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without.
 */
#include "lib/io/npz.h"

#include "tests/common/read_arrays.h"

IO_KIND(npz)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    bool sound = true;
    io_most = 1 << 20;
    zt_status st = io_try(&io_npz, bytes, count, count + (64 << 20), &sound);
    if (!sound || (st != ZT_OK && st != ZT_EDATA && st != ZT_ENOTSUP))
        abort(); /* an unsound file was opened, or a sound answer is missing */
    return 0;
}
