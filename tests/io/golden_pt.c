/* golden_pt.c - holds the reader of PyTorch's checkpoints to the golden set formats/pt. */
#include "lib/io/pt.h"

#include "tests/io/golden_arrays.h"

IO_KIND(pt)

static const io_kind *kind(const char *file)
{
    (void)file;
    return &io_pt;
}

int main(void)
{
    golden_io g = {.set = "pt", .list = "tensors", .name = "path", .dtype = "dtype", .kind = kind};
    golden_io_run(&g);
    return tap_done();
}
