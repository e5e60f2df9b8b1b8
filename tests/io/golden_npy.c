/* golden_npy.c - holds the readers of .npy and .npz to the golden set formats/npy. */
#include "lib/io/npy.h"
#include "lib/io/npz.h"

#include "tests/io/golden_arrays.h"

IO_KIND(npy)
IO_KIND(npz)

static const io_kind *kind(const char *file)
{
    size_t n = strlen(file);
    return n > 4 && strcmp(file + n - 4, ".npz") == 0 ? &io_npz : &io_npy;
}

int main(void)
{
    golden_io g = {.set = "npy", .list = "arrays", .name = "member", .dtype = "descr", .kind = kind};
    golden_io_run(&g);
    return tap_done();
}
